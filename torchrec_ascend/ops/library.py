"""Finds and loads the compiled operator library, once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

import torchrec_ascend

LIBRARY = "libtorchrec_ascend_ops.so"


def is_loaded() -> bool:
    """True if some library has registered the operators already (a sanitizer build, say)."""
    return hasattr(torch.ops.torchrec_ascend, "recat")


def find() -> Path:
    """Path of the compiled library: beside the sources, or in the install of an editable build.

    Raises:
        ImportError: it was not built; names the folders searched.
    """
    folders = [Path(entry) / "lib" for entry in torchrec_ascend.__path__]
    for folder in folders:
        if (folder / LIBRARY).is_file():
            return folder / LIBRARY
    searched = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"{LIBRARY} is not in {searched}: run `make build`")


def load() -> None:
    """Registers the operators.

    fbgemm_gpu goes first where it is installed: schemas and kernels it has stay its own, and ours
    fill what is missing.
    """
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        import fbgemm_gpu  # noqa: F401
    if not is_loaded():
        torch.ops.load_library(str(find()))
