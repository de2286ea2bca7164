/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks of the user: read from an image with any WCS and resampled to the pixels of the cleaned images. */
#ifndef MSI_SRC_CLEAN_MASK_H
#define MSI_SRC_CLEAN_MASK_H

#include <stdint.h>

#include "core/image.h"

typedef struct msi_clean_mask {
    int64_t nx, ny;
    int n_plane;    /* 1: one for all channels; otherwise one for each output channel */
    uint8_t *pixel; /* [n_plane][ny][nx], 1 where components are allowed, otherwise 0; owned */
} msi_clean_mask;

/* The images to which a mask is resampled. */
typedef struct msi_mask_target {
    const msi_image_geometry *geometry;
    double ra_rad, dec_rad; /* direction of the centre */
    const char *frame;      /* J2000 .. */
    int64_t n_channel;      /* output channels */
} msi_mask_target;

/*
 * msi_clean_mask_fits - read a mask from a FITS image. Non-zero pixels may be cleaned. The mask may have another size,
 * centre, pixel size and projection than the image: each image pixel takes the nearest mask pixel on the sky.
 * Returned: *mask  emptied by msi_clean_mask_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a FITS image with coordinates in the frame of the image; neither one plane nor one for
 *           each output channel; it does not cover the image; a pixel within the image has no value), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_clean_mask_fits(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_scales - read a mask of scales from a FITS image of one plane, as msi_clean_mask_fits reads it. Pixels
 * are whole numbers from 0 to 65535; bit s allows scale s.
 * Returned: *scales [ny][nx]  freed by msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT (as above; another value; 0 everywhere), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_clean_mask_scales(uint16_t **scales, const char *path, const msi_mask_target *target);

/* msi_clean_mask_casa - read a mask from a CASA image. Call it before any thread is started. Returns: as above */
int msi_clean_mask_casa(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_any - read a mask from a CASA image (a directory), a FITS image, or regions, whichever
 * the content is. Returns: as those
 */
int msi_clean_mask_any(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_horizon - restrict a mask, or a new one, to pixels further than an angle from the horizon of the
 * image's centre: l^2 + m^2 < sin(90 deg - angle)^2, or (1 + |angle|)^2 if the angle is negative.
 * Returns: 0, MSI_ENOMEM
 */
int msi_clean_mask_horizon(msi_clean_mask *mask, double angle_rad, const msi_mask_target *target);

/* msi_clean_mask_plane - return the plane of an output channel; NULL if no mask was read. */
const uint8_t *msi_clean_mask_plane(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_fraction - return the fraction of a channel's pixels that may be cleaned. */
double msi_clean_mask_fraction(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_free - empty a mask; NULL is fine. */
void msi_clean_mask_free(msi_clean_mask *mask);

/* ---- Masks from regions on the sky or in pixels: files of DS9 and CASA ---- */

/*
 * msi_clean_mask_region - make a mask from a DS9 region file, a CASA region file (CRTF), or CASA's regions as a text such
 * as "circle[[256pix, 256pix], 20pix]".
 *
 * Shapes are circle, ellipse, box, polygon and annulus; frames are fk5, icrs, j2000 and pixels. A pixel is inside if its
 * middle is inside or on the edge (of a polygon, rounding decides). On the sky, distances from a region's centre are along great circles; the sides of a
 * polygon are straight in pixels. DS9's excluding regions exclude from all others; CASA's regions apply in their order.
 *
 * Given:    from  path or text
 * Returned: *mask  of one plane; emptied by msi_clean_mask_free; empty on failure
 * Returns:  0, MSI_EINPUT (no file; another shape or frame; a bad number; no region, with the line), MSI_ENOMEM
 */
int msi_clean_mask_region(msi_clean_mask *mask, const char *from, const msi_mask_target *target);

#endif
