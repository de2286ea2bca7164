/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Columns of a padded plane as image_fft_cuda.h tells it. With v = Q a + b and frequency y = r + P s, a block of the
 * first kernel has one remainder b of some neighbouring columns, a block of the second one remainder r. Threads hold
 * numbers as in small_fft_cuda.cuh, columns being lanes, so that what a warp reads and writes lies together.
 */
#include "kernels/transform/image_fft_cuda.h"

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/transform/screen_cuda.cuh"
#include "kernels/transform/small_fft_cuda.cuh"

namespace {

/* exp(2 pi i k / n), 0 <= k < n: of angles in half a turn either way less is lost to rounding. */
template <typename T> __device__ __forceinline__ cplx<T> root(int k, int n)
{
    cplx<T> w;
    sincos_turns((T)(2 * k > n ? k - n : k) / (T)n, &w.im, &w.re);
    return w;
}

/* Columns of a plane that an image has, and how it is screened. */
struct image_columns {
    screen_geometry g;
    int first, second; /* P and Q */
};

template <typename T, int N> struct column_lanes {
    using fft = small_fft::steps<T, N>;
    static constexpr int COLUMNS = 128 / sizeof(cplx<T>), THREADS = COLUMNS * fft::A;
    cplx<T> *roots, *shared;
    int lane, i;         /* column of the block; point of the first step, or of the second */
    int64_t pixel, cell; /* the column's place along the image's rows, and the plane's */
    bool has;

    __device__ column_lanes(const screen_geometry &g, float4 *memory)
        : roots((cplx<T> *)memory), shared(roots + fft::N_ROOT), lane(threadIdx.x % COLUMNS), i(threadIdx.x / COLUMNS),
          pixel((int64_t)blockIdx.x * COLUMNS + lane), cell(pixel - g.nx / 2), has(pixel < g.nx)
    {
        if (cell < 0) cell += g.nu;
        for (int k = threadIdx.x; k < fft::N_ROOT; k += blockDim.x)
            roots[k] = root<T>(k / fft::PITCH * (k % fft::PITCH) % N, N);
        __syncthreads();
    }
    /* Transform N points of a column, the first of them at `from`, a multiple of `step` apart. */
    __device__ __forceinline__ void transform(const cplx<T> *from, int64_t step, cplx<T> (&y)[fft::B]) const
    {
        if (i < fft::B) {
            cplx<T> x[fft::A];
#pragma unroll
            for (int a = 0; a < fft::A; a++) x[a] = has ? from[(fft::B * a + i) * step] : cplx<T>{0, 0};
            fft::template forward_first<fft::A>(x, roots, i);
#pragma unroll
            for (int r = 0; r < fft::A; r++) shared[(r * fft::B + i) * COLUMNS + lane] = x[r];
        }
        __syncthreads();
#pragma unroll
        for (int b = 0; b < fft::B; b++) y[b] = shared[(i * fft::B + b) * COLUMNS + lane];
        fft::forward_second(y);
    }
    static constexpr size_t bytes()
    {
        return (size_t)(N * COLUMNS + fft::N_ROOT) * sizeof(cplx<T>);
    }
};

/* The first step: block (columns, remainder b). */
template <typename T, int P>
__global__ void __launch_bounds__(column_lanes<T, P>::THREADS) k_columns_first(image_columns c, cplx<T> *plane)
{
    using lanes = column_lanes<T, P>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.g, memory);
    const int64_t step = c.second * c.g.nu;
    cplx<T> *first = plane + (int64_t)blockIdx.y * c.g.nu + me.cell, y[fft::B];
    me.transform(first, step, y);
    if (!me.has) return;
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int r = me.i + fft::A * s;
        first[r * step] = small_fft::turned<true>(y[s], root<T>(r * (int)blockIdx.y, (int)c.g.nv));
    }
}

/* The second step, screened and added to the image: block (columns, remainder r). */
template <typename T, int Q>
__global__ void __launch_bounds__(column_lanes<T, Q>::THREADS)
    k_columns_second(image_columns c, const cplx<T> *plane, T *image)
{
    using lanes = column_lanes<T, Q>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const screen_geometry &g = c.g;
    const lanes me(g, memory);
    cplx<T> y[fft::B];
    me.transform(plane + (int64_t)blockIdx.y * Q * g.nu + me.cell, g.nu, y);
    if (!me.has) return;
    const double l = -(double)(me.pixel - g.nx / 2) * g.cell_x_rad;
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        int64_t j = blockIdx.y + c.first * (int64_t)(me.i + fft::A * s);
        if (j >= g.ny - g.ny / 2) j -= g.nv;
        if (j < -(g.ny / 2)) continue;
        const double nu = g.has_w ? msi_n_minus_1(l, (double)j * g.cell_y_rad) - g.n_mid : 0, turns = g.w_first * nu;
        T sine, cosine;
        sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
        image[(j + g.ny / 2) * g.nx + me.pixel] += y[s].re * cosine + y[s].im * sine;
    }
}

