"""What a device offers. The sharder asks here and never for a device's name."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Chip:
    """One Ascend chip, as its driver reports it.

    No figure is measured. Cores, memories and `hbm_bandwidth` are the vendor's platform files'
    (the documents of the vendor's samples say 1.8 TB/s for A2 where its platform file says 1.6).
    The links are the vendor's descriptions of its servers: A2's HCCS joins a card to the 7 others
    of a node with 28 GB/s each, and a card has one RoCE port of 200 Gbit/s; a die of A3 reaches
    the dies of its node at 196 GB/s, and others at 25 (some sources say 50). A5's are the least
    certain: 224 GB/s in a node has one source, and for its network RoCE's figure is assumed.

    Args:
        soc: name that `aclrtGetSocName` returns.
        family: "a2", "a3" (one of a card's two dies) or "a5".
        arch: `__NPU_ARCH__` of the compiler: 2201 or 3510.
        cube_cores, vector_cores: AI cores that multiply matrices, and that do the rest.
        hbm_bytes: device memory.
        l2_bytes: cache.
        ub_bytes: unified buffer of one vector core that a kernel's tiling may use.
        hbm_bandwidth: of device memory, bytes per second.
        node_bandwidth: from a chip to the others of its node together, bytes per second, one way.
        network_bandwidth: from a chip to other nodes, bytes per second, one way.
    """

    soc: str
    family: str
    arch: int
    cube_cores: int
    vector_cores: int
    hbm_bytes: int
    l2_bytes: int
    ub_bytes: int
    hbm_bandwidth: float
    node_bandwidth: float
    network_bandwidth: float


_MIB, _GIB = 1 << 20, 1 << 30
_GB, _TB = 1e9, 1e12  # the vendor's bandwidths are decimal
_UB_2201 = 192 * 1024 - 256  # the last 256 bytes belong to the compiler
_UB_3510 = 248 * 1024
_HCCS = 7 * 28 * _GB
_ROCE = 25 * _GB


def _a2(soc: str, cubes: int, hbm_gib: int, l2_mib: int, hbm_bandwidth: float) -> Chip:
    memories = (hbm_gib * _GIB, l2_mib * _MIB, _UB_2201)
    return Chip(soc, "a2", 2201, cubes, 2 * cubes, *memories, hbm_bandwidth, _HCCS, _ROCE)


def _a3(soc: str, cubes: int) -> Chip:
    memories = (64 * _GIB, 192 * _MIB, _UB_2201)
    return Chip(soc, "a3", 2201, cubes, 2 * cubes, *memories, 1.6 * _TB, 196 * _GB, 25 * _GB)


def _a5(soc: str, cubes: int, hbm_gib: int, hbm_bandwidth: float) -> Chip:
    memories = (hbm_gib * _GIB, 128 * _MIB, _UB_3510)
    return Chip(soc, "a5", 3510, cubes, 2 * cubes, *memories, hbm_bandwidth, 224 * _GB, _ROCE)


CHIPS: dict[str, Chip] = {
    chip.soc: chip
    for chip in (
        _a2("Ascend910B1", 24, 64, 192, 1.6 * _TB),
        _a2("Ascend910B2", 24, 64, 192, 1.6 * _TB),
        _a2("Ascend910B3", 20, 64, 192, 1.6 * _TB),
        _a2("Ascend910B4", 20, 32, 96, 0.8 * _TB),
        _a3("Ascend910_9391", 24),
        _a3("Ascend910_9392", 24),
        _a3("Ascend910_9381", 24),
        _a3("Ascend910_9382", 24),
        _a3("Ascend910_9372", 20),
        _a5("Ascend950PR_9599", 36, 128, 1.6 * _TB),
        _a5("Ascend950PR_9589", 32, 128, 1.6 * _TB),
        _a5("Ascend950PR_9579", 28, 128, 1.6 * _TB),
        _a5("Ascend950DT_9591", 36, 144, 4.0 * _TB),
        _a5("Ascend950DT_9581", 32, 144, 4.0 * _TB),
    )
}


def chip(name: str) -> Chip:
    """The chip of that SoC name, or the first of a family ("a2", "a3", "a5").

    Raises:
        ValueError: unknown; lists what is known.
    """
    for known in CHIPS.values():
        if name.lower() in (known.soc.lower(), known.family):
            return known
    raise ValueError(f"unknown chip {name!r}, expected a2, a3, a5 or one of {', '.join(CHIPS)}")


def rank_device(device_type: str) -> torch.device:
    """The device of this process: `cpu`, or the card that LOCAL_RANK names.

    Call it before the first tensor: a process that has not chosen sits on card 0, and HCCL refuses
    two ranks on one card.

    Raises:
        RuntimeError: on a card and LOCAL_RANK is missing, malformed or beyond the cards there are.
    """
    if device_type == "cpu":
        return torch.device("cpu")
    text = os.environ.get("LOCAL_RANK")
    if text is None or not text.isdecimal():
        raise RuntimeError(
            f"LOCAL_RANK is {text!r}, expected the index of this process on its host: start it "
            f"with torchrun or torchx, which set it"
        )
    module = torch.get_device_module(device_type)
    if int(text) >= module.device_count():
        raise RuntimeError(
            f"LOCAL_RANK is {text}, but this host shows {module.device_count()} {device_type} "
            f"devices: start no more processes per host than it has"
        )
    device = torch.device(device_type, int(text))
    module.set_device(device)
    return device


def emulated_chip(device_type: str) -> str | None:
    """Name of the chip that this process's devices of that type emulate, None where they do not."""
    return os.environ.get("NPU_EMU_SOC") if device_type == "npu" else None


def collective_backend(device_type: str) -> str:
    """Name of torch.distributed's backend for tensors on that device.

    Raises:
        ValueError: torch knows none.
    """
    backend = torch.distributed.Backend.default_device_backend_map.get(device_type)
    if backend is None:
        raise ValueError(f"torch.distributed has no backend for device {device_type!r}")
    return backend


def lookup_dtypes(device: torch.device | None) -> tuple[torch.dtype, ...]:
    """Floating-point dtypes of tables and outputs that the device's embedding lookup has."""
    if device is not None and device.type == "cpu":
        return (torch.float32, torch.float16)  # fbgemm's CPU kernels (1.8.0) have no bfloat16
    return (torch.float32, torch.float16, torch.bfloat16)
