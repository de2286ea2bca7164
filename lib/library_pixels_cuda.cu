/* SPDX-License-Identifier: GPL-3.0-or-later */
/* library_pixels.c on the GPU. */
#include "lib/library_cuda.cuh"

namespace {

constexpr int THREADS = 256;

/* Describes a gridder's pixels. */
struct pixel_rule {
    int64_t nx, ny;
    double cell_x_rad, cell_y_rad, l_rad, m_rad;
    bool is_flat, divides, is_xy;

    /* 1 - l^2 - m^2 at pixel i of a plane; 1 where there is no horizon. */
    __device__ double inside(int64_t i) const
    {
        if (is_flat) return 1;
        const double l = l_rad + (double)(nx / 2 - i % nx) * cell_x_rad,
                     m = m_rad + (double)(i / nx - ny / 2) * cell_y_rad;
        return 1 - l * l - m * m;
    }
};

/* Gathers what is seen of a model on its way. */
struct model_tally {
    double squares;
    uint32_t is_nan[MSI_GRIDDER_MAX_PLANES];
};

struct plane_sums {
    double of[MSI_GRIDDER_MAX_PLANES];
};

pixel_rule rule_of(const msimage_gridder *g)
{
    const msi_image_geometry &i = g->geometry;
    return {i.nx,
            i.ny,
            i.cell_x_rad,
            i.cell_y_rad,
            g->l_rad,
            g->m_rad,
            (bool)g->spec.ignores_w,
            (bool)g->spec.divides_by_n,
            (bool)g->is_xy};
}

template <typename R>
__global__ void __launch_bounds__(THREADS) k_squares(int64_t n, const R *model, model_tally *tally)
{
    double sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS) {
        const double value = model[i];
        sum += isfinite(value) ? value * value : 0;
    }
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0) atomicAdd(&tally->squares, sum);
}

template <typename R, typename T>
__global__ void __launch_bounds__(THREADS)
    k_model(pixel_rule rule, const R *from, double scale, T *to, model_tally *tally)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = rule.nx * rule.ny, at = blockIdx.y * n + i;
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
__global__ void __launch_bounds__(THREADS)
    k_pixels(pixel_rule rule, const T *from, const T *less, double scale, plane_sums sums, R *to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, n = rule.nx * rule.ny, at = blockIdx.y * n + i;
    if (i >= n) return;
    const double factor = rule.is_xy ? sums.of[blockIdx.y] : 1, n2 = rule.inside(i);
    const T made = less ? from[at] - less[at] : from[at];
    const double value = (double)made / scale * factor;
    /* The kernels' own look at the horizon rounds otherwise: what they left out is NaN. */
    const bool is_void = rule.is_xy && (!(n2 > 0) || isnan(made) || factor == 0);
    to[at] = (R)(is_void ? 0 : rule.divides && n2 > 0 ? value / sqrt(n2) : value);
}

dim3 blocks_of(const msimage_gridder *g, int n_plane)
{
    const int64_t n = g->geometry.nx * g->geometry.ny;
    return dim3((unsigned)((n + THREADS - 1) / THREADS), (unsigned)n_plane);
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
    k_squares<<<1024, THREADS, 0, gpu->on.get()>>>(g->n_plane * g->geometry.nx * g->geometry.ny,
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
    k_model<<<blocks_of(g, g->n_plane), THREADS, 0, gpu->on.get()>>>(rule_of(g), static_cast<const R *>(from), scale,
                                                                     static_cast<T *>(to), as<model_tally>(gpu->tally));
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
    k_pixels<<<blocks_of(g, w->n_plane), THREADS, 0, gpu->on.get()>>>(
        rule_of(g), static_cast<const T *>(w->from), static_cast<const T *>(w->less), w->scale, sums, out);
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
