/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sets of a run: the processes that read them, intervals of time, and the first lines of the log. */
#ifndef MSI_OPEN_SETS_H
#define MSI_OPEN_SETS_H

#include <stddef.h>
#include <stdint.h>

#include "io/ms/reader_pool.h"
#include "io/ms/ms_reader.h"
#include "src/options/options.h"

/*
 * msi_open_sets_reader_pool - fork the processes that open and read the sets: the number of -readers, or several if the
 * sets are large.
 * Given:    conversion  the conversion of blocks
 * Returned: *pool  the reader pool; owned, msi_reader_pool_free; NULL on failure
 * Returns:  0, MSI_ENOMEM (a process cannot be started), MSI_EINPUT (a visibility store is damaged, or older than its
 *           set)
 * Notes:    call it while the process has one thread.
 */
int msi_open_sets_reader_pool(msi_reader_pool **pool, const msi_options *options,
                              const msi_reader_conversion *conversion);

/*
 * msi_open_sets_have_columns - fail if an input is a visibility store, a UVFITS file or a FITS-IDI file: these have no
 * columns that could be written.
 * Returns: 0, MSI_EUSAGE
 */
int msi_open_sets_have_columns(const msi_options *options, const char *what);

/* An interval: the times of one output image. */
typedef struct msi_interval {
    msi_ms_reader *reader; /* owned, msi_ms_reader_free; if the interval is empty, it reads the whole selection */
    /* owned; the reader of all intervals, for metadata only; NULL if there is one interval */
    msi_ms_reader *whole;
    int64_t begin, end;          /* time steps of the interval, as in -interval; with one interval, end 0 means all */
    int is_empty;                /* 1: it has no selected rows, and the reader must not be read */
    msi_observation observation; /* metadata of the interval, also if it is empty */
} msi_interval;

/* The rows to open: an interval, and a rank's share of it. */
typedef struct msi_open_request {
    int64_t interval;   /* number of the interval among options->intervals_out, from 0 */
    int share, n_share; /* as in msi_ms_opening; shares of a mosaic have whole fields */
} msi_open_request;

/*
 * msi_open_sets_interval - open the selected rows of an interval.
 * Returned: *t  in a dry run its reader reads only coordinates; the reader is NULL on failure
 * Returns:  0, MSI_EUSAGE (more intervals than times) or any code of msi_reader_pool_open
 */
int msi_open_sets_interval(msi_interval *t, msi_reader_pool *pool, const msi_options *options,
                           const msi_open_request *request);

/* ---- The first lines of the log: sets, fields, channels, times ---- */

/* msi_set_report_line - log a line: a label, such as "band", and its text in the next column. */
void msi_set_report_line(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * msi_set_report - log sets, telescope, fields, data, band, times.
 * Given: column  requested column, NULL: none; sets without it get a warning
 *        data    text of the line `data`: the column and the images' polarisations
 */
void msi_set_report(const msi_ms_reader *reader, const char *const *paths, int n_path, const char *column,
                    const char *data);

/* msi_set_report_times - log the line of the times, which differ between intervals. */
void msi_set_report_times(const msi_ms_reader *reader);

/* msi_set_report_highest_hz - return the highest of the selected frequencies. */
double msi_set_report_highest_hz(const msi_ms_reader *reader);

/*
 * msi_set_report_fields - list the fields with selected rows, each once. Fields that do not fit into the buffer are
 * counted: "a, b and 2 more".
 * Given:    with_ids  1: list "a (id 0)", where fields of one name have several ids. 0: names only; fields
 *           without a name are omitted
 * Returned: text
 * Returns:  the number of fields, including those that do not fit
 */
int64_t msi_set_report_fields(char *text, size_t size, const msi_ms_reader *reader, int with_ids);

/*
 * msi_set_report_names - return "a, b and c" if it fits on a line, else "a and 2 more".
 * Given:    names [n], n >= 1
 * Returned: text
 */
void msi_set_report_names(char *text, size_t size, const char *const *names, int64_t n);

/* ---- Measured costs of reading and writing; memory that plans do not count ---- */

/* Samples per second that casacore reads from tiled storage, four correlations each. */
#define MSI_READ_SAMPLES_PER_S 5e7

/* Rows of coordinates, without data, that casacore reads per second. */
#define MSI_READ_ROWS_PER_S 4e6

/* Bytes of visibilities that casacore writes per second. */
#define MSI_WRITE_BYTES_PER_S 7e8

/* msi_unplanned_bytes - return the memory, in bytes, that plans do not count: libraries, and buffers of blocks and
 * threads. For AUTO, return the larger of the two backends. */
int64_t msi_unplanned_bytes(msi_backend backend);

#endif
