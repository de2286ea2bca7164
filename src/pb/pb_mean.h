/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The mean primary beam of an image: how the image of each plane responds to the sky of each plane, as a mean over
 * pointings, times, frequencies and kinds of baselines. It is computed on a coarse grid and interpolated, since beams
 * are smooth.
 */
#ifndef MSI_PB_MEAN_H
#define MSI_PB_MEAN_H

#include "core/image.h"
#include "src/pb/pb_array.h"
#include "src/sky/stokes.h"

/* The image that a mean beam belongs to. */
typedef struct msi_pb_target {
    msi_image_geometry geometry;
    double ra_rad, dec_rad; /* centre of the tangent plane */
    double l, m;            /* direction of pixel (nx/2, ny/2) in it */
    double reach_rad;       /* nothing is seen farther from a pointing; 0: no such limit */
    const msi_plane *planes;
    int n_plane;
    int n_freq;
    const double *freq_hz, *weight; /* [n_freq] frequencies at which the beam is averaged; weights sum to more than 0 */
} msi_pb_target;

/* The mean on nodes at every `step` pixels. Node (i, j) is at pixel ((i - 3) * step, (j - 3) * step). */
typedef struct msi_pb_mean {
    msi_image_geometry geometry;
    double l, m;            /* direction of pixel (nx/2, ny/2) */
    int n_plane, n_element; /* n_element = n_plane^2: element [to][from] is the response of image `to` to sky `from` */
    int64_t step, n_x, n_y;
    float *node;  /* [n_y][n_x][n_element + 2], the last two the power of feed X (or H, or R) and of Y (V, L) */
    float *plain; /* [ny][nx] instead of nodes: one response of all planes to themselves; 0: not seen. NULL: nodes */
    int n_disc;   /* the model is valid within any of these; 0: everywhere above the horizon */
    struct msi_pb_disc {
        double l, m, n, cos_limit; /* direction from the image centre, in its frame */
    } * disc;
    double weight;  /* weight of this mean in sums */
    int is_written; /* for the caller: its files are written */
} msi_pb_mean;

/*
 * msi_pb_mean_make - compute the mean beam.
 * Returned: *out  emptied by msi_pb_mean_free; empty on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_make(msi_pb_mean *out, const msi_pb_array *a, const msi_pb_target *t);

/*
 * Files of a mean beam have the elements of a matrix as WSClean writes them: the mean of conj(A) (x) A, with the Jones
 * matrix A of linear feeds, which turns the coherencies XX, YX, XY, YY of the sky to those of the image. Of its Hermitian
 * part, which is all of it where Jones matrices are Hermitian, as those of dishes, they are the lower triangle by rows:
 * 0 the real 00, 1 and 2 the real and imaginary 10, 3 the real 11 .. 15 the real 33.
 */
enum { MSI_PB_ELEMENTS = 16 };

/*
 * msi_pb_mean_element - find an element of a mean beam with nodes, of I, Q, U and V in any order.
 * Returned: *out  a mean of one plane, whose response is the element; emptied by msi_pb_mean_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_element(msi_pb_mean *out, const msi_pb_mean *m, const msi_plane *planes, int element);

/*
 * msi_pb_mean_from_elements - make a mean beam from images of elements.
 * Given:   element  [ny][nx] each; NULL: not given, 0. 0 and 15 are given. Without 3 and 8, Stokes parameters respond by
 *                   the mean power of both feeds, and not to each other
 * Returns: as msi_pb_mean_make
 */
int msi_pb_mean_from_elements(msi_pb_mean *out, const msi_image_geometry *geometry, const msi_plane *planes,
                              int n_plane, const float *const element[MSI_PB_ELEMENTS]);
void msi_pb_mean_free(msi_pb_mean *m); /* leaves it empty */

/* msi_pb_mean_from_plain - make a mean beam from its image, which it then owns. */
void msi_pb_mean_from_plain(msi_pb_mean *out, const msi_image_geometry *geometry, int n_plane, float *plain);

/* msi_pb_mean_unknown - make a mean beam that is NaN, of an image whose pointing is not known. Returns: 0, MSI_ENOMEM */
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
 *           limit  values at and below it become NaN, as does everything outside the model's range; negative: nothing
 *                  but the latter
 * Returned: pixel  [ny][nx]
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_mean_image(const msi_pb_mean *m, msi_pb_part part, int plane, double limit, float *pixel);

/*
 * msi_pb_mean_correct - correct the planes of an image for the beam: multiply each pixel by the inverse of its matrix.
 * Given:              first  the number of the image's first plane among the target's; an image of fewer planes is
 *                            divided by the response of each plane to itself
 *                     limit  pixels where the least response of a plane, the norm of its row, is at or below it become NaN
 *                     from   pixels to correct, of the planes, size and precision of the image; may be image->pixel
 * Returned:           image  its pixels
 * Returns:            0, MSI_ENOMEM
 */
int msi_pb_mean_correct(const msi_pb_mean *m, int first, double limit, const void *from, msi_image *image);

/* Taylor terms of spectra, in x = frequency / reference - 1, and the frequencies that stand for a band: nodes with shares
 * of its weight. */
typedef struct msi_pb_taylor {
    int n_term, n_node;
    const double *x, *share; /* [n_node]; shares sum to 1 */
} msi_pb_taylor;

/*
 * msi_pb_mean_correct_terms - correct images of Taylor terms for the beam. Terms of an image are the
 * least-squares polynomial of the beam times the sky's spectrum, a = H^-1 G X^T B s; of true flux, they are the
 * least-squares polynomial of the sky's spectrum with weights times the beam.
 * Given:              node        [n_node] the beams at the frequencies of the nodes, of the same image
 *                     limit       pixels where the least mean response of a plane, the norm of its row, is at or below it
 *                                 become NaN
 *                     plane       that of *covariance
 * Given and returned: term        [n_term][n_plane] images
 * Returned:           beam        [n_term][n_plane] images of the same size: the terms of the response of each plane to
 *                                 itself
 *                     covariance  3 images for images whose residuals have a noise of 1: the variance of term 0 after
 *                                 the correction, the covariance of terms 0 and 1, the variance of term 1; or NULL
 * Returns:            0, MSI_ENOMEM
 */
int msi_pb_mean_correct_terms(const msi_pb_mean *node, const msi_pb_taylor *t, double limit, int plane, msi_image *term,
                              msi_image *beam, msi_image *covariance);

/*
 * msi_pb_mean_see - multiply each pixel of an image of all planes by its matrix: the true sky becomes what the image
 * shows. Pixels that are not seen become 0. msi_pb_mean_weigh - multiply by the inverse of the matrix and by the square
 * of plane 0's response to itself: the part of an image in a sum that is weighted by the square of the beam.
 * Returns: 0, MSI_ENOMEM
 */
int msi_pb_mean_see(const msi_pb_mean *m, msi_image *image);
int msi_pb_mean_weigh(const msi_pb_mean *m, msi_image *image);

/*
 * msi_pb_mean_at - find the matrix of a pixel.
 * Returned: matrix  [n_plane][n_plane]; NaN where nothing is known
 */
void msi_pb_mean_at(const msi_pb_mean *m, int64_t x, int64_t y, double *matrix);


#endif
