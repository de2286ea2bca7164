/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Noise as measured by cleaners. test_clean_noise cpu|cuda */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/status.h"
#include "tests/kernels/clean/clean_cases.h"

static msi_clean_report clean(clean_run *run, msi_clean_limits limits)
{
    msi_clean_report report;
    if (msi_cleaner_minor(run->c, run->residual, run->model, &limits, &report)) fail_msg("%s", msi_error_get());
    return report;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *v, int64_t n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

/* The noise equals that of sorted values, for odd and even numbers of finite pixels, and a bright source does not
 * change it. */
static void test_noise(void **state)
{
    (void)state;
    clean_problem p = {.nx = 50, .ny = 41, .n_channel = 2, .n_pol = 1, .weight = {1, 3}};
    uint64_t seed = 3;
    clean_problem_make(&p, 100, 29);
    const int64_t n = p.nx * p.ny;
    for (int64_t i = 0; i < 2 * n; i++) p.residual[i] = clean_random(&seed) + clean_random(&seed);
    p.residual[5] = 1000;
    for (int odd = 0; odd < 2; odd++) {
        clean_run run;
        const msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        double *v = calloc((size_t)n, sizeof *v), sigma;
        int64_t count = 0;
        if (odd) p.residual[n + 77] = NAN;
        for (int64_t i = 0; i < n; i++) {
            const double mean = fma(0.75, p.residual[n + i], 0.25 * p.residual[i]);
            if (isfinite(mean)) v[count++] = mean;
        }
        const double middle = median_of(v, count);
        for (int64_t i = 0; i < count; i++) v[i] = fabs(v[i] - middle);
        const double want = 1.4826022185056 * median_of(v, count);
        clean_run_make(&run, &p, &spec);
        assert_int_equal(msi_cleaner_noise(run.c, run.residual, &sigma), 0);
        assert_true(fabs(sigma - want) < 1e-14);
        assert_true(msi_cleaner_sigmas(run.c, 4.5) == 4.5);
        free(v);
        clean_run_free(&run);
    }
    for (int64_t i = 0; i < 2 * n; i++) p.residual[i] = NAN;
    clean_run run;
    double sigma;
    const msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP32);
    clean_run_make(&run, &p, &spec);
    assert_int_equal(msi_cleaner_noise(run.c, run.residual, &sigma), MSI_EINPUT);
    clean_run_free(&run);
    clean_problem_free(&p);
}

/* Fill an image in one of several ways: with few values, so that many are equal; half of it on each side of zero, so
 * that the two middle values are far apart; with one value; over 60 orders of magnitude; with negative values only. */
static double value_of_kind(int kind, int64_t i, uint64_t *seed)
{
    const double random = clean_random(seed);
    switch (kind) {
    case 0:
        return floor(8 * random);
    case 1:
        return i % 2 ? 1e-3 : -7;
    case 2:
        return 0.1;
    case 3:
        return (random < 0 ? -1 : 1) * pow(10, 60 * clean_random(seed));
    default:
        return random - 3;
    }
}

/* The noise of images that are shared by several threads equals that of sorted values, for any values. */
static void test_noise_of_many(void **state)
{
    (void)state;
    for (int kind = 0; kind < 10; kind++) {
        clean_problem p = {.nx = 501, .ny = 400 + kind / 5, .n_channel = 1, .n_pol = 1};
        const int64_t n = p.nx * p.ny;
        const msi_precision precision = kind % 2 ? MSI_FP64 : MSI_FP32;
        uint64_t seed = 77;
        double *v = calloc((size_t)n, sizeof *v), sigma;
        int64_t count = 0;
        clean_run run;
        clean_problem_make(&p, 10, 29);
        for (int64_t i = 0; i < n; i++) {
            const double value = i % 1000 / 2 == 8 ? INFINITY : value_of_kind(kind % 5, i, &seed);
            p.residual[i] = precision == MSI_FP32 ? (double)(float)value : value;
            if (isfinite(p.residual[i])) v[count++] = p.residual[i];
        }
        const double middle = median_of(v, count);
        for (int64_t i = 0; i < count; i++) v[i] = fabs(v[i] - middle);
        const double want = 1.48260221850560 * median_of(v, count);
        const msi_cleaner_spec spec = clean_spec_of(&p, precision);
        clean_run_make(&run, &p, &spec);
        assert_int_equal(msi_cleaner_noise(run.c, run.residual, &sigma), 0);
        assert_true(fabs(sigma - want) <= 1e-15 * want);
        clean_run_free(&run);
        free(v);
        clean_problem_free(&p);
    }
}

