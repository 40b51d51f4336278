"""Where a plan puts shards: TorchRec leaves out the card of a device that it does not know."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any

from torch.distributed._shard.metadata import ShardMetadata
from torch.distributed.remote_device import _remote_device
from torchrec.distributed.types import EnumerableShardingSpec, ParameterSharding


def on_cards(
    plan: dict[str, ParameterSharding], device_type: str, local_size: int
) -> dict[str, ParameterSharding]:
    """The plan with every shard on a card: `rank:r/npu:i`, i being r modulo the ranks of a host.

    A plan may come without the index, or from TorchRec's planner for another device: it knows
    "cuda" and not "npu". Ranks stay as planned.

    Args:
        plan: by table; not changed.
        device_type: of the tables; "cpu" has no indices.
        local_size: ranks, and so cards, of a host.
    """
    if device_type in ("cpu", "meta"):
        return plan
    result = {}
    for table, sharding in plan.items():
        spec = sharding.sharding_spec
        if isinstance(spec, EnumerableShardingSpec):
            sharding = copy(sharding)
            sharding.sharding_spec = EnumerableShardingSpec(
                [_on_card(shard, device_type, local_size) for shard in spec.shards]
            )
        result[table] = sharding
    return result


def _on_card(shard: ShardMetadata, device_type: str, local_size: int) -> ShardMetadata:
    shard = deepcopy(shard)
    placement: Any = shard.placement
    rank, device = placement.rank(), placement.device()
    if device.type != device_type or device.index is None:
        shard.placement = _remote_device(f"rank:{rank}/{device_type}:{rank % local_size}")
    return shard
