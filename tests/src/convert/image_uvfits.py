#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""image_uvfits.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: UVFITS and FITS-IDI files are imaged without a conversion. Images are compared
with direct sums over the groups as astropy reads them, in every form that the formats have, of a source off the centre."""
import os
import re
import warnings

import numpy as np
from astropy.io import fits
from astropy.wcs import WCS

from convert_oracle import Convert, Rows, peak
from program_suite import main
from uv_files import Groups, Raw, write_idi

C = 299792458.0
VLA = ["-telescope", "vla", "-config", "D", "-ra", "60deg", "-dec", "44deg", "-integration", "10s", "-duration", "40s"]
PLAIN = [*VLA, "-spw", "1.4GHz", "1MHz", 6, "-spw", "1.5GHz", "1MHz", 6, "-flags", 0.2, "-noise", "0.2Jy", "-source", "60.1deg", "44.05deg",
         "1Jy", "-weights", "radiometer", "-weight-spectrum", "partly"]
SIZE, SCALE_ASEC = 128, 15
IMAGE = ["-quiet", "-size", SIZE, SIZE, "-scale", "%gasec" % SCALE_ASEC, "-accuracy", "1e-6"]
# The image's relative L2 error is at most 1e-6, so that of a pixel of N is at most 1e-6 sqrt(N) of the image's rms, which is
# below its peak; samples and pixels are of single precision.
ERROR = 1e-6 * SIZE


def stokes_i(vis, weight, codes):
    """Return Stokes I and its weight, the smaller one of both parallel hands; 0 if one of them is flagged."""
    a, b = [list(codes).index(c) for c in ((-1, -2) if -1 in codes else (-5, -6))]
    w = np.minimum(weight[..., a], weight[..., b])
    return 0.5 * (vis[..., a] + vis[..., b]), np.where((w > 0) & np.isfinite(w), w, 0)


def samples_of(path):
    """Return u, v, w in wavelengths, Stokes I and weights of all samples of a UVFITS file, by its header and table of
    frequencies."""
    g = Groups(path)
    h, fq = g.header, g.tables["AIPS FQ"][0]
    n_if, n_chan, n_corr = g.vis.shape[1:]
    codes = h["CRVAL3"] + h["CDELT3"] * (np.arange(n_corr) + 1 - h["CRPIX3"])
    step = np.arange(n_chan) + 1 - h["CRPIX4"]
    freq = h["CRVAL4"] + np.array([np.ravel(fq["IF FREQ"])[i] + step * np.ravel(fq["CH WIDTH"])[i] for i in range(n_if)], np.float64)
    vis, weight = stokes_i(g.vis, g.weight, codes.round().astype(int))
    if "BASELINE" in g.names:
        weight = weight * (g.parameter("BASELINE") // 256 != g.parameter("BASELINE") % 256)[:, None, None]
    uvw = g.uvw_m[:, None, None, :] * freq[None, :, :, None] / C
    return uvw.reshape(-1, 3), vis.ravel(), weight.ravel()


def direct(samples, pixels, size=SIZE, scale_asec=SCALE_ASEC):
    """Sum V exp(2 pi i (u l + v m + w (n - 1))) over all samples; l grows to the east, which is to the left."""
    uvw, vis, weight = samples
    out = []
    for y, x in pixels:
        l, m = np.radians(scale_asec / 3600) * np.array([size // 2 - x, y - size // 2])
        n1 = np.sqrt(1 - l * l - m * m) - 1
        good = weight > 0
        phase = -2 * np.pi * (uvw[good] @ np.array([l, m, n1]))
        out.append((weight[good] * (vis[good] * np.exp(1j * phase)).real).sum() / weight[good].sum())
    return np.array(out)


PIXELS = [(64, 64), (64 + 12, 64 - 17), (76, 46), (3, 120), (90, 5), (64, 80), (20, 20), (127, 127)]


class Imager(Convert):
    def dirty(self, name, *words, file=None):
        """Image a file. Returns the image."""
        self.run_image(name, file, *IMAGE, *words)
        return fits.getdata(name + "-dirty.fits").squeeze()

    def run_image(self, name, file, *words):
        done = self.launch("-overwrite", "-name", name, *words, file)
        if done.returncode:
            self.complain("%s is not imaged: %s" % (file, done.stderr.strip()[-300:]))
        return done.stderr

    def compare_sum(self, title, file, want, *words):
        got = self.dirty("sum", *words, file=file)
        error = abs(np.array([got[p] for p in PIXELS]) - want).max() / abs(got).max()
        self.must(error <= ERROR, "%s: a direct sum, to %.2g of the peak" % (title, error))


def base(s):
    a = s.made("plain.ms", *PLAIN)
    if not os.path.exists("plain.uvfits"):
        s.convert("-quiet", a, "plain.uvfits")
    return "plain.uvfits", direct(samples_of("plain.uvfits"), PIXELS)


def check_sum(s):
    """A file's image is the direct sum of its groups, and its source is where it is on the sky."""
    name, want = base(s)
    s.compare_sum("UVFITS", name, want)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x, y = WCS(fits.getheader("sum-dirty.fits")).celestial.world_to_pixel_values(60.1, 44.05)
    at = peak("sum-dirty.fits")[0]
    s.must(abs(at[0] - y) <= 1 and abs(at[1] - x) <= 1 and abs(x - 64) > 10, "the source is at %s, by the header at %.1f, %.1f" % (at, y, x))
    s.must(np.array_equal(fits.getdata("sum-dirty.fits"), s.dirty("readers", "-readers", 2, file=name)[None, None]), "by two readers")
    header = fits.getheader("sum-dirty.fits")
    s.must(header["TELESCOP"] == "VLA" and header["OBJECT"] == "field0" and header["TIMESYS"].lower() == "utc", "its header")
    for words in (("-spws", 1), ("-channel-range", 2, 9), ("-interval", 1, 3), ("-minuv-l", 500)):
        got, of_set = s.dirty("part", *words, file=name), s.dirty("set", *words, file="plain.ms")
        s.must(abs(got - of_set).max() <= 2e-6 * abs(of_set).max(), "%s selects as in the set, to %.2g" %
               (words[0], abs(got - of_set).max() / abs(of_set).max()))


