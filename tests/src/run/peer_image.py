#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_image.py MSIMAGE MSIMAGE_MAKEMS: the same set imaged by WSClean: pixels, PSF, coordinates, beam."""
import os
import shutil
import sys
import tempfile
import warnings

import numpy as np
from astropy.wcs import WCS, FITSFixedWarning

from image_oracle import load, peak_error, relative_error
from program_suite import run, skip_without

skip_without("wsclean")
warnings.simplefilter("ignore", FITSFixedWarning)  # cards that astropy adds

# Both have 1e-6 of the whole image; a single pixel of each may be off by twice that times the peak.
ACCURACY = 1e-6
TOLERANCE = 4 * ACCURACY

# Name, set, size, pixel size in asec.
CASES = [
    ("vla", ["-telescope", "vla", "-pol", "RR,RL,LR,LL", "-ra", "60deg", "-dec", "44deg", "-duration", "2min"], (512, 512), 4),
    ("meerkat", ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "24s", "-integration", "8s",
                 "-start-ha", "-2h", "-spw", "900MHz", "10MHz", "8"], (512, 480), 3),
    ("skalow", ["-telescope", "skalow", "-stations", "96", "-ra", "0.05deg", "-dec", "-20deg", "-start-ha", "-4h",
                "-duration", "40s", "-spw", "101MHz", "20MHz", "4"], (1024, 768), 3),
]


def beam(header):
    return header["BMAJ"], header["BMIN"], header["BPA"]


