/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The strategy "tile" sorts samples into buckets and keeps tiles in registers. Thread blocks process runs of samples,
 * which they stage in shared memory (SDP memo "Vertical prototyping of the gridding algorithm", sections 2 and 3). A
 * warp has a tile of 16 x 16 cells, so a tile needs neither shared memory nor a barrier. wproj_tile_items.cuh divides
 * the work into items. wproj_tile_tensor.cuh and wproj_tile_fma.cuh grid them. This file makes the tables of kernels
 * and launches the CUDA kernels.
 */
#include "kernels/wproj/tile/wproj_tile_cuda.h"

#include <string.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <cub/device/device_scan.cuh>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/tile/wproj_tile_fma.cuh"
#include "kernels/wproj/tile/wproj_tile_tensor.cuh"

using namespace wproj_tile;

namespace {

constexpr uint32_t ITEM_SIZE = 2048;
constexpr double MOST_ODD = 1e-5; /* a kernel may differ from its mirror image by this part of its largest value */

/* A box of the unbounded plane whose first cell is (origin_u, origin_v), and the grid that it is folded onto. */
struct fold_shape {
    int64_t nu, nv, origin_u, origin_v, grid_nu, grid_nv;
};

/* Fold a box onto the padded grid. One thread computes one cell of the grid, and all cells are written. */
template <typename T> __global__ void k_fold(const __grid_constant__ fold_shape f, const cplx<T> *box, cplx<T> *grid)
{
    const int64_t u = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, v = blockIdx.y;
    if (u >= f.grid_nu) return;
    cplx<T> sum = {0, 0};
    for (int64_t row = msi_wproj_wrap(v - f.origin_v, f.grid_nv); row < f.nv; row += f.grid_nv)
        for (int64_t column = msi_wproj_wrap(u - f.origin_u, f.grid_nu); column < f.nu; column += f.grid_nu) {
            cplx<T> x = box[(blockIdx.z * f.nv + row) * f.nu + column];
            sum.re += x.re;
            sum.im += x.im;
        }
    grid[(blockIdx.z * f.grid_nv + v) * f.grid_nu + u] = sum;
}

/* Return the power of two that scales a table's largest value to TABLE_TOP or just below. */
float scale_for(float top)
{
    int exponent;
    std::frexp(top, &exponent);
    return std::ldexp(TABLE_TOP, -exponent);
}

/* Find the largest of |re| and |im|. The bits of positive floats are compared as integers. */
__global__ void k_largest(const float *table, int64_t n, uint32_t *largest)
{
    uint32_t top = 0;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.x * blockDim.x)
        top = max(top, __float_as_uint(fabsf(table[i])));
    top = __reduce_max_sync(~0u, top);
    if (threadIdx.x % 32 == 0) atomicMax(largest, top);
}

uint2 split(msi_c32 x, float scale)
{
    half2 high = __floats2half2_rn(scale * x.re, scale * x.im);
    float2 kept = __half22float2(high);
    half2 low = __floats2half2_rn(scale * x.re - kept.x, scale * x.im - kept.y);
    uint2 both;
    memcpy(&both.x, &high, sizeof both.x);
    memcpy(&both.y, &low, sizeof both.y);
    return both;
}

/* Split every row of taps, and put TILE - 1 zeros on both sides. Returns the index of tap -half of the first row. */
int64_t split_rows(const msi_wkernel_set *k, int32_t plane, int64_t offset, float scale, std::vector<uint2> *table)
{
    const int32_t half = k->half[plane], taps = msi_wkernel_taps(half);
    const int64_t first = (int64_t)table->size() + TILE - 1;
    for (int32_t sub = -(k->oversample / 2); sub <= k->oversample / 2; sub++) {
        const msi_c32 *row = static_cast<const msi_c32 *>(k->table) + msi_wkernel_row(offset, half, k->oversample, sub);
        table->resize(table->size() + TILE - 1);
        for (int32_t i = 0; i < taps; i++) table->push_back(split(row[i], scale));
        table->resize(table->size() + TILE - 1);
    }
    return first;
}

/* Split the tables of all planes. The table begins with TILE zeros, which missing samples use. */
void split_tables(const msi_wkernel_set *k, std::vector<plane_kernel> *planes, std::vector<uint2> *table, float *scale)
{
    const msi_c32 *from = static_cast<const msi_c32 *>(k->table);
    float top = 0;
    for (int64_t i = 0; i < k->n_element; i++) top = std::max({top, std::fabs(from[i].re), std::fabs(from[i].im)});
    *scale = scale_for(top);
    table->resize(TILE);
    for (int32_t p = 0; p < k->n_plane; p++) {
        int64_t u = split_rows(k, p, k->offset_u[p], *scale, table), v = u;
        if (k->offset_v[p] != k->offset_u[p]) v = split_rows(k, p, k->offset_v[p], *scale, table);
        planes->push_back({k->half[p], (int32_t)u, (int32_t)v});
    }
}

