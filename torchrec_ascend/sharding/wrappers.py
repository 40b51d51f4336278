"""Sharders of the modules around an `EmbeddingBagCollection` or `EmbeddingCollection`.

TorchRec's, but for what they shard the inner collection with; so their exchanges of pooled
embeddings are ours too. Feature processors and managed collisions take an inner sharder; a single
`nn.EmbeddingBag` and the embedding towers name TorchRec's, and have a method overridden here.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchrec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo
from torchrec.distributed.embedding_tower_sharding import (
    EmbeddingTowerCollectionSharder,
    EmbeddingTowerSharder,
    ShardedEmbeddingTower,
    ShardedEmbeddingTowerCollection,
)
from torchrec.distributed.embedding_types import BaseEmbeddingSharder
from torchrec.distributed.embeddingbag import EmbeddingBagSharder, ShardedEmbeddingBag
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.mc_embedding import ManagedCollisionEmbeddingCollectionSharder
from torchrec.distributed.mc_embeddingbag import ManagedCollisionEmbeddingBagCollectionSharder
from torchrec.distributed.mc_modules import ManagedCollisionCollectionSharder
from torchrec.distributed.types import Awaitable, ParameterSharding, ShardingEnv, ShardingType
from torchrec.modules.embedding_configs import EmbeddingBagConfig
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.modules.embedding_tower import EmbeddingTower, EmbeddingTowerCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.selftest import check_all_to_all_once
from torchrec_ascend.sharding.checks import check_shards, trainable_plan
from torchrec_ascend.sharding.embedding import AscendEmbeddingCollectionSharder
from torchrec_ascend.sharding.embeddingbag import (
    SHARDINGS,
    AscendEmbeddingBagCollectionSharder,
    AscendShardedEmbeddingBagCollection,
)
from torchrec_ascend.sharding.placement import placed_on
from torchrec_ascend.sharding.weights import copy_weights
from torchrec_ascend.splits import RankSplits


class AscendFeatureProcessedEmbeddingBagCollectionSharder(
    FeatureProcessedEmbeddingBagCollectionSharder
):
    """For `FeatureProcessedEmbeddingBagCollection`; takes TorchRec's arguments and fused_params."""

    def __init__(
        self,
        ebc_sharder: AscendEmbeddingBagCollectionSharder | None = None,
        qcomm_codecs_registry: dict[str, Any] | None = None,
        fused_params: dict[str, Any] | None = None,
    ) -> None:
        inner = ebc_sharder or AscendEmbeddingBagCollectionSharder(
            fused_params, qcomm_codecs_registry=qcomm_codecs_registry
        )
        super().__init__(inner, qcomm_codecs_registry)


class _RemappedTypes:
    """Mixed into TorchRec's sharders of managed collisions."""

    def sharding_types(self: Any, compute_device_type: str) -> list[str]:
        # TorchRec asks the inner sharder too, whose row-wise types depend on the device's name.
        return self._mc_sharder.sharding_types(compute_device_type)


