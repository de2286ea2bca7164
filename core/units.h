/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers with and without units, as people write them on a command line. */
#ifndef MSI_CORE_UNITS_H
#define MSI_CORE_UNITS_H

#include <stdint.h>

/*
 * All of these read the whole text: trailing characters are an error. The message of an error begins with `what`, the
 * option's spelling, and ends with the remedy.
 */

/* msi_parse_integer - read a whole decimal number, signed, as digits or with an exponent, 100000 or 1e5. Returns 0 or
 * MSI_EUSAGE. */
int msi_parse_integer(int64_t *out, const char *what, const char *text);

/* msi_parse_real - read a decimal number, with or without exponent; finite. Returns 0 or MSI_EUSAGE. */
int msi_parse_real(double *out, const char *what, const char *text);

/* msi_parse_flux - read a number of Jy, or with its unit attached: Jy, mJy, uJy, nJy. Returned: *out_jy, finite.
 * Returns: 0 or MSI_EUSAGE */
int msi_parse_flux(double *out_jy, const char *what, const char *text);

/*
 * msi_parse_angle - read a number with its unit attached: masec (marcsec), asec (arcsec), amin (arcmin), deg (degree,
 * degrees), rad (radian, radians), in upper or lower case. A bare number is refused: other programs disagree on what it
 * means.
 * Returned: *out_rad, finite
 * Returns:  0 or MSI_EUSAGE
 */
int msi_parse_angle(double *out_rad, const char *what, const char *text);

/*
 * msi_parse_ra, msi_parse_dec - 08h24m07.0s and -42d59m48.0s; 08:24:07.0 and -42:59:48.0 (also -42.59.48.0, the form of
 * CASA); or an angle with its unit, 126.03deg. Minutes and seconds may be left off at the end.
 * Returned: *out_rad in [0, 2 pi) for RA, [-pi/2, pi/2] for Dec
 * Returns:  0 or MSI_EUSAGE
 */
int msi_parse_ra(double *out_rad, const char *what, const char *text);
int msi_parse_dec(double *out_rad, const char *what, const char *text);

#endif
