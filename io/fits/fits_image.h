/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads FITS images, and writes FITS images with full headers. */
#ifndef MSI_FITS_IMAGE_H
#define MSI_FITS_IMAGE_H

#include "core/image.h"
#include "core/types.h"
#include "io/fits/publish.h"
#include "io/fits/sky_wcs.h"

/* ---- Kinds of images: their words in file names, headers and pictures ---- */

/* Images of kinds from MSI_FITS_WEIGHTS on are in the uv plane: pixel (nx/2, ny/2) is u = v = 0, u grows with x and v
 * with y, and the width of a pixel is 1 / (n * cell) wavelengths. */
typedef enum msi_fits_kind {
    MSI_FITS_DIRTY,
    MSI_FITS_PSF,
    MSI_FITS_MODEL,
    MSI_FITS_RESIDUAL,
    MSI_FITS_FIRST_RESIDUAL, /* residual after the first major cycle */
    MSI_FITS_IMAGE,          /* restored */
    MSI_FITS_MASK,           /* 1 where components are allowed, or were found */
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
    MSI_FITS_HORIZON,    /* 1 where components are allowed by -horizon-mask and other masks */
    MSI_FITS_WEIGHTS,
    MSI_FITS_UV_REAL,
    MSI_FITS_UV_IMAG
} msi_fits_kind;

/* The quantity that pixels of a kind have. */
typedef enum msi_fits_content {
    MSI_CONTENT_OTHER,
    MSI_CONTENT_BRIGHTNESS, /* Jy/beam */
    MSI_CONTENT_MODEL,      /* Jy/pixel */
    MSI_CONTENT_PSF,
    MSI_CONTENT_INDEX /* spectral index or curvature */
} msi_fits_content;

typedef struct msi_fits_kind_row {
    const char *name; /* the kind in file names */
    msi_fits_content content;
    const char *unit;  /* BUNIT; NULL: none */
    const char *type;  /* BTYPE */
    const char *title; /* title of a picture; NULL: no pictures are made of this kind */
    const char *scale; /* title of a picture's colour scale, if it is not the unit */
    int is_of_term;    /* 1: there is an image for each Taylor term */
    int is_of_channel; /* 1: there is one image for all planes of a channel */
} msi_fits_kind_row;

/* msi_fits_kind_about - return the row of a kind. */
const msi_fits_kind_row *msi_fits_kind_about(msi_fits_kind kind);

/* msi_fits_is_on_sky - return 1 for images of the sky, 0 for images of the uv plane. */
int msi_fits_is_on_sky(msi_fits_kind kind);

/* msi_fits_is_index - return 1 if pixels of a kind describe a spectrum. */
int msi_fits_is_index(msi_fits_kind kind);

/* msi_fits_is_brightness - return 1 if pixels of a kind are in Jy/beam or Jy/pixel. */
int msi_fits_is_brightness(msi_fits_kind kind);

/* msi_fits_is_model - return 1 if pixels of a kind are in Jy/pixel. */
int msi_fits_is_model(msi_fits_kind kind);

/* msi_fits_is_psf - return 1 if images of a kind are point spread functions. */
int msi_fits_is_psf(msi_fits_kind kind);

/* msi_fits_has_beam - return 1 if headers of a kind have a beam. */
int msi_fits_has_beam(msi_fits_kind kind);

enum { MSI_FITS_STOP = 32 };

/* Settings and results of the deconvolution, for the header of a cleaned image. */
typedef struct msi_fits_clean {
    int is_known; /* 0: no card is written */
    int64_t most_iterations;
    double threshold_jy, gain, mgain; /* as given */
    int allow_negative, stop_negative;
    int64_t n_minor, n_major;  /* iterations and major cycles that were made */
    char stop[MSI_FITS_STOP];  /* reason why cleaning stopped */
    double final_threshold_jy; /* threshold of the last cycle, Jy/beam */
    double noise_jy, peak_jy;  /* noise and peak of the residual, Jy/beam; noise NaN: unknown */
    double flux_jy;            /* flux of this image's model */
} msi_fits_clean;

/* The planes of a cube, along the axis FREQ. */
typedef struct msi_fits_cube {
    int64_t n;
    double first_hz, step_hz; /* frequency of the first plane, and the step between planes, which may be negative */
    int is_not_radio;         /* 1: velocities do not follow the radio definition */
    double observer_m_s;      /* velocity of the observer in the frame, away from the source; 0: unknown */
    const msi_beam *beam;     /* [n] beams of the planes, borrowed; NULL: all planes have the image's beam */
} msi_fits_cube;

