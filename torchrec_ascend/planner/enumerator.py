"""What may be planned: only what runs on an NPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import nn
from torchrec.distributed.embedding_types import EmbeddingComputeKernel
from torchrec.distributed.planner.enumerators import EmbeddingEnumerator
from torchrec.distributed.planner.types import ParameterConstraints, ShardingOption, Topology
from torchrec.distributed.types import ModuleSharder

# The others keep tables in host memory or on disks through CUDA.
KERNELS = frozenset({EmbeddingComputeKernel.FUSED.value, EmbeddingComputeKernel.DENSE.value})


class AscendEnumerator(EmbeddingEnumerator):
    """TorchRec's enumerator without the options that an NPU lacks or the sharder refuses.

    Left out: compute kernels but "fused" and "dense", shards without rows, and fused shards whose
    columns are no multiple of 4 (see :func:`torchrec_ascend.sharding.checks.check_shards`).

    Args:
        topology, batch_size, options: as TorchRec's.
        constraints: by table.

    Raises:
        ValueError: a constraint has a device group: there is one kind of device here, and TorchRec
            would leave the table out of the plan.
    """

    def __init__(
        self,
        topology: Topology,
        batch_size: int,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        **options: Any,
    ) -> None:
        for table, constraint in (constraints or {}).items():
            if constraint.device_group is not None:
                raise ValueError(
                    f"the constraint of table {table!r} has device_group "
                    f"{constraint.device_group!r}: leave it out, all tables are on NPUs"
                )
        super().__init__(topology, batch_size, constraints, **options)

    def enumerate(
        self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]
    ) -> list[ShardingOption]:
        """The options of all tables.

        Raises:
            ValueError: a table has none left; names why.
        """
        options = super().enumerate(module, sharders)
        runnable = [option for option in options if option.compute_kernel in KERNELS]
        _check_left(options, runnable, lambda o: f"compute kernel {o.compute_kernel}")
        kept = [option for option in runnable if _refusal(option) is None]
        _check_left(runnable, kept, lambda o: f"{o.sharding_type} {_refusal(o)}")
        return kept


def _check_left(
    before: Sequence[ShardingOption],
    after: Sequence[ShardingOption],
    why: Callable[[ShardingOption], str],
) -> None:
    left = {table_name(option) for option in after}
    for table in {table_name(option): None for option in before}:
        if table not in left:
            reasons = sorted({why(option) for option in before if table_name(option) == table})
            raise ValueError(
                f"no sharding of table {table!r} runs on an NPU: {'; '.join(reasons)}. Loosen its "
                "constraints, or give it another shape"
            )


def table_name(option: ShardingOption) -> str:
    """The path of the table's module and its own name; a root module has no path."""
    return str(option.fqn).removeprefix(".")


def _refusal(option: ShardingOption) -> str | None:
    if any(shard.size[0] == 0 for shard in option.shards):
        return "leaves a rank without rows"
    is_fused = option.compute_kernel == EmbeddingComputeKernel.FUSED.value
    if is_fused and any(shard.size[1] % 4 for shard in option.shards):
        widths = sorted({shard.size[1] for shard in option.shards})
        return f"makes shards of {widths} columns, not multiples of 4"
    return None