/* Polarisations that are not searched do not count in the noise, nor in the noise around a pixel. */
static void test_noise_of_searched(void **state)
{
    (void)state;
    clean_problem p = {.nx = 50, .ny = 41, .n_channel = 2, .n_pol = 3, .weight = {1, 1}};
    const msi_clean_local_rms how = {.window_pixel = 9, .box = 1};
    uint64_t seed = 8;
    clean_problem_make(&p, 100, 29);
    const int64_t n = p.nx * p.ny;
    for (int64_t i = 0; i < 6 * n; i++) p.residual[i] = clean_random(&seed) * (i / n % 3 ? 1 : 50);
    double all[3][2];
    for (unsigned k = 0; k < 3; k++) {
        clean_run run;
        p.searched = k ? 1U << k : 0;
        const msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        clean_run_make(&run, &p, &spec);
        assert_int_equal(msi_cleaner_noise(run.c, run.residual, &all[k][0]), 0);
        assert_int_equal(msi_cleaner_local_rms(run.c, run.residual, &how, &all[k][1]), 0);
        clean_run_free(&run);
    }
    /* Means of two uniform variables of width 1: MAD 0.5 (1 - sqrt(0.5)), rms 1 / sqrt(24); of 2050 pixels. */
    for (int k = 1; k < 3; k++)
        assert_true(fabs(all[k][0] / (1.4826 * 0.5 * (1 - sqrt(0.5))) - 1) < 0.06 && all[k][1] > 0.5 / sqrt(24) &&
                    all[k][1] < 1 / sqrt(24));
    assert_true(all[0][0] > 20 * all[1][0] && all[0][1] > 20 * all[1][1]);
    p.searched = 8;
    msi_cleaner *c;
    const msi_cleaner_spec beyond = clean_spec_of(&p, MSI_FP64);
    assert_int_equal(msi_cleaner_create(&c, &beyond), MSI_EARGUMENT);
    assert_string_equal(msi_error_about_get(), "search_pol");
    clean_problem_free(&p);
}

/* Compare with tables of the chi-square distribution: 0.0027 (3 sigma) is exceeded at 11.829 by 2 degrees, at 16.251 by
 * 4; 6.334e-5 (4 sigma) at 19.334 by 2. */
static void test_sigmas(void **state)
{
    (void)state;
    static const struct {
        int n_pol, n_channel, squared;
        unsigned searched;
        double sigma, square;
    } table[] = {{2, 1, 0, 0, 3, 11.829}, {2, 3, 0, 0, 4, 19.334}, {4, 1, 0, 0, 3, 16.251},
                 {2, 2, 1, 0, 3, 16.251}, {4, 1, 0, 6, 3, 11.829}, {4, 1, 0, 8, 3, 9}};
    for (int i = 0; i < 6; i++) {
        msi_cleaner *c;
        const msi_cleaner_spec spec = {.nx = 16,
                                       .ny = 16,
                                       .n_channel = table[i].n_channel,
                                       .n_pol = table[i].n_pol,
                                       .search_pol = table[i].searched,
                                       .squared_join = table[i].squared,
                                       .backend = clean_backend};
        assert_int_equal(msi_cleaner_create(&c, &spec), 0);
        assert_true(fabs(pow(msi_cleaner_sigmas(c, table[i].sigma), 2) - table[i].square) < 0.002);
        assert_true(msi_cleaner_sigmas(c, 50) >= 50 && msi_cleaner_sigmas(c, 50) < 52);
        msi_cleaner_free(c);
    }
}

