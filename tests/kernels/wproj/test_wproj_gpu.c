/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images and visibilities by w-projection on a GPU: against the CPU's of the same plan, by the gridder against direct
 * sums, and against each other. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <cuda_runtime.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/wproj_cpu.h"
#include "kernels/wproj/wproj_cuda.h"
#include "tests/support/direct_sum.h"
#include "tests/kernels/wproj/wproj_cases.h"

static const msi_gpu_stream default_stream = {0, NULL};

enum { MOST_IMAGES = 10, SKIPPED = 77, N_GRID = 2, N_DEGRID = 3 };

static const msi_wproj_cuda_form grid_forms[N_GRID] = {MSI_WPROJ_CUDA_TILE, MSI_WPROJ_CUDA_WINDOW};
static const char *const grid_names[N_GRID] = {"tile", "window"};
static const msi_wproj_predict_form degrid_forms[N_DEGRID] = {MSI_WPROJ_PREDICT_WINDOW, MSI_WPROJ_PREDICT_GATHER,
                                                              MSI_WPROJ_PREDICT_SCATTER};
static const char *const degrid_names[N_DEGRID] = {"window", "gather", "scatter"};

static int brief;

/* Make a case; in brief, with a tenth of its rows. */
static msi_case sized(msi_case c)
{
    if (brief) c.n_row /= 10;
    return c;
}

/* A window interpolates only separable kernels; gather and scatter need full ones of the nearest sub-offset. */
static int grids(const msi_wproj_plan *plan, int form)
{
    return grid_forms[form] == MSI_WPROJ_CUDA_TILE || plan->form == MSI_WKERNEL_SEPARABLE || !plan->grid.linear;
}

static int degrids(const msi_wproj_plan *plan, int form)
{
    if (degrid_forms[form] != MSI_WPROJ_PREDICT_WINDOW && plan->form != MSI_WKERNEL_FULL) return 0;
    return plan->form == MSI_WKERNEL_SEPARABLE || !plan->grid.linear;
}

static void allocate(const msi_wproj_parts *d, int n_image, const int *store_plane, msi_image *image)
{
    assert_int_equal(msi_image_alloc(image, &d->data.geometry, n_image, d->plan.precision), 0);
    for (int i = 0; i < n_image; i++)
        image->sum_weight[i] = d->store.sum_weight[store_plane[i] < 0 ? 0 : store_plane[i]];
}

static void image_on_gpu(const msi_wproj_parts *d, int form, const int *store_plane, int64_t batch_samples,
                         msi_image *image)
{
    msi_stage_times times = {0};
    const msi_wproj_cuda_work work = {0, &d->plan, &d->kernels, batch_samples};
    if (msi_wproj_cuda_image(&work, grid_forms[form], &d->store, store_plane, image, &times))
        fail_msg("%s", msi_error_get());
}

/* Either side errs by the plan's rounding, of what the other is given too; four of them allow for chance, and for
 * the factors of 22 bits of the tensor form, which err by two. */
static void compare(const msi_wproj_parts *d, const char *name, int n_image, const int *store_plane)
{
    msi_image cpu, gpu;
    msi_stage_times times = {0};
    allocate(d, n_image, store_plane, &cpu);
    allocate(d, n_image, store_plane, &gpu);
    assert_int_equal(
        msi_wproj_cpu_image(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, &d->store, store_plane, &cpu, &times), 0);
    for (int form = 0; form < N_GRID; form++)
        for (int64_t batch_samples = 0; grids(&d->plan, form) && batch_samples < 2; batch_samples++) {
            double worst = 0;
            image_on_gpu(d, form, store_plane, batch_samples, &gpu);
            for (int i = 0; i < n_image; i++) worst = fmax(worst, msi_image_difference(&gpu, &cpu, i));
            printf("  %-20s %-6s %s, %d slices, %s: off by %.1e, rounding %.1e\n", name, grid_names[form],
                   d->plan.precision == MSI_FP32 ? "fp32" : "fp64", d->plan.grid.n_slice,
                   batch_samples ? "a segment at a time" : "all at once", worst, d->plan.errors.rounding);
            if (!(worst <= 4 * d->plan.errors.rounding)) fail_msg("off by %g", worst);
        }
    msi_image_free(&cpu);
    msi_image_free(&gpu);
}

