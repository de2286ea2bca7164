/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage-makems. */
#ifndef MSI_TESTDATA_MAKEMS_OPTIONS_H
#define MSI_TESTDATA_MAKEMS_OPTIONS_H

#include <stdio.h>

#include "testdata/makems.h"

typedef struct msi_makems_options {
    msi_makems_spec spec; /* complete; points into the members below */
    const char *path;     /* borrowed from argv */
    int help, version, quiet, list_sources;
    int64_t n_thread; /* 0: all cores */
    struct {
        const char *path; /* borrowed from argv; NULL: none is written */
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
 * msi_makems_options_parse - read the command line and work out what it leaves open.
 *
 * Returned: *options  freed by msi_makems_options_free, after a failure too. With help or version set nothing else is.
 * Returns:  0, MSI_EUSAGE, MSI_EINPUT (the layout file), MSI_ENOMEM
 */
int msi_makems_options_parse(msi_makems_options *options, int argc, char **argv);
void msi_makems_options_free(msi_makems_options *options);

/* msi_makems_options_help - print the options, and two commands as examples. */
void msi_makems_options_help(FILE *f);

#endif
