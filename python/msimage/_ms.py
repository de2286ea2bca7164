# SPDX-License-Identifier: GPL-3.0-or-later
"""Measurement Sets as blocks of NumPy arrays."""
from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from typing import Any, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from ._arrays import real_argument
from ._library import CALLBACKS, Calls, Held, declarations, ffi, load, one_at_a_time

_POLS = ("I", "Q", "U", "V", "RR", "RL", "LR", "LL", "XX", "XY", "YX", "YY")  # CASA's numbers, from 1
_EXPRESSIONS = ("select_field", "select_spw", "select_antenna", "select_uvrange", "select_time", "taql")


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of one set, field and spectral window in the order of the set, with selected channels in increasing frequency.

    The caller owns the arrays. Pass `vis[p]` and `wgt[p]` to `wgridder` or `Plan` for an image of `pol[p]`.

    Attributes
    ----------
    uvw : float64 [row, 3], metres
    freq : float64 [channel], Hz, increasing
    vis : complex64 [pol, row, channel], Jy
    wgt : float32 [pol, row, channel], weights of the set
    flag : bool [pol, row, channel]
    time : float64 [row], TIME of the set: modified Julian date in seconds
    row : int64 [row], row numbers of the main table
    pol : names of the Stokes parameters or correlations
    field : FIELD_ID
    spw : number of the spectral window
    phase_centre : right ascension and declination of the field, radians
    path : the Measurement Set
    """

    uvw: np.ndarray
    freq: np.ndarray
    vis: np.ndarray
    wgt: np.ndarray
    flag: np.ndarray
    time: np.ndarray
    row: np.ndarray
    pol: Tuple[str, ...]
    field: int
    spw: int
    phase_centre: Tuple[float, float]
    path: str

    def __repr__(self) -> str:
        return (f"Block({'x'.join(map(str, self.vis.shape))} of {','.join(self.pol)}, rows, channels; field {self.field}, "
                f"spw {self.spw}, {self.path})")


def _reader() -> Any:
    """Return the library that reads sets; raise ImportError if it was not built."""
    global _lib
    if _lib is None:
        try:
            lib = load("msimage-read.so")
            ffi.cdef(declarations(("read_set.h",), "src"))
            _lib = lib
        except ImportError as error:
            raise ImportError("msimage.read_ms: this msimage was built without casacore; install Debian's python3-msimage, or build with "
                              f"pip install . --config-settings=cmake.define.MSIMAGE_KERNELS_ONLY=OFF and casacore ({error})") from None
    return _lib


_lib: Any = None


def _pair(value: Optional[Sequence[int]], name: str) -> Tuple[int, int]:
    """Return a range of integers, its end exclusive; (0, 0) for None: all."""
    if value is None:
        return 0, 0
    try:
        begin, end = (operator.index(v) for v in value)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: must be two integers, first and last + 1, not {value!r}") from None
    if not 0 <= begin < end < 2**62:
        raise ValueError(f"{name}: {begin} to {end} (exclusive) is not a range")
    return begin, end


def _numbers(value: Union[int, Sequence[int], None], name: str) -> list:
    """Return the numbers of fields or spectral windows as a list."""
    if value is None:
        return []
    try:
        numbers = [operator.index(value)] if hasattr(value, "__index__") else [operator.index(v) for v in value]
    except TypeError:
        raise TypeError(f"{name}: must be an integer or a list of integers, not {value!r}") from None
    if not numbers or not all(0 <= n < 2**31 for n in numbers):
        raise ValueError(f"{name}: {value!r} is not a list of valid numbers")
    return numbers


def _limits(least: float, most: float, name: str) -> Tuple[float, float]:
    least, most = real_argument(least, f"min{name}"), real_argument(most, f"max{name}")
    if not (0 <= least < np.inf and 0 <= most < np.inf) or (most and least > most):
        raise ValueError(f"min{name}, max{name}: {least} to {most} is not a range")
    return least, most


def _pols(pol: Union[str, Sequence[str], None]) -> list:
    """Return CASA's numbers for names such as "IQUV", "XX,YY" or ["RR", "LL"]."""
    if pol is None:
        return []
    words = pol.replace(",", " ").split() if isinstance(pol, str) else list(pol)
    names: list = []
    for word in words:
        if isinstance(word, str) and set(word) <= set("IQUV"):
            names += word
        elif word in ("XXYY", "RRLL") or word in ("XXXYYXYY", "RRRLLRLL"):
            names += [word[i:i + 2] for i in range(0, len(word), 2)]
        else:
            names.append(word)
    if not names or not set(names) <= set(_POLS) or len(set(names)) < len(names):
        raise ValueError(f"pol {pol!r}: must be some of {' '.join(_POLS)}, each once, or None for the stored correlations")
    return [1 + _POLS.index(name) for name in names]


