# SPDX-License-Identifier: GPL-3.0-or-later
"""Write FITS-IDI files of Measurement Sets, and read and change UVFITS files, with astropy, apart from the program."""
import io
import warnings

import numpy as np
from astropy.io import fits
from casacore.tables import table

C = 299792458.0
DAY_S = 86400.0
STOKES = {5: -1, 8: -2, 6: -3, 7: -4, 9: -5, 12: -6, 10: -7, 11: -8, 1: 1, 2: 2, 3: 3, 4: 4}


class Parts:
    """What the subtables of a set hold."""

    def __init__(self, path):
        def column(name, column):
            with table(path + "/" + name, ack=False) as t:
                return t.getcol(column)
        self.antenna, self.position = column("ANTENNA", "NAME"), column("ANTENNA", "POSITION")
        self.field, self.centre = column("FIELD", "NAME"), np.degrees(column("FIELD", "PHASE_DIR")[:, 0] % (2 * np.pi))
        self.freq, self.width = column("SPECTRAL_WINDOW", "CHAN_FREQ"), column("SPECTRAL_WINDOW", "CHAN_WIDTH")
        self.telescope = column("OBSERVATION", "TELESCOPE_NAME")[0]
        self.stokes = [STOKES[c] for c in column("POLARIZATION", "CORR_TYPE")[0]]


class Groups:
    """The groups of a UVFITS file in double precision: every parameter with its scale and zero, dates as MJD seconds."""

    def __init__(self, path):
        with fits.open(path) as f:
            h, data = f[0].header, f[0].data
            self.header, self.n = h, h["GCOUNT"]
            raw = np.array([data.field(i) for i in range(h["PCOUNT"])], np.float64)
            names = [h["PTYPE%d" % (i + 1)] for i in range(h["PCOUNT"])]
            self.uvw_m = np.stack([raw[names.index(n)] for n in ("UU", "VV", "WW")], axis=1) * C
            first, second = [i for i, n in enumerate(names) if n == "DATE"]
            zero = h["PZERO%d" % (first + 1)]
            # The zero is added in double precision, which holds a Julian date to 40 us: the parts are added without it.
            self.time_s = (data.field(first) - zero + data.field(second) + (zero - 2400000.5)) * DAY_S
            self.names, self.raw = names, raw
            sample = np.array(data.data, np.float64)  # [group][dec][ra][if][freq][stokes][3]
            self.vis = sample[:, 0, 0, ..., 0] + 1j * sample[:, 0, 0, ..., 1]
            self.weight = sample[:, 0, 0, ..., 2]
            self.tables = {t.name: (t.data.copy(), t.header.copy()) for t in f[1:]}

    def parameter(self, name):
        return self.raw[self.names.index(name)]


