/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding of tiles on tensor cores, for separable kernels. A tile is a matrix product over the samples s that touch
 * it:
 *
 *     G[j][i] = sum_s (V_s kv_s[j]) ku_s[i].
 *
 * The real and imaginary parts of eight samples are the dimension K = 16 of mma.m16n8k16. Each factor is split into two
 * halves of 11 bits. The product of the high halves and the two mixed products are summed in fp32, so the relative
 * error of a product is 2^-22. Tensor cores round sums towards zero. Therefore, after every 32 samples, their sums are
 * added to sums that are rounded to nearest.
 *
 * For the nearest sub-offset, the table for ku is split in advance. It has zeros around each row of taps, so that a
 * tile's edge needs no test. With interpolation, two unsplit rows are read for each factor, and the result is split. A
 * warp compares 32 candidates at a time with its tile, and queues those that touch it in shared memory. At the end of
 * an item, the tile is added to the grid by vector reductions.
 */
#ifndef MSI_KERNELS_WPROJ_TILE_TENSOR_CUH
#define MSI_KERNELS_WPROJ_TILE_TENSOR_CUH

#include "kernels/gpu/mma_cuda.cuh"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/wproj/tile/wproj_tile_items.cuh"

namespace wproj_tile {

constexpr int GROUP = 8, QUEUE = 64;
constexpr int GROUPS_A_SUM = 4;    /* number of groups of 8 samples between additions to the rounded sums */
constexpr float TABLE_TOP = 16.0f; /* largest table value; its product with a value is in the range of a half */
constexpr int VALUE_TOP_EXPONENT = 9;

/* The table of kernels. For the nearest sub-offset, elements are multiplied by `scale` and split: half2 (re, im), high
 * and low. With interpolation they are float2. */
struct tensor_table {
    const uint2 *element;
    float scale;
    int32_t middle; /* oversample / 2 */
};

/* A sample that touches the tile. x and y: table elements for the tile's first column and row. z and w: the value. */
template <bool LINEAR> struct queued {
    uint4 sample;
};
template <> struct queued<true> {
    uint4 sample;
    float frac_u, frac_v;
    int16_t column, row; /* taps of the tile's first column and row, which may be outside of 0 .. taps - 1 */
    int32_t taps;
};

/* Split two numbers as a table's elements are split. .x has the high halves, .y the low halves. */
__device__ inline uint2 split_halves(float2 x)
{
    const mma::split_pair s = mma::split(x.x, x.y);
    return {s.high, s.low};
}

/* The product of V and a weight along v, split, in the two arrangements that give the real and the imaginary part. */
struct factor {
    uint32_t re_high, re_low, im_high, im_low;
};

__device__ inline float2 whole(uint2 split)
{
    float2 high = __half22float2(mma::halves(split.x)), low = __half22float2(mma::halves(split.y));
    return {high.x + low.x, high.y + low.y};
}

__device__ inline factor weigh(float2 k, float re, float im)
{
    uint2 both = split_halves({re * k.x - im * k.y, re * k.y + im * k.x});
    /* (re, -im) and (im, re) of both */
    factor f;
    f.re_high = both.x ^ 0x80000000u;
    f.re_low = both.y ^ 0x80000000u;
    f.im_high = __byte_perm(both.x, 0, 0x1032);
    f.im_low = __byte_perm(both.y, 0, 0x1032);
    return f;
}

/* Interpolate tap i between the rows of two sub-offsets. The result is 0 if the row has no tap i. */
__device__ inline float2 between(const float2 *row, int i, int taps, float here, float next)
{
    if ((unsigned)i >= (unsigned)taps) return {0, 0};
    const float2 a = __ldg(row), b = __ldg(row + taps);
    return {here * a.x + next * b.x, here * a.y + next * b.y};
}

/* A lane has the split weights of columns g and g + 8 of the tile, and the unsplit weights of rows g and g + 8. */
struct weights {
    uint2 u[2];
    float2 v[2];
};

__device__ inline weights load_weights(const tensor_table &table, const queued<false> &q, int g)
{
    const uint2 *u = table.element + q.sample.x + g, *v = table.element + q.sample.y + g;
    return {{__ldg(u), __ldg(u + 8)}, {whole(__ldg(v)), whole(__ldg(v + 8))}};
}

__device__ inline weights load_weights(const tensor_table &table, const queued<true> &q, int g)
{
    const float2 *element = reinterpret_cast<const float2 *>(table.element);
    const float next_u = table.scale * q.frac_u, next_v = table.scale * q.frac_v;
    const float here_u = table.scale - next_u, here_v = table.scale - next_v;
    weights w;
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const int at = g + 8 * k;
        w.u[k] = split_halves(between(element + (int)q.sample.x + at, q.column + at, q.taps, here_u, next_u));
        w.v[k] = between(element + (int)q.sample.y + at, q.row + at, q.taps, here_v, next_v);
    }
    return w;
}

