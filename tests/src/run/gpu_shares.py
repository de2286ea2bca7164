#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""gpu_shares.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: several GPUs give the same as one, for all ways of sharing: images, cleaned
images, predictions. One GPU that is named several times takes the parts of several; if there are several, they are tested
too. It needs only numpy, so that it runs on a bare GPU host."""
import os
import re
import sys

import numpy as np

from program_suite import ImagingSuite, fresh_copy, main

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-spw", "882.75MHz", "53.5MHz", "16", "-random-sources", "20", "7", "15amin", "-noise", "0.05Jy", "-flags", "0.05"]
SIZE = ["-size", 768, 720, "-scale", "2asec"]
ACCURACY = 1e-5

# An image is written in single precision, rounded once; a mean of 16 images is summed in single precision.
FLOAT_FLOOR = 2.0**-20

# Options of runs, by the work that their GPUs share.
IMAGES = {"output channels": ["-channels-out", 6],
          "output channels of four planes": ["-channels-out", 3, "-pol", "IQUV", "-weight", "briggs", 0],
          "planes": ["-pol", "IQUV", "-make-psf"],
          "samples by w-towers": ["-strategy", "subgrid"],
          "samples by w-planes": ["-strategy", "planes"],
          "samples, in double precision": ["-strategy", "subgrid", "-precision", "fp64"],
          "many channels, several on each": ["-channels-out", 16, "-pol", "I,V"]}
THRESHOLD_JY = 0.02
CYCLES = ["-mgain", 0.8, "-threshold", "%gJy" % THRESHOLD_JY, "-no-update-model-required"]
CLEANED = {"cycles of an image": [],
           "cycles of joined channels": ["-channels-out", 4, "-join-channels"],
           "cycles of channels": ["-channels-out", 3],
           "cycles of planes": ["-pol", "IQ", "-join-polarizations"]}
# Cards that describe the run, not the image.
OF_THE_RUN = re.compile("DATE |HISTORY|COMMENT|CHECKSUM|DATASUM|ORIGIN")


def read_fits(path):
    """Returns the first image of a file, in double precision, and its cards without those of the run."""
    with open(path, "rb") as f:
        content = f.read()
    cards, at = [], 0
    while not cards or not cards[-1].startswith("END"):
        cards.append(content[at:at + 80].decode("ascii"))
        at += 80
    value = {c[:8].strip(): c[10:].split("/")[0].strip() for c in cards if c[8:10] == "= "}
    shape = [int(value["NAXIS%d" % (i + 1)]) for i in range(int(value["NAXIS"]))]
    start = (at + 2879) // 2880 * 2880
    pixels = np.frombuffer(content, {"-32": ">f4", "-64": ">f8"}[value["BITPIX"]], int(np.prod(shape)), start)
    return pixels.astype("f8"), {k: v for k, v in value.items() if not OF_THE_RUN.match(k + " ")}


def apart(a, b):
    """The relative difference of two lists of numbers, with NaN at the same places."""
    if a.shape != b.shape or not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    return np.linalg.norm(np.nan_to_num(a - b)) / max(np.linalg.norm(np.nan_to_num(a)), 1e-30)


def same_cards(a, b):
    """Returns the cards that differ. Numbers, such as those of beams and weights, may differ as much as the images."""
    def close(x, y):
        try:
            return abs(float(x) - float(y)) <= 1e-3 * abs(float(x)) + 1e-6
        except (TypeError, ValueError):
            return x == y
    return sorted(k for k in a.keys() | b.keys() if not close(a.get(k), b.get(k)))


class GpuShares(ImagingSuite):
    def __init__(self, *given):
        super().__init__(*given)
        self.ms = self.made("set.ms", *SET)
        self.teams = self.choose_teams()

    def answers(self, gpus):
        done = self.launch("-quiet", "-dry-run", "-backend", "cuda", "-gpus", gpus, *SIZE, self.ms)
        if done.returncode not in (0, 5):
            sys.exit("-gpus %s: exit %s: %s" % (gpus, done.returncode, done.stderr))
        return done.returncode == 0

    def choose_teams(self):
        """Lists of GPUs to compare with the first one alone: that one several times, and all GPUs."""
        if not self.answers("one"):
            print("skipped: no GPU")
            sys.exit(77)
        several = [",".join("%d" % i for i in range(n)) for n in (2, 4, 8)]
        return ["0,0", "0,0,0,0"] + [gpus for gpus in several if self.answers(gpus)]

    def run(self, gpus, name, *words):
        words = ["-backend", "cuda", "-gpus", gpus, "-accuracy", ACCURACY, "-name", name, *words]
        done = self.launch("-quiet", *([] if "-predict" in words else ["-overwrite"]), *words)
        if done.returncode:
            self.complain("%s by GPUs %s: exit %s %s" % (name, gpus, done.returncode, done.stderr))
        return done.returncode == 0

    def files(self, name):
        """Returns the files with a prefix, by the rest of their names."""
        return {f[len(name):]: os.path.join(self.out, f) for f in sorted(os.listdir(self.out))
                if f.startswith(name + "-") and f.endswith(".fits")}

    def compare(self, title, one, other, judge):
        """Check that the files of two runs are the same. Given: judge  returns the difference of their pixels"""
        a, b, worst = self.files(one), self.files(other), 0
        if not a or a.keys() != b.keys():
            return self.complain("%s: %s instead of %s" % (title, sorted(b), sorted(a)))
        for kind in a:
            (pixels, cards), (others, other_cards) = read_fits(a[kind]), read_fits(b[kind])
            if same_cards(cards, other_cards):
                self.complain("%s%s: cards differ: %s" % (title, kind, same_cards(cards, other_cards)))
            worst = max(worst, judge(kind, pixels, others))
        return self.must(worst <= 1, "%-70s %4.2f of what may be, %d files" % (title, worst, len(a)))

    def forget(self):
        for name in os.listdir(self.out):
            os.remove(os.path.join(self.out, name))


def check_images(s):
    """Each image is within its accuracy of the truth, so two images differ by at most twice that; another run on the same
    GPUs differs only by rounding, because atomic additions have no fixed order."""
    def judge(_, a, b):
        return apart(a, b) / (2 * ACCURACY + FLOAT_FLOOR)

    def again(_, a, b):
        return apart(a, b) / (8 * FLOAT_FLOOR)
    for what, words in IMAGES.items():
        if not s.run("one", "one", *SIZE, *words, s.ms):
            continue
        for gpus in s.teams:
            if s.run(gpus, "many", *SIZE, *words, s.ms) and s.run(gpus, "again", *SIZE, *words, s.ms):
                s.compare("%s, GPUs %s" % (what, gpus), "one", "many", judge)
                s.compare("%s, GPUs %s, again" % (what, gpus), "many", "again", again)
        s.forget()


def check_cleaning(s):
    """If two pixels are almost equal, their order can change, so cleaned images may differ by the residual, below the
    threshold; dirty images and PSFs may not."""
    def judge(kind, a, b):
        if "-dirty" in kind or "-psf" in kind:
            return apart(a, b) / (2 * ACCURACY + FLOAT_FLOOR)
        if "-model" in kind:
            return abs(np.nansum(a) - np.nansum(b)) / max(THRESHOLD_JY, 1e-2 * abs(np.nansum(a)))
        return np.inf if a.shape != b.shape else np.nanmax(abs(a - b)) / THRESHOLD_JY
    for what, words in CLEANED.items():
        words = [*SIZE, "-niter", 2000, *CYCLES, *words]
        if not s.run("one", "one", *words, s.ms):
            continue
        for gpus in s.teams:
            if s.run(gpus, "many", *words, s.ms):
                s.compare("%s, GPUs %s" % (what, gpus), "one", "many", judge)
        s.forget()


def predicted(s, gpus, *words):
    """Returns the numbers of MODEL_DATA from the file of its storage manager, which the prediction makes."""
    path = fresh_copy(s.ms, s.path("predicted.ms"))
    if not s.run(gpus, "sky", "-predict", *words, path):
        return None
    new = [os.path.join(path, f) for f in os.listdir(path) if not os.path.exists(os.path.join(s.ms, f))]
    largest = max(new, key=os.path.getsize)
    numbers = [np.fromfile(largest, order) for order in ("<f4", ">f4")]
    return min(numbers, key=lambda v: np.nan_to_num(np.abs(v), nan=np.inf).max())


def check_predictions(s):
    """A prediction has no atomic additions: on the same GPUs it is the same to the bit."""
    if not s.run("one", "sky", *SIZE, "-niter", 500, *CYCLES, s.ms):
        return
    for words in ([], ["-strategy", "subgrid"], ["-strategy", "planes", "-precision", "fp64"]):
        one = predicted(s, "one", *words)
        if one is None:
            continue
        s.must(np.isfinite(one).all() and np.abs(one).max() > 0.1, "predicted: up to %.3f Jy" % np.abs(one).max())
        for gpus in s.teams:
            many, again = (predicted(s, gpus, *words) for _ in range(2))
            title = "predicted %s by GPUs %s" % (" ".join(words), gpus)
            if many is None or again is None:
                continue
            error = apart(one, many)
            s.must(error <= 2 * ACCURACY, "%-70s %.1e apart" % (title, error))
            s.must(np.array_equal(many, again), "%-70s the same bits again" % title)
    s.forget()


main(GpuShares, globals())
