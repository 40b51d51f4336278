"""One training step of a pooled model on two gloo ranks: our sharder against TorchRec's.

    python tests/benchmarks/step.py [--rounds 60] [--out tests/benchmarks/results]

Both models live in the same two processes and take turns, step by step, on the same batches; the
medians are compared within the run. The model is lookup, output dist and a linear loss, so that the
exchange is not hidden behind a network. Writes step.md and step.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from machine import describe, header

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "distributed"))
from models import SHARDERS, Case, Table, quiet, shard
from ranks import World
from torchrec import KeyedJaggedTensor

ROWS = 2000
SHAPES: dict[str, tuple[int, list[int]]] = {  # name: (batch of a rank, dims by table)
    "26x128 B=2048": (2048, [128] * 26),
    "26x64 B=512": (512, [64] * 26),
    "8 mixed dims B=4096": (4096, [16, 32, 64, 128, 256, 8, 24, 48]),
}
PLANS = {"table-wise": ("tw",), "column-wise": ("cw",), "tw, cw, rw, dp": ("tw", "cw", "rw", "dp")}


def features(batch: int, tables: int, seed: int) -> KeyedJaggedTensor:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(0, ROWS, (batch * tables,), generator=generator)
    return KeyedJaggedTensor(
        [f"f{i}" for i in range(tables)],
        values,
        lengths=torch.ones(batch * tables, dtype=torch.int64),
    )


def steps(plan: tuple[str, ...], batch: int, dims: list[int], rounds: int) -> dict[str, float]:
    """Median milliseconds of a step by sharder, on this rank."""
    tables = tuple(Table(f"t{i}", ROWS, dim, (f"f{i}",)) for i, dim in enumerate(dims))
    case = Case(plan, tables)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        models = {name: shard(case, sharder()) for name, sharder in SHARDERS.items()}
    data = [features(batch, len(dims), 2 * i + dist.get_rank()) for i in range(4)]
    times: dict[str, list[float]] = {name: [] for name in models}
    gradient = torch.randn(batch, sum(dims))
    for turn in range(rounds + 3):
        names = list(models) if turn % 2 else list(models)[::-1]  # the second finds warm caches
        for name in names:
            dist.barrier()
            begin = time.perf_counter()
            # The whole output at once, as an interaction takes it: its gradient is one tensor.
            pooled = models[name]._dmp_wrapped_module.ebc(data[turn % len(data)])
            pooled.values().backward(gradient)
            if turn >= 3:
                times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    world = World(2, 2)
    results = []
    for shape, (batch, dims) in SHAPES.items():
        for plan, kinds in PLANS.items():
            ranks = world.run(steps, kinds, batch, dims, args.rounds, seconds=300)
            ms = {name: max(rank[name] for rank in ranks) for name in ranks[0]}
            results.append(
                {"shape": shape, "plan": plan, "ms": ms, "speed": ms["upstream"] / ms["ours"]}
            )
    world.stop()
    rows = "\n".join(
        f"| {r['shape']} | {r['plan']} | {r['ms']['upstream']:.1f} | {r['ms']['ours']:.1f} | "
        f"{r['speed']:.2f} |"
        for r in results
    )
    text = (
        f"# A step of a pooled model on two ranks\n\nMeasured: {header()}; gloo on loopback, one "
        f"thread a rank, medians of {args.rounds} alternating steps (the slower rank's). Speed "
        "above 1: ours is faster.\n\n"
        "| dims, batch of a rank | plan | TorchRec ms | ours ms | speed |\n"
        f"|---|---|---|---|---|\n{rows}\n"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "step.md").write_text(text)
    (args.out / "step.json").write_text(
        json.dumps({"machine": describe(), "results": results}, indent=1)
    )
    print(text)


if __name__ == "__main__":
    main()
