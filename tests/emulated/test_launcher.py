"""`python -m torchrec_ascend.emulator`: what it sets, refuses and passes on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import Emulated, said

from torchrec_ascend import emulator
from torchrec_ascend.emulator import Emulation


def launch(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torchrec_ascend.emulator", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=emulator.ROOT, env=env
    )


def test_a_command_runs_on_the_emulated_host(emulated: Emulated) -> None:
    script = (
        "import torch\n"
        "p = torch.npu.get_device_properties(0)\n"
        "print(torch.npu.device_count(), p.name, p.total_memory)\n"
        "raise SystemExit(3)"
    )
    done = launch("--soc", "a5", "--devices", "3", "--hbm-gib", "2", "--", sys.executable, "-c",
                  script)  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert said(done).split() == ["3", "Ascend950PR_9599", str(2 << 30)]
    assert "emulated: 3 x Ascend950PR_9599" in done.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "no command: end with -- COMMAND"),
        (["--soc", "a9", "--", "true"], "unknown chip 'a9'"),
        (["--", "no-such-command"], "no-such-command: No such file"),
        (["--devices", "0", "--", "true"], "devices is 0, expected 1 or more"),
        (["--hbm-gib", "-1", "--", "true"], "expected 1 MiB or more"),
        (["--delay-us", "5", "--", "true"], "delay_us is 5, expected 0 or more, and 0 unless"),
        (["--fault", "foo=1", "--", "true"], "fault 'foo=1', expected NAME=VALUE with one of"),
        (["--fault", "fail_alloc=x", "--", "true"], "fault 'fail_alloc=x'"),
    ],
)
def test_refusals(emulated: Emulated, arguments: list[str], message: str) -> None:
    done = launch(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_only_the_command_sees_the_emulated_environment(emulated: Emulated) -> None:
    before = dict(os.environ)
    variables = emulator.environment(Emulation(soc="a3", faults=("fail_alloc=2", "drop_rank=1@3")))
    assert dict(os.environ) == before
    assert variables["NPU_EMU_SOC"] == "Ascend910_9391"
    assert variables["NPU_EMU_FAULT"] == "fail_alloc=2;drop_rank=1@3"
    assert variables["LD_LIBRARY_PATH"].split(":")[0] == str(emulated.libraries)
    # The CPU environment must not find torch_npu: `import torch` would fail there.
    installed = Path(variables["PYTHONPATH"].split(":")[0])
    assert (installed / "torch_npu").is_dir()
    assert str(installed) not in sys.path


def test_the_operator_package_can_be_left_out(emulated: Emulated) -> None:
    inherited = {"ASCEND_CUSTOM_OPP_PATH": "/somewhere"}
    without = emulator.environment(Emulation(operator_package=False), inherited)
    assert "ASCEND_CUSTOM_OPP_PATH" not in without
    package = Path(emulator.environment(Emulation(), inherited)["ASCEND_CUSTOM_OPP_PATH"])
    assert (package / "op_api" / "lib" / "libcust_opapi.so").is_file()


def test_environments_nest(emulated: Emulated) -> None:
    once = emulator.environment(Emulation())
    assert emulator.environment(Emulation(), once) == once


def test_a_build_is_known_by_its_content(
    emulated: Emulated, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    key = emulator.content()
    assert emulated.libraries.parent.name == key  # built once, found again
    for name in emulator.SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", str(emulator.ROOT / name), str(tmp_path / name)], check=True)
    monkeypatch.setattr(emulator, "ROOT", tmp_path)
    assert emulator.content() == key  # a fresh clone has other times, not another content
    (tmp_path / "kernels" / "emulator" / "README.md").write_text("words")
    assert emulator.content() == key
    header = tmp_path / "kernels" / "emulator" / "runtime" / "emulator.h"
    header.write_text(header.read_text() + "\n")
    assert emulator.content() != key
