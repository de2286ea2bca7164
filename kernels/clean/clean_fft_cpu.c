/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of real images on the CPU: threads share rows, then blocks of columns. Rows of zeros, and rows of a result
 * outside the image, are not transformed; transforms of columns skip them too.
 */
#include <fftw3.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"
#include "kernels/transform/fft_cpu.h"

enum { COLUMNS = 8 };

/* A spectrum is [ny][pitch] complex numbers, nx / 2 + 1 of them used; in place, a row holds nx real numbers. */
struct msi_clean_fft {
    int64_t nx, ny, pitch;
    fftwf_plan forward32, backward32;
    fftw_plan forward64, backward64;
    msi_column_fft *column;
    int n_worker;
    void *work;              /* [n_worker], for column transforms */
    uint8_t *given, *wanted; /* [ny] rows needed before and after a transform along columns */
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
    return msi_error_set(MSI_ENOMEM, "FFTW cannot plan a transform of %d real points", n);
}

static int64_t blocks_of(msi_precision precision, int64_t nx)
{
    const int lanes = msi_column_fft_lanes(precision);
    return (nx / 2 + lanes) / lanes;
}

/* Count the threads that transform columns: at most the number of blocks. */
static int workers_of(msi_precision precision, int64_t nx, int n_thread)
{
    const int64_t n_block = blocks_of(precision, nx);
    return n_block < n_thread ? (int)n_block : n_thread;
}

int64_t msi_clean_fft_bytes_cpu(const msi_clean_setup *s, int64_t nx, int64_t ny)
{
    const int n_thread = s->n_thread > 0 ? s->n_thread : omp_get_max_threads();
    /* Memory in addition to the threads' work arrays: marks of rows, and twiddle tables, fewer than two for each point of a
     * column. */
    return workers_of(s->precision, nx, n_thread) * msi_column_fft_bytes(ny) +
           2 * ny * (1 + msi_complex_bytes(s->precision));
}

static int prepare_transform(msi_clean_engine *e, msi_clean_fft *f)
{
    f->n_worker = workers_of(e->s.precision, f->nx, e->n_thread);
    MSI_TRY(plan_rows(f, e->s.precision));
    MSI_TRY(msi_column_fft_create(&f->column, f->ny, e->s.precision));
    MSI_TRY(msi_alloc(&f->work, f->n_worker, (size_t)msi_column_fft_bytes(f->ny), "a transform"));
    MSI_TRY(msi_alloc(&f->given, f->ny, 1, "a transform"));
    return msi_alloc(&f->wanted, f->ny, 1, "a transform");
}

int msi_clean_fft_create_cpu(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex)
{
    msi_clean_fft *f;
    *out = NULL;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "FFT plan"));
    f->nx = nx;
    f->ny = ny;
    f->pitch = (nx / 2 + 1 + COLUMNS - 1) / COLUMNS * COLUMNS;
    const int rc = prepare_transform(e, f);
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
    msi_column_fft_free(f->column);
    msi_free(f->work);
    msi_free(f->given);
    msi_free(f->wanted);
    msi_free(f);
}

/* Return the transform's element that corresponds to pixel i of n. */
static int64_t laid(int64_t i, int64_t n, int64_t padded, msi_clean_origin origin)
{
    if (origin == MSI_CLEAN_CORNER) return i;
    return i >= n / 2 ? i - n / 2 : i - n / 2 + padded;
}

static void *row_of(const msi_clean_engine *e, const msi_clean_fft *f, void *spectrum, int64_t y)
{
    return (char *)spectrum + y * f->pitch * msi_complex_bytes(e->s.precision);
}

/* Mark the rows of the transform that correspond to an image's rows. */
static void mark_image(const msi_clean_fft *f, int64_t ny, msi_clean_origin origin, uint8_t *mark)
{
    memset(mark, 0, (size_t)f->ny);
    for (int64_t y = 0; y < ny; y++) mark[laid(y, ny, f->ny, origin)] = 1;
}

static void clear_row(const msi_clean_engine *e, const msi_clean_fft *f, void *row)
{
    memset(row, 0, (size_t)(f->pitch * msi_complex_bytes(e->s.precision)));
}

