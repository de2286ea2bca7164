#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""predict_truth.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: predicted columns of generated sets against the exact sum over the
pixels, for all ways of choosing models, samples and columns; nothing else in the sets changes.

The relative L2 error over all samples must be at most the -accuracy, that of the worst sample twenty times that of the rms.
"""
import os

import numpy as np
from casacore.tables import table

from image_oracle import ASEC
from predict_oracle import COLUMN_FLOOR, Model, Set, contents, errors, flat, marked
from program_suite import LOW, MEERKAT, VLA, Suite, fresh_copy, main, run

NOISY = ["-flags", "0.1", "-flag-rows", "0.05", "-noise", "0.2Jy"]
SETS = {
    "vla": (VLA, ["-telescope", "vla", "-duration", "1min", "-spw", "1GHz", "40MHz", "6", "-start-ha", "-2h", "-pol",
                  "XX,XY,YX,YY", *NOISY, "-autocorrelations"]),
    "vla-rl": (VLA, ["-telescope", "vla", "-duration", "20s", "-pol", "RR,RL,LR,LL", "-spw", "1GHz", "40MHz", "6", *NOISY]),
    "vla-xxyy": (VLA, ["-telescope", "vla", "-duration", "20s", "-pol", "XX,YY", *NOISY]),
    "vla-yy": (VLA, ["-telescope", "vla", "-duration", "20s", "-pol", "YY"]),
    "meerkat": (MEERKAT, ["-telescope", "meerkat", "-duration", "16s", "-integration", "8s", "-start-ha", "-3h", "-spw",
                          "900MHz", "5MHz", "6", "-spw", "1.5GHz", "-20MHz", "5", "-spw", "1.2GHz", "10MHz", "4",
                          "-spw-order", "row", *NOISY, "-storage", "standard", "-weight-spectrum", "none"]),
    "low": (LOW, ["-telescope", "skalow", "-stations", "64", "-start-ha", "-4h", "-duration", "40s", "-spw", "101MHz",
                  "10MHz", "4", *NOISY, "-data-column", "both"]),
    "both": (VLA, ["-telescope", "vla", "-duration", "1min", "-spw", "1GHz", "40MHz", "6", "-noise", "0.2Jy", "-pol",
                   "XX,XY,YX,YY", "-data-column", "both"]),
    "mosaic": (VLA, ["-telescope", "vla", "-duration", "1min", "-field", "60.2deg", "44.1deg", "-field", "59.7deg",
                     "43.85deg", *NOISY]),
}


class Truth(Suite):
    def ms(self, name):
        """A new copy of a set."""
        return fresh_copy(self.made_at(name + ".ms", *SETS[name]), self.path(name + "-copy.ms"))

    def name(self, models):
        """Write models under a new name."""
        name = self.path("model%d" % next(self.number))
        if isinstance(models, list):
            for i, m in enumerate(models):
                m.write(name, i)
        else:
            models.write(name)
        return name

    def predict(self, models, paths, *options, column="MODEL_DATA"):
        """Predict into sets. Returns the log. Only the column may change."""
        paths = [paths] if isinstance(paths, str) else paths
        before = [contents(p, (column,)) for p in paths]
        done = run(self.msimage, "-predict", "-j", 2, "-name", self.name(models), *options, *paths)
        for p, was in zip(paths, before):
            now = contents(p, (column,))
            changed = [k for k in set(was) | set(now) if was.get(k) != now.get(k)]
            if changed or marked(p) or done.stdout:
                self.must(False, "%s: changed: %s; mark %d; stdout %s" % (p, changed, marked(p), done.stdout))
        return done.stderr.decode()

    def held(self, title, path, want, accuracy, column="MODEL_DATA", mask=None, before=None):
        """Check that the column is the exact sum in the selection, and unchanged elsewhere."""
        got = Set(path).column(column)
        if mask is not None:
            chosen = flat(mask)
            rest = flat(got)[~chosen]
            if before is None:
                before = [np.zeros_like(g) for g in got]
            self.must((rest == flat(before)[~chosen]).all(), "%-44s %d samples untouched" % (title, len(rest)))
            got, want = [flat(got)[chosen]], [flat(want)[chosen]]
        l2, worst = errors(got, want)
        good = l2 <= accuracy + COLUMN_FLOOR and worst <= 20 * (accuracy + COLUMN_FLOOR)
        self.must(good, "%-44s error %.2e, worst %.2e, asked %.0e" % (title, l2, worst, accuracy))

    def check(self, title, name, models, accuracy, *options, want=None, **at):
        path = self.ms(name)
        log = self.predict(models, path, "-accuracy", accuracy, *options)
        self.held(title, path, Set(path).predict(models, **at) if want is None else want, accuracy)
        return log


def check_accuracies(s):
    # At 1e-8 the error is the rounding of the column.
    for name, model in (("vla", Model((384, 360), 4 * ASEC, VLA)), ("meerkat", Model((512, 512), 2 * ASEC, MEERKAT)),
                        ("low", Model((800, 400), 40 * ASEC, LOW))):
        want = Set(s.ms(name)).predict(model)
        for accuracy in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
            s.check("%s %g" % (name, accuracy), name, model, accuracy, want=want)
    s.check("low, horizon to horizon", "low", Model((256, 256), 1700 * ASEC, LOW), 1e-4)
    s.check("fp64", "vla", Model((384, 360), 4 * ASEC, VLA), 1e-4, "-precision", "fp64")
    s.check("padding", "vla", Model((384, 360), 4 * ASEC, VLA), 1e-4, "-padding", 2)


def check_polarisations(s):
    for name in ("vla", "vla-rl", "vla-xxyy"):
        s.check(name + " IQUV", name, Model((256, 256), 5 * ASEC, VLA, "IQUV"), 1e-5)
    s.check("vla I and V", "vla", Model((256, 256), 5 * ASEC, VLA, "IV"), 1e-5)
    s.check("one hand", "vla-yy", Model((256, 256), 5 * ASEC, VLA, "IQUV"), 1e-5)
    s.check("Q alone", "vla-rl", Model((256, 256), 5 * ASEC, VLA, "Q"), 1e-5)
    path = s.ms("vla")
    hands = Model((256, 256), 5 * ASEC, VLA, ["XX", "YY"])
    s.predict(hands, path, "-accuracy", 1e-5)
    s.held("models of hands", path, Set(path).predict(hands), 1e-5)
    s.check("four hands", "vla", Model((256, 256), 5 * ASEC, VLA, ["XX", "XY", "XYi", "YY"]), 1e-5)
    s.check("two hands and V", "vla", Model((256, 256), 5 * ASEC, VLA, ["XX", "YY", "V"]), 1e-5)
    # A model of Stokes I sets the cross-hands to zero.
    model = Model((256, 256), 5 * ASEC, VLA)
    s.predict(model, path)
    cross = [c[:, 1:3] for c in Set(path).column("MODEL_DATA")]
    s.must((flat(cross) == 0).all(), "cross-hands of Stokes I are zero")


def check_channels(s):
    base = Model((256, 256), 2 * ASEC, MEERKAT, freq=1e9)
    # In the set: 900 .. 925, 1200 .. 1230, 1420 .. 1500 MHz.
    models = [base.scaled(f, f * 1e9, 0.1e9) for f in (0.9, 1.2, 1.42, 1.45)]

    def linear(freq, freqs):
        i = int(np.searchsorted(freqs, freq, "right")) - 1
        if i < 0 or i == len(freqs) - 1:
            return [(max(i, 0), 1.0)]
        t = (freq - freqs[i]) / (freqs[i + 1] - freqs[i])
        return [(i, 1 - t), (i + 1, t)]

    s.check("linear", "meerkat", models, 1e-5, "-model-interpolation", "linear", at=linear)
    s.check("linear, beyond both ends", "meerkat", models[1:2] + [base.scaled(1.3, 1.3e9, 1e8)], 1e-5,
            "-model-interpolation", "linear", at=linear)
    s.check("linear, frequencies of the set", "vla", [Model((256, 256), 5 * ASEC, VLA, "IQ", freq=1e9).scaled(i + 1, f, 40e6)
                                                      for i, f in enumerate(1e9 + 40e6 * np.arange(6))], 1e-5,
            "-model-interpolation", "linear", at=linear)
    # By bands: 1.42's ends where 1.45's begins, halfway between 1.47 and 1.40.
    edges = [1.05e9, 1.31e9, 1.435e9]
    s.check("nearest", "meerkat", models, 1e-5, at=lambda f, _: [(int(np.searchsorted(edges, f, "right")), 1.0)])
    # A wide band next to a narrow one: a frequency in the wide band belongs to it, even if the centre of the narrow one is
    # nearer.
    wide = [base.scaled(1, 1.1e9, 0.6e9), base.scaled(2, 1.45e9, 0.1e9)]
    s.check("nearest, by bands", "meerkat", wide, 1e-5, at=lambda f, _: [(int(f >= 1.4e9), 1.0)])
    s.check("one of two is used", "vla-xxyy", [Model((256, 256), 5 * ASEC, VLA, freq=1e9, width=1e9).scaled(1, f, 0.9e9)
                                               for f in (1e9, 3e9)], 1e-5, at=lambda f, _: [(int(f > 2e9), 1.0)])
    s.check("one model for all", "meerkat", models[1], 1e-5)


def check_centres(s):
    s.check("centre 3 amin off", "vla", Model((256, 256), 5 * ASEC, (60.05, 44.03), "IV"), 1e-5)
    s.check("centre 10 degrees off", "vla", Model((256, 256), 4 * ASEC, (72.0, 50.0)), 1e-5)
    s.check("centre 40 degrees off, forced", "vla", Model((256, 256), 4 * ASEC, (110.0, 50.0)), 1e-5, "-force")
    s.check("centre 100 degrees off, forced", "vla", Model((64, 64), 4 * ASEC, (60.0, -56.0)), 1e-5, "-force")
    s.check("centre a milliarcsecond off", "vla", Model((256, 256), 4 * ASEC, (60.0 + 1 / 3.6e6, 44.0)), 1e-6)
    s.check("odd sizes", "vla", Model((255, 201), 5 * ASEC, VLA), 1e-5)
    s.check("tiny", "vla", Model((1, 1), 5 * ASEC, (60.01, 44.0)), 1e-5)
    s.check("3 x 40 pixels", "vla", Model((3, 40), 30 * ASEC, VLA), 1e-5)
    s.check("reference elsewhere", "vla", Model((100, 120), 5 * ASEC, VLA, crpix=(-20, 110)), 1e-5)
    path = s.ms("mosaic")
    model = Model((400, 400), 5 * ASEC, (60.1, 44.0), "IQ")
    s.predict(model, path, "-accuracy", 1e-5, "-field", "all")
    s.held("all fields", path, Set(path).predict(model), 1e-5)
    two = [s.ms("vla"), s.ms("vla-rl")]
    model = Model((256, 256), 5 * ASEC, VLA, "IQUV")
    s.predict(model, two, "-accuracy", 1e-5)
    for path in two:
        s.held("two sets: " + os.path.basename(path), path, Set(path).predict(model), 1e-5)


def check_selections(s):
    first, second = Model((256, 256), 5 * ASEC, VLA, seed=3), Model((256, 256), 5 * ASEC, VLA, "IQUV", seed=4)
    for name, title, options, chosen in (
            ("vla", "channel range", ["-channel-range", 2, 5], {"channels": (2, 5)}),
            ("vla", "interval", ["-interval", 1, 4], {"interval": (1, 4)}),
            ("vla", "taql", ["-taql", "ANTENNA1 > 4 and SUMSQR(UVW) > 1e6"], {"taql": "ANTENNA1 > 4 and SUMSQR(UVW) > 1e6"}),
            ("vla", "select-antenna", ["-select-antenna", "0~9&"],
             {"taql": "ANTENNA1 <= 9 && ANTENNA2 <= 9 && ANTENNA1 != ANTENNA2"}),
            ("vla", "select-uvrange", ["-select-uvrange", "500~1500m"],
             {"taql": "SQRT(SUMSQR(UVW[0:2])) between 500 and 1500"}),
            ("vla", "select-spw", ["-select-spw", "0:2~4"], {"channels": (2, 5)}),
            ("meerkat", "spws", ["-spws", "2,0"], {"spws": (0, 2)}),
            ("meerkat", "channels across spws", ["-channel-range", 4, 9], {"channels": (4, 9)}),
            ("meerkat", "channels of a descending spw", ["-spws", 1, "-channel-range", 1, 3],
             {"spws": (1,), "channels": (1, 3)}),
            ("mosaic", "field 0 by default", [], {"fields": (0,)}), ("mosaic", "field 1", ["-field", 1], {"fields": (1,)}),
            ("mosaic", "field by name", ["-select-field", "field2"], {"fields": (2,)})):
        path = s.ms(name)
        at = Set(path)
        centre = SETS[name][0]
        first.centre_deg = second.centre_deg = centre
        mask = at.mask(**chosen)
        want = at.predict(second)
        # Into a new column, whose other samples are zero; and over one that is full.
        s.predict(second, path, "-accuracy", 1e-5, *options)
        s.held(title, path, want, 1e-5, mask=mask)
        s.predict(first, path, "-field", "all")
        before = at.column("MODEL_DATA")
        s.predict(second, path, "-accuracy", 1e-5, *options)
        s.held(title + ", again", path, want, 1e-5, mask=mask, before=before)


def check_operations(s):
    model, other = Model((256, 256), 5 * ASEC, VLA, "IQUV", seed=5), Model((256, 256), 5 * ASEC, VLA, seed=6)
    for op, sign, source in (("add", 1, "DATA"), ("subtract", -1, "DATA"), ("subtract", -1, None)):
        path = s.ms("both")
        at = Set(path)
        column = source or "CORRECTED_DATA"
        observed = at.column(column)
        want = [o + sign * m for o, m in zip(observed, at.predict(model))]
        given = ["-predict-op", op, "-output-column", "RESIDUAL_DATA", *(["-data-column", source] if source else [])]
        s.predict(model, path, "-accuracy", 1e-5, *given, column="RESIDUAL_DATA")
        s.held("%s, %s" % (op, source), path, want, 1e-5, "RESIDUAL_DATA")
        # A second run gives the same, not twice as much; a selection does not change other rows.
        s.predict(model, path, "-accuracy", 1e-5, *given, column="RESIDUAL_DATA")
        s.held("%s, %s, again" % (op, source), path, want, 1e-5, "RESIDUAL_DATA")
        before = at.column("RESIDUAL_DATA")
        want = [o + sign * m for o, m in zip(observed, at.predict(other))]
        s.predict(other, path, "-accuracy", 1e-5, *given, "-interval", 1, 3, column="RESIDUAL_DATA")
        s.held("%s, %s, an interval" % (op, source), path, want, 1e-5, "RESIDUAL_DATA", at.mask(interval=(1, 3)), before)
    path = s.ms("vla")
    s.predict(model, path, "-accuracy", 1e-5, "-model-column", "SIMULATED_DATA", column="SIMULATED_DATA")
    s.held("another column", path, Set(path).predict(model), 1e-5, "SIMULATED_DATA")
    s.must("MODEL_DATA" not in table(path, ack=False).colnames(), "and no MODEL_DATA")


def check_memory(s):
    """Little memory and more threads give the same visibilities."""
    model = Model((512, 512), 2 * ASEC, MEERKAT, "IQ")
    path = s.ms("meerkat")
    s.predict(model, path, "-accuracy", 1e-5)
    want = flat(Set(path).column("MODEL_DATA"))
    scale = np.sqrt(np.mean(np.abs(want)**2))
    for options in (["-j", 1], ["-j", 5], ["-abs-mem", 0.32], ["-abs-mem", 0.2]):
        s.predict(model, path, "-accuracy", 1e-5, *options)
        # Sums of float32 in another order, of some 10^2 terms.
        error = np.abs(flat(Set(path).column("MODEL_DATA")) - want).max() / scale
        s.must(error < 1e-5, "%s: other by %.1e" % (options, error))


main(Truth, globals())
