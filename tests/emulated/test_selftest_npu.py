"""An all-to-all that delivers zeros among more than two ranks is found at once, emulated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import selftest_cases
from ranks import World

Worlds = Callable[..., World]


@pytest.mark.parametrize("device_is_known", [True, False])
@pytest.mark.parametrize(("size", "asynchronous"), [(2, False), (3, False), (3, True), (4, True)])
def test_silent_where_it_is_right(
    npu_world: Worlds, size: int, asynchronous: bool, device_is_known: bool
) -> None:
    npu_world(size, asynchronous=asynchronous).run(selftest_cases.create, device_is_known)


@pytest.mark.parametrize("device_is_known", [True, False])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("operator", ["alltoallv", "any"])
def test_every_rank_says_what_is_wrong(
    npu_world: Worlds, operator: str, asynchronous: bool, device_is_known: bool
) -> None:
    world = npu_world(3, asynchronous=asynchronous)
    for rank, said in enumerate(world.run(selftest_cases.message, operator, device_is_known)):
        assert said.startswith(f"rank {rank}: the all-to-all of process group")
        assert f"hccl on npu:{rank}" in said or not device_is_known
        assert "delivers wrong data; seen on ranks [0, 1, 2]" in said
        assert "received [0.0" in said


def test_the_card_that_showed_it_first_showed_it_only_beyond_two_ranks(npu_world: Worlds) -> None:
    """The knob leaves two ranks alone, so the trial of two ranks proves nothing about three."""
    assert npu_world(2).run(selftest_cases.message, "alltoallv", True) == ["", ""]
