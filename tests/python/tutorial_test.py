# SPDX-License-Identifier: GPL-3.0-or-later
"""tutorial_test.py TUTORIAL [MSIMAGE_MAKEMS]: the tutorial's blocks do what it says; without the program, those that read no set."""
import os
import re
import struct
import subprocess
import sys
import tempfile

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy")
import numpy as np


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        blocks = re.findall(r"^```(sh|python)\n(.*?)^```", f.read(), re.S | re.M)
    assert [kind for kind, _ in blocks] == ["python"] * 3 + ["sh", "python"]
    reads = len(sys.argv) > 2
    names = {}
    if reads:
        os.environ["PATH"] = os.path.dirname(os.path.abspath(sys.argv[2])) + ":" + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for kind, block in blocks if reads else blocks[:3]:
            if kind == "sh":
                subprocess.run(["sh", "-e", "-c", block], check=True)
            else:
                exec(compile(block, sys.argv[1], "exec"), names)  # noqa: S102
        for name in ("dirty.png", "residual.png") + (("sim.png",) if reads else ()):
            with open(name, "rb") as f:
                data = f.read()
            assert data[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">II", data[16:24]) == (256, 256), name
        os.chdir("/")
    model, dirty = names["model"], names["dirty"]
    # A source's flux is divided by n when it is imaged and predicted: 1 here to 1e-5.
    assert abs(dirty[100, 140] - 1) < 0.3 and np.unravel_index(dirty.argmax(), dirty.shape) == (100, 140)
    assert abs(model[98:103, 138:143].sum() - 1) < 0.01 and abs(model[158:163, 88:93].sum() - 0.5) < 0.01
    if reads:
        assert (names["x"], names["y"]) == (128, 128) and abs(names["image"][128, 128] - 2) < 0.2
        near = names["image"][108:118, 150:160]
        assert 0.8 < near.max() < 1.2, near.max()
    assert names["stop"] == "threshold" and np.abs(names["residual"]).max() < 2e-3


if __name__ == "__main__":
    main()
