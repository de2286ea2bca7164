/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Padded transforms of real images on the GPU, in place. A spectrum is [ny][pitch] complex numbers, of which nx / 2 + 1
 * in a row are used. Before the transform, a row is 2 pitch real numbers. k_lay_list has one thread for each component.
 * The other kernels before and after the transforms have one thread for each number, and their accesses are coalesced.
 *
 * A list has pixels with components (clean_engine.h). To subtract their images, cuFFT transforms only the rows of the
 * image, and three kernels transform all columns (column_lanes_cuda.cuh). The first kernel reads, and the last one
 * writes, only the rows of the image. The second one multiplies by the spectrum of the PSF. This needs a third of the
 * memory traffic of whole transforms.
 */
#include "core/memory.h"
#include "kernels/clean/clean_engine_cuda.h"
#include "kernels/transform/column_lanes_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"

struct msi_clean_fft {
    int64_t nx, ny, pitch; /* pitch: complex numbers of a row */
    cufftHandle forward, backward;
    bool has_forward, has_backward;
    int p, q; /* the factors of ny for column_lanes; 0: lists are subtracted by whole transforms */
    cufftHandle rows_forward, rows_backward; /* plans of the image's rows */
    bool has_rows_forward, has_rows_backward;
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

/* ---- Columns of a convolution ------------------------------------------------------------------------------------ */

/* Columns of a plane of ny = P Q rows, of which only the first n_given are read and written. */
struct convolved_columns {
    int64_t pitch;
    int ny, p, q, n_given;

    /* Return the number of the rows Q a + b, a = 0, 1 .., that are given. */
    __device__ __forceinline__ int given(int b) const
    {
        return n_given > b ? (n_given - b + q - 1) / q : 0;
    }
};

template <typename T> struct convolved_spectra {
    const cplx<T> *kernel, *psf; /* kernel NULL: no kernel */
    cplx<T> *model;              /* the spectra are added to it; NULL: none */
};

template <typename T> __device__ __forceinline__ cplx<T> multiplied(cplx<T> a, cplx<T> b)
{
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Do the first step: block (columns, remainder b). */
template <typename T, int P>
__global__ void __launch_bounds__(column_lanes<T, P>::THREADS) k_convolve_first(convolved_columns c, cplx<T> *plane)
{
    using lanes = column_lanes<T, P>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.pitch, memory);
    const int64_t step = c.q * c.pitch;
    cplx<T> *first = plane + (int64_t)blockIdx.y * c.pitch + me.column, y[fft::B];
    me.transform(
        first, step, y, [] {}, c.given((int)blockIdx.y));
    if (!me.has) return;
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int r = me.i + fft::A * s;
        first[r * step] = small_fft::turned<true>(y[s], root<T>(r * (int)blockIdx.y, c.ny));
    }
}

/* Do the second step, multiply, and transform back: block (columns, remainder r). */
template <typename T, int Q>
__global__ void __launch_bounds__(column_lanes<T, Q>::THREADS)
    k_convolve_second(convolved_columns c, convolved_spectra<T> by, cplx<T> *plane)
{
    using lanes = column_lanes<T, Q>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.pitch, memory);
    cplx<T> *first = plane + (int64_t)blockIdx.y * Q * c.pitch + me.column, y[fft::B], x[fft::A];
    me.transform(first, c.pitch, y, [] {});
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int64_t at = (blockIdx.y + c.p * (int64_t)(me.i + fft::A * s)) * c.pitch + me.column;
        if (!me.has) continue;
        if (by.kernel) y[s] = multiplied(y[s], by.kernel[at]);
        if (by.model) by.model[at] = {by.model[at].re + y[s].re, by.model[at].im + y[s].im};
        y[s] = multiplied(y[s], by.psf[at]);
    }
    me.transform_back(y, x);
    me.store(x, first, c.pitch);
}

/* Do the transpose of the first step: block (columns, remainder b). */
template <typename T, int P>
__global__ void __launch_bounds__(column_lanes<T, P>::THREADS) k_convolve_last(convolved_columns c, cplx<T> *plane)
{
    using lanes = column_lanes<T, P>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.pitch, memory);
    const int64_t step = c.q * c.pitch;
    cplx<T> *first = plane + (int64_t)blockIdx.y * c.pitch + me.column, y[fft::B], x[fft::A];
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int r = me.i + fft::A * s;
        y[s] = me.has ? small_fft::turned<false>(first[r * step], root<T>(r * (int)blockIdx.y, c.ny)) : cplx<T>{0, 0};
    }
    me.transform_back(y, x);
    me.store(x, first, step, c.given((int)blockIdx.y));
}

