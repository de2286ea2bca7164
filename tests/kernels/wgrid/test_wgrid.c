/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One strategy and backend against the direct sum: test_wgrid cpu|cuda [planes|subgrid] [brief]. brief: every kernel
 * once, nothing large, for tools that slow a program down a hundredfold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/method/simd.h"
#include "kernels/strategy.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/wgrid/wgrid_cuda.h"
#endif
#include "tests/support/direct_sum.h"
#include "tests/support/wgrid_cases.h"

/* A narrow field with small w, a wide one, one that reaches beyond the horizon, and odd shapes. */
/* clang-format off */
static const msi_case cases[] = {
    {.name = "vla", .nx = 600, .ny = 600, .field_x_rad = 0.02, .w_ratio = 0.6, .n_row = 4000, .n_chan = 4, .band = 1.1},
    {.name = "skalow", .nx = 512, .ny = 512, .field_x_rad = 0.35, .w_ratio = 0.5, .n_row = 3000, .n_chan = 5,
     .band = 1.4, .layout = CONCENTRATED},
    {.name = "wide", .nx = 400, .ny = 400, .field_x_rad = 1.12, .w_ratio = 0.5, .n_row = 2000, .n_chan = 2, .band = 1.2,
     .layout = CONCENTRATED},
    {.name = "hemisphere", .nx = 256, .ny = 256, .field_x_rad = 2.1, .w_ratio = 0.4, .n_row = 2000, .n_chan = 2,
     .band = 1.2},
    {.name = "oblong", .nx = 300, .ny = 180, .field_x_rad = 0.1, .stretch_y = 1.7, .w_ratio = 1.0, .n_row = 2500,
     .n_chan = 3, .band = 1.5, .layout = CONCENTRATED},
    {.name = "small", .nx = 16, .ny = 24, .field_x_rad = 0.01, .w_ratio = 1.0, .n_row = 300, .n_chan = 2, .band = 1.1},
    {.name = "flat", .nx = 256, .ny = 256, .field_x_rad = 1e-5, .w_ratio = 0.5, .n_row = 2000, .n_chan = 2,
     .band = 1.1},
};
/* clang-format on */
enum { N_CASE = sizeof cases / sizeof *cases };

static msi_case_choice chosen;

/* Return a case. On a CPU a plane of a tower takes as long as a whole w-plane, so images that are large get smaller. The
 * field stays, and |w| over |u| too. */
static msi_case case_of(int i)
{
    msi_case c = cases[i];
    if (!chosen.is_planes && !chosen.on_gpu && c.nx >= 400) c.nx = c.ny = c.nx * 5 / 16 * 2;
    return c;
}

/* Check one accuracy of a case with a known direct sum. Returns: whether the strategy supports it */
static int check_accuracy(const msi_case_data *data, const msi_case_truth *truth, const char *name, double accuracy,
                          msi_precision_choice precision)
{
    msi_image image;
    msi_gridder_report report;
    msi_gridder_spec spec = msi_case_spec(&chosen, &data->geometry, data->block.n_plane, accuracy);
    spec.precision = precision;
    if (!msi_case_serves(data, &spec)) return 0;
    msi_case_image(data, &spec, &image, &report);
    double error = msi_case_truth_error(truth, &image, 0);
    printf("  %-10s accuracy %.0e: error %.2e, estimate %.2e (%s, width %d, grid %lld x %lld x %lld", name, accuracy,
           error, report.error_estimate, report.precision == MSI_FP32 ? "fp32" : "fp64", report.width,
           (long long)report.nu, (long long)report.nv, (long long)report.n_w);
    if (report.n_tower) printf(", %d towers of %d x %d", report.n_tower, report.subgrid, report.tower_planes);
    printf(")\n");
    if (!(error <= accuracy)) fail_msg("%s: relative error %g at accuracy %g", name, error, accuracy);
    msi_image_free(&image);
    return 1;
}

