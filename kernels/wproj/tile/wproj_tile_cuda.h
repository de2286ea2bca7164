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
    MSI_WPROJ_TILE_AUTO,   /* TENSOR if possible, else FMA */
    MSI_WPROJ_TILE_TENSOR, /* tensor cores: separable kernels in fp32, nearest or linear */
    MSI_WPROJ_TILE_FMA     /* multiply-adds: every form and precision, nearest or linear */
} msi_wproj_tile_form;

typedef struct msi_wproj_tile_spec {
    const msi_wkernel_set *kernels; /* must be even in u and v; the table is copied, from host or device memory */
    msi_wproj_tile_form form;
    int32_t linear;    /* 1: interpolate kernels between sub-offsets, by the samples' fractions */
    int32_t nu, nv;    /* size of the box, multiples of MSI_WPROJ_TILE */
    int32_t item_size; /* most samples of an item, which a warp compares with its tile; 0: 2048 */
} msi_wproj_tile_spec;

typedef struct msi_wproj_tile msi_wproj_tile;

/*
 * msi_wproj_tile_create - copy kernels to the device, and allocate the memory for a box.
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
 * Notes:   waits for the stream once. Tiles are added by atomic additions, so their order varies.
 *          The relative L2 error of the grid, with the same indices and tables, is 3e-7 for FMA in fp32, 1e-15 for FMA
 *          in fp64, and 1e-6 for TENSOR. TENSOR keeps 22 bits of a factor, and loses parts below 2^-38 of an image's
 *          largest value.
 */
int msi_wproj_tile_grid(msi_wproj_tile *t, const msi_wproj_sorted *sorted, void *grid);

/*
 * msi_wproj_tile_fold - fold a box of the unbounded plane onto a periodic grid, which begins with cell 0.
 *
 * Given:    box [n_image][nv][nu] whose first cell is (origin_u, origin_v)
 * Returned: grid->cells [n_image][grid->nv][grid->nu]; every cell is written
 * Returns:  0, MSI_EGPU
 */
int msi_wproj_tile_fold(const msi_wproj_tile *t, const void *box, int32_t n_image, int32_t origin_u, int32_t origin_v,
                        const msi_wproj_grid *grid);

#ifdef __cplusplus
}
#endif
#endif
