"""The layout operators on an emulated NPU: the CPU's results, to the bit, and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import recat_cases
from hosts import Emulated, said
from ranks import World

Worlds = Callable[..., World]

# SoC, asynchronous, operator package
HOSTS = [
    ("a2", False, True),
    ("a2", True, True),
    ("a3", False, True),
    ("a3", True, True),
    ("a5", False, True),
    ("a5", True, True),
    ("a2", False, False),
    ("a2", True, False),
]


@pytest.fixture(params=HOSTS, ids=lambda h: f"{h[0]}-{'async' if h[1] else 'sync'}-{h[2]}")
def npu(request: pytest.FixtureRequest, npu_world: Worlds) -> World:
    soc, asynchronous, package = request.param
    return npu_world(1, soc=soc, asynchronous=asynchronous, operator_package=package)


@pytest.mark.parametrize(
    "law",
    [
        recat_cases.copies,
        recat_cases.features,
        recat_cases.conversions,
        recat_cases.derivatives,
        recat_cases.on_streams,
        recat_cases.many_splits,
    ],
    ids=lambda law: law.__name__,
)
def test_as_on_the_cpu(npu: World, law: Callable[[], list[str]]) -> None:
    assert npu.run(law) == [[]]


@pytest.mark.parametrize("name", recat_cases.BAD)
@pytest.mark.parametrize(("asynchronous", "package"), [(False, True), (True, True), (True, False)])
def test_bad_input_is_refused(
    npu_world: Worlds, name: str, asynchronous: bool, package: bool
) -> None:
    world = npu_world(1, asynchronous=asynchronous, operator_package=package)
    message = world.run(recat_cases.refusal, name)[0]
    assert recat_cases.BAD[name][1] in message


TWICE = """
import torch, torchrec_ascend
for _ in range(2):
    torch.ops.torchrec_ascend.recat(torch.zeros(2, 5).npu(), [2, 3])
torch.npu.synchronize()
"""


@pytest.mark.parametrize("package", [True, False])
def test_a_composition_is_announced_once(emulated: Emulated, package: bool) -> None:
    """On standard error, where torch prints what C++ warns of; the compiled operator is silent."""
    done = emulated.run(TWICE, operator_package=package)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("composed of stock operators") == (0 if package else 1)
    assert done.stderr.count("no operator package") == (0 if package else 1)


REPEATED = """
import torch, torchrec_ascend
rows, out = torch.randn(64, 12).npu(), torch.empty(64 * 12).npu()
def call():
    torch.ops.torchrec_ascend.recat(rows, [3, 0, 9], out=out)
call()
torch.npu.synchronize()
lines = sum(1 for _ in open(TRACE))
call()
torch.npu.synchronize()
print([line.rstrip() for line in open(TRACE)][lines:])
"""


def test_a_call_is_one_operator_without_a_copy_or_a_wait(
    emulated: Emulated, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    script = f"TRACE = {str(trace)!r}\n{REPEATED}"
    done = emulated.run(script, trace=str(trace))
    assert done.returncode == 0, done.stderr
    calls = done.stdout
    # one launch; then the synchronise that the script asks for
    assert calls.count("launch ") == 1, calls
    assert "launch aclnnRecatCopyAsync" in calls.split("aclrtSynchronize")[0]
    assert "Memcpy" not in calls, calls
    assert calls.count("aclrtSynchronize") == 1, calls
    assert "Memcpy" in trace.read_text()  # of the first call, which brought the splits


@pytest.mark.parametrize("package", [True, False])
def test_backends_are_shown_with_the_reason(emulated: Emulated, package: bool) -> None:
    done = emulated.run(
        "from torchrec_ascend.ops.backends import table; print(table())", operator_package=package
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("npu")]
    assert len(lines) == 7
    expected = ("RecatCopyAsync", "libcust_opapi.so")
    if not package:
        expected = ("composition of stock operators", "no operator package")
    assert all(word in line for line in lines for word in expected), done.stdout


def test_importing_without_torch_npu_is_silent(emulated: Emulated) -> None:
    script = (
        "import warnings; warnings.simplefilter('error', UserWarning)\n"
        "import torch, torchrec_ascend\n"
        "from torchrec_ascend.ops import library\n"
        "assert torch.ops.torchrec_ascend.recat(torch.ones(2, 3), [3]).sum() == 6\n"
        "print(library.load_npu(), library.npu_reason())"
    )
    no_cann = {"LD_LIBRARY_PATH": "", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    done = emulated.run(script, env=no_cann)
    assert (done.returncode, done.stderr) == (0, "")
    assert said(done).strip() == "False torch_npu is not imported"
