# SPDX-License-Identifier: GPL-3.0-or-later
"""wgridder_test.py cpu|cuda [CHECK..]: msimage.wgridder compared with the sums that define it, and with ducc0 if that is installed.

Tolerances: epsilon for the direct sum, 2 epsilon for ducc0, which may be off by epsilon itself. Single precision adds its
rounding: a few thousand sums of floats, 1e-6.
"""
import concurrent.futures
import decimal
import fractions
import functools
import itertools
import multiprocessing
import os
import pickle
import sys
import tempfile

from program_suite import skip_without_modules

skip_without_modules("cffi", "numpy")
import numpy as np

from msimage import wgridder
from wgridder_oracle import Case, distance, run_checks

try:
    import ducc0.wgridder as peer
except ImportError:
    peer = None

HOST = {"backend": "cuda" if "cuda" in sys.argv[1:2] else "cpu"}
ROUNDING = {"f4": 1e-6, "f8": 1e-14}
# Comparisons made, and the largest fraction of the allowed error in any of them.
made = {"the direct sum": [0, 0.0], "ducc0": [0, 0.0]}


def within(errors, bound, reference, what):
    """Errors below a bound."""
    made[reference][0] += len(errors)
    made[reference][1] = max(made[reference][1], *(error / bound for error in errors))
    assert max(errors) <= bound, f"{what}: errors {errors} relative to {reference}, allowed {bound}"


def compare(case, epsilon, what, with_peer=True, **options):
    """Both directions compared with the direct sum and the peer."""
    given = case.arguments(epsilon=epsilon, **options)
    bound = epsilon + ROUNDING[case.real.str[1:]]
    dirty = wgridder.vis2dirty(vis=case.vis, npix_x=case.shape[0], npix_y=case.shape[1], **given, **HOST)
    vis = wgridder.dirty2vis(dirty=case.model, **given, **HOST)
    assert dirty.dtype == case.real and dirty.shape == case.shape
    assert vis.dtype == case.cplx and vis.shape == case.vis.shape
    within((distance(dirty, case.dirty(**options)), distance(vis, case.predicted(**options))), bound, "the direct sum", what)
    if not peer or not with_peer:
        return
    with np.errstate(invalid="ignore"):
        theirs = (peer.vis2dirty(vis=case.vis, npix_x=case.shape[0], npix_y=case.shape[1], **given),
                  peer.dirty2vis(dirty=case.model, **given))
    within((distance(dirty, theirs[0].astype("f8")), distance(vis, theirs[1].astype("c16"))), 2 * bound, "ducc0", what)


def check_sweep():
    """Sizes from 16 up, all accuracies, both precisions, with and without w."""
    rng = np.random.default_rng(1)
    for shape, wgridding in itertools.product(((16, 16), (16, 40), (50, 32), (64, 64)), (False, True)):
        pixsize = (0.3 / shape[0], 0.25 / shape[1])
        for epsilon in (1e-1, 1e-2, 1e-3, 1e-5, 1e-7, 1e-9, 1e-11, 1e-12, 2e-13):
            compare(Case(rng, shape, pixsize), epsilon, (shape, wgridding, epsilon), do_wgridding=wgridding)
        for epsilon in (1e-1, 1e-3, 1e-5):
            compare(Case(rng, shape, pixsize, single=True), epsilon, (shape, wgridding, epsilon, "single"),
                    do_wgridding=wgridding)


def check_options():
    """Every combination of weights, mask, division by n and w; flips; centres near and far."""
    rng = np.random.default_rng(2)
    for weighted, masked, by_n, wgridding in itertools.product((False, True), repeat=4):
        case = Case(rng, (32, 46), (0.01, 0.008), weighted=weighted, masked=masked)
        compare(case, 1e-9, (weighted, masked, by_n, wgridding), divide_by_n=by_n, do_wgridding=wgridding)
    for flips in itertools.product((False, True), repeat=3):
        case = Case(rng, (32, 30), (0.01, 0.012))
        for center, wgridding in (((0.0, 0.0), True), ((0.07, 0.2), True), ((0.07, -0.2), False)):
            compare(case, 1e-10, (flips, center), flip_u=flips[0], flip_v=flips[1], flip_w=flips[2], do_wgridding=wgridding,
                    center_x=center[0], center_y=center[1])
    for center, wgridding, single in itertools.product(((0.1, 0.0), (-0.03, 0.3), (0.4, 0.35)), (False, True), (False, True)):
        case = Case(rng, (32, 46), (0.005, 0.006), masked=True, weighted=True, single=single)
        compare(case, 1e-5 if single else 1e-8, (center, wgridding, single), center_x=center[0], center_y=center[1],
                do_wgridding=wgridding)
    case = Case(rng, (32, 46), (0.01, 0.008))
    for more in ({"sigma_min": 1.6}, {"sigma_max": 1.5}, {"nthreads": 2}, {"allow_nshift": False}):
        compare(case, 1e-7, more, do_wgridding=True, **more)


