#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""rooms.py ROOMS [TREE]: checks that the tree keeps the rules of its rooms, and that scripts/rooms finds each violation."""
import os
import subprocess
import sys
import tempfile

ROOMS = sys.argv[1]

# Files of small trees with their includes, and the expected output: nothing, or one line with these words.
TREES = [
    ({"core/a.h": [], "kernels/gpu/b.cuh": ["core/a.h"], "kernels/wgrid/c.cu": ["kernels/gpu/b.cuh", "core/a.h"],
      "kernels/wgrid/d.h": [], "kernels/towers/e.c": ["kernels/wgrid/d.h"], "io/ms/f.h": [],
      "src/run/g.c": ["io/ms/f.h", "core/a.h"]}, None),
    ({"core/a.h": ["io/ms/b.h"], "io/ms/b.h": []}, "core/a.h:1: core may not include io/ms"),
    ({"io/ms/a.c": ["kernels/b.h"], "kernels/b.h": []}, "io/ms may not include kernels"),
    ({"kernels/store/a.c": ["io/fits/b.h"], "io/fits/b.h": []}, "kernels/store may not include io/fits"),
    ({"kernels/store/a.c": ["src/run/b.h"], "src/run/b.h": []}, "kernels/store may not include src/run"),
    ({"kernels/wgrid/a.c": ["kernels/towers/b.h"], "kernels/towers/b.h": []}, "kernels/wgrid may not include kernels/towers"),
    ({"kernels/wproj/a.c": ["kernels/wgrid/b.h"], "kernels/wgrid/b.h": []}, "kernels/wproj may not include kernels/wgrid"),
    ({"kernels/wproj/tile/a.cu": ["kernels/wproj/window/b.h"], "kernels/wproj/window/b.h": []},
     "kernels/wproj/tile may not include kernels/wproj/window"),
    ({"kernels/wgrid/a.h": ["kernels/b.h"], "kernels/b.h": []}, "kernels/wgrid may not include kernels:"),
    ({"io/casacore-c/a.h": ["io/ms/b.h"], "io/ms/b.h": []}, "io/casacore-c may not include io/ms"),
    ({"src/run/a.h": ["src/model/b.h"], "src/run/c.h": ["src/model/b.h"], "src/model/b.h": ["src/run/c.h"]},
     "src/model/b.h:1: src/model and src/run include each other"),
    ({"src/a/a.h": ["src/b/b.h"], "src/b/b.h": ["src/c/c.h"], "src/c/c.h": ["src/a/a.h"]},
     "a circle of rooms: src/a src/b src/c"),
    ({"core/a.h": [], "tests/core/a.h": []}, "core/a.h: other files have the same name: tests/core/a.h"),
]


def check(*tree):
    done = subprocess.run([sys.executable, ROOMS, "--check", *tree], capture_output=True, text=True, check=False)
    assert not done.stderr and done.returncode == (1 if done.stdout else 0), done
    return done.stdout.splitlines()


def main():
    failed = check(*sys.argv[2:])
    for files, expected in TREES:
        with tempfile.TemporaryDirectory() as tree:
            for path, included in files.items():
                os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(tree, path), "w", encoding="utf-8") as f:
                    f.writelines(f'#include "{name}"\n' for name in included)
            lines = check(tree)
            if [expected in line for line in lines] != [True] if expected else lines:
                failed.append(f"{files}: expected {expected}, found {lines}")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
