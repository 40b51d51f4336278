"""The fused optimizers: how the rows that a batch touched change. Formulas are fbgemm's TBE's.

A rule sees each touched row once, with the sum of its gradients, in float32. Rows that a batch does
not touch keep weight and state.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType, SparseType
from fbgemm_gpu.split_table_batched_embeddings_ops_training import WeightDecayMode
from torch import Tensor

# What a TBE on a card has for caches and tables in host memory, without a meaning here.
_WITHOUT_EFFECT = frozenset(
    {
        "bounds_check_mode",
        "cache_algorithm",
        "cache_load_factor",
        "cache_precision",
        "cache_reserved_memory",
        "cache_sets",
        "embedding_table_index_type",
        "embedding_table_offset_type",
        "enforce_hbm",
        "eta",
        "gather_uvm_cache_stats",
        "momentum",
        "multipass_prefetch_config",
        "prefetch_pipeline",
        "record_cache_metrics",
        "uvm_host_mapped",
    }
)


@dataclass(frozen=True)
class FusedParams:
    """TorchRec's `fused_params`, with TBE's names and defaults.

    Args:
        optimizer: EXACT_SGD, EXACT_ADAGRAD, EXACT_ROWWISE_ADAGRAD or ADAM.
        learning_rate, eps, beta1, beta2: of the formulas below.
        weight_decay: row-wise Adagrad as weight_decay_mode says; Adam decoupled; else 0.
        weight_decay_mode: NONE, L2 or DECOUPLE, for row-wise Adagrad.
        gradient_clipping, max_gradient: clamps each number of the output's gradient.
        stochastic_rounding: of 16-bit tables.
        output_dtype: of what the lookup returns.
    """

    optimizer: EmbOptimType = EmbOptimType.EXACT_SGD
    learning_rate: float = 0.01
    eps: float = 1.0e-8
    beta1: float = 0.9
    beta2: float = 0.999
    weight_decay: float = 0.0
    weight_decay_mode: WeightDecayMode = WeightDecayMode.NONE
    gradient_clipping: bool = False
    max_gradient: float = 1.0
    stochastic_rounding: bool = True
    output_dtype: SparseType = SparseType.FP32

    @staticmethod
    def read(params: dict[str, Any] | None) -> FusedParams:
        """From a dict as users write it.

        Raises:
            ValueError: a name, optimizer or mode that this lookup has not; names what it has.
        """
        given = {k: v for k, v in (params or {}).items() if k not in _WITHOUT_EFFECT}
        for name, default in (("max_norm", 0.0), ("enable_raw_embedding_streaming", False)):
            if name in given and given.pop(name) not in (default, None):
                raise ValueError(f"fused_params[{name!r}]: this lookup has none")
        known = [field.name for field in fields(FusedParams)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ValueError(f"fused_params has {unknown}, this lookup knows {known}")
        result = FusedParams(**given)
        if result.optimizer not in RULES:
            names = [str(optimizer) for optimizer in RULES]
            raise ValueError(
                f"fused_params['optimizer'] is {result.optimizer}, this lookup has {names}"
            )
        modes = (WeightDecayMode.NONE, WeightDecayMode.L2, WeightDecayMode.DECOUPLE)
        if result.weight_decay_mode not in modes:
            raise ValueError(
                f"fused_params['weight_decay_mode'] is {result.weight_decay_mode}, this lookup has "
                f"{[mode.name for mode in modes]}"
            )
        rule = RULES[result.optimizer]
        if result.weight_decay and not rule.decays:
            warnings.warn(
                f"fused_params['weight_decay'] = {result.weight_decay}: {result.optimizer} has "
                "none, here and in fbgemm",
                stacklevel=2,
            )
        return result

    def with_changes(self, changes: dict[str, float]) -> FusedParams:
        """With TBE's names of what `update_hyper_parameters` may change.

        Raises:
            NotImplementedError: another name.
        """
        names = {"lr": "learning_rate"}
        known = ("lr", "eps", "beta1", "beta2", "weight_decay")
        for name in changes:
            if name not in known:
                raise NotImplementedError(f"hyper-parameter {name!r}, expected one of {known}")
        values: dict[str, Any] = {names.get(name, name): v for name, v in changes.items()}
        return replace(self, **values)


# (weight [N, D], gradient [N, D], state, parameters, step from 1 on) -> weight; states in place.
Update = Callable[[Tensor, Tensor, Sequence[Tensor], FusedParams, int], Tensor]


@dataclass(frozen=True)
class Rule:
    """One optimizer.

    states: by state, its name in TBE's `get_optimizer_state`, and whether it is one number a row.
    """

    states: tuple[tuple[str, bool], ...]
    update: Update
    decays: bool = False


def _sgd(
    weight: Tensor, grad: Tensor, states: Sequence[Tensor], params: FusedParams, step: int
) -> Tensor:
    return weight.sub_(grad, alpha=params.learning_rate)


def _adagrad(
    weight: Tensor, grad: Tensor, states: Sequence[Tensor], params: FusedParams, step: int
) -> Tensor:
    (total,) = states
    total.addcmul_(grad, grad)
    return weight.addcdiv_(grad, total.sqrt().add_(params.eps), value=-params.learning_rate)


def _rowwise_adagrad(
    weight: Tensor, grad: Tensor, states: Sequence[Tensor], params: FusedParams, step: int
) -> Tensor:
    (total,) = states
    decay, mode = params.weight_decay, params.weight_decay_mode
    if mode == WeightDecayMode.L2 and decay:
        grad = grad.add(weight, alpha=decay)
    total.add_(grad.square().mean(1))
    rate = total.sqrt().add_(params.eps).reciprocal_().mul_(params.learning_rate)
    if mode == WeightDecayMode.DECOUPLE and decay:
        weight = weight.mul_(1 - params.learning_rate * decay)
    return weight.sub_(grad.mul(rate.unsqueeze(1)))


def _adam(
    weight: Tensor, grad: Tensor, states: Sequence[Tensor], params: FusedParams, step: int
) -> Tensor:
    first, second = states
    first.mul_(params.beta1).add_(grad, alpha=1 - params.beta1)
    second.mul_(params.beta2).addcmul_(grad, grad, value=1 - params.beta2)
    scale = second.div(1 - params.beta2**step).sqrt_().add_(params.eps)
    change = first.div(1 - params.beta1**step).div_(scale)
    if params.weight_decay:
        change.add_(weight, alpha=params.weight_decay)
    return weight.sub_(change, alpha=params.learning_rate)


RULES: dict[EmbOptimType, Rule] = {
    EmbOptimType.EXACT_SGD: Rule((), _sgd),
    EmbOptimType.SGD: Rule((), _sgd),  # TorchRec's default; on a card fbgemm's is exact too
    EmbOptimType.EXACT_ADAGRAD: Rule((("sum", False),), _adagrad),
    EmbOptimType.EXACT_ROWWISE_ADAGRAD: Rule((("sum", True),), _rowwise_adagrad, decays=True),
    EmbOptimType.ADAM: Rule((("exp_avg", False), ("exp_avg_sq", False)), _adam, decays=True),
}

# Bits of a float32's mantissa that a 16-bit float has not.
_DROPPED_BITS = {torch.bfloat16: 16, torch.float16: 13}


def rounded(values: Tensor, dtype: torch.dtype, stochastic: bool) -> Tensor:
    """float32 `values` in a table's dtype; stochastic: up or down by chance, right on average."""
    bits = _DROPPED_BITS.get(dtype)
    if not stochastic or bits is None:
        return values.to(dtype)
    noise = torch.randint_like(values, 1 << bits, dtype=torch.int32)
    return (
        values.view(torch.int32).add(noise).bitwise_and_(-(1 << bits)).view(values.dtype).to(dtype)
    )
