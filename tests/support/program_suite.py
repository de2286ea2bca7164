#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by tests that run the programs: sets made at first use, runs, checks of results, and a main function."""
import contextlib
import hashlib
import importlib
import itertools
import os
import pwd
import re
import resource
import shutil
import subprocess
import sys
import tempfile

# Phase centres of made sets, in degrees.
VLA, MEERKAT, LOW = (60.0, 44.0), (60.0, -45.0), (0.05, -20.0)

# A program that hangs is ended after this time. The limit is generous, since a busy machine is slow.
GUARD_S = 120

# casacore in the tests needs it, and some batch systems do not set it.
os.environ.setdefault("HOME", tempfile.gettempdir())

# Names of sets that a shell, printf or cfitsio might read otherwise.
ODD_NAMES = ("with spaces.ms", "%s%n%d.ms", "[1:5].ms", "(x).ms", "!bang.ms", "'quotes\".ms", "a;b&c|d.ms", "ünïcödé.ms",
             "back\\slash.ms")


def run(program, *words, code=0, **options):
    """Run a program; end the test if its exit code is not the expected one. Returns the finished process."""
    done = subprocess.run([program, *[str(w) for w in words]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False, **options)
    if done.returncode != code:
        sys.exit("%s exits %d, not %d: %s" % (" ".join([os.path.basename(program), *[str(w) for w in words]]),
                                              done.returncode, code, done.stderr.decode(errors="replace")))
    return done


def skip_without(program):
    """End the test as skipped if a program is not installed."""
    if not shutil.which(program):
        print("skipped: %s is not installed" % program)
        sys.exit(77)


def skip_without_modules(*names):
    """End the test as skipped if a Python module cannot be imported."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as missing:
            print("skipped:", missing)
            sys.exit(77)


def python_with(module):
    """The Python that can import a module, or None."""
    for python in (sys.executable, *filter(None, os.environ.get("MSIMAGE_PEER_PYTHON", "").split(":"))):
        if subprocess.run([python, "-c", "import " + module], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          check=False).returncode == 0:
            return python
    print("%s: no Python has it, not compared" % module)
    return None


def sanitized(program):
    """Return whether it is built with AddressSanitizer, which needs shadow memory and one more process for its leak
    checker."""
    return b"libasan" in subprocess.run(["ldd", program], stdout=subprocess.PIPE, check=True).stdout


def may_trace():
    """Return whether strace is installed and may trace; print a line if not."""
    good = shutil.which("strace") and subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL,
                                                     check=False).returncode == 0
    if not good:
        print("skipped: strace is not installed, or may not trace", flush=True)
    return bool(good)


def fresh_copy(source, path):
    """Make a copy of a set; an existing one is replaced."""
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(source, path)
    return path


def files(path, but=("table.lock",)):
    """Every file of a set, except its lock file, with its content, mode and time of change."""
    found = {}
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            if name not in but:
                with open(file, "rb") as f:
                    s = os.stat(file)
                    found[os.path.relpath(file, path)] = (hashlib.sha256(f.read()).hexdigest(), s.st_mode, s.st_mtime_ns)
    return found


def change_modes(path, of_files, of_folders):
    """Set the modes of the files and directories of a set."""
    for folder, _, names in os.walk(path):
        os.chmod(folder, 0o755)
        for name in names:
            os.chmod(os.path.join(folder, name), of_files)
        os.chmod(folder, of_folders)


def as_other_user():
    """For preexec_fn: become a user without root's right to write everywhere. None if the test does not run as root."""
    if os.getuid() != 0:
        return None
    user = pwd.getpwnam("nobody")
    return lambda: (os.setgroups([]), os.setgid(user.pw_gid), os.setuid(user.pw_uid))


def with_small_files(most_bytes):
    """For preexec_fn: no file may grow larger, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))


class Suite:
    """A test's programs, its directory, and the number of failed checks."""
    guard_s = GUARD_S

    def __init__(self, msimage, makems, folder):
        self.msimage, self.makems, self.folder = msimage, makems, folder
        self.tried = self.failed = 0
        self.number = itertools.count()

    def path(self, name):
        return os.path.join(self.folder, name)

    def made(self, name, *options):
        """The path of a set, made by these options of msimage-makems when it is first needed."""
        path = self.path(name)
        if not os.path.exists(path):
            run(self.makems, "-quiet", *options, path)
        return path

    def made_at(self, name, centre_deg, options):
        """The same with a given phase centre."""
        ra, dec = centre_deg
        return self.made(name, "-j", 2, "-ra", "%.15gdeg" % ra, "-dec", "%.15gdeg" % dec, *options)

    @contextlib.contextmanager
    def where_others_have_access(self, what):
        """In this context msimage is a copy that as_other_user() can run, wherever the build lies. The working folder is one
        that this user can enter. Yields its path. Without such a folder, prints that the test is skipped and yields None."""
        why, msimage, options, before = "", self.msimage, os.environ.get("LSAN_OPTIONS"), os.getcwd()
        for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp")):
            if not os.path.isdir(base):
                continue
            with tempfile.TemporaryDirectory(dir=base) as folder:
                os.chmod(folder, 0o755)
                self.msimage = shutil.copy(msimage, folder)
                suppressed = re.search("suppressions=([^:]+)", options or "")
                if suppressed:
                    os.environ["LSAN_OPTIONS"] = options.replace(suppressed[1], shutil.copy(suppressed[1], folder))
                os.chdir(folder)
                try:
                    done = self.launch("-version", preexec_fn=as_other_user())
                    why = done.stderr
                except (OSError, subprocess.SubprocessError) as e:
                    why, done = str(e), None
                try:
                    if done and done.returncode == 0:
                        yield folder
                        return
                finally:
                    os.chdir(before)
                    self.msimage = msimage
                    if options is not None:
                        os.environ["LSAN_OPTIONS"] = options
        print("skipped: %s: another user cannot run a copy of the program: %s" % (what, why), flush=True)
        yield None

    def must(self, good, text):
        """Print a check, and count a failure unless it passed."""
        self.tried += 1
        self.failed += not good
        print(text + ("" if good else "  FAILED"), flush=True)

    def complain(self, text):
        self.failed += 1
        print("FAILED:", text, flush=True)

    def launch(self, *words, **options):
        """Run msimage, for at most guard_s seconds. Returns the finished process, with its output as text."""
        self.tried += 1
        try:
            return subprocess.run([self.msimage, *[str(w) for w in words]], stdout=subprocess.PIPE, timeout=self.guard_s,
                                  stderr=subprocess.PIPE, check=False, encoding="utf-8", errors="replace", **options)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, "no end", "", "msimage: error: no end in %d s\n" % self.guard_s)

    def told(self, title, done, code, pattern):
        """Did a quiet run exit with the code, and print one line of error with the pattern and nothing else?"""
        lines = done.stderr.splitlines()
        if done.returncode != code:
            self.complain("%s: exits %s, not %d: %s" % (title, done.returncode, code, done.stderr[-1500:]))
        elif len(lines) != 1 or not lines[0].startswith("msimage: error: "):
            self.complain("%s: not one line of error: %s" % (title, done.stderr[-1500:]))
        elif not re.search(pattern, lines[0]):
            self.complain("%s: /%s/ is not in: %s" % (title, pattern, lines[0]))
        if done.stdout:
            self.complain("%s: stdout: %s" % (title, done.stdout))