def check_horizon():
    """Images that reach beyond the horizon, also single ones and those off the centre: n goes on there, or pixels are 0."""
    rng = np.random.default_rng(8)
    for fov in (80, 90, 120):
        for by_n, single, center in itertools.product((False, True), (False, True), ((0.0, 0.0), (0.3, -0.2))):
            case = Case(rng, (50, 50), tuple(np.radians((fov, 1.1 * fov)) / 50), n_row=27, n_chan=5, single=single, weighted=True)
            compare(case, 1e-4 if single else 1e-7, (fov, by_n, single, center), do_wgridding=True, divide_by_n=by_n, center_x=center[0],
                    center_y=center[1])


def draw_options(rng, single):
    """All optional arguments at random: most at their defaults."""
    some = {"do_wgridding": bool(rng.integers(2)), "nthreads": int(rng.integers(0, 4))}
    for name, values in (("flip_u", (True,)), ("flip_v", (True,)), ("flip_w", (True,)), ("divide_by_n", (False,)),
                         ("center_x", (0.01, -0.2, 0.35)), ("center_y", (0.03, -0.3, 0.2)), ("allow_nshift", (False,)),
                         ("sigma_min", (1.0, 1.3, 1.7, 2.0)), ("sigma_max", (1.5, 2.0, 2.4))):
        if rng.integers(3) == 0:
            some[name] = values[rng.integers(len(values))]
    least = -5 if single else -11.5
    return 10 ** rng.uniform(least, -1), some


def check_random():
    """Samples, images and all arguments at random; the environment variables DRAWS and SEED give their number and seed."""
    rng = np.random.default_rng(int(os.environ.get("SEED", "11")))
    n_refused = 0
    for i in range(int(os.environ.get("DRAWS", "40"))):
        single = bool(rng.integers(3) == 0)
        shape = tuple(int(n) for n in 2 * rng.integers(8, 33, 2))
        case = Case(rng, shape, tuple(rng.uniform(0.05, 0.3, 2) / shape), single=single, weighted=bool(rng.integers(2)),
                    masked=bool(rng.integers(2)), reach=float(rng.choice((0.4, 0.9, 1.0, 2.5))), n_row=int(rng.integers(10, 80)),
                    n_chan=int(rng.integers(1, 6)))
        epsilon, options = draw_options(rng, single)
        given = dict(case.arguments(epsilon=epsilon, **options), vis=case.vis, npix_x=shape[0], npix_y=shape[1])
        try:
            wgridder.vis2dirty(**given, **HOST)
        except RuntimeError:
            n_refused += 1
            if peer:
                must_raise(RuntimeError, lambda: peer.vis2dirty(**given))
            continue
        try:
            with_peer = bool(peer) and peer.vis2dirty(**given) is not None
        except RuntimeError:
            # It has no window for some bounds of the oversampling; results must still be right.
            with_peer = False
        compare(case, epsilon, (i, shape, single, epsilon, options), with_peer=with_peer, **options)
    assert n_refused <= i // 4


def check_periodic():
    """Samples beyond 1 / (2 pixsize) count."""
    rng = np.random.default_rng(3)
    for reach, wgridding, center in itertools.product((1.5, 9.3), (False, True), (0.0, 0.05)):
        case = Case(rng, (32, 46), (0.01, 0.008), reach=reach, weighted=True, masked=True)
        compare(case, 1e-9, (reach, wgridding, center), do_wgridding=wgridding, center_x=center)


