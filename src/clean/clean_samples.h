/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The samples of a run that is cleaned, which its ranks hold together, each some of them.
 *
 * Rank 0 cleans. It asks the others for their part of PSFs and residuals, and they do nothing else: how many cycles
 * there are and what components they find depends on measurements, such as a noise or a peak, whose last bits another
 * number of threads or another GPU may change, so that ranks that measured by themselves could part ways.
 */
#ifndef MSI_SRC_CLEAN_SAMPLES_H
#define MSI_SRC_CLEAN_SAMPLES_H

#include "core/image.h"
#include "kernels/gridder.h"
#include "src/run/ranks.h"

typedef struct msi_clean_samples {
    msi_team *team;
    msi_gridder **gridder; /* [n_channel] of this rank, weighted, of spec.residual; borrowed */
    int64_t n_channel;     /* output channels of the run */
    int n_plane;           /* of each */
    msi_image_geometry geometry;
    /* Counts for all ranks, [n_channel][n_plane]: sums of weights, before density weighting too, the largest weight,
     * samples with a weight. */
    double *sum_weight, *sum_vis_weight, *largest_weight;
    int64_t *n_vis;
    double longest_lambda; /* the longest baseline of the samples; 0: not known */
} msi_clean_samples;

/*
 * msi_clean_samples_count - count the samples of all ranks; called by each.
 * Given and returned: samples  with the members up to geometry; the others are set, freed by msi_clean_samples_free
 *                              whatever this returns
 * Returns: 0, MSI_ENOMEM, or what another rank has failed with
 */
int msi_clean_samples_count(msi_clean_samples *samples);

/*
 * msi_clean_samples_residual, msi_clean_samples_psf - do as msi_gridder_residual and msi_gridder_psf, of an output
 * channel's samples on all ranks; called by rank 0. Images of ranks are averaged by their weights, in the ranks' order.
 * Given:   model  left as it is; NULL: nothing is subtracted
 * Returns: as those, or what another rank has failed with
 * Notes:   of several ranks one channel after the other; of one alone, channels may be made side by side in threads.
 */
int msi_clean_samples_residual(msi_clean_samples *samples, int64_t channel, msi_planes *model, msi_planes *residual);
int msi_clean_samples_psf(msi_clean_samples *samples, int64_t channel, msi_planes *psf);

/*
 * msi_clean_samples_refine - make an output channel's images to a better accuracy from now on (msi_gridder_refine);
 * called by rank 0.
 * Returns: as that, or what another rank has failed with
 */
int msi_clean_samples_refine(msi_clean_samples *samples, int64_t channel, double accuracy);

/* msi_clean_samples_release - free an output channel's gridder on all ranks; called by rank 0. Returns: 0, or what
 * another rank has failed with */
int msi_clean_samples_release(msi_clean_samples *samples, int64_t channel);

/* msi_clean_samples_done - let the other ranks go on; called by rank 0 when all is cleaned. Returns: as above */
int msi_clean_samples_done(msi_clean_samples *samples);

/*
 * msi_clean_samples_serve - do what rank 0 asks for, until it is done; called by the others.
 * Returns: 0, or what this or another rank has failed with
 */
int msi_clean_samples_serve(msi_clean_samples *samples);

/* msi_clean_samples_free - free what counting made. */
void msi_clean_samples_free(msi_clean_samples *samples);

#endif
