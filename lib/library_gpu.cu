/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The library's work on a GPU: first the stream of an object and its copies, then pixels, then samples. Each thread of
 * a kernel processes pixels or samples of the caller's arrays. Arrays in host memory are copied through staging
 * buffers, samples in chunks of rows.
 */
#include "lib/library_gpu.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "core/process.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/plan_stream_cuda.h"
#include "lib/library_gridder.h"

/* The factors of a block's predicted visibilities. They are kept so that weights and mask are copied only once. */
struct kept_factor {
    buffer memory; /* [n_row][n_chan] in the caller's precision: the weight; 0 if weight or mask exclude the sample */
    const void *weight = nullptr, *mask = nullptr; /* the caller's arrays from which it was computed */
    int64_t block = 0;
    kept_factor *next = nullptr;
};

struct msi_library_gpu {
    enum { UVW, FREQ, VIS, WEIGHT, MASK, N_ARRAY };
    plan_stream on;
    int device = 0;
    cudaEvent_t before = nullptr; /* recorded on the caller's stream */
    staged_copy staging{on, staged_copy::MOST_SLOTS};
    buffer array[N_ARRAY], image, tally;
    int64_t n_block = 0;           /* number of blocks added */
    kept_factor *factor = nullptr; /* list, with the latest block first */

    ~msi_library_gpu()
    {
        on.leave();
        while (factor) free_factor(factor->block);
        if (before && cudaEventDestroy(before) != cudaSuccess) cudaGetLastError();
    }

    /* is_here - return whether kernels on this device can access the memory. */
    bool is_here(const void *at) const
    {
        cudaPointerAttributes a;
        if (cudaPointerGetAttributes(&a, at) == cudaSuccess)
            return a.type == cudaMemoryTypeManaged || (a.type == cudaMemoryTypeDevice && a.device == device);
        cudaGetLastError();
        return false;
    }

    /*
     * reach - find an array of the caller that kernels on the stream can read: the given array, or its copy in `copy`.
     * The copy is made on the stream. Other streams must wait for it. NULL gives NULL. Returns: 0, MSI_EGPU, MSI_ENOMEM
     */
    template <typename T> int reach(const T *given, int64_t bytes, buffer &copy, const T **at)
    {
        *at = given;
        if (!given || is_here(given)) return MSI_OK;
        MSI_TRY(copy.fit(bytes, "a copy of an array"));
        *at = as<T>(copy);
        MSI_TRY(staging.begin(bytes, given));
        MSI_TRY(staging.upload(as<char>(copy), reinterpret_cast<const char *>(given), bytes));
        return staging.push();
    }

    /* free_factor - free the first factors of the list if they belong to this block. */
    void free_factor(int64_t block)
    {
        kept_factor *last = factor;
        if (!last || last->block != block) return;
        factor = last->next;
        delete last;
    }

    /* wait_on_failure - after a failure, wait for queued work that uses the caller's arrays. Returns: rc */
    int wait_on_failure(int rc) const
    {
        if (rc && cudaStreamSynchronize(on.get()) != cudaSuccess) cudaGetLastError();
        return rc;
    }
};

int msi_library_gpu_create(msi_library_gpu **out, int device)
{
    *out = nullptr;
    msi_library_gpu *gpu = new (std::nothrow) msi_library_gpu;
    if (!gpu) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's stream");
    gpu->device = device;
    int rc = gpu->on.begin(device);
    if (!rc && cudaEventCreateWithFlags(&gpu->before, cudaEventDisableTiming) != cudaSuccess) {
        cudaGetLastError();
        rc = msi_error_set(MSI_EGPU, "GPU: cannot create an event");
    }
    if (rc)
        delete gpu;
    else
        *out = gpu;
    return rc;
}

void msi_library_gpu_free(msi_library_gpu *gpu)
{
    delete gpu;
}

int msi_library_gpu_enter(msi_library_gpu *gpu, void *stream)
{
    MSI_TRY(gpu->on.enter());
    if (cudaEventRecord(gpu->before, static_cast<cudaStream_t>(stream)) == cudaSuccess) {
        MSI_CUDA(cudaStreamWaitEvent(gpu->on.get(), gpu->before, 0));
        return MSI_OK;
    }
    /* The stream belongs to another device. */
    cudaGetLastError();
    MSI_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
    return MSI_OK;
}

int msi_library_gpu_device()
{
    int device;
    if (cudaGetDevice(&device) == cudaSuccess) return device;
    cudaGetLastError();
    return -1;
}

