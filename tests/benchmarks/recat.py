"""Recat and unrecat on this CPU against TorchRec's cat, fbgemm's operator and memcpy.

    python tests/benchmarks/recat.py [--rounds 15] [--out tests/benchmarks/results]

All variants of a shape run in turn, round after round, and medians are compared within the run:
the ratios mean something on a noisy machine, the milliseconds less. Writes recat.md, recat.json and
recat.png.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib
import torch
from machine import describe, header
from torch import Tensor
from torchrec.distributed.comm_ops import _recat_pooled_embedding_grad_out

ops = torch.ops.torchrec_ascend
SHAPES: dict[str, tuple[int, list[int]]] = {  # name: (batch, dims per rank), fp32
    "8x416": (4096, [416] * 8),
    "64x52": (4096, [52] * 64),
    "1664..8 skewed": (4096, [1664, 832, 416, 208, 104, 64, 32, 8]),
    "B=512 8x416": (512, [416] * 8),
    "1024x16": (1024, [16] * 1024),
    "odd dims": (4096, [417, 33, 7, 129, 255, 511, 1023, 953]),
    "B=64 26x128": (64, [128] * 26),
}
LIBC = ctypes.CDLL(None)
Variant = Callable[[], object]


def memcpy(dst: Tensor, src: Tensor, pool: ThreadPoolExecutor, threads: int) -> None:
    """libc's memcpy of all bytes, in equal parts by `threads` threads."""
    part = -(-src.nbytes // threads)

    def copy(begin: int) -> None:
        size = min(part, src.nbytes - begin)
        LIBC.memcpy(
            ctypes.c_void_p(dst.data_ptr() + begin),
            ctypes.c_void_p(src.data_ptr() + begin),
            ctypes.c_size_t(size),
        )

    list(pool.map(copy, range(0, src.nbytes, part)))


def cat_forward(flat: Tensor, dims: list[int], batch: int) -> Tensor:
    """What TorchRec's All2All_Pooled_Wait.forward does."""
    parts = flat.split([batch * dim for dim in dims])
    return torch.cat([part.view(batch, dim) for part, dim in zip(parts, dims, strict=True)], dim=1)


def variants(batch: int, dims: list[int], threads: int, pool: ThreadPoolExecutor) -> dict:
    rows = torch.randn(batch, sum(dims))
    flat, kept = torch.empty(rows.numel()), torch.empty(rows.numel())
    back = torch.empty_like(rows)
    ops.recat(rows, dims, out=flat)
    fbgemm = torch.ops.fbgemm.recat_embedding_grad_output_mixed_D
    result: dict[str, Variant] = {
        "recat": lambda: ops.recat(rows, dims, out=kept),
        "recat, new buffer": lambda: ops.recat(rows, dims),
        "cat": lambda: _recat_pooled_embedding_grad_out(rows, dims),
        "fbgemm": lambda: fbgemm(rows, dims),
        "memcpy": lambda: memcpy(kept, rows, pool, threads),
        "memcpy, new buffer": lambda: memcpy(torch.empty_like(flat), rows, pool, threads),
        "unrecat": lambda: ops.unrecat(flat, dims, batch, out=back),
        "unrecat, new buffer": lambda: ops.unrecat(flat, dims, batch),
        "forward cat": lambda: cat_forward(flat, dims, batch),
    }
    return result


def measure(functions: dict[str, Variant], rounds: int) -> dict[str, float]:
    """Median milliseconds by name, the functions taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(rounds + 2):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            if turn >= 2:
                times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def ratios(ms: dict[str, float]) -> dict[str, float]:
    """Speed of ours over another's: above 1 is faster."""
    return {
        "recat / cat": ms["cat"] / ms["recat"],
        "recat / fbgemm": ms["fbgemm"] / ms["recat"],
        "recat / memcpy": ms["memcpy"] / ms["recat"],
        "recat / cat, both new": ms["cat"] / ms["recat, new buffer"],
        "unrecat / cat": ms["forward cat"] / ms["unrecat"],
        "unrecat / memcpy": ms["memcpy"] / ms["unrecat"],
        "unrecat / cat, both new": ms["forward cat"] / ms["unrecat, new buffer"],
    }


def table(results: list[dict]) -> str:
    names = list(results[0]["ratios"])
    lines = [
        "| shape (fp32) | MB | threads | " + " | ".join(names) + " | recat ms |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for r in results:
        cells = [f"{r['ratios'][name]:.2f}" for name in names]
        lines.append(
            f"| {r['shape']} | {r['mb']:.1f} | {r['threads']} | "
            + " | ".join(cells)
            + f" | {r['ms']['recat']:.2f} |"
        )
    return "\n".join(lines)


def draw(results: list[dict], path: Path) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    threads = sorted({r["threads"] for r in results})
    figure, axes = pyplot.subplots(1, len(threads), figsize=(13, 5), sharey=True, squeeze=False)
    bars = ["cat", "fbgemm", "recat, new buffer", "recat", "forward cat", "unrecat"]
    for axis, count in zip(axes[0], threads, strict=True):
        chosen = [r for r in results if r["threads"] == count]
        for i, name in enumerate(bars):
            speed = [r["ms"]["memcpy"] / r["ms"][name] for r in chosen]
            axis.bar([x + 0.13 * (i - 2.5) for x in range(len(chosen))], speed, 0.12, label=name)
        axis.axhline(1, color="black", linewidth=0.8)
        axis.set_xticks(range(len(chosen)), [r["shape"] for r in chosen], rotation=30, ha="right")
        axis.set_title(f"{count} thread{'s' if count > 1 else ''}")
    axes[0][0].set_ylabel("speed relative to memcpy into a reused buffer")
    axes[0][0].legend()
    figure.suptitle(f"measured, {header()}", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    results = []
    for (shape, (batch, dims)), threads in itertools.product(SHAPES.items(), (1, 2)):
        torch.set_num_threads(threads)
        with ThreadPoolExecutor(threads) as pool:
            ms = measure(variants(batch, dims, threads, pool), args.rounds)
        results.append(
            {
                "shape": shape,
                "threads": threads,
                "mb": batch * sum(dims) * 4 / 1e6,
                "ms": ms,
                "ratios": ratios(ms),
            }
        )
    text = (
        f"# Recat and unrecat on a CPU\n\nMeasured: {header()}. Medians of {args.rounds} "
        'alternating rounds. Ratios are speeds: above 1, ours is faster. Without "both new", '
        "ours writes into a reused buffer (as the module does) and memcpy into another; cat and "
        f"fbgemm allocate theirs, as they do in TorchRec.\n\n{table(results)}\n\n"
        "![ratios](recat.png)\n"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recat.md").write_text(text)
    (args.out / "recat.json").write_text(
        json.dumps({"machine": describe(), "results": results}, indent=1)
    )
    draw(results, args.out / "recat.png")
    print(text)


if __name__ == "__main__":
    main()
