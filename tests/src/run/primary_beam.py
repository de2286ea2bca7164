#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images that are corrected for the primary beam, on sets whose visibilities are sums in double over sources that were
attenuated by each baseline's own beam: formulas written out here, with the coefficients that BEAM names, rotation by the
parallactic angle, dishes of two sizes. primary_beam.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from image_oracle import C
from program_suite import ImagingSuite, fresh_copy, main, skip_without_modules
skip_without_modules("numpy", "astropy", "casacore.tables", "h5py")
import h5py
import numpy as np
from astropy.io import fits
from beam_sky import (ARCMIN, BEAMS, MEERKAT_L, MWA_DELAYS, Sky, cosine_taper, itrf, parallactic_angle, site_axes,
                      tile_jones, vla)
from casacore.tables import table

# Of the telescopes, those of dishes.
DISHES = [name for name in BEAMS if name != "mwa"]


def run(s, sky, *words):
    done = s.launch("-quiet", "-overwrite", "-size", sky.n, sky.n, "-scale", "%.12grad" % sky.cell, "-maxuv-l",
                    "%.12g" % sky.limit, *(() if "-channels-out" in words else ("-channels-out", 4)), "-name", "pb", *words, sky.path)
    s.must(done.returncode == 0, "%s: runs%s" % (sky.name, done.stderr[-800:]))


def pixels(s, name):
    return fits.getdata(os.path.join(s.out, "pb-%s.fits" % name)).squeeze()


def read_bytes(s, name):
    with open(os.path.join(s.out, "pb-" + name), "rb") as f:
        return f.read()


def check_beams(s):
    """The beam files are the mean of all baselines and times, at each channel."""
    for name in DISHES:
        sky = Sky(s, name)
        run(s, sky, "-apply-primary-beam", "-pbcor", "-pblimit", 0.1)
        x, y = np.meshgrid(np.arange(3, sky.n, 10), np.arange(3, sky.n, 10))
        dirty = pixels(s, "MFS-dirty")
        worst = 0
        for c, mhz in enumerate(sky.mhz):
            want = sky.mean(mhz, x.ravel(), y.ravel())
            seen = (pixels(s, "%04d-beam-0" % c)[y, x] + pixels(s, "%04d-beam-15" % c)[y, x]).ravel() / 2
            inside = want > 0.1
            worst = max(worst, np.abs(seen - want)[inside].max())
            pb, pbcor, image = pixels(s, "%04d-pb" % c), pixels(s, "%04d-pbcor" % c), pixels(s, "%04d-dirty" % c)
            s.must(np.array_equal(np.isnan(pb), np.isnan(pbcor)) and np.nanmin(pb) > 0.1, "%s: limit" % name)
            worst = max(worst, np.nanmax(np.abs(pbcor * pb - image)) / np.abs(image).max())
        s.must(worst < 2e-4, "%s: beam, %.1e from the mean of all baselines" % (name, worst))
        mean = pixels(s, "MFS-beam-0") + pixels(s, "MFS-beam-15")
        ratio = pixels(s, "MFS-image-pb") * mean / 2 / dirty
        s.must(np.nanmax(np.abs(ratio - 1)[mean > 0.2]) < 1e-5, "%s: the image of all channels" % name)


def check_nights(s):
    """A set of two nights, a sidereal day apart, has the beam of one night."""
    sky = Sky(s, "meerkat", 128)
    run(s, sky, "-apply-primary-beam")
    before = pixels(s, "0000-beam-0")
    with table(sky.path, readonly=False, ack=False) as t:
        time = t.getcol("TIME")
        time[1::2] += 86164.0905
        t.putcol("TIME", time)
    run(s, sky, "-apply-primary-beam")
    off = np.nanmax(np.abs(pixels(s, "0000-beam-0") - before))
    s.must(off < 1e-5, "two nights: %.1e from the beam of one" % off)


def check_flags(s):
    """The beam of an image of several channels is that of the samples that are not flagged."""
    sky, left = Sky(s, "vla", 128), (0, 0, 1, 0.5)
    with table(sky.path, readonly=False, ack=False) as t:
        flag = t.getcol("FLAG")
        flag[:, :2] = True
        flag[::2, 3] = True
        t.putcol("FLAG", flag)
    run(s, sky, "-pbcor", "-pblimit", 0.1, "-channels-out", 1)
    x, y = np.meshgrid(np.arange(3, sky.n, 10), np.arange(3, sky.n, 10))
    want = sum(w * sky.mean(mhz, x.ravel(), y.ravel()) for mhz, w in zip(sky.mhz, left)) / sum(left)
    inside = want > 0.2
    off = np.abs(pixels(s, "pb")[y, x].ravel() - want)[inside].max()
    # The longest baselines, which -maxuv-l leaves out, are not exactly half in the flagged rows.
    s.must(inside.any() and off < 2e-3, "flagged channels: %.1e from the mean of the others" % off)


def check_fluxes(s):
    """Cleaned and corrected, sources have their fluxes and spectra."""
    for name in DISHES:
        sky = Sky(s, name)
        run(s, sky, "-apply-primary-beam", "-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-join-channels",
            "-no-update-model-required", "-no-dirty")
        flux = []
        for c, mhz in enumerate(sky.mhz):
            image = pixels(s, "%04d-image-pb" % c)
            flux.append([image[b, a] for a, b in sky.at])
            off = np.abs(np.array(flux[-1]) / sky.spectrum(mhz) - 1).max()
            s.must(off < 0.01, "%s, %d MHz: fluxes within %.2f %%" % (name, mhz, 100 * off))
        slope = np.polyfit(np.log(np.array(sky.mhz) / sky.mhz[0]), np.log(np.array(flux)), 1)[0]
        off = np.abs(slope - sky.index).max()
        s.must(off < 0.03, "%s: spectral indices within %.3f" % (name, off))


def listed(s):
    """The sources of true flux: right ascension and declination in radians, flux, terms of the spectrum; the reference in MHz."""
    out = []
    with open(os.path.join(s.out, "pb-sources-pb.txt")) as f:
        head, *lines = f.read().splitlines()
    for line in lines:
        (h, m, sec), (d, dm, *ds) = (x.split(c) for x, c in zip(line.split(",")[2:4], (":", ".")))
        out.append((np.radians(15 * (float(h) + float(m) / 60 + float(sec) / 3600)), np.radians(float(d) + float(dm) / 60 + float(".".join(ds)) / 3600),
                    float(line.split(",")[4]), [float(t) for t in line.split("[")[1].split("]")[0].split(",")]))
    return out, float(head.split("ReferenceFrequency='")[1].split("'")[0]) / 1e6


def list_is_right(s, sky):
    """The list of true fluxes has each source with its flux and spectral index."""
    sources, reference = listed(s)
    ra0, dec0 = np.radians([60, 30])
    worst = [0, 0]
    for (x, y), want, index in zip(sky.at, sky.spectrum(reference), sky.index):
        _, _, l, m = sky.offsets(x, y)
        n = np.sqrt(1 - l**2 - m**2)
        ra, dec = ra0 + np.arctan2(l, n * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + n * np.sin(dec0))
        near = [a for a in sources if np.hypot((a[0] - ra) * np.cos(dec), a[1] - dec) < 1.5 * sky.cell]
        flux = sum(a[2] for a in near)
        worst = np.maximum(worst, [abs(flux / want - 1), abs(sum(a[2] * a[3][0] for a in near) / flux - index)])
    s.must(worst[0] < 0.01 and worst[1] < 0.03, "the list: fluxes within %.2f %%, indices within %.3f" % (100 * worst[0], worst[1]))


def slopes(mhz, flux):
    return np.polyfit(np.log(np.array(mhz) / mhz[0]), np.log(np.array(flux)), 1)[0]


def check_spectra(s):
    """Fitted spectra are those of true flux: in models, lists of sources and the map, also where channels are cleaned as means, and
    through the beam, which adds up to -4 to the indices of the image. Spectral indices of an image are those of the model."""
    words = ("-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-join-channels", "-no-dirty", "-no-update-model-required")
    power_law = ("-apply-primary-beam", "-fit-spectral-log-pol", 2)
    for name, channels, more in (("gmrt", 16, (*power_law, "-deconvolution-channels", 4)),
                                 ("gmrt", 16, ("-grid-with-beam", "-fit-spectral-pol", 3, "-deconvolution-channels", 4)),
                                 ("vla", 4, ("-mosaic", "-fit-spectral-log-pol", 2)),
                                 ("vla", 4, ("-facet-auto", 4, "-apply-facet-beam", "-fit-spectral-log-pol", 2)),
                                 ("vla", 4, (*power_law, "-save-source-list"))):
        empty(s)
        sky = Sky(s, name, 128, channels=channels)
        run(s, sky, *words, *more, "-channels-out", channels)
        models = [pixels(s, "%04d-model-pb" % c) for c in range(channels)]
        flux = np.array([[m[b - 2:b + 3, a - 2:a + 3].sum() for a, b in sky.at] for m in models])
        off = np.abs(flux / np.array([sky.spectrum(m) for m in sky.mhz]) - 1).max()
        s.must(off < 0.01, "%s %s: models within %.2f %%" % (name, more[0], 100 * off))
        off = np.abs(slopes(sky.mhz, flux) - sky.index).max()
        s.must(off < 0.03, "%s %s: spectral indices of the model within %.3f" % (name, more[0], off))
        left = max(np.nanmax(np.abs(pixels(s, "%04d-residual" % c))) for c in range(channels))
        s.must(left < 5e-3, "%s %s: the channels' residuals, %.1e Jy" % (name, more[0], left))
        index = pixels(s, "MFS-spectral-index")
        cards = str(fits.getheader(os.path.join(s.out, "pb-MFS-spectral-index.fits")))
        s.must("PBMODEL" in cards and "Not corrected" not in cards, "%s: the map says that it is corrected" % name)
        off = max(abs(index[b, a] - i) for (a, b), i in zip(sky.at, sky.index))
        s.must(off < (0.03 if "-save-source-list" in more else 0.1), "%s %s: the map within %.3f" % (name, more[0], off))
    list_is_right(s, sky)
    forced_is_right(s, sky, (*words, *power_law))


