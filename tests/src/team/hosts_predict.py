#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""hosts_predict.py MSIMAGE MSIMAGE_MAKEMS: several ranks predict whole sets each, and get what one gets; where one rank fails
or is killed, every set is as it was, or complete, or marked as incomplete."""
import os
import shutil
import signal
import subprocess

import mpi_job
from image_oracle import table
from predict_oracle import PredictSuite, contents, errors, marked
from program_suite import GUARD_S, VLA, fresh_copy, main, run

ACCURACY = 1e-8
# Two predictions, each off by the accuracy at most, in numbers of single precision.
TOLERANCE = 2 * (ACCURACY + 2.0**-24)
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-integration", "10s", "-spw", "1GHz", "40MHz", "4"]
PREDICT = ["-quiet", "-predict", "-j", 1, "-backend", "cpu", "-accuracy", ACCURACY, "-name", "good"]


class Predict(PredictSuite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.mp = mpi_job.program(msimage)
        self.source = [self.made_at("source%d.ms" % i, VLA, [*SET, "-duration", t]) for i, t in enumerate(("10s", "60s", "30s"))]

    def sets(self, n, prefix="set"):
        return [fresh_copy(self.source[i], "%s%d.ms" % (prefix, i)) for i in range(n)]

    def by_one(self, n, *options):
        """What a column has after a run of one rank."""
        sets = self.sets(n, "one")
        run(self.msimage, *PREDICT, *options, *sets)
        return sets

    def told_by(self, title, code, pattern, n, *words):
        self.tried += 1
        self.told(title, mpi_job.run(n, self.mp, *PREDICT, *words), code, pattern)
        print(title, flush=True)


def column(path, name):
    with table(path, ack=False) as t:
        return t.getcol(name)


def compare(s, title, got, want, name="MODEL_DATA"):
    worst = max((errors(column(a, name), column(b, name))[0] for a, b in zip(got, want)), default=0)
    s.must(worst <= TOLERANCE and not any(marked(p) for p in got), "%s: %.1e of %.1e" % (title, worst, TOLERANCE))


def check_values(s):
    """New columns, then the same in place; more ranks than sets; a multi-MS; sums with a column."""
    want = s.by_one(3)
    sets = s.sets(3)
    for n, title in ((2, "2 ranks, 3 sets"), (4, "4 ranks, 3 sets, in place")):
        done = mpi_job.run(n, s.mp, *PREDICT, *sets)
        s.must(done.returncode == 0 and not done.stderr, "%s: exit %s, %s" % (title, done.returncode, done.stderr))
        compare(s, title, sets, want)
    both = table(s.sets(2), ack=False)
    both.rename("multi.ms")
    both.close()
    options = ["-predict-op", "add", "-output-column", "SUM_DATA"]
    want = s.by_one(2, *options)
    done = mpi_job.run(2, s.mp, *PREDICT, *options, "multi.ms")
    s.must(done.returncode == 0 and not done.stderr, "a multi-MS: exit %s, %s" % (done.returncode, done.stderr))
    compare(s, "2 ranks, a multi-MS", ["set0.ms", "set1.ms"], want, "SUM_DATA")


def check_refused(s):
    sets = s.sets(3)
    before = [contents(p) for p in sets]
    shutil.rmtree("set2.ms/ANTENNA")
    s.told_by("a damaged set", 3, "ANTENNA", 2, *sets)
    shutil.copytree(s.source[2] + "/ANTENNA", "set2.ms/ANTENNA")
    s.told_by("the same set twice", 2, "are the same Measurement Set", 2, *sets, sets[0])
    s.told_by("no model", 3, "none", 2, "-name", "none", *sets)
    with table(sets[0], readonly=False, ack=False) as held:
        held.lock(True)
        s.told_by("a set in use", 6, "set0.ms", 3, *sets)
    s.must([contents(p) for p in sets] == before, "sets are as they were")


def check_kills(s):
    """A rank is killed when the first one, which is stopped, has said this."""
    want = s.by_one(3)
    for line, victim in (("to predict", 1), ("disk", 0), ("time: models", 2)):
        sets = s.sets(3)
        job = subprocess.Popen(mpi_job.words(3, "sh", "-c", 'echo $$ > pid$OMPI_COMM_WORLD_RANK; exec "$@"', "sh", s.mp,
                                             *PREDICT[1:], *sets), env=mpi_job.environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
        there = any(text.startswith(line) for text in job.stderr)
        pids = [int(open("pid%d" % k).read()) for k in range(3)]
        for pid, number in ((pids[0], signal.SIGSTOP), (pids[victim], signal.SIGKILL), (pids[0], signal.SIGCONT)):
            os.kill(pid, number) if there and os.path.exists("/proc/%d" % pid) else None
        errors_told = [t for t in job.communicate(timeout=GUARD_S)[1].splitlines() if t.startswith("msimage: error: ")]
        state = [("marked" if marked(p) else "there" if "MODEL_DATA" in table(p, ack=False).colnames() else "not there")
                 for p in sets]
        whole = [p for p, how in zip(sets, state) if how == "there"]
        s.must(there and len(errors_told) <= 1, "rank %d killed at '%s': exit %s, %s, %s" %
               (victim, line, job.returncode, errors_told, state))
        compare(s, "%d complete" % len(whole), whole, [want[sets.index(p)] for p in whole])
        done = mpi_job.run(2, s.mp, *PREDICT, *sets)
        s.must(done.returncode == 0, "then again: %s" % done.stderr)
        compare(s, "then again", sets, want)


if __name__ == "__main__":
    main(Predict, globals())
