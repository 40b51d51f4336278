"""fbgemm's operators on jagged tensors, made of stock operators: what TorchRec calls on its way.

fbgemm has no kernels for an NPU, and torch_npu would run its CPU kernels there: two copies and a
wait at each call. Registered for the NPU by :func:`register`; the functions themselves work on any
device, and tests hold them against fbgemm's CPU kernels.

A host sync is left where the size of a result is on the device and the caller did not give it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torchrec_ascend.ops.order import ascending

Jagged = tuple[Tensor, Tensor, Tensor | None]


def asynchronous_complete_cumsum(t_in: Tensor) -> Tensor:
    """[..., n] -> [..., n + 1]: from 0 to the sum of the last dim."""
    sums = torch.cumsum(t_in, -1, dtype=t_in.dtype)
    return torch.cat([_zero(t_in), sums], -1)


def _zero(like: Tensor) -> Tensor:
    return like.new_zeros((*like.shape[:-1], 1))


def asynchronous_inclusive_cumsum(t_in: Tensor) -> Tensor:
    """[n] -> [n]: sums up to and with each."""
    return torch.cumsum(t_in, 0, dtype=t_in.dtype)


def asynchronous_exclusive_cumsum(t_in: Tensor) -> Tensor:
    """[n] -> [n]: sums before each."""
    return asynchronous_complete_cumsum(t_in)[:-1]


def segment_of(sizes: Tensor, total: int) -> Tensor:
    """[total] int64: the segment that each element lies in. sizes: [n], summing to total."""
    segments = torch.arange(sizes.numel(), device=sizes.device)
    return torch.repeat_interleave(segments, sizes, output_size=total)


def _segments(starts: Tensor, sizes: Tensor, total: int) -> Tensor:
    """[total] int64: starts[i], starts[i] + 1, ... sizes[i] of them, for each segment i."""
    ends = torch.cumsum(sizes, 0, dtype=torch.int64)
    shift = (starts - ends + sizes).long()
    index = torch.arange(total, device=starts.device)
    return index + torch.repeat_interleave(shift, sizes, output_size=total)


def _total(sizes: Tensor, given: int | None) -> int:
    return int(sizes.sum()) if given is None else int(given)


def permute_1D_sparse_data(
    permute: Tensor, lengths: Tensor, values: Tensor, weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Jagged:  # fmt: skip
    """Segments of `values`, lengths[i] each, in the order of `permute`.

    Args:
        permute: [n'] which segment comes where; may repeat or leave out.
        lengths: [n]. values, weights: [sum(lengths)].
        permuted_lengths_sum: size of the result; without it the device is asked.
    """
    permute = permute.long()
    starts = asynchronous_exclusive_cumsum(lengths.long()).index_select(0, permute)
    sizes = lengths.index_select(0, permute)
    index = _segments(starts, sizes, _total(sizes, permuted_lengths_sum))
    picked = None if weights is None else weights.index_select(0, index)
    return sizes, values.index_select(0, index), picked


def permute_2D_sparse_data(
    permute: Tensor, lengths: Tensor, values: Tensor, weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Jagged:  # fmt: skip
    """As :func:`permute_1D_sparse_data`, lengths [T, B]: a segment is all bags of a feature."""
    _, permuted, picked = permute_1D_sparse_data(
        permute, lengths.sum(1), values, weights, permuted_lengths_sum
    )
    return lengths.index_select(0, permute.long()), permuted, picked


def permute_2D_sparse_data_input1D(
    permute: Tensor, lengths: Tensor, values: Tensor, stride: int, weights: Tensor | None = None,
    permuted_lengths_sum: int | None = None,
) -> Jagged:  # fmt: skip
    """As :func:`permute_2D_sparse_data`, lengths flat: [T * stride]."""
    by_feature = lengths.view(-1, stride) if stride else lengths.view(permute.numel(), 0)
    sizes, permuted, picked = permute_2D_sparse_data(
        permute, by_feature, values, weights, permuted_lengths_sum
    )
    return sizes.view(-1), permuted, picked


def expand_into_jagged_permute(
    permute: Tensor, input_offset: Tensor, output_offset: Tensor, output_size: int
) -> Tensor:
    """[output_size]: the permute of segments as one of their elements.

    Args:
        permute: [n'] segments; input_offset: [n + 1] where they begin; output_offset: [n' + 1].
    """
    starts = input_offset.long().index_select(0, permute.long())
    return _segments(starts, output_offset.long().diff(), output_size).to(permute.dtype)


def invert_permute(permute: Tensor) -> Tensor:
    """[n]: the permute that undoes it."""
    index = torch.arange(permute.numel(), device=permute.device, dtype=permute.dtype)
    return torch.empty_like(permute).scatter_(0, permute.long(), index)


def offsets_range(offsets: Tensor, range_size: int) -> Tensor:
    """[range_size]: 0, 1, ... anew in each segment. offsets: [n], where segments begin."""
    ends = torch.cat([offsets[1:], offsets.new_full((1,), range_size)])
    sizes = ends - offsets
    return _segments(torch.zeros_like(offsets), sizes, range_size).to(offsets.dtype)


def segment_sum_csr(batch_size: int, csr_seg: Tensor, values: Tensor) -> Tensor:
    """[n]: sums of values[batch_size * csr_seg[i] : batch_size * csr_seg[i + 1]]."""
    bounds = csr_seg.long() * batch_size
    flat = values.view(-1)
    if values.is_floating_point():  # a difference of prefix sums would lose digits
        owner = segment_of(bounds.diff(), flat.numel())
        return flat.new_zeros(bounds.numel() - 1).index_add_(0, owner, flat)
    sums = torch.cat([_zero(flat), torch.cumsum(flat, 0)])
    return sums.index_select(0, bounds).diff().to(values.dtype)


def block_bucketize_sparse_features(
    lengths: Tensor, indices: Tensor, bucketize_pos: bool, sequence: bool, block_sizes: Tensor,
    my_size: int, weights: Tensor | None = None, batch_size_per_feature: Tensor | None = None,
    max_B: int = -1, block_bucketize_pos: list[Tensor] | None = None, keep_orig_idx: bool = False,
    total_num_blocks: Tensor | None = None, keep_orig_idx_per_feature: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Ids by the rank whose rows they name, for row-wise sharding.

    Rank of an id: id // block_sizes[feature]; beyond the last rank: id % my_size. There its id is
    id % block_sizes[feature] or, beyond, id // my_size; with keep_orig_idx it stays.

    Args:
        lengths: [F * B] (or, with batch_size_per_feature, their sum), features first.
        indices: [N]; weights: [N].
        bucketize_pos: return each id's position in its bag.
        sequence: return where each id went.
        block_sizes: [F] rows of a rank.
        my_size: ranks.
        block_bucketize_pos: [F] of [my_size + 1] first rows, where ranks have unequal rows.

    Returns:
        lengths [my_size * F * B] by rank, ids [N], weights, positions, where each id went [N].

    Raises:
        NotImplementedError: total_num_blocks.
    """
    if total_num_blocks is not None:
        raise NotImplementedError("block_bucketize_sparse_features: total_num_blocks on an NPU")
    bags, count = lengths.numel(), indices.numel()
    features = block_sizes.numel()
    sizes = lengths.view(-1).long()
    bag = segment_of(sizes, count)
    if batch_size_per_feature is None:
        feature = bag.div(max(bags // max(features, 1), 1), rounding_mode="floor")
    else:
        of_bag = segment_of(batch_size_per_feature.long(), bags)
        feature = of_bag.index_select(0, bag)
    if block_bucketize_pos is None:
        rank, local = _even_blocks(indices, block_sizes.index_select(0, feature), my_size)
    else:
        rank, local = _uneven_blocks(indices, feature, block_bucketize_pos, my_size)
    if keep_orig_idx:
        local = indices
    elif keep_orig_idx_per_feature is not None:
        kept = keep_orig_idx_per_feature.bool().index_select(0, feature)
        local = torch.where(kept, indices, local)
    key = rank.long() * bags + bag
    order = ascending(key)
    new_lengths = torch.zeros(my_size * bags, dtype=torch.int32, device=lengths.device)
    new_lengths.index_add_(0, key, torch.ones_like(key, dtype=torch.int32))
    position = None
    if bucketize_pos:
        starts = asynchronous_exclusive_cumsum(sizes).index_select(0, bag)
        within = torch.arange(count, device=lengths.device) - starts
        position = within.index_select(0, order).to(indices.dtype)
    return (
        new_lengths.to(lengths.dtype),
        local.index_select(0, order),
        None if weights is None else weights.index_select(0, order),
        position,
        invert_permute(order).to(indices.dtype) if sequence else None,
    )


def _even_blocks(indices: Tensor, block: Tensor, ranks: int) -> tuple[Tensor, Tensor]:
    quotient = indices.div(block, rounding_mode="floor")
    inside = quotient < ranks
    rank = torch.where(inside, quotient, indices % ranks)
    local = torch.where(
        inside, indices - quotient * block, indices.div(ranks, rounding_mode="floor")
    )
    return rank, local.to(indices.dtype)


def _uneven_blocks(
    indices: Tensor, feature: Tensor, borders: list[Tensor], ranks: int
) -> tuple[Tensor, Tensor]:
    table = torch.stack([border[: ranks + 1] for border in borders]).to(indices.dtype)
    own = table.index_select(0, feature)  # [N, ranks + 1]
    found = (indices.unsqueeze(1) >= own[:, 1:]).sum(1)
    inside = found < ranks
    rank = torch.where(inside, found, indices % ranks)
    first = own.gather(1, rank.long().unsqueeze(1)).squeeze(1)
    local = torch.where(inside, indices - first, indices.div(ranks, rounding_mode="floor"))
    return rank, local.to(indices.dtype)


def permute_pooled_embs(
    pooled_embs: Tensor, offset_dim_list: Tensor, permute_list: Tensor,
    inv_offset_dim_list: Tensor, inv_permute_list: Tensor,
) -> Tensor:  # fmt: skip
    """[B, S] -> [B, S]: blocks of columns in another order.

    Args:
        offset_dim_list: [T + 1] where blocks begin; permute_list: [T] which block comes where; the
            inverses are for the backward pass.
    """
    permute = permute_list.long()
    offsets = offset_dim_list.to(permute.device).long()
    sizes = offsets.diff().index_select(0, permute)
    columns = _segments(offsets.index_select(0, permute), sizes, pooled_embs.shape[1])
    return pooled_embs.index_select(1, columns.to(pooled_embs.device))


class _PermutePooled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pooled: Tensor, *lists: Tensor) -> Tensor:
        ctx.save_for_backward(*lists)
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.fbgemm.permute_pooled_embs_split(pooled, *lists)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        offsets, permute, inverse_offsets, inverse = ctx.saved_tensors
        result = permute_pooled_embs(grad, inverse_offsets, inverse, offsets, permute)
        return result, None, None, None, None


def permute_pooled_embs_auto_grad_split(pooled_embs: Tensor, *lists: Tensor) -> Tensor:
    """:func:`permute_pooled_embs` with a gradient."""
    return _PermutePooled.apply(pooled_embs, *lists)


KERNELS: dict[str, Callable[..., Any]] = {
    "asynchronous_complete_cumsum": asynchronous_complete_cumsum,
    "asynchronous_inclusive_cumsum": asynchronous_inclusive_cumsum,
    "asynchronous_exclusive_cumsum": asynchronous_exclusive_cumsum,
    "permute_1D_sparse_data": permute_1D_sparse_data,
    "permute_2D_sparse_data": permute_2D_sparse_data,
    "permute_2D_sparse_data_input1D": permute_2D_sparse_data_input1D,
    "expand_into_jagged_permute": expand_into_jagged_permute,
    "invert_permute": invert_permute,
    "offsets_range": offsets_range,
    "segment_sum_csr": segment_sum_csr,
    "block_bucketize_sparse_features": block_bucketize_sparse_features,
    "permute_pooled_embs": permute_pooled_embs,
    "permute_pooled_embs_split": permute_pooled_embs,
}
AUTOGRAD_KERNELS: dict[str, Callable[..., Any]] = {
    "permute_pooled_embs_auto_grad_split": permute_pooled_embs_auto_grad_split
}

_library: torch.library.Library | None = None


def register(key: str = "PrivateUse1") -> list[str]:
    """Registers the kernels for a dispatch key, where fbgemm is installed and another package has
    none there. Returns the operators' names."""
    global _library
    if _library is not None or not hasattr(torch.ops.fbgemm, "permute_2D_sparse_data"):
        return []
    _library = torch.library.Library("fbgemm", "IMPL")
    names = []
    for kernels, at in ((KERNELS, key), (AUTOGRAD_KERNELS, f"Autograd{key}")):
        for name, kernel in kernels.items():
            if _is_free(name, at):
                _library.impl(name, kernel, at)
                names.append(name)
    return names


def _is_free(name: str, key: str) -> bool:
    operator = f"fbgemm::{name}"
    known = torch._C._dispatch_has_kernel(operator)
    return known and not torch._C._dispatch_has_kernel_for_dispatch_key(operator, key)
