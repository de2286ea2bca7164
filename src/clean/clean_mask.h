/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks that a user gives: read from an image of any WCS, taken to the pixels of the images that are cleaned. */
#ifndef MSI_SRC_CLEAN_MASK_H
#define MSI_SRC_CLEAN_MASK_H

#include <stdint.h>

#include "core/image.h"

typedef struct msi_clean_mask {
    int64_t nx, ny;
    int n_plane;    /* 1: for all channels; else one for each output channel */
    uint8_t *pixel; /* [n_plane][ny][nx], 1 where components may lie, else 0; owned */
} msi_clean_mask;

/* The images that a mask is for. */
typedef struct msi_mask_target {
    const msi_image_geometry *geometry;
    double ra_rad, dec_rad; /* of the centre */
    const char *frame;      /* J2000 .. */
    int64_t n_channel;      /* output channels */
} msi_mask_target;

/*
 * msi_clean_mask_fits - read a mask from a FITS image: a pixel that is not zero may be cleaned. The mask's pixel that
 * is nearest on the sky is taken, so that its size, centre, pixels and projection may be others than the image's.
 * Returned: *mask  to be emptied by msi_clean_mask_free; empty on failure
 * Returns:  0, MSI_EINPUT (no FITS image with coordinates of the image's frame; neither one plane nor one for each
 *           output channel; it does not reach as far as the image; a pixel without value within it), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_clean_mask_fits(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/* msi_clean_mask_casa - read the same of a CASA image. Before any thread is started. Returns: as above */
int msi_clean_mask_casa(msi_clean_mask *mask, const char *path, const msi_mask_target *target);

/* msi_clean_mask_of - return the plane of an output channel; NULL for a mask that was not read. */
const uint8_t *msi_clean_mask_of(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_part - return the fraction of a channel's pixels that may be cleaned. */
double msi_clean_mask_part(const msi_clean_mask *mask, int64_t channel);

/* msi_clean_mask_free - leave it empty; NULL is fine. */
void msi_clean_mask_free(msi_clean_mask *mask);

#endif
