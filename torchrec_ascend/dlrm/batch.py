"""A dataset in memory, and the batches each rank takes from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torchrec.datasets.utils import Batch
from torchrec.modules.embedding_configs import PoolingType
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Jagged:
    """One sparse feature: the ids of row n are values[offsets[n]:offsets[n + 1]] (both int64)."""

    values: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]

    @staticmethod
    def of_lists(lists: list[list[int]]) -> Jagged:
        lengths = np.array([len(ids) for ids in lists], dtype=np.int64)
        values = np.array([i for ids in lists for i in ids], dtype=np.int64)
        return Jagged(values, np.concatenate([[0], np.cumsum(lengths)]))

    @staticmethod
    def of_ids(ids: npt.NDArray[np.int64]) -> Jagged:
        return Jagged(ids.astype(np.int64), np.arange(len(ids) + 1))

    def take(self, rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The ids of `rows`, concatenated, and how many each row has."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        before = np.cumsum(lengths) - lengths
        return self.values[np.repeat(starts - before, lengths) + np.arange(lengths.sum())], lengths


@dataclass(frozen=True)
class Table:
    """An embedding table, the features that look into it, and how it pools a bag of ids."""

    name: str
    num_embeddings: int
    features: tuple[str, ...]
    pooling: PoolingType = PoolingType.MEAN


@dataclass(frozen=True)
class Dataset:
    """N rows: dense float32 [N, F], labels float32 [N] of 0 and 1, sparse features by name.

    splits: the rows of "train", "val" and "test". `dense_names` has F names.
    """

    dense: npt.NDArray[np.float32]
    dense_names: tuple[str, ...]
    sparse: Mapping[str, Jagged]
    labels: npt.NDArray[np.float32]
    tables: tuple[Table, ...]
    splits: Mapping[str, Rows]

    def batch(self, rows: Rows) -> Batch:
        """Those rows: dense [B, F], sparse a KJT of all features, labels [B]. B may be 0."""
        taken = [feature.take(rows) for feature in self.sparse.values()]
        return Batch(
            dense_features=torch.from_numpy(self.dense[rows]),
            sparse_features=KeyedJaggedTensor(
                keys=list(self.sparse),
                values=torch.from_numpy(np.concatenate([values for values, _ in taken])),
                lengths=torch.from_numpy(
                    np.concatenate([lengths for _, lengths in taken]).astype(np.int32)
                ),
                stride=len(rows),
            ),
            labels=torch.from_numpy(self.labels[rows]),
        )


def epoch_order(rows: Rows, seed: int, epoch: int) -> Rows:
    """A permutation of `rows`: the same on every rank, another one in every epoch."""
    return np.random.default_rng([seed, epoch]).permutation(rows)


def num_batches(
    rows: int, batch_size: int, world_size: int, limit: int | None = None, drop_last: bool = False
) -> int:
    """Global batches of `rows` rows, which is also the number of batches of every rank."""
    full = batch_size * world_size
    count = rows // full if drop_last else -(-rows // full)
    return count if limit is None else min(count, limit)


def rank_slices(
    rows: Rows,
    batch_size: int,
    world_size: int,
    rank: int,
    limit: int | None = None,
    drop_last: bool = False,
) -> Iterator[tuple[Rows, int]]:
    """For each global batch, the rows of this rank and the number of rows of all ranks.

    Global batch k is rows[k * G:(k + 1) * G] with G = batch_size * world_size. Rank r takes of its
    n rows those from n * r // world_size to n * (r + 1) // world_size: of the last batch, which may
    be smaller, every rank has the same number of rows or one less, possibly none. So every rank
    yields the same number of times and every row comes once.
    """
    full = batch_size * world_size
    for k in range(num_batches(len(rows), batch_size, world_size, limit, drop_last)):
        whole = rows[k * full : (k + 1) * full]
        n = len(whole)
        yield whole[n * rank // world_size : n * (rank + 1) // world_size], n
