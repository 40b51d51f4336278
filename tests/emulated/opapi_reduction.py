"""Cases: reductions, sorts, scans, products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from opapi_cases import Case, View, bools, each, f32, floats, i64, ints
from torch import Tensor

Function = Callable[..., Any]


def _tables(inputs: list[Tensor | View]) -> list[tuple[Tensor | View]]:
    """The inputs that have two dimensions and elements."""
    return [(x,) for x in inputs if _shape(x).numel() > 1]


def _shape(x: Tensor | View) -> torch.Size:
    return (x.on("cpu") if isinstance(x, View) else x).shape


FLOAT_REDUCTIONS: dict[str, Function] = {
    "sum": torch.sum,
    "sum to float32": lambda x: x.sum(0, dtype=torch.float32),
    "sum of all dims": lambda x: x.sum((0, 1), keepdim=True),
    "nansum": torch.nansum,
    "nansum dim": lambda x: x.nansum(0),
    "mean": torch.mean,
    "mean dim": lambda x: x.mean(1, keepdim=True),
    "prod": torch.prod,
    "prod dim": lambda x: x.prod(1),
    "logsumexp": lambda x: torch.logsumexp(x, (0, 1)),
    "max": torch.max,
    "min": torch.min,
    "amax": lambda x: torch.amax(x, 1),
    "amin": lambda x: torch.amin(x, (0, 1)),
    "aminmax": torch.aminmax,
    "aminmax dim": lambda x: torch.aminmax(x, dim=1, keepdim=True),
    "_aminmax": torch._aminmax,
    "_aminmax dim": lambda x: torch._aminmax(x, 1),
    "max dim": lambda x: torch.max(x, 1),
    "min dim": lambda x: torch.min(x, 0, keepdim=True),
    "argmax": torch.argmax,
    "argmax dim": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "median": torch.median,
    "median dim": lambda x: torch.median(x, 1),
    "nanmedian": torch.nanmedian,
    "nanmedian dim": lambda x: torch.nanmedian(x, 1),
    "kthvalue": lambda x: torch.kthvalue(x, 2, 1),
    "all": lambda x: (x > 0).all(),
    "any dim": lambda x: (x > 1).any(1),
    "norm": torch.norm,
    "norm dim": lambda x: torch.norm(x, 1, dim=1),
    "vector_norm": torch.linalg.vector_norm,
    "vector_norm dim": lambda x: torch.linalg.vector_norm(x, 2, dim=1, keepdim=True),
    "vector_norm inf": lambda x: torch.linalg.vector_norm(x, float("inf")),
    "aten::norm": lambda x: torch.ops.aten.norm.ScalarOpt_dim(x, 2, [1]),
    "std": torch.std,
    "std dim": lambda x: x.std(1, correction=0),
    "var": torch.var,
    "var dim": lambda x: x.var(1, keepdim=True),
    "std_mean": lambda x: torch.std_mean(x, 1),
    "var_mean": lambda x: torch.var_mean(x, 1, correction=0),
    "renorm": lambda x: torch.renorm(x, 2, 0, 1.0),
    "renorm_": lambda x: x.renorm_(2, 0, 1.0),
    "cumsum": lambda x: x.cumsum(0),
    "cumsum to float32": lambda x: torch.cumsum(x, 1, dtype=torch.float32),
    "cumprod": lambda x: x.cumprod(1),
    "cummax": lambda x: torch.cummax(x, 1),
    "cummin": lambda x: torch.cummin(x, 0),
    "sort": lambda x: torch.sort(x, stable=True),
    "sort descending": lambda x: torch.sort(x, 0, descending=True),
    "argsort": lambda x: torch.argsort(x, dim=1, stable=True),
    "topk": lambda x: torch.topk(x, 3),
    "topk smallest": lambda x: torch.topk(x, 2, 0, largest=False),
    "msort": torch.msort,
}
INT_REDUCTIONS: dict[str, Function] = {
    "sum": torch.sum,
    "sum dim": lambda x: x.sum(1),
    "prod": torch.prod,
    "max": torch.max,
    "min dim": lambda x: torch.min(x, 1).values,
    "argmax": lambda x: (x * 100 + torch.arange(x.shape[1], device=x.device)).argmax(1),
    "all": torch.all,
    "any": lambda x: x.any(0),
    "cumsum": lambda x: x.cumsum(1),
    "cumsum to int32": lambda x: torch.cumsum(x, 0, dtype=torch.int32),
    "sort": lambda x: torch.sort(x, stable=True),
    "topk": lambda x: torch.topk(x, 2).values,
    "unique": torch.unique,
    "unique inverse": lambda x: torch.unique(x, return_inverse=True),
    "unique counts": lambda x: torch.unique(x, return_counts=True),
    "unique all": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
    "_unique": lambda x: torch._unique(x, True, True),
    "unique dim": lambda x: torch.unique(x, dim=1, return_inverse=True, return_counts=True),
    "unique_consecutive": lambda x: torch.unique_consecutive(x, True, True),
    "unique_consecutive dim": lambda x: torch.unique_consecutive(x, dim=0),
}


def reduction() -> list[Case]:
    cases = [Case(n, f, _tables(floats())) for n, f in FLOAT_REDUCTIONS.items()]
    cases += [Case(f"{n} of ints", f, _tables(ints())) for n, f in INT_REDUCTIONS.items()]
    small = [(i64(0, 9, 40),), (torch.tensor([], dtype=torch.int64),), (i64(0, 5, 7).int(),)]
    cases += [
        Case("sum of nothing", torch.sum, [(f32(0),), (f32(3, 0),), (f32(2, 1, 3),)]),
        Case("sum over nothing", lambda x: x.sum(1), [(f32(3, 0),), (f32(0, 3),)]),
        Case("mean of a number", torch.mean, [(torch.tensor(2.0),)]),
        Case("all of bools", torch.all, each(bools())),
        Case("any of bools", torch.any, each(bools())),
        Case("trace", torch.trace, [(f32(4, 4),)]),
        Case("bincount", torch.bincount, small),
        Case("bincount minlength", lambda x: torch.bincount(x, minlength=12), small),
        Case("bincount weights", torch.bincount, [(i64(0, 9, 40), f32(40))]),
        Case("histc", lambda x: torch.histc(x, 5, -1, 1), [(f32(40),)]),
        Case("histc of all", lambda x: torch.histc(x, 4), [(f32(40),)]),
        Case("bucketize", torch.bucketize, [(f32(4, 5), f32(9, seed=1).sort().values)]),
        Case(
            "bucketize right, int32",
            lambda x, b: torch.bucketize(x, b, right=True, out_int32=True),
            [(i64(0, 9, 12), torch.tensor([1, 4, 6]))],
        ),
        Case("searchsorted", torch.searchsorted, [(f32(9).sort().values, f32(4, 5, seed=1))]),
        Case(
            "searchsorted sorter",
            lambda s, x: torch.searchsorted(s, x, sorter=s.argsort(), right=True),
            [(f32(9), f32(7, seed=1))],
        ),
        Case(
            "searchsorted number", lambda s: torch.searchsorted(s, 0.5), [(f32(9).sort().values,)]
        ),
        Case("unique of floats", torch.unique, [(i64(0, 4, 9).float(),)]),
    ]
    return cases


def _matmul_types(*shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    arguments = [f32(*shape, seed=i) for i, shape in enumerate(shapes)]
    return [
        tuple(a.to(t) for a in arguments) for t in (torch.float32, torch.float16, torch.bfloat16)
    ]


def product() -> list[Case]:
    def transposed(*shape: int) -> View:
        return View(f32(*shape, seed=5), lambda t: t.transpose(-1, -2))

    matrices = [
        *_matmul_types((4, 5), (5, 3)),
        (transposed(5, 4), transposed(3, 5)),
        (f32(0, 5), f32(5, 3)),
        (f32(4, 0), f32(0, 3)),
    ]
    batches = [*_matmul_types((2, 4, 5), (2, 5, 3)), (transposed(2, 5, 4), f32(2, 5, 3))]
    return [
        Case("mm", torch.mm, matrices),
        Case("matmul", torch.matmul, [*matrices, (f32(2, 4, 5), f32(5, 3)), (f32(5), f32(5))]),
        Case("matmul broadcast", torch.matmul, [(f32(2, 1, 4, 5), f32(3, 5, 2))]),
        Case("bmm", torch.bmm, batches),
        Case("mv", torch.mv, _matmul_types((4, 5), (5,))),
        Case("dot", torch.dot, [(f32(7), f32(7, seed=1))]),
        Case("addmm", _alpha_beta("addmm"), _matmul_types((3,), (4, 5), (5, 3))),
        Case("addmm_", _alpha_beta("addmm_"), _matmul_types((4, 3), (4, 5), (5, 3))),
        Case("addmv", _alpha_beta("addmv"), [(f32(4), f32(4, 5), f32(5))]),
        Case("addr", _alpha_beta("addr"), [(f32(4, 5), f32(4), f32(5))]),
        Case("addr_", _alpha_beta("addr_"), [(f32(4, 5), f32(4), f32(5))]),
        Case("addbmm", _alpha_beta("addbmm"), [(f32(4, 3), f32(2, 4, 5), f32(2, 5, 3))]),
        Case("baddbmm", _alpha_beta("baddbmm"), _matmul_types((2, 4, 3), (2, 4, 5), (2, 5, 3))),
        Case(
            "einsum",
            lambda x, y: torch.einsum("bij,bkj->bik", x, y),
            [(f32(2, 3, 4), f32(2, 5, 4))],
        ),
        Case("linear", torch.nn.functional.linear, _matmul_types((4, 5), (3, 5), (3,))),
        Case("autocast", _autocast, _matmul_types((4, 5), (3, 5), (3,))[:1]),
        Case("outer", torch.outer, [(f32(3), f32(4))]),
    ]


def _autocast(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return torch.nn.functional.linear(x, w, b)


def _alpha_beta(name: str) -> Function:
    """Unequal factors, so that one taken for the other shows."""
    return lambda x, a, b: getattr(x, name)(a, b, alpha=0.5, beta=2.0)


def cases() -> dict[str, list[Case]]:
    return {"reduction": reduction(), "product": product()}
