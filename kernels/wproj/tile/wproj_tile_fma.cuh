/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding of tiles with multiply-adds, for kernels of any form and precision, and several images in one pass. A warp
 * has its tile in registers. A lane has every other row of one column. The warp prepares 32 candidates at a time, one
 * per lane, and stages those that touch the tile in shared memory. Then all lanes process the staged samples one after
 * the other. A lane loads all its kernel values of a sample before it uses the first, to hide the latency of L2.
 *
 * Full kernels are even in u and in v. So tables have only the squares of sub-offsets 0 and above, and squares of
 * negative ones are read backwards. There are (os/2 + 1)^2 squares, not (os + 1)^2, so those in use at the same time
 * fit in L2. u varies fastest, so that rows are contiguous (SDP memo, section 4.1).
 */
#ifndef MSI_KERNELS_WPROJ_TILE_FMA_CUH
#define MSI_KERNELS_WPROJ_TILE_FMA_CUH

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/wproj/tile/wproj_tile_items.cuh"
#include "kernels/wproj/job/wproj_locate.cuh"

namespace wproj_tile {

using complex_cuda::cplx;
using complex_cuda::read_only;

constexpr int ROWS = TILE / 2; /* rows of a lane */

/* A float sum is added to the grid after this many samples. Crowded cells have 1e5 samples and more, so a single float
 * sum would have an error of 1e-5. */
constexpr int MOST_IN_SUM = 256;

/* A staged sample that touches the tile. at, at_v, pitch, step, next_u and next_v are in elements of the table. */
template <typename T> struct alignas(16) staged {
    int32_t at;             /* weight of the tile's first cell; separable: weight along u of its first column */
    int32_t at_v;           /* separable: weight along v of its first row */
    int32_t pitch, step;    /* full: distances between rows and between columns, of either sign */
    int32_t next_u, next_v; /* distance to the next sub-offset */
    int32_t du, half;       /* du: the tile's first column from the sample's cell */
    uint32_t rows;          /* bit j: the footprint has row j */
    T frac_u, frac_v;
};

struct table_view {
    const void *element; /* complex of the kernels' precision */
    int32_t middle;      /* oversample / 2 */
};

template <typename T, bool FULL>
__device__ staged<T> stage_sample(const plane_kernel &k, int32_t middle, int sub_u, int sub_v, int du, int dv)
{
    const int taps = 2 * k.half + 1;
    const int low = max(0, -k.half - dv), high = min(TILE - 1, k.half - dv);
    staged<T> e = {};
    e.du = du;
    e.half = k.half;
    e.rows = (2u << high) - (1u << low);
    if (FULL) {
        const int squares = middle + 1, square = taps * taps;
        sub_u -= middle;
        sub_v -= middle;
        e.step = sub_u < 0 ? -1 : 1;
        const int step_v = sub_v < 0 ? -1 : 1;
        e.pitch = step_v * taps;
        e.next_u = e.step * squares * square;
        e.next_v = step_v * square;
        e.at = k.first_u + (abs(sub_u) * squares + abs(sub_v)) * square + (k.half + step_v * dv) * taps + k.half +
               e.step * du;
    } else {
        e.next_u = e.next_v = taps;
        e.at = k.first_u + sub_u * taps + k.half + du;
        e.at_v = k.first_v + sub_v * taps + k.half + dv;
    }
    return e;
}

template <typename C> __device__ C times(C a, C b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <typename C, typename T> __device__ void add_part(C &sum, T part, C x)
{
    sum.re += part * x.re;
    sum.im += part * x.im;
}

/* Load a lane's weights: w[j] belongs to tile row 2 j + side; *along_u multiplies them all. */
template <typename T, bool FULL, bool LINEAR>
__device__ void load_weights(const table_view &table, const staged<T> &e, int column, int side, cplx<T> (&w)[ROWS],
                             cplx<T> *along_u)
{
    typedef cplx<T> C;
    const C *element = static_cast<const C *>(table.element);
    const bool inside = abs(e.du + column) <= e.half;
    const uint32_t rows = inside ? e.rows >> side : 0;
    const C *at = FULL ? element + (e.at + column * e.step + side * e.pitch) : element + (e.at_v + side);
    const int pitch = FULL ? 2 * e.pitch : 2;
    C next[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
        w[j] = rows >> 2 * j & 1 ? read_only(at + j * pitch) : C{0, 0};
        if (LINEAR) next[j] = rows >> 2 * j & 1 ? read_only(at + j * pitch + e.next_v) : C{0, 0};
    }
    *along_u = {1, 0};
    if (!FULL) {
        const C *u = element + e.at + column;
        *along_u = inside ? read_only(u) : C{0, 0};
        if (LINEAR && inside) {
            C more = read_only(u + e.next_u);
            *along_u = {(1 - e.frac_u) * along_u->re, (1 - e.frac_u) * along_u->im};
            add_part(*along_u, e.frac_u, more);
        }
    }
    if (!LINEAR) return;
    const T here_u = FULL ? 1 - e.frac_u : (T)1, fv = e.frac_v;
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
        w[j] = {here_u * (1 - fv) * w[j].re, here_u * (1 - fv) * w[j].im};
        add_part(w[j], here_u * fv, next[j]);
    }
    if (!FULL) return;
    at += e.next_u;
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
        if (!(rows >> 2 * j & 1)) continue;
        add_part(w[j], e.frac_u * (1 - fv), read_only(at + j * pitch));
        add_part(w[j], e.frac_u * fv, read_only(at + j * pitch + e.next_v));
    }
}

