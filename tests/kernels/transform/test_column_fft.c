/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Column transforms of every instruction set against sums in double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/method/simd.h"
#include "kernels/transform/fft_cpu.h"

enum { PITCH = 21, FIRST = 3 };

/* One column, in double. */
typedef struct column {
    double *re, *im;
} column;

static double random_part(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) / 9007199254740992.0 - 0.5;
}

static column column_make(int64_t n)
{
    return (column){calloc((size_t)n, sizeof(double)), calloc((size_t)n, sizeof(double))};
}

static void column_free(column c)
{
    free(c.re);
    free(c.im);
}

/* Sum up a column element by element. */
static void transform(int64_t n, int sign, column in, column out)
{
    for (int64_t k = 0; k < n; k++) {
        out.re[k] = out.im[k] = 0;
        for (int64_t i = 0; i < n; i++) {
            const double phase = sign * 2 * MSI_PI * (double)(k * i % n) / (double)n, c = cos(phase), s = sin(phase);
            out.re[k] += in.re[i] * c - in.im[i] * s;
            out.im[k] += in.re[i] * s + in.im[i] * c;
        }
    }
}

static void set(msi_precision precision, void *data, int64_t i, double re, double im)
{
    if (precision == MSI_FP32)
        ((msi_c32 *)data)[i] = (msi_c32){(float)re, (float)im};
    else
        ((msi_c64 *)data)[i] = (msi_c64){re, im};
}

static msi_c64 get(msi_precision precision, const void *data, int64_t i)
{
    if (precision == MSI_FP64) return ((const msi_c64 *)data)[i];
    const msi_c32 z = ((const msi_c32 *)data)[i];
    return (msi_c64){z.re, z.im};
}

/* Compute a column of the result by the definition. */
static void expect(int64_t n, msi_column_way way, column in, column factor, column out)
{
    column middle = column_make(n);
    if (way != MSI_COLUMN_CONVOLVE) {
        transform(n, way == MSI_COLUMN_FORWARD ? -1 : 1, in, out);
    } else {
        transform(n, -1, in, middle);
        for (int64_t k = 0; k < n; k++) {
            const double re = middle.re[k], im = middle.im[k];
            middle.re[k] = (re * factor.re[k] - im * factor.im[k]) / (double)n;
            middle.im[k] = (re * factor.im[k] + im * factor.re[k]) / (double)n;
        }
        transform(n, 1, middle, out);
    }
    column_free(middle);
}

/* The arguments of a run. */
typedef struct matrices {
    void *data, *was, *factor;
    uint8_t *given, *wanted;
} matrices;

static matrices fill(int64_t n, msi_precision precision, uint64_t *seed)
{
    const size_t bytes = (size_t)(n * PITCH * msi_complex_bytes(precision));
    matrices m = {malloc(bytes), malloc(bytes), malloc(bytes), calloc((size_t)n, 1), calloc((size_t)n, 1)};
    for (int64_t i = 0; i < n * PITCH; i++) {
        set(precision, m.data, i, random_part(seed), random_part(seed));
        set(precision, m.factor, i, random_part(seed), random_part(seed));
    }
    memcpy(m.was, m.data, bytes);
    for (int64_t i = 0; i < n; i++) {
        m.given[i] = random_part(seed) > 0;
        m.wanted[i] = random_part(seed) > -0.2;
    }
    return m;
}

/* Compare column k of a run's result with the definition. Elements are of the order of sqrt(n); each stage, and each
 * turn of the definition, rounds some units of that. */
static void check_column(int64_t n, msi_precision precision, msi_column_way way, const matrices *m, int masked, int k)
{
    const double unit = precision == MSI_FP32 ? 6e-8 : 1.2e-16, most = 32 * unit * sqrt((double)n);
    column in = column_make(n), factor = column_make(n), want = column_make(n);
    for (int64_t i = 0; i < n; i++) {
        const msi_c64 z = get(precision, m->was, i * PITCH + k), f = get(precision, m->factor, i * PITCH + k);
        in.re[i] = !masked || m->given[i] ? z.re : 0;
        in.im[i] = !masked || m->given[i] ? z.im : 0;
        factor.re[i] = f.re;
        factor.im[i] = f.im;
    }
    expect(n, way, in, factor, want);
    for (int64_t i = 0; i < n; i++) {
        const msi_c64 z = get(precision, m->data, i * PITCH + k), was = get(precision, m->was, i * PITCH + k);
        const double off = hypot(z.re - want.re[i], z.im - want.im[i]);
        if (masked && !m->wanted[i])
            assert_true(z.re == was.re && z.im == was.im);
        else if (!(off <= most))
            fail_msg("%s, %lld points, way %d: element %lld off by %g, not %g", msi_simd_name(), (long long)n, (int)way,
                     (long long)i, off, most);
    }
    column_free(in);
    column_free(factor);
    column_free(want);
}

static void check(int64_t n, msi_precision precision, msi_column_way way, int masked)
{
    uint64_t seed = (uint64_t)n + 7;
    msi_column_fft *f;
    void *work;
    matrices m = fill(n, precision, &seed);
    const int64_t bytes = msi_complex_bytes(precision);
    const int lanes = msi_column_fft_lanes(precision), n_column = masked ? lanes - 3 : lanes;
    const msi_column_rows rows = {.data = (char *)m.data + FIRST * bytes,
                                  .pitch = PITCH,
                                  .n_column = n_column,
                                  .given = masked ? m.given : NULL,
                                  .wanted = masked ? m.wanted : NULL,
                                  .factor = (char *)m.factor + FIRST * bytes};
    assert_int_equal(msi_column_fft_create(&f, n, precision), 0);
    assert_int_equal(msi_alloc(&work, msi_column_fft_bytes(n), 1, "a test"), 0);
    msi_column_fft_run(f, way, &rows, work);
    for (int k = FIRST; k<FIRST + n_column; k += n> 1000 ? n_column - 1 : 1)
        check_column(n, precision, way, &m, masked, k);
    for (int64_t i = 0; i < n * PITCH; i++)
        if (i % PITCH < FIRST || i % PITCH >= FIRST + n_column)
            assert_memory_equal((char *)m.data + i * bytes, (char *)m.was + i * bytes, (size_t)bytes);
    msi_column_fft_free(f);
    msi_free(work);
    free(m.data);
    free(m.was);
    free(m.factor);
    free(m.given);
    free(m.wanted);
}

static void test_all(void **state)
{
    (void)state;
    static const int64_t size[] = {1, 2, 3, 10, 14, 49, 64, 90, 98, 210, 384, 1536};
    msi_simd simd[MSI_N_SIMD];
    const int n_simd = msi_simd_all(simd);
    for (int i = 0; i < n_simd; i++) {
        msi_simd_use(simd[i]);
        for (size_t s = 0; s < sizeof size / sizeof *size; s++)
            for (int way = 0; way < 3; way++)
                for (int masked = 0; masked < 2; masked++) {
                    check(size[s], MSI_FP64, (msi_column_way)way, masked);
                    check(size[s], MSI_FP32, (msi_column_way)way, masked);
                }
    }
    msi_simd_use(MSI_N_SIMD);
}

static void test_refused(void **state)
{
    (void)state;
    msi_column_fft *f;
    assert_int_equal(msi_column_fft_create(&f, 22, MSI_FP32), MSI_EARGUMENT);
    assert_null(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
