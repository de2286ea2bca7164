#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_signals.py MSIMAGE MSIMAGE_MAKEMS [huge]: interrupted runs stop in time and leave no files; killed ones leave no
partial file under a final name, with one or several readers; the set is never changed, and may be read-only. With `huge`,
images whose single transforms take seconds."""
import os
import shutil
import signal
import subprocess
import sys

from held_program import WATCHDOG_S, Held, in_lines
from image_oracle import load, relative_error
from program_suite import Suite, as_other_user, change_modes, files, main, may_trace, run

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-spw", "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy", "0.3Jy",
       "-0.2Jy", "0.1Jy"]
# System calls by which complete files are synced and get their names.
CALLS = ("fsync", "renameat2")


class Run:
    def __init__(self, s, words):
        self.command = [s.msimage, "-verbose", *[str(w) for w in words], "-name", "image", s.made("set.ms", *SET)]
        self.out = s.path("out")
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def start(self, *before, **variables):
        return Held([*before, *self.command], cwd=self.out, env={**os.environ, **variables})

    def left(self):
        return sorted(os.listdir(self.out))

    def clear(self):
        for name in self.left():
            os.remove(os.path.join(self.out, name))

    def content(self, name):
        """The pixels of an image. For the table of major cycles, which has seconds, the number of fields in each row and the
    end."""
        path = os.path.join(self.out, name)
        if name.endswith(".fits"):
            return load(path)[0]
        with open(path) as table:
            rows = [line.rstrip("\n").split(",") for line in table]
        return [len(row) for row in rows] + [rows[-1][rows[0].index("stop")]]

    def is_whole(self, name, wanted):
        content = self.content(name)
        return content == wanted if isinstance(wanted, list) else relative_error(content, wanted) < 1e-5

    def partial(self, images):
        """Final names whose file differs from that of an undisturbed run."""
        return [name for name in self.left() if not name.startswith(".") and not self.is_whole(name, images[name])]


def undisturbed(work):
    """An undisturbed run, and its files."""
    process = work.start()
    if process.end():
        sys.exit("the undisturbed run fails: %s" % process.text.decode())
    images = {name: work.content(name) for name in work.left()}
    work.clear()
    return process, images


def moments(process, steps):
    """The moments to disturb runs like this one: at lines of the log, and after parts of the processor time."""
    yield from in_lines(process)
    for step in range(steps):
        processor_s = process.processor_s * (step + 0.5) / steps
        yield "after %.2f s of processor" % processor_s, lambda run, t=processor_s: run.run_for(t)


def judge(s, work, process, code, number, images, title):
    left, partial = work.left(), work.partial(images)
    # The watchdog may end the run when some images have their names.
    wanted = sorted(images) if code == 0 else left if process.took_s >= WATCHDOG_S else []
    good = process.stopped_well(code, number) and left == wanted and not partial
    good &= not any(name.startswith(".") for name in left)
    work.clear()
    s.must(good, "%s %s: exits %s, %.2f s later and %.2f s of processor, %d files%s" %
           (signal.Signals(number).name, title, code, process.took_s, process.thread_s, len(left),
            "" if good else ": " + process.text.decode()[-300:]))


def interrupt(s, work, number, moment, images):
    title, bring = moment
    process = work.start()
    bring(process)
    process.send(number)
    code = process.end()
    judge(s, work, process, code, number, images, title)
    return code == 128 + number


def kill(s, work, moment, images):
    """Files with final names must be complete; temporary files may remain, and must not prevent the next run."""
    title, bring = moment
    process = work.start()
    bring(process)
    process.send(signal.SIGKILL)
    code = process.end()
    s.must(not work.partial(images) and code in (0, -signal.SIGKILL),
           "SIGKILL %s: %s" % (title, " ".join(work.left()) or "no file"))


def stop(s, words, steps):
    work = Run(s, words)
    process, images = undisturbed(work)
    disturbed = list(moments(process, steps))
    numbers = (signal.SIGINT, signal.SIGTERM)
    hit = sum(interrupt(s, work, numbers[i % 2], moment, images) for i, moment in enumerate(disturbed))
    others = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGXCPU)
    for i, number in enumerate(others):
        hit += interrupt(s, work, number, disturbed[len(disturbed) * (i + 1) // (len(others) + 2)], images)
    s.must(hit > len(disturbed) // 3, "%d of %d signals stopped a run" % (hit, len(disturbed) + len(others)))
    for moment in disturbed[::-2]:
        kill(s, work, moment, images)
        for name in work.left():
            if not name.startswith("."):
                os.remove(os.path.join(work.out, name))
    process = work.start()
    code = process.end()
    s.must(code == 0, "a run among files that killed runs left: exits %s %s" % (code, process.text.decode()[-300:] if code else ""))


def check_signals(s):
    stop(s, ["-size", 512, 512, "-scale", "4asec", "-pol", "IQUV", "-make-psf"], 6)


def check_cleaning(s):
    stop(s, ["-interval", 0, 4, "-size", 256, 256, "-scale", "8asec", "-niter", 300, "-gain", 0.02, "-mgain", 0.5, "-threshold", 0.001,
             "-no-update-model-required"], 4)


def check_readers(s):
    stop(s, ["-size", 512, 512, "-scale", "4asec", "-pol", "IQUV", "-readers", 3], 4)


def check_calls(s):
    """Signals during system calls."""
    if not may_trace():
        return
    # LeakSanitizer itself needs to trace; and the traced program need not restart itself.
    variables = {"ASAN_OPTIONS": "detect_leaks=0", "OMP_WAIT_POLICY": "passive"}
    # One thread, because calls are counted for each thread.
    work = Run(s, ["-size", 128, 128, "-scale", "16asec", "-pol", "IQUV", "-make-psf", "-backend", "cpu", "-j", 1])
    _, images = undisturbed(work)
    for call in CALLS:
        trace = s.path("trace")
        if work.start("strace", "-o", trace, "-e", "trace=" + call, **variables).end():
            sys.exit("a traced run fails")
        work.clear()
        with open(trace, encoding="utf-8", errors="replace") as f:
            n_call = sum(line.startswith(call + "(") for line in f)
        # NAME-image.fits is a second name of the dirty image.
        n_image = sum(not name.endswith("-image.fits") for name in images)
        s.must(n_call >= n_image, "%d calls of %s for %d images" % (n_call, call, n_image))
        for i in range(1, n_call + 1):
            for number in (signal.SIGTERM, signal.SIGKILL):
                process = work.start("strace", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e",
                                     "inject=%s:signal=%s:when=%d" % (call, number.name, i), **variables)
                code, title = process.end(), "in %s %d" % (call, i)
                if number == signal.SIGTERM:
                    judge(s, work, process, code, number, images, title)
                else:
                    s.must(code == -number and not work.partial(images), "SIGKILL %s: exits %s, %s" %
                           (title, code, " ".join(work.left()) or "no file"))
                    work.clear()


def check_nohup(s):
    """Under nohup a run outlives its terminal; the other signals still stop it."""
    work = Run(s, ["-size", 256, 256, "-scale", "8asec", "-backend", "cpu", "-readers", 2])
    process, images = undisturbed(work)
    for number, code in ((signal.SIGHUP, 0), (signal.SIGTERM, 128 + signal.SIGTERM)):
        held = work.start("nohup")
        held.hold_at_line(len(process.lines()) // 2)
        held.send(number, to_group=number == signal.SIGHUP)
        exits = held.end()
        good = exits == code and work.left() == (sorted(images) if code == 0 else []) and not work.partial(images)
        s.must(good, "%s under nohup: exits %s, %s" % (number.name, exits, " ".join(work.left()) or "no file"))
        work.clear()


def check_closed_files(s):
    """Started without standard files: output is discarded, and does not go to a file or socket with their numbers."""
    words = ["-size", 128, 128, "-scale", "4asec", "-backend", "cpu", "-readers"]
    _, images = undisturbed(Run(s, words + [1]))
    for n in (1, 3):
        for closed in (">&- 2>&-", "<&- 2>&-", "<&- >&- 2>&-"):
            work = Run(s, words + [n])
            code = subprocess.run(["sh", "-c", 'exec "$@" ' + closed, "sh", *work.command], cwd=work.out, check=False).returncode
            good = work.left() == sorted(images) and all((load(os.path.join(work.out, name))[0] == image).all()
                                                         for name, image in images.items())
            s.must(code == 0 and good, "%d readers, %s: exits %d, %s" % (n, closed, code, " ".join(work.left())))
            work.clear()


    # A file of standard output or of errors that may not grow ends no program by SIGXFSZ.
    for words, limit, code in (("-help", "ulimit -f 0; exec \"$@\" > out", 4), ("-size 5", "ulimit -f 0; exec \"$@\" 2> err", 2)):
        work = Run(s, [])
        got = subprocess.run(["sh", "-c", limit, "sh", s.msimage, *words.split()], cwd=work.out, stderr=subprocess.DEVNULL, check=False)
        s.must(got.returncode == code, "%s, %s: exits %d" % (words, limit, got.returncode))
        work.clear()


def check_huge(s):
    stop(s, ["-size", 12288, 12288, "-scale", "0.8asec", "-accuracy", 1e-6], 3)


def check_read_only(s):
    """A read-only set is imaged, and its bytes, modes and times do not change."""
    words, ms = ["-size", 128, 128, "-scale", "4asec", "-pol", "IQUV", "-make-psf"], s.made("set.ms", *SET)
    work = Run(s, words)
    before = files(ms, but=())
    _, images = undisturbed(work)
    s.must(files(ms, but=()) == before, "the set after imaging: %d files as before" % len(before))
    run(s.msimage, "-quiet", *words, "-dry-run", ms)
    s.must(files(ms, but=()) == before, "the set after a dry run")
    with s.where_others_have_access("a read-only set") as folder:
        if not folder:
            return
        ms = shutil.copytree(ms, os.path.join(folder, "set.ms"))
        change_modes(ms, 0o444, 0o555)
        before = files(ms, but=())
        os.mkdir("out")
        os.chmod("out", 0o777)
        done = s.launch("-quiet", *words, "-name", "out/image", ms, preexec_fn=as_other_user())
        good = done.returncode == 0 and sorted(os.listdir("out")) == sorted(images) and files(ms, but=()) == before
        s.must(good, "a read-only set: exits %s %s" % (done.returncode, done.stderr))
        change_modes(ms, 0o644, 0o755)


main(Suite, globals(), if_named=("huge",))
