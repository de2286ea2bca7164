#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs_commands.py MSIMAGE MSIMAGE_MAKEMS ROOT [DOCUMENT..]: runs every command of msimage's programs in README and docs.

The commands are the indented lines that start with a program's name. Those of one document run in order in one folder. Sets that a
document takes for given are simulated, so that sizes, pixels and selections fit them. performance.md is left out: its sets take
gigabytes. In recipes.md commands of other programs run too where these are installed, sbatch is the shell, and blocks of Python run
where there is astropy; its results are compared with the sky that was simulated.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from casacore.tables import table

OTHERS = ("wsclean", "DP3", "goquartical", "sbatch")
LARGEST = 256
PROGRAMS = ("msimage", "msimage-makems", "msimage-convert", "msimage-mosaic", "msimage-png")
SOUTH = ["-telescope", "meerkat", "-ra", "128deg", "-dec", "-40deg", "-duration", "1min", "-integration", "20s"]
NORTH = ["-telescope", "vla", "-duration", "2min", "-integration", "4s"]
# Two sources with a spectral index of -0.7.
FIELD = ["-telescope", "vla", "-ra", "30deg", "-dec", "40deg", "-duration", "2min", "-integration", "10s", "-spw", "1.3GHz", "16MHz", "16",
         "-reference-frequency", "1.42GHz", "-noise", "0.05Jy"]
for place in (("30.0125deg", "40deg", "1Jy"), ("29.99deg", "40.01deg", "0.5Jy")):
    FIELD += ["-source", *place, "0Jy", "0Jy", "0Jy", "-0.7"]
SETS = {
    "field.ms": FIELD,
    "mwa-puppis-a.ms": [*SOUTH, "-spw", "150MHz", "1MHz", "4"],
    "hd142527.ms": [*NORTH, "-spw", "300GHz", "100MHz", "4"],
    "ss433.ms": [*NORTH, "-spw", "300GHz", "100MHz", "4"],
    "your.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16"],
    "large.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16"],
    "all.ms": [*NORTH, "-spw", "1.4GHz", "4MHz", "16", "-data-column", "both"],
    "night1.ms": NORTH,
    "night2.ms": [*NORTH, "-start-time", "2024-01-31T12:34:56"],
}


FILES = {
    "sky.txt": "Format = Name, Type, Ra, Dec, I\na, POINT, 04:00:00, 44.00.00, 1\n",
    "ds9.reg": "# Region file format: DS9 version 4.1\nfk5\ncircle(30.0125,40.0,40\")\ncircle(29.99,40.01,40\")\n",
    "carta.crtf": "#CRTFv0\ncircle [[30.0125deg, 40.0deg], 40arcsec] coord=J2000\n"
                  "circle [[29.99deg, 40.01deg], 40arcsec] coord=J2000\n",
}