def check_edge():
    """Samples at exactly half a period, where the two ends of the uv plane meet."""
    rng = np.random.default_rng(4)
    case = Case(rng, (16, 16), (2.0**-6, 2.0**-6), n_row=9, n_chan=1)
    case.freq[:] = 299792458.0
    half = 0.5 / case.pixsize[0]
    case.uvw[:, :2] = [(a * half, b * half) for a in (-1, 1, 0.3) for b in (1, -1, 3)]
    compare(case, 1e-9, "edge")


def check_adjoint():
    """<A x, y> = <x, A* y> to 2e-13, whatever epsilon."""
    rng = np.random.default_rng(5)
    for epsilon, wgridding, masked in itertools.product((1e-2, 1e-6, 1e-12), (False, True), (False, True)):
        case = Case(rng, (48, 34), (0.008, 0.009), masked=masked, weighted=masked, reach=1.2)
        given = case.arguments(epsilon=epsilon, do_wgridding=wgridding, center_x=0.02, **HOST)
        dirty = wgridder.vis2dirty(vis=case.vis, npix_x=48, npix_y=34, **given)
        vis = wgridder.dirty2vis(dirty=case.model, **given)
        images, samples = np.vdot(dirty, case.model), np.vdot(vis, case.vis).real
        norm = np.linalg.norm(vis) * np.linalg.norm(case.vis)
        assert abs(images - samples) <= 2e-13 * norm, (epsilon, wgridding, masked, abs(images - samples) / norm)


def check_old_functions():
    """ms2dirty and dirty2ms give the same with other names, nu and nv, and positions."""
    rng = np.random.default_rng(6)
    case = Case(rng, (32, 46), (0.01, 0.008), weighted=True, masked=True)
    for wgridding in (False, True):
        dirty = wgridder.ms2dirty(case.uvw, case.freq, case.vis, case.wgt, 32, 46, 0.01, 0.008, 7, 9, 1e-8, wgridding,
                                  mask=case.mask, **HOST)
        vis = wgridder.dirty2ms(case.uvw, case.freq, case.model, case.wgt, 0.01, 0.008, 0, 0, 1e-8, wgridding,
                                mask=case.mask, **HOST)
        assert distance(dirty, case.dirty(do_wgridding=wgridding)) <= 1e-8
        assert distance(vis, case.predicted(do_wgridding=wgridding)) <= 1e-8
    must_raise(TypeError, lambda: wgridder.ms2dirty(case.uvw, case.freq, case.vis))


def check_not_finite():
    """NaN is left out of images; predictions of it equal the peer's."""
    rng = np.random.default_rng(7)
    case = Case(rng, (32, 46), (0.01, 0.008), weighted=True)
    case.vis[3, 1] = np.nan
    case.wgt[5, 2] = np.nan
    compare(case, 1e-8, "NaN", do_wgridding=True)
    uvw = case.uvw.copy()
    uvw[7] = np.nan
    given = dict(case.arguments(epsilon=1e-8, do_wgridding=True), uvw=uvw)
    vis = wgridder.dirty2vis(dirty=case.model, **given, **HOST)
    assert np.isnan(vis[7]).all() and np.isfinite(np.delete(vis, 7, 0)).all()
    bad = case.model.copy()
    bad[3, 3] = np.nan
    vis = wgridder.dirty2vis(dirty=bad, **case.arguments(epsilon=1e-8), **HOST)
    assert np.isnan(vis[case.effective() != 0]).all()


