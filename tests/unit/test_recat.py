"""Laws of recat and unrecat: what they compute, what they refuse, and how they differentiate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import torchrec_ascend  # noqa: F401  registers the operators

ops = torch.ops.torchrec_ascend
F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
DTYPES = (F32, F16, BF16, F64)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
ALWAYS, NEVER = 0, 2**62  # streaming thresholds in bytes


def runnable_isas() -> list[str]:
    found = []
    for isa in ("baseline", "avx2", "avx512"):
        try:
            ops._set_cpu_options(isa)
        except RuntimeError:
            continue
        found.append(isa)
    ops._set_cpu_options("auto")
    return found


ISAS = runnable_isas()


@contextmanager
def cpu_options(isa: str, stream_bytes: int) -> Iterator[None]:
    ops._set_cpu_options(isa, stream_bytes)
    try:
        yield
    finally:
        ops._set_cpu_options("auto", -1)


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# --- the reference: plain torch, in the documented compute type


def cast(values: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    if dtype == values.dtype and scale == 1.0:
        return values
    compute = F64 if F64 in (values.dtype, dtype) else F32
    product = values.to(compute) * torch.tensor(scale, dtype=compute)
    return product.to(F32).to(dtype) if dtype in (F16, BF16) else product.to(dtype)


def recat_reference(rows: Tensor, dims: Sequence[int]) -> Tensor:
    parts = rows.reshape(rows.shape[0], sum(dims)).split(list(dims), dim=1)
    return torch.cat([part.reshape(-1) for part in parts])


def unrecat_reference(flat: Tensor, dims: Sequence[int], batch_size: int) -> Tensor:
    parts = flat.split([batch_size * dim for dim in dims])
    return torch.cat([p.view(batch_size, d) for p, d in zip(parts, dims, strict=True)], dim=1)


def bits(values: Tensor) -> Tensor:
    return values.contiguous().view(BITS[values.element_size()])


def assert_same(actual: Tensor, expected: Tensor) -> None:
    """Equal bit for bit, so that -0.0 is not 0.0; any NaN equals any NaN."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    nan = expected.isnan()
    assert torch.equal(actual.isnan(), nan)
    assert torch.equal(bits(actual)[~nan], bits(expected)[~nan])


def random_values(shape: Sequence[int], dtype: torch.dtype, seed: int) -> Tensor:
    """Half ordinary numbers, half any bit pattern: NaN, infinities and subnormals among them."""
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(shape, generator=generator, dtype=F64).to(dtype)
    info = torch.iinfo(BITS[dtype.itemsize])
    pattern = torch.randint(
        info.min, info.max, shape, generator=generator, dtype=BITS[dtype.itemsize]
    )
    choice = torch.randint(0, 2, shape, generator=generator, dtype=torch.bool)
    return torch.where(choice, normal, pattern.view(dtype))


@contextmanager
def guarded(shape: Sequence[int], dtype: torch.dtype, offset: int) -> Iterator[Tensor]:
    """A tensor `offset` elements into a buffer; what lies around it must not change."""
    numel = torch.Size(shape).numel()
    buffer = torch.full((offset + numel + 70,), -7.0, dtype=dtype)
    yield buffer[offset : offset + numel].view(shape)
    assert (buffer[:offset] == -7.0).all(), "written before out"
    assert (buffer[offset + numel :] == -7.0).all(), "written past out"


# --- values

# 63 to 65 bytes and 255 to 257 elements are the edges of a streamed line and of a converted chunk.
DIM = st.one_of(
    st.just(0),
    st.integers(1, 40),
    st.sampled_from([7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 513]),
)
DIMS = st.lists(DIM, min_size=1, max_size=8)
SCALE = st.sampled_from([1.0, 1.0, 0.5, 1 / 3, -2.0, 0.0, 1e-6, 1024.0, 1e39, float("inf")])


