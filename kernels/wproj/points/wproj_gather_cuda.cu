/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gather: the footprint of each visibility is summed by a warp, or by 8 or 16 lanes if it is small.
 *
 * The forms GIVEN and PLACE read the image and the kernel table through the caches. A warp first prepares its
 * visibilities, one per lane, so that it waits only once for the dependent loads of index, sample, plane and table.
 * Then each part of the warp sums one visibility, with several loads of taps per lane in flight. If there are few
 * visibilities, their footprints are divided into bands of rows for several warps. The form STRIP is in
 * wproj_gather_strip_cuda.cu, the form TILE in wproj_gather_cuda.cuh.
 *
 * Source: NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"), "Gather" implementation.
 */
#include "kernels/wproj/points/wproj_points_cuda.h"

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/points/wproj_gather_cuda.cuh"

namespace {

using namespace points;

constexpr int THREADS = 128, WARPS = THREADS / 32;
constexpr int WIDEST_BLOCK = 36;    /* taps along an axis that a tile processes together */
constexpr int MAX_VIS_PER_WARP = 8; /* few, so that concurrent visibilities share the L2 cache */
constexpr int MAX_BANDS = 64, MIN_BAND_TAPS = 2048;

template <typename T> struct direct_args {
    int32_t nu, nv, n_image;
    uint32_t n_vis;
    int32_t vis_per_warp;
    int32_t n_band; /* number of bands of a footprint; blockIdx.y is the band */
    const msi_wproj_sample *sample;
    const msi_wproj_points_place *place; /* or NULL: in the order given */
    cplx<T> *value;
    const cplx<T> *grid;
    kernel_view<T> kernels;
};

/* The footprint of a prepared visibility. */
template <typename T> struct alignas(16) footprint {
    const cplx<T> *weight;
    int64_t cell; /* element of the image */
    int32_t u, v; /* first cell */
    int32_t taps; /* 0: none */
    uint32_t sign;
    uint32_t index;
    int32_t inside; /* 1: does not wrap */
};

__device__ __forceinline__ msi_wproj_points_place find_place(const msi_wproj_sample &s, uint32_t i, int32_t nu,
                                                             int32_t nv, const int32_t *taps, int oversample)
{
    const int half = taps[s.plane] / 2;
    return {msi_wproj_points_wrap(s.u - half, nu), msi_wproj_points_wrap(s.v - half, nv),
            msi_wproj_points_kernel(&s, oversample), i};
}

__device__ __forceinline__ msi_wproj_points_place read_place(const msi_wproj_points_place *place)
{
    const int4 x = __ldg((const int4 *)place);
    return {x.x, x.y, (uint32_t)x.z, (uint32_t)x.w};
}

/* Compute the footprint of visibility i. */
template <typename T> __device__ footprint<T> prepare(const direct_args<T> &a, uint32_t i)
{
    footprint<T> f = {};
    if (i >= a.n_vis) return f;
    const msi_wproj_points_place p = a.place
                                         ? read_place(a.place + i)
                                         : find_place(a.sample[i], i, a.nu, a.nv, a.kernels.taps, a.kernels.oversample);
    const square<T> sq = find_square(a.kernels, p.kernel);
    f.index = p.index;
    f.weight = sq.first;
    f.taps = sq.taps;
    f.sign = sq.sign;
    f.u = p.u;
    f.v = p.v;
    f.inside = f.u + f.taps <= a.nu && f.v + f.taps <= a.nv;
    f.cell = ((int64_t)f.v * a.nu + f.u) * a.n_image;
    return f;
}

/* Sum a lane's part of rows [row, row_end) of a footprint that lies inside the grid. */
template <int LANES, typename T>
__device__ __forceinline__ cplx<T> weigh_inside(const direct_args<T> &a, const footprint<T> &f, int image, int row,
                                                int row_end, int lane)
{
    constexpr int U = sizeof(T) == 4 ? 8 : 4;
    const int64_t stride = (int64_t)a.nu * a.n_image;
    const cplx<T> *weight = f.weight + (int64_t)row * f.taps, *cell = a.grid + f.cell + row * stride + image;
    const int n_tap = (row_end - row) * f.taps;
    tap_walk w = start_walk(lane, LANES, f.taps, a.n_image, (int)stride, 1, f.taps);
    cplx<T> sum = {0, 0};
    int t = lane;
    for (; t + (U - 1) * LANES < n_tap; t += U * LANES) {
        cplx<T> g[U], x[U];
#pragma unroll
        for (int j = 0; j < U; j++) {
            g[j] = read_only(weight + w.table);
            x[j] = read_only(cell + w.image);
            w.advance();
        }
#pragma unroll
        for (int j = 0; j < U; j++) {
            g[j].im = flip(g[j].im, f.sign);
            multiply_add(sum, x[j], g[j]);
        }
    }
    for (; t < n_tap; t += LANES) {
        cplx<T> g = read_only(weight + w.table);
        g.im = flip(g.im, f.sign);
        multiply_add(sum, read_only(cell + w.image), g);
        w.advance();
    }
    return sum;
}

/* The same sum if a row has no more taps than there are lanes. Each lane sums one column. */
template <int LANES, typename T>
__device__ __forceinline__ cplx<T> weigh_columns(const direct_args<T> &a, const footprint<T> &f, int image, int row,
                                                 int row_end, int lane)
{
    constexpr int U = sizeof(T) == 4 ? 8 : 4;
    cplx<T> sum = {0, 0};
    if (lane >= f.taps) return sum;
    const int64_t stride = (int64_t)a.nu * a.n_image;
    const cplx<T> *weight = f.weight + row * f.taps + lane, *cell = a.grid + f.cell + row * stride + lane * a.n_image;
    cell += image;
    /* Sum the products with Re and Im of the weight separately. Apply the sign of the conjugate after the loop. */
    cplx<T> with_re = {0, 0}, with_im = {0, 0};
    auto add = [&](cplx<T> x, cplx<T> g) {
        with_re.re += x.re * g.re;
        with_re.im += x.im * g.re;
        with_im.re -= x.im * g.im;
        with_im.im += x.re * g.im;
    };
    int r = row;
    for (; r + U <= row_end; r += U) {
        cplx<T> g[U], x[U];
#pragma unroll
        for (int j = 0; j < U; j++, weight += f.taps, cell += stride) {
            g[j] = read_only(weight);
            x[j] = read_only(cell);
        }
#pragma unroll
        for (int j = 0; j < U; j++) add(x[j], g[j]);
    }
    for (; r < row_end; r++, weight += f.taps, cell += stride) add(read_only(cell), read_only(weight));
    return {with_re.re + flip(with_im.re, f.sign), with_re.im + flip(with_im.im, f.sign)};
}

/* The same sum for a footprint that wraps round the grid's edge. */
template <int LANES, typename T>
__device__ __noinline__ cplx<T> weigh_wrapped(const direct_args<T> &a, footprint<T> f, int image, int row, int row_end,
                                              int lane)
{
    cplx<T> sum = {0, 0};
    for (int t = row * f.taps + lane; t < row_end * f.taps; t += LANES) {
        int u = f.u + t % f.taps, v = f.v + t / f.taps;
        u -= u >= a.nu ? a.nu : 0;
        v -= v >= a.nv ? a.nv : 0;
        cplx<T> g = read_only(f.weight + t);
        g.im = flip(g.im, f.sign);
        multiply_add(sum, read_only(a.grid + ((int64_t)v * a.nu + u) * a.n_image + image), g);
    }
    return sum;
}

template <int LANES, typename T>
__global__ void __launch_bounds__(THREADS) k_gather(const __grid_constant__ direct_args<T> a)
{
    constexpr int PARTS = 32 / LANES;
    __shared__ footprint<T> prepared[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = lane / LANES, within = lane % LANES;
    const uint32_t first = (blockIdx.x * WARPS + (uint32_t)warp) * (uint32_t)a.vis_per_warp;
    if (first >= a.n_vis) return;
    footprint<T> own = {};
    if (lane < a.vis_per_warp) own = prepare(a, first + (uint32_t)lane);
    prepared[warp][lane] = own;
    __syncwarp();
    for (int k = 0; k < a.vis_per_warp; k += PARTS) {
        const footprint<T> f = prepared[warp][k + part];
        const int row = f.taps * (int)blockIdx.y / a.n_band, row_end = f.taps * ((int)blockIdx.y + 1) / a.n_band;
        for (int p = 0; p < a.n_image; p++) {
            cplx<T> sum;
            if (!f.inside)
                sum = weigh_wrapped<LANES>(a, f, p, row, row_end, within);
            else if (LANES < 32)
                sum = weigh_columns<LANES>(a, f, p, row, row_end, within);
            else
                sum = weigh_inside<LANES>(a, f, p, row, row_end, within);
            T total = transposed_sum<1, LANES>(&sum, within);
            if (within % (LANES / 2) != 0 || f.taps == 0) continue;
            T *out = (T *)(a.value + (int64_t)f.index * a.n_image + p) + within / (LANES / 2);
            if (a.n_band > 1)
                atomicAdd(out, total);
            else
                *out = total;
        }
    }
}

template <typename T> int launch_direct(const msi_gather *g, const msi_wproj_job *job)
{
    cudaStream_t stream = (cudaStream_t)g->gpu.stream;
    direct_args<T> a = {};
    a.nu = (int32_t)job->nu;
    a.nv = (int32_t)job->nv;
    a.n_image = job->n_image;
    a.n_vis = (uint32_t)job->n_vis;
    a.sample = job->sample;
    a.place = g->placed.place;
    a.value = (cplx<T> *)job->value;
    a.grid = (const cplx<T> *)job->grid;
    a.kernels = view_kernels<T>(job);
    const int taps = job->kernels.max_taps, lanes = taps <= 8 ? 8 : taps <= 16 ? 16 : 32;
    /* Make enough warps for all multiprocessors: first by fewer visibilities per warp, then by bands. */
    const int64_t wanted = (int64_t)g->n_block * 64;
    a.vis_per_warp = (int32_t)std::clamp<int64_t>(job->n_vis / wanted, 1, MAX_VIS_PER_WARP);
    a.vis_per_warp = (a.vis_per_warp + 32 / lanes - 1) / (32 / lanes) * (32 / lanes);
    const int64_t n_warp = (job->n_vis + a.vis_per_warp - 1) / a.vis_per_warp;
    a.n_band = (int32_t)std::clamp<int64_t>(wanted / n_warp, 1, std::min(MAX_BANDS, taps));
    a.n_band = std::clamp(a.n_band, 1, std::max(1, taps * taps / MIN_BAND_TAPS));
    if (a.n_band > 1) MSI_CUDA(cudaMemsetAsync(a.value, 0, (size_t)(job->n_vis * a.n_image) * sizeof *a.value, stream));
    dim3 blocks((unsigned)((n_warp + WARPS - 1) / WARPS), (unsigned)a.n_band);
    if (lanes == 8)
        k_gather<8><<<blocks, THREADS, 0, stream>>>(a);
    else if (lanes == 16)
        k_gather<16><<<blocks, THREADS, 0, stream>>>(a);
    else
        k_gather<32><<<blocks, THREADS, 0, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Choose the largest tile whose cells fit. The pitch is the width of the block of taps plus a multiple of the number of
 * banks, so that lanes that read neighbouring rows of a footprint have no bank conflicts. */
template <typename T> void shape_tile(tile_shape *shape, msi_wproj_points_class *c, int32_t nu, int32_t nv, int cells)
{
    constexpr int ROUND = 128 / (int)sizeof(cplx<T>);
    const int blocks = (c->taps + WIDEST_BLOCK - 1) / WIDEST_BLOCK;
    int block = (c->taps + blocks - 1) / blocks;
    if (blocks > 1) block += block % 2;
    shape->block_u = shape->block_v = block;
    int64_t best = 0;
    for (int tile_u = 8; tile_u <= cells / block; tile_u += 2) {
        const int columns = tile_u + block - 1;
        int pitch = columns + ((block - columns) % ROUND + ROUND) % ROUND;
        if (block == 32) pitch = FIXED_PITCH<T>;
        if (pitch * (int)(sizeof(cplx<T>) / sizeof(double)) > box_copy::MOST_ELEMENTS) break;
        const int tile_v = std::min<int>(std::min(cells / pitch, box_copy::MOST_ELEMENTS) - block + 1, nv);
        const int64_t area = (int64_t)std::min<int>(tile_u, nu) * tile_v;
        if (tile_v < 1 || columns > pitch || area <= best) continue;
        best = area;
        shape->pitch = pitch;
        c->tile_u = tile_u;
        c->tile_v = tile_v;
    }
}

template <typename T> void shape_tiles(msi_gather *g, msi_wproj_points_classes *c, size_t shared_bytes)
{
    g->cells = (int)((shared_bytes - tile_bytes<T>(0)) / sizeof(cplx<T>)) / 2 * 2;
    for (int k = 0; k < c->n_class; k++) shape_tile<T>(&g->shape[k], &c->of[k], c->nu, c->nv, g->cells);
}

/* Choose the form. Tiles are faster if reading a tile's cells costs less than reading its visibilities' footprints from
 * the L2 cache. */
msi_gather_form choose_form(const msi_wproj_job *job, const msi_wproj_points_class &widest, int cells)
{
    /* The least number of taps per cell that TILE copies, and per cell of the grid. */
    constexpr double MIN_REUSE = 5, MIN_COVERAGE = 0.25;
    double tiles = (double)job->nu * (double)job->nv / ((double)widest.tile_u * widest.tile_v);
    double taps = (double)widest.taps * widest.taps;
    if ((double)job->n_vis * taps > MIN_REUSE * cells * tiles) return MSI_GATHER_TILE;
    double touched = (double)job->n_vis * taps / ((double)job->nu * (double)job->nv);
    return touched > MIN_COVERAGE ? MSI_GATHER_PLACE : MSI_GATHER_GIVEN;
}

/* Choose square tiles for the order by place: the smallest ones whose number can be sorted. */
void shape_places(msi_wproj_points_classes *c)
{
    int64_t side = 32, tiles;
    do {
        side *= 2;
        tiles = ((c->nu + side - 1) / side) * ((c->nv + side - 1) / side) * c->n_class;
    } while (tiles > MSI_WPROJ_POINTS_MAX_PLACE_TILES);
    for (int k = 0; k < c->n_class; k++) c->of[k].tile_u = c->of[k].tile_v = (int32_t)side;
}

int fill_gather(msi_gather *g, const msi_wproj_job *job, msi_gather_form form)
{
    size_t shared;
    MSI_TRY(msi_gpu_stream_enter(&g->gpu));
    MSI_CUDA(cudaDeviceGetAttribute(&g->n_block, cudaDevAttrMultiProcessorCount, g->gpu.device));
    MSI_TRY(block_shared_bytes(&shared));
    MSI_TRY(msi_wproj_points_sorter_create(&g->sorter, &g->gpu, job));
    MSI_TRY(allocate(&g->next_item, 1, "counters"));
    msi_wproj_points_classes *c = msi_wproj_points_sorter_classes(g->sorter);
    if (job->precision == MSI_FP32)
        shape_tiles<float>(g, c, shared);
    else
        shape_tiles<double>(g, c, shared);
    g->form = form == MSI_GATHER_AUTO ? choose_form(job, c->of[0], g->cells) : form;
    if (g->form == MSI_GATHER_PLACE && form == MSI_GATHER_AUTO) g->form = MSI_GATHER_STRIP;
    if (g->form == MSI_GATHER_STRIP && !shape_strips(&g->strips, job, g->n_block)) g->form = MSI_GATHER_PLACE;
    if (g->form == MSI_GATHER_STRIP) fetch_granules(g);
    if (g->form == MSI_GATHER_GIVEN || g->form == MSI_GATHER_PLACE) shape_places(c);
    return msi_wproj_points_sorter_tiles(g->sorter);
}

} // namespace

extern "C" void msi_gather_free(msi_gather *g)
{
    if (!g) return;
    restore_fetch_limit(g);
    msi_wproj_points_sorter_free(g->sorter);
    cudaFree(g->next_item);
    delete g;
}

extern "C" int msi_gather_create(msi_gather **out, const msi_gpu_stream *gpu, const msi_wproj_job *job,
                                 msi_gather_form form)
{
    *out = nullptr;
    msi_gather *g = new msi_gather{};
    g->gpu = *gpu;
    int status = fill_gather(g, job, form);
    if (status != MSI_OK) {
        msi_gather_free(g);
        return status;
    }
    *out = g;
    return MSI_OK;
}

extern "C" msi_gather_form msi_gather_form_of(const msi_gather *g)
{
    return g->form;
}

extern "C" int msi_gather_sort(msi_gather *g, const msi_wproj_job *job)
{
    if (g->form == MSI_GATHER_GIVEN || job->n_vis == 0) return MSI_OK;
    if (g->form == MSI_GATHER_STRIP)
        return msi_wproj_points_sort_strips(g->sorter, job, &g->strips, STRIP_ITEM, &g->placed);
    if (g->form != MSI_GATHER_TILE) return msi_wproj_points_sort_places(g->sorter, job, STRIP_ITEM, &g->placed);
    MSI_TRY(msi_wproj_points_sort(g->sorter, job, 1, &g->sorted));
    const int most = job->precision == MSI_FP32 ? CHUNK<float> : CHUNK<double>;
    return msi_wproj_points_list_items(g->sorter, &g->sorted, most, &g->item, &g->n_item);
}

template <typename T, int MOST> static int launch_tile_table(const msi_gather *g, const msi_wproj_job *job)
{
    using S = table_source<T>;
    tile_args<T> a;
    tile_boxes boxes;
    fill_tile_args(&a, g, job);
    describe_tiles<T>(&boxes, g, job);
    return launch_tiles<MOST, S>(a, typename S::shared{}, &boxes, g->n_block, (cudaStream_t)g->gpu.stream);
}

extern "C" int msi_gather_degrid(msi_gather *g, const msi_wproj_job *job)
{
    const gpu_range range("gather");
    if (job->n_vis == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&g->gpu));
    const bool fp32 = job->precision == MSI_FP32;
    if (g->form == MSI_GATHER_TILE)
        return fp32 ? launch_tile_table<float, 6>(g, job) : launch_tile_table<double, 4>(g, job);
    /* Strips are copied 16 bytes at a time. The other forms cannot use an order by strip, and use the given order. */
    if (g->form == MSI_GATHER_STRIP && (uintptr_t)job->grid % 16 == 0) return launch_strips(g, job);
    return fp32 ? launch_direct<float>(g, job) : launch_direct<double>(g, job);
}
