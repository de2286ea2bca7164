#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_products.py MSIMAGE MSIMAGE_MAKEMS: WSClean reads our lists and models of components correctly and restores them to the
same images; if fewer channels are cleaned than imaged, it finds the same spectra."""
import glob
import re

import numpy as np

from image_oracle import load
from program_suite import VLA, Suite, main, run, skip_without

skip_without("wsclean")
SIZE, EDGE = 256, 48
BAND = ["-telescope", "vla", "-duration", "5min", "-integration", "30s", "-spw", "1.0GHz", "50MHz", "16",
        "-reference-frequency", "1.375GHz", "-noise", "0.2Jy", "-source", "%.15gdeg" % VLA[0], "%.15gdeg" % VLA[1], "2Jy", "-0.7"]
COMMON = ["-size", SIZE, SIZE, "-scale", "4asec", "-no-update-model-required"]


class Peer(Suite):
    def made_images(self, *options):
        name = self.path("own%d" % next(self.number))
        run(self.msimage, "-quiet", "-j", 2, *COMMON, *options, "-name", name, self.made_at("steep.ms", VLA, BAND))
        return name

    def same(self, title, one, other, limit):
        """Check that the images are the same except at the edges, where the convolution of WSClean wraps around."""
        a, b = (load(n)[0][EDGE:-EDGE, EDGE:-EDGE] for n in (one, other))
        off = np.abs(a - b).max() / np.abs(b).max()
        self.must(off < limit, "%s: off by %.1e of the peak" % (title, off))


def check_restored(s):
    """Both programs make the same image of a model and of a list of points and gaussians."""
    # Of a point, wide scales find something by a large bias.
    name = s.made_images("-niter", 3000, "-auto-threshold", 3, "-multiscale", "-multiscale-scales", "0,24,48",
                         "-multiscale-scale-bias", 0.25, "-beam-size", 20, "-taper-gaussian", "40asec", "-save-source-list")
    with open(name + "-sources.txt", encoding="ascii") as f:
        s.must(set(re.findall("POINT|GAUSSIAN", f.read())) == {"POINT", "GAUSSIAN"}, "points and gaussians")
    theirs, ours = s.path("theirs.fits"), s.path("ours.fits")
    run("wsclean", "-restore", name + "-residual.fits", name + "-model.fits", theirs)
    s.same("a model", theirs, name + "-image.fits", 2e-6)
    run("wsclean", "-beam-shape", "50", "30", "20", "-restore", name + "-residual.fits", name + "-model.fits", theirs)
    run(s.msimage, "-quiet", "-beam-shape", 50, 30, 20, "-restore", name + "-residual.fits", name + "-model.fits", ours)
    s.same("a model with another beam", theirs, ours, 2e-6)
    run("wsclean", "-restore-list", name + "-residual.fits", name + "-sources.txt", theirs)
    s.same("a list", theirs, name + "-image.fits", 5e-6)
    run(s.msimage, "-quiet", "-overwrite", "-restore-list", name + "-residual.fits", name + "-sources.txt", ours)
    # WSClean takes points to pixels' centres; the list has their places to a thousandth of a pixel, rounded.
    s.same("a list by each", theirs, ours, 1e-4)


def check_hands(s):
    """All four correlations, joined, are four images by both programs, with models of the same flux. The image of the
    cross-hands is the mean of XY and the conjugate of YX."""
    ms = s.made_at("hands.ms", VLA, ["-telescope", "vla", "-duration", "5min", "-integration", "30s", "-spw", "1.4GHz", "10MHz", "4",
                                     "-pol", "XX,XY,YX,YY", "-noise", "0.1Jy", "-source", "%.15gdeg" % VLA[0],
                                     "%.15gdeg" % (VLA[1] + 0.03), "1Jy", "0.3Jy", "0.2Jy", "-0.15Jy"])
    words = [*COMMON, "-weight", "natural", "-pol", "XX,XY,YX,YY", "-name"]
    clean = ["-join-polarizations", "-niter", 300, "-mgain", 0.8, "-threshold", 0.05]
    ours, theirs, apart = s.path("ours"), s.path("theirs"), s.path("apart")
    run(s.msimage, "-quiet", "-j", 2, *clean, *words, ours, ms)
    run(s.msimage, "-quiet", "-j", 2, "-accuracy", 1e-5, *words, apart, ms)
    run("wsclean", "-quiet", "-j", 2, "-no-small-inversion", *clean, *words, theirs, ms)
    planes = [sorted(f[len(n) + 1:-len("-model.fits")] for f in glob.glob(n + "-*-model.fits")) for n in (ours, theirs)]
    s.must(planes[0] == planes[1] == ["XX", "XY", "XYi", "YY"], "planes %s" % planes)
    for plane in planes[1]:
        one, other = (load("%s-%s-model.fits" % (n, plane))[0].sum() for n in (ours, theirs))
        s.must(abs(one - other) < 0.03, "%s: %.4f Jy, by WSClean %.4f" % (plane, one, other))
    for part, sign in (("", 1), ("i", -1)):
        mean = 0.5 * (load("%s-XY%s-dirty.fits" % (apart, part))[0] + sign * load("%s-YX%s-dirty.fits" % (apart, part))[0])
        got = load("%s-XY%s-dirty.fits" % (ours, part))[0]
        s.must(np.abs(got - mean).max() < 1e-4 * np.abs(mean).max(), "XY%s: off by %.1e" % (part, np.abs(got - mean).max()))


def check_parts(s):
    """Eight channels cleaned as three: the fluxes of each by both programs."""
    words = ["-niter", 2000, "-auto-threshold", 4, "-mgain", 0.8, "-channels-out", 8, "-join-channels",
             "-deconvolution-channels", 3, "-fit-spectral-pol", 3]
    name, theirs = s.made_images(*words), s.path("theirs")
    run("wsclean", "-quiet", "-j", 2, *COMMON, *words, "-name", theirs, s.path("steep.ms"))
    for c in range(8):
        one, other = (load("%s-%04d-model.fits" % (n, c))[0].sum() for n in (name, theirs))
        s.must(abs(one / other - 1) < 0.01, "channel %d: %.4f Jy, by WSClean %.4f" % (c, one, other))


main(Peer, globals())
