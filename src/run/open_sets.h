/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sets of an imaging run: how many processes read them, and the times of one of several intervals. */
#ifndef MSI_OPEN_SETS_H
#define MSI_OPEN_SETS_H

#include <stddef.h>
#include <stdint.h>

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

/* The lines that a log begins with: which sets, fields, channels and times a run is about. */

/* msi_set_report_line - give a line of the block: a label, such as "band", and what stands in the column beside it. */
void msi_set_report_line(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * msi_set_report - report sets, telescope, fields, data, band, times.
 * Given: data  what is done with the data: the column and the images' polarisations
 */
void msi_set_report(const msi_ms_reader *reader, const msi_options *options, const char *data);

/* msi_set_report_times - give the line of the times alone, as each interval has its own. */
void msi_set_report_times(const msi_ms_reader *reader);

/* msi_set_report_highest_hz - return the highest of the selected frequencies. */
double msi_set_report_highest_hz(const msi_ms_reader *reader);

/*
 * msi_set_report_fields - list the fields with selected rows, each once, as far as there is room: "a, b and 2 more".
 * Given:    with_ids  1: as "a (id 0)", fields of one name and different ids apart; 0: names alone, none for a field
 *           without one
 * Returned: text
 * Returns:  how many there are, of which each that finds no room counts
 */
int64_t msi_set_report_fields(char *text, size_t size, const msi_ms_reader *reader, int with_ids);

/*
 * msi_set_report_names - return "a, b and c" where that fits on a line, else "a and 2 more".
 * Given:    names [n], n >= 1
 * Returned: text
 */
void msi_set_report_names(char *text, size_t size, const char *const *names, int64_t n);

/* Reading and writing cost this, as measured; and this memory no plan counts. */

/* Samples a second that casacore delivers from tiled storage in bulk, four correlations each. */
#define MSI_READ_SAMPLES_PER_S 5e7

/* Rows of coordinates, without data, that casacore delivers a second. */
#define MSI_READ_ROWS_PER_S 4e6

/* Bytes of visibilities that casacore writes a second. */
#define MSI_WRITE_BYTES_PER_S 7e8

/* Bytes of libraries and of buffers of blocks and threads: not worth counting one by one. */
#define MSI_UNPLANNED_BYTES ((int64_t)96 << 20)

#endif
