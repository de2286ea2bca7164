/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A store's samples between residuals on the CPU: put in order once, with room for what a model leaves of them. */
#ifndef MSI_KERNELS_RESIDUAL_STORE_H
#define MSI_KERNELS_RESIDUAL_STORE_H

#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"

/* Both stores have the segments of the one they were made of, all but the second one's visibilities, and its order. */
typedef struct msi_residual_store {
    msi_vis_store data; /* visibilities as they are */
    msi_vis_store left; /* visibilities of its own: predicted, then what is left of the data */
    msi_buckets order;
    void *vis;
} msi_residual_store;

/*
 * msi_residual_store_make - put a store's samples in order.
 * Given:    store  borrowed; it stays as it is while *out is used
 * Returned: *out, freed by msi_residual_store_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_residual_store_make(msi_residual_store **out, const msi_vis_store *store, const msi_wgrid_geometry *geometry);
void msi_residual_store_free(msi_residual_store *s);

/* msi_residual_store_bytes - count the host bytes of n_sample samples of n_plane planes, beside their order. */
int64_t msi_residual_store_bytes(int64_t n_sample, int n_plane, msi_precision precision);

/* msi_residual_store_subtract - make what is left, the data less them, of predicted visibilities. */
void msi_residual_store_subtract(msi_residual_store *s);

#endif
