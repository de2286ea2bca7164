/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding with a moving window on tensor cores, for separable kernels in fp32.
 *
 * While the window stays, degridding is a matrix product. With G the window's cells, row v and column u, and ku, kv the
 * weights of visibility k,
 *
 *     T[v][k] = sum_u G[v][u] ku[u],    value[k] = sum_v T[v][k] kv[v].
 *
 * The first is as many times the work of the second as the window has columns. A warp holds 8 or 16 rows of G, of up to
 * four images, in registers as the first operand of mma.m16n8k16, eight rows and sixteen columns at a time: the real
 * parts are the product's rows 0 .. 7, the imaginary parts rows 8 .. 15. The second operand is four visibilities, the
 * real parts of their weights and the imaginary parts in a column each. Both operands are split into two halves of 11
 * bits, and three of the four products added to fp32: relative error 2^-22 a product. Halves reach from 2^-24 to 2^16
 * only, so weights are scaled by what their table's largest needs, cells by what the largest that a warp has read for
 * its visibilities needs; a cell that no longer fits makes it read its cells again. So cells are known to 2^-35 of the
 * largest at least.
 *
 * The second sum is the threads' own: lane l holds rows l / 4 of T for visibility l % 4. What remains is summed over
 * eight lanes by shuffles, over warps in shared memory, over tiles in global memory.
 */
#ifndef MSI_KERNELS_WPROJ_WINDOW_TENSOR_CUH
#define MSI_KERNELS_WPROJ_WINDOW_TENSOR_CUH

#include <cuda_fp16.h>

#include "kernels/degrid/wproj_window_values.cuh"

