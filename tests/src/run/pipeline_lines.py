#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""pipeline_lines.py MSIMAGE MSIMAGE_MAKEMS [lines|manner|beams|like]: command lines of public pipelines (pipeline_lines.txt), word by word
as the pipelines give them to WSClean but with small images, on small sets made like their telescopes'. A line runs to its files; its
images lie on the sources and, compared with WSClean 3.1's, differ by no more than the weights and gridders of the two do. Facets,
solutions and a-terms are made here. Lines with beams of LOFAR run on a set with the stations of a real one, if there are its set in
MSIMAGE_TEST_DATA and the dipole's coefficients in EVERYBEAM_DATADIR. PIPELINE_LINES names some of them. Prints how many run whole."""
import os
import re
import shlex
import shutil
import subprocess

import numpy as np
from astropy.io import fits

from image_oracle import load
from program_suite import MEERKAT, LOW, VLA, Suite, fresh_copy, main, skip_without_modules

skip_without_modules("h5py", "casacore.tables")
import h5py
from casacore.tables import makearrcoldesc, maketabdesc, table, tablecopy

# Pixels of the images; the lines have up to 60000.
SIZE = 256

# A set like that of a telescope: centre and words of msimage-makems, and words for the number of channels.
TELESCOPES = {
    "meerkat": (MEERKAT, "-telescope meerkat -duration 6min -integration 2min -spw 900MHz %gMHz %d", 750),
    "askap": (MEERKAT, "-telescope meerkat -layout-seed 2 -duration 6min -integration 2min -spw 800MHz %gMHz %d", 288),
    "vla": (VLA, "-telescope vla -config A -duration 30min -integration 5min -spw 1.0GHz %gMHz %d", 900),
    "lofar": (LOW, "-telescope skalow -stations 48 -duration 10min -integration 2min -spw 120MHz %gMHz %d", 48),
    "vlad": (VLA, "-telescope vla -config D -duration 30min -integration 5min -spw 1.0GHz %gMHz %d", 400),
    "core": (LOW, "-telescope vla -config D -duration 10min -integration 1min -spw 40MHz %gMHz %d", 40),
}

# Where: telescope and channels of the set.
WHERE = {"01": ("meerkat", 16), "02": ("meerkat", 16), "03": ("meerkat", 16), "04": ("lofar", 4), "05": ("meerkat", 6),
         "06": ("meerkat", 8), "07": ("meerkat", 100), "08": ("meerkat", 16), "10": ("meerkat", 12), "13": ("lofar", 12),
         "16": ("lofar", 12), "18": ("lofar", 6), "19": ("lofar", 6), "20": ("vlad", 8), "21": ("lofar", 12), "26": ("lofar", 8),
         "27": ("lofar", 12), "32": ("lofar", 36), "33": ("lofar", 8), "34": ("lofar", 8), "35": ("lofar", 8), "36": ("lofar", 8),
         "37": ("lofar", 8), "38": ("vlad", 8), "39": ("lofar", 64), "40": ("lofar", 8), "41": ("core", 4), "42": ("core", 4),
         "43": ("core", 4), "44": ("askap", 12), "45": ("askap", 12), "46": ("askap", 36), "47": ("core", 4), "48": ("lofar", 4),
         "49": ("lofar", 4), "50": ("vla", 8), "52": ("vla", 12), "53": ("vla", 16), "54": ("lofar", 12), "56": ("vla", 4),
         "58": ("lofar", 4), "59": ("meerkat", 4), "60": ("vla", 10), "61": ("vlad", 12), "62": ("lofar", 4)}

# Lines with beams of LOFAR's stations; their sets have 12 channels.
BEAMS = ("09", "11", "12", "14", "15", "17", "22", "23", "24", "25", "28", "29", "30", "31", "51", "55")

# Lines on the real set of the MWA.
MWA = ("34",)

# Lines whose images WSClean 3.1 cannot make, or that make none.
ALONE = ("02", "10", "13", "16", "18", "19", "20", "33", "34", "37", "38", "39", "52", "53", "54", "61")

