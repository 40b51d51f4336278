"""Table-column-wise: a table's columns are spread over the ranks of one node."""

from __future__ import annotations

from torchrec.distributed.sharding.twcw_sharding import TwCwPooledEmbeddingSharding

from torchrec_ascend.sharding.tw import AscendTwOutputDist


class AscendTwCwPooledEmbeddingSharding(AscendTwOutputDist, TwCwPooledEmbeddingSharding):
    """As column-wise; only the plan differs."""
