/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Device code that computes the heads and values of samples. */
#ifndef MSI_KERNELS_WPROJ_LOCATE_CUH
#define MSI_KERNELS_WPROJ_LOCATE_CUH

#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/wproj/job/wproj_sort_cuda.h"

namespace wproj_locate {

using complex_cuda::cplx;
using complex_cuda::sincos_turns;

template <typename T> struct record {
    msi_wproj_head head;
    cplx<T> value;
};

template <typename T> __device__ inline record<T> locate_f32(const msi_wproj_samples_f32 &s, int64_t i)
{
    float gu = __fmul_rn(s.u[i], s.scale_u), gv = __fmul_rn(s.v[i], s.scale_v), w = s.w[i];
    int32_t u = msi_wproj_cell_f32(gu), v = msi_wproj_cell_f32(gv);
    int32_t middle = s.oversample / 2, sub_u = msi_wproj_sub_f32(gu, u, s.oversample) + middle,
            sub_v = msi_wproj_sub_f32(gv, v, s.oversample) + middle;
    int32_t plane = msi_wproj_plane_f32(fabsf(w), s.plane_scale, 1, s.n_plane);
    T weight = s.weight[i];
    msi_c32 vis = s.vis[i];
    return {{msi_wproj_pack_cell(u + s.origin_u, v + s.origin_v), msi_wproj_pack_kernel(plane, sub_u, sub_v, w > 0)},
            {weight * vis.re, weight * vis.im}};
}

/* Compute the value of sample `at` for an image: its visibility weighted, conjugated if its coordinates are, and
 * corrected for the residual phase. */
template <typename T>
__device__ inline cplx<T> store_value(const msi_wproj_samples &s, int image, int64_t at, const msi_wproj_place &p)
{
    int32_t plane = s.store_plane[image];
    int64_t from = (plane < 0 ? 0 : plane) * s.n + at;
    T weight = s.weight[from], re = weight, im = 0, sine, cosine;
    if (plane >= 0) {
        cplx<T> v = static_cast<const cplx<T> *>(s.vis)[from];
        re = weight * v.re;
        im = p.conjugate_vis ? -weight * v.im : weight * v.im;
    }
    sincos_turns((T)(p.turns - rint(p.turns)), &sine, &cosine);
    return {re * cosine + im * sine, im * cosine - re * sine};
}

/* Return whether a sample has a weight in any image. */
__device__ inline bool has_weight(const msi_wproj_samples &s, int64_t at)
{
    if (!s.weight) return true;
    for (int i = 0; i < s.n_image; i++)
        if (s.weight[(s.store_plane[i] < 0 ? 0 : s.store_plane[i]) * s.n + at] > 0) return true;
    return false;
}

} // namespace wproj_locate

#endif
