/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Crowded items in single precision on tensor cores. What samples s of a tile add to w-plane p is a matrix product with
 * the samples along K,
 *
 *     G_p[v][u] = sum_s (V_s kv_s[v]) (ku_s[u] kw_s[p]),
 *
 * sixteen samples of one first w-plane a step, taps between zeros filling the 16 x 16 cells that a tile's footprints
 * may touch. Both factors are split into two halves of 11 bits; products of the high halves and both mixed ones count
 * 22 bits. What the product of two halves is rounded by is a half itself, so that factors are multiplied as halves too.
 * A step's sum is made by the tensor cores, which round towards zero, and added in fp32 to sums that round to nearest.
 * These live in registers, planes in a ring, as wgrid_ring_cuda.cuh has it: a warp has two places of the ring.
 *
 * A batch is two steps. Its taps are made axis by axis, a warp to an axis where there are as many, a sample to a lane,
 * while the last warp fetches the batch after it; then all warps share in making its left factors, which all of them
 * need.
 */
#ifndef MSI_KERNELS_WGRID_RING_TENSOR_CUDA_CUH
#define MSI_KERNELS_WGRID_RING_TENSOR_CUDA_CUH

#include <cuda_fp16.h>

#include "kernels/grid/wgrid_ring_fetch_cuda.cuh"

namespace {

constexpr int TENSOR_SIDE = 16;                           /* cells along an edge of what a tile touches */
constexpr int TENSOR_WIDTH = TENSOR_SIDE - RING_TILE + 1; /* widest window */
constexpr int RING_SLOTS = 2;                             /* places of the ring that a warp has */
constexpr int VALUE_TOP_EXPONENT = 9;                     /* of values in their step's unit */
constexpr float TAP_TOP = 64; /* largest tap: its products with values and taps are halves, small ones normal */

template <int WIDTH, bool HAS_W> struct tensor_ring {
    static constexpr int N_PLANE = HAS_W ? WIDTH : 1;
    static constexpr int SLOTS = HAS_W ? RING_SLOTS : 1; /* places of the ring that a warp has */
    static constexpr int N_WARP = (N_PLANE + SLOTS - 1) / SLOTS;
    static constexpr int BLOCKS = (N_WARP < 3 ? 16 : 20) / N_WARP; /* of a multiprocessor */
    static constexpr int N_COEF = WIDTH < 6 ? WIDTH + 3 : WIDTH + 2;
};

/* Two samples' factors, split: .x the high halves of both, .y the low ones. */
typedef uint2 split_pair;

/* Factors of a batch's samples, in pairs; eight rows of four pairs lie in different banks. */
struct tensor_row {
    split_pair pair[RING_BATCH / 2 + 4];

