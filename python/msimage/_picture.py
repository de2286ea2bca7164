# SPDX-License-Identifier: GPL-3.0-or-later
"""Pictures of images, for a first look."""
from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np


def picture(path: str, image: Any, low: float | None = None, high: float | None = None) -> None:
    """Write an image [nx, ny] as a PNG of greys, y upwards, from `low` (black) to `high` (white), or all."""
    image = np.asarray(image, "f8")
    low = float(np.nanmin(image)) if low is None else low
    high = float(np.nanmax(image)) if high is None else high
    grey = np.nan_to_num((image.T[::-1] - low) / ((high - low) or 1)).clip(0, 1)
    rows = (255 * grey + 0.5).astype(np.uint8)
    height, width = rows.shape
    # Each row begins with its filter type: 0, none.
    data = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", data) + chunk(b"IEND", b""))
