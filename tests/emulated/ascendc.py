"""RecatCopyAsync on emulated cores: builds the host stand-in for Ascend C and calls it.

Needs a C++20 compiler; no torch_npu, no CANN.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torchrec_ascend.device import Chip, chip

KERNELS = Path(__file__).parents[2] / "kernels"
STAND_IN = KERNELS / "emulator" / "ascendc"
OPERATOR = KERNELS / "layout_transform_ops" / "recat_copy_async"
ARCHES = (2201, 3510)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)  # in the order of RecatEmulatedDtype
PAIRS = (
    *((dtype, dtype) for dtype in DTYPES),
    *((torch.float32, dtype) for dtype in DTYPES[1:]),
    *((dtype, torch.float32) for dtype in DTYPES[1:]),
)
LEDGER, RUN, STRICT = range(3)  # RecatEmulatedMode


A2 = chip("Ascend910B1")
A5 = chip("Ascend950PR_9589")
CHIPS = (A2, A5)

FIELDS = [
    "loads",
    "stores",
    "load_bursts",
    "store_bursts",
    "load_bytes",
    "store_bytes",
    "load_lines",
    "store_lines",
    "load_unique_lines",
    "store_unique_lines",
    "large_dma_bytes",
    "scalar_reads",
    "vector_ops",
    "vector_bytes",
]


class Ledger(ctypes.Structure):
    """What one core did; ledger.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


class Shape(ctypes.Structure):
    _fields_ = [("sizes", ctypes.POINTER(ctypes.c_int64)), ("dims", ctypes.c_int64)]

    @staticmethod
    def of(sizes: Sequence[int]) -> Shape:
        return Shape((ctypes.c_int64 * len(sizes))(*sizes), len(sizes))


class Shapes(ctypes.Structure):
    _fields_ = [(name, Shape) for name in ("input", "dims", "cumsum", "out")]


class Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("input", "dims", "cumsum", "out")),
        *((name, ctypes.c_int64) for name in ("batch_size", "row_elems", "rank_num")),
        *((name, ctypes.c_int32) for name in ("in_dtype", "out_dtype", "inverse")),
        ("scale", ctypes.c_float),
        ("arch", ctypes.c_int32),
        ("cores", ctypes.c_int64),
        ("ub_size", ctypes.c_int64),
        ("mode", ctypes.c_int32),
        ("ledger", ctypes.c_void_p),
        ("shapes", ctypes.c_void_p),
    ]


class Plan(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64)
        for name in ("row_unit", "row_blocks", "core_num", "tile_elems", "direct_elems")
    ]


class EmulatedError(RuntimeError):
    """What the stand-in found."""


