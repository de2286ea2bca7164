/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Predicted visibilities of one strategy and backend against the exact sum and against imaging: test_degrid cpu|cuda
 * [planes|subgrid|tiles] [brief]. brief: every kernel once, nothing large, for tools that slow a program down a
 * hundredfold. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/method/simd.h"
#include "kernels/strategy.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wgrid_cases.h"

/* Small w in a narrow field, a longer band, large w in a wide field, a field that reaches beyond the horizon, odd
 * shapes. */
/* clang-format off */
static const msi_case cases[] = {
    {.name = "vla", .nx = 600, .ny = 600, .field_x_rad = 0.02, .w_ratio = 0.6, .n_row = 900, .n_chan = 3, .band = 1.1},
    {.name = "meerkat", .nx = 512, .ny = 512, .field_x_rad = 0.03, .w_ratio = 0.4, .n_row = 400, .n_chan = 7,
     .band = 1.9, .layout = CONCENTRATED},
    {.name = "skalow", .nx = 512, .ny = 512, .field_x_rad = 0.35, .w_ratio = 0.5, .n_row = 700, .n_chan = 5,
     .band = 1.4, .layout = CONCENTRATED},
    {.name = "wide", .nx = 300, .ny = 300, .field_x_rad = 1.12, .w_ratio = 0.5, .n_row = 700, .n_chan = 2, .band = 1.2,
     .layout = CONCENTRATED},
    {.name = "hemisphere", .nx = 256, .ny = 256, .field_x_rad = 2.1, .w_ratio = 0.4, .n_row = 1500, .n_chan = 2,
     .band = 1.2},
    {.name = "oblong", .nx = 300, .ny = 180, .field_x_rad = 0.1, .stretch_y = 1.7, .w_ratio = 1.0, .n_row = 800, .n_chan
     = 3, .band = 1.5, .layout = CONCENTRATED},
    {.name = "small", .nx = 16, .ny = 24, .field_x_rad = 0.01, .w_ratio = 1.0, .n_row = 300, .n_chan = 2, .band = 1.1},
    {.name = "flat", .nx = 256, .ny = 256, .field_x_rad = 1e-5, .w_ratio = 0.5, .n_row = 800, .n_chan = 2, .band = 1.1},
};
/* clang-format on */
enum { N_CASE = sizeof cases / sizeof *cases };

/* A single visibility may be off by this many times the accuracy, which is an rms over all visibilities: a window's
 * error at the worst fraction of a cell is sqrt(2) for each axis of the rms over fractions; among some thousand
 * visibilities with Gaussian errors the worst is at four of them; the rest is for fields of few pixels, whose errors
 * add in phase. */
static const double WORST = 20;

static msi_case_choice chosen;

/* Return a case. On a CPU a plane of a tower takes as long as a whole w-plane, so images that are large get smaller. The
 * field stays, and |w| over |u| too. */
static msi_case case_of(int i)
{
    msi_case c = cases[i];
    if (!chosen.is_planes && !chosen.on_gpu && c.nx >= 400) c.nx = c.ny = c.nx * 5 / 16 * 2;
    return c;
}

/* Check that all planes are within the accuracy. Returns: whether the strategy supports the field */
static int check_field(msi_field *f, const char *name, double accuracy, msi_precision_choice precision)
{
    msi_gridder_report report;
    msi_gridder_spec spec = msi_case_spec(&chosen, &f->data.geometry, f->data.block.n_plane, accuracy);
    spec.precision = precision;
    if (!msi_case_serves(&f->data, &spec)) return 0;
    msi_field_predict(f, &spec, &report);
    for (int p = 0; p < f->data.block.n_plane; p++) {
        double worst, error = msi_vis_distance(f->vis + p * f->n, f->truth + p * f->n, f->n, &worst);
        printf("  %-10s accuracy %.0e: error %.2e, worst %.2e (%s, width %d, grid %lld x %lld x %lld)\n", name,
               accuracy, error, worst, report.precision == MSI_FP32 ? "fp32" : "fp64", report.width,
               (long long)report.nu, (long long)report.nv, (long long)report.n_w);
        if (!(error <= accuracy)) fail_msg("%s: relative error %g at accuracy %g", name, error, accuracy);
        if (!(worst <= WORST * accuracy)) fail_msg("%s: worst error %g at accuracy %g", name, worst, accuracy);
    }
    return 1;
}

