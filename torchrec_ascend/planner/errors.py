"""What to say where no plan fits."""

from __future__ import annotations

from collections.abc import Sequence

from torchrec.distributed.planner.types import PlannerError, ShardingOption, Storage, Topology

from torchrec_ascend.planner.enumerator import table_name


def nothing_fits(
    error: PlannerError,
    options: Sequence[ShardingOption],
    topology: Topology,
    free: Sequence[Storage],
) -> PlannerError:
    """An error of the same type that names the table that needs most, and what would help.

    Args:
        error: TorchRec's.
        options: all options of all tables, with estimates.
        free: by rank, what the storage reservation leaves for tables.
    """
    best: dict[str, ShardingOption] = {}
    for option in options:
        name = table_name(option)
        if name not in best or _bytes_on_a_rank(option) < _bytes_on_a_rank(best[name]):
            best[name] = option
    table = max(best, key=lambda name: _bytes_on_a_rank(best[name]))
    option = best[table]
    rows, columns = option.tensor.shape
    dtype = str(option.tensor.dtype).removeprefix("torch.")
    most_free = max(storage.hbm for storage in free)
    hbm = max(device.storage.hbm for device in topology.devices)
    return PlannerError(
        f"no plan fits. The table that needs most is {table!r} ({rows} x {columns}, {dtype}): "
        f"{_with_gib(_bytes_on_a_rank(option))} on a rank at best, {option.sharding_type}. Free "
        f"for tables on a rank: {_with_gib(most_free)} (hbm_cap {_with_gib(hbm)} less "
        f"{_with_gib(hbm - most_free)} reserved). {_together(best, free)} Remedies: more ranks "
        f"than {topology.world_size}; row_wise for the large tables, where a constraint excludes "
        "it; fp16 tables; a larger hbm_cap, if the cards have more memory, or a smaller storage "
        f"reservation.\nTorchRec says: {error}",
        error.error_type,
    )


def _bytes_on_a_rank(option: ShardingOption) -> int:
    return max(shard.storage.hbm for shard in option.shards)


def _together(best: dict[str, ShardingOption], free: Sequence[Storage]) -> str:
    """Of the best options; a lower bound where another one needs less over all ranks."""
    needed = sum(shard.storage.hbm for option in best.values() for shard in option.shards)
    have = sum(storage.hbm for storage in free)
    return (
        f"All {len(best)} tables, each so: {_with_gib(needed)} over all ranks, which have "
        f"{_with_gib(have)} free."
    )


def _with_gib(count: int) -> str:
    return f"{count} bytes ({count / (1 << 30):.2f} GiB)"
