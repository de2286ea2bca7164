/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums over lanes, warps and tiles for degridding with a moving window, and the form for tensor cores. */
#ifndef MSI_WPROJ_WINDOW_TENSOR_CUH
#define MSI_WPROJ_WINDOW_TENSOR_CUH

#include "kernels/wproj/window/window_halves.cuh"
#include "kernels/wproj/window/wproj_window_forms.cuh"

namespace {

/*
 * Sum x[0 .. COUNT - 1] over the lanes that differ in bits 16 .. LAST of their indices. COUNT is a power of two.
 * Returns: in lane l, the total of x[i], where i = transposed_index(l)
 * Notes:   the same as warp_sum::fold, but in place, which spills fewer registers here
 */
template <int COUNT, int LAST = 1, typename T> __device__ __forceinline__ T transposed_sum(T *x, int lane)
{
    static_assert((COUNT & (COUNT - 1)) == 0, "every step halves the numbers");
    int bit = 16;
#pragma unroll
    for (int n = COUNT / 2; n >= 1; n /= 2, bit /= 2) {
        bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; i++) {
            T send = upper ? x[i] : x[i + n], stay = upper ? x[i + n] : x[i];
            x[i] = stay + __shfl_xor_sync(ALL_LANES, send, bit);
        }
    }
    for (; bit >= LAST; bit /= 2) x[0] += __shfl_xor_sync(ALL_LANES, x[0], bit);
    return x[0];
}

/* Return the index of the total in a lane, or COUNT if it repeats the total of the lane before. Bits of `lane` below
 * LAST must be 0. */
template <int COUNT> __device__ __forceinline__ int transposed_index(int lane)
{
    constexpr int LANES = 32 / COUNT;
    return lane % LANES == 0 ? lane / LANES : COUNT;
}

/* Add the sums of all warps for a batch to the values. */
template <int P, typename T>
__device__ void write_totals(const T *part, int part_stride, cplx<T> *value, int n_image, int n, bool several)
{
    for (int i = threadIdx.x; i < 2 * n * P; i += blockDim.x) {
        T total = 0;
        for (int w = 0; w < (int)blockDim.x / 32; w++) total += part[w * part_stride + i];
        T *out = (T *)(value + i / (2 * P) * n_image) + i % (2 * P);
        if (several) {
            atomicAdd(out, total);
        } else {
            *out = total;
        }
    }
}

} // namespace

/*
 * Degridding with a moving window on tensor cores, for separable kernels in fp32.
 *
 * Degridding is a matrix product as long as the window does not move. With G[v][u] the window's cells, and ku and kv
 * the weights of visibility k,
 *
 *     T[v][k] = sum_u G[v][u] ku[u],    value[k] = sum_v T[v][k] kv[v].
 *
 * Tensor cores compute the first sum, which takes most of the work. A warp has a tile of the window, for up to four
 * images, in registers. The tile is the first operand of mma.m16n8k16, eight rows and sixteen columns at a time. The
 * real parts of the cells are rows 0 .. 7 of the operand, the imaginary parts rows 8 .. 15. The second operand has the
 * weights of four visibilities, with one column for the real parts and one for the imaginary parts of each. Its table
 * has the layout of the lanes' registers (wproj_window_cuda.h), so lanes read it directly, or interpolate between two
 * sub-offsets. Nothing is staged, and no warp waits for another.
 *
 * Both operands are split into two halves of 11 bits, and three of the four products are summed in fp32, so the
 * relative error of a product is 2^-22. Halves have a range of only 2^-24 to 2^16. Therefore weights are scaled
 * according to the largest one of their table, and cells according to the largest one that the warp has read. If a
 * larger cell does not fit, the warp changes the scale and reads its cells again. The error of a cell is at most 2^-35
 * of the largest.
 *
 * The lanes compute the second sum. Lane l has rows l / 4 of T for visibility l % 4. The results are summed over eight
 * lanes by shuffles, and over tiles in global memory.
 */

