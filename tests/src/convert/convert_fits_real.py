#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_fits_real.py MSIMAGE MSIMAGE_MAKEMS SOURCE: real sets exported to UVFITS and imported again give the same images.

Sets NAME.tar.xz are looked for in $MSIMAGE_TEST_DATA, else in ../shared/data beside the source. Without any: skipped."""
import os
import sys
import tarfile
import tempfile

from convert_oracle import Convert, Rows

# Set, a pixel size that keeps all its baselines, and whether windows were observed together.
CASES = (("lofar-hba-3c295", "2asec", True), ("mwa-puppis-a", "60asec", True), ("vla-ss433-u", "0.05asec", True),
         ("sim-oskar-mwa", "60asec", True), ("alma-hd142527-b9", "0.05asec", False))


def check(s, name, scale, are_together):
    a, uvfits, b = name + ".ms", name + ".uvfits", name + "-back.ms"
    s.convert("-quiet", a, uvfits)
    s.convert("-quiet", uvfits, b)
    n, n_back = Rows(a, "DATA").n, Rows(b).n
    image = ["-size", 512, 512, "-scale", scale, "-field", "all"]
    want, got = s.image(a, "want", *image), s.image(b, "got", *image)
    error = abs(got - want).max() / abs(want).max()
    s.must(error <= 1e-6 and (n == n_back or not are_together), "%s: %d rows became %d, the image differs by %.2g of the peak" %
           (name, n, n_back, error))


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
        os.chdir("/")
    sys.exit(1 if s.failed else 0 if s.tried else 77)


main()
