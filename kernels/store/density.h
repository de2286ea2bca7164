/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights: sums of weights in cells of the uv plane, and the weights that are computed from them. */
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

/* The power of the visibilities' own weights. Densities are always sums of the unchanged weights. */
typedef enum msi_vis_weighting { MSI_VIS_WEIGHT_NORMAL, MSI_VIS_WEIGHT_SQUARED, MSI_VIS_WEIGHT_UNIT } msi_vis_weighting;

/*
 * Factors that multiply a weight after density weighting and depend on (u, v) of its sample; 0: no such factor. A Tukey
 * transition t(x, n) = (1 + cos(pi (x - n) / n)) / 2 rises from 0 at x = 0 to 1 at x = n.
 */
typedef struct msi_uv_taper {
    double major_rad, minor_rad;      /* FWHM, in the image, of the Gaussian taper; minor_rad 0: same as major_rad */
    double pa_rad;                    /* position angle of the major axis, from north through east */
    double inner_lambda, inner_tukey; /* 0 below inner_lambda; then a transition of inner_tukey */
    double outer_lambda, outer_tukey; /* 0 above outer_lambda; before it a transition of outer_tukey */
    double edge_lambda, edge_tukey;   /* 0 if u or v is within edge_lambda of the uv plane's edge, 1 / (2 cell); inside
                                         it a transition of edge_tukey along u, and one along v */
    int at_cells; /* (u, v) is the lower corner of the sample's density cell, as in WSClean; needs a density, also for
                     natural weights */
} msi_uv_taper;

typedef struct msi_weighting {
    msi_weighting_mode mode;
    double robust;    /* Briggs' R, -2 .. 2 */
    double bandwidth; /* Briggs, without rank_level: the fractional bandwidth of a cube if each channel has its own
                         density; 0: not used */
    int is_centred;   /* 1: cell k of an axis is from k - 1/2 to k + 1/2, as in CASA for channels; 0: from k to k + 1 */
    msi_uv_taper taper;
    msi_vis_weighting vis;
    double most_w_lambda; /* samples with a larger |w| get no weight; 0: no limit */
    double grid_padding;  /* size of the image for which the uv grid of the densities is made, in image sizes; 0: 1 */
    double super_weight;  /* factor of the size of the cells of that grid; 0: 1 */
    double rank_level; /* uniform, Briggs: a cell's factor is at most this many times the local mean; < 1: no limit */
    int64_t rank_size; /* the mean is over a square with this edge in cells around the cell, 2 or more */
} msi_weighting;

/* Numbers of cells along u and v of the whole uv grid of summed weights, both halves; even. */
typedef struct msi_density_grid {
    int64_t nu, nv;
} msi_density_grid;

/*
 * msi_density_grid_of - return the size of the uv grid of a rule's densities. Without padding it is the size of the
 * image, as in CASA. With grid_padding 1.2 it is 1.2 times the image, rounded up to a multiple of 4, as in WSClean.
 */
msi_density_grid msi_density_grid_of(const msi_image_geometry *geometry, const msi_weighting *rule);

/*
 * msi_density_create - make an empty grid of summed weights for half of the uv plane; the other half mirrors it.
 * Given:   rule  its grid_padding and super_weight
 * Source:  Briggs 1995 for the weights.
 * Returns: 0, MSI_ENOMEM
 * Notes:   a sample at (u, v) wavelengths with v < 0, or v = 0 and u < 0, is moved to (-u, -v). Its cell is
 *          (floor(u nu cell_x), floor(v nv cell_y)), from -n/2 to n/2 - 1; n/2 itself belongs to the last cell. The
 *          mirror image of cell k is -1 - k.
 */
int msi_density_create(msi_density **out, const msi_image_geometry *geometry, const msi_weighting *rule);

