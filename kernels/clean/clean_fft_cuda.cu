/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Padded transforms of real images on the GPU, in place: a spectrum is [ny][nx / 2 + 1] complex numbers, and a row
 * holds 2 (nx / 2 + 1) real numbers. Kernels before and after the transforms have a thread for each pixel; their
 * accesses are coalesced. */
#include "core/memory.h"
#include "kernels/clean/clean_engine_cuda.h"
#include "kernels/transform/fft_plan_cuda.cuh"

struct msi_clean_fft {
    int64_t nx, ny, pitch; /* pitch: complex numbers of a row */
    cufftHandle forward, backward;
    bool has_forward, has_backward;
};

namespace {

constexpr int BLOCK = 256;

/* An image of nx x ny in a transform whose rows have `pitch` real numbers; pixel (dx, dy) is at its origin. */
struct layout {
    int64_t nx, ny, padded_x, padded_y, pitch, dx, dy;
};

__device__ __forceinline__ int64_t laid(const layout &l, int64_t x, int64_t y)
{
    const int64_t u = x >= l.dx ? x - l.dx : x - l.dx + l.padded_x;
    const int64_t v = y >= l.dy ? y - l.dy : y - l.dy + l.padded_y;
    return v * l.pitch + u;
}

template <typename T> __global__ void k_lay(layout l, const T *image, T *to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.nx * l.ny) return;
    const T value = image[i];
    to[laid(l, i % l.nx, i / l.nx)] = isfinite(value) ? value : T(0);
}

/* A list, and the cell whose components are taken; -1: all. */
struct listed {
    const uint32_t *list;
    int64_t n;
    msi_clean_cells cells;
    int cell;
};

template <typename T> __global__ void k_lay_list(layout l, listed from, const T *component, T *to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= from.n) return;
    const uint32_t place = from.list[i];
    if (from.cell >= 0 && msi_clean_cell_of(&from.cells, place) != from.cell) return;
    to[laid(l, msi_clean_x(place), msi_clean_y(place))] = component[i];
}

template <typename T> __global__ void k_gaussian(layout l, msi_clean_gaussian g, T *to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, u = i % l.padded_x, v = i / l.padded_x;
    if (v < l.padded_y) to[v * l.pitch + u] = (T)msi_clean_gaussian_at(&g, u, v, l.padded_x, l.padded_y);
}

__device__ __forceinline__ float fused(float a, float b, float c)
{
    return fmaf(a, b, c);
}
__device__ __forceinline__ double fused(double a, double b, double c)
{
    return fma(a, b, c);
}

template <typename T> __global__ void k_put(layout l, const T *from, T factor, int mode, T *image)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.nx * l.ny) return;
    image[i] = fused(mode == MSI_CLEAN_SUBTRACT ? -factor : factor, from[laid(l, i % l.nx, i / l.nx)],
                     mode == MSI_CLEAN_SET ? T(0) : image[i]);
}

template <typename C> __device__ __forceinline__ C times(C a, C b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}

template <typename C> __global__ void k_product(int64_t n, const C *a, const C *b, int twice, C *out)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const C z = times(a[i], b[i]);
    out[i] = twice ? times(z, b[i]) : z;
}

template <typename C> __global__ void k_spread(int64_t n, C *components, const C *kernel, const C *psf, C *model)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    C z = components[i];
    if (kernel) z = times(z, kernel[i]);
    if (model) model[i] = {model[i].x + z.x, model[i].y + z.y};
    components[i] = times(z, psf[i]);
}

layout layout_of(const msi_clean_engine *e, const msi_clean_fft *f, msi_clean_origin origin)
{
    const bool middle = origin == MSI_CLEAN_MIDDLE;
    return {e->s.nx, e->s.ny, f->nx, f->ny, 2 * f->pitch, middle ? e->s.nx / 2 : 0, middle ? e->s.ny / 2 : 0};
}

bool is_single(const msi_clean_engine *e)
{
    return e->s.precision == MSI_FP32;
}

template <typename T> int lay(msi_clean_engine *e, const layout &l, const void *image, int plane, void *spectrum)
{
    if (image)
        k_lay<T><<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(l, (const T *)image, (T *)spectrum);
    else
        k_lay_list<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            l, {e->list, e->n_list, e->s.cells, e->cell}, (const T *)e->component + plane * e->s.list_limit,
            (T *)spectrum);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Transform real rows to the spectrum. */
int transform(msi_clean_engine *e, msi_clean_fft *f, void *spectrum)
{
    if (is_single(e))
        MSI_CUFFT(cufftExecR2C(f->forward, (cufftReal *)spectrum, (cufftComplex *)spectrum));
    else
        MSI_CUFFT(cufftExecD2Z(f->forward, (cufftDoubleReal *)spectrum, (cufftDoubleComplex *)spectrum));
    return MSI_OK;
}

