"""Streams and events of the emulated runtime, without torch. Runs in an emulated process."""

from __future__ import annotations

import ctypes
import os
import threading
import time

import runtime_acl as acl
from runtime_acl import (
    Gate,
    answer,
    call,
    content,
    created,
    do,
    done,
    fill,
    malloc,
    memory_info,
    message,
    new_event,
    new_stream,
    refused,
)


def recorded(event: int) -> bool:
    status: int = answer("aclrtQueryEventStatus", event)
    return status == 1


def waits_are_over(event: int) -> bool:
    status: int = answer("aclrtQueryEventWaitStatus", event)
    return status == 0


def tasks_are_delayed() -> None:
    """Asynchronous mode with 20 ms before each task."""
    do("aclrtSetDevice", 0)
    stream, memory = new_stream(), malloc(8)
    first, second = new_event(acl.TIMED), new_event(acl.TIMED)
    start = time.monotonic()
    do("aclrtRecordEvent", first, stream)
    fill(stream, memory, 1, 8)
    do("aclrtRecordEvent", second, stream)
    do("aclrtSynchronizeStream", stream)
    assert time.monotonic() - start >= 3 * 0.02
    elapsed = ctypes.c_float()
    do("aclrtEventElapsedTime", ctypes.byref(elapsed), first, second)
    forth = elapsed.value
    assert forth >= 2 * 20, forth  # milliseconds
    do("aclrtEventElapsedTime", ctypes.byref(elapsed), second, first)
    assert elapsed.value == -forth


def an_event_never_recorded() -> None:
    do("aclrtSetDevice", 0)
    stream, event = new_stream(), new_event()
    assert recorded(event)
    do("aclrtStreamWaitEvent", stream, event)
    do("aclrtSynchronizeEvent", event)
    do("aclrtSynchronizeStream", stream)
    older = created("aclrtCreateEventWithFlag", acl.UNTIMED)  # this kind differs
    assert not recorded(older)
    refused(acl.PARAMETER, "has not been recorded", "aclrtStreamWaitEvent", stream, older)


def the_time_of_an_event() -> None:
    do("aclrtSetDevice", 0)
    stream, timed, untimed = new_stream(), new_event(acl.TIMED), new_event()
    elapsed = ctypes.c_float()

    def bad(words: str, event: int) -> None:
        arguments = ctypes.byref(elapsed), event, event
        refused(acl.TIMESTAMP, words, "aclrtEventElapsedTime", *arguments)

    bad("is not complete", timed)
    do("aclrtRecordEvent", untimed, stream)
    do("aclrtSynchronizeEvent", untimed)
    bad("without ACL_EVENT_TIME_LINE", untimed)
    do("aclrtRecordEvent", timed, stream)
    do("aclrtSynchronizeEvent", timed)
    do("aclrtEventElapsedTime", ctypes.byref(elapsed), timed, timed)
    assert elapsed.value == 0
    do("aclrtDestroyEvent", timed)
    refused(acl.PARAMETER, "does not exist", "aclrtRecordEvent", timed, stream)


def a_wait_keeps_to_its_record() -> None:
    """Asynchronous mode. One event recorded on two streams: the record before the wait counts."""
    do("aclrtSetDevice", 0)
    first, second, waiting = new_stream(), new_stream(), new_stream()
    event = new_event()
    gate = Gate(first)
    do("aclrtRecordEvent", event, first)
    do("aclrtStreamWaitEvent", waiting, event)
    assert not recorded(event)
    do("aclrtRecordEvent", event, second)
    do("aclrtSynchronizeEvent", event)  # the latest record
    assert recorded(event)
    do("aclrtDestroyEvent", event)  # the wait goes on
    busy = acl.SYNC_TIMEOUT, "is busy after 100 ms"
    refused(*busy, "aclrtSynchronizeStreamWithTimeout", waiting, 100)
    gate.open()
    do("aclrtSynchronizeStream", waiting)
    do("aclrtSynchronizeStream", first)


def streams_of_another_device_and_none() -> None:
    do("aclrtSetDevice", 0)
    stream, event, memory = new_stream(), new_event(), malloc(8)
    do("aclrtSetDevice", 1)
    words = "is of npu:0, but the thread is on npu:1"
    refused(acl.OTHER_CONTEXT, words, "aclrtRecordEvent", event, stream)
    refused(acl.OTHER_CONTEXT, words, "aclrtMemsetAsync", memory, 8, 0, 8, stream)
    do("aclrtSynchronizeStream", stream)  # CANN changes the device for this one
    do("aclrtSetDevice", 0)
    do("aclrtDestroyStream", stream)
    refused(acl.PARAMETER, "does not exist", "aclrtSynchronizeStream", stream)
    refused(acl.PARAMETER, "does not exist", "aclrtMemsetAsync", memory, 8, 0, 8, stream)
    fill(None, memory, 3, 8)  # the default stream
    assert content(memory, 8) == b"\x03" * 8


