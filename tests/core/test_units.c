/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests parsing of numbers, angles and sky coordinates. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "core/types.h"
#include "core/units.h"

#define DEG (MSI_PI / 180)

/* Tolerance: a few roundings of a double, of the decimal number, the unit, and sums of three terms. */
static const double RELATIVE = 8 * 2.220446049250313e-16;

typedef int parser(double *out, const char *what, const char *text);

static void check(parser *parse, const char *text, double expected)
{
    double value = NAN;
    if (parse(&value, "-x", text) != MSI_OK) fail_msg("%s was refused: %s", text, msi_error_get());
    if (!(fabs(value - expected) <= RELATIVE * fabs(expected)))
        fail_msg("%s became %.17g, not %.17g", text, value, expected);
}

static void refuse(parser *parse, const char *text)
{
    double value = 0;
    if (parse(&value, "-x", text) != MSI_EUSAGE) fail_msg("%s was taken as %.17g", text, value);
    if (strncmp(msi_error_get(), "-x ", 3) != 0) fail_msg("%s: the message names no option: %s", text, msi_error_get());
}

static void test_integer(void **state)
{
    (void)state;
    int64_t value;
    assert_int_equal(msi_parse_integer(&value, "-x", "9223372036854775807"), MSI_OK);
    assert_true(value == INT64_MAX);
    assert_int_equal(msi_parse_integer(&value, "-x", "-7"), MSI_OK);
    assert_true(value == -7);
    static const struct {
        const char *text;
        int64_t value;
    } exact[] = {{"1e5", 100000},
                 {"1E+6", 1000000},
                 {"-2.5e3", -2500},
                 {"-0.5e1", -5},
                 {"1.50e1", 15},
                 {"0e99999999999", 0},
                 {"9.223372036854775807e18", INT64_MAX},
                 {"0.0e0", 0},
                 {"-9223372036854775808e0", INT64_MIN}};
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        assert_int_equal(msi_parse_integer(&value, "-x", exact[i].text), MSI_OK);
        assert_true(value == exact[i].value);
    }
    static const char *const bad[] = {"",
                                      "-",
                                      "abc",
                                      "1x",
                                      " 1",
                                      "1 ",
                                      "1.5",
                                      "0x10",
                                      "9223372036854775808",
                                      "--1",
                                      "1e",
                                      "1e+",
                                      "1e-1",
                                      "1000e-3",
                                      "1.55e1",
                                      "e5",
                                      ".5e1",
                                      "1.e3",
                                      "1.0",
                                      "1e19",
                                      "1e400",
                                      "1e3.0",
                                      "1e 3",
                                      "1e--3",
                                      "1e3x",
                                      "2.5e99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(msi_parse_integer(&value, "-x", bad[i]), MSI_EUSAGE);
}

