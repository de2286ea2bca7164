/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage-convert: rows of msimage's option table, and some of its own. */
#ifndef MSI_SRC_CONVERT_OPTIONS_H
#define MSI_SRC_CONVERT_OPTIONS_H

#include "src/options/options.h"

typedef struct msi_convert_options {
    msi_options shared; /* first, so that the readers of msimage's options fill it; given_paths are the inputs */
    const char *out;
    double average_time_s;      /* 0: none */
    int64_t average_channels;   /* 1: none */
    double smearing_loss;       /* of baseline-dependent averaging, 0 .. 0.5; 0: every baseline alike */
    double smearing_radius_rad; /* 0: chosen from the antennas' diameter */
    int flip_uvw;
} msi_convert_options;

/*
 * msi_convert_options_parse - read and check a command line. Touches no file.
 * Returned: *o  freed by msi_convert_options_free whatever this returns
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
int msi_convert_options_parse(msi_convert_options *o, int argc, const char *const *argv);

/* msi_convert_options_help - print the help on stdout. */
void msi_convert_options_help(void);

/* msi_convert_options_free - free what is owned. */
void msi_convert_options_free(msi_convert_options *o);

#endif
