#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_truth.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: images of generated sets against the direct sum, for all ways of
selecting, weighting and dividing samples.

Whole images must have a relative L2 error of at most their -accuracy, against an image of 1e-11 that the direct sum has
confirmed. The accuracy is that of the whole image: single pixels, also at corners and edges, may be off by twice the accuracy
times the peak. A missing or additional sample, or one with a wrong weight, gives a much larger error.
"""
import numpy as np
from astropy.wcs import WCS
from casacore.tables import table

from image_oracle import ASEC, FITS_FLOOR, Frame, axes, lacked, load, peak_error, pixels, read, relative_error, sky
from program_suite import LOW, MEERKAT, VLA, Suite, fresh_copy, main, run

# Density weights and tapered weights are stored as float32: each is off by at most 2^-24.
WEIGHT_FLOOR = 2.0**-24

# Options of msimage-makems, by name of the set. Noise, and bad values under flags, make every sample matter.
NOISY = ["-flags", "0.1", "-flag-rows", "0.05", "-noise", "0.2Jy", "-weights", "radiometer"]
SETS = {
    "vla": (VLA, ["-telescope", "vla", "-duration", "2min", "-spw", "1GHz", "40MHz", "8", "-random-sources", "30", "1",
                  "20amin", "-start-ha", "-2h", "-pol", "XX,XY,YX,YY", *NOISY, "-weight-spectrum", "partly",
                  "-autocorrelations"]),
    "vla-rl": (VLA, ["-telescope", "vla", "-duration", "1min", "-pol", "RR,RL,LR,LL", "-random-sources", "30", "2",
                     "20amin", *NOISY]),
    "vla-xxyy": (VLA, ["-telescope", "vla", "-duration", "1min", "-pol", "XX,YY", "-random-sources", "30", "3", "20amin",
                       *NOISY]),
    "vla-yy": (VLA, ["-telescope", "vla", "-duration", "1min", "-pol", "YY", "-random-sources", "30", "3", "20amin"]),
    "meerkat": (MEERKAT, ["-telescope", "meerkat", "-duration", "16s", "-integration", "8s", "-start-ha", "-3h", "-spw",
                          "900MHz", "5MHz", "6", "-spw", "1.5GHz", "-20MHz", "5", "-spw", "1.2GHz", "10MHz", "4",
                          "-spw-order", "row", "-random-sources", "40", "4", "15amin", *NOISY, "-storage", "standard",
                          "-weight-spectrum", "none"]),
    "low": (LOW, ["-telescope", "skalow", "-stations", "128", "-start-ha", "-4h", "-duration", "40s", "-spw", "101MHz",
                  "10MHz", "4", "-random-sources", "60", "5", "3deg", *NOISY, "-data-column", "both"]),
    "later": (VLA, ["-telescope", "vla", "-duration", "1min", "-spw", "2GHz", "30MHz", "3", "-random-sources", "30", "1",
                    "20amin", "-start-ha", "3h", *NOISY, "-weight-spectrum", "none"]),
    "mosaic": (VLA, ["-telescope", "vla", "-duration", "2min", "-field", "60.2deg", "44.1deg", "-field", "59.7deg",
                     "43.85deg", "-random-sources", "30", "6", "30amin", *NOISY]),
}


class Truth(Suite):
    def __init__(self, *args):
        super().__init__(*args)
        self.known = {}

    def ms(self, name):
        return self.made_at(name + ".ms", *SETS[name])

    def samples(self, sets, pol, **selection):
        """The samples of unchanged sets, read once."""
        key = (tuple(sets), pol, *sorted(selection.items()))
        if key not in self.known:
            self.known[key] = read([self.ms(s) for s in sets], pol, **selection)
        return self.known[key]

    def image(self, sets, size, cell_asec, *options):
        """Image sets. Returns the prefix of the files."""
        name = self.path("image%d" % next(self.number))
        run(self.msimage, "-quiet", "-j", 2, "-size", *size, "-scale", "%.15gasec" % cell_asec, "-name", name, *options,
            *[self.ms(s) for s in sets])
        return name

    def held(self, title, file, frame, samples, accuracy, weight=None, psf=False, extra=()):
        """Check that a file is the direct sum to its accuracy, and that its header describes it."""
        data, header = load(file)
        x, y = pixels(frame.nx, frame.ny, extra)
        error = peak_error(data[y, x], frame.image(samples, x, y, weight, psf), data)
        limit = 2 * accuracy + FITS_FLOOR + (0 if weight is None else WEIGHT_FLOOR)
        self.must(error <= limit, "%-44s error %.2e, limit %.2e, %d samples" % (title, error, limit, len(samples.vis)))
        total = (samples.weight if weight is None else weight).sum()
        effective = total / (samples.weight if weight is None else weight).max()
        if header["WSCNVIS"] != len(samples.vis) or max(abs(header["WSCIMGWG"] / total - 1),
                                                        abs(header["WSCENVIS"] / effective - 1)) > 1e-6:
            self.must(False, "%s: WSCNVIS %g for %d, WSCIMGWG %g for %g, WSCENVIS %g for %g" %
                      (title, header["WSCNVIS"], len(samples.vis), header["WSCIMGWG"], total, header["WSCENVIS"], effective))
        return data, header

    def check(self, title, sets, size, cell_asec, accuracy, options=(), pols=("I",), weighting=None, centre=None,
              **selection):
        """One image of each polarisation, and its PSF, against the sum of the samples that the selection keeps."""
        weighting = weighting or {"mode": "natural"}
        given = []
        if centre:
            given = ["-shift", "%.15gdeg" % centre[0], "%.15gdeg" % centre[1]]
        if "".join(pols) != "I":
            given += ["-pol", ",".join(p for p in pols if not p.endswith("i"))]
        if weighting["mode"] == "briggs":
            given += ["-weight", "briggs", weighting["robust"]]
        else:
            given += ["-weight", weighting["mode"]]
        if "taper" in weighting:
            given += ["-taper-gaussian", "%.15grad" % weighting["taper"]]
        name = self.image(sets, size, cell_asec, "-accuracy", accuracy, "-make-psf", *given, *options)
        frame = Frame(*size, cell_asec * ASEC, *np.radians(centre or SETS[sets[0]][0]))
        planes = [frame.inside(self.samples(sets, pol, **selection)) for pol in pols]
        # In cells without samples of the first polarisation, those of the others make the density.
        rest = lacked(planes)
        for i, (pol, samples) in enumerate(zip(pols, planes)):
            natural = weighting == {"mode": "natural"}
            weight = None if natural else frame.weigh(samples, density_of=planes[0], rest=rest, **weighting)
            file = "%s-%sdirty.fits" % (name, pol + "-" if len(pols) > 1 else "")
            self.held("%s %s" % (title, pol), file, frame, samples, accuracy, weight)
            if i == 0:
                self.held(title + " psf", name + "-psf.fits", frame, samples, accuracy, weight, psf=True)
        return name


def check_accuracies(s):
    # DATA of "low" is half of CORRECTED_DATA: the default column must be the right one.
    for title, size, cell_asec in (("vla", (384, 360), 4), ("low", (1024, 512), 12), ("meerkat", (512, 512), 2)):
        name = s.check("%s 1e-11" % title, [title], size, cell_asec, 1e-11)
        best = [load("%s-%s.fits" % (name, kind))[0] for kind in ("dirty", "psf")]
        for accuracy in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8):
            name = s.image([title], size, cell_asec, "-make-psf", "-accuracy", accuracy)
            for kind, want in zip(("dirty", "psf"), best):
                # Both images are rounded to float32.
                error, limit = relative_error(load("%s-%s.fits" % (name, kind))[0], want), accuracy + 2 * FITS_FLOOR
                s.must(error <= limit, "%-44s error %.2e, limit %.2e" % ("%s %g, whole %s" % (title, accuracy, kind), error,
                                                                       limit))
    s.check("low, horizon to horizon", ["low"], (256, 256), 1700, 1e-4)


def check_polarisations(s):
    for name in ("vla", "vla-rl"):
        s.check(name, [name], (256, 256), 5, 1e-5, pols=("I", "Q", "U", "V"))
    s.check("raw linear", ["vla"], (256, 256), 5, 1e-5, pols=("XX", "XY", "XYi", "YX", "YXi", "YY"))
    s.check("raw circular", ["vla-rl"], (256, 256), 5, 1e-5, pols=("RR", "RL", "RLi", "LR", "LRi", "LL"))
    s.check("one cross-hand", ["vla"], (256, 256), 5, 1e-5, pols=("XY", "XYi"))
    s.check("XX and YY alone", ["vla-xxyy"], (256, 256), 5, 1e-5, pols=("I", "Q", "XX", "YY"))
    s.check("one hand as I", ["vla-yy"], (256, 256), 5, 1e-5)
    s.check("feeds of two kinds", ["vla", "vla-rl"], (256, 256), 5, 1e-5, pols=("I", "Q", "U", "V"))


def check_weights(s):
    for mode in ({"mode": "uniform"}, {"mode": "briggs", "robust": 0}, {"mode": "briggs", "robust": -1.5},
                 {"mode": "briggs", "robust": 2}, {"mode": "natural", "taper": 40 * ASEC},
                 {"mode": "uniform", "taper": 30 * ASEC}):
        title = " ".join("%s" % v for v in mode.values())
        s.check(title, ["vla"], (300, 256), 4, 1e-5, weighting=mode)
    s.check("uniform, meerkat", ["meerkat"], (512, 256), 2, 1e-5, weighting={"mode": "uniform"})
    # Pixels too coarse for the longest baselines: their samples are dropped, also from the densities.
    s.check("briggs, outside the grid", ["vla"], (128, 128), 12, 1e-5, weighting={"mode": "briggs", "robust": 0})
    for mode in ({"mode": "briggs", "robust": 0.5}, {"mode": "uniform"}):
        s.check("%s, IQUV" % mode["mode"], ["vla"], (256, 256), 5, 1e-5, pols=("I", "Q", "U", "V"), weighting=mode)


def check_dead_hand(s):
    """A hand that is completely flagged does not remove samples from the image of the other hand."""
    path, frame = fresh_copy(s.ms("vla-xxyy"), s.path("dead.ms")), Frame(256, 256, 5 * ASEC, *np.radians(VLA))
    with table(path, readonly=False, ack=False) as rows:
        flag = rows.getcol("FLAG")
        flag[..., 0] = True
        rows.putcol("FLAG", flag)
    samples = frame.inside(read(path, "YY"))
    for mode in ({"mode": "uniform"}, {"mode": "briggs", "robust": 0}):
        name = s.path("image%d" % next(s.number))
        run(s.msimage, "-quiet", "-j", 2, "-size", 256, 256, "-scale", "5asec", "-name", name, "-accuracy", 1e-5,
            "-pol", "XX,YY", "-weight", *mode.values(), path)
        s.held("%s, XX is dead" % mode["mode"], name + "-YY-dirty.fits", frame, samples, 1e-5,
               frame.weigh(samples, **mode))


def check_selections(s):
    grid = (["vla"], (256, 256), 5, 1e-5)
    s.check("uv limits", *grid, ["-minuv-l", 1500, "-maxuv-l", 9000], min_uv=1500, max_uv=9000)
    s.check("channel range", *grid, ["-channel-range", 2, 5], channels=(2, 5))
    s.check("interval", *grid, ["-interval", 3, 7], interval=(3, 7))
    s.check("even time steps", *grid, ["-even-timesteps"], steps=0)
    s.check("odd time steps of an interval", *grid, ["-odd-timesteps", "-interval", 3, 8], interval=(3, 8), steps=1)
    s.check("taql", *grid, ["-taql", "ANTENNA1 > 4 and SUMSQR(UVW) > 1e6"], taql="ANTENNA1 > 4 and SUMSQR(UVW) > 1e6")
    s.check("select-antenna", *grid, ["-select-antenna", "0~9&"], taql="ANTENNA1 <= 9 && ANTENNA2 <= 9")
    s.check("baselines in metres", *grid, ["-minuvw-m", 400, "-maxuvw-m", 1500], taql="SQRT(SUMSQR(UVW)) between 400 and 1500")
    s.check("select-uvrange", *grid, ["-select-uvrange", "500~1500m"], taql="SQRT(SUMSQR(UVW[0:2])) between 500 and 1500")
    s.check("select-spw", *grid, ["-select-spw", "0:2~4"], channels=(2, 5))
    many = (["meerkat"], (256, 256), 2, 1e-5)
    s.check("spws", *many, ["-spws", "2,0"], spws=(0, 2))
    s.check("channels across spws", *many, ["-channel-range", 4, 9], channels=(4, 9))
    s.check("channels of a descending spw", *many, ["-spws", 1, "-channel-range", 1, 3], spws=(1,), channels=(1, 3))
    s.check("select-spw, several", *many, ["-select-spw", "1,2"], spws=(1, 2))
    s.check("select-time", *grid, ["-select-time", "<" + middle_time(s.ms("vla"))], interval=(0, 6))
    s.check("data column", ["low"], (256, 256), 24, 1e-5, ["-data-column", "DATA"], column="DATA")
    s.check("several sets", ["vla", "later", "vla-rl"], (256, 256), 4, 1e-5)


def middle_time(path):
    """Between the sixth and the seventh timestep, as MSSelection reads it."""
    from astropy.time import Time
    times = np.unique(table(path, ack=False).getcol("TIME"))
    return Time((times[5] + times[6]) / 2 / 86400, format="mjd").strftime("%Y/%m/%d/%H:%M:%S.%f")


def check_centres(s):
    s.check("shift by 3 amin", ["vla"], (256, 256), 5, 1e-5, centre=(60.05, 44.03))
    s.check("shift by 10 degrees", ["vla"], (256, 256), 4, 1e-5, centre=(72.0, 50.0))
    s.check("shift, briggs", ["vla"], (256, 256), 5, 1e-5, centre=(60.05, 44.03),
            weighting={"mode": "briggs", "robust": 0}, options=["-maxuv-l", 8000], max_uv=8000)
    s.check("field 1", ["mosaic"], (256, 256), 5, 1e-5, ["-field", 1, "-shift", "60.2deg", "44.1deg"], fields=(1,),
            centre=(60.2, 44.1))
    s.check("field by name", ["mosaic"], (256, 256), 5, 1e-5, ["-select-field", "field2"], fields=(2,),
            centre=(59.7, 43.85))
    s.check("about another field", ["mosaic"], (256, 256), 5, 1e-5, ["-field", 2, "-shift", "field", 0], fields=(2,))
    s.check("all fields", ["mosaic"], (400, 400), 5, 1e-5, ["-field", "all"], fields=None, centre=(60.0, 44.0))
    s.check("two fields", ["mosaic"], (400, 400), 5, 1e-5, ["-field", "2,0"], fields=(0, 2), centre=(59.9, 44.0),
            pols=("I", "V"))


def check_source_position(s):
    """A single source and a shifted centre: the pixel of the source, by the coordinates of the header, has its flux and is
    the peak."""
    ra, dec = sky(700 * ASEC, -350 * ASEC, *np.radians(VLA))
    SETS["lone"] = (VLA, ["-telescope", "vla", "-duration", "1min", "-source", "%.15gdeg" % np.degrees(ra), "%.15gdeg" %
                          np.degrees(dec), "2Jy", "0.5Jy", "-0.3Jy", "0.1Jy"])
    for pixel in ((100, 200), (412, 56), (256, 128)):
        centre = centre_for((ra, dec), Frame(512, 256, 4 * ASEC, ra, dec).lm(*pixel))
        name = s.image(["lone"], (512, 256), 4, "-pol", "IQUV", "-shift", *["%.15gdeg" % v for v in np.degrees(centre)])
        for pol, flux in zip("IQUV", (2, 0.5, -0.3, 0.1)):
            data, header = load("%s-%s-dirty.fits" % (name, pol))
            said = WCS(header).celestial.world_to_pixel_values(np.degrees(ra), np.degrees(dec))
            at = np.unravel_index(np.argmax(np.abs(data)), data.shape)[::-1]
            # A unit source at -accuracy 1e-4, twice that for a single pixel; degrees in float64 are exact to 1e-6 pixels.
            good = at == pixel and abs(data[pixel[::-1]] - flux) < 2e-4 * 2 and np.hypot(*np.subtract(said, pixel)) < 1e-6
            s.must(good, "lone source %s: %.6f at %d,%d, by the header at %.3f,%.3f" % (pol, data[at[::-1]], *at, *said))


def centre_for(source, lm):
    """The image centre for which a source is at l, m; by iteration."""
    ra, dec = source
    for _ in range(20):
        l, m, _ = Frame(2, 2, 1, ra, dec).axes @ axes(*source)[2]
        ra, dec = ra + (l - lm[0]) / np.cos(dec), dec + (m - lm[1])
    return ra, dec


def groups(samples, n):
    """The group of each sample, of n groups with about equally many distinct frequencies, divided as WSClean does."""
    freq = np.unique(samples.freq)
    return np.searchsorted([freq[(i + 1) * len(freq) // n - 1] for i in range(n)], samples.freq)


def check_channels(s):
    for title, mode, own in (("natural", {"mode": "natural"}, False), ("briggs", {"mode": "briggs", "robust": 0}, False),
                             ("uniform per channel", {"mode": "uniform"}, True)):
        name = s.image(["meerkat"], (256, 256), 2, "-accuracy", 1e-5, "-channels-out", 4, "-make-psf", "-pol", "I,Q",
                       "-weight", *mode.values(), *(["-no-mf-weighting"] if own else []))
        frame = Frame(256, 256, 2 * ASEC, *np.radians(MEERKAT))
        for pol in "IQ":
            samples = frame.inside(read(s.ms("meerkat"), pol))
            group = groups(samples, 4)
            weight = np.zeros(len(samples.vis))
            for i in range(4):
                part = samples.take(group == i)
                weight[group == i] = frame.weigh(part, density_of=part if own else samples, **mode)
                file = "%s-%04d-" % (name, i)
                _, header = s.held("%s, channel %d %s" % (title, i, pol), "%s%s-dirty.fits" % (file, pol), frame, part, 1e-5,
                                   weight[group == i])
                if pol == "I":
                    s.held("%s, channel %d psf" % (title, i), file + "psf.fits", frame, part, 1e-5, weight[group == i],
                           psf=True)
                if not part.freq.min() <= header["CRVAL3"] <= part.freq.max():
                    s.must(False, "channel %d: frequency %g" % (i, header["CRVAL3"]))
            # Channel images and their sum are float32: one more rounding for each.
            s.held("%s, MFS %s" % (title, pol), "%s-MFS-%s-dirty.fits" % (name, pol), frame, samples, 1e-5, weight)
        s.held("%s, MFS psf" % title, name + "-MFS-psf.fits", frame, frame.inside(read(s.ms("meerkat"))), 1e-5,
               None if mode["mode"] == "natural" else channel_weights(frame, s, mode, own), psf=True)


def check_channels_at_once(s):
    """One thread and several channels at a time give the same images to the bit."""
    names = [s.image(["meerkat"], (256, 256), 2, "-channels-out", 4, "-make-psf", "-save-weights", "-backend", "cpu", "-j", n)
             for n in (1, 2)]
    for part in ["%s-%s" % (channel, kind) for channel in ("0000", "0001", "0002", "0003", "MFS")
                 for kind in ("dirty", "psf", "weights")]:
        one, two = (load("%s-%s.fits" % (name, part))[0] for name in names)
        s.must(np.array_equal(one, two), "%s by one thread and by two" % part)


def check_readers(s):
    """One reader and several give the same images to the bit."""
    for options, parts in ((("-make-psf", "-pol", "IQUV"), ("I-dirty", "V-dirty", "psf")),
                           (("-intervals-out", 2, "-channels-out", 2), ("t0000-0001-dirty", "t0001-MFS-dirty"))):
        names = [s.image(["vla"], (256, 256), 5, "-backend", "cpu", "-readers", n, *options) for n in (1, 3)]
        for part in parts:
            one, three = (load("%s-%s.fits" % (name, part))[0] for name in names)
            s.must(np.array_equal(one, three), "%s by one reader and by three" % part)


def saved_weights(s, title, name, want, frame):
    """Check a file of weights against the expected plane, and its coordinates against the centres of its cells."""
    got, header = load(name + "-weights.fits")
    same = got.shape == want.shape
    error = np.abs(got - want).max() / want.max() if same else np.inf
    s.must(error < 1e-6, "%s: %s cells, error %.1e" % (title, got.shape, error))
    for axis, n in ((1, want.shape[1]), (2, want.shape[0])):
        if header["CRPIX%d" % axis] != n / 2 + 0.5 or abs(header["CDELT%d" % axis] * n * frame.cell - 1) > 1e-12:
            s.must(False, "%s: CRPIX%d %g, CDELT%d %g" % (title, axis, header["CRPIX%d" % axis], axis,
                                                        header["CDELT%d" % axis]))


def on_axes(s):
    """A set with some samples exactly on the axes of the uv plane and at its origin, with both signs of zero."""
    path = s.path("axes.ms")
    fresh_copy(s.ms("vla"), path)
    with table(path, readonly=False, ack=False) as t:
        uvw = t.getcol("UVW")
        for step, (axis, value) in enumerate(((0, 0.0), (0, -0.0), (1, 0.0), (1, -0.0))):
            uvw[step::29, axis] = value
        uvw[5::41, :2] = 0, -0.0
        uvw[6::41, :2] = -0.0, 0
        # Samples and their mirror images in the same cell.
        uvw[7::29] = -uvw[2::29][:len(uvw[7::29])]
        t.putcol("UVW", uvw)
    return path


def check_density_grids(s):
    """Uniform and Briggs weights by their definition on the whole uv plane, with u = 0 and v = 0, on grids of any size."""
    path = on_axes(s)
    frame = Frame(250, 200, 5 * ASEC, *np.radians(VLA))
    samples = frame.inside(read(path))
    n_on_axes = [int((samples.stored[:, k] == 0).sum()) for k in (0, 1)]
    s.must(min(n_on_axes) > 100, "%d samples have u = 0, %d v = 0" % tuple(n_on_axes))
    for padding, super_weight in ((1, 1), (1.2, 1), (2, 1), (1, 3), (1.2, 0.5), (1, 70)):
        grid = {"padding": padding, "super_weight": super_weight}
        for mode in ({"mode": "uniform"}, {"mode": "briggs", "robust": -0.5}, {"mode": "uniform", "taper": 30 * ASEC},
                     {"mode": "briggs", "robust": 1, "taper": 20 * ASEC}):
            title = "%s, padding %g, super %g" % (" ".join("%s" % v for v in mode.values()), padding, super_weight)
            name = s.path("image%d" % next(s.number))
            taper = ["-taper-gaussian", "%.15grad" % mode["taper"]] if "taper" in mode else []
            robust = [mode["robust"]] if "robust" in mode else []
            run(s.msimage, "-quiet", "-j", 2, "-size", 250, 200, "-scale", "5asec", "-name", name, "-weight", mode["mode"],
                *robust, *taper, "-weight-padding", padding, "-super-weight", super_weight, "-save-weights", "-make-psf",
                "-accuracy", 1e-5, path)
            weight = frame.weigh(samples, **mode, **grid)
            s.held(title, name + "-dirty.fits", frame, samples, 1e-5, weight)
            plane = frame.plane(samples, weight, **grid)
            saved_weights(s, title, name, plane, frame)
            if mode == {"mode": "uniform"}:
                ones(s, title, plane, name)


def check_rank_filter(s):
    """Limited factors of cells: the limit is relative to the mean over cells with samples for uniform weights, and over all
    cells for Briggs weights."""
    path = on_axes(s)
    frame = Frame(250, 200, 5 * ASEC, *np.radians(VLA))
    samples = frame.inside(read(path))
    for mode, level, size in (({"mode": "uniform"}, 1, 16), ({"mode": "uniform", "taper": 20 * ASEC}, 1.5, 5),
                              ({"mode": "briggs", "robust": -1}, 1, 4), ({"mode": "uniform"}, 1e9, 2)):
        title = "rank filter %g, size %d, %s" % (level, size, mode["mode"])
        weight = frame.weigh(samples, **mode, padding=1.2, rank=(level, size))
        n_lower = int((weight < 0.999 * frame.weigh(samples, **mode, padding=1.2)).sum())
        s.must((n_lower > 100) == (level < 10), "%s: %d of %d weights are lowered" % (title, n_lower, len(weight)))
        name = s.path("image%d" % next(s.number))
        taper = ["-taper-gaussian", "%.15grad" % mode["taper"]] if "taper" in mode else []
        run(s.msimage, "-quiet", "-j", 2, "-size", 250, 200, "-scale", "5asec", "-name", name, "-weight", mode["mode"],
            *([mode["robust"]] if "robust" in mode else []), *taper, "-weight-padding", 1.2, "-weighting-rank-filter", level,
            "-weighting-rank-filter-size", size, "-save-weights", "-make-psf", "-accuracy", 1e-5, path)
        s.held(title, name + "-dirty.fits", frame, samples, 1e-5, weight)
        saved_weights(s, title, name, frame.plane(samples, weight, padding=1.2), frame)


def rise(beyond, width):
    """A Tukey transition: 0 up to 0, 1 from the width on."""
    x = np.clip(beyond / width if width else np.where(beyond >= 0, 1, 0), 0, 1)
    return (1 + np.cos(np.pi * (x - 1))) / 2


def check_tapers(s):
    """Tapers by their definitions at each sample; -maxw; squared weights; each with the gridded weights and an image."""
    path = on_axes(s)
    frame = Frame(250, 200, 5 * ASEC, *np.radians(VLA))
    samples = frame.inside(read(path))
    u, v = samples.stored.T
    r, edge = np.hypot(u, v), 0.5 / frame.cell
    w = np.sqrt(np.maximum((samples.baseline**2).sum(1) - r**2, 0))
    half, (major, minor, angle) = 4000, (12 * ASEC, 30 * ASEC, np.radians(70))
    along, across = u * np.sin(angle) + v * np.cos(angle), u * np.cos(angle) - v * np.sin(angle)
    uniform = frame.weigh(samples, "uniform", padding=1.2)
    cases = (("tukey", ["-maxuv-l", 9000, "-taper-tukey", 5000], samples.weight * rise(9000 - r, 5000)),
             ("inner tukey", ["-minuv-l", 500, "-taper-inner-tukey", 3000], samples.weight * rise(r - 500, 3000)),
             ("inner tukey alone", ["-taper-inner-tukey", 5000], samples.weight * rise(r, 5000)),
             ("edge", ["-weight", "uniform", "-taper-edge", 15000],
              uniform * rise(edge - abs(u) - 15000, 0) * rise(edge - abs(v) - 15000, 0)),
             ("edge tukey", ["-weight", "uniform", "-taper-edge", 6000, "-taper-edge-tukey", 12000],
              uniform * rise(edge - abs(u) - 6000, 12000) * rise(edge - abs(v) - 6000, 12000)),
             ("klambda", ["-taper-gaussian", "4klambda"], samples.weight * 2.0**-(r / half)**2),
             ("ellipse in lambda", ["-taper-gaussian", "4000lambda,2klambda,70"],
              samples.weight * 2.0**-((along / 4000)**2 + (across / 2000)**2)),
             ("ellipse", ["-taper-gaussian", "12asec,30asec,70deg"],
              samples.weight * np.exp(-(np.pi**2 / 4 / np.log(2)) * ((along * major)**2 + (across * minor)**2))),
             ("maxw", ["-weight", "uniform", "-maxw", 40], uniform * (w <= 0.4 * w.max())),
             ("squared", ["-weight", "uniform", "-visibility-weighting-mode", "squared"], uniform * samples.weight),
             ("unit", ["-visibility-weighting-mode", "unit"], np.ones(len(r))))
    for title, options, weight in cases:
        plain = uniform if "uniform" in options else samples.weight
        n_lower = int((weight != plain).sum())
        s.must(100 < n_lower, "%s: %d of %d weights differ" % (title, n_lower, len(weight)))
        name = s.path("image%d" % next(s.number))
        run(s.msimage, "-quiet", "-j", 2, "-size", 250, 200, "-scale", "5asec", "-name", name, "-weight-padding", 1.2,
            "-save-weights", "-accuracy", 1e-5, *options, path)
        s.held(title, name + "-dirty.fits", frame, samples.take(weight > 0), 1e-5, weight[weight > 0])
        saved_weights(s, title, name, frame.plane(samples, weight, padding=1.2), frame)
    name = s.path("beyond")
    for options, code, words in ((["-taper-inner-tukey", 1e7], 3, "beyond the longest baseline"),
                                 (["-taper-edge", 1e7], 2, "the whole uv plane"), (["-taper-tukey", 10], 2, "-maxuv-l")):
        for dry in ((), ("-dry-run",)):
            text = run(s.msimage, "-quiet", "-size", 250, 200, "-scale", "5asec", "-name", name, *options, *dry, path,
                       code=code).stderr.decode()
            s.must(words in text and text.count("\n") == 1, "%s: %s" % ([*options, *dry], text.strip()))


def check_bandwidth_taper(s):
    """CASA's briggsbwtaper: in each channel Briggs' density of a cell is divided by F, from the fractional bandwidth of the
    channels' centres and the distance of the sample from the origin in cells. Cells are centred on whole numbers."""
    frame = Frame(256, 256, 2 * ASEC, *np.radians(MEERKAT))
    name = s.image(["meerkat"], (256, 256), 2, "-accuracy", 1e-5, "-channels-out", 4, "-weight", "briggsbwtaper", 0.5)
    samples = frame.inside(read(s.ms("meerkat")))
    group = groups(samples, 4)
    centre = [load("%s-%04d-dirty.fits" % (name, i))[1]["CRVAL3"] for i in range(4)]
    bandwidth = 2 * (centre[3] - centre[0]) / (centre[3] + centre[0])
    for i in range(4):
        part = samples.take(group == i)
        x = bandwidth * np.hypot(*(part.stored.T * frame.cell * 256))
        divisor = np.where(x + 0.5 < 1.5, (4 - x) / (4 - 2 * x), x + 0.5)
        cell, grid = frame.centred_cells(part)
        # The mean is over a half plane, in which the samples of the cell at the origin are once.
        squares = (grid**2).sum() / 2 - grid[0, 0]**2 / 4
        s2 = (5 * 10**-0.5)**2 * part.weight.sum() / squares
        weight = part.weight / (1 + s2 * grid[cell] / divisor)
        s.must(divisor.min() < 1.5 < divisor.max(), "channel %d: F from %.3f to %.3f" % (i, divisor.min(), divisor.max()))
        s.held("briggsbwtaper, channel %d" % i, "%s-%04d-dirty.fits" % (name, i), frame, part, 1e-5, weight)
    # tclean has these cells for other densities of channels too.
    name = s.image(["meerkat"], (256, 256), 2, "-accuracy", 1e-5, "-channels-out", 4, "-weight", "uniform", "-like", "tclean",
                   "-stokes-weight", "smaller", "-save-weights")
    for i in range(4):
        part = samples.take(group == i)
        cell, grid = frame.centred_cells(part)
        s.held("uniform as tclean's channels, %d" % i, "%s-%04d-dirty.fits" % (name, i), frame, part, 1e-5, part.weight / grid[cell])
        sums = load("%s-%04d-weights.fits" % (name, i))[0]
        filled = np.zeros(sums.shape, bool)
        for sign in (1, -1):
            filled[128 + sign * cell[0], 128 + sign * cell[1]] = True
        s.must(((sums > 0) == filled).all() and np.abs(sums[filled] - 1).max() < 1e-6,
               "uniform as tclean's channels, %d: %d cells in the file, all with the sum 1" % (i, filled.sum()))


