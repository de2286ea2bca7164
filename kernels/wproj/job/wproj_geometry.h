/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A sample's cell, sub-cell, w-slice and w-plane in w-projection, for CPU and GPU. */
#ifndef MSI_KERNELS_WPROJ_GEOMETRY_H
#define MSI_KERNELS_WPROJ_GEOMETRY_H

#include <math.h>
#include <stdint.h>

#include "kernels/method/geometry.h"

/*
 * Axes and signs follow msi_wgrid_geometry: gu = -u cell_x nu and gv = v cell_y nv, in cells of the padded grid.
 * Cell 0 is u = v = 0. A forward transform (exponent -2 pi i) of the grid gives the image. Samples with w < 0 are
 * replaced by their conjugates.
 *
 * The range of |w| is divided into slices of equal thickness. A sample belongs to one slice, and the convolution
 * function corrects for r = |w| - (centre of the slice). Plane p has the kernel of |r| = msi_wproj_plane_w(p); samples
 * with r < 0 use its conjugate. The rounding error d = r - (signed w of the plane) turns a sample's phase by d (n - 1).
 * Each sample is corrected for the turn at the middle of the field's range of n - 1 (msi_wproj_place.turns), so only
 * half of that range contributes to the error.
 */
typedef struct msi_wproj_geometry {
    int64_t nu, nv;          /* padded grid: the period of gu and gv */
    double u_cells_per_m_hz; /* multiplies u[m] * freq[Hz] */
    double v_cells_per_m_hz;
    double w_lambda_per_m_hz; /* 1/c */
    double slice_first;       /* |w| in wavelengths at which slice 0 begins */
    double slice_step;        /* thickness; 0 if n_slice is 1: slice_first is then the centre of the slice */
    int32_t n_slice;
    int32_t n_plane;    /* planes 0 .. n_plane - 1, shared by all slices */
    double plane_scale; /* plane = round(sqrt(|r| plane_scale)), or round(|r| plane_scale) */
    int32_t plane_sqrt; /* 1: spaced by the square root of |r|, 0: evenly */
    int32_t oversample; /* sub-cells a cell, even */
    int32_t linear;     /* 1: kernels are interpolated linearly between sub-offsets, 0: nearest */
    double n_mid;       /* middle of the field's range of n - 1; 0: do not correct phases */
} msi_wproj_geometry;

/* The cell and the kernel of a sample. */
typedef struct msi_wproj_place {
    int32_t u, v; /* nearest cell; the footprint is u - half .. u + half */
    /* The nearest sub-offset, or with linear interpolation the lower of the two; in [-oversample/2, oversample/2]. */
    int32_t sub_u, sub_v;
    double frac_u, frac_v; /* linear: weight of the next sub-offset, 0 .. 1; nearest: 0 */
    int32_t slice, plane;
    int32_t conjugate_vis;    /* w < 0: grid the conjugate of the visibility (u and v above belong to -u, -v) */
    int32_t conjugate_kernel; /* r < 0 */
    double turns;             /* multiply the visibility by exp(-2 pi i turns) when gridding */
} msi_wproj_place;

/* msi_wproj_cell, .._f32 - return the cell nearest to a coordinate in cells. Ties go to the even cell, as by rint. */
MSI_HD int32_t msi_wproj_cell(double g)
{
    return (int32_t)rint(g);
}

MSI_HD int32_t msi_wproj_cell_f32(float g)
{
    return (int32_t)rintf(g);
}

/*
 * msi_wproj_sub, .._f32 - return the sub-offset nearest to g from its cell, -oversample/2 .. oversample/2. Both ends
 * occur, because a sample half a cell away keeps its cell. Tables contain both.
 */
MSI_HD int32_t msi_wproj_sub(double g, int32_t cell, int32_t oversample)
{
    return (int32_t)rint((g - cell) * oversample);
}

MSI_HD int32_t msi_wproj_sub_f32(float g, int32_t cell, int32_t oversample)
{
    return (int32_t)rintf((g - (float)cell) * (float)oversample);
}

/*
 * msi_wproj_sub_linear - return the lower of the two sub-offsets around g, and set *frac in [0, 1] to the weight of the
 * upper one. *frac is rounded to 24 bits, the precision of stored samples, so that all strategies use the same value.
 * Rounding moves a kernel by at most 3e-8 of a sub-cell.
 */