static void test_accuracy(void **state)
{
    (void)state;
    int n_served = 0;
    for (int i = 0; i < N_CASE; i++) {
        if (chosen.brief && strcmp(cases[i].name, "oblong") != 0 && strcmp(cases[i].name, "flat") != 0) continue;
        msi_case_data data;
        msi_case_truth truth;
        msi_case c = case_of(i);
        if (chosen.brief) c.n_row /= 20;
        msi_case_make(&data, &c, 7);
        msi_case_truth_make(&truth, &data, 0, MSI_CASE_PIXELS, 11);
        for (double accuracy = 1e-2; accuracy > 0.9e-5; accuracy *= 0.1)
            n_served += check_accuracy(&data, &truth, c.name, accuracy, MSI_PRECISION_FP32);
        for (double accuracy = 1e-6; accuracy > 0.9e-12; accuracy *= 0.1)
            n_served += check_accuracy(&data, &truth, c.name, accuracy, MSI_PRECISION_AUTO);
        msi_case_free(&data);
    }
    assert_true(n_served >= (chosen.brief ? 1 : 20));
}

/* An array's core puts many samples on a cell: 32-bit sums of them would miss the accuracy tenfold. */
static void test_crowded_cells(void **state)
{
    (void)state;
    const int64_t n_row = chosen.brief ? 2000 : 60000;
    const msi_case fields[] = {{.name = "channels",
                                .nx = 128,
                                .ny = 128,
                                .field_x_rad = 0.3,
                                .w_ratio = 0.5,
                                .n_row = chosen.brief ? 20 : 40,
                                .n_chan = chosen.brief ? 300 : 4000,
                                .band = 1.0001,
                                .layout = CORE},
                               {.name = "core",
                                .nx = 128,
                                .ny = 128,
                                .field_x_rad = 0.3,
                                .w_ratio = 0.5,
                                .n_row = n_row,
                                .n_chan = 8,
                                .band = 1.2,
                                .layout = CORE},
                               {.name = "core-flat",
                                .nx = 128,
                                .ny = 128,
                                .field_x_rad = 1e-6,
                                .w_ratio = 0.5,
                                .n_row = n_row,
                                .n_chan = 8,
                                .band = 1.2,
                                .layout = CORE}};
    for (int i = 0; i < 3; i++) {
        msi_case_data data;
        msi_image image;
        msi_gridder_report report;
        msi_case_make(&data, &fields[i], 5);
        msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 2e-6);
        spec.precision = MSI_PRECISION_FP32;
        if (msi_case_serves(&data, &spec)) {
            msi_case_image(&data, &spec, &image, &report);
            double error = msi_case_error(&data, &image, 0, 0, 40, 3);
            printf("  %s: error %.2e\n", fields[i].name, error);
            assert_true(error <= 2e-6);
            msi_image_free(&image);
        }
        msi_case_free(&data);
    }
}

/* Image several planes and the PSF in one call, each with its own weights. */
static void test_planes_and_psf(void **state)
{
    (void)state;
    const msi_case c = {.name = "planes",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.1,
                        .w_ratio = 0.7,
                        .n_row = chosen.brief ? 100 : 1000,
                        .n_chan = 3,
                        .n_plane = 4,
                        .band = 1.2};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-5);
    spec.psf = 1;
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(image.n_plane, 5);
    for (int p = 0; p < 5; p++) {
        int64_t used = 0;
        int store_plane = p < 4 ? p : -1;
        for (int64_t i = 0; i < c.n_row * c.n_chan; i++)
            used += data.weight[(p < 4 ? p : 0) * c.n_row * c.n_chan + i] > 0;
        assert_int_equal(image.n_vis[p], used);
        assert_true(msi_case_error(&data, &image, p, store_plane, 100, 5) <= 1e-5);
    }
    /* The PSF at the phase centre is 1 by definition. */
    double peak = ((const float *)image.pixel)[(4 * 128 + 64) * 128 + 64];
    assert_true(fabs(peak - 1) <= 1e-5);
    msi_image_free(&image);
    spec.psf_only = 1;
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(image.n_plane, 1);
    assert_true(msi_case_error(&data, &image, 0, -1, 100, 5) <= 1e-5);
    msi_image_free(&image);
    msi_case_free(&data);
}