def ones(s, title, plane, name):
    """Uniform weights sum to one in every cell with samples, in the oracle and in the file."""
    for whose, sums in (("by definition", plane), ("in the file", load(name + "-weights.fits")[0])):
        held = sums[sums != 0]
        s.must(held.size > 0 and np.abs(held - 1).max() < 1e-6, "%s: %d cells %s, %.7f to %.7f" %
               (title, held.size, whose, held.min(), held.max()))


def check_densities_of_channels(s):
    """Uniform weights of a cell sum to one over all channels; without -mf-weighting for each channel."""
    path, frame = on_axes(s), Frame(256, 256, 5 * ASEC, *np.radians(VLA))
    samples = frame.inside(read(path))
    group = groups(samples, 4)
    for option, own in (("-mf-weighting", False), ("-no-mf-weighting", True)):
        name = s.path("image%d" % next(s.number))
        run(s.msimage, "-quiet", "-j", 2, "-size", 256, 256, "-scale", "5asec", "-name", name, "-weight", "uniform",
            "-save-weights", "-channels-out", 4, option, path)
        parts = [samples.take(group == i) for i in range(4)]
        planes = [frame.plane(p, frame.weigh(p, "uniform", density_of=p if own else samples)) for p in parts]
        for i, plane in enumerate(planes):
            saved_weights(s, "%s, channel %d" % (option, i), "%s-%04d" % (name, i), plane, frame)
            if own:
                ones(s, "%s, channel %d" % (option, i), plane, "%s-%04d" % (name, i))
        saved_weights(s, "%s, all" % option, name + "-MFS", sum(planes), frame)
        if not own:
            ones(s, "%s, all" % option, sum(planes), name + "-MFS")


