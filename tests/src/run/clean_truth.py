#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_truth.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: cleaned images of generated sets against their sources and noise, against
predicting and imaging, and against the definitions of the files."""
import csv
import glob
import os
import re
import shutil

import numpy as np
from astropy.io import fits

from clean_suite import (ARRAY, CELL, NOISE, ONE_BAND, POINTS, POLARISED, SIZE, STEEP, WIDE_BAND, CleanSuite, flux_about,
                         mad, sources, thermal)
from image_oracle import load
from program_suite import MEERKAT, VLA, main, run


def peak_place(image, x, y):
    """The position of the peak of a source near a pixel, by a parabola through the neighbours of the highest pixel."""
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
    """Point sources on pixel centres in noise: fluxes, positions, and a residual that is noise."""
    for method in ([], ["-no-fast-subminor"], ["-multiscale"]):
        name, log = s.clean(s.ms("points"), "-niter", 100000, "-auto-mask", 5, "-auto-threshold", 1, *method)
        judge_points(s, " ".join(method) or "list", name, POINTS)
        s.must("cleaned: ended by 'threshold'" in log, "it says why it ended")
        lines = log[log.index("cycle 1:"):log.index("\ntime:")].splitlines()
        s.must(len(lines) > 6 and max(map(len, lines)) <= 80, "the %d lines of cycles fit a terminal: %s" % (len(lines), max(lines, key=len)))


def check_definitions(s):
    """The files have the documented contents: image, residual and model; first residual; headers."""
    name, _ = s.clean(s.ms("points"), "-niter", 5000, "-auto-threshold", 4, "-save-first-residual", "-mgain", 0.7,
                      "-no-update-model-required")
    model, header = load(name + "-model.fits")
    residual, image = load(name + "-residual.fits")[0], load(name + "-image.fits")[0]
    psf, dirty = load(name + "-psf.fits")[0], load(name + "-dirty.fits")[0]
    s.must(header["BUNIT"] == "Jy/pixel" and "BMAJ" not in header, "a model's unit and beam")
    y, x = np.nonzero(model)
    cards = load(name + "-image.fits")[1]
    widths, angle = np.array([cards["BMAJ"], cards["BMIN"]]) * 3600 / CELL, np.radians(cards["BPA"])
    # The gaussian of a pixel is a cutout of one gaussian that is twice as large.
    yy, xx = np.mgrid[-SIZE:SIZE, -SIZE:SIZE]
    major, minor = yy * np.cos(angle) - xx * np.sin(angle), -xx * np.cos(angle) - yy * np.sin(angle)
    beam = np.exp(-4 * np.log(2) * ((major / widths[0])**2 + (minor / widths[1])**2))
    restored = residual.copy()
    for i, j in zip(x, y):
        restored += model[j, i] * beam[SIZE - j:2 * SIZE - j, SIZE - i:2 * SIZE - i]
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
    """Peak and flux in headers are those of the residual and model of the image, for any kind of search: scales with a bias,
    within a mask, joined, or each channel by itself and then all of them."""
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
                # Fluxes are summed in another order.
                s.must(abs(cards["MSIPEAK"] - peak) < 1e-7 * abs(peak) and abs(cards["MSIFLUX"] - flux) < 1e-6 * abs(flux),
                       "%s%s, %s: MSIPEAK %.6g, the residual's peak %.6g; MSIFLUX %.6g, the model's %.6g" %
                       (title, plane, kind, cards["MSIPEAK"], peak, cards["MSIFLUX"], flux))
            if title != "channels":
                continue
            known = "MSIRMS" in header and abs(header["MSIRMS"] / mad(residual) - 1) < 1e-3
            s.must(known if plane != "-MFS" else "MSIRMS" not in header, "%s%s: MSIRMS is its own, or is not told" %
                   (title, plane))


def check_residual(s):
    """The residual is the image of the visibilities minus those predicted from the model, also for several channels and
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
            # Each of three images, and the predicted visibilities, are off by at most the accuracy.
            error = np.abs(residual - want).max() / np.abs(dirty).max()
            s.must(error < 8 * accuracy, "%s%s: off by %.2e of the peak" % (title, plane, error))