/* Call f with the number n, which is one of factorise. */
template <typename F> int at_points(int n, F f)
{
    switch (n) {
    case 48:
        return f(small_fft::number<48>());
    case 64:
        return f(small_fft::number<64>());
    case 80:
        return f(small_fft::number<80>());
    case 96:
        return f(small_fft::number<96>());
    case 112:
        return f(small_fft::number<112>());
    case 128:
        return f(small_fft::number<128>());
    case 144:
        return f(small_fft::number<144>());
    case 160:
        return f(small_fft::number<160>());
    case 192:
        return f(small_fft::number<192>());
    case 256:
        return f(small_fft::number<256>());
    default:
        return msi_error_set(MSI_EINTERNAL, "there is no transform of %d points", n);
    }
}

/* Find two numbers of points whose product is n, of about the same size. */
bool factorise(int64_t n, int *first, int *second)
{
    static const int points[] = {128, 112, 144, 96, 160, 80, 192, 64, 256, 48};
    for (int p : points)
        for (int q : points)
            if ((int64_t)p * q == n) {
                *first = p;
                *second = q;
                return true;
            }
    return false;
}

template <typename T> int add_columns(const image_columns &c, cplx<T> *plane, T *image, cudaStream_t stream)
{
    MSI_TRY(at_points(c.first, [&](auto n) -> int {
        constexpr int P = decltype(n)::value;
        using lanes = column_lanes<T, P>;
        const dim3 blocks((unsigned)((c.g.nx + lanes::COLUMNS - 1) / lanes::COLUMNS), (unsigned)c.second);
        MSI_CUDA(cudaFuncSetAttribute(k_columns_first<T, P>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)lanes::bytes()));
        k_columns_first<T, P><<<blocks, lanes::THREADS, lanes::bytes(), stream>>>(c, plane);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }));
    return at_points(c.second, [&](auto n) -> int {
        constexpr int Q = decltype(n)::value;
        using lanes = column_lanes<T, Q>;
        const dim3 blocks((unsigned)((c.g.nx + lanes::COLUMNS - 1) / lanes::COLUMNS), (unsigned)c.first);
        MSI_CUDA(cudaFuncSetAttribute(k_columns_second<T, Q>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      (int)lanes::bytes()));
        k_columns_second<T, Q><<<blocks, lanes::THREADS, lanes::bytes(), stream>>>(c, plane, image);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    });
}

} // namespace

struct msi_image_fft {
    image_columns columns; /* first: 0 where cuFFT transforms the plane */
    msi_precision precision;
    cudaStream_t stream;
    cufftHandle plan; /* of the plane's rows, or of the plane */
    bool has_plan;
};

static int make_plan(msi_image_fft *f)
{
    const cufftType type = f->precision == MSI_FP32 ? CUFFT_C2C : CUFFT_Z2Z;
    int nu = (int)f->columns.g.nu, nv = (int)f->columns.g.nv;
    if (factorise(nv, &f->columns.first, &f->columns.second))
        MSI_CUFFT(cufftPlanMany(&f->plan, 1, &nu, &nu, 1, nu, &nu, 1, nu, type, nv));
    else
        MSI_CUFFT(cufftPlan2d(&f->plan, nv, nu, type));
    f->has_plan = true;
    MSI_CUFFT(cufftSetStream(f->plan, f->stream));
    return MSI_OK;
}

int msi_image_fft_create(msi_image_fft **out, const msi_image_fft_shape *shape, void *stream)
{
    msi_image_fft *f;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "transforms"));
    const msi_image_geometry &i = shape->image;
    f->columns.g = {i.nx, i.ny, shape->nu, shape->nv, i.cell_x_rad, i.cell_y_rad, 0, 0, shape->n_mid, shape->has_w};
    f->precision = shape->precision;
    f->stream = (cudaStream_t)stream;
    int rc = make_plan(f);
    if (rc)
        msi_image_fft_free(f);
    else
        *out = f;
    return rc;
}

void msi_image_fft_free(msi_image_fft *fft)
{
    if (!fft) return;
    if (fft->has_plan) cufftDestroy(fft->plan);
    msi_free(fft);
}

template <typename T> static int add(const msi_image_fft *fft, void *plane, double w_lambda, void *image)
{
    image_columns c = fft->columns;
    c.g.w_first = w_lambda;
    if constexpr (sizeof(T) == 4)
        MSI_CUFFT(cufftExecC2C(fft->plan, (cufftComplex *)plane, (cufftComplex *)plane, CUFFT_FORWARD));
    else
        MSI_CUFFT(cufftExecZ2Z(fft->plan, (cufftDoubleComplex *)plane, (cufftDoubleComplex *)plane, CUFFT_FORWARD));
    if (c.first) return add_columns<T>(c, (cplx<T> *)plane, (T *)image, fft->stream);
    const dim3 blocks((unsigned)((c.g.nx + 31) / 32), (unsigned)((c.g.ny + 7) / 8));
    k_screen<T><<<blocks, dim3(32, 8), 0, fft->stream>>>(c.g, (const cplx<T> *)plane, 0, 1, (T *)image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_image_fft_add(const msi_image_fft *fft, void *plane, double w_lambda, void *image)
{
    return fft->precision == MSI_FP32 ? add<float>(fft, plane, w_lambda, image)
                                      : add<double>(fft, plane, w_lambda, image);
}
