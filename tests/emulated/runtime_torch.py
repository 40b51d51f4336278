"""The emulated runtime under torch_npu. Runs in an emulated process."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import runtime_acl as acl
import torch
from runtime_acl import Gate, answer, content, do, fill, malloc, memory_info, new_stream, refused
from torch import Tensor

from torchrec_ascend.device import Chip

npu: Any = torch.get_device_module("npu")


def raises(kind: type[BaseException], call: Callable[[], object]) -> str:
    """The message of the exception that `call` must raise."""
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}")


def empty(mebibytes: int) -> Tensor:
    return torch.empty(mebibytes << 20, dtype=torch.uint8, device="npu")


def properties(chip: Chip) -> None:
    """What torch_npu and CANN say of the device is what the chip is."""
    npu.set_device(0)
    found = npu.get_device_properties(0)
    assert npu.get_device_name(0) == found.name == chip.soc
    assert found.total_memory == npu.mem_get_info(0)[1] == chip.hbm_bytes
    assert found.L2_cache_size == chip.l2_bytes
    assert found.cube_core_num == chip.cube_cores
    assert found.vector_core_num == chip.vector_cores
    limits = {"cube_core_num": chip.cube_cores, "vector_core_num": chip.vector_cores}
    assert npu.get_device_limit(0) == limits
    expected = {
        101: chip.cube_cores,  # ACL_DEV_ATTR_AICORE_CORE_NUM
        102: chip.cube_cores,
        201: chip.vector_cores,
        204: chip.ub_bytes,
        301: chip.hbm_bytes,
        302: chip.l2_bytes,
        601: chip.arch,
    }
    for attribute, value in expected.items():
        assert answer("aclrtGetDeviceInfo", 0, attribute, kind=ctypes.c_int64) == value, attribute
    unknown = 0, 205, ctypes.byref(ctypes.c_int64())
    refused(acl.PARAMETER, "attribute 205", "aclrtGetDeviceInfo", *unknown)

    import torch_npu

    # torch_npu's SocVersion: Ascend910B1 is 220, Ascend910_9391 250, Ascend950 and above 260.
    version = torch_npu._C._npu_get_soc_version()
    assert (
        version
        in {"a2": range(220, 240), "a3": range(250, 260), "a5": range(260, 300)}[chip.family]
    )


def device_ids() -> None:
    """On a host with three."""
    count = ctypes.c_uint32()
    do("aclrtGetDeviceCount", ctypes.byref(count))
    assert npu.device_count() == count.value == 3
    refused(acl.INVALID_DEVICE, "device 3 does not exist, there are 3", "aclrtSetDevice", 3)
    refused(acl.INVALID_DEVICE, "device -1 does not exist", "aclrtSetDevice", -1)
    text = raises(RuntimeError, lambda: npu.set_device(3))
    assert "device 3 does not exist, there are 3" in text, text
    assert torch.empty(2, device="npu:2").device.index == 2


def memory_comes_back() -> None:
    npu.set_device(0)
    total = memory_info()[1]
    x = empty(100)
    reserved = npu.memory_reserved()
    assert reserved >= 100 << 20
    assert npu.mem_get_info() == (total - reserved, total)
    del x
    npu.empty_cache()
    assert npu.memory_reserved() < 100 << 20
    assert npu.mem_get_info() == (total - npu.memory_reserved(), total)


def out_of_memory() -> None:
    """On a device of 1 GiB."""
    npu.set_device(0)
    text = raises(torch.OutOfMemoryError, lambda: empty(2048))
    assert "Tried to allocate 2.00 GiB (NPU 0; 1024.00 MiB total capacity" in text, text
    kept = empty(900)
    text = raises(torch.OutOfMemoryError, lambda: empty(200))
    assert "900.00 MiB already allocated" in text, text
    assert empty(50).fill_(7).cpu().eq(7).all()
    del kept
    assert empty(900).numel() == 900 << 20


def allocations_fail_on_demand() -> None:
    npu.set_device(0)
    os.environ["NPU_EMU_FAULT"] = "fail_alloc=1"
    empty(64)  # torch_npu frees what it cached and tries again
    assert npu.memory_stats()["num_alloc_retries"] == 1
    npu.empty_cache()
    os.environ["NPU_EMU_FAULT"] = "fail_alloc=1+"
    text = raises(torch.OutOfMemoryError, lambda: empty(64))
    assert "Tried to allocate 66.00 MiB" in text, text  # 64 and torch_npu's margin
    os.environ["NPU_EMU_FAULT"] = ""
    empty(64)


def pinned_memory() -> None:
    """Asynchronous mode: a copy from pinned memory runs behind the host."""
    npu.set_device(0)
    stream = npu.Stream()
    pinned = torch.full((1000,), 3.0).pin_memory()
    assert pinned.is_pinned()
    assert not torch.ones(3).is_pinned()
    x = torch.zeros(1000, device="npu")
    npu.synchronize()
    gate = Gate(stream.npu_stream)
    with npu.stream(stream):
        x.copy_(pinned, non_blocking=True)
    pinned.fill_(4.0)  # the copy has not run yet
    gate.open()
    stream.synchronize()
    assert x.cpu().eq(4.0).all()


def read_behind_a_write(ordered: bool) -> list[float]:
    """What one stream reads of a tensor of zeros that another is about to fill with ones."""
    writer, reader = npu.Stream(), npu.Stream()
    x = torch.zeros(4, device="npu")
    npu.synchronize()
    gate = Gate(writer.npu_stream)
    with npu.stream(writer):
        x.fill_(1)
    if ordered:
        reader.wait_event(writer.record_event())
    with npu.stream(reader):
        seen = x.clone()
    if ordered:
        assert not reader.query()
        gate.open()
    reader.synchronize()
    gate.open()
    npu.synchronize()
    assert x.cpu().tolist() == [1.0] * 4
    values: list[float] = seen.cpu().tolist()
    return values


def order_between_streams() -> None:
    """Asynchronous mode: only an event orders them, and without one the reader is too early."""
    npu.set_device(0)
    assert read_behind_a_write(ordered=False) == [0.0] * 4
    assert read_behind_a_write(ordered=True) == [1.0] * 4


def fail_on(stream: Any) -> tuple[Tensor, Any]:
    """Launches a task that fails and one behind it. Returns what the second would fill with ones,
    and the event behind both."""
    x, doomed = torch.zeros(8, device="npu"), malloc(1024)
    npu.current_stream().synchronize()
    gate = Gate(stream.npu_stream)
    with npu.stream(stream):
        fill(stream.npu_stream, doomed, 0, 1024)
        x.fill_(1)
    event = stream.record_event()
    do("aclrtFree", doomed)  # before the stream gets there
    assert torch.ones(2, device="npu").sum().item() == 2  # nobody knows yet
    gate.open()
    return x, event


def asynchronous_errors() -> None:
    """Asynchronous mode: the next synchronisation raises, and names the task that failed."""
    npu.set_device(0)
    for how in ("stream", "event", "item", "device"):
        stream, other = npu.Stream(), npu.Stream()
        x, event = fail_on(stream)

        def item(x: Tensor = x, stream: Any = stream) -> object:
            with npu.stream(stream):
                return x[0].item()

        synchronize = {
            "stream": stream.synchronize,
            "event": event.synchronize,
            "item": item,
            "device": npu.synchronize,
        }
        text = raises(RuntimeError, synchronize[how])
        assert "asynchronous error on stream" in text, text
        assert "aclrtMemsetAsync" in text and str(acl.SYSTEM_DMA) in text, text
        # What was queued behind it was dropped, and the stream stays failed.
        assert content(x.data_ptr(), 32) == bytes(32)
        failed = acl.SYSTEM_DMA, "aclrtMemsetAsync"
        refused(*failed, "aclrtSynchronizeStream", stream.npu_stream)
        query = stream.npu_stream, ctypes.byref(ctypes.c_int())
        refused(*failed, "aclrtStreamQuery", *query)
        bare = stream.npu_stream
        refused(*failed, "aclrtMemsetAsync", x.data_ptr(), 32, 1, 32, bare)
        late = acl.new_event()
        refused(*failed, "aclrtRecordEvent", late, bare)
        refused(*failed, "aclrtSynchronizeEvent", late)
        # Who waits for the dropped record fails too, and does not wait for good.
        other.synchronize()
        other.wait_event(event)
        assert "aclrtMemsetAsync" in raises(RuntimeError, other.synchronize)


def leave_work_behind() -> None:
    """Asynchronous mode with a delay: ends with full queues."""
    npu.set_device(0)
    x = torch.zeros(8, device="npu")
    for stream in (npu.Stream(), npu.Stream()):
        with npu.stream(stream):
            for _ in range(10):
                x.add_(1)


def nothing_starts_on_import() -> None:
    assert npu.device_count() == 8
    assert npu.is_available()
    assert len(os.listdir("/proc/self/task")) == 1


def use() -> None:
    assert (torch.ones(3, device="npu") * 2).cpu().tolist() == [2.0] * 3


def in_forked_process(function: Callable[[], None]) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=function)
    process.start()
    process.join()
    return process.exitcode


def import_then_fork() -> None:
    assert [in_forked_process(use) for _ in range(2)] == [0, 0]
    use()


def use_then_fork() -> None:
    """torch_npu refuses in a child of multiprocessing, and the runtime in one of os.fork."""
    npu.set_device(0)
    x = torch.ones(3, device="npu")
    npu.synchronize()
    stream, bare = npu.Stream(), new_stream()
    fill(bare, malloc(8), 1, 8)

    def refused_by_torch_npu() -> None:
        text = raises(RuntimeError, use)
        assert "Cannot re-initialize NPU in forked subprocess" in text, text

    assert in_forked_process(refused_by_torch_npu) == 0

    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            words = "forked after its parent used an NPU, and cannot use one"
            assert words in raises(RuntimeError, stream.synchronize)
            pointer = ctypes.byref(ctypes.c_void_p())
            refused(acl.NO_CONTEXT, words, "aclrtMalloc", pointer, 8, 0)
            refused(acl.NO_CONTEXT, words, "aclrtSynchronizeStream", bare)
            do("aclrtDestroyStream", bare)  # there is nothing to release
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    do("aclrtSynchronizeStream", bare)  # the parent goes on
    assert (x + 1).cpu().tolist() == [2.0] * 3


def expandable_segments() -> None:
    """Asked for by the environment: torch_npu finds that this driver has none, and goes on."""
    use()
