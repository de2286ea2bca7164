#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_extremes.py MSIMAGE MSIMAGE_MAKEMS: extreme values in data, weights, coordinates and options give the right image or
one line that names the cause; images with NaN or Inf are not published."""
import os

import numpy as np
from casacore.tables import table

from image_oracle import ASEC, FITS_FLOOR, Frame, load, peak_error, pixels, read
from predict_oracle import COLUMN_FLOOR, Model, Set, errors
from program_suite import VLA, ImagingSuite, files, fresh_copy, main

SIZE, CELL = 64, "20asec"
IMAGE = ["-size", SIZE, SIZE, "-scale", CELL, "-accuracy", 1e-5]
SET = ["-telescope", "vla", "-config", "D", "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-duration", "30s", "-spw",
       "1GHz", "40MHz", "4", "-random-sources", "10", "1", "10amin", "-weight-spectrum", "none"]


class Extremes(ImagingSuite):
    def fresh(self):
        """A copy of the set to damage."""
        return fresh_copy(self.made("good.ms", *SET), self.path("copy.ms"))

    def images(self, title, *words):
        """Run. Returns the log and each image with its header; None after a failure."""
        done = self.launch(*IMAGE, "-name", "o", *words)
        if done.returncode:
            self.complain("%s: exits %s: %s" % (title, done.returncode, done.stderr[-1500:]))
        found = {}
        for name in os.listdir(self.out):
            found[name] = load(os.path.join(self.out, name))
            os.remove(os.path.join(self.out, name))
        return None if done.returncode else (done.stderr, found)


def change(path, jy=None, weight=None):
    """Multiply all data, and set all weights."""
    with table(path, readonly=False, ack=False) as t:
        if jy is not None:
            data = t.getcol("DATA").astype(complex)
            t.putcol("DATA", (data / np.abs(data).max() * jy).astype(np.complex64))
        if weight is not None:
            t.putcol("WEIGHT", np.full_like(t.getcol("WEIGHT"), weight))


def check_magnitudes(s):
    """Data and weights of any size give the image of the direct sum, a PSF of 1 at its centre, and their own sums in the
    headers; the log says if they are scaled."""
    frame = Frame(SIZE, SIZE, 20 * ASEC, np.deg2rad(60), np.deg2rad(44))
    x, y = pixels(SIZE, SIZE)
    for jy, weight, scaled in ((1, 1, False), (9e29, 1e9, True), (9e29, 1e-30, True), (1e-37, 1, True), (1, 1e-44, True),
                               (1e-37, 1e-44, True), (9e29, 3e38, True), (1, 1e-9, False)):
        path = s.fresh()
        change(path, jy, weight)
        at = frame.inside(read(path))
        for words, mode, taper in (([], "natural", 0), (["-weight", "uniform"], "uniform", 0),
                                   (["-weight", "briggs", 0], "briggs", 0),
                                   (["-taper-gaussian", "60asec"], "natural", 60 * ASEC), (["-channels-out", 2], "natural", 0),
                                   (["-precision", "fp64"], "natural", 0)):
            title = "%g Jy of weight %g, %s" % (jy, weight, " ".join(str(w) for w in words))
            given = s.images(title, "-make-psf", *words, path)
            if not given:
                continue
            log, found = given
            mfs = "-MFS" if "-channels-out" in words else ""
            data, header = found["o%s-dirty.fits" % mfs]
            want = frame.weigh(at, mode, taper=taper)
            error = peak_error(data[y, x], frame.image(at, x, y, want), data)
            # Stokes I halves the smallest data, which are then exact to 2^-25.
            s.must(error <= 2e-5 + FITS_FLOOR, "%s: error %.1e" % (title, error))
            psf = found["o%s-psf.fits" % mfs][0]
            s.must(abs(psf[SIZE // 2, SIZE // 2] - 1) < 2e-5 and np.isfinite(psf).all(), "%s: PSF" % title)
            for card, value in (("WSCVWSUM", at.weight.sum()), ("WSCIMGWG", want.sum()), ("WSCENVIS", want.sum() / want.max())):
                s.must(abs(header[card] / value - 1) < 1e-6, "%s: %s %g of %g" % (title, card, header[card], value))
            if mode == "natural":
                s.must(("outside the range of fp32" in log) == scaled, "%s: told %s" % (title, scaled))


def check_models(s):
    """Models of any brightness are predicted with the same accuracy."""
    for jy in (1e-44, 1e-37, 1e-30, 1, 9e27):
        model = Model((SIZE, SIZE), 20 * ASEC, VLA).scaled(jy, None)
        model.write(os.path.join(s.out, "m"))
        path = s.fresh()
        done = s.launch("-predict", "-name", "m", "-accuracy", 1e-5, path)
        # The smallest floats have a single digit: 2^-149.
        floor = 2.0**-150 / np.sqrt((model.flux["I"]**2).sum())
        error = np.inf if done.returncode else errors(Set(path).column("MODEL_DATA"), Set(path).predict(model))[0]
        s.must(error <= 1e-5 + COLUMN_FLOOR + floor, "a model of %g Jy: error %.1e, exits %s" % (jy, error, done.returncode))


def check_weights_as_they_are(s):
    """-save-weights writes the weights of the set, even if they were scaled for gridding; if their sum exceeds a float,
    nothing is written."""
    path = s.fresh()
    change(path, 1, 1e-36)
    given = s.images("weights of 1e-36", "-save-weights", path)
    if given:
        total = read(path).weight.sum()
        saved = given[1]["o-weights.fits"][0].sum() / 2
        s.must(abs(saved / total - 1) < 1e-6, "weights of 1e-36: %g of %g" % (saved, total))
    change(path, 1, 1)
    with table(path, readonly=False, ack=False) as t:
        weight = t.getcol("WEIGHT")
        weight[17] = 3e38
        t.putcol("WEIGHT", weight)
    s.refused("a sum of weights beyond floats", 3, "copy.ms, row 17: weight times visibility is .*e.38, the largest.*grid of the uv plane",
              *IMAGE, "-save-weights", "-size", 16, 16, path)
    s.must(s.images("the image of such weights", path) is not None, "the image of such weights")


def put(path, what, column, change_values):
    """Change a column of a set or of a subtable."""
    with table(os.path.join(path, what), readonly=False, ack=False) as t:
        values = t.getcol(column)
        change_values(values)
        t.putcol(column, values)


def right(s, title, *words, path, error=2e-5):
    """Check the image against the direct sum. Returns the log."""
    frame = Frame(SIZE, SIZE, 20 * ASEC, *table(path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0])
    x, y = pixels(SIZE, SIZE)
    given = s.images(title, *words, path)
    if not given:
        return ""
    data, _ = given[1]["o-dirty.fits"]
    off = peak_error(data[y, x], frame.image(frame.inside(read(path)), x, y), data)
    s.must(off <= error + FITS_FLOOR, "%s: error %.1e" % (title, off))
    return given[0]


def check_w(s):
    """A strategy without work is replaced by another one, with a line in the log; w beyond all planes is an error of the set;
    a wrong position of an antenna does not matter."""
    good = s.made("good.ms", *SET)
    tiny = ["-scale", "0.001asec", "-strategy", "subgrid"]
    for words in ([], ["-dry-run"]):
        given = s.images("subgrids without w", *tiny, *words, good)
        s.must(given and "-strategy subgrid: w is negligible in this field; using planes" in given[0] and
               bool(given[1]) != bool(words), "subgrids without w, told %s" % words)
    Model((SIZE, SIZE), 0.001 * ASEC, VLA).write(os.path.join(s.out, "m"))
    path = s.fresh()
    done = s.launch("-predict", "-name", "m", "-strategy", "subgrid", path)
    s.must(done.returncode == 0 and "using planes" in done.stderr, "predicting by subgrids without w: %s" % done.stderr[-300:])
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    for metres in (1e8, 1e12, 1e300, np.inf, np.nan):
        path = s.fresh()
        put(path, "ANTENNA", "POSITION", lambda p: p.__setitem__(3, [metres, 0, 0]))
        right(s, "an antenna at %g m" % metres, path=path)
        given = s.images("an antenna at %g m, subgrids" % metres, "-strategy", "subgrid", "-size", 256, 256, path)
        s.must(given is not None, "an antenna at %g m, subgrids" % metres)
    s.refused("kernels that are not", 2, "accuracy 1e-09 .* w up to [1-9].*-gridder wgrid", *IMAGE, "-gridder", "wproj",
              "-accuracy", 1e-9, good)
    # Positions can be wrong by less than the limit for dropping them, and yet beyond any plan.
    path = s.fresh()
    put(path, "ANTENNA", "POSITION", lambda p: p.__setitem__(3, [9e8, 0, 0]))
    given = s.images("an antenna at the Moon", "-size", 1024, 1024, "-scale", "200asec", "-accuracy", 1e-2, path)
    s.must(given and "give no usable bound of w" in given[0], "an antenna at the Moon, told")
    path = s.fresh()
    put(path, "", "UVW", lambda uvw: uvw.__setitem__((7, 2), 9e11))
    for words in ([], ["-dry-run"], ["-channels-out", 2], ["-gridder", "wgrid", "-strategy", "subgrid"]):
        s.refused("w beyond planes %s" % words, 3, "w up to 3.[13][26]e[+]12 wavelengths needs .* w-planes.*-maxuvw-m", *IMAGE, *words,
                  path)
    s.must(s.images("w beyond planes left out", "-maxuvw-m", 1e6, path) is not None, "w beyond planes left out")


def check_w_of_models(s):
    """The same for predicting: nothing is written."""
    Model((SIZE, SIZE), 20 * ASEC, VLA).write(s.path("m"))
    path = s.fresh()
    put(path, "", "UVW", lambda uvw: uvw.__setitem__((7, 2), 9e11))
    before = files(path)
    for words in ([], ["-dry-run"], ["-strategy", "subgrid"]):
        s.refused("w beyond planes, predicting %s" % words, 3, "w up to 3.[13][26]e[+]12 wavelengths.*-maxuvw-m", "-predict", "-name",
                  s.path("m"), *words, path)
    s.must(files(path) == before, "w beyond planes, predicting: the set is as it was")


def check_centres(s):
    """A declination beyond the pole is refused. Centres that differ by rounding are shifted to one: at 8e9 wavelengths 1e-10
    radians are most of a turn."""
    path = s.fresh()
    put(path, "FIELD", "PHASE_DIR", lambda d: d.__setitem__((Ellipsis, 1), 2.0))
    for words in ([], ["-shift", "60deg", "44deg"], ["-dry-run"]):
        s.refused("a declination of 2 rad %s" % words, 3, "FIELD: column PHASE_DIR, row 0: a declination of 114.592", *IMAGE,
                  *words, path)
    Model((SIZE, SIZE), 20 * ASEC, VLA).write(s.path("m"))
    s.refused("a declination of 2 rad, predicting", 3, "PHASE_DIR, row 0", "-predict", "-name", s.path("m"), path)
    long, near = s.fresh(), s.path("near.ms")
    put(long, "", "UVW", lambda uvw: uvw.__imul__(8e9 / (np.abs(uvw).max() * 1e9 / 299792458.0)))
    fresh_copy(long, near)
    put(near, "FIELD", "PHASE_DIR", lambda d: d.__iadd__(1e-10))
    cell = 0.01e-3 * ASEC
    frame = Frame(SIZE, SIZE, cell, *table(long + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0])
    x, y = pixels(SIZE, SIZE)
    given = s.images("centres that are equal except for rounding", "-scale", "0.01masec", long, near)
    if given:
        data, _ = given[1]["o-dirty.fits"]
        error = peak_error(data[y, x], frame.image(frame.inside(read([long, near])), x, y), data)
        s.must(error <= 2e-5 + FITS_FLOOR, "centres that are equal except for rounding: error %.1e" % error)


def check_taql(s):
    """Only indices that count from 0 give a warning."""
    good = s.made("good.ms", *SET)
    for condition, told in (("UVW[0] > 0", True), ("ANTENNA1 > 1 and UVW[ 0 ] < 1e9", True), ("any(UVW[0:2] > -1e9)", True),
                            ("any(DATA[1,0] != 0)", True), ("UVW[1] > 0", False), ("UVW[3] > 0 || UVW[10-8] > 0", False),
                            ("ANTENNA1 in [0,1,2]", False), ("ANTENNA1 IN[0,1]", False), ("any(DATA[1,1] != 0)", False),
                            ("'UVW[0]' != 'x'", False)):
        log = s.launch(*IMAGE, "-dry-run", "-taql", condition, good).stderr
        s.must(("indices begin at 1" in log) == told, "%s: told %s" % (condition, told))


def check_metadata(s):
    """Values that are only written to headers and logs do no harm, and wrong ones are left out."""
    def headers(title, path, *words):
        given = s.images(title, *words, path)
        return given and (given[0], given[1]["o-dirty.fits"][1])

    for time in (1e300, 2.6e11, 0, -1e300):
        path = s.fresh()
        put(path, "", "TIME", lambda t: t.__setitem__(Ellipsis, time))
        given = headers("times of %g" % time, path)
        s.must(given and not {"DATE-OBS", "MJD-OBS", "TIMESYS"} & set(given[1]), "times of %g: no date" % time)
    for width in (np.nan, np.inf, -np.inf, 1e300, 1e10):
        path = s.fresh()
        put(path, "SPECTRAL_WINDOW", "CHAN_WIDTH", lambda w: w.__setitem__(Ellipsis, width))
        given = headers("channels %g Hz wide" % width, path)
        s.must(given and given[1]["CRVAL3"] == 1.06e9 and given[1]["CDELT3"] == 0.12e9,
               "channels %g Hz wide: %s" % (width, given and given[1].get("CRVAL3")))
    for hz in (1e-300, 1e-30):
        path = s.fresh()
        put(path, "SPECTRAL_WINDOW", "CHAN_FREQ", lambda f: f.__setitem__(Ellipsis, hz))
        given = s.images("frequencies of %g" % hz, "-make-psf", path)
        s.must(given and "resolution:" not in given[0] and given[0].count("no beam:") == 1, "frequencies of %g: the log" % hz)


def check_tapers(s):
    """If a taper removes all samples, the error names the taper."""
    good = s.made("good.ms", *SET)
    for taper in ("90deg", "1e300deg"):
        s.refused("a taper of " + taper, 3, "zero weight after weighting and taper", *IMAGE, "-taper-gaussian", taper, good)


def check_memory(s):
    """The error does not suggest fewer processes if there is only one."""
    Model((SIZE, SIZE), 20 * ASEC, VLA).write(s.path("m"))
    s.refused("no memory for a block", 5, "the blocks of 1 reader process need 0.[0-9]+ GB; the limit is 0.001 GB; allow more with -abs-mem or -mem$",
              "-predict", "-name", s.path("m"), "-abs-mem", 0.001, s.fresh())


def check_twice(s):
    """A set that is given twice, also under another name, counts twice, with a warning."""
    good, link = s.made("good.ms", *SET), s.path("link.ms")
    os.symlink(good, link)
    for other in (good, good + "/", link, os.path.relpath(good, s.out)):
        given = s.images("a set twice", good, other)
        s.must(given and "the same Measurement Set; its samples count twice" in given[0], "a set twice, as %s" % other)
    given = s.images("sets alike", good, s.fresh())
    s.must(given and "same Measurement Set" not in given[0], "sets alike")


def in_intervals(s, title, paths, n_interval, n_time, *words, **selected):
    """Check that each of several intervals is the image of its samples, or NaN without samples."""
    frame = Frame(SIZE, SIZE, 20 * ASEC, *table(paths[0] + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0])
    x, y = pixels(SIZE, SIZE)
    for readers in (1, 2):
        given = s.images(title, "-intervals-out", n_interval, "-readers", readers, *words, *paths)
        for i in range(n_interval if given else 0):
            data, _ = given[1]["o-t%04d-dirty.fits" % i]
            at = frame.inside(read(paths, interval=(n_time * i // n_interval, n_time * (i + 1) // n_interval), **selected))
            if not len(at.vis):
                s.must(np.isnan(data).all() and "interval %d has no selected row" % i in given[0], "%s: interval %d is NaN" % (title, i))
                continue
            error = peak_error(data[y, x], frame.image(at, x, y), data)
            s.must(error <= 2e-5 + FITS_FLOOR, "%s: interval %d: error %.1e" % (title, i, error))


def check_intervals(s):
    """A channel has the same number in all intervals, even if its window has no rows there; a set with fewer times than
    others is divided by the times that it has."""
    two = [w for w in SET if w != "30s"]
    two.insert(two.index("-duration") + 1, "40s")
    path = s.made("two.ms", *two, "-spw", "1.5GHz", "40MHz", 4)
    with table(path, readonly=False, ack=False) as t:
        times = np.unique(t.getcol("TIME"))
        ddid = t.getcol("DATA_DESC_ID")
        ddid[:] = t.getcol("TIME") >= times[len(times) // 2]
        t.putcol("DATA_DESC_ID", ddid)
    n = len(times)
    for channels in ((0, 4), (4, 8), (2, 6), (5, 7)):
        in_intervals(s, "channels %d to %d" % channels, [path], n, n, "-channel-range", *channels, channels=channels)
        given = s.images("channels %d to %d of the second half" % channels, "-interval", n // 2, n, "-channel-range", 2, 6, path)
        s.must(given is not None, "channels %d to %d of the second half" % channels)
    s.refused("channels without a row", 3, "no row is selected", *IMAGE, "-interval", 0, n // 2, "-channel-range", 4, 8, path)
    s.refused("channels that are not there, in intervals", 3, "channels 4 to 9 .*; the end is at most 8", *IMAGE, "-intervals-out", n,
              "-channel-range", 4, 9, path)
    # Output channels divide the channels of all intervals.
    given = s.images("output channels in intervals", "-intervals-out", 2, "-channels-out", 4, path)
    for i, c in [(i, c) for i in range(2) for c in range(4)] if given else []:
        data, header = given[1]["o-t%04d-%04d-dirty.fits" % (i, c)]
        s.must(header["CRVAL3"] == given[1]["o-t0000-%04d-dirty.fits" % c][1]["CRVAL3"] and
               np.isnan(data).all() == (i != c // 2), "output channel %d of interval %d" % (c, i))
    long, short = s.made("long.ms", *two), s.made("good.ms", *SET)
    for paths in ([long, short], [short, long], [short, long, short]):
        for n_interval in (2, n):
            in_intervals(s, "%d intervals of %s" % (n_interval, [os.path.basename(p) for p in paths]), paths, n_interval, n)


main(Extremes, globals())
