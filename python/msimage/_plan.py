# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans keep visibilities in host or GPU memory, for solvers and deconvolution."""
from __future__ import annotations

from typing import Any, Callable, Optional, Union, overload

import numpy as np

from ._arrays import AnyArray, ArrayLike, ArrayTypeError, Given, empty, finished, real_argument
from ._gridder import (COMPLEXES, REALS, Gridder, ImagesHeld, Samples, array_argument, check_array, flag_argument,
                       gridder, other_array, require, whole_argument, word_argument)
from ._library import ffi, lib, one_at_a_time


class Plan(ImagesHeld):
    """Images, predictions and normal operators of one set of samples.

    A plan copies the samples, so that the caller may change the arrays afterwards. The first call sorts the samples and computes
    coordinates; later calls use them again. The conventions are those of `msimage.wgridder`: images are [x][y], and not divided
    by the weights. Threads may use different plans at the same time. Calls of one plan wait for each other.

    Parameters
    ----------
    uvw : float64 [row, 3], metres
    freq : float64 [channel], Hz
    vis : complex64 or complex128 [row, channel], Jy; None: zeros, for solvers that only need the normal operator
    wgt : float32 or float64, the precision of vis or dtype, [row, channel], from 0 to 3.4e38; rounded to single precision, so that
        weights below 1e-45 become 0; None: all 1
    mask : uint8 [row, channel]; samples with mask 0 are left out; None: all are used
    npix_x, npix_y, pixsize_x, pixsize_y, center_x, center_y, epsilon, divide_by_n : as for wgridder.vis2dirty
    do_wgridding : whether w is used
    dtype : float32 or float64: the type of images if vis is None
    nthreads : host threads; 0: all
    backend, device : "auto", "cpu" or "cuda", and the GPU's number
    """

    def __init__(self, uvw: ArrayLike, freq: ArrayLike, vis: Optional[ArrayLike] = None, wgt: Optional[ArrayLike] = None,
                 mask: Optional[ArrayLike] = None, *, npix_x: int, npix_y: int, pixsize_x: float, pixsize_y: float, epsilon: float,
                 do_wgridding: bool = True, divide_by_n: bool = True, center_x: float = 0.0, center_y: float = 0.0,
                 dtype: Union[str, type, np.dtype] = np.float64, nthreads: int = 0, backend: str = "auto", device: int = 0):
        given = None if vis is None else Given(array_argument(vis, "vis"))
        if given is not None:
            if given.dtype not in REALS:
                raise ArrayTypeError(f"vis: its type must be complex64 or complex128, not {given.dtype}")
            dtype = REALS[given.dtype]
        require(np.dtype(dtype) in COMPLEXES, f"dtype {np.dtype(dtype)}: must be float32 or float64")
        super().__init__((whole_argument(npix_x, "npix_x"), whole_argument(npix_y, "npix_y")), np.dtype(dtype))
        self._samples = Samples(uvw, freq, self.dtype, wgt, mask)
        self._options = dict(nx=self.shape[0], ny=self.shape[1], cell_x_rad=real_argument(pixsize_x, "pixsize_x"),
                             cell_y_rad=real_argument(pixsize_y, "pixsize_y"), center_x_rad=real_argument(center_x, "center_x"),
                             center_y_rad=real_argument(center_y, "center_y"), epsilon=real_argument(epsilon, "epsilon"),
                             ignores_w=not flag_argument(do_wgridding, "do_wgridding"),
                             divides_by_n=flag_argument(divide_by_n, "divide_by_n"),
                             nthreads=whole_argument(nthreads, "nthreads"), backend=backend,
                             device=whole_argument(device, "device"))
        self._gridder = gridder(lib.MSIMAGE_RESIDUAL, self.dtype, **self._options)
        self._predictor: Optional[Gridder] = None
        self._weighting = "natural weights"
        self._gridder.call(lib.msimage_gridder_add, self._gridder.c, self._samples.given(given))
        self._samples.keep()

    def __repr__(self) -> str:
        o, (n_row, n_chan) = self._options, self._samples.shape
        seconds = [f"{o[name] * 180 / np.pi * 3600:.4g}" for name in ("cell_x_rad", "cell_y_rad")]
        size = seconds[0] if seconds[0] == seconds[1] else " x ".join(seconds)
        return (f"<msimage.Plan of {n_row} rows x {n_chan} channels: images of {self.shape[0]} x {self.shape[1]} pixels of {size} arcsec, "
                f"{self.dtype}, epsilon {o['epsilon']:g}, {'without' if o['ignores_w'] else 'with'} w, {self._weighting}>")

    @one_at_a_time
    def weight(self, mode: str = "briggs", robust: float = 0.0, *, taper: float = 0.0, super_weight: float = 1.0) -> None:
        """Multiply the weights of all samples by density weights. Later calls use the new weights. Call this at most once.

        Densities are the sums of weights in the cells of the images' uv plane, as with the program's `-weight`.

        Parameters
        ----------
        mode : "natural", "uniform" or "briggs"
        robust : the robustness of Briggs weighting, from -2 (nearly uniform) to 2 (nearly natural)
        taper : full width at half maximum in radians of a Gaussian that smooths images; 0: none
        super_weight : the width of the cells in which weights are summed, in cells of the images' uv plane
        """
        modes = {"natural": lib.MSIMAGE_NATURAL, "uniform": lib.MSIMAGE_UNIFORM, "briggs": lib.MSIMAGE_BRIGGS}
        rule = ffi.new("msimage_weighting *", {"mode": word_argument(mode, "mode", modes), "robust": real_argument(robust, "robust"),
                                               "taper_fwhm_rad": real_argument(taper, "taper"),
                                               "super_weight": real_argument(super_weight, "super_weight")})
        self._gridder.call(lib.msimage_gridder_weight, self._gridder.c, rule)
        self._weighting = f"briggs {robust:g} weights" if mode == "briggs" else f"{mode} weights"

    @one_at_a_time
    def _run(self, function: Callable[..., int], out: Any, *models: Any) -> Any:
        arguments, model = [self._gridder.c], None
        for model in models:
            model = array_argument(model, "model")
            given = Given(model)
            check_array(given, "model", self.dtype, self.shape)
            arguments.append(given.pointer())
        out = empty(self.shape, self.dtype, model if out is None else out) if out is None else out
        into = Given(other_array(out, "out"))
        check_array(into, "out", self.dtype, self.shape)
        if not into.is_contiguous or not into.is_writeable:
            raise ValueError("out: the array has gaps or is not writeable")
        self._gridder.call(function, *arguments, into.pointer())
        return finished(out, model)

    @overload
    def dirty(self, out: None = None) -> np.ndarray: ...

    @overload
    def dirty(self, out: AnyArray) -> AnyArray: ...

    def dirty(self, out: Optional[ArrayLike] = None) -> ArrayLike:
        """Return the image of the visibilities [npix_x, npix_y], Jy times weight."""
        return self._run(lib.msimage_gridder_image, out)

    @overload
    def psf(self, out: None = None) -> np.ndarray: ...

    @overload
    def psf(self, out: AnyArray) -> AnyArray: ...

    def psf(self, out: Optional[ArrayLike] = None) -> ArrayLike:
        """Return the point spread function [npix_x, npix_y] times the sum of weights: the image of visibilities 1."""
        return self._run(lib.msimage_gridder_psf, out)

    def residual(self, model: AnyArray, out: Optional[AnyArray] = None) -> AnyArray:
        """Return the image [npix_x, npix_y], Jy times weight, of the visibilities minus those of a model [npix_x, npix_y], Jy/pixel."""
        return self._run(lib.msimage_gridder_residual, out, model)

    def hessian(self, model: AnyArray, out: Optional[AnyArray] = None) -> AnyArray:
        """Apply the normal operator: return the image, Jy times weight, of a model's visibilities. Those of the plan are not used."""
        return self._run(lib.msimage_gridder_hessian, out, model)

    @one_at_a_time
    def predict(self, model: AnyArray, out: Optional[AnyArray] = None) -> AnyArray:
        """Return the visibilities [row, channel] of a model in Jy, without weights; 0 where the mask is 0."""
        model = array_argument(model, "model")
        given = Given(model)
        check_array(given, "model", self.dtype, self.shape)
        samples = self._samples.given()
        if self._predictor is None:
            # If an exception ends the call, the samples are incomplete and the gridder is not kept.
            made = gridder(lib.MSIMAGE_PREDICT, self.dtype, **self._options)
            made.call(lib.msimage_gridder_add, made.c, samples)
            self._predictor = made
        g = self._predictor
        out = empty(self._samples.shape, COMPLEXES[self.dtype], model) if out is None else out
        into = Given(other_array(out, "out"))
        check_array(into, "out", COMPLEXES[self.dtype], self._samples.shape)
        if not into.is_contiguous or not into.is_writeable:
            raise ValueError("out: the array has gaps or is not writeable")
        g.call(lib.msimage_gridder_predict, g.c, given.pointer())
        g.call(lib.msimage_gridder_fetch, g.c, samples, into.pointer())
        return finished(out, model)

    @one_at_a_time
    def sum_weight(self) -> float:
        """Return the sum of the weights of the samples that are used, which is the peak of the point spread function."""
        total = ffi.new("double *")
        self._gridder.call(lib.msimage_gridder_sum_weight, self._gridder.c, total, ffi.NULL)
        return float(total[0])

    @one_at_a_time
    def report(self) -> str:
        """Return a line that describes the plan."""
        return self._gridder.report()
