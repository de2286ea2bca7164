/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Components found in known skies, reasons to stop, and errors. test_clean_sky cpu|cuda */
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
#include "tests/kernels/clean/clean_cases.h"

static msi_clean_report clean(clean_run *run, msi_clean_limits limits)
{
    msi_clean_report report;
    if (msi_cleaner_minor(run->c, run->residual, run->model, &limits, &report)) fail_msg("%s", msi_error_get());
    return report;
}

/* Clean until the peak is at the threshold, without major cycles: they would only reproduce the residuals. */
static msi_clean_report clean_down(clean_run *run, double threshold)
{
    msi_clean_report report = {0};
    for (int major = 0; major < 40; major++) {
        report = clean(run, (msi_clean_limits){.threshold = threshold, .mgain = 0.8, .n_iteration = 100000});
        if (report.stop != MSI_CLEAN_STOP_MAJOR) break;
    }
    return report;
}

static double sum_of(const double *v, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i];
    return sum;
}

/* A gaussian's flux is recovered within 2 %, with both shapes of scales; the residual is small. */
static void test_gaussian(void **state)
{
    (void)state;
    clean_problem p = {.nx = 128, .ny = 128, .n_channel = 1, .n_pol = 1};
    const clean_source blob = {.x = 60, .y = 66, .sigma = 5, .flux = {30}}, point = {.x = 82, .y = 50, .flux = {1}};
    clean_problem_make(&p, 2000, 21);
    clean_problem_add(&p, &blob);
    clean_problem_add(&p, &point);
    for (int shape = 0; shape < 2; shape++) {
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
        clean_run run;
        spec.method = "multiscale";
        spec.beam_pixel = 3;
        spec.shape = shape ? MSI_CLEAN_GAUSSIAN : MSI_CLEAN_TAPERED_QUADRATIC;
        clean_run_make(&run, &p, &spec);
        const msi_clean_report r = clean_down(&run, 0.02);
        double *model = clean_run_fetch(&run, run.model);
        const double flux = sum_of(model, run.n_value);
        printf("  shape %d: flux %.3f of 31, peak %.3g, %s\n", shape, flux, r.peak_after, msi_clean_stop_word(r.stop));
        assert_true(fabs(flux - 31) < 0.02 * 31);
        /* A point stays a point: most of its flux is in its pixel. */
        assert_true(fabs(model[50 * 128 + 82] - 1) < 0.1);
        free(model);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* Points on pixels are found there with their fluxes, within the gain times the threshold and the sidelobes of the
 * remaining flux of others. */
static void test_points(void **state)
{
    (void)state;
    static const char *const method[] = {"hogbom", "list"};
    clean_problem p = {.nx = 100, .ny = 110, .n_channel = 1, .n_pol = 1};
    static const double flux[] = {1, 0.5, -0.3, 0.2};
    static const int at[][2] = {{30, 40}, {60, 70}, {50, 30}, {45, 80}};
    clean_problem_make(&p, 1500, 22);
    for (int i = 0; i < 4; i++) clean_problem_add(&p, &(clean_source){.x = at[i][0], .y = at[i][1], .flux = {flux[i]}});
    for (int m = 0; m < 2; m++) {
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
        clean_run run;
        spec.method = method[m];
        clean_run_make(&run, &p, &spec);
        const msi_clean_report r = clean_down(&run, 1e-3);
        double *model = clean_run_fetch(&run, run.model);
        assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
        assert_true(fabs(r.peak_after) <= 1e-3);
        for (int i = 0; i < 4; i++) assert_true(fabs(model[at[i][1] * 100 + at[i][0]] - flux[i]) < 2e-3);
        assert_true(fabs(sum_of(model, run.n_value) - 1.4) < 4e-3);
        free(model);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* A source of Q = 1, U = -1, whose polarisations add up to zero, is found if they are joined. */
static void test_opposite_polarisations(void **state)
{
    (void)state;
    clean_problem p = {.nx = 64, .ny = 64, .n_channel = 1, .n_pol = 4};
    const clean_source s = {.x = 30, .y = 33, .flux = {0, 1, -1, 0}};
    clean_problem_make(&p, 800, 23);
    clean_problem_add(&p, &s);
    int n;
    const msi_clean_method *row = msi_clean_methods(&n);
    for (int i = 0; i < n; i++) {
        if (row[i].backend != clean_backend) continue;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
        clean_run run;
        spec.method = row[i].name;
        spec.beam_pixel = 3;
        clean_run_make(&run, &p, &spec);
        const msi_clean_report r = clean_down(&run, 0.01);
        double *model = clean_run_fetch(&run, run.model);
        assert_true(fabs(r.peak_before) <= sqrt(2) * 1.0001 && fabs(r.peak_after) <= 0.0101);
        assert_true(fabs(model[4096 + 33 * 64 + 30] - 1) < 0.02 && fabs(model[8192 + 33 * 64 + 30] + 1) < 0.02);
        free(model);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* A log-polynomial of a power law is the power law, in every channel with weight; if channels differ in sign, the
 * polynomial with as many coefficients is used. */
static void test_power_law(void **state)
{
    (void)state;
    clean_problem p = {.nx = 48, .ny = 48, .n_channel = 6, .n_pol = 1, .weight = {1, 2, 1, 0, 1, 3}};
    clean_source s = {.x = 22, .y = 24};
    for (int c = 0; c < 6; c++) {
        p.freq_hz[c] = 0.9e9 + 0.15e9 * c;
        s.flux[c] = 2 * pow(p.freq_hz[c] / 1e9, -0.7);
    }
    clean_problem_make(&p, 500, 24);
    clean_problem_add(&p, &s);
    for (int precision = 0; precision < 2; precision++) {
        msi_cleaner_spec spec = clean_spec_of(&p, precision ? MSI_FP64 : MSI_FP32);
        clean_run run;
        double value[2][6];
        float single[6];
        spec.fit = MSI_CLEAN_FIT_LOG;
        spec.n_term = 2;
        clean_run_make(&run, &p, &spec);
        clean(&run, (msi_clean_limits){.n_iteration = 1,
                                       .component_capacity = 1,
                                       .value = precision ? (void *)value : (void *)single});
        for (int c = 0; c < 6; c++) {
            const double is = precision ? value[0][c] : single[c], want = c == 3 ? 0 : 0.1 * s.flux[c];
            assert_true(fabs(is - want) < (precision ? 1e-10 : 1e-6) * want + 1e-300);
        }
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

static clean_run run_of(const clean_problem *p, const char *method)
{
    clean_run run;
    msi_cleaner_spec spec = clean_spec_of(p, MSI_FP64);
    spec.method = method;
    spec.stop_negative = 1;
    spec.beam_pixel = 3;
    clean_run_make(&run, p, &spec);
    return run;
}

/* Test every reason to stop, for every method; residual and model match the number of components reported. */
static void check_stops(const clean_problem *p, const char *method)
{
    const uint8_t *none = calloc((size_t)(p->nx * p->ny), 1);
    clean_run run = run_of(p, method);
    msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 7});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_ITERATIONS);
    assert_int_equal(r.n_iteration, 7);
    assert_int_equal(r.scale_count[0] + r.scale_count[1] + r.scale_count[2], 7);
    r = clean(&run, (msi_clean_limits){.n_iteration = 0});
    assert_int_equal(r.n_iteration, 0);
    r = clean(&run, (msi_clean_limits){.mgain = 0.2, .n_iteration = 10000});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_MAJOR);
    assert_true(fabs(r.peak_after) <= r.threshold);
    r = clean(&run, (msi_clean_limits){.threshold = 0.5, .n_iteration = 10000});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
    r = clean(&run, (msi_clean_limits){.threshold = 0.5, .n_iteration = 10000});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
    assert_int_equal(r.n_iteration, 0);
    r = clean(&run, (msi_clean_limits){.threshold = 0.1, .n_iteration = 10000});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_NEGATIVE);
    /* Components are found only where earlier ones were. */
    uint16_t *found = calloc((size_t)(p->nx * p->ny), sizeof *found);
    int64_t n_found = 0;
    assert_int_equal(msi_cleaner_found(run.c, found), 0);
    for (int64_t i = 0; i < p->nx * p->ny; i++) n_found += found[i] != 0;
    assert_true(n_found > 0 && n_found < 60);
    assert_int_equal(msi_cleaner_found_set(run.c, NULL), 0);
    r = clean(&run, (msi_clean_limits){.only_found = 1, .n_iteration = 10000});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_EMPTY);
    assert_int_equal(msi_cleaner_found_set(run.c, found), 0);
    r = clean(&run, (msi_clean_limits){.only_found = 1, .n_iteration = 1});
    assert_int_not_equal(r.stop, MSI_CLEAN_STOP_EMPTY);
    assert_int_equal(msi_cleaner_mask(run.c, none), 0);
    r = clean(&run, (msi_clean_limits){.n_iteration = 10});
    assert_int_equal(r.stop, MSI_CLEAN_STOP_EMPTY);
    for (int i = 0; i < MSI_CLEAN_N_STOP; i++) assert_string_not_equal(msi_clean_stop_word(i), "unknown");
    clean_run_free(&run);
    free(found);
    free((void *)none);
}

/* Within the found mask a scale may be found where it, or a neighbour of it, was found; not where another scale was. */
static void test_found_scales(void **state)
{
    (void)state;
    clean_problem p = {.nx = 96, .ny = 96, .n_channel = 1, .n_pol = 1};
    static const double scale[] = {0, 6, 12, 24};
    enum { AT = 50 * 96 + 46 };
    static uint16_t found[96 * 96];
    clean_problem_make(&p, 800, 27);
    clean_problem_add(&p, &(clean_source){.x = 46, .y = 50, .flux = {1}});
    for (int s = 0; s < 4; s++) {
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        clean_run run;
        spec.method = "multiscale";
        spec.scale = scale;
        spec.n_scale = 4;
        spec.beam_pixel = 2;
        clean_run_make(&run, &p, &spec);
        found[AT] = (uint16_t)(1U << s);
        assert_int_equal(msi_cleaner_found_set(run.c, found), 0);
        const msi_clean_report r = clean(&run, (msi_clean_limits){.only_found = 1, .n_iteration = 40});
        int64_t n_near = 0;
        for (int k = 0; k < 4; k++) n_near += abs(k - s) <= 1 ? r.scale_count[k] : 0;
        assert_int_equal(r.peak_x, 46);
        assert_int_equal(r.peak_y, 50);
        assert_int_equal(n_near, r.n_iteration);
        /* The source is a point, so the smallest of the allowed scales is found. */
        assert_true(r.scale_count[s ? s - 1 : 0] > 0);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* A scale is found only where its own bit of the mask of scales is set, whatever the other bits are. */
static void test_scale_mask(void **state)
{
    (void)state;
    clean_problem p = {.nx = 96, .ny = 96, .n_channel = 1, .n_pol = 1};
    static const double scale[] = {0, 6, 12, 24};
    enum { AT = 50 * 96 + 46 };
    static uint16_t scales[96 * 96];
    clean_problem_make(&p, 800, 27);
    clean_problem_add(&p, &(clean_source){.x = 46, .y = 50, .flux = {1}});
    for (int s = 0; s < 4; s++) {
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        clean_run run;
        spec.method = "multiscale";
        spec.scale = scale;
        spec.n_scale = 4;
        spec.beam_pixel = 2;
        spec.by_scale = 1;
        clean_run_make(&run, &p, &spec);
        /* The other scales are allowed where there is less flux. */
        for (int64_t i = 0; i < 96 * 96; i++) scales[i] = i == AT ? (uint16_t)(1U << s) : 0;
        scales[20 * 96 + 20] = (uint16_t)(15 & ~(1U << s));
        assert_int_equal(msi_cleaner_scale_mask(run.c, scales), 0);
        msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 1});
        assert_int_equal(r.scale_count[s], 1);
        r = clean(&run, (msi_clean_limits){.n_iteration = 30});
        double *model = calloc(96 * 96, sizeof *model);
        assert_int_equal(msi_planes_fetch(run.model, 0, 1, model), 0);
        /* Only components at the two pixels, of their scales; wide ones are added by transforms. */
        int64_t reach = (int64_t)scale[s] / 2 + 1, n_far = 0;
        for (int64_t y = 0; y < 96; y++)
            for (int64_t x = 0; x < 96; x++) {
                const int near_source = llabs(x - 46) <= reach && llabs(y - 50) <= reach;
                const int near_other = llabs(x - 20) <= 13 && llabs(y - 20) <= 13;
                n_far += fabs(model[y * 96 + x]) > 1e-12 && !near_source && !near_other;
            }
        assert_int_equal(n_far, 0);
        assert_int_equal(msi_cleaner_scale_mask(run.c, NULL), 0);
        r = clean(&run, (msi_clean_limits){.n_iteration = 1});
        assert_int_equal(r.n_iteration, 1);
        free(model);
        clean_run_free(&run);
    }
    clean_run plain;
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    clean_run_make(&plain, &p, &spec);
    assert_int_equal(msi_cleaner_scale_mask(plain.c, scales), MSI_EARGUMENT);
    clean_run_free(&plain);
    clean_problem_free(&p);
}

/* Compute the weighted least-squares line a + b x through values, at x. */
static double line_at(int n, const double *weight, const double *x, const double *y, double at)
{
    double s = 0, sx = 0, sxx = 0, sy = 0, sxy = 0;
    for (int c = 0; c < n; c++) {
        s += weight[c];
        sx += weight[c] * x[c];
        sxx += weight[c] * x[c] * x[c];
        sy += weight[c] * y[c];
        sxy += weight[c] * x[c] * y[c];
    }
    const double b = (s * sxy - sx * sy) / (s * sxx - sx * sx);
    return (sy - b * sx) / s + b * at;
}

/* With a correction k the pixel of largest |sum w k R| is found, and its values are g k R, or the fit to them: a line, or
 * a power law, which k R is here. */
static void test_correction(void **state)
{
    (void)state;
    enum { N = 64, C = 4 };
    static const double correction[C] = {0.5, 0.9, 1.4, 2.2}, weight[C] = {1, 2, 1.5, 0.7};
    static const struct {
        const char *method;
        msi_clean_fit fit;
    } cases[] = {{"hogbom", MSI_CLEAN_FIT_NONE},     {"list", MSI_CLEAN_FIT_NONE}, {"hogbom", MSI_CLEAN_FIT_POLYNOMIAL},
                 {"list", MSI_CLEAN_FIT_POLYNOMIAL}, {"list", MSI_CLEAN_FIT_LOG},  {"hogbom", MSI_CLEAN_FIT_LOG},
                 {"multiscale", MSI_CLEAN_FIT_NONE}};
    clean_problem p = {.nx = N, .ny = N, .n_channel = C, .n_pol = 1};
    clean_source steep = {.x = 20, .y = 40}, flat = {.x = 45, .y = 22};
    for (int c = 0; c < C; c++) {
        p.weight[c] = weight[c];
        p.freq_hz[c] = 1e9 + 2e8 * c;
        steep.flux[c] = pow(p.freq_hz[c] / 1e9, -0.8) / correction[c];
        flat.flux[c] = 0.2;
    }
    clean_problem_make(&p, 400, 51);
    clean_problem_add(&p, &steep);
    clean_problem_add(&p, &flat);
    int64_t best = 0;
    double largest = 0, x[C], y[C], mean = 0, all = 0;
    for (int64_t i = 0; i < N * N; i++) {
        double sum = 0;
        for (int c = 0; c < C; c++) sum += weight[c] * correction[c] * p.residual[c * N * N + i];
        if (fabs(sum) > largest) best = i;
        largest = fmax(largest, fabs(sum));
    }
    for (int c = 0; c < C; c++) {
        mean += weight[c] * p.freq_hz[c];
        all += weight[c];
    }
    for (int c = 0; c < C; c++) {
        x[c] = p.freq_hz[c] / (mean / all) - 1;
        y[c] = correction[c] * p.residual[c * N * N + best];
    }
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        clean_run run;
        msi_clean_component component;
        double value[C];
        spec.method = cases[k].method;
        spec.fit = cases[k].fit;
        spec.n_term = 2;
        spec.correction = correction;
        spec.scale = (const double[]){0};
        spec.n_scale = 1;
        spec.beam_pixel = 3;
        clean_run_make(&run, &p, &spec);
        clean(&run,
              (msi_clean_limits){.n_iteration = 1, .component = &component, .value = value, .component_capacity = 1});
        assert_int_equal(component.y * N + component.x, best);
        for (int c = 0; c < C; c++) {
            const double want =
                0.1 * (cases[k].fit == MSI_CLEAN_FIT_POLYNOMIAL ? line_at(C, weight, x, y, x[c]) : y[c]);
            /* The other source's sidelobes make y differ from a power law. */
            const double limit = cases[k].fit == MSI_CLEAN_FIT_LOG ? 0.02 : 1e-12;
            if (!(fabs(value[c] - want) <= limit * fabs(want)))
                fail_msg("%s, fit %d, channel %d: %g, wanted %g", cases[k].method, cases[k].fit, c, value[c], want);
        }
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* A signal ends a call with its code; the cleaner then works as before. */
static void check_interrupt(const clean_problem *p, const char *method)
{
    clean_run run = run_of(p, method);
    const msi_clean_limits limits = {.n_iteration = 5};
    msi_clean_report report;
    msi_interrupt_raise(SIGTERM);
    assert_int_equal(msi_cleaner_minor(run.c, run.residual, run.model, &limits, &report), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    assert_int_equal(msi_cleaner_minor(run.c, run.residual, run.model, &limits, &report), 0);
    assert_int_equal(report.n_iteration, 5);
    clean_run_free(&run);
}

static void test_stops(void **state)
{
    (void)state;
    clean_problem p = {.nx = 72, .ny = 64, .n_channel = 1, .n_pol = 1};
    clean_problem_make(&p, 800, 25);
    clean_problem_add(&p, &(clean_source){.x = 30, .y = 30, .flux = {2}});
    clean_problem_add(&p, &(clean_source){.x = 40, .y = 38, .flux = {-0.4}});
    int n;
    const msi_clean_method *row = msi_clean_methods(&n);
    for (int i = 0; i < n; i++)
        if (row[i].backend == clean_backend) {
            check_stops(&p, row[i].name);
            check_interrupt(&p, row[i].name);
        }
    clean_problem_free(&p);
}

/* A PSF that does not fall off makes cleaning diverge, which is detected and reported. */
static void test_divergence(void **state)
{
    (void)state;
    clean_problem p = {.nx = 64, .ny = 64, .n_channel = 1, .n_pol = 1};
    clean_problem_make(&p, 500, 26);
    for (int64_t i = 0; i < 64 * 64; i++) p.psf[i] = i == 32 * 64 + 32 ? 1 : (i + i / 64) % 2 ? 1.4 : -1.4;
    p.residual[2000] = 1;
    p.residual[2200] = 0.9;
    for (int m = 0; m < 2; m++) {
        clean_run run;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.method = m ? "list" : "hogbom";
        spec.gain = 1;
        clean_run_make(&run, &p, &spec);
        const msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 1000});
        assert_int_equal(r.stop, MSI_CLEAN_STOP_DIVERGED);
        assert_true(r.n_iteration < 100);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* A point is in the middle of a wide negative source, so that wide scales have no peak until the point is cleaned; then
 * one has a peak of 2.2 times the first. That is not a divergence: the next rounds find the negative source. */
static void test_wide_after_points(void **state)
{
    (void)state;
    enum { N = 64 };
    clean_problem p = {.nx = N, .ny = N, .n_channel = 1, .n_pol = 1};
    clean_problem_make(&p, 500, 29);
    for (int64_t i = 0; i < N * N; i++) {
        const double x = (double)(i % N - N / 2), y = (double)(i / N - N / 2), r2 = x * x + y * y;
        p.psf[i] = 0.4 * exp(-r2 / 2) + 0.6 * exp(-r2 / 288);
    }
    clean_problem_add(&p, &(clean_source){.x = N / 2, .y = N / 2, .flux = {1}});
    clean_problem_add(&p, &(clean_source){.x = N / 2, .y = N / 2, .sigma = 3, .flux = {-1.1}});
    clean_run run;
    msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    spec.method = "multiscale";
    spec.beam_pixel = 0.7;
    clean_run_make(&run, &p, &spec);
    const msi_clean_report r = clean(&run, (msi_clean_limits){.threshold = 0.03, .n_iteration = 10000});
    double *model = clean_run_fetch(&run, run.model);
    printf("  peak %.3g and %.3g, flux %.3g of -0.1, %s\n", r.peak_before, r.peak_after, sum_of(model, run.n_value),
           msi_clean_stop_word(r.stop));
    assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
    assert_true(fabs(r.peak_after) <= 0.03);
    assert_true(fabs(sum_of(model, run.n_value) + 0.1) < 0.05);
    free(model);
    clean_run_free(&run);
    clean_problem_free(&p);
}

/* A round may raise a scale's peak, where sidelobes of its list add up. The scale is still used: if the report says
 * that the threshold is reached, no point is left above it. */
static void test_rounds_that_raise(void **state)
{
    (void)state;
    enum { N = 64 };
    int n_reached = 0;
    for (uint64_t seed = 40; seed < 60; seed++) {
        clean_problem p = {.nx = N, .ny = N, .n_channel = 1, .n_pol = 1};
        clean_problem_make(&p, 80, seed);
        clean_problem_points(&p, 12, seed + 100);
        clean_run run;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        spec.method = "multiscale";
        spec.beam_pixel = 2;
        clean_run_make(&run, &p, &spec);
        const double threshold = 0.05;
        const msi_clean_report r = clean(&run, (msi_clean_limits){.threshold = threshold, .n_iteration = 20000});
        double *left = clean_run_fetch(&run, run.residual), most = 0;
        for (int64_t i = 0; i < N * N; i++) most = fmax(most, fabs(left[i]));
        printf("  seed %d: %.4f left, %d iterations, %s\n", (int)seed, most, (int)r.n_iteration,
               msi_clean_stop_word(r.stop));
        if (r.stop == MSI_CLEAN_STOP_THRESHOLD) {
            n_reached++;
            assert_true(most <= threshold * (1 + 1e-9));
        }
        free(left);
        clean_run_free(&run);
        clean_problem_free(&p);
    }
    assert_true(n_reached >= 15);
}

/* A list of few pixels needs more rounds for the same result: residual and convolved model add up to the dirty
 * image. */
static void test_short_lists(void **state)
{
    (void)state;
    clean_problem p = {.nx = 80, .ny = 72, .n_channel = 1, .n_pol = 1};
    clean_problem_make(&p, 800, 27);
    clean_problem_points(&p, 20, 28);
    for (int precision = 0; precision < 2; precision++) {
        clean_run run;
        msi_cleaner_spec spec = clean_spec_of(&p, precision ? MSI_FP64 : MSI_FP32);
        spec.list_limit = 40;
        clean_run_make(&run, &p, &spec);
        const msi_clean_report r = clean(&run, (msi_clean_limits){.threshold = 0.05, .n_iteration = 20000});
        assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
        assert_true(r.list_largest <= 40 && r.n_round > 3);
        double *model = clean_run_fetch(&run, run.model), *residual = clean_run_fetch(&run, run.residual);
        double *seen = calloc((size_t)run.n_value, sizeof *seen);
        oracle_convolve(&p, model, p.psf, seen);
        for (int64_t i = 0; i < run.n_value; i++) seen[i] += residual[i];
        assert_true(clean_largest_distance(seen, p.residual, run.n_value) < (precision ? 1e-12 : 1e-5));
        free(model);
        free(residual);
        free(seen);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* Set all PSFs to that of a ring of samples from `inner` to 0.4 cycles a pixel, without shorter baselines. */
static void set_ring_psf(clean_problem *p, double inner)
{
    enum { RADII = 8, ANGLES = 64 };
    const int64_t n = p->nx * p->ny;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)(i % p->nx - p->nx / 2), y = (double)(i / p->nx - p->ny / 2);
        double sum = 0;
        for (int k = 0; k < RADII * ANGLES; k++) {
            const double r = inner + (0.4 - inner) * (k / ANGLES) / (RADII - 1), angle = MSI_PI * (k % ANGLES) / ANGLES;
            sum += cos(2 * MSI_PI * r * (x * cos(angle) + y * sin(angle)));
        }
        for (int c = 0; c < p->n_channel; c++) p->psf[c * n + i] = sum / (RADII * ANGLES);
    }
}

/* Return the sum over P x K for a tapered quadratic kernel of this full width: the cleaner's definition. */
static double response(const clean_problem *p, double width)
{
    const int64_t half = (int64_t)ceil(width / 2);
    double sum = 0, norm = 0;
    for (int64_t y = -half; y <= half; y++)
        for (int64_t x = -half; x <= half; x++) {
            const double r = sqrt((double)(x * x + y * y));
            if (r >= width || r > half + 1) continue;
            const double k = 0.5 * (1 + cos(MSI_PI * r / (half + 1))) * (1 - r * r / (width * width));
            norm += k;
            sum += k * p->psf[(p->ny / 2 + y) * p->nx + p->nx / 2 + x];
        }
    return sum / norm;
}

/* If the PSF has no positive response to a wide scale, that scale is left out, and points are still found. */
static void test_scales_without_response(void **state)
{
    (void)state;
    static const double inner[] = {0.08, 0.11, 0.14, 0.18};
    int n_negative = 0;
    for (int i = 0; i < 16; i++) {
        clean_problem p = {.nx = 96, .ny = 96, .n_channel = 2, .n_pol = 1, .weight = {1, 1}};
        clean_problem_make(&p, 1, 61);
        set_ring_psf(&p, inner[i / 4]);
        clean_problem_add(&p, &(clean_source){.x = 40, .y = 52, .flux = {1, 1}});
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
        spec.method = "multiscale";
        spec.beam_pixel = 1.5;
        spec.scale_rule = i & 1 ? MSI_CLEAN_BY_POWER : MSI_CLEAN_BY_BEAM;
        spec.squared_join = i >> 1 & 1;
        clean_run run;
        clean_run_make(&run, &p, &spec);
        int n;
        const double *scale = msi_cleaner_scales(run.c, &n);
        for (int s = 1; s < n; s++) n_negative += response(&p, scale[s]) < 0;
        const msi_clean_report r = clean_down(&run, 0.01);
        double *model = clean_run_fetch(&run, run.model);
        assert_int_equal(r.stop, MSI_CLEAN_STOP_THRESHOLD);
        assert_true(fabs(r.peak_after) <= 0.01);
        /* The residual is at most the threshold at the point and its sidelobes. */
        for (int c = 0; c < 2; c++) assert_true(fabs(model[c * 96 * 96 + 52 * 96 + 40] - 1) < 0.03);
        free(model);
        clean_run_free(&run);
        clean_problem_free(&p);
    }
    printf("  %d negative responses\n", n_negative);
    assert_true(n_negative > 0);
}

static void refused(msi_cleaner_spec spec, const char *member)
{
    msi_cleaner *c;
    msi_cleaner_bytes bytes;
    assert_int_equal(msi_cleaner_create(&c, &spec), MSI_EARGUMENT);
    assert_null(c);
    assert_string_equal(msi_error_about_get(), member);
    assert_int_equal(msi_cleaner_estimate(&spec, &bytes), MSI_EARGUMENT);
}

static void test_refusals(void **state)
{
    (void)state;
    static const double frequencies[] = {1e9, 1e9}, scales[] = {0, 5, 4}, none[] = {0, 0};
    const msi_cleaner_spec ok = {.nx = 32, .ny = 32, .backend = clean_backend};
#define REFUSED(about, ...)                                                                                            \
    do {                                                                                                               \
        msi_cleaner_spec s = ok;                                                                                       \
        __VA_ARGS__;                                                                                                   \
        refused(s, about);                                                                                             \
    } while (0)
    REFUSED("nx", s.nx = 0);
    REFUSED("ny", s.ny = 65536);
    REFUSED("n_channel", s.n_channel = 257);
    REFUSED("n_channel", (s.n_channel = 129, s.n_pol = 4));
    REFUSED("n_channel", (s.n_channel = 8, s.of_taylor = 1));
    REFUSED("n_pol", s.n_pol = 5);
    REFUSED("method", s.method = "clark");
    REFUSED("gain", s.gain = -1);
    REFUSED("gain", s.gain = NAN);
    REFUSED("border", s.border = 0.5);
    REFUSED("weight", (s.n_channel = 2, s.weight = none));
    REFUSED("n_term", (s.n_channel = 2, s.fit = MSI_CLEAN_FIT_POLYNOMIAL, s.n_term = 2, s.freq_hz = frequencies));
    REFUSED("n_term", (s.n_channel = 10, s.fit = MSI_CLEAN_FIT_LOG, s.n_term = 9));
    REFUSED("n_term", (s.n_channel = 7, s.of_taylor = 1, s.n_term = 5));
    REFUSED("freq_hz", (s.fit = MSI_CLEAN_FIT_LOG, s.n_term = 1));
    REFUSED("spectrum", s.fit = MSI_CLEAN_FIT_FORCED);
    REFUSED("correction", (s.n_channel = 2, s.correction = none));
    REFUSED("scale", s.method = "multiscale");
    REFUSED("scale", (s.method = "multiscale", s.beam_pixel = 2, s.scale = scales, s.n_scale = 3));
    REFUSED("scale", (s.method = "multiscale", s.beam_pixel = 2, s.scale = scales + 1, s.n_scale = 1));
#undef REFUSED
}

/* A cleaner uses at most the estimated memory, and frees all of it. */
static void test_memory(void **state)
{
    (void)state;
    int n;
    const msi_clean_method *row = msi_clean_methods(&n);
    clean_problem p = {.nx = 96, .ny = 80, .n_channel = 2, .n_pol = 2};
    p.weight[0] = p.weight[1] = 1;
    clean_problem_make(&p, 100, 32);
    clean_problem_points(&p, 4, 33);
    for (int i = 0; i < n; i++) {
        if (row[i].backend != clean_backend) continue;
        const int64_t before = msi_memory_in_use();
        msi_cleaner_bytes bytes;
        clean_run run;
        msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
        spec.method = row[i].name;
        spec.beam_pixel = 2;
        assert_int_equal(msi_cleaner_estimate(&spec, &bytes), 0);
        clean_run_make(&run, &p, &spec);
        clean(&run, (msi_clean_limits){.n_iteration = 300});
        const int64_t planes = clean_backend == MSI_BACKEND_CPU ? 2 * 4 * run.n_value : 0;
        /* Other tables need less than 64 KB. */
        assert_true(msi_memory_in_use() - before - planes <= bytes.host + 65536);
        assert_true((bytes.device > 0) == (clean_backend == MSI_BACKEND_CUDA));
        clean_run_free(&run);
        assert_int_equal(msi_memory_in_use(), before);
    }
    clean_problem_free(&p);
}

/* Clean with a limit of host memory beyond that in use. Returns: the first failure, or 0 */
static int clean_within(const msi_cleaner_spec *spec, const msi_planes *psf, msi_planes *residual, msi_planes *model,
                        int64_t allowed)
{
    const int64_t in_use = msi_memory_in_use();
    const msi_clean_limits limits = {.n_iteration = 200, .mgain = 0.9};
    msi_clean_report report;
    msi_cleaner *c;
    double sigma;
    msi_memory_limit_set(in_use + allowed);
    int rc = msi_cleaner_create(&c, spec);
    if (!rc) rc = msi_cleaner_psf(c, psf);
    if (!rc) rc = msi_cleaner_noise(c, residual, &sigma);
    if (!rc) rc = msi_cleaner_minor(c, residual, model, &limits, &report);
    msi_cleaner_free(c);
    msi_memory_limit_set(0);
    assert_int_equal(msi_memory_in_use(), in_use);
    return rc;
}

/* The estimate suffices, with 64 KB for tables, and is at most 1.3 times the memory used: it includes noise of pixels
 * with nearly one value and, for several scales, the PSFs of scales that may not be chosen. */
static void test_estimate(void **state)
{
    (void)state;
    enum { N = 512 };
    const msi_planes_shape shape = {N, N, 1, MSI_FP32, MSI_BACKEND_CPU, 0};
    msi_planes *psf, *residual, *model;
    float *image = calloc((size_t)N * N, sizeof *image);
    if (clean_backend == MSI_BACKEND_CPU) {
        assert_int_equal(msi_planes_create(&psf, &shape) || msi_planes_create(&residual, &shape) ||
                             msi_planes_create(&model, &shape),
                         0);
        for (int i = 0; i < N * N; i++)
            image[i] = expf(-0.02F * (float)(pow(i % N - N / 2, 2) + pow(i / N - N / 2, 2)));
        assert_int_equal(msi_planes_upload(psf, 0, 1, image), 0);
        for (int n_thread = 1; n_thread <= 4; n_thread += 3)
            for (int m = 0; m < 2; m++) {
                const msi_cleaner_spec spec = {.nx = N,
                                               .ny = N,
                                               .precision = MSI_FP32,
                                               .backend = MSI_BACKEND_CPU,
                                               .method = m ? "multiscale" : "list",
                                               .beam_pixel = 12,
                                               .n_thread = n_thread};
                msi_cleaner_bytes bytes;
                assert_int_equal(msi_cleaner_estimate(&spec, &bytes), 0);
                assert_int_equal(msi_planes_upload(residual, 0, 1, image), 0);
                assert_int_equal(clean_within(&spec, psf, residual, model, bytes.host + 65536), 0);
                assert_int_equal(msi_planes_upload(residual, 0, 1, image), 0);
                const int rc = clean_within(&spec, psf, residual, model, (int64_t)((double)bytes.host / 1.3));
                if (rc != MSI_ENOMEM)
                    fail_msg("%s, %d threads: %lld bytes are too many", spec.method, n_thread, (long long)bytes.host);
            }
        msi_planes_free(psf);
        msi_planes_free(residual);
        msi_planes_free(model);
    }
    free(image);
}

/* Wherever host memory runs out, no cleaner is made, nothing is leaked, and the next one is made. */
static void test_no_memory(void **state)
{
    (void)state;
    int n, n_refused = 0;
    const msi_clean_method *row = msi_clean_methods(&n);
    for (int i = 0; i < n; i++) {
        if (row[i].backend != clean_backend) continue;
        const msi_cleaner_spec spec = {
            .nx = 64, .ny = 64, .n_channel = 2, .method = row[i].name, .backend = clean_backend, .beam_pixel = 2};
        const int64_t before = msi_memory_in_use();
        msi_cleaner *c;
        int64_t allowed = 0;
        do {
            allowed += 50000;
            msi_memory_limit_set(before + allowed);
            const int rc = msi_cleaner_create(&c, &spec);
            msi_memory_limit_set(0);
            assert_int_equal(rc, c ? 0 : MSI_ENOMEM);
            n_refused += !c;
            if (!c) assert_int_equal(msi_memory_in_use(), before);
        } while (!c && allowed < (int64_t)1 << 30);
        assert_non_null(c);
        msi_cleaner_free(c);
        assert_int_equal(msi_memory_in_use(), before);
    }
    assert_true(n_refused > 3);
}

/* Planes of another shape or precision are errors, and so are calls before there is a PSF. */
static void test_other_planes(void **state)
{
    (void)state;
    const msi_cleaner_spec spec = {.nx = 32, .ny = 32, .backend = clean_backend};
    msi_planes_shape shape = {32, 32, 1, MSI_FP32, clean_backend, 0};
    const msi_clean_limits limits = {.n_iteration = 1};
    msi_clean_report report;
    msi_cleaner *c;
    msi_planes *right, *small, *wide;
    assert_int_equal(msi_cleaner_create(&c, &spec), 0);
    assert_int_equal(msi_planes_create(&right, &shape), 0);
    shape.nx = 31;
    assert_int_equal(msi_planes_create(&small, &shape), 0);
    shape.nx = 32;
    shape.precision = MSI_FP64;
    assert_int_equal(msi_planes_create(&wide, &shape), 0);
    assert_int_equal(msi_cleaner_minor(c, right, right, &limits, &report), MSI_EARGUMENT);
    assert_string_equal(msi_error_about_get(), "psf");
    assert_int_equal(msi_cleaner_psf(c, small), MSI_EARGUMENT);
    assert_int_equal(msi_cleaner_psf(c, wide), MSI_EARGUMENT);
    assert_int_equal(msi_cleaner_psf(c, right), MSI_EINPUT); /* it is zero */
    float *one = calloc(32 * 32, sizeof *one);
    one[16 * 32 + 16] = 1;
    assert_int_equal(msi_planes_upload(right, 0, 1, one), 0);
    assert_int_equal(msi_cleaner_psf(c, right), 0);
    assert_int_equal(msi_cleaner_minor(c, small, right, &limits, &report), MSI_EARGUMENT);
    assert_string_equal(msi_error_about_get(), "residual");
    free(one);
    msi_planes_free(right);
    msi_planes_free(small);
    msi_planes_free(wide);
    msi_cleaner_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_points),
                                       cmocka_unit_test(test_gaussian),
                                       cmocka_unit_test(test_stops),
                                       cmocka_unit_test(test_found_scales),
                                       cmocka_unit_test(test_scale_mask),
                                       cmocka_unit_test(test_correction),
                                       cmocka_unit_test(test_opposite_polarisations),
                                       cmocka_unit_test(test_power_law),
                                       cmocka_unit_test(test_divergence),
                                       cmocka_unit_test(test_wide_after_points),
                                       cmocka_unit_test(test_rounds_that_raise),
                                       cmocka_unit_test(test_scales_without_response),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_short_lists),
                                       cmocka_unit_test(test_memory),
                                       cmocka_unit_test(test_estimate),
                                       cmocka_unit_test(test_no_memory),
                                       cmocka_unit_test(test_other_planes)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
