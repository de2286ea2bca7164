/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images and predictions by facets. A gridder of the whole image stores the samples of an output channel once. For each
 * facet the samples are shifted to the facet's centre, its gains are applied, and a gridder of the facet's box images
 * them. The facets are added with their weights (facet_regions.h).
 *
 *   imaging     V' = J_p^H V J_q        image = mean of V' exp(..), divided by C
 *   predicting  V  = sum over facets of J_p S J_q^H
 *   C           weighted mean over samples of the response of imaging and predicting to a sky of 1 Jy
 *
 * An image has flat noise. An image of one plane is divided by sqrt(C). Images of several planes are multiplied by the
 * inverse of the matrix C and by sqrt(C of Stokes I). A model is divided by sqrt(C of Stokes I), so that predicting
 * inverts imaging.
 *
 * For Taylor terms in x = frequency / reference - 1, R_t is the image of V' x^t, and C_n the mean of responses times
 * x^n. The terms of true flux are C^-1 R with the matrix C_(t+q). As in mosaics (pb_mosaic.h), the image is H C^-1 R
 * times the response, with the Hessian H of the samples; term 0 of Stokes I then has flat noise. Predicted terms are
 * summed before gains are applied.
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
 * Given:    planes [n]    planes of the images
 *           gains         NULL: none
 *           is_circular   feeds are R and L
 *           most          largest form of gains to apply: -scalar-visibilities, -diagonal-visibilities
 * Returns:  0, MSI_EUSAGE (gains that differ between the feeds cannot be applied to these planes)
 */
int msi_facet_planes_choose(msi_facet_planes *out, const msi_plane *planes, int n, const msi_facet_gains *gains,
                            int is_circular, msi_gain_form most);

/* Data that all output channels share. All pointers are borrowed. */
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
    double *beam;         /* as correction, with the beam only; NULL: no beam */
    double *correction;   /* [facets][2 n_term - 1][n_image][n_image] C of each power */
    double *moment;       /* [2 n_term - 1] sums of weights of plane 0 times powers of x; divided by the first of them
                             by msi_facet_responses_done */
    msi_gridder_report report;         /* report of the last facet, with the times of all facets */
    struct msi_facet_devices *devices; /* the samples on GPUs, if they stayed there after the last call; NULL: none */
} msi_facet_channel;

/*
 * msi_facet_respond - sum the responses of all facets over the samples. correction, beam, total and moment are sums, to
 * which the caller can add the sums of other ranks.
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 *
 * msi_facet_responses_done - convert the sums to means C. Call both functions before images are made.
 */
int msi_facet_respond(msi_facet_channel *c);
void msi_facet_responses_done(msi_facet_channel *c);

/* msi_facet_n_power, msi_facet_n_correction - return the lengths of moment and of correction in msi_facet_channel. */
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

/* msi_facet_response - return the ratio of a facet's flat-noise image to true flux. The channel must have been
 * imaged. */
double msi_facet_response(const msi_facet_channel *c, int facet);

/* msi_facet_beam - return the factor of this ratio that comes from the beam; 1 without a beam. */
double msi_facet_beam(const msi_facet_channel *c, int facet);

/* A source, and the image in which it is seen. */
typedef struct msi_facet_source {
    msi_image_geometry geometry;
    int64_t x, y; /* its pixel */
    int n_power;  /* number of images, weighted by powers of frequency / reference_hz - 1 from 0 on */
    double reference_hz;
} msi_facet_source;

/*
 * msi_facet_source_psf - image a source of 1 Jy with the samples of a channel. The gains of its facet and the w-terms
 * of its position are included; with Taylor terms gains are left out.
 * Given:    c  with correction; or, without facets, only with a gridder
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
 * msi_facet_bytes - estimate the memory that facets need in addition to the stored samples: model visibilities, the
 * samples of a facet with their order, and the segments that are formed in parallel.
 * Given: n_sample, n_row  numbers of an output channel; n_image, n_stored  numbers of planes, n_image with Taylor
 *        terms;
 *        subtracts  models are subtracted; is_bent  each sample has its own coordinates, as with a-terms
 */
int64_t msi_facet_bytes(int64_t n_sample, int64_t n_row, int n_image, int n_stored, msi_precision precision,
                        int subtracts, int is_bent);

/* msi_facet_channel_leave - free the samples on GPUs. Call it before the samples of the gridder change or are freed.
 * msi_facet_channel_free - free all results. */
void msi_facet_channel_leave(msi_facet_channel *c);
void msi_facet_channel_free(msi_facet_channel *c);

#endif
