"""Chips by name, and which card a process takes."""

from __future__ import annotations

import pytest
import torch

from torchrec_ascend import device


@pytest.mark.parametrize(
    "name, soc, arch",
    [
        ("a2", "Ascend910B1", 2201),
        ("A3", "Ascend910_9391", 2201),
        ("a5", "Ascend950PR_9599", 3510),
        ("ascend910b4", "Ascend910B4", 2201),
    ],
)
def test_a_chip_by_family_or_name(name: str, soc: str, arch: int) -> None:
    chip = device.chip(name)
    assert (chip.soc, chip.arch) == (soc, arch)


def test_an_unknown_chip_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'a4', expected a2, a3, a5 or one of Ascend910B1, "):
        device.chip("a4")


@pytest.mark.parametrize("chip", device.CHIPS.values(), ids=lambda chip: chip.soc)
def test_chip_figures_are_consistent(chip: device.Chip) -> None:
    assert chip.vector_cores == 2 * chip.cube_cores  # split architecture: two per cube core
    assert chip.ub_bytes % 32 == 0 and chip.ub_bytes >= 190 * 1024
    assert chip.hbm_bytes % (1 << 30) == 0 and chip.l2_bytes < chip.hbm_bytes
    assert (chip.arch == 3510) == (chip.family == "a5")
    # bytes per second: a rate in GB/s or per ms would fall out of these ranges
    assert 0.5e12 < chip.hbm_bandwidth < 1e13
    assert 1e11 < chip.node_bandwidth < chip.hbm_bandwidth
    assert 1e10 < chip.network_bandwidth < chip.node_bandwidth


class Cards:
    """A device module with two cards."""

    chosen: list[int]

    def __init__(self) -> None:
        self.chosen = []

    def device_count(self) -> int:
        return 2

    def set_device(self, index: torch.device) -> None:
        self.chosen.append(index.index)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Cards:
    module = Cards()
    monkeypatch.setattr(torch, "get_device_module", lambda _: module)
    return module


def test_a_process_takes_the_card_of_its_local_rank(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert device.rank_device("cuda") == torch.device("cuda", 1)
    assert cards.chosen == [1]


@pytest.mark.parametrize("value", [None, "", "-1", "one"])
def test_without_a_local_rank_nothing_is_chosen(
    cards: Cards, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if value is not None:
        monkeypatch.setenv("LOCAL_RANK", value)
    with pytest.raises(RuntimeError, match=f"LOCAL_RANK is {value!r}.*torchrun"):
        device.rank_device("cuda")
    assert cards.chosen == []


def test_more_processes_than_cards(cards: Cards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(RuntimeError, match="LOCAL_RANK is 2, but this host shows 2 cuda devices"):
        device.rank_device("cuda")


def test_a_cpu_process_needs_no_local_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    assert device.rank_device("cpu") == torch.device("cpu")


def test_backend_of_a_device() -> None:
    assert device.collective_backend("cpu") == "gloo"
    with pytest.raises(ValueError, match="no backend for device 'abacus'"):
        device.collective_backend("abacus")
