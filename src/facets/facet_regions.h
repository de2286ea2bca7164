/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Facets: areas that together cover an image. Each has a direction, and gains of this direction. Facets are polygons of
 * a DS9 region file, or Voronoi cells of directions: each pixel belongs to the direction at the smallest angle.
 *
 * The feather is a band along the common border of facets. There each pixel is a weighted mean of the facets near it;
 * the weights sum to 1. Facets of a grid overlap more: their weights interpolate between the nodes of the grid.
 */
#ifndef MSI_FACET_REGIONS_H
#define MSI_FACET_REGIONS_H

#include "core/image.h"

typedef struct msi_facet {
    char name[64];          /* text of the region, or "" */
    double ra_rad, dec_rad; /* its direction */
    int64_t x0, y0, nx, ny; /* the box of its pixels with feather; nx and ny are even */
    int64_t n_pixel;        /* pixels that belong to it */
} msi_facet;

typedef struct msi_facets {
    msi_image_geometry geometry;
    double ra_rad, dec_rad; /* centre of the image */
    int n;
    msi_facet *facet;
    int16_t *label;  /* [ny][nx] the facet of a pixel; -1: beyond the horizon */
    int64_t feather; /* half of its width, in pixels */
    int64_t node[2]; /* columns and rows of a grid of facets (msi_facets_grid); 0: none */
} msi_facets;

/* The image that is divided. */
typedef struct msi_facet_target {
    msi_image_geometry geometry;
    double ra_rad, dec_rad; /* its centre */
    const char *frame;      /* frame of the centre: J2000, ICRS .. */
    double feather_pixel;   /* width of the feather; negative: 1 % of the image */
} msi_facet_target;

/*
 * msi_facets_read - read a DS9 file: polygon(ra, dec, ..) in degrees, optional text={NAME}, and point(ra, dec) on a
 * later line for the direction of the polygon before it; otherwise the direction is the centroid.
 * Returned: *out  emptied by msi_facets_free; empty on failure
 * Returns:  0, MSI_EINPUT (not such a file; facets overlap, leave a part of the image free, or lie outside of it; the
 *           image is in another frame), MSI_ENOMEM
 */
int msi_facets_read(msi_facets *out, const char *path, const msi_facet_target *target);

/*
 * msi_facets_auto - make the Voronoi cells of directions; those without a pixel in the image are left out.
 * Given:    from  a number of facets, whose directions are spread evenly over the image; or a file with a direction in
 *                 each line: RA DEC, and optionally a name
 * Returned, returns: as msi_facets_read
 */
int msi_facets_auto(msi_facets *out, const char *from, const msi_facet_target *target);

enum { MSI_STENCIL = 6 }; /* nodes in each direction */

/*
 * msi_facets_grid - make facets of nx x ny nodes from one corner of the image to the other. Their weights at a pixel
 * come from Lagrange's interpolation between the MSI_STENCIL nearest nodes, or all if there are fewer. A negative
 * weight is possible; they sum to 1.
 * Given:    only_directions  without boxes and labels
 * Returned, returns: as msi_facets_read
 */
int msi_facets_grid(msi_facets *out, int64_t nx, int64_t ny, int only_directions, const msi_facet_target *target);

/* msi_facets_stencil - compute the weights of the nodes from which a position is interpolated. Given: at  0 to 1; n
 * nodes, spaced from 0 to 1. Returns the first node */
int64_t msi_facets_stencil(double at, int64_t n, int *n_weight, double weight[MSI_STENCIL]);

/* msi_facets_place - set the direction of a facet to a position, in pixels of the image. */
void msi_facets_place(const msi_facet_target *target, const double at[2], msi_facet *facet);

/* msi_facets_centre - return the direction of the middle pixel of a facet's box as l, m in the image. */
void msi_facets_centre(const msi_facets *f, int facet, double *l, double *m);

/*
 * msi_facets_weights - compute the weight of a facet at the pixels of its box.
 * Returned: weight [ny][nx] of the box
 * Returns:  0, MSI_ENOMEM
 */
int msi_facets_weights(const msi_facets *f, int facet, float *weight);

/* msi_facets_free - free the arrays, and leave *f empty. */
void msi_facets_free(msi_facets *f);

#endif