void msi_library_gpu_device_set(int device)
{
    if (device >= 0 && cudaSetDevice(device) != cudaSuccess) cudaGetLastError();
}

int msi_library_gpu_in(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(gpu->staging.begin(bytes, from));
    MSI_TRY(gpu->staging.upload(static_cast<char *>(to), static_cast<const char *>(from), bytes));
    return gpu->staging.flush();
}

int msi_library_gpu_out(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes)
{
    return gpu->staging.download(to, from, bytes);
}

/* ---- Pixels: as in library_gridder.c, on the GPU ---------------------------------------------------------------- */

namespace {

constexpr int PIXEL_THREADS = 256;

/* The geometry of a gridder's pixels. */
struct pixel_rule {
    int64_t nx, ny;
    double cell_x_rad, cell_y_rad, l_rad, m_rad;
    bool is_flat, divides, is_xy;

    /* Return n^2 = 1 - l^2 - m^2 at pixel i of a plane, which is positive inside the horizon; 1 if the horizon does not
     * matter (is_flat). */
    __device__ double inside(int64_t i) const
    {
        if (is_flat) return 1;
        const double l = l_rad + (double)(nx / 2 - i % nx) * cell_x_rad,
                     m = m_rad + (double)(i / nx - ny / 2) * cell_y_rad;
        return 1 - l * l - m * m;
    }
};

/* Sums over a model that are computed while it is converted. */
struct model_tally {
    double squares;
    uint32_t is_nan[MSI_GRIDDER_MAX_PLANES];
};

struct plane_sums {
    double of[MSI_GRIDDER_MAX_PLANES];
};

pixel_rule pixel_rule_of(const msimage_gridder *g)
{
    const msi_image_geometry &i = g->geometry;
    return {i.nx,
            i.ny,
            i.cell_x_rad,
            i.cell_y_rad,
            g->l_rad,
            g->m_rad,
            g->spec.ignores_w || msi_library_goes_beyond(g),
            (bool)g->spec.divides_by_n,
            (bool)g->is_xy};
}

template <typename R>
__global__ void __launch_bounds__(PIXEL_THREADS) k_squares(int64_t n, const R *model, model_tally *tally)
{
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * PIXEL_THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * PIXEL_THREADS) {
        const double value = model[i];
        sum += isfinite(value) ? value * value : 0;
    }
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&tally->squares, sum);
}

template <typename R, typename T>
__global__ void __launch_bounds__(PIXEL_THREADS)
    k_model(pixel_rule rule, const R *from, double scale, T *to, model_tally *tally)
{
    const int64_t i = (int64_t)blockIdx.x * PIXEL_THREADS + threadIdx.x, n = rule.nx * rule.ny, at = blockIdx.y * n + i;
    if (i >= n) return;
    const double n2 = rule.inside(i);
    double value = n2 > 0 ? (double)from[at] * scale : 0;
    if (!isfinite(value)) {
        tally->is_nan[blockIdx.y] = 1;
        value = 0;
    }
    to[at] = (T)(rule.divides && n2 > 0 ? value / sqrt(n2) : value);
}

template <typename R, typename T>
__global__ void __launch_bounds__(PIXEL_THREADS)
    k_pixels(pixel_rule rule, const T *from, const T *less, double scale, plane_sums sums, R *to)
{
    const int64_t i = (int64_t)blockIdx.x * PIXEL_THREADS + threadIdx.x, n = rule.nx * rule.ny, at = blockIdx.y * n + i;
    if (i >= n) return;
    const double factor = rule.is_xy ? sums.of[blockIdx.y] : 1, n2 = rule.inside(i);
    const T made = less ? from[at] - less[at] : from[at];
    const double value = (double)made / scale * factor;
    /* Gridders set pixels beyond the horizon to NaN. They may round a pixel at the horizon to the other side. */
    const bool is_void = rule.is_xy && (!(n2 > 0) || isnan(made) || factor == 0);
    to[at] = (R)(is_void ? 0 : rule.divides && n2 > 0 ? value / sqrt(n2) : value);
}

dim3 blocks_of(const msimage_gridder *g, int n_plane)
{
    const int64_t n = g->geometry.nx * g->geometry.ny;
    return dim3((unsigned)((n + PIXEL_THREADS - 1) / PIXEL_THREADS), (unsigned)n_plane);
}

