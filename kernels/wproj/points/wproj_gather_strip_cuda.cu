/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gathering with small kernels from strips of the image that stream through shared memory.
 *
 * With footprints of up to 8 x 8 cells the time is spent reading the image, so reading must never pause. The image is
 * divided into strips. The rows of all strips are numbered strip after strip, and divided into bins of some hundred
 * rows. Each block processes about the same number of consecutive bins. Its warps have three tasks:
 *   - Fetchers copy rows into a ring buffer in shared memory, as far ahead as the ring allows. They copy only the
 *     sectors of 32 bytes that some footprint touches. The L2 cache is set to read single sectors.
 *   - Sorters order the visibilities of the next bin by row, and mark the sectors that they touch.
 *   - Weighers sum the visibilities in this order. Sixteen lanes sum one visibility, two rows of eight taps at a time,
 *     without bank conflicts.
 * Barriers in shared memory count the copies of a group of rows that have arrived, and the warps that no longer need
 * the group. Shared memory also has all kernels, padded with zeros to 8 x 8.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs") for the problem. The strips are new.
 */
#include "kernels/wproj/points/wproj_gather_cuda.cuh"

#include <algorithm>

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/hopper_cuda.cuh"

namespace {

using namespace points;
using namespace hopper;

constexpr int FETCHERS = 8, SORTERS = 4, WEIGHERS = 12, THREADS = 32 * (FETCHERS + SORTERS + WEIGHERS); /* warps */
constexpr int TAPS = 8, GROUP = 4;                /* GROUP: rows of a barrier; a fetching warp copies one of them */
constexpr int GRANULE = 32, LAST = 63;            /* bytes that are marked together; the last bit is for all others */
constexpr int MOST_SQUARES = 81, CAPACITY = 1536; /* kernels; visibilities of an item */
/* The smallest number of rows of a bin: at least two groups, so that the rows of a bin end in the next bin. */
constexpr int FEWEST_ROWS = 16;

template <typename T> struct geometry {
    static constexpr int CELL = sizeof(cplx<T>);
    static constexpr int WIDTH = 2048 / CELL;                            /* most first cells of a strip's row */
    static constexpr int COLUMNS = WIDTH + TAPS, PITCH = COLUMNS * CELL; /* cells, bytes of a row */
    static constexpr int ROWS = CELL == 8 ? 320 : 608;                   /* most first rows of a bin */
    static constexpr int GROUPS = CELL == 8 ? 18 : 12, RING = GROUPS * GROUP;
    static_assert(PITCH % 128 == 64 || CELL == 16, "two rows of a footprint meet in a bank");
};

/* An entry of a list has two words: the visibility's first cell in the ring, its kernel and a bit for the conjugate;
 * and the index of the visibility. */
constexpr int CELL_BITS = 18, KERNEL_BITS = 12;
constexpr int U_BITS = MSI_WPROJ_POINTS_STRIP_U_BITS, ROW_BITS = MSI_WPROJ_POINTS_STRIP_ROW_BITS;
static_assert(geometry<float>::RING * geometry<float>::COLUMNS <= 1 << CELL_BITS &&
                  geometry<float>::WIDTH <= 1 << U_BITS && geometry<double>::ROWS <= 1 << ROW_BITS &&
                  MOST_SQUARES <= 1 << KERNEL_BITS,
              "a visibility does not fit its word");

/* The description of an item, from the sorters to the other warps. */
struct item_message {
    int32_t line;        /* first row of the item's bin */
    uint32_t n;          /* number of visibilities */
    uint32_t base, rows; /* index of the first row among the rows that the block fetches; number of rows to fetch */
};

template <typename T> struct strip_store {
    using G = geometry<T>;
    cplx<T> ring[G::RING * G::COLUMNS];
    cplx<T> table[MOST_SQUARES * TAPS * TAPS];
    /* Double buffers, for the current item and the next one. */
    uint2 touched[2][G::ROWS + TAPS]; /* one bit per granule */
    uint2 list[2][CAPACITY];
    uint16_t row[2][CAPACITY]; /* in the bin */
    item_message message[2];
    uint32_t start[G::ROWS]; /* row -> place in the list */
    uint32_t warp_sum[SORTERS];
    uint64_t full[G::GROUPS], empty[G::GROUPS]; /* barriers: a group's copies have arrived; its readers have finished */
    uint64_t listed[2], unlisted[2];            /* barriers: an item's list is ready; no warp reads it any more */
};
static_assert(sizeof(strip_store<float>) <= 232448 && sizeof(strip_store<double>) <= 232448, "too much for a block");

template <typename T> struct strip_args {
    int32_t nu, nv;
    msi_wproj_points_strips strips;
    const msi_wproj_points_strip_place *place;
    const msi_wproj_points_item *item;
    const uint32_t *n_item;
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
};

#if __CUDA_ARCH__ >= 900

constexpr int LANES = 2 * TAPS;        /* lanes that sum a visibility */
constexpr int TURN = FETCHERS / GROUP; /* sets of fetching warps */
constexpr int SORT_THREADS = 32 * SORTERS, EACH = CAPACITY / SORT_THREADS;
constexpr int COPY = 16, NAP_NS = 200; /* COPY: bytes that a lane copies */
/* Visibilities that a warp processes together. More of them share the last steps of the sums. Fewer of them leave more
 * of the ring free for rows to be fetched. */
template <typename T> constexpr int AT_ONCE = sizeof(T) == sizeof(float) ? 8 : 4;

/* Wait as wait_for does, but sleep between attempts. This is for warps that wait long. */
__device__ __forceinline__ void sleep_for(uint64_t *barrier, uint32_t parity)
{
    for (;;) {
        uint32_t done;
        asm volatile("{\n"
                     ".reg .pred done;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, done;\n"
                     "}"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
        if (done) return;
        __nanosleep(NAP_NS);
    }
}

/* Arrive at the barrier when all copies that this thread has started are complete. */
__device__ __forceinline__ void arrive_after_copies(uint64_t *barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void copy_async(void *to, const void *from, uint64_t policy)
{
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from),
                 "n"(COPY), "l"(policy)
                 : "memory");
}

/* The range of items of a block. */
struct item_range {
    uint32_t first, n;
};

/* Start to copy the parts of a row that footprints touch. WRAPS: the cells from `edge` on are the first cells of the
 * image's row. */
template <bool WRAPS, typename T>
__device__ __forceinline__ void copy_row(char *to, const cplx<T> *from, uint2 touched, int lane, int32_t edge,
                                         int32_t nu, uint64_t policy)
{
    using G = geometry<T>;
    constexpr int AT_A_TIME = 32 * COPY, WHOLE = (LAST + 1) * GRANULE / AT_A_TIME, CELLS = AT_A_TIME / G::CELL;
    constexpr int REST = (G::PITCH - WHOLE * AT_A_TIME) / COPY, BITS = AT_A_TIME / GRANULE;
    static_assert(WHOLE == 4 && REST > 0 && REST <= 32, "a row is not as long as two words have it");
    const uint32_t of_lane = 1u << lane * COPY / GRANULE;
    const auto copy = [&](int c) {
        copy_async(to + c * AT_A_TIME, from + c * CELLS - (WRAPS && c * CELLS >= edge ? nu : 0), policy);
    };
#pragma unroll
    for (int c = 0; c < WHOLE; c++)
        if ((c < WHOLE / 2 ? touched.x : touched.y) >> c % 2 * BITS & of_lane) copy(c);
    if (touched.y >> 31 && lane < REST) copy(WHOLE);
}

/* Fetch one row of every TURN-th group. */
template <typename T>
__device__ __forceinline__ void fetch_rows(const strip_args<T> &a, strip_store<T> &s, const item_range &own, int warp,
                                           int lane)
{
    using G = geometry<T>;
    const int in_group = warp % GROUP;
    const uint64_t policy = cache_policy::evict_first();
    uint32_t slot = warp / GROUP, parity = 1, first = slot * GROUP; /* first row of the group */
    uint32_t end = 0, k = ~0u;
    item_message x;
    const cplx<T> *from = nullptr;
    const uint2 *touched = nullptr;
    int32_t v = a.nv, edge = 0; /* row of the strip; cells from the lane's first to the image's edge */
    bool wraps = false;
    for (;; first += TURN * GROUP, v += TURN * GROUP, from += (int64_t)TURN * GROUP * a.nu, touched += TURN * GROUP) {
        bool aim = v >= a.nv;
        for (; first >= end; aim = true) {
            __syncwarp();
            if (k != ~0u && lane == 0) arrive(&s.unlisted[k % 2]);
            if (++k == own.n) return;
            wait_for(&s.listed[k % 2], k / 2 % 2);
            x = s.message[k % 2];
            end = x.base + x.rows;
        }
        if (aim) {
            const int32_t line = x.line + (int32_t)(first - x.base), strip = line / a.strips.height;
            const int32_t u = strip * a.strips.width + lane * (COPY / G::CELL);
            v = line - strip * a.strips.height + in_group;
            from = a.grid + (int64_t)(v % a.nv) * a.nu + u;
            touched = s.touched[k % 2] + (first - x.base + in_group);
            edge = a.nu - u;
            wraps = strip * a.strips.width + G::COLUMNS > a.nu;
        }
        wait_for(&s.empty[slot], parity);
        char *to = (char *)s.ring + (slot * GROUP + in_group) * G::PITCH + lane * COPY;
        if (wraps)
            copy_row<true>(to, from, *touched, lane, edge, a.nu, policy);
        else
            copy_row<false>(to, from, *touched, lane, edge, a.nu, policy);
        arrive_after_copies(&s.full[slot]);
        slot += TURN;
        if (slot >= G::GROUPS) {
            slot -= G::GROUPS;
            parity ^= 1;
        }
    }
}

__device__ __forceinline__ void sorters_meet()
{
    asm volatile("bar.sync 1, %0;" ::"n"(SORT_THREADS) : "memory");
}

/* The sorters list each item's visibilities in order of rows, and mark the granules that they touch. A thread keeps
 * some of the item's visibilities in registers during all steps. */
template <typename T> struct item_sorter {
    using G = geometry<T>;
    static constexpr int START_EACH = (G::ROWS + SORT_THREADS - 1) / SORT_THREADS;
    static constexpr int TOUCHED_EACH = (G::ROWS + TAPS + SORT_THREADS - 1) / SORT_THREADS;
    const strip_args<T> &a;
    strip_store<T> &s;
    uint32_t i; /* index of the thread */
    int rows;   /* rows of a bin */

    /* Count the visibilities that begin in each row, and mark the granules that they touch. */
    __device__ __forceinline__ void count_rows(int to, uint32_t n, uint32_t base, uint2 (&place)[EACH],
                                               uint32_t (&rank)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (i + e * SORT_THREADS >= n) continue;
            const uint32_t u = place[e].x & ((1u << U_BITS) - 1), row = place[e].x >> U_BITS & ((1u << ROW_BITS) - 1);
            const uint32_t kernel = place[e].x >> (U_BITS + ROW_BITS) & ((1u << KERNEL_BITS) - 1);
            const uint32_t first = u * G::CELL / GRANULE;
            const uint32_t last = min((u + TAPS - 1) * G::CELL / GRANULE, LAST);
            const uint64_t bits = (uint64_t)((2u << (last - first)) - 1) << first;
            uint32_t *touched = (uint32_t *)&s.touched[to][row];
            rank[e] = row << 16 | atomicAdd(&s.start[row], 1u);
            if ((uint32_t)bits) atomicOr(touched, (uint32_t)bits);
            if (bits >> 32) atomicOr(touched + 1, (uint32_t)(bits >> 32));
            place[e].x = ((base + row) % G::RING * G::COLUMNS + u) | kernel << CELL_BITS | (place[e].x & CONJUGATE);
        }
    }