/* Add a lane's sums to its cells and clear them. */
template <typename C, int N, typename T>
__device__ void add_sums(C (&sum)[N][ROWS], T sign, C *cell, int64_t n_cell, int32_t nu)
{
#pragma unroll
    for (int p = 0; p < N; p++)
#pragma unroll
        for (int j = 0; j < ROWS; j++) {
            if (sum[p][j].re != 0 || sum[p][j].im != 0)
                vector_add::add_one(cell + p * n_cell + (int64_t)(2 * j) * nu, sum[p][j].re, sign * sum[p][j].im);
            sum[p][j] = {0, 0};
        }
}

/* Prepare sample i for the candidates' tile. Returns whether its footprint touches the tile. */
template <typename T, bool FULL, bool LINEAR>
__device__ bool stage_candidate(const tile_view &t, const table_view &table, const candidates &c, uint32_t i,
                                staged<T> *out)
{
    const uint2 h = reinterpret_cast<const uint2 *>(t.sorted.head)[i];
    const plane_kernel k = t.planes[msi_wproj_head_plane(h.y)];
    const int du = c.tile_u - msi_wproj_head_u(h.x), dv = c.tile_v - msi_wproj_head_v(h.x);
    const bool touches = touches_tile(du, dv, k.half);
    if (touches && !LINEAR)
        *out = stage_sample<T, FULL>(k, table.middle, msi_wproj_head_sub_u(h.y), msi_wproj_head_sub_v(h.y), du, dv);
    if (touches && LINEAR) {
        const cplx<T> at = static_cast<const cplx<T> *>(t.sorted.frac)[i];
        const int last = 2 * table.middle - 1, sub_u = min((int)at.re, last), sub_v = min((int)at.im, last);
        *out = stage_sample<T, FULL>(k, table.middle, sub_u, sub_v, du, dv);
        out->frac_u = at.re - sub_u;
        out->frac_v = at.im - sub_v;
    }
    return touches;
}

/* Grid images first_image .. first_image + N - 1. */
template <typename T, bool FULL, bool LINEAR, int N>
__global__ __launch_bounds__(32 * WARPS) void k_grid_fma(tile_view t, table_view table, int first_image)
{
    typedef cplx<T> C;
    __shared__ staged<T> stages[WARPS][32];
    __shared__ C values[WARPS][32][N];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane % TILE, side = lane / TILE;
    staged<T> *stage = stages[warp];
    const C *from = static_cast<const C *>(t.sorted.value) + first_image * t.sorted.stride;
    candidates c;
    while (c.draw(t, lane)) {
        C sum[N][ROWS] = {};
        const T sign = c.conjugate ? -1 : 1;
        C *cell =
            static_cast<C *>(t.grid) + first_image * t.n_cell + (int64_t)(c.tile_v + side) * t.nu + c.tile_u + column;
        int in_sum = 0;
        for (uint32_t f = c.first; f < c.end; f += 32) {
            const uint32_t i = c.sample(f + lane);
            bool touches = false;
            staged<T> own = {};
            if (f + lane < c.end) touches = stage_candidate<T, FULL, LINEAR>(t, table, c, i, &own);
            const unsigned votes = __ballot_sync(~0u, touches);
            const int n = __popc(votes);
            if (touches) {
                const int at = __popc(votes & ((1u << lane) - 1));
                stage[at] = own;
#pragma unroll
                for (int p = 0; p < N; p++) {
                    C v = from[p * t.sorted.stride + i];
                    v.im *= sign;
                    values[warp][at][p] = v;
                }
            }
            __syncwarp();
            for (int k = 0; k < n; k++) {
                C w[ROWS], along_u;
                load_weights<T, FULL, LINEAR>(table, stage[k], column, side, w, &along_u);
#pragma unroll
                for (int p = 0; p < N; p++) {
                    const C v = FULL ? values[warp][k][p] : times(values[warp][k][p], along_u);
#pragma unroll
                    for (int j = 0; j < ROWS; j++) {
                        const C x = times(v, w[j]);
                        sum[p][j].re += x.re;
                        sum[p][j].im += x.im;
                    }
                }
            }
            __syncwarp();
            in_sum += n;
            if (sizeof(T) == sizeof(float) && in_sum > MOST_IN_SUM - 32) {
                add_sums(sum, sign, cell, t.n_cell, t.nu);
                in_sum = 0;
            }
        }
        add_sums(sum, sign, cell, t.n_cell, t.nu);
    }
}

} // namespace wproj_tile

#endif
