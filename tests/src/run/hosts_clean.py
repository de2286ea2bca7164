#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""hosts_clean.py MSIMAGE MSIMAGE_MAKEMS: images cleaned by several ranks equal those of one rank to the accuracy. They
are the same to the last bit if the run is repeated or continued from a checkpoint. If a rank fails or is killed in a
major cycle, all ranks end."""
import glob
import os
import signal

import numpy as np
from astropy.io import fits
from casacore.tables import table

import mpi_job
from image_oracle import FITS_FLOOR, load
from predict_oracle import errors
from program_suite import Suite, fresh_copy, main, run

# About six blocks; the other set has one.
SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-integration", "8s", "-weight-spectrum", "none", "-noise",
       "0.5Jy", "-spw", "882.75MHz", "53.5MHz", "8", "-source", "60.02deg", "-45.03deg", "1Jy", "0.3Jy", "-0.2Jy", "0.1Jy",
       "-source", "59.99deg", "-44.98deg", "0.5Jy"]

ACCURACY = 1e-8
# A residual has the errors of both directions, a cleaned image those of all its residuals, each of which is a part of
# the previous one. Both runs have these errors, and files are rounded.
TOLERANCE = 2 * (2 * ACCURACY + FITS_FLOOR)
CLEAN = ["-backend", "cpu", "-size", 128, 128, "-scale", "2.5asec", "-niter", 300, "-auto-threshold", 3, "-mgain", 0.7]
EXACT = ["-accuracy", ACCURACY]
CARDS = ("WSCNITER", "WSCMINOR", "WSCMAJOR", "WSCNVIS", "MSISTOP")


class Cleaning(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.mp = mpi_job.program(msimage)
        os.chdir(folder)
        self.large = self.made("large.ms", *SET, "-duration", "96s")
        self.small = self.made("small.ms", *SET, "-duration", "8s")

    def by_one(self, *options):
        run(self.msimage, "-quiet", *CLEAN, "-j", 1, "-name", "one", *options)
        return taken("one")

    def by_ranks(self, n, *options):
        done = mpi_job.run(n, self.mp, "-quiet", *CLEAN, "-j", 1, "-name", "several", *options)
        if done.returncode or done.stderr:
            self.complain("%d ranks, %s: exit %s, %s" % (n, options, done.returncode, done.stderr))
        return taken("several")

    def compare(self, title, one, several):
        """Errors are relative to the dirty images; the rounding is that of the images themselves."""
        worst, cards = np.inf, []
        if one and set(one) == set(several):
            differences = [difference(f, one, several) for f in one]
            worst = max(differences)
            cards = [(f, c) for f in one for c in CARDS if one[f][1].get(c) != several[f][1].get(c)]
        self.must(worst <= TOLERANCE and not cards, "%s: %d images, %.1e of %.1e; cards that differ: %s" %
                  (title, len(several), worst, TOLERANCE, cards))

    def same(self, title, a, b):
        good = a and set(a) == set(b) and all(np.array_equal(a[f][0], b[f][0], equal_nan=True) for f in a)
        self.must(good, "%s: %d images, the same to the last bit" % (title, len(b)))


def taken(name):
    """The images of a run, which leaves no other file except its record."""
    images = {f[len(name) + 1:]: load(f) for f in sorted(glob.glob(name + "-*.fits"))}
    for f in glob.glob(name + "*"):
        os.remove(f)
    return images


def difference(f, one, several):
    """The L2 difference of an image relative to the larger of its norm and that of the dirty image."""
    a, b = np.asarray(one[f][0], float), np.asarray(several[f][0], float)
    if (np.isnan(a) != np.isnan(b)).any():
        return np.inf
    dirty = "-".join([*f.split("-")[:-1], "dirty.fits"])
    sizes = [np.nansum(one[k][0].astype(float)**2) for k in (f, dirty) if k in one and not f.startswith("model")]
    size = max(sizes, default=np.nansum(a**2))
    return float(np.sqrt(np.nansum((a - b)**2) / size)) if size > 0 else float(np.nansum((a - b)**2))


def column(path):
    with table(path, ack=False) as t:
        return t.getcol("MODEL_DATA")


def check_values(s):
    """Channels and polarisations joined, with scales, masks and weights; then separately, in intervals."""
    mask = s.by_one("-accuracy", 1e-3, s.small)["dirty.fits"]
    fits.writeto("mask.fits", (mask[0] > 0.1 * mask[0].max()).astype(np.float32)[None, None], mask[1])
    options = [*EXACT, "-channels-out", 2, "-join-channels", "-pol", "I,Q", "-join-polarizations", "-multiscale",
               "-multiscale-scales", "0,6", "-fits-mask", "mask.fits", "-weight", "briggs", 0, "-save-weights"]
    sets = [fresh_copy(s.large, "to-one.ms"), fresh_copy(s.large, "to-several.ms")]
    s.compare("3 ranks, joined, scales, mask", s.by_one(*options, sets[0]), s.by_ranks(3, *options, sets[1]))
    worst = errors(column(sets[1]), column(sets[0]))[0]
    s.must(worst <= TOLERANCE, "the model in the set: %.1e of %.1e" % (worst, TOLERANCE))
    options = [*EXACT, "-channels-out", 2, "-intervals-out", 2, "-pol", "I,V", "-auto-mask", 5, "-save-first-residual",
               "-no-update-model-required", s.large]
    s.compare("2 ranks, intervals, channels", s.by_one(*options), s.by_ranks(2, *options))


def check_little(s):
    """Ranks without samples; two sets."""
    options = [*EXACT, "-no-update-model-required", "-weight", "uniform"]
    s.compare("4 ranks, a set of one block", s.by_one(*options, s.small), s.by_ranks(4, *options, s.small))
    s.compare("2 ranks, two sets", s.by_one(*options, s.small, s.large), s.by_ranks(2, *options, s.small, s.large))


def check_repeated(s):
    options = ["-precision", "fp32", "-accuracy", 1e-5, "-no-update-model-required", "-channels-out", 2, "-join-channels", s.large]
    s.same("3 ranks, twice", s.by_ranks(3, *options), s.by_ranks(3, *options))


def check_killed(s):
    """The checkpoint of a killed run can be used with any number of ranks; with the same number, images are the same to
    the last bit."""
    options = [*CLEAN, *EXACT, "-j", 1, "-checkpoint", 0, "-no-update-model-required", "-name", "several"]
    whole = s.by_ranks(3, *options, s.large)
    for title, victim, number, last, n in (("rank 2 killed", 2, signal.SIGKILL, "about", 3),
                                           ("rank 0 killed", 0, signal.SIGKILL, None, 2),
                                           ("mpirun told to stop", None, signal.SIGTERM, None, 1)):
        job = mpi_job.Job(3, s.mp, *options, s.large)
        there, code = job.end_at("cycle 2:", victim, number, last)
        left, codes = sorted(glob.glob("several*")), mpi_job.stopped_codes(number)
        s.must(there and code in codes and len(job.errors()) <= 1 and left == ["several.clean"],
               "%s in a major cycle: exit %s, %s, left %s" % (title, code, job.errors(), left))
        done = mpi_job.run(n, s.mp, *options, "-resume", s.large)
        s.must(done.returncode == 0 and "resuming from the checkpoint" in done.stderr and "\ncycle 1:" not in done.stderr,
               "%d ranks go on from the checkpoint: exit %s" % (n, done.returncode))
        resumed = taken("several")
        s.same("%d ranks" % n, whole, resumed) if n == 3 else s.compare("%d ranks" % n, whole, resumed)
        for f in glob.glob(".several*"):
            os.remove(f)


def check_refused(s):
    """Rank 0 fails between two requests: its checkpoint is larger than all earlier files and MPI's shared memory."""
    script = 'if [ %s = 0 ]; then ulimit -f 12288; fi; exec "$@"' % mpi_job.RANK
    options = ["-quiet", "-j", 1, "-no-update-model-required", "-name", "several", "-size", 1024, 1024, "-precision", "fp64",
               "-accuracy", 1e-5, "-checkpoint", 0, s.large]
    s.tried += 1
    s.told("a full disk for the checkpoint", mpi_job.run(2, "sh", "-c", script, "sh", s.mp, *CLEAN, *options), 4,
           "several.clean: .*File too large")
    s.must(not glob.glob("several*"), "a full disk for the checkpoint: nothing is left")


if __name__ == "__main__":
    main(Cleaning, globals())
