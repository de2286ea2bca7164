/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transforms of real images on the CPU: threads share rows, then blocks of columns. */
#include <fftw3.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"
#include "kernels/transform/fft_cpu.h"

enum { COLUMNS = 8 };

/* A spectrum is [ny][pitch] complex numbers, of which nx / 2 + 1 count; in place, a row is that of nx real ones. */
struct msi_clean_fft {
    int64_t nx, ny, pitch;
    fftwf_plan forward32, backward32;
    fftw_plan forward64, backward64;
    msi_fft1d *down, *up; /* COLUMNS columns */
};

static int plan_rows(msi_clean_fft *f, msi_precision precision)
{
    void *row;
    const int n = (int)f->nx;
    MSI_TRY(msi_alloc(&row, f->pitch, (size_t)msi_complex_bytes(precision), "FFT plan"));
#pragma omp critical(msi_fftw_planner)
    if (precision == MSI_FP32) {
        f->forward32 = fftwf_plan_dft_r2c_1d(n, row, row, FFTW_ESTIMATE);
        f->backward32 = fftwf_plan_dft_c2r_1d(n, row, row, FFTW_ESTIMATE);
    } else {
        f->forward64 = fftw_plan_dft_r2c_1d(n, row, row, FFTW_ESTIMATE);
        f->backward64 = fftw_plan_dft_c2r_1d(n, row, row, FFTW_ESTIMATE);
    }
    msi_free(row);
    if (precision == MSI_FP32 ? f->forward32 && f->backward32 : f->forward64 && f->backward64) return MSI_OK;
    return msi_error_set(MSI_ENOMEM, "FFTW made no plan for %d real points", n);
}

int msi_clean_fft_create_cpu(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex)
{
    msi_clean_fft *f;
    *out = NULL;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "FFT plan"));
    f->nx = nx;
    f->ny = ny;
    f->pitch = (nx / 2 + 1 + COLUMNS - 1) / COLUMNS * COLUMNS;
    int rc = plan_rows(f, e->s.precision);
    if (!rc) rc = msi_fft1d_create_batch(&f->down, ny, COLUMNS, f->pitch, 1, 0, e->s.precision);
    if (!rc) rc = msi_fft1d_create_batch(&f->up, ny, COLUMNS, f->pitch, 1, 1, e->s.precision);
    if (rc) {
        msi_clean_fft_free_cpu(e, f);
        return rc;
    }
    *n_complex = f->pitch * ny;
    *out = f;
    return MSI_OK;
}

void msi_clean_fft_free_cpu(msi_clean_engine *e, msi_clean_fft *f)
{
    (void)e;
    if (!f) return;
#pragma omp critical(msi_fftw_planner)
    {
        if (f->forward32) fftwf_destroy_plan(f->forward32);
        if (f->backward32) fftwf_destroy_plan(f->backward32);
        if (f->forward64) fftw_destroy_plan(f->forward64);
        if (f->backward64) fftw_destroy_plan(f->backward64);
    }
    msi_fft1d_free(f->down);
    msi_fft1d_free(f->up);
    msi_free(f);
}

/* Return the transform's element that pixel i of n falls on. */
static int64_t laid(int64_t i, int64_t n, int64_t padded, msi_clean_origin origin)
{
    if (origin == MSI_CLEAN_CORNER) return i;
    return i >= n / 2 ? i - n / 2 : i - n / 2 + padded;
}

static void lay_image(const msi_clean_engine *e, const msi_clean_fft *f, const void *image, msi_clean_origin origin,
                      void *spectrum)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) {
        const int64_t row = laid(y, ny, f->ny, origin) * f->pitch * 2;
        for (int64_t x = 0; x < nx; x++) {
            const int64_t to = row + laid(x, nx, f->nx, origin);
            if (e->s.precision == MSI_FP32) {
                const float v = ((const float *)image)[y * nx + x];
                ((float *)spectrum)[to] = isfinite(v) ? v : 0;
            } else {
                const double v = ((const double *)image)[y * nx + x];
                ((double *)spectrum)[to] = isfinite(v) ? v : 0;
            }
        }
    }
}

static void lay_list(const msi_clean_engine *e, const msi_clean_fft *f, int plane, void *spectrum)
{
    for (int64_t i = 0; i < e->n_list; i++) {
        const int64_t to = msi_clean_y(e->list[i]) * f->pitch * 2 + msi_clean_x(e->list[i]);
        const int64_t from = plane * e->s.list_limit + i;
        if (e->s.precision == MSI_FP32)
            ((float *)spectrum)[to] = ((const float *)e->component)[from];
        else
            ((double *)spectrum)[to] = ((const double *)e->component)[from];
    }
}

static void run_columns(const msi_clean_engine *e, const msi_clean_fft *f, const msi_fft1d *plan, void *spectrum)
{
    const int64_t bytes = msi_complex_bytes(e->s.precision);
#pragma omp parallel for num_threads(e->n_thread) schedule(dynamic)
    for (int64_t u = 0; u < f->pitch; u += COLUMNS) msi_fft1d_run(plan, (char *)spectrum + u * bytes);
}

