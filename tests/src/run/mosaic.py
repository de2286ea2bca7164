#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mosaics, on sets of several pointings whose visibilities are sums in double over sources that are attenuated by a
Gaussian or an Airy pattern about each pointing. mosaic.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import mpi_job
from program_suite import ImagingSuite, fresh_copy, main, run, skip_without_modules

skip_without_modules("numpy", "astropy.io.fits", "casacore.tables")
import numpy as np
from astropy.io import fits
from casacore.tables import table

C = 299792458.0
N, CELL = 320, np.radians(20 / 3600)
CENTRE = np.radians((60.0, 40.0))
SIZE = ("-size", N, N, "-scale", "%.12grad" % CELL)
SHIFT = ("-shift", "%.15grad" % CENTRE[0], "%.15grad" % CENTRE[1])
WIDTH = np.radians(20 / 60)  # at half power, at the first frequency
GAUSS = ("-pb", "gauss:20amin@1.4GHz")
FREQ = 1.4e9 + 1e6 * np.arange(3)
# The pointings, in half widths to the west and the north: a cross, and one alone.
POINTINGS = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (2.2, 1.6))


def sky(x, y):
    """Right ascension and declination of a pixel."""
    l, m = (N / 2 - np.asarray(x, float)) * CELL, (np.asarray(y, float) - N / 2) * CELL
    n, (ra, dec) = np.sqrt(1 - l * l - m * m), CENTRE
    return ra + np.arctan2(l, n * np.cos(dec) - m * np.sin(dec)), np.arcsin(m * np.cos(dec) + n * np.sin(dec))


def lmn(ra, dec, centre):
    d, c = ra - centre[0], centre[1]
    return np.array([np.cos(dec) * np.sin(d), np.sin(dec) * np.cos(c) - np.cos(dec) * np.sin(c) * np.cos(d),
                     np.sin(dec) * np.sin(c) + np.cos(dec) * np.cos(c) * np.cos(d)])


def gauss(hz, angle):
    return np.exp(-4 * np.log(2) * (angle / (WIDTH * FREQ[0] / hz))**2)


POINTED = [sky(N / 2 + a * WIDTH / 2 / CELL, N / 2 + b * WIDTH / 2 / CELL) for a, b in POINTINGS]


class Sources:
    """Sources on pixels: none near another, all where a field sees a good part of them."""

    def __init__(self, n=14, polarised=False):
        g = np.random.default_rng(7)
        self.at = []
        while len(self.at) < n:
            x, y = (int(v) for v in g.integers(20, N - 20, 2))
            seen = max(self.angles(x, y) < 0.62 * WIDTH)
            if seen and all(np.hypot(x - a, y - b) > 9 for a, b in self.at):
                self.at.append((x, y))
        self.flux = g.uniform(0.5, 2, n)
        self.share = np.concatenate([np.ones((n, 1)), g.uniform(-0.3, 0.3, (n, 3)) * polarised], axis=1)
        self.index = np.zeros(n)  # of the flux at 1.5 GHz

    @staticmethod
    def angles(x, y):
        ra, dec = sky(x, y)
        return np.array([np.arctan2(np.hypot(*lmn(ra, dec, p)[:2]), lmn(ra, dec, p)[2]) for p in POINTED])


def make(s, name, sources, beam=gauss, pols="XX,YY", noise=0, telescope=None, freq=FREQ, size=None):
    """A set of all pointings, with the sources in DATA."""
    fields = [w for p in POINTED[1:] for w in ("-field", "%.15grad" % p[0], "%.15grad" % p[1])]
    made = s.made("made%d%d.ms" % (len(pols), len(freq)), "-telescope", "vla", "-config", "D", "-duration", "3h", "-integration", "3min", "-ra",
                  "%.15grad" % POINTED[0][0], "-dec", "%.15grad" % POINTED[0][1], *fields, "-scan-length", "1", "-pol", pols,
                  "-spw", "%.9gHz" % freq[0], "%.9gHz" % (freq[1] - freq[0]), len(freq))
    path = fresh_copy(made, s.path(name))
    with table(path + "/FIELD", ack=False) as t:
        centres = t.getcol("PHASE_DIR")[:, 0]
    with table(path, readonly=False, ack=False) as t:
        uvw, field, data = t.getcol("UVW"), t.getcol("FIELD_ID"), np.zeros_like(t.getcol("DATA"), dtype=complex)
        for i, centre in enumerate(centres):
            rows = np.flatnonzero(field == i)
            for (x, y), flux, share, index in zip(sources.at, sources.flux, sources.share, sources.index):
                d = lmn(*sky(x, y), centre)
                angle = np.arctan2(np.hypot(d[0], d[1]), d[2])
                i_, q, u, v = share * flux
                corr = np.array([i_ + q, u + 1j * v, u - 1j * v, i_ - q])[[0, 1, 2, 3] if len(pols) > 5 else [0, 3]]
                for c, hz in enumerate(freq):
                    wave = np.exp(2j * np.pi * hz / C * (uvw[rows] @ (d - [0, 0, 1])))
                    data[rows, c] += beam(hz, angle) * (hz / 1.5e9)**index * wave[:, None] * corr
        if noise:
            g = np.random.default_rng(2)
            data += noise * (g.standard_normal(data.shape) + 1j * g.standard_normal(data.shape))
        t.putcol("DATA", data.astype(np.complex64))
    return path


