#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_inputs.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: impossible predictions are refused with an exit code and one line that
names the cause, and change no file of the set; possible ones change only their column."""
import os
import re
import shutil
import subprocess
import time

import numpy as np
from astropy.io import fits
from casacore.tables import makearrcoldesc, maketabdesc, table

from held_program import Held
from image_oracle import ASEC
from predict_oracle import COLUMN_FLOOR, Model, PredictSuite, Set, contents, errors, flat, marked
from program_suite import (GUARD_S, ODD_NAMES, VLA, as_other_user, change_modes, files, fresh_copy, main, sanitized,
                           with_small_files)

SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,XY,YX,YY", "-ra", "60deg", "-dec", "44deg", "-duration",
       "30s", "-spw", "1GHz", "40MHz", "4", "-noise", "1Jy"]


class Inputs(PredictSuite):
    def make(self, name, *options):
        return self.made(name, *SET, *options)

    def fresh(self, *options):
        """A copy of a set to predict into."""
        return fresh_copy(self.make("source%s.ms" % "".join(options), *options), "copy.ms")

    def launch(self, *words, **options):
        return super().launch("-predict", *words, **options)

    def refused(self, title, code, pattern, ms, *words, **options):
        """Check the exit code, one line with the pattern, no stdout, and that no file of the set is changed, made or removed."""
        before = files(ms) if os.path.isdir(ms) else None
        around = sorted(os.listdir("."))
        done = self.launch("-quiet", *words, ms, **options)
        self.told(title, done, code, pattern)
        if before is not None and files(ms) != before:
            now = files(ms)
            self.complain("%s: changes %s" % (title, [k for k in set(now) | set(before) if now.get(k) != before.get(k)]))
        if sorted(os.listdir(".")) != around:
            self.complain("%s: leaves %s" % (title, os.listdir(".")))

    def predicted(self, title, ms, *words, model=None, column="MODEL_DATA"):
        """Check that the run succeeds, the column is right, and everything else is unchanged. Returns the log."""
        before = contents(ms, (column,))
        done = self.launch("-accuracy", 1e-4, *words, ms)
        if done.returncode != 0 or done.stdout:
            self.complain("%s: exits %s: %s%s" % (title, done.returncode, done.stdout, done.stderr[-1500:]))
            return done.stderr
        at = Set(ms)
        l2, _ = errors(at.column(column), at.predict(model or self.model))
        if not l2 <= 1e-4 + COLUMN_FLOOR:
            self.complain("%s: error %.1e" % (title, l2))
        now = contents(ms, (column,))
        if now != before or marked(ms):
            self.complain("%s: changes %s, mark %d" % (title, [k for k in before if now.get(k) != before[k]], marked(ms)))
        return done.stderr


def good(s):
    return ["-name", "good"]


def check_sets(s):
    name = good(s)
    s.refused("missing path", 3, "absent.ms", "absent.ms", *name)
    s.refused("second path missing", 3, "absent.ms", s.fresh(), *name, "absent.ms")
    with open("plain", "w", encoding="ascii") as f:
        f.write("not a set\n")
    s.refused("plain file", 3, "plain", "plain", *name)
    os.mkdir("empty")
    s.refused("empty folder", 3, "empty", "empty", *name)
    s.refused("a table but not a set", 3, "FIELD", s.fresh() + "/FIELD", *name)
    s.refused("/dev/null", 3, "/dev/null", "/dev/null", *name)
    s.refused("a path of 5 kB", 3, "nnnn", "n" * 5000, *name)
    s.refused("the same set twice", 2, "copy.ms", s.fresh(), *name, "./copy.ms")
    s.refused("no rows", 3, "rows", s.make("zero-rows.ms", "-defect", "zero-rows"), *name)
    s.refused("no spectral windows", 3, "SPECTRAL_WINDOW", s.make("zero-spws.ms", "-defect", "zero-spws"), *name)
    for defect, pattern in (("bad-data-desc-id", "DATA_DESC_ID, row [0-9]+"), ("chan-freq-length", "CHAN_FREQ|channels"),
                            ("corr-type-length", "CORR_TYPE|correlations")):
        s.refused(defect, 3, pattern, s.make(defect + ".ms", "-defect", defect), *name)
    s.refused("no such field", 3, "field", s.fresh(), *name, "-field", 7)
    s.refused("no such spw", 3, "9", s.fresh(), *name, "-spws", 9)
    s.refused("channels that are not there", 3, "channel", s.fresh(), *name, "-channel-range", 2, 9)
    s.refused("bad TaQL", 3, "TaQL|taql", s.fresh(), *name, "-taql", "ANTENNA1 <")
    s.refused("TaQL without rows", 3, "rows", s.fresh(), *name, "-taql", "ANTENNA1 > 1000")
    for file in ("table.dat", "table.f0"):
        path = s.fresh()
        os.truncate(os.path.join(path, file), 100)
        s.refused(file + " cut", 3, "truncated or corrupt", path, *name)
    for title in ODD_NAMES:
        os.rename(s.fresh(), title)
        s.predicted("a set called " + title, title, *name)
        shutil.rmtree(title)


def check_columns_of_sets(s):
    """A replaced column is not read: a set with CORRECTED_DATA and one without can be predicted into together. Only a column
    to add to or to subtract from needs a name."""
    both = fresh_copy(s.make("source-both.ms", "-data-column", "both"), "both.ms")
    s.predicted("sets of other columns", both, *good(s), s.fresh())
    l2, _ = errors(Set("copy.ms").column("MODEL_DATA"), Set("copy.ms").predict(s.model))
    if not l2 <= 1e-4 + COLUMN_FLOOR:
        s.complain("the set without CORRECTED_DATA: error %.1e" % l2)
    s.refused("added to columns of two names", 3, "choose the data column", s.fresh(), *good(s), "-predict-op", "add",
              "-output-column", "SUM_DATA", both)


def check_samples(s):
    """Flags and weights do not matter; a row without a finite UVW is left unchanged."""
    for defect in ("all-flagged", "zero-weights", "nan-vis", "nan-weight"):
        s.predicted(defect, s.fresh("-defect", defect), *good(s))
    for defect in ("nan-uvw", "inf-uvw", "huge-uvw"):
        path = s.fresh("-defect", defect)
        at = Set(path)
        with np.errstate(all="ignore"):
            odd = np.flatnonzero(~(np.isfinite(at.uvw) & (np.abs(at.uvw) < 1e12)).all(1))
            want = at.predict(s.model)
        done = s.launch(*good(s), path)
        column = Set(path).column("MODEL_DATA")
        rest = np.setdiff1d(np.arange(len(column)), odd)
        l2, _ = errors([column[i] for i in rest], [want[i] for i in rest])
        if done.returncode or l2 > 1e-4 or len(odd) != 1 or flat([column[odd[0]]]).any() or "finite UVW" not in done.stderr:
            s.complain("%s: exits %s, error %.1e, %s" % (defect, done.returncode, l2, done.stderr[-500:]))


def spoilt(name, change):
    """A model with a change of its only HDU."""
    with fits.open("good-model.fits") as f:
        hdu = fits.PrimaryHDU(f[0].data.copy(), f[0].header.copy())
    change(hdu)
    hdu.writeto(name + "-model.fits", overwrite=True, output_verify="ignore")
    return ["-name", name]


def raw_card(name, key, text):
    """A card that libraries would not write."""
    spoilt(name, lambda hdu: None)
    with open(name + "-model.fits", "r+b") as f:
        header = f.read(2880 * 2)
        f.seek(header.index(("%-8s=" % key).encode()))
        f.write(("%-8s= %20s" % (key, text)).encode())
    return ["-name", name]


def check_models(s):
    def put(y, x, value):
        return lambda hdu: hdu.data[0, 0].__setitem__((y, x), value)

    def card(**cards):
        return lambda hdu: hdu.header.update(cards)

    path = s.fresh()
    s.refused("no model", 3, "no model found: no file none-model.fits.*-name", path, "-name", "none")
    s.refused("no model by default", 3, "msimage-model.fits", path)
    s.refused("folder of models missing", 3, "absent: No such file", path, "-name", "absent/m")
    s.refused("NaN", 3, "bad-model.fits: pixel .*NaN", path, *spoilt("bad", put(3, 4, np.nan)))
    s.refused("Inf", 3, "bad-model.fits: pixel .*infinite", path, *spoilt("bad", put(60, 4, -np.inf)))
    s.refused("too bright", 3, "bad-model.fits.*1e[+]30", path, *spoilt("bad", put(60, 4, 1e32)))
    for length in (0, 100, 2880, 2880 + 100, os.path.getsize("good-model.fits") // 2, 2880 + 64 * 64 * 4 - 1):
        shutil.copy("good-model.fits", "cut-model.fits")
        os.truncate("cut-model.fits", length)
        s.refused("cut to %d" % length, 3, "cut-model.fits: (truncated or corrupt|not a FITS file)", path, "-name", "cut")
    for key, text in (("NAXIS1", "1000000000"), ("NAXIS1", "9223372036854775807"), ("NAXIS1", "0"), ("NAXIS1", "-64"),
                      ("NAXIS", "999"), ("NAXIS3", "1000000"), ("BITPIX", "17"), ("BITPIX", "32")):
        s.refused("%s = %s" % (key, text), 3, "huge-model.fits", path, *raw_card("huge", key, text))
    s.refused("another unit", 3, "bad-model.fits.*Jy/beam.*-force", path, *spoilt("bad", card(BUNIT="Jy/beam")))
    s.refused("another projection", 3, "bad-model.fits.*RA---TAN", path, *spoilt("bad", card(CTYPE1="RA---TAN")))
    s.refused("rotated", 3, "bad-model.fits.*PC1_2", path, *spoilt("bad", card(PC1_2=0.3)))
    s.refused("slanted", 3, "bad-model.fits.*PV2_1", path, *spoilt("bad", card(PV2_1=0.3)))
    s.refused("between pixels", 3, "bad-model.fits.*CRPIX1 is 33.5", path, *spoilt("bad", card(CRPIX1=33.5)))
    s.refused("a reference far away", 3, "bad-model.fits.*CRPIX1", path, *spoilt("bad", card(CRPIX1=1e15)))
    s.refused("memory", 5, "no memory for .* GB", path, *spoilt("bad", card(CRPIX1=2e5, CRPIX2=-2e5)), "-abs-mem", 1)
    s.refused("another frame", 3, "B1950.*J2000.*-force", path, *spoilt("bad", card(RADESYS="FK4", EQUINOX=1950.0)))
    for degrees, dec in (("30.0", 74.0), ("31.0", 75.0)):
        s.refused(degrees + " degrees off", 3, "bad-model.fits.*%s degrees.*-force" % degrees, path,
                  *spoilt("bad", card(CRVAL2=dec)))
    s.refused("other frequency", 3, "bad-model.fits.*MHz.*-force", path,
              *spoilt("bad", card(CTYPE3="FREQ", CRVAL3=5e9, CDELT3=1e9)))
    s.refused("sizes that differ", 3, "two-Q-model.fits: the size differs from that of two-I-model.fits", path, "-name", two_sizes())
    for pol, pattern in (("XY", "complex"), ("RR", "does not have the correlations of the models")):
        number = {"XY": -7, "RR": -1}[pol]
        s.refused("a model of " + pol, 3, pattern, path, *spoilt("bad", card(CRVAL4=number)))
    # Stokes parameters that do not contribute to the correlations of the set.
    circular = s.fresh("-pol", "RR,LL")
    s.refused("Q into RR, LL", 3, "bad-model.fits: Q does not contribute to the correlations RR LL of spectral window 0 of .*-force",
              circular, *spoilt("bad", card(CRVAL4=2)))
    done = s.launch(*spoilt("bad", card(CRVAL4=2)), "-force", circular)
    s.must(done.returncode == 0 and done.stderr.count("msimage: warning: bad-model.fits: Q does not contribute ") == 1,
           "Q into RR, LL, by force: %s" % done.stderr)
    s.must(not flat(Set(circular).column("MODEL_DATA")).any(), "Q into RR, LL, by force: not zeros")
    for pol, number in (("I", 1), ("U", 3)):
        spoilt("part-" + pol, card(CRVAL4=number))
    log = s.predicted("I and U into RR, LL", circular, "-name", "part")
    s.must(log.count("msimage: warning: part-") == 1 and "no correlation for U, which is not predicted" in log, "I and U: " + log)
    # The same with -force.
    for cards in ({"CTYPE3": "FREQ", "CRVAL3": 5e9, "CDELT3": 1e9}, {"BUNIT": "Jy/beam"}, {"RADESYS": "FK4", "EQUINOX": 1950.0}):
        log = s.predicted("forced: %s" % cards, s.fresh(), *spoilt("forced", card(**cards)), "-force")
        if log.count("msimage: warning: ") != 1:
            s.complain("forced: %s: not one warning: %s" % (cards, log))
    log = s.predicted("ICRS for J2000", s.fresh(), *spoilt("icrs", lambda h: h.header.update(RADESYS="ICRS")))
    if "treated as the same" not in log:
        s.complain("ICRS for J2000: no warning: " + log)
    # Frequencies that touch the set's band.
    s.predicted("a wide band", s.fresh(), *spoilt("wide", card(CTYPE3="FREQ", CRVAL3=1.3e9, CDELT3=0.4e9)))


def two_sizes():
    Model((64, 64), 20 * ASEC, VLA, "IQ").write("two")
    other = Model((66, 64), 20 * ASEC, VLA, "IQ")
    fits.PrimaryHDU(other.image("Q")[None, None], other.header("Q")).writeto("two-Q-model.fits", overwrite=True)
    return "two"


def add_column(path, name, value_type, shape):
    with table(path, readonly=False, ack=False) as t:
        description = makearrcoldesc(name, 0 if value_type != "complex" else 0j, valuetype=value_type, shape=shape)
        t.addcols(maketabdesc([description]), {"TYPE": "StandardStMan", "NAME": "Std" + name})


def check_columns(s):
    path = s.fresh()
    add_column(path, "MODEL_DATA", "complex", [2, 4])
    s.refused("MODEL_DATA of another shape", 3, "MODEL_DATA", path, *good(s))
    path = s.fresh()
    add_column(path, "MODEL_DATA", "float", [4, 4])
    s.refused("MODEL_DATA of another type", 3, "MODEL_DATA", path, *good(s))
    path = s.fresh()
    for column in ("DATA", "FLAG", "UVW", "WEIGHT", "SIGMA_SPECTRUM", "no name", "1ST"):
        s.refused("into " + column, 2, re.escape(column), path, *good(s), "-model-column", column)
    for words, pattern in ((["-predict-op", "add"], "-output-column"),
                           (["-predict-op", "subtract", "-output-column", "DATA", "-data-column", "DATA"], "DATA"),
                           (["-predict-op", "subtract", "-output-column", "DATA"], "DATA")):
        s.refused(" ".join(words), 2, pattern, path, *good(s), *words)
    s.refused("no such input", 3, "NOSUCH", path, *good(s), "-predict-op", "add", "-output-column", "SUM", "-data-column",
              "NOSUCH")
    # A column among others in one storage manager, and one with its own manager.
    for own in (False, True):
        path = s.fresh()
        with table(path, readonly=False, ack=False) as t:
            names = ["MODEL_DATA"] if own else ["MODEL_DATA", "OTHER"]
            t.addcols(maketabdesc([makearrcoldesc(n, 0j, valuetype="complex", ndim=2) for n in names]),
                      {"TYPE": "TiledShapeStMan", "NAME": "Tiled", "DEFAULTTILESHAPE": [4, 4, 100]} if own else
                      {"TYPE": "StandardStMan", "NAME": "Shared"})
            for n in names:
                t.putcol(n, t.getcol("DATA"))
        log = s.launch(*good(s), path)
        at = Set(path)
        l2, _ = errors(at.column("MODEL_DATA"), at.predict(s.model))
        if log.returncode or l2 > 1e-4 or not own and (flat(at.column("OTHER")) != flat(at.column("DATA"))).any():
            s.complain("own storage manager %d: exits %d, error %.1e: %s" % (own, log.returncode, l2, log.stderr))


def check_outputs(s):
    path, model = os.path.abspath(s.fresh()), os.path.abspath("good-model.fits")
    with s.where_others_have_access("a read-only set") as folder:
        if folder:
            shutil.copy(model, ".")
            read_only = shutil.copytree(path, "copy.ms")
            change_modes(read_only, 0o444, 0o555)
            s.refused("a read-only set", 4, "copy.ms", read_only, *good(s), preexec_fn=as_other_user())
            s.refused("a read-only set, dry run", 4, "copy.ms", read_only, *good(s), "-dry-run", preexec_fn=as_other_user())
            change_modes(read_only, 0o644, 0o755)
    # A limit of file sizes stands for a full disk.
    for limit in (1 << 12, 1 << 18):
        s.refused("a full disk", 4, "copy.ms", path, *good(s), preexec_fn=with_small_files(limit))
    s.predicted("then with space", path, *good(s))


def check_wanted(s):
    """Options of imaging that a model answers are compared with it, in WSClean's units, before anything is written."""
    header = fits.getheader("good-model.fits")
    nx, ny, scale = header["NAXIS1"], header["NAXIS2"], header["CDELT2"]
    pol = header.get("CTYPE4") and "I"
    for words in (["-size", nx, ny, "-scale", repr(scale)], ["-scale", "%.9gasec" % (scale * 3600), "-pol", pol],
                  ["-channels-out", 1, "-padding", 1]):
        s.predicted("given as the model is: %s" % words, s.fresh(), *good(s), *words)
    for pattern, words in (("-size 32 32: good-model.fits has %d x %d" % (nx, ny), ["-size", 32, 32]),
                           ("-scale: good-model.fits has pixels of", ["-scale", repr(scale * 1.01)]),
                           ("-channels-out 2: good-model.fits has 1 channel", ["-channels-out", 2]),
                           ("-pol: there is no model of Q in good-model.fits", ["-pol", "IQ"]),
                           ("-pol: there is no model of V", ["-pol", "V"])):
        s.refused("given %s" % words, 3, pattern, s.fresh(), *good(s), *words)


