/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder's transpose on the GPU: what its kernels read and write, and the one for sparse items. */
#ifndef MSI_KERNELS_WGRID_DEGRID_CUDA_KERNELS_CUH
#define MSI_KERNELS_WGRID_DEGRID_CUDA_KERNELS_CUH

#include "kernels/wgrid/wgrid_widths_cuda.cuh"

namespace {

/*
 * A job of the degridding kernels: they read cells of one image's planes and write what samples sum up to. A sample's
 * visibility is its sum turned and, where w < 0, conjugated, at value [index]; samples that are placed<T> as gridding
 * has them keep their bare sums, at value [place], in the frame of their own values.
 */
template <typename T> struct degrid_job {
    const tap_table<T> *taps, *host_taps;
    const wanted<T> *samples; /* in order */
    bool in_place;            /* samples are placed<T> */
    const cplx<T> *grid;
    cplx<T> *value; /* the planes' part of a sample is added where `add`, else stored */
    bool add;

    /* Store the sum of the sample in a place. */
    __device__ __forceinline__ void store(int64_t place, const destination<T> &to, T re, T im) const
    {
        cplx<T> sum = {re, im};
        if (!in_place) {
            T sine, cosine;
            complex_cuda::sincos_turns(to.turns(), &sine, &cosine);
            const T turned_im = im * cosine + re * sine;
            sum = {re * cosine - im * sine, to.conjugate() ? -turned_im : turned_im};
        }
        cplx<T> *out = value + (in_place ? place : to.index);
        if (add) {
            sum.re += out->re;
            sum.im += out->im;
        }
        *out = sum;
    }
};

/* A warp degrids an item of at most 32 samples: lanes are cells of a row of taps, several rows at a time. */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WARPS<T, WIDTH>)
    k_degrid_sparse(msi_wgrid_geometry g, degrid_job<T> job, PLANES there, const item *items, int64_t n_item)
{
    using shape = tap_shape<WIDTH, HAS_W>;
    constexpr int N_COEF = shape::N_COEF, N_TAP = shape::N_TAP, ROW = shape::ROW, ROWS = shape::ROWS;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    __shared__ T table[N_COEF][N_TAP];
    __shared__ T tap[N_WARP][32][N_TAP + 1];
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = lane % ROW, first_row = lane / ROW;
    for (int64_t k = (int64_t)blockIdx.x * N_WARP + warp; k < n_item; k += (int64_t)gridDim.x * N_WARP) {
        item here = items[k];
        int n = (int)here.n;
        int64_t place = (int64_t)here.first + (lane < n ? lane : n - 1);
        record<T> r = job.samples[place].at;
        patch from = there.find(g, r); /* the same for all of an item */
        if (from.k_first >= from.k_end) continue;
        __syncwarp();
        lay_item_taps<T, N_COEF, WIDTH, N_TAP>(table, r, n, tap[warp]);
        __syncwarp();
        int k_end = HAS_W ? from.k_end : 1;
        int64_t planes = from.origin + from.k_first * from.plane_cells;
        T my_re = 0, my_im = 0;
        for (int i = 0; i < n; i++) {
            int u0 = __shfl_sync(~0u, r.u0, i), v0 = __shfl_sync(~0u, r.v0, i);
            T re = 0, im = 0;
            if (column < WIDTH) {
                int iu = msi_wrap_cell(u0 + column + from.shift_u, from.n_u);
                for (int j = first_row; j < WIDTH; j += ROWS) {
                    int iv = msi_wrap_cell(v0 + j + from.shift_v, from.n_v);
                    const cplx<T> *cell = job.grid + planes + (int64_t)iv * from.n_u + iu;
                    T a = 0, b = 0;
                    for (int w = from.k_first; w < k_end; w++, cell += from.plane_cells) {
                        T kw = HAS_W ? tap[warp][i][2 * WIDTH + w] : (T)1;
                        cplx<T> c = complex_cuda::read_only(cell);
                        a += kw * c.re;
                        b += kw * c.im;
                    }
                    T kv = tap[warp][i][WIDTH + j];
                    re += kv * a;
                    im += kv * b;
                }
                T ku = tap[warp][i][column];
                re *= ku;
                im *= ku;
            }
            for (int s = 16; s; s /= 2) {
                re += __shfl_xor_sync(~0u, re, s);
                im += __shfl_xor_sync(~0u, im, s);
            }
            if (lane == i) {
                my_re = re;
                my_im = im;
            }
        }
        if (lane < n) job.store(place, job.samples[place].to, my_re, my_im);
    }
}

