/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Channels that are means of parts: means, and spectra expanded to the parts. test_clean_parts cpu|cuda */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/kernels/clean/clean_cases.h"

enum { NX = 16, NY = 12, N_PIXEL = NX * NY, MOST = 64 };

/* Parts of different weights, one of them 0, over less than an octave. */
static double part_weight[MOST], part_freq[MOST];

static void make_parts(int n)
{
    uint64_t seed = 5;
    for (int i = 0; i < n; i++) {
        part_weight[i] = i == 3 ? 0 : 1.5 + clean_random(&seed);
        part_freq[i] = 0.9e9 + 0.8e9 * i / (n - 1) + 1e6 * clean_random(&seed);
    }
}

static double mean_freq(int n)
{
    double sum = 0, all = 0;
    for (int i = 0; i < n; i++) {
        sum += part_weight[i] * part_freq[i];
        all += part_weight[i];
    }
    return sum / all;
}

static msi_cleaner_spec spec_of(int n_part, int n_channel, msi_clean_fit fit, int n_term)
{
    return (msi_cleaner_spec){.nx = NX,
                              .ny = NY,
                              .n_channel = n_channel,
                              .n_part = n_part,
                              .part_weight = part_weight,
                              .part_freq_hz = part_freq,
                              .precision = MSI_FP64,
                              .backend = clean_backend,
                              .fit = fit,
                              .n_term = n_term};
}

static msi_cleaner *create(const msi_cleaner_spec *spec)
{
    msi_cleaner *c;
    if (msi_cleaner_create(&c, spec)) fail_msg("%s", msi_error_get());
    return c;
}

static msi_planes *planes_of(const msi_cleaner *c, int n, const double *value)
{
    msi_planes_shape shape = msi_cleaner_shape(c);
    msi_planes *p;
    shape.n = n;
    assert_int_equal(msi_planes_create(&p, &shape), 0);
    float *single = malloc((size_t)(n * N_PIXEL) * sizeof *single);
    for (int i = 0; i < n * N_PIXEL && value; i++) single[i] = (float)value[i];
    if (value)
        assert_int_equal(msi_planes_upload(p, 0, n, shape.precision == MSI_FP32 ? (const void *)single : value), 0);
    free(single);
    return p;
}

static void fetch(const msi_planes *p, double *out)
{
    const msi_planes_shape *s = msi_planes_shape_of(p);
    if (s->precision == MSI_FP64) {
        assert_int_equal(msi_planes_fetch(p, 0, s->n, out), 0);
        return;
    }
    float *single = malloc((size_t)(s->n * N_PIXEL) * sizeof *single);
    assert_int_equal(msi_planes_fetch(p, 0, s->n, single), 0);
    for (int i = 0; i < s->n * N_PIXEL; i++) out[i] = (double)single[i];
    free(single);
}

/* Sums of planes with pitches; a plane whose factors are 0 may have any value. */
static void test_combine(void **state)
{
    (void)state;
    enum { IN = 7, OUT = 6 };
    static const double matrix[2 * 3] = {1.5, 0, -0.25, -2, 0, 0.125};
    static double value[IN * N_PIXEL], got[OUT * N_PIXEL];
    make_parts(4);
    for (int wide = 0; wide < 2; wide++) {
        uint64_t seed = 4;
        msi_cleaner_spec spec = spec_of(4, 4, MSI_CLEAN_FIT_NONE, 0);
        spec.precision = wide ? MSI_FP64 : MSI_FP32;
        for (int i = 0; i < IN * N_PIXEL; i++) value[i] = i / N_PIXEL == 3 ? NAN : clean_random(&seed);
        msi_cleaner *c = create(&spec);
        msi_planes *in = planes_of(c, IN, value), *out = planes_of(c, OUT, NULL);
        const msi_cleaner_planes from = {in, 1, 2, 3}, to = {out, 2, 3, 2};
        assert_int_equal(msi_cleaner_combine(c, matrix, &from, &to), 0);
        fetch(out, got);
        for (int i = 0; i < OUT * N_PIXEL; i++) {
            const int plane = i / N_PIXEL, at = i % N_PIXEL, o = plane == 2 ? 0 : plane == 5 ? 1 : -1;
            const double wanted =
                o < 0 ? 0 : matrix[3 * o] * value[N_PIXEL + at] + matrix[3 * o + 2] * value[5 * N_PIXEL + at];
            if (!(fabs(got[i] - wanted) < (wide ? 1e-15 : 5e-7)))
                fail_msg("plane %d: %g, not %g", plane, got[i], wanted);
        }
        msi_planes_free(in);
        msi_planes_free(out);
        msi_cleaner_free(c);
    }
}

