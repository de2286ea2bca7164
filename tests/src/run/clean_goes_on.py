#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""clean_goes_on.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: deconvolution that continues from files of an earlier run: checkpoints
of killed runs, models, dirty images, PSFs, noise."""
import glob
import os
import shutil
import signal

import numpy as np
from astropy.io import fits

from clean_suite import CELL, POINTS, SIZE, CleanSuite, change_image, flux_about, same_images, thermal
from held_program import PUBLISHED, Held, in_lines
from image_oracle import load
from program_suite import main, run


def check_resumed_mask(s):
    """A mask with changed pixels is another mask, even under the same name; the same pixels under another name are the same
    mask."""
    words = ["-j", 2, "-size", 128, 128, "-scale", "%gasec" % CELL, "-backend", "cpu", "-niter", 3000, "-checkpoint", 0,
             "-auto-threshold", 3, "-mgain", 0.5, "-no-update-model-required"]
    mask, other, broken = s.path("island.fits"), s.path("other-island.fits"), s.path("of-island")
    name, _ = s.clean(s.ms("points"), size=128)
    for path, first in ((mask, 20), (other, 21)):
        with fits.open(name + "-dirty.fits") as f:
            f[0].data[...] = 0
            f[0].data[0, 0, first:110, 20:110] = 1
            f.writeto(path)
    held = Held([s.msimage, *[str(w) for w in words], "-fits-mask", mask, "-name", broken, s.ms("points")])
    held.hold_after_line("cycle 2")
    held.send(signal.SIGKILL)
    held.end()
    shutil.copy(mask, s.path("kept-island.fits"))
    shutil.copy(other, mask)
    s.told("resumed with another mask of the name", s.launch("-quiet", *words, "-fits-mask", mask, "-resume", "-name", broken,
                                                             s.ms("points")), 3, "options")
    log = run(s.msimage, *words, "-fits-mask", s.path("kept-island.fits"), "-resume", "-name", broken, s.ms("points"))
    s.must("resuming from the checkpoint" in log.stderr.decode(), "resumed with the same mask of another name")


def forgotten_resume(s, words, name, ms):
    """Without -resume the checkpoint is kept under another name. A run that is stopped prints the command to go on."""
    with open(name + ".clean", "rb") as f:
        before = f.read()
    command = [s.msimage, *[str(w) for w in words], "-name", name, ms]
    held = Held(command)
    held.hold_after_line("cycle 2")
    held.send(signal.SIGTERM)
    held.end()
    log = "\n".join(held.lines())
    s.must("%s.clean, the checkpoint of a run that was stopped, is now %s.clean.1" % (name, name) in log and
           "to continue from it: " + " ".join([command[0], "-resume", *command[1:]]) in log, "stopped without -resume: " + log[-600:])
    os.rename(name + ".clean", name + ".clean.2")
    with open(name + ".clean.1", "rb") as f:
        s.must(f.read() == before, "the old checkpoint is kept")
    os.rename(name + ".clean.1", name + ".clean")
    os.remove(name + ".clean.2")


def check_resume(s):
    """A killed run resumes from its checkpoint and makes the same images to the bit."""
    for title, ms, options, kinds in (
            ("one image", "points", ["-auto-mask", 6, "-auto-threshold", 2, "-save-first-residual"], [""]),
            ("multiscale", "points", ["-auto-mask", 6, "-auto-threshold", 2, "-multiscale", "-local-rms-strength", 0.8,
                                       "-local-rms-window", 20, "-auto-mask-nmiter", 2], [""]),
            ("masks", "points", ["-threshold", 0.01, "-auto-multithresh", "-sidelobethreshold", 1.5], [""]),
            ("channels", "steep", ["-channels-out", 2, "-auto-threshold", 4, "-mgain", 0.6, "-no-update-model-required",
                                     "-save-first-residual"], ["-0000", "-0001", "-MFS"]),
            ("previous masks", "steep", ["-channels-out", 2, "-auto-mask", 8, "-auto-threshold", 2, "-mgain", 0.6, "-no-update-model-required",
                                         "-previous-mask"], ["-0000", "-0001", "-MFS"]),
            ("joined", "steep", ["-channels-out", 2, "-auto-threshold", 4, "-join-channels"], ["-0000", "-0001", "-MFS"]),
            ("fewer channels", "steep", ["-channels-out", 4, "-auto-threshold", 4, "-join-channels", "-pol", "I",
                                         "-deconvolution-channels", 2, "-fit-spectral-pol", 2], ["-0000", "-0003", "-MFS"])):
        words = ["-j", 2, "-size", 256, 256, "-scale", "%gasec" % CELL, "-backend", "cpu", "-niter", 3000, "-checkpoint",
                 0, *options]
        whole, broken = (s.path("resume%d" % next(s.number)) for _ in range(2))
        run(s.msimage, "-quiet", *words, "-name", whole, s.ms(ms))
        for beginning in ("channel 0: cycle 2", "channel 1: cycle 2") if title in ("channels", "previous masks") else ("cycle 2",):
            held = Held([s.msimage, *[str(w) for w in words], "-name", broken, s.ms(ms)])
            held.hold_after_line(beginning)
            held.send(signal.SIGKILL)
            held.end()
            left = sorted(glob.glob(broken + "*"))
            s.must(broken + ("-0000.clean" if title in ("channels", "previous masks") else ".clean") in left and
                   not any(n.endswith(".fits") for n in left), "%s: killed, a checkpoint is left" % title)
            if beginning == "cycle 2":
                other = s.launch("-quiet", *words, "-gain", 0.2, "-resume", "-name", broken, s.ms(ms))
                s.told("resumed with another gain", other, 3, "options")
            if title == "multiscale":
                for change in (["-local-rms-strength", 0.9], ["-auto-mask-nmiter", 3], ["-force-mask-rounds", 1],
                               ["-skip-final-iteration"]):
                    other = s.launch("-quiet", *words, *change, "-resume", "-name", broken, s.ms(ms))
                    s.told("resumed with another %s" % change[0], other, 3, "options")
            if title == "one image":
                for what, change, ms_of in (("options", ["-shift", "60.01deg", "44deg"], ms), ("Sets", [], "polarised")):
                    other = s.launch("-quiet", *words, *change, "-resume", "-name", broken, s.ms(ms_of))
                    s.told("resumed with other " + what, other, 3, what)
            if title == "one image":
                forgotten_resume(s, words, broken, s.ms(ms))
            log = run(s.msimage, *words, "-resume", "-name", broken, s.ms(ms)).stderr.decode()
            s.must("resuming from the checkpoint" in log and "cycle 1:" not in log.split("resuming from")[1].split("channel 1")[0]
                   and not glob.glob(broken + "*.clean"), "%s: goes on, and the checkpoint is gone" % title)
            made = ["image", "model", "residual", "psf", "dirty", *["first-residual"] * ("-save-first-residual" in options)]
            same_images(s, title, whole, broken, ["%s-%s.fits" % (c, k) for c in kinds for k in made])
            for name in glob.glob(broken + "*"):
                os.remove(name)
    with open(broken + ".clean", "wb") as f:
        f.write(b"no checkpoint")
    words += ["-name", broken]
    s.told("a damaged checkpoint", s.launch("-quiet", *words, "-resume", s.ms("steep")), 3, "checkpoint|clean")
    done = s.launch("-quiet", *words, s.ms("steep"))
    s.told("another file where the checkpoint would be", done, 4, "not a checkpoint")
    with open(broken + ".clean", "rb") as f:
        s.must(f.read() == b"no checkpoint", "it is left as it is")


def check_killed(s):
    """A run may be killed at any line that it prints after reading; the same command with -resume makes the same images."""
    names = [s.path("killed%d" % i) for i in range(2)]
    words = ["-j", 2, "-size", 128, 128, "-scale", "%gasec" % (2 * CELL), "-backend", "cpu", "-niter", 3000, "-checkpoint",
             0, "-auto-mask", 6, "-auto-threshold", 3, "-mgain", 0.6, "-no-update-model-required", "-overwrite"]
    whole = Held([s.msimage, *[str(w) for w in words], "-name", names[0], s.ms("points")])
    whole.end()
    broken = [s.msimage, *[str(w) for w in words], "-name", names[1], s.ms("points")]
    first = next(i for i, line in enumerate(whole.lines()) if line.startswith("samples:"))
    for title, bring in [*in_lines(whole)][1 + first:]:
        held = Held(broken)
        bring(held)
        held.send(signal.SIGKILL)
        held.end()
        is_late = any(line.startswith(PUBLISHED) for line in held.lines())
        images = glob.glob(names[1] + "*.fits")
        run(s.msimage, "-quiet", *words, "-resume", "-name", names[1], s.ms("points"))
        kinds = ("image", "model", "residual", "mask")
        same = all((load("%s-%s.fits" % (names[0], k))[0] == load("%s-%s.fits" % (names[1], k))[0]).all() for k in kinds)
        s.must(same and (is_late or not images) and not glob.glob(names[1] + "*.clean"),
               "killed %s: %s" % (title, "the same images" if same else "other images"))
        for name in glob.glob(names[1] + "*"):
            os.remove(name)


def check_continue(s):
    """An earlier model is subtracted, cleaned further, and restored completely; one that does not match is refused."""
    words = ["-niter", 5000, "-auto-threshold", 4]
    name, _ = s.clean(s.ms("points"), "-niter", 60, "-threshold", 0.001)
    first = load(name + "-model.fits")[0].sum()
    args = ["-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-name", name]
    run(s.msimage, "-quiet", *args, *words, "-continue", s.ms("points"))
    once, _ = s.clean(s.ms("points"), *words)
    header = load(name + "-image.fits")[1]
    sigma = thermal(header)
    difference = load(name + "-image.fits")[0] - load(once + "-image.fits")[0]
    s.must(load(name + "-model.fits")[0].sum() > 1.2 * first and np.abs(difference).max() < 5 * sigma,
           "an image that is continued is as one made at once: up to %.2g sigma" % (np.abs(difference).max() / sigma))
    for title, change in (("size", ["-size", 256, 256]), ("pixels", ["-scale", "5asec"]),
                          ("centre", ["-shift", "60.1deg", "44deg"]), ("missing", ["-name", s.path("nothing")])):
        s.told("-continue, other " + title, s.launch("-quiet", *args, *words, *change, "-continue", s.ms("points")), 3,
               "model.fits")
    for title, value in (("NaN", np.nan), ("infinity", np.inf)):
        def spoil(pixels):
            pixels[11, 22] = value
        change_image(name + "-model.fits", s.path("spoilt-model.fits"), pixels=spoil)
        s.told("-continue, " + title, s.launch("-quiet", *args, *words, "-name", s.path("spoilt"), "-continue", s.ms("points")), 3,
               r"spoilt-model.fits: 1 pixel is not finite; the first is \(23, 12\)")


def check_reuse(s):
    """Cleaning begins with the PSFs and dirty images of an earlier run, and only with these; files that do not match are
    refused before samples are read."""
    ms = s.ms("steep")
    words = ["-niter", 400, "-auto-threshold", 5, "-channels-out", 2, "-join-channels", "-backend", "cpu"]
    name, _ = s.clean(ms, *words, size=256)
    kinds = ["-%s-%s.fits" % (c, k) for c in ("0000", "0001", "MFS") for k in ("image", "model", "residual", "psf", "dirty")]
    again, _ = s.clean(ms, *words, "-reuse-psf", name, "-reuse-dirty", name, size=256)
    same_images(s, "reused as they were", name, again, kinds)

    other = s.path("reused")
    for c in ("-0000", "-0001"):
        shift = load(name + c + "-psf.fits")[0][:-40, :-30]

        def add_source(pixels, shift=shift):
            pixels[40:, 30:] += 3 * shift
        change_image(name + c + "-dirty.fits", other + c + "-dirty.fits", pixels=add_source)
        change_image(name + c + "-psf.fits", other + c + "-psf.fits", pixels=lambda p: p.__imul__(1.01))
    begun, _ = s.clean(ms, *words, "-nmiter", 1, "-reuse-psf", other, "-reuse-dirty", other, size=256)
    same_images(s, "others that are reused", other, begun, ["-0000-psf.fits", "-0001-psf.fits", "-0000-dirty.fits", "-0001-dirty.fits"])
    model, residual = load(begun + "-MFS-model.fits")[0], load(begun + "-MFS-residual.fits")[0]
    s.must(model[168, 158] > 2 and residual[168, 158] < -2, "a source in the dirty image alone: %.3g Jy of model, residual "
           "%.3g Jy/beam, of the visibilities" % (model[168, 158], residual[168, 158]))

    args = ["-quiet", "-size", 256, 256, "-scale", "%gasec" % CELL, "-name", s.path("refused"), *words]
    for title, change, said in (("size", ["-size", 128, 128], "256 x 256 pixels, but the image has 128 x 128"),
                                ("pixels", ["-scale", "5asec"], "pixels of 4 x 4 arcsec, but those of the image are 5 x 5"),
                                ("centre", ["-shift", "60.1deg", "44deg"], "centre is"),
                                ("frequency", ["-channel-range", 0, 8], "MHz, but that of the image is"),
                                ("polarisation", ["-pol", "Q"], "polarisation is I, but that of the image is Q"),
                                ("name", ["-reuse-dirty", s.path("nothing")], "nothing-0000-dirty.fits")):
        s.told("reused, other " + title, s.launch(*args, "-reuse-dirty", name, *change, ms), 3, said)
    change_image(name + "-0001-psf.fits", other + "-0001-psf.fits", pixels=lambda p: p.__imul__(0.5))
    s.told("a PSF of another scale", s.launch(*args, "-reuse-psf", other, ms), 3, "0001-psf.fits: its value at the centre is 0.[45]")
    change_image(name + "-0001-dirty.fits", other + "-0001-dirty.fits", pixels=lambda p: p.fill(np.nan))
    s.told("a dirty image of nothing", s.launch(*args, "-reuse-dirty", other, ms), 3, "65536 pixels are not finite")
    s.must(not glob.glob(s.path("refused") + "*"), "nothing is written")


def check_local_rms_image(s):
    """Local noise of the user: thresholds are in its units, and the noise is its minimum; nothing is cleaned where it is
    large."""
    name, _ = s.clean(s.ms("points"), "-make-psf")
    rms, least = s.path("rms.fits"), 0.002

    def fill(pixels):
        pixels[...] = least
        pixels[:, 280:] = 0.3
    change_image(name + "-dirty.fits", rms, pixels=fill)
    # A source leaves its threshold in the residual, plus sidelobes of sources that are not cleaned.
    for method in ([], ["-multiscale"]):
        cleaned, _ = s.clean(s.ms("points"), "-niter", 3000, "-auto-threshold", 5, "-local-rms-image", rms, *method)
        model, header = load(cleaned + "-model.fits")
        s.near("MSITHRES", header["MSITHRES"], 5 * least, 1e-6)
        residual = load(cleaned + "-residual.fits")[0]
        s.must(np.abs(residual[:, :280]).max() < 1.1 * 5 * least, "cleaned to 5 times the noise")
        for x, y, flux, *_ in POINTS:
            s.near("%g Jy, noise %g" % (flux, least if x < 280 else 0.3), flux_about(model, x, y), flux if x < 280 else 0,
                   5 * least + 0.02 if x < 280 else 1e-9)
    args = ["-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % CELL, "-name", s.path("none"), "-niter", 9,
            "-auto-threshold", 5, "-local-rms-image", rms]
    s.told("noise of another size", s.launch(*args, "-size", 256, 256, s.ms("points")), 3, "512 x 512 pixels")
    change_image(name + "-dirty.fits", rms, pixels=lambda p: p.fill(0))
    s.told("noise of zero", s.launch(*args, s.ms("points")), 3, r"rms.fits: pixel \(1, 1\) is 0")


main(CleanSuite, globals())
