/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of a reader, and functions that read one block. */
#ifndef MSI_IO_MS_BLOCK_H
#define MSI_IO_MS_BLOCK_H

#include "io/ms/ms_metadata.h"

enum {
    MSI_MS_MAX_PIECES = 16384, /* row ranges planned at once */
    MSI_MS_MAX_GROUPS = 256    /* pairs of setup and field in a plan */
};

/* Limit of coordinates. No baseline is longer, and squares of larger values could overflow. */
#define MSI_MS_MAX_UVW_M 1e12

/* The arrays of a block that the caller has. */
struct msi_ms_buffer {
    struct msi_ms_buffer *next;
    int64_t n_row_allocated, n_sample_allocated;
    int64_t *ms_row;
    double *time_s, *uvw_m;
    uint8_t *pair;
    int32_t *antenna; /* [n_row][2] */
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
    void *converted; /* slot of a pool: the converted block, instead of data, weight and flag */
    /* slot of a pool for blocks without samples: [n_row][n_corr] WEIGHT; read only if rows have no WEIGHT_SPECTRUM */
    float *row_weight;
};

/* Where a visibility store has the samples of a row: the chunk, and the index among its rows with samples; -1: no
 * samples. */
typedef struct msi_ms_source {
    const struct msi_msv_chunk *chunk;
    int64_t row;
} msi_ms_source;

/* The planned rows of one setup and field. */
typedef struct msi_ms_group {
    int data_desc_id, field_id;
    int64_t n_row;
    int n_piece;
} msi_ms_group;

/* Columns as stored, before rows are dropped and channels are sorted. */
typedef struct msi_ms_raw {
    int64_t n_row_allocated, n_sample_allocated;
    int64_t *row;
    int32_t *antenna1, *antenna2, *kept;
    uint8_t *flag_row;
    float *row_weight;  /* [n_row][n_corr] WEIGHT: of the rows read, later of the kept rows */
    int has_row_weight; /* 1: the last block has it */
    msi_ms_source *source;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
    msi_c32 *model; /* values of set.model_column */
    int64_t n_model_allocated;
    char *between; /* a range of rows of a column, including rows that are not needed */
    int64_t n_between_allocated;
    msi_tiled_scratch scratch;
} msi_ms_raw;

struct msi_ms_partners;

/* A pool of processes that read the blocks of a reader (reader_pool.h). */
typedef struct msi_ms_pool_ops {
    int (*next)(void *pool, msi_ms_reader *reader, msi_ms_block *block);
    void (*rewind)(void *pool);
    int (*n_process)(const void *pool);
} msi_ms_pool_ops;

struct msi_ms_reader {
    int n_set;
    msi_ms_set *set;
    char **paths;
    msi_ms_selection selection; /* its pointers are not used after opening */
    msi_observation observation;
    int n_spw;
    msi_ms_spw *spw;
    int64_t n_row, n_sample, n_time;
    msi_ms_dropped dropped;
    int set_index; /* position of reading */
    int64_t run_index, run_offset;
    int n_piece, n_group, next_group;
    int64_t n_taken;         /* number of groups read so far in this reader's share */
    int share, n_share;      /* as in msi_ms_opening */
    int whole_fields;        /* 1: shares consist of whole fields */
    int64_t n_share_row;     /* approximate number of rows of the share */
    int64_t n_sample_passed; /* samples of the groups so far, of all shares; counted only if there are shares */
    msi_ms_run *piece;
    msi_ms_group group[MSI_MS_MAX_GROUPS];
    msi_ms_raw raw;
    struct msi_ms_buffer *buffers;
    void *pool; /* borrowed; its processes read the blocks; NULL: this process does */
    const msi_ms_pool_ops *pool_ops;
    int64_t pool_opening; /* number of the pool's opening that made this reader */
    int lends;            /* 1: msi_ms_block.data may point into a visibility store */
};

/* msi_ms_reader_make - make a reader of sets that are not opened yet. Returns: 0, MSI_ENOMEM. */
int msi_ms_reader_make(msi_ms_reader **out, const char *const *paths, int n_path);

/* msi_ms_reader_open_with - open sets as msi_ms_reader_open does, in one of several processes that open the same sets
 * and get the same results (ms_metadata.h). NULL: only this process opens them. */
int msi_ms_reader_open_with(msi_ms_reader **out, const char *const *paths, int n_path,
                            const msi_ms_selection *selection, const struct msi_ms_partners *partners);

/* msi_ms_reader_take_share - restrict reading to a share, as in msi_ms_opening. Returns: 0, MSI_ENOMEM. */
int msi_ms_reader_take_share(msi_ms_reader *r, int share, int n_share, int whole_fields);

/* msi_ms_reader_list - fill spw[n_spw] from the sets' setups. Returns: 0, MSI_ENOMEM. */
int msi_ms_reader_list(msi_ms_reader *r);

/*
 * msi_ms_block_read - read the planned rows of a group into the block, without the rows that are dropped.
 * Given:    block->buffer  set
 * Returned: *block  n_row is 0 if all rows were dropped
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_block_read(msi_ms_reader *r, const msi_ms_group *g, msi_ms_block *block);

/*
 * msi_ms_block_fill - read the samples of a block's rows directly, without casacore. Threads may call it concurrently,
 * each with its own raw.
 * Given:    selection   for the uv limits
 *           row_weight  [block->n_row][block->n_corr] WEIGHT; NULL if all rows have WEIGHT_SPECTRUM
 *           block       described, with its rows; its set is_direct
 * Returned: the samples in block->buffer, and the block's pointers to them
 * Given and returned: *dropped  counts the samples outside the uv limits
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_block_fill(const msi_ms_set *set, const msi_ms_selection *selection, const float *row_weight,
                      msi_ms_raw *raw, msi_ms_block *block, msi_ms_dropped *dropped);

/* The properties of a row by which it is kept or dropped. */
typedef struct msi_ms_row_kind {
    int is_autocorrelation, is_flagged;
    double uvw_m[3];
} msi_ms_row_kind;

/* msi_ms_block_describe - fill a block with the metadata of its set, setup and field, and with n_row rows of the
 * buffer. */
void msi_ms_block_describe(const msi_ms_reader *r, int set, int data_desc_id, int field_id, struct msi_ms_buffer *b,
                           int64_t n_row, msi_ms_block *block);

/*
 * msi_ms_reader_next_of - read the next block in one of n_part processes that read in parallel. It reads the blocks
 * whose number modulo n_part is `part`. Numbers count all blocks from 0, including those without rows.
 * Returned: *block  n_row may be 0; *is_end  1 after the last block
 * Returns:  as msi_ms_reader_next
 */
int msi_ms_reader_next_of(msi_ms_reader *r, int part, int n_part, msi_ms_block *block, int *is_end);

/* msi_ms_buffer_fit_rows - grow the arrays of a block's rows for n rows; their values are lost. Returns: 0, MSI_ENOMEM
 * */
int msi_ms_buffer_fit_rows(struct msi_ms_buffer *b, int64_t n);

/* msi_ms_buffer_free - free the arrays of a block. */
void msi_ms_buffer_free(struct msi_ms_buffer *b);

/* msi_ms_raw_free - free the arrays. */
void msi_ms_raw_free(msi_ms_raw *raw);

#endif
