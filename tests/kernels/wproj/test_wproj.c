/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares images by w-projection on the CPU with direct sums, for automatic and given plans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/wproj/wproj_cpu.h"
#include "tests/kernels/wproj/wproj_cases.h"

static void test_image(void **state)
{
    (void)state;
    const double accuracies[] = {1e-2, 1e-3, 1e-4};
    for (int i = 0; i < MSI_N_WPROJ_CASE; i++)
        for (int a = 0; a < 3; a++) {
            if (a == 2 && msi_wproj_cases[i].nx > 250) continue;
            msi_case_data data;
            msi_image image;
            msi_gridder_report report;
            msi_case_make(&data, &msi_wproj_cases[i], 7);
            msi_gridder_spec spec = msi_wproj_spec(&data, accuracies[a], "tile");
            msi_case_image(&data, &spec, &image, &report);
            assert_string_equal(report.method, "wproj");
            msi_check_estimate(msi_wproj_cases[i].name, accuracies[a], msi_error_to_peak(&data, &image, 300, 11),
                               report.error_estimate);
            msi_image_free(&image);
            msi_case_free(&data);
        }
}

/* Every form, spacing and lookup reaches the accuracy, and its error estimate holds. */
static void test_choices(void **state)
{
    (void)state;
    const msi_case c = {.name = "choices",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.08,
                        .w_ratio = 0.8,
                        .n_row = 1500,
                        .n_chan = 3,
                        .band = 1.2};
    for (int i = 0; i < MSI_N_WPROJ_CHOICE; i++) {
        msi_wproj_parts d;
        msi_image image;
        msi_parts_store(&d, &c, MSI_FP32, 9);
        msi_wproj_request r = msi_parts_request_with(&d, &msi_wproj_choices[i], MSI_FP32);
        msi_parts_plan(&d, &r);
        if (r.n_slice) assert_int_equal(d.plan.grid.n_slice, r.n_slice);
        assert_int_equal(d.plan.grid.plane_sqrt, r.spacing == MSI_WPROJ_SPACING_SQRT);
        assert_int_equal(d.plan.grid.linear, r.lookup != MSI_KERNEL_NEAREST);
        msi_parts_image(&d, &image);
        msi_check_estimate(msi_wproj_choices[i].name, r.accuracy, msi_error_to_peak(&d.data, &image, 200, 3),
                           d.plan.error_estimate);
        msi_image_free(&image);
        msi_parts_free(&d);
    }
}

/* Try the gridder's options: slices and lookup as requested, by every strategy of images. An option that a strategy
 * does not support is refused by name. */
static void test_options(void **state)
{
    (void)state;
    const msi_case c = {.name = "options",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.08,
                        .w_ratio = 0.8,
                        .n_row = 500,
                        .n_chan = 2,
                        .band = 1.2};
    const char *const strategies[] = {"tile", "window"};
    msi_case_data data;
    msi_gridder_report report;
    msi_case_make(&data, &c, 5);
    for (int s = 0; s < 2; s++)
        for (int kernel = MSI_KERNEL_AUTO; kernel <= MSI_KERNEL_LINEAR; kernel++) {
            msi_image image;
            msi_gridder_spec spec = msi_wproj_spec(&data, 1e-2, strategies[s]);
            spec.n_slice = 3 + kernel;
            spec.kernel = (msi_kernel_lookup)kernel;
            msi_case_image(&data, &spec, &image, &report);
            assert_string_equal(report.strategy, strategies[s]);
            assert_int_equal(report.n_w, spec.n_slice);
            msi_check_estimate(strategies[s], 1e-2, msi_error_to_peak(&data, &image, 200, 3), report.error_estimate);
            msi_image_free(&image);
        }
    for (int s = 0; s < 3; s++) {
        msi_gridder *g;
        msi_gridder_spec spec = msi_wproj_spec(&data, 1e-2, s < 2 ? strategies[s] : NULL);
        spec.kernel = MSI_KERNEL_TEXTURE;
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_estimate(g, 1000, 500, 0, 100, &report), MSI_ERANGE);
        assert_true(strstr(msi_error_get(), "kernel texture") != NULL);
        msi_gridder_free(g);
    }
    msi_case_free(&data);
}

/* A plan follows its lookups: texture units need more sub-cells than exact fractions, the nearest lookup far more. A
 * strategy that interpolates only separable kernels gets full kernels only with the nearest lookup. */
