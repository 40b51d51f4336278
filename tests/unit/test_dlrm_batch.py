"""Every row once, the same number of batches on every rank, whatever the sizes."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchrec.streamable import Pipelineable

from torchrec_ascend.dlrm.batch import Dataset, Jagged, Table, epoch_order, rank_slices

sizes = st.tuples(st.integers(0, 200), st.integers(1, 40), st.integers(1, 9))


@settings(max_examples=200, deadline=None)
@given(sizes=sizes, limit=st.none() | st.integers(1, 5), drop_last=st.booleans())
def test_partition(sizes: tuple[int, int, int], limit: int | None, drop_last: bool) -> None:
    count, batch_size, world_size = sizes
    rows = np.arange(count) * 3
    ranks = [
        list(rank_slices(rows, batch_size, world_size, rank, limit, drop_last))
        for rank in range(world_size)
    ]
    full = batch_size * world_size
    batches = count // full if drop_last else -(-count // full)
    batches = batches if limit is None else min(batches, limit)
    assert [len(slices) for slices in ranks] == [batches] * world_size

    seen: list[int] = []
    for k in range(batches):
        parts = [ranks[rank][k] for rank in range(world_size)]
        lengths = [len(own) for own, _ in parts]
        assert max(lengths) <= batch_size and max(lengths) - min(lengths) <= 1
        assert {all_rows for _, all_rows in parts} == {sum(lengths)}
        assert sum(lengths) == full or (k == batches - 1 and not drop_last)
        seen += [int(row) for own, _ in parts for row in own]
    assert seen == rows[: batches * full].tolist()


def test_epochs_are_permutations_fixed_by_the_seed() -> None:
    rows = np.arange(100, 200)
    first = epoch_order(rows, seed=4, epoch=0)
    assert sorted(first) == rows.tolist()
    assert (first == epoch_order(rows, seed=4, epoch=0)).all()
    for seed, epoch in ((4, 1), (5, 0)):
        assert (first != epoch_order(rows, seed, epoch)).any()


def small_dataset() -> Dataset:
    return Dataset(
        dense=np.arange(8, dtype=np.float32).reshape(4, 2),
        dense_names=("x", "y"),
        sparse={"one": Jagged.of_ids(np.arange(4)), "bag": Jagged.of_lists([[3, 1], [], [2], [0]])},
        labels=np.array([0, 1, 1, 0], dtype=np.float32),
        tables=(Table("one", 4, ("one",)), Table("bag", 4, ("bag",))),
        splits={name: np.arange(4) for name in ("train", "val", "test")},
    )


def test_a_batch_holds_its_rows_in_order() -> None:
    batch = small_dataset().batch(np.array([2, 0, 1]))
    assert batch.dense_features.tolist() == [[4, 5], [0, 1], [2, 3]]
    assert batch.labels.tolist() == [1, 0, 1]
    features = batch.sparse_features.to_dict()
    assert features["one"].values().tolist() == [2, 0, 1]
    assert [t.tolist() for t in features["bag"].to_dense()] == [[2], [3, 1], []]


def test_a_batch_of_no_rows_has_the_same_keys_and_types() -> None:
    dataset = small_dataset()
    empty, full = dataset.batch(np.arange(0)), dataset.batch(np.arange(4))
    assert empty.dense_features.shape == (0, 2) and empty.labels.shape == (0,)
    assert empty.sparse_features.keys() == full.sparse_features.keys()
    assert empty.sparse_features.stride() == 0
    assert empty.sparse_features.values().dtype == full.sparse_features.values().dtype


def test_a_batch_can_be_pipelined() -> None:
    batch = small_dataset().batch(np.arange(4))
    assert isinstance(batch, Pipelineable)
    moved = batch.to(torch.device("meta"))
    tensors = (moved.dense_features, moved.labels, moved.sparse_features.values())
    assert {tensor.device.type for tensor in tensors} == {"meta"}
