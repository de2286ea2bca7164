/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/store/residual_store.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

int64_t msi_residual_store_bytes(int64_t n_sample, int n_plane, msi_precision precision)
{
    return n_sample * n_plane * msi_complex_bytes(precision);
}

/* Give the second store segments with visibilities of their own, one after the other. */
static int make_left(msi_residual_store *s, const msi_vis_store *store)
{
    int64_t bytes = 0, each = store->n_plane * msi_complex_bytes(store->precision);
    s->left.segment = NULL;
    for (int64_t i = 0; i < store->n_segment; i++)
        bytes += store->segment[i].n_row_max * store->segment[i].n_chan * each;
    MSI_TRY(msi_alloc(&s->vis, bytes, 1, "visibilities less a model"));
    MSI_TRY(msi_alloc(&s->left.segment, store->n_segment, sizeof *s->left.segment, "visibilities less a model"));
    char *at = s->vis;
    for (int64_t i = 0; i < store->n_segment; i++) {
        s->left.segment[i] = store->segment[i];
        s->left.segment[i].vis = at;
        at += store->segment[i].n_row_max * store->segment[i].n_chan * each;
    }
    return MSI_OK;
}

int msi_residual_store_make(msi_residual_store **out, const msi_vis_store *store, const msi_wgrid_geometry *geometry)
{
    msi_residual_store *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "visibilities less a model"));
    s->data = s->left = *store;
    int rc = make_left(s, store);
    if (!rc) rc = msi_bucket_sort(&s->order, store, geometry);
    s->data.order = s->left.order = &s->order;
    if (rc)
        msi_residual_store_free(s);
    else
        *out = s;
    return rc;
}

void msi_residual_store_free(msi_residual_store *s)
{
    if (!s) return;
    msi_buckets_free(&s->order);
    msi_free(s->left.segment);
    msi_free(s->vis);
    msi_free(s);
}

#define SUBTRACT(type)                                                                                                 \
    static void subtract_##type(const type *data, type *vis, int64_t n)                                                \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            vis[i].re = data[i].re - vis[i].re;                                                                        \
            vis[i].im = data[i].im - vis[i].im;                                                                        \
        }                                                                                                              \
    }
SUBTRACT(msi_c32)
SUBTRACT(msi_c64)
#undef SUBTRACT

void msi_residual_store_subtract(msi_residual_store *s)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->data.n_segment; i++)
        for (int p = 0; p < s->data.n_plane; p++) {
            const msi_vis_segment *g = &s->data.segment[i];
            const int64_t first = msi_segment_index(g, p, 0, 0), n = g->n_row * g->n_chan;
            if (s->data.precision == MSI_FP32)
                subtract_msi_c32((const msi_c32 *)g->vis + first, (msi_c32 *)s->left.segment[i].vis + first, n);
            else
                subtract_msi_c64((const msi_c64 *)g->vis + first, (msi_c64 *)s->left.segment[i].vis + first, n);
        }
}