static void test_lookups(void **state)
{
    (void)state;
    const msi_case c = {.name = "lookups",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 1500,
                        .n_chan = 3,
                        .band = 1.2};
    msi_wproj_parts d;
    int32_t oversample[4];
    msi_parts_store(&d, &c, MSI_FP32, 9);
    for (int lookup = MSI_KERNEL_NEAREST; lookup <= MSI_KERNEL_TEXTURE; lookup++) {
        msi_wproj_request r = msi_parts_request(&d, 1e-3, MSI_FP32);
        r.form = MSI_WPROJ_FORM_SEPARABLE;
        r.lookup = (msi_kernel_lookup)lookup;
        assert_int_equal(msi_wproj_plan_make(&d.plan, &r), 0);
        assert_int_equal(d.plan.texture, lookup == MSI_KERNEL_TEXTURE);
        assert_int_equal(d.plan.grid.linear, lookup != MSI_KERNEL_NEAREST);
        oversample[lookup] = d.plan.grid.oversample;
        msi_wproj_plan_free(&d.plan);
        r.form = MSI_WPROJ_FORM_FULL;
        r.full_nearest = 1;
        r.accuracy = 0.1;
        int rc = msi_wproj_plan_make(&d.plan, &r);
        assert_int_equal(rc, lookup == MSI_KERNEL_NEAREST ? 0 : MSI_ERANGE);
        msi_wproj_plan_free(&d.plan);
    }
    assert_true(oversample[MSI_KERNEL_LINEAR] < oversample[MSI_KERNEL_TEXTURE]);
    assert_true(2 * oversample[MSI_KERNEL_TEXTURE] < oversample[MSI_KERNEL_NEAREST]);
    msi_wproj_request r = msi_parts_request(&d, 0.1, MSI_FP32);
    r.form = MSI_WPROJ_FORM_FULL;
    r.full_nearest = 1;
    assert_int_equal(msi_wproj_plan_make(&d.plan, &r), 0);
    assert_int_equal(d.plan.grid.linear, 0);
    msi_wproj_plan_free(&d.plan);
    msi_vis_store_free(&d.store);
    msi_case_free(&d.data);
}

/* Try fewer sub-cells than the accuracy needs: the estimate is larger, and still holds. */
static void test_coarse_oversampling(void **state)
{
    (void)state;
    const msi_case c = {.name = "coarse",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 1500,
                        .n_chan = 3,
                        .band = 1.2};
    for (int32_t oversample = 4; oversample <= 8; oversample *= 2) {
        msi_wproj_parts d;
        msi_image image;
        msi_parts_store(&d, &c, MSI_FP32, 9);
        msi_wproj_request r = msi_parts_request(&d, 1e-2, MSI_FP32);
        r.oversample = oversample;
        r.lookup = MSI_KERNEL_NEAREST;
        msi_parts_plan(&d, &r);
        msi_parts_image(&d, &image);
        double error = msi_error_to_peak(&d.data, &image, 300, 3);
        printf("  nearest of %d: error %.2f, estimate %.2f\n", oversample, error, d.plan.error_estimate);
        assert_true(d.plan.error_estimate > 1e-1);
        assert_true(error <= d.plan.error_estimate && d.plan.error_estimate <= 30 * error);
        msi_image_free(&image);
        msi_parts_free(&d);
    }
}

/* Image several planes and the PSF in one call; the PSF at the phase centre is 1. */
static void test_planes_and_psf(void **state)
{
    (void)state;
    const msi_case c = {.name = "planes",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.1,
                        .w_ratio = 0.7,
                        .n_row = 600,
                        .n_chan = 3,
                        .n_plane = 3,
                        .band = 1.2};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    msi_gridder_spec spec = msi_wproj_spec(&data, 1e-3, "tile");
    spec.psf = 1;
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(image.n_plane, 4);
    for (int p = 0; p < 4; p++) assert_true(msi_case_error(&data, &image, p, p < 3 ? p : -1, 100, 5) <= 1e-3);
    assert_true(fabs(msi_pixel_at(&image, (3 * 64 + 32) * 64 + 32) - 1) <= 1e-3);
    msi_image_free(&image);
    msi_case_free(&data);
}

/* Grid one sample at any place, so that errors do not average out: the image is a wave of amplitude |V|, and the error
 * of each pixel is at most the sum of the plan's errors. */
