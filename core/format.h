/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quantities are written for people: with the unit that suits their size, words that agree with their number. */
#ifndef MSI_CORE_FORMAT_H
#define MSI_CORE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/* msi_plural - return the "s" of a word that is counted: "" for 1. */
static inline const char *msi_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* A unit of a table: so many of the basic unit. */
typedef struct msi_unit {
    const char *name;
    double size;
} msi_unit;

/*
 * msi_angle_unit - uas, mas, arcsec, arcmin or deg: the largest of which the angle has at least one.
 * msi_freq_unit - Hz, kHz, MHz or GHz; likewise.
 * Given: rad, hz  of any sign; what is not finite has the smallest unit
 */
msi_unit msi_angle_unit(double rad);
msi_unit msi_freq_unit(double hz);

enum { MSI_FORMAT_SIZE = 48 }; /* bytes that a text below needs at most, its end included */

/* msi_format_angle and the following - a number of four digits with the unit that suits it, such as "75 arcsec".
 * Returned: text, which is what they return too. */
const char *msi_format_angle(char text[MSI_FORMAT_SIZE], double rad);
const char *msi_format_duration(char text[MSI_FORMAT_SIZE], double s);

/* msi_format_direction - return "08h24m07.00s -42d59m48.0s"; seconds are rounded as a whole, so that none reads 60. */
const char *msi_format_direction(char text[MSI_FORMAT_SIZE], double ra_rad, double dec_rad);

/* msi_format_date - return "2013-02-27 14:03:12" of MJD seconds; "?" where that is no date of the years 1 to 9999. */
const char *msi_format_date(char text[MSI_FORMAT_SIZE], double mjd_s);

#endif
