/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_failures cpu|cuda [SCENARIO]: imaging through the kernel API, once for each call that can fail, with that call
 * failing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gridder.h"
#include "tests/support/failure_injection.h"
#include "tests/support/failure_injection_cuda.h"
#include "tests/support/temp_folder.h"
#include "tests/support/wgrid_cases.h"

static const char NO_MESSAGE[] = "no message was set";

static msi_backend backend;
static const char *only; /* run only this scenario, if not NULL */

typedef struct scenario {
    const char *name, *strategy, *method; /* of the default gridder if NULL */
    double accuracy;                      /* 1e-4 is fp32, 1e-8 fp64 */
    int64_t store_bytes;
    msi_weighting rule;
    int residual;                /* a model is subtracted */
    int n_worker;                /* workers that share the first device */
    int on_gpu;                  /* samples go to the GPU as they are added */
    msi_case_data first, second; /* of different channels */
} scenario;

/* The step at which a run failed. */
typedef enum stage { CREATE, ADD, WEIGHT, IMAGE, DONE } stage;

static msi_gridder_spec spec_of(const scenario *s)
{
    static const int first_device[] = {0, 0, 0};
    return (msi_gridder_spec){.geometry = s->first.geometry,
                              .n_plane = s->first.block.n_plane,
                              .psf = 1,
                              .residual = s->residual,
                              .n_worker = s->n_worker,
                              .worker = first_device,
                              .method = s->method,
                              .strategy = s->strategy,
                              .accuracy = s->accuracy,
                              .backend = backend,
                              .n_thread = 1,
                              .store_bytes = s->store_bytes,
                              .temp_dir = temp_folder};
}

static int add_and_weigh(const scenario *s, msi_gridder *g, stage *at)
{
    msi_density *density = NULL;
    *at = ADD;
    int rc = msi_gridder_add(g, &s->first.block);
    if (!rc && s->on_gpu) rc = msi_gridder_gpu_begin(g, 2000, 300);
    if (!rc) rc = msi_gridder_add(g, &s->second.block);
    if (!rc) rc = msi_gridder_gpu_end(g);
    if (rc) return rc;
    *at = WEIGHT;
    if (s->rule.mode != MSI_WEIGHT_NATURAL) {
        rc = msi_density_create(&density, &s->first.geometry, &s->rule);
        if (rc) assert_null(density);
        if (!rc) rc = msi_density_add(density, g);
    }
    if (!rc) rc = msi_gridder_weight(g, density, &s->rule);
    msi_density_free(density);
    return rc;
}

/* Image the residuals of two models in turn, with samples that are sorted once; keep the last. */
static int make_residual(const scenario *s, msi_gridder *g, msi_image *image)
{
    const int n = s->first.block.n_plane;
    const int64_t n_pixel = n * msi_image_n_pixel(&s->first.geometry);
    msi_planes *model = NULL, *residual = NULL;
    int rc = msi_image_alloc(image, &s->first.geometry, n, msi_gridder_precision(g));
    if (!rc) msi_gridder_weights(g, image->sum_weight, NULL, image->n_vis);
    if (!rc) rc = msi_gridder_planes(g, n, &model);
    if (!rc) rc = msi_gridder_planes(g, n, &residual);
    for (int times = 1; !rc && times < 3; times++) {
        for (int64_t i = 0; i < n_pixel; i++) {
            const double value = i % 97 ? 0 : 1e-2 * times;
            if (image->precision == MSI_FP32)
                ((float *)image->pixel)[i] = (float)value;
            else
                ((double *)image->pixel)[i] = value;
        }
        rc = msi_planes_upload(model, 0, n, image->pixel);
        if (!rc) rc = msi_gridder_residual(g, model, residual);
    }
    if (!rc) rc = msi_planes_fetch(residual, 0, n, image->pixel);
    msi_planes_free(model);
    msi_planes_free(residual);
    if (rc) msi_image_free(image);
    return rc;
}

