"""Tables that the backward pass updates, as fbgemm's TBE does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from fbgemm_gpu.split_table_batched_embeddings_ops_common import PoolingMode
from torch import Tensor

from torchrec_ascend.lookup.optimizers import RULES, FusedParams, rounded
from torchrec_ascend.lookup.rows import sum_by_row, touched_rows
from torchrec_ascend.lookup.tables import Run, Tables, pool, shares, weight_gradients


class FusedTables(Tables):
    """Tables that the backward pass updates: gradients never leave, the optimizer is in it.

    Exact: an id that a batch names several times is one row with the sum of its gradients. Work and
    memory of a step grow with the ids of the batch, not with the tables, and nothing waits for the
    device. Each backward is one optimizer step, as in TBE.

    Args:
        params: the optimizer, see :class:`torchrec_ascend.lookup.optimizers.FusedParams`.
        others: see :class:`Tables`.
    """

    def __init__(
        self, rows: Sequence[int], dims: Sequence[int], feature_table_map: Sequence[int],
        pooling: PoolingMode, dtype: torch.dtype, device: torch.device, params: FusedParams,
    ) -> None:  # fmt: skip
        output_dtype = params.output_dtype.as_dtype()
        super().__init__(rows, dims, feature_table_map, pooling, dtype, output_dtype, device)
        self.params = params
        self.optimizer = params.optimizer
        self.step = 0
        for run in self.runs:
            run.states = [
                torch.zeros(
                    run.weight.shape[:1] if of_rows else run.weight.shape,
                    dtype=torch.float32,
                    device=device,
                )
                for _, of_rows in RULES[params.optimizer].states
            ]
        # Without an input that requires a gradient there would be no backward.
        self._anchor = torch.empty(0, device=device, requires_grad=True)

    @property
    def weights_dev(self) -> Tensor:
        """All tables, flat; `weights_physical_offsets` says where each begins."""
        return self._weights

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        if self.training and torch.is_grad_enabled():
            self.step += 1  # as TBE counts: forward passes in training
        return super().forward(*args, **kwargs)

    def _lookup(
        self, run: Run, ids: Tensor, offsets: Tensor, bag: Tensor, weights: Tensor | None
    ) -> Tensor:
        return _FusedLookup.apply(self._anchor, weights, self, run, ids, offsets, bag)

    @torch.no_grad()
    def update(
        self, run: Run, grad: Tensor, ids: Tensor, source: Tensor, scale: Tensor | None, step: int
    ) -> None:
        """Optimizer step number `step` on the rows that `ids` name.

        Args:
            grad: [bags, D] gradient of the output; ids: [N] rows of the run.
            source: [N] the row of `grad` that each id takes; scale: [N] factors, or None.
        """
        if ids.numel() == 0:
            return
        params = self.params
        grad = grad.float()
        if params.gradient_clipping:
            grad = grad.clamp(-params.max_gradient, params.max_gradient)
        touched = touched_rows(ids, run.spare)
        total = sum_by_row(grad, source, scale, touched)
        states = [state.index_select(0, touched.rows) for state in run.states]
        weight = run.weight.index_select(0, touched.rows).float()
        weight = RULES[params.optimizer].update(weight, total, states, params, step)
        # Unused places write to the spare row, which nothing reads.
        run.weight.index_copy_(
            0, touched.rows, rounded(weight, run.weight.dtype, params.stochastic_rounding)
        )
        for state, new in zip(run.states, states, strict=True):
            state.index_copy_(0, touched.rows, new)

    def get_optimizer_state(self) -> list[dict[str, Tensor]]:
        """By table, the states' views by TBE's names."""
        names = [name for name, _ in RULES[self.optimizer].states]
        if not names:
            return []
        return [
            dict(zip(names, views, strict=True))
            for run in self.runs
            for views in zip(*(self.by_table(run, state) for state in run.states), strict=True)
        ]

    def split_optimizer_states(self) -> list[list[Tensor]]:
        """By table, the states' views."""
        return [list(states.values()) for states in self.get_optimizer_state()]

    def get_learning_rate(self) -> float:
        return self.params.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        self.params = self.params.with_changes({"lr": float(lr)})

    def update_hyper_parameters(self, params_dict: dict[str, float]) -> None:
        """TBE's: lr, eps, beta1, beta2, weight_decay."""
        self.params = self.params.with_changes(params_dict)

    def set_optimizer_step(self, step: int) -> None:
        """Adam's step count."""
        self.step = step

    def flush(self) -> None:
        """Nothing: there is no cache."""

    def reset_cache_states(self) -> None:
        """Nothing: there is no cache."""


class _FusedLookup(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, weights: Tensor | None, tables: FusedTables, run: Run,
        ids: Tensor, offsets: Tensor, bag: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.tables, ctx.run, ctx.step = tables, run, tables.step
        ctx.save_for_backward(ids, offsets, bag, weights)
        return pool(run.weight, ids, offsets, weights, tables.pooling)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        ids, offsets, bag, weights = ctx.saved_tensors
        tables, run = ctx.tables, ctx.run
        grad = grad.contiguous()
        of_weights = None
        if ctx.needs_input_grad[1]:  # by the weights of the forward pass, before they change
            of_weights = weight_gradients(run.weight, ids, grad, bag)
        if tables.pooling == PoolingMode.NONE:
            bag = torch.arange(ids.numel(), device=ids.device)
        scale = shares(offsets, bag, weights, tables.pooling)
        tables.update(run, grad, ids, bag, scale, ctx.step)
        return None, of_weights, None, None, None, None, None
