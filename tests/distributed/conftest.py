"""Worlds of real processes, one per shape, shared by the tests of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ranks import World


@pytest.fixture(scope="session")
def world() -> Iterator[Callable[..., World]]:
    """world(size, local_size=size) -> World."""
    worlds: dict[tuple[int, int], World] = {}

    def get(size: int, local_size: int | None = None) -> World:
        shape = (size, local_size or size)
        if shape not in worlds:
            worlds[shape] = World(*shape)
        return worlds[shape]

    yield get
    for running in worlds.values():
        running.stop()