def strided(rows: Tensor, layout: str) -> Tensor:
    """The values of rows [B, W], or some of them again, in another memory layout."""
    batch, width = rows.shape
    if layout == "row strided":
        wide = torch.full((batch, width + 3), float("nan"), dtype=rows.dtype)
        wide[:, 1 : width + 1] = rows
        return wide[:, 1 : width + 1]
    if layout == "transposed":
        return rows.t().contiguous().t()
    if layout == "rows expanded":
        return rows[:1].expand(batch, width)
    if layout == "columns expanded":
        return rows[:, :1].expand(batch, width) if width else rows
    return rows


@pytest.mark.parametrize("isa", ISAS)
@settings(deadline=None, max_examples=120, derandomize=True)
@given(
    dims=DIMS,
    batch=st.integers(0, 20),
    source=st.sampled_from(DTYPES),
    target=st.sampled_from(DTYPES),
    scale=SCALE,
    stream=st.sampled_from([ALWAYS, NEVER]),
    offset=st.integers(0, 65),
    layout=st.sampled_from(
        ["plain", "row strided", "transposed", "rows expanded", "columns expanded"]
    ),
    seed=st.integers(0, 2**31),
)
def test_recat_equals_split_and_cat(
    isa: str,
    dims: list[int],
    batch: int,
    source: torch.dtype,
    target: torch.dtype,
    scale: float,
    stream: int,
    offset: int,
    layout: str,
    seed: int,
) -> None:
    grad = strided(random_values((batch, sum(dims)), source, seed), layout)
    expected = cast(recat_reference(grad, dims), scale, target)
    with cpu_options(isa, stream), guarded(expected.shape, target, offset) as out:
        assert_same(ops.recat(grad, dims, scale=scale, dtype=target), expected)
        assert ops.recat(grad, dims, scale=scale, out=out) is out
        assert_same(out, expected)


@pytest.mark.parametrize("isa", ISAS)
@settings(deadline=None, max_examples=120, derandomize=True)
@given(
    dims=DIMS,
    batch=st.integers(0, 20),
    source=st.sampled_from(DTYPES),
    target=st.sampled_from(DTYPES),
    stream=st.sampled_from([ALWAYS, NEVER]),
    offset=st.integers(0, 65),
    gaps=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_unrecat_equals_split_and_cat(
    isa: str,
    dims: list[int],
    batch: int,
    source: torch.dtype,
    target: torch.dtype,
    stream: int,
    offset: int,
    gaps: bool,
    seed: int,
) -> None:
    flat = random_values((batch * sum(dims),), source, seed)
    if gaps:
        flat = torch.stack([flat, flat + 1], dim=1)[:, 0]
    expected = cast(unrecat_reference(flat, dims, batch), 1.0, target)
    with cpu_options(isa, stream), guarded(expected.shape, target, offset) as out:
        assert_same(ops.unrecat(flat, dims, batch, dtype=target), expected)
        assert ops.unrecat(flat, dims, batch, out=out) is out
        assert_same(out, expected)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    dims=DIMS,
    batch=st.integers(0, 20),
    stream=st.sampled_from([ALWAYS, NEVER]),
    seed=st.integers(0, 2**31),
)
def test_unrecat_undoes_recat_and_no_bit_changes(
    isa: str, dtype: torch.dtype, dims: list[int], batch: int, stream: int, seed: int
) -> None:
    grad = random_values((batch, sum(dims)), dtype, seed)
    with cpu_options(isa, stream):
        flat = ops.recat(grad, dims)
        back = ops.unrecat(flat, dims, batch)
    assert torch.equal(bits(flat), recat_reference(bits(grad), dims))  # payloads of NaN included
    assert torch.equal(bits(back), bits(grad))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stream", [ALWAYS, NEVER])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_three_dimensional_gradient(isa: str, stream: int, dtype: torch.dtype) -> None:
    """[B, T, D] means [B, T * D], in any memory layout."""
    plain = torch.randn(5, 6, 9)
    other = torch.randn(6, 5, 9).transpose(0, 1)
    narrow = torch.randn(5, 6, 12)[:, :, 1:10]
    constant = torch.randn(5, 1, 9).expand(5, 6, 9)
    with cpu_options(isa, stream):
        for grad in (plain, other, narrow, constant, plain[:0], plain[:, :, :0]):
            dims = [2 * grad.shape[2], 0, 4 * grad.shape[2]]
            expected = cast(recat_reference(grad, dims), 0.1, dtype)
            assert_same(ops.recat(grad, dims, scale=0.1, dtype=dtype), expected)


