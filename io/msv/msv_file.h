/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A visibility store is opened and mapped: its bytes are checked before they are believed. */
#ifndef MSI_MSV_FILE_H
#define MSI_MSV_FILE_H

#include <stdint.h>

#include "io/msv/msv_format.h"

/* msi_msv_is_file - return 1 where a path leads to a file, which a Measurement Set is not, else 0. */
int msi_msv_is_file(const char *path);

/* msi_msv_is_store - return 1 where a file begins as a visibility store does, else 0. */
int msi_msv_is_store(const char *path);

/*
 * msi_msv_header_read - read and check the header alone.
 * Returned: *header
 * Returns:  0, MSI_EINPUT (cannot be read, is no store, of another version, truncated, damaged)
 */
int msi_msv_header_read(const char *path, msi_msv_header *header);

/* msi_msv_set_changed - return 1 where the set that a store was made of is there, and is not as it was; else 0. */
int msi_msv_set_changed(const msi_msv_header *header);

/* A store that is mapped. Everything is borrowed from the map. */
typedef struct msi_msv_file {
    const char *path; /* borrowed from the caller */
    const char *map;
    const msi_msv_header *header;
    const char *about;          /* [header->about_bytes] what the rows have in common, as its writer gave it */
    const double *time_s;       /* [header->n_time] ascending, MJD seconds */
    const msi_msv_run *run;     /* [header->n_run] */
    const msi_msv_chunk *chunk; /* [header->n_chunk] */
} msi_msv_file;

/*
 * msi_msv_file_open - map a store, and check header and index.
 * Given:    path  borrowed until it is closed
 * Returned: *out  owned, msi_msv_file_close; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 * Notes:    runs and chunks are in order, their times and counts in range; whether there are setups and fields of their
 *           numbers is the caller's to ask. A file that is cut while it is mapped ends the process by a signal.
 */
int msi_msv_file_open(msi_msv_file **out, const char *path);

/*
 * msi_msv_file_rows - check a chunk's rows. msi_msv_file_samples - check its samples.
 * Given:    n_chan, n_corr  of its setup
 * Returned: *layout
 * Returns:  0, MSI_EINPUT (they are not what was written)
 */
int msi_msv_file_rows(const msi_msv_file *f, const msi_msv_chunk *chunk, int32_t n_chan, int32_t n_corr,
                      msi_msv_layout *layout);
int msi_msv_file_samples(const msi_msv_file *f, const msi_msv_chunk *chunk, const msi_msv_layout *layout);

/* msi_msv_file_run - find the run that holds a row of the set, which is to be one of the store's; NULL for none. */
const msi_msv_run *msi_msv_file_run(const msi_msv_file *f, int64_t row);

/* msi_msv_file_chunk - find the chunk that holds a row of a setup and field, counted among those; NULL for none. */
const msi_msv_chunk *msi_msv_file_chunk(const msi_msv_file *f, int32_t data_desc_id, int32_t field_id, int64_t ordinal);

/* msi_msv_file_damaged - say what is not what was written. Returns: MSI_EINPUT. */
int msi_msv_file_damaged(const char *path, const char *what, int64_t at, int64_t bytes);

/* msi_msv_file_close - NULL is fine. */
void msi_msv_file_close(msi_msv_file *f);

/* The file system tells whether a Measurement Set has changed, by what it says of its files. */

/*
 * msi_set_state - return a number made of names, sizes and times of change of the files of a set and its subtables;
 * locks and HISTORY are left out.
 * Returned: *state
 * Returns:  1; 0 where there is no folder of that name that can be read
 */
int msi_set_state(const char *path, uint64_t *state);

#endif