static int make_image(const scenario *s, msi_gridder *g, msi_image *image)
{
    return s->residual ? make_residual(s, g, image) : msi_gridder_image(g, image);
}

static int run(const scenario *s, msi_image *image, msi_gridder_report *report, stage *at)
{
    msi_gridder_spec spec = spec_of(s);
    msi_gridder *g = NULL;
    *at = CREATE;
    memset(image, 0, sizeof *image);
    memset(report, 0, sizeof *report);
    int rc = msi_gridder_create(&g, &spec);
    if (rc) assert_null(g);
    if (!rc) rc = add_and_weigh(s, g, at);
    if (!rc) {
        *at = IMAGE;
        rc = make_image(s, g, image);
        if (rc) {
            assert_null(image->pixel);
            /* A failure to allocate memory leaves the gridder unchanged. */
            failure_disarm();
            if (make_image(s, g, image)) fail_msg("%s: not a second time either: %s", s->name, msi_error_get());
        }
        msi_gridder_report_get(g, report);
    }
    msi_gridder_free(g);
    if (!rc) *at = DONE;
    return rc;
}

static size_t pixel_bytes(const msi_image *image)
{
    return (size_t)(msi_image_n_pixel(&image->geometry) * image->n_plane * msi_image_pixel_bytes(image->precision));
}

/* Compare bits on the CPU: sums do not depend on the number of threads. On a GPU the order of atomic sums varies. */
static void check_image(const scenario *s, const msi_image *image, const msi_image *truth)
{
    assert_int_equal(image->n_plane, truth->n_plane);
    assert_memory_equal(image->n_vis, truth->n_vis, sizeof *truth->n_vis * (size_t)truth->n_plane);
    assert_memory_equal(image->sum_weight, truth->sum_weight, sizeof *truth->sum_weight * (size_t)truth->n_plane);
    if (backend == MSI_BACKEND_CPU) {
        assert_memory_equal(image->pixel, truth->pixel, pixel_bytes(truth));
        return;
    }
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < msi_image_n_pixel(&truth->geometry) * truth->n_plane; i++) {
        double a = msi_image_value(image->pixel, image->precision, i);
        double b = msi_image_value(truth->pixel, truth->precision, i);
        difference += (a - b) * (a - b);
        norm += b * b;
    }
    /* Each run is within a tenth of the accuracy of the same sum, as is rounding; a NaN fails too. */
    if (!(difference <= 0.04 * s->accuracy * s->accuracy * norm)) fail_msg("%s: another image", s->name);
}

/* A failure to write the part of the store in a file is an output error; one of the GPU is a GPU error. */
static int status_due(const char *function)
{
    if (strncmp(function, "cu", 2) == 0) return MSI_EGPU;
    return strcmp(function, "mkostemp64") == 0 || strcmp(function, "posix_fallocate64") == 0 ? MSI_EOUTPUT : MSI_ENOMEM;
}

static void check_failure(const scenario *s, int rc, stage at, int is_only)
{
    const char *function = failure_first();
    const char *message = msi_error_get();
    int due = status_due(function);
    /* A mapping is either memory or the file of the store. */
    int is_file = strcmp(function, "mmap64") == 0 && s->store_bytes && rc == MSI_EOUTPUT;
    /* If several threads fail in parallel, the first failure is not always the one that is kept. */
    /* Samples that cannot go to the GPU stay in host memory, which may fail too. */
    int is_other = !is_only && (s->n_worker || s->on_gpu) && (rc == MSI_ENOMEM || rc == MSI_EGPU);
    if (rc != due && !is_file && !is_other)
        fail_msg("%s: %s failed in stage %d: status %d, not %d: %s", s->name, function, (int)at, rc, due, message);
    if (strcmp(message, NO_MESSAGE) == 0) fail_msg("%s: %s failed in stage %d, no message", s->name, function, (int)at);
}