static int check_accuracies(msi_field *f, const char *name)
{
    int n_served = 0;
    for (double accuracy = 1e-2; accuracy > 0.9e-5; accuracy *= 0.1)
        n_served += check_field(f, name, accuracy, MSI_PRECISION_FP32);
    for (double accuracy = 1e-6; accuracy > 0.9e-12; accuracy *= 1e-2)
        n_served += check_field(f, name, accuracy, MSI_PRECISION_AUTO);
    return n_served;
}

static void test_accuracy(void **state)
{
    (void)state;
    int n_served = 0;
    for (int i = 0; i < N_CASE; i++) {
        if (chosen.brief && strcmp(cases[i].name, "small") != 0 && strcmp(cases[i].name, "oblong") != 0) continue;
        const msi_case c = case_of(i);
        msi_field f;
        msi_field_make(&f, &c, chosen.brief ? 20 : MSI_CASE_PIXELS, 7);
        msi_field_truth(&f);
        n_served += check_accuracies(&f, cases[i].name);
        msi_field_free(&f);
    }
    assert_true(n_served >= (chosen.brief ? 1 : 20));
}

/* Baselines that the image cannot represent, on both sides of the limit and exactly at it, are predicted like all
 * others. Phases are a thousand times larger, and so is their rounding: accuracies down to 1e-10. */
static void test_beyond_the_uv_plane(void **state)
{
    (void)state;
    const msi_case c = {.name = "outside",
                        .nx = 128,
                        .ny = 100,
                        .field_x_rad = 0.05,
                        .stretch_y = 1.3,
                        .w_ratio = 0.5,
                        .n_row = chosen.brief ? 100 : 600,
                        .n_chan = 3,
                        .band = 1.1};
    msi_field f;
    msi_field_make(&f, &c, chosen.brief ? 20 : MSI_CASE_PIXELS, 3);
    double u_limit_m = 0.5 / f.data.geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / f.data.freq_hz[0];
    double v_limit_m = 0.5 / f.data.geometry.cell_y_rad * MSI_SPEED_OF_LIGHT / f.data.freq_hz[0];
    for (int64_t row = 0; row < c.n_row; row++) {
        double *uvw = f.data.uvw_m + 3 * row;
        if (row % 4 == 0) uvw[row / 4 % 2] *= 1000;
        if (row % 4 == 1) uvw[row / 4 % 2] *= 2.5;
        if (row % 8 == 2) uvw[0] = row % 16 == 2 ? u_limit_m : -u_limit_m;
        if (row % 8 == 3) uvw[1] = row % 16 == 3 ? v_limit_m : -v_limit_m;
    }
    msi_field_truth(&f);
    for (double accuracy = 1e-3; accuracy > 0.9e-5 && !chosen.brief; accuracy *= 0.1)
        check_field(&f, c.name, accuracy, MSI_PRECISION_FP32);
    check_field(&f, c.name, 1e-10, MSI_PRECISION_AUTO);
    /* Extremely large coordinates give a finite number. */
    for (int64_t row = 0; row < c.n_row; row++) f.data.uvw_m[3 * row + row % 2] *= 1e30;
    msi_gridder_report report;
    msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 1, 1e-4);
    msi_field_predict(&f, &spec, &report);
    for (int64_t i = 0; i < f.n; i++) assert_true(isfinite(f.vis[i].re) && isfinite(f.vis[i].im));
    msi_field_free(&f);
}

/* Predict samples exactly at the borders of cells, and so of tiles: rounding decides on which side a footprint is, and
 * must give the same side everywhere. Imaging and predicting are both within the accuracy. */
