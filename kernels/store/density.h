/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights: the sums of weights in cells of the uv plane, and the weights that follow from them. */
#ifndef MSI_KERNELS_DENSITY_H
#define MSI_KERNELS_DENSITY_H

#include <stdint.h>

#include "core/image.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_density msi_density;
struct msi_vis_store;

typedef enum msi_weighting_mode { MSI_WEIGHT_NATURAL, MSI_WEIGHT_UNIFORM, MSI_WEIGHT_BRIGGS } msi_weighting_mode;

typedef struct msi_weighting {
    msi_weighting_mode mode;
    double robust;         /* Briggs' R, -2 .. 2 */
    double taper_fwhm_rad; /* gaussian uv taper whose image is a gaussian of this FWHM; 0: none */
} msi_weighting;

/*
 * msi_density_create - an empty grid of summed weights: the image's unpadded uv grid, v >= 0 (negative v folds over).
 * Source: Briggs 1995 for the weights.
 * Returns: 0, MSI_ENOMEM
 * Notes:   a sample belongs to the nearest cell. WSClean 3.1 makes this grid about 1.2 times as large: its cells are
 *          smaller, its weights others.
 */
int msi_density_create(msi_density **out, const msi_image_geometry *geometry);

/*
 * msi_density_add_store - add the weights of a store's plane 0 to the sums; several stores add up.
 * Given: store  with weights, before msi_density_weight
 */
void msi_density_add_store(msi_density *d, const struct msi_vis_store *store);

/* msi_density_grid - borrowed [nv = ny/2 + 1][nu = nx + 1] float64 sums; row v = 0 first, column nx/2 is u = 0. */
const double *msi_density_grid(const msi_density *d, int64_t *nu, int64_t *nv);

void msi_density_free(msi_density *d);

/*
 * msi_density_weight - multiply every weight of a store, in all planes, by density weighting and taper.
 * Given:   density  may be NULL for natural weighting
 * Returns: 0, MSI_EINTERNAL (a rule that needs a density, without one)
 * Notes:   uniform w / Wc; Briggs w / (1 + Wc s^2), s^2 = (5 10^-R)^2 / (sum Wc^2 / sum w).
 */
int msi_density_weight(struct msi_vis_store *store, const msi_density *density, const msi_weighting *rule);

#ifdef __cplusplus
}
#endif
#endif