int clear_tally(msi_library_gpu *gpu)
{
    MSI_TRY(gpu->tally.fit(sizeof(model_tally), "sums over a model"));
    return gpu->on.clear(as<model_tally>(gpu->tally), 1);
}

int64_t bytes_of(const msimage_gridder *g, int n_plane)
{
    return n_plane * g->geometry.nx * g->geometry.ny * (g->spec.precision == MSIMAGE_FP32 ? 4 : 8);
}

template <typename R> int squares_of(msimage_gridder *g, const void *model, double *squares)
{
    msi_library_gpu *gpu = g->gpu;
    model_tally tally;
    MSI_TRY(clear_tally(gpu));
    k_squares<<<1024, PIXEL_THREADS, 0, gpu->on.get()>>>(g->n_plane * g->geometry.nx * g->geometry.ny,
                                                         static_cast<const R *>(model), as<model_tally>(gpu->tally));
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(gpu->on.download(&tally, as<model_tally>(gpu->tally), 1));
    *squares = tally.squares;
    return MSI_OK;
}

template <typename R, typename T>
int model_of(msimage_gridder *g, const void *from, double scale, void *to, int *is_nan)
{
    msi_library_gpu *gpu = g->gpu;
    model_tally tally;
    MSI_TRY(clear_tally(gpu));
    k_model<<<blocks_of(g, g->n_plane), PIXEL_THREADS, 0, gpu->on.get()>>>(
        pixel_rule_of(g), static_cast<const R *>(from), scale, static_cast<T *>(to), as<model_tally>(gpu->tally));
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(gpu->on.download(&tally, as<model_tally>(gpu->tally), 1));
    for (int p = 0; p < g->n_plane; p++) is_nan[p] = (int)tally.is_nan[p];
    return MSI_OK;
}

template <typename R, typename T> int pixels_of(msimage_gridder *g, const msi_work_images *w, void *to)
{
    msi_library_gpu *gpu = g->gpu;
    const bool is_here = gpu->is_here(to);
    const int64_t bytes = bytes_of(g, w->n_plane);
    plane_sums sums = {};
    for (int p = 0; p < w->n_plane; p++) sums.of[p] = w->sum_weight[p];
    if (!is_here) MSI_TRY(gpu->image.fit(bytes, "a copy of an array"));
    R *out = is_here ? static_cast<R *>(to) : as<R>(gpu->image);
    k_pixels<<<blocks_of(g, w->n_plane), PIXEL_THREADS, 0, gpu->on.get()>>>(
        pixel_rule_of(g), static_cast<const T *>(w->from), static_cast<const T *>(w->less), w->scale, sums, out);
    MSI_CUDA(cudaGetLastError());
    return is_here ? gpu->on.wait() : msi_library_gpu_out(gpu, to, out, bytes);
}

} // namespace

int msi_library_gpu_reach(msimage_gridder *g, const void *images, const void **at)
{
    const char *there;
    MSI_TRY(g->gpu->reach(static_cast<const char *>(images), bytes_of(g, g->n_plane), g->gpu->image, &there));
    *at = there;
    return g->gpu->on.wait();
}

int msi_library_gpu_squares(msimage_gridder *g, const void *model, double *squares)
{
    return g->spec.precision == MSIMAGE_FP32 ? squares_of<float>(g, model, squares)
                                             : squares_of<double>(g, model, squares);
}

int msi_library_gpu_model(msimage_gridder *g, const void *from, double scale, void *to, int *is_nan)
{
    const bool to_fp32 = g->precision == MSI_FP32;
    if (g->spec.precision == MSIMAGE_FP32)
        return to_fp32 ? model_of<float, float>(g, from, scale, to, is_nan)
                       : model_of<float, double>(g, from, scale, to, is_nan);
    return to_fp32 ? model_of<double, float>(g, from, scale, to, is_nan)
                   : model_of<double, double>(g, from, scale, to, is_nan);
}

int msi_library_gpu_pixels(msimage_gridder *g, const msi_work_images *images, void *to)
{
    const bool from_fp32 = g->precision == MSI_FP32;
    if (g->spec.precision == MSIMAGE_FP32)
        return from_fp32 ? pixels_of<float, float>(g, images, to) : pixels_of<float, double>(g, images, to);
    return from_fp32 ? pixels_of<double, float>(g, images, to) : pixels_of<double, double>(g, images, to);
}

/* ---- Samples: as in library_samples.c, on the GPU --------------------------------------------------------------- */

