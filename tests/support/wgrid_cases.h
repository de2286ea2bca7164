/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Test visibilities for gridders, and comparisons of images with the direct sum. */
#ifndef MSI_TESTS_WGRID_CASES_H
#define MSI_TESTS_WGRID_CASES_H

#include <stddef.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/gridder.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"

/* A field and an array: uvw is drawn so that |u|, |v| reach close to 1/(2 cell), |w| up to w_ratio of that. A stretch,
 * number of planes or band of 0 means 1. */
typedef struct msi_case {
    const char *name;
    int64_t nx, ny;
    double field_x_rad; /* full width along x; pixels are square unless stretch_y differs from 1 */
    double stretch_y;   /* cell_y / cell_x */
    double w_ratio;     /* largest |w| over largest |u| */
    int64_t n_row;
    int32_t n_chan;
    int n_plane;
    double band; /* highest over lowest frequency */
    enum msi_case_layout {
        SPREAD,       /* uniform over the uv disc */
        CONCENTRATED, /* crowded at its centre */
        CORE          /* all within 3 % of it, with a bright source at the centre */
    } layout;
} msi_case;

typedef struct msi_case_data {
    msi_image_geometry geometry;
    msi_vis_block block;
    double *uvw_m, *freq_hz;
    msi_c64 *vis;
    float *weight;
} msi_case_data;

/* msi_case_make - draw a case, the same for the same seed: gaussian visibilities, weights in 0.1 .. 2 and some 0. */
void msi_case_make(msi_case_data *d, const msi_case *given, uint64_t seed);
void msi_case_free(msi_case_data *d);

/*
 * msi_case_serves - return whether the requested strategy has a plan for a case. It may fail with MSI_ERANGE only. The
 * default gridder's w-planes must have a plan.
 */
int msi_case_serves(const msi_case_data *d, const msi_gridder_spec *spec);

/* Arguments of a test of the default gridder. Brief is for tools that slow a program down by a factor of 100: it runs
 * every kernel once, with small cases. */
typedef struct msi_case_choice {
    msi_backend backend;
    const char *strategy;         /* static */
    int is_planes, on_gpu, brief; /* the strategy is planes, the backend cuda */
    int n_tile;                   /* of msi_gridder_spec */
} msi_case_choice;

/*
 * msi_case_choose - parse the arguments of a test: cpu|cuda [planes|subgrid|tiles] [brief]. tiles: whole
 * planes of 3 x 3 tiles of the image.
 * Returns: 0; 77, with a line that gives the reason, if the test cannot run here
 */
int msi_case_choose(int argc, char **argv, msi_case_choice *chosen);

/* msi_case_spec - set the chosen backend and strategy. */
msi_gridder_spec msi_case_spec(const msi_case_choice *chosen, const msi_image_geometry *geometry, int n_plane,
                               double accuracy);

/* msi_case_w_range - find the least and largest |w| of a case's samples, in wavelengths. */
void msi_case_w_range(const msi_case_data *d, double *w_min_lambda, double *w_max_lambda);

/* msi_case_request - make the default gridder's plan request for a store's samples. */
msi_wgrid_request msi_case_request(const msi_image_geometry *image, const msi_vis_store *store, double accuracy,
                                   msi_precision precision, const msi_cost_model *cost);

/* msi_case_image - make an image of all samples of a case. Fails the test on an error. */
void msi_case_image(const msi_case_data *d, const msi_gridder_spec *spec, msi_image *image, msi_gridder_report *report);

enum { MSI_CASE_PIXELS = 300 };

/* The direct sum at some pixels of an image: the corners, the middles of the edges, the centre, and random ones. */
typedef struct msi_case_truth {
    int64_t n, x[MSI_CASE_PIXELS], y[MSI_CASE_PIXELS];
    double value[MSI_CASE_PIXELS];
} msi_case_truth;

/*
 * msi_case_truth_make - compute the direct sum of a case's visibilities at n_pixel pixels (MSI_CASE_PIXELS at most).
 * Given: store_plane  plane of the visibilities (-1: the PSF)
 */
void msi_case_truth_make(msi_case_truth *truth, const msi_case_data *d, int store_plane, int64_t n_pixel,
                         uint64_t seed);

/* msi_case_truth_error - compare (relative L2) a plane of an image with the direct sum. Fails the test if only one
 * of them is NaN. */
