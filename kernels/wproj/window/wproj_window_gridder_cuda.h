/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The strategy "window" on a GPU grids blocks of visibilities onto a grid in device memory, and degrids them from it:
 * it orders samples, divides them by the size of their kernels, and runs the shape that tuning chose for each size. A
 * gridder works on the device and the stream that it was made with.
 */
#ifndef MSI_KERNELS_WPROJ_WINDOW_GRIDDER_CUDA_H
#define MSI_KERNELS_WPROJ_WINDOW_GRIDDER_CUDA_H

#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/window/window_order_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A spec says what a gridder is made for. Pointers are borrowed for the call, a table on the device as long as the
 * gridder lives. */
typedef struct msi_window_gridder_spec {
    const msi_wproj_geometry *geometry;
    const msi_wkernel_set *kernels; /* of the geometry's planes, of either form; values and grid have their precision */
    int n_image;                    /* image planes gridded together */
    int64_t capacity;               /* samples of a slice, at most */
    int64_t n_expected; /* samples to come in all: shapes that the cache does not know are measured for a twentieth of
                           the time that these take at most; 0: none is measured */
    int textures;       /* 1: interpolate by texture units, of separable kernels in fp32 with geometry->linear */
} msi_window_gridder_spec;

typedef struct msi_window_gridder msi_window_gridder;

/*
 * msi_window_gridder_create - kernels to the device, room for up to spec->capacity samples of a slice.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 * Returned: *out, freed by msi_window_gridder_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (kernels that it does not interpolate so; too many samples or images), MSI_ENOMEM
 */
int msi_window_gridder_create(msi_window_gridder **out, const msi_gpu_stream *gpu, const msi_window_gridder_spec *spec);
void msi_window_gridder_free(msi_window_gridder *g);

/*
 * msi_window_gridder_add - grid += a block's samples of one slice of w, every image plane at once.
 * Given:   image_plane [n_image] host: the block's plane of each image, -1: the PSF
 * Returns: 0, MSI_EGPU, MSI_ERANGE (kernels wider than the grid, more samples than the capacity)
 * Notes:   waits for the stream once; returns before the additions are done.
 */
int msi_window_gridder_add(msi_window_gridder *g, const msi_window_block *block, const int32_t *image_plane,
                           int32_t slice, const msi_wproj_grid *grid);

/*
 * msi_window_gridder_predict - the visibilities of a block's samples of one slice, from a grid of the sign
 * exp(+2 pi i ...): the transpose of msi_window_gridder_add. block->weight is NULL; image p goes to plane p.
 * Returns: as msi_window_gridder_add
 */
int msi_window_gridder_predict(msi_window_gridder *g, const msi_window_block *block, int32_t slice,
                               const msi_wproj_grid *grid);

#ifdef __cplusplus
}
#endif
#endif
