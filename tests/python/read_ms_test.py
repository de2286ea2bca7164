# SPDX-License-Identifier: GPL-3.0-or-later
"""read_ms_test.py MSIMAGE_MAKEMS [CHECK..]: msimage.read_ms compared with python-casacore on the same simulated sets."""
import os
import signal
import subprocess
import sys
import tempfile
import threading

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy", "casacore.tables")
import numpy as np
from casacore.tables import table

import msimage
from msimage import _library, _ms

MAKEMS = os.path.abspath(sys.argv[1])
LINEAR, CIRCULAR = ("XX", "XY", "YX", "YY"), ("RR", "RL", "LR", "LL")
SHORT = ("-quiet", "-duration", "30s", "-integration", "10s")


def make(name, *options):
    """A set in the test's working directory, made once."""
    if not os.path.exists(name):
        subprocess.run([MAKEMS, *SHORT, *options, name], check=True)
    return name


def rich(name="rich.ms"):
    """Two fields, two spectral windows, one in descending frequency, flags, rows with FLAG_ROW, various weights."""
    return make(name, "-pol", "XX,XY,YX,YY", "-ra", "60deg", "-dec", "30deg", "-field", "61deg", "30.5deg", "-spw", "1GHz", "1MHz", "6", "-spw",
                "1.5GHz", "-2MHz", "4", "-flags", "0.1", "-flag-rows", "0.05", "-weights", "radiometer", "-noise", "1Jy",
                "-autocorrelations", "-source", "60.02deg", "30.01deg", "2Jy", "0.3Jy", "0.2Jy", "0.1Jy")


class Truth:
    """The columns of a set by python-casacore, without rows that are never read; cells as [row, channel, correlation]."""

    def __init__(self, path):
        def columns(name, *wanted):
            with table(name, ack=False) as t:
                return [t.getcol(c) for c in wanted]

        ids = columns(path, "FIELD_ID", "DATA_DESC_ID", "ANTENNA1", "ANTENNA2", "FLAG_ROW", "TIME", "UVW")
        self.field, ddid, first, second, flagged, self.time, self.uvw = ids
        (spw_of,) = columns(path + "/DATA_DESCRIPTION", "SPECTRAL_WINDOW_ID")
        self.spw = spw_of[ddid]
        self.n_row = len(ddid)
        self.wanted = (first != second) & ~flagged
        with table(path + "/FIELD", ack=False) as t:
            self.centre = t.getcol("PHASE_DIR")[:, 0]
        with table(path + "/SPECTRAL_WINDOW", ack=False) as t:
            self.freq = [t.getcell("CHAN_FREQ", i) for i in range(t.nrows())]
        self.path = path

    def cells(self, column, rows, spw):
        """Channels in increasing frequency."""
        with table(self.path, ack=False) as t:
            cells = np.array([t.getcell(column, int(r)) for r in rows])
        return cells[:, np.argsort(self.freq[spw])]


def hold(block, truth):
    """A block of correlations equals the set's values."""
    rows = block.row
    assert block.vis.dtype == np.complex64 and block.wgt.dtype == np.float32 and block.flag.dtype == bool
    assert block.vis.shape == block.wgt.shape == block.flag.shape == (4, len(rows), len(block.freq))
    assert (truth.field[rows] == block.field).all() and (truth.spw[rows] == block.spw).all()
    assert np.array_equal(block.freq, np.sort(truth.freq[block.spw])) and block.pol == LINEAR
    assert np.array_equal(block.uvw, truth.uvw[rows]) and np.array_equal(block.time, truth.time[rows])
    assert np.allclose(block.phase_centre, truth.centre[block.field], rtol=0, atol=1e-12)
    for name, column in (("vis", "DATA"), ("wgt", "WEIGHT_SPECTRUM"), ("flag", "FLAG")):
        stored = truth.cells(column, rows, block.spw).transpose(2, 0, 1)
        assert np.array_equal(getattr(block, name), stored), name
    for array in (block.uvw, block.freq, block.time, block.row):
        assert array.flags.owndata and array.flags.writeable


