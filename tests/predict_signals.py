#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_signals.py MSIMAGE MSIMAGE_MAKEMS: whenever a run of predict is interrupted or killed, the column is wholly as
it was, wholly new, or marked incomplete; everything else is as it was, no process and no file stays behind an interrupted
run, and the next run completes it."""
import os
import shutil
import signal
import subprocess
import time

import numpy as np
from casacore.tables import table

from image_oracle import ASEC
from predict_oracle import Model, contents, marked
from program_suite import MEERKAT, SLACK_S, STOP_S, Suite, fresh_copy, main

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "80s", "-integration", "8s", "-spw",
       "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy"]
# Sums of float32 in another order.
ROUNDING = 1e-5


class Stops(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.source, self.ms = self.made("source.ms", *SET), self.path("copy.ms")
        for name, seed in (("old", 1), ("new", 2)):
            Model((1024, 1024), 2 * ASEC, MEERKAT, "IQ", seed=seed).write(self.path(name))
        self.contents = contents(self.source)

    def command(self, name):
        return [self.msimage, "-predict", "-quiet", "-name", self.path(name), self.ms]

    def column(self):
        with table(self.ms, ack=False) as t:
            return t.getcol("MODEL_DATA") if "MODEL_DATA" in t.colnames() else None

    def same(self, column, want):
        if column is None or want is None:
            return column is want
        return np.abs(column - want).max() <= ROUNDING * np.abs(want).max()

    def fresh(self, state):
        """A copy of the set: without the column, with the old one in a storage manager of its own, or among others."""
        fresh_copy(self.path(state + ".ms"), self.ms)

    def states(self):
        """Each kind of set with what its column holds."""
        shutil.copytree(self.source, self.path("none.ms"))
        self.fresh("none")
        subprocess.run(self.command("old"), check=True)
        old = self.column()
        shutil.copytree(self.ms, self.path("own.ms"))
        self.fresh("none")
        with table(self.ms, readonly=False, ack=False) as t:
            description = t.getcoldesc("DATA")
            description.update(dataManagerType="StandardStMan", dataManagerGroup="Shared", ndim=2, option=0)
            description.pop("shape", None)
            t.addcols({"MODEL_DATA": description, "OTHER": dict(description)}, {"TYPE": "StandardStMan", "NAME": "Shared"})
            t.putcol("MODEL_DATA", old)
            t.putcol("OTHER", t.getcol("DATA"))
        shutil.copytree(self.ms, self.path("shared.ms"))
        return {"none": None, "own": old, "shared": old}

    def start(self):
        return subprocess.Popen(self.command("new"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    def whole(self, state, old, new, what):
        """Is everything else as it was, and the column old, new, or marked?"""
        column = self.column()
        leave_out = [c for c in table(self.ms, ack=False).colnames() if c.startswith("MODEL_DATA")]
        now = contents(self.ms, leave_out)
        before = contents(self.path(state + ".ms"), leave_out)
        mark, is_old, is_new = marked(self.ms), self.same(column, old), self.same(column, new)
        good = now == before and (mark or is_old or is_new)
        self.note(good, "%s: %s%s" % (what, "old" if is_old else "new" if is_new else "between", ", marked" if mark else ""))

    def completed(self, new, what):
        done = subprocess.run(self.command("new"), stderr=subprocess.PIPE, check=False)
        self.note(done.returncode == 0 and not marked(self.ms) and self.same(self.column(), new), "%s, and again: exits %d %s" %
                  (what, done.returncode, done.stderr.decode()[-300:]))

    def interrupt(self, state, old, new, number, delay_s, to_group):
        self.fresh(state)
        files = set(os.listdir(self.ms))
        process = self.start()
        time.sleep(delay_s)
        sent = time.monotonic()
        try:
            (os.killpg if to_group else os.kill)(process.pid, number)
        except ProcessLookupError:
            pass
        error = process.communicate()[1].decode()
        took = time.monotonic() - sent
        what = "%s, %s after %.2f s%s: exits %d, %.2f s later" % (state, signal.Signals(number).name, delay_s,
                                                             " to all" if to_group else "", process.returncode, took)
        lines = error.splitlines()
        good = took < STOP_S + SLACK_S and (process.returncode == 0 or process.returncode == 128 + number and
                                            len(lines) == 1 and "stopped by signal" in error)
        # Before the program has its handler the signal's own action holds.
        good |= process.returncode == -number and delay_s < 0.05
        if marked(self.ms):
            good &= "incomplete" in error and "again" in error
        if process.returncode:
            left = set(os.listdir(self.ms)) - files - {"table.lock"}
            good &= not left and not still_running(process.pid)
            what += ", leaves %s" % sorted(left) if left else ""
        self.note(good, what + ("" if good else ": " + error[-500:]))
        self.whole(state, old, new, what)
        self.completed(new, what)

    def kill(self, state, old, new, delay_s):
        self.fresh(state)
        process = self.start()
        time.sleep(delay_s)
        process.kill()
        process.communicate()
        # The child sees that its parent is gone, and puts things in order.
        deadline = time.monotonic() + 10
        while still_running(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        what = "%s, SIGKILL after %.2f s" % (state, delay_s)
        self.note(not still_running(process.pid), what + ": no process is left")
        self.whole(state, old, new, what)
        self.completed(new, what)

    def kill_all(self, state, old, new, delay_s):
        """Every process of the run at once, so that nobody can put anything in order."""
        self.fresh(state)
        process = self.start()
        time.sleep(delay_s)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        what = "%s, SIGKILL to all after %.2f s" % (state, delay_s)
        self.whole(state, old, new, what)
        self.completed(new, what)

    def other_selection(self):
        """What a stopped run began is completed by a run of its selection, not by one of another."""
        self.fresh("own")
        mark = {"STATE": "incomplete", "STARTED": "2001-02-03T04:05:06Z", "PROGRAM": "a test", "MODEL": "some",
                "SELECTION": "-field '0' -channel-range 2 9"}
        for words, code in ((), 3), (["-channel-range", "2", "8"], 3), (["-force"], 0), (["-channel-range", "2", "9"], 0):
            with table(self.ms, readonly=False, ack=False) as t:
                t.putkeyword("MSIMAGE_PREDICT", {"MODEL_DATA": mark})
            before = self.column()
            done = subprocess.run(self.command("new")[:-1] + list(words) + [self.ms], stderr=subprocess.PIPE, check=False)
            error = done.stderr.decode()
            good = done.returncode == code and bool(marked(self.ms)) == (code == 3)
            if code:
                good &= mark["SELECTION"] in error and len(error.splitlines()) == 1 and self.same(self.column(), before)
            self.note(good, "marked for %s, run with %s: exits %d" % (mark["SELECTION"], list(words), done.returncode))


def still_running(group):
    """Whether a process of the group is alive."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="latin-1") as f:
                state, _, pgrp = f.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(pgrp) == group and state not in "ZX":
            return True
    return False


def check_signals(s):
    states = s.states()
    s.fresh("none")
    began = time.monotonic()
    subprocess.run(s.command("new"), check=True)
    whole_s, new = time.monotonic() - began, s.column()
    s.other_selection()
    for state, old in states.items():
        for step in range(4):
            delay_s = whole_s * (step + 0.5) / 4
            s.interrupt(state, old, new, signal.SIGINT, delay_s, True)
            s.interrupt(state, old, new, signal.SIGTERM, delay_s, False)
            s.kill(state, old, new, delay_s)
            s.kill_all(state, old, new, whole_s * (step + 1) / 5)


main(Stops, globals())
