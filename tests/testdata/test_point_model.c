/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the generator's geometry: layouts, sidereal time, uvw; and visibilities, against a sum in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/status.h"
#include "testdata/array_layout.h"
#include "testdata/counter_random.h"
#include "testdata/point_model.h"

#define DEG (MSI_PI / 180)

static void assert_near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g and %.17g differ by more than %g", a, b, tolerance);
}

typedef struct cl {
    long double re, im;
} cl;

static cl oracle_coherency(const double s[4], msi_pol corr)
{
    switch (corr) {
    case MSI_POL_XX:
        return (cl){(long double)s[0] + s[1], 0};
    case MSI_POL_XY:
        return (cl){s[2], s[3]};
    case MSI_POL_YX:
        return (cl){s[2], -s[3]};
    case MSI_POL_YY:
        return (cl){(long double)s[0] - s[1], 0};
    case MSI_POL_RR:
        return (cl){(long double)s[0] + s[3], 0};
    case MSI_POL_RL:
        return (cl){s[1], s[2]};
    case MSI_POL_LR:
        return (cl){s[1], -s[2]};
    case MSI_POL_LL:
        return (cl){(long double)s[0] - s[3], 0};
    default:
        return (cl){s[corr - MSI_POL_I], 0};
    }
}

static cl oracle(const msi_point_source *source, int n_source, const double uvw_m[3], double freq_hz,
                 double reference_hz, msi_pol corr)
{
    const long double two_pi = 8 * atanl(1);
    cl sum = {0, 0};
    for (int i = 0; i < n_source; i++) {
        long double l = source[i].l, m = source[i].m, n1 = sqrtl(1 - l * l - m * m) - 1;
        long double turns = (uvw_m[0] * l + uvw_m[1] * m + uvw_m[2] * n1) * freq_hz / MSI_SPEED_OF_LIGHT;
        long double angle = two_pi * (turns - floorl(turns));
        long double scale = powl((long double)freq_hz / reference_hz, source[i].spectral_index);
        cl s = oracle_coherency(source[i].stokes_jy, corr);
        sum.re += scale * (s.re * cosl(angle) - s.im * sinl(angle));
        sum.im += scale * (s.re * sinl(angle) + s.im * cosl(angle));
    }
    return sum;
}

static void visibilities_are_exact(void **state)
{
    (void)state;
    /* More channels than are computed together, and not a multiple of a vector's length. */
    enum { N_SOURCE = 7, N_CHAN = 301, N_ROW = 40 };
    static const msi_pol linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY};
    static const msi_pol circular[] = {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL};
    static const msi_pol stokes[] = {MSI_POL_I, MSI_POL_Q, MSI_POL_U, MSI_POL_V};
    static const msi_pol *const corrs[] = {linear, circular, stokes};
    static msi_c64 vis[N_ROW * N_CHAN * 4];
    msi_point_source source[N_SOURCE];
    double freq_hz[N_CHAN], uvw_m[N_ROW][3];
    for (int i = 0; i < N_SOURCE; i++) {
        for (int k = 0; k < 4; k++)
            source[i].stokes_jy[k] = msi_random_uniform(1, 1, 4 * (uint64_t)i + (uint64_t)k) - 0.3;
        source[i].l = 1.2 * (msi_random_uniform(1, 2, (uint64_t)i) - 0.5);
        source[i].m = 1.2 * (msi_random_uniform(1, 3, (uint64_t)i) - 0.5);
        source[i].spectral_index = -0.8 + 0.3 * i;
    }
    source[0].l = source[0].m = 0;
    for (int k = 0; k < N_CHAN; k++) freq_hz[k] = 1.5e9 - k * 1234567.891;
    for (int i = 0; i < N_ROW; i++)
        for (int k = 0; k < 3; k++)
            uvw_m[i][k] = 36000 * (msi_random_uniform(1, 4, 3 * (uint64_t)i + (uint64_t)k) - 0.5);
    for (int k = 0; k < 3; k++) uvw_m[0][k] = 0;
    for (int feeds = 0; feeds < 3; feeds++) {
        msi_point_model *model;
        assert_int_equal(msi_point_model_create(
                             &model, &(msi_point_spec){source, N_SOURCE, 1.3e9, freq_hz, N_CHAN, corrs[feeds], 4}),
                         0);
        msi_point_model_evaluate(model, N_ROW, uvw_m[0], vis);
        msi_point_model_free(model);
        double worst = 0;
        for (int i = 0; i < N_ROW; i++)
            for (int k = 0; k < N_CHAN; k += i ? 7 : 1)
                for (int c = 0; c < 4; c++) {
                    cl want = oracle(source, N_SOURCE, uvw_m[i], freq_hz[k], 1.3e9, corrs[feeds][c]);
                    msi_c64 got = vis[(i * N_CHAN + k) * 4 + c];
                    worst = fmax(worst, (double)hypotl(got.re - want.re, got.im - want.im));
                }
        /* 1e5 turns in long double are good to 1e5 x 4 x 2^-64 turns or 1.4e-13 rad on either side, the phasors to
         * 4e-16. */
        assert_true(worst < 1e-12 * N_SOURCE);
    }
}