def forced_is_right(s, sky, words):
    """Spectral indices of an image, here wrong ones, are those of the model; where it is NaN they are fitted."""
    file = s.path("index.fits")
    with fits.open(os.path.join(s.out, "pb-MFS-model.fits")) as f:
        f[0].data[:] = 0.25
        (a, b), others = sky.at[0], sky.at[1:]
        f[0].data[..., b - 3:b + 4, a - 3:a + 4] = np.nan
        f[0].header["BUNIT"] = ""
        f.writeto(file, overwrite=True)
    run(s, sky, *words, "-force-spectrum", file, "-nmiter", 5)
    models = np.array([pixels(s, "%04d-model-pb" % c) for c in range(4)])
    off = max(np.abs(slopes(sky.mhz, models[:, y, x]) - 0.25).max() for x, y in others)
    s.must(off < 1e-5, "forced indices are off by %.1e" % off)
    off = abs(slopes(sky.mhz, models[:, b - 2:b + 3, a - 2:a + 3].sum(axis=(1, 2))) - sky.index[0])
    s.must(off < 0.1, "an index that is not forced is off by %.3f" % off)
    # The weighted mean of the residuals is 0 at the sources.
    left = max(abs(pixels(s, "MFS-residual")[y, x]) for x, y in others)
    s.must(left < 0.02, "the mean residual at sources is %.1e Jy" % left)
    empty(s)
    size = ("-size", 64, 64, "-scale", "5asec", "-niter", 9, "-threshold", "1Jy", "-channels-out", 4, "-join-channels")
    s.refused("forced without a fit", 2, "-fit-spectral-log-pol", *size, "-force-spectrum", file, sky.path)
    s.refused("forced by an image of other pixels", 3, "128 x 128", *size, "-fit-spectral-log-pol", 2, "-force-spectrum", file, sky.path)


def empty(s):
    """Remove the files of earlier runs."""
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def check_predict(s):
    """True models, predicted through the beam, are the sum over each baseline's and time's own beam."""
    empty(s)
    for name, planes, accuracy, channels in ("meerkat", "I", 1e-5, 4), ("alma", "I", 1e-6, 4), ("gmrt", "IQUV", 1e-5, 32):
        sky = Sky(s, name, 128, "XX,XY,YX,YY", channels, 0 if channels > 4 else None)
        if planes == "I":
            sky.polarised[:, 1:] = 0
        sky.write_models(s, planes, is_one=channels > 4)
        done = s.launch("-quiet", "-predict", "-pb", "auto", "-accuracy", accuracy, "-name", "pb", sky.path)
        s.must(done.returncode == 0, "%s: predicts%s" % (name, done.stderr[-800:]))
        with table(sky.path, ack=False) as t:
            seen = t.getcol("MODEL_DATA")
        off = np.abs(seen - sky.predicted()).max() / sky.spectrum(sky.mhz[0]).sum()
        s.must(off < accuracy, "%s, %s: %.1e of the flux from the sum, %.0e allowed" % (name, planes, off, accuracy))
        empty(s)


def model_error(sky):
    """The rms of DATA less MODEL_DATA on the imaged baselines, as part of the flux."""
    with table(sky.path, ack=False) as t:
        data, seen = t.getcol("DATA"), t.getcol("MODEL_DATA")
        inside = np.hypot(*t.getcol("UVW").T[:2]) < 0.95 * sky.limit * C / (1e6 * sky.mhz[-1])
    return np.sqrt(np.mean(np.abs(data - seen)[inside]**2)) / sky.spectrum(sky.mhz[0]).sum()


def check_through(s):
    """Cleaned through the beam, a band of 40 % in one image: fluxes are true, the residual has no sidelobes of sources off the
    centre, and MODEL_DATA is what each baseline sees."""
    sky = Sky(s, "gmrt", 128, channels=32, index=0)
    empty(s)
    words = ("-grid-with-beam", "-niter", 30000, "-threshold", "0.2mJy", "-mgain", 0.8, "-no-dirty", "-channels-out", 1)
    run(s, sky, *words, "-nmiter", 3)
    run(s, sky, *words, "-continue")
    image, model = pixels(s, "image-pb"), pixels(s, "model-pb")
    off = max(abs(image[b, a] / f - 1) for (a, b), f in zip(sky.at, sky.flux))
    s.must(off < 0.002, "fluxes within %.3f %%" % (100 * off))
    off = max(abs(model[b - 3:b + 4, a - 3:a + 4].sum() / f - 1) for (a, b), f in zip(sky.at, sky.flux))
    s.must(off < 0.005, "the model within %.2f %%" % (100 * off))
    left = np.nanmax(np.abs(pixels(s, "residual")))
    s.must(left < 1e-3, "residual %.2g Jy" % left)
    off = model_error(sky)
    s.must(off < 1e-3, "MODEL_DATA, rms %.1e of the flux from DATA" % off)
    empty(s)
    corrected = []
    for word in "-grid-with-beam", "-apply-primary-beam":
        done = s.launch("-quiet", "-size", 64, 64, "-scale", "5asec", "-name", "pb", word, sky.path)
        corrected.append(pixels(s, "image-pb") if done.returncode == 0 else np.nan)
        empty(s)
    s.must(np.array_equal(*corrected), "a dirty image through the beam is that of -apply-primary-beam")
    s.refused("through files of an earlier run", 2, "reuse", "-size", 64, 64, "-scale", "5asec", "-niter", 9, "-grid-with-beam",
              "-apply-primary-beam", "-reuse-primary-beam", sky.path)


def check_polarised(s):
    """Stokes parameters of sources off the centre, corrected by the inverse matrix and through the beam: of tiles whose feeds X are east,
    and of dishes that turn."""
    polarised_is_right(s, Sky(s, "mwa", 128, "XX,XY,YX,YY", integration="2min"), 0.03, 0.01)
    sky = Sky(s, "meerkat", 128, "XX,XY,YX,YY")
    polarised_is_right(s, sky, 0.01, 0.002)
    off = model_error(sky)
    s.must(off < 2e-3, "MODEL_DATA, rms %.1e of the flux from DATA" % off)
    matrix_is_right(s, sky)


def polarised_is_right(s, sky, most_divided, most_through):
    with table(sky.path, readonly=False, ack=False) as t:
        t.putcol("DATA", sky.predicted())
    for word, most in ("-apply-primary-beam", most_divided), ("-grid-with-beam", most_through):
        run(s, sky, word, "-pol", "IQUV", "-join-polarizations", "-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-no-dirty",
            "-join-channels")
        for k, pol in enumerate("IQUV"):
            image = pixels(s, "0001-%s-image-pb" % pol)
            off = max(abs(image[b, a] - f * share[k]) / f for (a, b), f, share in zip(sky.at, sky.spectrum(sky.mhz[1]), sky.polarised))
            s.must(off < most, "%s, %s, %s within %.2f %% of the flux" % (sky.name, word, pol, 100 * off))
        empty(s)


