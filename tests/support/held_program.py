#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that a test stops at chosen moments, and checks of their ends. Nothing depends on the clock."""
import contextlib
import fcntl
import os
import select
import signal
import subprocess
import time

from program_suite import GUARD_S

# A run ends within two seconds of a signal; a sanitizer's build is slower. The time by the clock depends on the
# machine's load, so the limit is applied to processor time, of which a thread cannot use more than has passed.
STOP_S, SLACK_S = 2.0, 0.5

# Time after a signal at which the watchdog ends a program that has not ended by itself.
WATCHDOG_S = 1.5

# Lines that are logged when the results have their final names, and not before.
PUBLISHED = ("wrote ", "predicted ")


def process_times(path):
    """Processor time of a process or thread, in seconds, from its stat file under /proc; None if it has ended."""
    try:
        with open(path, encoding="latin-1") as f:
            user, system = f.read().rpartition(")")[2].split()[11:13]
    except OSError:
        return None
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def group_of(leader):
    """The running processes of a group, without those that ended and were not waited for."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid, encoding="latin-1") as f:
                state, _, group = f.read().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state not in "ZX":
            found.append(int(pid))
    return found


def await_none_of(leader):
    """Wait until no process of a group runs; return whether this happened in time."""
    until = time.monotonic() + GUARD_S
    while group_of(leader):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def receive_all_signals():
    """For preexec_fn: reset ignored signals, as some are ignored if the tests run under nohup or in the background of a
    script."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)


class Held:
    """A program in its own session, whose progress the test controls. The pipe for its stderr has space for a single
    write. Until that is read, the program waits in its next write, so that it can be stopped at any line that it
    prints, even on a busy machine."""

    def __init__(self, command, **options):
        self.end_of_pipe, written = os.pipe2(os.O_CLOEXEC | os.O_DIRECT)
        fcntl.fcntl(written, fcntl.F_SETPIPE_SZ, 1)  # one page, and each write has its own pages
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=written,
                                        start_new_session=True, preexec_fn=receive_all_signals, **options)
        os.close(written)
        self.pid, self.text, self.held_line = self.process.pid, b"", None
        self.sent, self.watched, self.times_before = time.monotonic(), [], {}

    def is_written(self, wait_s=None):
        """Wait for data in the pipe; return whether there are any. False also at the end of stderr."""
        poll = select.poll()
        poll.register(self.end_of_pipe, select.POLLIN)
        return any(events & select.POLLIN for _, events in poll.poll(None if wait_s is None else 1000 * wait_s))

    def take(self):
        self.text += os.read(self.end_of_pipe, 1 << 16)

    def lines(self):
        return self.text.decode(errors="replace").splitlines()

    def has_ended(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def hold_at_line(self, number):
        """Wait until the program prints its line of this number, counted from 0, or has ended."""
        while self.is_written():
            if self.text.count(b"\n") == number:
                self.held_line = number
                return
            self.take()

    def hold_after_line(self, beginning):
        """Wait until the program prints the line after one with this beginning, or has ended."""
        while self.is_written() and not (self.text.endswith(b"\n") and self.lines()[-1].startswith(beginning)):
            self.take()

    def run_for(self, processor_s):
        """Wait until the program has used this much processor time since its start, or has ended."""
        self.held_line = None
        while not self.has_ended() and self.processor_so_far() < processor_s:
            if self.is_written(0.002):
                self.take()

    def processor_so_far(self):
        return process_times("/proc/%d/stat" % self.pid) or 0

    def send(self, number, to_group=False):
        self.sent = time.monotonic()
        (os.killpg if to_group else os.kill)(self.pid, number)  # not waited for, so it still exists
        self.watched = [self.pid, *group_of(self.pid)]
        self.times_before = self.thread_times()

    def thread_times(self):
        times = {}
        for pid in self.watched:
            with contextlib.suppress(OSError):
                for thread in os.listdir("/proc/%d/task" % pid):
                    times[thread] = process_times("/proc/%d/task/%s/stat" % (pid, thread)) or 0
        return times

    def end(self):
        """Continue to the end. Returns the exit code as in subprocess, or "no end". Sets text; took_s since the signal
        or the start, for information; thread_s, the largest processor time of a thread since the signal;
        processor_s."""
        code, began, self.thread_s = None, time.monotonic(), 0
        while not self.has_ended():
            if self.is_written(0.02):
                self.take()
            if self.watched:
                self.thread_s = max([self.thread_s, *(used - self.times_before.get(thread, 0)
                                                      for thread, used in self.thread_times().items())])
            if self.watched and time.monotonic() > began + GUARD_S:
                code = "no end"
                os.killpg(self.pid, signal.SIGKILL)
                break
        self.took_s = time.monotonic() - self.sent
        self.processor_s = self.processor_so_far()
        while self.is_written(GUARD_S):
            self.take()
        os.close(self.end_of_pipe)
        self.process.wait()
        return code or self.process.returncode

    def errors(self):
        return [line for line in self.lines() if line.startswith("msimage: error: ")]

    def was_published(self):
        """Whether, where the program was held, the results had their final names: True, False, or None if it was not
        held."""
        if self.held_line is None:
            return None
        return any(line.startswith(PUBLISHED) for line in self.lines()[:self.held_line + 1])

    def stopped_well(self, code, number):
        """Return whether a run after a signal ended validly: with one error line, complete, or before it began."""
        is_late = self.took_s >= WATCHDOG_S
        told = all(line.startswith("msimage: error: stopped by signal %d" % number) for line in self.errors())
        if code == -number:
            # The program had no handler yet, because its libraries were being loaded; it has done nothing.
            good = not self.text
        elif code == 128 + number:
            # The watchdog may print the error instead of the main thread.
            good = told and 1 <= len(self.errors()) <= 1 + is_late and (is_late or not self.was_published())
        else:
            good = code == 0 and not self.errors() and self.was_published() is not False
        return good and self.thread_s < STOP_S + SLACK_S


def in_lines(process):
    """Places at which to disturb runs, derived from a complete one: names, and functions that bring a run there. Before
    it has begun, and at every line up to that of the first file with its final name."""
    yield "at once", lambda run: None
    for i, line in enumerate(process.lines()):
        yield "in line %d, '%.12s'" % (i, line), lambda run, i=i: run.hold_at_line(i)
        if line.startswith(PUBLISHED):
            break
