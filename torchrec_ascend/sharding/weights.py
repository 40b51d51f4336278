"""Weights that were set before sharding survive it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed._shard.sharded_tensor.api import ShardedTensor
from torch.distributed.tensor import DTensor


def copy_weights(source: nn.Module, sharded: Any) -> None:
    """Copies each table of an unsharded collection into the local shards of its sharded form.

    TorchRec does this for a source on an accelerator and draws new weights for one on the CPU. A
    source on the meta device has no weights: the sharded module keeps what its init_fn drew.
    Replicated tables take global rank 0's, as upstream's do, whatever each rank had.
    """
    tables = source.state_dict()
    if any(tensor.is_meta for tensor in tables.values()):
        return
    with torch.no_grad():
        for name, target in sharded.state_dict().items():
            table = tables.get(name)
            if table is None:
                continue
            if isinstance(target, ShardedTensor):
                for shard in target.local_shards():
                    _copy_block(table, shard.tensor, shard.metadata.shard_offsets)
            elif isinstance(target, DTensor):
                local: Any = target.to_local()  # TorchRec's wrapper of this rank's shards
                for tensor, offsets in zip(
                    local.local_shards(), local.local_offsets(), strict=True
                ):
                    _copy_block(table, tensor, offsets)
            else:
                target.copy_(table)
                if sharded._env.process_group is not None:
                    dist.broadcast(target, src=0, group=sharded._env.process_group)


def _copy_block(table: Tensor, shard: Tensor, offsets: Sequence[int]) -> None:
    (row, column), (rows, columns) = offsets, shard.shape
    shard.copy_(table[row : row + rows, column : column + columns])