namespace {

constexpr int FOUR = 4;                 /* neighbouring cells of a lane; corners are multiples of it */
constexpr int STEP = 16;                /* columns of a product */
constexpr int SET = 8;                  /* rows of a product */
constexpr int TOGETHER = 4;             /* visibilities of a product */
constexpr int BATCH = 32;               /* visibilities of a batch, one per lane */
constexpr int IN_FLIGHT = 2;            /* sets of cells of one image that are read before the first is used */
constexpr uint32_t CELL_LIMIT = 0x7800; /* 32768 as a half */

/* The sizes of a form: P images, M sets of rows and STEPS steps of columns per warp, and BLOCKS warps per
 * multiprocessor. */
template <int P_, int M_, int STEPS_, int BLOCKS_> struct tensor_form {
    static constexpr int P = P_, M = M_, STEPS = STEPS_, BLOCKS = BLOCKS_;
    static constexpr int ROWS = SET * M, COLUMNS = STEP * STEPS;
};

/* The operands, and constants to compute x mod window as x + bias - floor((x + bias) / window) window. */
struct operand_table {
    const uint4 *u;
    const cplx<float> *v;
    const float *largest;
    int32_t window, half;
    int32_t bias;     /* a multiple of the window that makes any coordinate positive */
    uint32_t inverse; /* 2^32 / window, rounded up */
};

__device__ __forceinline__ int place_in(const operand_table &o, int x)
{
    const uint32_t y = (uint32_t)(x + o.bias);
    /* The quotient may be 1 too large. */
    const int r = (int)(y - __umulhi(y, o.inverse) * (uint32_t)o.window);
    return r < 0 ? r + o.window : r;
}

/*
 * A warp's tile of the window. Lane l has row l / 4 of every set of rows, and of every step of columns the four cells
 * from 4 (l % 4) on. They are stored as the first operand of a product, the high halves and then the low halves.
 */
template <class F> struct tile_cells {
    uint32_t word[F::M][F::STEPS][F::P][8];
    int u[F::STEPS], v[F::M]; /* positions of a lane's cells */
    power scale[F::P];
    float largest[F::P]; /* largest real or imaginary part that fits the scale; -1: no scale is set */
};

/* Hide from the compiler that a value is constant in a loop. Otherwise the compiler would compute all derived addresses
 * before the loop and spill them. */
__device__ __forceinline__ void forget(int &x)
{
#ifdef __CUDA_ARCH__
    asm volatile("" : "+r"(x));
#endif
}

/* Reads a lane's cells. ALONE: cells have no other images than the form's. */
template <class F, bool ALONE> struct tile_reader {
    const window_args<float> &a;
    int image, place_u, place_v; /* place of its first cell, in the window */

    __device__ __forceinline__ int column(corner c, int step) const
    {
        return cell_at(place_u + step * STEP, c.place_u, c.u, a.window_u);
    }

    __device__ __forceinline__ int row(corner c, int set) const
    {
        return cell_at(place_v + set * SET, c.place_v, c.v, a.window_v);
    }

    /* Read four cells of row v, beginning at column u. The length of a row is a multiple of four cells. */
    __device__ __forceinline__ void read(uint32_t (*to)[8], int u, int v) const
    {
        const int stride = ALONE ? F::P : a.n_image;
        const cplx<float> *cell =
            a.grid + ((int64_t)msi_wrap_cell(v, a.nv) * a.nu + msi_wrap_cell(u, a.nu)) * stride + image;
        if constexpr (ALONE && F::P == 1) {
            const uint4 x = __ldg((const uint4 *)cell), y = __ldg((const uint4 *)cell + 1);
            to[0][0] = x.x, to[0][1] = x.y, to[0][2] = x.z, to[0][3] = x.w;
            to[0][4] = y.x, to[0][5] = y.y, to[0][6] = y.z, to[0][7] = y.w;
        } else {
#pragma unroll
            for (int i = 0; i < FOUR; i++, cell += stride)
                if constexpr (F::P == 1) {
                    const uint2 x = __ldg((const uint2 *)cell);
                    to[0][2 * i] = x.x, to[0][2 * i + 1] = x.y;
                } else {
#pragma unroll
                    for (int p = 0; p + 1 < F::P; p += 2) {
                        const uint4 x = __ldg((const uint4 *)(cell + p));
                        to[p][2 * i] = x.x, to[p][2 * i + 1] = x.y, to[p + 1][2 * i] = x.z, to[p + 1][2 * i + 1] = x.w;
                    }
                }
        }
    }

    /* Scale and split four cells into the layout of the operand. Update `most`, the largest high halves. */
    __device__ __forceinline__ static void divide(uint32_t *word, const uint32_t *cell, float scale, half2 &most)
    {
        float x[8];
#pragma unroll
        for (int i = 0; i < 8; i++) x[i] = __uint_as_float(cell[i]) * scale;
        const uint4 re = split(x[0], x[2], x[4], x[6]), im = split(x[1], x[3], x[5], x[7]);
        word[0] = re.x, word[1] = im.x, word[2] = re.y, word[3] = im.y;
        word[4] = re.z, word[5] = im.z, word[6] = re.w, word[7] = im.w;
#pragma unroll
        for (int i = 0; i < 4; i++) most = __hmax2(most, __habs2(*reinterpret_cast<half2 *>(&word[i])));
    }

    /* Find a scale for the tile's cells with the corner at `to`. */
    __device__ __forceinline__ void find_scale(tile_cells<F> &c, corner to) const
    {
        float most[F::P] = {};
#pragma unroll 1
        for (int i = 0; i < F::M * F::STEPS; i++) {
            uint32_t cell[F::P][8];
            read(cell, column(to, i % F::STEPS), row(to, i / F::STEPS));
#pragma unroll
            for (int p = 0; p < F::P; p++)
#pragma unroll
                for (int k = 0; k < 8; k++) most[p] = fmaxf(most[p], fabsf(__uint_as_float(cell[p][k])));
        }
#pragma unroll
        for (int p = 0; p < F::P; p++) {
            c.largest[p] = __uint_as_float(__reduce_max_sync(ALL_LANES, __float_as_uint(most[p])));
            c.scale[p] = scale_to(c.largest[p], CELL_TOP);
        }
    }

    /* Move the corner to `to`, and read the cells whose positions change. */
    __device__ __forceinline__ void move(tile_cells<F> &c, corner to) const
    {
        bool across[F::STEPS], along[F::M];
#pragma unroll
        for (int j = 0; j < F::STEPS; j++) {
            const int u = column(to, j);
            across[j] = u != c.u[j];
            c.u[j] = u;
        }
#pragma unroll
        for (int m = 0; m < F::M; m++) {
            const int v = row(to, m);
            along[m] = v != c.v[m];
            c.v[m] = v;
        }
        bool recompute = c.largest[0] < 0;
#pragma unroll 1
        for (;;) {
#pragma unroll
            for (int j = 0; j < F::STEPS; j++) forget(c.u[j]);
#pragma unroll
            for (int m = 0; m < F::M; m++) forget(c.v[m]);
            if (recompute) {
                find_scale(c, to);
#pragma unroll
                for (int j = 0; j < F::STEPS; j++) across[j] = true;
            }
            half2 most[F::P];
#pragma unroll
            for (int p = 0; p < F::P; p++) most[p] = __float2half2_rn(0);
            constexpr int EACH = F::P < IN_FLIGHT ? IN_FLIGHT / F::P : 1;
#pragma unroll
            for (int j = 0; j < F::STEPS; j++)
#pragma unroll
                for (int first = 0; first < F::M; first += EACH) {
                    uint32_t cell[EACH][F::P][8];
#pragma unroll
                    for (int m = first; m < F::M && m < first + EACH; m++)
                        if (across[j] || along[m]) read(cell[m - first], c.u[j], c.v[m]);
#pragma unroll
                    for (int m = first; m < F::M && m < first + EACH; m++)
                        if (across[j] || along[m])
#pragma unroll
                            for (int p = 0; p < F::P; p++)
                                divide(c.word[m][j][p], cell[m - first][p], c.scale[p].up, most[p]);
                }
            /* find_scale has considered all cells, so now all finite ones fit. */
            if (recompute) return;
#pragma unroll
            for (int p = 0; p < F::P; p++) {
                const uint32_t both = mma::bits(most[p]), larger = max(both >> 16, both & 0xffffu);
                recompute = recompute || __reduce_max_sync(ALL_LANES, larger) > CELL_LIMIT;
            }
            if (!recompute) return;
        }
    }
};

/* The data of a lane's visibility. */
struct found_place {
    int u, v;                /* corner */
    uint32_t from_u, from_v; /* elements of the operands for the window's first cells */
    float frac_u, frac_v;
};

template <bool LINEAR>
__device__ __forceinline__ found_place find_place(const msi_wproj_sample &s, const window_args<float> &a,
                                                  const operand_table &o)
{
    int u = s.u, v = s.v;
    if (u < -a.nu / 2 || u > a.nu / 2) u = floor_mod(u + a.nu / 2, a.nu) - a.nu / 2;
    if (v < -a.nv / 2 || v > a.nv / 2) v = floor_mod(v + a.nv / 2, a.nv) - a.nv / 2;
    u -= o.half;
    v -= o.half;
    found_place f;
    f.u = u & ~(FOUR - 1);
    f.v = v & ~(FOUR - 1);
    const int row = s.plane * (a.oversample + 1) + a.oversample / 2, blocks = o.window / FOUR;
    f.from_u = (uint32_t)((((row + s.sub_u) * FOUR + (u & (FOUR - 1))) * 2 + 1) * blocks - place_in(o, f.u) / FOUR) * 2;
    f.from_v = (uint32_t)(((row + s.sub_v) * 2 + 1) * o.window - place_in(o, f.v) - (v & (FOUR - 1)));
    f.frac_u = LINEAR ? s.frac_u : 0;
    f.frac_v = LINEAR ? s.frac_v : 0;
    return f;
}

/* Interpolate the second operand of a step between two sub-offsets, whose elements are `next` apart. */
__device__ __forceinline__ uint4 interpolate(const uint4 *p, int next, float frac)
{
    const float4 x = __ldg((const float4 *)p), y = __ldg((const float4 *)p + next);
    return split(x.x + frac * (y.x - x.x), x.y + frac * (y.y - x.y), x.z + frac * (y.z - x.z),
                 x.w + frac * (y.w - x.w));
}

/* A warp that degrids a part of the visibilities from its tile of the window, batch by batch. */
template <class F, bool ALONE, bool LINEAR> struct tensor_warp {
    static constexpr int P = F::P, M = F::M, STEPS = F::STEPS, WORDS = LINEAR ? 3 : 2;
    const window_args<float> &a;
    const operand_table &o;
    msi_wproj_sample (&fetched)[2][BATCH]; /* shared memory */
    const block_part part;
    const int lane, row;
    const bool several;
    const tile_reader<F, ALONE> reader;
    const uint4 *const lane_u;
    const cplx<float> *const lane_v;
    const float weight_down;
    const int number; /* index of the total that the lane stores */
    tile_cells<F> cells;
    int last_u, last_v; /* corner of the last visibility of the previous batch */
    /* The batch: the lane's visibility, and for all visibilities bits for whether the window moves and whether
     * the kernel is conjugated. */
    int n;
    found_place f;
    uint32_t moves, conjugate;
    float *out;

    __device__ __forceinline__ tensor_warp(const window_args<float> &a_, const operand_table &o_,
                                           msi_wproj_sample (&fetched_)[2][BATCH], const block_part &part_)
        : a(a_), o(o_), fetched(fetched_), part(part_), lane(threadIdx.x), row(lane / 4),
          several(a.n_tile_u * a.n_tile_v > 1), reader{a, part.image, part.first_u + lane % 4 * FOUR,
                                                       part.first_v + row},
          lane_u(o.u + (part.first_u / FOUR + lane % 4) * 2 + row % 2), lane_v(o.v + part.first_v + row),
          weight_down(scale_to(*o.largest, WEIGHT_TOP).down), number(transposed_index<2 * P>(lane & ~3)), cells{},
          last_u(INT32_MIN), last_v(0)
    {
#pragma unroll
        for (int j = 0; j < STEPS; j++) cells.u[j] = INT32_MIN;
        cells.largest[0] = -1;
    }

    /* Start to fetch the lane's sample of the batch that begins at `first`. */
    __device__ __forceinline__ void fetch(int64_t first, int half)
    {
        const char *from = (const char *)(a.sample + min(first + lane, part.end - 1));
#pragma unroll
        for (int i = 0; i < WORDS; i++) __pipeline_memcpy_async((char *)&fetched[half][lane] + 8 * i, from + 8 * i, 8);
        __pipeline_commit();
    }

    /* Take the batch that begins at `done`, and start to fetch the next one. */
    __device__ __forceinline__ void take_batch(int64_t done, int half)
    {
        n = (int)min(part.end - done, (int64_t)BATCH);
        __pipeline_wait_prior(0);
        const msi_wproj_sample own = fetched[half][lane];
        fetch(done + BATCH, half ^ 1);
        f = find_place<LINEAR>(own, a, o);
        int before_u = __shfl_up_sync(ALL_LANES, f.u, 1), before_v = __shfl_up_sync(ALL_LANES, f.v, 1);
        if (lane == 0) {
            before_u = last_u;
            before_v = last_v;
        }
        moves = __ballot_sync(ALL_LANES, f.u != before_u || f.v != before_v);
        conjugate = __ballot_sync(ALL_LANES, (own.conjugate != 0) != (a.conjugate != 0));
        last_u = __shfl_sync(ALL_LANES, f.u, BATCH - 1);
        last_v = __shfl_sync(ALL_LANES, f.v, BATCH - 1);
        out = (float *)(a.value + done * a.n_image + part.image);
    }

    /* Read the operands along u of the visibilities from k on, in a run that ends at `end`. w is a local array of the
     * caller, because as a member it would take more registers. */
    __device__ __forceinline__ void read_operands(int k, int end, uint4 (&w)[STEPS]) const
    {
        const int give = min(k + row / 2, end - 1);
        const uint4 *from = lane_u + __shfl_sync(ALL_LANES, f.from_u, give);
        const float frac = LINEAR ? __shfl_sync(ALL_LANES, f.frac_u, give) : 0.0f;
#pragma unroll
        for (int j = 0; j < STEPS; j++)
            w[j] = LINEAR ? interpolate(from + j * (STEP / FOUR * 2), FOUR * 2 * (o.window / FOUR) * 2, frac)
                          : __ldg(from + j * (STEP / FOUR * 2));
    }

    /* Return the first visibility after k at which the window moves. k must be less than 31. */
    __device__ __forceinline__ int end_of_run(int k) const
    {
        const uint32_t later = moves & 0xfffffffeu << k;
        return later ? min(n, __ffs((int)later) - 1) : n;
    }

    /* Read a lane's weights along v of visibility k. */
    __device__ __forceinline__ void read_weights(int k, cplx<float> (&kv)[M]) const
    {
        const cplx<float> *from = lane_v + __shfl_sync(ALL_LANES, f.from_v, k);
        const float frac = LINEAR ? __shfl_sync(ALL_LANES, f.frac_v, k) : 0.0f;
#pragma unroll
        for (int m = 0; m < M; m++) {
            kv[m] = read_only(from + m * SET);
            if (!LINEAR) continue;
            const cplx<float> next = read_only(from + m * SET + 2 * o.window);
            kv[m].re += frac * (next.re - kv[m].re);
            kv[m].im += frac * (next.im - kv[m].im);
        }
    }

    /* Sum a lane's rows: the products of cells and operands, weighted along v. With conjugated weights (s = -1), the
     * sum is computed as the conjugate of a sum over conjugated cells. */
    __device__ __forceinline__ void sum_rows(const cplx<float> (&kv)[M], const uint4 (&w)[STEPS], float s,
                                             cplx<float> (&total)[P]) const
    {
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                /* The mixed products have a separate sum. Tensor cores round sums towards zero, and the error is
                 * smaller for a small sum. */
                float h[4] = {}, x[4] = {};
#pragma unroll
                for (int j = 0; j < STEPS; j++) {
                    const uint32_t *word = cells.word[m][j][p];
                    mma::multiply_add(h, word, w[j].x, w[j].y);
                    mma::multiply_add(x, word, w[j].z, w[j].w);
                    mma::multiply_add(x, word + 4, w[j].x, w[j].y);
                }
                const float re = fmaf(-s, h[3] + x[3], h[0] + x[0]);
                const float im = fmaf(s, h[2] + x[2], h[1] + x[1]);
                total[p].re = fmaf(-im, kv[m].im, fmaf(re, kv[m].re, total[p].re));
                total[p].im = fmaf(im, kv[m].re, fmaf(re, kv[m].im, total[p].im));
            }
    }

