"""TorchRec's pipelines on NPU streams, emulated: the same training, and an input dist beside it."""

from __future__ import annotations

from collections.abc import Callable

import pipeline_cases
import pytest
from ranks import World

Worlds = Callable[..., World]
TRAINING = [
    "AscendTrainPipelineBase",
    "AscendTrainPipelineSparseDist",
    "AscendPrefetchTrainPipelineSparseDist",
]


@pytest.fixture
def npus(npu_world: Worlds) -> World:
    """Asynchronous and slow: what is not ordered by an event or a stream comes late."""
    return npu_world(2, asynchronous=True, delay_us=200)


@pytest.mark.parametrize("name", TRAINING)
def test_a_pipeline_changes_nothing(npus: World, name: str) -> None:
    wanted = npus.run(pipeline_cases.plain, "npu")
    for got, want in zip(npus.run(pipeline_cases.pipelined, name, "npu"), wanted, strict=True):
        for a, b in zip(got, want, strict=True):
            assert len(a) == len(b) > 0
            assert all(x.equal(y) for x, y in zip(a, b, strict=True))
        assert not got[0][0].equal(got[0][-1])  # it trained


def test_npus_equal_gloo(npus: World, world: Worlds) -> None:
    name = "AscendTrainPipelineSparseDist"
    ours = npus.run(pipeline_cases.pipelined, name, "npu")
    gloo = world(2).run(pipeline_cases.pipelined, name, "cpu")
    for got, want in zip(ours, gloo, strict=True):
        for a, b in zip(got, want, strict=True):
            assert all(x.allclose(y, rtol=1e-6, atol=1e-6) for x, y in zip(a, b, strict=True))


def test_evaluation(npus: World) -> None:
    assert npus.run(pipeline_cases.evaluated) == [True, True]


def test_the_next_input_dist_overlaps_this_batch(npus: World) -> None:
    """It is launched on another stream, before the optimizer's step of the batch before."""
    for log in npus.run(pipeline_cases.order_of_work):
        places = {(what, number): place for place, (what, number, _) in enumerate(log)}
        for number in range(1, pipeline_cases.STEPS):
            assert places["input dist", number] < places["step", number - 1]
        assert not any(default for what, _, default in log if what == "input dist")
        assert all(default for what, _, default in log if what != "input dist")