/* Return the position of part i. */
static int channel_of(int i, int n_part, int n_channel)
{
    return i * n_channel / n_part;
}

/* Compute weighted means, for two polarisations and for PSFs; a part without weight may have any value. */
static void test_mean(void **state)
{
    (void)state;
    enum { N = 10, D = 4, P = 2 };
    static double value[N * P * N_PIXEL], got[D * P * N_PIXEL];
    make_parts(N);
    for (int wide = 0; wide < 2; wide++)
        for (int n_pol = 1; n_pol <= P; n_pol++) {
            uint64_t seed = 9;
            msi_cleaner_spec spec = spec_of(N, D, MSI_CLEAN_FIT_NONE, 0);
            spec.n_pol = P;
            spec.precision = wide ? MSI_FP64 : MSI_FP32;
            for (int i = 0; i < N * n_pol * N_PIXEL; i++)
                value[i] = i / (n_pol * N_PIXEL) == 3 ? NAN : clean_random(&seed);
            msi_cleaner *c = create(&spec);
            msi_planes *part = planes_of(c, N * n_pol, value), *channel = planes_of(c, D * n_pol, NULL);
            assert_int_equal(msi_cleaner_mean(c, part, channel), 0);
            fetch(channel, got);
            for (int k = 0; k < D * n_pol * N_PIXEL; k++) {
                double sum = 0, all = 0;
                for (int i = 0; i < N; i++) {
                    if (channel_of(i, N, D) != k / (n_pol * N_PIXEL) || part_weight[i] == 0) continue;
                    sum += part_weight[i] * value[i * n_pol * N_PIXEL + k % (n_pol * N_PIXEL)];
                    all += part_weight[i];
                }
                if (!(fabs(got[k] - sum / all) < (wide ? 1e-15 : 2e-7))) fail_msg("value %d", k);
            }
            msi_planes_free(part);
            msi_planes_free(channel);
            msi_cleaner_free(c);
        }
}

/* Make spectra, one for each pixel, in the parts; and their means over channels. */
static void make_spectra(int n_part, int n_channel, double (*spectrum)(int pixel, double freq_hz), double *part,
                         double *channel)
{
    double all[MOST] = {0};
    for (int i = 0; i < n_part; i++) all[channel_of(i, n_part, n_channel)] += part_weight[i];
    for (int k = 0; k < n_channel * N_PIXEL; k++) channel[k] = 0;
    for (int i = 0; i < n_part; i++)
        for (int x = 0; x < N_PIXEL; x++) {
            const int c = channel_of(i, n_part, n_channel);
            part[i * N_PIXEL + x] = spectrum(x, part_freq[i]);
            channel[c * N_PIXEL + x] += part_weight[i] / all[c] * part[i * N_PIXEL + x];
        }
}

static double reference;

static double parabola(int pixel, double freq_hz)
{
    const double x = freq_hz / reference - 1;
    return pixel % 5 - 2 + 0.1 * pixel * x - 0.7 * (pixel % 3) * x * x;
}

