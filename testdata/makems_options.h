/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage-makems, and the numbers with units that only it accepts. */
#ifndef MSI_MAKEMS_OPTIONS_H
#define MSI_MAKEMS_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "testdata/makems.h"

/*
 * msi_quantity_hour and the following - parse a number with a unit. A number without a unit is refused, with a
 * suggestion.
 * Given:    what  the option's spelling, for messages; text  the whole argument
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

/* msi_quantity_is_flux - return whether text is a number with a unit of flux. */
int msi_quantity_is_flux(const char *text);

/* msi_quantity_count - read an integer from min to max. */
int msi_quantity_count(int64_t *out, const char *what, const char *text, int64_t min, int64_t max);

/* msi_quantity_date - read 2024-01-31T12:34:56 or 2024-01-31, UTC, as MJD seconds. */
int msi_quantity_date(double *mjd_s, const char *what, const char *text);

typedef struct msi_makems_options {
    msi_makems_spec spec; /* complete; points into the members below */
    const char *path;     /* borrowed from argv */
    int help, version, quiet, list_sources;
    int64_t n_thread; /* 0: all cores */
    struct {
        const char *path; /* borrowed from argv; NULL: do not write one */
        int64_t size;
        double cell_rad;
    } model;

    msi_layout layout;
    msi_makems_field *field;
    msi_makems_spw *spw;
    msi_makems_source *source;
    char *command;
} msi_makems_options;

/*
 * msi_makems_options_parse - parse the command line, and set defaults.
 *
 * Returned: *options  freed by msi_makems_options_free, after a failure too. If help or version is set, no other member
 *           is.
 * Returns:  0, MSI_EUSAGE, MSI_EINPUT (the layout file), MSI_ENOMEM
 */
int msi_makems_options_parse(msi_makems_options *options, int argc, char **argv);
void msi_makems_options_free(msi_makems_options *options);

/* msi_makems_options_help - print the options, and two commands as examples. */
void msi_makems_options_help(FILE *f);

#endif
