"""What a device offers. The one place that tells devices apart by name."""

from __future__ import annotations

import torch


def lookup_output_dtypes(device: torch.device | None) -> tuple[torch.dtype, ...]:
    """Dtypes in which the device's embedding lookup can answer."""
    if device is not None and device.type == "cpu":
        return (torch.float32, torch.float16)  # fbgemm's CPU kernels (1.8.0) have no bfloat16
    return (torch.float32, torch.float16, torch.bfloat16)
