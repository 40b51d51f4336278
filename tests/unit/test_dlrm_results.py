"""Results are strict JSON, and files are written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from torchrec_ascend.dlrm import results


def test_what_is_no_json_raises() -> None:
    with pytest.raises(TypeError):
        results.to_json({"a": object()})


def test_write_makes_the_folder_and_replaces_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "a" / "result.json"
    results.write(path, "first, and longer")
    results.write(path, "second")
    assert path.read_text() == "second"
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.json"
    results.write(path, "old")
    with pytest.raises(UnicodeEncodeError):
        results.write(path, "half " * 10_000 + "\ud800")  # fails after the file is open
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("result.json", "old")]

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        results.write(path, "new")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("result.json", "old")]


def test_versions_are_those_installed() -> None:
    import torch
    import torchrec

    versions = results.versions()
    assert set(versions) == {"python", "torchrec_ascend", "torch", "torchrec", "fbgemm_gpu"}
    assert versions["torch"].split("+")[0] == str(torch.__version__).split("+")[0]
    assert versions["torchrec"] == torchrec.__version__
