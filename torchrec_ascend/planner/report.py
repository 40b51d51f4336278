"""What a plan puts on each rank, as the planner calculates it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchrec.distributed.planner.types import ShardingOption, Stats, Storage, Topology

from torchrec_ascend.planner.enumerator import table_name

NOTE = "calculated by the planner, not measured"


@dataclass(frozen=True)
class ShardReport:
    """One shard: `size` and `offset` are [rows, columns]; bytes and time are `NOTE`.

    bytes: device memory of weights, optimizer state, and the batch's inputs and outputs.
    ms: of one training step: lookup, its backward, and exchanges.
    """

    rank: int
    size: list[int]
    offset: list[int]
    bytes: int
    ms: float


@dataclass(frozen=True)
class TableReport:
    """One table: `name` is its module's path and its own name; `rows` x `columns` unsharded."""

    name: str
    sharding_type: str
    compute_kernel: str
    rows: int
    columns: int
    shards: list[ShardReport]


@dataclass(frozen=True)
class PlanReport:
    """A plan's tables and what they come to on each rank.

    Args:
        soc: the chip; None where the topology does not say.
        local_world_size: ranks a node.
        hbm_bytes: by rank, device memory.
        free_bytes: by rank, what the storage reservation leaves of it for tables.
        bandwidths: of the topology, bytes per millisecond.
        tables: in the plan's order.
    """

    soc: str | None
    local_world_size: int
    hbm_bytes: list[int]
    free_bytes: list[int]
    bandwidths: dict[str, float]
    tables: list[TableReport]

    @property
    def bytes_by_rank(self) -> list[int]:
        """Device memory of each rank's shards."""
        totals = [0] * len(self.hbm_bytes)
        for shard in self._shards():
            totals[shard.rank] += shard.bytes
        return totals

    @property
    def ms_by_rank(self) -> list[float]:
        """Estimated time of each rank's shards in one training step, milliseconds."""
        totals = [0.0] * len(self.hbm_bytes)
        for shard in self._shards():
            totals[shard.rank] += shard.ms
        return totals

    def table(self) -> str:
        """Text: a line a table, then a line a rank. Bytes and ms are by shard, in rank order."""
        header = ["table", "sharding", "kernel", "rows x dim", "ranks", "bytes", "ms"]
        tables = _aligned([header, *(_cells(table) for table in self.tables)])
        totals = zip(self.bytes_by_rank, self.free_bytes, self.ms_by_rank, strict=True)
        ranks = _aligned(
            [["rank", "bytes", "of free", "ms"]]
            + [[str(r), str(b), str(f), f"{ms:.3g}"] for r, (b, f, ms) in enumerate(totals)]
        )
        return "\n".join(
            [
                f"plan with the figures of {self.soc or 'an unnamed chip'}: {NOTE}",
                *tables,
                "",
                *ranks,
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Of plain lists, strings and numbers, as plan.json holds it."""
        totals = zip(
            self.bytes_by_rank, self.free_bytes, self.hbm_bytes, self.ms_by_rank, strict=True
        )
        return {
            "note": NOTE,
            **dataclasses.asdict(self),
            "ranks": [
                {"rank": rank, "bytes": used, "free_bytes": free, "hbm_bytes": hbm, "ms": ms}
                for rank, (used, free, hbm, ms) in enumerate(totals)
            ],
        }

    def save(self, folder: str | Path) -> None:
        """Writes plan.json and plan.png into `folder`, which is made if need be.

        Raises:
            ImportError: matplotlib, which only the picture needs, is missing; plan.json is there.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plan.json").write_text(json.dumps(self.to_dict(), indent=2) + "\n")
        self.figure().savefig(folder / "plan.png", dpi=120)

    def figure(self) -> Any:
        """A matplotlib figure: bars of bytes and of estimated time by rank.

        Raises:
            ImportError: matplotlib is missing.
        """
        # Not pyplot, which keeps state and may want a display.
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 6), layout="constrained")
        FigureCanvasAgg(figure)
        figure.suptitle(f"{self.soc or 'plan'}: {NOTE}")
        memory, time = figure.subplots(2, 1, sharex=True)
        ranks = range(len(self.hbm_bytes))
        gib = 1 << 30
        memory.bar(ranks, [used / gib for used in self.bytes_by_rank])
        memory.axhline(min(self.free_bytes) / gib, color="tab:red", label="free for tables")
        memory.set_ylabel("GiB of tables")
        memory.legend()
        time.bar(ranks, self.ms_by_rank, color="tab:orange")
        time.set_ylabel("estimated ms a step")
        time.set_xlabel("rank")
        time.set_xticks(ranks if len(ranks) <= 32 else ranks[:: len(ranks) // 16])
        return figure

    def _shards(self) -> list[ShardReport]:
        return [shard for table in self.tables for shard in table.shards]


class ReportStats(Stats):
    """Keeps what TorchRec's planner tells its `Stats` after each plan.

    report: of the plan; None where there is none.
    free: by rank, what the reservation left for tables; None where the reservation itself failed.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forgets the last plan."""
        self.report: PlanReport | None = None
        self.free: list[Storage] | None = None

    def log(
        self,
        sharding_plan: Any,
        topology: Topology,
        batch_size: int,
        storage_reservation: Any,
        num_proposals: int,
        num_plans: int,
        run_time: float,
        best_plan: list[ShardingOption],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Called by the planner; without a plan, `best_plan` is the last proposal and
        `sharding_plan` is empty."""
        reserved = storage_reservation.last_reserved_topology or topology
        self.free = [device.storage for device in reserved.devices]
        if sharding_plan.plan:
            free = [storage.hbm for storage in self.free]
            self.report = make_report(topology, free, best_plan)


def make_report(
    topology: Topology, free_bytes: list[int], best_plan: Sequence[ShardingOption]
) -> PlanReport:
    """The report of a plan whose shards have ranks.

    Args:
        free_bytes: by rank, what the reservation leaves for tables.
    """
    names = ("hbm_mem_bw", "ddr_mem_bw", "hbm_to_ddr_mem_bw", "intra_host_bw", "inter_host_bw")
    chip = getattr(topology, "chip", None)
    return PlanReport(
        soc=chip.soc if chip is not None else None,
        local_world_size=topology.local_world_size,
        hbm_bytes=[device.storage.hbm for device in topology.devices],
        free_bytes=free_bytes,
        bandwidths={name: getattr(topology, name) for name in names},
        tables=[_table_report(option) for option in best_plan],
    )


def _table_report(option: ShardingOption) -> TableReport:
    rows, columns = option.tensor.shape
    return TableReport(
        name=table_name(option),
        sharding_type=option.sharding_type,
        compute_kernel=option.compute_kernel,
        rows=rows,
        columns=columns,
        shards=[
            ShardReport(
                rank=shard.rank,
                size=list(shard.size),
                offset=list(shard.offset),
                bytes=shard.storage.hbm,
                ms=shard.perf.total,
            )
            for shard in option.shards
        ],
    )


def _cells(table: TableReport) -> list[str]:
    shards = sorted(table.shards, key=lambda shard: shard.rank)
    return [
        table.name,
        table.sharding_type,
        table.compute_kernel,
        f"{table.rows} x {table.columns}",
        ",".join(str(shard.rank) for shard in shards),
        ",".join(str(shard.bytes) for shard in shards),
        ",".join(f"{shard.ms:.3g}" for shard in shards),
    ]


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
