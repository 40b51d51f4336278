"""What the trial of a process group costs beyond its collectives, on gloo ranks of one host.

    python tests/benchmarks/selftest.py [--rounds 30] [--out tests/benchmarks/results]

The trial and the bare collectives that it makes take turns in the same processes; medians over the
rounds, the slowest rank. Writes selftest.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from machine import header

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "distributed"))
from ranks import World

from torchrec_ascend import selftest

CPU = torch.device("cpu")


def collectives() -> None:
    """As many collectives as the trial makes, of the same sizes, and nothing else."""
    rank, size = dist.get_rank(), dist.get_world_size()
    send = [selftest._elements(rank, other, size) for other in range(size)]
    receive = [selftest._elements(other, rank, size) for other in range(size)]
    dist.all_to_all_single(torch.empty(sum(receive)), torch.ones(sum(send)), receive, send)
    equal = torch.ones(2 * size, dtype=torch.int64)
    dist.all_to_all_single(torch.empty_like(equal), equal)
    flag = torch.ones(1, dtype=torch.int32)
    dist.all_gather([torch.empty_like(flag) for _ in range(size)], flag)


def trial() -> None:
    group = dist.group.WORLD
    assert group is not None
    selftest.check_all_to_all(group, CPU)


def milliseconds(rounds: int) -> list[float]:
    """Medians on this rank: the trial, the bare collectives."""
    functions: list[Callable[[], None]] = [trial, collectives]
    times: list[list[float]] = [[], []]
    for turn in range(rounds + 3):
        for which, function in enumerate(functions):
            dist.barrier()
            start = time.perf_counter()
            function()
            if turn >= 3:  # warm
                times[which].append(1e3 * (time.perf_counter() - start))
    return [statistics.median(values) for values in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    lines = [
        "# The trial of a process group, gloo, measured",
        "",
        header(),
        "",
        "| ranks | trial, ms | its collectives alone, ms | beyond them, ms |",
        "|---|---|---|---|",
    ]
    for size in (2, 3, 4):
        world = World(size, size)
        whole, bare = (
            max(values) for values in zip(*world.run(milliseconds, options.rounds), strict=True)
        )
        world.stop()
        lines.append(f"| {size} | {whole:.2f} | {bare:.2f} | {whole - bare:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "selftest.md").write_text(text)


if __name__ == "__main__":
    main()
