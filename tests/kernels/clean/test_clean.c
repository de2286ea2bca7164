/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cleaners of one backend compared with their definitions: the same components, one by one, and skies that are
 * recovered. test_clean cpu|cuda */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif
#include "tests/kernels/clean/clean_cases.h"

typedef int64_t oracle(clean_problem *, const oracle_rules *, oracle_component *);

static msi_clean_limits limits_of(const oracle_rules *r)
{
    return (msi_clean_limits){.threshold = r->threshold, .mgain = r->mgain, .n_iteration = r->n_iteration};
}

/* Expect the same pixels and scales in the same order, with values that differ only by rounding. */
static void compare_components(const clean_problem *p, const oracle_component *want, const msi_clean_component *is,
                               const double *value, int64_t n)
{
    const int n_plane = p->n_channel * p->n_pol;
    for (int64_t i = 0; i < n; i++) {
        if (is[i].x != want[i].x || is[i].y != want[i].y || is[i].scale != want[i].scale)
            fail_msg("component %lld at (%d, %d), scale %d, not at (%lld, %lld), scale %d", (long long)i, is[i].x,
                     is[i].y, is[i].scale, (long long)want[i].x, (long long)want[i].y, want[i].scale);
        /* Relative to the first peak, which is near 1; convolutions by transforms have errors of some 1e-16. */
        for (int k = 0; k < n_plane; k++)
            if (!(fabs(value[i * n_plane + k] - want[i].value[k]) <= 1e-12))
                fail_msg("component %lld: %.17g in plane %d, not %.17g", (long long)i, value[i * n_plane + k], k,
                         want[i].value[k]);
    }
}

/* fp64: the oracle's components; its residual and model. */
static void check_sequence(const clean_problem *p, msi_cleaner_spec spec, const oracle_rules *r, oracle *definition)
{
    const int n_plane = p->n_channel * p->n_pol;
    clean_problem truth;
    clean_run run;
    msi_clean_report report;
    oracle_component *want = calloc((size_t)r->n_iteration, sizeof *want);
    msi_clean_component *is = calloc((size_t)r->n_iteration, sizeof *is);
    double *value = calloc((size_t)(r->n_iteration * n_plane), sizeof *value);
    msi_clean_limits limits = limits_of(r);
    limits.component = is;
    limits.value = value;
    limits.component_capacity = r->n_iteration;
    clean_problem_copy(&truth, p);
    const int64_t n = definition(&truth, r, want);
    clean_run_make(&run, p, &spec);
    if (msi_cleaner_minor(run.c, run.residual, run.model, &limits, &report)) fail_msg("%s", msi_error_get());
    printf("  %s: %lld components, %lld rounds, list of %lld, peak %.3g to %.3g, %s\n", spec.method, (long long)n,
           (long long)report.n_round, (long long)report.list_largest, report.peak_before, report.peak_after,
           msi_clean_stop_word(report.stop));
    compare_components(p, want, is, value, n < report.n_iteration ? n : report.n_iteration);
    assert_int_equal(report.n_iteration, n);
    double *residual = clean_run_fetch(&run, run.residual), *model = clean_run_fetch(&run, run.model);
    assert_true(clean_largest_distance(residual, truth.residual, run.n_value) < 1e-11);
    assert_true(clean_largest_distance(model, truth.model, run.n_value) < 1e-11);
    clean_run_free(&run);
    clean_problem_free(&truth);
    free(residual);
    free(model);
    free(want);
    free(is);
    free(value);
}

/* Compare the exact method and the list method with their direct implementations. */
static void check_both(const clean_problem *p, msi_cleaner_spec spec, const oracle_rules *r)
{
    spec.method = "hogbom";
    check_sequence(p, spec, r, oracle_hogbom);
    spec.method = "list";
    check_sequence(p, spec, r, oracle_list);
}

