/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of the columns of a padded plane that an image needs (image_fft_cuda.h).
 *
 * nv = P Q. Input row v = Q a + b, output row y = r + P s. A block of the first kernel transforms one remainder b of
 * some neighbouring columns, and a block of the second kernel one remainder r (column_lanes_cuda.cuh). The transpose
 * runs the second step first, on the model's pixels.
 */
#include "kernels/transform/image_fft_cuda.h"

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/method/method.h"
#include "kernels/transform/column_lanes_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/transform/screen_cuda.cuh"

namespace {

/* The columns of a plane that an image needs, and the screen of the image. */
struct image_columns {
    screen_geometry g;
    int p, q; /* the factors P and Q of nv */
};

/*
 * The turns w (n - 1 - n_mid) of a screen as a power series in x = l^2 + m^2: n - 1 = -(x/2 + x^2/8 + x^3/16 + ..). In
 * single precision these terms suffice for most fields. They replace a square root and a division of doubles for each
 * pixel.
 */
constexpr int TURN_TERMS = 9;
struct turn_series {
    double term[TURN_TERMS];

    __device__ __forceinline__ double at(double x) const
    {
        double sum = term[TURN_TERMS - 1];
#pragma unroll
        for (int k = TURN_TERMS - 2; k >= 0; k--) sum = fma(sum, x, term[k]);
        return sum;
    }
};

/* Make the series at g.w_first, which is w of the current plane. Returns: true if its error is at most 1e-9 turns,
 * about the rounding of a float */
bool make_turns(turn_series *out, const screen_geometry &g)
{
    const double l = 0.5 * (double)g.nx * g.cell_x_rad, m = 0.5 * (double)g.ny * g.cell_y_rad, most = l * l + m * m;
    const double w = g.has_w ? g.w_first : 0;
    double c = 0.5, power = most;
    out->term[0] = -w * g.n_mid;
    for (int k = 1; k < TURN_TERMS; k++) {
        out->term[k] = -w * c;
        c *= (2 * k - 1) / (2 * k + 2.0);
        power *= most;
    }
    /* The coefficients decrease. */
    return most < 1 && fabs(w) * c * power <= 1e-9 * (1 - most);
}

/* Lanes that are columns of an image. */
template <typename T, int N> struct image_lanes : column_lanes<T, N> {
    int64_t pixel, cell; /* the column's place in the image's rows, and in the plane's */

    __device__ image_lanes(const screen_geometry &g, float4 *memory)
        : column_lanes<T, N>(g.nx, memory), pixel(this->column), cell(pixel - g.nx / 2)
    {
        if (cell < 0) cell += g.nu;
    }
    /* Return the row of frequency r + P (i + A s), r = blockIdx.y, counted from the image's middle; below -ny/2 if it
     * is outside the image. */
    __device__ __forceinline__ int64_t image_row(const image_columns &c, int s) const
    {
        const int64_t j = blockIdx.y + c.p * (int64_t)(this->i + image_lanes::fft::A * s);
        return j >= c.g.ny - c.g.ny / 2 ? j - c.g.nv : j;
    }
};

/* Do the first step: block (columns, remainder b). */
template <typename T, int P>
__global__ void __launch_bounds__(column_lanes<T, P>::THREADS) k_columns_first(image_columns c, cplx<T> *plane)
{
    using lanes = image_lanes<T, P>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.g, memory);
    const int64_t step = c.q * c.g.nu;
    cplx<T> *first = plane + (int64_t)blockIdx.y * c.g.nu + me.cell, y[fft::B];
    me.transform(first, step, y, [] {});
    if (!me.has) return;
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int r = me.i + fft::A * s;
        first[r * step] = small_fft::turned<true>(y[s], root<T>(r * (int)blockIdx.y, (int)c.g.nv));
    }
}

/* Do the second step, screen the result, by a series or exactly, and add it to the image: block (columns, remainder
 * r). */
template <typename T, int Q, bool HAS_SERIES>
__global__ void __launch_bounds__(column_lanes<T, Q>::THREADS, column_lanes<T, Q>::BLOCKS)
    k_columns_second(image_columns c, turn_series series, const cplx<T> *plane, T *image)
{
    using lanes = image_lanes<T, Q>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const screen_geometry &g = c.g;
    const lanes me(g, memory);
    cplx<T> y[fft::B];
    T before[fft::B]; /* the image's pixels, loaded while the second half of the transform runs */
    me.transform(plane + (int64_t)blockIdx.y * Q * g.nu + me.cell, g.nu, y, [&] {
#pragma unroll
        for (int s = 0; s < fft::B; s++) {
            const int64_t j = me.image_row(c, s);
            before[s] = me.has && j >= -(g.ny / 2) ? image[(j + g.ny / 2) * g.nx + me.pixel] : (T)0;
        }
    });
    if (!me.has) return;
    const double l = -(double)(me.pixel - g.nx / 2) * g.cell_x_rad;
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int64_t j = me.image_row(c, s);
        if (j < -(g.ny / 2)) continue;
        const double m = (double)j * g.cell_y_rad;
        double turns;
        if constexpr (HAS_SERIES)
            turns = series.at(fma(m, m, l * l));
        else
            turns = g.has_w ? g.w_first * (msi_n_minus_1(l, m) - g.n_mid) : 0;
        T sine, cosine;
        sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
        image[(j + g.ny / 2) * g.nx + me.pixel] = before[s] + y[s].re * cosine + y[s].im * sine;
    }
}

