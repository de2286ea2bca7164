/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The visibility store holds the samples that are gridded. They are read once from the Measurement Set, and used for
 * weights and for all images and w-planes. */
#ifndef MSI_VIS_STORE_H
#define MSI_VIS_STORE_H

#include <stdint.h>

#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_SEGMENT_ROWS = 4096 }; /* a power of two: a row's segment is its number shifted right */
enum { MSI_SEGMENT_SHIFT = 12 };
enum { MSI_STORE_MAX_CHAN = 32768, MSI_STORE_MAX_PLANES = 32 };

/* A segment has up to n_row_max <= MSI_SEGMENT_ROWS rows of one spectral setup. The number of a row is segment *
 * MSI_SEGMENT_ROWS + row. The store owns the arrays. If a kernel fills the segments in GPU memory, n_row_max is the
 * number of rows of all segments that share the memory. */
typedef struct msi_vis_segment {
    int64_t n_row, n_row_max;
    int32_t n_chan;
    const double *freq_hz; /* [n_chan], shared by the segments of a setup */
    double *uvw_m;         /* [n_row_max][3] */
    uint64_t *tag;         /* [n_row_max] msi_vis_block.tag; NULL in a store without tags */
    float *weight;         /* [n_plane][n_row_max][n_chan]; 0: not in that plane. NULL in a store of coordinates */
    void *vis;             /* [n_plane][n_row_max][n_chan] msi_c32 or msi_c64: unweighted, finite; or predicted */
} msi_vis_segment;

/* A store. Gridders may read the members from n_segment on; only functions of the store change them. */
typedef struct msi_vis_store {
    int n_plane;
    int n_term; /* visibilities have n_term planes for each of the n_plane planes of weights; 0: 1 */
    msi_precision precision;
    int coordinates; /* 1: every row is kept, in order, with space for predicted visibilities; set by the store's
                        user */
    int tagged;      /* 1: rows have a tag; set by the store's user */
    double u_limit_lambda, v_limit_lambda;
    int64_t n_segment, segment_capacity;
    msi_vis_segment *segment;
    struct msi_vis_setup *setup;   /* linked list of distinct channel lists */
    struct msi_vis_arena *arena;   /* linked list of memory arenas, newest first */
    struct msi_vis_arena *spare;   /* unused arenas, kept by msi_vis_store_clear */
    struct msi_gpu_pieces *gpu;    /* memory of all segments' arrays (gpu_samples.h); NULL: in host memory */
    struct msi_vis_intake *intake; /* buffers for adding blocks; NULL: none so far */
    int64_t memory_budget;         /* bytes in memory before arenas are placed in files */
    const char *temp_dir;
    int64_t bytes_memory, bytes_file;
    int64_t n_sample; /* samples with a weight in some plane */
    int64_t n_outside;
    double sum_weight[MSI_STORE_MAX_PLANES]; /* [n_plane] as added, of the samples kept */
    double w_min_lambda, w_max_lambda;       /* range of |w| over stored samples */
    double longest_lambda;                   /* the longest baseline of stored samples; 0 if a kernel filled them */
    const struct msi_buckets *order; /* the order of the samples if already sorted, borrowed; NULL: they are sorted when
                                        needed */
    /* The largest values of any plane as added: a weight, a part of a visibility in Jy, and the product of both. */
    double largest_weight, largest_jy, largest_product;
    double weight_scale; /* a power of two, 1 as added: the factor of all weights from msi_density_weight */
} msi_vis_store;

/*
 * msi_vis_store_init - make a store empty; nothing is allocated.
 * Given: u_limit_lambda, v_limit_lambda  |u|, |v| beyond which samples are dropped
 *        memory_budget  bytes; 0: everything stays in memory
 *        temp_dir       borrowed for the store's life; NULL: $TMPDIR or /tmp
 * Notes: for a store of coordinates the caller sets msi_vis_store.coordinates afterwards.
 */
void msi_vis_store_init(msi_vis_store *s, int n_plane, msi_precision precision, double u_limit_lambda,
                        double v_limit_lambda, int64_t memory_budget, const char *temp_dir);

