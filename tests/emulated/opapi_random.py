"""Cases: random numbers. A case gives facts about them, which are true on CPU and on NPU alike."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from opapi_cases import Case
from torch import Tensor

Draw = Callable[[torch.device], Tensor]

# How to draw 4096 numbers, the interval they lie in, and their mean and variance.
DRAWS: dict[str, tuple[Draw, float, float, float, float]] = {
    "rand": (lambda d: torch.rand(4096, device=d), 0, 1, 1 / 2, 1 / 12),
    "rand of bfloat16": (
        lambda d: torch.rand(4096, device=d, dtype=torch.bfloat16), 0, 1, 1 / 2, 1 / 12,
    ),
    "uniform_": (lambda d: torch.empty(64, 64, device=d).uniform_(-1, 3), -1, 3, 1, 16 / 12),
    "randn": (lambda d: torch.randn(4096, device=d), -9, 9, 0, 1),
    "normal_": (lambda d: torch.empty(4096, device=d).normal_(2, 0.5), -9, 9, 2, 0.25),
    "normal of shape": (lambda d: torch.normal(2.0, 0.5, (4096,), device=d), -9, 9, 2, 0.25),
    "normal of means": (
        lambda d: torch.normal(torch.full((4096,), 2.0, device=d), 0.5), -9, 9, 2, 0.25,
    ),
    "normal of deviations": (
        lambda d: torch.normal(2.0, torch.full((4096,), 0.5, device=d)), -9, 9, 2, 0.25,
    ),
    "normal of both": (
        lambda d: torch.normal(*(torch.full((4096,), v, device=d) for v in (2.0, 0.5))),
        -9, 9, 2, 0.25,
    ),
    "randint": (lambda d: torch.randint(2, 10, (4096,), device=d), 2, 9, 5.5, 63 / 12),
    "random_": (lambda d: torch.empty(4096, device=d).random_(0, 8), 0, 7, 3.5, 63 / 12),
    "random_ of bytes": (
        lambda d: torch.empty(4096, device=d, dtype=torch.uint8).random_(), 0, 255, 127.5, 5461.25,
    ),
    "bernoulli_": (lambda d: torch.empty(4096, device=d).bernoulli_(0.25), 0, 1, 0.25, 0.1875),
    "bernoulli": (
        lambda d: torch.bernoulli(torch.full((4096,), 0.25, device=d)), 0, 1, 0.25, 0.1875,
    ),
    "exponential_": (lambda d: torch.empty(4096, device=d).exponential_(2.0), 0, 20, 0.5, 0.25),
    "npu_sim_exponential_": (lambda d: _exponential(torch.empty(4096, device=d)), 0, 20, 0.5, 0.25),
    "multinomial": (
        lambda d: torch.multinomial(torch.tensor([1.0, 0.0, 3.0], device=d), 4096, True),
        0, 2, 1.5, 0.75,
    ),
    "dropout": (lambda d: F.dropout(torch.ones(4096, device=d), 0.25), 0, 4 / 3 + 1e-3, 1, 1 / 3),
}  # fmt: skip


def _facts(
    draw: Draw, low: float, high: float, mean: float, variance: float
) -> Callable[[Tensor], list[bool]]:
    def facts(x: Tensor) -> list[bool]:
        torch.manual_seed(5)
        first, second = draw(x.device).cpu(), draw(x.device).cpu()
        torch.manual_seed(5)
        again = draw(x.device).cpu()
        torch.manual_seed(6)
        other = draw(x.device).cpu()
        values = first.double()
        deviation = variance**0.5
        return [
            torch.equal(first, again),
            not torch.equal(first, second),
            not torch.equal(first, other),
            bool((values >= low).all() and (values <= high).all()),
            abs(float(values.mean()) - mean) < 5 * deviation / 64,  # five standard errors
            abs(float(values.var()) / variance - 1) < 0.25,
        ]

    return facts


def _exponential(x: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return x.exponential_(2.0)
    import torch_npu

    return torch_npu.npu_sim_exponential_(x, 2.0)


def _permutation(x: Tensor) -> list[bool]:
    torch.manual_seed(5)
    p, q = torch.randperm(100, device=x.device).cpu(), torch.randperm(100, device=x.device).cpu()
    return [torch.equal(p.sort().values, torch.arange(100)), not torch.equal(p, q)]


def _without_replacement(x: Tensor) -> list[int]:
    weights = torch.tensor([[1.0, 2.0, 0.0, 3.0]] * 8, device=x.device)
    drawn = torch.multinomial(weights, 3).cpu()
    return [sorted(row.tolist()) == [0, 1, 3] for row in drawn]


def _dropout_gradient(x: Tensor) -> list[bool]:
    """Backward keeps and scales what forward kept; nothing else passes."""
    x = torch.arange(1.0, 1001.0, device=x.device, requires_grad=True)
    y = F.dropout(x, 0.4)
    y.sum().backward()
    assert x.grad is not None
    kept = (y != 0).cpu()
    expected = kept / 0.6
    return [
        torch.allclose(x.grad.cpu(), expected),
        torch.allclose(y.detach().cpu(), x.detach().cpu() * expected),
        500 < int(kept.sum()) < 700,
    ]


def _dropout_ends(x: Tensor) -> list[Tensor]:
    ones = torch.ones(9, device=x.device)
    return [F.dropout(ones, 0.0), F.dropout(ones, 1.0), F.dropout(ones, 0.5, training=False)]


def _generator(x: Tensor) -> list[bool]:
    """A generator's own state."""
    one = torch.Generator(x.device).manual_seed(3)
    two = torch.Generator(x.device).manual_seed(3)
    a = torch.rand(9, device=x.device, generator=one)
    torch.rand(9, device=x.device)
    return [torch.equal(a, torch.rand(9, device=x.device, generator=two))]


def _state(x: Tensor) -> list[bool]:
    module = torch if x.device.type == "cpu" else torch.get_device_module(x.device)
    torch.manual_seed(1)
    state = module.get_rng_state()
    a = torch.rand(9, device=x.device)
    module.set_rng_state(state)
    return [torch.equal(a, torch.rand(9, device=x.device))]


def cases() -> dict[str, list[Case]]:
    here = [(torch.zeros(1),)]
    random = [Case(name, _facts(*what), here) for name, what in DRAWS.items()]
    random += [
        Case("randperm", _permutation, here),
        Case("multinomial without replacement", _without_replacement, here),
        Case("dropout gradient", _dropout_gradient, here),
        Case("dropout ends", _dropout_ends, here),
        Case("generator", _generator, here),
        Case("state", _state, here),
    ]
    return {"random": random}
