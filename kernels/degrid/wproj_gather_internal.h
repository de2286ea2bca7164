/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The gather's plan, for the files that launch its kernels. */
#ifndef MSI_KERNELS_WPROJ_GATHER_INTERNAL_H
#define MSI_KERNELS_WPROJ_GATHER_INTERNAL_H

#include <algorithm>

#include "kernels/degrid/wproj_gather_cuda.h"
#include "kernels/degrid/wproj_gather_tile.cuh"

struct msi_gather {
    msi_gather_form form;
    msi_degrid_sorter *sorter;
    msi_degrid_sorted sorted;      /* by tile */
    const msi_degrid_place *place; /* by place */
    const msi_degrid_item *item;
    const uint32_t *n_item;
    degrid::tile_shape shape[MSI_DEGRID_MAX_CLASS];
    int32_t cells;       /* of image in shared memory */
    uint32_t *next_item; /* device memory */
    int n_block;         /* multiprocessors */
};

namespace degrid {

template <typename T> kernel_view<T> view_kernels(const msi_window_job *job)
{
    const msi_window_kernels &k = job->kernels;
    return {(const cplx<T> *)k.table, k.offset_u, k.taps, k.oversample};
}

template <typename T> void fill_tile_args(tile_args<T> *a, const msi_gather *g, const msi_window_job *job)
{
    a->classes = *msi_degrid_sorter_classes(g->sorter);
    std::copy(g->shape, g->shape + MSI_DEGRID_MAX_CLASS, a->shape);
    a->cells = g->cells;
    a->n_image = job->n_image;
    a->sample = job->sample;
    a->value = (cplx<T> *)job->value;
    a->grid = (const cplx<T> *)job->grid;
    a->kernels = view_kernels<T>(job);
    a->index = g->sorted.index;
    a->item = g->item;
    a->n_item = g->n_item;
    a->next_item = g->next_item;
}

} /* namespace degrid */

#endif
