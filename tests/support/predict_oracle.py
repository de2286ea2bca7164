#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Model images of a few pixels, their visibilities by the direct sum in double precision, and a check that a set is
unchanged. Written independently of the program, from the definitions: baselines and directions are vectors in
equatorial coordinates, so that centres may differ without any rotation of uvw. """
import hashlib
import os

import numpy as np
from astropy.io import fits
from casacore.tables import table

from image_oracle import ASEC, C, CORRELATIONS, axes
from program_suite import VLA, Suite

# The column is complex64: the relative rounding of each part is at most 2^-24.
COLUMN_FLOOR = 2.0**-24

STOKES_NUMBER = {"I": 1, "Q": 2, "U": 3, "V": 4, "RR": -1, "LL": -2, "XX": -5, "YY": -6, "XY": -7, "XYi": -7}
# The coherency matrix of each Stokes parameter.
HANDS = {"XX": {"I": 1, "Q": 1}, "XY": {"U": 1, "V": 1j}, "YX": {"U": 1, "V": -1j}, "YY": {"I": 1, "Q": -1},
         "RR": {"I": 1, "V": 1}, "RL": {"Q": 1, "U": 1j}, "LR": {"Q": 1, "U": -1j}, "LL": {"I": 1, "V": -1}}


class Model:
    """A few nonzero pixels at one frequency: flux[pol][k] Jy at pixel x[k], y[k]."""

    def __init__(self, size, cell_rad, centre_deg, pols="I", n=60, seed=1, crpix=None, freq=None, width=0.0):
        self.nx, self.ny = size
        self.cell, self.centre_deg = cell_rad, centre_deg
        self.crpix = crpix or (self.nx // 2 + 1, self.ny // 2 + 1)
        self.freq, self.width = freq, width
        lot = np.random.default_rng(seed)
        # Including the corners and the middles of the edges that are above the horizon.
        x = np.concatenate([[0, 0, self.nx - 1, self.nx - 1, self.nx // 2, 0], lot.integers(self.nx, size=n)])
        y = np.concatenate([[0, self.ny - 1, 0, self.ny - 1, 0, self.ny // 2], lot.integers(self.ny, size=n)])
        place = np.unique(np.stack([x, y]), axis=1)
        l, m = self.lm(*place)
        self.x, self.y = place[:, l * l + m * m < 0.999]
        self.flux = {p: (lot.normal(size=len(self.x)) if p != "I" else lot.uniform(0.1, 1, len(self.x))).astype(
            np.float32).astype(float) for p in pols}

    def lm(self, x, y):
        return (self.crpix[0] - 1 - x) * self.cell, (y - self.crpix[1] + 1) * self.cell

    def scaled(self, factor, freq, width=0.0):
        """The same pixels at another frequency."""
        other = object.__new__(Model)
        vars(other).update(vars(self))
        other.flux = {p: np.float32(f * factor).astype(float) for p, f in self.flux.items()}
        other.freq, other.width = freq, width
        return other

    def vectors(self):
        """Unit vectors of the pixels."""
        l, m = self.lm(self.x, self.y)
        e = axes(*np.radians(self.centre_deg))
        return np.stack([l, m, np.sqrt(1 - l * l - m * m)], 1) @ e

    def brightness(self, corr):
        """The coherency of the pixels in a correlation. Those of XY are complex, with the parts XY and XYi; the matrix is
        Hermitian."""
        if "XYi" in self.flux and corr in ("XY", "YX"):
            return self.flux["XY"] + (1j if corr == "XY" else -1j) * self.flux["XYi"]
        if corr in self.flux:
            return self.flux[corr]
        return sum((g * self.flux[s] for s, g in HANDS[corr].items() if s in self.flux), np.zeros(len(self.x)))

    def image(self, pol):
        data = np.zeros((self.ny, self.nx), np.float32)
        data[self.y, self.x] = self.flux[pol]
        return data

    def header(self, pol):
        h = fits.Header()
        deg = np.degrees(self.cell)
        for i, (ctype, crpix, crval, cdelt) in enumerate(
                [("RA---SIN", self.crpix[0], self.centre_deg[0], -deg), ("DEC--SIN", self.crpix[1], self.centre_deg[1], deg),
                 ("FREQ", 1, self.freq or 0, self.width), ("STOKES", 1, STOKES_NUMBER[pol], 1)], 1):
            if ctype == "FREQ" and not self.freq:
                ctype = "MATCH"
            h["CTYPE%d" % i], h["CRPIX%d" % i], h["CRVAL%d" % i], h["CDELT%d" % i] = ctype, crpix, float(crval), float(cdelt)
        h["BUNIT"], h["RADESYS"], h["EQUINOX"] = "Jy/pixel", "FK5", 2000.0
        return h

    def write(self, name, number=None):
        """NAME[-NNNN][-POL]-model.fits, with the polarisation in the name if there are several."""
        for pol in self.flux:
            middle = ("-%04d" % number if number is not None else "") + ("-" + pol if len(self.flux) > 1 else "")
            fits.PrimaryHDU(self.image(pol)[None, None], self.header(pol)).writeto(name + middle + "-model.fits",
                                                                                  overwrite=True)


class Set:
    """A set's coordinates, and the samples of a selection."""

    def __init__(self, path):
        self.path = path
        main = table(path, ack=False)
        self.uvw, self.time = main.getcol("UVW"), main.getcol("TIME")
        self.field, self.ddid = main.getcol("FIELD_ID"), main.getcol("DATA_DESC_ID")
        self.antenna = main.getcol("ANTENNA1"), main.getcol("ANTENNA2")
        self.centre = [d[0] for d in table(path + "/FIELD", ack=False).getcol("PHASE_DIR")]
        setup = table(path + "/DATA_DESCRIPTION", ack=False)
        spw, polarization = table(path + "/SPECTRAL_WINDOW", ack=False), table(path + "/POLARIZATION", ack=False)
        self.spw = [int(s) for s in setup.getcol("SPECTRAL_WINDOW_ID")]
        self.freq = [spw.getcell("CHAN_FREQ", s) for s in self.spw]
        names = {n: c for c, n in CORRELATIONS.items()}
        self.corr = [[names[t] for t in polarization.getcell("CORR_TYPE", int(p))] for p in setup.getcol("POLARIZATION_ID")]

    def column(self, name):
        """Cells by row: rows of different spectral windows differ in shape."""
        out = [None] * len(self.ddid)
        main = table(self.path, ack=False)
        for d in np.unique(self.ddid):
            rows = np.flatnonzero(self.ddid == d)
            for i, cell in zip(rows, main.selectrows(rows).getcol(name)):
                out[i] = cell
        return out

    def predict(self, models, at=lambda freq, freqs: [(int(np.argmin(np.abs(freqs - freq))), 1.0)]):
        """Predict every sample of every row. at(freq, freqs): (model, weight) pairs of a frequency."""
        models = models if isinstance(models, list) else [models]
        freqs = np.array([m.freq or 0 for m in models])
        out = [None] * len(self.uvw)
        vectors = models[0].vectors()
        for f in np.unique(self.field):
            e = axes(*self.centre[f])
            offset = vectors - e[2]
            for d in np.unique(self.ddid):
                rows = np.flatnonzero((self.field == f) & (self.ddid == d))
                if not len(rows):
                    continue
                path_m = (self.uvw[rows] @ e) @ offset.T
                values = np.zeros((len(rows), len(self.freq[d]), len(self.corr[d])), complex)
                for c, freq in enumerate(self.freq[d]):
                    turns = path_m * (freq / C)
                    kernel = np.exp(2j * np.pi * (turns - np.rint(turns)))
                    for k, corr in enumerate(self.corr[d]):
                        flux = sum(w * models[i].brightness(corr) for i, w in at(freq, freqs))
                        values[:, c, k] = kernel @ flux
                for i, row in enumerate(rows):
                    out[row] = values[i]
        return out

    def mask(self, rows=None, fields=None, spws=None, channels=None, interval=None, taql=None):
        """True for selected samples. channels: counted through the selected spws, ascending in frequency."""
        keep = np.ones(len(self.uvw), bool)
        keep &= np.isfinite(self.uvw).all(1)
        if rows is not None:
            keep &= rows
        if fields is not None:
            keep &= np.isin(self.field, fields)
        if interval:
            index = np.searchsorted(np.unique(self.time), self.time)
            keep &= (index >= interval[0]) & (index < interval[1])
        if taql:
            named = np.zeros(len(keep), bool)
            named[table(self.path, ack=False).query(taql).rownumbers()] = True
            keep &= named
        first, by_spw = 0, {}
        for s in sorted(set(self.spw) if spws is None else spws):
            freq = self.freq[self.spw.index(s)]
            number = first + np.argsort(np.argsort(freq))
            first += len(freq)
            by_spw[s] = np.ones(len(freq), bool) if not channels else (number >= channels[0]) & (number < channels[1])
        out = []
        for i, d in enumerate(self.ddid):
            chosen = by_spw.get(self.spw[d], np.zeros(len(self.freq[d]), bool))
            out.append(np.broadcast_to((chosen & keep[i])[:, None], (len(self.freq[d]), len(self.corr[d]))))
        return out


