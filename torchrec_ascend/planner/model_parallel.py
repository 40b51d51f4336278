"""TorchRec's model wrapper, which plans by itself on an NPU too."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.sharding_plan import get_default_sharders
from torchrec.distributed.types import ModuleSharder, ShardingEnv, ShardingPlan

from torchrec_ascend.planner.planner import AscendShardingPlanner
from torchrec_ascend.planner.topology import AscendTopology


class AscendDistributedModelParallel(DistributedModelParallel):
    """TorchRec's `DistributedModelParallel`; without a plan on an NPU it makes one with
    :class:`AscendShardingPlanner`, where upstream fails.

    Args:
        module, env, device, plan, sharders, options: as upstream.

    Raises:
        ValueError, PlannerError: as :class:`AscendTopology` and :class:`AscendShardingPlanner`.
    """

    def __init__(
        self,
        module: nn.Module,
        env: ShardingEnv | None = None,
        device: torch.device | None = None,
        plan: ShardingPlan | None = None,
        sharders: list[ModuleSharder[nn.Module]] | None = None,
        *options: Any,
        **named_options: Any,
    ) -> None:
        if plan is None and device is not None and device.type == "npu":
            sharders = get_default_sharders() if sharders is None else sharders
            plan = _plan(module, env, sharders)
        super().__init__(module, env, device, plan, sharders, *options, **named_options)


def _plan(
    module: nn.Module, env: ShardingEnv | None, sharders: list[ModuleSharder[nn.Module]]
) -> ShardingPlan:
    world_size = None if env is None else env.world_size
    group = dist.group.WORLD if env is None else env.process_group
    planner = AscendShardingPlanner(AscendTopology(world_size))
    if group is None:
        return planner.plan(module, sharders)
    return planner.collective_plan(module, sharders, group)
