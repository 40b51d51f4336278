"""An id that is not in its table stops all ranks before an id is exchanged, and is named."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import SHARDERS, Case, batch, loss_of, quiet, shard
from ranks import World
from torchrec import KeyedJaggedTensor

from torchrec_ascend.device import rank_device
from torchrec_ascend.sharding.ids import SWITCH

PLANS = [("tw",), ("rw",), ("cw",), ("twrw",), ("dp",), ("tw", "rw", "cw", "dp")]


def spoiled(case: Case, key: str, bad: int) -> tuple[KeyedJaggedTensor, int]:
    """A batch whose second id of feature `key` is `bad`, and the bag that holds it."""
    features = batch(case, 0, dist.get_rank())
    index = case.features.index(key)
    stride = features.stride()
    lengths = features.lengths().clone()
    lengths[index * stride] = 0
    lengths[index * stride + 1] = 2
    by_key = [lengths[i * stride : (i + 1) * stride] for i in range(len(case.features))]
    generator = torch.Generator().manual_seed(1)
    values = torch.randint(0, 10, (int(lengths.sum()),), generator=generator)
    values[sum(int(part.sum()) for part in by_key[:index]) + 1] = bad
    return KeyedJaggedTensor(case.features, values, lengths=lengths), 1


def outcome(plan: tuple[str, ...], key: str, bad: int, guilty: int, device: str) -> tuple[str, str]:
    """(kind, text) of the error on this rank, and that nothing was trained."""
    case = Case(plan)
    place = rank_device(device)
    with quiet():
        dmp = shard(case, SHARDERS["ours"](), device=place)
        before = {name: t.clone() for name, t in _weights(dmp)}
        features = batch(case, 0, dist.get_rank())
        if dist.get_rank() == guilty:
            features, _ = spoiled(case, key, bad)
        try:
            loss_of(dmp(features.to(place)), 0).backward()
        except (ValueError, RuntimeError) as error:
            for name, t in _weights(dmp):
                assert t.equal(before[name]), name
            return type(error).__name__, str(error)
    return "", ""


def _weights(dmp: Any) -> list[tuple[str, torch.Tensor]]:
    from models import local_blocks

    return [(name, tensor) for name, tensor, _ in local_blocks(dmp)]


@pytest.mark.parametrize("plan", PLANS, ids="+".join)
@pytest.mark.parametrize("bad", [17, -1, 1 << 40])
def test_all_ranks_stop_and_name_it(
    world: Callable[..., World], plan: tuple[str, ...], bad: int
) -> None:
    answers = world(2).run(outcome, plan, "f0", bad, 1, "cpu")
    kind, text = answers[1]
    assert kind == "ValueError"
    assert f"rank 1: feature 'f0' has id {bad} in bag 1, table 't0' has rows 0 to 16" in text
    kind, text = answers[0]
    assert kind == "RuntimeError"
    assert "rank 0: rank 1 has ids that are not in their tables" in text


def test_the_last_feature_of_a_table_with_two(world: Callable[..., World]) -> None:
    answers = world(2).run(outcome, ("tw",), "f1b", 40, 0, "cpu")
    assert "rank 0: feature 'f1b' has id 40 in bag 1, table 't1' has rows 0 to 39" in answers[0][1]
    assert "rank 1: rank 0 has ids" in answers[1][1]


def alone(bad: int) -> tuple[str, str]:
    return outcome(("tw",), "f0", bad, 0, "cpu")


def test_one_rank_checks_too(world: Callable[..., World]) -> None:
    ((kind, text),) = world(1).run(alone, 17)
    assert kind == "ValueError" and "feature 'f0' has id 17" in text


def without_check() -> bool:
    """Off: no verdict is sent."""
    os.environ[SWITCH] = "0"
    real, calls = dist.all_reduce, []
    dist.all_reduce = lambda *args, **kwargs: calls.append(args)
    try:
        with quiet():
            dmp = shard(Case(("tw",)), SHARDERS["ours"]())
            dmp(batch(Case(("tw",)), 0, dist.get_rank()))
    finally:
        dist.all_reduce = real
        del os.environ[SWITCH]
    return not calls


def test_the_check_can_be_switched_off(world: Callable[..., World]) -> None:
    assert world(2).run(without_check) == [True, True]
