"""What a batch and a plan must be, checked on each rank before it takes part in a collective (but
for weights in a pipeline, see :meth:`BatchChecker.check_weights`).
"""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import SparseType
from torchrec.distributed.embedding_sharding import EmbeddingShardingInfo
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.types import ParameterSharding, ShardingType
from torchrec.modules.embedding_configs import (
    EmbeddingBagConfig,
    PoolingType,
    data_type_to_dtype,
)
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from torchrec_ascend.device import lookup_dtypes

# Kernels that hold a rank's rows as one dense table.
_TABLE_KERNELS = {
    EmbeddingComputeKernel.DENSE.value,
    EmbeddingComputeKernel.FUSED.value,
    EmbeddingComputeKernel.FUSED_UVM.value,
    EmbeddingComputeKernel.FUSED_UVM_CACHING.value,
}


def check_weighted_mean(configs: Sequence[EmbeddingBagConfig], is_weighted: bool) -> None:
    """Raises ValueError for a MEAN table of a weighted collection.

    PyTorch defines no weighted mean (`nn.EmbeddingBag` refuses it), and TorchRec's sharding types
    disagree: some divide by the bag's length, some by its weights, which may be zero.
    """
    tables = [c.name for c in configs if c.pooling is PoolingType.MEAN]
    if is_weighted and tables:
        raise ValueError(
            f"tables {tables} use pooling MEAN in a collection with is_weighted=True: a weighted "
            "mean is not defined, use PoolingType.SUM with weights that add up to 1"
        )


def check_shards(
    configs: Sequence[EmbeddingBagConfig], plan: Mapping[str, ParameterSharding]
) -> None:
    """Raises ValueError, on every rank, for a shard that fbgemm's lookup cannot hold.

    A table without rows on a rank: the next table of that rank is silently not trained there (its
    backward takes tables that begin at one address for one), or the lookup fails on that rank alone
    while the others wait. Columns that are no multiple of 4: TorchRec asserts on the ranks that
    hold them, while the others wait.
    """
    for config in configs:
        sharding = plan[config.name]
        if sharding.sharding_spec is None or sharding.compute_kernel not in _TABLE_KERNELS:
            continue
        for rank, shard in zip(sharding.ranks, sharding.sharding_spec.shards, strict=True):
            if shard.shard_sizes[0] == 0:
                raise ValueError(
                    f"table {config.name!r} has {config.num_embeddings} rows, and its "
                    f"{sharding.sharding_type} plan gives rank {rank} none; shard it table_wise or "
                    "data_parallel, or give it rows for every rank"
                )
            is_dense = sharding.compute_kernel == EmbeddingComputeKernel.DENSE.value
            if shard.shard_sizes[1] % 4 and not is_dense:
                raise ValueError(
                    f"table {config.name!r} has {config.embedding_dim} columns, and its "
                    f"{sharding.sharding_type} plan gives rank {rank} {shard.shard_sizes[1]}; "
                    "expected a multiple of 4"
                )


def check_received_sizes(rank: int, received: list[list[int]]) -> list[list[int]]:
    """`received`, unless it holds a size that no rank can have sent.

    Args:
        rank: this one.
        received: what the first half of the input exchange brought, [sizes][source rank]: elements
            of each tensor to come, and batch sizes.

    Raises:
        RuntimeError: a negative size, or one from 2^31: memory for it is not asked for.
    """
    for sizes in received:
        for source, size in enumerate(sizes):
            if not 0 <= size < 1 << 31:
                raise RuntimeError(
                    f"rank {rank}: the input exchange announces a size of {size} from rank "
                    f"{source}, expected 0 to {(1 << 31) - 1}: the batch of rank {source} has "
                    "corrupt lengths, or the collective delivers wrong data"
                )
    return received


def output_dtype(sharding_infos: Sequence[EmbeddingShardingInfo]) -> torch.dtype:
    """The dtype of the lookups' output over all ranks: float32 unless `fused_params` say else."""
    dtypes = [
        (info.fused_params or {}).get("output_dtype", SparseType.FP32).as_dtype()
        for info in sharding_infos
    ]
    return functools.reduce(torch.promote_types, dtypes)


def check_dtypes(
    sharding_infos: Sequence[EmbeddingShardingInfo], device: torch.device | None
) -> None:
    """Raises ValueError, on every rank, for a dtype that the device's lookup lacks."""
    allowed = lookup_dtypes(device)
    for info in sharding_infos:
        table = info.embedding_config
        for what, dtype in (
            ("output_dtype", output_dtype([info])),
            ("data_type", data_type_to_dtype(table.data_type)),
        ):
            if dtype.is_floating_point and dtype not in allowed:
                raise ValueError(
                    f"table {table.name!r} has {what} {dtype}, which the lookup on {device} lacks; "
                    f"expected one of {list(allowed)}"
                )