def matrix_is_right(s, sky):
    """The 16 files of a beam are the mean of conj(A) (x) A of Jones matrices, its lower triangle by rows, and are read back; of other
    programs, files 0, 9 and 15 correct Stokes I."""
    kept = [k + "-image-pb" for k in ("0001-Q", "0002-V", "MFS-I")]
    run(s, sky, "-apply-primary-beam", "-pol", "IQUV")
    y, x = (a.ravel() for a in np.mgrid[9:128:22, 9:128:22])
    east, north, _, _ = sky.offsets(x, y)
    mean = 0
    for share, chi, _ in sky.kinds:
        a = sky.jones(1100, east, north, chi)
        mean = mean + share * np.einsum("ijn,kln->nikjl", a.conj(), a).reshape(-1, 4, 4)
    want = [part(mean[:, i, j]) for i in range(4) for j in range(i + 1) for part in ((np.real,) if i == j else (np.real, np.imag))]
    inside = mean[:, 0, 0].real > 0.05
    worst = max(np.abs(pixels(s, "0001-beam-%d" % k)[y, x] - w)[inside].max() for k, w in enumerate(want))
    s.must(worst < 2e-4 and max(np.abs(w).max() for w in want[1:9]) > 1e-3, "the matrix is off by %.1e" % worst)
    image = [pixels(s, k) for k in kept]
    run(s, sky, "-apply-primary-beam", "-pol", "IQUV", "-reuse-primary-beam")
    worst = max(np.nanmax(np.abs(a - pixels(s, k))) for a, k in zip(image, kept)) / np.nanmax(np.abs(image[2]))
    s.must(worst < 1e-4, "corrected by the files, %.1e" % worst)
    for name in os.listdir(s.out):
        if "-beam-" in name and name.split("-")[-1] not in ("0.fits", "9.fits", "15.fits"):
            os.remove(os.path.join(s.out, name))
        elif "-beam-" in name:
            with fits.open(os.path.join(s.out, name), mode="update") as f:
                f[0].data += 0.01 if name.endswith("-9.fits") else 0
                del f[0].header["PBMODEL"]
    run(s, sky, "-apply-primary-beam", "-reuse-primary-beam")
    response = (pixels(s, "0001-beam-0") + pixels(s, "0001-beam-15")) / 2 + pixels(s, "0001-beam-9")
    off = np.nanmax(np.abs(pixels(s, "0001-image-pb") * response / pixels(s, "0001-dirty") - 1))
    s.must(off < 1e-4, "Stokes I by files 0, 9 and 15, %.1e" % off)
    done = s.launch("-overwrite", "-size", sky.n, sky.n, "-scale", "%.12grad" % sky.cell, "-channels-out", 4, "-name", "pb", "-pol", "IQUV",
                    "-apply-primary-beam", "-reuse-primary-beam", sky.path)
    s.must(done.returncode == 0 and "leakage is not corrected" in done.stderr, "a warning of leakage")
    empty(s)


def check_squint(s):
    """The beams of the VLA's feeds R and L lie to both sides of the pointing and turn with the dish: V of unpolarised sources is 0, and
    the hands have their own beams."""
    empty(s)
    sky = Sky(s, "vla", 128, "RR,RL,LR,LL")
    angle = np.radians(-185.9)
    _, _, l, m = sky.offsets(*np.array(sky.at).T)
    east, north, _, _ = sky.offsets(*np.array(sky.at).T)
    n_1 = np.sqrt(1 - l**2 - m**2) - 1
    with table(sky.path, readonly=False, ack=False) as t:
        uvw, time, data = t.getcol("UVW"), t.getcol("TIME"), t.getcol("DATA")
        centre = table(sky.path + "/FIELD", ack=False).getcell("PHASE_DIR", 0)[0]
        data[:] = 0
        for when in np.unique(time):
            chi, rows = parallactic_angle(when, sky.position, *centre), np.flatnonzero(time == when)
            x, y = north * np.sin(chi) - east * np.cos(chi), north * np.cos(chi) + east * np.sin(chi)
            for c, mhz in enumerate(sky.mhz):
                off = 1.21 * ARCMIN * 1000 / mhz * np.array([np.sin(angle), np.cos(angle)])
                for hand, sign in (0, 1), (3, -1):
                    seen = sky.spectrum(mhz) * vla(mhz, x - sign * off[0], y - sign * off[1], None)
                    data[rows, c, hand] = np.exp(2j * np.pi * uvw[rows] @ np.array([l, m, n_1]) * mhz * 1e6 / C) @ seen
        t.putcol("DATA", data)
    clean = ("-niter", 30000, "-threshold", "0.5mJy", "-mgain", 0.8, "-no-dirty", "-join-channels", "-no-update-model-required")
    for model in "vla-squint", "vla":
        run(s, sky, "-grid-with-beam", "-pb", model, "-pol", "IV", "-join-polarizations", *clean)
        flux, v = (np.array([pixels(s, "0001-%s-image-pb" % p)[b, a] for a, b in sky.at]) / sky.spectrum(sky.mhz[1]) for p in "IV")
        off = np.abs(v).max()
        if model == "vla":
            s.must(off > 0.02, "%s: V is up to %.2f %% of I" % (model, 100 * off))
        else:
            s.must(off < 0.002 and np.abs(flux - 1).max() < 0.002, "%s: V is up to %.3f %% of I, which is within %.3f %%" %
                   (model, 100 * off, 100 * np.abs(flux - 1).max()))
        empty(s)
    # The means of the hands over time.
    run(s, sky, "-pbcor", "-pb", "vla-squint", "-pol", "RR,LL", "-pblimit", 0.1)
    x, y = (a.ravel() for a in np.meshgrid(np.arange(3, sky.n, 6), np.arange(3, sky.n, 6)))
    east, north, _, _ = sky.offsets(x, y)
    for c, mhz in enumerate(sky.mhz):
        size = 1.21 * ARCMIN * 1000 / mhz
        for hand, sign in ("RR", 1), ("LL", -1):
            want = sum(share * vla(mhz, north * np.sin(chi) - east * np.cos(chi) - sign * size * np.sin(angle),
                                   north * np.cos(chi) + east * np.sin(chi) - sign * size * np.cos(angle), None) for share, chi, _ in sky.kinds)
            off = np.abs(pixels(s, "%04d-%s-pb" % (c, hand))[y, x] - want)[want > 0.12]
            s.must(np.nanmax(off) < 2e-4, "%s: the mean beam is off by %.1e" % (hand, np.nanmax(off)))
    empty(s)
    s.refused("linear feeds", 3, "linear", "-size", 64, 64, "-scale", "1amin", "-pbcor", "-pb", "vla-squint", Sky(s, "vla").path)


def write_beam(path, values, step, mhz, on_sky):
    """A cube of a beam, [frequency][y][x], with pixels of a step in radians around its middle."""
    hdu = fits.PrimaryHDU(values.astype(np.float32))
    n = values.shape[-1]
    kinds = (("RA---SIN", -1), ("DEC--SIN", 1)) if on_sky else (("X", 1), ("Y", 1))
    for i, (kind, sign) in enumerate(kinds, 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CUNIT%d" % i: "deg", "CRPIX%d" % i: n // 2 + 1, "CRVAL%d" % i: 0.0,
                           "CDELT%d" % i: sign * np.degrees(step)})
    hdu.header.update({"CTYPE3": "FREQ", "CUNIT3": "Hz", "CRPIX3": 1, "CRVAL3": mhz[0] * 1e6, "CDELT3": (mhz[1] - mhz[0]) * 1e6})
    hdu.writeto(path, overwrite=True)


# Packages with the functions that msimage.beam calls. Stations have a Gaussian beam off the pointing, which moves with the time, and a
# phase that differs between stations. A tile is an analytic one; directions are azimuth and zenith angle, columns theta and phi.
EVERYBEAM = """import numpy as np
def jones(time, k, hz, ra, dec):
    ra0, dec0 = np.radians([60, 50])
    l, m = np.cos(dec) * np.sin(ra - ra0), np.sin(dec) * np.cos(dec0) - np.cos(dec) * np.sin(dec0) * np.cos(ra - ra0)
    turn = 2e-5 * time % 1000 + 0.4 * k
    x, y = l - 0.005 * np.cos(turn), m - 0.004 * np.sin(turn)
    at = np.exp(-(x**2 + 0.8 * y**2) / 2 / 0.04**2 * (hz / 145e6)**2 + 1j * (0.3 * k + 5 * l * k))
    return at[..., None, None] * np.array([[1, 0.1j], [-0.2, 0.8]]) * (1 + 2 * m)[..., None, None]
class GridSettings: pass
class Telescope:
    nr_stations = 5
    station_response = None
    def gridded_response(self, g, time, hz, k):
        y, x = np.mgrid[:g.height, :g.width]
        l, m = (g.width / 2 - x) * g.dl + g.l_shift, (y - g.height / 2) * g.dm + g.m_shift
        n = np.sqrt(1 - l**2 - m**2)
        return jones(time, k, hz, g.ra + np.arctan2(l, n * np.cos(g.dec) - m * np.sin(g.dec)), np.arcsin(m * np.cos(g.dec) + n * np.sin(g.dec)))
def load_telescope(path):
    return Telescope()
"""
HYPERBEAM = """import numpy as np
class FEEBeam:
    def __init__(self, path): open(path)
    def calc_jones_array(self, a, z, hz, delays, amps, norm_to_zenith):
        assert all(amps == 1) and norm_to_zenith
        turns = 2 * np.pi * hz / 299792458.0
        e, n = np.sin(z) * np.sin(a), np.sin(z) * np.cos(a)
        path = [(k % 4 - 1.5) * 1.1 * e + (1.5 - k // 4) * 1.1 * n - delays[k] * 435e-12 * 299792458.0 for k in range(16)]
        gain = np.exp(1j * turns * np.array(path)).mean(axis=0) * np.sin(turns * 0.278 * np.cos(z)) / np.sin(turns * 0.278)
        return (gain * np.array([np.cos(z) * np.sin(a), np.cos(a), np.cos(z) * np.cos(a), -np.sin(a)])).T
"""


