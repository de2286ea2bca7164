/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checkpoints of a run that cleans: NAME[-tNNNN][-NNNN].clean, one for each field. */
#ifndef MSI_SRC_IMAGING_CHECKPOINT_H
#define MSI_SRC_IMAGING_CHECKPOINT_H

#include "src/clean/clean_field.h"
#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_checkpoint_save - write the checkpoint of a field between two cycles, unless the last one is young.
 * Given:   first  the field's first output channel
 * Returns: as msi_clean_save
 */
int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first);

/*
 * msi_imaging_checkpoint_load - read it back into the field with -resume, and say whether there was one; else say
 * so where an earlier run has left one.
 * Returned: *found  the field is what it was at the checkpoint
 * Returns:  as msi_clean_load
 */
int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, int *found);

/* msi_imaging_checkpoint_forget - remove those of a run whose images are complete. Returns: 0, MSI_EOUTPUT */
int msi_imaging_checkpoint_forget(const msi_options *options);

/*
 * msi_imaging_checkpoint_check - check, before anything is computed, that checkpoints would replace nothing but
 * checkpoints; with -resume they are looked at when they are read.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_imaging_checkpoint_check(const msi_options *options);

#endif
