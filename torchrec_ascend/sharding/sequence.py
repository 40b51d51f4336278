"""Shardings of embeddings that are not pooled: TorchRec's, with our lookup where fbgemm has none.

Their exchange moves rows and has no recat of columns, so it stays TorchRec's.
"""

from __future__ import annotations

from torchrec.distributed.sharding.cw_sequence_sharding import CwSequenceEmbeddingSharding
from torchrec.distributed.sharding.dp_sequence_sharding import DpSequenceEmbeddingSharding
from torchrec.distributed.sharding.rw_sequence_sharding import RwSequenceEmbeddingSharding
from torchrec.distributed.sharding.tw_sequence_sharding import TwSequenceEmbeddingSharding
from torchrec.distributed.types import ShardingType

from torchrec_ascend.sharding.lookup import AscendSequenceLookup


class AscendTwSequenceEmbeddingSharding(AscendSequenceLookup, TwSequenceEmbeddingSharding):
    """A table lies whole on one rank."""


class AscendCwSequenceEmbeddingSharding(AscendSequenceLookup, CwSequenceEmbeddingSharding):
    """A table's columns lie on several ranks."""


class AscendRwSequenceEmbeddingSharding(AscendSequenceLookup, RwSequenceEmbeddingSharding):
    """A table's rows lie on all ranks."""


class AscendDpSequenceEmbeddingSharding(AscendSequenceLookup, DpSequenceEmbeddingSharding):
    """A table lies whole on every rank, and its gradients are averaged."""


SEQUENCE_SHARDINGS: dict[str, type] = {
    ShardingType.TABLE_WISE.value: AscendTwSequenceEmbeddingSharding,
    ShardingType.COLUMN_WISE.value: AscendCwSequenceEmbeddingSharding,
    ShardingType.ROW_WISE.value: AscendRwSequenceEmbeddingSharding,
    ShardingType.DATA_PARALLEL.value: AscendDpSequenceEmbeddingSharding,
}
