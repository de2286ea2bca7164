#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_updates.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: deconvolution and MODEL_DATA: models that are subtracted or written, and
sets that cannot be written."""
import glob
import os
import shutil

import numpy as np
from casacore.tables import makearrcoldesc, maketabdesc, table

from clean_suite import CELL, CleanSuite, change_image, same_images
from image_oracle import load
from program_suite import files, main, run


def check_subtract_model(s):
    """-subtract-model images the data minus MODEL_DATA, for any selection and in every cycle, and does not change it."""
    ms = s.path("less.ms")
    shutil.copytree(s.ms("steep"), ms)
    args = ["-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-backend", "cpu"]
    s.told("no MODEL_DATA", s.launch(*args, "-subtract-model", "-name", s.path("less"), ms), 3, "has no column MODEL_DATA")
    change_image(s.clean(ms, size=128)[0] + "-dirty.fits", s.path("less-model.fits"), BUNIT="Jy/pixel",
                 pixels=lambda p: np.put(p, np.arange(p.size), np.arange(p.size) == 64 * 128 + 80))
    run(s.msimage, "-quiet", "-predict", "-name", s.path("less"), ms)
    with table(ms, readonly=False, ack=False) as t:
        t.addcols({"name": "LESS", "desc": {**t.getcoldesc("DATA"), "dataManagerGroup": "LESS", "dataManagerType": ""}})
        t.putcol("LESS", t.getcol("DATA") - t.getcol("MODEL_DATA"))
        s.must(np.abs(t.getcol("MODEL_DATA")).mean() > 0.5, "a model of 1 Jy")
    before = files(ms)
    for title, words in (("dirty image", []), ("cleaned", ["-niter", 200, "-auto-threshold", 4, "-mgain", 0.7]),
                         ("some rows and channels", ["-taql", "ANTENNA1 IN [1,4,9]", "-select-spw", "0:2~6;9~9"])):
        one, other = s.path("less%d" % next(s.number)), s.path("less%d" % next(s.number))
        run(s.msimage, *args, *words, "-subtract-model", "-data-column", "DATA", "-name", one, ms)
        s.must(files(ms) == before, "no file of the set changes")
        run(s.msimage, *args, *words, "-data-column", "LESS", "-no-update-model-required", "-name", other, ms)
        kinds = ("dirty", "residual", "model", "image") if "-niter" in words else ("dirty",)
        same_images(s, title, one, other, ["-%s.fits" % k for k in kinds])


def refuse_update(s, ms, words):
    """A set that cannot be predicted into later is refused before anything is read; without the update it is imaged."""
    rows, typed = s.path("update-rows.ms"), s.path("update-typed.ms")
    with table(ms, ack=False) as t, t.query("ANTENNA1 < 20") as chosen:
        chosen.copy(rows).close()
    shutil.copytree(ms, typed)
    with table(typed, readonly=False, ack=False) as t:
        t.removecols("MODEL_DATA")
        t.addcols(maketabdesc(makearrcoldesc("MODEL_DATA", 0.0, ndim=2, valuetype="float")))
    marked = s.path("update-marked.ms")
    shutil.copytree(ms, marked)
    with table(marked, readonly=False, ack=False) as t:
        t.putkeyword("MSIMAGE_PREDICT", {"MODEL_DATA": {"STATE": "incomplete", "SELECTION": "-field 7"}})
    for title, path, pattern in (("rows of another set", rows, "refers to rows of another set"),
                                 ("a column of another type", typed, "complex"),
                                 ("a column left incomplete", marked, "-field 7")):
        name = s.path("none%d" % next(s.number))
        done = s.launch("-quiet", *words, "-mgain", 0.7, "-name", name, path)
        s.told(title, done, 3, pattern)
        s.must("-no-update-model-required" in done.stderr and not glob.glob(name + "*"), title + ": before anything is made")
        done = s.launch("-quiet", *words, "-mgain", 0.7, "-no-update-model-required", "-name", name, path)
        s.must(done.returncode == 0 and os.path.exists(name + "-image.fits"), title + ": imaged without the update")


def check_update(s):
    """MODEL_DATA is written only on request, after the images, and equals the result of -predict."""
    ms, words = s.path("update.ms"), ["-size", 256, 256, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5]
    shutil.copytree(s.ms("points"), ms)
    before = files(ms)
    for options in ([], ["-mgain", 0.7, "-no-update-model-required"], ["-mgain", 1]):
        log = run(s.msimage, *words, *options, "-name", s.path("update"), "-overwrite", ms).stderr.decode()
        s.must("MODEL_DATA" not in log, "the log does not mention MODEL_DATA: " + log)
        s.must(files(ms) == before, "%s: no file of the set changes" % (" ".join(map(str, options)) or "by default"))
    for options in (["-mgain", 0.7], ["-update-model-required"]):
        shutil.rmtree(ms)
        shutil.copytree(s.ms("points"), ms)
        log = run(s.msimage, *words, *options, "-name", s.path("update"), "-overwrite", ms).stderr.decode()
        s.must("writes:     MODEL_DATA of the set is replaced after the images, because of %s;" % options[0] in
               log.split("samples:")[0], "the log says so before it reads: " + log)
        with table(ms, ack=False) as t:
            got = t.getcol("MODEL_DATA")
        run(s.msimage, "-quiet", "-predict", "-name", s.path("update"), "-accuracy", 1e-5, ms)
        with table(ms, ack=False) as t:
            s.must((t.getcol("MODEL_DATA") == got).all() and np.abs(got).max() > 0.5, "%s: MODEL_DATA" % options[0])
    # Another column, which is then subtracted.
    run(s.msimage, "-quiet", *words, "-update-model-required", "-model-column", "OTHER", "-name", s.path("update"), "-overwrite", ms)
    with table(ms, ack=False) as t:
        s.must((t.getcol("OTHER") == got).all() and (t.getcol("MODEL_DATA") == got).all(), "-model-column OTHER")
    with table(ms, readonly=False, ack=False) as t:
        t.putcol("OTHER", 2 * got)
        t.addcols({"name": "LESS", "desc": {**t.getcoldesc("DATA"), "dataManagerGroup": "LESS", "dataManagerType": ""}})
        t.putcol("LESS", t.getcol("DATA") - 2 * got)
    for name, options in (("less", ["-data-column", "LESS"]), ("minus", ["-data-column", "DATA", "-subtract-model", "-model-column", "OTHER"])):
        run(s.msimage, "-quiet", *words[:5], *options, "-name", s.path(name), ms)
    same_images(s, "-subtract-model -model-column", s.path("less"), s.path("minus"), ["-dirty.fits"])
    before = files(ms)
    for title, name in (("a channel image", "-0000"), ("another polarisation", "-Q"), ("a later channel", "-0002")):
        other = s.path("stale%d" % next(s.number))
        shutil.copy(s.path("update-model.fits"), other + name + "-model.fits")
        options = ["-channels-out", 2] if name == "-0002" else []
        done = s.launch("-quiet", *words, *options, "-update-model-required", "-name", other, ms)
        s.told("%s of another run" % title, done, 3, os.path.basename(other) + name + "-model.fits")
        s.must(glob.glob(other + "*") == [other + name + "-model.fits"] and files(ms) == before, "nothing is made or changed")
    refuse_update(s, ms, words)
    os.chmod(ms, 0o555)
    if os.geteuid() != 0:
        done = s.launch("-quiet", *words, "-update-model-required", "-name", s.path("none"), ms)
        s.told("a set that cannot be written", done, 4, "MODEL_DATA")
    os.chmod(ms, 0o755)


def check_update_intervals(s):
    """The model of each interval is written into its rows and equals the result of -predict; an interval without samples has
    no model."""
    ms, again = s.path("intervals.ms"), s.path("intervals-again.ms")
    shutil.copytree(s.ms("points"), ms)
    with table(ms, readonly=False, ack=False) as t:
        times = t.getcol("TIME")
        steps = np.unique(times)
        flagged = (times >= steps[6]) & (times < steps[13])
        t.putcol("FLAG", t.getcol("FLAG") | flagged[:, None, None])
        # Each interval has another sky, so that no model fits another interval.
        data = t.getcol("DATA")
        t.putcol("DATA", data * np.where(times < steps[6], 1, 2)[:, None, None])
    shutil.copytree(ms, again)
    bounds = [len(steps) * t // 3 for t in range(4)]
    s.must(bounds == [0, 6, 13, 20], "three intervals of 20 times")
    name = s.path("intervals")
    run(s.msimage, "-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5, "-mgain",
        0.7, "-intervals-out", 3, "-name", name, ms)
    for t in (0, 2):
        run(s.msimage, "-quiet", "-predict", "-name", "%s-t%04d" % (name, t), "-accuracy", 1e-5, "-interval", bounds[t],
            bounds[t + 1], again)
    with table(ms, ack=False) as t, table(again, ack=False) as u:
        got, want = t.getcol("MODEL_DATA"), u.getcol("MODEL_DATA")
    for title, rows in (("the first interval", times < steps[6]), ("the last", times >= steps[13])):
        s.must((got[rows] == want[rows]).all() and np.abs(got[rows]).max() > 0.5, "MODEL_DATA of " + title)
    s.must(np.isnan(load(name + "-t0001-model.fits")[0]).all() and not got[flagged].any(), "MODEL_DATA of no sample")
    first, last = (np.abs(got[rows]).mean() for rows in (times < steps[6], times >= steps[13]))
    s.near("twice the flux in the last interval", last / first, 2, 0.2)


def check_update_channels(s):
    """A channel whose samples are flagged has no model: MODEL_DATA gets that of the nearest channel."""
    ms, name = s.path("dead.ms"), s.path("dead")
    shutil.copytree(s.ms("steep"), ms)
    with table(ms, readonly=False, ack=False) as t:
        flag = t.getcol("FLAG")
        flag[:, :4] = True
        t.putcol("FLAG", flag)
    run(s.msimage, "-quiet", "-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5,
        "-channels-out", 4, "-update-model-required", "-name", name, ms)
    with table(ms, ack=False) as t:
        got = t.getcol("MODEL_DATA")
    shutil.copy(name + "-0001-model.fits", s.path("alone-model.fits"))
    run(s.msimage, "-quiet", "-predict", "-name", s.path("alone"), "-accuracy", 1e-5, "-channel-range", 0, 8, ms)
    with table(ms, ack=False) as t:
        want = t.getcol("MODEL_DATA")
    s.must(np.isnan(load(name + "-0000-model.fits")[0]).all(), "a channel without a sample has no model")
    error = np.abs(got - want)[:, :8].max()
    s.must(error < 2e-5 * np.abs(want).max() and np.abs(want).max() > 1, "MODEL_DATA there: off by %.2g" % error)


def check_update_polarisations(s):
    """A hand whose samples are flagged has NaN images, and its model counts as zero. If the PSF is made of its weights, or
    it is searched with the other hand, cleaning is refused with a clear message."""
    for title, channels, dead in (("one image", 1, slice(None)), ("a channel of two", 2, slice(0, 8))):
        ms, name = s.path("hand%d.ms" % channels), s.path("hand%d" % channels)
        shutil.copytree(s.ms("steep"), ms)
        with table(ms, readonly=False, ack=False) as t:
            flag = t.getcol("FLAG")
            s.must(flag.shape[1:] == (16, 4), "16 channels of RR, RL, LR, LL")
            flag[:, dead, 0] = True
            t.putcol("FLAG", flag)
        words = ["-size", 128, 128, "-scale", "%gasec" % CELL, "-niter", 300, "-auto-threshold", 5, "-mgain", 0.7,
                 "-channels-out", channels]
        log = run(s.msimage, *words, "-pol", "LL,RR", "-name", name, ms).stderr.decode()
        number = "" if channels == 1 else "-0000"
        s.must("polarisation RR has no samples; its images are NaN" in log and "RR-model.fits: the image has no samples; the model "
               "is zero" in log, title + ": the log tells")
        s.must(np.isnan(load(name + number + "-RR-model.fits")[0]).all(), title + ": RR is NaN")
        with table(ms, ack=False) as t:
            got = t.getcol("MODEL_DATA")
        s.must(not got[:, dead, 0].any() and np.abs(got[:, dead, 3]).mean() > 0.5, title + ": MODEL_DATA is zero in RR, not in LL")
        s.must(channels == 1 or np.abs(got[:, 8:, 0]).mean() > 0.5, title + ": MODEL_DATA of the other channel")
        for pols in (["RR,LL"], ["LL,RR", "-join-polarizations"], ["RR,LL", "-link-polarizations", "LL"]):
            done = s.launch("-quiet", *words, "-name", s.path("refused"), "-pol", *pols, ms)
            s.told(title + ", " + " ".join(pols), done, 3, "polarisation RR has no samples, but others have")
        s.must(not glob.glob(s.path("refused*")), title + ": nothing is left of what is refused")


main(CleanSuite, globals())
