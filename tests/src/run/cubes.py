#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cubes: -cube writes the images of the channels, which other tests compare with direct sums, as planes of one file.
cubes.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from program_suite import ImagingSuite, fresh_copy, main, run
import numpy as np
from astropy.io import fits
from astropy.wcs import WCS
from astropy.coordinates import EarthLocation, SkyCoord, get_body_barycentric_posvel
from astropy.time import Time
from astropy.utils import iers
from casacore.images import image
from casacore.tables import table

iers.conf.auto_download = False
iers.conf.iers_degraded_accuracy = "ignore"
C = 299792458.0
REST_HZ, FIRST_HZ, STEP_HZ, N_CHANNEL = 1420405751.768, 1420.4e6, 500.0, 64

SIZE = ("-size", 128, 128, "-scale", "12asec")
CLEAN = ("-niter", 300, "-mgain", 0.8, "-auto-threshold", 5, "-no-update-model-required")


def band(s):
    """A set of six channels with two sources, the fourth channel flagged."""
    path = s.path("band.ms")
    if not os.path.exists(path):
        made = s.made("band.made.ms", "-config", "D", "-duration", "20min", "-integration", "1min", "-ra", "60deg", "-dec", "40deg", "-pol",
                      "XX,YY", "-source", "60deg", "40deg", "1Jy", "-0.7", "-source", "60.1deg", "40.05deg", "0.5Jy", "-noise", "0.2Jy",
                      "-spw", "1400MHz", "8MHz", 6)
        fresh_copy(made, path)
        with table(path, readonly=False, ack=False) as t:
            flag = t.getcol("FLAG")
            flag[:, 3] = True
            t.putcol("FLAG", flag)
    return path


def empty(s):
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def ran(s, *words):
    done = s.launch("-quiet", "-overwrite", *SIZE, *words)
    s.must(done.returncode == 0, "%s: runs%s" % (" ".join(map(str, words[:6])), done.stderr[-800:]))


def opened(s, name):
    return fits.open(os.path.join(s.out, name + ".fits"))


def check_planes(s):
    """The planes of a cube are the images of the channels, with their beams; an empty channel is NaN without a beam."""
    ms = band(s)
    for kinds, words in ((("dirty", "psf"), ("-make-psf",)), (("image", "model", "residual", "psf"), CLEAN)):
        ran(s, "-name", "files", "-channels-out", 6, *words, ms)
        ran(s, "-name", "cube", "-cube", *words, ms)
        for kind in kinds:
            with opened(s, "cube-" + kind) as cube:
                files = [opened(s, "files-%04d-%s" % (c, kind))[0] for c in range(6)]
                s.must(cube[0].data.shape == (1, 6, 128, 128), "%s: shape %s" % (kind, cube[0].data.shape))
                same = [np.array_equal(cube[0].data[0, c], f.data[0, 0], equal_nan=True) for c, f in enumerate(files)]
                s.must(all(same), "%s: planes are the images of channels: %s" % (kind, same))
                s.must(np.isnan(cube[0].data[0, 3]).all() and np.isfinite(cube[0].data[0, 2]).all(), kind + ": the flagged channel is NaN")
                freq = WCS(cube[0].header).sub([3]).pixel_to_world_values(np.arange(6))
                s.must(np.allclose(freq, 1.4e9 + 8e6 * np.arange(6), rtol=0, atol=1), "%s: frequencies %s" % (kind, freq))
                if kind == "model":
                    s.must("CASAMBM" not in cube[0].header and len(cube) == 1, "a model has no beam")
                    continue
                beams = cube["BEAMS"]
                want = [[f.header.get(k, 0) * (1 if k == "BPA" else 3600) for k in ("BMAJ", "BMIN", "BPA")] for f in files]
                got = np.array([beams.data[k] for k in ("BMAJ", "BMIN", "BPA")]).T
                want[3] = want[2]  # the plane without samples: readers refuse a beam of 0
                s.must(np.allclose(got, want, rtol=1e-6) and want[2][0] > 0, "%s: beams of planes" % kind)
                s.must(cube[0].header["CASAMBM"] and beams.header["NCHAN"] == 6 and beams.header["NPOL"] == 1 and
                       list(beams.data["CHAN"]) == list(range(6)), kind + ": cards of the beams")
                s.must("BMAJ" not in cube[0].header and cube[0].header["SSYSOBS"] == "TOPOCENT", kind + ": header")
                # casacore opens it, as CASA and CARTA do: it refuses tables in which a beam is 0.
                read = image(os.path.join(s.out, "cube-%s.fits" % kind))
                s.must(read.info()["imageinfo"]["perplanebeams"]["nChannels"] == 6 and read.coordinates()["spectral"].get_frame() == "TOPO" and
                       read.unit() == cube[0].header["BUNIT"], kind + ": casacore's image")
                n = sum(f.header["WSCNVIS"] for f in files)
                s.must(cube[0].header["WSCNVIS"] == n, "%s: samples of all planes, %d" % (kind, n))
        s.must(not [n for n in os.listdir(s.out) if n.startswith("cube-0")], "no file of a single channel")


