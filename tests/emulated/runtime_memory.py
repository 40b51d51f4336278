"""Devices and memory of the emulated runtime, without torch. Runs in an emulated process."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading

import runtime_acl as acl
from runtime_acl import answer, call, content, created, do, malloc, memory_info, message, refused


def a_wrong_description(words: str) -> None:
    """What a first call says when a variable of the environment is missing or malformed."""
    refused(acl.INTERNAL, words, "aclrtSetDevice", 0)


def version_of_cann() -> None:
    """Both functions agree; from 8.3 on torch_npu leaves the first device to aclInit's file."""
    text = ctypes.create_string_buffer(128)
    do("aclsysGetVersionStr", b"runtime", text)
    whole = ctypes.create_string_buffer(1024)  # aclCANNPackageVersion starts with the version
    do("aclsysGetCANNVersion", 0, whole)
    assert text.value == whole.value
    major, minor, _ = (int(part) for part in text.value.split(b"."))
    assert (major, minor) >= (8, 3)


def a_thread_without_a_device() -> None:
    do("aclrtSetDevice", 0)
    succeeded = []

    def other_thread() -> None:
        result = ctypes.byref(ctypes.c_void_p())
        refused(acl.NO_CONTEXT, "no device is set", "aclrtGetDevice", result)
        refused(acl.NO_CONTEXT, "no device is set", "aclrtMalloc", result, 8, 0)
        refused(acl.NO_CONTEXT, "no device is set", "aclrtCreateStream", result)
        # The file of aclInit names a device for such threads, and torch_npu's does.
        with tempfile.NamedTemporaryFile("w") as file:
            file.write('{"defaultDevice": {"default_device": "1"}}')
            file.flush()
            do("aclInit", file.name.encode())
        assert answer("aclrtGetDevice") == 1
        assert malloc(8)
        succeeded.append(True)

    thread = threading.Thread(target=other_thread)
    thread.start()
    thread.join()
    assert succeeded
    assert answer("aclrtGetDevice") == 0  # this thread has chosen
    refused(100002, "without aclFinalize", "aclInit", None)
    do("aclFinalize")
    refused(100001, "no aclInit before", "aclFinalize")


def limits_of_cores() -> None:
    do("aclrtSetDevice", 0)
    stream, other = acl.new_stream(), acl.new_stream()
    cube, vector = 0, 1

    def cores(name: str, *of: object) -> tuple[int, ...]:
        return tuple(answer(name, *of, kind_, kind=ctypes.c_uint32) for kind_ in (cube, vector))

    assert cores("aclrtGetDeviceResLimit", 0) == (24, 48)
    do("aclrtSetDeviceResLimit", 0, cube, 8)
    assert cores("aclrtGetDeviceResLimit", 0) == (8, 48)
    assert cores("aclrtGetDeviceResLimit", 1) == (24, 48)
    assert cores("aclrtGetStreamResLimit", stream) == (8, 48)
    do("aclrtSetStreamResLimit", stream, vector, 3)
    assert cores("aclrtGetStreamResLimit", stream) == (8, 3)
    assert cores("aclrtGetStreamResLimit", other) == (8, 48)
    assert cores("aclrtGetResInCurrentThread") == (8, 48)
    do("aclrtUseStreamResInCurrentThread", stream)
    assert cores("aclrtGetResInCurrentThread") == (8, 3)
    do("aclrtUnuseStreamResInCurrentThread", stream)
    do("aclrtResetStreamResLimit", stream)
    do("aclrtResetDeviceResLimit", 0)
    assert cores("aclrtGetStreamResLimit", stream) == (24, 48)
    assert cores("aclrtGetResInCurrentThread") == (24, 48)
    for bad in (0, 25):
        refused(acl.PARAMETER, f"{bad} cores", "aclrtSetDeviceResLimit", 0, cube, bad)


def memory_is_counted_per_device() -> None:
    do("aclrtSetDevice", 0)
    everything = memory_info()
    assert everything == (64 << 30, 64 << 30)
    large, small = malloc(3 << 20), malloc(5)
    assert memory_info()[0] == everything[0] - (3 << 20) - 5
    do("aclrtSetDevice", 1)
    assert memory_info() == everything
    do("aclrtFree", large)  # by a thread on another device
    do("aclrtSetDevice", 0)
    assert memory_info()[0] == everything[0] - 5
    do("aclrtFree", small)
    assert memory_info() == everything

    used = malloc(1 << 30)
    free, total = memory_info()
    refused(
        acl.OUT_OF_MEMORY,
        f"{free + 1} bytes on npu:0, where {total - free} of {total} are in use",
        *("aclrtMalloc", ctypes.byref(ctypes.c_void_p()), free + 1, 0),
    )
    rest = malloc(free)  # more than this host may have: pages come when they are touched
    assert memory_info() == (0, total)
    do("aclrtFree", rest)
    do("aclrtFree", used)
    assert memory_info() == everything


def allocations_fail_on_demand() -> None:
    do("aclrtSetDevice", 0)

    def attempts(count: int) -> list[int]:
        result = ctypes.c_void_p()
        return [call("aclrtMalloc", ctypes.byref(result), 64, 0) for _ in range(count)]

    failed = acl.OUT_OF_MEMORY
    os.environ["NPU_EMU_FAULT"] = "fail_alloc=2"
    assert attempts(4) == [0, failed, 0, 0]
    assert "injected by fail_alloc" in message()
    os.environ["NPU_EMU_FAULT"] = "fail_alloc=1"
    assert attempts(3) == [failed, 0, 0]  # counted from the change
    os.environ["NPU_EMU_FAULT"] = "unrelated=1;fail_alloc=2+"
    assert attempts(4) == [0, failed, failed, failed]  # and all that follow
    os.environ["NPU_EMU_FAULT"] = ""
    assert attempts(2) == [0, 0]


