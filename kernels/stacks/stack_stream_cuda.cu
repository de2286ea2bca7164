/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only, for the problem of Adamek et al. (2021). The product grids subgrids with kernels/towers.
 *
 * Degrid a stack with few visibilities. Few footprints share cells, so reading every cell of every subgrid once takes
 * most of the time, and the copies must not pause.
 *
 * A unit of work is a piece of a strip of a subgrid, 48 first cells wide and 144 rows long. The last units are 40 rows
 * long, so that many blocks do not wait for the end of a few. Neighbouring units share cells. They are numbered so that
 * they are processed at the same time, while the cells are in the L2 cache. Strips begin at cache lines, because other
 * copies take 2 to 8 per cent longer.
 *
 * One thread of a block starts the copies of a unit's rows, 8 at a time, into a ring in shared memory, as far ahead as
 * the ring allows, also across units. The hardware copies them (cp.async.bulk.tensor), without instructions of other
 * warps. The first ring is filled while the visibilities are still being sorted. The other warps process visibilities
 * in the order of rows, four to a warp. Each of eight lanes sums over v and w at one u, for which it needs 13 weights;
 * it loads the weights of the next visibilities while it sums. Shared memory delivers 128 bytes to a warp at a time,
 * whether lanes share them or not, so the number of weights matters. A visibility has 4 KB of cells; with 32 lanes for
 * a visibility, each with different weights, nearly half of all bytes would be weights. Barriers in shared memory count
 * the bytes that have arrived, and the warps that have finished with 8 rows; there are no other waits.
 *
 * Most of the time is spent on the copies.
 *
 * Source: Adamek 2021 ("Implementation of 3D degridding algorithm on the NVIDIA GPUs using CUDA"), section 2, for the
 * problem. Strips and ring were developed for this program.
 */
#include "kernels/stacks/stack_degrid_cuda.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/complex_cuda.cuh"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/gpu/hopper_cuda.cuh"

namespace {

using complex_cuda::ALL_LANES;
using complex_cuda::cplx;
using complex_cuda::read_only;
using namespace hopper;

constexpr int TAPS = MSI_STACK_TAPS, PLANES = MSI_STACK_PLANES;
constexpr int STRIP = 48, COLUMNS = 56; /* cells: rows are whole lines of 128 bytes in fp64, of 16 bytes in fp32 */
constexpr int UNITS = 2;                /* units that a block holds at a time */
constexpr int ROWS = 8, SLOTS = 4, STEPS = 18,
              FINE_STEPS = 5;                   /* a step is ROWS rows; a unit has STEPS, a low one FINE_STEPS */
constexpr int REACH = (ROWS + TAPS - 2) / ROWS; /* steps beyond its first that a footprint may need */
constexpr int CONSUMERS = 7, THREADS = 32 * (CONSUMERS + 1), BLOCKS = 2;
constexpr int NAP_NS = 20; /* interval between two checks whether a subgrid is sorted */
constexpr int FINE = 2;    /* least number of low units for each block */
static_assert(SLOTS > REACH && SLOTS <= FINE_STEPS + REACH, "the ring holds a footprint, and no more than a unit");
static_assert(COLUMNS >= STRIP + TAPS - 1, "a footprint lies in a strip's columns");

template <typename T> struct stream_args {
    int32_t n_used;   /* number of subgrids with visibilities */
    int32_t n_coarse; /* number of bands of high units in a subgrid */
    int32_t n_unit;
    const int32_t *order; /* order of subgrids */
    const T *kernel_u, *kernel_v, *kernel_w;
    cplx<T> *value;
    msi_stack_sorted sorted;
    uint32_t *next; /* next unit, number of blocks that have finished */
};

struct unit {
    int32_t subgrid, u0;
    uint32_t begin, end;        /* visibilities */
    int32_t first_step, n_step; /* steps whose rows are needed; n_step 0: the work is complete */
};

/* A unit lies in a strip of a subgrid; its visibilities begin in these steps. */
struct unit_place {
    int32_t subgrid, column, first_step, n_step;
};

template <typename T> struct ring {
    cplx<T> cell[SLOTS][PLANES][ROWS][COLUMNS];
    unit units[UNITS];
    uint64_t full[SLOTS], empty[SLOTS], unit_full[UNITS], unit_empty[UNITS];
};

#if __CUDA_ARCH__ >= 900

constexpr int AT_ONCE = 32 / TAPS; /* visibilities of a warp */

/* Copy ROWS rows of COLUMNS cells of each plane of a subgrid, beginning at (u0, v0); beyond its edges are zeros. */
__device__ __forceinline__ void copy_rows(void *to, const CUtensorMap *map, int u0, int v0, int subgrid,
                                          uint64_t *barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(shared_address(to)),
                 "l"(map), "r"(2 * u0), "r"(v0), "r"(subgrid * PLANES), "r"(shared_address(barrier)), "l"(policy)
                 : "memory");
}