/* Places a block that degrids crowded items: it holds N_PLANE w-planes of a tile's cells, plane p in place p
 * modulo N_PLANE of a ring. */
template <int N_PLANE, typename PLANES> struct degrid_stand {
    const msi_wgrid_geometry &g;
    const PLANES &there;
    int x = INT32_MIN, y = 0, z = 0; /* first taps of the tile, first w-plane */
    int number = 0;                  /* of that plane among those that are there */
    patch at = {};

    /* Move to another tile or first plane, where cells of these planes must be loaded: those from the returned one of
     * the N_PLANE on. */
    __device__ __forceinline__ int move(int x_, int y_, int z_)
    {
        const int moved = z_ - z;
        const bool stays = x == x_ && y == y_ && moved >= 0 && moved < N_PLANE;
        if (stays && moved == 0) return N_PLANE;
        x = x_;
        y = y_;
        z = z_;
        number += moved;
        if (stays) return N_PLANE - moved;
        const record<float> corner = {0, 0, 0, x_, y_, z_};
        at = there.find(g, corner);
        number = there.plane_number(g, corner);
        return 0;
    }
    /* Call f(s, number of the plane in place s) for every place. */
    template <class F> __device__ __forceinline__ void for_each_place(const F &f) const
    {
        const int turned = z % N_PLANE;
#pragma unroll
        for (int s = 0; s < N_PLANE; s++) f(s, number + (s < turned ? s - turned + N_PLANE : s - turned));
    }
    /* Call f(s, its number) for plane k's place s alone, in a branch of its own. */
    template <class F> __device__ __forceinline__ void at_place(int k, const F &f) const
    {
        const int place = (z + k) % N_PLANE;
#pragma unroll
        for (int s = 0; s < N_PLANE; s++)
            if (s == place) {
                f(s, number + k);
                asm volatile("");
            }
    }
    __device__ __forceinline__ bool holds(int plane) const
    {
        return (unsigned)plane < (unsigned)there.n_plane();
    }
    __device__ __forceinline__ uint32_t column(int u) const
    {
        return (uint32_t)msi_wrap_cell(x + u + at.shift_u, at.n_u);
    }
    __device__ __forceinline__ uint32_t row(int v) const
    {
        return (uint32_t)msi_wrap_cell(y + v + at.shift_v, at.n_v) * (uint32_t)at.n_u;
    }
};

/* Sum two complex numbers over four lanes that follow each other: every lane gets one part of the four. Returned: of
 * lanes 0 .. 3 the first one's re and im, the second one's re and im. */
template <typename T>
__device__ __forceinline__ T sum_over_four(T first_re, T first_im, T second_re, T second_im, int lane)
{
    const bool second = lane & 2, im = lane & 1;
    const T re = (second ? second_re : first_re) + __shfl_xor_sync(~0u, second ? first_re : second_re, 2);
    const T own_im = (second ? second_im : first_im) + __shfl_xor_sync(~0u, second ? first_im : second_im, 2);
    return (im ? own_im : re) + __shfl_xor_sync(~0u, im ? re : own_im, 1);
}

/* Let the warps of a block meet, which may be one. */
template <int N_WARP> __device__ __forceinline__ void meet()
{
    if constexpr (N_WARP == 1)
        __syncwarp();
    else
        __syncthreads();
}

} // namespace

#endif
