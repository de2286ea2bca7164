#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""msimage-mosaic, on images that this test writes: against the definition in numpy, and against Gaussians at their places on
the sky by astropy. join_images.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from program_suite import ImagingSuite, main, skip_without_modules

skip_without_modules("numpy", "astropy.io.fits", "astropy.wcs")
import numpy as np
from astropy.io import fits
from astropy.wcs import WCS

HZ, ASEC = 1.4e9, 1 / 3600
LN16 = 4 * np.log(2)


def header(n, ra, dec, cell=10 * ASEC, projection="SIN", pixel=None, pointing=None, beam=(40, 40, 0), unit="Jy/beam", turn=0, freqs=(HZ,),
           step=1e6, **cards):
    """The header of an image of n x n pixels; `pixel` is the one of the position, 0-based; beam in arcsec and degrees."""
    h = fits.Header()
    for key, value in dict(CTYPE1="RA---" + projection, CTYPE2="DEC--" + projection, CTYPE3="FREQ", CRVAL1=ra, CRVAL2=dec, CRVAL3=freqs[0],
                           CDELT1=-cell, CDELT2=cell, CDELT3=step, CUNIT1="deg", CUNIT2="deg", CUNIT3="Hz", CRPIX3=1, RADESYS="ICRS",
                           CRPIX1=(pixel or (n // 2, n // 2))[0] + 1, CRPIX2=(pixel or (n // 2, n // 2))[1] + 1, BUNIT=unit).items():
        h[key] = value
    if beam:
        h["BMAJ"], h["BMIN"], h["BPA"] = beam[0] * ASEC, beam[1] * ASEC, beam[2]
    if turn:
        c, s = np.cos(np.radians(turn)), np.sin(np.radians(turn))
        h["PC1_1"], h["PC1_2"], h["PC2_1"], h["PC2_2"] = c, -s, s, c
    if pointing:
        h["OBSRA"], h["OBSDEC"] = pointing
    h.update(cards)
    return h


def sky(h, n):
    """Right ascension and declination of all pixels, in degrees."""
    y, x = np.mgrid[:n, :n] if np.isscalar(n) else np.mgrid[:n[1], :n[0]]
    return WCS(h).celestial.all_pix2world(x, y, 0)


def offsets(ra, dec, ra0, dec0):
    """Towards east and north in a tangent plane, and the angle, in degrees."""
    ra, dec, ra0, dec0 = (np.radians(v) for v in (ra, dec, ra0, dec0))
    l, m = np.cos(dec) * np.sin(ra - ra0), np.sin(dec) * np.cos(dec0) - np.cos(dec) * np.sin(dec0) * np.cos(ra - ra0)
    n = np.sin(dec) * np.sin(dec0) + np.cos(dec) * np.cos(dec0) * np.cos(ra - ra0)
    return np.degrees(l), np.degrees(m), np.degrees(np.arctan2(np.hypot(l, m), n))


def gaussian(h, n, sources, beam):
    """Sources (ra, dec, flux) as Gaussians; beam as in the header."""
    ra, dec = sky(h, n)
    image, pa = 0, np.radians(beam[2])
    for a, d, flux in sources:
        e, north, _ = offsets(ra, dec, a, d)
        along, across = e * np.sin(pa) + north * np.cos(pa), e * np.cos(pa) - north * np.sin(pa)
        image = image + flux * np.exp(-LN16 * ((along / (beam[0] * ASEC))**2 + (across / (beam[1] * ASEC))**2))
    return image


def response(h, n, pointing, hz=HZ, width=0.2):
    """A Gaussian of a width in degrees at HZ, to two widths."""
    r = offsets(*sky(h, n), *pointing)[2]
    return np.where(r <= 2 * width * HZ / hz, np.exp(-LN16 * (r / (width * HZ / hz))**2), 0)


PB = ("-pb", "gauss:12amin@1.4GHz")


def write(s, name, h, pixel, beams=None):
    pixel = np.asarray(pixel, np.float32)
    hdus = [fits.PrimaryHDU(pixel if pixel.ndim > 2 else pixel[None], h)]
    if beams:
        columns = zip(("BMAJ", "BMIN", "BPA"), ("arcsec", "arcsec", "deg"), zip(*beams))
        hdus.append(fits.BinTableHDU.from_columns([fits.Column(k, "1E", u, array=np.array(v)) for k, u, v in columns], name="BEAMS"))
    fits.HDUList(hdus).writeto(s.path(name), overwrite=True)
    return s.path(name)


def launch(s, *words):
    program = os.path.join(os.path.dirname(s.msimage), "msimage-mosaic")
    return subprocess.run([program, *[str(w) for w in words]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, cwd=s.out)


def joined(s, *words):
    done = launch(s, "-quiet", "-overwrite", "-name", "m", *words)
    s.must(done.returncode == 0, "joins: %s" % (done.stderr or "no error"))
    hdus = [fits.open(os.path.join(s.out, "m-%s.fits" % kind))[0] for kind in ("image", "weight", "noise")]
    return (hdus[0].header, *[h.data.squeeze() for h in hdus])


def noise_of(pixel):
    v = pixel[np.isfinite(pixel)]
    return 1.482602218505602 * np.median(np.abs(v - np.median(v)))


def check_definition(s):
    """Images of one tangent point are not interpolated: sums by numpy, of measured, given and equal noise, corrected or not."""
    g, n = np.random.default_rng(1), 64
    pointings = ((60.0, 30.0), (60.1, 30.05), (59.9, 29.95))
    h = [header(n, 60.02, 30.01, pixel=(32 + k, 30 - 7 * k), pointing=p, freqs=(1.45e9,)) for k, p in enumerate(pointings)]
    d = [(k + 1) * g.standard_normal((n, n)).astype(np.float32) for k in range(3)]
    d[1][3:9, 5:11] = np.nan
    p = [response(hh, n, q, 1.45e9) for hh, q in zip(h, pointings)]
    paths = [write(s, "d%d-image.fits" % k, hh, v) for k, (hh, v) in enumerate(zip(h, d))]
    for k in range(3):
        write(s, "d%d-pb.fits" % k, h[k], p[k])
        write(s, "c%d-image.fits" % k, h[k], np.where(p[k] > 0.1, d[k] / np.maximum(p[k], 1e-9), np.nan))
        write(s, "c%d-pb.fits" % k, h[k], p[k])
    cut = [np.where(q > 0.1, v, np.nan) for v, q in zip(d, p)]
    for words, files, data, rms in (
            (PB, paths, d, [noise_of(v) for v in d]), ((*PB, "-rms", "1,3,5mJy"), paths, d, (1, 3, 5e-3)),
            ((*PB, "-rms", "equal", "-pblimit", 0.5), paths, d, (1, 1, 1)), (("-pb-images", "*-pb.fits"), paths, d, [noise_of(v) for v in d]),
            (("-corrected", "-pb-images", ",".join(s.path("c%d-pb.fits" % k) for k in range(3))), [s.path("c%d-image.fits" % k) for k in range(3)], cut,
             [noise_of(v) for v in cut]), (("-pb", "off"), paths, d, [noise_of(v) for v in d])):
        head, image, weight, noise = joined(s, *words, *files)
        total, wanted = np.zeros(image.shape), np.zeros(image.shape)
        for k in range(3):
            x0, y0 = image.shape[1] // 2 - (32 + k), image.shape[0] // 2 - (30 - 7 * k)
            beam = p[k] if words[0] != "-pb" or words[1] != "off" else np.ones((n, n))
            good = np.isfinite(data[k])
            box = np.s_[y0:y0 + n, x0:x0 + n]
            total[box] += np.where(good, beam**2, 0) / rms[k]**2
            wanted[box] += np.where(good, beam * np.nan_to_num(data[k]), 0) / rms[k]**2
        seen = total >= (0.25 if "-pblimit" in words else 0.04) * total.max()
        off = [np.abs(weight / total.max() - total / total.max()).max(), np.abs(image * total - wanted)[seen].max() / np.abs(wanted).max(),
               np.abs(noise[seen] * np.sqrt(total[seen]) - 1).max()]
        edge = (np.isnan(image) == ~seen).mean()
        s.must(max(off) < 3e-6 and edge > 0.9999 and abs(head["CRPIX1"] - image.shape[1] // 2 - 1) < 1e-9,
               "%s: weight, image and noise are off by %s" % (" ".join(str(w) for w in words), ["%.1e" % o for o in off]))


def check_places(s):
    """Images of other tangent points, projections, pixels and turns: sources keep their places and peaks, models their flux."""
    sources = [(60.0 + 0.07 * a, 30.0 + 0.05 * b, 1 + 0.1 * (a + 3 * b)) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    beam = (40, 32, 30)
    h = [header(150, 60.05, 30.02, beam=beam), header(160, 59.93, 29.98, cell=8.7 * ASEC, projection="TAN", beam=beam),
         header(180, 60.4, 30.3, cell=9 * ASEC, projection="ARC", pixel=(210, 0), beam=beam, turn=25)]
    n = [150, 160, 180]
    for unit, most in ("Jy/beam", 2e-3), ("Jy/pixel", 2e-3):
        for k in range(3):
            h[k]["BUNIT"] = unit
            area = abs(h[k]["CDELT1"] * h[k]["CDELT2"]) / (np.pi / LN16 * beam[0] * beam[1] * ASEC**2) if unit == "Jy/pixel" else 1
            # A turned header has the beam's angle against its own columns, which only -restoring-beam reads.
            write(s, "p%d-image.fits" % k, h[k], area * gaussian(h[k], n[k], sources, beam))
        files = [s.path("p%d-image.fits" % k) for k in range(3)]
        head, image, _, _ = joined(s, "-pb", "off", "-rms", "equal", "-scale", "7asec", *files)
        size = image.shape[::-1]
        wanted = gaussian(head, size, sources, beam)
        if unit == "Jy/pixel":
            wanted *= abs(head["CDELT1"] * head["CDELT2"]) / (np.pi / LN16 * beam[0] * beam[1] * ASEC**2)
        off = np.nanmax(np.abs(image - wanted)) / wanted.max()
        s.must(off < most, "%s: off by %.1e of the peak" % (unit, off))
        if unit == "Jy/pixel":
            flux = np.nansum(image) / sum(f for _, _, f in sources)
            s.must(abs(flux - 1) < 1e-3, "the flux of a model is %.5f of what it was" % flux)
    done = launch(s, "-quiet", "-overwrite", "-pb", "off", "-rms", "equal", "-size", 100, 80, "-scale", "20asec", "-shift", "4h0m0s", "30d", "-name", "g",
                  *files[:2])
    h = fits.getheader(os.path.join(s.out, "g-image.fits"))
    s.must(done.returncode == 0 and (h["NAXIS1"], h["NAXIS2"], h["CRVAL1"], h["CRVAL2"], h["CRPIX1"], h["CRPIX2"]) == (100, 80, 60, 30, 51, 41),
           "-size, -scale and -shift: %s" % done.stderr)
    ramp = np.arange(1.0, 1601.0).reshape(40, 40)
    _, image, _, noise = joined(s, "-pb", "off", "-rms", "3", write(s, "e.fits", header(40, 60.0, 30.0, unit="JY/PIXEL"), ramp))
    s.must(np.allclose(image, ramp, rtol=1e-5) and np.allclose(noise, 3, rtol=1e-5), "all pixels of an image per pixel, with the edges, stay")
    head, image, _, noise = joined(s, "-pb", "off", "-rms", "3", "-scale", "20asec", s.path("e.fits"))
    middle = image[int(head["CRPIX2"]) - 1, int(head["CRPIX1"]) - 1]
    s.must(abs(np.nanmedian(noise) - 12) < 1e-3 and abs(middle / ramp[20, 20] - 4) < 1e-3,
           "pixels of four times the area have four times the flux and noise: %g, %g" % (middle / ramp[20, 20], np.nanmedian(noise)))


def check_beams(s):
    """Images of different beams, convolved to one: fluxes, and the beam of the header."""
    sources = [(60.0, 30.0, 1.0), (60.06, 29.95, 0.5)]
    beams = ((50, 35, 20), (45, 44, 100), (38, 36, 0))
    for k, b in enumerate(beams):
        h = header(128, 60.0, 30.0, beam=b)
        write(s, "b%d-image.fits" % k, h, gaussian(h, 128, sources, b))
    files = [s.path("b%d-image.fits" % k) for k in range(3)]
    done = launch(s, "-overwrite", "-pb", "off", "-rms", "equal", "-name", "m", *files)
    s.must("BMAJ" not in fits.getheader(os.path.join(s.out, "m-image.fits")) and "the beams of the images differ" in done.stderr, "differing beams: " + done.stderr)
    for words, size in ((("-restoring-beam", "common"), None), (("-beam-shape", "60asec", "55asec", "10deg"), (60, 55, 10))):
        head, image, _, _ = joined(s, "-pb", "off", "-rms", "equal", *words, *files)
        beam = head["BMAJ"] / ASEC, head["BMIN"] / ASEC, head["BPA"]
        wanted = gaussian(head, image.shape[::-1], sources, beam)
        inner = np.s_[30:-30, 30:-30]
        off = np.abs(image - wanted)[inner].max()
        s.must(off < 2e-3 and (size is None or np.allclose(beam, size)) and beam[0] >= 50, "%s: beam %s, off by %.1e" % (words[0], np.round(beam, 2), off))
    done = launch(s, "-overwrite", "-pb", "off", "-rms", "equal", "-restoring-beam", "largest", "-name", "m", *files)
    s.must(done.returncode == 3 and "does not contain that of" in done.stderr, "largest: " + done.stderr)


    h = [header(128, 60.0, 30.0, beam=beams[0], turn=turn) for turn in (0, 40)]
    files = [write(s, "t%d.fits" % k, hh, gaussian(hh, 128, sources, beams[0])) for k, hh in enumerate(h)]
    head, image, _, _ = joined(s, "-pb", "off", "-rms", "equal", files[1])
    s.must(np.allclose((head["BMAJ"], head["BMIN"], head["BPA"]), (beams[0][0] * ASEC, beams[0][1] * ASEC, beams[0][2]), rtol=1e-4), "the beam of a turned header is on the sky")
    head, image, _, _ = joined(s, "-pb", "off", "-rms", "equal", "-beam-shape", "60asec", "40asec", "10deg", *files)
    off = np.abs(image - gaussian(head, image.shape[::-1], sources, (60, 40, 10)))[60:-60, 60:-60].max()
    s.must(off < 2e-3, "the convolution of a turned image is off by %.1e" % off)
    write(s, "t2.fits", header(128, 60.0, 30.0, beam=(50, 35, 80)), np.ones((128, 128)))
    done = launch(s, "-overwrite", "-pb", "off", "-rms", "equal", "-name", "m", files[0], s.path("t2.fits"))
    s.must("BMAJ" not in fits.getheader(os.path.join(s.out, "m-image.fits")) and "the beams of the images differ" in done.stderr, "beams of other angles: " + done.stderr)
    done = launch(s, "-overwrite", "-pb", "off", "-rms", "1mJy,1mJy", "-beam-shape", "70asec", "60asec", "0deg", "-name", "m", *files)
    s.must(done.returncode == 0 and "noise after the image is convolved" in done.stderr, "-rms with a convolution: " + done.stderr)


def check_pointings(s):
    """A beam on the axes of the sky keeps its sides; cards of pointings; warnings where a beam may be in a wrong place."""
    n, sides = 64, (10 / 60, 6 / 60)
    b = fits.Header()
    for key, value in dict(CTYPE1="RA---SIN", CTYPE2="DEC--SIN", CTYPE3="FREQ", CRPIX1=101, CRPIX2=101, CRPIX3=1, CRVAL1=0, CRVAL2=0, CRVAL3=HZ, CDELT1=-0.3 / 60, CDELT2=0.3 / 60,
                           CDELT3=1e9, CUNIT1="deg", CUNIT2="deg", CUNIT3="Hz").items():
        b[key] = value
    y, x = np.mgrid[:201, :201]
    beam = lambda e, north: np.exp(-LN16 * (((e - north) / sides[0])**2 + ((e + north) / sides[1])**2) / 2)
    write(s, "beam.fits", b, beam(-(x - 100) * 0.3 / 60, (y - 100) * 0.3 / 60))
    h = header(n, 60.0, 30.0, pointing=(60.02, 30.01))
    ones = write(s, "o.fits", h, np.ones((n, n)))
    _, _, weight, _ = joined(s, "-pb", s.path("beam.fits"), "-rms", "equal", ones)
    e, north, _ = offsets(*sky(h, n), 60.02, 30.01)
    off = np.abs(weight - beam(e, north)**2).max()
    s.must(off < 2e-3, "a beam of two axes on the sky is off by %.1e" % off)
    g = dict(CTYPE1="GLON-SIN", CTYPE2="GLAT-SIN")
    _, _, weight, _ = joined(s, *PB, "-rms", "equal", write(s, "g.fits", header(n, 60.0, 30.0, pointing=(60.05, 30.0), **g), np.ones((n, n))))
    s.must(np.unravel_index(weight.argmax(), weight.shape) == (32, 32), "OBSRA and OBSDEC are not galactic")
    for says, words in (("OBSRA", [write(s, "w%d.fits" % k, header(n, 60.0, 30.0), np.ones((n, n))) for k in (0, 1)]),
                        ("sees no pixel", [ones, write(s, "w2.fits", header(n, 60.0, 30.0, pointing=(61.0, 30.0)), np.ones((n, n)))])):
        done = launch(s, "-overwrite", *PB, "-rms", "equal", "-name", "m", *words)
        s.must(done.returncode == 0 and says in done.stderr and "noise 1" not in done.stdout + done.stderr, "warns: %s" % done.stderr)
    s.must(not fits.getheader(os.path.join(s.out, "m-noise.fits")).get("BUNIT", "").strip(), "equal noise has no unit")
    pixel = np.random.default_rng(5).standard_normal((n, n))
    for k, pol in enumerate((-1, -2)):
        vla = header(n, 60.0, 30.0, TELESCOP="EVLA", CTYPE4="STOKES", CRVAL4=pol, CDELT4=1, CRPIX4=1, CUNIT4="")
        write(s, "v%d.fits" % k, vla, pixel[None, None])
        _, image, weight, _ = joined(s, "-pb", "vla-squint", "-rms", "equal", s.path("v%d.fits" % k))
        # R and L are 1.21 arcmin GHz from the pointing, and the beam is 42 arcmin GHz wide.
        s.must(abs(weight.max() - np.exp(-2 * LN16 * (1.21 / 42)**2)) < 5e-4, "feeds of the VLA: %.4f" % weight.max())
    half = np.where(x[:n, :n] < 40, 1.0, 0.0)
    write(s, "h-pb.fits", h, half)
    _, _, _, noise = joined(s, "-corrected", "-pb-images", "*-pb.fits", write(s, "h-image.fits", h, pixel))
    s.must(abs(np.nanmin(noise) / noise_of(pixel[:, :40].astype(np.float32)) - 1) < 1e-5, "the noise is measured where the beam sees")


def check_cubes(s):
    """Cubes are joined plane by plane, each with its own frequency, beams and noise; a plane without values stays empty."""
    g, n, freqs = np.random.default_rng(3), 48, 1.4e9 + 5e7 * np.arange(3)
    pointings = ((60.0, 30.0), (60.08, 30.0))
    cubes = [(k + 1) * g.standard_normal((3, n, n)).astype(np.float32) for k in range(2)]
    cubes[0][2] = cubes[1][2] = np.nan
    beams = [(50, 40, 10), (48, 39, 10), (0, 0, 0)]
    for k, p in enumerate(pointings):
        h = header(n, 60.04, 30.0, pointing=p, freqs=freqs, step=5e7, SPECSYS="LSRK", RESTFRQ=1.42e9, CASAMBM=True)
        write(s, "q%d-image.fits" % k, h, cubes[k], beams)
        for c in range(2):
            one = header(n, 60.04, 30.0, pointing=p, freqs=freqs[c:], step=5e7)
            write(s, "q%d%d-image.fits" % (k, c), one, cubes[k][c])
    head, image, weight, _ = joined(s, *PB, s.path("q0-image.fits"), s.path("q1-image.fits"))
    with fits.open(os.path.join(s.out, "m-image.fits")) as f:
        table = [tuple(float(v) for v in row[:3]) for row in f["BEAMS"].data]
    s.must(image.shape[0] == 3 and np.isnan(image[2]).all() and (weight[2] == 0).all(), "three planes, and the last is empty")
    s.must(head["SPECSYS"] == "LSRK" and head["CDELT3"] == 5e7 and head["CRVAL3"] == 1.4e9 and np.allclose(table, [beams[0], beams[1], beams[1]], rtol=1e-6),
           "axis and beams of the cube, an empty plane with the beam of its neighbour: %s" % table)
    for c in range(2):
        _, one, of_one, _ = joined(s, *PB, *(s.path("q%d%d-image.fits" % (k, c)) for k in (0, 1)))
        s.must(np.array_equal(one, image[c], equal_nan=True) and np.array_equal(of_one, weight[c]), "plane %d is that of single images" % c)


def check_refusals(s):
    h = header(32, 60.0, 30.0)
    good, ramp = write(s, "good.fits", h, np.arange(1024.0).reshape(32, 32)), np.arange(1024.0).reshape(32, 32)
    other = {"unit": header(32, 60.0, 30.0, unit="K"), "frame": header(32, 60.0, 30.0), "far": header(32, 80.0, 0.0), "proj": header(32, 60.0, 30.0, projection="CAR"),
             "freq": header(32, 60.0, 30.0, freqs=(2e9,)), "bare": header(32, 60.0, 30.0, beam=None)}
    other["frame"]["RADESYS"] = "FK5"
    for name, head in other.items():
        write(s, name + ".fits", head, ramp)
    write(s, "mirror.fits", header(32, 60.0, 30.0, CDELT1=10 * ASEC), ramp)
    for frame in "LSRK", "BARYCENT":
        write(s, frame + ".fits", header(32, 60.0, 30.0, SPECSYS=frame), np.stack((ramp, ramp)))
    write(s, "zero.fits", h, np.zeros((32, 32)))
    write(s, "pols.fits", header(32, 60.0, 30.0, CTYPE3="STOKES", CRVAL3=1, CDELT3=1, CUNIT3=""), np.zeros((2, 32, 32)))
    with open(s.path("none.fits"), "wb") as f:
        f.write(b"no FITS")
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    off = ("-pb", "off", "-name", "r")
    for code, says, words in (
            (2, "no image given", off), (2, "no such option", ("-nonsense", good)), (2, "-pb nonsense", ("-pb", "nonsense", good)),
            (2, "-size 7", ("-size", 7, 7, good)), (2, "-pblimit 1", ("-pblimit", 1, good)), (2, "give one noise for each", (*off, "-rms", "1,2", good)),
            (2, "-rms 0: a noise must be positive", (*off, "-rms", "0", good)), (2, "-restoring-beam all", ("-restoring-beam", "all", good)),
            (2, "give one of them", ("-pb", "off", "-pb-images", "x.fits", good)), (2, "its name up to its last dash|up to its last dash", ("-pb-images", "*-pb.fits", good)),
            (3, "not a FITS file", (*off, good, s.path("none.fits"))), (3, "No such file", (*off, s.path("absent.fits"))), (3, "the unit is 'K'", (*off, good, s.path("unit.fits"))),
            (3, "directions are in", (*off, good, s.path("frame.fits"))), (3, "beyond the horizon|more than 131072 pixels|has no part|no part of it", (*off, "-size", 64, 64, good, s.path("far.fits"))),
            (3, "projection RA---CAR", (*off, s.path("proj.fits"))), (3, "plane 0 is at 2000 MHz", (*off, good, s.path("freq.fits"))), (3, "its noise is unknown: give -rms", (*off, good, s.path("zero.fits"))),
            (3, "one polarisation", (*off, s.path("pols.fits"))), (3, "no model of the primary beam", ("-name", "r", good)),
            (2, "the unit of", (*off, "-rms", "2mJy", s.path("unit.fits"))), (2, "names of antennas", ("-pb", s.path("x.json"), "-name", "r", good)),
            (3, "mirrored", (*off, "-beam-shape", "60asec", "60asec", "0deg", s.path("mirror.fits"))),
            (3, "frequencies are in the frame", (*off, s.path("LSRK.fits"), s.path("BARYCENT.fits"))),
            (3, "too few pixels", ("-corrected", "-pb-images", s.path("zero.fits"), "-name", "r", good)),
            (3, "has no beam", (*off, "-restoring-beam", "common", good, s.path("bare.fits"))), (3, "must have the pixels", ("-pb-images", s.path("far.fits"), "-name", "r", good)),
            (4, "absent", ("-pb", "off", "-name", "absent/r", good)), (5, "memory|limit", (*off, "-size", 4000, 4000, "-scale", "10asec", "-abs-mem", 1e-2, good))):
        done = launch(s, "-quiet", *words)
        done.stderr = done.stderr.replace("msimage-mosaic:", "msimage:")
        s.judge_refusal(" ".join(str(w) for w in words), done, code, says)
    kept = write(s, "out/r-image.fits", h, ramp)
    s.must(launch(s, "-name", "r", "-overwrite", "-pb-images", kept, good).returncode == 2, "an output that is an image of a beam is kept")
    s.must(launch(s, *off, good).returncode == 2 and launch(s, *off, "-overwrite", kept).returncode == 2 and os.listdir(s.out) == ["r-image.fits"],
           "an output that exists, or is an input, is kept")


main(ImagingSuite, globals())
