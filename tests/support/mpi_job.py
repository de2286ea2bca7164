# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of msimage-mp, all ranks on this machine, by mpirun of Open MPI or mpiexec of MPICH, whichever it is linked with. Ends
a test as skipped where either is missing."""
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from held_program import Held, await_none_of
from program_suite import GUARD_S

# Allow more ranks than cores; do not copy from another process's memory, which a container may forbid; do not need ssh.
VARIABLES = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
             "OMPI_MCA_plm": "isolated", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_orte_tmpdir_base": "/tmp",
             "OMPI_MCA_rmaps_base_oversubscribe": "1",
             # Leaks of MPI's libraries are ignored.
             "ASAN_OPTIONS": "detect_leaks=0"}


# How jobs are started; program() chooses.
OPEN_MPI = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet"]
LAUNCH = []

# In a shell, the rank.
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"


def program(msimage):
    """The path of msimage-mp, if it can be run."""
    path = os.path.join(os.path.dirname(msimage), "msimage-mp")
    if not os.path.exists(path):
        print("skipped: msimage-mp is not built: there is no MPI")
        sys.exit(77)
    linked = subprocess.run(["ldd", path], stdout=subprocess.PIPE, check=True).stdout
    if b"libmpich" in linked:
        LAUNCH[:] = ["mpiexec.hydra"]
    else:
        LAUNCH[:] = ["mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun", *OPEN_MPI]
    if not shutil.which(LAUNCH[0]):
        print("skipped: %s is not installed" % LAUNCH[0])
        sys.exit(77)
    return path


def words(n, *command):
    """The command line of a job of n ranks."""
    return [*LAUNCH, "-n", str(n), *[str(w) for w in command]]


def stopped_codes(number):
    """The exit codes of a job that was ended by a signal to a rank or to the launcher. After a signal, MPICH's mpiexec
    ends with 0, with the code of the first rank, or with the signal by which it kills the remaining ranks, depending on
    which it sees first."""
    if LAUNCH[0] != "mpiexec.hydra":
        return (128 + number,) if number == signal.SIGKILL else (1, 128 + number)
    return (number,) if number == signal.SIGKILL else (0, 128 + number, signal.SIGKILL)


def environment(**more):
    return {**os.environ, **VARIABLES, **more}


def run(n, *command, **options):
    """Run a job, for at most two minutes; its output is text."""
    try:
        return subprocess.run(words(n, *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment(), timeout=GUARD_S, check=False, encoding="utf-8", errors="replace", **options)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(command, "no end", "", str(e))


# The start of each rank: it writes its process number to a file. The lines of the first one go into the pipe, each in a
# separate write.
BEGINNING = """
import fcntl, os, sys
rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
with open("pid" + rank, "w") as f:
    f.write(str(os.getpid()))
if rank == "0":
    lines = os.open("lines", os.O_WRONLY)
    fcntl.fcntl(lines, fcntl.F_SETFL, os.O_DIRECT)
    os.dup2(lines, 2)
os.chdir(sys.argv[1])
os.execv(sys.argv[2], sys.argv[2:])
"""


class Job(Held):
    """A job whose first rank can be stopped at any line that it prints, and whose ranks can be ended."""

    def __init__(self, n, *command):
        self.n, self.folder = n, tempfile.mkdtemp(dir=os.path.dirname(os.getcwd()))
        os.mkfifo(os.path.join(self.folder, "lines"))
        self.end_of_pipe = os.open(os.path.join(self.folder, "lines"), os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self.end_of_pipe, fcntl.F_SETPIPE_SZ, 1)
        self.process = subprocess.Popen(words(n, sys.executable, "-c", BEGINNING, os.getcwd(), *command), env=environment(),
                                        cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.pid, self.text, self.held_line, self.watched = self.process.pid, b"", None, []

    def is_written(self, wait_s=None):
        return super().is_written(GUARD_S if wait_s is None else wait_s)

    def rank(self, k):
        with open(os.path.join(self.folder, "pid%d" % k)) as f:
            return int(f.read())

    def says(self, beginning):
        return any(line.startswith(beginning) for line in self.lines())

    def end_at(self, beginning, victim, number, last=None):
        """Send a signal to a rank, or to mpirun (None), while rank 0 is stopped after the line with this beginning; or,
        if rank 0 shall continue to its last line without the other rank, which is stopped there, after that. Returns
        whether the line was reached, and the exit code of mpirun, which ends before rank 0 continues."""
        self.hold_after_line(beginning)
        if last and self.says(beginning):
            os.kill(self.rank(victim), signal.SIGSTOP)
            while not self.says(last) and self.is_written():
                self.take()
        there = self.says(last or beginning)
        if there:
            os.kill(self.pid if victim is None else self.rank(victim), number)
        code = self.process.wait(GUARD_S)
        return self.has_ended_all() and there, code

    def stop_after(self, beginning, number):
        """Like end_at, but send the signal to mpirun and let rank 0 continue."""
        self.hold_after_line(beginning)
        there = self.says(beginning)
        os.kill(self.pid, number)
        until = time.monotonic() + GUARD_S
        while self.process.poll() is None and time.monotonic() < until:
            if self.is_written(0.02):
                self.take()
        return self.has_ended_all() and there, self.process.returncode

    def has_ended_all(self):
        """Read the rest of the pipe when the job has ended; return whether no rank is left."""
        while self.is_written(0):
            self.take()
        os.close(self.end_of_pipe)
        ended = all(await_none_of(self.rank(k)) for k in range(self.n))  # mpirun puts each into its own group
        shutil.rmtree(self.folder)
        return ended