static double curved_power(int pixel, double freq_hz)
{
    const double x = log10(freq_hz / reference), sign = pixel % 2 ? 1 : -1;
    return pixel % 7 == 0 ? 0 : sign * (1 + pixel) * pow(10, (-0.7 - 0.002 * pixel) * x + 0.4 * x * x);
}

static double largest(const double *a, const double *b, int64_t n)
{
    return clean_largest_distance(a, b, n);
}

/* Expand the means of known spectra. Returns the largest difference of parts, relative to their size. */
static double expand_error(const msi_cleaner_spec *spec, double (*spectrum)(int, double))
{
    static double part[MOST * N_PIXEL], got[MOST * N_PIXEL], channel[MOST * N_PIXEL];
    const int n = spec->n_part ? spec->n_part : spec->n_channel;
    msi_cleaner *c = create(spec);
    make_spectra(n, spec->n_channel, spectrum, part, channel);
    msi_planes *in = planes_of(c, spec->n_channel, channel), *out = planes_of(c, n, NULL);
    if (msi_cleaner_expand(c, in, out)) fail_msg("%s", msi_error_get());
    fetch(out, got);
    msi_planes_free(in);
    msi_planes_free(out);
    msi_cleaner_free(c);
    double size = 0;
    for (int64_t i = 0; i < n * N_PIXEL; i++) size = fmax(size, fabs(part[i]));
    return largest(got, part, n * N_PIXEL) / size;
}

/* A spectrum with as many terms as are fitted is recovered from its means. */
static void test_expand(void **state)
{
    (void)state;
    make_parts(40);
    reference = mean_freq(40);
    msi_cleaner_spec spec = spec_of(40, 4, MSI_CLEAN_FIT_POLYNOMIAL, 3);
    assert_true(expand_error(&spec, parabola) < 1e-12);
    spec.precision = MSI_FP32;
    assert_true(expand_error(&spec, parabola) < 1e-5);
    /* 3 nodes a channel: x of a channel spans 0.08 at most, (0.04 ln 10 0.8)^6 / 6! is below 1e-9; the fit itself ends
     * when squares change by 1e-14. */
    spec = spec_of(40, 4, MSI_CLEAN_FIT_LOG, 3);
    assert_true(expand_error(&spec, curved_power) < 1e-7);
    spec.precision = MSI_FP32;
    assert_true(expand_error(&spec, curved_power) < 1e-5);
    /* Channels of two parts, whose nodes are the parts. */
    spec = spec_of(8, 4, MSI_CLEAN_FIT_LOG, 3);
    make_parts(8);
    reference = mean_freq(8);
    assert_true(expand_error(&spec, curved_power) < 1e-7);
    /* Without parts every channel is its own part, and there is nothing to average. */
    spec = spec_of(0, 8, MSI_CLEAN_FIT_LOG, 3);
    spec.weight = part_weight;
    spec.freq_hz = part_freq;
    assert_true(expand_error(&spec, curved_power) < 1e-7);
    /* Without a fit a part equals its channel. */
    spec = spec_of(8, 8, MSI_CLEAN_FIT_NONE, 0);
    part_weight[3] = 1;
    assert_true(expand_error(&spec, curved_power) == 0);
    spec = spec_of(8, 2, MSI_CLEAN_FIT_NONE, 0);
    assert_true(expand_error(&spec, curved_power) > 0.1);
}

/* Values of both signs have no log-polynomial: a polynomial is used for them. */
static void test_both_signs(void **state)
{
    (void)state;
    enum { N = 12, D = 4 };
    static double channel[D * N_PIXEL], got[2][N * N_PIXEL];
    make_parts(N);
    for (int i = 0; i < D * N_PIXEL; i++) channel[i] = i / N_PIXEL - 1.3;
    for (int k = 0; k < 2; k++) {
        const msi_cleaner_spec spec = spec_of(N, D, k ? MSI_CLEAN_FIT_LOG : MSI_CLEAN_FIT_POLYNOMIAL, 2);
        msi_cleaner *c = create(&spec);
        msi_planes *in = planes_of(c, D, channel), *out = planes_of(c, N, NULL);
        assert_int_equal(msi_cleaner_expand(c, in, out), 0);
        fetch(out, got[k]);
        msi_planes_free(in);
        msi_planes_free(out);
        msi_cleaner_free(c);
    }
    assert_true(largest(got[0], got[1], N * N_PIXEL) == 0);
}