    /* Compute the inclusive prefix sum of the rows' counts over the threads of a warp. Store the warp's total in
     * s.warp_sum. */
    __device__ __forceinline__ uint32_t scan_rows(uint32_t (&count)[START_EACH], uint32_t *own) const
    {
        const int lane = i % 32, warp = i / 32;
        *own = 0;
#pragma unroll
        for (int e = 0; e < START_EACH; e++) {
            const int row = (int)i * START_EACH + e;
            count[e] = row < rows ? s.start[row] : 0;
            *own += count[e];
        }
        uint32_t sum = *own;
#pragma unroll
        for (int d = 1; d < 32; d *= 2) {
            const uint32_t below = __shfl_up_sync(ALL_LANES, sum, d);
            if (lane >= d) sum += below;
        }
        if (lane == 31) s.warp_sum[warp] = sum;
        return sum;
    }

    /* Find the granules of a thread's rows that are touched by visibilities that begin in the row or in the seven rows
     * before it. If goes_on is set, these may be rows of the previous bin. */
    __device__ __forceinline__ void merge_marks(int to, bool goes_on, uint2 (&touched)[TOUCHED_EACH]) const
    {
#pragma unroll
        for (int e = 0; e < TOUCHED_EACH; e++) {
            const int row = (int)i + e * SORT_THREADS;
            touched[e] = {0, 0};
            if (row >= rows + TAPS) continue;
            if (goes_on && row < TAPS - 1) touched[e] = s.touched[to ^ 1][rows + row];
#pragma unroll
            for (int t = 0; t < TAPS; t++)
                if (row >= t && row - t < rows) {
                    const uint2 x = s.touched[to][row - t];
                    touched[e].x |= x.x;
                    touched[e].y |= x.y;
                }
        }
    }