class Raw:
    """A UVFITS file in pieces that can be changed: header, parameters [group][parameter] and samples [group][.. axes, the
    fastest last] of float32, and tables."""

    def __init__(self, path):
        with fits.open(path) as f:
            self.header, at = f[0].header.copy(), f[0].fileinfo()["datLoc"]
            self.tables = [fits.BinTableHDU(t.data.copy(), t.header.copy()) for t in f[1:]]
        h = self.header
        shape = [h["NAXIS%d" % i] for i in range(h["NAXIS"], 1, -1)]
        with open(path, "rb") as f:
            f.seek(at)
            values = np.frombuffer(f.read(4 * h["GCOUNT"] * (h["PCOUNT"] + int(np.prod(shape)))), ">f4").reshape(h["GCOUNT"], -1)
        self.parameters, self.samples = values[:, :h["PCOUNT"]].copy(), values[:, h["PCOUNT"]:].reshape(-1, *shape).copy()

    def add(self, name, values):
        """A parameter behind the others."""
        h = self.header
        h["PCOUNT"] += 1
        n = h["PCOUNT"]
        h["PTYPE%d" % n], h["PSCAL%d" % n], h["PZERO%d" % n] = name, 1.0, 0.0
        self.parameters = np.column_stack([self.parameters, values])

    def order(self, names):
        """Axes in another order, the fastest first."""
        h, old = self.header, [self.header["CTYPE%d" % i] for i in range(2, self.header["NAXIS"] + 1)]
        cards = {n: [h[k % (i + 2)] for k in ("NAXIS%d", "CTYPE%d", "CRVAL%d", "CDELT%d", "CRPIX%d")] for i, n in enumerate(old)}
        self.samples = self.samples.transpose([0, *(1 + old[::-1].index(n) for n in names[::-1])])
        for i, n in enumerate(names, 2):
            for k, value in zip(("NAXIS%d", "CTYPE%d", "CRVAL%d", "CDELT%d", "CRPIX%d"), cards[n]):
                h[k % i] = value

    def write(self, path):
        h = self.header
        h["GCOUNT"] = len(self.parameters)
        for i, n in enumerate(self.samples.shape[:0:-1], 2):
            h["NAXIS%d" % i] = n
        groups = np.column_stack([self.parameters, self.samples.reshape(len(self.samples), -1)]).astype(">f4").tobytes()
        with open(path, "wb") as f:
            f.write(h.tostring(padding=True).encode() + groups + bytes(-len(groups) % 2880))
            for t in self.tables:
                tables = io.BytesIO()
                fits.HDUList([fits.PrimaryHDU(), t]).writeto(tables)
                f.write(tables.getvalue()[2880:])
        return path


def idi_header(p, n_band, n_chan, first_hz, day):
    """What every table of a FITS-IDI file repeats (AIPS Memo 114, table 3)."""
    return {"TABREV": 1, "NO_STKD": len(p.stokes), "STK_1": p.stokes[0], "NO_BAND": n_band, "NO_CHAN": n_chan,
            "REF_FREQ": first_hz, "CHAN_BW": p.width[0][0], "REF_PIXL": 1.0, "OBSCODE": "TEST", "RDATE": day,
            "ARRAY": 1, "FREQID": 1}


def idi_table(name, header, columns):
    t = fits.BinTableHDU.from_columns([fits.Column(name=n, format=f, array=a, unit=u) for n, f, u, a in columns], name=name)
    for key, value in header.items():
        t.header[key] = value
    t.header["EXTVER"] = 1
    return t


