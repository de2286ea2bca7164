/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The GPU's transform of a padded plane into an image, and of a model into a plane, against FFTW's and screens in
 * double precision. */
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
#include "kernels/method/method.h"
#include "kernels/transform/image_fft_cuda.h"
#include "tests/kernels/wproj/device_numbers.h"
#include "tests/support/wgrid_cases.h"

/* The screen turns by less than one turn: doubles know the phase of many turns less well than the tolerance
 * requires. */
static const double W_LAMBDA = 20;

/* Add the plane's transform to the image; the plane is overwritten. */
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

/* Allow the roundings of about 18 butterflies, sqrt(18) in random order, and those of screens and roots. */
static double tolerance(msi_precision precision)
{
    return 10 * (precision == MSI_FP32 ? 6e-8 : 1.2e-16);
}

static msi_image_fft_shape shape_of(int64_t nu, int64_t nv, int64_t nx, int64_t ny, int has_w, msi_precision precision)
{
    return (msi_image_fft_shape){.image = {nx, ny, 0.2 / (double)nx, 0.5 / (double)ny},
                                 .nu = nu,
                                 .nv = nv,
                                 .n_mid = -0.01,
                                 .has_w = has_w,
                                 .precision = precision};
}

static void check(int64_t nu, int64_t nv, int64_t nx, int64_t ny, int has_w, msi_precision precision)
{
    const msi_image_fft_shape shape = shape_of(nu, nv, nx, ny, has_w, precision);
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
    assert_int_equal(msi_image_fft_add(fft, d_plane, NULL, W_LAMBDA, d_image), 0);
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

/* Make a correction without symmetry, so that exchanged pixels are detected. */
static msi_taper random_taper(uint64_t *seed, int64_t nx, int64_t ny, double *along)
{
    msi_taper t = {.has_w = 1, .n_term = 2, .term = {2, 0.5}, .w_scale = 3, .n_mid = -0.01};
    for (int64_t i = 0; i < nx + ny; i++) along[i] = 1 + msi_random(seed);
    t.along_x = along;
    t.along_y = along + nx;
    return t;
}

/* Make the plane of a model as msi_image_fft_spread defines it. */
static void spread_exactly(const msi_image_fft_shape *s, const msi_taper *t, const double *model, msi_c64 *plane)
{
    const msi_image_geometry *g = &s->image;
    for (int64_t i = 0; i < s->nu * s->nv; i++) plane[i] = (msi_c64){0, 0};
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const int64_t i = x - g->nx / 2, j = y - g->ny / 2;
            const double n_1 = msi_n_minus_1((double)i * g->cell_x_rad, (double)j * g->cell_y_rad);
            const double value = model[y * g->nx + x] * t->along_x[x] * t->along_y[y] *
                                 msi_taper_w(t->term, t->n_term, t->w_scale, t->n_mid, n_1);
            const double angle = s->has_w ? 2 * MSI_PI * W_LAMBDA * (n_1 - s->n_mid) : 0;
            plane[(j + s->nv) % s->nv * s->nu + (i + s->nu) % s->nu] =
                (msi_c64){value * cos(angle), value * sin(angle)};
        }
    fftw_complex *cells = (fftw_complex *)plane;
    fftw_plan plan = fftw_plan_dft_2d((int)s->nv, (int)s->nu, cells, cells, FFTW_BACKWARD, FFTW_ESTIMATE);
    fftw_execute(plan);
    fftw_destroy_plan(plan);
}

