# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognises calls with the CuPy arrays of an earlier call. Solvers make thousands of them, and the GPU would wait for the checks.

The type and the address of a CuPy array never change. So if an array is the same object and has the same shape, only its elements
can differ. Weak references neither keep an array alive nor mistake another array at the same address for it.
"""
from __future__ import annotations

import operator
from typing import Any, Optional
from weakref import ref

from ._arrays import DEFAULT_STREAMS, cupy_module
from ._gridder import samples_at

_kind = operator.attrgetter("dtype", "shape", "strides")


class _Fixed:
    """An argument that must be the same object, or None, in every call."""

    __slots__ = ("of", "shape")

    def __init__(self, array: Any):
        self.of, self.shape = (None, None) if array is None else (ref(array), array.shape)

    def is_that(self, array: Any) -> bool:
        """Return whether an array is the same object, with the same shape."""
        # The reference to a freed array returns None, which is no array.
        if array is None or self.of is None:
            return array is self.of
        return self.of() is array and array.shape == self.shape


class _Varied:
    """An argument that may be another array of the same type, shape, strides and device; or None in every call."""

    __slots__ = ("of", "kind", "shape", "place")

    def __init__(self, array: Any, place: int):
        self.of, self.kind, self.shape = (None, None, None) if array is None else (ref(array), _kind(array), array.shape)
        self.place = place

    def place_of(self, array: Any, device: int) -> int:
        """Return the address of an array; -1 if its properties differ, 0 for None."""
        if array is None or self.of is None:
            return 0 if array is self.of else -1
        if self.of() is array:
            return self.place if array.shape == self.shape else -1
        return int(array.data.ptr) if _kind(array) == self.kind and array.data.device_id == device else -1


class Same:
    """The checked arguments of a call. A later call matches if it differs only in elements, or in the arrays vis and image."""

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
        """Return the addresses of vis and image if a call matches, else None."""
        uvw, freq, vis, wgt, mask, image = arrays
        for array, fixed in zip((uvw, freq, wgt, mask), self.fixed):
            if not fixed.is_that(array):
                return None
        # Compare types first: values of different types may compare equal, or may not be comparable.
        if type(vis) not in self.cupys or type(image) not in self.cupys or [*map(type, values)] != self.types or values != self.values:
            return None
        vis_place, image_place = self.vis.place_of(vis, self.device), self.image.place_of(image, self.device)
        if vis_place < 0 or image_place < 0 or self.stream(self.device).ptr not in DEFAULT_STREAMS:
            return None
        return vis_place, image_place

    def samples_with(self, vis_place: int) -> Any:
        """Return the samples for the C library, with the visibilities at an address."""
        if vis_place == self.places[2]:
            return self.samples
        uvw, freq, _, wgt, mask, _ = self.places
        return samples_at(self.known.n_row, self.known.n_chan, uvw, freq, vis_place, wgt, mask)

    def buffer(self) -> Any:
        """Return an array for the result."""
        if self.cupy.cuda.runtime.getDevice() == self.device:
            return self.cupy.ndarray(self.known.shape, self.known.dtype)
        with self.cupy.cuda.Device(self.device):
            return self.cupy.ndarray(self.known.shape, self.known.dtype)


_MOST = 64


class SameCalls:
    """The earlier calls of a function, by the arrays uvw and freq."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, int], Same] = {}

    def keep(self, known: Any, values: tuple, arrays: tuple, places: list) -> None:
        """Remember a call if all arrays are CuPy arrays on one device."""
        devices = {array.data.device_id if hasattr(array, "data") and hasattr(array.data, "device_id") else None
                   for array in arrays if array is not None}
        if len(devices) != 1 or None in devices:
            return
        if len(self.of) >= _MOST:
            self.of.clear()
        self.of[id(arrays[0]), id(arrays[1])] = Same(known, values, arrays, places, devices.pop())
