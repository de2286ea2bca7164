# SPDX-License-Identifier: GPL-3.0-or-later
"""plan_test.py cpu|cuda [CHECK..]: msimage.Plan and msimage.Cleaner, threads, forks, Ctrl-C, invalid arguments."""
import contextlib
import ctypes
import itertools
import os
import signal
import sys
import threading

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy")
import cffi
import numpy as np

import device_array
import msimage
from device_array import DeviceArray, VersionedArray
from msimage import wgridder
from msimage._arrays import Given
from msimage._library import ffi
from wgridder_oracle import Case, distance, run_checks

HOST = {"backend": "cuda" if "cuda" in sys.argv[1:2] else "cpu"}


def plan_of(case, epsilon=1e-11, vis=True, **options):
    given = case.arguments(epsilon=epsilon, npix_x=case.shape[0], npix_y=case.shape[1], **options)
    return msimage.Plan(vis=case.vis if vis else None, **dict(HOST, **given))


def cases():
    """A plan's weights are not negative, and floats."""
    rng = np.random.default_rng(1)
    for reach in (0.9, 2.3):
        case = Case(rng, (32, 46), (0.01, 0.008), weighted=True, masked=True, reach=reach)
        case.wgt = np.abs(case.wgt).astype("f4").astype("f8")
        yield case


def check_images():
    """Images, residuals, products and predictions equal the sums that define them."""
    for case in cases():
        for options in ({}, {"do_wgridding": False}, {"center_x": 0.07, "divide_by_n": False}):
            wgridding = options.get("do_wgridding", True)
            plan = plan_of(case, **options)
            truth = case.dirty(**dict(options, do_wgridding=wgridding))
            kernel = case.kernel(**dict(options, do_wgridding=wgridding))
            predicted = kernel.conj() @ case.model.ravel()
            product = ((case.effective().ravel() * predicted) @ kernel).real.reshape(case.shape)
            unweighted = predicted.reshape(case.vis.shape) * (case.mask != 0)
            for _ in range(2):
                assert distance(plan.dirty(), truth) <= 1e-11
                assert distance(plan.hessian(case.model), product) <= 1e-11
                assert distance(plan.residual(case.model), truth - product) <= 2e-11
                assert distance(plan.predict(case.model), unweighted) <= 1e-11
            alone = plan_of(case, vis=False, **options)
            assert distance(alone.hessian(case.model), product) <= 1e-11
            assert not alone.dirty().any()
            assert np.isclose(plan.sum_weight(), case.effective().sum(), rtol=1e-12)
            peak = plan.psf()[16, 23]
            if not options:
                assert np.isclose(peak, plan.sum_weight(), rtol=1e-9)


def check_single():
    """Single precision, to its accuracy."""
    rng = np.random.default_rng(2)
    case = Case(rng, (32, 46), (0.01, 0.008), single=True)
    plan = plan_of(case, 1e-5)
    kernel = case.kernel(do_wgridding=True)
    product = ((kernel.conj() @ case.model.astype("f8").ravel()) @ kernel).real.reshape(case.shape)
    assert plan.dirty().dtype == np.float32
    assert distance(plan.dirty(), case.dirty(do_wgridding=True)) <= 1e-5
    assert distance(plan.hessian(case.model), product) <= 1e-5
    assert distance(plan.hessian(case.model * np.float32(1e-12)) * 1e12, product) <= 1e-5


def must_raise(kinds, call):
    try:
        call()
    except kinds as error:
        assert str(error)
        return error
    raise AssertionError("nothing was raised")


def check_arguments():
    """Invalid arguments raise an exception with a message, and the plan can be used afterwards."""
    case = next(cases())
    plan = plan_of(case)
    # Wrong types are both, as ducc0 raises RuntimeError.
    for kind in (TypeError, RuntimeError):
        must_raise(kind, lambda: plan.hessian(case.model.astype("f4")))
    must_raise(RuntimeError, lambda: plan.residual(case.model[:, :20]))
    must_raise(TypeError, lambda: plan.predict(case.model.tolist()))
    must_raise(RuntimeError, lambda: plan.dirty(np.zeros((3, 3))))
    must_raise(ValueError, lambda: plan.dirty(np.zeros(case.shape[::-1]).T))
    frozen = np.zeros(case.shape)
    frozen.setflags(write=False)
    must_raise(ValueError, lambda: plan.dirty(frozen))
    bad = case.model.copy()
    bad[1, 1] = np.inf
    assert must_raise(msimage.Error, lambda: plan.residual(bad)).status == -7
    must_raise(ValueError, lambda: plan_of(case, backend="tpu"))
    must_raise(TypeError, lambda: plan_of(case, backend=["cpu"]))
    for name in ("pixsize_x", "pixsize_y", "epsilon", "center_x"):
        for wrong in ("1e-3", None, 1j, [0.01], True):
            assert name in str(must_raise(TypeError, lambda: plan_of(case, **{name: wrong})))
    for of_model in (plan.residual, plan.hessian, plan.predict):
        assert "model" in str(must_raise(TypeError, lambda: of_model(None)))
    for wrong in (0, np.inf, np.nan):
        must_raise(msimage.Error, lambda: plan_of(case, epsilon=wrong))
    for wrong, words in ((-1, "negative"), (1e39, "beyond single precision")):
        case.wgt[3] = wrong
        assert words in str(must_raise(msimage.Error, lambda: plan_of(case)))
    # Weights are kept in single precision, of which values below 1.2e-38 have few digits.
    for tiny in (1e-40, 1e-60):
        faint = next(cases())
        faint.wgt[:] *= tiny
        for product in (lambda p: p.dirty(), lambda p: p.psf(), lambda p: p.hessian(faint.model), lambda p: p.residual(faint.model)):
            assert "multiply all" in str(must_raise(msimage.Error, lambda: product(plan_of(faint))))
        faint.wgt[0] = 1
        assert np.isfinite(plan_of(faint).dirty()).all()
    if not msimage.gpu_count():
        assert must_raise(msimage.Error, lambda: plan_of(next(cases()), backend="cuda")).status == -5
    # Structs that C fills have their initial size.
    for name in ("shape", "dtype"):
        must_raise(AttributeError, lambda: setattr(plan, name, getattr(plan, name)))
        must_raise(AttributeError, lambda: setattr(msimage.Cleaner(plan.psf() / plan.sum_weight(), **HOST), name, None))
    assert np.isfinite(plan.dirty()).all()


