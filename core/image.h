/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images on the sky, names of polarisations, and beams. */
#ifndef MSI_IMAGE_H
#define MSI_IMAGE_H

#include "core/types.h"

/* Pixel (x, y), 0-based, is at l = (nx/2 - x) * cell_x, m = (y - ny/2) * cell_y on the SIN tangent plane. */
typedef struct msi_image_geometry {
    int64_t nx, ny;
    double cell_x_rad, cell_y_rad; /* both positive */
} msi_image_geometry;

/*
 * n_plane images with the same geometry. Pixels beyond the horizon (l^2 + m^2 >= 1) are NaN. The struct belongs to the
 * caller; msi_image_alloc sets the pointers.
 */
typedef struct msi_image {
    msi_image_geometry geometry;
    int n_plane;
    msi_precision precision; /* precision of pixel */
    void *pixel;             /* [n_plane][ny][nx] float or double, Jy/beam */
    double *sum_weight;      /* [n_plane] sum of the weights gridded */
    int64_t *n_vis;          /* [n_plane] samples gridded */
} msi_image;

/*
 * msi_image_alloc - make an image of n_plane planes, all zero.
 * Returned: *image  overwritten; msi_image_free frees its arrays; empty on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_image_alloc(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision);

/* msi_image_alloc_unset - make an image whose pixels are undefined. */
int msi_image_alloc_unset(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision);

/* msi_image_free - free the arrays and leave the struct empty; NULL and an empty struct are fine. */
void msi_image_free(msi_image *image);

/* msi_image_blank - set pixels that are not finite to 0. */
void msi_image_blank(msi_image *image);

/* msi_image_fill_nan - set every pixel of a plane to NaN. An image without samples is unknown, not zero. */
void msi_image_fill_nan(msi_image *image, int plane);

/*
 * msi_image_add - combine the samples of two images. Pixels are weighted means over samples.
 * Given:              image  of the same geometry, planes and precision as sum; planes without weight add nothing
 * Given and returned: sum    pixel, sum_weight and n_vis; all zero before the first image
 */
void msi_image_add(msi_image *sum, const msi_image *image);

/*
 * msi_image_add_weights, msi_image_add_strip - the same in two steps: the first adds sum_weight and n_vis, the
 * second adds the pixels of strip 0 .. n_strip - 1. Threads may add different strips of different images at the same
 * time. To each strip, images must be added in the order in which their weights were added.
 * Returned: part  [n_plane] argument for msi_image_add_strip
 */
void msi_image_add_weights(msi_image *sum, const msi_image *image, double *part);
void msi_image_add_strip(msi_image *sum, const msi_image *image, const double *part, int strip, int n_strip);

/* msi_image_pixel_bytes - return the size of a pixel in bytes. */
static inline int64_t msi_image_pixel_bytes(msi_precision precision)
{
    return precision == MSI_FP32 ? 4 : 8;
}

/* msi_image_value - return element i of an array of pixels. */
static inline double msi_image_value(const void *pixel, msi_precision precision, int64_t i)
{
    return precision == MSI_FP32 ? (double)((const float *)pixel)[i] : ((const double *)pixel)[i];
}

/* msi_image_put - set element i of an array of pixels. */
static inline void msi_image_put(void *pixel, msi_precision precision, int64_t i, double value)
{
    if (precision == MSI_FP32)
        ((float *)pixel)[i] = (float)value;
    else
        ((double *)pixel)[i] = value;
}

/* msi_image_n_pixel - return the number of pixels of one plane. */
static inline int64_t msi_image_n_pixel(const msi_image_geometry *g)
{
    return g->nx * g->ny;
}

/* msi_image_widen - widen the range of n pixels from *from on until *n is even and at least `least`. It stays within
 * 0 .. of - 1 if `of` is even. */
void msi_image_widen(int64_t *from, int64_t *n, int64_t of, int64_t least);

/* msi_image_plane - return a pointer to the pixels of one plane: [ny][nx] of the image's precision. */
static inline void *msi_image_plane(const msi_image *image, int plane)
{
    return (char *)image->pixel + plane * msi_image_n_pixel(&image->geometry) * msi_image_pixel_bytes(image->precision);
}

/* msi_image_set - set pixel i of a plane. */
static inline void msi_image_set(const msi_image *image, int plane, int64_t i, double value)
{
    msi_image_put(msi_image_plane(image, plane), image->precision, i, value);
}

/* msi_pol_name - return the name of a Stokes parameter or correlation, "I", "XX" ..; "?" for another number. */
const char *msi_pol_name(msi_pol pol);

/* A beam: the elliptical Gaussian that approximates the main lobe of a PSF. It has full widths at half maximum, and the
 * position angle of the major axis, from north through east, in [0, pi). A beam whose widths are not positive is
 * unknown: all are 0 if it was not fitted, and NaN if the fit failed. */
typedef struct msi_beam {
    double major_rad, minor_rad, pa_rad;
} msi_beam;

/* msi_beam_known - return 1 if both widths are positive. */
static inline int msi_beam_known(const msi_beam *b)
{
    return b->major_rad > 0 && b->minor_rad > 0;
}

#endif
