"""The checks find broken kernels: RecatCopyAsync, broken on purpose, never passes.

Each mutant is the operator's source with one text replaced. The stand-in's checks of the device's
rules, or the comparison with torch, must refuse it, for the reason that the mutant names: one that
passes shows a mistake that nothing finds. The unchanged source passes the same cases, built the
same way.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import ascendc
import pytest
import torch
from ascendc import A2, A5, DTYPES, Case, EmulatedError, make_case

from torchrec_ascend.device import Chip

F32, F16, BF16 = DTYPES
OPTIMIZE = "-O0"  # most of the time goes to the compiler
LARGE_UB = 4 << 20  # bytes: tiles grow up to what the DMA and the vector unit can count

PLAN = "op_host/recat_copy_async_plan.h"
DMA, KERNEL, VECTOR = (
    f"op_kernel/recat_copy_async_{part}.h" for part in ("dma", "kernel", "vector")
)

WRONG = "wrong values"
HOLE = "was never written"
TWICE = "is written twice"


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str  # occurs once
    new: str
    caught: str  # by a message that matches
    chip: Chip = A2


MUTANTS = [
    # queues
    Mutant("no EnQue", KERNEL, "directQueue_.EnQue(loaded);", "", "DeQue of an empty queue"),
    Mutant(
        "no DeQue", KERNEL, "loaded = directQueue_.template DeQue<TIn>();", "",
        "a store from a tensor that was not dequeued",
    ),
    Mutant(
        "no FreeTensor", KERNEL,
        "directQueue_.FreeTensor(loaded);", "", "no free buffer|not freed",
    ),
    Mutant(
        "freed before it is read", KERNEL, "      Rearrange(result, loaded, rows);",
        "      inQueue_.FreeTensor(loaded);\n      Rearrange(result, loaded, rows);",
        "a vector operand is not ready",
    ),
    Mutant(
        "no PipeBarrier", VECTOR, "{ AscendC::PipeBarrier<PIPE_V>(); }", "{}",
        "a PipeBarrier<PIPE_V> is missing",
    ),
    # shares of the cores
    Mutant(
        "a narrow rank is cut", KERNEL, "(2 * within < rank.dim ? 0 : rank.dim)",
        "(2 * within < rank.dim ? 0 : rank.dim - 1)", HOLE,
    ),
    Mutant(
        "neighbours differ about their border", KERNEL, "const Border end = Snapped(core + 1);",
        "const Border end = BorderOf(core + 1, p_.coreNum, p_.rowBlocks, p_.rowElems);",
        f"{HOLE}|{TWICE}",
    ),
    Mutant(
        "a border beyond its rank", KERNEL, "Min(RoundUp(within, ALIGN), rank.dim)",
        "RoundUp(within, ALIGN)", HOLE,
    ),
    Mutant(
        "FindRank ignores the rank that begins there", KERNEL,
        "cumsum_.GetValue(middle) <= column", "cumsum_.GetValue(middle) < column", HOLE,
    ),
    Mutant(
        "an empty rank is no reason to go on", KERNEL,
        "return rank.dim > 0 &&", "return rank.dim >= 0 &&",
        "blockLen is 0",
    ),
    # tiles
    Mutant(
        "no last tile", KERNEL, "      GroupedTile(row + begin,",
        "      if (i + 1 < parts) GroupedTile(row + begin,", HOLE,
    ),
    Mutant(
        "no rest of the lanes", KERNEL,
        "if (rest > 0) {", "if (rest > 0 && lanes == 0) {", HOLE,
    ),
    Mutant(
        "no last columns", KERNEL,
        "column < end; column += most", "column + most <= end; column += most",
        HOLE,
    ),
    Mutant("flat rows in the first row's place", KERNEL, " + row * dim;", ";", TWICE),
    Mutant(
        "blocks of 8 elements", KERNEL,
        "ALIGN = UB_BLOCK / SMALLER;", "ALIGN = 8;", "32-byte block",
    ),
    Mutant(
        "packed without Compact", KERNEL, "(outPitch == width && (COMPACT || inPitch == width))",
        "outPitch == width", WRONG,
    ),
    Mutant(
        "directions swapped", KERNEL,
        "p_.inverse ? inFlat : inRows, {n", "p_.inverse ? inRows : inFlat, {n",
        WRONG,
    ),
    # DMA
    Mutant(
        "the pitch of a whole rank is its piece's", KERNEL,
        "p_.inverse ? rank.dim : p_.rowElems;", "width;",
        WRONG,
    ),
    Mutant(
        "a stride from start to start", DMA,
        "(copy.srcStride)>(p.count > 1 ? (p.gmPitch - p.len) * size : 0);",
        "(copy.srcStride)>(p.count > 1 ? p.gmPitch * size : 0);",
        f"{WRONG}|past the end of",
    ),
    Mutant(
        "strides cut to 32 bits", DMA,
        "return p.count <= 1 || gap <= MAX_GM_STRIDE;", "return true;",
        "a DMA parameter does not fit its field",
    ),
    Mutant("not Compact", DMA, "PaddingMode::Compact", "PaddingMode::Normal", WRONG, A5),
    # vector unit
    Mutant("a single repeat has a stride", VECTOR, "(repeats > 1 ? toNext : 0)", "(toNext)", WRONG),
    Mutant(
        "truncates", VECTOR, "Cast(to, from, AscendC::RoundMode::CAST_RINT, n)",
        "Cast(to, from, AscendC::RoundMode::CAST_TRUNC, n)", WRONG,
    ),
    Mutant(
        "scales twice", VECTOR,
        "Muls(from, from, scale, n)", "Muls(from, from, scale * scale, n)", WRONG,
    ),
    Mutant("does not scale", VECTOR, "Muls(to, from, scale, n)", "Muls(to, from, 1.0f, n)", WRONG),
    Mutant(
        "no last chunk", VECTOR,
        "i < count; i += CHUNK", "i + CHUNK_ELEMS <= count; i += CHUNK", WRONG,
    ),
    # plan
    Mutant(
        "tiles of too many rows", PLAN,
        "255 * 512;", "512 * 512;", "blockCount is not in 1..4095",
    ),
    Mutant(
        "tiles beyond UB", PLAN,
        "/ (4 * in.inSize);", "/ (3 * in.inSize);", "unified buffer is full",
    ),
]  # fmt: skip


@cache
def cases() -> list[Case]:
    """Every path of the kernel, few elements. Shares are cut in columns where rows are few."""
    return [
        make_case(100, [2, 1]),  # lanes of a single repeat
        make_case(7, [13] * 330),
        make_case(1030, [65, 31]),  # long lanes with a rest
        make_case(63, [417, 0, 13]),
        make_case(200, [16, 8, 8, 40]),
        make_case(1, [2501, 5, 2494]),  # the border is one column before a narrow rank
        make_case(3, [30001, 1, 16]),
        make_case(200, [0, 13, 300, 0, 5], inverse=True),
        make_case(200, [13, 24, 301], dtypes=(F16, F16)),
        make_case(200, [13, 24, 301], scale=0.37, inverse=True),
        make_case(200, [13, 24, 301], dtypes=(F32, BF16), scale=0.37),
        make_case(200, [13, 24, 301], dtypes=(F16, F32), scale=0.37),
        make_case(200, [13, 24, 301], dtypes=(BF16, BF16), scale=0.37),
    ]


def check(library: ascendc.Library, chip: Chip) -> None:
    """All cases, until one fails."""
    for case in cases():
        case.check(library, chip)
    one_core = replace(chip, vector_cores=1)  # several tiles one after the other
    make_case(1000, [16, 16, 64], dtypes=(F32, BF16)).check(library, one_core)
    make_case(20000, [5, 2]).check(library, replace(chip, vector_cores=2, ub_bytes=LARGE_UB))
    far_apart(library, chip)


def far_apart(library: ascendc.Library, chip: Chip) -> None:
    """Rows further apart than 32 bits say: nothing moves, and most of a row is of no rank."""
    dims, starts = torch.tensor([8]), torch.tensor([0])
    library.call(
        input=1 << 44, dims=dims.data_ptr(), cumsum=starts.data_ptr(), out=1 << 52,
        batch_size=3, row_elems=(1 << 30) + 16, rank_num=1,
        in_dtype=DTYPES.index(F32), out_dtype=DTYPES.index(F32), scale=1.0,
        arch=chip.arch, cores=chip.vector_cores, ub_size=chip.ub_bytes, mode=ascendc.LEDGER,
    )  # fmt: skip


def build(operator: Path, target: Path, changed: set[str]) -> ascendc.Library:
    """With the objects of `operator` for the changed ones, those of the unchanged operator else."""
    objects = dict(ascendc.objects(OPTIMIZE))
    for name in sorted(changed):
        made = target / f"{name}.o"
        if name == "call":
            source = "recat_copy_async_emulated.cpp"
            objects[name] = ascendc.compile_object(source, made, operator, OPTIMIZE)
        elif name == "host":
            objects[name] = ascendc.host(made, operator, OPTIMIZE)
        else:
            objects[name] = ascendc.kernels(int(name), made, operator, OPTIMIZE)
    return ascendc.link(objects.values(), target / "libemu.so")


def test_the_unchanged_kernel_passes(tmp_path: Path) -> None:
    library = build(ascendc.OPERATOR, tmp_path, set())
    for chip in (A2, A5):
        check(library, chip)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_broken_kernel_is_caught(tmp_path: Path, mutant: Mutant) -> None:
    operator = tmp_path / "operator"
    shutil.copytree(ascendc.OPERATOR, operator)
    source = operator / mutant.file
    text = source.read_text()
    assert text.count(mutant.old) == 1, "the source changed: this mutant needs another text"
    source.write_text(text.replace(mutant.old, mutant.new))
    changed = {"call", "host"} if mutant.file.startswith("op_host") else {str(mutant.chip.arch)}
    library = build(operator, tmp_path, changed)
    with pytest.raises((EmulatedError, AssertionError), match=mutant.caught):
        check(library, mutant.chip)
