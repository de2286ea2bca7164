#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_masks.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: masks of deconvolution: FITS files, CASA images, regions, the horizon, and masks that follow
the residual."""
import glob
import gzip
import os

import numpy as np
from astropy.coordinates import SkyCoord
from astropy.io import fits
from astropy.wcs import WCS
from casacore import images
from casacore.tables import table

from clean_suite import CELL, POINTS, SIZE, CleanSuite, flux_about, same_images
from image_oracle import ASEC, load
from program_suite import VLA, fresh_copy, main, run


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
    done = s.launch("-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-niter", 9, "-threshold", 1,
                    "-name", s.path("none"), "-fits-mask", mask, s.ms("points"))
    s.told("a mask of nothing", done, 3, "mask.fits: the mask is 0 everywhere in the image, so nothing would be cleaned")


def check_scale_mask(s):
    """Each scale is cleaned where its bit of the mask is set, with and without -fits-mask; wrong values are refused."""
    name, _ = s.clean(s.ms("points"), "-make-psf")
    mask, plain = s.path("scales.fits"), s.path("plain.fits")

    def write(value, to=mask, planes=1):
        with fits.open(name + "-dirty.fits") as f:
            pixels = np.zeros((planes, SIZE, SIZE), ">f4")
            for (x, y, *_), bits in zip(POINTS, value):
                pixels[:, y - 1:y + 2, x - 1:x + 2] = bits
            fits.writeto(to, pixels[None], f[0].header, overwrite=True)
    words = ["-niter", 300, "-auto-threshold", 4, "-multiscale", "-multiscale-scales", "0,8,20"]
    bits = [1, 2, 0, 0, 4]
    write(bits)
    write([1, 1, 0, 0, 0], to=plain)
    for more, seen in (([], (0, 1, 4)), (["-fits-mask", plain], (0, 1))):
        cleaned, _ = s.clean(s.ms("points"), *words, "-multiscale-fits-mask", mask, *more)
        model = load(cleaned + "-model.fits")[0]
        # Wide scales are added by transforms, whose rounding is below 1e-6 of the peak.
        model = np.where(np.abs(model) > 1e-6 * np.abs(model).max(), model, 0)
        far, reach = model != 0, {1: 1, 2: 6, 4: 12}
        for n, (x, y, flux, *_) in enumerate(POINTS):
            got = flux_about(model, x, y, 14)
            s.must(got > 0.5 * flux if n in seen else got == 0, "scales %d at %g Jy: %g" % (bits[n], flux, got))
            if n in seen:
                r = reach[bits[n]]
                far[y - r:y + r + 1, x - r:x + r + 1] = False
                wide = np.count_nonzero(model[y - r:y + r + 1, x - r:x + r + 1])
                s.must((wide <= 9) == (bits[n] == 1), "%d pixels of the model about it" % wide)
        s.must(not far.any(), "%d pixels of the model elsewhere" % np.count_nonzero(far))
    write([8, 1, 0, 0, 0])
    _, log = s.clean(s.ms("points"), *words, "-multiscale-fits-mask", mask)
    s.must("allows scale 3 in places, but -multiscale-scales has only 3" in log, "a scale that is not there")
    pixels = ["-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-name", s.path("none"), *words]
    for title, value, planes, pattern in (("a fraction", [0.5], 1, "scales.fits: 9 image pixels, .* whole number"),
                                          ("a negative value", [-1], 1, "whole number"), ("too many bits", [65536], 1, "whole number"),
                                          ("NaN", [np.nan], 1, "whole number"), ("nothing", [0], 1, "0 everywhere"),
                                          ("two planes", [1], 2, "one plane, not 2")):
        write(value, planes=planes)
        s.told(title, s.launch(*pixels, "-multiscale-fits-mask", mask, s.ms("points")), 3, pattern)
    s.told("without scales", s.launch(*pixels[:-3], "-multiscale-fits-mask", mask, s.ms("points")), 2, "it needs -multiscale")


class Pixels:
    """Positions of the pixels of an image, by astropy."""

    def __init__(self, header, size):
        self.wcs, self.size = WCS(header).celestial, size
        self.y, self.x = np.mgrid[:size, :size].astype(float)
        self.sky = self.wcs.pixel_to_world(self.x, self.y)

    def turned(self, right, up, angle):
        """Offsets along and across an axis at this angle from the right, through the top, in degrees."""
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        return right * c + up * s, up * c - right * s

    def offsets(self, ra, dec, angle=0):
        """Angles on the sky from a position, in arcseconds: to the west and to the north, or along and across an axis."""
        centre = SkyCoord(ra, dec, unit="deg", frame=self.sky.frame)
        far, towards = centre.separation(self.sky).arcsec, centre.position_angle(self.sky).rad
        return self.turned(-far * np.sin(towards), far * np.cos(towards), angle)

    def steps(self, x, y, angle=0):
        """The same in pixels, from a 0-based pixel."""
        return self.turned(self.x - x, self.y - y, angle)

    def polygon(self, corners):
        """Pixels about which the corners turn once."""
        angle = np.unwrap([np.arctan2(y - self.y, x - self.x) for x, y in [*corners, corners[0]]], axis=0)
        return np.abs(angle[-1] - angle[0]) > np.pi


def ellipse(offsets, a, b):
    return (offsets[0] / a)**2 + (offsets[1] / b)**2 <= 1


def box(offsets, width, height):
    return (np.abs(offsets[0]) <= width / 2) & (np.abs(offsets[1]) <= height / 2)


def check_regions(s):
    """Regions of DS9 and CASA give the masks of their definitions, pixel by pixel; they restrict the components."""
    size, args = 96, ["-scale", "1amin", "-niter", 1, "-threshold", 1e-6, "-backend", "cpu", "-horizon-mask", 0]
    name, _ = s.clean(s.ms("points"), "-scale", "1amin", size=size)
    p = Pixels(load(name + "-dirty.fits")[1], size)
    places = [p.wcs.pixel_to_world(x, y) for x, y in ((60.2, 50.7), (20.4, 71.3), (47.6, 13.1))]
    (ra, dec), (ra2, dec2), (ra3, dec3) = ((c.ra.deg, c.dec.deg) for c in places)
    hours = places[0].to_string("hmsdms", sep=":", precision=6).replace(" ", ",")
    casa = places[1].to_string("hmsdms", precision=6).split()
    casa[1] = casa[1].replace("d", ".").replace("m", ".").rstrip("s")
    x2, y2 = p.wcs.world_to_pixel(places[1])
    triangle = [tuple(float(v) for v in p.wcs.world_to_pixel(c)) for c in places]
    ring = np.hypot(*p.offsets(ra2, dec2))
    everything = np.ones((size, size), bool)
    cases = (
        ("# Region file format: DS9 version 4.1\nglobal color=green\nfk5\ncircle(%s,600.5\") # text={a (b);c}\n" % hours,
         ellipse(p.offsets(ra, dec), 600.5, 600.5)),
        ("icrs;ellipse(%.9f,%.9f,0.31,7.5',25)" % (ra, dec), ellipse(p.offsets(ra, dec, 25), 0.31 * 3600, 450)),
        ("j2000\n+box %.9fd %.9fd 900\" 300\" 40\nannulus(%.9f,%.9f,4',5',10.1')\n-circle(%.9f, %.9f, 2.05')" %
         (ra, dec, ra2, dec2, ra, dec), (box(p.offsets(ra, dec, 40), 900, 300) | ((ring >= 240) & (ring <= 606))) &
         ~ellipse(p.offsets(ra, dec), 123, 123)),
        ("fk5\n-circle(%.9f,%.9f,5')\n" % (ra, dec), everything & ~ellipse(p.offsets(ra, dec), 300, 300)),
        ("image\n-circle(31,41,5)\ncircle(31,41,20)\nbox(70,30,10.5,31,-30)", ellipse(p.steps(30, 40), 20, 20) &
         ~ellipse(p.steps(30, 40), 5, 5) | (box(p.steps(69, 29, -30), 10.5, 31) & ~ellipse(p.steps(30, 40), 5, 5))),
        ("physical; polygon(10.2,12.1,80.3,20.7,61.45,90.6,50.1,33.3)",
         p.polygon([(9.2, 11.1), (79.3, 19.7), (60.45, 89.6), (49.1, 32.3)])),
        ("fk5\npolygon(%.9f,%.9f,%.9f,%.9f,%.9f,%.9f)" % (ra, dec, ra2, dec2, ra3, dec3), p.polygon(triangle)),
        ("image; ellipse(200,48,120,10,0)\nfk5; circle(%.9f,%.9f,4i)" % (ra2, dec2), ellipse(p.steps(199, 47), 120, 10) |
         ellipse(p.steps(x2, y2), 4, 4)),
        ("#CRTFv0\nglobal coord=J2000, color=blue\nellipse[[%s, %s], [20arcmin, 6arcmin], 30deg]\nann circle[[10pix, 10pix], 9pix]\n"
         % tuple(casa), ellipse(p.offsets(ra2, dec2, 120), 1200, 360)),
        ("#CRTF\ncircle[[30pix, 40pix], 20pix]\n-circle[[30pix, 40pix], 8pix], coord=ICRS\n+circle[[30pix, 40pix], 2pix]\n",
         (ellipse(p.steps(30, 40), 20, 20) & ~ellipse(p.steps(30, 40), 8, 8)) | ellipse(p.steps(30, 40), 2, 2)),
        ("-circle[[30pix, 40pix], 20pix]", ~ellipse(p.steps(30, 40), 20, 20)),
        ("rotbox[[%.9fdeg, %.9fdeg], [15arcmin, 300arcsec], 0.7rad]" % (ra, dec),
         box(p.offsets(ra, dec, np.degrees(0.7)), 900, 300)),
        ("centerbox[[30pix, 20pix], [11pix, 30.5pix]]", box(p.steps(30, 20), 11, 30.5)),
        ("box[[30.5pix, 20.5pix], [10.5pix, 44.5pix]]\nannulus[[70pix, 60.5pix], [5pix, 9.9pix]]", box(p.steps(20.5, 32.5), 20, 24) |
         (np.hypot(*p.steps(70, 60.5)) >= 5) & (np.hypot(*p.steps(70, 60.5)) <= 9.9)),
        ("poly[[10.3pix, 5.2pix], [80.3pix, 20.1pix], [40.2pix, 88.4pix]]", p.polygon([(10.3, 5.2), (80.3, 20.1), (40.2, 88.4)])))
    path = s.path("sources.reg")
    for k, (text, wanted) in enumerate(cases):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        is_text = text[0] in "-pr" and "[[" in text
        cleaned, _ = s.clean(s.ms("points"), *args, "-mask" if k % 2 and not is_text else "-region-mask", text if is_text else path,
                             size=size)
        got = load(cleaned + "-horizon-mask.fits")[0]
        s.must(((got == 1) == wanted).all() and set(np.unique(got)) == {0, 1}, "%s: %d pixels, %d differ" %
               (text.splitlines()[-1], wanted.sum(), ((got == 1) != wanted).sum()))
        model = load(cleaned + "-model.fits")[0]
        s.must(np.count_nonzero(model) == 1 and wanted[model != 0].all(), "the component is inside")
    for title, text, words in (
            ("an unknown shape", "fk5\nvector(1,2,3,4)", ["line 2", "unknown shape", "vector"]),
            ("an unknown frame", "galactic\ncircle(1,2,3)", ["line 1", "unknown frame", "galactic"]),
            ("a misspelt frame", "gallactic\ncircle(1,2,3)", ["line 1", "unknown frame", "gallactic"]),
            ("an unknown CASA shape", "#CRTF\nsymbol[[1pix, 2pix], o]", ["line 2", "unknown shape", "symbol"]),
            ("an unknown CASA frame", "#CRTF\ncircle[[1deg, 2deg], 1deg], coord=B1950", ["line 2", "unknown frame", "B1950"]),
            ("too few numbers", "image\n\ncircle(1,2)", ["line 3", "has 2 numbers, expected 3"]),
            ("a word for a number", "image\ncircle(1,x,3)", ["line 2", "x"]), ("a negative radius", "image\ncircle(1,2,-3)", ["-3"]),
            ("radii in the wrong order", "image\nannulus(9,9,5,3)", ["inner radius"]),
            ("an open bracket", "#CRTF\ncircle[[1pix, 2pix], 3pix", ["bracket"]),
            ("a length without a unit", "#CRTF\ncircle[[1pix, 2pix], 3]", ["not a length"]),
            ("no region", "# nothing\nglobal color=red\n", ["no region"]),
            ("the other half of the sky", "fk5\npolygon(0,-44,1,-44,2,-45)", ["other half"]),
            ("a mask of nothing", "image\ncircle(-500,-500,3)", ["0 everywhere"])):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = s.launch("-quiet", "-size", size, size, *args, "-name", s.path("none"), "-region-mask", path, s.ms("points"))
        for word in words:
            s.told(title, done, 3, word)
    args += ["-name", s.path("none")]
    s.told("no file", s.launch("-quiet", "-size", size, size, *args, "-region-mask", s.path("no.reg"), s.ms("points")), 3, "no.reg")
    s.told("an image", s.launch("-quiet", "-size", size, size, *args, "-region-mask", name + "-dirty.fits", s.ms("points")), 3,
           "-fits-mask")
    refuse_pipes(s, ["-quiet", "-overwrite", "-size", size, size, *args[:-2], "-name", s.path("piped")])


def refuse_pipes(s, args):
    """A pipe that nothing writes to, and files that do not end, are refused at once; a pipe with a writer is read."""
    pipe = s.path("pipe.reg")
    os.mkfifo(pipe)
    for option in ("-region-mask", "-mask", "-facet-regions", "-aterm-config", "-fits-mask"):
        s.told("%s of a pipe" % option, s.launch(*args, option, pipe, s.ms("points")), 3, "pipe.reg: (a pipe that nothing writes to|not a regular file)")
        s.told("%s of a terminal" % option, s.launch(*args, option, "/dev/ptmx", s.ms("points")), 3, "/dev/ptmx: not a regular file|/dev/ptmx: neither a file nor a pipe")
    for option in ("-region-mask", "-mask"):
        reads, writes = os.pipe()
        os.write(writes, b"image\ncircle(20,20,5)\n")
        os.close(writes)
        done = s.launch(*args, option, "/dev/fd/%d" % reads, s.ms("points"), pass_fds=[reads])
        os.close(reads)
        s.must(done.returncode == 0, "%s of a pipe with a writer: %s" % (option, done.stderr[-200:]))


def check_mask_of_any_kind(s):
    """-mask reads a FITS image and a CASA image as well."""
    name, _ = s.clean(s.ms("points"), size=64)
    pixels = np.zeros((1, 1, 64, 64), ">f4")
    pixels[0, 0, 20:40, 30:50] = 1
    fits_mask, casa_mask = s.path("any.fits"), s.path("any.mask")
    fits.writeto(fits_mask, pixels, load(name + "-dirty.fits")[1])
    images.image(fits_mask).saveas(casa_mask)
    for mask in (fits_mask, casa_mask):
        cleaned, _ = s.clean(s.ms("points"), "-niter", 1, "-threshold", 1e-6, "-horizon-mask", 0, "-mask", mask, size=64)
        s.must((load(cleaned + "-horizon-mask.fits")[0] == pixels[0, 0]).all(), "-mask %s" % os.path.basename(mask))


def check_horizon_mask(s):
    """-horizon-mask is that of its definition, also with another mask, and with a negative angle, where the horizon itself
    limits it."""
    size, cell = 128, np.radians(1.2)
    step = (np.arange(size) - size // 2) * cell
    square = step[:, None]**2 + step**2
    ms = s.made_at("low.ms", VLA, ["-telescope", "vla", "-duration", "1min", "-integration", "30s", "-spw", "1MHz", "0.01MHz", "2",
                                   "-source", "60deg", "44deg", "1Jy"])

    def mask(*options):
        cleaned, _ = s.clean(ms, "-scale", "1.2deg", "-niter", 3, "-threshold", 1e-6, *options, size=size)
        model = load(cleaned + "-model.fits")[0]
        return load(cleaned + "-horizon-mask.fits")[0], model, cleaned
    for words, radius in ((["10deg"], np.sin(np.radians(80))), ([60], np.sin(np.radians(30))), (["-0.2rad"], 1.2), ([0], 1)):
        got, model, name = mask("-horizon-mask", *words)
        s.must((got == (square < radius**2)).all() and (square[model != 0] < min(radius, 1)**2).all(),
               "-horizon-mask %s: %d pixels" % (words[0], got.sum()))
    header = load(name + "-horizon-mask.fits")[1]
    s.must(header["CTYPE1"] == "RA---SIN" and abs(header["CDELT2"] - 1.2) < 1e-9, "the file has the image's coordinates")
    both, _, _ = mask("-horizon-mask", "60deg", "-region-mask", "box[[64pix, 64pix], [200pix, 200pix]]")
    up = (np.arange(size)[:, None] >= 64) & (np.arange(size) >= 64)
    s.must((both == (up & (square < 0.25))).all(), "with a region: %d pixels" % both.sum())
    done = s.launch("-quiet", "-size", size, size, "-scale", "1.2deg", "-niter", 3, "-threshold", 1, "-name", s.path("none"),
                    "-horizon-mask", 90, ms)
    s.told("nothing is left", done, 3, "-horizon-mask: the mask is 0 everywhere")


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
    s.told("not a CASA image", s.launch(*args, "-casa-mask", s.ms("steep"), s.ms("steep")), 3, "not a CASA image")
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


# Sources on pixels, with their fluxes in four channels: one that fades below -abs-auto-mask, one that is away in between, one that is
# never above it, and one that comes.
LINES = {(80, 70): (1, 0.2, 0.1, 0.06), (40, 90): (0.8, 0, 0.2, 0.2), (60, 30): (0.05, 0.05, 0.05, 0.05), (100, 100): (0, 0.1, 0.9, 0.15)}


def line_set(s):
    """A set without noise whose sources differ from channel to channel: sums in double."""
    path = fresh_copy(s.made_at("line.ms", VLA, ["-telescope", "vla", "-config", "D", "-duration", "10min", "-integration", "1min", "-spw", "1.4GHz", "1MHz", 4]),
                      s.path("lines.ms"))
    with table(path, readonly=False, ack=False) as t:
        uvw, data = t.getcol("UVW"), t.getcol("DATA")
        data[:] = 0
        for (x, y), flux in LINES.items():
            l, m = (64 - x) * 20 * ASEC, (y - 64) * 20 * ASEC
            turns = uvw @ np.array([l, m, np.sqrt(1 - l * l - m * m) - 1])
            for c, f in enumerate(flux):
                hands = f * np.exp(2j * np.pi * turns * (1.4e9 + 1e6 * c) / 299792458.0)
                data[:, c, 0] += hands
                data[:, c, -1] += hands
        t.putcol("DATA", data)
    return path


def check_previous(s):
    """With -previous-mask a channel is cleaned to the threshold where the channel before it has components, too."""
    path = line_set(s)
    words = ["-quiet", "-size", 128, 128, "-scale", "20asec", "-niter", 5000, "-abs-auto-mask", "0.3Jy", "-threshold", "20mJy", "-accuracy", 1e-6,
             "-no-update-model-required"]
    # The sources that each channel cleans: those above 0.3 Jy, and with the option those of the channel before, if they are there.
    alone = [[f[c] > 0.3 for f in LINES.values()] for c in range(4)]
    follow = [[True, True, False, False], [True, False, False, False], [True, False, False, True], [True, False, False, True]]
    for more, expected in (([], alone), (["-previous-mask"], follow), (["-previous-mask", "-pol", "RR,LL"], follow),
                           (["-previous-mask", "-pol", "RR,LL", "-join-polarizations"], follow), (["-previous-mask", "-multiscale", "-multiscale-scales", "0,9"], follow)):
        for form in ["-channels-out", 4], ["-cube"]:
            name = s.path("previous%d" % next(s.number))
            run(s.msimage, *words, *more, *form, "-name", name, path)
            for pol in (["RR-", "LL-"] if "-pol" in more else [""]):
                model = [load(name + "-%04d-%smodel.fits" % (c, pol))[0] for c in range(4)] if form[0] != "-cube" else fits.getdata(name + "-%smodel.fits" % pol).squeeze()
                for c, clean in enumerate(expected):
                    got = [flux_about(model[c], x, y, 4) for x, y in LINES]
                    s.must(all(abs(g - f[c]) < 0.04 if is_clean else abs(g) < 1e-6 for g, f, is_clean in zip(got, LINES.values(), clean)),
                           "%s, channel %d: %s Jy" % (" ".join(map(str, more + form + [pol])), c, ["%.3f" % g for g in got]))
    base = ["-size", 64, 64, "-scale", "20asec", "-niter", 9, "-threshold", "1mJy", "-name", s.path("none"), "-previous-mask"]
    s.told("without a mask", s.launch(*base, "-channels-out", 2, path), 2, "it needs -auto-mask")
    s.told("one channel", s.launch(*base, "-auto-mask", 5, path), 2, "give -channels-out or -cube")
    s.told("joined channels", s.launch(*base, "-auto-mask", 5, "-channels-out", 2, "-join-channels", path), 2, "leave -join-channels out")


main(CleanSuite, globals())
