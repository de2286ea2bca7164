/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mean primary beam of an image. At each pixel it is a matrix: element [to][from] is the response of image plane
 * `to` to the sky in plane `from`. It is a weighted mean over pointings, times, frequencies and kinds of baselines.
 * Beams are smooth, so it is computed on a coarse grid and interpolated.
 */
#ifndef MSI_PB_MEAN_H
#define MSI_PB_MEAN_H

#include "core/image.h"
#include "src/pb/pb_array.h"
#include "src/sky/stokes.h"

/* The image for which a mean beam is computed. */
typedef struct msi_pb_target {
    msi_image_geometry geometry;
    double ra_rad, dec_rad; /* centre of the tangent plane */
    double l, m;            /* direction of pixel (nx/2, ny/2) in it */
    double reach_rad;       /* the beam is not valid farther from a pointing; 0: no limit, apart from the model's */
    const msi_plane *planes;
    int n_plane;
    int n_freq;
    const double *freq_hz, *weight; /* [n_freq] frequencies at which the beam is averaged; weights sum to more than 0 */
} msi_pb_target;

/* A mean beam. It is stored on nodes at every `step` pixels, or as an image (plain). Node (i, j) is at pixel
 * ((i - 3) * step, (j - 3) * step). */
typedef struct msi_pb_mean {
    msi_image_geometry geometry;
    double l, m;            /* direction of pixel (nx/2, ny/2) */
    int n_plane, n_element; /* n_element = n_plane^2: the elements [to][from] */
    int64_t step, n_x, n_y;
    float *node; /* [n_y][n_x][n_element + 2]; the last two values are the powers of feeds X and Y (H and V, R and L) */
    /* [ny][nx] the response of each plane to itself, the same for all planes; 0: outside the model's range. NULL: the
     * beam is stored on nodes. */
    float *plain;
    int n_disc; /* the model is valid in the union of these discs; 0: everywhere above the horizon */
    struct msi_pb_disc {
        double l, m, n, cos_limit; /* direction from the image centre, in its frame */
    } * disc;                      /* [n_disc] */
    double weight;                 /* weight of this mean in sums */
    int is_written;                /* set by the caller when the files of the beam are written */
} msi_pb_mean;

/*
 * msi_pb_mean_make - compute the mean beam.
 * Returned: *out  emptied by msi_pb_mean_free; empty on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_make(msi_pb_mean *out, const msi_pb_array *a, const msi_pb_target *t);

/*
 * Number of elements of a mean beam in files. They describe a 4 x 4 matrix as WSClean does: the mean of conj(A) (x) A,
 * with the Jones matrix A of linear feeds. The matrix converts the coherencies XX, YX, XY, YY of the sky to those of
 * the image. Only its Hermitian part is stored; if A is Hermitian, as for dishes, this is the whole matrix. The
 * elements are the lower triangle, row by row: 0 is Re 00, 1 and 2 are Re 10 and Im 10, 3 is Re 11, .., 15 is Re 33.
 */
enum { MSI_PB_ELEMENTS = 16 };

/*
 * msi_pb_mean_element - compute an element of a mean beam.
 * Given:    m        with nodes
 *           planes   [m->n_plane] I, Q, U and V in any order
 *           element  0 to MSI_PB_ELEMENTS - 1
 * Returned: *out  a mean of one plane, whose response is the element; emptied by msi_pb_mean_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_element(msi_pb_mean *out, const msi_pb_mean *m, const msi_plane *planes, int element);

/*
 * msi_pb_mean_from_elements - make a mean beam from images of elements.
 * Given:   element  [ny][nx] each; NULL: it is 0. Elements 0 and 15 are required. Without 3 and 8, the response of each
 *                   Stokes parameter to itself is the mean power of both feeds, and that to the others is 0
 * Returns: as msi_pb_mean_make
 */
int msi_pb_mean_from_elements(msi_pb_mean *out, const msi_image_geometry *geometry, const msi_plane *planes,
                              int n_plane, const float *const element[MSI_PB_ELEMENTS]);
void msi_pb_mean_free(msi_pb_mean *m); /* leaves it empty */

/* msi_pb_mean_from_plain - make a mean beam from an image [ny][nx] of its response, which it then owns. */
void msi_pb_mean_from_plain(msi_pb_mean *out, const msi_image_geometry *geometry, int n_plane, float *plain);

