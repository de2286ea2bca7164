/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights of samples on a GPU (gpu_samples.h): sum the weights, and multiply them by their factors, in the
 * GPU's memory. For density.c. */
#ifndef MSI_KERNELS_DENSITY_GPU_H
#define MSI_KERNELS_DENSITY_GPU_H

#include "kernels/store/density_rules.h"
#include "kernels/store/vis_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums of weights on a device. */
typedef struct msi_density_gpu msi_density_gpu;

/*
 * msi_density_gpu_add - add the weights of a store on a GPU to the sums, as msi_density_add_store does.
 * Given and returned: *d  sums on the store's device; NULL: make them. Freed by msi_density_gpu_free
 *           total [2]  sums over all cells: of plane 0, and of samples without a weight in plane 0
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 * Notes:    the sum of a cell does not depend on the order of its samples if it is exact in double precision, for
 *           example with 2^17 weights of 24 bits whose ratios are less than 2^12.
 */
int msi_density_gpu_add(msi_density_gpu **d, const msi_density_cells *cells, const msi_vis_store *store, double *total);

/* msi_density_gpu_squares - sum the squares of the cells' sums. Given: of_rest  1: of samples without a weight in plane
 * 0; 0: of plane 0. Returns: 0, MSI_ENOMEM, MSI_EGPU */
int msi_density_gpu_squares(const msi_density_gpu *d, int of_rest, double *squares);

/* msi_density_gpu_device - return the device of the sums. */
int msi_density_gpu_device(const msi_density_gpu *d);

/* msi_density_gpu_has_rest - return 1 if there are sums of samples without a weight in plane 0. */
int msi_density_gpu_has_rest(const msi_density_gpu *d);

/* msi_density_gpu_fetch - copy the sums to host memory, each [nv / 2][nu]; rest NULL: not copied. Returns: 0,
 * MSI_ENOMEM, MSI_EGPU */
int msi_density_gpu_fetch(const msi_density_gpu *d, double *sum, double *rest);

/*
 * msi_density_gpu_weigh - multiply the weights of a store on a GPU by their factors, and set the store's sums of
 * weights.
 * Given:   d        sums on the same GPU, used instead of the arrays of `factors`; NULL: copy these arrays from the
 *          host factors  NULL: do not change the weights
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_density_gpu_weigh(msi_vis_store *store, const msi_density_gpu *d, const msi_weight_factors *factors);

/* msi_density_gpu_free - NULL-safe. */
void msi_density_gpu_free(msi_density_gpu *d);

#ifdef __cplusplus
}
#endif
#endif
