"""TorchRec's planner, for NPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.planner.constants import BATCH_SIZE
from torchrec.distributed.planner.planners import EmbeddingShardingPlanner
from torchrec.distributed.planner.stats import EmbeddingStats
from torchrec.distributed.planner.types import (
    Enumerator,
    ParameterConstraints,
    PlannerError,
    PlannerErrorType,
    Stats,
    Topology,
)
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import (
    EmbeddingModuleShardingPlan,
    ModuleSharder,
    ShardingPlan,
)

from torchrec_ascend.planner.enumerator import KERNELS, AscendEnumerator
from torchrec_ascend.planner.errors import nothing_fits
from torchrec_ascend.planner.report import PlanReport, ReportStats
from torchrec_ascend.planner.topology import PLANNED_AS, AscendTopology
from torchrec_ascend.sharding.placement import placed

_NOTHING_FITS = (PlannerErrorType.INSUFFICIENT_STORAGE, PlannerErrorType.STRICT_CONSTRAINTS)


class AscendShardingPlanner(EmbeddingShardingPlanner):
    """Plans as TorchRec's `EmbeddingShardingPlanner` does, with shards on NPUs.

    All sharding types are considered (grid only where a constraint names it, as upstream), and the
    compute kernels "fused" and "dense". The estimated times are TorchRec's formulas, made for CUDA,
    with the topology's bandwidths.

    Args:
        topology: of ranks planned as "cuda"; `AscendTopology()` unless given.
        batch_size: samples a rank.
        constraints: by table.
        enumerator: replaces :class:`AscendEnumerator`; it must offer no other kernels.
        stats: replaces TorchRec's `EmbeddingStats`, which logs the plan.
        device_type: "npu", or "cpu" for the same plan over CPU processes.
        options: further arguments of TorchRec's planner.

    Raises:
        ValueError: another device type, or a topology planned as another device.
        RuntimeError: torch does not know NPUs: torch_npu was not imported.
    """

    def __init__(
        self,
        topology: Topology | None = None,
        batch_size: int | None = None,
        constraints: Mapping[str, ParameterConstraints] | None = None,
        *,
        enumerator: Enumerator | None = None,
        stats: Stats | list[Stats] | None = None,
        device_type: str = "npu",
        **options: Any,
    ) -> None:
        _check_device_type(device_type)
        topology = AscendTopology() if topology is None else topology
        if topology.compute_device != PLANNED_AS:
            raise ValueError(
                f"the topology has compute_device {topology.compute_device!r}, expected "
                f"{PLANNED_AS!r}, as which NPUs are planned: use AscendTopology"
            )
        constraints = dict(constraints) if constraints is not None else None
        if enumerator is None:
            enumerator = AscendEnumerator(topology, batch_size or BATCH_SIZE, constraints)
        given = [EmbeddingStats()] if stats is None else stats
        self._device_type = device_type
        self._kept = ReportStats()
        super().__init__(
            topology=topology,
            batch_size=batch_size,
            enumerator=enumerator,
            constraints=constraints,
            stats=[self._kept, *(given if isinstance(given, list) else [given])],
            **options,
        )

    @property
    def report(self) -> PlanReport | None:
        """Of the last plan; None before it, and where there were no tables or nothing fitted."""
        return self._kept.report

    def plan(self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]) -> ShardingPlan:
        """The best plan found, with shards of rank r placed at `rank:r/npu:i`, i being r modulo the
        ranks of a node.

        Raises:
            PlannerError: nothing fits (names the table that needs most, unless the storage
                reservation alone is more than there is), or a table would have a compute kernel
                that an NPU lacks.
            ValueError: nothing that a table's constraints allow runs on an NPU.
        """
        self._kept.clear()
        try:
            plan = super().plan(module, sharders)
        except PlannerError as error:
            if error.error_type not in _NOTHING_FITS or self._kept.free is None:
                raise
            options = self._enumerator.enumerate(module, sharders)
            raise nothing_fits(error, options, self._topology, self._kept.free) from error
        _check_kernels(plan)
        local_size = self._topology.local_world_size
        return ShardingPlan(
            {
                path: EmbeddingModuleShardingPlan(placed(tables, self._device_type, local_size))
                for path, tables in plan.plan.items()
            }
        )

    def collective_plan(
        self,
        module: nn.Module,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        pg: dist.ProcessGroup | None = None,
    ) -> ShardingPlan:
        """The plan of rank 0 of the group, on every rank; so is `report`.

        Upstream's leaves the other ranks waiting where rank 0 fails; here all raise its error.

        Args:
            sharders: TorchRec's default ones unless given.
            pg: the default process group unless given.

        Raises:
            ValueError: there is no process group.
            PlannerError: as `plan`.
        """
        if pg is None:
            if not dist.is_initialized():
                raise ValueError(
                    "there is no process group: call torch.distributed.init_process_group first, "
                    "or plan() in a single process"
                )
            pg = dist.group.WORLD
        sharders = get_default_sharders() if sharders is None else sharders
        outcome: list[Any] = [None]
        if dist.get_rank(pg) == 0:
            outcome = [self._outcome(module, sharders)]
        dist.broadcast_object_list(outcome, group=pg, group_src=0)
        plan, self._kept.report, error = outcome[0]
        if error is not None:
            raise error
        return plan

    def _outcome(
        self, module: nn.Module, sharders: list[ModuleSharder[nn.Module]]
    ) -> tuple[ShardingPlan | None, PlanReport | None, Exception | None]:
        try:
            return self.plan(module, sharders), self.report, None
        except Exception as error:  # whatever it is, the other ranks must not wait for a plan
            return None, None, error


def _check_device_type(device_type: str) -> None:
    if device_type not in ("npu", "cpu"):
        raise ValueError(f"device_type is {device_type!r}, expected 'npu' or 'cpu'")
    try:
        torch.device(device_type)
    except RuntimeError as error:
        raise RuntimeError(
            "torch knows no device 'npu': import torch_npu first, or plan with device_type='cpu'"
        ) from error


def _check_kernels(plan: ShardingPlan) -> None:
    for path, module_plan in plan.plan.items():
        for table, sharding in module_plan.items():
            if sharding.compute_kernel not in KERNELS:
                raise PlannerError(
                    f"table {table!r} of module {path!r} has compute kernel "
                    f"{sharding.compute_kernel!r}, expected one of {sorted(KERNELS)}",
                    PlannerErrorType.INVALID_COMPUTE_KERNEL,
                )