enum { MSI_CONTOUR_POINTS = 97 };

/* A smooth image, of which pictures show one contour. It has values at points spread from the first to the last
 * pixel. */
typedef struct msi_fits_contour {
    double level;
    float value[MSI_CONTOUR_POINTS][MSI_CONTOUR_POINTS]; /* [y][x]; NaN: unknown */
} msi_fits_contour;

/* msi_fits_contour_pixel - return the index of the pixel, among n, at a point of a contour. */
static inline double msi_fits_contour_pixel(int point, int64_t n)
{
    return (double)(((int64_t)point * (n - 1) + (MSI_CONTOUR_POINTS - 1) / 2) / (MSI_CONTOUR_POINTS - 1));
}

/* The contents of a file. A member that is zero is unknown, unless its comment says otherwise. Strings are borrowed for
 * the call. */
typedef struct msi_fits_spec {
    msi_fits_kind kind;
    msi_image_geometry geometry;        /* geometry of the image on the sky, also for kinds in the uv plane; required */
    const msi_observation *observation; /* required; its empty and zero members give no cards */
    double ra_rad, dec_rad;             /* image centre; the centre of the observation is OBSRA, OBSDEC */
    double freq_hz, bandwidth_hz;       /* centre and total width */
    const msi_fits_cube *cube;          /* NULL: the image is one plane */
    int64_t channel, n_channel;         /* index and number of output channels; channel < 0: all channels combined */
    /* number of Taylor terms, and index of this image's term (NTERMS, TERM); n_term 0: none */
    int n_term, term;
    msi_pol pol;      /* required, also for a PSF; 0: several polarisations, and the file has no STOKES axis */
    const char *unit; /* NULL: Jy/beam, Jy/pixel for a model, Jy for uv, none for weights */
    msi_beam beam;    /* in headers of images in Jy/beam, PSFs and spectral indices */
    msi_fits_clean clean;
    int64_t n_vis;            /* samples gridded (WSCNVIS) */
    double sum_weight;        /* sum of the weights gridded (WSCIMGWG, WSCNORMF) */
    double largest_weight;    /* largest of these weights (WSCENVIS is sum_weight / largest_weight); 0: unknown */
    double sum_vis_weight;    /* sum of the weights of the same samples before density weighting (WSCVWSUM) */
    const char *primary_beam; /* model of the primary beam that the image shows or is corrected for (PBMODEL) */
    const msi_fits_contour *contour;      /* half-power contour of the primary beam, for pictures only; NULL: none */
    const char *weighting;                /* natural, uniform, briggs 0 .. (WSCWEIGH) */
    const char *data_column;              /* (WSCDATAC) */
    int has_field, field_id;              /* the first field imaged, if its number is known (WSCFIELD) */
    int64_t channel_begin, channel_end;   /* selected, end exclusive (WSCCHANS, WSCCHANE); 0, 0: all */
    int64_t interval_begin, interval_end; /* the same for times (WSCTIMES, WSCTIMEE) */
    const char *command_line;             /* command line of any length (HISTORY) */
} msi_fits_spec;

/*
 * msi_fits_write - write output i of a plan as a float32 primary image, and seal it (msi_publish_seal).
 *
 * Given:    spec
 *           pixel [ny][nx] of the given precision; NaN is written as NaN
 * Returns:  0, MSI_EOUTPUT (with the final name and the reason of the system), MSI_EINTERRUPTED, MSI_ERANGE (invalid
 *           coordinates), MSI_ENOMEM
 * Notes:    characters that FITS headers cannot have are written as \xNN.
 */
int msi_fits_write(msi_publish *p, int i, const msi_fits_spec *spec, const void *pixel, msi_precision precision);

/* An image of the sky that was read from a file. */
typedef struct msi_fits_image {
    msi_image_geometry geometry;
    double ra_rad, dec_rad;       /* image centre */
    char dir_frame[16];           /* J2000, ICRS, B1950 ..; UNKNOWN */
    double freq_hz, bandwidth_hz; /* 0 if the header has no frequency */
    msi_pol pol;                  /* I if the header has no Stokes axis */
    char unit[72];                /* BUNIT, "" if absent */
    char primary_beam[72];        /* PBMODEL, "" if absent */
    msi_beam beam;
    int64_t n_nan, n_inf; /* number of NaN and of infinite pixels */
    msi_precision precision;
    void *pixel; /* [ny][nx], owned by the struct */
} msi_fits_image;

