"""Cases: activations and losses, with their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from opapi_cases import Case, View, f32, floats, with_gradient
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "hardtanh": lambda x: F.hardtanh(x, -1.0, 0.5),
    "hardshrink": F.hardshrink,
    "softshrink": F.softshrink,
    "softplus": lambda x: F.softplus(x, 2.0, 3.0),
    "selu": F.selu,
    "elu": lambda x: F.elu(x, 0.7),
    "celu": lambda x: F.celu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "logsigmoid": F.logsigmoid,
    "logit": lambda x: torch.logit(x, 0.1),
    "logit without eps": lambda x: torch.logit(torch.sigmoid(x)),
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, 0),
    "prelu": lambda x: F.prelu(x, torch.full((x.shape[1],), 0.25, device=x.device, dtype=x.dtype)),
}
INPLACE_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "hardsigmoid_": lambda x: F.hardsigmoid(x, inplace=True),
    "hardswish_": lambda x: F.hardswish(x, inplace=True),
    "hardtanh_": lambda x: F.hardtanh(x, inplace=True),
    "mish_": lambda x: F.mish(x, inplace=True),
    "silu_": lambda x: F.silu(x, inplace=True),
    "elu_": lambda x: F.elu(x, 0.7, inplace=True),
    "celu_": lambda x: torch.celu_(x, 0.7),
    "leaky_relu_": lambda x: F.leaky_relu(x, 0.2, inplace=True),
    "threshold_": lambda x: F.threshold(x, 0.1, 0.0, inplace=True),
}


def activation() -> list[Case]:
    inputs = [(x,) for x in floats(-4, 4) if _dim(x) == 2]
    cases = [Case(n, with_gradient(f), inputs) for n, f in ACTIVATIONS.items()]
    cases += [Case(n, f, inputs) for n, f in INPLACE_ACTIVATIONS.items()]
    cases += [
        Case("softmax to float32", lambda x: torch.softmax(x, 1, torch.float32), inputs[-2:]),
        Case("_add_relu", torch._VF._add_relu, [(f32(4), f32(4, seed=1))]),
        Case("_add_relu_", torch._VF._add_relu_, [(f32(4), f32(4, seed=1))]),
        Case("glu", with_gradient(F.glu), [(f32(4, 6),), (f32(4, 6).bfloat16(),)]),
        Case("prelu of one", with_gradient(F.prelu, 2), [(f32(3, 4, 2), torch.tensor([0.2]))]),
        Case("prelu of channels", with_gradient(F.prelu, 2), [(f32(3, 4, 2), f32(4, seed=1))]),
    ]
    return cases


def _dim(x: Tensor | View) -> int:
    return (x.on("cpu") if isinstance(x, View) else x).dim()


def loss() -> list[Case]:
    x, y = f32(5, 3), f32(5, 3, seed=1)
    p, t = f32(5, 3, low=0.01, high=0.99), f32(5, 3, seed=1, low=0, high=1)
    w = f32(5, 3, seed=2, low=0.5, high=2)
    classes = torch.tensor([0, 2, 1, 2, 0])
    half = (x.bfloat16(), t.bfloat16())
    cases = []
    for how in ("mean", "sum", "none"):
        pairs: dict[str, tuple[Callable[..., Tensor], list[tuple[Any, ...]]]] = {
            "mse_loss": (F.mse_loss, [(x, y), half]),
            "l1_loss": (F.l1_loss, [(x, y)]),
            "smooth_l1_loss": (F.smooth_l1_loss, [(x, y)]),
            "soft_margin_loss": (F.soft_margin_loss, [(x, y.sign())]),
            "bce": (F.binary_cross_entropy, [(p, t)]),
            "bce weight": (lambda a, b, c, **k: F.binary_cross_entropy(a, b, c, **k), [(p, t, w)]),
            "bce_with_logits": (F.binary_cross_entropy_with_logits, [(x, t), half]),
            "bce_with_logits weight": (_bce_weights, [(x, t, w, w[0])]),
            "kl_div": (F.kl_div, [(torch.log_softmax(x, 1), torch.softmax(y, 1))]),
            "nll_loss": (F.nll_loss, [(torch.log_softmax(x, 1), classes)]),
            "nll_loss weight": (_nll_weight, [(torch.log_softmax(x, 1), classes, w[0])]),
            "cross_entropy": (F.cross_entropy, [(x, classes)]),
        }
        for name, (function, arguments) in pairs.items():
            cases.append(
                Case(f"{name} {how}", with_gradient(_reduced(function, how)), arguments, 1e-6)
            )
    return cases


def _reduced(function: Callable[..., Tensor], how: str) -> Callable[..., Tensor]:
    return lambda *arguments: function(*arguments, reduction=how)


def _bce_weights(x: Tensor, t: Tensor, w: Tensor, p: Tensor, reduction: str) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, t, w, reduction=reduction, pos_weight=p)


def _nll_weight(x: Tensor, t: Tensor, w: Tensor, reduction: str) -> Tensor:
    return F.nll_loss(x, t, w, reduction=reduction)


def cases() -> dict[str, list[Case]]:
    return {"activation": activation(), "loss": loss()}