def check_stops(s):
    """All reasons to stop, in log and header; iterations are counted over all cycles."""
    ms = s.ms("points")
    for title, options, reason in (
            ("threshold", ["-niter", 10000, "-threshold", 0.02], "threshold"),
            ("iterations", ["-niter", 40, "-mgain", 0.5, "-threshold", 0.001,
                                             "-no-update-model-required"], "iterations"),
            ("cycles", ["-niter", 10000, "-threshold", 0.001, "-nmiter", 2], "major cycles"),
            ("negative", ["-niter", 10000, "-threshold", 0.0001, "-stop-negative"], "negative peak"),
            ("nothing to clean", ["-niter", 10000, "-threshold", 100], "threshold")):
        name, log = s.clean(ms, *options)
        header = load(name + "-image.fits")[1]
        s.must(header["MSISTOP"] == reason and "cleaned: ended by '%s' after" % reason in log,
               "%s: %s, %g iterations, %g cycles" % (title, header["MSISTOP"], header["WSCMINOR"], header["WSCMAJOR"]))
        if reason == "iterations":
            s.must(header["WSCMINOR"] == 40 and header["WSCMAJOR"] > 1, "iterations are those of all cycles together")
        if reason == "major cycles":
            s.must(header["WSCMAJOR"] == 2, "two cycles")
        if title == "threshold":
            s.must(header["MSIPEAK"] <= 1.1 * 0.02, "the residual's peak is at the threshold")
        if title == "nothing to clean":
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
           "a set of zeros leaves nothing to clean, and the log has no mask")
    name, log = s.clean(ms, "-niter", 100)
    s.must("no threshold is given" in log and "-accuracy" not in log,
           "a warning where nothing but -niter ends cleaning, and none of the accuracy, which does not show")
    options = ["-niter", 100, "-auto-threshold", 3, "-accuracy"]
    _, log = s.clean(ms, *options, "1e-2")
    said = re.search(r"residual is (\S+) of the first peak, but its errors are up to 1.0e-02 of that peak, more than a tenth of the "
                     r"residual; use -accuracy (\S+)", log)
    s.must(said and 0.05 <= float(said[2]) / float(said[1]) <= 0.101, "a warning of a coarse accuracy names a finer one")
    s.must("more than a tenth of the residual" not in s.clean(ms, *options, said[2])[1], "the accuracy that it names suffices")
    name, log = s.clean(ms, "-mgain", 0.5, "-pb", "vla")
    s.must("it has no effect without -niter" in log and "-pb: it has no effect by itself" in log and
           sorted(glob.glob(name + "*")) == [name + "-dirty.fits", name + "-image.fits"], "no -niter")


def check_polarised(s):
    """A source with Q = -U and no I is found if polarisations are joined."""
    name, _ = s.clean(s.ms("polarised"), "-niter", 10000, "-auto-threshold", 5, "-pol", "IQUV", "-join-polarizations")
    sigma = thermal(load(name + "-I-image.fits")[1])
    for pol, wanted in (("I", (0.3, 0)), ("Q", (0, 1)), ("U", (0, -1)), ("V", (0, 0))):
        image, model = load("%s-%s-image.fits" % (name, pol))[0], load("%s-%s-model.fits" % (name, pol))[0]
        residual = load("%s-%s-residual.fits" % (name, pol))[0]
        s.must(residual.std() < 1.1 * sigma, "%s: residual's rms %.3g of thermal" % (pol, residual.std() / sigma))
        for (x, y, *_), flux in zip(POLARISED, wanted):
            s.near("%s of %d, %d in the image" % (pol, x, y), image[y, x], flux, 4 * sigma)
            # The residual keeps up to the threshold.
            s.near("%s of %d, %d in the model" % (pol, x, y), flux_about(model, x, y), flux, (5 + 4) * sigma)


def check_linked(s):
    """Components are only searched in Stokes I, and have values in all polarisations: a source without I remains. With Q and
    U it is found. Thresholds follow the noise of the searched image, whose sign counts if it is a single image."""
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
    s.must(np.abs(left["I"]).max() < 1.1 * 5 * sigma * 1.05, "I is cleaned to 5 sigma of its noise")
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
        s.must(beams[0] > beams[1] > beams[2], "the band has its own beam")


def check_spectrum_limits(s):
    """An index to 0.02 at an integrated SNR of 1000; two terms of a polynomial within 1 % over a band of a fifth, in which
    the third term of a power law is 0.3 %."""
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
    """A bright source at a pixel centre leaves less than 1e-5 of itself, at the default accuracy, with all methods."""
    bright = [(301, 270, 1, 0, 0, 0, 0), (200, 330, 1e-4, 0, 0, 0, 0)]
    ms = s.made_at("bright.ms", VLA, [*ARRAY, *ONE_BAND, "-noise", "0.0003Jy", *sources(bright)])
    for options in ([], ["-weight", "briggs", 0], ["-multiscale"]):
        name, log = s.clean(ms, "-niter", 100000, "-threshold", 5e-6, *options)
        residual = load(name + "-residual.fits")[0]
        image = load(name + "-image.fits")[0]
        s.must(1 / residual.std() > 1e5 and np.abs(residual).max() < 1e-5, "%s: dynamic range %.3g, to the highest pixel %.3g" %
               (" ".join(map(str, options)) or "natural", 1 / residual.std(), 1 / np.abs(residual).max()))
        s.near("a source of 1e-4 next to it", image[330, 200], 1e-4, 1e-5)
        s.must("accuracy: now 1.5e-06" in log, "the accuracy follows the threshold")
        if options:
            continue
        # The residual is that of the data minus the predicted model, to the accuracy reached in both directions.
        run(s.msimage, "-quiet", "-accuracy", 1e-8, "-predict", "-name", name, "-predict-op", "subtract", "-data-column", "DATA",
            "-output-column", "LEFT", ms)
        exact, _ = s.clean(ms, "-accuracy", 1e-8, "-data-column", "LEFT")
        error = np.std(load(exact + "-dirty.fits")[0] - residual) / np.std(load(name + "-dirty.fits")[0])
        s.must(error < 2 * 1.5e-6, "its residual is the data less the model to %.1e" % error)