def scaled_groups(raw, bitpix, scale):
    """Return the bytes of a file whose numbers are of BITPIX, with PSCAL, PZERO and BSCALE where those are whole numbers."""
    h = raw.header.copy()
    kind = {-64: ">f8", 32: ">i4"}[bitpix]
    p, d = raw.parameters.astype(np.float64), raw.samples.reshape(len(raw.samples), -1).astype(np.float64)
    h["BITPIX"] = bitpix
    if bitpix > 0:
        for k in range(p.shape[1]):
            zero = p[:, k].min()
            step = (p[:, k].max() - zero) / 2**30 or 1.0
            p[:, k] = np.rint((p[:, k] - zero) / step)
            h["PZERO%d" % (k + 1)] += zero
            h["PSCAL%d" % (k + 1)] = step
        # Weights count relative to each other.
        d[:, 2::3] /= abs(d[:, 2::3]).max()
        h["BSCALE"], d = scale, np.rint(d / scale)
    h["GCOUNT"] = len(p)
    body = np.column_stack([p, d]).astype(kind).tobytes()
    return h.tostring(padding=True).encode() + body + bytes(-len(body) % 2880)


def put_tables(path, begin, tables):
    with open(path, "wb") as f:
        f.write(begin)
    for t in tables:
        fits.append(path, t.data, t.header, verify=False)
    return path


def check_forms(s):
    """Axes in any order, numbers of any kind, compressed groups, dates of two parts, and u, v, w of two parts."""
    name, want = base(s)
    for names in (("COMPLEX", "FREQ", "STOKES", "IF", "RA", "DEC"), ("COMPLEX", "STOKES", "IF", "FREQ", "RA", "DEC"),
                  ("STOKES", "FREQ", "IF", "RA", "DEC", "COMPLEX"), ("IF", "COMPLEX", "FREQ", "RA", "STOKES", "DEC")):
        raw = Raw(name)
        raw.order(names)
        s.compare_sum(", ".join(names), raw.write("form.uvfits"), want)
    raw = Raw(name)
    for bitpix in (-64, 32):
        with open("form.uvfits", "wb") as f:
            f.write(scaled_groups(raw, bitpix, 2.0**-27))
            with open(name, "rb") as g:
                whole = g.read()
            f.write(whole[whole.index(b"XTENSION"):])
        s.compare_sum("BITPIX %d" % bitpix, "form.uvfits", want)
    raw = Raw(name)
    second = [k for k in raw.header["PTYPE*"] if raw.header[k] == "DATE"][1]
    raw.header[second] = "_DATE"
    told = s.run_image("form", raw.write("form.uvfits"), *IMAGE[1:])
    s.must("2023-02-25 00:51:40" in told and "over 30 s" in told, "_DATE holds the fraction of the day")
    raw = Raw(name)
    tables = {t.header["EXTNAME"]: t for t in raw.tables}
    for missing, other in (("TIMSYS", "TIMESYS"),):
        value = tables["AIPS AN"].header.pop(missing)
        tables["AIPS AN"].header[other] = value
    told = s.run_image("form", raw.write("form.uvfits"), *IMAGE[1:])
    s.must("00:51:40 UTC" in told and "warning" not in told, "TIMESYS is TIMSYS")


