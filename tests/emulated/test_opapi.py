"""The emulated operator library: what it computes on an NPU is what ATen computes on the CPU."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import opapi_activations
import opapi_cases
import opapi_indexing
import opapi_layers
import opapi_pointwise
import opapi_random
import opapi_raw
import opapi_reduction
import opapi_training
import pytest
from hosts import Emulated
from opapi_cases import Case

from torchrec_ascend import emulator

SOURCES = emulator.ROOT / "kernels" / "emulator" / "opapi"
TABLES = (
    opapi_pointwise,
    opapi_activations,
    opapi_reduction,
    opapi_indexing,
    opapi_layers,
    opapi_training,
    opapi_random,
)
PARAMETER_INVALID = 161002
NO_KERNEL = 561002


def families() -> dict[str, list[Case]]:
    result: dict[str, list[Case]] = {}
    for module in TABLES:
        result |= module.cases()
    return result


def differences(family: str, names: list[str] | None = None) -> dict[str, str | None]:
    """In a rank: what differs from the CPU, by the name of the case."""
    chosen = [c for c in families()[family] if names is None or c.name in names]
    return opapi_cases.differences(chosen)


def runs() -> dict[str, int]:
    return opapi_cases.operator_runs()


# Where torch_npu calls other operators for this chip.
ON_A5 = {
    "activation": ["gelu", "hardswish", "softmax"],
    "reduction": ["topk", "bucketize", "bucketize right, int32"],
    "index": ["index_fill", "index_fill_", "index_add", "scatter_reduce"],
    "embedding": ["embedding_bag sum", "embedding_bag mean last", "embedding_bag max"],
    "random": ["random_ of bytes", "dropout", "dropout gradient", "rand"],
    "norm": ["layer_norm"],
    "foreach": ["_foreach_addcmul", "_foreach_add"],
    "optimizers": [
        "Adam foreach=True", "Adam fused", "Adam decay fused", "Adam amsgrad fused",
        "GradScaler fused",
    ],
}  # fmt: skip
# torch_npu computes these on the CPU for the other chips.
ONLY_A5 = {
    "bucketize", "bucketize right, int32", "Adam fused", "Adam decay fused", "Adam amsgrad fused",
    "GradScaler fused",
}  # fmt: skip


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("family", list(families()))
def test_equal_to_the_cpu(npu_world: Callable[..., Any], family: str, asynchronous: bool) -> None:
    names = [case.name for case in families()[family] if case.name not in ONLY_A5]
    found = npu_world(1, asynchronous=asynchronous).run(differences, family, names)[0]
    assert set(found) == set(names)
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize("family", list(ON_A5))
def test_equal_to_the_cpu_on_a5(npu_world: Callable[..., Any], family: str) -> None:
    found = npu_world(1, soc="a5").run(differences, family, ON_A5[family])[0]
    assert set(found) == set(ON_A5[family])
    assert {name: what for name, what in found.items() if what} == {}


def test_names_of_cases_are_distinct() -> None:
    for family, cases in families().items():
        names = [case.name for case in cases]
        assert len(names) == len(set(names)), family


def test_every_operator_is_called(npu_world: Callable[..., Any]) -> None:
    """An operator that no case reaches is one whose argument list is a guess.

    Without our operator package, whose operator has a test file of its own.
    """
    reached: dict[str, int] = {}
    for soc, wanted in (("a2", dict.fromkeys(families())), ("a5", ON_A5)):
        world = npu_world(1, soc=soc, operator_package=False)
        for family, names in wanted.items():
            world.run(differences, family, names)
        for name, count in world.run(runs)[0].items():
            reached[name] = reached.get(name, 0) + count
    assert len(reached) > 400
    assert sorted(name for name, count in reached.items() if count == 0) == []


@pytest.fixture(scope="module")
def not_emulated() -> list[str]:
    lines = (SOURCES / "not_emulated.txt").read_text().splitlines()
    return [line for line in lines if line.startswith("aclnn")]


def test_what_is_not_emulated_says_so(
    npu_world: Callable[..., Any], not_emulated: list[str]
) -> None:
    assert sorted(not_emulated) == not_emulated
    assert len(set(not_emulated)) == len(not_emulated)
    world = npu_world(1)
    emulated = set(world.run(runs)[0])
    assert emulated.isdisjoint(not_emulated)
    for name, (code, message) in world.run(opapi_raw.missing, not_emulated)[0].items():
        assert code == NO_KERNEL
        assert message == (
            f"emulated CANN: {name} is not emulated; add it to kernels/emulator/opapi"
        )


def test_torch_npu_does_without_what_is_absent(npu_world: Callable[..., Any]) -> None:
    """Where torch_npu asks whether CANN has an operator, an absent one is not to exist at all."""
    asked = ["aclnnTopkV2", "aclnnSetPytorchRandom", "aclnnNpuFormatCast", "aclnnLinalgCholesky"]
    assert npu_world(1).run(opapi_raw.absent, asked)[0] == asked


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("scalar for tensor", "argument 2 is an aclScalar, expected an aclTensor"),
        ("tensor for scalar", "argument 3 is an aclTensor, expected an aclScalar"),
        ("null", "argument 2 is null, expected an aclTensor"),
        ("no object", "argument 2 is 0x1234, which is no live acl object, expected an aclTensor"),
        ("one missing", "(argument 4 is .*, expected an aclTensor|the caller passes)"),
        ("one too many", "the caller passes more or fewer arguments than it takes"),
        ("pointer for integer", "argument 1 is a pointer, expected an integer"),
        ("integer missing", "argument 5 is 0x.*, which is no live acl object"),
        ("host memory", "argument 2 is an aclTensor outside of the memory allocated on the device"),
    ],
)
def test_a_wrong_argument_list_is_an_error(
    npu_world: Callable[..., Any], what: str, message: str
) -> None:
    code, text = npu_world(1).run(opapi_raw.wrong_lists)[0][what]
    assert code == PARAMETER_INVALID
    assert re.fullmatch(rf"emulated aclnn\w+: {message}.*", text), text


def test_an_executor_keeps_its_arguments(npu_world: Callable[..., Any]) -> None:
    assert npu_world(1).run(opapi_raw.freed_before_run)[0] == [7.0, 7.0, 7.0]


def test_objects_and_executors_end(npu_world: Callable[..., Any]) -> None:
    seen = npu_world(1).run(opapi_raw.life_of_objects)[0]
    assert seen["prepared"] == 0
    assert seen["other"] == (
        PARAMETER_INVALID, "emulated aclnnMul: the executor is aclnnAdd's",
    )  # fmt: skip
    assert seen["stale"][0] == PARAMETER_INVALID
    assert "which is no live acl object" in seen["stale"][1]
    assert (seen["first"], seen["product"]) == ((0, ""), [2.0, 2.0, 2.0])
    assert seen["again"][0] == PARAMETER_INVALID
    assert "which is no live acl object" in seen["again"][1]
    assert seen["twice"][0] == 0 and seen["twice"][1] != 0


def _script(name: str) -> str:
    """Runs one of opapi_scripts's functions."""
    return f"import opapi_scripts as s; s.{name}()"