/* Do the transpose of the second step, of screened pixels of a model: block (columns, remainder r). */
template <typename T, int Q>
__global__ void __launch_bounds__(column_lanes<T, Q>::THREADS)
    k_columns_second_back(image_columns c, msi_taper taper, const T *model, cplx<T> *plane)
{
    using lanes = image_lanes<T, Q>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const screen_geometry &g = c.g;
    const lanes me(g, memory);
    cplx<T> y[fft::B], x[fft::A];
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int64_t j = me.image_row(c, s);
        y[s] = me.has && j >= -(g.ny / 2) ? screened_model(g, taper, model, me.pixel, j + g.ny / 2, g.w_first)
                                          : cplx<T>{0, 0};
    }
    me.transform_back(y, x);
    me.store(x, plane + (int64_t)blockIdx.y * Q * g.nu + me.cell, g.nu);
}

/* Do the transpose of the first step: block (columns, remainder b). */
template <typename T, int P>
__global__ void __launch_bounds__(column_lanes<T, P>::THREADS) k_columns_first_back(image_columns c, cplx<T> *plane)
{
    using lanes = image_lanes<T, P>;
    using fft = typename lanes::fft;
    extern __shared__ float4 memory[];
    const lanes me(c.g, memory);
    const int64_t step = c.q * c.g.nu;
    cplx<T> *first = plane + (int64_t)blockIdx.y * c.g.nu + me.cell, y[fft::B], x[fft::A];
#pragma unroll
    for (int s = 0; s < fft::B; s++) {
        const int r = me.i + fft::A * s;
        y[s] = me.has ? small_fft::turned<false>(first[r * step], root<T>(r * (int)blockIdx.y, (int)c.g.nv))
                      : cplx<T>{0, 0};
    }
    me.transform_back(y, x);
    me.store(x, first, step);
}

template <typename T> int add_columns(const image_columns &c, cplx<T> *plane, T *image, cudaStream_t stream)
{
    MSI_TRY(at_points(c.p, [&](auto n) {
        constexpr int P = decltype(n)::value;
        return launch_columns<T, P>(k_columns_first<T, P>, c.g.nx, c.q, stream, c, plane);
    }));
    turn_series series;
    const bool has_series = make_turns(&series, c.g);
    return at_points(c.q, [&](auto n) {
        constexpr int Q = decltype(n)::value;
        if constexpr (sizeof(T) == 4)
            if (has_series)
                return launch_columns<T, Q>(k_columns_second<T, Q, true>, c.g.nx, c.p, stream, c, series,
                                            (const cplx<T> *)plane, image);
        return launch_columns<T, Q>(k_columns_second<T, Q, false>, c.g.nx, c.p, stream, c, series,
                                    (const cplx<T> *)plane, image);
    });
}

template <typename T>
int spread_columns(const image_columns &c, const msi_taper &taper, const T *model, cplx<T> *plane, cudaStream_t stream)
{
    MSI_TRY(at_points(c.q, [&](auto n) {
        constexpr int Q = decltype(n)::value;
        return launch_columns<T, Q>(k_columns_second_back<T, Q>, c.g.nx, c.p, stream, c, taper, model, plane);
    }));
    return at_points(c.p, [&](auto n) {
        constexpr int P = decltype(n)::value;
        return launch_columns<T, P>(k_columns_first_back<T, P>, c.g.nx, c.q, stream, c, plane);
    });
}

} // namespace

struct msi_image_fft {
    image_columns columns; /* first is 0 if cuFFT transforms the plane */
    msi_precision precision;
    cudaStream_t stream;
    msi_row_fft *rows; /* NULL if cuFFT transforms the rows */
    cufftHandle plan;  /* plan of the plane's rows, or of the plane */
    bool has_plan;
};

static int plan_transforms(msi_image_fft *f)
{
    const cufftType type = f->precision == MSI_FP32 ? CUFFT_C2C : CUFFT_Z2Z;
    int nu = (int)f->columns.g.nu, nv = (int)f->columns.g.nv;
    const bool has_columns = factorise(nv, &f->columns.p, &f->columns.q);
    if (has_columns) MSI_TRY(msi_row_fft_create(&f->rows, nu, f->precision, f->stream));
    if (f->rows) return MSI_OK;
    if (has_columns)
        MSI_TRY(plan_fft([&] { return cufftPlanMany(&f->plan, 1, &nu, &nu, 1, nu, &nu, 1, nu, type, nv); }));
    else
        MSI_TRY(plan_fft([&] { return cufftPlan2d(&f->plan, nv, nu, type); }));
    f->has_plan = true;
    MSI_CUFFT(cufftSetStream(f->plan, f->stream));
    return MSI_OK;
}