def check_thermal_depth(s):
    """With default options the residual is the noise of the visibilities ten million times below a bright source, and
    sources a millionth as bright are found: gridding errors do not limit it."""
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
    """Gaussians of several widths with multiscale cleaning: integrated fluxes within 2 %."""
    array = ["-telescope", "meerkat", "-duration", "1h", "-integration", "3min", "-spw", "1.1GHz", "100MHz", "5"]
    empty = s.made_at("empty.ms", MEERKAT, [*array, "-noise", "0.2Jy", "-source", "60deg", "-45deg", "0Jy"])
    words = ["-weight", "briggs", 0, "-scale", "2.5asec"]
    for size, gaussians in ((256, ((1, 1), (3, 2))), (SIZE, ((10, 5), (30, 20)))):
        name, _ = s.clean(empty, "-make-psf", *words, size=size)
        beam_pixel = load(name + "-psf.fits")[1]["BMAJ"] * 3600 / 2.5
        yy, xx = np.mgrid[:size, :size] - size // 2
        for beams, flux in gaussians:
            sky = np.exp(-4 * np.log(2) * ((xx + 26)**2 + (yy - 14)**2) / (beams * beam_pixel)**2)
            with fits.open(name + "-dirty.fits") as f:
                f[0].data[...] = flux * sky / sky.sum()
                f[0].header["BUNIT"] = "Jy/pixel"
                f.writeto(s.path("extended-model.fits"), overwrite=True)
            run(s.msimage, "-quiet", "-predict", "-name", s.path("extended"), "-predict-op", "add", "-data-column",
                "DATA", "-output-column", "CORRECTED_DATA", empty)
            for depth in (["-auto-mask", 5, "-auto-threshold", 1], ["-auto-threshold", 3]):
                cleaned, _ = s.clean(empty, "-niter", 100000, "-multiscale", *words, *depth, size=size)
                s.near("gaussian of %d beams, %s" % (beams, depth[0]), load(cleaned + "-model.fits")[0].sum(), flux,
                       0.02 * flux)


def check_independent(s):
    """Images that are not joined are cleaned independently: a channel, polarisation or interval of several gives the same as
    a run of it alone."""
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


def check_beam(s):
    """Images are restored with the beam of the user, which is in the headers."""
    words = ["-niter", 500, "-auto-threshold", 5]
    for options, widths, angle in ((["-beam-size", 30], (30, 30), 0), (["-beam-shape", "40asec", 20, 30], (40, 20), 30)):
        name, _ = s.clean(s.ms("points"), *words, *options)
        image, header = load(name + "-image.fits")
        s.must(np.allclose([header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"]], [*widths, angle]),
               "%s: %g x %g arcsec, %g deg" % (options[0], header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"]))
        s.near("the peak of a point", image[256, 256], 1, 0.02)
    name, log = s.clean(s.ms("points"), *words, "-no-fit-beam")
    s.must(np.isnan(load(name + "-image.fits")[0]).all() and "there is no beam" in log, "no beam, no image")


def check_estimates(s):
    """After each cycle the log has an estimate of the cycles left; with a constant decay it is right."""
    _, log = s.clean(s.ms("points"), "-niter", 100000, "-mgain", 0.5, "-threshold", 0.012, "-no-update-model-required")
    told = [int(line.split("about ")[1].split()[0]) for line in log.splitlines() if " more cycles, " in line]
    n = sum(line.startswith("cycle ") for line in log.splitlines())
    s.must(n > 4 and len(told) >= n - 3 and all(abs(i + 1 + left - n) <= 2 for i, left in enumerate(told)),
           "of %d cycles, left: %s" % (n, told))


def check_record(s):
    """The record of convergence: a line for each cycle and scale, with consistent iterations and fluxes."""
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


main(CleanSuite, globals())
