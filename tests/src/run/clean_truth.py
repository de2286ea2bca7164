#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_truth.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: cleaned images of generated sets against the sources and the noise
that were put into them, against what predicting and imaging say, and against the definitions of the files."""
import csv
import glob
import gzip
import os
import shutil
import signal

import numpy as np
from astropy.io import fits
from casacore import images
from casacore.tables import makearrcoldesc, maketabdesc, table

from held_program import PUBLISHED, Held, in_lines
from image_oracle import ASEC, Frame, load
from program_suite import MEERKAT, VLA, Suite, files, main, run

SIZE, CELL = 512, 4.0
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(VLA))
NOISE = 0.5
ARRAY = ["-telescope", "vla", "-duration", "10min", "-integration", "30s"]
ONE_BAND = ["-spw", "1.38GHz", "10MHz", "8"]
WIDE_BAND = ["-spw", "1.0GHz", "50MHz", "16"]

# Sources on pixels' centres: x, y, I Q U V in Jy, spectral index.
POINTS = [(256, 256, 1, 0, 0, 0, 0), (301, 270, 0.3, 0, 0, 0, 0), (200, 330, 0.1, 0, 0, 0, 0),
          (150, 180, 0.05, 0, 0, 0, 0), (330, 150, 0.5, 0, 0, 0, 0)]
POLARISED = [(256, 256, 0.3, 0, 0, 0, 0), (310, 290, 0, 1, -1, 0, 0)]
STEEP = [(256, 256, 2, 0, 0, 0, -0.7), (310, 290, 0.5, 0, 0, 0, -0.7)]


def sources(points):
    words = []
    for x, y, *flux, index in points:
        ra, dec = np.degrees(FRAME.sky(x, y))
        words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, *["%.15gJy" % f for f in flux], "%g" % index]
    return words


SETS = {"points": [*ONE_BAND, *sources(POINTS)], "polarised": [*ONE_BAND, *sources(POLARISED)],
        "steep": [*WIDE_BAND, "-reference-frequency", "1.375GHz", *sources(STEEP)]}


def mad(image):
    """The noise of an image, of its median distance from the median."""
    return 1.48260221850560 * np.median(np.abs(image - np.median(image)))


class Truth(Suite):
    def ms(self, name):
        return self.made_at(name + ".ms", VLA, [*ARRAY, "-noise", "%gJy" % NOISE, *SETS[name]])

    def clean(self, ms, *options, size=SIZE):
        """Clean a set; the prefix of the files, and the log."""
        name = self.path("clean%d" % next(self.number))
        done = run(self.msimage, "-j", 2, "-size", size, size, "-scale", "%gasec" % CELL, "-name", name, *options, ms)
        return name, done.stderr.decode()

    def near(self, title, got, want, limit):
        self.must(np.all(np.abs(got - want) <= limit), "%-50s %.6g, wanted %.6g, off by up to %.3g" %
                  (title, got, want, limit))


def thermal(header):
    """The noise of a natural Stokes I image: two hands' mean in every sample."""
    return NOISE / np.sqrt(2 * header["WSCIMGWG"])


def flux_about(model, x, y, radius=3):
    return model[y - radius:y + radius + 1, x - radius:x + radius + 1].sum()


def peak_place(image, x, y):
    """Where a source near a pixel has its peak, by the parabola through the highest pixel's neighbours."""
    part = image[y - 2:y + 3, x - 2:x + 3]
    j, i = np.add(np.unravel_index(part.argmax(), part.shape), (y - 2, x - 2))
    step = [0.5 * (b - a) / (2 * image[j, i] - a - b) for a, b in ((image[j, i - 1], image[j, i + 1]),
                                                                 (image[j - 1, i], image[j + 1, i]))]
    return i + step[0], j + step[1]


def judge_points(s, title, name, points):
    image, header = load(name + "-image.fits")
    model, residual = load(name + "-model.fits")[0], load(name + "-residual.fits")[0]
    sigma, beam = thermal(header), header["BMIN"] * 3600 / CELL
    s.must(0.97 <= residual.std() / sigma <= 1.03, "%s: residual's rms %.4g of thermal" % (title, residual.std() / sigma))
    for x, y, flux, *_ in points:
        place = peak_place(image, x, y)
        s.near("%s: %g Jy in the image" % (title, flux), image[y, x], flux, 3 * sigma)
        s.near("%s: %g Jy in the model" % (title, flux), flux_about(model, x, y), flux, 4 * sigma)
        s.near("%s: %g Jy, place in beams" % (title, flux), np.hypot(place[0] - x, place[1] - y) / beam, 0,
               max(0.05, sigma / flux))


def check_points(s):
    """Point sources on pixels' centres in noise: fluxes, places, and a residual that is noise."""
    for method in ([], ["-no-fast-subminor"], ["-multiscale"]):
        name, log = s.clean(s.ms("points"), "-niter", 100000, "-auto-mask", 5, "-auto-threshold", 1, *method)
        judge_points(s, " ".join(method) or "list", name, POINTS)
        s.must("cleaned: threshold" in log, "it says why it ended")