static void run_row(const msi_clean_engine *e, const msi_clean_fft *f, int backward, void *row)
{
    if (e->s.precision == MSI_FP32) {
        if (backward)
            fftwf_execute_dft_c2r(f->backward32, row, row);
        else
            fftwf_execute_dft_r2c(f->forward32, row, row);
    } else if (backward) {
        fftw_execute_dft_c2r(f->backward64, row, row);
    } else {
        fftw_execute_dft_r2c(f->forward64, row, row);
    }
}

static void lay_image(const msi_clean_engine *e, const msi_clean_fft *f, const void *image, msi_clean_origin origin,
                      void *spectrum)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
    mark_image(f, ny, origin, f->given);
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) {
        void *row = row_of(e, f, spectrum, laid(y, ny, f->ny, origin));
        clear_row(e, f, row);
        for (int64_t x = 0; x < nx; x++) {
            const int64_t to = laid(x, nx, f->nx, origin);
            if (e->s.precision == MSI_FP32) {
                const float v = ((const float *)image)[y * nx + x];
                ((float *)row)[to] = isfinite(v) ? v : 0;
            } else {
                const double v = ((const double *)image)[y * nx + x];
                ((double *)row)[to] = isfinite(v) ? v : 0;
            }
        }
        run_row(e, f, 0, row);
    }
}

static void lay_list(const msi_clean_engine *e, const msi_clean_fft *f, int plane, void *spectrum)
{
    memset(f->given, 0, (size_t)f->ny);
    for (int64_t i = 0; i < e->n_list; i++) {
        const int64_t y = msi_clean_y(e->list[i]), x = msi_clean_x(e->list[i]), from = plane * e->s.list_limit + i;
        if (e->cell >= 0 && msi_clean_cell_of(&e->s.cells, e->list[i]) != e->cell) continue;
        void *row = row_of(e, f, spectrum, y);
        if (!f->given[y]) clear_row(e, f, row);
        f->given[y] = 1;
        if (e->s.precision == MSI_FP32)
            ((float *)row)[x] = ((const float *)e->component)[from];
        else
            ((double *)row)[x] = ((const double *)e->component)[from];
    }
#pragma omp parallel for num_threads(e->n_thread) schedule(dynamic, 16)
    for (int64_t y = 0; y < f->ny; y++)
        if (f->given[y]) run_row(e, f, 0, row_of(e, f, spectrum, y));
}

/* Transform all columns; given, wanted, factor: as in msi_column_rows. */
static void run_columns(const msi_clean_engine *e, const msi_clean_fft *f, msi_column_way way, const uint8_t *given,
                        const uint8_t *wanted, const void *factor, void *spectrum)
{
    const int64_t bytes = msi_complex_bytes(e->s.precision), n_block = blocks_of(e->s.precision, f->nx);
    const int lanes = msi_column_fft_lanes(e->s.precision);
#pragma omp parallel for num_threads(f->n_worker) schedule(dynamic)
    for (int64_t b = 0; b < n_block; b++) {
        const int64_t u = b * lanes, left = f->nx / 2 + 1 - u;
        const msi_column_rows rows = {.data = (char *)spectrum + u * bytes,
                                      .pitch = f->pitch,
                                      .n_column = left < lanes ? (int)left : lanes,
                                      .given = given,
                                      .wanted = wanted,
                                      .factor = factor ? (const char *)factor + u * bytes : NULL};
        msi_column_fft_run(f->column, way, &rows, (char *)f->work + omp_get_thread_num() * msi_column_fft_bytes(f->ny));
    }
}

int msi_clean_forward_cpu(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                          void *spectrum)
{
    if (image)
        lay_image(e, f, image, origin, spectrum);
    else
        lay_list(e, f, plane, spectrum);
    run_columns(e, f, MSI_COLUMN_FORWARD, f->given, NULL, NULL, spectrum);
    return MSI_OK;
}

int msi_clean_gaussian_cpu(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t v = 0; v < f->ny; v++) {
        void *row = row_of(e, f, spectrum, v);
        for (int64_t u = 0; u < f->nx; u++) {
            const double value = msi_clean_gaussian_at(g, u, v, f->nx, f->ny);
            if (e->s.precision == MSI_FP32)
                ((float *)row)[u] = (float)value;
            else
                ((double *)row)[u] = value;
        }
        run_row(e, f, 0, row);
    }
    run_columns(e, f, MSI_COLUMN_FORWARD, NULL, NULL, NULL, spectrum);
    return MSI_OK;
}