/* Find the largest difference between a full plane's outermost square and its mirror image, and the largest value. */
template <typename C>
int measure_evenness(const msi_wkernel_set *k, int32_t p, cudaStream_t stream, double *difference, double *top)
{
    const int32_t half = k->half[p], os = k->oversample, middle = os / 2;
    const int64_t taps = msi_wkernel_taps(half), n = taps * taps;
    const C *table = static_cast<const C *>(k->table);
    std::vector<C> low((size_t)n), high((size_t)n);
    MSI_CUDA(cudaMemcpyAsync(low.data(), table + msi_wkernel_square(k->offset_u[p], half, os, -middle, -middle),
                             (size_t)n * sizeof(C), cudaMemcpyDefault, stream));
    MSI_CUDA(cudaMemcpyAsync(high.data(), table + msi_wkernel_square(k->offset_u[p], half, os, middle, middle),
                             (size_t)n * sizeof(C), cudaMemcpyDefault, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    for (int64_t i = 0; i < n; i++) {
        C a = low[(size_t)i], b = high[(size_t)(n - 1 - i)];
        *difference =
            std::max<double>({*difference, std::fabs((double)(a.re - b.re)), std::fabs((double)(a.im - b.im))});
        *top = std::max<double>({*top, std::fabs((double)a.re), std::fabs((double)a.im)});
    }
    return MSI_OK;
}

/* Copy the squares of sub-offsets 0 and above. These are sufficient for an even kernel. */
template <typename C> int fold_squares(const msi_wkernel_set *k, C *folded, cudaStream_t stream)
{
    const int32_t os = k->oversample, middle = os / 2;
    double difference = 0, top = 0;
    for (int32_t p = 0; p < k->n_plane; p++) {
        const int64_t taps = msi_wkernel_taps(k->half[p]), row = (middle + 1) * taps * taps;
        MSI_TRY(measure_evenness<C>(k, p, stream, &difference, &top));
        const C *from = static_cast<const C *>(k->table) + msi_wkernel_square(k->offset_u[p], k->half[p], os, 0, 0);
        MSI_CUDA(cudaMemcpy2DAsync(folded, (size_t)row * sizeof(C), from, (size_t)((os + 1) * taps * taps) * sizeof(C),
                                   (size_t)row * sizeof(C), (size_t)middle + 1, cudaMemcpyDefault, stream));
        folded += (middle + 1) * row;
    }
    if (difference > MOST_ODD * top)
        return msi_error_set(MSI_EINTERNAL, "GPU: convolution kernels are not even; they differ by %g of %g",
                             difference, top);
    return MSI_OK;
}

/* Return whether tables are split for the tensor cores when they are made. Values that are interpolated must be split
 * after the interpolation. */
bool is_split(const msi_wproj_tile_spec *s, msi_wproj_tile_form form)
{
    return form == MSI_WPROJ_TILE_TENSOR && !s->linear;
}

int64_t table_elements(const msi_wproj_tile_spec *s, msi_wproj_tile_form form)
{
    const msi_wkernel_set *k = s->kernels;
    int64_t n = 0, squares = (int64_t)(k->oversample / 2 + 1) * (k->oversample / 2 + 1);
    for (int32_t p = 0; p < k->n_plane; p++) {
        int64_t taps = msi_wkernel_taps(k->half[p]), axes = k->offset_u[p] == k->offset_v[p] ? 1 : 2;
        if (k->form == MSI_WKERNEL_FULL)
            n += squares * taps * taps;
        else if (is_split(s, form))
            n += axes * (k->oversample + 1) * (taps + 2 * (TILE - 1));
    }
    if (k->form == MSI_WKERNEL_FULL) return n;
    return is_split(s, form) ? n + TILE : k->n_element;
}

msi_wproj_tile_form choose(const msi_wproj_tile_spec *s)
{
    bool serves = s->kernels->form == MSI_WKERNEL_SEPARABLE && s->kernels->precision == MSI_FP32;
    if (s->form == MSI_WPROJ_TILE_AUTO) return serves ? MSI_WPROJ_TILE_TENSOR : MSI_WPROJ_TILE_FMA;
    return s->form;
}

} // namespace

struct msi_wproj_tile {
    msi_gpu_stream gpu;
    msi_wproj_tile_form form;
    msi_precision precision;
    bool full, linear;
    int32_t nu, nv, n_sm;
    uint32_t item_size;
    plane_kernel *planes;
    void *table;
    float table_scale;
    int32_t middle;
    uint32_t *n_item, *item_end, *next_item;
    item *items;
    int64_t item_capacity, count_capacity;
    void *scan_space;
    size_t scan_bytes;
};

static int upload_planes(msi_wproj_tile *t, const std::vector<plane_kernel> &planes)
{
    MSI_TRY(allocate(&t->planes, (int64_t)planes.size(), "convolution kernels"));
    MSI_CUDA(cudaMemcpyAsync(t->planes, planes.data(), planes.size() * sizeof planes[0], cudaMemcpyHostToDevice,
                             (cudaStream_t)t->gpu.stream));
    return MSI_OK;
}

/* Copy a table from host or device memory. */
static int copy_table(msi_wproj_tile *t, const void *from, int64_t bytes)
{
    char *table;
    MSI_TRY(allocate(&table, bytes, "convolution kernels"));
    t->table = table;
    MSI_CUDA(cudaMemcpyAsync(table, from, (size_t)bytes, cudaMemcpyDefault, (cudaStream_t)t->gpu.stream));
    /* The source may be the caller's local memory. */
    return msi_gpu_stream_wait(&t->gpu);
}

static int make_split(msi_wproj_tile *t, const msi_wkernel_set *k)
{
    std::vector<plane_kernel> planes;
    std::vector<uint2> table;
    std::vector<msi_c32> here((size_t)k->n_element);
    MSI_CUDA(cudaMemcpyAsync(here.data(), k->table, here.size() * sizeof here[0], cudaMemcpyDefault,
                             (cudaStream_t)t->gpu.stream));
    MSI_TRY(msi_gpu_stream_wait(&t->gpu));
    msi_wkernel_set on_host = *k;
    on_host.table = here.data();
    split_tables(&on_host, &planes, &table, &t->table_scale);
    MSI_TRY(upload_planes(t, planes));
    return copy_table(t, table.data(), (int64_t)(table.size() * sizeof table[0]));
}

template <typename C> static int make_folded(msi_wproj_tile *t, const msi_wkernel_set *k)
{
    const int64_t squares = (int64_t)(k->oversample / 2 + 1) * (k->oversample / 2 + 1);
    std::vector<plane_kernel> planes;
    int64_t n = 0;
    for (int32_t p = 0; p < k->n_plane; p++) {
        planes.push_back({k->half[p], (int32_t)n, (int32_t)n});
        n += squares * msi_wkernel_taps(k->half[p]) * msi_wkernel_taps(k->half[p]);
    }
    C *table;
    MSI_TRY(allocate(&table, n, "convolution kernels"));
    t->table = table;
    MSI_TRY(upload_planes(t, planes));
    MSI_TRY(fold_squares(k, table, (cudaStream_t)t->gpu.stream));
    return msi_gpu_stream_wait(&t->gpu);
}

/* Find the scale of an unsplit table on the device. */
static int find_scale(msi_wproj_tile *t, int64_t n_element)
{
    uint32_t *largest = t->next_item, bits; /* no item has been processed yet */
    float top;
    cudaStream_t stream = (cudaStream_t)t->gpu.stream;
    MSI_CUDA(cudaMemsetAsync(largest, 0, sizeof *largest, stream));
    k_largest<<<1024, 256, 0, stream>>>(static_cast<const float *>(t->table), 2 * n_element, largest);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(&bits, largest, sizeof bits, cudaMemcpyDeviceToHost, stream));
    MSI_TRY(msi_gpu_stream_wait(&t->gpu));
    memcpy(&top, &bits, sizeof top);
    t->table_scale = scale_for(top);
    return MSI_OK;
}

