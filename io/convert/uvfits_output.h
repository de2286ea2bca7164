/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes a Measurement Set as UVFITS: random groups, and tables of antennas, frequencies and sources. */
#ifndef MSI_IO_UVFITS_OUTPUT_H
#define MSI_IO_UVFITS_OUTPUT_H

#include "io/ms/ms_reader.h"

typedef struct msi_uvfits_output_spec {
    const char *path;    /* path of a file that does not exist yet */
    const char *name;    /* name of the output, for messages */
    const char *command; /* for HISTORY */
} msi_uvfits_output_spec;

/* Counts for the log. */
typedef struct msi_uvfits_report {
    int64_t n_row, n_group;
    int32_t n_window;
    int64_t n_filled;     /* windows without a row, over all groups; their samples are zero with weight zero */
    int64_t n_unweighted; /* samples without a flag whose weight is not positive; they are written as flagged */
    int64_t n_not_finite; /* samples whose value or weight is not finite; they are written as zero, flagged */
} msi_uvfits_report;

/* msi_uvfits_check - check whether a set can be written in this format. Given: reader  of one set. Returns: 0,
 * MSI_EINPUT, MSI_ENOMEM. */
int msi_uvfits_check(const msi_ms_reader *reader, const char *name);

/*
 * msi_uvfits_write - write a set. Flagged samples get negative weights. Windows become the axis IF. Antennas have the
 * number of their row of ANTENNA, counted from 1. u, v, w keep their sign and are in seconds, in single precision.
 * Dates are exact to a microsecond.
 * Given:    reader  of one set, opened in this process; its selection keeps all rows, and adds no flags
 * Returned: *report
 * Returns:  0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM; after a failure the file is incomplete
 */
int msi_uvfits_write(msi_ms_reader *reader, const msi_uvfits_output_spec *spec, msi_uvfits_report *report);

#endif
