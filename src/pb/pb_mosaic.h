/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A mosaic: one image of many pointings. Each field is gridded separately, on a box of the image around its pointing.
 * The phase centre of its samples is shifted to the middle of the box. All boxes are on one tangent plane, so no image
 * is resampled.
 *
 *     I = sum over fields of w_f P_f D_f / sqrt(S S_max),    S = sum over fields of w_f P_f^2
 *
 * D_f is the image of a field, P_f the mean response of its samples to the sky, w_f the sum of their weights. I has
 * flat noise; it is true flux times the response sqrt(S / S_max). A model in flux of this image is divided by the
 * response, multiplied by P_f, and subtracted from the samples of each field.
 *
 * With Taylor terms P_f is computed at the nodes x_k of the band (clean_taylor.h); node k has the share g_fk of the
 * weights of a field. A model is multiplied by P_f at each node, and the polynomial through the nodes is subtracted.
 * With the images D_fk of the nodes,
 *
 *     R_t = sum over f, k of w_f x_k^t P_fk D_fk,    S_tq = sum over f, k of w_f g_fk P_fk^2 x_k^(t+q)
 *
 * The terms of true flux are S^-1 R. The images are H S^-1 R times the response, with the Hessian H of all samples
 * without beams, as images without a mosaic are H times the terms. The response makes the noise of term 0 flat. It does
 * not depend on frequency, so the images have the spectra of the sky.
 */
#ifndef MSI_PB_MOSAIC_H
#define MSI_PB_MOSAIC_H

#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/pb/pb_mean.h"

/* A field: all pointings with the same direction and the same kinds of dishes. */
typedef struct msi_mosaic_field {
    int64_t n_pointing;
    msi_pb_pointing *pointing; /* [n_pointing] owned */
    int64_t x0, y0, nx, ny;    /* the box in the image; nx and ny are even */
    double l, m;               /* direction of pixel (nx/2, ny/2) of the box */
    double reach_rad;          /* radius of the field: the beam is 0 farther from the pointing */
    double weight;             /* number of rows */
} msi_mosaic_field;

typedef struct msi_mosaic {
    msi_image_geometry geometry;
    double ra_rad, dec_rad;
    const msi_pb_array *array; /* borrowed */
    int n;
    msi_mosaic_field *field;
    int *of_pointing;   /* [array->n_pointing] the field of a pointing; -1: outside of the image */
    int64_t n_outside;  /* number of pointings outside of the image */
    int n_worker;       /* number of fields that are imaged in parallel */
    int64_t kept_bytes; /* memory that all gridders keep between residuals */
} msi_mosaic;

/*
 * msi_mosaic_make - find the fields and their boxes.
 * Given:    array   borrowed
 *           centre  ra, dec of the image
 *           low_hz  the lowest frequency, at which beams are widest
 * Returned: *out    emptied by msi_mosaic_free; empty on failure
 * Returns:  0, MSI_EINPUT (no field sees the image), MSI_ENOMEM
 */
int msi_mosaic_make(msi_mosaic *out, const msi_pb_array *array, const msi_image_geometry *geometry,
                    const double centre[2], double low_hz);
void msi_mosaic_free(msi_mosaic *m); /* leaves it empty */

/* msi_mosaic_field_of - return the field of a FIELD_ID of a set; -1: none. */
int msi_mosaic_field_of(const msi_mosaic *m, int set, int field_id);

/* msi_mosaic_centre - return the mean direction of pointings, weighted by their rows. Given: by_table  as
 * msi_pb_choice */
void msi_mosaic_centre(const msi_ms_reader *reader, int by_table, double *ra_rad, double *dec_rad);

/* Taylor terms of a channel. */
typedef struct msi_mosaic_terms {
    msi_clean_taylor taylor;
    msi_pb_mean *node; /* [fields][n_node] owned: beams at the nodes */
    double *share;     /* [fields][n_node] owned: share of each node in the weights of the field */
    float *power;      /* [n_node][ny][nx] owned: sum over fields of w_f g_fk P_fk^2 */
} msi_mosaic_terms;

