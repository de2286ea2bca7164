#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_marks.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: a column that a prediction has left half written is refused (3). A column
that a prediction is writing is refused (6). A run stops if a prediction begins to write, or rewrites, its column while it
is read. Other columns can be read at any time."""
import atexit
import contextlib
import glob
import os
import shutil
import signal
import subprocess
import time

import numpy as np
from astropy.io import fits
from casacore.tables import table

from convert_oracle import Convert, Rows
from held_program import Held, await_none_of
from image_oracle import ASEC
from predict_oracle import Model
from program_suite import GUARD_S, MEERKAT, as_other_user, change_modes, fresh_copy, main

# 10 MB a column: more blocks of 1 MB than processes read ahead.
SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "80s", "-integration", "8s", "-spw",
       "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy"]
IMAGE = ["-size", 128, 128, "-scale", "2asec", "-backend", "cpu", "-name", "image"]
MODEL = ["-data-column", "MODEL_DATA"]
# Sums of float32 in another order.
ROUNDING = 1e-5
STOPPED = r"\.ms: a prediction was stopped while it wrote \(MODEL_DATA, .*new-.*repeat it with its selection \(-field '0'\)"
WRITING = r"\.ms: a prediction is writing \(MODEL_DATA, .*new-"
REWRITTEN = r"\.ms: (a column|column MODEL_DATA) was rewritten while it was read"


class Marks(Convert):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        for name, seed in (("old", 1), ("new", 2)):
            Model((1024, 1024), 2 * ASEC, MEERKAT, "IQ", seed=seed).write(name)
        self.own, self.new = (fresh_copy(self.made("source.ms", *SET), name) for name in ("own.ms", "new.ms"))
        self.predict("old", self.own)
        self.predict("new", self.new)

    def command(self, name, *paths):
        return [self.msimage, "-predict", "-quiet", "-name", name, *paths]

    def predict(self, name, *paths):
        subprocess.run(self.command(name, *paths), check=True)

    def in_the_filling(self, number, *paths):
        """A prediction that a signal reaches, with all its processes, when the column of the first set has some of the new
        values, and not all. One that has ended before is tried again."""
        (data,) = glob.glob("%s/table.f%d_TSM*" % (paths[0], manager(paths[0])))
        kept = [fresh_copy(p, p + ".kept") for p in paths]
        for _ in range(20):
            before = os.stat(data).st_mtime_ns
            process = subprocess.Popen(self.command("new", *paths), start_new_session=True, stdout=subprocess.DEVNULL)
            atexit.register(kill_all, process.pid)
            while process.poll() is None and os.stat(data).st_mtime_ns == before:
                time.sleep(0.0005)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            if number == signal.SIGKILL:
                process.wait()
                await_none_of(process.pid)
            if marked(paths[0]):
                return process
            end(process)
            for was, path in zip(kept, paths):
                fresh_copy(was, path)
        raise RuntimeError("no prediction is met in the midst of its writing")

    def image(self, *words):
        return self.launch("-quiet", "-overwrite", *IMAGE, *words)

    def readers(self):
        """What reads MODEL_DATA, by name: functions of the paths' words."""
        def convert(end):
            return lambda *paths: subprocess.run([self.convert_program, "-quiet", *MODEL, *paths, "out." + end], check=False,
                                                 capture_output=True, encoding="utf-8", timeout=GUARD_S)
        return {"-data-column": lambda *paths: self.image(*MODEL, *paths),
                "-dry-run": lambda *paths: self.image("-dry-run", *MODEL, *paths),
                "-subtract-model": lambda *paths: self.image("-subtract-model", *paths),
                "-taql": lambda *paths: self.image("-taql", "all(abs(MODEL_DATA) >= 0)", *paths),
                "-readers 3": lambda *paths: self.image("-readers", 3, *MODEL, *paths),
                "-intervals-out": lambda *paths: self.image("-intervals-out", 2, *MODEL, *paths),
                "cleaned": lambda *paths: self.image("-niter", 5, "-threshold", 0.1, "-no-update-model-required", *MODEL, *paths),
                "added to": lambda *paths: self.launch("-quiet", "-predict", "-predict-op", "add", *MODEL, "-output-column",
                                                       "SUM", "-name", "old", *paths),
                "to a set": convert("ms"), "to a store": convert("msv"), "to UVFITS": convert("uvfits")}

    def must_all(self, title, code, pattern, path):
        """Each of them ends so, with one line of error, and makes no file."""
        for name, read in self.readers().items():
            remove_results()
            done = read(path)
            done.stderr = done.stderr.replace("msimage-convert: error: ", "msimage: error: ")
            self.must(done.returncode == code, "%s, %s: exits %s %s" % (title, name, done.returncode, done.stderr[:300]))
            if code:
                self.told("%s, %s" % (title, name), done, code, pattern)
                self.must(not results(), "%s, %s: makes %s" % (title, name, results()))

    def others_are_read(self, title, path):
        remove_results()
        self.must(self.image(path).returncode == 0, title + ": DATA is imaged")
        self.convert("-quiet", path, "out.ms")
        self.must(np.array_equal(np.array(Rows("out.ms").data), np.array(Rows("source.ms").data)), title + ": DATA is converted")
        remove_results()

    def repeated(self, title, path):
        """The prediction is repeated: everybody reads, and the values and pixels are the new ones."""
        self.predict("new", path)
        self.must_all(title, 0, "", path)
        with table(path, ack=False) as t, table(self.new, ack=False) as n:
            got, want = t.getcol("MODEL_DATA"), n.getcol("MODEL_DATA")
        self.must(np.abs(got - want).max() <= ROUNDING * np.abs(want).max(), title + ": the column is new")
        one, other = self.pixels(path), self.pixels(self.new)
        self.must(np.abs(one - other).max() <= ROUNDING * np.abs(other).max(), title + ": the image is new")

    def pixels(self, path):
        self.image(*MODEL, path)
        return fits.getdata("image-dirty.fits")

    def held(self, *words):
        """An imaging run that has opened the sets and not begun to read, or one with several intervals before the last."""
        remove_results()
        process = Held([self.msimage, *[str(w) for w in [*IMAGE, *words]]])
        process.hold_after_line("interval 2" if "-intervals-out" in words else "set: ")
        self.must(process.held_line is not None or not process.has_ended(), "held: %s" % process.text.decode()[-200:])
        return process

    def must_end(self, title, process, code, pattern):
        got = process.end()
        done = subprocess.CompletedProcess([], got, "", "".join(line + "\n" for line in process.errors()))
        self.must(got == code, "%s: exits %s %s" % (title, got, process.errors()))
        if code:
            self.told(title, done, code, pattern)
            self.must(not results(), "%s: makes %s" % (title, results()))