def idi_tables(p, header, first_hz, lines_hz):
    """Antennas, sources and frequencies (AIPS Memo 114, sections 4 and 5)."""
    n, n_band, n_field = len(p.antenna), len(p.freq), len(p.field)
    band = lambda value, kind: np.tile(np.asarray(value, kind), (n_field, n_band // np.size(value) if np.size(value) < n_band else 1))
    geometry = {**header, "ARRNAM": p.telescope, "FRAME": "GEOCENTRIC", "ARRAYX": 0.0, "ARRAYY": 0.0, "ARRAYZ": 0.0,
                "NUMORB": 0, "FREQ": first_hz, "TIMSYS": "UTC", "GSTIA0": 0.0, "DEGPDY": 360.98564736629, "UT1UTC": 0.0,
                "IATUTC": 0.0, "POLARX": 0.0, "POLARY": 0.0}
    numbers = np.arange(1, n + 1, dtype=np.int32)
    names = np.array([a[:8] for a in p.antenna])
    is_linear = p.stokes[0] <= -5
    yield idi_table("ARRAY_GEOMETRY", geometry, [
        ("ANNAME", "8A", None, names), ("STABXYZ", "3D", "METERS", p.position), ("DERXYZ", "3E", "METERS/S", np.zeros((n, 3))),
        ("ORBPARM", "0D", None, np.zeros((n, 0))), ("NOSTA", "1J", None, numbers), ("MNTSTA", "1J", None, np.zeros(n)),
        ("STAXOF", "3E", "METERS", np.zeros((n, 3)))])
    yield idi_table("SOURCE", header, [
        ("SOURCE_ID", "1J", None, np.arange(1, n_field + 1)), ("SOURCE", "16A", None, np.array([f[:16] for f in p.field])),
        ("QUAL", "1J", None, np.zeros(n_field)), ("CALCODE", "4A", None, np.array([""] * n_field)),
        ("FREQID", "1J", None, np.ones(n_field)), *[(x + "FLUX", "%dE" % n_band, "JY", band(0, "f4")) for x in "IQUV"],
        ("ALPHA", "%dE" % n_band, None, band(0, "f4")), ("FREQOFF", "%dE" % n_band, "HZ", band(0, "f4")),
        ("RAEPO", "1D", "DEGREES", p.centre[:, 0]), ("DECEPO", "1D", "DEGREES", p.centre[:, 1]),
        ("EQUINOX", "8A", None, np.array(["J2000"] * n_field)), ("RAAPP", "1D", "DEGREES", p.centre[:, 0]),
        ("DECAPP", "1D", "DEGREES", p.centre[:, 1]), ("SYSVEL", "%dD" % n_band, "M/S", band(0, "f8")),
        ("VELTYP", "8A", None, np.array(["GEOCENTR"] * n_field)), ("VELDEF", "8A", None, np.array(["RADIO"] * n_field)),
        ("RESTFREQ", "%dD" % n_band, "HZ", np.repeat(np.reshape(lines_hz, (n_field, 1)), n_band, axis=1)), ("PMRA", "1D", "DEG/DAY", np.zeros(n_field)),
        ("PMDEC", "1D", "DEG/DAY", np.zeros(n_field)), ("PARALLAX", "1E", "ARCSEC", np.zeros(n_field))])
    yield idi_table("FREQUENCY", header, [
        ("FREQID", "1J", None, np.ones(1)), ("BANDFREQ", "%dD" % n_band, "HZ", [[f[0] - first_hz for f in p.freq]]),
        ("CH_WIDTH", "%dE" % n_band, "HZ", [[w[0] for w in p.width]]),
        ("TOTAL_BANDWIDTH", "%dE" % n_band, "HZ", [[w.sum() for w in p.width]]),
        ("SIDEBAND", "%dJ" % n_band, None, [[1] * n_band])])
    yield idi_table("ANTENNA", {**header, "NOPCAL": 0, "POLTYPE": "APPROX"}, [
        ("TIME", "1D", "DAYS", np.zeros(n)), ("TIME_INTERVAL", "1E", "DAYS", np.ones(n)), ("ANNAME", "8A", None, names),
        ("ANTENNA_NO", "1J", None, numbers), ("ARRAY", "1J", None, np.ones(n)), ("FREQID", "1J", None, np.ones(n)),
        ("NO_LEVELS", "1J", None, np.full(n, 4)), ("POLTYA", "1A", None, np.array(["X" if is_linear else "R"] * n)),
        ("POLAA", "%dE" % n_band, "DEGREES", np.zeros((n, n_band))), ("POLCALA", "0E", None, np.zeros((n, 0))),
        ("POLTYB", "1A", None, np.array(["Y" if is_linear else "L"] * n)),
        ("POLAB", "%dE" % n_band, "DEGREES", np.zeros((n, n_band))), ("POLCALB", "0E", None, np.zeros((n, 0)))])


def write_idi(rows, path, out, lines_hz=None):
    """The rows of a set (convert_oracle.Rows) as FITS-IDI: a band for each window, a weight for each band and correlation,
    negative where the first channel is flagged; lines_hz: the rest frequency of each field, of none given the first channel's. Phases have the sign of correlators, the opposite of UVFITS and sets: AIPS's
    FITLD and casacore conjugate them."""
    p = Parts(path)
    order = sorted(range(len(p.stokes)), key=lambda i: abs(p.stokes[i]))
    p.stokes = [p.stokes[i] for i in order]
    n_band, n_chan, n_corr, first_hz = len(p.freq), len(p.freq[0]), len(order), float(p.freq[0][0])
    day_mjd = np.floor(rows.TIME.min() / DAY_S)
    day = fits.Card("DATE", str(np.datetime64("1858-11-17") + np.timedelta64(int(day_mjd), "D"))).value
    header = idi_header(p, n_band, n_chan, first_hz, day)
    keys = sorted({(rows.TIME[i], rows.ANTENNA1[i], rows.ANTENNA2[i], rows.FIELD_ID[i]) for i in range(rows.n)})
    at = {k: i for i, k in enumerate(keys)}
    flux = np.zeros((len(keys), n_band, n_chan, n_corr, 2), np.float32)
    weight = np.zeros((len(keys), n_band, n_corr), np.float32)
    uvw_s, exposure = np.zeros((len(keys), 3), np.float32), np.zeros(len(keys), np.float32)
    for i in range(rows.n):
        g, w = at[(rows.TIME[i], rows.ANTENNA1[i], rows.ANTENNA2[i], rows.FIELD_ID[i])], rows.window[rows.DATA_DESC_ID[i]]
        v = rows.data[i][:, order].conj()
        flux[g, w, :, :, 0], flux[g, w, :, :, 1] = v.real, v.imag
        bad = rows.flag[i][0, order] | rows.FLAG_ROW[i]
        weight[g, w] = np.where(bad, -1, 1) * rows.weight[i][0, order]
        uvw_s[g], exposure[g] = rows.UVW[i] / C, rows.EXPOSURE[i]
    time_s, first, second, field = (np.array([k[j] for k in keys]) for j in range(4))
    uv = {**header, "TABREV": 2, "NMATRIX": 1, "MAXIS": 6, "TELESCOP": p.telescope, "OBSERVER": "TEST", "SORT": "TB",
          "DATE-OBS": day, "WEIGHTYP": "NORMAL", "VIS_SCAL": 1.0, "VIS_CAL": "CALIB"}
    axes = (("COMPLEX", 2, 1.0, 1.0), ("STOKES", n_corr, p.stokes[0], p.stokes[1] - p.stokes[0] if n_corr > 1 else -1),
            ("FREQ", n_chan, first_hz, float(p.width[0][0])), ("BAND", n_band, 1.0, 1.0),
            ("RA", 1, float(p.centre[0, 0]), 1.0), ("DEC", 1, float(p.centre[0, 1]), 1.0))
    columns = [(n, "1E", "SECONDS", uvw_s[:, k]) for k, n in enumerate(("UU", "VV", "WW"))]
    columns += [("DATE", "1D", "DAYS", np.full(len(keys), day_mjd + 2400000.5)), ("TIME", "1D", "DAYS", time_s / DAY_S - day_mjd),
                ("BASELINE", "1J", None, 256 * (first + 1) + second + 1), ("SOURCE", "1J", None, field + 1),
                ("FREQID", "1J", None, np.ones(len(keys))), ("INTTIM", "1E", "SECONDS", exposure),
                ("WEIGHT", "%dE" % (n_band * n_corr), None, weight.reshape(len(keys), -1)),
                ("FLUX", "%dE" % flux[0].size, "JY", flux.reshape(len(keys), -1))]
    for i, (name, n, value, step) in enumerate(axes, 1):
        uv.update({"MAXIS%d" % i: n, "CTYPE%d" % i: name, "CRVAL%d" % i: value, "CDELT%d" % i: step, "CRPIX%d" % i: 1.0})
    uv["TMATX%02d" % len(columns)] = True
    primary = fits.PrimaryHDU()
    for key, value in (("GROUPS", True), ("GCOUNT", 0), ("PCOUNT", 0), ("OBJECT", "BINARYTB"), ("TELESCOP", p.telescope),
                       ("CORRELAT", "TEST"), ("DATE-OBS", day)):
        primary.header[key] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns of no values, which the format demands
        fits.HDUList([primary, *idi_tables(p, header, first_hz, lines_hz or [first_hz] * len(p.field)), idi_table("UV_DATA", uv, columns)]).writeto(out, overwrite=True)
