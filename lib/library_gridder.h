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

/*
 * msi_library_hessian_scale - find a model's factor, given the sum of its pixels' squares. The residual of a model
 * m is D - H m, H being the normal operator. A model is brought to a scale at which what it predicts is a thousand
 * times the data and more, so that nothing is lost in D - (D - s H m).
 */
double msi_library_hessian_scale(const msimage_gridder *g, double squares);

/* msi_library_forget_dirty - free the image of the visibilities, which hessian keeps. */
void msi_library_forget_dirty(msimage_gridder *g);

/* msi_library_predict - predict by the kernels' gridder, which borrows the model meanwhile. */
int msi_library_predict(msimage_gridder *g, const msi_image *model);

/* ---- Pixels (library_pixels.c) ---------------------------------------------------------------------------------- */

/* msi_library_n_pixel - count the pixels of all planes. */
int64_t msi_library_n_pixel(const msimage_gridder *g);

/* msi_library_image_bytes - count those of the caller's images; msi_library_work_bytes - in the work's precision. */
int64_t msi_library_image_bytes(const msimage_gridder *g, int n_plane);
int64_t msi_library_work_bytes(const msimage_gridder *g, int n_plane);

/*
 * msi_library_model - make a model the kernels' way: in the work's precision, divided by n where that is asked for.
 * Given:    scale  that it is multiplied by
 * Returned: model  [n_plane] images; is_nan [n_plane] whether one has a value that is not finite, which is then 0
 */
void msi_library_model(const msimage_gridder *g, const void *from, double scale, void *model, int *is_nan);

/*
 * msi_library_pixels - describe images as the caller takes them.
 * Given: from  [n_plane] images in the work's precision, divided by the sums of weights; sum_weight [n_plane]
 */
void msi_library_pixels(const msimage_gridder *g, const void *from, const double *sum_weight, int n_plane, void *to);

/* ---- Samples (library_samples.c) -------------------------------------------------------------------------------- */

/* msi_library_check - check samples. Given: freq_hz  theirs, in host memory. Returns: 0, MSI_EARGUMENT, MSI_ERANGE */
int msi_library_check(const msimage_samples *samples, const double *freq_hz);

/* msi_library_add - hand samples in host memory to the kernels' gridder. */
int msi_library_add(msimage_gridder *g, const msimage_samples *samples);

/* msi_library_fetch - fetch the predicted visibilities in host memory, as the caller takes them. */
int msi_library_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

void msi_library_room_free(msi_sample_room *room);

#endif
