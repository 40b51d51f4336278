"""Shardings of embeddings that are not pooled: TorchRec's, with our lookup where fbgemm has none.

Their exchange moves rows and has no recat of columns, so it stays TorchRec's.
"""

from __future__ import annotations

from typing import Any

import torch
from torchrec.distributed.embedding_sharding import BaseEmbeddingLookup
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.sharding.cw_sequence_sharding import CwSequenceEmbeddingSharding
from torchrec.distributed.sharding.dp_sequence_sharding import DpSequenceEmbeddingSharding
from torchrec.distributed.sharding.rw_sequence_sharding import RwSequenceEmbeddingSharding
from torchrec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingSharding
from torchrec.distributed.types import ShardingType

from torchrec_ascend.lookup.kernels import AscendGroupedEmbeddingsLookup
from torchrec_ascend.sharding.lookup import AscendSequenceLookup, _group, _local_configs


class AscendSequenceSharding(AscendSequenceLookup):
    """Mixed into TorchRec's sequence shardings: our lookup also where fbgemm's is wrong."""

    def create_lookup(
        self: Any, device: torch.device | None = None,
        fused_params: dict[str, Any] | None = None, feature_processor: Any = None,
    ) -> BaseEmbeddingLookup[Any, Any]:  # fmt: skip
        device = device if device is not None else self._device
        configs = _local_configs(self)
        is_dense = any(c.compute_kernel == EmbeddingComputeKernel.DENSE for c in configs)
        if is_dense and (device is None or device.type == "cpu"):
            # fbgemm's dense kernel for the CPU knows no sequences: it returns sums of bags.
            return AscendGroupedEmbeddingsLookup(
                grouped_configs=configs, pg=_group(self), device=device, env=self._env
            )
        return super().create_lookup(device, fused_params, feature_processor)


class AscendTwSequenceEmbeddingSharding(AscendSequenceSharding, TwSequenceEmbeddingSharding):
    """A table lies whole on one rank."""


class AscendCwSequenceEmbeddingSharding(AscendSequenceSharding, CwSequenceEmbeddingSharding):
    """A table's columns lie on several ranks."""


class AscendRwSequenceEmbeddingSharding(AscendSequenceSharding, RwSequenceEmbeddingSharding):
    """A table's rows lie on all ranks."""


class AscendDpSequenceEmbeddingSharding(AscendSequenceSharding, DpSequenceEmbeddingSharding):
    """A table lies whole on every rank, and its gradients are averaged."""


SEQUENCE_SHARDINGS: dict[str, type] = {
    ShardingType.TABLE_WISE.value: AscendTwSequenceEmbeddingSharding,
    ShardingType.COLUMN_WISE.value: AscendCwSequenceEmbeddingSharding,
    ShardingType.ROW_WISE.value: AscendRwSequenceEmbeddingSharding,
    ShardingType.DATA_PARALLEL.value: AscendDpSequenceEmbeddingSharding,
}
