"""The trial of a process group: silent where the all-to-all is right, loud on every rank if not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from ranks import World

from torchrec_ascend import selftest
from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.splits import RankSplits

CPU = torch.device("cpu")


@contextmanager
def counted() -> Iterator[list[Any]]:
    """Collects the split sizes of every all_to_all_single."""
    real, calls = dist.all_to_all_single, []

    def count(output: Any, input: Any, *splits: Any, **kwargs: Any) -> Any:
        calls.append(splits)
        return real(output, input, *splits, **kwargs)

    dist.all_to_all_single = count
    try:
        yield calls
    finally:
        dist.all_to_all_single = real


@contextmanager
def broken(ranks: tuple[int, ...], equal: bool) -> Iterator[None]:
    """On those ranks, one of the two kinds of exchange delivers zeros."""
    real = dist.all_to_all_single

    def deliver(output: Any, input: Any, *splits: Any, **kwargs: Any) -> None:
        real(output, input, *splits, **kwargs)
        if dist.get_rank() in ranks and (splits[0] is None) == equal:
            output.zero_()

    dist.all_to_all_single = deliver
    try:
        yield
    finally:
        dist.all_to_all_single = real


def passes() -> None:
    group = dist.group.WORLD
    assert group is not None
    selftest.check_all_to_all(group, CPU)


def fails(ranks: tuple[int, ...], equal: bool) -> str:
    with broken(ranks, equal), pytest.raises(RuntimeError) as raised:
        passes()
    return str(raised.value)


def tries_once() -> list[int]:
    group = dist.new_group()
    assert group is not None
    counts = []
    with counted() as calls:
        for _ in range(2):
            AscendPooledEmbeddingsAllToAll(group, RankSplits((4,) * group.size()), CPU)
            counts.append(len(calls))
        selftest.check_all_to_all_once(group, torch.device("meta"))
        os.environ[selftest.SWITCH] = "0"
        try:
            other = dist.new_group()
            assert other is not None
            AscendPooledEmbeddingsAllToAll(other, RankSplits((4,) * other.size()), CPU)
            counts.append(len(calls))
        finally:
            del os.environ[selftest.SWITCH]
        AscendPooledEmbeddingsAllToAll(other, RankSplits((4,) * other.size()), CPU)
        counts.append(len(calls))
    return counts


@pytest.mark.parametrize("size", [2, 3, 4])
def test_silent_where_the_exchange_is_right(world: Callable[..., World], size: int) -> None:
    world(size).run(passes)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("ranks", [(1,), (0, 1, 2)])
def test_fails_on_every_rank(
    world: Callable[..., World], ranks: tuple[int, ...], equal: bool
) -> None:
    for rank, message in enumerate(world(3).run(fails, ranks, equal)):
        assert message.startswith(f"rank {rank}: the all-to-all of process group")
        assert f"seen on ranks {list(ranks)}" in message
        kind = "an equal exchange of torch.int64" if equal else "an unequal exchange of torch.float"
        assert (kind in message) == (rank in ranks)
        assert ("This rank received what was sent" in message) == (rank not in ranks)
        assert selftest.SWITCH in message


def test_once_per_group_and_not_where_it_is_off(world: Callable[..., World]) -> None:
    # two exchanges, no more for the same group, none while off, two for the other group
    assert world(2).run(tries_once) == [[2, 2, 2, 4]] * 2


@pytest.mark.parametrize("size", [2, 3, 4, 7, 64])
def test_what_is_exchanged_shows_every_mistake(size: int) -> None:
    sizes = [[selftest._elements(s, t, size) for t in range(size)] for s in range(size)]
    flat = [n for row in sizes for n in row]
    assert (
        0 in flat
        and max(flat) > 1
        and sizes != [list(column) for column in zip(*sizes, strict=True)]
    )
    tags = [
        value
        for source in range(size)
        for target in range(size)
        for value in selftest._tags(
            source, target, size, sizes[source][target], torch.float32
        ).tolist()
    ]
    assert 0.0 not in tags and len(set(tags)) == sum(flat)