    /* Store the position in the list of each row's first visibility, and the granules that are touched. */
    __device__ __forceinline__ void store_rows(int to, uint32_t before, const uint32_t (&count)[START_EACH],
                                               const uint2 (&touched)[TOUCHED_EACH]) const
    {
        uint32_t at = before;
        const int warp = i / 32;
        for (int w = 0; w < warp; w++) at += s.warp_sum[w];
#pragma unroll
        for (int e = 0; e < START_EACH; e++) {
            const int row = (int)i * START_EACH + e;
            if (row < rows) s.start[row] = at;
            at += count[e];
        }
#pragma unroll
        for (int e = 0; e < TOUCHED_EACH; e++)
            if ((int)i + e * SORT_THREADS < rows + TAPS) s.touched[to][i + e * SORT_THREADS] = touched[e];
    }

    /* Put the visibilities into the list. */
    __device__ __forceinline__ void place_list(int to, uint32_t n, const uint2 (&place)[EACH],
                                               const uint32_t (&rank)[EACH]) const
    {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (i + e * SORT_THREADS >= n) continue;
            const uint32_t p = s.start[rank[e] >> 16] + (rank[e] & 0xffff);
            s.list[to][p] = place[e];
            s.row[to][p] = (uint16_t)(rank[e] >> 16);
        }
    }

    __device__ __forceinline__ void sort(const item_range &own) const
    {
        uint32_t base = 0;
        msi_wproj_points_item item = a.item[own.first];
        bool goes_on = false; /* the bin follows the bin of the previous item */
#pragma unroll 1
        for (uint32_t k = 0; k < own.n; k++) {
            const int to = k % 2;
            uint2 place[EACH], touched[TOUCHED_EACH];
            uint32_t rank[EACH], count[START_EACH], own_count;
#pragma unroll
            for (int e = 0; e < EACH; e++)
                if (i + e * SORT_THREADS < item.n)
                    place[e] = __ldcs((const uint2 *)a.place + item.first + i + e * SORT_THREADS);
            msi_wproj_points_item next = {-1, 0, 0};
            if (k + 1 < own.n) next = a.item[own.first + k + 1];
            sleep_for(&s.unlisted[to], k / 2 % 2 ^ 1);
            for (int row = (int)i; row < rows + TAPS; row += SORT_THREADS) {
                s.touched[to][row] = {0, 0};
                if (row < rows) s.start[row] = 0;
            }
            sorters_meet();
            count_rows(to, item.n, base, place, rank);
            sorters_meet();
            const uint32_t sum = scan_rows(count, &own_count);
            merge_marks(to, goes_on, touched);
            sorters_meet();
            store_rows(to, sum - own_count, count, touched);
            goes_on = next.tile == item.tile + 1;
            const uint32_t fetched = (uint32_t)(goes_on ? rows : rows + TAPS);
            if (i == 0) s.message[to] = {item.tile * rows, item.n, base, fetched};
            sorters_meet();
            place_list(to, item.n, place, rank);
            arrive(&s.listed[to]);
            sorters_meet();
            base += fetched;
            item = next;
        }
    }
};

