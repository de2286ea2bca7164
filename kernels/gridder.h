/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The plan API: visibilities in, images out, or an image in, visibilities out.
 *
 * To image: create, add blocks, weight, image. To deconvolve: create with spec.residual, add blocks, weight, then any
 * number of times residual. To predict: create with spec.predict, then any number of times model, and for it add
 * coordinates, predict, fetch, clear. A gridder is used by one thread at a time; several gridders may be
 * at work in several threads. Functions that return an int return 0 or a code of core/status.h, whose line
 * msi_error_get has.
 */
#ifndef MSI_KERNELS_GRIDDER_H
#define MSI_KERNELS_GRIDDER_H

#include "core/image.h"
#include "core/types.h"
#include "kernels/backend.h"
#include "kernels/method/gridder_spec.h"
#include "kernels/method/planes.h"
#include "kernels/store/density.h"
#include "kernels/store/gpu_samples.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_gridder msi_gridder;

/*
 * msi_gridder_create - make an empty gridder.
 * Given:    spec  copied, its strings too
 * Returned: *out, owned by the caller, freed by msi_gridder_free; NULL after a failure
 * Returns:  0, MSI_ERANGE (a member outside its range, or no strategy of this name), MSI_EGPU (a GPU asked for and not
 *           there), MSI_ENOMEM
 * Notes:    whether a plan reaches the accuracy shows when samples are there: msi_gridder_foresee tells before.
 */
int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec);

/*
 * msi_gridder_create_early - make a gridder that takes samples before it is known what there is to grid them with: no
 * device is waited for. Until it is settled, it only takes samples, reports on them, and is freed.
 * Given, returned: as msi_gridder_create
 * Returns:  0, MSI_ERANGE (a member outside its range), MSI_ENOMEM
 */
int msi_gridder_create_early(msi_gridder **out, const msi_gridder_spec *spec);

/*
 * msi_gridder_settle - choose the strategy of a gridder that was made early.
 * Given:   spec  of its making, but with any device, workers, n_thread and store_bytes; the last holds for samples to
 *          come
 * Returns: 0, MSI_ERANGE, MSI_EGPU, MSI_ENOMEM, as msi_gridder_create
 */
int msi_gridder_settle(msi_gridder *g, const msi_gridder_spec *spec);

/* msi_gridder_set_workers - share the work out among others than spec.worker from now on. Returns: 0, MSI_EGPU,
 * MSI_ENOMEM */
int msi_gridder_set_workers(msi_gridder *g, const int *worker, int n_worker);

/*
 * msi_gridder_add - take in a block of visibilities; any number of times.
 * Given:   block  copied: of the spec's n_plane planes; of a gridder that predicts, uvw and frequencies alone are read
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir is full), MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (a block of
 *          another number of planes, or after msi_gridder_weight)
 * Notes:   samples that the image cannot hold are dropped and counted (msi_gridder_report.n_outside).
 */
int msi_gridder_add(msi_gridder *g, const msi_vis_block *block);

/*
 * msi_gridder_add_all - take in blocks [n_block] as msi_gridder_add does one after the other, with the same results;
 * by all threads. After a failure, any of the blocks may have been taken in.
 */
int msi_gridder_add_all(msi_gridder *g, const msi_vis_block *block, int n_block);

/* ---- Samples on the GPU ----------------------------------------------------------------------------------------- */

/*
 * msi_gridder_gpu_room - have room for samples in the memory of a gridder's GPU, which a kernel then fills: for those
 * that lie there already, or are to be taken in there. In a build without GPUs there is no such function.
 * Given:    g  of one plane and on a GPU, without spec.store_bytes and workers, and all of whose samples, if any, came
 *             this way; before msi_gridder_weight
 *           freq_hz  [n_chan], at most MSI_STORE_MAX_CHAN
 * Returned: *room  n_row rows, to be kept or dropped next
 * Returns:  0, MSI_EGPU (no room there), MSI_ENOMEM, MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (not such a
 *           gridder)
 */
int msi_gridder_gpu_room(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_gpu_samples *room);

