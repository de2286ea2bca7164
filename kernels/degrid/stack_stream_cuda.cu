/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding a stack that few visibilities share: where most footprints have a cell to themselves, reading every cell
 * of every subgrid once is nearly all there is to do, and it must never pause.
 *
 * A unit of work is a strip of a subgrid, 28 first cells wide and 128 rows long. One thread of a block has its rows, 8
 * at a time, copied into a ring in shared memory, as far ahead as the ring allows and across units; the copies are the
 * hardware's (cp.async.bulk.tensor) and cost no other warp an instruction. The others take visibilities in turn, in the
 * order of rows, each by a whole warp: lane l sums over w the cells of row l / 4 at u = l % 4 and 4 more, then weighs
 * them, and two visibilities are added over the lanes together. Barriers in shared memory count bytes that arrive and
 * warps that are done with 8 rows; nobody else waits for anybody.
 *
 * Source: Adamek 2021 ("Implementation of 3D degridding algorithm on the NVIDIA GPUs using CUDA"), section 2, for the
 * problem; strips and ring are this program's.
 */
#include "kernels/degrid/stack_stream_cuda.h"

#include <algorithm>

#include <cudaTypedefs.h>

#include "kernels/degrid/degrid_device.cuh"
#include "kernels/grid/cuda_check.h"

namespace {

using degrid::cplx;

constexpr int TAPS = MSI_STACK_TAPS, PLANES = MSI_STACK_PLANES;
constexpr int STRIP = 28, COLUMNS = 36; /* even, so that rows of complex floats begin and end on 16 bytes */
constexpr int UNITS = 2;                /* known to the block at once */
constexpr int ROWS = 8, SLOTS = 4, STEPS = 16;
constexpr int CONSUMERS = 8, THREADS = 32 * (CONSUMERS + 1), BLOCKS = 3;
static_assert(ROWS >= TAPS - 1, "a footprint lies in two steps' rows");
static_assert(COLUMNS >= STRIP + TAPS - 1 && COLUMNS % 16 == 4, "lanes of two rows meet different banks");

template <typename T> struct stream_args {
    int32_t n_unit, units_a_strip;
    const T *kernel_u, *kernel_v, *kernel_w;
    cplx<T> *value;
    msi_stack_sorted sorted;
    uint32_t *next; /* unit to be drawn, blocks that have finished */
};

struct unit {
    int32_t subgrid, u0;
    uint32_t begin, end;        /* visibilities */
    int32_t first_step, n_step; /* rows are needed of all these; no step: there is nothing more to do */
};

template <typename T> struct ring {
    cplx<T> cell[SLOTS][PLANES][ROWS][COLUMNS];
    unit units[UNITS];
    uint64_t full[SLOTS], empty[SLOTS], unit_full[UNITS], unit_empty[UNITS];
};

#if __CUDA_ARCH__ >= 900

constexpr int AT_ONCE = 2; /* visibilities of a warp */

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void init_barrier(uint64_t *barrier, uint32_t n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(n) : "memory");
}