/* Compute the mean square of a box around a pixel, clipped at the edges. */
static double box_rms(const clean_problem *p, int64_t x, int64_t y, int64_t half, double *least)
{
    double sum = 0;
    int64_t n = 0;
    *least = INFINITY;
    for (int64_t v = y - half; v <= y + half; v++)
        for (int64_t u = x - half; u <= x + half; u++) {
            if (u < 0 || u >= p->nx || v < 0 || v >= p->ny || !isfinite(p->residual[v * p->nx + u])) continue;
            sum += pow(p->residual[v * p->nx + u], 2);
            *least = fmin(*least, p->residual[v * p->nx + u]);
            n++;
        }
    return sqrt(sum / (double)n);
}

/* Local noise equals its definition with boxes; a pixel three times as bright in noise five times as strong is not a
 * peak. */
static void test_local_rms(void **state)
{
    (void)state;
    clean_problem p = {.nx = 60, .ny = 56, .n_channel = 1, .n_pol = 1};
    uint64_t seed = 8;
    clean_problem_make(&p, 100, 30);
    for (int64_t i = 0; i < 60 * 56; i++) p.residual[i] = clean_random(&seed) * (i % 60 < 30 ? 1 : 5);
    p.residual[28 * 60 + 10] = 4;
    p.residual[28 * 60 + 45] = 12;
    p.residual[100] = NAN;
    for (int with_min = 0; with_min < 2; with_min++) {
        clean_run run;
        const msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
        const msi_clean_local_rms how = {.window_pixel = 13, .box = 1, .with_min = with_min};
        double least, want = INFINITY, low;
        clean_run_make(&run, &p, &spec);
        assert_int_equal(msi_cleaner_local_rms(run.c, run.residual, &how, &least), 0);
        for (int64_t i = 0; i < 60 * 56; i++) {
            double rms = box_rms(&p, i % 60, i / 60, 6, &low);
            if (with_min) rms = fmax(rms, 0.3 * fabs(low));
            if (isfinite(p.residual[i])) want = fmin(want, rms);
        }
        assert_true(fabs(least - want) < 1e-12);
        msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 0});
        assert_int_equal(r.peak_x, 45);
        r = clean(&run, (msi_clean_limits){.n_iteration = 0, .local_rms = 1});
        assert_int_equal(r.peak_x, 10);
        double rms = box_rms(&p, 10, 28, 6, &low);
        if (with_min) rms = fmax(rms, 0.3 * fabs(low));
        assert_true(fabs(r.peak_before - 4 * want / rms) < 1e-12);
        /* A component is proportional to the residual, without the factor of local noise. */
        r = clean(&run, (msi_clean_limits){.n_iteration = 1, .local_rms = 1});
        assert_true(fabs(r.flux - 0.4) < 1e-12);
        clean_run_free(&run);
    }
    clean_problem_free(&p);
}

/* Compute the rms around each pixel, weighted by a gaussian over all finite pixels: a direct sum. Returns: the least of
 * finite pixels */
static double gaussian_rms(const clean_problem *p, double fwhm, double *rms)
{
    const double scale = 4 * log(2) / (fwhm * fwhm);
    double least = INFINITY;
    for (int64_t i = 0; i < p->nx * p->ny; i++) {
        double sum = 0, weight = 0;
        for (int64_t j = 0; j < p->nx * p->ny; j++) {
            const double dx = (double)(i % p->nx - j % p->nx), dy = (double)(i / p->nx - j / p->nx);
            const double w = exp(-scale * (dx * dx + dy * dy));
            if (!isfinite(p->residual[j])) continue;
            sum += w * p->residual[j] * p->residual[j];
            weight += w;
        }
        rms[i] = sqrt(sum / weight);
        if (isfinite(p->residual[i]) && rms[i] < least) least = rms[i];
    }
    return least;
}