/*
 * msi_density_add_store - add the weights of a store's plane 0 to the sums. It may be called for several stores.
 * Given:   store  with weights; their scale (weight_scale) is removed
 * Notes:   samples without a weight in plane 0 are summed separately, with their weight in the first plane that has
 *          one. These sums are the density of cells in which plane 0 has no sample; they are not used otherwise. All
 *          threads are used; sums do not depend on their number. Sums of samples on a GPU stay there while all stores
 *          are on it.
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_density_add_store(msi_density *d, const struct msi_vis_store *store);

/*
 * msi_density_sums - get the summed weights, borrowed until weights are added.
 * Returned: *grid; *sum [nv / 2][nu] float64, cell 0 of v first, cell 0 of u in column nu / 2
 * Returns:  0; of samples on a GPU MSI_ENOMEM, MSI_EGPU
 */
int msi_density_sums(msi_density *d, msi_density_grid *grid, const double **sum);

/* The sums of a density, which the caller may change in place: sums of plane 0, and sums of samples without a weight in
 * plane 0 (NULL if there is one plane), each [n_cell]; and both totals. */
typedef struct msi_density_parts {
    int64_t n_cell;
    double *sum[2], *total[2];
} msi_density_parts;

/* msi_density_parts_of - get the sums, to add those of several hosts before weights are computed. Returns: 0; for
 * samples on a GPU also MSI_ENOMEM, MSI_EGPU */
int msi_density_parts_of(msi_density *d, msi_density_parts *parts);

/*
 * msi_density_limit - limit the factors of cells, 1 / Wc (uniform) and 1 / (1 + Wc s^2) (Briggs), to rule->rank_level
 * times their mean around the cell. Call it after all weights were added, and again after a change of the sums or of
 * the rule.
 * Given:   rule  with the mode and robustness that msi_density_weight gets; nothing is done if rank_level is below 1
 * Returns: 0, MSI_ENOMEM
 * Notes:   the mean is over the factors that are not 0 in columns x - h to x + h - 1 and rows y - h to y + h - 1, with
 *          h = rank_size / 2, inside the stored half plane. Empty cells have the factor 0 for uniform weights, and 1
 *          for Briggs weights. The function allocates a grid of the size of the sums and, for squares of at least 64
 *          cells, an eighth of this in addition.
 * Source:  WSClean's -weighting-rank-filter, whose default level is 3 and size 16; weights agree to 1e-7 with those
 *          that it writes by -store-imaging-weights.
 */
int msi_density_limit(msi_density *d, const msi_weighting *rule);

/* msi_density_free - NULL-safe. */
void msi_density_free(msi_density *d);

/*
 * msi_density_weight - multiply every weight of a store, in all planes, by density weighting and taper.
 * Given:   density  may be NULL for natural weighting; after msi_density_limit if the rule has a rank_level
 * Returns: 0, MSI_EINTERNAL (the rule needs a density, or its limits); for samples on a GPU also MSI_ENOMEM, MSI_EGPU
 * Notes:   uniform w / Wc; Briggs w / (1 + Wc s^2), s^2 = (5 10^-R)^2 / (sum Wc^2 / sum w). Sums are of plane 0. In a
 *          cell without a sample of plane 0, and for s^2 if plane 0 has no sample, the sums of other planes are used.
 *          If sums of weighted visibilities would leave the range of single precision, all weights are also multiplied
 *          by a power of two (msi_vis_store.weight_scale).
 *          With a bandwidth b, Briggs' Wc is divided by F. Let x be b times the distance of the sample from the uv
 *          origin in cells; F = x + 0.5 if this is at least 1.5, otherwise (4 - x) / (4 - 2 x). A channel then has the
 *          weights of an image of the whole band.
 * Source:  briggsbwtaper of CASA for the latter (BriggsCubeWeightor of casa6, CAS-13021).
 */
int msi_density_weight(struct msi_vis_store *store, msi_density *density, const msi_weighting *rule);

/* msi_uv_taper_is_set - return 1 if a taper has at least one factor. */
int msi_uv_taper_is_set(const msi_uv_taper *taper);

/* msi_uv_taper_fwhm - return the FWHM of the image, in radians, of a Gaussian taper that is 1/2 at this many
 * wavelengths from the origin. */
double msi_uv_taper_fwhm(double half_lambda);

#ifdef __cplusplus
}
#endif
#endif
