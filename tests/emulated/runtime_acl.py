"""CANN's runtime through ctypes, for scripts that run on an emulated host. Needs no torch."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

SUCCESS = 0
PARAMETER, INVALID_DEVICE, NO_CONTEXT, OTHER_CONTEXT = 107000, 107001, 107002, 107003
TIMESTAMP, NO_SUBSCRIBER, OUT_OF_MEMORY = 107006, 107015, 207001
REPORT_TIMEOUT, SYSTEM_DMA, SYNC_TIMEOUT = 507012, 507013, 507046
INTERNAL = 500000

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
HBM = 1
UNTIMED, TIMED = 0x1, 0x8  # flags of events

_library = ctypes.CDLL("libascendcl.so")
_library.aclGetRecentErrMsg.restype = ctypes.c_char_p
_HostFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def call(name: str, *arguments: object) -> int:
    """The code that a CANN function returns. Integers go as 64 bits."""
    wide = [ctypes.c_int64(a) if isinstance(a, int) else a for a in arguments]
    return int(getattr(_library, name)(*wide))


def message() -> str:
    """This thread's message, which CANN hands out once."""
    text: bytes = _library.aclGetRecentErrMsg()
    return text.decode()


def do(name: str, *arguments: object) -> None:
    """Calls a CANN function that must succeed."""
    code = call(name, *arguments)
    assert code == SUCCESS, (name, code, message())


def refused(code: int, words: str, name: str, *arguments: object) -> None:
    """Calls a CANN function that must fail with `code` and a message that names it and `words`."""
    found = call(name, *arguments)
    text = message()
    assert found == code, (name, found, text)
    assert name in text and words in text, (name, text)


def created(name: str, *arguments: object) -> int:
    """The handle or address that a CANN function writes through its first argument."""
    handle = ctypes.c_void_p()
    do(name, ctypes.byref(handle), *arguments)
    assert handle.value
    return handle.value


def answer(name: str, *arguments: object, kind: type = ctypes.c_int) -> Any:
    """The value that a CANN function writes through its last argument."""
    value = kind(0)
    do(name, *arguments, ctypes.byref(value))
    return value.value


def malloc(size: int) -> int:
    return created("aclrtMalloc", size, 0)


def new_stream() -> int:
    return created("aclrtCreateStream")


def new_event(flags: int = UNTIMED) -> int:
    return created("aclrtCreateEventExWithFlag", flags)


def memory_info() -> tuple[int, int]:
    """Free and total bytes of the current device."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    do("aclrtGetMemInfo", HBM, ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def fill(stream: int | None, pointer: int, value: int, size: int) -> None:
    do("aclrtMemsetAsync", pointer, size, value, size, stream)


def content(pointer: int, size: int) -> bytes:
    """Device memory, read past the runtime."""
    return ctypes.string_at(pointer, size)


def done(stream: int) -> bool:
    status: int = answer("aclrtStreamQuery", stream)
    return status == 0


class Gate:
    """Holds a stream up, in asynchronous mode, until it is opened."""

    def __init__(self, stream: int) -> None:
        self._opened = threading.Event()
        self._function = _HostFunction(lambda _: self._wait())
        do("aclrtLaunchHostFunc", stream, self._function, None)

    def _wait(self) -> None:
        self._opened.wait()

    def open(self) -> None:
        self._opened.set()
