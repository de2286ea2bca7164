/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sets of an imaging run: how many processes read them, and the times of one of several intervals. */
#ifndef MSI_SRC_OPEN_SETS_H
#define MSI_SRC_OPEN_SETS_H

#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"
#include "src/options/options.h"

/*
 * msi_open_sets_crew - fork the processes that open and read the sets: as many as -readers asks for, or several where
 * the sets are large enough to be worth it.
 * Given:    forming  what they can make of blocks
 * Returned: *crew  owned, msi_ms_crew_free; NULL on failure
 * Returns:  0, MSI_ENOMEM (no process to be had), MSI_EINPUT (a visibility store is damaged, or older than its set)
 * Notes:    call it from a process of one thread.
 */
int msi_open_sets_crew(msi_ms_crew **crew, const msi_options *options, const msi_ms_forming *forming);

/*
 * msi_open_sets_have_columns - ask whether all are Measurement Sets, not visibility stores, which have no columns to
 * write.
 * Given:   what  "MODEL_DATA cannot be written there", what is wrong where one is not, with the remedy
 * Returns: 0, MSI_EUSAGE
 */
int msi_open_sets_have_columns(const msi_options *options, const char *what);

/* An interval is the times of one output image. */
typedef struct msi_interval {
    msi_ms_reader *reader; /* owned, msi_ms_reader_free; of the whole selection where the interval is empty */
    msi_ms_reader *whole;  /* owned; of all intervals, not to be read; NULL where that is the reader */
    int64_t begin, end;    /* its time steps, as -interval counts them; of the whole selection end may be 0: all */
    int is_empty;          /* non-zero: no row of the selection lies in it, and the reader is not to be read */
    msi_observation observation; /* of the interval, also of an empty one */
} msi_interval;

/* A run may open part of the selected rows: an interval, or a rank's share. */
typedef struct msi_open_request {
    int64_t interval;   /* of options->intervals_out, counted from 0 */
    int share, n_share; /* as in msi_ms_opening */
} msi_open_request;

/*
 * msi_open_sets_interval - open the selected rows of an interval.
 * Returned: *t        its reader reads coordinates alone on a dry run; NULL on failure
 * Returns:  0, MSI_EUSAGE (more intervals than times) or any code of msi_ms_crew_open
 */
int msi_open_sets_interval(msi_interval *t, msi_ms_crew *crew, const msi_options *options,
                           const msi_open_request *request);

#endif
