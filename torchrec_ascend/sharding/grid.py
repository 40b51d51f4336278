"""Grid: columns over nodes, each column shard's rows over the ranks of its node."""

from __future__ import annotations

from torchrec.distributed.sharding.grid_sharding import (
    GridPooledEmbeddingDist,
    GridPooledEmbeddingSharding,
)

from torchrec_ascend.sharding.twrw import AscendCrossNodeDist, AscendCrossNodeSharding


class AscendGridPooledEmbeddingDist(AscendCrossNodeDist, GridPooledEmbeddingDist):
    """As table-row-wise, with upstream's permute callback."""


class AscendGridPooledEmbeddingSharding(AscendCrossNodeSharding, GridPooledEmbeddingSharding):
    """A table is cut into column shards by node and row shards by rank."""

    dist_class = AscendGridPooledEmbeddingDist
