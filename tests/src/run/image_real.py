#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_real.py MSIMAGE SOURCE_DIR: images of real sets in I, Q, U and V are within their accuracy of the direct sum.

The default gridder at -accuracy 1e-5: within 1e-5 of the peak at the pixels of interest; within twice that at the corners,
the middles of the edges and some random pixels, because the accuracy is that of the whole image.
w-projection at its default accuracy of 1e-2 and at 1e-3: within that of the peak, and within the error that the program
predicts, at each of these pixels.

Sets NAME.ms, or archives NAME.tar.xz of them, are in $MSIMAGE_TEST_DATA or in ../shared/data next to the sources. Exit 77:
there are none.
"""
import os
import re
import sys
import tarfile
import tempfile

import numpy as np
from casacore.tables import table

from image_oracle import ASEC, FITS_FLOOR, Frame, load, peak_error, pixels, read
from program_suite import run

# Name, options, accuracy, and the factors of it allowed at pixels of interest and at others.
MODES = [
    ("wgrid", ("-accuracy", 1e-5), 1e-5, (1, 2)),
    ("wproj", ("-gridder", "wproj"), 1e-2, (1, 1)),
    ("wproj", ("-gridder", "wproj", "-accuracy", 1e-3), 1e-3, (1, 1)),
]
# Set, size, pixel size in asec, polarisations, data column (None: the default), pixels of interest.
CASES = [
    ("mwa-puppis-a", 2048, 90, "I", None, [(994, 1014), (600, 1400), (1500, 500), (200, 1024), (1600, 1900)]),
    ("mwa-puppis-a", 2048, 75, "I", None, [(988, 1012), (600, 1400), (1500, 500), (200, 1024), (1600, 1900)]),
    ("mwa-puppis-a", 1024, 75, "IQUV", None, [(474, 500), (474, 495), (476, 500), (338, 183), (474, 494)]),
    ("lofar-hba-3c295", 2048, 3, "I", None, [(1024, 1024), (700, 1300), (1800, 200)]),
    ("lofar-hba-3c295", 1024, 6, "IQUV", "CORRECTED_DATA", [(512, 512), (583, 491)]),
    ("lofar-hba-3c295", 512, 12, "I", "DATA", [(256, 256)]),
    ("lofar-hba-3c295", 512, 12, "I", "MODEL_DATA", [(256, 256)]),
    ("alma-hd142527-b9", 512, 0.03, "I", None, [(245, 277), (257, 281), (256, 256), (400, 100)]),
    ("alma-hd142527-b9", 512, 0.03, "IQ", None, [(257, 281), (233, 261)]),
    ("vla-ss433-u", 1024, 0.02, "I", None, [(508, 510), (800, 200), (512, 512)]),
    ("vla-ss433-u", 512, 0.02, "IQUV", None, [(252, 254), (84, 251), (479, 144), (253, 254)]),
    ("sim-oskar-mwa", 1024, 55, "I", None, [(512, 728), (300, 300)]),
    ("sim-oskar-mwa", 1024, 55, "IQUV", None, [(512, 728), (300, 300)]),
]


def find(name, data, folder):
    """The path of a set, unpacked from an archive if necessary; None without it."""
    path = os.path.join(folder, name + ".ms")
    if os.path.isdir(path):
        return path
    if os.path.isdir(os.path.join(data, name + ".ms")):
        return os.path.join(data, name + ".ms")
    archive = os.path.join(data, name + ".tar.xz")
    if not os.path.exists(archive):
        return None
    with tarfile.open(archive) as t:
        t.extractall(folder)
    return path


def check(msimage, path, folder, size, cell_asec, pols, column, extra):
    selection = ["-data-column", column] if column else []
    ra, dec = table(path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0]
    frame = Frame(size, size, cell_asec * ASEC, ra, dec)
    groups = [np.array(extra).T, pixels(size, size, n_random=11)]
    truth = {}
    for pol in pols:
        samples = frame.inside(read(path, pol, column=column))
        truth[pol] = (len(samples.vis), [frame.image(samples, x, y) for x, y in groups])
    good = True
    for gridder, options, accuracy, shares in MODES:
        name = os.path.join(folder, "image")
        done = run(msimage, "-overwrite", *options, "-size", size, size, "-scale", "%gasec" % cell_asec, "-pol", pols, "-name",
                  name, *selection, path)
        predicted = float(re.search(r"estimated error (\S+)", (done.stdout + done.stderr).decode()).group(1))
        for pol in pols:
            data, _ = load("%s-%sdirty.fits" % (name, pol + "-" if len(pols) > 1 else ""))
            n_sample, exact = truth[pol]
            errors = [peak_error(data[y, x], e, data) for (x, y), e in zip(groups, exact)]
            fine = all(e <= share * accuracy + FITS_FLOOR for e, share in zip(errors, shares))
            if gridder == "wproj":
                fine &= max(errors) <= predicted
            good &= fine
            print("%-18s %4d %5g asec %s %s %s: %d samples, peak %.6g, error %.1e of it, %.1e elsewhere, predicted %.1e%s" %
                  (os.path.basename(path), size, cell_asec, pol, column or "", gridder, n_sample, np.nanmax(np.abs(data)), *errors,
                   predicted, "" if fine else "  FAILED"))
    return good


def main():
    msimage, source = sys.argv[1:3]
    data = os.environ.get("MSIMAGE_TEST_DATA") or os.path.join(source, "..", "shared", "data")
    good, n = True, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, *case in CASES:
            path = find(name, data, folder)
            if path:
                n += 1
                good &= check(msimage, path, folder, *case)
            else:
                print("%s: not in %s" % (name, data))
    if not n:
        sys.exit(77)
    sys.exit(0 if good else 1)


main()
