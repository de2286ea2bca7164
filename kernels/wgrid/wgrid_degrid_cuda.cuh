/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The degridding kernels of the default gridder: one for sparse items, and two for crowded items, which sum cells by
 * matrix products of doubles and of halves. degrid_items chooses the kernel. */
#ifndef MSI_WGRID_DEGRID_CUDA_CUH
#define MSI_WGRID_DEGRID_CUDA_CUH

#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/wgrid/wgrid_crowded_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_cuda_kernels.cuh"

namespace {

/*
 * A job of the degridding kernels: the cells of one image's planes, and the visibilities to write. The visibility of a
 * wanted<T> is its sum times the phase factor of the mean n - 1, conjugated if w < 0, at value [index]. Samples that
 * gridding has sorted (placed<T>) get the sum without this factor, at value [place], because their values have the
 * inverse factor.
 */
template <typename T> struct degrid_job {
    const tap_table<T> *taps, *host_taps;
    const wanted<T> *samples; /* sorted */
    bool in_place;            /* samples are placed<T> */
    const cplx<T> *grid;
    cplx<T> *value; /* sums are added if `add`, otherwise stored */
    bool add;

    /* Store the sum of the sample at a place. */
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

/* A warp degrids an item of at most 32 samples. Lanes are cells of a row of taps, several rows at a time. */
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

/* The position of a block that degrids crowded items. The block holds N_PLANE w-planes of a tile's cells in a ring,
 * plane p in place p modulo N_PLANE. */
template <int N_PLANE, typename PLANES> struct degrid_position {
    const msi_wgrid_geometry &g;
    const PLANES &there;
    int x = INT32_MIN, y = 0, z = 0; /* first taps of the tile, first w-plane */
    int number = 0;                  /* index of that plane, counted from the first one in memory */
    patch at = {};

    /* Move to another tile or first plane. Returns: the first of the N_PLANE planes that must be loaded; all later ones
     * must be loaded too */
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
    /* Call f(s, its number) for the place s of plane k only, in a separate branch. */
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

/* Sum two complex numbers over four neighbouring lanes. Each lane gets one of the four parts. Returned: in lanes 0 .. 3
 * the first number's re and im, the second number's re and im */
template <typename T>
__device__ __forceinline__ T sum_over_four(T first_re, T first_im, T second_re, T second_im, int lane)
{
    const bool second = lane & 2, im = lane & 1;
    const T re = (second ? second_re : first_re) + __shfl_xor_sync(~0u, second ? first_re : second_re, 2);
    const T own_im = (second ? second_im : first_im) + __shfl_xor_sync(~0u, second ? first_im : second_im, 2);
    return (im ? own_im : re) + __shfl_xor_sync(~0u, im ? re : own_im, 1);
}

/* Synchronise the warps of a block, which may be only one. */
template <int N_WARP> __device__ __forceinline__ void meet()
{
    if constexpr (N_WARP == 1)
        __syncwarp();
    else
        __syncthreads();
}

/* ---- Crowded items in double precision --------------------------------------------------------------------------- */

/*
 * Crowded items in double precision, and in single with wide windows, on tensor cores. A sample's sum over a tile's
 * cells of w-plane p is one row of a matrix product with the cells along u as K,
 *
 *     V_s = sum_p kw_s[p] sum_v kv_s[v] (sum_u ku_s[u] G_p[u][v]),
 *
 * up to sixteen samples of one tile and first w-plane a step. Taps are padded with zeros on both sides, so that the
 * same cells along u serve a whole tile. A block holds the cells of a tile's W planes in registers: plane p is in place
 * p modulo W of a ring, and a plane is loaded when the first plane moves up. A warp has four cells along v, whose re
 * and im are the columns of the products.
 */

template <typename T, int WIDTH, bool HAS_W> struct doubles_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1, ITEM = ring_group<T>(WIDTH);
    static constexpr tile_shape TILE = ring_tile<T>(WIDTH);
    static constexpr int EDGE_U = TILE.u, EDGE_V = TILE.v;
    /* Cells of a tile's footprints. */
    static constexpr int CELLS_U = EDGE_U + WIDTH - 1, CELLS_V = EDGE_V + WIDTH - 1;
    static constexpr int FOURS_U = (CELLS_U + 3) / 4, N_WARP = (CELLS_V + 3) / 4;
    /* Rows of an odd number of doubles begin in different banks. */
    static constexpr int ROW_U = (EDGE_U - 1 + 4 * FOURS_U) | 1, ROW_V = (EDGE_V - 1 + 4 * N_WARP) | 1;
    /* Blocks of a multiprocessor: a thread has its cells and about 55 more registers. */
    static constexpr int CELL_REGISTERS = 2 * N_PLANE * FOURS_U;
    static constexpr int REGISTERS = CELL_REGISTERS < 45 ? 100 : CELL_REGISTERS + 55;
    static constexpr int BLOCKS = REGISTERS > 255 ? 1 : 65536 / (32 * N_WARP * REGISTERS);
};

/* Taps of a batch's samples, and their sums. */
template <typename T, int WIDTH, bool HAS_W> struct doubles_memory {
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    double u[RING_BATCH][shape::ROW_U], v[RING_BATCH][shape::ROW_V]; /* cell c of the tile is at first + c */
    double w[shape::N_PLANE][RING_BATCH];                            /* in the order of the ring */
    int first_u[RING_BATCH], first_v[RING_BATCH];
    cplx<double> sum[shape::N_WARP][RING_BATCH];
};

/* One warp's part of a block: its cells, and the sums over them. All warps of a block lay out taps (lay_batch),
 * synchronise, and sum (add_batch). */
template <typename T, int WIDTH, bool HAS_W, typename PLANES> struct doubles_sums {
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    static constexpr int N_PLANE = shape::N_PLANE, FOURS_U = shape::FOURS_U;
    const msi_wgrid_geometry &g;
    const degrid_job<T> &job;
    const even_taps<T, WIDTH> &window;
    doubles_memory<T, WIDTH, HAS_W> &m;
    const int lane, warp, row, pair; /* place in tensor cores' operands */
    degrid_position<N_PLANE, PLANES> stand;
    int3 own = {};                       /* position of a lane's sample: first taps of its tile, first w-plane */
    double cells[N_PLANE][FOURS_U] = {}; /* [place][four]: re or im of the cell at u = 4 four + pair, v = cell_v() */
    uint32_t column[FOURS_U] = {}, row_cell = 0; /* indices of the cells that this lane loads */

    __device__ __forceinline__ int cell_v() const
    {
        return 4 * warp + row / 2;
    }

    /* Lay out the taps of a batch, one sample a lane. Warps share the parts: along u, v, w. */
    __device__ __forceinline__ void lay_batch(const record<T> &r)
    {
        const int in_u = in_ring_tile<shape::EDGE_U>(r.u0, g.nu, WIDTH, stand.there);
        const int in_v = in_ring_tile<shape::EDGE_V>(r.v0, g.nv, WIDTH, stand.there);
        own = {r.u0 - in_u, r.v0 - in_v, r.w0};
        for (int part = warp; part < 3; part += shape::N_WARP) {
            if (part < 2) {
                double *to = part ? &m.v[lane][shape::EDGE_V - 1] : &m.u[lane][shape::EDGE_U - 1];
                for_each_tap<T, WIDTH>(window.uv, part ? r.zv : r.zu, [&](int k, T tap) { to[k] = tap; });
            } else if (HAS_W) {
                const int first = r.w0 % N_PLANE;
                for_each_tap<T, WIDTH>(window.w, r.zw, [&](int k, T tap) {
                    m.w[first + k < N_PLANE ? first + k : first + k - N_PLANE][lane] = tap;
                });
            } else {
                m.w[0][lane] = 1;
            }
        }
        if (warp == shape::N_WARP - 1) {
            m.first_u[lane] = shape::EDGE_U - 1 - in_u;
            m.first_v[lane] = shape::EDGE_V - 1 - in_v;
        }
    }

    /* Load a plane's cells. */
    __device__ __forceinline__ void load(double (&to)[FOURS_U], int plane) const
    {
        const T *from = reinterpret_cast<const T *>(job.grid + plane * stand.at.plane_cells + row_cell) + row % 2;
        const bool reads = stand.holds(plane) && cell_v() < shape::CELLS_V;
#pragma unroll
        for (int f = 0; f < FOURS_U; f++)
            to[f] = reads && 4 * f + pair < shape::CELLS_U ? __ldg(from + 2 * column[f]) : 0;
    }

    /* Move to the position of sample `first` of the batch, and load the missing planes. */
    __device__ __forceinline__ void follow(int first)
    {
        int fresh =
            stand.move(__shfl_sync(~0u, own.x, first), __shfl_sync(~0u, own.y, first), __shfl_sync(~0u, own.z, first));
        if (fresh == 0) {
#pragma unroll
            for (int f = 0; f < FOURS_U; f++) column[f] = stand.column(4 * f + pair);
            row_cell = stand.row(cell_v());
            stand.for_each_place([&](int s, int plane) { load(cells[s], plane); });
            return;
        }
        for (; fresh < N_PLANE; fresh++) stand.at_place(fresh, [&](int s, int plane) { load(cells[s], plane); });
    }

    /* Sum cells for samples [first, end) of a batch, at most sixteen. Sums of other rows are dropped. */
    __device__ __forceinline__ void add_step(int first, int end)
    {
        follow(first);
        const int sample[2] = {first + row, (first + row + 8) % RING_BATCH};
        double taps[2 * FOURS_U], sum[2][2] = {}, total[2][2] = {}; /* [sample][re, im] */
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int f = 0; f < FOURS_U; f++)
                taps[2 * f + i] = m.u[sample[i] % RING_BATCH][m.first_u[sample[i] % RING_BATCH] + 4 * f + pair];
#pragma unroll
        for (int s = 0; s < N_PLANE; s++) {
            double part[4] = {};
            mma::multiply_add_fours<FOURS_U>(part, taps, cells[s]);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                const double w = m.w[s][sample[i] % RING_BATCH];
                sum[i][0] += w * part[2 * i];
                sum[i][1] += w * part[2 * i + 1];
            }
        }
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int at = sample[i] % RING_BATCH;
            const double v = m.v[at][m.first_v[at] + 4 * warp + pair];
            total[i][0] = v * sum[i][0];
            total[i][1] = v * sum[i][1];
        }
        const double x = sum_over_four(total[0][0], total[0][1], total[1][0], total[1][1], lane);
        const int to = first + row + pair / 2 * 8;
        if (to < end) (&m.sum[warp][to].re)[pair % 2] = x;
    }

    /* Sum cells for the first n samples of a batch, as many at a time as share a tile and first w-plane. */
    __device__ __forceinline__ void add_batch(int n)
    {
        constexpr int ITEM = shape::ITEM;
        const int3 before = {__shfl_up_sync(~0u, own.x, ITEM), __shfl_up_sync(~0u, own.y, ITEM),
                             __shfl_up_sync(~0u, own.z, ITEM)};
        const unsigned moves =
            __ballot_sync(~0u, own.x != before.x || own.y != before.y || own.z != before.z || lane >= n);
        for (int first = 0, end; first < n; first = end) {
            const unsigned later = moves >> first >> ITEM;
            end = min(first + 16, later ? first + ITEM + __ffs((int)later) - 1 : n);
            add_step(first, end);
        }
    }
};

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * doubles_shape<T, WIDTH, HAS_W>::N_WARP, doubles_shape<T, WIDTH, HAS_W>::BLOCKS)
    k_degrid_doubles(msi_wgrid_geometry g, degrid_job<T> job, const __grid_constant__ even_taps<T, WIDTH> window,
                     PLANES there, item_range crowded, int groups)
{
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    constexpr int N_WARP = shape::N_WARP, ITEM = shape::ITEM;
    extern __shared__ float4 memory[];
    auto &m = *reinterpret_cast<doubles_memory<T, WIDTH, HAS_W> *>(memory);
    const ring_block<ITEM> block(crowded, groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    doubles_sums<T, WIDTH, HAS_W, PLANES> sums = {g, job, window, m, lane, warp, lane / 4, lane % 4, {g, there}};
    for (int i = threadIdx.x; i < (int)((sizeof m.u + sizeof m.v) / sizeof(double)); i += blockDim.x) m.u[0][i] = 0;
    uint32_t at, next_at; /* a lane's sample in this batch and in the next one */
    bool has = block.find(0, &at);
    meet<N_WARP>();
    for (int batch = 0; block.has(batch); batch++) {
        sums.lay_batch(job.samples[at].at);
        const bool next_has = block.find(batch + 1, &next_at);
        meet<N_WARP>();
        sums.add_batch(min(RING_BATCH, ITEM * block.n_group - RING_BATCH * batch));
        meet<N_WARP>();
        if (has && warp == batch % N_WARP) {
            cplx<double> sum = m.sum[0][lane];
            for (int i = 1; i < N_WARP; i++) {
                sum.re += m.sum[i][lane].re;
                sum.im += m.sum[i][lane].im;
            }
            job.store(at, job.samples[at].to, (T)sum.re, (T)sum.im);
        }
        at = next_at;
        has = next_has;
    }
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_degrid_doubles(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there,
                          item_range crowded, cudaStream_t stream)
{
    if (!crowded.n) return MSI_OK;
    using shape = doubles_shape<T, WIDTH, HAS_W>;
    constexpr size_t bytes = sizeof(doubles_memory<T, WIDTH, HAS_W>);
    static_assert(bytes <= 48 << 10, "more than every block may have");
    block_split split;
    MSI_TRY(split.make(crowded, shape::ITEM, shape::BLOCKS));
    k_degrid_doubles<T, WIDTH, HAS_W, PLANES><<<split.blocks, 32 * shape::N_WARP, bytes, stream>>>(
        g, job, even_taps<T, WIDTH>(*job.host_taps, 1), there, crowded, split.groups);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* ---- Crowded items in single precision --------------------------------------------------------------------------- */

/*
 * Crowded items in single precision on tensor cores. A sample's sum over a tile's cells of w-plane p is one row of a
 * matrix product with the cells along one axis as K, say u,
 *
 *     V_s = sum_p kw_s[p] sum_v kv_s[v] (sum_u ku_s[u] G_p[u][v]),
 *
 * sixteen samples of one tile and first w-plane a step. The sums over v and p are computed in fp32. Taps are padded
 * with zeros on both sides, so that the same sixteen cells along K are used for a whole tile. Both factors are split
 * into two halves of 11 bits; three of their four products are kept.
 *
 * A block holds the split cells of a tile's W planes in registers: plane p is in place p modulo W of a ring, and a
 * plane is loaded when the first plane moves up. A warp has eight cells along the axis that is not K. Cells are
 * multiplied by a power of two so that the tile's largest one is 2^14 .. 2^15. Cells that are smaller by a factor of
 * 2^18 or more lose bits.
 */

constexpr int CELL_TOP_EXPONENT = 14; /* exponent of cells in their unit */

template <int WIDTH, bool HAS_W> struct halves_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1, ITEM = ring_group<float>(WIDTH);
    static constexpr tile_shape TILE = ring_tile<float>(WIDTH);
    static constexpr bool U_IS_K = TILE.u >= TILE.v;
    static constexpr int EDGE_K = U_IS_K ? TILE.u : TILE.v, EDGE_N = U_IS_K ? TILE.v : TILE.u;
    /* Cells of a tile's footprints, along K and along the products' columns. */
    static constexpr int CELLS_K = EDGE_K + WIDTH - 1, CELLS_N = EDGE_N + WIDTH - 1;
    static constexpr int FOURS =
        2; /* groups of four cells, which are a product's columns with re and im; products of a warp */
    static constexpr int N_WARP = (CELLS_N + 4 * FOURS - 1) / (4 * FOURS);
    static constexpr int ROW_N = (EDGE_N - 1 + 4 * FOURS * N_WARP) | 1; /* odd: rows begin in different banks */
    /* Blocks of a multiprocessor: a thread has its cells and about 70 more registers; warps are allocated four at a
     * time. */
    static constexpr int BLOCKS = 512 / (4 * FOURS * N_PLANE + 70) * 4 / N_WARP;
    static_assert(CELLS_K <= 16, "cells along K");
};

/* Taps of a batch's samples, and their sums. */
template <int WIDTH, bool HAS_W> struct halves_memory {
    using shape = halves_shape<WIDTH, HAS_W>;
    uint4 k[2][2][RING_BATCH];                /* rows of eight halves: [cells 0 .. 7, 8 .. 15][high, low] */
    float n[RING_BATCH][shape::ROW_N];        /* cell c of the tile is at first_n + c */
    float2 w[shape::N_PLANE][RING_BATCH / 2]; /* in the order of the ring: samples i and i + 8 of a step */
    int first_n[RING_BATCH];
    cplx<float> sum[shape::N_WARP][RING_BATCH];
};

/* One warp's part of a block: its cells, and the sums over them. All warps of a block lay out taps (lay_batch),
 * synchronise, and sum (add_step). */
template <int WIDTH, bool HAS_W, typename PLANES> struct halves_sums {
    using shape = halves_shape<WIDTH, HAS_W>;
    static constexpr int N_PLANE = shape::N_PLANE, FOURS = shape::FOURS;
    const msi_wgrid_geometry &g;
    const degrid_job<float> &job;
    const even_taps<float, WIDTH> &window;
    halves_memory<WIDTH, HAS_W> &m;
    const int lane, warp, row, pair; /* place in tensor cores' operands */
    degrid_position<N_PLANE, PLANES> stand;
    int3 own = {};                           /* position of a lane's sample: first taps of its tile, first w-plane */
    uint32_t cells[N_PLANE][FOURS][4] = {};  /* [place][four][high: mma's b0, b1; low: b0, b1] */
    uint32_t at_k[2] = {}, at_n[FOURS] = {}; /* indices of the cells that this lane loads, as sums of two parts */
    int exponent = LEAST_EXPONENT;           /* exponent of the largest cell, as stored in floats: the unit of cells */

    /* Find the cell that this lane loads, along either axis. */
    __device__ __forceinline__ int cell_k(int half) const
    {
        return 2 * pair + row % 2 + 8 * half;
    }
    __device__ __forceinline__ int cell_n(int four) const
    {
        return 4 * (FOURS * warp + four) + row / 2;
    }

    /* Lay out the taps of a batch, one sample a lane. */
    __device__ __forceinline__ void lay_batch(const record<float> &r)
    {
        const int in_u = in_ring_tile<shape::TILE.u>(r.u0, g.nu, WIDTH, stand.there);
        const int in_v = in_ring_tile<shape::TILE.v>(r.v0, g.nv, WIDTH, stand.there);
        own = {r.u0 - in_u, r.v0 - in_v, r.w0};
        if (warp == 0) {
            float taps[WIDTH];
            for_each_tap<float, WIDTH>(window.uv, shape::U_IS_K ? r.zu : r.zv,
                                       [&](int k, float tap) { taps[k] = tap; });
            lay_row<WIDTH, 2, bits_of(shape::EDGE_K)>(taps, shape::U_IS_K ? in_u : in_v, &m.k[0][0][lane],
                                                      &m.k[0][1][lane], 2 * RING_BATCH);
        }
        if (warp == shape::N_WARP - 1) {
            for_each_tap<float, WIDTH>(window.uv, shape::U_IS_K ? r.zv : r.zu,
                                       [&](int k, float tap) { m.n[lane][shape::EDGE_N - 1 + k] = tap; });
            m.first_n[lane] = shape::EDGE_N - 1 - (shape::U_IS_K ? in_v : in_u);
            const int first = r.w0 % N_PLANE;
            float *to = &m.w[0][lane / 16 * 8 + lane % 8].x + lane / 8 % 2;
            if (HAS_W)
                for_each_tap<float, WIDTH>(window.w, r.zw, [&](int k, float tap) {
                    to[(first + k < N_PLANE ? first + k : first + k - N_PLANE) * RING_BATCH] = tap;
                });
            else
                to[0] = TAP_TOP;
        }
    }

    /* Load this lane's cells of a plane, re and im, without splitting them. */
    __device__ __forceinline__ void load(uint32_t (&to)[FOURS][4], int plane) const
    {
        const cplx<float> *from = job.grid + plane * stand.at.plane_cells;
#pragma unroll
        for (int f = 0; f < FOURS; f++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                cplx<float> c = {0, 0};
                if (stand.holds(plane) && cell_k(half) < shape::CELLS_K && cell_n(f) < shape::CELLS_N)
                    c = complex_cuda::read_only(from + (at_n[f] + at_k[half]));
                to[f][2 * half] = __float_as_uint(c.re);
                to[f][2 * half + 1] = __float_as_uint(c.im);
            }
    }

    /* Split a plane's cells. Lanes of even rows need re of two cells, those of odd rows im. */
    __device__ __forceinline__ void split(uint32_t (&c)[FOURS][4], float scale) const
    {
        const bool odd = row % 2;
#pragma unroll
        for (int f = 0; f < FOURS; f++) {
            mma::split_pair s[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float re = __uint_as_float(c[f][2 * half]), im = __uint_as_float(c[f][2 * half + 1]);
                const float other = __shfl_xor_sync(~0u, odd ? re : im, 4);
                s[half] = mma::split(scale * (odd ? other : re), scale * (odd ? im : other));
            }
            c[f][0] = s[0].high;
            c[f][1] = s[1].high;
            c[f][2] = s[0].low;
            c[f][3] = s[1].low;
        }
    }

    __device__ __forceinline__ static uint32_t largest_of(const uint32_t (&c)[FOURS][4], uint32_t largest)
    {
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++) largest = max(largest, c[i / 4][i % 4] & 0x7fffffff);
        return largest;
    }

    /* Find the exponent of a warp's largest new cell. */
    __device__ __forceinline__ static int top_of(uint32_t largest)
    {
        return max((int)(__reduce_max_sync(~0u, largest) >> 23), LEAST_EXPONENT);
    }

    /* Change the unit of the loaded cells. */
    __device__ __forceinline__ void change_unit(int top)
    {
        const half2 ratio = __float2half2_rn(top - exponent < 48 ? unit_of(exponent - top) : 0);
#pragma unroll
        for (int s = 0; s < N_PLANE; s++)
#pragma unroll
            for (int i = 0; i < 4 * FOURS; i++)
                cells[s][i / 4][i % 4] = mma::bits(__hmul2(mma::halves(cells[s][i / 4][i % 4]), ratio));
        exponent = top;
    }

    __device__ __forceinline__ float scale() const
    {
        return unit_of(CELL_TOP_EXPONENT + 127 - exponent);
    }

    /* Load all planes of another tile. */
    __device__ __forceinline__ void load_tile()
    {
#pragma unroll
        for (int half = 0; half < 2; half++)
            at_k[half] = shape::U_IS_K ? stand.column(cell_k(half)) : stand.row(cell_k(half));
#pragma unroll
        for (int f = 0; f < FOURS; f++) at_n[f] = shape::U_IS_K ? stand.row(cell_n(f)) : stand.column(cell_n(f));
        uint32_t largest = 0;
        stand.for_each_place([&](int s, int plane) { load(cells[s], plane); });
        stand.for_each_place([&](int s, int) { largest = largest_of(cells[s], largest); });
        exponent = top_of(largest);
        stand.for_each_place([&](int s, int) { split(cells[s], scale()); });
    }

    /* Load plane k of the ring, counted from the first plane. */
    __device__ __forceinline__ void load_plane(int k)
    {
        uint32_t fresh[FOURS][4];
        load(fresh, stand.number + k);
        const int top = top_of(largest_of(fresh, 0));
        if (top > exponent) change_unit(top);
        split(fresh, scale());
        stand.at_place(k, [&](int s, int) {
#pragma unroll
            for (int i = 0; i < 4 * FOURS; i++) cells[s][i / 4][i % 4] = fresh[i / 4][i % 4];
        });
    }

    /* Move to the position of sample `first` of the batch, and load the missing planes. */
    __device__ __forceinline__ void follow(int first)
    {
        int fresh =
            stand.move(__shfl_sync(~0u, own.x, first), __shfl_sync(~0u, own.y, first), __shfl_sync(~0u, own.z, first));
        if (fresh == 0) load_tile();
        for (fresh = fresh ? fresh : N_PLANE; fresh < N_PLANE; fresh++) load_plane(fresh);
    }

    /* Add the sums over N places of the ring, beginning with s. Their products are independent. */
    template <int N>
    __device__ __forceinline__ void add_planes(float (&sum)[FOURS][4], int s, int of_row, const uint4 &high,
                                               const uint4 &low) const
    {
        float part[N][FOURS][4] = {};
#pragma unroll
        for (int product = 0; product < 3; product++)
#pragma unroll
            for (int i = 0; i < N * FOURS; i++) {
                const uint32_t(&c)[4] = cells[s + i / FOURS][i % FOURS];
                mma::multiply_add(part[i / FOURS][i % FOURS], product == 0 ? low : high, c[product == 1 ? 2 : 0],
                                  c[product == 1 ? 3 : 1]);
            }
#pragma unroll
        for (int i = 0; i < N; i++) {
            const float2 w = m.w[s + i][of_row];
#pragma unroll
            for (int k = 0; k < 4 * FOURS; k++) sum[k / 4][k % 4] += (k % 4 < 2 ? w.x : w.y) * part[i][k / 4][k % 4];
        }
    }

    /* Sum cells for sixteen samples of a batch. */
    __device__ __forceinline__ void add_step(int step)
    {
        const int first = 16 * step;
        follow(first);
        const int of_row = first + lane / 8 % 2 * 8 + lane % 8;
        const uint4 high = mma::load(&m.k[lane / 16][0][of_row]), low = mma::load(&m.k[lane / 16][1][of_row]);
        float sum[FOURS][4] = {};
#pragma unroll
        for (int s = 0; s < N_PLANE; s += 2)
            s + 1 < N_PLANE ? add_planes<2>(sum, s, 8 * step + row, high, low)
                            : add_planes<1>(sum, s, 8 * step + row, high, low);
        float total[4] = {}; /* re and im of sample `row`, then of sample row + 8 */
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int sample = first + row + 8 * i;
            const float *n = &m.n[sample][m.first_n[sample] + 4 * FOURS * warp + pair];
#pragma unroll
            for (int f = 0; f < FOURS; f++) {
                total[2 * i] += n[4 * f] * sum[f][2 * i];
                total[2 * i + 1] += n[4 * f] * sum[f][2 * i + 1];
            }
        }
        const float x = sum_over_four(total[0], total[1], total[2], total[3], lane);
        const float unit = unit_of(exponent - CELL_TOP_EXPONENT - 127);
        float *to = &m.sum[warp][first + row + pair / 2 * 8].re;
        to[pair % 2] = x * (1 / (TAP_TOP * TAP_TOP * TAP_TOP)) * unit;
    }
};