def check_stokes_weights(s):
    for rule, is_mean in (("smaller", False), ("mean", True)):
        for weighting in ({"mode": "natural"}, {"mode": "briggs", "robust": 0}):
            s.check("the %s weight, %s" % (rule, weighting["mode"]), ["vla"], (256, 256), 5, 1e-5,
                    ["-stokes-weight", rule], pols=("I", "Q", "U", "V"), weighting=weighting, mean_weight=is_mean)


def channel_weights(frame, s, mode, own):
    samples = frame.inside(read(s.ms("meerkat")))
    group, weight = groups(samples, 4), np.zeros(len(samples.vis))
    for i in range(4):
        part = samples.take(group == i)
        weight[group == i] = frame.weigh(part, density_of=part if own else samples, **mode)
    return weight


def check_intervals(s):
    frame = Frame(256, 256, 5 * ASEC, *np.radians(VLA))
    for title, options, steps in (("intervals", [], ((0, 6), (6, 12))),
                                  ("intervals of an interval", ["-interval", 2, 9], ((2, 5), (5, 9)))):
        name = s.image(["vla"], (256, 256), 5, "-accuracy", 1e-5, "-intervals-out", 2, "-channels-out", 2, *options)
        for t, interval in enumerate(steps):
            samples = frame.inside(read(s.ms("vla"), interval=interval))
            group = groups(samples, 2)
            for c in range(2):
                s.held("%s %d, channel %d" % (title, t, c), "%s-t%04d-%04d-dirty.fits" % (name, t, c), frame,
                       samples.take(group == c), 1e-5)
            s.held("%s %d, MFS" % (title, t), "%s-t%04d-MFS-dirty.fits" % (name, t), frame, samples, 1e-5)


