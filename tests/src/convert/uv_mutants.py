#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""uv_mutants.py MSIMAGE MSIMAGE_MAKEMS COUNT [SEED] [FIRST]: damaged UVFITS and FITS-IDI files, made at random from whole small
ones. Each is converted into a Measurement Set, or planned: the program ends with a documented code and at most one line of
error, not by a signal; soon, by its CPU time; in bounded memory; the set is there and whole, or there is none; and nothing else
is left. The last line counts too how often the process that runs casacore was ended, which is how damage may show there.
Without SEED one is drawn, and printed: mutant N of a seed is always the same. MUTANTS_FOLDER names where files go;
MUTANTS_KEEP a folder in which a failing mutant is kept, with what it left."""
import collections
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from casacore.tables import table

from convert_oracle import Rows
from program_suite import run, sanitized
from uv_files import write_idi

# Limits of a conversion of a damaged file: CPU seconds of all its processes together, and the memory of the largest process in MB,
# for libraries and a small file.
MOST_CPU_S, MOST_MB = 60, 1300
# A blocked process takes no CPU time; this limit is long enough for a busy machine.
GUARD_S = 600
CODES = (0, 3, 5)

STATIONS = """-1601188.0 -5042000.0 3554886.0 25 a
-1601225.0 -5041980.0 3554855.0 25 b
-1601147.0 -5041733.0 3555235.0 25 c
-1600801.0 -5042219.0 3554706.0 25 d
"""
SET = ["-quiet", "-j", 1, "-duration", "30s", "-ra", "60deg", "-dec", "44deg", "-flags", 0.1, "-autocorrelations"]
SETS = {"one": ["-spw", "1GHz", "1MHz", 4], "bands": ["-spw", "1GHz", "1MHz", 2, "-spw", "1.1GHz", "1MHz", 2, "-pol", "XX,YY"],
        "sources": ["-spw", "1GHz", "1MHz", 3, "-field", "61deg", "44deg", "-pol", "RR,LL"]}
# Limit values of numbers, as cards have them.
CARDS = (b"0", b"1", b"-1", b"2", b"255", b"999", b"32768", b"2147483647", b"-2147483648", b"4294967296", b"9223372036854775807", b"1.0E300",
         b"-1.0E-300", b"NaN", b"T", b"'A'", b"")
BORDERS = (0, 1, 2, 3, 7, 255, 256, 0x7fff, 0x10000, 0x7f800000, 0x7fc00000, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff)


def headers(data):
    """Return the offsets of the cards with a value."""
    return [m.start() for m in re.finditer(rb"[A-Z][A-Z0-9_ -]{7}= ", data) if m.start() % 80 == 0]


def put_card(r, data, cards):
    """Change the value or the name of a card."""
    at = r.choice(cards)
    card = data[at:at + 80]
    kind = r.random()
    if kind < 0.6:
        card = card[:10] + r.choice(CARDS).rjust(20) + b" " * 50
    elif kind < 0.75:
        card = r.choice([data[k:k + 80] for k in cards])
    elif kind < 0.9:
        card = b" " * 80
    else:
        card = bytes(c ^ (r.random() < 0.05) << r.randrange(7) for c in card)
    return data[:at] + card + data[at + 80:]


def put_bytes(r, data):
    """Change bits, bytes or numbers anywhere in data and headers."""
    at, kind = r.randrange(len(data)), r.random()
    if kind < 0.4:
        return data[:at] + bytes([data[at] ^ 1 << r.randrange(8)]) + data[at + 1:]
    if kind < 0.7:
        new = r.choice((r.choice(BORDERS), r.getrandbits(32))).to_bytes(4, "big")
        at -= at % 4
    elif kind < 0.85:
        new = r.randbytes(r.randrange(1, 64))
    else:
        k = r.randrange(len(data))
        new = data[k:k + r.randrange(1, 200)]
    return data[:at] + new + data[at + len(new):]


def mutate(r, data):
    cards = headers(data)
    for _ in range(r.choice((1, 1, 1, 2, 2, 4))):
        kind = r.random()
        if kind < 0.5:
            data = put_card(r, data, [c for c in cards if c < len(data) - 80] or [0])
        elif kind < 0.9:
            data = put_bytes(r, data)
        elif kind < 0.97:
            if len(data) > 2880:
                at = r.randrange(1, len(data)) if r.random() < 0.5 else 2880 * r.randrange(1, len(data) // 2880 + 1)
                data = data[:at]
        else:
            data += r.randbytes(r.randrange(1, 5000))
    return data


class Worker:
    def __init__(self, program, files, folder):
        self.program, self.files, self.folder, self.sanitized = program, files, folder, sanitized(program)
        os.mkdir(folder)

    def complaint(self, code, usage, text):
        errors = [line for line in text.splitlines() if not line.startswith("msimage-convert: warning: ")]
        if code not in CODES:
            return "exits %d" % code
        if len(errors) != (code != 0) or not all(line.startswith("msimage-convert: error: ") for line in errors):
            return "not one line of error"
        if usage.ru_utime + usage.ru_stime > MOST_CPU_S:
            return "%.0f s of CPU time" % (usage.ru_utime + usage.ru_stime)
        if usage.ru_maxrss / 1000 > MOST_MB and not self.sanitized:
            return "%.0f MB" % (usage.ru_maxrss / 1000)
        return ""

    def whole(self, out):
        """Return whether a set can be read to its last row."""
        try:
            with table(out, ack=False) as t:
                return t.nrows() > 0 and t.getcell("DATA", t.nrows() - 1).size > 0 and not np_nan(t.getcell("UVW", 0))
        except RuntimeError:
            return False

    def try_one(self, seed, number):
        """Return the exit code, the complaint and the output."""
        r = random.Random("%d/%d" % (seed, number))
        name = r.choice(sorted(self.files))
        path, out, log = (os.path.join(self.folder, n) for n in ("in", "out.ms", "log"))
        data = mutate(r, self.files[name]) if number >= 0 else self.files[sorted(self.files)[-1 - number]]
        with open(path, "wb") as f:
            f.write(data)
        words = ["-quiet", "-abs-mem", "1", *(["-dry-run"] if number >= 0 and r.random() < 0.05 else []), path, out]
        with open(log, "w", encoding="ascii") as f:
            process = subprocess.Popen([self.program, *words], stdout=subprocess.DEVNULL, stderr=f, start_new_session=True,
                                       cwd=self.folder)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            try:
                _, status, usage = pool.submit(os.wait4, process.pid, 0).result(GUARD_S)
            except concurrent.futures.TimeoutError:
                os.killpg(process.pid, signal.SIGKILL)
                return None, "does not end", ""
        process.returncode = code = os.waitstatus_to_exitcode(status)
        with open(log, encoding="utf-8", errors="replace") as f:
            text = f.read()
        wrong = self.complaint(code, usage, text)
        left = sorted(set(os.listdir(self.folder)) - {"in", "log", "out.ms"})
        if left:
            wrong = wrong or "leaves %s" % left
        if os.path.exists(out) != (code == 0 and "-dry-run" not in words):
            wrong = wrong or "exits %d, and the set is %sthere" % (code, "" if os.path.exists(out) else "not ")
        elif os.path.exists(out) and not self.whole(out):
            wrong = wrong or "the set is not whole"
        if wrong and "MUTANTS_KEEP" in os.environ:
            shutil.copytree(self.folder, os.path.join(os.environ["MUTANTS_KEEP"], "%d-%d" % (seed, number)), symlinks=True)
        for left in (*left, "out.ms"):
            shutil.rmtree(os.path.join(self.folder, left), ignore_errors=True)
        return code, wrong, text


def np_nan(values):
    return any(v != v for v in values)


def make_files(program, makems, folder):
    """Make complete small files; return them by name."""
    files, layout = {}, os.path.join(folder, "layout")
    with open(layout, "w", encoding="ascii") as f:
        f.write(STATIONS)
    for name, words in SETS.items():
        path = os.path.join(folder, name + ".ms")
        run(makems, "-layout-file", layout, *SET, *words, path)
        run(program, "-quiet", path, path + ".uvfits")
        write_idi(Rows(path), path, path + ".idi")
        for kind in ("uvfits", "idi"):
            with open(path + "." + kind, "rb") as f:
                files[name + "." + kind] = f.read()
    return files


class Tally:
    """Return a summary of the mutants so far."""

    def __init__(self, seed):
        self.seed, self.n, self.n_wrong = seed, 0, 0
        self.codes, self.ends = collections.Counter(), collections.Counter()

    def add(self, number, code, wrong, text):
        self.n += 1
        self.codes[str(code)] += 1
        end = re.search(r"ended by signal \d+|did not finish a step|more memory than", text)
        if end:
            self.ends[end[0]] += 1
        self.n_wrong += bool(wrong)
        if wrong:
            print("seed %d, mutant %d: %s: %s" % (self.seed, number, wrong, text[:400].strip()), flush=True)
        if self.n % 1000 == 0:
            self.say()

    def say(self):
        print("%d tried, %d failures; exit codes %s; processes that convert: %s" %
              (self.n, self.n_wrong, dict(sorted(self.codes.items())), dict(sorted(self.ends.items()))), flush=True)


def try_share(work, tally, lock, numbers):
    for n in numbers:
        done = work.try_one(tally.seed, n)
        with lock:
            tally.add(n, *done)


def main():
    msimage, makems = [os.path.abspath(p) for p in sys.argv[1:3]]
    program = os.path.join(os.path.dirname(msimage), "msimage-convert")
    count = int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1, 1 << 31)
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    n_worker = min(2, len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(dir=os.environ.get("MUTANTS_FOLDER")) as folder:
        files = make_files(program, makems, folder)
        works = [Worker(program, files, os.path.join(folder, "worker%d" % i)) for i in range(n_worker)]
        for k in range(len(files)):  # an undamaged file is converted
            code, wrong, text = works[0].try_one(seed, -1 - k)
            if code or wrong:
                sys.exit("the whole file %s: exits %s, %s: %s" % (sorted(files)[k], code, wrong, text))
        print("seed %d, mutants %d to %d of %s" % (seed, first, first + count - 1, ", ".join(sorted(files))), flush=True)
        tally, lock = Tally(seed), threading.Lock()
        shares = [range(first + i, first + count, n_worker) for i in range(n_worker)]
        with concurrent.futures.ThreadPoolExecutor(n_worker) as pool:
            list(pool.map(try_share, works, [tally] * n_worker, [lock] * n_worker, shares))
        tally.say()
    sys.exit(1 if tally.n_wrong else 0)


main()
