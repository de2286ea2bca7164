/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Deconvolution within a run: from weighted samples to cleaned images. */
#ifndef MSI_SRC_IMAGING_CLEAN_H
#define MSI_SRC_IMAGING_CLEAN_H

#include "src/clean/clean_samples.h"
#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_clean_run - clean the images of the interval, and write all that belongs to them but -save-weights; on
 * the first rank.
 * Given:   samples  counted; freed as their channels are done
 * Returns: 0, or any code of gridder, cleaner and writer
 */
int msi_imaging_clean_run(msi_imaging_run *run, msi_clean_samples *samples);

/*
 * msi_imaging_clean_record - write the record of convergence, as a table and with -png as a picture.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_imaging_clean_record(msi_imaging_run *run);

#endif
