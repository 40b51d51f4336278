"""Rows of a jagged feature, and how few rows are shared out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchrec_ascend.dlrm.batch import Jagged, rank_slices

ids = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=12)


@settings(deadline=None)
@given(lists=ids, data=st.data())
def test_take_is_a_loop_over_the_rows(lists: list[list[int]], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=15)) if lists else []
    values, lengths = Jagged.of_lists(lists).take(np.array(rows, dtype=np.int64))
    assert values.tolist() == [i for row in rows for i in lists[row]]
    assert lengths.tolist() == [len(lists[row]) for row in rows]
    assert values.dtype == lengths.dtype == np.int64


def test_take_of_one_id_a_row() -> None:
    values, lengths = Jagged.of_ids(np.array([7, 8, 9])).take(np.array([2, 0, 2]))
    assert values.tolist() == [9, 7, 9] and lengths.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("count", "world_size", "lengths"),
    [(0, 4, []), (1, 4, [0, 0, 0, 1]), (3, 4, [0, 1, 1, 1]), (5, 2, [2, 3]), (8, 2, [4, 4])],
)
def test_few_rows_are_shared_out(count: int, world_size: int, lengths: list[int]) -> None:
    slices = [list(rank_slices(np.arange(count), 4, world_size, r)) for r in range(world_size)]
    assert [len(rows) for of_rank in slices for rows, _ in of_rank] == lengths
