"""The trial of a process group on emulated NPUs. Runs in emulated processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.splits import RankSplits

FAULT = "NPU_EMU_FAULT"


@contextmanager
def zeros(operator: str) -> Iterator[None]:
    """That collective delivers zeros without an error, as HCCL has done (more than two ranks)."""
    os.environ[FAULT] = f"collective_zeros={operator}"
    try:
        yield
    finally:
        del os.environ[FAULT]


def create(device_is_known: bool) -> None:
    """An all-to-all on a new group, which the first one tries out."""
    group = dist.new_group()
    assert group is not None
    device = torch.device("npu", dist.get_rank()) if device_is_known else None
    AscendPooledEmbeddingsAllToAll(group, RankSplits((4,) * group.size()), device)


def message(operator: str, device_is_known: bool) -> str:
    """What creating it says while the collective is broken, "" if nothing."""
    with zeros(operator):
        try:
            create(device_is_known)
        except RuntimeError as error:
            return str(error)
    return ""
