/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A field has visibilities in the store that strategies of the plan API take, and the results that are right: direct
 * Fourier sums, in double with phases in long double, at some pixels of an image and some visibilities of a model.
 * Values are functions of their index and the seed, so that those that a prediction has overwritten can be drawn again.
 */
#ifndef MSI_BENCH_WORKLOAD_FIELD_H
#define MSI_BENCH_WORKLOAD_FIELD_H

#include "core/image.h"
#include "kernels/bench/bench.h"
#include "kernels/store/vis_store.h"

enum {
    MSI_BENCH_FIELD_PLANES = 4,
    MSI_BENCH_FIELD_MAX_CHAN = 16,
    MSI_BENCH_FIELD_MAX_PIXEL = 200,
    MSI_BENCH_FIELD_SOURCES = 64
};

/* Pixels whose values are known: some corners, middles of edges and the centre first, the others drawn. */
typedef struct msi_bench_field_pixels {
    int n;
    int64_t x[MSI_BENCH_FIELD_MAX_PIXEL], y[MSI_BENCH_FIELD_MAX_PIXEL];
} msi_bench_field_pixels;

typedef struct msi_bench_field {
    /* The caller sets these before msi_bench_field_fill; uvw_m passes to the field, msi_bench_field_free frees it */
    msi_image_geometry geometry;
    int64_t n_row;
    int32_t n_chan;
    int n_plane;
    msi_precision precision;
    double freq_hz[MSI_BENCH_FIELD_MAX_CHAN]; /* evenly spaced */
    double *uvw_m;                            /* [n_row][3] */
    double w_min_lambda, w_max_lambda;        /* of |w| over rows and channels */
    double flagged;                           /* fraction of samples of weight 0 */
    int n_pixel;                              /* at which images are checked, up to MSI_BENCH_FIELD_MAX_PIXEL */
    uint64_t seed;
    int procedural; /* no station table was given */
    /* Made by msi_bench_field_fill */
    float *weight; /* of the store */
    void *vis;
    int overwritten; /* vis holds a prediction, not the values drawn */
    msi_vis_store store;
    double sum_weight[MSI_BENCH_FIELD_PLANES];
    double rms[MSI_BENCH_FIELD_PLANES + 1]; /* of images where no two samples interfere, the PSF last */
    int64_t n_vis[MSI_BENCH_FIELD_PLANES];
    msi_bench_field_pixels checked;
    double *truth; /* [n_plane + 1][checked.n], the PSF last; NULL until an image was held against it */
} msi_bench_field;

/* msi_bench_field_fill - make the store, weights and visibilities of a field whose first members are set. Returns: 0,
 * MSI_ENOMEM
 */
int msi_bench_field_fill(msi_bench_field *f);
void msi_bench_field_free(msi_bench_field *f);

/* msi_bench_field_use - make the store one to image (visibilities as they were drawn) or one to predict into. */
void msi_bench_field_use(msi_bench_field *f, int to_predict);

/*
 * msi_bench_field_image_error - compare (relative L2) an image's worst plane with direct sums at the checked pixels:
 * relative to their rms, or to that of the image if samples did not interfere, where a few happen to cancel.
 * Given:   image  of the field's geometry; store_plane [image->n_plane], -1: the PSF of plane 0
 * Returns: 0, MSI_ENOMEM
 */
int msi_bench_field_image_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double *error);

/* msi_bench_field_residual_error - return the same of images from which a source of centre_jy was subtracted: one at
 * the centre pixel of plane 0, which leaves that much less of the PSF. */
int msi_bench_field_residual_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double centre_jy,
                                   double *error);

/* msi_bench_field_model - make n_plane images of MSI_BENCH_FIELD_SOURCES pixels, the rest 0. Returned: *model, freed by
 * msi_image_free
 */
int msi_bench_field_model(const msi_bench_field *f, msi_image *model);

/* msi_bench_field_vis_error - compare (relative L2) what was predicted with that model, at visibilities all over the
 * store.
 */
void msi_bench_field_vis_error(const msi_bench_field *f, const msi_image *model, double *error);

#endif