def helped(s, path, n, cell, *words, name="beam.fits"):
    """Run msimage.beam with these packages. Returns its process."""
    helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/msimage/beam.py")
    return subprocess.run([sys.executable, helper, path, "-name", s.path(name), "-size", str(n), str(n), "-scale", "%.12grad" % cell,
                           *words], env={**os.environ, "PYTHONPATH": s.path("packages") + ":" + os.environ.get("PYTHONPATH", "")},
                          check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")


def write_packages(s, *packages):
    os.makedirs(s.path("packages"), exist_ok=True)
    for name, text in packages:
        with open(s.path("packages/%s.py" % name), "w") as f:
            f.write(text)


def check_helper(s):
    """Jones matrices of other packages, written by msimage.beam for each station: the mean over baselines, predictions and images by
    facets and a-terms, and what is refused."""
    empty(s)
    write_packages(s, ("everybeam", "raise ImportError('no such package')"))
    sky, n, cell = Stations(s), 128, np.radians(0.06)
    done = helped(s, sky.path, n, cell)
    s.must(done.returncode == 3 and "pip install everybeam" in done.stderr and done.stderr.count("\n") == 1, "no package: one line")
    write_packages(s, ("everybeam", EVERYBEAM))
    for title, words, pattern in (("many times", ("-slot", "1e-9"), "longer -slot"), ("a folder that is missing", (), "No such file")):
        done = helped(s, sky.path, n, cell, *words, name="none/beam.fits")
        s.must(done.returncode == 3 and pattern in done.stderr and done.stderr.count("\n") == 1, "%s: %s" % (title, done.stderr[-300:]))
    done = helped(s, sky.path, n, cell, "-slot", "1700")
    s.must(done.returncode == 0 and "5 station(s), 12 time(s), 1 frequencies" in done.stdout, "everybeam: %s" % done.stdout + done.stderr[-300:])
    given = {}
    exec(EVERYBEAM, given)
    sky.jones = lambda when, hz, ra, dec: np.array([np.moveaxis(given["jones"](when, k, hz, ra, dec), 0, 2) for k in range(sky.n)])
    facet_is_right(s, sky, s.path("beam.fits"), 1e-3)
    y, x = (a.ravel() for a in np.mgrid[4:n:17, 4:n:17])
    ra, dec = directions_of(n, cell, 60, 50, x, y)
    size = ("-size", n, n, "-scale", "%.12grad" % cell, "-quiet", "-overwrite", "-name", "pb")
    words = (*size, "-apply-primary-beam", "-pb", s.path("beam.fits"), sky.path)
    mean_is_right(s, sky, "everybeam", words, (x, y), (ra, dec), None)
    empty(s)
    s.refused("a PSF of stations", 2, "each station has its own beam", *words[:-1], "-grid-with-beam", "-save-psf-pb", sky.path)
    s.refused("a larger image", 3, "does not cover", "-size", 2 * n, 2 * n, *words[3:])
    s.refused("a facet beyond", 3, "does not cover", "-size", 4 * n, 4 * n, *size[3:], "-facet-auto", 9, "-apply-facet-beam", *words[-3:])
    applied = np.radians([60.1, 50.1])
    for mode in "Full", "ArrayFactor":
        with table(sky.path, readonly=False, ack=False) as t:
            t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_MODE", mode)
            t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_DIR", {"type": "direction", "refer": "J2000", "m0": {
                "value": applied[0], "unit": "rad"}, "m1": {"value": applied[1], "unit": "rad"}})
        if mode == "Full":
            mean_is_right(s, sky, "everybeam, corrected data", words, (x, y), (ra, dec), applied)
    empty(s)
    s.refused("array factors in the data", 3, "corrected for the array factors", *words)
    with table(sky.path, readonly=False, ack=False) as t:
        t.removecolkeyword("DATA", "LOFAR_APPLIED_BEAM_MODE")
    for title, pattern, change in (("parts of matrices", "NAXIS3 is 8", {"CTYPE3": "STOKES"}), ("channels", "select channels", {"CRVAL5": 100e6}),
                                   ("times", "give beams of this set", {"CRVAL6": 4e9}), ("antennas", "4 antennas, the set 5", {"NAXIS4": 4}), ("order of times", "times must ascend", {"CDELT6": -1.0}),
                                   ("matrices", "MATRIX has 4 planes", {"NAXIS3": 4})):
        with fits.open(s.path("beam.fits")) as f:
            if "NAXIS4" in change or "NAXIS3" in change:
                f[0].data = f[0].data[:, :, :change.get("NAXIS4"), :change.get("NAXIS3")]
            else:
                f[0].header.update(change)
            f.writeto(s.path("other.fits"), overwrite=True)
        s.refused("other " + title, 3, pattern, *words[:-2], s.path("other.fits"), sky.path)
    empty(s)
    tiles = Tiles(s)
    write_packages(s, ("mwa_hyperbeam", HYPERBEAM))
    done = helped(s, tiles.path, n, cell, "-mwa-path", s.path("packages/none.h5"))
    s.must(done.returncode == 3 and "-pb mwa-analytic" in done.stderr, "no coefficients: one line")
    with open(s.path("packages/mwa_full_embedded_element_pattern.h5"), "w"):
        pass
    done = helped(s, tiles.path, n, np.radians(0.2), "-mwa-path", s.path("packages"), "-slot", "1200")
    s.must(done.returncode == 0 and "1 station(s), 6 time(s), 2 freq" in done.stdout, "mwa_hyperbeam: %s" % done.stdout + done.stderr[-300:])
    # astropy's horizon has aberration, 20 arcsec, and nutation.
    tiles_are_right(s, tiles, s.path("beam.fits"), 3e-4, "-mwa-path", s.path("packages"))


class Observed:
    """A real set of LOFAR, and its stations' beams by everybeam."""
    def __init__(self, s, archive):
        helper = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/msimage/beam.py")
        spec = importlib.util.spec_from_file_location("beam", helper)
        beam = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(beam)
        with tarfile.open(archive) as f:
            f.extractall(s.path(""))
        self.path, self.at = s.path("lofar-hba-3c295.ms"), (213.5, 52.9)
        self.stations = beam.Stations(beam.Set(self.path)).beam
        with table(self.path, ack=False) as t:
            self.time, self.pairs = t.getcol("TIME"), np.stack([t.getcol("ANTENNA1"), t.getcol("ANTENNA2")], axis=1)
        with table(self.path + "/SPECTRAL_WINDOW", ack=False) as t:
            self.hz = t.getcol("CHAN_FREQ").ravel()[0]

    def jones(self, time_s, hz, ra, dec):
        return np.array([self.stations.station_response(time_s, k, hz, ra[0], dec[0])[..., None] for k in range(self.stations.nr_stations)])


def check_wheels(s):
    """The same with the packages themselves, where they are installed: LOFAR by everybeam, and tiles whose coefficients for mwa_hyperbeam
    are those of short dipoles in free space at one place."""
    empty(s)
    shutil.rmtree(s.path("packages"), ignore_errors=True)
    archive = os.path.join(os.environ.get("MSIMAGE_TEST_DATA", ""), "lofar-hba-3c295.tar.xz")
    if importlib.util.find_spec("everybeam") and os.path.exists(archive):
        sky = Observed(s, archive)
        done = helped(s, sky.path, 256, np.radians(2 / 60))
        s.must(done.returncode == 0, "everybeam: %s" % done.stdout + done.stderr[-300:])
        facet_is_right(s, sky, s.path("beam.fits"), 1e-3)
    else:
        print("skipped: no package everybeam, or no set lofar-hba-3c295")
    if not importlib.util.find_spec("mwa_hyperbeam"):
        print("skipped: no package mwa_hyperbeam")
        return
    # Transverse magnetic modes of degree 1 and orders -1, 0 and 1: E = theta cos(theta) cos(phi) - phi sin(phi) for X.
    with h5py.File(s.path("mwa_full_embedded_element_pattern.h5"), "w") as f:
        f["modes"] = np.array([[1, 1, 1, 2, 2, 2], [-1, 0, 1] * 2, [1] * 6], np.int8)
        for k in range(1, 17):
            f["X%d_150000000" % k] = np.array([[0, 0, 0, 1, 0, 1], [0, 0, 0, 90, 0, -90]], float)
            f["Y%d_150000000" % k] = np.array([[0, 0, 0, 1, 0, 1], [0, 0, 0, 180, 0, 180]], float)
    sky = Tiles(s)

    def jones(time_s, hz, ra, dec):
        e, n, u = sky.axes @ itrf(time_s, ra, dec)
        a, gain = np.arctan2(e, n), np.exp(-2j * np.pi * 150e6 * 435e-12 * np.array(MWA_DELAYS)).mean()
        return gain * np.array([[u * np.sin(a), np.cos(a)], [u * np.cos(a), -np.sin(a)]])
    sky.jones = jones
    done = helped(s, sky.path, 128, np.radians(0.2), "-mwa-path", s.path(""), "-slot", "1200")
    s.must(done.returncode == 0, "mwa_hyperbeam: %s" % done.stdout + done.stderr[-300:])
    tiles_are_right(s, sky, s.path("beam.fits"), 3e-4)