    __device__ void set(int sample, float2 split)
    {
        __half *at = reinterpret_cast<__half *>(pair + sample / 2) + sample % 2;
        at[0] = __float2half_rn(split.x);
        at[2] = __float2half_rn(split.y);
    }
};

template <int WIDTH, bool HAS_W> struct tensor_factors {
    using ring = tensor_ring<WIDTH, HAS_W>;
    tensor_row u[TENSOR_SIDE];
    tensor_row w[ring::N_WARP * ring::SLOTS]; /* in the order of the ring */
    uint4 left[2][2][2][32];                  /* [step][re, im][high, low][lane] */
    float unit[2];
};

template <int WIDTH, bool HAS_W> struct tensor_memory {
    tensor_factors<WIDTH, HAS_W> factors[2];
    tensor_row v[TENSOR_SIDE], value[2]; /* re, im in the step's unit */
    ring_samples<float> samples[3];
};

__device__ inline void multiply_add(float (&c)[4], const uint4 &a, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ inline half2 halves(uint32_t u)
{
    return *reinterpret_cast<half2 *>(&u);
}

__device__ inline uint32_t bits(half2 h)
{
    return *reinterpret_cast<uint32_t *>(&h);
}

/* What a half takes of x, and what is left. */
__device__ inline float2 split(float x)
{
    const float high = __half2float(__float2half_rn(x));
    return {high, x - high};
}

/* Products of pairs; what a high one is rounded by is known exactly and goes to the low one. */
__device__ inline split_pair multiply(split_pair a, split_pair b)
{
    const half2 a_high = halves(a.x), a_low = halves(a.y), b_high = halves(b.x), b_low = halves(b.y);
    const half2 high = __hmul2_rn(a_high, b_high);
    const half2 rest = __hfma2(a_high, b_high, __hneg2(high));
    return {bits(high), bits(__hfma2(a_low, b_high, __hfma2(a_high, b_low, rest)))};
}

__device__ inline void add_two_cells(cplx<float> *first, cplx<float> *second, float re0, float im0, float re1,
                                     float im1)
{
#if __CUDA_ARCH__ >= 900
    if (second == first + 1 && (reinterpret_cast<uintptr_t>(first) & 15) == 0) {
        if (re0 != 0 || im0 != 0 || re1 != 0 || im1 != 0)
            asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(first), "f"(re0), "f"(im0), "f"(re1),
                         "f"(im1)
                         : "memory");
        return;
    }
#endif
    if (re0 != 0 || im0 != 0) add_cell(first, re0, im0);
    if (re1 != 0 || im1 != 0) add_cell(second, re1, im1);
}

/* Tap k at z; coefficients come with the instructions that use them. */
template <int N_COEF>
__device__ float tap(const float (&coef)[MSI_WINDOW_MAX_COEF][MSI_WINDOW_MAX_WIDTH], int k, float z)
{
    float value = coef[0][k];
#pragma unroll
    for (int c = 1; c < N_COEF; c++) value = value * z + coef[c][k];
    return value;
}

template <int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * tensor_ring<WIDTH, HAS_W>::N_WARP, tensor_ring<WIDTH, HAS_W>::BLOCKS)
    k_grid_ring_tensor(msi_wgrid_geometry g, grid_job<float> job, const __grid_constant__ tap_table<float> window,
                       PLANES there, item_range crowded)
{
    using ring = tensor_ring<WIDTH, HAS_W>;
    constexpr int N_PLANE = ring::N_PLANE, SLOTS = ring::SLOTS, N_WARP = ring::N_WARP, N_COEF = ring::N_COEF;
    __shared__ tensor_memory<WIDTH, HAS_W> m;
    const ring_block block(crowded);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = lane / 4, pair = lane % 4, column = 2 * pair; /* of tensor cores' operands */
    /* Places of the ring that stay empty. */
    for (int i = threadIdx.x; i < 2 * (N_WARP * SLOTS - N_PLANE) * RING_BATCH; i += 32 * N_WARP)
        m.factors[i % 2].w[N_PLANE + i / 2 / RING_BATCH].set(i / 2 % RING_BATCH, {0, 0});

    for (int p = 0; p < job.n_image; p++) {
        ring_fetch<float, PLANES> fetch = {g, job, there, block, job.value + p * job.n_sample, warp == N_WARP - 1};
        /* A step's unit takes its largest value to 2^VALUE_TOP_EXPONENT, or just below. */
        auto scale_values = [&](int batch) {
            if (warp != N_WARP - 1 || !block.has(batch)) return;
            const cplx<float> mine = m.samples[batch % 3].value[lane];
            uint32_t most = __float_as_uint(fmaxf(fabsf(mine.re), fabsf(mine.im)));
#pragma unroll
            for (int s = RING_GROUP / 2; s; s /= 2) most = max(most, __shfl_xor_sync(~0u, most, s));
            const int exponent = max((int)(most >> 23), 27); /* at most 254, of the largest float */
            const float scale = __uint_as_float((uint32_t)(254 + VALUE_TOP_EXPONENT - 1 - exponent) << 23);
            m.value[0].set(lane, split(mine.re * scale));
            m.value[1].set(lane, split(mine.im * scale));
            if (lane % RING_GROUP == 0)
                m.factors[batch % 2].unit[lane / RING_GROUP] =
                    __uint_as_float((uint32_t)(exponent - VALUE_TOP_EXPONENT + 1) << 23) /
                    (TAP_TOP * TAP_TOP * TAP_TOP);
        };
        auto make_taps = [&](int batch) {
            if (!block.has(batch)) return;
            const record<float> mine = m.samples[batch % 3].place[lane];
            tensor_factors<WIDTH, HAS_W> &f = m.factors[batch % 2];
            for (int axis = warp; axis < 3; axis += N_WARP) {
                const float z = axis == 0 ? mine.zu : axis == 1 ? mine.zv : mine.zw;
                if (axis < 2) {
                    tensor_row *rows = axis == 0 ? f.u : m.v;
                    const int at = in_ring_tile(axis == 0 ? mine.u0 : mine.v0, axis == 0 ? g.nu : g.nv, WIDTH);
                    for (int i = lane; i < (int)(TENSOR_SIDE * sizeof(tensor_row) / sizeof(uint4)); i += 32)
                        reinterpret_cast<uint4 *>(rows)[i] = {0, 0, 0, 0};
                    __syncwarp();
#pragma unroll
                    for (int k = 0; k < WIDTH; k++) rows[at + k].set(lane, split(tap<N_COEF>(window.uv, k, z)));
                } else if (HAS_W) {
                    const int slot = mine.w0 % N_PLANE;
#pragma unroll
                    for (int k = 0; k < N_PLANE; k++)
                        f.w[slot + k < N_PLANE ? slot + k : slot + k - N_PLANE].set(lane,
                                                                                    split(tap<N_COEF>(window.w, k, z)));
                } else {
                    f.w[0].set(lane, {TAP_TOP, 0});
                }
            }
        };
        /* Values times taps along v, as operands. */
        auto make_left = [&](int batch) {
            if (!block.has(batch)) return;
            for (int part = warp; part < 4; part += N_WARP) {
                const int step = part / 2, c = part % 2, k = RING_GROUP / 2 * step + pair;
                const split_pair a = m.value[c].pair[k], b = m.value[c].pair[k + 4];
                const split_pair x = multiply(a, m.v[row].pair[k]), y = multiply(a, m.v[row + 8].pair[k]);
                const split_pair z = multiply(b, m.v[row].pair[k + 4]), w = multiply(b, m.v[row + 8].pair[k + 4]);
                m.factors[batch % 2].left[step][c][0][lane] = {x.x, y.x, z.x, w.x};
                m.factors[batch % 2].left[step][c][1][lane] = {x.y, y.y, z.y, w.y};
            }
        };

        /* [place][columns 0 .. 7, 8 .. 15][re, im][mma's four] */
        float sum[SLOTS][2][2][4] = {};
        /* Where the sample at hand stands. */
        int4 now = {INT32_MIN, 0, 0, 0};
        patch to = {};
        /* The first n planes are complete. */
        auto leave = [&](int n) {
            for (int k = 0; k < n; k++) {
                const int slot = (now.z + k) % N_PLANE;
                if (slot / SLOTS != warp) continue;
                float out[2][2][4]; /* of the place: [columns][re, im][mma's four] */
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int c = 0; c < 2; c++)
#pragma unroll
                        for (int i = 0; i < 4; i++) {
                            out[h][c][i] = sum[0][h][c][i];
                            if (SLOTS > 1 && slot % SLOTS) out[h][c][i] = sum[SLOTS - 1][h][c][i];
                            sum[0][h][c][i] = slot % SLOTS ? sum[0][h][c][i] : 0;
                            if (SLOTS > 1) sum[SLOTS - 1][h][c][i] = slot % SLOTS ? 0 : sum[SLOTS - 1][h][c][i];
                        }
                if ((unsigned)(now.w + k) >= (unsigned)there.n_plane()) continue;
                cplx<float> *cells = job.grid + p * there.image_cells(g) + (now.w + k) * to.plane_cells;
#pragma unroll
                for (int down = 0; down < 2; down++) {
                    cplx<float> *line = cells + (int64_t)wrap(now.y + row + 8 * down + to.shift_v, to.n_v) * to.n_u;
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        const int u = now.x + column + 8 * h + to.shift_u;
                        add_two_cells(line + wrap(u, to.n_u), line + wrap(u + 1, to.n_u), out[h][0][2 * down],
                                      out[h][1][2 * down], out[h][0][2 * down + 1], out[h][1][2 * down + 1]);
                    }
                }
            }
        };
        auto move_to = [&](int4 next, const record<float> &r) {
            const bool stays = next.x == now.x && next.y == now.y;
            leave(stays ? min(next.z - now.z, N_PLANE) : N_PLANE);
            now = next;
            if (stays) return;
            to = there.find(g, r);
        };
        auto add = [&](int batch) {
            const tensor_factors<WIDTH, HAS_W> &f = m.factors[batch % 2];
            const ring_samples<float> &samples = m.samples[batch % 3];
            for (int step = 0; step < 2 && 2 * batch + step < block.n_group; step++) {
                const int4 stand = samples.stand[RING_GROUP * step];
                if (stand.w + N_PLANE <= 0 || stand.w >= there.n_plane()) continue;
                if (stand.x != now.x || stand.y != now.y || stand.z != now.z)
                    move_to(stand, samples.place[RING_GROUP * step]);
                const float unit = f.unit[step];
                const int k = RING_GROUP / 2 * step + pair;
                const uint4 high[2] = {f.left[step][0][0][lane], f.left[step][1][0][lane]};
                const uint4 low[2] = {f.left[step][0][1][lane], f.left[step][1][1][lane]};
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const split_pair u0 = f.u[row + 8 * h].pair[k], u1 = f.u[row + 8 * h].pair[k + 4];
#pragma unroll
                    for (int s = 0; s < SLOTS; s++) {
                        const tensor_row &taps = f.w[warp * SLOTS + s];
                        const split_pair r0 = multiply(u0, taps.pair[k]), r1 = multiply(u1, taps.pair[k + 4]);
#pragma unroll
                        for (int c = 0; c < 2; c++) {
                            float part[4] = {};
                            multiply_add(part, low[c], r0.x, r1.x);
                            multiply_add(part, high[c], r0.y, r1.y);
                            multiply_add(part, high[c], r0.x, r1.x);
#pragma unroll
                            for (int i = 0; i < 4; i++) sum[s][h][c][i] += unit * part[i];
                        }
                    }
                }
            }
        };

        fetch.begin(m.samples);
        __syncthreads();
        make_taps(0);
        scale_values(0);
        __syncthreads();
        make_left(0);
        __syncthreads();
        for (int batch = 0; block.has(batch); batch++) {
            fetch.next(m.samples, batch);
            make_taps(batch + 1);
            scale_values(batch + 1);
            __syncthreads();
            make_left(batch + 1);
            add(batch);
            fetch.finish(m.samples, batch);
            __syncthreads();
        }
        leave(N_PLANE);
    }
}

template <int WIDTH, bool HAS_W, typename PLANES>
int launch_ring_tensor(const msi_wgrid_geometry &g, const grid_job<float> &job, const PLANES &there, item_range crowded)
{
    if (!crowded.n) return MSI_OK;
    tap_table<float> window = *job.host_taps;
    for (int k = 0; k < MSI_WINDOW_MAX_COEF; k++)
        for (int i = 0; i < WIDTH; i++) {
            window.uv[k][i] *= TAP_TOP;
            window.w[k][i] *= TAP_TOP;
        }
    k_grid_ring_tensor<WIDTH, HAS_W, PLANES>
        <<<ring_blocks(crowded), 32 * tensor_ring<WIDTH, HAS_W>::N_WARP>>>(g, job, window, there, crowded);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
