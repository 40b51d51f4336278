"""The Ascend C kernel of RecatCopyAsync, emulated, against torch: bit for bit, both architectures.

The stand-in raises on any broken rule of the device, on a byte written twice or never.
"""

from __future__ import annotations

import random
from dataclasses import replace

import ascendc
import pytest
import torch
from ascendc import A2, CHIPS, DTYPES, PAIRS, EmulatedError, bits, make_case

from torchrec_ascend.device import Chip

ONE_CORE = replace(A2, vector_cores=1)
F32, F16, BF16 = DTYPES
chips = pytest.mark.parametrize("chip", CHIPS, ids=["A2", "A5"])
both_ways = pytest.mark.parametrize("inverse", [False, True], ids=["recat", "unrecat"])
# B=65536 8x416 and so on: the shapes that were measured on other hardware.
SHAPES = {
    "8x416": (65536, [416] * 8),
    "64x52": (65536, [52] * 64),
    "skewed": (65536, [1024, 0, 512, 128, 64, 1000, 36, 564]),
    "odd": (65536, [417, 33, 7, 129, 255, 511, 1023, 953]),
    "B=4096 8x416": (4096, [416] * 8),
    "1024x16": (16384, [16] * 1024),
}


@pytest.fixture(scope="module")
def library() -> ascendc.Library:
    return ascendc.library()


@chips
@pytest.mark.parametrize("seed", range(8))
def test_random_cases(library: ascendc.Library, chip: Chip, seed: int) -> None:
    rng = random.Random(f"{chip} {seed}")
    for _ in range(100):
        ascendc.random_case(rng).check(library, chip)


@chips
@both_ways
@pytest.mark.parametrize(
    ("batch", "dims"),
    [
        (300, [0, 0, 13, 0, 5, 0]),  # empty ranks first, between and last
        (7, [0, 0, 0]),  # nothing but empty ranks
        (0, [4, 8]),  # no row
        (5, []),  # no rank
        (4099, [1]),  # one column
        (2500, [20]),  # one narrow rank: contiguous on both sides
        (1, [3, 0, 70000, 5]),  # one row, columns beyond a buffer
        (3, [70001, 1, 16]),
        (40, [16] * 1024),  # many tiny ranks
        (2, [1] * 4096),
        (200, [13] * 128),  # more ranks than a group takes
        (4500, [52] * 3),
        (4099, [416, 31]),
        (2049, [255, 1, 254, 256]),  # around the narrowest rank that is not grouped
        (2049, [127, 128, 129, 7]),
    ],
)
@pytest.mark.parametrize("dtypes", [(F32, F32), (F16, F16), (F32, BF16), (BF16, F32)])
def test_shapes(
    library: ascendc.Library, chip: Chip, batch: int, dims: list[int], inverse: bool,
    dtypes: tuple[torch.dtype, torch.dtype],
) -> None:  # fmt: skip
    make_case(batch, dims, dtypes=dtypes, inverse=inverse).check(library, chip)


@both_ways
def test_one_core(library: ascendc.Library, inverse: bool) -> None:
    for batch, dims in ((1, [5]), (333, [13, 0, 64, 700]), (129, [1] * 70)):
        make_case(batch, dims, inverse=inverse).check(library, ONE_CORE)


