# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of msimage-mp by Open MPI's mpirun, all ranks on this machine. Ends a test as skipped where either is missing."""
import os
import shutil
import subprocess
import sys

from program_suite import GUARD_S

# Ranks may be more than cores; a container may forbid one process to copy from another's memory; there need be no ssh.
VARIABLES = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
             "OMPI_MCA_plm": "isolated", "OMPI_MCA_btl": "self,vader", "OMPI_MCA_orte_tmpdir_base": "/tmp",
             "OMPI_MCA_rmaps_base_oversubscribe": "1",
             # What MPI's libraries leave is not msimage's.
             "ASAN_OPTIONS": "detect_leaks=0"}


def program(msimage):
    """The path of msimage-mp, where it can be run."""
    path = os.path.join(os.path.dirname(msimage), "msimage-mp")
    if not os.path.exists(path):
        print("skipped: msimage-mp is not built: there is no MPI")
        sys.exit(77)
    mpirun = shutil.which("mpirun")
    version = subprocess.run([mpirun, "--version"], stdout=subprocess.PIPE, check=False).stdout if mpirun else b""
    if b"Open MPI" not in version:
        print("skipped: Open MPI's mpirun is not installed")
        sys.exit(77)
    return path


def words(n, *command):
    """The command line of a job of n ranks."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--quiet", "-n", str(n),
            *[str(w) for w in command]]


def environment(**more):
    return {**os.environ, **VARIABLES, **more}


def run(n, *command, **options):
    """A job that has ended, in two minutes at most; what it printed is text."""
    try:
        return subprocess.run(words(n, *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=environment(), timeout=GUARD_S, check=False, encoding="utf-8", errors="replace", **options)
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(command, "no end", "", str(e))