/*
 * msi_fits_read - read the first image of a FITS file: the primary HDU, or the first extension if that is empty.
 *
 * Given:    path       a regular file; no character has a special meaning
 *           precision  of the pixels in memory
 * Returned: *image     emptied by msi_fits_image_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a FITS image; compressed; not floating point; several planes; too short for its pixels;
 *           coordinates other than a plain SIN projection about the centre), MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    BSCALE and BZERO are applied. The length of the file is checked before memory for the pixels is allocated.
 */
int msi_fits_read(msi_fits_image *image, const char *path, msi_precision precision);

/* msi_fits_image_free - leave the struct empty. */
void msi_fits_image_free(msi_fits_image *image);

enum { MSI_FITS_MAX_POL = 12 };

/* The header of a file of one or several planes. */
typedef struct msi_fits_header {
    msi_image_geometry geometry; /* geometry of a plane */
    double reference[2];         /* 0-based pixel of the position below; it may be outside the image */
    double ra_rad, dec_rad;      /* position of that pixel: the centre of the SIN projection */
    char dir_frame[16];          /* J2000, ICRS, B1950 ..; UNKNOWN */
    int64_t n_freq;              /* planes along FREQ; 1 without that axis */
    double freq_hz;              /* frequency of the first plane; 0 without the axis FREQ */
    double freq_step_hz;         /* step between planes, or the width of a single plane; 0 without the axis FREQ */
    char spec_frame[16];         /* as in msi_observation; "" if unknown */
    int n_pol, has_pol;          /* planes along STOKES; without axis STOKES, has_pol is 0 and pol[0] is I */
    msi_pol pol[MSI_FITS_MAX_POL];
    msi_precision precision; /* precision of the pixels as stored */
    char unit[72];           /* BUNIT, "" if absent */
    char primary_beam[72];   /* PBMODEL, "" if absent */
    msi_beam beam;
    int is_empty; /* 1: WSCNVIS is 0, which means that no samples were imaged */
} msi_fits_header;

typedef struct msi_fits_file msi_fits_file;

/*
 * msi_fits_open - open a FITS file and read the header of its first image. Unlike msi_fits_read, this accepts several
 * planes along FREQ and STOKES, in any order, and any reference pixel.
 *
 * Returned: *out  closed by msi_fits_close; NULL on failure
 * Returns:  as msi_fits_read
 */
int msi_fits_open(msi_fits_file **out, const char *path);

/* msi_fits_header_get - return the header of an open file, borrowed until msi_fits_close. */
const msi_fits_header *msi_fits_header_get(const msi_fits_file *file);

/*
 * msi_fits_read_plane - read the pixels of a plane, freq < n_freq and pol < n_pol.
 * Returned: pixel [ny] rows of nx float or double, row_pixels >= nx apart
 * Returns:  0, MSI_EINPUT (truncated or corrupt), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_read_plane(msi_fits_file *file, int64_t freq, int pol, msi_precision precision, void *pixel,
                        int64_t row_pixels);

/* msi_fits_close - close a file and free its handle; NULL is fine. */
void msi_fits_close(msi_fits_file *file);

/* A primary beam from a file: responses by direction and frequency. */
typedef struct msi_fits_beam {
    int on_sky; /* 1: axes are RA and DEC; 0: axes are fixed to the dish, towards growing azimuth and up */
    int is_sin; /* 1: pixels are spaced by sines of angles; 0: by angles */
    int64_t nx, ny, n_freq;
    double centre[2];          /* 0-based pixel of the pointing */
    double step_rad[2];        /* size of a pixel: positive to growing azimuth and up, or to growing RA and DEC */
    double *freq_hz, width_hz; /* [n_freq] ascending; width of a plane */
    float *pixel;              /* [n_freq][ny][nx] */
} msi_fits_beam;

/*
 * msi_fits_beam_read - read a beam, with axes RA and DEC, X and Y, L and M, or AZ and EL, and an axis FREQ. Cards
 * GFREQ1, GFREQ2 .. override the frequencies of the axis.
 * Returned: *beam  emptied by msi_fits_beam_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a beam; no axis FREQ), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_beam_read(msi_fits_beam *beam, const char *path);
void msi_fits_beam_free(msi_fits_beam *beam);

/* msi_fits_stokes - return the value on a FITS STOKES axis: I Q U V 1..4, RR LL RL LR -1..-4, XX YY XY YX -5..-8. */
int msi_fits_stokes(msi_pol pol);

