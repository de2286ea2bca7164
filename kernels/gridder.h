/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The plan API: visibilities in, images out, or an image in, visibilities out.
 *
 * To image: create, add blocks, weight, image. To deconvolve: create with spec.residual, add blocks, weight, then call
 * residual any number of times. To predict: create with spec.predict; for each model: model, then add coordinates,
 * predict, fetch, clear. A gridder is used by one thread at a time; several gridders may run in several threads.
 * Functions that return an int return 0 or a code of core/status.h; msi_error_get returns the error line.
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
#include "kernels/store/vis_store.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_gridder msi_gridder;

/*
 * msi_gridder_create - make an empty gridder.
 * Given:    spec  copied, including its strings
 * Returned: *out, owned by the caller, freed by msi_gridder_free; NULL after a failure
 * Returns:  0, MSI_ERANGE (a member outside its range, or no strategy of this name), MSI_EGPU (a GPU was requested and
 *           is not available), MSI_ENOMEM
 * Notes:    msi_gridder_estimate, or the first image or prediction, checks that a plan reaches the accuracy.
 */
int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec);

/*
 * msi_gridder_create_early - make a gridder to which samples can be added before its strategy is chosen, so that the
 * caller need not wait for a device. Before msi_gridder_bind only functions that add samples, report, and free may be
 * called.
 * Given, returned: as msi_gridder_create
 * Returns:  0, MSI_ERANGE (a member outside its range), MSI_ENOMEM
 */
int msi_gridder_create_early(msi_gridder **out, const msi_gridder_spec *spec);

/*
 * msi_gridder_bind - choose the strategy of a gridder made by msi_gridder_create_early.
 * Given:   spec  the same as before, except for device, workers, n_thread and store_bytes; store_bytes holds for
 *                samples added later
 * Returns: 0, MSI_ERANGE, MSI_EGPU, MSI_ENOMEM, as msi_gridder_create
 */
int msi_gridder_bind(msi_gridder *g, const msi_gridder_spec *spec);

/* msi_gridder_set_workers - share the work among these workers instead of spec.worker. Returns: 0, MSI_EGPU,
 * MSI_ENOMEM */
int msi_gridder_set_workers(msi_gridder *g, const int *worker, int n_worker);

/* msi_gridder_spec_of - return the specification of a gridder, with its devices. Borrowed. */
const msi_gridder_spec *msi_gridder_spec_of(const msi_gridder *g);

/*
 * msi_gridder_add - add a block of visibilities; any number of times.
 * Given:   block  copied: of the spec's n_plane planes; a gridder that predicts reads only uvw and frequencies
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir is full), MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (a block of
 *          another number of planes, or after msi_gridder_weight)
 * Notes:   samples that the image cannot hold are dropped and counted (msi_gridder_report.n_outside).
 */
int msi_gridder_add(msi_gridder *g, const msi_vis_block *block);

/*
 * msi_gridder_add_all - add blocks [n_block] with all threads, with the same result as msi_gridder_add of each in turn.
 * After a failure, some of the blocks may have been added.
 */
int msi_gridder_add_all(msi_gridder *g, const msi_vis_block *block, int n_block);

/*
 * msi_gridder_reserve_rows - reserve rows of the gridder's store (vis_store.h), for a caller that converts samples
 * there instead of adding blocks. Before msi_gridder_weight. Returns: as msi_vis_store_reserve
 * msi_gridder_count_rows - as msi_vis_store_count.
 * msi_gridder_commit_rows - as msi_vis_store_commit; after a failure there may be no samples.
 */
int msi_gridder_reserve_rows(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_vis_rows *out);
void msi_gridder_count_rows(const msi_gridder *g, msi_vis_rows *rows, int64_t first, int64_t n);
int msi_gridder_commit_rows(msi_gridder *g, const msi_vis_rows *rows, int64_t n);

/*
 * msi_gridder_store - return the stored samples, in host memory, for callers that derive other samples from them, such
 * as samples for another centre or with gains. Borrowed until samples are added, cleared or freed. The caller may write
 * the visibilities of a gridder that predicts.
 */
msi_vis_store *msi_gridder_store(msi_gridder *g);

/* ---- Samples on the GPU ----------------------------------------------------------------------------------------- */

/*
 * msi_gridder_move_to_gpu - move a gridder's samples to its GPU, if the GPU has enough memory and the gridder can use
 * them there; otherwise change nothing.
 * Given:   n_sample, n_row  totals of all gridders whose samples will be on the GPU
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EOUTPUT; after a failure there are no samples
 * Notes:   gridders that are not bound to a GPU, that predict, with tags, terms or workers keep samples in host memory.
 *
 * msi_gridder_gpu_begin - move the samples to the GPU before all blocks are added. Later blocks are also stored there.
 * Given:   n_sample, n_row  totals of all blocks
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 *
 * msi_gridder_gpu_end - wait until all samples are on the GPU; call it after the last block, or after the last commit
 * of several planes. If the GPU has not enough memory, the samples are in host memory. Returns: as
 * msi_gridder_move_to_gpu
 */
