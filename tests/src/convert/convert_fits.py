#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_fits.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: sets are exported to UVFITS that astropy reads
correctly, UVFITS and FITS-IDI files written by astropy are imported, and data that a format cannot hold are refused or reported."""
import gzip
import os
import re
import shutil
import subprocess
import warnings

import numpy as np
from astropy.io import fits
from casacore.tables import makearrcoldesc, makescacoldesc, maketabdesc, table

from convert_oracle import C, Convert, Rows, peak
from program_suite import files, fresh_copy, main, may_trace, with_small_files
from uv_compare import DATE_S, FLOAT, ascending, compare, sorted_rows
from uv_files import Groups, Parts, Raw, write_idi

VLA = ["-telescope", "vla", "-config", "D", "-ra", "60deg", "-dec", "44deg", "-integration", "10s", "-duration", "40s"]
RICH = [*VLA, "-spw", "1.4GHz", "1MHz", 6, "-spw", "1.5GHz", "-1MHz", 6, "-flags", 0.2, "-flag-rows", 0.1, "-autocorrelations",
        "-noise", "1Jy", "-source", "60.1deg", "44.05deg", "1Jy", "-weights", "radiometer", "-weight-spectrum", "partly"]
IMAGE = ["-size", 128, 128, "-scale", "15asec", "-field", "all"]


def say(s, *words):
    """Convert, and return the log."""
    return s.convert(*words).stderr.decode(errors="replace")


def check_round_trip(s):
    """A set exported to UVFITS and imported again has the same rows, antennas, fields and images."""
    a = s.made("round.ms", *RICH)
    told = say(s, a, "round.uvfits")
    s.must("groups of 2 windows" in told and "warning" not in told, "nothing is lost: " + told.splitlines()[-2])
    back = say(s, "round.uvfits", "back.ms")
    s.must("casacore: " not in back, "casacore warns of nothing")
    x, y = Rows(a), Rows("back.ms")
    compare(s, "round trip", x, y)
    s.must((y.ANTENNA1 == y.ANTENNA2).any(), "autocorrelations survive")
    p, q = Parts(a), Parts("back.ms")
    s.must(list(p.antenna) == list(q.antenna) and np.array_equal(p.position, q.position), "antennas")
    s.must(list(p.field) == list(q.field) and np.allclose(p.centre, q.centre, rtol=0, atol=1e-12), "the phase centre")
    want, got = s.image(a, "want", *IMAGE), s.image("back.ms", "got", *IMAGE)
    s.must(abs(got - want).max() <= 1e-6 * abs(want).max(), "its image, to %.2g of the peak" %
           (abs(got - want).max() / abs(want).max()))
    s.convert("-quiet", "back.ms", "again.uvfits")
    one, two = Groups("round.uvfits"), Groups("again.uvfits")
    s.must(np.array_equal(one.weight, two.weight) and np.array_equal(one.vis, two.vis) and
           np.array_equal(one.parameter("UU"), two.parameter("UU")), "a second trip changes nothing")


def check_astropy(s):
    """astropy reads groups and tables, and each sample is where the format requires it."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    g, x, p = Groups("round.uvfits"), Rows(a), Parts(a)
    h = g.header
    s.must([h["CTYPE%d" % i] for i in range(2, 8)] == ["COMPLEX", "STOKES", "FREQ", "IF", "RA", "DEC"], "axes")
    s.must(h["CRVAL3"] == -1 and h["CDELT3"] == -1 and h["NAXIS3"] == 4 and h["CRPIX4"] == 1 and h["CDELT4"] == 1e6, "STOKES")
    s.must(abs(h["CRVAL6"] - 60) < 1e-12 and abs(h["CRVAL7"] - 44) < 1e-12 and h["EQUINOX"] == 2000, "RA, DEC")
    at = {}
    for k in range(g.n):
        first, second = divmod(int(g.parameter("BASELINE")[k]), 256)
        at[(first - 1, second - 1, round(g.time_s[k] / 10))] = k
    order = [p.stokes.index(c) for c in (-1, -2, -3, -4)]
    bad = 0
    for i in range(x.n):
        k, w = at[(x.ANTENNA1[i], x.ANTENNA2[i], round(x.TIME[i] / 10))], x.window[x.DATA_DESC_ID[i]]
        flag = ascending(x, i, x.flag[i] | x.FLAG_ROW[i])[:, order]
        weight = ascending(x, i, np.asarray(x.weight[i]))[:, order]
        bad += not (np.array_equal(ascending(x, i, x.data[i])[:, order], g.vis[k, w]) and
                    np.array_equal(np.where(flag, -1, 1) * weight, g.weight[k, w]) and
                    np.all(abs(g.uvw_m[k] - x.UVW[i]) <= FLOAT * abs(x.UVW[i])) and abs(g.time_s[k] - x.TIME[i]) <= DATE_S)
    s.must(bad == 0, "samples, %d rows differ" % bad)
    an, fq = g.tables["AIPS AN"], g.tables["AIPS FQ"]
    s.must(list(an[0]["ANNAME"]) == list(p.antenna) and np.array_equal(an[0]["STABXYZ"], p.position), "AIPS AN")
    s.must(an[1]["ARRAYX"] == 0 and an[1]["FRAME"] == "ITRF" and an[1]["TIMSYS"] == "UTC" and an[1]["XYZHAND"] == "RIGHT",
           "its frame")
    first_hz = [f.min() for f in x.freq]
    s.must(np.array_equal(np.ravel(fq[0]["IF FREQ"]), np.subtract(first_hz, first_hz[0])), "AIPS FQ")
    # The Sun's mean motion and the Earth's turn: sidereal time at Greenwich at 0h UT of 2000-01-01 was 6h39m52s.
    days_since = (np.datetime64(an[1]["RDATE"]) - np.datetime64("2000-01-01")).astype(int)
    turns = 99.967794687 / 360 + days_since * an[1]["DEGPDY"] / 360 - an[1]["GSTIA0"] / 360
    s.must(abs(turns - round(turns)) < 1e-6, "sidereal time of its day")


def rest_frequencies(path):
    """Return the first rest frequency of each field's source."""
    with table(path + "/SOURCE", ack=False) as t, table(path + "/FIELD", ack=False) as f:
        kept = {i: np.ravel(t.getcell("REST_FREQUENCY", k))[0] for k, i in enumerate(t.getcol("SOURCE_ID"))}
        return [kept.get(i) for i in f.getcol("SOURCE_ID")]


def check_sources(s):
    """Fields are exported as a table of sources, and sources are imported as fields, with their rest frequencies."""
    a = fresh_copy(s.made("sources.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-field", "61deg", "44deg", "-field", "60deg", "45deg",
                          "-source", "60.1deg", "44.05deg", "1Jy", "-source", "61deg", "44deg", "2Jy"), "sources2.ms")
    lines = (1420405751.77, 1665401800.0, 1667359000.0)
    with table(a + "/FIELD", readonly=False, ack=False) as t:
        t.putcol("SOURCE_ID", np.arange(3, dtype=np.int32))
    shutil.rmtree(a + "/SOURCE", ignore_errors=True)
    columns = [makescacoldesc("SOURCE_ID", 0), makescacoldesc("SPECTRAL_WINDOW_ID", 0), makescacoldesc("TIME", 0.0),
               makescacoldesc("INTERVAL", 0.0), makescacoldesc("NAME", "")]
    columns.append(makearrcoldesc("REST_FREQUENCY", 0.0, ndim=1))
    with table(a + "/SOURCE", maketabdesc(columns), nrow=3, ack=False) as t:
        for i, line in enumerate(lines):
            t.putcell("SOURCE_ID", i, i)
            t.putcell("SPECTRAL_WINDOW_ID", i, -1)
            t.putcell("REST_FREQUENCY", i, np.array([line]))
    with table(a, readonly=False, ack=False) as t:
        t.putkeyword("SOURCE", "Table: " + os.path.abspath(a + "/SOURCE"))
    s.convert("-quiet", a, "sources.uvfits")
    su = Groups("sources.uvfits").tables["AIPS SU"][0]
    s.must(list(np.ravel(su["RESTFREQ"])) == list(lines) and list(su["SOURCE"]) == list(Parts(a).field), "AIPS SU")
    s.convert("-quiet", "sources.uvfits", "sources-back.ms")
    compare(s, "several sources", Rows(a), Rows("sources-back.ms"))
    p, q = Parts(a), Parts("sources-back.ms")
    s.must(list(p.field) == list(q.field) and np.allclose(p.centre, q.centre, rtol=0, atol=1e-12), "fields")
    s.must(rest_frequencies("sources-back.ms") == list(lines), "REST_FREQUENCY of each: %s" % rest_frequencies("sources-back.ms"))
    s.image("sources-back.ms", "second", *IMAGE[:5], "-field", 1)
    at, value = peak("second-dirty.fits")
    s.must(at == (64, 64) and value > 1.5, "the second field's source is at its centre")
    s.convert("-quiet", "-field", 0, a, "one.uvfits")
    s.must(abs(Groups("one.uvfits").header["RESTFREQ"] - lines[0]) < 1e-3, "RESTFREQ of one source")
    s.convert("-quiet", "one.uvfits", "one-back.ms")
    with table("one-back.ms/SOURCE", ack=False) as t:
        s.must(np.allclose(np.ravel(t.getcell("REST_FREQUENCY", 0))[0], lines[0], rtol=0, atol=1e-3),
               "its REST_FREQUENCY, %.3f" % np.ravel(t.getcell("REST_FREQUENCY", 0))[0])