int64_t msi_image_fft_size(int64_t n)
{
    const int64_t usual = msi_fft_size(n), most = usual * 107 / 100;
    int first, second;
    for (int64_t size = n + n % 2; size <= most; size += 2)
        if (msi_row_fft_serves(size) && factorise(size, &first, &second)) return size;
    return usual;
}

int msi_image_fft_create(msi_image_fft **out, const msi_image_fft_shape *shape, void *stream)
{
    msi_image_fft *f;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "transforms"));
    const msi_image_geometry &i = shape->image;
    f->columns.g = {i.nx, i.ny, shape->nu, shape->nv, i.cell_x_rad, i.cell_y_rad, 0, 0, shape->n_mid, shape->has_w};
    f->precision = shape->precision;
    f->stream = (cudaStream_t)stream;
    int rc = plan_transforms(f);
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
    msi_row_fft_free(fft->rows);
    msi_free(fft);
}

/* Begin a cuFFT transform, of the rows or of the plane. */
template <typename T> static int run_cufft(const msi_image_fft *fft, void *plane, int direction)
{
    if constexpr (sizeof(T) == 4)
        MSI_CUFFT(cufftExecC2C(fft->plan, (cufftComplex *)plane, (cufftComplex *)plane, direction));
    else
        MSI_CUFFT(cufftExecZ2Z(fft->plan, (cufftDoubleComplex *)plane, (cufftDoubleComplex *)plane, direction));
    return MSI_OK;
}

template <typename T>
static int add_plane(const msi_image_fft *fft, void *plane, const uint8_t *row_used, double w_lambda, void *image)
{
    image_columns c = fft->columns;
    c.g.w_first = w_lambda;
    if (fft->rows)
        MSI_TRY(msi_row_fft_forward(fft->rows, plane, c.g.nv, row_used, c.g.nx));
    else
        MSI_TRY(run_cufft<T>(fft, plane, CUFFT_FORWARD));
    if (c.p) return add_columns<T>(c, (cplx<T> *)plane, (T *)image, fft->stream);
    const dim3 blocks((unsigned)((c.g.nx + 31) / 32), (unsigned)((c.g.ny + 7) / 8));
    k_screen<T><<<blocks, dim3(32, 8), 0, fft->stream>>>(c.g, (const cplx<T> *)plane, 0, 1, (T *)image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_image_fft_add(const msi_image_fft *fft, void *plane, const uint8_t *row_used, double w_lambda, void *image)
{
    return fft->precision == MSI_FP32 ? add_plane<float>(fft, plane, row_used, w_lambda, image)
                                      : add_plane<double>(fft, plane, row_used, w_lambda, image);
}

int msi_image_fft_can_add_squares(const msi_image_fft *fft)
{
    return fft->rows != NULL;
}

template <typename T>
static int add_squares(const msi_image_fft *fft, const msi_plane_squares *squares, void *plane, double w_lambda,
                       void *image)
{
    image_columns c = fft->columns;
    c.g.w_first = w_lambda;
    MSI_TRY(msi_row_fft_of_squares(fft->rows, squares, plane, c.g.nv, c.g.nx));
    return add_columns<T>(c, (cplx<T> *)plane, (T *)image, fft->stream);
}

int msi_image_fft_add_squares(const msi_image_fft *fft, const msi_plane_squares *squares, void *plane, double w_lambda,
                              void *image)
{
    return fft->precision == MSI_FP32 ? add_squares<float>(fft, squares, plane, w_lambda, image)
                                      : add_squares<double>(fft, squares, plane, w_lambda, image);
}

template <typename T>
static int spread_model(const msi_image_fft *fft, const msi_taper &taper, const T *model, double w_lambda,
                        const uint8_t *row_used, cplx<T> *plane)
{
    image_columns c = fft->columns;
    c.g.w_first = w_lambda;
    if (fft->rows) {
        MSI_TRY(spread_columns<T>(c, taper, model, plane, fft->stream));
        return msi_row_fft_backward(fft->rows, plane, c.g.nv, row_used, c.g.nx);
    }
    if (c.p) {
        MSI_CUDA(cudaMemsetAsync(plane, 0, sizeof(cplx<T>) * (size_t)(c.g.nu * c.g.nv), fft->stream));
        MSI_TRY(spread_columns<T>(c, taper, model, plane, fft->stream));
    } else {
        const dim3 blocks((unsigned)((c.g.nu + 31) / 32), (unsigned)((c.g.nv + 7) / 8));
        k_spread_model<T><<<blocks, dim3(32, 8), 0, fft->stream>>>(c.g, taper, model, 0, plane);
        MSI_CUDA(cudaGetLastError());
    }
    return run_cufft<T>(fft, plane, CUFFT_INVERSE);
}

int msi_image_fft_spread(const msi_image_fft *fft, const msi_taper *taper, const void *model, double w_lambda,
                         const uint8_t *row_used, void *plane)
{
    return fft->precision == MSI_FP32
               ? spread_model<float>(fft, *taper, (const float *)model, w_lambda, row_used, (cplx<float> *)plane)
               : spread_model<double>(fft, *taper, (const double *)model, w_lambda, row_used, (cplx<double> *)plane);
}
