#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_clean.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: the same set cleaned by WSClean, with the same mask, gain and threshold:
what is left, the dynamic range and the model's flux; and files that each reads of the other."""
import os

import numpy as np
from astropy.io import fits

from image_oracle import ASEC, Frame, load
from program_suite import MEERKAT, Suite, fresh_copy, main, run, skip_without

skip_without("wsclean")

SIZE, CELL, NOISE = 256, 2.5, 0.15
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(MEERKAT))
POINTS = [(128, 128, 0.2), (170, 150, 0.1), (50, 200, 0.05), (40, 60, 0.02), (200, 40, 0.08), (210, 205, 0.03)]
EXTENDED = (115, 120, 25, 0.5)  # x, y, width in pixels, Jy
WORDS = ["-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-weight", "briggs", 0, "-niter", 30000, "-gain", 0.1, "-mgain",
         0.8, "-no-update-model-required"]


class Peer(Suite):
    def ms(self):
        """Points, and a gaussian in CORRECTED_DATA beside them."""
        path = self.path("field.ms")
        if os.path.exists(path):
            return path
        words = []
        for x, y, flux in POINTS:
            ra, dec = np.degrees(FRAME.sky(x, y))
            words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, "%gJy" % flux]
        self.made_at("field.ms", MEERKAT, ["-telescope", "meerkat", "-duration", "30min", "-integration", "3min", "-spw",
                                           "1.1GHz", "50MHz", "8", "-noise", "%gJy" % NOISE, *words])
        name = self.path("sky")
        run(self.msimage, "-quiet", *WORDS[:5], "-name", name, path)
        yy, xx = np.mgrid[:SIZE, :SIZE]
        x, y, width, flux = EXTENDED
        sky = np.exp(-4 * np.log(2) * ((xx - x)**2 + (yy - y)**2) / width**2)
        with fits.open(name + "-dirty.fits") as f:
            f[0].data[...] = flux * sky / sky.sum()
            f[0].header["BUNIT"] = "Jy/pixel"
            f.writeto(name + "-model.fits")
        run(self.msimage, "-quiet", "-predict", "-name", name, "-predict-op", "add", "-data-column", "DATA",
            "-output-column", "CORRECTED_DATA", path)
        return path

    def ours(self, name, *options):
        run(self.msimage, "-quiet", "-j", 2, "-overwrite", "-weight-padding", 1.2, *WORDS, *options, "-name", self.path(name),
            self.ms())
        return self.path(name)

    def theirs(self, name, *options, ms=None):
        run("wsclean", "-j", 2, "-use-wgridder", "-wgridder-accuracy", 1e-5, "-reorder", *WORDS, *options, "-name",
            self.path(name), ms or self.ms(), cwd=self.folder)
        return self.path(name)


def judge(s, title, ours, theirs, mfs="", truth_jy=None):
    """Ours is as good as WSClean's: the residual's rms, the image's dynamic range, the model's flux, which is the same or,
    where ours goes deeper, as near the truth. The restored peak goes by the beam, for which WSClean's fit may be a few
    per cent wider: its own is used here."""
    residual = [load(name + mfs + "-residual.fits")[0] for name in (ours, theirs)]
    image = [load(name + mfs + "-image.fits")[0] for name in (ours, theirs)]
    model = [load(name + mfs + "-model.fits")[0].sum() for name in (ours, theirs)]
    rms = residual[0].std() / residual[1].std()
    dynamic_range = image[0].max() / image[1].max() / rms
    off = [abs(flux - (truth_jy or model[1])) for flux in model]
    s.must(rms < 1.01 and dynamic_range > 0.99 and off[0] < off[1] + 0.01 * (truth_jy or model[1]),
           "%s: rms %.4f of WSClean's, dynamic range %.4f, model %.4g and %.4g Jy" % (title, rms, dynamic_range, *model))


def beam_words(name, mfs=""):
    header = load(name + mfs + "-image.fits")[1]
    return ["-beam-shape", *["%.9gasec" % (3600 * header[k]) for k in ("BMAJ", "BMIN")], header["BPA"]]


def check_clean(s):
    """Lists, in a mask, with local noise, and joined channels. Where noise is measured, ours measures the exact residual
    until that is at the threshold, and goes deeper: those are of points, whose flux is known."""
    threshold, points = ["-threshold", 1e-3], ["-data-column", "DATA"]
    first = s.theirs("first", *threshold)
    judge(s, "list", s.ours("list", *threshold, *beam_words(first)), first)
    mask = s.path("mask.fits")
    with fits.open(first + "-model.fits") as f:
        f[0].data[...] = 0
        for x, y, _ in POINTS:
            f[0].data[0, 0, y - 8:y + 9, x - 8:x + 9] = 1
        f.writeto(mask)
    for title, options in (
            ("mask", ["-fits-mask", mask]),
            ("local noise", ["-local-rms", *points]),
            ("a mask found by itself", ["-auto-mask", 6, *points]),
            ("joined channels", ["-channels-out", 4, "-join-channels", "-fit-spectral-pol", 2]),
            ("a power law", ["-channels-out", 4, "-join-channels", "-fit-spectral-log-pol", 2, *points])):
        mfs = "-MFS" if "-channels-out" in options else ""
        name = title.replace(" ", "-")
        theirs = s.theirs(name + "-w", *threshold, *options)
        judge(s, title, s.ours(name, *threshold, *options, *beam_words(theirs, mfs)), theirs, mfs,
              sum(flux for _, _, flux in POINTS) if "DATA" in options else None)


def check_multiscale(s):
    """Scales and their bias go by the longest baseline in both. WSClean's convolutions come in again on the other side
    unless they are padded."""
    truth = sum(flux for _, _, flux in POINTS) + EXTENDED[3]
    for title, options in (("multiscale", []), ("two scales", ["-multiscale-scales", "0,50"])):
        name, words = title.replace(" ", "-"), ["-threshold", 1e-3, "-multiscale", *options]
        theirs = s.theirs(name + "-w", *words, "-multiscale-convolution-padding", 2)
        judge(s, title, s.ours(name, *words, *beam_words(theirs)), theirs, truth_jy=truth)


def check_files(s):
    """wsclean -restore makes our image of our residual and model, and wsclean -continue goes on with our model."""
    ours = s.ours("files", "-threshold", 2e-3)
    restored = s.path("restored.fits")
    run("wsclean", "-restore", ours + "-residual.fits", ours + "-model.fits", restored, cwd=s.folder)
    # WSClean's convolution comes in again on the other side.
    image, edge = load(ours + "-image.fits")[0], slice(32, -32)
    error = np.abs(load(restored)[0] - image)[edge, edge].max() / image.max()
    s.must(error < 1e-5, "restored by WSClean: off by %.1e of the peak" % error)
    copy = fresh_copy(s.ms(), s.path("continued.ms"))
    run(s.msimage, "-quiet", "-predict", "-name", ours, copy)
    s.theirs("files", "-threshold", 1e-3, "-continue", ms=copy)
    at_once = s.ours("at-once", "-threshold", 1e-3)
    flux, wanted = (load(name + "-model.fits")[0].sum() for name in (ours, at_once))
    rms, wanted_rms = (load(name + "-residual.fits")[0].std() for name in (ours, at_once))
    s.must(abs(flux / wanted - 1) < 0.01 and abs(rms / wanted_rms - 1) < 0.01,
           "continued by WSClean: model %.4f, rms %.4f of what ours is at once" % (flux / wanted, rms / wanted_rms))


main(Peer, globals())