__device__ __forceinline__ void wait_for(uint64_t *barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

__device__ __forceinline__ void arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(uint64_t *barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

/* Copy ROWS rows of COLUMNS cells of each plane of a subgrid, from u0 and v0 on; beyond its edges are zeros. */
__device__ __forceinline__ void copy_rows(void *to, const CUtensorMap *map, int u0, int v0, int subgrid,
                                          uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                 "l"(map), "r"(2 * u0), "r"(v0), "r"(subgrid * PLANES), "r"(shared_address(barrier))
                 : "memory");
}

/* The next unit that has visibilities. */
template <typename T> __device__ unit draw_unit(const stream_args<T> &a)
{
    const msi_stack_sorted &s = a.sorted;
    for (;;) {
        const int number = (int)atomicAdd(&a.next[0], 1u);
        if (number >= a.n_unit) return {0, 0, 0, 0, 0, 0};
        const int strip = number / a.units_a_strip, subgrid = strip / s.n_u, column = strip % s.n_u;
        const int tile = column * s.n_v + number % a.units_a_strip * STEPS;
        const int last = min(tile + STEPS, (column + 1) * s.n_v) - 1;
        const uint32_t *end_of = s.end + (int64_t)subgrid * s.n_u * s.n_v;
        const uint32_t begin = tile > 0 ? end_of[tile - 1] : s.first_vis[subgrid], end = end_of[last];
        if (begin == end) continue;
        const int first_step = msi_stack_v0(s.place[begin]) / ROWS, last_step = msi_stack_v0(s.place[end - 1]) / ROWS;
        return {subgrid, column * STRIP, begin, end, first_step, last_step + 2 - first_step};
    }
}

/* A place in a ring of N, and the parity of the phases of its barriers there. */
template <int N> struct ring_place {
    uint32_t at, parity;

    __device__ __forceinline__ void advance()
    {
        at = at + 1 < N ? at + 1 : 0;
        if (at == 0) parity ^= 1;
    }
};

/* By one thread. */
template <typename T> __device__ void produce(const stream_args<T> &a, const CUtensorMap *map, ring<T> &r)
{
    ring_place<SLOTS> slot = {0, 1};
    ring_place<UNITS> to = {0, 1};
    for (unit next = draw_unit(a);;) {
        const unit x = next;
        wait_for(&r.unit_empty[to.at], to.parity);
        r.units[to.at] = x;
        arrive(&r.unit_full[to.at]);
        to.advance();
        if (x.n_step == 0) break;
        for (int step = 0; step < x.n_step; step++) {
            wait_for(&r.empty[slot.at], slot.parity);
            arrive_and_expect(&r.full[slot.at], sizeof r.cell[0]);
            copy_rows(r.cell[slot.at], map, x.u0, (x.first_step + step) * ROWS, x.subgrid, &r.full[slot.at]);
            slot.advance();
            if (step == 1) next = draw_unit(a);
        }
    }
    if (atomicAdd(&a.next[1], 1u) == gridDim.x - 1) a.next[0] = a.next[1] = 0;
}

/* What a warp that reads the ring has come to; steps are counted through all units. */
struct reader {
    uint32_t first, arrived, released; /* of the unit; steps that are there; steps that are done with */

    template <typename T> __device__ __forceinline__ void await(ring<T> &r, uint32_t end)
    {
        for (; arrived < end; arrived++) wait_for(&r.full[arrived % SLOTS], arrived / SLOTS & 1);
    }
    /* A step is awaited even if it is not looked at, lest this warp be counted twice while others lag behind. */
    template <typename T> __device__ __forceinline__ void release(ring<T> &r, uint32_t end, int lane)
    {
        for (; released < end; released++) {
            await(r, released + 1);
            __syncwarp();
            if (lane == 0) arrive(&r.empty[released % SLOTS]);
        }
    }
};

/* Lane l's weights of a visibility: u = l % 4 and 4 more, v = l / 4, all w. */
template <typename T> struct weights {
    T u[2], v, w[PLANES];

    weights() = default;
    __device__ __forceinline__ weights(const stream_args<T> &a, msi_stack_place p, int lane)
    {
        const T *ku = a.kernel_u + msi_stack_sub_u(p) * TAPS + lane % 4;
        u[0] = __ldg(ku);
        u[1] = __ldg(ku + 4);
        v = __ldg(a.kernel_v + msi_stack_sub_v(p) * TAPS + lane / 4);
        const cplx<T> *kw = (const cplx<T> *)(a.kernel_w + msi_stack_sub_w(p) * PLANES);
        const cplx<T> w01 = degrid::read_only(kw), w23 = degrid::read_only(kw + 1);
        w[0] = w01.re;
        w[1] = w01.im;
        w[2] = w23.re;
        w[3] = w23.im;
    }
};

/* The lane's part of a visibility; slot: of the step that its footprint begins in. */
template <typename T>
__device__ __forceinline__ cplx<T> sum_part(const ring<T> &r, const weights<T> &weight, msi_stack_place p, int u0,
                                            uint32_t slot, int lane)
{
    int row = msi_stack_v0(p) % ROWS + lane / 4;
    if (row >= ROWS) {
        row -= ROWS;
        slot = slot + 1 < SLOTS ? slot + 1 : 0;
    }
    const cplx<T> *cell = &r.cell[slot][0][row][msi_stack_u0(p) - u0 + lane % 4];
    cplx<T> column[2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int k = 0; k < PLANES; k++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const cplx<T> x = cell[k * ROWS * COLUMNS + 4 * half];
            column[half].re += weight.w[k] * x.re;
            column[half].im += weight.w[k] * x.im;
        }
    return {weight.v * (weight.u[0] * column[0].re + weight.u[1] * column[1].re),
            weight.v * (weight.u[0] * column[0].im + weight.u[1] * column[1].im)};
}

/* What a warp takes at once; index: of the one whose sum this lane will hold. */
struct batch {
    msi_stack_place place[AT_ONCE];
    uint32_t index;

    template <typename T> __device__ __forceinline__ batch(const stream_args<T> &a, const unit &x, uint32_t i, int part)
    {
        if (i >= x.end) return;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) place[k] = __ldg(&a.sorted.place[min(i + k * CONSUMERS, x.end - 1)]);
        index = __ldg(&a.sorted.index[min(i + part / 2 * CONSUMERS, x.end - 1)]);
    }
};