    /* Sum visibility `take` over the lanes and store the result, unless `take` is `end` or later. */
    __device__ __forceinline__ void store_totals(cplx<float> (&total)[P], uint32_t sign, int take, int end) const
    {
#pragma unroll
        for (int p = 0; p < P; p++) {
            total[p].re *= cells.scale[p].down;
            total[p].im = flip(total[p].im, sign) * cells.scale[p].down;
        }
        const float x = transposed_sum<2 * P, 4>((float *)total, lane) * weight_down;
        if (number < 2 * P && take < end) {
            float *to = out + take * 2 * a.n_image + number;
            if (several)
                atomicAdd(to, x);
            else
                *to = x;
        }
    }

    /* Degrid the batch, run by run. The window does not move during a run. */
    __device__ __forceinline__ void degrid_batch()
    {
        uint4 w[STEPS];
        int next_end = end_of_run(0);
        read_operands(0, next_end, w);
#pragma unroll 1
        for (int k = 0; k < n;) {
            if (moves >> k & 1) {
                const int to_u = __shfl_sync(ALL_LANES, f.u, k), to_v = __shfl_sync(ALL_LANES, f.v, k);
                reader.move(cells, {to_u, to_v, place_in(o, to_u), place_in(o, to_v)});
            }
            const int end = next_end;
#pragma unroll 1
            do {
                /* Columns beyond the last visibility repeat it, and are ignored. */
                const int take = k + lane % 4, known = min(take, end - 1);
                cplx<float> kv[M];
                read_weights(known, kv);
                const uint32_t sign = conjugate >> known << 31;
                const float s = __uint_as_float(0x3f800000u | sign); /* 1 or -1 */
                cplx<float> total[P] = {};
                sum_rows(kv, w, s, total);
                k += TOGETHER;
                if (k >= end) {
                    k = end;
                    next_end = end_of_run(min(end, BATCH - 1));
                }
                /* Load the next operands while this sum is completed. */
                if (k < n) read_operands(k, next_end, w);
                store_totals(total, sign, take, end);
            } while (k < end);
        }
    }
};

