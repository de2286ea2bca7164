/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridded planes to an image on the CPU. A plane's transform is two passes of one-dimensional ones: rows that hold
 * something, then only columns that the image keeps, each screened and added to the image while it is in cache.
 */
#ifndef MSI_KERNELS_IMAGE_SUM_CPU_H
#define MSI_KERNELS_IMAGE_SUM_CPU_H

#include "core/image.h"
#include "kernels/method/method.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"
#include "kernels/transform/taper_correction.h"

/*
 * msi_image_sum_add - fold a plane's guards, transform and screen it, add it to an image, and leave it zero.
 *
 * Given:              p  whose geometry, transforms and column buffers are used; w_lambda of the plane
 * Given and returned: plane, row_used [n_row]  rows that hold something: both zero afterwards
 *                     sum [nx][ny]  the image before correction, transposed; in double, as thousands of planes add up
 */
void msi_image_sum_add(const msi_wgrid_planes *p, char *plane, uint8_t *row_used, double w_lambda, double *sum);

/*
 * msi_image_sum_correct - divide the windows out, normalise weights, blank pixels beyond the horizon, and put rows and
 * columns in FITS order.
 * Given:    sum [nx][ny] of msi_image_sum_add, taper
 * Returned: a plane of image, whose sum_weight is set (0: NaN)
 */
void msi_image_sum_correct(const msi_wgrid_planes *p, const double *sum, const msi_taper *taper, msi_image *image,
                           int plane);

/* A strategy grids all w-planes of an image plane and adds them to the sum. */
typedef struct msi_plane_imager {
    const msi_wgrid_planes *planes;
    msi_buckets *buckets; /* filled by msi_image_sum_make */
    double *sum;          /* [nx][ny] see msi_image_sum_add */
    /* Returns 0, MSI_EINTERRUPTED. Given: store_plane  of the visibilities, -1: the PSF */
    int (*add_plane)(void *of, int store_plane, msi_stage_times *times);
    void *of;
} msi_plane_imager;

/*
 * msi_image_sum_make - sort a store's samples and make all planes of an image, one after the other.
 * Given:              store_plane [image->n_plane]
 * Given and returned: image  whose sum_weight is set; times
 * Returns:            0, MSI_ENOMEM, what add_plane returns
 */
int msi_image_sum_make(const msi_plane_imager *imager, const msi_vis_store *store, const int *store_plane,
                       msi_image *image, msi_stage_times *times);

#endif