class Library:
    def __init__(self, path: Path) -> None:
        self._lib = ctypes.CDLL(str(path))
        self._lib.recat_emulated_message.restype = ctypes.c_char_p
        self._lib.recat_emulated_block_begin.restype = ctypes.c_int64
        self._lib.recat_emulated_block_begin.argtypes = [ctypes.c_int64] * 4
        self._lib.recat_emulated_plan.argtypes = [
            *[ctypes.c_int64] * 5, ctypes.c_int32, *[ctypes.c_int64] * 2, ctypes.c_void_p,
        ]  # fmt: skip
        self._lib.recat_emulated_border.argtypes = [
            *[ctypes.c_int64] * 4, ctypes.c_void_p, ctypes.c_void_p,
        ]  # fmt: skip

    def _check(self, code: int) -> None:
        if code:
            raise EmulatedError(self._lib.recat_emulated_message().decode())

    def definition(self) -> Any:
        """Of the operator, as its host source gives it, in the form of msopgen's JSON."""
        self._lib.recat_emulated_definition.restype = ctypes.c_char_p
        return json.loads(self._lib.recat_emulated_definition())

    def call(self, **fields: Any) -> None:
        """recat_emulated_run with the fields of RecatEmulatedCall."""
        self._check(self._lib.recat_emulated_run(ctypes.byref(Call(**fields))))

    def plan(
        self, batch: int, row: int, ranks: int = 1, sizes: tuple[int, int] = (4, 4),
        convert: bool = False, cores: int = A2.vector_cores, ub: int = A2.ub_bytes,
    ) -> Plan:  # fmt: skip
        plan = Plan()
        self._check(
            self._lib.recat_emulated_plan(
                batch, row, ranks, *sizes, convert, cores, ub, ctypes.byref(plan)
            )
        )
        return plan

    def block_begin(self, batch: int, plan: Plan, block: int) -> int:
        return self._lib.recat_emulated_block_begin(batch, plan.row_unit, plan.row_blocks, block)

    def border(self, core: int, cores: int, blocks: int, row: int) -> tuple[int, int]:
        """Block and column where a core's share begins."""
        result = (ctypes.c_int64(), ctypes.c_int64())
        self._lib.recat_emulated_border(core, cores, blocks, row, *map(ctypes.byref, result))
        return result[0].value, result[1].value

    def run(
        self, values: Tensor, dims: Sequence[int], batch: int, chip: Chip, *,
        dtype: torch.dtype | None = None, scale: float = 1.0, inverse: bool = False,
        mode: int = STRICT, cumsum: Sequence[int] | None = None,
        shapes: dict[str, list[int]] | None = None,
    ) -> Tensor:  # fmt: skip
        """RecatCopyAsync of values (contiguous, [B, S], or [B * S] for inverse), flat result.

        shapes: what the host functions see in place of the tensors' own, by name.
        """
        assert values.is_contiguous()
        sizes = torch.tensor(dims, dtype=torch.int64)
        starts = sizes.cumsum(0) - sizes if cumsum is None else torch.tensor(cumsum)
        dtype = dtype or values.dtype
        out = torch.empty(values.numel(), dtype=dtype)
        seen = None
        if shapes is not None:
            own = {"input": list(values.shape), "out": [values.numel()]}
            own |= {"dims": [len(dims)], "cumsum": [len(dims)]}
            seen = Shapes(**{name: Shape.of(shapes.get(name, own[name])) for name in own})
        self.call(
            input=values.data_ptr(), dims=sizes.data_ptr(), cumsum=starts.data_ptr(),
            out=out.data_ptr(), batch_size=batch,
            row_elems=values.numel() // batch if batch else 0, rank_num=len(dims),
            in_dtype=DTYPES.index(values.dtype), out_dtype=DTYPES.index(dtype),
            inverse=inverse, scale=scale, arch=chip.arch, cores=chip.vector_cores,
            ub_size=chip.ub_bytes,
            mode=mode, shapes=ctypes.addressof(seen) if seen is not None else None,
        )  # fmt: skip
        return out

    def ledger(
        self, dims: Sequence[int], batch: int, chip: Chip, *,
        dtypes: tuple[torch.dtype, torch.dtype] = (torch.float32, torch.float32),
        scale: float = 1.0, inverse: bool = False,
    ) -> list[dict[str, int]]:  # fmt: skip
        """Counts by core, without memory for the values: at invented, line-aligned addresses."""
        sizes = torch.tensor(dims, dtype=torch.int64)
        starts = sizes.cumsum(0) - sizes
        cores = (Ledger * chip.vector_cores)()
        self.call(
            input=1 << 44, dims=sizes.data_ptr(), cumsum=starts.data_ptr(), out=1 << 52,
            batch_size=batch, row_elems=int(sizes.sum()), rank_num=len(dims),
            in_dtype=DTYPES.index(dtypes[0]), out_dtype=DTYPES.index(dtypes[1]),
            inverse=inverse, scale=scale, arch=chip.arch, cores=chip.vector_cores,
            ub_size=chip.ub_bytes,
            mode=LEDGER, ledger=ctypes.addressof(cores),
        )  # fmt: skip
        counts = [{name: getattr(core, name) for name in FIELDS} for core in cores]
        return [core for core in counts if core["loads"]]


@dataclass(frozen=True)
class Case:
    """One call and its values, [B, S], or [B * S] for inverse."""

    values: Tensor
    dims: list[int]
    batch: int
    dtype: torch.dtype
    scale: float
    inverse: bool

    def __str__(self) -> str:
        dims = f"{self.dims[:12]}{'...' if len(self.dims) > 12 else ''} ({len(self.dims)} ranks)"
        return (
            f"B={self.batch} dims={dims} {self.values.dtype} -> {self.dtype} scale={self.scale} "
            f"inverse={self.inverse}"
        )

    def check(self, library: Library, chip: Chip) -> None:
        """Runs it and compares bits. EmulatedError or AssertionError, naming the case."""
        options: dict[str, Any] = {
            "dtype": self.dtype,
            "scale": self.scale,
            "inverse": self.inverse,
        }
        try:
            result = library.run(self.values, self.dims, self.batch, chip, **options)
        except EmulatedError as error:
            raise EmulatedError(f"{self}, {chip}: {error}") from error
        expected = reference(self.values, self.dims, self.batch, **options)
        assert torch.equal(bits(result), bits(expected)), f"{self}, {chip}: wrong values"


def bits(values: Tensor) -> Tensor:
    return values.view(torch.int32 if values.element_size() == 4 else torch.int16)


