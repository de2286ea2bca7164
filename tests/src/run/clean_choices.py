#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_choices.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: options of deconvolution that choose between methods do what the manual
says, from the command line to the files: beams, shapes of scales, squared channels, masks that follow the residual, local
noise."""
import csv
import glob

import numpy as np
from astropy.io import fits
from casacore.tables import table

from image_oracle import ASEC, Frame, load
from program_suite import VLA, Suite, fresh_copy, main, run

SIZE, CELL = 256, 4.0
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(VLA))
POINTS = [(128, 128, 1.0), (170, 150, 0.3), (80, 60, -0.2), (60, 190, 0.03)]
LIGHT = 299792458.0


class Choices(Suite):
    def ms(self):
        words = []
        for x, y, flux in POINTS:
            ra, dec = np.degrees(FRAME.sky(x, y))
            words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, "%.15gJy" % flux]
        return self.made_at("choices.ms", VLA, ["-telescope", "vla", "-duration", "10min", "-integration", "1min", "-spw",
                                                "1.38GHz", "10MHz", "8", "-noise", "0.2Jy", *words])

    def clean(self, *options, ms=None):
        """Clean a set. Returns the prefix of the files."""
        name = self.path("choice%d" % next(self.number))
        run(self.msimage, "-quiet", "-j", 2, "-backend", "cpu", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL,
            "-no-update-model-required", "-niter", 2000, "-name", name, *options, ms or self.ms())
        return name


def beam_of(name):
    header = load(name + "-image.fits")[1]
    return np.array([3600 * header["BMAJ"], 3600 * header["BMIN"], header["BPA"]])


def check_beams(s):
    """The default is a fitted ellipse; a circle has a width between its axes; the theoretic beam is the wavelength over the
    longest baseline; the box of the fit changes the beam."""
    words = ["-threshold", 0.1]
    fitted = beam_of(s.clean(*words))
    s.must(fitted[0] > 1.01 * fitted[1], "an ellipse of %.4g x %.4g arcsec, %.3g deg" % tuple(fitted))
    for title, options in (("-elliptical-beam", ["-circular-beam", "-elliptical-beam"]), ("-fit-beam", ["-no-fit-beam", "-fit-beam"])):
        s.must((beam_of(s.clean(*words, *options)) == fitted).all(), "%s: the last one counts" % title)
    circle = beam_of(s.clean(*words, "-circular-beam"))
    s.must(circle[0] == circle[1] and fitted[1] < circle[0] < fitted[0] and circle[2] == 0, "a circle of %.4g arcsec" % circle[0])
    with table(s.ms(), ack=False) as rows, table(s.ms() + "::SPECTRAL_WINDOW", ack=False) as spw:
        longest = np.linalg.norm(rows.getcol("UVW"), axis=1).max() * spw.getcol("CHAN_FREQ").max() / LIGHT
    theoretic, wanted = beam_of(s.clean(*words, "-theoretic-beam")), 1 / longest / ASEC
    s.must(theoretic[0] == theoretic[1] and abs(theoretic[0] / wanted - 1) < 1e-3, "-theoretic-beam: %.5g of %.5g arcsec" %
           (theoretic[0], wanted))
    boxed = beam_of(s.clean(*words, "-beam-fitting-size", 1))
    s.must((boxed[:2] != fitted[:2]).all() and (np.abs(boxed[:2] / fitted[:2] - 1) < 0.3).all(),
           "-beam-fitting-size 1: %.4g x %.4g arcsec" % tuple(boxed[:2]))


def spheroidal(v):
    """The zero-order spheroidal wave function for m = 6 and alpha = 1 at v in [0, 1]: the eigenfunction of the transform over
    [-1, 1] of (1 - t^2) times the function, by power iteration."""
    node, weight = np.polynomial.legendre.leggauss(96)
    grid, psi = np.pi * 3, np.exp(-4 * node**2)
    for _ in range(60):
        psi = np.cos(grid * np.outer(node, node)) @ (weight * (1 - node**2) * psi)
        psi /= np.abs(psi).max()
    return (np.cos(grid * np.multiply.outer(v, node)) @ (weight * (1 - node**2) * psi)).reshape(np.shape(v))


def shape_of(kind, width, r):
    """The kernel of a scale over its peak, as in the manual: (1 - (r/s)^2) under a Hann window, or a gaussian of 3s/16."""
    if kind == "gaussian":
        return np.exp(-0.5 * (r / (3 * width / 16))**2)
    if kind == "spheroidal":
        v = np.minimum(2 * r / width, 1)
        return (1 - v**2) * spheroidal(v) / spheroidal(np.zeros(1))
    n = 2 * np.ceil(width / 2) + 1
    inside = (2 * r <= n + 1) & (r < width)
    return np.where(inside, 0.5 * (1 + np.cos(2 * np.pi * r / (n + 1))) * (1 - (r / width)**2), 0)


def scales_of(name):
    with open(name + "-clean.csv", encoding="utf-8") as f:
        return {float(row["scale"]) for row in csv.DictReader(f) if row["major"] != "0"}


def check_scales(s):
    """A component of a wide scale has the requested shape; the number of scales is limited as requested; rounds change the
    scale as often as their gain requires."""
    width, words = 24, ["-multiscale", "-threshold", 0.01]
    y, x = np.mgrid[:SIZE, :SIZE]
    for kind in ("tapered-quadratic", "gaussian", "spheroidal"):
        # This bias favours the wide scale for any sky.
        model = load(s.clean(*words, "-multiscale-scales", "0,%d" % width, "-multiscale-scale-bias", 0.05, "-multiscale-shape", kind,
                             "-niter", 1) + "-model.fits")[0]
        j, i = np.unravel_index(np.abs(model).argmax(), model.shape)
        error = np.abs(model / model[j, i] - shape_of(kind, width, np.hypot(x - i, y - j))).max()
        s.must(error < 1e-5, "a %s: off by %.1e" % (kind, error))
    without = s.clean(*words, "-multiscale-scales", "8,%d" % width, "-niter", 200)
    residual, dirty = (np.abs(load(without + kind)[0]).max() for kind in ("-residual.fits", "-dirty.fits"))
    s.must({8.0} <= scales_of(without) <= {8.0, float(width)} and residual < dirty, "without points: scales %s, peak %.3g of %.3g" %
           (scales_of(without), residual, dirty))
    wide, two = (s.clean(*words, "-multiscale-scale-bias", 0.4, *o) for o in ([], ["-multiscale-max-scales", 2]))
    s.must(len(scales_of(wide)) > 2 and len(scales_of(two)) == 2 and max(scales_of(two)) < max(scales_of(wide)),
           "%d scales, at most two: %d" % (len(scales_of(wide)), len(scales_of(two))))
    # A round that cleans a scale to a hundredth of its peak takes all components; short rounds leave some to the other scale.
    once, often = (scales_of(s.clean(*words, "-multiscale-scales", "0,%d" % width, "-multiscale-scale-bias", 0.3, "-mgain", 1,
                                     "-niter", 60, "-multiscale-gain", g)) for g in (0.99, 0.1))
    s.must(len(once) == 1 and len(often) == 2, "-multiscale-gain 0.99: %d scale, 0.1: %d" % (len(once), len(often)))


def check_scales_without_response(s):
    """A scale without a response, for lack of short baselines, is left out with a line in the log, by every rule."""
    ms = s.made_at("snapshot.ms", VLA, ["-telescope", "vla", "-config", "C", "-duration", "2min", "-integration", "20s",
                                        "-spw", "1.4GHz", "20MHz", "4", "-noise", "0.1Jy", "-source", "%gdeg" % VLA[0], "%gdeg" % VLA[1], "1Jy"])
    for words in ([], ["-multiscale-rule", "tclean"]):
        name = s.path("few%d" % next(s.number))
        log = run(s.msimage, "-j", 2, "-backend", "cpu", "-size", 512, 512, "-scale", "3asec", "-minuv-l", 1000, "-niter", 2000,
                  "-no-update-model-required", "-auto-threshold", 3, "-multiscale", *words, "-name", name, ms).stderr.decode()
        lines = [line for line in log.splitlines() if line.startswith("scales left out")]
        flux = load(name + "-model.fits")[0].sum()
        s.must(len(lines) == 1 and "cleaned: ended by 'threshold'" in log and abs(flux - 1) < 0.05,
               "few short baselines%s: %s, flux %.3f" % ("".join(" " + w for w in words), lines, flux))


def check_rule(s):
    """By the rule of tclean the first component is at the maximum of (R * K)^2 / (P * K * K)(0) times the factor of
    -smallscalebias, and it is the gain times (R * K) / (P * K * K)(0)."""
    width = 8
    y, x = np.mgrid[:SIZE, :SIZE] - SIZE // 2
    kernel = shape_of("spheroidal", width, np.hypot(x, y))
    kernel_hat = np.fft.rfft2(np.fft.ifftshift(kernel / kernel.sum()))
    found = set()
    for bias in (0, -1):
        name = s.clean("-multiscale", "-multiscale-rule", "tclean", "-multiscale-scales", "0,%d" % width, "-multiscale-shape",
                       "spheroidal", "-smallscalebias", bias, "-make-psf", "-threshold", 0.01, "-niter", 1)
        psf, dirty, model = (load("%s-%s.fits" % (name, kind))[0] for kind in ("psf", "dirty", "model"))
        psf_hat, dirty_hat = np.fft.rfft2(np.fft.ifftshift(psf)), np.fft.rfft2(dirty)
        power = np.fft.irfft2(psf_hat * kernel_hat**2)[0, 0]
        peak = [np.abs(dirty).max(), np.abs(np.fft.irfft2(dirty_hat * kernel_hat)).max()]
        is_wide = peak[1]**2 / power * (1 - bias) > peak[0]**2
        flux = 0.1 * (peak[1] / power if is_wide else peak[0])
        found.add(is_wide)
        s.must((np.count_nonzero(model) > 1) == is_wide and abs(model.sum() / flux - 1) < 1e-4,
               "-smallscalebias %g: a component of %s, %.6g Jy, not %.6g" % (bias, width if is_wide else 0, model.sum(), flux))
    s.must(len(found) == 2, "the bias decides")


def check_rule_in_a_mask(s):
    """By the rule of tclean all scales continue where any scale was found, down to the threshold, even if no
    points were found."""
    words = []
    for y in range(-18, 19, 3):
        for x in range(-18, 19, 3):
            ra, dec = np.degrees(FRAME.sky(128 + x, 128 + y))
            words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, "%.6gJy" % (0.1 * np.exp(-(x * x + y * y) / 128))]
    ms = s.made_at("wide.ms", VLA, ["-telescope", "vla", "-duration", "10min", "-integration", "1min", "-spw", "1.38GHz", "10MHz", "8",
                                    "-noise", "0.1Jy", *words])
    name = s.clean("-multiscale", "-multiscale-rule", "tclean", "-multiscale-scales", "0,16,32", "-mgain", 0.8,
                   "-auto-mask", 10, "-auto-threshold", 4, ms=ms)
    with open(name + "-clean.csv", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    last = rows[-1]
    s.must("0" not in {row["scale"] for row in rows if row["major"] == "1"} and last["stop"] == "threshold" and
           2 < abs(float(last["peak"])) / float(last["noise"]) < 5,
           "cleaned by %s in %s cycles of scales %s, to %.3g times the noise" %
           (last["stop"], last["major"], sorted(scales_of(name)), float(last["peak"]) / float(last["noise"])))


def check_squared(s):
    """A source that is positive in one channel and negative in the other is only found by squares."""
    ms = fresh_copy(s.ms(), s.path("signs.ms"))
    with table(ms, readonly=False, ack=False) as rows:
        for column in ("DATA", "CORRECTED_DATA"):
            if column in rows.colnames():
                data = rows.getcol(column)
                data[:, 4:] *= -1
                rows.putcol(column, data)
    for options, want in (([], 0), (["-squared-channel-joining"], 1)):
        name = s.clean("-channels-out", 2, "-join-channels", "-threshold", 0.1, *options, ms=ms)
        flux = [load(name + c + "-model.fits")[0][125:132, 125:132].sum() for c in ("-0000", "-0001")]
        s.must(abs(flux[0] - want) < 0.15 and abs(flux[1] + want) < 0.15, "%s: %.3g and %.3g Jy" %
               (" ".join(options) or "joined by means", *flux))


def check_negative(s):
    """Negative components are made unless an option forbids them; the last option counts."""
    words = ["-threshold", 0.05]
    plain = load(s.clean(*words) + "-model.fits")[0]
    s.must(plain[57:64, 77:84].sum() < -0.1, "a negative source of %.3g Jy" % plain[57:64, 77:84].sum())
    s.must((load(s.clean(*words, "-no-negative", "-negative") + "-model.fits")[0] == plain).all(), "-negative takes -no-negative back")


def check_mask_choices(s):
    """Each number of -auto-multithresh changes the mask as the manual of tclean says. With low sidelobe thresholds masks
    grow from cycle to cycle; with high ones they contain only bright sources."""
    def mask(sidelobe, *options):
        name = s.clean("-threshold", 0.05, "-nmiter", 3, "-auto-multithresh", "-sidelobethreshold", sidelobe, *options)
        return load(name + "-mask.fits")[0] > 0

    plain = {sidelobe: mask(sidelobe) for sidelobe in (0.5, 1)}
    s.must(0 < plain[1].sum() < plain[0.5].sum() < 0.2 * SIZE**2 and not plain[1][60, 80],
           "-sidelobethreshold: %d pixels, and %d" % (plain[1].sum(), plain[0.5].sum()))
    for sidelobe, is_more, *options in (
            (1, 0, "-noisethreshold", 60), (0.5, 0, "-lownoisethreshold", 5), (1, 1, "-smoothfactor", 3),
            (1, 0, "-cutthreshold", 0.5), (1, 0, "-minbeamfrac", 60), (0.5, 0, "-growiterations", 0),
            (0.5, 0, "-minpercentchange", 100)):
        got, base = mask(sidelobe, *options), plain[sidelobe]
        s.must(got.sum() > base.sum() if is_more else got.sum() < base.sum(), "%s %g: %d pixels, %s than %d" %
               (*options, got.sum(), "more" if is_more else "fewer", base.sum()))
    # With low thresholds the mask grows over regions smaller than the beam, which are pruned unless an option forbids it.
    low = [0.2, "-noisethreshold", 10, "-lownoisethreshold", 2, "-minbeamfrac", 1]
    grown, pruned, kept = mask(*low), mask(*low, "-dogrowprune", "true"), mask(*low, "-dogrowprune", "false")
    s.must(0 < pruned.sum() < kept.sum() and (grown == pruned).all(), "-dogrowprune: %d pixels, without it %d" %
           (pruned.sum(), kept.sum()))
    negative = mask(1, "-negativethreshold", 10)
    s.must(negative[60, 80] and negative[128, 128], "-negativethreshold: the negative source is in the mask")


def check_local_noise(s):
    """A narrow window includes the source in its own noise, so that less of it is cleaned; with rms-with-min the most
    negative residual counts near a negative source."""
    def left(*options):
        return np.abs(load(s.clean("-auto-threshold", 5, "-local-rms", *options) + "-residual.fits")[0])

    narrow, wide = left("-local-rms-window", 3), left("-local-rms-window", 100)
    s.must(narrow[120:137, 120:137].max() > 2 * wide[120:137, 120:137].max(), "%.3g Jy/beam are left of 1 Jy with windows of 3 "
           "beams, %.3g with 100" % (narrow[120:137, 120:137].max(), wide[120:137, 120:137].max()))
    least = left("-local-rms-window", 25, "-local-rms-method", "rms-with-min")
    plain = left("-local-rms-window", 25, "-local-rms-method", "rms")
    s.must(least[57:64, 77:84].max() > 1.2 * plain[57:64, 77:84].max(), "next to a negative source %.3g Jy/beam are left, and %.3g" %
           (least[57:64, 77:84].max(), plain[57:64, 77:84].max()))


def gaussian_rms(image, fwhm):
    """The rms around each pixel, weighted by a Gaussian of this width over the image: a direct sum along each axis."""
    index = np.arange(SIZE)
    kernel = np.exp(-4 * np.log(2) * ((index[:, None] - index) / fwhm)**2)
    return np.sqrt((kernel @ image.astype(float)**2 @ kernel) / np.outer(kernel.sum(1), kernel.sum(0)))


def window_pixel(s, beams):
    """The width of this many beams in pixels; the beam is the wavelength over the longest baseline."""
    with table(s.ms(), ack=False) as rows, table(s.ms() + "::SPECTRAL_WINDOW", ack=False) as spw:
        longest = np.linalg.norm(rows.getcol("UVW"), axis=1).max() * spw.getcol("CHAN_FREQ").max() / LIGHT
    return beams / (longest * CELL * ASEC)


def check_local_noise_map(s):
    """The threshold follows the lowest local noise of the residual; the first component is at the peak of the residual times
    (lowest noise / noise)^strength; a strength of 0 is none. -local-rms-window and -local-rms-method turn local noise on."""
    words, fwhm = ["-auto-threshold", 5, "-local-rms-window", 6], window_pixel(s, 6)
    for method in ("rms", "rms-with-min"):
        residual, header = load(s.clean(*words, "-local-rms-method", method) + "-residual.fits")
        rms = gaussian_rms(residual, fwhm)
        if method == "rms-with-min":
            half = int(np.ceil(fwhm) // 2)
            low = np.pad(residual, half, constant_values=np.inf)
            low = np.lib.stride_tricks.sliding_window_view(low, (2 * half + 1, 2 * half + 1)).min((2, 3))
            rms = np.maximum(rms, 0.3 * np.abs(low))
        s.must(abs(header["MSITHRES"] / (5 * rms.min()) - 1) < 1e-4, "%s: the threshold is %.6g Jy/beam, 5 times the noise %.6g" %
               (method, header["MSITHRES"], 5 * rms.min()))
    found = set()
    for strength in (1, 0.5, 0.1):
        name = s.clean(*words, "-local-rms-strength", strength, "-niter", 1)
        dirty, model = load(name + "-dirty.fits")[0], load(name + "-model.fits")[0]
        rms = gaussian_rms(dirty, fwhm)
        place = np.abs(dirty * (rms.min() / rms)**strength).argmax()
        s.must(np.abs(model).argmax() == place and np.count_nonzero(model) == 1, "-local-rms-strength %g: a component at pixel (%d, %d)" %
               (strength, place % SIZE + 1, place // SIZE + 1))
        found.add(place)
    s.must(len(found) > 1, "strengths choose different peaks")
    for method in ([], ["-multiscale"]):
        none, plain = (load(s.clean("-auto-threshold", 5, "-niter", 50, *method, *words) + "-image.fits")[0]
                       for words in (["-local-rms", "-local-rms-strength", 0], []))
        s.must((none == plain).all(), "-local-rms-strength 0 %s: no local noise" % " ".join(method))


def check_channels_at_once(s):
    """Channels that are cleaned at the same time, and written by several threads, have the images, records and lines of the
    log of channels that are cleaned one after the other by one thread."""
    made = {}
    for threads in (1, 2):
        name = s.path("at-once%d" % threads)
        log = run(s.msimage, "-j", threads, "-backend", "cpu", "-size", 64, 64, "-scale", "8asec", "-no-update-model-required",
                  "-niter", 200, "-mgain", 0.7, "-channels-out", 4, "-name", name, s.ms()).stderr.decode()
        files = sorted(glob.glob(name + "-*.fits"))
        with open(name + "-clean.csv") as f:
            steps = [[v for k, v in row.items() if k != "seconds"] for row in csv.DictReader(f)]
        made[threads] = ([f[len(name):] for f in files], np.array([fits.getdata(f) for f in files]), steps,
                         [line.split("; minor iterations")[0] for line in log.splitlines() if ("cycle" in line or line.startswith("  ")) and "more cycle" not in line])
    s.must(len(made[1][0]) == 25 and made[1][0] == made[2][0] and np.array_equal(made[1][1], made[2][1]), "images at once")
    s.must(len(made[1][2]) > 8 and made[1][2] == made[2][2], "record of channels at once")
    s.must(len(made[1][3]) > 8 and made[1][3] == made[2][3], "log of channels at once")


def check_no_noise(s):
    """Local noise of data that are all zero is not used: the run ends as without it."""
    ms = fresh_copy(s.ms(), s.path("zero.ms"))
    with table(ms, readonly=False, ack=False) as t:
        t.putcol("DATA", np.zeros_like(t.getcol("DATA")))
    headers = [load(s.clean("-auto-threshold", 5, *words, ms=ms) + "-image.fits")[1]["MSISTOP"]
               for words in (["-local-rms"], [])]
    s.must(headers[0] == headers[1] == "nothing left", "of zero data: %s" % headers)


def cycles_of(name):
    """The numbers of the major cycles of a run."""
    with open(name + "-clean.csv", encoding="utf-8") as f:
        return {int(row["major"]) for row in csv.DictReader(f)}


def check_mask_cycles(s):
    """-auto-mask-nmiter limits the cycles after the mask is complete; -force-mask-rounds delays it."""
    words = ["-auto-mask", 20, "-auto-threshold", 0.5, "-mgain", 0.3]

    def split(*options):
        name = s.path("choice%d" % next(s.number))
        log = run(s.msimage, "-j", 2, "-backend", "cpu", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 5000,
                  "-no-update-model-required", "-name", name, *words, *options, s.ms()).stderr.decode()
        lines = [line for line in log.splitlines() if line.startswith("cycle ")]
        return sum(", masked:" not in line for line in lines), sum(", masked:" in line for line in lines), name
    whole = split()
    s.must(whole[0] > 2 and whole[1] > 3, "without a limit: %d cycles, then %d in the mask" % whole[:2])
    for limit in (0, 1, 2):
        got = split("-auto-mask-nmiter", limit)
        stop = load(got[2] + "-image.fits")[1]["MSISTOP"]
        s.must(got[:2] == (whole[0], limit) and stop == "major cycles", "-auto-mask-nmiter %d: %d and %d cycles, %s" %
               (limit, *got[:2], stop))
    # With 8 cycles half of them are kept for the mask, unless they are forced.
    plain, forced = split("-nmiter", 8, "-mgain", 1), split("-nmiter", 8, "-mgain", 1, "-force-mask-rounds", 6)
    s.must(forced[0] >= plain[0], "-force-mask-rounds: %d cycles before the mask, %d without" % (forced[0], plain[0]))


def check_absolute_mask(s):
    """-abs-auto-mask makes the mask down to a flux; with -auto-mask the higher of the two counts."""
    flux = 0.1
    for options, at_flux in ((["-abs-auto-mask", "%gmJy" % (1e3 * flux)], True), (["-abs-auto-mask", "%gJy" % flux, "-auto-mask", 1], True),
                             (["-abs-auto-mask", "1uJy", "-auto-mask", 20], False)):
        name = s.path("choice%d" % next(s.number))
        log = run(s.msimage, "-j", 2, "-backend", "cpu", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 5000, "-mgain", 0.5,
                  "-auto-threshold", 0.5, "-no-update-model-required", "-name", name, *options, s.ms()).stderr.decode()
        before = sum(line.startswith("cycle ") and ", masked:" not in line for line in log.splitlines())
        with open(name + "-clean.csv", encoding="utf-8") as f:
            rows = list(csv.DictReader(f))
        peak = [abs(float(row["peak"])) for row in rows if int(row["major"]) in (before - 1, before)]
        limit = flux if at_flux else 20 * float(next(row["noise"] for row in rows if int(row["major"]) == before))
        s.must(before > 1 and peak[0] > limit and peak[-1] < 1.2 * limit and load(name + "-mask.fits")[0].any(),
               "%s: %d cycles before the mask, peaks %.3f and %.3f, limit %.3f" % (" ".join(map(str, options)), before, peak[0], peak[-1], limit))


def check_skipped_residual(s):
    """-skip-final-iteration: the model is that of a run with as many cycles; the residual is the one of the cycle before minus
    the PSF times the last components; without it, it is exact. Means of channels keep exact residuals."""
    words = ["-threshold", 0.001, "-mgain", 0.7]
    one, two, skipped = s.clean(*words, "-nmiter", 1), s.clean(*words, "-nmiter", 2), s.clean(*words, "-nmiter", 2,
                                                                                              "-skip-final-iteration")
    first, last = load(one + "-model.fits")[0], load(two + "-model.fits")[0]
    s.must((load(skipped + "-model.fits")[0] == last).all() and cycles_of(skipped) == cycles_of(two) == {0, 1, 2},
           "the model of two cycles is the same")
    psf, wanted = load(one + "-psf.fits")[0], load(one + "-residual.fits")[0].astype(float)
    wide = np.pad(psf.astype(float), SIZE)
    for y, x in np.argwhere(last != first):
        top, left = SIZE + SIZE // 2 - y, SIZE + SIZE // 2 - x
        wanted -= (float(last[y, x]) - float(first[y, x])) * wide[top:top + SIZE, left:left + SIZE]
    got, exact = load(skipped + "-residual.fits")[0], load(two + "-residual.fits")[0]
    # Single precision: 1e-6 of the first peak.
    s.must(np.abs(got - wanted).max() < 2e-6 < np.abs(exact - wanted).max(), "the residual of minor iterations, to %.1g Jy/beam; the "
           "exact one differs by %.1g" % (np.abs(got - wanted).max(), np.abs(exact - wanted).max()))
    words += ["-channels-out", 4, "-join-channels", "-nmiter", 2]
    for more, same in (([], 0), (["-deconvolution-channels", 2, "-fit-spectral-pol", 2], 1)):
        pair = [load(s.clean(*words, *more, *skip) + "-0002-residual.fits")[0] for skip in ([], ["-skip-final-iteration"])]
        s.must((pair[0] == pair[1]).all() == same, "joined channels, %s residual" % ("exact" if same else "its minor iterations'"))


main(Choices, globals())
