/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Restored images: a model convolved with a beam, plus residuals. */
#ifndef MSI_CLEAN_RESTORE_H
#define MSI_CLEAN_RESTORE_H

#include "core/image.h"
#include "kernels/method/planes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The planes to restore with one beam. Planes of another beam need another call. */
typedef struct msi_restore_spec {
    msi_beam beam; /* known */
    double cell_x_rad, cell_y_rad;
    int first, n; /* planes [first, first + n) of model, residual and image */
    int n_thread; /* threads of the CPU; 0: as many as OpenMP gives */
} msi_restore_spec;

/*
 * msi_restore - add a model, convolved with the beam as a gaussian of peak 1, to residuals: Jy/pixel become Jy/beam.
 * Given:    residual, model  planes of one shape; pixels of the model that are not finite count as zero, those of the
 *                            residual are kept
 * Returned: image  planes of the same shape; it may be the residual
 * Returns:  0, MSI_EARGUMENT (no beam, no pixel size, planes out of range or of different shapes), MSI_EGPU, MSI_ENOMEM
 * Notes:    the gaussian is sampled at pixels' centres and is exact down to e-44; beams of less than about two pixels
 *           are undersampled. The model is zero beyond the image's edge.
 */
int msi_restore(msi_planes *image, const msi_planes *residual, const msi_planes *model, const msi_restore_spec *spec);

/*
 * msi_restore_estimate - count the bytes that msi_restore needs on the host and on the GPU, not counting the planes.
 * Given:    shape  of the planes
 * Returned: paged  the part of host that may be out of memory after msi_memory_page_to
 */
void msi_restore_estimate(const msi_planes_shape *shape, const msi_restore_spec *spec, int64_t *host, int64_t *paged,
                          int64_t *device);

#ifdef __cplusplus
}
#endif
#endif
