/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tests models of primary beams: published values, widths, limits, the choice of a model, classes of dishes, errors.
 *
 * Printed values come from other programs (katbeam for MeerKAT) or from the published polynomials evaluated in another
 * language. The tolerance is half a unit of the last printed digit, plus 2 % of it.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/pb/pb_model.h"
#include "src/pb/pb_tables.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const double DEG = MSI_PI / 180, ARCMIN = MSI_PI / 10800, ARCSEC = MSI_PI / 648000;

static char note[MSI_PB_NOTE];

static int make(msi_pb_model **m, const char *word, const char *telescope, double low_mhz, double high_mhz)
{
    const double diameter_m = 0;
    const char *const name = "A1";
    const msi_pb_set set = {.telescope = telescope,
                            .low_hz = 1e6 * low_mhz,
                            .high_hz = 1e6 * high_mhz,
                            .n_antenna = 1,
                            .diameter_m = &diameter_m,
                            .name = &name};
    return msi_pb_model_make(m, word, &set, note);
}

static msi_pb_model *made(const char *word, const char *telescope, double low_mhz, double high_mhz)
{
    msi_pb_model *m;
    if (make(&m, word, telescope, low_mhz, high_mhz) != MSI_OK) fail_msg("%s: %s", word, msi_error_get());
    return m;
}

static void check(const char *what, double at, double got, double printed, double digit)
{
    if (!(fabs(got - printed) <= 0.52 * digit)) fail_msg("%s at %g: %.9g, printed %.9g", what, at, got, printed);
}

/* Evaluate a diagonal model at offsets in radians. */
static void voltages(double v[2], const msi_pb_model *m, double mhz, double x_rad, double y_rad)
{
    msi_c64 j[4];
    msi_pb_model_jones(m, 0, 1e6 * mhz, &(msi_pb_direction){.x_rad = x_rad, .y_rad = y_rad}, j);
    assert_true(j[1].re == 0 && j[1].im == 0 && j[2].re == 0 && j[2].im == 0 && j[0].im == 0 && j[3].im == 0);
    v[0] = j[0].re;
    v[1] = j[3].re;
}

static double power(const msi_pb_model *m, double mhz, double x_rad, double y_rad)
{
    double v[2];
    voltages(v, m, mhz, x_rad, y_rad);
    return 0.5 * (v[0] * v[0] + v[1] * v[1]);
}

/* ---- MeerKAT ---- */