def test_no_ranks_and_no_columns() -> None:
    assert ops.recat(torch.empty(3, 0), []).shape == (0,)
    assert ops.recat(torch.empty(3, 0), [0, 0]).shape == (0,)
    assert ops.unrecat(torch.empty(0), [], 3).shape == (3, 0)
    assert ops.unrecat(torch.empty(0), [0, 5], 0).shape == (0, 5)


def test_a_gradient_of_all_ones_that_autograd_expanded() -> None:
    grad = torch.ones(()).expand(4, 6)
    assert grad.stride() == (0, 0)
    assert_same(ops.recat(grad, [2, 4], scale=0.5), torch.full((24,), 0.5))


# Rows of less and more than a block of 256 KiB, and enough bytes for threads to share.
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("stream", [ALWAYS, NEVER])
@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize(
    ("batch", "dims"),
    [
        (1501, [52, 0, 1, 13, 130]),
        (300, [16] * 64),
        (5, [1, 70_000, 333]),
    ],
    ids=["odd", "64 ranks", "wide rows"],
)
def test_threads_do_not_change_the_result(
    threads: Callable[[int], None],
    isa: str,
    stream: int,
    dtype: torch.dtype,
    batch: int,
    dims: list[int],
) -> None:
    grad = torch.randn(batch, sum(dims))
    assert grad.nbytes > 2 * (128 << 10)  # a thread takes 128 KiB or more
    flat = cast(recat_reference(grad, dims), 0.5, dtype)
    rows = unrecat_reference(flat, dims, batch)
    for count in (1, 2):
        threads(count)
        with cpu_options(isa, stream), guarded(flat.shape, dtype, 3) as out:
            assert_same(ops.recat(grad, dims, scale=0.5, out=out), flat)
        with cpu_options(isa, stream), guarded(rows.shape, dtype, 5) as out:
            assert_same(ops.unrecat(flat, dims, batch, out=out), rows)


