# SPDX-License-Identifier: GPL-3.0-or-later
"""The C library's gridder, and checks of arrays."""
from __future__ import annotations

import contextlib
import operator
import os
import struct
from typing import Any, Callable, Optional

import numpy as np

from ._arrays import ArrayTypeError, Given, is_cupy, owned, packed, viewed
from ._library import CALLBACKS, Calls, Held, ffi, lib

FLOAT64, UINT8 = np.dtype(np.float64), np.dtype(np.uint8)
REALS = {np.dtype(np.complex64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.float64)}
# The members of msimage_samples, with pointers as integers. struct takes a third of the time of cffi.
_pack_samples = struct.Struct("qiPPPPP").pack
# Types are looked up once: a lookup by name in each call would double the time of cffi.
_SAMPLES, _SPEC, _OUT = (ffi.typeof(name) for name in ("msimage_samples *", "msimage_gridder_spec *", "msimage_gridder **"))
COMPLEXES = {real: cplx for cplx, real in REALS.items()}
BACKENDS = {"auto": lib.MSIMAGE_AUTO, "cpu": lib.MSIMAGE_CPU, "cuda": lib.MSIMAGE_CUDA}

# Both directions use one strategy, so that each is the transpose of the other up to rounding.
_STRATEGY = ffi.new("char[]", b"planes")


def array_argument(array: Any, name: str) -> Any:
    """Check that an argument is an array, and return it without gaps."""
    return packed(other_array(array, name))


def other_array(array: Any, name: str) -> Any:
    """Check that an argument is an array, and return it; an array in host memory becomes a NumPy array."""
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise TypeError(f"{name}: has masked elements, whose values would be used; fill them, or exclude samples by the argument mask")
    if isinstance(array, np.ndarray) or is_cupy(array):
        return array
    if not hasattr(array, "__dlpack_device__"):
        raise TypeError(f"{name}: must be an array, not {type(array).__name__}; use numpy.asarray")
    return viewed(array)


def whole_argument(value: Any, name: str) -> int:
    """Check that an argument is an integer and not negative."""
    if isinstance(value, (bool, np.bool_)):
        return int(value)
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: must be an integer, not {type(value).__name__}") from None
    if number < 0:
        raise TypeError(f"{name}: must not be negative, got {number}")
    if number >= 2**64:
        raise TypeError(f"{name}: {number} does not fit in 64 bits")
    return number


def flag_argument(value: Any, name: str) -> bool:
    """Check that an argument has a truth value; None is accepted too, as in ducc0."""
    if hasattr(type(value), "__bool__"):
        with contextlib.suppress(ValueError):  # arrays of several elements
            return bool(value)
    raise TypeError(f"{name}: must be true or false, not {type(value).__name__}")


def word_argument(word: Any, name: str, choices: dict) -> int:
    """Return the C library's constant for a word."""
    if not isinstance(word, str):
        raise TypeError(f"{name}: must be a string, not {type(word).__name__}")
    if word not in choices:
        raise ValueError(f"{name} {word!r}: must be one of {', '.join(choices)}")
    return int(choices[word])


def backend_argument(backend: Any) -> int:
    """Return the C library's constant for a backend."""
    return word_argument(backend, "backend", BACKENDS)


def require(holds: bool, message: str) -> None:
    """Raise a RuntimeError, as ducc0 does for values, types and shapes of arrays, unless `holds`."""
    if not holds:
        raise RuntimeError(message)


def check_array(array: Given, name: str, dtype: np.dtype, shape: tuple, axes: str = "") -> None:
    """Check the type and shape of an array. `axes` describes the shape in the message."""
    # NumPy takes longer to format a type than for the rest of the check, so messages are made only for an error.
    if array.dtype != dtype:
        raise ArrayTypeError(f"{name}: its type must be {dtype}, not {array.dtype}")
    if array.shape != shape:
        raise RuntimeError(f"{name}: its shape must be {axes or shape}, not {array.shape}")


