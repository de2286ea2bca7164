/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A store with its samples in GPU memory, where host code cannot read them. Either all samples of a store are on the
 * GPU or none; msi_gpu_samples_move_to_host moves them to host memory. There are two ways to store samples on the GPU:
 *
 * - Kernels of the store's user fill pieces of GPU memory (reserve, commit). The store has one plane.
 * - Blocks are added as usual, between msi_gpu_samples_begin_intake and _end_intake. Their segments are filled in
 *   registered buffers of host memory. A full buffer is copied to the GPU, and then used again.
 */
#ifndef MSI_KERNELS_GPU_SAMPLES_H
#define MSI_KERNELS_GPU_SAMPLES_H

#include "kernels/store/vis_store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of one list of channels in GPU memory, for a kernel to fill or to read. */
typedef struct msi_gpu_samples {
    int64_t n_row;
    int32_t n_chan;
    double *uvw_m; /* [n_row][3] */
    float *weight; /* [n_plane][n_row][n_chan]; 0: no sample. NULL in a store of coordinates */
    void *vis;     /* [n_plane][n_row][n_chan] msi_c32 or msi_c64: unweighted, finite; or predicted */
} msi_gpu_samples;

/* Totals of samples, with the same members as msi_vis_store; sum_weight is for plane 0. */
typedef struct msi_gpu_totals {
    int64_t n_sample, n_outside;
    double w_min_lambda, w_max_lambda;
    double sum_weight, largest_weight, largest_jy, largest_product;
} msi_gpu_totals;

/*
 * msi_gpu_samples_reserve - add an empty piece to a store, after the existing ones.
 * Given:    store  empty, or only with pieces; device; freq_hz [n_chan]
 * Returned: *samples  to be filled, and then committed or discarded before any other use of the store
 * Returns:  0, MSI_EGPU (not enough memory there), MSI_ENOMEM, MSI_ERANGE (more rows than a store can number)
 */
int msi_gpu_samples_reserve(msi_vis_store *store, int device, int64_t n_row, int32_t n_chan, const double *freq_hz,
                            msi_gpu_samples *samples);

/* msi_gpu_samples_commit - make the last piece part of the store. Returns: 0, MSI_ENOMEM, MSI_ERANGE */
int msi_gpu_samples_commit(msi_vis_store *store, const msi_gpu_totals *totals);

/* msi_gpu_samples_discard - free the last piece, which was not committed. */
void msi_gpu_samples_discard(msi_vis_store *store);

/* msi_gpu_samples_get - get piece i of those committed. Returns: 1; 0 if there are fewer */
int msi_gpu_samples_get(const msi_vis_store *store, int64_t i, msi_gpu_samples *out);

/*
 * msi_gpu_samples_move_to_gpu - move a store's samples to a GPU.
 * Given:   store  in host memory, without tags, not of coordinates
 * Returns: 0, MSI_EGPU (not enough memory there), MSI_ENOMEM; after a failure all samples are in host memory
 */
int msi_gpu_samples_move_to_gpu(msi_vis_store *store, int device);

/*
 * msi_gpu_samples_begin_intake - move a store's samples to a GPU, and also store later blocks there. A thread copies
 * the present samples while blocks are added.
 * Given:   store  in host memory, without tags, not of coordinates
 * Returns: 0, MSI_EGPU (not enough memory there), MSI_ENOMEM; after a failure all samples are in host memory
 */
int msi_gpu_samples_begin_intake(msi_vis_store *store, int device);

/* msi_gpu_samples_carve - for vis_store.c: get memory for the store's next segment. Returned: *is_new_buffer  1: a new
 * buffer begins, so that open segments can no longer be filled. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_gpu_samples_carve(msi_vis_store *store, int64_t bytes, void **out, int *is_new_buffer);

/* msi_gpu_samples_send - for vis_store.c: begin to copy full buffers to the GPU, and set the pointers of their segments
 * to GPU memory. Returns: 0, MSI_EGPU (not enough memory there), MSI_ENOMEM */
int msi_gpu_samples_send(msi_vis_store *store);

/* msi_gpu_samples_takes_blocks - return 1 between msi_gpu_samples_begin_intake and _end_intake. */
int msi_gpu_samples_takes_blocks(const msi_vis_store *store);

/*
 * msi_gpu_samples_end_intake - copy the last buffers, and wait until all samples are on the GPU.
 * Returns: 0, MSI_EGPU, MSI_ENOMEM; after a failure the store can be moved to the host, or freed
 */
int msi_gpu_samples_end_intake(msi_vis_store *store);

/* msi_gpu_samples_device - return the device of a store's samples. */
int msi_gpu_samples_device(const msi_vis_store *store);

/* msi_gpu_samples_set_weights - set the totals of a plane's current weights: their sum, the largest, and the number of
 * weights above 0. */
void msi_gpu_samples_set_weights(msi_vis_store *store, int plane, double sum, double largest, int64_t count);

/* msi_gpu_samples_weights - get these totals. If no call has set them, get those of the weights with which samples were
 * added; *count is then the number of samples. */
void msi_gpu_samples_weights(const msi_vis_store *store, int plane, double *sum, double *largest, int64_t *count);

/* msi_gpu_samples_move_to_host - move all samples to host memory; does nothing for an ordinary store. Returns: 0,
 * MSI_EGPU, MSI_ENOMEM, MSI_EOUTPUT; after a failure the store is empty */
int msi_gpu_samples_move_to_host(msi_vis_store *store);

/* msi_gpu_samples_free - free all pieces; the store's segments are then invalid. */
void msi_gpu_samples_free(msi_vis_store *store);

#ifdef __cplusplus
}
#endif
#endif
