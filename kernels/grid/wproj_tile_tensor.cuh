/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Separable kernels on tensor cores. Over the samples s that touch a tile
 *
 *     G[j][i] = sum_s (V_s kv_s[j]) ku_s[i],
 *
 * a matrix product with the samples along K: eight of them, re and im, are the K = 16 of mma.m16n8k16. Factors are
 * split into two halves of 11 bits each, products of high halves and both mixed ones add to fp32: relative error 2^-22
 * a product. Every 64 samples the tensor cores' sums, which round towards zero, are added to sums that round to
 * nearest.
 *
 * The kernel's table holds each row of taps between zeros, so that a tile's edge needs no test, and split already for
 * ku. A warp compares 32 candidates at a time with its tile, and queues those that touch it in shared memory; a tile is
 * added to the grid by vector reductions when its item ends.
 */
#ifndef MSI_KERNELS_WPROJ_TILE_TENSOR_CUH
#define MSI_KERNELS_WPROJ_TILE_TENSOR_CUH

#include <cuda_fp16.h>

#include "kernels/grid/wproj_tile_items.cuh"

namespace wproj_tile {

constexpr int GROUP = 8, QUEUE = 64;
constexpr int GROUPS_A_SUM = 8;    /* groups of 8 samples between additions to the rounded sums */
constexpr float TABLE_TOP = 16.0f; /* largest table value, and value times this stays within a half's range */
constexpr int VALUE_TOP_EXPONENT = 9;

/* Kernels as tensor cores take them: half2 (re, im) high, half2 low. */
struct split_table {
    const uint2 *element;
    float scale; /* what the values are multiplied by */
};

__device__ inline void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline uint32_t bits(half2 h)
{
    return *reinterpret_cast<uint32_t *>(&h);
}

__device__ inline half2 halves(uint32_t u)
{
    return *reinterpret_cast<half2 *>(&u);
}

/* V times a v-weight, split, in the two arrangements that give real and imaginary parts. */
struct factor {
    uint32_t re_high, re_low, im_high, im_low;
};

__device__ inline factor weigh(uint2 weight, float re, float im)
{
    float2 high = __half22float2(halves(weight.x)), low = __half22float2(halves(weight.y));
    float kr = high.x + low.x, ki = high.y + low.y;
    float r = re * kr - im * ki, i = re * ki + im * kr;
    half2 h = __floats2half2_rn(r, i);
    float2 kept = __half22float2(h);
    r -= kept.x;
    i -= kept.y;
    half2 l = __floats2half2_rn(r, i);
    /* (re, -im) and (im, re) of both */
    factor f;
    f.re_high = bits(h) ^ 0x80000000u;
    f.re_low = bits(l) ^ 0x80000000u;
    f.im_high = __byte_perm(bits(h), 0, 0x1032);
    f.im_low = __byte_perm(bits(l), 0, 0x1032);
    return f;
}

/* Sums of a tile: [columns 0..7 or 8..15][re, im][mma's four]. */
typedef float tile_sums[2][2][4];

/* Eight queued samples: of each, x and y are the elements of the tile's first column and row, z and w its value. */
__device__ inline void add_group(tile_sums &sum, const uint4 *queue, uint32_t head, const uint2 *table, int lane)
{
    const int g = lane / 4, t = lane % 4;
    uint32_t re_high[4], re_low[4], im_high[4], im_low[4], b_high[2][2], b_low[2][2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        uint4 q = queue[(head + t + 4 * s) % QUEUE];
        const uint2 *u = table + q.x + g, *v = table + q.y + g;
        uint2 u0 = __ldg(u), u1 = __ldg(u + 8), v0 = __ldg(v), v1 = __ldg(v + 8);
        float re = __uint_as_float(q.z), im = __uint_as_float(q.w);
        factor f0 = weigh(v0, re, im), f1 = weigh(v1, re, im);
        re_high[2 * s] = f0.re_high, re_high[2 * s + 1] = f1.re_high;
        re_low[2 * s] = f0.re_low, re_low[2 * s + 1] = f1.re_low;
        im_high[2 * s] = f0.im_high, im_high[2 * s + 1] = f1.im_high;
        im_low[2 * s] = f0.im_low, im_low[2 * s + 1] = f1.im_low;
        b_high[0][s] = u0.x, b_high[1][s] = u1.x;
        b_low[0][s] = u0.y, b_low[1][s] = u1.y;
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        multiply_add(sum[n][0], re_high, b_high[n][0], b_high[n][1]);
        multiply_add(sum[n][1], im_high, b_high[n][0], b_high[n][1]);
        multiply_add(sum[n][0], re_low, b_high[n][0], b_high[n][1]);
        multiply_add(sum[n][1], im_low, b_high[n][0], b_high[n][1]);
        multiply_add(sum[n][0], re_high, b_low[n][0], b_low[n][1]);
        multiply_add(sum[n][1], im_high, b_low[n][0], b_low[n][1]);
    }
}

__device__ inline void round_sums(tile_sums &rounded, tile_sums &sum)
{
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int p = 0; p < 2; p++)
#pragma unroll
            for (int k = 0; k < 4; k++) {
                rounded[n][p][k] += sum[n][p][k];
                sum[n][p][k] = 0;
            }
}