def results():
    return glob.glob("image-*") + glob.glob("out.*")


def remove_results():
    for name in results():
        if os.path.isdir(name):
            shutil.rmtree(name)
        else:
            os.remove(name)


def marked(path):
    """As the file has it: python-casacore would wait for the lock."""
    with open(path + "/table.dat", "rb") as f:
        return b"MSIMAGE_PREDICT" in f.read()


def manager(path, column="MODEL_DATA"):
    with table(path, ack=False) as t:
        return next(m["SEQNR"] for m in t.getdminfo().values() if column in m["COLUMNS"])


def kill_all(leader):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def end(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGCONT)
    return process.wait(GUARD_S)


def check_killed(s):
    """A prediction is killed in the midst: the column is refused until it is repeated."""
    path = fresh_copy(s.own, "copy.ms")
    s.must_all("before", 0, "", path)
    s.in_the_filling(signal.SIGKILL, path)
    s.must_all("killed", 3, STOPPED, path)
    s.others_are_read("killed", path)
    s.repeated("repeated", path)


def check_running(s):
    """A prediction is at work, and stands still: readers do not wait for it, and it goes on undisturbed."""
    path = fresh_copy(s.own, "copy.ms")
    process = s.in_the_filling(signal.SIGSTOP, path)
    s.must_all("running", 6, WRITING, path)
    s.others_are_read("running", path)
    s.must(marked(path), "it is still at work")
    s.must(end(process) == 0 and not marked(path), "it ends well")
    s.repeated("ended", path)


