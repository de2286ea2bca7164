/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sort puts stored samples into buckets of one first w-plane and one uv tile each, so that a bucket's cells stay
 * cached. */
#ifndef MSI_KERNELS_BUCKET_SORT_CPU_H
#define MSI_KERNELS_BUCKET_SORT_CPU_H

#include <stdint.h>

#include "kernels/method/geometry.h"
#include "kernels/store/vis_store.h"

enum { MSI_RUN_MAX_CHAN = 128 };

/* A run is neighbouring channels of one row that fall into one bucket, at most MSI_RUN_MAX_CHAN: u, v and w are linear
 * in frequency, so runs are long where channels are narrow. */
typedef struct msi_run {
    uint32_t row; /* segment * MSI_SEGMENT_ROWS + row in the segment */
    uint16_t chan, n_chan;
} msi_run;

typedef struct msi_buckets {
    int64_t n_bucket;
    int64_t *start; /* [n_bucket + 1] first run of each bucket */
    int64_t n_run;
    msi_run *run;    /* [n_run], in ascending order of row and channel inside a bucket, whatever the threads did */
    int is_borrowed; /* the arrays are somebody else's */
} msi_buckets;

/*
 * msi_bucket_sort - sort the samples of a store: those with a weight in some plane, or all coordinates. A store that
 * has an order, which is one of the same geometry, lends it.
 * Returned: *out, freed by msi_buckets_free; empty after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_bucket_sort(msi_buckets *out, const msi_vis_store *store, const msi_wgrid_geometry *geometry);

/* msi_buckets_free - free the members unless they are borrowed, NULL-safe; *b is then zero. */
void msi_buckets_free(msi_buckets *b);

/* A tile's work is its runs in some buckets. */
typedef struct msi_tile_work {
    int64_t tile, n_run;
} msi_tile_work;

/* msi_tile_work_sort - sort by runs, most first, so that threads that take one tile after the other end together. */
void msi_tile_work_sort(msi_tile_work *work, int64_t n);

/* Counts how far a parallel loop over works is. */
typedef struct msi_tile_progress {
    const msi_tile_work *work;
    int64_t n_run;              /* of all works */
    int64_t n_seen, n_run_seen; /* works that the first thread has passed, and their runs; 0 at first */
} msi_tile_progress;

/* msi_tile_work_seen - show that work i is begun; the first thread does, to which i must come in ascending order. */
void msi_tile_work_seen(msi_tile_progress *p, int64_t i);

/* What sorting counts in the progress of an image or a prediction is the part of one in these of an image plane. */
enum { MSI_PLANE_PARTS = 8 };

#endif
