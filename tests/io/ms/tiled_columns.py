#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""tiled_columns.py DRIVER COUNT [SEED]: COUNT tables with columns in casacore's tiled storage managers, drawn at random:
managers, types, shapes of cells and tiles, rows without values, rows written out of order, several shapes in a column, both
byte orders. DRIVER (tiled_columns.c) reads them without casacore, and compares all values with those that python-casacore
reads. Then it reads mutants of the headers of the last tables."""
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

TYPES = {"boolean": np.bool_, "float": np.float32, "double": np.float64, "complex": np.complex64}
MUTANTS = 400


def draw_values(r, kind, shape):
    rng = np.random.default_rng(r.randrange(1 << 32))
    if kind == "boolean":
        return rng.random(shape) < r.choice((0.01, 0.5))
    values = rng.normal(size=shape)
    if kind == "complex":
        values = values + 1j * rng.normal(size=shape)
    return values.astype(TYPES[kind])


def draw_tile(r, shape, n_row, manager):
    """Whole cells, parts of cells, or anything; shapes are in casacore's order here, and numpy's in put."""
    last = [] if manager == "TiledCellStMan" else [r.randint(1, 2 * n_row)]
    if r.random() < 0.4:
        return [*shape, *last]
    return [r.randint(1, n) for n in shape] + last


def make_table(r, path):
    n_row = r.choice((1, 2, 7, 40, 300))
    columns, managers, fills = [], [], []
    for i in range(r.randint(1, 4)):
        kind, name = r.choice(list(TYPES)), "C%d" % i
        manager = r.choice(("TiledShapeStMan", "TiledColumnStMan", "TiledCellStMan"))
        n_dim = r.choice((1, 2, 2, 2))
        shape = [r.choice((1, 2, 3, 4)), r.choice((1, 3, 8, 13, 64))][:n_dim]
        is_fixed = manager == "TiledColumnStMan" or r.random() < 0.2
        options = dict(shape=shape[::-1], options=4) if is_fixed else {}
        columns.append(makearrcoldesc(name, TYPES[kind](0).item(), n_dim, valuetype=kind, datamanagertype=manager,
                                      datamanagergroup=name, **options))
        managers.append(dict(TYPE=manager, NAME=name, COLUMNS=[name], SEQNR=i,
                             SPEC=dict(DEFAULTTILESHAPE=draw_tile(r, shape, n_row, manager)[::-1])))
        fills.append((name, kind, shape, is_fixed))
    info = {"*%d" % (i + 1): m for i, m in enumerate(managers)}
    with table(path, maketabdesc(columns), nrow=n_row, dminfo=info, endian=r.choice(("big", "little")), ack=False) as t:
        for name, kind, shape, is_fixed in fills:
            rows = list(range(n_row))
            if not is_fixed and r.random() < 0.5:
                rows = [row for row in rows if r.random() < 0.8]
            if r.random() < 0.3:
                r.shuffle(rows)
            several = not is_fixed and r.random() < 0.4
            for row in rows:
                cell = [*shape[:-1], r.choice((shape[-1], shape[-1] + 1))] if several else shape
                t.putcell(name, row, draw_values(r, kind, cell[::-1]))
        for name, *_ in fills:
            with open(path + "." + name, "wb") as f:
                for row in range(n_row):
                    if t.iscelldefined(name, row):
                        f.write(np.ascontiguousarray(t.getcell(name, row)).tobytes())
    return len(fills)


def main():
    driver, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 32)
    print("seed", seed)
    with tempfile.TemporaryDirectory() as folder:
        paths, expected = [], []
        for i in range(count):
            paths.append(os.path.join(folder, "t%d" % i))
            expected.append(make_table(random.Random("%d/%d" % (seed, i)), paths[-1]))
        done = subprocess.run([driver, *paths], stdout=subprocess.PIPE, text=True, timeout=600)
        read = done.stdout.split()
        if done.returncode or read != [str(n) for n in expected]:
            sys.exit("FAILED: table %d: %s" % (len(read), done.stdout[-300:]))
        print("%d tables, %d columns: the same in both ways" % (count, sum(expected)))
        recognised = 0
        for i, path in enumerate(paths[-8:]):
            done = subprocess.run([driver, "-mutants", str(seed + i), str(MUTANTS), path], stdout=subprocess.PIPE, text=True,
                                  timeout=600)
            if done.returncode:
                sys.exit("FAILED: mutants of seed %d: code %d: %s" % (seed + i, done.returncode, done.stdout[-300:]))
            recognised += int(done.stdout.split()[0])
        print("mutants: %d were recognised" % recognised)


main()
