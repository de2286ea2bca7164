/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gathering by small kernels from strips of the image that stream through shared memory.
 *
 * Footprints of 8 x 8 cells are so small that reading the image is what takes time, and memory gives most of its
 * bandwidth to rows that are read through, holes of 64 bytes and all, not to reads wherever points want them. So a
 * block takes the visibilities of a bin, a strip as wide as one warp copies at once and some hundred rows long, and
 * marches down its rows, a stage at a time. It marks which 64 bytes of which row any footprint touches, which is what
 * the L2 cache fetches at once; asynchronous copies bring those and no others into a ring of stages, two ahead of the
 * sums, across bins. Meanwhile the next bin is put in order of rows, a step in each of the first stages, so that
 * nothing waits for it. All kernels lie in shared memory, padded with zeros to 8 x 8. Four lanes take a visibility,
 * each two columns; half warps begin in rows and columns that meet in no bank of a kernel.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs") for the problem; strips are this program's.
 */
#include "kernels/degrid/wproj_gather_internal.h"

#include <algorithm>

namespace {

using namespace degrid;

constexpr int THREADS = 512, WARPS = THREADS / 32;
constexpr int TAPS = 8, LANES = 4, AT_ONCE = 32 / LANES; /* lanes of a visibility, visibilities of a warp */
constexpr int COPY = 16, GRANULE = 64,
              ROW_BYTES = 2048; /* bytes: of a lane's copy, fetched at once, of a strip's row */
constexpr int COPIES = ROW_BYTES / (32 * COPY);
constexpr int MOST_SQUARES = 81, CAPACITY = 1536; /* kernels; visibilities of an item */
constexpr int N_STAGE = 4, AHEAD = N_STAGE - 2;   /* two stages of the ring are being read */
constexpr int EACH = CAPACITY / THREADS;

template <typename T> struct geometry {
    static constexpr int CELL = sizeof(cplx<T>);
    static constexpr int COLUMNS = ROW_BYTES / CELL, WIDTH = COLUMNS - TAPS; /* cells of a row, first cells */
    /* In fp32 a half warp reads two rows at once: they must not begin in the same bank. */
    static constexpr int PITCH = COLUMNS + (CELL == 8 ? TAPS : 0);
    static constexpr int BIN = CELL == 8 ? 280 : 600, ROWS = BIN + TAPS - 1; /* first rows, rows */
    static constexpr int STAGE = CELL == 8 ? 16 : 12, RING = STAGE * N_STAGE, STAGES = (ROWS + STAGE - 1) / STAGE;
    static constexpr int BIN_EACH = (BIN + THREADS - 1) / THREADS;
};

/* A visibility in a list: its first cell in the bin, kernel, and whether that is conjugated; its number. */
constexpr int U_BITS = 8, V_BITS = 10, KERNEL_BITS = 13;
static_assert(geometry<float>::WIDTH <= 1 << U_BITS && geometry<double>::BIN <= 1 << V_BITS &&
                  MOST_SQUARES <= 1 << KERNEL_BITS,
              "a visibility does not fit its word");

template <typename T> struct strip_store {
    using G = geometry<T>;
    cplx<T> ring[(G::RING + TAPS - 1) * G::PITCH]; /* the first rows once more behind the last */
    cplx<T> table[MOST_SQUARES * TAPS * TAPS];
    uint2 list[2][CAPACITY];       /* of this bin and the next */
    uint32_t start[2][G::BIN + 1]; /* row -> place in the list */
    uint32_t touched[2][G::ROWS];  /* a bit a granule */
    uint32_t warp_sum[WARPS];
};

template <typename T> struct strip_args {
    int32_t nu, nv, n_strip;
    const msi_degrid_place *place;
    const msi_degrid_item *item;
    const uint32_t *n_item;
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
};

/* The bin's first cell. */
template <typename T> __device__ __forceinline__ int2 find_bin(const strip_args<T> &a, int tile)
{
    return {tile % a.n_strip * geometry<T>::WIDTH, tile / a.n_strip * geometry<T>::BIN};
}

/* Puts an item's visibilities in order of rows, in steps that the block separates by barriers. */
template <typename T> struct row_order {
    using G = geometry<T>;
    static constexpr int STEPS = 5;
    int4 record[EACH];
    uint32_t rank[EACH], count[G::BIN_EACH], before;

    template <class F> __device__ __forceinline__ void for_each(const msi_degrid_item &item, F f)
    {
#pragma unroll
        for (int e = 0; e < EACH; e++)
            if (threadIdx.x + e * THREADS < item.n) f(e, threadIdx.x + e * THREADS);
    }

    __device__ __forceinline__ void step(int number, strip_store<T> &s, const strip_args<T> &a,
                                         const msi_degrid_item &item, int to)
    {
        const int i = threadIdx.x, lane = i % 32, warp = i / 32;
        if (number == 0) {
            for_each(item, [&](int e, uint32_t k) { record[e] = __ldg((const int4 *)a.place + item.first + k); });
            for (int row = i; row < G::ROWS; row += THREADS) {
                s.touched[to][row] = 0;
                if (row < G::BIN) s.start[to][row] = 0;
            }
        } else if (number == 1) {
            const int2 bin = find_bin(a, item.tile);
            for_each(item, [&](int e, uint32_t) {
                const uint32_t u = (uint32_t)(record[e].x - bin.x), v = (uint32_t)(record[e].y - bin.y);
                const uint32_t kernel = (uint32_t)record[e].z;
                const uint32_t first = u * G::CELL / GRANULE, last = (u + TAPS - 1) * G::CELL / GRANULE;
                rank[e] = atomicAdd(&s.start[to][v], 1u);
#pragma unroll
                for (int t = 0; t < TAPS; t++) atomicOr(&s.touched[to][v + t], (2u << last) - (1u << first));
                record[e].x =
                    (int)(u | v << U_BITS | (kernel & ~CONJUGATE) << (U_BITS + V_BITS) | (kernel & CONJUGATE));
                record[e].y = (int)v;
            });
        } else if (number == 2) {
            uint32_t mine = 0;
#pragma unroll
            for (int e = 0; e < G::BIN_EACH; e++) {
                const int row = i * G::BIN_EACH + e;
                count[e] = row < G::BIN ? s.start[to][row] : 0;
                mine += count[e];
            }
            uint32_t sum = mine;
#pragma unroll
            for (int d = 1; d < 32; d *= 2) {
                const uint32_t below = __shfl_up_sync(ALL_LANES, sum, d);
                if (lane >= d) sum += below;
            }
            if (lane == 31) s.warp_sum[warp] = sum;
            before = sum - mine;
        } else if (number == 3) {
            uint32_t at = before;
            for (int w = 0; w < warp; w++) at += s.warp_sum[w];
#pragma unroll
            for (int e = 0; e < G::BIN_EACH; e++) {
                const int row = i * G::BIN_EACH + e;
                if (row < G::BIN) s.start[to][row] = at;
                at += count[e];
            }
            if (i == 0) s.start[to][G::BIN] = item.n;
        } else if (number == 4) {
            for_each(item, [&](int e, uint32_t) {
                s.list[to][s.start[to][record[e].y] + rank[e]] =
                    make_uint2((uint32_t)record[e].x, (uint32_t)record[e].w);
            });
        }
    }
};

__device__ __forceinline__ void copy_async(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(COPY) : "memory");
}

