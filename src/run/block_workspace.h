/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Room for what is made of one block of visibilities, kept from block to block. */
#ifndef MSI_SRC_BLOCK_WORKSPACE_H
#define MSI_SRC_BLOCK_WORKSPACE_H

#include "core/types.h"

/* Zero-initialised: empty. */
typedef struct msi_block_workspace {
    int64_t n_row, n_vis, n_weight; /* that there is room for */
    double *uvw_m;                  /* [n_row][3] */
    msi_c64 *vis;                   /* [n_vis] */
    float *weight;                  /* [n_weight] */
} msi_block_workspace;

/*
 * msi_block_workspace_fit - make room; an array that is large enough stays, one that grows loses what it held.
 * Given:   n_row, n_vis, n_weight  elements that are needed, 0 for an array that is not
 * Returns: 0, MSI_ENOMEM
 */
int msi_block_workspace_fit(msi_block_workspace *w, int64_t n_row, int64_t n_vis, int64_t n_weight);

/* msi_block_workspace_free - leave it empty. */
void msi_block_workspace_free(msi_block_workspace *w);

#endif