/* With MSIMAGE_XY, samples beyond the image's uv plane must be moved by whole periods. Only the host does this, so it
 * processes all blocks with such samples. */

namespace {

constexpr int THREADS = 256, BLOCKS = 264;
/* Approximate size of a chunk in bytes. */
constexpr int64_t CHUNK_BYTES = 128 << 20;

/* How samples are converted from the caller's convention to that of the kernels. */
struct sample_rule {
    double scale, l_rad, m_rad, cell_x_rad, cell_y_rad;
    bool is_xy, ignores_w;
    bool folds; /* visibilities are multiplied by weights before they are stored */
    bool predicts;

    /* Compute the kernels' coordinates of a row, in metres. Return whether all are finite; otherwise they are set to
     * 0. */
    __device__ bool coordinates(const double *uvw, double *to) const
    {
        const double u = uvw[0] / scale, v = uvw[1] / scale, w = ignores_w ? 0 : uvw[2];
        const bool is_known = isfinite(u) && isfinite(v) && isfinite(uvw[2]);
        to[0] = is_known ? (is_xy ? v : u) : 0;
        to[1] = is_known ? (is_xy ? -u : v) : 0;
        to[2] = is_known ? w : 0;
        return is_known;
    }

    /* Return the cosine and sine of the phase that shifts a visibility to the image's centre. */
    __device__ double2 turn(const double *uvw, double freq_hz) const
    {
        if (l_rad == 0 && m_rad == 0) return {1, 0};
        const double turns = (uvw[0] * l_rad + uvw[1] * m_rad) * scale * freq_hz / MSI_SPEED_OF_LIGHT;
        double2 factor;
        sincospi(-2 * (turns - rint(turns)), &factor.y, &factor.x);
        return factor;
    }

    /* Return whether a sample is beyond the uv plane, or at its edge. */
    __device__ bool is_beyond(const double *uvw, double freq_hz) const
    {
        const double edge = 0.5 * (1 - 1e-12);
        return fabs(uvw[0] * freq_hz / MSI_SPEED_OF_LIGHT * cell_x_rad) > edge ||
               fabs(uvw[1] * freq_hz / MSI_SPEED_OF_LIGHT * cell_y_rad) > edge;
    }

    /* Find the highest frequency at which the kernels' store accepts the samples of a row. */
    __device__ double limit_hz(const double *uvw) const
    {
        const double u = fabs(uvw[0]) / MSI_SPEED_OF_LIGHT, v = fabs(uvw[1]) / MSI_SPEED_OF_LIGHT;
        return fmin(u > 0 ? 0.5 / cell_x_rad / u : (double)INFINITY, v > 0 ? 0.5 / cell_y_rad / v : (double)INFINITY);
    }
};

/* Return whether a weight is neither 0 nor NaN. */
__device__ bool weighs(double weight)
{
    return weight < 0 || weight > 0;
}

/* The arrays of a chunk of rows, in device memory. */
template <typename R> struct caller_rows {
    int64_t n_row;
    int32_t n_chan;
    const double *uvw_m, *freq_hz;
    const R *vis, *weight;
    const uint8_t *mask;

    __device__ double weight_of(int64_t i) const
    {
        return weight ? (double)weight[i] : 1;
    }
    __device__ bool is_masked(int64_t i) const
    {
        return mask && !mask[i];
    }
    /* Return the factor of a sample's prediction; 0: the sample is not used. */
    __device__ double factor_of(int64_t i) const
    {
        const double w = weight_of(i);
        return !is_masked(i) && weighs(w) ? w : 0;
    }
};

/* Totals over samples. */
struct sample_tally {
    int64_t n, n_left_out, n_beyond, n_unknown, n_bad;
    int64_t n_sample, n_outside;
    double w_min, w_max, wanted_w_min, wanted_w_max;
    double largest_jy, largest_given_weight, sum_weight, largest_weight, largest_stored_jy, largest_product;

