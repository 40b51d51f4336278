"""HCCL's own functions, called as torch_npu would not.

Every public function runs on each rank of a world, whose torch_npu has loaded the emulated libhccl
and set a device; it makes communicators of its own. With no stream an operator runs at once.
"""

from __future__ import annotations

import ctypes
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

FLOAT32, INT32, BFLOAT16 = 4, 2, 11
SUM, PROD = 0, 1
PARA, PTR, INTERNAL, NOT_SUPPORT, UNAVAIL, TIMEOUT, REMOTE = 1, 2, 4, 5, 7, 9, 21
NAME_BYTES, CONFIG_BYTES, ROOT_INFO_BYTES = 128, 2240, 4108
CONFIG_NAME, CONFIG_EXEC_TIMEOUT = 32, 316  # offsets in HcclCommConfig

_rounds = 0


def library() -> ctypes.CDLL:
    return ctypes.CDLL("libhccl.so")


def recent_message() -> str:
    acl = ctypes.CDLL("libascendcl.so")
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return (acl.aclGetRecentErrMsg() or b"").decode()


def _address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _counts(values: Sequence[int]) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


def _npu(values: Sequence[float], dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype).to("npu")


def _settle() -> None:
    """Copies on torch_npu's streams are done before an operator without a stream runs."""
    torch.get_device_module("npu").synchronize()


def config(name: str = "", exec_timeout: int = -1) -> Any:
    """An HcclCommConfig as HcclCommConfigInit leaves it, with these two fields."""
    buffer = ctypes.create_string_buffer(b"\xff" * CONFIG_BYTES, CONFIG_BYTES)
    header = CONFIG_BYTES.to_bytes(8, "little") + b"\xf0\xf0\xf0\xf0" + (10).to_bytes(4, "little")
    ctypes.memmove(buffer, header, len(header))
    ctypes.memmove(ctypes.addressof(buffer) + CONFIG_NAME, name.encode() + b"\0", len(name) + 1)
    timeout = exec_timeout.to_bytes(4, "little", signed=True)
    ctypes.memmove(ctypes.addressof(buffer) + CONFIG_EXEC_TIMEOUT, timeout, 4)
    return buffer


class Raw:
    """A communicator."""

    def __init__(self, handle: ctypes.c_void_p) -> None:
        self.handle = handle

    def all_reduce(self, values: Tensor, dtype: int = FLOAT32, op: int = SUM) -> int:
        count = ctypes.c_uint64(values.numel())
        _settle()
        place = _address(values)
        return library().HcclAllReduce(place, place, count, dtype, op, self.handle, None)

    def all_to_all(self, sent: Tensor, out: Sequence[int], got: Tensor, into: Sequence[int]) -> int:
        """HcclAlltoAllV of float32, the parts one after the other."""
        starts = [_counts([sum(part[:i]) for i in range(len(part))]) for part in (out, into)]
        _settle()
        return library().HcclAlltoAllV(
            _address(sent), _counts(out), starts[0], FLOAT32,
            _address(got), _counts(into), starts[1], FLOAT32, self.handle, None,
        )  # fmt: skip

    def destroy(self) -> None:
        assert library().HcclCommDestroy(self.handle) == 0


def make(
    ranks: Sequence[int] | None = None, settings: Any = None, size: int | None = None
) -> tuple[int, Raw | None]:
    """Return code of HcclCommInitRootInfo(Config) and the communicator, among `ranks` of the world.

    size: nRanks that this rank gives, where it lies.
    """
    global _rounds
    _rounds += 1
    members = list(range(dist.get_world_size()) if ranks is None else ranks)
    if dist.get_rank() not in members:
        return 0, None
    store = dist.distributed_c10d._get_default_store()
    key = f"hccl_raw_{_rounds}"
    info = ctypes.create_string_buffer(ROOT_INFO_BYTES)
    if dist.get_rank() == members[0]:
        assert library().HcclGetRootInfo(info) == 0
        store.set(key, info.raw.hex())
    info.raw = bytes.fromhex(store.get(key).decode())
    count = len(members) if size is None else size
    rank = members.index(dist.get_rank())
    handle = ctypes.c_void_p()
    place = ctypes.byref(handle)
    if settings is None:
        code = library().HcclCommInitRootInfo(count, info, rank, place)
    else:
        code = library().HcclCommInitRootInfoConfig(count, info, rank, settings, place)
    return code, Raw(handle) if code == 0 else None


def made(ranks: Sequence[int] | None = None, settings: Any = None) -> Raw:
    code, raw = make(ranks, settings)
    assert code == 0, recent_message()
    assert raw is not None
    return raw


def _text(raw: Raw) -> str:
    name = ctypes.create_string_buffer(NAME_BYTES)
    assert library().HcclGetCommName(raw.handle, name) == 0
    return name.value.decode()


