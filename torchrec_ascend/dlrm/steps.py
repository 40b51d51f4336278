"""One training step after the other, plain or in TorchRec's pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torchrec.datasets.utils import Batch
from torchrec.distributed.model_parallel import DistributedModelParallel

from torchrec_ascend.dlrm.model import padded
from torchrec_ascend.dlrm.optim import Optimizers
from torchrec_ascend.dlrm.world import World
from torchrec_ascend.pipelines import AscendTrainPipelineSparseDist


@dataclass(frozen=True)
class Step:
    """One training step: its seconds here, rows of all ranks, and this rank's share of the loss,
    left on the device."""

    seconds: float
    rows: int
    loss: Tensor


@dataclass
class TrainBatch(Batch):
    """A rank's part of a global batch of `all_rows` rows."""

    all_rows: int

    @staticmethod
    def of(batch: Batch, all_rows: int) -> TrainBatch:
        return TrainBatch(batch.dense_features, batch.sparse_features, batch.labels, all_rows)

    def to(self, device: torch.device, non_blocking: bool = False) -> TrainBatch:
        return TrainBatch.of(super().to(device, non_blocking), self.all_rows)

    def pin_memory(self) -> TrainBatch:
        return TrainBatch.of(super().pin_memory(), self.all_rows)


def loss_of(logits: Tensor, labels: Tensor, all_rows: int, world_size: int) -> Tensor:
    """This rank's share of the mean binary cross-entropy over the rows of all ranks.

    Gradients are averaged over ranks, so the share is scaled up by their number: every row then
    weighs 1 / all_rows however many rows each rank has, and no rows give 0, not NaN.
    """
    total = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
    return total * (world_size / all_rows)


class PlainSteps:
    """Each step begins when the one before has been launched.

    rates: the distinct learning rates of the step that ran last.
    """

    def __init__(
        self, model: DistributedModelParallel, optimizers: Optimizers, world: World
    ) -> None:
        self._model, self._optimizers, self._world = model, optimizers, world
        self.rates: list[float] = []

    def run(self, batches: Iterator[TrainBatch], first: int) -> Iterator[Step]:
        """Trains on all of them, numbered from `first` on; yields after each. At the end the model
        may be used for something else."""
        for number, batch in enumerate(batches, start=first):
            start = time.perf_counter()
            self.rates = self._optimizers.begin(number)
            loss, _ = self._forward(batch.to(self._world.device))
            loss.backward()
            self._optimizers.step()
            yield Step(time.perf_counter() - start, batch.all_rows, loss.detach())

    def _forward(self, batch: TrainBatch) -> tuple[Tensor, Tensor]:
        loss = loss_of(self._model(batch), batch.labels, batch.all_rows, self._world.size)
        return loss, loss.detach()


class PipelinedSteps(PlainSteps):
    """The copy and the input dist of the next batches overlap a step. The same training."""

    def run(self, batches: Iterator[TrainBatch], first: int) -> Iterator[Step]:
        self._number = first
        rows: list[int] = []
        pipeline = AscendTrainPipelineSparseDist(
            self._model,
            self,  # type: ignore[arg-type]  # of an optimizer, it calls the two methods below
            self._world.device,
            custom_model_fwd=self._forward,
        )

        def ahead() -> Iterator[TrainBatch]:
            for batch in batches:  # the pipeline takes two or three before it trains on the first
                rows.append(batch.all_rows)
                yield TrainBatch.of(padded(batch), batch.all_rows)

        source: Any = ahead()
        while True:
            start = time.perf_counter()
            try:
                loss = pipeline.progress(source)
            except StopIteration:
                break
            yield Step(time.perf_counter() - start, rows.pop(0), loss)
        pipeline.detach()

    def zero_grad(self) -> None:
        self.rates = self._optimizers.begin(self._number)
        self._number += 1

    def step(self) -> None:
        self._optimizers.step()