class _Text:
    """Makes strings for C, which live as long as this object."""

    def __init__(self) -> None:
        self.kept: list = []

    def __call__(self, value: Union[str, bytes, os.PathLike, None], name: str) -> Any:
        if value is None:
            return ffi.NULL
        if not isinstance(value, (str, bytes, os.PathLike)):
            raise TypeError(f"{name}: must be a string, not {type(value).__name__}")
        text = os.fsencode(value)
        if not text or b"\0" in text:
            raise ValueError(f"{name}: {value!r} is not a valid {'path' if name == 'paths' else 'string'}")
        self.kept.append(ffi.new("char[]", text))
        return self.kept[-1]

    def numbers(self, values: list) -> Any:
        self.kept.append(ffi.new("int[]", values))
        return self.kept[-1]


class Blocks(Held):
    """The blocks of an open reader, one after another."""

    def __init__(self, lib: Any, call: Calls, reader: Any, paths: list):
        super().__init__()
        self._lib, self._call, self._paths = lib, call, paths
        self._reader = ffi.gc(reader, lib.msimage_read_free)
        self.n_row = int(lib.msimage_read_n_row(reader))  #: rows selected, in all sets
        self.data_column = ffi.string(lib.msimage_read_column(reader)).decode(errors="replace")  #: the column that is read

    def __repr__(self) -> str:
        state = "closed" if self._reader is None else f"{self.n_row} rows of {self.data_column}"
        return f"<msimage.Blocks of {', '.join(self._paths)}: {state}>"

    def __iter__(self) -> Iterator[Block]:
        return self

    @one_at_a_time
    def __next__(self) -> Block:
        if self._reader is None:
            raise StopIteration
        b = ffi.new("msimage_read_block *")
        self._call(self._lib.msimage_read_next, self._reader, b)
        if b.n_row == 0:
            self._close()
            raise StopIteration
        shape = (b.n_pol, b.n_row, b.n_chan)
        vis, wgt, flag = np.empty(shape, np.complex64), np.empty(shape, np.float32), np.empty(shape, np.bool_)
        self._call(self._lib.msimage_read_values, self._reader, ffi.cast("float *", vis.ctypes.data),
                   ffi.cast("float *", wgt.ctypes.data), ffi.cast("uint8_t *", flag.ctypes.data))

        def copy(pointer: Any, dtype: Any, *shape: int) -> np.ndarray:
            size = int(np.prod(shape)) * np.dtype(dtype).itemsize
            return np.frombuffer(ffi.buffer(pointer, size), dtype).reshape(shape).copy()

        return Block(uvw=copy(b.uvw_m, np.float64, b.n_row, 3), freq=copy(b.freq_hz, np.float64, b.n_chan), vis=vis, wgt=wgt,
                     flag=flag, time=copy(b.time_s, np.float64, b.n_row), row=copy(b.row, np.int64, b.n_row),
                     pol=tuple(_POLS[b.pol[p] - 1] for p in range(b.n_pol)), field=b.field, spw=b.spw,
                     phase_centre=(b.ra_rad, b.dec_rad), path=self._paths[b.set])

    @one_at_a_time
    def close(self) -> None:
        """Close the sets; the iteration ends."""
        self._close()

    def _close(self) -> None:
        if self._reader is not None:
            ffi.release(self._reader)
            self._reader = None

    def __enter__(self) -> "Blocks":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def read_ms(paths: Union[str, os.PathLike, Sequence], *, data_column: Optional[str] = None,
            field: Union[int, Sequence[int], str, None] = None, spws: Union[int, Sequence[int], None] = None,
            channel_range: Optional[Sequence[int]] = None, interval: Optional[Sequence[int]] = None,
            minuv_l: float = 0, maxuv_l: float = 0, minuvw_m: float = 0, maxuvw_m: float = 0,
            select_field: Optional[str] = None, select_spw: Optional[str] = None, select_antenna: Optional[str] = None,
            select_uvrange: Optional[str] = None, select_time: Optional[str] = None, taql: Optional[str] = None,
            pol: Union[str, Sequence[str], None] = "I", stokes_weight: str = "smaller") -> Blocks:
    """Open Measurement Sets and iterate over their selected samples in blocks of about a megabyte.

        for b in msimage.read_ms("sim.ms", field=0, pol="IQUV"):
            print(b.field, b.spw, b.vis.shape)

    Arguments have the names, defaults and meanings of the command line's options (`man msimage`).

    Parameters
    ----------
    paths : a Measurement Set, or a list of them
    data_column : None: CORRECTED_DATA if it exists, else DATA
    field : FIELD_IDs, or "all"; None: 0, or the fields of select_field
    spws : numbers of spectral windows; None: all
    channel_range : (first, last + 1), counted through the selected spectral windows, each in increasing frequency; None: all
    interval : (first, last + 1) of the distinct times; None: all
    minuv_l, maxuv_l : limits of sqrt(u^2 + v^2) in wavelengths, applied to each sample; 0: none
    minuvw_m, maxuvw_m : limits of the length of (u, v, w) in metres, applied to each row; 0: none
    select_field, select_spw, select_antenna, select_uvrange, select_time : CASA's selection expressions
    taql : a TaQL condition on rows, whose indices count from 1
    pol : Stokes parameters and correlations, such as "I", "IQUV" or "XX,YY"; None: the stored correlations
    stokes_weight : weight of a Stokes parameter's sample: the "smaller" of its two correlations' weights, or their "mean"

    Returns
    -------
    An iterator of `Block`, with `n_row`, `data_column` and `close()`. A `with` statement and the end of the iteration close it. Rows
    of autocorrelations, rows with FLAG_ROW and rows whose coordinates are not finite are left out. With `pol`, some samples do
    not count for an image: those with FLAG, outside the limits, with a weight that is not positive, or with a value that is not
    finite or beyond 1e30 Jy. Their visibility and weight are 0 and their flag is set. With None, values and weights are those
    stored, and `flag` is FLAG or outside the limits.

    For an image as in FITS, x to the west and y to the north, call `wgridder` with `flip_v=True` and transpose the result.

    Raises
    ------
    TypeError, ValueError : invalid arguments
    msimage.Error : the set does not exist or is damaged, or nothing is selected; or a prediction left the column incomplete, is
        writing it, or has written it since the set was opened. The message names set, column and row
    MemoryError : not enough host memory
    ImportError : this msimage was built without casacore

    Notes
    -----
    Sets are opened for reading only and never changed. casacore reads one table at a time in a process: readers in several
    threads are safe, and wait for each other. A damaged set may crash casacore, and with it the process. So read untrusted sets
    in a separate process (`multiprocessing`), as the program msimage does.
    """
    if not isinstance(paths, (str, bytes, os.PathLike, Sequence)):
        raise TypeError(f"paths: must be the name of a Measurement Set or a list of them, not {type(paths).__name__}")
    several = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)
    if not several:
        raise ValueError("paths: no Measurement Set was given")
    if stokes_weight not in ("smaller", "mean"):
        raise ValueError(f"stokes_weight {stokes_weight!r}: must be smaller or mean")
    given = locals()
    text = _Text()
    fields = [] if field == "all" else _numbers(field, "field")
    windows, pols = _numbers(spws, "spws"), _pols(pol)
    (channel_begin, channel_end), (interval_begin, interval_end) = _pair(channel_range, "channel_range"), _pair(
        interval, "interval")
    (min_uv, max_uv), (min_m, max_m) = _limits(minuv_l, maxuv_l, "uv_l"), _limits(minuvw_m, maxuvw_m, "uvw_m")
    c_paths = [text(path, "paths") for path in several]
    members = {name: text(given[name], name) for name in _EXPRESSIONS + ("data_column",)}
    lib = _reader()
    call = Calls(lib.msimage_read_error)
    spec = ffi.new("msimage_read_spec *", {
        "all_fields": field == "all", "n_field": len(fields), "field": text.numbers(fields), "n_spw": len(windows),
        "spw": text.numbers(windows), "channel_begin": channel_begin, "channel_end": channel_end,
        "interval_begin": interval_begin, "interval_end": interval_end, "min_uv_lambda": min_uv, "max_uv_lambda": max_uv,
        "min_uvw_m": min_m, "max_uvw_m": max_m, "n_pol": len(pols), "pol": text.numbers(pols),
        "weight_is_mean": stokes_weight == "mean", "interrupt": CALLBACKS.interrupt, **members})
    out = ffi.new("msimage_read **")
    call(lib.msimage_read_open, out, ffi.new("char *[]", c_paths), len(c_paths), spec)
    return Blocks(lib, call, out[0], [os.fsdecode(path) for path in several])
