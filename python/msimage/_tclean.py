# SPDX-License-Identifier: GPL-3.0-or-later
"""CASA's tclean as a function: its parameters, run by the program msimage."""
import os
import shutil
import subprocess


def _literal(value):
    """A value as Python text: arrays and NumPy numbers become lists and numbers."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_literal(v) for v in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    raise TypeError("tclean: %r is neither a string, a number, a truth value nor a list of them" % (value,))


def tclean(*, msimage=None, options=(), **parameters):
    """Image as CASA's tclean with these parameters; docs/from-casa.md says what each of them does here.

    msimage: the program; by default that of the environment variable MSIMAGE, or the first on the PATH. options: more words of
    its command line, such as ["-j", "8"], which have precedence. Files are NAME-image.fits and so on for imagename NAME. Returns
    the program's log; raises RuntimeError with its line of error if it fails or refuses a parameter."""
    program = msimage or os.environ.get("MSIMAGE") or shutil.which("msimage")
    if not program:
        raise RuntimeError("tclean: the program msimage is not on the PATH")
    call = "tclean(%s)" % ", ".join("%s=%s" % (name, _literal(value)) for name, value in parameters.items())
    done = subprocess.run([program, "-tclean", call, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          encoding="utf-8", errors="replace")
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "msimage ended with code %d" % done.returncode).splitlines()[-1])
    return done.stderr
