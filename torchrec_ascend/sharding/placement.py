"""Where a plan puts shards: TorchRec leaves out the card of a device that it does not know."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch.distributed._shard.metadata import ShardMetadata
from torchrec.distributed.comm import get_local_size
from torchrec.distributed.types import EnumerableShardingSpec, ParameterSharding, ShardingEnv


def placed(
    plan: Mapping[str, ParameterSharding], device_type: str, local_size: int
) -> dict[str, ParameterSharding]:
    """The plan with the shards of rank r on `rank:r/npu:i`, i being r modulo `local_size`.

    A plan may come without the card, or made for another device: TorchRec's planner knows "cuda"
    and not "npu". Ranks stay as planned.

    Args:
        plan: by table; not changed. Data-parallel tables have no shards to place.
        device_type: of the tables; "cpu" has no cards.
        local_size: ranks, and so cards, of a host.
    """
    return {table: _placed(sharding, device_type, local_size) for table, sharding in plan.items()}


def placed_on(
    device: torch.device | None, plan: Mapping[str, ParameterSharding], env: ShardingEnv
) -> dict[str, ParameterSharding]:
    """:func:`placed` on a sharded module's device; as it is for none and for meta."""
    if device is None or device.type == "meta":
        return dict(plan)
    return placed(plan, device.type, get_local_size(env.world_size))


def _placed(sharding: ParameterSharding, device_type: str, local_size: int) -> ParameterSharding:
    spec = sharding.sharding_spec
    if not isinstance(spec, EnumerableShardingSpec):
        return sharding
    shards = []
    for shard in spec.shards:
        rank = shard.placement.rank()
        card = "" if device_type == "cpu" else f":{rank % local_size}"
        shards.append(
            ShardMetadata(
                shard_offsets=shard.shard_offsets,
                shard_sizes=shard.shard_sizes,
                placement=f"rank:{rank}/{device_type}{card}",
            )
        )
    return dataclasses.replace(sharding, sharding_spec=EnumerableShardingSpec(shards))