static void check_spread(int64_t nu, int64_t nv, int64_t nx, int64_t ny, int has_w, msi_precision precision)
{
    const msi_image_fft_shape shape = shape_of(nu, nv, nx, ny, has_w, precision);
    const int64_t n = nx * ny, cells = nu * nv;
    uint64_t seed = (uint64_t)nv + 1;
    msi_c64 *plane = random_numbers(&seed, cells); /* must be overwritten completely */
    double *model = msi_test_alloc(n, sizeof *model), *along = msi_test_alloc(nx + ny, sizeof *along);
    float *narrow = msi_test_alloc(n, sizeof *narrow);
    for (int64_t i = 0; i < n; i++) model[i] = narrow[i] = (float)(2 * msi_random(&seed) - 1);
    const msi_taper taper = random_taper(&seed, nx, ny, along);
    msi_taper on_device = taper;
    on_device.along_x = to_device(along, (nx + ny) * (int64_t)sizeof *along);
    on_device.along_y = on_device.along_x + nx;
    void *d_plane = numbers_to_device(plane, cells, precision);
    void *d_model =
        to_device(precision == MSI_FP32 ? (void *)narrow : (void *)model, n * msi_image_pixel_bytes(precision));
    msi_image_fft *fft;
    assert_int_equal(msi_image_fft_create(&fft, &shape, NULL), 0);
    assert_int_equal(msi_image_fft_spread(fft, &on_device, d_model, W_LAMBDA, NULL, d_plane), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *result = numbers_to_host(d_plane, cells, precision);
    msi_image_fft_free(fft);
    spread_exactly(&shape, &taper, model, plane);
    double apart = 0, size = 0;
    for (int64_t i = 0; i < cells; i++) {
        const double re = result[i].re - plane[i].re, im = result[i].im - plane[i].im;
        apart += re * re + im * im;
        size += plane[i].re * plane[i].re + plane[i].im * plane[i].im;
    }
    printf("  model %lld x %lld, plane %lld x %lld, fp%d: %.1e\n", (long long)nx, (long long)ny, (long long)nu,
           (long long)nv, precision == MSI_FP32 ? 32 : 64, sqrt(apart / size));
    assert_true(sqrt(apart / size) <= tolerance(precision));
    cudaFree(on_device.along_x);
    cudaFree(d_plane);
    cudaFree(d_model);
    free(plane);
    free(model);
    free(along);
    free(narrow);
    free(result);
}

static void check_both(int64_t nu, int64_t nv, int64_t nx, int64_t ny, int has_w, msi_precision precision)
{
    check(nu, nv, nx, ny, has_w, precision);
    check_spread(nu, nv, nx, ny, has_w, precision);
}

/* Transform columns of every size that has kernels, and of one that has none; images may be as large as the plane. */
static void test_sizes(void **state)
{
    (void)state;
    static const int points[] = {48, 64, 72, 80, 96, 112, 120, 128, 144, 160, 192, 256};
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            check_both(50, 48 * points[i], 27, 25 * points[i] + 1, 1, (msi_precision)precision);
        check_both(60, 50, 40, 33, 1, (msi_precision)precision);
        check_both(18, 128 * 112, 18, 128 * 112, 0, (msi_precision)precision);
    }
}

enum { N_ROW = 3 };

/* Transform rows by FFTW. Backward rows hold only their lowest frequencies. */
static void transform_rows_exactly(msi_c64 *rows, int64_t n, int64_t kept, int forward)
{
    fftw_complex *cells = (fftw_complex *)rows;
    const int length = (int)n, sign = forward ? FFTW_FORWARD : FFTW_BACKWARD;
    fftw_plan plan =
        fftw_plan_many_dft(1, &length, N_ROW, cells, NULL, 1, length, cells, NULL, 1, length, sign, FFTW_ESTIMATE);
    for (int64_t i = 0; i < N_ROW * n; i++)
        if (!forward && i % n >= kept - kept / 2 && i % n < n - kept / 2) rows[i] = (msi_c64){0, 0};
    fftw_execute(plan);
    fftw_destroy_plan(plan);
}

static msi_c64 rounded(msi_c64 x, msi_precision precision)
{
    return precision == MSI_FP32 ? (msi_c64){(float)x.re, (float)x.im} : x;
}

enum { LEAST_LENGTH = 4096 };