static void meerkat_equals_katbeam(void **state)
{
    (void)state;
    static const double at[7][2] = {{0, 0}, {.25, 0}, {0, .25}, {.5, 0}, {0, .5}, {.3, .4}, {1, 0}},
                        at_s[5][2] = {{0, 0}, {.2, 0}, {0, .2}, {.4, 0}, {.3, .3}};
    static const struct {
        double middle_mhz, mhz, printed[7];
        const char *name;
    } rows[] = {
        {816, 550, {.9997, .975887, .982245, .908032, .923723, .919112, .676134}, "MeerKAT UHF"},
        {816, 816, {.999935, .946304, .947653, .799894, .809927, .805504, .390851}, "MeerKAT UHF"},
        {816, 1050, {.999859, .920044, .917664, .710872, .714016, .711832, .226284}, "MeerKAT UHF"},
        {1284, 900, {.999832, .93857, .94905, .773812, .799534, .791811, .337119}, "MeerKAT L"},
        {1284, 1278, {.999935, .869503, .875992, .5617, .585127, .575864, .065814}, "MeerKAT L"},
        {1284, 1670, {.999496, .810311, .828968, .413207, .448271, .436514, .007496}, "MeerKAT L"},
        {2600, 1800, {.999797, .871418, .887907, .566987, .546628}, "MeerKAT S"},
        {2600, 2425, {.999951, .787831, .80092, .363078, .330044}, "MeerKAT S"},
        {2600, 3275, {.999736, .640505, .650188, .130508, .102369}, "MeerKAT S"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        msi_pb_model *m = made("auto", "MeerKAT", rows[i].middle_mhz - 40, rows[i].middle_mhz + 40);
        const int is_s = rows[i].middle_mhz > 2000;
        assert_string_equal(msi_pb_model_name(m), rows[i].name);
        assert_true(msi_pb_model_mount(m) == MSI_PB_ALTAZ && !msi_pb_model_is_scalar(m));
        for (int k = 0; k < (is_s ? 5 : 7); k++) {
            const double *p = is_s ? at_s[k] : at[k];
            check(rows[i].name, rows[i].mhz, power(m, rows[i].mhz, p[0] * DEG, p[1] * DEG), rows[i].printed[k], 1e-6);
        }
        msi_pb_model_free(m);
    }
    static const double hh_vv[][4] = {
        {.5, 0, .750051, .748882}, {0, .5, .767562, .762301}, {.3, .4, .761263, .756444}, {-.3, .4, .761052, .756182}};
    msi_pb_model *m = made("meerkat", "other", 856, 1712);
    for (size_t i = 0; i < COUNT(hh_vv); i++) {
        double v[2];
        voltages(v, m, 1278, hh_vv[i][0] * DEG, hh_vv[i][1] * DEG);
        check("H", 1278, v[0], hh_vv[i][2], 1e-6);
        check("V", 1278, v[1], hh_vv[i][3], 1e-6);
    }
    msi_pb_model_free(m);
}

/* rho = 1/2, where both parts of the formula are 0, is about 0.42 of the full width: the voltage is smooth there. */
static void cosine_taper_is_smooth(void **state)
{
    (void)state;
    msi_pb_model *m = made("meerkat", "", 900, 1600);
    /* Row of 1200 MHz, feed H: squint y is 0, so that the distance from its centre is along x. */
    const double centre = -0.05 * ARCMIN, r = 0.5 / 1.1889647809329453 * 70.81 * ARCMIN;
    double v[2];
    for (double e = -1e-3; e <= 1.01e-3; e += 1e-4) {
        voltages(v, m, 1200, centre + r * (1 + e), 0);
        /* cos(pi rho) / (1 - 4 rho^2) = pi/4 (1 - e'), e' = rho - 1/2, to second order in e' = e/2. */
        assert_true(fabs(v[0] - MSI_PI / 4 * (1 - e / 2)) < 1e-6);
    }
    msi_pb_model_free(m);
}

static void meerkat_has_a_width_and_a_limit(void **state)
{
    (void)state;
    msi_pb_model *m = made("meerkat", "", 900, 1600);
    for (double mhz = 860; mhz < 1710; mhz += 33) {
        const double width = msi_pb_model_width(m, 0, 1e6 * mhz), limit = msi_pb_model_limit(m, 0, 1e6 * mhz);
        int beyond_null = 0;
        /* The table's widths are those of both axes and feeds, which differ by 5 % from their mean. */
        assert_true(fabs(power(m, mhz, width / 2, 0) - 0.5) < 0.05 && fabs(power(m, mhz, 0, width / 2) - 0.5) < 0.05);
        for (int i = 0; i < 360; i++) {
            double v[2];
            const double x = cos(i * DEG), y = sin(i * DEG);
            voltages(v, m, mhz, 0.999 * limit * x, 0.999 * limit * y);
            assert_true(v[0] > 0 && v[1] > 0);
            voltages(v, m, mhz, 1.03 * limit * x, 1.03 * limit * y);
            beyond_null += v[0] < 0 || v[1] < 0;
        }
        assert_true(beyond_null > 0);
    }
    msi_pb_model_free(m);
}

static void meerkat_band_follows_the_middle(void **state)
{
    (void)state;
    static const struct {
        double low_mhz, high_mhz;
        const char *name; /* NULL: refused */
        int is_outside;   /* of the table */
    } cases[] = {
        {544, 1088, "MeerKAT UHF", 1}, {600, 1000, "MeerKAT UHF", 0}, {870, 1010, "MeerKAT UHF", 0},
        {900, 1060, "MeerKAT L", 0},   {856, 1712, "MeerKAT L", 1},   {1750, 2625, "MeerKAT S", 0},
        {2625, 3500, "MeerKAT S", 1},  {3400, 3670, "MeerKAT S", 1},  {520, 600, "MeerKAT UHF", 1},
        {500, 600, NULL, 0},           {500, 1712, NULL, 0},          {3500, 3700, NULL, 0},
        {8000, 9000, NULL, 0},         {856, 2000, NULL, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        msi_pb_model *m;
        const int rc = make(&m, "auto", "MEERKAT", cases[i].low_mhz, cases[i].high_mhz);
        if (!cases[i].name) {
            assert_int_equal(rc, MSI_EINPUT);
            assert_null(m);
            assert_non_null(strstr(msi_error_get(), "UHF (544 to 1088 MHz)"));
            continue;
        }
        assert_int_equal(rc, MSI_OK);
        assert_string_equal(msi_pb_model_name(m), cases[i].name);
        assert_true((strstr(note, "extend beyond") != NULL) == cases[i].is_outside);
        msi_pb_model_free(m);
    }
    /* Values are held beyond the table. */
    msi_pb_model *m = made("meerkat", "", 856, 1712);
    assert_true(power(m, 900, 1e-2, 2e-3) == power(m, 856, 1e-2, 2e-3));
    assert_true(power(m, 1650, 1e-2, 2e-3) == power(m, 1712, 1e-2, 2e-3));
    msi_pb_model_free(m);
}

/* ---- Polynomials ---- */

/* Compare powers at x = arcmin GHz. */
static void check_powers(const msi_pb_model *m, double mhz, int n, const double *x, const double *printed)
{
    for (int i = 0; i < n; i++) {
        const double angle = x[i] * ARCMIN / (1e-3 * mhz);
        check(msi_pb_model_name(m), mhz, power(m, mhz, 0.6 * angle, -0.8 * angle), printed[i], 1e-5);
    }
}

static double width_arcmin(const msi_pb_model *m, double mhz)
{
    return msi_pb_model_width(m, 0, 1e6 * mhz) / ARCMIN;
}

static void vla_has_its_powers(void **state)
{
    (void)state;
    static const double x[] = {5, 10, 15, 20, 25, 30, 35};
    static const struct {
        double mhz, printed[7];
    } rows[] = {
        {328, {.97576, .90616, .80004, .67061, .53333, .40335, .29287}},
        {1424, {.96396, .86185, .71063, .53517, .36306, .21742, .10766}},
        {3052, {.96383, .86118, .70874, .53112, .35607, .20782, .09842}},
        {5052, {.96643, .87078, .72747, .55805, .38745, .23875, .12644}},
        {8564, {.96566, .86772, .72079, .5468, .37159, .21993, .10918}},
        {10052, {.96494, .86522, .71639, .54168, .36788, .21965, .11219}},
        {15052, {.96541, .86703, .72023, .54781, .3759, .22809, .11795}},
        {43052, {.96476, .86446, .71459, .53837, .36287, .2136, .10748}},
    };
    /* Roots of the printed polynomials, by numpy. */
    static const double width[][2] = {{328, 52.4703},   {1424, 41.9786},  {3052, 41.7237},
                                      {5052, 43.3378},  {8564, 42.6168},  {15052, 42.7147},
                                      {21052, 42.1790}, {34052, 42.2153}, {43052, 42.1298}};
    msi_pb_model *m = made("auto", "EVLA", 8100, 8900);
    assert_string_equal(msi_pb_model_name(m), "VLA X");
    assert_true(msi_pb_model_is_scalar(m) && msi_pb_model_mount(m) == MSI_PB_EQUATORIAL);
    for (size_t i = 0; i < COUNT(rows); i++) check_powers(m, rows[i].mhz, 7, x, rows[i].printed);
    for (size_t i = 0; i < COUNT(width); i++)
        check("VLA width", width[i][0], 1e-3 * width[i][0] * width_arcmin(m, width[i][0]), width[i][1], 1e-4);
    /* The row of 11052 MHz has the coefficients of 10820 and 10948, not of 10052. */
    const double angle = 20 * ARCMIN / 11.052;
    assert_true(fabs(power(m, 11052, angle, 0) - (1 - .5604 + .11392 - .008384)) < 5e-4);
    msi_pb_model_free(m);
}

static void vla_takes_the_nearest_row_to_its_limit(void **state)
{
    (void)state;
    msi_pb_model *m = made("vla", "", 8100, 8900);
    int n = 0;
    for (int b = 0; b < msi_pb_vla.n_band; b++)
        for (int i = 0; i < msi_pb_vla.band[b].n_row; i++, n++) {
            const double mhz = msi_pb_vla.band[b].row[i].mhz;
            const double limit_x = msi_pb_model_limit(m, 0, 1e6 * mhz) / ARCMIN * 1e-3 * mhz;
            const double p = power(m, mhz, 0, limit_x * ARCMIN / (1e-3 * mhz));
            /* Above P band all rows reach 0.05 between 37.15 and 40.72; in P band some turn before, or are above it at
             * the largest radius. */
            if (mhz > 1000)
                assert_true(limit_x > 37.14 && limit_x < 40.73 && fabs(p - 0.05) < 1e-9);
            else
                assert_true(limit_x > 46 && limit_x < 58 + 1e-9 && p > 0.05 - 1e-9 && p < 0.15);
        }
    assert_int_equal(n, 236);
    /* Rows 1424 and 1488; the real frequency scales x. Between bands: 18052 has the row 17948. */
    const double at = 25 * ARCMIN;
    assert_true(fabs(power(m, 1455, at / 1.455, 0) - power(m, 1424, at / 1.424, 0)) < 1e-14);
    assert_true(fabs(power(m, 1457, at / 1.457, 0) - power(m, 1488, at / 1.488, 0)) < 1e-14);
    assert_true(fabs(power(m, 1457, at / 1.457, 0) - power(m, 1424, at / 1.424, 0)) > 1e-4);
    assert_true(fabs(power(m, 18052, at / 18.052, 0) - power(m, 17948, at / 17.948, 0)) < 1e-14);
    assert_true(fabs(power(m, 18552, at / 18.552, 0) - power(m, 19052, at / 19.052, 0)) < 1e-14);
    assert_true(fabs(power(m, 48000, at / 48, 0) - power(m, 43948, at / 43.948, 0)) < 1e-14);
    msi_pb_model_free(m);
}

static void atca_has_its_powers(void **state)
{
    (void)state;
    static const double x[] = {5, 10, 15, 20, 25, 30, 40};
    static const double at_1332[] = {.97335, .89386, .76985, .62162, .4688, .32243, .10421};
    static const double at_2100[] = {.97573, .90536, .79692, .66365, .52064, .38164, .16251};
    static const double width[][2] = {{1332, 36.0}, {1588, 31.3}, {1844, 27.7}, {2100, 24.5},
                                      {2356, 21.5}, {2612, 19.2}, {2868, 17.2}};
    msi_pb_model *m = made("auto", "ATCA", 1076, 3124);
    assert_string_equal(msi_pb_model_name(m), "ATCA 16 cm");
    assert_true(msi_pb_model_is_scalar(m));
    check_powers(m, 1332, 7, x, at_1332);
    check_powers(m, 2100, 7, x, at_2100);
    for (size_t i = 0; i < COUNT(width); i++)
        check("ATCA width", width[i][0], width_arcmin(m, width[i][0]), width[i][1], 0.1);
    /* A quarter of the way from 1332 to 1588 MHz, beams are interpolated at one x. */
    const double at = 30 * ARCMIN, first = power(m, 1332, at / 1.332, 0), second = power(m, 1588, at / 1.588, 0);
    assert_true(fabs(power(m, 1396, at / 1.396, 0) - (0.75 * first + 0.25 * second)) < 1e-14);
    assert_true(fabs(first - second) > 0.01);
    assert_true(fabs(power(m, 1100, at / 1.1, 0) - first) < 1e-14);
    /* The other bands at x = 20: 1 / (1 + 400 a + 16e4 b + 64e6 c + 256e8 d), to 5 digits. */
    static const double other[][2] = {
        {5500, .62731}, {9000, .65194}, {17000, .64378}, {33000, .64378}, {90000, .64516}};
    for (size_t i = 0; i < COUNT(other); i++) check_powers(m, other[i][0], 1, (double[]){20}, &other[i][1]);
    for (double mhz = 1100; mhz < 120000; mhz *= 1.07) {
        const double limit = msi_pb_model_limit(m, 0, 1e6 * mhz);
        assert_true(fabs(limit / ARCMIN * 1e-3 * mhz - 53) < 1e-9);
        for (int i = 0; i < 53; i++)
            assert_true(power(m, mhz, limit * i / 53, 0) > power(m, mhz, limit * (i + 1) / 53, 0));
        assert_true(power(m, mhz, limit, 0) > 0 && power(m, mhz, limit, 0) < 0.2);
    }
    msi_pb_model_free(m);
}

/* Sets from before the upgrades of receivers have the beams of the old ones. */
static void old_sets_have_old_beams(void **state)
{
    (void)state;
    static const struct {
        const char *telescope, *name;
        double mhz, first_mjd, last_mjd, power; /* at x = 20, summed by hand from the coefficients */
    } cases[] = {
        {"VLA", "VLA before 2010, U", 14965, 50383, 50384, 1 - .522 + .09848 - .00659},
        {"VLA", "VLA before 2010, L", 1465, 50383, 50384, 1 - .5372 + .10526 - .00759},
        {"EVLA", "VLA Ku", 14948, 50383, 55300, 1 - .5572 + .11456 - .00877},
        {"VLA", "VLA Ku", 14948, 0, 0, 1 - .5572 + .11456 - .00877},
        {"ATCA", "ATCA before CABB, L", 1400, 50000, 50001, 1 / (1 + .3596 + .344 - .14272 + .039936)},
        {"ATCA", "ATCA before CABB, S", 2400, 50000, 50001, 1 / (1 + .408 + .15168 - .023552 + .0124928)},
        {"ATCA", "ATCA 16 cm", 2100, 55000, 55001, .66365},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double x = 20 * ARCMIN / (1e-3 * cases[i].mhz);
        const msi_pb_set set = {.telescope = cases[i].telescope,
                                .low_hz = 1e6 * cases[i].mhz,
                                .high_hz = 1e6 * cases[i].mhz,
                                .first_s = 86400 * cases[i].first_mjd,
                                .last_s = 86400 * cases[i].last_mjd};
        msi_pb_model *m;
        if (msi_pb_model_make(&m, "auto", &set, note) != MSI_OK) fail_msg("%s", msi_error_get());
        assert_string_equal(msi_pb_model_name(m), cases[i].name);
        check(cases[i].name, cases[i].mhz, power(m, cases[i].mhz, 0, x), cases[i].power, 1e-5);
        msi_pb_model_free(m);
    }
}

static void gmrt_has_its_powers(void **state)
{
    (void)state;
    static const double x[] = {5, 10, 15, 20, 25, 30};
    static const struct {
        double low_mhz, high_mhz, mhz, half_x, width_arcmin, printed[6];
    } rows[] = {
        {125, 250, 187.5, 14.58, 155.5, {.9252, .72816, .47908, .25905, .12014, .05731}},
        {250, 500, 375, 14.79, 78.9, {.92858, .73778, .48918, .25862, .10444, .03989}},
        {550, 850, 700, 14.11, 40.3, {.92105, .71382, .45393, .22788, .08973, .03262}},
        {1050, 1450, 1250, 15.79, 25.3, {.93635, .76489, .53705, .31712, .15676, .07241}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char name[32];
        msi_pb_model *m = made("auto", "GMRT", rows[i].low_mhz, rows[i].high_mhz);
        snprintf(name, sizeof name, "GMRT band %zu", i + 2);
        assert_string_equal(msi_pb_model_name(m), name);
        check_powers(m, rows[i].mhz, 6, x, rows[i].printed);
        check_powers(m, rows[i].low_mhz + 1, 6, x, rows[i].printed);
        check_powers(m, rows[i].high_mhz - 1, 6, x, rows[i].printed);
        check("GMRT width", rows[i].mhz, width_arcmin(m, rows[i].mhz), rows[i].width_arcmin, 0.1);
        check("GMRT half", rows[i].mhz, width_arcmin(m, rows[i].mhz) * 0.5e-3 * rows[i].mhz, rows[i].half_x, 0.01);
        const double limit = msi_pb_model_limit(m, 0, 1e6 * rows[i].mhz);
        assert_true(fabs(power(m, rows[i].mhz, limit, 0) - 0.05) < 1e-9);
        msi_pb_model_free(m);
    }
}

static void polynomials_are_given_by_hand(void **state)
{
    (void)state;
    /* Of MeerKAT, by Mauch et al. 2020: half power at 43.80, a minimum of 0.133 at 77.6. */
    msi_pb_model *m = made("poly:-.3514e-3,.5600e-7,-.0474e-10,.00078e-13,.00019e-16", "", 1, 1e6);
    check("Mauch", 1278, width_arcmin(m, 1278), 68.5, 0.1);
    check("Mauch", 1000, width_arcmin(m, 1000) / 2, 43.80, 0.01);
    const double minimum = msi_pb_model_limit(m, 0, 1e9);
    check("Mauch", 1000, minimum / ARCMIN, 77.6, 0.1);
    check("Mauch", 1000, power(m, 1000, minimum, 0), .133, 1e-3);
    assert_true(msi_pb_model_is_scalar(m) && msi_pb_model_mount(m) == MSI_PB_EQUATORIAL);
    msi_pb_model_free(m);
    /* Two fits in use for MeerKAT; the first has a minimum of 0.017, so that it ends at power 0.05. */
    m = made("poly:-.3409306414e-3,.5002777932e-7,-.0406048877e-10,.0017837276e-13,-.0000297565e-16", "", 1, 1e6);
    check("UHF fit", 1000, width_arcmin(m, 1000), 88.05, 0.01);
    assert_true(fabs(power(m, 800, 0, msi_pb_model_limit(m, 0, 800e6)) - 0.05) < 1e-9);
    msi_pb_model_free(m);
    m = made("poly:-.2829793167e-3,.3462301721e-7,-.0237871692e-10,.0009189657e-13,-.0000148312e-16", "", 1, 1e6);
    check("S fit", 1000, width_arcmin(m, 1000), 96.69, 0.01);
    msi_pb_model_free(m);
    /* 1 - x^2 / 200 at x = 10; beyond its zero the power is 0. */
    m = made("poly:-5e-3", "", 1, 1e6);
    check("parabola", 500, width_arcmin(m, 500), 40, 1e-6);
    assert_true(fabs(power(m, 500, 20 * ARCMIN, 0) - 0.5) < 1e-12 && power(m, 500, 40 * ARCMIN, 0) == 0);
    msi_pb_model_free(m);
}

/* ---- Airy discs and Gaussians ---- */

static void airy_discs_have_their_widths(void **state)
{
    (void)state;
    /* Of an open disc: half power at pi D s / lambda = 1.616340, the first zero of J1 at 3.831706. */
    msi_pb_model *m = made("airy:25", "any", 1, 1e6);
    for (double ghz = 0.3; ghz < 50; ghz *= 2) {
        const double turns = 25 * ghz * 1e9 / MSI_SPEED_OF_LIGHT;
        assert_true(fabs(sin(msi_pb_model_width(m, 0, 1e9 * ghz) / 2) * MSI_PI * turns - 1.616340) < 1e-6);
        assert_true(fabs(sin(msi_pb_model_limit(m, 0, 1e9 * ghz)) * MSI_PI * turns - 3.831706) < 1e-5);
    }
    double v[2]; /* the first sidelobe is negative, of power 0.0175 */
    voltages(v, m, 1000, 5.1356 / (MSI_PI * 25 * 1e9 / MSI_SPEED_OF_LIGHT), 0);
    assert_true(v[0] < 0 && v[0] == v[1] && fabs(v[0] * v[0] - 0.0175) < 1e-4);
    assert_true(power(m, 1000, 0, 0) == 1);
    /* A dish of a tenth of the wavelength: the whole hemisphere and beyond is within its main lobe. */
    assert_true(msi_pb_model_limit(m, 0, 1e6) == MSI_PI);
    assert_string_equal(msi_pb_model_name(m), "Airy 25 m");
    msi_pb_model_free(m);
}

static void alma_has_two_kinds_of_dishes(void **state)
{
    (void)state;
    static const double p12[] = {.92801, .73729, .49134, .26236, .10081, .01981};
    static const double p7[] = {.90196, .65407, .36523, .14025, .02528};
    static const double diameter_m[] = {12, 7, 0, 0, 12.01, 6.9};
    static const char *const name[] = {"DA41", "CM02", "CM03", "DV10", "PM01", "CM04"};
    static const uint8_t expected[] = {1, 0, 0, 1, 1, 0};
    msi_pb_set set = {
        .telescope = "alma", .low_hz = 99e9, .high_hz = 101e9, .n_antenna = 6, .diameter_m = diameter_m, .name = name};
    msi_pb_model *m;
    const uint8_t *class_of;
    assert_int_equal(msi_pb_model_make(&m, "auto", &set, note), MSI_OK);
    assert_int_equal(msi_pb_model_classes(m, &class_of), 2);
    assert_memory_equal(class_of, expected, sizeof expected);
    assert_non_null(strstr(note, "3 antennas of 6.25 m"));
    assert_non_null(strstr(note, "3 antennas of 10.7 m"));
    for (int id = 0; id < 2; id++)
        for (int i = 0; i < (id ? 6 : 5); i++) {
            msi_c64 j[4];
            const double angle = (i + 1) * (id ? 10 : 20) * ARCSEC;
            msi_pb_model_jones(m, id, 100e9, &(msi_pb_direction){.x_rad = 0, .y_rad = angle}, j);
            check("ALMA", angle / ARCSEC, j[0].re * j[0].re, id ? p12[i] : p7[i], 1e-5);
        }
    check("7 m", 100, msi_pb_model_width(m, 0, 100e9) / ARCSEC, 101.0, 0.1);
    check("12 m", 100, msi_pb_model_width(m, 1, 100e9) / ARCSEC, 59.30, 0.01);
    msi_pb_model_free(m);
    /* One kind alone is class 0. */
    set.n_antenna = 1;
    assert_int_equal(msi_pb_model_make(&m, "alma", &set, note), MSI_OK);
    assert_int_equal(msi_pb_model_classes(m, &class_of), 1);
    assert_int_equal(class_of[0], 0);
    check("12 m", 100, msi_pb_model_width(m, 0, 100e9) / ARCSEC, 59.30, 0.01);
    msi_pb_model_free(m);
    set.diameter_m = (double[]){25};
    assert_int_equal(msi_pb_model_make(&m, "alma", &set, note), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "DA41"));
    assert_non_null(strstr(msi_error_get(), "25 m"));
}

static void ska_mid_has_dishes_of_meerkat(void **state)
{
    (void)state;
    static const double diameter_m[] = {15, 13.5, 0, 0};
    static const char *const name[] = {"SKA001", "M000", "SKA002", "m001"};
    const msi_pb_set set = {.telescope = "SKA_MID",
                            .low_hz = 1e9,
                            .high_hz = 1.1e9,
                            .n_antenna = 4,
                            .diameter_m = diameter_m,
                            .name = name};
    msi_pb_model *m;
    const uint8_t *class_of;
    assert_int_equal(msi_pb_model_make(&m, "auto", &set, note), MSI_OK);
    assert_int_equal(msi_pb_model_classes(m, &class_of), 2);
    assert_memory_equal(class_of, ((uint8_t[]){1, 0, 1, 0}), 4);
    assert_non_null(strstr(note, "Airy"));
    for (int id = 0; id < 2; id++) {
        const double half =
            MSI_PI * (id ? 15 : 13.5) * 1e9 / MSI_SPEED_OF_LIGHT * sin(msi_pb_model_width(m, id, 1e9) / 2);
        assert_true(fabs(half - 1.616340) < 1e-6);
    }
    msi_pb_model_free(m);
}

static void gaussians_scale_with_frequency(void **state)
{
    (void)state;
    msi_pb_model *m = made("gauss:60amin@1.4GHz", "", 1, 1e6);
    check("gauss", 1400, width_arcmin(m, 1400), 60, 1e-8);
    check("gauss", 700, width_arcmin(m, 700), 120, 1e-8);
    assert_true(fabs(power(m, 1400, 18 * ARCMIN, 24 * ARCMIN) - 0.5) < 1e-12);
    assert_true(fabs(power(m, 1400, 0, 60 * ARCMIN) - 1. / 16) < 1e-12);
    assert_true(msi_pb_model_limit(m, 0, 1.4e9) == MSI_PI && msi_pb_model_is_scalar(m));
    msi_pb_model_free(m);
    m = made("auto", "askap", 800, 1100);
    check("ASKAP", 943, msi_pb_model_width(m, 0, 943e6), 1.09 * 299.792458 / 943 / 12, 1e-9);
    assert_string_equal(msi_pb_model_name(m), "ASKAP Gaussian");
    assert_non_null(strstr(note, "fallback"));
    msi_pb_model_free(m);
}

/* ---- MWA ---- */

static const int32_t sweet_spot[16] = {3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0};

static msi_pb_model *made_mwa(const int32_t delay[16], double mhz)
{
    msi_pb_model *m;
    const msi_pb_set set = {
        .telescope = "MWA", .low_hz = 1e6 * mhz, .high_hz = 1e6 * mhz, .n_antenna = 0, .delay = delay};
    if (msi_pb_model_make(&m, "auto", &set, note) != MSI_OK) fail_msg("%s", msi_error_get());
    assert_true(msi_pb_model_mount(m) == MSI_PB_FIXED && !msi_pb_model_is_scalar(m));
    assert_true(msi_pb_model_limit(m, 0, 1e6 * mhz) == MSI_PI);
    return m;
}

static void xx_yy(double out[2], const msi_pb_model *m, double mhz, double azimuth_deg, double zenith_deg)
{
    msi_c64 j[4];
    msi_pb_model_jones(m, 0, 1e6 * mhz,
                       &(msi_pb_direction){.azimuth_rad = azimuth_deg * DEG, .zenith_rad = zenith_deg * DEG}, j);
    for (int k = 0; k < 2; k++)
        out[k] = j[2 * k].re * j[2 * k].re + j[2 * k].im * j[2 * k].im + j[2 * k + 1].re * j[2 * k + 1].re +
                 j[2 * k + 1].im * j[2 * k + 1].im;
}

static void mwa_tiles_are_steered(void **state)
{
    (void)state;
    static const int32_t east[16] = {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6};
    static const double printed[8] = {-.0084149, .0884273,  .0003888, -.0040860,
                                      .0002144,  -.0022529, .0152616, -.1603748};
    /* Printed with 2.998e8 m/s for the speed of light, which changes J by 5.2e-5 of its length: 8.3e-6. */
    msi_pb_model *m = made_mwa(east, 180);
    msi_c64 j[4];
    msi_pb_model_jones(m, 0, 180e6,
                       &(msi_pb_direction){.azimuth_rad = 91.459449355 * DEG, .zenith_rad = 56.5383409732 * DEG}, j);
    for (int k = 0; k < 4; k++) {
        assert_true(fabs(j[k].re - printed[2 * k]) < 1e-5);
        assert_true(fabs(j[k].im - printed[2 * k + 1]) < 1e-5);
    }
    msi_pb_model_free(m);
    static const double at[][4] = {
        {0, 6.8, .98970, .97582}, {180, 6.8, .38801, .38257}, {0, 20, .40073, .35385}, {90, 20, .06400, .07248}};
    m = made_mwa(sweet_spot, 150);
    for (size_t i = 0; i < COUNT(at); i++) {
        double p[2];
        xx_yy(p, m, 150, at[i][0], at[i][1]);
        check("XX", at[i][0], p[0], at[i][2], 1e-5);
        check("YY", at[i][0], p[1], at[i][3], 1e-5);
    }
    /* The row of dipoles has half power at half the width. */
    double p[2], peak[2];
    xx_yy(peak, m, 150, 0, 6.8);
    xx_yy(p, m, 150, 0, 6.8 + msi_pb_model_width(m, 0, 150e6) / 2 / DEG);
    assert_true(p[0] / peak[0] > 0.4 && p[0] / peak[0] < 0.6);
    xx_yy(p, m, 150, 30, 90.1);
    assert_true(p[0] == 0 && p[1] == 0);
    msi_pb_model_free(m);
}

static void mwa_dipoles_may_be_off(void **state)
{
    (void)state;
    int32_t delay[16];
    double p[2];
    for (int k = 0; k < 16; k++) delay[k] = 32;
    delay[5] = 7;
    msi_pb_model *m = made_mwa(delay, 150);
    xx_yy(p, m, 150, 0, 0);
    assert_true(fabs(p[0] - 1. / 256) < 1e-12 && fabs(p[1] - 1. / 256) < 1e-12);
    msi_pb_model_free(m);
    for (int k = 0; k < 16; k++) delay[k] = 0;
    delay[3] = 32;
    m = made_mwa(delay, 150);
    xx_yy(p, m, 150, 0, 0);
    assert_true(fabs(p[0] - 225. / 256) < 1e-12);
    msi_pb_model_free(m);
}

/* ---- Words and errors ---- */

static void telescopes_choose_their_models(void **state)
{
    (void)state;
    static const struct {
        const char *telescope, *name;
        double mhz;
    } cases[] = {
        {"MeerKAT", "MeerKAT L", 1300},
        {"meerkat", "MeerKAT L", 1300},
        {"EVLA", "VLA L", 1400},
        {"VLA", "VLA C", 5000},
        {"ATCA", "ATCA X", 9000},
        {"atca", "ATCA K", 22000},
        {"GMRT", "GMRT band 4", 700},
        {"uGMRT", "GMRT band 3", 400},
        {"ALMA", "ALMA Airy", 1e5},
        {"ACA", "ALMA Airy", 1e5},
        {"ASKAP", "ASKAP Gaussian", 900},
        {"SKA-MID", "SKA-Mid Airy", 1000},
        {"SKA1_MID", "SKA-Mid Airy", 1000},
        {"MeerKAT+", "SKA-Mid Airy", 1000},
        {"SKA Mid", "SKA-Mid Airy", 1000},
        {"skamid", "SKA-Mid Airy", 1000},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        msi_pb_model *m = made("auto", cases[i].telescope, cases[i].mhz, cases[i].mhz);
        const uint8_t *class_of;
        assert_string_equal(msi_pb_model_name(m), cases[i].name);
        assert_int_equal(msi_pb_model_classes(m, &class_of), 1);
        assert_int_equal(class_of[0], 0);
        assert_true(strlen(note) > 10 && strlen(note) < MSI_PB_NOTE - 1);
        /* Every model is about 1 at its pointing, and half at half its width. */
        assert_true(fabs(power(m, cases[i].mhz, 0, 0) - 1) < 1e-3);
        assert_true(fabs(power(m, cases[i].mhz, msi_pb_model_width(m, 0, 1e6 * cases[i].mhz) / 2, 0) - 0.5) < 0.02);
        msi_pb_model_free(m);
    }
}

static void refuses(const char *word, const char *telescope, double low_mhz, double high_mhz, const char *first,
                    const char *second)
{
    msi_pb_model *m;
    if (make(&m, word, telescope, low_mhz, high_mhz) != MSI_EINPUT) fail_msg("%s of %s was taken", word, telescope);
    assert_null(m);
    if (!strstr(msi_error_get(), first) || !strstr(msi_error_get(), second))
        fail_msg("no '%s' or '%s' in: %s", first, second, msi_error_get());
}

static void errors_name_telescope_and_frequencies(void **state)
{
    (void)state;
    refuses("auto", "PARKES-3", 1400, 1400, "'PARKES-3'", "airy:25");
    refuses("auto", "", 1400, 1400, "''", "meerkat, vla");
    refuses("auto", "MeerKATs", 1400, 1400, "'MeerKATs'", "airy:25");
    msi_pb_model *none;
    const msi_pb_set vlba = {.telescope = "VLBA", .n_antenna = 2, .diameter_m = (double[]){25, 25}};
    assert_int_equal(msi_pb_model_make(&none, "auto", &vlba, note), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "'VLBA': give -pb airy:25, by its DISH_DIAMETER"));
    refuses("auto", "LOFAR", 150, 150, "LOFAR", "-pb off");
    refuses("auto", "SKA-LOW", 150, 150, "SKA-Low", "-pb off");
    refuses("auto", "OVRO_LWA", 50, 50, "OVRO-LWA", "-pb off");
    refuses("auto", "MWA", 150, 150, "MWA_TILE_POINTING", "delays");
    refuses("vla", "x", 600, 900, "600 to 900 MHz", "P (224 to 480 MHz), L (1000");
    refuses("vla", "x", 480, 900, "480 to 900 MHz", "L (1000");
    refuses("vla", "x", 700, 1100, "700 to 1100 MHz", "L (1000");
    refuses("vla", "x", 54, 86, "54 to 86 MHz", "VLA");
    refuses("vla", "x", 48000, 54000, "54000 MHz", "Q (39550 to 50000 MHz)");
    refuses("atca", "x", 13800, 14000, "14000 MHz", "K (15000");
    refuses("gmrt", "x", 900, 1000, "900 to 1000 MHz", "band 5 (1050 to 1450 MHz)");
    const int32_t off[16] = {32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32}, wrong[16] = {0, 33};
    msi_pb_set set = {.telescope = "MWA", .low_hz = 150e6, .high_hz = 180e6, .delay = off};
    msi_pb_model *m;
    assert_int_equal(msi_pb_model_make(&m, "auto", &set, note), MSI_EINPUT);
    set.delay = wrong;
    assert_int_equal(msi_pb_model_make(&m, "mwa-analytic", &set, note), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "33"));
    set.delay = sweet_spot;
    set.delays_differ = 1;
    assert_int_equal(msi_pb_model_make(&m, "auto", &set, note), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "split the set"));
    set.delays_differ = 0;
    set.high_hz = 400e6;
    assert_int_equal(msi_pb_model_make(&m, "mwa-analytic", &set, note), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "70 to 300 MHz"));
    /* 5 % beyond a band is taken, with a note. */
    m = made("vla", "", 490, 500);
    assert_non_null(strstr(note, "extend beyond"));
    msi_pb_model_free(m);
    m = made("gmrt", "", 530, 860);
    assert_non_null(strstr(note, "extend beyond"));
    msi_pb_model_free(m);
    m = made("gmrt", "", 550, 850);
    assert_null(strstr(note, "extend beyond"));
    msi_pb_model_free(m);
    msi_pb_model_free(NULL);
    assert_int_equal(msi_memory_in_use(), 0);
}