template <typename T>
int convolve_columns(const convolved_columns &c, const convolved_spectra<T> &by, cplx<T> *plane, cudaStream_t stream)
{
    MSI_TRY(at_points(c.p, [&](auto n) {
        constexpr int P = decltype(n)::value;
        return launch_columns<T, P>(k_convolve_first<T, P>, c.pitch, c.q, stream, c, plane);
    }));
    MSI_TRY(at_points(c.q, [&](auto n) {
        constexpr int Q = decltype(n)::value;
        return launch_columns<T, Q>(k_convolve_second<T, Q>, c.pitch, c.p, stream, c, by, plane);
    }));
    return at_points(c.p, [&](auto n) {
        constexpr int P = decltype(n)::value;
        return launch_columns<T, P>(k_convolve_last<T, P>, c.pitch, c.q, stream, c, plane);
    });
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

/* Make a plan of real transforms in place: of the plane, or of its first n_row rows. */
int make_plan(msi_clean_engine *e, const msi_clean_fft *f, cufftType type, int64_t n_row, cufftHandle *plan, bool *has)
{
    const int rank = n_row ? 1 : 2;
    const bool is_forward = type == CUFFT_R2C || type == CUFFT_D2Z;
    int n[2] = {(int)f->ny, (int)f->nx}, complexes[2] = {n[0], (int)f->pitch}, reals[2] = {n[0], 2 * (int)f->pitch};
    int *in = is_forward ? reals : complexes, *out = is_forward ? complexes : reals, skip = 2 - rank;
    MSI_TRY(plan_fft([&] {
        return cufftPlanMany(plan, rank, n + skip, in + skip, 1, in[1], out + skip, 1, out[1], type,
                             n_row ? (int)n_row : 1);
    }));
    *has = true;
    MSI_CUFFT(cufftSetStream(*plan, clean_stream(e)));
    return MSI_OK;
}

int make_plans(msi_clean_engine *e, msi_clean_fft *f)
{
    const cufftType forward = is_single(e) ? CUFFT_R2C : CUFFT_D2Z, backward = is_single(e) ? CUFFT_C2R : CUFFT_Z2D;
    MSI_TRY(make_plan(e, f, forward, 0, &f->forward, &f->has_forward));
    MSI_TRY(make_plan(e, f, backward, 0, &f->backward, &f->has_backward));
    factorise(f->ny, &f->p, &f->q);
    return MSI_OK;
}

/* Make the plans of the image's rows when they are first needed. */
int make_row_plans(msi_clean_engine *e, msi_clean_fft *f)
{
    if (!f->has_rows_forward)
        MSI_TRY(make_plan(e, f, is_single(e) ? CUFFT_R2C : CUFFT_D2Z, e->s.ny, &f->rows_forward, &f->has_rows_forward));
    if (f->has_rows_backward) return MSI_OK;
    return make_plan(e, f, is_single(e) ? CUFFT_C2R : CUFFT_Z2D, e->s.ny, &f->rows_backward, &f->has_rows_backward);
}

template <typename T> int put(msi_clean_engine *e, const layout &l, const void *from, msi_clean_put mode, void *image)
{
    const double factor = 1 / ((double)l.padded_x * (double)l.padded_y);
    k_put<T><<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(l, (const T *)from, (T)factor, mode,
                                                                             (T *)image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Subtract a list by transforms of the image's rows and of columns. */
template <typename T>
int subtract_list(msi_clean_engine *e, msi_clean_fft *f, int plane, const convolved_spectra<T> &by, void *work,
                  void *image)
{
    const layout l = layout_of(e, f, MSI_CLEAN_CORNER);
    const convolved_columns columns = {f->pitch, (int)f->ny, f->p, f->q, (int)e->s.ny};
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(make_row_plans(e, f));
    MSI_CUDA(cudaMemsetAsync(work, 0, (size_t)(l.pitch * e->s.ny) * sizeof(T), clean_stream(e)));
    MSI_TRY(lay<T>(e, l, NULL, plane, work));
    if constexpr (sizeof(T) == 4)
        MSI_CUFFT(cufftExecR2C(f->rows_forward, (cufftReal *)work, (cufftComplex *)work));
    else
        MSI_CUFFT(cufftExecD2Z(f->rows_forward, (cufftDoubleReal *)work, (cufftDoubleComplex *)work));
    MSI_TRY(convolve_columns<T>(columns, by, (cplx<T> *)work, clean_stream(e)));
    if constexpr (sizeof(T) == 4)
        MSI_CUFFT(cufftExecC2R(f->rows_backward, (cufftComplex *)work, (cufftReal *)work));
    else
        MSI_CUFFT(cufftExecZ2D(f->rows_backward, (cufftDoubleComplex *)work, (cufftDoubleReal *)work));
    return put<T>(e, l, work, MSI_CLEAN_SUBTRACT, image);
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
    f->pitch = (nx / 2 + 4) / 4 * 4; /* rows begin at the sectors of memory */
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
    if (f->has_rows_forward) cufftDestroy(f->rows_forward);
    if (f->has_rows_backward) cufftDestroy(f->rows_backward);
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
                           msi_clean_put mode, void *image)
{
    const layout l = layout_of(e, f, origin);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (is_single(e))
        MSI_CUFFT(cufftExecC2R(f->backward, (cufftComplex *)spectrum, (cufftReal *)spectrum));
    else
        MSI_CUFFT(cufftExecZ2D(f->backward, (cufftDoubleComplex *)spectrum, (cufftDoubleReal *)spectrum));
    return is_single(e) ? put<float>(e, l, spectrum, mode, image) : put<double>(e, l, spectrum, mode, image);
}

int msi_clean_subtract_list_cuda(msi_clean_engine *e, msi_clean_fft *f, int plane, const msi_clean_scale_spectra *scale,
                                 const void *psf, void *work, void *image)
{
    const void *kernel = scale ? scale->kernel : NULL;
    void *model = scale ? scale->model : NULL;
    if (f->p && is_single(e))
        return subtract_list<float>(
            e, f, plane, {(const cplx<float> *)kernel, (const cplx<float> *)psf, (cplx<float> *)model}, work, image);
    if (f->p)
        return subtract_list<double>(
            e, f, plane, {(const cplx<double> *)kernel, (const cplx<double> *)psf, (cplx<double> *)model}, work, image);
    MSI_TRY(msi_clean_forward_cuda(e, f, NULL, plane, MSI_CLEAN_CORNER, work));
    MSI_TRY(msi_clean_spread_cuda(e, f, work, kernel, psf, model));
    return msi_clean_inverse_cuda(e, f, work, MSI_CLEAN_CORNER, MSI_CLEAN_SUBTRACT, image);
}