def _expect(code: int, want: int, *words: str) -> None:
    message = recent_message()
    assert code == want, f"returned {code}, want {want}: {message}"
    for word in ("emulated HCCL", *words):
        assert word in message, f"{word!r} is not in {message!r}"


def questions() -> None:
    raw = made(settings=config("tables"))
    rank, size = ctypes.c_uint32(), ctypes.c_uint32()
    assert library().HcclGetRankId(raw.handle, ctypes.byref(rank)) == 0
    assert library().HcclGetRankSize(raw.handle, ctypes.byref(size)) == 0
    assert (rank.value, size.value) == (dist.get_rank(), dist.get_world_size())
    assert _text(raw) == "tables"
    raw.destroy()
    unnamed = [made(), made()]
    assert _text(unnamed[0]) != _text(unnamed[1])
    for one in unnamed:
        one.destroy()


def bad_arguments() -> None:
    """Refused before anything is sent: the communicator still works."""
    raw = made()
    rank, size = dist.get_rank(), dist.get_world_size()
    good, other = _npu([1.0] * size), _npu([0.0] * size)
    ones = [1] * size
    hccl, handle = library(), raw.handle
    _settle()

    def reduce(send: Any, receive: Any, count: int, dtype: int = FLOAT32, op: int = SUM) -> int:
        return hccl.HcclAllReduce(send, receive, ctypes.c_uint64(count), dtype, op, handle, None)

    place = _address(good)
    host = torch.ones(size)
    _expect(reduce(_address(host), place, size), PARA, "HcclAllReduce", "sendBuf")
    _expect(reduce(place, _address(host), size), PARA, "recvBuf")
    _expect(reduce(place, place, 1 << 40), PARA, "sendBuf", str(1 << 42))
    _expect(reduce(place, place, 1 << 63), PARA, str(1 << 63))
    _expect(reduce(None, place, size), PTR, "sendBuf")
    _expect(reduce(place, place, size, dtype=99), NOT_SUPPORT, "99")
    _expect(reduce(place, place, size, op=9), PARA, "9")
    _expect(reduce(place, place, size, BFLOAT16, PROD), NOT_SUPPORT, "prod", "bfloat16")
    _expect(raw.all_to_all(good, ones, good, ones), PARA, "HcclAlltoAllV", "overlap")
    beyond = [1 << 40 if peer != rank else 1 for peer in range(size)]
    _expect(raw.all_to_all(good, ones, other, beyond), PARA, "recvBuf")
    own = [2 if peer == rank else 0 for peer in range(size)]
    _expect(raw.all_to_all(good, own, other, ones), PARA, f"rank {rank} gives itself 8 bytes")
    count = ctypes.c_uint64(1)
    code = hccl.HcclBroadcast(place, count, FLOAT32, size, handle, None)
    _expect(code, PARA, "root", str(size))
    code = hccl.HcclSend(place, count, FLOAT32, size, handle, None)
    _expect(code, PARA, "destRank", str(size))
    _expect(hccl.HcclAllReduce(place, place, count, FLOAT32, SUM, None, None), PTR, "comm")
    assert raw.all_reduce(good) == 0, recent_message()
    assert good.cpu().tolist() == [float(size)] * size
    raw.destroy()
    _expect(raw.all_reduce(good), PARA, "destroyed")


def counted_forms() -> None:
    """HcclAlltoAllVC, HcclAllGatherV and HcclReduceScatterV, with gaps between the parts."""
    raw = made()
    rank, size = dist.get_rank(), dist.get_world_size()
    hccl, handle = library(), raw.handle
    matrix = [[i + 2 * j for j in range(size)] for i in range(size)]
    sent = _npu([100.0 * rank + i for i in range(sum(matrix[rank]))])
    column = [row[rank] for row in matrix]
    got = _npu([-1.0] * max(1, sum(column)))
    flat = _counts([count for row in matrix for count in row])
    _settle()
    code = hccl.HcclAlltoAllVC(_address(sent), flat, FLOAT32, _address(got), FLOAT32, handle, None)
    assert code == 0, recent_message()
    want = [
        100.0 * i + sum(row[:rank]) + k for i, row in enumerate(matrix) for k in range(row[rank])
    ]
    assert got.cpu().tolist()[: len(want)] == want
    counts = [peer + 1 for peer in range(size)]
    starts = [10 * peer for peer in range(size)]
    mine, got = _npu([float(rank)] * counts[rank]), _npu([-1.0] * (10 * size))
    _settle()
    code = hccl.HcclAllGatherV(
        _address(mine), ctypes.c_uint64(counts[rank]), _address(got), _counts(counts),
        _counts(starts), FLOAT32, handle, None,
    )  # fmt: skip
    assert code == 0, recent_message()
    gathered = [-1.0] * (10 * size)
    for peer in range(size):
        gathered[starts[peer] : starts[peer] + counts[peer]] = [float(peer)] * counts[peer]
    assert got.cpu().tolist() == gathered
    sent, got = _npu([float(rank + i) for i in range(10 * size)]), _npu([-1.0] * counts[rank])
    _settle()
    code = hccl.HcclReduceScatterV(
        _address(sent), _counts(counts), _counts(starts), _address(got),
        ctypes.c_uint64(counts[rank]), FLOAT32, SUM, handle, None,
    )  # fmt: skip
    assert code == 0, recent_message()
    total = sum(range(size))
    assert got.cpu().tolist() == [total + size * (starts[rank] + k) for k in range(counts[rank])]
    raw.destroy()


