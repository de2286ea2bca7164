/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The gather's object, for the files that launch its kernels. */
#ifndef MSI_KERNELS_WPROJ_GATHER_INTERNAL_H
#define MSI_KERNELS_WPROJ_GATHER_INTERNAL_H

#include <algorithm>

#include "kernels/wproj/points/wproj_gather_cuda.h"
#include "kernels/wproj/points/wproj_gather_tile.cuh"

struct msi_gather {
    msi_gpu_stream gpu;
    msi_gather_form form;
    msi_wproj_points_sorter *sorter;
    msi_wproj_points_sorted sorted; /* by tile */
    msi_wproj_points_placed placed; /* by place or strip */
    msi_wproj_points_strips strips;
    const msi_wproj_points_item *item;
    const uint32_t *n_item;
    points::tile_shape shape[MSI_WPROJ_POINTS_MAX_CLASS];
    int32_t cells;        /* of image in shared memory */
    uint32_t *next_item;  /* device memory */
    int n_block;          /* multiprocessors */
    bool has_fetch_limit; /* fetch_granules */
};

namespace points {

template <typename T> kernel_view<T> view_kernels(const msi_wproj_job *job)
{
    const msi_wproj_kernels &k = job->kernels;
    return {(const cplx<T> *)k.table, k.offset_u, k.taps, k.oversample};
}

/* Fill the arguments of a gather by tile. */
template <typename T> void fill_tile_args(tile_args<T> *a, const msi_gather *g, const msi_wproj_job *job)
{
    a->classes = *msi_wproj_points_sorter_classes(g->sorter);
    std::copy(g->shape, g->shape + MSI_WPROJ_POINTS_MAX_CLASS, a->shape);
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

/* Describe tiles as boxes where each class's are, and images are not side by side. */
template <typename T> void describe_tiles(tile_boxes *boxes, const msi_gather *g, const msi_wproj_job *job)
{
    const msi_wproj_points_classes &c = *msi_wproj_points_sorter_classes(g->sorter);
    const int elements = (int)(sizeof(cplx<T>) / sizeof(double));
    boxes->given = job->n_image == 1;
    for (int k = 0; k < c.n_class && boxes->given; k++)
        boxes->given = box_copy::describe(&boxes->of[k], job->grid, c.nu * elements, c.nv, g->shape[k].pitch * elements,
                                          c.of[k].tile_v + g->shape[k].block_v - 1);
}

extern const int STRIP_ITEM; /* most visibilities of an item */

/*
 * shape_strips - shape strips and bins for MSI_GATHER_STRIP.
 * Given:   n_block: multiprocessors of the GPU
 * Returns: whether this form is for such a job
 */
bool shape_strips(msi_wproj_points_strips *strips, const msi_wproj_job *job, int n_block);

/* fetch_granules - have the device's L2 cache read no more at once than launch_strips asks for, where it can be told;
 * until fetch_as_before. */
void fetch_granules(msi_gather *g);
void fetch_as_before(msi_gather *g);

/* launch_strips - gather by strips; g->placed is sorted. Returns: 0, MSI_EGPU */
int launch_strips(const msi_gather *g, const msi_wproj_job *job);

} // namespace points

#endif