def one_kind(s, path, *words):
    done = s.launch("-quiet", "-overwrite", "-mosaic", "-name", "m", *SIZE, *words, path)
    s.must(done.returncode == 0, "runs: -mosaic %s%s" % (" ".join(str(w) for w in words), done.stderr[-800:]))


def pixels(s, kind, name="m"):
    return fits.getdata(os.path.join(s.out, "%s-%s.fits" % (name, kind))).squeeze()


def angles_from(centre):
    """The angle of each pixel from a pointing."""
    y, x = np.mgrid[:N, :N]
    ra, dec = sky(x, y)
    d = lmn(ra, dec, centre)
    return np.arctan2(np.hypot(d[0], d[1]), d[2])


def beams(hz, reach=2):
    """The mean response of each pointing over frequencies; 0 beyond the widths to which Gaussians are followed."""
    out = []
    for p in POINTED:
        a = angles_from(p)
        out.append(np.where(a <= reach * WIDTH, np.mean([gauss(f, a) for f in hz], axis=0), 0))
    return np.array(out)


def check_dirty(s):
    """The response and the image at chosen pixels, by their definition."""
    path = make(s, "dirty.ms", Sources())
    one_kind(s, path, *GAUSS, *SHIFT, "-weight", "natural", "-accuracy", 1e-5, "-make-psf", "-pblimit", -1)
    with table(path, ack=False) as t:
        uvw, field, data = t.getcol("UVW"), t.getcol("FIELD_ID"), t.getcol("DATA").mean(axis=2)
    with table(path + "/FIELD", ack=False) as t:
        centres = t.getcol("PHASE_DIR")[:, 0]
    count = np.bincount(field)
    p = beams(FREQ)
    total = np.tensordot(count / count.sum(), p**2, 1)
    response = np.sqrt(total / total.max())
    pb = pixels(s, "pb")
    off = np.nanmax(np.abs(pb - response))
    s.must(off < 2e-4, "the response is off by %.1e" % off)
    gridded = fits.getheader(os.path.join(s.out, "m-image.fits"))["WSCIMGWG"]
    off = np.abs(pixels(s, "weight") / gridded - total).max(), abs(pixels(s, "sumwt") / gridded - 1)
    s.must(max(off) < 4e-4, "the weight and its sum are off by %.1e, %.1e" % off)
    unseen = total == 0
    s.must((np.isnan(pb) == unseen).mean() > 0.999 and np.isnan(pixels(s, "image"))[unseen].mean() > 0.99, "NaN where no field sees")
    g, image, worst, peak = np.random.default_rng(4), pixels(s, "image"), 0, np.nanmax(pixels(s, "image"))
    for x, y in [tuple(g.integers(30, N - 30, 2)) for _ in range(40)] + Sources().at[:6]:
        value = 0
        for i, centre in enumerate(centres):
            rows = field == i
            turns = (uvw[rows] @ (lmn(*sky(x, y), centre) - [0, 0, 1]))[:, None] * FREQ / C
            value += p[i, y, x] * (data[rows] * np.exp(-2j * np.pi * turns)).real.sum()
        if total[y, x] > 1e-3 * total.max():
            value /= len(FREQ) * count.sum() * np.sqrt(total[y, x] * total.max())
            worst = max(worst, abs(image[y, x] - value))
    s.must(worst < 3e-4 * peak, "pixels are off their definition by %.1e of the peak" % (worst / peak))
    corrected = pixels(s, "pbcor")
    ok = response > 0.05
    off = np.abs(corrected * response - image)[ok].max() / peak
    s.must(off < 1e-3, "the corrected image times the response is the image: off by %.1e" % off)


