"""Cases: embedding tables and normalisation layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from opapi_cases import Case, View, f32, with_gradient
from torch import Tensor


def embedding() -> list[Case]:
    table, ids = f32(9, 4), torch.tensor([[1, 8, 0], [3, 3, 1]])
    flat, starts = torch.tensor([1, 8, 0, 3, 3, 1]), torch.tensor([0, 2, 2, 5])
    ends = torch.tensor([0, 2, 2, 5, 6])
    weights = f32(6, seed=3)

    def bag(**options: Any) -> Callable[..., Tensor]:
        return lambda w, i, o: F.embedding_bag(i, w, o, **options)

    plain = [(table, flat, starts), (table.half(), flat, starts), (table, flat.int(), starts.int())]
    nothing = (table, torch.tensor([], dtype=torch.int64), torch.tensor([0, 0]))
    last = [(table, flat, ends), (table, torch.tensor([], dtype=torch.int64), torch.tensor([0, 0]))]
    return [
        Case(
            "embedding",
            with_gradient(lambda w, i: F.embedding(i, w)),
            [(table, ids), (table, ids.int())],
        ),
        Case("embedding padding", with_gradient(lambda w, i: F.embedding(i, w, 3)), [(table, ids)]),
        Case("embedding by freq", with_gradient(_by_frequency), [(table, ids)]),
        Case(
            "embedding max_norm",
            lambda w, i: F.embedding(i, w, max_norm=0.7, norm_type=1.0),
            [(table, ids)],
        ),
        Case("embedding_bag sum", bag(mode="sum"), [*plain, nothing]),
        Case("embedding_bag mean", bag(mode="mean"), [*plain, nothing]),
        Case("embedding_bag max", bag(mode="max"), [(table, flat, starts)]),
        Case("embedding_bag last offset", bag(mode="sum", include_last_offset=True), last),
        Case("embedding_bag mean last", bag(mode="mean", include_last_offset=True), last),
        Case("embedding_bag padding", bag(mode="sum", padding_idx=3), [(table, flat, starts)]),
        Case(
            "embedding_bag mean padding", bag(mode="mean", padding_idx=3), [(table, flat, starts)]
        ),
        Case(
            "embedding_bag weights",
            lambda w, i, o, p: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
            [(table, flat, starts, weights)],
        ),
    ]


def _by_frequency(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table, scale_grad_by_freq=True)


def norm() -> list[Case]:
    x, w, b = f32(4, 6), f32(6, seed=1), f32(6, seed=2)
    images, channels = f32(2, 6, 3), f32(6, seed=3)

    def layer(x: Tensor, w: Tensor | None, b: Tensor | None) -> Tensor:
        return F.layer_norm(x, (6,), w, b)

    def group(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.group_norm(x, 3, w, b)

    def batch(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        mean, var = torch.zeros(6, device=x.device), torch.ones(6, device=x.device)
        y = F.batch_norm(x, mean, var, w, b, training=True)
        return y + mean.view(1, 6, *[1] * (x.dim() - 2)) + var.view(1, 6, *[1] * (x.dim() - 2))

    def batch_eval(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.batch_norm(x, w.detach() * 0.1, w.detach().abs() + 0.5, w, b)

    return [
        Case("layer_norm", with_gradient(layer, 3), [(x, w, b)], 1e-6),
        Case("layer_norm plain", with_gradient(layer), [(x, None, None)], 1e-6),
        Case(
            "layer_norm of views", with_gradient(layer), [(View(f32(6, 4), Tensor.t), w, b)], 1e-6
        ),
        Case("layer_norm of nothing", layer, [(f32(0, 6), w, b)]),
        Case("group_norm", with_gradient(group, 3), [(images, channels, b)], 1e-6),
        Case("batch_norm", with_gradient(batch, 3), [(x, w, b), (images, channels, b)], 1e-6),
        Case("batch_norm eval", with_gradient(batch_eval, 3), [(x, w, b)], 1e-6),
        Case("rms_norm", with_gradient(_rms_norm, 2), [(x, w)], 1e-6),
    ]


def _rms_norm(x: Tensor, w: Tensor) -> Tensor:
    if x.device.type == "cpu":
        return F.rms_norm(x, (6,), w, 1e-6)
    import torch_npu

    return torch_npu.npu_rms_norm(x, w, 1e-6)[0]


def cases() -> dict[str, list[Case]]:
    return {"embedding": embedding(), "norm": norm()}
