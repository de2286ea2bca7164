#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""set_mutants.py MSIMAGE MSIMAGE_MAKEMS SERVER COUNT [SEED] [FIRST]: Measurement Sets damaged at random, and those of
set_mutants_fallen.txt, which once crashed the program. Each is imaged, planned or predicted into. The program must end with a
documented code and at most one line, not by a signal, within limits of CPU time and memory. It must leave no file except its
image or column, and change only files of that column. The last line also counts how often a reader process was killed, which
must not happen to a run. Without SEED a random seed is used and printed; mutant N of a seed is always the same.

SEED 0 uses only mutants of the list and ignores COUNT. Most mutants are run by SERVER, msimage_server, which saves the start
of the program; one in ten by the program itself."""
import collections
import concurrent.futures
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from casacore.tables import makearrcoldesc, maketabdesc, table

from dysco_columns import compress
from program_suite import run, sanitized

# Limits of every command: CPU seconds of the program and its processes together, and the largest of them in MB. The second
# is -abs-mem plus libraries, or the memory limit of a reader process.
MOST_CPU_S, MOST_MB = 30, 1300
# A blocked process takes no CPU time; this is long enough for a busy machine.
GUARD_S = 600

CODES = (0, 2, 3, 5)
# A writer process may be killed by the columns of a damaged set.
WRITING_CODES = (*CODES, 4)

STATIONS = """-1601188.0 -5042000.0 3554886.0 25 a
-1601225.0 -5041980.0 3554855.0 25 b
-1601147.0 -5041733.0 3555235.0 25 c
-1600801.0 -5042219.0 3554706.0 25 d
"""
SET = ["-j", 1, "-duration", "30s", "-ra", "60deg", "-dec", "44deg", "-random-sources", 2, 1, "10amin", "-flags", 0.1,
       "-flag-rows", 0.1, "-autocorrelations"]
SETS = {
    "shape": ["-storage", "tiledshape", "-spw", "1GHz", "40MHz", 4, "-weight-spectrum", "partly"],
    "column": ["-storage", "tiledcolumn", "-spw", "1GHz", "40MHz", 4, "-weight-spectrum", "none"],
    "standard": ["-storage", "standard", "-spw", "1GHz", "40MHz", 4, "-field", "61deg", "44deg", "-pol", "XX,YY"],
    "spws": ["-storage", "tiledshape", "-spw", "1GHz", "40MHz", 3, "-spw", "1.4GHz", "-20MHz", 5, "-spw-order", "row"],
    "dysco": ["-storage", "tiledshape", "-spw", "1GHz", "40MHz", 4],
    "own": ["-storage", "tiledshape", "-spw", "1GHz", "40MHz", 4],
    "shared": ["-storage", "standard", "-spw", "1GHz", "40MHz", 4, "-pol", "XX,YY"],
}
ALWAYS = ["-quiet", "-backend", "cpu", "-j", 1, "-abs-mem", 1, "-accuracy", 1e-3]
IMAGE = [*ALWAYS, "-size", 32, 32, "-scale", "20asec", "-name", "o"]
WAYS = {
    "plan": [*IMAGE, "-dry-run"],
    "image": IMAGE,
    "readers": [*IMAGE, "-readers", 2, "-field", "all", "-shift", "60deg", "44deg"],
    "select": [*IMAGE, "-select-antenna", "!c", "-select-spw", "0:0~2"],
    "taql": [*IMAGE, "-taql", "ANTENNA1 != 3", "-select-uvrange", ">1m"],
    "intervals": [*IMAGE, "-intervals-out", 2],
    "predict": [*ALWAYS, "-predict", "-dry-run", "-force", "-name", "../model/m"],
    "write": [*ALWAYS, "-predict", "-force", "-name", "../model/m"],
}

# Numbers at limits of types.
BORDERS = (0, 1, 2, 3, 7, 255, 256, 0x7fff, 0x10000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff)


def files_of(path):
    """Every file of a set that the program may look at, relative to it."""
    found = []
    for folder, _, names in os.walk(path):
        found += [os.path.relpath(os.path.join(folder, n), path) for n in names if n != "table.info" and n != "table.lock"]
    return sorted(found)


def draw_place(r, size):
    """Half of the damage is in headers."""
    return r.randrange(min(size, 2048) if r.random() < 0.5 else size)


def draw_patch(r, path, files):
    """A patch: the file, the kind of change, its position, and the new bytes (in hex) or the length."""
    file = r.choice(files)
    if r.random() < 0.4: # the tables that everything needs
        file = r.choice([f for f in files if os.path.dirname(f) in ("", "FIELD", "SPECTRAL_WINDOW", "DATA_DESCRIPTION")])
    size = os.path.getsize(os.path.join(path, file))
    kind = r.choices(("bit", "byte", "number", "long", "zero", "copy", "cut", "grow", "gone"),
                     (30, 20, 25, 8, 4, 5, 5, 2, 1))[0]
    if size < 16 and kind not in ("grow", "gone"):
        kind = "cut"
    if kind in ("cut", "gone"):
        return [file, kind, r.randrange(size + 1), ""]
    if kind == "grow":
        return [file, "put", size, r.randbytes(r.randrange(1, 5000)).hex()]
    at = draw_place(r, size)
    with open(os.path.join(path, file), "rb") as f:
        f.seek(at)
        here = f.read(64)
        f.seek(draw_place(r, size))
        other = f.read(r.randrange(1, 64))
    if kind == "bit":
        return [file, "put", at, bytes([here[0] ^ 1 << r.randrange(8)]).hex()]
    if kind == "byte":
        return [file, "put", at, r.randbytes(r.randrange(1, 4)).hex()]
    if kind == "copy":
        return [file, "put", at, other.hex()]
    if kind == "zero":
        return [file, "put", at, bytes(r.randrange(1, 64)).hex()]
    n = 8 if kind == "long" else 4
    order = r.choice(("big", "little"))
    number = r.choice((r.choice(BORDERS), r.getrandbits(8 * n), int.from_bytes(here[:n], order) + r.choice((-1, 1))))
    return [file, "put", at - at % 4 if r.random() < 0.5 else at, (number % (1 << 8 * n)).to_bytes(n, order).hex()]


def draw_mutant(seed, number, folder, files):
    """Mutant `number` of a seed: a set, the way in which it is used, and its patches."""
    r = random.Random("%d/%d" % (seed, number))
    name = r.choice(list(SETS))
    patches = [draw_patch(r, os.path.join(folder, name), files[name]) for _ in range(r.choice((1, 1, 1, 2, 2, 4)))]
    return [name, r.choice(list(WAYS)), patches]


def apply(path, patches):
    """Patch a set. Returns what undoes the patch."""
    before = {}
    for file, kind, at, data in patches:
        file = os.path.join(path, file)
        if file not in before:
            with open(file, "rb") as f:
                before[file] = f.read()
        if not os.path.exists(file):
            continue
        if kind == "gone":
            os.remove(file)
        elif kind == "cut":
            os.truncate(file, min(at, os.path.getsize(file)))
        else:
            with open(file, "r+b") as f:
                f.seek(at)
                f.write(bytes.fromhex(data))
    return before


def restore(before):
    for file, data in before.items():
        with open(file, "wb") as f:
            f.write(data)


def contents(path):
    """The contents of every file of a set, except locks."""
    held = {}
    for folder, _, names in os.walk(path):
        for file in (os.path.join(folder, n) for n in names if n != "table.lock"):
            with open(file, "rb") as f:
                held[os.path.relpath(file, path)] = f.read()
    return held


def harm(before, after, code):
    """Forbidden changes of a set by a prediction. `before`: the damaged set before the run."""
    gone, new = sorted(set(before) - set(after)), sorted(set(after) - set(before))
    changed = [n for n in before if n in after and before[n] != after[n]]
    if gone or [n for n in new if code or not re.match(r"table\.f\d", n)]:
        return "of the set %s gone, %s new" % (gone, new)
    # Those of a column that is written in place, and the list of columns.
    strange = [n for n in changed if n != "table.dat" and not re.match(r"table\.f\d+_TSM\d+$", n)]
    data = [n for n in changed if n != "table.dat"]
    numbers = {n.split("_")[0] for n in data}
    return "changes %s" % changed if strange or len(numbers) > 1 else ""


class Server:
    """A process of msimage_server, started again if it hangs."""

    def __init__(self, program, folder, environment):
        self.words, self.options, self.process = [program], {"cwd": folder, "env": environment}, None

    def run(self, log, words):
        """Returns exit code, seconds of CPU time, MB; None if it does not end."""
        if not self.process:
            self.process = subprocess.Popen(self.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                                            text=True, **self.options)
        self.process.stdin.write("\t".join((log, *words)) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], GUARD_S)[0]:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
            return None
        code, cpu_s, kb = self.process.stdout.readline().split()
        return int(code), float(cpu_s), float(kb) / 1000

    def end(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


def run_program(program, folder, environment, log, words):
    """As Server.run, for a program."""
    with open(log, "w", encoding="ascii") as f:
        process = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=f, cwd=folder, env=environment,
                                   start_new_session=True)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        ended = pool.submit(os.wait4, process.pid, 0)
        try:
            _, status, usage = ended.result(GUARD_S)
        except concurrent.futures.TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


class Worker:
    """A copy of the sets to damage, and directories to watch."""

    def __init__(self, programs, source, folder):
        self.sanitized = sanitized(programs[0])
        self.msimage, self.folder = programs[0], folder
        self.sets, self.out, self.temp = [os.path.join(folder, n) for n in ("sets", "out", "temp")]
        shutil.copytree(source, self.sets)
        for made in (self.out, self.temp, os.path.join(folder, "model")):
            os.mkdir(made)
        # With OMP_WAIT_POLICY set the program does not start itself again.
        self.environment = {**os.environ, "TMPDIR": self.temp, "OMP_WAIT_POLICY": "passive"}
        self.server, self.n_tried = Server(programs[2], self.out, self.environment), 0
        run(self.msimage, *IMAGE[:-1], os.path.join(folder, "model", "m"), os.path.join(source, "column"))
        os.rename(os.path.join(folder, "model", "m-dirty.fits"), os.path.join(folder, "model", "m-model.fits"))

    def complaint(self, codes, code, cpu_s, mb, text):
        errors = [line for line in text.splitlines() if not line.startswith("msimage: warning: ")]
        if code not in codes:
            return "exits %d" % code
        if len(errors) != (code != 0) or not all(line.startswith("msimage: error: ") for line in errors):
            return "not one line of error"
        if cpu_s > MOST_CPU_S:
            return "%.0f s of CPU time" % cpu_s
        if mb > MOST_MB and not self.sanitized:
            return "%.0f MB" % mb
        left = [n for n in os.listdir(self.out) if code != 0 or not n.startswith("o-")] + os.listdir(self.temp)
        return "leaves %s" % left if left else ""

    def try_mutant(self, mutant):
        """Returns the exit code and the error found, with the text; "" if there is none."""
        name, way, patches = mutant
        path, log = os.path.join(self.sets, name), os.path.join(self.folder, "log")
        is_written = way == "write"
        if is_written:
            path = shutil.copytree(path, os.path.join(self.folder, "written"))
        before, words = apply(path, patches), [str(w) for w in (*WAYS[way], path)]
        given = contents(path) if is_written else None
        self.n_tried += 1
        try:
            by_itself = self.n_tried % 10 == 0
            done = run_program(self.msimage, self.out, self.environment, log, words) if by_itself else \
                self.server.run(log, words)
        finally:
            if not is_written:
                restore(before)
        with open(log, encoding="utf-8", errors="replace") as f:
            text = f.read()
        codes = WRITING_CODES if is_written else CODES
        code, wrong = (done[0], self.complaint(codes, *done, text)) if done else (None, "does not end")
        if is_written:
            wrong = wrong or harm(given, contents(path), code)
            shutil.rmtree(path)
        for folder in (self.out, self.temp):
            for left in os.listdir(folder):
                os.remove(os.path.join(folder, left))
        return code, wrong, text


def make_sets(makems, folder):
    layout = os.path.join(folder, "layout")
    with open(layout, "w", encoding="ascii") as f:
        f.write(STATIONS)
    sets = os.path.join(folder, "sets")
    os.mkdir(sets)
    for name, words in SETS.items():
        run(makems, "-quiet", "-layout-file", layout, *SET, *words, os.path.join(sets, name))
    compress(os.path.join(sets, "dysco"), ["DATA", "WEIGHT_SPECTRUM"])
    add_model(os.path.join(sets, "own"), ["MODEL_DATA"], "TiledShapeStMan")
    add_model(os.path.join(sets, "shared"), ["MODEL_DATA", "OTHER"], "StandardStMan")
    return sets


def add_model(path, names, manager):
    """Columns of visibilities, all in one manager."""
    with table(path, readonly=False, ack=False) as t:
        described = maketabdesc([makearrcoldesc(n, 0j, valuetype="complex", ndim=2) for n in names])
        t.addcols(described, {"TYPE": manager, "NAME": "Model", "DEFAULTTILESHAPE": [2, 4, 16]})
        for name in names:
            t.putcol(name, t.getcol("DATA"))


def fallen():
    """The list of mutants that once crashed the program, a line of JSON each."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "set_mutants_fallen.txt"), encoding="ascii") as f:
        return [(line[:60], json.loads(line)) for line in f if line.startswith("[")]


