/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sorts the samples of a store on the CPU into buckets. A bucket has the samples of one uv tile and one first w-plane,
 * whose cells fit in cache. Samples are gridded bucket by bucket. Residuals use the order again in later calls. */
#ifndef MSI_BUCKET_SORT_CPU_H
#define MSI_BUCKET_SORT_CPU_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/method/geometry.h"
#include "kernels/store/vis_store.h"

enum { MSI_RUN_MAX_CHAN = 128 };

/* A run: neighbouring channels of one row in one bucket, at most MSI_RUN_MAX_CHAN. u, v and w are linear in frequency,
 * so runs are long if channels are narrow. */
typedef struct msi_run {
    uint32_t row; /* segment * MSI_SEGMENT_ROWS + row in the segment */
    uint16_t chan, n_chan;
} msi_run;

typedef struct msi_buckets {
    int64_t n_bucket;
    int64_t *start; /* [n_bucket + 1] first run of each bucket */
    int64_t n_run;
    msi_run *run;    /* [n_run], in ascending order of row and channel within a bucket, for any number of threads */
    int is_borrowed; /* another msi_buckets owns the arrays */
} msi_buckets;

/*
 * msi_bucket_sort - sort the samples that have a weight in some plane, or all samples if the store has no weights. If
 * the store already has an order for this geometry, *out refers to it.
 * Returned: *out, freed by msi_buckets_free; empty after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_bucket_sort(msi_buckets *out, const msi_vis_store *store, const msi_wgrid_geometry *geometry);

/* msi_buckets_free - free the members unless they are borrowed, NULL-safe; *b is then zero. */
void msi_buckets_free(msi_buckets *b);

/* The work on a tile: the number of its runs in some buckets. */
typedef struct msi_tile_work {
    int64_t tile, n_run;
} msi_tile_work;

/* msi_tile_work_sort - sort tiles by their number of runs, largest first, to balance the load of threads. */
void msi_tile_work_sort(msi_tile_work *work, int64_t n);

/* The progress of a parallel loop over tiles. */
typedef struct msi_tile_progress {
    const msi_tile_work *work;
    int64_t n_run;              /* number of runs of all tiles */
    int64_t n_seen, n_run_seen; /* tiles before the current tile of the first thread, and their runs; initially 0 */
} msi_tile_progress;

/* msi_tile_work_report - report that tile i has begun. Only the first thread calls it, with i in ascending order. */
void msi_tile_work_report(msi_tile_progress *p, int64_t i);

/* Sorting counts as 1 / MSI_PLANE_PARTS of an image plane in the progress of an image or a prediction. */
enum { MSI_PLANE_PARTS = 8 };

/* ---- Adding buffers to the grid --------------------------------------------------------------------------------- */

/* A bucket's samples are gridded into a buffer of cells, which these functions add to the grid. They are compiled once
 * for each instruction set (bucket_simd.c). */
typedef struct msi_bucket_simd_table {
    /* Add n_row rows of n_cell cells of a buffer to a plane of the grid, and zero them. */
    void (*flush_f32)(msi_c32 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c32 *grid, int64_t stride);
    void (*flush_f64)(msi_c64 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c64 *grid, int64_t stride);
    /* widen: add n cells of a buffer to a buffer in double precision, and zero them. flush_wide: add the latter to the
     * grid, as flush_f32 does. */
    void (*widen)(msi_c32 *from, msi_c64 *to, int64_t n);
    void (*flush_wide)(msi_c64 *buffer, int64_t n_row, int64_t n_cell, int64_t pitch, msi_c32 *grid, int64_t stride);
} msi_bucket_simd_table;

/* msi_bucket_simd - return the table of the instruction set that msi_simd_best names. */
const msi_bucket_simd_table *msi_bucket_simd(void);

/* ---- Residuals -------------------------------------------------------------------------------------------------- */

/* The samples of a store for several residuals. They are sorted once. The second store, `residual`, has its own
 * visibilities, and shares all other arrays with the original store. */
typedef struct msi_residual_store {
    msi_vis_store data;     /* the original visibilities */
    msi_vis_store residual; /* predicted visibilities, then the data minus these */
    msi_buckets order;
    void *vis; /* owned: the visibilities of all segments of `residual` */
} msi_residual_store;

/*
 * msi_residual_store_make - sort a store's samples.
 * Given:    store   borrowed; it must not change while *out is used
 *           n_term  the second store has this many planes of visibilities for each plane of the first
 * Returned: *out, freed by msi_residual_store_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_residual_store_make(msi_residual_store **out, const msi_vis_store *store, int n_term,
                            const msi_wgrid_geometry *geometry);
void msi_residual_store_free(msi_residual_store *s);

/* msi_residual_store_bytes - count the host bytes for n_sample samples of n_plane planes, without their order. */
int64_t msi_residual_store_bytes(int64_t n_sample, int n_plane, msi_precision precision);

/* msi_residual_store_subtract - replace predicted visibilities by the data minus the prediction. */
void msi_residual_store_subtract(msi_residual_store *s);

/*
 * msi_residual_store_subtract_terms - the same for polynomials in x = frequency / reference_hz - 1. Plane p n_term + t
 * of the second store has the prediction M_t of term t of plane p. It becomes x^t (V - sum over q of x^q M_q).
 * Given: has_model  0: there is no prediction, and the plane becomes x^t V
 */
void msi_residual_store_subtract_terms(msi_residual_store *s, double reference_hz, int has_model);

/* msi_residual_store_powers - set the visibilities of the first n planes of the second store, at most n_term, to
 * x^power[k]. */
void msi_residual_store_powers(msi_residual_store *s, double reference_hz, const int *power, int n);

#endif
