# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls with the same CuPy arrays as an earlier one: solvers make thousands of them, and the GPU waits while they are checked.

CuPy arrays never change their type or their address. So an array that is the same object, with the same shape, is unchanged except
for its elements. Arrays are remembered by weak references: they are not kept alive, and are not mistaken for others at the same
address.
"""
from __future__ import annotations

import operator
from typing import Any, Optional
from weakref import ref

from ._arrays import DEFAULT_STREAMS, cupy_module
from ._gridder import samples_at

_kind = operator.attrgetter("dtype", "shape", "strides")


class _Fixed:
    """An argument that is the same object in every call, or None in every call."""

    __slots__ = ("of", "shape")

    def __init__(self, array: Any):
        self.of, self.shape = (None, None) if array is None else (ref(array), array.shape)

    def is_that(self, array: Any) -> bool:
        """Whether it is the same object, of the same shape."""
        # The reference to a freed array gives None, which differs from any argument.
        if array is None or self.of is None:
            return array is self.of
        return self.of() is array and array.shape == self.shape


class _Varied:
    """An array that may be replaced by another of the same type, shape, strides and device; or None in every call."""

    __slots__ = ("of", "kind", "shape", "place")

    def __init__(self, array: Any, place: int):
        self.of, self.kind, self.shape = (None, None, None) if array is None else (ref(array), _kind(array), array.shape)
        self.place = place

    def place_of(self, array: Any, device: int) -> int:
        """The address of an array; -1 if its properties differ, 0 for None."""
        if array is None or self.of is None:
            return 0 if array is self.of else -1
        if self.of() is array:
            return self.place if array.shape == self.shape else -1
        return int(array.data.ptr) if _kind(array) == self.kind and array.data.device_id == device else -1


class Same:
    """The checked arguments of a call, for calls that differ in the elements of arrays, or in the visibility and image arrays."""

    __slots__ = ("known", "values", "types", "fixed", "vis", "image", "samples", "places", "device", "cupy", "stream", "cupys")

    def __init__(self, known: Any, values: tuple, arrays: tuple, places: list, device: int):
        uvw, freq, vis, wgt, mask, image = arrays
        self.known, self.values, self.types = known, values, [*map(type, values)]
        self.fixed = [_Fixed(array) for array in (uvw, freq, wgt, mask)]
        self.places, self.device = places, device
        self.vis, self.image = _Varied(vis, places[2]), _Varied(image, places[5])
        self.samples = samples_at(known.n_row, known.n_chan, *places[:5])
        self.cupy, self.cupys = cupy_module(), {type(array) for array in arrays}
        self.stream = self.cupy.cuda.get_current_stream

    def places_of(self, values: tuple, arrays: tuple) -> Optional[tuple[int, int]]:
        """The addresses of visibilities and image of a matching call; None if it does not match."""
        uvw, freq, vis, wgt, mask, image = arrays
        for array, fixed in zip((uvw, freq, wgt, mask), self.fixed):
            if not fixed.is_that(array):
                return None
        # Types first: values of other types may compare equal, or not be comparable.
        if type(vis) not in self.cupys or type(image) not in self.cupys or [*map(type, values)] != self.types or values != self.values:
            return None
        vis_place, image_place = self.vis.place_of(vis, self.device), self.image.place_of(image, self.device)
        if vis_place < 0 or image_place < 0 or self.stream(self.device).ptr not in DEFAULT_STREAMS:
            return None
        return vis_place, image_place

    def samples_with(self, vis_place: int) -> Any:
        """The samples in the C library's format."""
        if vis_place == self.places[2]:
            return self.samples
        uvw, freq, _, wgt, mask, _ = self.places
        return samples_at(self.known.n_row, self.known.n_chan, uvw, freq, vis_place, wgt, mask)

    def buffer(self) -> Any:
        """An array for the result."""
        if self.cupy.cuda.runtime.getDevice() == self.device:
            return self.cupy.ndarray(self.known.shape, self.known.dtype)
        with self.cupy.cuda.Device(self.device):
            return self.cupy.ndarray(self.known.shape, self.known.dtype)


_MOST = 64


class SameCalls:
    """Earlier calls of a function, by their coordinates and frequencies."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, int], Same] = {}

    def keep(self, known: Any, values: tuple, arrays: tuple, places: list) -> None:
        """Remember a call whose arrays are all CuPy arrays, on one device."""
        devices = {array.data.device_id if hasattr(array, "data") and hasattr(array.data, "device_id") else None
                   for array in arrays if array is not None}
        if len(devices) != 1 or None in devices:
            return
        if len(self.of) >= _MOST:
            self.of.clear()
        self.of[id(arrays[0]), id(arrays[1])] = Same(known, values, arrays, places, devices.pop())
