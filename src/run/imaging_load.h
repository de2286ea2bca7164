/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The selected visibilities are read once, prepared and handed to the gridders. */
#ifndef MSI_SRC_IMAGING_LOAD_H
#define MSI_SRC_IMAGING_LOAD_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/preprocess/output_channels.h"
#include "src/preprocess/stokes.h"

/* What is made of a block. Everything is borrowed. */
typedef struct msi_imaging_load_spec {
    const msi_plane *planes; /* [n_plane] real planes formed of the correlations, one after the other in each gridder */
    int n_plane;
    msi_stokes_weight weight; /* of a sample of several correlations */

    const msi_output_channels *channels; /* which gridder a channel goes to */
    double ra_rad, dec_rad;              /* the images' centre, to which fields with another one are turned */
    double least_turn_rad;               /* unless no phase of a block would change by more */
} msi_imaging_load_spec;

/*
 * msi_imaging_load - read all that the reader has into the gridders.
 *
 * Given:    gridder  [spec->channels->n] of spec->n_plane planes each
 * Returned: *tally  counted on
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the store's file), MSI_EINTERRUPTED
 * Notes:    while it reads, OpenMP has as many threads less as there are readers.
 */
int msi_imaging_load(msi_ms_reader *reader, const msi_imaging_load_spec *spec, msi_gridder *const *gridder,
                     msi_sample_tally *tally);

#endif
