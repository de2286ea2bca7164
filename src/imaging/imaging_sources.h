/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of the sources that cleaning found. */
#ifndef MSI_SRC_IMAGING_SOURCES_H
#define MSI_SRC_IMAGING_SOURCES_H

#include "src/clean/clean_field.h"
#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_sources_put - write the sources of a field's Stokes I, where a list of them was planned.
 * Given:   first  the field's first output channel
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE
 */
int msi_imaging_sources_put(const msi_imaging_run *run, const msi_clean_field *field, int64_t first);

#endif
