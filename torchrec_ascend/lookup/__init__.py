"""Embedding lookup with fused optimizers, made of stock operators: for devices without a TBE.

rows finds the rows a batch touches, optimizers changes them; tables, fused and dense put it behind
the interface of fbgemm's TBE (table-batched embeddings: several tables, one call); kernels plugs it
into TorchRec's lookups.
Nothing in here names a device: the same code runs on `npu` and, for tests, on `cpu`.
"""

from torchrec_ascend.lookup.dense import DenseTables
from torchrec_ascend.lookup.fused import FusedTables

__all__ = ["DenseTables", "FusedTables"]
