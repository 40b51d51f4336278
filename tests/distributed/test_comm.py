"""The exchanges themselves: values, buffers, codecs, repeated backwards, and what is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import SHARDERS, Case, Model, batch, loss_of, mixed_pooling, quiet, shard
from ranks import World
from torch import Tensor
from torchrec.distributed.dist_data import PooledEmbeddingsAllToAll
from torchrec.distributed.fbgemm_qcomm_codec import (
    CommType,
    QCommsConfig,
    get_qcomm_codecs,
    get_qcomm_codecs_registry,
)

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.exchange import BufferPool, ExchangeRequest
from torchrec_ascend.reduce_scatter import AscendPooledEmbeddingsReduceScatter
from torchrec_ascend.splits import RankSplits


def test_a_pool_hands_out_a_buffer_once_and_takes_it_back() -> None:
    pool, cpu = BufferPool(), torch.device("cpu")
    first = pool.take(10, torch.float32, cpu)
    second = pool.take(10, torch.float32, cpu)
    assert first.data_ptr() != second.data_ptr()
    pool.give(first)
    assert pool.take(4, torch.float32, cpu) is first
    pool.give(first)
    assert pool.take(4, torch.float16, cpu) is not first
    larger = pool.take(11, torch.float32, cpu)  # replaces the one that is too small
    assert larger is not first and larger.numel() == 11
    assert pool.take(4, torch.float32, cpu) is not first


def _everyone() -> dist.ProcessGroup:
    return dist.distributed_c10d._get_default_group()


def _subgroup(size: int) -> dist.ProcessGroup:
    key = f"first {size}"
    if key not in _GROUPS:
        _GROUPS[key] = dist.new_group(list(range(size)))
    return _GROUPS[key]


_GROUPS: dict[str, dist.ProcessGroup] = {}


def _local(dims: list[int], batches: list[int], rank: int, dtype: torch.dtype) -> Tensor:
    rows = torch.arange(sum(batches) * dims[rank]).view(sum(batches), dims[rank])
    return (rows % 23 - 11 + rank).to(dtype)


def _all_to_all(dims: list[int], batches: list[int], dtype: torch.dtype) -> bool:
    """Forward and backward against the layout spelled out, on the first len(dims) ranks."""
    pg = _subgroup(len(dims))
    rank = dist.get_rank()
    if rank >= len(dims):
        return True
    module = AscendPooledEmbeddingsAllToAll(pg, RankSplits(tuple(dims)))
    local = _local(dims, batches, rank, dtype).requires_grad_()
    out = module(local, batches).wait()
    begin, rows = sum(batches[:rank]), batches[rank]
    everyone = [_local(dims, batches, r, dtype) for r in range(len(dims))]
    forward = out.equal(torch.cat([e[begin : begin + rows] for e in everyone], dim=1))

    def grad_of(r: int) -> Tensor:
        numbers = torch.arange(batches[r] * sum(dims)).view(batches[r], sum(dims))
        return (numbers % 17 - 8 + r).to(dtype)

    out.backward(grad_of(rank))
    column = sum(dims[:rank])
    want = torch.cat([grad_of(r)[:, column : column + dims[rank]] for r in range(len(dims))])
    assert local.grad is not None
    want = want.double() / len(dims)
    if len(dims) & (len(dims) - 1):  # 1/3 is rounded before it multiplies
        return forward and torch.allclose(local.grad.double(), want, rtol=1e-6, atol=0)
    return forward and local.grad.equal(want.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(
    "dims, batches",
    [
        ([12, 0], [3, 3]),
        ([0, 12], [3, 3]),
        ([5, 7], [0, 4]),
        ([0, 0], [2, 2]),
        ([2, 0, 3, 9], [1, 2, 0, 5]),
        ([3, 1], [0, 0]),
    ],
    ids=str,
)
def test_all_to_all(
    world: Callable[..., World], dims: list[int], batches: list[int], dtype: torch.dtype
) -> None:
    assert all(world(4, 2).run(_all_to_all, dims, batches, dtype))


def test_three_ranks(world: Callable[..., World]) -> None:
    assert all(world(4, 2).run(_all_to_all, [2, 0, 3], [2, 3, 1], torch.float32))


def _reduce_scatter(batches: list[int]) -> bool:
    rank = dist.get_rank()
    module = AscendPooledEmbeddingsReduceScatter(_everyone())
    local = _local([6] * 4, batches, rank, torch.float32).requires_grad_()
    out = module(local, batches).wait()
    begin = sum(batches[:rank])
    everyone = sum(_local([6] * 4, batches, r, torch.float32) for r in range(4))
    grad = torch.full((batches[rank], 6), float(rank + 1))
    out.backward(grad)
    want = torch.cat([torch.full((b, 6), float(r + 1)) for r, b in enumerate(batches)]) / 4
    assert local.grad is not None and isinstance(everyone, Tensor)
    return out.equal(everyone[begin : begin + batches[rank]]) and local.grad.equal(want)


@pytest.mark.parametrize("batches", [[2, 2, 2, 2], [0, 3, 1, 2], [0, 0, 0, 1], [0] * 4], ids=str)
def test_reduce_scatter(world: Callable[..., World], batches: list[int]) -> None:
    assert all(world(4, 2).run(_reduce_scatter, batches))


# Buffers.


def _buffers() -> tuple[int, int, bool]:
    """(buffers sent from over three steps, over two forwards before their backwards, right?)"""
    dims, rows = [3, 5], 4
    module = AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits(tuple(dims)))
    rank = dist.get_rank()
    seen: list[int] = []
    take = module._sent.take

    def record(*args: Any) -> Tensor:
        buffer = take(*args)
        seen.append(buffer.data_ptr())
        return buffer

    module._sent.take = record  # type: ignore[assignment,method-assign]

    def ones() -> Tensor:
        return torch.ones(2 * rows, dims[rank], requires_grad=True)

    for _ in range(3):
        module(ones(), [rows, rows]).wait().sum().backward()
    alone = len(set(seen))
    seen.clear()
    locals_ = [ones(), ones()]
    started = [module(local, [rows, rows]) for local in locals_]
    (started[0].wait().sum() * 2 + started[1].wait().sum() * 4).backward()
    right = all(
        local.grad is not None and bool((local.grad == scale).all())
        for local, scale in zip(locals_, (1.0, 2.0), strict=True)
    )
    return alone, len(set(seen)), right


def test_the_send_buffer_is_reused_but_never_shared(world: Callable[..., World]) -> None:
    for alone, together, right in world(2).run(_buffers):
        assert alone == 1  # three steps, one buffer
        assert together == 2  # two exchanges in flight
        assert right


def _twice() -> bool:
    module = AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits((3, 5)))
    local = torch.ones(4, (3, 5)[dist.get_rank()], requires_grad=True)
    out = module(local, [2, 2]).wait()
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    return local.grad is not None and bool((local.grad == 1).all())  # twice 1 / 2 ranks


def test_a_retained_graph_can_be_run_again(world: Callable[..., World]) -> None:
    assert all(world(2).run(_twice))


def _alive() -> int:
    """Requests alive after three steps, without a garbage collection."""
    module = AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits((3, 5)))
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            local = torch.ones(4, (3, 5)[dist.get_rank()], requires_grad=True)
            module(local, [2, 2]).wait().sum().backward()
        return sum(isinstance(o, ExchangeRequest) for o in gc.get_objects())
    finally:
        gc.enable()


def test_a_step_leaves_no_reference_cycle(world: Callable[..., World]) -> None:
    assert world(2).run(_alive) == [0, 0]


# Refusals, before the collective.


def _refused(what: str) -> str:
    module = AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits((3, 5)))
    width = (3, 5)[dist.get_rank()]
    with pytest.raises((RuntimeError, ValueError)) as raised:
        if what == "columns":
            module(torch.ones(4, width + 1), [2, 2])
        elif what == "rows":
            module(torch.ones(5, width), [2, 2])
        elif what == "rows of a reduce-scatter":
            AscendPooledEmbeddingsReduceScatter(_everyone())(torch.ones(5, 2), [1, 2])
        else:
            AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits((3, 5, 1)))
    return str(raised.value)


@pytest.mark.parametrize(
    "what, words",
    [
        ("columns", ["[4, 4]", "[4, 3]", "rank 0"]),
        ("rows", ["[5, 3]", "[4, 3]", "[2, 2]"]),
        ("rows of a reduce-scatter", ["5 rows", "expected 3", "rank 0"]),
        ("splits", ["3 ranks", "2"]),
    ],
)
def test_refusals_name_the_rank_and_the_numbers(
    world: Callable[..., World], what: str, words: list[str]
) -> None:
    text = world(2).run(_refused, what)[0]
    assert all(word in text for word in words), text


# Quantised communication and TorchRec's other ways in.


def _codec(forward: CommType, backward: CommType, scale: float | None) -> tuple[bool, bool]:
    """Ours against upstream's module, same codecs: (outputs, gradients) equal bit for bit."""
    config = QCommsConfig(forward, backward, backward_loss_scale=scale)
    dims, rows, rank = [4, 8], 16, dist.get_rank()
    results = []
    for ours in (True, False):
        codecs = get_qcomm_codecs(config)
        module: PooledEmbeddingsAllToAll = (
            AscendPooledEmbeddingsAllToAll(_everyone(), RankSplits(tuple(dims)), None, None,
                                           codecs)
            if ours
            else PooledEmbeddingsAllToAll(_everyone(), dims, codecs=codecs)
        )  # fmt: skip
        torch.manual_seed(rank)
        local = torch.randn(2 * rows, dims[rank], requires_grad=True)
        out = module(local, [rows, rows]).wait()
        out.backward(torch.randn(rows, sum(dims)))
        results.append((out.detach(), local.grad))
    (out, grad), (want, want_grad) = results
    assert grad is not None and want_grad is not None
    return out.equal(want), grad.equal(want_grad)


