/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/transform/fft_cpu.h"

#include <fftw3.h>
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/method/simd.h"

struct msi_fft1d {
    msi_precision precision;
    fftwf_plan plan32;
    fftw_plan plan64;
};

int msi_fft1d_create(msi_fft1d **out, int64_t n, msi_precision precision)
{
    return msi_fft1d_create_batch(out, n, 1, 1, n, 0, precision);
}

/* Plans use FFTW_ESTIMATE, because FFTW_MEASURE takes 0.1 to 1.4 s for the usual lengths and saves less than that. */
int msi_fft1d_create_batch(msi_fft1d **out, int64_t n, int64_t count, int64_t stride, int64_t distance, int backward,
                           msi_precision precision)
{
    *out = NULL;
    msi_fft1d *f;
    void *scratch;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "FFT plan"));
    int64_t cells = (n - 1) * stride + (count - 1) * distance + 1;
    int rc = msi_alloc(&scratch, cells, (size_t)msi_complex_bytes(precision), "FFT plan");
    if (rc) {
        msi_free(f);
        return rc;
    }
    int length = (int)n, sign = backward ? FFTW_BACKWARD : FFTW_FORWARD;
    f->precision = precision;
    /* FFTW's planner is not thread-safe. */
#pragma omp critical(msi_fftw_planner)
    if (precision == MSI_FP32)
        f->plan32 = fftwf_plan_many_dft(1, &length, (int)count, scratch, NULL, (int)stride, (int)distance, scratch,
                                        NULL, (int)stride, (int)distance, sign, FFTW_ESTIMATE);
    else
        f->plan64 = fftw_plan_many_dft(1, &length, (int)count, scratch, NULL, (int)stride, (int)distance, scratch, NULL,
                                       (int)stride, (int)distance, sign, FFTW_ESTIMATE);
    msi_free(scratch);
    if (!f->plan32 && !f->plan64) {
        msi_free(f);
        return msi_error_set(MSI_ENOMEM, "FFTW cannot plan a transform of %lld points", (long long)n);
    }
    *out = f;
    return MSI_OK;
}

void msi_fft1d_run(const msi_fft1d *f, void *data)
{
    if (f->precision == MSI_FP32)
        fftwf_execute_dft(f->plan32, data, data);
    else
        fftw_execute_dft(f->plan64, data, data);
}

void msi_fft1d_free(msi_fft1d *f)
{
    if (!f) return;
#pragma omp critical(msi_fftw_planner)
    {
        if (f->plan32) fftwf_destroy_plan(f->plan32);
        if (f->plan64) fftw_destroy_plan(f->plan64);
    }
    msi_free(f);
}

extern const msi_column_fft_table msi_column_fft_table_base, msi_column_fft_table_avx2, msi_column_fft_table_avx512;

/* Divide n into stages. Returns: 0 if n has another prime factor */
static int make_stages(msi_column_part *part, int64_t n)
{
    static const int radix[] = {4, 2, 3, 5, 7};
    part->n = (int)n;
    part->n_stage = 0;
    for (int i = 0; i < 5; i++)
        for (; n % radix[i] == 0; n /= radix[i]) part->radix[part->n_stage++] = radix[i];
    return n == 1;
}

/* Return the largest divisor of n that is at most its square root. */
static int64_t near_root(int64_t n)
{
    int64_t divisor = 1;
    for (int64_t d = 1; d * d <= n; d++)
        if (n % d == 0) divisor = d;
    return divisor;
}

/* Set element i of a table to exp(-2 pi i step / n). */
static void set_turn(const msi_column_fft *f, int64_t i, int64_t step, int64_t n)
{
    const double phase = -2 * MSI_PI * (double)(step % n) / (double)n;
    if (f->precision == MSI_FP32)
        ((msi_c32 *)f->tables)[i] = (msi_c32){(float)cos(phase), (float)sin(phase)};
    else
        ((msi_c64 *)f->tables)[i] = (msi_c64){cos(phase), sin(phase)};
}

static const void *table_at(const msi_column_fft *f, int64_t i)
{
    return (const char *)f->tables + i * msi_complex_bytes(f->precision);
}

static void fill_tables(msi_column_fft *f)
{
    const int n1 = f->part[0].n, n2 = f->part[1].n;
    int64_t to = f->n;
    f->turn = f->tables;
    for (int k1 = 0; k1 < n1; k1++)
        for (int i = 0; i < n2; i++) set_turn(f, (int64_t)k1 * n2 + i, (int64_t)k1 * i, f->n);
    for (int half = 0; half < 2; half++) {
        msi_column_part *part = &f->part[half];
        int left = part->n;
        for (int s = 0; s < part->n_stage; left /= part->radix[s++]) {
            part->turn[s] = table_at(f, to);
            for (int j = 0; j < left / part->radix[s]; j++)
                for (int t = 1; t < part->radix[s]; t++) set_turn(f, to++, (int64_t)j * t, left);
        }
    }
}

int msi_column_fft_create(msi_column_fft **out, int64_t n, msi_precision precision)
{
    msi_column_fft *f;
    *out = NULL;
    MSI_TRY(msi_alloc(&f, 1, sizeof *f, "FFT plan"));
    f->n = n;
    f->precision = precision;
    const int64_t n1 = near_root(n);
    if (!make_stages(&f->part[0], n1) || !make_stages(&f->part[1], n / n1)) {
        msi_free(f);
        return msi_error_set(MSI_EARGUMENT, "cannot transform %lld points: a prime factor is above 7", (long long)n);
    }
    /* The tables of all stages of a transform have fewer elements than twice its length. */
    int rc =
        msi_alloc(&f->tables, n + 2 * (f->part[0].n + f->part[1].n), (size_t)msi_complex_bytes(precision), "FFT plan");
    if (rc) {
        msi_free(f);
        return rc;
    }
    fill_tables(f);
    *out = f;
    return MSI_OK;
}

/* The transforms of both steps have at most n points, and need a workspace of twice that. */
int64_t msi_column_fft_bytes(int64_t n)
{
    return (n + 2 * (n / near_root(n))) * 2 * MSI_COLUMN_LINE;
}

void msi_column_fft_run(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work)
{
    static const msi_column_fft_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_column_fft_table);
    const msi_column_fft_table *simd = table[msi_simd_best()];
    (f->precision == MSI_FP32 ? simd->run_f32 : simd->run_f64)(f, way, rows, work);
}

void msi_column_fft_free(msi_column_fft *f)
{
    if (!f) return;
    msi_free(f->tables);
    msi_free(f);
}
