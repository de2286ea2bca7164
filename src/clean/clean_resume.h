/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A field's cleaning in a checkpoint, and out of it again: models, where components are, counters. */
#ifndef MSI_SRC_CLEAN_RESUME_H
#define MSI_SRC_CLEAN_RESUME_H

#include "src/clean/checkpoint.h"
#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"

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
