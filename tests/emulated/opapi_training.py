"""Cases: lists of tensors, optimizers, gradient scaling and clipping, quantised products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from opapi_cases import Case, View, f32, i64
from torch import Tensor, nn

FOREACH_UNARY = {
    "abs": (-2, 2), "acos": (-1, 1), "asin": (-1, 1), "atan": (-2, 2), "ceil": (-2, 2),
    "cos": (-2, 2), "cosh": (-2, 2), "erf": (-2, 2), "erfc": (-2, 2), "exp": (-2, 2),
    "expm1": (-2, 2), "floor": (-2, 2), "frac": (-2, 2), "log": (0, 2), "log10": (0, 2),
    "log1p": (0, 2), "log2": (0, 2), "neg": (-2, 2), "reciprocal": (0.5, 2), "round": (-2, 2),
    "sigmoid": (-2, 2), "sign": (-2, 2), "sin": (-2, 2), "sinh": (-2, 2), "sqrt": (0, 2),
    "tan": (-1, 1), "tanh": (-2, 2), "trunc": (-2, 2),
}  # fmt: skip


def _list(seed: int = 0, low: float = 0.5, high: float = 2.0) -> list[Tensor]:
    """More tensors than one call of a foreach operator takes, of several shapes."""
    shapes = [(2, 3), (4,), (), (1, 5)] * 7
    return [f32(*shape, seed=seed + i, low=low, high=high) for i, shape in enumerate(shapes)]


def _foreach(name: str, **options: Any) -> Callable[..., Any]:
    return lambda *lists: getattr(torch, "_foreach_" + name)(*lists, **options)


def _numbers_on_host(name: str) -> Callable[..., Any]:
    return lambda x, a, b, numbers: getattr(torch, name)(x, a, b, numbers.cpu())


def _foreach_(name: str, **options: Any) -> Callable[..., Any]:
    def run(first: list[Tensor], *others: Any) -> list[Tensor]:
        getattr(torch, f"_foreach_{name}_")(first, *others, **options)
        return first

    return run


def foreach() -> list[Case]:
    cases = []
    for name, (low, high) in FOREACH_UNARY.items():
        argument = [(_list(low=low, high=high),)]
        cases.append(Case(f"_foreach_{name}", _foreach(name), argument))
        cases.append(Case(f"_foreach_{name}_", _foreach_(name), argument))
    numbers = [0.5 + 0.25 * i for i in range(28)]
    for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"):
        arguments = [(_list(), _list(50)), (_list(), 1.5), (_list(), numbers)]
        cases.append(Case(f"_foreach_{name}", _foreach(name), arguments))
        cases.append(Case(f"_foreach_{name}_", _foreach_(name), arguments))
    pair, triple = [(_list(), _list(50))], (_list(), _list(50), _list(90))
    for name in ("addcmul", "addcdiv"):
        ternary: list[tuple[Any, ...]] = [(*triple, 0.5), (*triple, numbers)]
        tensor = [(*triple, torch.tensor(numbers))]
        cases.append(Case(f"_foreach_{name} tensor", _numbers_on_host("_foreach_" + name), tensor))
        cases.append(Case(f"_foreach_{name}", _foreach(name), ternary))
        cases.append(Case(f"_foreach_{name}_", _foreach_(name), ternary))
    cases += [
        Case("_foreach_add alpha", _foreach("add", alpha=2), pair),
        Case("_foreach_sub_ alpha", _foreach_("sub", alpha=2), pair),
        Case("_foreach_lerp", _foreach("lerp"), [(*triple,), (_list(), _list(50), 0.3)]),
        Case("_foreach_lerp_", _foreach_("lerp"), [(*triple,), (_list(), _list(50), 0.3)]),
        Case("_foreach_pow of number", lambda y: torch._foreach_pow(2.0, y), [(_list(),)]),
        Case("_foreach_norm", _foreach("norm"), [(_list(),)]),
        Case("_foreach_copy_", _foreach_("copy"), pair),
        Case("_foreach_zero_", _foreach_("zero"), [(_list(),)]),
        Case("_foreach_mul of bfloat16", _foreach("mul"), [([x.bfloat16() for x in _list()], 0.3)]),
    ]
    return cases


Optimizer = Callable[[Any], torch.optim.Optimizer]
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "SGD": lambda p, **k: torch.optim.SGD(p, lr=0.1, **k),
    "SGD momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, **k),
    "Adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.1, **k),
    "Adam": lambda p, **k: torch.optim.Adam(p, lr=0.01, **k),
    "Adam amsgrad": lambda p, **k: torch.optim.Adam(p, lr=0.01, amsgrad=True, **k),
    "Adam decay": lambda p, **k: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, maximize=True, **k),
    "AdamW": lambda p, **k: torch.optim.AdamW(p, lr=0.01, **k),
    "RMSprop": lambda p, **k: torch.optim.RMSprop(p, lr=0.01, centered=True, **k),
}


def optimizers() -> list[Case]:
    data = (f32(16, 5), i64(0, 2, 16).float())
    cases = []
    for name, make in OPTIMIZERS.items():
        for foreach in (False, True):
            train = _training(lambda p, m=make, f=foreach: m(p, foreach=f))  # type: ignore[misc]
            cases.append(Case(f"{name} foreach={foreach}", train, [data], 1e-6))
    # What a fused step computes on the card, in one go, rounds in another order.
    for name in ("SGD momentum", "AdamW", "Adam", "Adam decay", "Adam amsgrad"):
        make = OPTIMIZERS[name]
        train = _training(lambda p, m=make: m(p, fused=True))  # type: ignore[misc]
        cases.append(Case(f"{name} fused", train, [data], 1e-5))
    cases += [
        Case("clip_grad_norm_", _training(OPTIMIZERS["SGD"], clip=0.05), [data], 1e-6),
        Case("GradScaler", _scaled_training(OPTIMIZERS["SGD"]), [data], 1e-6),
        Case("GradScaler fused", _scaled_training(_fused_adam), [data], 1e-5),
        Case("GradScaler overflow", _overflow, [(f32(4),)]),
    ]
    return cases


def _network(device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)


def _training(make: Optimizer, clip: float | None = None) -> Callable[..., list[Tensor]]:
    def run(x: Tensor, y: Tensor) -> list[Tensor]:
        model = _network(x.device)
        optimizer = make(model.parameters())
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            loss.backward()
            if clip is not None:
                losses.append(nn.utils.clip_grad_norm_(model.parameters(), clip))
            optimizer.step()
            losses.append(loss.detach())
        return [*losses, *model.parameters()]

    return run


def _scaled_training(make: Optimizer) -> Callable[..., list[Tensor]]:
    def run(x: Tensor, y: Tensor) -> list[Tensor]:
        model = _network(x.device)
        optimizer = make(model.parameters())
        scaler = torch.amp.GradScaler(x.device.type, init_scale=256.0, growth_interval=2)
        for _ in range(4):
            optimizer.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        return [torch.tensor(scaler.get_scale()), *model.parameters()]

    return run


def _fused_adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01, fused=True)


def _overflow(w: Tensor) -> list[Any]:
    """An infinite gradient: the step is left out, the scale halves."""
    w.requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler(w.device.type, init_scale=256.0)
    scaler.scale((w * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return [w, scaler.get_scale()]


def quantised() -> list[Case]:
    def multiply(x: Tensor, w: Tensor, scale: Tensor, **options: Any) -> Tensor:
        if x.device.type == "cpu":
            return _reference(x, w, scale, **options)
        import torch_npu

        return torch_npu.npu_weight_quant_batchmatmul(x, w, scale, **options)

    x = f32(3, 64).half()
    w = i64(-128, 128, 64, 32).to(torch.int8)
    nibbles = i64(-8, 8, 64, 32, seed=4)
    packed = _pack(nibbles)
    one, column, group = (
        f32(1, low=0.01).half(),
        f32(32, low=0.01).half(),
        f32(2, 32, low=0.01).half(),
    )
    offset, bias = f32(32, seed=8).half(), f32(32, seed=9).half()
    transposed = View(i64(-128, 128, 32, 64).to(torch.int8), Tensor.t)
    return [
        Case("weight_quant one scale", multiply, [(x, w, one)], 2e-3),
        Case("weight_quant by column", multiply, [(x, w, column), (x, transposed, column)], 2e-3),
        Case(
            "weight_quant by group",
            lambda *a: multiply(*a, antiquant_group_size=32),
            [(x, w, group)],
            2e-3,
        ),
        Case("weight_quant int4", multiply, [(x, packed, column)], 2e-3),
        Case(
            "weight_quant inner_precise",
            lambda *a: multiply(*a, inner_precise=1),
            [(x, packed, column)],
            2e-3,
        ),
        Case(
            "weight_quant offset, bias",
            lambda x, w, s, o, b: multiply(x, w, s, antiquant_offset=o, bias=b),
            [(x, w, column, offset, bias)],
            2e-3,
        ),
        Case("npu_quantize divide", _quantize, [(f32(4, 6), f32(6, low=0.1), i64(-3, 3, 6).int())]),
        Case("npu_quantize", _scale_up, [(f32(4, 6), f32(6, low=20, high=90), f32(6).round())]),
        Case("npu_anti_quant", _anti_quant, [(i64(-128, 128, 4, 6).to(torch.int8), f32(6))], 1e-3),
    ]


def _quantize(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return ((x / scale).round() + zero).clamp(-128, 127).to(torch.int8)
    import torch_npu

    return torch_npu.npu_quantize(x, scale, zero, torch.qint8, 1)


def _scale_up(x: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return (x * scale + offset).round().clamp(-128, 127).to(torch.int8)
    import torch_npu

    return torch_npu.npu_quantize(x, scale, offset, torch.qint8, -1, False)


def _anti_quant(x: Tensor, scale: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return (x.float() * scale).half()
    import torch_npu

    return torch_npu.npu_anti_quant(x, scale, dst_dtype=torch.float16)


def _pack(values: Tensor) -> Tensor:
    """Eight int4 in an int32, the first in the lowest bits."""
    shifts = torch.arange(0, 32, 4)
    whole = ((values.view(values.shape[0], -1, 8) & 15) << shifts).sum(-1)
    return torch.where(whole >= 1 << 31, whole - (1 << 32), whole).to(torch.int32)


def _reference(
    x: Tensor,
    w: Tensor,
    scale: Tensor,
    antiquant_offset: Tensor | None = None,
    bias: Tensor | None = None,
    antiquant_group_size: int = 0,
    inner_precise: int = 0,
) -> Tensor:
    if w.dtype == torch.int32:
        nibbles = (w.unsqueeze(-1) >> torch.arange(0, 32, 4)) & 15
        w = torch.where(nibbles > 7, nibbles - 16, nibbles).flatten(-2)
    weight = w.float()
    if antiquant_offset is not None:
        weight = weight + antiquant_offset.float()
    if antiquant_group_size:
        scale = scale.repeat_interleave(antiquant_group_size, 0)
    y = x.float() @ (weight * scale.float())
    return (y if bias is None else y + bias.float()).half()


def cases() -> dict[str, list[Case]]:
    return {"foreach": foreach(), "optimizers": optimizers(), "quantised": quantised()}