    __host__ __device__ static sample_tally none()
    {
        sample_tally t = {};
        t.w_min = t.wanted_w_min = INFINITY;
        return t;
    }
    __host__ __device__ void add(const sample_tally &o)
    {
        n += o.n;
        n_left_out += o.n_left_out;
        n_beyond += o.n_beyond;
        n_unknown += o.n_unknown;
        n_bad += o.n_bad;
        n_sample += o.n_sample;
        n_outside += o.n_outside;
        w_min = fmin(w_min, o.w_min);
        w_max = fmax(w_max, o.w_max);
        wanted_w_min = fmin(wanted_w_min, o.wanted_w_min);
        wanted_w_max = fmax(wanted_w_max, o.wanted_w_max);
        largest_jy = fmax(largest_jy, o.largest_jy);
        largest_given_weight = fmax(largest_given_weight, o.largest_given_weight);
        sum_weight += o.sum_weight;
        largest_weight = fmax(largest_weight, o.largest_weight);
        largest_stored_jy = fmax(largest_stored_jy, o.largest_stored_jy);
        largest_product = fmax(largest_product, o.largest_product);
    }
};

/* The index of a sample, and the coordinates of its row in the kernels' convention. */
struct located {
    int64_t i;
    double uvw[3], freq_hz;
    bool is_known;
};

/* Convert a sample for an image: compute its weight and visibility for the store. */
template <typename R, typename T>
__device__ void take_value(const sample_rule &rule, const caller_rows<R> &from, const msi_gpu_samples &to,
                           const located &at, sample_tally *t)
{
    const int64_t i = at.i;
    const double weight = from.weight_of(i), re = from.vis ? (double)from.vis[2 * i] : 0,
                 im = from.vis ? (double)from.vis[2 * i + 1] : 0;
    const bool counts =
        at.is_known && !from.is_masked(i) && weighs(weight) && isfinite(weight) && isfinite(re) && isfinite(im);
    const double2 turned = rule.turn(at.uvw, at.freq_hz);
    const double factor = counts ? (rule.folds ? weight : 1) : 0;
    const T v[2] = {(T)(counts ? (re * turned.x - im * turned.y) * factor : 0),
                    (T)(counts ? (re * turned.y + im * turned.x) * factor : 0)};
    float kept = counts ? (rule.folds ? 1.0f : (float)weight) : 0;
    t->n += counts;
    t->n_left_out += !counts;
    t->n_bad += counts && !rule.folds && (weight < 0 || !isfinite((float)weight));
    t->largest_jy = fmax(t->largest_jy, fmax(fabs((double)v[0]), fabs((double)v[1])));
    if (counts) t->largest_given_weight = fmax(t->largest_given_weight, weight);
    t->n_beyond += counts && rule.is_xy && rule.is_beyond(at.uvw, at.freq_hz);
    if (!(kept > 0 && kept <= 3.402823466e38f)) kept = 0;
    if (kept > 0 && at.freq_hz > rule.limit_hz(at.uvw)) {
        t->n_outside++;
        kept = 0;
    }
    to.weight[i] = kept;
    static_cast<T *>(to.vis)[2 * i] = v[0];
    static_cast<T *>(to.vis)[2 * i + 1] = v[1];
    if (kept == 0) return;
    const double w = fabs(at.uvw[2]) / MSI_SPEED_OF_LIGHT * at.freq_hz,
                 jy = fmax(fabs((double)v[0]), fabs((double)v[1]));
    t->n_sample++;
    t->w_min = fmin(t->w_min, w);
    t->w_max = fmax(t->w_max, w);
    t->sum_weight += (double)kept;
    t->largest_weight = fmax(t->largest_weight, (double)kept);
    t->largest_stored_jy = fmax(t->largest_stored_jy, jy);
    t->largest_product = fmax(t->largest_product, (double)kept * jy);
}

/* Convert samples for the store. Returned: factor [n_row][n_chan] of predictions; may be NULL */
template <typename R, typename T>
__global__ void __launch_bounds__(THREADS)
    k_take(sample_rule rule, caller_rows<R> from, msi_gpu_samples to, R *factor, bool is_first, sample_tally *tally)
{
    const int64_t n = from.n_row * from.n_chan;
    sample_tally t = sample_tally::none();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)BLOCKS * THREADS) {
        const int64_t row = i / from.n_chan;
        const int32_t chan = (int32_t)(i - row * from.n_chan);
        located at = {i, {0, 0, 0}, from.freq_hz[chan], false};
        at.is_known = rule.coordinates(from.uvw_m + 3 * row, at.uvw);
        if (chan == 0) {
            for (int k = 0; k < 3; k++) to.uvw_m[3 * row + k] = at.uvw[k];
            t.n_unknown += !at.is_known;
        }
        if (!rule.predicts) {
            take_value<R, T>(rule, from, to, at, &t);
            continue;
        }
        const double w = fabs(at.uvw[2]) / MSI_SPEED_OF_LIGHT * at.freq_hz;
        const double multiplied = from.factor_of(i);
        const bool is_wanted = at.is_known && multiplied != 0;
        if (factor) factor[i] = (R)multiplied;
        t.n_sample++;
        t.w_min = fmin(t.w_min, w);
        t.w_max = fmax(t.w_max, w);
        t.n += is_wanted;
        t.n_left_out += !is_wanted;
        t.wanted_w_min = fmin(t.wanted_w_min, is_wanted ? w : (double)INFINITY);
        t.wanted_w_max = fmax(t.wanted_w_max, is_wanted ? w : 0);
    }
    sum_block<THREADS>(t, !is_first, tally);
}

