/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A gridder of the installed library: a gridder of the kernels, and the conversion of samples and pixels from the
 * caller's convention to that of the kernels.
 *
 * The kernels' image is l = (nx/2 - x) cell_x, m = (y - ny/2) cell_y. An image of MSIMAGE_XY has the axis that varies
 * fastest, j, along the kernels' x, and i along their y: with l = -y, m = x, and coordinates (v, -u, w), phases are the
 * same, and no pixel moves. If w is ignored, the field is scaled down by a power of two until n is 1 in all of it, and
 * coordinates are scaled up by the same factor.
 */
#ifndef MSI_LIB_LIBRARY_GRIDDER_H
#define MSI_LIB_LIBRARY_GRIDDER_H

#include "kernels/gridder.h"
#include "lib/library.h"
#include "lib/library_gpu.h"
#include "msimage/gridder.h"

/* Totals of some samples. */
typedef struct msi_sample_tally {
    int64_t n;                         /* samples that count */
    int64_t n_left_out;                /* samples that do not count */
    int64_t n_unknown;                 /* rows on the GPU whose coordinates are not finite */
    double w_min_lambda, w_max_lambda; /* range of |w| */
    double largest_jy;                 /* part of a visibility */
    double largest_weight;             /* as given */
} msi_sample_tally;

/* Buffers for a block in the kernels' form; they grow as needed. */
typedef struct msi_sample_buffers {
    double *uvw_m;
    msi_c64 *vis;
    float *weight;
    uint8_t *beyond; /* samples beyond the uv plane */
    int64_t n_row, n_sample;
} msi_sample_buffers;

struct msimage_gridder {
    msimage_gridder_spec spec; /* its strings must not be used */
    msimage_callbacks callbacks;
    msi_gridder *inner;
    msi_library_gpu *gpu;    /* NULL if the host does the work */
    int is_on_host;          /* samples are in host memory, even if the work is done on a GPU */
    msi_precision precision; /* precision of the work */
    msi_array_place place;
    int n_plane, n_thread;
    int is_xy;
    int folds;       /* weights are multiplied into visibilities */
    int is_weighted; /* by density weights */
    double scale;    /* scale of the field */
    msi_image_geometry geometry;
    double l_rad, m_rad; /* the kernels' direction of pixel (nx/2, ny/2) */
    msi_sample_tally samples;
    msi_sample_buffers buffers;

    /* For residuals: */
    msi_planes *model, *residual, *psf; /* the model also serves predictions on the GPU */
    void *dirty; /* [n_plane] images in the work's precision, divided by the sum of weights; NULL: not made yet */
    msi_planes *gpu_dirty; /* the same on the GPU */

    /* For predictions: */
    int is_predicted, is_nan[MSI_GRIDDER_MAX_PLANES];
    int64_t n_fetched; /* blocks fetched from the GPU since the prediction */
};

/* ---- Samples (library_samples.c) -------------------------------------------------------------------------------- */

/* msi_library_check - check samples. Given: freq_hz  theirs, in host memory. Returns: 0, MSI_EARGUMENT, MSI_ERANGE */
int msi_library_check(const msimage_samples *samples, const double *freq_hz);

/* msi_library_add - convert samples in host memory and add them to the kernels' gridder. */
int msi_library_add(msimage_gridder *g, const msimage_samples *samples);

/* msi_library_fetch - fetch predicted visibilities in host memory, in the caller's convention. */
int msi_library_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

void msi_library_buffers_free(msi_sample_buffers *buffers);

#endif
