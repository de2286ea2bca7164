#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_sets.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: converted sets agree with the same operations by numpy in double
precision, and give the same images."""
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
from astropy.io import fits
from casacore.tables import complete_ms_desc, default_ms_subtable, makearrcoldesc, makescacoldesc, maketabdesc, table

from convert_oracle import C, SCALARS, Convert, Rows, average
from predict_oracle import contents
from program_suite import files, fresh_copy, main, run, may_trace, with_small_files

# Data and weights are rounded to float32, half a unit in the last place each. Differences in the rounding of the sums are far
# smaller.
FLOAT = 1.2e-7
VLA = ["-telescope", "vla", "-config", "D", "-ra", "60deg", "-dec", "44deg", "-integration", "2s", "-noise", "1Jy"]
HOSTILE = [*VLA, "-duration", "60s", "-spw", "1.4GHz", "1MHz", 10, "-flags", 0.3, "-flag-rows", 0.1, "-autocorrelations",
           "-weights", "radiometer", "-weight-spectrum", "partly"]
IMAGE = ["-size", 128, 128, "-scale", "15asec"]


def spoil(path):
    """Give a set weights that are negative, zero and NaN, and data that are NaN, Inf and too large."""
    with table(path, readonly=False, ack=False) as t:
        for row in range(0, t.nrows(), 7):
            w = np.array(t.getcell("WEIGHT_SPECTRUM", row)) if t.iscelldefined("WEIGHT_SPECTRUM", row) else None
            d = np.array(t.getcell("DATA", row))
            if w is not None:
                w[0], w[1, 0], w[2, 1] = -2, 0, np.nan
                t.putcell("WEIGHT_SPECTRUM", row, w)
            d[3, 0], d[4, 1], d[5] = np.nan, np.inf, 3e35
            t.putcell("DATA", row, d)
    return path


def of_ten(path):
    """The rows of the first ten antennas of a set, as a set: the oracle takes long for each row."""
    out = path[:-3] + "-of-ten.ms"
    with table(path, ack=False) as t:
        t.query("ANTENNA1 < 10 && ANTENNA2 < 10").copy(out, deep=True).close()
    return out


def alike(a, b, relative):
    """Return whether arrays are equal to within rounding, with NaN in the same places."""
    a, b = np.asarray(a), np.asarray(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        return a.shape == b.shape and bool(np.all(same | (abs(a - b) <= relative * abs(b))))


def check_copy(s):
    """Without options, every value of every row is copied unchanged."""
    a = spoil(s.made("copy.ms", *HOSTILE))
    s.convert("-quiet", a, "copied.ms")
    x, y = Rows(a), Rows("copied.ms")
    for name in SCALARS:
        s.must(np.array_equal(getattr(x, name), getattr(y, name)), "copied: " + name)
    for name in ("data", "weight", "flag", "row_weight", "sigma", "freq", "width"):
        s.must(all(np.array_equal(p, q, equal_nan=p.dtype.kind in "fc") for p, q in zip(getattr(x, name), getattr(y, name))),
               "copied: " + name)


def check_average(s):
    """Compare averages in time and frequency with numpy in double precision, with every kind of bad sample."""
    must_average(s, spoil(of_ten(s.made("average.ms", *HOSTILE))), ((4, 1), (1, 3), (4, 4), (7, 100)))


def check_average_good(s):
    """Rows without bad samples, which another loop sums, agree with numpy too, for one, two and four correlations."""
    good = [*VLA, "-duration", "20s", "-spw", "1.4GHz", "1MHz", 10, "-flags", 0.005, "-weights", "radiometer"]
    for corr in ("XX", "RR,LL", "XX,XY,YX,YY"):
        a = of_ten(s.made("good-%s.ms" % corr.replace(",", "-"), *good, "-pol", corr))
        flagged = [f.any() for f in Rows(a).flag]
        s.must(0.02 < np.mean(flagged) < 0.9, "%s: rows of both kinds" % corr)
        must_average(s, a, ((4, 3),))


def must_average(s, a, ways):
    x = Rows(a)
    for n_time, n_chan in ways:
        out = "%s-%d-%d.ms" % (os.path.basename(a)[:-3], n_time, n_chan)
        s.convert("-quiet", "-average-time", "%ds" % (2 * n_time), "-average-channels", n_chan, a, out)
        y = Rows(out)
        groups = [(i, min(i + n_chan, 10)) for i in range(0, 10, n_chan)]
        s.must(alike(y.freq[0], [x.freq[0][p:q].mean() for p, q in groups], 1e-15) and
               alike(y.width[0], [x.width[0][p:q].sum() for p, q in groups], 1e-15), out + ": channels")
        start = (x.TIME - x.INTERVAL / 2).min()
        bins = {}
        for i in range(x.n):
            bins.setdefault((*x.key(i), int((x.TIME[i] - start) // (2 * n_time))), []).append(i)
        found = {(*y.key(i), int((y.TIME[i] - start) // (2 * n_time))): i for i in range(y.n)}
        s.must(bins.keys() == found.keys(), out + ": %d rows" % y.n)
        bad = {}
        for key, members in bins.items():
            want, i = average(x, members, groups), found[key]
            checks = {"weights": alike(y.weight[i], want.weight, FLOAT), "flags": np.array_equal(y.flag[i], want.flag),
                      "uvw": np.allclose(y.UVW[i], want.uvw, rtol=1e-12, atol=1e-9),
                      "centroid": abs(y.TIME_CENTROID[i] - want.centroid) < 2e-6,
                      "time": abs(y.TIME[i] - want.time) < 2e-6 and abs(y.INTERVAL[i] - want.interval) < 2e-6,
                      "exposure": alike(y.EXPOSURE[i], want.exposure, 1e-12)}
            good = ~want.flag & np.isfinite(want.data)
            checks["data"] = bool(np.all(abs(y.data[i] - want.data)[good] <= FLOAT * np.maximum(abs(want.data[good]), 1e-6)))
            for what, ok in checks.items():
                bad[what] = bad.get(what, 0) + (not ok)
        for what, n in bad.items():
            s.must(n == 0, "%s: %s, %d rows differ" % (out, what, n))


def check_readers(s):
    """Sets read by reader processes give the same output, row by row."""
    a = spoil(of_ten(s.made("read-0.ms", *HOSTILE)))
    b = s.made("read-1.ms", *VLA, "-duration", "20s", "-spw", "1.5GHz", "1MHz", 6, "-weights", "radiometer")
    for words in ([], ["-average-time", "6s", "-average-channels", 3], ["-shift", "61deg", "43deg", "-maxuvw-m", 800]):
        s.convert("-quiet", "-overwrite", *words, a, b, "alone.ms")
        for n in (1, 3):
            s.convert("-quiet", "-overwrite", *words, "-readers", n, a, b, "by-readers.ms")
            x, y = Rows("alone.ms"), Rows("by-readers.ms")
            same = x.n == y.n and all(np.array_equal(getattr(x, k), getattr(y, k)) for k in SCALARS)
            same = same and all(np.array_equal(p, q, equal_nan=p.dtype.kind in "fc") for k in ("data", "weight", "flag")
                                for p, q in zip(getattr(x, k), getattr(y, k)))
            s.must(same and x.n > 0, "-readers %d %s" % (n, " ".join(map(str, words))))


def check_disorder(s):
    """Rows out of time order are not averaged, with a warning. Rows in the order of baselines are averaged."""
    a = s.made("ordered.ms", *VLA, "-duration", "40s", "-spw", "1.4GHz", "1MHz", 2)
    lot = np.random.default_rng(1)
    for title, order in (("shuffled", "rand"), ("by-baseline", "ANTENNA1,ANTENNA2,TIME")):
        with table(a, ack=False) as t:
            rows = lot.permutation(t.nrows()) if order == "rand" else t.sort(order).rownumbers()
            t.selectrows(rows).copy(title + ".ms", deep=True).close()
    told = {t: s.convert("-average-time", "8s", t + ".ms", t + "8.ms").stderr.decode() for t in ("shuffled", "by-baseline")}
    s.must("of %d rows are earlier than a previous row of their baseline" % Rows(a).n in told["shuffled"], "disorder is reported")
    s.must("earlier" not in told["by-baseline"] and Rows("by-baseline8.ms").n * 4 == Rows(a).n, "baseline by baseline")
    s.must("earlier" not in s.convert("-average-time", "8s", a, "ordered8.ms").stderr.decode(), "order is not")


def check_selection(s):
    """A selection gives the same image as from the whole set, and subtables hold the selected rows, renumbered."""
    a = s.made("select.ms", *VLA, "-duration", "60s", "-spw", "1GHz", "2MHz", 6, "-spw", "1.5GHz", "-2MHz", 8, "-spw", "2GHz",
               "1MHz", 4, "-field", "61deg", "44deg", "-flags", 0.1)
    chosen = ["-field", 1, "-spws", "1,2", "-channel-range", 2, 10, "-select-antenna", "!0", "-interval", 2, 25]
    s.convert("-quiet", *chosen, a, "selected.ms")
    want = s.image(a, "want", *IMAGE, *chosen)
    got = s.image("selected.ms", "got", *IMAGE)
    s.must(abs(got - want).max() <= 1e-7 * abs(want).max(), "the image of what was selected")
    for name, n in (("FIELD", 1), ("SPECTRAL_WINDOW", 2), ("DATA_DESCRIPTION", 2), ("POLARIZATION", 1)):
        with table("selected.ms/" + name, ack=False) as t:
            s.must(t.nrows() == n, "%s has %d rows" % (name, t.nrows()))
    with table("selected.ms/SPECTRAL_WINDOW", ack=False) as t:
        s.must(list(t.getcol("NUM_CHAN")) == [6, 2], "channels that are left")
    with table("selected.ms/HISTORY", ack=False) as t:
        s.must("-select-antenna '!0' -interval 2 25" in t.getcol("MESSAGE")[-1], "HISTORY tells the command")


def check_sparse(s):
    """Rows that are far apart in a large set keep all their values."""
    a = s.made("many.ms", *VLA, "-duration", "80s", "-integration", "1s", "-spw", "1GHz", "1MHz", 1, "-pol", "RR,LL")
    s.convert("-quiet", "-taql", "ROWID() % 97 == 5", a, "few.ms")
    with table(a, ack=False) as t, table("few.ms", ack=False) as few:
        rows = np.arange(5, t.nrows(), 97)
        s.must(t.nrows() > 20000 and few.nrows() == len(rows), "%d rows, and %d" % (t.nrows(), few.nrows()))
        for name in (*SCALARS, "UVW", "WEIGHT", "SIGMA", "DATA"):
            s.must(np.array_equal(few.getcol(name), t.getcol(name)[rows]), "%s of rows far apart" % name)


def check_few_rows(s):
    """Columns with one value for all rows, by windows and by scans, keep it in a set with fewer rows."""
    a = s.made("six-of.ms", *VLA, "-duration", "8s", "-spw", "1GHz", "1MHz", 2, "-spw", "1.5GHz", "1MHz", 2, "-scan-length", 2)
    words = ["-quiet", "-select-antenna", "3~5&"]
    s.convert(*words, "-interval", 0, 1, a, "six.ms")
    s.convert(*words, "-average-time", "4s", "-interval", 0, 2, a, "six-of-means.ms")
    s.convert(*words, "-average-time", "4s", "-interval", 0, 4, a, "twelve-of-means.ms")
    for name, windows, scans, interval_s in (("six.ms", [0] * 3 + [1] * 3, [1] * 6, 2), ("six-of-means.ms", [0] * 3 + [1] * 3, [1] * 6, 4),
                                             ("twelve-of-means.ms", None, [1] * 6 + [2] * 6, 4)):
        with table(name, ack=False) as t:
            got = {c: t.getcol(c).tolist() for c in ("DATA_DESC_ID", "SCAN_NUMBER", "INTERVAL", "FEED1", "STATE_ID")}
            s.must(windows in (None, got["DATA_DESC_ID"]) and got["SCAN_NUMBER"] == scans and np.allclose(got["INTERVAL"], interval_s)
                   and len(set(got["FEED1"])) == len(set(got["STATE_ID"])) == 1, "%s: %s" % (name, got))


def check_join(s):
    """Joining the parts of a set gives the set: equal antennas, fields and windows become one."""
    a = s.made("join.ms", *VLA, "-duration", "40s", "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4)
    for i, words in enumerate((["-interval", 0, 7], ["-interval", 7, 20, "-spws", 1], ["-interval", 7, 20, "-spws", 0])):
        s.convert("-quiet", *words, a, "part%d.ms" % i)
    s.convert("-quiet", "part0.ms", "part1.ms", "part2.ms", "joined.ms")
    want, got = s.image(a, "want", *IMAGE), s.image("joined.ms", "got", *IMAGE)
    s.must(abs(got - want).max() <= 1e-7 * abs(want).max(), "the image of the parts")
    for name in ("ANTENNA", "FIELD", "SPECTRAL_WINDOW", "DATA_DESCRIPTION", "FEED"):
        with table(a + "/" + name, ack=False) as t, table("joined.ms/" + name, ack=False) as u:
            s.must(t.nrows() == u.nrows(), "%s has %d rows" % (name, u.nrows()))
    x, y = Rows(a), Rows("joined.ms")
    order = [sorted(range(r.n), key=lambda i, r=r: (r.TIME[i], r.freq[r.window[r.DATA_DESC_ID[i]]][0], r.ANTENNA1[i],
                                                  r.ANTENNA2[i])) for r in (x, y)]
    s.must(all(np.array_equal(x.data[i], y.data[j]) for i, j in zip(*order)) and x.n == y.n, "rows of the parts")


def check_frames(s):
    """Sets with different frames of FIELD are not joined. A moving field is not shifted to another centre."""
    a = s.made("framed.ms", *VLA, "-duration", "4s")
    b = fresh_copy(a, "b1950.ms")
    with table(b + "/FIELD", readonly=False, ack=False) as t:
        t.putcolkeyword("PHASE_DIR", "MEASINFO", {**t.getcolkeyword("PHASE_DIR", "MEASINFO"), "Ref": "B1950"})
    for words in ([], ["-shift", "60.05deg", "44.02deg"]):
        s.refused("J2000 and B1950", 3, "b1950.ms/FIELD: row 0: PHASE_DIR is in B1950", *words, a, b, "both.ms")
    s.convert("-quiet", b, "alone-b1950.ms")
    with table("alone-b1950.ms/FIELD", ack=False) as t:
        s.must(t.getcolkeyword("PHASE_DIR", "MEASINFO")["Ref"] == "B1950", "a frame is kept")
    moving = fresh_copy(a, "moving.ms")
    with table(moving + "/FIELD", readonly=False, ack=False) as t:
        t.putcell("PHASE_DIR", 0, np.concatenate([t.getcell("PHASE_DIR", 0), [[1e-7, 0]]]))
    s.refused("a field that moves", 3, "-shift: field .* moves on the sky", "-shift", "60.05deg", "44.02deg", moving, "both.ms")
    done = run(s.convert_program, moving, "moved.uvfits")
    s.must(b"moves on the sky; UVFITS has one position" in done.stderr, "to UVFITS: %s" % done.stderr)
    for copy in ("moved.ms", "moved.msv"):
        s.convert("-quiet", moving, copy)
        done = s.launch("-dry-run", "-size", 64, 64, "-scale", "15asec", copy)
        s.must(done.returncode == 0 and "polynomial in time" in done.stderr, "%s moves: %s" % (copy, done.stderr))


def partition(a, whole, parts):
    """Make a multi-MS from a set as CASA's partition does, with a member for each part, selected by TaQL."""
    os.makedirs(whole + "/SUBMSS")
    members = ["%s/SUBMSS/multi.ms.000%d.ms" % (whole, i) for i in range(len(parts))]
    for member, rows in zip(members, parts):
        with table(a, ack=False) as t, t.query(rows) as chosen:
            chosen.copy(member, deep=True).close()
        # CASA's partition puts subtables into the first member, and links to them into the others.
        for name in os.listdir(members[0]) if member != members[0] else ():
            if os.path.isdir(os.path.join(members[0], name)):
                shutil.rmtree(os.path.join(member, name))
                os.symlink("../" + os.path.basename(members[0]) + "/" + name, os.path.join(member, name))
    both = table(members, ack=False)
    both.rename(whole + ".table")
    both.close()
    for name in os.listdir(whole + ".table"):
        shutil.move(os.path.join(whole + ".table", name), whole)
    return members


