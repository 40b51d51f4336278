"""Which backend serves which operator, and why: what `python -m torchrec_ascend.ops` prints."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torchrec_ascend.device import emulated_chip
from torchrec_ascend.ops import library

OPERATORS = (
    "torchrec_ascend::recat",
    "torchrec_ascend::recat.out",
    "torchrec_ascend::unrecat",
    "torchrec_ascend::unrecat.out",
    "fbgemm::recat_embedding_grad_output",
    "fbgemm::recat_embedding_grad_output_mixed_D",
    "fbgemm::recat_embedding_grad_output_mixed_D_batch",
)
DEVICES = {"cpu": "CPU", "npu": "PrivateUse1"}  # dispatch keys


@dataclass(frozen=True)
class Backend:
    """What runs when `operator` gets tensors on `device`."""

    operator: str
    device: str
    served_by: str
    reason: str


def backends() -> list[Backend]:
    """One entry per operator and device, from what is registered in this process."""
    return [_backend(operator, device) for device in DEVICES for operator in OPERATORS]


def _backend(operator: str, device: str) -> Backend:
    source = _registered_at(operator, DEVICES[device])
    if source is None:
        return Backend(operator, device, "nothing", library.npu_reason())
    if "fbgemm_gpu/src" in source:
        return Backend(operator, device, "fbgemm", "fbgemm_gpu is installed and has this kernel")
    if "layout_transform_ops" not in source:
        return Backend(operator, device, source, "registered before torchrec_ascend")
    if device == "cpu":
        isa = torch.ops.torchrec_ascend._cpu_isa()
        return Backend(operator, device, f"torchrec_ascend, {isa}", "the best this CPU runs")
    found, explanation = torch.ops.torchrec_ascend._npu_operator_package()
    served_by = "composition of stock operators"
    if found:
        served_by = "RecatCopyAsync (float64, and casts between 16-bit types: composition)"
    if emulated_chip(device) is not None:
        served_by += ", emulated"
    return Backend(operator, device, served_by, explanation)


def _registered_at(operator: str, key: str) -> str | None:
    """Source file and line of the kernel that is registered for that dispatch key."""
    marker = f"{key}: registered at "
    for line in torch._C._dispatch_dump(operator).splitlines():
        if line.startswith(marker):
            return line[len(marker) :].split(" :: ")[0]
    return None


def table() -> str:
    """The entries as text, one line each."""
    rows = [("device", "operator", "served by", "why")]
    rows += [(b.device, b.operator, b.served_by, b.reason) for b in backends()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for row in rows:
        padded = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*padded, row[3]]))
    return "\n".join(lines)