MSI_HD int32_t msi_wproj_sub_linear(double g, int32_t cell, int32_t oversample, double *frac)
{
    double x = (g - cell) * oversample, low = floor(x);
    if (low > oversample / 2 - 1) low = oversample / 2 - 1;
    if (low < -(oversample / 2)) low = -(oversample / 2);
    *frac = (float)(x - low);
    return (int32_t)low;
}

/* msi_wproj_plane, .._f32 - return the plane nearest to |r| in wavelengths, at most n_plane - 1. */
MSI_HD int32_t msi_wproj_plane(double r_abs, double plane_scale, int32_t plane_sqrt, int32_t n_plane)
{
    double x = r_abs * plane_scale, p = rint(plane_sqrt ? sqrt(x) : x);
    return p < n_plane ? (int32_t)p : n_plane - 1;
}

MSI_HD int32_t msi_wproj_plane_f32(float r_abs, float plane_scale, int32_t plane_sqrt, int32_t n_plane)
{
    float x = r_abs * plane_scale, p = rintf(plane_sqrt ? sqrtf(x) : x);
    return p < (float)n_plane ? (int32_t)p : n_plane - 1;
}

/* msi_wproj_plane_w - return the |r| of plane p in wavelengths. */
MSI_HD double msi_wproj_plane_w(const msi_wproj_geometry *g, int32_t plane)
{
    double p = plane;
    return g->plane_scale > 0 ? (g->plane_sqrt ? p * p : p) / g->plane_scale : 0;
}

/* msi_wproj_slice - return the slice that contains |w| in wavelengths. A slice includes its upper end. */
MSI_HD int32_t msi_wproj_slice(const msi_wproj_geometry *g, double w_abs)
{
    if (g->n_slice <= 1) return 0;
    double s = ceil((w_abs - g->slice_first) / g->slice_step - 1);
    return s < 0 ? 0 : s < g->n_slice ? (int32_t)s : g->n_slice - 1;
}

/* msi_wproj_slice_w - return the |w| in wavelengths of a slice's centre. */
MSI_HD double msi_wproj_slice_w(const msi_wproj_geometry *g, int32_t slice)
{
    return g->slice_first + (slice + 0.5) * g->slice_step;
}

/*
 * msi_wproj_locate_in - compute the cell, sub-offsets and plane of a sample in a slice, in double precision.
 * Given:    uvw_m [3]
 *           wrapped  1: accept samples beyond the image's uv plane, which is periodic in u and v (prediction)
 * Returned: *p
 */
MSI_HD void msi_wproj_locate_in(const msi_wproj_geometry *g, const double *uvw_m, double freq_hz, int wrapped,
                                int32_t slice, msi_wproj_place *p)
{
    p->conjugate_vis = uvw_m[2] < 0;
    double sign_freq = p->conjugate_vis ? -freq_hz : freq_hz;
    double gu = uvw_m[0] * sign_freq * g->u_cells_per_m_hz, gv = uvw_m[1] * sign_freq * g->v_cells_per_m_hz;
    if (wrapped) {
        gu = msi_wrap(gu, g->nu);
        gv = msi_wrap(gv, g->nv);
    }
    p->u = msi_wproj_cell(gu);
    p->v = msi_wproj_cell(gv);
    p->frac_u = p->frac_v = 0;
    if (g->linear) {
        p->sub_u = msi_wproj_sub_linear(gu, p->u, g->oversample, &p->frac_u);
        p->sub_v = msi_wproj_sub_linear(gv, p->v, g->oversample, &p->frac_v);
    } else {
        p->sub_u = msi_wproj_sub(gu, p->u, g->oversample);
        p->sub_v = msi_wproj_sub(gv, p->v, g->oversample);
    }
    double r = uvw_m[2] * sign_freq * g->w_lambda_per_m_hz - msi_wproj_slice_w(g, slice);
    p->slice = slice;
    p->conjugate_kernel = r < 0;
    p->plane = msi_wproj_plane(fabs(r), g->plane_scale, g->plane_sqrt, g->n_plane);
    double plane_w = msi_wproj_plane_w(g, p->plane);
    p->turns = (r < 0 ? r + plane_w : r - plane_w) * g->n_mid;
}

/* msi_wproj_wrap - wrap a cell of the unbounded plane to 0 .. n - 1, where 0 is u = 0. */
MSI_HD int64_t msi_wproj_wrap(int64_t cell, int64_t n)
{
    int64_t r = cell % n;
    return r < 0 ? r + n : r;
}

#endif