static void test_one_sample(void **state)
{
    (void)state;
    double worst = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const msi_case c = {.name = "one",
                            .nx = 48,
                            .ny = 32,
                            .field_x_rad = 0.2,
                            .stretch_y = 1.2,
                            .w_ratio = 0.9,
                            .n_row = 1 + seed % 2,
                            .n_chan = 1};
        msi_wproj_parts d;
        msi_image image;
        msi_parts_store(&d, &c, MSI_FP64, seed);
        if (d.store.n_sample == 0) {
            msi_vis_store_free(&d.store);
            msi_case_free(&d.data);
            continue;
        }
        msi_wproj_request r = msi_parts_request(&d, pow(10, -1 - 3 * (double)(seed % 7) / 6), MSI_FP64);
        r.w_max_lambda *= 1 + (double)(seed % 3); /* its w in the middle of a slice or not */
        msi_parts_plan(&d, &r);
        msi_parts_image(&d, &image);
        const msi_wproj_errors *e = &d.plan.errors;
        double sum = e->cut + e->sub_cell + e->plane + e->separable + e->rounding;
        double error = msi_error_to_amplitude(&d.data, &image, 100, seed);
        worst = fmax(worst, error / sum);
        if (!(error <= sum)) fail_msg("seed %d: %g, bounded by %g", (int)seed, error, sum);
        msi_image_free(&image);
        msi_parts_free(&d);
    }
    printf("  at most %.2f of the bound\n", worst);
    assert_true(worst > 0.2);
}

static void test_edge_of_the_uv_plane(void **state)
{
    (void)state;
    msi_check_edge(MSI_BACKEND_CPU, "tile");
}

static void test_nothing(void **state)
{
    (void)state;
    msi_check_nothing(MSI_BACKEND_CPU, "tile");
}

/* An array's core needs a grid of the core's size, not the image's; each slice's box contains its samples. */
static void test_trimmed_grid(void **state)
{
    (void)state;
    const msi_case c = {.name = "core",
                        .nx = 512,
                        .ny = 512,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 3000,
                        .n_chan = 2,
                        .band = 1.2,
                        .layout = CORE};
    msi_wproj_parts d;
    msi_wproj_box box;
    msi_image image;
    msi_parts_store(&d, &c, MSI_FP32, 9);
    msi_wproj_request r = msi_parts_request(&d, 1e-2, MSI_FP32);
    msi_parts_plan(&d, &r);
    assert_int_equal(msi_wproj_box_create(&box, &d.plan, &d.kernels, &d.store), 0);
    int64_t whole = d.plan.grid.nu * d.plan.grid.nv;
    printf("  %lld of %lld cells\n", (long long)box.capacity, (long long)whole);
    /* 3 % of the plane either way is 36 cells or so, which meet two tiles; rows are as long as the image's. */
    assert_true(box.capacity <= 512 * 4 * d.plan.tile && box.n_u <= 4 * d.plan.tile);
    assert_true(whole > 2 * box.capacity);
    msi_wproj_box_destroy(&box);
    msi_parts_image(&d, &image);
    assert_true(msi_error_to_peak(&d.data, &image, 100, 3) <= 1e-2);
    msi_image_free(&image);
    msi_parts_free(&d);
}

/* 1e5 samples a cell keep their sum in fp32. */
static void test_crowded_cells(void **state)
{
    (void)state;
    const msi_case c = {.name = "core",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.5,
                        .n_row = 20000,
                        .n_chan = 8,
                        .band = 1.0001,
                        .layout = CORE};
    msi_wproj_parts single, twice;
    msi_image image, reference;
    msi_parts_store(&single, &c, MSI_FP32, 9);
    msi_parts_store(&twice, &c, MSI_FP64, 9);
    msi_wproj_request r = msi_parts_request(&single, 1e-2, MSI_FP32);
    msi_parts_plan(&single, &r);
    r.precision = MSI_FP64;
    msi_parts_plan(&twice, &r);
    msi_parts_image(&single, &image);
    msi_parts_image(&twice, &reference);
    double difference = msi_image_difference(&image, &reference, 0);
    printf("  off by %.1e\n", difference);
    assert_true(difference <= 2e-6);
    msi_image_free(&image);
    msi_image_free(&reference);
    msi_parts_free(&single);
    msi_parts_free(&twice);
}

