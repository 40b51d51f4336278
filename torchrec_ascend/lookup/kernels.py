"""TorchRec's compute kernels and grouped lookups on our tables.

The names stay TorchRec's: a plan says "fused" or "dense", and state_dict, checkpoints and the fused
optimizer's state are what TorchRec's own kernels have, because they are inherited.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from fbgemm_gpu.split_embedding_configs import SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from torch import Tensor
from torchrec.distributed.batched_embedding_kernel import (
    BaseBatchedEmbedding,
    BaseBatchedEmbeddingBag,
    BatchedDenseEmbedding,
    BatchedDenseEmbeddingBag,
    BatchedFusedEmbedding,
    BatchedFusedEmbeddingBag,
    EmbeddingFusedOptimizer,
    _gen_named_parameters_by_table_dense,
)
from torchrec.distributed.embedding_kernel import BaseEmbedding
from torchrec.distributed.embedding_lookup import (
    GroupedEmbeddingsLookup,
    GroupedPooledEmbeddingsLookup,
)
from torchrec.distributed.embedding_types import EmbeddingComputeKernel, GroupedEmbeddingConfig
from torchrec.distributed.types import ShardingEnv, ShardingEnv2D, ShardingStrategy, ShardingType
from torchrec.modules.embedding_configs import data_type_to_sparse_type
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from torchrec_ascend.lookup.dense import DenseTables
from torchrec_ascend.lookup.fused import FusedTables
from torchrec_ascend.lookup.optimizers import FusedParams


def _look_up(kernel: Any, features: KeyedJaggedTensor) -> Tensor:
    tables = kernel.emb_module
    weights = features.weights_or_none()
    if weights is not None and not torch.is_floating_point(weights):
        weights = None  # as TorchRec: integers are scores, not weights
    return tables(
        features.values(),
        features.offsets(),
        weights,
        batch_size_per_feature_per_rank=(
            features.stride_per_key_per_rank() if features.variable_stride_per_key() else None
        ),
        counts=features.length_per_key() if tables.needs_counts else None,
    )


def _fused_tables(kernel: Any, pooling: PoolingMode, device: torch.device | None) -> FusedTables:
    config: GroupedEmbeddingConfig = kernel.config
    return FusedTables(
        kernel._local_rows, kernel._local_cols, kernel._feature_table_map, pooling,
        _table_dtype(config), device or torch.device("cpu"), FusedParams.read(config.fused_params),
    )  # fmt: skip


def _dense_tables(kernel: Any, pooling: PoolingMode, device: torch.device | None) -> DenseTables:
    config: GroupedEmbeddingConfig = kernel.config
    output = (config.fused_params or {}).get("output_dtype", SparseType.FP32)
    return DenseTables(
        kernel._local_rows, kernel._local_cols, kernel._feature_table_map, pooling,
        _table_dtype(config), output.as_dtype(), device or torch.device("cpu"),
    )  # fmt: skip


def _slices(kernel: Any) -> dict[str, Any]:
    """By table, its part of the dense parameter."""
    counts = kernel.table_name_to_count.copy()
    return dict(_gen_named_parameters_by_table_dense(kernel.emb_module, counts, kernel.config))


def _table_dtype(config: GroupedEmbeddingConfig) -> torch.dtype:
    return data_type_to_sparse_type(config.data_type).as_dtype()


# The classes below inherit TorchRec's but not its constructor, which builds fbgemm's tables.


class AscendBatchedFusedEmbeddingBag(BatchedFusedEmbeddingBag):
    """Pooled tables whose optimizer runs in the backward pass."""

    def __init__(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None, sharding_type: ShardingType | None = None,
    ) -> None:  # fmt: skip
        BaseBatchedEmbeddingBag.__init__(self, config, pg, device, sharding_type)
        self._emb_module: Any = _fused_tables(self, self._pooling, device)
        self._optim = EmbeddingFusedOptimizer(config, self._emb_module, pg)
        self.init_parameters()

    def forward(self, features: KeyedJaggedTensor, *unused: Any, **vbe: Any) -> Tensor:
        return _look_up(self, features)


class AscendBatchedFusedEmbedding(BatchedFusedEmbedding):
    """Sequence tables whose optimizer runs in the backward pass."""

    def __init__(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:  # fmt: skip
        BaseBatchedEmbedding.__init__(self, config, pg, device)
        self._emb_module: Any = _fused_tables(self, PoolingMode.NONE, device)
        self._optim = EmbeddingFusedOptimizer(config, self._emb_module, pg)
        self.init_parameters()

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        return _look_up(self, features)


class AscendBatchedDenseEmbeddingBag(BatchedDenseEmbeddingBag):
    """Pooled tables with an ordinary gradient."""

    def __init__(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None, sharding_type: ShardingType | None = None,
    ) -> None:  # fmt: skip
        BaseBatchedEmbeddingBag.__init__(self, config, pg, device, sharding_type)
        self._emb_module: Any = _dense_tables(self, self._pooling, device)
        self._param_per_table = _slices(self)
        self.init_parameters()

    def forward(self, features: KeyedJaggedTensor, *unused: Any, **vbe: Any) -> Tensor:
        return _look_up(self, features)


class AscendBatchedDenseEmbedding(BatchedDenseEmbedding):
    """Sequence tables with an ordinary gradient."""

    def __init__(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
    ) -> None:  # fmt: skip
        BaseBatchedEmbedding.__init__(self, config, pg, device)
        self._emb_module: Any = _dense_tables(self, PoolingMode.NONE, device)
        self._param_per_table = _slices(self)
        self.init_parameters()

    def forward(self, features: KeyedJaggedTensor) -> Tensor:
        return _look_up(self, features)


def _check_kernel(config: GroupedEmbeddingConfig, env: ShardingEnv | None) -> None:
    tables = [table.name for table in config.embedding_tables]
    known = (EmbeddingComputeKernel.FUSED, EmbeddingComputeKernel.DENSE)
    if config.compute_kernel not in known:
        raise ValueError(
            f"tables {tables}: compute kernel {config.compute_kernel.value!r}, this lookup has "
            f"{[kernel.value for kernel in known]}"
        )
    if isinstance(env, ShardingEnv2D) and env.sharding_strategy == ShardingStrategy.FULLY_SHARDED:
        raise ValueError(f"tables {tables}: the 2D strategy FULLY_SHARDED has no kernel here")


class AscendGroupedPooledEmbeddingsLookup(GroupedPooledEmbeddingsLookup):
    """TorchRec's pooled lookup of one sharding on one rank, on our tables."""

    def _create_embedding_kernel(
        self, config: GroupedEmbeddingConfig, device: torch.device | None,
        pg: dist.ProcessGroup | None, sharding_type: ShardingType | None, env: ShardingEnv | None,
    ) -> BaseEmbedding:  # fmt: skip
        _check_kernel(config, env)
        fused = config.compute_kernel == EmbeddingComputeKernel.FUSED
        kernel = AscendBatchedFusedEmbeddingBag if fused else AscendBatchedDenseEmbeddingBag
        return kernel(config, pg, device, sharding_type)

    def _forward_with_vbe_merging(
        self, features_by_group: list[KeyedJaggedTensor], device: torch.device
    ) -> Tensor:
        # Upstream lets each TBE write into one buffer; ours return their part.
        splits = self._vbe_splits(features_by_group)
        return self._merge_variable_batch_embeddings(self._forward(features_by_group), splits)


class AscendGroupedEmbeddingsLookup(GroupedEmbeddingsLookup):
    """TorchRec's sequence lookup of one sharding on one rank, on our tables."""

    def _create_embedding_kernel(
        self, config: GroupedEmbeddingConfig, pg: dist.ProcessGroup | None,
        device: torch.device | None, env: ShardingEnv | None = None,
    ) -> BaseEmbedding:  # fmt: skip
        _check_kernel(config, env)
        fused = config.compute_kernel == EmbeddingComputeKernel.FUSED
        kernel = AscendBatchedFusedEmbedding if fused else AscendBatchedDenseEmbedding
        return kernel(config, pg, device)