static void test_borders_of_cells(void **state)
{
    (void)state;
    if (chosen.brief) skip();
    const msi_case c = {.name = "borders",
                        .nx = 160,
                        .ny = 120,
                        .field_x_rad = 0.05,
                        .stretch_y = 1.1,
                        .w_ratio = 0.5,
                        .n_row = 4000,
                        .n_chan = 1};
    const double accuracy = 1e-4;
    msi_field f;
    msi_gridder_report before, report;
    msi_image image;
    msi_field_make(&f, &c, 20, 17);
    msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 1, accuracy);
    msi_field_predict(&f, &spec, &before);
    double border = before.width % 2 ? 0.5 : 0, m_per_lambda = MSI_SPEED_OF_LIGHT / f.data.freq_hz[0];
    uint64_t random = 99;
    for (int64_t row = 0; row < c.n_row; row++) {
        double u = border + floor((msi_random(&random) - 0.5) * (double)(before.nu - 2));
        double v = border + floor((msi_random(&random) - 0.5) * (double)(before.nv - 2));
        f.data.uvw_m[3 * row] = u / ((double)before.nu * f.data.geometry.cell_x_rad) * m_per_lambda;
        f.data.uvw_m[3 * row + 1] = v / ((double)before.nv * f.data.geometry.cell_y_rad) * m_per_lambda;
    }
    msi_field_truth(&f);
    assert_true(check_field(&f, c.name, accuracy, MSI_PRECISION_AUTO));
    msi_case_image(&f.data, &spec, &image, &report);
    if (chosen.is_planes) /* w-towers are planned from the samples' positions, which have changed */
        assert_true(report.nu == before.nu && report.nv == before.nv && report.width == before.width);
    assert_true(msi_case_error(&f.data, &image, 0, 0, 60, 3) <= accuracy);
    msi_image_free(&image);
    msi_field_free(&f);
}

/* Predict several planes of one model, one of them empty, whose visibilities are 0. */
static void test_planes(void **state)
{
    (void)state;
    const msi_case c = {.name = "planes",
                        .nx = 192,
                        .ny = 160,
                        .field_x_rad = 0.2,
                        .w_ratio = 0.7,
                        .n_row = chosen.brief ? 50 : 500,
                        .n_chan = 3,
                        .n_plane = 4,
                        .band = 1.2};
    msi_field f;
    msi_field_make(&f, &c, 40, 5);
    f.pixels[2].n = 0;
    msi_field_truth(&f);
    for (double accuracy = 1e-4; accuracy > (chosen.brief ? 0.9e-4 : 0.9e-8); accuracy *= 1e-4) {
        msi_gridder_report report;
        msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 4, accuracy);
        msi_field_predict(&f, &spec, &report);
        for (int p = 0; p < 4; p++) {
            double worst;
            if (p != 2)
                assert_true(msi_vis_distance(f.vis + p * f.n, f.truth + p * f.n, f.n, &worst) <= accuracy);
            else
                for (int64_t i = 0; i < f.n; i++) assert_true(f.vis[2 * f.n + i].re == 0 && f.vis[2 * f.n + i].im == 0);
        }
        assert_int_equal(report.n_outside, 0);
    }
    msi_field_free(&f);
}

/* Predict one visibility of one pixel, in a corner or at the centre. No errors average out: the window's error at the
 * worst fraction of a cell is up to sqrt(2) for each axis larger than the accuracy, which is its rms. */
static void test_one_sample(void **state)
{
    (void)state;
    if (chosen.brief) skip();
    for (uint64_t seed = 1; seed < 20; seed++) {
        const msi_case c = {
            .name = "one", .nx = 64, .ny = 48, .field_x_rad = 0.3, .w_ratio = 0.9, .n_row = 1, .n_chan = 1};
        msi_field f;
        msi_field_make(&f, &c, 1, seed);
        if (seed % 2) f.pixels[0].x[0] = 32, f.pixels[0].y[0] = 24;
        if (seed % 4 >= 2) f.data.uvw_m[2] = -fabs(f.data.uvw_m[2]);
        msi_field_truth(&f);
        for (double accuracy = 1e-3; accuracy > 0.9e-9; accuracy *= 1e-3) {
            msi_gridder_report report;
            double worst;
            msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 1, accuracy);
            if (!msi_case_serves(&f.data, &spec)) continue;
            msi_field_predict(&f, &spec, &report);
            assert_true(msi_vis_distance(f.vis, f.truth, 1, &worst) <= 3 * accuracy);
        }
        msi_field_free(&f);
    }
}

/* ---- Adjointness ------------------------------------------------------------------------------------------------ */