def check_definitions(s):
    """The files are what they are said to be: image and residual and model; first residual; headers."""
    name, _ = s.clean(s.ms("points"), "-niter", 5000, "-auto-threshold", 4, "-save-first-residual", "-mgain", 0.7,
                      "-no-update-model-required")
    model, header = load(name + "-model.fits")
    residual, image = load(name + "-residual.fits")[0], load(name + "-image.fits")[0]
    psf, dirty = load(name + "-psf.fits")[0], load(name + "-dirty.fits")[0]
    s.must(header["BUNIT"] == "Jy/pixel" and "BMAJ" not in header, "a model's unit and beam")
    y, x = np.nonzero(model)
    cards = load(name + "-image.fits")[1]
    widths, angle = np.array([cards["BMAJ"], cards["BMIN"]]) * 3600 / CELL, np.radians(cards["BPA"])
    yy, xx = np.mgrid[:SIZE, :SIZE]
    restored = residual.copy()
    for i, j in zip(x, y):
        east, north = -(xx - i), yy - j
        major, minor = north * np.cos(angle) + east * np.sin(angle), east * np.cos(angle) - north * np.sin(angle)
        restored += model[j, i] * np.exp(-4 * np.log(2) * ((major / widths[0])**2 + (minor / widths[1])**2))
    error = np.abs(restored - image).max() / np.abs(image).max()
    s.must(error < 2e-6, "image is residual and model with the header's beam: off by %.2e" % error)
    s.near("peak of the PSF", psf[SIZE // 2, SIZE // 2], 1, 2e-5)
    s.must(len(x) <= cards["WSCMINOR"] <= 5000 and cards["WSCNITER"] == 5000 and cards["WSCGAIN"] == 0.1 and
           cards["WSCMGAIN"] == 0.7 and cards["WSCMAJOR"] > 2 and cards["MSISTOP"] == "threshold",
           "cards of the image: %g iterations, %g cycles, %s" % (cards["WSCMINOR"], cards["WSCMAJOR"], cards["MSISTOP"]))
    s.near("MSIFLUX", cards["MSIFLUX"], model.sum(), 1e-5)
    s.near("MSITHRES in noise", cards["MSITHRES"] / mad(residual), 4, 1e-4)
    s.near("MSIPEAK", abs(cards["MSIPEAK"]), np.abs(residual).max(), 1e-7)
    one, _ = s.clean(s.ms("points"), "-niter", 5000, "-auto-threshold", 4, "-nmiter", 1, "-mgain", 0.7, "-no-dirty",
                     "-no-update-model-required")
    first = load(name + "-first-residual.fits")[0]
    s.must((load(one + "-residual.fits")[0] == first).all() and np.abs(first).max() < 0.4 * np.abs(dirty).max(),
           "the first residual is that after one cycle")
    s.must(not os.path.exists(one + "-dirty.fits"), "-no-dirty")


def check_cards(s):
    """Peak and flux in headers are those of the image's own residual and model, whatever was searched: scales with their
    bias, within a mask, joined, or each channel by itself and then all of them."""
    words = ["-niter", 2000, "-auto-threshold", 4]
    name, _ = s.clean(s.ms("points"), "-niter", 10, "-threshold", 0.1)
    mask = s.path("corner.fits")
    with fits.open(name + "-model.fits") as f:
        f[0].data[...] = 0
        f[0].data[0, 0, 140:160, 320:340] = 1
        f.writeto(mask, overwrite=True)
    channels = ["", "-0000", "-0001", "-MFS"]
    for title, ms, options, planes in (
            ("multiscale", "points", ["-multiscale", "-weight", "briggs", -1], channels[:1]),
            ("mask", "points", ["-fits-mask", mask], channels[:1]),
            ("joined", "steep", ["-channels-out", 2, "-join-channels"], channels[1:]),
            ("channels", "steep", ["-channels-out", 2], channels[1:]),
            ("joined polarisations", "polarised", ["-pol", "IQ", "-join-polarizations"], ["-I", "-Q"])):
        name, _ = s.clean(s.ms(ms), *words, *options, size=256 if ms != "points" else SIZE)
        for plane in planes:
            residual, header = load(name + plane + "-residual.fits")
            peak, flux = residual.flat[np.abs(residual).argmax()], load(name + plane + "-model.fits")[0].sum()
            for kind in ("residual", "model", "image"):
                cards = load("%s%s-%s.fits" % (name, plane, kind))[1]
                # Fluxes are sums in another order.
                s.must(abs(cards["MSIPEAK"] - peak) < 1e-7 * abs(peak) and abs(cards["MSIFLUX"] - flux) < 1e-6 * abs(flux),
                       "%s%s, %s: MSIPEAK %.6g, the residual's peak %.6g; MSIFLUX %.6g, the model's %.6g" %
                       (title, plane, kind, cards["MSIPEAK"], peak, cards["MSIFLUX"], flux))
            if title != "channels":
                continue
            known = "MSIRMS" in header and abs(header["MSIRMS"] / mad(residual) - 1) < 1e-3
            s.must(known if plane != "-MFS" else "MSIRMS" not in header, "%s%s: MSIRMS is its own, or is not told" %
                   (title, plane))


def check_residual(s):
    """The residual is the image of the visibilities less those predicted from the model, also of several channels and
    polarisations, joined or not."""
    for title, ms, options, planes in (
            ("one image", "points", [], [""]),
            ("channels", "steep", ["-channels-out", 2], ["-0000", "-0001"]),
            ("joined channels", "steep", ["-channels-out", 2, "-join-channels", "-fit-spectral-pol", 2], ["-0000", "-0001"]),
            ("fewer channels than images", "steep", ["-channels-out", 8, "-join-channels", "-deconvolution-channels", 3,
                                                     "-fit-spectral-log-pol", 2], ["-0000", "-0004", "-0007"]),
            ("joined channels of two polarisations", "polarised",
             ["-channels-out", 2, "-join-channels", "-pol", "I,Q"], ["-0000-I", "-0001-Q"]),
            ("joined polarisations", "polarised", ["-pol", "IQUV", "-join-polarizations"], ["-I", "-Q", "-U", "-V"])):
        accuracy = 1e-6
        size = 256
        name, _ = s.clean(s.ms(ms), "-niter", 2000, "-auto-threshold", 4, "-accuracy", accuracy, *options, size=size)
        copy = s.path("subtracted.ms")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(s.ms(ms), copy)
        run(s.msimage, "-quiet", "-predict", "-name", name, "-accuracy", accuracy, "-predict-op", "subtract",
            "-output-column", "CORRECTED_DATA", copy)
        plain = [o for i, o in enumerate(options) if o in ("-channels-out", "-pol") or options[i - 1] in
                 ("-channels-out", "-pol")]
        again = s.path("again%d" % next(s.number))
        run(s.msimage, "-quiet", "-size", size, size, "-scale", "%gasec" % CELL, "-name", again, "-accuracy", accuracy,
            "-data-column", "CORRECTED_DATA", *plain, copy)
        for plane in planes:
            residual, want = load(name + plane + "-residual.fits")[0], load(again + plane + "-dirty.fits")[0]
            dirty = load(name + plane + "-dirty.fits")[0]
            # Each of three images, and the predicted visibilities, are off by the accuracy at most.
            error = np.abs(residual - want).max() / np.abs(dirty).max()
            s.must(error < 8 * accuracy, "%s%s: off by %.2e of the peak" % (title, plane, error))


def check_stops(s):
    """Every reason to stop, in log and header; iterations count over all cycles."""
    ms = s.ms("points")
    for title, options, reason in (
            ("threshold", ["-niter", 10000, "-threshold", 0.02], "threshold"),
            ("iterations", ["-niter", 40, "-mgain", 0.5, "-threshold", 0.001,
                                             "-no-update-model-required"], "iterations"),
            ("cycles", ["-niter", 10000, "-threshold", 0.001, "-nmiter", 2], "major cycles"),
            ("negative", ["-niter", 10000, "-threshold", 0.0001, "-stop-negative"], "negative peak"),
            ("no room", ["-niter", 10000, "-threshold", 100], "threshold")):
        name, log = s.clean(ms, *options)
        header = load(name + "-image.fits")[1]
        s.must(header["MSISTOP"] == reason and "cleaned: %s after" % reason in log,
               "%s: %s, %g iterations, %g cycles" % (title, header["MSISTOP"], header["WSCMINOR"], header["WSCMAJOR"]))
        if reason == "iterations":
            s.must(header["WSCMINOR"] == 40 and header["WSCMAJOR"] > 1, "iterations are those of all cycles together")
        if reason == "major cycles":
            s.must(header["WSCMAJOR"] == 2, "two cycles")
        if title == "threshold":
            s.must(header["MSIPEAK"] <= 1.1 * 0.02, "the residual's peak is at the threshold")
        if title == "no room":
            s.must(header["WSCMINOR"] == 0 and not load(name + "-model.fits")[0].any(), "a model of nothing")
    name, _ = s.clean(ms, "-niter", 2000, "-auto-threshold", 3, "-no-negative")
    s.must((load(name + "-model.fits")[0] >= 0).all(), "no negative components")
    name, _ = s.clean(ms, "-niter", 2000, "-auto-threshold", 3, "-clean-border", 20)
    model, border = load(name + "-model.fits")[0], int(0.2 * SIZE)
    inside = np.zeros_like(model, bool)
    inside[border:-border, border:-border] = True
    s.must(model[inside].any() and not model[~inside].any(), "no components in the border")
    zero = s.made_at("zero.ms", VLA, ["-duration", "1min", "-integration", "30s", "-source", "60deg", "-45deg", "0Jy"])
    name, log = s.clean(zero, "-niter", 100, "-threshold", "1mJy", size=64)
    s.must(load(name + "-image.fits")[1]["MSISTOP"] == "nothing left" and not load(name + "-residual.fits")[0].any(),
           "a set of zeros leaves nothing to clean, and no mask is told of")
    name, log = s.clean(ms, "-niter", 100)
    s.must("no threshold is given" in log and "-accuracy" not in log,
           "a warning where nothing but -niter ends cleaning, and none of the accuracy, which does not show")
    name, log = s.clean(ms, "-mgain", 0.5)
    s.must("nothing is cleaned without -niter" in log and glob.glob(name + "*") == [name + "-dirty.fits"], "no -niter")


def check_polarised(s):
    """A source of Q = -U and no I is found where polarisations are joined."""
    name, _ = s.clean(s.ms("polarised"), "-niter", 10000, "-auto-threshold", 5, "-pol", "IQUV", "-join-polarizations")
    sigma = thermal(load(name + "-I-image.fits")[1])
    for pol, wanted in (("I", (0.3, 0)), ("Q", (0, 1)), ("U", (0, -1)), ("V", (0, 0))):
        image, model = load("%s-%s-image.fits" % (name, pol))[0], load("%s-%s-model.fits" % (name, pol))[0]
        residual = load("%s-%s-residual.fits" % (name, pol))[0]
        s.must(residual.std() < 1.1 * sigma, "%s: residual's rms %.3g of thermal" % (pol, residual.std() / sigma))
        for (x, y, *_), flux in zip(POLARISED, wanted):
            s.near("%s of %d, %d in the image" % (pol, x, y), image[y, x], flux, 4 * sigma)
            # Up to the threshold is left in the residual.
            s.near("%s of %d, %d in the model" % (pol, x, y), flux_about(model, x, y), flux, (5 + 4) * sigma)


def check_linked(s):
    """Components are found in Stokes I alone, and have values in all polarisations: what has no I stays. With Q and U the
    other source is found. Thresholds go by the noise of what is searched, whose sign counts where it is one image."""
    bright, faint = POLARISED[0][:2], POLARISED[1][:2]
    words = ["-niter", 10000, "-auto-threshold", 5, "-pol", "IQUV"]
    name, _ = s.clean(s.ms("polarised"), *words, "-link-polarizations", "I", "-no-negative")
    sigma = thermal(load(name + "-I-image.fits")[1])
    models = {pol: load("%s-%s-model.fits" % (name, pol))[0] for pol in "IQUV"}
    left = {pol: load("%s-%s-residual.fits" % (name, pol))[0] for pol in "IQUV"}
    s.near("I", flux_about(models["I"], *bright), 0.3, (5 + 4) * sigma)
    for pol, flux in (("Q", 1), ("U", -1)):
        s.near("%s where there is no I" % pol, left[pol][faint[1], faint[0]], flux, 4 * sigma)
        s.must(flux_about(models[pol], *faint) == 0, "no component there")
    s.must((models["I"] >= 0).all() and any((models[pol] < 0).any() for pol in "QUV"), "only I is never negative")
    s.must(np.abs(left["I"]).max() < 1.1 * 5 * sigma * 1.05, "I is cleaned to 5 sigma of its own noise")
    name, _ = s.clean(s.ms("polarised"), *words, "-link-polarizations", "QU")
    for pol, flux in (("Q", 1), ("U", -1)):
        s.near("%s by Q and U" % pol, flux_about(load("%s-%s-model.fits" % (name, pol))[0], *faint), flux, (5 + 4) * sigma)
    s.must(flux_about(load(name + "-I-model.fits")[0], *bright) == 0, "what has neither Q nor U stays")


def check_spectrum(s):
    """A spectral index of -0.7 in joined channels, by both fits, and the images of the whole band."""
    for fit in (["-fit-spectral-log-pol", 2], ["-fit-spectral-pol", 3]):
        name, _ = s.clean(s.ms("steep"), "-niter", 10000, "-auto-threshold", 3, "-channels-out", 4, "-join-channels", *fit)
        parts = [fits.open("%s-%04d-model.fits" % (name, c)) for c in range(4)]
        freq = np.array([f[0].header["CRVAL3"] for f in parts])
        weight = np.array([f[0].header["WSCIMGWG"] for f in parts])
        for x, y, flux, *_, index in STEEP:
            got = np.array([flux_about(np.squeeze(f[0].data).astype(float), x, y) for f in parts])
            want = flux * (freq / 1.375e9)**index
            noise = NOISE / np.sqrt(2 * weight)
            s.must(np.all(np.abs(got - want) < np.maximum(0.01 * want, 4 * noise)),
                   "%s, %g Jy: %s" % (fit[0], flux, " ".join("%.3f%%" % (100 * r) for r in got / want - 1)))
            sigma = 1 / (flux / (NOISE / np.sqrt(2 * weight.sum())) * np.log(freq).std())
            found = np.polyfit(np.log(freq), np.log(got), 1)[0]
            # A polynomial of three terms has a curvature that a power law lacks.
            s.near("%s, %g Jy: index" % (fit[0], flux), found, index, 3 * sigma + (0.005 if fit[1] == 3 else 0))
        for kind in ("dirty", "residual", "model", "psf"):
            planes = [load("%s-%04d-%s.fits" % (name, c, kind))[0] for c in range(4)]
            mean, all_of_it = np.average(planes, axis=0, weights=weight), load("%s-MFS-%s.fits" % (name, kind))[0]
            s.must(np.abs(mean - all_of_it).max() < 1e-6 * np.abs(mean).max(), "%s of the band is the weighted mean" % kind)
        beams = [load("%s-%s-image.fits" % (name, c))[1]["BMAJ"] for c in ("0000", "MFS", "0003")]
        s.must(beams[0] > beams[1] > beams[2], "the band has a beam of its own")


def check_spectrum_limits(s):
    """An index to 0.02 at an integrated SNR of 1000; two terms of a polynomial within 1 % over a band of a fifth, where a
    power law's third one is 0.3 %."""
    words = ["-niter", 10000, "-auto-threshold", 3, "-channels-out", 4, "-join-channels"]
    # 351 baselines at 20 times in 16 channels, two hands each.
    flux = 1000 * NOISE / np.sqrt(2 * 351 * 20 * 16)
    point = [(256, 256, flux, 0, 0, 0, -0.7)]
    ms = s.made_at("index.ms", VLA, [*ARRAY, "-noise", "%gJy" % NOISE, *WIDE_BAND, "-reference-frequency", "1.375GHz",
                                     *sources(point)])
    name, _ = s.clean(ms, *words, "-fit-spectral-log-pol", 2)
    parts = [load("%s-%04d-model.fits" % (name, c)) for c in range(4)]
    got = np.log([flux_about(part, 256, 256) for part, _ in parts])
    weight = sum(cards["WSCIMGWG"] for _, cards in parts)
    s.near("the source's SNR", flux / (NOISE / np.sqrt(2 * weight)), 1000, 1)
    s.near("index at an SNR of 1000", np.polyfit(np.log([h["CRVAL3"] for _, h in parts]), got, 1)[0], -0.7, 0.02)
    name, _ = s.clean(s.ms("steep"), *words, "-fit-spectral-pol", 2, "-channel-range", 0, 4)
    for c in range(4):
        model, cards = load("%s-%04d-model.fits" % (name, c))
        want = 2 * (cards["CRVAL3"] / 1.375e9)**-0.7
        s.near("channel %d by two terms" % c, flux_about(model, 256, 256), want, 0.01 * want)


def check_dynamic_range(s):
    """A bright source at a pixel's centre leaves less than 1e-5 of itself, at the default accuracy, by all methods."""
    bright = [(301, 270, 1, 0, 0, 0, 0), (200, 330, 1e-4, 0, 0, 0, 0)]
    ms = s.made_at("bright.ms", VLA, [*ARRAY, *ONE_BAND, "-noise", "0.0003Jy", *sources(bright)])
    for options in ([], ["-weight", "briggs", 0], ["-multiscale"]):
        name, log = s.clean(ms, "-niter", 100000, "-threshold", 5e-6, *options)
        residual = load(name + "-residual.fits")[0]
        image = load(name + "-image.fits")[0]
        s.must(1 / residual.std() > 1e5 and np.abs(residual).max() < 1e-5, "%s: dynamic range %.3g, to the highest pixel %.3g" %
               (" ".join(map(str, options)) or "natural", 1 / residual.std(), 1 / np.abs(residual).max()))
        s.near("a source of 1e-4 beside it", image[330, 200], 1e-4, 1e-5)
        s.must("accuracy: 1.5e-06 from here on" in log, "the accuracy follows the threshold")
        if options:
            continue
        # The residual is that of the data less the predicted model, to the accuracy that was come to in both directions.
        run(s.msimage, "-quiet", "-accuracy", 1e-8, "-predict", "-name", name, "-predict-op", "subtract", "-data-column", "DATA",
            "-output-column", "LEFT", ms)
        exact, _ = s.clean(ms, "-accuracy", 1e-8, "-data-column", "LEFT")
        error = np.std(load(exact + "-dirty.fits")[0] - residual) / np.std(load(name + "-dirty.fits")[0])
        s.must(error < 2 * 1.5e-6, "its residual is the data less the model to %.1e" % error)


def check_thermal_depth(s):
    """Ten million times below a bright source, by default options, what is left is the noise of the visibilities, and
    sources a millionth as bright are there: no gridding error limits it."""
    bright = [(301, 270, 1, 0, 0, 0, 0), (200, 330, 1e-4, 0, 0, 0, 0), (220, 220, 3e-6, 0, 0, 0, 0)]
    noise = 3e-5
    ms = s.made_at("deep.ms", VLA, [*ARRAY, *ONE_BAND, "-noise", "%gJy" % noise, *sources(bright)])
    name, _ = s.clean(ms, "-niter", 100000, "-auto-threshold", 5, "-no-update-model-required")
    residual, header = load(name + "-residual.fits")
    image, sigma = load(name + "-image.fits")[0], noise / np.sqrt(2 * header["WSCIMGWG"])
    s.must(0.97 <= residual.std() / sigma <= 1.03 and sigma < 1e-7, "residual's rms %.4g of thermal, %.3g of the peak" %
           (residual.std() / sigma, residual.std()))
    for x, y, flux, *_ in bright[1:]:
        s.near("%g Jy in the image" % flux, image[y, x], flux, 0.003 * flux + 3 * sigma)


def check_extended(s):
    """Gaussians of several widths, by multiscale cleaning: integrated fluxes within 2 %."""
    array = ["-telescope", "meerkat", "-duration", "1h", "-integration", "3min", "-spw", "1.1GHz", "100MHz", "5"]
    empty = s.made_at("empty.ms", MEERKAT, [*array, "-noise", "0.2Jy", "-source", "60deg", "-45deg", "0Jy"])
    words = ["-weight", "briggs", 0, "-scale", "2.5asec"]
    name, _ = s.clean(empty, "-make-psf", *words)
    beam_pixel = load(name + "-psf.fits")[1]["BMAJ"] * 3600 / 2.5
    yy, xx = np.mgrid[:SIZE, :SIZE]
    for beams, flux in ((1, 1), (3, 2), (10, 5), (30, 20)):
        sky = np.exp(-4 * np.log(2) * ((xx - 230)**2 + (yy - 270)**2) / (beams * beam_pixel)**2)
        with fits.open(name + "-dirty.fits") as f:
            f[0].data[...] = flux * sky / sky.sum()
            f[0].header["BUNIT"] = "Jy/pixel"
            f.writeto(s.path("extended-model.fits"), overwrite=True)
        run(s.msimage, "-quiet", "-predict", "-name", s.path("extended"), "-predict-op", "add", "-data-column",
            "DATA", "-output-column", "CORRECTED_DATA", empty)
        for depth in (["-auto-mask", 5, "-auto-threshold", 1], ["-auto-threshold", 3]):
            cleaned, _ = s.clean(empty, "-niter", 100000, "-multiscale", *words, *depth)
            s.near("gaussian of %d beams, %s" % (beams, depth[0]), load(cleaned + "-model.fits")[0].sum(), flux,
                   0.02 * flux)


def check_independent(s):
    """What is not joined is cleaned by itself: a channel of several, a polarisation, an interval is as one alone."""
    ms, words = s.ms("steep"), ["-niter", 300, "-auto-threshold", 5, "-backend", "cpu"]
    two, _ = s.clean(ms, *words, "-channels-out", 2, "-pol", "IQ", "-intervals-out", 2, size=256)
    for t in range(2):
        for c in range(2):
            for pol in "IQ":
                one, _ = s.clean(ms, *words, "-pol", pol, "-interval", 10 * t, 10 * t + 10, "-channel-range", 8 * c,
                                 8 * c + 8, size=256)
                same = [(load("%s-t%04d-%04d-%s-%s.fits" % (two, t, c, pol, kind))[0] ==
                         load("%s-%s.fits" % (one, kind))[0]).all() for kind in ("model", "residual", "image")]
                s.must(all(same), "interval %d, channel %d, %s" % (t, c, pol))


def same_images(s, title, one, other, names):
    equal = [(load(one + n)[0] == load(other + n)[0]).all() for n in names]
    s.must(all(equal), "%s: %d of %d images are the same" % (title, sum(equal), len(names)))


def check_resumed_mask(s):
    """A mask whose pixels have changed is another one, whatever it is called; the same pixels under another name are it."""
    words = ["-j", 2, "-size", 128, 128, "-scale", "%gasec" % CELL, "-backend", "cpu", "-niter", 3000, "-checkpoint", 0,
             "-auto-threshold", 3, "-mgain", 0.5, "-no-update-model-required"]
    mask, other, broken = s.path("island.fits"), s.path("other-island.fits"), s.path("of-island")
    name, _ = s.clean(s.ms("points"), size=128)
    for path, first in ((mask, 20), (other, 21)):
        with fits.open(name + "-dirty.fits") as f:
            f[0].data[...] = 0
            f[0].data[0, 0, first:110, 20:110] = 1
            f.writeto(path)
    held = Held([s.msimage, *[str(w) for w in words], "-fits-mask", mask, "-name", broken, s.ms("points")])
    held.hold_after_line("cycle 2")
    held.send(signal.SIGKILL)
    held.end()
    shutil.copy(mask, s.path("kept-island.fits"))
    shutil.copy(other, mask)
    s.told("resumed with another mask of the name", s.launch("-quiet", *words, "-fits-mask", mask, "-resume", "-name", broken,
                                                             s.ms("points")), 3, "options")
    log = run(s.msimage, *words, "-fits-mask", s.path("kept-island.fits"), "-resume", "-name", broken, s.ms("points"))
    s.must("going on from the checkpoint" in log.stderr.decode(), "resumed with the same mask of another name")


def check_resume(s):
    """A run that is killed goes on from its checkpoint, and ends in the same images to the bit."""
    for title, ms, options, kinds in (
            ("one image", "points", ["-auto-mask", 6, "-auto-threshold", 2, "-save-first-residual"], [""]),
            ("multiscale", "points", ["-auto-mask", 6, "-auto-threshold", 2, "-multiscale", "-local-rms"], [""]),
            ("masks", "points", ["-threshold", 0.01, "-auto-multithresh", "-sidelobethreshold", 1.5], [""]),
            ("channels", "steep", ["-channels-out", 2, "-auto-threshold", 4, "-mgain", 0.6, "-no-update-model-required",
                                     "-save-first-residual"], ["-0000", "-0001", "-MFS"]),
            ("joined", "steep", ["-channels-out", 2, "-auto-threshold", 4, "-join-channels"], ["-0000", "-0001", "-MFS"]),
            ("fewer channels", "steep", ["-channels-out", 4, "-auto-threshold", 4, "-join-channels", "-pol", "I",
                                         "-deconvolution-channels", 2, "-fit-spectral-pol", 2], ["-0000", "-0003", "-MFS"])):
        words = ["-j", 2, "-size", 256, 256, "-scale", "%gasec" % CELL, "-backend", "cpu", "-niter", 3000, "-checkpoint",
                 0, *options]
        whole, broken = (s.path("resume%d" % next(s.number)) for _ in range(2))
        run(s.msimage, "-quiet", *words, "-name", whole, s.ms(ms))
        for beginning in ("channel 0: cycle 2", "channel 1: cycle 2") if title == "channels" else ("cycle 2",):
            held = Held([s.msimage, *[str(w) for w in words], "-name", broken, s.ms(ms)])
            held.hold_after_line(beginning)
            held.send(signal.SIGKILL)
            held.end()
            left = sorted(glob.glob(broken + "*"))
            s.must(broken + ("-0000.clean" if title == "channels" else ".clean") in left and
                   not any(n.endswith(".fits") for n in left), "%s: killed, a checkpoint is left" % title)
            if beginning == "cycle 2":
                other = s.launch("-quiet", *words, "-gain", 0.2, "-resume", "-name", broken, s.ms(ms))
                s.told("resumed with another gain", other, 3, "options")
            if title == "one image":
                for what, change, ms_of in (("options", ["-shift", "60.01deg", "44deg"], ms), ("Sets", [], "polarised")):
                    other = s.launch("-quiet", *words, *change, "-resume", "-name", broken, s.ms(ms_of))
                    s.told("resumed with other " + what, other, 3, what)
            log = run(s.msimage, *words, "-resume", "-name", broken, s.ms(ms)).stderr.decode()
            s.must("going on from the checkpoint" in log and "cycle 1:" not in log.split("going on")[1].split("channel 1")[0]
                   and not glob.glob(broken + "*.clean"), "%s: goes on, and the checkpoint is gone" % title)
            made = ["image", "model", "residual", "psf", "dirty", *["first-residual"] * ("-save-first-residual" in options)]
            same_images(s, title, whole, broken, ["%s-%s.fits" % (c, k) for c in kinds for k in made])
            for name in glob.glob(broken + "*"):
                os.remove(name)
    with open(broken + ".clean", "wb") as f:
        f.write(b"no checkpoint")
    words += ["-name", broken]
    s.told("a damaged checkpoint", s.launch("-quiet", *words, "-resume", s.ms("steep")), 3, "checkpoint|clean")
    done = s.launch("-quiet", *words, s.ms("steep"))
    s.told("another file where the checkpoint would be", done, 4, "is no checkpoint")
    with open(broken + ".clean", "rb") as f:
        s.must(f.read() == b"no checkpoint", "it is left as it is")


def check_killed(s):
    """A run may be killed in any line that it prints once it has read; the same command with -resume ends in the same
    images."""
    names = [s.path("killed%d" % i) for i in range(2)]
    words = ["-j", 2, "-size", 128, 128, "-scale", "%gasec" % (2 * CELL), "-backend", "cpu", "-niter", 3000, "-checkpoint",
             0, "-auto-mask", 6, "-auto-threshold", 3, "-mgain", 0.6, "-no-update-model-required", "-overwrite"]
    whole = Held([s.msimage, *[str(w) for w in words], "-name", names[0], s.ms("points")])
    whole.end()
    broken = [s.msimage, *[str(w) for w in words], "-name", names[1], s.ms("points")]
    first = next(i for i, line in enumerate(whole.lines()) if line.startswith("samples:"))
    for title, bring in [*in_lines(whole)][1 + first:]:
        held = Held(broken)
        bring(held)
        held.send(signal.SIGKILL)
        held.end()
        is_late = any(line.startswith(PUBLISHED) for line in held.lines())
        images = glob.glob(names[1] + "*.fits")
        run(s.msimage, "-quiet", *words, "-resume", "-name", names[1], s.ms("points"))
        kinds = ("image", "model", "residual", "mask")
        same = all((load("%s-%s.fits" % (names[0], k))[0] == load("%s-%s.fits" % (names[1], k))[0]).all() for k in kinds)
        s.must(same and (is_late or not images) and not glob.glob(names[1] + "*.clean"),
               "killed %s: %s" % (title, "the same images" if same else "other images"))
        for name in glob.glob(names[1] + "*"):
            os.remove(name)


def check_continue(s):
    """An earlier model is subtracted, cleaned on, and restored as a whole; one that does not fit is refused."""
    words = ["-niter", 5000, "-auto-threshold", 4]
    name, _ = s.clean(s.ms("points"), "-niter", 60, "-threshold", 0.001)
    first = load(name + "-model.fits")[0].sum()
    args = ["-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-name", name]
    run(s.msimage, "-quiet", *args, *words, "-continue", s.ms("points"))
    once, _ = s.clean(s.ms("points"), *words)
    header = load(name + "-image.fits")[1]
    sigma = thermal(header)
    difference = load(name + "-image.fits")[0] - load(once + "-image.fits")[0]
    s.must(load(name + "-model.fits")[0].sum() > 1.2 * first and np.abs(difference).max() < 5 * sigma,
           "an image that is continued is as one made at once: up to %.2g sigma" % (np.abs(difference).max() / sigma))
    for title, change in (("size", ["-size", 256, 256]), ("pixels", ["-scale", "5asec"]),
                          ("centre", ["-shift", "60.1deg", "44deg"]), ("missing", ["-name", s.path("nothing")])):
        s.told("-continue, other " + title, s.launch("-quiet", *args, *words, *change, "-continue", s.ms("points")), 3,
               "model.fits")


def change_image(path, to, **cards):
    """Write a copy of an image with other cards; pixels by a function called `pixels`."""
    with fits.open(path) as f:
        if "pixels" in cards:
            cards.pop("pixels")(f[0].data[0, 0])
        f[0].header.update(cards)
        f.writeto(to, overwrite=True)


def check_reuse(s):
    """PSFs and dirty images of an earlier run are what the cleaning begins with, and nothing else; what does not fit is
    refused before the samples are read."""
    ms = s.ms("steep")
    words = ["-niter", 400, "-auto-threshold", 5, "-channels-out", 2, "-join-channels", "-backend", "cpu"]
    name, _ = s.clean(ms, *words, size=256)
    kinds = ["-%s-%s.fits" % (c, k) for c in ("0000", "0001", "MFS") for k in ("image", "model", "residual", "psf", "dirty")]
    again, _ = s.clean(ms, *words, "-reuse-psf", name, "-reuse-dirty", name, size=256)
    same_images(s, "reused as they were", name, again, kinds)

    other = s.path("reused")
    for c in ("-0000", "-0001"):
        shift = load(name + c + "-psf.fits")[0][:-40, :-30]

        def add_source(pixels, shift=shift):
            pixels[40:, 30:] += 3 * shift
        change_image(name + c + "-dirty.fits", other + c + "-dirty.fits", pixels=add_source)
        change_image(name + c + "-psf.fits", other + c + "-psf.fits", pixels=lambda p: p.__imul__(1.01))
    begun, _ = s.clean(ms, *words, "-nmiter", 1, "-reuse-psf", other, "-reuse-dirty", other, size=256)
    same_images(s, "others that are reused", other, begun, ["-0000-psf.fits", "-0001-psf.fits", "-0000-dirty.fits", "-0001-dirty.fits"])
    model, residual = load(begun + "-MFS-model.fits")[0], load(begun + "-MFS-residual.fits")[0]
    s.must(model[168, 158] > 2 and residual[168, 158] < -2, "a source in the dirty image alone: %.3g Jy of model, residual "
           "%.3g Jy/beam, of the visibilities" % (model[168, 158], residual[168, 158]))

    args = ["-quiet", "-size", 256, 256, "-scale", "%gasec" % CELL, "-name", s.path("refused"), *words]
    for title, change, said in (("size", ["-size", 128, 128], "256 x 256 pixels, and the image 128 x 128"),
                                ("pixels", ["-scale", "5asec"], "pixels of 4 x 4 arcsec, and the image of 5 x 5"),
                                ("centre", ["-shift", "60.1deg", "44deg"], "centre at"),
                                ("frequency", ["-channel-range", 0, 8], "MHz, and the image of"),
                                ("polarisation", ["-pol", "Q"], "is of I, and the image of Q"),
                                ("name", ["-reuse-dirty", s.path("nothing")], "nothing-0000-dirty.fits")):
        s.told("reused, other " + title, s.launch(*args, "-reuse-dirty", name, *change, ms), 3, said)
    change_image(name + "-0001-psf.fits", other + "-0001-psf.fits", pixels=lambda p: p.__imul__(0.5))
    s.told("a PSF of another scale", s.launch(*args, "-reuse-psf", other, ms), 3, "0001-psf.fits: is 0.[45].* at its centre")
    change_image(name + "-0001-dirty.fits", other + "-0001-dirty.fits", pixels=lambda p: p.fill(np.nan))
    s.told("a dirty image of nothing", s.launch(*args, "-reuse-dirty", other, ms), 3, "65536 pixels that are not finite")
    s.must(not glob.glob(s.path("refused") + "*"), "nothing is written")


def check_local_rms_image(s):
    """Local noise that is given: thresholds in its units, whose least is the noise; where it is large nothing is cleaned."""
    name, _ = s.clean(s.ms("points"), "-make-psf")
    rms, least = s.path("rms.fits"), 0.002

    def fill(pixels):
        pixels[...] = least
        pixels[:, 280:] = 0.3
    change_image(name + "-dirty.fits", rms, pixels=fill)
    # A source keeps its threshold in the residual, beside sidelobes of those that are not cleaned.
    for method in ([], ["-multiscale"]):
        cleaned, _ = s.clean(s.ms("points"), "-niter", 3000, "-auto-threshold", 5, "-local-rms-image", rms, *method)
        model, header = load(cleaned + "-model.fits")
        s.near("MSITHRES", header["MSITHRES"], 5 * least, 1e-6)
        residual = load(cleaned + "-residual.fits")[0]
        s.must(np.abs(residual[:, :280]).max() < 1.1 * 5 * least, "cleaned to 5 times the noise")
        for x, y, flux, *_ in POINTS:
            s.near("%g Jy, noise %g" % (flux, least if x < 280 else 0.3), flux_about(model, x, y), flux if x < 280 else 0,
                   5 * least + 0.02 if x < 280 else 1e-9)
    args = ["-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-name", s.path("none"), "-niter", 9,
            "-auto-threshold", 5, "-local-rms-image", rms]
    s.told("noise of another size", s.launch(*args, "-size", 256, 256, s.ms("points")), 3, "512 x 512 pixels")
    change_image(name + "-dirty.fits", rms, pixels=lambda p: p.fill(0))
    s.told("noise of zero", s.launch(*args, s.ms("points")), 3, r"rms.fits: pixel \(1, 1\) is 0")


def check_mask(s):
    """Components lie within a mask, whatever its pixels; the header of another frame, or one too small, is refused."""
    name, _ = s.clean(s.ms("points"), "-make-psf")
    mask = s.path("mask.fits")
    with fits.open(name + "-dirty.fits") as f:
        header = f[0].header
        header["CDELT1"], header["CDELT2"], header["CRPIX1"], header["CRPIX2"] = -8 / 3600, 8 / 3600, 151, 141
        pixels = np.zeros((1, 1, 280, 300), ">f4")
        for x, y, *_ in POINTS[:3]:
            i, j = 150 + (x - 256) // 2, 140 + (y - 256) // 2
            pixels[0, 0, j - 1:j + 2, i - 1:i + 2] = 1
        fits.writeto(mask, pixels, header, overwrite=True)
    cleaned, _ = s.clean(s.ms("points"), "-niter", 2000, "-auto-threshold", 2, "-fits-mask", mask)
    model = load(cleaned + "-model.fits")[0]
    for n, (x, y, flux, *_) in enumerate(POINTS):
        got = flux_about(model, x, y)
        s.must(got > 0.7 * flux if n < 3 else got == 0, "%g Jy %s the mask: %g" % (flux, "in" if n < 3 else "out of", got))
    with fits.open(mask) as f:
        f[0].header["CRPIX1"] += 100
        f.writeto(mask, overwrite=True)
    done = s.launch("-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 9, "-threshold", 1,
                    "-name", s.path("none"), "-fits-mask", mask, s.ms("points"))
    s.told("a mask that does not reach as far", done, 3, "mask.fits")
    with fits.open(mask) as f:
        f[0].header["CRPIX1"] -= 100
        f[0].data[...] = 0
        f.writeto(mask, overwrite=True)
    packed = s.path("packed.fits.gz")
    with open(mask, "rb") as plain, gzip.open(packed, "wb") as f:
        f.write(plain.read())
    done = s.launch("-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 9, "-threshold", 1,
                    "-name", s.path("none"), "-fits-mask", packed, s.ms("points"))
    s.told("a compressed mask", done, 3, "packed.fits.gz: a compressed file; unpack it first")
    cleaned, log = s.clean(s.ms("points"), "-niter", 2000, "-auto-threshold", 2, "-fits-mask", mask)
    s.must(load(cleaned + "-image.fits")[1]["MSISTOP"] == "mask empty" and not load(cleaned + "-model.fits")[0].any() and
           "mask.fits: the mask is 0 in all of the image, so that nothing is cleaned" in log, "a mask of nothing, and a warning")


def check_casa_mask(s):
    """A CASA image serves as the FITS image that it was made of, also turned, of other pixels and of several planes; what
    is none, or is damaged, is refused."""
    name, _ = s.clean(s.ms("steep"), "-make-psf", size=128)
    args = ["-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 100, "-threshold", 0.01, "-backend", "cpu"]
    generator = np.random.default_rng(7)
    with fits.open(name + "-dirty.fits") as f:
        header = f[0].header
    for title, change, n_plane in (
            ("the same pixels", {}, 1), ("other pixels", {"CDELT1": -7 / 3600, "CDELT2": 9 / 3600, "CRPIX1": 71.3, "CRPIX2": 66.6}, 1),
            ("a turned one", {"PC1_1": 0.8, "PC1_2": -0.6, "PC2_1": 0.6, "PC2_2": 0.8, "CDELT1": -8 / 3600, "CDELT2": 8 / 3600}, 1),
            ("another projection", {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN"}, 1), ("two planes", {}, 2)):
        fits_mask, casa_mask = s.path("of-casa%d.fits" % next(s.number)), s.path("casa%d.mask" % next(s.number))
        size = 160 if change else 128
        cards = header.copy()
        if title == "another projection":
            change = {**change, "CRPIX1": size // 2 + 1, "CRPIX2": size // 2 + 1, "CDELT1": -5 / 3600, "CDELT2": 5 / 3600}
        if title == "a turned one":
            # No pixel of the image lies between two of the mask, where rounding decides.
            change = {**change, "CRPIX1": size // 2 + 1.27, "CRPIX2": size // 2 + 1.13}
        cards.update(change)
        cards["NAXIS1"] = cards["NAXIS2"] = size
        fits.writeto(fits_mask, (generator.random((1, n_plane, size, size)) < 0.3).astype(">f4"), cards, overwrite=True)
        images.image(fits_mask).saveas(casa_mask)
        words, outs = ["-channels-out", n_plane] if n_plane > 1 else [], []
        for option, mask in (("-fits-mask", fits_mask), ("-casa-mask", casa_mask)):
            outs.append(s.path("masked%d" % next(s.number)))
            run(s.msimage, *args, *words, option, mask, "-name", outs[-1], s.ms("steep"))
        same_images(s, title, *outs, ["-%s.fits" % k for k in (["model"] if n_plane == 1 else ["0000-model", "0001-model"])])
        s.must(load(outs[1] + ("-model.fits" if n_plane == 1 else "-0000-model.fits"))[0].any(), "a model of something")
    args += ["-name", s.path("none")]
    s.told("no CASA image", s.launch(*args, "-casa-mask", s.ms("steep"), s.ms("steep")), 3, "no CASA image")
    s.told("no table", s.launch(*args, "-casa-mask", fits_mask, s.ms("steep")), 3, os.path.basename(fits_mask))
    with open(os.path.join(casa_mask, "table.f0_TSM0"), "r+b") as f:
        f.truncate(1000)
    s.told("a damaged one", s.launch(*args, "-channels-out", 2, "-casa-mask", casa_mask, s.ms("steep")), 3, "corrupt")
    s.told("two masks", s.launch(*args, "-casa-mask", casa_mask, "-fits-mask", fits_mask, s.ms("steep")), 2, "one mask")
    s.must(not glob.glob(s.path("none") + "*"), "nothing is written")


def check_multithresh(s):
    """Masks that follow the residual: components lie within, sources are found, and a run goes on with them."""
    words = ["-niter", 3000, "-threshold", 0.004, "-auto-multithresh", "-sidelobethreshold", 1.5]
    name, _ = s.clean(s.ms("points"), *words)
    model, mask = load(name + "-model.fits")[0], load(name + "-mask.fits")[0]
    s.must(set(np.unique(mask)) == {0, 1} and not model[mask == 0].any() and 0 < mask.mean() < 0.2,
           "components lie within the mask, %.2g of the image; without: %d" %
           (mask.mean(), np.count_nonzero(model[mask == 0])))
    for x, y, flux, *_ in POINTS:
        s.near("%g Jy" % flux, flux_about(model, x, y), flux, 0.02)
    done = s.launch("-quiet", "-size", 64, 64, "-scale", "4asec", *words, "-auto-mask", 5, s.ms("points"))
    s.told("two masks", done, 2, "auto-multithresh")


def check_beam(s):
    """Restored with a beam that is given; the headers say which."""
    words = ["-niter", 500, "-auto-threshold", 5]
    for options, widths, angle in ((["-beam-size", 30], (30, 30), 0), (["-beam-shape", "40asec", 20, 30], (40, 20), 30)):
        name, _ = s.clean(s.ms("points"), *words, *options)
        image, header = load(name + "-image.fits")
        s.must(np.allclose([header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"]], [*widths, angle]),
               "%s: %g x %g arcsec, %g deg" % (options[0], header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"]))
        s.near("the peak of a point", image[256, 256], 1, 0.02)
    name, log = s.clean(s.ms("points"), *words, "-no-fit-beam")
    s.must(np.isnan(load(name + "-image.fits")[0]).all() and "there is no beam" in log, "no beam, no image")


def check_subtract_model(s):
    """-subtract-model images the data less MODEL_DATA, whatever is selected of them, in every cycle; and leaves it there."""
    ms = s.path("less.ms")
    shutil.copytree(s.ms("steep"), ms)
    args = ["-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-backend", "cpu"]
    s.told("no MODEL_DATA", s.launch(*args, "-subtract-model", "-name", s.path("less"), ms), 3, "has no column MODEL_DATA")
    change_image(s.clean(ms, size=128)[0] + "-dirty.fits", s.path("less-model.fits"), BUNIT="Jy/pixel",
                 pixels=lambda p: np.put(p, np.arange(p.size), np.arange(p.size) == 64 * 128 + 80))
    run(s.msimage, "-quiet", "-predict", "-name", s.path("less"), ms)
    with table(ms, readonly=False, ack=False) as t:
        t.addcols({"name": "LESS", "desc": {**t.getcoldesc("DATA"), "dataManagerGroup": "LESS", "dataManagerType": ""}})
        t.putcol("LESS", t.getcol("DATA") - t.getcol("MODEL_DATA"))
        s.must(np.abs(t.getcol("MODEL_DATA")).mean() > 0.5, "a model of 1 Jy")
    before = files(ms)
    for title, words in (("dirty image", []), ("cleaned", ["-niter", 200, "-auto-threshold", 4, "-mgain", 0.7]),
                         ("some rows and channels", ["-taql", "ANTENNA1 IN [1,4,9]", "-select-spw", "0:2~6;9~9"])):
        one, other = s.path("less%d" % next(s.number)), s.path("less%d" % next(s.number))
        run(s.msimage, *args, *words, "-subtract-model", "-data-column", "DATA", "-name", one, ms)
        s.must(files(ms) == before, "no file of the set changes")
        run(s.msimage, *args, *words, "-data-column", "LESS", "-no-update-model-required", "-name", other, ms)
        kinds = ("dirty", "residual", "model", "image") if "-niter" in words else ("dirty",)
        same_images(s, title, one, other, ["-%s.fits" % k for k in kinds])


def check_update(s):
    """MODEL_DATA is written when it is asked for, after the images, and is what -predict writes; else no set changes."""
    ms, words = s.path("update.ms"), ["-size", 256, 256, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5]
    shutil.copytree(s.ms("points"), ms)
    before = files(ms)
    for options in ([], ["-mgain", 0.7, "-no-update-model-required"], ["-mgain", 1]):
        run(s.msimage, "-quiet", *words, *options, "-name", s.path("update"), "-overwrite", ms)
        s.must(files(ms) == before, "%s: no file of the set changes" % (" ".join(map(str, options)) or "by default"))
    for options in (["-mgain", 0.7], ["-update-model-required"]):
        shutil.rmtree(ms)
        shutil.copytree(s.ms("points"), ms)
        run(s.msimage, "-quiet", *words, *options, "-name", s.path("update"), "-overwrite", ms)
        with table(ms, ack=False) as t:
            got = t.getcol("MODEL_DATA")
        run(s.msimage, "-quiet", "-predict", "-name", s.path("update"), "-accuracy", 1e-5, ms)
        with table(ms, ack=False) as t:
            s.must((t.getcol("MODEL_DATA") == got).all() and np.abs(got).max() > 0.5, "%s: MODEL_DATA" % options[0])
    before = files(ms)
    for title, name in (("a channel image", "-0000"), ("another polarisation", "-Q"), ("a later channel", "-0002")):
        other = s.path("stale%d" % next(s.number))
        shutil.copy(s.path("update-model.fits"), other + name + "-model.fits")
        options = ["-channels-out", 2] if name == "-0002" else []
        done = s.launch("-quiet", *words, *options, "-update-model-required", "-name", other, ms)
        s.told("%s of another run" % title, done, 3, os.path.basename(other) + name + "-model.fits")
        s.must(glob.glob(other + "*") == [other + name + "-model.fits"] and files(ms) == before, "nothing is made or changed")
    check_not_to_be_updated(s, ms, words)
    os.chmod(ms, 0o555)
    if os.geteuid() != 0:
        done = s.launch("-quiet", *words, "-update-model-required", "-name", s.path("none"), ms)
        s.told("a set that cannot be written", done, 4, "MODEL_DATA")
    os.chmod(ms, 0o755)


def check_not_to_be_updated(s, ms, words):
    """What cannot be predicted into later is refused before anything is read; without the update it is imaged."""
    rows, typed = s.path("update-rows.ms"), s.path("update-typed.ms")
    with table(ms, ack=False) as t, t.query("ANTENNA1 < 20") as chosen:
        chosen.copy(rows).close()
    shutil.copytree(ms, typed)
    with table(typed, readonly=False, ack=False) as t:
        t.removecols("MODEL_DATA")
        t.addcols(maketabdesc(makearrcoldesc("MODEL_DATA", 0.0, ndim=2, valuetype="float")))
    marked = s.path("update-marked.ms")
    shutil.copytree(ms, marked)
    with table(marked, readonly=False, ack=False) as t:
        t.putkeyword("MSIMAGE_PREDICT", {"MODEL_DATA": {"STATE": "incomplete", "SELECTION": "-field 7"}})
    for title, path, pattern in (("rows of another set", rows, "refers to rows of another set"),
                                 ("a column of another type", typed, "complex"),
                                 ("a column left incomplete", marked, "-field 7")):
        name = s.path("none%d" % next(s.number))
        done = s.launch("-quiet", *words, "-mgain", 0.7, "-name", name, path)
        s.told(title, done, 3, pattern)
        s.must("-no-update-model-required" in done.stderr and not glob.glob(name + "*"), title + ": before anything is made")
        done = s.launch("-quiet", *words, "-mgain", 0.7, "-no-update-model-required", "-name", name, path)
        s.must(done.returncode == 0 and os.path.exists(name + "-image.fits"), title + ": imaged without the update")


def check_update_intervals(s):
    """Each interval's model goes into its own rows, and is what -predict writes there; one without a sample has none."""
    ms, again = s.path("intervals.ms"), s.path("intervals-again.ms")
    shutil.copytree(s.ms("points"), ms)
    with table(ms, readonly=False, ack=False) as t:
        times = t.getcol("TIME")
        steps = np.unique(times)
        flagged = (times >= steps[6]) & (times < steps[13])
        t.putcol("FLAG", t.getcol("FLAG") | flagged[:, None, None])
        # Each interval has a sky of its own, so that no model does for another.
        data = t.getcol("DATA")
        t.putcol("DATA", data * np.where(times < steps[6], 1, 2)[:, None, None])
    shutil.copytree(ms, again)
    bounds = [len(steps) * t // 3 for t in range(4)]
    s.must(bounds == [0, 6, 13, 20], "three intervals of 20 times")
    name = s.path("intervals")
    run(s.msimage, "-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5, "-mgain",
        0.7, "-intervals-out", 3, "-name", name, ms)
    for t in (0, 2):
        run(s.msimage, "-quiet", "-predict", "-name", "%s-t%04d" % (name, t), "-accuracy", 1e-5, "-interval", bounds[t],
            bounds[t + 1], again)
    with table(ms, ack=False) as t, table(again, ack=False) as u:
        got, want = t.getcol("MODEL_DATA"), u.getcol("MODEL_DATA")
    for title, rows in (("the first interval", times < steps[6]), ("the last", times >= steps[13])):
        s.must((got[rows] == want[rows]).all() and np.abs(got[rows]).max() > 0.5, "MODEL_DATA of " + title)
    s.must(np.isnan(load(name + "-t0001-model.fits")[0]).all() and not got[flagged].any(), "MODEL_DATA of no sample")
    first, last = (np.abs(got[rows]).mean() for rows in (times < steps[6], times >= steps[13]))
    s.near("twice the flux in the last interval", last / first, 2, 0.2)


def check_update_channels(s):
    """A channel whose samples are flagged has no model: the nearest one's goes into MODEL_DATA there."""
    ms, name = s.path("dead.ms"), s.path("dead")
    shutil.copytree(s.ms("steep"), ms)
    with table(ms, readonly=False, ack=False) as t:
        flag = t.getcol("FLAG")
        flag[:, :4] = True
        t.putcol("FLAG", flag)
    run(s.msimage, "-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5,
        "-channels-out", 4, "-update-model-required", "-name", name, ms)
    with table(ms, ack=False) as t:
        got = t.getcol("MODEL_DATA")
    shutil.copy(name + "-0001-model.fits", s.path("alone-model.fits"))
    run(s.msimage, "-quiet", "-predict", "-name", s.path("alone"), "-accuracy", 1e-5, "-channel-range", 0, 8, ms)
    with table(ms, ack=False) as t:
        want = t.getcol("MODEL_DATA")
    s.must(np.isnan(load(name + "-0000-model.fits")[0]).all(), "a channel without a sample has no model")
    error = np.abs(got - want)[:, :8].max()
    s.must(error < 2e-5 * np.abs(want).max() and np.abs(want).max() > 1, "MODEL_DATA there: off by %.2g" % error)


def check_foreseen(s):
    """After each cycle the log says how many more are foreseen; with a constant decay it is as many as there are."""
    _, log = s.clean(s.ms("points"), "-niter", 100000, "-mgain", 0.5, "-threshold", 0.012, "-no-update-model-required")
    told = [int(line.split("about ")[1].split()[0]) for line in log.splitlines() if " more cycles by the decay" in line]
    n = sum(line.startswith("cycle ") for line in log.splitlines())
    s.must(n > 4 and len(told) >= n - 3 and all(abs(i + 1 + left - n) <= 2 for i, left in enumerate(told)),
           "of %d cycles, left: %s" % (n, told))


def check_record(s):
    """The record of convergence: a line a cycle and scale, iterations and fluxes that add up."""
    name, _ = s.clean(s.ms("points"), "-niter", 3000, "-auto-threshold", 4, "-multiscale", "-png")
    with open(name + "-clean.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    header = load(name + "-image.fits")[1]
    s.must(int(rows[-1]["major"]) == header["WSCMAJOR"] and int(rows[-1]["minor"]) == header["WSCMINOR"],
           "%s cycles, %s iterations" % (rows[-1]["major"], rows[-1]["minor"]))
    s.near("flux", float(rows[-1]["flux"]), load(name + "-model.fits")[0].sum(), 1e-4)
    s.near("noise of what is left", float(rows[-1]["noise"]), header["MSIRMS"], 1e-6)
    start, dirty = rows[0], load(name + "-dirty.fits")[0]
    s.must([start[k] for k in ("major", "minor", "scale", "flux", "stop")] == ["0", "0", "", "0", ""], "it begins: %s" % start)
    s.near("noise of the dirty image", float(start["noise"]), 1.48260221850560 * np.median(np.abs(dirty - np.median(dirty))), 1e-4)
    s.must(os.path.getsize(name + "-clean.png") > 1000 and os.path.exists(name + "-image.png"), "pictures")


main(Truth, globals())
