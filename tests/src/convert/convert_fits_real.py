#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_fits_real.py MSIMAGE MSIMAGE_MAKEMS SOURCE: real sets exported to UVFITS and imported again give the same images; real
UVFITS and FITS-IDI files give the images of the direct sums of their samples as astropy reads them, converted or not.

Sets NAME.tar.xz and files uvfits/NAME.xz are looked for in $MSIMAGE_TEST_DATA, else in ../shared/data next to the source. Without
any: skipped."""
import lzma
import os
import sys
import tarfile
import tempfile
import warnings

import numpy as np
from astropy.io import fits

from convert_oracle import Convert, Rows
from image_uvfits import direct

C = 299792458.0

# Set, a pixel size that keeps all its baselines, and whether windows were observed together.
CASES = (("lofar-hba-3c295", "2asec", True), ("mwa-puppis-a", "60asec", True), ("vla-ss433-u", "0.05asec", True),
         ("sim-oskar-mwa", "60asec", True), ("alma-hd142527-b9", "0.05asec", False))
# File, pixel size in arcseconds, and a text that its log has.
FILES = (("eht-cena-2017-100lo.uvfits", 5e-6, "UTC"), ("hera-2458043-xx.uvfits", 300, "UTC"), ("lwa-idi-test.idifits", 200, "turned by its longitude"),
         ("sim-pyuvsim-triangle.uvfits", 300, "turned by its longitude"))


def check(s, name, scale, are_together):
    a, uvfits, b = name + ".ms", name + ".uvfits", name + "-back.ms"
    s.convert("-quiet", a, uvfits)
    s.convert("-quiet", uvfits, b)
    n, n_back = Rows(a, "DATA").n, Rows(b).n
    image = ["-size", 512, 512, "-scale", scale, "-field", "all"]
    want, got, direct_image = s.image(a, "want", *image), s.image(b, "got", *image), s.image(uvfits, "direct", *image)
    error, itself = (abs(x - want).max() / abs(want).max() for x in (got, direct_image))
    s.must(error <= 1e-6 and itself <= 1e-6 and (n == n_back or not are_together),
           "%s: %d rows became %d, the image differs by %.2g of the peak, that of the UVFITS by %.2g" % (name, n, n_back, error, itself))


def samples(path):
    """Return u, v, w in wavelengths, visibilities of XX or (RR + LL) / 2 or (XX + YY) / 2, and weights, without autocorrelations."""
    with fits.open(path) as f, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "UV_DATA" in f:
            t, h = f["UV_DATA"].data, f["UV_DATA"].header
            first, second = t["BASELINE"] // 256, t["BASELINE"] % 256
            v = t["FLUX"].reshape(len(t), h["MAXIS3"], 2).astype(np.float64)
            vis, weight = v[..., 0] - 1j * v[..., 1], np.array(t["WEIGHT"], np.float64)
            freq = f["FREQUENCY"].header["REF_FREQ"] + np.arange(h["MAXIS3"]) * np.float64(np.ravel(f["FREQUENCY"].data["CH_WIDTH"])[0])
            uvw = np.stack([t[n] for n in ("UU", "VV", "WW")], axis=1).astype(np.float64)
        else:
            d, h = f[0].data, f[0].header
            code = np.array(d.par("BASELINE")).round().astype(int)
            first, second = code // 256, code % 256
            v = np.array(d.data, np.float64).reshape(len(code), h["NAXIS4"], h["NAXIS3"], 3)
            hands = [0, 1] if h["NAXIS3"] > 1 else [0]
            with np.errstate(invalid="ignore"):
                weight = v[..., hands, 2].min(axis=-1)
            vis = (v[..., hands, 0] + 1j * v[..., hands, 1]).mean(axis=-1)
            weight = np.where((weight > 0) & np.isfinite(weight), weight, 0)
            freq = h["CRVAL4"] + np.arange(h["NAXIS4"]) * h["CDELT4"]
            names = d.parnames
            uvw = np.stack([sum(np.array(d.field(i), np.float64) for i, n in enumerate(names) if n.startswith(k)) for k in ("UU", "VV", "WW")],
                           axis=1)
    weight = weight * (first != second)[:, None]
    return (uvw[:, None, :] * freq[None, :, None]).reshape(-1, 3), vis.ravel(), weight.ravel()


def check_file(s, name, scale_asec, told):
    size = 256
    image = ["-size", size, size, "-scale", "%.12gasec" % scale_asec, "-accuracy", "1e-6"]
    done = s.launch("-overwrite", *image, "-name", "got", name)
    s.must(done.returncode == 0 and told in done.stderr and "IAT" not in done.stderr, "%s is imaged: %s" % (name, done.stderr[-200:] if done.returncode else ""))
    got = fits.getdata("got-dirty.fits").squeeze()
    s.convert("-quiet", name, name + ".ms")
    of_set = s.image(name + ".ms", "want", *image)
    pixels = [(128, 128), (140, 100), (90, 200), (10, 60), (200, 128)]
    want = direct(samples(name), pixels, size, scale_asec)
    largest = abs(got).max() or 1
    error, itself = abs(np.array([got[p] for p in pixels]) - want).max() / largest, abs(got - of_set).max() / largest
    # As in image_uvfits.py: 1e-6 of the image's rms, times its size.
    s.must(error <= 1e-6 * size and itself <= 2e-6, "%s: a direct sum, to %.2g of the peak; the image of its set, to %.2g" % (name, error, itself))


def main():
    programs, source = [os.path.abspath(p) for p in sys.argv[1:3]], sys.argv[3]
    data = os.environ.get("MSIMAGE_TEST_DATA") or os.path.abspath(os.path.join(source, "..", "shared", "data"))
    with tempfile.TemporaryDirectory() as folder:
        s = Convert(*programs, folder)
        for case in CASES:
            packed = os.path.join(data, case[0] + ".tar.xz")
            if os.path.exists(packed):
                with tarfile.open(packed) as t:
                    t.extractall(folder)
                check(s, *case)
            else:
                print("%s: not in %s" % (case[0], data))
        for case in FILES:
            packed = os.path.join(data, "uvfits", case[0] + ".xz")
            if os.path.exists(packed):
                with lzma.open(packed) as f, open(case[0], "wb") as out:
                    out.write(f.read())
                check_file(s, *case)
        os.chdir("/")
    sys.exit(1 if s.failed else 0 if s.tried else 77)


main()
