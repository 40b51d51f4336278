"""Drop-in sharders: TorchRec's sharding types with the compiled recat in their output dist.

One line changes in a user's script::

    sharders = [AscendEmbeddingBagCollectionSharder(fused_params=...)]

tw, cw, twcw, rw, twrw and grid override the output dist of one TorchRec sharding type each; mean,
checks and weights are what the sharded module adds around them. Plans, the input exchange, lookups
and state_dict stay TorchRec's own.
"""

from torchrec_ascend.sharding.embeddingbag import (
    AscendEmbeddingBagCollectionSharder,
    AscendShardedEmbeddingBagCollection,
)

__all__ = ["AscendEmbeddingBagCollectionSharder", "AscendShardedEmbeddingBagCollection"]
