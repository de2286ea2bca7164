#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_signals.py MSIMAGE MSIMAGE_MAKEMS [huge]: interrupted runs stop in time and leave nothing; killed ones leave no
partial file under a final name, whether a thread reads or processes do; the set is never written to, and may be read-only. With `huge`, images whose single
transforms take seconds."""
import os
import shutil
import signal
import subprocess
import sys
import time

from image_oracle import load, relative_error
from program_suite import SLACK_S, STOP_S, Suite, as_nobody, change_modes, files, main, run

START_S = 0.1

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-spw", "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy", "0.3Jy",
       "-0.2Jy", "0.1Jy"]


class Run:
    def __init__(self, s, words):
        self.command = [s.msimage, "-quiet", *[str(w) for w in words], "-name", "image", s.made("set.ms", *SET)]
        self.out = s.path("out")
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def start(self):
        return subprocess.Popen(self.command, cwd=self.out, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def left(self):
        return sorted(os.listdir(self.out))

    def clear(self):
        for name in self.left():
            os.remove(os.path.join(self.out, name))


def timed(work):
    """Seconds of an undisturbed run, and its images."""
    began = time.monotonic()
    process = work.start()
    error = process.communicate()[1].decode()
    if process.returncode:
        sys.exit("the undisturbed run exits %d: %s" % (process.returncode, error))
    images = {name: load(os.path.join(work.out, name))[0] for name in work.left()}
    work.clear()
    return time.monotonic() - began, images


def interrupt(s, work, number, delay_s):
    process = work.start()
    time.sleep(delay_s)
    sent = time.monotonic()
    process.send_signal(number)
    error = process.communicate()[1].decode()
    took = time.monotonic() - sent
    left = work.left()
    if process.returncode == 0:
        # It was done before the signal came.
        good = took < STOP_S + SLACK_S
    else:
        last = error.splitlines()[-1] if error else ""
        good = (process.returncode == 128 + number and took < STOP_S + SLACK_S and not left and
                last.startswith("msimage: error: stopped by signal %d" % number) and error.count("error:") == 1)
        # Libraries are being loaded, and the program has not begun.
        good |= process.returncode == -number and delay_s < START_S and not left and not error
    work.clear()
    s.note(good, "%s after %.2f s: exits %d, %.2f s later, %d files%s" %
           (signal.Signals(number).name, delay_s, process.returncode, took, len(left),
            "" if process.returncode == 128 + number else ": " + error[-300:] if error else ""))


def kill(s, work, delay_s, images):
    """Whatever has its final name must be whole; temporaries may stay, and must not stand in the way of the next run."""
    process = work.start()
    time.sleep(delay_s)
    process.kill()
    process.communicate()
    bad = [name for name in work.left() if not name.startswith(".") and
           not relative_error(load(os.path.join(work.out, name))[0], images[name]) < 1e-5]
    s.note(not bad, "SIGKILL after %.2f s: %s" % (delay_s, " ".join(work.left()) or "no file"))


def stop(s, words, steps):
    work = Run(s, words)
    whole_s, images = timed(work)
    for step in range(steps):
        delay_s = whole_s * (step + 0.5) / steps
        for number in (signal.SIGINT, signal.SIGTERM):
            interrupt(s, work, number, delay_s)
    interrupt(s, work, signal.SIGHUP, whole_s / 2)
    for step in range(2 * steps):
        kill(s, work, whole_s * (step + 0.5) / (2 * steps), images)
        for name in work.left():
            if not name.startswith("."):
                os.remove(os.path.join(work.out, name))
    process = work.start()
    error = process.communicate()[1].decode()
    s.note(process.returncode == 0, "a run beside what killed ones left: exits %d %s" %
           (process.returncode, error[-300:] if process.returncode else ""))


def check_signals(s):
    stop(s, ["-size", 1024, 1024, "-scale", "2asec", "-pol", "IQUV", "-make-psf"], 6)


def check_readers(s):
    stop(s, ["-size", 1024, 1024, "-scale", "2asec", "-pol", "IQUV", "-readers", 3], 4)


def check_closed_files(s):
    """Started without standard files: what is printed goes nowhere, and into no file or socket that has their number."""
    words = ["-size", 128, 128, "-scale", "4asec", "-backend", "cpu", "-readers"]
    _, images = timed(Run(s, words + [1]))
    for n in (1, 3):
        for closed in (">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"):
            work = Run(s, words + [n])
            work.command.remove("-quiet")
            code = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh", *work.command], cwd=work.out, check=False).returncode
            good = work.left() == sorted(images) and all((load(os.path.join(work.out, name))[0] == image).all()
                                                         for name, image in images.items())
            s.note(code == 0 and good, "%d readers, %s: exits %d, %s" % (n, closed, code, " ".join(work.left())))
            work.clear()


def check_huge(s):
    stop(s, ["-size", 12288, 12288, "-scale", "0.8asec", "-accuracy", 1e-6], 3)


def check_read_only(s):
    """A set that nobody may write to is imaged, and none of its bytes, modes or times change."""
    words, ms = ["-size", 128, 128, "-scale", "4asec", "-pol", "IQUV", "-make-psf"], s.made("set.ms", *SET)
    work = Run(s, words)
    before = files(ms, but=())
    _, images = timed(work)
    s.note(files(ms, but=()) == before, "the set after imaging: %d files as before" % len(before))
    run(s.msimage, "-quiet", *words, "-dry-run", ms)
    s.note(files(ms, but=()) == before, "the set after a dry run")
    change_modes(ms, 0o444, 0o555)
    before = files(ms, but=())
    os.chmod(work.out, 0o777)
    os.chmod(s.folder, 0o755)
    done = subprocess.run(work.command, cwd=work.out, stderr=subprocess.PIPE, check=False, preexec_fn=as_nobody())
    good = done.returncode == 0 and work.left() == sorted(images) and files(ms, but=()) == before
    s.note(good, "a read-only set: exits %d %s" % (done.returncode, done.stderr.decode()))
    change_modes(ms, 0o644, 0o755)


main(Suite, globals(), if_named=("huge",))
