"""The emulated AscendCL by itself: chip, memory, streams, events, errors, forks.

Each case is a function of runtime_*.py that runs in a process of its own on the emulated host.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hosts import Emulated

from torchrec_ascend import emulator
from torchrec_ascend.device import chip

SOURCES = emulator.ROOT / "kernels" / "emulator" / "runtime"
MODES = pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])


def script(module: str, call: str, ending: str = "") -> str:
    return f"""
import {module}
{module}.{call}
{ending}
"""


def run(emulated: Emulated, module: str, call: str, **options: object) -> None:
    """The case must end well."""
    done = emulated.run(script(module, call), **options)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("soc", ["a2", "a3", "a5"])
def test_properties_are_those_of_the_chip(emulated: Emulated, soc: str) -> None:
    chip_of = "__import__('torchrec_ascend.device').device.chip"
    run(emulated, "runtime_torch", f"properties({chip_of}({chip(soc).soc!r}))", soc=soc)


def test_device_ids(emulated: Emulated) -> None:
    run(emulated, "runtime_torch", "device_ids()", devices=3)


@pytest.mark.parametrize(
    "variable, value, words",
    [
        ("NPU_EMU_SOC", "", "NPU_EMU_SOC is not set"),
        ("NPU_EMU_HBM_BYTES", "64G", "NPU_EMU_HBM_BYTES=64G, expected a number from"),
        ("NPU_EMU_DEVICES", "65", "NPU_EMU_DEVICES=65, expected a number from 1 to 64"),
    ],
)
def test_a_wrong_description_is_named(
    emulated: Emulated, variable: str, value: str, words: str
) -> None:
    run(emulated, "runtime_memory", f"a_wrong_description({words!r})", env={variable: value})


@pytest.mark.parametrize(
    "case",
    [
        "version_of_cann",
        "a_thread_without_a_device",
        "limits_of_cores",
        "memory_is_counted_per_device",
        "allocations_fail_on_demand",
        "new_and_freed_memory_is_poisoned",
    ],
)
def test_devices_and_memory(emulated: Emulated, case: str) -> None:
    run(emulated, "runtime_memory", f"{case}()")


@MODES
def test_copies_are_checked(emulated: Emulated, asynchronous: bool) -> None:
    run(emulated, "runtime_memory", "copies_are_checked()", asynchronous=asynchronous)


def test_host_memory(emulated: Emulated) -> None:
    run(emulated, "runtime_memory", "host_memory()", asynchronous=True, delay_us=1000)


@MODES
@pytest.mark.parametrize(
    "case",
    [
        "an_event_never_recorded",
        "the_time_of_an_event",
        "streams_of_another_device_and_none",
        "callbacks",
        "threads_share_the_runtime",
        "use_then_fork",
    ],
)
def test_streams_and_events(emulated: Emulated, case: str, asynchronous: bool) -> None:
    run(emulated, "runtime_streams", f"{case}()", asynchronous=asynchronous)


@pytest.mark.parametrize(
    "case", ["a_wait_keeps_to_its_record", "busy_streams", "reset_ends_what_waits"]
)
def test_streams_behind_the_host(emulated: Emulated, case: str) -> None:
    run(emulated, "runtime_streams", f"{case}()", asynchronous=True, delay_us=2000)


def test_tasks_are_delayed(emulated: Emulated) -> None:
    run(emulated, "runtime_streams", "tasks_are_delayed()", asynchronous=True, delay_us=20_000)


def test_torch_runs_out_of_memory(emulated: Emulated) -> None:
    run(emulated, "runtime_torch", "out_of_memory()", hbm_bytes=1 << 30)


@pytest.mark.parametrize("case", ["memory_comes_back", "allocations_fail_on_demand"])
def test_torch_memory(emulated: Emulated, case: str) -> None:
    run(emulated, "runtime_torch", f"{case}()")


def test_torch_without_expandable_segments(emulated: Emulated) -> None:
    asked = {"PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True"}
    run(emulated, "runtime_torch", "expandable_segments()", env=asked)


@pytest.mark.parametrize(
    "case", ["pinned_memory", "order_between_streams", "asynchronous_errors", "use_then_fork"]
)
def test_torch_behind_the_host(emulated: Emulated, case: str) -> None:
    run(emulated, "runtime_torch", f"{case}()", asynchronous=True)


def test_import_then_fork(emulated: Emulated) -> None:
    run(emulated, "runtime_torch", "import_then_fork()", asynchronous=True)


@pytest.mark.parametrize("ending, code", [("", 0), ("raise ValueError", 1), ("os._exit(6)", 6)])
@pytest.mark.parametrize("module", ["runtime_streams", "runtime_torch"])
def test_a_process_ends_with_work_in_its_queues(
    emulated: Emulated, module: str, ending: str, code: int
) -> None:
    text = script(module, "leave_work_behind()", f"import os\n{ending}")
    done = emulated.run(text, asynchronous=True, delay_us=20_000)
    assert done.returncode == code, done.stderr


def test_nothing_starts_on_import(emulated: Emulated, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    run(emulated, "runtime_torch", "nothing_starts_on_import()", trace=str(trace))
    traced = trace.read_text()
    assert "aclrtGetDeviceCount" in traced  # the trace works
    for name in ("aclInit", "aclrtSetDevice", "aclrtMalloc", "aclrtCreateStream"):
        assert name not in traced


def symbols(library: Path, which: str) -> set[str]:
    """The undefined or defined names in a library's dynamic table, without their versions."""
    listed = subprocess.run(
        ["nm", "-D", f"--{which}-only", str(library)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines() if line.strip()}


def test_every_function_that_torch_npu_links_to_exists(emulated: Emulated) -> None:
    find = "import importlib.util; print(importlib.util.find_spec('torch_npu').origin)"
    package = Path(emulated.run(find).stdout.strip()).parent
    wheel = [*package.glob("lib/*.so*"), *package.glob("_C*.so")]
    linked = set[str]().union(*(symbols(library, "undefined") for library in wheel))
    needed = {name for name in linked if re.match(r"(acl[A-Zmors]|rt[A-Z]|Msprof)\w+$", name)}
    assert {"aclrtMalloc", "aclopCompileAndExecute", "MsprofReportApi", "rtKernelLaunch"} <= needed
    missing = needed - symbols(emulated.libraries / "libascendcl.so", "defined")
    assert not missing, sorted(missing)


def test_what_is_not_emulated_says_so(emulated: Emulated, tmp_path: Path) -> None:
    source = (SOURCES / "not_emulated.cpp").read_text()
    names = re.findall(r"^NOT_(?:EMULATED|IN_DRIVER)\((\w+)\)", source, re.MULTILINE)
    assert "aclrtMapMem" in names
    trace = tmp_path / "trace"
    run(emulated, "runtime_memory", f"what_is_not_emulated({names})", trace=str(trace))
    traced = trace.read_text()
    assert [name for name in names if f"{name} -> " not in traced] == []