/* A double's phase of 1e6 turns is good to 1e-10 turns only: shows that the reduction is needed, and works. */
static void far_sources_keep_their_phase(void **state)
{
    (void)state;
    const msi_point_source source = {.l = 0.7, .m = -0.3, .stokes_jy = {1, 0, 0, 0}};
    const double uvw_m[3] = {3.1e5, -2.7e5, 1.9e5}, freq_hz = 1.4e9;
    const msi_pol corr = MSI_POL_I;
    msi_point_model *model;
    msi_c64 got;
    assert_int_equal(msi_point_model_create(&model, &(msi_point_spec){&source, 1, 1e9, &freq_hz, 1, &corr, 1}), 0);
    msi_point_model_evaluate(model, 1, uvw_m, &got);
    msi_point_model_free(model);
    cl want = oracle(&source, 1, uvw_m, freq_hz, 1e9, corr);
    /* 1.4e6 turns x 4 x 2^-64 x 2 pi x 2. */
    assert_near(got.re, (double)want.re, 4e-12);
    assert_near(got.im, (double)want.im, 4e-12);
}

static void refusals(void **state)
{
    (void)state;
    const msi_point_source beyond = {.l = 0.8, .m = 0.8}, fine = {.l = 0.1};
    const double freq_hz = 1e9, negative_hz = -1;
    const msi_pol corr = MSI_POL_XX, none = (msi_pol)99;
    msi_point_model *model;
    assert_int_equal(msi_point_model_create(&model, &(msi_point_spec){&beyond, 1, 1e9, &freq_hz, 1, &corr, 1}),
                     MSI_EUSAGE);
    assert_null(model);
    assert_int_equal(msi_point_model_create(&model, &(msi_point_spec){&fine, 1, 1e9, &negative_hz, 1, &corr, 1}),
                     MSI_EUSAGE);
    assert_int_equal(msi_point_model_create(&model, &(msi_point_spec){&fine, 1, 1e9, &freq_hz, 1, &none, 1}),
                     MSI_EUSAGE);
}

static void uvw_of_known_baselines(void **state)
{
    (void)state;
    const double x[3] = {1, 0, 0}, y[3] = {0, 1, 0}, z[3] = {0, 0, 1};
    double uvw[3];
    /* At transit over the Greenwich meridian: the y axis points east, the z axis to the pole. */
    msi_sky_uvw(y, 0, 0.5, uvw);
    assert_near(uvw[0], 1, 0);
    assert_near(uvw[1], 0, 0);
    assert_near(uvw[2], 0, 0);
    msi_sky_uvw(z, 1.1, 0.5, uvw);
    assert_near(uvw[0], 0, 0);
    assert_near(uvw[1], cos(0.5), 1e-16);
    assert_near(uvw[2], sin(0.5), 1e-16);
    /* A source that sets in the west, six hours past transit, on the equator: the x axis lies across it and to its
     * east. */
    msi_sky_uvw(x, MSI_PI / 2, 0, uvw);
    assert_near(uvw[0], 1, 1e-16);
    assert_near(uvw[1], 0, 1e-16);
    assert_near(uvw[2], 0, 1e-16);
    msi_sky_uvw(y, MSI_PI / 2, 0, uvw);
    assert_near(uvw[2], -1, 1e-16);
}