/* fp32: near-ties may be decided differently, but the smoothed model is the same. */
static void check_single(const clean_problem *p, msi_cleaner_spec spec, const oracle_rules *r, oracle *definition)
{
    clean_problem truth;
    clean_run run;
    msi_clean_report report;
    oracle_component *want = calloc((size_t)r->n_iteration, sizeof *want);
    const msi_clean_limits limits = limits_of(r);
    spec.precision = MSI_FP32;
    clean_problem_copy(&truth, p);
    definition(&truth, r, want);
    clean_run_make(&run, p, &spec);
    if (msi_cleaner_minor(run.c, run.residual, run.model, &limits, &report)) fail_msg("%s", msi_error_get());
    double *model = clean_run_fetch(&run, run.model), *residual = clean_run_fetch(&run, run.residual);
    const int64_t n = p->nx * p->ny;
    double *seen = calloc((size_t)n, sizeof *seen), *wanted = calloc((size_t)n, sizeof *wanted);
    for (int k = 0; k < p->n_channel * p->n_pol; k++) {
        oracle_convolve(p, model + k * n, p->psf + k / p->n_pol * n, seen);
        oracle_convolve(p, truth.model + k * n, p->psf + k / p->n_pol * n, wanted);
        const double off = clean_largest_distance(seen, wanted, n);
        const double most = 1e-5 * fabs(report.peak_before);
        if (!(off < most)) fail_msg("%s: model in plane %d off by %g, not %g", spec.method, k, off, most);
        /* Residual and convolved model add up to the dirty image. */
        for (int64_t i = 0; i < n; i++) seen[i] += residual[k * n + i];
        const double lost = clean_largest_distance(seen, p->residual + k * n, n);
        if (!(lost < most)) fail_msg("%s: residual and model miss %g", spec.method, lost);
    }
    clean_run_free(&run);
    clean_problem_free(&truth);
    free(model);
    free(residual);
    free(seen);
    free(wanted);
    free(want);
}

/* Run 10000 iterations on one plane, far below the noise: in the middle half of the image, where cleaning converges
 * since the PSF covers all pairs of pixels. */
static void test_one_plane(void **state)
{
    (void)state;
    clean_problem p = {.nx = 120, .ny = 96, .n_channel = 1, .n_pol = 1};
    uint8_t *mask = clean_inner_mask(&p, 0.25, 1);
    p.mask = mask;
    clean_problem_make(&p, 120, 1);
    clean_problem_points(&p, 30, 2);
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    oracle_rules r = {.gain = 0.1, .n_iteration = 10000};
    spec.gain = r.gain;
    spec.method = "hogbom";
    check_sequence(&p, spec, &r, oracle_hogbom);
    spec.psf_patch = r.patch = 51;
    r.n_iteration = 3000;
    check_sequence(&p, spec, &r, oracle_hogbom);
    spec.psf_patch = r.patch = 0;
    r.n_iteration = 10000;
    spec.method = "list";
    r.threshold = 2e-4;
    check_sequence(&p, spec, &r, oracle_list);
    r.mgain = 0.9;
    r.no_negative = spec.no_negative = 1;
    check_sequence(&p, spec, &r, oracle_list);
    r.mgain = 0;
    r.no_negative = spec.no_negative = 0;
    r.n_iteration = 1000;
    check_single(&p, spec, &r, oracle_list);
    spec.method = "hogbom";
    check_single(&p, spec, &r, oracle_hogbom);
    free(mask);
    clean_problem_free(&p);
}

/* Components in the corners, with a PSF that is as high at its edges as anywhere except in its middle: transforms must
 * not wrap around edges, for sizes whose padded ones are sizes of transforms themselves. */
static void test_corners(void **state)
{
    (void)state;
    static const int64_t edge[][2] = {{64, 96}, {65, 43}, {128, 64}};
    for (int i = 0; i < 3; i++) {
        clean_problem p = {.nx = edge[i][0], .ny = edge[i][1], .n_channel = 1, .n_pol = 1};
        const int64_t n = p.nx * p.ny;
        const oracle_rules r = {.gain = 1, .n_iteration = 4};
        uint64_t seed = 6;
        clean_problem_make(&p, 10, 1);
        for (int64_t k = 0; k < n; k++) {
            p.psf[k] = 0.1 * clean_random(&seed);
            p.residual[k] = 0;
        }
        p.psf[p.ny / 2 * p.nx + p.nx / 2] = 1;
        p.residual[0] = 1;
        p.residual[p.nx - 1] = 0.9;
        p.residual[n - p.nx] = -0.8;
        p.residual[n - 1] = 0.7;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.gain = r.gain;
        check_both(&p, spec, &r);
        clean_problem_free(&p);
    }
}