static void words_are_checked_without_a_set(void **state)
{
    (void)state;
    static const char *const right[] = {"lofar",
                                        "lofar:/folder",
                                        "auto",
                                        "off",
                                        "meerkat",
                                        "vla",
                                        "atca",
                                        "gmrt",
                                        "alma",
                                        "askap",
                                        "ska-mid",
                                        "mwa-analytic",
                                        "airy:25",
                                        "airy:12,0.75",
                                        "airy:1e2,0",
                                        "gauss:60amin@1.4GHz",
                                        "gauss:1deg@870e6",
                                        "poly:-1e-3",
                                        "poly:-1.3e-3,6.48e-7,-1.27e-10"};
    static const char *const wrong[] = {"",
                                        "VLA25",
                                        "airy",
                                        "airy:",
                                        "airy:0",
                                        "airy:-3",
                                        "airy:12,12",
                                        "airy:12,-1",
                                        "airy:12,1,1",
                                        "airy:12m",
                                        "airy:12,",
                                        "airy:nan",
                                        "airy:1e9",
                                        "airy:1e-5",
                                        "airy:1e300",
                                        "gauss:1e-9asec@1GHz",
                                        "gauss:179deg@1e300",
                                        "poly:-1e30",
                                        "poly:-1e-30",
                                        "poly:-1e300,-1e300",
                                        "poly:-1e-300",
                                        "poly:nan",
                                        "poly:-inf",
                                        "gauss:60amin",
                                        "gauss:60@1.4GHz",
                                        "gauss:@1.4GHz",
                                        "gauss:60amin@",
                                        "gauss:60amin@x",
                                        "gauss:0amin@1GHz",
                                        "gauss:-1deg@1GHz",
                                        "gauss:200deg@1GHz",
                                        "poly:",
                                        "poly:1e-3",
                                        "poly:0",
                                        "poly:-1e-3,1",
                                        "poly:-1e-3,,1",
                                        "poly:-1e-3,1e-6",
                                        "poly:-1,2,3,4,5,6",
                                        "poly:a",
                                        "lofar:",
                                        "lofar-hba",
                                        "offf"};
    for (size_t i = 0; i < COUNT(right); i++)
        if (msi_pb_model_check(right[i]) != MSI_OK) fail_msg("%s: %s", right[i], msi_error_get());
    for (size_t i = 0; i < COUNT(wrong); i++) {
        msi_pb_model *m;
        if (msi_pb_model_check(wrong[i]) != MSI_EUSAGE) fail_msg("%s was taken", wrong[i]);
        assert_true(strncmp(msi_error_get(), "-pb", 3) == 0);
        assert_int_equal(make(&m, wrong[i], "VLA", 1400, 1400), MSI_EUSAGE);
        assert_null(m);
    }
    assert_int_equal(msi_pb_model_check("banana"), MSI_EUSAGE);
    assert_non_null(
        strstr(msi_error_get(),
               "auto, off, meerkat, vla, atca, gmrt, alma, askap, ska-mid, mwa-analytic, vla-squint, lofar, airy:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(meerkat_equals_katbeam),
        cmocka_unit_test(cosine_taper_is_smooth),
        cmocka_unit_test(meerkat_has_a_width_and_a_limit),
        cmocka_unit_test(meerkat_band_follows_the_middle),
        cmocka_unit_test(vla_has_its_powers),
        cmocka_unit_test(vla_takes_the_nearest_row_to_its_limit),
        cmocka_unit_test(atca_has_its_powers),
        cmocka_unit_test(old_sets_have_old_beams),
        cmocka_unit_test(gmrt_has_its_powers),
        cmocka_unit_test(polynomials_are_given_by_hand),
        cmocka_unit_test(airy_discs_have_their_widths),
        cmocka_unit_test(alma_has_two_kinds_of_dishes),
        cmocka_unit_test(ska_mid_has_dishes_of_meerkat),
        cmocka_unit_test(gaussians_scale_with_frequency),
        cmocka_unit_test(mwa_tiles_are_steered),
        cmocka_unit_test(mwa_dipoles_may_be_off),
        cmocka_unit_test(telescopes_choose_their_models),
        cmocka_unit_test(errors_name_telescope_and_frequencies),
        cmocka_unit_test(words_are_checked_without_a_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
