/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The selected visibilities are read once, formed by those who read, and handed to the gridders. */
#ifndef MSI_SRC_IMAGING_LOAD_H
#define MSI_SRC_IMAGING_LOAD_H

#include "io/ms/ms_crew.h"
#include "kernels/gridder.h"
#include "src/run/block_forming.h"

/*
 * msi_imaging_load - read all that the reader has into the gridders.
 *
 * Given:    crew, reader  the crew forms by an msi_block_former, and the reader is that which it opened last
 *           gridder       [spec->channels->n] of spec->n_plane planes each
 * Returned: *tally  counted on
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the store's file), MSI_EINTERRUPTED
 * Notes:    while it reads, OpenMP has as many threads less as there are readers, but half of them at least.
 */
int msi_imaging_load(msi_ms_crew *crew, msi_ms_reader *reader, const msi_forming_spec *spec,
                     msi_gridder *const *gridder, msi_sample_tally *tally);

#endif