/* Clean under a mask, on an odd size. */
static void test_mask(void **state)
{
    (void)state;
    clean_problem p = {.nx = 75, .ny = 61, .n_channel = 1, .n_pol = 1};
    clean_problem_make(&p, 90, 3);
    clean_problem_points(&p, 20, 4);
    uint8_t *mask = clean_inner_mask(&p, 0.26, 0.3);
    p.mask = mask;
    p.residual[1000] = NAN;
    p.residual[2000] = INFINITY;
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    oracle_rules r = {.gain = 0.2, .n_iteration = 3000, .threshold = 1e-4};
    spec.gain = r.gain;
    check_both(&p, spec, &r);
    free(mask);
    clean_problem_free(&p);
}

/* Clean joined channels, one of them without weight and not finite, with a polynomial through the others; joined
 * polarisations, by mean channels and by squared ones; with a factor of local noise. */
static void test_joined(void **state)
{
    (void)state;
    clean_problem p = {.nx = 64, .ny = 60, .n_channel = 4, .n_pol = 1, .weight = {1, 0, 2, 0.7}};
    clean_problem_make(&p, 80, 6);
    clean_problem_points(&p, 15, 7);
    uint8_t *mask = clean_inner_mask(&p, 0.25, 1);
    p.mask = mask;
    for (int64_t i = 0; i < p.nx * p.ny; i++) p.residual[p.nx * p.ny + i] = NAN;
    oracle_rules r = {.gain = 0.1, .n_iteration = 2000, .threshold = 1e-3};
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    for (int n_term = 0; n_term < 3; n_term++) {
        r.n_term = spec.n_term = n_term;
        spec.fit = n_term ? MSI_CLEAN_FIT_POLYNOMIAL : MSI_CLEAN_FIT_NONE;
        check_both(&p, spec, &r);
    }
    free(mask);
    clean_problem_free(&p);
}

static void test_polarisations(void **state)
{
    (void)state;
    clean_problem p = {.nx = 48, .ny = 52, .n_channel = 2, .n_pol = 4, .weight = {1, 3}};
    clean_problem_make(&p, 80, 8);
    clean_problem_points(&p, 10, 9);
    uint8_t *mask = clean_inner_mask(&p, 0.25, 1);
    p.mask = mask;
    oracle_rules r = {.gain = 0.1, .n_iteration = 1500, .threshold = 1e-3};
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    for (int squared = 0; squared < 2; squared++) {
        r.squared = spec.squared_join = squared;
        check_both(&p, spec, &r);
    }
    check_single(&p, spec, &r, oracle_list);
    free(mask);
    clean_problem_free(&p);
}

/* Join as many images as large surveys do: 96 channels of three polarisations. */
static void test_many_planes(void **state)
{
    (void)state;
    clean_problem p = {.nx = 20, .ny = 18, .n_channel = 96, .n_pol = 3};
    for (int c = 0; c < p.n_channel; c++) {
        p.weight[c] = 1 + c % 5;
        p.freq_hz[c] = 1e9 + 1e7 * c;
    }
    clean_problem_make(&p, 40, 8);
    clean_problem_points(&p, 6, 9);
    oracle_rules r = {.gain = 0.1, .n_iteration = 60, .threshold = 1e-3};
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    for (int n_term = 0; n_term < 3; n_term += 2) {
        r.n_term = spec.n_term = n_term;
        spec.fit = n_term ? MSI_CLEAN_FIT_POLYNOMIAL : MSI_CLEAN_FIT_NONE;
        check_both(&p, spec, &r);
    }
    clean_problem_free(&p);
}

/* Components are found in some of the polarisations, and subtracted from all of them: only the first, whose sign
 * counts; the middle ones; the last, by squared channels. */