/* What is copied next. */
template <typename T> struct loader {
    using G = geometry<T>;
    static constexpr int CELLS = COPY / G::CELL; /* of a copy */
    int2 bin;
    int stage, list, slot;
    bool more, inside; /* inside: does not wrap */

    __device__ __forceinline__ void aim(const strip_args<T> &a, int tile, int list_)
    {
        bin = find_bin(a, tile);
        inside = bin.x + G::COLUMNS <= a.nu && bin.y + G::ROWS <= a.nv;
        stage = 0;
        list = list_;
    }

    /* A row by each of the first warps; one group of copies, be it empty. */
    __device__ __forceinline__ void load(strip_store<T> &s, const strip_args<T> &a)
    {
        constexpr uint32_t AGAIN = G::RING * G::PITCH * G::CELL;
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = stage * G::STAGE + warp;
        if (more && warp < G::STAGE && row < G::ROWS) {
            const uint32_t touched = s.touched[list][row] >> lane * COPY / GRANULE;
            const uint32_t to =
                (uint32_t)__cvta_generic_to_shared(s.ring + (slot * G::STAGE + warp) * G::PITCH + lane * CELLS);
            const bool twice = slot == 0 && warp < TAPS - 1;
            if (inside) {
                const cplx<T> *from = a.grid + (int64_t)(bin.y + row) * a.nu + bin.x + lane * CELLS;
#pragma unroll
                for (int k = 0; k < COPIES; k++)
                    if (touched >> k * 32 * COPY / GRANULE & 1) copy_async(to + k * 32 * COPY, from + k * 32 * CELLS);
                if (twice)
#pragma unroll
                    for (int k = 0; k < COPIES; k++)
                        if (touched >> k * 32 * COPY / GRANULE & 1)
                            copy_async(to + AGAIN + k * 32 * COPY, from + k * 32 * CELLS);
            } else {
                int v = bin.y + row;
                while (v >= a.nv) v -= a.nv;
#pragma unroll 1
                for (int k = 0; k < COPIES; k++) {
                    int u = bin.x + (lane + k * 32) * CELLS;
                    while (u >= a.nu) u -= a.nu;
                    if (!(touched >> k * 32 * COPY / GRANULE & 1)) continue;
                    copy_async(to + k * 32 * COPY, a.grid + (int64_t)v * a.nu + u);
                    if (twice) copy_async(to + AGAIN + k * 32 * COPY, a.grid + (int64_t)v * a.nu + u);
                }
            }
        }
        stage++;
        slot = slot == N_STAGE - 1 ? 0 : slot + 1;
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
};

/* A lane's taps: of two rows and two columns, and every second row on; bytes from the footprint's first. */
template <typename T> struct lane_taps {
    int image[4], table[4];

    __device__ __forceinline__ explicit lane_taps(int lane)
    {
        using G = geometry<T>;
        /* What is read at once: two visibilities' 16 bytes a lane, or four's 8. */
        const int which = lane / LANES, flip_row = G::CELL == 8 ? which & 1 : 0,
                  flip_column = G::CELL == 8 ? which >> 1 & 1 : which & 1;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int row = k >> 1 ^ flip_row, column = ((k & 1) ^ flip_column) * LANES + lane % LANES;
            image[k] = (row * G::PITCH + column) * G::CELL;
            table[k] = (row * TAPS + column) * G::CELL;
        }
    }
};

