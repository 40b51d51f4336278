"""The emulated HCCL: collectives equal their formulas, and failures name who failed and how."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import hccl_cases
import hccl_raw
import hccl_torchrec
import pytest
from hosts import Emulated
from ranks import World

from torchrec_ascend import emulator

Worlds = Callable[..., World]

# Ranks, asynchronous. Parameters of one world follow each other, so that it starts once; the large
# ones go first, because the others are small enough to stay.
WORLDS = [(8, False), (4, True), (2, True), (2, False), (3, False)]


@pytest.fixture(scope="module", params=WORLDS, ids=lambda w: f"{w[0]}{'-async' if w[1] else ''}")
def world(request: pytest.FixtureRequest, npu_world: Worlds) -> World:
    size, asynchronous = request.param
    return npu_world(size, asynchronous=asynchronous)


@pytest.fixture
def three(npu_world: Worlds) -> World:
    return npu_world(3)


@pytest.mark.parametrize("dtype", hccl_cases.REDUCED)
def test_reductions(world: World, dtype: str) -> None:
    world.run(hccl_cases.reductions, dtype)


@pytest.mark.parametrize("dtype", hccl_cases.MOVED)
def test_movements(world: World, dtype: str) -> None:
    world.run(hccl_cases.movements, dtype)


@pytest.mark.parametrize("width", [1, 3])
def test_uneven_and_empty_splits(world: World, width: int) -> None:
    world.run(hccl_cases.uneven_splits, width)


@pytest.mark.parametrize(
    "law",
    [
        hccl_cases.averages,
        hccl_cases.lists,
        hccl_cases.ring,
        hccl_cases.groups,
        hccl_cases.overlap,
        hccl_cases.large,
    ],
    ids=lambda law: law.__name__,
)
def test_law(world: World, law: Callable[[], None]) -> None:
    world.run(law)


def test_a_fork_leaves_the_communicators_alone(world: World) -> None:
    assert set(world.run(hccl_cases.fork)) == {0}


@pytest.mark.parametrize(
    "law",
    [
        hccl_raw.questions,
        hccl_raw.bad_arguments,
        hccl_raw.counted_forms,
        hccl_raw.grouped_messages,
        hccl_raw.sub_communicators,
        hccl_raw.unsupported,
    ],
    ids=lambda law: law.__name__,
)
def test_functions_that_torch_npu_calls_otherwise(three: World, law: Callable[[], None]) -> None:
    three.run(law)


def test_rank_table(three: World, tmp_path: Path) -> None:
    devices = [{"device_id": str(r), "device_ip": "10.0.0.1", "rank_id": str(r)} for r in (2, 0, 1)]
    table = {
        "version": "1.0",
        "server_count": "1",
        "server_list": [{"server_id": "10.0.0.9", "device": devices, "host_nic_ip": "reserve"}],
        "status": "completed",
    }
    (tmp_path / "table.json").write_text(json.dumps(table, indent=1))
    three.run(hccl_raw.rank_tables, str(tmp_path / "table.json"))


def _declared(header: str, pattern: str) -> list[str]:
    include = emulator.install_torch_npu() / "torch_npu" / "include"
    return re.findall(pattern, (include / header).read_text())


def test_every_function_of_hccl_exists(emulated: Emulated) -> None:
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", emulated.libraries / "libhccl.so"],
        capture_output=True,
        text=True,
        check=True,
    )
    defined = {line.split()[-1] for line in listed.stdout.splitlines()}
    public = _declared("third_party/hccl/inc/hccl/hccl.h", r"extern .*\b(Hccl\w+)\(")
    loaded = _declared(
        "torch_npu/csrc/distributed/HcclCompile.h",
        r"TORCH_NPU_(?:LOAD|REGISTER)_FUNCTION\((?:libhcomm, )?(Hc\w+)\)",
    )
    assert len(public) > 40 and len(loaded) > 30
    assert sorted({*public, *loaded} - defined) == []


# What the ranks call, and what rank 1 calls.
ODD_CALLS = {
    "operator": ("AllReduce sum float32 with 16 bytes", "Broadcast float32 (root 0) with 16 bytes"),
    "size": ("AllReduce sum float32 with 16 bytes", "AllReduce sum float32 with 20 bytes"),
    "dtype": ("AllReduce sum float32 with 16 bytes", "AllReduce sum int32 with 16 bytes"),
    "reduction": ("AllReduce sum float32 with 16 bytes", "AllReduce prod float32 with 16 bytes"),
    "root": (
        "Broadcast float32 (root 0) with 16 bytes",
        "Broadcast float32 (root 1) with 16 bytes",
    ),
}
# Between rank 0 and rank 1; or between rank 1 and rank 2, where those two saw it first.
DISAGREEMENTS = {
    kind: (
        f"rank 0 called {call}, rank 1 called {odd}",
        f"rank 1 called {odd}, rank 2 called {call}",
    )
    for kind, (call, odd) in ODD_CALLS.items()
} | {
    "splits": (
        "rank 1 called AlltoAllV float32 with 12 bytes for rank 0, "
        "rank 0 expected float32 with 8 bytes from it",
    ),
    "message size": (
        "rank 0 called Send float32 with 16 bytes for rank 1, "
        "rank 1 expected float32 with 24 bytes from it",
    ),
    "message dtype": (
        "rank 0 called Send float32 with 16 bytes for rank 1, "
        "rank 1 expected int32 with 16 bytes from it",
    ),
}


@pytest.mark.parametrize("kind", DISAGREEMENTS)
def test_ranks_that_disagree_are_named_on_every_rank(three: World, kind: str) -> None:
    """The communicator stays failed and repeats why."""
    results = three.run(hccl_raw.disagreement, kind)
    for rank, (code, message, next_code, next_message) in enumerate(results):
        if (
            kind.startswith("message") and rank == 2
        ):  # it took no part, and hears of it at its next call
            assert (code, message) == (-1, "")
        else:
            assert code in (hccl_raw.PARA, hccl_raw.REMOTE)
            assert message.startswith("emulated HCCL: Hccl")
            assert any(text in message for text in DISAGREEMENTS[kind]), message
            assert "failed before" in next_message
        assert next_code in (hccl_raw.PARA, hccl_raw.REMOTE)
        assert any(text in next_message for text in DISAGREEMENTS[kind]), next_message


def test_a_rank_that_does_not_come_ends_the_others_in_time(three: World) -> None:
    results = three.run(hccl_raw.impatience)
    for rank in (0, 2):
        code, message, seconds = results[rank]
        assert code in (hccl_raw.TIMEOUT, hccl_raw.REMOTE)
        assert "rank 1 did not answer AllReduce within 1 s (HCCL_EXEC_TIMEOUT)" in message
        assert seconds >= 0.9


def test_a_rank_that_does_not_join_is_named(three: World) -> None:
    for code, message in three.run(hccl_raw.absent_rank)[:2]:
        assert code in (hccl_raw.TIMEOUT, hccl_raw.REMOTE)
        assert "rank 2 did not join communicator" in message
        assert "within 1 s (HCCL_CONNECT_TIMEOUT)" in message


def test_ranks_that_count_themselves_differently(three: World) -> None:
    for code, message in three.run(hccl_raw.unequal_sizes):
        assert code in (hccl_raw.PARA, hccl_raw.REMOTE)
        assert "rank 0 gave nRanks 3, rank 1 gave 2" in message


def test_two_ranks_on_one_device(three: World) -> None:
    for code, message in three.run(hccl_raw.shared_device):
        assert code in (hccl_raw.PARA, hccl_raw.REMOTE)
        assert "EI0015: ranks 0 and 1 both use device 0" in message


@pytest.mark.parametrize(
    "knob, ranks, received",
    [
        ("collective_zeros=alltoallv", [0, 1, 2], [0.0, 0.0, 0.0]),
        ("collective_zeros=any", [0, 1, 2], [0.0, 0.0, 0.0]),
        ("collective_zeros=alltoallv", [1, 2], [2.0, 3.0]),  # two ranks are spared
        ("collective_zeros=alltoall", [0, 1, 2], [1.0, 2.0, 3.0]),  # another operator
        ("delay_link=0-2@30000", [0, 1, 2], [1.0, 2.0, 3.0]),
        ("delay_link=0-1@30000", [2, 1], [3.0, 2.0]),
    ],
)
def test_knobs(three: World, knob: str, ranks: list[int], received: list[float]) -> None:
    results = three.run(hccl_raw.with_fault, knob, ranks)
    assert results == [received if rank in ranks else [] for rank in range(3)]


def _fail(
    emulated: Emulated, kind: str, ranks: int, asynchronous: bool, **env: str
) -> list[subprocess.CompletedProcess[str]]:
    script = f"import hccl_cases; hccl_cases.failure({kind!r})"
    # torch_npu's watchdog would end the process before it prints. Its task queue can lose an error,
    # or wait for ever, when a task fails while the caller begins to wait for the queue (2.13.0).
    env = {"TORCH_HCCL_ASYNC_ERROR_HANDLING": "0", "TASK_QUEUE_ENABLE": "0", **env}
    return emulated.torchrun(script, ranks, asynchronous=asynchronous, env=env, seconds=60)


def _assert_named(done: subprocess.CompletedProcess[str], *words: str) -> None:
    output = f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    for word in ("failed:", "emulated HCCL", *words):
        assert word in done.stdout, output


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_disagreement_reaches_python(emulated: Emulated, asynchronous: bool) -> None:
    """Behind the host too: at the synchronisation, with the operator's name."""
    for done in _fail(emulated, "size", 2, asynchronous):
        _assert_named(done, "HcclAllReduce", "rank 1 called AllReduce sum float32 with 20 bytes")