def check_stored():
    """Every row that counts is read once, with the set's values."""
    truth = Truth(rich())
    blocks = msimage.read_ms(rich(), field="all", pol=None)
    assert blocks.data_column == "DATA" and blocks.n_row > truth.wanted.sum() > 0
    kept = list(blocks)
    for block in kept:
        hold(block, truth)
    rows = np.concatenate([b.row for b in kept])
    assert np.array_equal(np.sort(rows), np.flatnonzero(truth.wanted))
    assert {(b.field, b.spw) for b in kept} == {(f, s) for f in (0, 1) for s in (0, 1)}


def form(cells, flags, weights, pol):
    """Stokes parameters of linear or circular correlations, by definition; smaller weights."""
    p, x, y, q = np.moveaxis(cells.astype("c16"), -1, 0)
    if pol[0] == "XX":
        stokes = (p + q) / 2, (p - q) / 2, (x + y) / 2, (x - y) / 2j
        used = (0, 3), (0, 3), (1, 2), (1, 2)
    else:
        stokes = (p + q) / 2, (x + y) / 2, (x - y) / 2j, (p - q) / 2
        used = (0, 3), (1, 2), (1, 2), (0, 3)
    bad = np.array([flags[..., u].any(-1) for u in used])
    smaller, mean = (np.array([f(weights[..., u], -1) for u in used]) for f in (np.min, np.mean))
    return np.where(bad, 0, stokes), np.where(bad, 0, smaller), np.where(bad, 0, mean), bad


def check_stokes():
    """Stokes parameters of linear and of circular feeds, with either weight; parallel hands; one by default."""
    circular = make("circular.ms", "-pol", "RR,RL,LR,LL", "-weights", "radiometer", "-noise", "1Jy", "-flags", "0.1")
    for path, names in ((rich(), LINEAR), (circular, CIRCULAR)):
        truth = Truth(path)
        (block, mean, hands, default) = (next(iter(msimage.read_ms(path, **o))) for o in (
            {"pol": "IQUV"}, {"pol": ["I", "Q", "U", "V"], "stokes_weight": "mean"},
            {"pol": f"{names[0]},{names[3]}"}, {}))
        cells, flags, weights = (truth.cells(c, block.row, block.spw) for c in ("DATA", "FLAG", "WEIGHT_SPECTRUM"))
        vis, smaller, means, bad = form(cells, flags, weights, names)
        assert block.pol == tuple("IQUV") and np.array_equal(block.flag, bad) and bad.any() and not bad.all()
        assert np.abs(block.vis - vis).max() <= 1e-6 * np.abs(vis).max()
        assert np.array_equal(block.wgt, smaller) and np.allclose(mean.wgt, means, rtol=1e-6)
        assert default.pol == ("I",) and np.array_equal(default.vis[0], block.vis[0])
        assert hands.pol == (names[0], names[3])
        assert np.array_equal(hands.vis, np.where(flags, 0, cells)[..., (0, 3)].transpose(2, 0, 1))


