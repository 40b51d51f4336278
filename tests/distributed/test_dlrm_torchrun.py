"""The command a user types: real torchrun, real MovieLens, few steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LIMITS = (
    "--epochs 1 --limit_train_batches 14 --limit_val_batches 1 --limit_test_batches 1 "
    "--target_auroc 0"
)
SECONDS = 120


def torchrun(folder: Path, ranks: int, name: str, *flags: str) -> subprocess.CompletedProcess[str]:
    """Runs the trainer on MovieLens; each rank's output goes to folder/name.log/.../{rank}/."""
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks)),
        *("--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"),
        *("--log_dir", str(folder / f"{name}.log"), "--redirects", "3"),
        *("-m", "torchrec_ascend.dlrm", "--config", str(ROOT / "configs" / "movielens.yaml")),
        *("--runs_dir", str(folder), "--run_name", name, *LIMITS.split(), *flags),
    ]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )


def output(folder: Path, name: str, rank: int, stream: str) -> str:
    (path,) = (folder / f"{name}.log").glob(f"*/attempt_0/{rank}/{stream}.log")
    return path.read_text()


def result(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / name / "result.json").read_text())


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same run done twice, the first with the baseline."""
    folder = tmp_path_factory.mktemp("runs")
    runs = {
        "first": ["--metrics_out", "metrics.json", "--target_auroc", "1"],
        "second": ["--baseline", "none"],
    }
    for name, flags in runs.items():
        done = torchrun(folder, 2, name, *flags)
        status = 1 if name == "first" else 0  # below its target
        errors = [output(folder, name, rank, "stderr")[-2000:] for rank in range(2)]
        assert done.returncode == status, (done.stderr, errors)
    return folder


def test_result_has_all_that_is_promised(two_ranks: Path) -> None:
    found = result(two_ranks, "first")
    for name in ("auroc_val", "auroc_test", "auroc_test_logistic_regression"):
        assert 0.4 < found[name] < 1, name
    assert found["samples_per_s"] > 0 and found["seconds"] > 0
    assert 0 < found["step_ms"]["p50"] <= found["step_ms"]["p99"]
    assert found["step_ms"]["mean"] > 0
    assert (found["world_size"], found["device"], found["backend"]) == (2, "cpu", "gloo")
    assert found["seed"] == 0
    versions = {"torch", "torchrec", "fbgemm_gpu", "torchrec_ascend", "python"}
    assert found["versions"].keys() == versions
    assert json.loads((two_ranks / "metrics.json").read_text()) == found


def test_the_plan_is_the_one_asked_for(two_ranks: Path) -> None:
    asked = yaml.safe_load((ROOT / "configs" / "movielens.yaml").read_text())["sharding"]
    plan = result(two_ranks, "first")["sharding_plan"]
    assert asked and {table: plan[table]["sharding_type"] for table in asked} == asked
    assert all(set(sharding["ranks"]) <= {0, 1} for sharding in plan.values())


def test_the_resolved_configuration_is_saved(two_ranks: Path) -> None:
    saved = yaml.safe_load((two_ranks / "first" / "config.yaml").read_text())
    shipped = yaml.safe_load((ROOT / "configs" / "movielens.yaml").read_text())
    assert saved["epochs"] == 1 and saved["limit_train_batches"] == 14  # of the command line
    assert saved["embedding_dim"] == shipped["embedding_dim"]  # of the file
    assert saved["lr_warmup_steps"] == 0  # the default


def test_two_runs_agree(two_ranks: Path) -> None:
    first, second = result(two_ranks, "first"), result(two_ranks, "second")
    for name in ("auroc_val", "auroc_test"):
        assert abs(first[name] - second[name]) < 1e-6
    assert "auroc_test_logistic_regression" not in second


def test_only_rank_0_speaks(two_ranks: Path) -> None:
    spoken = output(two_ranks, "first", 0, "stdout")
    limits = yaml.safe_load((ROOT / "configs" / "movielens.yaml").read_text())["test_batch_size"]
    for split in ("val", "test"):
        assert f"AUROC over {split} set: {result(two_ranks, 'first')[f'auroc_{split}']}." in spoken
        assert f"Number of {split} samples: {min(10000, 2 * limits)}" in spoken
    last, _ = json.JSONDecoder().raw_decode(spoken[spoken.rindex("\n{") + 1 :])
    assert last == result(two_ranks, "first")
    assert output(two_ranks, "first", 1, "stdout") == ""
    assert "epoch 0" in output(two_ranks, "first", 0, "stderr")  # the progress bar
    assert "epoch 0" not in output(two_ranks, "first", 1, "stderr")


def test_a_missed_target_is_said_after_the_result_is_written(two_ranks: Path) -> None:
    """The fixture checks the exit status."""
    assert "is below target_auroc 1.0" in output(two_ranks, "first", 0, "stdout")
    assert "auroc_test_logistic_regression" in result(two_ranks, "first")
    assert "is below" not in output(two_ranks, "second", 0, "stdout")


def test_three_ranks_and_uneven_rows(tmp_path: Path) -> None:
    """10000 rows in batches of 3 * 1111: the last global batch has one row, for one rank."""
    flags = ["--baseline", "none", "--test_batch_size", "1111", "--limit_test_batches", "4"]
    done = torchrun(tmp_path, 3, "three", *flags)
    assert done.returncode == 0, output(tmp_path, "three", 0, "stderr")[-2000:]
    assert "Number of test samples: 10000" in output(tmp_path, "three", 0, "stdout")
    assert result(tmp_path, "three")["world_size"] == 3


def test_bad_arguments_end_with_status_2_and_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchrec_ascend.dlrm", "--epochs", "0"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 2
    assert "error: epochs is 0; expected at least 1" in done.stderr
    assert "Traceback" not in done.stderr
