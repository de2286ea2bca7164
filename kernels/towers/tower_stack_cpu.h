/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Subgrids of w-towers on the CPU have their small planes, transforms and screens here, and are listed. */
#ifndef MSI_KERNELS_TOWER_STACK_CPU_H
#define MSI_KERNELS_TOWER_STACK_CPU_H

#include "kernels/wgrid/wgrid_simd.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/transform/fft_cpu.h"

/*
 * Threads share screens and transforms, and each has a ring of small planes: [size] rows of `pitch` cells, the first
 * `size` of which are the plane; the others are finite, for vectors that reach beyond it.
 */
typedef struct msi_tower_stacks {
    const msi_wgrid_plan *plan;
    const msi_tower_plan *towers;
    const msi_wgrid_simd_table *simd;
    int fp32, n_thread;
    int64_t cell_bytes, pitch;
    char **screen;            /* [(n_plane + 1)/2] msi_tower_screen of the lower half of a tower's planes */
    char **plane;             /* [n_thread][w_width + 1] zero at first */
    msi_fft1d *row, *columns; /* of a row, and of all columns */
    msi_fft1d *row_back, *columns_back;
} msi_tower_stacks;

/*
 * msi_tower_stacks_create - allocate for as many threads as OpenMP gives, and make the screens.
 * Given:   plan, towers  borrowed for the life of *s
 * Returns: 0, MSI_ENOMEM; freed by msi_tower_stacks_free either way
 */
int msi_tower_stacks_create(msi_tower_stacks *s, const msi_wgrid_plan *plan, const msi_tower_plan *towers);
void msi_tower_stacks_free(msi_tower_stacks *s);

/* msi_tower_plane_bytes - return the bytes of a small plane; msi_tower_stacks_bytes - of all that create allocates for
 * n_thread threads. */
int64_t msi_tower_plane_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers);
int64_t msi_tower_stacks_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread);

/* msi_tower_ring - find the calling thread's planes: [w_width + 1], borrowed. */
char **msi_tower_ring(const msi_tower_stacks *s);

/*
 * msi_tower_gather - transform a small plane, screen it, add it to the sum of its tower, and leave it zero.
 * Given: tile_rows  bit t: the plane holds something of the core's row t of tiles; k  its number in the tower
 */
void msi_tower_gather(const msi_tower_stacks *s, char *plane, uint32_t tile_rows, int64_t k, char *sum);

/* msi_tower_close - transform a sum over a tower back, in place: to what its subgrid adds to the tower's plane. */
void msi_tower_close(const msi_tower_stacks *s, char *sum);

/* msi_tower_open - transform a subgrid that was cut out of a tower's plane, in place. */
void msi_tower_open(const msi_tower_stacks *s, char *cut);

/* msi_tower_spread - make small plane k of a tower of the subgrid's transform; only rows of tiles as above. */
void msi_tower_spread(const msi_tower_stacks *s, const char *open, uint32_t tile_rows, int64_t k, char *plane);

/* An item is a subgrid's samples of first planes [w0_begin, w0_end), which one thread takes. */
typedef struct msi_tower_item {
    int64_t su, sv, w0_begin, w0_end, n_run;
} msi_tower_item;

/*
 * msi_tower_items - list what of a tower's share holds samples, most runs first. Subgrids with a large part of all
 * samples are cut along w, so that threads have alike to do; the samples alone say where.
 * Returned: item [msi_tower_items_most]
 * Returns:  how many
 */
int64_t msi_tower_items(const msi_tower_stacks *s, const msi_buckets *buckets, int64_t tower, msi_tower_item *item);
int64_t msi_tower_items_most(const msi_tower_stacks *s);

/* msi_tower_tile_runs - count runs of w0 in n_tile tiles from (tu, tv) on, limited to the grid. */
static inline int64_t msi_tower_tile_runs(const msi_wgrid_geometry *g, const msi_buckets *buckets, int64_t w0,
                                          int64_t tu, int64_t tv, int64_t n_tile)
{
    if (n_tile > g->n_tile_u - tu) n_tile = g->n_tile_u - tu;
    const int64_t *start = buckets->start + (w0 * g->n_tile_v + tv) * g->n_tile_u + tu;
    return tv < g->n_tile_v ? start[n_tile] - start[0] : 0;
}

#endif