def test_a_rank_that_ends_takes_the_others_with_it_at_once(emulated: Emulated) -> None:
    """The knob ends it at its second operator."""
    results = _fail(emulated, "none", 3, True, NPU_EMU_FAULT="drop_rank=1@2")
    assert results[1].returncode == 77
    assert "failed:" not in results[1].stdout
    for rank in (0, 2):
        _assert_named(results[rank], "rank 1 ended: its connection closed during AllReduce")


def test_a_child_does_not_keep_a_killed_rank_alive(emulated: Emulated, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    variables = {"HCCL_CASE_FIFO": str(fifo), "HCCL_EXEC_TIMEOUT": "20"}
    results = _fail(emulated, "killed beside a child", 2, False, **variables)
    _assert_named(results[0], "rank 1 ended: its connection closed during AllReduce")


def test_a_hung_rank_ends_the_others_in_time(emulated: Emulated) -> None:
    """Rank 2 does not wait for its stream: torch_npu does at exit, no longer than the others."""
    results = _fail(emulated, "hung", 3, True, HCCL_EXEC_TIMEOUT="2")
    _assert_named(results[0], "rank 1 did not answer AllReduce within 2 s")
    assert "fail" not in results[2].stdout
    assert "rank 1 did not answer AllReduce within 2 s" in results[2].stderr


@pytest.mark.parametrize("size, asynchronous", [(2, False), (4, True)])
def test_data_parallel_equals_one_process(npu_world: Worlds, size: int, asynchronous: bool) -> None:
    world = npu_world(size, asynchronous=asynchronous)
    assert max(world.run(hccl_cases.data_parallel)) < 1e-6


@pytest.mark.parametrize("size, asynchronous", [(2, False), (4, True)])
@pytest.mark.parametrize(
    "law",
    [hccl_torchrec.input_exchange, hccl_torchrec.output_exchange],
    ids=lambda law: law.__name__,
)
def test_exchanges_of_torchrec(
    npu_world: Worlds, law: Callable[[], None], size: int, asynchronous: bool
) -> None:
    npu_world(size, asynchronous=asynchronous).run(law)