static void test_searched_polarisations(void **state)
{
    (void)state;
    static const struct {
        unsigned searched;
        int squared, no_negative;
    } table[] = {{1, 0, 0}, {1, 0, 1}, {6, 0, 0}, {8, 1, 0}};
    clean_problem p = {.nx = 48, .ny = 52, .n_channel = 2, .n_pol = 4, .weight = {1, 3}};
    clean_problem_make(&p, 80, 8);
    clean_problem_points(&p, 10, 9);
    uint8_t *mask = clean_inner_mask(&p, 0.25, 1);
    p.mask = mask;
    for (int i = 0; i < 4; i++) {
        const oracle_rules r = {.gain = 0.1,
                                .n_iteration = 700,
                                .threshold = 1e-3,
                                .squared = table[i].squared,
                                .no_negative = table[i].no_negative};
        p.searched = table[i].searched;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.squared_join = table[i].squared;
        spec.no_negative = table[i].no_negative;
        check_both(&p, spec, &r);
    }
    free(mask);
    clean_problem_free(&p);
}

static void check_scales(int gaussian, int n_channel, int n_pol, int squared, unsigned searched, int grid_x, int grid_y)
{
    clean_problem p = {
        .nx = 72, .ny = 70, .n_channel = n_channel, .n_pol = n_pol, .weight = {1, 2}, .searched = searched};
    p.grid_x = grid_x;
    p.grid_y = grid_y;
    const clean_source blob = {.x = 33, .y = 36, .sigma = 4, .flux = {20, 15, 12, 9}};
    clean_problem_make(&p, 300, 12);
    clean_problem_add(&p, &blob);
    clean_problem_points(&p, 5, 13);
    oracle_rules r = {.gain = 0.1,
                      .n_iteration = grid_x > 1 ? 100 : 1500,
                      .mgain = 0.9,
                      .n_scale = 3,
                      .scale = {0, 8, 16},
                      .beam = 2,
                      .bias = 0.6,
                      .scale_gain = 0.2,
                      .gaussian = gaussian,
                      .squared = squared};
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    spec.method = "multiscale";
    spec.scale = r.scale;
    spec.n_scale = r.n_scale;
    spec.beam_pixel = r.beam;
    spec.shape = gaussian ? MSI_CLEAN_GAUSSIAN : MSI_CLEAN_TAPERED_QUADRATIC;
    spec.squared_join = squared;
    check_sequence(&p, spec, &r, oracle_multiscale);
    clean_problem_free(&p);
}

static void test_multiscale(void **state)
{
    (void)state;
    check_scales(0, 1, 1, 0, 0, 1, 1);
    check_scales(1, 1, 1, 0, 0, 1, 1);
    check_scales(0, 2, 1, 0, 0, 1, 1);
    check_scales(0, 2, 2, 0, 0, 1, 1);
    check_scales(0, 2, 2, 1, 0, 1, 1);
    check_scales(0, 2, 2, 0, 1, 1, 1);
    check_scales(0, 2, 2, 1, 1, 1, 1);
}

/* Cells with separate PSFs: a component's neighbours see that of its cell, also across the edges of cells. */
static void test_cells(void **state)
{
    (void)state;
    for (int n = 1; n < 3; n++) {
        clean_problem p = {
            .nx = 70, .ny = 56, .n_channel = n, .n_pol = n, .weight = {1, 2}, .grid_x = 4 - n, .grid_y = 2};
        clean_problem_make(&p, 60, 41);
        clean_problem_points(&p, 12, 42);
        oracle_rules r = {.gain = 0.2, .n_iteration = 300, .threshold = 2e-3};
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.gain = r.gain;
        check_both(&p, spec, &r);
        clean_problem_free(&p);
    }
    check_scales(0, 1, 1, 0, 0, 2, 3);
    check_scales(0, 2, 2, 0, 0, 2, 1);
}

/* tclean's rule, with lists of one pixel: its components one by one, with the masks of its scales, down to the
 * threshold if the limit of iterations allows it. Images of `more` pixels have many tiles. In addition to a wide source and points there is one source in which only a
 * narrower scale may be found, and one in which points may not be found. */
