#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""set_ways.py DRIVER MSIMAGE_MAKEMS SETS MUTANTS [SEED [MINUTES]]: draws Measurement Sets, which DRIVER (set_ways.c) reads directly and by
casacore; all blocks must be the same. Drawn are: setups with several numbers of channels (hypercubes), the storage managers and
tiles of the large columns, the order of columns, both byte orders, the order of rows, deleted rows, tables that refer to rows of
others, concatenations, rows without WEIGHT_SPECTRUM, the managers and buckets of the columns of rows, and columns of rows that were
added later. Then DRIVER reads MUTANTS damaged sets of some of them. The seed is
printed; a failure names its number, and SEED repeats it. After MINUTES no more sets are drawn."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

LARGE = ("DATA", "MODEL_DATA", "FLAG", "WEIGHT_SPECTRUM")
SCALARS = ("TIME", "ANTENNA1", "ANTENNA2", "FLAG_ROW", "DATA_DESC_ID", "FIELD_ID", "INTERVAL", "SCAN_NUMBER")
AT_ONCE_S = 800


def make_base(r, makems, path):
    """A set of few rows, with one or several setups; casacore's own tool then rewrites it."""
    setups = r.choice(([3], [8], [5, 5], [4, 7], [1]))
    words = ["-telescope", "vla", "-duration", "%ds" % r.choice((10, 20, 30)), "-seed", str(r.randrange(1000)),
             "-flags", str(r.choice((0, 0.1, 0.5))), "-noise", "1Jy", "-weight-spectrum", r.choice(("none", "full", "partly")),
             "-pol", r.choice(("XX,XY,YX,YY", "XX,YY", "XX"))]
    for i, n in enumerate(setups):
        words += ["-spw", "%.3fGHz" % (1 + 0.1 * i), r.choice(("1MHz", "-1MHz")), str(n)]
    if r.random() < 0.3:
        words += ["-autocorrelations"]
    subprocess.run([makems, *words, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with table(path, readonly=False, ack=False) as t:
        t.addcols(maketabdesc(makearrcoldesc("MODEL_DATA", 0j, 2, valuetype="complex")), {"TYPE": "StandardStMan", "NAME": "SSM_MODEL"})
        for row in range(t.nrows()):
            t.putcell("MODEL_DATA", row, (t.getcell("DATA", row) + row).astype(np.complex64))


def draw_managers(r, source):
    """Managers and tiles of the large columns: each alone in its manager, in tiles or not."""
    info = source.getdminfo()
    large = [c for c in LARGE if c in source.colnames()]
    small = list(SCALARS) if r.random() < 0.8 else []
    arrays = [c for c in ("UVW", "WEIGHT") if r.random() < 0.3]
    for i in list(info):
        info[i]["COLUMNS"] = [c for c in info[i]["COLUMNS"] if c not in (*large, *small, *arrays)]
        if not info[i]["COLUMNS"]:
            del info[i]
    # casacore cannot read a part of the cells of a TiledCellStMan at once; tiled_columns.py reads these.
    shape = list(min(source.getcell("DATA", row).shape for row in range(source.nrows()))[::-1])
    for column in large:
        is_tiled = r.random() < 0.95
        tile = (shape if r.random() < 0.4 else [r.randint(1, n) for n in shape]) + [r.choice((1, 3, 17, 200))]
        info["*" + column] = dict(TYPE="TiledShapeStMan" if is_tiled else "StandardStMan", NAME="drawn" + column,
                                  COLUMNS=[column], SPEC=dict(DEFAULTTILESHAPE=tile[::-1]) if is_tiled else {})
    r.shuffle(small)
    while small:
        n = r.randint(1, len(small))
        is_standard = r.random() < 0.6
        spec = r.choice((dict(BUCKETROWS=r.choice((1, 7, 32, 1000))), dict(BUCKETSIZE=r.choice((300, 5000, 40000))), {}))
        info["*" + small[0]] = dict(TYPE="StandardStMan" if is_standard else "IncrementalStMan", NAME="drawn" + small[0],
                                    COLUMNS=small[:n], SPEC=spec if is_standard else dict(BUCKETSIZE=r.choice((500, 2000, 32768))))
        small = small[n:]
    for column in arrays:
        info["*" + column] = dict(TYPE=r.choice(("StandardStMan", "TiledShapeStMan", "IncrementalStMan")), NAME="drawn" + column,
                                  COLUMNS=[column], SPEC={})
    return {"*%d" % (i + 1): dict(m, SEQNR=i) for i, m in enumerate(info.values())}


def add_later(r, path):
    """Write some columns of rows again: a StandardStMan that exists gives them the space of removed ones, or other buckets."""
    with table(path, readonly=False, ack=False) as t:
        for column in r.sample(SCALARS, 3):
            values, desc = t.getcol(column), maketabdesc({"name": column, "desc": t.getcoldesc(column)})
            try:
                t.removecols(column)
            except RuntimeError:
                continue  # an IncrementalStMan keeps its columns
            # Without a name, casacore takes a manager that exists.
            t.addcols(desc, r.choice(({}, {"TYPE": "StandardStMan", "NAME": "new" + column})))
            t.putcol(column, values)


def make_set(r, makems, folder, name):
    """Returns the path of a drawn set."""
    base, path = os.path.join(folder, name + ".base"), os.path.join(folder, name)
    make_base(r, makems, base)
    with table(base, ack=False) as t:
        columns = list(t.colnames())
        if r.random() < 0.5:
            r.shuffle(columns)
        source = t.select(",".join(columns))
        if r.random() < 0.5:
            source = source.sort(r.choice(("ANTENNA2, TIME", "DATA_DESC_ID, TIME DESC", "ANTENNA1 DESC")))
        source.copy(path, deep=True, valuecopy=True, dminfo=draw_managers(r, source),
                    endian=r.choice(("big", "little", "local")))
    if r.random() < 0.3:
        add_later(r, path)
    kind = r.choice(("plain", "plain", "reference", "concatenation", "deleted"))
    if kind == "deleted":
        with table(path, readonly=False, ack=False) as t:
            try:
                t.removerows(sorted(r.sample(range(t.nrows()), t.nrows() // 5)))
            except RuntimeError:
                pass  # tiled managers do not remove rows
    if kind == "reference":
        with table(path, ack=False) as t:
            t.query("rownumber() % 5 < 3" if r.random() < 0.5 else "ANTENNA1 < 9").copy(path + ".ref")
        return path + ".ref"
    if kind == "concatenation":
        shutil.copytree(path, path + ".two")
        with table([path, path + ".two"], ack=False) as t:
            t.rename(path + ".all")
            t.flush()
        return path + ".all"
    return path


def run(driver, *words):
    return subprocess.run([driver, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=AT_ONCE_S)


def main():
    driver, makems, n_set, n_mutant = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.randrange(1 << 32)
    print("seed", seed, flush=True)
    until = time.monotonic() + 60 * float(sys.argv[6]) if len(sys.argv) > 6 else float("inf")
    n_direct = n_scalar = n_done = 0
    read, one, none = 0, 0, 0
    for i in range(n_set):
        if time.monotonic() > until:
            break
        n_done += 1
        with tempfile.TemporaryDirectory() as folder:
            path = make_set(random.Random("%d/%d" % (seed, i)), makems, folder, "set%d" % i)
            done = run(driver, str(seed + i), path)
            if done.returncode:
                sys.exit("FAILED: set %d of seed %d: code %d: %s%s" % (i, seed, done.returncode, done.stdout[-400:], done.stderr[-400:]))
            directly = [int(n) for n in done.stdout.split()]
            n_direct += directly[0] > 0
            n_scalar += directly[1]
            if not n_mutant or path.endswith((".all", ".ref")):
                continue
            done = run(driver, "-mutants", str(seed + i), str(n_mutant), path)
            if done.returncode:
                sys.exit("FAILED: mutants of set %d of seed %d: code %d: %s%s" % (i, seed, done.returncode, done.stdout[-400:],
                                                                                 done.stderr[-400:]))
            read, one, none = (a + int(b) for a, b in zip((read, one, none), done.stdout.split()))
    print("%d sets, %d of them and %d scalar columns read directly: the same in both ways" % (n_done, n_direct, n_scalar))
    print("%d mutants: read by both ways, which agree, %d; by one %d; by none %d" % (read + one + none, read, one, none))
    if n_done >= 10 and not (0 < n_direct < n_done and n_scalar > n_done):
        sys.exit("FAILED: sets of one kind were drawn")


main()
