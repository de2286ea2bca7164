/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Join finished images by beam and noise:
 *
 *     I = sum of w P D / S,    S = sum of w P^2,    w = 1 / rms^2
 *
 * D is an image of flat noise, P the response of its primary beam, rms its noise. The weight of I is S and its noise is
 * 1 / sqrt(S). Images are interpolated to the pixels of the mosaic; cubes are joined plane by plane.
 */
#ifndef MSI_JOIN_IMAGES_H
#define MSI_JOIN_IMAGES_H

#include <stdint.h>

#include "core/image.h"

typedef enum msi_join_beams { MSI_JOIN_EACH, MSI_JOIN_COMMON, MSI_JOIN_LARGEST } msi_join_beams;

/* Images to join, and the rules for joining. Texts are borrowed. */
typedef struct msi_join_spec {
    int n_file;
    const char *const *file; /* [n_file] */
    const char *name;        /* the beginning of the outputs' names */
    const char *pb;          /* a word of msi_pb_model, or off: images of response 1 */
    const char *pb_images;   /* names separated by commas, or one with a * for an input's beginning; NULL: none */
    int is_corrected;        /* images are divided by their responses already */
    const char *rms;         /* in their unit, separated by commas; "equal"; NULL: measured */
    double pblimit;          /* the mosaic ends where its response, sqrt(S / max S), is less */
    int64_t nx, ny;          /* size of the mosaic; 0: chosen */
    double cell_rad;         /* 0: chosen */
    double centre_rad[2];    /* NaN: chosen */
    msi_join_beams beams;
    msi_beam beam; /* unknown: as `beams` says */
    int overwrite;
    const char *command_line;
} msi_join_spec;

/*
 * msi_join_run - join images and write NAME-image.fits, NAME-weight.fits and NAME-noise.fits.
 * Returns: 0, MSI_EUSAGE, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_join_run(const msi_join_spec *spec);

#endif
