/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Visibilities with which gridders are tested, and how an image is held against the direct sum. */
#ifndef MSI_TESTS_WGRID_CASES_H
#define MSI_TESTS_WGRID_CASES_H

#include "core/image.h"
#include "core/vis_block.h"
#include "kernels/gridder.h"

/* A field and an array: uvw is drawn so that |u|, |v| reach close to 1/(2 cell), |w| up to w_scale of that. */
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
        SPREAD,
        CONCENTRATED,
        CORE
    } layout; /* uniform over the uv disc; crowded at its centre; all
                 within 3 % of it, with a bright source at the centre */
} msi_case;

typedef struct msi_case_data {
    msi_image_geometry geometry;
    msi_vis_block block;
    double *uvw_m, *freq_hz;
    msi_c64 *vis;
    float *weight;
} msi_case_data;

/* msi_case_make - random, the same for the same seed: gaussian visibilities, weights in 0.1 .. 2 and some 0. */
void msi_case_make(msi_case_data *d, const msi_case *c, uint64_t seed);
void msi_case_free(msi_case_data *d);

/* msi_case_image - one image of everything in the case by a gridder. Fails the test on an error. */
void msi_case_image(const msi_case_data *d, const msi_gridder_spec *spec, msi_image *image, msi_gridder_report *report);

/*
 * msi_case_error - relative L2 difference between a plane of an image and the direct sum, over n_pixel pixels: the
 * corners, the middles of the edges, the centre, the rest drawn at random.
 * Given: plane of the image; store_plane its plane of the visibilities (-1: the PSF)
 */
double msi_case_error(const msi_case_data *d, const msi_image *image, int plane, int store_plane, int64_t n_pixel,
                      uint64_t seed);

/* msi_random - uniform in [0, 1), a counter hashed (SplitMix64). */
double msi_random(uint64_t *state);

#endif
