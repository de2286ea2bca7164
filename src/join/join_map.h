/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The places of a mosaic's pixels in an image of any projection, and the image's values there. */
#ifndef MSI_JOIN_MAP_H
#define MSI_JOIN_MAP_H

#include <stdint.h>

#include "core/image.h"
#include "io/fits/sky_wcs.h"

/* The place of a pixel of the mosaic in an image. */
typedef struct msi_join_place {
    double at[2];  /* the pixel of the image, 0-based; NaN: the image does not have the direction */
    double off[2]; /* angles from the pointing towards east and north, whose hypot is the angle from it */
} msi_join_place;

/* Places at nodes, a few pixels apart, between which they are interpolated: only those around the image. */
typedef struct msi_join_map {
    int64_t nx, ny;           /* nodes */
    int64_t first_x, first_y; /* the cell of the mosaic, a few pixels wide, that begins with the second node */
    msi_join_place *node;     /* [ny][nx] owned */
    int64_t x0, y0, x1, y1;   /* only pixels x0 <= x < x1, y0 <= y < y1 can be in the image */
} msi_join_map;

/*
 * msi_join_map_make - compute the nodes.
 * Given:    geometry, wcs  of the mosaic
 *           image, n  its coordinates and pixels along x and y
 *           pointing_deg  longitude and latitude
 * Returned: *out  emptied by msi_join_map_free; empty on failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_join_map_make(msi_join_map *out, const msi_image_geometry *geometry, const msi_sky_wcs *wcs,
                      const msi_sky_wcs *image, const int64_t n[2], const double pointing_deg[2]);
void msi_join_map_free(msi_join_map *m); /* leaves it empty */

/*
 * msi_join_map_row - interpolate the places of row y <= y1. Several threads may.
 * Given:    scratch [nx]
 * Returned: place [x1 - x0 + 1]
 */
void msi_join_map_row(const msi_join_map *m, int64_t y, msi_join_place *scratch, msi_join_place *place);

/*
 * msi_join_sample - interpolate an image by 8 x 8 pixels, with a sinc in Kaiser's window. Several threads may.
 * Given:    pixel [n[1]][n[0]]  NaN: no value; at
 * Returns:  NaN outside the image, and next to a pixel without a value
 */
double msi_join_sample(const float *pixel, const int64_t n[2], const double at[2]);

/* msi_join_offset - return the angles of a direction from a pointing, as msi_join_place.off. */
void msi_join_offset(const double sky_deg[2], const double pointing_deg[2], double off[2]);

#endif
