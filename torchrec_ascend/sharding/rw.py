"""Row-wise: upstream's, but for the reduce-scatter of unequal batches."""

from __future__ import annotations

import torch
from torchrec.distributed.embedding_sharding import BaseEmbeddingDist, EmbeddingShardingContext
from torchrec.distributed.sharding.rw_sharding import (
    RwPooledEmbeddingDist,
    RwPooledEmbeddingSharding,
)
from torchrec.distributed.types import ShardingType

from torchrec_ascend.reduce_scatter import AscendPooledEmbeddingsReduceScatter
from torchrec_ascend.sharding.lookup import AscendPooledLookup


class AscendRwPooledEmbeddingDist(RwPooledEmbeddingDist):
    """Upstream's output dist with our reduce-scatter; the variable-batch one stays upstream's."""

    def _create_output_dist_module(
        self, sharding_ctx: EmbeddingShardingContext | None = None
    ) -> None:
        if sharding_ctx is not None and sharding_ctx.variable_batch_per_feature:
            super()._create_output_dist_module(sharding_ctx)
        else:
            self._dist = AscendPooledEmbeddingsReduceScatter(self._pg, self._codecs)


class AscendRwPooledEmbeddingSharding(AscendPooledLookup, RwPooledEmbeddingSharding):
    """A table's rows lie on all ranks."""

    lookup_sharding_type = ShardingType.ROW_WISE

    def create_output_dist(
        self, device: torch.device | None = None
    ) -> BaseEmbeddingDist[EmbeddingShardingContext, torch.Tensor, torch.Tensor]:
        upstream = super().create_output_dist(device)
        return AscendRwPooledEmbeddingDist(
            pg=upstream._pg,
            embedding_dims=upstream._embedding_dims,
            qcomm_codecs_registry=upstream._qcomm_codecs_registry,
        )
