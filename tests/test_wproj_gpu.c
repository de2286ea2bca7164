/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images by w-projection on a GPU: against the CPU's of the same plan, and by the gridder against direct sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/grid/wgrid_cuda.h"
#include "kernels/grid/wproj_gridder_cuda.h"
#include "tests/wproj_cases.h"

enum { MOST_IMAGES = 10, SKIPPED = 77 };

static int brief;

/* Relative L2 difference of one plane; both are NaN beyond the horizon. */
static double difference(const msi_image *a, const msi_image *b, int plane)
{
    int64_t n = msi_image_n_pixel(&a->geometry);
    double sum = 0, norm = 0;
    for (int64_t i = plane * n; i < (plane + 1) * n; i++) {
        double x = msi_pixel_at(a, i), y = msi_pixel_at(b, i);
        assert_int_equal(isnan(x), isnan(y));
        if (isnan(x)) continue;
        sum += (x - y) * (x - y);
        norm += y * y;
    }
    return sqrt(sum / norm);
}

static void allocate(const msi_wproj_parts *d, int n_image, const int *store_plane, msi_image *image)
{
    assert_int_equal(msi_image_alloc(image, &d->data.geometry, n_image, d->plan.precision), 0);
    for (int i = 0; i < n_image; i++)
        image->sum_weight[i] = d->store.sum_weight[store_plane[i] < 0 ? 0 : store_plane[i]];
}

static void image_on_gpu(const msi_wproj_parts *d, const int *store_plane, int64_t batch_samples, msi_image *image)
{
    msi_stage_times times = {0};
    if (msi_wproj_cuda_image(&d->plan, &d->kernels, &d->store, store_plane, batch_samples, image, &times))
        fail_msg("%s", msi_error_get());
}

/* Either side errs by the plan's rounding, of what the other is given too; four of them leave room for chance, and for
 * the factors of 22 bits of the tensor form, which err by two. */
static void compare(const msi_wproj_parts *d, const char *name, int n_image, const int *store_plane)
{
    msi_image cpu, gpu;
    msi_stage_times times = {0};
    allocate(d, n_image, store_plane, &cpu);
    allocate(d, n_image, store_plane, &gpu);
    assert_int_equal(
        msi_wproj_cpu_image(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, &d->store, store_plane, &cpu, &times), 0);
    for (int64_t batch_samples = 0; batch_samples < 2; batch_samples++) {
        double worst = 0;
        image_on_gpu(d, store_plane, batch_samples, &gpu);
        for (int i = 0; i < n_image; i++) worst = fmax(worst, difference(&gpu, &cpu, i));
        printf("  %-20s %s, %d slices, %s: off by %.1e, rounding %.1e\n", name,
               d->plan.precision == MSI_FP32 ? "fp32" : "fp64", d->plan.grid.n_slice,
               batch_samples ? "a segment at a time" : "all at once", worst, d->plan.errors.rounding);
        if (!(worst <= 4 * d->plan.errors.rounding)) fail_msg("off by %g", worst);
    }
    msi_image_free(&cpu);
    msi_image_free(&gpu);
}

/* Every form, spacing and lookup; three segments, one of a few rows; several planes and the PSF. */
static void test_same_plan(void **state)
{
    (void)state;
    const int store_plane[] = {2, -1, 0, 1};
    const msi_case c = {"same", 96, 80, 0.08, 1.1, 0.8, 8200, 2, 3, 1.2, CONCENTRATED};
    for (int i = 0; i < MSI_N_WPROJ_CHOICE; i += brief ? 3 : 1)
        for (int p = 0; p < 2; p++) {
            msi_precision precision = p ? MSI_FP64 : MSI_FP32;
            msi_wproj_parts d;
            msi_parts_store(&d, &c, precision, 9);
            msi_wproj_request r = msi_parts_request_with(&d, &msi_wproj_choices[i], precision);
            /* What the nearest of few sub-offsets leaves is the same on both. */
            if (r.lookup == MSI_WPROJ_LOOKUP_NEAREST) r.oversample = 32;
            msi_parts_plan(&d, &r);
            compare(&d, msi_wproj_choices[i].name, 4, store_plane);
            msi_parts_free(&d);
        }
}

/* More images than one pass takes, and fewer. */
static void test_number_of_images(void **state)
{
    (void)state;
    const int store_plane[MOST_IMAGES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, -1};
    const msi_case c = {"images", 48, 64, 0.1, 1, 0.7, 600, 3, 9, 1.2, SPREAD};
    for (int p = 0; p < 2; p++) {
        msi_wproj_parts d;
        msi_parts_store(&d, &c, p ? MSI_FP64 : MSI_FP32, 3);
        msi_wproj_request r = msi_parts_request(&d, 1e-3, p ? MSI_FP64 : MSI_FP32);
        msi_parts_plan(&d, &r);
        for (int n = 1; n <= MOST_IMAGES; n += brief ? 9 : 1) compare(&d, "images", n, store_plane);
        msi_parts_free(&d);
    }
}

