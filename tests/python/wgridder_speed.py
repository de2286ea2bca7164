# SPDX-License-Identifier: GPL-3.0-or-later
"""wgridder_speed.py call|solver [CASE..]: measures msimage.wgridder on a GPU; not a test, to be run by hand.

call: arrays in host and GPU memory, compared with the time to copy as many bytes of registered memory to the GPU and back, and
with the C functions. solver: an iteration of a solver, a model to visibilities and back to an image, compared with ducc0 on the
CPU. Arrays on the GPU are CuPy arrays if that is installed. The compared functions are called in turns, after one call of each
that is not counted, and medians are reported; the number of threads is the environment variable NTHREADS, or 16.
"""
import ctypes
import os
import sys
import time

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy")
import msimage
import numpy as np
from device_array import DeviceArray, runtime
from msimage import wgridder
from msimage._arrays import Given
from msimage._gridder import Samples, gridder
from msimage._library import ffi, lib

try:
    import cupy
except ImportError:
    cupy = None

THREADS = int(os.environ.get("NTHREADS", "16"))
ON_GPU = {"nthreads": THREADS, "backend": "cuda"}
LIGHT_M_S = 299792458.0


def there(array):
    """A copy of an array on the GPU."""
    return cupy.asarray(array) if cupy else DeviceArray(array)


