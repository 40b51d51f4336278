"""An option that cannot be used ends all ranks, with one message each and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 120


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--over_arch_layer_sizes 64,2", "over_arch_layer_sizes is (64, 2); expected"),
        # found out by the ranks, once they have the data
        ("--sharding nobody=row_wise", "sharding names table 'nobody'; tables are ['user',"),
    ],
)
def test_a_bad_option_is_said_once_a_rank(tmp_path: Path, flags: str, message: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"),
            *("--log_dir", str(tmp_path / "log"), "--redirects", "3"),
            *("-m", "torchrec_ascend.dlrm", "--config", str(ROOT / "configs" / "movielens.yaml")),
            *("--runs_dir", str(tmp_path / "runs"), "--run_name", "bad", *flags.split()),
        ],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode != 0
    assert not (tmp_path / "runs" / "bad" / "result.json").exists()
    # The first rank to fail has said it; torchrun may have ended the other before it could.
    said = [p.read_text() for p in sorted((tmp_path / "log").glob("*/attempt_0/*/stderr.log"))]
    assert len(said) == 2
    lines = [[x for x in text.splitlines() if x.startswith("error: ")] for text in said]
    assert any(lines) and all(len(of_rank) <= 1 for of_rank in lines), said
    assert all(of_rank[0].startswith(f"error: {message}") for of_rank in lines if of_rank), said
    assert not any("Traceback" in text for text in said), said
