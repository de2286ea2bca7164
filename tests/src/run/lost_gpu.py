#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""lost_gpu.py MSIMAGE MSIMAGE_MAKEMS LOST_GPU_LIBRARY: if one of the GPUs of a run is lost during the run, the run stops with
one line, exit 5 and no files, for all ways of sharing. A single GPU takes the parts of two."""
import os
import sys

from program_suite import ImagingSuite, main

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-spw", "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy"]
# Options of runs, by the work that their GPUs share.
RUNS = {"output channels": ["-channels-out", 4],
        "images": ["-pol", "XX,YY"],
        "samples": ["-strategy", "subgrid", "-accuracy", "1e-3"],
        "cycles": ["-niter", 100, "-mgain", 0.8, "-threshold", "1mJy"]}
MOMENTS = 6
LIBRARY = os.path.abspath(sys.argv.pop(3))


class LostGpu(ImagingSuite):
    def words(self, words):
        return ["-backend", "cuda", "-gpus", self.gpus, "-name", "image", "-size", 512, 512, "-scale", "2asec", *words,
                self.made("set.ms", *SET)]

    def choose_gpus(self):
        """Two GPUs, or one that takes the parts of two."""
        for self.gpus in ("0,1", "0,0"):
            done = self.launch("-quiet", "-dry-run", *self.words([]))
            if done.returncode == 0:
                return
        print("skipped:", done.stderr)
        sys.exit(77)

    def n_call(self, what, words):
        """How often an undisturbed run waits for a GPU."""
        count = self.path("count")
        done = self.launch("-quiet", *self.words(words), env=watched(LOST_GPU_COUNT=count))
        self.must(done.returncode == 0, "%s by GPUs %s: exit %s %s" % (what, self.gpus, done.returncode, done.stderr))
        for name in os.listdir(self.out):
            os.remove(os.path.join(self.out, name))
        with open(count) as told:
            return int(told.read())


def watched(**variables):
    return {**os.environ, "LD_PRELOAD": LIBRARY, **variables}


def check_losses(s):
    """A GPU is lost at moments between the first and the last call that waits for one."""
    s.choose_gpus()
    for what, words in RUNS.items():
        n_call = s.n_call(what, words)
        for k in range(MOMENTS):
            at = 1 + (n_call - 1) * k // MOMENTS
            s.refused("%s: lost in call %d of %d" % (what, at, n_call), 5, "GPU|CUDA", *s.words(words),
                      env=watched(LOST_GPU_AT=str(at)))


main(LostGpu, globals())
