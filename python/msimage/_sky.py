# SPDX-License-Identifier: GPL-3.0-or-later
"""Fits the beam of a point spread function, and writes FITS files."""
from __future__ import annotations

import os
import tempfile
from typing import NamedTuple, Optional, Union

import numpy as np

from ._arrays import ArrayLike, real_argument
from ._library import Calls, ffi, lib

# Bytes of a FITS block and of a card.
_BLOCK, _CARD = 2880, 80


class Beam(NamedTuple):
    """An elliptical Gaussian: full widths at half maximum, and the angle of the major axis from y through -x, in radians.

    If y increases to the north and x to the west, as in images of `read_ms` with `flip_v=True`, the angle is the position angle,
    from north through east.
    """

    major: float
    minor: float
    pa: float


def _image(image: ArrayLike, name: str) -> np.ndarray:
    """Return a real image [nx, ny] in the order of FITS: rows of constant y."""
    array = np.asarray(image)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or not array.size:
        raise TypeError(f"{name}: must be real [nx, ny], not {array.dtype} {list(array.shape)}")
    return np.ascontiguousarray(array.T)


def fit_beam(psf: ArrayLike, *, pixsize_x: float, pixsize_y: float) -> Beam:
    """Fit a Gaussian to the main lobe of a point spread function, as the program msimage does.

    Parameters
    ----------
    psf : real [nx, ny] with a positive peak at (nx/2, ny/2), such as plan.psf()
    pixsize_x, pixsize_y : size of a pixel in radians

    Raises
    ------
    msimage.Error : there is no peak in the middle, or the lobe does not fall off in every direction
    """
    rows = _image(psf, "psf").astype("f8")
    beam = ffi.new("msimage_beam *")
    Calls()(lib.msimage_beam_fit, beam, ffi.from_buffer("char[]", rows), rows.shape[1], rows.shape[0],
            real_argument(pixsize_x, "pixsize_x"), real_argument(pixsize_y, "pixsize_y"), lib.MSIMAGE_FP64)
    return Beam(beam.major_rad, beam.minor_rad, beam.pa_rad)


def _card(key: str, value: Union[str, bool, int, float], comment: str = "") -> bytes:
    if isinstance(value, bool):
        text = f"{'T' if value else 'F':>20}"
    elif isinstance(value, str):
        text = f"'{value.replace(chr(39), 2 * chr(39)):<8}'"
    elif isinstance(value, int):
        text = f"{value:>20}"
    else:
        text = f"{repr(float(value)).upper():>20}"
    line = f"{key:<8}= {text}" + (f" / {comment}" if comment else "")
    if len(text) > 70 or not line.isascii() or not line.isprintable():
        raise ValueError(f"{key}: {value!r} does not fit in a FITS header: at most 68 ASCII characters")
    return line[:_CARD].ljust(_CARD).encode("ascii")


def write_fits(path: Union[str, "os.PathLike[str]"], image: ArrayLike, *, pixsize_x: float, pixsize_y: float, ra: float, dec: float,
               freq: Optional[float] = None, bandwidth: Optional[float] = None, beam: Optional[Beam] = None,
               unit: str = "Jy/beam", pol: str = "I", object: str = "", overwrite: bool = False) -> None:
    """Write an image as FITS, in single precision, with the axes and cards of the program msimage's images.

    Parameters
    ----------
    image : real [nx, ny]; x increases to the west and y to the north, as in images of `read_ms` with `flip_v=True`
    pixsize_x, pixsize_y : size of a pixel in radians
    ra, dec : direction of pixel (nx/2, ny/2) in radians, J2000, such as phase_centre of a block
    freq, bandwidth : frequency and bandwidth of the image, Hz
    beam : result of `fit_beam`; None: no beam in the header
    unit : unit of the pixels
    pol : Stokes parameter or correlation
    object : the name of the source
    overwrite : whether an existing file is replaced

    Notes
    -----
    The file has a temporary name until it is complete. The header is made here because wheels have no cfitsio; a test compares its
    cards with those of the images of msimage.
    """
    codes = {name: 1 + k for k, name in enumerate("IQUV")}
    codes.update({name: -1 - k for k, name in enumerate(("RR", "LL", "RL", "LR", "XX", "YY", "XY", "YX"))})
    if pol not in codes:
        raise ValueError(f"pol {pol!r}: must be one of {' '.join(codes)}")
    rows = _image(image, "image")
    degree = 180 / np.pi
    cards = [_card("SIMPLE", True), _card("BITPIX", -32), _card("NAXIS", 4), _card("NAXIS1", rows.shape[1]),
             _card("NAXIS2", rows.shape[0]), _card("NAXIS3", 1), _card("NAXIS4", 1), _card("BUNIT", unit), _card("EQUINOX", 2000.0),
             _card("RADESYS", "FK5")]
    if object:
        cards.append(_card("OBJECT", object))
    if beam is not None and np.isfinite(beam[0]):
        cards += [_card(key, float(value) * degree) for key, value in zip(("BMAJ", "BMIN", "BPA"), beam)]
    axes = (("RA---SIN", rows.shape[1] // 2 + 1, -real_argument(pixsize_x, "pixsize_x") * degree, real_argument(ra, "ra") * degree, "deg"),
            ("DEC--SIN", rows.shape[0] // 2 + 1, real_argument(pixsize_y, "pixsize_y") * degree, real_argument(dec, "dec") * degree, "deg"),
            ("FREQ", 1, 1.0 if bandwidth is None else real_argument(bandwidth, "bandwidth"),
             0.0 if freq is None else real_argument(freq, "freq"), "Hz"),
            ("STOKES", 1, 1.0, float(codes[pol]), ""))
    for k, (kind, pixel, step, value, axis_unit) in enumerate(axes, 1):
        cards += [_card(f"CTYPE{k}", kind), _card(f"CRPIX{k}", float(pixel)), _card(f"CDELT{k}", step), _card(f"CRVAL{k}", value),
                  _card(f"CUNIT{k}", axis_unit)]
    cards += [_card("ORIGIN", "msimage"), b"END".ljust(_CARD)]
    header, data = b"".join(cards), rows.astype(">f4").tobytes()
    name = os.fspath(path)
    if os.path.exists(name) and not overwrite:
        raise FileExistsError(f"{name}: already exists; write_fits(.., overwrite=True) replaces it")
    handle, temporary = tempfile.mkstemp(prefix=".msimage-", suffix=".tmp", dir=os.path.dirname(name) or ".")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(header.ljust(-(-len(header) // _BLOCK) * _BLOCK))
            f.write(data.ljust(-(-len(data) // _BLOCK) * _BLOCK, b"\0"))
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, name)
    except BaseException:
        os.unlink(temporary)
        raise
