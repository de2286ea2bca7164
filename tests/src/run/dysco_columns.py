#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""dysco_columns.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: columns compressed by DyscoStMan are imaged with their decoded values,
stay unchanged by predictions into other columns, and are refused if their files are truncated. The oracle is a set whose
plain columns hold the decoded values."""
import os
import shutil

import numpy as np
from astropy.io import fits
from casacore.tables import makearrcoldesc, maketabdesc, table

from image_oracle import ASEC
from predict_oracle import Model, contents, marked
from program_suite import VLA, Suite, fresh_copy, main

SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,XY,YX,YY", "-ra", "60deg", "-dec", "44deg", "-duration",
       "60s", "-integration", "10s", "-spw", "1GHz", "40MHz", "8", "-noise", "1Jy"]
SPEC = {"dataBitCount": 10, "weightBitCount": 12, "distribution": "TruncatedGaussian", "normalization": "AF",
        "studentTNu": 0.0, "distributionTruncation": 2.5}
DIRECT_FIXED_SHAPE = 5


def compress(path, columns, name=None):
    """Replace columns by compressed ones; with a name, all in one manager of that name."""
    with table(path, readonly=False, ack=False) as t:
        values = {c: t.getcol(c) for c in columns}
        for c in columns:
            t.removecols(c)
        described = [makearrcoldesc(c, v.flat[0], valuetype="complex" if v.dtype.kind == "c" else "float", ndim=2,
                                    options=DIRECT_FIXED_SHAPE, shape=list(v.shape[1:])) for c, v in values.items()]
        for group in [described] if name else [[d] for d in described]:
            t.addcols(maketabdesc(group), {"TYPE": "DyscoStMan", "NAME": name or "Dysco" + group[0]["name"], "SPEC": SPEC})
        for c, v in values.items():
            t.putcol(c, v)


def columns_of(path, *columns):
    with table(path, ack=False) as t:
        return [t.getcol(c) for c in columns]


def first_file(path):
    """The data file of the first DyscoStMan: files of casacore's own managers begin with another word."""
    numbers = sorted(int(f[7:]) for f in os.listdir(path) if f.startswith("table.f") and f[7:].isdigit())
    for number in numbers:
        file = os.path.join(path, "table.f%d" % number)
        with open(file, "rb") as f:
            if f.read(4) != b"\xbe" * 4:
                return file
    return None


class Dysco(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        os.chdir(folder)
        Model((64, 64), 20 * ASEC, VLA).write("model")
        plain = self.made("plain.ms", *SET)
        with table(plain, readonly=False, ack=False) as t:
            rng = np.random.default_rng(1)
            shape = t.getcol("DATA").shape
            weight = np.repeat(rng.uniform(1, 2, shape[:2])[:, :, None], shape[2], axis=2).astype(np.float32)
            t.putcol("WEIGHT_SPECTRUM", weight)
        compress(fresh_copy(plain, "dysco.ms"), ["DATA", "WEIGHT_SPECTRUM"])
        compress(fresh_copy(plain, "together.ms"), ["DATA", "WEIGHT_SPECTRUM"], "Together")
        for compressed in ("dysco", "together"):
            with table(fresh_copy(plain, compressed + "_decoded.ms"), readonly=False, ack=False) as t:
                for c, v in zip(("DATA", "WEIGHT_SPECTRUM"), columns_of(compressed + ".ms", "DATA", "WEIGHT_SPECTRUM")):
                    self.must(not np.array_equal(v, t.getcol(c)), "%s: %s is stored with loss" % (compressed, c))
                    t.putcol(c, v)

    def image(self, ms, *words):
        done = self.launch("-quiet", "-size", 64, 64, "-scale", "20asec", "-name", "out", "-overwrite", *words, ms)
        if done.returncode:
            self.complain("%s: exits %s: %s" % (ms, done.returncode, done.stderr))
            return None
        return fits.getdata("out-dirty.fits")


def check_images(s):
    for words in ([], ["-channel-range", 2, 7], ["-readers", 2], ["-field", 0, "-taql", "ANTENNA1 % 3 = 0"]):
        for name in ("dysco", "together"):
            one, other = s.image(name + ".ms", *words), s.image(name + "_decoded.ms", *words)
            s.must(one is not None and np.array_equal(one, other), "%s is imaged as decoded %s" % (name, words))


def check_existing_columns(s):
    """A compressed column that is not read does not matter, and a prediction into another column does not change it."""
    for name in ("dysco", "together"):
        ms = fresh_copy(name + ".ms", "copy.ms")
        before = contents(ms, ("MODEL_DATA",))
        done = s.launch("-predict", "-quiet", "-name", "model", ms)
        s.must(done.returncode == 0 and contents(ms, ("MODEL_DATA",)) == before and not marked(ms),
               "predicted into a set with the columns of %s: %s" % (name, done.stderr))
        s.launch("-predict", "-quiet", "-name", "model", fresh_copy("plain.ms", "expected.ms"))
        s.must(np.array_equal(*columns_of(ms, "MODEL_DATA"), *columns_of("expected.ms", "MODEL_DATA")),
               "the prediction is that of a plain set")


def check_model_column(s):
    """A compressed MODEL_DATA would lose accuracy: a new column replaces it, and the old one is kept."""
    ms = fresh_copy("plain.ms", "copy.ms")
    s.launch("-predict", "-quiet", "-name", "model", ms)
    expected, = columns_of(ms, "MODEL_DATA")
    compress(ms, ["DATA", "MODEL_DATA"])
    old, = columns_of(ms, "MODEL_DATA")
    s.must(not np.array_equal(old, expected), "MODEL_DATA is stored with loss")
    before = contents(ms, ("MODEL_DATA",))
    done = s.launch("-predict", "-dry-run", "-name", "model", ms)
    s.must(done.returncode == 0 and "loss" in done.stderr, "a dry run says so")
    s.must(np.array_equal(*columns_of(ms, "MODEL_DATA"), old), "a dry run changes nothing")
    for _ in range(2):
        done = s.launch("-predict", "-name", "model", ms)
        now, kept = columns_of(ms, "MODEL_DATA", "MODEL_DATA_OLD_1")
        s.must(done.returncode == 0 and np.array_equal(now, expected), "predicted without loss: %s" % done.stderr[-200:])
        s.must(np.array_equal(kept, old), "the old column is kept")
        s.must(contents(ms, ("MODEL_DATA", "MODEL_DATA_OLD_1")) == before, "nothing else is changed")


def check_short_files(s):
    for name in ("dysco", "together"):
        size = os.path.getsize(first_file(name + ".ms"))
        for left in (0, 10, 60, 1000, size // 2, size - 1):
            ms = fresh_copy(name + ".ms", "copy.ms")
            os.truncate(first_file(ms), left)
            done = s.launch("-quiet", "-size", 64, 64, "-scale", "20asec", "-name", "short", ms)
            s.told("%s: %d bytes left" % (name, left), done, 3, "truncated or corrupt: .*table.f")
        shutil.rmtree("copy.ms")


if __name__ == "__main__":
    main(Dysco, globals())