/* Return whether a subgrid's visibilities are sorted, which may be before the sort ends. */
__device__ __forceinline__ bool is_ready(const msi_stack_sorted &s, int subgrid)
{
    uint32_t n;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(n) : "l"(s.ready + subgrid) : "memory");
    return (int32_t)(n - s.ready_at) >= 0;
}

/* Find the place of a unit by its number: units are numbered side by side, then subgrid by subgrid, then band by band.
 */
template <typename T> __device__ __forceinline__ unit_place locate_unit(const stream_args<T> &a, int number)
{
    const int n_u = a.sorted.n_u, of_band = n_u * a.n_used, band = number / of_band, rest = number % of_band;
    const int fine = max(band - a.n_coarse, 0);
    return {a.order[rest / n_u], rest % n_u, (band - fine) * STEPS + fine * FINE_STEPS,
            band < a.n_coarse ? STEPS : FINE_STEPS};
}

/* Find a unit's visibilities and the steps that they need. Given: started  the first ring of steps is already copied;
 * then the unit gets all steps, even if they are not needed */
template <typename T> __device__ unit find_unit(const stream_args<T> &a, const unit_place &p, bool started)
{
    const msi_stack_sorted &s = a.sorted;
    if (s.ready)
        while (!is_ready(s, p.subgrid)) __nanosleep(NAP_NS);
    const int tile = p.column * s.n_v + p.first_step, end_tile = min(tile + p.n_step, (p.column + 1) * s.n_v);
    const uint32_t *end_of = s.end + (int64_t)p.subgrid * s.n_u * s.n_v;
    const uint32_t begin = tile > 0 ? __ldcg(end_of + tile - 1) : s.first_vis[p.subgrid];
    const uint32_t end = __ldcg(end_of + end_tile - 1);
    if (begin == end) return {p.subgrid, p.column * STRIP, 0, 0, p.first_step, started ? SLOTS : 0};
    if (started) return {p.subgrid, p.column * STRIP, begin, end, p.first_step, p.n_step + REACH};
    const int first = msi_stack_v0(__ldcg(s.place + begin)) / ROWS;
    const int n = msi_stack_v0(__ldcg(s.place + end - 1)) / ROWS + 1 + REACH - first;
    return {p.subgrid, p.column * STRIP, begin, end, first, n};
}

/* Get the next unit with visibilities. Each block begins with the unit that has the block's number. */
template <typename T> __device__ unit draw_unit(const stream_args<T> &a)
{
    for (;;) {
        const int number = (int)(gridDim.x + atomicAdd(&a.next[0], 1u));
        if (number >= a.n_unit) return {0, 0, 0, 0, 0, 0};
        const unit x = find_unit(a, locate_unit(a, number), false);
        if (x.n_step > 0) return x;
    }
}

/* A position in a ring of N, and the parity of its barriers' phases. */
template <int N> struct ring_place {
    uint32_t at, parity;

    __device__ __forceinline__ void advance()
    {
        at = at + 1 < N ? at + 1 : 0;
        if (at == 0) parity ^= 1;
    }
};

/* Get units and copy their rows into the ring; run by one thread. */
template <typename T> __device__ void produce(const stream_args<T> &a, const CUtensorMap *map, ring<T> &r)
{
    const uint64_t policy = cache_policy::evict_first();
    ring_place<SLOTS> slot = {0, 1};
    ring_place<UNITS> to = {0, 1};
    const auto copy = [&](int column, int subgrid, int step) {
        wait_for(&r.empty[slot.at], slot.parity);
        arrive_and_expect(&r.full[slot.at], sizeof r.cell[0]);
        copy_rows(r.cell[slot.at], map, column, step * ROWS, subgrid, &r.full[slot.at], policy);
        slot.advance();
    };
    const unit_place own = locate_unit(a, (int)blockIdx.x);
    /* While its visibilities are being sorted, a block copies its unit's first rows, even if they may not be needed. */
    if (!a.sorted.ready) cudaGridDependencySynchronize();
    const bool waits = a.sorted.ready && !is_ready(a.sorted, own.subgrid);
    if (waits)
        for (int step = 0; step < SLOTS; step++) copy(own.column * STRIP, own.subgrid, own.first_step + step);
    int step = waits ? SLOTS : 0;
    unit next = find_unit(a, own, waits);
    if (next.n_step == 0) next = draw_unit(a);
    for (;; step = 0) {
        const unit x = next;
        wait_for(&r.unit_empty[to.at], to.parity);
        r.units[to.at] = x;
        arrive(&r.unit_full[to.at]);
        to.advance();
        if (x.n_step == 0) break;
        for (bool drawn = false; step < x.n_step || !drawn; step++) {
            if (step < x.n_step) copy(x.u0, x.subgrid, x.first_step + step);
            if (!drawn && step > 0) {
                next = draw_unit(a);
                drawn = true;
            }
        }
    }
    /* The sort must end before this kernel ends. */
    if (a.sorted.ready) cudaGridDependencySynchronize();
    if (atomicAdd(&a.next[1], 1u) == gridDim.x - 1) a.next[0] = a.next[1] = 0;
}

