/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The bucket sort of earlier tile gridders: every sample stands in the bucket of every tile that its footprint touches,
 * and each entry keeps its tile's index (SDP memo, sections 2.2 and 3.1).
 */
#ifndef MSI_BENCH_EL56_BUCKETS_CUDA_H
#define MSI_BENCH_EL56_BUCKETS_CUDA_H

#include "kernels/wproj/job/wproj_sort_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory that belongs to the sorter. */
typedef struct el56_buckets {
    int64_t n_entry;
    const msi_wproj_head *head; /* of the list */
    const msi_c32 *value;
    const uint32_t *bucket; /* [n_entry] ascending: class * tiles + tile row * n_tile_u + tile column; class 0 alone
                               unless they are ordered by class */
    const uint32_t *index;  /* [n_entry] into the list */
    int32_t tile_u, tile_v, n_tile_u, n_tile_v;
} el56_buckets;

typedef struct el56_bucket_sorter el56_bucket_sorter;

/* el56_bucket_sorter_create - Given: half [n_plane] host. Returns: 0, MSI_EGPU */
int el56_bucket_sorter_create(el56_bucket_sorter **out, int64_t capacity, const int32_t *half, int32_t n_plane);
void el56_bucket_sorter_free(el56_bucket_sorter *s);

/* A box of nu x nv cells is cut into tiles of tile_u x tile_v. */
typedef struct el56_tiling {
    int32_t nu, nv, tile_u, tile_v;
    int by_class; /* 1: all tiles of one class of supports come before those of the next */
} el56_tiling;

/*
 * el56_sort_buckets - sort a list of samples into the buckets of a box's tiles.
 * Returned: *buckets, valid until the sorter's next call
 * Returns:  0, MSI_EGPU
 * Notes:    waits for the stream, to learn how many entries there are.
 */
int el56_sort_buckets(el56_bucket_sorter *s, const msi_wproj_sorted *list, const el56_tiling *tiling,
                      cudaStream_t stream, el56_buckets *buckets);

#ifdef __cplusplus
}
#endif
#endif