def check_empty_intervals(s):
    """Intervals without rows of the field are NaN, like such channels, with a warning and their own time; the others are
    right. Among several sets, those with rows count."""
    path = fresh_copy(s.ms("vla"), s.path("gaps.ms"))
    with table(path, readonly=False, ack=False) as t:
        time = t.getcol("TIME")
        steps = np.unique(time)
        field = t.getcol("FIELD_ID")
        field[np.isin(time, steps[3:6]) | np.isin(time, steps[9:])] = 1
        with table(path + "/FIELD", readonly=False, ack=False) as f:
            f.addrows(1)
            f.putcell("NAME", 1, "calibrator")
            f.putcell("PHASE_DIR", 1, f.getcell("PHASE_DIR", 0) + 0.1)
        t.putcol("FIELD_ID", field)
    frame = Frame(128, 128, 10 * ASEC, *np.radians(VLA))
    image = ["-quiet", "-j", 2, "-size", 128, 128, "-scale", "10asec", "-accuracy", 1e-5, "-intervals-out", 4, "-make-psf"]
    for title, options, sets in (
            ("plain", [], [path]),
            ("uniform", ["-weight", "uniform", "-save-weights", "-save-uv", "-channels-out", 2], [path]),
            ("processes", ["-readers", 2], [path]),
            ("two sets", [], [path, s.ms("vla")])):
        name = s.path("gaps%d" % next(s.number))
        done = s.launch(*image, "-name", name, *options, *sets)
        s.must(done.returncode == 0, "%s: exits %s: %s" % (title, done.returncode, done.stderr))
        empty = [] if len(sets) > 1 else [1, 3]
        for t in range(4):
            said = "interval %d has no selected row" % t in done.stderr
            s.must(said == (t in empty), "%s: interval %d: %s" % (title, t, done.stderr))
            middle = "MFS-" if "-channels-out" in options else ""
            file = "%s-t%04d-%sdirty.fits" % (name, t, middle)
            data, header = load(file)
            if t in empty:
                psf = load("%s-t%04d-%spsf.fits" % (name, t, middle))[0]
                s.must(np.isnan(data).all() and np.isnan(psf).all() and header["WSCNVIS"] == 0,
                       "%s: interval %d is not NaN" % (title, t))
                s.must(abs(header["MJD-OBS"] - steps[3 * t] / 86400) < 1e-8, "%s: time of interval %d" % (title, t))
            elif title != "uniform":
                interval = (3 * t, 3 * t + 3)
                used = [p for p in sets if p != path or t not in (1, 3)]
                samples = frame.inside(read(used, interval=interval))
                s.held("%s, interval %d" % (title, t), file, frame, samples, 1e-5)
    done = s.launch(*image, "-dry-run", path)
    s.must(done.returncode == 0 and "interval 3 has no selected row" in done.stderr, "dry run: " + done.stderr)
    done = s.launch(*image, "-name", s.path("none"), "-field", 1, "-interval", 0, 3, "-intervals-out", 3, path)
    s.must(done.returncode == 3 and "no row is selected" in done.stderr, "no interval has rows: " + done.stderr)


