/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection on the CPU: the fast form against the plain one, degridding against direct sums and gridding. */
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
#include "kernels/method/simd.h"
#include "tests/support/direct_sum.h"
#include "tests/kernels/wproj/wproj_cases.h"

static double difference_of_cells(const void *a, const void *b, int64_t n, int fp32)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < 2 * n; i++) {
        double x = fp32 ? (double)((const float *)a)[i] : ((const double *)a)[i];
        double y = fp32 ? (double)((const float *)b)[i] : ((const double *)b)[i];
        difference += (x - y) * (x - y);
        norm += y * y;
    }
    return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

/* Compare a form's cells against the plain ones, slice by slice. */
static void compare_slices(msi_wproj_parts *d, msi_wproj_cpu_form form, const char *name)
{
    msi_wproj_box fast, plain;
    int fp32 = d->plan.precision == MSI_FP32;
    double worst = 0;
    assert_int_equal(msi_wproj_box_create(&fast, &d->plan, &d->kernels, &d->store), 0);
    assert_int_equal(msi_wproj_box_create(&plain, &d->plan, &d->kernels, &d->store), 0);
    for (int32_t s = 0; s < d->plan.grid.n_slice; s++) {
        int open = msi_wproj_box_open(&fast, s);
        assert_int_equal(open, msi_wproj_box_open(&plain, s));
        if (!open) continue;
        assert_int_equal(msi_wproj_cpu_grid_slice(&fast, form, &d->store, 0, s), 0);
        assert_int_equal(msi_wproj_cpu_grid_slice(&plain, MSI_WPROJ_CPU_REFERENCE, &d->store, 0, s), 0);
        double difference = difference_of_cells(fast.cells, plain.cells, plain.n_v * plain.stride, fp32);
        worst = fmax(worst, difference);
    }
    /* Sums of a few hundred terms in another order, each rounded once. */
    printf("  %-20s %s %s: off by %.1e\n", name, fp32 ? "fp32" : "fp64",
           form == MSI_WPROJ_CPU_TILE ? msi_simd_name() : "window", worst);
    assert_true(worst <= (fp32 ? 1e-6 : 1e-14));
    msi_wproj_box_destroy(&fast);
    msi_wproj_box_destroy(&plain);
}

/* Compare a form's visibilities of a model with those of the plain loops. */
static void compare_degridding(msi_wproj_parts *d, msi_wproj_cpu_form form, const char *name, const msi_image *model)
{
    static const char *const of_form[] = {"", "gather", "window", "scatter"};
    msi_stage_times times = {0};
    msi_vis_store fast, plain;
    msi_parts_coordinates(d, &fast);
    msi_parts_coordinates(d, &plain);
    assert_int_equal(msi_wproj_cpu_predict(&d->plan, &d->kernels, form, &fast, model, &times), 0);
    assert_int_equal(msi_wproj_cpu_predict(&d->plan, &d->kernels, MSI_WPROJ_CPU_REFERENCE, &plain, model, &times), 0);
    double difference = msi_store_difference(&fast, &plain);
    printf("  %-20s %s %s: degridded off by %.1e\n", name, d->plan.precision == MSI_FP32 ? "fp32" : "fp64",
           form == MSI_WPROJ_CPU_TILE ? msi_simd_name() : of_form[form], difference);
    assert_true(difference <= (d->plan.precision == MSI_FP32 ? 1e-6 : 1e-14));
    msi_vis_store_free(&fast);
    msi_vis_store_free(&plain);
}

static void test_fast_against_plain(void **state)
{
    (void)state;
    msi_simd all[MSI_N_SIMD];
    int n_simd = msi_simd_all(all);
    const msi_case c = {.name = "forms",
                        .nx = 96,
                        .ny = 80,
                        .field_x_rad = 0.1,
                        .stretch_y = 1.1,
                        .w_ratio = 0.8,
                        .n_row = 700,
                        .n_chan = 3,
                        .band = 1.2,
                        .layout = CONCENTRATED};
    for (int simd = 0; simd < n_simd; simd++)
        for (int fp64 = 0; fp64 < 2; fp64++)
            for (int i = 0; i < MSI_N_WPROJ_CHOICE; i++) {
                msi_wproj_parts d;
                msi_image model;
                msi_case_pixels pixels;
                msi_precision precision = fp64 ? MSI_FP64 : MSI_FP32;
                msi_simd_use(all[simd]);
                msi_parts_store(&d, &c, precision, 9);
                msi_wproj_request r = msi_parts_request_with(&d, &msi_wproj_choices[i], precision);
                if (r.accuracy < 1e-2) r.accuracy = 1e-2; /* the loops are the same, the plain ones slow */
                msi_parts_plan(&d, &r);
                const char *name = msi_wproj_choices[i].name;
                compare_slices(&d, MSI_WPROJ_CPU_TILE, name);
                msi_case_pixels_draw(&pixels, &d.data.geometry, 20, 5);
                msi_case_model(&model, &d.data.geometry, 1, &pixels, precision);
                compare_degridding(&d, MSI_WPROJ_CPU_TILE, name, &model);
                if (simd == 0) {
                    compare_slices(&d, MSI_WPROJ_CPU_WINDOW, name);
                    compare_degridding(&d, MSI_WPROJ_CPU_WINDOW, name, &model);
                    compare_degridding(&d, MSI_WPROJ_CPU_SCATTER, name, &model);
                }
                msi_image_free(&model);
                msi_parts_free(&d);
            }
    msi_simd_use(MSI_N_SIMD);
}