/* Compute |Re<Ax,y> - Re<x,A*y>| / (||Ax|| ||y||) of one seed, A by one backend and A* by the other. Returns -1 if the
 * strategy does not support the random case. */
static double adjointness(uint64_t seed, msi_precision precision, msi_backend predicts, msi_backend images)
{
    uint64_t random;
    int64_t step = chosen.is_planes ? 2 : 4; /* subgrids need a minimum size */
    msi_case c = msi_case_adjoint(seed, step, 40, 3.2, 200, &random);
    double accuracy = precision == MSI_FP32 ? pow(10, -1 - 4 * msi_random(&random))   /* 1e-1 .. 1e-5 */
                                            : pow(10, -2 - 10 * msi_random(&random)); /* 1e-2 .. 1e-12 */
    msi_case_data data;
    msi_image model, image;
    msi_gridder_report predicted, imaged;
    msi_case_make(&data, &c, seed);
    int64_t n = c.n_row * c.n_chan;
    for (int64_t i = 0; i < n; i++) data.weight[i] = 1;
    msi_gridder_spec spec = msi_case_spec(&chosen, &data.geometry, 1, accuracy);
    spec.precision = precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64;
    spec.plan_for = MSI_BACKEND_CPU;
    if (!msi_case_serves(&data, &spec)) {
        msi_case_free(&data);
        return -1;
    }
    msi_case_noise(&model, &data.geometry, precision, &random);
    msi_c64 *vis = msi_test_alloc(n, sizeof *vis);
    spec.backend = predicts;
    msi_case_predict(&data, &spec, &model, vis, &predicted);
    spec.backend = images;
    msi_case_image(&data, &spec, &image, &imaged);
    assert_true(predicted.width == imaged.width && predicted.w_width == imaged.w_width && predicted.nu == imaged.nu &&
                predicted.nv == imaged.nv && predicted.n_w == imaged.n_w && predicted.w_step == imaged.w_step &&
                predicted.n_tower == imaged.n_tower && predicted.subgrid == imaged.subgrid);
    double norm, of_vis = msi_vis_product(vis, data.vis, n, &norm);
    double of_image = msi_image_product(&model, &image) * image.sum_weight[0];
    msi_image_free(&model);
    msi_image_free(&image);
    msi_case_free(&data);
    free(vis);
    return fabs(of_vis - of_image) / norm;
}

/* Windows, planes and factors are the same on both sides, so that only rounding is left at any accuracy: of 32-bit sums
 * 2^-24 each, about a hundred of them for a value in random order, amplified by the correction (2e-7 to 6e-7 of a whole
 * image, see msi_precision_for); in 64 bits 2^29 times less, or the limit of a plan (see MOST_FP64_ROUNDING in
 * wgrid_plan.c) if a correction is large. */
static void check_adjoint(msi_backend predicts, msi_backend images)
{
    for (int fp64 = 0; fp64 < 2; fp64++) {
        double worst = 0, tolerance = fp64 ? 1e-12 : 1e-6;
        int n = 0;
        for (uint64_t seed = 1; n < (chosen.brief ? 1 : 100) && seed < 1000; seed++) {
            double difference = adjointness(seed, fp64 ? MSI_FP64 : MSI_FP32, predicts, images);
            if (difference == -1) continue;
            if (!(difference <= tolerance)) fail_msg("seed %d: %g", (int)seed, difference);
            worst = fmax(worst, difference);
            n++;
        }
        assert_int_equal(n, chosen.brief ? 1 : 100);
        printf("  predict %s, image %s, %s: %.2e at most\n", predicts == MSI_BACKEND_CPU ? "cpu" : "cuda",
               images == MSI_BACKEND_CPU ? "cpu" : "cuda", fp64 ? "fp64" : "fp32", worst);
    }
}

static void test_adjoint(void **state)
{
    (void)state;
    check_adjoint(chosen.backend, chosen.backend);
}

static void test_adjoint_to_the_other_backend(void **state)
{
    (void)state;
    check_adjoint(MSI_BACKEND_CPU, MSI_BACKEND_CUDA);
    check_adjoint(MSI_BACKEND_CUDA, MSI_BACKEND_CPU);
}

/* ---- Blocks, batches, memory ------------------------------------------------------------------------------------- */

