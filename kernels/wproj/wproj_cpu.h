/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection on the CPU: slice by slice, tile by tile. */
#ifndef MSI_KERNELS_WPROJ_CPU_H
#define MSI_KERNELS_WPROJ_CPU_H

#include "kernels/wproj/job/wproj_simd.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/wproj_plan.h"
#include "kernels/method/method.h"
#include "kernels/wproj/wproj_box_cpu.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_wproj_cost msi_wproj_cpu_cost;

/* A form is a way of going over a slice's samples and cells. All but the first are plain loops. */
typedef enum msi_wproj_cpu_form {
    MSI_WPROJ_CPU_TILE,      /* vectorised */
    MSI_WPROJ_CPU_REFERENCE, /* one sample's footprint after the other; gridding on one thread */
    MSI_WPROJ_CPU_WINDOW,    /* a window of cells moves with the samples */
    MSI_WPROJ_CPU_SCATTER    /* degridding only: cells add to the samples that they touch */
} msi_wproj_cpu_form;

/*
 * msi_wproj_cpu_image - grid a store, transform, correct.
 *
 * Given:    plan, its kernels, store
 *           store_plane [image->n_plane]  plane of the store, -1 for the PSF of plane 0
 *           image  allocated, with sum_weight set
 * Given and returned: times  wall seconds are added
 * Returned: image->pixel, divided by sum_weight; a plane whose sum is 0 is NaN
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wproj_cpu_image(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                        const msi_vis_store *store, const int *store_plane, msi_image *image, msi_stage_times *times);

/*
 * msi_wproj_cpu_grid_slice - grid one plane of a store's samples of an open slice into its box.
 * Given:   image_plane  plane of the store, -1 for the PSF of plane 0
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_wproj_cpu_grid_slice(msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int image_plane,
                             int32_t slice);

#ifdef __cplusplus
}
#endif
#endif