/* Clean a source of one pixel, with a PSF that is one pixel: its component is the mean of its spectrum over each
 * channel, and the residual is zero. Fits through the middle of channels would leave their curvature. */
static void test_components(void **state)
{
    (void)state;
    enum { N = 40, D = 4, AT = 5 * NX + 7 };
    static double part[N * N_PIXEL], channel[D * N_PIXEL], psf[D * N_PIXEL], left[D * N_PIXEL];
    static const char *const method[] = {"list", "hogbom"};
    double weight[D] = {0}, freq[D] = {0};
    make_parts(N);
    reference = mean_freq(N);
    make_spectra(N, D, curved_power, part, channel);
    for (int i = 0; i < D * N_PIXEL; i++) {
        channel[i] = i % N_PIXEL == AT ? channel[i] : 0;
        psf[i] = i % N_PIXEL == NY / 2 * NX + NX / 2;
    }
    for (int i = 0; i < N; i++) weight[channel_of(i, N, D)] += part_weight[i];
    for (int i = 0; i < N; i++)
        freq[channel_of(i, N, D)] += part_weight[i] / weight[channel_of(i, N, D)] * part_freq[i];
    for (int k = 0; k < 4; k++) {
        msi_cleaner_spec spec = spec_of(N, D, MSI_CLEAN_FIT_LOG, 3);
        msi_clean_report report;
        spec.gain = 1;
        spec.method = method[k % 2];
        if (k >= 2) {
            spec.n_part = 0;
            spec.part_weight = spec.part_freq_hz = NULL;
            spec.weight = weight;
            spec.freq_hz = freq;
        }
        msi_cleaner *c = create(&spec);
        msi_planes *p = planes_of(c, D, psf), *residual = planes_of(c, D, channel), *model = planes_of(c, D, NULL);
        assert_int_equal(msi_cleaner_psf(c, p), 0);
        const msi_clean_limits limits = {.threshold = 0.5 * fabs(channel[AT]), .n_iteration = 1};
        assert_int_equal(msi_cleaner_minor(c, residual, model, &limits, &report), 0);
        assert_int_equal(report.n_iteration, 1);
        fetch(residual, left);
        double most = 0;
        for (int i = 0; i < D; i++) most = fmax(most, fabs(left[i * N_PIXEL + AT] / channel[i * N_PIXEL + AT]));
        /* 4 values and 3 terms: a line through the middles does not have the curvature that means add. */
        assert_true(k < 2 ? most < 1e-7 : most > 1e-6);
        msi_planes_free(p);
        msi_planes_free(residual);
        msi_planes_free(model);
        msi_cleaner_free(c);
    }
}

