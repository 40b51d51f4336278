"""Which lookup serves a device: fbgemm's, or ours of stock operators."""

from __future__ import annotations

import os

import torch

SWITCH = "TORCHREC_ASCEND_LOOKUP"
CHOICES = ("auto", "composed", "fbgemm")


def lookup_for(device: torch.device | None) -> str:
    """The name of the lookup for tables on `device`: "fbgemm" or "composed".

    fbgemm's TBE where it has kernels (cpu, cuda, mtia, and meta, where nothing runs), else ours; or
    the one that the environment variable TORCHREC_ASCEND_LOOKUP names.

    Raises:
        ValueError: the variable has another value than `CHOICES`.
    """
    choice = os.environ.get(SWITCH, "auto")
    if choice not in CHOICES:
        raise ValueError(f"{SWITCH} is {choice!r}, expected one of {CHOICES}")
    if choice != "auto":
        return choice
    fbgemm = device is None or device.type in ("cpu", "cuda", "mtia", "meta")
    return "fbgemm" if fbgemm else "composed"
