"""Mixed into TorchRec's shardings: where fbgemm has no kernels, their lookup is ours."""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embedding_sharding import BaseEmbeddingLookup
from torchrec.distributed.embedding_types import EmbeddingComputeKernel, GroupedEmbeddingConfig
from torchrec.distributed.types import ShardingType

from torchrec_ascend.lookup.choice import lookup_for
from torchrec_ascend.lookup.kernels import (
    AscendGroupedEmbeddingsLookup,
    AscendGroupedPooledEmbeddingsLookup,
)


class _AscendLookup:
    """Chooses; a subclass builds."""

    def create_lookup(
        self: Any, device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None, feature_processor: Any = None,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        device = device if device is not None else self._device
        configs = _local_configs(self)
        if self._fbgemm_serves(device, configs):
            return super().create_lookup(device, fused_params, feature_processor)  # type: ignore[misc]
        group = getattr(self, "_pg", None) or self._env.process_group
        return self._own_lookup(configs, group, device, feature_processor)

    def _fbgemm_serves(
        self, device: torch.device | None, configs: list[GroupedEmbeddingConfig]
    ) -> bool:
        return lookup_for(device) == "fbgemm"


class AscendPooledLookup(_AscendLookup):
    """For pooled shardings.

    lookup_sharding_type: what TorchRec's own create_lookup passes on (a MEAN over rows is summed).
    lookup_is_sharded: whether gradients are divided by the number of ranks on their way here.
    """

    lookup_sharding_type: ShardingType | None = None
    lookup_is_sharded = True

    def _own_lookup(
        self: Any, configs: list[GroupedEmbeddingConfig], group: Any,
        device: torch.device | None, feature_processor: Any,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        return AscendGroupedPooledEmbeddingsLookup(
            grouped_configs=configs,
            pg=group,
            device=device,
            feature_processor=feature_processor,
            scale_weight_gradients=self.lookup_is_sharded,
            sharding_type=self.lookup_sharding_type,
            env=self._env,
        )


class AscendSequenceLookup(_AscendLookup):
    """For sequence shardings."""

    def _fbgemm_serves(
        self, device: torch.device | None, configs: list[GroupedEmbeddingConfig]
    ) -> bool:
        # fbgemm's dense kernel for the CPU knows no sequences: it returns sums of bags.
        on_cpu = device is None or device.type == "cpu"
        if on_cpu and any(c.compute_kernel == EmbeddingComputeKernel.DENSE for c in configs):
            return False
        return super()._fbgemm_serves(device, configs)

    def _own_lookup(
        self: Any, configs: list[GroupedEmbeddingConfig], group: Any,
        device: torch.device | None, feature_processor: Any,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        return AscendGroupedEmbeddingsLookup(
            grouped_configs=configs, pg=group, device=device, env=self._env
        )


def _local_configs(sharding: Any) -> list[GroupedEmbeddingConfig]:
    """Of this rank's tables: table-row-wise and grid keep them for all ranks."""
    if hasattr(sharding, "_grouped_embedding_configs"):
        return sharding._grouped_embedding_configs
    return sharding._grouped_embedding_configs_per_rank[sharding._rank]
