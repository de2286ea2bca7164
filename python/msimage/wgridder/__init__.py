# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions of ducc0.wgridder (0.42), on msimage's kernels: on a GPU if there is one.

    from msimage import wgridder

is the only change in a program; `from ducc0.wgridder.experimental import ..` becomes `from msimage.wgridder.experimental
import ..`. Images are [x][y] arrays. With x = center_x + (i - npix_x/2) pixsize_x, y in the same way, and
n = sqrt(1 - x^2 - y^2), a dirty image is

    dirty[i, j] = Re sum over samples of wgt vis exp(+2 pi i freq/c (u x + v y - w (n - 1)))

divided by n if `divide_by_n` is set, but not by the weights. Without w-gridding w is taken as 0, and images are not divided by n.
The other direction is the transpose. The relative L2 error of the results is at most epsilon. This holds for the mean over the
positions of samples: for a few samples the error may be larger by a few hundredths of epsilon. Visibilities and weights that are
NaN are left out. Samples beyond 1 / (2 pixsize) count, as the Fourier transform of pixels is periodic in u and v.

Beyond the horizon n is -sqrt(x^2 + y^2 - 1), as in ducc0; if images are divided by n, pixels there are 0.

Differences from ducc0: samples whose coordinates or values are not finite are left out, where ducc0 may return images of NaN.
`sigma_max` and `allow_nshift` do not change the method. All functions have two more arguments: `backend`, "auto", "cpu" or "cuda",
and `device`, the number of a GPU.
"""
from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional

import numpy as np

from .._arrays import ArrayTypeError, Given, empty, finished, overlaps_itself, place, plain, real_argument
from .._gridder import (COMPLEXES, REALS, Samples, array_argument, backend_argument, check_array, flag_argument, other_array, require,
                        samples_at, specification, thread_count, whole_argument, work_once)
from .._library import CALLBACKS, complain, ffi, forget_raised, lib, raised
from .._same import SameCalls

__all__ = ["vis2dirty", "dirty2vis", "ms2dirty", "dirty2ms"]

# sigma_max, and the least epsilon that ducc0 0.42 accepts for it in double precision, without w and with w. These are the
# accuracies of its windows. In single precision it refuses slightly more.
_REACH = ((1.2, 1.4e-8, 7.1e-7), (1.25, 1.9e-9, 9.8e-8), (1.3, 3.7e-10, 1.4e-8), (1.35, 9.9e-11, 3.4e-9),
          (1.4, 2.6e-11, 8.0e-10), (1.45, 9.7e-12, 2.2e-10), (1.5, 3.9e-12, 7.4e-11), (1.55, 1.6e-12, 2.6e-11),
          (1.6, 7.6e-13, 1.1e-11), (1.65, 4.1e-13, 5.4e-12), (1.7, 2.2e-13, 2.7e-12), (1.75, 1.3e-13, 1.4e-12),
          (1.8, 9.1e-14, 8.4e-13), (1.85, 5.9e-14, 4.9e-13), (1.9, 4.3e-14, 3.1e-13), (1.95, 3.2e-14, 2.0e-13),
          (2, 2.4e-14, 1.3e-13), (2.05, 2.0e-14, 9.8e-14), (2.1, 1.7e-14, 7.2e-14), (2.15, 1.5e-14, 5.4e-14),
          (2.2, 1.3e-14, 4.2e-14), (2.25, 1.1e-14, 3.4e-14), (2.3, 9.9e-15, 2.7e-14))

# The least epsilon for each precision, without w and with w.
_LEAST = {np.dtype(np.float32): (4.4e-7, 8.0e-7), np.dtype(np.float64): (7.1e-15, 1.5e-14)}


def _check_accuracy(epsilon: float, sigma_min: float, sigma_max: float, wgridding: bool, real: np.dtype) -> None:
    least = _LEAST[real][wgridding]
    if sigma_max < 2.5:
        least = max(least, min((row[1 + wgridding] for row in _REACH if row[0] <= sigma_max), default=np.inf))
    if not (epsilon >= least and sigma_max >= sigma_min and sigma_min <= 2.5):
        reached = ", ".join(f"{e[wgridding]:.1e} in {name}" for name, e in _LEAST.items())
        raise RuntimeError(f"epsilon: no window reaches {epsilon} with sigma_min {sigma_min} and sigma_max {sigma_max} in {real}; "
                           f"the least are {reached}, with sigma_max of 2.5 or more")


_VOID = ffi.typeof("void *")

# The arguments other than arrays and the shape of the image. The functions pass them as tuples in this order.
_FLAGS = ("do_wgridding", "flip_u", "flip_v", "flip_w", "divide_by_n", "allow_nshift", "double_precision_accumulation")
_WHOLE = ("nthreads", "verbosity", "device")
_REAL = ("pixsize_x", "pixsize_y", "epsilon", "sigma_min", "sigma_max", "center_x", "center_y")
_NAMES = (*_FLAGS, *_WHOLE, *_REAL, "backend")
# Types whose values are immutable.
_PLAIN = {bool, int, float, str, np.bool_, np.float32, np.float64, np.int32, np.int64}


class _How:
    """The arguments of _NAMES, checked and converted. Calls share these objects, so they must not be changed."""

    def __init__(self, *values: Any):
        self.o = o = dict(zip(_NAMES, values))
        for name in _FLAGS:
            o[name] = flag_argument(o[name], name)
        for name in _WHOLE:
            o[name] = whole_argument(o[name], name)
        for name in _REAL:
            o[name] = real_argument(o[name], name)
        for name in ("pixsize_x", "pixsize_y", "epsilon"):
            if not 0 < o[name] < np.inf:
                raise RuntimeError(f"{name} must be positive and finite")
        backend_argument(o["backend"])
        self.flips = (o["flip_u"], o["flip_v"], o["flip_w"])

    def specification(self, task: int, real: np.dtype, shape: tuple, n_thread: int) -> Any:
        """The specification of a gridder, for an image's shape."""
        o = self.o
        _check_accuracy(o["epsilon"], o["sigma_min"], o["sigma_max"], o["do_wgridding"], real)
        for name, n in zip(("npix_x", "npix_y"), shape):
            if n <= 0 or n % 2:
                raise RuntimeError(f"{name}: must be even and not 0, got {n}")
        return specification(task, real, o["epsilon"], n_thread, backend=o["backend"], device=o["device"],
                             nx=shape[0], ny=shape[1], cell_x_rad=o["pixsize_x"], cell_y_rad=o["pixsize_y"],
                             center_x_rad=-o["center_x"] if o["flip_u"] else o["center_x"],
                             center_y_rad=-o["center_y"] if o["flip_v"] else o["center_y"],
                             ignores_w=not o["do_wgridding"], divides_by_n=o["divide_by_n"],
                             sums_in_double=o["double_precision_accumulation"],
                             least_padding=o["sigma_min"] if o["sigma_min"] > 1.1 else 0)


