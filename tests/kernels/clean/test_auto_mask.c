/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks that follow the residual, compared with their definition, computed directly in double. test_auto_mask
 * cpu|cuda */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/kernels/clean/clean_cases.h"

/* ---- The definition ---- */

typedef struct definition {
    int64_t nx, ny;
    msi_auto_mask_spec s;
    uint8_t *mask;
    uint8_t *close; /* rounding decides here: a smoothed value within `slack` of the cut */
    double slack;
    int n_update;
    double threshold, low, negative;
} definition;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *from, int64_t n)
{
    double *v = malloc((size_t)n * sizeof *v);
    memcpy(v, from, (size_t)n * sizeof *v);
    qsort(v, (size_t)n, sizeof *v, by_value);
    const double m = n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
    free(v);
    return m;
}

static void define_thresholds(definition *d, const double *r)
{
    const int64_t n = d->nx * d->ny;
    double *v = calloc((size_t)n, sizeof *v), largest = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(r[i])) continue;
        v[count++] = r[i];
        largest = fmax(largest, fabs(r[i]));
    }
    const double median = median_of(v, count);
    for (int64_t i = 0; i < count; i++) v[i] = fabs(v[i] - median);
    const double sigma = 1.4826022185056 * median_of(v, count);
    const double sidelobe = d->s.sidelobe_threshold * d->s.sidelobe_level * largest;
    d->threshold = median + fmax(sidelobe, d->s.noise_threshold * sigma);
    d->low = median + fmax(sidelobe, d->s.low_noise_threshold * sigma);
    d->negative = median - fmax(sidelobe, d->s.negative_threshold * sigma);
    free(v);
}

static int64_t flood(const definition *d, uint8_t *mask, int64_t i, uint8_t from, uint8_t to)
{
    if (i < 0 || i >= d->nx * d->ny || mask[i] != from) return 0;
    /* An explicit stack: regions may be as large as the image. */
    int64_t *stack = malloc((size_t)(4 * d->nx * d->ny + 4) * sizeof *stack), n = 0, top = 0;
    stack[top++] = i;
    while (top) {
        const int64_t at = stack[--top], x = at % d->nx;
        if (mask[at] != from) continue;
        mask[at] = to;
        n++;
        if (x > 0) stack[top++] = at - 1;
        if (x < d->nx - 1) stack[top++] = at + 1;
        if (at >= d->nx) stack[top++] = at - d->nx;
        if (at < d->nx * (d->ny - 1)) stack[top++] = at + d->nx;
    }
    free(stack);
    return n;
}

static void define_prune(const definition *d, uint8_t *mask)
{
    const double area =
        MSI_PI * d->s.beam.major_rad * d->s.beam.minor_rad / (4 * log(2)) / (d->s.cell_x_rad * d->s.cell_y_rad);
    const int64_t n = d->nx * d->ny;
    for (int64_t i = 0; i < n; i++) {
        if (mask[i] != 1) continue;
        if ((double)flood(d, mask, i, 1, 2) < d->s.min_beam_frac * area) flood(d, mask, i, 2, 0);
    }
    for (int64_t i = 0; i < n; i++) mask[i] = mask[i] == 2;
}

static void define_smooth(definition *d, uint8_t *mask)
{
    const int64_t n = d->nx * d->ny;
    const msi_beam b = d->s.beam;
    double *sum = calloc((size_t)n, sizeof *sum), most = 0;
    if (!(d->s.smooth_factor > 0)) {
        free(sum);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            if (!mask[k]) continue;
            const double east = (double)(k % d->nx - i % d->nx) * d->s.cell_x_rad;
            const double north = (double)(i / d->nx - k / d->nx) * d->s.cell_y_rad;
            const double along = (east * sin(b.pa_rad) + north * cos(b.pa_rad)) / b.major_rad / d->s.smooth_factor;
            const double across = (east * cos(b.pa_rad) - north * sin(b.pa_rad)) / b.minor_rad / d->s.smooth_factor;
            sum[i] += exp(-4 * log(2) * (along * along + across * across));
        }
    for (int64_t i = 0; i < n; i++) most = fmax(most, sum[i]);
    for (int64_t i = 0; i < n; i++) {
        mask[i] = sum[i] > d->s.cut_threshold * most;
        if (fabs(sum[i] - d->s.cut_threshold * most) < d->slack * most) d->close[i] = 1;
    }
    free(sum);
}

