"""fbgemm's jagged operators made of stock ones equal fbgemm's CPU kernels."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import torchrec_ascend  # noqa: F401
from torchrec_ascend.ops import jagged
from torchrec_ascend.ops.order import _SMALLEST_NORMAL, MOST

fbgemm = torch.ops.fbgemm
INDEX = st.sampled_from([torch.int32, torch.int64])
sizes = st.lists(st.integers(0, 5), max_size=12)


def check(name: str, *args: Any, **kwargs: Any) -> None:
    wanted = getattr(fbgemm, name)(*args, **kwargs)
    got = jagged.KERNELS[name](*args, **kwargs)
    if isinstance(wanted, Tensor):
        wanted, got = (wanted,), (got,)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        if b is None:
            assert a is None
        else:
            assert a.dtype == b.dtype and a.shape == b.shape and a.equal(b), (name, a, b)


@settings(max_examples=60, deadline=None)
@given(sizes, INDEX)
def test_cumulative_sums(values: list[int], dtype: torch.dtype) -> None:
    tensor = torch.tensor(values, dtype=dtype)
    check("asynchronous_complete_cumsum", tensor)
    check("asynchronous_inclusive_cumsum", tensor)
    check("asynchronous_exclusive_cumsum", tensor)
    if values:
        check("asynchronous_complete_cumsum", tensor.repeat(3, 1))


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 4), st.integers(1, 5), INDEX, st.booleans(), st.booleans())
def test_permutes_of_segments(
    data: Any, batch: int, features: int, dtype: torch.dtype, weighted: bool, known: bool
) -> None:
    count = st.lists(st.integers(0, 4), min_size=features * batch, max_size=features * batch)
    lengths = torch.tensor(data.draw(count), dtype=dtype).view(features, batch)
    permute = torch.tensor(data.draw(st.permutations(range(features))), dtype=torch.int32)
    total = int(lengths.sum())
    values = torch.randint(0, 99, (total,))
    weights = torch.rand(total) if weighted else None
    args = (values, weights, total if known else None)
    check("permute_2D_sparse_data", permute, lengths, *args)
    of_features = lengths.sum(1).to(dtype)
    check("permute_1D_sparse_data", permute, of_features, *args)
    check("invert_permute", permute)
    begins = fbgemm.asynchronous_complete_cumsum(of_features)
    ends = fbgemm.asynchronous_complete_cumsum(of_features[permute.long()])
    check("expand_into_jagged_permute", permute.to(dtype), begins, ends, total)
    if features and batch:
        check(
            "permute_2D_sparse_data_input1D", permute, lengths.view(-1), values, batch, weights,
            total,
        )  # fmt: skip


def test_a_permute_may_repeat_and_leave_out() -> None:
    lengths, permute = torch.tensor([[1, 2], [0, 3], [2, 0]]), torch.tensor([2, 2, 0]).int()
    check("permute_2D_sparse_data", permute, lengths, torch.arange(8), None, 7)
    check("permute_2D_sparse_data", permute, lengths, torch.arange(8), torch.rand(8))


@settings(max_examples=60, deadline=None)
@given(sizes.filter(bool), st.integers(1, 3), INDEX)
def test_ranges_and_sums_of_segments(lengths: list[int], batch: int, dtype: torch.dtype) -> None:
    bounds = fbgemm.asynchronous_complete_cumsum(torch.tensor(lengths, dtype=dtype))
    check("offsets_range", bounds[:-1].contiguous(), int(bounds[-1]))
    for values in (
        torch.randint(0, 9, (int(bounds[-1]) * batch,)),
        torch.ones(int(bounds[-1]) * batch),
    ):
        check("segment_sum_csr", batch, bounds, values)


@settings(max_examples=150, deadline=None)
@given(
    st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), INDEX,
    st.booleans(), st.booleans(), st.booleans(),
    st.sampled_from(["even", "uneven", "kept", "some"]),
)  # fmt: skip
def test_ids_by_the_rank_of_their_rows(
    data: Any, ranks: int, features: int, batch: int, dtype: torch.dtype, weighted: bool,
    positions: bool, sequence: bool, kind: str,
) -> None:  # fmt: skip
    bags = features * batch
    lengths = torch.tensor(
        data.draw(st.lists(st.integers(0, 4), min_size=bags, max_size=bags)), dtype=dtype
    )
    total = int(lengths.sum())
    blocks = torch.tensor(
        data.draw(st.lists(st.integers(1, 6), min_size=features, max_size=features)), dtype=dtype
    )
    # Beyond the last rank's rows too: such ids are spread by their remainder.
    indices = torch.tensor(
        data.draw(st.lists(st.integers(0, 30), min_size=total, max_size=total)), dtype=dtype
    )
    kwargs: dict[str, Any] = {"weights": torch.rand(total) if weighted else None}
    if kind == "uneven":
        kwargs["block_bucketize_pos"] = [
            torch.tensor([0, *sorted(data.draw(
                st.lists(st.integers(0, 12), min_size=ranks, max_size=ranks, unique=True)
            ))], dtype=dtype)
            for _ in range(features)
        ]  # fmt: skip
        if any(int(border[1]) == 0 for border in kwargs["block_bucketize_pos"]):
            return  # fbgemm's search has no defined rank for an empty first block
        kwargs["max_B"] = batch
    elif kind == "kept":
        kwargs["keep_orig_idx"] = True
    elif kind == "some":
        kwargs["keep_orig_idx_per_feature"] = torch.arange(features) % 2 == 0
    check(
        "block_bucketize_sparse_features", lengths, indices, positions, sequence, blocks, ranks,
        **kwargs,
    )  # fmt: skip


def test_ids_by_rank_where_batches_differ_by_feature() -> None:
    torch.manual_seed(0)
    batches = torch.tensor([3, 0, 2])
    lengths = torch.randint(0, 4, (5,))
    indices = torch.randint(0, 20, (int(lengths.sum()),))
    check(
        "block_bucketize_sparse_features", lengths, indices, True, True, torch.tensor([4, 5, 6]), 3,
        None, batches, 3,
    )  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(0, 3))
def test_columns_in_another_order(data: Any, tables: int, batch: int) -> None:
    dims = torch.tensor(data.draw(st.lists(st.integers(0, 6), min_size=tables, max_size=tables)))
    permute = torch.tensor(data.draw(st.permutations(range(tables))))
    inverse = torch.argsort(permute)
    offsets = fbgemm.asynchronous_complete_cumsum(dims)
    back = fbgemm.asynchronous_complete_cumsum(dims[permute])
    pooled = torch.randn(batch, int(dims.sum()))
    for name in ("permute_pooled_embs", "permute_pooled_embs_split"):
        got = jagged.KERNELS[name](pooled, offsets, permute, back, inverse)
        wanted = torch.cat([pooled.split(dims.tolist(), 1)[p] for p in permute.tolist()], 1)
        assert got.equal(wanted)
        again = jagged.KERNELS[name](got, back, inverse, offsets, permute)
        assert again.equal(pooled)


def test_floats_order_ids_as_integers_do() -> None:
    keys = torch.tensor([0, 1, 2, 1 << 22, (1 << 24) + 1, (1 << 30) + 3, MOST - 1, MOST])
    as_floats = keys.int().add(_SMALLEST_NORMAL).view(torch.float32)
    assert bool(as_floats.isfinite().all()) and bool((as_floats.diff() > 0).all())
    assert float(as_floats[0]) == torch.finfo(torch.float32).tiny  # none is denormal