static msi_c64 times(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static msi_c64 spectrum_at(const msi_clean_engine *e, const void *spectrum, int64_t i)
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
        const msi_c64 q = spectrum_at(e, b, i), z = times(spectrum_at(e, a, i), q);
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
        msi_c64 z = spectrum_at(e, components, i);
        if (kernel) z = times(z, spectrum_at(e, kernel, i));
        if (model) {
            const msi_c64 sum = spectrum_at(e, model, i);
            set(e, model, i, (msi_c64){sum.re + z.re, sum.im + z.im});
        }
        set(e, components, i, times(z, spectrum_at(e, psf, i)));
    }
    return MSI_OK;
}

/* Add `factor` times a row of real numbers to a row of the image, or assign it. With MSI_CLEAN_MIDDLE the row begins in
 * its middle. */
static void put_row(const msi_clean_engine *e, const msi_clean_fft *f, const void *row, msi_clean_origin origin,
                    double factor, msi_clean_put mode, void *image, int64_t nx, int64_t y)
{
    const int64_t bytes = msi_clean_real_bytes(e);
    void (*put)(const msi_clean_put_step *, int64_t) = e->s.precision == MSI_FP32 ? e->simd->put_f32 : e->simd->put_f64;
    const int64_t edge = origin == MSI_CLEAN_CORNER ? 0 : nx / 2;
    for (int part = 0; part < 2; part++) {
        const int64_t first = part ? edge : 0, n = part ? nx - edge : edge;
        const msi_clean_put_step step = {.from = (const char *)row + laid(first, nx, f->nx, origin) * bytes,
                                         .factor = factor,
                                         .add = mode != MSI_CLEAN_SET,
                                         .out = (char *)image + (y * nx + first) * bytes};
        if (n) put(&step, n);
    }
}

/* Transform the image's rows back, and write them to it. */
static void put_rows(const msi_clean_engine *e, const msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                     double factor, msi_clean_put mode, void *image, int64_t nx, int64_t ny)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) {
        void *row = row_of(e, f, spectrum, laid(y, ny, f->ny, origin));
        run_row(e, f, 1, row);
        put_row(e, f, row, origin, mode == MSI_CLEAN_SUBTRACT ? -factor : factor, mode, image, nx, y);
    }
}

void msi_clean_inverse_sized_cpu(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                                 msi_clean_put mode, void *image, int64_t nx, int64_t ny)
{
    mark_image(f, ny, origin, f->wanted);
    run_columns(e, f, MSI_COLUMN_BACKWARD, NULL, f->wanted, NULL, spectrum);
    put_rows(e, f, spectrum, origin, 1 / ((double)f->nx * (double)f->ny), mode, image, nx, ny);
}

int msi_clean_inverse_cpu(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                          msi_clean_put mode, void *image)
{
    msi_clean_inverse_sized_cpu(e, f, spectrum, origin, mode, image, e->s.nx, e->s.ny);
    return MSI_OK;
}

/* Columns are transformed, multiplied and transformed back while they are in cache: spectra are not written to
 * memory. */
int msi_clean_subtract_list_cpu(msi_clean_engine *e, msi_clean_fft *f, int plane, const msi_clean_scale_spectra *scale,
                                const void *psf, void *work, void *image)
{
    if (scale) {
        MSI_TRY(msi_clean_forward_cpu(e, f, NULL, plane, MSI_CLEAN_CORNER, work));
        MSI_TRY(msi_clean_spread_cpu(e, f, work, scale->kernel, psf, scale->model));
        return msi_clean_inverse_cpu(e, f, work, MSI_CLEAN_CORNER, MSI_CLEAN_SUBTRACT, image);
    }
    lay_list(e, f, plane, work);
    mark_image(f, e->s.ny, MSI_CLEAN_CORNER, f->wanted);
    run_columns(e, f, MSI_COLUMN_CONVOLVE, f->given, f->wanted, psf, work);
    put_rows(e, f, work, MSI_CLEAN_CORNER, 1 / (double)f->nx, MSI_CLEAN_SUBTRACT, image, e->s.nx, e->s.ny);
    return MSI_OK;
}
