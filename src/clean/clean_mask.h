/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks that the user gives. They are read from images with any WCS, or from regions, and resampled to the pixels of
 * the cleaned images. */
#ifndef MSI_SRC_CLEAN_MASK_H
#define MSI_SRC_CLEAN_MASK_H

#include <stdint.h>

#include "core/image.h"

typedef struct msi_clean_mask {
    int64_t nx, ny;
    int n_plane;    /* 1: one plane for all channels; otherwise one for each output channel */
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
 * Returns:  0, MSI_EINPUT (not a FITS image, or not in the frame of the target; neither one plane nor one for each
 *           output channel; the mask does not cover the image; a pixel of the mask within the image is not finite),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_clean_mask_fits(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_scales - read a mask of scales from a FITS image of one plane, as msi_clean_mask_fits reads it. Pixels
 * are whole numbers from 0 to 65535; bit s allows scale s.
 * Returned: *scales [ny][nx]  freed by msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT (as for msi_clean_mask_fits; an invalid pixel; all pixels are 0), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_clean_mask_scales(uint16_t **scales, const char *path, const msi_mask_target *target);

/* msi_clean_mask_casa - read a mask from a CASA image. Call it before any thread is started. Returns: as
 * msi_clean_mask_fits */
int msi_clean_mask_casa(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_any - read a mask from a CASA image (a directory), a FITS image, or regions. The content of the path
 * decides which function reads it. Returns: as that function
 */
int msi_clean_mask_any(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/*
 * msi_clean_mask_horizon - restrict a mask to pixels that are more than angle_rad above the horizon, for an observer
 * with the image's centre at the zenith: l^2 + m^2 < sin(pi / 2 - angle_rad)^2. If angle_rad is negative, the limit is
 * (1 + |angle_rad|)^2. An empty mask becomes one plane that is 1 where l^2 + m^2 is below the limit.
 * Returns: 0, MSI_ENOMEM
 */
int msi_clean_mask_horizon(msi_clean_mask *mask, double angle_rad, const msi_mask_target *target);

/* msi_clean_mask_plane - return the plane of an output channel; NULL if the mask is empty. */
const uint8_t *msi_clean_mask_plane(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_fraction - return the fraction of a channel's pixels that may be cleaned; 1 if the mask is empty. */
double msi_clean_mask_fraction(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_free - empty a mask; NULL is fine. */
void msi_clean_mask_free(msi_clean_mask *mask);

/* ---- Masks from regions on the sky or in pixels: files of DS9 and CASA ---- */

/*
 * msi_clean_mask_region - make a mask from a DS9 region file, from a CASA region file (CRTF), or from a text in CASA's
 * format, such as "circle[[256pix, 256pix], 20pix]".
 *
 * Shapes are circle, ellipse, box, polygon and annulus. Frames are fk5, icrs, j2000 and pixels. A pixel is inside if
 * its centre is inside the shape or on its edge; for the edge of a polygon, rounding decides. In the frames of the sky,
 * distances from a shape's centre are along great circles. The sides of a polygon are straight lines in the image.
 * Excluding regions of DS9 exclude their pixels from all other regions. Regions of CASA apply in the order of the file.
 *
 * Given:    from   path or text
 * Returned: *mask  of one plane; emptied by msi_clean_mask_free; empty on failure
 * Returns:  0, MSI_EINPUT (no file; an unsupported shape or frame; an invalid number; no region; the error has the
 *           line), MSI_ENOMEM
 */
int msi_clean_mask_region(msi_clean_mask *mask, const char *from, const msi_mask_target *target);

#endif
