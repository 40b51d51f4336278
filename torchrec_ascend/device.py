"""What a device offers. The sharder asks here and never for a device's name."""

from __future__ import annotations

import torch


def lookup_dtypes(device: torch.device | None) -> tuple[torch.dtype, ...]:
    """Floating-point dtypes of tables and outputs that the device's embedding lookup has."""
    if device is not None and device.type == "cpu":
        return (torch.float32, torch.float16)  # fbgemm's CPU kernels (1.8.0) have no bfloat16
    return (torch.float32, torch.float16, torch.bfloat16)