# These are cached for all kinds of arrays, as their arguments are not arrays.
_how_before = functools.lru_cache(maxsize=64, typed=True)(_How)
_specification_before = functools.lru_cache(maxsize=64)(_How.specification)


class _Request:
    """The arguments that all functions share, checked."""

    def __init__(self, values: tuple, uvw: Any, freq: Any, wgt: Any, mask: Any):
        self.how = (_how_before if _PLAIN.issuperset(map(type, values)) else _How)(*values)
        self.arrays = (uvw, freq, wgt, mask)

    def samples(self, uvw: Any, freq: Any, real: np.dtype, wgt: Any, mask: Any) -> Samples:
        """Return a block of samples. As in ducc0, frequencies must be increasing."""
        s = Samples(uvw, freq, real, wgt, mask, self.how.flips)
        if s.freq.device is None:
            _check_frequencies(s.freq.kept)
        return s

    def blocks(self, real: np.dtype, vis: Optional[Given] = None) -> list[tuple[Samples, Optional[Given]]]:
        """Return the samples as blocks of rows and channels, each with its visibilities."""
        uvw, freq, wgt, mask = self.arrays
        s = self.samples(uvw, freq, real, wgt, mask)
        if vis is not None:
            s.check(vis, "vis", vis.dtype)
        self.shape: tuple[int, ...] = s.shape
        return [(s, vis)]

    def fetch(self, g: Any, blocks: list, into: Given) -> int:
        """Copy the predicted blocks to the array of visibilities; return a status."""
        return int(lib.msimage_gridder_fetch(g, blocks[0], into.pointer()))

    def specification(self, task: int, real: np.dtype, shape: tuple) -> Any:
        """The specification of a gridder, for an image's shape."""
        return _specification_before(self.how, task, real, shape, thread_count(self.how.o["nthreads"]))