template <class F, bool ALONE, bool LINEAR>
__global__ void __launch_bounds__(32, F::BLOCKS)
    k_window_degrid_tensor(const __grid_constant__ window_args<float> a, const __grid_constant__ operand_table o)
{
    __shared__ alignas(8) msi_wproj_sample fetched[2][BATCH];
    tensor_warp<F, ALONE, LINEAR> warp(a, o, fetched, find_part<F::P>(a, F::COLUMNS, F::ROWS));
    int half = 0;
    warp.fetch(warp.part.begin, 0);
    for (int64_t done = warp.part.begin; done < warp.part.end; done += BATCH, half ^= 1) {
        warp.take_batch(done, half);
        warp.degrid_batch();
    }
}

template <class F, bool LINEAR>
void launch_tiles(const window_args<float> &a, const operand_table &o, int64_t blocks, cudaStream_t stream)
{
    if (a.n_image == F::P)
        k_window_degrid_tensor<F, true, LINEAR><<<(unsigned)blocks, 32, 0, stream>>>(a, o);
    else
        k_window_degrid_tensor<F, false, LINEAR><<<(unsigned)blocks, 32, 0, stream>>>(a, o);
}

template <class F>
int launch_tensor(const msi_wproj_job *job, int group, int first_image, int n_pass, cudaStream_t stream)
{
    const msi_window_operands *from = job->kernels.operands;
    const int32_t window = from->window;
    window_args<float> a;
    fill_args<float, F::P>(&a, job, group, first_image, n_pass, 1);
    a.window_u = a.window_v = window;
    a.n_tile_u = window / F::COLUMNS;
    a.n_tile_v = window / F::ROWS;
    const operand_table o = {(const uint4 *)from->u,
                             (const cplx<float> *)from->v,
                             from->largest,
                             window,
                             from->half,
                             ((int32_t)std::max(job->nu, job->nv) / 2 / window + 2) * window,
                             (uint32_t)((((uint64_t)1 << 32) + (uint32_t)window - 1) / (uint32_t)window)};
    MSI_TRY(clear_values(a, first_image, n_pass * F::P, stream));
    if (from->lookup == MSI_WPROJ_LINEAR)
        launch_tiles<F, true>(a, o, count_blocks(a), stream);
    else
        launch_tiles<F, false>(a, o, count_blocks(a), stream);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

} // namespace

#endif