/* The visibilities [p, end) of a list; row_shift: ring row of the bin's first, one round later than it may be. */
template <typename T>
__device__ __forceinline__ void weigh_stage(strip_store<T> &s, const strip_args<T> &a, const lane_taps<T> &taps,
                                            int list, int p, int end, int row_shift)
{
    using G = geometry<T>;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 1
    for (p += (WARPS - 1 - warp) * AT_ONCE; p < end; p += WARPS * AT_ONCE) {
        const bool is_one = p + lane / LANES < end;
        const uint2 x = s.list[list][is_one ? p + lane / LANES : end - 1];
        const int u = (int)(x.x & ((1u << U_BITS) - 1)), v = (int)(x.x >> U_BITS & ((1u << V_BITS) - 1));
        const int kernel = (int)(x.x >> (U_BITS + V_BITS) & ((1u << KERNEL_BITS) - 1));
        int row = v + row_shift;
        row -= row >= G::RING ? G::RING : 0;
        const char *image = (const char *)(s.ring + row * G::PITCH + u);
        const char *table = (const char *)(s.table + kernel * TAPS * TAPS);
        /* With conjugated weights the imaginary parts of the sums' products change their signs: once, at the end. */
        cplx<T> with_re = {0, 0}, with_im = {0, 0};
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int t = 0; t < TAPS; t += 2) {
                const cplx<T> c = *(const cplx<T> *)(image + taps.image[k] + t * G::PITCH * G::CELL);
                const cplx<T> g = *(const cplx<T> *)(table + taps.table[k] + t * TAPS * G::CELL);
                with_re.re += c.re * g.re;
                with_re.im += c.im * g.re;
                with_im.re += c.im * g.im;
                with_im.im -= c.re * g.im;
            }
        const uint32_t sign = x.x & CONJUGATE;
        const cplx<T> sum = {with_re.re + flip(with_im.re, sign), with_re.im + flip(with_im.im, sign)};
        const T part = transposed_sum<1, LANES>(&sum, lane % LANES);
        if (is_one && lane % 2 == 0) ((T *)(a.value + x.y))[lane / 2 % 2] = part;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 1) k_gather_strip(const __grid_constant__ strip_args<T> a)
{
    using G = geometry<T>;
    extern __shared__ __align__(128) unsigned char memory[];
    strip_store<T> &s = *(strip_store<T> *)memory;
    const uint32_t n_item = *a.n_item;
    uint32_t number = blockIdx.x;
    if (number >= n_item) return;
    msi_degrid_item next = a.item[number];
    row_order<T> order;
    order.step(0, s, a, next, 0);
    const int taps = a.kernels.taps[0], squares = (a.kernels.oversample + 1) * (a.kernels.oversample + 1);
    const cplx<T> *table = a.kernels.table + a.kernels.offset[0];
    for (int k = threadIdx.x; k < squares * TAPS * TAPS; k += THREADS) {
        const int u = k % TAPS, v = k / TAPS % TAPS;
        const bool is_tap = u < taps && v < taps;
        s.table[k] = is_tap ? read_only(table + (k / (TAPS * TAPS) * taps + v) * taps + u) : cplx<T>{0, 0};
    }
    for (int step = 1; step < order.STEPS; step++) {
        __syncthreads();
        order.step(step, s, a, next, 0);
    }
    loader<T> l;
    l.slot = 0;
    l.more = true;
    l.aim(a, next.tile, 0);
    for (int k = 0; k < AHEAD; k++) l.load(s, a);
    const lane_taps<T> of_lane(threadIdx.x % 32);
    int slot = 0;
    for (int list = 0; number < n_item; list ^= 1) {
        number += gridDim.x;
#pragma unroll 1
        for (int stage = 0; stage < G::STAGES; stage++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
            __syncthreads();
            if (l.stage == G::STAGES) {
                l.more = number < n_item;
                l.aim(a, next.tile, list ^ 1);
            }
            l.load(s, a);
            if (number < n_item) {
                if (stage == 0) next = a.item[number];
                order.step(stage, s, a, next, list ^ 1);
            }
            /* Those whose last row came with this stage. */
            const int from = max(0, stage * G::STAGE - (TAPS - 1)),
                      to = min(G::BIN, (stage + 1) * G::STAGE - (TAPS - 1));
            const int row_shift = (slot == 0 ? G::RING : slot * G::STAGE) - stage * G::STAGE;
            weigh_stage(s, a, of_lane, list, (int)s.start[list][from], (int)s.start[list][to], row_shift);
            slot = slot == N_STAGE - 1 ? 0 : slot + 1;
        }
    }
}

