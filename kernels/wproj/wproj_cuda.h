/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection on an NVIDIA GPU. Images are made by the strategies tile and window. Visibilities are predicted by
 * window, gather and scatter. */
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

/* A plan, its kernels and a device. Pointers are borrowed during the call, or as long as memory is kept between
 * calls. */
typedef struct msi_wproj_cuda_work {
    int device; /* CUDA ordinal */
    const msi_wproj_plan *plan;
    const msi_wkernel_set *kernels; /* kernels of the plan; the table is in host or device memory */
    int64_t batch_samples; /* most samples on the device at a time; 0: as many as fit. Segments are not divided */
} msi_wproj_cuda_work;

/*
 * msi_wproj_cuda_table_bytes - find the bytes of device memory that a plan's kernels may use.
 * Returned: *bytes. Returns: 0, MSI_EGPU
 */
int msi_wproj_cuda_table_bytes(int device, int64_t *bytes);

/* msi_wproj_cuda_check - check that the indices of the GPU code can count a plan's cells and w-planes. Returns: 0,
 * MSI_ERANGE */
int msi_wproj_cuda_check(const msi_wproj_plan *plan);

/* msi_wproj_cuda_bytes - return the bytes of device memory that are needed to make n_image images in one pass, with all
 * n_sample samples, of n_plane planes, on the device. */
int64_t msi_wproj_cuda_bytes(const msi_wproj_plan *plan, msi_wproj_cuda_form form, int64_t n_sample, int n_plane,
                             int n_image);

/*
 * msi_wproj_cuda_image - make images as msi_wproj_cpu_image does. Up to eight are made in one pass, if they fit in
 * memory.
 *
 * Given:   work, form; the other arguments as for msi_wproj_cpu_image
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_ERANGE (strategy tile: kernels of more than 2^31 values; strategy window:
 *          interpolation of full kernels), MSI_EINTERRUPTED
 * Notes:   the order of summation varies from run to run, so results vary by rounding errors.
 */
int msi_wproj_cuda_image(const msi_wproj_cuda_work *work, msi_wproj_cuda_form form, const msi_vis_store *store,
                         const int *store_plane, msi_image *image, msi_stage_times *times);

/* ---- Prediction: visibilities from a model image ---- */

/* The way in which visibilities are summed from a slice's cells. GATHER and SCATTER need full kernels of the nearest
 * sub-offset. */
typedef enum msi_wproj_predict_form {
    MSI_WPROJ_PREDICT_WINDOW,
    MSI_WPROJ_PREDICT_GATHER,
    MSI_WPROJ_PREDICT_SCATTER
} msi_wproj_predict_form;

extern const msi_wproj_cost msi_wproj_cuda_gather_cost, msi_wproj_cuda_scatter_cost;

/* msi_wproj_predictor_check - check that the indices of the GPU code can count a plan's cells, w-planes and kernels.
 * Returns: 0, MSI_ERANGE */
int msi_wproj_predictor_check(const msi_wproj_plan *plan, msi_wproj_predict_form form);

/* msi_wproj_predictor_bytes - return the bytes of device memory that are needed to predict from n_image images, with
 * all n_sample samples on the device. */
int64_t msi_wproj_predictor_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form, int64_t n_sample,
                                  int n_image);

/*
 * msi_wproj_cuda_predict - predict visibilities as msi_wproj_cpu_predict does.
 *
 * Given:              work   its plan and kernels are borrowed as long as *kept exists
 *                     form; the other arguments as for msi_wproj_cpu_predict
 * Given and returned: *kept  memory that is kept between calls: NULL before the first, freed by msi_wproj_cuda_forget.
 *                            If kept is NULL, memory is freed at the end of the call
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_ERANGE (the form does not support the kernels), MSI_EINTERRUPTED
 * Notes:   the model and the FFT's plan are kept. Slices are transformed again in each call, for each batch. Several
 *          warps may add to one sum by atomic additions, so results vary by rounding errors.
 */
int msi_wproj_cuda_predict(const msi_wproj_cuda_work *work, msi_wproj_predict_form form, msi_vis_store *store,
                           const msi_image *model, void **kept, msi_stage_times *times);

/* msi_wproj_cuda_forget - free the memory kept by msi_wproj_cuda_predict; NULL is fine. */
void msi_wproj_cuda_forget(void *kept);

#ifdef __cplusplus
}
#endif
#endif
