/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Find, read and check the model images from which visibilities are predicted. */
#ifndef MSI_MODEL_IMAGES_H
#define MSI_MODEL_IMAGES_H

#include "core/image.h"
#include "core/types.h"
#include "src/sky/stokes.h"

/* ---- Names of files ---- */

/* Values of msi_model_name.number for an image without a number, and for an MFS image. */
enum { MSI_MODEL_NO_CHANNEL = -1, MSI_MODEL_MFS = -2 };

typedef struct msi_model_name {
    char *path;     /* owned by the list */
    int64_t number; /* index of a channel image or Taylor term, or one of the above. MFS images that are used get
                       MSI_MODEL_NO_CHANNEL */
    int is_term;    /* a Taylor term, -ttK */
    msi_pol pol;    /* 0 if the name has none */
    int imaginary;  /* 1: the imaginary part of a cross hand, named for example XYi */
} msi_model_name;

typedef struct msi_model_names {
    int64_t n;
    msi_model_name *list; /* [n] owned; channel images in order, polarisations in the order of msi_pol */
} msi_model_names;

/* msi_model_names_list - list all files NAME..-model.fits, unsorted; with is_true those of true flux,
 * NAME..-model-pb.fits. Returns: 0, MSI_EINPUT, MSI_ENOMEM */
int msi_model_names_list(msi_model_names *out, const char *name, int is_true);

void msi_model_names_free(msi_model_names *names);

/* ---- Images ---- */

enum { MSI_MODEL_MAX_PLANES = 12 }; /* Stokes parameters and hands of one frequency; cross hands have two planes */

/* The images of one frequency. */
typedef struct msi_model_channel {
    double freq_hz;         /* 0 if the headers have none */
    double low_hz, high_hz; /* the band; both are freq_hz if the headers have no width */
} msi_model_channel;

typedef struct msi_model_images {
    msi_image_geometry geometry; /* even, the projection's centre in pixel (nx/2, ny/2): the files' pixels, and zeros
                                    around them */
    double ra_rad, dec_rad;      /* the projection's centre */
    char dir_frame[16];          /* J2000, ICRS, B1950 ..; UNKNOWN */
    int is_taylor; /* channels are the Taylor terms 0, 1 .. of spectra in x = frequency / channel[0].freq_hz - 1 */
    int64_t n_channel;
    msi_model_channel *channel; /* [n_channel] owned; ascending frequencies */
    int64_t n_file_channel;     /* n_channel and the channels without samples, which are left out */
    int n_plane;
    msi_plane plane[MSI_MODEL_MAX_PLANES]; /* [n_plane] I, Q, U, V first, then hands that share no flux with them */
    double least_peak_jy;          /* the smallest peak |pixel| of the planes that are not zero; 0 if there are none */
    uint64_t hash;                 /* changes with any pixel, plane or frequency */
    char *names;                   /* owned; the first file and the number of others, for messages */
    struct msi_model_files *files; /* owned; the file of each plane */
} msi_model_images;

/*
 * msi_model_images_find - find the models called NAME, read them, and check every pixel. The files are
 *
 *     NAME[-POL]-model.fits        one image for all channels
 *     NAME-NNNN[-POL]-model.fits   channel images 0000, 0001 ..
 *     NAME-ttK[-POL]-model.fits    Taylor terms 0, 1 ..
 *     NAME-MFS[-POL]-model.fits    used only without any of the above
 *
 * POL is a Stokes parameter or hand; the imaginary part of a cross hand is in a file with an i, such as XYi. A file may
 * hold several planes along STOKES and, unless it is a channel image, along FREQ. A Stokes parameter without a file is
 * zero. All files must have the same size, pixels and centre, and all polarisations the same channels.
 *
 * Given:    name   with its directory, if any
 *           force  treat other units as Jy/pixel
 *           is_true  use files of true flux, NAME..-model-pb.fits, if there are any
 * Returned: *out   owned, freed by msi_model_images_free
 * Returns:  0, MSI_EINPUT (no model, or an invalid one; the message names the file), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 * Notes:    NaN beyond the horizon is zero. The function starts no thread. It logs the models.
 */
int msi_model_images_find(msi_model_images **out, const char *name, int force, int is_true);

/* Requirements on the models. Members that are zero allow anything. */
typedef struct msi_model_wanted {
    int64_t nx, ny; /* size of the files */
    double cell_rad;
    int64_t n_channel; /* 1: any number */
    int n_pol;
    const msi_pol *pol; /* [n_pol] in any order */
} msi_model_wanted;

/* msi_model_images_check - compare the models with options of the command line. Returns: 0, MSI_EINPUT (the message
 * names the option) */
int msi_model_images_check(const msi_model_images *m, const msi_model_wanted *wanted);

/*
 * msi_model_images_load - read channels [first, first + n) as planes: those of the first channel, then of the next.
 * Returned: *image  [n x n_plane][ny][nx] Jy/pixel, of the given precision; the caller's, freed by msi_image_free
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    at the first call the pixels of a single channel are still in memory; otherwise they are read from the
 * files.
 */
int msi_model_images_load(msi_model_images *m, int64_t first, int64_t n, msi_precision precision, msi_image *image);

/* msi_model_images_free - free the models; NULL-safe. */
void msi_model_images_free(msi_model_images *m);

#endif