namespace {

constexpr int FOUR = 4;     /* cells that a corner is a multiple of, and that a lane holds side by side */
constexpr int STEP = 16;    /* columns of a product, which a window's are a multiple of */
constexpr int SET = 8;      /* rows of a product */
constexpr int TOGETHER = 4; /* visibilities of a product */
/* Elements between staged rows along v, so that those of four visibilities begin in different banks. */
constexpr int STAGGER = 4;
/* Powers of two that the largest are scaled to, or a little more. Cells read later may be sixteen times as large. */
constexpr int CELL_TOP = 10, WEIGHT_TOP = 13;
constexpr float CELL_LIMIT = 32768;
constexpr int LARGEST_THREADS = 256;

/* P images; M sets of rows a warp, WARPS of them; windows of at most W columns; batches of N visibilities. */
template <int P_, int M_, int W_, int WARPS_, int N_, int BLOCKS_> struct tensor_form {
    static constexpr int P = P_, M = M_, W = W_, WARPS = WARPS_, N = N_, BLOCKS = BLOCKS_;
    static constexpr int ROWS = SET * M;
    static constexpr int STEPS = W / STEP;
    static constexpr int WIDTH_U = W / 2, WIDTH_V = ROWS * WARPS + STAGGER;
};

/* Four numbers, each split in two halves. */
struct split_four {
    uint32_t high[2], low[2];
};

template <class F> struct tensor_store {
    /* Real parts of four weights, imaginary parts of the same, ..; the other way round in every second step, so that
     * eight lanes that write real parts meet in no bank. */
    split_four u[F::N * F::WIDTH_U];
    alignas(16) cplx<float> v[F::N * F::WIDTH_V];
    alignas(16) cplx<float> part[F::WARPS][F::N * F::P]; /* sums over a warp's rows */
    batch_store<float, F::P, F::N> batch;
};

/* Power of two that takes the largest of some numbers to 2^top and more, less than 2^(top + 1); and its inverse. */
struct power {
    float up, down;
};

__device__ __forceinline__ power scale_to(float largest, int top)
{
    int exponent = max((int)(__float_as_uint(largest) >> 23), top + 1);
    return {__uint_as_float((uint32_t)(254 + top - exponent) << 23), __uint_as_float((uint32_t)(exponent - top) << 23)};
}

__device__ __forceinline__ uint32_t bits(half2 h)
{
    return *reinterpret_cast<uint32_t *>(&h);
}

__device__ __forceinline__ split_four split(float a, float b, float c, float d)
{
    half2 first = __floats2half2_rn(a, b), second = __floats2half2_rn(c, d);
    float2 x = __half22float2(first), y = __half22float2(second);
    half2 rest = __floats2half2_rn(a - x.x, b - x.y), more = __floats2half2_rn(c - y.x, d - y.y);
    return {{bits(first), bits(second)}, {bits(rest), bits(more)}};
}

/*
 * A warp's part of the window. Lane l holds, of every set of rows, row l / 4; of every step of columns, cells
 * 4 (l % 4) .. + 3: the first operand of a product, high, then low.
 */
template <class F> struct window_cells {
    uint32_t word[F::M][F::STEPS][F::P][8];
    power scale[F::P];
    float scale_of[F::P];
};

__device__ __forceinline__ void tensor_multiply_add(float (&sum)[4], const uint32_t *a, uint32_t b0, uint32_t b1)
{
#ifdef __CUDA_ARCH__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Where a lane finds its cells. */
template <class F> struct window_reader {
    const window_args<float> &a;
    int image, place_u, place_v; /* of its first cell, in the window */

    /* Four cells of a row, column u on. */
    __device__ __forceinline__ void read(uint32_t (*to)[8], const cplx<float> *row, int u) const
    {
        if (F::P == 1 && a.fours && a.n_image == 1) {
            const uint4 *from = (const uint4 *)(row + wrap(u, a.nu));
            uint4 x = from[0], y = from[1];
            to[0][0] = x.x, to[0][1] = x.y, to[0][2] = x.z, to[0][3] = x.w;
            to[0][4] = y.x, to[0][5] = y.y, to[0][6] = y.z, to[0][7] = y.w;
            return;
        }
        const cplx<float> *cell = row + (int64_t)wrap(u, a.nu) * a.n_image;
#pragma unroll
        for (int i = 0; i < FOUR; i++) {
            if (!a.fours && i > 0) cell = row + (int64_t)wrap(u + i, a.nu) * a.n_image;
            if (F::P % 2 == 0 && a.pairs) {
#pragma unroll
                for (int p = 0; p + 1 < F::P; p += 2) {
                    uint4 x = *(const uint4 *)(cell + p);
                    to[p][2 * i] = x.x, to[p][2 * i + 1] = x.y, to[p + 1][2 * i] = x.z, to[p + 1][2 * i + 1] = x.w;
                }
            } else {
#pragma unroll
                for (int p = 0; p < F::P; p++) {
                    uint2 x = *(const uint2 *)(cell + p);
                    to[p][2 * i] = x.x, to[p][2 * i + 1] = x.y;
                }
            }
            cell += a.n_image;
        }
    }

    /* Four cells, scaled, as the products take them. Returns: the largest part of any, or `largest`. */
    __device__ __forceinline__ static float divide(uint32_t *word, const uint32_t *cell, float scale, float largest)
    {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            x[i] = __uint_as_float(cell[i]);
            largest = fmaxf(largest, fabsf(x[i]));
            x[i] *= scale;
        }
        split_four re = split(x[0], x[2], x[4], x[6]), im = split(x[1], x[3], x[5], x[7]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            word[2 * i] = re.high[i];
            word[2 * i + 1] = im.high[i];
            word[4 + 2 * i] = re.low[i];
            word[5 + 2 * i] = im.low[i];
        }
        return largest;
    }

    /* The steps and sets of which any lane's cells lie elsewhere since the corner went from `from` to `to`. */
    __device__ __forceinline__ void move(window_cells<F> &c, corner from, corner to) const
    {
        bool fresh[F::M][F::STEPS];
#pragma unroll
        for (int j = 0; j < F::STEPS; j++) {
            const int place = place_u + j * STEP;
            const bool moved =
                cell_at(place, to.place_u, to.u, a.window_u) != cell_at(place, from.place_u, from.u, a.window_u);
            fresh[0][j] = __any_sync(ALL_LANES, moved);
        }
#pragma unroll
        for (int m = F::M - 1; m >= 0; m--) {
            const int place = place_v + m * SET;
            const bool moved =
                cell_at(place, to.place_v, to.v, a.window_v) != cell_at(place, from.place_v, from.v, a.window_v);
            const bool row = __any_sync(ALL_LANES, moved);
#pragma unroll
            for (int j = 0; j < F::STEPS; j++) fresh[m][j] = j < a.threads_u && (row || fresh[0][j]);
        }
        const cplx<float> *row[F::M];
#pragma unroll
        for (int m = 0; m < F::M; m++) {
            const int v = cell_at(place_v + m * SET, to.place_v, to.v, a.window_v);
            row[m] = a.grid + (int64_t)wrap(v, a.nv) * a.nu * a.n_image + image;
        }
        for (;;) {
            float largest[F::P] = {};
            /* As many on their way at a time as registers allow. */
            constexpr int CHUNK = F::M * F::P < 4 ? 4 / (F::M * F::P) : 1;
#pragma unroll
            for (int first = 0; first < F::STEPS; first += CHUNK) {
                uint32_t cell[F::M][CHUNK][F::P][8];
#pragma unroll
                for (int m = 0; m < F::M; m++)
#pragma unroll
                    for (int j = 0; j < CHUNK && first + j < F::STEPS; j++)
                        if (fresh[m][first + j])
                            read(cell[m][j], row[m],
                                 cell_at(place_u + (first + j) * STEP, to.place_u, to.u, a.window_u));
#pragma unroll
                for (int m = 0; m < F::M; m++)
#pragma unroll
                    for (int j = 0; j < CHUNK && first + j < F::STEPS; j++)
                        if (fresh[m][first + j])
#pragma unroll
                            for (int p = 0; p < F::P; p++)
                                largest[p] = divide(c.word[m][first + j][p], cell[m][j][p], c.scale[p].up, largest[p]);
            }
            bool fits = true;
#pragma unroll
            for (int p = 0; p < F::P; p++) {
                const float most = __uint_as_float(__reduce_max_sync(ALL_LANES, __float_as_uint(largest[p])));
                /* With the scale of its own largest everything fits that is finite. */
                if (most * c.scale[p].up <= CELL_LIMIT || most == c.scale_of[p]) continue;
                fits = false;
                c.scale_of[p] = most;
                c.scale[p] = scale_to(most, CELL_TOP);
            }
            if (fits) return;
#pragma unroll
            for (int m = 0; m < F::M; m++)
#pragma unroll
                for (int j = 0; j < F::STEPS; j++) fresh[m][j] = j < a.threads_u;
        }
    }
};

/* Where the weight of a row is staged: as those along u, the halves of every four turned about in every second step. */
__device__ __forceinline__ int turned(int row)
{
    return row ^ (row >> 3 & 2);
}

/*
 * Four visibilities' sums over a warp's rows. u: staged weights of the visibility, part and columns that this lane
 * gives to the first product; v: those of the visibility that it takes, from first_row on. Returned: as transposed_sum
 * over the lanes of a visibility.
 */
template <class F>
__device__ __forceinline__ float weigh_window(const window_cells<F> &c, const split_four *u, const cplx<float> *v,
                                              int first_row, int steps, int lane)
{
    const int other = 1 - 2 * (lane / 4 % 2);
    /* High products, and both mixed ones: sums round towards zero, which matters less to small ones. */
    float sum[F::M][F::P][2][4] = {};
#pragma unroll
    for (int j = 0; j < F::STEPS; j++) {
        if (j > 0 && j >= steps) break;
        uint4 w = *(const uint4 *)(u + j * STEP / 2 + (j % 2 ? other : 0));
#pragma unroll
        for (int m = 0; m < F::M; m++)
#pragma unroll
            for (int p = 0; p < F::P; p++) {
                const uint32_t *word = c.word[m][j][p];
                tensor_multiply_add(sum[m][p][0], word, w.x, w.y);
                tensor_multiply_add(sum[m][p][1], word, w.z, w.w);
                tensor_multiply_add(sum[m][p][1], word + 4, w.x, w.y);
            }
    }
    cplx<float> total[F::P] = {};
#pragma unroll
    for (int m = 0; m < F::M; m++) {
        const cplx<float> weight = v[turned(first_row + m * SET)];
#pragma unroll
        for (int p = 0; p < F::P; p++) {
            float part[4];
#pragma unroll
            for (int i = 0; i < 4; i++) part[i] = sum[m][p][0][i] + sum[m][p][1][i];
            multiply_add(total[p], {part[0] - part[3], part[1] + part[2]}, weight);
        }
    }
#pragma unroll
    for (int p = 0; p < F::P; p++) total[p] = {total[p].re * c.scale[p].down, total[p].im * c.scale[p].down};
    return transposed_sum<2 * F::P, 4>((float *)total, lane);
}

template <class F>
__global__ void __launch_bounds__(32 * F::WARPS, F::BLOCKS)
    k_window_degrid_tensor(const __grid_constant__ window_args<float> a, const float *largest)
{
    using S = tensor_store<F>;
    constexpr int P = F::P, N = F::N;
    extern __shared__ __align__(16) unsigned char memory[];
    S &s = *(S *)memory;

    const int cells_u = a.threads_u * STEP, cells_v = a.threads_v * F::ROWS;
    const block_share share = share_blocks<P>(a, cells_u, cells_v);
    const staging share_u = share_items(a.log2_tile_u), share_v = share_items(a.log2_tile_v);
    const axis along_u = {a.window_u, a.texture_u, (float)a.oversample};
    const axis along_v = {a.window_v, a.texture_v, (float)a.oversample};
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = lane / 4;
    const bool several = a.n_tile_u * a.n_tile_v > 1, direct = a.threads_v == 1 && !several;
    const window_reader<F> reader = {a, share.image, share.first_u + lane % 4 * FOUR,
                                     share.first_v + warp * F::ROWS + row};
    const power weight_scale = scale_to(*largest, WEIGHT_TOP);

    const int number = transposed_index<2 * P>(lane & ~3);

    window_cells<F> cells = {};
#pragma unroll
    for (int p = 0; p < P; p++) {
        cells.scale[p].up = INFINITY; /* nothing fits */
        cells.scale_of[p] = -1;
    }
    corner at = {INT32_MIN / 2, INT32_MIN / 2, 0, 0}; /* nowhere */
    if (threadIdx.x == 0) s.batch.last_u = INT32_MIN;
    int half = 0;
    fetch_batch<float, P, N>(s.batch, half, a.sample + share.begin, nullptr, 0,
                             (int)(share.end - share.begin < N ? share.end - share.begin : N));
    for (int64_t done = share.begin; done < share.end; done += N, half ^= 1) {
        int n = (int)(share.end - done < N ? share.end - done : N);
        __pipeline_wait_prior(0);
        __syncthreads();
        if (threadIdx.x < 32) find_batch<FOUR, FOUR>(s.batch, half, a, n);
        if (done + N < share.end)
            fetch_batch<float, P, N>(s.batch, half ^ 1, a.sample + done + N, nullptr, 0,
                                     (int)(share.end - done - N < N ? share.end - done - N : N));
        __syncthreads();
        auto store_u = [&](int k, int i, const cplx<float> *w) {
            const float x = weight_scale.up;
            split_four *to = s.u + k * F::WIDTH_U + 2 * i;
            const int turn = i / 4 % 2;
            to[turn] = split(x * w[0].re, x * w[1].re, x * w[2].re, x * w[3].re);
            to[1 - turn] = split(x * w[0].im, x * w[1].im, x * w[2].im, x * w[3].im);
        };
        auto store_v = [&](int k, int i, const cplx<float> *w) {
            float4 *to = (float4 *)(s.v + k * F::WIDTH_V + FOUR * i);
            const int turn = i / 4 % 2;
            to[turn] = {w[0].re, w[0].im, w[1].re, w[1].im};
            to[1 - turn] = {w[2].re, w[2].im, w[3].re, w[3].im};
        };
        stage_by<float>(a.lookup, [&](auto lookup) {
            stage_weights<lookup.value, FOUR>(s.batch.u, s.batch.frac_u, along_u, n, share.first_u, cells_u / FOUR,
                                              share_u, store_u);
            stage_weights<lookup.value, FOUR>(s.batch.v, s.batch.frac_v, along_v, n, share.first_v, cells_v / FOUR,
                                              share_v, store_v);
        });
        __syncthreads();

        cplx<float> *value = a.value + done * a.n_image + share.image;
        float *out = (float *)(direct ? value : s.part[warp]);
        const int stride = direct ? 2 * a.n_image : 2 * P;
        const uint32_t moves = s.batch.moves;
        for (int k = 0; k < n;) {
            if (moves & (1u << k)) {
                corner to = s.batch.at[k];
                reader.move(cells, at, to);
                at = to;
            }
            uint32_t later = k < 31 ? moves >> (k + 1) << (k + 1) : 0;
            int stop = later ? min(n, __ffs((int)later) - 1) : n;
#pragma unroll 1
            for (; k < stop; k += TOGETHER) {
                /* Columns beyond the last visibility repeat it, and are dropped. */
                int give = min(k + row / 2, stop - 1), take = k + lane % 4, known = min(take, stop - 1);
                const split_four *u = s.u + give * F::WIDTH_U + lane % 4 * 2 + row % 2;
                const cplx<float> *v = s.v + known * F::WIDTH_V;
                float x = weigh_window<F>(cells, u, v, warp * F::ROWS + row, a.threads_u, lane);
                if (number < 2 * P && take < stop) out[take * stride + number] = x * weight_scale.down;
            }
            k = stop;
        }
        if (!direct) {
            __syncthreads();
            write_totals<P>((const float *)s.part, 2 * N * P, value, a.n_image, n, several);
        }
    }
}

/* The largest part of any weight, of kernels of blockIdx.x's plane. */
__global__ void __launch_bounds__(LARGEST_THREADS)
    k_largest_weight(const __grid_constant__ window_args<float> a, float *largest)
{
    const int64_t n = (int64_t)(a.oversample + 1) * a.taps[blockIdx.x];
    float most = 0;
    for (const cplx<float> *row : {a.table + a.offset_u[blockIdx.x], a.table + a.offset_v[blockIdx.x]})
        for (int64_t i = threadIdx.x; i < n; i += LARGEST_THREADS)
            most = fmaxf(most, fmaxf(fabsf(row[i].re), fabsf(row[i].im)));
    uint32_t bits = __reduce_max_sync(ALL_LANES, __float_as_uint(most));
    if (threadIdx.x % 32 == 0) atomicMax((uint32_t *)largest, bits);
}

template <class F>
int launch_tensor(const msi_window_job *job, int group, int first_image, int n_pass, cudaStream_t stream)
{
    window_args<float> a;
    fill_args<float, F::P>(&a, job, group, first_image, n_pass, 1);
    const int cells = job->kernels.max_taps + FOUR - 1;
    cut_window(cells, STEP, 1, F::W, &a.window_u, &a.n_tile_u, &a.threads_u);
    cut_window(cells, F::ROWS, 1, F::ROWS * F::WARPS, &a.window_v, &a.n_tile_v, &a.threads_v);
    const int threads = 32 * a.threads_v;
    share_tile(&a, a.threads_u * STEP / FOUR, a.threads_v * F::ROWS / FOUR, threads);
    int64_t blocks = count_blocks(a);
    MSI_TRY(clear_values(a, first_image, n_pass * F::P, stream));
    MSI_CUDA(cudaFuncSetAttribute(k_window_degrid_tensor<F>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)sizeof(tensor_store<F>)));
    float *largest;
    MSI_CUDA(cudaMallocAsync((void **)&largest, sizeof *largest, stream));
    cudaMemsetAsync(largest, 0, sizeof *largest, stream);
    k_largest_weight<<<(unsigned)job->kernels.n_plane, LARGEST_THREADS, 0, stream>>>(a, largest);
    k_window_degrid_tensor<F><<<(unsigned)blocks, threads, sizeof(tensor_store<F>), stream>>>(a, largest);
    cudaFreeAsync(largest, stream);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
