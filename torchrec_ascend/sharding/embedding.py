"""The sharder of `EmbeddingCollection` to put in TorchRec's place, and the module it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchrec.distributed.embedding import (
    EmbeddingCollectionContext,
    EmbeddingCollectionSharder,
    ShardedEmbeddingCollection,
)
from torchrec.distributed.embedding_sharding import EmbeddingSharding, EmbeddingShardingInfo
from torchrec.distributed.embedding_types import KJTList
from torchrec.distributed.types import (
    Awaitable,
    LazyAwaitable,
    ParameterSharding,
    ShardingEnv,
    ShardingEnv2D,
    ShardingType,
)
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor
from torchrec.sparse.tensor_dict import maybe_td_to_kjt

from torchrec_ascend.selftest import check_all_to_all_once
from torchrec_ascend.sharding.checks import (
    BatchChecker,
    check_dtypes,
    check_shards,
    trainable_plan,
)
from torchrec_ascend.sharding.ids import ChecksExchange, IdChecker, IdVerdict
from torchrec_ascend.sharding.placement import placed_on
from torchrec_ascend.sharding.sequence import SEQUENCE_SHARDINGS
from torchrec_ascend.sharding.weights import copy_weights


@dataclass
class AscendEmbeddingCollectionContext(EmbeddingCollectionContext):
    """One batch on its way through the module.

    id_verdict: of the check of the batch's ids; None where that is off.
    is_empty: the batch has no rows, and travels as one row without ids.
    """

    id_verdict: IdVerdict | None = None
    is_empty: bool = False


class AscendShardedEmbeddingCollection(ChecksExchange, ShardedEmbeddingCollection):
    """A sharded `EmbeddingCollection` whose lookup has kernels on every device.

    Differs from TorchRec's in three more ways, each so that the result equals the unsharded
    module's: features are found by key in every batch, not by the first batch's positions; a rank's
    batch may have no rows; replicated tables start out as rank 0's. Ids and plans are checked as in
    :class:`torchrec_ascend.sharding.embeddingbag.AscendShardedEmbeddingBagCollection`.
    """

    def __init__(
        self,
        module: EmbeddingCollection,
        table_name_to_parameter_sharding: dict[str, ParameterSharding],
        env: ShardingEnv,
        **kwargs: Any,
    ) -> None:
        check_shards(module.embedding_configs(), table_name_to_parameter_sharding)
        check_all_to_all_once(env.process_group, kwargs.get("device"))
        super().__init__(module, table_name_to_parameter_sharding, env, **kwargs)
        # "Weighted" lets weights pass: to a sequence they are scores, which TorchRec may collect.
        self._check_batch = BatchChecker(self._embedding_configs, True, env.rank)
        self._check_ids = IdChecker(self._embedding_configs, env.process_group)
        copy_weights(module, self)

    @classmethod
    def create_embedding_sharding(
        cls,
        sharding_type: str,
        sharding_infos: list[EmbeddingShardingInfo],
        env: ShardingEnv,
        device: torch.device | None = None,
        qcomm_codecs_registry: dict[str, Any] | None = None,
    ) -> EmbeddingSharding[Any, KeyedJaggedTensor, Tensor, Tensor]:
        """Our sharding for the types in `SEQUENCE_SHARDINGS`; upstream's for the others, on the
        meta device and for 2D parallelism."""
        sharding_class = SEQUENCE_SHARDINGS.get(sharding_type)
        on_meta = device is not None and device.type == "meta"
        if sharding_class is None or on_meta or isinstance(env, ShardingEnv2D):
            return super().create_embedding_sharding(
                sharding_type, sharding_infos, env, device, qcomm_codecs_registry
            )
        check_dtypes(sharding_infos, device)
        if sharding_type == ShardingType.DATA_PARALLEL.value:  # no exchange, no codec
            return sharding_class(sharding_infos, env, device)
        return sharding_class(
            sharding_infos, env, device, qcomm_codecs_registry=qcomm_codecs_registry
        )

    def input_dist(self, ctx: Any, features: Any) -> Awaitable[Awaitable[KJTList]]:
        if not isinstance(features, KeyedJaggedTensor):  # a TensorDict
            features = maybe_td_to_kjt(features, list(features.keys()))
        features = self._check_batch(features)
        self._start_check(ctx, features)
        ctx.is_empty = not features.variable_stride_per_key() and features.stride() == 0
        exchanges = super().input_dist(ctx, _one_empty_row(features) if ctx.is_empty else features)
        self._end_check_in(ctx, exchanges)
        return exchanges

    def compute(self, ctx: Any, dist_input: KJTList) -> list[Tensor]:
        self._verify_ids(ctx)
        return super().compute(ctx, dist_input)

    def output_dist(self, ctx: Any, output: list[Tensor]) -> LazyAwaitable[dict[str, JaggedTensor]]:
        return _without_the_row(ctx, super().output_dist(ctx, output))

    def compute_and_output_dist(
        self, ctx: Any, input: KJTList
    ) -> LazyAwaitable[dict[str, JaggedTensor]]:
        self._verify_ids(ctx)
        return _without_the_row(ctx, super().compute_and_output_dist(ctx, input))

    def create_context(self) -> AscendEmbeddingCollectionContext:
        return AscendEmbeddingCollectionContext()


def _one_empty_row(features: KeyedJaggedTensor) -> KeyedJaggedTensor:
    """TorchRec shapes lengths as [-1, B], which PyTorch refuses for B=0 on that rank alone."""
    return KeyedJaggedTensor(
        features.keys(),
        features.values(),
        weights=features.weights_or_none(),
        lengths=features.lengths().new_zeros(len(features.keys())),
        stride=1,
    )


def _without_the_row(
    ctx: Any, result: LazyAwaitable[dict[str, JaggedTensor]]
) -> LazyAwaitable[dict[str, JaggedTensor]]:
    if getattr(ctx, "is_empty", False):
        result.callbacks.append(_no_rows)
    return result


def _no_rows(outputs: dict[str, JaggedTensor]) -> dict[str, JaggedTensor]:
    return {
        key: JaggedTensor(
            values=output.values(),  # of no ids, and still in the graph: backward is collective
            weights=output.weights_or_none(),
            lengths=output.lengths()[:0],
        )
        for key, output in outputs.items()
    }


class AscendEmbeddingCollectionSharder(EmbeddingCollectionSharder):
    """Put this in `sharders=[...]` where TorchRec's `EmbeddingCollectionSharder` was.

    Takes the same arguments: `fused_params`, `qcomm_codecs_registry`, `use_index_dedup`. Table-,
    column- and row-wise and data-parallel plans are accepted on every device.
    """

    def shard(
        self,
        module: EmbeddingCollection,
        params: dict[str, ParameterSharding],
        env: ShardingEnv,
        device: torch.device | None = None,
        module_fqn: str | None = None,
    ) -> AscendShardedEmbeddingCollection:
        """Shards `module` as the plan `params` says.

        Raises:
            ValueError: a rank left without rows of a table sharded by rows, or with columns that
                are no multiple of 4; a dtype the device's lookup lacks.

        Warns:
            UserWarning: the plan's compute kernel would train nothing.
        """
        params = placed_on(device, params, env)
        return AscendShardedEmbeddingCollection(
            module,
            trainable_plan(params, self.shardable_parameters(module), self.fused_params),
            env,
            fused_params=self.fused_params,
            device=device,
            qcomm_codecs_registry=self.qcomm_codecs_registry,
            use_index_dedup=self._use_index_dedup,
            module_fqn=module_fqn,
        )

    @property
    def sharded_module_type(self) -> type[AscendShardedEmbeddingCollection]:
        return AscendShardedEmbeddingCollection