def check_files(s):
    """Beams of files that were written from a model give its images; what does not fit is refused."""
    empty(s)
    pixel = np.arange(-150, 151)
    sky, step = Sky(s, "vla", 128), 1.4 * 40 * ARCMIN / 150
    x, y = np.meshgrid(-pixel * step, pixel * step)
    x, y = (np.arcsin(np.minimum(1, np.hypot(x, y))) / np.maximum(np.hypot(x, y), 1e-9) * a for a in (x, y))
    power = s.path("power.fits")
    write_beam(power, np.array([vla(m, x, y, None) for m in sky.mhz]), step, sky.mhz, True)
    worst = compare_models(s, sky, "vla", power)
    s.must(worst < 1e-4, "a cube of power, %.1e from the model" % worst)
    size = ("-size", 64, 64, "-scale", "1amin", "-pbcor")
    with fits.open(power) as f:
        narrow = s.path("narrow.fits")
        write_beam(narrow, f[0].data[1:3], step, sky.mhz[1:3], True)
        fits.writeto(s.path("flat.fits"), f[0].data[0], f[0].header, overwrite=True)
    s.refused("a beam of other frequencies", 3, "1104 to 1360 MHz", *size, "-pb", narrow, sky.path)
    s.refused("a beam without frequencies", 3, "FREQ", *size, "-pb", s.path("flat.fits"), sky.path)
    s.refused("no beam", 3, "none.fits", *size, "-pb", s.path("none.fits"), sky.path)
    sky, step = Sky(s, "meerkat", 128), 1.5 * 88 * ARCMIN / 150
    x, y = np.meshgrid(pixel * step, pixel * step)
    feeds = [[cosine_taper(np.degrees(x), np.degrees(y), *MEERKAT_L[m][k:k + 2], *MEERKAT_L[m][4 + k:6 + k]) for m in sky.mhz]
             for k in (0, 2)]
    for corr, values in (("xx", feeds[0]), ("xy", None), ("yx", None), ("yy", feeds[1])):
        for part in ("re", "im"):
            cube = np.array(values) if values and part == "re" else np.zeros((4, 301, 301))
            write_beam(s.path("dish_%s_%s.fits" % (corr, part)), cube, step, sky.mhz, False)
    pattern = s.path("dish_$(corr)_$(reim).fits")
    worst = compare_models(s, sky, "meerkat", pattern)
    s.must(worst < 1e-4, "eight cubes of a Jones matrix, %.1e from the model" % worst)
    try_config(s, sky, step, pattern)
    with table(sky.path + "/POLARIZATION", readonly=False, ack=False) as t:
        t.putcell("CORR_TYPE", 0, np.array([5, 8], np.int32))
    s.refused("a beam of other feeds", 3, "linear", *size, "-pb", pattern, sky.path)


def try_config(s, sky, step, pattern):
    """A JSON file gives antennas beams by their names: those of another type see 0.64 of the power."""
    with table(sky.path + "/ANTENNA", readonly=False, ack=False) as t:
        names = ["m%03d" % i if i % 3 else "SKA%03d" % i for i in range(t.nrows())]
        t.putcol("NAME", names)
        t.putcol("DISH_DIAMETER", np.where(np.arange(t.nrows()) % 3, 13.5, 15.0))
    for corr in "xx", "xy", "yx", "yy":
        for part in "re", "im":
            with fits.open(pattern.replace("$(corr)", corr).replace("$(reim)", part)) as f:
                f[0].data *= 0.8
                f.writeto(s.path("ska_%s_%s.fits" % (corr, part)), overwrite=True)
    config, size = s.path("beams.json"), ("-size", 64, 64, "-scale", "1amin", "-pbcor")
    rules = {"cmd::default": "dish", "~SKA[0-9]{3}": "ska", "m001": "dish"}

    def write(patterns, types):
        with open(config, "w") as f:
            json.dump({"lband": {"patterns": patterns, "define-stationtypes": types}}, f)
    write({"cmd::default": [s.path("absent_$(corr)_$(reim).fits"), s.path("$(stype)_$(corr)_$(reim).fits")]}, rules)
    run(s, sky, "-pbcor", "-pb", pattern)
    alone = pixels(s, "0001-pb")
    run(s, sky, "-pbcor", "-pb", config)
    # The mean over baselines of products of voltages, 1 or 0.8.
    with table(sky.path, ack=False) as t:
        inside = np.hypot(*t.getcol("UVW").T[:2]) * sky.mhz[1] * 1e6 / C < sky.limit
        voltage = np.where([n[0] == "S" for n in names], 0.8, 1)
        want = (voltage[t.getcol("ANTENNA1")] * voltage[t.getcol("ANTENNA2")])[inside].mean()
    off = np.nanmax(np.abs(pixels(s, "0001-pb") / alone / want - 1))
    s.must(off < 5e-3, "two types of beams by names: the mean over baselines is off by %.1e" % off)
    empty(s)
    write({"cmd::default": pattern}, {"SKA000": "dish"})
    s.refused("an antenna without a type", 3, "m001", *size, "-pb", config, sky.path)
    write({"ska": pattern}, rules)
    s.refused("a type without patterns", 3, "patterns", *size, "-pb", config, sky.path)
    with open(config, "w") as f:
        f.write("{'lband': {}}")
    s.refused("another file", 3, "line 1", *size, "-pb", config, sky.path)
    write({"cmd::default": s.path("$(stype)_$(corr)_$(reim).fits")}, {**rules, "m001": "ska"})
    s.refused("types of one diameter", 3, "DISH_DIAMETER", *size, "-pb", config, sky.path)


def compare_models(s, sky, *models):
    """The largest difference between the responses of two models."""
    beams = []
    for model in models:
        run(s, sky, "-pbcor", "-pb", model, "-pblimit", 0.06, "-apply-primary-beam")
        beams.append(np.array([pixels(s, "%04d-%s" % (c, kind)) for c in range(4) for kind in ("pb", "beam-0", "beam-15")]))
    empty(s)
    both = np.isfinite(beams[0]) & np.isfinite(beams[1]) & (beams[0] > 0.07)
    s.must(both.mean() > 0.1, "beams cover the image, %.2f" % both.mean())
    return np.abs(beams[0] - beams[1])[both].max()


