# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets whose visibilities are sums in double over sources that were attenuated by each baseline's own beam: formulas written
out here, with the coefficients that BEAMS names, rotation by the parallactic angle, dishes of two sizes, tiles that stand still."""
import functools
import os

import numpy as np
from astropy.coordinates import FK5, SkyCoord
from astropy.io import fits
from astropy.time import Time
from casacore.tables import makearrcoldesc, maketabdesc, table
from image_oracle import C
from program_suite import fresh_copy

ARCMIN = np.pi / 10800
SOURCES = 16

# Where dishes differ, or turn, the point spread function of a source off the centre is not that of the image, and its
# sidelobes are not cleaned whole: one source alone then.
ALONE = ("alma",)

# Rows of the tables, each at one of the channels that are made: MHz and coefficients.
MEERKAT_L = {900: (0, .88, 0, .72, 97.98, 100.37, 96.41, 101.89), 1400: (-.43, -.07, .03, -.07, 59.58, 62.7, 60.11, 62.26),
             1000: (.05, .20, .02, .38, 87.89, 89.30, 85.59, 91.74), 1100: (-.03, -.03, .01, -.23, 79.08, 80.06, 76.76, 82.25),
             1200: (-.05, 0, 0, -.36, 70.81, 72.78, 69.70, 73.86), 1300: (.06, .02, .01, -.58, 64.20, 67.18, 64.30, 67.11)}
VLA_L = {1040: (-1.529, 8.69, -1.88), 1168: (-1.439, 7.53, -1.45), 1296: (-1.428, 7.62, -1.54), 1424: (-1.462, 8.23, -1.83),
         1552: (-1.435, 7.54, -1.49)}
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
         "mwa": ("MWA", None, 150, 10, 1500, None),
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


def site_axes(p):
    phi, lon = latitude_longitude(p)
    return np.array([[-np.sin(lon), np.cos(lon), 0], [-np.sin(phi) * np.cos(lon), -np.sin(phi) * np.sin(lon), np.cos(phi)],
                     [np.cos(phi) * np.cos(lon), np.cos(phi) * np.sin(lon), np.sin(phi)]])


def itrf(time_s, ra, dec):
    """Directions of J2000 at a time; astropy precesses them."""
    of_date = SkyCoord(ra, dec, unit="rad", frame=FK5(equinox="J2000")).transform_to(FK5(equinox=Time(time_s / 86400, format="mjd")))
    lon = of_date.ra.rad - np.radians((280.46061837 + 360.98564736629 * (time_s / 86400 - 51544.5)) % 360)
    return np.array([np.cos(of_date.dec.rad) * np.cos(lon), np.cos(of_date.dec.rad) * np.sin(lon), np.sin(of_date.dec.rad)])


MWA_DELAYS = [3] * 4 + [2] * 4 + [1] * 4 + [0] * 4


def tile_jones(axes, time_s, hz, ra, dec):
    """Of an MWA tile steered 6.8 degrees north of the zenith: rows east-west and north-south dipole, columns theta and phi."""
    e, n, u = axes @ itrf(time_s, ra, dec)
    z, a = np.arccos(u), np.arctan2(e, n)
    turns = 2 * np.pi * hz / C
    path = [(k % 4 - 1.5) * 1.1 * e + (1.5 - k // 4) * 1.1 * n - MWA_DELAYS[k] * 435e-12 * C for k in range(16)]
    gain = np.exp(1j * turns * np.array(path)).mean(axis=0) * np.sin(turns * 0.278 * np.cos(z)) / np.sin(turns * 0.278)
    return gain * np.array([[np.cos(z) * np.sin(a), np.cos(a)], [np.cos(z) * np.cos(a), -np.sin(a)]])


def tile_on_sky(axes, time_s, hz, ra, dec):
    """The same with columns along north and east of the sky."""
    step, way = 1e-6, itrf(time_s, ra, dec)
    north, east = (itrf(time_s, ra, dec + step) - way) / step, (itrf(time_s, ra + step / np.cos(dec), dec) - way) / step
    e, n, _ = axes @ way
    a = np.arctan2(e, n)
    phi = axes[0][:, None] * np.cos(a) - axes[1][:, None] * np.sin(a)
    theta = np.cross(way, phi, axis=0)  # azimuth runs from north through east, so that this points down
    turn = np.array([[(p * q).sum(axis=0) for q in (north, east)] for p in (theta, phi)])
    return np.einsum("fin,ijn->fjn", tile_jones(axes, time_s, hz, ra, dec), turn)


def tile_layout(s):
    """A layout of MWA tiles."""
    site, path = np.array([-2559454.1, 5095372.1, -2849057.2]), s.path("mwa-layout.txt")
    at = site + np.random.default_rng(3).normal(size=(128, 2)) * 120 @ site_axes(site)[:2]
    with open(path, "w") as f:
        f.writelines("%.4f %.4f %.4f 4 Tile%03d\n" % (*p, i) for i, p in enumerate(at))
    return "-layout-file", path


class Sky:
    """A set of a telescope whose DATA are sums over attenuated sources, and its pixels."""

    def __init__(self, s, name, pixels=256, pols="XX,YY", channels=4, index=None, band=None, sources=SOURCES, integration=None):
        """Given: band  first channel and step in MHz, instead of those of BEAMS."""
        self.name, (self.telescope, self.beam, first, step, width, layout) = name, BEAMS[name]
        step = step * 4 / channels
        if band:
            width, (first, step) = width * first / band[0], band
        self.mhz, self.n = [first + step * k for k in range(channels)], pixels
        self.cell = 2.0 * width * ARCMIN / pixels
        self.reach = 0.95 * width * ARCMIN * self.mhz[0] / self.mhz[-1]
        self.limit = 1 / (3.2 * self.cell)
        self.path = s.path(name + ".ms")
        integration = integration or ("30min" if name == "meerkat" and channels == 4 and len(pols) == 5 else "2h")
        if band and name == "gmrt":
            layout = (*layout[:-1], "C")
        made = s.made("%s%d%d%s.made.ms" % (name, len(pols), channels, "wide" if band else ""), *(layout or tile_layout(s)), "-duration",
                      "10min" if name == "mwa" else "8h", "-integration", integration, "-ra", "60deg", "-dec",
                      {"meerkat": "-25deg", "mwa": "-20deg"}.get(name, "30deg"), "-pol", pols, "-spw", "%gMHz" % first, "%gMHz" % step, channels)
        fresh_copy(made, self.path)
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, self.telescope)
        with table(self.path + "/ANTENNA", readonly=False, ack=False) as t:
            self.position = np.mean(t.getcol("POSITION"), axis=0)
            self.size = np.where(np.arange(t.nrows()) % 3, 12.0, 7.0) if name == "alma" else np.full(t.nrows(), 25.0)
            t.putcol("DISH_DIAMETER", self.size)
        if name == "mwa":
            with table(self.path + "/MWA_TILE_POINTING", maketabdesc([makearrcoldesc("DELAYS", 0, 1)]), nrow=1, readonly=False, ack=False) as t:
                t.putcell("DELAYS", 0, np.array(MWA_DELAYS, np.int32))
            with table(self.path, readonly=False, ack=False) as t:
                t.putkeyword("MWA_TILE_POINTING", "Table: " + self.path + "/MWA_TILE_POINTING")
        with table(self.path + "/FIELD", ack=False) as t:
            self.centre = t.getcell("PHASE_DIR", 0)[0]
        self.place_sources(1 if name in ALONE and sources == SOURCES else sources)
        if index is not None:
            self.index[:] = index
        if pols == "XX,YY":
            self.fill()

    def moment(self, when):
        """What the beam of a time depends on: the parallactic angle, or the time."""
        return when if self.name == "mwa" else parallactic_angle(when, self.position, *self.centre)

    def place_sources(self, n):
        """Sources on pixels, apart from each other, out to a tenth of the beam at the highest frequency."""
        random = np.random.default_rng(5)
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

    def directions(self, x, y):
        """Right ascensions and declinations."""
        _, _, l, m = self.offsets(x, y)
        n, (ra0, dec0) = np.sqrt(1 - l**2 - m**2), self.centre
        return ra0 + np.arctan2(l, n * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + n * np.sin(dec0))

    def response(self, mhz, x, y, chi, sizes):
        """Of one baseline at one time, with the feeds turned by chi."""
        east, north, _, _ = self.offsets(x, y)
        if self.name == "mwa":
            ra, dec = self.directions(x, y)
            shape = np.shape(ra)
            jones = tile_jones(site_axes(self.position), chi, mhz * 1e6, *np.reshape([ra, dec], (2, -1)))
            return (np.abs(jones)**2).sum(axis=(0, 1)).reshape(shape) / 2
        if self.name == "meerkat":
            return self.beam(mhz, north * np.sin(chi) - east * np.cos(chi), north * np.cos(chi) + east * np.sin(chi), sizes)
        return self.beam(mhz, east, north, sizes)

    @functools.cached_property
    def kinds(self):
        """The kinds of samples within the uv limit, by time and dishes: share, parallactic angle, diameters."""
        with table(self.path, ack=False) as t:
            rows = np.stack([t.getcol("TIME"), self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1)
            uv = np.hypot(*t.getcol("UVW").T[:2]) * 1e6 / C
        kinds, of_row = np.unique(rows, axis=0, return_inverse=True)
        count = np.bincount(of_row.ravel(), sum(uv * m <= self.limit for m in self.mhz), len(kinds))
        angle = {time: self.moment(time) for time in np.unique(kinds[:, 0])}
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
            sizes = np.sort(np.stack([self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1))
            for when in np.unique(time):
                chi = self.moment(when)
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

    @staticmethod
    def jones(mhz, east, north, chi):
        """Of a dish of MeerKAT whose feeds are turned by chi, rows and columns north and east, [2][2][direction]."""
        # Feed axes: H towards growing azimuth, V up; calibrated data are turned back to north and east.
        c, si = np.cos(chi), np.sin(chi)
        turn = np.array([[si, -c], [c, si]])
        row = MEERKAT_L[mhz]
        x, y = (np.degrees(a) for a in (north * si - east * c, north * c + east * si))
        gain = np.zeros((2, 2, len(east)))
        gain[0, 0], gain[1, 1] = cosine_taper(x, y, *row[:2], *row[4:6]), cosine_taper(x, y, *row[2:4], *row[6:])
        return np.einsum("ai,abn,bj->ijn", turn, gain, turn)

    def coherencies(self, mhz, chi, sizes):
        """What each source gives in XX, XY, YX, YY of a baseline, [source][4]. X is north, Y east."""
        i, q, u, v = (self.spectrum(mhz)[:, None] * self.polarised).T
        sky = np.array([[i + q, u + 1j * v], [u - 1j * v, i - q]])
        east, north, _, _ = self.offsets(*np.array(self.at).T)
        if self.name not in ("meerkat", "mwa"):
            seen = sky * self.beam(mhz, east, north, sizes)
        else:
            jones = (self.jones(mhz, east, north, chi) if self.name == "meerkat" else
                     tile_on_sky(site_axes(self.position), chi, mhz * 1e6, *self.directions(*np.array(self.at).T)))
            seen = np.einsum("ijn,jkn,lkn->iln", jones, sky, jones.conj())
        return seen.reshape(4, -1).T

    def predicted(self):
        """The visibilities of every row, channel and correlation, [row][channel][XX XY YX YY]."""
        _, _, l, m = self.offsets(*np.array(self.at).T)
        n_1 = np.sqrt(1 - l**2 - m**2) - 1
        with table(self.path, ack=False) as t:
            uvw, time = t.getcol("UVW"), t.getcol("TIME")
            sizes = np.stack([self.size[t.getcol("ANTENNA1")], self.size[t.getcol("ANTENNA2")]], axis=1)
        out = np.zeros((len(time), len(self.mhz), 4), complex)
        for when in np.unique(time):
            chi = self.moment(when)
            for kind in np.unique(sizes, axis=0):
                rows = np.flatnonzero((time == when) & (sizes == kind).all(axis=1))
                for c, mhz in enumerate(self.mhz):
                    turns = uvw[rows] @ np.array([l, m, n_1]) * mhz * 1e6 / C
                    out[rows, c] = np.exp(2j * np.pi * turns) @ self.coherencies(mhz, chi, kind)
        return out