class AscendManagedCollisionEmbeddingBagCollectionSharder(
    _RemappedTypes, ManagedCollisionEmbeddingBagCollectionSharder
):
    """For `ManagedCollisionEmbeddingBagCollection`; takes TorchRec's arguments.

    TorchRec remaps ids in row-wise plans only, whose exchange is our reduce-scatter.
    """

    def __init__(
        self, ebc_sharder: AscendEmbeddingBagCollectionSharder | None = None,
        mc_sharder: ManagedCollisionCollectionSharder | None = None,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        inner = ebc_sharder or AscendEmbeddingBagCollectionSharder(
            fused_params, qcomm_codecs_registry=qcomm_codecs_registry
        )
        super().__init__(inner, mc_sharder, qcomm_codecs_registry=qcomm_codecs_registry)


class AscendManagedCollisionEmbeddingCollectionSharder(
    _RemappedTypes, ManagedCollisionEmbeddingCollectionSharder
):
    """For `ManagedCollisionEmbeddingCollection`; takes TorchRec's arguments."""

    def __init__(
        self, ec_sharder: AscendEmbeddingCollectionSharder | None = None,
        mc_sharder: ManagedCollisionCollectionSharder | None = None,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        inner = ec_sharder or AscendEmbeddingCollectionSharder(
            fused_params, qcomm_codecs_registry=qcomm_codecs_registry
        )
        super().__init__(inner, mc_sharder, qcomm_codecs_registry=qcomm_codecs_registry)


class AscendShardedEmbeddingBag(ShardedEmbeddingBag):
    """A sharded `nn.EmbeddingBag` with our shardings; weights set before sharding are kept."""

    def __init__(
        self,
        module: nn.EmbeddingBag,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        fused_params: dict[str, Any] | None = None,
        device: torch.device | None = None,
    ) -> None:
        (name,) = table_name_to_parameter_sharding
        rows, columns = module.weight.shape
        config = EmbeddingBagConfig(columns, rows, name=name)
        check_shards([config], table_name_to_parameter_sharding)
        check_all_to_all_once(env.process_group, device)
        super().__init__(module, table_name_to_parameter_sharding, env, fused_params, device)
        self._env = env
        copy_weights(module, self)

    @classmethod
    def create_embedding_bag_sharding(
        cls,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        permute_embeddings: bool = False,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> EmbeddingSharding[Any, KeyedJaggedTensor, Tensor, Tensor]:
        return AscendShardedEmbeddingBagCollection.create_embedding_bag_sharding(
            sharding_infos, env, device, permute_embeddings, qcomm_codecs_registry
        )

    def input_dist(
        self, ctx: Any, input: Tensor, offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Awaitable[Awaitable[KeyedJaggedTensor]]:  # fmt: skip
        if per_sample_weights is None:
            per_sample_weights = torch.ones_like(input, dtype=torch.float)
        names = self._embedding_sharding.feature_names()
        features = KeyedJaggedTensor(names[:1], input, offsets=offsets, weights=per_sample_weights)
        # TorchRec sends the ids once: a plan with columns on several ranks fails there.
        return self._input_dist(features.permute([0] * len(names)))


class AscendEmbeddingBagSharder(EmbeddingBagSharder):
    """For a single `nn.EmbeddingBag` with mode="sum".

    As in TorchRec its optimizer comes from `fused_params` alone, table-wise plans are refused, and
    all ranks' batches must be of one size.
    """

    def shard(
        self, module: nn.EmbeddingBag, params: dict[str, ParameterSharding], env: ShardingEnv,
        device: torch.device | None = None, module_fqn: str | None = None,
    ) -> AscendShardedEmbeddingBag:  # fmt: skip
        params = placed_on(device, params, env)
        plan = trainable_plan(params, self.shardable_parameters(module), self.fused_params)
        return AscendShardedEmbeddingBag(module, plan, env, self.fused_params, device)

    def sharding_types(self, compute_device_type: str) -> list[str]:
        return [kind for kind in SHARDINGS if kind != ShardingType.TABLE_WISE.value]


class _TowerOutput:
    """Mixed into TorchRec's sharded towers: their rows come home through our all-to-all."""

    def _create_output_dist(self: Any, *args: Any) -> None:
        super()._create_output_dist(*args)  # type: ignore[misc]
        upstream = self._output_dist
        self._output_dist = AscendPooledEmbeddingsAllToAll(
            upstream._pg,
            RankSplits(tuple(upstream._dim_sum_per_rank)),
            self._device,
            codecs=upstream._codecs,
        )


class AscendShardedEmbeddingTower(_TowerOutput, ShardedEmbeddingTower):
    """A sharded `EmbeddingTower`: collection and interaction on one node."""


class AscendShardedEmbeddingTowerCollection(_TowerOutput, ShardedEmbeddingTowerCollection):
    """A sharded `EmbeddingTowerCollection`: each tower on one node."""


def _tower_device(device: torch.device | None) -> torch.device | None:
    """None for the CPU, which is the same there: TorchRec hands the device to
    DistributedDataParallel as a card, and that refuses the CPU."""
    return None if device is not None and device.type == "cpu" else device


class AscendEmbeddingTowerSharder(EmbeddingTowerSharder):
    """For `EmbeddingTower`; takes TorchRec's arguments."""

    def shard(
        self, module: EmbeddingTower, params: dict[str, ParameterSharding], env: ShardingEnv,
        device: torch.device | None = None, module_fqn: str | None = None,
    ) -> AscendShardedEmbeddingTower:  # fmt: skip
        kjt_features, wkjt_features = self.embedding_feature_names(module)
        return AscendShardedEmbeddingTower(
            module, params, self.embedding_sharder(module), kjt_features, wkjt_features, env,
            self.fused_params, _tower_device(device), self.qcomm_codecs_registry,
        )  # fmt: skip

    def embedding_sharder(self, module: EmbeddingTower) -> BaseEmbeddingSharder[nn.Module]:
        upstream = super().embedding_sharder(module)  # refuses other modules
        ours = (
            AscendEmbeddingBagCollectionSharder
            if upstream.module_type is EmbeddingBagCollection
            else AscendEmbeddingCollectionSharder
        )
        return ours(self.fused_params, qcomm_codecs_registry=self.qcomm_codecs_registry)


class AscendEmbeddingTowerCollectionSharder(EmbeddingTowerCollectionSharder):
    """For `EmbeddingTowerCollection`; takes TorchRec's arguments."""

    def __init__(
        self,
        fused_params: dict[str, Any] | None = None,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(fused_params, qcomm_codecs_registry)
        self._tower_sharder = AscendEmbeddingTowerSharder(
            fused_params, qcomm_codecs_registry=qcomm_codecs_registry
        )

    def shard(
        self, module: EmbeddingTowerCollection, params: dict[str, ParameterSharding],
        env: ShardingEnv, device: torch.device | None = None, module_fqn: str | None = None,
    ) -> AscendShardedEmbeddingTowerCollection:  # fmt: skip
        return AscendShardedEmbeddingTowerCollection(
            module, params, self._tower_sharder, env,
            self.fused_params, _tower_device(device), self.qcomm_codecs_registry,
        )  # fmt: skip
