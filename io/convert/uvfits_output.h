/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Write a Measurement Set as UVFITS: random groups, with tables of antennas, frequencies and sources. */
#ifndef MSI_IO_UVFITS_OUTPUT_H
#define MSI_IO_UVFITS_OUTPUT_H

#include "io/ms/ms_reader.h"

typedef struct msi_uvfits_output_spec {
    const char *path;    /* path of a file that does not exist yet */
    const char *name;    /* the output's, for messages */
    const char *command; /* for HISTORY */
} msi_uvfits_output_spec;

/* Counts what became of a set. */
typedef struct msi_uvfits_report {
    int64_t n_row, n_group;
    int32_t n_window;
    int64_t n_filled;     /* windows of groups that no row has: zero, of weight zero */
    int64_t n_unweighted; /* samples of no flag and no positive weight: they become flagged */
    int64_t n_not_finite; /* samples of values or weights that are no numbers: they become zero, and flagged */
} msi_uvfits_report;

/* msi_uvfits_check - look whether the format can hold a set. Given: reader  of one set. Returns: 0, MSI_EINPUT,
 * MSI_ENOMEM. */
int msi_uvfits_check(const msi_ms_reader *reader, const char *name);

/*
 * msi_uvfits_write - write a set. Flags become negative weights, windows the axis IF, antennas are numbered from 1 by
 * their rows; u, v, w keep their sign, in seconds of single precision; dates are right to a microsecond.
 * Given:    reader  of one set, opened in this process, that leaves out no row and flags none
 * Returned: *report
 * Returns:  0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM; the file is incomplete where it fails
 */
int msi_uvfits_write(msi_ms_reader *reader, const msi_uvfits_output_spec *spec, msi_uvfits_report *report);

#endif