def check_multi_ms(s):
    """A multi-MS is read through its members. Shared subtables are read once, also in the sets made from it."""
    a = s.made("partition.ms", *VLA, "-duration", "40s", "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4)
    whole = s.path("multi.ms")
    with table(a, ack=False) as t:
        half = np.median(t.getcol("TIME"))
    partition(a, whole, ["TIME < %f" % half, *("TIME >= %f and DATA_DESC_ID = %d" % (half, k) for k in (1, 0))])
    s.convert("-quiet", whole, "whole.ms")
    x, y = Rows(a), Rows("whole.ms")
    order = [sorted(range(r.n), key=lambda i, r=r: (r.TIME[i], r.freq[r.window[r.DATA_DESC_ID[i]]][0], r.FIELD_ID[i], r.ANTENNA1[i],
                                                  r.ANTENNA2[i])) for r in (x, y)]
    s.must(x.n == y.n and all(np.array_equal(x.data[i], y.data[j]) and np.array_equal(x.UVW[i], y.UVW[j]) for i, j in zip(*order)),
           "rows of a multi-MS")
    with table(a, ack=False) as t:
        subtables = [k for k, v in t.getkeywords().items() if str(v).startswith("Table: ")]
    for name in subtables:
        with table(a + "/" + name, ack=False) as t, table("whole.ms/" + name, ack=False) as u:
            s.must(t.nrows() + (name == "HISTORY") == u.nrows(), "%s has %d rows" % (name, u.nrows()))
    s.must(len(set(y.OBSERVATION_ID)) == len(set(x.OBSERVATION_ID)), "one observation")
    s.convert("-quiet", "-average-time", "4s", "-average-channels", 2, whole, "whole4.ms")
    s.must(Rows("whole4.ms").n * 2 == x.n, "members are averaged")
    s.convert("-quiet", "-spws", 1, whole, "second-window.ms")
    s.must(Rows("second-window.ms").n * 2 == x.n, "a selection that leaves a member without rows")
    s.refused("a selection of no member's rows", 3, "no row is selected in any of 3 sets", "-select-time", "<1990/01/01", whole, "no.ms")
    s.refused("into itself", 4, "is inside it", whole, whole + "/new.ms")
    s.refused("times of a multi-MS", 2, "is a multi-MS", "-interval", 0, 1, whole, "no.ms")
    s.refused("a store of a multi-MS", 2, "from one Measurement Set", whole, "no.msv")


def check_frames_of_fields(s):
    """Fields may have different frames: such a multi-MS is converted like the plain set, but two such tables are not joined."""
    a, whole, frames = s.path("frames.ms"), s.path("frames-multi.ms"), [0, 3, 0]
    fields = [w for ra in ("61deg", "62deg") for w in ("-field", ra, "44deg")]
    shutil.copytree(s.made("frame.ms", *VLA, "-duration", "30s", "-spw", "1.4GHz", "1MHz", 4, *fields), a)
    with table(a + "/FIELD", readonly=False, ack=False) as t:
        t.addcols(makescacoldesc("PhaseDir_Ref", 0))
        t.putcol("PhaseDir_Ref", np.array(frames, np.int32))
        t.putcolkeyword("PHASE_DIR", "MEASINFO", {"type": "direction", "VarRefCol": "PhaseDir_Ref", "TabRefTypes": ["J2000", "B1950"],
                                                  "TabRefCodes": np.array([0, 3], np.uint32)})
    members = partition(a, whole, ["FIELD_ID = %d" % k for k in range(len(frames))])
    for name, words, want in (("all", (a,), frames), ("parts", (whole,), frames), ("some", ("-field", "1,2", whole), frames[1:])):
        s.convert("-quiet", *words, "frames-%s.ms" % name)
        with table("frames-%s.ms/FIELD" % name, ack=False) as t:
            s.must(list(t.getcol("PhaseDir_Ref")) == want, "frames of fields, %s" % name)
    other = fresh_copy(members[0], "frame-other.ms")
    s.refused("frames of two sets", 3, "fields of different frames are not joined", other, members[1], "no.ms")


def check_numbers(s):
    """Numbers that refer to other windows are renumbered. REST_FREQUENCY follows its source, also into the image header."""
    a = fresh_copy(s.made("numbers.ms", *VLA, "-duration", "20s", *[w for k in range(4) for w in ("-spw", "%gGHz" % (1 + k), "1MHz", 4)]),
                   "linked.ms")
    with table(a + "/SPECTRAL_WINDOW", readonly=False, ack=False) as t:
        t.addcols(maketabdesc([makearrcoldesc("ASSOC_SPW_ID", 0, ndim=1, valuetype="int")]))
        for i, linked in enumerate(([1, 2], [3], [0, 3, 1], [2])):
            t.putcell("ASSOC_SPW_ID", i, np.array(linked, np.int32))
    rest_hz = 1.420405751786e9
    with default_ms_subtable("SOURCE", a + "/SOURCE", complete_ms_desc("SOURCE")) as t:
        t.addrows(1)
        t.putcell("SOURCE_ID", 0, 5)
        t.putcell("SPECTRAL_WINDOW_ID", 0, -1)
        t.putcell("REST_FREQUENCY", 0, np.array([rest_hz, 1.6e9]))
    with table(a, readonly=False, ack=False) as t:
        t.putkeyword("SOURCE", "Table: " + os.path.abspath(a) + "/SOURCE")
    with table(a + "/FIELD", readonly=False, ack=False) as t:
        t.putcell("SOURCE_ID", 0, 5)
    s.convert("-quiet", "-spws", "1,2", a, "two.ms")
    with table("two.ms/SPECTRAL_WINDOW", ack=False) as t:
        got = [list(t.getcell("ASSOC_SPW_ID", i)) for i in range(2)]
        s.must(got == [[-1], [-1, -1, 0]], "windows 1 and 2 have %s" % got)
    s.convert("-quiet", "-spws", "3", a, "three.ms")
    s.convert("-quiet", "two.ms", "three.ms", "joined-numbers.ms")
    with table("joined-numbers.ms/SPECTRAL_WINDOW", ack=False) as t:
        got = [list(t.getcell("ASSOC_SPW_ID", i)) for i in range(3)]
        s.must(got == [[-1], [-1, -1, 0], [-1]], "joined they have %s" % got)
    for name in (a, "two.ms", "joined-numbers.ms"):
        with table(name + "/SOURCE", ack=False) as t:
            s.must(list(t.getcell("REST_FREQUENCY", 0)) == [rest_hz, 1.6e9], name + ": REST_FREQUENCY")
        s.image(name, "rest", *IMAGE)
        s.must(fits.getheader("rest-dirty.fits").get("RESTFRQ") == rest_hz, name + ": RESTFRQ")


def order_descriptions(path, order):
    """Put data descriptions in another order than their windows, and renumber the rows."""
    with table(path + "/DATA_DESCRIPTION", readonly=False, ack=False) as t:
        for name in ("SPECTRAL_WINDOW_ID", "POLARIZATION_ID"):
            t.putcol(name, t.getcol(name)[order])
    with table(path, readonly=False, ack=False) as t:
        t.putcol("DATA_DESC_ID", np.argsort(order)[t.getcol("DATA_DESC_ID")].astype(np.int32))
    return path


def check_order_of_descriptions(s):
    """Data descriptions in any order of windows and polarizations keep their frequencies and correlations in the output, with any
    selection, averaging or joining, and rows keep their values."""
    windows = ["-spw", "1GHz", "2MHz", 4, "-spw", "1.3GHz", "2MHz", 4, "-spw", "1.7GHz", "2MHz", 4]
    source = ["-source", "60.1deg", "44.05deg", "3Jy"]
    a = order_descriptions(s.made("order.ms", *VLA, "-duration", "20s", *windows, *source), [2, 0, 1])
    other = s.made("order-other.ms", *VLA, "-duration", "20s", "-start-ha", "2h", *windows, *source)
    for title, words, sets, chosen, limit in (
            ("whole", [], [a], [], 1e-7), ("two windows", ["-spws", "0,2"], [a], ["-spws", "0,2"], 1e-7),
            # A source this far from the centre loses less than 1e-3 by the average of two channels.
            ("averaged", ["-average-channels", 2], [a], [], 2e-3), ("joined", [], [other, a], [], 1e-6),
            ("joined to it", [], [a, other], [], 1e-6)):
        s.convert("-quiet", "-overwrite", *words, *sets, "ordered.ms")
        want, got = s.image(sets[-1], "want", *IMAGE, *chosen, *sets[:-1]), s.image("ordered.ms", "got", *IMAGE)
        s.must(abs(got - want).max() <= limit * abs(want).max(),
               "descriptions in another order, %s: the images are %.1e apart" % (title, abs(got - want).max()))
    s.convert("-quiet", "-overwrite", a, "ordered.ms")
    rows = [sorted((r.TIME[i], r.ANTENNA1[i], r.ANTENNA2[i], *r.freq[r.window[r.DATA_DESC_ID[i]]], *r.data[i][:, 0].real)
                   for i in range(r.n)) for r in (Rows(a), Rows("ordered.ms"))]
    s.must(rows[0] == rows[1], "each row has the frequencies that it had")


def check_frequencies(s):
    """Reversed or selected channels keep their frequencies to the bit, also without a width."""
    a = s.made("widths.ms", *VLA, "-duration", "20s", *[w for k in range(6) for w in ("-spw", "%gGHz" % (1 + 0.1 * k),
                                                                                     "%.9gHz" % (-5056654.428 - 1e3 * k), 8)])
    b = fresh_copy(a, "zero-widths.ms")
    with table(b + "/SPECTRAL_WINDOW", readonly=False, ack=False) as t:
        for name in ("CHAN_WIDTH", "EFFECTIVE_BW", "RESOLUTION"):
            t.putcol(name, 0 * t.getcol(name))
    for path in (a, b):
        want = np.sort(np.concatenate(Rows(path).freq))
        for words, part in (([], slice(None)), (["-channel-range", 2, 43], slice(2, 43))):
            s.convert("-quiet", "-overwrite", *words, path, "frequencies.ms")
            got = np.sort(np.concatenate(Rows("frequencies.ms").freq))
            s.must(np.array_equal(got, want[part]), "frequencies of %s, %s" % (path, " ".join(map(str, words)) or "all"))


def fix_shapes(path):
    """Declare a fixed shape for cells with a value for each channel, as cotter and LOFAR's writers do."""
    window, fixed = path + "/SPECTRAL_WINDOW", path + "/FIXED"
    with table(window, ack=False) as t:
        desc = t.getdesc()
        for name in ("CHAN_FREQ", "CHAN_WIDTH", "EFFECTIVE_BW", "RESOLUTION"):
            desc[name].update(ndim=1, shape=t.getcell(name, 0).shape, option=5)
        with table(fixed, desc, nrow=t.nrows(), ack=False) as to:
            for name in t.colnames():
                to.putcol(name, t.getcol(name))
    shutil.rmtree(window)
    os.rename(fixed, window)
    return path


def check_fixed_shapes(s):
    """A window is averaged to fewer channels, and joined with another one, whatever shape its set declares."""
    a = fix_shapes(s.made("fixed.ms", *VLA, "-duration", "20s", "-spw", "1.4GHz", "1MHz", 10))
    b = fix_shapes(s.made("other.ms", *VLA, "-duration", "20s", "-spw", "1.6GHz", "2MHz", 6))
    freq = Rows(a).freq[0]
    s.convert("-quiet", "-average-channels", 2, a, "fixed-averaged.ms")
    s.must(np.array_equal(Rows("fixed-averaged.ms").freq[0], freq.reshape(5, 2).mean(1)), "averaged, of a fixed shape")
    s.convert("-quiet", "-channel-range", 2, 9, a, "fixed-selected.ms")
    s.must(np.array_equal(Rows("fixed-selected.ms").freq[0], freq[2:9]), "selected, of a fixed shape")
    s.convert("-quiet", a, b, "fixed-joined.ms")
    joined = Rows("fixed-joined.ms").freq
    s.must(np.array_equal(joined[0], freq) and np.array_equal(joined[-1], Rows(b).freq[0]), "joined, of two fixed shapes")


def check_dry_run(s):
    """A dry run refuses missing columns, as a conversion does."""
    for column in ("DATA", "FLAG", "WEIGHT"):
        a = fresh_copy(s.made("dry.ms", *VLA, "-duration", "4s", "-spw", "1.4GHz", "1MHz", 2), "without.ms")
        with table(a, readonly=False, ack=False) as t:
            t.removecols(column)
        for out in ("no.ms", "no.uvfits", "no.msv"):
            for words in ((), ("-dry-run",)):
                s.refused("%s without %s %s" % (out, column, " ".join(words)), 3, "no column " + column, *words, a, out)


def check_shift(s):
    """A shifted set gives the same image as msimage -shift, and FIELD has the new centre."""
    a = s.made("shift.ms", *VLA, "-duration", "60s", "-spw", "1.4GHz", "1MHz", 4, "-source", "60.1deg", "44.05deg", "1Jy")
    to = ["-shift", "60.1deg", "44.05deg"]
    s.convert("-quiet", *to, a, "shifted.ms")
    want, got = s.image(a, "want", *IMAGE, *to), s.image("shifted.ms", "got", *IMAGE)
    s.must(abs(got - want).max() <= 1e-6 * abs(want).max(), "the image of the turned set")
    with table("shifted.ms/FIELD", ack=False) as t:
        s.must(np.allclose(t.getcol("PHASE_DIR").ravel(), np.radians([60.1, 44.05]), atol=1e-12, rtol=0), "PHASE_DIR")


def sinc_loss(x, members, lmn):
    """Return the amplitude of a point after averaging rows of a baseline: the mean of exp(2 pi i turns) over even turns."""
    path = x.UVW[members] @ lmn * x.freq[0].mean() / C
    turns = (path[-1] - path[0]) / (len(members) - 1) * len(members)
    return np.sinc(turns)


def check_smearing(s):
    """A point at the edge of the field loses as much as the formula predicts, for each baseline and in the image."""
    offset = np.radians(0.4)
    a = s.made("edge.ms", "-telescope", "vla", "-config", "C", "-ra", "60deg", "-dec", "44deg", "-integration", "2s",
               "-duration", "16min", "-spw", "1.4GHz", "1kHz", 1, "-source", "60deg", "44.4deg", "1Jy")
    s.convert("-quiet", "-average-time", "64s", a, "smeared.ms")
    x, y = Rows(a), Rows("smeared.ms")
    lmn = np.array([0, np.sin(offset), np.cos(offset) - 1])
    start = (x.TIME - x.INTERVAL / 2).min()
    bins = {}
    for i in range(x.n):
        bins.setdefault((*x.key(i), int((x.TIME[i] - start) // 64)), []).append(i)
    # Turns are not quite even: their second difference, 7e-5 rad/s squared times 64 s squared of a phase of hundreds of
    # turns, is below a hundredth of the loss.
    error, most = 0, 0
    for i in range(y.n):
        want = sinc_loss(x, bins[(*y.key(i), int((y.TIME[i] - start) // 64))], lmn)
        got = abs(y.data[i][0, 0]) / 1.0
        error, most = max(error, abs(got - want)), max(most, 1 - want)
    s.must(most > 0.01 and error < 0.02 * most, "the loss of baselines is %.3g at most, and as computed to %.2g" % (most, error))
    at = ["-size", 64, 64, "-scale", "3asec", "-shift", "60deg", "44.4deg"]
    before, after = s.image(a, "before", *at)[32, 32], s.image("smeared.ms", "after", *at)[32, 32]
    want = np.mean([sinc_loss(x, m, lmn) for m in bins.values() if x.ANTENNA1[m[0]] != x.ANTENNA2[m[0]]])
    s.must(abs(after / before - want) < 0.02 * (1 - want), "the image keeps %.6f, computed %.6f" % (after / before, want))
    told = s.convert("-dry-run", "-average-time", "64s", "-smearing-radius", "0.4deg", a, "none.ms").stderr.decode()
    s.must("amplitude lost by averaging, 24 arcmin" in told and not os.path.exists("none.ms"), "the loss is reported beforehand")
    # The largest loss up to that distance: everything, if the phase changes by more than one turn.
    told = s.convert("-dry-run", "-average-time", "10min", "-smearing-radius", "0.4deg", a, "none.ms").stderr.decode()
    lines = [(float(m[1]), float(m[2])) for m in re.finditer(r"baselines of +(\S+) m: +(\S+) %", told)]
    turns = [7.292115e-5 * 600 * metres * 1.4e9 / C * np.sin(offset) for metres, _ in lines]
    want = [100 * (1 - abs(np.sinc(np.linspace(0, t, 10001))).min()) for t in turns]
    s.must(len(lines) == 4 and max(turns) > 2 and min(turns) < 1 and
           all(abs(got - w) < 2e-3 * w and got <= 100 for (_, got), w in zip(lines, want)),
           "over %s turns %s %% are lost" % (["%.2f" % t for t in turns], [got for _, got in lines]))


def check_baseline_dependent(s):
    """Each baseline is averaged for as long as the loss allows, but not longer."""
    a, loss, radius = s.path("edge.ms"), 0.002, np.radians(0.4)
    if not os.path.exists(a):
        a = s.made("edge.ms", "-telescope", "vla", "-config", "C", "-ra", "60deg", "-dec", "44deg", "-integration", "2s",
                   "-duration", "16min", "-spw", "1.4GHz", "1kHz", 1, "-source", "60deg", "44.4deg", "1Jy")
    s.convert("-quiet", "-average-baseline-dependent", loss, "-average-time", "4min", "-smearing-radius", "0.4deg", a, "bda.ms")
    x, y = Rows(a), Rows("bda.ms")
    length = np.linalg.norm(y.UVW, axis=1)
    turns = 7.292115e-5 * np.sin(radius) * 1.4e9 / C * np.linalg.norm(x.UVW, axis=1).max()
    allowed = 1 - np.sinc(7.292115e-5 * y.INTERVAL * length * 1.4e9 / C * np.sin(radius))
    # The mean of uvw over a row is shorter than the baseline, by less than 1e-4 of its length.
    s.must(allowed.max() <= loss * 1.001, "no row loses more than %g (%.4g)" % (loss, allowed.max()))
    longer = 1 - np.sinc(7.292115e-5 * (y.INTERVAL + 2) * length * 1.4e9 / C * np.sin(radius))
    full = (y.INTERVAL < 239) & (y.TIME + y.INTERVAL / 2 < x.TIME.max() - 1)
    s.must(full.any() and longer[full].min() > loss * 0.99, "no row could last longer (%.4g)" % longer[full].min())
    s.must(len(set(np.round(y.INTERVAL))) > 5 and y.n < x.n / 5 and turns > 0, "%d rows became %d" % (x.n, y.n))
    s.must(abs(y.EXPOSURE.sum() - x.EXPOSURE.sum()) < 1e-3, "no time is lost")
    image = ["-size", 256, 256, "-scale", "15asec"]
    want, got = s.image(a, "want", *image), s.image("bda.ms", "got", *image)
    s.must(abs(got - want).max() < 2 * loss * abs(want).max(), "its image differs by %.2g of the peak" %
           (abs(got - want).max() / abs(want).max()))


def check_incomplete(s):
    """Missing optional subtables do not cause a failure, and undefined exposures do not prevent averaging."""
    a = s.made("incomplete.ms", *VLA, "-duration", "20s", "-spw", "1.4GHz", "1MHz", 4)
    for name in ("POINTING", "FEED", "HISTORY", "STATE", "PROCESSOR", "FLAG_CMD"):
        shutil.rmtree(os.path.join(fresh_copy(a, "gone.ms"), name))
        done = s.convert("-overwrite", "gone.ms", "carried.ms")
        with table("carried.ms/" + name, ack=False) as t:
            left = t.nrows()
        s.must(np.array_equal(Rows("carried.ms").TIME, Rows(a).TIME) and left <= (name == "HISTORY") and
               b"subtable %s is missing" % name.encode() in done.stderr, "without %s: told, and there without rows" % name)
    shutil.rmtree(os.path.join(fresh_copy(a, "odd.ms"), "HISTORY"))
    os.symlink("FIELD", "odd.ms/HISTORY")
    done = s.convert("-overwrite", "odd.ms", "carried.ms")
    s.must(np.array_equal(Rows("carried.ms").TIME, Rows(a).TIME) and b"HISTORY: has no column OBSERVATION_ID" in done.stderr,
           "with another table as HISTORY: told")
    with table(fresh_copy(a, "untold.ms"), readonly=False, ack=False) as t:
        for column in ("EXPOSURE", "INTERVAL"):
            t.putcol(column, 0 * t.getcol(column))
    s.convert("-quiet", "-average-time", "4s", a, "told4.ms")
    s.convert("-quiet", "-average-time", "4s", "untold.ms", "untold4.ms")
    x, y = Rows("told4.ms"), Rows("untold4.ms")
    s.must(x.n == y.n == Rows(a).n // 2 and alike(x.UVW, y.UVW, 1e-12), "%d rows become %d, without exposures %d" %
           (Rows(a).n, x.n, y.n))


def check_safety(s):
    """Outputs are replaced only with -overwrite, and a run that ends early leaves the old output unchanged."""
    a = s.made("safe.ms", *VLA, "-duration", "40s", "-spw", "1.4GHz", "1MHz", 4)
    fresh_copy(a, "old.ms")
    before = files("old.ms")
    s.refused("what exists is kept", 2, "-overwrite replaces it", a, "old.ms")
    s.refused("an input is no output", 4, "is the input", "-overwrite", a, a)
    s.refused("nor a folder in one", 4, "is inside it", a, a + "/new.ms")
    os.makedirs("folder/sub")
    s.refused("a folder is not replaced", 4, "is not replaced", "-overwrite", a, "folder")
    s.refused("no folder", 4, "No such file", a, "nowhere/out.ms")
    s.refused("no input", 3, "No such file", "nothing.ms", "out.ms")
    s.refused("no output", 2, "OUT is missing", a)
    s.refused("a field that is not there", 3, "has no field 7", "-field", 7, a, "out.ms")
    s.refused("no such option", 2, "no such option", "-size", 5, a, "out.ms")
    for word, meant in (("-spw", "-select-spw"), ("-timebin", "-average-time"), ("-chanbin", "-average-channels"),
                        ("-datacolumn", "-data-column"), ("-outputvis", "the output last"), ("-scan", "-select-scan")):
        s.refused("mstransform's %s" % word, 2, meant, word, 5, a, "out.ms")
    for word, meant in (("-avarage-time", "did you mean -average-time?"), ("-average_channels", "-average-channels?"),
                        ("-mgian", "-help lists all options")):
        s.refused("misspelt: %s" % word, 2, meant, word, 5, a, "out.ms")
    s.refused("a name that promises a compressed file", 2, "name it out.uvfits", a, "out.uvfits.gz")
    s.refused("a name of another format", 2, "end the name in .ms", a, "out.zarr")
    s.refused("an option behind the paths", 2, "options go before IN", a, "old.ms", "-overwrite")
    s.refused("a misspelt one", 2, "options go before IN", a, "-overwrit")
    s.refused("a time without unit", 2, "with its unit", "-average-time", 8, a, "out.ms")
    for most in (20000, 100000, 200000, 400000):
        s.refused("files of no more than %d bytes" % most, 4, "error: old.ms: File too large$", "-overwrite", a, "old.ms",
                  preexec_fn=with_small_files(most))
    s.refused("32 open files", 5, "32 files can be open at once, but 128 are needed", a, "out.ms",
              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)))
    s.refused("a set given twice", 2, "are the same set", a, os.path.dirname(a) + "/./safe.ms", "out.ms")
    cut = fresh_copy(a, "cut.ms")
    os.truncate(cut + "/table.f0", 100)
    s.refused("a set cut short", 3, "truncated or corrupt: [^;]*$", cut, "out.ms")
    later = time.time() + 3600
    os.utime(cut + "/table.f1", (later, later))
    s.refused("a set that has changed meanwhile", 3, "truncated or corrupt: .*; files of .*cut.ms have changed since this run "
              "began", cut, "out.ms")
    s.must(files("old.ms") == before, "what was there is as it was")
    s.convert("-quiet", "-overwrite", a, "old.ms")
    s.must(Rows("old.ms").n == Rows(a).n and not [f for f in os.listdir(".") if f.startswith(".")], "-overwrite replaces it")


def check_signals(s):
    """After SIGTERM and SIGKILL at any time, the old output is complete. SIGTERM leaves no hidden file."""
    a = s.made("signals.ms", *VLA, "-duration", "10min", "-spw", "1.4GHz", "1MHz", 16)
    fresh_copy(s.made("safe.ms", *VLA, "-duration", "40s", "-spw", "1.4GHz", "1MHz", 4), "old2.ms")
    s.disturb([a], "old2.ms", Rows(a).n, 12)


def check_two_processes(s):
    """Averages written by another process are the same as those written by one process. If either ends early, the old output is kept."""
    sizes = ["-spw", "1.4GHz", "1MHz", 10, "-spw", "1.5GHz", "1MHz", 6]
    a = spoil(s.made("windows.ms", *VLA, "-duration", "60s", *sizes, "-flags", 0.3, "-flag-rows", 0.1, "-weight-spectrum", "partly"))
    b = s.made("windows2.ms", *VLA, "-duration", "20s", "-field", "61deg", "44deg", *sizes)
    for name, inputs in (("one", [a]), ("two", [a, b])):
        words = ["-quiet", "-average-time", "6s", "-average-channels", 4]
        s.convert(*words, *inputs, "one-process.ms")
        s.convert(*words, "-readers", 1, *inputs, "two-processes.ms")
        different = [what for what in differences("one-process.ms", "two-processes.ms") if not what.startswith("HISTORY ")]
        s.must(not different, "%s: a second process writes the same set %s" % (name, different))
        shutil.rmtree("one-process.ms")
        shutil.rmtree("two-processes.ms")
    words = ["-readers", "1", "-average-channels", "2"]
    fresh_copy(b, "old3.ms")
    before = files("old3.ms")
    for most in (20000, 100000, 200000):
        s.refused("files of no more than %d bytes, two processes" % most, 4, "error: old3.ms: File too large$", "-overwrite", *words, a,
                  "old3.ms", preexec_fn=with_small_files(most))
    s.must(files("old3.ms") == before, "what was there is as it was")
    s.disturb([*words, a], "old3.ms", Rows(a).n, 8)


def differences(a, b):
    """Return the columns, keywords and subtables of two sets that are not bitwise equal."""
    x, y = contents(a), contents(b)
    return sorted(k for k in x.keys() | y.keys() if x.get(k) != y.get(k))


def check_long(s):
    """A conversion may take any time: all its working processes reset their CPU time limits regularly."""
    if not may_trace():
        return
    a = s.made("long.ms", *VLA, "-duration", "12min", "-spw", "1.4GHz", "1MHz", 16)
    n_block = os.path.getsize(a + "/table.f3_TSM1") // (1 << 20)
    for words in (["-readers", 1], ["-readers", 1, "-average-channels", 4]):
        os.makedirs("steps")
        run("strace", "-ff", "-o", "steps/of", "-e", "trace=setitimer", s.convert_program, "-quiet", *words, a, "long-out.ms")
        calls = sorted(open("steps/" + name, encoding="ascii").read().count("setitimer") for name in os.listdir("steps"))
        # The main process and the keeper of the directory do not work themselves, and a thread reads within the limits of its
        # process. One more process writes averages.
        s.must(n_block > 50 and len(calls) == (5 if len(words) == 2 else 6) and calls[-2] > n_block and calls[3] > 0,
               "%s: %d blocks, processes say %s times that they work" % (words, n_block, calls))
        shutil.rmtree("steps")
        shutil.rmtree("long-out.ms")


def help_to_closed_pipe(s, program):
    """-help in a pipe to a program that reads only its beginning does not print an error."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([program, "-help"], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    s.must(done.returncode == -signal.SIGPIPE and not done.stderr, "-help to a closed pipe: %s" % done)


def check_help(s):
    text = run(s.convert_program, "-help").stdout.decode()
    s.must("-average-baseline-dependent" in text and "-select-uvrange" in text, "-help")
    s.must(run(s.convert_program, "-version").stdout.startswith(b"msimage-convert "), "-version")
    for program in (s.convert_program, s.makems, s.msimage):
        help_to_closed_pipe(s, program)


if __name__ == "__main__":
    main(Convert, globals())