/* Compare visibilities on the GPU, every form that the plan's kernels serve, against the CPU's. The model's transform
 * and a footprint's sum are each rounded on either side, as a gridder's are. */
static void compare_degridding(const msi_wproj_parts *d, const char *name, const msi_image *model)
{
    msi_vis_store cpu, gpu;
    msi_stage_times times = {0};
    msi_parts_coordinates(d, &cpu);
    msi_parts_coordinates(d, &gpu);
    if (msi_wproj_cpu_predict(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, &cpu, model, &times))
        fail_msg("%s", msi_error_get());
    for (int form = 0; form < N_DEGRID; form++)
        for (int64_t batch_samples = 0; degrids(&d->plan, form) && batch_samples < 2; batch_samples++) {
            const msi_wproj_cuda_work work = {0, &d->plan, &d->kernels, batch_samples};
            if (msi_wproj_cuda_predict(&work, degrid_forms[form], &gpu, model, NULL, &times))
                fail_msg("%s", msi_error_get());
            double off = msi_store_difference(&gpu, &cpu);
            printf("  %-20s %-7s %s, %d images, %d slices, %s: degridded off by %.1e\n", name, degrid_names[form],
                   d->plan.precision == MSI_FP32 ? "fp32" : "fp64", model->n_plane, d->plan.grid.n_slice,
                   batch_samples ? "a segment at a time" : "all at once", off);
            if (!(off <= 4 * d->plan.errors.rounding)) fail_msg("off by %g", off);
        }
    msi_vis_store_free(&cpu);
    msi_vis_store_free(&gpu);
}

/* Run every form, spacing and lookup; three segments, one of a few rows; several planes and the PSF. */
static void test_same_plan(void **state)
{
    (void)state;
    const int store_plane[] = {2, -1, 0, 1};
    const msi_case c = {.name = "same",
                        .nx = 96,
                        .ny = 80,
                        .field_x_rad = 0.08,
                        .stretch_y = 1.1,
                        .w_ratio = 0.8,
                        .n_row = brief ? 400 : 8200,
                        .n_chan = 2,
                        .n_plane = 3,
                        .band = 1.2,
                        .layout = CONCENTRATED};
    for (int i = 0; i < MSI_N_WPROJ_CHOICE; i += brief ? 4 : 1)
        for (int p = 0; p < 2; p++) {
            msi_precision precision = p ? MSI_FP64 : MSI_FP32;
            msi_case_pixels pixels[3];
            msi_image model;
            msi_wproj_parts d;
            msi_parts_store(&d, &c, precision, 9);
            msi_wproj_request r = msi_parts_request_with(&d, &msi_wproj_choices[i], precision);
            /* What the nearest of few sub-offsets leaves is the same on both; some are more than a head of tiles holds.
             */
            if (r.lookup == MSI_KERNEL_NEAREST) r.oversample = r.form == MSI_WPROJ_FORM_FULL ? 32 : p ? 200 : 34;
            msi_parts_plan(&d, &r);
            compare(&d, msi_wproj_choices[i].name, 4, store_plane);
            for (int k = 0; k < 3; k++) msi_case_pixels_draw(&pixels[k], &d.data.geometry, 20, 5 + (uint64_t)k);
            msi_case_model(&model, &d.data.geometry, 3, pixels, precision);
            compare_degridding(&d, msi_wproj_choices[i].name, &model);
            msi_image_free(&model);
            msi_parts_free(&d);
        }
}