/* Kepley et al. 2020: the mask grows by binary dilation within a mask of the lower threshold; pixels in both masks are
 * pruned and smoothed. */
static void define_grow(const definition *d, const double *r, uint8_t *mask)
{
    const int64_t n = d->nx * d->ny;
    uint8_t *last = malloc((size_t)n);
    for (int k = 0; k < d->s.grow_iterations; k++) {
        memcpy(last, mask, (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            const int64_t x = i % d->nx;
            if (!(r[i] > d->low)) continue;
            if ((x > 0 && last[i - 1]) || (x < d->nx - 1 && last[i + 1]) || (i >= d->nx && last[i - d->nx]) ||
                (i < n - d->nx && last[i + d->nx]))
                mask[i] = 1;
        }
    }
    for (int64_t i = 0; i < n; i++) mask[i] = mask[i] && r[i] > d->low;
    free(last);
}

static void define(definition *d, const double *r)
{
    const int64_t n = d->nx * d->ny;
    uint8_t *next = malloc((size_t)n), *part = malloc((size_t)n);
    define_thresholds(d, r);
    memcpy(next, d->mask, (size_t)n);
    for (int negative = 0; negative < (d->s.negative_threshold > 0 ? 2 : 1); negative++) {
        for (int64_t i = 0; i < n; i++) part[i] = negative ? r[i] < d->negative : r[i] > d->threshold;
        define_prune(d, part);
        define_smooth(d, part);
        for (int64_t i = 0; i < n; i++) next[i] |= part[i];
    }
    if (d->n_update++ && d->s.grow_iterations) {
        memcpy(part, d->mask, (size_t)n);
        define_grow(d, r, part);
        if (d->s.do_grow_prune) define_prune(d, part);
        define_smooth(d, part);
        for (int64_t i = 0; i < n; i++) next[i] |= part[i];
    }
    memcpy(d->mask, next, (size_t)n);
    free(next);
    free(part);
}

/* ---- Residuals ---- */

static void add_blob(double *r, int64_t nx, int64_t ny, const double at[4])
{
    for (int64_t i = 0; i < nx * ny; i++) {
        const double dx = (double)(i % nx) - at[0], dy = (double)(i / nx) - at[1];
        r[i] += at[3] * exp(-0.5 * (dx * dx + dy * dy) / (at[2] * at[2]));
    }
}

/* Add noise, wide and bright sources, one that falls off slowly, one of two pixels, a negative one, and pixels that are
 * not finite. */
static double *make_residual(int64_t nx, int64_t ny, double part, uint64_t seed)
{
    static const double blob[][4] = {{15, 12, 2, 1}, {40, 30, 5, 0.5}, {48, 8, 1.5, 0.4}, {20, 38, 3, -0.7}};
    double *r = calloc((size_t)(nx * ny), sizeof *r);
    for (int64_t i = 0; i < nx * ny; i++)
        r[i] = 0.01 + 0.03 * (clean_random(&seed) + clean_random(&seed) + clean_random(&seed));
    for (int k = 0; k < 4; k++)
        add_blob(r, nx, ny, (const double[]){blob[k][0], blob[k][1], blob[k][2], part * blob[k][3]});
    r[5 * nx + 30] = r[5 * nx + 31] = 0.6;
    r[7] = NAN;
    r[30 * nx + 41] = NAN;
    return r;
}

static msi_planes *planes_of(int64_t nx, int64_t ny, const double *r, msi_precision precision)
{
    const msi_planes_shape shape = {nx, ny, 1, precision, clean_backend, 0};
    float *single = malloc((size_t)(nx * ny) * sizeof *single);
    msi_planes *p;
    if (msi_planes_create(&p, &shape)) fail_msg("%s", msi_error_get());
    for (int64_t i = 0; i < nx * ny; i++) single[i] = (float)r[i];
    assert_int_equal(msi_planes_upload(p, 0, 1, precision == MSI_FP32 ? (const void *)single : r), 0);
    free(single);
    return p;
}

static msi_auto_mask_spec spec_of(void)
{
    msi_auto_mask_spec s = msi_auto_mask_defaults();
    s.sidelobe_level = 0.02;
    s.beam = (msi_beam){5e-5, 3e-5, 0.6};
    s.cell_x_rad = s.cell_y_rad = 1e-5;
    return s;
}

/* ---- Tests ---- */

/* Compare two updates with decreasing residuals with the definition. */
static void compare(const msi_auto_mask_spec *s, msi_precision precision)
{
    enum { NX = 61, NY = 50, N = NX * NY };
    static uint8_t mask[N], close[N], got[N];
    definition d = {
        .nx = NX, .ny = NY, .s = *s, .mask = mask, .close = close, .slack = precision == MSI_FP64 ? 1e-13 : 1e-5};
    msi_planes_shape shape = {NX, NY, 0, precision, clean_backend, 0};
    msi_auto_mask *m;
    memset(mask, 0, N);
    memset(close, 0, N);
    if (msi_auto_mask_create(&m, &shape, s)) fail_msg("%s", msi_error_get());
    for (int k = 0; k < 2; k++) {
        msi_auto_mask_report report;
        int64_t n = 0, n_close = 0;
        double *r = make_residual(NX, NY, k ? 0.4 : 1, 77 + (uint64_t)k);
        /* fp32 uses rounded values, and so does its definition. */
        for (int64_t i = 0; i < N && precision == MSI_FP32; i++) r[i] = (double)(float)r[i];
        msi_planes *p = planes_of(NX, NY, r, precision);
        define(&d, r);
        if (msi_auto_mask_update(m, p, 0, &report)) fail_msg("%s", msi_error_get());
        assert_int_equal(msi_auto_mask_fetch(m, got), 0);
        assert_true(fabs(report.threshold - d.threshold) < 1e-14 && fabs(report.low_threshold - d.low) < 1e-14);
        if (s->negative_threshold > 0) assert_true(fabs(report.negative_threshold - d.negative) < 1e-14);
        for (int64_t i = 0; i < N; i++) {
            if (got[i] != mask[i] && !close[i]) fail_msg("update %d, pixel %lld", k, (long long)i);
            n += got[i];
            n_close += close[i];
        }
        assert_int_equal(report.n_pixel, n);
        if (n < 15 || n > N * 3 / 4 || n_close > 4)
            fail_msg("update %d: %lld pixels, %lld close", k, (long long)n, (long long)n_close);
        msi_planes_free(p);
        free(r);
    }
    msi_auto_mask_free(m);
}

static void test_definition(void **state)
{
    (void)state;
    const int64_t in_use = msi_memory_in_use();
    msi_auto_mask_spec all[8];
    for (int i = 0; i < 8; i++) all[i] = spec_of();
    all[1].sidelobe_level = 0.15; /* sidelobes decide */
    all[2].negative_threshold = 6;
    all[3].min_beam_frac = 0;
    all[4].smooth_factor = 0;
    all[5].grow_iterations = 2;
    all[5].do_grow_prune = 0;
    all[6].smooth_factor = 1.7;
    all[6].cut_threshold = 0.3;
    all[7].grow_iterations = 0; /* without growth */
    for (int i = 0; i < 8; i++) {
        compare(&all[i], MSI_FP64);
        compare(&all[i], MSI_FP32);
    }
    assert_int_equal(msi_memory_in_use(), in_use);
}

/* Half of the pixels are in interleaved spirals; those of fewer pixels than a beam are removed. */
static void test_regions(void **state)
{
    (void)state;
    enum { NX = 701, NY = 509 };
    uint8_t *mask = calloc(NX * NY, 1), *got = calloc(NX * NY, 1);
    for (int spiral = 0; spiral < 2; spiral++) {
        msi_auto_mask_spec s = spec_of();
        s.noise_threshold = s.sidelobe_threshold = s.smooth_factor = 0;
        s.min_beam_frac = spiral ? 3000 : 2; /* 17 pixels in a beam */
        definition d = {.nx = NX, .ny = NY, .s = s, .mask = mask};
        const msi_planes_shape shape = {NX, NY, 0, MSI_FP32, clean_backend, 0};
        double *r = calloc(NX * NY, sizeof *r);
        uint64_t seed = 5;
        for (int64_t i = 0; i < NX * NY; i++) {
            const double dx = (double)(i % NX) - 350, dy = (double)(i / NX) - 250;
            r[i] = spiral ? sin(hypot(dx, dy) / 2 + atan2(dy, dx)) : clean_random(&seed);
            r[i] = (double)(float)r[i];
        }
        msi_auto_mask *m;
        msi_auto_mask_report report;
        msi_planes *p = planes_of(NX, NY, r, MSI_FP32);
        memset(mask, 0, NX * NY);
        define(&d, r);
        if (msi_auto_mask_create(&m, &shape, &s)) fail_msg("%s", msi_error_get());
        assert_int_equal(msi_auto_mask_update(m, p, 0, &report), 0);
        assert_int_equal(msi_auto_mask_fetch(m, got), 0);
        assert_memory_equal(got, mask, NX * NY);
        assert_true(report.n_pixel > NX * NY / 20 && report.n_pixel < NX * NY / 2);
        msi_auto_mask_free(m);
        msi_planes_free(p);
        free(r);
    }
    free(mask);
    free(got);
}

/* A mask that hardly changes is frozen; one that was set behaves like the one it was copied from. */
static void test_kept_and_set(void **state)
{
    (void)state;
    enum { NX = 61, NY = 50, N = NX * NY };
    static uint8_t first[N], second[N], again[N];
    msi_auto_mask_spec s = spec_of();
    const msi_planes_shape shape = {NX, NY, 0, MSI_FP32, clean_backend, 0};
    msi_auto_mask *m, *other;
    msi_auto_mask_report report;
    s.min_percent_change = 1;
    double *r = make_residual(NX, NY, 1, 3), *flat = make_residual(NX, NY, 0, 4);
    flat[5 * NX + 30] = flat[5 * NX + 31] = 0;
    msi_planes *a = planes_of(NX, NY, r, MSI_FP32), *b = planes_of(NX, NY, flat, MSI_FP32);
    assert_int_equal(msi_auto_mask_create(&m, &shape, &s), 0);
    assert_int_equal(msi_auto_mask_create(&other, &shape, &s), 0);
    assert_int_equal(msi_auto_mask_update(m, a, 0, &report), 0);
    assert_false(report.is_kept);
    assert_int_equal(msi_auto_mask_fetch(m, first), 0);
    assert_int_equal(msi_auto_mask_set(other, first, 1), 0);
    for (int k = 0; k < 9 && !report.is_kept; k++) {
        assert_int_equal(msi_auto_mask_update(m, b, 0, &report), 0);
        assert_int_equal(msi_auto_mask_update(other, b, 0, &report), 0);
        assert_int_equal(msi_auto_mask_fetch(m, second), 0);
        assert_int_equal(msi_auto_mask_fetch(other, again), 0);
        assert_memory_equal(second, again, N);
    }
    assert_true(report.is_kept);
    assert_int_equal(msi_auto_mask_update(m, a, 0, &report), 0);
    assert_int_equal(report.n_added, 0);
    assert_int_equal(msi_auto_mask_fetch(m, again), 0);
    assert_memory_equal(second, again, N);
    msi_auto_mask_free(m);
    msi_auto_mask_free(other);
    msi_planes_free(a);
    msi_planes_free(b);
    free(r);
    free(flat);
}

static void test_refused(void **state)
{
    (void)state;
    enum { NX = 20, NY = 18 };
    const msi_planes_shape shape = {NX, NY, 0, MSI_FP32, clean_backend, 0};
    msi_auto_mask_spec bad[4] = {spec_of(), spec_of(), spec_of(), spec_of()};
    msi_auto_mask_report report;
    msi_auto_mask *m;
    double *r = calloc(NX * NY, sizeof *r);
    bad[0].beam.minor_rad = NAN;
    bad[1].noise_threshold = -1;
    bad[2].cell_x_rad = 0;
    bad[3].grow_iterations = -1;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(msi_auto_mask_create(&m, &shape, &bad[i]), MSI_EARGUMENT);
        assert_null(m);
    }
    const msi_auto_mask_spec s = spec_of();
    assert_int_equal(msi_auto_mask_create(&m, &shape, &s), 0);
    msi_planes *zero = planes_of(NX, NY, r, MSI_FP32), *wide = planes_of(NX, NY, r, MSI_FP64);
    assert_int_equal(msi_auto_mask_update(m, zero, 0, &report), 0);
    assert_int_equal(report.n_pixel, 0);
    assert_int_equal(msi_auto_mask_update(m, zero, 1, &report), MSI_EARGUMENT);
    assert_int_equal(msi_auto_mask_update(m, wide, 0, &report), MSI_EARGUMENT);
    for (int i = 0; i < NX * NY; i++) r[i] = NAN;
    msi_planes *none = planes_of(NX, NY, r, MSI_FP32);
    assert_int_equal(msi_auto_mask_update(m, none, 0, &report), MSI_EINPUT);
    msi_planes_free(zero);
    msi_planes_free(wide);
    msi_planes_free(none);
    msi_auto_mask_free(m);
    free(r);
}