def check_choices(s):
    """Models by words, files of an earlier run, a mask, and what is refused."""
    sky = Sky(s, "vla")
    run(s, sky, "-png", "-overwrite")
    plain = read_bytes(s, "0002-dirty.png")
    run(s, sky, "-apply-primary-beam", "-save-psf-pb", "-make-psf", "-png")
    s.must(read_bytes(s, "0002-dirty.png") != plain, "pictures show the contour of half power")
    first, psf = pixels(s, "0002-image-pb"), pixels(s, "0002-psf")
    beam = pixels(s, "0002-beam-0")
    s.must(np.allclose(pixels(s, "0002-psf-pb") * beam, psf, atol=1e-5, equal_nan=True) or
           np.nanmax(np.abs(pixels(s, "0002-psf-pb") * beam - psf)) < 1e-5, "the PSF over the beam")
    os.rename(os.path.join(s.out, "pb-0002-beam-0.fits"), os.path.join(s.out, "kept.fits"))
    with fits.open(os.path.join(s.out, "kept.fits")) as f:
        f[0].data *= 0.5
        f.writeto(os.path.join(s.out, "pb-0002-beam-0.fits"))
    run(s, sky, "-apply-primary-beam", "-reuse-primary-beam")
    ratio = pixels(s, "0002-image-pb") / first
    s.must(abs(np.nanmedian(ratio) - 1 / 0.75) < 1e-4, "files of an earlier run are used: %.5f" % np.nanmedian(ratio))
    run(s, sky, "-pbcor", "-pb", "gauss:40amin@1.04GHz")
    x = sky.n // 2 + 20
    angle = np.arcsin(20 * sky.cell) / ARCMIN
    for c, mhz in enumerate(sky.mhz):
        want = np.exp(-4 * np.log(2) * (angle * mhz / 1040 / 40)**2)
        s.must(abs(pixels(s, "%04d-pb" % c)[sky.n // 2, x] - want) < 1e-5, "a Gaussian of the command line")
    run(s, sky, "-niter", 200, "-pbmask", 0.5, "-join-channels", "-no-update-model-required")
    model = np.abs(pixels(s, "MFS-model")) > 0
    y, x = np.nonzero(model)
    s.must(model.any() and np.mean([sky.mean(m, x, y) for m in sky.mhz], axis=0).min() > 0.499, "components within the mask of the beam")
    empty(s)
    size = ("-size", 64, 64, "-scale", "5asec")
    other = s.made("other.ms", "-telescope", "vla", "-duration", "10s", "-spw", "1.4GHz", "1MHz", 1)
    with table(other + "/OBSERVATION", readonly=False, ack=False) as t:
        t.putcell("TELESCOPE_NAME", 0, "NOWHERE")
    s.refused("no word for a prediction", 2, "-pb", "-predict", "-pb", "banana", "-name", "pb", other)
    s.refused("no model", 3, "NOWHERE", *size, "-pbcor", other)
    s.refused("no word", 2, "-pb", *size, "-pb", "banana", "-pbcor", other)
    s.refused("a beam of no telescope", 2, "which no telescope has", *size, "-pb", "poly:-1e30", "-pbcor", other)
    narrow = s.launch(*size, "-pb", "airy:1e5", "-pbcor", "-dry-run", "-name", "pb", other)
    s.must("pixels wide at half power" in narrow.stderr, "a beam narrower than a pixel is logged")
    s.refused("models that share flux", 2, "of XX and of I share flux", *size, "-pol", "XX,I", "-niter", 9, "-mgain", 0.8, other)
    s.refused("no beam", 2, "-pb off", *size, "-pb", "off", "-pbcor", other)
    s.refused("mask without cleaning", 2, "-niter", *size, "-pbmask", 0.5, other)
    s.refused("PSF without beam", 2, "-apply-primary-beam", *size, "-save-psf-pb", other)
    s.refused("embedded elements", 3, "-pb mwa-analytic", *size, "-apply-primary-beam", "-mwa-path", "/", other)
    s.refused("embedded elements in facets", 3, "msimage.beam .* -pb mwa-analytic", *size, "-facet-auto", 4, "-apply-facet-beam", "-mwa-path", "/", other)
    s.refused("facets without cross-hands", 3, "give -diagonal-visibilities", *size, "-pb", "meerkat", "-facet-auto", 4, "-apply-facet-beam", sky.path)
    s.refused("files that are not there", 3, "beam-0", *size, "-apply-primary-beam", "-reuse-primary-beam", other)


# A station of LOFAR: tiles, whose dipoles have delays, towards two directions, with a dipole that is described by a series.
FIELD_DTYPE = {"ANTENNA_ID": 0, "NAME": "", "POSITION": 0.0, "COORDINATE_AXES": 0.0, "ELEMENT_OFFSET": 0.0, "ELEMENT_FLAG": False,
               "TILE_ELEMENT_OFFSET": 0.0}


class Stations:
    """A set with layouts of stations, and the definition of their beams."""

    def __init__(self, s):
        random = np.random.default_rng(7)
        self.n, self.path, core = 5, s.path("lofar.ms"), np.array([3826896.2, 460979.5, 5064658.2])
        east, north, up = site_axes(core)
        at = core + random.normal(size=(self.n, 2)) * 100 @ np.array([east, north])
        layout = s.path("stations.txt")
        with open(layout, "w") as f:
            f.writelines("%.4f %.4f %.4f 30 CS%03dHBA\n" % (*p, i) for i, p in enumerate(at))
        fresh_copy(s.made("lofar.made.ms", "-layout-file", layout, "-duration", "6h", "-integration", "1h", "-ra",
                          "60deg", "-dec", "50deg", "-pol", "XX,XY,YX,YY", "-spw", "145MHz", "6MHz", 1), self.path)
        self.fields = []
        for i in range(self.n):
            turn = 0.7 * i
            p, q = np.cos(turn) * east + np.sin(turn) * north, np.cos(turn) * north - np.sin(turn) * east
            flags = random.random((24, 2)) < 0.1
            self.fields.append({"ANTENNA_ID": i, "NAME": "HBA", "POSITION": at[i] + 0.06 * east, "COORDINATE_AXES": np.array([p, q, up]),
                                "ELEMENT_OFFSET": random.uniform(-15, 15, (24, 2)) @ np.array([p, q]), "ELEMENT_FLAG": flags,
                                "TILE_ELEMENT_OFFSET": np.array([(k // 4 - 1.5) * 1.25 * p + (k % 4 - 1.5) * 1.25 * q for k in range(16)])})
        self.antenna = at
        self.at, self.hz = (61, 51), 145e6  # a source and the frequency
        self.aim, self.tile = np.radians([60.5, 50.3]), np.radians([60.2, 49.6])
        # Harmonics, powers of the angle, powers of the frequency, theta and phi.
        self.dipole = (random.normal(size=(2, 5, 5, 2)) + 0.2j * random.normal(size=(2, 5, 5, 2))) * 0.1
        self.dipole[0, 0, 0] = 1
        self.write(s)

    def write(self, s):
        from casacore.tables import makearrcoldesc, makescacoldesc, maketabdesc
        sample = self.fields[0]
        columns = [makescacoldesc(k, v) if np.isscalar(sample[k]) else makearrcoldesc(k, v, np.ndim(sample[k]))
                   for k, v in FIELD_DTYPE.items()]
        with table(self.path + "/LOFAR_ANTENNA_FIELD", maketabdesc(columns), nrow=self.n, readonly=False, ack=False) as t:
            for i, f in enumerate(self.fields):
                for name, value in f.items():
                    t.putcell(name, i, value)
        with table(self.path, readonly=False, ack=False) as t:
            t.putkeyword("LOFAR_ANTENNA_FIELD", "Table: " + self.path + "/LOFAR_ANTENNA_FIELD")
            # Baselines differ in weight.
            self.pairs = np.stack([t.getcol("ANTENNA1"), t.getcol("ANTENNA2")], axis=1)
            self.weight = 1 + self.pairs[:, 0] + 2.0 * self.pairs[:, 1]
            spectrum = t.getcol("WEIGHT_SPECTRUM")
            t.putcol("WEIGHT_SPECTRUM", np.broadcast_to(self.weight[:, None, None], spectrum.shape).astype(np.float32))
            self.time = t.getcol("TIME")
        with table(self.path + "/FIELD", readonly=False, ack=False) as t:
            t.addcols(maketabdesc([makearrcoldesc("LOFAR_TILE_BEAM_DIR", 0.0, 1)]))
            t.putcell("LOFAR_TILE_BEAM_DIR", 0, self.tile)
            t.putcell("DELAY_DIR", 0, self.aim[None])
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, "LOFAR")
        with h5py.File(s.path("HamakerHBACoeff.h5"), "w") as f:
            f["coeff"] = self.dipole
            f["coeff"].attrs["freq_center"], f["coeff"].attrs["freq_range"] = 180e6, 60e6

    def jones(self, time_s, hz, ra, dec):
        """Of each station, with columns along two axes of the sky, [station][feed][2][direction]."""
        way, to, tile = (itrf(time_s, *d) for d in ((ra, dec), self.aim, self.tile))
        turns = 2j * np.pi * hz / C
        out = []
        for f, antenna in zip(self.fields, self.antenna):
            on = 1.0 - f["ELEMENT_FLAG"]
            wave = np.exp(turns * (f["ELEMENT_OFFSET"] + f["POSITION"] - antenna) @ (way - to[:, None]))
            factor = on.T @ wave / on.sum(axis=0)[:, None]
            factor = factor * np.exp(turns * f["TILE_ELEMENT_OFFSET"] @ (way - tile[:, None])).mean(axis=0)
            p, q, r = f["COORDINATE_AXES"] @ way
            theta, phi = np.arccos(r), np.arctan2(q, p) - 1.25 * np.pi
            of = np.polynomial.polynomial.polyval2d(theta, np.full_like(theta, (hz - 180e6) / 60e6), np.moveaxis(self.dipole, 0, 2).reshape(5, 5, 4))
            dipole = sum(np.array([[np.cos(k * phi), -np.sin(k * phi)], [np.sin(k * phi), np.cos(k * phi)]]) * of[2 * i:2 * i + 2]
                         for i, k in enumerate((1, -3)))
            # From the station's theta and phi to axes that all stations share.
            normal = f["COORDINATE_AXES"][2][:, None]
            along = np.cross(normal, way, axis=0)
            along /= np.linalg.norm(along, axis=0)
            down = np.cross(along, way, axis=0)
            shared = np.cross([0, 0, 1], way, axis=0)
            shared /= np.linalg.norm(shared, axis=0)
            other = np.cross(way, shared, axis=0)
            turn = np.array([[(a * b).sum(axis=0) for b in (other, shared)] for a in (down, along)])
            out.append(factor[:, None] * np.einsum("fin,ijn->fjn", dipole, turn))
        return np.array(out)

    def powers(self, hz, ra, dec, applied=None):
        """The mean power of both feeds over all baselines and times, [feed][direction]."""
        total = 0
        for when in np.unique(self.time):
            a = self.jones(when, hz, ra, dec)
            if applied is not None:
                a = np.einsum("sfi,sijn->sfjn", np.linalg.inv(self.jones(when, hz, *np.array(applied)[:, None])[..., 0]), a)
            for (p, q), w in zip(self.pairs[self.time == when], self.weight[self.time == when]):
                total = total + w * np.einsum("fjn,fjn->fn", a[p], a[q].conj()).real
        return total / self.weight.sum()


class Tiles:
    """A set of MWA tiles that are steered 6.8 degrees north of the zenith, and the definition of their beam."""
    def __init__(self, s):
        from casacore.tables import makearrcoldesc, maketabdesc
        self.path, site = s.path("mwa.ms"), np.array([-2559454.1, 5095372.1, -2849057.2])
        self.axes = site_axes(site)
        at = site + np.random.default_rng(3).normal(size=(6, 2)) * 60 @ self.axes[:2]
        layout = s.path("tiles.txt")
        with open(layout, "w") as f:
            f.writelines("%.4f %.4f %.4f 4 Tile%03d\n" % (*p, i) for i, p in enumerate(at))
        fresh_copy(s.made("mwa.made.ms", "-layout-file", layout, "-duration", "2h", "-integration", "20min", "-ra", "60deg", "-dec", "-20deg",
                          "-pol", "XX,XY,YX,YY", "-spw", "150MHz", "1MHz", 2), self.path)
        with table(self.path + "/OBSERVATION", readonly=False, ack=False) as t:
            t.putcell("TELESCOPE_NAME", 0, "MWA")
        with table(self.path + "/MWA_TILE_POINTING", maketabdesc([makearrcoldesc("DELAYS", 0, 1)]), nrow=1, readonly=False, ack=False) as t:
            t.putcell("DELAYS", 0, np.array(MWA_DELAYS, np.int32))
        with table(self.path, readonly=False, ack=False) as t:
            t.putkeyword("MWA_TILE_POINTING", "Table: " + self.path + "/MWA_TILE_POINTING")

    def jones(self, time_s, hz, ra, dec):
        return tile_jones(self.axes, time_s, hz, ra, dec)


def check_mwa(s):
    """Tiles that stand still: the mean beam over a time in which the sky turns, and a prediction."""
    empty(s)
    sky = Tiles(s)
    tiles_are_right(s, sky, "auto", 1e-4)
    with table(sky.path + "/MWA_TILE_POINTING", readonly=False, ack=False) as t:
        t.addrows(1)
        t.putcell("DELAYS", 1, np.array(MWA_DELAYS, np.int32)[::-1] + 1)
    s.refused("pointings with other delays", 3, "split the set", "-size", 64, 64, "-scale", "1amin", "-pbcor", sky.path)


def tiles_are_right(s, sky, model, most, *more):
    """Check images and predictions with a model of the beam against the definition."""
    n, cell = 128, np.radians(0.2)
    ra0, dec0 = np.radians([60, -20])

    def directions(x, y):
        l, m = -(x - n / 2) * cell, (y - n / 2) * cell
        nn = np.sqrt(1 - l**2 - m**2)
        return l, m, nn, ra0 + np.arctan2(l, nn * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + nn * np.sin(dec0))
    y, x = (a.ravel() for a in np.mgrid[4:n:17, 4:n:17])
    done = s.launch("-quiet", "-overwrite", "-name", "pb", "-size", n, n, "-scale", "%.12grad" % cell, "-channels-out", 2,
                    "-apply-primary-beam", "-pb", model, *more, sky.path)
    s.must(done.returncode == 0, "MWA: runs%s" % done.stderr[-800:])
    with table(sky.path, ack=False) as t:
        uvw, time = t.getcol("UVW"), t.getcol("TIME")
    worst = 0
    for c, hz in enumerate((150e6, 151e6)):
        want = np.mean([(np.abs(sky.jones(when, hz, *directions(x, y)[3:]))**2).sum(axis=1) for when in np.unique(time)], axis=0)
        worst = max(worst, *(np.abs(pixels(s, "%04d-beam-%d" % (c, k))[y, x] - w).max() for k, w in zip((0, 15), want)))
    s.must(worst < 2e-4, "MWA: power of both feeds, %.1e from the mean over times" % worst)
    empty(s)
    at, flux = np.array([[64, 70], [90, 40], [30, 75], [50, 20]]), np.array([1.0, 2.0, 0.5, 1.5])
    hdu = fits.PrimaryHDU(np.zeros((1, 1, n, n), np.float32))
    hdu.data[0, 0, at[:, 1], at[:, 0]] = flux
    for i, (kind, value, delta, unit) in enumerate((("RA---SIN", 60, -np.degrees(cell), "deg"), ("DEC--SIN", -20, np.degrees(cell), "deg"),
                                                    ("FREQ", 150.5e6, 2e6, "Hz"), ("STOKES", 1, 1, "")), 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: delta, "CRPIX%d" % i: n // 2 + 1 if i < 3 else 1,
                           "CUNIT%d" % i: unit})
    hdu.header.update({"BUNIT": "JY/PIXEL", "RADESYS": "FK5", "EQUINOX": 2000.0})
    hdu.writeto(os.path.join(s.out, "pb-model.fits"), overwrite=True)
    l, m, nn, ra, dec = directions(at[:, 0], at[:, 1])
    edge = [-2, *(np.sort(at[:, 0])[1:] + np.sort(at[:, 0])[:-1]) / 2, n + 2]
    with open(s.path("strips.reg"), "w") as f:
        f.write("fk5\n")
        for low, high, k in zip(edge[:-1], edge[1:], np.argsort(at[:, 0])):
            corner, a, d = np.degrees(directions(np.array([low, high, high, low]), np.array([-2, -2, n + 2, n + 2]))[3:]).T, ra[k], dec[k]
            f.write("polygon(%s)\npoint(%.9f,%.9f)\n" % (",".join("%.9f" % v for v in corner.ravel()), *np.degrees([a, d])))
    for words in (), ("-facet-regions", s.path("strips.reg"), "-apply-facet-beam", "-facet-beam-update", 0):
        done = s.launch("-quiet", "-predict", "-pb", model, *words, *more, "-accuracy", 1e-4, "-name", "pb", sky.path)
        s.must(done.returncode == 0, "MWA: predicts%s" % done.stderr[-800:])
        with table(sky.path, ack=False) as t:
            seen = t.getcol("MODEL_DATA").reshape(-1, 2, 2, 2)
        worst = 0
        for when in np.unique(time):
            for c, hz in enumerate((150e6, 151e6)):
                j = sky.jones(when, hz, ra, dec)
                apparent = np.einsum("fin,gin->fgn", j, j.conj()) * flux
                rows = np.flatnonzero(time == when)
                want = np.einsum("rn,fgn->rfg", np.exp(2j * np.pi * hz / C * uvw[rows] @ np.array([l, m, nn - 1])), apparent)
                worst = max(worst, np.abs(seen[rows, c] - want).max() / flux.sum())
        s.must(worst < most, "MWA%s: visibilities, %.1e of the flux from the sum" % (" by facets" if words else "", worst))
    empty(s)


def facet_is_right(s, sky, model, most):
    """Predictions by a facet and by -grid-with-beam have each station's own beam in a direction; cleaning recovers the true flux."""
    step, n = np.radians(1 / 3600), 64
    hdu = fits.PrimaryHDU(np.zeros((1, 1, n, n), np.float32))
    hdu.data[0, 0, n // 2, n // 2] = 1
    for i, (kind, value, delta, unit) in enumerate((("RA---SIN", sky.at[0], -step, "deg"), ("DEC--SIN", sky.at[1], step, "deg"), ("FREQ", sky.hz, 1e6, "Hz"),
                                                    ("STOKES", 1, 1, "")), 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: np.degrees(delta) if i < 3 else delta,
                           "CRPIX%d" % i: n // 2 + 1 if i < 3 else 1, "CUNIT%d" % i: unit})
    hdu.header["BUNIT"] = "JY/PIXEL"
    hdu.writeto(os.path.join(s.out, "pb-model.fits"), overwrite=True)
    for title, words in (("a facet", ("-facet-auto", 1, "-apply-facet-beam", "-facet-beam-update", 0)),
                         ("-grid-with-beam", ("-grid-with-beam", "-beam-aterm-update", 0)), ("-predict -pb", ("-beam-aterm-update", 0))):
        done = s.launch("-quiet", "-predict", *words, "-accuracy", 1e-6, "-pb", model, "-name", "pb", sky.path)
        s.must(done.returncode == 0, "LOFAR, %s: predicts%s" % (title, done.stderr[-800:]))
        with table(sky.path, ack=False) as t:
            seen = t.getcol("MODEL_DATA")[:, 0].reshape(-1, 2, 2)
        worst = 0
        for when in np.unique(sky.time):
            a = sky.jones(when, sky.hz, *np.radians([[sky.at[0]], [sky.at[1]]]))[..., 0]
            for (p, q), got in zip(sky.pairs[sky.time == when], seen[sky.time == when]):
                want = a[p] @ a[q].conj().T
                # The phase is that of the baseline: amplitudes are compared.
                worst = max(worst, np.abs(np.abs(got) - np.abs(want)).max(), abs(np.linalg.norm(got) - np.linalg.norm(want)))
        s.must(worst < most, "LOFAR, %s: visibilities, %.1e of 1 Jy from the beams of both stations" % (title, worst))
    at = ("-quiet", "-overwrite", "-name", "pb", "-size", n, n, "-scale", "2amin", "-shift", "%gdeg" % sky.at[0], "%gdeg" % sky.at[1], "-data-column", "MODEL_DATA",
          "-grid-with-beam", "-beam-aterm-update", 0, "-pb", model)
    for words in (), ("-niter", 100, "-threshold", "1mJy", "-no-update-model-required", "-beam-size", "30amin"):
        done = s.launch(*at, *words, sky.path)
        flux = pixels(s, "image-pb")[n // 2, n // 2] if done.returncode == 0 else 0
        s.must(abs(flux - 1) < 1e-3, "LOFAR, -grid-with-beam, %s: %.5f of the true flux%s" % (words[:2], flux, done.stderr[-400:]))
    empty(s)


def write_pointing(path, centres, offset, is_azel):
    """Write POINTING of a set: at each time all dishes point north of their field's centre, by a polynomial in time; one dish is elsewhere, rows
    are not sorted, and one has no time."""
    with table(path, ack=False) as t:
        when, first = np.unique(t.getcol("TIME"), return_index=True)
        field = t.getcol("FIELD_ID")[first]
    with table(path + "/ANTENNA", ack=False) as t:
        site = t.getcol("POSITION")
    rows = []
    for at, of in zip(when, field):
        for a in range(len(site)):
            ra, dec = centres[of] + np.array([0, offset + (0.03 if a == 2 else 0)])
            if is_azel:
                e, n, u = site_axes(site[a]) @ itrf(at, ra, dec)
                ra, dec = np.arctan2(e, n), np.arcsin(u)
            rows.append((at, a, ra, dec))
    rows.append((np.nan, 0, 1, 1))
    # Of azimuths and elevations, the terms would not be straight on the sky.
    slope = 0 if is_azel else 1e-3
    with table(path + "/POINTING", readonly=False, ack=False) as t:
        t.addrows(len(rows) - t.nrows())
        for i, (at, a, ra, dec) in enumerate(rows[::-1]):
            for name, value in (("TIME", at), ("ANTENNA_ID", a), ("INTERVAL", 30.0), ("TIME_ORIGIN", at - 50), ("NUM_POLY", 1)):
                t.putcell(name, i, value)
            t.putcell("DIRECTION", i, np.array([[ra, dec - 50 * slope], [0, slope]]))
        keyword = t.getcolkeyword("DIRECTION", "MEASINFO")
        t.putcolkeyword("DIRECTION", "MEASINFO", dict(keyword, Ref="AZELGEO" if is_azel else "J2000"))


def check_pointing(s):
    """With -use-pointing the beam is where POINTING says, in images, mosaics and predictions; without it a warning says so."""
    empty(s)
    path = s.made("pointing.ms", "-telescope", "vla", "-config", "D", "-duration", "10min", "-integration", "1min", "-ra", "60deg", "-dec", "30deg", "-field",
                  "60.3deg", "30deg", "-pol", "XX,YY", "-source", "60deg", "30.1deg", "1Jy", "-spw", "1400MHz", "1MHz", 1)
    n, cell, width, offset = 128, np.radians(1 / 60), np.radians(0.5), np.radians(10 / 60)
    words = ("-size", n, n, "-scale", "1amin", "-shift", "60deg", "30deg", "-overwrite", "-quiet", "-name", "pb", "-pb", "gauss:30amin@1.4GHz", path)
    y, x = np.mgrid[:n, :n]
    l, m = -(x - n / 2) * cell, (y - n / 2) * cell
    centres = np.radians([[60, 30], [60.3, 30]])

    def power(field, off):
        """A Gaussian about a direction, on the image's tangent plane."""
        ra, dec, dec0 = centres[field][0] - centres[0][0], centres[field][1] + off, centres[0][1]
        at = np.cos(dec) * np.sin(ra), np.sin(dec) * np.cos(dec0) - np.cos(dec) * np.sin(dec0) * np.cos(ra)
        third = np.sqrt(1 - at[0]**2 - at[1]**2) - np.sqrt(1 - l**2 - m**2)
        angle = 2 * np.arcsin(np.sqrt((l - at[0])**2 + (m - at[1])**2 + third**2) / 2)
        return np.exp(-4 * np.log(2) * (angle / width)**2)

    for is_azel, limit in (False, 2e-5), (True, 0.015):
        write_pointing(path, centres, offset, is_azel)
        for field in 0, 1:
            done = s.launch("-field", field, "-use-pointing", "-pbcor", "-pblimit", 0.1, *words)
            off = np.nanmax(np.abs(pixels(s, "pb") - power(field, offset))) if done.returncode == 0 else 9
            s.must(off < limit, "POINTING, AZEL %s, field %d: %.1e from the Gaussian about it%s" % (is_azel, field, off, done.stderr[-300:]))
    write_pointing(path, centres, offset, False)
    done = s.launch("-mosaic", "-use-pointing", *words)
    sum2 = power(0, offset)**2 + power(1, offset)**2
    off = np.nanmax(np.abs(pixels(s, "pb") - np.sqrt(sum2 / sum2.max()))) if done.returncode == 0 else 9
    s.must(off < 1e-3, "POINTING: a mosaic's response within %.1e%s" % (off, done.stderr[-300:]))
    done = s.launch("-field", 0, "-pbcor", "-pblimit", 0.1, *words)
    off = np.nanmax(np.abs(pixels(s, "pb") - power(0, 0))) if done.returncode == 0 else 9
    s.must(off < 2e-5 and "10 arcmin from the phase centre by POINTING" in done.stderr, "POINTING is noted without the option: %s" % done.stderr)
    # A source of 1 Jy at the centre, as the dishes see it 10 arcmin away from their pointing.
    fits.PrimaryHDU(np.where((x == n // 2) & (y == n // 2), 1, 0).astype(np.float32)[None, None], fits.getheader(os.path.join(s.out, "pb-pb.fits"))).writeto(
        os.path.join(s.out, "pb-model.fits"))
    done = s.launch("-quiet", "-predict", "-field", 0, "-use-pointing", "-accuracy", 1e-5, "-name", "pb", "-pb", "gauss:30amin@1.4GHz", path)
    with table(path, ack=False) as t:
        seen = np.abs(t.getcol("MODEL_DATA")[t.getcol("FIELD_ID") == 0]) if done.returncode == 0 else np.zeros(1)
    s.must(np.abs(seen - power(0, offset)[n // 2, n // 2]).max() < 1e-4, "POINTING: a prediction%s" % done.stderr[-300:])
    judge_bad_pointing(s, path, words)


def judge_bad_pointing(s, path, words):
    """A table that was never filled, cells without a direction, a truncated file, no table: the beam is at the phase centre, with a warning."""
    words = ("-field", 0, "-use-pointing", "-pbcor", *words)
    shutil.copytree(path + "/POINTING", s.path("kept"))
    for title in "zeros", "not numbers", "truncated", "missing":
        with table(path + "/POINTING", readonly=False, ack=False) as t:
            for i in range(t.nrows()):
                t.putcell("DIRECTION", i, np.full((2, 2), 0 if title == "zeros" else np.nan))
        if title == "truncated":
            os.truncate(path + "/POINTING/table.f0", 1000)
        if title == "missing":
            with table(path, readonly=False, ack=False) as t:
                t.removekeyword("POINTING")
        done = s.launch(*words)
        lines = [a for a in done.stderr.splitlines() if "too coarse" not in a]
        s.must(done.returncode == 0 and 1 <= len(lines) <= 2 and all("POINTING" in a and "the phase centre" in a for a in lines),
               "POINTING, %s: code %s, %s" % (title, done.returncode, done.stderr))
        shutil.rmtree(path + "/POINTING")
        shutil.copytree(s.path("kept"), path + "/POINTING")
    empty(s)


def directions_of(n, cell, ra0, dec0, x, y):
    """Right ascensions and declinations of pixels of an image of n x n around a centre in degrees."""
    l, m = -(x - n / 2) * np.sin(cell), (y - n / 2) * np.sin(cell)
    ra0, dec0, nn = np.radians(ra0), np.radians(dec0), np.sqrt(1 - l**2 - m**2)
    return ra0 + np.arctan2(l, nn * np.cos(dec0) - m * np.sin(dec0)), np.arcsin(m * np.cos(dec0) + nn * np.sin(dec0))


def mean_is_right(s, sky, title, words, at, direction, applied):
    """The beam of an image is the mean over all baselines and times."""
    done = s.launch(*words)
    s.must(done.returncode == 0, "%s: runs%s" % (title, done.stderr[-800:]))
    want = sky.powers(145e6, *direction, applied).mean(axis=0)
    seen = (pixels(s, "beam-0")[at[1], at[0]] + pixels(s, "beam-15")[at[1], at[0]]) / 2
    off = np.abs(seen - want).max() / want.max()
    s.must(off < 3e-4, "%s: beam, %.1e of its peak from the mean of all baselines" % (title, off))


def check_lofar(s):
    """Stations of LOFAR: the mean over baselines of unequal weight, data that are corrected for a direction, a beam of a facet."""
    empty(s)
    sky = Stations(s)
    n, cell = 128, np.radians(0.06)
    y, x = (a.ravel() for a in np.mgrid[4:n:17, 4:n:17])
    ra, dec = directions_of(n, cell, 60, 50, x, y)
    size = ("-size", n, n, "-scale", "%.12grad" % cell, "-quiet", "-overwrite", "-name", "pb")
    words = (*size, "-apply-primary-beam", "-pb", "lofar:" + s.path(""), sky.path)
    facet_is_right(s, sky, "lofar:" + s.path(""), 1e-4)
    applied = np.radians([60.1, 50.1])
    for what in "as observed", "corrected":
        if what == "corrected":
            with table(sky.path, readonly=False, ack=False) as t:
                t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_MODE", "Full")
                t.putcolkeyword("DATA", "LOFAR_APPLIED_BEAM_DIR", {"type": "direction", "refer": "J2000", "m0": {
                    "value": applied[0], "unit": "rad"}, "m1": {"value": applied[1], "unit": "rad"}})
        mean_is_right(s, sky, "LOFAR, " + what, words, (x, y), (ra, dec), None if what == "as observed" else applied)
    empty(s)
    s.refused("a PSF of stations", 2, "-save-psf-pb", *words[:-1], "-grid-with-beam", "-save-psf-pb", sky.path)
    s.refused("no coefficients", 3, "HamakerHBACoeff.h5", *size, "-pbcor", "-pb", "lofar:/", sky.path)
    with h5py.File(s.path("HamakerHBACoeff.h5"), "w") as f:
        f["coeff"] = sky.dipole[:1, :, :, 0]
    s.refused("other coefficients", 3, "coeff", *words)
    os.remove(s.path("HamakerHBACoeff.h5"))
    with table(sky.path, readonly=False, ack=False) as t:
        t.removekeyword("LOFAR_ANTENNA_FIELD")
    s.refused("no layouts", 3, "LOFAR_ANTENNA_FIELD", *words)


main(ImagingSuite, globals())
