# SPDX-License-Identifier: GPL-3.0-or-later
"""msimage-bench's random rows: twenty drawn inputs for every strategy and direction of a backend, all as the direct
sums have them.

usage: bench_seeds.py MSIMAGE-BENCH cpu|cuda
"""
import json
import os
import re
import subprocess
import sys
import tempfile

BENCH, BACKEND = sys.argv[1:]
N_SEED = 20
SKIPPED = 77
# Small fields, of which each thread has little to do: waiting threads should not take the others' time.
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS="2")


def bench(*args):
    return subprocess.run([BENCH, *args], capture_output=True, text=True, check=False, env=ENVIRONMENT)


def listed():
    """(method, strategy, direction) of the backend."""
    found = set()
    for line in bench("-list").stdout.splitlines():
        if re.match(r"  (wgrid|wproj) ", line):
            method, strategy, directions, backend = line.split()
            found |= {(method, strategy, direction) for direction in directions.split(",") if backend == BACKEND}
    return found


def main():
    wanted = listed()
    if not wanted:
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "seeds.json")
        pattern = "random/*-cpu" if BACKEND == "cpu" else "random/*-fp??"
        done = bench("-run", pattern, "-seeds", str(N_SEED), "-json", path)
        print(done.stdout, done.stderr)
        if done.returncode == 5 and BACKEND == "cuda":
            sys.exit(SKIPPED)
        assert done.returncode == 0, f"exit {done.returncode}"
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    for precision in ("fp32", "fp64"):
        run = {(r["method"], r["strategy"], r["direction"]) for r in rows if r["precision"] == precision}
        assert run == wanted, f"{precision}: {run ^ wanted}"
    for row in rows:
        assert row["error"] <= row["tolerance"], row
        # Subgrids need a field of some size. Every other requested row has a plan.
        least = 3 if row["strategy"] == "subgrid" else N_SEED
        assert row["seeds"] >= least, row


main()