# torch_npu has no backward of EmbeddingBag: it computes that one on the CPU.
FALLBACK = {"TORCH_NPU_FALLBACK_CPU_DISABLE": "0"}
# Each operator ends before the call returns, and fails there.
BLOCKING = {"ASCEND_LAUNCH_BLOCKING": "1"}


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_small_dlrm_trains_as_on_the_cpu(emulated: Emulated, asynchronous: bool) -> None:
    done = emulated.run(_script("dlrm"), asynchronous=asynchronous, env=FALLBACK)
    assert done.returncode == 0, done.stderr
    by_optimizer = json.loads(done.stdout.splitlines()[-1])
    assert set(by_optimizer) == {"SGD", "Adagrad", "Adam"}
    for name, (difference, moved) in by_optimizer.items():
        assert difference <= 1e-6, name
        assert moved > 1e-4, name


def test_an_index_out_of_range_is_an_error(emulated: Emulated) -> None:
    done = emulated.run(_script("bad_indices"), env=BLOCKING)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said.pop("then") == [2.0, 2.0]
    assert len(said) == 12
    for name, message in said.items():
        assert re.search(rf"emulated {name}: .*(out of range|out of bounds)", message), name


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_late_error_names_the_operator(emulated: Emulated, asynchronous: bool) -> None:
    done = emulated.run(_script("late_error"), asynchronous=asynchronous)
    assert "aclnnGather" in done.stdout
    assert "index 9 is out of bounds for dimension 0 with size 4" in done.stdout + done.stderr


def test_operators_are_apart_from_the_caller(emulated: Emulated) -> None:
    done = emulated.run(_script("caller_state"), env=BLOCKING)
    assert done.returncode == 0, done.stderr
    exact, seen, products, copies = json.loads(done.stdout.splitlines()[-1])
    assert exact  # CPU autocast does not reach the product
    assert seen == [["npu", "npu"]]  # nor does a dispatch mode see what computes it
    assert (products, copies) == (1, False)  # nor the profiler


@pytest.mark.parametrize("mode", [{}, BLOCKING], ids=["queue", "blocking"])
def test_an_operator_starts_no_threads(emulated: Emulated, mode: dict[str, str]) -> None:
    done = emulated.run(_script("threads"), env={"OMP_NUM_THREADS": "4", **mode})
    assert done.returncode == 0, done.stderr
    on_npu, on_cpu, change = json.loads(done.stdout.splitlines()[-1])
    assert on_npu == 0
    assert on_cpu > 0  # the caller's own threads stay what they were
    assert change == 0