@pytest.mark.parametrize("stream", [ALWAYS, NEVER])
@pytest.mark.parametrize(
    ("batch", "dims"),
    [
        (3, [16] * 1024),
        (3, [0, 1, 2, 0] * 256),
        (1, [1] * 65_535),
        (2, [1] * 65_536),
        (1, [1] * 65_537),
        (2**20 + 1, [1]),
        (100_003, [0, 3, 0]),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else f"{len(value)} ranks",
)
def test_every_row_of_every_rank_is_copied_once(
    threads: Callable[[int], None], stream: int, batch: int, dims: list[int]
) -> None:
    """Many ranks, few rows; many rows, few ranks. Each element has its own value."""
    threads(2)
    grad = torch.arange(batch * sum(dims), dtype=F32).view(batch, -1)
    assert grad.numel() <= 2**24  # integers that fp32 tells apart
    with cpu_options("auto", stream):
        flat = ops.recat(grad, dims)
        back = ops.unrecat(flat, dims, batch)
    assert torch.equal(flat, recat_reference(grad, dims))
    assert torch.equal(back, grad)


# --- casts


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("source", [F16, BF16])
@pytest.mark.parametrize("target", DTYPES)
def test_every_sixteen_bit_pattern(isa: str, source: torch.dtype, target: torch.dtype) -> None:
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(source).view(256, 256)
    dims = [100, 156]
    expected = recat_reference(every, dims)
    with cpu_options(isa, NEVER):
        assert_same(ops.recat(every, dims, dtype=target), expected.to(target))
        assert_same(ops.recat(every, dims, dtype=target, scale=0.5), cast(expected, 0.5, target))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("source", [F32, F64])
@pytest.mark.parametrize("target", [F16, BF16])
def test_narrowing_rounds_to_nearest_even(
    isa: str, source: torch.dtype, target: torch.dtype
) -> None:
    """Every tie between two neighbours of the narrow type, and the fp32 values beside the tie."""
    positive = torch.arange(0, 2**15, dtype=torch.int16).view(target)
    finite = positive[positive.isfinite()].double()
    ends = torch.cat([finite[1:], 2 * finite[-1:] - finite[-2:-1]])  # the last: to infinity
    ties = ((finite + ends) / 2).float()
    infinity = torch.tensor(float("inf"))
    values = torch.cat([ties, ties.nextafter(infinity), ties.nextafter(-infinity)])
    # NaN whose payload a plain rounding carries into the sign, or truncates to infinity
    nan = torch.tensor([0x7FFFFFFF, -1, 0x7F800001, 0x7FC00000], dtype=torch.int32).view(F32)
    values = torch.cat([values, -values, nan.repeat(9), torch.tensor([1e38, 1e-45, -0.0])])
    grad = values.to(source).view(1, -1)
    with cpu_options(isa, NEVER):
        result = ops.recat(grad, [grad.shape[1]], dtype=target)
    assert_same(result, values.to(target))
    assert result[: len(ties)].isinf().sum() == 1  # a tie with the first value too large


@pytest.mark.parametrize("isa", ISAS)
def test_fp16_overflows_to_infinity_and_underflows_to_zero(isa: str) -> None:
    grad = torch.tensor([[65504.0, 65519.996, 65520.0, -1e6, 2.0**-24, 2.0**-25, 3 * 2.0**-26]] * 3)
    expected = [65504.0, 65504.0, float("inf"), float("-inf"), 2.0**-24, 0.0, 2.0**-24]
    with cpu_options(isa, NEVER):
        assert ops.recat(grad, [7], dtype=F16).view(3, 7).tolist() == [expected] * 3


@pytest.mark.parametrize("isa", ISAS)
def test_the_product_is_in_the_documented_type(isa: str) -> None:
    large = torch.full((1, 9), 60000.0)
    with cpu_options(isa, NEVER):
        # scaled before it is rounded to fp16, where 60000 * 2 would be infinite
        half = large.to(F16)
        assert ops.recat(half, [9], scale=2.0, dtype=F32).tolist() == [120000.0] * 9
        assert ops.recat(large * 4, [9], scale=0.25, dtype=F16).tolist() == [60000.0] * 9
        # fp64 on either side: the scale is not rounded to fp32
        ones = torch.ones(1, 9)
        assert ops.recat(ones, [9], scale=1 / 3, dtype=F64).tolist() == [1 / 3] * 9
        assert ops.recat(ones.double(), [9], scale=1e39).tolist() == [1e39] * 9
        assert ops.recat(ones, [9], scale=1e39).tolist() == [float("inf")] * 9


def test_the_best_instruction_set_is_chosen() -> None:
    assert ISAS[0] == "baseline"
    assert ops._cpu_isa() == ISAS[-1]
    capability = torch.backends.cpu.get_cpu_capability()
    assert capability not in ("AVX2", "AVX512") or capability.lower() in ISAS
    with pytest.raises(RuntimeError, match='isa is "mmx", expected auto, baseline'):
        ops._set_cpu_options("mmx")


# --- what is refused, on CPU and on Meta alike


def full(*shape: int, device: str, dtype: torch.dtype = F32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device=device)


BAD: dict[str, tuple[Callable[[str], Any], str]] = {
    "sum too small": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 2]),
        r"recat: dims = \[2, 2\] covers 4 columns, grad has 5",
    ),
    "sum too large": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 4]),
        r"recat: dims = \[2, 4\] covers 6 columns, grad has 5",
    ),
    "sum in 3-D": (
        lambda d: ops.recat(full(0, 2, 3, device=d), [2, 3]),
        r"recat: dims = \[2, 3\] covers 5 columns, grad has 6",
    ),
    "no ranks": (
        lambda d: ops.recat(full(3, 5, device=d), []),
        r"recat: dims = \[\] covers 0 columns, grad has 5",
    ),
    "negative, sums right": (
        lambda d: ops.recat(full(3, 5, device=d), [6, -1]),
        r"recat: dims\[1\] is -1, expected >= 0",
    ),
    "negative, empty batch": (
        lambda d: ops.recat(full(0, 5, device=d), [-3, 8]),
        r"recat: dims\[0\] is -3, expected >= 0",
    ),
    "1-D grad": (
        lambda d: ops.recat(full(5, device=d), [2, 3]),
        r"recat: grad has shape \[5\], expected \[B, sum\(dims\)\] or \[B, T, D\]",
    ),
    "4-D grad": (
        lambda d: ops.recat(full(1, 1, 1, 5, device=d), [2, 3]),
        r"recat: grad has shape \[1, 1, 1, 5\], expected",
    ),
    "integer grad": (
        lambda d: ops.recat(full(3, 5, device=d, dtype=torch.int32), [2, 3]),
        r"recat: grad has dtype \S*[iI]nt\S*, expected float32, float16, bfloat16 or float64",
    ),
    "integer wire": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 3], dtype=torch.int8),
        r"recat: dtype has dtype (Char|torch.int8), expected float32, float16, bfloat16 or",
    ),
    "out too small": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 3], out=full(14, device=d)),
        r"recat: out has shape \[14\], expected \[15\]",
    ),
    "out 2-D": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 3], out=full(3, 5, device=d)),
        r"recat: out has shape \[3, 5\], expected \[15\]",
    ),
    "out with gaps": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 3], out=full(30, device=d)[::2]),
        r"recat: out has strides \[2\], expected contiguous",
    ),
    "out of integers": (
        lambda d: ops.recat(
            full(3, 5, device=d), [2, 3], out=full(15, device=d, dtype=torch.int64)
        ),
        r"recat: out has dtype (Long|torch.int64), expected float32",
    ),
    "out, wrong sum": (
        lambda d: ops.recat(full(3, 5, device=d), [2, 2], out=full(15, device=d)),
        r"recat: dims = \[2, 2\] covers 4 columns, grad has 5",
    ),
    "flat too short": (
        lambda d: ops.unrecat(full(14, device=d), [2, 3], 3),
        r"unrecat: flat has 14 elements, expected batch_size \* sum\(dims\) = 3 \* 5 = 15",
    ),
    "flat 2-D": (
        lambda d: ops.unrecat(full(3, 5, device=d), [2, 3], 3),
        r"unrecat: flat has shape \[3, 5\], expected 1-D",
    ),
    "flat of integers": (
        lambda d: ops.unrecat(full(15, device=d, dtype=torch.int16), [2, 3], 3),
        r"unrecat: flat has dtype (Short|torch.int16), expected float32",
    ),
    "rows of integers": (
        lambda d: ops.unrecat(full(15, device=d), [2, 3], 3, dtype=torch.bool),
        r"unrecat: dtype has dtype (Bool|torch.bool), expected float32",
    ),
    "negative rank": (
        lambda d: ops.unrecat(full(15, device=d), [6, -1], 3),
        r"unrecat: dims\[1\] is -1, expected >= 0",
    ),
    "negative batch": (
        lambda d: ops.unrecat(full(0, device=d), [0], -1),
        r"unrecat: batch_size is -1, expected >= 0",
    ),
    "two negatives": (
        lambda d: ops.unrecat(full(15, device=d), [-5], -3),
        r"unrecat: dims\[0\] is -5, expected >= 0",
    ),
    "rows too few": (
        lambda d: ops.unrecat(full(15, device=d), [2, 3], 3, out=full(2, 5, device=d)),
        r"unrecat: out has shape \[2, 5\], expected \[3, 5\]",
    ),
    "rows with gaps": (
        lambda d: ops.unrecat(full(15, device=d), [2, 3], 3, out=full(3, 6, device=d)[:, :5]),
        r"unrecat: out has strides \[6, 1\], expected contiguous",
    ),
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name: str, device: str) -> None:
    call, message = BAD[name]
    with pytest.raises(RuntimeError, match=message):
        call(device)


