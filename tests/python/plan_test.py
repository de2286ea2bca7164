# SPDX-License-Identifier: GPL-3.0-or-later
"""plan_test.py cpu|cuda [CHECK..]: msimage.Plan and msimage.Cleaner, threads, forks, Ctrl-C, arguments that cannot be."""
import os
import signal
import sys
import threading

try:
    import cffi
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import msimage
from msimage import wgridder
from msimage._library import ffi
from wgridder_oracle import Case, distance

HOST = {"backend": "cuda" if "cuda" in sys.argv[1:2] else "cpu"}


def plan_of(case, epsilon=1e-11, vis=True, **options):
    given = case.arguments(epsilon=epsilon, npix_x=case.shape[0], npix_y=case.shape[1], **options)
    return msimage.Plan(vis=case.vis if vis else None, **dict(HOST, **given))


def cases():
    """Weights of a plan are not negative, and floats."""
    rng = np.random.default_rng(1)
    for reach in (0.9, 2.3):
        case = Case(rng, (32, 46), (0.01, 0.008), weighted=True, masked=True, reach=reach)
        case.wgt = np.abs(case.wgt).astype("f4").astype("f8")
        yield case


def check_images():
    """Images, residuals, products and predictions are those of the sums that define them."""
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
    """What cannot be is an exception with a sentence, and the plan goes on."""
    case = next(cases())
    plan = plan_of(case)
    must_raise(RuntimeError, lambda: plan.hessian(case.model.astype("f4")))
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
    must_raise(msimage.Error, lambda: plan_of(case, epsilon=0))
    case.wgt[3] = -1
    assert "negative" in str(must_raise(msimage.Error, lambda: plan_of(case)))
    if not msimage.gpu_count():
        assert must_raise(msimage.Error, lambda: plan_of(next(cases()), backend="cuda")).status == -5
    assert np.isfinite(plan.dirty()).all()


def check_memory():
    """A limit of memory is a MemoryError, and what was there before works on."""
    case = next(cases())
    plan = plan_of(case)
    truth = plan.dirty()
    msimage._library.lib.msimage_memory_limit(1 << 20)
    try:
        must_raise(MemoryError, lambda: wgridder.vis2dirty(vis=case.vis, npix_x=4096, npix_y=4096,
                                                           **case.arguments(epsilon=1e-4), **HOST))
    finally:
        msimage._library.lib.msimage_memory_limit(0)
    assert distance(plan.dirty(), truth) <= 1e-13  # sums on a GPU are in any order


def check_threads():
    """Two threads with a plan each make what one makes; other threads run meanwhile."""
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


def check_fork():
    """A process that is forked before the first call works, and so does the one that forked."""
    case = next(cases())
    if HOST["backend"] == "cuda":
        return  # gpu_count(), which main() asks, starts the driver
    child = os.fork()
    if child == 0:
        os._exit(0 if np.isfinite(plan_of(case).dirty()).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.isfinite(plan_of(case).dirty()).all()


def check_both():
    """Plans on the CPU and on the GPU in one process; arrays in the GPU's memory are read and written there."""
    if HOST["backend"] != "cuda":
        return
    for case in cases():
        truth = plan_of(case, backend="cpu").hessian(case.model)
        plan = plan_of(case)
        assert distance(plan.hessian(case.model), truth) <= 1e-10
        for name in ("torch", "cupy"):
            try:
                there = __import__(name)
            except ImportError:
                continue
            put = there.asarray if name == "cupy" else lambda a: there.from_numpy(np.ascontiguousarray(a)).cuda()
            given = {k: put(v) if isinstance(v, np.ndarray) else v for k, v in case.arguments().items()}
            at = dict(given, npix_x=case.shape[0], npix_y=case.shape[1], epsilon=1e-11, **HOST)
            far = msimage.Plan(vis=put(case.vis), **at)
            product, vis = far.hessian(put(case.model)), far.predict(put(case.model))
            dirty = wgridder.vis2dirty(vis=put(case.vis), do_wgridding=True, **at)
            for made, here in ((product, truth), (vis, plan.predict(case.model)), (dirty, plan.dirty())):
                assert type(made).__module__.split(".")[0] == name
                assert distance(np.asarray(made.get() if name == "cupy" else made.cpu()), here) <= 1e-10, name


def check_interrupt():
    """Ctrl-C during a call ends it by KeyboardInterrupt; what it was to write is as it was, and the plan works on."""
    rng = np.random.default_rng(3)
    case = Case(rng, (1024, 1024), (2e-4, 2e-4), n_row=4000)
    plan = plan_of(case, 1e-9)
    out = np.full(case.shape, 7.0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # The signal is raised in C at the call's first step: raise(2) has its argument where a callback has `of`.
    c = cffi.FFI()
    c.cdef("int raise(int);")
    libc = c.dlopen(None)
    callbacks = plan._gridder.call.callbacks
    heard = ffi.new("msimage_callbacks *", {
        "progress": ffi.cast("void (*)(void *, const char *, double)", int(c.cast("uintptr_t", c.addressof(libc, "raise")))),
        "interrupt": callbacks.interrupt, "of": ffi.cast("void *", int(signal.SIGINT))})
    loud = ffi.new("msimage_gridder **")
    plan._gridder.call(msimage._library.lib.msimage_gridder_create, loud, plan._gridder.spec, heard)
    quiet, plan._gridder.c = plan._gridder.c, ffi.gc(loud[0], msimage._library.lib.msimage_gridder_free)
    must_be = None
    try:
        plan._gridder.call(msimage._library.lib.msimage_gridder_image, plan._gridder.c, ffi.from_buffer(out))
    except KeyboardInterrupt as error:
        must_be = error
    assert must_be is not None
    # Without samples an image is made at once: try with them.
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


def check_cleaner():
    """Three sources are cleaned by major and minor cycles to their fluxes."""
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


def check_quiet():
    """Nothing is printed unasked."""
    import subprocess

    code = ("import sys; sys.path[:0] = %r; from wgridder_oracle import Case; import numpy as np; from msimage import wgridder;"
            "c = Case(np.random.default_rng(1), (32, 32), (.01, .01)); wgridder.vis2dirty(vis=c.vis, npix_x=32, npix_y=32,"
            "**c.arguments(epsilon=1e-6, verbosity=%d, backend='cpu'))")
    for verbosity in (0, 1):
        done = subprocess.run([sys.executable, "-B", "-c", code % (sys.path, verbosity)], capture_output=True, check=True)
        assert not done.stderr and bool(done.stdout) == bool(verbosity), done


def main():
    checks = {name[6:]: check for name, check in globals().items() if name.startswith("check_")}
    if HOST["backend"] == "cuda" and not msimage.gpu_count():
        print("skipped: no GPU found")
        sys.exit(77)
    for name in sys.argv[2:] or sorted(checks, key=lambda name: name != "fork"):
        checks[name]()
        print("ok", name)


if __name__ == "__main__":
    main()
