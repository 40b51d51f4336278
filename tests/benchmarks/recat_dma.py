"""What RecatCopyAsync's DMAs do on an emulated chip, against the ideal.

    python tests/benchmarks/recat_dma.py [--out tests/benchmarks/results]

Counts are emulated: the kernel's own source on emulated cores, with every DMA written down. They
say how memory is accessed, not how fast a card is. Writes recat_dma.md, .json and .png.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "emulated"))
import ascendc
from ascendc import A2, A5

import torchrec_ascend
from torchrec_ascend.device import Chip

F32, F16, BF16 = ascendc.DTYPES
ODD = [417, 33, 7, 129, 255, 511, 1023, 953]
SHAPES: dict[str, tuple[int, list[int], torch.dtype]] = {
    "B=65536 8x416 fp32": (65536, [416] * 8, F32),
    "B=65536 64x52 fp32": (65536, [52] * 64, F32),
    "B=65536 skewed fp32": (65536, [1024, 0, 512, 128, 64, 1000, 36, 564], F32),
    "B=65536 odd dims fp32": (65536, ODD, F32),
    "B=4096 8x416 fp32": (4096, [416] * 8, F32),
    "B=65536 8x416 bf16": (65536, [416] * 8, BF16),
    "B=65536 odd dims fp16": (65536, ODD, F16),
    "B=16384 1024x16 fp32": (16384, [16] * 1024, F32),
}
CHIPS = {"A2": A2, "A5": A5}
LINE_BYTES = {2201: 512, 3510: 128}
# Bytes a second, one source of several that differ: the vendor's platform files.
HBM = {"A2": 1.6e12, "A5": 1.6e12}
LARGE = 16 * 1024


def count(name: str, chip: Chip, way: str) -> dict[str, Any]:
    """One line of the table."""
    batch, dims, source = SHAPES[name]
    target = BF16 if way == "recat to bf16" else source
    cores = ascendc.library().ledger(
        dims, batch, chip, dtypes=(source, target), inverse=way == "unrecat"
    )
    total = {field: sum(core[field] for core in cores) for field in ascendc.FIELDS}
    moved = [core["load_bytes"] + core["store_bytes"] for core in cores]
    elements = batch * sum(dims)
    ideal = elements * (source.itemsize + target.itemsize)
    line = LINE_BYTES[chip.arch]
    result: dict[str, Any] = {
        "cores": len(cores),
        "bytes / ideal": sum(moved) / ideal,
        "bytes a core, max / mean": max(moved) * len(moved) / sum(moved),
        "in DMAs >= 16 KiB": total["large_dma_bytes"] / sum(moved),
        "vector bytes / byte": total["vector_bytes"] / sum(moved),
        "floor us": 1e6 * ideal / HBM["A2" if chip is A2 else "A5"],
    }
    for side in ("load", "store"):
        size = total[f"{side}_bytes"]
        result[f"KiB a {side}"] = size / total[f"{side}s"] / 1024
        result[f"burst B, {side}"] = size / total[f"{side}_bursts"]
        result[f"line use, {side}"] = size / (total[f"{side}_lines"] * line)
    return result


def counts() -> list[dict[str, Any]]:
    lines = []
    for chip_name, chip in CHIPS.items():
        for shape, (_, _, dtype) in SHAPES.items():
            for way in ("recat", "unrecat", *(["recat to bf16"] if dtype == F32 else [])):
                lines.append(
                    {"chip": chip_name, "shape": shape, "way": way, **count(shape, chip, way)}
                )
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    formats = {
        "cores": "{:.0f}",
        "bytes / ideal": "{:.3f}",
        "bytes a core, max / mean": "{:.4f}",
        "KiB a load": "{:.1f}",
        "KiB a store": "{:.1f}",
        "in DMAs >= 16 KiB": "{:.0%}",
        "burst B, load": "{:.0f}",
        "burst B, store": "{:.0f}",
        "line use, load": "{:.2f}",
        "line use, store": "{:.2f}",
        "vector bytes / byte": "{:.2f}",
        "floor us": "{:.0f}",
    }
    head = ["chip", "shape", "way", *formats]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in lines:
        cells = [line["chip"], line["shape"], line["way"]]
        cells += [form.format(line[name]) for name, form in formats.items()]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Small multiples: a row a chip, a column a question; the ideal is a line."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 3, figsize=(13, 7.5), sharey=True)
    for row, chip in zip(axes, CHIPS, strict=True):
        chosen = [line for line in lines if line["chip"] == chip and line["way"] == "recat"]
        places = range(len(chosen))
        pairs = [
            (row[0], "KiB a {}", "mean KiB of a DMA", LARGE / 1024),
            (row[1], "line use, {}", "bytes used of the memory lines touched", 1.0),
        ]
        for axis, name, title, ideal in pairs:
            for shift, side in ((-0.19, "load"), (0.19, "store")):
                values = [line[name.format(side)] for line in chosen]
                axis.barh([p + shift for p in places], values, 0.36, label=side)
            axis.axvline(ideal, color="black", linewidth=0.8)
            axis.set_title(f"{chip}: {title}", fontsize=9)
        surplus = [100 * (line["bytes a core, max / mean"] - 1) for line in chosen]
        row[2].barh(places, surplus, 0.5, color="grey")
        row[2].axvline(1.0, color="black", linewidth=0.8)
        row[2].set_xlim(0, 1.2)
        row[2].set_title(f"{chip}: % that the busiest core moves above the mean", fontsize=9)
        row[0].set_yticks(places, [line["shape"] for line in chosen], fontsize=8)
    axes[0][0].invert_yaxis()
    figure.suptitle("RecatCopyAsync, recat without a cast: emulated counts, no speeds", fontsize=11)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper right", ncols=2, fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


READING = """\
Each byte moves once each way in every case ("bytes / ideal"). Loads and stores are DMAs; a burst
is a contiguous piece of global memory; "line use" is bytes moved over the size of the memory
lines that were touched (512 bytes on A2, 128 on A5), counted once a DMA. On the strided side a
burst is one row of a rank, or of a group of narrow ranks, and cannot be longer. Where it neither
begins nor ends on a line, line use falls; that is what 8x416 and the odd dims show on A2. The flat
side is contiguous. Narrow ranks (64x52, 1024x16) go through the vector unit, which sorts them in
UB: half a vector byte a byte moved where dims fill 32-byte blocks, one and a half where they do
not. Their tiles are the smallest: with a cast, 64x52 stores 12.8 KiB a DMA on A2; all other means
are above 16 KiB. "floor" is *calculated*: ideal bytes over the memory's bandwidth (1.6 TB/s). No
card was timed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    lines = counts()
    about = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "torchrec_ascend": torchrec_ascend.__version__,
        "chips": {name: chip.soc for name, chip in CHIPS.items()},
    }
    text = (
        "# DMAs of RecatCopyAsync (emulated counts)\n\n"
        f"{about['date']}, torchrec_ascend {about['torchrec_ascend']}, "
        f"{', '.join(f'{name}: {chip.soc}' for name, chip in CHIPS.items())}.\n\n"
        f"{READING}\n\n{table(lines)}\n\n![counts](recat_dma.png)\n"
    )
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "recat_dma.md").write_text(text)
    (args.out / "recat_dma.json").write_text(
        json.dumps({"about": about, "counts": lines}, indent=1)
    )
    draw(lines, args.out / "recat_dma.png")
    print(text)


if __name__ == "__main__":
    main()