def check_weights():
    """Density weights equal their definition, with the sums of weights in the cells of the half plane of u and v."""
    for case in cases():
        cells = {}
        uv = case.uvw[:, None, :2] * case.freq[None, :, None] / 299792458.0 * case.shape * np.array(case.pixsize)
        at = np.floor(uv).astype(int)
        # A sample and its mirror image are one, and so are their cells.
        key = [max(tuple(c), tuple(-c - 1)) for c in at.reshape(-1, 2)]
        w = case.effective().ravel()
        for c, weight in zip(key, w):
            cells[c] = cells.get(c, 0) + weight
        density = np.array([cells[c] for c in key])
        inside = (abs(uv) < np.array(case.shape) / 2).all(-1).ravel()
        if not inside.all():
            continue  # samples beyond the uv plane count in images of this convention, but have no cell
        for mode, robust in (("natural", 0), ("uniform", 0), ("briggs", 0.5), ("briggs", -1.5)):
            f = (5 * 10.0**-robust) ** 2 / (sum(d * d for d in cells.values()) / w.sum())
            wanted = {"natural": w, "uniform": np.where(density > 0, w / np.where(density > 0, density, 1), 0),
                      "briggs": w / (1 + density * f)}[mode]
            plan = plan_of(case)
            plan.weight(mode, robust)
            assert np.isclose(plan.sum_weight(), wanted.sum(), rtol=1e-6), (mode, plan.sum_weight(), wanted.sum())
            truth = ((wanted * case.vis.ravel()) @ case.kernel(do_wgridding=True)).real.reshape(case.shape)
            assert distance(plan.dirty(), truth) <= 1e-6, mode
            assert mode in repr(plan)
        must_raise(msimage.Error, lambda: plan.weight("uniform"))
        must_raise(ValueError, lambda: plan_of(case).weight("robust"))
        must_raise(TypeError, lambda: plan_of(case).weight("briggs", "0"))
        must_raise(TypeError, lambda: plan_of(case).weight(0))


def check_words():
    """A plan, a cleaner and a picture tell what they are; a picture is the PNG that a notebook shows."""
    case = next(cases())
    words = repr(plan_of(case))
    for part in ("50 rows x 3 channels", "32 x 46 pixels of 2063 x 1650 arcsec", "float64", "with w", "natural weights"):
        assert part in words, (part, words)
    psf = np.zeros((32, 46))
    psf[16, 23] = 1
    assert "multiscale" in repr(msimage.Cleaner(psf, method="multiscale", beam=2, **HOST))
    shown = msimage.Picture(psf)
    png = shown._repr_png_()
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and "32 x 46" in repr(shown) and png[16:24] == bytes((0, 0, 0, 32, 0, 0, 0, 46))
    for wrong in (psf[0], psf * 1j, "psf", None):
        must_raise(TypeError, lambda: msimage.Picture(wrong))
    must_raise(TypeError, lambda: msimage.Picture(psf, low="0"))


def check_beam():
    """The beam of a Gaussian is that Gaussian: widths, and the angle from y through -x."""
    step = np.array((2e-5, 1e-5))
    x, y = np.meshgrid((np.arange(128) - 64) * step[0], (np.arange(160) - 80) * step[1], indexing="ij")
    for major, minor, pa in ((3e-4, 2e-4, 0.4), (5e-4, 1.5e-4, 2.6), (2.5e-4, 2.4e-4, 1.2)):
        north, east = y, -x
        along, across = north * np.cos(pa) + east * np.sin(pa), -north * np.sin(pa) + east * np.cos(pa)
        psf = 7 * np.exp(-4 * np.log(2) * ((along / major) ** 2 + (across / minor) ** 2))
        for kind in ("f8", "f4"):
            beam = msimage.fit_beam(psf.astype(kind), pixsize_x=step[0], pixsize_y=step[1])
            assert np.allclose(beam, (major, minor, pa), rtol=1e-4), (beam, major, minor, pa)
    must_raise(msimage.Error, lambda: msimage.fit_beam(np.zeros((16, 16)), pixsize_x=1e-5, pixsize_y=1e-5))
    must_raise(TypeError, lambda: msimage.fit_beam(psf, pixsize_x="1", pixsize_y=1e-5))
    must_raise(TypeError, lambda: msimage.fit_beam(psf[0], pixsize_x=1e-5, pixsize_y=1e-5))


def check_arrays():
    """Arrays with gaps, in another order or read-only give a plan the same as packed ones; invalid ones are errors with their name."""
    case = next(cases())
    truth = plan_of(case).dirty()

    def frozen(array):
        array = array.copy()
        array.setflags(write=False)
        return array

    def made(**changes):
        given = dict(case.arguments(epsilon=1e-11, npix_x=case.shape[0], npix_y=case.shape[1]), vis=case.vis, **HOST)
        return msimage.Plan(**dict(given, **changes))

    kinds = (np.asfortranarray, frozen, lambda a: np.repeat(a, 2, 0)[::2], lambda a: np.repeat(a, 3, -1)[..., ::3],
             lambda a: a[::-1].copy()[::-1])
    for name in ("vis", "uvw", "freq", "wgt", "mask"):
        for kind in kinds:
            array = kind(getattr(case, name))
            kept = array.copy()
            assert distance(made(**{name: array}).dirty(), truth) <= 1e-13, name
            assert np.array_equal(array, kept), name
    for name in ("vis", "uvw", "freq", "wgt", "mask"):
        array = getattr(case, name)
        for wrong in (array[None], np.ones(array.shape, "i8"), array.astype(array.dtype.newbyteorder()) if name != "mask" else array != 0):
            assert name in str(must_raise(RuntimeError, lambda: made(**{name: wrong}))), (name, wrong.dtype, wrong.shape)
        assert "shape" in str(must_raise(RuntimeError, lambda: made(**{name: array[:-1]})))
        must_raise(TypeError, lambda: made(**{name: array.tolist()}))
    assert "wgt" in str(must_raise(RuntimeError, lambda: made(wgt=case.wgt.astype("f4"))))
    model = plan_of(case).hessian(case.model)
    for kind in kinds:
        assert distance(plan_of(case).hessian(kind(case.model)), model) <= 1e-13