/* Blocks as from a Measurement Set of several spectral windows: channel lists alternate, some are descending, sizes are
 * odd, and some are longer than a segment of the store. */
typedef struct block_list {
    msi_case_data data[3]; /* one for each channel list */
    int64_t at[3];
    msi_case_pixels pixels;
} block_list;

static const int32_t LIST_CHANNELS[3] = {3, 1, 7};
static const int64_t LIST_ROWS[3] = {7013, 9001, 2007};

static void block_list_make(block_list *b)
{
    for (int k = 0; k < 3; k++) {
        msi_case c = {.name = "blocks",
                      .nx = 192,
                      .ny = 144,
                      .field_x_rad = 0.1,
                      .w_ratio = 0.6,
                      .n_row = LIST_ROWS[k] / (chosen.brief ? 40 : 1),
                      .n_chan = LIST_CHANNELS[k],
                      .band = 1.4};
        msi_case_make(&b->data[k], &c, 40 + (uint64_t)k);
        int32_t n = LIST_CHANNELS[k];
        for (int32_t i = 0; k < 2 && i < n / 2; i++) {
            double swap = b->data[k].freq_hz[i];
            b->data[k].freq_hz[i] = b->data[k].freq_hz[n - 1 - i];
            b->data[k].freq_hz[n - 1 - i] = swap;
        }
        b->at[k] = 0;
    }
    msi_case_pixels_draw(&b->pixels, &b->data[0].geometry, 12, 8);
}

/* Return the next block of one of the lists; 0 at the end of all lists. */
static int block_list_next(block_list *b, uint64_t *seed, msi_vis_block *block)
{
    int k = (int)msi_random_whole(seed, 0, 2);
    for (int tries = 0; b->at[k] == b->data[k].block.n_row; tries++, k = (k + 1) % 3)
        if (tries == 3) return 0;
    int64_t left = b->data[k].block.n_row - b->at[k], n = msi_random_whole(seed, 1, seed[0] % 3 ? 6001 : 101);
    *block = b->data[k].block;
    block->n_row = n < left ? n : left;
    block->uvw_m += 3 * b->at[k];
    block->vis = NULL;
    block->weight = NULL;
    b->at[k] += block->n_row;
    return 1;
}

static void block_list_rewind(block_list *b)
{
    memset(b->at, 0, sizeof b->at);
}

static void block_list_free(block_list *b)
{
    for (int k = 0; k < 3; k++) msi_case_free(&b->data[k]);
}

/* Fill the store once with whole lists, fetch them in the order of adding, and compare with the exact sum. */
static void check_blocks(block_list *b, const msi_gridder_spec *spec)
{
    msi_gridder *g;
    msi_gridder_report report;
    msi_vis_block block;
    msi_image model;
    uint64_t seed = 4;
    msi_case_model(&model, &spec->geometry, 1, &b->pixels, MSI_FP32);
    assert_int_equal(msi_gridder_create(&g, spec), 0);
    assert_int_equal(msi_gridder_model(g, &model), 0);
    block_list_rewind(b);
    while (block_list_next(b, &seed, &block)) assert_int_equal(msi_gridder_add(g, &block), 0);
    assert_int_equal(msi_gridder_predict(g), 0);
    msi_gridder_report_get(g, &report);
    if (spec->store_bytes) assert_true(report.spilled_bytes > 0 && report.store_bytes == 0);
    block_list_rewind(b);
    seed = 4;
    while (block_list_next(b, &seed, &block)) {
        int64_t n = block.n_row * block.n_chan;
        double worst;
        msi_c64 *vis = msi_test_alloc(n, sizeof *vis), *truth = msi_test_alloc(n, sizeof *truth);
        assert_int_equal(msi_gridder_fetch(g, block.n_row, block.n_chan, block.freq_hz, vis), 0);
        msi_direct_visibility(&block, &spec->geometry, &(msi_pixels){b->pixels.n, b->pixels.x, b->pixels.y},
                              b->pixels.flux_jy, truth);
        msi_vis_distance(vis, truth, n, &worst);
        assert_true(worst <= WORST * spec->accuracy);
        free(vis);
        free(truth);
    }
    assert_int_equal(msi_gridder_fetch(g, 1, LIST_CHANNELS[0], b->data[0].freq_hz, &(msi_c64){0}), MSI_EINTERNAL);
    msi_gridder_free(g);
    msi_image_free(&model);
}