static void check_all(scenario *s)
{
    msi_image truth, image;
    msi_gridder_report report;
    stage at;
    failure_arm(0, FAILURE_ONCE);
    if (run(s, &truth, &report, &at)) fail_msg("%s: %s", s->name, msi_error_get());
    int64_t n_call = failure_disarm(), reached[DONE + 1] = {0};
    assert_int_equal(report.backend, backend);
    assert_int_equal(report.spilled_bytes > 0, s->store_bytes > 0);
    int64_t in_use = msi_memory_in_use(), on_gpu = failure_cuda_live();
    int n_fd = temp_folder_n_open();
    /* Some calls are made once in a process or once in a thread, so the number of calls differs from run to run: the
     * runs end with one that has fewer calls than the one that was to fail. */
    for (int mode = FAILURE_ONCE; mode <= FAILURE_FROM; mode++) {
        int all_seen = 0;
        for (int64_t n = 1; !all_seen; n++) {
            assert_true(n < 2 * n_call);
            (void)msi_error_set(MSI_OK, NO_MESSAGE);
            failure_arm(n, (failure_mode)mode);
            int rc = run(s, &image, &report, &at);
            failure_disarm();
            if (rc && !failure_first()) fail_msg("%s: nothing failed: %s", s->name, msi_error_get());
            if (rc) check_failure(s, rc, at, mode == FAILURE_ONCE);
            /* The properties of a device are never guessed. */
            if (!rc && failure_first() && strcmp(failure_first(), "cudaDeviceGetAttribute") == 0)
                fail_msg("%s: a failure of %s was not reported", s->name, failure_first());
            if (rc && mode == FAILURE_ONCE && strncmp(failure_first(), "cufftPlan", 9) == 0)
                fail_msg("%s: %s is not tried again: %s", s->name, failure_first(), msi_error_get());
            /* If there is an image, it is right, even after a second attempt. */
            if (image.pixel) check_image(s, &image, &truth);
            msi_image_free(&image);
            assert_int_equal(msi_memory_in_use(), in_use);
            assert_int_equal(failure_cuda_live(), on_gpu);
            assert_int_equal(temp_folder_n_open(), n_fd);
            assert_int_equal(temp_folder_n_file(temp_folder), 0);
            reached[at]++;
            all_seen = n > n_call && !failure_first();
        }
    }
    printf("  %s: %lld calls; %lld failures in create, %lld in add, %lld in weight, %lld in image; %lld survived\n",
           s->name, (long long)n_call, (long long)reached[CREATE], (long long)reached[ADD], (long long)reached[WEIGHT],
           (long long)reached[IMAGE], (long long)reached[DONE]);
    for (int i = CREATE; i <= DONE; i++)
        if (!reached[i] && (i != WEIGHT || s->rule.mode != MSI_WEIGHT_NATURAL))
            fail_msg("%s: nothing failed in stage %d", s->name, i);
    msi_image_free(&truth);
}

