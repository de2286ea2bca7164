/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The samples of a store on a GPU, for images and predictions by facets: they are copied there once, and for each facet
 * a kernel turns them to the facet's centre and applies its gains. The facet's gridder takes them where they are. Models
 * that are predicted facet by facet add up there too.
 *
 * Rows of one list of channels are a part. The caller fills the tables of gains of all parts for a facet, then makes the
 * facet's samples, or adds its prediction.
 */
#ifndef MSI_FACET_SAMPLES_H
#define MSI_FACET_SAMPLES_H

#include "kernels/gridder.h"
#include "kernels/sample_gains.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_facet_samples msi_facet_samples;

/* The planes and gains of samples. */
typedef struct msi_facet_rule {
    msi_gain_form form; /* 0: there are no gains, and rows have no tags */
    msi_gain_planes map;
    int n_image, n_stored; /* the first n_image of the n_stored planes of the store are imaged */
    int n_term;            /* Taylor terms of each, at least 1 */
    int has_slopes;        /* phases of gains are linear in l and m, so that samples have their own u and v */
    double reference_hz;   /* reference frequency of several terms */
    int64_t n_slot;
    const int32_t *n_antenna; /* [n_slot] of the set of a slot */
} msi_facet_rule;

enum { MSI_FACET_MAX_PLANES = 4 };

/* The gains of a part, in host memory. The first antenna of used slot i is number first[i]. */
typedef struct msi_facet_part {
    int32_t n_chan;
    const double *freq_hz;     /* [n_chan] */
    int64_t n_used, n_antenna; /* slots with rows of this part; sum of their antennas */
    int64_t *slot, *first;     /* [n_used] ascending */
    msi_c64 *jones;            /* [n_antenna][n_chan][form], filled by the caller */
    double (*slope)[2];        /* [n_antenna][n_chan] change of the phase by l and m; NULL without slopes */
} msi_facet_part;

/*
 * msi_facet_samples_create - copy samples to a GPU.
 * Given:    store  in host memory, with tags if rule.form is not 0; of a store of coordinates there are only models;
 *                  borrowed for the life of *out
 *           rule    needed only for the call
 *           n_copy  of the samples on this GPU in all
 * Returned: *out   freed by msi_facet_samples_free; NULL after a failure
 * Returns:  0, MSI_EGPU (also: it has too little memory for the samples, those of a facet, and plans), MSI_ENOMEM
 */
int msi_facet_samples_create(msi_facet_samples **out, const msi_vis_store *store, const msi_facet_rule *rule,
                             int device, int n_copy);

/* msi_facet_samples_n_part, msi_facet_samples_part - get the tables of gains, to be filled for a facet. Borrowed.
 * msi_facet_samples_shift - get how far a-terms shift a facet's sources, [n_slot]: l, m, n; its change by l; by m. NULL
 * without slopes. */
int msi_facet_samples_n_part(const msi_facet_samples *f);
msi_facet_part *msi_facet_samples_part(msi_facet_samples *f, int i);
double (*msi_facet_samples_shift(msi_facet_samples *f))[3][3];

/* msi_facet_samples_gains - copy the tables to the GPU, for all that follows. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_facet_samples_gains(msi_facet_samples *f);

/* msi_facet_samples_model - make a model of the samples, which is 0. Images show the samples less the model.
 * Returns: 0, MSI_EGPU */
int msi_facet_samples_model(msi_facet_samples *f);

/* msi_facet_samples_no_model - image the samples without a model again. */
void msi_facet_samples_no_model(msi_facet_samples *f);

/* msi_facet_samples_may_stay - return whether the GPU has four fifths of its memory free, with the samples in it. */
int msi_facet_samples_may_stay(const msi_facet_samples *f);

/* msi_facet_samples_add_model - add the model of other samples of the same store, on any GPU.
 * msi_facet_samples_copy_model - copy it. Returns: 0, MSI_EGPU */
int msi_facet_samples_add_model(msi_facet_samples *f, const msi_facet_samples *from);
int msi_facet_samples_copy_model(msi_facet_samples *f, const msi_facet_samples *from);

/* msi_facet_samples_fetch_model - copy the model to the visibilities of a store. Given: store  that of the samples.
 * Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_facet_samples_fetch_model(msi_facet_samples *f, msi_vis_store *store);

/* msi_facet_samples_at_once - return how many planes of a facet suit the GPU's memory: all n_image * n_term, or 1. */
int msi_facet_samples_at_once(const msi_facet_samples *f);

/* Planes of a facet: those of the images, each with its terms. Values of term k are multiplied by power k of frequency /
 * rule.reference_hz - 1. */
typedef struct msi_facet_part_of {
    double l, m;  /* centre of the facet */
    int first, n; /* planes, of n_image * n_term */
} msi_facet_part_of;

/*
 * msi_facet_samples_form - make the samples of a facet, and add them to a gridder.
 * Given:   gridder  empty, of these planes, on the same GPU
 * Returns: 0, or any code of msi_gridder_gpu_reserve and msi_gridder_gpu_end
 */
int msi_facet_samples_form(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder);

/* msi_facet_samples_place - add the coordinates of a facet's samples to a gridder that predicts.
 * msi_facet_samples_add - add the visibilities that it predicted to the model. As
 * msi_facet_samples_form */
int msi_facet_samples_place(msi_facet_samples *f, msi_gridder *gridder);
int msi_facet_samples_add(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder);

/*
 * msi_facet_samples_respond - sum the response of a facet's samples to a sky of 1 Jy, times their weights and a power.
 * Returned: sum [n_image][n_image]; total [n_image] of the weights times the power
 * Returns:  0, MSI_EGPU
 */
int msi_facet_samples_respond(msi_facet_samples *f, int power, double *sum, double *total);

/* msi_facet_samples_free - NULL-safe. */
void msi_facet_samples_free(msi_facet_samples *f);

#ifdef __cplusplus
}
#endif
#endif