def grouped_messages() -> None:
    """Sends first on every rank: without the group this would wait for ever."""
    raw = made()
    rank, size = dist.get_rank(), dist.get_world_size()
    hccl, handle = library(), raw.handle
    sent = _npu([float(10 * rank + peer) for peer in range(size)])
    got = _npu([-1.0] * size)
    one = ctypes.c_uint64(1)
    _settle()
    assert hccl.HcclGroupStart() == 0
    assert hccl.HcclGroupStart() == 0
    for peer in range(size):  # a rank's message to itself too
        place = ctypes.c_void_p(sent.data_ptr() + 4 * peer)
        assert hccl.HcclSend(place, one, FLOAT32, peer, handle, None) == 0
    assert hccl.HcclGroupEnd() == 0
    for peer in range(size):
        place = ctypes.c_void_p(got.data_ptr() + 4 * peer)
        assert hccl.HcclRecv(place, one, FLOAT32, peer, handle, None) == 0
    assert got.cpu().tolist() == [-1.0] * size  # not before the end
    assert hccl.HcclGroupEnd() == 0, recent_message()
    assert got.cpu().tolist() == [float(10 * peer + rank) for peer in range(size)]
    _expect(hccl.HcclGroupEnd(), PARA, "no group")
    raw.destroy()


def sub_communicators() -> None:
    """Ranks in an order of their own; a rank outside gets none."""
    raw = made()
    rank, size = dist.get_rank(), dist.get_world_size()
    hccl = library()
    members = [size - 1, 0]
    sub = ctypes.c_void_p(1)

    def create(count: int, ids: Any, number: int, own: int) -> int:
        return hccl.HcclCreateSubCommConfig(
            ctypes.byref(raw.handle), count, ids, ctypes.c_uint64(number), own,
            config(f"sub{number}"), ctypes.byref(sub),
        )  # fmt: skip

    ids = (ctypes.c_uint32 * 2)(*members)
    if rank in members:
        assert create(2, ids, 5, members.index(rank)) == 0, recent_message()
        place = members.index(rank)
        got = _npu([float(place)] * 3)
        _settle()
        code = hccl.HcclBroadcast(_address(got), ctypes.c_uint64(3), FLOAT32, 1, sub, None)
        assert code == 0, recent_message()
        assert got.cpu().tolist() == [1.0] * 3
        assert _text(Raw(sub)) == "sub5"
        Raw(sub).destroy()
    else:
        assert create(0, None, 5, 0) == 0
        assert sub.value is None
    _expect(create(2, (ctypes.c_uint32 * 2)(0, 0), 6, 0), PARA, "rankIds[1]")
    _expect(create(2, (ctypes.c_uint32 * 2)(0, size), 6, 0), PARA, "rankIds[1]", str(size))
    wrong = (rank + 1) % size
    _expect(create(1, (ctypes.c_uint32 * 1)(wrong), 6, 0), PARA, "subCommRankId")
    raw.destroy()


def rank_tables(path: str) -> None:
    """A communicator from a rank table; wrong tables are named."""
    rank, size = dist.get_rank(), dist.get_world_size()
    hccl = library()

    def init(table: str) -> tuple[int, ctypes.c_void_p]:
        handle = ctypes.c_void_p()
        code = hccl.HcclCommInitClusterInfoConfig(
            table.encode(), rank, config("from_table"), ctypes.byref(handle)
        )
        return code, handle

    code, handle = init(path)
    assert code == 0, recent_message()
    got = _npu([1.0])
    assert Raw(handle).all_reduce(got) == 0
    assert got.item() == size
    Raw(handle).destroy()
    _expect(init(path + ".missing")[0], 10, ".missing")
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.json"
        entries = [{"device_id": str(peer + 1), "rank_id": str(peer)} for peer in range(size)]
        table.write_text(json.dumps({"server_list": [{"device": entries}]}))
        _expect(init(str(table))[0], PARA, f"device {rank + 1}", f"device {rank} is set")
        table.write_text(json.dumps({"server_list": [{"device": entries[1:]}]}))
        _expect(init(str(table))[0], PARA, "rank 0 is missing")


