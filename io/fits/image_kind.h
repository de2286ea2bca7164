/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Kinds of images, and the texts of file names, headers and pictures. */
#ifndef MSI_FITS_IMAGE_KIND_H
#define MSI_FITS_IMAGE_KIND_H

/* Kinds from MSI_FITS_WEIGHTS on lie in the uv plane: pixel (nx/2, ny/2) is u = v = 0, u grows with x and v with y, and a
 * pixel is 1 / (n * cell) wavelengths. */
typedef enum msi_fits_kind {
    MSI_FITS_DIRTY,
    MSI_FITS_PSF,
    MSI_FITS_MODEL,
    MSI_FITS_RESIDUAL,
    MSI_FITS_FIRST_RESIDUAL, /* after the first major cycle */
    MSI_FITS_IMAGE,          /* restored */
    MSI_FITS_MASK,           /* 1 where components may lie, or do lie */
    MSI_FITS_INDEX,          /* spectral index of joined channels */
    MSI_FITS_ALPHA,          /* maps of Taylor terms: spectral index, its standard deviation, curvature */
    MSI_FITS_ALPHA_ERROR,
    MSI_FITS_BETA,
    MSI_FITS_IMAGE_PB, /* images corrected for the primary beam: restored or dirty, model, PSF */
    MSI_FITS_MODEL_PB,
    MSI_FITS_PSF_PB,
    MSI_FITS_PBCOR,  /* the restored or dirty image, as tclean corrects it */
    MSI_FITS_PB,     /* the primary beam: response of a plane */
    MSI_FITS_BEAM_0, /* the primary beam as a Hermitian matrix of 16 elements (pb_mean.h) */
    MSI_FITS_BEAM_15 = MSI_FITS_BEAM_0 + 15,
    MSI_FITS_WEIGHT,     /* weights of a mosaic: sum of the weights of fields times their squared responses */
    MSI_FITS_SUM_WEIGHT, /* one pixel: the sum of the weights of all samples */
    MSI_FITS_NOISE,      /* noise of a mosaic */
    MSI_FITS_HORIZON,    /* 1 where components may lie, by -horizon-mask and other masks */
    MSI_FITS_WEIGHTS,
    MSI_FITS_UV_REAL,
    MSI_FITS_UV_IMAG
} msi_fits_kind;

/* The quantity in the pixels of a kind of image. */
typedef enum msi_fits_content {
    MSI_CONTENT_OTHER,
    MSI_CONTENT_BRIGHTNESS, /* Jy/beam */
    MSI_CONTENT_MODEL,      /* Jy/pixel */
    MSI_CONTENT_PSF,
    MSI_CONTENT_INDEX /* of a spectrum */
} msi_fits_content;

typedef struct msi_fits_kind_row {
    const char *name; /* in the names of files */
    msi_fits_content content;
    const char *unit;  /* BUNIT; NULL: none */
    const char *type;  /* BTYPE */
    const char *title; /* title of a picture; NULL: there is no picture of this kind */
    const char *scale; /* title of a picture's colour scale, where it is not the unit */
    int is_of_term;    /* each Taylor term has an image */
    int is_of_channel; /* all planes of a channel have one image */
} msi_fits_kind_row;

/* msi_fits_kind_about - return the row of a kind. */
const msi_fits_kind_row *msi_fits_kind_about(msi_fits_kind kind);

/* msi_fits_is_on_sky - return whether an image of a kind is one of the sky, not of the uv plane. */
int msi_fits_is_on_sky(msi_fits_kind kind);

/* msi_fits_is_index - return whether pixels of a kind describe a spectrum. */
int msi_fits_is_index(msi_fits_kind kind);

/* msi_fits_is_brightness - return whether pixels of a kind are in Jy, per beam or per pixel. */
int msi_fits_is_brightness(msi_fits_kind kind);

/* msi_fits_is_model - return whether pixels of a kind are in Jy/pixel. */
int msi_fits_is_model(msi_fits_kind kind);

/* msi_fits_is_psf - return whether an image of a kind is a point spread function. */
int msi_fits_is_psf(msi_fits_kind kind);

/* msi_fits_has_beam - return whether images of a kind have a beam in the header. */
int msi_fits_has_beam(msi_fits_kind kind);

#endif
