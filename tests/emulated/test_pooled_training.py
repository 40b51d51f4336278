"""Training through the pooled all-to-all on emulated NPUs equals the same on gloo, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hosts import Emulated, said
from pooled_training import Setting, train_on
from ranks import World

SCRIPT = Path(__file__).with_name("pooled_training.py")

SETTINGS = [
    Setting((8, 24), (4, 4)),
    Setting((5, 7), (3, 0)),
    Setting((0, 12), (2, 5)),
    Setting((16, 16), (0, 0)),
    Setting((2, 0, 3, 9), (1, 2, 0, 5)),
    Setting((8, 8, 8, 8), (4, 4, 4, 4)),
]


@pytest.mark.parametrize("setting", SETTINGS, ids=str)  # first: the worlds stay up
@pytest.mark.parametrize("operator_package", [True, False])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_equals_gloo(
    world: Callable[..., World],
    npu_world: Callable[..., World],
    setting: Setting,
    asynchronous: bool,
    operator_package: bool,
) -> None:
    size = len(setting.dims)
    want = world(size).run(train_on, setting, "cpu")
    emulated = npu_world(size, asynchronous=asynchronous, operator_package=operator_package)
    for rank, (ours, gloo) in enumerate(
        zip(emulated.run(train_on, setting, "npu"), want, strict=True)
    ):
        assert ours.keys() == gloo.keys()
        for name, value in ours.items():
            pairs = zip(value, gloo[name], strict=True) if isinstance(value, list) else ()
            assert all(a.equal(b) for a, b in pairs), (rank, name)
            if isinstance(value, torch.Tensor):
                assert value.equal(gloo[name]), (rank, name)
    if sum(setting.batch_sizes):  # a comparison of what never moved would prove nothing
        outputs = [gloo["outputs"] for gloo in want if gloo["outputs"][0].numel()]
        assert not any(first.equal(second) for first, second, *_ in outputs)


def test_the_script_prints_the_same_on_both(emulated: Emulated) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += ["--rdzv_backend", "c10d", "--rdzv_endpoint", "localhost:0", str(SCRIPT)]
    outputs = []
    for device in ("cpu", "npu"):
        env = emulated.environment("a2", True, None) if device == "npu" else dict(os.environ)
        done = subprocess.run(
            [*command, "--device", device], env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        outputs.append(said(done).replace(f"ranks on {device}", "ranks"))
    assert outputs[0] == outputs[1]
    assert "losses" in outputs[0] and "checksum" in outputs[0]