template <typename T> int launch(const msi_gather *g, const msi_window_job *job, cudaStream_t stream)
{
    strip_args<T> a = {};
    a.nu = (int32_t)job->nu;
    a.nv = (int32_t)job->nv;
    a.n_strip = msi_degrid_sorter_classes(g->sorter)->of[0].n_tile_u;
    a.place = g->placed.place;
    a.item = g->placed.item;
    a.n_item = g->placed.n_item;
    a.value = (cplx<T> *)job->value;
    a.grid = (const cplx<T> *)job->grid;
    a.kernels = view_kernels<T>(job);
    MSI_CUDA(cudaFuncSetAttribute(k_gather_strip<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)sizeof(strip_store<T>)));
    k_gather_strip<T><<<g->n_block, THREADS, sizeof(strip_store<T>), stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

template <typename T> bool shape(msi_degrid_classes *c, int shared_bytes)
{
    using G = geometry<T>;
    const int64_t strips = (c->nu + G::WIDTH - 1) / G::WIDTH, bins = (c->nv + G::BIN - 1) / G::BIN;
    if (c->nu % (GRANULE / G::CELL) != 0 || strips * bins > MSI_DEGRID_MAX_PLACE_TILES ||
        sizeof(strip_store<T>) > (size_t)shared_bytes)
        return false;
    c->of[0].tile_u = G::WIDTH;
    c->of[0].tile_v = G::BIN;
    return true;
}

} /* namespace */

const int degrid::STRIP_ITEM = CAPACITY;

bool degrid::shape_strips(msi_degrid_classes *c, const msi_window_job *job, int shared_bytes)
{
    const msi_window_kernels &k = job->kernels;
    if (job->n_image != 1 || k.n_plane != 1 || c->of[0].taps > TAPS ||
        (k.oversample + 1) * (k.oversample + 1) > MOST_SQUARES)
        return false;
    return job->precision == MSI_FP32 ? shape<float>(c, shared_bytes) : shape<double>(c, shared_bytes);
}

int degrid::launch_strips(const msi_gather *g, const msi_window_job *job, cudaStream_t stream)
{
    return job->precision == MSI_FP32 ? launch<float>(g, job, stream) : launch<double>(g, job, stream);
}
