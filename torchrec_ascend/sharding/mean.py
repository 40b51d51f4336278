"""MEAN pooling of tables whose rows are spread over ranks.

Each rank pools only the ids it owns, so lookups sum and somebody divides by the whole bag's length
afterwards. TorchRec divides the concatenated output of the collection by one divisor that exempts
only the SUM tables among the row-sharded ones: every other table of the collection comes out
divided too, silently, and grid-sharded MEAN is not divided at all. Here the division belongs to the
sharding that causes it and touches no other table's columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.profiler import record_function
from torchrec.distributed.types import ShardingType
from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

ROW_SHARDED = (
    ShardingType.ROW_WISE.value,
    ShardingType.TABLE_ROW_WISE.value,
    ShardingType.GRID_SHARD.value,
)


class _Column(NamedTuple):
    """One embedding of a sharding's output."""

    feature: str
    is_mean: bool
    dim: int


class RowShardedMean:
    """The divisor of one sharding's output.

    Args:
        sharding: a TorchRec embedding sharding of one of the `ROW_SHARDED` types.
        configs: the collection's tables.
    """

    def __init__(self, sharding: Any, configs: Sequence[EmbeddingBagConfig]) -> None:
        uses = Counter(feature for c in configs for feature in c.feature_names)
        # TorchRec's output names: feature@table for a feature of several tables.
        named = {
            f"{feature}@{c.name}" if uses[feature] > 1 else feature: (feature, c.pooling)
            for c in configs
            for feature in c.feature_names
        }

        def columns(names: Sequence[str], dims: Sequence[int]) -> list[_Column]:
            result = []
            for name, dim in zip(names, dims, strict=True):
                feature, pooling = named[name]
                result.append(_Column(feature, pooling is PoolingType.MEAN, dim))
            return result

        self._columns = columns(sharding.embedding_names(), sharding.embedding_dims())
        # With variable batches the output is 1-D, and column shards are not yet put together.
        self._variable = columns(
            sharding.uncombined_embedding_names(), sharding.uncombined_embedding_dims()
        )
        self.is_needed = any(column.is_mean for column in self._columns)

    def divisor(self, features: KeyedJaggedTensor) -> Tensor:
        """The length of each bag of a MEAN table (at least 1: an empty bag's mean is 0), 1 for SUM.

        Returns:
            float32 [B, sum(D)]; for variable batches 1-D, feature by feature, [sum(B_f * D_f)].
        """
        with record_function("## row-sharded mean: divisor ##"):
            by_key = dict(
                zip(
                    features.keys(),
                    features.lengths().split(features.stride_per_key()),
                    strict=True,
                )
            )
            variable = features.variable_stride_per_key()
            columns = self._variable if variable else self._columns
            parts = []
            for column in columns:
                lengths = by_key[column.feature].float()
                rows = lengths.clamp(min=1) if column.is_mean else torch.ones_like(lengths)
                parts.append(rows.unsqueeze(1).expand(-1, column.dim))
            return torch.cat([p.reshape(-1) for p in parts]) if variable else torch.cat(parts, 1)


def divide(divisor: Tensor, pooled: Tensor) -> Tensor:
    """Callback of an output dist: the sums of `pooled` become means."""
    with record_function("## row-sharded mean: divide ##"):
        # 16-bit outputs are promoted to the divisor's float32: they have not all bag lengths.
        return (pooled / divisor).to(pooled.dtype)