def check_weights_file(s):
    """-save-weights: the gridded weights on the uv grid of their densities, each sample at (u, v) and at (-u, -v)."""
    frame = Frame(256, 200, 5 * ASEC, *np.radians(VLA))
    name = s.image(["vla"], (256, 200), 5, "-weight", "briggs", 0, "-save-weights", "-save-uv", "-accuracy", 1e-5)
    samples = frame.inside(read(s.ms("vla")))
    weight = frame.weigh(samples, "briggs", 0)
    # Sums of float32 weights in another order: the largest cell has some hundreds of them.
    saved_weights(s, "saved weights", name, frame.plane(samples, weight), frame)
    for pol, stokes in (("I", 1), ("XY", -7), ("Q,I", None)):
        part = s.image(["vla"], (64, 64), 5, "-pol", pol, "-save-weights")
        s.must(load(part + "-weights.fits")[1].get("CRVAL4") == stokes, "weights of %s are called %s" % (pol, stokes))
    dirty, _ = load(name + "-dirty.fits")
    plane = np.fft.fftshift(np.fft.ifft2(np.fft.ifftshift(dirty[:, ::-1]))) * dirty.size
    # Pixel x has the l index nx/2 - x: it is mirrored and shifted by one.
    plane *= np.exp(2j * np.pi * (np.arange(256) - 128) / 256)
    for part, want_part in (("real", plane.real), ("imag", plane.imag)):
        got, _ = load("%s-uv-%s.fits" % (name, part))
        error = np.abs(got - want_part).max() / np.abs(plane).max()
        s.must(error < 1e-6, "saved uv plane, %s: error %.1e" % (part, error))


