"""What TorchRec's planner must know of a cluster of Ascend chips."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torchrec.distributed.planner.types import Topology

from torchrec_ascend.device import chip

# TorchRec's planner knows cpu, cuda and mtia: it refuses "npu", and treats everything but the last
# two as without device memory. "cuda" is the one for which it counts HBM, has bandwidths for the
# kernels and asks the sharder for all sharding types ("mtia" lacks data_parallel).
PLANNED_AS = "cuda"

_MS_PER_S = 1000


class AscendTopology(Topology):
    """A cluster of Ascend chips, one rank a chip (on A3: one a die, 16 a node).

    `compute_device` is "cuda", as which the cluster is planned (see `PLANNED_AS`);
    :class:`torchrec_ascend.planner.AscendShardingPlanner` puts the shards on NPUs.

    Capacities are bytes a rank. Bandwidths are bytes per millisecond, TorchRec's unit; those of the
    chip are those of :class:`torchrec_ascend.device.Chip`, the host's are TorchRec's defaults.

    Args:
        world_size: ranks; those of the default process group unless given.
        soc: the chip, by name or family ("a2", "a3", "a5"); the present NPU's unless given, and
            "a2" where there is none.
        local_world_size: ranks a node; LOCAL_WORLD_SIZE unless given.
        hbm_cap: device memory; the chip's unless given.
        ddr_cap: host memory.
        hbm_mem_bw, intra_host_bw, inter_host_bw: of device memory, to the other ranks of a node, to
            other nodes; the chip's unless given.
        ddr_mem_bw, ssd_mem_bw, hbm_to_ddr_mem_bw: of host memory, of disks, from device to host.
        options: further arguments of TorchRec's `Topology`.

    Raises:
        ValueError: the chip is unknown, there is no process group to take world_size from, the
            ranks of a node are unknown, do not divide world_size or contradict RANK and LOCAL_RANK,
            or a capacity or bandwidth is not positive.
    """

    def __init__(
        self,
        world_size: int | None = None,
        *,
        soc: str | None = None,
        local_world_size: int | None = None,
        hbm_cap: int | None = None,
        ddr_cap: int | None = None,
        hbm_mem_bw: float | None = None,
        intra_host_bw: float | None = None,
        inter_host_bw: float | None = None,
        ddr_mem_bw: float | None = None,
        ssd_mem_bw: float | None = None,
        hbm_to_ddr_mem_bw: float | None = None,
        **options: Any,
    ) -> None:
        world_size = _world_size() if world_size is None else world_size
        self.chip = chip(soc if soc is not None else _present_soc())
        figures = {
            "hbm_cap": self.chip.hbm_bytes,
            "hbm_mem_bw": self.chip.hbm_bandwidth / _MS_PER_S,
            "intra_host_bw": self.chip.node_bandwidth / _MS_PER_S,
            "inter_host_bw": self.chip.network_bandwidth / _MS_PER_S,
        }
        given = {
            "hbm_cap": hbm_cap,
            "ddr_cap": ddr_cap,
            "hbm_mem_bw": hbm_mem_bw,
            "intra_host_bw": intra_host_bw,
            "inter_host_bw": inter_host_bw,
            "ddr_mem_bw": ddr_mem_bw,
            "ssd_mem_bw": ssd_mem_bw,
            "hbm_to_ddr_mem_bw": hbm_to_ddr_mem_bw,
        }
        figures.update(_checked({k: v for k, v in given.items() if v is not None}))
        super().__init__(
            world_size=world_size,
            compute_device=PLANNED_AS,
            local_world_size=_local_world_size(world_size, local_world_size),
            # Set, TorchRec does not warn that its own factory, which knows no NPU, was passed over.
            created_by_factory=True,
            **figures,
            **options,
        )

    def __repr__(self) -> str:
        return f"{self.chip.soc}, planned as:\n{super().__repr__()}"


def _world_size() -> int:
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            "world_size is not given and there is no process group to take it from: give it, or "
            "call torch.distributed.init_process_group first"
        )
    return dist.get_world_size()


def _present_soc() -> str:
    npu = getattr(torch, "npu", None)  # torch_npu puts it there
    if npu is None or not npu.is_available():
        return "a2"
    return str(npu.get_device_name())


def _checked(figures: dict[str, float]) -> dict[str, Any]:
    for name, value in figures.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}, expected more than 0")
    return figures


def _env_number(variable: str) -> int | None:
    text = os.environ.get(variable)
    if text is None:
        return None
    if not text.isdecimal():
        raise ValueError(f"{variable} is {text!r} in the environment, expected a number")
    return int(text)


def _local_world_size(world_size: int, given: int | None) -> int:
    if world_size < 1:
        raise ValueError(f"world_size is {world_size}, expected 1 or more")
    local = _env_number("LOCAL_WORLD_SIZE") if given is None else given
    name = "LOCAL_WORLD_SIZE" if given is None else "local_world_size"
    if local is None:
        if world_size > 1:
            raise ValueError(
                "LOCAL_WORLD_SIZE is not set, and without the ranks of a node the plan would put "
                "shards on the wrong cards: start with torchrun or torchx, which set it, or give "
                "local_world_size"
            )
        local = 1
    if local < 1 or world_size % local:
        raise ValueError(f"{name} is {local}, expected a divisor of the {world_size} ranks")
    rank, local_rank = _env_number("RANK"), _env_number("LOCAL_RANK")
    if rank is not None and local_rank is not None and rank % local != local_rank:
        raise ValueError(
            f"RANK is {rank} and LOCAL_RANK is {local_rank}, expected LOCAL_RANK {rank % local} "
            f"with {local} ranks a node ({name}): a plan puts rank r on card r modulo {local}"
        )
    return local
