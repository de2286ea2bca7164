#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Multi-term cleaning (-deconvolver mtmfs): terms of a lone source against least squares, MODEL_DATA and -predict against
the polynomial, errors of spectral indices against their scatter, joined polarisations, and refusals.
taylor.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from program_suite import ImagingSuite, fresh_copy, main
import numpy as np
from astropy.io import fits
from casacore.tables import table

N, CELL = 128, "4asec"
# The published table of tt0, alpha and beta of a flux (frequency / middle)^index in 8 channels, by index and terms; for each band
# in Hz. They are those of least squares, not the true ones.
TABLE = {
    (1e9, 2e9): {(-2, 2): (1.1660, -2.0521), (-2, 3): (0.9906, -2.4155, -0.4058), (-2, 4): (None, -1.9900),
                 (-0.7, 2): (1.0305, -0.7270), (-0.7, 3): (0.9991, -0.7498, 0.0033), (-0.7, 4): (None, -0.6985),
                 (0.5, 2): (0.9939, 0.5086), (0.5, 3): (1.0001, 0.5055, -0.0048), (0.5, 4): (None, 0.4999)},
    (1e9, 1.5e9): {(-2, 2): (1.0542, -2.0182), (-2, 3): (0.9989, -2.1298, -0.1085), (-2, 4): (None, -1.9989),
                   (-0.7, 2): (1.0105, -0.7093), (-0.7, 3): (0.9999, -0.7168, 0.0013), (-0.7, 4): (None, -0.6998),
                   (0.5, 2): (0.9978, 0.5030), (0.5, 3): (1.0000, 0.5019, -0.0017), (0.5, 4): (None, 0.5000)}}
RULES = {"the largest tt0": (), "tclean's rule": ("-multiscale", "-multiscale-scales", "0", "-multiscale-rule", "tclean")}


def lone_source(s, index, band=(1e9, 2e9)):
    return s.made("lone%g-%g.ms" % (index, band[1] / 1e9), "-telescope", "vla", "-config", "C", "-duration", "3min", "-integration", "60s", "-spw",
                  "%.1fHz" % band[0], "%.9fHz" % ((band[1] - band[0]) / 7), 8, "-pol", "XX,YY", "-ra", "30deg", "-dec", "40deg", "-source",
                  "30deg", "40deg", "1Jy", index, "-reference-frequency", "%.1fHz" % np.mean(band))


def pixels(s, name, kind):
    with fits.open(os.path.join(s.out, "%s-%s.fits" % (name, kind))) as f:
        return f[0].data.squeeze().astype(float), f[0].header


