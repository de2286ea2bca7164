# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions of ducc0.wgridder.experimental: vis2dirty and dirty2vis, and the same for rows with different frequencies.

After baseline-dependent averaging short baselines have fewer channels than long ones. vis2dirty_bda and dirty2vis_bda take
one-dimensional samples: those of the first row, in the order of its frequencies, then those of the second row, and so on.
"""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from .._arrays import Given
from .._gridder import FLOAT64, Samples, check_array, other_array, require
from .._library import lib
from . import _new_image, _new_visibilities, _Request, dirty2vis, vis2dirty

__all__ = ["vis2dirty", "dirty2vis", "vis2dirty_bda", "dirty2vis_bda"]

_UINT64 = np.dtype(np.uint64)


def _host_array(array: Any, name: str) -> np.ndarray:
    array = other_array(array, name)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: must be an array in host memory")
    return array


class _ListRequest(_Request):
    """One-dimensional samples, which become a block for each list of frequencies."""

    def __init__(self, values: tuple, lists: tuple, uvw: Any, wgt: Any, mask: Any):
        super().__init__(values, uvw, None, wgt, mask)
        self.lists = lists

    def _blocks_of_lists(self, n_row: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return, for each list that has rows, their numbers [n], its frequencies [channel], and their samples [n, channel]."""
        names = ("freqlist_id", "freqlist_nfreqs", "freqlist_freqs")
        id_, n_freq, freq = (_host_array(array, name) for array, name in zip(self.lists, names))
        check_array(Given(id_), "freqlist_id", _UINT64, (n_row,), "[row], one list for each row of uvw")
        check_array(Given(n_freq), "freqlist_nfreqs", _UINT64, n_freq.shape[:1], "[list]")
        check_array(Given(freq), "freqlist_freqs", FLOAT64, freq.shape[:1], "one dimension")
        require(not n_row or id_.max() < n_freq.size, f"freqlist_id: must be below {n_freq.size}, the size of freqlist_nfreqs")
        require(not n_freq.size or (n_freq.max() <= freq.size and n_freq.sum() <= freq.size),
                f"freqlist_freqs: has {freq.size} frequencies, fewer than the sum of freqlist_nfreqs")
        length = n_freq.astype(np.int64)
        first, per_row = np.cumsum(length) - length, length[id_.astype(np.int64)]
        start = np.cumsum(per_row) - per_row
        self.shape = (int(per_row.sum()),)
        order = np.argsort(id_, kind="stable")
        ends = np.flatnonzero(np.diff(id_[order])) + 1
        return [(rows, freq[first[i]:first[i] + length[i]], start[rows, None] + np.arange(length[i]))
                for rows in np.split(order, ends) if rows.size for i in (int(id_[rows[0]]),)]

    def blocks(self, real: np.dtype, vis: Optional[Given] = None) -> list[tuple[Samples, Optional[Given]]]:
        """Return the samples as a block for each list."""
        uvw, _, wgt, mask = self.arrays
        uvw = _host_array(uvw, "uvw")
        check_array(Given(uvw), "uvw", FLOAT64, (*uvw.shape[:1], 3), "[row, 3]")
        lists = self._blocks_of_lists(len(uvw))
        values = {name: None if array is None else _host_array(array, name) for name, array in (("wgt", wgt), ("mask", mask))}
        if vis is not None:
            values["vis"] = _host_array(vis.kept, "vis")
        for name, array in values.items():
            if array is not None:
                check_array(Given(array), name, array.dtype, self.shape, f"{self.shape}: the number of frequencies of all rows")
        self._places = [places for _, _, places in lists]
        made = []
        for rows, freq, places in lists:
            part = {name: None if array is None else array[places] for name, array in values.items()}
            made.append((self.samples(uvw[rows], freq, real, part["wgt"], part["mask"]),
                         Given(part["vis"]) if vis is not None else None))
        return made

    def fetch(self, g: Any, blocks: list, into: Given) -> int:
        """Copy the predicted blocks to their samples; return a status."""
        for samples, places in zip(blocks, self._places):
            part = Given(np.empty(places.shape, into.dtype))
            status = int(lib.msimage_gridder_fetch(g, samples, part.pointer()))
            if status:
                return status
            into.kept[places] = part.kept
        return 0


