/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the command line of msimage-makems. */
#ifndef MSI_MAKEMS_OPTIONS_H
#define MSI_MAKEMS_OPTIONS_H

#include <stdint.h>
#include <stdio.h>

#include "testdata/makems.h"

typedef struct msi_makems_options {
    msi_makems_spec spec; /* complete; it points to the members below */
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
 * Returned: *options  freed by msi_makems_options_free, also after a failure. If help or version is set, no other
 *           member is.
 * Returns:  0, MSI_EUSAGE, MSI_EINPUT (the layout file), MSI_ENOMEM
 */
int msi_makems_options_parse(msi_makems_options *options, int argc, char **argv);
void msi_makems_options_free(msi_makems_options *options);

/* msi_makems_options_help - print the options, and two commands as examples. */
void msi_makems_options_help(FILE *f);

#endif
