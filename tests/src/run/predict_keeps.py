#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_keeps.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: a prediction keeps comments and keywords of the column, modes and owners
of files, and links; what it cannot keep gives a warning, or is refused before anything changes."""
import os
import re
import shutil
import stat

import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

from predict_oracle import COLUMN_FLOOR, PredictSuite, Set, contents, errors
from program_suite import files, fresh_copy, main

SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-spw",
       "1GHz", "40MHz", "4", "-noise", "1Jy"]
KEYWORDS = {"CHANNEL_SELECTION": np.array([[0, 4]], np.int32), "UNIT": "mJy", "OWN": {"A": 1, "B": [1.5, 2.5], "C": "text"},
            "FLAG": True}


class Keeps(PredictSuite):
    def fresh(self, manager=None):
        """A copy of the set, with a MODEL_DATA of this storage manager."""
        path = fresh_copy(self.made("source.ms", *SET), "copy.ms")
        if manager:
            add_column(path, "MODEL_DATA", manager)
        return path

    def predict(self, path, *words):
        return self.launch("-predict", "-name", "good", "-accuracy", 1e-4, *words, path)

    def right(self, title, path, *words):
        """Check that the run succeeds with the values of the direct sum. Returns the log."""
        done = self.predict(path, *words)
        error = np.inf if done.returncode else errors(Set(path).column("MODEL_DATA"), Set(path).predict(self.model))[0]
        self.must(error <= 1e-4 + COLUMN_FLOOR, "%s: error %.1e%s" % (title, error, done.stderr[-500:] if done.returncode else ""))
        return done.stderr

    def refused(self, title, code, pattern, path, *words):
        before = files(path)
        self.told(title, self.predict(path, "-quiet", *words), code, pattern)
        self.must(files(path) == before, title + ": every file is as it was")


def add_column(path, name, manager):
    """A column like DATA, with its own comment and keywords."""
    with table(path, readonly=False, ack=False) as t:
        description = makearrcoldesc(name, 0j, valuetype="complex", ndim=2, comment="what somebody wrote")
        t.addcols(maketabdesc([description]), {"TYPE": manager, "NAME": "Manager" + name, "DEFAULTTILESHAPE": [2, 4, 100]})
        t.putcol(name, t.getcol("DATA"))
        for key, value in KEYWORDS.items():
            t.putcolkeyword(name, key, value)


def described(path, name="MODEL_DATA"):
    with table(path, ack=False) as t:
        return t.getcoldesc(name)["comment"], {k: repr(v) for k, v in t.getcolkeywords(name).items()
                                                if k not in ("MSIMAGE_MODEL", "MSIMAGE_OLD")}


def check_descriptions(s):
    """A column that replaces another has its description, except for the unit, which is that of the model."""
    for manager in ("StandardStMan", "TiledShapeStMan"):
        path = s.fresh(manager)
        comment, keywords = described(path)
        s.must(len(keywords) == len(KEYWORDS), "%s: keywords as put" % manager)
        s.right("%s" % manager, path)
        if manager == "StandardStMan":
            s.must(described(path, "MODEL_DATA_OLD_1") == (comment, keywords), "the old column keeps its description")
            keywords["UNIT"] = repr("Jy")
        s.must(described(path) == (comment, keywords), "%s: %s" % (manager, described(path)))


def modes(path):
    """Mode, owner and group of the files of the main table."""
    found = {}
    for name in sorted(os.listdir(path)):
        info = os.lstat(os.path.join(path, name))
        if name.startswith("table.") and name not in ("table.lock", "table.info"):
            found[name] = (stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid)
    return found


def check_modes(s):
    """Users who could read and write the set still can after another user predicts into it; new files have the modes of
    table.dat."""
    for manager in (None, "StandardStMan", "TiledShapeStMan"):
        for mode in (0o664, 0o600, 0o666):
            path = s.fresh(manager)
            for name in os.listdir(path):
                if name.startswith("table."):
                    os.chmod(os.path.join(path, name), mode)
                    if os.getuid() == 0:
                        os.chown(os.path.join(path, name), 1234, 2345)
            before = modes(path)
            umask = os.umask(0o077)
            s.right("mode %o, %s" % (mode, manager), path)
            os.umask(umask)
            after = modes(path)
            s.must(set(after.values()) == set(before.values()) and set(after) >= set(before),
                   "mode %o, %s: %s" % (mode, manager, sorted(set(after.values()))))


def check_links(s):
    """Overwriting data files that other sets share gives a warning; a table.dat that is a link is refused."""
    for link in (os.link, os.symlink):
        for manager, shared in (("TiledShapeStMan", True), ("StandardStMan", False), (None, False)):
            path = s.fresh(manager)
            shutil.rmtree("other.ms", ignore_errors=True)
            shutil.copytree(path, "other.ms")
            for name in os.listdir(path):
                if re.match(r"table.f\d+(_TSM\d+)?$", name):
                    os.remove(os.path.join("other.ms", name))
                    link(os.path.abspath(os.path.join(path, name)), os.path.join("other.ms", name))
            before = None if shared else contents(path)
            log = s.right("%s of data files, %s" % (link.__name__, manager), "other.ms")
            s.must(("changes every copy" in log) == shared, "%s of data files, %s: told %s" % (link.__name__, manager, shared))
            if not shared:
                s.must(contents(path) == before, "%s of data files, %s: the other copy is as it was" % (link.__name__, manager))
    for manager in ("TiledShapeStMan", "StandardStMan", None):
        path = s.fresh(manager)
        os.rename(path + "/table.dat", "elsewhere.dat")
        os.symlink(os.path.abspath("elsewhere.dat"), path + "/table.dat")
        for words in ([], ["-dry-run"]):
            s.refused("table.dat is a link, %s %s" % (manager, words), 3, "table.dat: is a link.*copy", path, *words)
    path = s.fresh()
    shutil.rmtree("linked.ms", ignore_errors=True)
    os.rename(path, "real.ms")
    os.symlink("real.ms", "linked.ms")
    s.right("a set that is a link", "linked.ms")
    s.must(os.path.islink("linked.ms"), "a set that is a link stays one")


def check_strays(s):
    """Nothing outside a set is written, even if there are links where casacore makes files."""
    source = s.made("source.ms", *SET)
    last = max(int(re.match(r"table.f(\d+)", n)[1]) for n in os.listdir(source) if re.match(r"table.f\d", n))
    new = ["table.f%d%s" % (last + i, end) for i in (1, 2) for end in ("", "_TSM0", "_TSM1", "i")]
    for name in ["table.dat_tmp", "table.lock", *new]:
        for link in (os.symlink, os.link):
            if name == "table.lock" and link == os.link:
                continue
            for manager in (None, "StandardStMan") if name in new else (None, "TiledShapeStMan"):
                path = s.fresh(manager)
                at = os.path.join(path, name)
                if manager and name in new:
                    at = at.replace("table.f%d" % (last + 1), "table.f%d" % (last + 3))
                with open("precious", "w", encoding="ascii") as f:
                    f.write("precious\n" * 1000)
                if os.path.exists(at):
                    os.remove(at)
                link(os.path.abspath("precious"), at)
                s.refused("%s of %s, %s" % (link.__name__, name, manager), 3, "%s(: is a link| .not a plain file)" %
                          re.escape(os.path.basename(at)), path)
                with open("precious", encoding="ascii") as f:
                    s.must(f.read() == "precious\n" * 1000, "%s of %s, %s: it is as it was" % (link.__name__, name, manager))
    # Regular files are the remains of a killed run and are overwritten.
    path = s.fresh()
    for name in ["table.dat_tmp", *new]:
        with open(os.path.join(path, name), "w", encoding="ascii") as f:
            f.write("junk")
    s.right("plain files of a killed run", path)


main(Keeps, globals())
