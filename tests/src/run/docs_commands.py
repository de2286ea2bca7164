#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs_commands.py MSIMAGE MSIMAGE_MAKEMS ROOT [DOCUMENT..]: runs every command of msimage's programs in README and docs.

The commands are the indented lines that start with a program's name. Those of one document run in order in one folder. Sets that a
document takes for given are simulated, so that sizes, pixels and selections fit them. performance.md is left out: its sets take
gigabytes. In recipes.md commands of other programs and blocks of CASA run too where these are installed ($MSIMAGE_PEER_PYTHON has
CASA), sbatch is the shell, and blocks of Python run where there is astropy; its results are compared with the sky that was simulated.
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from casacore.tables import table
from program_suite import python_with

SOLVERS = ("DP3", "goquartical")
OTHERS = ("wsclean", "sbatch", *SOLVERS)
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
    """The commands of a document, each as one line, and its blocks with their languages."""
    is_recipes = path.endswith("recipes.md")
    with open(path, encoding="utf-8") as f:
        text = f.read().replace("\\\n", " ")
    for language, block, line in re.findall(r"^```(python|casa)\n(.*?)^```|^    (\S[^\n]*)$", text, re.M | re.S):
        if block and is_recipes:
            yield language, block
        elif line and line.split()[0] in PROGRAMS + (OTHERS if is_recipes else ()) and ("[" not in line or is_recipes):
            yield "", line


def as_shell(line, root):
    """A command as the shell runs it here; None if its program is not installed. A batch job runs at once, on one core. Images of
    more than LARGEST pixels are made with as many: their pixels stay, and the sets, which are small, need no more."""
    line = re.sub(r"-size (\d+) (\d+)", lambda size: "-size %d %d" % tuple(min(int(n), LARGEST) for n in size.groups()), line)
    words = shlex.split(line)
    if words[0] == "sbatch":
        words = [word for word in words[1:] if not word.startswith("--")]
        return "SLURM_CPUS_PER_TASK=1 SLURM_MEM_PER_NODE=4096 bash " + shlex.join([os.path.join(root, "examples/slurm", words[0]), *words[1:]])
    return line if words[0] in PROGRAMS or shutil.which(words[0]) else None


def run_block(language, block, names):
    """Run a block of Python, or of CASA where there is one; return an error, or nothing."""
    if language == "casa":
        casa = python_with("casatasks")
        done = casa and subprocess.run([casa, "-c", "from casatasks import *\n" + block], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout.decode(errors="replace")[-300:] if done and done.returncode else ""
    try:
        exec(compile(block, "block", "exec"), names)
    except ImportError as missing:
        print("a block of Python is left out:", missing)
    except Exception as error:  # pylint: disable=broad-except
        return str(error)
    return ""


class Calibration:
    """Turns the phases of the antennas of field.ms, and checks that self-calibration turns them back."""

    def __init__(self):
        make_inputs("msimage field.ms")
        with table("field.ms", readonly=False, ack=False) as t:
            self.data, self.uvw, a, b = (t.getcol(name) for name in ("DATA", "UVW", "ANTENNA1", "ANTENNA2"))
            turn = np.exp(1j * np.random.default_rng(5).normal(0, 0.5, b.max() + 1))
            t.putcol("DATA", self.data * (turn[a] * turn[b].conj())[:, None, None])
        self.pairs = 1000 * a + b

    def fault(self, command):
        """What is wrong after a command. The mean of a baseline, in parallel hands, has an rms phase of 0.7 radian before. Its 400
        samples have a noise of 0.05 Jy, which leaves 0.003; the few components of the first model leave a shift of the whole field
        and some 0.05. The residual of the next image falls, too. From then on the set is as it was simulated."""
        if any(word in command for word in SOLVERS + ("applycal",)):
            with table("field.ms", ack=False) as t:
                product = (t.getcol("CORRECTED_DATA") * self.data.conj())[..., [0, -1]].sum((1, 2))
            pairs = [self.pairs == pair for pair in np.unique(self.pairs)]
            phases, uv = np.array([np.angle(product[at].sum()) for at in pairs]), np.array([self.uvw[at, :2].mean(0) for at in pairs])
            rms = np.std(phases - uv @ np.linalg.lstsq(uv, phases, rcond=None)[0])
            print("%.3f radian are left by %s" % (rms, command.split("(")[0].split()[0]))
            return "phases of %.2f radian are left" % rms if rms > 0.1 else ""
        if "-niter" in command and "-name cal1" in command:
            with table("field.ms", readonly=False, ack=False) as t:
                t.putcol("DATA", self.data)
                t.removecols(["CORRECTED_DATA"])
            before, after = (np.std(load("cal%d-residual.fits" % n)) for n in (0, 1))
            return "the residual's rms is %.1e, and was %.1e before" % (after, before) if after > before / 5 else ""
        return ""


def load(name):
    from astropy.io import fits  # pylint: disable=import-outside-toplevel
    return fits.getdata(name)[0, 0].astype(float)


def check_recipes():
    """What recipes.md says about its results; a list of faults."""
    try:
        from astropy.io import fits
    except ImportError:
        return []
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
        is_recipes = path.endswith("recipes.md")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            names = {}
            solvers = is_recipes and (any(map(shutil.which, SOLVERS)) or python_with("casatasks"))
            calibration = Calibration() if solvers else None
            for language, text in commands(path):
                if language:
                    wrong = run_block(language, text, names)
                else:
                    make_inputs(text)
                    shell = as_shell(text, root)
                    if not shell:
                        print("not installed:", text.split()[0])
                        continue
                    done = subprocess.run(["sh", "-c", shell], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, check=False)
                    tried += 1
                    wrong = "exits %d: %s" % (done.returncode, done.stderr.decode(errors="replace")[-300:]) if done.returncode else ""
                wrong = wrong or (calibration.fault(text) if calibration else "")
                failed += bool(wrong)
                print("%s: %s\n  %s" % (os.path.basename(path), text, wrong) if wrong else "", end="\n" if wrong else "")
            faults = check_recipes() if is_recipes else []
            failed += len(faults)
            print("\n".join(faults), end="\n" if faults else "")
            os.chdir("/")
    print("%d commands of the documents, %d failures" % (tried, failed))
    sys.exit(failed > 0 or (tried < 20 and len(sys.argv) < 5))


main()
