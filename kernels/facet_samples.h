/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The samples of a store on a GPU, for images and predictions by facets. They are copied to the GPU once. For each
 * facet a kernel shifts them to the facet's centre, applies its gains, and writes the result to the memory of the
 * facet's gridder. Predictions of facets are summed on the GPU too.
 *
 * A part is the rows with one list of channels. For each facet the caller fills the tables of gains of all parts, then
 * forms the facet's samples, or adds its prediction.
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
    int n_term;            /* Taylor terms of each plane, at least 1 */
    int has_slopes;        /* 1: phases of gains are linear in l and m, so each sample has its own u and v */
    double reference_hz;   /* reference frequency of the terms; used if n_term > 1 */
    int64_t n_slot;
    const int32_t *n_antenna; /* [n_slot] number of antennas in the set of a slot */
} msi_facet_rule;

enum { MSI_FACET_MAX_PLANES = 4 };

/* The gains of a part, in host memory. The first antenna of used slot i is number first[i]. */
typedef struct msi_facet_part {
    int32_t n_chan;
    const double *freq_hz;     /* [n_chan] */
    int64_t n_used, n_antenna; /* number of slots with rows of this part; sum of their numbers of antennas */
    int64_t *slot, *first;     /* [n_used] ascending */
    msi_c64 *jones;            /* [n_antenna][n_chan][form], filled by the caller */
    double (*slope)[2];        /* [n_antenna][n_chan] change of the phase with l and m; NULL without slopes */
} msi_facet_part;

/*
 * msi_facet_samples_create - copy samples to a GPU.
 * Given:    store   in host memory, with tags if rule.form is not 0; borrowed for the life of *out. A store of
 *                   coordinates can only be predicted
 *           rule    needed only for the call
 *           n_copy  number of copies of the samples that this GPU will hold
 * Returned: *out   freed by msi_facet_samples_free; NULL after a failure
 * Returns:  0, MSI_EGPU (also if the GPU has too little memory for the samples, a facet's samples and plans),
  *          MSI_ENOMEM
 */
int msi_facet_samples_create(msi_facet_samples **out, const msi_vis_store *store, const msi_facet_rule *rule,
                             int device, int n_copy);

/* msi_facet_samples_n_part, msi_facet_samples_part - return the tables of gains, which the caller fills. Borrowed.
 * msi_facet_samples_shift - return the table of shifts by a-terms, which the caller fills: [n_slot] shift in l, m, n;
 * its change with l; with m. NULL without slopes. */
int msi_facet_samples_n_part(const msi_facet_samples *f);
msi_facet_part *msi_facet_samples_part(msi_facet_samples *f, int i);
double (*msi_facet_samples_shift(msi_facet_samples *f))[3][3];

/* msi_facet_samples_gains - copy the tables to the GPU, for the calls that follow. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_facet_samples_gains(msi_facet_samples *f);

/* msi_facet_samples_model - set the model visibilities to 0. Later images are made from the samples less the model.
 * Returns: 0, MSI_EGPU */
int msi_facet_samples_model(msi_facet_samples *f);

/* msi_facet_samples_no_model - discard the model, so that images are made from the samples only. */
void msi_facet_samples_no_model(msi_facet_samples *f);

/* msi_facet_samples_may_stay - return 1 if four fifths of the GPU's memory are free in addition to the samples. */
int msi_facet_samples_may_stay(const msi_facet_samples *f);

/* msi_facet_samples_add_model, msi_facet_samples_copy_model - add or copy the model of another copy of the samples, on
 * any GPU. Returns: 0, MSI_EGPU */
int msi_facet_samples_add_model(msi_facet_samples *f, const msi_facet_samples *from);
int msi_facet_samples_copy_model(msi_facet_samples *f, const msi_facet_samples *from);

/* msi_facet_samples_fetch_model - copy the model to the visibilities of a store. Given: store  the store of the
 * samples.
 * Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_facet_samples_fetch_model(msi_facet_samples *f, msi_vis_store *store);

/* msi_facet_samples_at_once - return the number of planes of a facet that fit in the GPU's memory together: all
 * n_image * n_term, or 1. */
int msi_facet_samples_at_once(const msi_facet_samples *f);

/* Planes of a facet: each image plane with its terms. Term k is multiplied by (frequency / rule.reference_hz - 1)^k. */
typedef struct msi_facet_part_of {
    double l, m;  /* centre of the facet */
    int first, n; /* planes [first, first + n) of n_image * n_term */
} msi_facet_part_of;

/*
 * msi_facet_samples_form - make the samples of a facet, and add them to a gridder.
 * Given:   gridder  empty, of these planes, on the same GPU
 * Returns: 0, or any code of msi_gridder_gpu_reserve and msi_gridder_gpu_end
 */
int msi_facet_samples_form(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder);

/* msi_facet_samples_place - add the coordinates of a facet's samples to a gridder that predicts.
 * msi_facet_samples_add - add the visibilities that this gridder has predicted to the model.
 * Given, returns: as msi_facet_samples_form */
int msi_facet_samples_place(msi_facet_samples *f, msi_gridder *gridder);
int msi_facet_samples_add(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder);

/*
 * msi_facet_samples_respond - sum the response of a facet's samples to a sky of 1 Jy, times weight and x^power, with
 * x = frequency / rule.reference_hz - 1.
 * Returned: sum [n_image][n_image]; total [n_image]  sums of weight times x^power
 * Returns:  0, MSI_EGPU
 */
int msi_facet_samples_respond(msi_facet_samples *f, int power, double *sum, double *total);

/* msi_facet_samples_free - NULL-safe. */
void msi_facet_samples_free(msi_facet_samples *f);

#ifdef __cplusplus
}
#endif
#endif