/* A lane's sums of a tile: [columns 0..7 or 8..15][re, im][result registers of mma]. */
typedef float tile_sums[2][2][4];

/* Add eight queued samples. */
template <bool LINEAR>
__device__ inline void add_group(tile_sums &sum, const queued<LINEAR> *queue, uint32_t head, const tensor_table &table,
                                 int lane)
{
    const int g = lane / 4, t = lane % 4;
    uint32_t re_high[4], re_low[4], im_high[4], im_low[4], b_high[2][2], b_low[2][2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
        const queued<LINEAR> q = queue[(head + t + 4 * s) % QUEUE];
        const weights w = load_weights(table, q, g);
        const float re = __uint_as_float(q.sample.z), im = __uint_as_float(q.sample.w);
        factor f0 = weigh(w.v[0], re, im), f1 = weigh(w.v[1], re, im);
        re_high[2 * s] = f0.re_high, re_high[2 * s + 1] = f1.re_high;
        re_low[2 * s] = f0.re_low, re_low[2 * s + 1] = f1.re_low;
        im_high[2 * s] = f0.im_high, im_high[2 * s + 1] = f1.im_high;
        im_low[2 * s] = f0.im_low, im_low[2 * s + 1] = f1.im_low;
        b_high[0][s] = w.u[0].x, b_high[1][s] = w.u[1].x;
        b_low[0][s] = w.u[0].y, b_low[1][s] = w.u[1].y;
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
        mma::multiply_add(sum[n][0], re_high, b_high[n][0], b_high[n][1]);
        mma::multiply_add(sum[n][1], im_high, b_high[n][0], b_high[n][1]);
        mma::multiply_add(sum[n][0], re_low, b_high[n][0], b_high[n][1]);
        mma::multiply_add(sum[n][1], im_low, b_high[n][0], b_high[n][1]);
        mma::multiply_add(sum[n][0], re_high, b_low[n][0], b_low[n][1]);
        mma::multiply_add(sum[n][1], im_high, b_low[n][0], b_low[n][1]);
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

/* Add a tile's scaled sums to an image's grid, conjugated if the item's kernels are conjugated. */
__device__ inline void add_tile(const tile_view &t, int image, const tile_sums &sum, const candidates &c, float scale,
                                int lane)
{
    const float sign = c.conjugate ? -scale : scale;
    float2 *at = static_cast<float2 *>(t.grid) + image * t.n_cell + (int64_t)(c.tile_v + lane / 4) * t.nu + c.tile_u +
                 2 * (lane % 4);
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int row = 0; row < 2; row++)
            vector_add::add_two(at + 8 * n + (int64_t)(8 * row) * t.nu, scale * sum[n][0][2 * row],
                                sign * sum[n][1][2 * row], scale * sum[n][0][2 * row + 1],
                                sign * sum[n][1][2 * row + 1]);
}

/* Return the power of two that scales the largest value to 2^VALUE_TOP_EXPONENT or just below. */
__device__ inline float value_scale(const uint32_t *largest)
{
    int exponent = 0;
    float x = __uint_as_float(*largest);
    if (!(x > 0) || !isfinite(x)) return 1;
    frexpf(x, &exponent);
    return ldexpf(1, VALUE_TOP_EXPONENT - exponent);
}

/* Queue a candidate that touches the tile. (du, dv) is the tile's first cell from the sample's cell. */
__device__ inline void enqueue(queued<false> *q, const uint4 &sample, const plane_kernel &k, float2, int, int du,
                               int dv)
{
    const int pitch = 2 * k.half + 1 + 2 * (TILE - 1);
    q->sample.x = (uint32_t)(k.first_u + msi_wproj_head_sub_u(sample.y) * pitch + du + k.half);
    q->sample.y = (uint32_t)(k.first_v + msi_wproj_head_sub_v(sample.y) * pitch + dv + k.half);
}

/* The same with interpolation. The sub-offsets `sub` have fractions, and are 0 .. 2 middle. */
__device__ inline void enqueue(queued<true> *q, const uint4 &, const plane_kernel &k, float2 sub, int middle, int du,
                               int dv)
{
    const int last = 2 * middle - 1, sub_u = min((int)sub.x, last), sub_v = min((int)sub.y, last);
    q->taps = 2 * k.half + 1;
    q->column = (int16_t)(du + k.half);
    q->row = (int16_t)(dv + k.half);
    q->sample.x = (uint32_t)(k.first_u + sub_u * q->taps + q->column);
    q->sample.y = (uint32_t)(k.first_v + sub_v * q->taps + q->row);
    q->frac_u = sub.x - sub_u;
    q->frac_v = sub.y - sub_v;
}

/* Reads candidates in advance: heads, values of one image, and with interpolation sub-offsets. */
template <bool LINEAR> struct candidate_reader {
    const uint2 *heads, *values;
    const float2 *subs;
    struct read_ahead {
        uint4 sample; /* head, value */
        float2 sub;
    };

    __device__ candidate_reader(const msi_wproj_sorted &s, int image)
        : heads(reinterpret_cast<const uint2 *>(s.head)),
          values(static_cast<const uint2 *>(s.value) + image * s.stride), subs(static_cast<const float2 *>(s.frac))
    {
    }

    /* Read candidate f of an item, if the item has it. */
    __device__ read_ahead read(const candidates &c, uint32_t f) const
    {
        const uint32_t i = c.sample(f);
        if (f >= c.end) return {};
        const uint2 h = heads[i], v = values[i];
        return {{h.x, h.y, v.x, v.y}, LINEAR ? subs[i] : float2{}};
    }
};

template <bool LINEAR>
__global__ __launch_bounds__(32 * WARPS) void k_grid_tensor(tile_view t, tensor_table table, int image)
{
    __shared__ queued<LINEAR> queues[WARPS][QUEUE];
    const int lane = threadIdx.x % 32;
    queued<LINEAR> *queue = queues[threadIdx.x / 32];
    const float scale_in = value_scale(t.sorted.largest_value + image);
    const float scale_out = 1 / (scale_in * table.scale * table.scale);
    const candidate_reader<LINEAR> reader(t.sorted, image);
    candidates c;
    while (c.draw(t, lane)) {
        const float sign_in = c.conjugate ? -scale_in : scale_in;
        tile_sums sum = {}, rounded = {};
        uint32_t head = 0, n_queued = 0, groups = 0;
        auto next = reader.read(c, c.first + lane);
        for (uint32_t f = c.first; f < c.end; f += 32) {
            const auto q = next;
            const bool there = f + lane < c.end;
            next = reader.read(c, f + 32 + lane);
            const int du = c.tile_u - msi_wproj_head_u(q.sample.x), dv = c.tile_v - msi_wproj_head_v(q.sample.x);
            const plane_kernel k = t.planes[msi_wproj_head_plane(q.sample.y)];
            const bool touches = there && touches_tile(du, dv, k.half);
            const unsigned votes = __ballot_sync(~0u, touches);
            if (touches) {
                uint32_t at = head + n_queued + (uint32_t)__popc(votes & ((1u << lane) - 1));
                queued<LINEAR> entry;
                enqueue(&entry, q.sample, k, q.sub, table.middle, du, dv);
                entry.sample.z = __float_as_uint(scale_in * __uint_as_float(q.sample.z));
                entry.sample.w = __float_as_uint(sign_in * __uint_as_float(q.sample.w));
                queue[at % QUEUE] = entry;
            }
            n_queued += (uint32_t)__popc(votes);
            __syncwarp();
            while (n_queued >= GROUP) {
                add_group(sum, queue, head, table, lane);
                head += GROUP;
                n_queued -= GROUP;
                if (++groups % GROUPS_A_SUM == 0) round_sums(rounded, sum);
            }
            __syncwarp();
        }
        if (n_queued > 0) {
            if (lane >= (int)n_queued && lane < GROUP) queue[(head + lane) % QUEUE] = queued<LINEAR>{};
            __syncwarp();
            add_group(sum, queue, head, table, lane);
            __syncwarp();
        }
        round_sums(rounded, sum);
        add_tile(t, image, rounded, c, scale_out, lane);
    }
}

} // namespace wproj_tile

#endif
