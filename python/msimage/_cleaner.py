# SPDX-License-Identifier: GPL-3.0-or-later
"""Minor cycles of deconvolution."""
from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import numpy as np

from ._arrays import ArrayLike, ArrayTypeError, Given, real_argument
from ._gridder import (UINT8, ImagesHeld, array_argument, backend_argument, check_array, other_array, require, thread_count,
                       whole_argument, word_argument)
from ._library import CALLBACKS, Calls, ffi, lib, one_at_a_time

_STOPS = ("threshold", "major", "iterations", "negative", "empty", "diverged", "stalled")
_RULES = {"wsclean": lib.MSIMAGE_SCALE_BY_BEAM, "tclean": lib.MSIMAGE_SCALE_BY_POWER}
_SHAPES = {"tapered-quadratic": lib.MSIMAGE_SCALE_TAPERED_QUADRATIC, "gaussian": lib.MSIMAGE_SCALE_GAUSSIAN,
           "spheroidal": lib.MSIMAGE_SCALE_SPHEROIDAL}


class CleanReport(NamedTuple):
    """Why the minor iterations ended, their number, the peak before and after them, and the flux added to the model."""

    stop: str
    n_iteration: int
    peak_before: float
    peak_after: float
    flux: float


class Cleaner(ImagesHeld):
    """Find components in a residual image and add them to a model.

    Parameters
    ----------
    psf : float32 or float64 [nx, ny], 1 at (nx/2, ny/2): the point spread function; with nterms [2 nterms - 1, nx, ny]
    method : "hogbom", "list" or "multiscale"
    gain : fraction of a peak that becomes a component
    mask : uint8 [nx, ny], not 0 where components are allowed
    scales : for multiscale: widths in pixels, the first 0, increasing; None: chosen from the beam
    beam : for multiscale: width of the beam in pixels; None: that of the pixels above half the peak of the psf
    scale_rule : how the scale of a component is chosen. "wsclean": the peak of the residual convolved with the scale, times a
        bias, is largest. "tclean": the component lowers the sum of the squared residual most; masks and thresholds are as in tclean
    scale_shape : "tapered-quadratic", "gaussian" or "spheroidal" (as in tclean, where a scale is half the width)
    scale_bias : for wsclean: the peak of a scale s is multiplied by scale_bias**-log2(s / (2 beam)); 0: 0.6
    smallscalebias : for tclean: fraction by which the squares of the widest scale are reduced, -1 to 1
    scale_gain : fraction of a scale's peak that is cleaned before a scale is chosen again: 1e-6 for one component, as
        tclean; 0: 0.2, or 0.05 for tclean
    nterms : 0: no Taylor terms; 2 to 4: components have terms in x = frequency / reference - 1, as tclean's mtmfs. Residuals and
        models are then [nterms, nx, ny]. For residual t weights are multiplied by x**t; the image is divided by the sum of the
        weights without x**t. The same holds for psf k, up to k = 2 nterms - 2. Peaks are searched in residual 0; with the
        scale_rule tclean the component is chosen whose terms together lower chi^2 most
    reference : with nterms: reference frequency in Hz
    frequencies : with nterms: float [channel], Hz: frequencies of the samples, at least nterms different ones
    weights : with nterms: float [channel]: sums of the weights of the samples of each frequency; None: equal
    """

    def __init__(self, psf: ArrayLike, *, method: str = "list", gain: float = 0.1, mask: Optional[ArrayLike] = None,
                 scales: Optional[Sequence[float]] = None, beam: Optional[float] = None, scale_rule: str = "wsclean",
                 scale_shape: str = "tapered-quadratic", scale_bias: float = 0.0, smallscalebias: float = 0.0,
                 scale_gain: float = 0.0, nterms: int = 0, reference: float = 0.0, frequencies: Optional[Sequence[float]] = None,
                 weights: Optional[Sequence[float]] = None, backend: str = "auto", device: int = 0, nthreads: int = 0):
        given = Given(array_argument(psf, "psf"))
        nterms = whole_argument(nterms, "nterms")
        require(nterms == 0 or 2 <= nterms <= 4, f"nterms: must be 0 or 2 to 4, not {nterms}")
        n_dim = 3 if nterms else 2
        require(len(given.shape) == n_dim, f"psf: must have {n_dim} dimensions, has {len(given.shape)}")
        require(not nterms or given.shape[0] == 2 * nterms - 1,
                f"psf: {nterms} terms need {2 * nterms - 1} images, not {given.shape[0]}")
        hz = [] if frequencies is None else [real_argument(f, "frequencies") for f in frequencies]
        weight = [1.0] * len(hz) if weights is None else [real_argument(w, "weights") for w in weights]
        require(len(hz) == len(weight), f"weights: {len(weight)} for {len(hz)} frequencies")
        require(bool(nterms) or not hz, "frequencies: they are for Taylor terms; give nterms")
        if given.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ArrayTypeError(f"psf: its type must be float32 or float64, not {given.dtype}")
        if not isinstance(method, str) or "\0" in method:
            raise TypeError("method: must be a string")
        nx, ny = given.shape[-2:]
        super().__init__((nterms, nx, ny) if nterms else (nx, ny), given.dtype)
        self._call, self._method = Calls(), method
        name = ffi.new("char[]", method.encode())
        if beam is None and method == "multiscale":
            first = array_argument(psf, "psf")[0] if nterms else array_argument(psf, "psf")
            beam = 2 * float(np.sqrt(float((first > 0.5).sum()) / np.pi))
        widths = ffi.NULL if scales is None else ffi.new("double[]", [real_argument(s, "scales") for s in scales])
        hz_list, weight_list = ffi.new("double[]", hz), ffi.new("double[]", weight)
        # Images are [x][y]: in the library's images a row has constant x.
        spec = ffi.new("msimage_cleaner_spec *", {
            "struct_bytes": ffi.sizeof("msimage_cleaner_spec"), "nx": ny, "ny": nx, "n_term": nterms,
            "reference_hz": real_argument(reference, "reference"), "freq_hz": hz_list, "freq_weight": weight_list, "n_freq": len(hz),
            "precision": lib.MSIMAGE_FP32 if self.dtype == np.float32 else lib.MSIMAGE_FP64,
            "backend": backend_argument(backend), "device": whole_argument(device, "device"),
            "n_thread": thread_count(whole_argument(nthreads, "nthreads")), "method": name, "gain": real_argument(gain, "gain"),
            "scale": widths, "n_scale": 0 if scales is None else len(scales),
            "beam_pixel": real_argument(beam or 0, "beam"), "scale_bias": real_argument(scale_bias, "scale_bias"),
            "small_scale_bias": real_argument(smallscalebias, "smallscalebias"),
            "scale_gain": real_argument(scale_gain, "scale_gain"), "scale_rule": word_argument(scale_rule, "scale_rule", _RULES),
            "scale_shape": word_argument(scale_shape, "scale_shape", _SHAPES)})
        out = ffi.new("msimage_cleaner **")
        self._call(lib.msimage_cleaner_create, out, spec, CALLBACKS)
        self._c = ffi.gc(out[0], lib.msimage_cleaner_free)
        self._call(lib.msimage_cleaner_psf, self._c, given.pointer())
        if mask is not None:
            allowed = Given(array_argument(mask, "mask"))
            check_array(allowed, "mask", UINT8, (nx, ny))
            self._call(lib.msimage_cleaner_mask, self._c, allowed.pointer("uint8_t[]"))

    def __repr__(self) -> str:
        terms = f"{self.shape[0]} terms of " if len(self.shape) > 2 else ""
        return f"<msimage.Cleaner by {self._method}, of {terms}{self.shape[-2]} x {self.shape[-1]} pixels, {self.dtype}>"

    def _images(self, *images: ArrayLike) -> list:
        given = []
        for name, image in zip(("residual", "model"), images):
            one = Given(other_array(image, name))
            check_array(one, name, self.dtype, self.shape)
            if not one.is_contiguous or not one.is_writeable:
                raise ValueError(f"{name}: the array has gaps or is not writeable")
            given.append(one)
        return given

    @one_at_a_time
    def minor(self, residual: ArrayLike, model: ArrayLike, *, threshold: float = 0.0, mgain: float = 1.0,
              n_iteration: int = 1000) -> CleanReport:
        """Subtract components from residual [nx, ny], Jy/beam, and add them to model, Jy/pixel, both in place.

        With Taylor terms both are [nterms, nx, ny]. Cleaning ends when the peak is at the threshold in Jy/beam or at (1 - mgain)
        times the first peak, or after n_iteration iterations.
        """
        a, b = self._images(residual, model)
        if a.device is None and b.device is None and np.may_share_memory(a.kept, b.kept):
            raise ValueError("residual, model: must not share memory")
        limits = ffi.new("msimage_clean_limits *",
                         {"threshold": real_argument(threshold, "threshold"),
                          "mgain": 0 if real_argument(mgain, "mgain") >= 1 else mgain,
                          "n_iteration": whole_argument(n_iteration, "n_iteration")})
        r = ffi.new("msimage_clean_report *")
        self._call(lib.msimage_cleaner_minor, self._c, a.pointer(), b.pointer(), limits, r)
        return CleanReport(_STOPS[int(r.stop)], int(r.n_iteration), r.peak_before, r.peak_after, r.flux)

    @one_at_a_time
    def noise(self, residual: ArrayLike) -> float:
        """Return 1.4826 times the median absolute deviation of a residual image, Jy/beam; with Taylor terms of term 0."""
        sigma = ffi.new("double *")
        (given,) = self._images(residual)
        self._call(lib.msimage_cleaner_noise, self._c, given.pointer(), sigma)
        return float(sigma[0])
