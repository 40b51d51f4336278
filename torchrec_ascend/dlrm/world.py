"""The processes of a run: torch.distributed as torchrun describes it, or one process alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from torchrec_ascend.device import rank_device

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class World:
    """This process among all: global rank, number of ranks, ranks of a node, its device."""

    rank: int
    size: int
    local_size: int
    device: torch.device

    @property
    def group(self) -> dist.ProcessGroup:
        group = dist.group.WORLD
        assert group is not None
        return group


@contextmanager
def join_world(device: str, backend: str) -> Iterator[World]:
    """Initialises torch.distributed from torchrun's environment and destroys it at the end.

    Chooses this process's device first: a process group binds to the current one. Without any of
    torchrun's variables: a world of one process. With some of them: RuntimeError.
    """
    chosen = rank_device(device)
    missing = [name for name in _NEEDED if name not in os.environ]
    if len(missing) == len(_NEEDED):
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    elif missing:
        raise RuntimeError(f"{', '.join(missing)} missing in the environment: start with torchrun")
    else:
        dist.init_process_group(backend)
    try:
        size = dist.get_world_size()
        local_size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
        yield World(dist.get_rank(), size, local_size, chosen)
    finally:
        dist.destroy_process_group()
