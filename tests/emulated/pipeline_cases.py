"""Pipelined training on a rank's device. Runs in a rank's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from models import SHARDERS, Case, Model, batch, local_blocks, quiet, shard
from torch import Tensor, nn
from torchrec import KeyedJaggedTensor

from torchrec_ascend import pipelines
from torchrec_ascend.device import rank_device

STEPS = 6
CASE = Case(("tw", "rw", "cw", "dp"))


class Net(nn.Module):
    """(loss, output) of a batch, and traceable: tables and one dense weight."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.ebc = Model(case).ebc
        width = sum(table.dim * len(table.features) for table in case.tables)
        self.scale = nn.Parameter(torch.ones(width))
        self.register_buffer("factor", torch.arange(5 * width).view(5, width) % 7 - 3.0)

    def forward(self, features: KeyedJaggedTensor) -> tuple[Tensor, Tensor]:
        values = self.ebc(features).values()
        loss = (values * self.factor * self.scale).sum() / 64
        return loss, values


def _net(device: torch.device) -> tuple[Any, torch.optim.Optimizer]:
    with quiet():
        dmp = shard(CASE, SHARDERS["ours"](), Net(CASE), device=device)
    dense = [p for name, p in dmp.named_parameters() if "scale" in name or "t3" in name]
    return dmp, torch.optim.SGD(dense, lr=1 / 1024)


def _batches() -> Iterator[KeyedJaggedTensor]:
    return (batch(CASE, step, dist.get_rank()) for step in range(STEPS))


def _state(dmp: Any) -> list[Tensor]:
    blocks = [tensor.detach().cpu().clone() for _, tensor, _ in local_blocks(dmp)]
    return [*blocks, dmp.module.scale.detach().cpu().clone()]


def plain(device_type: str) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs by step and weights at the end, without a pipeline."""
    device = rank_device(device_type)
    dmp, optimizer = _net(device)
    outputs = []
    for features in _batches():
        optimizer.zero_grad()
        loss, values = dmp(features.to(device))
        loss.backward()
        optimizer.step()
        outputs.append(values.detach().cpu())
    return outputs, _state(dmp)


def pipelined(name: str, device_type: str) -> tuple[list[Tensor], list[Tensor]]:
    """The same through a pipeline of that name."""
    device = rank_device(device_type)
    dmp, optimizer = _net(device)
    pipeline = getattr(pipelines, name)(dmp, optimizer, device)
    iterator, outputs = _batches(), []
    while True:
        try:
            outputs.append(pipeline.progress(iterator).detach().cpu())
        except StopIteration:
            return outputs, _state(dmp)


def evaluated() -> bool:
    """Whether the evaluation pipeline gives the outputs of the module."""
    device = rank_device("npu")
    dmp, optimizer = _net(device)
    dmp.eval()
    with torch.no_grad():
        wanted = [dmp(features.to(device))[1].cpu() for features in _batches()]
        pipeline = pipelines.AscendEvalPipelineSparseDist(dmp, optimizer, device)
        iterator = _batches()
        got = [pipeline.progress(iterator).cpu() for _ in range(STEPS)]
    return all(a.equal(b) for a, b in zip(got, wanted, strict=True))


def order_of_work() -> list[tuple[str, int, bool]]:
    """(what, batch, whether it was launched on the default stream), in the host's order."""
    device = rank_device("npu")
    dmp, optimizer = _net(device)
    npu, log = torch.get_device_module("npu"), []
    counts = {"input dist": 0, "lookup": 0, "step": 0}

    def note(what: str) -> None:
        log.append((what, counts[what], npu.current_stream() == npu.default_stream()))
        counts[what] += 1

    ebc = dmp.module.ebc
    input_dist, lookup = ebc.input_dist, ebc.compute_and_output_dist

    def noted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            note(what)
            return call(*args, **kwargs)

        return wrapper

    ebc.input_dist = noted("input dist", input_dist)
    ebc.compute_and_output_dist = noted("lookup", lookup)
    optimizer.register_step_pre_hook(lambda *_: note("step"))
    pipeline = pipelines.AscendTrainPipelineSparseDist(dmp, optimizer, device)
    iterator = _batches()
    for _ in range(STEPS):
        pipeline.progress(iterator)
    return log
