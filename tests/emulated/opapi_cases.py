"""Cases of the emulated operator library: a function of tensors gives the same on CPU and on NPU.

A case is one line in one of the tables below, or in the modules named there. Functions run in the
processes of an emulated world; nothing here touches a device at import.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class View:
    """A tensor that is a view of another: the view is taken on the device."""

    base: Tensor
    take: Callable[[Tensor], Tensor]

    def on(self, device: str) -> Tensor:
        return self.take(self.base.clone().to(device))


@dataclass(frozen=True)
class Case:
    """`function(*arguments)` for each tuple of arguments; tensors in them go to the device.

    close: largest relative and absolute difference; 0 where the same kernel of ATen computes both.
    """

    name: str
    function: Callable[..., Any]
    arguments: Sequence[tuple[Any, ...]]
    close: float = 0.0


def on(device: str, argument: Any) -> Any:
    """A fresh copy of an argument on a device."""
    if isinstance(argument, View):
        return argument.on(device)
    if isinstance(argument, Tensor):
        return argument.clone().to(device)
    if isinstance(argument, (list, tuple)):
        return type(argument)(on(device, part) for part in argument)
    return argument


def to_cpu(result: Any) -> Any:
    if isinstance(result, Tensor):
        return result.detach().cpu()
    if isinstance(result, (list, tuple)):
        return [to_cpu(part) for part in result]
    return result


def describe(argument: Any) -> str:
    if isinstance(argument, View):
        argument = argument.on("cpu")
    if isinstance(argument, Tensor):
        return f"{argument.dtype}{list(argument.shape)}{list(argument.stride())}"
    if isinstance(argument, (list, tuple)):
        return "(" + ", ".join(describe(part) for part in argument) + ")"
    return repr(argument)


def difference(case: Case) -> str | None:
    """What differs between the devices; None if nothing does."""
    for arguments in case.arguments:
        try:
            expected = case.function(*on("cpu", arguments))
            actual = case.function(*on("npu", arguments))
            torch.testing.assert_close(
                to_cpu(actual), to_cpu(expected), rtol=case.close, atol=case.close, equal_nan=True
            )
        except Exception as error:  # any failure is a difference, with what it was about
            return f"{describe(arguments)}: {type(error).__name__}: {error}"
    return None


def differences(cases: Iterable[Case]) -> dict[str, str | None]:
    """By case. A failed operator can leave the device without use: what follows is then not run."""
    results: dict[str, str | None] = {}
    lost = None
    for case in cases:
        if lost is None:
            results[case.name] = difference(case)
            lost = case.name if results[case.name] and not _works() else None
        else:
            results[case.name] = f"not run: the device failed in {lost!r}"
    return results


def _works() -> bool:
    try:
        return (torch.ones(2, device="npu") * 2).tolist() == [2, 2]
    except RuntimeError:
        return False


def operator_runs() -> dict[str, int]:
    """Every operator that the emulated library has, and how often it ran in this process."""
    library = ctypes.CDLL("libopapi.so")
    runs: dict[str, int] = {}
    visitor = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64)

    @visitor
    def visit(name: bytes, count: int) -> None:
        runs[name.decode()] = count

    library.emuOperators(visit)
    return runs


# Inputs: every kind of layout for one type, and the plain layout for each of the others.


def _layouts(fill: Callable[[Sequence[int]], Tensor]) -> list[Tensor | View]:
    return [
        fill((4, 6)),
        fill((0, 3)),
        fill(()),
        View(fill((6, 4)), Tensor.t),
        View(fill((4, 12)), lambda t: t[:, 1::2]),
    ]


def floats(low: float = -2.0, high: float = 2.0, seed: int = 0) -> list[Tensor | View]:
    """Uniform in [low, high)."""
    generator = torch.Generator().manual_seed(seed)

    def fill(shape: Sequence[int]) -> Tensor:
        return torch.rand(list(shape), generator=generator) * (high - low) + low

    others: list[Tensor | View] = [fill((4, 6)).to(dtype) for dtype in FLOATS[1:]]
    return _layouts(fill) + others


def ints(low: int = -8, high: int = 8, seed: int = 0) -> list[Tensor | View]:
    """Uniform in [low, high); unsigned types get the absolute value."""
    generator = torch.Generator().manual_seed(seed)

    def fill(shape: Sequence[int]) -> Tensor:
        return torch.randint(low, high, list(shape), generator=generator)

    others: list[Tensor | View] = []
    for dtype in INTS[1:]:
        values = fill((4, 6))
        others.append((values.abs() if dtype == torch.uint8 else values).to(dtype))
    return _layouts(fill) + others


def bools(seed: int = 0) -> list[Tensor | View]:
    generator = torch.Generator().manual_seed(seed)
    return _layouts(lambda shape: torch.rand(list(shape), generator=generator) > 0.5)


def f32(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> Tensor:
    """Uniform in [low, high)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator) * (high - low) + low


def i64(low: int, high: int, *shape: int, seed: int = 0) -> Tensor:
    """Uniform in [low, high)."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def each(*lists: Iterable[Any]) -> list[tuple[Any, ...]]:
    """One tuple of arguments for each position of the lists."""
    return list(zip(*lists, strict=True))


def with_gradient(function: Callable[..., Tensor], first: int = 1) -> Callable[..., list[Tensor]]:
    """The value, and the gradients for the first arguments, of a sum with unequal weights."""

    def run(*arguments: Any) -> list[Tensor]:
        leaves = [argument.detach().requires_grad_() for argument in arguments[:first]]
        value = function(*leaves, *arguments[first:])
        weights = torch.linspace(0.5, 1.5, value.numel()).view(value.shape)
        value.backward(weights.to(value.dtype).to(value.device))
        return [value, *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    return run