static void test_real(void **state)
{
    (void)state;
    check(msi_parse_real, "-0.5", -0.5);
    check(msi_parse_real, "1e-4", 1e-4);
    check(msi_parse_real, ".5", 0.5);
    static const char *const bad[] = {"", ".", "-", "nan", "inf", "-inf", "0x1p3", "1e999", "1,5", "1 ", " 1", "1e-4x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse(msi_parse_real, bad[i]);
}

static void test_angle(void **state)
{
    (void)state;
    check(msi_parse_flux, "0.25", 0.25);
    check(msi_parse_flux, "2Jy", 2);
    check(msi_parse_flux, "-1.5mJy", -1.5e-3);
    check(msi_parse_flux, "3e2uJy", 3e-4);
    check(msi_parse_flux, "7nJy", 7e-9);
    refuse(msi_parse_flux, "1jy");
    refuse(msi_parse_flux, "mJy");
    refuse(msi_parse_flux, "1 mJy");
    refuse(msi_parse_flux, "0x1Jy");
    refuse(msi_parse_flux, "");
    check(msi_parse_angle, "75asec", 75 * DEG / 3600);
    check(msi_parse_angle, "75arcsec", 75 * DEG / 3600);
    check(msi_parse_angle, "2masec", 2 * DEG / 3600e3);
    check(msi_parse_angle, "2marcsec", 2 * DEG / 3600e3);
    check(msi_parse_angle, "2uasec", 2 * DEG / 3600e6);
    check(msi_parse_angle, "2uas", 2 * DEG / 3600e6);
    check(msi_parse_angle, "2mas", 2 * DEG / 3600e3);
    check(msi_parse_angle, "1.5amin", 1.5 * DEG / 60);
    check(msi_parse_angle, "1.5arcmin", 1.5 * DEG / 60);
    check(msi_parse_angle, "-1e-2DEG", -1e-2 * DEG);
    check(msi_parse_angle, "0.25rad", 0.25);
    static const char *const bad[] = {"",       "75",    "asec",   "75 asec", "75sec",    "75asecs", "nanasec",
                                      "infdeg", "1edeg", "0x1deg", "1..5deg", "1e999deg", "5m",      "75%s"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse(msi_parse_angle, bad[i]);
}

static void test_frequency(void **state)
{
    (void)state;
    check(msi_parse_frequency, "870e6", 870e6);
    check(msi_parse_frequency, "1420405752Hz", 1420405752);
    check(msi_parse_frequency, "25khz", 25e3);
    check(msi_parse_frequency, "870MHz", 870e6);
    check(msi_parse_frequency, "1.4GHz", 1.4e9);
    static const char *const wrong[] = {"",        "GHz",    "0",   "-1GHz", "1.4 GHz",
                                        "1.4GHzz", "1.4THz", "nan", "1e999", "1,4GHz"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) refuse(msi_parse_frequency, wrong[i]);
}

static void test_bare_angle_names_both_spellings(void **state)
{
    (void)state;
    double value;
    assert_int_equal(msi_parse_angle(&value, "-scale", "75"), MSI_EUSAGE);
    assert_string_equal(msi_error_get(), "-scale 75: give a unit, 75asec or 75deg?");
    assert_int_equal(msi_parse_angle_or(&value, "-scale", "75", DEG), MSI_OK);
    assert_true(fabs(value / (75 * DEG) - 1) < 1e-15);
    assert_int_equal(msi_parse_angle_or(&value, "-scale", "75asec", DEG), MSI_OK);
    assert_true(fabs(value / (75 * DEG / 3600) - 1) < 1e-15);
}

static void test_right_ascension(void **state)
{
    (void)state;
    double puppis = (8 + 24 / 60.0 + 7 / 3600.0) * 15 * DEG;
    check(msi_parse_ra, "08h24m07.0s", puppis);
    check(msi_parse_ra, "8h24m07.0", puppis);
    check(msi_parse_ra, "8H24M7S", puppis);
    check(msi_parse_ra, "08:24:07", puppis);
    check(msi_parse_ra, "126.5deg", 126.5 * DEG);
    check(msi_parse_ra, "-1deg", 359 * DEG);
    check(msi_parse_ra, "-0h04m00s", 359 * DEG);
    check(msi_parse_ra, "360deg", 0);
    check(msi_parse_ra, "24h", 0);
    check(msi_parse_ra, "8.5h", 8.5 * 15 * DEG);
    check(msi_parse_ra, "2rad", 2);
    static const char *const bad[] = {"",       "126.03", "8",       "8:24:60",     "8h60m00s",   "25h00m00s",
                                      "361deg", "8h24",   "8h24m7x", "8.5h24m",     "8:24:07:01", "8h24m7s9s",
                                      "h24m",   "8h-4m",  ":::",     "8h24m7.0.0s", "1234567890h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse(msi_parse_ra, bad[i]);
}

static void test_declination(void **state)
{
    (void)state;
    double puppis = -(42 + 59 / 60.0 + 48 / 3600.0) * DEG;
    check(msi_parse_dec, "-42d59m48.0s", puppis);
    check(msi_parse_dec, "-42:59:48", puppis);
    check(msi_parse_dec, "-42.59.48.0", puppis);
    check(msi_parse_dec, "-0d30m", -0.5 * DEG);
    check(msi_parse_dec, "+90d", 90 * DEG);
    check(msi_parse_dec, "-42.5deg", -42.5 * DEG);
    check(msi_parse_dec, "-90deg", -90 * DEG);
    check(msi_parse_dec, "30amin", 0.5 * DEG);
    static const char *const bad[] = {"",   "-42.5", "45",     "90d00m01s", "-91deg", "45d60m", "45d59x",
                                      "8h", "42.5.", "1.6rad", "d",         "45:",    "..."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refuse(msi_parse_dec, bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integer),
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_frequency),
        cmocka_unit_test(test_angle),
        cmocka_unit_test(test_bare_angle_names_both_spellings),
        cmocka_unit_test(test_right_ascension),
        cmocka_unit_test(test_declination),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
