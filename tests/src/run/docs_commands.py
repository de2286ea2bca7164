#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs_commands.py MSIMAGE MSIMAGE_MAKEMS ROOT: runs every command of msimage's programs in README and docs.

The commands are the indented lines that start with a program's name. Those of one document run in order in one folder. Sets that a
document takes for given are simulated, so that sizes, pixels and selections fit them. performance.md is left out: its sets take
gigabytes.
"""
import glob
import os
import re
import shlex
import subprocess
import sys
import tempfile

from casacore.tables import table

PROGRAMS = ("msimage", "msimage-makems", "msimage-convert", "msimage-png")
SOUTH = ["-telescope", "meerkat", "-ra", "128deg", "-dec", "-40deg", "-duration", "1min", "-integration", "20s"]
NORTH = ["-telescope", "vla", "-duration", "2min", "-integration", "4s"]
SETS = {
    "mwa-puppis-a.ms": [*SOUTH, "-spw", "150MHz", "1MHz", "4"],
    "hd142527.ms": [*NORTH, "-spw", "300GHz", "100MHz", "4"],
    "ss433.ms": [*NORTH, "-spw", "300GHz", "100MHz", "4"],
    "your.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16"],
    "large.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16"],
    "all.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16", "-data-column", "both"],
    "night1.ms": NORTH,
    "night2.ms": [*NORTH, "-start-time", "2024-01-31T12:34:56"],
}


def commands(path):
    """The commands of a document, each as one line."""
    with open(path, encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    for line in re.findall(r"^    (\S.*)$", text, re.M):
        if line.split()[0] in PROGRAMS and "[" not in line:
            yield line


def make_inputs(line):
    """Make the sets and files that a command reads, unless an earlier command made them."""
    words = shlex.split(line, comments=True)
    for name in words[1:]:
        if name in SETS and not os.path.exists(name) and words[0] != "msimage-makems":
            subprocess.run(["msimage-makems", "-quiet", *SETS[name], name], check=True)
            with table(name + "::FIELD", readonly=False, ack=False) as field:
                field.putcell("NAME", 0, "3C286")
        if name == "sky.txt":
            with open(name, "w", encoding="ascii") as f:
                f.write("Format = Name, Type, Ra, Dec, I\na, POINT, 04:00:00, 44.00.00, 1\n")
        if name == "archive.uvfits" and not os.path.exists(name):
            make_inputs("msimage-convert night1.ms")
            subprocess.run(["msimage-convert", "night1.ms", name], check=True, stderr=subprocess.DEVNULL)


def main():
    msimage, root = sys.argv[1], os.path.abspath(sys.argv[3])
    os.environ["PATH"] = os.path.dirname(os.path.abspath(msimage)) + ":" + os.environ["PATH"]
    tried = failed = 0
    docs = [path for path in sorted(glob.glob(os.path.join(root, "docs", "*.md"))) if not path.endswith("performance.md")]
    for path in [os.path.join(root, "README.md"), *docs]:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for line in commands(path):
                make_inputs(line)
                done = subprocess.run(["sh", "-c", line], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
                tried += 1
                failed += done.returncode != 0
                if done.returncode:
                    print("%s: %s\n  exits %d: %s" % (os.path.basename(path), line, done.returncode,
                                                      done.stderr.decode(errors="replace")[-300:]))
            os.chdir("/")
    print("%d commands of the documents, %d failures" % (tried, failed))
    sys.exit(failed > 0 or tried < 20)


main()
