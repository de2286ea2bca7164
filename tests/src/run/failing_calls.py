#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""failing_calls.py MSIMAGE MSIMAGE_MAKEMS FAILING_CALLS_LIBRARY: calls of the system and of libraries fail. A run that cannot go
on ends soon, its line names what failed and not the set, and no hidden file is left. A picture that cannot be drawn costs the
picture alone. A failure after all files have their names says that they are complete."""
import errno
import os
import re
import subprocess
import sys

import numpy as np
from astropy.io import fits

from program_suite import GUARD_S, Suite, fresh_copy, main, run

LIBRARY = os.path.abspath(sys.argv.pop(3))
IMAGE = ["-quiet", "-size", "64", "64", "-scale", "20asec", "-backend", "cpu", "-j", "2", "-readers", "2", "-name", "o", "../set.ms"]
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-spw", "1GHz",
       "40MHz", "4"]
ALWAYS = 10**9


class Failing(Suite):
    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        os.chdir(folder)
        self.made("set.ms", *SET)
        self.convert = os.path.join(os.path.dirname(msimage), "msimage-convert")
        run(msimage, *IMAGE[:-1], "set.ms")
        self.image = fits.getdata("o-dirty.fits")

    def start(self, call, *words, program=None, **environment):
        """Begin a run in a new folder, in which a call (NAME, ERRNO, FIRST, LAST, WHO) fails."""
        folder = self.path("run%d" % next(self.number))
        os.mkdir(folder)
        run_in = {**os.environ, **environment, "LD_PRELOAD": LIBRARY}
        if call:
            run_in["FAILING_CALL"] = "%s %d %d %d %s" % call
        process = subprocess.Popen([program or self.msimage, *words], cwd=folder, env=run_in, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, encoding="utf-8")
        return call, folder, process

    def end(self, started, code, pattern, made=()):
        """Did it exit with the code, print one line with the pattern, and make these files?"""
        call, folder, process = started
        title = " ".join(str(w) for w in call or ("a command",))
        try:
            error = process.communicate(timeout=GUARD_S)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return self.complain(title + ": no end")
        lines = error.splitlines()
        good = process.returncode == code and len(lines) == (1 if pattern else 0) and re.search(pattern, error)
        self.must(good and "corrupt" not in error, "%s: exits %d: %s" % (title, process.returncode, error.strip()))
        return self.must(sorted(os.listdir(folder)) == sorted(made), "%s: files %s" % (title, os.listdir(folder)))


def check_messages(s):
    """The system refuses to pass messages between processes: once, and then goes on; or for good."""
    no_buffers, no_memory = os.strerror(errno.ENOBUFS), os.strerror(errno.ENOMEM)
    passing = [s.start((name, error, 1, 3, who), *IMAGE)
               for name, error in (("send", errno.ENOBUFS), ("recv", errno.ENOMEM)) for who in ("parent", "child")]
    lasting = [(s.start(("send", errno.ENOBUFS, first, ALWAYS, who), *words, program=program), no_buffers)
               for first, who, words, program in ((1, "parent", IMAGE, None), (2, "parent", IMAGE, None), (1, "child", IMAGE, None),
                                                  (3, "child", IMAGE, None), (1, "child", ["-quiet", "../set.ms", "o.ms"], s.convert))]
    lasting += [(s.start(("recv", errno.ENOMEM, 2, ALWAYS, who), *IMAGE), no_memory) for who in ("parent", "child")]
    for started in passing:
        s.end(started, 0, "", ["o-dirty.fits", "o-image.fits"])
        s.must(np.array_equal(fits.getdata(os.path.join(started[1], "o-dirty.fits")), s.image), "the image")
    for started, why in lasting:
        s.end(started, 5, "the system refused a message between processes: " + why)


def check_written(s):
    """The same of the processes that write a column."""
    with fits.open("o-dirty.fits") as f:
        f[0].header["BUNIT"] = "Jy/pixel"
        f.writeto("sky-model.fits", overwrite=True)
    started = []
    for who, first in (("parent", 1), ("parent", 2), ("child", 1), ("child", 2)):
        ms = fresh_copy("set.ms", s.path("written%s%d.ms" % (who, first)))
        words = ["-quiet", "-predict", "-backend", "cpu", "-j", "2", "-name", "../sky", ms]
        started.append(s.start(("send", errno.ENOBUFS, first, ALWAYS, who), *words))
    for one in started:
        s.end(one, 5, "the system refused a message between processes: " + os.strerror(errno.ENOBUFS))


def check_pictures(s):
    """The process that draws crashes; the image is written, and a warning names the picture."""
    words = [w for w in IMAGE if w != "-quiet"]
    call, folder, process = s.start(("FcConfigSubstitute", 0, 1, ALWAYS, "all"), "-png", *words)
    log = "".join(process.communicate(timeout=GUARD_S))
    s.must(process.returncode == 0 and sorted(os.listdir(folder)) == ["o-dirty.fits", "o-image.fits"], "%s: %s" % (call, os.listdir(folder)))
    s.must(np.array_equal(fits.getdata(os.path.join(folder, "o-dirty.fits")), s.image), "the image of a run whose picture failed")
    s.must(re.search("warning: o-dirty.png: .*signal 11 .*the picture is not made", log), "the warning: " + log)
    s.must(re.search("wrote 2 files in .*: o-dirty.fits, o-image.fits", log), "what was written")
    png = os.path.join(os.path.dirname(s.msimage), "msimage-png")
    s.end(s.start(call, "-quiet", "-name", "o.png", "../o-dirty.fits", program=png), 5, "o.png: .*signal 11")


def check_libraries(s):
    """FFTW has no memory; OpenMP cannot start a thread, though as many could be started before."""
    s.end(s.start(("memalign", errno.ENOMEM, 1, ALWAYS, "parent"), *IMAGE), 5, "out of memory in a Fourier transform")
    call, folder, process = s.start(("pthread_create", errno.EAGAIN, 12, ALWAYS, "parent"), *IMAGE)
    lines = process.communicate(timeout=GUARD_S)[1].splitlines()
    s.must(process.returncode == 5 and "no more threads" in lines[-1] and os.listdir(folder) == [], "%s: exits %d: %s" %
           (call, process.returncode, lines))


def check_after(s):
    """The directory cannot be synced when the files have their names."""
    call = ("fsync", errno.EIO, 1, ALWAYS, "all")
    s.end(s.start(call, *IMAGE), 4, "Input/output error; all files are complete", ["o-dirty.fits", "o-image.fits"])
    s.end(s.start(call, "-quiet", "../set.ms", "o.ms", program=s.convert), 4, "o.ms: cannot be synced: Input/output error")
    s.end(s.start((*call[:2], 20, ALWAYS, "parent"), "-quiet", "../set.ms", "o.uvfits", program=s.convert), 0, "", ["o.uvfits"])
    s.end(s.start((*call[:2], 1, ALWAYS, "parent"), "-quiet", "../set.ms", "o.uvfits", program=s.convert), 4,
          "o.uvfits: .*Input/output error; the output is complete", ["o.uvfits"])


def check_reads(s):
    """The disk fails while metadata are read: not damage of the set, but a read error of a file."""
    started = [s.start(("pread", errno.EIO, first, ALWAYS, "all"), *IMAGE, FAILING_FILE=name)
               for name, first in (("set.ms/table.dat", 1), ("ANTENNA/table.dat", 2), ("FIELD/table.f0", 2), ("set.ms/table.f0i", 1))]
    for one in started:
        s.end(one, 3, "table[.a-z0-9]*: .*Input/output error")


def check_other_writer(s):
    """Another program changes the columns between the opening of a set for writing and its lock."""
    ms = fresh_copy("set.ms", s.path("other.ms"))
    command = ("%s -c \"from casacore.tables import *; t = table('%s', readonly=False, ack=False); "
               "t.addcols(makescacoldesc('OTHER', 0.0)); t.close()\"" % (sys.executable, ms))
    s.end(s.start(None, "-quiet", "-predict", "-backend", "cpu", "-j", "2", "-name", "../sky", ms, FAILING_COMMAND=command), 6,
          "other.ms: in use: another process changed its columns")


main(Failing, globals())
