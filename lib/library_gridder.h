/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A gridder of the installed library: a gridder of the kernels, and the conversion of samples and pixels between the
 * caller's convention and that of the kernels.
 *
 * The kernels' image has l = (nx/2 - x) cell_x, m = (y - ny/2) cell_y. In an image of MSIMAGE_XY, the index that varies
 * fastest, j, runs along the kernels' x, and i along their y. With l = -y, m = x and coordinates (v, -u, w) the phases
 * are the same, and no pixel moves. If w is ignored, the field is scaled down by a power of two until n is 1 everywhere
 * in it, and coordinates are scaled up by the same factor.
 */
#ifndef MSI_LIB_LIBRARY_GRIDDER_H
#define MSI_LIB_LIBRARY_GRIDDER_H

#include "kernels/gridder.h"
#include "lib/library.h"
#include "lib/library_gpu.h"
#include "msimage/gridder.h"

/* Totals over samples. */
typedef struct msi_sample_tally {
    int64_t n;                         /* samples that are used */
    int64_t n_left_out;                /* samples that are not used */
    int64_t n_unknown;                 /* rows on the GPU whose coordinates are not finite */
    double w_min_lambda, w_max_lambda; /* range of |w| */
    double largest_jy;                 /* largest real or imaginary part of a visibility */
    double largest_weight;             /* largest weight, as given */
} msi_sample_tally;

/* Buffers for a block in the kernels' form. They grow as needed. */
typedef struct msi_sample_buffers {
    double *uvw_m;
    msi_c64 *vis;
    float *weight;
    uint8_t *beyond; /* 1: the sample is beyond the uv plane */
    int64_t n_row, n_sample;
} msi_sample_buffers;

struct msimage_gridder {
    msimage_gridder_spec spec; /* as given, but its strings must not be used */
    msimage_callbacks callbacks;
    msi_gridder *inner;
    msi_library_gpu *gpu;    /* NULL: the work is done on the host */
    int is_on_host;          /* 1: samples are in host memory, even if the work is done on a GPU */
    msi_precision precision; /* precision of the work */
    msi_array_place place;
    int n_plane, n_thread;
    int is_xy;
    int folds;       /* 1: visibilities are multiplied by weights before they are stored */
    int is_weighted; /* 1: weights have been multiplied by density weights */
    double scale;    /* scale of the field */
    msi_image_geometry geometry;
    double l_rad, m_rad; /* the kernels' direction of pixel (nx/2, ny/2) */
    msi_sample_tally samples;
    msi_sample_buffers buffers;

    /* For residuals: */
    msi_planes *model, *residual, *psf; /* the model is also used for predictions on the GPU */
    /* [n_plane] images of the visibilities in the precision of the work, divided by the sums of weights; NULL: not made
     * yet */
    void *dirty;
    msi_planes *gpu_dirty; /* the same on the GPU */

    /* For predictions: */
    int is_predicted, is_nan[MSI_GRIDDER_MAX_PLANES];
    int64_t n_fetched; /* number of blocks fetched from the GPU since the prediction */
};

/* msi_library_goes_beyond - return 1 if pixels beyond the horizon have values, as in ducc0. If images are divided by n,
 * these pixels are 0. */
static inline int msi_library_goes_beyond(const msimage_gridder *g)
{
    return g->is_xy && !g->spec.ignores_w && !g->spec.divides_by_n;
}

/* ---- Samples (library_samples.c) -------------------------------------------------------------------------------- */

/* msi_library_check - check samples. Given: freq_hz  of the samples, in host memory. Returns: 0, MSI_EARGUMENT,
 * MSI_ERANGE */
int msi_library_check(const msimage_samples *samples, const double *freq_hz);

/* msi_library_add - convert samples in host memory, and add them to the kernels' gridder. */
int msi_library_add(msimage_gridder *g, const msimage_samples *samples);

/* msi_library_fetch - convert predicted visibilities to the caller's convention, in host memory. */
int msi_library_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

void msi_library_buffers_free(msi_sample_buffers *buffers);

#endif