static void run_rows(const msi_clean_engine *e, const msi_clean_fft *f, int backward, void *spectrum)
{
    const int64_t row = f->pitch * msi_complex_bytes(e->s.precision);
#pragma omp parallel for num_threads(e->n_thread) schedule(static)
    for (int64_t y = 0; y < f->ny; y++) {
        void *at = (char *)spectrum + y * row;
        if (e->s.precision == MSI_FP32) {
            if (backward)
                fftwf_execute_dft_c2r(f->backward32, at, at);
            else
                fftwf_execute_dft_r2c(f->forward32, at, at);
        } else if (backward) {
            fftw_execute_dft_c2r(f->backward64, at, at);
        } else {
            fftw_execute_dft_r2c(f->forward64, at, at);
        }
    }
}

int msi_clean_forward_cpu(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                          void *spectrum)
{
    memset(spectrum, 0, (size_t)(f->ny * f->pitch * msi_complex_bytes(e->s.precision)));
    if (image)
        lay_image(e, f, image, origin, spectrum);
    else
        lay_list(e, f, plane, spectrum);
    run_rows(e, f, 0, spectrum);
    run_columns(e, f, f->down, spectrum);
    return MSI_OK;
}

int msi_clean_gaussian_cpu(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t v = 0; v < f->ny; v++)
        for (int64_t u = 0; u < f->nx; u++) {
            const double value = msi_clean_gaussian_at(g, u, v, f->nx, f->ny);
            const int64_t to = v * f->pitch * 2 + u;
            if (e->s.precision == MSI_FP32)
                ((float *)spectrum)[to] = (float)value;
            else
                ((double *)spectrum)[to] = value;
        }
    run_rows(e, f, 0, spectrum);
    run_columns(e, f, f->down, spectrum);
    return MSI_OK;
}

static msi_c64 times(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static msi_c64 get(const msi_clean_engine *e, const void *spectrum, int64_t i)
{
    if (e->s.precision == MSI_FP64) return ((const msi_c64 *)spectrum)[i];
    const msi_c32 z = ((const msi_c32 *)spectrum)[i];
    return (msi_c64){z.re, z.im};
}

static void set(const msi_clean_engine *e, void *spectrum, int64_t i, msi_c64 z)
{
    if (e->s.precision == MSI_FP64)
        ((msi_c64 *)spectrum)[i] = z;
    else
        ((msi_c32 *)spectrum)[i] = (msi_c32){(float)z.re, (float)z.im};
}

int msi_clean_product_cpu(msi_clean_engine *e, msi_clean_fft *f, const void *a, const void *b, int twice, void *out)
{
    const int64_t n = f->ny * f->pitch;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < n; i++) {
        const msi_c64 q = get(e, b, i), z = times(get(e, a, i), q);
        set(e, out, i, twice ? times(z, q) : z);
    }
    return MSI_OK;
}

int msi_clean_spread_cpu(msi_clean_engine *e, msi_clean_fft *f, void *components, const void *kernel, const void *psf,
                         void *model)
{
    const int64_t n = f->ny * f->pitch;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < n; i++) {
        msi_c64 z = get(e, components, i);
        if (kernel) z = times(z, get(e, kernel, i));
        if (model) {
            const msi_c64 sum = get(e, model, i);
            set(e, model, i, (msi_c64){sum.re + z.re, sum.im + z.im});
        }
        set(e, components, i, times(z, get(e, psf, i)));
    }
    return MSI_OK;
}

static void put(const msi_clean_engine *e, void *image, int64_t to, const void *spectrum, int64_t from, double factor,
                msi_clean_put mode)
{
    if (e->s.precision == MSI_FP32) {
        float *out = (float *)image + to;
        const float v = ((const float *)spectrum)[from];
        *out = fmaf(mode == MSI_CLEAN_SUBTRACT ? -(float)factor : (float)factor, v, mode == MSI_CLEAN_SET ? 0 : *out);
    } else {
        double *out = (double *)image + to;
        const double v = ((const double *)spectrum)[from];
        *out = fma(mode == MSI_CLEAN_SUBTRACT ? -factor : factor, v, mode == MSI_CLEAN_SET ? 0 : *out);
    }
}

int msi_clean_inverse_cpu(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                          msi_clean_put mode, void *image)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
    const double factor = 1 / ((double)f->nx * (double)f->ny);
    run_columns(e, f, f->up, spectrum);
    run_rows(e, f, 1, spectrum);
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) {
        const int64_t row = laid(y, ny, f->ny, origin) * f->pitch * 2;
        for (int64_t x = 0; x < nx; x++)
            put(e, image, y * nx + x, spectrum, row + laid(x, nx, f->nx, origin), factor, mode);
    }
    return MSI_OK;
}