def check_selection():
    """Each argument selects the rows, channels and samples that the option's documentation says."""
    truth = Truth(rich())
    times = np.unique(truth.time)
    with table(rich(), ack=False) as t:
        first, second = t.getcol("ANTENNA1"), t.getcol("ANTENNA2")
    with table(rich() + "/FIELD", ack=False) as t:
        names = t.getcol("NAME")
    metres = np.linalg.norm(truth.uvw, axis=1)
    middle = float(np.median(metres[truth.wanted]))
    at_0 = truth.field == 0
    for options, rows in (
            ({}, at_0), ({"field": 1}, ~at_0), ({"field": [0, 1]}, True), ({"field": np.int64(1)}, ~at_0),
            ({"field": "all", "spws": 1}, truth.spw == 1), ({"spws": [0]}, at_0 & (truth.spw == 0)),
            ({"field": "all", "interval": (0, 1)}, truth.time == times[0]),
            ({"field": "all", "interval": [1, len(times)]}, truth.time > times[0]),
            ({"minuvw_m": middle}, at_0 & (metres >= middle)), ({"maxuvw_m": middle}, at_0 & (metres <= middle)),
            ({"select_field": names[1]}, ~at_0), ({"select_antenna": "!3"}, at_0 & (first != 3) & (second != 3)),
            ({"field": "all", "taql": "ANTENNA1 < 5"}, first < 5), ({"select_spw": "1"}, at_0 & (truth.spw == 1)),
            ({"field": "all", "taql": "ANTENNA1 < 5", "select_antenna": "2"}, (first < 5) & ((first == 2) | (second == 2)))):
        blocks = list(msimage.read_ms(rich(), pol=None, **options))
        read = np.sort(np.concatenate([b.row for b in blocks]))
        assert np.array_equal(read, np.flatnonzero(truth.wanted & rows)), options
        for block in blocks:
            hold(block, truth)
    channels = {b.spw: b.freq for b in msimage.read_ms(rich(), channel_range=(4, 8))}
    assert np.array_equal(channels[0], truth.freq[0][4:]) and np.array_equal(channels[1], np.sort(truth.freq[1])[:2])
    for block in msimage.read_ms(rich(), pol=None, minuv_l=2000, maxuv_l=5000):
        waves = np.hypot(*block.uvw[:, :2].T)[:, None] * block.freq / 299792458.0
        outside = (waves < 2000) | (waves > 5000)
        stored = truth.cells("FLAG", block.row, block.spw).transpose(2, 0, 1)
        assert np.array_equal(block.flag, stored | outside) and outside.any() and not outside.all()


def check_columns_and_sets():
    """CORRECTED_DATA is the default if it exists; several sets are read one after the other, each with its path."""
    both = make("both.ms", "-data-column", "both")
    plain = make("plain.ms")
    assert msimage.read_ms(both).data_column == "CORRECTED_DATA"
    whole, half = (np.concatenate([b.vis[0] for b in msimage.read_ms(both, data_column=c)]) for c in (None, "DATA"))
    assert np.allclose(half, whole / 2, rtol=1e-6) and np.abs(whole).min() > 0
    blocks = list(msimage.read_ms([plain, both], data_column="DATA"))
    assert [b.path for b in blocks if b.path == plain] and blocks[-1].path == both
    assert sum(len(b.row) for b in blocks) == 2 * sum(len(b.row) for b in msimage.read_ms(plain))


def check_image():
    """A source is imaged at its position: x to the west, y to the north, with flip_v; its flux is right."""
    path = make("source.ms", "-ra", "60deg", "-dec", "30deg", "-source", "60.05deg", "30.02deg", "3Jy", "-spw", "1GHz",
                "1MHz", "4")
    ra, dec = np.radians((60.05, 30.02))
    image, total, cell, n = 0.0, 0.0, np.radians(4 / 3600), 128
    for block in msimage.read_ms(path):
        ra_0, dec_0 = block.phase_centre
        image = image + msimage.wgridder.vis2dirty(
            uvw=block.uvw, freq=block.freq, vis=block.vis[0], wgt=block.wgt[0], npix_x=n, npix_y=n, pixsize_x=cell,
            pixsize_y=cell, epsilon=1e-4, do_wgridding=True, divide_by_n=False, flip_v=True, backend="cpu")
        total += float(block.wgt[0].sum())
    west = n / 2 - np.cos(dec) * np.sin(ra - ra_0) / cell
    north = n / 2 + (np.sin(dec) * np.cos(dec_0) - np.cos(dec) * np.sin(dec_0) * np.cos(ra - ra_0)) / cell
    x, y = np.unravel_index(image.argmax(), image.shape)
    assert abs(x - west) <= 0.6 and abs(y - north) <= 0.6, (x, y, west, north)
    assert 0.9 * 3 < image.max() / total <= 3.001


