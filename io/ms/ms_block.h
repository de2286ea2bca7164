/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader's state is here, and the reading of one block. */
#ifndef MSI_IO_MS_BLOCK_H
#define MSI_IO_MS_BLOCK_H

#include "io/ms/ms_set.h"

enum {
    MSI_MS_MAX_PIECES = 16384, /* stretches of rows planned at once */
    MSI_MS_MAX_GROUPS = 256    /* pairs of setup and field among them */
};

/* No baseline is longer than this; beyond it the squares of coordinates overflow. */
#define MSI_MS_MAX_UVW_M 1e12

/* A buffer holds the arrays of one block of the caller. */
struct msi_ms_buffer {
    struct msi_ms_buffer *next;
    int64_t n_row_allocated, n_sample_allocated;
    int64_t *ms_row;
    double *time_s, *uvw_m;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
    void *formed; /* in a slot of a crew: instead of the three above */
};

/* Find the samples of a row in a visibility store: the row of those that have some, -1 where it has none. */
typedef struct msi_ms_source {
    const struct msi_msv_chunk *chunk;
    int64_t row;
} msi_ms_source;

/* Rows of one setup and field within what is planned. */
typedef struct msi_ms_group {
    int data_desc_id, field_id;
    int64_t n_row;
    int n_piece;
} msi_ms_group;

/* Columns as stored, before rows are left out and channels put in order. */
typedef struct msi_ms_raw {
    int64_t n_row_allocated, n_sample_allocated;
    int64_t *row;
    int32_t *antenna1, *antenna2, *kept;
    uint8_t *flag_row;
    float *row_weight;
    msi_ms_source *source;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
    msi_c32 *model; /* of set.model_column */
    int64_t n_model_allocated;
    char *between; /* rows of a column, with those between them that are not wanted */
    int64_t n_between_allocated;
} msi_ms_raw;

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
    int set_index; /* where reading stands */
    int64_t run_index, run_offset;
    int n_piece, n_group, next_group;
    int64_t n_taken;         /* groups so far, of those in its share */
    int share, n_share;      /* as in msi_ms_opening */
    int64_t n_sample_passed; /* in groups so far, in the share or not; counted where there are shares */
    msi_ms_run *piece;
    msi_ms_group group[MSI_MS_MAX_GROUPS];
    msi_ms_raw raw;
    struct msi_ms_buffer *buffers;
    struct msi_ms_crew *crew; /* borrowed: its processes have the tables open, and read; NULL: this process does */
    int64_t crew_opening;     /* which of the crew's openings this reader is of */
    int lends;                /* msi_ms_block.data may lie in a visibility store instead of the block's buffer */
};

/* msi_ms_reader_make - make a reader of sets that are not opened yet. Returns: 0, MSI_ENOMEM. */
int msi_ms_reader_make(msi_ms_reader **out, const char *const *paths, int n_path);

/* msi_ms_reader_open_with - msi_ms_reader_open in one of several processes that open the same sets (ms_found.h), all of
 * which find the same; NULL: in one alone. */
int msi_ms_reader_open_with(msi_ms_reader **out, const char *const *paths, int n_path,
                            const msi_ms_selection *selection, const struct msi_ms_partners *partners);

/* msi_ms_reader_list - fill spw[n_spw] from the sets' setups. Returns: 0, MSI_ENOMEM. */
int msi_ms_reader_list(msi_ms_reader *r);

/*
 * msi_ms_block_read - read the planned rows of a group, leave out those that are to be left out, and fill the block.
 * Given:    block->buffer  set
 * Returned: *block  n_row is 0 where all its rows were left out
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_ms_block_read(msi_ms_reader *r, const msi_ms_group *g, msi_ms_block *block);

/* msi_ms_block_piece - give the next planned stretch of a group's rows, NULL behind the last; *i, 0 at first, counts.
 */
const msi_ms_run *msi_ms_block_piece(const msi_ms_reader *r, const msi_ms_group *g, int *i);

/* Selection looks at this much of a row before its samples are read. */
typedef struct msi_ms_row_kind {
    int is_autocorrelation, is_flagged;
    double uvw_m[3];
} msi_ms_row_kind;

/* msi_ms_block_keeps - return 1 where a row of a group is to be read; 0 where it is not, and counted as left out. */
int msi_ms_block_keeps(msi_ms_reader *r, const msi_ms_group *g, const msi_ms_row_kind *row);

/* msi_ms_block_describe - fill the block with what its set, setup and field say, and with n_row rows of the buffer. */
void msi_ms_block_describe(const msi_ms_reader *r, int set, int data_desc_id, int field_id, struct msi_ms_buffer *b,
                           int64_t n_row, msi_ms_block *block);

/*
 * msi_ms_reader_next_of - read one part's next block, where n_part processes read side by side: of the blocks numbered
 * from 0 on, before any is left out for having no rows left, those numbered `part` modulo n_part.
 * Returned: *block; n_row may be 0; *is_end is set after the last one
 * Returns:  as msi_ms_reader_next
 */
int msi_ms_reader_next_of(msi_ms_reader *r, int part, int n_part, msi_ms_block *block, int *is_end);

/* msi_ms_raw_free - free what the columns hold. */
void msi_ms_raw_free(msi_ms_raw *raw);

#endif