def busy_streams() -> None:
    """Asynchronous mode: what is busy says so, and destruction drops or ends its work."""
    do("aclrtSetDevice", 0)
    gated, waiting, other = new_stream(), new_stream(), new_stream()
    dropped, ended = malloc(8), malloc(8)
    for memory in (dropped, ended):
        do("aclrtMemset", memory, 8, 0, 8)
    gate, event = Gate(gated), new_event()
    do("aclrtRecordEvent", event, gated)
    do("aclrtStreamWaitEvent", waiting, event)
    fill(waiting, dropped, 1, 8)
    assert [done(s) for s in (gated, waiting, other)] == [False, False, True]
    busy = acl.SYNC_TIMEOUT, "is busy after 10 ms"
    refused(*busy, "aclrtSynchronizeStreamWithTimeout", waiting, 10)
    refused(*busy, "aclrtSynchronizeDeviceWithTimeout", 10)
    assert not waits_are_over(event)
    do("aclrtDestroyStreamForce", waiting)
    assert waits_are_over(event)
    fill(other, ended, 1, 8)
    do("aclrtDestroyStream", other)
    assert content(ended, 8) == b"\x01" * 8
    gate.open()
    do("aclrtSynchronizeDevice")
    assert content(dropped, 8) == bytes(8)


def callbacks() -> None:
    do("aclrtSetDevice", 0)
    stream = new_stream()
    called: list[tuple[int, int]] = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(
        lambda value: called.append((value, threading.get_ident()))
    )
    do("aclrtLaunchHostFunc", stream, function, 1)
    do("aclrtSynchronizeStream", stream)
    assert [value for value, _ in called] == [1]

    # The older kind runs on the thread that asks for it.
    subscribed = threading.Event()

    def reporter() -> None:
        subscribed.wait()
        do("aclrtProcessReport", -1)
        refused(acl.REPORT_TIMEOUT, "no callback came in 1 ms", "aclrtProcessReport", 1)

    thread = threading.Thread(target=reporter)
    thread.start()
    no_block = 0
    do("aclrtSubscribeReport", thread.ident, stream)
    do("aclrtLaunchCallback", function, 2, no_block, stream)
    subscribed.set()
    thread.join()
    assert called[-1] == (2, thread.ident)
    do("aclrtUnSubscribeReport", thread.ident, stream)
    code = call("aclrtLaunchCallback", function, 3, no_block, stream)
    code = code or call("aclrtSynchronizeStream", stream)
    assert code == acl.NO_SUBSCRIBER
    assert "aclrtLaunchCallback" in message()


def threads_share_the_runtime() -> None:
    do("aclrtSetDevice", 0)
    free, shared = memory_info()[0], new_stream()
    failures: list[BaseException] = []

    def turn(number: int, stream: int, event: int) -> None:
        memory = malloc(4096)
        for value in (1, 2, 3):
            fill(stream, memory, value, 4096)
        do("aclrtRecordEvent", event, stream)
        do("aclrtSynchronizeEvent", event)
        assert content(memory, 4096) == b"\x03" * 4096
        if number % 2 == 0:  # on the shared stream's device
            fill(shared, memory, 9, 4096)
            do("aclrtSynchronizeStream", shared)
            assert content(memory, 4096) == b"\x09" * 4096
        do("aclrtFree", memory)

    def worker(number: int) -> None:
        try:
            do("aclrtSetDevice", number % 2)
            stream, event = new_stream(), new_event()
            for _ in range(100):
                turn(number, stream, event)
            do("aclrtDestroyEvent", event)
            do("aclrtDestroyStream", stream)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert memory_info()[0] == free


def reset_ends_what_waits() -> None:
    """Asynchronous mode: neither aclrtResetDevice nor the process waits for a blocked stream."""
    do("aclrtSetDevice", 0)
    gated, waiting, event = new_stream(), new_stream(), new_event()
    do("aclrtSetDevice", 1)
    other = new_stream()
    do("aclrtSetDevice", 0)
    gate = Gate(gated)
    do("aclrtRecordEvent", event, gated)
    do("aclrtStreamWaitEvent", waiting, event)
    free = memory_info()[0]
    malloc(1 << 20)
    gate.open()
    do("aclrtResetDevice", 0)
    refused(acl.NO_CONTEXT, "no device is set", "aclrtGetDevice", ctypes.byref(ctypes.c_int()))
    do("aclrtSetDevice", 0)
    assert memory_info()[0] == free
    refused(acl.PARAMETER, "does not exist", "aclrtSynchronizeStream", waiting)
    do("aclrtSynchronizeStream", other)  # of a device that was not reset


def use_then_fork() -> None:
    do("aclrtSetDevice", 0)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            words = "forked after its parent used an NPU"
            pointer = ctypes.byref(ctypes.c_void_p())
            refused(acl.NO_CONTEXT, words, "aclrtCreateStream", pointer)
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    new_stream()  # the parent goes on


def leave_work_behind() -> None:
    """Asynchronous mode with a delay: ends with full queues."""
    do("aclrtSetDevice", 0)
    for stream in (new_stream(), new_stream()):
        for _ in range(10):
            fill(stream, malloc(8), 1, 8)
