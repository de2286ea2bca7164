/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The strategy "window" on a GPU: blocks of visibilities onto a grid in device memory, and back. Orders samples,
 * divides them by the size of their kernels, and runs the shape that tuning chose for each size.
 */
#ifndef MSI_KERNELS_WPROJ_WINDOW_GRIDDER_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_GRIDDER_CUDA_H

#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/window/window_order_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A grid in device memory: [nv][nu][n_image] msi_c32 or msi_c64. Cell (u, v) of the unbounded plane is element
 * (v mod nv, u mod nu), so a trimmed grid may be as small as the box that holds every footprint.
 */
typedef struct msi_window_grid {
    int64_t nu, nv;
    void *cells;
} msi_window_grid;

typedef struct msi_window_gridder msi_window_gridder;

/*
 * msi_window_gridder_create - kernels to the device, room for up to `capacity` samples of a slice.
 *
 * Given:   geometry; kernels of its planes, of either form; their precision is that of values and grid. A table on the
 *          device is borrowed
 *          n_image  image planes gridded together
 *          n_expected  samples that will be worked on in all. Shapes that the cache does not know are measured for a
 *                      twentieth of the time that these take at most; 0: none is measured
 *          textures 1: interpolate by texture units, of separable kernels in fp32 with geometry->linear
 * Returned: *out, freed by msi_window_gridder_free
 * Returns: 0, MSI_EGPU, MSI_ERANGE, MSI_ENOMEM
 */
int msi_window_gridder_create(msi_window_gridder **out, const msi_wproj_geometry *geometry,
                              const msi_wkernel_set *kernels, int n_image, int64_t capacity, int64_t n_expected,
                              int textures);
void msi_window_gridder_free(msi_window_gridder *g);

/*
 * msi_window_gridder_add - grid += a block's samples of one slice of w, every image plane at once.
 * Given:   image_plane [n_image] host: the block's plane of each image, -1: the PSF
 * Returns: 0, MSI_EGPU, MSI_ERANGE (kernels wider than the grid, more samples than the capacity)
 * Notes:   waits for the stream once; returns before the additions are done.
 */
int msi_window_gridder_add(msi_window_gridder *g, const msi_window_block *block, const int32_t *image_plane,
                           int32_t slice, const msi_window_grid *grid, void *stream);

/*
 * msi_window_gridder_predict - the visibilities of a block's samples of one slice, from a grid of the sign
 * exp(+2 pi i ...): the transpose of msi_window_gridder_add. block->weight is NULL; image p goes to plane p.
 */
int msi_window_gridder_predict(msi_window_gridder *g, const msi_window_block *block, int32_t slice,
                               const msi_window_grid *grid, void *stream);

#ifdef __cplusplus
}
#endif
#endif
