#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""ms_writer_faults.py MS_WRITE_DRIVER MSIMAGE_MAKEMS [STEP]: every system call that writes a predicted column fails, or
the process dies in it; every STEPth of these points is tried (1: all). After each the set opens, all else in it is as it
was, and the column is wholly old, wholly new, or marked; an old column that is to be removed is whole or gone; a run without
faults then completes it and leaves no file.
Exit 77: no strace, or it may not trace; no python3-casacore."""
import collections
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from held_program import await_none_of
from program_suite import GUARD_S, files, fresh_copy, skip_without_modules

skip_without_modules("numpy", "casacore.tables")
import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

# Calls that fail, and in which the process is killed; then calls in which it is only killed, including those for
# messages between processes, which the parent makes too.
CALLS = ["write", "pwrite64", "rename", "unlink", "unlinkat", "ftruncate", "fsync", "fdatasync", "fallocate"]
# Additional calls if an old column is removed.
DROP_CALLS = ["renameat", "linkat", "mkdirat", "fchmod"]
KILLED_CALLS = ["openat", "sendto", "recvfrom", "lseek", "close"]
READS, EARLY, MANY = ("openat", "lseek", "close"), 8, 24
CHANGES = {*CALLS, *DROP_CALLS}
MARK = "MSIMAGE_PREDICT"
COLUMN = "MODEL_DATA"


def values(t, column):
    """The cells of a column in the order of the rows, of any shapes, as bytes."""
    if not t.iscelldefined(column, 0):
        return None
    return b"".join(np.ascontiguousarray(t.getcell(column, r)).tobytes() for r in range(t.nrows()))


class State:
    """Read the column, the mark, and all that must never change."""

    def __init__(self, ms):
        self.files = {name: content for name, (content, *_) in files(ms).items()}
        t = table(ms, readonly=False, ack=False)
        try:
            names = t.colnames()
            self.marked = MARK in t.keywordnames()
            self.column = values(t, COLUMN) if COLUMN in names else None
            self.old = values(t, COLUMN + "_OLD_1") if COLUMN + "_OLD_1" in names else None
            self.keywords = {k: str(t.getkeyword(k)).replace(os.path.realpath(ms), "") for k in t.keywordnames()
                             if k != MARK}
            self.others = {n: (str({**t.getcoldesc(n), "dataManagerGroup": ""}), str(t.getcolkeywords(n))) for n in names
                           if not n.startswith(COLUMN)}
            self.names = {n for n in names if n.startswith(COLUMN)}
            for n in ("DATA", "UVW", "TIME", "FLAG", "WEIGHT", *(["EXTRA"] if "EXTRA" in names else [])):
                self.others[n] += (hashlib.sha256(values_or_scalars(t, n)).hexdigest(),)
            managers = [m for m in t.getdminfo().values() if COLUMN in m["COLUMNS"]]
        finally:
            t.close()
        # Its own manager's files may change with the column; its header may not.
        number = managers[0]["SPEC"]["SEQNR"] if managers and len(managers[0]["COLUMNS"]) == 1 else -1
        column = re.compile(r"table\.dat$|table\.f%d_TSM\d+$" % number)
        self.rest = {f: h for f, h in self.files.items() if not column.match(f)}


def values_or_scalars(t, column):
    if t.isscalarcol(column):
        return np.ascontiguousarray(t.getcol(column)).tobytes()
    return values(t, column)


def add_columns(ms, names, manager):
    t = table(ms, readonly=False, ack=False)
    desc = maketabdesc([makearrcoldesc(n, 0j, valuetype="complex", ndim=2) for n in names])
    t.addcols(desc, dminfo=manager)
    for r in range(t.nrows()):
        for n in names:
            t.putcell(n, r, (t.getcell("DATA", r) * 0 + (7 + r) + 3j).astype(np.complex64))
    t.close()


def make_fixtures(makems, folder):
    """No column; one with its own tiled storage manager; one that shares its manager. Two spectral setups each."""
    base = os.path.join(folder, "none.ms")
    subprocess.run([makems, "-quiet", "-telescope", "skalow", "-stations", "6", "-ra", "60deg", "-dec", "-30deg",
                    "-duration", "40s", "-integration", "10s", "-weight-spectrum", "none", "-spw", "150MHz", "1MHz", "8",
                    "-spw", "170MHz", "-1MHz", "5", base], check=True)
    for name in ("own", "shared"):
        shutil.copytree(base, os.path.join(folder, name + ".ms"))
    add_columns(os.path.join(folder, "own.ms"), [COLUMN],
                {"TYPE": "TiledShapeStMan", "NAME": "TiledMODEL", "SPEC": {"DEFAULTTILESHAPE": [4, 4, 16]}})
    add_columns(os.path.join(folder, "shared.ms"), [COLUMN, "EXTRA"], {"TYPE": "StandardStMan", "NAME": "Shared"})
    shutil.copytree(os.path.join(folder, "shared.ms"), os.path.join(folder, "dropped.ms"))
    return {n: os.path.join(folder, n + ".ms") for n in ("none", "own", "shared", "dropped")}


class Fixture:
    def __init__(self, name, path, driver, folder):
        self.name, self.path, self.driver = name, path, driver
        self.drops = name == "dropped"
        self.ms = os.path.join(folder, "run.ms")
        self.trace = os.path.join(folder, "trace")
        self.old = State(path)
        self.fresh()
        done = self.run([])
        assert done.returncode == 0, done.stderr
        self.new = State(self.ms)
        assert not self.new.marked and self.new.column != self.old.column
        assert name != "shared" or self.new.old == self.old.column
        assert not self.drops or (self.new.old is None and self.new.names == self.old.names)
        if self.drops: # its files go, and the other column moves out of them
            self.old.rest = {f: h for f, h in self.old.rest.items() if f in self.new.files}
        self.known = set(self.old.files) | set(self.new.files)

    def fresh(self):
        fresh_copy(self.path, self.ms)

    def command(self):
        return [self.driver, COLUMN, "replace+drop" if self.drops else "replace", self.ms]

    def run(self, strace):
        return subprocess.run(strace + self.command(), capture_output=True, text=True, timeout=GUARD_S)

    def points(self, calls):
        """Numbers of the calls of each kind, which strace counts by process. Of the reads of a process before it changes a file,
        one in EARLY is used, as of writes of cells after the first MANY: they are all alike."""
        self.fresh()
        for f in glob.glob(self.trace + "*"):
            os.remove(f)
        subprocess.run(["strace", "-ff", "--seccomp-bpf", "-o", self.trace, "-e", "trace=" + ",".join(calls)] + self.command(),
                       check=True, capture_output=True)
        found = {call: set() for call in calls}
        for name in glob.glob(self.trace + "*"):
            made, is_early = collections.Counter(), True
            with open(name, encoding="utf-8", errors="replace") as f:
                for line in f:
                    call = line.partition("(")[0]
                    made[call] += 1
                    is_early = is_early and (call not in CHANGES or line.startswith("write(2,"))
                    is_alike = is_early and call in READS or call == "write" and made[call] > MANY
                    if call in found and (not is_alike or made[call] % EARLY == 0):
                        found[call].add(made[call])
        return {call: sorted(numbers) for call, numbers in found.items()}

    def judge(self, call, status, stderr, must_be_tidy):
        """Describe what is wrong with the set after a run, and after another one without a fault."""
        wrong = []
        try:
            now = State(self.ms)
        except Exception as e:  # any exception of casacore: the set is lost
            return ["LOST: " + str(e)]
        is_old = now.column == self.old.column and now.names == self.old.names
        is_new = now.column == self.new.column and now.names == self.new.names and now.old == self.new.old
        is_undropped = self.drops and now.column == self.new.column and now.old == self.old.column
        for what in ("keywords", "others"):
            if getattr(now, what) != getattr(self.old, what):
                wrong.append(what + " changed")
        wrong += ["changed: " + f for f, h in self.old.rest.items() if now.files.get(f) != h]
        if not (now.marked or is_old or is_new or is_undropped):
            wrong.append("LOST: partly written, no mark")
        if status == 0 and (now.marked or not is_new):
            wrong.append("exit 0, not complete")
        if must_be_tidy:
            both = set(self.old.files) | {f for f in self.new.files if not re.match(r"table.f10", f)}
            # A file that cannot be removed, or not be synced before, is left to the next run, as if the first writer
            # process had been killed.
            is_late = self.drops and (call in ("unlinkat", "fsync") or call.startswith("after"))
            if not is_late and set(now.files) not in (set(self.old.files), set(self.new.files), *([both] if self.drops else [])):
                wrong.append("left: %s" % sorted(set(now.files) ^ set(self.old.files)))
            # A writer that SIGKILL ended may have been killed for lack of memory.
            is_killed = status == 5 and call.startswith("after") and "was ended by signal 9" in stderr
            if status not in (0, 4, 130) and not is_killed:
                wrong.append("exit %s: %s" % (status, stderr))
            # The write of the message may itself be the one that failed.
            told = call == "write" or "\nmsimage: error: " in "\n" + stderr
            if status == 4 and ("terminate" in stderr or not told):
                wrong.append("stderr: " + stderr)
        again = self.run([])
        if again.returncode:
            return wrong + ["LOST: cannot be redone: " + again.stderr]
        now = State(self.ms)
        if now.marked or now.column != self.new.column or now.names != self.new.names or now.others != self.old.others:
            wrong.append("LOST: redone, not complete")
        # The files of an old column that is removed later have other numbers.
        if (len if self.drops else set)(now.files) != (len if self.drops else set)(self.new.files):
            wrong.append("redone, left: %s" % sorted(set(now.files) ^ set(self.new.files)))
        wrong += ["changed when redone: " + f for f, h in self.old.rest.items() if now.files.get(f) != h]
        return wrong


def inject(fixture, call, what):
    fixture.fresh()
    done = fixture.run(["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                        "inject=%s:%s" % (call, what)])
    return done.returncode, done.stderr


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            return [int(p) for p in f.read().split()]
    except OSError:
        return []


def kill_at(fixture, who, delay_s):
    """Kill one process of a run after some time, or interrupt all as a terminal does. On a busy machine this
    is earlier in the run, or after its end: the moment is random, and every outcome must be valid."""
    fixture.fresh()
    run = subprocess.Popen(fixture.command(), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                           start_new_session=True)
    time.sleep(delay_s)
    firsts = children(run.pid)
    seconds = children(firsts[0]) if firsts else []
    victims = {"parent": [run.pid], "first writer": firsts, "second writer": seconds}.get(who, [-run.pid])
    if victims:
        try:
            os.kill(victims[0], signal.SIGINT if victims[0] < 0 else signal.SIGKILL)
        except ProcessLookupError:
            pass
    stderr = run.communicate(timeout=GUARD_S)[1]
    # If the parent is killed, the first writer process cleans up.
    await_none_of(run.pid)
    return run.returncode, stderr


def main():
    driver, makems = sys.argv[1:3]
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], check=False).returncode:
        print("skipped: strace is not installed, or may not trace")
        return 77
    os.environ["ASAN_OPTIONS"] = "detect_leaks=0"  # LeakSanitizer itself needs to trace
    # Memory, because most of the time of hundreds of runs would be syncs of a disk.
    folder = tempfile.mkdtemp(prefix="msimage-test-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    tried = lost = failed = 0
    kinds = {"killed": ("signal=SIGKILL:when=%d",), "ENOSPC": ("error=ENOSPC:when=%d", "error=ENOSPC:when=%d+"),
             "EIO": ("error=EIO:when=%d", "error=EIO:when=%d+")}
    try:
        point = 0
        for name, path in make_fixtures(makems, folder).items():
            fixture = Fixture(name, path, driver, folder)
            cases = []
            calls = CALLS + (DROP_CALLS if fixture.drops else []) + KILLED_CALLS
            for call, numbers in fixture.points(calls).items():
                for kind, forms in kinds.items():
                    if call in KILLED_CALLS and kind != "killed":
                        continue
                    cases += [(call, form % i, kind) for form in forms for i in numbers]
            for who in ("parent", "first writer", "second writer", "all, by SIGINT"):
                cases += [("after %.4f s:" % (0.0015 * i), who, "timed") for i in range(24)]
            counts = {}
            for call, what, kind in cases:
                point += 1
                if point % step:
                    continue
                if kind == "timed":
                    status, stderr = kill_at(fixture, what, float(call.split()[1]))
                    tidy = what != "parent"
                else:
                    status, stderr = inject(fixture, call, what)
                    tidy = kind != "killed"
                if tidy and status < 0:
                    tidy = False
                wrong = fixture.judge(call, status, stderr, tidy)
                tried += 1
                counts[kind] = counts.get(kind, 0) + 1
                lost += any("LOST" in w for w in wrong)
                failed += bool(wrong)
                if wrong:
                    print("FAILED: %s, %s %s: %s" % (name, call, what, "; ".join(wrong)), flush=True)
            print("%s: %s" % (name, ", ".join("%s %d" % c for c in sorted(counts.items()))), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("%d points tried, %d losses, %d failures" % (tried, lost, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
