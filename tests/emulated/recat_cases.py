"""The layout operators on npu:0 against the CPU's, bit for bit. Runs in an emulated process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

import torchrec_ascend  # noqa: F401

ours, fbgemm = torch.ops.torchrec_ascend, torch.ops.fbgemm

DIMS: list[list[int]] = [
    [5],
    [0, 7],
    [3, 0, 9],
    [7, 0, 0],
    [0, 0],
    [16] * 8,
    [1] * 100,
    [13] * 16,
    [417, 33, 7, 129],
    [2, 40000, 1],
]
BATCHES = [0, 1, 5, 33]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
# A pair without float32 has no compiled kernel and is composed.
PAIRS = list(itertools.product(DTYPES[:3], DTYPES[:3]))
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def random_bits(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Every bit pattern, NaN payloads included."""
    integer = BITS[dtype.itemsize]
    info = torch.iinfo(integer)
    return torch.randint(info.min, info.max, shape, dtype=integer).view(dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    integer = BITS[a.dtype.itemsize]
    return a.dtype == b.dtype and a.view(integer).equal(b.view(integer))


def same_values(a: Tensor, b: Tensor) -> bool:
    """To the bit, but for what a NaN carries."""
    nan = a.isnan()
    return bool(nan.equal(b.isnan())) and same_bits(a[~nan], b[~nan])


def copies() -> list[str]:
    """Cases in which a copy without scale or cast changes a bit, by any form."""
    wrong, count = [], 0
    for dims, batch, dtype in itertools.product(DIMS, BATCHES, DTYPES):
        if batch * sum(dims) > 500_000:
            continue
        rows = random_bits((batch, sum(dims)), dtype)
        flat = ours.recat(rows, dims)
        on_npu = rows.to("npu")
        vectors = [
            torch.tensor(v).to("npu") for v in (dims, [sum(dims[:t]) for t in range(len(dims))])
        ]
        out = torch.empty(rows.numel() + 3, dtype=dtype).to("npu")
        rows_out = torch.empty_like(on_npu)
        ours.recat(on_npu, dims, out=out[3:])
        ours.unrecat(flat.to("npu"), dims, batch, out=rows_out)
        forms = {
            "recat": (ours.recat(on_npu, dims), flat),
            "recat.out": (out[3:], flat),
            "unrecat": (ours.unrecat(flat.to("npu"), dims, batch), rows),
            "unrecat.out": (rows_out, rows),
            "mixed_D": (fbgemm.recat_embedding_grad_output_mixed_D(on_npu, dims), flat),
            "mixed_D_batch": (
                fbgemm.recat_embedding_grad_output_mixed_D_batch(on_npu, *vectors),
                flat,
            ),
        }
        for form, (got, want) in forms.items():
            count += 1
            if not same_bits(got.cpu(), want):
                wrong.append(f"{form} dims {dims[:8]} B {batch} {dtype}")
    assert count > 500
    return wrong


def features() -> list[str]:
    """Cases of the [B, T, D] form that differ, strided gradients included."""
    wrong = []
    for counts, dim, dtype in itertools.product([[2, 0, 1], [1, 1], [4]], [1, 8, 12], DTYPES):
        grad = random_bits((6, sum(counts), dim), dtype)
        want = fbgemm.recat_embedding_grad_output(grad, counts)
        if not same_bits(fbgemm.recat_embedding_grad_output(grad.to("npu"), counts).cpu(), want):
            wrong.append(f"features {counts} D {dim} {dtype}")
        wide = random_bits((6, 2 * sum(counts) * dim), dtype)
        dims = [n * dim for n in counts]
        width = sum(dims)
        cuts: list[Callable[..., Tensor]] = [
            lambda w, n=width: w[:, :n],
            lambda w, n=width: w[::2, :n],
            lambda w: w[:, ::2],
        ]
        for index, cut in enumerate(cuts):
            got = ours.recat(cut(wide.to("npu")), dims).cpu()
            if not same_bits(got, ours.recat(cut(wide), dims)):
                wrong.append(f"cut {index} of {dims} {dtype}")
    return wrong


def conversions() -> list[str]:
    """Cases of scale and cast that differ by a bit."""
    wrong = []
    torch.manual_seed(1)
    scales = [1.0, 0.25, 1 / 3, -7.0, 0.0, 1e-6, 1e6]
    for (source, target), scale, dims in itertools.product(
        PAIRS, scales, [[3, 0, 9], [16, 16], [417, 33, 7]]
    ):
        values = torch.randn(9, sum(dims)) * torch.logspace(-9, 6, sum(dims))
        rows = values.to(source)
        want = ours.recat(rows, dims, scale=scale, dtype=target)
        got = ours.recat(rows.to("npu"), dims, scale=scale, dtype=target).cpu()
        if not same_values(got, want):
            wrong.append(f"recat {source} {target} scale {scale} dims {dims}")
        if scale == 1.0:
            flat = rows.reshape(-1)
            want = ours.unrecat(flat, dims, 9, dtype=target)
            if not same_values(ours.unrecat(flat.to("npu"), dims, 9, dtype=target).cpu(), want):
                wrong.append(f"unrecat {source} {target} dims {dims}")
    return wrong


def _derivative_calls(dims: list[int]) -> Iterator[tuple[str, Callable[[Tensor], Tensor], Any]]:
    rows, flat = (7, sum(dims)), (7 * sum(dims),)
    yield "recat", lambda x: ours.recat(x, dims, scale=0.5), rows
    yield "unrecat", lambda x: ours.unrecat(x, dims, 7), flat
    yield "mixed_D", lambda x: fbgemm.recat_embedding_grad_output_mixed_D(x, dims), rows
    yield (
        "mixed_D_batch",
        lambda x: fbgemm.recat_embedding_grad_output_mixed_D_batch(
            x,
            torch.tensor(dims).to(x.device),
            torch.tensor([sum(dims[:t]) for t in range(len(dims))]).to(x.device),
        ),
        rows,
    )
    counts = [dim // 3 for dim in dims]
    yield (
        "output",
        lambda x: fbgemm.recat_embedding_grad_output(x, counts),
        (7, sum(counts), 3),
    )


def derivatives() -> list[str]:
    """Operators whose gradient differs."""
    wrong = []
    for name, call, shape in _derivative_calls([3, 0, 9]):
        gradients = []
        for device in ("cpu", "npu"):
            torch.manual_seed(2)
            x = torch.randn(shape).to(device).requires_grad_()
            y = call(x)
            y.backward(torch.randn(y.shape).to(device))
            assert x.grad is not None
            gradients.append(x.grad.cpu())
        if not gradients[0].equal(gradients[1]) or not bool(gradients[0].any()):
            wrong.append(name)
    return wrong


def on_streams() -> list[str]:
    """Streams whose result differs: each copies the splits for itself."""
    wrong = []
    dims = [3, 0, 9]
    rows = torch.randn(64, 12)
    want = ours.recat(rows, dims)
    streams = [torch.get_device_module("npu").Stream() for _ in range(3)]
    results = []
    for _ in range(2):
        for stream in streams:
            with torch.get_device_module("npu").stream(stream):
                results.append(ours.recat(rows.to("npu"), dims))
    torch.get_device_module("npu").synchronize()
    for index, result in enumerate(results):
        if not result.cpu().equal(want):
            wrong.append(f"call {index}")
    return wrong


def many_splits() -> list[str]:
    """More splits than the cache of their tensors holds."""
    wrong = []
    for width in range(1, 301):
        dims = [width, 1, width % 7]
        rows = torch.arange(3.0 * sum(dims)).view(3, sum(dims))
        if not ours.recat(rows.to("npu"), dims).cpu().equal(ours.recat(rows, dims)):
            wrong.append(f"dims {dims}")
    return wrong


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "sum": (lambda: ours.recat(_npu(2, 5), [2, 2]), "dims = [2, 2] covers 4 columns, grad has 5"),
    "negative": (lambda: ours.recat(_npu(2, 5), [6, -1]), "dims[1] is -1, expected >= 0"),
    "dtype": (lambda: ours.recat(_npu(2, 5).int(), [5]), "expected float32, float16, bfloat16"),
    "shape": (lambda: ours.recat(_npu(5), [5]), "grad has shape [5]"),
    "flat": (lambda: ours.unrecat(_npu(14), [2, 3], 3), "flat has 14 elements"),
    "out shape": (lambda: ours.recat(_npu(2, 5), [5], out=_npu(9)), "out has shape [9]"),
    "out device": (
        lambda: ours.recat(_npu(2, 5), [5], out=torch.empty(10)),
        "expected npu:0",
    ),
    "overlap": (lambda: _overlap(), "expected memory of its own"),
    "index device": (
        lambda: fbgemm.recat_embedding_grad_output_mixed_D_batch(
            _npu(2, 5), torch.tensor([5]), torch.tensor([0])
        ),
        "dim_sum_per_rank is on cpu, expected npu:0",
    ),
    "index dtype": (
        lambda: fbgemm.recat_embedding_grad_output_mixed_D_batch(
            _npu(2, 5), torch.tensor([5]).int().to("npu"), torch.tensor([0]).to("npu")
        ),
        "dim_sum_per_rank has dtype Int, expected int64",
    ),
    "float64 cast": (
        lambda: ours.recat(_npu(2, 5), [5], dtype=torch.float64),
        "recat: Float to Double with scale 1: on an NPU float64 is copied, neither cast nor scaled",
    ),
    "float64 cast back": (
        lambda: ours.unrecat(
            torch.zeros(10, dtype=torch.float64).to("npu"), [5], 2, dtype=torch.float16
        ),
        "unrecat: Double to Half with scale 1: on an NPU",
    ),
    "no ranks": (
        lambda: fbgemm.recat_embedding_grad_output_mixed_D_batch(
            _npu(2, 5), _npu(0).long(), _npu(0).long()
        ),
        "dim_sum_per_rank has 0 entries",
    ),
    "mixed_D negative": (
        lambda: fbgemm.recat_embedding_grad_output_mixed_D(_npu(2, 5), [6, -1]),
        "dim_sum_per_rank[1] is -1",
    ),
    "features": (
        lambda: fbgemm.recat_embedding_grad_output(_npu(2, 3, 4), [1, 1]),
        "counts 2 features, grad_output has 3",
    ),
    "not contiguous": (
        lambda: fbgemm.recat_embedding_grad_output_mixed_D(_npu(5, 2).t(), [5]),
        "expected contiguous",
    ),
}


def _npu(*shape: int) -> Tensor:
    return torch.zeros(shape).to("npu")


def _overlap() -> Tensor:
    memory = _npu(20)
    return ours.recat(memory[:10].view(2, 5), [5], out=memory[5:15])


def refusal(name: str) -> str:
    """The message of the RuntimeError, or what was returned."""
    try:
        result = BAD[name][0]()
    except RuntimeError as error:
        return str(error)
    return f"no error: {result}"
