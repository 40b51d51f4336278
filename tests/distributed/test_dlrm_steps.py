"""One step of the sharded model: shapes, empty batches, learning rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from dlrm_models import EVERY_KIND, SMALL, here, planted, sharded, weights
from ranks import World
from torch import Tensor

from torchrec_ascend.dlrm.config import Config
from torchrec_ascend.dlrm.optim import MIN_FACTOR, Optimizers
from torchrec_ascend.dlrm.steps import loss_of

SGD: dict[str, Any] = {"optimizer": "sgd", "learning_rate": 1.0, "dense_learning_rate": 0.5}


def _forward_backward(options: dict[str, Any], rows: int) -> dict[str, Any]:
    data = planted(20)
    model = sharded(SGD | options, data)
    before = weights(model)
    logits = model(data.batch(np.arange(rows)))
    logits.sum().backward()
    after = weights(model)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return {
        "shape": tuple(logits.shape),
        "finite": bool(logits.isfinite().all() and all(g.isfinite().all() for g in gradients)),
        "dense": sum(float(g.abs().sum()) for g in gradients),
        "tables": sum(float((after[n] - before[n]).abs().sum()) for n in before),
    }


@pytest.mark.parametrize("rows", [0, 1, 5])
@pytest.mark.parametrize("interaction", ["original", "dcn", "projection"])
def test_a_batch_of_any_size_goes_through(
    world: Callable[..., World], interaction: str, rows: int
) -> None:
    (found,) = world(1).run(_forward_backward, {"interaction_type": interaction}, rows)
    assert found["shape"] == (rows,) and found["finite"]
    assert (found["dense"] > 0) == (found["tables"] > 0) == (rows > 0)
    if rows == 0:
        assert found["dense"] == found["tables"] == 0


def _movements(options: dict[str, Any], steps: Sequence[int]) -> list[dict[str, Tensor]]:
    """For each of `steps`, what it alone moves in new weights."""
    data = planted(20)
    moved = []
    for step in steps:
        model = sharded(SGD | options, data)
        optimizers = Optimizers(Config(**SGD | options | SMALL), model)
        optimizers.begin(step)
        before = weights(model)
        batch = data.batch(np.arange(20))
        loss_of(model(batch), batch.labels, 20, 1).backward()
        optimizers.step()
        after = weights(model)
        moved.append({name: after[name] - before[name] for name in before})
    return moved


SCHEDULE = {"lr_warmup_steps": 4, "lr_decay_start": 10, "lr_decay_steps": 4}


def test_the_schedule_moves_tables_and_layers(world: Callable[..., World]) -> None:
    """Warm-up, plain, half-way through the decay, at its end: by SGD, in that proportion."""
    factors = {0: 0.25, 1: 0.5, 5: 1.0, 12: 0.25, 14: MIN_FACTOR}
    (moved,) = world(1).run(_movements, SCHEDULE, list(factors))
    whole = moved[list(factors).index(5)]
    tables = [name for name in whole if "embedding_bags" in name]
    assert len(tables) == 3 and len(whole) > 6
    for name, change in whole.items():
        assert change.abs().max() > 1e-3, name
        for found, factor in zip(moved, factors.values(), strict=True):
            torch.testing.assert_close(found[name], change * factor, rtol=1e-3, atol=2e-7)


def test_a_table_has_its_own_learning_rate(world: Callable[..., World]) -> None:
    own = {"table_learning_rates": {"bag": 0.25}}
    ((plain,), (slow,)) = (world(1).run(_movements, options, [0])[0] for options in ({}, own))
    for name, change in plain.items():
        factor = 0.25 if "embedding_bags.bag." in name else 1.0
        torch.testing.assert_close(slow[name], change * factor, rtol=1e-3, atol=2e-7)


def _logits_after_steps(cuts: Sequence[Sequence[int]]) -> list[float]:
    """`cuts`: the rows of each rank in each step, of 16 rows."""
    world, data = here(), planted(16)
    options = SGD | ({"sharding": EVERY_KIND} if world.size > 1 else {})
    model = sharded(options, data)
    optimizers = Optimizers(Config(**options | SMALL), model)
    for step, cut in enumerate(cuts):
        first = sum(cut[: world.rank])
        batch = data.batch(np.arange(first, first + cut[world.rank]))
        optimizers.begin(step)
        loss_of(model(batch), batch.labels, sum(cut), world.size).backward()
        optimizers.step()
    with torch.no_grad():
        return model(data.batch(np.arange(16))).tolist()


@pytest.mark.parametrize(
    "cuts", [[(5, 3), (5, 3)], [(8, 0), (0, 8)], [(1, 0), (7, 9)], [(5, 3, 0, 2), (0, 0, 16, 0)]]
)
def test_ranks_may_have_any_number_of_rows(
    world: Callable[..., World], cuts: list[tuple[int, ...]]
) -> None:
    (alone,) = world(1).run(_logits_after_steps, [(sum(cut),) for cut in cuts])
    for logits in world(len(cuts[0])).run(_logits_after_steps, cuts):
        np.testing.assert_allclose(logits, alone, rtol=1e-4, atol=1e-5)
