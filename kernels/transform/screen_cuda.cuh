/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Screens, sums over planes, and the taper correction of all gridders on the GPU: from transformed planes to an image,
 * and from a model to planes. */
#ifndef MSI_KERNELS_SCREEN_CUDA_CUH
#define MSI_KERNELS_SCREEN_CUDA_CUH

#include "kernels/method/geometry.h"
#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/transform/screen_taper.h"

namespace {

using complex_cuda::cplx;
using complex_cuda::sincos_turns;

struct screen_geometry {
    int64_t nx, ny, nu, nv;
    double cell_x_rad, cell_y_rad, w_first, w_step, n_mid;
    int has_w;
    double l_center, m_center; /* direction of pixel (nx/2, ny/2) */
    double beyond;             /* argument of msi_n_minus_1_to; 0: pixels beyond the horizon are NaN */
};

/* Add planes [low, high) to an image: sum [ny][nx] += Re sum_p plane_p exp(-2 pi i w_p (n - 1 - n_mid)). */
template <typename T, typename SUM>
__global__ void k_screen(screen_geometry g, const cplx<T> *planes, int low, int high, SUM *sum)
{
    int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, y = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= g.nx || y >= g.ny) return;
    int64_t i = x - g.nx / 2, j = y - g.ny / 2;
    const cplx<T> *at = planes + (j < 0 ? j + g.nv : j) * g.nu + (i < 0 ? i + g.nu : i);
    double l = g.l_center - (double)i * g.cell_x_rad, m = g.m_center + (double)j * g.cell_y_rad;
    double nu = g.has_w ? msi_n_minus_1_to(l, m, g.beyond) - g.n_mid : 0;
    double total = 0;
    for (int p = low; p < high; p++, at += g.nu * g.nv) {
        double turns = (g.w_first + p * g.w_step) * nu;
        T s, c;
        sincos_turns((T)(turns - rint(turns)), &s, &c);
        total += (double)(at->re * c + at->im * s);
    }
    sum[y * g.nx + x] += (SUM)total;
}

/* Divide sum [ny][nx] by the windows' transforms and scale it. image may be the same array. Pixels beyond the horizon
 * become NaN, unless the screen goes beyond. */
template <typename SUM, typename T>
__global__ void k_correct(screen_geometry g, msi_taper taper, double scale, const SUM *sum, T *image)
{
    int64_t x = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, y = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= g.nx || y >= g.ny) return;
    double l = g.l_center + (double)(g.nx / 2 - x) * g.cell_x_rad,
           m = g.m_center + (double)(y - g.ny / 2) * g.cell_y_rad;
    double value = (double)sum[y * g.nx + x] * scale * taper.along_x[x] * taper.along_y[y];
    if (taper.has_w)
        value *= msi_taper_w(taper.term, taper.n_term, taper.w_scale, taper.n_mid, msi_n_minus_1_to(l, m, g.beyond));
    image[y * g.nx + x] = g.beyond > 0 || l * l + m * m < 1 ? (T)value : (T)nan("");
}

/* Compute the cell of a plane at w wavelengths for pixel (x, y) of a model image [ny][nx]: divided by the windows'
 * transforms, times exp(+2 pi i w (n - 1 - n_mid)). */
template <typename T>
__device__ __forceinline__ cplx<T> screened_model(const screen_geometry &g, const msi_taper &taper, const T *model,
                                                  int64_t x, int64_t y, double w_lambda)
{
    const T value = model[y * g.nx + x];
    const double l = g.l_center + (double)(g.nx / 2 - x) * g.cell_x_rad,
                 m = g.m_center + (double)(y - g.ny / 2) * g.cell_y_rad;
    if (value == 0 || (g.beyond == 0 && l * l + m * m >= 1)) return {0, 0};
    double factor = taper.along_x[x] * taper.along_y[y], n_1 = msi_n_minus_1_to(l, m, g.beyond);
    if (taper.has_w) factor *= msi_taper_w(taper.term, taper.n_term, taper.w_scale, taper.n_mid, n_1);
    const double turns = g.has_w ? w_lambda * (n_1 - g.n_mid) : 0;
    const T scaled = (T)((double)value * factor);
    T s, c;
    sincos_turns((T)(turns - rint(turns)), &s, &c);
    return {scaled * c, scaled * s};
}

/* Copy a screened model image to plane p, zero-padded to [nv][nu], for the transform. One thread for each cell. */
template <typename T>
__global__ void k_spread_model(screen_geometry g, msi_taper taper, const T *model, int p, cplx<T> *plane)
{
    int64_t iu = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, iv = (int64_t)blockIdx.y * blockDim.y + threadIdx.y;
    if (iu >= g.nu || iv >= g.nv) return;
    int64_t x = (iu < g.nx - g.nx / 2 ? iu : iu - g.nu) + g.nx / 2;
    int64_t y = (iv < g.ny - g.ny / 2 ? iv : iv - g.nv) + g.ny / 2;
    cplx<T> out = {0, 0};
    if (x >= 0 && y >= 0) out = screened_model(g, taper, model, x, y, g.w_first + p * g.w_step);
    plane[iv * g.nu + iu] = out;
}

} // namespace

#endif
