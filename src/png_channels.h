/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Channel maps and spectra of a cube for msimage-png. */
#ifndef MSI_PNG_CHANNELS_H
#define MSI_PNG_CHANNELS_H

#include "io/fits/fits_image.h"
#include "io/fits/publish.h"

/*
 * msi_channel_maps_make - put all planes of the first polarisation of a cube on one page, from the top left by rows, with
 * grey lines between them. Planes are averaged over blocks, so that the page has at most 3000 pixels a side.
 * Given:    path
 * Returned: view   without sky coordinates; freed by msi_fits_view_free; empty on failure
 *           title  of size bytes: the file, the planes and their range
 * Returns:  as msi_fits_view_read; MSI_EINPUT if there are fewer than two planes along FREQ
 */
int msi_channel_maps_make(msi_fits_view *view, const char *path, char *title, size_t size);

enum { MSI_PNG_MOST_PLACES = 12 };

/* A place on the sky, in the frame of the cube. */
typedef struct msi_png_place {
    const char *name;
    double ra_rad, dec_rad;
} msi_png_place;

/*
 * msi_channel_spectra_draw - draw output i of a plan: the spectra at places, each of the nearest pixel, over the radio
 * velocity, or over the frequency without a rest frequency.
 * Returns: as msi_picture_curves_draw, msi_fits_view_read; MSI_EINPUT (a place outside; no planes along FREQ; no sky
 *          coordinates)
 */
int msi_channel_spectra_draw(msi_publish *p, int i, const char *path, const msi_png_place *place, int n_place);

#endif
