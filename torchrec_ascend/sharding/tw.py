"""Table-wise, and the output dist that column-wise and table-column-wise share with it."""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embedding_sharding import (
    BaseEmbeddingDist,
    EmbeddingShardingContext,
    EmbeddingShardingInfo,
)
from torchrec.distributed.sharding.tw_sharding import (
    TwPooledEmbeddingDist,
    TwPooledEmbeddingSharding,
)
from torchrec.distributed.types import ShardingEnv

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.sharding.checks import output_dtype
from torchrec_ascend.sharding.lookup import AscendPooledLookup
from torchrec_ascend.splits import RankSplits


class AscendTwPooledEmbeddingDist(TwPooledEmbeddingDist):
    """Upstream's output dist with our all-to-all; the variable-batch one stays upstream's."""

    def __init__(
        self,
        upstream: TwPooledEmbeddingDist,
        splits: RankSplits,
        dtype: torch.dtype,
        codecs: Any,
    ) -> None:
        super().__init__(
            pg=upstream._pg,
            dim_sum_per_rank=list(splits.dims),
            emb_dim_per_rank_per_feature=upstream._emb_dim_per_rank_per_feature,
            device=upstream._device,
            callbacks=upstream._callbacks,
            qcomm_codecs_registry=codecs,
        )
        self._splits = splits
        self._dtype = dtype

    def _create_output_dist_module(
        self, sharding_ctx: EmbeddingShardingContext | None = None
    ) -> None:
        super()._create_output_dist_module(sharding_ctx)
        self._dist = AscendPooledEmbeddingsAllToAll(
            self._pg, self._splits, self._device, self._callbacks, self._codecs, self._dtype
        )


class AscendTwOutputDist(AscendPooledLookup):
    """Mixed into upstream's table-wise and column-wise shardings: ours look up and send."""

    def __init__(
        self, sharding_infos: list[EmbeddingShardingInfo], env: ShardingEnv, *args: Any, **kw: Any
    ) -> None:
        super().__init__(sharding_infos, env, *args, **kw)  # type: ignore[call-arg]
        self._splits = RankSplits.from_sharding_infos(sharding_infos, env.world_size)
        self._dtype = output_dtype(sharding_infos)

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, torch.Tensor, torch.Tensor]:
        # Upstream's first: column-wise builds its permute callback there.
        upstream = super().create_output_dist(device)  # type: ignore[misc]
        return AscendTwPooledEmbeddingDist(
            upstream,
            self._splits,
            self._dtype,
            self.qcomm_codecs_registry,  # type: ignore[attr-defined]
        )


class AscendTwPooledEmbeddingSharding(AscendTwOutputDist, TwPooledEmbeddingSharding):
    """A table lies whole on one rank."""