def commands(path):
    """The commands of a document, each as one line, and its blocks of Python."""
    is_recipes = path.endswith("recipes.md")
    with open(path, encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    for block, line in re.findall(r"^```python\n(.*?)^```|^    (\S[^\n]*)$", text, re.M | re.S):
        if block and is_recipes:
            yield block
        elif line and line.split()[0] in PROGRAMS + (OTHERS if is_recipes else ()) and ("[" not in line or is_recipes):
            yield line


def as_shell(line, root):
    """A command as the shell runs it here; None if its program is not installed. A batch job runs at once, on one core. Images of
    more than LARGEST pixels are made with as many: their pixels stay, and the sets, which are small, need no more."""
    line = re.sub(r"-size (\d+) (\d+)", lambda size: "-size %d %d" % tuple(min(int(n), LARGEST) for n in size.groups()), line)
    words = shlex.split(line)
    if words[0] == "sbatch":
        words = [word for word in words[1:] if not word.startswith("--")]
        return "SLURM_CPUS_PER_TASK=1 SLURM_MEM_PER_NODE=4096 bash " + shlex.join([os.path.join(root, "examples/slurm", words[0]), *words[1:]])
    return line if words[0] in PROGRAMS or shutil.which(words[0]) else None


def run_block(block, names):
    """Run a block of Python; return an error, or nothing."""
    try:
        exec(compile(block, "block", "exec"), names)
    except ImportError as missing:
        print("a block of Python is left out:", missing)
    except Exception as error:  # pylint: disable=broad-except
        return "%s\n%s" % (block, error)
    return ""


def check_recipes():
    """What recipes.md says about its results; a list of faults."""
    try:
        import numpy as np
        from astropy.io import fits
    except ImportError:
        return []

    def load(name):
        return fits.getdata(name)[0, 0].astype(float)

    faults = []

    def must(good, what):
        if not good:
            faults.append("recipes.md: " + what)

    with table("field.ms", ack=False) as t:
        must("MODEL_DATA" in t.colnames(), "there is a MODEL_DATA")
    pbcor, by_hand = load("flat-pbcor.fits"), load("by-hand.fits")
    must(np.allclose(pbcor, by_hand, rtol=1e-5, atol=0, equal_nan=True), "the beam corrected by hand is -pbcor's")
    low, high = load("low-image.fits"), load("high-image.fits")
    at = np.unravel_index(low.argmax(), low.shape)
    index = np.log(high[at] / low[at]) / np.log(fits.getheader("high-image.fits")["CRVAL3"] / fits.getheader("low-image.fits")["CRVAL3"])
    # A flux of 1 Jy with a noise of about 1 mJy/beam in either half, whose frequencies differ by 9 %: 0.02, three times.
    must(abs(index + 0.7) < 0.06, "the spectral index of two images is %.3f, not -0.7" % index)
    index = load("wide-MFS-spectral-index.fits")[at]
    must(abs(index + 0.7) < 0.06, "the spectral index of the map is %.3f, not -0.7" % index)
    y, x = np.indices(low.shape)
    near = np.zeros(low.shape, bool)
    for peak in (at, np.unravel_index(np.where(np.hypot(y - at[0], x - at[1]) > 8, low, 0).argmax(), low.shape)):
        near |= np.hypot(y - peak[0], x - peak[1]) < 12
    for name in ("ds9", "carta"):
        model = load(name + "-model.fits")
        must(abs(model).sum() > 1 and not model[~near].any(), "%s: components are in the regions" % name)
    if os.path.exists("old-dirty.fits"):
        for kind in ("dirty", "psf"):
            old, new = load("old-%s.fits" % kind), load("new-%s.fits" % kind)
            # Both compute to 1e-6.
            must(np.std(new - old) < 1e-5 * np.std(old), "WSClean's %s differs by %.1e" % (kind, np.std(new - old) / np.std(old)))
    return faults


def make_inputs(line):
    """Make the sets and files that a command reads, unless an earlier command made them."""
    words = shlex.split(line, comments=True)
    for name in words[1:]:
        if name in SETS and not os.path.exists(name) and words[0] != "msimage-makems":
            subprocess.run(["msimage-makems", "-quiet", *SETS[name], name], check=True)
            with table(name + "::FIELD", readonly=False, ack=False) as field:
                field.putcell("NAME", 0, "3C286")
        if name in FILES:
            with open(name, "w", encoding="ascii") as f:
                f.write(FILES[name])
        if name == "archive.uvfits" and not os.path.exists(name):
            make_inputs("msimage-convert night1.ms")
            subprocess.run(["msimage-convert", "night1.ms", name], check=True, stderr=subprocess.DEVNULL)


def main():
    msimage, root = sys.argv[1], os.path.abspath(sys.argv[3])
    os.environ["PATH"] = os.path.dirname(os.path.abspath(msimage)) + ":" + os.environ["PATH"]
    tried = failed = 0
    docs = [path for path in sorted(glob.glob(os.path.join(root, "docs", "*.md"))) if not path.endswith("performance.md")]
    docs = [path for path in [os.path.join(root, "README.md"), *docs] if os.path.basename(path) in sys.argv[4:] or len(sys.argv) < 5]
    for path in docs:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            names = {}
            for line in commands(path):
                if "\n" in line:
                    wrong = run_block(line, names)
                    failed += bool(wrong)
                    print(wrong, end="\n" if wrong else "")
                    continue
                make_inputs(line)
                shell = as_shell(line, root)
                if not shell:
                    print("not installed:", line.split()[0])
                    continue
                done = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
                tried += 1
                failed += done.returncode != 0
                if done.returncode:
                    print("%s: %s\n  exits %d: %s" % (os.path.basename(path), line, done.returncode,
                                                      done.stderr.decode(errors="replace")[-300:]))
            faults = check_recipes() if path.endswith("recipes.md") else []
            failed += len(faults)
            print("\n".join(faults), end="\n" if faults else "")
            os.chdir("/")
    print("%d commands of the documents, %d failures" % (tried, failed))
    sys.exit(failed > 0 or (tried < 20 and len(sys.argv) < 5))


main()