def lobe_beam(psf):
    """Widths in pixels of the gaussian of peak 1 that fits the pixels of the main lobe above 0.35 best."""
    ny, nx = psf.shape
    within, lobe = psf >= 0.35 * psf.max(), np.zeros(psf.shape, bool)
    lobe[ny // 2, nx // 2] = grown = True
    while grown:
        wider = lobe.copy()
        for axis in (0, 1):
            for step in (-1, 1):
                wider |= np.roll(lobe, step, axis)
        wider &= within
        grown = wider.sum() > lobe.sum()
        lobe = wider
    y, x = np.nonzero(lobe)
    value, x, y = psf[y, x] / psf[ny // 2, nx // 2], x - nx // 2, y - ny // 2
    basis = np.array([x * x, 2 * x * y, y * y], float)
    q = np.linalg.lstsq((basis * value).T, -value * np.log(value), rcond=None)[0]
    for _ in range(50):
        model = np.exp(-q @ basis)
        slope = -model * basis
        q += np.linalg.lstsq(slope.T, value - model, rcond=None)[0]
    return np.sqrt(4 * np.log(2) / np.linalg.eigvalsh([[q[0], q[1]], [q[1], q[2]]]))


def check_beams(s):
    """The beam of few pixels is that of the PSF on pixels 16 times finer, with weights of the same cells."""
    samples = read(s.ms("vla"))
    finest = 1 / np.abs(samples.baseline @ axes(*np.radians(VLA))[:2].T).max() / ASEC
    for title, part, options in (("uniform", 0.33, ["-weight", "uniform"]), ("briggs", 0.35, ["-weight", "briggs", 0]),
                                 ("natural", 0.45, []), ("circular", 0.4, ["-circular-beam"])):
        cell, beams = part * finest, []
        for finer in (1, 16):
            name = s.image(["vla"], (64 * finer, 64 * finer), cell / finer, "-make-psf-only", *options)
            psf, header = load(name + "-psf.fits")
            beams.append(np.array([header["BMAJ"], header["BMIN"]]) * 3600 / cell)
        middle = slice(512 - 128, 512 + 128)
        beams.append(lobe_beam(psf[middle, middle]) / 16 if title != "circular" else beams[-1])
        error = max(np.abs(beams[0] / other - 1).max() for other in beams[1:])
        s.must(beams[0].min() > 2.5 and error < 5e-4, "beam, %-8s %.2f x %.2f pixels, error %.1e" %
               (title, *beams[0], error))


main(Truth, globals())
