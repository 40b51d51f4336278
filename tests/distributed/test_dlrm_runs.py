"""A whole run, as the command does it: what it learns, writes and returns."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from dlrm_models import EVERY_KIND, LEARNS, planted, train
from ranks import World

KEYS = {
    *("auroc_val", "auroc_test", "auroc_test_logistic_regression", "samples_per_s", "step_ms"),
    *("world_size", "device", "backend", "sharding_plan", "versions", "seconds", "seed"),
}


def refuse(token: str) -> None:
    raise AssertionError(f"{token} is no JSON")


@pytest.mark.parametrize("interaction", ["original", "dcn", "projection"])
def test_a_planted_signal_is_learned_alone(
    world: Callable[..., World], tmp_path: Path, interaction: str
) -> None:
    out = tmp_path / "elsewhere" / "metrics.json"
    options: dict[str, Any] = LEARNS | {
        "interaction_type": interaction,
        "runs_dir": str(tmp_path),
        "run_name": "run",
        "metrics_out": str(out),
    }
    (result,) = world(1).run(train, options, planted(2000))
    assert 0.9 < result["auroc_val"] < 1 and 0.9 < result["auroc_test"] < 1
    assert result["auroc_test_logistic_regression"] > 0.9
    path = tmp_path / "run" / "result.json"
    written = json.loads(path.read_text(), parse_constant=refuse)
    assert written == result and written.keys() >= KEYS
    assert written["step_ms"].keys() == {"mean", "p50", "p99"}
    assert out.read_text() == path.read_text()


def test_more_epochs_learn_more(world: Callable[..., World], tmp_path: Path) -> None:
    values = []
    for epochs in (1, 2):
        options = LEARNS | {"epochs": epochs, "runs_dir": str(tmp_path), "baseline": "none"}
        options |= {"dense_learning_rate": 0.001, "learning_rate": 0.02}
        (result,) = world(1).run(train, options, planted(2000))
        values.append(result["auroc_test"])
    assert values[0] + 0.05 < values[1]


@pytest.mark.parametrize("dense", [-3.0, -1000.0])
def test_negative_dense_features_stay_finite(
    world: Callable[..., World], tmp_path: Path, dense: float
) -> None:
    options = LEARNS | {"runs_dir": str(tmp_path), "baseline": "none", "interaction_type": "dcn"}
    (result,) = world(1).run(train, options, planted(2000, dense=dense))
    assert math.isfinite(result["auroc_val"]) and result["auroc_test"] > 0.5


def test_the_result_does_not_depend_on_the_number_of_ranks(
    world: Callable[..., World], tmp_path: Path
) -> None:
    """1603 rows: validation and test end with batches that leave some ranks without rows.

    Not with rowwise_adagrad, whose one state a row is one state a rank where columns are split.
    """
    options = LEARNS | {"epochs": 1, "runs_dir": str(tmp_path), "baseline": "none"}
    options |= {"optimizer": "adagrad"}
    data = planted(1603, noise=0.2)
    (alone,) = world(1).run(train, options, data)
    assert 0.5 < alone["auroc_test"] < 0.99
    for size in (2, 4):
        results = world(size).run(train, options | {"sharding": EVERY_KIND}, data)
        for result in results:
            for name in ("auroc_val", "auroc_test"):
                assert result[name] == pytest.approx(alone[name], abs=1e-3), (size, name)
                assert result[name] == results[0][name]


def test_the_same_run_twice_is_the_same(world: Callable[..., World], tmp_path: Path) -> None:
    options = LEARNS | {"epochs": 1, "runs_dir": str(tmp_path), "baseline": "none"}
    options |= {"sharding": EVERY_KIND}
    data = planted(1000, noise=0.2)
    first, second, other = (
        world(2).run(train, options | {"seed": seed}, data)[0] for seed in (3, 3, 4)
    )
    for name in ("auroc_val", "auroc_test"):
        assert first[name] == pytest.approx(second[name], abs=1e-6)
        assert first[name] != other[name]


@pytest.mark.parametrize("rows", [1, 3, 5, 13])
@pytest.mark.parametrize("size", [2, 4])
def test_fewer_rows_than_ranks_come_to_an_end(
    world: Callable[..., World], tmp_path: Path, size: int, rows: int
) -> None:
    """In the smallest, training has no row at all."""
    options = LEARNS | {
        "batch_size": size,  # one row a rank
        "test_batch_size": 1,
        "validation_freq_within_epoch": 1,
        "sharding": EVERY_KIND,
        "runs_dir": str(tmp_path),
        "run_name": "run",
        "baseline": "none",
    }
    results = world(size).run(train, options, planted(rows))
    assert len(results) == size
    written = json.loads((tmp_path / "run" / "result.json").read_text(), parse_constant=refuse)
    assert written["world_size"] == size
    one_class = rows < 5  # of a test row or none
    if one_class:
        assert written["auroc_test"] is None and math.isnan(results[-1]["auroc_test"])