def check_arrays():
    """Strides of every kind, arrays to write to, read-only arrays; equal to the bit except on a GPU, where the order of sums varies."""
    def same(a, b):
        return distance(a, b) <= 1e-13 if HOST["backend"] == "cuda" else np.array_equal(a, b)

    rng = np.random.default_rng(8)
    case = Case(rng, (32, 46), (0.01, 0.008), weighted=True)
    given = case.arguments(epsilon=1e-8, **HOST)
    truth = wgridder.vis2dirty(vis=case.vis, npix_x=32, npix_y=46, **given)
    frozen = case.vis.copy()
    frozen.setflags(write=False)
    for vis in (np.asfortranarray(case.vis), np.repeat(case.vis, 2, 0)[::2], case.vis[::-1][::-1], frozen):
        assert same(truth, wgridder.vis2dirty(vis=vis, npix_x=32, npix_y=46, **given))
    for uvw in (np.asfortranarray(case.uvw), np.repeat(case.uvw, 3, 1)[:, ::3]):
        assert same(truth, wgridder.vis2dirty(vis=case.vis, npix_x=32, npix_y=46, **dict(given, uvw=uvw)))
    for out in (np.full((32, 46), 7.0), np.full((46, 32), 7.0).T, np.full((64, 46), 7.0)[::2]):
        assert wgridder.vis2dirty(vis=case.vis, dirty=out, **given) is out and same(out, truth)
    vis = np.full(case.vis.shape[::-1], 7j).T
    assert wgridder.dirty2vis(dirty=case.model, vis=vis, **given) is vis
    assert same(vis, wgridder.dirty2vis(dirty=case.model, **given))


def check_programs():
    """Other kinds of arguments: memory-mapped files, array subclasses, other number types, pools of workers."""
    case = Case(np.random.default_rng(13), (32, 46), (0.01, 0.008), weighted=True)
    given = case.arguments(epsilon=1e-6, npix_x=32, npix_y=46, do_wgridding=True, **HOST)
    truth = wgridder.vis2dirty(vis=case.vis, **given)

    class Tagged(np.ndarray):
        pass

    with tempfile.TemporaryDirectory() as folder:
        for name, array in (("vis", case.vis), ("uvw", case.uvw), ("wgt", case.wgt)):
            np.save(f"{folder}/{name}.npy", array)
        files = {name: np.load(f"{folder}/{name}.npy", mmap_mode="r") for name in ("vis", "uvw", "wgt")}
        assert distance(wgridder.vis2dirty(**dict(given, **files)), truth) <= 1e-13
        del files
    for vis in (case.vis.view(Tagged), np.ma.array(case.vis), np.matrix(case.vis)):
        made = wgridder.vis2dirty(vis=vis, **given)
        assert type(made) is np.ndarray and distance(made, truth) <= 1e-13
    for epsilon in (fractions.Fraction(1, 10**6), decimal.Decimal("1e-6"), np.float64(1e-6), np.array(1e-6)):
        assert distance(wgridder.vis2dirty(vis=case.vis, **dict(given, epsilon=epsilon)), truth) <= 1e-13
    image = pickle.loads(pickle.dumps(functools.partial(wgridder.vis2dirty, **given)))
    pools = [concurrent.futures.ThreadPoolExecutor(4)]
    if HOST["backend"] == "cpu":
        pools += [concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context(how)) for how in ("fork", "spawn")]
    for pool in pools:
        with pool:
            waited = [pool.submit(image, vis=k * case.vis) for k in range(1, 7)]
            for k, one in enumerate(waited, 1):
                assert distance(one.result(), k * truth) <= 1e-13


