#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that are corrected for the primary beam, on sets whose visibilities are sums in double over sources that were
attenuated by each baseline's own beam: formulas written out here, with the coefficients that BEAM names, rotation by the
parallactic angle, dishes of two sizes. primary_beam.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import functools
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from image_oracle import C
from program_suite import ImagingSuite, fresh_copy, main, skip_without_modules
skip_without_modules("numpy", "astropy", "casacore.tables", "h5py")
import h5py
import numpy as np
from astropy.coordinates import FK5, SkyCoord
from astropy.io import fits
from astropy.time import Time
from casacore.tables import table

ARCMIN = np.pi / 10800
SOURCES = 16

# Where dishes differ, or turn, the point spread function of a source off the centre is not that of the image, and its
# sidelobes are not cleaned whole: one source alone then.
ALONE = ("alma",)

# Rows of the tables, each at one of the channels that are made: MHz and coefficients.
MEERKAT_L = {1000: (.05, .20, .02, .38, 87.89, 89.30, 85.59, 91.74), 1100: (-.03, -.03, .01, -.23, 79.08, 80.06, 76.76, 82.25),
             1200: (-.05, 0, 0, -.36, 70.81, 72.78, 69.70, 73.86), 1300: (.06, .02, .01, -.58, 64.20, 67.18, 64.30, 67.11)}
VLA_L = {1040: (-1.529, 8.69, -1.88), 1168: (-1.439, 7.53, -1.45), 1296: (-1.428, 7.62, -1.54), 1424: (-1.462, 8.23, -1.83)}
ATCA_16CM = {1332: (1.06274e-3, 1.32342e-6, -8.72013e-10, 1.08020e-12), 1588: (9.80817e-4, 1.17898e-6, -7.83160e-10, 8.66199e-13),
             1844: (9.53553e-4, 9.33233e-7, -4.26759e-10, 5.63667e-13), 2100: (9.78268e-4, 6.63231e-7, 4.18235e-11, 2.62297e-13)}
GMRT_4 = (-3.263, 42.618, -25.580, 5.823)


def cosine_taper(x_deg, y_deg, squint_x, squint_y, width_x, width_y):
    """The voltage of one feed of MeerKAT; squint and width in arcmin. Not evaluated at its removable pole."""
    rho = 1.1889647809329453 * np.hypot((x_deg - squint_x / 60) / (width_x / 60), (y_deg - squint_y / 60) / (width_y / 60))
    return np.cos(np.pi * rho) / (1 - 4 * rho**2)


def meerkat(mhz, x, y, _):
    c = MEERKAT_L[mhz]
    h, v = (cosine_taper(np.degrees(x), np.degrees(y), *c[k:k + 2], *c[4 + k:6 + k]) for k in (0, 2))
    return (h**2 + v**2) / 2


def polynomial(terms, mhz, x, y):
    """The sum of terms of even powers of arcmin GHz, without the first, 1."""
    q = (np.hypot(x, y) / ARCMIN * mhz / 1000)**2
    return 1 + sum(t * q**(k + 1) for k, t in enumerate(terms))


def vla(mhz, x, y, _):
    a, b, c = VLA_L[mhz]
    return polynomial((a * 1e-3, b * 1e-7, c * 1e-10), mhz, x, y)


def atca(mhz, x, y, _):
    return 1 / polynomial(ATCA_16CM[mhz], mhz, x, y)


def gmrt(mhz, x, y, _):
    a, b, c, d = GMRT_4
    return polynomial((a * 1e-3, b * 1e-7, c * 1e-10, d * 1e-13), mhz, x, y)


def airy_voltage(mhz, angle, dish, hole):
    def j(t):
        """2 J1(t) / t, J1 by Bessel's integral over a period."""
        tau = np.arange(400) * 2 * np.pi / 400
        return 2 * np.mean(np.cos(tau - t[..., None] * np.sin(tau)), axis=-1) / t
    s = np.pi * np.sin(np.maximum(angle, 1e-9)) * mhz * 1e6 / C
    return (dish**2 * j(dish * s) - hole**2 * j(hole * s)) / (dish**2 - hole**2)


def alma(mhz, x, y, sizes):
    return np.prod([airy_voltage(mhz, np.hypot(x, y), *((10.7, .75) if d > 9 else (6.25, .75))) for d in sizes], axis=0)


# Name in OBSERVATION, beam, first channel and step in MHz, half-power width at the first channel in arcmin, layout.
BEAMS = {"meerkat": ("MeerKAT", meerkat, 1000, 100, 88, ("-telescope", "meerkat")),
         "vla": ("EVLA", vla, 1040, 128, 40, ("-telescope", "vla", "-config", "D")),
         "atca": ("ATCA", atca, 1332, 256, 36, ("-telescope", "vla", "-config", "D")),
         "gmrt": ("GMRT", gmrt, 600, 60, 46, ("-telescope", "vla", "-config", "D")),
         "alma": ("ALMA", alma, 100000, 2000, 1.1, ("-telescope", "vla", "-config", "D"))}


def latitude_longitude(p):
    """Geodetic latitude by iteration, and longitude."""
    a, e2 = 6378137.0, 6.69437999014e-3
    r, phi = np.hypot(p[0], p[1]), np.arctan2(p[2], np.hypot(p[0], p[1]))
    for _ in range(10):
        n = a / np.sqrt(1 - e2 * np.sin(phi)**2)
        phi = np.arctan2(p[2] + e2 * n * np.sin(phi), r)
    return phi, np.arctan2(p[1], p[0])


def parallactic_angle(time_s, position, ra, dec):
    """From north through east to the zenith, in J2000; astropy precesses the zenith."""
    phi, lon = latitude_longitude(position)
    days = time_s / 86400 - 51544.5
    of_date = FK5(equinox=Time(time_s / 86400, format="mjd"))
    lst = np.radians((280.46061837 + 360.98564736629 * days) % 360) + lon
    zenith = SkyCoord(lst, phi, unit="rad", frame=of_date).transform_to(FK5(equinox="J2000"))
    return SkyCoord(ra, dec, unit="rad", frame="fk5").position_angle(zenith).rad


