"""The tiling plan of RecatCopyAsync: arithmetic, so limits need no memory. Emulated launches."""

from __future__ import annotations

import ctypes
import itertools
import json
from dataclasses import replace

import ascendc
import pytest
import torch
from ascendc import A2, A5, CHIPS, Call, EmulatedError

from torchrec_ascend.device import Chip

CORES = (1, 2, 40, 48, 64, 72, 65535)
BATCHES = (1, 47, 48, 64, 512, 4096, 65535, 65536, 1 << 20, (1 << 27) + 1, (1 << 31) + 7, 1 << 40)


@pytest.fixture(scope="module")
def library() -> ascendc.Library:
    return ascendc.library()


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("cores", CORES)
def test_blocks_hold_every_row_once(library: ascendc.Library, batch: int, cores: int) -> None:
    plan = library.plan(batch, 3328, cores=cores)
    assert 1 <= plan.row_blocks <= plan.core_num <= cores
    begins = [library.block_begin(batch, plan, i) for i in range(plan.row_blocks + 1)]
    assert begins[0] == 0
    assert begins[-1] == batch
    rows = [end - begin for begin, end in itertools.pairwise(begins)]
    assert min(rows) > 0
    assert max(rows) * plan.row_blocks <= 1.01 * batch


@pytest.mark.parametrize("row", [1, 7, 3328, (1 << 31) + 5])
@pytest.mark.parametrize("batch", [1, 64, 777, 4096, 65537])
@pytest.mark.parametrize("cores", [1, 48, 56, 72])
def test_cores_share_every_column_of_every_block_once(
    library: ascendc.Library, row: int, batch: int, cores: int
) -> None:
    plan = library.plan(batch, row, cores=cores)
    borders = [
        library.border(core, plan.core_num, plan.row_blocks, row)
        for core in range(plan.core_num + 1)
    ]
    assert borders[0] == (0, 0)
    assert borders[-1] == (plan.row_blocks, 0)
    assert borders == sorted(borders)
    assert all(0 <= column < row for _, column in borders)
    shares = [
        (block - other) * row + column - left
        for (other, left), (block, column) in itertools.pairwise(borders)
    ]
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(
    ("batch", "row", "ranks"),
    [
        (1 << 20, 1 << 12, 4096),  # B * R above 2^31
        (1 << 31, 1 << 20, 1 << 20),
        (8, 1 << 33, 3),  # rows of more than 2^32 bytes
        (0, 16, 4),
        (16, 0, 4),
        (16, 16, 0),
        (1, 1, 1),
    ],
)
def test_a_plan_for_any_size(library: ascendc.Library, batch: int, row: int, ranks: int) -> None:
    for chip, sizes, convert in itertools.product(
        CHIPS, [(4, 4), (2, 2), (4, 2), (2, 4)], (False, True)
    ):
        if not convert and sizes[0] != sizes[1]:
            continue
        plan = library.plan(batch, row, ranks, sizes, convert, chip.vector_cores, chip.ub_bytes)
        assert 1 <= plan.core_num <= chip.vector_cores
        tile = plan.tile_elems * max(sizes)
        assert 0 < tile <= 255 * 512
        buffers = 2 * sum(sizes) + sizes[1] if convert else 4 * sizes[0]
        used = plan.tile_elems * buffers + 2 * plan.direct_elems * sizes[0]
        assert used + (8192 if convert else 0) <= chip.ub_bytes
        assert plan.tile_elems * buffers % 32 == 0
        if not convert:
            assert plan.direct_elems * sizes[0] >= 16 * 1024


def test_large_inputs_use_every_core_small_ones_fewer(library: ascendc.Library) -> None:
    assert library.plan(4096, 3328).core_num == A2.vector_cores
    assert library.plan(16, 256).core_num == 1
    assert library.plan(32, 256).core_num == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": -1, "row": 1}, "a size is negative"),
        ({"batch": 1, "row": -1}, "a size is negative"),
        ({"batch": 1, "row": 1, "ranks": -1}, "a size is negative"),
        ({"batch": 1 << 40, "row": 1 << 40}, "exceeds int64"),
        ({"batch": 1, "row": 1, "sizes": (8, 8)}, "neither 2 nor 4"),
        ({"batch": 1, "row": 1, "sizes": (4, 2)}, "two dtypes"),
        ({"batch": 1, "row": 1, "cores": 0}, "cores is not in 1..65535"),
        ({"batch": 1, "row": 1, "cores": 65536}, "cores is not in 1..65535"),
        ({"batch": 1, "row": 1, "ub": 65536}, "smaller than 160 KiB"),
    ],
)
def test_bad_plans_are_refused(library: ascendc.Library, arguments: dict, message: str) -> None:
    with pytest.raises(EmulatedError, match=message):
        library.plan(**arguments)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("chip", CHIPS, ids=["A2", "A5"])
