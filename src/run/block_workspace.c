/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/block_workspace.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* Fit an array of size-byte elements, array being the address of the pointer to it. */
static int fit(void *array, int64_t *n_held, int64_t n, size_t size)
{
    void *old;
    if (n <= *n_held) return MSI_OK;
    memcpy(&old, array, sizeof old);
    msi_free(old);
    *n_held = 0;
    MSI_TRY(msi_alloc(array, n, size, "block of visibilities"));
    *n_held = n;
    return MSI_OK;
}

int msi_block_workspace_fit(msi_block_workspace *w, int64_t n_row, int64_t n_vis, int64_t n_weight)
{
    MSI_TRY(fit(&w->uvw_m, &w->n_row, n_row, 3 * sizeof *w->uvw_m));
    MSI_TRY(fit(&w->vis, &w->n_vis, n_vis, sizeof *w->vis));
    return fit(&w->weight, &w->n_weight, n_weight, sizeof *w->weight);
}

void msi_block_workspace_free(msi_block_workspace *w)
{
    msi_free(w->uvw_m);
    msi_free(w->vis);
    msi_free(w->weight);
    memset(w, 0, sizeof *w);
}
