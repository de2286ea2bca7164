# SPDX-License-Identifier: GPL-3.0-or-later
"""same_arrays_test.py cpu [CHECK..]: calls with the arrays of earlier calls, of a stand-in for CuPy, give the same as other arrays."""
import gc
import signal

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy")
import cupy_stand_in

cupy = cupy_stand_in.stand_in()
import msimage
import numpy as np
from msimage import wgridder
from wgridder_oracle import run_checks

HOW = {"pixsize_x": 1e-3, "pixsize_y": 1.1e-3, "epsilon": 1e-7, "do_wgridding": True, "backend": "cpu"}
SIZE = {"npix_x": 32, "npix_y": 36}


def observed(seed=1, n_row=40, n_chan=3):
    rng = np.random.default_rng(seed)
    vis = rng.standard_normal((n_row, n_chan)) + 1j * rng.standard_normal((n_row, n_chan))
    return {"uvw": 50 * rng.standard_normal((n_row, 3)), "freq": np.linspace(1e9, 1.1e9, n_chan), "vis": vis,
            "wgt": rng.uniform(0.5, 1, vis.shape), "mask": (rng.uniform(size=vis.shape) > 0.2).astype("u1")}


def on_host(given):
    return {name: value.values if isinstance(value, cupy.ndarray) else value for name, value in given.items()}


def same(given, n=4, function="vis2dirty"):
    """The results of a function for arrays at each of several calls, which equal those for NumPy arrays."""
    varied = "dirty" if function == "vis2dirty" else "vis"
    truth = getattr(wgridder, function)(**on_host({k: v for k, v in given.items() if k != varied or v is None}))
    for _ in range(n):
        made = getattr(wgridder, function)(**given)
        assert isinstance(made, cupy.ndarray) and made.dtype == truth.dtype and made.shape == truth.shape
        assert np.abs(made.values - truth).max() <= (1e-12 if truth.itemsize > 4 else 1e-6) * np.abs(truth).max()
        assert given.get(varied) is None or made is given[varied]
    return made


def met():
    return len(wgridder._same_images.of), len(wgridder._same_predictions.of)


def counted(function, call):
    """The number of calls of a function in a call."""
    n, real = [0], getattr(wgridder, function)

    def count(*arguments):
        n[0] += 1
        return real(*arguments)
    setattr(wgridder, function, count)
    try:
        call()
    finally:
        setattr(wgridder, function, real)
    return n[0]


def check_repeated():
    """From the third call on, arguments are only compared; elements are read again."""
    given = {name: cupy.asarray(array) for name, array in observed().items()}
    image = dict(given, dirty=None, **SIZE, **HOW)
    model = same(image)
    predicted = {name: value for name, value in image.items() if name not in ("vis", *SIZE)}
    same(dict(predicted, dirty=model, vis=None), function="dirty2vis")
    assert met() == (1, 1)
    assert counted("plain", lambda: same(dict(predicted, dirty=model, vis=None), 1, "dirty2vis")) == 1, "the truth's alone"
    assert counted("plain", lambda: same(image, 1)) == 1
    for name in ("vis", "wgt", "uvw", "freq"):
        given[name].values *= 1.5
        same(image, 2)
    given["mask"].values[::2] = 0
    same(image, 2)
    # Other visibilities, images and results of the same kind.
    out = cupy.asarray(np.full((32, 36), 7.0))
    for _ in range(3):
        vis = cupy.asarray(np.random.default_rng().standard_normal(given["vis"].shape) * 1j)
        same(dict(image, vis=vis), 2)
        same(dict(image, vis=vis, dirty=out), 2)
        same(dict(image, vis=vis, dirty=cupy.asarray(np.zeros((32, 36)))), 2)
        model = cupy.asarray(np.random.default_rng().standard_normal((32, 36)))
        same(dict(predicted, dirty=model, vis=None), 2, "dirty2vis")
        same(dict(predicted, dirty=model, vis=vis), 2, "dirty2vis")