def compare(title, ours, theirs, failures):
    a, ha = load(ours)
    b, hb = load(theirs)
    peak, whole = peak_error(a, b, b), relative_error(a, b)
    fine = peak <= TOLERANCE and a.shape == b.shape
    print("%-16s largest difference %.1e of the peak, L2 %.1e%s" % (title, peak, whole, "" if fine else "  FAILED"))
    failures += not fine
    for key in ("NAXIS1", "NAXIS2", "CTYPE1", "CTYPE2", "CRPIX1", "CRPIX2", "CUNIT1", "CRPIX3", "CTYPE3", "CTYPE4",
                "CRVAL4", "EQUINOX", "OBJECT", "TELESCOP"):
        if ha.get(key) != hb.get(key):
            failures += 1
            print("%s: %s is %r, by WSClean %r  FAILED" % (title, key, ha.get(key), hb.get(key)))
    # Degrees are float64 as text; WSClean gives Stokes I four times the weight of a hand, and sums it in float32.
    for key, most, factor in (("CRVAL1", 1e-9, 1), ("CRVAL2", 1e-9, 1), ("CDELT1", 1e-12, 1), ("CDELT2", 1e-12, 1),
                                   ("CRVAL3", 1, 1), ("WSCIMGWG", 1e-6 * hb["WSCIMGWG"], 4), ("WSCNVIS", 0.5, 1),
                                   ("WSCENVIS", 1e-6 * hb["WSCENVIS"], 1)):
        if abs(factor * ha[key] - hb[key]) > most:
            failures += 1
            print("%s: %s is %.12g, by WSClean %.12g  FAILED" % (title, key, ha[key], hb[key]))
    ny, nx = a.shape
    corners = np.array([(0, 0), (nx - 1, 0), (0, ny - 1), (nx - 1, ny - 1), (nx // 2, ny // 2)])
    sky = [WCS(h).celestial.all_pix2world(corners, 0) for h in (ha, hb)]
    if np.abs(sky[0] - sky[1]).max() > 1e-9:
        failures += 1
        print("%s: coordinates differ by %g deg  FAILED" % (title, np.abs(sky[0] - sky[1]).max()))
    return failures


def compare_beams(title, ours, theirs):
    """WSClean fits a box of ten beams with its sidelobes, this program the main lobe: they agree if that is a gaussian."""
    (a_major, a_minor, a_angle), (b_major, b_minor, b_angle) = [beam(load(name)[1]) for name in (ours, theirs)]
    turn = abs((a_angle - b_angle + 90) % 180 - 90)
    fine = abs(a_major / b_major - 1) < 0.15 and abs(a_minor / b_minor - 1) < 0.15 and (turn < 5 or a_major < 1.1 * a_minor)
    print("%-16s beam %.4g x %.4g asec, %.1f deg; by WSClean %.4g x %.4g, %.1f%s" %
          (title, 3600 * a_major, 3600 * a_minor, a_angle, 3600 * b_major, 3600 * b_minor, b_angle, "" if fine else "  FAILED"))
    return not fine


def weightings(msimage, folder, name, ms, common, failures):
    """Uniform and Briggs weights on the grid of WSClean, with its default limit."""
    for weight in (["uniform"], ["briggs", -1]):
        ours, theirs, free = [os.path.join(folder, "%s-%s%s" % (name, weight[0], end)) for end in ("-ours", "-theirs", "-free")]
        for level, to in ((3, ours), (0, free)):
            run(msimage, *common, "-weight", *weight, "-weight-padding", 1.2, "-weighting-rank-filter", level, "-accuracy",
                ACCURACY, "-name", to, ms)
        run("wsclean", *common, "-weight", *weight, "-use-wgridder", "-wgridder-accuracy", ACCURACY, "-no-small-inversion",
            "-reorder", "-no-update-model-required", "-temp-dir", folder, "-name", theirs, ms)
        a, b = load(ours + "-dirty.fits")[0], load(theirs + "-dirty.fits")[0]
        without = relative_error(load(free + "-dirty.fits")[0], b)
        # Briggs' limit seldom does anything: empty cells count as 1.
        fine = relative_error(a, b) <= TOLERANCE and (weight[0] == "briggs" or without > 1e-3)
        print("%-16s rms of the difference %.1e of rms, without the limit %.1e%s" %
              ("%s %s" % (name, weight[0]), relative_error(a, b), without, "" if fine else "  FAILED"))
        failures += not fine
    return failures


def tapers(msimage, folder, ms, failures):
    """Tapers and limits of uv distances at the cells of WSClean's weight grid."""
    common = ["-quiet", "-j", 2, "-size", 256, 256, "-scale", "8asec"]
    cases = (("tukey", ["-weight", "natural", "-minuv-l", 600, "-taper-inner-tukey", 2000, "-maxuv-l", 9000, "-taper-tukey", 4000]),
             ("edge tukey", ["-weight", "uniform", "-taper-edge", 3000, "-taper-edge-tukey", 6000]),
             ("gaussian, limits", ["-weight", "briggs", 0, "-minuv-l", 600, "-maxuv-l", 9000, "-taper-gaussian", "40asec"]))
    for title, options in cases:
        ours, theirs, other = [os.path.join(folder, "taper%s" % end) for end in ("-ours", "-theirs", "-other")]
        for place, to in (("cell", ours), ("sample", other)):
            run(msimage, *common, *options, "-taper-at", place, "-weight-padding", 1.2, "-weighting-rank-filter", 3, "-overwrite",
                "-accuracy", ACCURACY, "-name", to, ms)
        run("wsclean", *common, *options, "-use-wgridder", "-wgridder-accuracy", ACCURACY, "-no-small-inversion", "-reorder",
            "-no-update-model-required", "-temp-dir", folder, "-name", theirs, ms)
        a, b, c = [load(name + "-dirty.fits")[0] for name in (ours, theirs, other)]
        fine = relative_error(a, b) <= TOLERANCE and relative_error(c, b) > 1e-3
        print("%-16s rms of the difference %.1e of rms, at samples %.1e%s" %
              (title, relative_error(a, b), relative_error(c, b), "" if fine else "  FAILED"))
        failures += not fine
    return failures


def like(msimage, folder, ms, failures):
    """-like wsclean alone gives WSClean's weights, limits, tapers, channel images and beam."""
    ours, theirs = [os.path.join(folder, "like" + end) for end in ("-ours", "-theirs")]
    for title, options in (("defaults", []), ("channels", ["-channels-out", 2, "-minuv-l", 600, "-taper-gaussian", "40asec"]),
                           ("joined", ["-channels-out", 2, "-join-channels", "-niter", 60, "-weight", "briggs", 0])):
        common = ["-quiet", "-j", 2, "-size", 256, 256, "-scale", "8asec", "-make-psf", *options]
        run(msimage, "-like", "wsclean", *common, "-overwrite", "-accuracy", ACCURACY, "-name", ours, ms)
        run("wsclean", *common, "-use-wgridder", "-wgridder-accuracy", ACCURACY, "-no-small-inversion", "-reorder",
            "-no-update-model-required", "-temp-dir", folder, "-name", theirs, ms)
        for part in ("-0000-", "-MFS-") if "-channels-out" in options else ("-",):
            (a, ha), (b, hb) = [load(name + part + "dirty.fits") for name in (ours, theirs)]
            worst = max([abs(beam(ha)[k] / beam(hb)[k] - 1) for k in (0, 1)])
            fine = relative_error(a, b) <= TOLERANCE and worst < 1e-3
            print("%-16s rms of the difference %.1e of rms, beam %.1e%s" % ("like, " + title + part, relative_error(a, b), worst,
                                                                           "" if fine else "  FAILED"))
            failures += not fine
    return failures


def channels(msimage, makems, folder, failures):
    """The bands of output channels: evenly, at gaps, at given frequencies."""
    ms, ours, theirs = [os.path.join(folder, "channels" + end) for end in (".ms", "-ours", "-theirs")]
    run(makems, "-quiet", "-telescope", "vla", "-duration", "20s", "-ra", "60deg", "-dec", "44deg", "-source", "60deg", "44deg",
        "1Jy", "-spw", "1.40GHz", "2MHz", 7, "-spw", "1.454GHz", "2MHz", 4, "-spw", "1.50GHz", "3MHz", 2, ms)
    for n, options in ((3, []), (5, ["-gap-channel-division"]), (4, ["-channel-division-frequencies", "1.404e9,1.47e9"]),
                       (5, ["-gap-channel-division", "-channel-division-frequencies", "1.43e9"])):
        common = ["-quiet", "-j", 2, "-size", 64, 64, "-scale", "8asec", "-weight", "natural", "-make-psf",
                  "-channels-out", n, *options]
        run(msimage, *common, "-overwrite", "-name", ours, ms)
        run("wsclean", *common, "-no-update-model-required", "-temp-dir", folder, "-name", theirs, ms)
        for i in range(n):
            a, b = [load("%s-%04d-dirty.fits" % (name, i))[1] for name in (ours, theirs)]
            fine = all(abs(a[key] - b[key]) < 1 for key in ("CRVAL3", "CDELT3", "WSCNVIS"))
            print("%s, channel %d of %d: %.10g Hz, %.10g Hz wide, by WSClean %.10g, %.10g%s" % (
                " ".join(options), i, n, a["CRVAL3"], a["CDELT3"], b["CRVAL3"], b["CDELT3"], "" if fine else "  FAILED"))
            failures += not fine
    return failures


def main():
    msimage, makems = sys.argv[1:3]
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        failures = channels(msimage, makems, folder, failures)
        for name, options, size, cell in CASES:
            ms, ours, theirs = [os.path.join(folder, name + end) for end in (".ms", "-ours", "-theirs")]
            run(makems, "-quiet", *options, "-random-sources", 40, 3, "%gasec" % (0.7 * cell * size[0]), "-flags", 0.1,
                "-noise", "0.1Jy", "-weights", "radiometer", ms)
            common = ["-quiet", "-j", 2, "-size", *size, "-scale", "%gasec" % cell]
            failures = weightings(msimage, folder, name, ms, common, failures)
            if name == "vla":
                failures = tapers(msimage, folder, ms, failures)
                failures = like(msimage, folder, ms, failures)
            common += ["-weight", "natural", "-make-psf"]
            # A taper brings the natural beam close to a gaussian; WSClean tapers cells, not samples, so that its pixels
            # are others.
            # SKA-Low's core makes another beam than a gaussian whatever the taper.
            for taper in ([], ["-taper-gaussian", "%gasec" % (12 * cell)])[:1 if name == "skalow" else 2]:
                run(msimage, *common, *taper, "-overwrite", "-accuracy", ACCURACY, "-name", ours, ms)
                run("wsclean", *common, *taper, "-use-wgridder", "-wgridder-accuracy", ACCURACY, "-no-small-inversion",
                    "-reorder", "-no-update-model-required", "-temp-dir", folder, "-name", theirs, ms)
                if taper:
                    failures += compare_beams(name, ours + "-psf.fits", theirs + "-psf.fits")
                    continue
                for kind in ("dirty", "psf"):
                    failures = compare("%s %s" % (name, kind), "%s-%s.fits" % (ours, kind), "%s-%s.fits" % (theirs, kind),
                                       failures)
            shutil.rmtree(ms)
    sys.exit(1 if failures else 0)


main()
