#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images by facets, with and without solutions, against direct sums in double over the same Jones matrices, which are
made and written to H5Parm files here. facets.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
import mpi_job
from held_program import Held
from program_suite import ImagingSuite, fresh_copy, main, skip_without_modules

skip_without_modules("numpy", "astropy.io.fits", "casacore.tables", "h5py")
import h5py
import numpy as np
from astropy.io import fits
from casacore.tables import table

C = 299792458.0
N, CELL = 256, np.radians(30 / 3600)
CENTRE = np.radians((60.0, 44.0))
SIZE = ("-size", N, N, "-scale", "%.12grad" % CELL)
# Directions of the solutions and facets, in pixels from the centre to the west and the north.
DIRECTIONS = ((-60, -50), (55, -62), (-48, 66), (62, 58), (4, -6))
FREQ = 140e6 + 2e6 * np.arange(4)


def pixel_lm(x, y):
    return (N // 2 - np.asarray(x, float)) * CELL, (np.asarray(y, float) - N // 2) * CELL


def sky(l, m):
    """Right ascension and declination of l, m about the centre."""
    ra, dec = CENTRE
    n = np.sqrt(1 - l * l - m * m)
    up = n * np.cos(dec) - m * np.sin(dec)
    return ra + np.arctan2(l, up), np.arctan2(n * np.sin(dec) + m * np.cos(dec), np.hypot(l, up))


def direction_lm():
    return [pixel_lm(N // 2 + x, N // 2 + y) for x, y in DIRECTIONS]


def nearest(x, y):
    """The direction at the smallest angle from pixels."""
    l, m = pixel_lm(x, y)
    s = np.stack([l, m, np.sqrt(1 - l**2 - m**2)])
    d = [np.array([a, b, np.sqrt(1 - a * a - b * b)]) for a, b in direction_lm()]
    return np.argmin([((s - v.reshape(3, *([1] * (s.ndim - 1))))**2).sum(0) for v in d], axis=0)


def base_set(s, name="base.ms", *options):
    return s.made_at(name, np.degrees(CENTRE), ("-telescope", "vla", "-config", "D", "-duration", "1h", "-integration", "6min",
                                                "-spw", "140MHz", "2MHz", len(FREQ), *options))


class Rows:
    """The rows of a set, and its visibilities as 2 x 2 matrices."""

    def __init__(self, path):
        self.path = path
        with table(path, ack=False) as t:
            self.uvw, self.time = t.getcol("UVW"), t.getcol("TIME")
            self.p, self.q = t.getcol("ANTENNA1"), t.getcol("ANTENNA2")
            self.vis = t.getcol("DATA").astype(complex).reshape(len(self.p), len(FREQ), 2, 2)
        self.times, self.slot = np.unique(self.time, return_inverse=True)
        with table(path + "/ANTENNA", ack=False) as t:
            self.names = t.getcol("NAME")

    def put(self, vis):
        with table(self.path, readonly=False, ack=False) as t:
            t.putcol("DATA", vis.reshape(len(self.p), len(FREQ), 4).astype(np.complex64))

    def phase(self, l, m):
        turns = self.uvw @ np.array([l, m, np.sqrt(1 - l * l - m * m) - 1])
        return np.exp(2j * np.pi * turns[:, None] * FREQ / C)

    def jones(self, of, direction):
        """J_p and J_q of each row and channel. Given: of [direction][time][freq][antenna][2][2]"""
        j = of[direction][self.slot]
        rows = np.arange(len(self.p))
        return j[rows, :, self.p], j[rows, :, self.q]

    def predict(self, sources, jones=None):
        """Sum over sources (x, y, brightness 2x2)."""
        vis = np.zeros_like(self.vis)
        for x, y, b in sources:
            one = self.phase(*pixel_lm(x, y))[..., None, None] * np.asarray(b, complex)
            if jones is not None:
                p, q = self.jones(jones, int(nearest(x, y)))
                one = p @ one @ q.conj().swapaxes(-1, -2)
            vis += one
        return vis

    def image(self, x, y, pol, jones):
        """The definition: sum of J_p^H V J_q, normalised by sqrt(C); Stokes I or several planes with the matrix C."""
        x, y = np.asarray(x), np.asarray(y)
        out = np.zeros((len(pol), len(x)))
        which = nearest(x, y)
        for d in np.unique(which):
            p, q = self.jones(jones, d)
            v = p.conj().swapaxes(-1, -2) @ self.vis @ q
            c = np.array([[np.mean(stokes(pp @ basis(f) @ qq, t).real) for f in pol] for t in pol for pp, qq in
                          [(p.conj().swapaxes(-1, -2) @ p, q.conj().swapaxes(-1, -2) @ q)]]).reshape(len(pol), -1)
            fix = np.linalg.inv(c) * np.sqrt(c[0, 0])
            for k in np.flatnonzero(which == d):
                turn = self.phase(*pixel_lm(x[k], y[k])).conj()
                out[:, k] = fix @ [np.mean((stokes(v, t) * turn).real) for t in pol]
        return out


def basis(pol):
    """The brightness matrix of a Stokes parameter, for linear feeds."""
    return {"I": np.eye(2), "Q": np.diag((1, -1)), "U": np.array(((0, 1), (1, 0))), "V": np.array(((0, 1j), (-1j, 0)))}[pol]


def stokes(v, pol):
    return {"I": (v[..., 0, 0] + v[..., 1, 1]) / 2, "Q": (v[..., 0, 0] - v[..., 1, 1]) / 2,
            "U": (v[..., 0, 1] + v[..., 1, 0]) / 2, "V": (v[..., 0, 1] - v[..., 1, 0]) / 2j}[pol]


def write_h5(path, rows, tables, axes="time,freq,ant,dir,pol", set_name="sol000", directions=None):
    """Write an H5Parm. tables: name -> (title, values [dir][time][freq][ant][pol], pol names), with the axes in this order."""
    canonical = ("dir", "time", "freq", "ant", "pol")
    with h5py.File(path, "w") as f:
        g = f.create_group(set_name)
        at = np.zeros(len(DIRECTIONS), [("name", "S128"), ("dir", "f4", 2)]) if directions is None else directions
        for k, (l, m) in enumerate(direction_lm() if directions is None else ()):
            at[k] = ("[dir%d]" % k, sky(l, m))
        g.create_dataset("source", data=at)
        g.create_dataset("antenna", data=np.array([(n, (0, 0, 0)) for n in rows.names], [("name", "S16"), ("position", "f4", 3)]))
        for name, (title, values, pols) in tables.items():
            t = g.create_group(name)
            t.attrs["TITLE"] = np.bytes_(title)
            order = [a for a in axes.split(",") if a != "pol" or pols]
            values = np.asarray(values)
            if not pols:
                values = values[..., 0]
            moved = np.moveaxis(values, [canonical.index(a) for a in order], range(len(order)))
            v = t.create_dataset("val", data=moved)
            w = t.create_dataset("weight", data=np.where(np.isfinite(moved), 1, 0).astype("f2"))
            for d in (v, w):
                d.attrs["AXES"] = np.bytes_(",".join(order))
            t.create_dataset("time", data=rows.times)
            t.create_dataset("freq", data=FREQ[:values.shape[2]])
            t.create_dataset("ant", data=np.array(rows.names, "S16"))
            t.create_dataset("dir", data=np.array([b"[dir%d]" % k for k in range(values.shape[0])], "S128"))
            if pols:
                t.create_dataset("pol", data=np.array(pols, "S2"))
    return path


def random_jones(rows, kind, seed=3):
    """Jones matrices and the tables that hold them."""
    r = np.random.default_rng(seed)
    n = {"scalar": 1, "diagonal": 2, "full": 4}[kind]
    shape = (len(DIRECTIONS), len(rows.times), len(FREQ), len(rows.names), n)
    phase, amplitude = r.uniform(-3, 3, shape), r.uniform(0.7, 1.4, shape)
    if n == 4:
        amplitude[..., 1:3] *= 0.3
    element = amplitude * np.exp(1j * phase)
    j = np.zeros(shape[:4] + (2, 2), complex)
    if n == 4:
        j[:] = element.reshape(shape[:4] + (2, 2))
    else:
        j[..., 0, 0], j[..., 1, 1] = element[..., 0], element[..., -1]
    pols = {1: (), 2: (b"XX", b"YY"), 4: (b"XX", b"XY", b"YX", b"YY")}[n]
    return j, {"amplitude000": ("amplitude", amplitude, pols), "phase000": ("phase", phase, pols)}


def directions_file(s):
    path = s.path("directions.txt")
    with open(path, "w", encoding="utf-8") as f:
        for k, (l, m) in enumerate(direction_lm()):
            ra, dec = np.degrees(sky(l, m))
            f.write("%.12f %.12f dir%d\n" % (ra, dec, k))
    return path


def run(s, *words):
    done = s.launch("-quiet", "-overwrite", "-name", "f", *SIZE, *words)
    s.must(done.returncode == 0, "runs: %s%s" % (" ".join(str(w) for w in words[:6]), done.stderr[-800:]))


def clear(s):
    """Remove the files of earlier checks: predictions and MODEL_DATA refuse models of other runs."""
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def pixels(s, name):
    return fits.getdata(os.path.join(s.out, "f-%s.fits" % name)).squeeze().astype(float)


def quarters(s, name="quarters.reg", corner=0.0, shrink=0.0, form="polygon(%s)"):
    """Four facets that meet at the centre, as DS9 writes them; corner moves the point where they meet."""
    half = N / 2 + 2
    lines = ["# Region file format: DS9 version 4.1", "global color=green dashlist=8 3", "fk5"]
    for k, (sx, sy) in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
        corners = [(corner + shrink * sx, corner + shrink * sy), (sx * half, corner + shrink * sy), (sx * half, sy * half),
                   (corner + shrink * sx, sy * half)]
        text = ",".join("%.10f,%.10f" % tuple(np.degrees(sky(*pixel_lm(N // 2 + x, N // 2 + y)))) for x, y in corners)
        lines.append(form % text + " # text={facet %d}" % k)
    path = s.path(name)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    return path


def check_plain(s):
    """Without solutions, facets give the image without facets."""
    path = base_set(s, "plain.ms", "-random-sources", 30, 4, "1.5deg", "-pol", "XX,XY,YX,YY")
    for pol in ("I", "IQUV"):
        run(s, "-accuracy", 1e-5, "-pol", pol, path)
        kinds = ["%sdirty" % ("" if pol == "I" else p + "-") for p in pol]
        whole = [pixels(s, k) for k in kinds]
        for facets in (("-facet-regions", quarters(s)), ("-facet-auto", directions_file(s)), ("-facet-auto", 9),
                       ("-facet-auto", 9, "-feather-size", 0), ("-facet-auto", 1)):
            run(s, "-accuracy", 1e-5, "-pol", pol, *facets, path)
            off = max(np.abs(pixels(s, k) - w).max() for k, w in zip(kinds, whole)) / np.abs(whole[0]).max()
            s.must(off < 2e-5, "%s: %s: %.1e from the image without facets" % (pol, facets[1], off))
    run(s, "-make-psf-only", path)
    psf = pixels(s, "psf")
    run(s, "-make-psf-only", "-facet-regions", quarters(s), path)
    s.must((pixels(s, "psf") == psf).all(), "the PSF alone is that without facets")


def check_gains(s):
    """Dirty images of all forms of solutions are the direct sum with the same matrices."""
    made = base_set(s, "base.ms", "-pol", "XX,XY,YX,YY")
    path = fresh_copy(made, s.path("gains.ms"))
    r = np.random.default_rng(7)
    rows = Rows(path)
    sources = [(N // 2 + x, N // 2 + y, np.eye(2) * f + np.array(((q, u + 1j * v), (u - 1j * v, -q))))
               for (x, y), f, q, u, v in zip(DIRECTIONS, r.uniform(1, 2, 5), *r.uniform(-.3, .3, (3, 5)))]
    x, y = r.integers(2, N - 2, (2, 60))
    x[:5], y[:5] = np.array(DIRECTIONS).T + N // 2
    facets = ("-facet-auto", directions_file(s), "-feather-size", 0, "-accuracy", 1e-5, "-weight", "natural")
    for kind, pol, axes in (("scalar", "I", "time,freq,ant,dir,pol"), ("diagonal", "I", "pol,dir,ant,freq,time"),
                            ("full", "I", "ant,pol,time,dir,freq"), ("full", "IQUV", "dir,time,freq,ant,pol")):
        jones, tables = random_jones(rows, kind)
        rows.vis = rows.predict(sources, jones)
        rows.put(rows.vis)
        rows.vis = rows.vis.astype(np.complex64).astype(complex)
        h5 = write_h5(s.path("%s.h5" % kind), rows, tables, axes)
        run(s, *facets, "-pol", pol, "-apply-facet-solutions", h5, "amplitude000,phase000", path)
        want = rows.image(x, y, pol, jones)
        got = np.array([pixels(s, "dirty" if pol == "I" else p + "-dirty")[y, x] for p in pol])
        off = np.abs(got - want).max() / np.abs(want).max()
        s.must(off < 1e-4, "%s solutions, %s: %.1e from the direct sum" % (kind, pol, off))


def phases(rows, same=False, seed=11):
    """Random phases by antenna, time and direction, or the same in all directions."""
    r = np.random.default_rng(seed)
    shape = (len(DIRECTIONS), len(rows.times), 1, len(rows.names), 1)
    phase = r.uniform(-3, 3, shape)
    if same:
        phase[:] = phase[:1]
    return phase


def matrices(rows, values):
    """The Jones matrices of scalar values [dir][time][freq][ant][1]."""
    values = np.broadcast_to(values, values.shape[:2] + (len(FREQ),) + values.shape[3:])
    return values[..., None] * np.eye(2)


CLEAN = ("-niter", 20000, "-mgain", 0.7, "-threshold", "0.3mJy", "-no-update-model-required", "-no-dirty", "-weight", "natural")


def check_cleaning(s):
    """Sources that phases scrambled have their fluxes again; a constant amplitude leaves true fluxes unchanged."""
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("clean.ms"))
    rows = Rows(path)
    flux = np.array((1.0, 1.5, 0.8, 1.2, 2.0))
    sources = [(N // 2 + x, N // 2 + y, f * np.eye(2)) for (x, y), f in zip(DIRECTIONS, flux)]
    at = np.array(DIRECTIONS).T + N // 2
    facets = ("-facet-auto", directions_file(s), "-accuracy", 1e-5, "-feather-size", 4)
    phase, true = phases(rows), None
    for amplitude in (1.0, 1.3):
        rows.put(rows.predict(sources, matrices(rows, amplitude * np.exp(1j * phase))))
        h5 = write_h5(s.path("phase.h5"), rows, {"phase000": ("phase", phase, ()),
                                                 "amplitude000": ("amplitude", np.full_like(phase, amplitude), ())})
        run(s, *facets, *CLEAN, "-save-source-list", "-apply-facet-solutions", h5, "phase000,amplitude000", path)
        image, flat = pixels(s, "image-pb"), pixels(s, "image")
        off = np.abs(image[at[1], at[0]] / flux - 1).max()
        s.must(off < 1e-3, "amplitude %g: fluxes within %.1e" % (amplitude, off))
        s.must(np.abs(flat / image / amplitude**2 - 1).max() < 1e-5, "the image with flat noise is %g of it" % amplitude**2)
        model = pixels(s, "model-pb")
        s.must(abs(model.sum() / flux.sum() - 1) < 2e-3, "model: %.5f of the flux" % (model.sum() / flux.sum()))
        with open(os.path.join(s.out, "f-sources-pb.txt"), encoding="utf-8") as f:
            listed = sum(float(line.split(",")[4]) for line in f.readlines()[1:])
        s.must(abs(listed / model.sum() - 1) < 1e-5, "the list of true fluxes has %.6f of the model" % (listed / model.sum()))
        noise = pixels(s, "residual").std()
        s.must(noise < 3e-4, "residual: %.1e Jy/beam" % noise)
        if true is not None:
            s.must(np.abs(image - true).max() < 2e-3, "%.1e from the image without amplitudes" % np.abs(image - true).max())
        true = image
    with fits.open(os.path.join(s.out, "f-image.fits")) as f:
        f[0].data[...] = 0
        f.writeto(s.path("flat-index.fits"), overwrite=True)
    run(s, *facets, *CLEAN, "-save-source-list", "-apply-facet-solutions", h5, "phase000,amplitude000", "-channels-out", 2, "-join-channels",
        "-fit-spectral-log-pol", 2, "-force-spectrum", s.path("flat-index.fits"), path)
    with open(os.path.join(s.out, "f-sources-pb.txt"), encoding="utf-8") as f:
        listed = sum(float(line.split(",")[4]) for line in f.readlines()[1:])
    s.must(abs(listed / flux.sum() - 1) < 2e-3, "with forced spectra the list of true fluxes has %.5f of the flux" % (listed / flux.sum()))


def forget(s):
    """Remove the images of earlier runs, whose models would count as those of the next one."""
    clear(s)


def check_terms(s):
    """Taylor terms behind solutions that change with frequency are those of the sky, and MODEL_DATA is the data."""
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("terms.ms"))
    rows = Rows(path)
    forget(s)
    flux, index = np.array((1.0, 1.5, 0.8, 1.2, 2.0)), np.array((-4.0, 3.0, 0.5, -2.0, 5.0))
    jones, tables = random_jones(rows, "diagonal")
    vis = 0
    for (x, y), f, a in zip(DIRECTIONS, flux, index):
        vis = vis + rows.predict([(N // 2 + x, N // 2 + y, f * np.eye(2))], jones) * ((FREQ / 143e6)**a)[:, None, None]
    rows.put(vis)
    h5 = write_h5(s.path("terms.h5"), rows, tables)
    run(s, "-facet-auto", directions_file(s), "-accuracy", 1e-5, "-feather-size", 0, "-niter", 20000, "-mgain", 0.8, "-threshold", "0.3mJy",
        "-no-dirty", "-weight", "natural", "-update-model-required", "-deconvolver", "mtmfs", "-nterms", 2, "-reffreq", "143MHz",
        "-apply-facet-solutions", h5, "phase000,amplitude000", path)
    at = np.array(DIRECTIONS).T + N // 2
    term = [pixels(s, "tt%d-image-pb" % t)[at[1], at[0]] for t in range(2)]
    ratio = FREQ / 143e6
    fitted = np.array([np.linalg.lstsq(np.vander(ratio - 1, 2, increasing=True), f * ratio**a, rcond=None)[0] for f, a in zip(flux, index)]).T
    alpha = fitted[1] / fitted[0]
    off = np.abs(term[0] / fitted[0] - 1).max(), np.abs(term[1] / term[0] - alpha).max(), np.abs(pixels(s, "alpha")[at[1], at[0]] - alpha).max()
    s.must(off[0] < 5e-4 and off[1] < 0.02 and off[2] < 0.02, "tt0 is off by at most %.1e of the flux, tt1 / tt0 by %.1e, alpha by %.1e" % off)
    with table(path, ack=False) as t:
        got = t.getcol("MODEL_DATA").reshape(vis.shape)
    off = np.sqrt(np.mean(np.abs(got - vis)**2) / np.mean(np.abs(vis)**2))
    # The polynomials leave up to 10 (x^2 - mean x^2) of a source, 2e-3 rms.
    s.must(off < 3e-3, "MODEL_DATA is off by %.1e" % off)
    whole = [pixels(s, "tt%d-residual" % t) for t in range(2)]
    run(s, "-facet-auto", directions_file(s), "-accuracy", 1e-5, "-feather-size", 0, "-niter", 1, "-no-dirty", "-weight", "natural",
        "-no-update-model-required", "-deconvolver", "mtmfs", "-nterms", 2, "-continue", "-reffreq", "143MHz", "-apply-facet-solutions", h5,
        "phase000,amplitude000", path)
    off = max(np.abs(pixels(s, "tt%d-residual" % t) - whole[t]).max() for t in range(2))
    s.must(off < 1e-3, "continued models leave the same residuals: %.1e" % off)
    alone = ("-facet-auto", 4, "-feather-size", 0, "-niter", 50, "-no-dirty", "-weight", "natural", "-no-update-model-required", "-deconvolver", "mtmfs",
             "-nterms", 3, "-accuracy", 1e-5)
    for rule in (), ("-multiscale", "-multiscale-scales", "0,8", "-multiscale-rule", "tclean"):
        run(s, *alone, *rule, path)
        whole = [pixels(s, "tt%d-image" % t) for t in range(3)]
        run(s, *alone[4:], *rule, path)
        off = max(np.abs(pixels(s, "tt%d-image" % t) - whole[t]).max() / np.abs(whole[t]).max() for t in range(3))
        s.must(off < 1e-4, "without solutions facets make the terms of whole images, %d scales: %.1e" % (1 + len(rule) // 4, off))
    forget(s)


def check_narrow(s):
    """Terms of a band of 1e-3 behind gains of 1 are those of whole images."""
    freq = 150e6 + 50e3 * np.arange(4)
    path = s.made_at("narrow.ms", np.degrees(CENTRE), ("-telescope", "vla", "-config", "D", "-duration", "1h", "-integration", "6min", "-spw", "150MHz",
                                                       "50kHz", 4, "-pol", "XX,XY,YX,YY", "-random-sources", 20, 4, "1.5deg"))
    rows = Rows(path)
    one = np.ones((len(DIRECTIONS), len(rows.times), 1, len(rows.names), 1))
    h5 = write_h5(s.path("one.h5"), rows, {"amplitude000": ("amplitude", one, ())})
    for terms in (3, 4):
        words = ("-feather-size", 0, "-niter", 1, "-gain", 1e-3, "-no-dirty", "-weight", "natural", "-no-update-model-required", "-deconvolver", "mtmfs",
                 "-nterms", terms, "-accuracy", 1e-5, "-reffreq", "%gHz" % freq.mean())
        run(s, *words[2:], path)
        whole = [pixels(s, "tt%d-residual" % t) for t in range(terms)]
        run(s, "-facet-auto", directions_file(s), *words, "-apply-facet-solutions", h5, "amplitude000", path)
        off = max(np.abs(pixels(s, "tt%d-residual" % t) - whole[t]).max() / np.abs(whole[t]).max() for t in range(terms))
        s.must(off < 1e-4, "%d terms of a band of %.1e behind gains of 1: %.1e" % (terms, freq[-1] / freq[0] - 1, off))


def check_psfs(s):
    """A component of a source in the middle of a cell of -dd-psf-grid leaves nothing, where one PSF leaves a part of the source."""
    path = s.made_at("psfs.ms", np.degrees(CENTRE), ("-telescope", "vla", "-config", "D", "-duration", "1h", "-integration", "6min", "-start-ha",
                                                     "-4h", "-spw", "140MHz", "2MHz", len(FREQ), "-pol", "XX,XY,YX,YY"))
    rows = Rows(path)
    forget(s)
    source = [(N // 4, 3 * N // 4, np.eye(2))]
    jones, tables = random_jones(rows, "diagonal")
    h5 = write_h5(s.path("psfs.h5"), rows, tables)
    same = ("-accuracy", 1e-5, "-threshold", "1uJy", "-no-update-model-required", "-weight", "natural", "-no-dirty")
    # What one component leaves, or what many leave of the samples after a single minor cycle.
    one, many = ("-niter", 1, "-gain", 1, "-mgain", 1, "-skip-final-iteration"), ("-niter", 60, "-gain", 0.3, "-mgain", 1, "-nmiter", 1, "-fits-mask", s.path("psfs-mask.fits"))
    # The PSF has the size of the image, so it reaches from the source to x = 3/4 and down to y = 1/4; gains are those of the facet.
    whole, facet = (slice(N // 4 + 2, N), slice(0, 3 * N // 4 - 2)), (slice(165, 220), slice(40, 95))
    run(s, "-weight", "natural", path)
    with fits.open(os.path.join(s.out, "f-dirty.fits")) as f:
        f[0].data[:] = 0
        f[0].data[0, 0][whole] = 1
        f.writeto(s.path("psfs-mask.fits"))
    for kind, words, seen, gains in (
        ("residual", (*one, "-facet-auto", directions_file(s), "-feather-size", 0, "-apply-facet-solutions", h5, "amplitude000,phase000"), facet, jones),
        ("tt0-residual", (*many, "-deconvolver", "mtmfs", "-nterms", 2, "-multiscale-scales", "0"), whole, None),
        ("0003-residual", (*many, "-channels-out", 4, "-join-channels", "-fit-spectral-pol", 2, "-deconvolution-channels", 2), whole, None),
        ("0001-residual", (*one, "-channels-out", 2, "-join-channels"), whole, None), ("residual", one, whole, None)):
        rows.put(rows.predict(source, gains))
        left = []
        for grid in ((), ("-dd-psf-grid", 2, 2)):
            run(s, *same, *words, *grid, path)
            left.append(np.abs(pixels(s, kind)[seen]).max())
        s.must(left[0] > 1e-4 and left[1] < 0.05 * left[0], "%s: one PSF leaves %.1e of a source, that of its cell %.1e" % (kind, *left))
    np.save(s.path("alone.npy"), pixels(s, "residual"))
    mp = mpi_job.program(s.msimage)
    if mp:
        done = mpi_job.run(2, mp, "-quiet", "-overwrite", "-name", "f", *SIZE, *same, *one, "-dd-psf-grid", 2, 2, path, cwd=s.out)
        s.must(done.returncode == 0, "two ranks %s" % done.stderr[-300:])
        off = np.abs(pixels(s, "residual") - np.load(s.path("alone.npy"))).max()
        s.must(off < 1e-5, "two ranks differ from one by %.1e" % off)
    # PSFs of all cells take 67 MB; with less memory they are in files.
    done = s.launch("-dry-run", *SIZE, *same, *one, "-dd-psf-grid", 16, 16, "-abs-mem", 0.08, path)
    s.must(done.returncode == 0 and "of images in temporary files, because of the memory limit" in done.stdout + done.stderr, "with little memory: %s" % done.stderr[-300:])
    forget(s)


def check_predict(s):
    """Predictions of true fluxes are the direct sum with the same matrices; MODEL_DATA after cleaning is the data."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("predict.ms"))
    rows = Rows(path)
    r = np.random.default_rng(9)
    facets = ("-facet-auto", directions_file(s), "-feather-size", 0)
    x, y = r.integers(20, N - 20, (2, 12))
    run(s, "-pol", "IQUV", path)
    value = {p: r.uniform(0.5, 1, len(x)) * (1 if p == "I" else 0.2) for p in "IQUV"}
    for kind, pols in (("scalar", "I"), ("diagonal", "I"), ("full", "I"), ("full", "IQUV")):
        for p in "IQUV":
            name = os.path.join(s.out, "m-%s-model-pb.fits" % p)
            if os.path.exists(name):
                os.remove(name)
            if p not in pols:
                continue
            with fits.open(os.path.join(s.out, "f-%s-dirty.fits" % p)) as f:
                f[0].data[:] = 0
                f[0].data[0, 0, y, x] = value[p]
                f[0].header["BUNIT"] = "Jy/pixel"
                f.writeto(name)
        jones, tables = random_jones(rows, kind)
        h5 = write_h5(s.path("predict.h5"), rows, tables)
        done = s.launch("-quiet", "-predict", "-name", "m", "-accuracy", 1e-6, *facets, "-apply-facet-solutions", h5, "phase000,amplitude000", path)
        s.must(done.returncode == 0, "%s, %s: predicts%s" % (kind, pols, done.stderr[-800:]))
        want = rows.predict([(x[k], y[k], sum(value[p][k] * basis(p) for p in pols)) for k in range(len(x))], jones)
        with table(path, ack=False) as t:
            got = t.getcol("MODEL_DATA").reshape(want.shape)
        off = np.sqrt(np.mean(np.abs(got - want)**2) / np.mean(np.abs(want)**2))
        s.must(off < 1e-5, "%s solutions, %s: %.1e from the direct sum" % (kind, pols, off))
    # The models of a run are predicted with its solutions.
    jones, tables = random_jones(rows, "diagonal")
    h5 = write_h5(s.path("predict.h5"), rows, tables)
    sources = [(N // 2 + a, N // 2 + b, np.eye(2)) for a, b in DIRECTIONS]
    vis = rows.predict(sources, jones)
    rows.put(vis)
    run(s, *facets, "-accuracy", 1e-5, "-niter", 20000, "-mgain", 0.7, "-threshold", "0.3mJy", "-no-dirty", "-weight", "natural",
        "-update-model-required", "-apply-facet-solutions", h5, "phase000,amplitude000", path)
    with table(path, ack=False) as t:
        got = t.getcol("MODEL_DATA").reshape(vis.shape)
    off = np.sqrt(np.mean(np.abs(got - vis)[..., (0, 1), (0, 1)]**2) / np.mean(np.abs(vis)[..., (0, 1), (0, 1)]**2))
    s.must(off < 2e-3, "MODEL_DATA after cleaning: %.1e from the data" % off)


def check_goes_on(s):
    """A killed run resumes to the same bits, but not with other solutions or facets; a model is cleaned further; data less
    their prediction leave the residuals."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("on.ms"))
    rows = Rows(path)
    jones, tables = random_jones(rows, "full")
    rows.put(rows.predict([(N // 2 + a, N // 2 + b, np.eye(2)) for a, b in DIRECTIONS], jones))
    h5, other = write_h5(s.path("on.h5"), rows, tables), write_h5(s.path("other.h5"), rows, random_jones(rows, "full", seed=9)[1])
    facets = ("-facet-auto", directions_file(s), "-feather-size", 4, "-accuracy", 1e-5)
    words = ("-quiet", "-name", "f", *SIZE, *facets, "-weight", "natural", "-gain", 0.1, "-mgain", 0.6, "-threshold", "10mJy",
             "-no-update-model-required", "-apply-facet-solutions", h5, "amplitude000,phase000", path)
    kinds = ("image", "model", "residual", "image-pb")
    run(s, "-niter", 4000, *words[3:])
    whole = [pixels(s, k) for k in kinds]
    clear(s)
    held = Held([s.msimage, "-niter", "4000", "-checkpoint", "0", *[str(w) for w in words[1:]]], cwd=s.out)
    held.hold_after_line("cycle 2")
    held.send(signal.SIGKILL)
    held.end()
    for title, change in (("solutions", {h5: other}), ("facets", {4: 2})):
        done = s.launch("-resume", "-niter", 4000, *[change.get(w, w) for w in words])
        s.told("resumed with other " + title, done, 3, "options")
    done = s.launch("-resume", "-niter", 4000, *words)
    s.must(done.returncode == 0 and all((pixels(s, k) == w).all() for k, w in zip(kinds, whole)), "resumed to the same images %s" % done.stderr)
    clear(s)
    run(s, "-niter", 40, *words[3:])
    run(s, "-niter", 4000, "-continue", *words[3:])
    got = [pixels(s, k) for k in kinds]
    s.must(abs(got[1].sum() / whole[1].sum() - 1) < 5e-3 and got[2].std() < 1.1 * whole[2].std(), "a model that is cleaned further has %.5f of the flux" %
           (got[1].sum() / whole[1].sum()))
    predict = ("-predict", "-quiet", "-name", "f", *facets, "-apply-facet-solutions", h5, "amplitude000,phase000", path)
    done = s.launch(*predict)
    s.must(done.returncode == 0, "predicts%s" % done.stderr[-300:])
    run(s, "-subtract-model", *words[3:])
    off = np.abs(pixels(s, "dirty") - got[2]).max()
    s.must(off < 2e-5, "the data less their prediction are the residuals: %.1e Jy/beam" % off)


def check_kinds(s):
    """TEC, clocks and rotations; interpolation; flagged solutions; antennas without solutions; files without an axis."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("kinds.ms"))
    rows = Rows(path)
    r = np.random.default_rng(4)
    x, y = N // 2 + DIRECTIONS[0][0], N // 2 + DIRECTIONS[0][1]
    run(s, path)
    with fits.open(os.path.join(s.out, "f-dirty.fits")) as f:
        f[0].data[:] = 0
        f[0].data[0, 0, y, x] = 1
        f[0].header["BUNIT"] = "Jy/pixel"
        f.writeto(os.path.join(s.out, "k-model.fits"), overwrite=True)
    shape = (len(DIRECTIONS), len(rows.times), 1, len(rows.names), 1)
    every = shape[:2] + (len(FREQ),) + shape[3:4]
    value = {"tec": r.uniform(-0.02, 0.02, shape), "clock": r.uniform(-4e-9, 4e-9, shape), "rotation": r.uniform(-1, 1, shape),
             "rotationmeasure": r.uniform(-0.3, 0.3, shape), "phase": r.uniform(-3, 3, shape)}

    def turned(angle):
        out = np.zeros(np.broadcast_shapes(angle.shape, every + (1,))[:4] + (2, 2))
        out[..., 0, 0] = out[..., 1, 1] = np.cos(angle[..., 0])
        out[..., 1, 0] = np.sin(angle[..., 0])
        out[..., 0, 1] = -out[..., 1, 0]
        return out

    hz = FREQ[None, None, :, None, None]
    of = {"tec": lambda v: matrices(rows, np.exp(-8.44797245e9j * v / hz)), "clock": lambda v: matrices(rows, np.exp(2j * np.pi * v * hz)),
          "rotation": turned, "rotationmeasure": lambda v: turned(v * (C / hz)**2), "phase": lambda v: matrices(rows, np.exp(1j * v))}

    def compare(title, tables, jones, *words, change=None):
        h5 = write_h5(s.path("kinds.h5"), rows, tables)
        if change:
            with h5py.File(h5, "r+") as f:
                change(f["sol000"])
        done = s.launch("-quiet", "-predict", "-name", "k", "-accuracy", 1e-6, "-facet-auto", 1, "-no-solution-directions-check",
                        "-apply-facet-solutions", h5, ",".join(tables), *words, path)
        s.must(done.returncode == 0, "%s: predicts%s" % (title, done.stderr[-800:]))
        p, q = rows.jones(jones, 4)
        want = rows.phase(*pixel_lm(x, y))[..., None, None] * (p @ q.conj().swapaxes(-1, -2))
        with table(path, ack=False) as t:
            got = t.getcol("MODEL_DATA").reshape(want.shape)
        s.must(np.abs(got - want).max() < 1e-5, "%s: %.1e from the definition" % (title, np.abs(got - want).max()))

    for kind in ("tec", "clock", "rotation", "rotationmeasure"):
        compare(kind, {kind + "000": (kind, value[kind], ())}, of[kind](value[kind]))
    compare("all of them", {k + "000": (k, value[k], ()) for k in ("phase", "tec", "clock", "rotation")},
            of["phase"](value["phase"]) @ of["tec"](value["tec"]) @ of["clock"](value["clock"]) @ of["rotation"](value["rotation"]))
    missing, flagged = of["phase"](value["phase"]), value["phase"].copy()
    flagged[:, 1, :, 3] = np.nan
    missing[:, 1, :, 3] = 0
    missing[:, :, :, 5] = np.eye(2)

    def lose(g):
        names = g["phase000/ant"][:]
        names[5] = b"UNKNOWN"
        g["phase000/ant"][:] = names
    compare("flagged and missing antennas", {"phase000": ("phase", flagged, ())}, missing, change=lose)
    # Solutions of every second time; phases are interpolated on the same turn.
    few = rows.times[::2]
    phase = value["phase"][:, ::2]
    at = np.interp(rows.times, few, np.arange(len(few)))
    low, high, part = np.floor(at).astype(int), np.minimum(np.floor(at).astype(int) + 1, len(few) - 1), (at % 1)[None, :, None, None, None]
    step = phase[:, high] - phase[:, low]
    linear = phase[:, low] + part * (step - 2 * np.pi * np.round(step / 2 / np.pi))

    def thin(g):
        t = g["phase000"]
        for name, data in (("time", few), ("val", t["val"][::2]), ("weight", t["weight"][::2])):
            axes = t[name].attrs.get("AXES")
            del t[name]
            d = t.create_dataset(name, data=data)
            if axes is not None:
                d.attrs["AXES"] = axes
    compare("linear", {"phase000": ("phase", value["phase"], ())}, of["phase"](linear), "-solution-interpolation", "linear", change=thin)


def check_beam(s):
    """The beam of each facet, with phases: true fluxes are recovered and predicted."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("beam.ms"))
    rows = Rows(path)
    flux = np.array((1.0, 1.5, 0.8, 1.2, 2.0))
    sources = [(N // 2 + a, N // 2 + b, f * np.eye(2)) for (a, b), f in zip(DIRECTIONS, flux)]
    at = np.array(DIRECTIONS).T + N // 2
    angle = np.degrees([np.arcsin(np.hypot(*lm)) for lm in direction_lm()])
    voltage = np.exp(-2 * np.log(2) * (angle[:, None] / 1.5 * FREQ / 140e6)**2)
    phase = phases(rows)
    jones = matrices(rows, np.exp(1j * phase)) * voltage[:, None, :, None, None, None]
    vis = rows.predict(sources, jones)
    rows.put(vis)
    h5 = write_h5(s.path("beam.h5"), rows, {"phase000": ("phase", phase, ())})
    # A feather of 0 makes the directions of facets those of the sources.
    words = ("-facet-auto", directions_file(s), "-accuracy", 1e-5, "-feather-size", 0, "-pb", "gauss:1.5deg@140MHz", "-apply-facet-beam",
             "-apply-facet-solutions", h5, "phase000")
    run(s, *words, *CLEAN, path)
    image = pixels(s, "image-pb")
    off = np.abs(image[at[1], at[0]] / flux - 1).max()
    s.must(off < 2e-3, "fluxes within %.1e" % off)
    seen = (pixels(s, "image") / image)[at[1], at[0]]
    off = np.abs(seen / (voltage**2).mean(1) - 1).max()
    s.must(off < 3e-3, "the image with flat noise is the beam's power of it, within %.1e" % off)
    done = s.launch("-quiet", "-predict", "-name", "f", *words, path)
    s.must(done.returncode == 0, "predicts%s" % done.stderr[-800:])
    with table(path, ack=False) as t:
        got = t.getcol("MODEL_DATA").reshape(vis.shape)
    off = np.sqrt(np.mean(np.abs(got - vis)**2) / np.mean(np.abs(vis)**2))
    s.must(off < 3e-3, "MODEL_DATA: %.1e from the data" % off)


def check_seams(s):
    """A source on the border of two facets, and a wide one over four, have their fluxes."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("seam.ms"))
    rows = Rows(path)
    wide = [(N // 2 + x, N // 2 + y, np.eye(2) * np.exp(-(x * x + y * y) / 40)) for x in range(-12, 13, 2) for y in range(-12, 13, 2)]
    total = sum(b[0, 0] for _, _, b in wide)
    sources = [(x, y, b / total) for x, y, b in wide] + [(N // 2, N // 2 + 60, np.eye(2))]
    phase = phases(rows, same=True)
    rows.put(rows.predict(sources, matrices(rows, np.exp(1j * phase))))
    h5 = write_h5(s.path("seam.h5"), rows, {"phase000": ("phase", phase, ())})
    for feather in (0, 6):
        run(s, "-facet-regions", quarters(s), "-feather-size", feather, "-accuracy", 1e-5, *CLEAN, "-no-solution-directions-check",
            "-apply-facet-solutions", h5, "phase000", path)
        image, model = pixels(s, "image-pb"), pixels(s, "model-pb")
        one = image[N // 2 + 60, N // 2]
        y, x = np.mgrid[:N, :N]
        near = np.hypot(x - N // 2, y - N // 2) < 30
        flux = model[near].sum()
        s.must(abs(one - 1) < 5e-3 and abs(flux - 1) < 5e-3, "feather %d: on the border %.4f Jy, over four facets %.4f Jy" % (feather, one, flux))
        step = pixels(s, "residual")
        s.must(np.abs(step).max() < 2e-3, "no step in the residual: %.1e" % np.abs(step).max())


def check_ranks(s):
    """Several ranks make the images and predictions of one, with a file of solutions for each set."""
    clear(s)
    if not os.path.exists(os.path.join(os.path.dirname(s.msimage), "msimage-mp")):
        print("msimage-mp is not built: not tried")
        return
    mp = mpi_job.program(s.msimage)
    base = base_set(s, "base.ms", "-pol", "XX,XY,YX,YY")
    paths = [fresh_copy(base, s.path("ranks%d.ms" % k)) for k in range(2)]
    h5 = []
    for k, path in enumerate(paths):
        rows = Rows(path)
        jones, tables = random_jones(rows, "diagonal", seed=30 + k)
        rows.put(rows.predict([(N // 2 + a, N // 2 + b, np.eye(2) * (k + 1)) for a, b in DIRECTIONS], jones))
        h5.append(write_h5(s.path("ranks%d.h5" % k), rows, tables))
    words = ["-quiet", "-overwrite", "-name", "f", "-facet-auto", directions_file(s), "-feather-size", 0, "-accuracy", 1e-6,
             "-apply-facet-solutions", ",".join(h5), "amplitude000,phase000"]
    seen = []
    for launch in (s.launch, lambda *w: mpi_job.run(2, mp, *w, cwd=s.out)):
        for more in ((*SIZE, "-niter", 60, "-mgain", 0.7, "-weight", "natural", "-no-update-model-required"), ("-predict",)):
            done = launch(*[w for w in words if more[0] != "-predict" or w != "-overwrite"], *more, *paths)
            s.must(done.returncode == 0, "%s%s" % (more[0], done.stderr[-800:]))
        seen.append([pixels(s, kind) for kind in ("dirty", "residual", "image-pb", "psf")])
        for path in paths:
            with table(path, ack=False) as t:
                seen[-1].append(t.getcol("MODEL_DATA"))
    off = max(np.abs(a - b).max() / np.abs(a).max() for a, b in zip(*seen))
    s.must(off < 1e-4, "images and predictions of one and two ranks differ by %.1e" % off)
    # With a-terms, too.
    write_screen(s.path("tec.fits"), rows, Screens(rows).tec, 1)
    config = aterm_config(s, "ranks.txt", "aterms = tec\ntec.images = %s\n" % s.path("tec.fits"))
    seen = []
    for launch in (s.launch, lambda *w: mpi_job.run(2, mp, *w, cwd=s.out)):
        done = launch("-quiet", "-overwrite", "-name", "f", *SIZE, "-accuracy", 1e-3, "-aterm-config", config, paths[0])
        s.must(done.returncode == 0, "a-terms%s" % done.stderr[-800:])
        seen.append(pixels(s, "dirty"))
    off = np.abs(seen[0] - seen[1]).max() / np.abs(seen[0]).max()
    s.must(off < 1e-3, "images with a-terms of one and two ranks differ by %.1e" % off)


def check_workers(s):
    """Facets that are made at the same time give the images and predictions of facets one after the other."""
    clear(s)
    rows = Rows(fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("workers.ms")))
    jones, tables = random_jones(rows, "full", seed=41)
    rows.put(rows.predict([(N // 2 + a, N // 2 + b, np.eye(2)) for a, b in DIRECTIONS], jones))
    words = ("-facet-auto", directions_file(s), "-feather-size", 4, "-apply-facet-solutions", write_h5(s.path("workers.h5"), rows, tables),
             "amplitude000,phase000")
    seen = []
    for n_thread in (1, 8):
        run(s, *words, "-j", n_thread, "-niter", 60, "-mgain", 0.7, "-pol", "IQUV", "-join-polarizations", rows.path)
        seen.append([pixels(s, pol + kind) for kind in ("-residual", "-image-pb", "-model") for pol in "IQUV"])
        with table(rows.path, ack=False) as t:
            seen[-1].append(t.getcol("MODEL_DATA"))
    s.must(all(np.array_equal(a, b) for a, b in zip(*seen)) and seen[0][4].max() > 0.5, "two facets at a time: the same to the last bit")


# Pixels of screens: wider than the image, and other ones.
SCREEN_N, SCREEN_CELL = 48, np.radians(0.06)


def write_screen(path, rows, value, matrix, antennas=True, times=None):
    """Write a screen of a-terms. Given: value(time, antenna, l, m) -> [matrix][..]"""
    i = np.arange(SCREEN_N)
    m, l = np.meshgrid((i - SCREEN_N // 2) * SCREEN_CELL, (SCREEN_N // 2 - i) * SCREEN_CELL, indexing="ij")
    times = rows.times if times is None else times
    n = len(rows.names) if antennas else 1
    cube = np.array([[[value(t, a, l, m) for a in range(n)]] for t in range(len(times))])
    if not antennas:
        cube = cube[:, :, 0]
    elif matrix == 1:
        cube = cube[:, :, :, 0]
    h = fits.PrimaryHDU(cube.astype("f4"))
    ra, dec = np.degrees(CENTRE)
    axes = [("RA---SIN", ra, -np.degrees(SCREEN_CELL), SCREEN_N // 2 + 1), ("DEC--SIN", dec, np.degrees(SCREEN_CELL), SCREEN_N // 2 + 1)]
    axes += [("MATRIX", 0, 1, 1)] * (matrix > 1) + [("ANTENNA", 0, 1, 1)] * antennas + [("FREQ", 140e6, 1e6, 1)]
    axes += [("TIME", times[0], times[1] - times[0], 1)]
    for k, (kind, at, step, pixel) in enumerate(axes, 1):
        for card, v in (("CTYPE", kind), ("CRVAL", at), ("CDELT", step), ("CRPIX", pixel)):
            h.header["%s%d" % (card, k)] = v
    h.writeto(path, overwrite=True)
    return path


def aterm_config(s, name, text):
    with open(s.path(name), "w", encoding="utf-8") as f:
        f.write("# a-terms\n" + text)
    return s.path(name)


class Screens:
    """Smooth screens of each antenna and time: phases with a gradient and waves, gains of feeds, and shifts."""

    def __init__(self, rows, seed=21):
        r = np.random.default_rng(seed)
        self.rows = rows
        shape = (len(rows.times), len(rows.names))
        self.gradient, self.wave, self.start = r.normal(size=shape + (2,)), 0.06 * r.normal(size=shape), r.uniform(0, 6, shape)
        self.gain = r.normal(size=shape + (2, 3))

    def tec(self, t, a, l, m):
        """TECU; at 140 MHz 1 rad is 0.0166 of them."""
        x, y = l / np.radians(1), m / np.radians(1)
        g = self.gradient[t, a]
        return np.array([0.0166 * (g[0] * x + g[1] * y + self.wave[t, a] * np.sin(1.2 * x - 0.8 * y + self.start[t, a]))])

    def feed(self, t, a, l, m):
        """Gains of X and Y, real and imaginary parts."""
        x, y = l / np.radians(1), m / np.radians(1)
        g = 0.15 * self.gain[t, a]
        value = [g[k, 0] * (x + 0.2) + 1j * g[k, 1] * y + g[k, 2] * x * y for k in range(2)]
        return np.array([part for v in value for part in ((1 + v).real, v.imag)])

    def shift(self, t, a, l, m):
        """Shifts by up to an arc minute."""
        x, y = l / np.radians(1), m / np.radians(1)
        return np.radians(1 / 60) * np.array([0.4 * np.sin(x + 0.1 * t) + 0.2 * y, 0.5 * np.cos(0.8 * y) - 0.1 * t])

    def jones(self, kinds, l, m):
        """Jones matrices [time][freq][antenna][2][2] in a direction."""
        n_time, n_ant = len(self.rows.times), len(self.rows.names)
        out = np.zeros((n_time, len(FREQ), n_ant, 2, 2), complex)
        out[..., 0, 0] = out[..., 1, 1] = 1
        for t in range(n_time):
            for a in range(n_ant):
                if "tec" in kinds:
                    out[t, :, a] *= np.exp(-8.44797245e9j * self.tec(t, a, l, m)[0] / FREQ)[:, None, None]
                if "diagonal" in kinds:
                    g = self.feed(t, a, l, m)
                    out[t, :, a, 0, 0] *= g[0] + 1j * g[1]
                    out[t, :, a, 1, 1] *= g[2] + 1j * g[3]
        if "beam" in kinds:
            angle = np.degrees(np.arcsin(np.hypot(l, m)))
            out *= np.exp(-2 * np.log(2) * (angle / 2.5 * FREQ / 140e6)**2)[:, None, None, None]
        return out

    def of_rows(self, kinds, l, m):
        """J_p and J_q, and the phases of a source."""
        rows, j = self.rows, self.jones(kinds, l, m)[self.rows.slot]
        at = np.arange(len(rows.p))
        d = np.zeros((len(rows.times), 2))
        if "dldm" in kinds:
            d = np.array([self.shift(t, 0, l, m) for t in range(len(rows.times))])
        lm = np.array([l, m]) + d[rows.slot]
        turns = (rows.uvw * np.column_stack([lm, np.sqrt(1 - (lm**2).sum(1)) - 1])).sum(1)
        return j[at, :, rows.p], j[at, :, rows.q], np.exp(2j * np.pi * turns[:, None] * FREQ / C)

    def predict(self, kinds, sources):
        vis = np.zeros_like(self.rows.vis)
        for x, y, b in sources:
            p, q, phase = self.of_rows(kinds, *pixel_lm(x, y))
            vis += p @ (phase[..., None, None] * b) @ q.conj().swapaxes(-1, -2)
        return vis

    def image(self, kinds, x, y):
        """Stokes I at a pixel: sum of J_p^H V J_q, normalised by sqrt(C)."""
        p, q, phase = self.of_rows(kinds, *pixel_lm(x, y))
        v = stokes(p.conj().swapaxes(-1, -2) @ self.rows.vis @ q, "I") * phase.conj()
        c = np.mean(stokes(p.conj().swapaxes(-1, -2) @ p @ q.conj().swapaxes(-1, -2) @ q, "I").real)
        return np.mean(v.real) / np.sqrt(c)


def check_aterms(s):
    """A-terms from screens: images and predictions are direct sums with the Jones matrices of each pixel; cleaning recovers
    sources anywhere."""
    clear(s)
    path = fresh_copy(base_set(s, "base.ms", "-pol", "XX,XY,YX,YY"), s.path("screens.ms"))
    rows = Rows(path)
    r = np.random.default_rng(6)
    screens = Screens(rows)
    write_screen(s.path("tec.fits"), rows, screens.tec, 1)
    write_screen(s.path("diagonal.fits"), rows, screens.feed, 4)
    os.rename(s.path("diagonal.fits"), s.path("of feeds #1, [a].fits"))
    write_screen(s.path("dldm.fits"), rows, screens.shift, 2, antennas=False)
    file = {"tec": s.path("tec.fits"), "dldm": s.path("dldm.fits"), "diagonal": '"%s"' % s.path("of feeds #1, [a].fits")}
    x, y = r.integers(4, N - 4, (2, 14))
    sources = [(N // 2 + a, N // 2 + b, np.eye(2) * f) for a, b, f in ((-57, -45, 2), (61, -60, 1), (-40, 59, 1), (70, 51, 1.5), (9, -3, 0.7))]
    x[:5], y[:5] = [a for a, _, _ in sources], [b for _, b, _ in sources]
    for kinds, words in ((("tec",), ()), (("tec", "dldm", "diagonal", "beam"), ("-pb", "gauss:2.5deg@140MHz"))):
        lines = "aterms = [ %s ]\n" % ", ".join(kinds)
        lines += "".join("%s.images = [\n %s ] # comment\n%s.window = raised_hann\n" % (k, file[k], k) for k in kinds if k != "beam")
        config = aterm_config(s, "config.txt", lines)
        vis = screens.predict(kinds, sources)
        rows.put(vis)
        rows.vis = vis.astype(np.complex64).astype(complex)
        run(s, "-accuracy", 1e-4, "-weight", "natural", "-aterm-config", config, *words, path)
        want = np.array([screens.image(kinds, a, b) for a, b in zip(x, y)])
        off = np.abs(pixels(s, "dirty")[y, x] - want).max() / np.abs(want).max()
        s.must(off < 1e-4, "%s: image %.1e from the direct sum" % (" and ".join(kinds), off))
        with fits.open(os.path.join(s.out, "f-dirty.fits")) as f:
            f[0].data[:] = 0
            for a, b, flux in sources:
                f[0].data[0, 0, b, a] = flux[0, 0]
            f[0].header["BUNIT"] = "Jy/pixel"
            f.writeto(os.path.join(s.out, "a-model.fits"), overwrite=True)
        done = s.launch("-quiet", "-predict", "-name", "a", "-accuracy", 1e-4, "-aterm-config", config, *words, path)
        s.must(done.returncode == 0, "predicts%s" % done.stderr[-800:])
        with table(path, ack=False) as t:
            got = t.getcol("MODEL_DATA").reshape(vis.shape)
        off = np.sqrt(np.mean(np.abs(got - vis)**2) / np.mean(np.abs(vis)**2))
        s.must(off < 1e-4, "%s: prediction %.1e from the direct sum" % (" and ".join(kinds), off))
    run(s, *CLEAN, "-threshold", "2mJy", "-mgain", 0.92, "-accuracy", 1e-3, "-aterm-config", config, *words, path)
    image = pixels(s, "image-pb")
    off = max(abs(image[b, a] / flux[0, 0] - 1) for a, b, flux in sources)
    s.must(off < 3e-3 and pixels(s, "residual").std() < 5e-4, "cleaned: fluxes within %.1e, residual %.1e Jy/beam" % (off, pixels(s, "residual").std()))


def check_aterm_refusals(s):
    """Bad configurations and screens: one line each."""
    clear(s)
    path = base_set(s, "base.ms", "-pol", "XX,XY,YX,YY")
    rows = Rows(path)
    good = write_screen(s.path("good.fits"), rows, lambda t, a, l, m: np.array([0 * l]), 1)

    def config(title, pattern, text, *words, code=3):
        s.refused(title, code, pattern, *SIZE, "-aterm-config", aterm_config(s, "bad.txt", text), *words, path)

    config("no terms", "no a-terms", "# nothing\n")
    config("no images", "has no images", "aterms = [tec]\n")
    config("paf", "kind paf, which is not supported", "aterms = paf\n")
    config("klfit by another name", "kind klfit, which is not supported", "aterms = x\nx.type = klfit\n")
    config("an unknown kind", "unknown kind 'spin'", "aterms = spin\n")
    config("a window", "tec.window is 'square'", "aterms = tec\ntec.images = %s\ntec.window = square\n" % good)
    config("no file", "No such file", "aterms = tec\ntec.images = none.fits\n")
    config("no line", "line 3", "aterms = tec\nimages\n")
    config("another kind of screen", "MATRIX has 1 planes", "aterms = diagonal\ndiagonal.images = %s\n" % good)
    config("facets too", "makes its own facets", "aterms = tec\ntec.images = %s\n" % good, "-facet-auto", 3, code=2)
    config("no beam", "-pb off", "aterms = [tec, beam]\ntec.images = %s\n" % good, "-pb", "off", code=2)
    s.refused("a beam that nothing applies", 2, "-grid-with-beam", "-predict", "-name", "f", "-pb", "airy:25", "-aterm-config",
              aterm_config(s, "bad.txt", "aterms = tec\ntec.images = %s\n" % good), path)
    config("the same times twice", "times overlap", "aterms = tec\ntec.images = [%s, %s]\n" % (good, good))
    for title, pattern, card, value in (("a projection", "CTYPE1", "CTYPE1", "RA---TAN"), ("no antennas of this set", "has 27 antennas, the set", None, 26),
                                        ("a value", "is nan", None, np.nan)):
        with fits.open(good) as f:
            if card:
                f[0].header[card] = value
            elif value == 26:
                f[0].data = f[0].data[:, :, :5]
                pattern = "has 5 antennas, the set"
            else:
                f[0].data[0, 0, 1, 3, 4] = value
            f.writeto(s.path("bad.fits"), overwrite=True)
        config(title, pattern, "aterms = tec\ntec.images = %s\n" % s.path("bad.fits"))


def check_refusals(s):
    """Bad regions and solutions: one line each."""
    clear(s)
    path = base_set(s, "base.ms", "-pol", "XX,XY,YX,YY")
    rows = Rows(path)

    def region(title, pattern, file, code=3):
        s.refused(title, code, pattern, *SIZE, "-facet-regions", file, path)

    def text(body, name="bad.reg"):
        with open(s.path(name), "w", encoding="utf-8") as f:
            f.write(body)
        return s.path(name)

    region("facets overlap", "overlap at pixel", quarters(s, "over.reg", shrink=-8))
    region("a hole", "no facet has pixel", quarters(s, "hole.reg", shrink=12))
    region("not closed", "no \\) after", quarters(s, "open.reg", form="polygon(%s"))
    region("outside", "line 5.*outside the image", text("fk5\n" + open(quarters(s)).read().split("fk5\n")[1].split("\n")[0] + "\n\n\n" +
                                                         "polygon(10,10,11,10,11,11)\n".replace("10", "80")))
    region("two vertices", "three vertices", text("fk5\npolygon(60,44,61,44)\n"))
    region("pixels", "frame", text("image\npolygon(1,1,2,1,2,2)\n"))
    region("a misspelt frame", "line 1.*unknown frame.*fk6", text("fk6\npolygon(60,44,61,44,61,45)\n"))
    region("a circle", "unknown shape", text("fk5\ncircle(60,44,1)\n"))
    region("nothing", "no polygon", text("fk5\n"))
    region("no file", "No such file", s.path("none.reg"))
    region("a number", "declination", text("fk5\npolygon(60,44,61,x,62,43)\n"))
    s.refused("both", 2, "one of them", *SIZE, "-facet-regions", "a", "-facet-auto", 3, path)
    s.refused("no facets", 2, "needs facets", *SIZE, "-apply-facet-solutions", "a.h5", "phase000", path)
    s.refused("facets of nothing", 3, "1 to 4096", *SIZE, "-facet-auto", 0, path)
    s.refused("a beam without facets", 2, "needs facets", *SIZE, "-apply-facet-beam", path)
    s.refused("no beam", 2, "-pb off", *SIZE, "-facet-auto", 3, "-apply-facet-beam", "-pb", "off", path)
    s.refused("two corrections", 2, "-apply-primary-beam", *SIZE, "-facet-auto", 3, "-apply-facet-beam", "-apply-primary-beam", path)

    phase = phases(rows)
    good = {"phase000": ("phase", phase, ())}

    def solutions(title, pattern, tables, names="phase000", change=None, **how):
        h5 = write_h5(s.path("bad.h5"), rows, tables, **how)
        if change:
            with h5py.File(h5, "r+") as f:
                change(f["sol000"])
        s.refused(title, 3, pattern, *SIZE, "-facet-auto", 3, "-no-solution-directions-check", "-apply-facet-solutions", h5, names, path)

    def replace(group, name, values):
        del group[name]
        group.create_dataset(name, data=values)

    solutions("no table", "no solution table", good, "tec000")
    solutions("NaN", "no solution: all", {"phase000": ("phase", np.full_like(phase, np.nan), ())})
    two = np.concatenate([phase, phase], axis=-1)
    solutions("polarisations", "need the same", {**good, "amplitude000": ("amplitude", two, (b"XX", b"YY"))}, "phase000,amplitude000")
    solutions("times", "does not ascend", good, change=lambda g: replace(g["phase000"], "time", rows.times[::-1]))
    solutions("axes", "another length", good, change=lambda g: replace(g["phase000"], "ant", np.array([b"a"], "S4")))
    solutions("antennas", "no antenna of the set", good, change=lambda g: replace(g["phase000"], "ant", np.array([b"Z%d" % i for i in range(len(rows.names))])))
    solutions("directions", "not in the list", good, change=lambda g: replace(g["phase000"], "dir", np.array([b"[x%d]" % i for i in range(5)])))
    solutions("kind", "unknown kind", {"phase000": ("spin", phase, ())})
    s.refused("another direction", 3, "no-solution-directions-check", *SIZE, "-facet-auto", 40, "-apply-facet-solutions",
              write_h5(s.path("good.h5"), rows, good), "phase000", path)
    s.refused("not HDF5", 3, "not an HDF5 file", *SIZE, "-facet-auto", 3, "-apply-facet-solutions", text("x" * 999, "bad.h5"), "phase000", path)
    s.refused("no solutions", 3, "none.h5: No such file", *SIZE, "-facet-auto", 3, "-apply-facet-solutions", s.path("none.h5"), "phase000", path)
    # Damaged files end in one line or in an image, never in a crash.
    with open(s.path("good.h5"), "rb") as f:
        whole = f.read()
    r = np.random.default_rng(1)
    n_read = 0
    for k in range(40):
        bad = bytearray(whole[:r.integers(1, len(whole))] if k % 4 == 0 else whole)
        for i in r.integers(0, min(len(bad), 4096 if k % 2 else len(bad)), 12):
            bad[i] = r.integers(256)
        with open(s.path("mutant.h5"), "wb") as f:
            f.write(bad)
        done = s.launch("-quiet", "-dry-run", *SIZE, "-facet-auto", 3, "-no-solution-directions-check", "-apply-facet-solutions", s.path("mutant.h5"), "phase000", path)
        n_read += done.returncode == 0
        if done.returncode not in (0, 3) or len(done.stderr.splitlines()) > 2:
            s.complain("mutant %d: exits %d: %s" % (k, done.returncode, done.stderr[-300:]))
    print("%d of 40 damaged files are read" % n_read)


def check_gpu(s):
    """Facets on a GPU make the images and predictions of the CPU."""
    base = base_set(s, "base.ms", "-pol", "XX,XY,YX,YY")
    answer = s.launch("-quiet", "-dry-run", "-backend", "cuda", *SIZE, base)
    if answer.returncode == 5:
        print("skipped: no GPU")
        sys.exit(77)
    s.must(answer.returncode == 0, "a dry run%s" % answer.stderr[-800:])
    path = fresh_copy(base, s.path("gpu.ms"))
    rows = Rows(path)
    sources = [(N // 2 + a, N // 2 + b, np.eye(2)) for a, b in DIRECTIONS]
    jones, tables = random_jones(rows, "diagonal")
    rows.put(rows.predict(sources, jones))
    h5 = write_h5(s.path("gpu.h5"), rows, tables)
    screens = Screens(rows)
    write_screen(s.path("tec.fits"), rows, screens.tec, 1)
    config = aterm_config(s, "gpu.txt", "aterms = tec\ntec.images = %s\n" % s.path("tec.fits"))
    for words, vis in ((("-facet-auto", directions_file(s), "-accuracy", 1e-5, "-apply-facet-solutions", h5, "amplitude000,phase000"), None),
                       (("-accuracy", 1e-4, "-aterm-config", config), screens.predict(("tec",), sources))):
        seen = []
        if vis is not None:
            rows.put(vis)
        # A GPU that is listed twice has half of the facets each time.
        for backend in (("-backend", "cpu"), ("-backend", "cuda"), ("-backend", "cuda", "-gpus", "0,0")):
            run(s, *words, *backend, *CLEAN, path)
            done = s.launch("-quiet", "-predict", "-name", "f", *backend, *words, path)
            s.must(done.returncode == 0, "%s: predicts%s" % (" ".join(backend), done.stderr[-800:]))
            with table(path, ack=False) as t:
                seen.append((pixels(s, "image-pb"), t.getcol("MODEL_DATA")))
        for other in seen[1:]:
            for what, a, b in zip(("images", "predictions"), seen[0], other):
                off = np.abs(a - b).max() / np.abs(a).max()
                s.must(off < 1e-3, "%s of both differ by %.1e" % (what, off))


main(ImagingSuite, globals(), if_named=("gpu",))
