/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Visibilities are averaged in time and frequency, baseline by baseline, in double precision. */
#ifndef MSI_SRC_AVERAGE_H
#define MSI_SRC_AVERAGE_H

#include "io/convert/set_output.h"

/*
 * A sample is good where it is not flagged, its row neither, its weight is positive and finite and its value finite.
 * Of good samples the average is their mean by weight, its weight the sum of theirs. Where there is none the average is
 * the plain mean, with the sum of the weights, and flagged, but for a single sample, which keeps its flag.
 *
 * Of rows: UVW and TIME_CENTROID are means by the summed weight of a row's good samples, EXPOSURE is the sum over rows
 * with a good sample, TIME and INTERVAL are what the rows span; FLAG_ROW holds where it does for every row. Rows of one
 * interval are those of one array, observation, scan and state, with the same antennas and feeds. A row that is
 * averaged with no other keeps all of that as it is.
 */
typedef struct msi_average msi_average;

/* A baseline is averaged for so long. Zero-initialised: not at all. */
typedef struct msi_average_time {
    double longest_s; /* 0: no averaging, or, with `loss`, no limit */
    double loss;      /* what a source at radius_rad may lose on any baseline; 0: every baseline takes longest_s */
    double radius_rad;
    double highest_hz;
} msi_average_time;

/*
 * msi_average_make - make an average of one spectral setup and field.
 * Given:    to  the set that finished rows are appended to; n_chan, n_corr  of the rows; groups  of channels; borrowed
 * Returned: *out  owned, msi_average_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_average_make(msi_average **out, msi_set_output *to, int32_t n_chan, int32_t n_corr,
                     const msi_channel_groups *groups, const msi_average_time *time);

/*
 * msi_average_add - add rows, in the order of the set.
 * Given:   rows  with n_chan and n_corr as made
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT
 */
int msi_average_add(msi_average *a, const msi_set_rows *rows);

/* msi_average_flush - finish intervals whose end no row will reach that is later than the last added; all: every one.
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT. */
int msi_average_flush(msi_average *a, int all);

/* msi_average_n_back - count rows that were added after later ones of their baseline: they are averaged only with those
 * that follow them. Of a baseline that has not been averaged for long it is not known. */
int64_t msi_average_n_back(const msi_average *a);

/* msi_average_bytes - return the memory that it holds. */
int64_t msi_average_bytes(const msi_average *a);

/* msi_average_free - NULL is fine. */
void msi_average_free(msi_average *a);

#endif
