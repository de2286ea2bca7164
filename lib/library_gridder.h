/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A gridder of the installed library: one of the kernels', and what its convention, samples and pixels are to that.
 *
 * The kernels' image is l = (nx/2 - x) cell_x, m = (y - ny/2) cell_y. An image of MSIMAGE_XY has the axis that varies
 * fastest, j, along the kernels' x, and i along their y: with l = -y, m = x, and coordinates (v, -u, w), phases are the
 * same, and no pixel moves. Where w is ignored, the field is made so small that n is 1 in all of it, by a power of two,
 * and coordinates are as much larger.
 */
#ifndef MSI_LIB_LIBRARY_GRIDDER_H
#define MSI_LIB_LIBRARY_GRIDDER_H

#include "kernels/gridder.h"
#include "lib/library.h"
#include "lib/library_gpu.h"
#include "msimage/gridder.h"

/* A pass over some samples comes to this. */
typedef struct msi_sample_tally {
    int64_t n;                         /* that count */
    int64_t n_left_out;                /* that do not */
    int64_t n_unknown;                 /* rows on the GPU whose coordinates are not finite */
    double w_min_lambda, w_max_lambda; /* of |w| */
    double largest_jy;                 /* part of a visibility */
} msi_sample_tally;

/* Room for a block as the kernels take it; grows. */
typedef struct msi_sample_room {
    double *uvw_m;
    msi_c64 *vis;
    float *weight;
    uint8_t *beyond; /* samples that are a period away */
    int64_t n_row, n_sample;
} msi_sample_room;

struct msimage_gridder {
    msimage_gridder_spec spec; /* its strings are not to be looked at */
    msimage_callbacks callbacks;
    msi_gridder *inner;
    msi_library_gpu *gpu;    /* NULL where the host does the work */
    int is_on_host;          /* samples are in host memory, wherever the work is done */
    msi_precision precision; /* of the work */
    msi_array_place place;
    int n_plane, n_thread;
    int is_xy;
    int folds;       /* weights are multiplied into visibilities */
    int is_weighted; /* by density weights */
    double scale;    /* of the field */
    msi_image_geometry geometry;
    double l_rad, m_rad; /* the kernels' direction of pixel (nx/2, ny/2) */
    msi_sample_tally samples;
    msi_sample_room room;

    /* These serve residuals. */
    msi_planes *model, *residual, *psf; /* the model serves predictions on the GPU too */
    void *dirty;           /* [n_plane] images in the work's precision, by the sum of weights; NULL: not made yet */
    msi_planes *gpu_dirty; /* the same on the GPU */

    /* These serve predictions. */
    int is_predicted, is_nan[MSI_GRIDDER_MAX_PLANES];
    int64_t n_fetched; /* blocks on the GPU, since the prediction */
};

/* ---- Samples (library_samples.c) -------------------------------------------------------------------------------- */

/* msi_library_check - check samples. Given: freq_hz  theirs, in host memory. Returns: 0, MSI_EARGUMENT, MSI_ERANGE */
int msi_library_check(const msimage_samples *samples, const double *freq_hz);

/* msi_library_add - hand samples in host memory to the kernels' gridder. */
int msi_library_add(msimage_gridder *g, const msimage_samples *samples);

/* msi_library_fetch - fetch the predicted visibilities in host memory, as the caller takes them. */
int msi_library_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

void msi_library_room_free(msi_sample_room *room);

#endif
