# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples, and the sums that define ducc0.wgridder's conventions, in double precision."""
import sys

import msimage
import numpy as np

LIGHT_M_S = 299792458.0


class Case:
    """Random samples for an image, and options of the functions under test."""

    def __init__(self, rng, shape, pixsize, reach=0.9, n_row=50, n_chan=3, single=False, weighted=False, masked=False):
        self.real = np.dtype("f4" if single else "f8")
        self.cplx = np.dtype("c8" if single else "c16")
        self.shape, self.pixsize = shape, pixsize
        self.freq = np.linspace(1.0e9, 1.3e9, n_chan)
        limit = [0.5 / pixsize[0], 0.5 / pixsize[1], 0.5 / pixsize[0]]
        self.uvw = rng.uniform(-1, 1, (n_row, 3)) * limit * reach * LIGHT_M_S / self.freq[-1]
        draw = rng.standard_normal((n_row, n_chan)) + 1j * rng.standard_normal((n_row, n_chan))
        self.vis = draw.astype(self.cplx)
        self.model = rng.standard_normal(shape).astype(self.real)
        self.wgt = rng.uniform(-0.5, 2, (n_row, n_chan)).astype(self.real) if weighted else None
        self.mask = (rng.uniform(0, 1, (n_row, n_chan)) > 0.3).astype(np.uint8) if masked else None
        if weighted:
            self.wgt[0] = 0

    def arguments(self, **more):
        return dict(uvw=self.uvw, freq=self.freq, wgt=self.wgt, mask=self.mask, pixsize_x=self.pixsize[0],
                    pixsize_y=self.pixsize[1], **more)

    def effective(self):
        """The factor of each sample."""
        weight = np.ones(self.vis.shape) if self.wgt is None else self.wgt.astype("f8")
        return np.nan_to_num(weight * (1 if self.mask is None else self.mask))

    def kernel(self, do_wgridding=False, divide_by_n=True, flip_u=False, flip_v=False, flip_w=False, center_x=0.0,
               center_y=0.0, **_):
        """exp(+2 pi i ..) [sample, pixel], divided by n if requested; a flip mirrors the centre too, as in ducc0."""
        signs = [-1 if flip else 1 for flip in (flip_u, flip_v, flip_w)]
        x = signs[0] * center_x + (np.arange(self.shape[0]) - self.shape[0] // 2) * self.pixsize[0]
        y = signs[1] * center_y + (np.arange(self.shape[1]) - self.shape[1] // 2) * self.pixsize[1]
        x, y = (a.ravel() for a in np.meshgrid(x, y, indexing="ij"))
        u, v, w = (np.outer(self.uvw[:, i] * signs[i], self.freq / LIGHT_M_S).reshape(-1, 1) for i in range(3))
        r2 = x * x + y * y
        root = np.sqrt(abs(1 - r2))
        n_1 = np.where(r2 <= 1, -r2 / (1 + root), -1 - root) if do_wgridding else 0 * x
        turns = u * x + v * y - w * n_1
        wave = np.exp(2j * np.pi * (turns - np.rint(turns)))
        return np.where(n_1 > -1, wave / (1 + n_1), 0) if divide_by_n and do_wgridding else wave

    def dirty(self, **options):
        vis = np.where(self.effective() != 0, np.nan_to_num(self.vis.astype("c16")), 0) * self.effective()
        return (vis.ravel() @ self.kernel(**options)).real.reshape(self.shape)

    def predicted(self, **options):
        return (self.kernel(**options).conj() @ self.model.astype("f8").ravel()).reshape(self.vis.shape) * \
            self.effective()


def distance(value, truth):
    """Relative L2 difference."""
    return np.linalg.norm(value.astype(truth.dtype) - truth) / np.linalg.norm(truth)


def run_checks(names):
    """Run the functions check_X of a test, given its globals(): TEST cpu|cuda [X..]; without X all."""
    if "cuda" in sys.argv[1:2] and not msimage.gpu_count():
        print("skipped: no GPU found")
        sys.exit(77)
    checks = {name[6:]: check for name, check in names.items() if name.startswith("check_")}
    for name in sys.argv[2:] or checks:
        checks[name]()
        print("ok", name)
