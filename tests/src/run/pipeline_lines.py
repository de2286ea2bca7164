#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""pipeline_lines.py MSIMAGE MSIMAGE_MAKEMS: command lines of public pipelines (pipeline_lines.txt), word by word as the
pipelines give them to WSClean but with small images, on small sets made like their telescopes'. A line that needs no facets,
a-terms or beam of another program runs to its files; its images lie on the sources and, compared with WSClean 3.1's, differ by no
more than the weights and gridders of the two do. Prints how many lines run whole."""
import os
import re
import shlex
import shutil
import subprocess

import numpy as np
from astropy.io import fits

from image_oracle import load
from program_suite import MEERKAT, LOW, VLA, Suite, main

# Pixels of the images; the lines have up to 60000.
SIZE = 256

# A set like that of a telescope: centre and words of msimage-makems, and words for the number of channels.
TELESCOPES = {
    "meerkat": (MEERKAT, "-telescope meerkat -duration 6min -integration 2min -spw 900MHz %gMHz %d", 750),
    "askap": (MEERKAT, "-telescope meerkat -layout-seed 2 -duration 6min -integration 2min -spw 800MHz %gMHz %d", 288),
    "vla": (VLA, "-telescope vla -config A -duration 30min -integration 5min -spw 1.0GHz %gMHz %d", 900),
    "lofar": (LOW, "-telescope skalow -stations 48 -duration 10min -integration 2min -spw 120MHz %gMHz %d", 48),
    "core": (LOW, "-telescope vla -config D -duration 10min -integration 1min -spw 40MHz %gMHz %d", 40),
}

# Lines that need facets, a-terms, or the beam of a LOFAR station.
FACETS, ATERMS, STATIONS = ("11", "15", "23", "25", "51"), ("29", "31", "55"), ("09", "17")

# Where: telescope, channels of the set, pixel in arcsec if that of the line would not suit the set's baselines.
WHERE = {"01": ("meerkat", 16), "03": ("meerkat", 16), "05": ("meerkat", 6), "07": ("meerkat", 100), "13": ("lofar", 12),
         "19": ("lofar", 6), "21": ("lofar", 12), "27": ("lofar", 12), "33": ("lofar", 8), "35": ("lofar", 8),
         "37": ("lofar", 8), "39": ("lofar", 64), "41": ("core", 4), "43": ("core", 4), "45": ("askap", 12),
         "47": ("core", 4), "49": ("lofar", 4), "53": ("vla", 16)}

# Words that are longer than the small sets, and what stands for them.
SHORTER = (("-interval 200 301", "-interval 0 10"), ("-intervals-out 100", "-intervals-out 5"), ("-interval 0 28", "-interval 0 5"),
           ("-niter 10000000", "-niter 20000"), ("-niter 1000000", "-niter 20000"), ("-niter 750000", "-niter 20000"),
           ("-size 350 350", "-size 256 256"))

# Dirty images differ by the uv grid of Briggs densities, which is 1.2 times as large in WSClean, by the place of tapers and
# limits, and by WSClean's small inversion; so does the beam, and with it the peaks.
DIRTY, PEAK = 0.35, 0.06

# Options that WSClean 3.1 does not have, with the number of their values.
NOT_IN_31 = {"-local-rms-strength": 1, "-force-mask-rounds": 1, "-multiscale-fits-mask": 1, "-channel-division-frequencies": 1,
             "-auto-mask-nmiter": 1, "-beam-fitting-size": 1}


def read_lines():
    with open(os.path.splitext(os.path.abspath(__file__))[0] + ".txt", encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(" ", 1) for line in f if line[0] != "#")


def angle(text):
    """Arcseconds of a value of -scale; a bare number is in degrees."""
    number, unit = re.fullmatch(r"([0-9.]+)([a-z]*)", text).groups()
    return float(number) * {"": 3600, "asec": 1, "arcsec": 1, "amin": 60}[unit]


class Lines(Suite):
    def words_of(self, number, line, folder):
        """The words of a line with files and sizes of this test."""
        line = re.sub(r"-size \d+ \d+", "-size %d %d" % (SIZE, SIZE), line)
        for long, short in SHORTER:
            line = re.sub(long + r"\b", short, line)
        line = re.sub(r"(?<=-field )[\w,]+", "0", re.sub(r"-j \d+", "-j 2", line))
        named = {"MASK.fits": "mask.fits", "SCALES.fits": "scales.fits", "TMP": folder, "IMG": "img", "IMG0": "img0", "MWAPATH": folder}
        return [named.get(word, word) for word in shlex.split(line)]

    def sky(self, number, line):
        """The set of a line: sources on the middle half of the image, one of them at its centre."""
        telescope, n_channel = WHERE[number]
        centre, words, band_mhz = TELESCOPES[telescope]
        scale = re.search(r"-scale (\S+)", line)
        cell = angle(scale[1]) if scale else 1.5
        spw = words % (band_mhz / n_channel, n_channel)
        return self.made_at("set-%s.ms" % number, centre, [*spw.split(), "-pol", "XX,XY,YX,YY", "-data-column",
                            "both" if "CORRECTED_DATA" in line else "DATA", "-source", "%.15gdeg" % centre[0],
                            "%.15gdeg" % centre[1], "2Jy", "-0.7", "-random-sources", 3, number, "%.6gasec" % (SIZE * cell / 2),
                            "-noise", "0.02Jy"]), cell

    def masks(self, folder, words, ms):
        """Files of masks: the middle of the image for cleaning, and there all scales."""
        if not {"mask.fits", "scales.fits", "cleanmask.mask"} & set(words):
            return
        size = words[words.index("-scale") + 1]
        subprocess.run([self.msimage, "-quiet", "-size", str(SIZE), str(SIZE), "-scale", size, "-name", "like", ms], cwd=folder,
                       check=True)
        with fits.open(os.path.join(folder, "like-dirty.fits")) as f:
            f[0].data[...] = 0
            f[0].data[..., SIZE // 8:-SIZE // 8, SIZE // 8:-SIZE // 8] = 1
            f.writeto(os.path.join(folder, "mask.fits"))
            f[0].data[...] *= 2**15 - 1
            f.writeto(os.path.join(folder, "scales.fits"))
        if "cleanmask.mask" in words:
            script = "from casacore.images import image; image('mask.fits').saveas('cleanmask.mask')"
            subprocess.run(["/usr/bin/python3", "-c", script], cwd=folder, check=True)
        os.remove(os.path.join(folder, "like-dirty.fits"))

    def before(self, folder, number, words, ms):
        """What the pipeline has run before the line."""
        run = lambda *more: subprocess.run([self.msimage, "-quiet", "-j", "2", *more], cwd=folder, check=True)
        pixels = ["-size", str(SIZE), str(SIZE), "-scale"]
        if number == "13":
            run(*pixels, "1.5arcsec", "-channels-out", "6", "-gap-channel-division", "-niter", "50", "-no-update-model-required",
                "-name", "img", ms)
        if number == "19":
            run(*pixels, "1.5arcsec", "-niter", "50", "-save-source-list", "-no-update-model-required", "-name", "img", ms)
            os.rename(os.path.join(folder, "img-residual.fits"), os.path.join(folder, "residual.fits"))
            os.rename(os.path.join(folder, "img-sources.txt"), os.path.join(folder, "sources.txt"))
        if "-reuse-dirty" in words:
            first = [word if word != "img" else "img0" for word in words]
            at = first.index("-reuse-dirty")
            run(*first[:at], *first[at + 2:], ms)
        if "-reuse-primary-beam" in words:
            run(*[word for word in words if word != "-reuse-primary-beam"], "-pb", "airy:4.5", ms)

    def ours(self, number, line):
        """Run a line; returns its folder, words, set and log."""
        folder = self.path("line-" + number)
        os.mkdir(folder)
        words = self.words_of(number, line, folder)
        ms, _ = self.sky(number, line)
        self.masks(folder, words, ms)
        self.before(folder, number, words, ms)
        sets = [] if "-restore-list" in words else [ms]
        done = self.launch(*words, *([] if "-predict" in words else ["-overwrite"]), *sets, cwd=folder)
        return folder, words, ms, done

    def theirs(self, number, words, ms):
        """The same line by WSClean 3.1 without the options that it does not have. Returns its folder, None if it fails."""
        folder, kept, skip = self.path("wsclean-" + number), [], 0
        os.mkdir(folder)
        for name in ("mask.fits", "scales.fits", "cleanmask.mask"):
            ours = os.path.join(self.path("line-" + number), name)
            if os.path.exists(ours):
                (shutil.copytree if os.path.isdir(ours) else shutil.copy)(ours, os.path.join(folder, name))
        for word in words:
            skip = NOT_IN_31[word] + 1 if word in NOT_IN_31 else skip
            if skip:
                skip -= 1
            else:
                kept.append(word)
        done = subprocess.run(["wsclean", *kept, ms], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return folder if done.returncode == 0 else None


def images(folder, kind):
    """The images of a kind of all channels together, or of the only channel, by name."""
    names = sorted(name for name in os.listdir(folder) if name.endswith("-%s.fits" % kind) and "img0" not in name)
    whole = [name for name in names if "MFS" in name] or names
    return {name: load(os.path.join(folder, name))[0] for name in whole}


def compare(ours, theirs):
    """Differences of images with the same name: of dirty images relative to their rms, of peaks, of models' fluxes. Returns
    whether the first two are within what the programs differ by, and a text."""
    text = []
    worst = 0
    for kind in ("dirty", "image", "model"):
        a, b = images(ours, kind), images(theirs, kind)
        both = [name for name in a if name in b and a[name].shape == b[name].shape]
        if not both:
            continue
        if kind == "dirty":
            by = max(np.nanstd(a[n] - b[n]) / np.nanstd(b[n]) for n in both)
            worst = max(worst, by / DIRTY)
            text.append("dirty by %.2g of the rms" % by)
        elif kind == "image":
            peak = np.nanmax(a[both[0]]) / np.nanmax(b[both[0]])
            worst = max(worst, abs(peak - 1) / PEAK)
            text.append("peak %.4f of theirs" % peak)
        else:
            text.append("model %.4g and %.4g Jy" % (a[both[0]].sum(), b[both[0]].sum()))
    return worst <= 1, "; ".join(text)


def judge_files(s, number, words, folder, done):
    """A line ends well, and its images are finite and brightest at a source."""
    if done.returncode:
        s.must(False, "%s: exits %s: %s" % (number, done.returncode, done.stderr[-400:]))
        return False
    made = [name for name in os.listdir(folder) if name.endswith(".fits") and "mask" not in name and name != "scales.fits"]
    kind = "image" if any("-image.fits" in name for name in made) else "dirty"
    pixels = images(folder, kind)
    good = "-predict" in words or "-restore-list" in words or bool(pixels)
    for name, image in pixels.items():
        if re.search(r"-(Q|U|V|XY|XYi|YX|YXi)-", name):
            continue
        image = np.squeeze(image)
        y, x = np.unravel_index(np.nanargmax(image), image.shape)
        good &= bool(np.isfinite(image).any()) and np.hypot(x - SIZE / 2, y - SIZE / 2) < SIZE / 2 and image[y, x] > 0
    s.must(good, "%s: %d files" % (number, len(made)))
    return good


def check_lines(s):
    """Every line runs that needs no facets, a-terms or beam of another program."""
    lines, whole = read_lines(), []
    for number, line in lines.items():
        why = "facets" if number in FACETS else "a-terms" if number in ATERMS else "a station's beam" if number in STATIONS else ""
        if why:
            continue
        folder, words, ms, done = s.ours(number, line)
        if not judge_files(s, number, words, folder, done):
            continue
        whole.append(number)
        if shutil.which("wsclean") and number not in ("13", "19", "33", "37", "39", "53"):
            theirs = s.theirs(number, words, ms)
            good, text = compare(folder, theirs) if theirs else (True, "WSClean fails")
            s.must(good, "%s compared with WSClean 3.1: %s" % (number, text))
    print("%d of %d lines run whole: %s" % (len(whole), len(lines), " ".join(whole)))


main(Lines, globals())