/*
 * msi_vis_store_add - copy a block into the store; for a store of coordinates only its uvw and frequencies.
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir), MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (a block of another
 *          number of planes)
 */
int msi_vis_store_add(msi_vis_store *s, const msi_vis_block *block);

/* msi_vis_store_add_all - add blocks [n_block] with all threads, with the same result as one after the other. After a
 * failure the first blocks have been added, the rest has not. */
int msi_vis_store_add_all(msi_vis_store *s, const msi_vis_block *block, int n_block);

/* Totals of some rows. */
typedef struct msi_vis_tally {
    int64_t n_sample, n_outside;
    double w_min, w_max; /* range of |w|, in wavelengths */
    double longest2;     /* square of the longest baseline, in wavelengths */
} msi_vis_tally;

/* The largest values in some rows: of a weight, of a part of a visibility, and of the product of both. */
typedef struct msi_vis_extent {
    double weight, jy, product;
} msi_vis_extent;

/* Rows in a store, for a caller to fill. The arrays belong to their segment: row i of plane p has the samples
 * [p][i][n_chan], with plane_rows rows from a plane to the next. */
typedef struct msi_vis_rows {
    int64_t n_row, plane_rows;
    double *uvw_m;  /* [n_row][3] */
    float *weight;  /* finite, not negative; 0: no sample */
    void *vis;      /* msi_c32 or msi_c64, finite */
    int64_t n_used; /* rows with samples, of those counted so far */
    /* For the store: */
    int64_t segment, at;
    msi_vis_tally tally;
    msi_vis_extent extent;
    double sum_weight[MSI_STORE_MAX_PLANES];
} msi_vis_rows;

/*
 * msi_vis_store_reserve - reserve the next rows of a store: at most n_row, as many as fit in a segment. They are part
 * of the store immediately, so the caller must fill all of them before the store is used. Rows have the same order as
 * after msi_vis_store_add, but rows without samples are kept.
 * Given:   s  without tags, not of coordinates; n_chan  at most MSI_STORE_MAX_CHAN
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir), MSI_ERANGE (more than 2^32 rows), MSI_EGPU, MSI_EINTERNAL (other
 *          stores)
 *
 * msi_vis_store_count - count rows [first, first + n) of the reserved ones, after they were filled. Samples outside the
 * uv plane of the image get weight 0. Each row is counted once, in order; threads may count different reserved rows.
 *
 * msi_vis_store_commit - add the counts of all rows that were reserved. Returns: 0, MSI_EGPU, MSI_ENOMEM
 */
int msi_vis_store_reserve(msi_vis_store *s, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_vis_rows *out);
void msi_vis_store_count(const msi_vis_store *s, msi_vis_rows *rows, int64_t first, int64_t n);
int msi_vis_store_commit(msi_vis_store *s, const msi_vis_rows *rows, int64_t n);

/*
 * msi_vis_store_fetch - copy out visibilities of a store of coordinates, block by block as they were added.
 * Given:    n_row, n_chan, freq_hz [n_chan]  of the block
 * Returned: vis [n_plane][n_row][n_chan] Jy
 * Returns:  0, MSI_ENOMEM, MSI_EINTERNAL (more than was added)
 */
int msi_vis_store_fetch(msi_vis_store *s, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis);

/* msi_vis_store_rewind - fetch from the first block again. */
void msi_vis_store_rewind(msi_vis_store *s);

/* msi_vis_store_zero - set the visibilities of a plane of a store of coordinates to 0. */
void msi_vis_store_zero(msi_vis_store *s, int plane);

/* msi_vis_store_clear - drop the samples, keep the memory. */
void msi_vis_store_clear(msi_vis_store *s);

/* msi_vis_store_free - free everything; the store is then zero. A second call does nothing. */
void msi_vis_store_free(msi_vis_store *s);

/*
 * msi_vis_store_bytes - return the bytes that a store needs for samples and rows, without the unused ends of its
 * arenas.
 * Given:   s  for its planes, precision and kind; n_sample, n_row  of any number of blocks
 * Returns: bytes, in memory and file together
 */