# Words that are too much for the small sets and images, and what stands for them.
SHORTER = (("-interval 200 301", "-interval 0 10"), ("-intervals-out 100", "-intervals-out 5"), ("-interval 0 28", "-interval 0 5"),
           ("-niter 10000000", "-niter 20000"), ("-niter 1000000", "-niter 20000"), ("-niter 750000", "-niter 20000"),
           ("-niter 50000000", "-niter 20000"), ("-niter 2000000", "-niter 20000"), ("-interval 10 20", "-interval 0 5"),
           ("-intervals-out 10", "-intervals-out 5"), ("-interval 2 7", "-interval 0 5"), ("-minuv-l 1500.0", "-minuv-l 150"),
           ("-scale 0.15arcsec -taper-gaussian 0.6asec -squared", "-scale 3arcsec -taper-gaussian 12asec -squared"))

# Dirty images differ by the uv grid of Briggs densities, which is 1.2 times as large in WSClean, by the place of tapers and
# limits, and by WSClean's small inversion (check_like is without these): by 0.08 to 0.4 of their rms. So does the beam, and with
# it the peaks.
DIRTY, PEAK = 0.5, 0.06

# Options that WSClean 3.1 does not have, with the number of their values, and one by which its clean of Q and U in 36 channels
# diverges to 1e5 Jy. Without that one, models and peaks are those of msimage with it, and of the set.
NOT_IN_31 = {"-local-rms-strength": 1, "-force-mask-rounds": 1, "-multiscale-fits-mask": 1, "-channel-division-frequencies": 1,
             "-auto-mask-nmiter": 1, "-beam-fitting-size": 1, "-gridder": 1, "-wstack-grid-mode": 1, "-wstack-kernel-size": 1,
             "-wstack-oversampling": 1, "-squared-channel-joining": 0}


# Centres of the sets with the stations of LOFAR and of the real set of the MWA.
LOFAR, PUPPIS = (212.8355, 52.2028), (125.0, -42.75)


def real(name):
    return os.path.join(os.environ.get("MSIMAGE_TEST_DATA", ""), name)


def with_column(path, name="CORRECTED_DATA", factor=1):
    """Add a column to a set, DATA times a factor."""
    with table(path, readonly=False, ack=False) as t:
        data = t.getcol("DATA")
        desc = t.getcoldesc("DATA")
        desc["name"] = desc["comment"] = name
        t.addcols({name: desc}, {"TYPE": "StandardStMan", "NAME": name})
        t.putcol(name, data * factor)
    return path


def write_facets(path, centre, cell_deg):
    """Four polygons that meet at the centre of the image. Returns the directions of their middles."""
    half, lines, middle = SIZE / 2 + 2, ["# Region file format: DS9 version 4.1", "fk5"], []
    sky = lambda x, y: (centre[0] - x * cell_deg / np.cos(np.radians(centre[1])), centre[1] + y * cell_deg)
    for k, (x, y) in enumerate(((-1, -1), (1, -1), (1, 1), (-1, 1))):
        corners = [sky(a, b) for a, b in ((0, 0), (x * half, 0), (x * half, y * half), (0, y * half))]
        lines.append("polygon(%s)" % ",".join("%.9f,%.9f" % c for c in corners))
        middle.append(sky(x * half / 2, y * half / 2))
        lines.append("point(%.9f,%.9f) # text=[Dir%02d]" % (*middle[-1], k))
    with open(path, "w", encoding="ascii") as f:
        f.write("\n".join(lines) + "\n")
    return middle


