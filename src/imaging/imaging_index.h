/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Maps of the spectral index that was fitted while channels were cleaned together. */
#ifndef MSI_SRC_IMAGING_INDEX_H
#define MSI_SRC_IMAGING_INDEX_H

#include "src/clean/clean_field.h"
#include "src/imaging/imaging_files.h"

/*
 * msi_imaging_index_put - write a map of d ln I / d ln frequency at the mean frequency, where one was planned: that of
 * the fit to the models of all channels as the beam sees them, without their residuals. Pixels are NaN where that
 * model's mean is less than five times the noise, or has no spectrum of one sign; all of them without a beam.
 * Given:   field    cleaned, of all channels; what a cycle would go back to is lost
 *          product  of the whole band: its channel, kind, beam, weights and cards
 * Returns: as msi_imaging_files_put, MSI_EGPU
 */
int msi_imaging_index_put(msi_imaging_run *run, const msi_clean_field *field, const msi_imaging_product *product);

#endif