def new_and_freed_memory_is_poisoned() -> None:
    do("aclrtSetDevice", 0)
    pointer = malloc(1000)
    assert content(pointer, 1000) == b"\xdb" * 1000
    do("aclrtMemset", pointer, 1000, 0, 1000)
    assert content(pointer, 1000) == bytes(1000)
    do("aclrtFree", pointer)
    assert content(pointer, 1000) == b"\xdb" * 1000


def copies_are_checked() -> None:
    do("aclrtSetDevice", 0)
    stream = acl.new_stream()
    device, other = malloc(100), malloc(100)
    host = created("aclrtMallocHost", 200)
    ctypes.memset(host, 5, 200)
    to_device, to_host = acl.HOST_TO_DEVICE, acl.DEVICE_TO_HOST

    def bad(words: str, name: str, *arguments: object) -> None:
        on = (stream,) if name.endswith("Async") else ()
        refused(acl.PARAMETER, words, name, *arguments, *on)

    for name, on in (("aclrtMemcpy", ()), ("aclrtMemcpyAsync", (stream,))):
        do(name, device, 100, host, 100, to_device, *on)
        do("aclrtSynchronizeStream", stream)
        assert content(device, 100) == b"\x05" * 100
        bad("count 100 is larger than destMax 99", name, device, 99, host, 100, to_device)
        bad("at byte 0 of 100 allocated on npu:0", name, device, 101, host, 101, to_device)
        bad("at byte 60 of 100 allocated on npu:0", name, host, 200, device + 60, 41, to_host)
        bad("outside device memory", name, host, 200, host + 100, 10, acl.DEVICE_TO_DEVICE)
        bad("host to device: src", name, device, 100, other, 100, to_device)
        bad("dst is null", name, 0, 8, host, 8, to_device)
        bad("kind 99", name, device, 8, host, 8, 99)
        do(name, device, 0, host, 0, to_device, *on)
    for name in ("aclrtMemset", "aclrtMemsetAsync"):
        bad("count 100 is larger than maxCount 99", name, device, 99, 0, 100)
        bad("at byte 1 of 100", name, device + 1, 100, 0, 100)
    do("aclrtSynchronizeStream", stream)

    refused(acl.PARAMETER, "not the start of a live allocation", "aclrtFree", device + 1)
    do("aclrtFree", device)
    refused(acl.PARAMETER, "not the start of a live allocation", "aclrtFree", device)
    refused(acl.PARAMETER, "outside device memory", "aclrtMemset", device, 8, 0, 8)
    do("aclrtFreeHost", host)
    refused(acl.PARAMETER, "was not allocated by aclrtMallocHost", "aclrtFreeHost", host)


class _Attributes(ctypes.Structure):
    """aclrtPtrAttributes."""

    _fields_ = [
        ("id", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("page", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 4),
    ]


def location(pointer: int) -> tuple[str, int]:
    """Whose memory that is, by CANN."""
    attributes = _Attributes()
    do("aclrtPointerGetAttributes", pointer, ctypes.byref(attributes))
    return ("host", "device", "unregistered")[attributes.type], attributes.id


def host_memory() -> None:
    """Asynchronous mode. Pinned memory is copied behind the host, other memory is not."""
    do("aclrtSetDevice", 2)
    stream, device = acl.new_stream(), malloc(64)
    pinned = created("aclrtMallocHost", 64)
    copy = ("aclrtMemcpyAsync", device, 64, pinned, 64, acl.HOST_TO_DEVICE, stream)
    gate = acl.Gate(stream)
    do(*copy)
    ctypes.memset(pinned, 7, 64)  # the copy has not run yet
    gate.open()
    do("aclrtSynchronizeStream", stream)
    assert content(device, 64) == b"\x07" * 64

    pageable = ctypes.create_string_buffer(b"a" * 64, 64)
    address = ctypes.addressof(pageable)
    do("aclrtMemcpyAsync", device, 64, address, 64, acl.HOST_TO_DEVICE, stream)
    assert acl.done(stream)
    assert content(device, 64) == b"a" * 64

    assert location(pinned) == ("host", 0)
    assert location(device + 63) == ("device", 2)
    assert location(device + 64) == location(address) == ("unregistered", 0)
    do("aclrtHostRegisterV2", address, 64, 0)
    assert location(address) == ("host", 0)
    refused(507910, "registered already", "aclrtHostRegisterV2", address, 64, 0)
    do("aclrtHostUnregister", address)
    refused(507911, "is not registered", "aclrtHostUnregister", address)

    gate = acl.Gate(stream)
    do(*copy)
    do("aclrtFreeHost", pinned)  # too early
    gate.open()
    refused(acl.SYSTEM_DMA, "host memory was freed", "aclrtSynchronizeStream", stream)


def what_is_not_emulated(names: list[str]) -> None:
    for name in names:
        refused_code = call(name)
        text = message()
        assert refused_code != acl.SUCCESS, name
        assert f"{name}: not emulated" in text, (name, text)
    code = call("aclopCompileAndExecute", b"MyOperator", *[0] * 11)
    assert code == 100024
    assert "operator MyOperator is not emulated" in message()
