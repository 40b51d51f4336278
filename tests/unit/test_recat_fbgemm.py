"""The three operators whose schemas are fbgemm's: right where fbgemm has no CPU kernel, and left
alone where it has one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import torchrec_ascend  # noqa: F401  registers the operators
from torchrec_ascend.splits import RankSplits

ours = torch.ops.torchrec_ascend
fixed = torch.ops.fbgemm.recat_embedding_grad_output
mixed = torch.ops.fbgemm.recat_embedding_grad_output_mixed_D
batch = torch.ops.fbgemm.recat_embedding_grad_output_mixed_D_batch
DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
COUNTS = st.lists(st.one_of(st.just(0), st.integers(1, 9)), min_size=1, max_size=8)
DIMS = st.lists(st.one_of(st.just(0), st.integers(1, 70)), min_size=1, max_size=8)


@pytest.fixture(params=[0, 2**62], ids=["streaming", "cached"])
def stores(request: pytest.FixtureRequest) -> Iterator[None]:
    ours._set_cpu_options("auto", request.param)
    yield
    ours._set_cpu_options("auto", -1)


def random_values(shape: Sequence[int], dtype: torch.dtype, seed: int) -> Tensor:
    """Any bit pattern: these operators move numbers and must not change one."""
    kind = BITS[dtype.itemsize]
    info = torch.iinfo(kind)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(info.min, info.max, shape, generator=generator, dtype=kind).view(dtype)


def assert_segments(flat: Tensor, grad: Tensor, dims: Sequence[int]) -> None:
    """Segment t is grad[:, offsets[t]:offsets[t] + dims[t]] flattened, at B * offsets[t]."""
    kind = BITS[grad.element_size()]
    assert flat.dtype == grad.dtype
    assert flat.shape == (grad.numel(),)
    rows = grad.view(kind).reshape(grad.shape[0], sum(dims))
    segments = flat.view(kind).split([grad.shape[0] * dim for dim in dims])
    for segment, columns in zip(segments, rows.split(list(dims), dim=1), strict=True):
        assert torch.equal(segment, columns.reshape(-1))


def tensors(dims: Sequence[int]) -> tuple[Tensor, Tensor]:
    return RankSplits(tuple(dims)).to("cpu")


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(features=COUNTS, dim=st.integers(0, 20), rows=st.integers(0, 9), seed=st.integers(0, 2**31))
def test_fixed_dim(dtype: torch.dtype, features: list[int], dim: int, rows: int, seed: int) -> None:
    grad = random_values((rows, sum(features), dim), dtype, seed)
    assert_segments(fixed(grad, features), grad, [count * dim for count in features])


@pytest.mark.usefixtures("stores")
@pytest.mark.parametrize("dtype", DTYPES)
@settings(deadline=None, max_examples=40, derandomize=True)
@given(dims=DIMS, rows=st.integers(0, 20), seed=st.integers(0, 2**31))
def test_mixed_dims_in_tensors(dtype: torch.dtype, dims: list[int], rows: int, seed: int) -> None:
    grad = random_values((rows, sum(dims)), dtype, seed)
    assert_segments(batch(grad, *tensors(dims)), grad, dims)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize(("rows", "dims"), [(5, [3, 4]), (1, [1]), (4, [8, 16, 8])])
def test_mixed_dims_is_fbgemms_own(dtype: torch.dtype, rows: int, dims: list[int]) -> None:
    grad = random_values((rows, sum(dims)), dtype, 0)
    assert_segments(mixed(grad, dims), grad, dims)


def kernels(name: str) -> dict[str, str]:
    """Dispatch key -> where its kernel was registered."""
    lines = torch._C._dispatch_dump(f"fbgemm::{name}").splitlines()
    return dict(line.split(": ", 1) for line in lines if ": registered at " in line)


def test_only_what_fbgemm_lacks_is_registered() -> None:
    fbgemm, own = "fbgemm_gpu/src/", "layout_transform_ops/cpu/layout_transform_ops_cpu.cpp"
    assert fbgemm in kernels("recat_embedding_grad_output_mixed_D")["CPU"]
    for name in ("recat_embedding_grad_output", "recat_embedding_grad_output_mixed_D_batch"):
        assert own in kernels(name)["CPU"]
        assert fbgemm not in kernels(name)["CPU"]


# --- what is refused


CPU_BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "features with gaps": (
        lambda: fixed(torch.zeros(3, 4, 5).transpose(1, 2), [2, 3]),
        r"recat_embedding_grad_output: grad_output has strides \[20, 1, 5\], expected contiguous",
    ),
    "expanded features": (
        lambda: fixed(torch.zeros(1, 5, 4).expand(3, 5, 4), [2, 3]),
        r"recat_embedding_grad_output: grad_output has strides \[0, 4, 1\], expected contiguous",
    ),
    "features overflow": (
        lambda: fixed(torch.zeros(0, 5, 4), [2**62, 2**62, 2**62, 2**62, 5]),
        r"the sum of num_features_per_rank overflows int64 at index 1",
    ),
    "integer features": (
        lambda: fixed(torch.zeros(3, 5, 4, dtype=torch.int32), [2, 3]),
        r"grad_output has dtype Int, expected float32, float16, bfloat16 or float64",
    ),
    "integers": (
        lambda: batch(torch.zeros(3, 5, dtype=torch.int64), *tensors([2, 3])),
        r"grad_output has dtype Long, expected float32, float16, bfloat16 or float64",
    ),
    "gaps": (
        lambda: batch(torch.zeros(3, 6)[:, :5], *tensors([2, 3])),
        r"grad_output has strides \[6, 1\], expected contiguous",
    ),
    "expanded": (
        lambda: batch(torch.zeros(()).expand(3, 5), *tensors([2, 3])),
        r"grad_output has strides \[0, 0\], expected contiguous",
    ),
    "wrong sum": (
        lambda: batch(torch.zeros(3, 5), *tensors([2, 2])),
        r"dim_sum_per_rank = \[2, 2\] covers 4 columns, grad has 5",
    ),
    "negative": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([6, -1]), torch.tensor([0, 6])),
        r"dim_sum_per_rank\[1\] is -1, expected >= 0",
    ),
    "int32 dims": (
        lambda: batch(torch.zeros(3, 5), tensors([2, 3])[0].int(), tensors([2, 3])[1]),
        r"dim_sum_per_rank has dtype Int, expected int64",
    ),
    "int32 prefix": (
        lambda: batch(torch.zeros(3, 5), tensors([2, 3])[0], tensors([2, 3])[1].int()),
        r"cumsum_dim_sum_per_rank has dtype Int, expected int64",
    ),
    "inclusive prefix": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([2, 3]), torch.tensor([2, 5])),
        r"cumsum_dim_sum_per_rank\[0\] is 2, expected 0 \(the prefix is exclusive",
    ),
    "prefix of other dims": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([2, 3]), torch.tensor([0, 3])),
        r"cumsum_dim_sum_per_rank\[1\] is 3, expected 2",
    ),
    "prefix too short": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([2, 3]), torch.tensor([0])),
        r"cumsum_dim_sum_per_rank has 1 entries, dim_sum_per_rank 2",
    ),
    "prefix too long": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([2, 3]), torch.tensor([0, 2, 5])),
        r"cumsum_dim_sum_per_rank has 3 entries, dim_sum_per_rank 2",
    ),
    "2-D dims": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([[2, 3]]), torch.tensor([0, 2])),
        r"dim_sum_per_rank has shape \[1, 2\], expected 1-D and contiguous",
    ),
    "prefix with gaps": (
        lambda: batch(torch.zeros(3, 5), torch.tensor([2, 3]), torch.tensor([0, 0, 2, 2])[::2]),
        r"cumsum_dim_sum_per_rank has shape \[2\], expected 1-D and contiguous",
    ),
    "sum overflows": (
        lambda: batch(torch.zeros(0, 5), torch.tensor([2**62] * 4 + [5]), torch.zeros(5).long()),
        r"the sum of dim_sum_per_rank overflows int64 at index 1",
    ),
}
BOTH_BAD: dict[str, tuple[Callable[[str], Any], str]] = {
    "2-D features": (
        lambda device: fixed(torch.zeros(3, 5, device=device), [2, 3]),
        r"recat_embedding_grad_output: grad_output has shape \[3, 5\], expected \[B, T_global, D\]",
    ),
    "too few features": (
        lambda device: fixed(torch.zeros(3, 5, 4, device=device), [2, 2]),
        r"num_features_per_rank = \[2, 2\] counts 4 features, grad_output has 5",
    ),
    "columns for features": (
        lambda device: fixed(torch.zeros(3, 5, 4, device=device), [8, 12]),
        r"num_features_per_rank = \[8, 12\] counts 20 features, grad_output has 5",
    ),
    "negative features": (
        lambda device: fixed(torch.zeros(3, 5, 4, device=device), [6, -1]),
        r"num_features_per_rank\[1\] is -1, expected >= 0",
    ),
    "3-D": (
        lambda device: batch(torch.zeros(3, 5, 1, device=device), *RankSplits((2, 3)).to(device)),
        r"mixed_D_batch: grad_output has shape \[3, 5, 1\], expected \[B, sum\(dim_sum_per_rank",
    ),
}


@pytest.mark.parametrize("name", CPU_BAD)
def test_bad_input_is_refused(name: str) -> None:
    call, message = CPU_BAD[name]
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", BOTH_BAD)
def test_bad_input_is_refused_on_every_device(name: str, device: str) -> None:
    call, message = BOTH_BAD[name]
    with pytest.raises(RuntimeError, match=message):
        call(device)


def test_two_devices_are_refused() -> None:
    """PyTorch calls the Meta kernel for these, which must not hand out an unwritten tensor."""
    grad, (dims, offsets) = torch.zeros(3, 5), tensors([2, 3])
    with pytest.raises(RuntimeError, match=r"batch: dim_sum_per_rank is on meta, expected cpu"):
        batch(grad, dims.to("meta"), offsets)
    with pytest.raises(RuntimeError, match=r"cumsum_dim_sum_per_rank is on meta, expected cpu"):
        batch(grad, dims, offsets.to("meta"))
    with pytest.raises(RuntimeError, match=r"batch: dim_sum_per_rank is on cpu, expected meta"):
        batch(grad.to("meta"), dims, offsets)


# --- Meta and autograd


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [0, 3])
def test_meta_gives_the_shape_and_dtype_of_the_cpu(rows: int, dtype: torch.dtype) -> None:
    cube = torch.zeros(rows, 5, 4, dtype=dtype, device="meta")
    matrix = torch.zeros(rows, 5, dtype=dtype, device="meta")
    results = (
        (fixed(cube, [2, 3]), rows * 20),
        (mixed(matrix, [2, 3]), rows * 5),
        (batch(matrix, *RankSplits((2, 3)).to("meta")), rows * 5),
    )
    for result, numel in results:
        assert result.is_meta
        assert (result.shape, result.dtype) == ((numel,), dtype)


@pytest.mark.parametrize("dims", [[2, 0, 3], [5], [0, 5, 0]])
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_the_backward_is_that_of_recat(dims: list[int], rows: int) -> None:
    matrix = torch.randn(rows, 5)
    cube = torch.randn(rows, 5, 3)
    wide = [3 * dim for dim in dims]
    calls: list[tuple[Callable[[Tensor], Tensor], Tensor, list[int]]] = [
        (lambda grad: fixed(grad, dims), cube, wide),
        (lambda grad: mixed(grad, dims), matrix, dims),
        (lambda grad: batch(grad, *tensors(dims)), matrix, dims),
    ]
    for call, values, columns in calls:
        one, two = (values.clone().requires_grad_() for _ in range(2))
        flat, reference = call(one), ours.recat(two, columns)
        assert torch.equal(flat, reference)
        up = torch.randn_like(flat)
        flat.backward(up)
        reference.backward(up)
        assert one.grad is not None
        assert two.grad is not None
        assert torch.equal(one.grad, two.grad)


def test_gradcheck() -> None:
    matrix = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    cube = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda grad: fixed(grad, [2, 0, 3]), cube)
    assert torch.autograd.gradcheck(lambda grad: batch(grad, *tensors([2, 0, 3])), matrix)


CALLS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "fixed": (fixed.default, (torch.randn(3, 5, 2), [2, 0, 3])),
    "mixed": (mixed.default, (torch.randn(3, 5), [2, 3])),
    "batch": (batch.default, (torch.randn(3, 5), *tensors([2, 0, 3]))),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name: str, grad: bool) -> None:
    op, (source, *rest) = CALLS[name]
    torch.library.opcheck(op, (source.clone().requires_grad_(grad), *rest))