def try_share(work, share):
    return [(title, mutant, *work.try_mutant(mutant)) for title, mutant in share]


def main():
    programs = [os.path.abspath(p) for p in sys.argv[1:4]]
    count = int(sys.argv[4])
    seed = int(sys.argv[5]) if len(sys.argv) > 5 else random.SystemRandom().randrange(1, 1 << 31)
    first = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    n_worker = min(2, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        source = make_sets(programs[1], folder)
        files = {name: files_of(os.path.join(source, name)) for name in SETS}
        works = [Worker(programs, source, os.path.join(folder, "worker%d" % i)) for i in range(n_worker)]
        tries = fallen()
        if seed:
            tries += [("seed %d, mutant %d" % (seed, n), draw_mutant(seed, n, source, files))
                      for n in range(first, first + count)]
        for work in works: # a whole set is imaged
            for name in SETS:
                for way in WAYS:
                    code, wrong, text = work.try_mutant([name, way, []])
                    if code or wrong:
                        sys.exit("the whole set %s, %s: exits %s, %s: %s" % (name, way, code, wrong, text))
        codes, ends, n_wrong = collections.Counter(), collections.Counter(), 0
        print("seed %d, mutants %d to %d, and %d of the list" % (seed, first, first + count - 1, len(fallen())), flush=True)
        with concurrent.futures.ThreadPoolExecutor(n_worker) as pool:
            for done in pool.map(try_share, works, [tries[i::n_worker] for i in range(n_worker)]):
                for title, mutant, code, wrong, text in done:
                    codes[str(code)] += 1
                    end = re.search(r"ended by signal \d+|did not finish a step|more memory than", text)
                    if end:
                        ends[end[0]] += 1
                    if end and os.environ.get("MUTANTS_SHOW"):
                        print("%s: %s\n%s" % (title, end[0], json.dumps(mutant)), flush=True)
                    n_wrong += bool(wrong)
                    if wrong:
                        print("%s: %s: %s\n%s" % (title, wrong, text[:400].strip(), json.dumps(mutant)), flush=True)
        for work in works:
            work.server.end()
        print("%d tried, %d failures; exit codes %s; processes that read: %s" %
              (len(tries), n_wrong, dict(sorted(codes.items())), dict(sorted(ends.items()))))
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
