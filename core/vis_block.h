/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Preprocessing hands visibilities to a gridder in these blocks. */
#ifndef MSI_CORE_VIS_BLOCK_H
#define MSI_CORE_VIS_BLOCK_H

#include "core/types.h"

/*
 * Some rows of one spectral setup, as real image planes see them (Stokes already formed, phases already shifted).
 * Arrays are borrowed for the call. vis and weight may be NULL where only coordinates matter (predict).
 */
typedef struct msi_vis_block {
    int64_t n_row;
    int32_t n_chan;
    int32_t n_plane;
    const double *uvw_m;    /* [n_row][3]  metres, not conjugated */
    const double *freq_hz;  /* [n_chan] */
    const msi_c64 *vis;     /* [n_plane][n_row][n_chan]  Jy, unweighted */
    const float *weight;    /* [n_plane][n_row][n_chan]  >= 0; 0 leaves the sample out of that plane */
    const msi_c32 *vis_f32; /* taken where vis is NULL */
} msi_vis_block;

#endif
