/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deconvolution by the ranks of a run: the first one cleans, of the samples that all have. */
#ifndef MSI_SRC_IMAGING_CLEAN_RANKS_H
#define MSI_SRC_IMAGING_CLEAN_RANKS_H

#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_clean_ranks - clean the images of the interval, and write all that belongs to them; called by every rank.
 * Returns: 0, or any code of gridder, cleaner and writer, of this or another rank
 * Notes:   gridders are freed as their channels are done.
 */
int msi_imaging_clean_ranks(msi_imaging_run *run);

#endif
