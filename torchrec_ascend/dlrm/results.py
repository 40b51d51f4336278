"""What a run leaves behind: runs/<name>/config.yaml and runs/<name>/result.json."""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_ascend

WARMUP_STEPS = 10  # the first steps of a run, which also allocate: not in any timing


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version(), "torchrec_ascend": torchrec_ascend.__version__}
    for name, packages in {
        "torch": ("torch",),
        "torchrec": ("torchrec",),
        "fbgemm_gpu": ("fbgemm-gpu-cpu", "fbgemm-gpu"),
    }.items():
        for package in packages:
            try:
                found.setdefault(name, version(package))
            except PackageNotFoundError:
                continue
    return found


def timing(step_seconds: list[float], step_rows: list[int]) -> dict[str, Any]:
    """{"samples_per_s", "step_ms": {"mean", "p50", "p99"}} without the first WARMUP_STEPS steps.

    Args:
        step_seconds: of each training step, from taking its batch to the optimizer's step.
        step_rows: rows of all ranks in each step.

    All None where no step is left.
    """
    seconds, rows = np.array(step_seconds[WARMUP_STEPS:]), step_rows[WARMUP_STEPS:]
    if len(seconds) == 0:
        return {"samples_per_s": None, "step_ms": dict.fromkeys(("mean", "p50", "p99"))}
    p50, p99 = np.percentile(seconds, (50, 99))
    return {
        "samples_per_s": sum(rows) / float(seconds.sum()),
        "step_ms": {
            "mean": 1e3 * float(seconds.mean()),
            "p50": 1e3 * float(p50),
            "p99": 1e3 * float(p99),
        },
    }


def to_json(result: dict[str, Any]) -> str:
    """Strict JSON: NaN becomes null."""
    return json.dumps(_without_nan(result), indent=2, allow_nan=False)


def write(path: str | Path, text: str) -> None:
    """Writes the file whole or not at all; makes its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp makes private files
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
