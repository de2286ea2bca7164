#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_makems.py MSIMAGE_MAKEMS: WSClean finds a generated source where it is, with its flux in I, Q, U and V."""
import math
import os
import shutil
import sys
import tempfile

from program_suite import run, skip_without, skip_without_modules

skip_without("wsclean")
skip_without_modules("numpy", "astropy.io.fits")
import numpy as np
from astropy.io import fits

SIZE = 1024
STOKES = {"I": 1.0, "Q": 0.3, "U": -0.2, "V": 0.1}
# Gridding to WSClean's default accuracy of 1e-4, of unit flux; a wrong sign, frame or position changes fluxes by far more.
TOLERANCE = 1e-3

# Name, options, pixel size that holds the longest baseline (asec), phase centre (deg), pixel of the source.
CASES = [
    ("vla", ["-telescope", "vla", "-config", "C"], 5.0, (60.0, 44.0), (300, 771)),
    ("meerkat", ["-telescope", "meerkat", "-duration", "1min", "-start-ha", "-2h"], 2.0, (60.0, -45.0), (901, 402)),
    ("skalow", ["-telescope", "skalow", "-stations", "64", "-start-ha", "-3h", "-storage", "standard"], 3.0,
     (0.05, -10.0), (77, 130)),
    ("two-spws", ["-telescope", "meerkat", "-duration", "30s", "-spw", "900MHz", "5MHz", "8", "-spw", "1.5GHz", "-5MHz",
                  "4", "-spw-order", "row", "-flags", "0.2", "-weights", "radiometer"], 2.0,
     (60.0, -45.0), (520, 200)),
]


def radec(l, m, ra0, dec0):
    """The direction in degrees of l, m on the SIN plane about a centre in degrees."""
    d0, n = math.radians(dec0), math.sqrt(1 - l * l - m * m)
    dec = math.asin(m * math.cos(d0) + n * math.sin(d0))
    return ra0 + math.degrees(math.atan2(l, n * math.cos(d0) - m * math.sin(d0))), math.degrees(dec)


def check(makems, folder, name, options, cell_asec, centre, pixel):
    cell = math.radians(cell_asec / 3600)
    ra, dec = radec((SIZE // 2 - pixel[0]) * cell, (pixel[1] - SIZE // 2) * cell, *centre)
    ms = os.path.join(folder, name + ".ms")
    fluxes = ["%gJy" % STOKES[p] for p in "IQUV"]
    run(makems, "-quiet", "-ra", "%.15gdeg" % centre[0], "-dec", "%.15gdeg" % centre[1], *options,
        "-source", "%.15gdeg" % ra, "%.15gdeg" % dec, *fluxes, ms)
    image = os.path.join(folder, name)
    run("wsclean", "-quiet", "-j", 2, "-use-wgridder", "-no-update-model-required", "-reorder", "-pol", "IQUV", "-size", SIZE,
        SIZE, "-scale", "%.15gasec" % cell_asec, "-weight", "natural", "-name", image, ms)
    good = True
    for p, flux in STOKES.items():
        data = np.squeeze(fits.getdata("%s-%s-dirty.fits" % (image, p)))
        y, x = np.unravel_index(np.argmax(np.abs(data)), data.shape)
        got = float(data[pixel[1], pixel[0]])
        fine = (x, y) == pixel and abs(got - flux) < TOLERANCE
        good &= fine
        print("%-8s %s: %.6f Jy, not %g by %.1e; brightest pixel %d,%d, want %d,%d%s" %
              (name, p, got, flux, abs(got - flux), x, y, *pixel, "" if fine else "  FAILED"))
    shutil.rmtree(ms)
    return good


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = [check(sys.argv[1], folder, *case) for case in CASES]
    sys.exit(0 if all(results) else 1)


main()