def test_sums_that_wrap_around_to_the_right_one_are_refused() -> None:
    huge = 2**62
    with pytest.raises(RuntimeError, match="recat: the sum of dims overflows int64 at index 1"):
        ops.recat(torch.empty(0, 5), [huge, huge, huge, huge, 5])
    message = rf"unrecat: batch_size 8 times sum\(dims\) {huge} overflows int64"
    with pytest.raises(RuntimeError, match=message):
        ops.unrecat(torch.empty(0), [huge], 8)


@pytest.mark.parametrize(("here", "there"), [("cpu", "meta"), ("meta", "cpu")])
def test_two_devices_are_refused(here: str, there: str) -> None:
    """PyTorch calls the Meta kernel for these, which must not hand out an unwritten tensor."""
    grad, flat = full(3, 5, device=here), full(15, device=here)
    message = f"recat: out is on {there}, expected {here}"
    with pytest.raises(RuntimeError, match=message):
        ops.recat(grad, [2, 3], out=full(15, device=there))
    with pytest.raises(RuntimeError, match=f"un{message}"):
        ops.unrecat(flat, [2, 3], 3, out=full(3, 5, device=there))


def test_out_that_overlaps_is_refused() -> None:
    buffer = torch.arange(40.0)
    before = buffer.clone()
    with pytest.raises(RuntimeError, match=r"recat: out at .* overlaps grad at .*, expected"):
        ops.recat(buffer[:15].view(3, 5), [2, 3], out=buffer[14:29])
    with pytest.raises(RuntimeError, match=r"recat: out at .* overlaps grad"):  # rows with gaps
        ops.recat(buffer[:18].view(3, 6)[:, :5], [2, 3], out=buffer[16:31])
    with pytest.raises(RuntimeError, match=r"recat: out at .* overlaps grad"):  # one element
        ops.recat(buffer[3].expand(3, 5), [2, 3], out=buffer[:15])
    with pytest.raises(RuntimeError, match=r"unrecat: out at .* overlaps flat at"):
        ops.unrecat(buffer[:15], [2, 3], 3, out=buffer[:15].view(3, 5))
    assert torch.equal(buffer, before)
    ops.recat(buffer[:15].view(3, 5), [2, 3], out=buffer[15:30])  # neighbours may touch
    assert torch.equal(buffer[15:30], recat_reference(before[:15].view(3, 5), [2, 3]))
    assert torch.equal(buffer[30:], before[30:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 5), (0, 5), (4, 0), (2, 5, 1), (0, 5, 1)])
