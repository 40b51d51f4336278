"""The operators' tests once more, over a library built with AddressSanitizer.

A read or write outside a tensor, by a single byte, ends the process there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from torchrec_ascend.ops.library import LIBRARY

ROOT = Path(__file__).resolve().parents[2]
# Beside the interpreter first: a virtual environment need not be activated.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])

pytestmark = pytest.mark.timeout(600)


def run(command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
    )


def tool(name: str) -> str:
    found = shutil.which(name, path=PATH)
    assert found, f"{name} is needed and not found"
    return found


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The operators with AddressSanitizer; without a compiler that is an error, not a skip."""
    build = tmp_path_factory.mktemp("asan")
    options = ["-DTORCHREC_ASCEND_ASAN=ON", f"-DPython_EXECUTABLE={sys.executable}", "-GNinja"]
    commands: list[list[str]] = [
        [tool("cmake"), "-S", str(ROOT / "kernels"), "-B", str(build), *options],
        [tool("cmake"), "--build", str(build)],
    ]
    for command in commands:
        result = run(command)
        assert result.returncode == 0, result.stdout
    return build / LIBRARY


def runtime_file(name: str) -> Path:
    """A library that comes with the compiler."""
    printed = run([tool(os.environ.get("CXX", "g++")), f"-print-file-name={name}"]).stdout.strip()
    assert Path(printed).is_file(), f"the compiler has no {name}"
    return Path(printed).resolve()


def run_sanitized(arguments: Sequence[str], options: str = "") -> subprocess.CompletedProcess[str]:
    """A Python process that has the sanitizer's allocator under torch's tensors."""
    # Python and torch leave memory to the process's end: leaks are not looked for.
    return run(
        [sys.executable, *arguments],
        # Python itself does not link the C++ library, whose exceptions the sanitizer wraps.
        LD_PRELOAD=f"{runtime_file('libasan.so')} {runtime_file('libstdc++.so.6')}",
        ASAN_OPTIONS=f"detect_leaks=0:halt_on_error=1:{options}",
    )


# `short` claims one element more than its memory has. Each call is made in a process of its own.
BAD_CALLS = """
import ctypes, os, sys
import torch
torch.ops.load_library(sys.argv[1])
ops = torch.ops.torchrec_ascend
malloc = ctypes.CDLL(None).malloc
malloc.restype, malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
short = torch.frombuffer((ctypes.c_char * 4096).from_address(malloc(4092)), dtype=torch.float32)
square, rows, flat = short.view(8, 128), torch.zeros(8, 128), torch.zeros(1024)
dims = [100, 28]
calls = {
    "read rows": lambda: ops.recat(square, dims),
    "read rows, cast": lambda: ops.recat(square, dims, dtype=torch.bfloat16),
    "read flat": lambda: ops.unrecat(short, dims, 8),
    "read flat, cast": lambda: ops.unrecat(short, dims, 8, dtype=torch.float16),
    "write flat": lambda: ops.recat(rows, dims, out=short),
    "write flat, cast": lambda: ops.recat(rows.bfloat16(), dims, out=short),
    "write rows": lambda: ops.unrecat(flat, dims, 8, out=square),
    "write rows, cast": lambda: ops.unrecat(flat.half(), dims, 8, out=square),
}
for isa in ("baseline", "auto"):
    for stores, stream_bytes in (("streaming", 0), ("cached", 2**62)):
        ops._set_cpu_options(isa, stream_bytes)
        for name, call in calls.items():
            print("call:", isa, stores, name, flush=True)
            child = os.fork()  # torch is imported once
            if child == 0:
                call()
                print("survived", flush=True)
                os._exit(0)
            os.waitpid(child, 0)
"""


def test_a_step_outside_is_seen(library: Path) -> None:
    """Without this, the test below could pass with a sanitizer that looks away."""
    result = run_sanitized(["-c", BAD_CALLS, str(library)], "symbolize=0")
    assert result.returncode == 0, result.stdout
    calls = re.split(r"^call: ", result.stdout, flags=re.MULTILINE)[1:]
    assert len(calls) == 32
    for output in calls:
        assert "ERROR: AddressSanitizer: " in output, output
        assert "survived" not in output


def test_laws_hold_under_the_sanitizer(library: Path) -> None:
    command = f"-m pytest -q -p no:cacheprovider --ops-library {library}".split()
    tests = ["tests/unit/test_recat.py", "tests/unit/test_recat_fbgemm.py"]
    # opcheck and compile trace the calls, then run the same kernels again
    result = run_sanitized([*command, *tests, "-k", "not opcheck and not compile"])
    assert result.returncode == 0, result.stdout
    assert re.search(r"^\d\d\d passed", result.stdout, re.MULTILINE), result.stdout
    assert "skipped" not in result.stdout
