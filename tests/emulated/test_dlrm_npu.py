"""The DLRM trainer on two emulated NPUs: the losses and the AUROC of two gloo ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from hosts import Emulated

from torchrec_ascend.emulator import ROOT

OPTIONS = ["--config", str(ROOT / "configs/movielens.yaml"), "--baseline", "none"]
OPTIONS += ["--epochs", "1", "--batch_size", "256", "--limit_train_batches", "100"]
OPTIONS += ["--limit_val_batches", "1", "--target_auroc", "0.5"]


def train(device: str, env: dict[str, str], folder: Path) -> dict[str, Any]:
    out = folder / f"{device}.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0"]
    command += ["-m", "torchrec_ascend.dlrm", *OPTIONS, "--device", device]
    command += ["--pipeline", "sparse_dist" if device == "npu" else "none"]
    command += ["--metrics_out", str(out), "--runs_dir", str(folder / "runs")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


def test_trains_as_on_gloo(emulated: Emulated, tmp_path: Path) -> None:
    """No operator falls back to the CPU; one hundred losses agree to 1e-5.

    All of them in the first epoch: the tables' learning rate of 30 multiplies a rounding by a
    thousand once rows are seen again. fbgemm's lookup sums in another order than ours.
    """
    plain = dict(os.environ, OMP_NUM_THREADS="1")
    on_cpu = train("cpu", plain, tmp_path)
    on_npu = train("npu", emulated.environment("a2", True, None), tmp_path)
    assert on_npu["emulated"] == "Ascend910B1" and on_cpu["emulated"] is None
    assert on_npu["sharding_plan"] and on_cpu["sharding_plan"]  # each device has its own best
    ours, gloo = on_npu["loss_curve"], on_cpu["loss_curve"]
    assert len(ours) == len(gloo) == 100
    assert max(abs(a - b) for a, b in zip(ours, gloo, strict=True)) <= 1e-5
    assert gloo[-1] < gloo[0] - 0.03  # it learns
    for split in ("val", "test"):
        assert abs(on_npu[f"auroc_{split}"] - on_cpu[f"auroc_{split}"]) <= 0.002