/* 1e5 samples a cell keep their sum in fp32. */
static void test_crowded_cells(void **state)
{
    (void)state;
    const int plane = 0;
    const msi_case c = {"core", 64, 64, 0.3, 1, 0.5, brief ? 2000 : 20000, 8, 1, 1.0001, CORE};
    msi_wproj_parts single, twice;
    msi_image image, reference;
    msi_parts_store(&single, &c, MSI_FP32, 9);
    msi_parts_store(&twice, &c, MSI_FP64, 9);
    msi_wproj_request r = msi_parts_request(&single, 1e-2, MSI_FP32);
    msi_parts_plan(&single, &r);
    r.precision = MSI_FP64;
    msi_parts_plan(&twice, &r);
    allocate(&single, 1, &plane, &image);
    allocate(&twice, 1, &plane, &reference);
    image_on_gpu(&single, &plane, 0, &image);
    image_on_gpu(&twice, &plane, 0, &reference);
    double off = difference(&image, &reference, 0);
    printf("  off by %.1e\n", off);
    assert_true(off <= 2e-6);
    msi_image_free(&image);
    msi_image_free(&reference);
    msi_parts_free(&single);
    msi_parts_free(&twice);
}

static msi_gridder_spec spec_of(const msi_case_data *data, double accuracy)
{
    msi_gridder_spec spec = msi_wproj_spec(data, accuracy, "tile");
    spec.backend = MSI_BACKEND_CUDA;
    return spec;
}

/* By plans that are made for the GPU. */
static void test_image(void **state)
{
    (void)state;
    const double accuracies[] = {1e-2, 1e-3, 1e-4};
    for (int i = 0; i < MSI_N_WPROJ_CASE; i++)
        for (int a = 0; a < (brief ? 1 : 3); a++) {
            if (a >= 2 && msi_wproj_cases[i].nx > 250) continue;
            msi_case_data data;
            msi_image image;
            msi_gridder_report report;
            msi_case_make(&data, &msi_wproj_cases[i], 7);
            msi_gridder_spec spec = spec_of(&data, accuracies[a]);
            msi_case_image(&data, &spec, &image, &report);
            assert_string_equal(report.method, "wproj");
            assert_int_equal(report.backend, MSI_BACKEND_CUDA);
            assert_true(report.device_bytes > 0);
            double error = msi_error_to_peak(&data, &image, 300, 11);
            printf("  %-12s %s accuracy %.0e: error %.1e, estimate %.1e, %lld slices, %.1f + %.1f + %.1f ms\n",
                   msi_wproj_cases[i].name, report.precision == MSI_FP32 ? "fp32" : "fp64", accuracies[a], error,
                   report.error_estimate, (long long)report.n_w, 1e3 * report.sort_s, 1e3 * report.grid_s,
                   1e3 * report.transform_s);
            if (!(error <= report.error_estimate && report.error_estimate <= accuracies[a]))
                fail_msg("%s: error %g", msi_wproj_cases[i].name, error);
            msi_image_free(&image);
            msi_case_free(&data);
        }
}

/* Samples at the very edge of the uv plane wrap round the grid. */
static void test_edge_of_the_uv_plane(void **state)
{
    (void)state;
    const msi_case c = {"edge", 64, 64, 0.05, 1, 0.5, 400, 1, 1, 1, SPREAD};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    double limit_m = 0.5 / data.geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / data.freq_hz[0];
    for (int64_t row = 0; row < c.n_row; row += 3)
        data.uvw_m[3 * row + row % 2] = (row % 4 < 2 ? 1 : -1) * limit_m * (1 - 1e-12);
    msi_gridder_spec spec = spec_of(&data, 1e-3);
    msi_case_image(&data, &spec, &image, &report);
    assert_true(msi_error_to_peak(&data, &image, 200, 3) <= 1e-3);
    msi_image_free(&image);
    msi_case_free(&data);
}

/* No samples at all: NaN. */
static void test_nothing(void **state)
{
    (void)state;
    const msi_case c = {"nothing", 32, 32, 0.05, 1, 0.5, 20, 1, 1, 1, SPREAD};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    memset(data.weight, 0, sizeof *data.weight * 20);
    msi_gridder_spec spec = spec_of(&data, 1e-2);
    msi_case_image(&data, &spec, &image, &report);
    for (int64_t i = 0; i < 32 * 32; i++) assert_true(isnan(msi_pixel_at(&image, i)));
    msi_image_free(&image);
    msi_case_free(&data);
}

/* A plan that the device's indices cannot hold is refused before anything is made. */
static void test_refusal(void **state)
{
    (void)state;
    msi_wproj_plan plan = {.half_max = 8, .grid = {.nu = 65000, .nv = 512, .n_plane = 65536}};
    assert_int_equal(msi_wproj_cuda_check(&plan), 0);
    plan.grid.nu = 65536;
    assert_int_equal(msi_wproj_cuda_check(&plan), MSI_ERANGE);
    assert_true(strstr(msi_error_get(), "-backend cpu") != NULL);
    plan.grid.nu = 512;
    plan.grid.n_plane = 65537;
    assert_int_equal(msi_wproj_cuda_check(&plan), MSI_ERANGE);
}

/* "brief": for tools that slow a program down. */
int main(int argc, char **argv)
{
    if (!msi_wgrid_cuda_available()) {
        printf("skipped: %s\n", msi_backend_describe());
        return SKIPPED;
    }
    brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_plan),     cmocka_unit_test(test_number_of_images),
        cmocka_unit_test(test_crowded_cells), cmocka_unit_test(test_image),
        cmocka_unit_test(test_nothing),       cmocka_unit_test(test_edge_of_the_uv_plane),
        cmocka_unit_test(test_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