def _check_frequencies(freq: np.ndarray) -> None:
    hz = freq.tolist()
    if hz:
        # A list takes a fifth of the time of an array. The library refuses a NaN in the middle.
        require(hz[0] > 0, "freq: channels must have positive frequencies")
        require(hz == sorted(hz), "freq: channels must be in ascending order")


class _Known(NamedTuple):
    """The checked arguments of a call. They hold for all calls that differ only in the elements of arrays."""

    spec: Any
    nthreads: int
    n_thread: int
    n_row: int
    n_chan: int
    shape: tuple
    dtype: np.dtype


# A call may take only milliseconds, and the GPU waits while arguments are checked. So the results of the checks are cached. The key
# consists of the properties of the arrays by plain(), the other arguments, with the shape of an image, and their types.
_known: dict[tuple, _Known] = {}
_MOST_KNOWN = 256


def _holds(known: _Known, freq: Any, is_on_gpu: bool) -> bool:
    """Return whether a cached call is valid. Only the number of available processors can change, which does not matter on a GPU."""
    if type(freq) is np.ndarray:
        _check_frequencies(freq)
    return is_on_gpu or known.n_thread == 1 or thread_count(known.nthreads) == known.n_thread


def _remember(key: Optional[tuple], request: _Request, arrays: tuple, spec: Any, shape: tuple, dtype: np.dtype) -> None:
    """Cache the checked arguments of a call, unless it prints a line, flips an axis, or has arrays with gaps or arguments of other types."""
    o = request.how.o
    if not key or not _PLAIN.issuperset(key[2:]) or o["verbosity"] or True in request.how.flips:
        return
    if not all(array is None or array.flags.c_contiguous for array in arrays):
        return
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    n_row, n_chan = request.shape
    _known[key] = _Known(spec, o["nthreads"], spec.n_thread, n_row, n_chan, shape, dtype)


def _recall(values: tuple, arrays: tuple) -> tuple[Optional[_Known], list, Optional[tuple]]:
    """Return the cached call or None, the addresses of the arrays, and the key in the cache; None if a call cannot be cached."""
    met = plain(arrays)
    if not met:
        return None, [], None
    kinds, places, is_on_gpu = met
    key = (kinds, values, *map(type, values))
    try:
        known = _known.get(key)
    except TypeError:
        return None, places, None  # an argument is not hashable, so it is no number; the checks raise the error
    return known if known is not None and _holds(known, arrays[1], is_on_gpu) else None, places, key


# Calls with the same array objects as earlier ones.
_same_images, _same_predictions = SameCalls(), SameCalls()
_c_image_once, _c_predict_once, _cast = lib.msimage_gridder_image_once, lib.msimage_gridder_predict_once, ffi.cast


def _result(out: Any, name: str, shape: tuple, dtype: Any, like: Any) -> tuple:
    """Return the array of the caller or a new one, the array to write to, and the array to copy it to afterwards or None."""
    if out is None:
        out = empty(shape, dtype, like)
        return out, Given(out), None
    there = other_array(out, name)
    given = Given(there)
    check_array(given, name, dtype, shape)
    if not given.is_writeable:
        raise ValueError(f"{name}: the array is not writeable")
    if given.is_contiguous:
        return out, given, None
    if given.device is not None:
        raise ValueError(f"{name}: the array has gaps")
    require(not overlaps_itself(there), f"{name}: elements of the array overlap")
    return out, Given(np.empty(shape, dtype)), there


