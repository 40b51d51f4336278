"""Which rank holds what: TorchRec's planner, for Ascend.

TorchRec's own refuses device "npu". Nothing of it is patched here: an NPU is planned as a device it
knows, with an Ascend chip's figures, and the plan's shards are then placed on NPUs::

    planner = AscendShardingPlanner(AscendTopology(16, soc="a3", local_world_size=16))
    plan = planner.collective_plan(model, sharders, dist.group.WORLD)
    print(planner.report.table())
"""

from torchrec_ascend.planner.enumerator import AscendEnumerator
from torchrec_ascend.planner.model_parallel import AscendDistributedModelParallel
from torchrec_ascend.planner.planner import AscendShardingPlanner
from torchrec_ascend.planner.report import PlanReport
from torchrec_ascend.planner.topology import AscendTopology

__all__ = [
    "AscendDistributedModelParallel",
    "AscendEnumerator",
    "AscendShardingPlanner",
    "AscendTopology",
    "PlanReport",
]
