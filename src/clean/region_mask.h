/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks from regions on the sky or in pixels: files of DS9 and CASA. */
#ifndef MSI_SRC_REGION_MASK_H
#define MSI_SRC_REGION_MASK_H

#include "src/clean/clean_mask.h"

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