def _finish(out: Any, given: Given, there: Any, like: Any) -> Any:
    """Return the result, after a copy to the array of the caller if that has gaps."""
    if there is None:
        return finished(out, like)
    there[...] = given.kept
    return out


def _new_image(vis: Any, dirty: Any, npix: tuple, request: _Request, key: Optional[tuple] = None) -> Any:
    """Check all arguments and make an image."""
    npix_x, npix_y = whole_argument(npix[0], "npix_x"), whole_argument(npix[1], "npix_y")
    vis = array_argument(vis, "vis")
    given = Given(vis)
    if given.dtype not in REALS:
        raise ArrayTypeError(f"vis: its type must be complex64 or complex128, not {given.dtype}")
    real = REALS[given.dtype]
    blocks = request.blocks(real, given)
    shape = (npix_x, npix_y)
    if dirty is not None and len(getattr(dirty, "shape", ())) == 2:
        shape = (npix_x or dirty.shape[0], npix_y or dirty.shape[1])
    out, into, there = _result(dirty, "dirty", shape, real, vis)
    spec = request.specification(lib.MSIMAGE_IMAGE, real, shape)
    _remember(key, request, (*request.arrays, vis, dirty), spec, shape, real)
    work_once(spec, [samples.given(values) for samples, values in blocks],
              lambda g: lib.msimage_gridder_image(g, into.pointer()), request.how.o["verbosity"])
    return _finish(out, into, there, vis)


def _image(values: tuple, uvw: Any, freq: Any, vis: Any, wgt: Any, mask: Any, dirty: Any) -> Any:
    """Make an image. `values` are those of _NAMES, then npix_x and npix_y."""
    arrays = (uvw, freq, vis, wgt, mask, dirty)
    same = _same_images.of.get((id(uvw), id(freq)))
    met = same and same.places_of(values, arrays)
    if same and met:
        vis_place, image_place = met
        known, samples = same.known, same.samples_with(vis_place)
        if dirty is None:
            dirty = same.buffer()
            image_place = dirty.data.ptr
    else:
        known, places, key = _recall(values, arrays)
        if known is None:
            return _new_image(vis, dirty, values[-2:], _Request(values[:-2], uvw, freq, wgt, mask), key)
        _same_images.keep(known, values, arrays, places)
        *samples_places, image_place = places
        if dirty is None:
            dirty = empty(known.shape, known.dtype, vis)
            image_place = place(dirty)
        samples = samples_at(known.n_row, known.n_chan, *samples_places)
    if raised:
        forget_raised()
    status = _c_image_once(known.spec, CALLBACKS, samples, 1, _cast(_VOID, image_place))
    if status or raised:
        complain(status)
    return dirty


def _new_visibilities(dirty: Any, vis: Any, request: _Request, key: Optional[tuple] = None) -> Any:
    """Check all arguments and predict visibilities."""
    dirty = array_argument(dirty, "dirty")
    given = Given(dirty)
    if given.dtype not in COMPLEXES:
        raise ArrayTypeError(f"dirty: its type must be float32 or float64, not {given.dtype}")
    require(len(given.shape) == 2, "dirty: must have 2 dimensions")
    blocks = request.blocks(given.dtype)
    dtype = COMPLEXES[given.dtype]
    out, into, there = _result(vis, "vis", request.shape, dtype, dirty)
    spec = request.specification(lib.MSIMAGE_PREDICT, given.dtype, given.shape)
    _remember(key, request, (*request.arrays, dirty, vis), spec, request.shape, dtype)
    c_blocks = [samples.given() for samples, _ in blocks]
    work_once(spec, c_blocks, lambda g: lib.msimage_gridder_predict(g, given.pointer()) or request.fetch(g, c_blocks, into),
              request.how.o["verbosity"])
    return _finish(out, into, there, dirty)