def test_strides_beyond_32_bits(library: ascendc.Library, chip: Chip, inverse: bool) -> None:
    """Rows of 4.3 GB. On A2 a stride holds 32 bits: longer ones are avoided, row by row."""
    dims = [8, 13, 300, 1 << 30, 7]
    cores = library.ledger(dims, 3, chip, inverse=inverse)
    expected = 3 * sum(dims) * 4
    assert sum(core["load_bytes"] for core in cores) == expected
    assert sum(core["store_bytes"] for core in cores) == expected


@pytest.mark.parametrize("chip", CHIPS, ids=["A2", "A5"])
def test_ranks_far_apart_on_the_flat_side(library: ascendc.Library, chip: Chip) -> None:
    """Equal ranks go together, one stride apart: here that is more than 32 bits."""
    dim, batch = 31, 38 << 20
    assert batch * dim * 4 > 1 << 32
    cores = library.ledger([dim] * 2, batch, chip)
    assert sum(core["store_bytes"] for core in cores) == batch * 2 * dim * 4


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("ub", [160 * 1024, 512 * 1024, 4 << 20])
@pytest.mark.parametrize("chip", CHIPS, ids=["A2", "A5"])
def test_any_size_of_ub(library: ascendc.Library, chip: Chip, ub: int, inverse: bool) -> None:
    """Tiles stop growing where the DMA's and the vector unit's counts end."""
    for dtypes in ascendc.PAIRS:
        for batch, dims in ((9000, [8, 8, 8]), (30000, [2, 1]), (500, [257, 1, 62]), (40000, [5])):
            case = ascendc.make_case(batch, dims, dtypes=dtypes, inverse=inverse)
            case.check(library, replace(chip, vector_cores=2, ub_bytes=ub))


def test_a_launch_of_no_core_is_refused(
    library: ascendc.Library, capfd: pytest.CaptureFixture[str]
) -> None:
    """numel 0 still launches one core, which finds nothing to do."""
    for batch, dims in ((0, [3]), (3, [0, 0]), (3, [])):
        for chip in CHIPS:
            assert library.plan(batch, sum(dims), len(dims), cores=chip.vector_cores).core_num == 1
            assert library.run(torch.zeros(batch, sum(dims)), dims, batch, chip).numel() == 0
    with pytest.raises(EmulatedError, match="TilingFunc failed"):
        library.run(torch.zeros(1, 1), [1], 1, replace(A2, vector_cores=0, ub_bytes=A5.ub_bytes))
    assert "RecatCopyAsync: the number of cores is not in 1..65535" in capfd.readouterr().err


def test_the_definition_is_that_of_the_json(library: ascendc.Library) -> None:
    """msopgen makes the project from the one, the compiler reads the other."""
    written = json.loads((ascendc.OPERATOR / "recat_copy_async.json").read_text())
    assert library.definition() == written


def test_the_header_and_the_test_agree_on_the_call() -> None:
    """Size and alignment of the struct, from the compiler."""
    source = ascendc.folder() / "size.cpp"
    source.write_text(
        '#include "recat_copy_async_emulated.h"\n'
        "char call[sizeof(RecatEmulatedCall)], ledger[sizeof(EmulatedLedger)];\n"
        'extern "C" __attribute__((visibility("default"))) int sizes() {\n'
        "  return sizeof(call) * 1000 + sizeof(ledger);\n"
        "}\n"
    )
    target = ascendc.folder() / "size.o"
    ascendc.compile_object(str(source), target, ascendc.OPERATOR)
    shared = ascendc.folder() / "size.so"
    ascendc.run_compiler("-shared", str(target), "-o", str(shared))
    expected = ctypes.sizeof(Call) * 1000 + ctypes.sizeof(ascendc.Ledger)
    assert ctypes.CDLL(str(shared)).sizes() == expected


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"input": [4, 2, 3]}, "grad_output has another shape"),
        ({"input": [6, 4]}, "grad_output has another shape"),
        ({"input": [24]}, "grad_output has another shape"),
        ({"out": [23]}, "sharded_grad_output has another size"),
        ({"cumsum": [3]}, "are not of one length"),
        ({"dims": [2, 1]}, "are not of one length"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    library: ascendc.Library, capfd: pytest.CaptureFixture[str], shapes: dict[str, list[int]],
    message: str,
) -> None:  # fmt: skip
    """By the host functions, that see the tensors' own shapes. dims = [2, 4], B = 4."""
    library.run(torch.ones(4, 6), [2, 4], 4, A2, shapes={})
    with pytest.raises(EmulatedError, match=r"InferShape failed|TilingFunc failed"):
        library.run(torch.ones(4, 6), [2, 4], 4, A2, shapes=shapes)
    assert message in capfd.readouterr().err