static void check_power(int n_channel, int n_pol, int is_masked, double small_scale_bias, double mgain, int n_taylor,
                        int64_t more)
{
    clean_problem p = {.nx = 72 + more,
                       .ny = 70 + more,
                       .n_channel = n_channel,
                       .n_pol = n_pol,
                       .weight = {1, 2, 1.5},
                       .freq_hz = {1e9, 1.5e9, 1.9e9}};
    const int of_taylor = n_taylor > 0;
    static const clean_source source[] = {{.x = 33, .y = 36, .sigma = 4, .flux = {20, 15, 12, 9}},
                                          {.x = 10, .y = 56, .sigma = 4, .flux = {25, 12, 9, 8}},
                                          {.x = 60, .y = 0, .sigma = 0, .flux = {1, 1, 1, 1}}};
    clean_problem_make(&p, 300, 12);
    for (int i = 0; i < 3; i++) clean_problem_add(&p, &source[i]);
    clean_problem_points(&p, more ? 30 : 5, 13);
    uint8_t *mask = clean_inner_mask(&p, 0.25, 1);
    for (int64_t x = 25; x < 32; x++) mask[45 * p.nx + x] = 0;
    if (is_masked) p.mask = mask;
    const oracle_rules r = {.gain = 0.1,
                            .n_iteration = more           ? 25
                                           : n_taylor > 1 ? 60
                                                          : 300,
                            .mgain = mgain,
                            .n_scale = 3,
                            .scale = {0, 8, 16},
                            .beam = 2,
                            .bias = 0.6,
                            .small_scale_bias = small_scale_bias,
                            .n_term = n_taylor > 1 ? n_taylor : 0,
                            .of_taylor = of_taylor};
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    spec.method = "multiscale";
    spec.fit = n_taylor > 1 ? MSI_CLEAN_FIT_POLYNOMIAL : MSI_CLEAN_FIT_NONE;
    spec.n_term = r.n_term;
    spec.scale = r.scale;
    spec.n_scale = r.n_scale;
    spec.beam_pixel = r.beam;
    spec.scale_rule = MSI_CLEAN_BY_POWER;
    spec.small_scale_bias = small_scale_bias;
    spec.of_taylor = of_taylor;
    spec.scale_gain = 1e-9;
    check_sequence(&p, spec, &r, oracle_cornwell);
    free(mask);
    clean_problem_free(&p);
}

static void test_power(void **state)
{
    (void)state;
    check_power(1, 1, 0, 0, 0.9, 0, 0);
    check_power(1, 1, 1, 0, 0.99, 0, 0);
    check_power(1, 1, 1, 0.6, 0.9, 0, 0);
    check_power(1, 1, 0, -0.5, 0.9, 0, 0);
    check_power(2, 2, 1, 0, 0.9, 0, 0);
    check_power(3, 2, 1, 0.3, 0.9, 2, 0);
    check_power(3, 1, 1, 0.3, 0.9, 2, 0);
    check_power(3, 1, 0, 0, 0.9, 2, 70);
}

/* Return the device that is named at position i of several. */
static int device_at(int i)
{
#ifdef MSI_HAVE_CUDA
    if (clean_backend == MSI_BACKEND_CUDA) return i % msi_gpu_count();
#endif
    return i;
}

/* Clean with several devices, or one named several times: the same bits as with one. */
static void check_devices(const clean_problem *p, msi_cleaner_spec spec, msi_precision precision, const char *method)
{
    static const int N_DEVICE[] = {0, 2, 16};
    double *first[2] = {NULL, NULL};
    int64_t n_iteration = 0;
    const msi_clean_limits limits = {.n_iteration = 60, .mgain = 0.9};
    spec.method = method;
    spec.precision = precision;
    for (int i = 0; i < 3; i++) {
        clean_run run;
        msi_clean_report report;
        spec.n_device = N_DEVICE[i];
        for (int k = 0; k < spec.n_device; k++) spec.devices[k] = device_at(k);
        clean_run_make(&run, p, &spec);
        if (msi_cleaner_minor(run.c, run.residual, run.model, &limits, &report)) fail_msg("%s", msi_error_get());
        double *images[2] = {clean_run_fetch(&run, run.residual), clean_run_fetch(&run, run.model)};
        if (!i) n_iteration = report.n_iteration;
        assert_int_equal(report.n_iteration, n_iteration);
        assert_true(n_iteration > 20);
        for (int k = 0; k < 2; k++) {
            if (!i)
                first[k] = images[k];
            else if (memcmp(images[k], first[k], (size_t)run.n_value * sizeof *images[k]))
                fail_msg("%s: %d devices give another %s", method, spec.n_device, k ? "model" : "residual");
            if (i) free(images[k]);
        }
        clean_run_free(&run);
    }
    free(first[0]);
    free(first[1]);
}