/* The progress of a reading warp in the ring: groups that have arrived, and groups that it has finished. */
template <typename T> struct reader {
    using G = geometry<T>;
    strip_store<T> &s;
    uint32_t lane, arrived = 0, passed = 0;

    /* Wait for each group in turn, so that no phase of a barrier is missed. */
    __device__ __forceinline__ void pass(uint32_t end)
    {
        static_assert(G::GROUPS <= 32, "a lane a group");
        end = min(end, arrived);
        if (end <= passed) return;
        __syncwarp();
        if (passed + lane < end) arrive(&s.empty[(passed + lane) % G::GROUPS]);
        passed = end;
    }
    /*
     * Release the groups before `before`, and wait for the groups before `end`. Copies of a thread arrive in order, so
     * it is enough to wait for the last barrier of each set of fetching warps.
     */
    __device__ __forceinline__ void advance(uint32_t before, uint32_t end)
    {
        pass(before);
        while (arrived < end) {
            const uint32_t from = arrived;
            arrived = min(from < before ? before : end, from + G::GROUPS);
#pragma unroll
            for (uint32_t t = 1; t <= TURN; t++)
                if (arrived >= from + t) wait_for(&s.full[(arrived - t) % G::GROUPS], (arrived - t) / G::GROUPS % 2);
            pass(before);
        }
    }
};

