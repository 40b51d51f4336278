"""Ids are held against the tables before they travel, and all ranks learn of a bad one.

A lookup with an id beyond its table reads or writes someone else's memory on a card. The rank that
has one cannot simply raise: the others would wait for it in the next collective. So each rank
reduces its verdict over the group, beside the exchange of sizes that the input dist makes anyway,
and all of them raise before an id is sent.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torchrec.modules.embedding_configs import BaseEmbeddingConfig
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from torchrec_ascend.sharding.checks import check_received_sizes

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


class ChecksExchange:
    """Mixed into sharded modules: what a batch's input dist must pass before ids and memory move.

    `_check_ids` is the module's :class:`IdChecker`, `_env` its sharding environment; contexts have
    `id_verdict`.
    """

    def _start_check(self: Any, ctx: Any, features: KeyedJaggedTensor) -> None:
        ctx.id_verdict = self._check_ids.start(features) if self._check_ids.is_on() else None

    def _end_check_in(self: Any, ctx: Any, exchanges: Any) -> None:
        """With the sizes that the first half of the exchange brings."""
        for exchange in exchanges.awaitables:
            # None where nothing is exchanged, or where a pipeline fuses the exchanges of modules.
            sizes = getattr(exchange, "_splits_awaitable", None)
            if sizes is not None:
                sizes.callbacks.append(partial(self._check_received, ctx))

    def _check_received(self: Any, ctx: Any, sizes: list[list[int]]) -> list[list[int]]:
        self._verify_ids(ctx)
        return check_received_sizes(self._env.rank, sizes)

    @staticmethod
    def _verify_ids(ctx: Any) -> None:
        verdict = getattr(ctx, "id_verdict", None)  # a wrapper has a context of its own
        if verdict is not None:
            verdict.verify()
