# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays as the C library takes them: in C order without gaps, NumPy's or those of a GPU, which come by DLPack."""
from __future__ import annotations

import ctypes
from typing import Any, Optional

import numpy as np

from ._library import ffi


class _Tensor(ctypes.Structure):
    """DLPack's DLTensor, the first member of its DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_CODES = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
# DLPack's numbers of places: ordinary memory, and what is registered with CUDA.
_HOST = (1, 3)
_CUDA = 2
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def is_on_gpu(array: Any) -> bool:
    """Whether an array lies in the memory of an NVIDIA GPU."""
    device = getattr(array, "__dlpack_device__", None)
    return not isinstance(array, np.ndarray) and device is not None and int(device()[0]) == _CUDA


def viewed(array: Any) -> Any:
    """An array that lies in the host's memory as NumPy's, without a copy; one of a GPU as it is."""
    if isinstance(array, np.ndarray) or int(array.__dlpack_device__()[0]) not in _HOST:
        return array
    if _library_of(array) == "torch":
        return array.detach().resolve_conj().numpy()
    return np.from_dlpack(array)


class Given:
    """An array, for the length of a call: its type, shape, address, and what keeps it alive."""

    def __init__(self, array: Any):
        if isinstance(array, np.ndarray):
            self.kept = array
            flags = array.flags
            self.dtype, self.shape, self.address = array.dtype, array.shape, array.__array_interface__["data"][0]
            self.is_contiguous, self.is_writeable = flags.c_contiguous, flags.writeable
            self.device: Optional[int] = None
            return
        # 1 is CUDA's default stream, which the library waits for.
        self.kept = (array, array.__dlpack__(stream=1))
        t = _Tensor.from_address(_pointer(self.kept[1], b"dltensor"))
        self.dtype = np.dtype(f"{_CODES.get(t.code, 'V')}{t.bits // 8}")
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self.address = (t.data or 0) + t.byte_offset
        packed, step = True, 1
        for i in reversed(range(t.ndim)):
            packed &= not t.strides or t.shape[i] <= 1 or t.strides[i] == step
            step *= t.shape[i]
        self.is_contiguous, self.is_writeable = packed, _library_of(array) not in ("jax", "jaxlib")
        self.device = int(t.device_id)

    def pointer(self, kind: str = "void *") -> Any:
        """The address for cffi."""
        return ffi.cast(kind, self.address)


def _library_of(array: Any) -> str:
    return type(array).__module__.split(".")[0]


def packed(array: Any) -> Any:
    """The array in C order without gaps: itself, or a copy where it lies."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if _library_of(array) == "torch":
        return array.detach().resolve_conj().contiguous()
    if _library_of(array) == "cupy":
        import cupy

        return cupy.ascontiguousarray(array)
    return array


def empty(shape: tuple, dtype: Any, like: Any) -> Any:
    """An array for results, where `like` lies and of its kind; NumPy's where that kind's are never written to."""
    if is_on_gpu(like) and _library_of(like) == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), device=like.device)
    if is_on_gpu(like) and _library_of(like) == "cupy":
        import cupy

        with like.device:
            return cupy.empty(shape, dtype)
    return np.empty(shape, dtype)


def finished(result: Any, like: Any) -> Any:
    """A result made by empty(), as an array of the kind of `like`."""
    if is_on_gpu(like) and isinstance(result, np.ndarray) and _library_of(like) in ("jax", "jaxlib"):
        import jax

        return jax.device_put(result, next(iter(like.devices())))
    return result
