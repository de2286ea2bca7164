/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding of one tile's samples on the CPU, wherever its planes are.
 *
 * A tile with many samples is gathered in a buffer that stays in cache and then added to the planes; a sparse one goes
 * to the planes at once. In fp32 a crowded tile's buffer is emptied every few hundred samples into one in double: an
 * array's core puts 1e5 samples and more on a cell, and a float sum of so many is off by 1e-5.
 */
#ifndef MSI_KERNELS_WGRID_TILE_CPU_H
#define MSI_KERNELS_WGRID_TILE_CPU_H

#include "kernels/store/bucket_simd.h"
#include "kernels/wgrid/wgrid_simd.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"

/* Planes that hold a tile with all its footprints. */
typedef struct msi_tile_planes {
    char *const *plane; /* [n_ring] w-plane p lives in plane[p % n_ring] */
    int64_t n_ring;
    int64_t n_row, stride;      /* of a plane, in cells */
    int64_t u_origin, v_origin; /* coordinates of its first cell */
} msi_tile_planes;

/* A gridder of tiles borrows samples, and has buffers of its own for each thread. */
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
 * msi_tile_gridder_create - allocate buffers for tiles of which at most n_w_plane w-planes are gridded at a time.
 * Given:   plan, taps, store, buckets  borrowed; the buckets may be sorted later
 * Returns: 0, MSI_ENOMEM; freed by msi_tile_gridder_free either way
 */
int msi_tile_gridder_create(msi_tile_gridder *t, const msi_wgrid_plan *plan, const void *taps,
                            const msi_vis_store *store, const msi_buckets *buckets, int64_t n_w_plane);
void msi_tile_gridder_free(msi_tile_gridder *t);

/*
 * msi_tile_grid - grid a tile's samples of a step into its planes, by the calling thread.
 * Given:              image_plane  of the store, -1: the PSF of plane 0; work  the tile and its runs in the step
 * Given and returned: planes       cells of the tile's footprints, accumulated
 */
void msi_tile_grid(const msi_tile_gridder *t, const msi_tile_planes *planes, int image_plane, const msi_tile_work *work,
                   const msi_ring_step *step);

#endif
