"""Who owns which columns: the one home of the wire layout of pooled embeddings.

A batch of B rows whose columns belong to R ranks, `dims[r]` to rank r::

    rows  [B, sum(dims)]                          flat  [B * sum(dims)]

            dims[0]   dims[1]      dims[3]            rank 0: B * dims[0]  elements, row by row
          |         |            |         |          rank 1: B * dims[1]
    row 0 | a0 a0   | b0 b0 b0   | d0      |          rank 3: B * dims[3]
    row 1 | a1 a1   | b1 b1 b1   | d1      |
                                                      | a0 a0 a1 a1 | b0 b0 b0 b1 b1 b1 | d0 d1 |
          ^0        ^2           ^5                   ^0            ^B * 2              ^B * 5
          offsets = [0, 2, 5, 5], dims = [2, 3, 0, 1]

`recat` copies rows -> flat (the gradient a rank sends), `unrecat` flat -> rows (the embeddings a
rank received). A rank without tables has dims[r] == 0 and occupies nothing.

Pure data: no torch.distributed, no device until :meth:`RankSplits.to`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class RankSplits:
    """Columns per rank and where they begin.

    Args:
        dims: embedding columns (features times dimension, in elements) owned by each rank, >= 0.

    Raises:
        ValueError: no ranks, or a negative entry (names the rank and the value).
    """

    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dims", tuple(int(dim) for dim in self.dims))
        if not self.dims:
            raise ValueError("dims is empty, expected one entry per rank")
        for rank, dim in enumerate(self.dims):
            if dim < 0:
                raise ValueError(f"dims[{rank}] is {dim}, expected >= 0")

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First column of each rank: the exclusive prefix sum of dims."""
        return tuple(itertools.accumulate((0, *self.dims[:-1])))

    @cached_property
    def _tensors(self) -> dict[torch.device, tuple[Tensor, Tensor]]:
        return {}

    @property
    def num_ranks(self) -> int:
        return len(self.dims)

    @property
    def width(self) -> int:
        """Columns of one row: sum(dims)."""
        return self.offsets[-1] + self.dims[-1]

    @classmethod
    def from_sharding_infos(
        cls, infos: Sequence[Any], num_ranks: int, ranks_per_group: int = 1
    ) -> RankSplits:
        """From the tables of one sharding type, as the plan places them.

        A table counts once per feature, and per column shard it has in a group; row shards of the
        same columns inside one group are summed before the exchange, so they count once.

        Args:
            infos: TorchRec `EmbeddingShardingInfo` of tables that share a sharding type.
            num_ranks: ranks of the exchange: the world, or the nodes for table-row-wise and grid.
            ranks_per_group: global ranks per rank of the exchange: 1, or the ranks of a node.

        Raises:
            ValueError: a shard lies on a rank that the exchange does not have.
        """
        dims = [0] * num_ranks
        for info in infos:
            table, sharding = info.embedding_config, info.param_sharding
            seen: set[tuple[int, int]] = set()
            for rank, shard in zip(sharding.ranks, sharding.sharding_spec.shards, strict=True):
                group, first_column = rank // ranks_per_group, shard.shard_offsets[1]
                if not 0 <= group < num_ranks:
                    raise ValueError(
                        f"table {table.name!r} has a shard on rank {rank}, expected a rank below "
                        f"{num_ranks * ranks_per_group}"
                    )
                if (group, first_column) not in seen:
                    seen.add((group, first_column))
                    dims[group] += shard.shard_sizes[1] * len(table.feature_names)
        return cls(tuple(dims))

    def to(self, device: torch.device | str) -> tuple[Tensor, Tensor]:
        """(dims, offsets) as int64 tensors of shape [num_ranks]; made once per device."""
        device = torch.device(device)
        if device not in self._tensors:
            self._tensors[device] = (
                torch.tensor(self.dims, dtype=torch.int64, device=device),
                torch.tensor(self.offsets, dtype=torch.int64, device=device),
            )
        return self._tensors[device]

    def owned_sizes(self, rank: int, batch_sizes: Sequence[int]) -> list[int]:
        """Elements of `rank`'s columns for each rank's rows: what it sends in the forward pass,
        and receives in the backward pass.

        Args:
            batch_sizes: rows of each rank, length num_ranks.
        """
        return [batch * self.dims[rank] for batch in batch_sizes]

    def row_sizes(self, batch_size: int) -> list[int]:
        """Elements of each rank's columns for `batch_size` own rows: what a rank receives in the
        forward pass, and sends in the backward pass."""
        return [batch_size * dim for dim in self.dims]