class Sky:
    """A set of a telescope whose DATA are sums over attenuated sources, and its pixels."""

    def __init__(self, s, name, pixels=256, pols="XX,YY", channels=4, index=None):
        self.name, (self.telescope, self.beam, first, step, width, layout) = name, BEAMS[name]
        step = step * 4 / channels
        self.mhz, self.n = [first + step * k for k in range(channels)], pixels
        self.cell = 2.0 * width * ARCMIN / pixels
        self.reach = 0.95 * width * ARCMIN * self.mhz[0] / self.mhz[-1]
        self.limit = 1 / (3.2 * self.cell)
        self.path = s.path(name + ".ms")
        made = s.made("%s%d%d.made.ms" % (name, len(pols), channels), *layout, "-duration", "8h", "-integration", "30min" if name == "meerkat" and channels == 4 and len(pols) == 5 else "2h", "-ra", "60deg", "-dec",
                      "-25deg" if name == "meerkat" else "30deg", "-pol", pols, "-spw", "%gMHz" % first, "%gMHz" % step, channels)
        fresh_copy(made, self.path)
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, self.telescope)
        with table(self.path + "/ANTENNA", readonly=False, ack=False) as t:
            self.position = np.mean(t.getcol("POSITION"), axis=0)
            self.size = np.where(np.arange(t.nrows()) % 3, 12.0, 7.0) if name == "alma" else np.full(t.nrows(), 25.0)
            t.putcol("DISH_DIAMETER", self.size)
        self.place_sources(name in ALONE)
        if index is not None:
            self.index[:] = index
        if pols == "XX,YY":
            self.fill()

    def place_sources(self, alone):
        """Sources on pixels, apart from each other, out to a tenth of the beam at the highest frequency."""
        random = np.random.default_rng(5)
        n = 1 if alone else SOURCES
        self.at, self.flux, self.index = [], random.uniform(1, 2, n), random.uniform(-1, 0, n)
        while len(self.at) < n:
            x, y = random.integers(8, self.n - 8, 2)
            if np.hypot(x - self.n / 2, y - self.n / 2) * self.cell > self.reach:  # where polynomials rise again
                continue
            if all(np.hypot(x - a, y - b) > 14 for a, b in self.at) and self.mean(self.mhz[-1], x, y) > 0.1:
                self.at.append((int(x), int(y)))
        self.polarised = np.concatenate([np.ones((n, 1)), random.uniform(-0.3, 0.3, (n, 3))], axis=1)

    def offsets(self, x, y):
        """Angles to the east and north of the pointing, which is the centre."""
        l, m = (self.n / 2 - np.asarray(x)) * self.cell, (np.asarray(y) - self.n / 2) * self.cell
        r = np.hypot(l, m)
        stretch = np.where(r > 0, np.arcsin(r) / np.where(r > 0, r, 1), 1)
        return l * stretch, m * stretch, l, m

    def response(self, mhz, x, y, chi, sizes):
        """Of one baseline at one time, with the feeds turned by chi."""
        east, north, _, _ = self.offsets(x, y)
        if self.name == "meerkat":
            return self.beam(mhz, north * np.sin(chi) - east * np.cos(chi), north * np.cos(chi) + east * np.sin(chi), sizes)
        return self.beam(mhz, east, north, sizes)

    @functools.cached_property
    def kinds(self):
        """The kinds of samples within the uv limit, by time and dishes: share, parallactic angle, diameters."""
        with table(self.path, ack=False) as t:
            rows = np.stack([t.getcol("TIME"), self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1)
            centre = table(self.path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0]
            uv = np.hypot(*t.getcol("UVW").T[:2]) * 1e6 / C
        kinds, of_row = np.unique(rows, axis=0, return_inverse=True)
        count = np.bincount(of_row.ravel(), sum(uv * m <= self.limit for m in self.mhz), len(kinds))
        angle = {time: parallactic_angle(time, self.position, *centre) for time in np.unique(kinds[:, 0])}
        return [(n, angle[k[0]], k[1:]) for n, k in zip(count / count.sum(), kinds)]

    def mean(self, mhz, x, y):
        """Over all samples within the uv limit, which have weight 1."""
        return sum(share * self.response(mhz, x, y, chi, sizes) for share, chi, sizes in self.kinds)

    def fill(self):
        """DATA: sums over the sources, in double."""
        _, _, l, m = self.offsets(*np.array(self.at).T)
        n_1 = np.sqrt(1 - l**2 - m**2) - 1
        with table(self.path, readonly=False, ack=False) as t:
            uvw, time, data = t.getcol("UVW"), t.getcol("TIME"), t.getcol("DATA")
            centre = table(self.path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0]
            sizes = np.sort(np.stack([self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1))
            for when in np.unique(time):
                chi = parallactic_angle(when, self.position, *centre)
                for kind in np.unique(sizes, axis=0):
                    rows = np.flatnonzero((time == when) & (sizes == kind).all(axis=1))
                    for c, mhz in enumerate(self.mhz):
                        seen = self.spectrum(mhz) * self.response(mhz, *np.array(self.at).T, chi, kind)
                        turns = uvw[rows] @ np.array([l, m, n_1]) * mhz * 1e6 / C
                        data[rows, c] = (np.exp(2j * np.pi * turns) @ seen)[:, None]
            t.putcol("DATA", data)

    def spectrum(self, mhz):
        return self.flux * (mhz / self.mhz[0])**self.index

    def write_models(self, s, planes="I", is_one=False):
        """Model images of each channel, or one for all channels, in true flux."""
        with table(self.path + "/FIELD", ack=False) as t:
            ra, dec = np.degrees(t.getcell("PHASE_DIR", 0)[0])
        for c, mhz in enumerate(self.mhz[:1] if is_one else self.mhz):
            for k, pol in enumerate(planes):
                image = np.zeros((1, 1, self.n, self.n), np.float32)
                for (x, y), flux, share in zip(self.at, self.spectrum(mhz), self.polarised):
                    image[0, 0, y, x] = flux * share[k]
                hdu = fits.PrimaryHDU(image)
                step = 1e6 * (self.mhz[1] - self.mhz[0])
                cards = (("RA---SIN", self.n / 2 + 1, -np.degrees(self.cell), ra), ("DEC--SIN", self.n / 2 + 1, np.degrees(self.cell), dec),
                         ("FREQ", 1, step, mhz * 1e6), ("STOKES", 1, 1, 1 + "IQUV".index(pol)))
                for i, (kind, pixel, delta, value) in enumerate(cards, 1):
                    hdu.header.update({"CTYPE%d" % i: kind, "CRPIX%d" % i: pixel, "CDELT%d" % i: delta, "CRVAL%d" % i: value})
                hdu.header.update({"BUNIT": "JY/PIXEL", "RADESYS": "FK5", "EQUINOX": 2000.0})
                name = "pb%s%s-model.fits" % ("" if is_one else "-%04d" % c, "" if planes == "I" else "-" + pol)
                hdu.writeto(os.path.join(s.out, name), overwrite=True)

    def coherencies(self, mhz, chi, sizes):
        """What each source gives in XX, XY, YX, YY of a baseline, [source][4]. X is north, Y east."""
        i, q, u, v = (self.spectrum(mhz)[:, None] * self.polarised).T
        sky = np.array([[i + q, u + 1j * v], [u - 1j * v, i - q]])
        east, north, _, _ = self.offsets(*np.array(self.at).T)
        if self.name != "meerkat":
            seen = sky * self.beam(mhz, east, north, sizes)
        else:
            # Feed axes: H towards growing azimuth, V up; calibrated data are turned back to north and east.
            c, si = np.cos(chi), np.sin(chi)
            turn = np.array([[si, -c], [c, si]])
            row = MEERKAT_L[mhz]
            x, y = (np.degrees(a) for a in (north * si - east * c, north * c + east * si))
            gain = np.zeros((2, 2, len(east)))
            gain[0, 0], gain[1, 1] = cosine_taper(x, y, *row[:2], *row[4:6]), cosine_taper(x, y, *row[2:4], *row[6:])
            jones = np.einsum("ai,abn,bj->ijn", turn, gain, turn)
            seen = np.einsum("ijn,jkn,lkn->iln", jones, sky, jones)
        return seen.reshape(4, -1).T

    def predicted(self):
        """The visibilities of every row, channel and correlation, [row][channel][XX XY YX YY]."""
        _, _, l, m = self.offsets(*np.array(self.at).T)
        n_1 = np.sqrt(1 - l**2 - m**2) - 1
        with table(self.path, ack=False) as t:
            uvw, time = t.getcol("UVW"), t.getcol("TIME")
            centre = table(self.path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0]
            sizes = np.stack([self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1)
        out = np.zeros((len(time), len(self.mhz), 4), complex)
        for when in np.unique(time):
            chi = parallactic_angle(when, self.position, *centre)
            for kind in np.unique(sizes, axis=0):
                rows = np.flatnonzero((time == when) & (sizes == kind).all(axis=1))
                for c, mhz in enumerate(self.mhz):
                    turns = uvw[rows] @ np.array([l, m, n_1]) * mhz * 1e6 / C
                    out[rows, c] = np.exp(2j * np.pi * turns) @ self.coherencies(mhz, chi, kind)
        return out


def run(s, sky, *words):
    done = s.launch("-quiet", "-overwrite", "-size", sky.n, sky.n, "-scale", "%.12grad" % sky.cell, "-maxuv-l",
                    "%.12g" % sky.limit, *(() if "-channels-out" in words else ("-channels-out", 4)), "-name", "pb", *words, sky.path)
    s.must(done.returncode == 0, "%s: runs%s" % (sky.name, done.stderr[-800:]))


def pixels(s, name):
    return fits.getdata(os.path.join(s.out, "pb-%s.fits" % name)).squeeze()


def check_beams(s):
    """The beam files are the mean of all baselines and times, at each channel."""
    for name in BEAMS:
        sky = Sky(s, name)
        run(s, sky, "-apply-primary-beam", "-pbcor", "-pblimit", 0.1)
        x, y = np.meshgrid(np.arange(3, sky.n, 10), np.arange(3, sky.n, 10))
        dirty = pixels(s, "MFS-dirty")
        worst = 0
        for c, mhz in enumerate(sky.mhz):
            want = sky.mean(mhz, x.ravel(), y.ravel())
            seen = (pixels(s, "%04d-beam-0" % c)[y, x] + pixels(s, "%04d-beam-15" % c)[y, x]).ravel() / 2
            inside = want > 0.1
            worst = max(worst, np.abs(seen - want)[inside].max())
            pb, pbcor, image = pixels(s, "%04d-pb" % c), pixels(s, "%04d-pbcor" % c), pixels(s, "%04d-dirty" % c)
            s.must(np.array_equal(np.isnan(pb), np.isnan(pbcor)) and np.nanmin(pb) > 0.1, "%s: limit" % name)
            worst = max(worst, np.nanmax(np.abs(pbcor * pb - image)) / np.abs(image).max())
        s.must(worst < 2e-4, "%s: beam, %.1e from the mean of all baselines" % (name, worst))
        mean = pixels(s, "MFS-beam-0") + pixels(s, "MFS-beam-15")
        ratio = pixels(s, "MFS-image-pb") * mean / 2 / dirty
        s.must(np.nanmax(np.abs(ratio - 1)[mean > 0.2]) < 1e-5, "%s: the image of all channels" % name)


def check_fluxes(s):
    """Cleaned and corrected, sources have their fluxes and spectra."""
    for name in BEAMS:
        sky = Sky(s, name)
        run(s, sky, "-apply-primary-beam", "-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-join-channels",
            "-no-update-model-required", "-no-dirty")
        flux = []
        for c, mhz in enumerate(sky.mhz):
            image = pixels(s, "%04d-image-pb" % c)
            flux.append([image[b, a] for a, b in sky.at])
            off = np.abs(np.array(flux[-1]) / sky.spectrum(mhz) - 1).max()
            s.must(off < 0.01, "%s, %d MHz: fluxes within %.2f %%" % (name, mhz, 100 * off))
        slope = np.polyfit(np.log(np.array(sky.mhz) / sky.mhz[0]), np.log(np.array(flux)), 1)[0]
        off = np.abs(slope - sky.index).max()
        s.must(off < 0.03, "%s: spectral indices within %.3f" % (name, off))


def empty(s):
    """Remove the files of earlier runs."""
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def check_predict(s):
    """True models, predicted through the beam, are the sum over each baseline's and time's own beam."""
    empty(s)
    for name, planes, accuracy, channels in ("meerkat", "I", 1e-5, 4), ("alma", "I", 1e-6, 4), ("gmrt", "IQUV", 1e-5, 32):
        sky = Sky(s, name, 128, "XX,XY,YX,YY", channels, 0 if channels > 4 else None)
        if planes == "I":
            sky.polarised[:, 1:] = 0
        sky.write_models(s, planes, is_one=channels > 4)
        done = s.launch("-quiet", "-predict", "-pb", "auto", "-accuracy", accuracy, "-name", "pb", sky.path)
        s.must(done.returncode == 0, "%s: predicts%s" % (name, done.stderr[-800:]))
        with table(sky.path, ack=False) as t:
            seen = t.getcol("MODEL_DATA")
        off = np.abs(seen - sky.predicted()).max() / sky.spectrum(sky.mhz[0]).sum()
        s.must(off < accuracy, "%s, %s: %.1e of the flux from the sum, %.0e allowed" % (name, planes, off, accuracy))
        empty(s)


def model_error(sky):
    """The rms of DATA less MODEL_DATA on the imaged baselines, as part of the flux."""
    with table(sky.path, ack=False) as t:
        data, seen = t.getcol("DATA"), t.getcol("MODEL_DATA")
        inside = np.hypot(*t.getcol("UVW").T[:2]) < 0.95 * sky.limit * C / (1e6 * sky.mhz[-1])
    return np.sqrt(np.mean(np.abs(data - seen)[inside]**2)) / sky.spectrum(sky.mhz[0]).sum()


def check_through(s):
    """Cleaned through the beam, a band of 40 % in one image: fluxes are true, the residual has no sidelobes of sources off the
    centre, and MODEL_DATA is what each baseline sees."""
    sky = Sky(s, "gmrt", 128, channels=32, index=0)
    empty(s)
    words = ("-grid-with-beam", "-niter", 30000, "-threshold", "0.2mJy", "-mgain", 0.8, "-no-dirty", "-channels-out", 1)
    run(s, sky, *words, "-nmiter", 3)
    run(s, sky, *words, "-continue")
    image, model = pixels(s, "image-pb"), pixels(s, "model-pb")
    off = max(abs(image[b, a] / f - 1) for (a, b), f in zip(sky.at, sky.flux))
    s.must(off < 0.002, "fluxes within %.3f %%" % (100 * off))
    off = max(abs(model[b - 3:b + 4, a - 3:a + 4].sum() / f - 1) for (a, b), f in zip(sky.at, sky.flux))
    s.must(off < 0.005, "the model within %.2f %%" % (100 * off))
    left = np.nanmax(np.abs(pixels(s, "residual")))
    s.must(left < 1e-3, "residual %.2g Jy" % left)
    off = model_error(sky)
    s.must(off < 1e-3, "MODEL_DATA, rms %.1e of the flux from DATA" % off)
    empty(s)
    s.refused("through the beam without cleaning", 2, "-niter", "-size", 64, 64, "-scale", "5asec", "-grid-with-beam", sky.path)
    s.refused("through files of an earlier run", 2, "reuse", "-size", 64, 64, "-scale", "5asec", "-niter", 9, "-grid-with-beam",
              "-apply-primary-beam", "-reuse-primary-beam", sky.path)


def check_polarised(s):
    """Stokes parameters of sources off the centre of dishes that turn, corrected by the inverse matrix and through the beam."""
    sky = Sky(s, "meerkat", 128, "XX,XY,YX,YY")
    with table(sky.path, readonly=False, ack=False) as t:
        t.putcol("DATA", sky.predicted())
    for word, most in ("-apply-primary-beam", 0.01), ("-grid-with-beam", 0.002):
        run(s, sky, word, "-pol", "IQUV", "-join-polarizations", "-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-no-dirty",
            "-join-channels")
        for k, pol in enumerate("IQUV"):
            image = pixels(s, "0001-%s-image-pb" % pol)
            off = max(abs(image[b, a] - f * share[k]) / f for (a, b), f, share in zip(sky.at, sky.spectrum(sky.mhz[1]), sky.polarised))
            s.must(off < most, "%s, %s within %.2f %% of the flux" % (word, pol, 100 * off))
        empty(s)
    off = model_error(sky)
    s.must(off < 2e-3, "MODEL_DATA, rms %.1e of the flux from DATA" % off)


def write_beam(path, values, step, mhz, on_sky):
    """A cube of a beam, [frequency][y][x], with pixels of a step in radians around its middle."""
    hdu = fits.PrimaryHDU(values.astype(np.float32))
    n = values.shape[-1]
    kinds = (("RA---SIN", -1), ("DEC--SIN", 1)) if on_sky else (("X", 1), ("Y", 1))
    for i, (kind, sign) in enumerate(kinds, 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CUNIT%d" % i: "deg", "CRPIX%d" % i: n // 2 + 1, "CRVAL%d" % i: 0.0,
                           "CDELT%d" % i: sign * np.degrees(step)})
    hdu.header.update({"CTYPE3": "FREQ", "CUNIT3": "Hz", "CRPIX3": 1, "CRVAL3": mhz[0] * 1e6, "CDELT3": (mhz[1] - mhz[0]) * 1e6})
    hdu.writeto(path, overwrite=True)


# Packages with the functions that msimage.beam calls. Stations have a Gaussian beam, with a phase that differs between them; the power
# of a tile grows with the azimuth and falls with the angle from the zenith.
EVERYBEAM = """import numpy as np
class Telescope:
    nr_stations = 3
    def station_response(self, time, k, hz, ra, dec):
        ra0, dec0 = %r, %r
        r = np.arccos(np.clip(np.sin(dec) * np.sin(dec0) + np.cos(dec) * np.cos(dec0) * np.cos(ra - ra0), -1, 1))
        return np.exp(1j * 0.3 * k - r**2 / 2 / np.radians(1)**2 * (hz / 1e9)**2) * np.diag([1, 0.8])
def load_telescope(path):
    return Telescope()
"""
HYPERBEAM = """import numpy as np
class FEEBeam:
    def __init__(self, path): open(path)
    def calc_jones_array(self, az, za, hz, delays, amps, norm_to_zenith):
        assert list(delays) == [0, 2, 4, 6] * 4 and all(amps == 1) and norm_to_zenith
        of = np.sqrt((2 + np.sin(az)) * np.cos(za))
        return np.array([[of, 0 * of], [0 * of, 0.5j * of]]).transpose(2, 0, 1)
"""


def helped(s, sky, *words):
    """Run msimage.beam with these packages. Returns its process."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/msimage/beam.py")
    return subprocess.run([sys.executable, path, sky.path, "-name", os.path.join(s.out, "pb"), "-size", "128", "128", "-scale",
                           "%.12grad" % sky.cell, *words], env={**os.environ, "PYTHONPATH": s.path("packages")}, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def check_helper(s):
    """Beams of other packages, written by msimage.beam, are means over stations and times, and msimage takes them."""
    empty(s)
    sky = Sky(s, "gmrt", 128)
    os.makedirs(s.path("packages"), exist_ok=True)
    done = helped(s, sky)
    s.must(done.returncode == 3 and "pip install everybeam" in done.stderr and done.stderr.count("\n") == 1, "no package: one line")
    ra, dec = np.radians([60, 30])
    for name, text in ("everybeam", EVERYBEAM % (ra, dec)), ("mwa_hyperbeam", HYPERBEAM):
        with open(s.path("packages/%s.py" % name), "w") as f:
            f.write(text)
    done = helped(s, sky, "-channels-out", "4", "-slot", "14400", "-nodes", "40")
    s.must(done.returncode == 0, "everybeam: %s" % done.stderr[-300:])
    x, y = np.meshgrid(np.arange(3, 120, 9), np.arange(3, 120, 9))
    _, _, l, m = sky.offsets(x.ravel(), y.ravel())
    # The mean over pairs of the cosine of their phases.
    pairs = (2 * np.cos(0.3) + np.cos(0.6)) / 3
    worst = max(np.abs(pixels(s, "%04d-beam-%d" % (c, k))[y, x].ravel() -
                       gain * pairs * np.exp(-(np.arcsin(np.hypot(l, m)) / np.radians(1) * mhz / 1000)**2)).max()
                for c, mhz in enumerate(sky.mhz) for k, gain in ((0, 1), (15, 0.64)))
    s.must(worst < 1e-3, "everybeam: %.1e from the mean over pairs" % worst)
    run(s, sky, "-apply-primary-beam", "-reuse-primary-beam")
    beam = (pixels(s, "0002-beam-0") + pixels(s, "0002-beam-15")) / 2
    off = np.nanmax(np.abs(pixels(s, "0002-image-pb") * beam / pixels(s, "0002-dirty") - 1)[beam > 0.1])
    s.must(off < 1e-4, "msimage divides by them, %.1e" % off)
    empty(s)
    with table(sky.path + "/OBSERVATION", readonly=False, ack=False) as t:
        t.putcell("TELESCOPE_NAME", 0, "MWA")
    from casacore.tables import makearrcoldesc, maketabdesc
    with table(sky.path + "/MWA_TILE_POINTING", maketabdesc([makearrcoldesc("DELAYS", 0, 1)]), nrow=1, readonly=False, ack=False) as t:
        t.putcell("DELAYS", 0, np.array([0, 2, 4, 6] * 4, np.int32))
    done = helped(s, sky, "-mwa-path", s.path("packages/none.h5"))
    s.must(done.returncode == 3 and "-pb mwa-analytic" in done.stderr, "no coefficients: one line")
    with open(s.path("packages/mwa_full_embedded_element_pattern.h5"), "w"):
        pass
    done = helped(s, sky, "-mwa-path", s.path("packages"), "-slot", "1e6")
    s.must(done.returncode == 0, "mwa_hyperbeam: %s" % done.stderr[-300:])
    with table(sky.path, ack=False) as t:
        when = t.getcol("TIME").mean()
    east, north, up = site_axes(sky.position)
    way = itrf(when, ra, dec)
    want = (2 + way @ east / np.hypot(way @ east, way @ north)) * (way @ up)
    seen = [pixels(s, "beam-%d" % k)[64, 64] for k in (0, 15)]
    s.must(np.allclose(seen, [want, want / 4], rtol=2e-3), "mwa_hyperbeam: %.5f, %.5f and %.5f, %.5f" % (*seen, want, want / 4))
    empty(s)


def check_files(s):
    """Beams of files that were written from a model give its images; what does not fit is refused."""
    empty(s)
    pixel = np.arange(-150, 151)
    sky, step = Sky(s, "vla", 128), 1.4 * 40 * ARCMIN / 150
    x, y = np.meshgrid(-pixel * step, pixel * step)
    x, y = (np.arcsin(np.minimum(1, np.hypot(x, y))) / np.maximum(np.hypot(x, y), 1e-9) * a for a in (x, y))
    power = s.path("power.fits")
    write_beam(power, np.array([vla(m, x, y, None) for m in sky.mhz]), step, sky.mhz, True)
    worst = compare_models(s, sky, "vla", power)
    s.must(worst < 1e-4, "a cube of power, %.1e from the model" % worst)
    size = ("-size", 64, 64, "-scale", "1amin", "-pbcor")
    with fits.open(power) as f:
        narrow = s.path("narrow.fits")
        write_beam(narrow, f[0].data[1:3], step, sky.mhz[1:3], True)
        fits.writeto(s.path("flat.fits"), f[0].data[0], f[0].header, overwrite=True)
    s.refused("a beam of other frequencies", 3, "1104 to 1360 MHz", *size, "-pb", narrow, sky.path)
    s.refused("a beam without frequencies", 3, "FREQ", *size, "-pb", s.path("flat.fits"), sky.path)
    s.refused("no beam", 3, "none.fits", *size, "-pb", s.path("none.fits"), sky.path)
    sky, step = Sky(s, "meerkat", 128), 1.5 * 88 * ARCMIN / 150
    x, y = np.meshgrid(pixel * step, pixel * step)
    feeds = [[cosine_taper(np.degrees(x), np.degrees(y), *MEERKAT_L[m][k:k + 2], *MEERKAT_L[m][4 + k:6 + k]) for m in sky.mhz]
             for k in (0, 2)]
    for corr, values in (("xx", feeds[0]), ("xy", None), ("yx", None), ("yy", feeds[1])):
        for part in ("re", "im"):
            cube = np.array(values) if values and part == "re" else np.zeros((4, 301, 301))
            write_beam(s.path("dish_%s_%s.fits" % (corr, part)), cube, step, sky.mhz, False)
    pattern = s.path("dish_$(corr)_$(reim).fits")
    worst = compare_models(s, sky, "meerkat", pattern)
    s.must(worst < 1e-4, "eight cubes of a Jones matrix, %.1e from the model" % worst)
    with table(sky.path + "/POLARIZATION", readonly=False, ack=False) as t:
        t.putcell("CORR_TYPE", 0, np.array([5, 8], np.int32))
    s.refused("a beam of other feeds", 3, "linear", *size, "-pb", pattern, sky.path)


def compare_models(s, sky, *models):
    """The largest difference between the responses of two models."""
    beams = []
    for model in models:
        run(s, sky, "-pbcor", "-pb", model, "-pblimit", 0.06, "-apply-primary-beam")
        beams.append(np.array([pixels(s, "%04d-%s" % (c, kind)) for c in range(4) for kind in ("pb", "beam-0", "beam-15")]))
    empty(s)
    both = np.isfinite(beams[0]) & np.isfinite(beams[1]) & (beams[0] > 0.07)
    s.must(both.mean() > 0.1, "beams cover the image, %.2f" % both.mean())
    return np.abs(beams[0] - beams[1])[both].max()


def check_choices(s):
    """Models by words, files of an earlier run, a mask, and what is refused."""
    sky = Sky(s, "vla")
    run(s, sky, "-apply-primary-beam", "-save-psf-pb", "-make-psf")
    first, psf = pixels(s, "0002-image-pb"), pixels(s, "0002-psf")
    beam = pixels(s, "0002-beam-0")
    s.must(np.allclose(pixels(s, "0002-psf-pb") * beam, psf, atol=1e-5, equal_nan=True) or
           np.nanmax(np.abs(pixels(s, "0002-psf-pb") * beam - psf)) < 1e-5, "the PSF over the beam")
    os.rename(os.path.join(s.out, "pb-0002-beam-0.fits"), os.path.join(s.out, "kept.fits"))
    with fits.open(os.path.join(s.out, "kept.fits")) as f:
        f[0].data *= 0.5
        f.writeto(os.path.join(s.out, "pb-0002-beam-0.fits"))
    run(s, sky, "-apply-primary-beam", "-reuse-primary-beam")
    ratio = pixels(s, "0002-image-pb") / first
    s.must(abs(np.nanmedian(ratio) - 1 / 0.75) < 1e-4, "files of an earlier run are used: %.5f" % np.nanmedian(ratio))
    run(s, sky, "-pbcor", "-pb", "gauss:40amin@1.04GHz")
    x = sky.n // 2 + 20
    angle = np.arcsin(20 * sky.cell) / ARCMIN
    for c, mhz in enumerate(sky.mhz):
        want = np.exp(-4 * np.log(2) * (angle * mhz / 1040 / 40)**2)
        s.must(abs(pixels(s, "%04d-pb" % c)[sky.n // 2, x] - want) < 1e-5, "a Gaussian of the command line")
    run(s, sky, "-niter", 200, "-pbmask", 0.5, "-join-channels", "-no-update-model-required")
    model = np.abs(pixels(s, "MFS-model")) > 0
    y, x = np.nonzero(model)
    s.must(model.any() and np.mean([sky.mean(m, x, y) for m in sky.mhz], axis=0).min() > 0.499, "components within the mask of the beam")
    empty(s)
    size = ("-size", 64, 64, "-scale", "5asec")
    other = s.made("other.ms", "-telescope", "vla", "-duration", "10s", "-spw", "1.4GHz", "1MHz", 1)
    with table(other + "/OBSERVATION", readonly=False, ack=False) as t:
        t.putcell("TELESCOPE_NAME", 0, "NOWHERE")
    s.refused("no word for a prediction", 2, "-pb", "-predict", "-pb", "banana", "-name", "pb", other)
    s.refused("no model", 3, "NOWHERE", *size, "-pbcor", other)
    s.refused("no word", 2, "-pb", *size, "-pb", "banana", "-pbcor", other)
    s.refused("no beam", 2, "-pb off", *size, "-pb", "off", "-pbcor", other)
    s.refused("mask without cleaning", 2, "-niter", *size, "-pbmask", 0.5, other)
    s.refused("PSF without beam", 2, "-apply-primary-beam", *size, "-save-psf-pb", other)
    s.refused("embedded elements", 3, "-pb mwa-analytic", *size, "-apply-primary-beam", "-mwa-path", "/", other)
    s.refused("files that are not there", 3, "beam-0", *size, "-apply-primary-beam", "-reuse-primary-beam", other)


# A station of LOFAR: tiles, whose dipoles have delays, towards two directions, with a dipole that is described by a series.
FIELD_DTYPE = {"ANTENNA_ID": 0, "NAME": "", "POSITION": 0.0, "COORDINATE_AXES": 0.0, "ELEMENT_OFFSET": 0.0, "ELEMENT_FLAG": False,
               "TILE_ELEMENT_OFFSET": 0.0}


class Stations:
    """A set with layouts of stations, and the definition of their beams."""

    def __init__(self, s):
        random = np.random.default_rng(7)
        self.n, self.path, core = 5, s.path("lofar.ms"), np.array([3826896.2, 460979.5, 5064658.2])
        east, north, up = site_axes(core)
        at = core + random.normal(size=(self.n, 2)) * 100 @ np.array([east, north])
        layout = s.path("stations.txt")
        with open(layout, "w") as f:
            f.writelines("%.4f %.4f %.4f 30 CS%03dHBA\n" % (*p, i) for i, p in enumerate(at))
        fresh_copy(s.made("lofar.made.ms", "-layout-file", layout, "-duration", "6h", "-integration", "1h", "-ra",
                          "60deg", "-dec", "50deg", "-pol", "XX,XY,YX,YY", "-spw", "145MHz", "6MHz", 1), self.path)
        self.fields = []
        for i in range(self.n):
            turn = 0.7 * i
            p, q = np.cos(turn) * east + np.sin(turn) * north, np.cos(turn) * north - np.sin(turn) * east
            flags = random.random((24, 2)) < 0.1
            self.fields.append({"ANTENNA_ID": i, "NAME": "HBA", "POSITION": at[i] + 0.06 * east, "COORDINATE_AXES": np.array([p, q, up]),
                                "ELEMENT_OFFSET": random.uniform(-15, 15, (24, 2)) @ np.array([p, q]), "ELEMENT_FLAG": flags,
                                "TILE_ELEMENT_OFFSET": np.array([(k // 4 - 1.5) * 1.25 * p + (k % 4 - 1.5) * 1.25 * q for k in range(16)])})
        self.antenna = at
        self.aim, self.tile = np.radians([60.5, 50.3]), np.radians([60.2, 49.6])
        # Harmonics, powers of the angle, powers of the frequency, theta and phi.
        self.dipole = (random.normal(size=(2, 5, 5, 2)) + 0.2j * random.normal(size=(2, 5, 5, 2))) * 0.1
        self.dipole[0, 0, 0] = 1
        self.write(s)

    def write(self, s):
        from casacore.tables import makearrcoldesc, makescacoldesc, maketabdesc
        sample = self.fields[0]
        columns = [makescacoldesc(k, v) if np.isscalar(sample[k]) else makearrcoldesc(k, v, np.ndim(sample[k]))
                   for k, v in FIELD_DTYPE.items()]
        with table(self.path + "/LOFAR_ANTENNA_FIELD", maketabdesc(columns), nrow=self.n, readonly=False, ack=False) as t:
            for i, f in enumerate(self.fields):
                for name, value in f.items():
                    t.putcell(name, i, value)
        with table(self.path, readonly=False, ack=False) as t:
            t.putkeyword("LOFAR_ANTENNA_FIELD", "Table: " + self.path + "/LOFAR_ANTENNA_FIELD")
            # Baselines differ in weight.
            self.pairs = np.stack([t.getcol("ANTENNA1"), t.getcol("ANTENNA2")], axis=1)
            self.weight = 1 + self.pairs[:, 0] + 2.0 * self.pairs[:, 1]
            spectrum = t.getcol("WEIGHT_SPECTRUM")
            t.putcol("WEIGHT_SPECTRUM", np.broadcast_to(self.weight[:, None, None], spectrum.shape).astype(np.float32))
            self.time = t.getcol("TIME")
        with table(self.path + "/FIELD", readonly=False, ack=False) as t:
            t.addcols(maketabdesc([makearrcoldesc("LOFAR_TILE_BEAM_DIR", 0.0, 1)]))
            t.putcell("LOFAR_TILE_BEAM_DIR", 0, self.tile)
            t.putcell("DELAY_DIR", 0, self.aim[None])
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, "LOFAR")
        with h5py.File(s.path("HamakerHBACoeff.h5"), "w") as f:
            f["coeff"] = self.dipole
            f["coeff"].attrs["freq_center"], f["coeff"].attrs["freq_range"] = 180e6, 60e6

    def jones(self, time_s, hz, ra, dec):
        """Of each station, with columns along two axes of the sky, [station][feed][2][direction]."""
        way, to, tile = (itrf(time_s, *d) for d in ((ra, dec), self.aim, self.tile))
        turns = 2j * np.pi * hz / C
        out = []
        for f, antenna in zip(self.fields, self.antenna):
            on = 1.0 - f["ELEMENT_FLAG"]
            wave = np.exp(turns * (f["ELEMENT_OFFSET"] + f["POSITION"] - antenna) @ (way - to[:, None]))
            factor = on.T @ wave / on.sum(axis=0)[:, None]
            factor = factor * np.exp(turns * f["TILE_ELEMENT_OFFSET"] @ (way - tile[:, None])).mean(axis=0)
            p, q, r = f["COORDINATE_AXES"] @ way
            theta, phi = np.arccos(r), np.arctan2(q, p) - 1.25 * np.pi
            of = np.polynomial.polynomial.polyval2d(theta, np.full_like(theta, (hz - 180e6) / 60e6), np.moveaxis(self.dipole, 0, 2).reshape(5, 5, 4))
            dipole = sum(np.array([[np.cos(k * phi), -np.sin(k * phi)], [np.sin(k * phi), np.cos(k * phi)]]) * of[2 * i:2 * i + 2]
                         for i, k in enumerate((1, -3)))
            # From the station's theta and phi to axes that all stations share.
            normal = f["COORDINATE_AXES"][2][:, None]
            along = np.cross(normal, way, axis=0)
            along /= np.linalg.norm(along, axis=0)
            down = np.cross(along, way, axis=0)
            shared = np.cross([0, 0, 1], way, axis=0)
            shared /= np.linalg.norm(shared, axis=0)
            other = np.cross(way, shared, axis=0)
            turn = np.array([[(a * b).sum(axis=0) for b in (other, shared)] for a in (down, along)])
            out.append(factor[:, None] * np.einsum("fin,ijn->fjn", dipole, turn))
        return np.array(out)

    def powers(self, hz, ra, dec, applied=None):
        """The mean power of both feeds over all baselines and times, [feed][direction]."""
        total = 0
        for when in np.unique(self.time):
            a = self.jones(when, hz, ra, dec)
            if applied is not None:
                a = np.einsum("sfi,sijn->sfjn", np.linalg.inv(self.jones(when, hz, *np.array(applied)[:, None])[..., 0]), a)
            for (p, q), w in zip(self.pairs[self.time == when], self.weight[self.time == when]):
                total = total + w * np.einsum("fjn,fjn->fn", a[p], a[q].conj()).real
        return total / self.weight.sum()


class Tiles:
    """A set of MWA tiles that are steered 6.8 degrees north of the zenith, and the definition of their beam."""
    DELAYS = [3] * 4 + [2] * 4 + [1] * 4 + [0] * 4

    def __init__(self, s):
        from casacore.tables import makearrcoldesc, maketabdesc
        self.path, site = s.path("mwa.ms"), np.array([-2559454.1, 5095372.1, -2849057.2])
        self.axes = site_axes(site)
        at = site + np.random.default_rng(3).normal(size=(6, 2)) * 60 @ self.axes[:2]
        layout = s.path("tiles.txt")
        with open(layout, "w") as f:
            f.writelines("%.4f %.4f %.4f 4 Tile%03d\n" % (*p, i) for i, p in enumerate(at))
        fresh_copy(s.made("mwa.made.ms", "-layout-file", layout, "-duration", "2h", "-integration", "20min", "-ra", "60deg", "-dec", "-20deg",
                          "-pol", "XX,XY,YX,YY", "-spw", "150MHz", "1MHz", 2), self.path)
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, "MWA")
        with table(self.path + "/MWA_TILE_POINTING", maketabdesc([makearrcoldesc("DELAYS", 0, 1)]), nrow=1, readonly=False, ack=False) as t:
            t.putcell("DELAYS", 0, np.array(self.DELAYS, np.int32))
        with table(self.path, readonly=False, ack=False) as t:
            t.putkeyword("MWA_TILE_POINTING", "Table: " + self.path + "/MWA_TILE_POINTING")

    def jones(self, time_s, hz, ra, dec):
        """Rows east-west and north-south dipole, columns theta and phi, [feed][2][direction]."""
        e, n, u = self.axes @ itrf(time_s, ra, dec)
        z, a = np.arccos(u), np.arctan2(e, n)
        turns = 2 * np.pi * hz / C
        path = [(k % 4 - 1.5) * 1.1 * e + (1.5 - k // 4) * 1.1 * n - self.DELAYS[k] * 435e-12 * C for k in range(16)]
        gain = np.exp(1j * turns * np.array(path)).mean(axis=0) * np.sin(turns * 0.278 * np.cos(z)) / np.sin(turns * 0.278)
        return gain * np.array([[np.cos(z) * np.sin(a), np.cos(a)], [np.cos(z) * np.cos(a), -np.sin(a)]])


def check_mwa(s):
    """Tiles that stand still: the mean beam over a time in which the sky turns, and a prediction."""
    empty(s)
    sky, n, cell = Tiles(s), 128, np.radians(0.2)
    ra0, dec0 = np.radians([60, -20])

    def directions(x, y):
        l, m = -(x - n / 2) * cell, (y - n / 2) * cell
        nn = np.sqrt(1 - l**2 - m**2)
        return l, m, nn, ra0 + np.arctan2(l, nn * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + nn * np.sin(dec0))
    y, x = (a.ravel() for a in np.mgrid[4:n:17, 4:n:17])
    done = s.launch("-quiet", "-overwrite", "-name", "pb", "-size", n, n, "-scale", "%.12grad" % cell, "-channels-out", 2,
                    "-apply-primary-beam", sky.path)
    s.must(done.returncode == 0, "MWA: runs%s" % done.stderr[-800:])
    with table(sky.path, ack=False) as t:
        uvw, time = t.getcol("UVW"), t.getcol("TIME")
    worst = 0
    for c, hz in enumerate((150e6, 151e6)):
        want = np.mean([(np.abs(sky.jones(when, hz, *directions(x, y)[3:]))**2).sum(axis=1) for when in np.unique(time)], axis=0)
        worst = max(worst, *(np.abs(pixels(s, "%04d-beam-%d" % (c, k))[y, x] - w).max() for k, w in zip((0, 15), want)))
    s.must(worst < 2e-4, "MWA: power of both feeds, %.1e from the mean over times" % worst)
    empty(s)
    at, flux = np.array([[64, 70], [90, 40], [30, 75], [50, 20]]), np.array([1.0, 2.0, 0.5, 1.5])
    hdu = fits.PrimaryHDU(np.zeros((1, 1, n, n), np.float32))
    hdu.data[0, 0, at[:, 1], at[:, 0]] = flux
    for i, (kind, value, delta, unit) in enumerate((("RA---SIN", 60, -np.degrees(cell), "deg"), ("DEC--SIN", -20, np.degrees(cell), "deg"),
                                                    ("FREQ", 150.5e6, 2e6, "Hz"), ("STOKES", 1, 1, "")), 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: delta, "CRPIX%d" % i: n // 2 + 1 if i < 3 else 1,
                           "CUNIT%d" % i: unit})
    hdu.header.update({"BUNIT": "JY/PIXEL", "RADESYS": "FK5", "EQUINOX": 2000.0})
    hdu.writeto(os.path.join(s.out, "pb-model.fits"), overwrite=True)
    done = s.launch("-quiet", "-predict", "-pb", "auto", "-accuracy", 1e-4, "-name", "pb", sky.path)
    s.must(done.returncode == 0, "MWA: predicts%s" % done.stderr[-800:])
    l, m, nn, ra, dec = directions(at[:, 0], at[:, 1])
    with table(sky.path, ack=False) as t:
        seen = t.getcol("MODEL_DATA").reshape(-1, 2, 2, 2)
    worst = 0
    for when in np.unique(time):
        for c, hz in enumerate((150e6, 151e6)):
            j = sky.jones(when, hz, ra, dec)
            apparent = np.einsum("fin,gin->fgn", j, j.conj()) * flux
            rows = np.flatnonzero(time == when)
            want = np.einsum("rn,fgn->rfg", np.exp(2j * np.pi * hz / C * uvw[rows] @ np.array([l, m, nn - 1])), apparent)
            worst = max(worst, np.abs(seen[rows, c] - want).max() / flux.sum())
    s.must(worst < 1e-4, "MWA: visibilities, %.1e of the flux from the sum" % worst)
    empty(s)


def site_axes(p):
    phi, lon = latitude_longitude(p)
    return np.array([[-np.sin(lon), np.cos(lon), 0], [-np.sin(phi) * np.cos(lon), -np.sin(phi) * np.sin(lon), np.cos(phi)],
                     [np.cos(phi) * np.cos(lon), np.cos(phi) * np.sin(lon), np.sin(phi)]])


def itrf(time_s, ra, dec):
    """Directions of J2000 at a time; astropy precesses them."""
    of_date = SkyCoord(ra, dec, unit="rad", frame=FK5(equinox="J2000")).transform_to(FK5(equinox=Time(time_s / 86400, format="mjd")))
    lon = of_date.ra.rad - np.radians((280.46061837 + 360.98564736629 * (time_s / 86400 - 51544.5)) % 360)
    return np.array([np.cos(of_date.dec.rad) * np.cos(lon), np.cos(of_date.dec.rad) * np.sin(lon), np.sin(of_date.dec.rad)])


def facet_is_right(s, sky):
    """The prediction by a facet has each station's own beam towards its middle."""
    step, n = np.radians(1 / 3600), 64
    hdu = fits.PrimaryHDU(np.zeros((1, 1, n, n), np.float32))
    hdu.data[0, 0, n // 2, n // 2] = 1
    for i, (kind, value, delta, unit) in enumerate((("RA---SIN", 61, -step, "deg"), ("DEC--SIN", 51, step, "deg"), ("FREQ", 145e6, 1e6, "Hz"),
                                                    ("STOKES", 1, 1, "")), 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: np.degrees(delta) if i < 3 else delta,
                           "CRPIX%d" % i: n // 2 + 1 if i < 3 else 1, "CUNIT%d" % i: unit})
    hdu.header["BUNIT"] = "JY/PIXEL"
    hdu.writeto(os.path.join(s.out, "pb-model.fits"), overwrite=True)
    done = s.launch("-quiet", "-predict", "-facet-auto", 1, "-apply-facet-beam", "-facet-beam-update", 0, "-accuracy", 1e-6, "-pb",
                    "lofar:" + s.path(""), "-name", "pb", sky.path)
    s.must(done.returncode == 0, "LOFAR, a facet: predicts%s" % done.stderr[-800:])
    with table(sky.path, ack=False) as t:
        seen = t.getcol("MODEL_DATA")[:, 0].reshape(-1, 2, 2)
    worst = 0
    for when in np.unique(sky.time):
        a = sky.jones(when, 145e6, *np.radians([[61], [51]]))[..., 0]
        for (p, q), got in zip(sky.pairs[sky.time == when], seen[sky.time == when]):
            want = a[p] @ a[q].conj().T
            # The phase is that of the baseline: amplitudes are compared.
            worst = max(worst, np.abs(np.abs(got) - np.abs(want)).max(), abs(np.linalg.norm(got) - np.linalg.norm(want)))
    s.must(worst < 1e-4, "LOFAR, a facet: visibilities, %.1e of 1 Jy from the beams of both stations" % worst)
    empty(s)


def check_lofar(s):
    """Stations of LOFAR: the mean over baselines of unequal weight, data that are corrected for a direction, a beam of a facet."""
    empty(s)
    sky = Stations(s)
    n, cell = 128, np.radians(0.06)
    y, x = (a.ravel() for a in np.mgrid[4:n:17, 4:n:17])
    l, m = -(x - n / 2) * np.sin(cell), (y - n / 2) * np.sin(cell)
    dec0, ra0, nn = np.radians(50), np.radians(60), np.sqrt(1 - l**2 - m**2)
    ra, dec = ra0 + np.arctan2(l, nn * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + nn * np.sin(dec0))
    size = ("-size", n, n, "-scale", "%.12grad" % cell, "-quiet", "-overwrite", "-name", "pb")
    words = (*size, "-apply-primary-beam", "-pb", "lofar:" + s.path(""), sky.path)
    facet_is_right(s, sky)
    applied = np.radians([60.1, 50.1])
    for what in "as observed", "corrected":
        if what == "corrected":
            with table(sky.path, readonly=False, ack=False) as t:
                t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_MODE", "Full")
                t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_DIR", {"type": "direction", "refer": "J2000", "m0": {
                    "value": applied[0], "unit": "rad"}, "m1": {"value": applied[1], "unit": "rad"}})
        done = s.launch(*words)
        s.must(done.returncode == 0, "LOFAR %s: runs%s" % (what, done.stderr[-800:]))
        want = sky.powers(145e6, ra, dec, None if what == "as observed" else applied).mean(axis=0)
        seen = (pixels(s, "beam-0")[y, x] + pixels(s, "beam-15")[y, x]) / 2
        off = np.abs(seen - want).max() / want.max()
        s.must(off < 3e-4, "LOFAR %s: beam, %.1e of its peak from the mean of all baselines" % (what, off))
    empty(s)
    s.refused("stations through the beam", 3, "-apply-facet-beam", *words[:-1], "-grid-with-beam", "-niter", 9, "-threshold", "1Jy", sky.path)
    s.refused("no coefficients", 3, "HamakerHBACoeff.h5", *size, "-pbcor", "-pb", "lofar:/", sky.path)
    with h5py.File(s.path("HamakerHBACoeff.h5"), "w") as f:
        f["coeff"] = sky.dipole[:1, :, :, 0]
    s.refused("other coefficients", 3, "coeff", *words)
    os.remove(s.path("HamakerHBACoeff.h5"))
    with table(sky.path, readonly=False, ack=False) as t:
        t.removekeyword("LOFAR_ANTENNA_FIELD")
    s.refused("no layouts", 3, "LOFAR_ANTENNA_FIELD", *words)


main(ImagingSuite, globals())
