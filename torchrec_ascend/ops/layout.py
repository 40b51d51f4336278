"""Meta kernels and autograd formulas of the layout operators, for every device.

recat and unrecat are inverse permutations, so each is the other's backward: with
``y = cast(scale * P x)``, ``dx = scale * P^T dy``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def _check_dtype(op: str, name: str, dtype: torch.dtype) -> None:
    if dtype not in _DTYPES:
        raise RuntimeError(
            f"{op}: {name} has dtype {dtype}, expected float32, float16, bfloat16 or float64"
        )


def _check_device(op: str, name: str, tensor: Tensor, other: Tensor) -> None:
    # A call that mixes devices, one of them meta, arrives here: PyTorch prefers the Meta kernel.
    if tensor.device != other.device:
        raise RuntimeError(f"{op}: {name} is on {tensor.device}, expected {other.device}")


def _check_dims(op: str, name: str, dims: Sequence[int], columns: int) -> None:
    for t, dim in enumerate(dims):
        if dim < 0:
            raise RuntimeError(f"{op}: {name}[{t}] is {dim}, expected >= 0")
    if sum(dims) != columns:
        raise RuntimeError(
            f"{op}: {name} = {list(dims)} covers {sum(dims)} columns, grad has {columns}"
        )


def _recat_meta(
    grad: Tensor, dims: Sequence[int], *, scale: float = 1.0, dtype: torch.dtype | None = None
) -> Tensor:
    _check_dtype("recat", "grad", grad.dtype)
    _check_dtype("recat", "dtype", dtype or grad.dtype)
    if grad.dim() not in (2, 3):
        raise RuntimeError(
            f"recat: grad has shape {list(grad.shape)}, expected [B, sum(dims)] or [B, T, D]"
        )
    _check_dims("recat", "dims", dims, math.prod(grad.shape[1:]))
    return grad.new_empty(grad.numel(), dtype=dtype or grad.dtype)


def _unrecat_meta(
    flat: Tensor, dims: Sequence[int], batch_size: int, *, dtype: torch.dtype | None = None
) -> Tensor:
    _check_dtype("unrecat", "flat", flat.dtype)
    _check_dtype("unrecat", "dtype", dtype or flat.dtype)
    if flat.dim() != 1:
        raise RuntimeError(f"unrecat: flat has shape {list(flat.shape)}, expected 1-D")
    _check_dims("unrecat", "dims", dims, sum(dims))
    if batch_size < 0:
        raise RuntimeError(f"unrecat: batch_size is {batch_size}, expected >= 0")
    if flat.shape[0] != batch_size * sum(dims):
        raise RuntimeError(
            f"unrecat: flat has {flat.shape[0]} elements, expected batch_size * sum(dims) = "
            f"{batch_size} * {sum(dims)} = {batch_size * sum(dims)}"
        )
    return flat.new_empty((batch_size, sum(dims)), dtype=dtype or flat.dtype)


def _check_out(op: str, out: Tensor, expected: Tensor) -> Tensor:
    _check_device(op, "out", out, expected)
    if out.shape != expected.shape:
        raise RuntimeError(
            f"{op}: out has shape {list(out.shape)}, expected {list(expected.shape)}"
        )
    if not out.is_contiguous():
        raise RuntimeError(f"{op}: out has strides {list(out.stride())}, expected contiguous")
    return out


def _recat_out_meta(
    grad: Tensor, dims: Sequence[int], *, scale: float = 1.0, out: Tensor
) -> Tensor:
    _check_dtype("recat", "out", out.dtype)
    return _check_out("recat", out, _recat_meta(grad, dims, dtype=out.dtype))


def _unrecat_out_meta(flat: Tensor, dims: Sequence[int], batch_size: int, *, out: Tensor) -> Tensor:
    _check_dtype("unrecat", "out", out.dtype)
    return _check_out("unrecat", out, _unrecat_meta(flat, dims, batch_size, dtype=out.dtype))


def _recat_setup(ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any, output: Any) -> None:
    grad, ctx.dims = inputs
    ctx.shape, ctx.dtype = grad.shape, grad.dtype
    ctx.scale = keyword_only_inputs["scale"]


def _recat_backward(ctx: Any, grad_flat: Tensor) -> tuple[Tensor, None]:
    # Scaled in the wider of the two dtypes: casting first could overflow what scale makes small.
    scaled = ctx.scale != 1.0
    dtype = torch.promote_types(ctx.dtype, grad_flat.dtype) if scaled else ctx.dtype
    rows = torch.ops.torchrec_ascend.unrecat(grad_flat, ctx.dims, ctx.shape[0], dtype=dtype)
    if scaled:
        rows = (rows * ctx.scale).to(ctx.dtype)
    return rows.view(ctx.shape), None


def _unrecat_setup(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: Any, output: Any
) -> None:
    flat, ctx.dims, _ = inputs
    ctx.dtype = flat.dtype


def _unrecat_backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
    return torch.ops.torchrec_ascend.recat(grad, ctx.dims, dtype=ctx.dtype), None, None


# fbgemm's three differ in how they say which columns go to which rank.
def _fbgemm_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    grad, dims, *offsets = inputs
    ctx.shape = grad.shape
    if offsets:
        ctx.save_for_backward(dims, *offsets)
    else:
        ctx.dims = [dim * (grad.shape[2] if grad.dim() == 3 else 1) for dim in dims]


def _fbgemm_backward(ctx: Any, grad_flat: Tensor) -> tuple[Tensor | None, ...]:
    if not ctx.saved_tensors:
        rows = torch.ops.torchrec_ascend.unrecat(grad_flat, ctx.dims, ctx.shape[0])
        return rows.view(ctx.shape), None
    # dims are on the device and may be unknown to the host: a gather, without a synchronisation.
    batch, width = ctx.shape
    dims, offsets = (
        torch.repeat_interleave(per_rank, ctx.saved_tensors[0], output_size=width)
        for per_rank in ctx.saved_tensors
    )
    column = torch.arange(width, device=dims.device)
    row = torch.arange(batch, device=dims.device).unsqueeze(1)
    return grad_flat[batch * offsets + row * dims + column - offsets], None, None


def _fbgemm_meta(grad_output: Tensor, num_features_per_rank: Sequence[int]) -> Tensor:
    op = "recat_embedding_grad_output"
    if grad_output.dim() != 3:
        raise RuntimeError(
            f"{op}: grad_output has shape {list(grad_output.shape)}, expected [B, T_global, D]"
        )
    total, expected = sum(num_features_per_rank), grad_output.shape[1]
    _check_dims(op, "num_features_per_rank", num_features_per_rank, total)
    if total != expected:
        raise RuntimeError(
            f"{op}: num_features_per_rank = {list(num_features_per_rank)} counts {total} features, "
            f"grad_output has {expected}"
        )
    return grad_output.new_empty(grad_output.numel())


def _fbgemm_mixed_meta(grad_output: Tensor, dim_sum_per_rank: Sequence[int]) -> Tensor:
    op = "recat_embedding_grad_output_mixed_D"
    _check_matrix(op, grad_output)
    _check_dims(op, "dim_sum_per_rank", dim_sum_per_rank, grad_output.shape[1])
    return grad_output.new_empty(grad_output.numel())


def _fbgemm_batch_meta(
    grad_output: Tensor, dim_sum_per_rank: Tensor, cumsum_dim_sum_per_rank: Tensor
) -> Tensor:
    op = "recat_embedding_grad_output_mixed_D_batch"
    _check_matrix(op, grad_output)
    _check_device(op, "dim_sum_per_rank", dim_sum_per_rank, grad_output)
    _check_device(op, "cumsum_dim_sum_per_rank", cumsum_dim_sum_per_rank, grad_output)
    return grad_output.new_empty(grad_output.numel())


def _check_matrix(op: str, grad_output: Tensor) -> None:
    if grad_output.dim() != 2:
        raise RuntimeError(
            f"{op}: grad_output has shape {list(grad_output.shape)}, "
            "expected [B, sum(dim_sum_per_rank)]"
        )


_FBGEMM_META: dict[str, Callable[..., Tensor]] = {
    "fbgemm::recat_embedding_grad_output": _fbgemm_meta,
    "fbgemm::recat_embedding_grad_output_mixed_D": _fbgemm_mixed_meta,
    "fbgemm::recat_embedding_grad_output_mixed_D_batch": _fbgemm_batch_meta,
}


def register() -> None:
    """Registers Meta and autograd for our operators, and for fbgemm's where fbgemm has none."""
    library = torch.library
    library.register_fake("torchrec_ascend::recat", _recat_meta)
    library.register_fake("torchrec_ascend::unrecat", _unrecat_meta)
    library.register_fake("torchrec_ascend::recat.out", _recat_out_meta)
    library.register_fake("torchrec_ascend::unrecat.out", _unrecat_out_meta)
    library.register_autograd("torchrec_ascend::recat", _recat_backward, setup_context=_recat_setup)
    library.register_autograd(
        "torchrec_ascend::unrecat", _unrecat_backward, setup_context=_unrecat_setup
    )
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    for op, meta in _FBGEMM_META.items():
        if not has_kernel(op, "Meta"):
            library.register_fake(op, meta)
        if not has_kernel(op, "Autograd"):
            library.register_autograd(op, _fbgemm_backward, setup_context=_fbgemm_setup)
