/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"

#include <algorithm>
#include <vector>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/window/wproj_window_cuda.h"

struct msi_window_gridder {
    msi_gpu_stream gpu;
    msi_window_order *order;
    msi_wkernel_mirror mirror;
    msi_wproj_kernels kernels; /* the mirror's and textures; max_taps and operands are set for each launch */
    cudaArray_t array[2];      /* arrays of the textures */
    msi_precision precision;
    int n_image;
    int64_t n_expected;
    cudaEvent_t begin, end;
    char device[256];
    /* [direction][class] */
    msi_window_shape shape[2][MSI_WINDOW_MAX_CLASS]; /* n_vis 0: not chosen yet */
    bool is_measured[2][MSI_WINDOW_MAX_CLASS];       /* measured as far as n_expected samples allow */
    /* [class], for degridding */
    msi_window_operands *operands[MSI_WINDOW_MAX_CLASS];
    bool has_asked[MSI_WINDOW_MAX_CLASS]; /* operands were requested; they may be NULL nevertheless */
};

namespace {

/*
 * Measuring may take a twentieth of the time for the expected samples. A timing is the better of RUNS runs on some of
 * the samples, and a shape takes on average SLOWER times as long as the best one. Fewer than LEAST_TIMINGS timings are
 * not useful. Fewer samples than LEAST_MEASURED do not fill a GPU, and more than MOST_MEASURED do not improve the
 * result.
 */
constexpr int RUNS = 2, LEAST_TIMINGS = 4;
constexpr double MOST_PART = 0.05, SLOWER = 1.25;
constexpr int64_t LEAST_MEASURED = 1 << 18, MOST_MEASURED = 1 << 21;

/*
 * Make a texture. A row has the kernel of one plane as a function of the distance from the sample, with the sub-offsets
 * of all taps in ascending order.
 */
int make_texture(const msi_wkernel_set *k, const msi_c32 *table, const int64_t *offset, cudaStream_t stream,
                 cudaArray_t *array, uint64_t *texture)
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
    MSI_CUDA(cudaMemcpy2DToArrayAsync(*array, 0, 0, row.data(), pitch, pitch, (size_t)k->n_plane,
                                      cudaMemcpyHostToDevice, stream));
    MSI_CUDA(cudaStreamSynchronize(stream));
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
    cudaStream_t stream = (cudaStream_t)g->gpu.stream;
    MSI_CUDA(cudaMemcpyAsync(table.data(), k->table, table.size() * sizeof table[0], cudaMemcpyDefault, stream));
    MSI_TRY(msi_gpu_stream_wait(&g->gpu));
    MSI_TRY(make_texture(k, table.data(), k->offset_u, stream, &g->array[0], &g->kernels.texture_u));
    MSI_TRY(make_texture(k, table.data(), k->offset_v, stream, &g->array[1], &g->kernels.texture_v));
    g->kernels.lookup = MSI_WPROJ_TEXTURE;
    g->kernels.texture_middle = (float)((k->half_max + 1) * k->oversample);
    return MSI_OK;
}

int set_up(msi_window_gridder *g, const msi_window_gridder_spec *spec)
{
    const msi_wproj_geometry *geometry = spec->geometry;
    const msi_wkernel_set *k = spec->kernels;
    cudaDeviceProp about;
    MSI_TRY(msi_gpu_stream_enter(&g->gpu));
    MSI_CUDA(cudaGetDeviceProperties(&about, g->gpu.device));
    std::copy(about.name, about.name + sizeof g->device, g->device);
    MSI_CUDA(cudaEventCreate(&g->begin));
    MSI_CUDA(cudaEventCreate(&g->end));
    MSI_TRY(msi_wkernel_mirror_make(&g->mirror, &g->gpu, k, geometry->linear ? MSI_WPROJ_LINEAR : MSI_WPROJ_NEAREST));
    g->kernels = g->mirror.view;
    if (spec->textures) MSI_TRY(make_textures(g, k));
    return msi_window_order_create(&g->order, &g->gpu, spec->capacity, geometry, k->half, k->precision, g->n_image);
}

