# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays in GPU memory that support DLPack, as those of CuPy, JAX and PyTorch do, made only with the CUDA runtime."""
import ctypes
import glob

import numpy as np

CUDA = 2
KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


def runtime():
    """The CUDA runtime that the library is linked to and that the process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as f:
        paths = {line.split()[-1] for line in f if "libcudart" in line}
    found = sorted(paths) or sorted(glob.glob("/usr/local/cuda*/lib64/libcudart.so*"))
    library = ctypes.CDLL(found[0] if found else "libcudart.so")
    library.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    library.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.cudaFree.argtypes = [ctypes.c_void_p]
    return library


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


def capsule(tensor, version=None, read_only=False):
    """A tensor's capsule, and the memory it points to: for a version (major, minor) of DLPack, or unversioned."""
    if version is None:
        return _new(ctypes.addressof(tensor), b"dltensor", None), tensor
    whole = _Versioned(*version, None, None, int(read_only), tensor)
    return _new(ctypes.addressof(whole), b"dltensor_versioned", None), whole


class DeviceArray:
    """A copy of a NumPy array in the memory of GPU 0, freed with this object; it may claim another shape."""

    def __init__(self, values, shape=None, read_only=False):
        self.cuda = runtime()
        self.read_only = read_only
        self.shape, self.dtype = shape or values.shape, values.dtype
        values = np.ascontiguousarray(values)
        self.bytes = values.nbytes
        self.data = ctypes.c_void_p()
        self.asked = []  # streams passed by consumers
        assert self.cuda.cudaMalloc(ctypes.byref(self.data), max(self.bytes, 1)) == 0
        assert self.cuda.cudaMemcpy(self.data, values.ctypes.data, self.bytes, 1) == 0
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        self.tensor = _Tensor(self.data, CUDA, 0, len(self.shape), KINDS[values.dtype.kind], 8 * values.dtype.itemsize, 1, shape)

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        return capsule(self.tensor)[0]

    def get(self):
        values = np.empty(self.shape, self.dtype)
        assert self.cuda.cudaMemcpy(values.ctypes.data, self.data, self.bytes, 2) == 0
        return values

    def __del__(self):
        self.cuda.cudaFree(self.data)


class VersionedArray(DeviceArray):
    """The same by DLPack 1.0, which has a flag for read-only arrays."""

    def __dlpack__(self, *, stream=None, max_version=None):
        self.asked.append(stream)
        made, self.whole = capsule(self.tensor, None if max_version is None else (1, 0), self.read_only)
        return made