/* Try supports of several vectors, as one slice of large w has them. */
static void test_long_rows(void **state)
{
    (void)state;
    msi_simd all[MSI_N_SIMD];
    int n_simd = msi_simd_all(all);
    const msi_case c = {
        .name = "long", .nx = 64, .ny = 64, .field_x_rad = 0.5, .w_ratio = 0.9, .n_row = 300, .n_chan = 1};
    for (int simd = 0; simd < n_simd; simd++)
        for (int form = MSI_WPROJ_FORM_SEPARABLE; form <= MSI_WPROJ_FORM_FULL; form++) {
            msi_wproj_parts d;
            msi_simd_use(all[simd]);
            msi_parts_store(&d, &c, MSI_FP32, 9);
            msi_wproj_request r = msi_parts_request(&d, 0.1, MSI_FP32);
            r.form = (msi_wproj_form)form;
            r.n_slice = form == MSI_WPROJ_FORM_FULL ? 1 : 0;
            msi_parts_plan(&d, &r);
            if (form == MSI_WPROJ_FORM_FULL) assert_true(d.plan.half_max >= 12);
            compare_slices(&d, MSI_WPROJ_CPU_TILE, form == MSI_WPROJ_FORM_FULL ? "long, full" : "long");
            if (simd == 0) compare_slices(&d, MSI_WPROJ_CPU_WINDOW, "long");
            msi_parts_free(&d);
        }
    msi_simd_use(MSI_N_SIMD);
}

static void test_predict(void **state)
{
    (void)state;
    for (int i = 0; i < MSI_N_WPROJ_CASE; i++)
        for (double accuracy = 1e-2; accuracy > 0.9e-3; accuracy *= 0.1) {
            msi_case_data data;
            msi_image model;
            msi_gridder_report report;
            msi_case_pixels pixels;
            msi_case_make(&data, &msi_wproj_cases[i], 13);
            int64_t n = msi_wproj_cases[i].n_row * msi_wproj_cases[i].n_chan;
            msi_c64 *vis = calloc((size_t)n, sizeof *vis), *truth = calloc((size_t)n, sizeof *truth);
            assert_true(vis && truth);
            msi_case_pixels_draw(&pixels, &data.geometry, 40, 17);
            msi_case_model(&model, &data.geometry, 1, &pixels, MSI_FP32);
            msi_gridder_spec spec = msi_wproj_spec(&data, accuracy, "auto");
            spec.precision = MSI_PRECISION_FP32;
            msi_case_predict(&data, &spec, &model, vis, &report);
            msi_direct_visibility(&data.block, &data.geometry, &(msi_pixels){pixels.n, pixels.x, pixels.y},
                                  pixels.flux_jy, truth);
            double worst, error = msi_vis_distance(vis, truth, n, &worst);
            msi_check_estimate(msi_wproj_cases[i].name, accuracy, error, report.error_estimate);
            msi_image_free(&model);
            msi_case_free(&data);
            free(vis);
            free(truth);
        }
}