@pytest.mark.parametrize(
    "forward, backward, scale",
    [
        (CommType.FP16, CommType.FP16, None),
        (CommType.FP16, CommType.BF16, None),
        (CommType.FP32, CommType.BF16, None),
        (CommType.FP16, CommType.FP16, 128.0),
        (CommType.FP16, CommType.FP32, None),
        (CommType.INT8, CommType.INT8, None),
    ],
    ids=str,
)
def test_codecs_as_upstream(
    world: Callable[..., World], forward: CommType, backward: CommType, scale: float | None
) -> None:
    assert world(2).run(_codec, forward, backward, scale) == [(True, True)] * 2


def _sharded_with_codecs() -> float:
    """Largest relative difference of the outputs from fp32's, unequal batches and all types."""
    registry = get_qcomm_codecs_registry(
        QCommsConfig(CommType.FP16, CommType.FP16), device=torch.device("cpu")
    )
    case = Case(("tw", "rw", "twrw", "cw"), mixed_pooling(), batch_sizes=(3, 0))
    with quiet():
        dmp = shard(case, SHARDERS["ours"](qcomm_codecs_registry=registry))
    out = dmp(batch(case, 0, dist.get_rank()))
    loss_of(out, 0).backward()
    if not case.batch_size(dist.get_rank()):
        return 0.0
    want = Model(case)(batch(case, 0, dist.get_rank()))
    return max(float((out[k] - want[k]).abs().max()) for k in want)


def test_codecs_on_every_sharding_type(world: Callable[..., World]) -> None:
    assert max(world(2, 1).run(_sharded_with_codecs)) <= 2**-8
