"""What ran where: the first lines of every result."""

from __future__ import annotations

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

import torch

import torchrec_ascend


def describe() -> dict[str, str]:
    """Date, processor and versions, for a result's header."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines()
                 if line.startswith("model name")]  # fmt: skip
        cpu = names[0] if names else cpu
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": f"{cpu}, {len(os.sched_getaffinity(0))} cores",
        "instruction set": torch.ops.torchrec_ascend._cpu_isa(),
        "torch": torch.__version__,
        "torchrec": metadata.version("torchrec"),
        "fbgemm": metadata.version("fbgemm-gpu-cpu"),
        "torchrec_ascend": torchrec_ascend.__version__,
    }


def header() -> str:
    return ", ".join(f"{key} {value}" for key, value in describe().items())