class PredictSuite(Suite):
    """Checks of predictions, in a folder with the models good-model.fits."""

    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        os.chdir(folder)
        self.model = Model((64, 64), 20 * ASEC, VLA)
        self.model.write("good")


def flat(cells):
    return np.concatenate([np.asarray(c).ravel() for c in cells])


def errors(got, want):
    """Relative L2 error, and the worst sample's relative to the rms."""
    got, want = flat(got).astype(complex), flat(want)
    rms = np.sqrt(np.mean(np.abs(want)**2))
    off = np.abs(got - want)
    return float(np.sqrt(np.mean(off**2)) / rms), float(off.max() / rms)


def _hash(*parts):
    h = hashlib.sha256()
    for p in parts:
        h.update(repr(p).encode() if not isinstance(p, bytes) else p)
    return h.hexdigest()


def _column(t, name):
    try:
        values = t.getcol(name)
        return [values.tobytes(), repr(values.shape)] if isinstance(values, np.ndarray) else [repr(values)]
    except RuntimeError:  # cells of several shapes, or without a value
        cells = (t.getcell(name, i) if t.iscelldefined(name, i) else None for i in range(t.nrows()))
        return [part for c in cells for part in ([c.tobytes(), repr(c.shape)] if isinstance(c, np.ndarray) else [repr(c)])]


def _columns(t, leave_out):
    # Keywords that refer to subtables contain their paths.
    here = os.path.dirname(t.name()) if "/" in t.name() else t.name()
    found = {}
    for name in t.colnames():
        if name not in leave_out:
            found["column " + name] = _hash(*_column(t, name))
            found["keywords of " + name] = _hash(repr(t.getcolkeywords(name)).replace(here, ""))
    found["keywords"] = _hash(sorted((k, repr(v).replace(t.name(), "").replace(here, "")) for k, v in t.getkeywords().items()
                                     if k != "MSIMAGE_PREDICT"))
    found["rows"] = t.nrows()
    return found


def contents(path, leave_out=()):
    """Hashes of every column, keyword and subtable of a set, except the columns named and the mark."""
    with table(path, ack=False) as t:
        found = _columns(t, leave_out)
    for name in sorted(os.listdir(path)):
        sub = os.path.join(path, name)
        if os.path.exists(os.path.join(sub, "table.dat")):
            with table(sub, ack=False) as t:
                found.update({name + " " + k: v for k, v in _columns(t, ()).items()})
    return found


def marked(path):
    with table(path, ack=False) as t:
        return "MSIMAGE_PREDICT" in t.keywordnames()