/* The image is the same for any number of threads. */
static void test_threads(void **state)
{
    (void)state;
    const msi_case c = {.name = "threads",
                        .nx = 256,
                        .ny = 256,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.8,
                        .n_row = chosen.brief ? 300 : 60000,
                        .n_chan = 3,
                        .band = 1.3,
                        .layout = CONCENTRATED};
    msi_case_data data;
    msi_image reference, image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 21);
    for (double accuracy = 1e-3; accuracy > 0.9e-8; accuracy *= 1e-5) {
        msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, accuracy);
        spec.n_thread = 1;
        msi_case_image(&data, &spec, &reference, &report);
        size_t bytes = (size_t)(msi_image_n_pixel(&data.geometry) * msi_image_pixel_bytes(reference.precision));
        for (spec.n_thread = 2; spec.n_thread < 8; spec.n_thread += 3) {
            msi_case_image(&data, &spec, &image, &report);
            assert_memory_equal(image.pixel, reference.pixel, bytes);
            msi_image_free(&image);
        }
        msi_image_free(&reference);
    }
    msi_case_free(&data);
}

/* The image is the same for any length of the ring of w-planes. */
static void test_memory(void **state)
{
    (void)state;
    const msi_case c = {.name = "ring",
                        .nx = 256,
                        .ny = 256,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.8,
                        .n_row = 3000,
                        .n_chan = 3,
                        .band = 1.3,
                        .layout = CONCENTRATED};
    msi_case_data data;
    msi_image reference, image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 21);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-5);
    msi_case_image(&data, &spec, &reference, &report);
    spec.memory_bytes = msi_memory_in_use() + (1 << 20);
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(report.n_w_resident, 1);
    msi_image_free(&image);

    /* Test every length of the ring, from one plane to all. */
    msi_vis_store store;
    msi_wgrid_plan plan;
    msi_stage_times times = {0};
    const int plane = 0;
    msi_vis_store_init(&store, 1, MSI_FP32, 0.5 / data.geometry.cell_x_rad, 0.5 / data.geometry.cell_y_rad, 0, NULL);
    assert_int_equal(msi_vis_store_add(&store, &data.block), 0);
    const msi_wgrid_request request = msi_case_request(&data.geometry, &store, 1e-5, MSI_FP32, &msi_wgrid_cpu_cost);
    assert_int_equal(msi_wgrid_plan_make(&plan, &request), 0);
    assert_true(plan.grid.n_w > 2 * plan.grid.w_width);
    for (int64_t n = 1; n <= plan.grid.n_w; n++) {
        assert_int_equal(msi_image_alloc(&image, &data.geometry, 1, MSI_FP32), 0);
        image.sum_weight[0] = reference.sum_weight[0];
        assert_int_equal(msi_wgrid_cpu_image(&plan, &store, &plane, n, &image, &times), 0);
        double difference = msi_image_difference(&image, &reference, 0);
        if (!(difference < 1e-6))
            fail_msg("ring of %lld: %g", (long long)n, difference); /* fp32 sums in other orders */
        msi_image_free(&image);
    }
    msi_vis_store_free(&store);
    msi_image_free(&reference);
    msi_case_free(&data);
}

/* Run every instruction set of this processor, at widths below, at and above the length of its vectors, in both
 * precisions. */
static void test_instruction_sets(void **state)
{
    (void)state;
    msi_simd all[MSI_N_SIMD];
    int n = msi_simd_all(all);
    const msi_case c = {.name = "simd",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.2,
                        .w_ratio = 0.5,
                        .n_row = 1500,
                        .n_chan = 3,
                        .band = 1.2,
                        .layout = CONCENTRATED};
    msi_case_data data;
    msi_case_truth truth;
    msi_case_make(&data, &c, 31);
    msi_case_truth_make(&truth, &data, 0, 60, 3);
    for (int i = 0; i < n; i++) {
        msi_simd_use(all[i]);
        for (double accuracy = 1e-2; accuracy > 0.9e-12; accuracy *= 0.1) {
            msi_image image;
            msi_gridder_report report;
            msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, accuracy);
            msi_case_image(&data, &spec, &image, &report);
            double error = msi_case_truth_error(&truth, &image, 0);
            if (!(error <= accuracy)) fail_msg("%s: error %g at accuracy %g", msi_simd_name(), error, accuracy);
            msi_image_free(&image);
        }
        printf("  %s\n", msi_simd_name());
    }
    msi_case_free(&data);
    msi_simd_use(MSI_N_SIMD);
}

