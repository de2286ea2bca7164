/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on the CPU, gridding and degridding: OpenMP, SIMD, FFTW. */
#ifndef MSI_WGRID_CPU_H
#define MSI_WGRID_CPU_H

#include "kernels/method/method.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"
#include "kernels/wgrid/wgrid_simd.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const msi_cost_model msi_wgrid_cpu_cost;

/* msi_wgrid_cpu_resident - choose the number of w-planes to keep in `bytes` bytes of memory; at least 1. */
int64_t msi_wgrid_cpu_resident(const msi_wgrid_plan *plan, int64_t n_sample, int64_t bytes);

/* msi_wgrid_cpu_plane_bytes - return the bytes of the part of a w-plane that samples use.
 * msi_wgrid_cpu_image_bytes - return the bytes of one image's sums before correction. */
int64_t msi_wgrid_cpu_plane_bytes(const msi_wgrid_plan *plan);
int64_t msi_wgrid_cpu_image_bytes(const msi_wgrid_plan *plan);

/*
 * msi_wgrid_cpu_image - grid, transform, screen and correct.
 *
 * Given:    plan, store; store_plane [image->n_plane] (-1: the PSF of plane 0); n_resident  w-planes in memory
 * Returned: image->pixel, divided by image->sum_weight (set by the caller; 0: the plane becomes NaN)
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_cpu_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                        int64_t n_resident, msi_image *image, msi_stage_times *times);

/*
 * Gridding of one tile's samples, onto whole w-planes or onto the small planes of w-towers.
 *
 * The samples of a crowded tile are added to a buffer that stays in cache, and the buffer is then added to the planes.
 * Samples of a sparse tile are added to the planes directly. In fp32 the buffer of a crowded tile is added to a buffer
 * in double every few hundred samples, because a cell may get more than 1e5 samples of an array's core, and a float sum
 * of these has an error of 1e-5.
 */

/* The planes that contain all footprints of a tile. */
typedef struct msi_tile_planes {
    char *const *plane; /* [n_ring] w-plane p is plane[p % n_ring] */
    int64_t n_ring;
    int64_t n_row, stride;      /* rows and stride of a plane, in cells */
    int64_t u_origin, v_origin; /* coordinates of the first cell of a plane */
} msi_tile_planes;

/* A gridder of tiles borrows the samples, and has buffers for each thread. */
typedef struct msi_tile_gridder {
    const msi_wgrid_geometry *g;
    const msi_wgrid_simd_table *simd;
    const msi_bucket_simd_table *bucket_simd;
    const msi_vis_store *store;
    const msi_buckets *buckets;
    const void *taps; /* msi_taps_f32 or msi_taps_f64 */
    int fp32, n_thread;
    int64_t cell_bytes;
    char **buffer;  /* [n_thread] a tile's planes */
    msi_c64 **wide; /* [n_thread] the same in double, for fp32 */
    int64_t buffer_rows, buffer_pitch;
} msi_tile_gridder;

/*
 * msi_tile_gridder_create - allocate buffers for tiles, of which at most n_w_plane w-planes are gridded at a time.
 * Given:   plan, taps, store, buckets  borrowed; the buckets may be sorted later
 * Returns: 0, MSI_ENOMEM; freed by msi_tile_gridder_free in either case
 */
int msi_tile_gridder_create(msi_tile_gridder *t, const msi_wgrid_plan *plan, const void *taps,
                            const msi_vis_store *store, const msi_buckets *buckets, int64_t n_w_plane);
void msi_tile_gridder_free(msi_tile_gridder *t);

/*
 * msi_tile_grid - grid a tile's samples of a step onto its planes, in the calling thread.
 * Given:              image_plane  plane of the store; -1: the PSF of plane 0; work  the tile and its runs in the step
 * Given and returned: planes       cells of the tile's footprints, accumulated
 */
void msi_tile_grid(const msi_tile_gridder *t, const msi_tile_planes *planes, int image_plane, const msi_tile_work *work,
                   const msi_ring_step *step);

/*
 * msi_wgrid_cpu_predict - taper, screen and transform the model into w-planes, and degrid every sample of the store.
 *
 * Given:    plan, model (n_plane planes, as the store), n_resident w-planes in memory
 * Returned: store's visibilities [n_plane]
 * Given and returned:
 *           *model_cache  NULL at first. If all w-planes are in memory, the planes of the model are kept for the next
 *                         call, which must have the same plan and n_resident. Freed by msi_wgrid_cpu_free_model. If
 *                         model_cache is NULL, nothing is kept
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_cpu_predict(const msi_wgrid_plan *plan, msi_vis_store *store, const msi_image *model, int64_t n_resident,
                          void **model_cache, msi_stage_times *times);

/* msi_wgrid_cpu_free_model - free the planes that msi_wgrid_cpu_predict keeps; NULL-safe. */
void msi_wgrid_cpu_free_model(void *model_cache);

#ifdef __cplusplus
}
#endif
#endif