int64_t msi_vis_store_bytes(const msi_vis_store *s, int64_t n_sample, int64_t n_row);

/*
 * msi_vis_store_weights - sum the current weights and count the samples with a weight: segment by segment, so that the
 * sums do not depend on the number of threads.
 * Returned: sum, largest, count [n_plane]; 0 without a sample
 */
void msi_vis_store_weights(const msi_vis_store *s, double *sum, double *largest, int64_t *count);

/* msi_vis_store_band - find the least and largest frequency of the samples' channels; 0 and 0 of an empty store. */
void msi_vis_store_band(const msi_vis_store *s, double *low_hz, double *high_hz);

/*
 * msi_vis_store_moments - sum plane 0's current weights times y^k, y = (frequency - middle) / half, segment by segment.
 * Returned: moment [n], n at most 16, k = 0, 1 ..; 0 for samples on a GPU
 */
void msi_vis_store_moments(const msi_vis_store *s, double middle_hz, double half_hz, int n, double *moment);

/* msi_segment_index - return the index of a sample in its segment's arrays of all planes. */
static inline int64_t msi_segment_index(const msi_vis_segment *segment, int plane, int64_t row, int32_t chan)
{
    return (plane * segment->n_row_max + row) * segment->n_chan + chan;
}

/* Rows of one spectral setup in a batch of segments, for kernels. Their samples are [n_row][n_chan]. */
typedef struct msi_store_rows {
    int64_t first_sample, first_row; /* in the batch's arrays */
    int32_t n_row, n_chan, first_freq;
} msi_store_rows;

/* ---- For gpu_samples.c and vis_intake.c -------------------------------------------------------------------------- */

/* A setup is a list of channels that segments share, with the segment that is being filled. */
struct msi_vis_setup {
    struct msi_vis_setup *next;
    int32_t n_chan;
    int64_t open_segment;             /* -1: none */
    int64_t fetch_segment, fetch_row; /* the next row to fetch */
    double freq_hz[];
};

/* msi_vis_store_setup - find or make the setup of a list of channels. Returns: 0, MSI_ENOMEM. */
int msi_vis_store_setup(msi_vis_store *s, int32_t n_chan, const double *freq_hz, struct msi_vis_setup **out);

/* Channels [first, first + n_chan) of a block. */
typedef struct msi_block_part {
    const msi_vis_block *block;
    int32_t first, n_chan;
} msi_block_part;

/* msi_vis_store_take_rows - take the next free rows of a setup's open segment, opening one if it is full. Returned:
 * rows [*row, *row + *n) of *segment; 1 <= *n <= n_row. Returns: 0, MSI_ENOMEM, MSI_EOUTPUT, MSI_ERANGE, MSI_EGPU */
int msi_vis_store_take_rows(msi_vis_store *s, struct msi_vis_setup *setup, int64_t n_row, int64_t *segment,
                            int64_t *row, int64_t *n);

/* msi_vis_intake_free - free the buffers for adding blocks; NULL-safe. */
void msi_vis_intake_free(struct msi_vis_intake *intake);

/* msi_vis_store_rows_of_segment - return the capacity of a segment of n_chan channels, in rows. */
int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan);

/* An arena is memory for segments, allocated or mapped from an unlinked file. The segments of an arena follow those of
 * the arena before. */
struct msi_vis_arena {
    struct msi_vis_arena *next;
    char *base;
    int64_t size, used;
    int mapped;
};

/* msi_vis_store_drop_arenas - free the arenas, after their segments were moved to other memory. */
void msi_vis_store_drop_arenas(msi_vis_store *s);

/* msi_vis_store_carve - get memory of the store, in memory or in a file. Returns: 0, MSI_ENOMEM, MSI_EOUTPUT */
int msi_vis_store_carve(msi_vis_store *s, int64_t bytes, void **out);

/* msi_vis_store_next_segment - return the segment that becomes part of the store when n_segment grows. Returns: 0,
 * MSI_ENOMEM, MSI_ERANGE (more rows than a store can number) */
int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out);

#ifdef __cplusplus
}
#endif
#endif