/* Two neighbouring cells. */
__device__ inline void add_pair(float2 *cell, float re0, float im0, float re1, float im1)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(cell), "f"(re0), "f"(im0), "f"(re1), "f"(im1)
                 : "memory");
#else
    atomicAdd(&cell[0].x, re0);
    atomicAdd(&cell[0].y, im0);
    atomicAdd(&cell[1].x, re1);
    atomicAdd(&cell[1].y, im1);
#endif
}

__device__ inline void add_tile(const tile_view &t, int image, const tile_sums &sum, int tile_u, int tile_v,
                                float scale, float sign, int lane)
{
    float2 *at = static_cast<float2 *>(t.grid) + image * t.n_cell + (int64_t)(tile_v + lane / 4) * t.nu + tile_u +
                 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int row = 0; row < 2; row++)
            add_pair(at + 8 * n + (int64_t)(8 * row) * t.nu, scale * sum[n][0][2 * row], sign * sum[n][1][2 * row],
                     scale * sum[n][0][2 * row + 1], sign * sum[n][1][2 * row + 1]);
}

/* Power of two that takes the largest value to 2^VALUE_TOP_EXPONENT or just below. */
__device__ inline float value_scale(const uint32_t *largest)
{
    int exponent = 0;
    float x = __uint_as_float(*largest);
    if (!(x > 0) || !isfinite(x)) return 1;
    frexpf(x, &exponent);
    return ldexpf(1, VALUE_TOP_EXPONENT - exponent);
}

static __global__ __launch_bounds__(32 * WARPS) void k_grid_tensor(tile_view t, split_table table, int image)
{
    __shared__ uint4 queues[WARPS][QUEUE];
    const int lane = threadIdx.x % 32;
    uint4 *queue = queues[threadIdx.x / 32];
    const float scale_in = value_scale(t.sorted.largest_value + image);
    const float scale_out = 1 / (scale_in * table.scale * table.scale);
    const uint2 *heads = reinterpret_cast<const uint2 *>(t.sorted.head);
    const uint2 *values = static_cast<const uint2 *>(t.sorted.value) + image * t.sorted.stride;
    candidates c;
    while (c.draw(t, lane)) {
        const float sign_in = c.conjugate ? -scale_in : scale_in;
        tile_sums sum = {}, rounded = {};
        uint32_t head = 0, queued = 0, groups = 0;
        auto fetch = [&](uint32_t f) {
            const uint32_t i = c.sample(f);
            if (f >= c.end) return uint4{};
            const uint2 h = heads[i], v = values[i];
            return uint4{h.x, h.y, v.x, v.y};
        };
        uint4 next = fetch(c.first + lane);
        for (uint32_t f = c.first; f < c.end; f += 32) {
            const uint4 q = next;
            const bool there = f + lane < c.end;
            next = fetch(f + 32 + lane);
            const int du = c.tile_u - msi_wproj_head_u(q.x), dv = c.tile_v - msi_wproj_head_v(q.x);
            const plane_kernel k = t.planes[msi_wproj_head_plane(q.y)];
            const bool touches = there && touches_tile(du, dv, k.half);
            const unsigned votes = __ballot_sync(~0u, touches);
            if (touches) {
                uint32_t at = head + queued + (uint32_t)__popc(votes & ((1u << lane) - 1));
                int pitch = 2 * k.half + 1 + 2 * (TILE - 1);
                queue[at % QUEUE] = {(uint32_t)(k.first_u + msi_wproj_head_sub_u(q.y) * pitch + du + k.half),
                                     (uint32_t)(k.first_v + msi_wproj_head_sub_v(q.y) * pitch + dv + k.half),
                                     __float_as_uint(scale_in * __uint_as_float(q.z)),
                                     __float_as_uint(sign_in * __uint_as_float(q.w))};
            }
            queued += (uint32_t)__popc(votes);
            __syncwarp();
            while (queued >= GROUP) {
                add_group(sum, queue, head, table.element, lane);
                head += GROUP;
                queued -= GROUP;
                if (++groups % GROUPS_A_SUM == 0) round_sums(rounded, sum);
            }
            __syncwarp();
        }
        if (queued > 0) {
            if (lane >= (int)queued && lane < GROUP) queue[(head + lane) % QUEUE] = uint4{};
            __syncwarp();
            add_group(sum, queue, head, table.element, lane);
            __syncwarp();
        }
        round_sums(rounded, sum);
        add_tile(t, image, rounded, c.tile_u, c.tile_v, scale_out, c.conjugate ? -scale_out : scale_out, lane);
    }
}

} /* namespace wproj_tile */

#endif
