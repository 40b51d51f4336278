"""Collectives of torch.distributed over the emulated HCCL, against their formulas on the CPU.

Every function runs on each rank of a world; it raises where the rank's result is wrong.
"""

from __future__ import annotations

import contextlib
import copy
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from torchrec_ascend.device import rank_device

REDUCED = ("float32", "float16", "bfloat16", "int8", "int16", "int32", "int64")
MOVED = (*REDUCED, "float64", "uint8", "bool")
SIZES = (0, 1, 7, 1025)

_REDUCTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "SUM": torch.add,
    "PRODUCT": torch.mul,
    "MAX": torch.maximum,
    "MIN": torch.minimum,
}
# HCCL has no products of these on Atlas A2 and A3.
_NO_PRODUCT = (torch.int16, torch.bfloat16)


def _here() -> torch.device:
    return torch.device("npu", torch.get_device_module("npu").current_device())


def _block(rank: int, count: int, dtype: torch.dtype) -> Tensor:
    """What a rank brings: its own values in every place, of both signs."""
    generator = torch.Generator().manual_seed(1000 * rank + count)
    if dtype.is_floating_point:
        return torch.randn(count, generator=generator).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 10, (count,), generator=generator).to(dtype)


def _reduce(blocks: Sequence[Tensor], reduction: str) -> Tensor:
    """In rank order; half precision in float32, rounded once."""
    half = blocks[0].dtype in (torch.float16, torch.bfloat16)
    result = blocks[0].float() if half else blocks[0]
    for block in blocks[1:]:
        result = _REDUCTIONS[reduction](result, block.to(result.dtype))
    return result.to(blocks[0].dtype)


def _check(what: str, got: Tensor, want: Tensor) -> None:
    got = got.cpu()
    if got.dtype != want.dtype or not torch.equal(got, want):
        raise AssertionError(f"{what}: got {got}, want {want}")


def _empty(count: int, dtype: torch.dtype) -> Tensor:
    """Memory with values that no block has."""
    return torch.full((count,), 77, dtype=torch.float64).to(dtype).to(_here())


def reductions(name: str) -> None:
    """all_reduce, reduce to each root, reduce_scatter_single: bit for bit, each size."""
    dtype = getattr(torch, name)
    rank, size = dist.get_rank(), dist.get_world_size()
    for reduction in _REDUCTIONS:
        if reduction == "PRODUCT" and dtype in _NO_PRODUCT:
            continue
        op = getattr(dist.ReduceOp, reduction)
        for count in SIZES:
            what = f"{reduction} of {count} {name}"
            blocks = [_block(peer, count, dtype) for peer in range(size)]
            want = _reduce(blocks, reduction)
            everywhere = blocks[rank].to(_here())
            dist.all_reduce(everywhere, op)
            _check(f"all_reduce {what}", everywhere, want)
            root = count % size
            at_root = blocks[rank].to(_here())
            dist.reduce(at_root, root, op)
            if rank == root:
                _check(f"reduce {what}", at_root, want)
            wide = [_block(peer, count * size, dtype) for peer in range(size)]
            part = _empty(count, dtype)
            dist.reduce_scatter_single(part, wide[rank].to(_here()), op)
            mine = _reduce(wide, reduction)[count * rank : count * (rank + 1)]
            _check(f"reduce_scatter_single {what}", part, mine)


def averages() -> None:
    """torch_npu divides the sum itself."""
    rank, size = dist.get_rank(), dist.get_world_size()
    blocks = [_block(peer, 33, torch.float32) for peer in range(size)]
    got = blocks[rank].to(_here())
    dist.all_reduce(got, dist.ReduceOp.AVG)
    _check("all_reduce AVG", got, _reduce(blocks, "SUM") / size)


def movements(name: str) -> None:
    """broadcast, all_gather_single, all_to_all_single, send and recv, each size."""
    dtype = getattr(torch, name)
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in SIZES:
        what = f"{count} {name}"
        blocks = [_block(peer, count, dtype) for peer in range(size)]
        for root in range(size):
            got = blocks[rank].to(_here())
            dist.broadcast(got, root)
            _check(f"broadcast {what}", got, blocks[root])
        gathered = _empty(count * size, dtype)
        dist.all_gather_single(gathered, blocks[rank].to(_here()))
        _check(f"all_gather_single {what}", gathered, torch.cat(blocks))
        wide = [_block(peer, count * size, dtype) for peer in range(size)]
        received = _empty(count * size, dtype)
        dist.all_to_all_single(received, wide[rank].to(_here()))
        want = torch.cat([block[count * rank : count * (rank + 1)] for block in wide])
        _check(f"all_to_all_single {what}", received, want)
        _chain(f"send and recv {what}", blocks)


