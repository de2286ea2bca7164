#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""hosts_failures.py MSIMAGE MSIMAGE_MAKEMS: if one of several ranks fails or is killed, all end, with one error line,
one exit code, and no incomplete file."""
import os
import signal

import mpi_job
from program_suite import Suite, main

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-integration", "8s", "-spw", "882.75MHz", "53.5MHz", "16",
       "-weight-spectrum", "none", "-duration"]
STOPPED = "msimage: error: stopped by signal 15 (Terminated)"
IMAGE = ["-quiet", "-j", 1, "-backend", "cpu", "-size", 128, 128, "-scale", "2.5asec", "-name", "image"]


class Failures(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.mp = mpi_job.program(msimage)
        self.set = self.made("set.ms", *SET, "80s")
        os.mkdir(self.path("out"))
        os.chdir(self.path("out"))

    def files(self):
        """The files that the runs have left. A killed rank leaves its hidden temporary files."""
        return sorted(f for f in os.listdir(".") if not f.startswith("."))

    def refused(self, title, n, code, pattern, *command):
        self.tried += 1
        self.told(title, mpi_job.run(n, *command), code, pattern)
        if os.listdir("."):
            self.complain("%s: leaves %s" % (title, os.listdir(".")))
        print(title, flush=True)

    def on_rank(self, rank, before, *more):
        """msimage-mp on every rank, on one of them started by another command."""
        return ["sh", "-c", 'if [ %s = %d ]; then %s; fi; exec "$@"' % (mpi_job.RANK, rank, before), "sh", self.mp, *IMAGE,
                *more]


def check_agreement(s):
    s.refused("a wrong path on one rank", 3, 3, "set.ms: No such file or directory",
              *s.on_rank(1, "cd /", "../set.ms"))
    os.makedirs(s.path("short/out"))
    s.made("short/set.ms", *SET, "16s")
    s.refused("another set on one rank", 2, 3, "rank 1 of 2 finds other rows or channels",
              *s.on_rank(1, "cd %s" % s.path("short/out"), "../set.ms"))
    s.refused("another command line", 1, 3, "rank 1 of 2 was given another command line", s.mp, *IMAGE, s.set, ":", "-n", 1,
              s.mp, *IMAGE, "-make-psf", s.set)
    s.refused("a mistake that all make", 3, 2, "-size", s.mp, "-quiet", "-size", "-name", "image", s.set)
    # Before ranks join, the rank that prints errors is not the one that failed.
    s.refused("a mistake that one rank makes", 3, 2, "-sizes", *s.on_rank(1, 'set -- "$1" -sizes', s.set))
    s.refused("no command line on one rank", 3, 2, "a rank has no command line",
              *s.on_rank(2, 'set -- "$1"', s.set))
    s.refused("few files on one rank", 3, 5, "64 files can be open at once, but 128 are needed", *s.on_rank(1, "ulimit -n 64", s.set))
    s.refused("few files on all", 3, 5, "64 files can be open at once, but 128 are needed", "sh", "-c", 'ulimit -n 64; exec "$@"', "sh",
              s.mp, *IMAGE, s.set)
    s.refused("pictures restored by several", 2, 2, "-restore: it uses one process", s.mp, "-restore", "a", "b", "c")
    # A limit below the image's file and above MPI's shared memory.
    s.refused("a full disk on rank 0", 3, 4, "image-dirty.fits: cannot be written: File too large",
              *s.on_rank(0, "ulimit -f 12288", "-size", 2048, 2048, s.set))


def killed(s, title, line, victim, number):
    """Stop rank 0 after this line, and end a rank or mpirun."""
    job = mpi_job.Job(3, s.mp, "-verbose", *IMAGE[1:], "-size", 512, 512, "-make-psf", s.set)
    there, code = job.end_at(line, victim, number)
    left = s.files()
    s.must(there and code in mpi_job.stopped_codes(number) and not left and len(job.errors()) <= 1, "%s: exit %s, %s, left %s" %
           (title, code, job.errors(), left))
    for f in os.listdir("."):
        os.remove(f)


def check_kills(s):
    for stage, line in ("reading", "disk:"), ("gridding", "weights:"), ("before the names", "channel 0:"):
        for victim in (0, 2):
            killed(s, "rank %d killed, %s" % (victim, stage), line, victim, signal.SIGKILL)
    killed(s, "mpirun receives SIGTERM", "memory:", None, signal.SIGTERM)


def check_stopped(s):
    """Waiting ranks could end first, and launchers then end the working one. Before that it must have printed its error
    and removed its temporary files, or have completed its files: Open MPI passes the signal on after a second."""
    for k in range(4):
        job = mpi_job.Job(3, s.mp, "-verbose", *IMAGE[1:], "-size", 2048, 2048, "-make-psf", s.set)
        there, code = job.stop_after("weights:", signal.SIGTERM)
        left, errors = sorted(os.listdir(".")), job.errors()
        stopped = code in mpi_job.stopped_codes(signal.SIGTERM) and not left and errors == [STOPPED]
        complete = left == ["image-dirty.fits", "image-image.fits", "image-psf.fits"] and not errors
        s.must(there and (stopped or complete),
               "mpirun receives SIGTERM while rank 0 grids, %d: exit %s, %s, left %s" % (k, code, errors, left))
        for f in left:
            os.remove(f)


if __name__ == "__main__":
    main(Failures, globals())
