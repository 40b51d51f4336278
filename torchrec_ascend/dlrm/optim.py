"""Learning rates over the steps, and the optimizer of the dense layers."""

from __future__ import annotations

import torch
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.optim.keyed import CombinedOptimizer, KeyedOptimizerWrapper
from torchrec.optim.optimizers import in_backward_optimizer_filter

from torchrec_ascend.dlrm.config import Config

MIN_FACTOR = 1e-4  # the decay ends here, and the rest of the run stays


def learning_rate_factor(step: int, warmup_steps: int, decay_start: int, decay_steps: int) -> float:
    """What the learning rates are multiplied with at `step` (from 0).

    Linear warm-up over the first `warmup_steps`; from `decay_start` on a quadratic decay over
    `decay_steps` (0: none) down to MIN_FACTOR.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if decay_steps == 0 or step < decay_start:
        return 1.0
    left = max(0.0, 1 - (step - decay_start) / decay_steps)
    return max(MIN_FACTOR, left**2)


class Optimizers:
    """The fused optimizer of the tables and that of the dense layers, on one schedule."""

    def __init__(self, config: Config, model: DistributedModelParallel) -> None:
        self._config = config
        dense = KeyedOptimizerWrapper(
            dict(in_backward_optimizer_filter(model.named_parameters())),
            lambda parameters: _dense_optimizer(config, list(parameters)),
        )
        self._all = CombinedOptimizer([("tables", model.fused_optimizer), ("layers", dense)])
        self._rates = [group["lr"] for group in self._all.param_groups]

    def begin(self, step: int) -> list[float]:
        """Sets the learning rates of `step`, clears the gradients; returns the distinct rates.

        Must come before the step's backward, which already updates the tables.
        """
        config = self._config
        factor = learning_rate_factor(
            step, config.lr_warmup_steps, config.lr_decay_start, config.lr_decay_steps
        )
        for group, rate in zip(self._all.param_groups, self._rates, strict=True):
            group["lr"] = rate * factor
        self._all.zero_grad()
        return sorted({group["lr"] for group in self._all.param_groups})

    def step(self) -> None:
        self._all.step()


def _dense_optimizer(config: Config, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    rate = config.layers_learning_rate
    if config.layers_optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate)
    if config.layers_optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate, eps=config.eps)
    return torch.optim.Adam(parameters, lr=rate, eps=config.eps)