def compressed(raw):
    """Return a file whose samples are pairs of 16 bits, with a weight and a scale for each group, as AIPS writes them; and the
    samples that it holds."""
    n = len(raw.samples)
    d = raw.samples.astype(np.float64)  # [n][dec][ra][if][freq][stokes][3]
    scale = abs(d[..., :2]).reshape(n, -1).max(axis=1) / 32760
    weight = d[..., 2].reshape(n, -1).max(axis=1)
    scale, weight = np.float32(scale), np.float32(weight)
    halves = np.rint(d[..., :2] / scale.reshape(-1, *[1] * 6)).astype(np.int16)
    halves[d[..., 2] <= 0] = -32767
    packed = np.ascontiguousarray(halves.astype(">i2")).view(">f4")
    raw.add("WEIGHT", weight)
    raw.add("SCALE", scale)
    bits = packed.view(">u4")
    h = raw.header
    h["NAXIS2"], h["GCOUNT"] = 1, n
    body = np.concatenate([raw.parameters.astype(">f4").view(">u4"), bits.reshape(n, -1)], axis=1).astype(">u4").tobytes()
    good = halves[..., 0] != -32767
    held = np.where(good, halves[..., 0] + 1j * halves[..., 1], 0) * scale.astype(np.float64).reshape(-1, *[1] * 5)
    return (h.tostring(padding=True).encode() + body + bytes(-len(body) % 2880),
            held[:, 0, 0], np.where(good, weight.reshape(-1, *[1] * 5), 0)[:, 0, 0])


def check_compressed(s):
    """Compressed groups, which have a weight and a scale for each group."""
    name, _ = base(s)
    raw = Raw(name)
    begin, vis, weight = compressed(raw)
    with open(name, "rb") as g:
        whole = g.read()
    with open("packed.uvfits", "wb") as f:
        f.write(begin + whole[whole.index(b"XTENSION"):])
    uvw, _, _ = samples_of(name)
    v, w = stokes_i(vis, weight, [-1, -2, -3, -4])
    s.compare_sum("compressed groups", "packed.uvfits", direct((uvw, v.ravel(), w.ravel()), PIXELS))


def check_stokes(s):
    """Stokes parameters as correlations."""
    name, _ = base(s)
    raw = Raw(name)
    d, w = raw.samples[..., 0] + 1j * raw.samples[..., 1].astype(np.float64), raw.samples[..., 2].copy()
    rr, ll, rl, lr = (d[..., k] for k in range(4))
    weight = np.minimum(w[..., 0], w[..., 1])
    for k, v in enumerate((0.5 * (rr + ll), 0.5 * (rl + lr), -0.5j * (rl - lr), 0.5 * (rr - ll))):
        raw.samples[..., k, 0], raw.samples[..., k, 1] = v.real, v.imag
        raw.samples[..., k, 2] = weight
    raw.header["CRVAL3"], raw.header["CDELT3"] = 1.0, 1.0
    raw.write("stokes.uvfits")
    uvw, _, _ = samples_of(name)
    for k, pol in enumerate("IQUV"):
        v = (raw.samples[..., k, 0] + 1j * raw.samples[..., k, 1].astype(np.float64))[:, 0, 0]
        good = np.where(weight > 0, weight, 0)[:, 0, 0]
        s.compare_sum("Stokes " + pol, "stokes.uvfits", direct((uvw, v.ravel(), good.ravel()), PIXELS), "-pol", pol)


