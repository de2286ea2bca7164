/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection on an NVIDIA GPU: images of a store, by the strategies tile and window. */
#ifndef MSI_WPROJ_CUDA_H
#define MSI_WPROJ_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/wproj_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The way in which a slice's samples are added to its grid. */
typedef enum msi_wproj_cuda_form { MSI_WPROJ_CUDA_TILE, MSI_WPROJ_CUDA_WINDOW } msi_wproj_cuda_form;

extern const msi_wproj_cost msi_wproj_cuda_tile_cost, msi_wproj_cuda_window_cost;

/*
 * The work of a plan on a device. Pointers are borrowed for the call, or as long as kept memory exists.
 */
typedef struct msi_wproj_cuda_work {
    int device; /* CUDA ordinal */
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels; /* kernels of the plan, their table in host or device memory */
    int64_t batch_samples; /* samples on the device at once; 0: as many as fit. Segments of the store are not divided */
} msi_wproj_cuda_work;

/*
 * msi_wproj_cuda_table_bytes - return the device memory that a plan's kernels may use.
 * Returned: *bytes. Returns: 0, MSI_EGPU
 */
int msi_wproj_cuda_table_bytes(int device, int64_t *bytes);

/* msi_wproj_cuda_check - check whether the device can execute a plan. Returns: 0, MSI_ERANGE (a larger grid or more
 * w-planes than its indices hold) */
int msi_wproj_cuda_check(const msi_wproj_plan *plan);

/* msi_wproj_cuda_bytes - count the device memory for n_image images at once, and all samples of n_plane planes. */
int64_t msi_wproj_cuda_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form, int64_t n_sample, int n_plane,
                             int n_image);

/*
 * msi_wproj_cuda_image - msi_wproj_cpu_image on the GPU; up to eight images in one pass if they fit.
 *
 * Given:   work, form; store, store_plane [image->n_plane], image and times as there
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_ERANGE (kernels of more than 2^31 values by tiles; full ones that are to be
 *          interpolated by a window), MSI_EINTERRUPTED
 * Notes:   the order of summation varies, so results vary by rounding.
 */
int msi_wproj_cuda_image(const msi_wproj_cuda_work *work, msi_wproj_cuda_form form, const msi_vis_store *store,
                         const int *store_plane, msi_image *image, msi_stage_times *times);

/* w-projection's transpose on an NVIDIA GPU: a model image to visibilities. */

/* The way in which visibilities are summed from a slice's cells. GATHER and SCATTER need full kernels of the nearest
 * sub-offset. */
typedef enum msi_wproj_predict_form {
    MSI_WPROJ_PREDICT_WINDOW,
    MSI_WPROJ_PREDICT_GATHER,
    MSI_WPROJ_PREDICT_SCATTER
} msi_wproj_predict_form;

extern const msi_wproj_cost msi_wproj_cuda_gather_cost, msi_wproj_cuda_scatter_cost;

/* msi_wproj_predictor_check - check whether the device can execute a plan. Returns: 0, MSI_ERANGE (more cells, w-planes
 * or kernels than its indices hold) */
int msi_wproj_predictor_check(const msi_wproj_plan *plan, msi_wproj_predict_form form);

/* msi_wproj_predictor_bytes - count the device memory for n_image images of n_sample samples. */
int64_t msi_wproj_predictor_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form, int64_t n_sample,
                                  int n_image);

/*
 * msi_wproj_cuda_predict - msi_wproj_cpu_predict on the GPU.
 *
 * Given:              work, its plan and kernels borrowed as long as *kept lives; form, store, model, times as there
 * Given and returned: kept  memory of the model from call to call: NULL in *kept at first, freed by
 *                           msi_wproj_cuda_forget; kept NULL: none
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_ERANGE (kernels that the form does not take), MSI_EINTERRUPTED
 * Notes:   the model and the FFT's plan are kept; transformed slices are made again for each call and batch. Sums that
 *          several warps share meet in atomic additions, so that results vary by rounding.
 */
int msi_wproj_cuda_predict(const msi_wproj_cuda_work *work, msi_wproj_predict_form form, msi_vis_store *store,
                           const msi_image *model, void **kept, msi_stage_times *times);

/* msi_wproj_cuda_forget - free the memory kept by msi_wproj_cuda_predict; NULL is fine. */
void msi_wproj_cuda_forget(void *kept);

#ifdef __cplusplus
}
#endif
#endif
