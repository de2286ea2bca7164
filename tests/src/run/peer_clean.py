#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_clean.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: the same set cleaned by WSClean, and by tclean if CASA is available
($MSIMAGE_PEER_PYTHON), with the same mask, gain and threshold: residual, dynamic range and flux of the model; and files of
each program read by the other."""
import os
import subprocess
import tarfile

import numpy as np
from astropy.io import fits

from image_oracle import ASEC, Frame, load
from program_suite import MEERKAT, Suite, fresh_copy, main, python_with, run, skip_without

skip_without("wsclean")

SIZE, CELL, NOISE = 256, 2.5, 0.15
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(MEERKAT))
POINTS = [(128, 128, 0.2), (170, 150, 0.1), (50, 200, 0.05), (40, 60, 0.02), (200, 40, 0.08), (210, 205, 0.03)]
EXTENDED = (115, 120, 25, 0.5)  # x, y, width in pixels, Jy
WORDS = ["-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-weight", "briggs", 0, "-niter", 30000, "-gain", 0.1, "-mgain",
         0.8, "-no-update-model-required"]

# By default WSClean makes an image of as few pixels as the baselines need and interpolates: its PSF is then off by up to 5 %
# of the peak near the edges.
WSCLEAN = ["-use-wgridder", "-wgridder-accuracy", 1e-5, "-no-small-inversion", "-reorder"]

# Sets in $MSIMAGE_TEST_DATA or in ../shared/data next to the source: pixels, their arcsec, threshold in Jy.
REAL = (("vla-ss433-u", 512, 0.02, 6.8e-3), ("alma-hd142527-b9", 512, 0.03, 0.05))


class Peer(Suite):
    def ms(self):
        """Points, and in CORRECTED_DATA also a gaussian."""
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
        run("wsclean", "-j", 2, *WSCLEAN, *WORDS, *options, "-name", self.path(name), ms or self.ms(), cwd=self.folder)
        return self.path(name)


def judge(s, title, ours, theirs, mfs="", truth_jy=None, peer="WSClean"):
    """Our result is as good as that of the peer: rms of the residual, dynamic range of the image, and flux of the model,
    which is the same or, if ours is deeper, as close to the truth. The restored peak depends on the beam, for which the fit
    of WSClean may be a few per cent wider: its beam is used here."""
    residual = [load(name + mfs + "-residual.fits")[0] for name in (ours, theirs)]
    image = [load(name + mfs + "-image.fits")[0] for name in (ours, theirs)]
    model = [load(name + mfs + "-model.fits")[0].sum() for name in (ours, theirs)]
    rms = residual[0].std() / residual[1].std()
    dynamic_range = image[0].max() / image[1].max() / rms
    off = [abs(flux - (truth_jy or model[1])) for flux in model]
    s.must(rms < 1.01 and dynamic_range > 0.99 and off[0] < off[1] + 0.01 * (truth_jy or model[1]),
           "%s: rms %.4f of %s's, dynamic range %.4f, model %.4g and %.4g Jy" % (title, rms, peer, dynamic_range, *model))


def must_agree_in_flux(s, ours, theirs, peer="WSClean"):
    flux = [load(name + "-model.fits")[0].sum() for name in (ours, theirs)]
    s.must(abs(flux[0] / flux[1] - 1) < 0.01, "the model's flux, too high or too low: %.4f of %s's" % (flux[0] / flux[1], peer))


def beam_words(name, mfs=""):
    header = load(name + mfs + "-image.fits")[1]
    return ["-beam-shape", *["%.9gasec" % (3600 * header[k]) for k in ("BMAJ", "BMIN")], header["BPA"]]


def check_clean(s):
    """Lists, a mask, local noise, and joined channels. If the noise is measured, ours is measured on the exact residual until
    that reaches the threshold, and cleans deeper: these sets have points of known flux."""
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
    """Scales and their bias depend on the longest baseline in both programs. Convolutions of WSClean wrap around unless they
    are padded."""
    truth = sum(flux for _, _, flux in POINTS) + EXTENDED[3]
    for title, options in (("multiscale", []), ("two scales", ["-multiscale-scales", "0,50"])):
        name, words = title.replace(" ", "-"), ["-threshold", 1e-3, "-multiscale", *options]
        theirs = s.theirs(name + "-w", *words, "-multiscale-convolution-padding", 2)
        judge(s, title, s.ours(name, *words, *beam_words(theirs)), theirs, truth_jy=truth)


def real_set(s, name):
    """The path of an unpacked set; None if it is not available."""
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "..", "shared", "data")
    packed = os.path.join(os.environ.get("MSIMAGE_TEST_DATA") or shared, name + ".tar.xz")
    if not os.path.exists(packed):
        print("%s: not at hand" % packed)
        return None
    with tarfile.open(packed) as archive:
        archive.extractall(s.folder)
    return s.path(name + ".ms")


def real_words(size, cell, threshold):
    return ["-j", 2, "-no-update-model-required", "-size", size, size, "-scale", "%gasec" % cell, "-weight", "briggs", 0,
            "-niter", 100000, "-gain", 0.1, "-mgain", 0.8, "-threshold", threshold]


def real_mask(s, ms, *words):
    """A mask of four pixels around the components of a clean with points."""
    points, mask = s.path("real-points"), s.path("real-mask.fits")
    run(s.msimage, "-quiet", "-overwrite", *words, "-name", points, ms)
    with fits.open(points + "-model.fits") as f:
        found = f[0].data[0, 0] != 0
        f[0].data[0, 0] = sum(np.roll(found, (y, x), (0, 1)) for y in range(-4, 5) for x in range(-4, 5)) > 3
        f.writeto(mask, overwrite=True)
    return mask


def check_real(s):
    """Observations cleaned in a mask, with the same threshold and beam, by points and by scales. Dirty images agree to the
    accuracy, and so do components."""
    for name, size, cell, threshold in REAL:
        ms = real_set(s, name)
        if not ms:
            continue
        ours, theirs = s.path("real"), s.path("real-w")
        words = real_words(size, cell, threshold)
        mask = real_mask(s, ms, *words)
        for method in ([], ["-multiscale"]):
            run("wsclean", *WSCLEAN, *words, "-fits-mask", mask, *method,
                *(["-multiscale-convolution-padding", 2] if method else []), "-name", theirs, ms, cwd=s.folder)
            run(s.msimage, "-quiet", "-overwrite", "-weight-padding", 1.2, *words, "-fits-mask", mask, *method,
                *beam_words(theirs), "-name", ours, ms)
            judge(s, "%s %s" % (name, " ".join(method)), ours, theirs)
            must_agree_in_flux(s, ours, theirs)


TCLEAN = """
import sys
from casatasks import exportfits, importfits, tclean
vis, name, size, cell, threshold, mask = sys.argv[1:]
importfits(fitsimage=mask, imagename=name + '-mask.image')
for deconvolver in ('hogbom', 'multiscale'):
    made = name + '-' + deconvolver
    tclean(vis=vis, imagename=made, imsize=int(size), cell=cell + 'arcsec', weighting='briggs', robust=0, niter=100000,
           gain=0.1, threshold=threshold + 'Jy', deconvolver=deconvolver, scales=[0, 10, 20], usemask='user',
           mask=name + '-mask.image', pblimit=-1)
    for kind in ('image', 'residual', 'model'):
        exportfits(imagename=made + '.' + kind, fitsimage=made + '-' + kind + '.fits')