/* Write predicted visibilities to the caller's array, with phases shifted back, weighted and masked. Given: from.uvw_m
 * NULL: all are finite */
template <typename R, typename T>
__global__ void __launch_bounds__(THREADS)
    k_give(sample_rule rule, caller_rows<R> from, msi_gpu_samples predicted, bool is_nan, R *out)
{
    const int64_t n = from.n_row * from.n_chan, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    const int64_t row = i / from.n_chan;
    const double factor = from.factor_of(i);
    double uvw[3], re = 0, im = 0;
    if (factor != 0) {
        re = im = NAN;
        if (!is_nan && (!from.uvw_m || rule.coordinates(from.uvw_m + 3 * row, uvw))) {
            const double2 turned = rule.turn(predicted.uvw_m + 3 * row, from.freq_hz[i - row * from.n_chan]);
            const T *v = static_cast<const T *>(predicted.vis) + 2 * i;
            re = ((double)v[0] * turned.x + (double)v[1] * turned.y) * factor;
            im = ((double)v[1] * turned.x - (double)v[0] * turned.y) * factor;
        }
    }
    out[2 * i] = (R)re;
    out[2 * i + 1] = (R)im;
}

sample_rule sample_rule_of(const msimage_gridder *g)
{
    const msimage_gridder_spec *s = &g->spec;
    return {g->scale,       g->l_rad,           g->m_rad,       g->geometry.cell_x_rad,    g->geometry.cell_y_rad,
            (bool)g->is_xy, (bool)s->ignores_w, (bool)g->folds, s->task == MSIMAGE_PREDICT};
}

/* Get rows [first, first + n_row) of the caller's samples in device memory. */
template <typename R>
int reach_rows(msi_library_gpu *gpu, const msimage_samples *s, int64_t first, int64_t n_row, caller_rows<R> *at)
{
    const int64_t n_chan = s->n_chan, i = first * n_chan, n = n_row * n_chan, real = sizeof(R);
    const double *uvw = s->uvw_m ? s->uvw_m + 3 * first : nullptr;
    const R *vis = s->vis ? static_cast<const R *>(s->vis) + 2 * i : nullptr,
            *weight = s->weight ? static_cast<const R *>(s->weight) + i : nullptr;
    buffer *copies = gpu->array;
    at->n_row = n_row;
    at->n_chan = s->n_chan;
    MSI_TRY(gpu->reach(uvw, n_row * 3 * (int64_t)sizeof(double), copies[msi_library_gpu::UVW], &at->uvw_m));
    MSI_TRY(gpu->reach(s->freq_hz, n_chan * (int64_t)sizeof(double), copies[msi_library_gpu::FREQ], &at->freq_hz));
    MSI_TRY(gpu->reach(vis, n * 2 * real, copies[msi_library_gpu::VIS], &at->vis));
    MSI_TRY(gpu->reach(weight, n * real, copies[msi_library_gpu::WEIGHT], &at->weight));
    return gpu->reach(s->mask ? s->mask + i : nullptr, n, copies[msi_library_gpu::MASK], &at->mask);
}

/* Return the number of rows of a chunk: all rows if no array must be copied. */
template <typename R> int64_t rows_at_once(const msi_library_gpu *gpu, const msimage_samples *s, const void *out)
{
    const int64_t n_chan = s->n_chan, real = sizeof(R);
    const struct {
        const void *array;
        int64_t row_bytes;
    } each[] = {{s->uvw_m, 3 * (int64_t)sizeof(double)},
                {s->vis, n_chan * 2 * real},
                {s->weight, n_chan * real},
                {s->mask, n_chan},
                {out, n_chan * 2 * real}};
    int64_t row_bytes = 0;
    for (const auto &e : each) row_bytes += e.array && !gpu->is_here(e.array) ? e.row_bytes : 0;
    return row_bytes ? std::min(s->n_row, CHUNK_BYTES / row_bytes + 1) : s->n_row;
}