/* The progress of a warp in the ring. Steps are counted over all units. */
struct reader {
    uint32_t first, arrived, released; /* first step of the unit; steps that have arrived; steps that are finished */

    template <typename T> __device__ __forceinline__ void await(ring<T> &r, uint32_t end)
    {
        for (; arrived < end; arrived++) wait_for(&r.full[arrived % SLOTS], arrived / SLOTS & 1);
    }
    /* Wait for each step even if it is not used, so that this warp is not counted twice while others lag behind. */
    template <typename T> __device__ __forceinline__ void release(ring<T> &r, uint32_t end, int lane)
    {
        for (; released < end; released++) {
            await(r, released + 1);
            __syncwarp();
            if (lane == 0) arrive(&r.empty[released % SLOTS]);
        }
    }
};

/* A lane's visibility and its weights in v and w. */
template <typename T> struct weighted_vis {
    msi_stack_place place;
    T v[TAPS], w[PLANES];

    __device__ __forceinline__ void take(const stream_args<T> &a, msi_stack_place p)
    {
        place = p;
        read_pairs<TAPS>(v, a.kernel_v + msi_stack_sub_v(p) * TAPS);
        read_pairs<PLANES>(w, a.kernel_w + msi_stack_sub_w(p) * PLANES);
    }
    template <int N> __device__ __forceinline__ static void read_pairs(T *to, const T *from)
    {
#pragma unroll
        for (int k = 0; k < N; k += 2) {
            const cplx<T> pair = read_only((const cplx<T> *)(from + k));
            to[k] = pair.re;
            to[k + 1] = pair.im;
        }
    }
};

/* Sum over v and w at a lane's u. slot is the step in which the footprint begins. */
template <typename T>
__device__ __forceinline__ cplx<T> sum_column(const ring<T> &r, const weighted_vis<T> &s, int u0, uint32_t slot,
                                              int lane)
{
    static_assert(REACH == 1, "a footprint's rows are of one step or two");
    const int row = msi_stack_v0(s.place) % ROWS;
    const cplx<T> *near = &r.cell[slot][0][row][msi_stack_u0(s.place) - u0 + lane % TAPS];
    /* Rows of the next step, counted on from those of this one. */
    const int steps = slot + 1 < SLOTS ? 1 : 1 - SLOTS;
    const cplx<T> *far = near + (steps * PLANES - 1) * ROWS * COLUMNS;
    cplx<T> sum = {0, 0};
#pragma unroll
    for (int v = 0; v < TAPS; v++) {
        const cplx<T> *here = (row + v < ROWS ? near : far) + v * COLUMNS;
        cplx<T> column = {0, 0};
#pragma unroll
        for (int w = 0; w < PLANES; w++) {
            const cplx<T> x = here[w * ROWS * COLUMNS];
            column.re += s.w[w] * x.re;
            column.im += s.w[w] * x.im;
        }
        sum.re += s.v[v] * column.re;
        sum.im += s.v[v] * column.im;
    }
    return sum;
}

/* Sum over each 8 lanes: re for the lower four, im for the upper four. */
template <typename T> __device__ __forceinline__ T sum_lanes(cplx<T> x, int lane)
{
    const bool upper = lane & 4;
    T sum = (upper ? x.im : x.re) + __shfl_xor_sync(ALL_LANES, upper ? x.re : x.im, 4);
    sum += __shfl_xor_sync(ALL_LANES, sum, 2);
    return sum + __shfl_xor_sync(ALL_LANES, sum, 1);
}

