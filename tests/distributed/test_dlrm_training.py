"""Training over ranks: the same as on one, whatever the cut, and it learns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ranks import World

from torchrec_ascend.dlrm import trainer
from torchrec_ascend.dlrm.batch import Dataset, Jagged, Table
from torchrec_ascend.dlrm.config import Config
from torchrec_ascend.dlrm.metrics import gather
from torchrec_ascend.dlrm.model import shard
from torchrec_ascend.dlrm.optim import Optimizers
from torchrec_ascend.dlrm.steps import Step
from torchrec_ascend.dlrm.world import World as Ranks

GLOBAL_BATCH = 12
CONFIG = Config(
    embedding_dim=8,
    dense_arch_layer_sizes=(8,),
    over_arch_layer_sizes=(8, 1),
    interaction_branch1_layer_sizes=(16,),
    interaction_branch2_layer_sizes=(16,),
    learning_rate=0.5,
    dense_learning_rate=0.1,
    baseline="none",
)


def planted(rows: int) -> Dataset:
    """The label is whether two ids match in parity: only an interaction can tell."""
    draw = np.random.default_rng(1)
    a, b = draw.integers(0, 20, rows), draw.integers(0, 20, rows)
    bags = [draw.integers(0, 9, draw.integers(0, 4)).tolist() for _ in range(rows)]
    order = np.arange(rows)
    return Dataset(
        dense=draw.normal(size=(rows, 2)).astype(np.float32),
        dense_names=("x", "y"),
        sparse={"a": Jagged.of_ids(a), "b": Jagged.of_ids(b), "bag": Jagged.of_lists(bags)},
        labels=((a + b) % 2).astype(np.float32),
        tables=(Table("a", 20, ("a",)), Table("b", 20, ("b",)), Table("bag", 9, ("bag",))),
        splits={"train": order, "val": order, "test": order},
    )


def ranks() -> Ranks:
    size = dist.get_world_size()
    return Ranks(dist.get_rank(), size, size, torch.device("cpu"))


def _logits_after_training(config: Config, rows: int) -> list[float]:
    here, data = ranks(), planted(rows)
    config = dataclasses.replace(config, batch_size=GLOBAL_BATCH // here.size)
    model = shard(config, data, here)
    optimizers = Optimizers(config, model)
    steps: list[Step] = []
    for epoch in range(3):
        trainer.train_epoch(config, model, optimizers, data, here, epoch, steps)
    model.eval()
    with torch.no_grad():
        return model(data.batch(np.arange(rows))).tolist()


@pytest.mark.parametrize(
    ("interaction", "pipeline"),
    [("original", "none"), ("original", "sparse_dist"), ("dcn", "none"), ("projection", "none")],
)
def test_a_model_does_not_depend_on_how_many_ranks_trained_it(
    world: Callable[..., World], interaction: str, pipeline: str
) -> None:
    """49 rows in batches of 12: the last has one row, so all ranks but one are empty."""
    sharding = {"a": "row_wise", "b": "column_wise", "bag": "table_wise"}
    config = dataclasses.replace(CONFIG, interaction_type=interaction, sharding=sharding)
    alone = world(1).run(_logits_after_training, dataclasses.replace(config, sharding={}), 49)[0]
    assert len(set(alone)) > 9
    config = dataclasses.replace(config, pipeline=pipeline, validation_freq_within_epoch=2)
    for size in (2, 3):
        for logits in world(size).run(_logits_after_training, config, 49):
            np.testing.assert_allclose(logits, alone, rtol=1e-4, atol=1e-5)


def _aurocs_and_logits(config: Config, rows: int, epochs: int) -> list[tuple[float, float]]:
    """By epoch: the AUROC and one row's logit."""
    here, data = ranks(), planted(rows)
    model = shard(config, data, here)
    optimizers = Optimizers(config, model)
    steps: list[Step] = []
    values = []
    for epoch in range(epochs + 1):
        auroc = trainer.evaluate(config, model, data, "val", here)
        with torch.no_grad():
            values.append((auroc, model(data.batch(np.array([0]))).item()))
        if epoch < epochs:
            trainer.train_epoch(config, model, optimizers, data, here, epoch, steps)
    return values


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "rowwise_adagrad"])
def test_a_planted_signal_is_learned_and_every_epoch_trains(
    world: Callable[..., World], optimizer: str
) -> None:
    config = dataclasses.replace(
        CONFIG,
        batch_size=32,
        embedding_init=0.5,
        optimizer=optimizer,
        learning_rate=10.0 if optimizer == "sgd" else 0.2,
        dense_optimizer="adam",
        dense_learning_rate=0.01,
    )
    first, second = world(2).run(_aurocs_and_logits, config, 2000, 4)
    assert first == second  # the AUROC is that of all ranks
    aurocs, logits = zip(*first, strict=True)
    assert abs(aurocs[0] - 0.5) < 0.1 and aurocs[-1] > 0.9
    assert len(set(logits)) == len(logits)  # the second epoch trains, and the ones after it


def _auroc_in_batches(batch_sizes: list[int]) -> list[float]:
    here, data = ranks(), planted(4001)
    model = shard(CONFIG, data, here)
    return [
        trainer.evaluate(
            dataclasses.replace(CONFIG, test_batch_size=size), model, data, "test", here
        )
        for size in batch_sizes
    ]


def test_auroc_does_not_depend_on_the_batch_size(world: Callable[..., World]) -> None:
    values = [value for rank in world(2).run(_auroc_in_batches, [2, 7, 4000]) for value in rank]
    assert max(values) - min(values) < 1e-6


def _gather(lengths: list[int]) -> list[float]:
    rank = dist.get_rank()
    return gather(torch.arange(lengths[rank]) + 10.0 * rank).tolist()


@pytest.mark.parametrize("lengths", [[2, 0, 3], [0, 0, 1], [0, 0, 0], [1, 1, 1]])
def test_gather_takes_what_each_rank_has(world: Callable[..., World], lengths: list[int]) -> None:
    expected = [10.0 * rank + k for rank, length in enumerate(lengths) for k in range(length)]
    assert world(3).run(_gather, lengths) == [expected] * 3


def _one_class_and_divergence(folder: str) -> tuple[dict[str, Any], str]:
    here, data = ranks(), planted(30)
    config = dataclasses.replace(CONFIG, batch_size=8, runs_dir=folder, run_name="run")
    ones = dataclasses.replace(data, labels=np.ones_like(data.labels))
    result = trainer.train_and_evaluate(config, ones, here)
    wild = dataclasses.replace(config, learning_rate=1e30, dense_learning_rate=1e30, epochs=3)
    try:
        trainer.train_and_evaluate(wild, data, here)
    except ValueError as error:
        return result, str(error)
    return result, ""


def test_one_class_is_nan_and_divergence_ends_every_rank(
    world: Callable[..., World], tmp_path: Path
) -> None:
    for result, error in world(2).run(_one_class_and_divergence, str(tmp_path)):
        assert math.isnan(result["auroc_val"]) and math.isnan(result["auroc_test"])
        assert "not finite: the training diverged" in error
