#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""draw_model.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: model images drawn from lists of sources, against the definition of each
kind of source, and against the exact visibilities of the sources."""
import glob
import os
import warnings

import numpy as np
from astropy.coordinates import Angle
from astropy.wcs import WCS, FITSFixedWarning
from casacore.tables import table

from image_oracle import ASEC, load
from program_suite import VLA, Suite, main, run

warnings.simplefilter("ignore", FITSFixedWarning)  # cards that astropy adds

CENTRE = ["04h00m00s", "44d00m00s"]
BAND = ["-draw-frequencies", "1.4e9", "200e6"]
HEAD = ("Format = Name, Type, Ra, Dec, I, SpectralIndex, LogarithmicSI, ReferenceFrequency='1400000000', MajorAxis, MinorAxis, "
        "Orientation\n")
FLAT = "[],false,1.4e9"


class Draw(Suite):
    def list(self, *lines, head=HEAD):
        name = self.path("list%d.txt" % next(self.number))
        with open(name, "w", encoding="ascii") as f:
            f.write(head + "".join(line + "\n" for line in lines))
        return name

    def draw(self, listed, *options, centre=("-draw-centre", *CENTRE), n=1, size=(256, 200), cell=4.0):
        """Draw a list. Returns the images of the terms, the header of the first, and the log."""
        name = self.path("drawn%d" % next(self.number))
        words = ["-name", name, *BAND, *centre, "-draw-spectral-terms", n, "-size", *size, "-scale", "%gasec" % cell]
        done = run(self.msimage, "-draw-model", listed, *words, *options)
        made = sorted(glob.glob(name + "*"))
        self.must(made == ["%s-term-%d.fits" % (name, k) for k in range(n)], "files of %d terms" % n)
        images = [load(m) for m in made]
        return [image for image, _ in images], images[0][1], done.stderr.decode()

    def close(self, title, got, want, limit=1e-5):
        error = np.abs(got - want).max() / np.abs(want).max()
        self.must(error < limit, "%-60s off by %.1e of the peak" % (title, error))


def place(header, ra, dec):
    """The 0-based pixel position of a place in degrees."""
    return WCS(header).celestial.wcs_world2pix(ra, dec, 0)


def point(header, ra, dec, window=127):
    """A sinc function along both axes, times cos^2 within the window."""
    lines = []
    for n, at in zip((header["NAXIS1"], header["NAXIS2"]), place(header, ra, dec)):
        d = np.arange(n) - at
        hann = np.where(np.abs(d) < window / 2, np.cos(np.pi * d / window)**2, 0) if window else 1
        lines.append(np.sinc(d) * hann)
    return np.outer(lines[1], lines[0])


def gaussian(header, ra, dec, major, minor, angle):
    """The Fourier sum over n x n frequencies of the transform of a Gaussian, with a Tukey window. Widths in arcseconds, the
    angle in degrees from north through east. A narrow Gaussian is drawn on 127 x 127 pixels."""
    cell = header["CDELT2"] * 3600
    n = 127 if major < 10 * cell else 511
    u = (np.arange(n) - n // 2) / n
    tukey = np.where(np.abs(u) < 0.4, 1, 0.5 + 0.5 * np.cos(np.pi * (np.abs(u) - 0.4) / 0.1))
    s, c = np.sin(np.radians(angle)), np.cos(np.radians(angle))
    # x grows to the west.
    along, across = -u[None, :] * s + u[:, None] * c, u[None, :] * c + u[:, None] * s
    sigma = [w / cell / np.sqrt(8 * np.log(2)) for w in (major, minor)]
    grid = tukey[:, None] * tukey * np.exp(-2 * np.pi**2 * ((along * sigma[0])**2 + (across * sigma[1])**2))
    x, y = place(header, ra, dec)
    across_x = np.exp(2j * np.pi * np.outer(u, np.arange(header["NAXIS1"]) - x))
    along_y = np.exp(2j * np.pi * np.outer(np.arange(header["NAXIS2"]) - y, u))
    near = [np.abs(np.arange(header[a]) - np.round(at)) <= n // 2 for a, at in (("NAXIS1", x), ("NAXIS2", y))]
    return (along_y @ grid @ across_x).real / n**2 * np.outer(near[1], near[0])


def check_points(s):
    """Points between pixels, on a pixel, at and beyond the border, and on the other half of the sky."""
    where = [("04:00:10.0137", "44.00.33.31", 2), ("04:00:00", "44.00.00", -1), ("04:00:47.5", "43.54.00", 0.5),
             ("03:59:11.5", "44.05.11", 1.5), ("16:00:00", "-44.00.00", 3)]
    listed = s.list(*["a%d,POINT,%s,%s,%g,%s,,," % (k, ra, dec, flux, FLAT) for k, (ra, dec, flux) in enumerate(where)])
    (image,), header, log = s.draw(listed)
    deg = [(Angle(ra, "hour").deg, Angle(dec.replace(".", ":", 2), "deg").deg) for ra, dec, _ in where]
    inside = sum(-0.5 <= x < 255.5 and -0.5 <= y < 199.5 for x, y in (place(header, *p) for p in deg[:4]))
    s.must(inside == 3 and "2 of 5 sources are outside the image" in log, "sources outside are counted: %s" % log)
    for window in (127, 20, 0):
        (image,), header, _ = s.draw(listed, "-sinc-window-size", window)
        want = sum(flux * point(header, *p, window) for p, (_, _, flux) in zip(deg[:4], where))
        s.close("points, a window of %d pixels" % window, image, want)
    s.must((header["BUNIT"], header["CTYPE1"], header["CRPIX1"], header["CRVAL1"], header["CRVAL2"], header["RADESYS"],
            header["CRVAL3"], header["CDELT3"], header["CRVAL4"]) ==
           ("Jy/pixel", "RA---SIN", 129, 60, 44, "FK5", 1.4e9, 2e8, 1) and "-draw-model" in "".join(header["HISTORY"]), "the header")


def check_gaussians(s):
    """Gaussians from narrower than a pixel to wider than the image."""
    at = ("04:00:10.0137", "44.00.33.31")
    deg = (Angle(at[0], "hour").deg, Angle("44:00:33.31", "deg").deg)
    for widths in ((3, 2, 30), (20, 1, -50), (60, 30, 25), (35, 0, 100), (200, 10, 10), (400, 300, 45)):
        (image,), header, _ = s.draw(s.list("a,GAUSSIAN,%s,%s,2,%s,%g,%g,%g" % (*at, FLAT, *widths)))
        s.close("a Gaussian of %g x %g arcsec" % widths[:2], image, 2 * gaussian(header, *deg, *widths))
    # Half of it is in the image.
    (image,), header, _ = s.draw(s.list("a,GAUSSIAN,04:00:47.3,44.00.00,2,%s,30,10,20" % FLAT))
    s.close("a Gaussian at the border", image, 2 * gaussian(header, Angle("04:00:47.3", "hour").deg, 44, 30, 10, 20))
    (image,), header, _ = s.draw(s.list("a,GAUSSIAN,%s,%s,2,%s,0,0,0" % (*at, FLAT)))
    s.close("a Gaussian without width", image, 2 * point(header, *deg))
    refused = s.list("a,POINT,%s,%s,2,%s,,," % (*at, FLAT), "b,GAUSSIAN,%s,%s,2,%s,7000,3,0" % (*at, FLAT))
    words = ["-size", 64, 64, "-scale", "4asec", "-draw-centre", *CENTRE, *BAND, "-name", s.path("none")]
    s.told("a long and narrow Gaussian", s.launch("-quiet", "-draw-model", refused, *words), 3, "source 2 of the list: the gaussian is narrower")


def check_spectra(s):
    """The images are the coefficients of polynomials of frequency / centre - 1."""
    at = "04:00:00,44.00.00"
    x = lambda f: f / 1.4e9 - 1
    through = lambda law, n: np.linalg.solve(np.vander(x(np.linspace(1.3e9, 1.5e9, n)), n, increasing=True), law(np.linspace(1.3e9, 1.5e9, n)))
    for title, spectrum, n, want in (
            ("no terms", "[],true,1e9", 3, [2, 0, 0]),
            ("a polynomial at the centre", "[-0.5,3],false,1.4e9", 3, [2, -0.5, 3]),
            ("a polynomial of another frequency", "[-0.5,3],false,1e9", 3, [2 - 0.2 + 0.48, 1.4 * -0.5 + 2 * 3 * 0.4 * 1.4, 3 * 1.96]),
            ("a power law", "[-0.7],true,1.2e9", 2, through(lambda f: 2 * (f / 1.2e9)**-0.7, 2)),
            ("a curved one", "[-0.7,0.4],true,1.2e9", 3, through(lambda f: 2 * (f / 1.2e9)**(-0.7 + 0.4 * np.log10(f / 1.2e9)), 3)),
            ("a curved one, two of its terms", "[-0.7,0.4],true,1.2e9", 2,
             through(lambda f: 2 * (f / 1.2e9)**(-0.7 + 0.4 * np.log10(f / 1.2e9)), 3)[:2]),
            ("a power law with more terms", "[-0.7],true,1.2e9", 4, through(lambda f: 2 * (f / 1.2e9)**-0.7, 4))):
        images, _, log = s.draw(s.list("a,POINT,%s,2,%s,,," % (at, spectrum)), n=n)
        got = np.array([image[100, 128] for image in images])
        s.must(np.abs(got - want).max() < 1e-5 * np.abs(want).max(), "%s: %s, wanted %s" % (title, got, np.array(want)))
        s.must(("-draw-spectral-terms 3" in log) == (title[-5:] == "terms" and title[:5] == "a cur"), "cut terms are warned of")
    images, _, _ = s.draw(s.list("a,POINT,%s,2,[-0.7],true,1.2e9,,," % at), "-draw-frequencies", "1.4GHz", "0")
    s.close("a band without width", images[0][100, 128], np.array(2 * (1.4 / 1.2)**-0.7))


def check_visibilities(s):
    """The visibilities of a drawn model are those of its sources, up to 0.4 wavelengths per pixel."""
    ms = s.made_at("set.ms", VLA, ["-telescope", "vla", "-duration", "10s", "-integration", "10s", "-spw", "1.4GHz", "1MHz", "1",
                                   "-pol", "XX,YY", "-source", "60.03deg", "44.01deg", "2Jy", "0Jy", "0Jy", "0Jy", "0"])
    listed = s.list("a,POINT,60.03deg,44.01deg,2,%s,,," % FLAT)
    for centre in (("-draw-centre", *CENTRE), ()):
        name = s.path("seen")
        run(s.msimage, "-overwrite", "-draw-model", listed, "-name", name, *BAND, "-size", 512, 512, "-scale", "%.9g" % (2 / 3600), *centre,
            *(() if centre else (ms,)))
        os.replace(name + "-term-0.fits", name + "-model.fits")
        run(s.msimage, "-quiet", "-predict", "-accuracy", 1e-6, "-name", name, ms)
        with table(ms, ack=False) as t:
            got, want, uvw = t.getcol("MODEL_DATA"), t.getcol("DATA"), t.getcol("UVW") * 1.4e9 / 299792458.0
        inner = np.abs(uvw[:, :2]).max(axis=1) < 0.4 / (2 * ASEC)
        error = np.abs(got - want)[inner].max() / 2
        s.must(inner.sum() > 200 and error < 2e-4, "%d visibilities, the centre of %s: off by %.1e" %
               (inner.sum(), "the option" if centre else "the set", error))


def check_options(s):
    """Options that are missing or wrong; existing files stay."""
    listed = s.list("a,POINT,04:00:00,44.00.00,2,%s,,," % FLAT)
    name = s.path("none")
    centre, pixels = ["-draw-centre", *CENTRE], ["-size", 64, 64, "-scale", "4asec"]
    base = ["-draw-model", listed, "-name", name]
    log = run(s.msimage, "-dry-run", *base, *centre, *BAND, *pixels).stderr.decode()
    s.must("would write %s-term-0.fits: 64 x 64 pixels, 1 term" % name in log and not glob.glob(name + "*"), "a dry run: %s" % log)
    run(s.msimage, "-quiet", *base, *centre, *BAND, *pixels, "-name", s.path("there"))
    for title, words, code, pattern in (
            ("no centre", [*BAND, *pixels], 2, "-draw-model: the centre .*-draw-centre RA DEC"),
            ("no band", [*centre, *pixels], 2, "-draw-frequencies CENTRE WIDTH"),
            ("no pixels", [*centre, *BAND], 2, "-size and -scale"),
            ("terms without a band", [*centre, *pixels, "-draw-frequencies", 1e9, 0, "-draw-spectral-terms", 2], 2, "-draw-frequencies: spectral"),
            ("a band below 0", [*centre, *pixels, "-draw-frequencies", 1e8, 2e8], 2, "begins below 0 Hz"),
            ("no frequency", [*centre, *pixels, "-draw-frequencies", "x", 2e8], 2, "-draw-frequencies x: give a frequency"),
            ("no width", [*centre, *pixels, "-draw-frequencies", 1e9, "-2"], 2, "-draw-frequencies -2: give a width"),
            ("no declination", [*BAND, *pixels, "-draw-centre", "04h00m00s", "north"], 2, "-draw-centre north: write the Dec"),
            ("too many terms", [*BAND, *pixels, "-draw-spectral-terms", 18], 2, "-draw-spectral-terms 18"),
            ("another kind of run", [*centre, *BAND, *pixels, "-niter", 5], 2, "-niter: it cannot be used with -draw-model"),
            ("two kinds of run", [*centre, *BAND, *pixels, "-restore", "a", "b", "c"], 2, "-restore and -draw-model"),
            ("an existing file", [*centre, *BAND, *pixels, "-name", s.path("there")], 2, "there-term-0.fits: .*-overwrite"),
            ("no set", [*BAND, *pixels, s.path("no.ms")], 3, "no.ms"),
            ("no folder", [*centre, *BAND, *pixels, "-name", s.path("no/x")], 4, "no/x-term-0.fits"),
            ("no list", [*centre, *BAND, *pixels, "-draw-model", s.path("no.txt")], 3, "no.txt: No such file")):
        s.told(title, s.launch("-quiet", *base, *words), code, pattern)
    s.told("without -draw-model", s.launch("-quiet", *centre, *pixels, "a.ms"), 2, "-draw-centre: it needs -draw-model")
    broken = s.list("a,POINT,04:00:00,44.00.00,2,[400],true,1,,,")
    s.told("a spectrum that overflows", s.launch("-quiet", *base, *centre, *BAND, *pixels, "-draw-model", broken, "-draw-spectral-terms", 2),
           3, "source 1 of the list: its spectrum .* is not finite")
    s.must(not glob.glob(name + "*"), "nothing is left behind")


main(Draw, globals())
