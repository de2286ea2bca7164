# SPDX-License-Identifier: GPL-3.0-or-later
"""tutorial_test.py TUTORIAL: what the tutorial's blocks of Python do is what it says."""
import os
import re
import struct
import sys
import tempfile

try:
    import cffi  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        blocks = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
    assert len(blocks) == 3
    names = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for block in blocks:
            exec(compile(block, sys.argv[1], "exec"), names)  # noqa: S102
        for name in ("dirty.png", "residual.png"):
            with open(name, "rb") as f:
                data = f.read()
            assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (256, 256), name
        os.chdir("/")
    model, dirty = names["model"], names["dirty"]
    # A source's flux is divided by n when it is imaged and predicted: 1 here to 1e-5.
    assert abs(dirty[100, 140] - 1) < 0.3 and np.unravel_index(dirty.argmax(), dirty.shape) == (100, 140)
    assert abs(model[98:103, 138:143].sum() - 1) < 0.01 and abs(model[158:163, 88:93].sum() - 0.5) < 0.01
    assert names["stop"] == "threshold" and np.abs(names["residual"]).max() < 2e-3


if __name__ == "__main__":
    main()
