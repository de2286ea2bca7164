/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The files of the gridder share this: gridder.c makes one and has its samples, weights and predictions; gridder_plan.c
 * chooses its plan, gridder_workers.c shares that out, gridder_image.c makes images and residuals by it, and
 * gridder_gpu.c takes samples that lie on its GPU. Who uses a gridder includes gridder.h.
 */
#ifndef MSI_KERNELS_GRIDDER_STATE_H
#define MSI_KERNELS_GRIDDER_STATE_H

#include "kernels/gridder.h"
#include "kernels/store/vis_store.h"
#include "kernels/strategy.h"
#include "kernels/workers.h"

struct msi_gridder {
    msi_gridder_spec spec; /* its strings are static, or owned as below */
    char *temp_dir;
    int *worker; /* [spec.n_worker] */
    const msi_strategy *strategy;
    msi_precision precision;
    msi_vis_store store;
    int is_weighted; /* the store's weights have been multiplied by density weights */
    msi_gridder_report report;
    msi_plan *plan;       /* of a gridder that predicts or makes residuals; NULL: not made yet */
    msi_workers *workers; /* that the plan is shared out to; NULL: nobody */

    /* These serve residuals. */
    struct {
        int is_known;
        double sum[MSI_GRIDDER_MAX_PLANES], largest[MSI_GRIDDER_MAX_PLANES]; /* of weights, as they stand */
        int64_t count[MSI_GRIDDER_MAX_PLANES];
    } weights;

    /* These serve msi_gridder_predict. */
    const msi_image *model;
    struct {
        int64_t n_sample, n_row; /* 0: what the store holds decides */
        double w_min_lambda, w_max_lambda;
    } expected;
};

/* msi_gridder_n_image - count the images that a gridder makes, its PSF too; of predictions its models. */
static inline int msi_gridder_n_image(const msi_gridder_spec *s)
{
    return s->predict ? s->n_plane : (s->psf_only ? 0 : s->n_plane) + (s->psf || s->psf_only);
}

/* msi_gridder_begin_threads - give plans and strategies, which take OpenMP's number of threads, the gridder's.
 * Returns: the caller's own number, for msi_gridder_end_threads to put back */
int msi_gridder_begin_threads(const msi_gridder *g);
void msi_gridder_end_threads(int before);

/* msi_gridder_sum_weights - know g->weights, of the samples as they stand. */
void msi_gridder_sum_weights(msi_gridder *g);

/* msi_gridder_forget_samples - forget what was made of samples that change. */
void msi_gridder_forget_samples(msi_gridder *g);

/* msi_gridder_add_times - add what the stages of an image or a prediction took to the report. */
void msi_gridder_add_times(msi_gridder_report *r, const msi_stage_times *t);

/* ---- Plans ------------------------------------------------------------------------------------------------------ */

/* msi_gridder_request - ask for a plan of a gridder's images, for samples that are still to be named. */
msi_plan_request msi_gridder_request(const msi_gridder *g);

/* msi_gridder_request_stored - name a store's samples in a request. */
void msi_gridder_request_stored(msi_plan_request *r, const msi_vis_store *s);

/*
 * msi_gridder_take_plan - make the plan foreseen to be soonest; the gridder's strategy and report become that plan's.
 * Returned: *plan, owned by the caller, freed by the strategy
 * Returns:  0, or what the strategies' plan functions return
 */
int msi_gridder_take_plan(msi_gridder *g, const msi_plan_request *request, msi_plan **plan);

/* msi_gridder_ready_plan - have g->plan and its workers, for what the store holds, or for what is expected.
 * Returns: as msi_gridder_take_plan */
int msi_gridder_ready_plan(msi_gridder *g);

/* msi_gridder_forget_plan - free g->plan and its workers. */
void msi_gridder_forget_plan(msi_gridder *g);

/* ---- Devices and workers ---------------------------------------------------------------------------------------- */

/* msi_gridder_check_devices - see that a gridder's GPUs are all in this machine. Returns: 0, MSI_EGPU */
int msi_gridder_check_devices(const msi_strategy *strategy, const msi_gridder_spec *spec);

/* msi_gridder_await_device - wait until a gridder's GPU, if it uses one, has started. */
void msi_gridder_await_device(const msi_strategy *strategy, int device);

/* msi_gridder_keep_workers - make a list worker [n] the gridder's own. Returns: 0, MSI_ENOMEM */
int msi_gridder_keep_workers(msi_gridder *g, const int *worker, int n);

/* msi_gridder_has_workers - tell whether others than the gridder's own device work. */
int msi_gridder_has_workers(const msi_gridder *g);

/*
 * msi_gridder_ready_workers - share a plan out to the workers that there are, and lower the time foreseen by that.
 * Returned: *out, owned by the caller, freed by msi_workers_free; NULL where nobody shares, and after a failure
 * Returns:  as msi_workers_create
 */
int msi_gridder_ready_workers(msi_gridder *g, const msi_plan_request *request, const msi_plan *plan, msi_workers **out);

#endif
