"""The list to hand to `DistributedModelParallel` and the planner."""

from __future__ import annotations

from typing import Any

from torch import nn
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder

from torchrec_ascend.sharding.embedding import AscendEmbeddingCollectionSharder
from torchrec_ascend.sharding.embeddingbag import AscendEmbeddingBagCollectionSharder
from torchrec_ascend.sharding.wrappers import (
    AscendFeatureProcessedEmbeddingBagCollectionSharder,
    AscendManagedCollisionEmbeddingBagCollectionSharder,
    AscendManagedCollisionEmbeddingCollectionSharder,
)


def sharders(
    fused_params: dict[str, Any] | None = None,
    qcomm_codecs_registry: dict[str, Any] | None = None,
) -> list[ModuleSharder[nn.Module]]:
    """A sharder for each module type of TorchRec's `get_default_sharders()`, in its order.

    Ours where there is one, TorchRec's own for the rest (quantised modules, fused collections).
    Like TorchRec's list it leaves `nn.EmbeddingBag` and towers as they are: add
    :class:`~torchrec_ascend.sharding.wrappers.AscendEmbeddingBagSharder` and the tower sharders to
    have those sharded.

    Args:
        fused_params: for all of ours, as TorchRec's sharders take them.
        qcomm_codecs_registry: for all of ours.
    """
    pooled = AscendEmbeddingBagCollectionSharder(
        fused_params, qcomm_codecs_registry=qcomm_codecs_registry
    )
    sequence = AscendEmbeddingCollectionSharder(
        fused_params, qcomm_codecs_registry=qcomm_codecs_registry
    )
    codecs = {"qcomm_codecs_registry": qcomm_codecs_registry}
    ours: list[Any] = [
        pooled,
        sequence,
        AscendFeatureProcessedEmbeddingBagCollectionSharder(pooled, **codecs),
        AscendManagedCollisionEmbeddingBagCollectionSharder(pooled, **codecs),
        AscendManagedCollisionEmbeddingCollectionSharder(sequence, **codecs),
    ]
    by_type = {sharder.module_type: sharder for sharder in ours}
    return [by_type.get(default.module_type, default) for default in get_default_sharders()]
