"""Table-row-wise: rows over the ranks of one node (reduce-scatter), then nodes (all-to-all).

Only the second half, across nodes, has a recat. Grid sharding has the same two halves and shares
the mixins below.
"""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
)
from torchrec.distributed.sharding.twrw_sharding import (
    TwRwPooledEmbeddingDist,
    TwRwPooledEmbeddingSharding,
)
from torchrec.distributed.types import ShardingEnv, ShardingType

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.reduce_scatter import AscendPooledEmbeddingsReduceScatter
from torchrec_ascend.sharding.checks import output_dtype
from torchrec_ascend.sharding.lookup import AscendPooledLookup
from torchrec_ascend.splits import RankSplits


class AscendCrossNodeDist:
    """Mixed into upstream's output dist: our reduce-scatter in the node, our all-to-all across."""

    def __init__(self, splits: RankSplits, dtype: torch.dtype, **kwargs: Any) -> None:
        super().__init__(dim_sum_per_node=list(splits.dims), **kwargs)  # type: ignore[call-arg]
        self._splits = splits
        self._dtype = dtype

    def _create_output_dist_modules(
        self: Any, sharding_ctx: EmbeddingShardingContext | None = None
    ) -> None:
        super()._create_output_dist_modules(sharding_ctx)  # type: ignore[misc]
        self._intra_dist = AscendPooledEmbeddingsReduceScatter(self._intra_pg, self._intra_codecs)
        self._cross_dist = AscendPooledEmbeddingsAllToAll(
            self._cross_pg,
            self._splits,
            self._device,
            self._cross_dist.callbacks,  # grid: the permute callback
            self._cross_codecs,
            self._dtype,
        )


class AscendCrossNodeSharding(AscendPooledLookup):
    """Mixed into upstream's sharding: its lookup is ours, its output dist `dist_class`."""

    lookup_sharding_type = ShardingType.TABLE_ROW_WISE  # grid too, as upstream

    dist_class: type

    def __init__(
        self, sharding_infos: list[EmbeddingShardingInfo], env: ShardingEnv, *args: Any, **kw: Any
    ) -> None:
        super().__init__(sharding_infos, env, *args, **kw)  # type: ignore[call-arg]
        nodes: Any = self
        self._splits = RankSplits.from_sharding_infos(
            sharding_infos, nodes._cross_pg.size(), nodes._intra_pg.size()
        )
        self._dtype = output_dtype(sharding_infos)

    def create_output_dist(
        self: Any, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, torch.Tensor, torch.Tensor]:
        upstream = super().create_output_dist(device)  # type: ignore[misc]
        callbacks = getattr(upstream, "_callbacks", None)  # grid: the permute callback
        return self.dist_class(
            self._splits,
            self._dtype,
            rank=self._rank,
            cross_pg=self._cross_pg,
            intra_pg=self._intra_pg,
            emb_dim_per_node_per_feature=self._emb_dim_per_node_per_feature(),
            device=upstream._device,
            qcomm_codecs_registry=self.qcomm_codecs_registry,
            **({"callbacks": callbacks} if callbacks else {}),
        )


class AscendTwRwPooledEmbeddingDist(AscendCrossNodeDist, TwRwPooledEmbeddingDist):
    """Reduce-scatter in the node, then our all-to-all across nodes."""


class AscendTwRwPooledEmbeddingSharding(AscendCrossNodeSharding, TwRwPooledEmbeddingSharding):
    """A table's rows lie on the ranks of one node."""

    dist_class = AscendTwRwPooledEmbeddingDist