static void test_blocks_in_order(void **state)
{
    (void)state;
    block_list b;
    block_list_make(&b);
    msi_gridder_spec spec = msi_case_spec(&chosen, &b.data[0].geometry, 1, 1e-4);
    spec.predict = 1;
    check_blocks(&b, &spec);
    spec.store_bytes = 1;
    if (!chosen.brief) check_blocks(&b, &spec);
    block_list_free(&b);
}

/* More channels than a segment of the store holds. */
static void test_many_channels(void **state)
{
    (void)state;
    const msi_case c = {.name = "channels",
                        .nx = 144,
                        .ny = 144,
                        .field_x_rad = 0.1,
                        .w_ratio = 0.5,
                        .n_row = 3,
                        .n_chan = MSI_STORE_MAX_CHAN + 77,
                        .band = 1.3};
    msi_field f;
    if (chosen.brief) skip();
    msi_field_make(&f, &c, 9, 3);
    msi_field_truth(&f);
    check_field(&f, c.name, 1e-4, MSI_PRECISION_AUTO);
    msi_field_free(&f);
}

/* Several batches with one plan give the same as one batch, whether the w-planes are kept or not. The w-planes are the
 * same, so only rounding differs, by less than 1e-6 for a 32-bit sum of W^3 cells. w-towers are planned from the
 * samples of one batch, so two plans differ, each by at most the accuracy. */
static void test_fillings(void **state)
{
    (void)state;
    const msi_case c = {.name = "fillings",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.8,
                        .n_row = chosen.brief ? 60 : 2100,
                        .n_chan = 3,
                        .n_plane = 2,
                        .band = 1.3,
                        .layout = CONCENTRATED};
    enum { N_FILLING = 3 };
    msi_field f;
    msi_gridder_report report;
    msi_image model;
    msi_field_make(&f, &c, 50, 12);
    int is_planes = chosen.is_planes;
    msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 2, 1e-5);
    double tolerance = is_planes ? 1e-6 : 2 * spec.accuracy;
    msi_field_predict(&f, &spec, &report);
    double w_min, w_max, worst;
    msi_case_w_range(&f.data, &w_min, &w_max);
    msi_case_model(&model, &f.data.geometry, 2, f.pixels, MSI_FP32);
    spec.predict = 1;
    for (int little = 0; little < 2; little++) {
        msi_gridder *g;
        int64_t n_row = c.n_row / N_FILLING;
        msi_c64 *vis = msi_test_alloc(2 * 3 * n_row, sizeof *vis);
        spec.memory_bytes = little ? msi_memory_in_use() + (2 << 20) : 0;
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_model(g, &model), 0);
        msi_gridder_expect(g, f.n, c.n_row, w_min, w_max);
        for (int filling = 0; filling < N_FILLING; filling++) {
            msi_vis_block block = f.data.block;
            block.n_row = n_row;
            block.uvw_m += 3 * n_row * filling;
            msi_gridder_clear(g);
            assert_int_equal(msi_gridder_add(g, &block), 0);
            assert_int_equal(msi_gridder_predict(g), 0);
            assert_int_equal(msi_gridder_fetch(g, n_row, 3, block.freq_hz, vis), 0);
            for (int p = 0; p < 2; p++)
                assert_true(msi_vis_distance(vis + p * 3 * n_row, f.vis + p * f.n + 3 * n_row * filling, 3 * n_row,
                                             &worst) < tolerance);
        }
        msi_gridder_report again;
        msi_gridder_report_get(g, &again);
        if (is_planes) assert_int_equal(again.n_w, report.n_w);
        if (is_planes && chosen.backend == MSI_BACKEND_CPU && !chosen.brief)
            assert_true(little ? again.n_w_resident < again.n_w : again.n_w_resident == again.n_w);
        msi_gridder_free(g);
        free(vis);
    }
    msi_image_free(&model);
    msi_field_free(&f);
}

