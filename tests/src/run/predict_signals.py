#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_signals.py MSIMAGE MSIMAGE_MAKEMS: if a prediction is interrupted or killed at any moment, the column is completely
old, completely new, or marked incomplete; everything else is unchanged; an interrupted run leaves no process and no file;
the next run completes the column."""
import os
import shutil
import signal
import subprocess

import numpy as np
from casacore.tables import table

from held_program import WATCHDOG_S, Held, await_none_of, group_of, in_lines
from image_oracle import ASEC
from predict_oracle import Model, contents, marked
from program_suite import MEERKAT, Suite, fresh_copy, main

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
        self.before = {}  # contents of the sets, by state and columns left out

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
        """A copy of the set: without the column, with the old one in its own storage manager, or together with others."""
        fresh_copy(self.path(state + ".ms"), self.ms)

    def states(self):
        """Each kind of set with the contents of its column."""
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
        return Held([w if w != "-quiet" else "-verbose" for w in self.command("new")])

    def disturb(self, state, number, moment, to_group):
        """Send a signal to a run at a moment. Returns the run, its exit code, and a title."""
        self.fresh(state)
        title, bring = moment
        process = self.start()
        bring(process)
        process.send(number, to_group)
        code = process.end()
        return process, code, "%s, %s %s%s" % (state, signal.Signals(number).name, title, " to all" if to_group else "")

    def whole(self, state, old, new, what):
        """Check that everything else is unchanged, and the column is old, new, or marked."""
        column = self.column()
        leave_out = [c for c in table(self.ms, ack=False).colnames() if c.startswith("MODEL_DATA")]
        now = contents(self.ms, leave_out)
        kept = (state, *leave_out)
        if kept not in self.before:
            self.before[kept] = contents(self.path(state + ".ms"), leave_out)
        mark, is_old, is_new = marked(self.ms), self.same(column, old), self.same(column, new)
        good = now == self.before[kept] and (mark or is_old or is_new)
        self.must(good, "%s: %s%s" % (what, "old" if is_old else "new" if is_new else "between", ", marked" if mark else ""))

    def completed(self, new, what):
        done = subprocess.run(self.command("new"), stderr=subprocess.PIPE, check=False)
        self.must(done.returncode == 0 and not marked(self.ms) and self.same(self.column(), new), "%s, and again: exits %d %s" %
                  (what, done.returncode, done.stderr.decode()[-300:]))

    def interrupt(self, state, old, new, number, moment, to_group):
        process, code, what = self.disturb(state, number, moment, to_group)
        is_late = process.took_s >= WATCHDOG_S
        # If the watchdog ended the run, its child cleans up.
        good = process.stopped_well(code, number) and (await_none_of(process.pid) if is_late else not group_of(process.pid))
        what += ": exits %s, %.2f s later and %.2f s of processor" % (code, process.took_s, process.thread_s)
        if marked(self.ms) and not is_late:
            good &= len(process.errors()) == 1 and "incomplete" in process.errors()[0] and "again" in process.errors()[0]
        if code:
            left = set(os.listdir(self.ms)) - set(os.listdir(self.path(state + ".ms"))) - {"table.lock"}
            good &= not left
            what += ", leaves %s" % sorted(left) if left else ""
        self.must(good, what + ("" if good else ": " + process.text.decode()[-500:]))
        self.whole(state, old, new, what)
        self.completed(new, what)
        return code == 128 + number

    def kill(self, state, old, new, moment, all_of_them=False):
        """Kill the first process of the run, so that its child cleans up; or all processes at once, so that nothing is cleaned
        up."""
        process, _, what = self.disturb(state, signal.SIGKILL, moment, all_of_them)
        self.must(await_none_of(process.pid), what + ": no process is left")
        self.whole(state, old, new, what)
        self.completed(new, what)

    def other_selection(self):
        """An incomplete column is completed by a run with its selection, not by one with another."""
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
            self.must(good, "marked for %s, run with %s: exits %d" % (mark["SELECTION"], list(words), done.returncode))


def within(begun_s, ended_s, part):
    """A moment while the column is made, predicted or written, by the processor time of the run."""
    def bring(run):
        run.hold_after_line("disk: ")
        run.run_for(begun_s + part * (ended_s - begun_s))
    return "with %.0f %% predicted" % (100 * part), bring


def check_signals(s):
    states = s.states()
    s.fresh("none")
    process = s.start()
    process.hold_after_line("disk: ")
    begun_s = process.processor_so_far()
    if process.end():
        raise RuntimeError("the undisturbed run fails: %s" % process.text.decode())
    new = s.column()
    s.other_selection()
    hit, lines = 0, list(in_lines(process))
    for i, (state, old) in enumerate(states.items()):
        for kind in range(4):
            moments = [within(begun_s, process.processor_s, (step + (kind + 0.5) / 4) / 3) for step in range(3)]
            for moment in [lines[(4 * i + kind) % len(lines)], *moments]:
                if kind == 0:
                    hit += s.interrupt(state, old, new, signal.SIGINT, moment, True)
                elif kind == 1:
                    hit += s.interrupt(state, old, new, signal.SIGTERM, moment, False)
                elif kind == 2:
                    s.kill(state, old, new, moment)
                else:
                    s.kill(state, old, new, moment, all_of_them=True)
    s.must(hit > 0, "%d interrupted runs stopped" % hit)


main(Stops, globals())
