# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays for the C library, in C order without gaps: NumPy arrays and, by DLPack, arrays on a GPU."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
from typing import Any, Optional, Protocol, TypeVar, Union

import cffi
import numpy as np

from ._library import ffi


class DLPackArray(Protocol):
    """An array of a package that supports DLPack, such as CuPy, PyTorch and JAX, in host or GPU memory."""

    def __dlpack__(self, *, stream: Optional[int] = None) -> object: ...

    def __dlpack_device__(self) -> tuple: ...


#: What functions accept as an array.
ArrayLike = Union[np.ndarray, DLPackArray]
#: The type of an argument; the result has the same type and is in the same memory.
AnyArray = TypeVar("AnyArray", np.ndarray, DLPackArray)


class ArrayTypeError(TypeError, RuntimeError):
    """An array has elements of the wrong type. It is a RuntimeError too, as in ducc0."""


def real_argument(value: float, name: str) -> float:
    """Check that an argument is a real number."""
    if not isinstance(value, (str, bytes, bytearray, bool, np.bool_)):
        with contextlib.suppress(TypeError, ValueError):
            return float(value)
    raise TypeError(f"{name}: must be a number, not {type(value).__name__}")


# DLPack's C interface, version 1.0. The data of an unversioned capsule begins with the DLTensor.
_dlpack = cffi.FFI()
_dlpack.cdef("""
typedef struct { uintptr_t data; int32_t device_type, device_id, ndim; uint8_t code, bits; uint16_t lanes; int64_t *shape, *strides;
                 uint64_t byte_offset; } DLTensor;
typedef struct { uint32_t major, minor; void *manager_ctx, *deleter; uint64_t flags; DLTensor dl_tensor; } DLManagedTensorVersioned;
""")
_TENSOR, _VERSIONED = _dlpack.typeof("DLTensor *"), _dlpack.typeof("DLManagedTensorVersioned *")
_READ_ONLY = 1
_VOID, _ADDRESS = ffi.typeof("void *"), ffi.typeof("uintptr_t")
# DLPack's codes, and NumPy's types by DLPack's code and bits.
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_DTYPES = {(_CODES[name[0]], 8 * int(name[1:])): np.dtype(name)
           for name in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "b1")}
# DLPack's device types for host memory: ordinary memory, and memory registered with CUDA.
_HOST = (1, 3)
_CUDA = 2
# CUDA's default stream, as numbered by CuPy and by CUDA itself.
DEFAULT_STREAMS = (0, 1)
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype = ctypes.c_char_p
_name.argtypes = [ctypes.py_object]
# Types whose __dlpack__ has no argument max_version.
_unversioned: set = set()


def _capsule_of(array: Any) -> Any:
    """Export an array by DLPack. Work on CUDA's default stream, number 1, then waits for the work on the array."""
    if type(array) not in _unversioned:
        try:
            return array.__dlpack__(stream=1, max_version=(1, 0))
        except TypeError:
            _unversioned.add(type(array))
    return array.__dlpack__(stream=1)


def _tensor_of(capsule: Any) -> tuple:
    """Return the DLTensor of a capsule, and whether it is read-only."""
    if _name(capsule) == b"dltensor":
        return _dlpack.cast(_TENSOR, _pointer(capsule, b"dltensor")), False
    versioned = _dlpack.cast(_VERSIONED, _pointer(capsule, b"dltensor_versioned"))
    if versioned.major > 1:
        raise BufferError(f"DLPack {versioned.major}.{versioned.minor} is not supported by msimage, which reads version 1")
    return versioned.dl_tensor, bool(versioned.flags & _READ_ONLY)


def _library_of(array: Any) -> str:
    return type(array).__module__.split(".")[0]


@functools.lru_cache(maxsize=1)
def cupy_module() -> Any:
    """Return the module CuPy; call this only for arrays of CuPy, which have imported it."""
    import cupy

    return cupy


# Types seen so far: of CuPy arrays, and of others.
_cupys: set[type] = set()
_others: set[type] = set()


def is_cupy(array: Any) -> bool:
    """Return whether an array is a CuPy array. Reading its attributes takes a tenth of the time of DLPack."""
    kind = type(array)
    if kind in _cupys:
        return True
    if kind in _others:
        return False
    found = _library_of(array) == "cupy" and isinstance(array, cupy_module().ndarray)
    if found or len(_others) < 64:
        (_cupys if found else _others).add(kind)
    return found


def is_on_gpu(array: Any) -> bool:
    """Return whether an array is in the memory of an NVIDIA GPU."""
    if isinstance(array, np.ndarray):
        return False
    device = getattr(array, "__dlpack_device__", None)
    return device is not None and int(device()[0]) == _CUDA


def viewed(array: Any) -> Any:
    """Return an array in host memory as a NumPy array, without a copy, and an array on a GPU unchanged."""
    if isinstance(array, np.ndarray) or int(array.__dlpack_device__()[0]) not in _HOST:
        return array
    if _library_of(array) == "torch":
        return array.detach().resolve_conj().resolve_neg().numpy()
    return np.from_dlpack(array)


def _is_packed(shape: tuple, strides: list) -> bool:
    """Return whether an array with these strides, in elements, is in C order without gaps."""
    step = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n > 1 and stride != step:
            return 0 in shape
        step *= n
    return True