def check_lists():
    """Rows with different lists of frequencies, in one dimension: the same as whole blocks of each list."""
    rng = np.random.default_rng(12)
    more = wgridder.experimental
    assert more.vis2dirty is wgridder.vis2dirty and more.dirty2vis is wgridder.dirty2vis
    for single, weighted, options in ((False, True, {}), (False, False, {"flip_v": True, "center_x": 0.05}), (True, True, {"divide_by_n": False})):
        case = Case(rng, (32, 46), (0.01, 0.008), single=single, weighted=weighted, masked=weighted, n_row=60, n_chan=5, reach=1.3)
        lists = [case.freq, case.freq[:0], case.freq[1:3], case.freq[4:]]
        which = rng.integers(0, 4, 60)
        # A sample of the case is used if the row's list has its frequency.
        taken = np.array([np.isin(case.freq, lists[i]) for i in which])
        epsilon, options = (1e-5 if single else 1e-9), dict(options, do_wgridding=True)
        given = dict(case.arguments(epsilon=epsilon, **options), freqlist_id=which.astype("u8"), freqlist_freqs=np.concatenate(lists),
                     freqlist_nfreqs=np.array([len(one) for one in lists], "u8"), wgt=case.wgt[taken] if weighted else None,
                     mask=case.mask[taken] if weighted else None)
        del given["freq"]
        flat = case.vis[taken]
        made = {"dirty": more.vis2dirty_bda(vis=flat, npix_x=32, npix_y=46, **given, **HOST),
                "vis": more.dirty2vis_bda(dirty=case.model, **given, **HOST)}
        predicted = case.predicted(**options)[taken]
        case.mask = (taken * (1 if case.mask is None else case.mask)).astype("u1")
        truth = {"dirty": case.dirty(**options), "vis": predicted}
        bound = epsilon + ROUNDING[case.real.str[1:]]
        within([distance(made[name], truth[name]) for name in truth], bound, "the direct sum", options)
        outs = {"dirty": np.full((46, 32), 7, case.real).T, "vis": np.full(2 * flat.size, 7, case.cplx)[::2]}
        assert more.vis2dirty_bda(vis=flat, dirty=outs["dirty"], **given, **HOST) is outs["dirty"]
        assert more.dirty2vis_bda(dirty=case.model, vis=outs["vis"], **given, **HOST) is outs["vis"]
        assert all(distance(outs[name], made[name]) <= ROUNDING[case.real.str[1:]] for name in outs)
        if peer:
            theirs = (peer.experimental.vis2dirty_bda(vis=flat, npix_x=32, npix_y=46, **given),
                      peer.experimental.dirty2vis_bda(dirty=case.model, **given))
            within((distance(made["dirty"], theirs[0]), distance(made["vis"], theirs[1])), 2 * bound, "ducc0", options)
    base, ids = dict(given, vis=flat, npix_x=32, npix_y=46), given["freqlist_id"]
    wrong = {RuntimeError: [{"freqlist_id": ids.astype("i8")}, {"freqlist_id": ids[1:]}, {"freqlist_id": ids + 4}, {"vis": flat[1:]},
                            {"vis": flat[None]}, {"wgt": base["wgt"][1:]}, {"mask": base["mask"][:3]}, {"freqlist_freqs": base["freqlist_freqs"][:-1]},
                            {"freqlist_freqs": base["freqlist_freqs"][::-1]}, {"freqlist_freqs": -base["freqlist_freqs"]},
                            {"freqlist_nfreqs": base["freqlist_nfreqs"].astype("f8")}, {"freqlist_nfreqs": base["freqlist_nfreqs"] + np.uint64(2**63)}],
             TypeError: [{"freqlist_id": ids.tolist()}, {"freq": case.freq}]}
    for kind, changes in wrong.items():
        for change in changes:
            must_raise(kind, lambda: more.vis2dirty_bda(**dict(base, **change), **HOST))
            if peer:
                must_raise(kind, lambda: peer.experimental.vis2dirty_bda(**dict(base, **change)))
    none = dict(base, uvw=case.uvw[:0], freqlist_id=ids[:0], vis=flat[:0], wgt=None, mask=None)
    assert not more.vis2dirty_bda(**none, **HOST).any()


def must_raise(kinds, call):
    try:
        call()
    except kinds as error:
        assert str(error)
        return error
    raise AssertionError("nothing was raised")


