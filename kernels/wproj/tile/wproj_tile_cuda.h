/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection gridding by tiles on the GPU. A tile gridder works on the device and the stream that it was made with.
 */
#ifndef MSI_KERNELS_WPROJ_TILE_CUDA_H
#define MSI_KERNELS_WPROJ_TILE_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_job.h"
#include "kernels/wproj/job/wproj_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_WPROJ_TILE = 16 };

typedef enum msi_wproj_tile_form {
    MSI_WPROJ_TILE_AUTO,   /* tensor cores if possible, else multiply-adds */
    MSI_WPROJ_TILE_TENSOR, /* separable kernels, fp32, nearest or linear */
    MSI_WPROJ_TILE_FMA     /* every form and precision, nearest or linear */
} msi_wproj_tile_form;

typedef struct msi_wproj_tile_spec {
    const msi_wkernel_set *kernels; /* even in u and v; their table is copied, from host or device memory */
    msi_wproj_tile_form form;
    int32_t linear;    /* 1: kernels are interpolated between sub-offsets, by the samples' fractions */
    int32_t nu, nv;    /* box, multiples of MSI_WPROJ_TILE */
    int32_t item_size; /* samples of an item, which a warp compares with its tile; 0: 2048 */
} msi_wproj_tile_spec;

typedef struct msi_wproj_tile msi_wproj_tile;

/*
 * msi_wproj_tile_create - make kernels on the device, and allocate the memory for a box.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 * Returned: *out, freed by msi_wproj_tile_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (more kernel values than 2^31), MSI_EINTERNAL (the form does not support them)
 */
int msi_wproj_tile_create(msi_wproj_tile **out, const msi_gpu_stream *gpu, const msi_wproj_tile_spec *spec);
void msi_wproj_tile_free(msi_wproj_tile *t);

/* msi_wproj_tile_form_of - return the form in use, which MSI_WPROJ_TILE_AUTO chose. */
msi_wproj_tile_form msi_wproj_tile_form_of(const msi_wproj_tile *t);

/*
 * msi_wproj_tile_grid - add sorted samples to grids.
 *
 * Given:              sorted, of the kernels' precision and the same box
 * Given and returned: grid [sorted->n_image][nv][nu] msi_c32 or msi_c64, device memory
 * Returns:            0, MSI_EGPU, MSI_EINTERNAL (samples of another precision)
 * Notes:   waits for the stream once. Tiles add up by atomic additions, so their order varies.
 *          Relative L2 error of the grid against the same indices and tables in exact arithmetic: FMA form 3e-7 in
 *          fp32, 1e-15 in fp64; tensor form 1e-6 (factors are held to 22 bits, and what lies 2^-38 below an image's
 *          largest value is lost).
 */
int msi_wproj_tile_grid(msi_wproj_tile *t, const msi_wproj_sorted *sorted, void *grid);

/*
 * msi_wproj_tile_fold - fold a box of the unbounded plane of cells onto a grid, cell 0 first: cells beyond an edge come
 * in at the other side.
 *
 * Given:    box [n_image][nv][nu] whose first cell is (origin_u, origin_v)
 * Returned: grid->cells [n_image][grid->nv][grid->nu], images one after the other, every cell written
 * Returns:  0, MSI_EGPU
 */
int msi_wproj_tile_fold(const msi_wproj_tile *t, const void *box, int32_t n_image, int32_t origin_u, int32_t origin_v,
                        const msi_wproj_grid *grid);

#ifdef __cplusplus
}
#endif
#endif