def middle(s, name, kind):
    return pixels(s, name, kind)[0][N // 2, N // 2]


def place_of(x, y):
    """RA and DEC of a pixel."""
    l, m = (N / 2 - x) * 4 / 206264.806247, (y - N / 2) * 4 / 206264.806247
    dec0, n = np.radians(40), np.sqrt(1 - l * l - m * m)
    ra = np.radians(30) + np.arctan2(l, n * np.cos(dec0) - m * np.sin(dec0))
    return "%.12fdeg" % np.degrees(ra), "%.12fdeg" % np.degrees(np.arcsin(m * np.cos(dec0) + n * np.sin(dec0)))


def clean(s, ms, name, *words):
    done = s.launch("-quiet", "-overwrite", "-size", N, N, "-scale", CELL, "-weight", "natural", "-deconvolver", "mtmfs", "-niter",
                    300, "-gain", 0.5, "-no-update-model-required", "-name", name, *words, ms)
    s.must(done.returncode == 0, "%s: runs%s" % (name, done.stderr[-800:]))


def mask_of(s, *places):
    """A mask of these pixels (x, y)."""
    made = np.zeros((N, N), np.float32)
    for x, y in places:
        made[y, x] = 1
    path = s.path("mask%d.fits" % len(places))
    cell = float(CELL[:-4]) / 3600
    cards = {"CTYPE1": "RA---SIN", "CRPIX1": N // 2 + 1, "CRVAL1": 30, "CDELT1": -cell, "CUNIT1": "deg", "CTYPE2": "DEC--SIN",
             "CRPIX2": N // 2 + 1, "CRVAL2": 40, "CDELT2": cell, "CUNIT2": "deg"}
    fits.PrimaryHDU(made, fits.Header(cards)).writeto(path, overwrite=True)
    return path


def check_table(s):
    """Terms, alpha and beta of a lone source are those of least squares, not the true ones."""
    mask = mask_of(s, (N // 2, N // 2))
    for (band, table_of), rule in zip(TABLE.items(), RULES.values()):
        for (index, n_term), (flux, alpha, *beta) in table_of.items():
            clean(s, lone_source(s, index, band), "lone", "-nterms", n_term, "-fits-mask", mask, "-threshold", "2e-6", "-accuracy", 1e-6, *rule)
            x = np.linspace(*band, 8) / np.mean(band) - 1
            case = "to %g GHz, index %g, %d terms" % (band[1] / 1e9, index, n_term)
            fitted = np.linalg.lstsq(np.vander(x, n_term, increasing=True), (1 + x)**index, rcond=None)[0]
            for t in range(n_term):
                term = middle(s, "lone", "tt%d-image" % t)
                s.must(abs(term - fitted[t]) <= 3e-5 * max(1, abs(fitted[t])), "%s: tt%d is %.5f, wanted %.5f" % (case, t, term, fitted[t]))
            for what, value, kind in (("tt0", flux, "tt0-image"), ("alpha", alpha, "alpha"), ("beta", beta and beta[0], "beta")):
                if value is not None and value != []:
                    found = middle(s, "lone", kind)
                    s.must(abs(found - value) <= 1e-3, "%s: %s is %.4f, wanted %.4f" % (case, what, found, value))
            powers = [np.mean(x**k) for k in range(2 * n_term - 1)]
            for k, power in enumerate(powers):
                peak = middle(s, "lone", "tt%d-psf" % k)
                s.must(abs(peak - power) <= 1e-5, "PSF %d is %.6f in the middle, the mean %.6f" % (k, peak, power))
    # A reference outside of the band: the same polynomial about another point.
    for reference in 0.8, 2.6:
        clean(s, lone_source(s, -0.7), "far", "-nterms", 3, "-fits-mask", mask, "-threshold", "2e-6", "-accuracy", 1e-6, "-reffreq", "%gGHz" % reference)
        x = np.linspace(1, 2, 8) / reference - 1
        fitted = np.linalg.lstsq(np.vander(x, 3, increasing=True), (np.linspace(1, 2, 8) / 1.5)**-0.7, rcond=None)[0]
        terms = np.array([middle(s, "far", "tt%d-image" % t) for t in range(3)])
        off = np.abs(np.vander(x, 3, increasing=True) @ (terms - fitted)).max()
        s.must(off <= 1e-4 and abs(terms[1] / terms[0] - fitted[1] / fitted[0]) <= 1e-3, "about %g GHz: the spectrum is off by %.1e, alpha is %.4f, wanted %.4f" % (reference, off, terms[1] / terms[0], fitted[1] / fitted[0]))
    header = pixels(s, "lone", "tt1-image")[1]
    s.must(header["TERM"] == 1 and header["NTERMS"] == 4 and abs(header["CRVAL3"] - 1.25e9) < 1, "cards of a term")


def check_predict(s):
    """MODEL_DATA after cleaning, and of -predict, is the polynomial; imaging less the model leaves what the fit leaves."""
    ms = s.path("predicted.ms")
    fresh_copy(lone_source(s, -0.7), ms)
    words = ("-nterms", 3, "-fits-mask", mask_of(s, (N // 2, N // 2)), "-threshold", "0.1", "-reffreq", "1.3GHz")
    done = s.launch("-quiet", "-overwrite", "-size", N, N, "-scale", CELL, "-weight", "natural", "-deconvolver", "mtmfs", "-niter", 300,
                    "-gain", 0.5, "-mgain", 0.9, "-name", "updated", *words, ms)
    s.must(done.returncode == 0, "writes MODEL_DATA%s" % done.stderr[-400:])
    terms = [pixels(s, "updated", "tt%d-model" % t)[0].sum() for t in range(3)]
    x = np.linspace(1e9, 2e9, 8) / 1.3e9 - 1
    wanted = terms[0] + terms[1] * x + terms[2] * x**2

    def compare(title):
        with table(ms, ack=False) as t:
            found = t.getcol("MODEL_DATA")[:, :, 0]
        s.must(np.abs(np.abs(found) - wanted).max() <= 1e-4, "%s: |V| is the polynomial" % title)

    compare("after cleaning")
    done = s.launch("-quiet", "-overwrite", "-size", N, N, "-scale", CELL, "-weight", "natural", "-subtract-model", "-name", "less", ms)
    s.must(done.returncode == 0, "images less the model%s" % done.stderr[-400:])
    residual, less = pixels(s, "updated", "tt0-residual")[0], pixels(s, "less", "dirty")[0]
    s.must(np.abs(residual - less).max() <= 1e-5, "tt0-residual is the image of the data less the model: %.1e" % np.abs(residual - less).max())
    with table(ms, readonly=False, ack=False) as t:
        t.putcol("MODEL_DATA", 0 * t.getcol("MODEL_DATA"))
    done = s.launch("-quiet", "-predict", "-name", "updated", ms)
    s.must(done.returncode == 0, "predicts%s" % done.stderr[-400:])
    compare("-predict")
    os.rename(os.path.join(s.out, "updated-tt1-model.fits"), s.path("aside.fits"))
    s.told("a missing term", s.launch("-predict", "-name", "updated", ms), 3, "term tt1 is missing")
    os.rename(s.path("aside.fits"), os.path.join(s.out, "updated-model.fits"))
    s.told("terms and another model", s.launch("-predict", "-name", "updated", ms), 3, "a model of Taylor terms and another one")
    os.remove(os.path.join(s.out, "updated-model.fits"))


def check_errors(s):
    """Spectral indices of sources in noise scatter by their predicted errors, and resumed cleaning ends the same."""
    random = np.random.default_rng(3)
    at = [(12 + 8 * i, 12 + 8 * j) for i in range(14) for j in range(14)]
    index = random.uniform(-1.5, 1, len(at))
    words = []
    for (x, y), a in zip(at, index):
        words += ["-source", *place_of(x, y), "1Jy", "%.6f" % a]
    ms = s.made("noise.ms", "-telescope", "vla", "-config", "C", "-duration", "2h", "-integration", "10min", "-spw", "1.4GHz", "30MHz", 16,
                "-pol", "XX,YY", "-ra", "30deg", "-dec", "40deg", "-reference-frequency", "1.625GHz", "-noise", "0.5Jy", *words)
    clean(s, ms, "noise", "-niter", 40000, "-gain", 0.2, "-fits-mask", mask_of(s, *at), "-threshold", "2e-3", "-save-source-list")
    with open(os.path.join(s.out, "noise-sources.txt"), encoding="utf-8") as f:
        listed = [line.split(",") for line in f.readlines()[1:]]
    # A source has a pixel to itself: its polynomial is that of the models there.
    listed = np.array([[float(v[4]), float(v[5].strip("[]"))] for v in listed if v[6:8] == ["false", "1625000000"]])
    modelled = np.array([pixels(s, "noise", "tt%d-model" % t)[0][pixels(s, "noise", "tt0-model")[0] != 0] for t in range(2)]).T
    off = np.abs(listed[:, None] - modelled[None]).max(axis=2).min(axis=1).max()
    s.must(listed.shape == modelled.shape and off <= 1e-5 * np.abs(modelled).max(), "the list of sources has the terms of the models, to %.1e Jy" % off)
    alpha, error = pixels(s, "noise", "alpha")[0], pixels(s, "noise", "alpha-error")[0]
    pull = np.array([(alpha[y, x] - a) / error[y, x] for (x, y), a in zip(at, index)])
    spread = np.sqrt(np.mean(pull**2))
    s.must(0.8 <= spread <= 1.2, "errors of alpha are right to 20 %%: %.3f, median error %.4f" % (spread, np.median(error[np.isfinite(error)])))
    s.must(abs(np.mean(pull)) <= 4 / np.sqrt(len(at)), "alpha has no bias: %.3f" % np.mean(pull))
    noise = pixels(s, "noise", "tt0-residual")[0]
    cut = pixels(s, "noise", "tt0-image")[0][np.isfinite(alpha)].min() / (1.4826 * np.median(np.abs(noise - np.median(noise))))
    s.must(4 <= cut, "alpha has values above five times the noise: %.2f" % cut)
    residual = [pixels(s, "noise", "tt%d-residual" % t)[0] for t in range(2)]
    clean(s, ms, "cut", "-niter", 1000, "-like", "tclean", "-auto-threshold", 5, "-nmiter", 2)
    cut = [pixels(s, "cut", kind)[0] for kind in ("tt0-image", "tt0-residual", "alpha")]
    s.must(np.mean(np.isfinite(cut[2]) == (cut[0] > cut[1].max() / 10)) > 0.999, "with -like tclean alpha has values above a tenth of the residual's peak")
    clean(s, ms, "short", "-niter", 20000, "-gain", 0.2, "-fits-mask", mask_of(s, *at), "-threshold", "2e-3", "-nmiter", 2)
    clean(s, ms, "short", "-niter", 40000, "-gain", 0.2, "-fits-mask", mask_of(s, *at), "-threshold", "2e-3", "-continue")
    for t in range(2):
        other = pixels(s, "short", "tt%d-residual" % t)[0]
        s.must(np.std(other - residual[t]) <= 0.02 * np.std(residual[t]), "tt%d continues from models of terms" % t)


def check_extended(s):
    """The spectral index of a Gaussian of 20 pixels, cleaned with scales, is flat over its disc."""
    ms = s.path("extended.ms")
    fresh_copy(s.made("empty.ms", "-telescope", "vla", "-config", "D", "-duration", "4h", "-integration", "20min", "-spw", "1.0625GHz", "125MHz", 8,
                      "-pol", "XX,YY", "-ra", "30deg", "-dec", "40deg", "-source", "30deg", "40deg", "1Jy"), ms)
    size = ("-quiet", "-overwrite", "-size", N, N, "-scale", "10asec")
    s.must(s.launch(*size, "-channels-out", 8, "-name", "drawn", ms).returncode == 0, "headers")
    y, x = np.mgrid[:N, :N] - N // 2
    gauss = np.exp(-4 * np.log(2) * (x**2 + y**2) / 400)
    for c in range(8):
        with fits.open(os.path.join(s.out, "drawn-%04d-dirty.fits" % c)) as f:
            f[0].data[...] = 10 * gauss / gauss.sum() * (f[0].header["CRVAL3"] / 1.5e9)**-0.7
            f[0].header["BUNIT"] = "Jy/pixel"
            f.writeto(os.path.join(s.out, "drawn-%04d-model.fits" % c))
    s.must(s.launch("-quiet", "-predict", "-name", "drawn", ms).returncode == 0, "predicts")
    done = s.launch(*size, "-data-column", "MODEL_DATA", "-weight", "briggs", 0, "-deconvolver", "mtmfs", "-multiscale", "-niter", 20000, "-threshold",
                    "1mJy", "-mgain", 0.7, "-no-update-model-required", "-name", "extended", ms)
    s.must(done.returncode == 0, "cleans%s" % done.stderr[-400:])
    disc = pixels(s, "extended", "alpha")[0][np.hypot(x, y) <= 10]
    s.must(np.isfinite(disc).all() and np.ptp(disc) < 0.06 and abs(np.mean(disc) + 0.72) < 0.06,
           "alpha of the disc is %.3f to %.3f" % (disc.min(), disc.max()))
    flux = pixels(s, "extended", "tt0-model")[0].sum()
    s.must(abs(flux / 10.23 - 1) < 0.02, "flux of the first term: %.3f Jy" % flux)


def check_beam(s):
    """Terms and indices of sources seen through a primary beam are corrected, in noise, out to a fifth of the beam; the
    errors of the indices are right."""
    random = np.random.default_rng(8)
    at = [(9 + 8 * i, 9 + 8 * j) for i in range(14) for j in range(14)]
    index = random.uniform(-2, 1, len(at))
    y, x = np.mgrid[:N, :N] - N // 2
    # A Gaussian whose width is 6.4 arcmin at 1.625 GHz, and that scales with the wavelength.
    radius = np.hypot(x, y) * 4 / 60
    ms = s.path("beam.ms")
    fresh_copy(s.made("unattenuated.ms", "-telescope", "vla", "-config", "C", "-duration", "2h", "-integration", "10min", "-spw", "1.4GHz", "30MHz",
                      16, "-pol", "XX,YY", "-ra", "30deg", "-dec", "40deg", "-noise", "0.3Jy", "-source", "30deg", "40deg", "1e-12Jy"), ms)
    size = ("-quiet", "-overwrite", "-size", N, N, "-scale", CELL)
    s.must(s.launch(*size, "-channels-out", 16, "-name", "seen", ms).returncode == 0, "headers")
    ratio = (1.4e9 + 30e6 * np.arange(16)) / 1.625e9
    beam = np.exp(-4 * np.log(2) * (radius[None] * ratio[:, None, None] / 6.4)**2)
    for c in range(16):
        with fits.open(os.path.join(s.out, "seen-%04d-dirty.fits" % c)) as f:
            f[0].data[...] = 0
            for (i, j), a in zip(at, index):
                f[0].data[..., j, i] = ratio[c]**a * beam[c, j, i]
            f[0].header["BUNIT"] = "Jy/pixel"
            f.writeto(os.path.join(s.out, "seen-%04d-model.fits" % c))
    s.must(s.launch("-quiet", "-predict", "-name", "seen", ms).returncode == 0, "predicts")
    with table(ms, readonly=False, ack=False) as t:
        t.putcol("DATA", t.getcol("DATA") + t.getcol("MODEL_DATA"))
    words = ("-niter", 40000, "-gain", 0.2, "-fits-mask", mask_of(s, *at), "-threshold", "2e-3", "-pbcor", "-pb", "gauss:6.4amin@1.625GHz")
    clean(s, ms, "seen", *words, "-pblimit", 0.15)
    xs = ratio * 1.625e9 / 1.625e9 - 1
    terms = [pixels(s, "seen", "tt%d-pb" % t)[0] for t in range(2)]
    fitted = np.linalg.lstsq(np.vander(xs, 2, increasing=True), beam.reshape(16, -1), rcond=None)[0].reshape(2, N, N)
    for t in range(2):
        s.must(np.nanmax(np.abs(terms[t] - fitted[t])) <= 2e-3, "tt%d-pb is the beam's least-squares polynomial: %.1e" % (t, np.nanmax(np.abs(terms[t] - fitted[t]))))
    alpha, error, flux = (pixels(s, "seen", kind)[0] for kind in ("alpha", "alpha-error", "tt0-pbcor"))
    pull, off, wrong, predicted = [], [], [], []
    for (i, j), a in zip(at, index):
        if beam[:, j, i].mean() < 0.2 or not np.isfinite(alpha[j, i]):
            continue
        root = np.sqrt(beam[:, j, i])
        wanted = np.linalg.lstsq(np.vander(xs, 2, increasing=True) * root[:, None], ratio**a * root, rcond=None)[0]
        pull.append((alpha[j, i] - wanted[1] / wanted[0]) / error[j, i])
        off.append(flux[j, i] / wanted[0] - 1)
        wrong.append(abs(alpha[j, i] - a))
        predicted.append(error[j, i])
    spread = np.sqrt(np.mean(np.square(pull)))
    s.must(len(pull) >= 150 and np.median(wrong) <= np.median(predicted), "%d sources: median error of alpha %.4f, predicted %.4f" % (len(pull), np.median(wrong), np.median(predicted)))
    s.must(0.8 <= spread <= 1.2 and abs(np.mean(pull)) <= 4 / np.sqrt(len(pull)), "errors of corrected alpha are right to 20 %%: %.3f, bias %.3f" % (spread, np.mean(pull)))
    s.must(abs(np.median(off)) < 0.01, "tt0-pbcor has the true fluxes: %.4f" % np.median(off))
    header = pixels(s, "seen", "tt1-pbcor")[1]
    s.must(header["TERM"] == 1 and header["PBMODEL"].lower().startswith("gauss") and "PBMODEL" in pixels(s, "seen", "alpha")[1], "cards of corrected terms")


def check_joined(s):
    """Joined polarisations have terms each, and are corrected for the beam."""
    at = (N // 2 + 20, N // 2 - 15)
    ms = s.made("joined.ms", "-telescope", "vla", "-config", "C", "-duration", "2min", "-integration", "60s", "-spw", "1GHz", "125MHz", 8,
                "-pol", "XX,XY,YX,YY", "-ra", "30deg", "-dec", "40deg", "-source", *place_of(*at), "1Jy", "0.2Jy", "-0.1Jy", "0.05Jy", -0.7,
                "-reference-frequency", "1.4375GHz")
    clean(s, ms, "joined", "-nterms", 2, "-pol", "IQUV", "-join-polarizations", "-fits-mask", mask_of(s, at), "-threshold", "1e-5", "-png", "-pbcor",
          "-pb", "gauss:5amin@1.4375GHz")
    ratio = np.linspace(1, 1.875, 8) / 1.4375
    powers, beam = np.vander(ratio - 1, 2, increasing=True), np.exp(-4 * np.log(2) * (np.hypot(20, 15) * 4 / 60 * ratio / 5)**2)
    fitted = np.linalg.lstsq(powers, ratio**-0.7, rcond=None)[0]
    # The data are not attenuated, so that the true flux is that over the beam, with weights times the beam.
    true = np.linalg.lstsq(powers * np.sqrt(beam)[:, None], ratio**-0.7 / np.sqrt(beam), rcond=None)[0]
    for pol, flux in (("I", 1), ("Q", .2), ("U", -.1), ("V", .05)):
        for t in range(2):
            for kind, wanted in (("image", flux * fitted[t]), ("pbcor", flux * true[t])):
                found = pixels(s, "joined", "tt%d-%s-%s" % (t, pol, kind))[0][at[1], at[0]]
                s.must(abs(found - wanted) <= 1e-4, "%s tt%d of %s is %.5f, wanted %.5f" % (pol, t, kind, found, wanted))
    alpha = pixels(s, "joined", "I-alpha")[0][at[1], at[0]]
    s.must(abs(alpha - true[1] / true[0]) <= 1e-3, "corrected alpha is %.4f, wanted %.4f" % (alpha, true[1] / true[0]))
    s.must(os.path.exists(os.path.join(s.out, "joined-I-alpha.fits")) and os.path.exists(os.path.join(s.out, "joined-I-alpha.png")), "alpha of Stokes I, and its picture")
    s.must(os.path.exists(os.path.join(s.out, "joined-tt1-Q-pb.png")), "a picture of a term of the beam")
    s.must(not os.path.exists(s.path("joined-Q-alpha.fits")), "no alpha of Q")


def check_squares(s):
    """One component of unit gain by the rule of tclean lowers chi^2 of the visibilities, over the sum of weights, by the sum
    over terms of its models times R_t."""
    ms, words = s.path("squares.ms"), []
    for k in range(60):  # a disc of points, over which a wide scale is best
        r, angle = 5 * np.sqrt(k + 0.5) / np.sqrt(60), 2.4 * k
        words += ["-source", *place_of(70 + r * np.cos(angle), 50 + r * np.sin(angle)), "0.1Jy", "-0.7"]
    fresh_copy(s.made("disc.ms", "-telescope", "vla", "-config", "D", "-duration", "1h", "-integration", "10min", "-spw", "1GHz", "125MHz", 8,
                      "-pol", "XX,YY", "-ra", "30deg", "-dec", "40deg", "-noise", "0.05Jy", *words, "-source", *place_of(30, 90), "0.5Jy", "-1"), ms)
    for title, scales, wide in (("a point", "0", False), ("a scale", "0,10", True)):
        done = s.launch("-quiet", "-overwrite", "-size", N, N, "-scale", CELL, "-weight", "natural", "-deconvolver", "mtmfs", "-nterms", 3, "-multiscale",
                        "-multiscale-scales", scales, "-multiscale-rule", "tclean", "-niter", 1, "-gain", 1, "-threshold", "1e-9", "-accuracy", 1e-6,
                        "-name", "squares", "-update-model-required", ms)
        s.must(done.returncode == 0, "%s: cleans%s" % (title, done.stderr[-400:]))
        model, dirty = ([pixels(s, "squares", "tt%d-%s" % (t, kind))[0] for t in range(3)] for kind in ("model", "dirty"))
        with table(ms, ack=False) as t:
            seen, predicted = (t.getcol(name).mean(axis=2) for name in ("DATA", "MODEL_DATA"))
        fall, wanted = np.mean(np.abs(seen)**2 - np.abs(seen - predicted)**2), sum(np.sum(m * d) for m, d in zip(model, dirty))
        s.must((np.count_nonzero(model[0]) > 1) == wide, "%s: the component has %d pixels" % (title, np.count_nonzero(model[0])))
        s.must(abs(fall / wanted - 1) <= 1e-5, "%s: chi^2 falls by %.7g, wanted %.7g" % (title, fall, wanted))


def check_bad(s):
    ms = lone_source(s, -0.7)
    line = ("-size", N, N, "-scale", CELL, "-niter", 10, "-threshold", 1, "-name", "bad")
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    s.refused("terms without mtmfs", 2, "-nterms: it needs -deconvolver mtmfs", *line, "-nterms", 2, ms)
    s.refused("a reference without mtmfs", 2, "-reffreq: it needs", *line, "-reffreq", "1.5GHz", ms)
    s.refused("too many terms", 2, "nterms", *line, "-deconvolver", "mtmfs", "-nterms", 5, ms)
    s.refused("channels", 2, "-channels-out: it cannot be used with the Taylor terms", *line, "-deconvolver", "mtmfs", "-channels-out", 2, ms)
    s.refused("a cube", 2, "-nterms: Taylor terms are of a band", *line, "-deconvolver", "mtmfs", "-nterms", 2, "-cube", ms)
    s.refused("no cleaning", 2, "give -niter", "-size", N, N, "-scale", CELL, "-name", "bad", "-deconvolver", "mtmfs", ms)
    s.refused("a reference far outside", 3, "-reffreq: 5000 MHz lies too far outside the selected band", *line, "-deconvolver", "mtmfs", "-reffreq", "5GHz", ms)
    s.refused("files of a beam", 2, "-apply-primary-beam: it cannot be used with the Taylor terms", *line, "-deconvolver", "mtmfs", "-apply-primary-beam", ms)
    s.refused("one frequency", 3, "2 Taylor terms need as many different frequencies with weight; the samples have 1", *line, "-deconvolver", "mtmfs",
              "-channel-range", 0, 1, ms)
    plan = s.launch(*line, "-deconvolver", "mtmfs", "-nterms", 3, "-dry-run", ms)
    s.must(plan.returncode == 0 and re.search("memory", plan.stdout + plan.stderr), "plans")


main(ImagingSuite, globals())
