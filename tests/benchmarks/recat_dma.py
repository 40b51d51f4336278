"""What RecatCopyAsync's DMAs do on an emulated chip, against the ideal.

    python tests/benchmarks/recat_dma.py [--chip A2] [--output tests/benchmarks/results]

Counts are emulated: the kernel's own source on emulated cores, with every DMA written down. They
say how memory is accessed, not how fast a card is. Writes recat_dma.md, .json and .png; for one
chip alone recat_dma_a2.md and so on, so that a part does not replace the whole.
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
HBM = {"A2": 1.6e12, "A5": 1.6e12}  # bytes a second, by the vendor's platform files
LARGE = 16 * 1024


def count(name: str, chip: Chip, way: str, hbm: float) -> dict[str, Any]:
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
        "scalar reads a core, max": max(core["scalar_reads"] for core in cores),
        "floor us, calculated": 1e6 * ideal / hbm,
        "total": total,
    }
    for side in ("load", "store"):
        size = total[f"{side}_bytes"]
        result[f"{side}s"] = total[f"{side}s"]
        result[f"KiB a {side}"] = size / total[f"{side}s"] / 1024
        result[f"burst B, {side}"] = size / total[f"{side}_bursts"]
        result[f"line use, {side}"] = size / (total[f"{side}_lines"] * line)
    return result


def counts(chips: dict[str, Chip]) -> list[dict[str, Any]]:
    lines = []
    for chip_name, chip in chips.items():
        for shape, (_, _, dtype) in SHAPES.items():
            for way in ("recat", "unrecat", *(["recat to bf16"] if dtype == F32 else [])):
                found = count(shape, chip, way, HBM[chip_name])
                lines.append({"chip": chip_name, "shape": shape, "way": way, **found})
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    formats = {
        "cores": "{:.0f}",
        "bytes / ideal": "{:.3f}",
        "bytes a core, max / mean": "{:.4f}",
        "loads": "{:d}",
        "stores": "{:d}",
        "KiB a load": "{:.1f}",
        "KiB a store": "{:.1f}",
        "in DMAs >= 16 KiB": "{:.0%}",
        "burst B, load": "{:.0f}",
        "burst B, store": "{:.0f}",
        "line use, load": "{:.2f}",
        "line use, store": "{:.2f}",
        "vector bytes / byte": "{:.2f}",
        "floor us, calculated": "{:.0f}",
    }
    head = ["chip", "shape", "way", *formats]
    rows = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for line in lines:
        cells = [line["chip"], line["shape"], line["way"]]
        cells += [form.format(line[name]) for name, form in formats.items()]
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Small multiples: a row a chip, a column a question; the ideal or the limit is a line."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    chips = list(dict.fromkeys(line["chip"] for line in lines))
    # The inverse mirrors loads and stores: it would only repeat the bars.
    lines = [line for line in lines if line["way"] != "unrecat"]
    figure, axes = pyplot.subplots(
        len(chips), 3, figsize=(13, 0.8 + 4.9 * len(chips)), sharex="col", squeeze=False
    )
    for row, chip in zip(axes, chips, strict=True):
        chosen = [line for line in lines if line["chip"] == chip]
        places = range(len(chosen))
        columns = [
            (row[0], "KiB a {}", "mean KiB a DMA (line: 16)", LARGE / 1024),
            (row[1], "line use, {}", "bytes moved / lines touched", 1.0),
        ]
        for axis, name, title, limit in columns:
            for shift, side in ((-0.18, "load"), (0.18, "store")):
                values = [line[name.format(side)] for line in chosen]
                axis.barh([p + shift for p in places], values, 0.3, label=side)
            axis.axvline(limit, color="black", linewidth=0.8)
            axis.set_title(f"{chip}: {title}", fontsize=9)
        # The bars would be empty where a core moves no more than the mean: the number says it.
        balance = [line["bytes a core, max / mean"] for line in chosen]
        bars = row[2].barh(places, [value - 1 for value in balance], 0.4, left=1, color="grey")
        row[2].bar_label(bars, [f"{value:.4f}" for value in balance], padding=3, fontsize=7)
        row[2].axvline(1.01, color="black", linewidth=0.8)
        row[2].set_xlim(1, 1.012)
        row[2].set_xticks([1, 1.005, 1.01])
        row[2].set_title(f"{chip}: bytes a core, max / mean (line: 1.01)", fontsize=9)
        for axis in row:
            axis.set_yticks(places, [""] * len(chosen))
            axis.tick_params(labelsize=8, labelbottom=True, left=False)
            axis.spines[["top", "right"]].set_visible(False)
            axis.invert_yaxis()
        names = [line["shape"] + line["way"].removeprefix("recat") for line in chosen]
        row[0].set_yticks(places, names, fontsize=8)
    figure.suptitle("RecatCopyAsync, recat: emulated counts, no speeds", fontsize=11)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="upper right", ncols=2, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


READING = """\
*Emulated* are all counts, *calculated* is the floor (ideal bytes over the memory's bandwidth,
1.6 TB/s); no card was timed. Loads and stores are DMAs, a burst is one piece of a DMA
(the next may touch it), "line use" is bytes moved over the bytes of the lines touched (512 on A2,
128 on A5; a line counts once a DMA).

Bytes are the ideal ones everywhere. Line use falls on the strided side, where a burst is one row
of a rank, or of a group of narrow ranks, and rarely begins and ends on a line: worst are 64x52
(0.46 on A2, 0.65 on A5) and bf16 8x416 (0.65 on A2). A core touches hardly a line more than it
needs, but the shared ones in several DMAs; whether L2 absorbs that is not emulated. Means are
above 20 KiB a DMA but for 64x52 with a cast on A2, 12.8 KiB a store: five buffers share UB there,
and a stored element is half a loaded one. A2's busiest core moves 1.0078 of the mean, as the
units of rows do not divide by 48 cores. Narrow ranks cost vector work, 0.5 bytes a byte moved
where they fill 32-byte blocks and 1.5 where they do not; on A5, 64x52 needs none without a cast,
as loads pack rows in UB, but its bursts are one rank's 208 bytes, and its inverse needs 1.5."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--chip", choices=CHIPS, help="only this one")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    chips = {args.chip: CHIPS[args.chip]} if args.chip else CHIPS
    stem = f"recat_dma_{args.chip.lower()}" if args.chip else "recat_dma"
    lines = counts(chips)
    about = {
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__,
        "torchrec_ascend": torchrec_ascend.__version__,
        "chips": {name: chip.soc for name, chip in chips.items()},
    }
    text = (
        "# DMAs of RecatCopyAsync (emulated counts)\n\n"
        f"{about['date']}, torchrec_ascend {about['torchrec_ascend']}, "
        f"{', '.join(f'{name}: {chip.soc}' for name, chip in chips.items())}.\n\n"
        f"{READING}\n\n{table(lines)}\n\n![counts]({stem}.png)\n"
    )
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / f"{stem}.md").write_text(text)
    (args.output / f"{stem}.json").write_text(
        json.dumps({"about": about, "counts": lines}, indent=1)
    )
    draw(lines, args.output / f"{stem}.png")
    print(text)


if __name__ == "__main__":
    main()
