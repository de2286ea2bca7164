/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pixels of a mosaic on the sky. */
#ifndef MSI_JOIN_GRID_H
#define MSI_JOIN_GRID_H

#include "src/join/join_input.h"

typedef struct msi_join_grid {
    msi_image_geometry geometry;
    double centre_deg[2];
    msi_sky_wcs *wcs;
} msi_join_grid;

/*
 * msi_join_grid_choose - choose what the options leave open. Images that have one tangent point keep it, and the mosaic
 * their pixels if these are of one size; others get the mean of their middles, and the smallest pixels. All images lie in
 * the mosaic.
 * Returned: *out  emptied by msi_join_grid_free
 * Returns:  0, MSI_EINPUT (too large), MSI_ERANGE, MSI_ENOMEM
 */
int msi_join_grid_choose(msi_join_grid *out, const msi_join_spec *spec, const msi_join_input *in);
void msi_join_grid_free(msi_join_grid *g);

/* msi_join_grid_place - find the places of an input's pixels, and the angle of its north. Returns: 0, MSI_EINPUT (it does
 * not reach the mosaic), MSI_ENOMEM, MSI_EINTERRUPTED */
int msi_join_grid_place(const msi_join_grid *g, msi_join_input *in);

#endif
