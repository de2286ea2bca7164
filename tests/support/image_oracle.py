#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Direct Fourier sums over Measurement Sets in double precision, with which images are compared. Written independently
of the program, from the definitions: sets are read through python-casacore, baselines are vectors in equatorial
coordinates (so that fields with other phase centres and -shift need no rotation), Stokes parameters and weights follow
the documentation. A test that cannot import the required modules exits with 77. """
from program_suite import skip_without_modules

skip_without_modules("numpy", "astropy.io.fits", "casacore.tables")
import numpy as np
from astropy.io import fits
from casacore.tables import table

C = 299792458.0
ASEC = np.pi / 648000

# float32 pixels: the relative error of each is at most 2^-24, and so is their relative L2 error.
FITS_FLOOR = 2.0**-24

CORRELATIONS = {"RR": 5, "RL": 6, "LR": 7, "LL": 8, "XX": 9, "XY": 10, "YX": 11, "YY": 12}
# Stokes parameters as sums of factor * correlation; None: a set with only one parallel hand.
STOKES = {
    "linear": {"I": (("XX", 0.5), ("YY", 0.5)), "Q": (("XX", 0.5), ("YY", -0.5)),
               "U": (("XY", 0.5), ("YX", 0.5)), "V": (("XY", -0.5j), ("YX", 0.5j))},
    "circular": {"I": (("RR", 0.5), ("LL", 0.5)), "Q": (("RL", 0.5), ("LR", 0.5)),
                 "U": (("RL", -0.5j), ("LR", 0.5j)), "V": (("RR", 0.5), ("LL", -0.5))},
}


def axes(ra, dec):
    """Unit vectors to the east, the north and the centre."""
    return np.array([[-np.sin(ra), np.cos(ra), 0],
                     [-np.sin(dec) * np.cos(ra), -np.sin(dec) * np.sin(ra), np.cos(dec)],
                     [np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)]])


def sky(l, m, ra0, dec0):
    """Right ascension and declination of l, m on the SIN plane about a centre; all in radians."""
    x, y, z = np.array([l, m, np.sqrt(1 - l * l - m * m)]) @ axes(ra0, dec0)
    return np.arctan2(y, x) % (2 * np.pi), np.arcsin(z)


def mixture(pol, present):
    """(correlation, factor) pairs of an image plane; XYi is the imaginary part of the image of XY."""
    if pol.rstrip("i") in present:
        return ((pol.rstrip("i"), -1j if pol.endswith("i") else 1),)
    for recipe in STOKES.values():
        parts = recipe[pol]
        if all(c in present for c, _ in parts):
            return parts
        there = [c for c, _ in parts if c in present]
        if pol == "I" and there:
            return ((there[0], 1),)
    raise ValueError("%s of %s" % (pol, present))


class Samples:
    """Visibilities of one image plane with all that is needed to sum them anywhere on the sky."""

    def __init__(self):
        self.baseline = np.zeros((0, 3))  # wavelengths, equatorial axes
        self.centre = np.zeros((0, 3))  # unit vector of the phase centre
        self.uv = np.zeros(0)  # distance as stored, wavelengths
        self.stored = np.zeros((0, 2))  # u, v as stored, wavelengths
        self.vis = np.zeros(0, complex)
        self.weight = np.zeros(0)
        self.freq = np.zeros(0)
        self.time = np.zeros(0)

    def take(self, which):
        out = Samples()
        for name, value in vars(self).items():
            setattr(out, name, value[which])
        return out

    def append(self, **arrays):
        for name, value in arrays.items():
            setattr(self, name, np.concatenate([getattr(self, name), value]))


def read(paths, pol="I", column=None, fields=(0,), spws=None, channels=None, interval=None, taql=None, min_uv=0,
         max_uv=np.inf, mean_weight=False, steps=None):
    """The samples of an image of these sets, without the limits of its uv grid.

    fields None: all. channels, interval: begin, end (exclusive). steps: 0 for even time steps, 1 for odd ones. taql: a condition on rows. mean_weight: the mean
    of the correlations' weights, not the smallest.
    """
    out = Samples()
    for path in [paths] if isinstance(paths, str) else paths:
        main = table(path, ack=False)
        name = column or ("CORRECTED_DATA" if "CORRECTED_DATA" in main.colnames() else "DATA")
        spw, setup = table(path + "/SPECTRAL_WINDOW", ack=False), table(path + "/DATA_DESCRIPTION", ack=False)
        polarization, field = table(path + "/POLARIZATION", ack=False), table(path + "/FIELD", ack=False)
        times = np.unique(main.getcol("TIME"))
        first_channel = 0
        ids = sorted({int(s) for s in setup.getcol("SPECTRAL_WINDOW_ID")} if spws is None else spws)
        for spw_id in ids:
            freq = spw.getcell("CHAN_FREQ", spw_id)
            number = first_channel + np.argsort(np.argsort(freq))  # of each stored channel, ascending in frequency
            first_channel += len(freq)
            wanted = np.ones(len(freq), bool)
            if channels:
                wanted = (number >= channels[0]) & (number < channels[1])
            for dd in np.flatnonzero(setup.getcol("SPECTRAL_WINDOW_ID") == spw_id):
                where = "DATA_DESC_ID==%d && ANTENNA1!=ANTENNA2 && !FLAG_ROW" % dd
                rows = main.query(where + (" && (%s)" % taql if taql else ""))
                if not rows.nrows():
                    continue
                rows = rows.selectrows(np.flatnonzero(_row_mask(rows, fields, times, interval, steps)))
                if rows.nrows() and wanted.any():
                    types = polarization.getcell("CORR_TYPE", setup.getcell("POLARIZATION_ID", int(dd)))
                    present = [c for t in types for c, n in CORRELATIONS.items() if n == t]
                    _append(out, rows, name, freq, wanted, mixture(pol, present), present, field, (min_uv, max_uv),
                            mean_weight)
    return out


def lacked(planes):
    """The samples that are missing in the first of several image planes, as in the first plane that has them."""
    seen, parts = {b.tobytes() for b in planes[0].baseline}, Samples()
    for plane in planes[1:]:
        part = plane.take(np.array([b.tobytes() not in seen for b in plane.baseline], bool))
        seen |= {b.tobytes() for b in part.baseline}
        parts.append(**vars(part))
    return parts


def _row_mask(rows, fields, times, interval, steps):
    keep = np.ones(rows.nrows(), bool)
    if fields is not None:
        keep &= np.isin(rows.getcol("FIELD_ID"), fields)
    if interval:
        index = np.searchsorted(times, rows.getcol("TIME"))
        keep &= (index >= interval[0]) & (index < interval[1])
    if steps is not None:
        keep &= np.searchsorted(times, rows.getcol("TIME")) % 2 == steps
    return keep


def _weights(rows, n_chan):
    weight = np.repeat(rows.getcol("WEIGHT")[:, None, :], n_chan, 1).astype(float)
    if "WEIGHT_SPECTRUM" in rows.colnames():
        defined = [i for i in range(rows.nrows()) if rows.iscelldefined("WEIGHT_SPECTRUM", i)]
        if len(defined) == rows.nrows():
            return rows.getcol("WEIGHT_SPECTRUM").astype(float)
        for i in defined:
            weight[i] = rows.getcell("WEIGHT_SPECTRUM", i)
    return weight


def _append(out, rows, column, freq, wanted, parts, present, field, uv_limits, mean_weight):
    at = [present.index(c) for c, _ in parts]
    data = rows.getcol(column)[:, wanted][..., at].astype(complex)
    flag = rows.getcol("FLAG")[:, wanted][..., at]
    weight = _weights(rows, len(freq))[:, wanted][..., at]
    uvw_m = rows.getcol("UVW")
    with np.errstate(invalid="ignore", over="ignore"):
        keep = ~flag.any(-1) & (np.isfinite(weight) & (weight > 0)).all(-1)
        keep &= ((np.abs(data.real) <= 1e30) & (np.abs(data.imag) <= 1e30)).all(-1)
        keep &= (np.isfinite(uvw_m) & (np.abs(uvw_m) < 1e12)).all(-1)[:, None]
        scale = freq[wanted] / C
        uv = np.hypot(uvw_m[:, 0], uvw_m[:, 1])[:, None] * scale
        keep &= (uv >= uv_limits[0]) & (uv <= uv_limits[1])
    row, chan = np.nonzero(keep)
    ids = rows.getcol("FIELD_ID")[row]
    centre, baseline = np.zeros((len(row), 3)), np.zeros((len(row), 3))
    for i in np.unique(ids):
        ra, dec = field.getcell("PHASE_DIR", int(i))[0]
        here = ids == i
        centre[here] = axes(ra, dec)[2]
        baseline[here] = uvw_m[row[here]] @ axes(ra, dec) * scale[chan[here], None]
    factors = np.array([f for _, f in parts])
    out.append(baseline=baseline, centre=centre, uv=uv[keep], stored=uvw_m[row, :2] * scale[chan, None], vis=(data[keep] * factors).sum(-1),
               weight=weight[keep].mean(-1) if mean_weight else weight[keep].min(-1), freq=freq[wanted][chan], time=rows.getcol("TIME")[row])


def limited(factor, level, size):
    """Factors of cells, at most level times their mean over the cells around that have one."""
    out, half = factor.copy(), size // 2
    for y, x in np.argwhere(factor > 0):
        around = factor[max(0, y - half):y + half, max(0, x - half):x + half]
        out[y, x] = min(factor[y, x], level * around[around > 0].mean())
    return out


class Frame:
    """An image's pixels on the sky: size, pixel size in radians, centre in radians."""

    def __init__(self, nx, ny, cell, ra, dec):
        self.nx, self.ny, self.cell = nx, ny, cell
        self.axes, self.ra, self.dec = axes(ra, dec), ra, dec

    def lm(self, x, y):
        return (self.nx // 2 - np.asarray(x)) * self.cell, (np.asarray(y) - self.ny // 2) * self.cell

    def sky(self, x, y):
        return sky(*self.lm(x, y), self.ra, self.dec)

    def inside(self, samples):
        """The samples within the uv plane of pixels of this size."""
        uv = samples.baseline @ self.axes[:2].T
        return samples.take((np.abs(uv) * self.cell <= 0.5).all(1))

    def cells(self, samples, padding=1.0, super_weight=1.0):
        """Column and row of each sample's cell on the whole uv grid of density weights, and the grid's size.

        A sample and its mirror image are equivalent: the one with v > 0 is used, or with u >= 0 on v = 0. The grid is
        that of an image padding times as large, raised to a multiple of 4; super_weight makes its cells larger. Cells
        are floors; the far edge belongs to the last cell. So the mirror image of cell k is cell -1 - k. """
        u, v = (samples.baseline @ self.axes[:2].T).T
        # Without a rotation zeros are exact.
        unturned = np.abs(samples.centre - self.axes[2]).max(1) < 1e-12
        u, v = np.where(unturned, samples.stored[:, 0], u), np.where(unturned, samples.stored[:, 1], v)
        mirror = (v < 0) | ((v == 0) & (u < 0))
        sign = np.where(mirror, -1, 1)
        size = []
        for n in (self.nx, self.ny):
            n = n if padding == 1 else -(-int(np.ceil(padding * n)) // 4) * 4
            n = int(np.rint(n / super_weight))
            size.append(n + n % 2)
        column = np.minimum(np.floor(sign * u * self.cell * size[0]), size[0] // 2 - 1).astype(np.int64) + size[0] // 2
        row = np.minimum(np.floor(sign * v * self.cell * size[1]), size[1] // 2 - 1).astype(np.int64) + size[1] // 2
        return column, row, size

    def centred_cells(self, samples):
        """Indices of the sums of weights of each sample's cell, and the sums: cell k is from k - 1/2 to k + 1/2. A sample counts
        in its cell and in that of its mirror image."""
        k = np.rint(samples.stored * self.cell * [self.nx, self.ny]).astype(np.int64)
        size = 2 * np.abs(k).max() + 1
        grid = np.zeros((size, size))
        for sign in (1, -1):
            np.add.at(grid, (sign * k[:, 1], sign * k[:, 0]), samples.weight)
        return (k[:, 1], k[:, 0]), grid

    def plane(self, samples, weight, padding=1.0, super_weight=1.0):
        """The weights summed on the whole uv grid [v, u]: each sample in its cell, and in the mirror image of it."""
        column, row, (nu, nv) = self.cells(samples, padding, super_weight)
        grid = np.zeros((nv, nu))
        np.add.at(grid, (row, column), weight)
        np.add.at(grid, (nv - 1 - row, nu - 1 - column), weight)
        return grid

    def weigh(self, samples, mode, robust=0.0, taper=0.0, padding=1.0, super_weight=1.0, density_of=None, rank=None,
              rest=None):
        """Weights after density weighting and taper; densities are those of other samples if density_of is given.

        rest: samples that make the densities of cells in which those samples have no density.

        rank (level, size): a cell's factor is at most level times the mean of the factors that are not 0 around it.

        If the density of a sample's cell is 0, Briggs does not change its weight, and uniform drops the sample.
        """
        weight = samples.weight.copy()
        if mode != "natural":
            source = samples if density_of is None else density_of
            grid = self.plane(source, source.weight, padding, super_weight)
            column, row, _ = self.cells(samples, padding, super_weight)
            # Only one half of the plane is summed, since each half has all samples.
            mean = 0 if mode == "uniform" else (grid**2).sum() / 2 / source.weight.sum()
            if rest is not None:
                grid = np.where(grid > 0, grid, self.plane(rest, rest.weight, padding, super_weight))
            if mode == "uniform":
                factor = np.divide(1, grid, out=np.zeros_like(grid), where=grid > 0)
            else:
                s2 = (5 * 10**-robust)**2 / mean
                factor = 1 / (1 + grid * s2)
            if rank:
                half = len(grid) // 2  # cells of samples are in the half v >= 0
                factor[half:] = limited(factor[half:], *rank)
            weight = weight * factor[row, column]
        if taper:
            u, v = (samples.baseline @ self.axes[:2].T).T
            weight *= np.exp(-(np.pi * taper)**2 / (4 * np.log(2)) * (u * u + v * v))
        return weight

    def image(self, samples, x, y, weight=None, psf=False):
        """sum W V exp(-2 pi i b.(s - s0)) / sum W at pixels x, y: the real part."""
        weight = samples.weight if weight is None else weight
        vis = np.ones(len(weight), complex) if psf else samples.vis
        b = samples.baseline @ self.axes.T
        to_centre = np.zeros(len(weight)) if psf else (samples.baseline * (self.axes[2] - samples.centre)).sum(1)
        # Re(V exp(i phase)) = |V| cos(arg V + phase): one function of each sample and pixel.
        size, argument = weight * np.abs(vis), np.angle(vis)
        out = np.zeros(len(x))
        for k, (l, m) in enumerate(zip(*self.lm(x, y))):
            r2 = l * l + m * m
            if r2 >= 1:
                out[k] = np.nan
                continue
            turns = b @ np.array([l, m, -r2 / (1 + np.sqrt(1 - r2))]) + to_centre
            out[k] = (size * np.cos(argument - 2 * np.pi * (turns - np.rint(turns)))).sum()
        return out / weight.sum()


def pixels(nx, ny, extra=(), n_random=27, seed=5):
    """Corners, middles of the edges, the centre, the given ones, and some random ones."""
    chosen = [(x, y) for x in (0, nx // 2, nx - 1) for y in (0, ny // 2, ny - 1)] + list(extra)
    lot = np.random.default_rng(seed)
    chosen += [(int(lot.integers(nx)), int(lot.integers(ny))) for _ in range(n_random)]
    x, y = np.array(sorted(set(chosen))).T
    return x, y


def relative_error(got, want):
    """Relative L2 difference; infinite if only one value is NaN somewhere."""
    got, want = np.asarray(got, float), np.asarray(want, float)
    if (np.isnan(got) != np.isnan(want)).any():
        return np.inf
    return float(np.sqrt(np.nansum((got - want)**2) / np.nansum(want**2)))


def peak_error(got, want, image):
    """Largest difference relative to the image's peak; infinite if only one value is NaN somewhere."""
    if (np.isnan(got) != np.isnan(want)).any():
        return np.inf
    return float(np.nanmax(np.abs(got - want)) / np.nanmax(np.abs(image)))


def load(name):
    """Pixels [y, x] in double precision, and the header."""
    with fits.open(name) as f:
        return np.squeeze(f[0].data).astype(float), f[0].header