/* The measurement of shapes on a job. */
struct measurement {
    msi_window_gridder *g;
    msi_wproj_job job;
    int degrid;
    cudaStream_t stream; /* stream of g */
};

int launch(const msi_wproj_job *job, int degrid, const msi_window_shape *shape, cudaStream_t stream)
{
    return degrid ? msi_window_degrid_cuda(job, shape, stream) : msi_window_grid_cuda(job, shape, stream);
}

int measure(void *context, const msi_window_shape *shape, double *ms)
{
    const measurement *m = (const measurement *)context;
    float best = 0;
    for (int i = 0; i < RUNS; i++) {
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

/* Find the number of timings for n_expected samples, and the number of samples of each, at most n_vis. */
int64_t count_timings(int64_t n_expected, int64_t n_vis, int64_t *n_measured)
{
    const double paid = MOST_PART * (double)n_expected / (RUNS * SLOWER);
    *n_measured = std::min(n_vis, std::min(std::max((int64_t)(paid / LEAST_TIMINGS), LEAST_MEASURED), MOST_MEASURED));
    return *n_measured < LEAST_MEASURED ? 0 : (int64_t)(paid / (double)*n_measured);
}

/* Measure shapes with the job's samples. Gridding uses values of zero, which do not change the grid; if there is no
 * memory for them, nothing is measured. Degridding writes to the memory of the values. */
int measure_shapes(const measurement *of, const msi_window_case *problem, const msi_window_shape *candidate, int n,
                   int64_t n_timing, msi_window_shape *shape)
{
    measurement m = *of;
    const size_t bytes = (size_t)(m.job.n_vis * m.job.n_image * msi_complex_bytes(m.job.precision));
    void *zero = nullptr;
    if (!m.degrid && n_timing > 1) {
        if (cudaMallocAsync(&zero, bytes, m.stream) == cudaSuccess &&
            cudaMemsetAsync(zero, 0, bytes, m.stream) == cudaSuccess) {
            m.job.value = zero;
        } else {
            cudaGetLastError();
            n_timing = 0;
        }
    }
    const msi_window_trials trials = {candidate, n, n_timing, measure, &m, nullptr};
    int rc = msi_window_tuning_choose(shape, problem, &trials);
    if (zero) cudaFreeAsync(zero, m.stream);
    return rc;
}

/* Choose the shape for n_expected samples of a class. */
int choose_shape(msi_window_gridder *g, const msi_wproj_job *job, int degrid, int of_class, int64_t n_expected,
                 msi_window_shape *shape)
{
    msi_window_shape *known = &g->shape[degrid][of_class];
    bool *is_measured = &g->is_measured[degrid][of_class];
    measurement m = {g, *job, degrid, (cudaStream_t)g->gpu.stream};
    const int64_t n_timing = *is_measured ? 0 : count_timings(n_expected, job->n_vis, &m.job.n_vis);
    msi_window_shape candidate[MSI_WINDOW_MAX_SHAPES];
    const int n = degrid ? msi_window_degrid_shapes(job, candidate) : msi_window_grid_shapes(job, candidate);
    if (n == 0) return msi_error_set(MSI_EINTERNAL, "the window strategy has no form for %d images", job->n_image);
    /* A form may support one grid and not another. */
    if (!msi_window_tuning_is_candidate(known, candidate, n) || n_timing > 1) {
        const msi_window_case problem = {g->device,
                                         degrid,
                                         job->precision,
                                         job->n_image,
                                         job->kernels.full,
                                         job->kernels.lookup,
                                         job->kernels.max_taps};
        MSI_TRY(measure_shapes(&m, &problem, candidate, n, n_timing, known));
        *is_measured = *is_measured || n_timing > 1;
    }
    *shape = *known;
    return MSI_OK;
}

/* Get the operands of a class. The first call makes them. */
int operands_of(msi_window_gridder *g, const msi_wproj_job *job, int of_class, const msi_window_operands **operands)
{
    if (!g->has_asked[of_class]) MSI_TRY(msi_window_operands_create(&g->operands[of_class], job, g->gpu.stream));
    g->has_asked[of_class] = true;
    *operands = g->operands[of_class];
    return MSI_OK;
}

/* Grid or degrid the ordered samples, class by class. */
int run_classes(msi_window_gridder *g, const msi_window_ordered *ordered, const msi_wproj_grid *grid, int degrid)
{
    const gpu_range range(degrid ? "degrid by window" : "grid by window");
    MSI_TRY(msi_gpu_stream_enter(&g->gpu));
    const int64_t n_all = ordered->first[ordered->n_class];
    for (int c = 0; c < ordered->n_class; c++) {
        const int64_t first = ordered->first[c], n = ordered->first[c + 1] - first;
        if (n == 0) continue;
        msi_wproj_job job = {};
        job.precision = g->precision;
        job.n_image = g->n_image;
        job.nu = grid->nu;
        job.nv = grid->nv;
        job.n_vis = n;
        job.sample = ordered->sample + first;
        job.value = (char *)ordered->value + first * g->n_image * msi_complex_bytes(g->precision);
        job.grid = grid->cells;
        job.kernels = g->kernels;
        job.kernels.max_taps = ordered->taps[c];
        if (degrid) MSI_TRY(operands_of(g, &job, c, &job.kernels.operands));
        /* Assume that the class has the same part of the remaining samples as of this slice. */
        const double part = (double)n / (double)n_all;
        msi_window_shape shape;
        MSI_TRY(choose_shape(g, &job, degrid, c, (int64_t)(part * (double)g->n_expected), &shape));
        MSI_TRY(launch(&job, degrid, &shape, (cudaStream_t)g->gpu.stream));
    }
    return MSI_OK;
}

} // namespace

extern "C" int msi_window_gridder_create(msi_window_gridder **out, const msi_gpu_stream *gpu,
                                         const msi_window_gridder_spec *spec)
{
    const bool linear = spec->geometry->linear;
    *out = nullptr;
    if ((linear && spec->kernels->form == MSI_WKERNEL_FULL) ||
        (spec->textures && (!linear || spec->kernels->precision != MSI_FP32)))
        return msi_error_set(MSI_ERANGE,
                             "the window strategy interpolates separable kernels alone, by textures in fp32 alone");
    msi_window_gridder *g = new msi_window_gridder{};
    g->gpu = *gpu;
    g->precision = spec->kernels->precision;
    g->n_image = spec->n_image;
    g->n_expected = spec->n_expected;
    int rc = set_up(g, spec);
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
    for (msi_window_operands *o : g->operands) msi_window_operands_free(o);
    for (uint64_t texture : {g->kernels.texture_u, g->kernels.texture_v})
        if (texture) cudaDestroyTextureObject(texture);
    for (cudaArray_t array : g->array) cudaFreeArray(array);
    for (cudaEvent_t e : {g->begin, g->end})
        if (e) cudaEventDestroy(e);
    delete g;
}

extern "C" int msi_window_gridder_add(msi_window_gridder *g, const msi_window_block *block, const int32_t *image_plane,
                                      int32_t slice, const msi_wproj_grid *grid)
{
    msi_window_ordered ordered;
    MSI_TRY(msi_window_order_take(g->order, block, image_plane, slice, &ordered));
    return run_classes(g, &ordered, grid, 0);
}

extern "C" int msi_window_gridder_predict(msi_window_gridder *g, const msi_window_block *block, int32_t slice,
                                          const msi_wproj_grid *grid)
{
    msi_window_ordered ordered;
    MSI_TRY(msi_window_order_take(g->order, block, nullptr, slice, &ordered));
    MSI_TRY(run_classes(g, &ordered, grid, 1));
    return msi_window_order_give(g->order, block, slice);
}
