/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A store whose samples were put into a GPU's memory by who has them there: its segments' arrays are parts of pieces in
 * that memory, of one plane each, and nothing on the host reads them. A store is all of this kind or not at all; where
 * something on the host must read it, msi_gpu_samples_move_to_host makes it an ordinary one.
 */
#ifndef MSI_KERNELS_GPU_SAMPLES_H
#define MSI_KERNELS_GPU_SAMPLES_H

#include "kernels/store/vis_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of one list of channels in a GPU's memory, for a kernel to fill or to read. */
typedef struct msi_gpu_samples {
    int64_t n_row;
    int32_t n_chan;
    double *uvw_m; /* [n_row][3] */
    float *weight; /* [n_row][n_chan]; 0: no sample. NULL in a store of coordinates */
    void *vis;     /* [n_row][n_chan] msi_c32 or msi_c64: unweighted, finite; or predicted */
} msi_gpu_samples;

/* Sums up some samples, as msi_vis_store has it of all. */
typedef struct msi_gpu_figures {
    int64_t n_sample, n_outside;
    double w_min_lambda, w_max_lambda;
    double sum_weight, largest_weight, largest_jy, largest_product;
} msi_gpu_figures;

/*
 * msi_gpu_samples_room - make a piece of a store, behind those that there are.
 * Given:    store  empty, or with pieces alone, of one plane; device; freq_hz [n_chan]
 * Returned: *room  to be filled, and then kept or dropped before anything else is done with the store
 * Returns:  0, MSI_EGPU (no memory there), MSI_ENOMEM, MSI_ERANGE (more than a store numbers)
 */
int msi_gpu_samples_room(msi_vis_store *store, int device, int64_t n_row, int32_t n_chan, const double *freq_hz,
                         msi_gpu_samples *room);

/* msi_gpu_samples_keep - make the last piece part of the store. Returns: 0, MSI_ENOMEM, MSI_ERANGE */
int msi_gpu_samples_keep(msi_vis_store *store, const msi_gpu_figures *figures);

/* msi_gpu_samples_drop - free the last piece, which was not kept. */
void msi_gpu_samples_drop(msi_vis_store *store);

/* msi_gpu_samples_get - look at piece i of those that were kept. Returns: 1; 0 where there are fewer */
int msi_gpu_samples_get(const msi_vis_store *store, int64_t i, msi_gpu_samples *out);

/* msi_gpu_samples_move_to_host - move all samples to host memory; those of an ordinary store are there.
 * Returns: 0, MSI_EGPU, MSI_ENOMEM, MSI_EOUTPUT; after a failure the store is empty */
int msi_gpu_samples_move_to_host(msi_vis_store *store);

/* msi_gpu_samples_free - free all pieces; the store's segments are nowhere then. */
void msi_gpu_samples_free(msi_vis_store *store);

#ifdef __cplusplus
}
#endif
#endif
