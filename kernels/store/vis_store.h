/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The visibility store holds samples between the Measurement Set and the grid: they are read once and serve weights,
 * every image and every w. */
#ifndef MSI_VIS_STORE_H
#define MSI_VIS_STORE_H

#include <stdint.h>

#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_SEGMENT_ROWS = 4096 }; /* a power of two: a row's segment is its number shifted */
enum { MSI_SEGMENT_SHIFT = 12 };
enum { MSI_STORE_MAX_CHAN = 32768, MSI_STORE_MAX_PLANES = 32 };

/* A segment has rows of one spectral setup, up to n_row_max <= MSI_SEGMENT_ROWS, numbered segment * MSI_SEGMENT_ROWS +
 * row. The store owns its arrays. */
typedef struct msi_vis_segment {
    int64_t n_row, n_row_max;
    int32_t n_chan;
    const double *freq_hz; /* [n_chan], shared by the segments of a setup */
    double *uvw_m;         /* [n_row_max][3] */
    float *weight;         /* [n_plane][n_row_max][n_chan]; 0: not in that plane. NULL in a store of coordinates */
    void *vis;             /* [n_plane][n_row_max][n_chan] msi_c32 or msi_c64: unweighted, finite; or predicted */
} msi_vis_segment;

/* Members from n_segment on are read by gridders; the store alone changes them. */
typedef struct msi_vis_store {
    int n_plane;
    msi_precision precision;
    int coordinates; /* every row is kept, in order, with room for visibilities to be predicted; set by who uses it */
    double u_limit_lambda, v_limit_lambda;
    int64_t n_segment, segment_capacity;
    msi_vis_segment *segment;
    struct msi_vis_setup *setup;   /* linked list of distinct channel lists */
    struct msi_vis_arena *arena;   /* linked list of memory pieces, newest first */
    struct msi_vis_arena *spare;   /* pieces that msi_vis_store_clear left */
    struct msi_gpu_pieces *gpu;    /* where all segments' arrays lie (gpu_samples.h); NULL: in host memory */
    struct msi_vis_intake *intake; /* room for what is found of the blocks at hand; NULL: none so far */
    int64_t memory_budget;         /* bytes in memory before arenas go to files */
    const char *temp_dir;
    int64_t bytes_memory, bytes_file;
    int64_t n_sample; /* samples with a weight in some plane */
    int64_t n_outside;
    double sum_weight[MSI_STORE_MAX_PLANES]; /* [n_plane] as added, of the samples kept */
    double w_min_lambda, w_max_lambda;       /* of |w| over stored samples */
    double longest_lambda;           /* the longest baseline of stored samples; 0 where they came to lie on the GPU */
    const struct msi_buckets *order; /* that the samples are in already, borrowed; NULL: they are sorted when needed */
    /* The largest of any plane as added: a weight, a part of a visibility in Jy, and the product of both. */
    double largest_weight, largest_jy, largest_product;
    double weight_scale; /* a power of two, 1 as added: what msi_density_weight multiplied all weights by */
} msi_vis_store;

/*
 * msi_vis_store_init - make a store empty; nothing is allocated.
 * Given: u_limit_lambda, v_limit_lambda  |u|, |v| beyond which samples drop
 *        memory_budget  bytes; 0: everything stays in memory
 *        temp_dir       borrowed for the store's life; NULL: $TMPDIR or /tmp
 * Notes: msi_vis_store.coordinates is set afterwards, by who wants a store of coordinates.
 */
void msi_vis_store_init(msi_vis_store *s, int n_plane, msi_precision precision, double u_limit_lambda,
                        double v_limit_lambda, int64_t memory_budget, const char *temp_dir);

/*
 * msi_vis_store_add - copy a block in; into a store of coordinates, its uvw and frequencies alone.
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir), MSI_ERANGE (more than 2^32 rows), MSI_EINTERNAL (a block of another
 *          number of planes)
 */
int msi_vis_store_add(msi_vis_store *s, const msi_vis_block *block);

/* msi_vis_store_add_all - copy in blocks [n_block], as one after the other; by all threads. After a failure the first
 * ones are in, and the rest is not. */
int msi_vis_store_add_all(msi_vis_store *s, const msi_vis_block *block, int n_block);

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

/* msi_vis_store_clear - forget the samples, keep the memory. */
void msi_vis_store_clear(msi_vis_store *s);

/* msi_vis_store_free - free everything; the store is then zero. Twice is fine. */
void msi_vis_store_free(msi_vis_store *s);

/*
 * msi_vis_store_bytes - count what a store keeps of samples and rows, beside the unused ends of its pieces.
 * Given:   s  for its planes, precision and kind; n_sample, n_row  of any number of blocks
 * Returns: bytes, in memory and file together
 */
int64_t msi_vis_store_bytes(const msi_vis_store *s, int64_t n_sample, int64_t n_row);

/*
 * msi_vis_store_weights - sum the weights and count the samples with one, as they stand: segment by segment, so that
 * the sums do not depend on the number of threads.
 * Returned: sum, largest, count [n_plane]; 0 without a sample
 */
void msi_vis_store_weights(const msi_vis_store *s, double *sum, double *largest, int64_t *count);

/* msi_segment_index - return the index of a sample in its segment's arrays of all planes. */
static inline int64_t msi_segment_index(const msi_vis_segment *segment, int plane, int64_t row, int32_t chan)
{
    return (plane * segment->n_row_max + row) * segment->n_chan + chan;
}

/* Rows of one spectral setup in a batch of segments, as the device sees them: their samples are [n_row][n_chan]. */
typedef struct msi_store_rows {
    int64_t first_sample, first_row; /* in the batch's arrays */
    int32_t n_row, n_chan, first_freq;
} msi_store_rows;

/* ---- For gpu_samples.c ------------------------------------------------------------------------------------------ */

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

/* msi_vis_store_rows_of_segment - return the capacity of a segment of n_chan channels, in rows. */
int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan);

/* msi_vis_store_next_segment - return the segment that becomes part of the store when n_segment grows. Returns: 0,
 * MSI_ENOMEM, MSI_ERANGE (more than the store numbers) */
int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out);

#ifdef __cplusplus
}
#endif
#endif
