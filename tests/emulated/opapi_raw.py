"""The library's C functions, called without torch_npu: what a wrong caller is told."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ACL_FLOAT = 0
INT64 = ctypes.c_int64


@dataclass(frozen=True)
class Library:
    """libopapi.so, with aclnn functions that return (code, message)."""

    opapi: Any
    acl: Any

    def prepare(self, name: str, *arguments: Any) -> tuple[int, str, Any]:
        """Phase 1: the code, the message, and the executor."""
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        call = getattr(self.opapi, name + "GetWorkspaceSize")
        code = call(*arguments, ctypes.byref(size), ctypes.byref(executor))
        return code, self.message() if code else "", executor

    def execute(self, name: str, executor: Any) -> tuple[int, str]:
        """Phase 2, without a stream."""
        null, size = ctypes.c_void_p(), ctypes.c_uint64()
        code = getattr(self.opapi, name)(null, size, executor, null)
        return code, self.message() if code else ""

    def message(self) -> str:
        return self.acl.aclGetRecentErrMsg().decode()

    def tensor(self, tensor: Tensor) -> Any:
        dims = (INT64 * max(1, tensor.dim()))(*tensor.shape)
        strides = (INT64 * max(1, tensor.dim()))(*tensor.stride())
        count = ctypes.c_uint64(tensor.dim())
        address = ctypes.c_void_p(tensor.data_ptr())
        self.opapi.aclCreateTensor.restype = ctypes.c_void_p
        return ctypes.c_void_p(
            self.opapi.aclCreateTensor(
                dims, count, ACL_FLOAT, strides, INT64(0), 2, dims, count, address
            )
        )

    def scalar(self, value: float) -> Any:
        self.opapi.aclCreateScalar.restype = ctypes.c_void_p
        number = ctypes.c_float(value)
        return ctypes.c_void_p(self.opapi.aclCreateScalar(ctypes.byref(number), ACL_FLOAT))


def _library() -> Library:
    acl = ctypes.CDLL("libascendcl.so")
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return Library(ctypes.CDLL("libopapi.so"), acl)


def _tensors() -> list[Tensor]:
    result = [torch.full((3,), value, device="npu") for value in (1.0, 2.0, 0.0)]
    torch.get_device_module("npu").synchronize()
    return result


def wrong_lists() -> dict[str, tuple[int, str]]:
    """The code and the message for argument lists that an operator does not take."""
    library = _library()
    x, y, z = _tensors()
    a, b, out = (library.tensor(t) for t in (x, y, z))
    host = library.tensor(torch.ones(3))
    one = library.scalar(1.0)
    null = ctypes.c_void_p()
    lists: dict[str, tuple[str, tuple[Any, ...]]] = {
        "scalar for tensor": ("aclnnAdd", (a, one, one, out)),
        "tensor for scalar": ("aclnnAdd", (a, b, a, out)),
        "null": ("aclnnAdd", (a, null, one, out)),
        "no object": ("aclnnAdd", (a, ctypes.c_void_p(0x1234), one, out)),
        "one missing": ("aclnnAdd", (a, b, one)),
        "one too many": ("aclnnAdd", (a, b, one, out, out)),
        "pointer for integer": ("aclnnRandperm", (a, INT64(1), INT64(1), out)),
        "integer missing": ("aclnnMaxDim", (a, INT64(0), out, out)),
        "host memory": ("aclnnAdd", (a, host, one, out)),
    }
    return {what: library.prepare(name, *args)[:2] for what, (name, args) in lists.items()}


def life_of_objects() -> dict[str, Any]:
    """Objects are freed right after phase 1; an executor runs once, and for its own operator."""
    library = _library()
    x, y, z = _tensors()
    a, b, out, one = (*map(library.tensor, (x, y, z)), library.scalar(3.0))
    code, _, executor = library.prepare("aclnnAdd", a, b, one, out)
    for destroy, objects in (("aclDestroyTensor", (a, b, out)), ("aclDestroyScalar", (one,))):
        for item in objects:
            getattr(library.opapi, destroy)(item)
    stale = library.prepare("aclnnMul", a, b, out)[:2]
    other = library.execute("aclnnMul", executor)
    c, d, e = (library.tensor(t) for t in (x, y, z))
    _, _, executor = library.prepare("aclnnMul", c, d, e)
    first = library.execute("aclnnMul", executor)
    product = z.tolist()
    again = library.execute("aclnnMul", executor)
    twice = library.opapi.aclDestroyTensor(c), library.opapi.aclDestroyTensor(c)
    return {
        "prepared": code, "other": other, "stale": stale, "first": first, "product": product,
        "again": again, "twice": twice,
    }  # fmt: skip


def freed_before_run() -> list[float]:
    """The sum, of arguments that were destroyed between the two phases."""
    library = _library()
    x, y, z = _tensors()
    objects = [*map(library.tensor, (x, y, z))]
    one = library.scalar(3.0)
    _, _, executor = library.prepare("aclnnAdd", objects[0], objects[1], one, objects[2])
    for item in objects:
        library.opapi.aclDestroyTensor(item)
    library.opapi.aclDestroyScalar(one)
    assert library.execute("aclnnAdd", executor) == (0, "")
    return z.tolist()


def missing(names: list[str]) -> dict[str, tuple[int, str]]:
    """What operators say that are not emulated."""
    library = _library()
    return {name: library.prepare(name)[:2] for name in names}


def absent(names: list[str]) -> list[str]:
    """Those of the functions that the library does not have."""
    opapi = _library().opapi
    return [name for name in names if not hasattr(opapi, name + "GetWorkspaceSize")]