@chips
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_changes_no_bit(library: ascendc.Library, chip: Chip, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(3)
    size = torch.int32 if dtype == F32 else torch.int16
    info = torch.iinfo(size)
    dims = [13, 16, 300]
    values = torch.randint(info.min, info.max, (300, sum(dims)), dtype=size, generator=generator)
    result = library.run(values.view(dtype), dims, 300, chip)
    expected = ascendc.reference(values, dims, 300)
    assert torch.equal(bits(result), expected)


def interesting_floats() -> torch.Tensor:
    """float32 around every value that a 16-bit float can take, and what lies between two."""
    every = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    near = []
    for dtype in (F16, BF16):
        exact = every.view(dtype).float()
        exact = exact[~exact.isnan()]
        above = every.roll(-1).view(dtype).float()[: exact.numel()]
        middle = (exact.double() + above.double()).div(2).float()  # a tie
        for values in (exact, middle):
            near += [values, *(torch.nextafter(values, values * 0 + s) for s in (-1e39, 1e39))]
    return torch.cat([*near, torch.tensor([65519.99, 65520.0, 3.4e38, 1e-45, -0.0])])


@chips
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_casts_round_to_nearest_even(
    library: ascendc.Library, chip: Chip, dtype: torch.dtype, scale: float
) -> None:
    values = interesting_floats()
    values = values[: values.numel() // 16 * 16].view(-1, 16)
    dims = [5, 11]
    result = library.run(values, dims, len(values), chip, dtype=dtype, scale=scale)
    expected = ascendc.reference(values, dims, len(values), dtype=dtype, scale=scale)
    nan = expected.isnan()
    assert torch.equal(result.isnan(), nan)
    assert torch.equal(bits(result)[~nan], bits(expected)[~nan])


@chips
@pytest.mark.parametrize("dtypes", PAIRS)
@pytest.mark.parametrize("scale", [0.0, -2.5, 1e-30, float("inf"), float("nan")])
def test_scales(
    library: ascendc.Library, chip: Chip, dtypes: tuple[torch.dtype, torch.dtype], scale: float
) -> None:
    case = make_case(50, [3, 40], dtypes=dtypes)
    result = library.run(case.values, case.dims, 50, chip, dtype=case.dtype, scale=scale)
    expected = ascendc.reference(case.values, case.dims, 50, dtype=case.dtype, scale=scale)
    assert torch.equal(result.nan_to_num(7, 8, 9), expected.nan_to_num(7, 8, 9))


@chips
@both_ways
def test_any_element_may_be_the_first_in_memory(
    library: ascendc.Library, chip: Chip, inverse: bool
) -> None:
    dims = [13, 64, 301]
    memory = torch.randn(1 + 200 * sum(dims)).half()
    values = memory[1:] if inverse else memory[1:].view(200, -1)
    result = library.run(values, dims, 200, chip, inverse=inverse)
    assert torch.equal(result, ascendc.reference(values, dims, 200, inverse=inverse))


@chips
@both_ways
@pytest.mark.parametrize(
    ("dims", "cumsum"),
    [
        ([5, 50], [0, 5]),
        ([-3, 13], [0, -3]),
        ([5, 5], [0, 9]),
        ([5, 5], [7, 2]),
        ([10, 10], [0, 0]),
        ([5, 5], [-(1 << 62), 1 << 62]),
        ([1 << 62, 5], [0, 5]),
    ],
)
def test_a_bad_split_stays_within_memory(
    library: ascendc.Library, chip: Chip, inverse: bool, dims: list[int], cumsum: list[int]
) -> None:
    values = torch.randn(1000) if inverse else torch.randn(100, 10)
    library.run(values, dims, 100, chip, inverse=inverse, cumsum=cumsum, mode=ascendc.RUN)


@chips
@both_ways
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtypes", PAIRS)
def test_every_byte_moves_once_in_large_copies(
    library: ascendc.Library, chip: Chip, inverse: bool, shape: str,
    dtypes: tuple[torch.dtype, torch.dtype],
) -> None:  # fmt: skip
    batch, dims = SHAPES[shape]
    batch //= 8 if shape == "64x52" else 1
    cores = library.ledger(dims, batch, chip, dtypes=dtypes, inverse=inverse)
    total = {name: sum(core[name] for core in cores) for name in ascendc.FIELDS}
    elements = batch * sum(dims)
    assert total["load_bytes"] == elements * dtypes[0].itemsize
    assert total["store_bytes"] == elements * dtypes[1].itemsize
    assert total["large_dma_bytes"] >= 0.6 * (total["load_bytes"] + total["store_bytes"])
    for way in ("load", "store"):
        assert total[f"{way}_bytes"] / total[f"{way}s"] >= 11 * 1024


@pytest.mark.parametrize("cores", [40, 48, 56, 64, 72])  # of the chips of either architecture
@both_ways
@pytest.mark.parametrize("shape", SHAPES)
def test_cores_are_balanced(
    library: ascendc.Library, cores: int, inverse: bool, shape: str
) -> None:
    batch, dims = SHAPES[shape]
    for chip in (replace(known, vector_cores=cores) for known in CHIPS):
        moved = [
            core["load_bytes"] + core["store_bytes"]
            for core in library.ledger(dims, batch, chip, dtypes=(BF16, BF16), inverse=inverse)
        ]
        assert len(moved) == cores
        assert max(moved) * cores <= 1.01 * sum(moved)


def test_narrow_unaligned_ranks_leave_in_long_bursts(library: ascendc.Library) -> None:
    """52-byte rows of a rank would make 52-byte stores on A2, were they not packed in UB."""
    for inverse in (False, True):
        cores = library.ledger([13] * 16, 65536, A2, inverse=inverse)
        flat = "load" if inverse else "store"
        total = sum(core[f"{flat}_bytes"] for core in cores)
        assert total / sum(core[f"{flat}_bursts"] for core in cores) > 4096


def test_a_copy_of_wide_ranks_uses_no_vector_instruction(library: ascendc.Library) -> None:
    for chip in CHIPS:
        cores = library.ledger([416] * 8, 4096, chip)
        assert sum(core["vector_ops"] for core in cores) == 0


def test_pairs_that_are_no_wire_are_refused(library: ascendc.Library) -> None:
    with pytest.raises(EmulatedError, match="no kernel for this pair"):
        library.run(torch.zeros(1, 1, dtype=F16), [1], 1, A2, dtype=BF16)