/* Return the reserved samples from row `first` on. */
msi_gpu_samples rows_of(const msi_gpu_samples &all, int64_t first, int64_t n_row, int64_t complex_bytes)
{
    const int64_t i = first * all.n_chan;
    return {n_row, all.n_chan, all.uvw_m + 3 * first, all.weight ? all.weight + i : nullptr,
            static_cast<char *>(all.vis) + i * complex_bytes};
}

/* Return the factors of a block's predictions; NULL: they were not kept. */
const kept_factor *find_factor(const msi_library_gpu *gpu, const msimage_samples *s, int64_t block)
{
    const kept_factor *k = gpu->factor;
    while (k && k->block != block) k = k->next;
    return k && k->weight == s->weight && k->mask == s->mask ? k : nullptr;
}

/* Allocate memory in which a block's factors are kept, if its weights or mask must be copied to the device. If there is
 * too little memory, predictions copy the weights and the mask again. Returned: *out  NULL: factors are not kept */
template <typename R> void make_factor(msi_library_gpu *gpu, const msimage_samples *s, R **out)
{
    *out = nullptr;
    if ((!s->weight || gpu->is_here(s->weight)) && (!s->mask || gpu->is_here(s->mask))) return;
    kept_factor *k = new (std::nothrow) kept_factor;
    if (!k || k->memory.fit(s->n_row * s->n_chan * (int64_t)sizeof(R), "weights")) {
        delete k;
        return;
    }
    k->weight = s->weight;
    k->mask = s->mask;
    k->block = gpu->n_block;
    k->next = gpu->factor;
    gpu->factor = k;
    *out = as<R>(k->memory);
}

template <typename R, typename T>
int add_chunks(msimage_gridder *g, const msimage_samples *s, const msi_gpu_samples &samples, sample_tally *all)
{
    msi_library_gpu *gpu = g->gpu;
    const sample_rule rule = sample_rule_of(g);
    const int64_t most = rows_at_once<R>(gpu, s, nullptr);
    sample_tally part[BLOCKS];
    R *factor = nullptr;
    MSI_TRY(gpu->tally.fit(sizeof part, "sums over samples"));
    if (rule.predicts) make_factor(gpu, s, &factor);
    for (int64_t first = 0; first < s->n_row; first += most) {
        const int64_t n_row = std::min(most, s->n_row - first);
        caller_rows<R> from;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(reach_rows(gpu, s, first, n_row, &from));
        k_take<R, T><<<BLOCKS, THREADS, 0, gpu->on.get()>>>(rule, from, rows_of(samples, first, n_row, 2 * sizeof(T)),
                                                            factor ? factor + first * s->n_chan : nullptr, first == 0,
                                                            as<sample_tally>(gpu->tally));
        MSI_CUDA(cudaGetLastError());
    }
    MSI_TRY(gpu->on.download(part, as<sample_tally>(gpu->tally), BLOCKS));
    for (const sample_tally &t : part) all->add(t);
    return MSI_OK;
}

int add_any(msimage_gridder *g, const msimage_samples *s, const msi_gpu_samples &samples, sample_tally *all)
{
    const bool to_fp32 = g->precision == MSI_FP32;
    if (g->spec.precision == MSIMAGE_FP32)
        return to_fp32 ? add_chunks<float, float>(g, s, samples, all) : add_chunks<float, double>(g, s, samples, all);
    return to_fp32 ? add_chunks<double, float>(g, s, samples, all) : add_chunks<double, double>(g, s, samples, all);
}

/* Return whether samples fit: they may use a quarter of the free memory, because sorting them needs more. */
bool fits_in_memory(const msimage_gridder *g, const msimage_samples *s)
{
    size_t free_bytes, total_bytes;
    const int64_t each = msi_complex_bytes(g->precision) + (int64_t)sizeof(float);
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return s->n_row * (24 + s->n_chan * each) <= (int64_t)(free_bytes / 4);
}