/* Test every number of w-planes in memory, and whether they are kept for a second call. */
static void test_every_ring(void **state)
{
    (void)state;
    const msi_case c = {.name = "ring",
                        .nx = 128,
                        .ny = 128,
                        .field_x_rad = 1.0,
                        .w_ratio = 1.0,
                        .n_row = 1000,
                        .n_chan = 3,
                        .band = 1.3};
    msi_field f;
    msi_gridder_report report;
    msi_image model;
    msi_field_make(&f, &c, 60, 21);
    msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 1, 1e-5);
    msi_field_predict(&f, &spec, &report);
    msi_case_model(&model, &f.data.geometry, 1, f.pixels, MSI_FP32);
    msi_vis_store store;
    msi_wgrid_plan plan;
    msi_stage_times times = {0};
    msi_vis_store_init(&store, 1, MSI_FP32, 1, 1, 0, NULL);
    store.coordinates = 1;
    assert_int_equal(msi_vis_store_add(&store, &f.data.block), 0);
    const msi_wgrid_request request = msi_case_request(&f.data.geometry, &store, 1e-5, MSI_FP32, &msi_wgrid_cpu_cost);
    assert_int_equal(msi_wgrid_plan_make(&plan, &request), 0);
    assert_true(plan.grid.n_w == report.n_w && plan.grid.n_w > 2 * plan.grid.w_width);
    msi_c64 *vis = msi_test_alloc(f.n, sizeof *vis);
    for (int64_t n = 1; n <= plan.grid.n_w; n++) {
        void *kept = NULL;
        for (int call = 0; call < 2; call++) {
            double worst;
            assert_int_equal(msi_wgrid_cpu_predict(&plan, &store, &model, n, &kept, &times), 0);
            assert_int_equal(kept != NULL, n == plan.grid.n_w);
            assert_int_equal(msi_vis_store_fetch(&store, c.n_row, c.n_chan, f.data.freq_hz, vis), 0);
            double difference = msi_vis_distance(vis, f.vis, f.n, &worst);
            /* Partial sums in other orders, each rounded to 2^-24. */
            if (!(difference < 1e-6)) fail_msg("ring of %lld: %g", (long long)n, difference);
            msi_vis_store_clear(&store);
            assert_int_equal(msi_vis_store_add(&store, &f.data.block), 0);
        }
        msi_wgrid_cpu_free_model(kept);
    }
    free(vis);
    msi_vis_store_free(&store);
    msi_image_free(&model);
    msi_field_free(&f);
}

static void test_threads(void **state)
{
    (void)state;
    const msi_case c = {.name = "threads",
                        .nx = 128,
                        .ny = 160,
                        .field_x_rad = 0.2,
                        .w_ratio = 0.5,
                        .n_row = 9000,
                        .n_chan = 3,
                        .n_plane = 2,
                        .band = 1.2,
                        .layout = CORE};
    msi_field f;
    msi_gridder_report report;
    msi_field_make(&f, &c, 50, 2);
    for (double accuracy = 1e-4; accuracy > 0.9e-8; accuracy *= 1e-4) {
        msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 2, accuracy);
        spec.n_thread = 1;
        msi_field_predict(&f, &spec, &report);
        memcpy(f.truth, f.vis, sizeof *f.vis * (size_t)(2 * f.n));
        for (spec.n_thread = 2; spec.n_thread < 8; spec.n_thread += 3) {
            msi_field_predict(&f, &spec, &report);
            assert_memory_equal(f.truth, f.vis, sizeof *f.vis * (size_t)(2 * f.n));
        }
    }
    msi_field_free(&f);
}

/* Run every instruction set of this processor at all accuracies: widths below, at and above the length of its
 * vectors. */
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
                        .n_row = 500,
                        .n_chan = 3,
                        .band = 1.2,
                        .layout = CONCENTRATED};
    msi_field f;
    msi_field_make(&f, &c, 50, 31);
    msi_field_truth(&f);
    for (int i = 0; i < n; i++) {
        msi_simd_use(all[i]);
        check_accuracies(&f, msi_simd_name());
    }
    msi_simd_use(MSI_N_SIMD);
    msi_field_free(&f);
}

