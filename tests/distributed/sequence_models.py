"""An `EmbeddingCollection` with a known answer: sharded against unsharded, as in models.py."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch.distributed as dist
from models import (
    CPU,
    LR,
    Case,
    Table,
    Trace,
    batch,
    difference,
    quiet,
    shardings,
    train,
)
from torch import Tensor, nn
from torchrec import EmbeddingCollection, EmbeddingConfig, JaggedTensor, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.types import ShardingPlan
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

from torchrec_ascend.device import rank_device
from torchrec_ascend.sharding.embedding import AscendEmbeddingCollectionSharder

DIM = 16  # a sequence collection has one
TABLES = (
    Table("t0", 17, DIM, ("f0",)),
    Table("t1", 40, DIM, ("f1", "f1b")),
    Table("t2", 10, DIM, ("f2",)),
    Table("t3", 33, DIM, ("f3",)),
)


class SequenceModel(nn.Module):
    """The collection alone."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.ec = EmbeddingCollection(
            device=CPU,
            tables=[
                EmbeddingConfig(
                    name=t.name,
                    num_embeddings=t.rows,
                    embedding_dim=t.dim,
                    feature_names=list(t.features),
                )
                for t in case.tables
            ],
        )
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in self.ec.parameters():
                values = torch.randint(-32, 33, parameter.shape, generator=generator)
                parameter.copy_(values / 16)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, JaggedTensor]:
        return self.ec(features)


def shard_sequence(
    case: Case,
    model: nn.Module | None = None,
    sharder: Any = None,
    device: torch.device = CPU,
) -> DistributedModelParallel:
    model = model if model is not None else SequenceModel(case)
    sharder = sharder or AscendEmbeddingCollectionSharder()
    ec: Any = model.ec
    apply_optimizer_in_backward(torch.optim.SGD, ec.parameters(), {"lr": LR})
    world_size = dist.get_world_size()
    local_size = get_local_size(world_size)
    plan = plans.construct_module_sharding_plan(
        ec, shardings(case, world_size, local_size), sharder=sharder,
        local_size=local_size, world_size=world_size, device_type=device.type,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return DistributedModelParallel(
            model, device=device, plan=ShardingPlan({"ec": plan}), sharders=[sharder]
        )


def tensors(outputs: dict[str, JaggedTensor]) -> dict[str, Tensor]:
    """Values and lengths by key."""
    result = {key: output.values().detach().clone() for key, output in outputs.items()}
    lengths = {f"{key}.lengths": output.lengths().clone() for key, output in outputs.items()}
    return {**result, **lengths}


def sequence_loss(outputs: dict[str, JaggedTensor], step: int) -> Tensor:
    """A sum with integer coefficients that differ by id and column."""
    total = torch.zeros((), device=next(iter(outputs.values())).values().device)
    for i, key in enumerate(sorted(outputs)):
        out = outputs[key].values()
        rows = torch.arange(out.shape[0], device=out.device).unsqueeze(1)
        columns = torch.arange(out.shape[1], device=out.device)
        total = total + (out * ((rows * 3 + columns * 5 + i + step) % 7 - 3)).sum()
    return total


def train_sequence_unsharded(case: Case) -> Trace:
    """What this rank should see, computed by one process on all batches."""
    model = SequenceModel(case)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    outputs = []
    world_size, rank = dist.get_world_size(), dist.get_rank()
    for step in range(case.steps):
        optimizer.zero_grad()
        for other in range(world_size):
            if case.batch_size(other):
                result = model(batch(case, step, other))
                (sequence_loss(result, step) / world_size).backward()
            else:  # the unsharded collection fails on an empty batch
                empty = JaggedTensor(torch.zeros(0, DIM), lengths=torch.zeros(0).long())
                result = {feature: empty for feature in case.features}
            if other == rank:
                outputs.append(tensors(result))
        optimizer.step()
    return Trace(outputs, [(name, value, (0, 0)) for name, value in model.state_dict().items()])


def compare_sequence(case: Case, device_type: str = "cpu") -> tuple[float, float]:
    device = rank_device(device_type)
    with quiet():
        dmp = shard_sequence(case, device=device)
        mine = train(case, dmp, device, "ec.embeddings", sequence_loss, tensors)
    return difference(mine, train_sequence_unsharded(case))
