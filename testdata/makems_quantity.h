/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers with units that only msimage-makems takes. A bare number is refused, with the likely spellings. */
#ifndef MSI_TESTDATA_MAKEMS_QUANTITY_H
#define MSI_TESTDATA_MAKEMS_QUANTITY_H

#include <stdint.h>

/*
 * Given:    what  the option's spelling, with which messages begin; text  all of which is read
 * Returned: *out  radians, hertz, seconds or jansky
 * Returns:  0, MSI_EUSAGE
 *
 * hour   a number with h, deg or rad
 * freq   Hz kHz MHz GHz
 * time   ms s min h d
 * flux   uJy mJy Jy
 */
int msi_quantity_hour(double *out, const char *what, const char *text);
int msi_quantity_freq(double *out, const char *what, const char *text);
int msi_quantity_time(double *out, const char *what, const char *text);
int msi_quantity_flux(double *out, const char *what, const char *text);

/* msi_quantity_is_flux - tell whether text is a number with a unit of flux. */
int msi_quantity_is_flux(const char *text);

/* msi_quantity_count - read an integer from min to max. */
int msi_quantity_count(int64_t *out, const char *what, const char *text, int64_t min, int64_t max);

/* msi_quantity_date - read 2024-01-31T12:34:56 or 2024-01-31, UTC, as MJD seconds. */
int msi_quantity_date(double *mjd_s, const char *what, const char *text);

#endif
