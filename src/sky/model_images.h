/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The models of a run are found among the files of a directory by their names alone. */
#ifndef MSI_MODEL_IMAGES_H
#define MSI_MODEL_IMAGES_H

#include "core/image.h"
#include "core/types.h"

/* These numbers say that a file is no channel image but one without a number, or an MFS image. */
enum { MSI_MODEL_NO_CHANNEL = -1, MSI_MODEL_MFS = -2 };

typedef struct msi_model_name {
    char *path;     /* owned by the list */
    int64_t number; /* of a channel image, or one of the above; MFS images that were chosen have no channel */
    msi_pol pol;    /* 0 where the name tells none */
} msi_model_name;

typedef struct msi_model_names {
    int64_t n;
    msi_model_name *list; /* [n] owned; channel images in order, polarisations in that of msi_pol */
} msi_model_names;

/*
 * msi_model_names_find - find the files NAME[-NNNN|-MFS][-POL]-model.fits: channel images where there are any, else
 * those without a channel, else the MFS images.
 * Given:    name  with its folder, if any
 * Returned: *out  freed by msi_model_names_free; empty on failure
 * Returns:  0, MSI_EINPUT (none; channel images and others, of which it is not clear which are meant; a channel that is
 *           left out; a folder that cannot be read), MSI_ENOMEM
 */
int msi_model_names_find(msi_model_names *out, const char *name);

/* msi_model_names_list - list all files of that form, in no order, none chosen. Returns: 0, MSI_EINPUT, MSI_ENOMEM */
int msi_model_names_list(msi_model_names *out, const char *name);

void msi_model_names_free(msi_model_names *names);

/* The model images of a run are found, read and checked here before visibilities are predicted from them. */

enum { MSI_MODEL_MAX_PLANES = 4 }; /* Stokes parameters or hands of one frequency */

/* A channel holds the images of one frequency. */
typedef struct msi_model_channel {
    double freq_hz;         /* 0 where the headers tell none */
    double low_hz, high_hz; /* the band: both freq_hz where the headers tell no width */
} msi_model_channel;

typedef struct msi_model_images {
    msi_image_geometry geometry; /* even, the projection's centre in pixel (nx/2, ny/2): the files' pixels, and zeros
                                    where they do not reach */
    double ra_rad, dec_rad;      /* the projection's centre */
    char dir_frame[16];          /* J2000, ICRS, B1950 ..; UNKNOWN */
    int64_t n_channel;
    msi_model_channel *channel; /* [n_channel] owned; ascending frequencies */
    int n_plane;
    msi_pol pol[MSI_MODEL_MAX_PLANES]; /* [n_plane] all of I, Q, U, V, or all parallel hands */
    double least_peak_jy;              /* of all planes that are not zero, the faintest one's largest |pixel|; else 0 */
    uint64_t hash;                     /* changes with any pixel, plane or frequency */
    char *names;                       /* owned; the first file, and how many others there are */
    struct msi_model_files *files;     /* owned; where each plane is */
} msi_model_images;

/*
 * msi_model_images_find - find the models called NAME, read all of them and check every pixel.
 *
 * NAME-model.fits, or one for each Stokes parameter or parallel hand, NAME-Q-model.fits; or channel images
 * NAME-0000[-Q]-model.fits, NAME-0001[-Q]-model.fits ..; or, without any of these, NAME-MFS[-Q]-model.fits. A file may
 * hold several planes along STOKES and, unless it is a channel image, along FREQ. A Stokes parameter without a file is
 * zero. All files agree in size, pixels and centre, all polarisations in their channels.
 *
 * Given:    name   with its folder, if any
 *           force  units other than Jy/pixel are taken for it
 * Returned: *out   owned, freed by msi_model_images_free
 * Returns:  0, MSI_EINPUT (no model, or one that cannot be used; the message names the file), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 * Notes:    NaN beyond the horizon counts as zero. Starts no thread. Writes what was read to the log.
 */
int msi_model_images_find(msi_model_images **out, const char *name, int force);

/*
 * msi_model_images_take - read channels [first, first + n) as planes: those of first, then those of the next.
 * Returned: *image  [n x n_plane][ny][nx] Jy/pixel, of the given precision; the caller's, freed by msi_image_free
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    read from the files, unless it is the only channel and taken for the first time.
 */
int msi_model_images_take(msi_model_images *m, int64_t first, int64_t n, msi_precision precision, msi_image *image);

/* msi_model_images_free - free the models and what they own; NULL is allowed. */
void msi_model_images_free(msi_model_images *m);

#endif
