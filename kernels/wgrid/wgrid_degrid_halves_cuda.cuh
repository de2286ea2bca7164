/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items are degridded in single precision on tensor cores. A sample's sum over a tile's cells of w-plane p is
 * one row of a matrix product with the cells along one axis as K, say u,
 *
 *     V_s = sum_p kw_s[p] sum_v kv_s[v] (sum_u ku_s[u] G_p[u][v]),
 *
 * sixteen samples of one tile and first w-plane a step; the sums over v and p are made in fp32. Taps stand between
 * zeros, so that the sixteen cells along K serve a whole tile. Both factors are split into two halves of 11 bits, of
 * whose four products three are kept.
 *
 * A block holds the cells of a tile's W planes, split, in registers: plane p in place p modulo W of a ring, into which
 * a plane is loaded when the first plane moves up. A warp has eight cells along the axis that is not K. Cells are
 * multiplied by a power of two that brings the largest of the tile to 2^14 .. 2^15; what is smaller than it by 2^18 and
 * more loses bits.
 */
#ifndef MSI_KERNELS_WGRID_DEGRID_HALVES_CUDA_CUH
#define MSI_KERNELS_WGRID_DEGRID_HALVES_CUDA_CUH

#include "kernels/wgrid/wgrid_degrid_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_halves_cuda.cuh"
#include "kernels/wgrid/wgrid_ring_fetch_cuda.cuh"

namespace {

constexpr int CELL_TOP_EXPONENT = 14; /* of cells in their unit */

template <int WIDTH, bool HAS_W> struct halves_shape {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1, ITEM = ring_group<float>(WIDTH);
    static constexpr tile_shape TILE = ring_tile<float>(WIDTH);
    static constexpr bool U_IS_K = TILE.u >= TILE.v;
    static constexpr int EDGE_K = U_IS_K ? TILE.u : TILE.v, EDGE_N = U_IS_K ? TILE.v : TILE.u;
    /* Cells that a tile's footprints touch, along K and along the products' columns. */
    static constexpr int CELLS_K = EDGE_K + WIDTH - 1, CELLS_N = EDGE_N + WIDTH - 1;
    static constexpr int FOURS = 2; /* of cells that are a product's columns, each with re and im; a warp's products */
    static constexpr int N_WARP = (CELLS_N + 4 * FOURS - 1) / (4 * FOURS);
    static constexpr int ROW_N = (EDGE_N - 1 + 4 * FOURS * N_WARP) | 1; /* odd: rows begin in different banks */
    /* Blocks of a multiprocessor: a thread has its cells and some 70 more registers; warps come four at a time. */
    static constexpr int BLOCKS = 512 / (4 * FOURS * N_PLANE + 70) * 4 / N_WARP;
    static_assert(CELLS_K <= 16, "cells along K");
};

/* Taps of a batch's samples, and their sums. */
template <int WIDTH, bool HAS_W> struct halves_memory {
    using shape = halves_shape<WIDTH, HAS_W>;
    uint4 k[2][2][RING_BATCH];                /* rows of eight halves: [cells 0 .. 7, 8 .. 15][high, low] */
    float n[RING_BATCH][shape::ROW_N];        /* cell c of the tile has place first_n + c */
    float2 w[shape::N_PLANE][RING_BATCH / 2]; /* in the order of the ring: samples i and i + 8 of a step */
    int first_n[RING_BATCH];
    cplx<float> sum[shape::N_WARP][RING_BATCH];
};

/* One warp's part of a block: its cells, and the sums over them. All warps of a block lay taps (lay_batch), meet, and
 * sum (add_step). */
template <int WIDTH, bool HAS_W, typename PLANES> struct halves_sums {
    using shape = halves_shape<WIDTH, HAS_W>;
    static constexpr int N_PLANE = shape::N_PLANE, FOURS = shape::FOURS;
    const msi_wgrid_geometry &g;
    const degrid_job<float> &job;
    const even_taps<float, WIDTH> &window;
    halves_memory<WIDTH, HAS_W> &m;
    const int lane, warp, row, pair; /* of tensor cores' operands */
    degrid_stand<N_PLANE, PLANES> stand;
    int3 own = {};                           /* of a lane's sample: first taps of its tile, first w-plane */
    uint32_t cells[N_PLANE][FOURS][4] = {};  /* [place][four][high: mma's b0, b1; low: b0, b1] */
    uint32_t at_k[2] = {}, at_n[FOURS] = {}; /* where this lane loads cells of a plane: one part of the number each */
    int exponent = LEAST_EXPONENT;           /* of the largest cell, as floats have it: the unit of cells */

    /* Find the cell along either axis that this lane loads. */
    __device__ __forceinline__ int cell_k(int half) const
    {
        return 2 * pair + row % 2 + 8 * half;
    }
    __device__ __forceinline__ int cell_n(int four) const
    {
        return 4 * (FOURS * warp + four) + row / 2;
    }

    /* Lay the taps of a batch, a sample to a lane. */
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

    /* Load a plane's cells, re and im of this lane's, as they are. */
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

    /* Change the unit of the cells that are there. */
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

    /* Load plane k of those above the first one. */
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

    /* Move to where sample `first` of the batch lies, loading the planes that are not there. */
    __device__ __forceinline__ void follow(int first)
    {
        int fresh =
            stand.move(__shfl_sync(~0u, own.x, first), __shfl_sync(~0u, own.y, first), __shfl_sync(~0u, own.z, first));
        if (fresh == 0) load_tile();
        for (fresh = fresh ? fresh : N_PLANE; fresh < N_PLANE; fresh++) load_plane(fresh);
    }

    /* Add the sums over N places of the ring from s on, whose products go side by side. */
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
    uint32_t at, next_at; /* of a lane, this batch's sample and the next one's */
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

} // namespace

#endif
