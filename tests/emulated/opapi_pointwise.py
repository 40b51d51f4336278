"""Cases: functions element by element, and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from opapi_cases import Case, View, bools, each, f32, floats, i64, ints
from torch import Tensor

# name: (low, high) of its inputs
UNARY = {
    "abs": (-2, 2), "acos": (-1, 1), "acosh": (1, 4), "asin": (-1, 1), "asinh": (-2, 2),
    "atan": (-2, 2), "atanh": (-0.9, 0.9), "ceil": (-2, 2), "cos": (-2, 2), "cosh": (-2, 2),
    "erf": (-2, 2), "erfc": (-2, 2), "erfinv": (-0.9, 0.9), "exp": (-2, 2), "exp2": (-2, 2),
    "expm1": (-2, 2), "floor": (-2, 2), "frac": (-2, 2), "log": (-1, 4), "log10": (0, 4),
    "log1p": (0, 4), "log2": (0, 4), "logical_not": (-1, 1), "neg": (-2, 2),
    "reciprocal": (-2, 2), "relu": (-2, 2), "round": (-2, 2), "rsqrt": (0, 4), "sigmoid": (-4, 4),
    "sign": (-2, 2), "sin": (-2, 2), "sinc": (-2, 2), "sinh": (-2, 2), "sqrt": (-1, 4),
    "square": (-2, 2), "tan": (-1, 1), "tanh": (-2, 2), "trunc": (-2, 2), "isfinite": (-2, 2),
    "isnan": (-2, 2), "signbit": (-2, 2), "isneginf": (-2, 2), "isposinf": (-2, 2),
}  # fmt: skip
ONLY_OUT = {"isfinite", "isnan", "signbit", "isneginf", "isposinf"}


def _inplace(name: str) -> Callable[[Tensor], Tensor]:
    return lambda x: getattr(x, name + "_")()


def _special() -> Tensor:
    return torch.tensor([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan")])


def unary() -> list[Case]:
    cases = []
    for name, (low, high) in UNARY.items():
        inputs = [(x,) for x in [*floats(low, high), _special()]]
        cases.append(Case(name, getattr(torch, name), inputs))
        if name not in ONLY_OUT:
            cases.append(Case(name + "_", _inplace(name), inputs))
    signed = [(x,) for x in ints() if not isinstance(x, Tensor) or x.dtype != torch.uint8]
    cases += [
        Case("abs of ints", torch.abs, signed),
        Case("neg of ints", torch.neg, signed),
        Case("sign of ints", torch.sign, signed),
        Case("exp of ints", torch.exp, [(i64(-2, 3, 5),)]),
        Case("isfinite of ints", torch.isfinite, [(x,) for x in ints()]),
        Case("bitwise_not", torch.bitwise_not, [(x,) for x in [*ints(), *bools()]]),
        Case("logical_not of bools", torch.logical_not, [(x,) for x in bools()]),
        Case("round decimals", lambda x: x.round(decimals=2), [(f32(4, 5),)]),
        Case("round_ decimals", lambda x: x.round_(decimals=1), [(f32(4, 5),)]),
        Case("nan_to_num", lambda x: torch.nan_to_num(x, 1.5, 9.0, -9.0), [(_special(),)]),
        Case("nan_to_num_", lambda x: x.nan_to_num_(), [(_special(),)]),
    ]
    return cases


def _pairs() -> list[tuple[Any, Any]]:
    """Two float tensors: every layout and type, broadcasts, mixed types, a number."""
    return [
        *each(floats(), floats(0.5, 2, seed=1)),
        (f32(4, 1, 3), f32(2, 1, seed=1)),
        (f32(3, 4), torch.tensor(1.5)),
        (f32(3, 4), i64(1, 4, 3, 4)),
        (f32(3, 4).half(), f32(3, 4, seed=1)),
        (f32(3, 4), 2.5),
        (f32(3, 4), 2),
        (f32(0), 2.0),
    ]


def _int_pairs() -> list[tuple[Any, Any]]:
    return [*each(ints(), ints(1, 5, seed=1)), (i64(-8, 8, 3, 4), 3)]


ARITHMETIC = ("add", "sub", "mul", "div", "floor_divide", "fmod", "remainder", "pow", "true_divide")


def binary() -> list[Case]:
    cases = []
    same = [pair for pair in _pairs() if _keeps_type(*pair)]
    for name in ARITHMETIC:
        cases.append(Case(name, getattr(torch, name), _pairs()))
        cases.append(Case(name + "_", _inplace2(name), same))
        if name not in ("true_divide",):
            cases.append(Case(name + " of ints", getattr(torch, name), _int_pairs()))
    for mode in ("floor", "trunc"):
        divide = _divide(mode)
        cases.append(Case(f"div {mode}", divide, _pairs() + _int_pairs()))
        cases.append(Case(f"div_ {mode}", _divide_(mode), same))
    numbers = each(floats(0.5, 2))
    cases += [
        Case("add alpha", lambda x, y: torch.add(x, y, alpha=3), _pairs() + _int_pairs()),
        Case("sub alpha", lambda x, y: torch.sub(x, y, alpha=2), _pairs() + _int_pairs()),
        Case("add_ alpha", lambda x, y: x.add_(y, alpha=3), same),
        Case("sub_ alpha", lambda x, y: x.sub_(y, alpha=2), same),
        Case("rsub number", lambda x: 1.5 - x, numbers),
        Case("rsub", lambda x, y: torch.rsub(x, y, alpha=2), _pairs()),
        Case("number + x", lambda x: torch.tensor(2.0) + x, numbers),
        Case("number / x", lambda x: 2.0 / x, numbers),
        Case("number ** x", lambda x: 2.0**x, numbers),
        Case("number % x", lambda x: torch.remainder(2.0, x), numbers),
        Case("maximum", torch.maximum, each(floats(), floats(seed=1))),
        Case("minimum", torch.minimum, each(floats(), floats(seed=1))),
        Case("fmax of ints", torch.maximum, each(ints(), ints(seed=1))),
        Case("atan2", torch.atan2, each(floats(), floats(seed=1))),
        Case("atan2_", lambda x, y: x.atan2_(y), each(floats(), floats(seed=1))),
        Case("gcd", torch.gcd, [(i64(1, 60, 9), i64(1, 60, 9, seed=1))]),
        Case("logaddexp", torch.logaddexp, [(f32(9), f32(9, seed=1))]),
        Case("logaddexp2", torch.logaddexp2, [(f32(9), f32(9, seed=1))]),
        Case("xlogy", torch.xlogy, each(floats(), floats(0.5, 2, seed=1))),
        Case("xlogy number", lambda x: torch.xlogy(x, 2.0), numbers),
        Case("xlogy of number", lambda x: torch.xlogy(2.0, x), numbers),
        Case("xlogy_ number", lambda x: x.xlogy_(2.0), numbers),
        Case("lerp", torch.lerp, [(f32(4), f32(4, seed=1), f32(4, seed=2))]),
        Case("lerp number", lambda x, y: torch.lerp(x, y, 0.3), [(f32(4), f32(4, seed=1))]),
        Case("lerp_", lambda x, y, w: x.lerp_(y, w), [(f32(4), f32(4, seed=1), f32(4, seed=2))]),
        Case("lerp_ number", lambda x, y: x.lerp_(y, 0.3), [(f32(4), f32(4, seed=1))]),
        Case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), _triples()),
        Case("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=0.5), _triples()),
        Case("addcmul_", lambda x, a, b: x.addcmul_(a, b, value=0.5), _triples()),
        Case("addcdiv_", lambda x, a, b: x.addcdiv_(a, b, value=0.5), _triples()),
        *_clamps(),
        *_logical(),
    ]
    return cases


def _keeps_type(x: Tensor | View, y: Any) -> bool:
    a, b = (v.on("cpu") if isinstance(v, View) else v for v in (x, y))
    result = torch.add(a, b)
    return result.dtype == a.dtype and result.shape == a.shape


def _inplace2(name: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, y: getattr(x, name + "_")(y)


def _divide(mode: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, y: torch.div(x, y, rounding_mode=mode)


def _divide_(mode: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda x, y: x.div_(y, rounding_mode=mode)


def _triples() -> list[tuple[Any, ...]]:
    last = (f32(3, 4), f32(3, 1, seed=1), f32(1, 4, seed=2, low=0.5))
    return [*each(floats(), floats(seed=1), floats(0.5, 2, seed=2)), last]


def _clamps() -> list[Case]:
    numbers = each(floats())
    low, high = f32(6, seed=1) - 1, f32(6, seed=1)
    return [
        Case("clamp", lambda x: x.clamp(-0.5, 0.5), numbers),
        Case("clamp of ints", lambda x: x.clamp(1, 3), each(ints())),
        Case("clamp_", lambda x: x.clamp_(-0.5, 0.5), numbers),
        Case("clamp min", lambda x: x.clamp(min=-0.5), numbers),
        Case("clamp max", lambda x: x.clamp(max=0.5), numbers),
        Case("clamp_min", lambda x: torch.clamp_min(x, 0.1), numbers),
        Case("clamp_max", lambda x: torch.clamp_max(x, 0.1), numbers),
        Case("clamp_min_", lambda x: x.clamp_min_(0.1), numbers),
        Case("clamp_max_", lambda x: x.clamp_max_(0.1), numbers),
        Case("clamp tensors", torch.clamp, [(f32(4, 6), low, high)]),
        Case("clamp min tensor", lambda x, y: torch.clamp(x, min=y), [(f32(4, 6), low)]),
        Case("clamp_min tensor", torch.clamp_min, [(f32(4, 6), low)]),
        Case("clamp_max tensor", torch.clamp_max, [(f32(4, 6), low)]),
        Case("clamp_min_ tensor", lambda x, y: x.clamp_min_(y), [(f32(4, 6), low)]),
        Case("clamp_max_ tensor", lambda x, y: x.clamp_max_(y), [(f32(4, 6), low)]),
    ]


def _logical() -> list[Case]:
    cases = []
    for name in ("logical_and", "logical_or", "logical_xor"):
        pairs = each(bools(), bools(1)) + each(floats(-1, 1), ints(-1, 1, seed=1)[:7])
        cases.append(Case(name, getattr(torch, name), pairs))
        cases.append(Case(name + "_", _inplace2(name), pairs))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        pairs = each(ints(), ints(seed=1)) + each(bools(), bools(1)) + [(i64(0, 9, 4), 6)]
        cases.append(Case(name, getattr(torch, name), pairs))
        cases.append(Case(name + "_", _inplace2(name), pairs))
    shifts = [(i64(0, 99, 8), i64(0, 4, 8, seed=1))]
    for name in ("bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__"):
        function = getattr(torch, name, None) or getattr(Tensor, name)
        cases.append(Case(name, function, [*shifts, (i64(0, 99, 8), 2)]))
    return cases


def comparison() -> list[Case]:
    cases = []
    pairs = each(floats(-1, 1), floats(-1, 1, seed=1)) + each(ints(-2, 2), ints(-2, 2, seed=1))
    pairs += [(f32(3, 4), 0.5), (i64(0, 3, 9), 1), (f32(3, 1), f32(1, 4)), (_special(), 0.0)]
    for name in ("eq", "ne", "gt", "ge", "lt", "le"):
        cases.append(Case(name, getattr(torch, name), pairs))
        cases.append(Case(name + "_", _inplace2(name), [p for p in pairs if _keeps_type(*p)]))
    cases += [
        Case("equal", lambda x, y: torch.equal(x, y), [(f32(3), f32(3)), (f32(3), f32(3, seed=1))]),
        Case(
            "isclose loose",
            lambda x, y: torch.isclose(x, y, 0.5, 0.1),
            [(f32(40), f32(40, seed=1))],
        ),
        Case("isclose", torch.isclose, [(f32(9), f32(9) + 1e-6), (f32(9), f32(9, seed=1))]),
        Case("allclose", torch.allclose, [(f32(9), f32(9)), (f32(9), f32(9, seed=1))]),
        Case("isin", torch.isin, [(i64(0, 9, 20), torch.tensor([1, 5])), (i64(0, 9, 20), 3)]),
        Case("isin inverted", lambda x: torch.isin(x, 3, invert=True), [(i64(0, 9, 20),)]),
        Case("isin of number", lambda y: torch.isin(3, y), [(torch.tensor([1, 3]),)]),
        Case("where", torch.where, each(bools(), floats()[:5], floats(seed=1)[:5])),
        Case("where number", lambda c, x: torch.where(c, x, 0.5), each(bools(), floats()[:5])),
        Case("masked_fill", lambda x, m: x.masked_fill(m, 7.0), each(floats()[:5], bools())),
        Case(
            "masked_fill tensor",
            lambda x, m: x.masked_fill(m, torch.tensor(7.0, device=x.device)),
            each(floats()[:5], bools()),
        ),
        Case("masked_select", torch.masked_select, each(floats()[:5], bools())),
        Case(
            "masked_scatter",
            lambda x, m, s: x.masked_scatter(m, s),
            [(f32(4, 6), f32(4, 6) > 0, f32(24, seed=1))],
        ),
    ]
    return cases


def cases() -> dict[str, list[Case]]:
    return {"unary": unary(), "binary": binary(), "comparison": comparison()}
