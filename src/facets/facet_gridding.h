/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images and predictions by facets. The samples of an output channel are stored once, by a gridder of the whole image.
 * For each facet in turn they are given the facet's centre and gains, and a gridder of the facet's box images them. The
 * facets are added with their weights (facet_regions.h).
 *
 *   imaging     V' = J_p^H V J_q        image = mean of V' exp(..), divided by C
 *   predicting  V  = sum over facets of J_p S J_q^H
 *   C           mean over samples, by weight, of the response of this pair to a sky of 1 Jy
 *
 * An image has flat noise: an image of one plane is divided by sqrt(C), and images of several by the matrix C, times
 * sqrt(C of Stokes I). A model is divided by sqrt(C of Stokes I), so that predicting returns what was imaged.
 *
 * Taylor terms in x = frequency / reference - 1 have images R_t of V' x^t, and C_n of responses times x^n; predicted
 * terms are summed before gains are applied. The terms of true flux are C^-1 R with C_(t+q) as a matrix. As in mosaics
 * (pb_mosaic.h), the image is H C^-1 R with the Hessian H of the samples, times the response, which gives term 0 of
 * Stokes I flat noise.
 */
#ifndef MSI_FACET_GRIDDING_H
#define MSI_FACET_GRIDDING_H

#include "core/image.h"
#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/facets/facet_gains.h"
#include "src/facets/facet_regions.h"
#include "src/sky/stokes.h"

/* The planes of stored samples: those of the images, then others that the gains need. */
typedef struct msi_facet_planes {
    msi_plane stored[MSI_MAX_PLANES];
    int n_image, n_stored;
    int is_circular; /* feeds are R and L */
} msi_facet_planes;

/*
 * msi_facet_planes_choose - choose the planes that are stored.
 * Given:    planes [n]    of the images
 *           gains         NULL: none
 *           is_circular   feeds are R and L
 *           most          at most this form of the visibilities is used: -scalar-visibilities, -diagonal-visibilities
 * Returns:  0, MSI_EUSAGE (gains of two feeds cannot be applied to these planes)
 */
int msi_facet_planes_choose(msi_facet_planes *out, const msi_plane *planes, int n, const msi_facet_gains *gains,
                            int is_circular, msi_gain_form most);

/* Everything that the output channels share. Borrowed. */
typedef struct msi_facet_work {
    const msi_facets *facets;
    const msi_facet_gains *gains; /* NULL: none */
    msi_facet_planes planes;
    msi_gridder_spec spec; /* specification of the whole image, n_image planes */
    int n_term;            /* Taylor terms: images and models have n_term planes for each of n_image; 0: 1 */
    double reference_hz;   /* reference frequency of the terms */
} msi_facet_work;

/* An output channel: its samples, and results that are kept between calls. */
typedef struct msi_facet_channel {
    const msi_facet_work *work;
    msi_gridder *gridder; /* gridder of the whole image, n_stored planes, tagged if there are gains; borrowed */
    double accuracy;      /* accuracy of facets; 0: that of work->spec */
    double *total;        /* [n_image] sums of weights; NULL: responses are not known yet */
    double *beam;         /* as correction, of the beam alone; NULL: there is none */
    double *correction;   /* [facets][2 n_term - 1][n_image][n_image] C of each power */
    double *moment;       /* [2 n_term - 1] sums of weights of plane 0 times powers of x; over their first in the end */
    msi_gridder_report report;         /* report of the last facet, with the times of all */
    struct msi_facet_devices *devices; /* the samples on GPUs, if they stayed there after the last call; NULL: none */
} msi_facet_channel;

/*
 * msi_facet_respond - sum the responses of all facets over the samples: correction, beam, total and moment are sums, for a
 * caller that adds those of other ranks.
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 *
 * msi_facet_responses_done - make C of these sums. Call both before images are made.
 */
int msi_facet_respond(msi_facet_channel *c);
void msi_facet_responses_done(msi_facet_channel *c);

/* msi_facet_n_power, msi_facet_n_correction - return the numbers of values of msi_facet_channel.moment and of its
 * correction. */
static inline int msi_facet_n_power(const msi_facet_work *w)
{
    return w->n_term > 1 ? 2 * w->n_term - 1 : 1;
}
static inline int64_t msi_facet_n_correction(const msi_facet_channel *c)
{
    const msi_facet_work *w = c->work;
    return (int64_t)w->facets->n * msi_facet_n_power(w) * w->planes.n_image * w->planes.n_image;
}

/*
 * msi_facet_image - image the samples of a channel less those of a model.
 * Given:    model  n_image planes of the whole image, with terms [n_image][n_term]; NULL: nothing is subtracted
 * Returned: *out   allocated here, freed by msi_image_free: as many planes, as msi_gridder_image
 * Returns:  0, or any code of msi_gridder_image, msi_gridder_predict
 */
int msi_facet_image(msi_facet_channel *c, const msi_image *model, msi_image *out);

/* msi_facet_response - return the factor of a facet's flat-noise image: true flux times it is the image. The channel
 * must have been imaged. */
double msi_facet_response(const msi_facet_channel *c, int facet);

/* msi_facet_beam - return the part of that factor that the beam has; 1 without a beam. */
double msi_facet_beam(const msi_facet_channel *c, int facet);

/* A source, and the image in which it is seen. */
typedef struct msi_facet_source {
    msi_image_geometry geometry;
    int64_t x, y; /* its pixel */
    int n_power;  /* images of powers of frequency / reference_hz - 1, as for Taylor terms; 1: of the first alone */
    double reference_hz;
} msi_facet_source;

/*
 * msi_facet_source_psf - make the response of a channel's image to a source: with the gains of its facet there, and with
 * the w-terms of its place. With Taylor terms it is that without gains.
 * Given:    c  with correction, or without facets: only the gridder is set
 * Returned: *out  [n_power] planes of source->geometry with the source in the middle; freed by msi_image_free
 * Returns:  0, or any code of msi_gridder_image
 */
int msi_facet_source_psf(const msi_facet_channel *c, const msi_facet_source *source, msi_image *out);

/*
 * msi_facet_predict - predict the visibilities of a true sky into the samples of a gridder that predicts.
 * Given:    model  n_image planes of the whole image, with terms [n_term][n_image]
 * Returns:  0, or any code of msi_gridder_predict
 */
int msi_facet_predict(const msi_facet_work *work, msi_gridder *gridder, const msi_image *model);

/*
 * msi_facet_bytes - return the memory that facets need in addition to the stored samples: the visibilities of a model, the
 * samples of a facet with their order, and the segments that are formed at once.
 * Given: n_sample, n_row  of an output channel; n_image, n_stored  planes, n_image with their terms; subtracts  models
 *        are subtracted; is_bent  each sample has its own coordinates, as with a-terms
 */
int64_t msi_facet_bytes(int64_t n_sample, int64_t n_row, int n_image, int n_stored, msi_precision precision,
                        int subtracts, int is_bent);

/* msi_facet_channel_leave - free the GPUs of samples, before those of the gridder change or are freed.
 * msi_facet_channel_free - free all that was kept. */
void msi_facet_channel_leave(msi_facet_channel *c);
void msi_facet_channel_free(msi_facet_channel *c);

#endif