/* Samples beyond 1/(2 cell) are dropped and counted, and the image is the same as without them. */
static void test_outside_is_counted(void **state)
{
    (void)state;
    const msi_case c = {.name = "outside",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = chosen.brief ? 100 : 1000,
                        .n_chan = 2,
                        .band = 1.1};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    int64_t expected = 0;
    for (int64_t row = 0; row < c.n_row; row += 10) {
        data.uvw_m[3 * row + row % 2] *= 1000;
        for (int k = 0; k < 2; k++) expected += data.weight[2 * row + k] > 0;
    }
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4);
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(report.n_outside, expected);
    assert_true(msi_case_error(&data, &image, 0, 0, 100, 5) <= 1e-4);
    msi_image_free(&image);
    msi_case_free(&data);
}

/* Samples beyond the memory limit are stored in a file, and give the same image. */
static void test_spill_to_file(void **state)
{
    (void)state;
    const msi_case c = {.name = "spill",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 50000,
                        .n_chan = 8,
                        .band = 1.1};
    msi_case_data data;
    msi_image image, spilled;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4);
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(report.spilled_bytes, 0);
    spec.store_bytes = 1;
    msi_case_image(&data, &spec, &spilled, &report);
    assert_true(report.spilled_bytes > 0 && report.store_bytes == 0);
    assert_memory_equal(image.pixel, spilled.pixel, sizeof(float) * 64 * 64);
    spec.temp_dir = "/nonexistent/folder";
    msi_gridder *g;
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    assert_int_equal(msi_gridder_add(g, &data.block), MSI_EOUTPUT);
    msi_gridder_free(g);
    msi_image_free(&image);
    msi_image_free(&spilled);
    msi_case_free(&data);
}

static void test_empty_is_nan(void **state)
{
    (void)state;
    const msi_case c = {.name = "empty",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 10,
                        .n_chan = 1,
                        .band = 1.1};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    memset(data.weight, 0, sizeof(float) * 10);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4);
    msi_case_image(&data, &spec, &image, &report);
    for (int i = 0; i < 64 * 64; i++) assert_true(isnan(((const float *)image.pixel)[i]));
    assert_int_equal(image.n_vis[0], 0);
    msi_image_free(&image);
    msi_case_free(&data);
}

static void test_refuses_what_it_cannot(void **state)
{
    (void)state;
    msi_gridder *g;
    msi_gridder_spec good = {
        .geometry = {64, 64, 1e-4, 1e-4}, .n_plane = 1, .accuracy = 1e-4, .backend = MSI_BACKEND_CPU};
    msi_gridder_spec bad = good;
    bad.accuracy = 1e-15;
    assert_int_equal(msi_gridder_create(&g, &bad), MSI_ERANGE);
    bad = good;
    bad.accuracy = NAN;
    assert_int_equal(msi_gridder_create(&g, &bad), MSI_ERANGE);
    bad = good;
    bad.geometry.nx = 63;
    assert_int_equal(msi_gridder_create(&g, &bad), MSI_ERANGE);
    bad = good;
    bad.geometry.cell_y_rad = 0;
    assert_int_equal(msi_gridder_create(&g, &bad), MSI_ERANGE);
    assert_null(g);
}

/* A gridder copies its strings. Its weights are multiplied once, and no samples may be added afterwards before it is
 * cleared. */