/* Commit the reserved samples. If some must be processed by the host, discard all of them and set *is_taken to 0. */
int commit_samples(msimage_gridder *g, const sample_tally &t, int *is_taken)
{
    const msi_gpu_totals totals = {t.n_sample,       t.n_outside,         t.w_min,          t.w_max, t.sum_weight,
                                   t.largest_weight, t.largest_stored_jy, t.largest_product};
    if (t.n_beyond || t.n_bad) {
        msi_gridder_gpu_discard(g->inner);
        *is_taken = 0;
        return MSI_OK;
    }
    MSI_TRY(msi_gridder_gpu_commit(g->inner, &totals));
    g->samples.n += t.n;
    g->samples.n_left_out += t.n_left_out;
    g->samples.n_unknown += t.n_unknown;
    g->samples.largest_jy = std::max(g->samples.largest_jy, t.largest_jy);
    g->samples.largest_weight = std::max(g->samples.largest_weight, t.largest_given_weight);
    g->samples.w_min_lambda = std::min(g->samples.w_min_lambda, t.wanted_w_min);
    g->samples.w_max_lambda = std::max(g->samples.w_max_lambda, t.wanted_w_max);
    return MSI_OK;
}

template <typename R, typename T>
int write_predictions(msimage_gridder *g, const msimage_samples *s, const msi_gpu_samples &all, const kept_factor *kept,
                      void *vis)
{
    msi_library_gpu *gpu = g->gpu;
    const int64_t most = rows_at_once<R>(gpu, s, vis);
    const bool is_here = gpu->is_here(vis);
    for (int64_t first = 0; first < s->n_row; first += most) {
        const int64_t n_row = std::min(most, s->n_row - first), n = n_row * s->n_chan;
        R *to = static_cast<R *>(vis) + 2 * first * s->n_chan;
        caller_rows<R> from;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(reach_rows(gpu, s, first, n_row, &from));
        if (kept) from.weight = as<R>(kept->memory) + first * s->n_chan;
        if (!is_here) MSI_TRY(gpu->image.fit(2 * n * (int64_t)sizeof(R), "a copy of an array"));
        R *out = is_here ? to : as<R>(gpu->image);
        k_give<R, T><<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0, gpu->on.get()>>>(
            sample_rule_of(g), from, rows_of(all, first, n_row, 2 * sizeof(T)), g->is_nan[0] != 0, out);
        MSI_CUDA(cudaGetLastError());
        if (!is_here) MSI_TRY(msi_library_gpu_out(gpu, to, out, 2 * n * (int64_t)sizeof(R)));
    }
    return gpu->on.wait();
}

} // namespace

int msi_library_gpu_add(msimage_gridder *g, const msimage_samples *samples, int *is_taken)
{
    msi_gpu_samples reserved;
    msimage_samples s = *samples;
    if (g->spec.task == MSIMAGE_PREDICT) s.vis = nullptr;
    *is_taken = 0;
    if (!fits_in_memory(g, &s)) return MSI_OK;
    int rc = msi_gridder_gpu_reserve(g->inner, s.n_row, s.n_chan, s.freq_hz, &reserved);
    if (rc) return rc == MSI_EGPU ? MSI_OK : rc;
    *is_taken = 1;
    sample_tally all = sample_tally::none();
    rc = g->gpu->wait_on_failure(add_any(g, &s, reserved, &all));
    if (rc)
        msi_gridder_gpu_discard(g->inner);
    else
        rc = commit_samples(g, all, is_taken);
    if (rc || !*is_taken) g->gpu->free_factor(g->gpu->n_block);
    g->gpu->n_block += !rc && *is_taken;
    return rc;
}

int msi_library_gpu_fetch(msimage_gridder *g, const msimage_samples *samples, int64_t i, void *vis)
{
    msi_gpu_samples all;
    msimage_samples s = *samples;
    const bool to_fp32 = g->precision == MSI_FP32;
    if (!msi_gridder_gpu_samples(g->inner, i, &all) || all.n_row != s.n_row || all.n_chan != s.n_chan)
        return msi_error_set(MSI_EARGUMENT, "fetch: the next block added does not have %lld rows of %d channels",
                             (long long)s.n_row, s.n_chan);
    const kept_factor *kept = find_factor(g->gpu, &s, i);
    s.vis = nullptr;
    if (!g->samples.n_unknown) s.uvw_m = nullptr;
    if (kept) {
        s.weight = nullptr;
        s.mask = nullptr;
    }
    const auto write_any = g->spec.precision == MSIMAGE_FP32
                               ? (to_fp32 ? write_predictions<float, float> : write_predictions<float, double>)
                               : (to_fp32 ? write_predictions<double, float> : write_predictions<double, double>);
    return g->gpu->wait_on_failure(write_any(g, &s, all, kept, vis));
}