def check_changed():
    """Other arrays, arrays of another shape or type, and other options are not mistaken for the earlier ones."""
    given = {name: cupy.asarray(array) for name, array in observed().items()}
    image = dict(given, dirty=None, **SIZE, **HOW)
    for change in ({"wgt": None}, {"mask": None}, {"wgt": None, "mask": None}, {"dirty": cupy.asarray(np.zeros((32, 36)))},
                   {"npix_x": 34}, {"epsilon": 1e-4}, {"flip_v": True}, {"divide_by_n": False}, {"center_x": 1e-3},
                   {"vis": cupy.asarray(given["vis"].values.astype("c8")), "wgt": None, "epsilon": 1e-5},
                   {"wgt": cupy.asarray(2 * given["wgt"].values)}, {"wgt": given["wgt"].values}):
        same(image, 3)
        same(dict(image, **change), 3)
    same(image, 3)
    for change, kind in (({"npix_x": 32.0}, TypeError), ({"nthreads": 1.0}, TypeError), ({"vis": None}, TypeError), ({"uvw": None}, TypeError),
                         ({"vis": cupy.asarray(given["vis"].values[:, :2])}, RuntimeError), ({"npix_x": 33}, RuntimeError),
                         ({"vis": cupy.asarray(given["vis"].values.real)}, RuntimeError),
                         ({"dirty": cupy.asarray(np.zeros((32, 36), "f4"))}, RuntimeError)):
        wgridder.vis2dirty(**image)
        try:
            wgridder.vis2dirty(**dict(image, **change))
        except kind:
            continue
        raise AssertionError(f"{change}: no {kind}")
    # The same arrays in another shape, which is set in place.
    for name in ("wgt", "vis", "uvw", "freq", "mask"):
        same(image, 3)
        shape = given[name].shape
        given[name].shape = shape[::-1] if len(shape) > 1 else (1, *shape)
        try:
            wgridder.vis2dirty(**image)
            raise AssertionError(f"{name}: its shape was not looked at")
        except RuntimeError:
            given[name].shape = shape


def check_gone():
    """A freed array is not mistaken for another, nor for None, and arrays are not kept alive."""
    given = {name: cupy.asarray(array) for name, array in observed().items()}
    image = dict(given, dirty=cupy.asarray(np.zeros((32, 36))), **SIZE, **HOW)
    same(image)
    keeps = [wgridder._same_images.of[id(given["uvw"]), id(given["freq"])]]
    fixed = {name: keeps[0].fixed[i].of for i, name in enumerate(("uvw", "freq", "wgt", "mask"))}
    for name in ("wgt", "mask"):
        image[name] = None
        del given[name]
    image["dirty"] = None
    gc.collect()
    assert fixed["wgt"]() is None and fixed["mask"]() is None and keeps[0].image.of() is None
    same(image)
    # As many as are remembered, whose addresses are reused.
    for seed in range(100):
        one = {name: cupy.asarray(array) for name, array in observed(seed).items()}
        same(dict(one, dirty=None, **SIZE, **HOW), 3)
        assert met()[0] <= 64


def check_streams_and_devices():
    """Calls on another stream, or with arrays of several devices, are not remembered."""
    given = {name: cupy.asarray(array) for name, array in observed().items()}
    image = dict(given, dirty=None, **SIZE, **HOW)
    same(image)
    cupy.now["stream"][0] = 77
    try:
        wgridder.vis2dirty(**image)
        raise AssertionError("the stream was not looked at")
    except BufferError as error:
        assert str(error) == "by DLPack"
    finally:
        del cupy.now["stream"][0]
    same(image)
    # With another current device, results are still on the device of the visibilities.
    cupy.now["device"] = 1
    assert same(image).data.device_id == 0 and cupy.now["device"] == 1
    there = cupy.asarray(given["wgt"].values)
    assert there.data.device_id == 1
    n = met()
    same(dict(image, wgt=there))
    assert met() == n, "arrays of two devices"
    cupy.now["device"] = 0


def check_interrupted():
    """Ctrl-C ends a call that repeats another, and the next one works."""
    given = {name: cupy.asarray(array) for name, array in observed().items()}
    image = dict(given, dirty=None, **SIZE, **HOW)
    same(image)
    library, armed = msimage._library, []
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def ask(_of):
        if armed:
            signal.raise_signal(signal.SIGINT)
        return 0
    asking = library.ffi.callback("int(void *)", ask, error=1, onerror=library._remember)
    quiet, library.CALLBACKS.interrupt = library.CALLBACKS.interrupt, asking
    try:
        for _ in range(2):
            armed.append(1)
            try:
                wgridder.vis2dirty(**image)
                raise AssertionError("nothing was raised")
            except KeyboardInterrupt:
                armed.clear()
            assert not library.raised
            same(image, 2)
        # An exception left over from an earlier call does not end the next one.
        library.raised[library.get_ident()] = KeyboardInterrupt()
        same(image, 2)
    finally:
        library.CALLBACKS.interrupt = quiet


if __name__ == "__main__":
    run_checks(globals())