def make_case(
    batch: int, dims: Sequence[int], *, dtypes: tuple[torch.dtype, torch.dtype] | None = None,
    scale: float = 1.0, inverse: bool = False, seed: int = 0,
) -> Case:  # fmt: skip
    source, target = dtypes or (torch.float32, torch.float32)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, sum(dims), generator=generator).to(source)
    return Case(
        values.reshape(-1) if inverse else values, list(dims), batch, target, scale, inverse
    )


def random_case(rng: random.Random, largest: int = 200_000) -> Case:
    """Any dtypes and direction; at most `largest` elements, not none."""
    while True:
        batch = rng.choice([1, 2, 3, 7, 16, 17, 64, 129, 300, 1000, 2500])
        widest = rng.choice([1, 2, 9, 33, 65, 300, 1200, 5000, 60000])
        dims = [rng.randint(0, widest) for _ in range(rng.choice([1, 2, 3, 8, 33, 100]))]
        if rng.random() < 0.3:
            dims = [-(-dim // 16) * 16 for dim in dims]
        if 0 < batch * sum(dims) <= largest:
            break
    scale = rng.choice([1.0, 1.0, 0.37, -3e5])
    return make_case(
        batch, dims, dtypes=rng.choice(PAIRS), scale=scale, inverse=rng.random() < 0.5,
        seed=rng.randrange(1 << 30),
    )  # fmt: skip


def compiler() -> str:
    name = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if name is None:
        raise RuntimeError("a C++20 compiler is needed: set CXX, or install g++")
    return name


def run_compiler(*arguments: str) -> None:
    done = subprocess.run([compiler(), *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{compiler()} {' '.join(arguments)}:\n{done.stderr}")


def compile_object(source: str | Path, target: Path, operator: Path, *options: str) -> Path:
    """One object of the stand-in, with the operator's sources from `operator`."""
    includes = (STAND_IN, operator, operator / "op_host", operator / "op_kernel")
    run_compiler(
        "-std=c++20", "-fPIC", "-fvisibility=hidden", "-w", "-c", str(STAND_IN / source),
        *(f"-I{include}" for include in includes), "-o", str(target), *options,
    )  # fmt: skip
    return target


def link(objects: Iterable[Path], target: Path) -> Library:
    run_compiler("-shared", *map(str, objects), "-o", str(target))
    return Library(target)


@cache
def folder() -> Path:
    """Of this process; goes with it."""
    temporary = tempfile.TemporaryDirectory(prefix="ascendc")
    _kept.append(temporary)
    return Path(temporary.name)


_kept: list[Any] = []


@cache
def objects(optimize: str = "-O1") -> dict[str, Path]:
    """The stand-in and the unchanged operator: core, call, host, 2201, 3510."""
    at = folder() / optimize.strip("-")
    at.mkdir(exist_ok=True)
    built = {
        "core": compile_object("core.cpp", at / "core.o", OPERATOR, optimize),
        "call": compile_object("recat_copy_async_emulated.cpp", at / "call.o", OPERATOR, optimize),
        "host": host(at / "host.o", OPERATOR, optimize),
    }
    for arch in ARCHES:
        built[str(arch)] = kernels(arch, at / f"{arch}.o", OPERATOR, optimize)
    return built


def host(target: Path, operator: Path, optimize: str) -> Path:
    source = operator / "op_host" / "recat_copy_async.cpp"
    return compile_object(source, target, operator, optimize, "-DRECAT_ASCEND950")


def kernels(arch: int, target: Path, operator: Path, optimize: str) -> Path:
    return compile_object(
        "recat_copy_async_kernels.cpp", target, operator, f"-D__NPU_ARCH__={arch}", optimize
    )


@cache
def library() -> Library:
    return link(objects().values(), folder() / "libemu_recat_copy_async.so")


def reference(
    values: Tensor, dims: Sequence[int], batch: int, *, dtype: torch.dtype | None = None,
    scale: float = 1.0, inverse: bool = False,
) -> Tensor:  # fmt: skip
    """What RecatCopyAsync must give, flat: by torch, one rank after the other."""
    if values.numel() == 0:
        return torch.empty(0, dtype=dtype or values.dtype)
    if inverse:
        parts = values.split([batch * dim for dim in dims])
        moved = torch.cat([part.view(batch, dim) for part, dim in zip(parts, dims, strict=True)], 1)
    else:
        columns = values.view(batch, sum(dims)).split(list(dims), 1)
        moved = torch.cat([part.reshape(-1) for part in columns])
    moved = moved.reshape(-1)
    if scale != 1.0:
        moved = moved.float() * torch.tensor(scale, dtype=torch.float32)
    return moved.to(dtype or values.dtype)