def check_dry_run(s):
    """A dry run prints the plan, and writes nothing."""
    path = s.fresh()
    for _ in range(2):
        before = files(path)
        done = s.launch(*good(s), "-dry-run", path)
        for what in (r"model good-model.fits, Stokes I: flux [0-9.]+ Jy", r"models: good-model.fits; 64 x 64 pixels",
                     r"[0-9]+ w-planes? \([0-9]+ in memory\)", r"memory: visibilities [0-9.]+ GB", r"disk: .*copy.ms",
                     r"to predict: [0-9]+ rows, [0-9]+ samples", r"time: about \d+ s to read, \d+ s to degrid, \d+ s to write"):
            if not re.search(what, done.stderr):
                s.complain("-dry-run: /%s/ is not in: %s" % (what, done.stderr))
        if done.returncode or done.stdout or files(path) != before:
            s.complain("-dry-run: exits %d, writes" % done.returncode)
        s.predicted("after a dry run", path, *good(s))


def told_at_once(s, path, *words):
    """Check that a run reports within 5 s that the set is in use. A busy machine starts processes late, so one of many runs
    in time is enough; runs that wait for the lock would never be in time."""
    until = time.monotonic() + GUARD_S
    while True:
        began = time.monotonic()
        done = s.launch("-quiet", *good(s), *words, path)
        took = time.monotonic() - began
        if done.returncode != 6 or "in use" not in done.stderr or done.stderr.count("\n") != 1 or began > until:
            s.complain("a second run: exits %s after %.1f s: %s" % (done.returncode, took, done.stderr))
            return
        if took < 5:
            return