static void test_strings_are_copied_and_weights_multiplied_once(void **state)
{
    (void)state;
    const msi_case c = {
        .name = "once", .nx = 64, .ny = 64, .field_x_rad = 0.05, .w_ratio = 0.5, .n_row = 10, .n_chan = 1, .band = 1.1};
    const msi_weighting taper = {.mode = MSI_WEIGHT_NATURAL, .taper = {.major_rad = 1e-3}};
    char method[] = "wgrid", name[] = "planes", folder[] = "/nonexistent/folder";
    msi_case_data data;
    msi_image image;
    msi_gridder *g;
    msi_case_make(&data, &c, 3);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4);
    spec.backend = MSI_BACKEND_CPU;
    spec.method = method;
    spec.strategy = name;
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    memset(method, 'x', sizeof method - 1);
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(msi_gridder_add(g, &data.block), 0);
    assert_int_equal(msi_gridder_weight(g, NULL, &taper), 0);
    assert_int_equal(msi_gridder_weight(g, NULL, &taper), MSI_EINTERNAL);
    assert_int_equal(msi_gridder_add(g, &data.block), MSI_EINTERNAL);
    assert_int_equal(msi_gridder_image(g, &image), 0);
    msi_image_free(&image);
    msi_gridder_clear(g);
    assert_int_equal(msi_gridder_add(g, &data.block), 0);
    msi_gridder_free(g);
    spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4);
    spec.store_bytes = 1;
    spec.temp_dir = folder;
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    memset(folder, 'x', sizeof folder - 1);
    assert_int_equal(msi_gridder_add(g, &data.block), MSI_EOUTPUT);
    assert_non_null(strstr(msi_error_get(), "/nonexistent/folder"));
    assert_string_equal(msi_error_about_get(), "temp_dir");
    msi_gridder_free(g);
    msi_case_free(&data);
}

/* Samples that are added before the gridder's parameters are known give the same image. Parameters that no plan
 * supports are rejected then. */
static void test_early(void **state)
{
    (void)state;
    const msi_case c = {.name = "early",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.05,
                        .w_ratio = 0.5,
                        .n_row = 300,
                        .n_chan = 2,
                        .band = 1.1};
    msi_case_data data;
    msi_image early, other;
    msi_gridder_report report;
    msi_gridder *g;
    msi_case_make(&data, &c, 5);
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, 1e-4), wrong = spec;
    msi_case_image(&data, &spec, &other, &report);
    assert_int_equal(msi_gridder_create_early(&g, &spec), 0);
    assert_int_equal(msi_gridder_precision(g), other.precision);
    assert_int_equal(msi_gridder_add(g, &data.block), 0);
    wrong.strategy = "nonsense";
    assert_int_equal(msi_gridder_bind(g, &wrong), MSI_ERANGE);
    assert_int_equal(msi_gridder_bind(g, &spec), 0);
    assert_int_equal(msi_gridder_image(g, &early), 0);
    assert_true(msi_image_difference(&early, &other, 0) <= 1e-6);
    assert_true(early.n_vis[0] == other.n_vis[0] && early.sum_weight[0] == other.sum_weight[0]);
    msi_gridder_free(g);
    assert_int_equal(msi_gridder_create_early(&g, &spec), 0);
    msi_gridder_free(g);
    spec.accuracy = NAN;
    assert_int_equal(msi_gridder_create_early(&g, &spec), MSI_ERANGE);
    assert_null(g);
    msi_image_free(&early);
    msi_image_free(&other);
    msi_case_free(&data);
}

/* Two backends differ only by rounding and at most twice the accuracy. */
static void test_cpu_and_gpu_agree(void **state)
{
    (void)state;
    for (int i = 0; i < (chosen.brief ? 0 : N_CASE); i++)
        for (double accuracy = 1e-3; accuracy > 0.9e-9; accuracy *= 1e-2) {
            msi_case_data data;
            msi_image cpu, gpu;
            msi_gridder_report report;
            msi_case_make(&data, &cases[i], 7);
            msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, data.block.n_plane, accuracy);
            if (!msi_case_serves(&data, &spec)) {
                msi_case_free(&data);
                continue;
            }
            spec.backend = MSI_BACKEND_CPU;
            msi_case_image(&data, &spec, &cpu, &report);
            spec.backend = MSI_BACKEND_CUDA;
            msi_case_image(&data, &spec, &gpu, &report);
            assert_true(msi_image_difference(&gpu, &cpu, 0) <= 2 * accuracy);
            msi_image_free(&cpu);
            msi_image_free(&gpu);
            msi_case_free(&data);
        }
}

