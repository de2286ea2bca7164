/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An input image of a mosaic: its header, noise, primary beam, and position in the mosaic. */
#ifndef MSI_JOIN_INPUT_H
#define MSI_JOIN_INPUT_H

#include <stdint.h>

#include "core/image.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"
#include "src/join/join_images.h"
#include "src/pb/pb_model.h"

/* ---- Positions of a mosaic's pixels in an image of any projection, and interpolated values ---- */

/* The position of a pixel of the mosaic in an image. */
typedef struct msi_join_place {
    double at[2];  /* pixel position in the image, 0-based; NaN: the image does not contain the direction */
    double off[2]; /* angular offsets from the pointing towards east and north; hypot(off) is the angle from it */
} msi_join_place;

/* Places at nodes a few pixels apart, around the image. Places of other pixels are interpolated. */
typedef struct msi_join_map {
    int64_t nx, ny;           /* numbers of nodes */
    int64_t first_x, first_y; /* the second node is at this multiple of the distance of nodes in the mosaic */
    msi_join_place *node;     /* [ny][nx] owned */
    int64_t x0, y0, x1, y1;   /* only pixels x0 <= x < x1, y0 <= y < y1 can be in the image */
} msi_join_map;

/*
 * msi_join_map_make - compute the nodes.
 * Given:    geometry, wcs  geometry and coordinates of the mosaic
 *           image, n       coordinates of the image, and its numbers of pixels along x and y
 *           pointing_deg   longitude and latitude
 * Returned: *out  emptied by msi_join_map_free; empty on failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_join_map_make(msi_join_map *out, const msi_image_geometry *geometry, const msi_sky_wcs *wcs,
                      const msi_sky_wcs *image, const int64_t n[2], const double pointing_deg[2]);

/*
 * msi_join_map_row - interpolate the places of row y <= y1. Several threads may call it.
 * Given:    scratch [nx]
 * Returned: place [x1 - x0 + 1]
 */
void msi_join_map_row(const msi_join_map *m, int64_t y, msi_join_place *scratch, msi_join_place *place);

/*
 * msi_join_sample - interpolate an image from 8 x 8 pixels, with a sinc and a Kaiser window. Several threads may call
 * it.
 * Given:    pixel [n[1]][n[0]]  NaN: no value; at  position
 * Returns:  NaN outside the image, and next to a pixel without a value
 */
double msi_join_sample(const float *pixel, const int64_t n[2], const double at[2]);

/* msi_join_offset - compute the angular offsets of a direction from a pointing, as in msi_join_place.off. */
void msi_join_offset(const double sky_deg[2], const double pointing_deg[2], double off[2]);

enum { MSI_JOIN_RADII = 4096 };

typedef struct msi_join_input {
    const char *path;     /* borrowed */
    char *pb_path;        /* owned; NULL: the beam comes from the model, or is 1 */
    msi_fits_view header; /* without pixels */
    char frame[16];       /* frame of directions, as in Measurement Sets */
    double freq_hz, step_hz;
    int64_t n_plane, n_pb_plane;
    double pointing_deg[2], centre_deg[2];
    int has_pointing; /* 1: the header has a pointing; 0: it is the reference position */
    /* At the reference position: size of a pixel along x and y; angle of the columns from north through east; and
     * whether rows and columns are at right angles, and not mirrored. */
    double cell_rad[2], column_rad;
    int is_plain;
    double rms;     /* NaN: measured */
    msi_beam *beam; /* [n_plane] owned */
    msi_pb_model *model;
    double reach_rad, *profile; /* [MSI_JOIN_RADII + 1] owned: response by angle up to reach_rad */
    int is_fixed;               /* 1: the beam is fixed on the sky, and not symmetric, so there is no profile */
    double profile_hz;          /* the frequency of the response */
    double turn_rad;            /* position angle, in the mosaic, of north at its reference position */
    int is_unseen;              /* 1: the warning that the image has no response in the mosaic was logged */
    msi_join_map map;
} msi_join_input;

/*
 * msi_join_input_open - read the header of input i.
 * Returned: *in  emptied by msi_join_input_free, also after a failure
 * Returns:  0, MSI_EUSAGE, MSI_EINPUT (no image of the sky; several polarisations; no beam can be found), MSI_ENOMEM
 */
int msi_join_input_open(msi_join_input *in, const msi_join_spec *spec, int i);
void msi_join_input_free(msi_join_input *in);

/* msi_join_input_alike - check that an input can be joined to the first. Returns: 0, MSI_EINPUT */
int msi_join_input_alike(const msi_join_input *in, const msi_join_input *first);

/* msi_join_input_freq - return the frequency of a plane. */
double msi_join_input_freq(const msi_join_input *in, int64_t plane);

/* msi_join_input_profile - compute the response of the model at a plane's frequency. */
void msi_join_input_profile(msi_join_input *in, int64_t plane);

/* msi_join_input_response - return the response at angles from the pointing (msi_join_offset) at the frequency of the
 * last profile; 1 without a model. */
double msi_join_input_response(const msi_join_input *in, const double off[2]);

/* msi_join_is_per - return 1 if the unit of an input contains a word, such as beam or pixel, in any case. */
int msi_join_is_per(const msi_join_input *in, const char *word);

/* msi_join_rms_is_equal - return 1 if -rms is "equal": all images have the same, unknown noise. */
int msi_join_rms_is_equal(const msi_join_spec *spec);

#endif
