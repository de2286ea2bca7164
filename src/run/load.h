/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the selected visibilities once, prepares them and hands them to the gridders. */
#ifndef MSI_SRC_LOAD_H
#define MSI_SRC_LOAD_H

#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/run/output_channels.h"
#include "src/preprocess/stokes.h"

typedef struct msi_load_spec {
    const msi_plane *planes;
    int n_plane;
    msi_stokes_weight weight;
    const msi_output_channels *channels;
    int shift_set; /* 0: phases stay where the fields have them */
    double ra_rad, dec_rad;
} msi_load_spec;

/*
 * msi_load - everything the reader has, into gridder[channel].
 * Given:    crew  that has begun to read its blocks; NULL: a thread reads them
 * Returned: *dropped counted on
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT, MSI_EINTERRUPTED
 */
int msi_load(msi_ms_reader *reader, msi_ms_crew *crew, const msi_load_spec *spec, msi_gridder *const *gridder,
             msi_sample_dropped *dropped);

#endif
