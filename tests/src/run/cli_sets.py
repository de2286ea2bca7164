#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_sets.py MSIMAGE MSIMAGE_MAKEMS: subtables that are not needed may be missing or damaged, for any selection; FIFOs,
devices and directories in place of files are refused without waiting; a multi-MS stands for its members; large numbers in
headers are reported as damage and not as lack of memory; a system without processes, threads or stacks gives one line."""
import os
import re
import resource
import shutil
import subprocess
import time

import numpy as np
from casacore.tables import complete_ms_desc, default_ms_subtable, makecoldesc, makescacoldesc, maketabdesc, msconcat, table

from image_oracle import load, relative_error
from program_suite import Suite, as_other_user, fresh_copy, main, sanitized

IMAGE = ["-quiet", "-size", 64, 64, "-scale", "20asec", "-overwrite"]
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-spw", "1GHz",
       "40MHz", "4", "-spw", "1.3GHz", "40MHz", "3"]

# Subtables that an image needs; SOURCE and the rest are optional.
NEEDED = ("ANTENNA", "DATA_DESCRIPTION", "FIELD", "OBSERVATION", "POLARIZATION", "SPECTRAL_WINDOW")
# Subtables that observatories add.
MORE = ("SYSPOWER", "CALDEVICE", "WEATHER", "QUALITY_BASELINE_STATISTIC", "ASDM_MAIN")
SELECTIONS = (["-select-antenna", "!ea01"], ["-select-antenna", "1&2;3&4"], ["-select-spw", "0:1~2"], ["-select-field", "field0"],
              ["-select-uvrange", ">100m"], ["-select-uvrange", "0~2klambda"], ["-select-time", ">2001/01/01"],
              ["-taql", "ANTENNA1 < 12"], [])


class Sets(Suite):
    def made_with_more(self):
        """A set with subtables of many kinds."""
        path = self.path("more.ms")
        if not os.path.exists(path):
            shutil.copytree(self.made("good.ms", *SET), path)
            with table(path, readonly=False, ack=False) as ms:
                for name in MORE:
                    sub = table(os.path.join(path, name), maketabdesc([makescacoldesc("TIME", 0.0)]), nrow=2, ack=False)
                    ms.putkeyword(name, sub, makesubrecord=False)
                    sub.close()
        return path

    def rows(self, title, path, words):
        """The line of a dry run with the rows and samples."""
        done = self.launch("-size", 64, 64, "-scale", "20asec", "-overwrite", "-dry-run", *words, path, cwd=self.folder)
        found = re.search("^rows: .*$", done.stderr, re.M)
        if done.returncode or not found:
            self.complain("%s, %s: exits %s: %s" % (title, words, done.returncode, done.stderr[-400:]))
            return None
        return found[0]


def check_subtables(s):
    source = s.made_with_more()
    whole = [s.rows("whole", source, words) for words in SELECTIONS]
    if len(set(whole)) < 5:
        s.complain("selections select alike: %s" % whole)
    others = [n for n in sorted(os.listdir(source)) if os.path.isdir(os.path.join(source, n)) and n not in NEEDED]
    for name in others:
        path = fresh_copy(source, s.path("copy.ms"))
        for title in ("damaged", "gone"):
            if title == "damaged":
                os.truncate(os.path.join(path, name, "table.dat"), 20)
            else:
                shutil.rmtree(os.path.join(path, name))
            for words, want in list(zip(SELECTIONS, whole))[::3 if title == "damaged" else 1]:
                s.must(s.rows("%s %s" % (name, title), path, words) == want, "%s %s, %s" % (name, title, words))
    s.must(len(others) > len(MORE) + 4, "%d subtables that are not needed" % len(others))


def check_kinds_of_files(s):
    source = s.made("good.ms", *SET)
    files = [f for f in sorted(os.listdir(source)) if f.startswith("table.")] + ["ANTENNA/table.dat", "FIELD/table.f0"]
    for file in files:
        for title, put in (("FIFO", os.mkfifo), ("device", lambda f: os.symlink("/dev/zero", f)), ("folder", os.mkdir)):
            path = fresh_copy(source, s.path("copy.ms"))
            os.remove(os.path.join(path, file))
            put(os.path.join(path, file))
            for words in ([], ["-dry-run"], ["-select-antenna", "1&2"]):
                done = s.launch(*IMAGE, *words, path, cwd=s.folder)
                s.told("%s in place of %s, %s" % (title, file, words), done, 3, re.escape(file) + ".*not a plain file")


def check_multi_ms(s):
    names = [s.made("first.ms", *SET), s.made("second.ms", *SET, "-start-ha", "1h")]
    path = s.path("multi.ms")
    both = table(names, ack=False)
    both.rename(path)
    both.close()
    images = []
    for sets in (names, [path]):
        done = s.launch(*IMAGE, "-name", "image", *sets, cwd=s.folder)
        s.must(done.returncode == 0, "a multi-MS or its members: exits %s: %s" % (done.returncode, done.stderr))
        images.append(load(s.path("image-dirty.fits"))[0])
    s.must(relative_error(*images) == 0, "the image of a multi-MS is that of its members")
    s.told("times of a multi-MS", s.launch(*IMAGE, "-interval", 0, 1, path, cwd=s.folder), 2, "-interval.*multi.ms is a multi-MS")
    inside = [*IMAGE, "-name", path + "/image"]
    s.told("in a multi-MS", s.launch(*inside, path, cwd=s.folder), 2, "multi.ms")
    os.rename(names[1], s.path("elsewhere.ms"))
    s.told("a member that is gone", s.launch(*IMAGE, path, cwd=s.folder), 3, "second.ms")
    os.rename(s.path("elsewhere.ms"), names[1])
    with open(os.path.join(path, "table.dat"), "r+b") as f:
        f.truncate(90)
    s.told("a multi-MS cut off", s.launch(*IMAGE, path, cwd=s.folder), 3, "multi.ms")


def check_submss(s):
    """A multi-MS as CASA makes it: members in a directory of the set. Predicted values are written to them."""
    whole, ahead = s.path("partitioned.ms"), s.path("ahead.ms")
    os.makedirs(whole + "/SUBMSS")
    members = [fresh_copy(s.made(name, *SET, *more), "%s/SUBMSS/partitioned.ms.000%d.ms" % (whole, i)) for i, (name, more) in
               enumerate((("first.ms", ()), ("second.ms", ("-start-ha", "1h"))))]
    both = table(members, ack=False)
    both.rename(ahead)
    both.close()
    for name in os.listdir(ahead):
        shutil.move(os.path.join(ahead, name), whole)
    images = []
    for sets in (members, [whole]):
        done = s.launch(*IMAGE, "-name", "image", *sets, cwd=s.folder)
        s.must(done.returncode == 0, "SUBMSS: exits %s: %s" % (done.returncode, done.stderr))
        images.append(load(s.path("image-dirty.fits"))[0])
    s.must(relative_error(*images) == 0, "the image of SUBMSS is that of its members")
    os.rename(s.path("image-dirty.fits"), s.path("sky-model.fits"))
    done = s.launch("-quiet", "-predict", "-force", "-name", s.path("sky"), whole)
    s.must(done.returncode == 0, "predict: exits %s: %s" % (done.returncode, done.stderr))
    for member in members:
        with table(member, ack=False) as t:
            s.must("MODEL_DATA" in t.colnames() and abs(t.getcol("MODEL_DATA")).max() > 0, "values in " + os.path.basename(member))
    with table(whole, ack=False) as t:
        s.must(abs(t.getcol("MODEL_DATA")).max() > 0, "and in the multi-MS")


def check_members_of_windows(s):
    """Members of a multi-MS may have no selected rows."""
    source = s.made("windows.ms", *SET)
    names = [s.path("windows%d.ms" % i) for i in range(2)]
    with table(source, ack=False) as t:
        for i, name in enumerate(names):
            with t.query("DATA_DESC_ID = %d" % i) as chosen:
                chosen.copy(name, deep=True).close()
    path = s.path("multi.ms")
    both = table(names, ack=False)
    both.rename(path)
    both.close()
    images = []
    for selected in (source, path):
        done = s.launch(*IMAGE, "-name", "image", "-spws", 1, selected, cwd=s.folder)
        s.must(done.returncode == 0, "a window of a multi-MS: exits %s: %s" % (done.returncode, done.stderr))
        images.append(load(s.path("image-dirty.fits"))[0])
    s.must(relative_error(*images) < 1e-12, "the image of a window of a multi-MS")
    s.told("nothing of a multi-MS", s.launch(*IMAGE, "-field", 0, "-select-antenna", "1&1", path, cwd=s.folder), 3, "no row is selected")


def check_forwarded(s):
    """A set whose columns are in files of other sets has more rows than bytes, and is read."""
    ms = s.made("many.ms", *SET[:-10], "-spw", "1GHz", "1MHz", 1, "-duration", "15min", "-integration", "5s")
    path = s.path("forwarded.ms")
    msconcat([ms, ms], path)
    n_row = 2 * table(ms, ack=False).nrows()
    n_byte = sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path) if f.startswith("table."))
    done = s.launch("-size", 64, 64, "-scale", "20asec", "-overwrite", "-dry-run", path, cwd=s.folder)
    s.must(n_row > n_byte and "rows: %d kept" % n_row in done.stderr,
           "%d rows in %d bytes: exits %s: %s" % (n_row, n_byte, done.returncode, done.stderr[-300:]))


def check_absurd_sizes(s):
    """A number of 4 bytes in a header becomes a large one. The error must not be lack of memory; any other result is
    right."""
    source = s.made("standard.ms", *SET, "-storage", "standard")
    for file in ("table.f0", "table.f0i", "table.dat", "FIELD/table.f0", "FIELD/table.dat"):
        with open(os.path.join(source, file), "rb") as f:
            head = f.read(260)
        codes = []
        for at in range(0, len(head) - 4, 12):
            path = fresh_copy(source, s.path("copy.ms")) if at == 0 else path
            with open(os.path.join(path, file), "r+b") as f:
                f.seek(at)
                f.write(b"\x7f\xff\xff\x7f")
            done = s.launch(*IMAGE, "-abs-mem", 4, path, cwd=s.folder)
            codes.append(done.returncode)
            if done.returncode not in (0, 3):
                s.complain("%s, byte %d: exits %s: %s" % (file, at, done.returncode, done.stderr))
            with open(os.path.join(path, file), "r+b") as f:
                f.write(head)
        s.must(3 in codes, "%s: %d of %d numbers refused" % (file, codes.count(3), len(codes)))


def limited(kind, most):
    """For preexec_fn: another user, with a limit."""
    become = as_other_user()

    def limit():
        if become:
            become()
        resource.setrlimit(kind, (most, most))
    return limit


def check_working_folder(s):
    """A missing directory, or one with a name too long for casacore, gives an error; a name of the maximal length works."""
    good = s.made("good.ms", *SET)
    words = ["-quiet", *IMAGE, "-overwrite", "-name", s.path("o"), good]

    def inside(folder, gone=False):
        def enter():
            os.chdir(s.folder)
            for name in folder:
                os.makedirs(name, exist_ok=True)
                os.chdir(name)
            if gone:
                os.rmdir(os.getcwd())
        return enter

    s.told("a folder that is gone", s.launch(*words, preexec_fn=inside(["gone"], True)), 3, "the working directory was removed")
    s.told("a folder of 2 kB", s.launch(*words, preexec_fn=inside(10 * ["n" * 200])), 3, "more than 1023 bytes")
    done = s.launch(*words, preexec_fn=inside(["n" * 200, "n" * 200]))
    s.must(done.returncode == 0, "a folder of 400 bytes: exits %s: %s" % (done.returncode, done.stderr))


def check_written(s):
    """A set that another process is writing can look damaged; the error says so."""
    path = fresh_copy(s.made("good.ms", *SET), s.path("written.ms"))
    os.truncate(path + "/table.f0", os.path.getsize(path + "/table.f0") // 2)
    words = ["-quiet", *IMAGE, "-overwrite", "-name", s.path("o"), path]
    told = s.launch(*words)
    s.told("a set cut short", told, 3, "truncated or corrupt: .*table.f0")
    s.must("another process" not in told.stderr, "no process writes into it: %s" % told.stderr)
    whole = fresh_copy(s.made("good.ms", *SET), s.path("whole.ms"))
    with table(whole, readonly=False, lockoptions="permanent", ack=False):
        shutil.copy(path + "/table.f0", whole + "/table.f0")
        s.told("a set that is being written", s.launch(*words[:-1], whole), 3,
               "truncated or corrupt: .*; another process writes into .*whole.ms: try again when it has ended")
    # A process holds no lock between two writes, but its changes are newer than the run.
    later = time.time() + 3600
    os.utime(path + "/table.f1", (later, later))
    s.told("a set that has changed meanwhile", s.launch(*words), 3, "truncated or corrupt: .*; files of .*written.ms have "
           "changed since this run began: if another process writes into it, try again")


def check_limits(s):
    with s.where_others_have_access("limits of processes, threads and the stack") as folder:
        if not folder:
            return
        shutil.copytree(s.made("good.ms", *SET), "good.ms")
        os.chmod(folder, 0o777)
        words = [*IMAGE, "-backend", "cpu", "-name", os.path.join(folder, "o"), os.path.join(folder, "good.ms")]
        for n in (2,) if sanitized(s.msimage) else (0, 2):
            done = s.launch("-j", 4, *words, preexec_fn=limited(resource.RLIMIT_NPROC, n))
            s.told("%d processes" % n, done, 5, "threads and processes can be started, but -j 4")
        for kb in (64, 256):
            done = s.launch(*words, preexec_fn=limited(resource.RLIMIT_STACK, kb << 10))
            s.told("%d kB of stack" % kb, done, 5, "the stack is limited to %d kB" % kb)
        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        if not sanitized(s.msimage) and hard in (resource.RLIM_INFINITY, max(hard, 2 << 30)):
            def narrow():
                resource.setrlimit(resource.RLIMIT_STACK, (2 << 30, hard))
                resource.setrlimit(resource.RLIMIT_AS, (10 << 30, 10 << 30))
            s.told("13 stacks of 2 GB in 10 GB", s.launch("-j", 4, *words, preexec_fn=narrow), 5, "ulimit -v, which")
        if not sanitized(s.msimage):
            done = s.launch("-j", 4, *words, env={**os.environ, "OMP_STACKSIZE": "99999999G"})
            s.told("a stack of 1e17 bytes", done, 5, "0 threads and processes can be started.*OMP_STACKSIZE")
        for n in (8, 16, 64):
            done = s.launch(*words, preexec_fn=limited(resource.RLIMIT_NOFILE, n))
            s.told("%d open files" % n, done, 5, "only %d files can be open at once" % n)
        # A low soft limit is raised.
        for what, kind, low, high in (("kB of stack", resource.RLIMIT_STACK, 64 << 10, 8 << 20),
                                      ("open files", resource.RLIMIT_NOFILE, 16, 256)):
            done = s.launch("-overwrite", *words, preexec_fn=lambda k=kind, a=low, b=high: resource.setrlimit(k, (a, b)))
            s.must(done.returncode == 0, "%d %s, %d allowed: exits %s: %s" % (low, what, high, done.returncode, done.stderr))


# ---- Columns ----

def check_units(s):
    """Columns in other units than those of the definition are refused; another name of the same unit is not."""
    good = s.made("good.ms", *SET)
    for sub, column, units, said in (("SPECTRAL_WINDOW", "CHAN_FREQ", ["GHz"], "1e.09 Hz"), ("", "UVW", ["km"] * 3, "1000 m"),
                                     ("FIELD", "PHASE_DIR", ["deg"] * 2, "0.01745.* rad"), ("", "TIME", ["d"], "86400 s"),
                                     ("SPECTRAL_WINDOW", "CHAN_WIDTH", ["Jy"], "Jy, which is not converted to Hz"),
                                     ("ANTENNA", "POSITION", ["m", "m", "km"], "m and km"),
                                     ("ANTENNA", "DISH_DIAMETER", ["cm"], "0.01 m"),
                                     ("SPECTRAL_WINDOW", "CHAN_FREQ", ["foo"], "foo, which is no known unit"),
                                     ("SPECTRAL_WINDOW", "CHAN_FREQ", ["s-1"], None), ("", "UVW", [" "], None)):
        path = fresh_copy(good, s.path("copy.ms"))
        with table(os.path.join(path, sub), readonly=False, ack=False) as t:
            t.putcolkeyword(column, "QuantumUnits", units)
        done = s.launch(*IMAGE, "-dry-run", path)
        title = "%s in %s" % (column, units)
        if said:
            s.told(title, done, 3, "copy.ms.*: column %s is in .*%s" % (column, said))
        else:
            s.must(done.returncode == 0, title + done.stderr)
    # Birli gives REST_FREQUENCY the unit of a time, but writes no value.
    path = fresh_copy(good, s.path("copy.ms"))
    with default_ms_subtable("SOURCE", path + "/SOURCE", complete_ms_desc("SOURCE")) as t:
        t.addrows(1)
        t.putcell("SOURCE_ID", 0, 0)
        t.putcolkeyword("REST_FREQUENCY", "QuantumUnits", ["s"])
    with table(path, readonly=False, ack=False) as t:
        t.putkeyword("SOURCE", "Table: " + path + "/SOURCE")
    with table(path + "/FIELD", readonly=False, ack=False) as t:
        t.putcell("SOURCE_ID", 0, 0)
    done = s.launch(*IMAGE, "-dry-run", path)
    s.must(done.returncode == 0, "REST_FREQUENCY in s without values: " + done.stderr)
    with table(path + "/SOURCE", readonly=False, ack=False) as t:
        t.putcell("REST_FREQUENCY", 0, np.array([1.42e9]))
    s.told("REST_FREQUENCY in s", s.launch(*IMAGE, "-dry-run", path), 3, "REST_FREQUENCY is in s, which is not converted to Hz")


def check_strings(s):
    """A column of strings in place of numbers is named, with its set."""
    path = fresh_copy(s.made("good.ms", *SET), s.path("copy.ms"))
    with table(path, readonly=False, ack=False) as t:
        t.removecols("TIME")
        t.addcols(maketabdesc(makescacoldesc("TIME", "")))
    s.told("strings", s.launch(*IMAGE, path), 3, "copy.ms: column TIME holds string, not numbers")


def image_of(s, name, *words):
    done = s.launch(*IMAGE, "-backend", "cpu", "-name", s.path(name), *words)
    s.must(done.returncode == 0, "%s: %s" % (name, done.stderr))
    return load(s.path(name + "-dirty.fits"))[0], done.stderr


def check_time_scales(s):
    """Sets in UT1, TAI and UTC are imaged together: their times are not compared. A selection by time, and a conversion that
    joins them, are refused."""
    paths = [s.made("good.ms", *SET)]
    for scale in ("UT1", "TAI"):
        path = fresh_copy(paths[0], s.path(scale + ".ms"))
        with table(path, readonly=False, ack=False) as t:
            t.putcolkeyword("TIME", "MEASINFO", {**t.getcolkeyword("TIME", "MEASINFO"), "Ref": scale})
        paths.append(path)
    one, three = image_of(s, "one", paths[0])[0], image_of(s, "three", *paths)[0]
    s.must(relative_error(three, one) < 1e-6, "sets of three time scales together")
    s.told("times selected", s.launch(*IMAGE, "-select-time", ">2000/01/01", *paths), 3,
           "times of .*good.ms are UTC, of .*UT1.ms UT1; .* where times are selected")
    convert = os.path.join(os.path.dirname(s.msimage), "msimage-convert")
    done = subprocess.run([convert, "-quiet", *paths[:2], s.path("joined.ms")], stderr=subprocess.PIPE, check=False, encoding="utf-8")
    s.must(done.returncode == 3 and "sets of different time scales cannot be joined" in done.stderr, "joined: " + done.stderr)


def check_uncalibrated(s):
    """DATA of a set without CORRECTED_DATA is imaged together with CORRECTED_DATA of another. Without any such set it is refused."""
    good = s.made("good.ms", *SET)
    path = fresh_copy(good, s.path("corrected.ms"))
    with table(path, readonly=False, ack=False) as t:
        t.addcols(maketabdesc(makecoldesc("CORRECTED_DATA", {**t.getcoldesc("DATA"), "name": "CORRECTED_DATA"})))
        for row in range(t.nrows()):
            t.putcell("CORRECTED_DATA", row, 3 * t.getcell("DATA", row))
    one = image_of(s, "one", good)[0]
    both, log = image_of(s, "both", "-data-column", "CORRECTED_DATA", path, good)
    s.must(relative_error(both, 2 * one) < 1e-6, "the mean of CORRECTED_DATA and DATA")
    s.must(re.search("good.ms: has no column CORRECTED_DATA; column DATA is read instead", log), "the warning: " + log)
    s.told("no such column", s.launch(*IMAGE, "-data-column", "CORRECTED_DATA", good), 3, "good.ms: has no column CORRECTED_DATA")


main(Sets, globals())