/* More images than fit in one pass, and fewer. */
static void test_number_of_images(void **state)
{
    (void)state;
    const int store_plane[MOST_IMAGES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, -1};
    const msi_case c = sized((msi_case){.name = "images",
                                        .nx = 48,
                                        .ny = 64,
                                        .field_x_rad = 0.1,
                                        .w_ratio = 0.7,
                                        .n_row = 600,
                                        .n_chan = 3,
                                        .n_plane = 9,
                                        .band = 1.2});
    for (int p = 0; p < 2; p++) {
        msi_wproj_parts d;
        msi_parts_store(&d, &c, p ? MSI_FP64 : MSI_FP32, 3);
        msi_wproj_request r = msi_parts_request(&d, brief ? 1e-2 : 1e-3, p ? MSI_FP64 : MSI_FP32);
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
    const msi_case c = {.name = "core",
                        .nx = 64,
                        .ny = 64,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.5,
                        .n_row = brief ? 400 : 20000,
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
    allocate(&single, 1, &plane, &image);
    allocate(&twice, 1, &plane, &reference);
    image_on_gpu(&twice, 0, &plane, 0, &reference);
    image_on_gpu(&single, 0, &plane, 0, &image);
    double off = msi_image_difference(&image, &reference, 0);
    printf("  off by %.1e\n", off);
    assert_true(off <= 2e-6);
    msi_image_free(&image);
    msi_image_free(&reference);
    msi_parts_free(&single);
    msi_parts_free(&twice);
}

/* Compare tables computed on the device against the host's: sums of some hundred terms that add up to 1 at most, in
 * double; in fp32 rounded once, to either of two neighbours. */
static void test_kernels(void **state)
{
    (void)state;
    const msi_case c = {.name = "kernels",
                        .nx = 96,
                        .ny = 80,
                        .field_x_rad = 0.2,
                        .stretch_y = 1.1,
                        .w_ratio = 0.8,
                        .n_row = 600,
                        .n_chan = 2,
                        .band = 1.2};
    for (int i = 0; i < 8; i++) {
        const msi_precision precision = i & 1 ? MSI_FP64 : MSI_FP32;
        msi_case shape = c;
        msi_wproj_parts d;
        msi_wkernel_set device;
        msi_wkernel_spec spec;
        double *w_lambda;
        if (i & 4) { /* axes alike */
            shape.ny = shape.nx;
            shape.stretch_y = 1;
        }
        msi_parts_store(&d, &shape, precision, 9);
        msi_wproj_request r = msi_parts_request(&d, brief ? 0.1 : 1e-2, precision);
        r.form = i & 2 ? MSI_WPROJ_FORM_FULL : MSI_WPROJ_FORM_SEPARABLE;
        msi_parts_plan(&d, &r);
        assert_int_equal(msi_wproj_kernel_spec(&d.plan, &spec, &w_lambda), 0);
        if (msi_wkernel_make_cuda(&device, &default_stream, &spec)) fail_msg("%s", msi_error_get());
        msi_free(w_lambda);
        const int64_t n = d.kernels.n_element, bytes = n * msi_complex_bytes(precision);
        assert_true(device.on_device && device.n_element == n);
        char *table = msi_test_alloc(bytes, 1);
        assert_int_equal(cudaMemcpy(table, device.table, (size_t)bytes, cudaMemcpyDeviceToHost), cudaSuccess);
        double worst = 0, top = 0;
        for (int64_t k = 0; k < 2 * n; k++) {
            double x = msi_image_value(table, precision, k), y = msi_image_value(d.kernels.table, precision, k);
            worst = fmax(worst, fabs(x - y));
            top = fmax(top, fabs(y));
        }
        printf("  %s %s, %d planes of up to %d taps: off by %.1e of %.1e\n", i & 2 ? "full" : "separable",
               precision == MSI_FP32 ? "fp32" : "fp64", device.n_plane, 2 * device.half_max + 1, worst, top);
        assert_true(worst <= top * (precision == MSI_FP32 ? 1.2e-7 : 2e-15));
        free(table);
        msi_wkernel_free_cuda(&device);
        msi_parts_free(&d);
    }
}

static msi_gridder_spec spec_of(const msi_case_data *data, double accuracy, const char *strategy)
{
    msi_gridder_spec spec = msi_wproj_spec(data, accuracy, strategy);
    spec.backend = MSI_BACKEND_CUDA;
    return spec;
}

/* Predict by plans that are made for the GPU. */
static void check_image(const msi_case *c, double accuracy, const char *strategy, msi_kernel_lookup kernel)
{
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, c, 7);
    msi_gridder_spec spec = spec_of(&data, accuracy, strategy);
    spec.kernel = kernel;
    if (kernel == MSI_KERNEL_TEXTURE) spec.precision = MSI_PRECISION_FP32;
    msi_case_image(&data, &spec, &image, &report);
    assert_string_equal(report.method, "wproj");
    if (strategy) assert_string_equal(report.strategy, strategy);
    assert_int_equal(report.backend, MSI_BACKEND_CUDA);
    assert_true(report.device_bytes > 0);
    double error = msi_error_to_peak(&data, &image, 300, 11);
    printf("  %-12s %-6s %d %s accuracy %.0e: error %.1e, estimate %.1e, %lld slices, %.1f + %.1f + %.1f ms\n", c->name,
           report.strategy, (int)kernel, report.precision == MSI_FP32 ? "fp32" : "fp64", accuracy, error,
           report.error_estimate, (long long)report.n_w, 1e3 * report.sort_s, 1e3 * report.grid_s,
           1e3 * report.transform_s);
    if (!(error <= report.error_estimate && report.error_estimate <= accuracy))
        fail_msg("%s: error %g", c->name, error);
    msi_image_free(&image);
    msi_case_free(&data);
}

static void test_image(void **state)
{
    (void)state;
    const double accuracies[] = {1e-2, 1e-3, 1e-4};
    for (int i = 0; i < MSI_N_WPROJ_CASE; i += brief ? 4 : 1)
        for (int a = 0; a < (brief ? 1 : 3); a++) {
            const msi_case listed = sized(msi_wproj_cases[i]), *c = &listed;
            if (a >= 2 && c->nx > 250) continue;
            /* Near the horizon kernels that a window takes ask for 1e4 slices and more. */
            const int window_serves = a == 0 || c->field_x_rad < 1;
            check_image(c, accuracies[a], "tile", MSI_KERNEL_AUTO);
            if (window_serves) check_image(c, accuracies[a], "window", MSI_KERNEL_AUTO);
            if (a < 2 && window_serves) check_image(c, accuracies[a], "window", MSI_KERNEL_TEXTURE);
            if (a == 0) check_image(c, accuracies[a], NULL, MSI_KERNEL_NEAREST);
        }
}

/* Check predictions by plans for the GPU; samples at the edge of the uv plane and beyond it too. */
static void check_predict(const msi_case *c, double accuracy, const char *strategy, int far)
{
    msi_case_data data;
    msi_image model;
    msi_gridder_report report;
    msi_case_pixels pixels;
    double worst;
    msi_case_make(&data, c, 13);
    const double limit_m = 0.5 / data.geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / data.freq_hz[0];
    for (int64_t row = 0; far && row < c->n_row; row++) {
        double *uvw = data.uvw_m + 3 * row;
        if (row % 4 == 0) uvw[row / 4 % 2] *= 1000;
        if (row % 4 == 1) uvw[0] = row % 8 == 1 ? limit_m : -limit_m;
    }
    const int64_t n = c->n_row * c->n_chan;
    msi_c64 *vis = msi_test_alloc(n, sizeof *vis), *truth = msi_test_alloc(n, sizeof *truth);
    msi_case_pixels_draw(&pixels, &data.geometry, 40, 17);
    msi_case_model(&model, &data.geometry, 1, &pixels, MSI_FP32);
    msi_gridder_spec spec = spec_of(&data, accuracy, strategy);
    spec.precision = MSI_PRECISION_FP32;
    msi_case_predict(&data, &spec, &model, vis, &report);
    msi_direct_visibility(&data.block, &data.geometry, &(msi_pixels){pixels.n, pixels.x, pixels.y}, pixels.flux_jy,
                          truth);
    double error = msi_vis_distance(vis, truth, n, &worst);
    printf("  %-12s %-7s accuracy %.0e: error %.1e, estimate %.1e, %lld slices, width %d, %.1f + %.1f + %.1f ms\n",
           c->name, report.strategy, accuracy, error, report.error_estimate, (long long)report.n_w, report.width,
           1e3 * report.sort_s, 1e3 * report.grid_s, 1e3 * report.transform_s);
    assert_int_equal(report.backend, MSI_BACKEND_CUDA);
    if (!(error <= report.error_estimate && report.error_estimate <= accuracy))
        fail_msg("%s: error %g", c->name, error);
    for (int64_t row = 0; far && row < c->n_row; row++) data.uvw_m[3 * row + row % 2] *= 1e30;
    if (far) msi_case_predict(&data, &spec, &model, vis, &report);
    for (int64_t i = 0; i < n; i++) assert_true(isfinite(vis[i].re) && isfinite(vis[i].im));
    msi_image_free(&model);
    msi_case_free(&data);
    free(vis);
    free(truth);
}

static void test_predict(void **state)
{
    (void)state;
    for (int i = 0; i < MSI_N_WPROJ_CASE; i += brief ? 4 : 1) {
        const msi_case c = sized(msi_wproj_cases[i]);
        check_predict(&c, 1e-2, NULL, 0);
        for (int form = 0; form < N_DEGRID; form++) check_predict(&c, 1e-2, degrid_names[form], 0);
        if (!brief && c.field_x_rad < 1) check_predict(&c, 1e-3, "window", 0);
    }
    for (int form = 0; form < N_DEGRID; form++) check_predict(&msi_wproj_outside, 1e-2, degrid_names[form], 1);
}

/* Use one plan while the store is filled several times: the kept model is used for all of them. */
static void test_fillings(void **state)
{
    (void)state;
    const msi_case c = {.name = "fillings",
                        .nx = 64,
                        .ny = 50,
                        .field_x_rad = 0.05,
                        .stretch_y = 1.3,
                        .w_ratio = 0.5,
                        .n_row = 300,
                        .n_chan = 3,
                        .band = 1.1};
    for (int form = 0; form < N_DEGRID; form++) {
        msi_case_data data;
        msi_image model;
        msi_case_pixels pixels;
        msi_gridder *g;
        enum { N = 900, PARTS = 3, ROWS = 100 };
        msi_c64 vis[N], truth[N];
        double worst;
        msi_case_make(&data, &c, 3);
        msi_case_pixels_draw(&pixels, &data.geometry, 40, 17);
        msi_case_model(&model, &data.geometry, 1, &pixels, MSI_FP32);
        msi_gridder_spec spec = spec_of(&data, 1e-2, degrid_names[form]);
        spec.predict = 1;
        double w_max = 0;
        for (int64_t i = 0; i < N; i++)
            w_max = fmax(w_max, fabs(data.uvw_m[i / 3 * 3 + 2] * data.freq_hz[2]) / MSI_SPEED_OF_LIGHT);
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        msi_gridder_expect(g, N, c.n_row, 0, w_max);
        assert_int_equal(msi_gridder_model(g, &model), 0);
        for (int part = 0; part < PARTS; part++) {
            msi_vis_block block = data.block;
            block.n_row = ROWS;
            block.uvw_m = data.uvw_m + 3 * part * ROWS;
            msi_gridder_clear(g);
            assert_int_equal(msi_gridder_add(g, &block), 0);
            if (msi_gridder_predict(g)) fail_msg("%s", msi_error_get());
            assert_int_equal(msi_gridder_fetch(g, ROWS, 3, data.freq_hz, vis + 3 * part * ROWS), 0);
        }
        msi_direct_visibility(&data.block, &data.geometry, &(msi_pixels){pixels.n, pixels.x, pixels.y}, pixels.flux_jy,
                              truth);
        assert_true(msi_vis_distance(vis, truth, N, &worst) <= 1e-2);
        msi_gridder_free(g);
        msi_image_free(&model);
        msi_case_free(&data);
    }
}

/* Grid by form g of the GPU's, or by the CPU where g is N_GRID. Returns 0 where that form does not serve the plan. */
static int grid_by(msi_wproj_parts *d, const msi_wproj_cuda_work *work, int g, msi_image *image)
{
    const int plane = 0;
    msi_stage_times times = {0};
    int rc;
    if (g == N_GRID) {
        if (d->plan.texture) return 0;
        rc = msi_wproj_cpu_image(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, &d->store, &plane, image, &times);
    } else {
        if (!grids(&d->plan, g) || (d->plan.texture && g == 0)) return 0;
        rc = msi_wproj_cuda_image(work, grid_forms[g], &d->store, &plane, image, &times);
    }
    if (rc) fail_msg("%s", msi_error_get());
    return 1;
}

/* Degrid as grid_by grids: by form p, or by the CPU where p is N_DEGRID. Returned: vis, of the store's first
 * segment. */
static int degrid_by(msi_wproj_parts *d, const msi_wproj_cuda_work *work, int p, msi_vis_store *predicted,
                     const msi_image *model, msi_c64 *vis)
{
    msi_stage_times times = {0};
    int rc;
    if (p == N_DEGRID) {
        if (d->plan.texture) return 0;
        rc = msi_wproj_cpu_predict(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, predicted, model, &times);
    } else {
        if (!degrids(&d->plan, p)) return 0;
        rc = msi_wproj_cuda_predict(work, degrid_forms[p], predicted, model, NULL, &times);
    }
    if (rc) fail_msg("%s", msi_error_get());
    const msi_vis_segment *s = &predicted->segment[0];
    const msi_c64 *in_double = s->vis;
    const msi_c32 *in_float = s->vis;
    for (int64_t i = 0; i < s->n_row * s->n_chan; i++)
        vis[i] =
            predicted->precision == MSI_FP64 ? in_double[i] : (msi_c64){(double)in_float[i].re, (double)in_float[i].im};
    return 1;
}

/* Find the largest |Re<Ax,y> - Re<x,A*y>| / (||Ax|| ||y||) of everything that degrids by a plan with everything that
 * grids by it, with weights 1, on the GPU and the CPU; the kernels are the device's. */
static double adjointness(uint64_t seed, msi_precision precision, msi_wproj_form form, msi_kernel_lookup lookup)
{
    const int plane = 0;
    uint64_t random;
    msi_case c = msi_case_adjoint(seed, 2, 30, 2.5, 150, &random);
    msi_wproj_parts d;
    msi_wkernel_set kernels;
    msi_wkernel_spec spec;
    msi_image model, image;
    msi_vis_store predicted;
    double *w_lambda, of_image[N_GRID + 1], worst = 0;
    int n_image = 0;
    msi_parts_store(&d, &c, precision, seed);
    const int64_t n = c.n_row * c.n_chan;
    for (int64_t i = 0; i < n; i++) d.data.weight[i] = 1;
    msi_vis_store_free(&d.store);
    msi_vis_store_init(&d.store, 1, precision, 0.5 / d.data.geometry.cell_x_rad, 0.5 / d.data.geometry.cell_y_rad, 0,
                       NULL);
    assert_int_equal(msi_vis_store_add(&d.store, &d.data.block), 0);
    assert_int_equal(d.store.n_sample, n);
    msi_wproj_request r = msi_parts_request(&d, 1e-2, precision);
    r.form = form;
    r.lookup = lookup;
    if (lookup == MSI_KERNEL_NEAREST) r.oversample = 8; /* which either side has the same of */
    msi_parts_plan(&d, &r);
    assert_int_equal(msi_wproj_kernel_spec(&d.plan, &spec, &w_lambda), 0);
    if (msi_wkernel_make_cuda(&kernels, &default_stream, &spec)) fail_msg("%s", msi_error_get());
    msi_free(w_lambda);
    const msi_wproj_cuda_work work = {0, &d.plan, &kernels, 0};
    msi_case_noise(&model, &d.data.geometry, precision, &random);
    allocate(&d, 1, &plane, &image);
    for (int g = 0; g <= N_GRID; g++)
        if (grid_by(&d, &work, g, &image))
            of_image[n_image++] = msi_image_product(&model, &image) * image.sum_weight[0];
    msi_parts_coordinates(&d, &predicted);
    msi_c64 *vis = msi_test_alloc(n, sizeof *vis);
    for (int p = 0; p <= N_DEGRID; p++) {
        double norm;
        if (!degrid_by(&d, &work, p, &predicted, &model, vis)) continue;
        double of_vis = msi_vis_product(vis, d.data.vis, n, &norm);
        for (int g = 0; g < n_image; g++) worst = fmax(worst, fabs(of_vis - of_image[g]) / norm);
    }
    free(vis);
    msi_vis_store_free(&predicted);
    msi_image_free(&model);
    msi_image_free(&image);
    msi_wkernel_free_cuda(&kernels);
    msi_parts_free(&d);
    return worst;
}

/* Use the same kernels and factors on both sides, so that only rounding is left. */
static void test_adjoint(void **state)
{
    (void)state;
    const struct {
        const char *name;
        msi_wproj_form form;
        msi_kernel_lookup lookup;
    } kinds[] = {{"full, nearest", MSI_WPROJ_FORM_FULL, MSI_KERNEL_NEAREST},
                 {"separable, linear", MSI_WPROJ_FORM_SEPARABLE, MSI_KERNEL_LINEAR},
                 {"separable, texture", MSI_WPROJ_FORM_SEPARABLE, MSI_KERNEL_TEXTURE}};
    for (int kind = 0; kind < 3; kind++)
        for (int fp64 = 0; fp64 < (kinds[kind].lookup == MSI_KERNEL_TEXTURE ? 1 : 2); fp64++) {
            double worst = 0, tolerance = fp64 ? 1e-12 : 1e-6;
            for (uint64_t seed = 1; seed <= (brief ? 1 : 100); seed++) {
                double difference = adjointness(seed, fp64 ? MSI_FP64 : MSI_FP32, kinds[kind].form, kinds[kind].lookup);
                if (!(difference <= tolerance)) fail_msg("seed %d: %g", (int)seed, difference);
                worst = fmax(worst, difference);
            }
            printf("  %-18s %s: %.2e at most\n", kinds[kind].name, fp64 ? "fp64" : "fp32", worst);
        }
}

static void test_edge_of_the_uv_plane(void **state)
{
    (void)state;
    for (int form = 0; form < N_GRID; form++) msi_check_edge(MSI_BACKEND_CUDA, grid_names[form]);
}

static void test_nothing(void **state)
{
    (void)state;
    for (int form = 0; form < N_GRID; form++) msi_check_nothing(MSI_BACKEND_CUDA, grid_names[form]);
}

/* A plan that exceeds the device's indices is refused before anything is allocated. */
static void test_refusal(void **state)
{
    (void)state;
    msi_wproj_plan plan = {.half_max = 8, .grid = {.nu = 65000, .nv = 512, .n_plane = 65536}};
    assert_int_equal(msi_wproj_cuda_check(&plan), 0);
    plan.grid.nu = 65536;
    assert_int_equal(msi_wproj_cuda_check(&plan), MSI_ERANGE);
    assert_true(strstr(msi_error_get(), "supports 65535 cells") != NULL);
    plan.grid.nu = 512;
    plan.grid.n_plane = 65537;
    assert_int_equal(msi_wproj_cuda_check(&plan), MSI_ERANGE);
    plan.grid.n_plane = 30000;
    plan.grid.oversample = 300;
    assert_int_equal(msi_wproj_predictor_check(&plan, MSI_WPROJ_PREDICT_WINDOW), 0);
    assert_int_equal(msi_wproj_predictor_check(&plan, MSI_WPROJ_PREDICT_GATHER), MSI_ERANGE);
    assert_true(strstr(msi_error_get(), "strategy window") != NULL);
}

/* "brief": for tools that slow a program down, and then perhaps a pattern (* and ?) of the tests' names. */
int main(int argc, char **argv)
{
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_backend_describe());
        return SKIPPED;
    }
    brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_same_plan),
        cmocka_unit_test(test_number_of_images),
        cmocka_unit_test(test_crowded_cells),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_fillings),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_edge_of_the_uv_plane),
        cmocka_unit_test(test_refusal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