/* One plane of any FITS image, for pictures and masks. All kinds of pixels, projections and axes are accepted. */
typedef struct msi_fits_view {
    int64_t nx, ny;
    int64_t plane, n_plane; /* index and number of planes, in the order of the file */
    float *pixel;           /* [ny][nx]; NaN for blank pixels */
    msi_sky_wcs *wcs;       /* NULL if the first two axes are not sky coordinates */
    char ctype[2][72], cunit[2][72];
    double crpix[2], crval[2], cdelt[2]; /* cdelt is not 0 */
    double cell_rad;                     /* size of a pixel in y; 0 without a wcs */
    char object[72], telescope[72], type[72], unit[72];
    double freq_hz, bandwidth_hz; /* frequency and bandwidth of the plane; 0 if unknown */
    int64_t n_freq;               /* planes along FREQ, if it is the third axis; else 1 */
    double rest_freq_hz;          /* 0 if unknown */
    double pointing_deg[2];       /* OBSRA, OBSDEC; NaN if unknown */
    char spec_frame[16];          /* as in msi_observation; "" if unknown */
    int has_pol;
    msi_pol pol; /* valid if has_pol */
    msi_beam beam;
} msi_fits_view;

/*
 * msi_fits_view_read - read one plane of the first image in a file.
 *
 * Given:    path   a regular file; no character has a special meaning
 *           plane  counted from 0 through all axes after the first two; below 0: read the header of plane 0 only
 * Returned: *view  freed by msi_fits_view_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a FITS image, compressed, truncated), MSI_EARGUMENT (no such plane), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_fits_view_read(msi_fits_view *view, const char *path, int64_t plane);

/* msi_fits_view_free - leave the struct empty. */
void msi_fits_view_free(msi_fits_view *view);

/*
 * msi_fits_view_beams - read the beams of the planes of the first image in a file.
 * Given:    n  number of planes; only the axis FREQ may have more than one
 * Returned: beam [n]  from the table BEAMS if the file has one with n rows, else from the header; unknown beams are
 *                     zero
 * Returns:  0, MSI_EINPUT (a damaged table)
 */
int msi_fits_view_beams(msi_beam *beam, int64_t n, const char *path);

/* How an image differs from the one whose header it gets. */
typedef struct msi_fits_change {
    const char *unit; /* BUNIT */
    const char *type; /* BTYPE; NULL: Intensity */
    int one_plane;    /* 1: all axes after the first two have one pixel */
    msi_beam beam;    /* unknown: the header gets no beam */
    const char *command_line;
} msi_fits_change;

/*
 * msi_fits_write_like - write output i of a plan as a float32 primary image, with the axes and cards of the first image
 * in a file, and seal it (msi_publish_seal). Cards about the encoding of pixels are not copied. Cards of the beam are
 * replaced.
 * Given:   path   a regular file; no character has a special meaning
 *          pixel  values of all planes of that image
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_write_like(msi_publish *p, int i, const char *path, const msi_fits_change *change, const float *pixel);

/* Screens: FITS cubes with axes for direction, matrix element, antenna, frequency and time, in the format of WSClean's
 * a-term files. */

typedef struct msi_fits_screen {
    int64_t nx, ny, n_matrix, n_antenna, n_freq, n_time;
    double centre[2];             /* x, y of the reference pixel, counted from 0 */
    double ra_rad, dec_rad;       /* direction of the reference pixel, which is the centre of the SIN projection */
    double step_rad[2];           /* pixel size along RA and DEC, with sign */
    double freq_hz, freq_step_hz; /* frequency of the first plane, and the step */
    double time_s, time_step_s;   /* time of the first plane, and the step; MJD seconds */
    float *pixel;                 /* [n_time][n_freq][n_antenna][n_matrix][ny][nx], finite; units as in the file */
} msi_fits_screen;

/*
 * msi_fits_screen_read - read a screen. Its axes are RA---SIN and DEC--SIN, then any of MATRIX, ANTENNA, FREQ and TIME
 * in any order. An axis that is missing has one plane.
 * Returned: *screen  emptied by msi_fits_screen_free; empty on failure
 * Returns:  0, MSI_EINPUT (not a screen; a pixel is not finite), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_screen_read(msi_fits_screen *screen, const char *path);

/* msi_fits_screen_planes - read only the lengths of the axes MATRIX and ANTENNA. After a failure, a length that was not
 * read is 0. Returns: as above */
int msi_fits_screen_planes(const char *path, int64_t *n_matrix, int64_t *n_antenna);

void msi_fits_screen_free(msi_fits_screen *screen);

#endif