class ImagesHeld(Held):
    """The base of the library's objects whose images have one shape and type."""

    def __init__(self, shape: tuple, dtype: np.dtype) -> None:
        super().__init__()
        self._shape, self._dtype = shape, dtype

    @property
    def shape(self) -> tuple:
        """The shape of images."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """The type of images."""
        return self._dtype


class Samples:
    """Checked coordinates, weights and mask of samples, for the C library."""

    def __init__(self, uvw: Any, freq: Any, real: np.dtype, wgt: Any = None, mask: Any = None,
                 flips: tuple = (False, False, False)):
        uvw, freq = array_argument(uvw, "uvw"), array_argument(freq, "freq")
        if True in flips:
            signs = [-1.0 if flip else 1.0 for flip in flips]
            uvw = packed(uvw * (np.array(signs) if isinstance(uvw, np.ndarray) else _like(signs, uvw)))
        self.uvw, self.freq = Given(uvw), Given(freq)
        n_row, n_chan = (self.uvw.shape or (0,))[0], (self.freq.shape or (0,))[0]
        check_array(self.uvw, "uvw", FLOAT64, (n_row, 3), "[row, 3]")
        check_array(self.freq, "freq", FLOAT64, (n_chan,), "[channel]")
        self.shape, self.real = (n_row, n_chan), real
        self.wgt = None if wgt is None else Given(array_argument(wgt, "wgt"))
        self.mask = None if mask is None else Given(array_argument(mask, "mask"))
        if self.wgt:
            self.check(self.wgt, "wgt", real)
        if self.mask:
            self.check(self.mask, "mask", UINT8)

    def check(self, array: Given, name: str, dtype: np.dtype) -> None:
        """Check the type of an array, and that its shape is [row, channel]."""
        if array.dtype != dtype or array.shape != self.shape:
            check_array(array, name, dtype, self.shape, f"{self.shape}: rows of uvw, channels of freq")

    def keep(self) -> None:
        """Copy the coordinates and the mask, so that the caller may change the arrays, and drop the weights."""
        self.uvw, self.freq, self.wgt = owned(self.uvw), owned(self.freq), None
        self.mask = owned(self.mask) if self.mask else None

    def given(self, vis: Optional[Given] = None) -> Any:
        """Return the samples as a struct of the C library, with visibilities if `vis` is given."""
        if vis is not None:
            self.check(vis, "vis", COMPLEXES[self.real])
        weight = self.wgt.pointer() if self.wgt else ffi.NULL
        mask = self.mask.pointer("uint8_t[]") if self.mask else ffi.NULL
        # A list of the members in their order takes a third of the time of a dict.
        return ffi.new(_SAMPLES, [*self.shape, self.uvw.pointer("double[]"), self.freq.pointer("double[]"),
                                   vis.pointer() if vis else ffi.NULL, weight, mask])


def _like(values: list, array: Any) -> Any:
    """Return numbers as an array of the kind of another array."""
    if type(array).__module__.split(".")[0] == "torch":
        return array.new_tensor(values)
    return _namespace(array).asarray(values)


def _namespace(array: Any) -> Any:
    import importlib

    name = type(array).__module__.split(".")[0]
    return importlib.import_module("jax.numpy" if name in ("jax", "jaxlib") else name)


def thread_count(nthreads: int) -> int:
    """Return the host threads for a call: at most one for each available processor, and as many for 0."""
    if nthreads == 1:
        return 1
    try:
        most = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        most = os.cpu_count() or 1
    return min(nthreads, most) if nthreads > 0 else most


def specification(task: int, real: np.dtype, epsilon: float, n_thread: int, backend: str = "auto", **members: Any) -> Any:
    """Return the specification of a gridder. It uses double precision for single-precision arrays if epsilon needs it."""
    accuracy = min(max(float(epsilon), 1e-13), 0.1) if 7e-15 <= epsilon < np.inf else float(epsilon)
    in_double = members.pop("sums_in_double", False) or (real == np.float32 and accuracy < 2e-6)
    return ffi.new(_SPEC, {
        "struct_bytes": ffi.sizeof("msimage_gridder_spec"), "task": task, "convention": lib.MSIMAGE_XY,
        "precision": lib.MSIMAGE_FP32 if real == np.float32 else lib.MSIMAGE_FP64, "backend": backend_argument(backend),
        "n_thread": n_thread, "accuracy": accuracy, "sums_in_double": in_double, "strategy": _STRATEGY, **members})


class Gridder:
    """A gridder of the C library, freed with this object."""

    def __init__(self, spec: Any):
        self.call, self.spec = Calls(), spec
        out = ffi.new(_OUT)
        self.call(lib.msimage_gridder_create, out, spec, CALLBACKS)
        self.c = ffi.gc(out[0], lib.msimage_gridder_free)

    def report(self) -> str:
        """Return a line that describes the gridder."""
        return report_of(self.c)


def report_of(c: Any) -> str:
    """Return a line that describes a gridder of the C library."""
    r = ffi.new("msimage_gridder_report *")
    lib.msimage_gridder_report_get(c, r)
    where = "GPU" if r.backend == lib.MSIMAGE_CUDA else "CPU"
    return (f"msimage {where}: {r.n_sample} samples, window of {r.width} cells, grid of {r.nu} x {r.nv}, {r.n_w} "
            f"w-planes, error {r.error_estimate:.1e}")


def samples_at(n_row: int, n_chan: int, *places: int) -> Any:
    """Return samples for the C library from addresses in the order of the members."""
    return ffi.from_buffer(_SAMPLES, _pack_samples(n_row, n_chan, *places))


def work_once(spec: Any, blocks: list, rest: Callable[[Any], int], prints_plan: Any = False) -> None:
    """Make a gridder of the C library, add samples, call `rest` with it, and free it. `rest` returns a status."""
    out = ffi.new(_OUT)

    def work() -> int:
        status = lib.msimage_gridder_create(out, spec, CALLBACKS)
        for samples in blocks:
            status = status or lib.msimage_gridder_add(out[0], samples)
        return status or rest(out[0])

    try:
        Calls()(work)
        if prints_plan:
            print(report_of(out[0]))
    finally:
        lib.msimage_gridder_free(out[0])


def gridder(task: int, real: np.dtype, epsilon: float, nthreads: int = 1, **members: Any) -> Gridder:
    """Make a gridder with an accuracy of epsilon."""
    return Gridder(specification(task, real, epsilon, thread_count(nthreads), **members))