def check_readers(s):
    """What CARTA and CASA take from a file, by casacore's reader, which both use: axes, frames, line, beams, unit, blanks. CARTA leaves that
    reader if a file has more than 2000 cards, or columns of beams in double precision, and takes a beam only from BMAJ, BMIN and BPA."""
    ran(s, "-name", "cube", "-cube", "-frame", "LSRK", "-rest-frequency", "1.42GHz", *CLEAN, band(s))
    ran(s, "-name", "band", *CLEAN, band(s))
    for name in "cube-image", "cube-residual", "cube-model", "cube-psf", "band-image":
        read = image(os.path.join(s.out, name + ".fits"))
        with opened(s, name) as f:
            h, pixels, wcs = f[0].header, f[0].data, WCS(f[0].header)
            s.must(len(h) < 2000 and h["NAXIS"] == 4 and h["BITPIX"] == -32, "%s: %d cards, %d axes" % (name, len(h), h["NAXIS"]))
            s.must([h["CTYPE%d" % k] for k in (1, 2, 3, 4)] == ["RA---SIN", "DEC--SIN", "FREQ", "STOKES"] and h["CRVAL4"] == 1, name + ": axes")
            at = read.coordinates()
            sky, line = at["direction"], at["spectral"]
            is_cube = name.startswith("cube")
            s.must(sky.get_frame() == "J2000" and sky.get_projection() == "SIN" and at["stokes"].get_stokes() == ["I"], name + ": sky and Stokes")
            s.must(line.get_frame() == ("LSRK" if is_cube else "TOPO") and (not is_cube or line.get_restfrequency() == 1.42e9), name + ": frame and line")
            s.must(at.get_telescope() == h["TELESCOP"] and at.get_obsdate()["refer"] == "UTC" and abs(at.get_obsdate()["m0"]["value"] - h["MJD-OBS"]) < 1e-8,
                   name + ": telescope and date")
            off = 0
            for c in range(pixels.shape[1]):
                for x, y in (0, 0), (100, 30), (64, 64):
                    stokes, hz, dec, ra = read.toworld([0, c, y, x])
                    want = wcs.wcs_pix2world([[x, y, c, 0]], 0)[0]
                    off = max(off, abs(np.degrees(ra) - want[0]), abs(np.degrees(dec) - want[1]), abs(hz / want[2] - 1), abs(stokes - 1))
            s.must(off < 1e-9, "%s: places and frequencies as astropy's to %.1e" % (name, off))
            s.must(read.unit() == h["BUNIT"] and (name == "cube-model" or h["BUNIT"] == "Jy/beam"), "%s: unit %s" % (name, h["BUNIT"]))
            s.must(np.array_equal(read.getdata(), pixels, equal_nan=True) and np.array_equal(read.getmask(), np.isnan(pixels)), name + ": pixels and blanks")
            beam = read.info()["imageinfo"]
            if name == "cube-model":
                s.must("perplanebeams" not in beam and "restoringbeam" not in beam, "a model has no beam")
            elif is_cube:
                s.must([w[-1] for w in f["BEAMS"].columns.formats] == list("EEEJJ"), "columns of beams")
                got = [beam["perplanebeams"]["*%d" % c]["major"]["value"] for c in range(pixels.shape[1])]
                s.must(np.allclose(got, f["BEAMS"].data["BMAJ"], rtol=1e-6), name + ": beams of planes")
            else:
                got = [beam["restoringbeam"][k]["value"] for k in ("major", "minor", "positionangle")]
                s.must(np.allclose(got, [3600 * h["BMAJ"], 3600 * h["BMIN"], h["BPA"]], rtol=1e-6), name + ": beam")