/* A plan that the GPU's kernels cannot number is rejected, without a GPU. */
static void test_gpu_numbers(void **state)
{
    (void)state;
#ifdef MSI_HAVE_CUDA
    msi_wgrid_plan plan = {.grid = {.nu = 65536, .nv = 65535, .n_w = 65536 + 6, .width = 7, .w_width = 7}};
    assert_int_equal(msi_wgrid_cuda_check(&plan), MSI_OK);
    plan.grid.n_w++;
    assert_int_equal(msi_wgrid_cuda_check(&plan), MSI_ERANGE);
    plan.grid.n_w--;
    plan.grid.nv++;
    assert_int_equal(msi_wgrid_cuda_check(&plan), MSI_ERANGE);
    assert_string_equal(msi_error_about_get(), "backend"); /* src has a hint for this member */
#else
    skip();
#endif
}

/* What 45000 x 45000 pixels need on a GPU: 8.1 GB for each image, at least 16.2 GB for a w-plane, and as much for its
 * transform if cuFFT needs it. Residuals are not the gridder's; a prediction holds all images of the model. */
static void test_least_device_memory(void **state)
{
    (void)state;
    enum { N = 45000 };
    const msi_image_geometry geometry = {.nx = N, .ny = N, .cell_x_rad = 1e-6, .cell_y_rad = 1e-6};
    const double pixel = (double)N * N;
    const struct {
        int residual, predict;
        int64_t worked_cells;
        double images, planes;
    } needs[] = {{0, 0, 1, 1, 2}, {0, 0, INT64_MAX, 1, 1}, {1, 0, 1, 0, 2}, {0, 1, 1, 4, 2}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const msi_gridder_spec spec = {
            .geometry = geometry, .accuracy = 1e-4, .residual = needs[i].residual, .predict = needs[i].predict};
        const msi_plan_request request = {
            .spec = &spec, .precision = MSI_FP32, .n_image = 4, .n_sample = 1000000, .w_max_lambda = 1e5};
        const msi_wgrid_request wanted = msi_wgrid_request_of(&request, &msi_wgrid_cpu_cost);
        msi_wgrid_plan plan;
        assert_int_equal(msi_wgrid_plan_make(&plan, &wanted), 0);
        const double cells = (double)plan.grid.nu * (double)plan.grid.nv;
        const int64_t bytes = msi_wgrid_plan_least_device_bytes(&plan, &request, needs[i].worked_cells);
        assert_true(cells >= pixel && cells < 2.5 * pixel);
        assert_true((double)bytes == 8 * needs[i].planes * cells + 4 * needs[i].images * pixel);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest common[] = {
        cmocka_unit_test(test_accuracy),       cmocka_unit_test(test_crowded_cells),
        cmocka_unit_test(test_planes_and_psf), cmocka_unit_test(test_outside_is_counted),
        cmocka_unit_test(test_early),
    };
    const struct CMUnitTest planes[] = {
        cmocka_unit_test(test_empty_is_nan),
    };
    const struct CMUnitTest cpu[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_instruction_sets),
    };
    const struct CMUnitTest cpu_planes[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_spill_to_file),
        cmocka_unit_test(test_refuses_what_it_cannot),
        cmocka_unit_test(test_strings_are_copied_and_weights_multiplied_once),
        cmocka_unit_test(test_gpu_numbers),
        cmocka_unit_test(test_least_device_memory),
    };
    const struct CMUnitTest cuda[] = {
        cmocka_unit_test(test_cpu_and_gpu_agree),
    };
    int skipped = msi_case_choose(argc, argv, &chosen);
    if (skipped) return skipped;
    int failed = cmocka_run_group_tests(common, NULL, NULL);
    if (chosen.is_planes) failed += cmocka_run_group_tests(planes, NULL, NULL);
    if (chosen.on_gpu) return failed + cmocka_run_group_tests(cuda, NULL, NULL);
    if (chosen.is_planes) failed += cmocka_run_group_tests(cpu_planes, NULL, NULL);
    return failed + cmocka_run_group_tests(cpu, NULL, NULL);
}