/* msi_pb_mean_unknown - make a mean beam of NaN, for an image whose pointing is not known. Returns: 0, MSI_ENOMEM */
int msi_pb_mean_unknown(msi_pb_mean *out, const msi_image_geometry *geometry, int n_plane);

/* msi_pb_mean_add - add the mean of another channel of the same image to a sum, which is empty at first.
 * Given: weight  of the channel. Returns: 0, MSI_ENOMEM */
int msi_pb_mean_add(msi_pb_mean *sum, const msi_pb_mean *more, double weight);

/* Contents of an image of a mean beam. */
typedef enum msi_pb_part { MSI_PB_RESPONSE, MSI_PB_FEED_X, MSI_PB_FEED_Y } msi_pb_part;

/*
 * msi_pb_mean_image - make an image of the mean beam.
 * Given:    part   the response of a plane to itself, or the power of a feed
 *           plane  for MSI_PB_RESPONSE
 *           limit  values at and below it become NaN; negative: no limit. Pixels outside the model's range become
 *                  NaN in any case
 * Returned: pixel  [ny][nx]
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_image(const msi_pb_mean *m, msi_pb_part part, int plane, double limit, float *pixel);

/*
 * msi_pb_mean_correct - correct the planes of an image for the beam: multiply each pixel by the inverse of its matrix.
 * Given:              first  index of the image's first plane in the planes of the beam. If the image has fewer planes
 *                            than the beam, each is divided by its response to itself
 *                     limit  a pixel becomes NaN if the norm of a row of its matrix, or a response that would
 *                            divide it, is at or below it
 *                     from   pixels to correct, with the planes, size and precision of the image; may be image->pixel
 * Returned:           image  its pixels
 * Returns:            0, MSI_ENOMEM
 */
int msi_pb_mean_correct(const msi_pb_mean *m, int first, double limit, const void *from, msi_image *image);

/* Taylor terms of spectra, in x = frequency / reference - 1. A band is represented by n_node frequencies (nodes), each
 * with a share of the band's weight. */
typedef struct msi_pb_taylor {
    int n_term, n_node;
    const double *x, *share; /* [n_node]; shares sum to 1 */
} msi_pb_taylor;

/*
 * msi_pb_mean_correct_terms - correct images of Taylor terms for the beam. Before, the terms of a pixel are the
 * least-squares polynomial of beam times sky spectrum, a = H^-1 G X^T B s. After, they are the least-squares polynomial
 * of the sky spectrum alone, fitted with the node weights multiplied by the beam.
 * Given:              node        [n_node] beams of this image at the frequencies of the nodes
 *                     limit       a pixel becomes NaN if the norm of a row of its mean matrix is at or below it
 *                     plane       the plane of covariance
 * Given and returned: term        [n_term][n_plane] images
 * Returned:           beam        [n_term][n_plane] images of the same size: the terms of the response of each plane to
 *                                 itself
 *                     covariance  [3] images of the variance of term 0 after the correction, the covariance of terms 0
 *                                 and 1, and the variance of term 1, if the residuals have a noise of 1; NULL: not
 *                                 wanted
 * Returns:            0, MSI_ENOMEM
 */
int msi_pb_mean_correct_terms(const msi_pb_mean *node, const msi_pb_taylor *t, double limit, int plane, msi_image *term,
                              msi_image *beam, msi_image *covariance);

/*
 * msi_pb_mean_see - convert the true sky to the apparent sky: multiply each pixel of an image of all planes by its
 * matrix. Pixels outside the model's range become 0.
 *
 * msi_pb_mean_weigh - compute the contribution of an image to a mosaic weighted by the square of the beam: multiply
 * each pixel by the inverse of its matrix, and by the square of the response of plane 0 to itself.
 *
 * Returns: 0, MSI_ENOMEM
 */
int msi_pb_mean_see(const msi_pb_mean *m, msi_image *image);
int msi_pb_mean_weigh(const msi_pb_mean *m, msi_image *image);

/*
 * msi_pb_mean_at - compute the matrix of a pixel.
 * Returned: matrix  [n_plane][n_plane]; NaN if the model does not cover the pixel
 */
void msi_pb_mean_at(const msi_pb_mean *m, int64_t x, int64_t y, double *matrix);

#endif