/* An output channel. */
typedef struct msi_mosaic_channel {
    msi_mosaic *mosaic;
    int n_plane;
    msi_gridder **gridder;   /* [fields] gridders of the boxes, with spec.residual; borrowed. NULL: compute no images */
    double *weight;          /* [fields] owned: sums of weights over all ranks; 0: the field has no samples */
    msi_pb_mean *beam;       /* [fields] owned */
    float *response;         /* [ny][nx] owned; 0: not seen */
    double peak;             /* S_max for weights that sum to 1 */
    int64_t *kept_bytes;     /* [fields] owned: memory that each gridder keeps between residuals */
    const uint8_t *seen;     /* [ny][nx] 1: the pixel is seen in another channel; borrowed. NULL: none */
    const msi_plane *planes; /* [n_plane] borrowed */
    msi_mosaic_terms *terms; /* owned; NULL: none. With terms, images have planes [n_plane][n_term] */
} msi_mosaic_channel;

/*
 * msi_mosaic_channel_make - compute the beams and the response of a channel.
 * Given:    weight [fields]  owned by *out afterwards
 *           planes [n_plane]; freq_hz, of_freq [n_freq]  as msi_pb_target
 * Returned: *out  emptied by msi_mosaic_channel_free; empty on failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_mosaic_channel_make(msi_mosaic_channel *out, msi_mosaic *m, double *weight, const msi_plane *planes,
                            int n_plane, int n_freq, const double *freq_hz, const double *of_freq);
void msi_mosaic_channel_free(msi_mosaic_channel *c); /* leaves it empty */

/*
 * msi_mosaic_channel_terms - prepare a channel for Taylor terms. Its gridders must have 2 n_term - 1 terms. Changes the
 * response.
 * Given:   moment [fields][2 n_term - 1]  sums of weights times powers of x over all ranks
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_mosaic_channel_terms(msi_mosaic_channel *c, const msi_clean_taylor *taylor, const double *moment);

/*
 * msi_mosaic_correct_terms - divide the terms of an image by the response.
 * Given:              limit       pixels where the response is at or below it become NaN
 * Given and returned: term        [n_term][n_plane] images
 * Returned:           beam        [n_term][n_plane]: the response, which does not depend on frequency, as term 0
 *                     covariance  3 images, as msi_pb_mean_correct_terms; or NULL
 */
void msi_mosaic_correct_terms(const msi_mosaic_channel *c, double limit, msi_image *term, msi_image *beam,
                              msi_image *covariance);

/*
 * msi_mosaic_image - image the samples of a channel, less those of a model.
 * Given:    model  in the flux of the image; NULL: nothing is subtracted
 * Returned: *out   planes, freed by msi_image_free. NaN where no channel has a response, 0 where only others have one.
  *          With
 *                  several ranks, the contribution of this rank
 * Returns:  as msi_gridder_residual
 */
int msi_mosaic_image(msi_mosaic_channel *c, const msi_image *model, msi_image *out);

/*
 * msi_mosaic_psf - make the PSF of a channel: the PSF of all its samples, multiplied by the autocorrelation of the
 * fields' beams. The autocorrelation is the mean over sources of the response at a distance from the source.
 * Given:    spec  specification of a gridder of the whole image
 * Returned: psf   one plane, or a plane for each power of x of Taylor terms
 * Returns:  as msi_gridder_psf
 */
int msi_mosaic_psf(const msi_mosaic_channel *c, const msi_gridder_spec *spec, msi_planes *psf);

/* msi_mosaic_sees - return 1 if the response at a pixel is large enough for msi_mosaic_source_psf. */
int msi_mosaic_sees(const msi_mosaic_channel *c, int64_t x, int64_t y);

/*
 * msi_mosaic_source_psf - make the image of a source of 1 Jy at a pixel: the residual without a model, less the
 * residual with a model of the source. Not available with Taylor terms.
 * Returned: *out  freed by msi_image_free; in plane 0 the source is in the middle
 * Returns:  as msi_mosaic_image
 */
int msi_mosaic_source_psf(msi_mosaic_channel *c, int64_t x, int64_t y, msi_image *out);

#endif