static void check_rows(int64_t n, int64_t kept, int forward, msi_precision precision)
{
    uint64_t seed = (uint64_t)n;
    msi_row_fft *fft, *shorter;
    msi_c64 *rows = random_numbers(&seed, N_ROW * n);
    static const uint8_t used[N_ROW] = {1, 0, 1};
    void *d_rows = numbers_to_device(rows, N_ROW * n, precision), *d_used = to_device(used, sizeof used);
    assert_int_equal(msi_row_fft_create(&fft, n, precision, NULL), 0);
    /* A transform that needs less shared memory does not reduce the limit of another one. */
    assert_int_equal(msi_row_fft_create(&shorter, LEAST_LENGTH, precision, NULL), 0);
    if (!fft) printf("  rows of %lld, fp%d: not enough memory\n", (long long)n, precision == MSI_FP32 ? 32 : 64);
    if (fft) {
        const int rc = forward ? msi_row_fft_forward(fft, d_rows, N_ROW, d_used, kept)
                               : msi_row_fft_backward(fft, d_rows, N_ROW, d_used, kept);
        assert_int_equal(rc, 0);
        assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
        msi_c64 *result = numbers_to_host(d_rows, N_ROW * n, precision);
        for (int64_t i = n; i < 2 * n; i++) {
            const msi_c64 as_it_was = rounded(rows[i], precision);
            assert_true(result[i].re == as_it_was.re && result[i].im == as_it_was.im);
        }
        transform_rows_exactly(rows, n, kept, forward);
        double apart = 0, size = 0;
        for (int64_t i = 0; i < N_ROW * n; i++) {
            if (!used[i / n]) continue;
            if (forward && i % n >= kept - kept / 2 && i % n < n - kept / 2) continue;
            const double re = result[i].re - rows[i].re, im = result[i].im - rows[i].im;
            apart += re * re + im * im;
            size += rows[i].re * rows[i].re + rows[i].im * rows[i].im;
        }
        printf("  rows of %lld, %s, fp%d: %.1e\n", (long long)n, forward ? "forward" : "backward",
               precision == MSI_FP32 ? 32 : 64, sqrt(apart / size));
        assert_true(sqrt(apart / size) <= tolerance(precision));
        free(result);
    }
    msi_row_fft_free(fft);
    msi_row_fft_free(shorter);
    cudaFree(d_rows);
    cudaFree(d_used);
    free(rows);
}

/* Transform rows of every length of three passes, up to the largest that a block of this GPU can hold. */
static void test_rows(void **state)
{
    (void)state;
    int n_length = 0;
    for (int64_t n = LEAST_LENGTH; n <= 32768; n += 32) {
        if (!msi_row_fft_serves(n)) continue;
        n_length++;
        for (int both = 0; both < 4; both++) check_rows(n, n / 2 + 3, both % 2, both / 2 ? MSI_FP64 : MSI_FP32);
    }
    assert_int_equal(n_length, 52);
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++)
        check_both(4096, 48 * 48, 2051, 20, 1, (msi_precision)precision);
}

enum { SIZE = 64, STEP = 40, TURNED = 9, FIRST = -15, N_ACROSS = 103, N_DOWN = 58, N_SQUARE = 7 };

/* Squares that overlap, and that wrap round corners and edges. Most rows have none. */
static const uint32_t place[N_SQUARE] = {
    0, N_ACROSS - 1, N_ACROSS + 1, 20 * N_ACROSS + 50, 20 * N_ACROSS + 51, 21 * N_ACROSS + 50, N_DOWN *N_ACROSS - 1};

static int64_t under_square(int64_t step, int64_t cell, int64_t n)
{
    return (FIRST + step * STEP + (cell + TURNED) % SIZE + n) % n;
}

static void add_to_plane(const msi_c64 *square, int64_t nu, int64_t nv, msi_c64 *plane)
{
    for (int k = 0; k < N_SQUARE; k++)
        for (int64_t i = 0; i < SIZE * SIZE; i++) {
            const int64_t u = under_square(place[k] % N_ACROSS, i % SIZE, nu);
            msi_c64 *to = plane + under_square(place[k] / N_ACROSS, i / SIZE, nv) * nu + u;
            to->re += square[k * SIZE * SIZE + i].re;
            to->im += square[k * SIZE * SIZE + i].im;
        }
}

