/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>

#include "src/sky/phase_shift.h"

enum { N_ROW = 50, N_CHAN = 3, N_PLANE = 2, N_SHIFT = 9 };

static const long double PI_L = 3.14159265358979323846264338327950288L;
static const double ASEC = MSI_PI / 648000;
static const double freq_hz[N_CHAN] = {50e6, 1.42e9, 40e9};
static const double LONGEST_M = 1e6;

/* The old centre, and the offset of the new one in right ascension and declination. */
static const struct shift_case {
    double ra, dec, by_ra, by_dec;
} cases[N_SHIFT] = {
    {1.0, 0.5, 0, 0},
    {1.0, 0.5, ASEC, 0},
    {1.0, -0.7, 0, -ASEC},
    {4.0, -0.7, 1e-3 * ASEC, 1e-3 * ASEC},
    {6.28, 0.2, 0.02, 0.01}, /* past 24 h */
    {2.0, 1.5, 0.5, 0.05},   /* close to the pole */
    {2.0, 0.1, -0.3, 0.4},
    {0.0, -0.5, MSI_PI / 3, 0}, /* 60 degrees of right ascension, and about 60 of declination */
    {3.0, -0.5, 0, MSI_PI / 3},
};

typedef struct vec {
    long double x, y, z;
} vec;

static vec direction(long double ra, long double dec)
{
    return (vec){cosl(dec) * cosl(ra), cosl(dec) * sinl(ra), sinl(dec)};
}

static long double dot(vec a, vec b)
{
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

/* Find east, north and centre of a phase centre. */
static void frame(vec out[3], long double ra, long double dec)
{
    out[0] = (vec){-sinl(ra), cosl(ra), 0};
    out[1] = (vec){-sinl(dec) * cosl(ra), -sinl(dec) * sinl(ra), cosl(dec)};
    out[2] = direction(ra, dec);
}

static void make(msi_phase_shift *shift, const struct shift_case *c)
{
    msi_phase_shift_make(shift, c->ra, c->dec, c->ra + c->by_ra, c->dec + c->by_dec);
}

/* Compute the length of the shift, |(l, m, n - 1)|. */
static double length(const msi_phase_shift *s)
{
    return sqrt(s->direction[0] * s->direction[0] + s->direction[1] * s->direction[1] +
                s->direction[2] * s->direction[2]);
}

static double random_unit(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(*state >> 11) * 0x1p-53;
}

static void random_uvw(double *uvw_m, uint64_t seed)
{
    for (int i = 0; i < 3 * N_ROW; i++) uvw_m[i] = LONGEST_M * (2 * random_unit(&seed) - 1);
}

static void test_rotation(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        const struct shift_case *c = &cases[k];
        msi_phase_shift s;
        make(&s, c);
        vec from[3], to[3];
        frame(from, (long double)c->ra, (long double)c->dec);
        frame(to, (long double)(c->ra + c->by_ra), (long double)(c->dec + c->by_dec));
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                double product = 0;
                for (int a = 0; a < 3; a++) product += s.rotation[i][a] * s.rotation[j][a];
                /* Products of sines and cosines below 1, each good to 2^-53; ten of them. */
                assert_true(fabs(product - (i == j)) < 10 * DBL_EPSILON);
                assert_true(fabsl(s.rotation[i][j] - dot(to[i], from[j])) < 10 * DBL_EPSILON);
            }
        double determinant = 0;
        for (int i = 0; i < 3; i++) {
            int j = (i + 1) % 3, l = (i + 2) % 3;
            determinant +=
                s.rotation[0][i] * (s.rotation[1][j] * s.rotation[2][l] - s.rotation[1][l] * s.rotation[2][j]);
        }
        assert_true(fabs(determinant - 1) < 20 * DBL_EPSILON);
    }
}

/* l, m, n - 1 keep their relative precision for shifts of a milliarcsecond: tiny differences of large numbers do not.
 */
static void test_direction(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        const struct shift_case *c = &cases[k];
        msi_phase_shift s;
        make(&s, c);
        vec from[3];
        frame(from, (long double)c->ra, (long double)c->dec);
        vec to = direction((long double)(c->ra + c->by_ra), (long double)(c->dec + c->by_dec));
        vec difference = {to.x - from[2].x, to.y - from[2].y, to.z - from[2].z};
        for (int i = 0; i < 3; i++) {
            /* long double vectors near 1 cancel to 2^-63; the shift itself is good to some roundings of its length. */
            double error = (double)fabsl(s.direction[i] - dot(difference, from[i]));
            assert_true(error < 8 * DBL_EPSILON * length(&s) + 0x1p-60);
        }
        long double l = s.direction[0], m = s.direction[1];
        if (s.direction[2] > -1) {
            long double n_1 = -(l * l + m * m) / (1 + sqrtl(1 - l * l - m * m));
            assert_true(fabsl(s.direction[2] - n_1) <= 8 * DBL_EPSILON * (double)fabsl(n_1));
        }
    }
}

/* Compute the phase by which a sample at uvw turns, in long double. */
static long double turns_of(const struct shift_case *c, const double *uvw_m, double freq)
{
    vec from[3];
    frame(from, (long double)c->ra, (long double)c->dec);
    vec to = direction((long double)(c->ra + c->by_ra), (long double)(c->dec + c->by_dec));
    vec difference = {to.x - from[2].x, to.y - from[2].y, to.z - from[2].z};
    long double path_m = 0;
    for (int i = 0; i < 3; i++) path_m += uvw_m[i] * dot(difference, from[i]);
    return path_m / 299792458.0L * freq;
}