/* Sum a lane's part of a visibility. WRAPS: the footprint may continue from the ring's end to its beginning. */
template <bool WRAPS, typename T>
__device__ __forceinline__ cplx<T> weigh(const strip_store<T> &s, uint32_t packed, int within)
{
    using G = geometry<T>;
    constexpr uint32_t CELLS = G::RING * G::COLUMNS;
    const uint32_t first = (packed & ((1u << CELL_BITS) - 1)) + within / TAPS * G::COLUMNS + within % TAPS;
    const cplx<T> *table = s.table + (packed >> CELL_BITS & ((1u << KERNEL_BITS) - 1)) * TAPS * TAPS + within;
    /* Products with Re and Im of the weight are summed separately. The sign of the conjugate is applied at the end. */
    cplx<T> with_re = {0, 0}, with_im = {0, 0};
#pragma unroll
    for (int t = 0; t < TAPS / 2; t++) {
        const uint32_t cell = first + t * 2 * G::COLUMNS;
        const cplx<T> c = s.ring[WRAPS && cell >= CELLS ? cell - CELLS : cell];
        const cplx<T> g = table[t * LANES];
        with_re.re += c.re * g.re;
        with_re.im += c.im * g.re;
        with_im.re += c.im * g.im;
        with_im.im -= c.re * g.im;
    }
    const uint32_t sign = packed & CONJUGATE;
    return {with_re.re + flip(with_im.re, sign), with_re.im + flip(with_im.im, sign)};
}

