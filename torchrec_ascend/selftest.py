"""A trial of a process group's all-to-all before it is trusted with gradients.

Collective libraries have delivered wrong data without an error (zeros from an unequal all-to-all
among more than two ranks, for one): training goes on and learns nothing. So the first time a group
is used here, its ranks exchange a few tagged values and compare what arrives.
"""

from __future__ import annotations

import os
import weakref

import torch
import torch.distributed as dist
from torch import Tensor

SWITCH = "TORCHREC_ASCEND_SELF_TEST"  # "0" turns the trial off

_tried: weakref.WeakSet[dist.ProcessGroup] = weakref.WeakSet()


def check_all_to_all_once(pg: dist.ProcessGroup | None, device: torch.device | None) -> None:
    """:func:`check_all_to_all`, the first time for this group; every rank of it must call.

    Nothing to try: one rank, the meta device, torch's "fake" backend; or the switch is off.
    """
    if pg is None or pg.size() == 1 or pg in _tried or os.environ.get(SWITCH) == "0":
        return
    if (device is not None and device.type == "meta") or dist.get_backend(pg) == "fake":
        return
    check_all_to_all(pg, device or _device_of(pg))
    _tried.add(pg)


def _device_of(pg: dist.ProcessGroup) -> torch.device:
    """Where the group's tensors may be: the CPU if it is among them, else this rank's card."""
    types = [kind.partition(":")[0] for kind in dist.get_backend_config(pg).split(",")]
    return torch.device("cpu" if "cpu" in types else types[0])


def check_all_to_all(pg: dist.ProcessGroup, device: torch.device) -> None:
    """Exchanges tagged values: unequal float32 parts, some empty, and equal int64 parts.

    Args:
        pg: the group; every rank of it must call.
        device: of the tensors exchanged.

    Raises:
        RuntimeError: on every rank, if any received something else than was sent. Names the group,
            the ranks that saw it, and on those what arrived from whom.
    """
    rank, size = dist.get_rank(pg), pg.size()
    sizes = [[_elements(source, target, size) for target in range(size)] for source in range(size)]
    errors = [
        _exchange(pg, device, torch.float32, sizes, "unequal"),
        _exchange(pg, device, torch.int64, [[2] * size] * size, "equal"),
    ]
    error = next((text for text in errors if text), "")
    # A library that delivers zeros here too says "failed", not "passed".
    passed = [torch.zeros(1, dtype=torch.int32, device=device) for _ in range(size)]
    own = torch.tensor([0 if error else 1], dtype=torch.int32, device=device)
    dist.all_gather(passed, own, group=pg)
    failed = [source for source, flag in enumerate(torch.cat(passed).tolist()) if flag != 1]
    if failed or error:
        raise RuntimeError(
            f"rank {rank}: the all-to-all of process group {pg.group_name!r} ({size} ranks, "
            f"{dist.get_backend(pg)} on {device}) delivers wrong data; seen on ranks {failed}. "
            f"{error or 'This rank received what was sent.'} Do not train on it: check the "
            f"collective library and its version ({SWITCH}=0 turns this trial off)"
        )


def _elements(source: int, target: int, size: int) -> int:
    """How much `source` sends to `target` in the unequal exchange: 0 to 4."""
    return 0 if (source + target) % 3 == 0 else 1 + (source * size + target) % 4


def _tags(source: int, target: int, size: int, elements: int, dtype: torch.dtype) -> Tensor:
    """What `source` sends to `target`: different for each pair and place, never 0."""
    first = 8 * (1 + source * size + target)  # exact in float32 up to 1448 ranks
    return torch.arange(first, first + elements, dtype=dtype)


def _exchange(
    pg: dist.ProcessGroup,
    device: torch.device,
    dtype: torch.dtype,
    sizes: list[list[int]],
    kind: str,
) -> str:
    """Exchanges sizes[source][target] elements; what was wrong on this rank, or nothing."""
    rank, size = dist.get_rank(pg), pg.size()
    send = torch.cat([_tags(rank, other, size, sizes[rank][other], dtype) for other in range(size)])
    expected = [_tags(other, rank, size, sizes[other][rank], dtype) for other in range(size)]
    total = sum(part.numel() for part in expected)
    received = torch.full((total,), -1, dtype=dtype, device=device)
    equal = kind == "equal"  # without split sizes a backend takes another path
    dist.all_to_all_single(
        received,
        send.to(device),
        None if equal else [part.numel() for part in expected],
        None if equal else sizes[rank],
        group=pg,
    )
    parts = received.cpu().split([part.numel() for part in expected])
    for source, (part, tags) in enumerate(zip(parts, expected, strict=True)):
        if not torch.equal(part, tags):
            return (
                f"In an {kind} exchange of {dtype} rank {source} sent {tags.tolist()}, "
                f"rank {rank} received {part.tolist()}."
            )
    return ""