def refused():
    """Arguments of vis2dirty that both refuse, by the exception."""
    rng = np.random.default_rng(9)
    case = Case(rng, (32, 36), (0.01, 0.012))
    frozen = np.zeros((32, 36))
    frozen.setflags(write=False)
    base = dict(uvw=case.uvw, freq=case.freq, vis=case.vis, npix_x=32, npix_y=36, pixsize_x=0.01, pixsize_y=0.012,
                epsilon=1e-6)
    single = case.vis.astype("c8")
    n_row, n_chan = case.vis.shape
    wrong = {
        RuntimeError: [
            {"npix_x": 0}, {"npix_x": 31}, {"npix_y": 33}, {"pixsize_x": 0.0}, {"pixsize_y": -0.01}, {"epsilon": 0.0},
            {"epsilon": -1.0}, {"epsilon": np.nan}, {"epsilon": 1e-15}, {"epsilon": 2e-7, "vis": single},
            {"vis": case.vis.real}, {"vis": case.vis[0]}, {"vis": case.vis[:5]}, {"vis": case.vis.astype(">c16")},
            {"vis": case.vis.astype(np.clongdouble)}, {"uvw": case.uvw.astype("f4")}, {"uvw": case.uvw[:, :2]},
            {"freq": case.freq.astype("f4")}, {"freq": case.freq[:2]}, {"freq": -case.freq}, {"freq": 0 * case.freq},
            {"freq": case.freq[::-1]}, {"freq": np.nan * case.freq}, {"wgt": np.ones((n_row, n_chan), "f4")},
            {"wgt": np.ones((3, 3))}, {"mask": np.ones((n_row, n_chan), bool)}, {"mask": np.ones((n_row, n_chan))},
            {"mask": np.ones((2, 2), np.uint8)}, {"dirty": np.zeros((32, 36), "f4")}, {"dirty": np.zeros((32, 38))},
            {"sigma_min": 1.0, "sigma_max": 1.05}, {"sigma_min": 2.0, "sigma_max": 1.5},
            {"sigma_min": 3.0, "sigma_max": 4.0}, {"sigma_max": 1.2, "epsilon": 1e-12},
            {"dirty": np.lib.stride_tricks.as_strided(np.zeros(36), (32, 36), (0, 8))},
        ],
        TypeError: [
            {"vis": case.vis.tolist()}, {"uvw": case.uvw.tolist()}, {"freq": list(case.freq)}, {"nthreads": -1},
            {"verbosity": -3}, {"epsilon": "a"}, {"npix_x": 32.5}, {"npix_x": None}, {"npix_y": -2},
            {"do_wgridding": "a"}, {"no_such": 1}, {"flip_u": np.array([True, False])}, {"nthreads": 2**64}, {"npix_x": 2**70},
        ],
        ValueError: [{"dirty": frozen}],
    }
    return base, wrong


def check_exceptions():
    """An exception of the same kind if the peer raises one, and none if it does not."""
    base, wrong = refused()
    for kind, changes in wrong.items():
        for change in changes:
            def call(function, **more):
                return function(**dict(base, **change, **more))
            try:
                must_raise(kind, lambda: call(wgridder.vis2dirty, **HOST))
                if peer:
                    must_raise(kind, lambda: call(peer.vis2dirty))
            except AssertionError as error:
                raise AssertionError(f"{change.keys()}: {error}") from error
    # Messages name the argument and its valid values.
    for change, words in (({"uvw": base["uvw"].T}, ("uvw", "[row, 3]")), ({"vis": base["vis"][:5]}, ("vis", "rows of uvw")),
                          ({"epsilon": 1e-15}, ("epsilon", "1e-15", "7.1e-15")), ({"npix_x": 32.5}, ("npix_x", "integer", "float")),
                          ({"epsilon": np.inf}, ("epsilon", "finite")), ({"epsilon": None}, ("epsilon", "NoneType")),
                          ({"pixsize_x": 1e30, "do_wgridding": True}, ("cell_x_rad", "at most 2", "1e+30")),
                          ({"pixsize_x": 1e30, "do_wgridding": False}, ("cell_x_rad", "digits", "1e+30")),
                          ({"vis": np.ma.masked_greater(base["vis"], 0)}, ("vis", "masked")),
                          ({"vis": (1e-40 * base["vis"]).astype("c8"), "epsilon": 1e-5}, ("vis", "single precision", "constant")),
                          ({"uvw": base["uvw"].tolist()}, ("uvw", "numpy.asarray")), ({"mask": base["vis"] != 0}, ("mask", "bool", "uint8"))):
        message = str(must_raise((RuntimeError, TypeError), lambda: wgridder.vis2dirty(**dict(base, **change, **HOST))))
        assert all(word in message for word in words), message
    given = {k: base[k] for k in ("uvw", "freq", "pixsize_x", "pixsize_y")}
    tiny = np.full((32, 36), 1e-40, "f4")
    message = str(must_raise(RuntimeError, lambda: wgridder.dirty2vis(dirty=tiny, epsilon=1e-5, **given, **HOST)))
    assert "model" in message and "single precision" in message, message
    wide = dict(given, pixsize_y=1e30, do_wgridding=False)
    assert "digits" in str(must_raise(RuntimeError, lambda: wgridder.dirty2vis(dirty=np.ones((32, 36)), epsilon=1e-5, **wide, **HOST)))
    accepted = [{"npix_x": 2}, {"vis": np.ma.array(base["vis"])}, {"epsilon": 0.5}, {"epsilon": 1e-13}, {"epsilon": 1e-6, "vis": base["vis"].astype("c8")},
                {"epsilon": 1e-5, "vis": (1e-36 * base["vis"]).astype("c8")}, {"epsilon": 1e-5, "vis": 1e-40 * base["vis"]},
                {"sigma_max": 1.2, "epsilon": 1e-2}, {"sigma_min": 0.5}, {"do_wgridding": 1}, {"nthreads": 0},
                {"do_wgridding": None}, {"flip_u": 1.0}, {"divide_by_n": np.int64(0)}, {"allow_nshift": np.array(True)},
                {"nthreads": 10**7}, {"nthreads": 2**64 - 1},
                {"wgt": -np.ones(base["vis"].shape)}, {"dirty": np.zeros((32, 38)), "npix_x": 0, "npix_y": 0},
                {"uvw": base["uvw"][:0], "vis": base["vis"][:0]}, {"npix_x": np.int32(32)}, {"vis": 0 * base["vis"]},
                {"mask": np.zeros(base["vis"].shape, np.uint8)}, {"freq": np.full(3, 1e9)}]
    for change in accepted:
        given = dict(base, **change)
        image = wgridder.vis2dirty(**given, **HOST)
        if peer:
            theirs = peer.vis2dirty(**given)
            assert image.shape == theirs.shape and image.dtype == theirs.dtype, change.keys()
    # The peer accepts these, and overwrites some elements by others.
    must_raise(RuntimeError, lambda: wgridder.vis2dirty(**dict(base, dirty=np.lib.stride_tricks.as_strided(np.zeros(2000), (32, 36), (8, 8)), **HOST)))
    must_raise(TypeError, lambda: wgridder.vis2dirty(**dict(base, backend=["cpu"])))
    # Here the peer kills the process.
    image = wgridder.vis2dirty(**dict(base, freq=base["freq"][:0], vis=base["vis"][:, :0]), **HOST)
    assert not image.any()


