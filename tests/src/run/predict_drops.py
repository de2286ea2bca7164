#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_drops.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: -drop-old removes the columns that predictions put aside, frees their
space, and changes nothing else. ms_writer_faults.py kills it at every step."""
import os
import shutil

import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

from dysco_columns import compress
from image_oracle import ASEC
from predict_oracle import Model, contents
from program_suite import VLA, Suite, files, fresh_copy, main

SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "60s", "-spw",
       "1GHz", "40MHz", "8", "-noise", "1Jy"]
OLD = ("MODEL_DATA", "MODEL_DATA_OLD_1", "MODEL_DATA_OLD_2")


def names(path):
    with table(path, ack=False) as t:
        return t.colnames()


def add_like_data(path, columns, manager):
    """Columns with DATA's values, together in a manager that is new or, by its name, there."""
    with table(path, readonly=False, ack=False) as t:
        described = maketabdesc([makearrcoldesc(c, 0j, valuetype="complex", ndim=2) for c in columns])
        t.addcols(described, {"TYPE": "StandardStMan", "NAME": manager})
        for c in columns:
            t.putcol(c, t.getcol("DATA"))


def size(path):
    return sum(os.path.getsize(os.path.join(path, n)) for n in os.listdir(path) if n.startswith("table.f"))


class Drops(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        os.chdir(folder)
        for name, seed in (("one", 1), ("two", 2)):
            Model((64, 64), 20 * ASEC, VLA, seed=seed).write(name)
        self.source = self.made("source.ms", *SET)
        self.expected = fresh_copy(self.source, "expected.ms")
        self.must(self.predict(self.expected).returncode == 0, "predicted")

    def predict(self, path, *words, model="one"):
        return self.launch("-predict", "-name", model, *words, path)

    def right(self, title, path, *words):
        """Check that the run succeeds, the column is complete, old ones are gone, and the rest is unchanged. Returns the log."""
        before = contents(path, OLD)
        done = self.predict(path, "-drop-old", *words)
        self.must(done.returncode == 0, "%s: exits %d: %s" % (title, done.returncode, done.stderr[-500:]))
        self.must(not [n for n in names(path) if n.startswith("MODEL_DATA_")], "%s: %s" % (title, names(path)))
        with table(path, ack=False) as t, table(self.expected, ack=False) as e:
            self.must(np.array_equal(t.getcol("MODEL_DATA"), e.getcol("MODEL_DATA")), title + ": the column is right")
        self.must(contents(path, OLD) == before, title + ": all else is as it was")
        left = [n for n in os.listdir(path) if not n.startswith("table.") and "." not in n and n.islower()]
        self.must(not left, "%s: leaves %s" % (title, left))
        return done.stderr


def check_own_and_earlier(s):
    """Columns put aside by this or an earlier run are removed; a dry run says so, and changes nothing."""
    shared = fresh_copy(s.source, "shared.ms")
    add_like_data(shared, ["MODEL_DATA", "OTHER"], "Together")
    path = fresh_copy(shared, "copy.ms")
    before = files(path)
    done = s.predict(path, "-drop-old", "-dry-run")
    s.must(done.returncode == 0 and "MODEL_DATA_OLD_1 will be removed" in done.stderr, "told by a dry run: %s" % done.stderr)
    s.must(files(path) == before, "a dry run changes nothing")
    log = s.right("put aside by this run", path)
    s.must("column MODEL_DATA_OLD_1 is removed" in log, "told")
    path = fresh_copy(shared, "copy.ms")
    s.must(s.predict(path, model="two").returncode == 0 and "MODEL_DATA_OLD_1" in names(path), "put aside")
    larger = size(path)
    s.right("put aside by an earlier run", path)
    s.must(size(path) < larger - 250000, "%d bytes, before %d" % (size(path), larger))
    log = s.right("nothing was put aside", path)
    s.must("no old column of a prediction to remove" in log, "told: %s" % log)


def check_managers(s):
    """All columns of the set in one manager; the old one in another's, or with loss in its own; several sets."""
    path = s.made("standard.ms", *SET, "-storage", "standard")
    with table(path, readonly=False, ack=False) as t:
        # casacore looks for a manager that may take one more column.
        t.addcols(maketabdesc([makearrcoldesc("MODEL_DATA", 0j, valuetype="complex", ndim=2, options=5, shape=[8, 2])]))
        t.putcol("MODEL_DATA", t.getcol("DATA"))
        others = [c for m in t.getdminfo().values() if "MODEL_DATA" in m["COLUMNS"] for c in m["COLUMNS"]]
        s.must(len(others) > 1, "columns of one manager: %s" % others)
    s.right("standard storage", path)
    path = fresh_copy(s.expected, "dysco.ms")
    compress(path, ["MODEL_DATA"])
    s.right("compressed", path)
    sets = [fresh_copy(s.source, "a.ms"), fresh_copy(s.source, "b.ms")]
    for ms in sets:
        add_like_data(ms, ["MODEL_DATA", "OTHER"], "Together")
    done = s.launch("-predict", "-drop-old", "-name", "one", *sets)
    s.must(done.returncode == 0 and not any("MODEL_DATA_OLD_1" in names(ms) for ms in sets), "two sets: %s" % done.stderr)


def check_others(s):
    """A column that was not put aside by a prediction stays, whatever its name; if one cannot be removed, nothing is
    changed."""
    path = fresh_copy(s.source, "copy.ms")
    add_like_data(path, ["MODEL_DATA_OLD_7"], "Own")
    before = contents(path, ("MODEL_DATA",))
    done = s.predict(path, "-drop-old")
    s.must(done.returncode == 0 and contents(path, ("MODEL_DATA",)) == before, "the user's own stays: %s" % done.stderr)
    path = fresh_copy(s.expected, "copy.ms")
    compress(path, ["DATA", "MODEL_DATA"], "Together")
    before = files(path)
    for words in ([], ["-dry-run"]):
        s.told("with DATA in one DyscoStMan %s" % words, s.predict(path, "-quiet", "-drop-old", *words), 3,
               "MODEL_DATA could not be removed later: its DyscoStMan")
        s.must(files(path) == before, "refused: every file is as it was")
    path = fresh_copy(s.source, "copy.ms")
    add_like_data(path, ["MODEL_DATA"], "Own")
    name = sorted(n for n in os.listdir(path) if n.startswith("table.f") and n.endswith("_TSM1"))[0]
    shutil.move(os.path.join(path, name), "elsewhere")
    os.symlink(os.path.abspath("elsewhere"), os.path.join(path, name))
    s.told("a file is a link", s.predict(path, "-quiet", "-drop-old"), 3, name + ": is a link")
    s.told("not of images", s.launch("-drop-old", "-size", 64, 64, "-scale", "20asec", path), 2, "drop-old")


def check_killed(s):
    """The remains of a killed run are removed by the next run of any kind."""
    path = fresh_copy(s.expected, "copy.ms")
    folder = os.path.join(path, "msimage-drop-old")
    os.mkdir(folder)
    for name in os.listdir(path):
        if name.startswith("table.f"):
            os.link(os.path.join(path, name), os.path.join(folder, name))
    with open(os.path.join(path, "table.f99"), "w", encoding="ascii") as f:
        f.write("left")
    before = files(path)
    done = s.predict(path, "-dry-run")
    s.must(done.returncode == 0 and files(path) == before, "a dry run removes nothing")
    s.must("changes every copy" not in done.stderr, "links of the program itself give no warning")
    log = s.right("after a killed run", path)
    s.must(not os.path.exists(folder) and not os.path.exists(os.path.join(path, "table.f99")), "all is gone: %s" % log)


if __name__ == "__main__":
    main(Drops, globals())
