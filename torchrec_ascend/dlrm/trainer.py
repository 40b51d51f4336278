"""Trains and evaluates a DLRM; reads from top to bottom."""

from __future__ import annotations

import math
import time
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torchrec.distributed.model_parallel import DistributedModelParallel
from tqdm import tqdm

from torchrec_ascend.device import emulated_chip
from torchrec_ascend.dlrm import baseline, movielens, results
from torchrec_ascend.dlrm.batch import Dataset, epoch_order, num_batches, rank_slices
from torchrec_ascend.dlrm.config import Config
from torchrec_ascend.dlrm.features import make_dataset
from torchrec_ascend.dlrm.metrics import auroc, gather
from torchrec_ascend.dlrm.model import plan_by_table, shard
from torchrec_ascend.dlrm.optim import Optimizers
from torchrec_ascend.dlrm.steps import PipelinedSteps, PlainSteps, Step, TrainBatch
from torchrec_ascend.dlrm.world import World, join_world


def run(config: Config) -> int:
    """Trains on MovieLens in this process's world. Returns the exit status: 1 on rank 0 if the test
    AUROC is below `config.target_auroc`, else 0.

    Other ranks return before rank 0 has fitted the baseline and written the result. If one of them
    failed, torchrun would end rank 0 on the spot.
    """
    with join_world(config.device, config.chosen_backend) as world:
        dataset = make_dataset(movielens.read(config.movielens_path), config.history_length)
        result = train_and_evaluate(config, dataset, world)
    target, reached = config.target_auroc, result["auroc_test"]
    if world.rank > 0 or target is None or reached >= target:
        return 0
    print(f"AUROC over test set {reached:.6f} is below target_auroc {target}", flush=True)
    return 1


def train_and_evaluate(config: Config, dataset: Dataset, world: World) -> dict[str, Any]:
    """Trains `config.epochs` epochs, validates after each, tests the last weights once.

    Collective. Rank 0 prints, and writes the files of the run. Returns the result; the parts that
    rank 0 alone computes (timing is its own, the baseline) are missing elsewhere.
    """
    start = time.perf_counter()
    log = print if world.rank == 0 else _silent
    run_dir = Path(config.runs_dir) / (config.run_name or datetime.now().strftime("%Y%m%d-%H%M%S"))
    log(config.to_yaml())
    if world.rank == 0:
        results.write(run_dir / "config.yaml", config.to_yaml())

    model = shard(config, dataset, world, run_dir)
    plan = plan_by_table(model.plan)
    optimizers = Optimizers(config, model)

    steps: list[Step] = []
    auroc_val = math.nan
    for epoch in range(config.epochs):
        train_epoch(config, model, optimizers, dataset, world, epoch, steps)
        auroc_val = evaluate(config, model, dataset, "val", world)
    auroc_test = evaluate(config, model, dataset, "test", world)
    seconds_train = time.perf_counter() - start

    result: dict[str, Any] = {
        "auroc_val": auroc_val,
        "auroc_test": auroc_test,
        "loss_curve": loss_curve(steps, world),
    }
    if world.rank > 0:
        return result
    if config.baseline == "logistic_regression":
        fitted = baseline.fit(dataset)
        result["auroc_test_logistic_regression"] = fitted.auroc_test
        result["auroc_val_logistic_regression"] = fitted.auroc_val
    result |= {
        **results.timing([step.seconds for step in steps], [step.rows for step in steps]),
        "world_size": world.size,
        "device": str(world.device),
        "emulated": emulated_chip(world.device.type),
        "backend": config.chosen_backend,
        "sharding_plan": plan,
        "versions": results.versions(),
        "seconds": time.perf_counter() - start,
        "seconds_train": seconds_train,
        "seed": config.seed,
    }
    text = results.to_json(result)
    results.write(run_dir / "result.json", text)
    if config.metrics_out:
        results.write(config.metrics_out, text)
    log(text)
    return result


def train_epoch(
    config: Config,
    model: DistributedModelParallel,
    optimizers: Optimizers,
    dataset: Dataset,
    world: World,
    epoch: int,
    steps: list[Step],
) -> None:
    """One pass over the training rows; appends its steps to `steps`."""
    limit, drop_last = config.limit_train_batches, config.drop_last_training_batch
    rows = epoch_order(dataset.splits["train"], config.seed, epoch)
    count = num_batches(len(rows), config.batch_size, world.size, limit, drop_last)
    slices = rank_slices(rows, config.batch_size, world.size, world.rank, limit, drop_last)
    batches = (TrainBatch.of(dataset.batch(own), all_rows) for own, all_rows in slices)
    kind = PipelinedSteps if config.pipeline == "sparse_dist" else PlainSteps
    runner = kind(model, optimizers, world)
    bar = tqdm(total=count, desc=f"epoch {epoch}", unit="step", disable=world.rank > 0)
    model.train()
    every = config.validation_freq_within_epoch or count
    for done in range(0, count, every):
        for step in runner.run(islice(batches, every), len(steps)):
            if config.print_lr and world.rank == 0:
                bar.write(f"step {len(steps)}: learning rates {runner.rates}")
            steps.append(step)
            bar.update()
        if done + every < count:
            evaluate(config, model, dataset, "val", world)
            model.train()
    bar.close()


def loss_curve(steps: list[Step], world: World) -> list[float]:
    """By step, the mean binary cross-entropy over the rows of all ranks. Collective."""
    if not steps:
        return []
    shares = torch.stack([step.loss for step in steps])
    dist.all_reduce(shares, group=world.group)
    return (shares / world.size).tolist()


@torch.no_grad()
def evaluate(
    config: Config, model: DistributedModelParallel, dataset: Dataset, split: str, world: World
) -> float:
    """AUROC of `split` ("val" or "test") over the rows of all ranks, the same on every rank.

    NaN if there is only one class. Raises ValueError on every rank for logits that are not finite.
    """
    limit = config.limit_val_batches if split == "val" else config.limit_test_batches
    batch_size = config.test_batch_size or config.batch_size
    slices = rank_slices(dataset.splits[split], batch_size, world.size, world.rank, limit)
    logits, labels = [torch.empty(0)], [torch.empty(0)]
    model.eval()
    for own_rows, _ in slices:
        batch = dataset.batch(own_rows).to(world.device)
        logits.append(model(batch).float().cpu())
        labels.append(batch.labels.cpu())
    all_logits = gather(torch.cat(logits).to(world.device)).cpu()
    all_labels = gather(torch.cat(labels).to(world.device)).cpu()
    value = auroc(all_labels.numpy(), all_logits.numpy())
    if world.rank == 0:
        print(f"AUROC over {split} set: {value}.")
        print(f"Number of {split} samples: {len(all_labels)}", flush=True)
        if math.isnan(value):
            print(f"AUROC over {split} set is undefined: only one class among its samples")
    return value


def _silent(*_: object) -> None:
    pass
