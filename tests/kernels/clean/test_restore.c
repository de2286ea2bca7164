/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Restored images compared with the sum of gaussians, in double. test_restore cpu|cuda */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/kernels/clean/clean_cases.h"

/* Three planes of a sky: two with sources at random places, some negative, at edges and corners; one without
 * sources. */
typedef struct sky {
    int64_t nx, ny;
    double *model, *residual; /* [3][ny][nx] */
} sky;

enum { N_PLANE = 3, SOURCES = 40 };

static sky make_sky(int64_t nx, int64_t ny)
{
    sky s = {nx, ny, calloc((size_t)(N_PLANE * nx * ny), 8), calloc((size_t)(N_PLANE * nx * ny), 8)};
    uint64_t seed = 17;
    for (int64_t i = 0; i < N_PLANE * nx * ny; i++) s.residual[i] = 0.01 * clean_random(&seed);
    for (int p = 0; p < 2; p++)
        for (int k = 0; k < SOURCES; k++)
            s.model[p * nx * ny + (int64_t)((clean_random(&seed) + 0.5) * (double)(nx * ny))] += clean_random(&seed);
    s.model[0] = 1;
    s.model[nx * ny - 1] = -0.5;
    s.residual[nx * ny + 7] = NAN;
    return s;
}

static void free_sky(sky *s)
{
    free(s->model);
    free(s->residual);
}

static msi_planes *planes_of(const sky *s, const double *value, msi_precision precision)
{
    const msi_planes_shape shape = {s->nx, s->ny, N_PLANE, precision, clean_backend, 0};
    const int64_t n = N_PLANE * s->nx * s->ny;
    msi_planes *p;
    if (msi_planes_create(&p, &shape)) fail_msg("%s", msi_error_get());
    float *narrow = malloc((size_t)n * sizeof *narrow);
    for (int64_t i = 0; i < n; i++) narrow[i] = (float)value[i];
    assert_int_equal(msi_planes_upload(p, 0, N_PLANE, precision == MSI_FP32 ? (const void *)narrow : value), 0);
    free(narrow);
    return p;
}

static double *fetch(const msi_planes *p)
{
    const msi_planes_shape *s = msi_planes_shape_of(p);
    const int64_t n = N_PLANE * s->nx * s->ny;
    const int narrow = s->precision == MSI_FP32;
    double *out = malloc((size_t)n * sizeof *out);
    float *value = malloc((size_t)n * sizeof *value);
    assert_int_equal(msi_planes_fetch(p, 0, N_PLANE, narrow ? (void *)value : out), 0);
    for (int64_t i = 0; i < n && narrow; i++) out[i] = (double)value[i];
    free(value);
    return out;
}

/* Compute residual + sum of gaussians: the position angle from north through east, east to lower x. */
static double *direct(const sky *s, const msi_restore_spec *how)
{
    const int64_t n = s->nx * s->ny;
    double *out = malloc((size_t)(N_PLANE * n) * sizeof *out);
    for (int64_t i = 0; i < N_PLANE * n; i++) out[i] = s->residual[i];
    for (int64_t i = how->first * n; i < (how->first + how->n) * n; i++) {
        if (s->model[i] == 0) continue;
        for (int64_t k = i / n * n; k < i / n * n + n; k++) {
            const double east = (double)(i % n % s->nx - k % n % s->nx) * how->cell_x_rad;
            const double north = (double)(k % n / s->nx - i % n / s->nx) * how->cell_y_rad;
            const double along = (east * sin(how->beam.pa_rad) + north * cos(how->beam.pa_rad)) / how->beam.major_rad;
            const double across = (east * cos(how->beam.pa_rad) - north * sin(how->beam.pa_rad)) / how->beam.minor_rad;
            out[k] += s->model[i] * exp(-4 * log(2) * (along * along + across * across));
        }
    }
    return out;
}

static const msi_restore_spec beams[] = {
    {.beam = {6e-5, 3e-5, 0}, .cell_x_rad = 1e-5, .cell_y_rad = 1e-5, .first = 0, .n = 3},
    {.beam = {6e-5, 3e-5, 30 * MSI_PI / 180}, .cell_x_rad = 1e-5, .cell_y_rad = 1e-5, .first = 0, .n = 1},
    {.beam = {9e-5, 2e-5, 130 * MSI_PI / 180}, .cell_x_rad = 1e-5, .cell_y_rad = 2e-5, .first = 1, .n = 2},
    {.beam = {1e-5, 1e-5, 0}, .cell_x_rad = 1e-5, .cell_y_rad = 1e-5, .first = 0, .n = 3},
    /* a beam wider than the image, which must not wrap */
    {.beam = {9e-4, 1e-4, 80 * MSI_PI / 180}, .cell_x_rad = 1e-5, .cell_y_rad = 1e-5, .first = 0, .n = 2}};