def _chain(what: str, blocks: Sequence[Tensor]) -> None:
    """Rank 0's block goes from rank to rank."""
    rank, size = dist.get_rank(), dist.get_world_size()
    got = blocks[rank].to(_here())
    if rank > 0:
        dist.recv(got, rank - 1)
    if rank + 1 < size:
        dist.send(got, rank + 1)
    _check(what, got, blocks[0])


def splits(size: int) -> dict[str, list[list[int]]]:
    """Rows that rank i sends to rank j, by the kind of split."""
    uneven = [[(3 * i + 5 * j + i * j) % 4 for j in range(size)] for i in range(size)]
    silent = [row if i else [0] * size for i, row in enumerate(uneven)]
    return {
        "uneven": uneven,
        "rank 0 sends nothing": silent,
        "the last rank receives nothing": [[*row[:-1], 0] for row in uneven],
        "nothing at all": [[0] * size for _ in range(size)],
        "only the last rank sends": [[0] * size] * (size - 1) + [[2] * size],
        "everything stays": [[4 if i == j else 0 for j in range(size)] for i in range(size)],
    }


def uneven_splits(width: int) -> None:
    """all_to_all_single with rows of `width` float32."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for what, rows in splits(size).items():
        sent = [_block(i, sum(row) * width, torch.float32).view(-1, width) for i, row in
                enumerate(rows)]  # fmt: skip
        expected = [rows[peer][rank] for peer in range(size)]
        received = _empty(sum(expected) * width, torch.float32).view(-1, width)
        work = dist.all_to_all_single(
            received, sent[rank].to(_here()), expected, rows[rank], async_op=True
        )
        work.wait()
        parts = [sent[peer].split(rows[peer])[rank] for peer in range(size)]
        _check(f"all_to_all_single, {what}", received, torch.cat(parts))


def large() -> None:
    """100 MB from all ranks to the first and back."""
    rank, size = dist.get_rank(), dist.get_world_size()
    count = 25_000_000 // size
    block = torch.full((count,), float(rank))
    to_first = [count] + [0] * (size - 1)
    received = torch.empty(count * size if rank == 0 else 0, device=_here())
    expected = [count if rank == 0 else 0] * size
    dist.all_to_all_single(received, block.to(_here()), expected, to_first)
    if rank == 0:
        _check("gathered", received, torch.arange(float(size)).repeat_interleave(count))
    back = torch.empty(count, device=_here())
    dist.all_to_all_single(back, received, to_first, expected)
    _check("returned", back, block)


def lists() -> None:
    """The forms with one tensor a rank, equal and unequal, and objects."""
    rank, size = dist.get_rank(), dist.get_world_size()
    blocks = [_block(peer, 5, torch.float32) for peer in range(size)]
    got = [_empty(5, torch.float32) for _ in range(size)]
    dist.all_gather(got, blocks[rank].to(_here()))
    _check("all_gather", torch.cat(got), torch.cat(blocks))
    unequal = [_block(peer, peer + 1, torch.float32) for peer in range(size)]
    got = [_empty(peer + 1, torch.float32) for peer in range(size)]
    dist.all_gather(got, unequal[rank].to(_here()))
    _check("all_gather, unequal", torch.cat([t.cpu() for t in got]), torch.cat(unequal))
    own = _empty(5, torch.float32)
    root = size - 1
    dist.scatter(own, [b.to(_here()) for b in blocks] if rank == root else None, root)
    _check("scatter", own, blocks[rank])
    parts = [_block(10 * rank + peer, peer + rank, torch.float32) for peer in range(size)]
    got = [_empty(rank + peer, torch.float32) for peer in range(size)]
    dist.all_to_all(got, [p.to(_here()) for p in parts])
    want = [_block(10 * peer + rank, peer + rank, torch.float32) for peer in range(size)]
    _check("all_to_all", torch.cat([t.cpu() for t in got]), torch.cat(want))
    own = _empty(5, torch.float32)
    dist.reduce_scatter(own, [_block(rank + peer, 5, torch.float32).to(_here())
                              for peer in range(size)])  # fmt: skip
    want = [_block(peer + rank, 5, torch.float32) for peer in range(size)]
    _check("reduce_scatter", own, _reduce(want, "SUM"))
    objects: list[object] = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": peer, "text": "x" * peer} for peer in range(size)], objects
    told = [{"root": root}] if rank == root else [None]
    dist.broadcast_object_list(told, root)
    assert told == [{"root": root}], told
    dist.barrier()


def ring() -> None:
    """batch_isend_irecv: each rank to the next, and nothing waits for its turn."""
    rank, size = dist.get_rank(), dist.get_world_size()
    mine = _block(rank, 9, torch.float32).to(_here())
    got = _empty(9, torch.float32)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, mine, (rank + 1) % size),
            dist.P2POp(dist.irecv, got, (rank - 1) % size),
        ]
    )
    for work in works:
        work.wait()
    _check("batch_isend_irecv", got, _block((rank - 1) % size, 9, torch.float32))


def groups() -> None:
    """Operators of overlapping groups in flight at once: each reaches its own ranks."""
    rank, size = dist.get_rank(), dist.get_world_size()
    members = [list(range(0, size, 2)), list(range(1, size, 2)) or [0], list(range(size))]
    made = [dist.new_group(ranks) for ranks in members]
    for step in range(3):
        works, sums = [], []
        for ranks, group in zip(members, made, strict=True):
            if rank not in ranks:
                continue
            got = torch.full((4,), float(rank + 10 * step)).to(_here())
            works.append(dist.all_reduce(got, group=group, async_op=True))
            sums.append((got, float(sum(ranks) + 10 * step * len(ranks))))
        for work in works:
            work.wait()
        for got, total in sums:
            _check("all_reduce of a group", got, torch.full((4,), total))
    for ranks, group in zip(members, made, strict=True):
        if rank in ranks:
            dist.destroy_process_group(group)


def overlap() -> None:
    """Many operators under way before the first is waited for; the input is rewritten after."""
    rank, size = dist.get_rank(), dist.get_world_size()
    works, results = [], []
    for step in range(20):
        mine = torch.full((size,), float(100 * step + rank)).to(_here())
        got = _empty(size, torch.float32)
        works.append(dist.all_to_all_single(got, mine, async_op=True))
        results.append((mine, got))
    for step, (work, (_, got)) in enumerate(zip(works, results, strict=True)):
        work.wait()
        _check("all_to_all_single", got, torch.arange(float(size)) + 100 * step)


def data_parallel() -> float:
    """DDP against one process that sees every rank's batch; the largest difference of a weight."""
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    layers = (torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    alone = torch.nn.Sequential(*layers)
    model = torch.nn.parallel.DistributedDataParallel(
        copy.deepcopy(alone).to(_here()), device_ids=[rank]
    )
    inputs, targets = torch.randn(8 * size, 6), torch.rand(8 * size, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, alone)]
    for _ in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        mine = slice(rank, None, size)
        predicted = model(inputs[mine].to(_here()))
        torch.nn.functional.mse_loss(predicted, targets[mine].to(_here())).backward()
        torch.nn.functional.mse_loss(alone(inputs), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
    pairs = zip(model.parameters(), alone.parameters(), strict=True)
    return max((a.detach().cpu() - b.detach()).abs().max().item() for a, b in pairs)


def fork() -> int:
    """A forked child leaves the parent's communicators alone; the exit code of the child."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    got = torch.ones(1).to(_here())
    dist.all_reduce(got)
    _check("all_reduce after a fork", got, torch.tensor([float(dist.get_world_size())]))
    return os.waitstatus_to_exitcode(status)


def failure(kind: str) -> None:
    """For a process of its own: joins, fails as `kind` says, and prints the error it gets."""
    npu = torch.get_device_module("npu")
    rank_device("npu")
    dist.init_process_group("hccl")
    rank = dist.get_rank()
    try:
        values = torch.ones(4).to("npu")
        dist.all_reduce(values)
        npu.synchronize()
        if rank == 1:
            _misbehave(kind)
            values = torch.ones(5).to("npu")
        dist.all_reduce(values)
        if kind == "hung" and rank == 2:
            return
        npu.synchronize()
        print("no failure")
    except RuntimeError as error:
        print(f"failed: {error}", flush=True)
    if kind == "killed beside a child" and rank == 0:
        Path(os.environ["HCCL_CASE_FIFO"]).write_text("go")


def _misbehave(kind: str) -> None:
    if kind == "killed beside a child" and os.fork() == 0:
        Path(os.environ["HCCL_CASE_FIFO"]).read_text()  # the child outlives its parent
        os._exit(0)
    if kind == "killed beside a child":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "hung":
        with contextlib.suppress(RuntimeError):  # until rank 0, which keeps the store, is gone
            dist.distributed_c10d._get_default_store().get("never")
        os._exit(0)
