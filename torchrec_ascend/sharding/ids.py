"""Ids are held against the tables before they travel, and all ranks learn of a bad one.

A lookup with an id beyond its table reads or writes someone else's memory on a card. The rank that
has one cannot simply raise: the others would wait for it in the next collective. So each rank
reduces its verdict over the group, beside the exchange of sizes that the input dist makes anyway,
and all of them raise before an id is sent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.modules.embedding_configs import BaseEmbeddingConfig
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

SWITCH = "TORCHREC_ASCEND_CHECK_IDS"  # "0" turns the check off


class IdVerdict:
    """A batch's verdict on its way through the group; see :meth:`IdChecker.start`."""

    def __init__(
        self, checker: IdChecker, features: KeyedJaggedTensor, limits: Tensor, flag: Tensor,
        work: dist.Work | None,
    ) -> None:  # fmt: skip
        self._checker = checker
        self._features: KeyedJaggedTensor | None = features
        self._limits = limits
        self._flag = flag
        self._work = work

    def verify(self) -> None:
        """Waits for the verdict; once passed, does nothing.

        Raises:
            ValueError: an id of this rank is not in its table; names table, feature, id, rank.
            RuntimeError: one of another rank is not; names that rank.
        """
        if self._features is None:
            return
        if self._work is not None:
            self._work.wait()
        guilty = int(self._flag) - 1
        features, self._features = self._features, None
        if guilty < 0:
            return
        self._checker.explain(features, self._limits)
        raise RuntimeError(
            f"rank {self._checker.rank}: rank {guilty} has ids that are not in their tables; "
            "its own error names them"
        )


class IdChecker:
    """Checks the ids of one module's batches.

    Args:
        configs: the module's tables.
        pg: the group that exchanges them.
    """

    def __init__(self, configs: Sequence[BaseEmbeddingConfig], pg: dist.ProcessGroup) -> None:
        self._table = {f: c for c in configs for f in c.feature_names}
        self._pg = pg
        self.rank = pg.rank()
        self._limits: dict[tuple[object, ...], Tensor] = {}

    @staticmethod
    def is_on() -> bool:
        return os.environ.get(SWITCH) != "0"

    def start(self, features: KeyedJaggedTensor) -> IdVerdict:
        """Compares and sends this rank's verdict, without waiting. Collective."""
        limits = self._limits_of(features)
        flag = self._is_bad(features, limits).any().to(torch.int32).mul(self.rank + 1).view(1)
        work = None
        if self._pg.size() > 1:
            work = dist.all_reduce(flag, dist.ReduceOp.MAX, group=self._pg, async_op=True)
        return IdVerdict(self, features, limits, flag, work)

    def explain(self, features: KeyedJaggedTensor, limits: Tensor) -> None:
        """Raises ValueError for the first bad id of this rank, if it has one."""
        bad = self._is_bad(features, limits).nonzero().flatten().tolist()
        if not bad:
            return
        place = bad[0]
        bag = int(torch.searchsorted(features.offsets().cpu(), torch.tensor(place), right=True)) - 1
        feature, bags = 0, _bags_by_key(features)
        while bag >= bags[feature]:
            bag -= bags[feature]
            feature += 1
        key = features.keys()[feature]
        table = self._table[key]
        raise ValueError(
            f"rank {self.rank}: feature {key!r} has id {int(features.values()[place])} in bag "
            f"{bag}, table {table.name!r} has rows 0 to {table.num_embeddings - 1}"
            + (f" ({len(bad)} such ids in this batch)" if len(bad) > 1 else "")
            + f". {SWITCH}=0 turns this check off"
        )

    @staticmethod
    def _is_bad(features: KeyedJaggedTensor, limits: Tensor) -> Tensor:
        """[N] bool."""
        ids = features.values()
        limit = torch.repeat_interleave(limits, features.lengths(), output_size=ids.numel())
        return (ids < 0) | (ids >= limit)

    def _limits_of(self, features: KeyedJaggedTensor) -> Tensor:
        """[bags] rows of each bag's table. Kept for the next batch of that shape."""
        bags = tuple(_bags_by_key(features))
        key = (tuple(features.keys()), bags, features.device())
        if key not in self._limits:
            if len(self._limits) >= 16:  # batch sizes that never come again
                self._limits.clear()
            keys = features.keys()
            rows = torch.tensor([self._table[name].num_embeddings for name in keys])
            self._limits[key] = rows.repeat_interleave(torch.tensor(bags)).to(features.device())
        return self._limits[key]


def _bags_by_key(features: KeyedJaggedTensor) -> list[int]:
    return list(features.stride_per_key())
