/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection's transpose on an NVIDIA GPU: a model image to visibilities. */
#ifndef MSI_KERNELS_WPROJ_PREDICTOR_CUDA_H
#define MSI_KERNELS_WPROJ_PREDICTOR_CUDA_H

#include "kernels/store/vis_store.h"
#include "kernels/wproj/wproj_gridder_cuda.h"
#include "kernels/wproj/wproj_plan.h"
#include "kernels/method/method.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A form is the way in which visibilities are summed from a slice's cells. GATHER and SCATTER take full kernels of the
 * nearest sub-offset. */
typedef enum msi_wproj_predict_form {
    MSI_WPROJ_PREDICT_WINDOW,
    MSI_WPROJ_PREDICT_GATHER,
    MSI_WPROJ_PREDICT_SCATTER
} msi_wproj_predict_form;

extern const msi_wproj_cost msi_wproj_cuda_gather_cost, msi_wproj_cuda_scatter_cost;

/* msi_wproj_predictor_check - tell whether the device can work by a plan. Returns: 0, MSI_ERANGE (more cells, w-planes
 * or kernels than its indices hold) */
int msi_wproj_predictor_check(const msi_wproj_plan *plan, msi_wproj_predict_form form);

/* msi_wproj_predictor_bytes - count the device memory for n_image images of n_sample samples. */
int64_t msi_wproj_predictor_bytes(const msi_wproj_plan *plan, msi_wproj_predict_form form, int64_t n_sample,
                                  int n_image);

/*
 * msi_wproj_cuda_predict - do as msi_wproj_cpu_predict.
 *
 * Given:              work, its plan and kernels borrowed as long as *kept lives; form, store, model, times as there
 * Given and returned: kept  memory of the model from call to call: NULL in *kept at first, freed by
 *                           msi_wproj_cuda_forget; kept NULL: none
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_ERANGE (kernels that the form does not take), MSI_EINTERRUPTED
 * Notes:   the model and the FFT's plan are kept, transformed slices are not: they are made once a call and batch.
 *          Sums that several warps share meet in atomic additions, so that results vary by rounding.
 */
int msi_wproj_cuda_predict(const msi_wproj_cuda_work *work, msi_wproj_predict_form form, msi_vis_store *store,
                           const msi_image *model, void **kept, msi_stage_times *times);

/* msi_wproj_cuda_forget - frees what msi_wproj_cuda_predict kept; NULL is left alone. */
void msi_wproj_cuda_forget(void *kept);

#ifdef __cplusplus
}
#endif
#endif
