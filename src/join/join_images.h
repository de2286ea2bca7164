/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Join finished images into a mosaic, weighted by their beams and noise:
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

/* Images to join, and options of the mosaic. Strings are borrowed. */
typedef struct msi_join_spec {
    int n_file;
    const char *const *file; /* [n_file] */
    const char *name;        /* prefix of the names of outputs */
    const char *pb;          /* a value for msi_pb_model_make, or "off" for a response of 1 */
    const char *pb_images; /* files separated by commas, or one name with a * for the start of an input's name; NULL */
    int is_corrected;      /* 1: the images are already divided by their responses */
    const char *rms;       /* noise of the images, in their unit, separated by commas; "equal"; NULL: measured */
    double pblimit;        /* pixels where the response of the mosaic, sqrt(S / max S), is less become NaN */
    int64_t nx, ny;        /* size of the mosaic; 0: chosen */
    double cell_rad;       /* 0: chosen */
    double centre_rad[2];  /* NaN: chosen */
    msi_join_beams beams;
    msi_beam beam; /* beam of the mosaic; unknown: `beams` determines it */
    int overwrite;
    const char *command_line;
} msi_join_spec;

/*
 * msi_join_run - join images and write NAME-image.fits, NAME-weight.fits and NAME-noise.fits.
 * Returns: 0, MSI_EUSAGE, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_join_run(const msi_join_spec *spec);

#endif
