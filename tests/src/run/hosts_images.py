#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""hosts_images.py MSIMAGE MSIMAGE_MAKEMS: images of several ranks equal those of one rank to the accuracy, for all
weights and for ranks with few samples, and are the same to the last bit if the run is repeated."""
import os
import re

import numpy as np
from casacore.tables import table

import mpi_job
from image_oracle import FITS_FLOOR, load, relative_error
from program_suite import Suite, main, run

# About twenty blocks; the other set has one.
SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-integration", "8s", "-weight-spectrum", "none", "-source",
       "60.02deg", "-45.03deg", "1Jy", "0.3Jy", "-0.2Jy", "0.1Jy"]
LARGE = [*SET, "-duration", "160s", "-spw", "882.75MHz", "53.5MHz", "16"]
SMALL = [*SET, "-duration", "8s", "-spw", "882.75MHz", "53.5MHz", "8"]

ACCURACY = 1e-8
# The error of each image is at most the accuracy, plus the rounding to single precision in its file.
TOLERANCE = 2 * (ACCURACY + FITS_FLOOR)
# Cards with sums over all samples: a million terms in double precision, of weights rounded to single precision.
SUMS, SUM_TOLERANCE = ("WSCNVIS", "WSCIMGWG", "WSCVWSUM", "WSCENVIS"), 1e-7
COMMON = ["-quiet", "-overwrite", "-backend", "cpu", "-accuracy", ACCURACY, "-size", 96, 96, "-scale", "2.5asec"]


class Hosts(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.mp = mpi_job.program(msimage)
        os.chdir(folder)
        self.large, self.small = self.made("large.ms", *LARGE), self.made("small.ms", *SMALL)

    def images(self, name):
        return {f[len(name) + 1:]: load(f) for f in sorted(os.listdir(".")) if f.startswith(name + "-")}

    def by_one(self, *options):
        run(self.msimage, *COMMON, "-name", "one", *options)
        return self.taken("one")

    def by_ranks(self, n, *options):
        done = mpi_job.run(n, self.mp, *COMMON, "-j", 1, "-name", "several", *options)
        if done.returncode or done.stderr:
            self.complain("%d ranks, %s: exit %s, %s" % (n, options, done.returncode, done.stderr))
        return self.taken("several")

    def taken(self, name):
        images = self.images(name)
        for f in images:
            os.remove("%s-%s" % (name, f))
        return images

    def compare(self, title, one, several, tolerance=TOLERANCE):
        error = sums = np.inf
        if one and set(one) == set(several):
            error = max(relative_error(several[f][0], one[f][0]) for f in one)
            sums = max(abs(several[f][1][card] / one[f][1][card] - 1) for f in one for card in SUMS)
        self.must(error <= tolerance and sums <= SUM_TOLERANCE,
                  "%s: %d images, %.1e of %.1e; sums in headers %.1e" % (title, len(several), error, tolerance, sums))


def check_weights(s):
    for n, *options in ((2, "-weight", "natural"), (4, "-weight", "uniform"), (3, "-weight", "briggs", 0.3),
                        (2, "-weight", "briggs", -0.5, "-taper-gaussian", "20asec", "-make-psf")):
        options = [*options, "-save-weights", s.large]
        s.compare("%d ranks, %s" % (n, " ".join(map(str, options[:-2]))), s.by_one(*options), s.by_ranks(n, *options))


def check_planes(s):
    """Channels imaged one after the other, in several intervals and polarisations; then many at a time."""
    options = ["-pol", "IQUV", "-make-psf", "-channels-out", 2, "-intervals-out", 2, "-weight", "uniform", s.large]
    s.compare("2 ranks, intervals, channels, polarisations", s.by_one(*options), s.by_ranks(2, *options))
    options = ["-channels-out", 5, "-mf-weighting", "-weight", "briggs", 0, "-j", 2, s.large]
    s.compare("2 ranks, channels at once", s.by_one(*options), s.by_ranks(2, *options))


def check_little(s):
    """A set with fewer blocks than ranks, sets of different sizes, and a rank whose samples are all dropped."""
    s.compare("4 ranks, a set of one block", s.by_one("-weight", "uniform", s.small), s.by_ranks(4, "-weight", "uniform", s.small))
    both = table([s.large, s.small], ack=False)
    both.rename("multi.ms")
    both.close()
    options = ["-weight", "briggs", 0.5]
    s.compare("3 ranks, a multi-MS", s.by_one(*options, s.large, s.small), s.by_ranks(3, *options, "multi.ms"))
    options = ["-weight", "natural", s.small, s.large]
    s.compare("3 ranks, two sets", s.by_one(*options), s.by_ranks(3, *options))
    options = ["-weight", "briggs", 0.5, s.small]
    s.compare("1 rank", s.by_one(*options), s.by_ranks(1, *options), 0)
    options = ["-weight", "uniform", "-maxuv-l", 3000, s.small, s.large]
    s.compare("2 ranks, few samples", s.by_one(*options), s.by_ranks(2, *options))


def check_repeated(s):
    options = ["-precision", "fp32", "-accuracy", 1e-5, "-weight", "briggs", 0, "-make-psf", s.large, s.small]
    s.compare("3 ranks, twice", s.by_ranks(3, *options), s.by_ranks(3, *options), 0)


def threads_and_limit(s, n, *options):
    """The largest number of threads of a process of a job, and the memory limit in the log of its first rank, in GB."""
    command = ["env", "OMP_DISPLAY_AFFINITY=TRUE", "OMP_AFFINITY_FORMAT=threads: %N", s.mp, "-backend", "cpu", "-size", 64, 64,
               "-scale", "2.5asec", "-name", "shares", "-overwrite", *options, s.small]
    told = mpi_job.run(n, *command).stderr
    return max(map(int, re.findall("threads: ([0-9]+)", told)), default=1), float(re.search("limit ([0-9.]+) GB", told)[1])


def check_shares(s):
    """Ranks of a host share its processors and its memory, unless -j and -abs-mem give the values for each rank."""
    (threads, limit), shared = threads_and_limit(s, 1), threads_and_limit(s, 2)
    s.must(shared[0] == max(1, threads // 2) and abs(shared[1] - limit / 2) <= 0.002,
           "2 ranks: %d threads and %.3f GB each, of %d and %.3f" % (*shared, threads, limit))
    s.must(threads_and_limit(s, 2, "-j", 3, "-abs-mem", 0.5) == (3, 0.5), "2 ranks: 3 threads and 0.5 GB each, as asked")


if __name__ == "__main__":
    main(Hosts, globals())
