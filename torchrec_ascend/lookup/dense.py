"""Tables whose gradient an optimizer of the user's takes, as data-parallel ones do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from torch import Tensor, nn

from torchrec_ascend.lookup.rows import sum_by_row, touched_rows
from torchrec_ascend.lookup.tables import Run, Tables, pool, shares, weight_gradients


class DenseTables(Tables):
    """Tables whose gradient goes to an optimizer of the user's, as data-parallel ones do.

    The gradient is as large as the tables. Spare rows are in it, and stay zero.
    """

    def __init__(
        self, rows: Sequence[int], dims: Sequence[int], feature_table_map: Sequence[int],
        pooling: PoolingMode, dtype: torch.dtype, output_dtype: torch.dtype, device: torch.device,
    ) -> None:  # fmt: skip
        super().__init__(rows, dims, feature_table_map, pooling, dtype, output_dtype, device)
        self.embedding_specs = [(r, d) for r, d in zip(rows, dims, strict=True)]  # as upstream's
        self.weights = nn.Parameter(self._weights)  # one memory with the runs' views

    def _lookup(
        self, run: Run, ids: Tensor, offsets: Tensor, bag: Tensor, weights: Tensor | None
    ) -> Tensor:
        begin = self.weights_physical_offsets[run.tables.start]
        size = run.weight.numel()
        table = self.weights[begin : begin + size].view(run.weight.shape)
        return _DenseLookup.apply(table, weights, self.pooling, ids, offsets, bag)


class _DenseLookup(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, table: Tensor, weights: Tensor | None, pooling: PoolingMode, ids: Tensor,
        offsets: Tensor, bag: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.pooling = pooling
        ctx.save_for_backward(table, ids, offsets, bag, weights)
        return pool(table, ids, offsets, weights, pooling)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        table, ids, offsets, bag, weights = ctx.saved_tensors
        grad = grad.contiguous()
        of_weights = None
        if ctx.needs_input_grad[1]:
            of_weights = weight_gradients(table, ids, grad, bag)
        of_table = torch.zeros_like(table)
        if ids.numel() > 0:
            if ctx.pooling == PoolingMode.NONE:
                bag = torch.arange(ids.numel(), device=ids.device)
            touched = touched_rows(ids, table.shape[0] - 1)
            total = sum_by_row(
                grad.float(), bag, shares(offsets, bag, weights, ctx.pooling), touched
            )
            of_table.index_copy_(0, touched.rows, total.to(table.dtype))
        return of_table, of_weights, None, None, None, None
