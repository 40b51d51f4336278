"""run.sh of RecatCopyAsync: what it asks of CANN, and what it says where that is missing.

CANN is a fake here: an msopgen that makes a project of the usual form, whose build.sh packs what it
finds. Whether CANN's compiler takes the sources is not tested by this.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

OPERATOR = Path(__file__).parents[2] / "kernels/layout_transform_ops/recat_copy_async"

BIN = Path(sys.executable).parent
TOOLS = (
    *("bash", "cat", "cmake", "cp", "dirname", "find", "grep", "head", "make", "mkdir", "mktemp"),
    *("python3", "rm", "sed", "sleep"),
)
SYMBOLS = "aclnnRecatCopyAsyncGetWorkspaceSize aclnnRecatCopyAsync"
MSOPGEN = r"""#!/usr/bin/env bash
set -eu
printf '%s\n' "$@" > "$CANN_SEEN/msopgen"
while [ "$1" != -out ]; do shift; done
mkdir -p "$2/op_host" "$2/op_kernel"
cd "$2"
cat > CMakePresets.json <<'JSON'
{"version": 1, "configurePresets": [{"name": "default", "cacheVariables": {
  "ASCEND_CANN_PACKAGE_PATH": {"type": "PATH", "value": "/usr/local/Ascend/latest"},
  "ASCEND_COMPUTE_UNIT": {"type": "STRING", "value": "other"},
  "vendor_name": {"type": "STRING", "value": "customize"},
  "CMAKE_BUILD_TYPE": {"type": "STRING", "value": "Release"}}}]}