def unsupported() -> None:
    """Functions that are not emulated say so, by name; every error code has a text."""
    hccl = library()
    for name in ("HcclCommInitAll", "HcclCommResume", "HcclCommRegister", "HcommMemAlloc"):
        _expect(getattr(hccl, name)(None, None, None), NOT_SUPPORT, name, "not emulated")
    hccl.HcclGetErrorString.restype = ctypes.c_char_p
    texts = [hccl.HcclGetErrorString(code) for code in range(26)]
    assert len(set(texts)) == len(texts) and all(texts)


def disagreement(kind: str) -> tuple[int, str, int, str]:
    """Rank 1 does otherwise than the rest: each rank's code and message, and a next call's."""
    raw = made()
    rank, size = dist.get_rank(), dist.get_world_size()
    odd = rank == 1
    values = _npu([1.0] * 4 * size)
    other = _npu([0.0] * 4 * size)
    hccl, handle = library(), raw.handle
    four = ctypes.c_uint64(4)
    _settle()
    if kind == "operator" and odd:
        code = hccl.HcclBroadcast(_address(values), four, FLOAT32, 0, handle, None)
    elif kind == "operator":
        code = raw.all_reduce(values[:4])
    elif kind == "size":
        code = raw.all_reduce(values[: 5 if odd else 4])
    elif kind == "dtype":
        code = raw.all_reduce(values[:4], INT32 if odd else FLOAT32)
    elif kind == "reduction":
        code = raw.all_reduce(values[:4], op=PROD if odd else SUM)
    elif kind == "root":
        code = hccl.HcclBroadcast(_address(values), four, FLOAT32, int(odd), handle, None)
    elif kind == "splits":
        counts = [2] * size
        sent = [3, *counts[1:]] if odd else counts
        code = raw.all_to_all(values, sent, other, counts)
    elif kind.startswith("message"):  # the last rank takes no part
        peer = {0: 1, 1: 0}.get(rank)
        function = hccl.HcclRecv if odd else hccl.HcclSend
        count = ctypes.c_uint64(6 if odd and kind == "message size" else 4)
        dtype = INT32 if odd and kind == "message dtype" else FLOAT32
        code = -1
        if peer is not None:
            code = function(_address(values), count, dtype, peer, handle, None)
    else:
        raise ValueError(kind)
    first = code, recent_message() if code > 0 else ""
    second = raw.all_reduce(values[:4])
    result = *first, second, recent_message()
    raw.destroy()
    return result


def impatience() -> tuple[int, str, float]:
    """Rank 1 never comes: code, message and seconds on the others."""
    raw = made(settings=config("impatient", exec_timeout=1))
    store = dist.distributed_c10d._get_default_store()
    key = f"hccl_raw_late_{_rounds}"
    if dist.get_rank() == 1:
        store.get(key)  # until all the others have given up
        raw.destroy()
        return 0, "", 0.0
    start = time.monotonic()
    code = raw.all_reduce(_npu([1.0]))
    result = code, recent_message(), time.monotonic() - start
    if store.add(f"{key}_count", 1) == dist.get_world_size() - 1:
        store.set(key, "")
    raw.destroy()
    return result


def unequal_sizes() -> tuple[int, str]:
    """Rank 1 thinks of fewer ranks than there are."""
    size = dist.get_world_size()
    code, _ = make(size=size - 1 if dist.get_rank() == 1 else size)
    return code, recent_message()


def absent_rank() -> tuple[int, str]:
    """The last rank does not join."""
    if dist.get_rank() == dist.get_world_size() - 1:
        make(ranks=[])
        return 0, ""
    os.environ["HCCL_CONNECT_TIMEOUT"] = "1"
    try:
        code, _ = make()
    finally:
        del os.environ["HCCL_CONNECT_TIMEOUT"]
    return code, recent_message()


def shared_device() -> tuple[int, str]:
    """Rank 1 sits on rank 0's device."""
    npu = torch.get_device_module("npu")
    own = npu.current_device()
    npu.set_device(0 if dist.get_rank() == 1 else own)
    try:
        code, _ = make()
        return code, recent_message()
    finally:
        npu.set_device(own)


def with_fault(value: str, ranks: Sequence[int]) -> list[float]:
    """What an all-to-all delivers among `ranks` with NPU_EMU_FAULT set."""
    raw = make(ranks)[1]
    if raw is None:
        return []
    os.environ["NPU_EMU_FAULT"] = value
    try:
        size = len(ranks)
        sent, got = _npu([1.0 + dist.get_rank()] * size), _npu([-1.0] * size)
        code = raw.all_to_all(sent, [1] * size, got, [1] * size)
        assert code == 0, recent_message()
        return got.cpu().tolist()
    finally:
        del os.environ["NPU_EMU_FAULT"]
        raw.destroy()