double msi_case_truth_error(const msi_case_truth *truth, const msi_image *image, int plane);

/*
 * msi_case_error - compare (relative L2) a plane of an image with the direct sum, both of the above for one
 * image.
 * Given: plane of the image; store_plane its plane of the visibilities (-1: the PSF)
 */
double msi_case_error(const msi_case_data *d, const msi_image *image, int plane, int store_plane, int64_t n_pixel,
                      uint64_t seed);

/* Pixels of one plane of a model, all different: the corners, the middles of the edges, the centre, and random ones. */
typedef struct msi_case_pixels {
    int64_t n, x[MSI_CASE_PIXELS], y[MSI_CASE_PIXELS];
    double flux_jy[MSI_CASE_PIXELS]; /* gaussian; floats, so that both precisions represent them exactly */
} msi_case_pixels;

void msi_case_pixels_draw(msi_case_pixels *p, const msi_image_geometry *g, int64_t n, uint64_t seed);

/* msi_case_model - make an image of n_plane sets of pixels, NaN beyond the horizon. Freed by msi_image_free. */
void msi_case_model(msi_image *model, const msi_image_geometry *g, int n_plane, const msi_case_pixels *pixels,
                    msi_precision precision);

/*
 * msi_case_predict - predict for a case's coordinates from a model; plan and ranges are the case's own.
 * Returned: vis [n_plane][n_row][n_chan]. Fails the test on an error.
 */
void msi_case_predict(const msi_case_data *d, const msi_gridder_spec *spec, const msi_image *model, msi_c64 *vis,
                      msi_gridder_report *report);

/* A case with pixels of each plane, and buffers for their exact and predicted visibilities. */
typedef struct msi_field {
    msi_case_data data;
    msi_case_pixels *pixels; /* [n_plane] */
    msi_c64 *truth, *vis;    /* [n_plane][n_row][n_chan] */
    int64_t n;               /* samples of a plane */
} msi_field;

void msi_field_make(msi_field *f, const msi_case *c, int64_t n_pixel, uint64_t seed);
void msi_field_free(msi_field *f);

/* msi_field_truth - compute the exact sums. msi_field_predict - compute them by a gridder. */
void msi_field_truth(msi_field *f);
void msi_field_predict(msi_field *f, const msi_gridder_spec *spec, msi_gridder_report *report);

/* msi_vis_distance - return the rms difference of n vis from others, divided by the others' rms; *worst is the
 * largest. */
double msi_vis_distance(const msi_c64 *vis, const msi_c64 *truth, int64_t n, double *worst);

/* msi_test_alloc - allocate zeroed memory, for free(); fails the test if there is no memory. */
void *msi_test_alloc(int64_t n, size_t size);

/* msi_random - return a number uniform in [0, 1): a hash of a counter (SplitMix64). */
double msi_random(uint64_t *state);

/* msi_random_whole - draw from, from + 1, .. or to. */
int64_t msi_random_whole(uint64_t *state, int64_t from, int64_t to);

/*
 * msi_case_adjoint - draw an image, a field and an array for a test of adjointness; the same for the same seed.
 * Given: edges of 4 to most_steps times `step` pixels; field of 1e-3 rad and up to `decades` more; most_rows
 * Returned: *random  state for more numbers
 */
msi_case msi_case_adjoint(uint64_t seed, int64_t step, int64_t most_steps, double decades, int64_t most_rows,
                          uint64_t *random);

/* msi_pixel_at - read a pixel in double, whatever the image's precision. */
double msi_pixel_at(const msi_image *image, int64_t at);

/* msi_image_difference - compare (relative L2) a plane of an image with that of another. Fails the test if only one
 * of them is NaN. */
double msi_image_difference(const msi_image *image, const msi_image *truth, int plane);

/* msi_case_noise - make a model of one plane, uniform in -0.5 .. 0.5 within the horizon. msi_image_product - add the
 * products of two images' first planes within the horizon. */
void msi_case_noise(msi_image *model, const msi_image_geometry *geometry, msi_precision precision, uint64_t *random);
double msi_image_product(const msi_image *a, const msi_image *b);

/* msi_vis_product - return Re <a, b>; *norm is |a| |b|. */
double msi_vis_product(const msi_c64 *a, const msi_c64 *b, int64_t n, double *norm);

#endif