def check_windows(s):
    """Windows of different shape are refused. Windows that were not observed together are padded, with a warning."""
    a = s.made("shapes.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 8, "-spw", "1.6GHz", "2MHz", 4)
    s.refused("windows of other channels", 3, "window 0 has 4 channels .* window 1 has 8 channels", a, "no.uvfits")
    s.refused("windows of other widths", 3, "window 0 has 4 channels 1000000 Hz apart and window 2 has 4 channels 2000000 Hz apart", "-spws", "0,2", a,
              "no.uvfits")
    s.refused("they are refused beforehand too", 3, "windows of one shape", "-dry-run", a, "no.uvfits")
    s.convert("-quiet", "-spws", 1, a, "one-window.uvfits")
    s.must(Groups("one-window.uvfits").vis.shape[1:] == (1, 8, 4), "one of them is written")
    b = fresh_copy(s.made("uneven.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4), "uneven2.ms")
    with table(b + "/SPECTRAL_WINDOW", readonly=False, ack=False) as t:
        t.putcell("CHAN_FREQ", 0, np.array([1.4e9, 1.401e9, 1.4035e9, 1.404e9]))
    s.refused("channels of uneven steps", 3, "not evenly spaced", b, "no.uvfits")
    c = s.made("apart.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4)
    s.convert("-quiet", "-taql", "(DATA_DESC_ID + ANTENNA1) % 2 = 0", c,
              "apart2.ms")
    told = say(s, "apart2.ms", "apart.uvfits")
    s.must("50 % of the file is flagged padding" in told, "filling is reported")
    s.convert("-quiet", "apart.uvfits", "apart-back.ms")
    y = Rows("apart-back.ms")
    filling = {i for i in range(y.n) if not np.any(y.weight[i])}
    s.must(all(y.flag[i].all() for i in filling), "filling is flagged")
    compare(s, "windows apart", Rows("apart2.ms"), y, filling)


def check_weights(s):
    """Zero and negative weights, NaN and Inf become flags, with a warning. Flagged samples keep the size of their weight."""
    a = fresh_copy(s.made("weights.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-flags", 0.2), "weights2.ms")
    with table(a, readonly=False, ack=False) as t:
        w, d, f = t.getcol("WEIGHT_SPECTRUM"), t.getcol("DATA"), t.getcol("FLAG")
        w[:, 0, 0], w[:, 1, 0], w[:, 2, 1], d[:, 3, 2], d[:, 3, 3] = 0, -2, np.nan, np.nan, np.inf
        f[:, 2:] = False
        t.putcol("WEIGHT_SPECTRUM", w)
        t.putcol("DATA", d)
        t.putcol("FLAG", f)
    told = say(s, a, "weights.uvfits")
    n = int((~f[:, 0, 0]).sum() + (~f[:, 1, 0]).sum())
    s.must("%d unflagged visibilities have a weight of zero or below" % n in told, "weights of zero and below are reported")
    s.must("%d visibilities are not finite" % (3 * len(f)) in told, "values that are not finite")
    s.convert("-quiet", "weights.uvfits", "weights-back.ms")
    y, want = Rows("weights-back.ms"), (f | ~(w > 0) | ~np.isfinite(d))
    order = sorted_rows(Rows(a))
    s.must(all(np.array_equal(want[i], y.flag[j]) for i, j in zip(order, sorted_rows(y))), "they are flagged")
    s.must(all(np.array_equal(np.where(want[i] & ~f[i], 1, abs(w[i])), np.where(want[i] & ~f[i], 1, y.weight[j]))
               for i, j in zip(order, sorted_rows(y))), "flagged samples keep the size of their weights")
    s.must(np.isfinite(s.image("weights-back.ms", "weights", *IMAGE)).all(), "its image")


def check_columns(s):
    """Only the requested column is written, never another one instead."""
    a = s.made("columns.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-data-column", "both")
    s.refused("a column that is not there", 3, "MODEL_DATA", "-data-column", "MODEL_DATA", a, "no.uvfits")
    for name in ("DATA", "CORRECTED_DATA"):
        s.convert("-quiet", "-data-column", name, a, name + ".uvfits")
    s.must(np.allclose(Groups("DATA.uvfits").vis * 2, Groups("CORRECTED_DATA.uvfits").vis, rtol=1e-6), "each column is its own")


def recode(path, out, code):
    """Replace the antenna parameters of a UVFITS file by a BASELINE of code(antenna 1, antenna 2)."""
    with fits.open(path) as f:
        h, at, end = f[0].header.copy(), f[0].fileinfo()["datLoc"], f[1].fileinfo()["hdrLoc"]
        names = [h["PTYPE%d" % (k + 1)] for k in range(h["PCOUNT"])]
        zeros = [h["PZERO%d" % (k + 1)] for k in range(h["PCOUNT"])]
    with open(path, "rb") as f:
        whole = f.read()
    values = np.frombuffer(whole[at:end], ">f4")
    n_value = h["PCOUNT"] + np.prod([h["NAXIS%d" % i] for i in range(2, h["NAXIS"] + 1)])
    values = values[:h["GCOUNT"] * n_value].reshape(h["GCOUNT"], n_value)
    first, second = (values[:, names.index(n)].astype(np.int64) for n in ("ANTENNA1", "ANTENNA2"))
    kept = [k for k, n in enumerate(names) if n not in ("ANTENNA1", "ANTENNA2", "SUBARRAY")]
    coded = code(first, second)
    groups = np.column_stack([values[:, kept], coded, values[:, len(names):]]).astype(">f4").tobytes()
    del h["PTYPE*"], h["PSCAL*"], h["PZERO*"]
    h["PCOUNT"] = len(kept) + 1
    for i, (name, zero) in enumerate([*((names[k], zeros[k]) for k in kept), ("BASELINE", 0.0)]):
        h["PTYPE%d" % (i + 1)], h["PSCAL%d" % (i + 1)], h["PZERO%d" % (i + 1)] = name, 1.0, zero
    with open(out, "wb") as f:
        f.write(h.tostring(padding=True).encode() + groups + bytes(-len(groups) % 2880) + whole[end:])
    return coded


def check_antennas(s):
    """More than 255 antennas are written as separate parameters. Codes by 2048, and both codes in one file, are read. Names are kept."""
    many = ["-telescope", "skalow", "-stations", 260, "-spw", "150MHz", "1MHz", 1, "-duration", "10s", "-integration", "10s", "-pol",
            "XX,YY"]
    a = s.made("many.ms", *many)
    s.convert("-quiet", a, "many.uvfits")
    g = Groups("many.uvfits")
    s.must("BASELINE" not in g.names and g.parameter("ANTENNA2").max() == 260, "260 antennas have different numbers")
    s.convert("-quiet", "many.uvfits", "many-back.ms")
    compare(s, "260 antennas", Rows(a), Rows("many-back.ms"))
    def by_2048(first, second):
        return 2048 * first + second + 65536
    def by_both(first, second):
        return np.where(second > 255, by_2048(first, second), 256 * first + second)
    for title, code in (("by 2048", by_2048), ("by 256 and 2048", by_both)):
        written = recode("many.uvfits", "coded.uvfits", code)
        s.convert("-quiet", "-overwrite", "coded.uvfits", "coded-back.ms")
        compare(s, "260 antennas coded %s, %d to %d" % (title, written.min(), written.max()), Rows(a), Rows("coded-back.ms"))
    s.must(list(Parts(a).antenna) == list(Parts("coded-back.ms").antenna), "their names")
    recode("many.uvfits", "coded.uvfits", lambda first, second: np.where(first == 7, 65536 + second, by_2048(first, second)))
    s.refused("a code by 2048 of no antenna", 3, "invalid BASELINE", "coded.uvfits", "no.ms")


def check_axes(s):
    """Axes come in any order. STOKES that are neither correlations nor Stokes parameters are refused. Names of positions may have a
    projection."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    for title, names in (("FREQ before STOKES", ("COMPLEX", "FREQ", "STOKES", "IF", "RA", "DEC")),
                         ("IF behind DEC", ("COMPLEX", "STOKES", "FREQ", "RA", "DEC", "IF")),
                         ("IF before FREQ", ("COMPLEX", "STOKES", "IF", "FREQ", "RA", "DEC")),
                         ("COMPLEX behind all", ("STOKES", "FREQ", "IF", "RA", "DEC", "COMPLEX"))):
        raw = Raw("round.uvfits")
        raw.order(names)
        s.convert("-quiet", "-overwrite", raw.write("axes.uvfits"), "axes.ms")
        compare(s, title, Rows(a), Rows("axes.ms"))
    raw = Raw("round.uvfits")
    raw.samples = raw.samples[..., :2]
    s.refused("no weights", 3, "axis COMPLEX has 2 elements", raw.write("axes.uvfits"), "no.ms")
    for title, pattern, first, step in (("the same correlation again and again", "STOKES is -1 again", -1, 0),
                                        ("correlations that go on", "element 4 of its axis STOKES is -9", -6, -1),
                                        ("correlations and Stokes parameters", "element 2 of its axis STOKES is 0", -1, 1)):
        raw = Raw("round.uvfits")
        raw.header["CRVAL3"], raw.header["CDELT3"] = float(first), float(step)
        s.refused(title, 3, pattern, raw.write("axes.uvfits"), "no.ms")
    for title, pattern, name, other in (("no DATE", "0 parameters DATE", "DATE", "TIME"), ("no w", "no parameter WW", "WW", "W")):
        raw = Raw("round.uvfits")
        for key in [k for k in raw.header["PTYPE*"] if raw.header[k].startswith(name)]:
            raw.header[key] = other
        s.refused(title, 3, pattern, raw.write("axes.uvfits"), "no.ms")
    raw = Raw("round.uvfits")
    raw.header["CTYPE6"], raw.header["CTYPE7"] = "RA---SIN", "DEC--SIN"
    s.convert("-quiet", raw.write("axes.uvfits"), "projected.ms")
    s.must(np.allclose(Parts(a).centre, Parts("projected.ms").centre, rtol=0, atol=1e-12), "RA---SIN is a right ascension")


def by_freqsel(path, numbers):
    """Make a file with two windows as numbered rows of AIPS FQ, instead of IFs."""
    raw = Raw(path)
    names = [t.header["EXTNAME"] for t in raw.tables]
    fq = raw.tables[names.index("AIPS FQ")]
    n, rows = len(raw.parameters), fq.data
    raw.samples = np.concatenate([raw.samples[:, :, :, :1], raw.samples[:, :, :, 1:]])
    raw.parameters = np.concatenate([raw.parameters, raw.parameters])
    at = [raw.header["PTYPE%d" % (i + 1)] for i in range(raw.header["PCOUNT"])]
    chosen = np.repeat(sorted(numbers), n)
    if "FREQSEL" in at:
        raw.parameters[:, at.index("FREQSEL")] = chosen
    else:
        raw.add("FREQSEL", chosen)
    def column(name, form):
        return fits.Column(name, form, array=np.ravel(rows[name])[np.argsort(numbers)])
    new = fits.BinTableHDU.from_columns([fits.Column("FRQSEL", "1J", array=np.array(numbers)), column("IF FREQ", "1D"),
                                         column("CH WIDTH", "1E"), column("TOTAL BANDWIDTH", "1E"), column("SIDEBAND", "1J")],
                                        name="AIPS FQ")
    new.header["NO_IF"] = 1
    raw.tables[names.index("AIPS FQ")] = new
    return raw


def check_frequencies(s):
    """Windows selected by FREQSEL have the frequencies of the row with that number, in any place. A number without a row is
    refused. The velocity of a line does not change the frequencies of several windows."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    for title, numbers in (("in order", (1, 2)), ("rows the other way round", (2, 1)), ("numbers with a gap", (1, 3)),
                           ("numbers from 4 on", (4, 5))):
        s.convert("-quiet", "-overwrite", by_freqsel("round.uvfits", numbers).write("selected.uvfits"), "selected.ms")
        compare(s, "FREQSEL, " + title, Rows(a), Rows("selected.ms"))
    raw = by_freqsel("round.uvfits", (1, 2))
    raw.tables[-1].data["FRQSEL"][:] = (1, 5)
    s.refused("a number without a row", 3, "FREQSEL = 2, which is not in table AIPS FQ", raw.write("selected.uvfits"), "no.ms")
    s.refused("the same by -dry-run", 3, "FREQSEL = 2, which is not in table AIPS FQ", "-dry-run", "selected.uvfits", "no.ms")
    raw.tables = [t for t in raw.tables if t.header["EXTNAME"] != "AIPS FQ"]
    s.refused("no table of frequencies", 3, "no table AIPS FQ", raw.write("selected.uvfits"), "no.ms")
    raw = Raw("round.uvfits")
    raw.header.update({"ALTRVAL": 1e5, "ALTRPIX": 1.0, "RESTFREQ": 1.42040575e9, "VELREF": 257})
    told = say(s, raw.write("line.uvfits"), "line.ms")
    s.must("ALTRVAL" in told, "a line's velocity is reported")
    compare(s, "a line's velocity", Rows(a), Rows("line.ms"))


def check_source_table(s):
    """A source number without a row is refused. A moving source keeps its listed position, with a warning."""
    a = s.made("sources.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-field", "61deg", "44deg", "-field", "60deg", "45deg",
               "-source", "60.1deg", "44.05deg", "1Jy", "-source", "61deg", "44deg", "2Jy")
    s.convert("-quiet", "-overwrite", a, "listed.uvfits")
    raw = Raw("listed.uvfits")
    su = [t for t in raw.tables if t.header["EXTNAME"] == "AIPS SU"][0]
    su.data["PMRA"][1] = 1e-3
    told = say(s, raw.write("moving.uvfits"), "moving.ms")
    s.must("source '%s' moves on the sky" % Parts(a).field[1] in told, "a source that moves is reported")
    s.must(np.allclose(Parts(a).centre, Parts("moving.ms").centre, rtol=0, atol=1e-9), "it stays where it is listed")
    su.data["ID. NO."][1] = 9
    s.refused("a source without a row", 3, "SOURCE = 2, which is not in table AIPS SU", raw.write("moving.uvfits"), "no.ms")
    raw.tables = [t for t in raw.tables if t is not su]
    s.refused("sources without a table", 3, "no table AIPS SU", raw.write("moving.uvfits"), "no.ms")


def check_equinoxes(s):
    """A position must be of 1950 or 2000; another year, or two years, are refused, also by -dry-run. A missing year or time scale is
    assumed, with a warning."""
    a = s.made("once.ms", *VLA[:-2], "-duration", "10s", "-spw", "1GHz", "1MHz", 4)
    s.convert("-quiet", "-overwrite", a, "dated.uvfits")
    def of(**cards):
        raw = Raw("dated.uvfits")
        for key in ("EPOCH", "EQUINOX"):
            raw.header.remove(key)
        raw.header.update(cards)
        return raw.write("year.uvfits")
    def frame(path):
        with table(path + "/FIELD", ack=False) as t:
            return t.getcolkeyword("PHASE_DIR", "MEASINFO")["Ref"]
    for cards in ({"EPOCH": 2015.0}, {"EPOCH": 1982.5, "EQUINOX": 1982.5}, {"EQUINOX": 2015.0}):
        s.refused("%s" % cards, 3, "its position is of the equinox", of(**cards), "no.ms")
    s.refused("-dry-run", 3, r"its position is of the equinox 2015 \(EQUINOX\)", "-dry-run", of(EQUINOX=2015.0), "no.ms")
    for epoch in (1950.0, 0.0):
        s.refused("two years", 3, "by EPOCH, of 2000 by EQUINOX", of(EPOCH=epoch, EQUINOX=2000.0), "no.ms")
    for year, name in ((1950.0, "B1950"), (2000.0, "J2000")):
        for key in ("EPOCH", "EQUINOX"):
            s.convert("-quiet", "-overwrite", of(**{key: year}), "year.ms")
            s.must(frame("year.ms").startswith(name), "%s by %s" % (name, key))  # casacore has a B1950_VLA
    told = say(s, "-overwrite", of(EPOCH=0.0), "year.ms")
    s.must("(EPOCH = 0): J2000 is assumed" in told and frame("year.ms") == "J2000", "EPOCH = 0 is reported")
    raw = Raw("dated.uvfits")
    raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")].header.remove("TIMSYS")
    told = say(s, "-overwrite", raw.write("year.uvfits"), "year.ms")
    with table("year.ms", ack=False) as t:
        s.must("IAT (TAI) is assumed" in told and t.getcolkeyword("TIME", "MEASINFO")["Ref"] in ("TAI", "IAT"), "no TIMSYS is reported")


def check_source_equinoxes(s):
    """The year of every source in the groups is checked; the year in the header is then ignored."""
    a = s.made("sources.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-field", "61deg", "44deg", "-field", "60deg", "45deg",
               "-source", "60.1deg", "44.05deg", "1Jy", "-source", "61deg", "44deg", "2Jy")
    s.convert("-quiet", "-overwrite", a, "listed.uvfits")
    raw = Raw("listed.uvfits")
    su = [t for t in raw.tables if t.header["EXTNAME"] == "AIPS SU"][0]
    for year in (2015.0, 0.0, 1875.0):
        su.data["EPOCH"][1] = year
        s.refused("of %g" % year, 3, "source 2 has equinox %g" % year, raw.write("year.uvfits"), "no.ms")
    s.refused("by -dry-run", 3, "source 2 has equinox 1875", "-dry-run", "year.uvfits", "no.ms")
    su.data["EPOCH"][1] = 2000.0
    raw.header["EPOCH"] = 2015.0
    s.convert("-quiet", "-overwrite", raw.write("year.uvfits"), "year.ms")
    s.must(np.allclose(Parts(a).centre, Parts("year.ms").centre, rtol=0, atol=1e-9), "positions")


def check_idi_settings(s):
    """Frequencies of FITS-IDI are those of the FREQID of the visibilities, in any row. An equinox may be written in several
    ways. An equinox that a set does not have is refused. A source that moves stays where it is listed. A sideband that
    contradicts the channels' width gives a warning."""
    a = s.made("idi2.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4, "-pol", "RR,RL,LR,LL")
    write_idi(Rows(a), a, "plain.fits")
    def two_rows(tables, numbers):
        f = tables["FREQUENCY"]
        both = fits.BinTableHDU(np.concatenate([f.data, f.data]), f.header.copy(), name="FREQUENCY")
        both.data["BANDFREQ"][1] += 5e8
        both.data["FREQID"][:] = numbers
        tables["FREQUENCY"] = both
    def second(tables):
        two_rows(tables, (1, 2))
        tables["UV_DATA"].data["FREQID"][-1] = 2
    s.convert("-quiet", changed("plain.fits", "bad.fits", second), "settings.ms")
    x, y = Parts(a).freq, Rows("settings.ms")
    s.must(np.array_equal(Parts("settings.ms").freq, np.concatenate([x, x + 5e8])), "two settings are four windows")
    s.must((y.window[y.DATA_DESC_ID] >= 2).sum() == 2, "of the second setting is one row of the file")
    s.convert("-quiet", changed("plain.fits", "bad.fits", lambda tables: two_rows(tables, (2, 1))), "second.ms")
    s.must(np.array_equal(Parts("second.ms").freq, x + 5e8), "rows the other way round")
    s.refused("a setting without a row", 3, "FREQID = 1, which is not in table FREQUENCY", "-dry-run",
              changed("plain.fits", "bad.fits", lambda tables: two_rows(tables, (2, 3))), "no.ms")
    s.convert("-quiet", "-overwrite", changed("plain.fits", "bad.fits", lambda tables: two_rows(tables, (1, 2))), "setting.ms")
    s.must(np.array_equal(Parts(a).freq, Parts("setting.ms").freq), "a setting without visibilities")
    def put(table, **columns):
        def change(tables):
            for name, value in columns.items():
                tables[table].data[name][:] = value
        return change
    for text, frame in (("J2000", "J2000"), ("2000.0", "J2000"), ("J2000.0", "J2000"), ("1950.0B", "B1950"), ("B1950", "B1950")):
        s.convert("-quiet", "-overwrite", changed("plain.fits", "equinox.fits", put("SOURCE", EQUINOX=text)), "equinox.ms")
        with table("equinox.ms/FIELD", ack=False) as t:
            s.must(t.getcolkeyword("PHASE_DIR", "MEASINFO")["Ref"] == frame, "the equinox %s" % text)
    for text in ("J2015.5", ""):
        s.refused("the equinox '%s'" % text, 3, "has EQUINOX '%s'; a Measurement Set needs J2000 or B1950" % text,
                  changed("plain.fits", "bad.fits", put("SOURCE", EQUINOX=text)), "no.ms")
    told = say(s, "-overwrite", changed("plain.fits", "moving.fits", put("SOURCE", PMRA=1e-3, RAAPP=11.0)), "moving.ms")
    s.must("source '%s' moves on the sky" % Parts(a).field[0] in told, "a source that moves is reported")
    s.must(np.allclose(Parts(a).centre, Parts("moving.ms").centre, rtol=0, atol=1e-9), "it stays where it is listed")
    told = say(s, "-overwrite", changed("plain.fits", "side.fits", put("FREQUENCY", SIDEBAND=-1)), "side.ms")
    s.must("SIDEBAND and the sign of CH_WIDTH contradict each other" in told, "a sideband that contradicts the width is reported")
    s.must(np.array_equal(Parts(a).freq, Parts("side.ms").freq), "frequencies run as the width says")
    s.convert("-quiet", "-overwrite", changed("plain.fits", "side.fits", put("FREQUENCY", SIDEBAND=-1, CH_WIDTH=-1e6)), "side.ms")
    s.must(np.array_equal(Parts(a).freq - 3e6, Parts("side.ms").freq), "frequencies that run downwards, in a set upwards")


def check_downwards(s):
    """Channels of UVFITS follow the sign of their width. A contradicting sideband gives a warning."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    raw = Raw("round.uvfits")
    fq = raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS FQ")]
    s.convert("-quiet", "-overwrite", "round.uvfits", "up.ms")
    x, freq = Rows("up.ms"), Parts("up.ms").freq - 5e6
    for sideband, reported in ((-1, False), (1, True)):
        fq.data["CH WIDTH"][:], fq.data["SIDEBAND"][:] = -1e6, sideband
        told = say(s, "-overwrite", raw.write("down.uvfits"), "down.ms")
        s.must(("SIDEBAND and the sign of CH WIDTH" in told) == reported,
               "sideband %d is %s" % (sideband, "reported" if reported else "right"))
        y = Rows("down.ms")
        s.must(np.allclose(Parts("down.ms").freq, freq, rtol=0, atol=1e-3) and
               all(np.array_equal(x.data[i], y.data[i][::-1]) for i in range(x.n)), "channels run downwards, in a set upwards")


def check_many_settings(s):
    """A table of 400,000 frequency settings in reverse order is sorted quickly."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    raw, n = by_freqsel("round.uvfits", (1, 2)), 400000
    names = [t.header["EXTNAME"] for t in raw.tables]
    fq = raw.tables[names.index("AIPS FQ")]
    rows = np.repeat(fq.data[:1], n)
    rows["FRQSEL"], rows[-2] = np.arange(n, 0, -1), fq.data[1]
    rows["FRQSEL"][-2] = 2
    raw.tables[names.index("AIPS FQ")] = fits.BinTableHDU(rows, fq.header.copy(), name="AIPS FQ")
    before = os.times()
    s.convert("-quiet", "-overwrite", raw.write("many-settings.uvfits"), "many-settings.ms")
    after = os.times()
    compare(s, "two of %d settings, in %.1f s" % (n, after.children_user - before.children_user), Rows(a), Rows("many-settings.ms"))


def check_scaled_antennas(s):
    """Antennas with a scale and a zero, with or without a code, are renumbered."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    raw = Raw("round.uvfits")
    at = [raw.header["PTYPE%d" % (i + 1)] for i in range(raw.header["PCOUNT"])].index("BASELINE")
    code = raw.parameters[:, at].astype(int)
    raw.parameters[:, at] = code - 257
    raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")].data["NOSTA"] -= 1
    for name, values, scale, zero in (("ANTENNA1", code // 256 - 1, 2.0, 0.0), ("ANTENNA2", code % 256 - 1, 0.5, 3.0), ("SUBARRAY", 1, 1.0, 0.0)):
        raw.add(name, np.broadcast_to((values - zero) / scale, len(code)))
        n = raw.header["PCOUNT"]
        raw.header["PSCAL%d" % n], raw.header["PZERO%d" % n] = scale, zero
    s.convert("-quiet", "-overwrite", raw.write("scaled.uvfits"), "scaled.ms")
    compare(s, "times with and without a code", Rows(a), Rows("scaled.ms"))
    raw.header["PTYPE%d" % (at + 1)] = "NOTHING"
    s.convert("-quiet", "-overwrite", raw.write("scaled.uvfits"), "scaled.ms")
    compare(s, "without a code", Rows(a), Rows("scaled.ms"))


def check_aips(s):
    """Visibilities in a table, as written by AIPS, are refused with advice."""
    header = fits.PrimaryHDU().header
    header.update({"BITPIX": 8, "NAXIS": 2})
    header.insert("NAXIS", ("NAXIS1", 777777701), after=True)
    header.insert("NAXIS1", ("NAXIS2", 0), after=True)
    with open("table.uvfits", "wb") as f:
        f.write(header.tostring(padding=True).encode())
    s.refused("visibilities in a table", 3, "holds visibilities in a table 'AIPS UV'", "table.uvfits", "no.ms")


def check_left(s):
    """A warning names a hidden directory that cannot be removed."""
    if not may_trace():
        return
    a = s.made("once.ms", *VLA[:-2], "-duration", "10s", "-spw", "1GHz", "1MHz", 4)
    s.convert("-quiet", "-overwrite", a, "whole.uvfits")
    done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=rmdir,unlinkat", "-e", "inject=rmdir,unlinkat:error=EPERM",
                           s.convert_program, "-quiet", "whole.uvfits", "left.ms"], stderr=subprocess.PIPE, encoding="utf-8", check=False)
    left = [f for f in os.listdir(".") if f.startswith(".msimage-convert-")]
    s.must(len(left) == 1 and "%s: cannot be removed; remove it" % left[0] in done.stderr and done.returncode == 0,
           "exits %d, leaves %s: %s" % (done.returncode, left, done.stderr.strip()))
    for name in left:
        shutil.rmtree(name)


def check_telescopes(s):
    """The telescopes WSRT, VLA and ATCA keep their names."""
    for name in ("WSRT", "EVLA", "ATCA"):
        a = fresh_copy(s.made("columns.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-data-column", "both"), "telescope.ms")
        with table(a + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, name)
        s.convert("-quiet", "-overwrite", "-data-column", "DATA", a, "telescope.uvfits")
        s.convert("-quiet", "-overwrite", "telescope.uvfits", "telescope-back.ms")
        s.must(Parts("telescope-back.ms").telescope == name, name)
        compare(s, name, Rows(a), Rows("telescope-back.ms"))
        s.must(list(Parts(a).antenna) == list(Parts("telescope-back.ms").antenna), "antennas of " + name)


def check_times(s):
    """Times in TAI stay in TAI. A scale that UVFITS does not have is refused. Without INTTIM the interval is 0."""
    a = fresh_copy(s.made("columns.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-data-column", "both"), "tai.ms")
    def scale(path, name):
        with table(path, readonly=False, ack=False) as t:
            for column in ("TIME", "TIME_CENTROID"):
                t.putcolkeyword(column, "MEASINFO", {**t.getcolkeyword(column, "MEASINFO"), "Ref": name})
    scale(a, "TAI")
    s.convert("-quiet", a, "tai.uvfits")
    s.must(Groups("tai.uvfits").tables["AIPS AN"][1]["TIMSYS"] == "IAT", "TIMSYS")
    s.convert("-quiet", "tai.uvfits", "tai-back.ms")
    with table("tai-back.ms", ack=False) as t:
        s.must(t.getcolkeyword("TIME", "MEASINFO")["Ref"] in ("TAI", "IAT"), "times of TAI")
    compare(s, "TAI", Rows(a, "CORRECTED_DATA"), Rows("tai-back.ms"))
    scale(a, "TDB")
    s.refused("times of TDB", 3, "UTC, UT1 or TAI, but these are in TDB", a, "no.uvfits")
    b = s.made("once.ms", *VLA[:-2], "-duration", "10s", "-spw", "1.4GHz", "1MHz", 4)
    s.convert("-quiet", b, "once.uvfits")
    with open("once.uvfits", "r+b") as f:
        data = f.read()
        f.seek(data.index(b"'INTTIM  '"))
        f.write(b"'NOTHING '")
    told = say(s, "once.uvfits", "once-back.ms")
    y = Rows("once-back.ms")
    s.must("INTERVAL and EXPOSURE are 0" in told and not y.INTERVAL.any() and not y.EXPOSURE.any(), "one time alone has no interval")


def earth_rotation(folder, ut1_utc_s):
    """Tables in which casacore finds UT1 - UTC from 2022-11-16 on; a HOME whose settings name them."""
    os.makedirs(os.path.join(folder, "geodetic"))
    columns = ("MJD", "x", "Dx", "y", "Dy", "dUT1", "DdUT1", "LOD", "DLOD", "dPsi", "DdPsi", "dEps", "DdEps")
    with table(os.path.join(folder, "geodetic", "IERSeop97"), maketabdesc([makescacoldesc(c, 0.0) for c in columns]), nrow=400,
               ack=False) as t:
        t.putcol("MJD", 59900.0 + np.arange(400))
        t.putcol("dUT1", np.full(400, ut1_utc_s))
        t.putinfo({"type": "IERS", "subType": "eop97", "readme": ""})
        for key, value in (("VS_CREATE", "2023/01/01/00:00"), ("VS_DATE", "2023/01/01/00:00"), ("VS_VERSION", "0623.0001"),
                           ("VS_TYPE", "IERS"), ("MJD0", 59899.0), ("dMJD", 1.0)):
            t.putkeyword(key, value)
    with open(os.path.join(folder, ".casarc"), "w", encoding="utf-8") as f:
        f.write("measures.directory: %s\n" % os.path.abspath(folder))
    return {**os.environ, "HOME": os.path.abspath(folder)}


def check_universal_time(s):
    """Times in UT1 become UTC by casacore's tables. Where these do not have the date, they are refused."""
    a = fresh_copy(s.made("columns.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-data-column", "both"), "ut1.ms")
    with table(a, readonly=False, ack=False) as t:
        t.putcolkeyword("TIME", "MEASINFO", {**t.getcolkeyword("TIME", "MEASINFO"), "Ref": "UT1"})
    s.refused("UT1 at an unknown date", 3, "UT1 - UTC of this date", a, "no.uvfits", env={**os.environ, "HOME": "/nonexistent"})
    s.convert("-quiet", a, "ut1.uvfits", env=earth_rotation("earth", -0.25))
    g, keys = Groups("ut1.uvfits"), Groups("ut1.uvfits").tables["AIPS AN"][1]
    s.must(keys["TIMSYS"] == "UTC" and abs(keys["UT1UTC"] + 0.25) < 1e-6, "UT1UTC %g s" % keys["UT1UTC"])
    with table(a, ack=False) as t:
        shift_s = np.unique(g.time_s) - np.unique(t.getcol("TIME"))
    s.must(abs(shift_s - 0.25).max() <= DATE_S, "times in UTC, %s s after those in UT1" % shift_s)


def check_stokes(s):
    """A set of Stokes I becomes a file whose axis STOKES says so, and a set again."""
    a = fresh_copy(s.made("one.ms", *VLA, "-pol", "XX", "-spw", "1.4GHz", "1MHz", 4, "-source", "60deg", "44deg", "1Jy"), "i.ms")
    with table(a + "/POLARIZATION", readonly=False, ack=False) as t:
        t.putcell("CORR_TYPE", 0, np.array([1], np.int32))
    s.convert("-quiet", a, "i.uvfits")
    g = Groups("i.uvfits")
    s.must(g.header["CRVAL3"] == 1 and g.header["NAXIS3"] == 1 and abs(abs(g.vis).mean() - 1) < 1e-6, "Stokes I")
    s.convert("-quiet", "i.uvfits", "i-back.ms")
    compare(s, "Stokes I", Rows(a), Rows("i-back.ms"))
    s.must(Parts("i-back.ms").stokes == [1], "it is Stokes I again")


def check_sign(s):
    """The direction of u, v, w is logged. -flip-uvw changes it, and mirrors the image. A mixture gives a warning."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    told = say(s, "-overwrite", "round.uvfits", "sign.ms")
    s.must("u, v, w point from ANTENNA1 to ANTENNA2" in told, "the sign is reported")
    told = say(s, "-flip-uvw", "round.uvfits", "flipped.ms")
    s.must("u, v, w point from ANTENNA2 to ANTENNA1" in told, "and what it becomes")
    s.must(np.array_equal(Rows("sign.ms").UVW, -Rows("flipped.ms").UVW), "-flip-uvw")
    s.image("sign.ms", "want", *IMAGE)
    s.image("flipped.ms", "got", *IMAGE)
    (y, x), at = peak("want-dirty.fits")[0], peak("got-dirty.fits")[0]
    s.must((y, x) != (64, 64) and at == (128 - y, 128 - x), "the image is mirrored")
    with fits.open("round.uvfits", mode="update") as f:
        for i in range(3):
            f[0].data.field(i)[::3] *= -1
    s.must("cannot be imaged together" in say(s, "-overwrite", "round.uvfits", "mixed.ms"), "a mixture is warned of")


def check_idi(s):
    """FITS-IDI with several bands and sources is imported, and its source is imaged at its position."""
    a = s.made("idi.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4, "-pol", "RR,RL,LR,LL", "-field", "61deg",
               "44deg", "-source", "60.1deg", "44.05deg", "1Jy", "-source", "61deg", "44deg", "3Jy", "-flag-rows", 0.1)
    x = Rows(a)
    lines = [1420405751.77, 1665401800.0]
    write_idi(x, a, "idi.fits", lines)
    s.convert("-quiet", "idi.fits", "idi-back.ms")
    y = Rows("idi-back.ms")
    # casacore multiplies the weights of FITS-IDI, which are fractions, by 2 x bandwidth x time.
    for i in range(y.n):
        y.weight[i] = y.weight[i] / np.float32(2 * 1e6 * 10)
        y.row_weight[i] = y.row_weight[i] / np.float32(2 * 1e6 * 10)
    compare(s, "FITS-IDI", x, y, has_spectrum=False)
    p, q = Parts(a), Parts("idi-back.ms")
    s.must(list(p.field) == list(q.field) and np.allclose(p.centre, q.centre, rtol=0, atol=1e-12), "fields")
    s.must(list(p.antenna) == list(q.antenna) and np.array_equal(p.position, q.position), "antennas")
    want, got = s.image(a, "want", *IMAGE[:5], "-field", 1), s.image("idi-back.ms", "got", *IMAGE[:5], "-field", 1)
    s.must(abs(got - want).max() <= 1e-6 * abs(want).max() and peak("got-dirty.fits")[0] == (64, 64), "its image")
    s.must(abs(fits.getheader("got-dirty.fits").get("RESTFRQ", 0) - lines[1]) < 1e-3, "whose header has the rest frequency")
    s.must(rest_frequencies("idi-back.ms") == lines, "REST_FREQUENCY of each: %s" % rest_frequencies("idi-back.ms"))
    s.convert("-quiet", "idi.fits", "idi.uvfits")
    g = Groups("idi.uvfits")
    s.must(g.vis.shape[1:] == (2, 4, 4) and list(g.tables["AIPS SU"][0]["RESTFREQ"][:, 0]) == lines, "and UVFITS, with them")
    # casacore cannot open a FITS-IDI file with such a name.
    os.makedirs("Bänder")
    shutil.copy("idi.fits", "Bänder/größer.idi")
    s.convert("-quiet", "Bänder/größer.idi", "Bänder/idi.ms")
    s.must(np.array_equal(np.array(Rows("Bänder/idi.ms").data), np.array(Rows("idi-back.ms").data)), "names that are not ASCII")
    with open("Bänder/größer.idi", "r+b") as f:
        f.truncate(os.path.getsize("idi.fits") - 2000)
    s.refused("what is cut off is named", 3, "größer.idi: ", "Bänder/größer.idi", "none.ms")
    with open("idi.fits", "rb") as f:
        cards = f.read()
    begin = cards.index(b"CTYPE2  = 'STOKES")
    at = cards.index(b"CRVAL2  =", begin)
    with open("stokes.fits", "wb") as f:
        f.write(cards[:at + 10] + b"1.0".rjust(20) + cards[at + 30:])
    s.refused("Stokes I among correlations", 3, "element 2 of its axis STOKES is 0", "stokes.fits", "none.ms")
    told = say(s, "-dry-run", "idi.fits", "none.ms")
    s.must("FITS-IDI" in told and not os.path.exists("none.ms"), "-dry-run")


def changed(name, out, change):
    """Write a FITS-IDI file with tables changed by change(), which gets them by name."""
    with fits.open(name) as f:
        tables = {t.name: fits.BinTableHDU(t.data.copy(), t.header.copy(), name=t.name) for t in f[1:]}
        tables = change(tables) or tables
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about columns without values, which the format requires
            fits.HDUList([fits.PrimaryHDU(header=f[0].header), *tables.values()]).writeto(out, overwrite=True)
    return out


def recolumned(t, name, form):
    """Return a table with another form of one column."""
    new = fits.BinTableHDU.from_columns([fits.Column(c.name, form if c.name == name else c.format, unit=c.unit,
                                                     array=t.data[c.name].copy()) for c in t.columns], name=t.name)
    new.header.extend([c for c in t.header.cards if c.keyword not in new.header and c.keyword[:5] not in ("TTYPE", "TFORM", "TUNIT", "TDIM")])
    return new


def check_idi_damage(s):
    """Columns of FITS-IDI have numbers of any kind, axes any order, and tables too. A header with Stokes parameters and
    correlations, times of another scale and missing tables are refused. TIME_CENTROID is TIME."""
    a = s.made("idi2.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4, "-pol", "RR,RL,LR,LL")
    write_idi(Rows(a), a, "good.fits")
    s.convert("-quiet", "good.fits", "good.ms")
    y = Rows("good.ms")
    s.must(np.array_equal(y.TIME, y.TIME_CENTROID), "TIME_CENTROID is TIME")
    def same(title, change, time_s=0, factor=1):
        s.convert("-quiet", "-overwrite", changed("good.fits", "kind.fits", change), "kind.ms")
        z = Rows("kind.ms")
        s.must(all(np.array_equal(factor * y.data[i], z.data[i]) and np.array_equal(y.weight[i], z.weight[i]) for i in range(y.n)) and
               np.all(abs(y.TIME - z.TIME) <= time_s) and np.array_equal(y.ANTENNA2, z.ANTENNA2) and np.array_equal(y.EXPOSURE, z.EXPOSURE), title)
    # A fraction of a day in single precision is off by at most 2^-25 of a day.
    for column, form, time_s in (("TIME", "1E", 86400 * 2.0**-25), ("DATE", "1E", 0), ("INTTIM", "1D", 0), ("BASELINE", "1I", 0), ("SOURCE", "1I", 0),
                                 ("FREQID", "1I", 0), ("FLUX", "64D", 0), ("WEIGHT", "8D", 0)):
        def other(tables, column=column, form=form):
            tables["UV_DATA"] = recolumned(tables["UV_DATA"], column, form)
        same("%s of the form %s" % (column, form), other, time_s)
    def header(table, **cards):
        return lambda tables: tables[table].header.update(cards)
    def swapped(tables):
        t = tables["UV_DATA"]
        t.data["FLUX"][:] = t.data["FLUX"].reshape(-1, 2, 4, 8).transpose(0, 2, 1, 3).reshape(len(t.data), -1)
        t.header.update(CTYPE3="BAND", MAXIS3=2, CTYPE4="FREQ", MAXIS4=4)
    same("FREQ behind BAND", swapped)
    s.refused("Stokes parameters by a card, correlations by the axis", 3, "Stokes parameters by STK_1 = 1, but correlations by its axis",
              changed("good.fits", "bad.fits", header("UV_DATA", STK_1=1)), "no.ms")
    told = say(s, changed("good.fits", "bad.fits", header("UV_DATA", STK_1=-5)), "stokes.ms")
    s.must("STK_1 = -5, but the axis STOKES of its visibilities begins with -1, which is used" in told, "another correlation is reported")
    same("scaled visibilities", header("UV_DATA", TSCAL11=2.0), factor=2)
    s.refused("times of TT", 3, "its times are in TT", changed("good.fits", "bad.fits", header("ARRAY_GEOMETRY", TIMSYS="TT")), "no.ms")
    for name in ("ARRAY_GEOMETRY", "SOURCE", "FREQUENCY"):
        s.refused("no " + name, 3, "FITS-IDI without a table " + name, changed(
            "good.fits", "bad.fits", lambda tables, name=name: {k: t for k, t in tables.items() if k != name}), "no.ms")
    same("no ANTENNA", lambda tables: {k: t for k, t in tables.items() if k != "ANTENNA"})
    same("tables behind the visibilities", lambda tables: dict(reversed(list(tables.items()))))


def check_parts(s):
    """u, v, w of two parameters each, as written by pyuvdata, are summed in double precision. Antennas keep their names if their
    numbers have gaps. Times of an unknown scale are refused."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    raw, x = Raw("round.uvfits"), Rows(a)
    names = [raw.header["PTYPE%d" % (i + 1)] for i in range(raw.header["PCOUNT"])]
    for k, name in enumerate(("UU", "VV", "WW")):
        whole = raw.parameters[:, names.index(name)].astype(np.float64)
        raw.parameters[:, names.index(name)] = 0.5 * whole
        raw.add(name, whole - raw.parameters[:, names.index(name)])
    an = raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")]
    s.convert("-quiet", raw.write("parts.uvfits"), "parts.ms")
    compare(s, "u, v, w of two parts", x, Rows("parts.ms"))
    raw = Raw("round.uvfits")
    at = names.index("BASELINE")
    first, second = raw.parameters[:, at].astype(int) // 256, raw.parameters[:, at].astype(int) % 256
    raw.parameters[:, at] = 256 * (2 * first) + 2 * second
    an = raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")]
    an.data["NOSTA"][:] *= 2
    s.convert("-quiet", raw.write("gaps.uvfits"), "gaps.ms")
    s.must(list(Parts("gaps.ms").antenna[1::2]) == list(Parts(a).antenna), "names of numbers with gaps")
    an.header["TIMSYS"] = "GPS"
    s.refused("times of GPS", 3, "its times are in GPS", raw.write("gaps.uvfits"), "no.ms")


def check_subarrays(s):
    """The antenna tables of subarrays are joined: the same antenna gets one row, whatever its numbers, and others are added.
    Antennas may be counted from 0. An antenna without a row is refused."""
    a = s.made("round.ms", *RICH)
    s.convert("-quiet", "-overwrite", a, "round.uvfits")
    raw, x, names = Raw("round.uvfits"), Rows(a), list(Parts(a).antenna)
    at = [raw.header["PTYPE%d" % (i + 1)] for i in range(raw.header["PCOUNT"])].index("BASELINE")
    an = raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")]
    n, code = len(an.data), raw.parameters[:, at].astype(int)
    is_second = np.arange(len(code)) >= len(code) // 2
    second = fits.BinTableHDU(an.data[::-1].copy(), an.header.copy())
    second.data["NOSTA"], second.header["EXTVER"] = np.arange(1, n + 1), 2
    raw.tables.append(second)
    raw.parameters[:, at] = np.where(is_second, 256 * (n + 1 - code // 256) + n + 1 - code % 256 + 0.01, code)
    s.convert("-quiet", "-overwrite", raw.write("subarrays.uvfits"), "subarrays.ms")
    y = Rows("subarrays.ms")
    compare(s, "the same antennas by other numbers", x, y)
    s.must(list(Parts("subarrays.ms").antenna) == names and set(y.ARRAY_ID) == {0, 1}, "antennas are there once")
    second.data["ANNAME"] = ["other%d" % i for i in range(n)]
    s.convert("-quiet", "-overwrite", raw.write("subarrays.uvfits"), "subarrays.ms")
    y, found = Rows("subarrays.ms"), Parts("subarrays.ms").antenna
    s.must(list(found) == [*names, *("other%d" % i for i in range(n))], "antennas of another name are others")
    s.must(all((y.ARRAY_ID == 1) == (y.ANTENNA1 >= n)) and all((y.ARRAY_ID == 1) == (y.ANTENNA2 >= n)), "each row has its subarray's")
    with table("subarrays.ms/FEED", ack=False) as t:
        s.must(set(t.getcol("ANTENNA_ID")) == set(range(2 * n)), "which have feeds")
    raw.tables.pop()
    raw.parameters[:, at] = code - 257
    s.refused("antenna 0 without a row", 3, "antenna 0, which is not in a table AIPS AN", raw.write("zero.uvfits"), "no.ms")
    an.data["NOSTA"] -= 1
    s.convert("-quiet", raw.write("zero.uvfits"), "zero.ms")
    compare(s, "antennas from 0 on", x, Rows("zero.ms"))
    s.must(list(Parts("zero.ms").antenna) == names, "their names")
    # pyuvdata writes the antennas in addition to their code.
    for name, values in (("ANTENNA1", code // 256 - 1), ("ANTENNA2", code % 256 - 1), ("SUBARRAY", 1)):
        raw.add(name, np.broadcast_to(values, len(code)))
    s.convert("-quiet", "-overwrite", raw.write("zero.uvfits"), "zero.ms")
    compare(s, "antennas from 0 on, with their code", x, Rows("zero.ms"))


def check_several(s):
    """Files are joined, with sets too, selected and averaged like sets, and made into stores."""
    a = s.made("join.ms", *VLA, "-spw", "1.4GHz", "1MHz", 8)
    s.convert("-quiet", "-interval", 0, 2, a, "first.uvfits")
    s.convert("-quiet", "-interval", 2, 4, a, "second.uvfits")
    s.convert("-quiet", "first.uvfits", "second.uvfits", "joined.ms")
    compare(s, "joined", Rows(a), Rows("joined.ms"))
    s.convert("-quiet", "-average-channels", 4, "first.uvfits", "second.uvfits", "averaged.uvfits")
    g = Groups("averaged.uvfits")
    s.must(g.header["NAXIS4"] == 2 and g.header["CDELT4"] == 4e6 and np.all(g.weight == 4), "averaged on the way")
    s.convert("-quiet", "-interval", 2, 4, a, "rest.ms")
    for k, inputs in enumerate((("first.uvfits", "rest.ms"), ("rest.ms", "first.uvfits"))):
        s.convert("-quiet", *inputs, "joined%d.ms" % k)
        compare(s, "%s and %s" % inputs, Rows(a), Rows("joined%d.ms" % k))
    s.convert("-quiet", "first.uvfits", "first.msv")
    want, got = s.image("first.uvfits", "want", *IMAGE[:5]), s.image("first.msv", "got", *IMAGE[:5])
    s.must(np.array_equal(want, got), "a store of a file has its image")
    with open("first.uvfits", "r+b") as f:
        f.seek(-1, 2)
        f.write(b"\0")
    done = s.launch("-quiet", *IMAGE[:5], "-name", "old", "first.msv")
    s.told("a store whose file has changed", done, 3, "first.uvfits has changed since this store was made")


def check_signals(s):
    """After SIGTERM and SIGKILL while a file is read, the old output is complete, and no hidden file is left."""
    a = s.made("signals.ms", *VLA[:-2], "-duration", "100s", "-spw", "1.4GHz", "1MHz", 16)
    s.convert("-quiet", a, "signals.uvfits")
    write_idi(Rows(a), a, "signals.idi")
    for name in ("signals.uvfits", "signals.idi"):
        fresh_copy(s.made("join.ms", *VLA, "-spw", "1.4GHz", "1MHz", 8), "old.ms")
        s.disturb([name], "old.ms", Rows(a).n, 5)


def check_hostile(s):
    """An invalid or incomplete file is refused in one line; no file is left, and the old output is unchanged."""
    a = s.made("join.ms", *VLA, "-spw", "1.4GHz", "1MHz", 8)
    s.convert("-quiet", "-overwrite", a, "whole.uvfits")
    with open("whole.uvfits", "rb") as f:
        whole = f.read()
    def spoilt(name, change):
        with open(name, "wb") as f:
            f.write(change(whole))
        return name
    data = -(-re.search(rb" END {77}", whole).end() // 2880) * 2880
    def card(key, value):
        return lambda b: re.sub(key.encode().ljust(8) + b"=.{71}", (key.ljust(8) + "= " + value).ljust(80).encode(), b, count=1)
    for filling in (b"\0", b" "):
        s.convert("-quiet", "-overwrite", spoilt("filled.uvfits", lambda b, f=filling: b + f * 4 * 2880), "filled.ms")
        compare(s, "blocks of %r behind the tables" % filling, Rows(a), Rows("filled.ms"))
    with open("whole.uvfits", "rb") as f:
        s.convert("-quiet", "/dev/stdin", "input.ms", stdin=f)
    compare(s, "/dev/stdin that is a file", Rows(a), Rows("input.ms"))
    end = whole.index(b"END" + 77 * b" ")
    beyond = b"".join(c.ljust(80) for c in (b"NAXIS8  =                    5", b"CTYPE8  = 'IF      '", b"END"))
    s.convert("-quiet", "-overwrite", spoilt("beyond.uvfits", lambda b: (b[:end] + beyond).ljust(data) + b[data:]), "beyond.ms")
    compare(s, "cards of an axis IF beyond NAXIS", Rows(a), Rows("beyond.ms"))
    for title, pattern, change in (
            ("a table's column without a format", "TFORM2 is missing", card("TFORM2", "")),
            ("a column of no format", "TFORM4 is missing, or not a valid format", card("TFORM4", "'7Z'")),
            ("columns that a row has no place for", "its rows have ", card("TFORM4", "'9J'")),
            ("a table longer than the file", "longer than the file", lambda b: b[:data] + card("NAXIS2", "99999999")(b[data:])),
            ("something behind the tables", "no complete header of an extension", lambda b: b + b"?" * 2880),
            ("another file behind it", "another FITS file begins at byte", lambda b: b + b),
            ("text", "neither a Measurement Set nor a FITS file", lambda b: b"visibilities\n" * 1000),
            ("nothing", "neither a Measurement Set nor a FITS file", lambda b: b""),
            ("what gzip has packed", "compressed by gzip", gzip.compress),
            ("groups cut short", "truncated or corrupt", lambda b: b[:data + 40000]),
            ("no tables", "truncated or corrupt|antenna", lambda b: b[:data + 2880 * ((len(b) - data) // 2880 - 10)]),
            ("doubles", "truncated or corrupt", lambda b: b.replace(b"BITPIX  =                  -32", b"BITPIX  =                  -64")),
            ("more groups than there are", "truncated or corrupt", lambda b: re.sub(
                rb"GCOUNT  = {15}....", b"GCOUNT  =           99999999", b)),
            ("an image", "neither UVFITS", lambda b: b.replace(b"NAXIS1  =                    0", b"NAXIS1  =                    1")),
            ("Stokes I among correlations", "element 2 of its axis STOKES is 0", card("CRVAL3", "1.0")),
            ("numbers of a kind that FITS does not have", "BITPIX = 33", card("BITPIX", "33")),
            ("no BASELINE", "no parameter BASELINE", lambda b: b.replace(b"'BASELINE'", b"'BASELESS'")),
            ("an invalid code of antennas", "is not a code of two antennas", lambda b: b[:data + 20] + b"\xc0\0\0\0" + b[data + 24:])):
        s.refused(title, 3, pattern, spoilt("spoilt.uvfits", change), "no.ms")
    s.refused("Stokes I beforehand too", 3, "element 2 of its axis STOKES is 0", "-dry-run",
              spoilt("spoilt.uvfits", card("CRVAL3", "1.0")), "no.ms")
    nowhere = np.frombuffer(whole, ">f4", offset=data).copy()
    n_value = Groups("whole.uvfits").header["PCOUNT"] + 3 * 4 * 8
    nowhere[:1404 * n_value].reshape(1404, n_value)[:, 0] = np.nan
    s.refused("u that is nowhere a number", 3, "no row is left", spoilt("nowhere.uvfits", lambda b: b[:data] + nowhere.tobytes()), "no.ms")
    with open("old.uvfits", "wb") as f:
        f.write(b"what was there")
    s.refused("what exists is kept", 2, "-overwrite replaces it", a, "old.uvfits")
    s.refused("a full disk", 4, "", "-overwrite", a, "old.uvfits", preexec_fn=with_small_files(400000))
    with open("old.uvfits", "rb") as f:
        s.must(f.read() == b"what was there", "what was there is as it was")
    s.convert("-quiet", "-overwrite", a, "old.uvfits")
    s.must(Groups("old.uvfits").n == Groups("whole.uvfits").n, "-overwrite replaces it")
    s.refused("an input is no output", 4, "is the input", "-overwrite", "old.uvfits", "old.uvfits")
    os.mkfifo("fifo.uvfits")
    s.refused("a FIFO", 3, "neither a Measurement Set nor a file", "fifo.uvfits", "no.ms")
    s.must(not [f for f in os.listdir(".") if f.startswith(".")], "nothing hidden is left")


def check_unwritten(s):
    """A file that casacore cannot write is reported as a failed output, not as a damaged input."""
    if not may_trace():
        return
    a = s.made("join.ms", *VLA, "-spw", "1.4GHz", "1MHz", 8)
    s.convert("-quiet", "-overwrite", a, "whole.uvfits")
    for name in (a, "whole.uvfits"):
        done = subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=pwrite64", "-e", "inject=pwrite64:error=ENOSPC:when=5+",
                               s.convert_program, "-quiet", name, "no.ms"], stderr=subprocess.PIPE, encoding="utf-8", check=False)
        s.must(done.returncode == 4 and "no.ms: cannot be written" in done.stderr and not os.path.exists("no.ms"),
               "%s: exits %d: %s" % (name, done.returncode, done.stderr.strip()))


if __name__ == "__main__":
    main(Convert, globals())
