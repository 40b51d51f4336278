"""What a step of the lookup costs by the size of the table, on a CPU.

    python tests/benchmarks/lookup.py [--rounds 30] [--out tests/benchmarks/results]

A small and a large table take turns in one process, with the same number of ids and of distinct
rows (spread over the whole table). The ratio is the law: work grows with the ids, not with the
table. The check of ids is timed beside it. Writes lookup.md.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from machine import header
from torch import Tensor

from torchrec_ascend.lookup import FusedTables
from torchrec_ascend.lookup.optimizers import FusedParams

ROWS = (10**4, 10**7)
DIM, BATCH, BAG, DISTINCT = 16, 2048, 8, 5000
OPTIMIZERS = {
    "SGD": EmbOptimType.EXACT_SGD,
    "row-wise Adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    "Adam": EmbOptimType.ADAM,
}


def make_step(rows: int, optimizer: EmbOptimType) -> Callable[[], None]:
    tables = FusedTables(
        [rows], [DIM], [0], PoolingMode.SUM, torch.float32, torch.device("cpu"),
        FusedParams(optimizer=optimizer),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    known = torch.randint(0, rows, (DISTINCT,), generator=generator)
    ids = known[torch.randint(0, DISTINCT, (BATCH * BAG,), generator=generator)]
    offsets = torch.arange(0, BATCH * BAG + 1, BAG)
    gradient = torch.randn(BATCH, DIM)

    def step() -> None:
        tables(ids, offsets).backward(gradient)

    return step


def make_check(rows: int) -> Callable[[], None]:
    """The comparison of a batch's ids with their limits, as sharding/ids.py makes it."""
    ids = torch.randint(0, rows, (BATCH * BAG,))
    limits, lengths = torch.full((BATCH,), rows), torch.full((BATCH,), BAG)

    def check() -> None:
        limit: Tensor = torch.repeat_interleave(limits, lengths, output_size=ids.numel())
        assert not bool(((ids < 0) | (ids >= limit)).any())

    return check


def measure(functions: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median milliseconds, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 3):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            if turn >= 3:
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        "# A step of the lookup by the size of the table, measured on a CPU",
        "",
        header(),
        "",
        f"{BATCH * BAG} ids in {BATCH} bags, {DISTINCT} distinct rows of dim {DIM}, one thread.",
        "",
        "| optimizer | 10^4 rows, ms | 10^7 rows, ms | ratio | check of the ids / step |",
        "|---|---|---|---|---|",
    ]
    for name, optimizer in OPTIMIZERS.items():
        small, large = ROWS
        found = measure(
            {
                "small": make_step(small, optimizer),
                "large": make_step(large, optimizer),
                "check": make_check(large),
            },
            options.rounds,
        )
        ratio, check = found["large"] / found["small"], found["check"] / found["large"]
        lines.append(
            f"| {name} | {found['small']:.2f} | {found['large']:.2f} | {ratio:.2f} | {check:.1%} |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "lookup.md").write_text(text)


if __name__ == "__main__":
    main()