template <int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * halves_shape<WIDTH, HAS_W>::N_WARP, halves_shape<WIDTH, HAS_W>::BLOCKS)
    k_degrid_halves(msi_wgrid_geometry g, degrid_job<float> job, const __grid_constant__ even_taps<float, WIDTH> window,
                    PLANES there, item_range crowded, int groups)
{
    constexpr int N_WARP = halves_shape<WIDTH, HAS_W>::N_WARP;
    __shared__ halves_memory<WIDTH, HAS_W> m;
    const ring_block<halves_shape<WIDTH, HAS_W>::ITEM> block(crowded, groups);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    halves_sums<WIDTH, HAS_W, PLANES> sums = {g, job, window, m, lane, warp, lane / 4, lane % 4, {g, there}};
    for (int i = threadIdx.x; i < (int)(sizeof m.n / sizeof(float)); i += blockDim.x) m.n[0][i] = 0;
    uint32_t at, next_at; /* a lane's sample in this batch and in the next one */
    bool has = block.find(0, &at), next_has = block.find(1, &next_at);
    wanted<float> sample = job.samples[at];
    meet<N_WARP>();
    for (int batch = 0; block.has(batch); batch++) {
        sums.lay_batch(sample.at);
        const destination<float> to = sample.to;
        sample = job.samples[next_at];
        uint32_t after_at;
        const bool after_has = block.find(batch + 2, &after_at);
        meet<N_WARP>();
        for (int step = 0; step < 2 && 2 * batch + step < block.n_group; step++) sums.add_step(step);
        meet<N_WARP>();
        if (has && warp == batch % N_WARP) {
            cplx<float> sum = m.sum[0][lane];
            for (int i = 1; i < N_WARP; i++) {
                sum.re += m.sum[i][lane].re;
                sum.im += m.sum[i][lane].im;
            }
            job.store(at, to, sum.re, sum.im);
        }
        at = next_at;
        has = next_has;
        next_at = after_at;
        next_has = after_has;
    }
}

