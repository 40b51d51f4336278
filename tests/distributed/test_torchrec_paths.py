"""TorchRec's other ways through the sharded module: pipelines, variable batches, wrappers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist
from models import (
    SHARDERS,
    Case,
    Model,
    batch,
    local_blocks,
    loss_of,
    mixed_pooling,
    quiet,
    shard,
    shardings,
)
from ranks import World
from torch import Tensor, nn
from torchrec import EmbeddingBagCollection, KeyedJaggedTensor
from torchrec.distributed import DistributedModelParallel
from torchrec.distributed import sharding_plan as plans
from torchrec.distributed.fp_embeddingbag import FeatureProcessedEmbeddingBagCollectionSharder
from torchrec.distributed.train_pipeline import TrainPipelineBase, TrainPipelineSparseDist
from torchrec.distributed.types import ShardingPlan
from torchrec.modules.feature_processor_ import PositionWeightedModuleCollection
from torchrec.modules.fp_embedding_modules import FeatureProcessedEmbeddingBagCollection
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward
from torchrec.streamable import Pipelineable

MIXED = Case(("tw", "rw", "cw", "twrw"), mixed_pooling(), steps=4)


@dataclass
class Batch(Pipelineable):
    features: KeyedJaggedTensor
    step: int

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        return Batch(self.features.to(device, non_blocking), self.step)

    def record_stream(self, stream: torch.Stream) -> None:
        self.features.record_stream(stream)

    def pin_memory(self) -> Batch:
        return Batch(self.features.pin_memory(), self.step)


@torch.fx.wrap  # the sparse pipeline traces the model; the loss is no part of it
def pipeline_loss(pooled: Any, step: int) -> Tensor:
    return loss_of(pooled.to_dict(), step)


class Trainee(nn.Module):
    """forward(batch) -> (loss, loss): what train pipelines expect."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.ebc = Model(case).ebc

    def forward(self, data: Batch) -> tuple[Tensor, Tensor]:
        loss = pipeline_loss(self.ebc(data.features), data.step)
        return loss, loss.detach()


def _pipeline(kind: str) -> list[float]:
    """Losses by step, then the sum of the weights, through a train pipeline or without one."""
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dmp = shard(MIXED, SHARDERS["ours"](), Trainee(MIXED))
        batches = iter([Batch(batch(MIXED, s, dist.get_rank()), s) for s in range(MIXED.steps)])
        losses = []
        if kind == "none":
            for data in batches:
                loss, _ = dmp(data)
                loss.backward()
                losses.append(loss.item())
        else:
            idle = torch.optim.SGD([nn.Parameter(torch.zeros(()))], lr=0.0)
            pipeline: Any = {"base": TrainPipelineBase, "sparse": TrainPipelineSparseDist}[kind](
                dmp, idle, torch.device("cpu")
            )
            for _ in range(MIXED.steps):
                losses.append(pipeline.progress(batches).item())
            if kind == "sparse":
                assert len(pipeline._pipelined_modules) == 1
    return [*losses, *(float(t.double().sum()) for _, t, _ in local_blocks(dmp))]


@pytest.mark.parametrize("kind", ["base", "sparse"])
def test_train_pipelines(world: Callable[..., World], kind: str) -> None:
    assert world(2, 1).run(_pipeline, kind) == world(2, 1).run(_pipeline, "none")


# Variable batch size per feature: upstream's exchange, our means.


def _variable_features(case: Case, rank: int) -> tuple[KeyedJaggedTensor, KeyedJaggedTensor, int]:
    """(deduplicated, spelled out, rows): the same bags, each feature with its own batch size."""
    generator = torch.Generator().manual_seed(rank)
    keys, rows = case.features, 6
    owner = {f: t for t in case.tables for f in t.features}
    lengths, values, inverse, full_lengths, full_values = [], [], [], [], []
    strides = [2 + i % 3 for i in range(len(keys))]  # gloo refuses others for rows
    for key, stride in zip(keys, strides, strict=True):
        bags = torch.randint(0, 4, (stride,), generator=generator)
        ids = torch.randint(0, owner[key].rows, (int(bags.sum()),), generator=generator)
        pick = torch.arange(rows) % stride
        lengths.append(bags)
        values.append(ids)
        inverse.append(pick)
        parts = ids.split(bags.tolist())
        full_lengths.append(bags[pick])
        full_values.append(torch.cat([parts[int(p)] for p in pick]))
    variable = KeyedJaggedTensor(
        keys,
        torch.cat(values),
        lengths=torch.cat(lengths),
        stride_per_key_per_rank=[[stride] for stride in strides],
        inverse_indices=(keys, torch.stack(inverse)),
    )
    full = KeyedJaggedTensor(keys, torch.cat(full_values), lengths=torch.cat(full_lengths))
    return variable, full, rows


def _variable(case: Case) -> float:
    with quiet():
        dmp = shard(case, SHARDERS["ours"]())
    variable, full, _ = _variable_features(case, dist.get_rank())
    ebc: Any = dmp._dmp_wrapped_module
    got = ebc.ebc(variable)
    want = Model(case)(full)
    got = {key: got[key] for key in want}
    loss_of(got, 0).backward()
    return max(float((got[key] - want[key]).abs().max()) for key in want)


@pytest.mark.parametrize("plan", [("tw",), ("tw", "rw"), ("rw", "twrw")], ids=str)
def test_variable_batch_per_feature(world: Callable[..., World], plan: tuple[str, ...]) -> None:
    assert max(world(2, 1).run(_variable, Case(plan, mixed_pooling()))) <= 1e-6


# A collection whose weights come from a feature processor.


class Processed(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        ebc = Model(Case(case.plan, case.tables, weighted=True)).ebc
        processors = PositionWeightedModuleCollection({f: 4 for f in case.features})
        for i, parameter in enumerate(processors.parameters()):
            nn.init.constant_(parameter, (i + 1) / 4)
        self.fp = FeatureProcessedEmbeddingBagCollection(ebc, processors)

    def forward(self, features: KeyedJaggedTensor) -> dict[str, Tensor]:
        return self.fp(features).to_dict()


def _feature_processor(case: Case) -> float:
    model = Processed(case)
    want = Processed(case)(batch(case, 0, dist.get_rank()))
    collection: EmbeddingBagCollection = model.fp._embedding_bag_collection
    apply_optimizer_in_backward(torch.optim.SGD, collection.parameters(), {"lr": 0.5})
    sharder = FeatureProcessedEmbeddingBagCollectionSharder(ebc_sharder=SHARDERS["ours"]())
    size = dist.get_world_size()
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = plans.construct_module_sharding_plan(
            model.fp, shardings(case, size, size), sharder, size, size, "cpu"
        )
        dmp = DistributedModelParallel(
            model,
            device=torch.device("cpu"),
            plan=ShardingPlan({"fp": plan}),
            sharders=[sharder],
        )
    got = dmp(batch(case, 0, dist.get_rank()))
    loss_of(got, 0).backward()
    return max(float((got[key] - want[key]).abs().max()) for key in want)


@pytest.mark.parametrize("plan", [("tw",), ("cw", "tw"), ("rw",)], ids=str)
def test_feature_processed_collection(world: Callable[..., World], plan: tuple[str, ...]) -> None:
    assert world(2).run(_feature_processor, Case(plan)) == [0.0, 0.0]