/* Try samples beyond the image's uv plane, at its edge, and at extreme distances. */
static void test_predict_everywhere(void **state)
{
    (void)state;
    const msi_case c = msi_wproj_outside;
    msi_case_data data;
    msi_image model;
    msi_gridder_report report;
    msi_case_pixels pixels;
    enum { N = 1200 };
    static msi_c64 vis[N], truth[N];
    msi_case_make(&data, &c, 3);
    double limit_m = 0.5 / data.geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / data.freq_hz[0], worst;
    for (int64_t row = 0; row < c.n_row; row++) {
        double *uvw = data.uvw_m + 3 * row;
        if (row % 4 == 0) uvw[row / 4 % 2] *= 1000;
        if (row % 4 == 1) uvw[0] = row % 8 == 1 ? limit_m : -limit_m;
    }
    msi_case_pixels_draw(&pixels, &data.geometry, 40, 17);
    msi_case_model(&model, &data.geometry, 1, &pixels, MSI_FP32);
    msi_gridder_spec spec = msi_wproj_spec(&data, 1e-3, "tile");
    spec.precision = MSI_PRECISION_FP32;
    msi_case_predict(&data, &spec, &model, vis, &report);
    msi_direct_visibility(&data.block, &data.geometry, &(msi_pixels){pixels.n, pixels.x, pixels.y}, pixels.flux_jy,
                          truth);
    assert_true(msi_vis_distance(vis, truth, N, &worst) <= 1e-3);
    for (int64_t row = 0; row < c.n_row; row++) data.uvw_m[3 * row + row % 2] *= 1e30;
    msi_case_predict(&data, &spec, &model, vis, &report);
    for (int i = 0; i < N; i++) assert_true(isfinite(vis[i].re) && isfinite(vis[i].im));
    msi_image_free(&model);
    msi_case_free(&data);
}

/* Find the largest |Re<Ax,y> - Re<x,A*y>| / (||Ax|| ||y||) of every strategy that degrids with every one that grids,
 * with weights 1. */
static double adjointness(uint64_t seed, msi_precision precision)
{
    static const char *const degrids[] = {"tile", "window", "gather", "scatter"}, *const grids[] = {"tile", "window"};
    uint64_t random;
    msi_case c = msi_case_adjoint(seed, 2, 30, 2.5, 80, &random);
    msi_case_data data;
    msi_image model;
    msi_gridder_report predicted, imaged;
    msi_case_make(&data, &c, seed);
    int64_t n = c.n_row * c.n_chan;
    for (int64_t i = 0; i < n; i++) data.weight[i] = 1;
    msi_case_noise(&model, &data.geometry, precision, &random);
    msi_gridder_spec spec = msi_wproj_spec(&data, pow(10, -1 - 2 * msi_random(&random)), NULL);
    spec.precision = precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64;
    spec.kernel = seed % 3 ? MSI_KERNEL_AUTO : MSI_KERNEL_NEAREST;
    spec.n_slice = seed % 5 ? 0 : (int)(seed % 7) + 1;
    msi_c64 *vis = msi_test_alloc(n, sizeof *vis);
    double of_image[2], worst = 0;
    for (int g = 0; g < 2; g++) {
        msi_image image;
        spec.strategy = grids[g];
        msi_case_image(&data, &spec, &image, &imaged);
        of_image[g] = msi_image_product(&model, &image) * image.sum_weight[0];
        msi_image_free(&image);
    }
    for (int p = 0; p < 4; p++) {
        double norm, of_vis;
        spec.strategy = degrids[p];
        msi_case_predict(&data, &spec, &model, vis, &predicted);
        assert_string_equal(predicted.strategy, degrids[p]);
        assert_true(predicted.width == imaged.width && predicted.nu == imaged.nu && predicted.nv == imaged.nv &&
                    predicted.n_w == imaged.n_w && predicted.w_step == imaged.w_step);
        of_vis = msi_vis_product(vis, data.vis, n, &norm);
        for (int g = 0; g < 2; g++) worst = fmax(worst, fabs(of_vis - of_image[g]) / norm);
    }
    msi_image_free(&model);
    msi_case_free(&data);
    free(vis);
    return worst;
}

/* Use the same kernels and factors on both sides, so that only rounding is left, whatever the accuracy. */
static void test_adjoint(void **state)
{
    (void)state;
    for (int fp64 = 0; fp64 < 2; fp64++) {
        double worst = 0, tolerance = fp64 ? 1e-12 : 1e-6;
        for (uint64_t seed = 1; seed <= 100; seed++) {
            double difference = adjointness(seed, fp64 ? MSI_FP64 : MSI_FP32);
            if (!(difference <= tolerance)) fail_msg("seed %d: %g", (int)seed, difference);
            worst = fmax(worst, difference);
        }
        printf("  %s: %.2e at most\n", fp64 ? "fp64" : "fp32", worst);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_against_plain), cmocka_unit_test(test_long_rows), cmocka_unit_test(test_predict),
        cmocka_unit_test(test_predict_everywhere), cmocka_unit_test(test_adjoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
