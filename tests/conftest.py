"""--ops-library runs the suite with another build of the operators, such as a sanitizer's."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--ops-library", type=Path, help="load the operators from this file, and from no other"
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