static int make_table(msi_wproj_tile *t, const msi_wkernel_set *k)
{
    if (t->form == MSI_WPROJ_TILE_TENSOR && !t->linear) return make_split(t, k);
    if (t->full) return t->precision == MSI_FP32 ? make_folded<msi_c32>(t, k) : make_folded<msi_c64>(t, k);
    std::vector<plane_kernel> planes;
    for (int32_t p = 0; p < k->n_plane; p++)
        planes.push_back({k->half[p], (int32_t)k->offset_u[p], (int32_t)k->offset_v[p]});
    MSI_TRY(upload_planes(t, planes));
    return copy_table(t, k->table, k->n_element * msi_complex_bytes(t->precision));
}

static int make(msi_wproj_tile *t, const msi_wproj_tile_spec *s)
{
    const msi_wkernel_set *k = s->kernels;
    t->form = choose(s);
    t->precision = k->precision;
    t->full = k->form == MSI_WKERNEL_FULL;
    t->linear = s->linear;
    t->nu = s->nu;
    t->nv = s->nv;
    t->middle = k->oversample / 2;
    t->item_size = s->item_size > 0 ? (uint32_t)s->item_size : ITEM_SIZE;
    if (s->nu % TILE || s->nv % TILE || (t->form == MSI_WPROJ_TILE_TENSOR && (t->full || t->precision != MSI_FP32)))
        return msi_error_set(MSI_EINTERNAL,
                             "GPU: tiles of %d do not make a box of %d x %d, or kernels are of a form that this "
                             "gridder does not take",
                             TILE, s->nu, s->nv);
    if (table_elements(s, t->form) > INT32_MAX)
        return msi_error_set(MSI_ERANGE, "GPU: convolution kernels have %lld values; at most 2^31 can be numbered",
                             (long long)table_elements(s, t->form));
    MSI_TRY(msi_gpu_stream_enter(&t->gpu));
    MSI_TRY(allocate(&t->next_item, 1, "counters"));
    MSI_TRY(make_table(t, k));
    if (t->form == MSI_WPROJ_TILE_TENSOR && t->linear) MSI_TRY(find_scale(t, k->n_element));
    MSI_CUDA(cudaDeviceGetAttribute(&t->n_sm, cudaDevAttrMultiProcessorCount, t->gpu.device));
    return MSI_OK;
}

