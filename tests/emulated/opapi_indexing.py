"""Cases: copies, shapes, indices."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from opapi_cases import Case, View, bools, each, f32, floats, i64, ints, with_gradient
from torch import Tensor


def shape() -> list[Case]:
    tables = [(x,) for x in [*floats(), *ints(), *bools()] if _dim(x) == 2]
    number = torch.tensor(3.0)
    return [
        Case("contiguous", lambda x: x.contiguous(), tables),
        Case("clone", lambda x: x.t().clone(), tables),
        Case("copy_ into a view", _copy_into_view, each(floats()[:5], floats(seed=1)[:5])),
        Case("copy_ broadcast", lambda x, y: x.copy_(y), [(f32(3, 4), f32(4)), (f32(3), number)]),
        Case("casts", lambda x: [x.to(t) for t in _TYPES], each([*floats(-9, 9), *bools()])),
        Case("casts of ints", lambda x: [x.to(t) for t in _TYPES], each(ints(0, 100))),
        Case("fill_", lambda x: x.fill_(2.5), each(floats())),
        Case("fill_ tensor", lambda x, v: x.fill_(v), [(f32(3, 4), number)]),
        Case("zero_", lambda x: x.zero_(), each([*floats(), *ints(), *bools()])),
        Case("fill_diagonal_", lambda x: x.fill_diagonal_(9.0), [(f32(4, 4),), (f32(3, 5),)]),
        Case("new tensors", _new_tensors, [(f32(1),)]),
        Case(
            "cat",
            lambda x, y: torch.cat([x, y, x], 1),
            [(f32(3, 4), f32(3, 2)), (i64(0, 9, 2, 1),) * 2],
        ),
        Case("cat of views", lambda x, y: torch.cat([x.t(), y]), [(f32(3, 4), f32(2, 3))]),
        Case(
            "cat with empty",
            lambda x, y: torch.cat([x, y]),
            [(f32(0, 4), f32(3, 4)), (f32(0), f32(3))],
        ),
        Case("cat mixed", lambda x, y: torch.cat([x, y]), [(f32(3), i64(0, 9, 2))]),
        Case("stack", lambda x, y: torch.stack([x, y], -1), [(f32(3, 4), f32(3, 4, seed=1))]),
        Case("split", lambda x: torch.split(x, [1, 0, 3], 1), [(f32(3, 4),)]),
        Case("split_with_sizes_copy", _split_copy, [(f32(3, 4),)]),
        Case("split_with_sizes_copy wide", _split_wide, [(f32(1, 66000),)]),
        Case("_chunk_cat", lambda x, y: torch._chunk_cat([x, y], 0, 2), [(f32(4, 3), f32(3, 2))]),
        Case(
            "pad", lambda x: F.pad(x, (1, 2, 0, 1), value=7.0), [(f32(3, 4),), (i64(0, 9, 2, 2),)]
        ),
        Case("flip", lambda x: x.flip(0, 1), tables),
        Case("roll", lambda x: x.roll((1, -2), (0, 1)), tables),
        Case("roll flat", lambda x: x.roll(3), tables),
        Case("tril", lambda x: x.tril(-1), tables),
        Case("triu", lambda x: x.triu(1), tables),
        Case("tril_", lambda x: x.tril_(), tables),
        Case("triu_", lambda x: x.triu_(), tables),
        Case("repeat", lambda x: x.repeat(2, 1, 3), tables),
        Case("expand + 0", lambda x: x[:, :1].expand(-1, 5) + 0, tables),
        Case("repeat_interleave", torch.repeat_interleave, [(f32(4), torch.tensor([0, 2, 1, 3]))]),
        Case("repeat_interleave number", lambda x: x.repeat_interleave(2), tables),
        Case(
            "repeat_interleave dim",
            with_gradient(lambda x, n: x.repeat_interleave(n, dim=1)),
            [(f32(2, 3), torch.tensor([0, 2, 1]))],
        ),
        Case("repeat_interleave number, dim", lambda x: x.repeat_interleave(3, dim=0), tables),
        Case("repeat_interleave sized", _repeat_sized, [(torch.tensor([0, 2, 1, 3]),)]),
        Case("repeat_interleave of counts", torch.repeat_interleave, [(torch.tensor([0, 2, 1]),)]),
        Case("unfold backward", with_gradient(lambda x: x.unfold(0, 2, 2)), [(f32(6),)]),
    ]


_TYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.bool,
)


def _dim(x: Tensor | View) -> int:
    return (x.on("cpu") if isinstance(x, View) else x).dim()


def _copy_into_view(x: Tensor, y: Tensor) -> Tensor:
    if x.dim() == 2 and x.numel():
        x[1:, ::2].copy_(y[1:, ::2])
    return x


def _new_tensors(x: Tensor) -> list[Tensor]:
    d = x.device
    return [
        torch.zeros(2, 3, device=d),
        torch.ones(3, device=d, dtype=torch.int64),
        torch.full((2, 2), 4, device=d),
        torch.full((2, 2), -1.5, device=d, dtype=torch.bfloat16),
        torch.arange(7, device=d),
        torch.arange(1.0, 2.0, 0.25, device=d),
        torch.arange(9, -1, -3, device=d, dtype=torch.int32),
        torch.range(0, 2, 0.5, device=d),
        torch.linspace(-1, 1, 9, device=d),
        torch.logspace(0, 2, 5, base=10.0, device=d),
        torch.eye(3, device=d),
        torch.eye(2, 4, device=d, dtype=torch.int64),
        torch.zeros_like(x),
        torch.ones_like(x, dtype=torch.float16),
        torch.tril_indices(4, 4, -1, device=d),
    ]


def _split_copy(x: Tensor) -> list[Tensor]:
    outs = [x.new_zeros(3, 1), x.new_zeros(3, 3)]
    torch.split_with_sizes_copy(x, [1, 3], 1, out=outs)
    return outs


def _split_wide(x: Tensor) -> list[Tensor]:
    """As wide and in as many parts as torch_npu wants for an operator of its own."""
    outs = [x.new_zeros(1, 1650) for _ in range(40)]
    torch.split_with_sizes_copy(x, [1650] * 40, 1, out=outs)
    return outs


def _repeat_sized(counts: Tensor) -> Tensor:
    ids = torch.arange(counts.numel(), device=counts.device)
    return torch.repeat_interleave(ids, counts, output_size=6)


def index() -> list[Case]:
    x, i, j = f32(5, 6), torch.tensor([4, 0, 2, 2]), torch.tensor([1, 5, 0, 3])
    m, rows = f32(5, 6, seed=2) > 0, f32(4, 6, seed=3)
    columns, values = i64(0, 6, 5, 3, seed=4), f32(5, 3, seed=5)
    nothing = torch.tensor([], dtype=torch.int64)
    transposed = View(f32(6, 5), Tensor.t)
    return [
        Case(
            "index_select",
            lambda x, i: x.index_select(0, i),
            [(x, i), (transposed, i), (x, i.int())],
        ),
        Case("index_select of nothing", lambda x, i: x.index_select(0, i), [(x, nothing)]),
        Case("gather", lambda x, i: x.gather(1, i), [(x, columns), (transposed, columns)]),
        Case("gather backward", with_gradient(lambda x, i: x.gather(1, i)), [(x, columns)]),
        Case("take", torch.take, [(x, torch.tensor([29, 0, -1]))]),
        Case("x[i]", lambda x, i: x[i], [(x, i), (transposed, i), (i64(0, 9, 5, 2), i)]),
        Case("x[i] of nothing", lambda x, i: x[i], [(x, nothing), (f32(0, 3), nothing)]),
        Case("x[i, j]", lambda x, i, j: x[i, j], [(x, i, j)]),
        Case("x[:, j]", lambda x, j: x[:, j], [(x, j)]),
        Case("x[i] backward", with_gradient(lambda x, i: x[i]), [(x, i)]),
        Case("x[m]", lambda x, m: x[m], [(x, m), (transposed, m)]),
        Case("x[i, j] = v", _assign, [(x, i, j, f32(4)), (x, i, j, torch.tensor(9.0))]),
        Case("x[m] = v", _assign_mask, [(x, m, torch.tensor(9.0))]),
        Case("x[m] = number", _assign_number, [(x, m)]),
        Case("x[nothing] = v", _assign_rows, [(x, nothing, f32(0, 6)), (x, i[:2], f32(2, 6))]),
        Case("index_put accumulate", _accumulate, [(x, i, j, f32(4))]),
        Case("put_", lambda x, i, v: x.put_(i, v, accumulate=True), [(x, i, f32(4))]),
        Case(
            "index_add",
            lambda x, i, v: x.index_add(0, i, v, alpha=2),
            [(x, i, rows), (x, i.int(), rows)],
        ),
        Case("index_add_", lambda x, i, v: x.index_add_(0, i, v), [(x, i, rows)]),
        Case(
            "index_copy",
            lambda x, i, v: x.index_copy(0, i, v),
            [(x, torch.tensor([4, 0, 2, 3]), rows)],
        ),
        Case(
            "index_copy_",
            lambda x, i, v: x.index_copy_(0, i, v),
            [(x, torch.tensor([4, 0, 2, 3]), rows)],
        ),
        Case("index_fill", lambda x, i: x.index_fill(1, i, 2.0), [(x, i)]),
        Case("index_fill_", lambda x, i: x.index_fill_(0, i, 2.0), [(x, i)]),
        Case("scatter", lambda x, i, v: x.scatter(1, i, v), [(x, _distinct(columns), values)]),
        Case("scatter_", lambda x, i, v: x.scatter_(1, i, v), [(x, _distinct(columns), values)]),
        Case("scatter number", lambda x, i: x.scatter(1, i, 2.0), [(x, columns)]),
        Case("scatter_ number", lambda x, i: x.scatter_(1, i, 2.0), [(x, columns)]),
        Case("scatter_add", lambda x, i, v: x.scatter_add(1, i, v), [(x, columns, values)]),
        Case("scatter_add_", lambda x, i, v: x.scatter_add_(1, i, v), [(x, columns, values)]),
        Case(
            "scatter_reduce",
            lambda x, i, v: x.scatter_reduce(1, i, v, "sum"),
            [(x, columns, values)],
        ),
        Case(
            "scatter_reduce_",
            lambda x, i, v: x.scatter_reduce_(1, i, v, "sum"),
            [(x, columns, values)],
        ),
        Case("nonzero", torch.nonzero, each([*floats(-1, 1), *ints(-1, 2), *bools()])),
        Case("nonzero tuple", lambda x: x.nonzero(as_tuple=True), [(m,)]),
        Case("one_hot", lambda i: F.one_hot(i, 6), [(i,), (i64(0, 6, 2, 3),)]),
        Case("one_hot of all", F.one_hot, [(i,)]),
        Case("where indices", torch.where, [(m,)]),
    ]


def _distinct(columns: Tensor) -> Tensor:
    """Column indices that are distinct in each row, so that the order of writing plays no part."""
    return (columns[:, :1] + torch.arange(columns.shape[1])) % 6


def _assign(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> Tensor:
    x[i, j] = v
    return x


def _assign_mask(x: Tensor, m: Tensor, v: Tensor) -> Tensor:
    x[m] = v
    return x


def _assign_number(x: Tensor, m: Tensor) -> Tensor:
    x[m] = 5.0
    return x


def _assign_rows(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
    x[i] = v
    return x


def _accumulate(x: Tensor, i: Tensor, j: Tensor, v: Tensor) -> Tensor:
    return x.index_put_((i, j), v, accumulate=True)


def cases() -> dict[str, list[Case]]:
    return {"shape": shape(), "index": index()}
