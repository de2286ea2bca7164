/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Workers run the jobs of one gridder, each with its own plan, device and thread. Work is shared in one of these ways:
 * - Each worker makes some of the images, if there are enough.
 * - Each worker has some of the samples of every image, chosen so that it transforms only the planes that its samples
 *   touch (msi_strategy_ops.share). The images are added, for each pixel in the order of workers.
 * - Each worker predicts some of the samples, in the order in which they are stored.
 * Shares are proportional to the speed of devices. Several workers may have the same device. On the CPU, devices are
 * only numbers.
 */
#ifndef MSI_KERNELS_WORKERS_H
#define MSI_KERNELS_WORKERS_H

#include "kernels/method/method.h"
#include "kernels/method/planes.h"

typedef struct msi_workers msi_workers;

/*
 * msi_workers_create - make the workers' plans.
 * Given:    strategy; whole  a plan of it for the request, which may be freed afterwards
 *           request  its spec, with spec->n_worker >= 1 workers, is copied
 * Returned: *out, owned by the caller, freed by msi_workers_free; NULL after a failure
 * Returns:  0, MSI_ERANGE, MSI_ENOMEM, MSI_EGPU
 */
int msi_workers_create(msi_workers **out, const msi_strategy *strategy, const msi_plan *whole,
                       const msi_plan_request *request);

/* msi_workers_free - NULL-safe. */
void msi_workers_free(msi_workers *t);

/*
 * msi_workers_residual - run a job whose pixels are planes; the times come from the first worker.
 * Given:    job  its model and pixel are ignored; model  NULL: nothing is subtracted
 * Returned: residual  the job's images
 * Returns:  as msi_strategy_ops.residual
 */
int msi_workers_residual(msi_workers *t, const msi_residual_job *job, const msi_planes *model, msi_planes *residual,
                         msi_stage_times *times);

/* msi_workers_image - run a job without a model into host memory: pixel [job->n_image][ny][nx]. */
int msi_workers_image(msi_workers *t, const msi_residual_job *job, void *pixel, msi_stage_times *times);

/* msi_workers_predict - predict as msi_strategy_ops.predict. */
int msi_workers_predict(msi_workers *t, struct msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#endif