def check_repeated():
    """Calls that repeat earlier ones use the current elements of arrays; invalid elements are errors."""
    base, wrong = refused()
    base = dict(base, wgt=np.ones(base["vis"].shape), **HOST)
    truth = wgridder.vis2dirty(**base)
    for known in range(2):
        n = len(wgridder._known)
        for factor in (1, -2):
            assert distance(wgridder.vis2dirty(**dict(base, vis=factor * base["vis"])), factor * truth) <= 1e-13
            out = np.full(truth.shape, 7.0)
            assert wgridder.vis2dirty(**dict(base, wgt=factor * base["wgt"], dirty=out)) is out
            assert distance(out, factor * truth) <= 1e-13
        assert not known or len(wgridder._known) == n, "nothing new is to be found out of these"
    more = {TypeError: [{"nthreads": 1.0}, {"npix_x": 32.0}, {"epsilon": 1e-6 + 0j}, {"device": 0.0}, {"do_wgridding": []}, {"backend": []}],
            ValueError: [{"backend": "gpu"}], RuntimeError: []}
    for kind, changes in wrong.items():
        for change in changes + more[kind]:
            wgridder.vis2dirty(**base)
            for _ in range(2):
                must_raise(kind, lambda: wgridder.vis2dirty(**dict(base, **change)))
    # The same arrays with other elements.
    freq = base["freq"].copy()
    assert distance(wgridder.vis2dirty(**dict(base, freq=freq)), truth) <= 1e-13
    freq[:] = freq[::-1].copy()
    assert "ascending" in str(must_raise(RuntimeError, lambda: wgridder.vis2dirty(**dict(base, freq=freq))))
    # A number that may differ the next time.
    class Pixels:
        n = 32

        def __index__(self):
            return self.n
    pixels = Pixels()
    for pixels.n in (32, 34, 32):
        assert wgridder.vis2dirty(**dict(base, npix_x=pixels)).shape == (pixels.n, 36)
    model = np.random.default_rng(2).standard_normal((32, 36))
    given = {name: base[name] for name in ("uvw", "freq", "wgt", "pixsize_x", "pixsize_y", "epsilon", "backend")}
    vis, out = wgridder.dirty2vis(dirty=model, **given), np.zeros_like(base["vis"])
    for factor in (1, 3, -1):
        assert distance(wgridder.dirty2vis(dirty=factor * model, **given), factor * vis) <= 1e-13
        assert wgridder.dirty2vis(dirty=factor * model, vis=out, **given) is out and distance(out, factor * vis) <= 1e-13
    out.setflags(write=False)
    must_raise(ValueError, lambda: wgridder.dirty2vis(dirty=model, vis=out, **given))
    # The number of cached calls is limited.
    for n in range(wgridder._MOST_KNOWN + 5):
        wgridder.dirty2vis(dirty=model, **dict(given, uvw=given["uvw"][:n % 3], wgt=None, pixsize_x=1e-3 + 1e-6 * n))
    assert 0 < len(wgridder._known) <= wgridder._MOST_KNOWN