/* Terms equal those that the spectra were made with. */
static void test_terms(void **state)
{
    (void)state;
    enum { N = 30, D = 5 };
    static double part[N * N_PIXEL], channel[D * N_PIXEL];
    make_parts(N);
    reference = mean_freq(N);
    for (int is_log = 0; is_log < 2; is_log++) {
        const msi_cleaner_spec spec = spec_of(N, D, is_log ? MSI_CLEAN_FIT_LOG : MSI_CLEAN_FIT_POLYNOMIAL, 3);
        msi_cleaner *c = create(&spec);
        double hz, value[D], term[3];
        int logarithmic;
        make_spectra(N, D, is_log ? curved_power : parabola, part, channel);
        assert_int_equal(msi_cleaner_n_term(c, &hz, &logarithmic), 3);
        assert_true(fabs(hz - reference) < 1e-6 && logarithmic == is_log);
        for (int x = 1; x < 6; x++) {
            const double want_log[] = {x % 2 ? 1 + x : -1 - x, -0.7 - 0.002 * x, 0.4};
            const double want[] = {x % 5 - 2, 0.1 * x, -0.7 * (x % 3)};
            for (int i = 0; i < D; i++) value[i] = channel[i * N_PIXEL + x];
            msi_cleaner_terms(c, value, term);
            for (int k = 0; k < 3; k++)
                assert_true(fabs(term[k] - (is_log ? want_log : want)[k]) < (is_log ? 1e-5 : 1e-11));
        }
        msi_cleaner_free(c);
    }
    const msi_cleaner_spec spec = spec_of(N, D, MSI_CLEAN_FIT_NONE, 0);
    msi_cleaner *c = create(&spec);
    double hz, term, mean = 0, all = 0, value[D] = {1, 2, 3, 4, 5};
    int logarithmic;
    for (int i = 0; i < N; i++) {
        mean += part_weight[i] * value[channel_of(i, N, D)];
        all += part_weight[i];
    }
    assert_int_equal(msi_cleaner_n_term(c, &hz, &logarithmic), 1);
    msi_cleaner_terms(c, value, &term);
    assert_true(fabs(term - mean / all) < 1e-14);
    msi_cleaner_free(c);
}

static void test_refused(void **state)
{
    (void)state;
    const int64_t in_use = msi_memory_in_use();
    make_parts(8);
    msi_cleaner *c;
    msi_cleaner_spec bad[4];
    for (int i = 0; i < 4; i++) bad[i] = spec_of(8, 4, MSI_CLEAN_FIT_POLYNOMIAL, 2);
    bad[0].n_channel = 9;
    bad[1].weight = part_weight;
    bad[2].part_freq_hz = NULL;
    bad[3].n_term = 5;
    for (int i = 0; i < 4; i++) {
        msi_cleaner_bytes bytes;
        assert_int_equal(msi_cleaner_create(&c, &bad[i]), MSI_EARGUMENT);
        assert_null(c);
        assert_int_equal(msi_cleaner_estimate(&bad[i], &bytes), MSI_EARGUMENT);
    }
    const msi_cleaner_spec good = spec_of(8, 4, MSI_CLEAN_FIT_POLYNOMIAL, 2);
    c = create(&good);
    msi_planes *four = planes_of(c, 4, NULL), *eight = planes_of(c, 8, NULL);
    assert_int_equal(msi_cleaner_mean(c, four, four), MSI_EARGUMENT);
    assert_int_equal(msi_cleaner_expand(c, eight, four), MSI_EARGUMENT);
    msi_planes_free(four);
    msi_planes_free(eight);
    msi_cleaner_free(c);
    assert_int_equal(msi_memory_in_use(), in_use);
}

/* The spectrum of polarisation p at a frequency. */
static double seen_spectrum(msi_clean_fit fit, int p, const double *term, double x)
{
    const double sign = p & 1 ? -1 : 1;
    if (fit == MSI_CLEAN_FIT_LOG) return sign * (1 + p) * pow(10, term[1] * x + term[2] * x * x);
    return sign * (1 + p) * (1 + term[1] * x + term[2] * x * x);
}

/* Spectra of true flux are found from what images with responses of any spectrum see; what a spectrum of other terms
 * leaves has a weighted mean of 0. */
