#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_mutants.py MSIMAGE MSIMAGE_MAKEMS COUNT [SEED] [FIRST]: damaged Measurement Sets, as set_mutants.py makes them, through
msimage-convert: it ends with a documented code and at most one line, not by a signal; soon, by its CPU time; in bounded
memory; and leaves the whole output or nothing, and the input as it was. Without SEED one is drawn, and printed."""
import collections
import os
import random
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "run"))
# pylint: disable=wrong-import-position
from set_mutants import MOST_CPU_S, MOST_MB, SETS, apply, contents, draw_mutant, files_of, make_sets, restore, run_program
from program_suite import sanitized

# A subtable with rows that cannot be written is reported as a failed output, exit code 4.
CODES = (0, 2, 3, 4, 5)
ALWAYS = ["-quiet", "-abs-mem", "1"]
WAYS = {
    "copy": ["out.ms"],
    "average": ["-average-time", "10s", "-average-channels", "2", "out.ms"],
    "select": ["-field", "0", "-channel-range", "0", "2", "out.ms"],
    "shift": ["-shift", "60.1deg", "44deg", "-average-baseline-dependent", "0.01", "out.ms"],
    "store": ["out.msv"],
    "plan": ["-dry-run", "out.ms"],
}


def words_of(way, path):
    return [*ALWAYS, *WAYS[way][:-1], path, WAYS[way][-1]]


def complaint(done, text, out, is_sanitized):
    code, cpu_s, mb = done
    errors = [line for line in text.splitlines() if not line.startswith("msimage-convert: warning: ") and
              not line.startswith("msimage-convert: warning: ")]
    if code not in CODES:
        return "exits %d" % code
    if len(errors) != (code != 0) or not all(line.startswith("msimage-convert: error: ") for line in errors):
        return "not one line of error"
    if cpu_s > MOST_CPU_S:
        return "%.0f s of CPU time" % cpu_s
    if mb > MOST_MB and not is_sanitized:
        return "%.0f MB" % mb
    left = [n for n in os.listdir(out) if code != 0 or not n.startswith("out.")]
    return "leaves %s" % left if left else ""


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "msimage-convert")
    count = int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.SystemRandom().randrange(1, 1 << 31)
    first = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    is_sanitized, codes, n_wrong = sanitized(program), collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        source = make_sets(os.path.abspath(sys.argv[2]), folder)
        out, log = os.path.join(folder, "out"), os.path.join(folder, "log")
        os.mkdir(out)
        files = {name: files_of(os.path.join(source, name)) for name in SETS}
        print("seed %d, mutants %d to %d" % (seed, first, first + count - 1), flush=True)
        tries = [("the whole set %s, %s" % (name, way), name, way, []) for name in ("shape", "spws") for way in WAYS]
        for n in range(first, first + count):
            name, _, patches = draw_mutant(seed, n, source, files)
            tries.append(("seed %d, mutant %d" % (seed, n), name, random.Random("%d-%d" % (seed, n)).choice(list(WAYS)), patches))
        for title, name, way, patches in tries:
            path = os.path.join(source, name)
            before = apply(path, patches)
            given = contents(path)
            done = run_program(program, out, dict(os.environ), log, words_of(way, path))
            with open(log, encoding="utf-8", errors="replace") as f:
                text = f.read()
            wrong = complaint(done, text, out, is_sanitized) if done else "does not end"
            if done and not patches and done[0]:
                wrong = wrong or "a whole set is refused"
            wrong = wrong or ("changes its input" if contents(path) != given else "")
            restore(before)
            codes[str(done[0] if done else None)] += 1
            n_wrong += bool(wrong)
            if wrong:
                print("%s, %s of %s: %s: %s\n%s" % (title, way, name, wrong, text[:400].strip(), patches), flush=True)
            for left in os.listdir(out):
                left = os.path.join(out, left)
                (shutil.rmtree if os.path.isdir(left) else os.remove)(left)
        print("%d tried, %d failures; exit codes %s" % (len(tries), n_wrong, dict(sorted(codes.items()))))
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