def must_raise(kinds, call, *words):
    try:
        call()
    except kinds as error:
        for word in words:
            assert word in str(error), error
        assert str(error) and "\n" not in str(error), error
        return error
    raise AssertionError("nothing was raised")


def check_refusals():
    """Invalid arguments raise an exception with one line."""
    path = make("plain.ms")
    read = msimage.read_ms
    for options, kinds in (({"field": "some"}, TypeError), ({"field": []}, ValueError), ({"field": -1}, ValueError),
                           ({"field": 1.5}, TypeError), ({"spws": 2**40}, ValueError), ({"channel_range": 3}, TypeError),
                           ({"channel_range": (3, 3)}, ValueError), ({"interval": (1, 2, 3)}, TypeError),
                           ({"interval": (2, 1)}, ValueError), ({"minuv_l": -1}, ValueError),
                           ({"minuv_l": float("nan")}, ValueError), ({"minuvw_m": 5, "maxuvw_m": 3}, ValueError),
                           ({"maxuv_l": "far"}, TypeError), ({"pol": "K"}, ValueError), ({"pol": "II"}, ValueError),
                           ({"pol": []}, ValueError), ({"taql": 3}, TypeError), ({"taql": "a\0b"}, ValueError),
                           ({"stokes_weight": "largest"}, ValueError), ({"data_column": ""}, ValueError)):
        must_raise(kinds, lambda: read(path, **options))
    must_raise(ValueError, lambda: read([]), "no Measurement Set")
    must_raise(TypeError, lambda: read(3), "paths")
    must_raise(TypeError, lambda: read([3]))
    for options in ({"field": 7}, {"spws": 9}, {"pol": "XX"}, {"data_column": "NONE"}, {"taql": "NONE > 3"},
                    {"channel_range": (0, 10**6)}, {"interval": (0, 10**6)}, {"select_antenna": "&&&"},
                    {"taql": "ANTENNA1 > 10000"}):
        must_raise(msimage.Error, lambda: read(path, **options))
    must_raise(msimage.Error, lambda: read("none.ms"), "none.ms")
    os.makedirs("empty.ms", exist_ok=True)
    must_raise(msimage.Error, lambda: read("empty.ms"), "empty.ms")
    # A data file is truncated: that is detected before casacore reads it.
    cut = make("cut.ms")
    largest = max((os.path.join(cut, f) for f in os.listdir(cut)), key=os.path.getsize)
    os.truncate(largest, os.path.getsize(largest) // 2)
    must_raise(msimage.Error, lambda: list(read(cut)), "cut.ms")


def predicted(name):
    """A set with a MODEL_DATA, and what a prediction puts into its keywords."""
    make(name, "-pol", "XX,YY", "-ra", "60deg", "-dec", "44deg", "-spw", "1GHz", "1MHz", "64", "-telescope", "meerkat")
    with table(name, readonly=False, ack=False) as t:
        if "MODEL_DATA" not in t.colnames():
            t.addcols(dict(MODEL_DATA=t.getcoldesc("DATA")), dict(TYPE="TiledShapeStMan", NAME="Model", DEFAULTTILESHAPE=[2, 64, 100]))
            t.putcol("MODEL_DATA", t.getcol("DATA"))
    fields = {"STATE": "incomplete", "STARTED": "2001-02-03T04:05:06Z", "PROGRAM": "a test", "MODEL": "some", "SELECTION": "-field '0'"}
    return name, {"MODEL_DATA": fields}


def elsewhere(code, *words, **options):
    """Another process with python-casacore, which has its own view of the set."""
    return subprocess.Popen([sys.executable, "-c", "import sys\nfrom casacore.tables import table\n" + code, *words], **options)


def check_half_written():
    """A column that a prediction left half written, is writing, or begins to write, is not read; another one is."""
    path, mark = predicted("marked.ms")
    put = "t = table(sys.argv[1], readonly=False, ack=False); t.putkeyword('MSIMAGE_PREDICT', %r); t.flush()" % mark
    n_all = sum(len(b.row) for b in msimage.read_ms(path, data_column="MODEL_DATA"))
    blocks = msimage.read_ms(path, data_column="MODEL_DATA")
    assert len(next(iter(blocks)).row) < n_all
    assert elsewhere(put, path).wait() == 0
    must_raise(msimage.Error, lambda: list(blocks), "marked.ms", "MODEL_DATA", "was stopped while it wrote", "-field '0'")
    must_raise(msimage.Error, lambda: msimage.read_ms(path, data_column="MODEL_DATA"), "marked.ms", "MODEL_DATA", "was stopped while it wrote")
    assert sum(len(b.row) for b in msimage.read_ms(path, data_column="DATA")) == n_all
    with elsewhere(put + "; t.lock(); print('locked', flush=True); sys.stdin.read()", path, stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"locked\n"
        must_raise(msimage.Error, lambda: msimage.read_ms(path, data_column="MODEL_DATA"), "marked.ms", "MODEL_DATA", "is writing")
        assert sum(len(b.row) for b in msimage.read_ms(path, data_column="DATA")) == n_all
        writer.stdin.close()
    assert elsewhere("t = table(sys.argv[1], readonly=False, ack=False); t.removekeyword('MSIMAGE_PREDICT')", path).wait() == 0
    blocks = msimage.read_ms(path, data_column="MODEL_DATA")
    assert len(next(iter(blocks)).row) < n_all
    assert elsewhere(put, path).wait() == 0
    # The table is open already, as it was before.
    must_raise(msimage.Error, lambda: msimage.read_ms(path, data_column="MODEL_DATA"), "marked.ms", "was stopped while it wrote")
    blocks.close()


def check_interrupt():
    """Ctrl-C while a set is opened or read raises KeyboardInterrupt; afterwards the set can be read."""
    path = make("plain.ms")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    quiet = _library.CALLBACKS.interrupt

    @_library.ffi.callback("int(void *)", error=1, onerror=_library._remember)
    def loud(_of):
        signal.raise_signal(signal.SIGINT)
        return 0

    _library.CALLBACKS.interrupt = loud
    try:
        must_be = None
        try:
            msimage.read_ms(path)
        except KeyboardInterrupt as error:
            must_be = error
        assert must_be is not None
    finally:
        _library.CALLBACKS.interrupt = quiet
    assert list(msimage.read_ms(path))


def check_ends():
    """An iterator ends once; `with` and close() close it early; a reader in another thread is not affected."""
    path = make("plain.ms")
    with msimage.read_ms(path) as blocks:
        assert next(blocks).vis.size
    assert not list(blocks)
    whole = msimage.read_ms(path)
    assert list(whole) and not list(whole)
    whole.close()
    sums = {}

    def work(i):
        sums[i] = sum(b.vis.astype("c16").sum() for b in msimage.read_ms(path))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sums) == 2 and sums[0] == sums[1] != 0


def check_fits():
    """An image made of blocks, its beam and its FITS file are those of the program msimage: pixels, axes and cards."""
    try:
        from astropy.io import fits
    except ImportError:
        print("astropy is not installed: FITS files are not compared")
        return
    n, cell = 64, np.radians(6 / 3600)
    path = make("image.ms", "-ra", "60deg", "-dec", "30deg", "-source", "60.02deg", "30.01deg", "2Jy", "-spw", "1.4GHz", "1MHz", "4")
    subprocess.run([os.path.join(os.path.dirname(MAKEMS), "msimage"), "-quiet", "-size", str(n), str(n), "-scale", "6asec", "-make-psf",
                    "-accuracy", "1e-6", "-backend", "cpu", "-weight", "briggs", "0", "-name", "program", path], check=True)
    blocks = list(msimage.read_ms(path))
    assert "image.ms" in repr(msimage.read_ms(path)) and len({b.freq.tobytes() for b in blocks}) == 1
    uvw, vis, wgt = (np.concatenate([part(b) for b in blocks]) for part in (lambda b: b.uvw, lambda b: b.vis[0], lambda b: b.wgt[0]))
    plan = msimage.Plan(uvw * (1, -1, 1), blocks[0].freq, vis, wgt, npix_x=n, npix_y=n, pixsize_x=cell, pixsize_y=cell, epsilon=1e-6,
                        divide_by_n=False, backend="cpu")
    plan.weight("briggs", 0)
    total = plan.sum_weight()
    beam = msimage.fit_beam(plan.psf(), pixsize_x=cell, pixsize_y=cell)
    ra, dec = blocks[0].phase_centre
    given = dict(pixsize_x=cell, pixsize_y=cell, ra=ra, dec=dec, freq=1.4015e9, bandwidth=4e6, beam=beam)
    msimage.write_fits("own.fits", plan.dirty() / total, object="field0", **given)
    own, want = fits.open("own.fits")[0], fits.open("program-dirty.fits")[0]
    own.verify("exception")
    assert own.data.shape == want.data.shape == (1, 1, n, n)
    # Both are within 1e-6 of the sum, in single precision.
    assert np.linalg.norm(own.data - want.data) < 5e-6 * np.linalg.norm(want.data)
    for key in ("BUNIT", "OBJECT", *(name + axis for axis in "1234" for name in ("CTYPE", "CRPIX"))):
        assert own.header[key] == want.header[key], (key, own.header[key], want.header[key])
    for key in ("BMAJ", "BMIN", "BPA", "CRVAL1", "CRVAL2", "CRVAL3", "CDELT1", "CDELT2", "CDELT3", "CRVAL4"):
        assert np.isclose(own.header[key], want.header[key], rtol=2e-4 if key[0] == "B" else 1e-9), (key, own.header[key],
                                                                                                 want.header[key])
    must_raise(FileExistsError, lambda: msimage.write_fits("own.fits", plan.dirty(), **given), "own.fits", "overwrite")
    msimage.write_fits("own.fits", plan.dirty(), overwrite=True, **given)
    must_raise(TypeError, lambda: msimage.write_fits("x.fits", plan.dirty(), **dict(given, ra="0")), "ra")
    must_raise(ValueError, lambda: msimage.write_fits("x.fits", plan.dirty(), object="\n", **given), "OBJECT")
    assert not os.path.exists("x.fits") and not [name for name in os.listdir(".") if name.startswith(".msimage")]


def check_hostile():
    """A set that would have casacore load a library is refused, and nothing is run."""
    path = make("hostile.ms")
    mark = os.path.abspath("mark")
    os.mkdir("libra")
    source = '#include <stdio.h>\n__attribute__((constructor)) static void leave_a_mark(void) { fopen("%s", "w"); }\n' % mark
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-x", "c", "-o", "libra/abcdefghij.so", "-"], check=True,
                   input=source.encode())
    with open(path + "/table.dat", "r+b") as f:
        head = f.read().replace(b"StandardStMan", b"ra/abcdefghij")
        f.seek(0)
        f.write(head)
    must_raise(msimage.Error, lambda: list(msimage.read_ms(path)), "hostile.ms: ", "'ra/abcdefghij'")
    assert not os.path.exists(mark)


def check_without():
    """If the reader was not built, read_ms says so and the rest of the package works."""
    kept, load = _ms._lib, _ms.load
    _ms._lib, _ms.load = None, lambda name: load("none-" + name)
    try:
        must_raise(ImportError, lambda: msimage.read_ms("x.ms"), "without casacore", "none-msimage-read.so")
    finally:
        _ms._lib, _ms.load = kept, load


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in sys.argv[2:] or checks:
            checks[name]()
            print("ok", name)
        os.chdir("/")


if __name__ == "__main__":
    main()