def write_solutions(path, ms, directions):
    """An H5Parm of amplitudes and phases of both feeds."""
    with table(ms, ack=False) as t, table(ms + "/ANTENNA", ack=False) as a, table(ms + "/SPECTRAL_WINDOW", ack=False) as w:
        times, names, freq = np.unique(t.getcol("TIME")), a.getcol("NAME"), w.getcell("CHAN_FREQ", 0)
    r, shape = np.random.default_rng(5), (len(times), len(freq), len(names), len(directions), 2)
    with h5py.File(path, "w") as f:
        g = f.create_group("sol000")
        labels = ["[Dir%02d]" % k for k in range(len(directions))]
        g.create_dataset("source", data=np.array([(n, np.radians(d)) for n, d in zip(labels, directions)], [("name", "S128"), ("dir", "f4", 2)]))
        g.create_dataset("antenna", data=np.array([(n, (0, 0, 0)) for n in names], [("name", "S16"), ("position", "f4", 3)]))
        for kind, values in (("amplitude", 1 + 0.05 * r.normal(size=shape)), ("phase", 0.1 * r.normal(size=shape))):
            t = g.create_group(kind + "000")
            t.attrs["TITLE"] = np.bytes_(kind)
            for name, data in (("val", values), ("weight", np.ones(shape))):
                t.create_dataset(name, data=data).attrs["AXES"] = np.bytes_("time,freq,ant,dir,pol")
            for name, data in (("time", times), ("freq", freq), ("ant", np.array(names, "S16")), ("dir", np.array(labels, "S128")),
                               ("pol", np.array(["XX", "YY"], "S2"))):
                t.create_dataset(name, data=data)


