"""Emulated NPUs.

Everything that touches an emulated device runs in a process of its own, started with the emulated
environment: `npu_world` for functions on ranks that stay up from test to test, `emulated` for
scripts that end, fail, or change the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hosts import Emulated
from ranks import World

from torchrec_ascend import emulator


@pytest.fixture(scope="session")
def emulated() -> Emulated:
    return Emulated(emulator.build() / "lib")


@pytest.fixture(scope="session")
def npu_world(emulated: Emulated) -> Iterator[Callable[..., World]]:
    """npu_world(size, soc="a2", asynchronous=False, local_size=size, **emulation) -> World.

    Rank r is on npu:(r % local_size), with torch.distributed over the emulated HCCL. The last few
    worlds are kept for the tests that follow.
    """
    worlds: dict[tuple[Any, ...], World] = {}

    def get(
        size: int,
        soc: str = "a2",
        asynchronous: bool = False,
        local_size: int | None = None,
        **emulation: Any,
    ) -> World:
        local_size = local_size or size
        key = (size, soc, asynchronous, local_size, tuple(sorted(emulation.items())))
        if key in worlds:
            worlds[key] = worlds.pop(key)  # used last
        else:
            while sum(kept.size for kept in worlds.values()) + size > 20:  # processes
                worlds.pop(next(iter(worlds))).stop()
            variables = emulated.environment(soc, asynchronous, None, **emulation)
            worlds[key] = World(size, local_size, "npu", variables)
        return worlds[key]

    yield get
    for running in worlds.values():
        running.stop()
