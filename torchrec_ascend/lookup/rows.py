"""Which rows a batch touches, each once, and the sums of their gradients. No host sync."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torchrec_ascend.ops.order import ascending


@dataclass(frozen=True)
class TouchedRows:
    """The distinct rows among N ids, in buffers sized by N: their count stays on the device.

    rows: [N] int64, ascending; unused places hold the spare row.
    order: [N] int64, the ids' positions sorted by row, stable.
    starts: [N + 1] int64, where each row's positions begin in `order`; unused places hold N.
    """

    rows: Tensor
    order: Tensor
    starts: Tensor


def touched_rows(ids: Tensor, spare: int) -> TouchedRows:
    """The distinct rows among `ids`.

    Args:
        ids: [N] int64, N > 0, each in [0, spare).
        spare: a row that no id names; at most `torchrec_ascend.ops.order.MOST`.
    """
    count = ids.numel()
    order = ascending(ids)
    ordered = ids.index_select(0, order)
    first = torch.ones(count, dtype=torch.bool, device=ids.device)
    torch.ne(ordered[1:], ordered[:-1], out=first[1:])
    # int32: Ascend's vector cores have no cumulative sum of int64.
    index = torch.cumsum(first, 0, dtype=torch.int32).sub_(1)
    # Place `count` collects what is no first occurrence, and is cut off.
    place = torch.where(first, index, count).long()
    rows = ids.new_full((count + 1,), spare).scatter_(0, place, ordered)
    position = torch.arange(count, device=ids.device)
    starts = ids.new_full((count + 1,), count).scatter_(0, place, position)
    starts[count] = count
    return TouchedRows(rows[:count], order, starts)


def sum_by_row(grad: Tensor, source: Tensor, scale: Tensor | None, touched: TouchedRows) -> Tensor:
    """[N, D] float32: row by row of `touched`, the sum of its ids' gradients. Deterministic.

    Args:
        grad: [bags, D] float32.
        source: [N] int64, which row of `grad` each id takes.
        scale: [N] float32 that each id's gradient is multiplied by, or None.
        touched: of the N ids.
    """
    # A bag of the "embedding" grad is one touched row: one operator, without atomic additions.
    return F.embedding_bag(
        source.index_select(0, touched.order),
        grad,
        touched.starts,
        mode="sum",
        per_sample_weights=None if scale is None else scale.index_select(0, touched.order),
        include_last_offset=True,
    )
