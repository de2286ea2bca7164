# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for CuPy: its arrays have the attributes that msimage uses, and are in host memory.

So code that only uses these attributes is tested without a GPU; backend="cpu" does the work. Call stand_in() before msimage sees
an array.
"""
import sys
import types

import numpy as np


class MemoryPointer:
    def __init__(self, ptr, device_id):
        self.ptr, self.device_id = ptr, device_id


class ndarray:
    """An array of the device that was current."""

    def __init__(self, shape, dtype, values=None):
        self.values = np.empty(shape, dtype) if values is None else values
        self.dtype = self.values.dtype
        self.data = MemoryPointer(self.values.ctypes.data, sys.modules["cupy"].now["device"])

    @property
    def shape(self):
        return self.values.shape

    @shape.setter
    def shape(self, shape):
        self.values = self.values.reshape(shape)  # at the same address

    @property
    def device(self):
        return Device(self.data.device_id)

    @property
    def strides(self):
        return self.values.strides

    @property
    def flags(self):
        return self.values.flags

    def __mul__(self, other):
        return ndarray(None, None, self.values * other.values)

    def __dlpack_device__(self):
        return 2, self.data.device_id

    def __dlpack__(self, *, stream=None, max_version=None):
        raise BufferError("by DLPack")


ndarray.__module__ = "cupy"


class Device:
    def __init__(self, device):
        self.device, self.now = device, sys.modules["cupy"].now

    def __enter__(self):
        self.before, self.now["device"] = self.now["device"], self.device
        return self

    def __exit__(self, *_):
        self.now["device"] = self.before


def stand_in():
    """The module, which programs import as cupy. Its `now` has the current device, and the stream of each device."""
    cupy = types.ModuleType("cupy")
    now = cupy.now = {"device": 0, "stream": {}}
    cupy.ndarray = ndarray
    cupy.asarray = lambda values: ndarray(None, None, np.array(values, order="C"))
    cupy.ascontiguousarray = lambda array: ndarray(None, None, np.ascontiguousarray(array.values))
    cupy.cuda = types.SimpleNamespace(
        get_current_stream=lambda device=-1: types.SimpleNamespace(ptr=now["stream"].get(now["device"] if device < 0 else device, 0)),
        runtime=types.SimpleNamespace(getDevice=lambda: now["device"]), Device=Device)
    sys.modules["cupy"] = cupy
    return cupy
