"""Drop-in sharders: TorchRec's sharding types with the compiled recat in their output dist.

One line changes in a user's script::

    sharders = torchrec_ascend.sharding.sharders(fused_params=...)

or, for one module type, `[AscendEmbeddingBagCollectionSharder(fused_params=...)]`. tw, cw, twcw,
rw, twrw, grid and dp override one TorchRec sharding type each, sequence those of sequences;
mean, checks, ids and weights are what the sharded modules add around them; wrappers are the modules
that hold a collection. Plans, the input exchange and state_dict stay TorchRec's own.
"""

from torchrec_ascend.compat import warn_if_untested
from torchrec_ascend.sharding.all import sharders
from torchrec_ascend.sharding.embedding import (
    AscendEmbeddingCollectionSharder,
    AscendShardedEmbeddingCollection,
)
from torchrec_ascend.sharding.embeddingbag import (
    AscendEmbeddingBagCollectionSharder,
    AscendShardedEmbeddingBagCollection,
)

__all__ = [
    "AscendEmbeddingBagCollectionSharder",
    "AscendEmbeddingCollectionSharder",
    "AscendShardedEmbeddingBagCollection",
    "AscendShardedEmbeddingCollection",
    "sharders",
]

warn_if_untested()