def check_reach():
    """Accuracies that windows of ducc0 reach with a bound of the oversampling are accepted, those far beyond are errors."""
    base, _ = refused()
    for sigma_max, flat, with_w in ((1.2, 1.5e-8, 7.4e-7), (1.35, 1.1e-10, 3.6e-9), (1.5, 4.1e-12, 7.7e-11), (1.65, 4.3e-13, 5.6e-12),
                                    (1.8, 9.6e-14, 8.7e-13), (2.0, 2.6e-14, 1.5e-13), (2.3, 1.1e-14, 2.9e-14)):
        for epsilon, wgridding in ((flat, False), (with_w, True)):
            given = dict(base, sigma_max=sigma_max, epsilon=epsilon, do_wgridding=wgridding)
            for module, host in ((wgridder, HOST),) + (((peer, {}),) if peer else ()):
                assert np.isfinite(module.vis2dirty(**given, **host)).all(), (sigma_max, epsilon)
                must_raise(RuntimeError, lambda: module.vis2dirty(**dict(given, epsilon=epsilon / 1.2 if epsilon > 2e-14 else 1e-15), **host))
    for change in ({"epsilon": 4.5e-7, "vis": base["vis"].astype("c8")}, {"epsilon": 7.5e-15}, {"epsilon": 1.7e-14, "do_wgridding": True},
                   {"epsilon": 8.2e-7, "vis": base["vis"].astype("c8"), "do_wgridding": True}):
        assert wgridder.vis2dirty(**dict(base, **change), **HOST).any() and (not peer or peer.vis2dirty(**dict(base, **change)).any())


def check_solver():
    """Conjugate gradients on the normal equations run with either module and end at the same image."""
    rng = np.random.default_rng(10)
    case = Case(rng, (16, 16), (0.02, 0.02), n_row=600)
    given = case.arguments(epsilon=1e-10, do_wgridding=True)

    def solve(module):
        def normal(image):
            vis = module.dirty2vis(dirty=image, **given)
            return module.vis2dirty(vis=vis, npix_x=16, npix_y=16, **given) + 0.3 * case.vis.size * image
        x = np.zeros(case.shape)
        r = module.vis2dirty(vis=case.vis, npix_x=16, npix_y=16, **given)
        p, rr = r.copy(), np.vdot(r, r)
        for _ in range(60):
            q = normal(p)
            step = rr / np.vdot(p, q)
            x, r = x + step * p, r - step * q
            rr, before = np.vdot(r, r), rr
            p = r + rr / before * p
        return x

    kernel = case.kernel(do_wgridding=True)
    matrix = (kernel.conj().T @ kernel).real + 0.3 * case.vis.size * np.eye(256)
    exact = np.linalg.solve(matrix, case.dirty(do_wgridding=True).ravel()).reshape(16, 16)
    assert distance(solve(wgridder), exact) <= 1e-8
    if peer:
        assert distance(solve(peer), exact) <= 1e-8


if __name__ == "__main__":
    print("with ducc0" if peer else "without ducc0")
    run_checks(globals())
    for reference, (n, part) in made.items():
        print(f"{n} comparisons with {reference}; the largest error was {part:.2f} of the bound")
