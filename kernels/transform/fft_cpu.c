/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/transform/fft_cpu.h"

#include <fftw3.h>

#include "core/memory.h"
#include "core/status.h"

struct msi_fft1d {
    msi_precision precision;
    fftwf_plan plan32;
    fftw_plan plan64;
};

int msi_fft1d_create(msi_fft1d **out, int64_t n, msi_precision precision)
{
    return msi_fft1d_create_batch(out, n, 1, 1, n, 0, precision);
}

/* Estimated plans: measuring takes 0.1 to 1.4 s for the lengths in use and gains less than that (measured). */
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
    /* FFTW's planner serves one thread at a time. */
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
        return msi_error_set(MSI_ENOMEM, "FFTW made no plan for %lld points", (long long)n);
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