template <typename T> __device__ void consume(const stream_args<T> &a, ring<T> &r, int warp, int lane)
{
    const int part = lane / (16 / AT_ONCE);
    reader at = {0, 0, 0};
    for (ring_place<UNITS> from = {0, 0};; from.advance()) {
        wait_for(&r.unit_full[from.at], from.parity);
        const unit x = r.units[from.at];
        __syncwarp();
        if (lane == 0) arrive(&r.unit_empty[from.at]);
        if (x.n_step == 0) break;
        batch next(a, x, x.begin + warp, part);
        for (uint32_t i = x.begin + warp; i < x.end; i += AT_ONCE * CONSUMERS) {
            const batch now = next;
            next = batch(a, x, i + AT_ONCE * CONSUMERS, part);
            cplx<T> sum[AT_ONCE];
            weights<T> weight[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) weight[k] = weights<T>(a, now.place[k], lane);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++) {
                sum[k] = {0, 0};
                if (i + k * CONSUMERS >= x.end) continue;
                const uint32_t step = at.first + msi_stack_v0(now.place[k]) / ROWS - x.first_step;
                at.release(r, step, lane);
                at.await(r, step + 2);
                sum[k] = sum_part(r, weight[k], now.place[k], x.u0, step % SLOTS, lane);
            }
            const T total = degrid::transposed_sum<AT_ONCE, 32>(sum, lane);
            if (lane % (16 / AT_ONCE) != 0 || i + part / 2 * CONSUMERS >= x.end) continue;
            msi_stack_place place = now.place[0];
#pragma unroll
            for (int k = 1; k < AT_ONCE; k++)
                if (part / 2 == k) place = now.place[k];
            ((T *)(a.value + now.index))[part % 2] = place & MSI_STACK_OUTSIDE ? T(0) : total;
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
            init_barrier(&r.unit_empty[i], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp < CONSUMERS)
        consume(a, r, warp, lane);
    else if (lane == 0)
        produce(a, &map, r);
#endif
}

} /* namespace */

struct msi_stack_stream {
    int n_processor;
    uint32_t *next;
};

extern "C" void msi_stack_stream_free(msi_stack_stream *s)
{
    if (!s) return;
    cudaFree(s->next);
    delete s;
}

