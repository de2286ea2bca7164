/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/grid/wproj_window_gridder_cuda.h"

#include <algorithm>
#include <vector>

#include "kernels/convolution/wkernel_cuda.h"
#include "kernels/degrid/wproj_window_degrid_cuda.h"
#include "kernels/grid/cuda_check.h"
#include "kernels/prepare/window_tuning.h"

struct msi_window_gridder {
    msi_window_order *order;
    msi_wkernel_mirror mirror;
    msi_window_kernels kernels; /* the mirror's and textures; max_taps is set for each launch */
    cudaArray_t array[2];       /* textures' */
    msi_precision precision;
    int n_image, tuned;
    cudaEvent_t begin, end;
    char device[256];
    msi_window_shape shape[2][MSI_WINDOW_MAX_CLASS]; /* by direction and class; n_vis 0: not chosen yet */
};

namespace {

/* Samples below which a launch is too short to be measured, and as many as a measurement takes. */
constexpr int64_t LEAST_MEASURED = 1 << 16, MOST_MEASURED = 1 << 18;

int64_t element_bytes(msi_precision precision)
{
    return precision == MSI_FP32 ? (int64_t)sizeof(msi_c32) : (int64_t)sizeof(msi_c64);
}

/*
 * A plane's kernel as a function of the distance, one row of a texture: sub-offsets of all taps in between each other.
 */
int make_texture(const msi_wkernel_set *k, const msi_c32 *table, const int64_t *offset, cudaArray_t *array,
                 uint64_t *texture)
{
    const int64_t os = k->oversample, middle = (k->half_max + 1) * os, width = 2 * middle + 1;
    std::vector<msi_c32> row((size_t)(width * k->n_plane));
    for (int32_t p = 0; p < k->n_plane; p++)
        for (int32_t sub = -k->oversample / 2; sub <= k->oversample / 2; sub++)
            for (int32_t tap = -k->half[p]; tap <= k->half[p]; tap++)
                row[(size_t)(p * width + middle + tap * os - sub)] =
                    table[msi_wkernel_row(offset[p], k->half[p], k->oversample, sub) + tap + k->half[p]];
    const cudaChannelFormatDesc format = cudaCreateChannelDesc<float2>();
    const size_t pitch = (size_t)width * sizeof row[0];
    MSI_CUDA(cudaMallocArray(array, &format, (size_t)width, (size_t)k->n_plane));
    MSI_CUDA(cudaMemcpy2DToArray(*array, 0, 0, row.data(), pitch, pitch, (size_t)k->n_plane, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = *array;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    how.filterMode = cudaFilterModeLinear;
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t object;
    MSI_CUDA(cudaCreateTextureObject(&object, &resource, &how, nullptr));
    *texture = object;
    return MSI_OK;
}

int make_textures(msi_window_gridder *g, const msi_wkernel_set *k)
{
    std::vector<msi_c32> table((size_t)k->n_element);
    MSI_CUDA(cudaMemcpy(table.data(), k->table, table.size() * sizeof table[0], cudaMemcpyDefault));
    MSI_TRY(make_texture(k, table.data(), k->offset_u, &g->array[0], &g->kernels.texture_u));
    MSI_TRY(make_texture(k, table.data(), k->offset_v, &g->array[1], &g->kernels.texture_v));
    g->kernels.lookup = MSI_WINDOW_TEXTURE;
    g->kernels.texture_middle = (float)((k->half_max + 1) * k->oversample);
    return MSI_OK;
}

int set_up(msi_window_gridder *g, const msi_wproj_geometry *geometry, const msi_wkernel_set *k, int64_t capacity,
           int textures)
{
    int device;
    cudaDeviceProp about;
    MSI_CUDA(cudaGetDevice(&device));
    MSI_CUDA(cudaGetDeviceProperties(&about, device));
    std::copy(about.name, about.name + sizeof g->device, g->device);
    MSI_CUDA(cudaEventCreate(&g->begin));
    MSI_CUDA(cudaEventCreate(&g->end));
    MSI_TRY(msi_wkernel_mirror_make(&g->mirror, k, geometry->linear ? MSI_WINDOW_LINEAR : MSI_WINDOW_NEAREST));
    g->kernels = g->mirror.view;
    if (textures) MSI_TRY(make_textures(g, k));
    return msi_window_order_create(&g->order, capacity, geometry, k->half, k->precision, g->n_image);
}

/* What a shape is measured on. */
struct measurement {
    msi_window_gridder *g;
    msi_window_job job;
    int degrid;
    cudaStream_t stream;
};

int launch(const msi_window_job *job, int degrid, const msi_window_shape *shape, cudaStream_t stream)
{
    return degrid ? msi_window_degrid_cuda(job, shape, stream) : msi_window_grid_cuda(job, shape, stream);
}

int measure(void *context, const msi_window_shape *shape, double *ms)
{
    const measurement *m = (const measurement *)context;
    float best = 0;
    for (int i = 0; i < 3; i++) {
        float once;
        MSI_CUDA(cudaEventRecord(m->g->begin, m->stream));
        MSI_TRY(launch(&m->job, m->degrid, shape, m->stream));
        MSI_CUDA(cudaEventRecord(m->g->end, m->stream));
        MSI_CUDA(cudaEventSynchronize(m->g->end));
        MSI_CUDA(cudaEventElapsedTime(&once, m->g->begin, m->g->end));
        best = i == 0 ? once : std::min(best, once);
    }
    *ms = best;
    return MSI_OK;
}

/* Measures on the job's own samples: with values of zero, which leave the grid as it is, or into the room for what will
 * be degridded. */
int measure_shapes(const measurement *of, const msi_window_case *what, const msi_window_shape *candidate, int n,
                   msi_window_shape *shape)
{
    measurement m = *of;
    m.job.n_vis = std::min(m.job.n_vis, MOST_MEASURED);
    const size_t bytes = (size_t)(m.job.n_vis * m.job.n_image * element_bytes(m.job.precision));
    void *zero = nullptr;
    if (!m.degrid) {
        MSI_CUDA(cudaMallocAsync(&zero, bytes, m.stream));
        m.job.value = zero;
        cudaMemsetAsync(zero, 0, bytes, m.stream);
    }
    int rc = msi_window_tuning_choose(shape, what, candidate, n, measure, &m, nullptr);
    if (zero) cudaFreeAsync(zero, m.stream);
    return rc;
}

int choose_shape(msi_window_gridder *g, const msi_window_job *job, int degrid, int of_class, cudaStream_t stream,
                 msi_window_shape *shape)
{
    msi_window_shape *known = &g->shape[degrid][of_class];
    if (known->n_vis == 0) {
        msi_window_shape candidate[MSI_WINDOW_MAX_SHAPES];
        int n = degrid ? msi_window_degrid_shapes(job, candidate) : msi_window_grid_shapes(job, candidate);
        if (n == 0) return msi_error_set(MSI_EINTERNAL, "the window strategy has no form for %d images", job->n_image);
        const msi_window_case what = {g->device,
                                      degrid,
                                      job->precision,
                                      job->n_image,
                                      job->kernels.full,
                                      job->kernels.lookup,
                                      job->kernels.max_taps};
        if (!g->tuned || job->n_vis < LEAST_MEASURED) {
            *shape = msi_window_tuning_guess(&what, candidate, n);
            return MSI_OK;
        }
        const measurement m = {g, *job, degrid, stream};
        MSI_TRY(measure_shapes(&m, &what, candidate, n, known));
    }
    *shape = *known;
    return MSI_OK;
}

int run_classes(msi_window_gridder *g, const msi_window_ordered *ordered, const msi_window_grid *grid, int degrid,
                cudaStream_t stream)
{
    for (int c = 0; c < ordered->n_class; c++) {
        const int64_t first = ordered->first[c], n = ordered->first[c + 1] - first;
        if (n == 0) continue;
        msi_window_job job = {};
        job.precision = g->precision;
        job.n_image = g->n_image;
        job.nu = grid->nu;
        job.nv = grid->nv;
        job.n_vis = n;
        job.sample = ordered->sample + first;
        job.value = (char *)ordered->value + first * g->n_image * element_bytes(g->precision);
        job.grid = grid->cells;
        job.kernels = g->kernels;
        job.kernels.max_taps = ordered->taps[c];
        msi_window_shape shape;
        MSI_TRY(choose_shape(g, &job, degrid, c, stream, &shape));
        MSI_TRY(launch(&job, degrid, &shape, stream));
    }
    return MSI_OK;
}

} // namespace

extern "C" int msi_window_gridder_create(msi_window_gridder **out, const msi_wproj_geometry *geometry,
                                         const msi_wkernel_set *kernels, int n_image, int64_t capacity, int tuned,
                                         int textures)
{
    *out = nullptr;
    if ((geometry->linear && kernels->form == MSI_WKERNEL_FULL) ||
        (textures && (!geometry->linear || kernels->precision != MSI_FP32)))
        return msi_error_set(MSI_ERANGE,
                             "the window strategy interpolates separable kernels alone, by textures in fp32 alone");
    msi_window_gridder *g = new msi_window_gridder{};
    g->precision = kernels->precision;
    g->n_image = n_image;
    g->tuned = tuned;
    int rc = set_up(g, geometry, kernels, capacity, textures);
    if (rc)
        msi_window_gridder_free(g);
    else
        *out = g;
    return rc;
}

extern "C" void msi_window_gridder_free(msi_window_gridder *g)
{
    if (!g) return;
    msi_window_order_free(g->order);
    msi_wkernel_mirror_free(&g->mirror);
    for (uint64_t texture : {g->kernels.texture_u, g->kernels.texture_v})
        if (texture) cudaDestroyTextureObject(texture);
    for (cudaArray_t array : g->array) cudaFreeArray(array);
    for (cudaEvent_t e : {g->begin, g->end})
        if (e) cudaEventDestroy(e);
    delete g;
}

extern "C" int64_t msi_window_gridder_bytes(const msi_wkernel_set *k, int n_image, int64_t capacity)
{
    const int64_t plane = (int64_t)(sizeof(int32_t) + 2 * sizeof(int64_t));
    return (k->on_device ? 0 : k->n_element * element_bytes(k->precision)) + k->n_plane * plane +
           std::min(capacity, MOST_MEASURED) * n_image * element_bytes(k->precision) +
           msi_window_order_bytes(capacity, k->precision, n_image);
}

extern "C" int msi_window_gridder_add(msi_window_gridder *g, const msi_window_block *block, const int32_t *image_plane,
                                      int32_t slice, const msi_window_grid *grid, void *stream)
{
    msi_window_ordered ordered;
    MSI_TRY(msi_window_order_take(g->order, block, image_plane, slice, stream, &ordered));
    return run_classes(g, &ordered, grid, 0, (cudaStream_t)stream);
}

extern "C" int msi_window_gridder_predict(msi_window_gridder *g, const msi_window_block *block, int32_t slice,
                                          const msi_window_grid *grid, void *stream)
{
    msi_window_ordered ordered;
    MSI_TRY(msi_window_order_take(g->order, block, nullptr, slice, stream, &ordered));
    MSI_TRY(run_classes(g, &ordered, grid, 1, (cudaStream_t)stream));
    return msi_window_order_give(g->order, block, slice, stream);
}
