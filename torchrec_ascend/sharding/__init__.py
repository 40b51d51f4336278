"""Drop-in sharders: TorchRec's sharding types with the compiled recat in their output dist.

One line changes in a user's script::

    sharders = [AscendEmbeddingBagCollectionSharder(fused_params=...)]

Each file below overrides the output dist of one TorchRec sharding type and nothing else: plans,
input dists, lookups and state_dict stay TorchRec's own.
"""

from torchrec_ascend.sharding.embeddingbag import (
    AscendEmbeddingBagCollectionSharder,
    AscendShardedEmbeddingBagCollection,
)

__all__ = ["AscendEmbeddingBagCollectionSharder", "AscendShardedEmbeddingBagCollection"]