template <int WIDTH, bool HAS_W, typename PLANES>
int launch_degrid_halves(const msi_wgrid_geometry &g, const degrid_job<float> &job, const PLANES &there,
                         item_range crowded, cudaStream_t stream)
{
    if (!crowded.n) return MSI_OK;
    using shape = halves_shape<WIDTH, HAS_W>;
    block_split split;
    MSI_TRY(split.make(crowded, shape::ITEM, shape::BLOCKS));
    k_degrid_halves<WIDTH, HAS_W, PLANES><<<split.blocks, 32 * shape::N_WARP, 0, stream>>>(
        g, job, even_taps<float, WIDTH>(*job.host_taps, TAP_TOP), there, crowded, split.groups);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* ---- Launching --------------------------------------------------------------------------------------------------- */

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_degridding(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                      item_range sparse, cudaStream_t stream)
{
    if constexpr (sizeof(T) == 4 && WIDTH <= TENSOR_WIDTH)
        MSI_TRY((launch_degrid_halves<WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    else
        MSI_TRY((launch_degrid_doubles<T, WIDTH, HAS_W, PLANES>(g, job, there, crowded, stream)));
    return launch_sparse<T, WIDTH>(k_degrid_sparse<T, WIDTH, HAS_W, PLANES>, g, job, there, sparse, stream);
}

/* Degrid items from planes of any kind, by the kernel for the plan's window. */
template <typename T, typename PLANES>
int degrid_items(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                 item_range sparse, cudaStream_t stream)
{
    return at_width<PLANES>(g, [&](auto width, auto has_w) {
        return launch_degridding<T, width, has_w, PLANES>(g, job, there, crowded, sparse, stream);
    });
}

template <typename T, typename PLANES> int degrid_call_of(const msi_wgrid_degrid_call &c, const PLANES &there)
{
    const degrid_job<T> job = {static_cast<const tap_table<T> *>(c.taps),
                               static_cast<const tap_table<T> *>(c.host_taps),
                               static_cast<const wanted<T> *>(c.samples),
                               true,
                               static_cast<const cplx<T> *>(c.cells),
                               static_cast<cplx<T> *>(c.value),
                               c.adds != 0};
    return degrid_items(c.plan->grid, job, there, {static_cast<const item *>(c.crowded), c.n_crowded},
                        {static_cast<const item *>(c.sparse), c.n_sparse}, static_cast<cudaStream_t>(c.stream));
}

/* Begin the degridding of a call from planes of any kind, in the plan's precision. */
template <typename PLANES> int degrid_call(const msi_wgrid_degrid_call &c, const PLANES &there)
{
    return c.plan->precision == MSI_FP32 ? degrid_call_of<float>(c, there) : degrid_call_of<double>(c, there);
}

} // namespace

#endif