/* Sum the visibilities of a warp, item by item. */
template <typename T>
__device__ __forceinline__ void weigh_items(const strip_args<T> &a, strip_store<T> &s, const item_range &own, int warp,
                                            int lane)
{
    using G = geometry<T>;
    constexpr int N = AT_ONCE<T>, PAIRS = N / 2, PART = LANES / N; /* lanes that hold the same part of the sums */
    const int half = lane / LANES, within = lane % LANES;
    reader<T> at = {s, (uint32_t)lane};
    const uint64_t policy = cache_policy::evict_last();
    item_message x = {};
#pragma unroll 1
    for (uint32_t k = 0; k < own.n; k++) {
        wait_for(&s.listed[k % 2], k / 2 % 2);
        x = s.message[k % 2];
        const uint2 *list = s.list[k % 2];
        const uint16_t *row = s.row[k % 2];
#pragma unroll 1
        for (uint32_t p = warp * N; p < x.n; p += WEIGHERS * N) {
            const uint32_t last = x.n - 1, first_row = row[p], spread = row[min(p + N - 1, last)] - first_row;
            const uint32_t begin = x.base + first_row;
            cplx<T> sum[PAIRS];
            if (spread + TAPS + 2 * GROUP <= G::RING) {
                uint32_t packed[PAIRS];
#pragma unroll
                for (int e = 0; e < PAIRS; e++) packed[e] = list[min(p + 2 * e + half, last)].x;
                at.advance(begin / GROUP, (begin + spread + TAPS - 1) / GROUP + 1);
                if (begin % G::RING + spread + TAPS <= G::RING) {
#pragma unroll
                    for (int e = 0; e < PAIRS; e++) sum[e] = weigh<false>(s, packed[e], within);
                } else {
#pragma unroll
                    for (int e = 0; e < PAIRS; e++) sum[e] = weigh<true>(s, packed[e], within);
                }
            } else {
                /* These rows are too far apart to be in the ring at the same time. */
#pragma unroll 1
                for (int one = 0; one < N; one++) {
                    const uint32_t q = min(p + one, last), here = x.base + row[q];
                    at.advance(here / GROUP, (here + TAPS - 1) / GROUP + 1);
                    const cplx<T> found = weigh<true>(s, list[q].x, within);
#pragma unroll
                    for (int e = 0; e < PAIRS; e++)
                        if (one == 2 * e + half) sum[e] = found;
                }
            }
            const T part = transposed_sum<PAIRS, LANES>(sum, within);
            const uint32_t q = p + within / PART / 2 * 2 + half;
            if (within % PART == 0 && q < x.n)
                cache_policy::store((T *)(a.value + list[q].y) + within / PART % 2, part, policy);
        }
        const uint32_t done = (x.base + a.strips.rows) / GROUP;
        at.advance(done, done);
        __syncwarp();
        if (lane == 0) arrive(&s.unlisted[k % 2]);
    }
    /* A block must not end before its copies are complete. */
    at.advance((x.base + x.rows) / GROUP, (x.base + x.rows) / GROUP);
}

#endif

template <typename T>
__global__ void __launch_bounds__(THREADS, 1) k_gather_strip(const __grid_constant__ strip_args<T> a)
{
#if __CUDA_ARCH__ >= 900
    using G = geometry<T>;
    extern __shared__ __align__(128) unsigned char memory[];
    strip_store<T> &s = *(strip_store<T> *)memory;
    const int i = threadIdx.x, lane = i % 32, warp = i / 32;
    if (i < G::GROUPS) {
        init_barrier(&s.full[i], 32 * GROUP);
        init_barrier(&s.empty[i], WEIGHERS);
    }
    if (i < 2) {
        init_barrier(&s.listed[i], SORT_THREADS);
        init_barrier(&s.unlisted[i], FETCHERS + WEIGHERS);
    }
    __syncthreads();
    /* Up to here this kernel may overlap the previous one. */
    cudaGridDependencySynchronize();
    const uint32_t n_item = __ldcg(a.n_item);
    item_range own = {(uint32_t)((uint64_t)n_item * blockIdx.x / gridDim.x), 0};
    own.n = (uint32_t)((uint64_t)n_item * (blockIdx.x + 1) / gridDim.x) - own.first;
    if (own.n == 0) return;
    if (warp < FETCHERS) {
        fetch_rows(a, s, own, warp, lane);
    } else if (warp < FETCHERS + SORTERS) {
        const item_sorter<T> sorter = {a, s, (uint32_t)(i - 32 * FETCHERS), a.strips.rows};
        sorter.sort(own);
    } else {
        const int taps = a.kernels.taps[0], squares = (a.kernels.oversample + 1) * (a.kernels.oversample + 1);
        const cplx<T> *table = a.kernels.table + a.kernels.offset[0];
        for (int k = i - 32 * (FETCHERS + SORTERS); k < squares * TAPS * TAPS; k += 32 * WEIGHERS) {
            const int u = k % TAPS, v = k / TAPS % TAPS;
            const bool is_tap = u < taps && v < taps;
            s.table[k] = is_tap ? read_only(table + (k / (TAPS * TAPS) * taps + v) * taps + u) : cplx<T>{0, 0};
        }
        asm volatile("bar.sync 2, %0;" ::"n"(32 * WEIGHERS) : "memory");
        weigh_items(a, s, own, warp - FETCHERS - SORTERS, lane);
    }
#endif
}