def check_not_finite():
    """Samples with any part that is not finite are left out; a model that is not finite is an error."""
    case = next(cases())
    vis, wgt, mask = case.vis.copy(), case.wgt.copy(), case.mask.copy()
    vis[3, 1], vis[4, 0] = np.nan, complex(0, np.inf)
    wgt[5, 2] = np.nan
    mask[3, 1] = mask[4, 0] = mask[5, 2] = 0
    without = dict(case.arguments(epsilon=1e-11, npix_x=case.shape[0], npix_y=case.shape[1]), vis=case.vis, mask=mask, **HOST)
    with_nan = dict(without, vis=vis, wgt=wgt, mask=case.mask)
    image, plan = msimage.Plan(**without).dirty(), msimage.Plan(**with_nan)
    assert np.isfinite(image).all() and distance(plan.dirty(), image) <= 1e-13
    for bad in (np.nan, np.inf):
        model = case.model.copy()
        model[2, 2] = bad
        for call in (plan.residual, plan.hessian):
            assert must_raise(msimage.Error, lambda: call(model)).status == -7
    assert distance(plan.dirty(), image) <= 1e-13


class Foreign:
    """An array of another library in host memory, shown by DLPack."""

    def __init__(self, values):
        self.values, self.shape = values, values.shape

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Shown:
    """A NumPy array's memory shown as an array of a GPU, by a version of DLPack or unversioned."""

    def __init__(self, values, version, read_only=False):
        self.kept = (values, (ctypes.c_int64 * values.ndim)(*values.shape),
                     (ctypes.c_int64 * values.ndim)(*(s // values.itemsize for s in values.strides)))
        self.version, self.read_only = version, read_only
        self.asked = []

    def __dlpack_device__(self):
        return device_array.CUDA, 0

    def __dlpack__(self, **options):
        self.asked.append(options)
        if self.version is None and "max_version" in options:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        values, shape, strides = self.kept
        tensor = device_array._Tensor(values.ctypes.data - 8, device_array.CUDA, 0, values.ndim, device_array.KINDS[values.dtype.kind],
                                      8 * values.itemsize, 1, shape, strides, 8)
        made, self.whole = device_array.capsule(tensor, self.version, self.read_only)
        return made


def check_capsules():
    """Arrays are read from DLPack capsules before and since version 1; newer ones are errors."""
    for version in (None, (1, 0), (1, 3)):
        for values in (np.zeros((3, 5), "c8"), np.zeros((4, 2), "f8").T, np.zeros((1, 7), "u1")[:, :1], np.array(2.0), np.zeros((0, 3)),
                       np.zeros(4, bool)):
            shown = Shown(values, version)
            given = Given(shown)
            assert (given.dtype, given.shape, given.device) == (values.dtype, values.shape, 0)
            assert given.is_contiguous == values.flags.c_contiguous and given.is_writeable
            assert int(ffi.cast("uintptr_t", given.pointer())) == values.ctypes.data
            assert all(options["stream"] == 1 for options in shown.asked)
        assert Given(Shown(values, version, read_only=True)).is_writeable == (version is None)
    must_raise(BufferError, lambda: Given(Shown(values, (2, 0))))


def check_foreign_arrays():
    """Arrays of other libraries in host memory are read in place; JAX's, which are immutable, are not written to."""
    case = next(cases())
    given = dict(case.arguments(epsilon=1e-11), **HOST)
    size = {"npix_x": case.shape[0], "npix_y": case.shape[1]}
    truth = plan_of(case, do_wgridding=False)
    frozen, kinds = [], [Foreign]
    try:
        import jax

        jax.config.update("jax_enable_x64", True)
        frozen.append(lambda a: jax.device_put(a, jax.devices("cpu")[0]))
    except ImportError:
        pass
    try:
        import torch

        # Tensors with a lazy conjugate or negative flag are resolved.
        kinds += [torch.from_numpy, lambda a: torch.from_numpy(a.conj().copy()).conj() if a.dtype.kind == "c" else torch.from_numpy(a)]
        out = torch.empty(case.shape, dtype=torch.float64, requires_grad=True)
        assert wgridder.vis2dirty(vis=case.vis, dirty=out, **given) is out and distance(out.detach().numpy(), truth.dirty()) <= 2e-11
    except ImportError:
        pass
    for kind in kinds + frozen:
        there = {name: kind(a) if isinstance(a, np.ndarray) else a for name, a in given.items()}
        dirty = wgridder.vis2dirty(vis=kind(case.vis), **size, **there)
        assert isinstance(dirty, np.ndarray) and distance(dirty, truth.dirty()) <= 2e-11
        vis = wgridder.dirty2vis(dirty=kind(case.model), **there)
        assert distance(vis, wgridder.dirty2vis(dirty=case.model, **given)) <= 1e-13
        plan = msimage.Plan(vis=kind(case.vis), do_wgridding=False, **size, **there)
        assert distance(plan.dirty(), truth.dirty()) <= 1e-13
        assert distance(plan.hessian(kind(case.model)), truth.hessian(case.model)) <= 1e-13
        assert "wgt" in str(must_raise(RuntimeError, lambda: wgridder.vis2dirty(vis=kind(case.vis), **size, **dict(there, wgt=kind(case.mask)))))
    for kind in frozen:
        must_raise(ValueError, lambda: plan.dirty(kind(np.zeros(case.shape))))
        must_raise(ValueError, lambda: wgridder.vis2dirty(vis=case.vis, dirty=kind(np.zeros(case.shape)), **given))


def check_cleaner_arrays():
    """A cleaner's arrays must be writeable images of its shape and type; invalid ones are not changed."""
    rng = np.random.default_rng(5)
    x, y = np.mgrid[-16:16, -16:16]
    psf = np.exp(-0.2 * (x**2 + y**2))
    cleaner = msimage.Cleaner(psf, **HOST)
    residual, model = 2 * np.roll(psf, (3, -4), (0, 1)), np.zeros_like(psf)
    frozen = np.zeros_like(psf)
    frozen.setflags(write=False)
    for pair, kinds in (((residual.astype("f4"), model), RuntimeError), ((residual[:-2], model), RuntimeError),
                        ((residual, frozen), ValueError), ((frozen, model), ValueError),
                        ((np.asfortranarray(residual), model), ValueError), ((residual, model[::-1]), ValueError)):
        kept = [a.copy() for a in pair]
        must_raise(kinds, lambda: cleaner.minor(*pair, n_iteration=5))
        assert all(np.array_equal(a, b) for a, b in zip(pair, kept))
    for bad in (psf.astype("c16"), psf.astype("i4"), psf[0], psf * np.nan):
        must_raise((RuntimeError, msimage.Error), lambda: msimage.Cleaner(bad, **HOST))
    for mask in (np.ones_like(psf), np.ones(psf.shape, bool), np.ones((3, 3), np.uint8)):
        must_raise(RuntimeError, lambda: msimage.Cleaner(psf, mask=mask, **HOST))
    must_raise(TypeError, lambda: msimage.Cleaner(psf.tolist(), **HOST))
    # The packed copy of an array with gaps can be used where the array is only read.
    wide = np.repeat(psf, 2, 1)[:, ::2]
    at = rng.integers(8, 24, 2)
    residual = 2 * np.roll(psf, at - 16, (0, 1))
    report = msimage.Cleaner(wide, **HOST).minor(residual, model, threshold=1e-3)
    assert report.stop == "threshold" and abs(model[tuple(at)] - 2) <= 2e-3


def check_memory():
    """A limit of host memory raises MemoryError, and existing objects still work; a GPU needs no host memory for its images."""
    case = next(cases())
    plan = plan_of(case)
    truth = plan.dirty()

    def large():
        return wgridder.vis2dirty(vis=case.vis, npix_x=4096, npix_y=4096, **case.arguments(epsilon=1e-4), **HOST)

    msimage._library.lib.msimage_memory_limit(1 << 20)
    try:
        if HOST["backend"] == "cuda":
            assert np.isfinite(large()).all()
        else:
            must_raise(MemoryError, large)
    finally:
        msimage._library.lib.msimage_memory_limit(0)
    assert distance(plan.dirty(), truth) <= 1e-13  # the order of sums on a GPU varies


def check_threads():
    """Two threads with a plan each give the same as one; other threads run meanwhile."""
    some = list(cases())
    truth = [plan_of(case).hessian(case.model) for case in some]
    faults = []

    def work(i):
        try:
            plan = plan_of(some[i])
            for _ in range(20):
                assert distance(plan.hessian(some[i].model), truth[i]) <= 1e-13
        except BaseException as error:  # noqa: B902
            faults.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


def check_changed():
    """A plan keeps its samples, even if the caller's arrays are changed."""
    case = next(cases())
    truth = plan_of(case)
    image, vis = truth.residual(case.model), truth.predict(case.model)
    arrays = {name: getattr(case, name).copy() for name in ("uvw", "freq", "vis", "wgt", "mask")}
    given = dict(case.arguments(epsilon=1e-11, npix_x=case.shape[0], npix_y=case.shape[1]), **arrays, **HOST)
    plan = msimage.Plan(**given)
    for array in arrays.values():
        array[...] = 0
    for _ in range(2):
        assert distance(plan.residual(case.model), image) <= 1e-12 and distance(plan.predict(case.model), vis) <= 1e-12


def check_options():
    """Arguments of a wrong type are errors with their name."""
    case = next(cases())
    psf = plan_of(case).psf()
    for change in ({"nthreads": -1}, {"nthreads": 1.5}, {"device": "a"}, {"npix_x": 32.0}, {"npix_y": -2}, {"do_wgridding": "no"},
                   {"divide_by_n": []}):
        given = dict(case.arguments(epsilon=1e-4, npix_x=case.shape[0], npix_y=case.shape[1]), vis=case.vis, **HOST)
        assert next(iter(change)) in str(must_raise(TypeError, lambda: msimage.Plan(**dict(given, **change))))
    for change in ({"nthreads": -1}, {"nthreads": "2"}, {"method": None}, {"method": b"list"}, {"method": "list\0s"}, {"device": 0.5}):
        assert next(iter(change)) in str(must_raise(TypeError, lambda: msimage.Cleaner(psf / psf.max(), **dict(HOST, **change))))
    image = np.zeros((2,) + case.shape).reshape(-1)
    overlapping = image[:psf.size].reshape(case.shape), image[8:8 + psf.size].reshape(case.shape)
    assert "share" in str(must_raise(ValueError, lambda: msimage.Cleaner(psf / psf.max(), **HOST).minor(*overlapping)))


def check_shared():
    """Threads that share a plan or a cleaner wait for each other, and each gets its own result."""
    import concurrent.futures

    case = next(cases())
    plan = plan_of(case, 1e-8)
    norm = plan.sum_weight()
    models = [case.model * k for k in (1, -2, 3)]
    cleaner, peak = msimage.Cleaner(plan.psf() / norm, **HOST), plan.dirty() / norm
    calls = [lambda m=m: plan.hessian(m) for m in models] + [lambda m=m: plan.predict(m) for m in models]
    calls += [plan.dirty, plan.psf, lambda: plan.residual(models[0]), lambda: np.array(cleaner.noise(peak))]
    truth = [call() for call in calls]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = [pool.submit(call) for _ in range(12) for call in calls]
        for i, one in enumerate(made):
            assert distance(one.result(), truth[i % len(calls)]) <= 1e-12, i % len(calls)


def check_handler():
    """A signal handler may call an idle plan; calling the plan in use by its own thread is an error, and ends its call."""
    case = next(cases())
    library, distances = msimage._library, []

    def ask(_of):
        if not distances:
            distances.append(distance(other.dirty(), truth))
            plan.dirty()
        return 0

    asking = ffi.callback("int(void *)", ask, error=1, onerror=library._remember)
    other = plan_of(case)
    truth = other.dirty()
    quiet, library.CALLBACKS.interrupt = library.CALLBACKS.interrupt, asking
    try:
        distances.append(0)
        plan = plan_of(case)
        distances.clear()
        assert "in use" in str(must_raise(RuntimeError, plan.dirty))
    finally:
        library.CALLBACKS.interrupt = quiet
    assert distances[0] <= 1e-13 and distance(plan.dirty(), truth) <= 1e-13


def check_copies():
    """Plans and cleaners cannot be copied or pickled, and say so."""
    import copy
    import pickle

    plan = plan_of(next(cases()))
    for held in (plan, msimage.Cleaner(plan.psf() / plan.sum_weight(), **HOST)):
        for function in (copy.copy, copy.deepcopy, pickle.dumps):
            assert type(held).__name__ in str(must_raise(TypeError, lambda: function(held)))
    error = must_raise(msimage.Error, lambda: plan_of(next(cases()), epsilon=0))
    for one in (error, msimage._library.DeviceMemoryError(-5, "out of memory")):
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one) and again.status == one.status and str(again) == str(one)


def check_cores():
    """A call with all threads has as many as there are cores available to the process."""
    import subprocess

    code = ("import os, sys; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); sys.path[:0] = %r; import numpy as np;"
            "import msimage; from wgridder_oracle import Case; c = Case(np.random.default_rng(1), (64, 64), (.005, .005));"
            "threads = lambda: len(os.listdir('/proc/self/task')); before = threads();"
            "p = msimage.Plan(vis=c.vis, npix_x=64, npix_y=64, nthreads=%d, backend='cpu', **c.arguments(epsilon=1e-6));"
            "msimage.Cleaner(p.psf() / p.sum_weight(), nthreads=%d, backend='cpu').noise(p.dirty());"
            "assert threads() == before, (threads(), before)")
    for n in (0, 1, 64):
        subprocess.run([sys.executable, "-B", "-c", code % (sys.path, n, n)], check=True, env=dict(os.environ, OMP_NUM_THREADS="3"))


def check_fork():
    """A forked process works, and so does its parent, at the same time."""
    import subprocess

    code = ("import os, sys; sys.path[:0] = %r; import numpy as np, plan_test as p; case = next(p.cases()); child = os.fork();"
            "ok = np.isfinite(p.plan_of(case).dirty()).all(); child or os._exit(not ok);"
            "sys.exit(not ok or os.waitpid(child, 0)[1])")
    subprocess.run([sys.executable, "-B", "-c", code % (sys.path,), sys.argv[1]], check=True)
    if HOST["backend"] == "cuda":
        return
    # Also after a call of several threads; a child that waits for threads that it does not have is killed.
    code = ("import os, signal, sys; sys.path[:0] = %r; import numpy as np, plan_test as p; p.msimage._gridder.thread_count = lambda n: 3;"
            "case = next(p.cases()); truth = p.plan_of(case).dirty(); child = os.fork(); child or signal.alarm(300);"
            "ok = p.distance(p.plan_of(case).dirty(), truth) <= 1e-13; child or os._exit(not ok);"
            "sys.exit(not ok or os.waitpid(child, 0)[1] != 0)")
    subprocess.run([sys.executable, "-B", "-c", code % (sys.path,), sys.argv[1]], check=True)


def check_both():
    """Plans on the CPU and on the GPU in one process."""
    if HOST["backend"] != "cuda":
        return
    for case in cases():
        truth = plan_of(case, backend="cpu").hessian(case.model)
        assert distance(plan_of(case).hessian(case.model), truth) <= 1e-10


class Cupy:
    """The functions of CuPy that the check of arrays on the GPU needs."""

    def __init__(self):
        import cupy

        self.put, self.get, self.empty = cupy.asarray, cupy.asnumpy, cupy.empty
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.put(np.zeros(1))


class Torch:
    """The same of PyTorch."""

    def __init__(self):
        import torch

        self.put, self.get = lambda a: torch.from_numpy(np.ascontiguousarray(a)).cuda(), lambda a: a.cpu().numpy()
        self.empty = lambda shape, dtype: self.put(np.empty(shape, dtype))
        self.stream = torch.cuda.stream(torch.cuda.Stream())
        self.put(np.zeros(1))


class Jax:
    """The same of JAX, whose arrays never change and which chooses its streams itself."""

    def __init__(self):
        # It would use most of the GPU's memory otherwise.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        jax.config.update("jax_enable_x64", True)
        on = jax.devices("cuda")[0]
        self.put, self.get = lambda a: jax.device_put(a, on), np.asarray
        self.empty, self.stream = None, contextlib.nullcontext()


def libraries():
    """Those packages that are installed and see a GPU."""
    for library in (Cupy, Torch, Jax):
        try:
            yield library.__name__.lower(), library()
        except (ImportError, RuntimeError) as error:
            print(f"without {library.__name__}: {error}")


def check_libraries():
    """Arrays of CuPy, PyTorch and JAX on the GPU can be passed for every argument, in any order; results are of their kind."""
    if HOST["backend"] != "cuda":
        return
    for name, there in libraries():
        for case in cases():
            size = {"npix_x": case.shape[0], "npix_y": case.shape[1]}
            given = dict(case.arguments(epsilon=1e-11, do_wgridding=True), **HOST)
            far = {k: there.put(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
            plan = msimage.Plan(vis=case.vis, **size, **given)
            truth = {"dirty": plan.dirty(), "hessian": plan.hessian(case.model), "residual": plan.residual(case.model),
                     "predict": plan.predict(case.model), "vis2dirty": wgridder.vis2dirty(vis=case.vis, **size, **given),
                     "dirty2vis": wgridder.dirty2vis(dirty=case.model, **given)}
            with there.stream:
                # Work on another stream is waited for; reversed arrays have gaps.
                vis, model = there.put(2 * case.vis) * 0.5, there.put(0.25 * case.model.T).T * 4
                turned = dict(far, uvw=there.put(case.uvw.T).T, wgt=there.put(case.wgt.T).T)
                plan = msimage.Plan(vis=vis, **size, **turned)
                made = {"dirty": plan.dirty(), "hessian": plan.hessian(model), "residual": plan.residual(model),
                        "predict": plan.predict(model), "vis2dirty": wgridder.vis2dirty(vis=vis, **size, **turned),
                        "dirty2vis": wgridder.dirty2vis(dirty=model, **turned)}
            for what, result in made.items():
                # Without an array argument of the package its kind is unknown.
                assert what == "dirty" or type(result).__module__.split(".")[0] in (name, name + "lib"), (name, what, type(result))
                result = result if isinstance(result, np.ndarray) else there.get(result)
                assert distance(result, truth[what]) <= 2e-11, (name, what)
            must_raise(RuntimeError, lambda: wgridder.vis2dirty(vis=vis, **size, **dict(far, wgt=there.put(case.mask))))
            if there.empty is None:
                must_raise(ValueError, lambda: wgridder.vis2dirty(vis=vis, dirty=there.put(np.zeros(case.shape)), **far))
                continue
            # Calls that repeat an earlier one read the current elements of their arrays, also together with arrays in host memory.
            for factor in (1, -2, 3):
                again, weight = there.put(factor * case.vis), there.put(factor * case.wgt)
                for changes in ({}, {"freq": case.freq}):
                    result = wgridder.vis2dirty(vis=again, **size, **dict(far, **changes))
                    assert distance(there.get(result), factor * truth["vis2dirty"]) <= 2e-11, (name, factor)
                result = wgridder.dirty2vis(dirty=model, **dict(far, wgt=weight))
                assert distance(there.get(result), factor * truth["dirty2vis"]) <= 2e-11, (name, factor)
                with there.stream:
                    result = wgridder.vis2dirty(vis=there.put(case.vis) * factor, **size, **far)
                assert distance(there.get(result), factor * truth["vis2dirty"]) <= 2e-11, (name, factor)
            out, wide = there.empty(case.shape, "f8"), there.empty(case.shape[::-1], "f8")
            assert wgridder.vis2dirty(vis=vis, dirty=out, **far) is out and distance(there.get(out), truth["dirty"]) <= 2e-11
            assert plan.hessian(model, out) is out and distance(there.get(out), truth["hessian"]) <= 2e-11
            must_raise(ValueError, lambda: wgridder.vis2dirty(vis=vis, dirty=wide.T, **far))
        print(f"with {name}")


def check_device_arrays():
    """Arrays on the GPU passed by DLPack are read and written in place, in every argument."""
    if HOST["backend"] != "cuda":
        return
    for case, kind in zip(cases(), (DeviceArray, VersionedArray)):
        size = {"npix_x": case.shape[0], "npix_y": case.shape[1]}
        given = dict(case.arguments(epsilon=1e-11), **HOST)
        far = {name: kind(a) if isinstance(a, np.ndarray) else a for name, a in given.items()}
        here, there = plan_of(case), msimage.Plan(vis=kind(case.vis), **size, **far)
        model, out, vis = kind(case.model), kind(np.zeros(case.shape)), kind(np.zeros_like(case.vis))
        for name in ("hessian", "residual"):
            assert getattr(there, name)(model, out) is out
            assert distance(out.get(), getattr(here, name)(case.model)) <= 1e-12, name
            assert distance(getattr(there, name)(model), getattr(here, name)(case.model)) <= 1e-12, name
        assert there.dirty(out) is out and distance(out.get(), here.dirty()) <= 1e-12
        assert there.predict(model, vis) is vis and distance(vis.get(), here.predict(case.model)) <= 1e-12
        assert wgridder.vis2dirty(vis=kind(case.vis), dirty=out, do_wgridding=True, **far) is out
        assert distance(out.get(), here.dirty()) <= 2e-11
        assert wgridder.dirty2vis(dirty=model, vis=vis, do_wgridding=True, **far) is vis
        assert distance(vis.get(), wgridder.dirty2vis(dirty=case.model, do_wgridding=True, **given)) <= 1e-12
        assert model.asked and all(stream == 1 for stream in model.asked)
        must_raise(RuntimeError, lambda: there.hessian(kind(case.model.astype("f4"))))
        must_raise(RuntimeError, lambda: there.hessian(kind(case.model[:, :20])))
    frozen = VersionedArray(case.model, read_only=True)
    assert distance(there.hessian(frozen), here.hessian(case.model)) <= 1e-12
    must_raise(ValueError, lambda: there.dirty(frozen))


def check_device_memory():
    """A GPU without enough memory raises MemoryError with a message, and existing objects still work."""
    if HOST["backend"] != "cuda":
        return
    case = next(cases())
    plan = plan_of(case)
    truth = plan.dirty()
    # Such an image does not fit on any device; the array for it only claims to be one.
    out = DeviceArray(np.zeros((1, 1)), (1 << 19, 1 << 19))
    large = dict(case.arguments(epsilon=1e-4), vis=case.vis, dirty=out, **HOST)
    large.update(pixsize_x=1e-7, pixsize_y=1e-7)
    assert "memory" in str(must_raise(MemoryError, lambda: wgridder.vis2dirty(**large)))
    assert must_raise(msimage.Error, lambda: wgridder.vis2dirty(**large)).status == -5
    assert distance(plan.dirty(), truth) <= 1e-13


def check_kept_memory():
    """If GPU memory is kept between calls or freed, a plan keeps its own, and results do not change."""
    case = next(cases())
    plan = plan_of(case)
    truth = plan.dirty()
    for kept in (0, 1 << 30, -1):
        msimage.keep_memory(kept)
        msimage.release_memory()
        assert distance(plan.dirty(), truth) <= 1e-13
        assert distance(plan_of(case).dirty(), truth) <= 1e-13
    must_raise((TypeError, ValueError), lambda: msimage.keep_memory("all"))


def check_interrupt():
    """Ctrl-C during a call ends it with KeyboardInterrupt; its output is unchanged, and the plan can be used again."""
    rng = np.random.default_rng(3)
    case = Case(rng, (1024, 1024), (2e-4, 2e-4), n_row=4000)
    plan = plan_of(case, 1e-9)
    out = np.full(case.shape, 7.0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The signal is raised in C at the call's first step: raise(2) has its argument where a callback has `of`.
    c = cffi.FFI()
    c.cdef("int raise(int);")
    libc = c.dlopen(None)
    callbacks = msimage._library.CALLBACKS
    callbacks = ffi.new("msimage_callbacks *", {
        "progress": ffi.cast("void (*)(void *, const char *, double)", int(c.cast("uintptr_t", c.addressof(libc, "raise")))),
        "interrupt": callbacks.interrupt, "of": ffi.cast("void *", int(signal.SIGINT))})
    loud = ffi.new("msimage_gridder **")
    plan._gridder.call(msimage._library.lib.msimage_gridder_create, loud, plan._gridder.spec, callbacks)
    quiet, plan._gridder.c = plan._gridder.c, ffi.gc(loud[0], msimage._library.lib.msimage_gridder_free)
    must_be = None
    try:
        plan._gridder.call(msimage._library.lib.msimage_gridder_image, plan._gridder.c, ffi.from_buffer(out))
    except KeyboardInterrupt as error:
        must_be = error
    assert must_be is not None
    # Without samples an image is made immediately: try that too.
    try:
        plan._gridder.call(msimage._library.lib.msimage_gridder_add, plan._gridder.c, plan._samples.given())
    except KeyboardInterrupt:
        pass
    out[...] = 7
    try:
        plan._gridder.call(msimage._library.lib.msimage_gridder_hessian, plan._gridder.c, ffi.from_buffer(case.model),
                           ffi.from_buffer(out))
        raise AssertionError("nothing was raised")
    except KeyboardInterrupt:
        assert (out == 7).all(), "the call went on to its end"
    plan._gridder.c = quiet
    assert np.isfinite(plan.dirty(out)).all() and not (out == 7).any()


def check_interrupted_predictor():
    """Ctrl-C while the first prediction adds the samples leaves the next one right."""
    case = next(cases())
    plan, truth, make = plan_of(case), plan_of(case).predict(case.model), msimage._plan.gridder

    def interrupted(*arguments, **options):
        g = make(*arguments, **options)
        call = g.call

        def ends(*_):
            g.call = call
            raise KeyboardInterrupt
        g.call = ends
        return g

    msimage._plan.gridder = interrupted
    try:
        plan.predict(case.model)
        raise AssertionError("nothing was raised")
    except KeyboardInterrupt:
        pass
    finally:
        msimage._plan.gridder = make
    assert (plan.predict(case.model) == truth).all()


def check_interrupt_in_thread():
    """Ctrl-C ends the main thread's call; a call in another thread continues."""
    case = next(cases())
    truth = plan_of(case).dirty()
    armed, under_way, ended = threading.Event(), threading.Event(), threading.Event()
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def ask(_of):
        if not armed.is_set():
            return 0
        if threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)
        else:
            under_way.set()
            ended.wait()
        return 0

    library = msimage._library
    asking = ffi.callback("int(void *)", ask, error=1, onerror=library._remember)
    quiet, library.CALLBACKS.interrupt = library.CALLBACKS.interrupt, asking
    plans, outcome = [plan_of(case) for _ in range(2)], []

    def work():
        try:
            outcome.append(plans[1].dirty())
        except BaseException as error:  # noqa: B902
            outcome.append(error)

    armed.set()
    thread = threading.Thread(target=work)
    thread.start()
    under_way.wait()
    try:
        plans[0].dirty()
        raise AssertionError("nothing was raised")
    except KeyboardInterrupt:
        pass
    finally:
        ended.set()
        thread.join()
        library.CALLBACKS.interrupt = quiet
    assert isinstance(outcome[0], np.ndarray), repr(outcome[0])
    assert distance(outcome[0], truth) <= 1e-13


def check_interrupt_everywhere():
    """Ctrl-C ends any call with KeyboardInterrupt, and the next call works."""
    case = next(cases())
    given = case.arguments(epsilon=1e-9, **HOST)
    armed = []
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def ask(_of):
        if armed:
            signal.raise_signal(signal.SIGINT)
        return 0

    library = msimage._library
    asking = ffi.callback("int(void *)", ask, error=1, onerror=library._remember)
    quiet, library.CALLBACKS.interrupt = library.CALLBACKS.interrupt, asking
    try:
        plan = plan_of(case)
        norm = plan.sum_weight()
        cleaner = msimage.Cleaner(plan.psf() / norm, **HOST)
        residual, model = plan.dirty() / norm, np.zeros(case.shape)
        size = {"npix_x": case.shape[0], "npix_y": case.shape[1]}
        calls = {"dirty": plan.dirty, "psf": plan.psf, "residual": lambda: plan.residual(case.model),
                 "hessian": lambda: plan.hessian(case.model), "predict": lambda: plan.predict(case.model),
                 "minor": lambda: cleaner.minor(residual, model), "noise": lambda: cleaner.noise(residual),
                 "vis2dirty": lambda: wgridder.vis2dirty(vis=case.vis, **size, **given),
                 "dirty2vis": lambda: wgridder.dirty2vis(dirty=case.model, **given), "Plan": lambda: plan_of(case)}
        for name, call in calls.items():
            call()
            armed.append(name)
            try:
                call()
                raise AssertionError(f"{name}: nothing was raised")
            except KeyboardInterrupt:
                armed.clear()
            call()
    finally:
        library.CALLBACKS.interrupt = quiet


def check_cleaner():
    """Major and minor cycles recover the fluxes of three sources."""
    rng = np.random.default_rng(4)
    case = Case(rng, (128, 128), (4e-4, 4e-4), n_row=3000, n_chan=2)
    sky = np.zeros(case.shape)
    sources = {(64, 64): 1.0, (30, 99): 0.5, (90, 41): 0.25}
    for at, flux in sources.items():
        sky[at] = flux
    given = case.arguments(epsilon=1e-6, do_wgridding=True, divide_by_n=False, **HOST)
    case.vis = wgridder.dirty2vis(dirty=sky, **given)
    plan = plan_of(case, 1e-6, divide_by_n=False)
    norm = plan.sum_weight()
    for method in ("hogbom", "list", "multiscale"):
        cleaner = msimage.Cleaner(plan.psf() / norm, method=method, scales=[0, 8] if method == "multiscale" else None,
                                  **HOST)
        model = np.zeros(case.shape)
        for _ in range(12):
            residual = plan.residual(model) / norm
            report = cleaner.minor(residual, model, threshold=2e-3, mgain=0.8, n_iteration=10000)
            if report.stop != "major":
                break
        assert report.stop == "threshold", (method, report)
        for (x, y), flux in sources.items():
            assert abs(model[x - 3:x + 4, y - 3:y + 4].sum() - flux) <= 0.02, (method, x, y)
        assert cleaner.noise(residual) < 2e-3
    must_raise(msimage.Error, lambda: msimage.Cleaner(np.zeros((32, 32)), **HOST))
    must_raise(msimage.Error, lambda: msimage.Cleaner(plan.psf() / norm, method="nonesuch", **HOST))
    must_raise(ValueError, lambda: cleaner.minor(model.T, model))
    must_raise(RuntimeError, lambda: cleaner.minor(model, model.astype("f4")))


def check_terms():
    """Taylor terms of cleaned sources are those of the least-squares polynomials of their spectra; residuals are updated exactly."""
    n, hz, weight = 64, np.linspace(1e9, 1.6e9, 5), np.array([1, 2, 2.5, 1, 0.5])
    x = hz / 1.2e9 - 1
    places = {(20, 30): hz**0 * (hz / 1.2e9)**-0.7, (45, 12): 0.5 * (hz / 1.2e9)**1.5}
    a, b = np.mgrid[:n, :n]

    def beam(c, i, j):
        r2 = ((a - i)**2 + (b - j)**2) * (hz[c] / 1e9)**2
        return np.exp(-r2 / 8) + 0.1 * np.exp(-r2 / 200) * np.cos(np.sqrt(r2))

    def scaled(c):
        return weight[c] / weight.sum() / 1.1

    methods = dict(method="hogbom"), dict(method="multiscale", scales=[0], scale_rule="tclean", scale_shape="spheroidal")
    for terms, how in itertools.product((2, 3), methods):
        psf = np.array([sum(scaled(c) * x[c]**k * beam(c, n // 2, n // 2) for c in range(5)) for k in range(2 * terms - 1)])
        seen = [sum(flux[c] * beam(c, i, j) for (i, j), flux in places.items()) for c in range(5)]
        residual = np.array([sum(scaled(c) * x[c]**t * seen[c] for c in range(5)) for t in range(terms)])
        mask, model = np.zeros((n, n), np.uint8), np.zeros((terms, n, n))
        for place in places:
            mask[place] = 1
        cleaner = msimage.Cleaner(psf, nterms=terms, reference=1.2e9, frequencies=hz, weights=weight, mask=mask, gain=0.3, **how, **HOST)
        assert "%d terms of 64 x 64" % terms in repr(cleaner) and cleaner.shape == (terms, n, n)
        for _ in range(2):  # models are continued
            report = cleaner.minor(residual, model, threshold=1e-8, n_iteration=2000)
        assert report.stop == "threshold"
        powers, root = np.vander(x, terms, increasing=True), np.sqrt(weight)
        for (i, j), flux in places.items():
            wanted = np.linalg.lstsq(powers * root[:, None], flux * root, rcond=None)[0]
            assert np.allclose(model[:, i, j], wanted, rtol=0, atol=2e-3), (terms, model[:, i, j], wanted)
        values = np.tensordot(powers, model, 1)
        left = [seen[c] - sum(values[c, i, j] * beam(c, i, j) for i, j in places) for c in range(5)]
        exact = np.array([sum(scaled(c) * x[c]**t * left[c] for c in range(5)) for t in range(terms)])
        # What a polynomial cannot describe is not in the nodes; residual t keeps it.
        assert np.abs(residual - exact)[:, mask > 0].max() <= 1e-7 and np.isfinite(cleaner.noise(residual))
    for change in ({"frequencies": [1e9]}, {"reference": 0.0}, {"weights": [1, 1, 1, 1, -1]}, {"frequencies": [1e9] * 5}):
        must_raise(msimage.Error, lambda: msimage.Cleaner(psf, **dict(dict(nterms=3, reference=1.2e9, frequencies=hz, **HOST), **change)))
    must_raise(RuntimeError, lambda: msimage.Cleaner(psf, nterms=2, reference=1.2e9, frequencies=hz, **HOST))
    must_raise(RuntimeError, lambda: cleaner.minor(residual[0].copy(), model))


def check_scales():
    """By tclean's rule a scale is not found within three quarters of its width and a pixel of an edge, by WSClean's within half; and
    components equal those of its definition: the scale and pixel of the largest square over the power of its response."""
    psf, blob = np.zeros((64, 64)), np.hypot(*np.mgrid[-8:56, -32:32])
    psf[32, 32] = 1
    for rule, shape, at in (("wsclean", "tapered-quadratic", 8), ("tclean", "spheroidal", 10), ("tclean", "tapered-quadratic", 10)):
        cleaner = msimage.Cleaner(psf, method="multiscale", scales=[0, 12], beam=1, scale_rule=rule, scale_shape=shape,
                                  scale_gain=1e-6, scale_bias=0.3 if rule == "wsclean" else 0, gain=0.5, **HOST)
        residual, model = np.exp(-0.05 * blob**2), np.zeros((64, 64))
        assert cleaner.minor(residual, model, n_iteration=1).n_iteration == 1
        assert abs((model.sum(1) * np.arange(64)).sum() / model.sum() - at) < 1e-6, (rule, shape)
        if rule == "tclean":
            kernel = model / model.sum()  # a PSF of one pixel: R * K and P * K * K are sums over pixels
            wanted = 0.5 * (np.exp(-0.05 * blob**2) * kernel).sum() / (kernel**2).sum()
            assert abs(model.sum() / wanted - 1) < 1e-6, (shape, model.sum(), wanted)
    least = msimage.Cleaner(psf, method="multiscale", scales=[0, 12], beam=1, scale_rule="tclean", smallscalebias=1, **HOST)
    model = np.zeros((64, 64))
    least.minor(np.exp(-0.05 * blob**2), model, n_iteration=1)
    assert (abs(model) > 1e-12).sum() == 1 and abs(model[8, 32] - 0.1) < 1e-9
    for change, kind in (({"scale_rule": "casa"}, ValueError), ({"scale_rule": 1}, TypeError), ({"scale_shape": "box"}, ValueError),
                         ({"scale_shape": None}, TypeError), ({"gain": "0.1"}, TypeError), ({"scales": ["0"]}, TypeError)):
        assert next(iter(change)) in str(must_raise(kind, lambda: msimage.Cleaner(psf, **dict(HOST, **change))))
    for change in ({"smallscalebias": 2.0}, {"scale_gain": -1.0}, {"scale_bias": 2.0}):
        must_raise(msimage.Error, lambda: msimage.Cleaner(psf, method="multiscale", scales=[0, 12], beam=1, **dict(HOST, **change)))


def check_quiet():
    """Nothing is printed unless requested."""
    import subprocess

    code = ("import sys; sys.path[:0] = %r; from wgridder_oracle import Case; import numpy as np; from msimage import wgridder;"
            "c = Case(np.random.default_rng(1), (32, 32), (.01, .01)); wgridder.vis2dirty(vis=c.vis, npix_x=32, npix_y=32,"
            "**c.arguments(epsilon=1e-6, verbosity=%d, backend='cpu'))")
    for verbosity in (0, 1):
        done = subprocess.run([sys.executable, "-B", "-c", code % (sys.path, verbosity)], capture_output=True, check=True)
        assert not done.stderr and bool(done.stdout) == bool(verbosity), done


if __name__ == "__main__":
    run_checks(globals())
