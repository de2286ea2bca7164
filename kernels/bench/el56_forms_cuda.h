/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bucket sort of earlier tile gridders: a sample has an entry in the bucket of each tile that its footprint
 * touches, and an entry has the index of its tile (SDP memo, sections 2.2 and 3.1).
 */
#ifndef MSI_EL56_FORMS_CUDA_H
#define MSI_EL56_FORMS_CUDA_H

#include <cuda_runtime.h>

#include "kernels/bench/workload_el56.h"
#include "kernels/wproj/job/wproj_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory that belongs to the sorter. */
typedef struct el56_buckets {
    int64_t n_entry;
    const msi_wproj_head *head; /* head of the list */
    const msi_c32 *value;
    const uint32_t *bucket; /* [n_entry] ascending: class * tiles + tile row * n_tile_u + tile column; class is 0 unless
                               entries are ordered by class */
    const uint32_t *index;  /* [n_entry] indices in the list */
    int32_t tile_u, tile_v, n_tile_u, n_tile_v;
} el56_buckets;

typedef struct el56_bucket_sorter el56_bucket_sorter;

/* el56_bucket_sorter_create - allocate a sorter. Given: half [n_plane]  half-supports, in host memory. Returns: 0,
 * MSI_EGPU */
int el56_bucket_sorter_create(el56_bucket_sorter **out, int64_t capacity, const int32_t *half, int32_t n_plane);
void el56_bucket_sorter_free(el56_bucket_sorter *s);

/* The division of a box of nu x nv cells into tiles of tile_u x tile_v. */
typedef struct el56_tiling {
    int32_t nu, nv, tile_u, tile_v;
    int by_class; /* 1: all tiles of one class of supports come before those of the next */
} el56_tiling;

/*
 * el56_sort_buckets - sort a list of samples into the buckets of a box's tiles.
 * Returned: *buckets, valid until the sorter's next call
 * Returns:  0, MSI_EGPU
 * Notes:    waits for the stream to get the number of entries.
 */
int el56_sort_buckets(el56_bucket_sorter *s, const msi_wproj_sorted *list, const el56_tiling *tiling,
                      cudaStream_t stream, el56_buckets *buckets);

/* Earlier and simpler forms of tile gridding, which show the gain of each step. */

/* The layout of tabulated kernels in memory. */
typedef enum el56_layout {
    EL56_STRIDED,  /* a quarter of each kernel; neighbouring cells are `oversample` elements apart */
    EL56_QUARTER,  /* a quarter of each kernel; cells of one sub-offset are contiguous */
    EL56_FULL,     /* full width for every pair of sub-offsets, u fastest */
    EL56_EVEN,     /* full width for every pair of sub-offsets 0 and above; others are read backwards */
    EL56_SEPARABLE /* one axis of separable kernels */
} el56_layout;

typedef struct el56_tables el56_tables;

/* el56_tables_create - make kernels of the workload in a layout, on the device. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int el56_tables_create(el56_tables **out, const msi_el56 *e, el56_layout layout);
void el56_tables_free(el56_tables *t);

/* el56_grid_naive - grid with a block for each sample in the given order; each block computes the indices, and adds
 * atomically. */
int el56_grid_naive(el56_tables *t, const msi_wproj_samples_f32 *samples, msi_c32 *grid, cudaStream_t stream);

/*
 * el56_grid_buckets - grid bucket entries. Warps get runs of entries dynamically; with `fixed`, each tile has a fixed
 * number of warps, more in the centre. Given: samples  coordinates from which indices are computed again; NULL: use the
 * indices of the list
 */
int el56_grid_buckets(el56_tables *t, const el56_buckets *buckets, const msi_wproj_samples_f32 *samples, int fixed,
                      msi_c32 *grid, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