def check_stokes(s):
    """Polarisations have a cube each; channels can be averaged; intervals have cubes too; the whole band is a file."""
    ms = band(s)
    ran(s, "-name", "c", "-cube", "-channels-out", 2, "-pol", "I,Q", "-intervals-out", 2, ms)
    ran(s, "-name", "f", "-channels-out", 2, "-pol", "I,Q", "-intervals-out", 2, ms)
    for t in "t0000", "t0001":
        for pol in "IQ":
            with opened(s, "c-%s-%s-dirty" % (t, pol)) as cube, opened(s, "c-%s-MFS-%s-dirty" % (t, pol)) as whole:
                for c in range(2):
                    s.must(np.array_equal(cube[0].data[0, c], opened(s, "f-%s-%04d-%s-dirty" % (t, c, pol))[0].data[0, 0]), "%s %s plane %d" % (t, pol, c))
                s.must(np.array_equal(whole[0].data, opened(s, "f-%s-MFS-%s-dirty" % (t, pol))[0].data), "%s %s: the band" % (t, pol))
                s.must(os.path.samefile(os.path.join(s.out, "c-%s-%s-image.fits" % (t, pol)), os.path.join(s.out, "c-%s-%s-dirty.fits" % (t, pol))),
                       "the second name of a dirty cube")


class Line:
    """A set of eight hours, in which the Doppler shift passes five channels, of one source with a line that is a Gaussian in
    LSRK. Ratios of frequencies to those of the set are of the velocities along the line of sight: astropy's of the earth and the
    observatory (without gravity, as in all these frames), and for LSRK the sun's 20 km/s to RA 18h, Dec 30 of B1900."""

    SIGMA_HZ, PIXEL = 3 * STEP_HZ, (75, 60)

    def __init__(self, s):
        self.path = s.path("line.ms")
        is_new = not os.path.exists(self.path)
        if is_new:
            made = s.made("line.made.ms", "-config", "D", "-duration", "8h", "-integration", "20min", "-ra", "60deg", "-dec", "40deg", "-pol", "XX,YY",
                          "-spw", "%.17gHz" % FIRST_HZ, "%.17gHz" % STEP_HZ, N_CHANNEL, "-start-time", "2024-03-01T20:00:00")
            fresh_copy(made, self.path)
        with table(self.path, ack=False) as t:
            self.of_row = t.getcol("TIME")
        self.time = np.unique(self.of_row)
        with table(self.path + "/ANTENNA", ack=False) as t:
            where = EarthLocation.from_geocentric(*np.mean(t.getcol("POSITION"), axis=0), unit="m")
        with table(self.path + "/FIELD", ack=False) as t:
            ra, dec = t.getcell("PHASE_DIR", 0)[0]
        at = SkyCoord(ra, dec, unit="rad")
        when = Time(self.time / 86400, format="mjd", scale="utc")
        moves = get_body_barycentric_posvel("earth", when)[1].xyz + where.get_gcrs_posvel(when)[1].xyz
        beta = at.cartesian.xyz.value @ moves.to_value("m/s") / C
        self.bary = np.sqrt((1 - beta) / (1 + beta))
        beta = 20e3 / C * np.cos(at.separation(SkyCoord("18h", "30d", frame="fk4", equinox="B1900").transform_to("icrs")).rad)
        self.lsrk = self.bary * np.sqrt((1 - beta) / (1 + beta))
        self.freq = FIRST_HZ + STEP_HZ * np.arange(N_CHANNEL)
        self.centre = np.mean(self.freq[31:33]) * np.mean(self.lsrk)
        if is_new:
            self.fill()

    def flux(self, hz):
        return np.exp(-0.5 * ((hz - self.centre) / self.SIGMA_HZ)**2)

    def fill(self):
        cell = np.radians(12 / 3600)
        l, m = (64 - self.PIXEL[0]) * cell, (self.PIXEL[1] - 64) * cell
        with table(self.path, readonly=False, ack=False) as t:
            turns = t.getcol("UVW") @ [l, m, np.sqrt(1 - l**2 - m**2) - 1]
            seen = self.flux(self.freq * self.lsrk[np.searchsorted(self.time, self.of_row)][:, None])
            data = seen * np.exp(2j * np.pi * turns[:, None] * self.freq / C)
            t.putcol("DATA", np.repeat(data[:, :, None], 2, axis=2).astype("c8"))

    def spectrum(self, s, *words):
        """The source's pixel of all planes, their frequencies, and the header."""
        ran(s, "-name", "line", "-cube", *words, self.path)
        with opened(s, "line-dirty") as f:
            h, n = f[0].header, f[0].header["NAXIS3"]
            return f[0].data[0, :, self.PIXEL[1], self.PIXEL[0]].astype(float), h["CRVAL3"] + h["CDELT3"] * np.arange(n), h