def _visibilities(values: tuple, uvw: Any, freq: Any, dirty: Any, wgt: Any, mask: Any, vis: Any) -> Any:
    """Predict visibilities. `values` are those of _NAMES."""
    arrays = (uvw, freq, vis, wgt, mask, dirty)
    same = _same_predictions.of.get((id(uvw), id(freq)))
    met = same and same.places_of(values, arrays)
    if same and met:
        vis_place, model_place = met
        known, samples = same.known, same.samples
        if vis is None:
            vis = same.buffer()
            vis_place = vis.data.ptr
    else:
        known, places, key = _recall(values, arrays)
        if known is None:
            return _new_visibilities(dirty, vis, _Request(values, uvw, freq, wgt, mask), key)
        _same_predictions.keep(known, values, arrays, places)
        *samples_places, model_place = places
        vis_place = places[2]
        if vis is None:
            vis = empty(known.shape, known.dtype, dirty)
            vis_place = place(vis)
        samples = samples_at(known.n_row, known.n_chan, *samples_places)
    if raised:
        forget_raised()
    status = _c_predict_once(known.spec, CALLBACKS, samples, 1, _cast(_VOID, model_place), (_cast(_VOID, vis_place),))
    if status or raised:
        complain(status)
    return vis


def vis2dirty(*, uvw: np.ndarray, freq: np.ndarray, vis: np.ndarray, wgt: Optional[np.ndarray] = None, npix_x: int = 0,
              npix_y: int = 0, pixsize_x: float, pixsize_y: float, epsilon: float, do_wgridding: bool = False,
              nthreads: int = 1, verbosity: int = 0, mask: Optional[np.ndarray] = None, flip_u: bool = False,
              flip_v: bool = False, flip_w: bool = False, divide_by_n: bool = True,
              dirty: Optional[np.ndarray] = None, sigma_min: float = 1.1, sigma_max: float = 2.6,
              center_x: float = 0.0, center_y: float = 0.0, allow_nshift: bool = True,
              double_precision_accumulation: bool = False, backend: str = "auto", device: int = 0) -> np.ndarray:
    """Make a dirty image from visibilities.

    Parameters
    ----------
    uvw : float64 [row, 3], coordinates in metres
    freq : float64 [channel], Hz, increasing
    vis : complex64 or complex128 [row, channel], Jy; its type sets that of wgt and dirty
    wgt : real of that precision [row, channel], of either sign; samples of 0 and NaN are left out
    npix_x, npix_y : even numbers of pixels; not needed if `dirty` is given
    pixsize_x, pixsize_y : radians (direction cosines)
    epsilon : relative error, 1e-1 to 2e-13; of complex64 to 1e-5
    do_wgridding : whether w is used
    nthreads : host threads; 0: all
    verbosity : 1 prints a line
    mask : uint8 [row, channel]; samples of 0 are left out
    flip_u, flip_v, flip_w : change the sign of a coordinate; flip_u also that of center_x, flip_v also that of center_y, as in ducc0
    divide_by_n : divide by n, if w is used
    dirty : real [npix_x, npix_y]: the image is written to it and it is returned
    sigma_min, sigma_max : bounds of the oversampling
    center_x, center_y : direction of pixel (npix_x/2, npix_y/2) from the phase centre, radians
    double_precision_accumulation : use double precision for the work on single-precision arrays

    Returns
    -------
    real [npix_x, npix_y], Jy times weight
    """
    values = (do_wgridding, flip_u, flip_v, flip_w, divide_by_n, allow_nshift, double_precision_accumulation, nthreads, verbosity,
              device, pixsize_x, pixsize_y, epsilon, sigma_min, sigma_max, center_x, center_y, backend, npix_x, npix_y)
    return _image(values, uvw, freq, vis, wgt, mask, dirty)


