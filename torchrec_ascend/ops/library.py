"""Finds and loads the compiled operator libraries, each once."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from pathlib import Path

import torch

import torchrec_ascend
from torchrec_ascend.ops import jagged

LIBRARY = "libtorchrec_ascend_ops.so"
NPU_LIBRARY = "libtorchrec_ascend_npu_ops.so"

_npu_loaded = False
_npu_reason = "it was not tried"


def is_loaded() -> bool:
    """True if some library has registered the operators already (a sanitizer build, say)."""
    return hasattr(torch.ops.torchrec_ascend, "recat")


def find(name: str = LIBRARY) -> Path:
    """Path of a compiled library.

    Searched are the folders of TORCHREC_ASCEND_LIBRARY_PATH (separated by colons), then the
    package's: beside the sources, and in the install of an editable build.

    Raises:
        ImportError: it was not built; names the folders searched.
    """
    listed = os.environ.get("TORCHREC_ASCEND_LIBRARY_PATH", "").split(os.pathsep)
    folders = [Path(entry) for entry in listed if entry]
    folders += [Path(entry) / "lib" for entry in torchrec_ascend.__path__]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    searched = ", ".join(str(folder) for folder in folders)
    raise ImportError(f"{name} is not in {searched}: run `make build`")


def load() -> None:
    """Registers the operators; those for the NPU too if torch_npu is imported.

    fbgemm_gpu goes first where it is installed: schemas and kernels it has stay its own, and ours
    fill what is missing.
    """
    if importlib.util.find_spec("fbgemm_gpu") is not None:
        import fbgemm_gpu  # noqa: F401
    if not is_loaded():
        torch.ops.load_library(str(find()))
    load_npu()


def load_npu() -> bool:
    """Registers the NPU operators, if that is possible; :func:`npu_reason` says why not.

    Importing torchrec_ascend does it where torch_npu is imported by then, as `import torch` does by
    itself where torch_npu is installed.
    """
    global _npu_loaded, _npu_reason
    if _npu_loaded:
        return True
    if not _torch_npu_is_imported():
        _npu_reason = "torch_npu is not imported"
        return False
    try:
        path = find(NPU_LIBRARY)
        torch.ops.load_library(str(path))
    except ImportError as error:
        _npu_reason = f"{error} in an environment with torch_npu"
    except OSError as error:
        _npu_reason = f"{path} does not load: {error}"
        warnings.warn(f"torchrec_ascend has no NPU operators: {_npu_reason}", stacklevel=2)
    else:
        _npu_loaded, _npu_reason = True, str(path)
        jagged.register()
    return _npu_loaded


def npu_reason() -> str:
    """The library that registered the NPU operators, or why there is none."""
    return _npu_reason


def _torch_npu_is_imported() -> bool:
    return hasattr(sys.modules.get("torch_npu"), "npu")
