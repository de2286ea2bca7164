/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Formulas from a visibility's coordinates to cells, fractions, w-planes and tiles, written once for CPU and GPU. */
#ifndef MSI_KERNELS_METHOD_GEOMETRY_H
#define MSI_KERNELS_METHOD_GEOMETRY_H

#include <math.h>
#include <stdint.h>

#include "core/types.h"

#ifdef __CUDACC__
#define MSI_HD __host__ __device__ static inline
#else
#define MSI_HD static inline
#endif

/*
 * The geometry turns coordinates in metres into coordinates in cells of the padded grid.
 *
 * Image pixel i = x - nx/2 lies at l = -i cell_x, so exp(-2 pi i u l) = exp(-2 pi i U i) with U = -u cell_x; in the
 * same way V = v cell_y. A cell of the padded grid is 1/n_grid of the period of U and V. w-planes lie w_step apart;
 * plane 0 at w_first. Samples with w < 0 enter as their conjugates, which leaves a real image unchanged.
 */
typedef struct msi_wgrid_geometry {
    int64_t nu, nv;             /* padded grid */
    int32_t width;              /* taps of the window in u and v */
    int32_t w_width;            /* taps in w: width, or 1 if there is only one plane */
    int32_t n_w;                /* planes */
    int32_t tile;               /* edge of a square tile of first taps, in cells */
    int64_t n_tile_u, n_tile_v; /* tiles; first taps lie in [-n/2 - width, n/2] */
    double u_cells_per_m_hz;    /* multiplies u[m] * freq[Hz] */
    double v_cells_per_m_hz;
    double w_lambda_per_m_hz;          /* 1/c */
    double w_first, w_step;            /* wavelengths */
    double n_mid;                      /* middle of the image's range of n - 1; w-planes are for n - 1 - n_mid */
    double n_half;                     /* half the width of that range */
    double l_center_rad, m_center_rad; /* direction of pixel (nx/2, ny/2) */
    double u_limit, v_limit;           /* |u|, |v| in cells beyond which the image cannot hold a sample */
    double beyond;                     /* argument of msi_n_minus_1_to; 0: pixels beyond the horizon are NaN */
} msi_wgrid_geometry;

/* A footprint begins at cell (u0, v0) of w-plane w0; z in [-1, 1) is the distance of its first taps from the window's
 * edge. */
typedef struct msi_footprint {
    int32_t u0, v0, w0;
    double zu, zv, zw;
} msi_footprint;

/*
 * msi_first_tap - find the first cell of a window of `width` taps centred on x: it covers t0 .. t0 + width - 1.
 * Returned: *t0, and z = 2 f - 1 with f = t0 - (x - width/2) in [0, 1).
 */
MSI_HD void msi_first_tap(double x, int width, int32_t *t0, double *z)
{
    double edge = x - 0.5 * width;
    double first = ceil(edge);
    *t0 = (int32_t)first;
    *z = 2 * (first - edge) - 1;
}

/* msi_uv_outside - return 1 if the sample lies outside the uv plane that the image can hold. u, v in metres. */
MSI_HD int msi_uv_outside(const msi_wgrid_geometry *g, double u_m, double v_m, double freq_hz)
{
    return fabs(u_m * freq_hz * g->u_cells_per_m_hz) > g->u_limit ||
           fabs(v_m * freq_hz * g->v_cells_per_m_hz) > g->v_limit;
}

/*
 * msi_product - return a * b, rounded. Otherwise a compiler may fuse the product with a following sum in one place and
 * not in another. A sample on the border of two cells could then be sorted into one tile and gridded from the next.
 */
MSI_HD double msi_product(double a, double b)
{
#ifdef __CUDA_ARCH__
    return __dmul_rn(a, b);
#else
    double product = a * b;
#if defined(__x86_64__)
    __asm__("" : "+x"(product));
#elif defined(__aarch64__)
    __asm__("" : "+w"(product));
#endif
    return product;
#endif
}

/*
 * msi_wrap - move x by whole periods of n cells into [-n/2, n/2]: pixels are integers, so the uv plane is periodic.
 * Exact up to 2^53 periods; the last step clamps larger values, whose phase is below the resolution of a double.
 */
