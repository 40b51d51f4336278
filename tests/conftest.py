"""What all tests share: worlds of real processes, and --ops-library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ranks import World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ops-library",
        type=Path,
        help="load the operators from this file (a sanitizer's build, say), and from no other",
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--ops-library")
    if path is None:
        return
    import fbgemm_gpu  # noqa: F401  its schemas go first, as in torchrec_ascend.ops.library
    import torch

    torch.ops.load_library(str(path))
    from torchrec_ascend.ops import library

    loaded = [Path(p) for p in torch.ops.loaded_libraries if Path(p).name == library.LIBRARY]
    if not path.samefile(loaded[0]) or len(loaded) > 1:
        raise pytest.UsageError(f"--ops-library {path}, but the operators are from {loaded}")


@pytest.fixture(scope="session")
def world() -> Iterator[Callable[..., World]]:
    """world(size, local_size=size) -> World of CPU ranks, one per shape for the whole session."""
    worlds: dict[tuple[int, int], World] = {}

    def get(size: int, local_size: int | None = None) -> World:
        shape = (size, local_size or size)
        if shape not in worlds:
            worlds[shape] = World(*shape)
        return worlds[shape]

    yield get
    for running in worlds.values():
        running.stop()
