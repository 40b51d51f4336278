"""What the planner is told of a cluster."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torchrec.distributed.planner.types import CollectiveType

from torchrec_ascend.device import chip
from torchrec_ascend.planner import AscendTopology


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize(
    "soc, hbm_gib, hbm_gb_s, node_gb_s, network_gb_s",
    [
        ("a2", 64, 1600, 196, 25),
        ("Ascend910B4", 32, 800, 196, 25),
        ("a3", 64, 1600, 196, 25),
        ("a5", 128, 1600, 224, 25),
        ("Ascend950DT_9591", 144, 4000, 224, 25),
    ],
)
def test_the_chips_figures_in_torchrecs_units(
    soc: str, hbm_gib: int, hbm_gb_s: float, node_gb_s: float, network_gb_s: float
) -> None:
    topology = AscendTopology(2, soc=soc, local_world_size=2)
    assert [device.storage.hbm for device in topology.devices] == [hbm_gib << 30] * 2
    bytes_per_ms = 1e9 / 1e3
    assert topology.hbm_mem_bw == pytest.approx(hbm_gb_s * bytes_per_ms)
    assert topology.intra_host_bw == pytest.approx(node_gb_s * bytes_per_ms)
    assert topology.inter_host_bw == pytest.approx(network_gb_s * bytes_per_ms)


def test_sixteen_dies_of_an_a3_node_are_near_and_others_far() -> None:
    topology = AscendTopology(32, soc="a3", local_world_size=16)
    assert topology.local_world_size == topology.intra_group_size == 16
    bandwidths = topology.comms_bandwidths
    assert bandwidths.get_bw(16, 16, CollectiveType.ALL_TO_ALL) == 196e6
    assert bandwidths.get_bw(16, 32, CollectiveType.ALL_TO_ALL) == 25e6


BANDWIDTHS = (
    "hbm_mem_bw",
    "intra_host_bw",
    "inter_host_bw",
    "ddr_mem_bw",
    "ssd_mem_bw",
    "hbm_to_ddr_mem_bw",
)


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_a_bandwidth_given_wins_and_leaves_the_others(name: str) -> None:
    default = AscendTopology(1, soc="a2")
    changed = AscendTopology(1, soc="a2", **{name: 123.0})  # type: ignore[arg-type]
    assert getattr(changed, name) == 123.0 != getattr(default, name)
    for other in set(BANDWIDTHS) - {name}:
        assert getattr(changed, other) == getattr(default, other)


def test_capacities_given_win() -> None:
    storage = AscendTopology(1, soc="a2", hbm_cap=1000, ddr_cap=2000).devices[0].storage
    assert (storage.hbm, storage.ddr) == (1000, 2000)


@pytest.mark.parametrize("name", ["hbm_cap", "ddr_cap", *BANDWIDTHS])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_no_bandwidth_or_capacity_is_zero(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {value}, expected more than 0"):
        AscendTopology(1, soc="a2", **{name: value})  # type: ignore[arg-type]


def test_upstreams_further_options_reach_it() -> None:
    assert AscendTopology(1, bwd_compute_multiplier=3.0).bwd_compute_multiplier == 3.0


def test_no_warning_that_upstreams_factory_was_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        AscendTopology(1, soc="a2")
    assert caplog.records == []


def test_the_present_chip_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    npu = SimpleNamespace(is_available=lambda: True, get_device_name=lambda: "Ascend910_9392")
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    assert AscendTopology(1).chip is chip("Ascend910_9392")
    assert AscendTopology(1, soc="a5").chip.family == "a5"
    npu.is_available = lambda: False
    assert AscendTopology(1).chip.family == "a2"


def test_without_an_npu_it_is_an_a2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "npu", raising=False)
    assert AscendTopology(1).chip.family == "a2"


def test_an_unknown_chip() -> None:
    with pytest.raises(ValueError, match="unknown chip 'h100'"):
        AscendTopology(1, soc="h100")


def test_the_world_is_the_process_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="world_size is not given and there is no process group"):
        AscendTopology(local_world_size=2)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 6)
    assert AscendTopology(local_world_size=2).world_size == 6


def test_ranks_of_a_node_from_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert AscendTopology(16).local_world_size == 4
    assert AscendTopology(16, local_world_size=8).local_world_size == 8


def test_a_single_rank_needs_no_launcher() -> None:
    assert AscendTopology(1).local_world_size == 1


def test_ranks_of_a_node_unknown() -> None:
    with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE is not set"):
        AscendTopology(2)


@pytest.mark.parametrize("value", ["", "-1", "two", "0", "3", "32"])
def test_ranks_of_a_node_that_cannot_be(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", value)
    with pytest.raises(ValueError, match=f"LOCAL_WORLD_SIZE is '?{value}'?.* expected a"):
        AscendTopology(16)


@pytest.mark.parametrize("value", [0, -1, 3, 32])
def test_given_ranks_of_a_node_that_cannot_be(value: int) -> None:
    with pytest.raises(ValueError, match=f"local_world_size is {value}, expected a divisor of"):
        AscendTopology(16, local_world_size=value)


@pytest.mark.parametrize("rank, local_rank, fits", [(9, 1, True), (9, 9, False), (8, 1, False)])
def test_the_card_of_this_rank_is_the_plans(
    monkeypatch: pytest.MonkeyPatch, rank: int, local_rank: int, fits: bool
) -> None:
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("LOCAL_RANK", str(local_rank))
    if fits:
        assert AscendTopology(16, local_world_size=8).local_world_size == 8
        return
    with pytest.raises(ValueError, match=f"RANK is {rank} and LOCAL_RANK is {local_rank}"):
        AscendTopology(16, local_world_size=8)


def test_a_world_without_ranks() -> None:
    with pytest.raises(ValueError, match="world_size is 0"):
        AscendTopology(0)
