"""Data-parallel: every rank has the table; there is no exchange."""

from __future__ import annotations

from torchrec.distributed.sharding.dp_sharding import DpPooledEmbeddingSharding

from torchrec_ascend.sharding.lookup import AscendPooledLookup


class AscendDpPooledEmbeddingSharding(AscendPooledLookup, DpPooledEmbeddingSharding):
    """A table lies whole on every rank, and its gradients are averaged."""

    lookup_is_sharded = False
