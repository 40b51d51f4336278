"""Column-wise: a table's columns are spread over ranks."""

from __future__ import annotations

from torchrec.distributed.sharding.cw_sharding import CwPooledEmbeddingSharding

from torchrec_ascend.sharding.tw import AscendTwOutputDist


class AscendCwPooledEmbeddingSharding(AscendTwOutputDist, CwPooledEmbeddingSharding):
    """A table's columns lie on several ranks; upstream's permute callback orders the result."""