int make_plans(msi_clean_engine *e, msi_clean_fft *f)
{
    const int nx = (int)f->nx, ny = (int)f->ny;
    MSI_TRY(plan_fft([&] { return cufftPlan2d(&f->forward, ny, nx, is_single(e) ? CUFFT_R2C : CUFFT_D2Z); }));
    f->has_forward = true;
    MSI_CUFFT(cufftSetStream(f->forward, clean_stream(e)));
    MSI_TRY(plan_fft([&] { return cufftPlan2d(&f->backward, ny, nx, is_single(e) ? CUFFT_C2R : CUFFT_Z2D); }));
    f->has_backward = true;
    MSI_CUFFT(cufftSetStream(f->backward, clean_stream(e)));
    return MSI_OK;
}

} // namespace

int msi_clean_fft_create_cuda(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex)
{
    msi_clean_fft *f;
    *out = nullptr;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "FFT plan"));
    f->nx = nx;
    f->ny = ny;
    f->pitch = nx / 2 + 1;
    const int rc = make_plans(e, f);
    if (rc) {
        msi_clean_fft_free_cuda(e, f);
        return rc;
    }
    *n_complex = f->pitch * ny;
    *out = f;
    return MSI_OK;
}

void msi_clean_fft_free_cuda(msi_clean_engine *e, msi_clean_fft *f)
{
    if (!f) return;
    /* Free the memory even if the device cannot be made current. */
    (void)msi_gpu_stream_enter(&e->on);
    if (f->has_forward) cufftDestroy(f->forward);
    if (f->has_backward) cufftDestroy(f->backward);
    msi_free(f);
}

/* cuFFT needs work memory of at most a spectrum for each direction. */
int64_t msi_clean_fft_bytes_cuda(const msi_clean_setup *s, int64_t nx, int64_t ny)
{
    return 2 * (nx / 2 + 1) * ny * msi_complex_bytes(s->precision);
}

int msi_clean_forward_cuda(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                           void *spectrum)
{
    const layout l = layout_of(e, f, origin);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemsetAsync(spectrum, 0, (size_t)(l.pitch * f->ny * clean_real_bytes(e)), clean_stream(e)));
    MSI_TRY(is_single(e) ? lay<float>(e, l, image, plane, spectrum) : lay<double>(e, l, image, plane, spectrum));
    return transform(e, f, spectrum);
}

int msi_clean_gaussian_cuda(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum)
{
    const layout l = layout_of(e, f, MSI_CLEAN_CORNER);
    const unsigned n_block = clean_blocks(f->nx * f->ny, BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (is_single(e))
        k_gaussian<<<n_block, BLOCK, 0, clean_stream(e)>>>(l, *g, (float *)spectrum);
    else
        k_gaussian<<<n_block, BLOCK, 0, clean_stream(e)>>>(l, *g, (double *)spectrum);
    MSI_CUDA(cudaGetLastError());
    return transform(e, f, spectrum);
}

int msi_clean_product_cuda(msi_clean_engine *e, msi_clean_fft *f, const void *a, const void *b, int twice, void *out)
{
    const int64_t n = f->pitch * f->ny;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (is_single(e))
        k_product<<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>(n, (const float2 *)a, (const float2 *)b, twice,
                                                                         (float2 *)out);
    else
        k_product<<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>(n, (const double2 *)a, (const double2 *)b,
                                                                         twice, (double2 *)out);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_spread_cuda(msi_clean_engine *e, msi_clean_fft *f, void *components, const void *kernel, const void *psf,
                          void *model)
{
    const int64_t n = f->pitch * f->ny;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (is_single(e))
        k_spread<<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>(n, (float2 *)components, (const float2 *)kernel,
                                                                        (const float2 *)psf, (float2 *)model);
    else
        k_spread<<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>(
            n, (double2 *)components, (const double2 *)kernel, (const double2 *)psf, (double2 *)model);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_inverse_cuda(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                           msi_clean_put put, void *image)
{
    const layout l = layout_of(e, f, origin);
    const double factor = 1 / ((double)f->nx * (double)f->ny);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (is_single(e)) {
        MSI_CUFFT(cufftExecC2R(f->backward, (cufftComplex *)spectrum, (cufftReal *)spectrum));
        k_put<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(l, (const float *)spectrum, (float)factor,
                                                                              put, (float *)image);
    } else {
        MSI_CUFFT(cufftExecZ2D(f->backward, (cufftDoubleComplex *)spectrum, (cufftDoubleReal *)spectrum));
        k_put<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(l, (const double *)spectrum, factor, put,
                                                                              (double *)image);
    }
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