/* The estimate suffices for a mask and its updates on the CPU, also if all of the residual has one value, for which the
 * noise needs most memory; and it is at most 1.3 times the memory used. */
static void test_estimate(void **state)
{
    (void)state;
    enum { NX = 300, NY = 280 };
    if (clean_backend != MSI_BACKEND_CPU) return;
    double *r = make_residual(NX, NY, 1, 5), *flat = make_residual(NX, NY, 1, 5);
    for (int i = 0; i < NX * NY * 3 / 4; i++) flat[i] = 0.1;
    msi_planes *p = planes_of(NX, NY, r, MSI_FP32), *q = planes_of(NX, NY, flat, MSI_FP32);
    const msi_planes_shape shape = {NX, NY, 0, MSI_FP32, MSI_BACKEND_CPU, 0};
    for (int n_thread = 1; n_thread <= 4; n_thread += 3) {
        msi_auto_mask_spec spec = spec_of();
        msi_auto_mask_report report;
        msi_auto_mask *m;
        int64_t host, device;
        spec.n_thread = n_thread;
        spec.min_beam_frac = 3;
        msi_auto_mask_estimate(&shape, &spec, &host, &device);
        const int64_t in_use = msi_memory_in_use();
        msi_memory_limit_set(in_use + host + 4096);
        assert_int_equal(msi_auto_mask_create(&m, &shape, &spec), 0);
        assert_int_equal(msi_auto_mask_update(m, q, 0, &report), 0);
        assert_int_equal(msi_auto_mask_update(m, p, 0, &report), 0);
        msi_memory_limit_set(in_use + (int64_t)((double)host / 1.3));
        const int rc = msi_auto_mask_update(m, q, 0, &report);
        msi_memory_limit_set(0);
        msi_auto_mask_free(m);
        assert_int_equal(rc, MSI_ENOMEM);
        assert_int_equal(device, 0);
    }
    msi_planes_free(p);
    msi_planes_free(q);
    free(r);
    free(flat);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_definition), cmocka_unit_test(test_regions),
                                       cmocka_unit_test(test_kept_and_set), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_estimate)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