def check_antennas(s):
    """Antennas above 255 by both codes and by numbers; positions in the frame of the meridian are turned back."""
    many = ["-telescope", "skalow", "-stations", 260, "-spw", "150MHz", "1MHz", 1, "-duration", "10s", "-integration", "10s", "-pol",
            "XX,YY", "-ra", "60deg", "-dec", "-20deg", "-source", "60.1deg", "-20.1deg", "1Jy"]
    a = s.made("many.ms", *many)
    s.convert("-quiet", a, "many.uvfits")
    want, got = s.dirty("want", file=a), s.dirty("got", file="many.uvfits")
    s.must(abs(got - want).max() <= 2e-6 * abs(want).max(), "260 antennas")
    name, want = base(s)
    raw = Raw(name)
    an = raw.tables[[t.header["EXTNAME"] for t in raw.tables].index("AIPS AN")]
    geocentric = an.data["STABXYZ"].copy()
    centre = geocentric.mean(axis=0)
    turn = np.arctan2(centre[1], centre[0])
    c, d = np.cos(turn), np.sin(turn)
    relative = geocentric - centre
    an.data["STABXYZ"] = relative @ np.array([[c, -d, 0], [d, c, 0], [0, 0, 1]])  # by minus the longitude
    for key, value in zip(("ARRAYX", "ARRAYY", "ARRAYZ"), centre):
        an.header[key] = value
    told = s.run_image("turned", raw.write("turned.uvfits"), *IMAGE[1:])
    s.must("turned by its longitude of %.4f degrees" % np.degrees(turn) in told, "turned positions are reported")
    s.run_image("plain", name, *IMAGE)
    places = [[fits.getheader(n + "-dirty.fits")["OBSGEO-" + k] for k in "XYZ"] for n in ("turned", "plain")]
    s.must(np.allclose(*places, rtol=0, atol=0.01), "they are turned back: %s" % places)
    s.compare_sum("turned positions", "turned.uvfits", want)


def changed_idi(name, out, change):
    with fits.open(name) as f, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tables = {t.name: fits.BinTableHDU(t.data.copy(), t.header.copy(), name=t.name) for t in f[1:]}
        change(tables)
        fits.HDUList([fits.PrimaryHDU(header=f[0].header), *tables.values()]).writeto(out, overwrite=True)
    return out


def other_columns(t, forms, values=None):
    """Return a table with other forms, and values, of some columns."""
    new = fits.BinTableHDU.from_columns([fits.Column(c.name, forms.get(c.name, c.format), unit=c.unit, array=(values or {}).get(
        c.name, t.data[c.name]).copy()) for c in t.columns], name=t.name)
    new.header.extend([c for c in t.header.cards if c.keyword not in new.header and c.keyword[:5] not in ("TTYPE", "TFORM", "TUNIT", "TDIM")])
    return new


def check_idi(s):
    """FITS-IDI has the image of its set: with bands and sources, another FREQID, numbers of other kinds, weights of channels, and
    times in the file's scale."""
    a = s.made("idi.ms", *VLA, "-spw", "1.4GHz", "1MHz", 4, "-spw", "1.5GHz", "1MHz", 4, "-pol", "RR,RL,LR,LL", "-field", "61deg",
               "44deg", "-source", "60.1deg", "44.05deg", "1Jy", "-source", "61.1deg", "44.05deg", "3Jy", "-flag-rows", 0.1)
    write_idi(Rows(a), a, "idi.fits")
    want = s.dirty("want", "-field", 1, file=a)
    def same(title, file):
        got = s.dirty("got", "-field", 1, file=file)
        error = abs(got - want).max() / abs(want).max()
        s.must(error <= 2e-6, "%s: the image of its set, to %.2g" % (title, error))
    same("FITS-IDI", "idi.fits")
    at = peak("got-dirty.fits")[0]
    s.must(at[1] < 60 and at[0] > 70, "the source is in the north-east, at %s" % (at,))
    def setting(tables):
        tables["FREQUENCY"].data["FREQID"][:] = tables["UV_DATA"].data["FREQID"][:] = tables["SOURCE"].data["FREQID"][:] = 3
    same("FREQID 3 alone", changed_idi("idi.fits", "form.fits", setting))
    def kinds(tables):
        tables["UV_DATA"] = other_columns(tables["UV_DATA"], {"INTTIM": "1D", "BASELINE": "1I", "SOURCE": "1I", "FREQID": "1I", "FLUX": "64D",
                                                              "WEIGHT": "8D", "UU": "1D", "VV": "1D", "WW": "1D"})
    same("numbers of other kinds", changed_idi("idi.fits", "form.fits", kinds))
    def channels(tables):
        t = tables["UV_DATA"]
        w = np.repeat(t.data["WEIGHT"].reshape(-1, 2, 1, 4), 4, axis=2)
        tables["UV_DATA"] = other_columns(t, {"WEIGHT": "32E"}, {"WEIGHT": w.reshape(len(w), -1)})
    same("weights of channels", changed_idi("idi.fits", "form.fits", channels))
    def scaled(tables):
        t = tables["UV_DATA"]
        t.data["FLUX"][:] *= 4
        at = t.columns.names.index("FLUX") + 1
        t.header["TSCAL%d" % at] = 0.25
    def two_settings(tables):
        f = tables["FREQUENCY"]
        both = fits.BinTableHDU(np.concatenate([f.data, f.data]), f.header.copy(), name="FREQUENCY")
        both.data["BANDFREQ"][0] += 5e8
        both.data["FREQID"][:] = (7, 2)
        tables["FREQUENCY"], tables["UV_DATA"].data["FREQID"][:] = both, 2
    same("the second of two settings", changed_idi("idi.fits", "form.fits", two_settings))
    same("scaled visibilities", changed_idi("idi.fits", "form.fits", scaled))
    # The corrections of 2-bit samples, of 4 levels: VLBA Scientific Memo 12, as casacore applies them.
    factor = (3.335875 * 64 / 63)**2 / (5.36 * 4.3048 * 0.882518 * 0.87890625)
    for kind, weight in (("NORMAL", 0.25), ("CORRELAT", 0.25), (None, 0.25)):
        def correlator(tables):
            t = tables["UV_DATA"]
            t.data["WEIGHT"] *= weight
            t.data["FLUX"] /= factor
            if kind != "NORMAL":
                t.data["FLUX"] *= weight
            t.header.pop("WEIGHTYP")
            if kind:
                t.header["WEIGHTYP"] = kind
            tables["ANTENNA"].data["NO_LEVELS"] = 4
        changed_idi("idi.fits", "form.fits", correlator)
        with fits.open("form.fits", mode="update") as f, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f[0].header["CORRELAT"] = "DIFX"
        same("DiFX, WEIGHTYP %s" % kind, "form.fits")