/* The gaussian window equals its definition, with a bright source, pixels without a value and edges; the searched image
 * is the residual times (least noise / noise)^strength. 1e-6: the rounding of single precision; 1e-8: the window ends
 * at six sigma. */
static void test_gaussian_window(void **state)
{
    (void)state;
    static const double strength[] = {1, 0.8, 0.25};
    clean_problem p = {.nx = 60, .ny = 43, .n_channel = 1, .n_pol = 1};
    const int64_t n = p.nx * p.ny;
    double *rms = calloc((size_t)n, sizeof *rms);
    uint64_t seed = 31;
    clean_problem_make(&p, 100, 31);
    for (int64_t i = 0; i < n; i++) p.residual[i] = (float)(clean_random(&seed) * (i % 60 < 30 ? 1e-3 : 4e-3));
    p.residual[20 * 60 + 40] = 1;
    p.residual[11 * 60 + 7] = -0.125;
    p.residual[0] = p.residual[5 * 60 + 59] = NAN;
    for (int k = 0; k < 6; k++) {
        const double power = strength[k / 2], fwhm = k / 2 ? 7.5 : 20, within = k % 2 ? 1e-6 : 1e-8;
        const double least = gaussian_rms(&p, fwhm, rms);
        double best = 0, got;
        int64_t at = 0;
        for (int64_t i = 0; i < n; i++) {
            const double value = isfinite(p.residual[i]) ? fabs(p.residual[i]) * pow(least / rms[i], power) : 0;
            if (value > best) at = i;
            best = fmax(best, value);
        }
        clean_run run;
        const msi_cleaner_spec spec = clean_spec_of(&p, k % 2 ? MSI_FP32 : MSI_FP64);
        const msi_clean_local_rms how = {.window_pixel = fwhm, .strength = power};
        clean_run_make(&run, &p, &spec);
        assert_int_equal(msi_cleaner_local_rms(run.c, run.residual, &how, &got), 0);
        assert_true(fabs(got / least - 1) < within);
        const msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 0, .local_rms = 1});
        assert_true(r.peak_x == at % p.nx && r.peak_y == at / p.nx && fabs(fabs(r.peak_before) / best - 1) < within);
        clean_run_free(&run);
    }
    free(rms);
    clean_problem_free(&p);
}

/* Where the noise is zero, local noise has no effect. */
static void test_no_local_noise(void **state)
{
    (void)state;
    clean_problem p = {.nx = 60, .ny = 56, .n_channel = 1, .n_pol = 1};
    clean_run run;
    double least = 1;
    const msi_cleaner_spec spec = clean_spec_of(&p, MSI_FP64);
    const msi_clean_local_rms how = {.window_pixel = 3};
    clean_problem_make(&p, 100, 32);
    for (int64_t i = 0; i < 60 * 56; i++) p.residual[i] = i == 28 * 60 + 45 ? 2 : 0;
    clean_run_make(&run, &p, &spec);
    assert_int_equal(msi_cleaner_local_rms(run.c, run.residual, &how, &least), 0);
    assert_true(least == 0);
    const msi_clean_report r = clean(&run, (msi_clean_limits){.n_iteration = 1, .local_rms = 1});
    assert_true(r.peak_x == 45 && r.peak_before == 2 && fabs(r.flux - 0.2) < 1e-12);
    clean_run_free(&run);
    clean_problem_free(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_noise),
                                       cmocka_unit_test(test_noise_of_many),
                                       cmocka_unit_test(test_noise_of_searched),
                                       cmocka_unit_test(test_sigmas),
                                       cmocka_unit_test(test_local_rms),
                                       cmocka_unit_test(test_gaussian_window),
                                       cmocka_unit_test(test_no_local_noise)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