def vis2dirty_bda(*, uvw: np.ndarray, freqlist_id: np.ndarray, freqlist_nfreqs: np.ndarray, freqlist_freqs: np.ndarray,
                  vis: np.ndarray, wgt: Optional[np.ndarray] = None, npix_x: int = 0, npix_y: int = 0, pixsize_x: float,
                  pixsize_y: float, epsilon: float, do_wgridding: bool = False, nthreads: int = 1, verbosity: int = 0,
                  mask: Optional[np.ndarray] = None, flip_u: bool = False, flip_v: bool = False, flip_w: bool = False,
                  divide_by_n: bool = True, dirty: Optional[np.ndarray] = None, sigma_min: float = 1.1,
                  sigma_max: float = 2.6, center_x: float = 0.0, center_y: float = 0.0, allow_nshift: bool = True,
                  double_precision_accumulation: bool = False, backend: str = "auto", device: int = 0) -> np.ndarray:
    """Make a dirty image as vis2dirty does, from rows with different frequencies. Arrays must be in host memory.

    Parameters
    ----------
    freqlist_id : uint64 [row], the list of each row, from 0
    freqlist_nfreqs : uint64 [list], the number of frequencies in each list
    freqlist_freqs : float64, the frequencies of all lists, one after the other, Hz; increasing in each list
    vis : complex64 or complex128 [sample], Jy: row after row, each with as many samples as its list has frequencies
    wgt, mask : [sample]; these and the other parameters are those of vis2dirty

    Returns
    -------
    real [npix_x, npix_y], Jy times weight
    """
    values = (do_wgridding, flip_u, flip_v, flip_w, divide_by_n, allow_nshift, double_precision_accumulation, nthreads, verbosity,
              device, pixsize_x, pixsize_y, epsilon, sigma_min, sigma_max, center_x, center_y, backend)
    request = _ListRequest(values, (freqlist_id, freqlist_nfreqs, freqlist_freqs), uvw, wgt, mask)
    return _new_image(vis, dirty, (npix_x, npix_y), request)


def dirty2vis_bda(*, uvw: np.ndarray, freqlist_id: np.ndarray, freqlist_nfreqs: np.ndarray, freqlist_freqs: np.ndarray,
                  dirty: np.ndarray, wgt: Optional[np.ndarray] = None, pixsize_x: float, pixsize_y: float,
                  epsilon: float, do_wgridding: bool = False, nthreads: int = 1, verbosity: int = 0,
                  mask: Optional[np.ndarray] = None, flip_u: bool = False, flip_v: bool = False, flip_w: bool = False,
                  divide_by_n: bool = True, vis: Optional[np.ndarray] = None, sigma_min: float = 1.1,
                  sigma_max: float = 2.6, center_x: float = 0.0, center_y: float = 0.0, allow_nshift: bool = True,
                  backend: str = "auto", device: int = 0) -> np.ndarray:
    """Predict the visibilities of an image: the transpose of vis2dirty_bda, with its parameters; `dirty` and `vis` as in dirty2vis.

    Returns
    -------
    complex [sample], Jy
    """
    values = (do_wgridding, flip_u, flip_v, flip_w, divide_by_n, allow_nshift, False, nthreads, verbosity, device,
              pixsize_x, pixsize_y, epsilon, sigma_min, sigma_max, center_x, center_y, backend)
    request = _ListRequest(values, (freqlist_id, freqlist_nfreqs, freqlist_freqs), uvw, wgt, mask)
    return _new_visibilities(dirty, vis, request)