def write_screen(path, ms, centre):
    """A screen of total electron content, smooth and different for each antenna."""
    with table(ms, ack=False) as t, table(ms + "/ANTENNA", ack=False) as a:
        times, n = np.unique(t.getcol("TIME")), a.nrows()
    step, pixels = max(np.diff(times)) if len(times) > 1 else 10.0, 16
    y, x = np.mgrid[:pixels, :pixels] / pixels - 0.5
    slope = np.random.default_rng(6).normal(size=(len(times), 1, n, 2)) * 0.01
    h = fits.PrimaryHDU((slope[..., :1, None] * x + slope[..., 1:, None] * y).astype("f4"))
    for k, (kind, at, by, pixel) in enumerate((("RA---SIN", centre[0], -0.5, pixels // 2 + 1), ("DEC--SIN", centre[1], 0.5, pixels // 2 + 1),
                                               ("ANTENNA", 0, 1, 1), ("FREQ", 140e6, 1e6, 1), ("TIME", times[0], step, 1)), 1):
        for card, value in (("CTYPE", kind), ("CRVAL", at), ("CDELT", by), ("CRPIX", pixel)):
            h.header["%s%d" % (card, k)] = value
    h.writeto(path)


def read_lines():
    with open(os.path.splitext(os.path.abspath(__file__))[0] + ".txt", encoding="utf-8") as f:
        text = "".join(line for line in f if line[0] != "#")
    for long, short in SHORTER:
        text = re.sub(long + r"\b", short, text)
    return dict(line.split(" ", 1) for line in text.splitlines())


def angle(text):
    """Arcseconds of a value of -scale; a bare number is in degrees."""
    number, unit = re.fullmatch(r"([0-9.]+)([a-z]*)", text).groups()
    return float(number) * {"": 3600, "asec": 1, "arcsec": 1, "amin": 60, "arcmin": 60}[unit]


class Lines(Suite):
    guard_s = 900  # IQUV through LOFAR's beam takes 210 s of a processor

    def words_of(self, number, line, folder):
        """The words of a line with files and sizes of this test."""
        line = re.sub(r"-size \d+ \d+", "-size %d %d" % (SIZE, SIZE), line)
        line = re.sub(r"(?<=-field )[\w,]+", "0", re.sub(r"-j \d+", "-j 2", line))
        centre = self.centre(number)
        named = {"MASK.fits": "mask.fits", "SCALES.fits": "scales.fits", "TMP": folder, "IMG": "img", "IMG0": "img0", "MWAPATH": folder,
                 "field.reg": "facets.reg", "ATERM.cfg": "aterm.cfg", "CENTRE": "%.10fdeg %.10fdeg" % centre}
        words = " ".join(named.get(word, word) for word in shlex.split(line)).split()
        if number in MWA:
            words = [word for word in words if word not in ("-mwa-path", folder)]
        return words

    def centre(self, number):
        """The phase centre of a line's set in degrees."""
        return LOFAR if number in BEAMS else PUPPIS if number in MWA else TELESCOPES[WHERE[number][0]][0]

    def sky(self, number, line):
        """The set of a line: sources on the middle half of the image, one of them at its centre."""
        if number in BEAMS:
            return self.stations(number, line), 1.5
        if number in MWA:
            return self.puppis(line), 0
        telescope, n_channel = WHERE[number]
        centre, words, band_mhz = TELESCOPES[telescope]
        scale = re.search(r"-scale (\S+)", line)
        cell = angle(scale[1]) if scale else 1.5
        spw = words % (band_mhz / n_channel, n_channel)
        return self.made_at("set-%s.ms" % number, centre, [*spw.split(), "-pol", "XX,XY,YX,YY", "-data-column",
                            "both" if "CORRECTED_DATA" in line else "DATA", "-source", "%.15gdeg" % centre[0],
                            "%.15gdeg" % centre[1], "2Jy", "0.4Jy", "-0.3Jy", "0.2Jy", "-0.7", "-random-sources", 3, number,
                            "%.6gasec" % (SIZE * cell / 2), "-noise", "0.02Jy"]), cell

    def puppis(self, line):
        """The real set of the MWA, with the column that a line wants."""
        path = self.path("puppis.ms")
        if not os.path.exists(path):
            with_column(fresh_copy(os.path.join(real("mwa-puppis-a.ms")), path))
        return path

    def stations(self, number, line):
        """A set with the layouts of LOFAR's stations."""
        path, given = self.path("stations.ms"), real("lofar-hba-3c295.ms")
        if not os.path.exists(path):
            with table(os.path.join(given, "ANTENNA"), ack=False) as t:
                at, name = t.getcol("POSITION"), t.getcol("NAME")
            with open(self.path("stations.txt"), "w", encoding="ascii") as f:
                f.writelines("%.4f %.4f %.4f 30 %s\n" % (*p, n) for p, n in zip(at, name))
            self.made_at("stations.ms", LOFAR, [
                "-layout-file", self.path("stations.txt"), "-start-time", "2013-03-06T21:26:01", "-duration", "8min", "-integration",
                "2min", "-spw", "120MHz", "4MHz", "12", "-pol", "XX,XY,YX,YY", "-data-column", "both", "-source", "%.10fdeg" % LOFAR[0],
                "%.10fdeg" % LOFAR[1], "2Jy", "-0.7", "-random-sources", 3, 9, "200asec", "-noise", "0.02Jy"])
            tablecopy(os.path.join(given, "LOFAR_ANTENNA_FIELD"), os.path.join(path, "LOFAR_ANTENNA_FIELD"))
            with table(path, readonly=False, ack=False) as t:
                t.putkeyword("LOFAR_ANTENNA_FIELD", "Table: " + path + "/LOFAR_ANTENNA_FIELD")
            with table(path + "/OBSERVATION", readonly=False, ack=False) as t:
                t.putcell("TELESCOPE_NAME", 0, "LOFAR")
            with table(path + "/FIELD", readonly=False, ack=False) as t:
                t.addcols(maketabdesc([makearrcoldesc("LOFAR_TILE_BEAM_DIR", 0.0, 1)]))
                t.putcell("LOFAR_TILE_BEAM_DIR", 0, np.radians(LOFAR))
        return path

    def solutions(self, folder, number, words, ms):
        """Files of four facets, of their solutions, and of a screen of a-terms."""
        if "facets.reg" in words:
            cell = angle(words[words.index("-scale") + 1]) if "-scale" in words else 1.5
            middle = write_facets(os.path.join(folder, "facets.reg"), self.centre(number), cell / 3600)
            name = words[words.index("-apply-facet-solutions") + 1]
            write_solutions(os.path.join(folder, name), ms, middle)
        if "aterm.cfg" in words:
            with open(os.path.join(folder, "aterm.cfg"), "w", encoding="ascii") as f:
                f.write("aterms = [ tec ]\ntec.images = [ %s/tec.fits ]\n" % folder)
            write_screen(os.path.join(folder, "tec.fits"), ms, self.centre(number))

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
        if "-predict" in words:
            scale = words[words.index("-scale") + 1] if "-scale" in words else "1.5arcsec"
            run(*pixels, scale, "-channels-out", words[words.index("-channels-out") + 1], *(["-gap-channel-division"] * (number == "13")),
                *(["-pol", "IQUV", "-join-polarizations"] * (number == "55")), "-niter", "50", "-no-update-model-required", "-name", "img", ms)
        if number in ("18", "19"):
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
        self.solutions(folder, number, words, ms)
        self.before(folder, number, words, ms)
        if "-subtract-model" in words:
            with table(ms, readonly=False, ack=False) as t:
                if "MODEL_DATA" not in t.colnames():
                    with_column(ms, "MODEL_DATA", 0.5)
        sets = [] if {"-restore-list", "-draw-model"} & set(words) else [ms]
        done = self.launch(*words, *([] if "-predict" in words else ["-overwrite"]), *sets, cwd=folder)
        return folder, words, ms, done

    def theirs(self, number, words, ms):
        """The same line by WSClean 3.1 without the options that it does not have, and with msimage's weights if it names none.
        Returns its folder, None if it fails."""
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
        kept += [] if "-weight" in words else ["-weight", "natural"]
        done = subprocess.run(["wsclean", *kept, ms], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return folder if done.returncode == 0 else None


def images(folder, kind):
    """The images of a kind of all channels together, or of the only channel, by name."""
    names = sorted(name for name in os.listdir(folder) if name.endswith("-%s.fits" % kind) and "img0" not in name)
    whole = [name for name in names if "MFS" in name] or names
    return {name: load(os.path.join(folder, name))[0] for name in whole}


def compare(ours, theirs):
    """Differences of images with the same name: of dirty images relative to their rms, of peaks, of models' fluxes. Returns
    whether the first two are within what the programs differ by, and a text. WSClean writes the dirty images of XY and XYi
    when it has gridded XY and not yet YX; its residuals have both."""
    text = []
    worst = 0
    for kind in ("dirty", "residual", "image", "model"):
        a, b = images(ours, kind), images(theirs, kind)
        both = [name for name in a if name in b and a[name].shape == b[name].shape]
        if kind in ("dirty", "residual"):
            both = [name for name in both if ("-XY" in name) == (kind == "residual")]
        if not both:
            continue
        if kind in ("dirty", "residual"):
            by = max(np.nanstd(a[n] - b[n]) / np.nanstd(b[n]) for n in both)
            worst = max(worst, by / DIRTY)
            text.append("%s by %.2g of the rms" % (kind + " of XY" * (kind == "residual"), by))
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
    kind = "image" if any("-image.fits" in name for name in made) else "psf" if "-make-psf-only" in words else "dirty"
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


def why_not(number):
    """What a line needs that is not there, or None."""
    needed = [real("mwa-puppis-a.ms")] if number in MWA else []
    if number in BEAMS:
        needed = [real("lofar-hba-3c295.ms"), os.path.join(os.environ.get("EVERYBEAM_DATADIR", ""), "HamakerHBACoeff.h5")]
    return next((name for name in needed if not os.path.exists(name)), None)


def run_lines(s, numbers):
    lines, whole, asked = read_lines(), [], 0
    named = os.environ.get("PIPELINE_LINES", "").split() or numbers
    for number, line in lines.items():
        if number not in numbers or number not in named:
            continue
        if why_not(number):
            print("%s: not run, there is no %s" % (number, why_not(number)))
            continue
        asked += 1
        folder, words, ms, done = s.ours(number, line)
        if not judge_files(s, number, words, folder, done):
            continue
        whole.append(number)
        if shutil.which("wsclean") and number not in ALONE + BEAMS:
            theirs = s.theirs(number, words, ms)
            good, text = compare(folder, theirs) if theirs else (True, "WSClean fails")
            s.must(good, "%s compared with WSClean 3.1: %s" % (number, text))
        for name in (folder, s.path("wsclean-" + number)):
            shutil.rmtree(name, ignore_errors=True)
    print("%d of %d lines run whole: %s" % (len(whole), asked, " ".join(whole)))


def check_lines(s):
    """Lines that were collected."""
    run_lines(s, [n for n in read_lines() if n not in BEAMS and int(n) % 2 and int(n) < 57])


def check_manner(s):
    """Lines in the manner of pipelines, and those with the names of WSClean 1."""
    run_lines(s, [n for n in read_lines() if n not in BEAMS and (int(n) % 2 == 0 or int(n) > 57)])


# Words of cleaning, and of what WSClean 3.1 does not know or approximates, with the number of their values; each is left out.
CLEANING = {"-niter": 1, "-auto-threshold": 1, "-auto-mask": 1, "-threshold": 1, "-multiscale": 0, "-fit-spectral-pol": 1, "-fits-mask": 1,
            "-save-source-list": 0, "-deconvolution-channels": 1, "-casa-mask": 1, "-wgridder-accuracy": 1, "-baseline-averaging": 1,
            "-fit-spectral-log-pol": 1, "-local-rms": 0, "-parallel-gridding": 1, "-small-inversion": 0, "-smallinversion": 0,
            "-use-wgridder": 0, "-reuse-dirty": 1, "-apply-primary-beam": 0, "-grid-with-beam": 0, "-use-idg": 0, "-idg-mode": 1,
            "-apply-facet-beam": 0, "-use-differential-lofar-beam": 0, "-reuse-primary-beam": 0, "-save-psf-pb": 0, "-mwa-path": 1,
            "-subtract-model": 0, "-maxw": 1, "-multiscale-scale-bias": 1, "-horizon-mask": 1, "-gap-channel-division": 0,
            "-no-min-grid-resolution": 0, "-facet-beam-update": 1, "-beam-aterm-update": 1, "-no-small-inversion": 0, "-shift": 2,
            "-join-channels": 0, "-joinchannels": 0, **NOT_IN_31}


def check_like(s):
    """With WSClean's defaults and accurate gridders dirty images are the same."""
    exact = ["-use-wgridder", "-wgridder-accuracy", "1e-6", "-no-small-inversion"]
    worst, n = 0, 0
    for number, line in read_lines().items():
        if os.environ.get("PIPELINE_LINES") and number not in os.environ["PIPELINE_LINES"].split():
            continue
        if number in BEAMS + MWA + ("02", "12", "13", "16", "18", "19", "20", "24", "39", "45", "54", "55", "59"):
            continue
        # WSClean's w-gridder makes no images of cross-hands.
        line = re.sub(r"-pol \S*(xy|XY)\S*", "-pol XX,YY", line)
        folder = self_made(s, number)
        words, kept = s.words_of(number, line, folder), []
        joined = {"-join-channels", "-joinchannels"} & set(words)
        for word in (words := iter(words)):
            skip = CLEANING.get(word)
            for _ in range(skip or 0):
                next(words)
            kept += [word] if skip is None else []
        ms, _ = s.sky(number, line)
        kept += ["-join-channels"] * bool(joined)
        ours = s.launch("-quiet", "-like", "wsclean", *kept, *exact, "-name", "o", ms, cwd=folder)
        theirs = subprocess.run(["wsclean", *kept, *exact, "-name", "w", ms], cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, check=False, encoding="utf-8")
        names = [name for name in os.listdir(folder) if name.startswith("w-") and name.endswith("dirty.fits")]
        if ours.returncode or theirs.returncode or not names:
            print("%s: not compared: %s %s" % (number, ours.stderr[-200:], theirs.stdout[-200:]))
            continue
        off = 0
        for name in names:
            a, b = (load(os.path.join(folder, of + name[1:]))[0] for of in "ow")
            off = max(off, np.nanstd(a - b) / np.nanstd(b))
        worst, n = max(worst, off), n + 1
        s.must(off < 1e-4, "%s: %d dirty images by %.1e of the rms" % (number, len(names), off))
        shutil.rmtree(folder)
    print("%d lines, %.1e" % (n, worst))


def self_made(s, number):
    folder = s.path("like-" + number)
    os.mkdir(folder)
    return folder


def check_beams(s):
    """Lines with beams of LOFAR's stations: facets, solutions, gridding with the beam."""
    run_lines(s, BEAMS)


main(Lines, globals())