/* msi_gridder_gpu_keep - take the room in, filled, as msi_gridder_add does a block: figures are what it then holds.
 * Returns: as msi_gridder_add. msi_gridder_gpu_drop - give it back. */
int msi_gridder_gpu_keep(msi_gridder *g, const msi_gpu_figures *figures);
void msi_gridder_gpu_drop(msi_gridder *g);

/* msi_gridder_gpu_samples - look at the room that was kept as number i, from 0: of predictions its visibilities.
 * Returns: 1; 0 where there are fewer, or samples are in host memory */
int msi_gridder_gpu_samples(const msi_gridder *g, int64_t i, msi_gpu_samples *out);

/* msi_gridder_move_to_host - move samples on the GPU to host memory, for what reads them there (msi_density_add);
 * nothing where they are there. Returns: 0, MSI_EGPU, MSI_ENOMEM; after a failure there are no samples */
int msi_gridder_move_to_host(msi_gridder *g);

/*
 * msi_gridder_image - grid everything added so far, transform, correct, normalise by the sum of weights.
 * Returned: *out  allocated here, freed by msi_image_free: the n_plane planes, then the PSF, [ny][nx] Jy/beam each in
 *                 msi_gridder_precision, with sums of weights and numbers of samples. A plane without a sample is NaN
 * Returns:  0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_EINTERNAL (a
 *           gridder that predicts); *out is empty after a failure
 */
int msi_gridder_image(msi_gridder *g, msi_image *out);

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

/*
 * msi_gridder_planes - make planes of a gridder's geometry, precision, backend and device, all zero: models, residuals,
 * the PSF, and what a deconvolution makes of them.
 * Returned: *out, owned by the caller, freed by msi_planes_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_gridder_planes(const msi_gridder *g, int n, msi_planes **out);

/*
 * msi_gridder_residual - image what is left of everything added when a model is subtracted, in visibilities:
 *     sum over samples of weight (V - V_model) .., as msi_gridder_image of V and msi_gridder_predict of the model say.
 * Any number of times, of a gridder with spec.residual. What the first call makes of the samples stays for the next
 * ones, on the device: their order, coordinates, values and weights, transforms, windows. A store that the device
 * does not hold goes through in batches, at each call.
 * Given:    model     the spec's n_plane planes of msi_gridder_planes, Jy/pixel; pixels beyond the horizon are not
 *                     looked at, all others must be finite. NULL: nothing is subtracted
 * Returned: residual  as many planes, not those of the model: Jy/beam, divided by the sums of weights; NaN beyond the
 *                     horizon, and all of a plane without a sample
 * Returns:  0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_EINTERNAL (not
 *           planes of this gridder, or one without spec.residual)
 * Notes:    after any failure the gridder is as it was, and may be called again; planes then hold anything. Samples
 *           that are added or weighted later are put in order anew.
 */
int msi_gridder_residual(msi_gridder *g, const msi_planes *model, msi_planes *residual);

/* msi_gridder_psf - image the point spread function, of plane 0's weights, from the same samples: one plane, otherwise
 * as msi_gridder_residual. */
int msi_gridder_psf(msi_gridder *g, msi_planes *psf);

/*
 * msi_gridder_refine - make the residuals and PSFs that follow to a better accuracy than the specification's, by a plan
 * made anew; the precision stays, of which fp32 reaches 1e-6. Nothing changes where the accuracy is that good already.
 * Returns: 0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU; after a failure the gridder is as it was
 */
int msi_gridder_refine(msi_gridder *g, double accuracy);

/*
 * msi_gridder_weights - give sums of weights, largest weights and numbers of samples, as they stand.
 * Returned: sum_weight, largest_weight, n_vis [n_plane]; largest_weight may be NULL
 */
void msi_gridder_weights(msi_gridder *g, double *sum_weight, double *largest_weight, int64_t *n_vis);

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

/*
 * msi_gridder_expect - announce what will be added in all, where msi_gridder_clear makes room in between: one plan, and
 * what is made of a model for it, then serve every filling.
 * Given: n_sample, n_row  of one filling; w_min_lambda, w_max_lambda  of |w| over all samples, in wavelengths
 */
void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda);

