/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A checkpoint keeps what a deconvolution has come to after a major cycle, so that a run that was ended goes on from
 * there. It is one file of sections; every byte is under a checksum, and it has its name only when it is complete: at
 * any moment the name is free, or a whole checkpoint's.
 */
#ifndef MSI_CHECKPOINT_H
#define MSI_CHECKPOINT_H

#include <stdint.h>

#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"

/* A section holds one of these; which plane, group or interval is its index. */
typedef enum msi_checkpoint_kind {
    MSI_CHECKPOINT_COUNTERS = 1, /* a structure of the caller's */
    MSI_CHECKPOINT_MODEL,        /* pixels of a plane */
    MSI_CHECKPOINT_FOUND,        /* where components were found, [ny][nx] words (msi_cleaner_found) */
    MSI_CHECKPOINT_MASK,         /* [ny][nx] bytes */
    MSI_CHECKPOINT_HISTORY,      /* steps of the convergence */
    MSI_CHECKPOINT_SOURCES,      /* a source list */
    MSI_CHECKPOINT_FIRST         /* pixels of a plane of the first residual */
} msi_checkpoint_kind;

/* The run that a checkpoint is of: hashes of the options that the result depends on, and of what the sets are. */
typedef struct msi_checkpoint_run {
    uint64_t options, sets;
} msi_checkpoint_run;

/*
 * msi_checkpoint_check_place - check that a checkpoint may have a name: it is free, or another checkpoint's.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_checkpoint_check_place(const char *path);

typedef struct msi_checkpoint_writer msi_checkpoint_writer;

/*
 * msi_checkpoint_begin - begin a checkpoint in a hidden file beside `path`.
 * Returned: *out  NULL on failure; freed by msi_checkpoint_commit or msi_checkpoint_discard
 * Returns:  0, MSI_EOUTPUT (also where a file of that name is no checkpoint: it is left as it is), MSI_ENOMEM
 */
int msi_checkpoint_begin(msi_checkpoint_writer **out, const char *path, const msi_checkpoint_run *run);

/* msi_checkpoint_put - write a section; none of its kind and index was written before. Returns: 0, MSI_EOUTPUT */
int msi_checkpoint_put(msi_checkpoint_writer *w, msi_checkpoint_kind kind, int64_t index, const void *data,
                       int64_t bytes);

/*
 * msi_checkpoint_commit - complete the file, sync it and give it its name in place of an older one; frees w whatever is
 * returned.
 * Returns: 0, MSI_EOUTPUT, MSI_EINTERRUPTED (a signal arrived before): the older one stands then
 */
int msi_checkpoint_commit(msi_checkpoint_writer *w);

/* msi_checkpoint_discard - remove what was begun, and free it; NULL is fine. */
void msi_checkpoint_discard(msi_checkpoint_writer *w);

/* msi_checkpoint_bytes - return the bytes of a file of n_section sections with so many bytes in all. */
int64_t msi_checkpoint_bytes(int64_t n_section, int64_t data_bytes);

typedef struct msi_checkpoint msi_checkpoint;

/*
 * msi_checkpoint_open - open a checkpoint and check every byte of it.
 * Given:    run   that it has to be of
 * Returned: *out  NULL on failure; closed by msi_checkpoint_close
 * Returns:  0, MSI_EINPUT (there is none; it is damaged, of another version, or of a run with other options or sets;
 *           the file is left as it is), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_checkpoint_open(msi_checkpoint **out, const char *path, const msi_checkpoint_run *run);

/* msi_checkpoint_size - return the bytes of a section; -1 where there is none. */
int64_t msi_checkpoint_size(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index);

/*
 * msi_checkpoint_get - read a section.
 * Given:   bytes  its size; MSI_EINPUT where it is another, or there is no such section
 * Returns: 0, MSI_EINPUT (also where the file has changed since it was opened)
 */
int msi_checkpoint_get(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index, void *data, int64_t bytes);

/* msi_checkpoint_close - NULL is fine. */
void msi_checkpoint_close(msi_checkpoint *c);

/* msi_checkpoint_remove - remove a checkpoint; a file that is none stays, and where there is none that is fine.
 * Returns: 0, MSI_EOUTPUT */
int msi_checkpoint_remove(const char *path);

/* A field's cleaning in a checkpoint, and out of it again: models, where components are, counters. */

/*
 * msi_clean_save - write a checkpoint of a field whose residuals are those of its models.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_clean_save(msi_clean_field *field, const msi_clean_history *history, const char *path);

/*
 * msi_clean_load - read it back into a field with its cleaners. Residuals are to be made anew; where the first one is
 * asked for, they are that one.
 * Returned: *found  0: there is no checkpoint, and nothing has changed
 * Returns:  0, MSI_EINPUT (of another run, or damaged), MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_load(msi_clean_field *field, msi_clean_history *history, const char *path, int *found);

/* msi_clean_checkpoint_bytes - count the bytes of the file. */
int64_t msi_clean_checkpoint_bytes(const msi_image_geometry *geometry, int n_plane, int n_group,
                                   msi_precision precision);

#endif
