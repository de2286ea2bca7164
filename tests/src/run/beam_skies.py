#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Skies of 200 sources out to a tenth of the beam, a band of 35 to 45 %, each sample attenuated in double: fluxes and spectral
indices after cleaning, and Stokes parameters of polarised sources. It takes minutes for each telescope and prints the rows of the
table in docs/primary-beams.md. beam_skies.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from program_suite import ImagingSuite, main, skip_without_modules
skip_without_modules("numpy", "astropy", "casacore.tables")
import numpy as np
from astropy.io import fits
from beam_sky import Sky
from casacore.tables import table

# First channel and step in MHz, channels, integration, how the beam is applied.
SKIES = {"meerkat": ((900, 100), 6, "30min", "-grid-with-beam"), "vla": ((1040, 128), 5, "30min", "-apply-primary-beam"),
         "atca": ((1332, 256), 4, "30min", "-apply-primary-beam"), "gmrt": ((560, 40), 8, "30min", "-apply-primary-beam"),
         "alma": ((88000, 6000), 8, "30min", "-grid-with-beam"), "mwa": ((140, 10), 6, "2min", "-grid-with-beam")}
PIXELS, SOURCES = 512, 200


def pixels(s, name):
    return fits.getdata(os.path.join(s.out, "pb-%s.fits" % name)).squeeze()


def clean(s, sky, *words):
    done = s.launch("-quiet", "-overwrite", "-size", sky.n, sky.n, "-scale", "%.12grad" % sky.cell, "-maxuv-l", "%.12g" % sky.limit,
                    "-niter", 1000000, "-threshold", "0.2mJy", "-mgain", 0.8, "-nmiter", 30, "-join-channels", "-channels-out",
                    len(sky.mhz), "-no-dirty", "-no-update-model-required", "-name", "pb", *words, sky.path)
    s.must(done.returncode == 0, "%s: runs%s" % (sky.name, done.stderr[-800:]))


def sky_is_right(s, name):
    band, channels, integration, word = SKIES[name]
    sky = Sky(s, name, PIXELS, channels=channels, band=band, sources=SOURCES, integration=integration)
    clean(s, sky, word, "-fit-spectral-log-pol", 2)
    flux = np.array([[pixels(s, "%04d-image-pb" % c)[b, a] for a, b in sky.at] for c in range(channels)])
    off = np.abs(flux / np.array([sky.spectrum(m) for m in sky.mhz]) - 1).max()
    slope = np.polyfit(np.log(np.array(sky.mhz) / sky.mhz[0]), np.log(flux), 1)[0]
    of_slope = np.abs(slope - sky.index).max()
    index = pixels(s, "MFS-spectral-index")
    of_map = np.nanmax([abs(index[b, a] - i) for (a, b), i in zip(sky.at, sky.index)])
    print("| %s | %g to %g MHz | `%s` | %.2f %% | %.3f | %.3f |" % (name, sky.mhz[0], sky.mhz[-1], word, 100 * off, of_slope, of_map))
    s.must(off < 0.01, "%s: fluxes within %.2f %%" % (name, 100 * off))
    s.must(of_slope < 0.03, "%s: spectral indices within %.3f" % (name, of_slope))
    for file in os.listdir(s.out):
        os.remove(os.path.join(s.out, file))


def check_polarised(s):
    for name in "meerkat", "vla", "atca", "gmrt", "alma", "mwa":
        sky = Sky(s, name, 128, "XX,XY,YX,YY", integration="2min" if name == "mwa" else None)
        with table(sky.path, readonly=False, ack=False) as t:
            t.putcol("DATA", sky.predicted())
        clean(s, sky, "-grid-with-beam", "-pol", "IQUV", "-join-polarizations")
        off = []
        for k, pol in enumerate("IQUV"):
            image = pixels(s, "0001-%s-image-pb" % pol)
            off.append(max(abs(image[b, a] - f * share[k]) / f for (a, b), f, share in zip(sky.at, sky.spectrum(sky.mhz[1]), sky.polarised)))
        print("| %s | %s |" % (name, " | ".join("%.3f %%" % (100 * x) for x in off)))
        s.must(max(off) < 0.01, "%s: I, Q, U, V within %.3f %% of the flux" % (name, 100 * max(off)))


def check_meerkat(s):
    sky_is_right(s, "meerkat")


def check_vla(s):
    sky_is_right(s, "vla")


def check_atca(s):
    sky_is_right(s, "atca")


def check_gmrt(s):
    sky_is_right(s, "gmrt")


def check_alma(s):
    sky_is_right(s, "alma")


def check_mwa(s):
    sky_is_right(s, "mwa")


main(ImagingSuite, globals())
