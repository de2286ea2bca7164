# SPDX-License-Identifier: GPL-3.0-or-later
"""CASA's tclean as a function that runs the program msimage."""
import os
import shutil
import subprocess


def _literal(value):
    """Return a value as Python source; arrays and NumPy numbers become lists and numbers."""
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
    """Make images with the parameters of CASA's tclean; docs/from-casa.md lists what each parameter does in msimage.

    msimage: the program; by default the environment variable MSIMAGE, or the first msimage on the PATH. options: more words for
    its command line, such as ["-j", "8"]; they override the parameters. With imagename NAME the files are NAME-image.fits and so
    on. Returns the log of the program. If the program fails or refuses a parameter, raises RuntimeError with its error line."""
    program = msimage or os.environ.get("MSIMAGE") or shutil.which("msimage")
    if not program:
        raise RuntimeError("tclean: the program msimage is not on the PATH")
    call = "tclean(%s)" % ", ".join("%s=%s" % (name, _literal(value)) for name, value in parameters.items())
    done = subprocess.run([program, "-tclean", call, *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                          encoding="utf-8", errors="replace")
    if done.returncode:
        raise RuntimeError((done.stderr.strip() or "msimage ended with code %d" % done.returncode).splitlines()[-1])
    return done.stderr