def trainable_plan(
    plan: Mapping[str, ParameterSharding],
    parameters: Mapping[str, Any],
    fused_params: Mapping[str, Any] | None,
) -> dict[str, ParameterSharding]:
    """The plan, with "fused" where a hand-made plan says "dense" and would train nothing.

    TorchRec's plan helpers pick the dense kernel unless `apply_optimizer_in_backward` was called
    first; the dense kernel ignores `fused_params`. Where the sharder was given an optimizer in
    `fused_params`, that is what the user meant. Where it was not, only an optimizer over the
    model's parameters moves these tables. Both cases warn.

    Args:
        parameters: the table's parameters by table name.
    """
    result = dict(plan)
    overridden, left = [], []
    for table, sharding in plan.items():
        if (
            table not in parameters
            or sharding.sharding_type == ShardingType.DATA_PARALLEL.value
            or sharding.compute_kernel != EmbeddingComputeKernel.DENSE.value
        ):
            continue
        if fused_params and "optimizer" in fused_params:
            overridden.append(table)
            result[table] = dataclasses.replace(
                sharding, compute_kernel=EmbeddingComputeKernel.FUSED.value
            )
        else:
            left.append(table)
    if overridden:
        warnings.warn(
            f"the plan names the dense compute kernel for tables {overridden}, which would ignore "
            "the sharder's fused_params: using the fused kernel. Call apply_optimizer_in_backward "
            "before making the plan to say so yourself.",
            stacklevel=3,
        )
    if left:
        warnings.warn(
            f"the plan names the dense compute kernel for tables {left}: no fused optimizer trains "
            "them, only one that you hold over the model's parameters. Call "
            "apply_optimizer_in_backward before making the plan, or give the sharder fused_params "
            'with an "optimizer".',
            stacklevel=3,
        )
    return result


class BatchChecker:
    """Checks and orders the features of each batch of one module on one rank.

    TorchRec binds features to the key order of the first batch: a later batch with its keys in
    another order is looked up in the wrong tables. Here each batch is put into the first one's
    order, by key.

    Args:
        configs: the module's tables.
        is_weighted: whether the module takes weights.
        rank: for messages.
    """

    def __init__(self, configs: Sequence[EmbeddingBagConfig], is_weighted: bool, rank: int) -> None:
        self._table = {f: c.name for c in configs for f in c.feature_names}
        self._is_weighted = is_weighted
        self._rank = rank
        self._keys: list[str] | None = None

    def __call__(self, features: KeyedJaggedTensor) -> KeyedJaggedTensor:
        """The batch, with its keys in the first batch's order.

        Raises:
            ValueError: a key is missing or doubled, or there are weights for an unweighted module.
                Names the rank, the table and the keys.
        """
        if not self._is_weighted and features.weights_or_none() is not None:
            raise ValueError(
                f"rank {self._rank}: the batch has weights and the collection has "
                "is_weighted=False; build the collection with is_weighted=True or drop the weights"
            )
        keys = features.keys()
        if keys == self._keys:
            return features
        if len(set(keys)) != len(keys):
            doubled = sorted({key for key in keys if keys.count(key) > 1})
            raise ValueError(f"rank {self._rank}: keys {doubled} occur twice in the batch")
        missing = [key for key in self._table if key not in keys]
        if missing:
            where = [f"{key} (table {self._table[key]})" for key in missing]
            raise ValueError(
                f"rank {self._rank}: the batch lacks {', '.join(where)}; it has {keys}"
            )
        if self._keys is None:
            # The module's own keys, in the batch's order: others may come and go.
            self._keys = [key for key in keys if key in self._table]
        if keys == self._keys:
            return features
        return features.permute([keys.index(key) for key in self._keys])

    def check_weights(self, features: Sequence[KeyedJaggedTensor]) -> None:
        """Of a batch, or of its parts by sharding after the input dist: a feature processor adds
        its weights only there, and a rank without tables then has nothing to check.

        Raises:
            ValueError: a weighted module got a batch without weights.
        """
        missing = [f.keys() for f in features if f.keys() and f.weights_or_none() is None]
        if self._is_weighted and missing:
            raise ValueError(
                f"rank {self._rank}: the collection has is_weighted=True and the batch has no "
                f"weights for {missing[0]}; build the KeyedJaggedTensor with weights"
            )
