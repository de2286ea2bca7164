#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_masks.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: masks of deconvolution: FITS files and CASA images, and masks that follow
the residual."""
import glob
import gzip
import os

import numpy as np
from astropy.io import fits
from casacore import images

from clean_suite import CELL, POINTS, SIZE, CleanSuite, flux_about, same_images
from image_oracle import load
from program_suite import main, run


def check_mask(s):
    """Components are within a mask of any pixel size; a mask with another frame, or one that is too small, is refused."""
    name, _ = s.clean(s.ms("points"), "-make-psf")
    mask = s.path("mask.fits")
    with fits.open(name + "-dirty.fits") as f:
        header = f[0].header
        header["CDELT1"], header["CDELT2"], header["CRPIX1"], header["CRPIX2"] = -8 / 3600, 8 / 3600, 151, 141
        pixels = np.zeros((1, 1, 280, 300), ">f4")
        for x, y, *_ in POINTS[:3]:
            i, j = 150 + (x - 256) // 2, 140 + (y - 256) // 2
            pixels[0, 0, j - 1:j + 2, i - 1:i + 2] = 1
        fits.writeto(mask, pixels, header, overwrite=True)
    cleaned, _ = s.clean(s.ms("points"), "-niter", 2000, "-auto-threshold", 2, "-fits-mask", mask)
    model = load(cleaned + "-model.fits")[0]
    for n, (x, y, flux, *_) in enumerate(POINTS):
        got = flux_about(model, x, y)
        s.must(got > 0.7 * flux if n < 3 else got == 0, "%g Jy %s the mask: %g" % (flux, "in" if n < 3 else "out of", got))
    with fits.open(mask) as f:
        f[0].header["CRPIX1"] += 100
        f.writeto(mask, overwrite=True)
    done = s.launch("-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 9, "-threshold", 1,
                    "-name", s.path("none"), "-fits-mask", mask, s.ms("points"))
    s.told("a mask that does not reach as far", done, 3, "mask.fits")
    with fits.open(mask) as f:
        f[0].header["CRPIX1"] -= 100
        f[0].data[...] = 0
        f.writeto(mask, overwrite=True)
    packed = s.path("packed.fits.gz")
    with open(mask, "rb") as plain, gzip.open(packed, "wb") as f:
        f.write(plain.read())
    done = s.launch("-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 9, "-threshold", 1,
                    "-name", s.path("none"), "-fits-mask", packed, s.ms("points"))
    s.told("a compressed mask", done, 3, "packed.fits.gz: compressed file; unpack it first")
    cleaned, log = s.clean(s.ms("points"), "-niter", 2000, "-auto-threshold", 2, "-fits-mask", mask)
    s.must(load(cleaned + "-image.fits")[1]["MSISTOP"] == "mask empty" and not load(cleaned + "-model.fits")[0].any() and
           "mask.fits: the mask is 0 everywhere in the image; nothing is cleaned" in log, "a mask of nothing, and a warning")


def check_casa_mask(s):
    """A CASA image gives the same mask as its FITS image, also rotated, with other pixels and with several planes; other and
    damaged directories are refused."""
    name, _ = s.clean(s.ms("steep"), "-make-psf", size=128)
    args = ["-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 100, "-threshold", 0.01, "-backend", "cpu"]
    generator = np.random.default_rng(7)
    with fits.open(name + "-dirty.fits") as f:
        header = f[0].header
    for title, change, n_plane in (
            ("the same pixels", {}, 1), ("other pixels", {"CDELT1": -7 / 3600, "CDELT2": 9 / 3600, "CRPIX1": 71.3, "CRPIX2": 66.6}, 1),
            ("a turned one", {"PC1_1": 0.8, "PC1_2": -0.6, "PC2_1": 0.6, "PC2_2": 0.8, "CDELT1": -8 / 3600, "CDELT2": 8 / 3600}, 1),
            ("another projection", {"CTYPE1": "RA---TAN", "CTYPE2": "DEC--TAN"}, 1), ("two planes", {}, 2)):
        fits_mask, casa_mask = s.path("of-casa%d.fits" % next(s.number)), s.path("casa%d.mask" % next(s.number))
        size = 160 if change else 128
        cards = header.copy()
        if title == "another projection":
            change = {**change, "CRPIX1": size // 2 + 1, "CRPIX2": size // 2 + 1, "CDELT1": -5 / 3600, "CDELT2": 5 / 3600}
        if title == "a turned one":
            # No image pixel is halfway between two mask pixels, where rounding would decide.
            change = {**change, "CRPIX1": size // 2 + 1.27, "CRPIX2": size // 2 + 1.13}
        cards.update(change)
        cards["NAXIS1"] = cards["NAXIS2"] = size
        fits.writeto(fits_mask, (generator.random((1, n_plane, size, size)) < 0.3).astype(">f4"), cards, overwrite=True)
        images.image(fits_mask).saveas(casa_mask)
        words, outs = ["-channels-out", n_plane] if n_plane > 1 else [], []
        for option, mask in (("-fits-mask", fits_mask), ("-casa-mask", casa_mask)):
            outs.append(s.path("masked%d" % next(s.number)))
            run(s.msimage, *args, *words, option, mask, "-name", outs[-1], s.ms("steep"))
        same_images(s, title, *outs, ["-%s.fits" % k for k in (["model"] if n_plane == 1 else ["0000-model", "0001-model"])])
        s.must(load(outs[1] + ("-model.fits" if n_plane == 1 else "-0000-model.fits"))[0].any(), "a model of something")
    args += ["-name", s.path("none")]
    s.told("no CASA image", s.launch(*args, "-casa-mask", s.ms("steep"), s.ms("steep")), 3, "no CASA image")
    s.told("no table", s.launch(*args, "-casa-mask", fits_mask, s.ms("steep")), 3, os.path.basename(fits_mask))
    with open(os.path.join(casa_mask, "table.f0_TSM0"), "r+b") as f:
        f.truncate(1000)
    s.told("a damaged one", s.launch(*args, "-channels-out", 2, "-casa-mask", casa_mask, s.ms("steep")), 3, "corrupt")
    s.told("two masks", s.launch(*args, "-casa-mask", casa_mask, "-fits-mask", fits_mask, s.ms("steep")), 2, "one mask")
    s.must(not glob.glob(s.path("none") + "*"), "nothing is written")


def check_multithresh(s):
    """Masks that follow the residual: components are within them, sources are found, and a resumed run uses them."""
    words = ["-niter", 3000, "-threshold", 0.004, "-auto-multithresh", "-sidelobethreshold", 1.5]
    name, _ = s.clean(s.ms("points"), *words)
    model, mask = load(name + "-model.fits")[0], load(name + "-mask.fits")[0]
    s.must(set(np.unique(mask)) == {0, 1} and not model[mask == 0].any() and 0 < mask.mean() < 0.2,
           "components lie within the mask, %.2g of the image; without: %d" %
           (mask.mean(), np.count_nonzero(model[mask == 0])))
    for x, y, flux, *_ in POINTS:
        s.near("%g Jy" % flux, flux_about(model, x, y), flux, 0.02)
    done = s.launch("-quiet", "-size", 64, 64, "-scale", "4asec", *words, "-auto-mask", 5, s.ms("points"))
    s.told("two masks", done, 2, "auto-multithresh")


main(CleanSuite, globals())