def test_meta_gives_the_shape_and_dtype_of_the_cpu(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    grad = torch.zeros(shape)
    dims = [2, 3] if grad.shape[1] else [0, 0]
    flat = ops.recat(grad, dims, dtype=dtype)
    rows = ops.unrecat(flat, dims, shape[0])
    meta_flat = ops.recat(grad.to("meta"), dims, dtype=dtype)
    meta_rows = ops.unrecat(meta_flat, dims, shape[0])
    for real, meta in ((flat, meta_flat), (rows, meta_rows)):
        assert meta.is_meta
        assert (meta.shape, meta.stride(), meta.dtype) == (real.shape, real.stride(), real.dtype)


# --- autograd


@pytest.mark.parametrize("dims", [[2, 0, 3], [0], [4]])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_gradcheck(dims: list[int], scale: float) -> None:
    def recat(grad: Tensor) -> Tensor:
        return ops.recat(grad, dims, scale=scale)

    def unrecat(flat: Tensor) -> Tensor:
        return ops.unrecat(flat, dims, 3)

    width = sum(dims)
    rows = torch.randn(3, width, dtype=F64, requires_grad=True)
    flat = torch.randn(3 * width, dtype=F64, requires_grad=True)
    for function, inputs in ((recat, rows), (unrecat, flat)):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)
    if width:
        cube = torch.randn(3, width, 1, dtype=F64, requires_grad=True)
        assert torch.autograd.gradcheck(recat, cube)


