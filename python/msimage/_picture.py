# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of images, for a first look."""
from __future__ import annotations

import os
import struct
import zlib
from typing import Optional, Union

import numpy as np

from ._arrays import ArrayLike, real_argument


class Picture:
    """An image [nx, ny] as a grey PNG, with y upwards. A notebook shows it as the value of a cell.

    Parameters
    ----------
    image : real [nx, ny]; pixels that are not finite are black
    low, high : values of black and white; None: the least and the greatest of the image
    """

    def __init__(self, image: ArrayLike, low: Optional[float] = None, high: Optional[float] = None):
        values = np.asarray(image)
        if values.ndim != 2 or values.dtype.kind not in "biuf" or not values.size:
            raise TypeError(f"image: must be real [nx, ny], not {values.dtype} {list(values.shape)}")
        values = values.astype("f8")
        finite = values[np.isfinite(values)]
        least, most = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
        self.low = least if low is None else real_argument(low, "low")
        self.high = most if high is None else real_argument(high, "high")
        grey = np.nan_to_num((values.T[::-1] - self.low) / ((self.high - self.low) or 1)).clip(0, 1)
        self._rows = (255 * grey + 0.5).astype(np.uint8)

    def __repr__(self) -> str:
        height, width = self._rows.shape
        return f"<msimage.Picture of {width} x {height} pixels, {self.low:.4g} (black) to {self.high:.4g} (white)>"

    def _repr_png_(self) -> bytes:
        height, width = self._rows.shape
        # Each row begins with its filter type: 0, none.
        data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in self._rows))

        def chunk(kind: bytes, content: bytes) -> bytes:
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", data) + chunk(b"IEND", b""))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write the PNG to a file."""
        with open(path, "wb") as f:
            f.write(self._repr_png_())


def picture(path: Union[str, "os.PathLike[str]"], image: ArrayLike, low: Optional[float] = None,
            high: Optional[float] = None) -> Picture:
    """Write an image [nx, ny] as a PNG, and return its `Picture`."""
    made = Picture(image, low, high)
    made.save(path)
    return made
