/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers with and without units: parsing for command lines, formatting for logs. */
#ifndef MSI_UNITS_H
#define MSI_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* ---- Parsing ----
 *
 * These functions read the whole text; trailing characters are an error. An error message begins with `what`, the
 * spelling of the option, and ends with a hint. */

/* msi_parse_option_name - return the name of an option in a command line, without its one or two dashes: "" if there is
 * no dash, "help" for -h, -? and -help=TOPIC, "version" for -V. */
const char *msi_parse_option_name(const char *word);

/* msi_parse_integer - read a decimal integer with or without sign and exponent, such as 100000 or 1e5. Returns 0 or
 * MSI_EUSAGE. */
int msi_parse_integer(int64_t *out, const char *what, const char *text);

/* msi_parse_real - read a finite decimal number, with or without exponent. Returns 0 or MSI_EUSAGE. */
int msi_parse_real(double *out, const char *what, const char *text);

/* msi_parse_flux - read a flux in Jy, or with a unit directly after the number: Jy, mJy, uJy, nJy. Returned: *out_jy,
 * finite.
 * Returns: 0 or MSI_EUSAGE */
int msi_parse_flux(double *out_jy, const char *what, const char *text);

/* msi_parse_frequency - read a frequency in Hz, or with a unit directly after the number: Hz, kHz, MHz, GHz, in upper
 * or lower case.
 * Returned: *out_hz, positive. Returns: 0 or MSI_EUSAGE */
int msi_parse_frequency(double *out_hz, const char *what, const char *text);

/*
 * msi_parse_angle - read a number with a unit directly after it: nasec, uasec (uarcsec, uas), masec (marcsec, mas),
 * asec (arcsec), amin (arcmin), deg (degree, degrees), rad (radian, radians), in upper or lower case. A bare number is
 * refused: programs disagree on what it means.
 * msi_parse_angle_or - the same, but a number without a unit is multiplied by bare_rad, if bare_rad is above 0.
 * Returned: *out_rad, finite
 * Returns:  0 or MSI_EUSAGE
 */
int msi_parse_angle(double *out_rad, const char *what, const char *text);
int msi_parse_angle_or(double *out_rad, const char *what, const char *text, double bare_rad);

/*
 * msi_parse_ra, msi_parse_dec - read 08h24m07.0s and -42d59m48.0s; 08:24:07.0 and -42:59:48.0 (also -42.59.48.0, as
 * CASA writes it); or an angle with its unit, 126.03deg. Minutes and seconds may be omitted at the end.
 * Returned: *out_rad in [0, 2 pi) for RA, [-pi/2, pi/2] for Dec
 * Returns:  0 or MSI_EUSAGE
 */
int msi_parse_ra(double *out_rad, const char *what, const char *text);
int msi_parse_dec(double *out_rad, const char *what, const char *text);

/* ---- Formatting: a value with a unit that suits its size ---- */

/* msi_plural - return the "s" of a plural; "" for 1. */
static inline const char *msi_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* A unit, and its size in the basic unit. */
typedef struct msi_unit {
    const char *name;
    double size;
} msi_unit;

/*
 * msi_angle_unit - return the largest unit of uas, mas, arcsec, arcmin and deg that is not larger than the angle.
 * msi_freq_unit - return the largest unit of Hz, kHz, MHz and GHz that is not larger than the frequency.
 * Given: rad, hz  of any sign; a value that is not finite gets the smallest unit
 */
msi_unit msi_angle_unit(double rad);
msi_unit msi_freq_unit(double hz);

enum { MSI_FORMAT_SIZE = 48 }; /* size of the texts below in bytes, with a terminating zero */

/* msi_format_angle, msi_format_duration - write a number of four digits with a suitable unit, such as "75 arcsec".
 * Returned: text, which is also the return value */
const char *msi_format_angle(char text[MSI_FORMAT_SIZE], double rad);
const char *msi_format_duration(char text[MSI_FORMAT_SIZE], double s);

/* msi_format_estimate - write an estimated duration with one or two digits, such as "3.1 min". */
const char *msi_format_estimate(char text[MSI_FORMAT_SIZE], double s);

/* msi_format_direction - return "08h24m07.00s -42d59m48.0s". The angle is rounded before it is split, so that seconds
 * are never 60. */
const char *msi_format_direction(char text[MSI_FORMAT_SIZE], double ra_rad, double dec_rad);

/* msi_format_date - return "2013-02-27 14:03:12" for a time in MJD seconds; "?" outside the years 1 to 9999. */
const char *msi_format_date(char text[MSI_FORMAT_SIZE], double mjd_s);

/* An option of a program with a small table of options. */
typedef struct msi_small_option {
    const char *name;
    int arity;
    const char *values, *help;
    int (*read)(void *options, const char *const *argument);
    size_t flag; /* without read: offset of the int in the options that is set to 1 */
} msi_small_option;

/*
 * msi_small_options_read - read the options at the beginning of a command line, up to "--" or the first word that does
 * not begin with "-".
 * Given:    table [n]; argc, argv  of main
 * Returned: *options; *first  index of the first word after the options
 * Returns:  0, MSI_EUSAGE, or any code of a row's read
 *
 * msi_small_options_print - print a table as help.
 */
int msi_small_options_read(const msi_small_option *table, int n, void *options, int argc, const char *const *argv,
                           int *first);
void msi_small_options_print(const msi_small_option *table, int n);

#endif
