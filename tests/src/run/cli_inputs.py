#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_inputs.py MSIMAGE MSIMAGE_MAKEMS: bad input is refused with its exit code and one line that names it, leaves no files,
and never ends the program by a signal; bad samples are dropped and counted, and the image is right."""
import os
import re
import shutil

import numpy as np
from casacore.tables import makearrcoldesc, makescacoldesc, maketabdesc, table

from image_oracle import ASEC, FITS_FLOOR, Frame, load, peak_error, pixels, read
from program_suite import ODD_NAMES, ImagingSuite, fresh_copy, main, with_small_files

IMAGE = ["-size", 64, 64, "-scale", "20asec", "-accuracy", 1e-5]
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,XY,YX,YY", "-ra", "60deg", "-dec", "44deg", "-duration",
       "30s", "-spw", "1GHz", "40MHz", "4", "-random-sources", "10", "1", "10amin", "-weights", "radiometer"]


class Inputs(ImagingSuite):
    def make(self, name, *options):
        return self.made(name, *SET, *options)

    def told_log(self, title, good, log):
        self.tried += 1
        if not good:
            self.complain("%s: %s" % (title, log))

    def clear(self):
        for name in os.listdir(self.out):
            os.remove(os.path.join(self.out, name))

    def copy(self, source):
        """A new copy of a set to damage."""
        return fresh_copy(source, self.path("copy.ms"))

    def imaged(self, title, path, *words, want=None, **options):
        """Check that the run succeeds with the image of the direct sum. Returns the log."""
        done = self.launch(*IMAGE, "-name", "right", *words, path, **options)
        if done.returncode != 0:
            self.complain("%s: exits %s: %s" % (title, done.returncode, done.stderr[-1500:]))
        else:
            data, _ = load(os.path.join(self.out, "right-dirty.fits"))
            x, y = pixels(64, 64)
            if want is None:
                frame = Frame(64, 64, 20 * ASEC, *table(path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0])
                want = frame.image(frame.inside(read(path)), x, y)
            error = peak_error(data[y, x], want, data)
            if not error <= 2e-5 + FITS_FLOOR:
                self.complain("%s: error %.1e" % (title, error))
        for name in os.listdir(self.out):
            if name not in ("right-dirty.fits", "right-image.fits"):
                self.complain("%s: leaves %s" % (title, name))
            os.remove(os.path.join(self.out, name))
        return done.stderr


def check_paths(s):
    good = s.make("good.ms")
    s.refused("missing path", 3, "absent.ms", *IMAGE, "absent.ms")
    s.refused("second path missing", 3, "absent.ms", *IMAGE, good, "absent.ms")
    plain = s.path("plain")
    with open(plain, "w", encoding="ascii") as f:
        f.write("not a set\n")
    s.refused("plain file", 3, re.escape(plain), *IMAGE, plain)
    os.mkdir(s.path("empty"))
    s.refused("empty folder", 3, re.escape(s.path("empty")), *IMAGE, s.path("empty"))
    s.refused("a table but not a set", 3, "FIELD", *IMAGE, good + "/FIELD")
    s.refused("/dev/null", 3, "/dev/null", *IMAGE, "/dev/null")
    s.refused("a path of 5 kB", 3, "nnnn", *IMAGE, "n" * 5000)
    for name in (*ODD_NAMES, "-dash.ms"):
        odd = s.path(name)
        shutil.copytree(good, odd)
        s.imaged("a set called " + name, odd)
        name = name[:-3]
        words = [*IMAGE, "-name", os.path.join(s.out, name), odd]
        done = s.launch("-quiet", *words)
        if done.returncode != 0 or sorted(os.listdir(s.out)) != [name + "-dirty.fits", name + "-image.fits"]:
            s.complain("output called %s: exits %s: %s" % (name, done.returncode, done.stderr))
        for left in os.listdir(s.out):
            os.remove(os.path.join(s.out, left))
        shutil.rmtree(odd)
    deep = s.path("deep")
    while len(deep) < 3700:
        deep = os.path.join(deep, "d" * min(250, 3850 - len(deep)))
    os.makedirs(deep)
    shutil.copytree(good, os.path.join(deep, "good.ms"))
    s.imaged("a set of 4 kB of path", os.path.join(deep, "good.ms"))
    done = s.launch("-quiet", *IMAGE, "-name", os.path.join(deep, "image"), good)
    if done.returncode != 0 or not os.path.exists(os.path.join(deep, "image-dirty.fits")):
        s.complain("output of 4 kB of path: exits %s: %s" % (done.returncode, done.stderr))
    shutil.rmtree(s.path("deep"))


def check_output_in_a_set(s):
    """Images are not written among the files of a set, however the set and the directory are named."""
    good, other = s.make("good.ms"), s.make("other.ms", "-ra", "60deg")
    link, relative = s.path("link"), os.path.relpath(good, s.out)
    os.symlink(os.path.join(good, "ANTENNA"), link)
    files = sorted(os.listdir(good))
    for title, name in (("plain", good + "/o"), ("subtable", good + "/ANTENNA/o"), ("symlink", link + "/o"),
                        ("relative", relative + "/o"), ("round about", good + "/ANTENNA/../o")):
        for path in (good, good + "/", relative):
            s.refused("output in the set, %s" % title, 2, "-name .*lies inside the Measurement Set .*good.ms", *IMAGE,
                      "-name", name, path)
    s.refused("output in the second set", 2, "good.ms", *IMAGE, "-name", good + "/o", other, good)
    s.refused("a dry run too", 2, "good.ms", *IMAGE, "-dry-run", "-name", good + "/o", good)
    if sorted(os.listdir(good)) != files:
        s.complain("output in the set leaves %s" % sorted(os.listdir(good)))
    s.imaged("output next to the set", good, "-name", os.path.join(s.out, "right"))
    os.remove(link)


def check_time_scales(s):
    """Sets with different time scales are imaged together, but not selected by time; two names of one scale are the same."""
    good, other = s.make("good.ms"), fresh_copy(s.make("good.ms"), s.path("scaled.ms"))

    def rename(scale):
        with table(other, readonly=False, ack=False) as t:
            for column in ("TIME", "TIME_CENTROID"):
                info = t.getcolkeyword(column, "MEASINFO")
                t.putcolkeyword(column, "MEASINFO", {**info, "Ref": scale})

    rename("TAI")
    for paths in ((good, other), (other, good)):
        s.imaged("times in UTC and TAI", *paths)
        s.refused("a choice by time of UTC and TAI", 3, "time scale", *IMAGE, "-select-time", ">2000/01/01", *paths)
    s.imaged("times in TAI", other)
    rename("utc")
    s.imaged("times in UTC, spelt in two ways", good, other)


def put_frame(path, frame, column="PHASE_DIR"):
    with table(path + "/FIELD", readonly=False, ack=False) as t:
        t.putcolkeyword(column, "MEASINFO", {**t.getcolkeyword(column, "MEASINFO"), "Ref": frame})


def check_frames(s):
    """Directions in different frames have no common centre; J2000 and ICRS, 0.03 arcsec apart, count as one frame."""
    good, other = s.make("good.ms"), fresh_copy(s.make("good.ms"), s.path("framed.ms"))
    shift = ["-shift", "60.05deg", "44.02deg"]
    put_frame(other, "B1950")
    for paths in ((good, other), (other, good)):
        for words in (shift, []):
            s.refused("fields in J2000 and B1950", 3, os.path.basename(paths[1]) + "/FIELD: row 0: PHASE_DIR is in .*frame",
                      *IMAGE, *words, *paths)
    s.imaged("B1950 alone", other)
    done = s.launch(*IMAGE, "-name", "right", good)
    os.rename(os.path.join(s.out, "right-dirty.fits"), s.path("framed-model.fits"))
    s.must(done.returncode == 0, "a model: " + done.stderr)
    s.clear()
    into = [fresh_copy(path, s.path("into-%s" % os.path.basename(path))) for path in (good, other)]
    done = s.launch("-predict", "-force", "-quiet", "-name", s.path("framed"), *into)
    s.must(done.returncode == 3 and "into-framed.ms/FIELD: row 0: PHASE_DIR is in B1950" in done.stderr.splitlines()[-1],
           "a model into J2000 and B1950: exits %d: %s" % (done.returncode, done.stderr))
    s.must("MODEL_DATA" not in table(into[0], ack=False).colnames(), "nothing is predicted before frames are compared")
    put_frame(other, "ICRS")
    done = s.launch("-quiet", *IMAGE, "-name", "right", *shift, good, other)
    s.must(done.returncode == 0 and not done.stderr, "J2000 and ICRS: exits %d: %s" % (done.returncode, done.stderr))
    s.clear()


def check_motion(s):
    """The samples of a moving field count as tracked; a warning says that coordinates do not hold, and another centre is
    refused."""
    def polynomial(t):
        t.putcell("PHASE_DIR", 0, np.concatenate([t.getcell("PHASE_DIR", 0), [[1e-7, 0]]]))

    def ephemeris(t):
        t.addcols(makescacoldesc("EPHEMERIS_ID", 0))
        t.putcell("EPHEMERIS_ID", 0, 0)

    for title, spoil_field, pattern in (("polynomial", polynomial, "polynomial in time"), ("ephemeris", ephemeris, "EPHEMERIS_ID"),
                                        ("planet", None, "body of the solar system")):
        path = s.copy(s.make("good.ms"))
        if spoil_field:
            with table(path + "/FIELD", readonly=False, ack=False) as t:
                spoil_field(t)
        else:
            put_frame(path, "JUPITER")
        log = s.imaged(title, path)
        s.told_log(title, re.search("^msimage: warning: field .* moves on the sky .*" + pattern, log, re.M), log)
        s.refused("%s, -shift" % title, 3, "-shift: field .* moves", *IMAGE, "-shift", "60.05deg", "44.02deg", path)
    path = s.copy(s.make("good.ms"))
    with table(path + "/FIELD", readonly=False, ack=False) as t:
        ephemeris(t)
        t.putcell("EPHEMERIS_ID", 0, -1)
        t.putcell("PHASE_DIR", 0, np.concatenate([t.getcell("PHASE_DIR", 0), [[0, 0]]]))
    log = s.imaged("no ephemeris, no rates", path)
    s.told_log("a field that stands still", "moves" not in log, log)


def check_frequency_frame(s):
    """An undefined frequency frame is not written as that of the observatory."""
    path = s.copy(s.make("good.ms"))
    for code, want in ((64, None), (1, "LSRK"), (5, "TOPOCENT")):
        with table(path + "/SPECTRAL_WINDOW", readonly=False, ack=False) as t:
            t.putcol("MEAS_FREQ_REF", np.full(t.nrows(), code))
        s.launch(*IMAGE, "-name", "right", path)
        got = load(os.path.join(s.out, "right-dirty.fits"))[1].get("SPECSYS")
        s.must(got == want, "MEAS_FREQ_REF %d: SPECSYS %s" % (code, got))
        s.clear()


def check_setups(s):
    """Setups with different polarisations: all are listed, and a missing polarisation is reported before samples are read."""
    path = s.copy(s.made("windows.ms", *SET, "-spw", "1.3GHz", "40MHz", "3"))
    with table(path + "/POLARIZATION", readonly=False, ack=False) as t:
        t.addrows(1)
        for column in ("CORR_TYPE", "CORR_PRODUCT", "FLAG_ROW", "NUM_CORR"):
            t.putcell(column, 1, t.getcell(column, 0))
        t.putcell("CORR_TYPE", 1, np.array([5, 1, 2, 8], np.int32))
    with table(path + "/DATA_DESCRIPTION", readonly=False, ack=False) as t:
        t.putcell("POLARIZATION_ID", 1, 1)
    pattern = r"-pol RR cannot be computed .*\(XX XY YX YY\), those of spectral window 0 \(DATA_DESC_ID 0\) of .*copy.ms; -spws"
    for words in ([], ["-dry-run"]):
        s.refused("two polarisation setups", 3, pattern, *IMAGE, "-pol", "RR", *words, path)
    s.refused("what none has", 3, r"-pol LR cannot be computed .*\)$", *IMAGE, "-pol", "LR", path)
    log = s.launch(*IMAGE, "-name", "right", "-pol", "RR", "-spws", 1, path).stderr
    s.told_log("the other", "correlations RR I Q LL\n" in log, log)
    log = s.launch(*IMAGE, "-dry-run", path).stderr
    s.told_log("both", "correlations XX XY YX YY, RR I Q LL\n" in log, log)
    s.clear()


def check_truncation(s):
    """Files truncated at several lengths are refused by name, or imaged correctly if they are not needed."""
    for storage in ("tiledshape", "tiledcolumn", "standard"):
        source = s.make(storage + ".ms", "-storage", storage)
        frame = Frame(64, 64, 20 * ASEC, *table(source + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0])
        x, y = pixels(64, 64)
        want = frame.image(frame.inside(read(source)), x, y)
        files = [f for f in sorted(os.listdir(source)) if f.startswith("table.") and f not in ("table.info", "table.lock")]
        if storage == "tiledshape":  # subtables of the others are stored like these
            files += [os.path.join(sub, f) for sub in ("ANTENNA", "SPECTRAL_WINDOW", "POLARIZATION", "DATA_DESCRIPTION", "FIELD",
                                                      "OBSERVATION") for f in ("table.dat", "table.f0")]
        for file in files:
            size = os.path.getsize(os.path.join(source, file))
            for length in sorted({0, 1, 100, size // 3, size // 2, size - 1}):
                if length < size:
                    cut(s, source, storage, file, length, want)


def cut(s, source, storage, file, length, want):
    """Image a copy with one truncated file, in one run: it either refuses the set or makes the right image."""
    title = "%s, %s cut to %d bytes" % (storage, file, length)
    path = s.copy(source)
    os.truncate(os.path.join(path, file), length)
    done = s.launch("-quiet", *IMAGE, "-name", "cut", path)
    if done.returncode == 0:
        data, _ = load(os.path.join(s.out, "cut-dirty.fits"))
        x, y = pixels(64, 64)
        if not peak_error(data[y, x], want, data) <= 2e-5 + FITS_FLOOR:
            s.complain("%s: a wrong image" % title)
        for kind in ("dirty", "image"):
            os.remove(os.path.join(s.out, "cut-%s.fits" % kind))
    else:
        pattern = "truncated or corrupt.*" + re.escape(os.path.dirname(os.path.join(path, file)))
        s.judge_refusal(title, done, 3, pattern)


def check_subtables(s):
    good = s.make("good.ms")
    for name in ("ANTENNA", "DATA_DESCRIPTION", "FIELD", "OBSERVATION", "SPECTRAL_WINDOW", "POLARIZATION"):
        path = s.copy(good)
        shutil.rmtree(os.path.join(path, name))
        s.refused("no " + name, 3, name, *IMAGE, path)
    # Columns and subtables that an image does not need may be missing, unless they are selected.
    for name in ("FEED", "PROCESSOR", "STATE", "POINTING", "HISTORY", "FLAG_CMD", "SOURCE"):
        path = s.copy(good)
        if os.path.isdir(os.path.join(path, name)):
            shutil.rmtree(os.path.join(path, name))
            done = s.launch("-quiet", *IMAGE, "-name", "without", path)
            if done.returncode == 0:
                for kind in ("dirty", "image"):
                    os.remove(os.path.join(s.out, "without-%s.fits" % kind))
            else:
                s.refused("no " + name, 3, name, *IMAGE, path)
    s.refused("SPECTRAL_WINDOW without rows", 3, "SPECTRAL_WINDOW", *IMAGE, s.make("zero-spws.ms", "-defect", "zero-spws"))
    s.refused("no rows", 3, "0 rows", *IMAGE, s.make("zero-rows.ms", "-defect", "zero-rows"))


def check_environment(s):
    """The home of the user and subtables outside the standard are not needed, also for selection."""
    path = s.copy(s.make("good.ms"))
    with table(path + "/SYSPOWER", maketabdesc([makescacoldesc("POWER", 0)]), ack=False) as sub:
        sub.flush()
    with table(path, readonly=False, ack=False) as t:
        t.putkeyword("SYSPOWER", "Table: %s/SYSPOWER" % path)
    words = ["-select-antenna", "*&*", "-select-uvrange", ">0m"]
    s.imaged("with a further subtable", path, *words)
    shutil.rmtree(path + "/SYSPOWER")
    s.imaged("a further subtable was deleted", path, *words)
    s.imaged("without HOME", path, env={k: v for k, v in os.environ.items() if k != "HOME"})


def check_contents(s):
    good = s.make("good.ms")
    for defect, pattern in (("all-flagged", "every selected sample was dropped: .*[1-9][0-9]* FLAG"),
                            ("zero-weights", "every selected sample was dropped: .*[1-9][0-9]* weight not positive"),
                            ("bad-data-desc-id", "DATA_DESC_ID, row [0-9]+"), ("bad-antenna1", "ANTENNA1, row [0-9]+"),
                            ("chan-freq-length", "CHAN_FREQ|channels"), ("corr-type-length", "CORR_TYPE|correlations")):
        s.refused(defect, 3, pattern, *IMAGE, s.make(defect + ".ms", "-defect", defect))
        log = s.launch(*IMAGE, s.path(defect + ".ms")).stderr
        if "dropped" in pattern and not re.search("dropped: .*[1-9][0-9]* (FLAG|weight)", log):
            s.complain("%s: no counts: %s" % (defect, log))
    s.refused("no such set, to be cleaned", 3, "nosuch.ms: No such file", *IMAGE, "-niter", 10, "-auto-threshold",
              3, "nosuch.ms")
    for column in "NOSUCH", "CORRECTED_DATA":
        for words in (), ("-dry-run",):
            s.refused("no such column", 3, column + ".*DATA", *IMAGE, *words, "-data-column", column, good)
    s.refused("a column that is no visibilities", 3, "UVW", *IMAGE, "-data-column", "UVW", good)
    wide = fresh_copy(good, s.path("wide.ms"))
    with table(wide, readonly=False, ack=False) as t:
        t.addcols(maketabdesc([makearrcoldesc("WIDE", 0j, valuetype="complex")]))
        t.putcell("WIDE", 0, np.ones((1,) * 9, np.complex64))
    s.refused("a column of arrays of nine dimensions", 3, "wide.ms: column WIDE, row 0: .*9 dimensions", *IMAGE,
              "-data-column", "WIDE", wide)
    s.refused("a column of model that is not there", 3, "MODEL_DATA.*DATA", *IMAGE, "-data-column", "MODEL_DATA", good)
    s.refused("no such field", 3, "no field 7; it has 0 to 0; change -field$", *IMAGE, "-field", 7, good)
    s.refused("no field of that name", 3, "nosuch", *IMAGE, "-select-field", "nosuch", good)
    s.refused("no such spw", 3, "no spectral window 9; it has 0 to 0; change -spws$", *IMAGE, "-spws", 9, good)
    s.refused("channels that are not there", 3, "channels 2 to 9 .*; change -channel-range$", *IMAGE, "-channel-range", 2, 9, good)
    s.refused("times that are not there", 3, "timesteps 2 to 9 .*; change -interval$", *IMAGE, "-interval", 2, 9, good)
    s.refused("bad TaQL", 3, "TaQL|taql", *IMAGE, "-taql", "ANTENNA1 <", good)
    s.refused("TaQL on a column that is not there", 3, "NOSUCH", *IMAGE, "-taql", "NOSUCH > 1", good)
    s.refused("TaQL without rows", 3, "no rows|rows", *IMAGE, "-taql", "ANTENNA1 > 1000", good)
    s.refused("bad antenna selection", 3, "antenna", *IMAGE, "-select-antenna", "nosuch", good)
    s.refused("bad spw selection", 3, "spw", *IMAGE, "-select-spw", "9:1~2", good)
    s.refused("bad time selection", 3, "time", *IMAGE, "-select-time", "yesterday", good)
    s.refused("bad uvrange selection", 3, "uvrange", *IMAGE, "-select-uvrange", "long", good)
    s.refused("uv limits without samples", 3, "every selected sample was dropped.*; change -minuv-l$", *IMAGE, "-minuv-l", 1e9, good)
    s.refused("circular of linear feeds", 3, "RR.*XX XY YX YY", *IMAGE, "-pol", "RR", good)
    s.refused("more output channels than channels", 2, "-channels-out 5.*4", *IMAGE, "-channels-out", 5, good)
    s.refused("more intervals than times", 2, "-intervals-out 4.*3", *IMAGE, "-intervals-out", 4, good)
    s.refused("two phase centres", 3, "-shift", *IMAGE, good, s.make("elsewhere.ms", "-ra", "61deg"))


def check_sizes(s):
    good = s.make("good.ms")
    scale = ["-scale", "1asec"]
    for size in ((0, 0), (-5, -5), ("abc", "abc"), (1, 1), ("1x1", "1x1"), (1e9, 1e9), (64, 0)):
        s.refused("size %s" % (size,), 2, "-size", "-size", *size, *scale, good)
    s.refused("30000^2 in 0.03 GB", 5, "30000 x 30000 needs .*GB.*limit is 0.030 GB", "-size", 30000, 30000, *scale,
              "-abs-mem", 0.03, good)
    s.refused("1e9^2", 5, "needs .* GB", "-size", 1000000000, 1000000000, "-scale", "0.1masec", good)
    log = s.launch("-size", 30000, 30000, *scale, "-abs-mem", 0.03, good).stderr
    if not re.search("memory: .*grids [0-9.]+ GB", log):
        s.complain("no memory plan: " + log)
    for scale in ("-1asec", "0asec", "5", "1000deg", "nanasec", "1e400asec", "asec", ""):
        s.refused("scale " + scale, 2, "-scale", "-size", 64, 64, "-scale", scale, good)
    s.refused("scale 5deg", 2, "half the sky", "-size", 64, 64, "-scale", "5deg", good)
    done = s.launch()
    if done.returncode != 2 or not done.stderr.startswith("usage: msimage"):
        s.complain("no arguments: exits %s: %s" % (done.returncode, done.stderr))


WORDS = ["-size", 64, 64, "-scale", "20asec", "-overwrite", "-name", "o"]


def check_log(s):
    """The log begins with the subject of the image, and ends with the files and the time."""
    words, told, good = WORDS, s.told_log, s.make("good.ms")
    log = s.launch(*words, "-make-psf", good).stderr
    # A stage of more than 5 s has its own lines; a busy machine can slow any stage down to that.
    log = re.sub(r"(?m)^\w+: \d+ %, ETA \d+ s\n", "", log)
    labels = ["set", "telescope", "field", "data", "band", "times", "centre", "image", "resolution"]
    lines = log.splitlines()
    told("its beginning", [line[:12] for line in lines[:9]] == ["%-12s" % (label + ":") for label in labels], log)
    for pattern in (r"^field: +\S.* \(id 0\)$", r"^data: +DATA, imaged in I; correlations XX XY YX YY$",
                    r"^times: +3 times from \d{4}-", r"^band: .*; 4 channels of ",
                    r"^image: +64 x 64 pixels of 20 arcsec, field of view 21.33 arcmin$", r"^resolution: about [0-9.]+ arcsec, "):
        told("its lines", re.search(pattern, log, re.M), pattern + ": " + log)
    told("its end", re.fullmatch(r"wrote 3 files in [0-9.]+ s: o-psf.fits, o-dirty.fits, o-image.fits", lines[-1]), log)
    told("reasons that count nothing", not re.search(r"dropped:.*\b0 ", log), log)
    told("its width", max(len(line) for line in lines[1:9]) <= 100, log)
    log = s.launch(*words, "-channels-out", 4, good).stderr
    told("many files", re.search(r"^wrote 10 files in [0-9.]+ s: o-\*\.fits$", log, re.M), log)
    log = s.launch(*words, "-channel-range", 1, 2, "-interval", 0, 1, good).stderr
    told("one of each", re.search("; 1 channel of ", log) and re.search(r"^times: +1 time from [^,]*$", log, re.M), log)
    # The -scale that a warning proposes gives no warning.
    for scale, what in (("0.01asec", "needlessly fine"), ("200asec", "too coarse"), ("20asec", "")):
        log = s.launch(*words, "-scale", scale, good).stderr
        told("pixels of " + scale, (what in log) if what else "warning" not in log, log)
        if what:
            better = re.search(r"-scale (\S+asec)", log)[1]
            log = s.launch(*words, "-scale", better, good).stderr
            told("pixels of %s, as proposed" % better, "warning" not in log, log)
    log = s.launch(*words, "-strategy", "subgrid", "-backend", "cpu", good).stderr
    towers = re.search(r" in (\d+) w-tower(s?) of subgrids", log)
    told("as many towers as it says", towers and (towers[1] == "1") == (towers[2] == ""), log)
    told("-quiet", not s.launch(*words, "-quiet", "-scale", "0.01asec", good).stderr, "fine pixels")
    s.clear()


def check_told(s):
    """Headers, pictures and predictions name their subject."""
    words, told = WORDS, s.told_log
    # Headers name all the fields of an image.
    fields = s.make("fields.ms", "-field", "60.1deg", "44deg", "-field", "60deg", "44.1deg")
    log = s.launch(*words, "-field", "all", "-shift", "60deg", "44deg", "-png", "-png-range", "-0.5", 1, fields).stderr
    told("a mosaic without beams", "warning: pointings with different phase centres are joined without their primary" in log, log)
    log = s.launch(*words, "-field", 1, "-shift", "60deg", "44deg", "-dry-run", fields).stderr
    told("one pointing", "warning" not in log, log)
    told("the fields of a mosaic", load(os.path.join(s.out, "o-dirty.fits"))[1]["OBJECT"] == "field0, field1, field2", "")
    # Each sample is counted once: as kept, or under one reason.
    for limits in (["-minuv-l", 1000], ["-minuv-l", 500, "-maxuv-l", 1500], ["-minuvw-m", 150, "-maxuv-l", 1500], []):
        log = s.launch(*words, "-overwrite", *limits, s.make("flags.ms", "-flags", 0.2, "-flag-rows", 0.1)).stderr
        line = re.search(r"samples: .*", log)[0]
        with table(s.path("flags.ms"), ack=False) as t:
            n = t.getcol("FLAG")[..., 0].size
        told("samples by reason with %s" % limits, sum(int(k) for k in re.findall(r"(\d+) [A-Za-z]", line)) == n, "%d: %s" % (n, line))
    # Pointings of one name, and the same field of two sets, are named once; the log lists their ids.
    for path, names in ((fields, ["field1", "XM31", "M31"]), (s.made("fields2.ms", "-field", "60.1deg", "44deg"), ["field1", "M31"])):
        with table(path + "/FIELD", readonly=False, ack=False) as t:
            t.putcol("NAME", names)
    log = s.launch(*words, "-field", "all", "-shift", "60deg", "44deg", "-overwrite", fields, s.path("fields2.ms")).stderr
    got = load(os.path.join(s.out, "o-dirty.fits"))[1]["OBJECT"]
    told("fields of equal names", got == "field1, XM31, M31", got)
    told("fields with ids", re.search(r"fields: +field1 \(id 0\), XM31 \(id 1\), M31 \(id 2\), M31 \(id 1\)\n", log), log)
    told("a picture that its range asks for", os.path.exists(os.path.join(s.out, "o-dirty.png")), "")
    # The log has the pixels and centre of a model in suitable units.
    fine = s.made("fine.ms", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-model-image", s.path("fine-model.fits"),
                  64, "2masec")
    log = s.launch("-predict", "-dry-run", "-name", s.path("fine"), fine).stderr
    told("a model's pixels", "64 x 64 pixels of 2 mas x 2 mas about 04h00m00.00s +44d00m00.0s (J2000)" in log, log)
    # The source is on a pixel, so the visibilities of the model are those of the set.
    log = s.launch("-predict", "-name", s.path("fine"), fine).stderr
    with table(fine, ack=False) as t:
        difference = abs(t.getcol("MODEL_DATA") - t.getcol("DATA")).max()
    told("the model that the simulator writes", difference <= 1e-4, "%g: %s" % (difference, log))
    s.clear()


def check_terminal(s):
    """Control characters in names do not reach the terminal."""
    words, told, path = WORDS, s.told_log, s.path("\033[31mred.ms")
    shutil.copytree(s.make("good.ms"), path)
    t = table(path + "/FIELD", readonly=False, ack=False)
    t.putcell("NAME", 0, "A\033]0;title\a")
    t.close()
    log = s.launch(*words, path).stderr
    told("names of control characters", r"\x1B[31mred.ms" in log and r"A\x1B]0;title\x07 (id 0)" in log, repr(log))
    log += s.launch(*words, "-data-column", "\033[2J", path).stderr
    told("control characters", not re.search(r"[\0-\x09\x0b-\x1f\x7f]", log), repr(log))
    s.clear()


def check_spoilt_samples(s):
    """A bad sample or row is dropped and counted, and the image is that of the rest."""
    for defect, reason, n in (("nan-vis", "data not finite", 1), ("inf-vis", "data not finite", 1),
                              ("huge-vis", "data beyond 1e30", 1), ("nan-weight", "weight not positive", 1),
                              ("inf-weight", "weight not positive", 1), ("negative-weight", "weight not positive", 1),
                              ("nan-uvw", "UVW not finite", 4), ("inf-uvw", "UVW not finite", 4),
                              ("huge-uvw", "UVW not finite", 4)):
        for spectrum in ("full", "none", "partly"):
            path = s.make("%s-%s.ms" % (defect, spectrum), "-defect", defect, "-weight-spectrum", spectrum)
            log = s.imaged("%s, %s" % (defect, spectrum), path)
            # Without WEIGHT_SPECTRUM, a bad WEIGHT applies to all channels of its row.
            count = int((re.search(r"(\d+) " + reason, log) or [0, -1])[1])
            if count != n and not (count == 4 and "weight" in defect and spectrum != "full"):
                s.complain("%s, %s: %d counted: %s" % (defect, spectrum, count, log))
    # Other values are not clipped: 9e29 is a valid visibility.
    path = s.copy(s.make("good.ms"))
    spoil(path, "DATA", (0, 0), 9e29)
    spoil(path, "DATA", (0, 3), 9e29)
    s.imaged("9e29", path)
    # If one hand is flagged, the other one is not imaged either.
    path = s.copy(s.make("good.ms"))
    spoil(path, "DATA", (1, 0), complex("nan"))
    spoil(path, "FLAG", (1, 3), True)
    s.imaged("a flagged NaN", path)
    # Cross-hands do not matter to Stokes I.
    path = s.copy(s.make("good.ms"))
    spoil(path, "DATA", (slice(None), 1), complex("nan"))
    spoil(path, "FLAG", (slice(None), 2), True)
    s.imaged("spoilt cross-hands", path)
    # Rows with only NaN.
    path = s.copy(s.make("good.ms"))
    for row in range(0, 300, 7):
        spoil(path, "DATA", slice(None), complex("nan"), row)
    s.imaged("many NaN rows", path)


def spoil(path, column, where, value, row=700):
    t = table(path, readonly=False, ack=False)
    cell = t.getcell(column, row)
    cell[where] = value
    t.putcell(column, row, cell)
    t.close()


def check_outputs(s):
    good = s.make("good.ms")
    existing = os.path.join(s.folder, "old-dirty.fits")
    with open(existing, "w", encoding="ascii") as f:
        f.write("old")
    # This is refused before the set is opened.
    for ms in (good, "absent.ms"):
        s.refused("output exists", 2, "old-dirty.fits.*-overwrite", *IMAGE, "-name", s.path("old"), ms)
        s.refused("output folder missing", 4, "absent-folder", *IMAGE, "-name", "absent-folder/x", ms)
        s.refused("output in a file", 4, "plain-file", *IMAGE, "-name", existing + "/plain-file", ms)
    s.refused("overwrite, but the input is bad", 3, "absent.ms", *IMAGE, "-overwrite", "-name", s.path("old"), "absent.ms")
    with open(existing, encoding="ascii") as f:
        if f.read() != "old":
            s.complain("an old file has changed")
    s.refused("an output's name too long", 4, "nnnn", *IMAGE, "-name", "n" * 300, good)
    # Visibilities that do not fit in memory go to -temp-dir.
    words = ["-size", 1024, 1024, "-scale", "5asec", s.make("large.ms", "-duration", "20min", "-spw", "1GHz", "1MHz", "64")]
    least_gb = float(re.search("needs ([0-9.]+) GB", s.launch("-quiet", "-abs-mem", 0.01, *words).stderr)[1])
    limit = ["-abs-mem", "%.3f" % (least_gb + 0.001)]
    s.refused("temp-dir missing", 4, "absent-temp", *limit, "-temp-dir", "absent-temp", *words)
    s.refused("temp-dir full", 4, re.escape(s.folder) + ".*File too large", *limit, "-temp-dir", s.folder, *words,
              preexec_fn=with_small_files(1 << 20))
    s.refused("disk full", 4, "msimage-dirty.fits.*File too large", *IMAGE, good,
              preexec_fn=with_small_files(10000))
    for threads in (1, 2): # two channels at a time
        s.refused("disk full, of channels", 4, "msimage-0000-dirty.fits.*File too large", *IMAGE, "-channels-out", 4,
                  "-backend", "cpu", "-j", threads, good, preexec_fn=with_small_files(10000))


main(Inputs, globals())
