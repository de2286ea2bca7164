/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The samples of a run that is cleaned. Each rank holds a part of them.
 *
 * Rank 0 cleans. It sends requests to the other ranks, which make their part of PSFs and residuals and do nothing else.
 * The number of cycles and the components depend on measurements, such as a noise or a peak. Their last bits can change
 * with the number of threads or the GPU, so ranks that measured for themselves could decide differently.
 */
#ifndef MSI_SRC_CLEAN_SAMPLES_H
#define MSI_SRC_CLEAN_SAMPLES_H

#include "core/image.h"
#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/facets/facet_gridding.h"
#include "src/pb/pb_mosaic.h"
#include "src/pb/pb_samples.h"
#include "src/run/ranks.h"

typedef struct msi_clean_samples {
    msi_ranks *ranks;
    msi_gridder **gridder;      /* [n_channel][n_part] of this rank, weighted, made with spec.residual; borrowed */
    int n_part;                 /* fields of a mosaic, otherwise 1 */
    msi_mosaic_channel *mosaic; /* [n_channel] residuals are made by fields; NULL: no mosaic */
    const msi_gridder_spec *of_whole; /* specification of a gridder of the whole image of a mosaic */
    const msi_gridder *whole;         /* such a gridder, without samples */
    msi_facet_channel *facets;        /* [n_channel] residuals are made by facets; NULL: whole images */
    msi_pb_channel *beam; /* [n_channel] models are seen through the primary beam; NULL: they are apparent */
    int64_t n_channel;    /* output channels of the run */
    int n_plane;          /* planes of each channel */
    int n_term;           /* Taylor terms of each plane, of a single channel; 0: none */
    double reference_hz;  /* reference frequency of the terms */
    msi_image_geometry geometry;
    /* Over all ranks, [n_channel][n_plane]: sums of weights, with and without density weights, the largest weight, and
     * the number of samples with a weight. */
    double *sum_weight, *sum_vis_weight, *largest_weight;
    int64_t *n_vis;
    double longest_lambda; /* the longest baseline of the samples; 0: unknown */
    /* With terms: sums of weights of plane 0 times powers of (frequency - middle) / half, as msi_gridder_moments. */
    double middle_hz, half_hz, moment[4 * MSI_TAYLOR_MAX_TERM - 2];
} msi_clean_samples;

/*
 * msi_clean_samples_count - count the samples of all ranks; called by each.
 * Given and returned: samples  with the members up to geometry; sets the others, always freed by
 *                              msi_clean_samples_free
 * Returns: 0, MSI_ENOMEM, or the code of a rank that failed
 */
int msi_clean_samples_count(msi_clean_samples *samples);

/* msi_clean_samples_taylor - find the nodes of the Taylor terms. Without samples nothing is cleaned, and the nodes are
 * arbitrary. Returns: as msi_clean_taylor_make */
int msi_clean_samples_taylor(const msi_clean_samples *samples, msi_clean_taylor *taylor);

/* msi_clean_samples_planes - make planes for the images of channels, as msi_gridder_planes. */
int msi_clean_samples_planes(const msi_clean_samples *samples, int64_t channel, int n, msi_planes **out);

/*
 * msi_clean_samples_residual, msi_clean_samples_psf - as msi_gridder_residual and msi_gridder_psf, for the samples of
 * an output channel on all ranks; called by rank 0. The images of the ranks are averaged by weight, in the order of
 * ranks.
 * Given:   model  unchanged; NULL: nothing is subtracted. With Taylor terms planes are [n_plane][n_term], and PSFs are
 *                 of the first powers, one for each plane of psf
 * Returns: as those, or the code of a rank that failed
 * Notes:   with several ranks make one channel after the other; with one rank, threads may make channels in parallel.
 */
int msi_clean_samples_residual(msi_clean_samples *samples, int64_t channel, msi_planes *model, msi_planes *residual);
int msi_clean_samples_psf(msi_clean_samples *samples, int64_t channel, msi_planes *psf);

/*
 * msi_clean_samples_source_psf - make the response to a source at a pixel, with the gains of its facet, shifted to the
 * middle of the image and divided by its value there. In a mosaic, the PSF of all samples is used for a pixel with a
 * low response, and there are no Taylor terms. Otherwise as msi_clean_samples_psf.
 */
int msi_clean_samples_source_psf(msi_clean_samples *samples, int64_t channel, int64_t x, int64_t y, msi_planes *psf);

/*
 * msi_clean_samples_refine - make the later images of an output channel with a better accuracy (msi_gridder_refine);
 * called by rank 0.
 * Returns: as that, or the code of a rank that failed
 */
int msi_clean_samples_refine(msi_clean_samples *samples, int64_t channel, double accuracy);

/* msi_clean_samples_drop_plans - free the plans of n channels from the first, with their grids and sorted samples,
 * after the last residual: restoring needs memory, too. Other ranks keep theirs. */
void msi_clean_samples_drop_plans(msi_clean_samples *samples, int64_t first, int64_t n);

/* msi_clean_samples_release - free the gridder of an output channel on all ranks; called by rank 0. Returns: 0, or the
 * code of a rank that failed */
int msi_clean_samples_release(msi_clean_samples *samples, int64_t channel);

/* msi_clean_samples_done - end msi_clean_samples_serve on the other ranks; called by rank 0 after cleaning. Returns: as
 * above */
int msi_clean_samples_done(msi_clean_samples *samples);

/*
 * msi_clean_samples_serve - handle the requests of rank 0 until msi_clean_samples_done; called by the other ranks.
 * Returns: 0, or the code of a rank that failed
 */
int msi_clean_samples_serve(msi_clean_samples *samples);

/* msi_clean_samples_free - free the results of msi_clean_samples_count. */
void msi_clean_samples_free(msi_clean_samples *samples);

#endif
