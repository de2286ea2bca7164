/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A checkpoint stores the state of a deconvolution after a major cycle, so that an interrupted run can resume from it.
 * It is one file of sections. A checksum covers every byte. The file gets its name when it is complete: at any moment
 * the name is free or belongs to a whole checkpoint.
 */
#ifndef MSI_CHECKPOINT_H
#define MSI_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"

/* ---- The file ---- */

/* The contents of a section. The index of the section is the number of its plane, group or interval. */
typedef enum msi_checkpoint_kind {
    MSI_CHECKPOINT_COUNTERS = 1, /* a structure of the caller */
    MSI_CHECKPOINT_MODEL,        /* pixels of a plane */
    MSI_CHECKPOINT_FOUND,        /* where components were found, [ny][nx] words (msi_cleaner_found) */
    MSI_CHECKPOINT_MASK,         /* [ny][nx] bytes */
    MSI_CHECKPOINT_HISTORY,      /* steps of the convergence */
    MSI_CHECKPOINT_SOURCES,      /* a source list */
    MSI_CHECKPOINT_FIRST         /* pixels of a plane of the first residual */
} msi_checkpoint_kind;

/* Identifies the run of a checkpoint: hashes of the options that change the result, and of the sets. */
typedef struct msi_checkpoint_run {
    uint64_t options, sets;
} msi_checkpoint_run;

/*
 * msi_checkpoint_check_place - check that a checkpoint may have a name: it is free, or another checkpoint has it.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_checkpoint_check_place(const char *path);

typedef struct msi_checkpoint_writer msi_checkpoint_writer;

/*
 * msi_checkpoint_begin - begin a checkpoint in a hidden file next to `path`.
 * Returned: *out  NULL on failure; freed by msi_checkpoint_commit
 * Returns:  0, MSI_EOUTPUT (also if a file of that name is not a checkpoint: it is left unchanged), MSI_ENOMEM
 */
int msi_checkpoint_begin(msi_checkpoint_writer **out, const char *path, const msi_checkpoint_run *run);

/* msi_checkpoint_put - write a section. Its kind and index must be new in this file. Returns: 0, MSI_EOUTPUT */
int msi_checkpoint_put(msi_checkpoint_writer *w, msi_checkpoint_kind kind, int64_t index, const void *data,
                       int64_t bytes);

/*
 * msi_checkpoint_commit - complete and sync the file, and rename it over an older checkpoint. Always frees w.
 * Returns: 0, MSI_EOUTPUT, MSI_EINTERRUPTED (a signal arrived before): then the older checkpoint remains
 */
int msi_checkpoint_commit(msi_checkpoint_writer *w);

/* msi_checkpoint_bytes - return the size of a file of n_section sections with data_bytes of data in all. */
int64_t msi_checkpoint_bytes(int64_t n_section, int64_t data_bytes);

typedef struct msi_checkpoint msi_checkpoint;

/*
 * msi_checkpoint_open - open a checkpoint and check every byte of it.
 * Given:    run   the checkpoint must belong to it
 * Returned: *out  NULL on failure; closed by msi_checkpoint_close
 * Returns:  0, MSI_EINPUT (it is missing, damaged, of another version, or of a run with other options or sets; the file
 *           is left unchanged), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_checkpoint_open(msi_checkpoint **out, const char *path, const msi_checkpoint_run *run);

/* msi_checkpoint_size - return the bytes of a section; -1 if it is missing. */
int64_t msi_checkpoint_size(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index);

/*
 * msi_checkpoint_get - read a section.
 * Given:   bytes  the expected size
 * Returns: 0, MSI_EINPUT (the section is missing, has another size, or has changed since the file was opened)
 */
int msi_checkpoint_get(const msi_checkpoint *c, msi_checkpoint_kind kind, int64_t index, void *data, int64_t bytes);

/* msi_checkpoint_close - NULL is fine. */
void msi_checkpoint_close(msi_checkpoint *c);

/* msi_checkpoint_remove - remove a checkpoint. A file of another kind stays; a missing file is fine.
 * Returns: 0, MSI_EOUTPUT */
int msi_checkpoint_remove(const char *path);

/*
 * msi_checkpoint_keep - move a checkpoint aside, so that a new one does not replace it: PATH becomes PATH.1, or the
 * first of PATH.2 .. that is free.
 * Returned: kept [size]  the new name
 * Returns:  0, MSI_EOUTPUT (it cannot be renamed)
 */
int msi_checkpoint_keep(const char *path, char *kept, size_t size);

/* ---- The state of a field: models, positions of components, counters ---- */

/*
 * msi_checkpoint_save_field - write a checkpoint of a field. Its residuals must be those of its models.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_checkpoint_save_field(msi_clean_field *field, const msi_clean_history *history, const char *path,
                              const msi_checkpoint_run *run);

/*
 * msi_checkpoint_load_field - load a checkpoint into a field with its cleaners. The caller must make the residuals
 * again; with -save-first-residual they hold the first residual until then.
 * Returned: *found  0: there is no checkpoint, and the field is unchanged
 * Returns:  0, MSI_EINPUT (of another run, or damaged), MSI_ENOMEM, MSI_EGPU
 */
int msi_checkpoint_load_field(msi_clean_field *field, msi_clean_history *history, const char *path,
                              const msi_checkpoint_run *run, int *found);

/* msi_checkpoint_field_bytes - return the size of the file of a field. */
int64_t msi_checkpoint_field_bytes(const msi_image_geometry *geometry, int n_plane, int n_group,
                                   msi_precision precision);

#endif