/* Sum the visibilities of the block's units; run by each of its reading warps. */
template <typename T> __device__ void consume(const stream_args<T> &a, ring<T> &r, int warp, int lane)
{
    constexpr uint32_t TURN = CONSUMERS * AT_ONCE;
    const uint64_t policy = cache_policy::evict_last();
    if (!a.sorted.ready) cudaGridDependencySynchronize();
    reader at = {0, 0, 0};
    for (ring_place<UNITS> from = {0, 0};; from.advance()) {
        wait_for(&r.unit_full[from.at], from.parity);
        const unit x = r.units[from.at];
        arrive(&r.unit_empty[from.at]);
        __syncwarp();
        if (x.n_step == 0) break;
        uint32_t i = x.begin + warp * AT_ONCE + lane / TAPS, n_vis = x.end - x.begin;
        const auto number = [&](uint32_t k) { return min(k, x.end - 1); };
        const auto sum_one = [&](const weighted_vis<T> &s) {
            const uint32_t index = __ldcs(a.sorted.index + number(i));
            const T u = __ldg(a.kernel_u + msi_stack_sub_u(s.place) * TAPS + lane % TAPS);
            cplx<T> sum = {0, 0};
            /* The visibilities whose rows are in the ring together: nearly always all. */
            const uint32_t step = at.first + msi_stack_v0(s.place) / ROWS - x.first_step;
            const uint32_t last_step = __shfl_sync(ALL_LANES, step, 31);
            for (uint32_t begin = __shfl_sync(ALL_LANES, step, 0); begin <= last_step; begin += SLOTS - REACH) {
                const uint32_t end = min(begin + SLOTS - REACH, last_step + 1);
                at.release(r, begin, lane);
                at.await(r, end + REACH);
                if (step >= begin && step < end) sum = sum_column(r, s, x.u0, step % SLOTS, lane);
            }
            const T total = sum_lanes<T>({u * sum.re, u * sum.im}, lane);
            if (lane % 4 == 0 && i < x.end)
                cache_policy::store((T *)(a.value + index) + lane / 4 % 2, s.place & MSI_STACK_OUTSIDE ? T(0) : total,
                                    policy);
            i += TURN;
        };
        if (n_vis > warp * AT_ONCE) {
            weighted_vis<T> even, odd;
            even.take(a, __ldcs(a.sorted.place + number(i)));
            msi_stack_place next = __ldcs(a.sorted.place + number(i + TURN));
            const uint32_t n_turn = (n_vis - warp * AT_ONCE + TURN - 1) / TURN;
            for (uint32_t k = 0;; k += 2) {
                odd.take(a, next);
                next = __ldcs(a.sorted.place + number(i + 2 * TURN));
                sum_one(even);
                if (k + 1 >= n_turn) break;
                even.take(a, next);
                next = __ldcs(a.sorted.place + number(i + 2 * TURN));
                sum_one(odd);
                if (k + 2 >= n_turn) break;
            }
        }
        at.first += x.n_step;
        at.release(r, at.first, lane);
    }
}

#endif

template <typename T>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    k_stack_stream(const __grid_constant__ stream_args<T> a, const __grid_constant__ CUtensorMap map)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char shared_bytes[];
    ring<T> &r = *(ring<T> *)shared_bytes;
    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; i++) {
            init_barrier(&r.full[i], 1);
            init_barrier(&r.empty[i], CONSUMERS);
        }
        for (int i = 0; i < UNITS; i++) {
            init_barrier(&r.unit_full[i], 1);
            init_barrier(&r.unit_empty[i], 32 * CONSUMERS);
        }
        fence_barriers();
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp < CONSUMERS)
        consume(a, r, warp, lane);
    else if (lane == 0)
        produce(a, &map, r);
#endif
}

} // namespace

struct msi_stack_stream {
    msi_gpu_stream gpu;
    int n_processor;
    uint32_t *next;
    int32_t n_used; /* number of subgrids with visibilities, which are the first in `order` */
    int32_t *order;
};

extern "C" void msi_stack_stream_free(msi_stack_stream *s)
{
    if (!s) return;
    cudaFree(s->next);
    cudaFree(s->order);
    delete s;
}

/* Sort subgrids by their number of visibilities, largest first. */
static std::vector<int32_t> order_subgrids(const msi_stack_job *job)
{
    std::vector<int32_t> order((size_t)job->n_subgrid);
    const auto count = [&](int32_t g) { return job->first_vis[g + 1] - job->first_vis[g]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t i, int32_t j) { return count(i) > count(j); });
    return order;
}

extern "C" int msi_stack_stream_serves(void)
{
    /* One block per multiprocessor is enough, since blocks get their work dynamically and do not wait for each
     * other. */
    return dynamic_shared_bytes(k_stack_stream<double>) >= sizeof(ring<double>);
}