static void test_refuses_what_it_cannot(void **state)
{
    (void)state;
    const msi_image_geometry geometry = {64, 64, 1e-4, 1e-4}, other = {64, 62, 1e-4, 1e-4};
    const msi_case_pixels none[2] = {{0}, {0}};
    msi_gridder *g;
    msi_image good, wrong;
    msi_gridder_spec spec = msi_case_spec(&chosen, &geometry, 1, 1e-4);
    spec.predict = 1;
    msi_case_model(&good, &geometry, 1, none, MSI_FP32);
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    assert_int_equal(msi_gridder_predict(g), MSI_EINTERNAL);
    msi_case_model(&wrong, &geometry, 1, none, MSI_FP64);
    assert_int_equal(msi_gridder_model(g, &wrong), MSI_EINTERNAL);
    msi_image_free(&wrong);
    msi_case_model(&wrong, &geometry, 2, none, MSI_FP32);
    assert_int_equal(msi_gridder_model(g, &wrong), MSI_EINTERNAL);
    msi_image_free(&wrong);
    msi_case_model(&wrong, &other, 1, none, MSI_FP32);
    assert_int_equal(msi_gridder_model(g, &wrong), MSI_EINTERNAL);
    msi_image_free(&wrong);
    assert_int_equal(msi_gridder_model(g, &good), 0);
    assert_int_equal(msi_gridder_predict(g), 0);
    assert_int_equal(msi_gridder_image(g, &wrong), MSI_EINTERNAL);
    msi_gridder_free(g);
    msi_image_free(&good);
}

/* A signal interrupts a prediction, and the gridder can be used again. */
static void test_interrupt(void **state)
{
    (void)state;
    const msi_case c = {.name = "interrupt",
                        .nx = 160,
                        .ny = 160,
                        .field_x_rad = 0.2,
                        .w_ratio = 0.5,
                        .n_row = 200,
                        .n_chan = 3,
                        .band = 1.2};
    msi_field f;
    msi_gridder *g;
    msi_image model;
    double worst;
    msi_field_make(&f, &c, 30, 3);
    msi_field_truth(&f);
    msi_gridder_spec spec = msi_case_spec(&chosen, &f.data.geometry, 1, 1e-4);
    spec.predict = 1;
    msi_case_model(&model, &f.data.geometry, 1, f.pixels, MSI_FP32);
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    assert_int_equal(msi_gridder_model(g, &model), 0);
    assert_int_equal(msi_gridder_add(g, &f.data.block), 0);
    msi_interrupt_raise(SIGTERM);
    assert_int_equal(msi_gridder_predict(g), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    assert_int_equal(msi_gridder_predict(g), 0);
    assert_int_equal(msi_gridder_fetch(g, c.n_row, c.n_chan, f.data.freq_hz, f.vis), 0);
    assert_true(msi_vis_distance(f.vis, f.truth, f.n, &worst) <= 1e-4);
    msi_gridder_free(g);
    msi_image_free(&model);
    msi_field_free(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest common[] = {
        cmocka_unit_test(test_accuracy),         cmocka_unit_test(test_beyond_the_uv_plane),
        cmocka_unit_test(test_borders_of_cells), cmocka_unit_test(test_planes),
        cmocka_unit_test(test_one_sample),       cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_blocks_in_order),  cmocka_unit_test(test_many_channels),
        cmocka_unit_test(test_fillings),         cmocka_unit_test(test_interrupt),
    };
    const struct CMUnitTest planes[] = {
        cmocka_unit_test(test_refuses_what_it_cannot),
    };
    const struct CMUnitTest cpu[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_instruction_sets),
    };
    const struct CMUnitTest cpu_planes[] = {
        cmocka_unit_test(test_every_ring),
    };
    const struct CMUnitTest cuda[] = {
        cmocka_unit_test(test_adjoint_to_the_other_backend),
    };
    int skipped = msi_case_choose(argc, argv, &chosen);
    if (skipped) return skipped;
    int failed = cmocka_run_group_tests(common, NULL, NULL);
    if (chosen.is_planes) failed += cmocka_run_group_tests(planes, NULL, NULL);
    if (chosen.on_gpu) return failed + cmocka_run_group_tests(cuda, NULL, NULL);
    if (chosen.brief) return failed;
    if (chosen.is_planes) failed += cmocka_run_group_tests(cpu_planes, NULL, NULL);
    return failed + cmocka_run_group_tests(cpu, NULL, NULL);
}