JSON
cat > build.sh <<'BUILD'
cp CMakePresets.json "$CANN_SEEN"
cp -r op_host op_kernel "$CANN_SEEN"
mkdir build_out
cat > build_out/custom_opp_debian_x86_64.run <<'RUN'
lib="${1#--install-path=}/vendors/torchrec_ascend/op_api/lib"
while [ -d "$lib" ]; do sleep 1; done  # asks for ever, as some installers do
mkdir -p "$lib"
printf "$CANN_SYMBOLS" > "$lib/libcust_opapi.so"
RUN
BUILD
"""


@pytest.fixture
def cann(tmp_path: Path) -> Path:
    folder = tmp_path / "cann"
    programs = {
        "set_env.sh": "export CANN_IS_SET=1\n",
        "compiler/ccec_compiler/bin/ccec": "#!/bin/sh\n",
        "python/site-packages/bin/msopgen": MSOPGEN,
        "compiler/version.info": "Version=8.5.0\n",
    }
    for name, text in programs.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (tmp_path / "seen").mkdir()
    return folder


@cache
def _tools() -> Path:
    """A folder with the programs that run.sh and the fake CANN may use, and no other."""
    folder = Path(tempfile.mkdtemp(prefix="tools"))
    atexit.register(shutil.rmtree, folder)
    for name in TOOLS:
        found = shutil.which(name, path=os.pathsep.join([str(BIN), os.environ["PATH"]]))
        assert found, f"{name} is not on PATH"
        (folder / name).symlink_to(found)
    return folder


def run(
    cann: Path | None, *arguments: str, symbols: str = SYMBOLS
) -> subprocess.CompletedProcess[str]:
    # Neither a real CANN of this machine, nor its msopgen.
    env = {"PATH": str(_tools()), "HOME": "/nowhere"}
    if cann is not None:
        env["CANN_SEEN"] = str(cann.parent / "seen")
        env["CANN_SYMBOLS"] = symbols
        arguments = (*arguments, "--cann", str(cann), "--output", str(cann.parent / "out"))
    command = [str(_tools() / "bash"), str(OPERATOR / "run.sh"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("soc", "unit"),
    [
        ("Ascend910B1", "ascend910b"),
        ("ascend910b", "ascend910b"),
        ("Ascend910_9391", "ascend910_93"),
        ("Ascend950PR_9589", "ascend950"),
        ("a3", "ascend910_93"),
    ],
)
def test_a_package_is_built_and_installed(cann: Path, soc: str, unit: str) -> None:
    (cann / "compiler/version.info").write_text("Version=9.0.0\n")
    done = run(cann, "--soc", soc)
    assert done.returncode == 0, done.stderr
    seen = cann.parent / "seen"
    assert f"ai_core-{unit}" in (seen / "msopgen").read_text().split("\n")
    presets = json.loads((seen / "CMakePresets.json").read_text())["configurePresets"][0]
    values = {name: entry["value"] for name, entry in presets["cacheVariables"].items()}
    assert values == {
        "ASCEND_CANN_PACKAGE_PATH": str(cann),
        "ASCEND_COMPUTE_UNIT": unit,
        "vendor_name": "torchrec_ascend",
        "CMAKE_BUILD_TYPE": "Release",
    }
    for part in ("op_host", "op_kernel"):
        copied = sorted(file.name for file in (seen / part).iterdir())
        assert copied == sorted(file.name for file in (OPERATOR / part).iterdir())
    guarded = "#define RECAT_ASCEND950" in (seen / "op_host/recat_copy_async.cpp").read_text()
    assert guarded == (unit == "ascend950")
    vendor = cann.parent / "out/vendors/torchrec_ascend"
    assert f"ASCEND_CUSTOM_OPP_PATH={vendor}" in done.stdout
    assert [entry.name for entry in (cann.parent / "out").iterdir()] == ["vendors"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--soc is missing"),
        (("--soc",), "--soc needs a value"),
        (("--soc", "Ascend310P"), "--soc is Ascend310P, expected Ascend910B*, Ascend910_93*"),
        (("--soc", "Ascend910B1"), "--cann is missing, and ASCEND_HOME_PATH is not set"),
        (("--soc", "Ascend910B1", "--cann", "/nowhere"), "/nowhere, which is no folder"),
        (("--target", "x"), "unknown argument --target"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[str, ...], message: str) -> None:
    done = run(None, *arguments)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("set_env.sh", "is not CANN's folder"),
        ("compiler/ccec_compiler/bin/ccec", "the kernel compiler (ccec or bisheng)"),
        ("python/site-packages/bin/msopgen", "msopgen: part of the toolkit"),
    ],
)
def test_what_is_missing_is_named(cann: Path, missing: str, message: str) -> None:
    (cann / missing).unlink()
    done = run(cann, "--soc", "Ascend910B1")
    assert done.returncode == 1
    assert message in done.stderr
    assert not (cann.parent / "out").exists()


def test_a_package_replaces_the_one_before(cann: Path) -> None:
    for _ in range(2):
        assert run(cann, "--soc", "a2").returncode == 0


def test_the_toolkits_version_counts_and_not_its_parts(cann: Path) -> None:
    (cann / "compiler/version.info").write_text("Version=7.6.0.1.220\n")
    (cann / "ascend_toolkit_install.info").write_text("package_name=x\nversion=9.0.0\n")
    done = run(cann, "--soc", "a5")
    assert done.returncode == 0, done.stderr


def test_an_older_layout_and_a_script_that_ends_badly(cann: Path) -> None:
    (cann / "set_env.sh").unlink()
    (cann / "bin").mkdir()
    (cann / "bin/setenv.bash").write_text("test -d /nowhere\n")
    done = run(cann, "--soc", "a2")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", ["Version=8.5.0\n", "version=8.2.RC1\n", "nothing\n"])
def test_an_older_cann_does_not_know_the_a5(cann: Path, version: str) -> None:
    (cann / "compiler/version.info").write_text(version)
    done = run(cann, "--soc", "Ascend950PR_9589")
    assert done.returncode == 1
    assert "ascend950 needs 9 or newer" in done.stderr


@pytest.mark.parametrize("symbols", ["aclnnOther", "aclnnRecatCopyAsyncGetWorkspaceSize"])
def test_a_package_without_the_operator_is_no_success(cann: Path, symbols: str) -> None:
    done = run(cann, "--soc", "Ascend910B1", symbols=symbols)
    assert done.returncode == 1
    assert "has no aclnnRecatCopyAsync" in done.stderr
