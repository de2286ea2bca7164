#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_signals.py MSIMAGE MSIMAGE_MAKEMS [huge]: interrupted runs stop in time and leave nothing; killed ones leave no
partial file under a final name; the set is never written to, and may be read-only. With `huge`, images whose single
transforms take seconds."""
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from image_oracle import load, relative_error, run

# Two seconds are promised; a sanitizer's build is slower, and a busy machine is late to wake processes.
STOP_S = 2.0
SLACK_S = 0.5

SET = ["-quiet", "-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-spw", "882.75MHz", "53.5MHz", "16", "-weight-spectrum", "none", "-source", "60.1deg", "-45.1deg", "1Jy", "0.3Jy",
       "-0.2Jy", "0.1Jy"]


class Run:
    def __init__(self, msimage, folder, ms, words):
        self.command = [msimage, *[str(w) for w in words], "-name", "image", ms]
        self.out = os.path.join(folder, "out")
        shutil.rmtree(self.out, ignore_errors=True)
        os.mkdir(self.out)

    def start(self):
        return subprocess.Popen(self.command, cwd=self.out, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def left(self):
        return sorted(os.listdir(self.out))

    def clear(self):
        for name in self.left():
            os.remove(os.path.join(self.out, name))


def hashes(path):
    """Every file of a set with its content, mode and time of change."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            with open(file, "rb") as f:
                s = os.stat(file)
                found[file] = (hashlib.sha256(f.read()).hexdigest(), s.st_mode, s.st_mtime_ns, s.st_size)
    return found


def note(good, text):
    print(text + ("" if good else "  FAILED"))
    return 0 if good else 1


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


def interrupt(work, number, delay_s):
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
    work.clear()
    return note(good, "%s after %.2f s: exits %d, %.2f s later, %d files%s" %
                (signal.Signals(number).name, delay_s, process.returncode, took, len(left),
                 "" if process.returncode == 128 + number else ": " + error[-300:] if error else ""))


def kill(work, delay_s, images):
    """Whatever has its final name must be whole; temporaries may stay, and must not stand in the way of the next run."""
    process = work.start()
    time.sleep(delay_s)
    process.kill()
    process.communicate()
    bad = [name for name in work.left() if not name.startswith(".") and
           not relative_error(load(os.path.join(work.out, name))[0], images[name]) < 1e-5]
    return note(not bad, "SIGKILL after %.2f s: %s" % (delay_s, " ".join(work.left()) or "no file"))


def check_signals(msimage, folder, ms, words, steps):
    work = Run(msimage, folder, ms, words)
    whole_s, images = timed(work)
    failed = 0
    for step in range(steps):
        delay_s = whole_s * (step + 0.5) / steps
        for number in (signal.SIGINT, signal.SIGTERM):
            failed += interrupt(work, number, delay_s)
    failed += interrupt(work, signal.SIGHUP, whole_s / 2)
    for step in range(2 * steps):
        failed += kill(work, whole_s * (step + 0.5) / (2 * steps), images)
        for name in work.left():
            if not name.startswith("."):
                os.remove(os.path.join(work.out, name))
    process = work.start()
    error = process.communicate()[1].decode()
    failed += note(process.returncode == 0, "a run beside what killed ones left: exits %d %s" %
                   (process.returncode, error[-300:] if process.returncode else ""))
    return failed


def check_read_only(msimage, folder, ms):
    """A set that nobody may write to is imaged, and none of its bytes, modes or times change."""
    words = ["-quiet", "-size", 128, 128, "-scale", "4asec", "-pol", "IQUV", "-make-psf"]
    work = Run(msimage, folder, ms, words)
    before = hashes(ms)
    _, images = timed(work)
    failed = note(hashes(ms) == before, "the set after imaging: %d files as before" % len(before))
    run(msimage, *words, "-dry-run", ms)
    failed += note(hashes(ms) == before, "the set after a dry run")
    for path, _, names in os.walk(ms):
        for name in names:
            os.chmod(os.path.join(path, name), 0o444)
        os.chmod(path, 0o555)
    before = hashes(ms)
    nobody = None
    if os.getuid() == 0:
        # Root may write everywhere: be somebody who may not.
        user = pwd.getpwnam("nobody")
        nobody = lambda: (os.setgroups([]), os.setgid(user.pw_gid), os.setuid(user.pw_uid))
        os.chmod(work.out, 0o777)
        os.chmod(folder, 0o755)
    done = subprocess.run(work.command, cwd=work.out, stderr=subprocess.PIPE, check=False, preexec_fn=nobody)
    good = done.returncode == 0 and work.left() == sorted(images) and hashes(ms) == before
    failed += note(good, "a read-only set: exits %d %s" % (done.returncode, done.stderr.decode()))
    for path, _, _ in os.walk(ms):
        os.chmod(path, 0o755)
    return failed


def main():
    msimage, makems = [os.path.abspath(p) for p in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        ms = os.path.join(folder, "set.ms")
        run(makems, *SET, ms)
        if sys.argv[3:] == ["huge"]:
            words = ["-quiet", "-size", 12288, 12288, "-scale", "0.8asec", "-accuracy", 1e-6]
            failed = check_signals(msimage, folder, ms, words, 3)
        else:
            words = ["-quiet", "-size", 1024, 1024, "-scale", "2asec", "-pol", "IQUV", "-make-psf"]
            failed = check_signals(msimage, folder, ms, words, 6)
            failed += check_read_only(msimage, folder, ms)
    sys.exit(1 if failed else 0)


main()
