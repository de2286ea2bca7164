#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Astropy, casacore and fitsverify read the files that fits_examples writes. Exit 77: astropy is missing."""
import os
import subprocess
import sys
import tempfile
import warnings

from program_suite import skip_without_modules

skip_without_modules("numpy", "astropy.io.fits")
import numpy as np
from astropy.io import fits
from astropy.wcs import WCS

# Astropy warns about OBSGEO-X in each header.
warnings.simplefilter("ignore")
problems = []


def expect(what, got, wanted):
    if got != wanted:
        problems.append(f"{what}: got {got!r}, wanted {wanted!r}")


def check_positions(folder, lines):
    """Corners by msimage and by astropy; 1e-9 deg is 4 uas, a millionth of the smallest pixels in use."""
    for line in lines:
        name, x, y, lng, lat = line.split("\t")
        wcs = WCS(fits.getheader(os.path.join(folder, name))).celestial
        got = wcs.wcs_pix2world([[float(x), float(y)]], 0)[0]
        off = max(abs((got[0] - float(lng) + 180) % 360 - 180) * np.cos(np.radians(float(lat))), abs(got[1] - float(lat)))
        if not off < 1e-9:
            problems.append(f"{name}: pixel {x},{y}: {got} by astropy, {lng}, {lat} by msimage")


def check_values(folder):
    wanted = np.arange(24 * 17, dtype=np.float32).reshape(1, 1, 17, 24) / 8
    wanted[0, 0, 0, 3] = np.nan
    for name in os.listdir(folder):
        if name.endswith(".png"):
            continue
        with fits.open(os.path.join(folder, name)) as hdus:
            hdus.verify("exception")
            expect(name + " pixels", np.array_equal(hdus[0].data, wanted, equal_nan=True), True)
            expect(name + " type", hdus[0].header["BITPIX"], -32)


def check_frames(folder):
    for name, radesys, equinox, specsys, velref, stokes in (
            ("plain-dirty.fits", "FK5", 2000, "TOPOCENT", 259, 1), ("icrs[1:5]-dirty.fits", "ICRS", None, "LSRK", 257, 2),
            ("!b1950.gz", "FK4", 1950, "BARYCENT", 258, -5), ("-app (x) %s%n.fits", "GAPPT", None, "GEOCENTR", 261, -8),
            ("~galactic.fits", None, None, "LSRD", 260, -4), ("mem:azel.fits", None, None, None, None, 4)):
        header = fits.getheader(os.path.join(folder, name))
        for key, wanted in (("RADESYS", radesys), ("EQUINOX", equinox), ("SPECSYS", specsys), ("VELREF", velref),
                            ("CRVAL4", stokes)):
            expect(f"{name} {key}", header.get(key), wanted)
    azel = fits.getheader(os.path.join(folder, "mem:azel.fits"))
    expect("unknown frame", (azel["CTYPE1"], azel["CTYPE2"], "'AZEL'" in str(azel["COMMENT"])), ("AZLN-SIN", "AZLT-SIN", True))
    uv = fits.getheader(os.path.join(folder, "plain-uv-real.fits"))
    expect("uv axes", (uv["CTYPE1"], uv["CTYPE2"], "CUNIT1" in uv), ("U---WAV", "V---WAV", False))
    expect("uv cell", abs(uv["CDELT1"] * 24 * np.radians(75 / 3600) - 1) < 1e-12, True)


def check_uv(folder):
    """Astropy accepts the axes of the uv plane without a warning about units, and casacore opens the file."""
    for kind in ("weights", "uv-real", "uv-imag"):
        name = os.path.join(folder, f"plain-{kind}.fits")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            wcs = WCS(fits.getheader(name))
            u, v = wcs.pixel_to_world_values(12, 8, 0, 0)[:2]
            units = [str(unit) for unit in wcs.wcs.cunit]
        expect(f"{kind}: said of units", [str(s.message) for s in said if "unit" in str(s.message)], [])
        expect(f"{kind}: units", units, ["", "", "Hz", ""])
        # A cell of weights begins at u = 0; the 17 rows have one in the middle.
        centre = (wcs.wcs.cdelt[0] / 2 if kind == "weights" else 0, 0)
        expect(f"{kind}: centre", np.allclose((u, v), centre, rtol=1e-12, atol=1e-9), True)
        try:
            from casacore.images import image
        except ImportError:
            continue
        expect(f"{kind}: casacore shape", list(image(name).shape()), [1, 1, 17, 24])


def check_fitsverify(folder):
    try:
        for name in os.listdir(folder):
            if name.endswith(".png"):
                continue
            # Under a simple name, because fitsverify uses cfitsio's syntax for brackets.
            plain = os.path.join(folder, "verified.fits")
            os.link(os.path.join(folder, name), plain)
            run = subprocess.run(["fitsverify", plain], stdout=subprocess.PIPE, text=True)
            os.unlink(plain)
            if "0 warning(s) and 0 error(s)" not in run.stdout:
                problems.append(f"fitsverify {name}:\n{run.stdout}")
    except FileNotFoundError:
        print("without fitsverify, which is not installed")


def check_casacore(folder):
    try:
        from casacore.images import image
    except ImportError:
        print("without casacore's Python module, which is not installed")
        return
    picture = image(os.path.join(folder, "plain-dirty.fits"))
    expect("casacore shape", list(picture.shape()), [1, 1, 17, 24])
    expect("casacore unit", picture.unit(), "Jy/beam")
    beam = picture.imageinfo()["restoringbeam"]
    expect("casacore beam", abs(beam["major"]["value"] / np.degrees(1.5e-3) / (3600 if beam["major"]["unit"] == "arcsec"
                                                                           else 1) - 1) < 1e-6, True)
    coordinates = picture.coordinates()
    expect("casacore frame", coordinates["direction"].get_frame(), "J2000")
    expect("casacore spectral frame", coordinates["spectral"].get_frame(), "TOPO")
    expect("casacore Stokes", list(coordinates["stokes"].get_stokes()), ["I"])
    expect("casacore rest frequency", coordinates["spectral"].get_restfrequency(), 1420405751.786)
    centre = picture.toworld([0, 0, 8, 12])
    expect("casacore frequency", abs(centre[1] - 149.115e6) < 1, True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.argv[1], folder], stdout=subprocess.PIPE, text=True)
        expect("exit status", run.returncode, 0)
        lines = run.stdout.splitlines()
        expect("corners", len(lines), 32)
        check_positions(folder, lines)
        check_values(folder)
        check_frames(folder)
        check_uv(folder)
        check_fitsverify(folder)
        check_casacore(folder)
    print("\n".join(problems) or "all as expected")
    sys.exit(1 if problems else 0)


main()
