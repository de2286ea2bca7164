/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads visibility stores. A store is mapped into memory, and every part is checked before it is used. */
#ifndef MSI_MSV_FILE_H
#define MSI_MSV_FILE_H

#include <stdint.h>

#include "io/msv/msv_format.h"

/* msi_msv_is_file - return 1 if a path is a regular file, else 0. A Measurement Set is a directory. */
int msi_msv_is_file(const char *path);

/* msi_msv_is_store - return 1 if a file begins with the magic bytes of a visibility store, else 0. */
int msi_msv_is_store(const char *path);

/*
 * msi_msv_header_read - read and check only the header.
 * Returned: *header
 * Returns:  0, MSI_EINPUT (unreadable, not a store, another version, truncated, damaged)
 */
int msi_msv_header_read(const char *path, msi_msv_header *header);

/* msi_msv_set_changed - return 1 if the set from which a store was made exists and has changed since, else 0. */
int msi_msv_set_changed(const msi_msv_header *header);

/* A mapped store. All pointers but `path` point into the map. */
typedef struct msi_msv_file {
    const char *path; /* borrowed from the caller */
    const char *map;
    const msi_msv_header *header;
    const char *about;          /* [header->about_bytes] metadata, as given to msi_msv_output_finish */
    const double *time_s;       /* [header->n_time] ascending, MJD seconds */
    const msi_msv_run *run;     /* [header->n_run] */
    const msi_msv_chunk *chunk; /* [header->n_chunk] */
} msi_msv_file;

/*
 * msi_msv_file_open - map a store, and check its header and index.
 * Given:    path  borrowed until msi_msv_file_close
 * Returned: *out  owned, msi_msv_file_close; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 * Notes:    runs and chunks are in order, and their times and counts are in range. The caller must check the ids of
 *           setups and fields. If the file is truncated while it is mapped, a signal ends the process.
 */
int msi_msv_file_open(msi_msv_file **out, const char *path);

/*
 * msi_msv_file_rows - check the rows of a chunk. msi_msv_file_samples - check its samples.
 * Given:    n_chan, n_corr  of its setup
 * Returned: *layout
 * Returns:  0, MSI_EINPUT (damaged)
 */
int msi_msv_file_rows(const msi_msv_file *f, const msi_msv_chunk *chunk, int32_t n_chan, int32_t n_corr,
                      msi_msv_layout *layout);
int msi_msv_file_samples(const msi_msv_file *f, const msi_msv_chunk *chunk, const msi_msv_layout *layout);

/* msi_msv_file_run - find the run that contains a row of the set. Returns NULL if the store does not have the row. */
const msi_msv_run *msi_msv_file_run(const msi_msv_file *f, int64_t row);

/* msi_msv_file_chunk - find the chunk with a row, given by setup, field and ordinal. Returns NULL if there is none. */
const msi_msv_chunk *msi_msv_file_chunk(const msi_msv_file *f, int32_t data_desc_id, int32_t field_id, int64_t ordinal);

/* msi_msv_file_damaged - set the error that a part of the file (`what`, such as "its index") is damaged. Returns
 * MSI_EINPUT. */
int msi_msv_file_damaged(const char *path, const char *what, int64_t at, int64_t bytes);

/* msi_msv_file_close - NULL is fine. */
void msi_msv_file_close(msi_msv_file *f);

/*
 * msi_set_state - hash names, sizes and modification times of the files of a Measurement Set and its subtables, or of
 * one file. Lock files and HISTORY are ignored.
 * Returned: *state
 * Returns:  1; 0 if there is no such file, or no readable directory
 */
int msi_set_state(const char *path, uint64_t *state);

#endif