template <typename T> int launch(const msi_gather *g, const msi_wproj_job *job)
{
    strip_args<T> a = {};
    a.nu = (int32_t)job->nu;
    a.nv = (int32_t)job->nv;
    a.strips = g->strips;
    a.place = g->placed.strip_place;
    a.item = g->placed.item;
    a.n_item = g->placed.n_item;
    a.value = (cplx<T> *)job->value;
    a.grid = (const cplx<T> *)job->grid;
    a.kernels = view_kernels<T>(job);
    MSI_CUDA(cudaFuncSetAttribute(k_gather_strip<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)sizeof(strip_store<T>)));
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3((unsigned)g->n_block);
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = sizeof(strip_store<T>);
    how.stream = (cudaStream_t)g->gpu.stream;
    how.attrs = &overlap;
    how.numAttrs = 1;
    MSI_CUDA(cudaLaunchKernelEx(&how, k_gather_strip<T>, a));
    return MSI_OK;
}

/* Choose strips of about equal width, and bins so that every block has about the same number. */
template <typename T> bool shape(msi_wproj_points_strips *strips, const msi_wproj_job *job, int n_block)
{
    using G = geometry<T>;
    constexpr int CELLS = GRANULE / G::CELL;
    const int64_t n_strip = (job->nu + G::WIDTH - 1) / G::WIDTH, height = (job->nv + TAPS - 2 + GROUP) / GROUP * GROUP;
    const int64_t line = n_strip * height, each = MSI_WPROJ_POINTS_MAX_PLACE_TILES / n_block;
    /* A row is copied in whole pieces, and may wrap only once. */
    if (job->nu % CELLS != 0 || job->nu < TAPS || each < 1 || line > INT32_MAX / 2) return false;
    if (dynamic_shared_bytes(k_gather_strip<T>) < sizeof(strip_store<T>)) return false;
    int64_t rows = (line + each * n_block - 1) / (each * n_block);
    rows = std::max<int64_t>((rows + GROUP - 1) / GROUP * GROUP, FEWEST_ROWS);
    if (rows > G::ROWS) return false;
    strips->width = (int32_t)(((job->nu + n_strip - 1) / n_strip + CELLS - 1) / CELLS * CELLS);
    strips->height = (int32_t)height;
    strips->rows = (int32_t)rows;
    strips->n_bin = (int32_t)((line + rows - 1) / rows);
    return true;
}

} // namespace

const int points::STRIP_ITEM = CAPACITY;

bool points::shape_strips(msi_wproj_points_strips *strips, const msi_wproj_job *job, int n_block)
{
    const msi_wproj_kernels &k = job->kernels;
    if (job->n_image != 1 || k.n_plane != 1 || k.max_taps > TAPS ||
        (k.oversample + 1) * (k.oversample + 1) > MOST_SQUARES)
        return false;
    return job->precision == MSI_FP32 ? shape<float>(strips, job, n_block) : shape<double>(strips, job, n_block);
}

void points::fetch_granules(msi_gather *g)
{
    g->has_fetch_limit = msi_gpu_fetch_acquire(g->gpu.device, GRANULE);
}

void points::restore_fetch_limit(msi_gather *g)
{
    if (g->has_fetch_limit) msi_gpu_fetch_release(g->gpu.device);
}

int points::launch_strips(const msi_gather *g, const msi_wproj_job *job)
{
    return job->precision == MSI_FP32 ? launch<float>(g, job) : launch<double>(g, job);
}