def fluxes(s, kind, sources):
    """The largest error of the sources' fluxes at their pixels."""
    image = pixels(s, kind)
    return max(abs(image[y, x] / f - 1) for (x, y), f in zip(sources.at, sources.flux))


def check_clean(s):
    """Fields are cleaned together: fluxes, MODEL_DATA, a flat noise; the same by two sets of the fields."""
    sources = Sources()
    path = make(s, "clean.ms", sources, noise=0)
    clean = ("-niter", 4000, "-threshold", "1mJy", "-mgain", 0.7, "-weight", "briggs", 0)
    one_kind(s, path, *GAUSS)
    header = fits.getheader(os.path.join(s.out, "m-image.fits"))
    mean = np.mean([lmn(*p, (0, 0)) for p in POINTED], axis=0)
    off = np.hypot(header["CRVAL1"] - np.degrees(np.arctan2(mean[0], mean[2])),
                   header["CRVAL2"] - np.degrees(np.arcsin(mean[1] / np.linalg.norm(mean))))
    s.must(off < 1e-3, "the centre is the mean direction: off by %.1e degrees" % off)
    one_kind(s, path, *GAUSS, *clean, *SHIFT)
    off = fluxes(s, "pbcor", sources)
    s.must(off < 2e-3, "about -shift fluxes are off by at most %.1e" % off)
    whole = pixels(s, "image")
    with table(path, ack=False) as t:
        data, model = t.getcol("DATA"), t.getcol("MODEL_DATA")
    off = np.sqrt((np.abs(data - model)**2).mean() / (np.abs(data)**2).mean())
    s.must(off < 0.01, "MODEL_DATA is the data to %.1e of their rms" % off)
    parts = []
    for i in (0, 1):
        parts.append(s.path("part%d.ms" % i))
        with table(path, ack=False) as t:
            t.query("FIELD_ID %% 2 == %d" % i).copy(parts[-1], deep=True).close()
    done = s.launch("-quiet", "-overwrite", "-mosaic", "-name", "two", *SIZE, *GAUSS, *clean, *SHIFT, "-no-update-model-required", *parts)
    s.must(done.returncode == 0, "two sets%s" % done.stderr[-800:])
    off = np.nanmax(np.abs(pixels(s, "image", "two") - whole)) / np.nanmax(whole)
    s.must(off < 2e-3, "two sets of the fields make the image of one: off by %.1e" % off)