@pytest.mark.parametrize("wire", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_is_the_backward_of_the_other(dtype: torch.dtype, wire: torch.dtype) -> None:
    dims, scale = [3, 0, 4], 0.3
    rows = torch.randn(5, 7).to(dtype).requires_grad_()
    flat_grad = torch.randn(35).to(wire)
    ops.recat(rows, dims, scale=scale, dtype=wire).backward(flat_grad)
    expected = ops.unrecat(flat_grad.to(F64), dims, 5) * scale
    assert rows.grad is not None
    assert rows.grad.dtype == dtype
    torch.testing.assert_close(rows.grad, expected.to(dtype))

    flat = torch.randn(35).to(dtype).requires_grad_()
    rows_grad = torch.randn(5, 7).to(wire)
    ops.unrecat(flat, dims, 5, dtype=wire).backward(rows_grad)
    assert flat.grad is not None
    assert_same(flat.grad, ops.recat(rows_grad, dims, dtype=dtype))


def test_backward_scales_before_it_narrows() -> None:
    rows = torch.ones(2, 5, dtype=F16, requires_grad=True)
    flat = ops.recat(rows, [2, 3], scale=2.0**-10, dtype=F32)
    flat.backward(torch.full((10,), 2.0**20))  # too large for fp16 until it is scaled
    assert rows.grad is not None
    assert rows.grad.tolist() == [[1024.0] * 5] * 2


def test_out_is_not_differentiated_in_silence() -> None:
    rows = torch.randn(3, 5, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for torchrec_ascend::recat"):
        ops.recat(rows, [2, 3], out=torch.empty(15)).sum().backward()
    flat = torch.randn(15, requires_grad=True)
    with pytest.raises(RuntimeError, match="derivative for torchrec_ascend::unrecat"):
        ops.unrecat(flat, [2, 3], 3, out=torch.empty(3, 5)).sum().backward()
    with torch.no_grad():
        assert not ops.recat(rows, [2, 3], out=torch.empty(15)).requires_grad


def test_a_backward_that_needs_what_out_held_raises() -> None:
    weight, out = torch.randn(15, requires_grad=True), torch.randn(15)
    product = weight * out  # saves out
    ops.recat(torch.randn(3, 5), [2, 3], out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


# --- as PyTorch's own tools see the operators

ROWS, FLAT = torch.randn(3, 5), torch.randn(15)
CALLS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "recat": (ops.recat.default, (ROWS, [2, 3]), {}),
    "recat scaled": (ops.recat.default, (ROWS, [0, 2, 3]), {"scale": 0.5, "dtype": BF16}),
    "recat 3-D": (ops.recat.default, (ROWS.view(3, 5, 1), [2, 3]), {}),
    "recat.out": (ops.recat.out, (ROWS, [2, 3]), {"scale": 0.5, "out": torch.empty(15)}),
    "unrecat": (ops.unrecat.default, (FLAT, [2, 3], 3), {"dtype": F64}),
    "unrecat.out": (ops.unrecat.out, (FLAT, [2, 3], 3), {"out": torch.empty(3, 5)}),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str, grad: bool) -> None:
    op, (source, *rest), options = CALLS[name]
    if grad and "out" in options:
        grad = False  # has no derivative
    torch.library.opcheck(op, (source.clone().requires_grad_(grad), *rest), options)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic: bool) -> None:
    def both(grad: Tensor) -> Tensor:
        flat = ops.recat(grad * 2, [2, 0, 3], scale=0.5)
        return ops.unrecat(flat, [2, 0, 3], grad.shape[0]) + 1

    def into(grad: Tensor, out: Tensor) -> Tensor:
        ops.recat(grad, [2, 3], scale=0.5, out=out)
        return out + 1

    compiled = torch.compile(both, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for batch in (3, 4):
        grad = torch.randn(batch, 5, requires_grad=True)
        out = compiled(grad)
        assert_same(out, both(grad))
        out.sum().backward()
        assert grad.grad is not None
        assert_same(grad.grad, torch.ones(batch, 5))
    compiled_into = torch.compile(into, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    flat = torch.zeros(15)
    assert_same(compiled_into(ROWS, flat), flat + 1)
    assert_same(flat, recat_reference(ROWS, [2, 3]) * 0.5)


def test_batch_times_ranks_above_2_to_the_27() -> None:
    """Where a launch with one block a (row, rank) overflows; nearly all ranks are empty."""
    batch, dims = 2**17 + 3, [0] * 1025
    dims[0], dims[700] = 1, 1
    assert batch * len(dims) > 2**27
    grad = torch.arange(2.0 * batch).view(batch, 2)
    flat = ops.recat(grad, dims)
    assert torch.equal(flat, grad.t().reshape(-1))
    assert torch.equal(ops.unrecat(flat, dims, batch), grad)