def check_no_proc(s):
    """Without /proc, as in some containers, the error for a model is still right."""
    without = ["unshare", "-m", "sh", "-c", "umount -l /proc && exec \"$0\" \"$@\""]
    is_gone = [*without, "test", "!", "-e", "/proc/self/fd"]
    if sanitized(s.msimage) or not shutil.which("unshare") or subprocess.run(is_gone, stderr=subprocess.DEVNULL,
                                                                           check=False).returncode:
        print("skipped: /proc cannot be unmounted here", flush=True)
        return
    path = s.fresh()
    done = subprocess.run([*without, s.msimage, "-quiet", "-predict", "-name", "good", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, encoding="utf-8", errors="replace")
    s.told("no /proc", done, 3, "good-model.fits: .*/proc, which is not mounted")


def check_lock(s):
    """While one run works on a set, another one is refused at once, and neither is harmed."""
    path = s.fresh()
    first = Held([s.msimage, "-predict", "-name", "good", path])
    first.hold_after_line("disk: ")
    for words in ([], ["-dry-run"]):
        told_at_once(s, path, *words)
    s.must(first.is_written(0), "the first run is held all the while")
    code = first.end()
    at = Set(path)
    if code or errors(at.column("MODEL_DATA"), at.predict(s.model))[0] > 1e-4:
        s.complain("the first run: exits %s: %s" % (code, first.text.decode()))


main(Inputs, globals())