static void test_phases(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        double uvw_m[3 * N_ROW], old_m[3 * N_ROW];
        msi_c64 vis[N_PLANE * N_ROW * N_CHAN];
        random_uvw(uvw_m, 11);
        random_uvw(old_m, 11);
        for (int i = 0; i < N_PLANE * N_ROW * N_CHAN; i++) vis[i] = (msi_c64){1 + i % 7, 2 - i % 5};
        msi_phase_shift s;
        make(&s, &cases[k]);
        msi_phase_shift_apply(&s, N_ROW, N_CHAN, N_PLANE, freq_hz, uvw_m, vis);
        for (int i = 0; i < N_PLANE * N_ROW * N_CHAN; i++) {
            int row = i / N_CHAN % N_ROW, chan = i % N_CHAN;
            long double turns = turns_of(&cases[k], old_m + 3 * row, freq_hz[chan]);
            long double phase = -2 * PI_L * (turns - rintl(turns));
            double re = 1 + i % 7, im = 2 - i % 5, size = hypot(re, im);
            /* The error of turns is some roundings of the longest path in wavelengths, since numbers have 53 bits, plus
             * the reference's own 2^-60 of it. */
            double most = sqrt(3) * LONGEST_M / MSI_SPEED_OF_LIGHT * freq_hz[chan];
            double tolerance = 2 * MSI_PI * most * (12 * DBL_EPSILON * length(&s) + 0x1p-60) + 8 * DBL_EPSILON;
            assert_true(fabs(vis[i].re - (double)(re * cosl(phase) - im * sinl(phase))) < size * tolerance);
            assert_true(fabs(vis[i].im - (double)(re * sinl(phase) + im * cosl(phase))) < size * tolerance);
        }
    }
}

/* After the shift uvw is the same baseline vector in the axes of the new centre. */
static void test_uvw(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        const struct shift_case *c = &cases[k];
        double uvw_m[3 * N_ROW], old_m[3 * N_ROW];
        msi_c64 vis[N_ROW * N_CHAN] = {{0}};
        random_uvw(uvw_m, 12);
        random_uvw(old_m, 12);
        msi_phase_shift s;
        make(&s, c);
        msi_phase_shift_apply(&s, N_ROW, N_CHAN, 1, freq_hz, uvw_m, vis);
        vec from[3], to[3];
        frame(from, (long double)c->ra, (long double)c->dec);
        frame(to, (long double)(c->ra + c->by_ra), (long double)(c->dec + c->by_dec));
        for (int row = 0; row < N_ROW; row++)
            for (int i = 0; i < 3; i++) {
                long double want = 0;
                for (int j = 0; j < 3; j++) want += old_m[3 * row + j] * dot(to[i], from[j]);
                assert_true(fabsl(uvw_m[3 * row + i] - want) < 3 * 10 * DBL_EPSILON * LONGEST_M);
            }
    }
}

/* A point source at the new centre has phase 0 after the shift, on every baseline and channel. */
static void test_source_at_new_centre(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        double uvw_m[3 * N_ROW];
        msi_c64 vis[N_ROW * N_CHAN];
        random_uvw(uvw_m, 13);
        for (int i = 0; i < N_ROW * N_CHAN; i++) {
            long double turns = turns_of(&cases[k], uvw_m + i / N_CHAN * 3, freq_hz[i % N_CHAN]);
            long double phase = 2 * PI_L * (turns - rintl(turns));
            vis[i] = (msi_c64){(double)(3 * cosl(phase)), (double)(3 * sinl(phase))};
        }
        msi_phase_shift s;
        make(&s, &cases[k]);
        msi_phase_shift_apply(&s, N_ROW, N_CHAN, 1, freq_hz, uvw_m, vis);
        for (int i = 0; i < N_ROW * N_CHAN; i++) {
            double most = sqrt(3) * LONGEST_M / MSI_SPEED_OF_LIGHT * freq_hz[i % N_CHAN];
            double tolerance = 2 * MSI_PI * most * (12 * DBL_EPSILON * length(&s) + 0x1p-60) + 8 * DBL_EPSILON;
            assert_true(fabs(vis[i].re - 3) < 3 * tolerance);
            assert_true(fabs(vis[i].im) < 3 * tolerance);
        }
    }
}

/* Predicted visibilities are shifted back from the new centre to the old one, with the old uvw. */
static void test_predicted_is_the_inverse(void **state)
{
    (void)state;
    for (int k = 0; k < N_SHIFT; k++) {
        double uvw_m[3 * N_ROW], old_m[3 * N_ROW], turned_m[3 * N_ROW];
        msi_c64 vis[N_PLANE * N_ROW * N_CHAN];
        random_uvw(uvw_m, 14);
        random_uvw(old_m, 14);
        for (int i = 0; i < N_PLANE * N_ROW * N_CHAN; i++) vis[i] = (msi_c64){1 + i % 7, 2 - i % 5};
        msi_phase_shift s;
        make(&s, &cases[k]);
        msi_phase_shift_rotate(&s, N_ROW, old_m, turned_m);
        msi_phase_shift_apply(&s, N_ROW, N_CHAN, N_PLANE, freq_hz, uvw_m, vis);
        for (int i = 0; i < 3 * N_ROW; i++) assert_true(turned_m[i] == uvw_m[i]);
        msi_phase_shift_inverse(&s, N_ROW, N_CHAN, N_PLANE, freq_hz, old_m, vis);
        for (int i = 0; i < N_PLANE * N_ROW * N_CHAN; i++) {
            /* The same phase both times, so that its own error does not count; a few roundings of up to |V| do. */
            assert_true(fabs(vis[i].re - (1 + i % 7)) < 64 * DBL_EPSILON);
            assert_true(fabs(vis[i].im - (2 - i % 5)) < 64 * DBL_EPSILON);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_direction),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_uvw),
        cmocka_unit_test(test_source_at_new_centre),
        cmocka_unit_test(test_predicted_is_the_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