int msi_gridder_move_to_gpu(msi_gridder *g, int64_t n_sample, int64_t n_row);
int msi_gridder_gpu_begin(msi_gridder *g, int64_t n_sample, int64_t n_row);
int msi_gridder_gpu_end(msi_gridder *g);

/*
 * msi_gridder_gpu_reserve - reserve memory for samples on a gridder's GPU, which a kernel fills. It is for samples that
 * are already on the GPU, or are computed there. Builds without CUDA do not have this function.
 * Given:    g  on a GPU, without spec.store_bytes and workers; all of its samples, if any, were added this way; before
 *              msi_gridder_weight
 *           freq_hz  [n_chan], at most MSI_STORE_MAX_CHAN
 * Returned: *samples  n_row rows, to be committed or discarded next
 * Returns:  0, MSI_EGPU (not enough memory there), MSI_ENOMEM, MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (not
 *           such a gridder)
 */
int msi_gridder_gpu_reserve(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz,
                            msi_gpu_samples *samples);

/*
 * msi_gridder_gpu_commit - add the samples in the reserved memory, as msi_gridder_add does with a block. If there are
 * several planes, call msi_gridder_gpu_end after the last commit. Given: totals  those of these samples. Returns: as
 * msi_gridder_add
 * msi_gridder_gpu_discard - free the reserved space.
 */
int msi_gridder_gpu_commit(msi_gridder *g, const msi_gpu_totals *totals);
void msi_gridder_gpu_discard(msi_gridder *g);

/*
 * msi_gridder_gpu_samples - get the samples of commit i, counted from 0. After a prediction they have its visibilities.
 * Returns: 1; 0 if there are fewer commits, or samples are in host memory
 */
int msi_gridder_gpu_samples(const msi_gridder *g, int64_t i, msi_gpu_samples *out);

/*
 * msi_gridder_move_to_host - move samples on the GPU to host memory, for functions that read them there
 * (msi_density_add). Does nothing if they are there. Returns: 0, MSI_EGPU, MSI_ENOMEM; after a failure there are no
 * samples
 */
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
 * msi_gridder_planes - make planes of a gridder's geometry, precision, backend and device, all zero: for models,
 * residuals, the PSF, and intermediate images of a deconvolution.
 * Returned: *out, owned by the caller, freed by msi_planes_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_gridder_planes(const msi_gridder *g, int n, msi_planes **out);

/*
 * msi_gridder_residual - image the visibilities that were added less those of a model:
 *     sum over samples of weight (V - V_model) .., with V as in msi_gridder_image and V_model as in
 *     msi_gridder_predict.
 * Any number of times, for a gridder with spec.residual. Everything derived from the samples by the first call is kept
 * on the device for later calls: order, coordinates, values, weights, transforms, windows. A store that does not fit on
 * the device is processed in batches, in each call.
 * Given:    model     the spec's [n_plane][n_term] planes of msi_gridder_planes, Jy/pixel; pixels beyond the horizon
 *                     are ignored, all others must be finite. NULL: nothing is subtracted
 * Returned: residual  as many planes, different from the model: Jy/beam, divided by the sums of weights; NaN beyond the
 *                     horizon, and everywhere in a plane without a sample
 * Returns:  0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_EINTERNAL (not
 *           planes of this gridder, or one without spec.residual)
 * Notes:    after a failure the gridder is unchanged and may be called again; the planes are undefined. If samples are
 *           added or weighted later, the next call sorts them again.
 */
int msi_gridder_residual(msi_gridder *g, const msi_planes *model, msi_planes *residual);

/* msi_gridder_psf - image the point spread function, from plane 0's weights: one plane, otherwise as
 * msi_gridder_residual. With n_term terms, up to 2 n_term - 1 planes: in plane k weights are multiplied by x^k. All are
 * divided by the same sum of weights. */
int msi_gridder_psf(msi_gridder *g, msi_planes *psf);

/*
 * msi_gridder_refine - make later residuals and PSFs with a better accuracy than the specification's, by a new plan.
 * The precision is kept; fp32 reaches 1e-6. Does nothing if the accuracy is that good already.
 * Returns: 0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU; after a failure the gridder is unchanged
 */
int msi_gridder_refine(msi_gridder *g, double accuracy);

/*
 * msi_gridder_weights - get the current sums of weights, largest weights and numbers of samples.
 * Returned: sum_weight, largest_weight, n_vis [n_plane]; largest_weight may be NULL
 */
void msi_gridder_weights(msi_gridder *g, double *sum_weight, double *largest_weight, int64_t *n_vis);

/* msi_gridder_weights_add - combine the figures of msi_gridder_weights of several gridders: add the first n_plane
 * planes to sum_weight and n_vis, and set largest_weight to the maximum. Each of the three may be NULL. */
void msi_gridder_weights_add(msi_gridder *g, int n_plane, double *sum_weight, double *largest_weight, int64_t *n_vis);

/* msi_gridder_band, msi_gridder_moments - as msi_vis_store_band and msi_vis_store_moments, with weights as
 * msi_gridder_weights gives them. */
void msi_gridder_band(const msi_gridder *g, double *low_hz, double *high_hz);
void msi_gridder_moments(const msi_gridder *g, double middle_hz, double half_hz, int n, double *moment);

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