static int fill_stream(msi_stack_stream *s, const msi_stack_job *job)
{
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaDeviceGetAttribute(&s->n_processor, cudaDevAttrMultiProcessorCount, s->gpu.device));
    if (!msi_stack_stream_serves())
        return msi_error_set(MSI_EGPU,
                             "%s: streaming needs compute capability 9.0, a program compiled for it and %zu bytes of "
                             "shared memory to a block",
                             msi_gpu_current_name(), sizeof(ring<double>));
    const std::vector<int32_t> order = order_subgrids(job);
    for (int32_t g : order) s->n_used += job->first_vis[g + 1] > job->first_vis[g];
    MSI_TRY(allocate(&s->order, job->n_subgrid, "subgrids"));
    MSI_CUDA(cudaMemcpyAsync(s->order, order.data(), order.size() * sizeof order[0], cudaMemcpyHostToDevice, stream));
    MSI_TRY(allocate(&s->next, 2, "units of work"));
    MSI_CUDA(cudaMemsetAsync(s->next, 0, 2 * sizeof *s->next, stream));
    MSI_CUDA(
        cudaFuncSetAttribute(k_stack_stream<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(ring<float>)));
    MSI_CUDA(cudaFuncSetAttribute(k_stack_stream<double>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  sizeof(ring<double>)));
    return msi_gpu_stream_wait(&s->gpu);
}

extern "C" int msi_stack_stream_create(msi_stack_stream **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                                       msi_stack_tile *tile, int32_t *most)
{
    *out = nullptr;
    msi_stack_stream *s = new msi_stack_stream{};
    s->gpu = *gpu;
    *tile = {STRIP, ROWS};
    *most = INT32_MAX;
    int status = fill_stream(s, job);
    if (status != MSI_OK) {
        msi_stack_stream_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

/* Make the tensor map of all planes of all subgrids, as real numbers, for the copies of the ring. */
template <typename T> static int describe_grid(CUtensorMap *map, const msi_stack_job *job)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    if (!find_encoder(&encode))
        return msi_error_set(MSI_EGPU, "%s: the driver has no cuTensorMapEncodeTiled", msi_gpu_current_name());
    const cuuint64_t size = (cuuint64_t)job->size, row_bytes = size * sizeof(cplx<T>);
    const cuuint64_t length[] = {2 * size, size, (cuuint64_t)job->n_subgrid * PLANES};
    const cuuint64_t stride[] = {row_bytes, size * row_bytes};
    const cuuint32_t box[] = {2 * COLUMNS, ROWS, PLANES}, every[] = {1, 1, 1};
    const CUtensorMapDataType type =
        sizeof(T) == sizeof(float) ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    CUresult e = encode(map, type, 3, (void *)job->grid, length, stride, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
                        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (e == CUDA_SUCCESS) return MSI_OK;
    return msi_error_set(MSI_EGPU, "%s: cuTensorMapEncodeTiled: error %d", msi_gpu_current_name(), (int)e);
}

template <typename T>
static int launch(const msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted)
{
    CUtensorMap map;
    MSI_TRY(describe_grid<T>(&map, job));
    const int most_blocks = BLOCKS * s->n_processor, of_band = sorted->n_u * s->n_used;
    /* The last units are low, FINE for each block, so that many blocks do not wait for the end of a few. */
    const int least_fine = (FINE * most_blocks + of_band - 1) / of_band;
    const int n_coarse = std::max(0, sorted->n_v - least_fine * FINE_STEPS) / STEPS;
    const int n_fine = (sorted->n_v - n_coarse * STEPS + FINE_STEPS - 1) / FINE_STEPS;
    const int n_unit = (n_coarse + n_fine) * of_band;
    const stream_args<T> a = {s->n_used,
                              n_coarse,
                              n_unit,
                              s->order,
                              (const T *)job->kernel_u,
                              (const T *)job->kernel_v,
                              (const T *)job->kernel_w,
                              (cplx<T> *)job->value,
                              *sorted,
                              s->next};
    cudaLaunchAttribute overlap = {};
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3((unsigned)std::min(n_unit, most_blocks));
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = sizeof(ring<T>);
    how.stream = (cudaStream_t)s->gpu.stream;
    how.attrs = &overlap;
    how.numAttrs = 1;
    MSI_CUDA(cudaLaunchKernelEx(&how, k_stack_stream<T>, a, map));
    return MSI_OK;
}

extern "C" int msi_stack_stream_degrid(msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted)
{
    const gpu_range range("degrid stacks by strip");
    if (job->first_vis[job->n_subgrid] == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    return job->precision == MSI_FP32 ? launch<float>(s, job, sorted) : launch<double>(s, job, sorted);
}