def check_several(s):
    """Of several sets, and of a table that refers to rows of one, the marked one is named; another column of it may be read."""
    whole, path = fresh_copy(s.own, "whole.ms"), fresh_copy(s.own, "copy.ms")
    with table(path, ack=False) as t:
        t.query("ANTENNA1 < 20").copy("refers.ms").close()
    s.in_the_filling(signal.SIGKILL, path)
    for paths in ((whole, path), (path, whole)):
        s.told("two sets", s.image(*MODEL, *paths), 3, "copy" + STOPPED)
    s.told("rows of it", s.image(*MODEL, "refers.ms"), 3, "refers" + STOPPED)
    s.must(s.image(whole, path).returncode == 0, "DATA of both")
    with table(path, readonly=False, ack=False) as t:
        description = t.getcoldesc("MODEL_DATA")
        t.addcols({"OTHER": description}, {"TYPE": "TiledShapeStMan", "NAME": "Other", "DEFAULTTILESHAPE": [4, 16, 100]})
        t.putcol("OTHER", t.getcol("DATA"))
    s.must(s.image("-data-column", "OTHER", path).returncode == 0, "another column that could be predicted into")


def check_read_only(s):
    """A set that is marked and cannot be written is refused just so."""
    path = fresh_copy(s.own, "copy.ms")
    s.in_the_filling(signal.SIGKILL, path)
    path = os.path.abspath(path)
    with s.where_others_have_access("a set that cannot be written") as folder:
        if folder:
            shutil.copytree(path, "copy.ms")
            change_modes("copy.ms", 0o444, 0o555)
            os.mkdir("out")
            os.chmod("out", 0o777)
            done = s.launch("-quiet", *IMAGE[:-1], "out/image", *MODEL, "copy.ms", preexec_fn=as_other_user())
            s.told("read-only", done, 3, STOPPED)
            change_modes("copy.ms", 0o644, 0o755)


def check_begins(s):
    """A prediction begins when the sets are open already: it goes on, is killed, or is complete when they are read."""
    for words in ([], ["-readers", 3], ["-subtract-model"]):
        title = " ".join(map(str, words))
        words = words if "-subtract-model" in words else [*words, *MODEL]
        path = fresh_copy(s.own, "copy.ms")
        reader = s.held(*words, path)
        process = s.in_the_filling(signal.SIGSTOP, path)
        s.must_end("begun meanwhile " + title, reader, 6, WRITING)
        s.must(end(process) == 0, "it ends well")
        path = fresh_copy(s.own, "copy.ms")
        reader = s.held(*words, path)
        s.in_the_filling(signal.SIGKILL, path)
        s.must_end("killed meanwhile " + title, reader, 3, STOPPED)
        path = fresh_copy(s.own, "copy.ms")
        reader = s.held(*words, path)
        s.predict("new", path)
        s.must_end("complete meanwhile " + title, reader, 3, REWRITTEN)
    path = fresh_copy(s.own, "copy.ms")
    reader = s.held(path)
    s.predict("new", path)
    s.must_end("complete meanwhile, and DATA is read", reader, 0, "")


def check_rewritten(s):
    """The column is replaced by a rename while it is read, or between two images of a run: they are of one column, or none
    is made. A prediction into another column changes nothing."""
    path = fresh_copy(s.made("source.ms", *SET), "shared.ms")
    with table(s.own, ack=False) as t, table(path, readonly=False, ack=False) as shared:
        description = dict(t.getcoldesc("DATA"), dataManagerType="StandardStMan", dataManagerGroup="Shared", ndim=2, option=0)
        description.pop("shape", None)
        shared.addcols({"MODEL_DATA": description, "OTHER": dict(description)}, {"TYPE": "StandardStMan", "NAME": "Shared"})
        shared.putcol("MODEL_DATA", t.getcol("MODEL_DATA"))
        shared.putcol("OTHER", t.getcol("MODEL_DATA"))
    for name in ("shared.ms", s.own):
        for words in ([], ["-drop-old"]):
            for more in ([], ["-intervals-out", 3], ["-readers", 2]):
                path = fresh_copy(name, "copy.ms")
                reader = s.held(*more, *MODEL, path)
                s.predict("new", *words, path)
                s.must_end("%s %s %s" % (name, words, more), reader, 3, REWRITTEN)
        path = fresh_copy(name, "copy.ms")
        want = s.pixels(path)
        reader = s.held(*MODEL, path)
        s.predict("new", "-model-column", "ANOTHER", path)
        s.must_end("%s, another column" % name, reader, 0, "")
        s.must(np.array_equal(fits.getdata("image-dirty.fits"), want), "%s, another column: the same image" % name)


main(Marks, globals())
