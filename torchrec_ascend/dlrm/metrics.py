"""AUROC over all ranks, exact: from the ranks of the raw logits of the whole set."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from sklearn.metrics import roc_auc_score
from torch import Tensor


def gather(values: Tensor) -> Tensor:
    """The 1-D `values` of all ranks in rank order, on every rank. Lengths may differ and be 0."""
    world_size = dist.get_world_size()
    own = torch.tensor([len(values)], device=values.device)
    lengths = [torch.zeros_like(own) for _ in range(world_size)]
    dist.all_gather(lengths, own)
    longest = max(int(length) for length in lengths)
    padded = values.new_zeros(longest)
    padded[: len(values)] = values
    parts = [torch.empty_like(padded) for _ in range(world_size)]
    dist.all_gather(parts, padded)
    return torch.cat([part[: int(length)] for part, length in zip(parts, lengths, strict=True)])


def auroc(labels: npt.ArrayLike, logits: npt.ArrayLike) -> float:
    """Area under the ROC curve of raw logits; NaN where only one class is present.

    Args:
        labels: N values of 0 and 1.
        logits: N finite scores. They are ranked as they are: a sigmoid would round large ones
            to ties.

    Raises:
        ValueError: a logit is NaN or infinite.
    """
    labels = np.asarray(labels)
    logits = np.asarray(logits, dtype=np.float64)
    bad = int(np.count_nonzero(~np.isfinite(logits)))
    if bad:
        raise ValueError(f"{bad} of {len(logits)} logits are not finite: the training diverged")
    if len(np.unique(labels)) < 2:
        return math.nan
    return float(roc_auc_score(labels, logits))