def check_cells(s):
    """Fields of other hours have other PSFs. A component in the middle of a cell of -dd-psf-grid leaves nothing of its source, in flat noise;
    where no field sees the middle of a cell, it has the PSF of all samples."""
    sources = Sources(n=1)
    sources.at, sources.flux = [(N // 2, N // 2)], np.ones(1)
    path = make(s, "cells.ms", sources)
    with table(path, readonly=False, ack=False) as t:
        field, flag = t.getcol("FIELD_ID"), t.getcol("FLAG")
        n = len(field)
        for i in range(len(POINTED)):
            rows = np.flatnonzero(field == i)
            flag[rows[:len(rows) // 2] if i % 2 else rows[len(rows) // 2:]] = True
        t.putcol("FLAG", flag)
    one = ("-niter", 1, "-gain", 1, "-mgain", 1, "-skip-final-iteration", "-weight", "natural", "-accuracy", 1e-5, "-no-update-model-required")
    left = []
    for grid in ((), ("-dd-psf-grid", 3, 3)):
        one_kind(s, path, *GAUSS, *SHIFT, *one, *grid)
        rest = np.abs(pixels(s, "residual")) / np.nanmax(pixels(s, "model"))
        left.append(np.nanmax(rest))
    s.must(left[0] > 1e-2 and left[1] < 1e-3, "one PSF leaves %.1e of a source, that of its cell %.1e" % tuple(left))


def check_noise(s):
    """The noise is that of all samples, wherever fields see."""
    path = make(s, "noise.ms", Sources(n=1), noise=1.0)
    one_kind(s, path, *GAUSS, *SHIFT, "-weight", "natural", "-niter", 50, "-auto-threshold", 5, "-pblimit", -1)
    residual, response = pixels(s, "residual"), pixels(s, "pb")
    total = np.tensordot(np.full(len(POINTED), 1 / len(POINTED)), beams(FREQ)**2, 1)
    with table(path, ack=False) as t:
        n = t.nrows() * len(FREQ)
    want = 1 / np.sqrt(2 * n * total.max())
    of = [residual[(response > a) & (response <= b)].std() / want for a, b in ((0.01, 0.3), (0.3, 0.7), (0.7, 1))]
    s.must(all(abs(v - 1) < 0.12 for v in of), "noise over what is expected, from the edge to the middle: %s" % np.round(of, 3))


def check_polarised(s):
    """IQUV of polarised sources."""
    sources = Sources(polarised=True)
    path = make(s, "iquv.ms", sources, pols="XX,XY,YX,YY")
    one_kind(s, path, *GAUSS, *SHIFT, "-pol", "IQUV", "-join-polarizations", "-niter", 4000, "-threshold", "1mJy", "-no-update-model-required",
             "-mgain", 0.7)
    for k, pol in enumerate("IQUV"):
        image = pixels(s, pol + "-pbcor")
        off = max(abs(image[y, x] - f * share[k]) / f for (x, y), f, share in zip(sources.at, sources.flux, sources.share))
        s.must(off < 3e-3, "%s is off by %.1e of I" % (pol, off))


def check_channels(s):
    """Joined channels of a wide band: each has its own beams."""
    sources, freq = Sources(), np.array([1.4e9, 1.8e9])
    path = make(s, "wide.ms", sources, freq=freq)
    one_kind(s, path, *GAUSS, *SHIFT, "-channels-out", 2, "-join-channels", "-niter", 4000, "-threshold", "1mJy", "-mgain", 0.7, "-pblimit", 0.1,
             "-no-update-model-required", "-apply-primary-beam")
    parts = [pixels(s, "%s-weight" % c) for c in ("0000", "0001", "MFS")]
    s.must(np.allclose(parts[0] + parts[1], parts[2], rtol=1e-6) and parts[1].max() > 0, "the weight of all channels is the sum of theirs")
    for kind in ("0000-pbcor", "0001-pbcor", "MFS-pbcor", "MFS-image-pb"):
        image = pixels(s, kind)
        off = [abs(image[y, x] / f - 1) for (x, y), f in zip(sources.at, sources.flux) if np.isfinite(image[y, x])]
        s.must(len(off) > 8 and max(off) < 5e-3, "%s: %d fluxes are off by at most %.1e" % (kind, len(off), max(off)))


def check_terms(s):
    """Taylor terms of a wide band, seen through beams that change with frequency: terms and alpha are those of the
    least-squares polynomial of the sky, with weights times the squares of the beams; MODEL_DATA is the data."""
    sources, freq = Sources(), np.linspace(1.25e9, 1.75e9, 4)
    sources.index = np.random.default_rng(5).uniform(-1.5, 1, len(sources.at))
    path = make(s, "terms.ms", sources, freq=freq)
    mask = np.zeros((N, N), np.float32)
    for x, y in sources.at:
        mask[y, x] = 1
    cards = {"CTYPE1": "RA---SIN", "CRPIX1": N // 2 + 1, "CRVAL1": np.degrees(CENTRE[0]), "CDELT1": -np.degrees(CELL), "CUNIT1": "deg",
             "CTYPE2": "DEC--SIN", "CRPIX2": N // 2 + 1, "CRVAL2": np.degrees(CENTRE[1]), "CDELT2": np.degrees(CELL), "CUNIT2": "deg"}
    fits.PrimaryHDU(mask, fits.Header(cards)).writeto(s.path("terms.fits"), overwrite=True)
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    line = ("-weight", "natural", "-deconvolver", "mtmfs", "-nterms", 2, "-reffreq", "1.5GHz", "-niter", 20000, "-gain", 0.3, "-threshold", "1mJy", "-mgain",
            0.9, "-pblimit", 0.1, "-fits-mask", s.path("terms.fits"))
    x = freq / 1.5e9 - 1
    powers = np.vander(x, 2, increasing=True)
    for rule in (), ("-multiscale", "-multiscale-scales", "0", "-multiscale-rule", "tclean"):
        one_kind(s, path, *GAUSS, *SHIFT, *line, *rule)
        off, term, alpha = [], [pixels(s, "tt%d-pbcor" % t) for t in range(2)], pixels(s, "alpha")
        for (i, j), flux, index in zip(sources.at, sources.flux, sources.index):
            weight = np.sqrt([np.sum(gauss(hz, sources.angles(i, j))**2) for hz in freq])
            wanted = np.linalg.lstsq(powers * weight[:, None], flux * (freq / 1.5e9)**index * weight, rcond=None)[0]
            if np.isfinite(term[0][j, i]):
                off.append([term[0][j, i] / wanted[0] - 1, alpha[j, i] - wanted[1] / wanted[0]])
        off = np.abs(off).max(axis=0)
        s.must(off[0] < 2e-3 and off[1] < 0.01, "tt0 is off by at most %.1e of the flux, alpha by %.1e" % tuple(off))
        s.must(np.isfinite(alpha[[j for i, j in sources.at], [i for i, j in sources.at]]).sum() > 10, "alpha of most sources")
        response = [pixels(s, "tt%d-pb" % t) for t in range(2)]
        s.must(abs(np.nanmax(response[0]) - 1) < 1e-6 and np.nanmax(np.abs(response[1])) == 0, "the response does not depend on frequency")
        with table(path, ack=False) as t:
            data, model = t.getcol("DATA"), t.getcol("MODEL_DATA")
        off = np.sqrt((np.abs(data - model)**2).mean() / (np.abs(data)**2).mean())
        s.must(off < 0.02, "MODEL_DATA is the data to %.1e of their rms" % off)


def check_half_band(s):
    """A field that lacks half of a band leaves the response as others see it: finite where they see, and largest near a pointing."""
    path = make(s, "half.ms", Sources(n=1), freq=np.linspace(1.1e9, 1.9e9, 4))
    with table(path, readonly=False, ack=False) as t:
        flag, field = t.getcol("FLAG"), t.getcol("FIELD_ID")
        flag[field == 5, :2] = True
        t.putcol("FLAG", flag)
    one_kind(s, path, *GAUSS, *SHIFT, "-weight", "natural", "-deconvolver", "mtmfs", "-nterms", 2, "-reffreq", "1.5GHz", "-niter", 1,
             "-no-update-model-required", "-pblimit", 0.05)
    pb, seen = pixels(s, "tt0-pb"), np.sqrt((beams([1.9e9])[:5]**2).sum(axis=0))
    s.must(np.isfinite(pb[seen > 0.2]).all(), "the response is finite where the other fields see all of the band")
    middle = pb[N // 2, N // 2]
    s.must(abs(np.nanmax(pb) - 1) < 1e-6 and middle > 0.9, "the largest response is %g, the middle's %.3f" % (np.nanmax(pb), middle))


def check_weights(s):
    """Densities of each field are those of its images; one density of all fields is that of an image of all."""
    path = make(s, "weights.ms", Sources())
    weigh = ("-weight", "briggs", 0, *SHIFT, *SIZE)
    key, total = "WSCIMGWG", 0
    for i in range(len(POINTED)):
        s.launch("-quiet", "-overwrite", "-name", "f", "-field", i, *weigh, path)
        total += fits.getheader(os.path.join(s.out, "f-image.fits"))[key]
    one_kind(s, path, *GAUSS, *weigh)
    own = fits.getheader(os.path.join(s.out, "m-image.fits"))[key]
    s.must(abs(own / total - 1) < 1e-6, "sum of weights by fields: %.7g, by images of fields %.7g" % (own, total))
    one_kind(s, path, *GAUSS, *weigh, "-no-mosweight")
    shared = fits.getheader(os.path.join(s.out, "m-image.fits"))[key]
    s.launch("-quiet", "-overwrite", "-name", "f", "-field", "all", *weigh, path)
    total = fits.getheader(os.path.join(s.out, "f-image.fits"))[key]
    s.must(abs(shared / total - 1) < 1e-6 and abs(shared / own - 1) > 0.01, "with -no-mosweight: %.7g, by an image of all %.7g" % (shared, total))


def check_empty(s):
    """An interval without rows has images of NaN and no weight."""
    path = make(s, "empty.ms", Sources(n=1))
    with table(path, ack=False) as t:
        middle = t.getcol("TIME").mean()
    one_kind(s, path, *GAUSS, *SHIFT, "-intervals-out", 2, "-taql", "TIME < %.3f" % middle)
    s.must(np.isfinite(pixels(s, "t0000-image")).any() and not np.isfinite(pixels(s, "t0001-image")).any(), "images of both intervals")
    s.must(pixels(s, "t0000-weight").max() > 0 and not pixels(s, "t0001-weight").any(), "weights of both intervals")


def check_workers(s):
    """Fields that are made at the same time, by threads, or by ranks which have some fields each."""
    sources = Sources()
    path = make(s, "workers.ms", sources)
    words = (*GAUSS, *SHIFT, "-niter", 300, "-threshold", "1mJy", "-mgain", 0.7, "-weight", "briggs", 0, "-no-update-model-required")
    kinds = ("image", "residual", "psf", "pb")
    one_kind(s, path, *words, "-j", 1)
    one = [pixels(s, kind) for kind in kinds]
    one_kind(s, path, *words, "-j", 6)
    s.must(all(np.array_equal(a, pixels(s, kind), equal_nan=True) for a, kind in zip(one, kinds)), "three fields at a time: the same to the last bit")
    if not os.path.exists(os.path.join(os.path.dirname(s.msimage), "msimage-mp")):
        print("msimage-mp is not built: not tried")
        return
    mp, seen = mpi_job.program(s.msimage), []
    for n in (2, 2, 3):
        done = mpi_job.run(n, mp, "-overwrite", "-mosaic", "-name", "m", *SIZE, *words, "-j", 1, path, cwd=s.out)
        s.must(done.returncode == 0 and "each rank has some of them" in done.stderr, "%d ranks%s" % (n, done.stderr[-400:]))
        seen.append([pixels(s, kind) for kind in kinds])
    off = max(np.nanmax(np.abs(a - b)) / np.nanmax(np.abs(one[0])) for several in seen for a, b in zip(one, several))
    s.must(off < 1e-5, "two and three ranks are off by %.1e of the peak" % off)
    s.must(all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*seen[:2])), "two ranks repeat themselves to the last bit")


def check_joined(s):
    """msimage-mosaic makes the same image of images of the fields."""
    path = make(s, "joined.ms", Sources())
    one_kind(s, path, *GAUSS, *SHIFT, "-weight", "natural")
    program = os.path.join(os.path.dirname(s.msimage), "msimage-mosaic")
    weight = []
    for i in range(len(POINTED)):
        s.launch("-quiet", "-overwrite", "-name", "f%d" % i, "-field", i, *SHIFT, *SIZE, "-weight", "natural", path)
        weight.append(fits.getheader(os.path.join(s.out, "f%d-image.fits" % i))["WSCIMGWG"])
    run(program, "-quiet", "-overwrite", *GAUSS, "-rms", ",".join("%.9g" % w**-0.5 for w in weight), "-name", "j",
        *("f%d-image.fits" % i for i in range(len(POINTED))), cwd=s.out)
    joint, joined, response = pixels(s, "pbcor"), pixels(s, "image", "j"), pixels(s, "pb")
    weight = pixels(s, "weight", "j")
    good = np.isfinite(joint) & np.isfinite(joined)
    off = np.abs(joint - joined)[good].max() / joint[good].max(), np.abs(np.sqrt(weight / weight.max()) - response)[good].max()
    s.must(max(off) < 3e-4 and good.sum() > 0.999 * np.isfinite(joint).sum(), "image and response of msimage-mosaic and of -mosaic differ by %.1e, %.1e" % off)


def check_refusals(s):
    path = make(s, "refused.ms", Sources(n=1))
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    mosaic = ("-mosaic", *GAUSS, "-name", "r", *SIZE)
    s.refused("facets", 2, "-mosaic: it cannot be used with -facet", *mosaic, "-facet-auto", 3, path)
    s.refused("grid-with-beam", 2, "-mosaic: it cannot be used with -grid-with-beam", *mosaic, "-niter", 1, "-grid-with-beam", path)
    s.refused("no beam", 2, "-mosaic: -pb off", "-mosaic", "-pb", "off", "-name", "r", *SIZE, path)
    s.refused("intervals", 2, "-shift", *mosaic, "-intervals-out", 2, path)
    s.refused("far away", 3, "no selected field sees the image", *mosaic, "-shift", "10h0m0s", "0d", path)
    s.refused("no such field", 3, "-shift field 9: .* has the fields 0 to", *mosaic, "-shift", "field", 9, path)
    s.refused("cells of terms", 2, "-mosaic: Taylor terms have one PSF", *mosaic, "-dd-psf-grid", 3, 3, "-niter", 1, "-deconvolver", "mtmfs", path)
    s.refused("cross hands", 2, "give -pol IQUV", *mosaic, "-pol", "XY", path)
    s.refused("predict", 2, "-mosaic", "-predict", *mosaic, path)


def check_tclean(s):
    """gridder='mosaic' of tclean."""
    path = make(s, "tclean.ms", Sources(n=3))
    done = s.launch("-quiet", "-overwrite", "-pb", "gauss:20amin@1.4GHz", "-tclean",
                    "tclean(vis='%s', imagename='t', imsize=[%d], cell='30arcsec', gridder='mosaic', mosweight=False, "
                    "pblimit=0.1, niter=0)" % (path, N))
    s.must(done.returncode == 0 and os.path.exists(os.path.join(s.out, "t-pbcor.fits")), "runs%s" % done.stderr[-500:])
    pb = pixels(s, "pb", "t")
    s.must(0.1 < np.nanmin(pb) < 0.12, "pblimit: the least response is %.3f" % np.nanmin(pb))


# A hexagon of 37 pointings, half a width apart, in widths to the west and the north.
HEXAGON = [((a + b / 2) / 2, b * np.sqrt(0.75) / 2) for b in range(-3, 4) for a in range(max(-3, -3 - b), min(3, 3 - b) + 1)]


def wide_visibilities(uvw, hz, total, at, width, beam_width):
    """A Gaussian of a total flux and width (at half power) about (l, m), seen through a Gaussian beam: products and transforms of Gaussians."""
    s2, b2 = (width**2 / (8 * np.log(2)) for width in (width, beam_width))
    both = s2 * b2 / (s2 + b2)
    uv = uvw[:, :2] * hz / C
    return total * both / s2 * np.exp(-(at @ at) / (2 * (s2 + b2)) - 2 * np.pi**2 * both * (uv**2).sum(axis=1) + 2j * np.pi * both / s2 * (uv @ at))


def check_many(s, n=N, visits=4):
    """37 fields, 300 sources, half of them between pointings, and emission over six fields, in noise: fluxes to 20 % of the beam."""
    scale = n // N
    cell, size = CELL / scale, ("-size", n, n, "-scale", "%.12grad" % (CELL / scale))
    step = WIDTH / cell
    centre = [(n / 2 + a * step, n / 2 + b * step) for a, b in HEXAGON]
    place = lambda x, y: sky(np.asarray(x) / scale, np.asarray(y) / scale)
    pointed = [place(x, y) for x, y in centre]
    fields = [w for p in pointed[1:] for w in ("-field", "%.15grad" % p[0], "%.15grad" % p[1])]
    path = s.made("many%d.ms" % n, "-telescope", "vla", "-config", "D", "-duration", "%dmin" % (37 * visits), "-integration", "1min", "-ra",
                  "%.15grad" % pointed[0][0], "-dec", "%.15grad" % pointed[0][1], *fields, "-scan-length", "1", "-pol", "XX,YY", "-spw",
                  "%.9gHz" % FREQ[0], "%.9gHz" % 20e6, 2)
    hz = FREQ[0] + 20e6 * np.arange(2)
    g, at = np.random.default_rng(11), []
    while len(at) < 300:
        x, y = (int(v) for v in g.integers(20, n - 20, 2))
        far = min(np.hypot(x - a, y - b) for a, b in centre) / step
        kind = len(at) % 10
        if (0.22 < far < 0.29 if kind % 2 else 0.5 < far < 0.8 if kind == 0 else far < 0.2) and all(np.hypot(x - a, y - b) > 5 * scale for a, b in at):
            at.append((x, y))
    flux = g.uniform(0.3, 1.5, 300)
    wide, extent = (place(n / 2 + 0.1 * step, n / 2 - 0.3 * step), 15.0), np.radians(10 / 60)
    noise = 0.05
    with table(path + "/FIELD", ack=False) as t:
        pointed = t.getcol("PHASE_DIR")[:, 0]
    with table(path, readonly=False, ack=False) as t:
        uvw, field, data = t.getcol("UVW"), t.getcol("FIELD_ID"), np.zeros_like(t.getcol("DATA"), dtype=complex)
        count = np.bincount(field)
        for i, p in enumerate(pointed):
            rows = np.flatnonzero(field == i)
            d = np.array([lmn(*place(x, y), p) for x, y in at])
            angle = np.arctan2(np.hypot(d[:, 0], d[:, 1]), d[:, 2])
            seen = angle < 2 * WIDTH
            for c, f in enumerate(hz):
                turns = uvw[rows] @ (d[seen] - [0, 0, 1]).T * f / C
                v = np.exp(2j * np.pi * turns) @ (flux[seen] * gauss(f, angle[seen]))
                v += wide_visibilities(uvw[rows], f, wide[1], lmn(*wide[0], p)[:2], extent, WIDTH * FREQ[0] / f)
                data[rows, c] = v[:, None]
        data += noise * (g.standard_normal(data.shape) + 1j * g.standard_normal(data.shape))
        t.putcol("DATA", data.astype(np.complex64))
    done = s.launch("-quiet", "-overwrite", "-mosaic", "-name", "m", *size, *GAUSS, *SHIFT, "-weight", "briggs", 0.5, "-niter", 100000, "-auto-threshold", 3, "-mgain", 0.8,
                    "-multiscale", "-multiscale-scales", "0,%d,%d,%d" % (8 * scale, 20 * scale, 36 * scale), "-pblimit", 0.2, "-no-update-model-required", "-auto-mask", 5, path)
    s.must(done.returncode == 0, "runs%s" % done.stderr[-800:])
    image, header = pixels(s, "pbcor"), fits.getheader(os.path.join(s.out, "m-image.fits"))
    y, x = np.mgrid[:n, :n]
    far = np.hypot(x - (n / 2 + 0.1 * step), y - (n / 2 - 0.3 * step)) * cell
    area = np.pi / (4 * np.log(2)) * np.radians(header["BMAJ"]) * np.radians(header["BMIN"])
    # The brightness of the wide source at the beam of the image.
    sharp = np.radians(header["BMAJ"]) * np.radians(header["BMIN"]) / extent**2
    of_wide = wide[1] * area / (np.pi / (4 * np.log(2)) * extent**2) / (1 + sharp) * np.exp(-4 * np.log(2) * far**2 / (extent**2 * (1 + sharp)))
    off = np.array([(image[b, a] - of_wide[b, a]) / f - 1 for (a, b), f in zip(at, flux)])
    good = np.isfinite(off)
    s.must(good.sum() > 270 and np.abs(off[good]).max() < 0.02, "%d fluxes to 20 %% of the beam are off by at most %.1e" % (good.sum(), np.abs(off[good]).max()))
    between = np.arange(300) % 2 == 1
    s.must(good[between].all() and np.sqrt((off[between]**2).mean()) < 0.005, "between pointings by %.1e rms" % np.sqrt((off[between]**2).mean()))
    # The shortest baselines see half of the wide source.
    inside = far < 1.2 * extent
    points = sum(f for (a, b), f in zip(at, flux) if inside[b, a])
    part = (np.nansum(image[inside]) * cell**2 / area - points) / (np.nansum(of_wide[inside]) * cell**2 / area)
    s.must(0.92 < part < 1.03, "%.3f of the flux of the wide source" % part)


def check_full(s):
    """The same with pixels half as wide and three times the samples. Only by its name: it takes half a minute of processor."""
    check_many(s, 2 * N, 12)


def check_gpu(s):
    """Fields on one GPU, and on several in turns, make the image of the CPU."""
    path = make(s, "gpu.ms", Sources())
    answer = s.launch("-quiet", "-dry-run", "-backend", "cuda", "-mosaic", *GAUSS, "-name", "g", *SIZE, path)
    if answer.returncode == 5:
        print("skipped: no GPU")
        sys.exit(77)
    s.must(answer.returncode == 0, "a dry run%s" % answer.stderr[-800:])
    seen = []
    for backend in (("-backend", "cpu"), ("-backend", "cuda"), ("-backend", "cuda", "-gpus", "0,0"), ("-backend", "cuda", "-gpus", "0,0")):
        for channels in (1, 2):
            one_kind(s, path, *GAUSS, *SHIFT, *backend, "-channels-out", channels, "-accuracy", 1e-5, "-niter", 300, "-threshold", "1mJy", "-mgain", 0.7, "-weight",
                     "briggs", 0, "-no-update-model-required")
            name = "m" if channels == 1 else "m-MFS"
            seen.append((pixels(s, "image", name), pixels(s, "residual", name)))
    for k in (2, 3, 4, 5):
        off = max(np.nanmax(np.abs(a - b)) for a, b in zip(seen[k % 2], seen[k])) / np.nanmax(seen[k % 2][0])
        s.must(off < 1e-4, "run %d is off that of the CPU by %.1e of the peak" % (k, off))
    s.must(all(np.array_equal(a, b, equal_nan=True) for k in (4, 5) for a, b in zip(seen[k], seen[k + 2])), "two workers repeat themselves to the last bit")


main(ImagingSuite, globals(), if_named=("gpu", "full"))
