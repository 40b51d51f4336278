"""A small DLRM and data for it, and what the ranks of a test world do with them."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.distributed.model_parallel import DistributedModelParallel

from torchrec_ascend.dlrm.batch import Dataset, Jagged, Table
from torchrec_ascend.dlrm.config import Config
from torchrec_ascend.dlrm.features import split_by_time
from torchrec_ascend.dlrm.model import shard
from torchrec_ascend.dlrm.trainer import train_and_evaluate
from torchrec_ascend.dlrm.world import World

IDS = 12
SMALL: dict[str, Any] = {
    "embedding_dim": 8,
    "dense_arch_layer_sizes": (8,),
    "over_arch_layer_sizes": (8, 1),
    "interaction_branch1_layer_sizes": (8,),
    "interaction_branch2_layer_sizes": (8,),
}
EVERY_KIND = {"id": "row_wise", "bag": "column_wise", "other": "table_wise"}
LEARNS: dict[str, Any] = {
    "optimizer": "rowwise_adagrad",
    "learning_rate": 0.1,
    "dense_optimizer": "adam",
    "dense_learning_rate": 0.01,
    "batch_size": 64,
    "test_batch_size": 50,
    "epochs": 3,
}


def planted(rows: int, dense: float | None = None, noise: float = 0.05) -> Dataset:
    """The label is the parity of an id, but for `noise` of the rows.

    dense: the value of the dense features; None draws them.
    """
    draw = np.random.default_rng(0)
    ids = draw.integers(0, IDS, rows)
    labels = (ids % 2) != (draw.random(rows) < noise)
    bags = [draw.integers(0, 9, draw.integers(0, 4)).tolist() for _ in range(rows)]
    features = draw.normal(size=(rows, 2)) if dense is None else np.full((rows, 2), dense)
    return Dataset(
        dense=features.astype(np.float32),
        dense_names=("x", "y"),
        sparse={
            "id": Jagged.of_ids(ids),
            "bag": Jagged.of_lists(bags),
            "other": Jagged.of_ids(draw.integers(0, 9, rows)),
        },
        labels=labels.astype(np.float32),
        tables=(
            Table("id", IDS, ("id",)),
            Table("bag", 9, ("bag",)),
            Table("other", 9, ("other",)),
        ),
        splits=split_by_time(rows),
    )


def here() -> World:
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return World(dist.get_rank(), dist.get_world_size(), local, torch.device("cpu"))


def train(options: dict[str, Any], data: Dataset) -> dict[str, Any]:
    """On every rank: a whole run. batch_size is that of all ranks together."""
    world = here()
    config = Config(**SMALL | options)
    config = dataclasses.replace(config, batch_size=config.batch_size // world.size)
    return train_and_evaluate(config, data, world)


def sharded(options: dict[str, Any], data: Dataset) -> DistributedModelParallel:
    return shard(Config(**SMALL | options), data, here())


def weights(model: DistributedModelParallel) -> dict[str, Tensor]:
    """Copies, by a name without wrappers. In a world of one: the tables are whole."""
    found = {}
    for name, value in model.state_dict().items():
        local = value.local_tensor() if hasattr(value, "local_tensor") else value
        found[name.removeprefix("dlrm.")] = local.detach().clone()
    return found
