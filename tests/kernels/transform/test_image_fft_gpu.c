/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The GPU's transform of a padded plane into an image, against FFTW's and screens in double precision. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime_api.h>
#include <fftw3.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/method/geometry.h"
#include "kernels/transform/image_fft_cuda.h"
#include "tests/kernels/wproj/device_numbers.h"
#include "tests/support/wgrid_cases.h"

/* The screen turns by less than once: doubles know the phase of many turns less well than the tolerance asks for. */
static const double W_LAMBDA = 20;

/* Add to the image what the plane's transform shows there; the plane is overwritten. */
static void add_exactly(const msi_image_fft_shape *s, msi_c64 *plane, double *image)
{
    const msi_image_geometry *g = &s->image;
    fftw_complex *cells = (fftw_complex *)plane;
    fftw_plan plan = fftw_plan_dft_2d((int)s->nv, (int)s->nu, cells, cells, FFTW_FORWARD, FFTW_ESTIMATE);
    fftw_execute(plan);
    fftw_destroy_plan(plan);
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const int64_t i = x - g->nx / 2, j = y - g->ny / 2;
            const msi_c64 value = plane[(j + s->nv) % s->nv * s->nu + (i + s->nu) % s->nu];
            const double nu = msi_n_minus_1((double)i * g->cell_x_rad, (double)j * g->cell_y_rad) - s->n_mid;
            const double angle = s->has_w ? 2 * MSI_PI * W_LAMBDA * nu : 0;
            image[y * g->nx + x] += value.re * cos(angle) + value.im * sin(angle);
        }
}

/* Some 18 butterflies' roundings, sqrt(18) by chance, and those of screens and roots. */
static double tolerance(msi_precision precision)
{
    return 10 * (precision == MSI_FP32 ? 6e-8 : 1.2e-16);
}

static void check(int64_t nu, int64_t nv, int64_t nx, int64_t ny, int has_w, msi_precision precision)
{
    const msi_image_fft_shape shape = {.image = {nx, ny, 0.2 / (double)nx, 0.5 / (double)ny},
                                       .nu = nu,
                                       .nv = nv,
                                       .n_mid = -0.01,
                                       .has_w = has_w,
                                       .precision = precision};
    const int64_t n = nx * ny;
    uint64_t seed = (uint64_t)nv;
    msi_c64 *plane = random_numbers(&seed, nu * nv);
    double *image = msi_test_alloc(n, sizeof *image);
    float *narrow = msi_test_alloc(n, sizeof *narrow);
    for (int64_t i = 0; i < n; i++) image[i] = narrow[i] = (float)(100 * msi_random(&seed));
    const int64_t bytes = n * msi_image_pixel_bytes(precision);
    void *d_plane = numbers_to_device(plane, nu * nv, precision);
    void *d_image = to_device(precision == MSI_FP32 ? (void *)narrow : (void *)image, bytes);
    void *result = msi_test_alloc(n, sizeof(double));
    msi_image_fft *fft;
    assert_int_equal(msi_image_fft_create(&fft, &shape, NULL), 0);
    assert_int_equal(msi_image_fft_add(fft, d_plane, W_LAMBDA, d_image), 0);
    assert_int_equal(cudaMemcpy(result, d_image, (size_t)bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    msi_image_fft_free(fft);
    add_exactly(&shape, plane, image);
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double value = precision == MSI_FP32 ? (double)((float *)result)[i] : ((double *)result)[i];
        apart += (value - image[i]) * (value - image[i]);
        size += image[i] * image[i];
    }
    printf("  plane %lld x %lld, image %lld x %lld, fp%d: %.1e\n", (long long)nu, (long long)nv, (long long)nx,
           (long long)ny, precision == MSI_FP32 ? 32 : 64, sqrt(apart / size));
    assert_true(sqrt(apart / size) <= tolerance(precision));
    cudaFree(d_plane);
    cudaFree(d_image);
    free(plane);
    free(image);
    free(narrow);
    free(result);
}

/* Columns of every size that has kernels, and of one that has none; images as large as the plane. */
static void test_sizes(void **state)
{
    (void)state;
    static const int points[] = {48, 64, 80, 96, 112, 128, 144, 160, 192, 256};
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            check(50, 48 * points[i], 27, 25 * points[i] + 1, 1, (msi_precision)precision);
        check(60, 50, 40, 33, 1, (msi_precision)precision);
        check(18, 128 * 112, 18, 128 * 112, 0, (msi_precision)precision);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
    };
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