/* Check the image of a plane that squares add up to, in a workspace full of NaN. */
static void check_squares(msi_precision precision)
{
    const int64_t nu = 4096, nv = 48 * 48, n = 2051 * 1100;
    const msi_image_fft_shape shape = shape_of(nu, nv, 2051, 1100, 1, precision);
    uint64_t seed = 5;
    uint32_t row_first[N_DOWN + 1];
    for (uint32_t down = 0, k = 0; down <= N_DOWN; row_first[down++] = k)
        while (k < N_SQUARE && place[k] / N_ACROSS < down) k++;
    msi_c64 *cell = random_numbers(&seed, N_SQUARE * SIZE * SIZE), *plane = zeros(nu * nv);
    double *image = msi_test_alloc(n, sizeof *image);
    add_to_plane(cell, nu, nv, plane);
    void *d_cell = numbers_to_device(cell, N_SQUARE * SIZE * SIZE, precision), *d_plane = NULL, *d_image = NULL;
    const size_t bytes = (size_t)(n * msi_image_pixel_bytes(precision)),
                 plane_bytes = (size_t)(nu * nv * msi_complex_bytes(precision));
    assert_int_equal(cudaMalloc(&d_plane, plane_bytes), cudaSuccess);
    assert_int_equal(cudaMemset(d_plane, 0xff, plane_bytes), cudaSuccess);
    assert_int_equal(cudaMalloc(&d_image, bytes), cudaSuccess);
    assert_int_equal(cudaMemset(d_image, 0, bytes), cudaSuccess);
    const msi_plane_squares squares = {.cell = d_cell,
                                       .place = to_device(place, sizeof place),
                                       .row_first = to_device(row_first, sizeof row_first),
                                       .size = SIZE,
                                       .step = STEP,
                                       .n_across = N_ACROSS,
                                       .n_down = N_DOWN,
                                       .turned = TURNED,
                                       .first = FIRST};
    msi_image_fft *fft;
    void *result = msi_test_alloc(n, sizeof(double));
    assert_int_equal(msi_image_fft_create(&fft, &shape, NULL), 0);
    assert_true(msi_image_fft_can_add_squares(fft));
    assert_int_equal(msi_image_fft_add_squares(fft, &squares, d_plane, W_LAMBDA, d_image), 0);
    assert_int_equal(cudaMemcpy(result, d_image, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    msi_image_fft_free(fft);
    add_exactly(&shape, plane, image);
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double value = msi_image_value(result, precision, i);
        apart += (value - image[i]) * (value - image[i]);
        size += image[i] * image[i];
    }
    printf("  squares, fp%d: %.1e\n", precision == MSI_FP32 ? 32 : 64, sqrt(apart / size));
    assert_true(sqrt(apart / size) <= tolerance(precision));
    const void *const device[] = {d_cell, d_plane, d_image, squares.place, squares.row_first};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++) cudaFree((void *)device[i]);
    free(cell);
    free(plane);
    free(image);
    free(result);
}

static void test_squares(void **state)
{
    (void)state;
    check_squares(MSI_FP32);
    check_squares(MSI_FP64);
}

/* Apply screens that turn often, and a field whose screen has no short series. */
static void test_screens(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        msi_image_fft_shape shape = shape_of(60, 48 * 48, 40, 1100, 1, MSI_FP32);
        if (wide) shape.image.cell_y_rad = 1.8 / 1100;
        uint64_t seed = 9;
        const int64_t n = 40 * 1100;
        msi_c64 *plane = random_numbers(&seed, 60 * 48 * 48);
        double *image = msi_test_alloc(n, sizeof *image);
        float *result = msi_test_alloc(n, sizeof *result);
        void *d_plane = numbers_to_device(plane, 60 * 48 * 48, MSI_FP32), *d_image = to_device(result, n * 4);
        msi_image_fft *fft;
        assert_int_equal(msi_image_fft_create(&fft, &shape, NULL), 0);
        assert_int_equal(msi_image_fft_add(fft, d_plane, NULL, W_LAMBDA, d_image), 0);
        assert_int_equal(cudaMemcpy(result, d_image, (size_t)n * 4, cudaMemcpyDeviceToHost), cudaSuccess);
        msi_image_fft_free(fft);
        add_exactly(&shape, plane, image);
        double apart = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            apart += ((double)result[i] - image[i]) * ((double)result[i] - image[i]);
            size += image[i] * image[i];
        }
        printf("  screens of a %s field: %.1e\n", wide ? "wide" : "narrow", sqrt(apart / size));
        assert_true(sqrt(apart / size) <= tolerance(MSI_FP32));
        cudaFree(d_plane);
        cudaFree(d_image);
        free(plane);
        free(image);
        free(result);
    }
}

/* Padded sizes hold the requested size, are little larger, and are supported for rows and columns. */
static void test_padded_sizes(void **state)
{
    (void)state;
    int n_own = 0;
    for (int64_t n = 100; n < 30000; n += 7) {
        const int64_t size = msi_image_fft_size(n);
        assert_true(size >= n && size % 2 == 0 && size <= 107 * msi_fft_size(n) / 100);
        n_own += msi_row_fft_serves(size);
    }
    assert_true(n_own > 2500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),   cmocka_unit_test(test_rows),         cmocka_unit_test(test_squares),
        cmocka_unit_test(test_screens), cmocka_unit_test(test_padded_sizes),
    };
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
