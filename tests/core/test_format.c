/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests formatted quantities: the unit suits the value, 60 seconds never appear, plurals are right. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/units.h"
#include "core/types.h"

static const double ARCSEC = MSI_PI / 648000;

static void test_angles(void **state)
{
    (void)state;
    char text[MSI_FORMAT_SIZE];
    const struct {
        double arcsec;
        const char *want;
    } cases[] = {{2e-5, "20 uas"},    {1e-3, "1 mas"},       {0.02, "20 mas"},    {1, "1 arcsec"},
                 {75, "1.25 arcmin"}, {59.9, "59.9 arcsec"}, {3600, "1 deg"},     {76800, "21.33 deg"},
                 {0, "0 uas"},        {-2, "-2 arcsec"},     {1e-9, "0.001 uas"}, {NAN, "nan uas"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(msi_format_angle(text, cases[i].arcsec * ARCSEC), cases[i].want);
}

static void test_frequencies_and_durations(void **state)
{
    (void)state;
    char text[MSI_FORMAT_SIZE];
    assert_string_equal(msi_freq_unit(1.4e9).name, "GHz");
    assert_string_equal(msi_freq_unit(138.9e6).name, "MHz");
    assert_string_equal(msi_freq_unit(40e3).name, "kHz");
    assert_string_equal(msi_freq_unit(0.5).name, "Hz");
    assert_string_equal(msi_format_duration(text, 12), "12 s");
    assert_string_equal(msi_format_duration(text, 112), "1.867 min");
    assert_string_equal(msi_format_duration(text, 5400), "1.5 h");
    assert_string_equal(msi_format_duration(text, 3 * 86400), "3 days");
    assert_string_equal(msi_format_estimate(text, 0.0767), "0.08 s");
    assert_string_equal(msi_format_estimate(text, 0.2934), "0.3 s");
    assert_string_equal(msi_format_estimate(text, 12.4), "12 s");
    assert_string_equal(msi_format_estimate(text, 112), "1.9 min");
}

static void test_directions(void **state)
{
    (void)state;
    char text[MSI_FORMAT_SIZE];
    const double degree = MSI_PI / 180;
    const struct {
        double ra_deg, dec_deg;
        const char *want;
    } cases[] = {{126.02916666666667, -42.996666666666667, "08h24m07.00s -42d59m48.0s"},
                 {0, 0, "00h00m00.00s +00d00m00.0s"},
                 {-15, -0.001, "23h00m00.00s -00d00m03.6s"},
                 {359.9999999, 89.9999999, "00h00m00.00s +90d00m00.0s"},
                 {NAN, 0, "?"},
                 {0, INFINITY, "?"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(msi_format_direction(text, cases[i].ra_deg * degree, cases[i].dec_deg * degree),
                            cases[i].want);
}

static void test_dates(void **state)
{
    (void)state;
    char text[MSI_FORMAT_SIZE];
    assert_string_equal(msi_format_date(text, 40587 * 86400.0), "1970-01-01 00:00:00");
    assert_string_equal(msi_format_date(text, 56351 * 86400.0 + 86399.6), "2013-03-01 00:00:00");
    assert_string_equal(msi_format_date(text, 0), "1858-11-17 00:00:00");
    assert_string_equal(msi_format_date(text, 1e30), "?");
    assert_string_equal(msi_format_date(text, NAN), "?");
}

static void test_plural(void **state)
{
    (void)state;
    assert_string_equal(msi_plural(0), "s");
    assert_string_equal(msi_plural(1), "");
    assert_string_equal(msi_plural(2), "s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_angles),     cmocka_unit_test(test_frequencies_and_durations),
        cmocka_unit_test(test_directions), cmocka_unit_test(test_dates),
        cmocka_unit_test(test_plural),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