def check_line(s):
    """A line of known LSRK velocity: each plane has the mean of the samples that it contains, or of interpolated ones."""
    line = Line(s)
    shift = np.ptp(line.lsrk) * FIRST_HZ / STEP_HZ
    s.must(shift > 3, "the Doppler shift passes %.1f channels" % shift)
    topo = line.freq[None, :] * line.lsrk[:, None]  # of each sample, in LSRK
    for method in "nearest", "linear", "cubic":
        for width in (1,) if method == "cubic" else (1, 4):
            got, hz, h = line.spectrum(s, "-frame", "lsrk", "-channel-interpolation", method, "-cube-start", 4, "-cube-width", width, "-cube-nchan",
                                       56 // width)
            what = "%s, %d channels: " % (method, width)
            want = (line.freq[4] + (width - 1) / 2 * STEP_HZ) * line.lsrk[0]
            s.must(abs(hz[0] - want) / want * C < 1, what + "the first plane is %.3f m/s off" % ((hz[0] - want) / want * C))
            s.must(abs(h["CDELT3"] / width - STEP_HZ) < 0.1 and h["SPECSYS"] == "LSRK" and h["VELREF"] == 257, what + "header")
            s.must(abs(h["VELOSYS"] - C * (line.lsrk[0] - 1)) < 1 + 1e-4 * abs(h["VELOSYS"]), what + "VELOSYS %.1f" % h["VELOSYS"])
            if method == "nearest":
                inside = np.abs(topo[None] - hz[:, None, None]) <= abs(h["CDELT3"]) / 2
                expected = (inside * line.flux(topo)[None]).sum(axis=(1, 2)) / inside.sum(axis=(1, 2))
            else:
                parts = hz[:, None] + (np.arange(width) - (width - 1) / 2) * STEP_HZ
                expected = np.mean([np.interp(parts / r, line.freq, line.flux(line.freq * r)) if method == "linear" else line.flux(parts) for r in line.lsrk], axis=(0, 2))
            # A sample at the border of two planes may be in the other one, by rounding; a cubic misses a Gaussian by 0.2 %.
            error = np.abs(got - expected).max()
            s.must(error < (1e-3 if method == "nearest" else 3e-3 if method == "cubic" else 1e-4), what + "planes within %.1e of the sum over samples" % error)
            total, true = got.sum() * h["CDELT3"], line.SIGMA_HZ * np.sqrt(2 * np.pi)
            centre = (got * hz).sum() / got.sum()
            sigma = np.sqrt((got * (hz - centre)**2).sum() / got.sum() - h["CDELT3"]**2 / 12 * (width > 1))
            s.must(abs(total / true - 1) < 0.01, what + "flux %.4f of the line's" % (total / true))
            s.must(abs(centre - line.centre) < 0.1 * STEP_HZ, what + "centre %.1f Hz off" % (centre - line.centre))
            s.must(abs(sigma / line.SIGMA_HZ - 1) < 0.02, what + "width %.4f of the line's" % (sigma / line.SIGMA_HZ))


def check_axes(s):
    """Starts and widths as frequencies and velocities, of three definitions, up and down; frames; planes outside are NaN."""
    line = Line(s)
    up = line.spectrum(s, "-frame", "bary", "-cube-start", "%.17gHz" % (line.freq[20] * line.bary[0]), "-cube-width", "700Hz", "-cube-nchan", 12)
    down = line.spectrum(s, "-frame", "BARY", "-cube-start", "%.17gHz" % up[1][-1], "-cube-width", "-700Hz", "-cube-nchan", 12)
    s.must(up[2]["SPECSYS"] == "BARYCENT" and np.abs(up[1][0] / line.freq[20] / line.bary[0] - 1) * C < 1, "barycentric frequencies")
    s.must(np.allclose(up[1], down[1][::-1], rtol=1e-12) and np.array_equal(up[0], down[0][::-1]), "planes backward")
    fine = line.spectrum(s, "-frame", "LSRK", "-cube-start", "%.17gHz" % line.centre, "-cube-width", "100Hz", "-cube-nchan", 4)[0]
    s.must(np.abs(fine - line.flux(line.centre + 100 * np.arange(4))).max() < 0.02, "planes narrower than channels: %s" % fine)
    rules = {"radio": lambda v: REST_HZ * (1 - v / C), "optical": lambda v: REST_HZ / (1 + v / C),
             "relativistic": lambda v: REST_HZ * np.sqrt((1 - v / C) / (1 + v / C))}
    for name, rule in rules.items():
        v = 1e3 * round((1 - line.centre / REST_HZ) * C / 1e3)
        _, hz, h = line.spectrum(s, "-frame", "LSRK", "-velocity", name, "-rest-frequency", "%.17gHz" % REST_HZ, "-cube-start", "%gkm/s" % (v / 1e3),
                                 "-cube-width", "150m/s", "-cube-nchan", 3)
        s.must(abs(hz[0] - rule(v)) < 1e-3 and abs(h["CDELT3"] - (rule(v + 150) - rule(v))) < 1e-3, "%s velocities: %.3f Hz" % (name, hz[0] - rule(v)))
        s.must(h["RESTFRQ"] == REST_HZ and h["VELREF"] == (257 if name == "radio" else 1), name + ": header")
    got, hz, _ = line.spectrum(s, "-cube-start", 60, "-cube-nchan", 8)
    s.must(np.isfinite(got[:4]).all() and np.isnan(got[4:]).all(), "planes outside the data are NaN")
    s.must(np.allclose(hz, FIRST_HZ + STEP_HZ * (60 + np.arange(8)), rtol=1e-12), "without a frame, that of the data")
    got, _, h = line.spectrum(s, "-frame", "TOPO")
    s.must(h["NAXIS3"] == N_CHANNEL and h["SPECSYS"] == "TOPOCENT", "the frame of the data")


def matrix(beam):
    """Of an ellipse with widths in arcsec and an angle in degrees, in axes to the east and north."""
    a, b, pa = beam[0], beam[1], np.radians(beam[2])
    turn = np.array([[np.sin(pa), np.cos(pa)], [np.cos(pa), -np.sin(pa)]])
    return turn @ np.diag([a**2, b**2]) @ turn.T


def smallest(one, two):
    """The smallest ellipse around two: in axes in which one is a circle, and the other one is along them."""
    low = np.linalg.cholesky(one)
    inverse = np.linalg.inv(low)
    values, vectors = np.linalg.eigh(inverse @ two @ inverse.T)
    return low @ vectors @ np.diag(np.maximum(1, values)) @ vectors.T @ low.T


def convolved(image, kernel, cell=12.0):
    """An image convolved with a Gaussian of sum 1, whose transform is exact for every width, by transforms of twice the image's size."""
    n = 2 * image.shape[0]
    u, v = np.meshgrid(-np.fft.fftfreq(n, cell), np.fft.fftfreq(n, cell))
    g = np.exp(-np.pi**2 / (4 * np.log(2)) * (kernel[0, 0] * u**2 + 2 * kernel[0, 1] * u * v + kernel[1, 1] * v**2))
    return np.fft.ifft2(np.fft.fft2(image, (n, n)) * g).real[:n // 2, :n // 2]


def check_common(s):
    """Two planes with beams of different angles get the smallest ellipse around both; residuals are convolved to it."""
    line = Line(s)
    path = fresh_copy(line.path, s.path("turned.ms"))
    with table(path, readonly=False, ack=False) as t:
        flag, time = t.getcol("FLAG"), t.getcol("TIME")
        early = time < time.min() + 2 * 3600
        flag[early, 30] = flag[time > time.max() - 2 * 3600, 31] = flag[~early, 31] = False
        flag[~early, 30] = flag[early, 31] = True
        t.putcol("FLAG", flag)
    for kind, words in ("residual", (*CLEAN, "-niter", 30)), ("dirty", ()):
        ran(s, "-name", "one", "-cube", "-channel-range", 30, 32, "-restoring-beam", "common", *words, path)
        with opened(s, "one-" + kind) as f, opened(s, "one-image") as restored:
            planes, table_of = f[0].data[0].astype(float), f["BEAMS"].data
            beams = [matrix([table_of[k][c] for k in ("BMAJ", "BMIN", "BPA")]) for c in range(2)]
            h, image = restored[0].header, restored[0].data[0]
        got, want = matrix([3600 * h["BMAJ"], 3600 * h["BMIN"], h["BPA"]]), smallest(*beams)
        s.must(np.allclose(got, want, rtol=0, atol=2e-4 * want.max()), "%s: the common beam is off by %.1e" % (kind, np.abs(got / want - 1).max()))
        s.must("CASAMBM" not in h, kind + ": one beam in the header")
        model = opened(s, "one-model")[0].data[0].astype(float) if kind == "residual" else 0 * planes
        for c in range(2):
            area = np.pi / (4 * np.log(2)) * np.sqrt(np.linalg.det(got)) / 12**2
            expected = convolved(planes[c], got - beams[c]) * np.sqrt(np.linalg.det(got) / np.linalg.det(beams[c])) + area * convolved(model[c], got)
            error = np.abs(image[c] - expected).max() / np.abs(expected).max()
            s.must(error < 1e-4, "%s, plane %d: convolved to it within %.1e" % (kind, c, error))


def check_continuum(s):
    """A source whose visibilities are a polynomial in frequency leaves nothing; a line at other channels stays; the fit is numpy's."""
    path = fresh_copy(band(s), s.path("line6.ms"))
    with table(path, readonly=False, ack=False) as t:
        data, random = t.getcol("DATA"), np.random.default_rng(3)
        x = np.arange(6) / 5 * 2 - 1
        smooth = np.einsum("rkp,kc->rcp", random.normal(size=(len(data), 2, 2)) + 1j * random.normal(size=(len(data), 2, 2)), np.array([x**0, x]))
        smooth[:, 2] += 1
        t.putcol("DATA", smooth.astype("c8"))
    ran(s, "-name", "line", "-channels-out", 6, "-uvcontsub", 1, "-fit-channels", "0:0~1;4~5", path)
    for c in range(6):
        peak = np.nanmax(opened(s, "line-%04d-dirty" % c)[0].data) if c != 3 else 0
        s.must(abs(peak - (c == 2)) < 1e-4, "channel %d: %.7f Jy after the continuum is subtracted" % (c, peak))
    ran(s, "-name", "all", "-channels-out", 6, "-uvcontsub", 1, path)
    fitted = np.polyfit(np.delete(x, 3), np.delete(np.arange(6) == 2, 3), 1)
    for c in (0, 2, 5):
        peak = opened(s, "all-%04d-dirty" % c)[0].data[0, 0, 64, 64]
        s.must(abs(peak - (c == 2) + np.polyval(fitted, x[c])) < 1e-5, "channel %d: fitted to all channels, %.5f" % (c, peak))
    convert, out = os.path.join(os.path.dirname(s.msimage), "msimage-convert"), s.path("line6-only.ms")
    run(convert, "-quiet", "-overwrite", "-uvcontsub", 1, "-fit-channels", "0:0~1;4~5", path, out)
    with table(out, ack=False) as t:
        left = t.getcol("DATA")[:, [0, 1, 2, 4, 5]]
    s.must(np.abs(left - (np.arange(5) == 2)[None, :, None]).max() < 1e-5, "msimage-convert leaves the line")
    # Two windows, each with its own continuum, channels to fit, and line.
    two = fresh_copy(s.made("two.ms", "-config", "D", "-duration", "4min", "-integration", "1min", "-pol", "XX,YY", "-spw", "1400MHz", "1MHz", 6,
                            "-spw", "1430MHz", "1MHz", 4), s.path("lines.ms"))
    with table(two, readonly=False, ack=False) as t:
        for window, channel in (0, 2), (1, 3):
            with t.query("DATA_DESC_ID == %d" % window) as part:
                x = np.arange(part.getcell("DATA", 0).shape[0])[None, :, None]
                part.putcol("DATA", (3 + window - 0.2 * x + (0.5 + window) * (x == channel) + np.zeros(part.getcol("DATA").shape)).astype("c8"))
    ran(s, "-name", "lines", "-channels-out", 10, "-uvcontsub", 1, "-fit-channels", "0:0~1;3~5,1:0~2", two)
    peaks = [opened(s, "lines-%04d-dirty" % c)[0].data[0, 0, 64, 64] for c in range(10)]
    s.must(np.allclose(peaks, [0.5 * (c == 2) + 1.5 * (c == 9) for c in range(10)], atol=1e-4), "two windows: %s" % np.round(peaks, 5))
    empty(s)
    s.refused("no channel to fit", 3, "-uvcontsub 1: 1 of the selected channels", *SIZE, "-name", "x", "-uvcontsub", 1, "-fit-channels", "0:2~2", path)
    s.refused("no channels", 2, "-fit-channels 0:5-6: give channels", *SIZE, "-name", "x", "-uvcontsub", 1, "-fit-channels", "0:5-6", path)


def check_moments(s):
    """Moments and peak of a cube, against numpy."""
    line = Line(s)
    line.spectrum(s, "-frame", "LSRK", "-rest-frequency", "%.17gHz" % REST_HZ)
    png = os.path.join(os.path.dirname(s.msimage), "msimage-png")
    run(png, "-quiet", "-overwrite", "-moments", "-above", 0.2, os.path.join(s.out, "line-dirty.fits"))
    with opened(s, "line-dirty") as f:
        data, h = f[0].data[0].astype(float), f[0].header
    v = C / 1e3 * (1 - (h["CRVAL3"] + h["CDELT3"] * np.arange(len(data))) / REST_HZ)
    w = np.where(data > 0.2, data, 0)
    with np.errstate(invalid="ignore"):
        mean = np.einsum("kyx,k->yx", w, v) / w.sum(axis=0)
        spread = np.sqrt(np.einsum("kyx,kyx->yx", w, (v[:, None, None] - mean)**2) / w.sum(axis=0))
    wants = {"moment0": np.nansum(data, axis=0) * abs(v[1] - v[0]), "moment1": mean, "moment2": spread, "peak": np.nanmax(data, axis=0)}
    for name, want in wants.items():
        with opened(s, "line-dirty-" + name) as f:
            got = f[0].data[0, 0]
            s.must(f[0].header["BUNIT"] == {"moment0": "Jy/beam km/s", "peak": "Jy/beam"}.get(name, "km/s"), name + ": unit")
        s.must(np.array_equal(np.isnan(got), np.isnan(want)) and np.nanmax(np.abs(got - want)) < 1e-4, "%s: off by %.1e" % (name, np.nanmax(np.abs(got - want))))
        s.must(os.path.getsize(os.path.join(s.out, "line-dirty-%s.png" % name)) > 10000, name + ": a picture")
    path = os.path.join(s.out, "line-dirty.fits")
    # The picture of a moment is that of all planes, whatever their number.
    os.makedirs(s.path("more"), exist_ok=True)
    more = os.path.join(s.path("more"), "line-dirty.fits")
    with fits.open(path) as f:
        f[0].data = np.concatenate([f[0].data, np.full_like(f[0].data[:, :2], np.nan)], axis=1)
        f.writeto(more, overwrite=True)
    run(png, "-quiet", "-overwrite", "-moments", "-above", 0.2, more)
    pictures = []
    for folder in (s.out, s.path("more")):
        with open(os.path.join(folder, "line-dirty-moment1.png"), "rb") as f:
            pictures.append(f.read())
    s.must(pictures[0] == pictures[1], "moment 1: the same picture with two more planes without values")
    run(png, "-quiet", "-overwrite", "-channel-maps", "-range", 0, 1, path)
    run(png, "-quiet", "-overwrite", "-spectrum", "source", "59.95deg", "39.99deg", "-spectrum", "nothing", "60.1deg", "40.1deg", path)
    for name in "channels", "spectra":
        s.must(os.path.getsize(os.path.join(s.out, "line-dirty-%s.png" % name)) > 10000, name + ": a picture")
    for words, text in ((("-spectrum", "far", "80deg", "40deg"), "the place far is outside the image"), (("-moments", "-channel-maps"), "give one of them"),
                        (("-channel-maps", "-plane", 1), "-plane: it cannot be used with -channel-maps")):
        done = subprocess.run([png, "-overwrite", *map(str, words), path], capture_output=True, text=True, timeout=60)
        s.must(done.returncode in (2, 3) and text in done.stderr, "%s: %s" % (words[0], done.stderr))


def check_input(s):
    """Invalid cubes are refused, and no file is left."""
    ms = band(s)
    gap = s.made("gap.ms", "-config", "D", "-duration", "2min", "-integration", "1min", "-pol", "XX,YY", "-spw", "1400MHz", "8MHz", 2,
                 "-spw", "1500MHz", "8MHz", 2)
    empty(s)
    s.refused("two windows", 3, "-cube: channel 1 is at 1408 MHz, but .* -spws", *SIZE, "-name", "x", "-cube", gap)
    s.refused("uneven channels", 3, "-channels-out that divides", *SIZE, "-name", "x", "-cube", "-channels-out", 5, ms)
    s.refused("velocity without frame", 2, "-cube-start: a velocity needs its frame", *SIZE, "-name", "x", "-cube", "-cube-start", "3km/s", ms)
    s.refused("no line", 3, "-rest-frequency", *SIZE, "-name", "x", "-cube", "-frame", "LSRK", "-cube-start", "3km/s", ms)
    s.refused("outside", 3, "are outside the data", *SIZE, "-name", "x", "-cube", "-cube-start", "2GHz", "-cube-nchan", 2, ms)
    s.refused("no such channel", 3, "channels 0 to 5", *SIZE, "-name", "x", "-cube", "-cube-start", 6, ms)
    s.refused("no such frame", 2, "-frame REST: give LSRK", *SIZE, "-name", "x", "-cube", "-frame", "REST", ms)
    s.refused("no cube", 2, "-cube-nchan: it needs -cube", *SIZE, "-name", "x", "-cube-nchan", 3, ms)
    s.refused("counted twice", 2, "-channels-out: ", *SIZE, "-name", "x", "-cube", "-channels-out", 3, "-cube-nchan", 3, ms)
    lost = s.path("lost.ms")
    fresh_copy(ms, lost)
    with table(lost + "/ANTENNA", readonly=False, ack=False) as t:
        t.putcol("POSITION", 0 * t.getcol("POSITION"))
    s.refused("no observatory", 3, "does not give the place of the observatory", *SIZE, "-name", "x", "-cube", "-frame", "LSRK", lost)
    for seconds in -3e9, 2e10, 5e18:
        fresh_copy(ms, lost)
        with table(lost, readonly=False, ack=False) as t:
            t.putcol("TIME", 0 * t.getcol("TIME") + seconds)
        s.refused("no such time", 3, "not between the years 1858 and 2269", *SIZE, "-name", "x", "-cube", "-frame", "LSRK", lost)
    s.refused("uv files", 2, "-save-uv: it needs a file for each channel", *SIZE, "-name", "x", "-cube", "-save-uv", ms)
    s.refused("model column", 2, "-cube: MODEL_DATA is not predicted", *SIZE, "-name", "x", "-cube", "-niter", 9, "-mgain", 0.8, ms)


if __name__ == "__main__":
    main(ImagingSuite, globals())