static void test_devices(void **state)
{
    (void)state;
    for (int grid = 1; grid < 3; grid++) {
        const clean_source blob = {.x = 33, .y = 36, .sigma = 4, .flux = {20, 15, 12, 9, 14, 13}};
        clean_problem p = {.nx = 72,
                           .ny = 70,
                           .n_channel = 3,
                           .n_pol = 2,
                           .weight = {1, 2, 1.5},
                           .freq_hz = {1e9, 1.5e9, 1.9e9},
                           .grid_x = grid,
                           .grid_y = 1};
        clean_problem_make(&p, 300, 12);
        clean_problem_add(&p, &blob);
        clean_problem_points(&p, 5, 13);
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.scale = (const double[]){0, 8, 16};
        spec.n_scale = 3;
        spec.beam_pixel = 2;
        for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
            check_devices(&p, spec, (msi_precision)precision, "list");
            check_devices(&p, spec, (msi_precision)precision, "multiscale");
        }
        clean_problem_free(&p);
    }
    msi_cleaner *none;
    msi_cleaner_spec wrong = {.nx = 8, .ny = 8, .n_device = 17};
    assert_int_equal(msi_cleaner_create(&none, &wrong), MSI_EARGUMENT);
    assert_string_equal(msi_error_about_get(), "n_device");
}

/* Images so tall that a GPU transforms columns by its own kernels: the same as on the CPU. */
static void test_tall(void **state)
{
    static const char *const METHOD[] = {"list", "multiscale"};
    const clean_source blob = {.x = 13, .y = 700, .sigma = 2, .flux = {20, 15}};
    clean_problem p = {.nx = 26, .ny = 1530, .n_channel = 2, .n_pol = 1, .weight = {1, 2}};
    const msi_clean_limits limits = {.n_iteration = 300, .mgain = 0.9};
    const msi_backend tested = clean_backend;
    (void)state;
    if (tested == MSI_BACKEND_CPU) return;
    clean_problem_make(&p, 100, 12);
    clean_problem_add(&p, &blob);
    clean_problem_points(&p, 20, 13);
    for (int i = 0; i < 2; i++) {
        clean_run run[2];
        double *image[2][2];
        msi_clean_report report[2];
        for (int k = 0; k < 2; k++) {
            clean_backend = k ? MSI_BACKEND_CPU : tested;
            msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
            spec.method = METHOD[i];
            spec.scale = (const double[]){0, 4, 8};
            spec.n_scale = 3;
            spec.beam_pixel = 2;
            clean_run_make(&run[k], &p, &spec);
            if (msi_cleaner_minor(run[k].c, run[k].residual, run[k].model, &limits, &report[k]))
                fail_msg("%s", msi_error_get());
            image[k][0] = clean_run_fetch(&run[k], run[k].residual);
            image[k][1] = clean_run_fetch(&run[k], run[k].model);
        }
        clean_backend = tested;
        assert_int_equal(report[0].n_iteration, report[1].n_iteration);
        assert_true(report[0].n_round > 1);
        for (int k = 0; k < 2; k++) {
            const double off = clean_largest_distance(image[0][k], image[1][k], run[0].n_value);
            if (!(off < 1e-11)) fail_msg("%s: the %s is off by %g", METHOD[i], k ? "model" : "residual", off);
            free(image[k][0]);
            free(image[k][1]);
            clean_run_free(&run[k]);
        }
    }
    clean_problem_free(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_plane),     cmocka_unit_test(test_corners),
        cmocka_unit_test(test_mask),          cmocka_unit_test(test_joined),
        cmocka_unit_test(test_polarisations), cmocka_unit_test(test_searched_polarisations),
        cmocka_unit_test(test_multiscale),    cmocka_unit_test(test_power),
        cmocka_unit_test(test_many_planes),   cmocka_unit_test(test_cells),
        cmocka_unit_test(test_devices),       cmocka_unit_test(test_tall)};
    if (!clean_begin(argc, argv)) return 77;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