def dirty2vis(*, uvw: np.ndarray, freq: np.ndarray, dirty: np.ndarray, wgt: Optional[np.ndarray] = None,
              pixsize_x: float, pixsize_y: float, epsilon: float, do_wgridding: bool = False, nthreads: int = 1,
              verbosity: int = 0, mask: Optional[np.ndarray] = None, flip_u: bool = False, flip_v: bool = False,
              flip_w: bool = False, divide_by_n: bool = True, vis: Optional[np.ndarray] = None,
              sigma_min: float = 1.1, sigma_max: float = 2.6, center_x: float = 0.0, center_y: float = 0.0,
              allow_nshift: bool = True, backend: str = "auto", device: int = 0) -> np.ndarray:
    """Predict the visibilities of an image: the transpose of vis2dirty, with the same parameters.

    Parameters
    ----------
    uvw : float64 [row, 3], coordinates in metres
    freq : float64 [channel], Hz, increasing
    dirty : float32 or float64 [npix_x, npix_y], even numbers of pixels, Jy/pixel; its type sets that of wgt and vis
    wgt : real of that precision [row, channel]: factors of the result, which is 0 where wgt is 0 or NaN
    mask : uint8 [row, channel]; the result is 0 where mask is 0
    pixsize_x, pixsize_y : radians (direction cosines)
    epsilon : relative error, 1e-1 to 2e-13; of float32 to 1e-5
    vis : complex [row, channel]: the visibilities are written to it and it is returned

    Returns
    -------
    complex [row, channel], Jy
    """
    values = (do_wgridding, flip_u, flip_v, flip_w, divide_by_n, allow_nshift, False, nthreads, verbosity, device,
              pixsize_x, pixsize_y, epsilon, sigma_min, sigma_max, center_x, center_y, backend)
    return _visibilities(values, uvw, freq, dirty, wgt, mask, vis)


class _Needed:
    """The default of a required argument after an argument with a default."""


_NEEDED: Any = _Needed()


def _need(**options: Any) -> None:
    for name, value in options.items():
        if value is _NEEDED:
            raise TypeError(f"missing argument {name}")


def ms2dirty(uvw: np.ndarray, freq: np.ndarray, ms: np.ndarray, wgt: Optional[np.ndarray] = None, npix_x: int = _NEEDED,
             npix_y: int = _NEEDED, pixsize_x: float = _NEEDED, pixsize_y: float = _NEEDED, nu: int = 0, nv: int = 0,
             epsilon: float = _NEEDED, do_wstacking: bool = False, nthreads: int = 1, verbosity: int = 0,
             mask: Optional[np.ndarray] = None, double_precision_accumulation: bool = False,
             backend: str = "auto", device: int = 0) -> np.ndarray:
    """Make a dirty image as vis2dirty does: `ms` is its vis, `do_wstacking` its do_wgridding.

    `nu` and `nv` are ignored. If w is used, the image is divided by n.
    """
    _need(npix_x=npix_x, npix_y=npix_y, pixsize_x=pixsize_x, pixsize_y=pixsize_y, epsilon=epsilon)
    values = (do_wstacking, False, False, False, True, True, double_precision_accumulation, nthreads, verbosity,
              device, pixsize_x, pixsize_y, epsilon, 1.1, 2.6, 0.0, 0.0, backend, npix_x, npix_y)
    return _image(values, uvw, freq, ms, wgt, mask, None)


def dirty2ms(uvw: np.ndarray, freq: np.ndarray, dirty: np.ndarray, wgt: Optional[np.ndarray] = None,
             pixsize_x: float = _NEEDED, pixsize_y: float = _NEEDED, nu: int = 0, nv: int = 0,
             epsilon: float = _NEEDED, do_wstacking: bool = False, nthreads: int = 1, verbosity: int = 0,
             mask: Optional[np.ndarray] = None, backend: str = "auto", device: int = 0) -> np.ndarray:
    """Predict visibilities as dirty2vis does: `do_wstacking` is its do_wgridding. `nu` and `nv` are ignored."""
    _need(pixsize_x=pixsize_x, pixsize_y=pixsize_y, epsilon=epsilon)
    values = (do_wstacking, False, False, False, True, True, False, nthreads, verbosity, device,
              pixsize_x, pixsize_y, epsilon, 1.1, 2.6, 0.0, 0.0, backend)
    return _visibilities(values, uvw, freq, dirty, wgt, mask, None)