def overlaps_itself(array: np.ndarray) -> bool:
    """Return whether elements of an array may overlap, as those of numpy.broadcast_to. Such arrays are never written to."""
    axes = sorted((abs(stride), n) for stride, n in zip(array.strides, array.shape) if n > 1)
    reach = array.itemsize
    for stride, n in axes:
        if stride < reach:
            return array.size > 0
        reach = stride * n
    return False


class Given:
    """An array during a call: its type, shape and address, and the objects that keep it alive."""

    __slots__ = ("kept", "dtype", "shape", "address", "device", "_is_contiguous", "_is_writeable")

    def __init__(self, array: Any):
        self.kept, self.device = array, None
        if isinstance(array, np.ndarray):
            self.dtype, self.shape = array.dtype, array.shape
            return
        # The library works on CUDA's default stream. For arrays of other streams DLPack synchronises.
        if is_cupy(array) and cupy_module().cuda.get_current_stream().ptr in DEFAULT_STREAMS:
            self.dtype, self.shape = array.dtype, array.shape
            self.address, self.device = array.data.ptr, array.data.device_id
            self._is_contiguous, self._is_writeable = array.flags.c_contiguous, True
            return
        capsule = _capsule_of(array)
        self.kept = (array, capsule)
        t, is_read_only = _tensor_of(capsule)
        n, known = t.ndim, _DTYPES.get((t.code, t.bits))
        self.dtype = np.dtype(f"V{t.bits // 8}") if known is None else known
        self.shape = tuple(_dlpack.unpack(t.shape, n)) if n else ()
        self.address = t.data + t.byte_offset
        self._is_contiguous = not n or not t.strides or _is_packed(self.shape, _dlpack.unpack(t.strides, n))
        self._is_writeable = not is_read_only and _library_of(array) not in ("jax", "jaxlib")
        self.device = t.device_id

    @property
    def is_contiguous(self) -> bool:
        """Whether the array is in C order without gaps."""
        return self.kept.flags.c_contiguous if self.device is None else self._is_contiguous

    @property
    def is_writeable(self) -> bool:
        """Whether the array may be written to."""
        return self.kept.flags.writeable if self.device is None else self._is_writeable

    def pointer(self, kind: str = "char[]") -> Any:
        """Return the address of an array without gaps for cffi. `kind` is its C type; on a GPU it is void *."""
        return ffi.from_buffer(kind, self.kept) if self.device is None else ffi.cast(_VOID, self.address)


def place(array: Any) -> int:
    """Return the address of a NumPy or CuPy array without gaps."""
    return int(array.data.ptr if type(array) in _cupys else ffi.cast(_ADDRESS, ffi.from_buffer(array)))


# The properties of an array other than its elements and its address.
_kind = operator.attrgetter("dtype", "shape", "strides")


def plain(arrays: tuple) -> Optional[tuple[tuple, list, bool]]:
    """Return the properties of arrays, their addresses, and whether one is on a GPU.

    Arrays with equal properties differ only in their elements and addresses. An array may be None. The result is None if an array
    is neither of NumPy nor of CuPy, if a NumPy array has gaps, or if CuPy's current stream is not CUDA's default stream. CuPy's
    arrays are known only after is_cupy() has seen one.
    """
    kinds: list = []
    places = []
    is_on_gpu = False
    for array in arrays:
        kind = type(array)
        if array is None:
            kinds.append(None)
            places.append(0)
        elif kind in _cupys:
            kinds.append(_kind(array))
            places.append(array.data.ptr)
            is_on_gpu = True
        elif kind is np.ndarray:
            if not array.flags.c_contiguous:
                return None
            kinds.append((*_kind(array), array.flags.writeable))
            places.append(place(array))
        else:
            return None
    if is_on_gpu and cupy_module().cuda.get_current_stream().ptr not in DEFAULT_STREAMS:
        return None
    return tuple(kinds), places, is_on_gpu


def packed(array: Any) -> Any:
    """Return an array in C order without gaps: itself, or a copy in the same memory."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if is_cupy(array):
        return array if array.flags.c_contiguous else cupy_module().ascontiguousarray(array)
    if _library_of(array) == "torch":
        return array.detach().resolve_conj().resolve_neg().contiguous()
    return array


def owned(given: Given) -> Given:
    """Copy an array that the caller may change, in the same memory. Arrays of JAX and unknown libraries are returned unchanged."""
    if given.device is None:
        return Given(given.kept.copy())
    array = given.kept[0] if isinstance(given.kept, tuple) else given.kept
    if is_cupy(array) or _library_of(array) == "torch":
        return Given(array.copy() if is_cupy(array) else array.clone())
    return given


def empty(shape: tuple, dtype: Any, like: Any) -> Any:
    """Return an array for results, of the kind of `like` and in its memory; a NumPy array if that kind is immutable."""
    if is_cupy(like):
        cupy = cupy_module()
        # Switching to the device and back would take as long as the rest of this function.
        if cupy.cuda.runtime.getDevice() == like.data.device_id:
            return cupy.ndarray(shape, dtype)
        with like.device:
            return cupy.ndarray(shape, dtype)
    if is_on_gpu(like) and _library_of(like) == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, np.dtype(dtype).name), device=like.device)
    return np.empty(shape, dtype)


def finished(result: Any, like: Any) -> Any:
    """Return a result in an array of empty() as an array of the kind of `like`."""
    if isinstance(result, np.ndarray) and is_on_gpu(like) and _library_of(like) in ("jax", "jaxlib"):
        import jax

        return jax.device_put(result, next(iter(like.devices())))
    return result