class ImagingSuite(Suite):
    """Runs of msimage in an output folder, which is empty before each."""

    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.out = self.path("out")
        os.mkdir(self.out)

    def launch(self, *words, **options):
        """Run the program in the output folder."""
        return super().launch(*words, cwd=self.out, **options)

    def refused(self, title, code, pattern, *words, **options):
        """Check for the exit code, one line with the pattern, nothing on stdout, and no new file."""
        self.judge_refusal(title, self.launch("-quiet", *words, **options), code, pattern)

    def judge_refusal(self, title, done, code, pattern):
        """The check of refused() for a finished quiet run; its files are removed."""
        self.told(title, done, code, pattern)
        left = os.listdir(self.out)
        for name in left:
            os.remove(os.path.join(self.out, name))
        if left:
            self.complain("%s: leaves %s" % (title, left))


def check_names(wanted):
    """End the test if a check would not run: if its name is used twice, or if it does not exist."""
    with open(sys.argv[0], encoding="utf-8") as f:
        defined = re.findall(r"^def check_(\w+)", f.read(), re.MULTILINE)
    lost = sorted({name for name in defined if defined.count(name) > 1} | set(wanted) - set(defined))
    if lost:
        sys.exit("not one check of this name: " + " ".join(lost))


def main(suite, names, if_named=()):
    """Run the functions check_X(suite) of a test, given its globals(): TEST MSIMAGE MSIMAGE_MAKEMS [X..]; without X all
    except those that run only if they are named."""
    programs, wanted = [os.path.abspath(p) for p in sys.argv[1:3]], sys.argv[3:]
    check_names(wanted)
    with tempfile.TemporaryDirectory() as folder:
        s = suite(*programs, folder)
        for name, check in list(names.items()):
            if name.startswith("check_") and (name[6:] in wanted if wanted else name[6:] not in if_named):
                before = sum(os.times()[:4])
                check(s)
                print("%s took %.1f s of processor" % (name, sum(os.times()[:4]) - before), flush=True)
        os.chdir("/")
        print("%d tried, %d failures" % (s.tried, s.failed))
    sys.exit(1 if s.failed else 0)