/* msi_gridder_forget - give back the plan, forget the model and what was made of it, expect nothing; samples stay. */
void msi_gridder_forget(msi_gridder *g);

/*
 * msi_gridder_model - set the image that msi_gridder_predict degrids.
 * Given:   model  the gridder's n_plane images in Jy/pixel, of its geometry and precision; borrowed until the next
 *                 model, msi_gridder_forget or the end. Pixels beyond the horizon are not looked at, all others must
 *                 be finite
 * Returns: 0, MSI_EINTERNAL (not of this gridder's planes, geometry and msi_gridder_precision)
 */
int msi_gridder_model(msi_gridder *g, const msi_image *model);

/* msi_gridder_precision - tell that of the images, which models must have too; chosen by msi_gridder_create. */
msi_precision msi_gridder_precision(const msi_gridder *g);

/*
 * msi_gridder_predict - degrid the model at everything added since the last msi_gridder_clear:
 *     V = sum over pixels of S exp(+2 pi i (u l + v m + w (n - 1))).
 * Returns: 0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_EINTERNAL (no
 *          model)
 * Notes:   the transpose of msi_gridder_image before its division by the sum of weights. A sample beyond the uv plane
 *          that the image can hold has its value too: a pixel grid is periodic there.
 */
int msi_gridder_predict(msi_gridder *g);

/*
 * msi_gridder_fetch - hand out predicted visibilities, block by block in the order in which they were added, from the
 * first one on after each prediction.
 * Given:    n_row, n_chan, freq_hz [n_chan]  of the block that was added
 * Returned: vis [n_plane][n_row][n_chan] Jy
 * Returns:  0, MSI_EINTERNAL (blocks asked for in another order)
 */
int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis);

/* msi_gridder_clear - forget the samples; memory, plan and what was made of the model stay for the next ones. */
void msi_gridder_clear(msi_gridder *g);

/*
 * msi_gridder_report_get - copy the figures as they stand; those of the plan are set by the first image or prediction.
 * Returned: *report  its strings are static
 */
void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report);

/*
 * msi_gridder_store_bytes - count what the store takes for samples and rows, in memory and file together.
 * Returns: bytes
 */
int64_t msi_gridder_store_bytes(const msi_gridder *g, int64_t n_sample, int64_t n_row);

/*
 * msi_gridder_foresee - plan for a number of samples and a range of |w|, without data: dry runs and memory plans.
 * Given:    n_sample, n_row  to be added; w_min_lambda, w_max_lambda  of |w| in wavelengths (min > max: no samples)
 * Returned: *report  with the plan's figures and the store's bytes; after a failure with the latter alone
 * Returns:  0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU
 */
int msi_gridder_foresee(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda,
                        msi_gridder_report *report);

/* msi_gridder_free - NULL-safe. */
void msi_gridder_free(msi_gridder *g);

/*
 * msi_gridder_shared - tell what workers of a gridder share out among themselves (gridder_spec.h), and what it gains.
 * Given:    report  of a plan; n_image  of the gridder, its PSF counted; 0: of predictions; n_worker
 * Returned: what  "images", "samples"; time  of that of one worker, as foreseen
 */
typedef struct msi_gridder_sharing {
    const char *what;
    double time;
} msi_gridder_sharing;
msi_gridder_sharing msi_gridder_shared(const msi_gridder_report *report, int n_image, int n_worker);

/* ---- Density weights -------------------------------------------------------------------------------------------- */

/*
 * msi_density_add - add the weights of a gridder's plane 0, and apart those of samples that it lacks, as they stand;
 * several gridders (channels of an MFS image) add up.
 * Returns: 0, MSI_ENOMEM
 */
int msi_density_add(msi_density *d, const msi_gridder *g);

/*
 * msi_gridder_weight - multiply every stored weight by density weighting and taper: once, after the last
 * msi_gridder_add and before msi_gridder_image.
 * Given:   density, rule  as msi_density_weight
 * Returns: 0, MSI_EINTERNAL (a second time, or a rule that needs a density without one)
 */
int msi_gridder_weight(msi_gridder *g, const msi_density *density, const msi_weighting *rule);

#ifdef __cplusplus
}
#endif
#endif
