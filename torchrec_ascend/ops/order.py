"""Sorting ids on a device whose vector units sort floats."""

from __future__ import annotations

import torch
from torch import Tensor

# The smallest normal float32, as an integer: from here on, the bits of positive floats order as
# integers do, and no unit flushes them to zero.
_SMALLEST_NORMAL = 0x00800000
_LARGEST_FINITE = 0x7F7FFFFF
MOST = _LARGEST_FINITE - _SMALLEST_NORMAL


def ascending(keys: Tensor) -> Tensor:
    """[N] int64: the order that sorts `keys`, stable.

    Args:
        keys: [N] integers in [0, MOST]. Elsewhere than on a CPU they are sorted as floats: Ascend
            A2 and A3 sort those on vector cores, and integers on a slow control CPU.
    """
    if keys.device.type != "cpu":
        keys = keys.int().add_(_SMALLEST_NORMAL).view(torch.float32)
    return torch.argsort(keys, stable=True)
