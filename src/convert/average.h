/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Averages visibilities in time and frequency, for each baseline, in double precision. */
#ifndef MSI_SRC_AVERAGE_H
#define MSI_SRC_AVERAGE_H

#include "io/convert/set_output.h"
#include "src/convert/convert_stages.h"

/*
 * A sample is good if neither it nor its row is flagged, its weight is positive and finite, and its value is finite.
 * The average of good samples is their weighted mean, with the sum of their weights. If there is no good sample, the
 * average is the plain mean with the sum of the weights, and is flagged; a single sample keeps its flag.
 *
 * UVW and TIME_CENTROID of a row are means over the input rows, weighted by the summed weights of their good samples.
 * EXPOSURE is the sum over rows with a good sample. TIME and INTERVAL cover the rows. FLAG_ROW is set if it is set in
 * every row. The rows of an interval have the same antennas, feeds, array, observation, processor, scan and state. A
 * row that is not averaged with another one keeps these values.
 */
typedef struct msi_average msi_average;

/* The averaging time of a baseline. Zero-initialised: no averaging in time. */
typedef struct msi_average_time {
    double longest_s; /* 0: no averaging; with `loss`, no limit */
    double loss; /* largest loss of amplitude of a source at radius_rad; 0: average every baseline over longest_s */
    double radius_rad;
    double highest_hz;
} msi_average_time;

/*
 * msi_average_make - make an average of one spectral setup and field.
 * Given:    to  the set to which finished rows are appended; n_chan, n_corr  of the rows; groups  of
 *               channels; all borrowed
 * Returned: *out  owned, msi_average_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_average_make(msi_average **out, msi_set_output *to, int32_t n_chan, int32_t n_corr,
                     const msi_channel_groups *groups, const msi_average_time *time);

/*
 * msi_average_add - add rows, in the order of the set.
 * Given:   rows  with n_chan and n_corr as given to msi_average_make
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT
 */
int msi_average_add(msi_average *a, const msi_set_rows *rows);

/* msi_average_flush - finish the intervals that end before the last added row or, with `all`, all intervals.
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT. */
int msi_average_flush(msi_average *a, int all);

/* msi_average_n_back - return the number of rows that were added after a later row of their baseline. They were
 * averaged only with rows added after them. Rows of baselines that were dropped after a pause are not counted. */
int64_t msi_average_n_back(const msi_average *a);

/* msi_average_bytes - return the allocated memory. */
int64_t msi_average_bytes(const msi_average *a);

/* msi_average_free - free an average; NULL is allowed. */
void msi_average_free(msi_average *a);

/*
 * Smearing: the loss of amplitude of a source away from the phase centre, due to averaging. If the phase on a baseline
 * changes by x turns during the average, the amplitude is multiplied by sin(pi x) / (pi x) (Bridle and Schwab, in
 * Synthesis Imaging in Radio Astronomy II, 1999, chapter 18).
 */

/*
 * msi_smearing_report - determine the averaging time of baselines, and log the loss for several lengths.
 * Given:    groups [msi_ms_reader_n_spw]
 * Returned: *time
 * Returns:  0, MSI_EINPUT (baseline-dependent averaging without a radius, and no dish diameter is known)
 */
int msi_smearing_report(const msi_ms_reader *reader, const msi_channel_groups *groups,
                        const msi_convert_options *options, msi_average_time *time);

#endif