/* Find the unit vector to a direction, in the frame of geocentric positions at a sidereal time. */
static void towards(double ra_rad, double dec_rad, double gmst_rad, double out[3])
{
    out[0] = cos(dec_rad) * cos(ra_rad - gmst_rad);
    out[1] = cos(dec_rad) * sin(ra_rad - gmst_rad);
    out[2] = sin(dec_rad);
}

/* u l + v m + w (n - 1) is the path difference between a source and the phase centre: baseline . (s - s0). */
static void phases_are_path_differences(void **state)
{
    (void)state;
    const double baseline_m[3] = {812.5, -333.25, 1290};
    for (uint64_t i = 0; i < 100; i++) {
        double ra0 = 2 * MSI_PI * msi_random_uniform(2, 1, i), dec0 = MSI_PI * (msi_random_uniform(2, 2, i) - 0.5);
        double ra = ra0 + 0.8 * (msi_random_uniform(2, 3, i) - 0.5), gmst = 2 * MSI_PI * msi_random_uniform(2, 4, i);
        double dec = dec0 + 0.8 * (msi_random_uniform(2, 5, i) - 0.5), l, m, s[3], s0[3], uvw[3], back_ra, back_dec;
        if (fabs(dec) > MSI_PI / 2) continue;
        assert_int_equal(msi_sky_to_lm(ra, dec, ra0, dec0, &l, &m), 0);
        msi_sky_uvw(baseline_m, gmst - ra0, dec0, uvw);
        towards(ra, dec, gmst, s);
        towards(ra0, dec0, gmst, s0);
        double path_m = 0;
        for (int k = 0; k < 3; k++) path_m += baseline_m[k] * (s[k] - s0[k]);
        double n1 = sqrt(1 - l * l - m * m) - 1;
        /* A dozen products of 1.6 km, each good to 2^-53. */
        assert_near(uvw[0] * l + uvw[1] * m + uvw[2] * n1, path_m, 12 * 1600 * 0x1p-52);
        msi_sky_from_lm(l, m, ra0, dec0, &back_ra, &back_dec);
        /* Half a radian from the centre n is at least 0.8, so that asin and atan2 lose no more than a few units. */
        assert_near(back_dec, dec, 1e-14);
        assert_near(remainder(back_ra - ra, 2 * MSI_PI) * cos(dec), 0, 1e-14);
    }
    double l, m;
    assert_int_equal(msi_sky_to_lm(0, 0, MSI_PI, 0.1, &l, &m), MSI_ERANGE);
    /* East is where right ascension grows. */
    assert_int_equal(msi_sky_to_lm(0.001, 0, 0, 0, &l, &m), 0);
    assert_near(l, sin(0.001), 1e-18);
    assert_near(m, 0, 0);
}

static void sidereal_time(void **state)
{
    (void)state;
    assert_near(msi_sky_gmst(51544.5 * 86400), 280.46061837 * DEG, 1e-12);
    /* 1987 April 10, 0 h UT: 13 h 10 m 46.3668 s (Astronomical Almanac); the omitted term in T^2 is 1.5 ms there. */
    double gmst_s = msi_sky_gmst(46895.0 * 86400) / (2 * MSI_PI) * 86400;
    assert_near(gmst_s, 13 * 3600 + 10 * 60 + 46.3668, 0.003);
    for (int i = 0; i < 20; i++) {
        double hour_angle = 0.3 * i - 3, ra = 0.7 * i, longitude = 2 - 0.2 * i, after = 60000.0 * 86400;
        double t = msi_sky_time_of(ra, hour_angle, longitude, after);
        assert_true(t >= after && t < after + 86164.1);
        /* Times of 5e9 s are stored to 1e-6 s, in which the sky turns by 7e-11 rad. */
        assert_near(remainder(msi_sky_gmst(t) + longitude - ra - hour_angle, 2 * MSI_PI), 0, 1e-10);
    }
    assert_near(msi_sky_elevation(0, 0.3, 0.5), MSI_PI / 2 - 0.2, 1e-12);
}

static double shortest_m(const msi_layout *layout)
{
    double shortest = INFINITY;
    for (int i = 0; i < layout->n_station; i++)
        for (int j = 0; j < i; j++) {
            const double *a = layout->station[i].itrf_m, *b = layout->station[j].itrf_m;
            shortest = fmin(shortest, hypot(hypot(a[0] - b[0], a[1] - b[1]), a[2] - b[2]));
        }
    return shortest;
}