static void test_fit_seen(void **state)
{
    (void)state;
    enum { CHANNELS = 4, POLS = 4 };
    static const double term[3] = {1, -0.7, 0.4};
    static double response[MOST * POLS * POLS], value[CHANNELS * POLS], before[CHANNELS * POLS], part[MOST * POLS],
        got[POLS * MSI_CLEAN_MAX_TERM];
    for (int turn = 0; turn < 6; turn++) {
        uint64_t seed = 7;
        const msi_clean_fit fit = turn & 1 ? MSI_CLEAN_FIT_LOG : MSI_CLEAN_FIT_POLYNOMIAL;
        const int n_part = turn < 4 ? CHANNELS : 20, n_pol = turn < 2 || turn > 3 ? 1 : POLS;
        double weight[CHANNELS] = {0}, seen[CHANNELS * POLS] = {0};
        make_parts(n_part);
        if (n_part == CHANNELS) part_weight[3] = 2;
        msi_cleaner_spec spec = spec_of(n_part, CHANNELS, fit, 3);
        spec.n_pol = n_pol;
        spec.fit_later = 1;
        msi_cleaner *c = create(&spec);
        for (int i = 0; i < n_part; i++) weight[channel_of(i, n_part, CHANNELS)] += part_weight[i];
        for (int i = 0; i < n_part; i++) {
            const int k = channel_of(i, n_part, CHANNELS);
            const double x = fit == MSI_CLEAN_FIT_LOG ? log10(part_freq[i] / mean_freq(n_part))
                                                      : part_freq[i] / mean_freq(n_part) - 1;
            for (int p = 0; p < n_pol; p++)
                for (int q = 0; q < n_pol; q++) {
                    double *r = &response[(i * n_pol + p) * n_pol + q];
                    *r = p == q ? 0.6 + 0.4 * clean_random(&seed) : 0.1 * clean_random(&seed);
                    seen[k * n_pol + p] += part_weight[i] / weight[k] * *r * seen_spectrum(fit, q, term, x);
                }
        }
        for (int i = 0; i < CHANNELS * n_pol; i++) value[i] = seen[i];
        msi_cleaner_fit_seen(c, n_pol, response, NULL, value, part, got);
        for (int i = 0; i < CHANNELS * n_pol; i++)
            if (!(fabs(value[i] - seen[i]) < 1e-6))
                fail_msg("turn %d: image %d is %g, not %g", turn, i, value[i], seen[i]);
        for (int p = 0; p < n_pol; p++) {
            const double first = (p & 1 ? -1 : 1) * (1 + p);
            for (int k = 0; k < 3; k++) {
                const double wanted = fit == MSI_CLEAN_FIT_LOG && k ? term[k] : first * term[k];
                /* Steps of the logarithmic fit end at 1e-14 of the squares. */
                if (!(fabs(got[p * 3 + k] - wanted) < (fit == MSI_CLEAN_FIT_LOG ? 1e-5 : 1e-9)))
                    fail_msg("turn %d, polarisation %d: term %d is %.9g, not %g", turn, p, k, got[p * 3 + k], wanted);
            }
        }
        /* Values that no spectrum fits, and terms that are given. */
        for (int forced = 0; forced < 2 && n_pol == 1; forced++) {
            if (forced && fit != MSI_CLEAN_FIT_LOG) continue;
            double left = 0;
            for (int i = 0; i < CHANNELS; i++) before[i] = value[i] = seen[i] * (1 + 0.1 * clean_random(&seed));
            msi_cleaner_fit_seen(c, 1, response, forced ? term + 1 : NULL, value, part, got);
            for (int i = 0; i < CHANNELS; i++) left += weight[i] * (before[i] - value[i]);
            if (forced) assert_true(got[1] == term[1] && got[2] == term[2]);
            /* A fit of logarithms leaves a mean of 0 weighted by the spectrum. */
            if ((forced || fit == MSI_CLEAN_FIT_POLYNOMIAL) && !(fabs(left) < 1e-9)) fail_msg("left: %g", left);
        }
        msi_cleaner_free(c);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fit_seen),   cmocka_unit_test(test_combine),
                                       cmocka_unit_test(test_mean),       cmocka_unit_test(test_expand),
                                       cmocka_unit_test(test_both_signs), cmocka_unit_test(test_components),
                                       cmocka_unit_test(test_terms),      cmocka_unit_test(test_refused)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