MSI_HD double msi_wrap(double x, int64_t n)
{
    double period = (double)n, half = 0.5 * period, r = x - period * rint(x / period);
    r = r > -half ? r : -half;
    return r < half ? r : half;
}

/* msi_wrap_cell - map cell x of a periodic grid of n cells, -n <= x < 2n, to 0 .. n - 1. */
MSI_HD int msi_wrap_cell(int x, int n)
{
    return x < 0 ? x + n : x >= n ? x - n : x;
}

/* msi_locate_any - do the work of msi_locate, or of msi_locate_wrapped if `wrapped`, which is a constant in every
 * call. */
MSI_HD int msi_locate_any(const msi_wgrid_geometry *g, const double *uvw_m, double freq_hz, int wrapped,
                          msi_footprint *f, double *w_lambda)
{
    int conjugate = uvw_m[2] < 0;
    double sign_freq = conjugate ? -freq_hz : freq_hz;
    double u = msi_product(uvw_m[0] * sign_freq, g->u_cells_per_m_hz);
    double v = msi_product(uvw_m[1] * sign_freq, g->v_cells_per_m_hz);
    msi_first_tap(wrapped ? msi_wrap(u, g->nu) : u, g->width, &f->u0, &f->zu);
    msi_first_tap(wrapped ? msi_wrap(v, g->nv) : v, g->width, &f->v0, &f->zv);
    *w_lambda = msi_product(uvw_m[2] * sign_freq, g->w_lambda_per_m_hz);
    if (g->w_width > 1) {
        msi_first_tap((*w_lambda - g->w_first) / g->w_step, g->w_width, &f->w0, &f->zw);
        /* Rounding of an extreme |w| must not lead beyond the planes. */
        if (f->w0 < 0) f->w0 = 0;
        if (f->w0 > g->n_w - g->w_width) f->w0 = g->n_w - g->w_width;
    } else {
        f->w0 = 0;
        f->zw = 0;
    }
    return conjugate;
}

/*
 * msi_locate - find the footprint of a sample that lies inside the uv plane.
 * Given:   uvw_m [3] metres, freq_hz
 * Returns: 1 if w < 0 and the visibility must be conjugated, else 0; *w_lambda is |w| in wavelengths.
 */
MSI_HD int msi_locate(const msi_wgrid_geometry *g, const double *uvw_m, double freq_hz, msi_footprint *f,
                      double *w_lambda)
{
    return msi_locate_any(g, uvw_m, freq_hz, 0, f, w_lambda);
}

/* msi_locate_wrapped - find the footprint of any sample, moved into the uv plane by whole periods. */
MSI_HD int msi_locate_wrapped(const msi_wgrid_geometry *g, const double *uvw_m, double freq_hz, msi_footprint *f,
                              double *w_lambda)
{
    return msi_locate_any(g, uvw_m, freq_hz, 1, f, w_lambda);
}

/* msi_bucket - return the index of a footprint's bucket: [w0][row of tiles][column of tiles]. */
MSI_HD int64_t msi_bucket(const msi_wgrid_geometry *g, const msi_footprint *f)
{
    int64_t tu = (f->u0 + g->nu / 2 + g->width) / g->tile;
    int64_t tv = (f->v0 + g->nv / 2 + g->width) / g->tile;
    return ((int64_t)f->w0 * g->n_tile_v + tv) * g->n_tile_u + tu;
}

/* msi_n_minus_1_to - return n - 1 without cancellation. At and beyond the horizon return -1 - beyond sqrt(r2 - 1), with
 * r2 = l^2 + m^2. Given: beyond  1: ducc0's continuation beyond the horizon; 0: -1 there */
MSI_HD double msi_n_minus_1_to(double l, double m, double beyond)
{
    double r2 = l * l + m * m;
    if (r2 >= 1) return -1 - beyond * sqrt(r2 - 1);
    return -r2 / (1 + sqrt(1 - r2));
}

/* msi_n_minus_1 - return n - 1; -1 at and beyond the horizon. */
MSI_HD double msi_n_minus_1(double l, double m)
{
    return msi_n_minus_1_to(l, m, 0);
}

#endif