static void test_every_failure(void **state)
{
    (void)state;
    const msi_case narrow = {.name = "first",
                             .nx = 48,
                             .ny = 40,
                             .field_x_rad = 0.15,
                             .stretch_y = 1.1,
                             .w_ratio = 0.1,
                             .n_row = 150,
                             .n_chan = 3,
                             .n_plane = 2,
                             .band = 1.2};
    const msi_case wide = {.name = "wide",
                           .nx = 64,
                           .ny = 60,
                           .field_x_rad = 0.3,
                           .w_ratio = 0.6,
                           .n_row = 100,
                           .n_chan = 3,
                           .n_plane = 2,
                           .band = 1.2};
    const msi_weighting briggs = {.mode = MSI_WEIGHT_BRIGGS, .taper = {.major_rad = 1e-3}}, natural = {.robust = 0};
    scenario all[] = {
        {.name = "fp32", .strategy = "planes", .accuracy = 1e-4, .rule = briggs},
        {.name = "fp64", .strategy = "planes", .accuracy = 1e-8, .rule = natural},
        {.name = "on the GPU", .strategy = "planes", .accuracy = 1e-4, .rule = briggs, .on_gpu = 1},
        {.name = "spilled", .strategy = "planes", .accuracy = 1e-3, .rule = briggs, .store_bytes = 75 << 10},
        {.name = "towers", .strategy = "subgrid", .accuracy = 1e-3, .rule = natural},
        {.name = "residual", .strategy = "planes", .accuracy = 1e-4, .rule = briggs, .residual = 1},
        {.name = "residual of towers", .strategy = "subgrid", .accuracy = 1e-3, .rule = natural, .residual = 1},
        {.name = "workers by images", .strategy = "planes", .accuracy = 1e-4, .rule = natural, .n_worker = 2},
        {.name = "workers by samples", .strategy = "subgrid", .accuracy = 1e-3, .rule = natural, .n_worker = 2},
        {.name = "tile", .method = "wproj", .strategy = "tile", .accuracy = 1e-2, .rule = briggs},
        {.name = "window", .method = "wproj", .strategy = "window", .accuracy = 1e-2, .rule = natural}};
    int n_met = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (only && strcmp(only, all[i].name) != 0) continue;
        n_met++;
        if (all[i].on_gpu && backend == MSI_BACKEND_CPU) continue;
        msi_case one = strcmp(all[i].strategy, "subgrid") == 0 ? wide : narrow, other;
        other = one;
        other.n_chan = 5;
        msi_case_make(&all[i].first, &one, 3);
        msi_case_make(&all[i].second, &other, 4);
        check_all(&all[i]);
        msi_case_free(&all[i].first);
        msi_case_free(&all[i].second);
    }
    assert_true(n_met > 0);
}

/* The list of wrapped functions is only complete if the code calls no others. */
static void test_what_was_called(void **state)
{
    (void)state;
    static const char *const host[] = {
        "aligned_alloc",     "malloc", "mmap64", "mkostemp64", "posix_fallocate64", "fftwf_plan_many_dft",
        "fftw_plan_many_dft"};
    static const char *const device[] = {"aligned_alloc",
                                         "cudaMalloc",
                                         "cudaMallocFromPoolAsync",
                                         "cudaMemcpyAsync",
                                         "cudaMemsetAsync",
                                         "cufftPlan2d",
                                         "cufftExecC2C",
                                         "cufftExecZ2Z",
                                         "cudaLaunchKernel",
                                         "cudaSetDevice",
                                         "cudaStreamCreateWithFlags",
                                         "cufftSetStream",
                                         "cudaDeviceGetAttribute"};
    int on_gpu = backend == MSI_BACKEND_CUDA;
    if (only) skip();
    for (size_t i = 0; i < (on_gpu ? sizeof device / sizeof *device : sizeof host / sizeof *host); i++) {
        const char *function = on_gpu ? device[i] : host[i];
        if (!failure_seen(function)) fail_msg("%s was never called", function);
    }
}

static int gpu_answers(void)
{
    const msi_gridder_spec spec = {
        .geometry = {16, 16, 1e-3, 1e-3}, .n_plane = 1, .accuracy = 1e-3, .backend = MSI_BACKEND_CUDA};
    msi_gridder *g = NULL;
    int rc = msi_gridder_create(&g, &spec);
    msi_gridder_free(g);
    return rc != MSI_EGPU;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_failure), cmocka_unit_test(test_what_was_called)};
    int on_gpu = argc > 1 && strcmp(argv[1], "cuda") == 0;
    backend = on_gpu ? MSI_BACKEND_CUDA : MSI_BACKEND_CPU;
    only = argc > 2 ? argv[2] : NULL;
    if (on_gpu && !gpu_answers()) {
        printf("skipped: %s\n", msi_backend_describe());
        return 77;
    }
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