extern "C" int msi_wproj_tile_create(msi_wproj_tile **out, const msi_gpu_stream *gpu, const msi_wproj_tile_spec *spec)
{
    msi_wproj_tile *t = new msi_wproj_tile{};
    t->gpu = *gpu;
    int status = make(t, spec);
    *out = status == MSI_OK ? t : nullptr;
    if (status != MSI_OK) msi_wproj_tile_free(t);
    return status;
}

extern "C" void msi_wproj_tile_free(msi_wproj_tile *t)
{
    if (!t) return;
    for (void *p : {(void *)t->planes, t->table, (void *)t->n_item, (void *)t->item_end, (void *)t->next_item,
                    (void *)t->items, t->scan_space})
        cudaFree(p);
    delete t;
}

extern "C" msi_wproj_tile_form msi_wproj_tile_form_of(const msi_wproj_tile *t)
{
    return t->form;
}

/* Allocate memory for the item counts of n lists, if it is not large enough. */
static int fit_counts(msi_wproj_tile *t, int64_t n)
{
    if (n <= t->count_capacity) return MSI_OK;
    cudaFree(t->n_item);
    cudaFree(t->item_end);
    cudaFree(t->scan_space);
    t->n_item = t->item_end = nullptr;
    t->scan_space = nullptr;
    t->count_capacity = 0;
    MSI_TRY(allocate(&t->n_item, n, "tiles"));
    MSI_TRY(allocate(&t->item_end, n, "tiles"));
    MSI_CUDA(cub::DeviceScan::InclusiveSum(nullptr, t->scan_bytes, t->n_item, t->item_end, n));
    MSI_TRY(allocate((char **)&t->scan_space, (int64_t)t->scan_bytes, "tiles"));
    t->count_capacity = n;
    return MSI_OK;
}

static int fit_items(msi_wproj_tile *t, int64_t n)
{
    if (n <= t->item_capacity) return MSI_OK;
    cudaFree(t->items);
    t->items = nullptr;
    t->item_capacity = 0;
    MSI_TRY(allocate(&t->items, n + n / 4, "work items"));
    t->item_capacity = n + n / 4;
    return MSI_OK;
}