static void test_threads(void **state)
{
    (void)state;
    const msi_case c = {.name = "threads",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.2,
                        .w_ratio = 0.8,
                        .n_row = 2000,
                        .n_chan = 3,
                        .band = 1.3,
                        .layout = CONCENTRATED};
    msi_case_data data;
    msi_image one, five;
    msi_gridder_report report;
    msi_case_make(&data, &c, 21);
    msi_gridder_spec spec = msi_wproj_spec(&data, 1e-2, "tile");
    spec.n_thread = 1;
    msi_case_image(&data, &spec, &one, &report);
    spec.n_thread = 5;
    msi_case_image(&data, &spec, &five, &report);
    assert_memory_equal(one.pixel, five.pixel, sizeof(float) * 128 * 128);
    msi_image_free(&one);
    msi_image_free(&five);
    msi_case_free(&data);
}

/* An impossible plan is refused with a reason. Less memory for kernels gives a slower plan of the same accuracy. */
static void test_refusals_and_memory(void **state)
{
    (void)state;
    const msi_case c = {
        .name = "refused", .nx = 256, .ny = 256, .field_x_rad = 0.3, .w_ratio = 0.8, .n_row = 500, .n_chan = 1};
    msi_wproj_parts d;
    msi_parts_store(&d, &c, MSI_FP64, 9);
    msi_wproj_request r = msi_parts_request(&d, 1e-9, MSI_FP64);
    assert_int_equal(msi_wproj_plan_make(&d.plan, &r), MSI_ERANGE);
    assert_true(strstr(msi_error_get(), "accuracy") != NULL);
    r = msi_parts_request(&d, 1e-2, MSI_FP64);
    r.form = MSI_WPROJ_FORM_FULL;
    assert_int_equal(msi_wproj_plan_make(&d.plan, &r), 0);
    double cost_s = d.plan.cost_s;
    r.table_bytes = d.plan.table_bytes / 3;
    msi_wproj_plan_free(&d.plan);
    assert_int_equal(msi_wproj_plan_make(&d.plan, &r), 0);
    assert_true(d.plan.table_bytes <= r.table_bytes && d.plan.cost_s > cost_s && d.plan.error_estimate <= 1e-2);
    msi_wproj_plan_free(&d.plan);
    r.oversample = 7;
    assert_int_equal(msi_wproj_plan_make(&d.plan, &r), MSI_ERANGE);
    msi_vis_store_free(&d.store);
    msi_case_free(&d.data);
}

/* Grids sum to what their visibilities sum to: every kernel's taps add up to 1 within what cutting off leaves. */
static void test_conservation(void **state)
{
    (void)state;
    const msi_case c = {
        .name = "sum", .nx = 64, .ny = 64, .field_x_rad = 0.1, .w_ratio = 0.5, .n_row = 300, .n_chan = 2, .band = 1.2};
    msi_wproj_parts d;
    msi_wproj_box box;
    msi_parts_store(&d, &c, MSI_FP64, 9);
    for (int64_t s = 0; s < d.store.n_segment; s++)
        for (int64_t i = 0; i < d.store.segment[s].n_row * d.store.segment[s].n_chan; i++)
            ((msi_c64 *)d.store.segment[s].vis)[i] = (msi_c64){1, 0};
    msi_wproj_request r = msi_parts_request(&d, 1e-3, MSI_FP64);
    msi_parts_plan(&d, &r);
    assert_int_equal(msi_wproj_box_create(&box, &d.plan, &d.kernels, &d.store), 0);
    msi_c64 sum = {0, 0};
    for (int32_t s = 0; s < d.plan.grid.n_slice; s++) {
        if (!msi_wproj_box_open(&box, s)) continue;
        assert_int_equal(msi_wproj_cpu_grid_slice(&box, MSI_WPROJ_CPU_TILE, &d.store, 0, s), 0);
        for (int64_t v = 0; v < box.n_v; v++)
            for (int64_t u = 0; box.row_used[v] && u < box.n_u; u++) {
                const msi_c64 *cell = (const msi_c64 *)(const void *)box.cells + v * box.stride + u;
                sum.re += cell->re;
                sum.im += cell->im;
            }
    }
    double total = d.store.sum_weight[0];
    assert_true(hypot(sum.re - total, sum.im) <= d.plan.error_estimate * total);
    msi_wproj_box_destroy(&box);
    msi_parts_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_coarse_oversampling),
        cmocka_unit_test(test_planes_and_psf),
        cmocka_unit_test(test_one_sample),
        cmocka_unit_test(test_edge_of_the_uv_plane),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_trimmed_grid),
        cmocka_unit_test(test_crowded_cells),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refusals_and_memory),
        cmocka_unit_test(test_conservation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