tclean(vis=vis, imagename=name + '-start', imsize=int(size), cell=cell + 'arcsec', weighting='briggs', robust=0, niter=0, pblimit=-1)
for kind in ('psf', 'residual'):
    exportfits(imagename=name + '-start.' + kind, fitsimage=name + '-start-' + kind + '.fits')
"""

# Options of tclean, and ours. Wide scales do not fit in the mask of SS 433, so both use points there.
BY_TCLEAN = (("hogbom", []),
             ("multiscale", ["-multiscale", "-multiscale-rule", "tclean", "-multiscale-scales", "0,20,40",
                             "-multiscale-shape", "spheroidal"]))


def images_of(s, theirs):
    """The dirty image and PSF of tclean as files of ours, with the frequency in the frame of the observatory instead of
    LSRK."""
    name = s.path("tclean-start")
    for kind, their_kind in (("psf", "psf"), ("dirty", "residual")):
        with fits.open("%s-%s.fits" % (s.path("real-points"), kind)) as f:
            f[0].data[0, 0] = load("%s-start-%s.fits" % (theirs, their_kind))[0]
            f.writeto("%s-%s.fits" % (name, kind), overwrite=True)
    return name


def must_be_the_same(s, title, ours, theirs):
    """From the same dirty image and PSF both programs find the same components; only the residuals are made by two
    gridders."""
    rms, peak, flux = (f(ours) / f(theirs) for f in (
        lambda name: load(name + "-residual.fits")[0].std(), lambda name: load(name + "-image.fits")[0].max(),
        lambda name: load(name + "-model.fits")[0].sum()))
    s.must(max(abs(x - 1) for x in (rms, peak / rms, flux)) < 0.003,
           "%s: rms %.4f, dynamic range %.4f, flux %.4f" % (title, rms, peak / rms, flux))


def check_tclean(s):
    """Observations cleaned by tclean of CASA, by points and by its rule, with the same mask, threshold, scales and beam."""
    python = python_with("casatasks")
    for name, size, cell, threshold in REAL if python else ():
        ms = real_set(s, name)
        if not ms:
            continue
        ours, theirs = s.path("real-c"), s.path("tclean-" + name)
        words = [*real_words(size, cell, threshold), "-stokes-weight", "mean"]
        mask = real_mask(s, ms, *words)
        # Threads of the peer that wait for each other take many times as long on a busy machine.
        subprocess.run([python, "-c", TCLEAN, ms, theirs, str(size), "%g" % cell, "%g" % threshold, mask], cwd=s.folder,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={**os.environ, "OMP_NUM_THREADS": "1"})
        for deconvolver, options in BY_TCLEAN:
            made = "%s-%s" % (theirs, deconvolver)
            run(s.msimage, "-quiet", "-overwrite", *words, "-fits-mask", mask, *options, *beam_words(made), "-name", ours, ms)
            judge(s, "%s compared with tclean's %s" % (name, deconvolver), ours, made, peer="tclean")
            must_agree_in_flux(s, ours, made, "tclean")
        start, made = images_of(s, theirs), theirs + "-hogbom"
        run(s.msimage, "-quiet", "-overwrite", *words, "-fits-mask", mask, "-reuse-psf", start, "-reuse-dirty", start,
            *beam_words(made), "-name", ours, ms)
        must_be_the_same(s, "%s from tclean's dirty image and PSF" % name, ours, made)


def check_files(s):
    """wsclean -restore makes our image of our residual and model, and wsclean -continue continues with our model."""
    ours = s.ours("files", "-threshold", 2e-3)
    restored = s.path("restored.fits")
    run("wsclean", "-restore", ours + "-residual.fits", ours + "-model.fits", restored, cwd=s.folder)
    # WSClean's convolution wraps around edges.
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
