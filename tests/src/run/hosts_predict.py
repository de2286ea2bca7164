#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""hosts_predict.py MSIMAGE MSIMAGE_MAKEMS: several ranks predict whole sets each, with the same result as one rank. If
a rank fails or is killed, every set is unchanged, complete, or marked as incomplete."""
import os
import shutil
import signal

import mpi_job
from image_oracle import table
from predict_oracle import PredictSuite, contents, errors, marked
from program_suite import VLA, fresh_copy, main, run

ACCURACY = 1e-8
# Two predictions, each with an error of at most the accuracy, in single precision.
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
        """The column after a run of one rank."""
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
    """A rank is killed while the first one is stopped after this line, or waits for that rank in predicting."""
    want = s.by_one(3)
    for line, victim, last in (("gridder", 1, None), ("disk", 0, None), ("disk", 2, "to predict")):
        sets = s.sets(3)
        job = mpi_job.Job(3, s.mp, *PREDICT[1:], *sets)
        there, code = job.end_at(line, victim, signal.SIGKILL, last)
        state = [("marked" if marked(p) else "there" if "MODEL_DATA" in table(p, ack=False).colnames() else "not there")
                 for p in sets]
        whole = [p for p, how in zip(sets, state) if how == "there"]
        s.must(there and code in mpi_job.stopped_codes(signal.SIGKILL) and len(job.errors()) <= 1, "rank %d killed at '%s': exit %s, %s, %s" %
               (victim, line, code, job.errors(), state))
        compare(s, "%d complete" % len(whole), whole, [want[sets.index(p)] for p in whole])
        done = mpi_job.run(2, s.mp, *PREDICT, *sets)
        s.must(done.returncode == 0, "then again: %s" % done.stderr)
        compare(s, "then again", sets, want)


if __name__ == "__main__":
    main(Predict, globals())
