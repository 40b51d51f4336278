"""The sharder to put in TorchRec's place, and the module it makes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torchrec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo
from torchrec.distributed.embedding_types import KJTList
from torchrec.distributed.embeddingbag import (
    EmbeddingBagCollectionContext,
    EmbeddingBagCollectionSharder,
    ShardedEmbeddingBagCollection,
)
from torchrec.distributed.sharding.cw_sharding import CwPooledEmbeddingSharding
from torchrec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    ShardingEnv,
    ShardingEnv2D,
    ShardingType,
)
from torchrec.modules.embedding_modules import EmbeddingBagCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor, KeyedTensor
from torchrec.sparse.tensor_dict import maybe_td_to_kjt

from torchrec_ascend.selftest import check_all_to_all_once
from torchrec_ascend.sharding.checks import (
    BatchChecker,
    check_dtypes,
    check_shards,
    check_weighted_mean,
    trainable_plan,
)
from torchrec_ascend.sharding.cw import AscendCwPooledEmbeddingSharding
from torchrec_ascend.sharding.dp import AscendDpPooledEmbeddingSharding
from torchrec_ascend.sharding.grid import AscendGridPooledEmbeddingSharding
from torchrec_ascend.sharding.ids import ChecksExchange, IdChecker, IdVerdict
from torchrec_ascend.sharding.mean import ROW_SHARDED, RowShardedMean, divide
from torchrec_ascend.sharding.placement import placed_on
from torchrec_ascend.sharding.rw import AscendRwPooledEmbeddingSharding
from torchrec_ascend.sharding.tw import AscendTwPooledEmbeddingSharding
from torchrec_ascend.sharding.twcw import AscendTwCwPooledEmbeddingSharding
from torchrec_ascend.sharding.twrw import AscendTwRwPooledEmbeddingSharding
from torchrec_ascend.sharding.weights import copy_weights

SHARDINGS: dict[str, type] = {
    ShardingType.TABLE_WISE.value: AscendTwPooledEmbeddingSharding,
    ShardingType.COLUMN_WISE.value: AscendCwPooledEmbeddingSharding,
    ShardingType.TABLE_COLUMN_WISE.value: AscendTwCwPooledEmbeddingSharding,
    ShardingType.ROW_WISE.value: AscendRwPooledEmbeddingSharding,
    ShardingType.TABLE_ROW_WISE.value: AscendTwRwPooledEmbeddingSharding,
    ShardingType.GRID_SHARD.value: AscendGridPooledEmbeddingSharding,
    ShardingType.DATA_PARALLEL.value: AscendDpPooledEmbeddingSharding,
}


@dataclass
class AscendEmbeddingBagCollectionContext(EmbeddingBagCollectionContext):
    """One batch on its way through the module.

    mean_divisors: by sharding, what its output is divided by (see
    :meth:`torchrec_ascend.sharding.mean.RowShardedMean.divisor`), or None.
    id_verdict: of the check of the batch's ids; None where that is off.
    """

    mean_divisors: list[torch.Tensor | None] = field(default_factory=list)
    id_verdict: IdVerdict | None = None

    def record_stream(self, stream: torch.Stream) -> None:
        super().record_stream(stream)
        for divisor in self.mean_divisors:
            if divisor is not None:
                divisor.record_stream(stream)


class AscendShardedEmbeddingBagCollection(ChecksExchange, ShardedEmbeddingBagCollection):
    """A sharded `EmbeddingBagCollection` whose pooled all-to-alls use the compiled recat.

    Differs from TorchRec's in three more ways, each so that the result equals the unsharded
    module's: MEAN tables sharded by rows are divided by their own bag lengths and nothing else is
    (:mod:`torchrec_ascend.sharding.mean`); features are found by key in every batch, not by the
    first batch's positions; weights set before sharding are kept. What it refuses is in
    :mod:`torchrec_ascend.sharding.checks`.
    """

    def __init__(
        self,
        module: EmbeddingBagCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        **kwargs: Any,
    ) -> None:
        check_weighted_mean(module.embedding_bag_configs(), module.is_weighted())
        check_shards(module.embedding_bag_configs(), table_name_to_parameter_sharding)
        check_all_to_all_once(env.process_group, kwargs.get("device"))
        super().__init__(module, table_name_to_parameter_sharding, env, **kwargs)
        self._has_mean_pooling_callback = False  # ours instead: _means
        self._means: list[RowShardedMean | None] = []
        self._check_batch = BatchChecker(
            self._embedding_bag_configs, module.is_weighted(), env.rank
        )
        self._check_ids = IdChecker(self._embedding_bag_configs, env.process_group)
        copy_weights(module, self)

    @classmethod
    def create_embedding_bag_sharding(
        cls,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        permute_embeddings: bool = False,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> EmbeddingSharding[Any, KeyedJaggedTensor, torch.Tensor, torch.Tensor]:
        """Our sharding for the types in `SHARDINGS`; upstream's for the others, on the meta device
        and for 2D parallelism."""
        sharding_class = SHARDINGS.get(sharding_infos[0].param_sharding.sharding_type)
        on_meta = device is not None and device.type == "meta"
        if sharding_class is None or on_meta or isinstance(env, ShardingEnv2D):
            return super().create_embedding_bag_sharding(
                sharding_infos, env, device, permute_embeddings, qcomm_codecs_registry
            )
        check_dtypes(sharding_infos, device)
        if sharding_class is AscendDpPooledEmbeddingSharding:  # no exchange, no codec
            return sharding_class(sharding_infos, env, device)
        kwargs: dict[str, Any] = {"qcomm_codecs_registry": qcomm_codecs_registry}
        if issubclass(sharding_class, CwPooledEmbeddingSharding):
            kwargs["permute_embeddings"] = permute_embeddings
        return sharding_class(sharding_infos, env, device, **kwargs)

    def forward(self, *input: Any, **kwargs: Any) -> LazyAwaitable[KeyedTensor]:
        # Neither a feature processor nor a pipeline comes this way: weights are there or missing.
        self._check_batch.check_weights(
            [x for x in (*input, *kwargs.values()) if isinstance(x, KeyedJaggedTensor)]
        )
        return super().forward(*input, **kwargs)

    def input_dist(self, ctx: Any, features: Any) -> Awaitable[Awaitable[KJTList]]:
        if self._has_uninitialized_input_dist:  # the first batch, and the first after a reshard
            self._means = self._row_sharded_means()
        if not isinstance(features, KeyedJaggedTensor):  # a TensorDict
            features = maybe_td_to_kjt(features, list(features.keys()))
        features = self._check_batch(features)
        # The lengths of whole bags are known here; after the input dist, only a rank's share.
        ctx.mean_divisors = [
            mean.divisor(features) if mean is not None else None for mean in self._means
        ]
        self._start_check(ctx, features)
        exchanges = super().input_dist(ctx, features)
        self._end_check_in(ctx, exchanges)
        return exchanges

    def create_context(self) -> AscendEmbeddingBagCollectionContext:
        return AscendEmbeddingBagCollectionContext()

    def _row_sharded_means(self) -> list[RowShardedMean | None]:
        means: list[RowShardedMean | None] = []
        for sharding, sharding_type in zip(
            self._embedding_shardings, self._sharding_types, strict=True
        ):
            mean = None
            if sharding_type in ROW_SHARDED:
                mean = RowShardedMean(sharding, self._embedding_bag_configs)
            means.append(mean if mean is not None and mean.is_needed else None)
        return means

    def compute(self, ctx: Any, dist_input: KJTList) -> Any:
        self._verify_ids(ctx)
        self._check_batch.check_weights(list(dist_input))
        return super().compute(ctx, dist_input)

    def output_dist(self, ctx: Any, output: list[torch.Tensor]) -> LazyAwaitable[KeyedTensor]:
        return self._divide(ctx, super().output_dist(ctx, output))

    def compute_and_output_dist(self, ctx: Any, input: KJTList) -> LazyAwaitable[KeyedTensor]:
        self._verify_ids(ctx)
        self._check_batch.check_weights(list(input))
        return self._divide(ctx, super().compute_and_output_dist(ctx, input))

    def _divide(self, ctx: Any, result: LazyAwaitable[KeyedTensor]) -> LazyAwaitable[KeyedTensor]:
        if not hasattr(ctx, "mean_divisors"):  # a wrapper with an input dist of its own
            if any(self._row_sharded_means()):
                raise NotImplementedError(
                    f"MEAN tables sharded by rows, with a {type(ctx).__name__}: the lengths of "
                    "whole bags are not known here; use another sharding type or PoolingType.SUM"
                )
            return result
        for awaitable, divisor in zip(result._awaitables, ctx.mean_divisors, strict=True):
            if divisor is not None:
                awaitable.callbacks.append(partial(divide, divisor))
        return result


class AscendEmbeddingBagCollectionSharder(EmbeddingBagCollectionSharder):
    """Put this in `sharders=[...]` where TorchRec's `EmbeddingBagCollectionSharder` was.

    Takes the same arguments: `fused_params`, `qcomm_codecs_registry`, ... Every sharding type is
    accepted; pooled exchanges use the compiled recat.
    """

    def shard(
        self,
        module: EmbeddingBagCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> AscendShardedEmbeddingBagCollection:
        """Shards `module` as the plan `params` says.

        Raises:
            ValueError: a MEAN table in a weighted collection; a rank left without rows of a table
                sharded by rows, or with columns that are no multiple of 4; a shard on a
                rank that does not exist; a dtype the device's lookup lacks.

        Warns:
            UserWarning: the plan's compute kernel would train nothing.
        """
        params = placed_on(device, params, env)
        return AscendShardedEmbeddingBagCollection(
            module,
            trainable_plan(params, self.shardable_parameters(module), self.fused_params),
            env,
            fused_params=self.fused_params,
            device=device,
            qcomm_codecs_registry=self.qcomm_codecs_registry,
            module_fqn=module_fqn,
            sharded_module_order_overwrite=self._sharded_module_order_overwrite,
        )

    def sharding_types(self, compute_device_type: str) -> list[str]:
        """TorchRec's; for an NPU, of which it knows nothing, those for cuda."""
        known = "cuda" if compute_device_type == "npu" else compute_device_type
        return super().sharding_types(known)

    @property
    def sharded_module_type(self) -> type[AscendShardedEmbeddingBagCollection]:
        return AscendShardedEmbeddingBagCollection