def check_joined(s):
    """Several files, and files with sets and stores, are imaged together."""
    a = s.made("join.ms", *VLA, "-spw", "1.4GHz", "1MHz", 8, "-source", "60.1deg", "44.05deg", "1Jy")
    s.convert("-quiet", "-interval", 0, 2, a, "first.uvfits")
    s.convert("-quiet", "-interval", 2, 4, a, "second.ms")
    s.convert("-quiet", "-interval", 2, 4, a, "second.uvfits")
    want = s.dirty("want", file=a)
    for files in (("first.uvfits", "second.uvfits"), ("first.uvfits", "second.ms"), ("second.ms", "first.uvfits")):
        got = s.dirty("got", files[0], file=files[1])
        s.must(abs(got - want).max() <= 2e-6 * abs(want).max(), "%s and %s" % files)


def check_refused(s):
    """A file has no columns to write, nor tables for selections; each refusal names the converter. It stays as it was."""
    name, _ = base(s)
    before = os.stat(name)
    for title, code, pattern, words in (
            ("predict", 2, "is a UVFITS or FITS-IDI file: .*msimage-convert", ("-predict", "-name", "none")),
            ("MODEL_DATA", 2, "is a UVFITS or FITS-IDI file: it has no column to write a model .*msimage-convert", ("-niter", 10, "-threshold", "1Jy", "-mgain", 0.8)),
            ("a column", 3, "has no column CORRECTED_DATA", ("-data-column", "CORRECTED_DATA")),
            ("a model", 3, "has only DATA, not MODEL_DATA", ("-subtract-model",)),
            ("MSSelection", 3, "msimage-convert", ("-select-field", "field0")), ("TaQL", 3, "msimage-convert", ("-taql", "ANTENNA1=0"))):
        done = s.launch("-quiet", "-name", "none", *(IMAGE[1:] if title != "predict" else ()), *words, name)
        s.told(title, done, code, pattern)
    s.must((os.stat(name).st_mtime_ns, os.stat(name).st_size) == (before.st_mtime_ns, before.st_size), "the file is as it was")
    with open(name, "rb") as f:
        whole = f.read()
    for title, pattern, data in (("cut short", "truncated or corrupt", whole[:60000]), ("without tables", "AIPS AN", whole[:whole.index(b"XTENSION")]),
                                 ("text", "a visibility store", b"text\n" * 1000), ("an image", "neither UVFITS", fits_image()),
                                 ("a second count of parameters", "invalid header: [0-9]+ groups with 900 parameters",
                                  re.sub(rb"INSTRUME=.{71}", b"PCOUNT  =                  900".ljust(80), whole, count=1))):
        with open("bad.uvfits", "wb") as f:
            f.write(data)
        s.told(title, s.launch(*IMAGE, "-name", "none", "bad.uvfits"), 3, pattern)


def fits_image():
    fits.PrimaryHDU(np.zeros((8, 8), np.float32)).writeto("image.fits", overwrite=True)
    with open("image.fits", "rb") as f:
        return f.read()


if __name__ == "__main__":
    main(Imager, globals())