/*
 * msi_gridder_expect - announce the samples of several batches, between which the store is cleared by
 * msi_gridder_clear. One plan, and one transform of the model, are then used for all batches.
 * Given: n_sample, n_row  of one batch; w_min_lambda, w_max_lambda  range of |w| over all samples, in wavelengths
 */
void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda);

/* msi_gridder_reset - free the plan, drop the model and everything derived from it, and expect no batches; samples
 * stay. */
void msi_gridder_reset(msi_gridder *g);

/*
 * msi_gridder_model - set the image that msi_gridder_predict degrids.
 * Given:   model  the gridder's n_plane images in Jy/pixel, of its geometry and precision; borrowed until the next
 *                 model, msi_gridder_reset or the end. Pixels beyond the horizon are ignored, all others must be finite
 * Returns: 0, MSI_EINTERNAL (not of this gridder's planes, geometry and msi_gridder_precision)
 */
int msi_gridder_model(msi_gridder *g, const msi_image *model);

/* msi_gridder_precision - return the precision of the images and models; msi_gridder_create chooses it. */
msi_precision msi_gridder_precision(const msi_gridder *g);

/*
 * msi_gridder_predict - degrid the model at everything added since the last msi_gridder_clear:
 *     V = sum over pixels of S exp(+2 pi i (u l + v m + w (n - 1))).
 * Returns: 0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_EINTERNAL (no
 *          model)
 * Notes:   it is the transpose of msi_gridder_image before division by the sum of weights. Samples beyond the uv plane
 *          of the image are predicted too, because the Fourier transform of a pixel grid is periodic.
 */
int msi_gridder_predict(msi_gridder *g);

/*
 * msi_gridder_fetch - copy out predicted visibilities, block by block in the order in which they were added, starting
 * again with the first block after each prediction.
 * Given:    n_row, n_chan, freq_hz [n_chan]  of the block that was added
 * Returned: vis [n_plane][n_row][n_chan] Jy
 * Returns:  0, MSI_EINTERNAL (blocks in another order)
 */
int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis);

/* msi_gridder_clear - drop the samples; memory, plan and everything derived from the model are kept for the next
 * batch. */
void msi_gridder_clear(msi_gridder *g);

/*
 * msi_gridder_report_get - copy the current figures. The first image or prediction sets the figures of the plan.
 * Returned: *report  its strings are static
 */
void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report);

/* msi_gridder_report_add - copy the figures of a report, with its times added to those of *all. Given and returned:
 * *all */
void msi_gridder_report_add(msi_gridder_report *all, const msi_gridder_report *of);

/* msi_gridder_store_bytes - return the bytes that the store needs for samples and rows, in memory and file together. */
int64_t msi_gridder_store_bytes(const msi_gridder *g, int64_t n_sample, int64_t n_row);

/*
 * msi_gridder_estimate - plan for a number of samples and a range of |w|, without data, for dry runs and memory plans.
 * Given:    n_sample, n_row  numbers to be added; w_min_lambda, w_max_lambda  range of |w| in wavelengths (min > max:
 *           no samples)
 * Returned: *report  with the plan's figures and the store's bytes; after a failure only with the latter
 * Returns:  0, MSI_ERANGE (no plan reaches the accuracy), MSI_ENOMEM, MSI_EGPU
 */
int msi_gridder_estimate(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda,
                         double w_max_lambda, msi_gridder_report *report);

/* msi_gridder_estimate_stored - plan for the samples that were added, on the CPU and in memory. Returned, returns: as
 * msi_gridder_estimate */
int msi_gridder_estimate_stored(const msi_gridder *g, msi_gridder_report *report);

/* msi_gridder_free - NULL-safe. */
void msi_gridder_free(msi_gridder *g);

/*
 * msi_gridder_estimate_sharing - estimate how the workers of a gridder divide the work (workers.h), and the time.
 * Given:    report  report of a plan; n_image  number of images, including the PSF; 0: predictions; n_worker
 * Returned: what  "images" or "samples"; time  estimated time, relative to one worker
 */
typedef struct msi_gridder_sharing {
    const char *what;
    double time;
} msi_gridder_sharing;
msi_gridder_sharing msi_gridder_estimate_sharing(const msi_gridder_report *report, int n_image, int n_worker);

/* ---- Density weights -------------------------------------------------------------------------------------------- */

/*
 * msi_density_add - add the current weights of a gridder's plane 0 and, separately, the weights of samples that plane 0
 * does not have. It may be called for several gridders, such as the channels of an MFS image.
 * Returns: 0, MSI_ENOMEM
 */
int msi_density_add(msi_density *d, const msi_gridder *g);

/*
 * msi_gridder_weight - multiply every stored weight by density weighting and taper: once, after the last
 * msi_gridder_add and before msi_gridder_image.
 * Given:   density, rule  as msi_density_weight
 * Returns: 0, MSI_EINTERNAL (a second time, or a rule that needs a density and has none)
 */
int msi_gridder_weight(msi_gridder *g, msi_density *density, const msi_weighting *rule);

#ifdef __cplusplus
}
#endif
#endif