def median_s(call, n=7):
    call()
    taken = []
    for _ in range(n):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return sorted(taken)[n // 2]


def in_turns_s(calls, n):
    """The median time of each call; they are made in turns, forwards and backwards, so that a slow moment affects all."""
    taken = [[] for _ in calls]
    for i in range(-1, n):
        for k in range(len(calls)) if i % 2 else reversed(range(len(calls))):
            begin = time.perf_counter()
            calls[k]()
            if i >= 0:
                taken[k].append(time.perf_counter() - begin)
    return [sorted(t)[n // 2] for t in taken]


def observe(n_row, n_chan, npix, single):
    """A field of 0.05 rad observed with baselines concentrated in the middle of the uv plane."""
    rng = np.random.default_rng(1)
    freq = np.linspace(1e9, 1.02e9, n_chan)
    uvw = rng.standard_normal((n_row, 3))
    uvw /= np.linalg.norm(uvw, axis=1)[:, None]
    reach = rng.uniform(0, 1, (n_row, 1)) ** 1.5 * 0.45 * npix / 0.05 * LIGHT_M_S / freq[-1]
    vis = rng.standard_normal((n_row, n_chan)) + 1j * rng.standard_normal((n_row, n_chan))
    given = {"uvw": np.ascontiguousarray(uvw * reach * [1, 1, 0.3]), "freq": freq,
             "wgt": rng.uniform(0.5, 1, (n_row, n_chan)).astype("f4" if single else "f8")}
    how = {"pixsize_x": 0.05 / npix, "pixsize_y": 0.05 / npix, "epsilon": 1e-4 if single else 1e-7, "do_wgridding": True}
    return given, how, vis.astype("c8" if single else "c16")


def copy_s(n_bytes, back):
    """The time to copy registered memory to the GPU, or back."""
    cuda, here, there = runtime(), ctypes.c_void_p(), ctypes.c_void_p()
    cuda.cudaMallocHost.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    cuda.cudaFreeHost.argtypes = [ctypes.c_void_p]
    assert cuda.cudaMallocHost(ctypes.byref(here), n_bytes) == 0 and cuda.cudaMalloc(ctypes.byref(there), n_bytes) == 0
    taken = median_s(lambda: cuda.cudaMemcpy(here, there, n_bytes, 2) if back else cuda.cudaMemcpy(there, here, n_bytes, 1))
    cuda.cudaFreeHost(here)
    cuda.cudaFree(there)
    return taken


def c_call(task, given, how, vis, dirty):
    """The C functions for an image or a prediction, without Python's checks."""
    kept = gridder(task, dirty.dtype, how["epsilon"], nx=dirty.shape[0], ny=dirty.shape[1], cell_x_rad=how["pixsize_x"],
                   cell_y_rad=how["pixsize_y"], ignores_w=False, divides_by_n=True, **ON_GPU)
    of, image = Given(vis), Given(dirty)
    samples = Samples(given["uvw"], given["freq"], dirty.dtype, given["wgt"])
    c_samples = samples.given(of if task == lib.MSIMAGE_IMAGE else None)

    def call():
        g = ffi.new("msimage_gridder **")
        assert lib.msimage_gridder_create(g, kept.spec, ffi.NULL) == 0
        assert lib.msimage_gridder_add(g[0], c_samples) == 0
        if task == lib.MSIMAGE_IMAGE:
            assert lib.msimage_gridder_image(g[0], image.pointer()) == 0
        else:
            assert lib.msimage_gridder_predict(g[0], image.pointer()) == 0
            assert lib.msimage_gridder_fetch(g[0], c_samples, of.pointer()) == 0
        lib.msimage_gridder_free(g[0])
    return call


# Rows, channels, pixels along an axis, and whether numbers are single precision.
CASES = ((250_000, 4, 1024, True), (250_000, 4, 2048, False), (1_000_000, 10, 4096, True), (1_000_000, 10, 4096, False),
         (4_000_000, 10, 4096, True))


def time_calls():
    for n_row, n_chan, npix, single in [CASES[int(i)] for i in sys.argv[2:]] or CASES:
        given, how, vis = observe(n_row, n_chan, npix, single)
        dirty = np.zeros((npix, npix), "f4" if single else "f8")
        far, far_vis, far_dirty = {k: there(a) for k, a in given.items()}, there(vis), there(dirty)
        n_bytes = sum(a.nbytes for a in given.values())
        for name, task, up, down in (("vis2dirty", lib.MSIMAGE_IMAGE, n_bytes + vis.nbytes, dirty.nbytes),
                                     ("dirty2vis", lib.MSIMAGE_PREDICT, n_bytes + dirty.nbytes, vis.nbytes)):
            function = getattr(wgridder, name)
            n = 21 if npix < 4096 else 7
            # Two by two, so that each call follows itself as often as the other: a call reuses the memory of the one before.
            here_s, c_here_s = in_turns_s([lambda: function(vis=vis, dirty=dirty, **given, **how, **ON_GPU),
                                           c_call(task, given, how, vis, dirty)], n)
            far_s, c_far_s = in_turns_s([lambda: function(vis=far_vis, dirty=far_dirty, **far, **how, **ON_GPU),
                                         c_call(task, far, how, far_vis, far_dirty)], n)
            copies_s = copy_s(up, False) + copy_s(down, True)
            print(f"{name}: {n_row * n_chan:.0e} {vis.dtype}, {npix}^2: host {1e3 * here_s:.2f} ms, GPU {1e3 * far_s:.2f}, copies "
                  f"{1e3 * copies_s:.2f}: {here_s / (far_s + copies_s):.3f}; by C {1e3 * c_here_s:.2f} and {1e3 * c_far_s:.2f} ms, "
                  f"Python's {here_s / c_here_s:.3f} and {far_s / c_far_s:.3f} of it", flush=True)
            made, same = (vis, far_vis) if name == "dirty2vis" else (dirty, far_dirty)
            print(f"  made of arrays of the host and of the GPU: {np.abs(made - same.get()).max() / np.abs(made).max():.1e} apart")


def time_solver():
    try:
        from ducc0 import wgridder as peer
    except ImportError:
        peer = None
    for single in (True, False):
        given, how, vis = observe(500_000, 4, 2048, single)
        model = np.random.default_rng(2).standard_normal((2048, 2048)).astype("f4" if single else "f8")
        far, far_vis, far_model, out = ({k: there(a) for k, a in given.items()}, there(vis), there(model), there(model))
        plan = msimage.Plan(npix_x=2048, npix_y=2048, dtype=model.dtype, **far, **how, **ON_GPU)

        def iterate(module, arrays, image, values, product, **options):
            module.dirty2vis(dirty=image, vis=values, **arrays, **how, **options)
            module.vis2dirty(vis=values, dirty=product, **dict(arrays, wgt=None), **how, **options)

        taken = {"Plan.hessian": median_s(lambda: plan.hessian(far_model, out)),
                 "functions, arrays of the GPU": median_s(lambda: iterate(wgridder, far, far_model, far_vis, out, **ON_GPU)),
                 "functions, arrays of the host": median_s(lambda: iterate(wgridder, given, model, vis, model.copy(), **ON_GPU))}
        if peer:
            taken["ducc0"] = median_s(lambda: iterate(peer, given, model, vis, model.copy(), nthreads=THREADS), 3)
        for name, seconds in taken.items():
            ratio = f", {taken['ducc0'] / seconds:.1f} times ducc0's speed" if peer else ""
            print(f"2e6 {vis.dtype}, 2048^2, {name}: {1e3 * seconds:.2f} ms{ratio}")


if __name__ == "__main__":
    {"call": time_calls, "solver": time_solver}[sys.argv[1]]()
