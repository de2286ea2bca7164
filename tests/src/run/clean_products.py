#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_products.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: products of components: lists of sources, against the models and the
description of the format; maps of the spectral index, against fits to the models; more channels than are cleaned, against
the sources; restored files, against images and the sum of gaussians."""
import glob
import os
import re
import shutil
import signal
import warnings

import numpy as np
from astropy.coordinates import Angle
from astropy.io import fits
from astropy.wcs import WCS, FITSFixedWarning
from casacore.tables import table

from held_program import Held
from image_oracle import ASEC, Frame, load, read
from program_suite import VLA, Suite, main, run

warnings.simplefilter("ignore", FITSFixedWarning)  # cards that astropy adds

SIZE, CELL = 256, 4.0
FRAME = Frame(SIZE, SIZE, CELL * ASEC, *np.radians(VLA))
BAND = ["-telescope", "vla", "-duration", "5min", "-integration", "30s", "-spw", "1.0GHz", "50MHz", "16",
        "-reference-frequency", "1.375GHz", "-noise", "0.2Jy"]

# Sources on pixel centres: x, y, I Q U V in Jy, spectral index.
STEEP = [(128, 128, 2, 0, 0, 0, -0.7), (170, 150, 0.5, 0, 0, 0, -0.7), (90, 60, 0.5, 0.2, 0, 0, 0.4)]


class Products(Suite):
    def ms(self):
        words = []
        for x, y, *flux, index in STEEP:
            ra, dec = np.degrees(FRAME.sky(x, y))
            words += ["-source", "%.15gdeg" % ra, "%.15gdeg" % dec, *["%.15gJy" % f for f in flux], "%g" % index]
        return self.made_at("steep.ms", VLA, [*BAND, *words])

    def words(self, *options):
        return ["-j", "2", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, *options]

    def clean(self, *options):
        """Clean the set. Returns the prefix of the files, and the log."""
        name = self.path("clean%d" % next(self.number))
        done = run(self.msimage, *self.words(*options), "-name", name, self.ms())
        return name, done.stderr.decode()

    def near(self, title, got, want, limit):
        self.must(np.all(np.abs(got - want) <= limit), "%-60s %.6g, wanted %.6g, off by up to %.3g" %
                  (title, np.ravel(got)[0], np.ravel(want)[0], np.abs(np.subtract(got, want)).max()))


# ---- Lists of sources, as https://wsclean.readthedocs.io/en/latest/component_list.html describes them ----


class Source:
    def __init__(self, line):
        terms = re.search(r"\[(.*)\]", line)[1]
        self.name, self.kind, ra, dec, flux, _, is_log, reference, *shape = re.sub(r"\[.*\]", "", line).split(",")
        self.ra, self.dec = Angle(ra, "hour").deg, Angle(re.sub(r"^([^.]*)\.([^.]*)\.", r"\1:\2:", dec), "deg").deg
        self.flux, self.reference = float(flux), float(reference)
        self.terms = [float(t) for t in terms.split(",")] if terms else []
        self.is_log = {"true": True, "false": False}[is_log]
        self.fwhm = [float(s) for s in shape[:2]] if self.kind == "GAUSSIAN" else [0, 0]
        assert self.kind in ("POINT", "GAUSSIAN") and len(shape) == 3

    def at(self, freq):
        if self.is_log:
            x = np.log10(freq / self.reference)
            return self.flux * 10**sum(t * x**(k + 1) for k, t in enumerate(self.terms))
        x = freq / self.reference - 1
        return self.flux + sum(t * x**(k + 1) for k, t in enumerate(self.terms))


def sources(name):
    """Read the sources of a list, whose first line describes the format."""
    with open(name, encoding="ascii") as f:
        head, *lines = f.read().splitlines()
    assert re.fullmatch(r"Format = Name, Type, Ra, Dec, I, SpectralIndex, LogarithmicSI, ReferenceFrequency='[0-9.e+]+', "
                        "MajorAxis, MinorAxis, Orientation", head), head
    return [Source(line) for line in lines]


def rendered(found, header):
    """Returns the list as a model in Jy/pixel at the frequency of the header, and the offsets of its sources from pixel
    centres."""
    pixels, off = np.zeros((SIZE, SIZE)), 0
    yy, xx = np.mgrid[:SIZE, :SIZE]
    wcs = WCS(header).celestial
    for s in found:
        x, y = wcs.all_world2pix(s.ra, s.dec, 0)
        off = max(off, abs(x - np.rint(x)), abs(y - np.rint(y)))
        flux = s.at(header["CRVAL3"])
        if s.kind == "POINT":
            pixels[int(np.rint(y)), int(np.rint(x))] += flux
        else:
            sigma = s.fwhm[0] / CELL / np.sqrt(8 * np.log(2))
            pixels += flux / (2 * np.pi * sigma**2) * np.exp(-0.5 * ((xx - np.rint(x))**2 + (yy - np.rint(y))**2) / sigma**2)
    return pixels, off


def judge_list(s, title, name, planes, limit):
    """A model made of the list is the model of the run."""
    found = sources(name + "-sources.txt")
    for plane in planes:
        model, header = load(name + plane + "-model.fits")
        again, off = rendered(found, header)
        error = np.abs(again - model).max() / np.abs(model).max()
        s.must(error < limit and off < 0.01 and len(found) > 0, "%s%s: %d sources give the model to %.2e of its peak; "
               "%.4f pixels off" % (title, plane, len(found), error, off))
    return found


def check_sources(s):
    """A list of sources equals the model for all scales and spectra."""
    words = ["-niter", 3000, "-auto-threshold", 3, "-save-source-list"]
    four = ["-channels-out", 4, "-join-channels"]
    planes = ["-%04d" % c for c in range(4)]
    # Fluxes have fifteen digits; models are in single precision and sums of many components.
    name, _ = s.clean(*words)
    found = judge_list(s, "one channel", name, [""], 2e-6)
    s.must(all(not f.terms and not f.is_log and f.kind == "POINT" for f in found), "points without spectra")
    s.near("reference frequency", found[0].reference, 1.375e9, 1)
    fluxes = [abs(f.flux) for f in found]
    s.must(fluxes == sorted(fluxes, reverse=True), "the brightest comes first")
    name, _ = s.clean(*words, *four, "-fit-spectral-pol", 3)
    found = judge_list(s, "polynomials", name, planes, 2e-6)
    s.must(all(len(f.terms) == 2 and not f.is_log for f in found), "three terms each")
    # A sum of power laws is not a power law: the fit is off by their spread.
    name, _ = s.clean(*words, *four, "-fit-spectral-log-pol", 2)
    found = judge_list(s, "power laws", name, planes, 1e-3)
    s.near("index of the brightest", found[0].terms[0], -0.7, 0.02)
    # A large bias makes wide scales find components in point sources.
    name, log = s.clean(*words, "-multiscale", "-multiscale-scales", "0,24,48", "-multiscale-scale-bias", 0.25, "-threshold",
                        0.05, "-beam-size", 20, "-taper-gaussian", "40asec")
    found = judge_list(s, "scales", name, [""], 2e-6)
    s.must({f.kind for f in found} == {"POINT", "GAUSSIAN"} and "using Gaussian scales" in log, "points and gaussians")
    name, _ = s.clean(*words, "-channels-out", 2, "-intervals-out", 2, "-pol", "QI")
    lists = sorted(os.path.basename(n)[len(os.path.basename(name)):] for n in glob.glob(name + "*.txt"))
    s.must(lists == ["-t%04d-%04d-sources.txt" % (t, c) for t in range(2) for c in range(2)], "lists of each: %s" % lists)
    model, header = load(name + "-t0001-0001-I-model.fits")
    again, _ = rendered(sources(name + "-t0001-0001-sources.txt"), header)
    s.near("that of an interval's channel", again, model, 2e-6 * np.abs(model).max())
    name, _ = s.clean(*words, "-pol", "QIU", "-join-polarizations")
    model, header = load(name + "-I-model.fits")
    again, _ = rendered(sources(name + "-sources.txt"), header)
    s.near("Stokes I of joined polarisations", again, model, 2e-6 * np.abs(model).max())
    s.told("no Stokes I", s.launch("-quiet", *s.words(*words, "-pol", "Q"), s.ms()), 2, "-save-source-list: .*Stokes I")
    name, _ = s.clean(*words[:2], "-threshold", 10, "-save-source-list")
    s.must(sources(name + "-sources.txt") == [], "a list of nothing")


def check_sources_go_on(s):
    """A killed and resumed run makes the same list; a run with -continue lists the earlier model too."""
    words = ["-backend", "cpu", "-niter", 3000, "-auto-threshold", 2, "-multiscale", "-multiscale-scales", "0,8,16", "-checkpoint", 0,
             "-save-source-list"]
    whole, _ = s.clean(*words)
    broken = s.path("broken")
    held = Held([s.msimage, *[str(w) for w in s.words(*words)], "-name", broken, s.ms()])
    held.hold_after_line("cycle 2")
    held.send(signal.SIGKILL)
    held.end()
    plain = [w for w in words if w != "-save-source-list"]
    s.told("resumed without a list", s.launch("-quiet", *s.words(*plain), "-resume", "-name", broken, s.ms()), 3, "options")
    log = run(s.msimage, *s.words(*words), "-resume", "-name", broken, s.ms()).stderr.decode()
    with open(whole + "-sources.txt", "rb") as one, open(broken + "-sources.txt", "rb") as other:
        s.must("resuming from the checkpoint" in log and one.read() == other.read(), "a run that went on has the same list")
    name, _ = s.clean("-niter", 30, "-threshold", 0.001, "-mgain", 1)
    run(s.msimage, "-quiet", *s.words("-niter", 3000, "-auto-threshold", 4, "-multiscale", "-multiscale-scales", "0,8,16",
                                      "-save-source-list", "-continue"), "-name", name, s.ms())
    judge_list(s, "continued", name, [""], 2e-6)


# ---- Spectral indices ----


def restored(model, header):
    """A model convolved with a beam: the sum of gaussians of peak 1 at its pixels."""
    widths, angle = np.array([header["BMAJ"], header["BMIN"]]) * 3600 / CELL, np.radians(header["BPA"])
    # The gaussian of a pixel is a cutout of one gaussian that is twice as large.
    yy, xx = np.mgrid[-SIZE:SIZE, -SIZE:SIZE]
    major, minor = yy * np.cos(angle) - xx * np.sin(angle), -xx * np.cos(angle) - yy * np.sin(angle)
    beam = np.exp(-4 * np.log(2) * ((major / widths[0])**2 + (minor / widths[1])**2))
    out = np.zeros((SIZE, SIZE))
    for y, x in zip(*np.nonzero(model)):
        out += model[y, x] * beam[SIZE - y:2 * SIZE - y, SIZE - x:2 * SIZE - x]
    return out


def power_law(freq, weight, value):
    """Flux and index at the mean frequency of the power law fitted to values by the Gauss-Newton method."""
    x = np.log(freq / np.average(freq, weights=weight))
    flux, index = np.average(value, weights=weight), 0.0
    for _ in range(100):
        model = np.exp(index * x)
        slope = np.sqrt(weight)[:, None] * np.array([model, flux * x * model]).T
        step = np.linalg.lstsq(slope, np.sqrt(weight) * (value - flux * model), rcond=None)[0]
        flux, index = flux + step[0], index + step[1]
    return index


def straight_line(freq, weight, value):
    """The same for a polynomial of two terms."""
    x = freq / np.average(freq, weights=weight) - 1
    slope, flux = np.polyfit(x, value, 1, w=np.sqrt(weight))
    return slope / flux


def check_index(s):
    """The map of the spectral index has the slope of the fit to the models convolved with the beam of the band, where these
    are bright."""
    words = ["-niter", 3000, "-auto-threshold", 4, "-channels-out", 4, "-join-channels"]
    for fit, find in (("-fit-spectral-log-pol", power_law), ("-fit-spectral-pol", straight_line)):
        name, log = s.clean(*words, fit, 2, "-png", "-save-source-list")
        s.must("%s-*.{fits,csv,png,txt}" % name in log, "the last line of the log names every kind of file")
        index, header = load(name + "-MFS-spectral-index.fits")
        band = load(name + "-MFS-image.fits")[1]
        s.must("spectral-index map: not corrected for the primary beam" in log and
               any("Not corrected for the primary beam" in line for line in header["COMMENT"]), "it holds the beam's spectrum")
        s.must(header["BTYPE"] == "Spectral Index" and "BUNIT" not in header and header["BMAJ"] == band["BMAJ"] and
               header["CRVAL3"] == band["CRVAL3"], "%s: cards" % fit)
        every = read(s.ms()).weight
        s.near("%s: effective samples of the band" % fit, band["WSCENVIS"], every.sum() / every.max(), 1e-6 * every.size)
        models = [load("%s-%04d-model.fits" % (name, c)) for c in range(4)]
        freq, weight = (np.array([h[card] for _, h in models]) for card in ("CRVAL3", "WSCIMGWG"))
        planes = np.array([restored(m, band) for m, _ in models])
        mean = np.average(planes, axis=0, weights=weight) / header["MSIRMS"]
        clear = np.abs(mean - 5) > 1e-4 * mean.max()
        s.must(np.array_equal(np.isfinite(index)[clear], mean[clear] > 5) and 50 < np.isfinite(index).sum() < 1000,
               "%s: %d pixels are five times the noise or brighter" % (fit, np.isfinite(index).sum()))
        y, x = np.nonzero(np.isfinite(index))
        want = np.array([find(freq, weight, planes[:, j, i]) for j, i in zip(y, x)])
        # Transforms of single precision are off by 1e-6 of the peak, 2 Jy; a slope over a third of the band by thrice that.
        error = np.abs(index[y, x] - want) * mean[y, x] * header["MSIRMS"]
        s.must(error.max() < 2e-5, "%s: off by %.2e Jy over the flux" % (fit, error.max()))
        for i, j, flux, *_, true in STEEP:
            sigma = 0.2 / np.sqrt(2 * weight.sum()) / flux / np.log(freq).std()
            # The slope of a straight line is that of a curved spectrum to 0.02.
            s.near("%s: index of %g Jy" % (fit, flux), index[j, i], true, 3 * sigma + (0.02 if find is straight_line else 0))
        s.must(os.path.getsize(name + "-MFS-spectral-index.png") > 1000, "a picture")
    name, _ = s.clean(*words, "-fit-spectral-pol", 2, "-pol", "QI", "-join-polarizations", "-no-fit-beam")
    maps = glob.glob(name + "*spectral-index*")
    s.must(maps == [name + "-MFS-I-spectral-index.fits"] and np.isnan(load(maps[0])[0]).all(), "without a beam it is not known")
    name, _ = s.clean(*words, "-fit-spectral-pol", 1)
    s.must(not glob.glob(name + "*spectral-index*"), "no index of one term")


# ---- Fewer channels cleaned than imaged ----


def judge_parts(s, title, name, pol="", empty=()):
    """Models of all channels against the sources."""
    for c in range(8):
        model, header = load("%s-%04d%s-model.fits" % (name, c, pol))
        if c in empty:
            s.must(np.isnan(model).all(), "%s: channel %d is not known" % (title, c))
            continue
        noise = 0.2 / np.sqrt(2 * header["WSCIMGWG"])
        for x, y, flux, *_, index in STEEP:
            want = flux * (header["CRVAL3"] / 1.375e9)**index
            # The residual below the threshold, and the noise.
            s.near("%s: channel %d, %g Jy" % (title, c, flux), model[y - 3:y + 4, x - 3:x + 4].sum(), want,
                   max(0.005 * want, 4 * noise))


def check_parts(s):
    """Channels are cleaned as fewer means of them; the fit gives the values of each, also of one without samples."""
    words = ["-niter", 3000, "-auto-threshold", 3, "-channels-out", 8, "-join-channels"]
    few = [*words, "-deconvolution-channels", 3]
    name, log = s.clean(*few, "-fit-spectral-log-pol", 2)
    judge_parts(s, "power laws of three", name)
    s.must("8 channels are cleaned as 3" in log, "the log says so")
    index = load(name + "-MFS-spectral-index.fits")[0]
    s.near("spectral index", index[128, 128], -0.7, 0.01)
    name, _ = s.clean(*few, "-fit-spectral-pol", 2, "-pol", "QI", "-save-source-list")
    models, headers = zip(*(load("%s-%04d-I-model.fits" % (name, c)) for c in range(8)))
    models, freq = np.array(models), np.array([h["CRVAL3"] for h in headers])
    y, x = np.nonzero(models[0])
    lines = models[:, y, x]
    off = np.abs(lines - np.vander(freq / 1e9, 2) @ np.polyfit(freq / 1e9, lines, 1)).max()
    s.must(off < 1e-6 * np.abs(models).max(), "every pixel's spectrum is a straight line: off by %.2e" % off)
    for c in (0, 7):
        again, _ = rendered(sources(name + "-sources.txt"), headers[c])
        s.near("the list gives channel %d" % c, again, models[c], 2e-6 * np.abs(models).max())
    same, other = (s.clean(*words, "-fit-spectral-pol", 2, *more)[0] for more in ([], ["-deconvolution-channels", 8]))
    s.must(all((load("%s-%04d-image.fits" % (same, c))[0] == load("%s-%04d-image.fits" % (other, c))[0]).all()
               for c in range(8)), "as many as there are: the same images")
    run(s.msimage, "-quiet", *s.words(*few, "-fit-spectral-log-pol", 2, "-continue"), "-name", other, s.ms())
    judge_parts(s, "continued", other)
    flagged = s.path("flagged.ms")
    shutil.copytree(s.ms(), flagged)
    with table(flagged, readonly=False, ack=False) as t:
        flags = t.getcol("FLAG")
        flags[:, 6:8] = True
        t.putcol("FLAG", flags)
    name = s.path("flagged")
    run(s.msimage, "-quiet", *s.words(*few, "-fit-spectral-log-pol", 2), "-name", name, flagged)
    judge_parts(s, "a channel without a sample", name, empty=[3])


def check_many_parts(s):
    """More channels than can be joined are cleaned as fewer; impossible numbers are refused."""
    ms = s.made_at("many.ms", VLA, ["-telescope", "vla", "-duration", "1min", "-spw", "1.3GHz", "2MHz", "72", "-source",
                                    "%.15gdeg" % VLA[0], "%.15gdeg" % VLA[1], "2Jy"])
    words = ["-quiet", "-j", 2, "-size", 64, 64, "-scale", "8asec", "-niter", 500, "-threshold", 0.001, "-channels-out", 72,
             "-join-channels", "-fit-spectral-pol", 2]
    name = s.path("many")
    run(s.msimage, *words, "-deconvolution-channels", 4, "-name", name, ms)
    fluxes = np.array([load("%s-%04d-model.fits" % (name, c))[0].sum() for c in range(72)])
    s.near("72 channels", fluxes, 2, 0.005)
    for options, pattern in ((["-channels-out", 513], "513 images are more.*give -deconvolution-channels"),
                             (["-channels-out", 257], "257: more than the 256 channels .*give -deconvolution-channels"),
                             (["-deconvolution-channels", 257], "1 to 256"), (["-deconvolution-channels", 9, "-channels-out", 8], "-channels-out 8"),
                             (["-deconvolution-channels", 4, "-fit-spectral-pol", 5], "fewer values"),
                             (["-deconvolution-channels", 129, "-channels-out", 129, "-pol", "IQUV", "-join-polarizations"], "516 images")):
        s.told(" ".join(map(str, options)), s.launch(*words, *options, "-name", s.path("none"), ms), 2, pattern)
    s.told("no fit", s.launch("-quiet", *s.words("-niter", 5, "-channels-out", 4, "-join-channels", "-deconvolution-channels", 2),
                              ms), 2, "give -fit-spectral-pol")
    s.told("not joined", s.launch("-quiet", *s.words("-niter", 5, "-channels-out", 4, "-deconvolution-channels", 2), ms), 2,
           "-join-channels")


# ---- Restoring files ----


def gaussian(header, ra, dec, own=(0, 0, 0)):
    """A source of 1 Jy with the beam of the header: a gaussian, or one convolved with another (FWHM in arcsec, angle in
    degrees)."""
    x, y = WCS(header).celestial.all_world2pix(ra, dec, 0)
    yy, xx = np.mgrid[:SIZE, :SIZE]
    offset = np.array([(x - xx) * CELL, (yy - y) * CELL])  # east, north
    covariances = []
    for major, minor, angle in (own, (header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"])):
        s, c = np.sin(np.radians(angle)), np.cos(np.radians(angle))
        axes = np.array([[s, c], [c, -s]])  # of the major and of the minor axis
        covariances.append(axes.T @ np.diag([major**2, minor**2]) @ axes / (8 * np.log(2)))
    both = sum(covariances)
    square = np.einsum("iyx,ij,jyx->yx", offset, np.linalg.inv(both), offset)
    return np.sqrt(np.linalg.det(covariances[1]) / np.linalg.det(both)) * np.exp(-0.5 * square)


def refiled(name, to, edit=None):
    """Copy a FITS file and change its HDU."""
    with fits.open(name) as f:
        if edit:
            edit(f[0])
        f.writeto(to, overwrite=True)
    return to


def check_correction(s):
    """-spectral-correction: a component has g k R in each channel, k the flux at the middle of the band over that at the channel;
    models have the true spectrum."""
    law = lambda f: 10**(-0.7 * np.log10(f / 1.375e9))
    words = ["-channels-out", 4, "-join-channels", "-mgain", 0.8, "-spectral-correction", "1.375e9"]
    name, _ = s.clean(*words, "2,-0.7", "-niter", 1)
    models = [load("%s-%04d-model.fits" % (name, c)) for c in range(4)]
    at = np.unravel_index(np.argmax(models[0][0]), models[0][0].shape)
    freqs = np.array([h["CRVAL3"] for _, h in models])
    dirty = np.array([load("%s-%04d-dirty.fits" % (name, c))[0][at] for c in range(4)])
    got = np.array([m[at] for m, _ in models])
    want = 0.1 * law(0.5 * (freqs[0] + freqs[3])) / law(freqs) * dirty
    s.must(np.abs(got - want).max() < 1e-4 * want.max(), "the first component: %s, wanted %s" % (got, want))
    name, _ = s.clean(*words, "2,-0.7", "-niter", 2000, "-auto-threshold", 4)
    got = np.array([load("%s-%04d-model.fits" % (name, c))[0][125:132, 125:132].sum() for c in range(4)])
    s.must(np.abs(got / (2 * law(freqs)) - 1).max() < 0.03, "the model's spectrum: %s, wanted %s" % (got, 2 * law(freqs)))
    done = s.launch("-quiet", *s.words("-niter", 9, "-threshold", 1, *words, "1,-20", "-name", s.path("none")), s.ms())
    s.told("a correction that diverges", done, 2, "-spectral-correction: channel 3 is multiplied by")
    _, log = s.clean("-channels-out", 2, "-niter", 1, "-spectral-correction", "1e9", "1,-0.7")
    s.must("no effect without -join-channels" in log, "channels that are not joined")


def check_restore(s):
    """A residual and a model give the image that cleaning made, or one with another beam."""
    name, _ = s.clean("-niter", 3000, "-auto-threshold", 4)
    residual, model, out = name + "-residual.fits", name + "-model.fits", s.path("restored.fits")
    hidden = sorted(glob.glob(s.path(".*")))  # a killed run of another check may have left some
    image, cards = load(name + "-image.fits")
    log = run(s.msimage, "-dry-run", "-restore", residual, model, out).stderr.decode()
    s.must("would write %s: 256 x 256 pixels in 1 plane" % out in log and not os.path.exists(out), "a dry run: %s" % log)
    log = run(s.msimage, "-backend", "cpu", "-restore", residual, model, out).stderr.decode()
    again, header = load(out)
    s.must(np.abs(again - image).max() < 2e-6 * np.abs(image).max() and "from the header of the residual" in log,
           "the image: off by %.1e of its peak" % (np.abs(again - image).max() / np.abs(image).max()))
    same = [c for c in cards if c not in ("HISTORY", "COMMENT", "DATE", "BSCALE", "BZERO", "BMAJ", "BMIN", "BPA") and cards[c] != header.get(c)]
    s.must(not same and np.allclose([header[c] for c in ("BMAJ", "BMIN", "BPA")], [cards[c] for c in ("BMAJ", "BMIN", "BPA")]) and
           "-restore" in "".join(header["HISTORY"]), "cards are those of the residual: %s" % same)
    s.must("position angle %.1f deg, from the" % cards["BPA"] in log, "the log tells the angle as BPA has it: %s" % log)
    for angle in (-40, 40):
        log = run(s.msimage, "-overwrite", "-beam-shape", 30, 20, angle, "-restore", residual, model, out).stderr.decode()
        again, header = load(out)
        told = float(re.search("position angle (\\S+) deg, as given", log)[1])
        s.must(abs((told - angle + 90) % 180 - 90) < 1e-6 and abs((header["BPA"] - angle + 90) % 180 - 90) < 1e-6,
               "an angle of %g deg: told as %g, written as %g" % (angle, told, header["BPA"]))
    s.must(np.allclose([header["BMAJ"] * 3600, header["BMIN"] * 3600, header["BPA"]], [30, 20, 40]), "a beam that is given")
    want = load(residual)[0] + restored(load(model)[0], header)
    s.must(np.abs(again - want).max() < 2e-6 * np.abs(want).max(), "and the image with it")

    def cube(h):
        h.data = np.concatenate([h.data, 2 * h.data], axis=1).astype(h.data.dtype)
        h.data[0, 1, 5, 7] = np.nan
    planes = [refiled(f, s.path("cube-" + os.path.basename(f)), cube) for f in (residual, model)]
    run(s.msimage, "-quiet", "-overwrite", "-restore", *planes, out)
    got = load(out)[0]
    once = load(name + "-image.fits")[0]
    want = np.array([once, 2 * once])
    s.must(np.isnan(got[1, 5, 7]) and np.isnan(got).sum() == 1 and np.nanmax(np.abs(got - want)) < 1e-5 * once.max(),
           "two planes, and a pixel without value")
    bad = s.path("bad.fits")
    for title, which, edit, pattern in (
            ("no beam", 0, lambda h: h.header.remove("BMAJ"), "no beam .*-beam-shape"),
            ("other size", 1, lambda h: setattr(h, "data", h.data[..., :-2]), "254 x 256 pixels"),
            ("other planes", 1, lambda h: setattr(h, "data", np.concatenate([h.data, h.data], axis=1)), "in 2 planes"),
            ("other centre", 1, lambda h: h.header.set("CRVAL2", 44.01), "not at the same positions on the sky"),
            ("other pixels", 1, lambda h: h.header.set("CDELT1", -4.1 / 3600), "not at the same positions on the sky"),
            ("NaN", 1, lambda h: h.data.__setitem__((0, 0, 4, 6), np.nan), r"pixel \(7, 5\) is not finite"),
            ("infinity", 1, lambda h: h.data.__setitem__((0, 0, 4, 6), -np.inf), r"pixel \(7, 5\) is not finite"),
            ("fluxes beyond single precision", 1, lambda h: h.data.__setitem__(slice(None), 3e38), "exceed single precision in the restored"),
            ("other frequency", 1, lambda h: h.header.set("CRVAL3", 1.2e9), "1200 MHz"),
            ("other polarisation", 1, lambda h: h.header.set("CRVAL4", 2), "polarisation differs"),
            ("an image as the model", 1, lambda h: h.header.set("BUNIT", "JY/BEAM"), "the unit is JY/BEAM"),
            ("a model as the residual", 0, lambda h: h.header.set("BUNIT", "Jy/pixel"), "the unit is Jy/pixel"),
            ("not on the sky", 0, lambda h: h.header.set("CTYPE1", "U"), "not sky coordinates"),
            ("mirrored", 0, lambda h: h.header.set("CDELT1", 4 / 3600), "columns must run"),
            ("a beam wider than the image", 0, lambda h: h.header.set("BMAJ", 3.0), "wider than the image")):
        refiled((residual, model)[which], bad, edit)
        s.told(title, s.launch("-quiet", "-restore", *((bad, model) if which == 0 else (residual, bad)), s.path("none.fits")), 3,
               "bad.fits: .*" + pattern)
    for title, words, code, pattern in (
            ("no file", ["-restore", residual, s.path("nothing.fits"), s.path("none.fits")], 3, "nothing.fits: No such file"),
            ("no FITS file", ["-restore", __file__, model, s.path("none.fits")], 3, "not a FITS file"),
            ("an output that exists", ["-restore", residual, model, out], 2, "already exists; -overwrite"),
            ("an output that is read", ["-overwrite", "-restore", residual, model, model], 2, "is also an input"),
            ("no folder", ["-restore", residual, model, s.path("no/none.fits")], 4, "none.fits"),
            ("a set", ["-restore", residual, model, s.path("none.fits"), s.ms()], 2, "steep.ms"),
            ("another option", ["-niter", 5, "-restore", residual, model, s.path("none.fits")], 2, "-niter: it cannot be used"),
            ("an argument less", ["-restore", residual, model], 2, "-restore RESIDUAL MODEL OUT"),
            ("both", ["-restore", "a", "b", "c", "-restore-list", "a", "b", "c"], 2, "give only one of them")):
        s.told(title, s.launch("-quiet", *words), code, pattern)
    s.must(not os.path.exists(s.path("none.fits")) and sorted(glob.glob(s.path(".*"))) == hidden, "nothing is left behind")


HEAD = ("Format = Name, Type, Ra, Dec, I, SpectralIndex, LogarithmicSI, ReferenceFrequency='1400000000', MajorAxis, MinorAxis, "
        "Orientation\n")


def check_restore_list(s):
    """A list of sources is restored with the beam: positions, widths and spectra of the sources are right."""
    name, _ = s.clean("-niter", 3000, "-auto-threshold", 4, "-channels-out", 4, "-join-channels", "-fit-spectral-pol", 2,
                      "-save-source-list")
    residual, out, listed = name + "-0001-residual.fits", s.path("listed.fits"), s.path("list.txt")
    run(s.msimage, "-quiet", "-restore-list", residual, name + "-sources.txt", out)
    got, image = load(out)[0], load(name + "-0001-image.fits")[0]
    # Positions are rounded to a thousandth of a pixel; the beam has a slope of up to 0.4 per pixel.
    s.must(np.abs(got - image).max() < 1e-3 * image.max(), "what cleaning wrote: off by %.1e of the peak" %
           (np.abs(got - image).max() / image.max()))
    zero = refiled(residual, s.path("zero.fits"), lambda h: h.data.fill(0))
    header = load(zero)[1]
    freq, width = header["CRVAL3"], header["CDELT3"]
    mean = lambda law: np.mean([law(f) for f in np.linspace(freq - width / 2, freq + width / 2, 2001)[1::2]])
    at = "04:00:10.0137,44.00.33.31"
    place = Angle("04:00:10.0137", "hour").deg, Angle("44:00:33.31", "deg").deg
    for title, head, line, flux, own in (
            ("a point between pixels", HEAD, "a,POINT,%s,2,[],false,1.4e9,,," % at, 2, (0, 0, 0)),
            ("a gaussian", HEAD, "a,GAUSSIAN,%s,2,[],false,1.4e9,60,30,25" % at, 2, (60, 30, 25)),
            ("a power law", HEAD, "a,POINT,%s,2,[-0.7,0.2],true,1.3e9,,," % at,
             mean(lambda f: 2 * (f / 1.3e9)**(-0.7 + 0.2 * np.log10(f / 1.3e9))), (0, 0, 0)),
            ("a polynomial of the default frequency", HEAD, "a,POINT,%s,-2,[0.5,3],false,,,," % at,
             mean(lambda f: -2 + 0.5 * (f / 1.4e9 - 1) + 3 * (f / 1.4e9 - 1)**2), (0, 0, 0)),
            ("a term without brackets", HEAD, "a,POINT,%s,2,-0.7,true,1.3e9,,," % at, mean(lambda f: 2 * (f / 1.3e9)**-0.7), (0, 0, 0)),
            ("no type", HEAD, "a,,%s,2,[],true,1.3e9,,," % at, 2, (0, 0, 0)),
            ("terms in columns", "Format = Name, Type, Ra, Dec, I, ReferenceFrequency, SpectralIndex:0, SpectralIndex:1\n",
             "a,POINT,%s,2,1.3e9,-0.7,0.2" % at, mean(lambda f: 2 * (f / 1.3e9)**(-0.7 + 0.2 * np.log10(f / 1.3e9))), (0, 0, 0)),
            ("defaults in the format", "Format = Name, Type='GAUSSIAN', Patch, Ra, Dec, I='2.5', SpectralIndex='[-0.8]', "
             "ReferenceFrequency='1.2e9', MajorAxis='60', MinorAxis='30', Orientation='25', RefType='J2000'\n",
             ", , p\n, , p2, 04:00:00, +44.00.00\na,,p,%s" % at, mean(lambda f: 2.5 * (f / 1.2e9)**-0.8), (60, 30, 25)),
            ("makesourcedb's form, a patch, a comment",
             "# (Name, Type, Patch, I, Q, Ra, Dec, SpectralIndex='[]', ReferenceFrequency='1e9', MajorAxis, MinorAxis, Orientation) = format\n",
             " , , p, , , 04:00:00, +44.00.00\n\n# nothing\na, GAUSSIAN, p, 2, 1, %s, [], , 60, 30, 25" % at, 2, (60, 30, 25))):
        with open(listed, "w", encoding="ascii") as f:
            f.write(head + line + "\n")
        run(s.msimage, "-quiet", "-overwrite", "-restore-list", zero, listed, out)
        got, want = load(out)[0], flux * gaussian(header, *place, own)
        s.must(np.abs(got - want).max() < 1e-6 * np.abs(want).max(), "%s: off by %.1e of its peak" %
               (title, np.abs(got - want).max() / np.abs(want).max()))
    for title, text, pattern in (
            ("no list", "SIMPLE = T\n", "line 1: .*Format ="), ("an empty file", "", "the line Format = .. is missing"),
            ("no flux", "Format = Name, Type, Ra, Dec\n", "line 1: .*Type, Ra, Dec and I"),
            ("a shapelet", HEAD + "a,SHAPELET,%s,1,[],false,1e9,,,\n" % at, "line 2: the type must be POINT or GAUSSIAN"),
            ("no number", HEAD + "a,POINT,%s,one,[],false,1e9,,,\n" % at, "line 2: not a number: \"one\""),
            ("not finite", HEAD + "\na,POINT,%s,nan,[],false,1e9,,,\n" % at, "line 3: not a number"),
            ("no place", HEAD + "a,POINT,here,44.00.00,1,[],false,1e9,,,\n", "line 2: not a right ascension"),
            ("cut short", HEAD + "a,POINT,04:00:10\n", "line 2: not a declination"),
            ("terms", HEAD + "a,POINT,%s,1,[-0.7 2],true,1e9,,,\n" % at, "line 2: not a number"),
            ("a term", HEAD + "a,POINT,%s,1,x,true,1e9,,,\n" % at, "line 2: not a number"),
            ("a gaussian without an axis", HEAD + "a,GAUSSIAN,%s,1,[],true,1e9,10,,\n" % at, "line 2: MajorAxis or MinorAxis is missing"),
            ("other names of axes", "Format = Name, Type, Ra, Dec, I, Major, Minor, Phi\n", "line 1: the column Major .*MajorAxis"),
            ("another frame", "Format = Name, Type, RefType, Ra, Dec, I\na,POINT,B1950,%s,1\n" % at, "line 2: the frame must be J2000"),
            ("a fixed value", "Format = Name, Type, Ra, Dec, I=fixed'1'\n", "line 1: fixed values"),
            ("a term's number", "Format = Name, Type, Ra, Dec, I, SpectralIndex:x\n", "line 1: not a column of a spectral term"),
            ("a frequency below zero", HEAD + "a,POINT,%s,1,[-0.7],true,-1,,,\n" % at, "line 2: .*reference frequency"),
            ("neither true nor false", HEAD + "a,POINT,%s,1,[],maybe,1e9,,,\n" % at, "line 2: neither true nor false"),
            ("a spectrum that overflows", HEAD + "a,POINT,%s,1,[400],true,1,,,\n" % at, "source 1 .*: its flux at 1[0-9]* MHz is"),
            ("a width beyond the sky", HEAD + "a,GAUSSIAN,%s,1,[],true,1e9,1e300,1,0\n" % at, "line 2: a width must be 0 to 180"),
            ("a width", HEAD + "a,GAUSSIAN,%s,1,[],true,1e9,-3,1,0\n" % at, "line 2: a width must be 0 to 180")):
        with open(listed, "w", encoding="ascii") as f:
            f.write(text)
        s.told(title, s.launch("-quiet", "-restore-list", zero, listed, s.path("none.fits")), 3, pattern)
    with open(listed, "w", encoding="ascii") as f:
        f.write(HEAD + "a,POINT,05:00:00,44.00.00,1,[],false,1e9,,,\nb,POINT,16:00:00,-44.00.00,1,[],false,1e9,,,\n")
    s.told("a device", s.launch("-quiet", "-restore-list", zero, "/dev/zero", s.path("none.fits")), 3, "/dev/zero: neither a file nor a pipe")
    done = run(s.msimage, "-overwrite", "-restore-list", zero, listed, out)
    s.must("2 of 2 sources are outside the image" in done.stderr.decode() and not load(out)[0].any(), "sources elsewhere")
    refiled(zero, s.path("q.fits"), lambda h: h.header.set("CRVAL4", 2))
    s.told("not Stokes I", s.launch("-quiet", "-restore-list", s.path("q.fits"), listed, s.path("none.fits")), 3, "the residual is another polarisation")
    with open(listed, "w", encoding="ascii") as f:
        f.write(HEAD)
    done = run(s.msimage, "-overwrite", "-restore-list", zero, listed, out)
    s.must("the list has no sources" in done.stderr.decode() and not load(out)[0].any(), "an empty list")


main(Products, globals())
