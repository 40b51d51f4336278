"""A small hybrid-parallel model with our pooled all-to-all in the loop, on any device.

    torchrun --nproc_per_node 2 tests/emulated/pooled_training.py --device cpu
    python -m torchrec_ascend.emulator -- \
        torchrun --nproc_per_node 2 tests/emulated/pooled_training.py --device npu

print the same losses and the same checksum of all weights. Each rank owns the tables of some
columns and looks up every rank's rows; `AscendPooledEmbeddingsAllToAll` brings each rank its rows;
a dense layer is replicated. All numbers are small integers over powers of two, so that sums are
exact in any order and "the same" means every bit.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from torchrec_ascend.comm import AscendPooledEmbeddingsAllToAll
from torchrec_ascend.device import collective_backend, rank_device
from torchrec_ascend.splits import RankSplits

ROWS, BAG, LR = 12, 3, 0.25  # of each table; ids of a bag; SGD


@dataclass(frozen=True)
class Setting:
    """dims: columns per rank; 0 is a rank without tables. batch_sizes: rows per rank."""

    dims: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    steps: int = 3


def _integers(shape: tuple[int, ...], low: int, high: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, shape, generator=generator)


def train(setting: Setting, device: torch.device) -> dict[str, Any]:
    """Trains on the world's ranks; what this rank saw and has, on the CPU.

    Returns: losses [steps], outputs and gradients of the exchange by step, table [ROWS, D_local]
    and dense [sum(dims)] weights at the end.
    """
    group = dist.group.WORLD
    assert group is not None
    rank = dist.get_rank()
    splits = RankSplits(setting.dims)
    exchange = AscendPooledEmbeddingsAllToAll(group, splits, device)
    table = (_integers((ROWS, setting.dims[rank]), -8, 9, seed=rank) / 8).to(device)
    dense = (_integers((splits.width,), -8, 9, seed=99) / 8).to(device)
    for parameter in (table, dense):
        parameter.requires_grad_()
    seen: dict[str, Any] = {"losses": [], "outputs": [], "gradients": []}
    for step in range(setting.steps):
        everyone = sum(setting.batch_sizes)
        # The same ids on every rank: what an input dist would have brought.
        ids = _integers((everyone, BAG), 0, ROWS, seed=1000 + step).to(device)
        begin = sum(setting.batch_sizes[:rank])
        targets = _integers((everyone,), -4, 5, seed=2000 + step)
        target = targets[begin : begin + setting.batch_sizes[rank]].float().to(device)
        pooled = torch.nn.functional.embedding(ids, table).sum(dim=1)
        pooled.retain_grad()
        rows = exchange(pooled, list(setting.batch_sizes)).wait()
        loss = (rows.mul(dense).sum(dim=1) * target).sum() / 16
        loss.backward()
        assert dense.grad is not None and table.grad is not None and pooled.grad is not None
        dist.all_reduce(dense.grad)
        seen["losses"].append(loss.detach().cpu())
        seen["outputs"].append(rows.detach().cpu())
        seen["gradients"].append(pooled.grad.cpu())
        with torch.no_grad():
            for parameter in (table, dense):
                assert parameter.grad is not None
                parameter.sub_(parameter.grad, alpha=LR)
                parameter.grad = None
    return seen | {"table": table.detach().cpu(), "dense": dense.detach().cpu()}


def train_on(setting: Setting, device_type: str) -> dict[str, Any]:
    """`train` in a world that is there already."""
    return train(setting, rank_device(device_type))


def main() -> None:
    parser = argparse.ArgumentParser(description="Train with the pooled all-to-all in the loop.")
    parser.add_argument("--device", choices=("cpu", "npu"), default="cpu")
    device_type = parser.parse_args().device
    device = rank_device(device_type)
    dist.init_process_group(collective_backend(device_type))
    size = dist.get_world_size()
    dims = tuple(8 * (1 + rank % 3) for rank in range(size))
    seen = train(Setting(dims, (4,) * size, steps=5), device)
    losses = torch.stack(seen["losses"]).to(device)
    checksum = torch.stack([seen["table"].sum(), seen["dense"].sum() / size]).to(device)
    dist.all_reduce(losses)
    dist.all_reduce(checksum)
    if dist.get_rank() == 0:
        print(f"{size} ranks on {device_type}: losses {losses.tolist()}")
        print(f"checksum of tables and dense layer: {checksum.tolist()}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