/* Divide the tiles' samples into items. */
static int make_items(msi_wproj_tile *t, tile_view *view)
{
    cudaStream_t stream = (cudaStream_t)t->gpu.stream;
    const int64_t n_list = (int64_t)view->n_tile * 2 * view->sorted.bins.n_class;
    const unsigned blocks = (unsigned)((n_list + 255) / 256);
    MSI_TRY(fit_counts(t, n_list));
    k_count_items<<<blocks, 256, 0, stream>>>(*view, t->n_item);
    MSI_CUDA(cudaGetLastError());
    size_t bytes = t->scan_bytes;
    MSI_CUDA(cub::DeviceScan::InclusiveSum(t->scan_space, bytes, t->n_item, t->item_end, n_list, stream));
    MSI_CUDA(
        cudaMemcpyAsync(&view->n_item, t->item_end + n_list - 1, sizeof view->n_item, cudaMemcpyDeviceToHost, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
    MSI_TRY(fit_items(t, view->n_item));
    view->items = t->items;
    k_make_items<<<blocks, 256, 0, stream>>>(*view, t->n_item, t->item_end, t->items);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Launch as many blocks as the device can run at once. They process items until there are none left. */
template <typename TABLE>
static int launch(msi_wproj_tile *t, void (*kernel)(tile_view, TABLE, int), const tile_view &view, const TABLE &table,
                  int first_image)
{
    cudaStream_t stream = (cudaStream_t)t->gpu.stream;
    int per_sm;
    MSI_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, 32 * WARPS, 0));
    MSI_CUDA(cudaMemsetAsync(t->next_item, 0, sizeof *t->next_item, stream));
    kernel<<<(unsigned)(t->n_sm * per_sm), 32 * WARPS, 0, stream>>>(view, table, first_image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Grid all images. A pass grids as many images as fit in registers. */
template <typename T, bool FULL, bool LINEAR> static int grid_images(msi_wproj_tile *t, const tile_view &view)
{
    const table_view table = {t->table, t->middle};
    for (int first = 0; first < view.sorted.n_image;) {
        const int left = view.sorted.n_image - first;
        if constexpr (sizeof(T) == sizeof(float))
            if (left >= 4) {
                MSI_TRY(launch(t, k_grid_fma<T, FULL, LINEAR, 4>, view, table, first));
                first += 4;
                continue;
            }
        if (left >= 2) {
            MSI_TRY(launch(t, k_grid_fma<T, FULL, LINEAR, 2>, view, table, first));
            first += 2;
        } else {
            MSI_TRY(launch(t, k_grid_fma<T, FULL, LINEAR, 1>, view, table, first));
            first += 1;
        }
    }
    return MSI_OK;
}

template <typename T> static int grid_fma(msi_wproj_tile *t, const tile_view &view)
{
    if (t->full) return t->linear ? grid_images<T, true, true>(t, view) : grid_images<T, true, false>(t, view);
    return t->linear ? grid_images<T, false, true>(t, view) : grid_images<T, false, false>(t, view);
}

extern "C" int msi_wproj_tile_grid(msi_wproj_tile *t, const msi_wproj_sorted *sorted, void *grid)
{
    const gpu_range range("grid tiles");
    if (sorted->precision != t->precision || (t->linear && !sorted->frac))
        return msi_error_set(MSI_EINTERNAL, "GPU: samples are not of the kernels' precision or interpolation");
    tile_view view = {};
    view.sorted = *sorted;
    view.nu = t->nu;
    view.n_tile_u = t->nu / TILE;
    view.n_tile = t->nu / TILE * (t->nv / TILE);
    view.n_cell = (int64_t)t->nu * t->nv;
    view.planes = t->planes;
    view.item_size = t->item_size;
    view.next_item = t->next_item;
    view.grid = grid;
    MSI_TRY(msi_gpu_stream_enter(&t->gpu));
    MSI_TRY(make_items(t, &view));
    if (view.n_item == 0) return MSI_OK;
    if (t->form == MSI_WPROJ_TILE_FMA)
        return t->precision == MSI_FP32 ? grid_fma<float>(t, view) : grid_fma<double>(t, view);
    const tensor_table table = {static_cast<const uint2 *>(t->table), t->table_scale, t->middle};
    for (int image = 0; image < sorted->n_image; image++)
        MSI_TRY(launch(t, t->linear ? k_grid_tensor<true> : k_grid_tensor<false>, view, table, image));
    return MSI_OK;
}

extern "C" int msi_wproj_tile_fold(const msi_wproj_tile *t, const void *box, int32_t n_image, int32_t origin_u,
                                   int32_t origin_v, const msi_wproj_grid *grid)
{
    const gpu_range range("fold box");
    cudaStream_t stream = (cudaStream_t)t->gpu.stream;
    if (n_image == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&t->gpu));
    const fold_shape f = {t->nu, t->nv, origin_u, origin_v, grid->nu, grid->nv};
    const dim3 blocks((unsigned)((grid->nu + 255) / 256), (unsigned)grid->nv, (unsigned)n_image);
    if (t->precision == MSI_FP32)
        k_fold<float><<<blocks, 256, 0, stream>>>(f, static_cast<const cplx<float> *>(box),
                                                  static_cast<cplx<float> *>(grid->cells));
    else
        k_fold<double><<<blocks, 256, 0, stream>>>(f, static_cast<const cplx<double> *>(box),
                                                   static_cast<cplx<double> *>(grid->cells));
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