static int fill_stream(msi_stack_stream *s)
{
    int device, major;
    MSI_CUDA(cudaGetDevice(&device));
    MSI_CUDA(cudaDeviceGetAttribute(&s->n_processor, cudaDevAttrMultiProcessorCount, device));
    MSI_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    if (major < MSI_STACK_STREAM_MAJOR)
        return msi_error_set(MSI_EGPU, "GPU: streaming needs compute capability %d.0, this has %d",
                             MSI_STACK_STREAM_MAJOR, major);
    MSI_CUDA(cudaMalloc((void **)&s->next, 2 * sizeof *s->next));
    MSI_CUDA(cudaMemset(s->next, 0, 2 * sizeof *s->next));
    MSI_CUDA(
        cudaFuncSetAttribute(k_stack_stream<float>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(ring<float>)));
    MSI_CUDA(cudaFuncSetAttribute(k_stack_stream<double>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  sizeof(ring<double>)));
    return MSI_OK;
}

extern "C" int msi_stack_stream_create(msi_stack_stream **out, msi_stack_tile *tile, int32_t *most)
{
    *out = nullptr;
    msi_stack_stream *s = new msi_stack_stream{};
    *tile = {STRIP, ROWS};
    *most = INT32_MAX;
    int status = fill_stream(s);
    if (status != MSI_OK) {
        msi_stack_stream_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

/* The driver's function that describes an array to the copying hardware; there is no other way to it than by name. */
static int find_encoder(PFN_cuTensorMapEncodeTiled_v12000 *encode)
{
    cudaDriverEntryPointQueryResult found;
#if CUDART_VERSION >= 12050
    MSI_CUDA(
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)encode, 12000, cudaEnableDefault, &found));
#else
    MSI_CUDA(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", (void **)encode, cudaEnableDefault, &found));
#endif
    if (found == cudaDriverEntryPointSuccess) return MSI_OK;
    return msi_error_set(MSI_EGPU, "GPU: the driver has no cuTensorMapEncodeTiled");
}

/* All planes of all subgrids, as real numbers, taken by the ring's steps. */
template <typename T> static int describe_grid(CUtensorMap *map, const msi_stack_job *job)
{
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    MSI_TRY(find_encoder(&encode));
    const cuuint64_t size = (cuuint64_t)job->size, row_bytes = size * sizeof(cplx<T>);
    const cuuint64_t length[] = {2 * size, size, (cuuint64_t)job->n_subgrid * PLANES};
    const cuuint64_t stride[] = {row_bytes, size * row_bytes};
    const cuuint32_t box[] = {2 * COLUMNS, ROWS, PLANES}, every[] = {1, 1, 1};
    const CUtensorMapDataType type =
        sizeof(T) == sizeof(float) ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    CUresult e =
        encode(map, type, 3, (void *)job->grid, length, stride, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (e == CUDA_SUCCESS) return MSI_OK;
    return msi_error_set(MSI_EGPU, "GPU: cuTensorMapEncodeTiled: error %d", (int)e);
}

template <typename T>
static int launch(const msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted,
                  cudaStream_t stream)
{
    CUtensorMap map;
    MSI_TRY(describe_grid<T>(&map, job));
    const int units_a_strip = (sorted->n_v + STEPS - 1) / STEPS, n_unit = job->n_subgrid * sorted->n_u * units_a_strip;
    const stream_args<T> a = {n_unit,
                              units_a_strip,
                              (const T *)job->kernel_u,
                              (const T *)job->kernel_v,
                              (const T *)job->kernel_w,
                              (cplx<T> *)job->value,
                              *sorted,
                              s->next};
    k_stack_stream<<<(unsigned)std::min(n_unit, BLOCKS * s->n_processor), THREADS, sizeof(ring<T>), stream>>>(a, map);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

extern "C" int msi_stack_stream_degrid(msi_stack_stream *s, const msi_stack_job *job, const msi_stack_sorted *sorted,
                                       void *stream)
{
    if (job->first_vis[job->n_subgrid] == 0) return MSI_OK;
    return job->precision == MSI_FP32 ? launch<float>(s, job, sorted, (cudaStream_t)stream)
                                      : launch<double>(s, job, sorted, (cudaStream_t)stream);
}