static void test_sum_of_gaussians(void **state)
{
    (void)state;
    static const int64_t size[][2] = {{64, 48}, {37, 71}};
    for (int k = 0; k < 2; k++) {
        sky s = make_sky(size[k][0], size[k][1]);
        const int64_t n = N_PLANE * s.nx * s.ny;
        for (size_t b = 0; b < sizeof beams / sizeof *beams; b++) {
            double *want = direct(&s, &beams[b]);
            for (int wide = 0; wide < 2; wide++) {
                const msi_precision precision = wide ? MSI_FP64 : MSI_FP32;
                msi_planes *model = planes_of(&s, s.model, precision), *image = planes_of(&s, s.residual, precision);
                msi_planes *residual = planes_of(&s, s.residual, precision);
                /* Restore in place, with the image as the residual; and separately, where the other planes are
                 * unchanged. */
                if (msi_restore(image, k ? image : residual, model, &beams[b])) fail_msg("%s", msi_error_get());
                double *got = fetch(image);
                /* Some 40 sources of 1/2 Jy: rounding of the transforms, log2(n) steps of the sum's norm, about 10. */
                assert_true(clean_largest_distance(got, want, n) < (wide ? 1e-13 : 1e-5));
                free(got);
                msi_planes_free(model);
                msi_planes_free(residual);
                msi_planes_free(image);
            }
            free(want);
        }
        free_sky(&s);
    }
}

/* Pixels of the model that are not finite count as zero, and do not affect their neighbours. */
static void test_unknown_pixels(void **state)
{
    (void)state;
    sky s = make_sky(40, 30);
    s.model[11] = s.model[800] = 0;
    double *want = direct(&s, &beams[0]);
    s.model[11] = NAN;
    s.model[800] = INFINITY;
    msi_planes *model = planes_of(&s, s.model, MSI_FP64), *image = planes_of(&s, s.residual, MSI_FP64);
    assert_int_equal(msi_restore(image, image, model, &beams[0]), 0);
    double *got = fetch(image);
    assert_true(clean_largest_distance(got, want, N_PLANE * 1200) < 1e-13);
    assert_true(isnan(got[1200 + 7]));
    free(got);
    free(want);
    msi_planes_free(model);
    msi_planes_free(image);
    free_sky(&s);
}

static void test_refused(void **state)
{
    (void)state;
    sky s = make_sky(8, 8), other = make_sky(8, 9);
    msi_planes *a = planes_of(&s, s.model, MSI_FP32), *b = planes_of(&other, other.model, MSI_FP32);
    msi_planes *c = planes_of(&s, s.model, MSI_FP64);
    msi_restore_spec bad[] = {beams[0], beams[0], beams[0], beams[0], beams[0]};
    bad[0].beam.major_rad = NAN;
    bad[1].beam = (msi_beam){0};
    bad[2].cell_x_rad = 0;
    bad[3].n = 4;
    bad[4].first = -1;
    for (int i = 0; i < 5; i++) assert_int_equal(msi_restore(a, a, a, &bad[i]), MSI_EARGUMENT);
    assert_int_equal(msi_restore(a, a, b, &beams[0]), MSI_EARGUMENT);
    assert_int_equal(msi_restore(a, b, a, &beams[0]), MSI_EARGUMENT);
    assert_int_equal(msi_restore(c, c, a, &beams[0]), MSI_EARGUMENT);
    msi_planes_free(a);
    msi_planes_free(b);
    msi_planes_free(c);
    free_sky(&s);
    free_sky(&other);
}

/* At most the estimated memory is used, and all of it is freed. */
static void test_memory(void **state)
{
    (void)state;
    sky s = make_sky(200, 150);
    int64_t host, paged, device;
    msi_planes *model = planes_of(&s, s.model, MSI_FP32);
    const int64_t in_use = msi_memory_in_use();
    msi_restore_estimate(msi_planes_shape_of(model), &beams[0], &host, &paged, &device);
    assert_true(clean_backend == MSI_BACKEND_CPU ? device == 0 : device > 200 * 150 * 8);
    msi_memory_limit_set(in_use + host + (1 << 16)); /* tables of a few kilobytes in addition to images */
    assert_int_equal(msi_restore(model, model, model, &beams[0]), 0);
    /* On the CPU, with one thread or with three, which each have a column buffer, the estimate is at most 1.3 times the
     * memory used. */
    for (int n_thread = 1; n_thread <= 3 && clean_backend == MSI_BACKEND_CPU; n_thread += 2) {
        msi_restore_spec spec = beams[0];
        spec.n_thread = n_thread;
        msi_restore_estimate(msi_planes_shape_of(model), &spec, &host, &paged, &device);
        msi_memory_limit_set(in_use + host + (1 << 16));
        assert_int_equal(msi_restore(model, model, model, &spec), 0);
        msi_memory_limit_set(in_use + (int64_t)((double)host / 1.3));
        assert_int_equal(msi_restore(model, model, model, &spec), MSI_ENOMEM);
    }
    msi_memory_limit_set(0);
    assert_int_equal(msi_memory_in_use(), in_use);
    msi_planes_free(model);
    free_sky(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sum_of_gaussians), cmocka_unit_test(test_unknown_pixels),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_memory)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
