"""Mixed into TorchRec's shardings: where fbgemm has no kernels, their lookup is ours."""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embedding_sharding import BaseEmbeddingLookup
from torchrec.distributed.embedding_types import GroupedEmbeddingConfig
from torchrec.distributed.types import ShardingType

from torchrec_ascend.lookup.choice import lookup_for
from torchrec_ascend.lookup.kernels import (
    AscendGroupedEmbeddingsLookup,
    AscendGroupedPooledEmbeddingsLookup,
)


class AscendPooledLookup:
    """For pooled shardings.

    lookup_sharding_type: what TorchRec's own create_lookup passes on (a MEAN over rows is summed).
    """

    lookup_sharding_type: ShardingType | None = None

    def create_lookup(
        self: Any, device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None, feature_processor: Any = None,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        device = device if device is not None else self._device
        if lookup_for(device) == "fbgemm":
            return super().create_lookup(device, fused_params, feature_processor)  # type: ignore[misc]
        return AscendGroupedPooledEmbeddingsLookup(
            grouped_configs=_local_configs(self),
            pg=_group(self),
            device=device,
            feature_processor=feature_processor,
            scale_weight_gradients=self._lookup_is_sharded(),
            sharding_type=self.lookup_sharding_type,
            env=self._env,
        )

    def _lookup_is_sharded(self) -> bool:
        """Whether gradients are divided by the number of ranks on their way here."""
        return True


class AscendSequenceLookup:
    """For sequence shardings."""

    def create_lookup(
        self: Any, device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None, feature_processor: Any = None,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        device = device if device is not None else self._device
        if lookup_for(device) == "fbgemm":
            return super().create_lookup(device, fused_params, feature_processor)  # type: ignore[misc]
        return AscendGroupedEmbeddingsLookup(
            grouped_configs=_local_configs(self), pg=_group(self), device=device, env=self._env
        )


def _local_configs(sharding: Any) -> list[GroupedEmbeddingConfig]:
    """Of this rank's tables: table-row-wise and grid keep them for all ranks."""
    if hasattr(sharding, "_grouped_embedding_configs"):
        return sharding._grouped_embedding_configs
    return sharding._grouped_embedding_configs_per_rank[sharding._rank]


def _group(sharding: Any) -> Any:
    return getattr(sharding, "_pg", None) or sharding._env.process_group
