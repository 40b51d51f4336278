"""AUROC is the exact rank statistic of raw logits; timings and files of a run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchrec_ascend.dlrm import results
from torchrec_ascend.dlrm.metrics import auroc


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(-5, 5)), min_size=2, max_size=40))
def test_equals_the_share_of_ordered_pairs(rows: list[tuple[bool, int]]) -> None:
    ones = [z for label, z in rows if label]
    zeros = [z for label, z in rows if not label]
    value = auroc([label for label, _ in rows], [z for _, z in rows])
    if not ones or not zeros:
        assert math.isnan(value)
        return
    wins = sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros)
    assert value == pytest.approx(wins / (len(ones) * len(zeros)), abs=1e-12)


def test_large_logits_do_not_tie() -> None:
    """In float32 the sigmoid of all logits above 17 is 1."""
    logits = np.linspace(18, 25, 1000, dtype=np.float32)
    assert auroc(logits > 21.5, logits) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_logits_that_are_not_finite_are_an_error(bad: float) -> None:
    with pytest.raises(ValueError, match="1 of 3 logits are not finite"):
        auroc([0, 1, 1], [0.1, bad, 0.3])


def test_timing_leaves_out_the_warm_up() -> None:
    warm = results.WARMUP_STEPS
    timing = results.timing([9.0] * warm + [0.1, 0.3], [7] * warm + [10, 30])
    assert timing["samples_per_s"] == pytest.approx(100)
    assert timing["step_ms"]["mean"] == pytest.approx(200)
    assert timing["step_ms"]["p50"] == pytest.approx(200)
    assert timing["step_ms"]["p99"] == pytest.approx(298)
    nothing = {"samples_per_s": None, "step_ms": {"mean": None, "p50": None, "p99": None}}
    assert results.timing([9.0] * warm, [7] * warm) == nothing


def test_json_is_strict() -> None:
    text = results.to_json({"auroc": math.nan, "step_ms": {"mean": math.inf, "p50": 1.0}})
    assert json.loads(text) == {"auroc": None, "step_ms": {"mean": None, "p50": 1.0}}


def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "deep" / "result.json"
    results.write(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="disk full"):
            results.write(path, "new, but only ha")
    assert path.read_text() == "old"
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]
    results.write(path, "new")
    assert path.read_text() == "new"