/* Compute the height over the ellipsoid, roughly: stations must stand on the Earth. */
static double height_m(const double itrf_m[3])
{
    double equator_m = hypot(itrf_m[0], itrf_m[1]) / 6378137.0, pole_m = itrf_m[2] / 6356752.3;
    return (hypot(equator_m, pole_m) - 1) * 6371000;
}

static void layouts(void **state)
{
    (void)state;
    msi_layout a, b;
    double previous_m = INFINITY;
    for (int config = 'A'; config <= 'D'; config++) {
        assert_int_equal(msi_layout_vla(&a, (char)config), 0);
        assert_int_equal(a.n_station, 27);
        double longest_m = msi_layout_longest_m(&a);
        /* Two arm ends 120 degrees apart: sqrt(3) arms. */
        assert_near(longest_m / (21000 / pow(3.285, config - 'A')), sqrt(3), 0.15);
        assert_true(longest_m < previous_m);
        assert_true(shortest_m(&a) > 25);
        previous_m = longest_m;
        msi_layout_free(&a);
    }
    assert_int_equal(msi_layout_vla(&a, 'E'), MSI_EUSAGE);

    assert_int_equal(msi_layout_meerkat(&a, 1), 0);
    assert_int_equal(msi_layout_meerkat(&b, 1), 0);
    assert_int_equal(a.n_station, 64);
    assert_memory_equal(a.station, b.station, 64 * sizeof *a.station);
    assert_true(msi_layout_longest_m(&a) > 4000 && msi_layout_longest_m(&a) < 8000);
    assert_true(shortest_m(&a) > 29);
    msi_layout_free(&b);
    assert_int_equal(msi_layout_meerkat(&b, 2), 0);
    assert_memory_not_equal(a.station, b.station, 64 * sizeof *a.station);
    msi_layout_free(&a);
    msi_layout_free(&b);

    static const int sizes[] = {2, 30, 512, 2000};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(msi_layout_skalow(&a, sizes[i], 1), 0);
        assert_int_equal(a.n_station, sizes[i]);
        assert_true(msi_layout_longest_m(&a) < 74000 && shortest_m(&a) > 30);
        if (sizes[i] == 512) assert_true(msi_layout_longest_m(&a) > 50000);
        for (int k = 0; k < a.n_station; k++) assert_near(height_m(a.station[k].itrf_m), 365, 25);
        msi_layout_free(&a);
    }
    assert_int_equal(msi_layout_skalow(&a, 1, 1), MSI_EUSAGE);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void layout_files(void **state)
{
    (void)state;
    char path[] = "/tmp/msi-layout-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_text(path,
               "# a comment\n\n 5109271.5 2006808.9 -3239130.7 13.5 m000\n5109284.9 2006824.2 -3239100.1 13.5 m001\n");
    msi_layout layout;
    assert_int_equal(msi_layout_read(&layout, path), 0);
    assert_int_equal(layout.n_station, 2);
    assert_string_equal(layout.station[1].name, "m001");
    assert_near(layout.station[1].itrf_m[2], -3239100.1, 0);
    assert_near(layout.longitude_rad / DEG, 21.44, 0.01);
    assert_near(layout.latitude_rad / DEG, -30.71, 0.01);
    msi_layout_free(&layout);
    write_text(path, "1 2 3 4 a\n1 2 three 4 b\n");
    assert_int_equal(msi_layout_read(&layout, path), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "line 2"));
    write_text(path, "1 2 3 4 a\n");
    assert_int_equal(msi_layout_read(&layout, path), MSI_EINPUT);
    unlink(path);
    assert_int_equal(msi_layout_read(&layout, path), MSI_EINPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(visibilities_are_exact),
        cmocka_unit_test(far_sources_keep_their_phase),
        cmocka_unit_test(refusals),
        cmocka_unit_test(uvw_of_known_baselines),
        cmocka_unit_test(phases_are_path_differences),
        cmocka_unit_test(sidereal_time),
        cmocka_unit_test(layouts),
        cmocka_unit_test(layout_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
