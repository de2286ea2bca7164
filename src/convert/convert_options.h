/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage-convert. It shares many options with msimage. */
#ifndef MSI_SRC_CONVERT_OPTIONS_H
#define MSI_SRC_CONVERT_OPTIONS_H

#include "src/options/options.h"

typedef struct msi_convert_options {
    msi_options
        shared; /* filled by the readers of msimage's options, so it must come first; given_paths are the inputs */
    const char *out;
    double average_time_s;      /* 0: no averaging */
    int64_t average_channels;   /* 1: no averaging */
    double smearing_loss;       /* for baseline-dependent averaging, up to 0.5; 0: average every baseline alike */
    double smearing_radius_rad; /* 0: derived from the diameter of the antennas */
    int flip_uvw;
} msi_convert_options;

/*
 * msi_convert_options_parse - parse and check a command line. It accesses no file.
 * Returned: *o  to be freed by msi_convert_options_free even after a failure
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
int msi_convert_options_parse(msi_convert_options *o, int argc, const char *const *argv);

/* msi_convert_options_help - print the help to stdout. */
void msi_convert_options_help(void);

/* msi_convert_options_free - free the owned members. */
void msi_convert_options_free(msi_convert_options *o);

#endif
