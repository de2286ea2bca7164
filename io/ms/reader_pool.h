/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of processes that open and read sets. For some damaged sets casacore ends the process, loops, or allocates
 * unlimited memory, and threads cannot share its tables. So the caller's process does not open tables. The large columns
 * of most sets need no casacore (tiled_column.h): the processes read the other columns of these sets, and threads of
 * the caller's process read the samples.
 */
#ifndef MSI_READER_POOL_H
#define MSI_READER_POOL_H

#include "io/ms/ms_reader.h"

typedef struct msi_reader_pool msi_reader_pool;

/*
 * A conversion of blocks, such as to Stokes parameters. It is made where the samples are read: by the reader processes,
 * or by threads. Its parameters (`order`) are bytes without pointers, which are copied to the processes.
 */
typedef struct msi_reader_conversion {
    void *of; /* each process has its own copy, from the time of the fork */

    /* copy - make an `of` for a thread of the caller's process; drop - free it. NULL: only processes convert. */
    int (*copy)(void **of);
    void (*drop)(void *of);

    /* 1: convert reads the samples by msi_ms_block.fill if a block has it, some rows at a time, so that they stay in the
     * cache. 0: all samples of a block are read before. */
    int fills;

    /* bytes - return the most bytes that n_row rows of a setup may need; for a block with `into`, n_row is 0. It must not
     * fall with n_row. Called in the processes and in the caller. */
    int64_t (*bytes)(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz);

    /* convert - convert a block; called in the processes. Given and returned: uvw_m [n_row][3] of the block. Returned:
     * converted, of that many bytes. Returns: 0 or a code of core/status.h. */
    int (*convert)(void *of, const void *order, const msi_ms_block *block, double *uvw_m, void *converted);
} msi_reader_conversion;

/*
 * msi_reader_pool_start - fork the processes, which wait. Call it before any thread starts.
 * Given:    paths [n_path], selection  borrowed until the pool is freed
 *           n_process  >= 1; if fewer can be started, these are used
 *           conversion  NULL: blocks are returned as read
 * Returned: *out, owned, freed by msi_reader_pool_free
 * Returns:  0, MSI_ENOMEM (no process can be started)
 * Notes:    a process may take the memory of msi_memory_limit, or what files of this size can need if that is less, and
 *           some seconds of CPU time per step.
 */
int msi_reader_pool_start(msi_reader_pool **out, const char *const *paths, int n_path,
                          const msi_ms_selection *selection, int n_process, const msi_reader_conversion *conversion);

/* The parts of the selection that may differ between openings of the sets; see msi_ms_selection. */
typedef struct msi_ms_opening {
    int64_t interval_begin, interval_end;
    int may_be_empty, coordinates_only, keep_flagged_rows;
    int share, n_share; /* read share `share` of n_share runs of blocks with about equal samples; n_share 0: all */
    int whole_fields;   /* shares are of whole fields, if no share has more than 1.5 times the mean of rows then */
} msi_ms_opening;

/*
 * msi_reader_pool_open - open the sets. Readers of earlier openings can no longer read.
 * Returned: *reader  owned, freed by msi_ms_reader_free, also after the pool. Its msi_ms_reader_next returns the
 *                    blocks of the processes in the order of one reader, until the pool is freed or opens again
 * Returns:  as msi_ms_reader_open; also MSI_EINPUT (a process crashed or returned invalid metadata), MSI_ENOMEM (about
 *           "n_reader": a process was killed)
 */
int msi_reader_pool_open(msi_reader_pool *pool, const msi_ms_opening *opening, msi_ms_reader **reader);

/*
 * msi_reader_pool_set_conversion - set the conversion of blocks. Call it before the first block or after a rewind.
 * Given:   order [n_byte]  parameters of the conversion; copied
 * Returns: 0, MSI_ENOMEM
 * Notes:   a damaged set may have damaged a process. So a converted block has the right size, but its values are not to
 *          be trusted. Coordinates are finite, but may have any value.
 */
int msi_reader_pool_set_conversion(msi_reader_pool *pool, const void *order, int64_t n_byte);

/*
 * msi_reader_pool_take - return the next block and the following blocks that are already read, at most half of the
 * slots of each process. The processes continue with others.
 * Given:    block [most]
 * Returned: block [*n]   valid until the next call; *n is 0 after the last one. Blocks that threads read are unfilled:
 *                        they have rows, but no samples
 * Returns:  as msi_ms_reader_next
 *
 * msi_reader_pool_fill - read the samples of these blocks, by all threads, and convert them.
 * Given:   block [n]  all those taken; their `into` is for the conversion, which may leave `converted` without samples
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM, or a code of the conversion
 */
int msi_reader_pool_take(msi_reader_pool *pool, msi_ms_reader *reader, int most, msi_ms_block *block, int *n);
int msi_reader_pool_fill(msi_reader_pool *pool, msi_ms_reader *reader, msi_ms_block *block, int n);

/* msi_reader_pool_load - return the number of processes that need a processor each while the reader of the last opening
 * is read: 0 if all its sets are read by threads. */
int msi_reader_pool_load(const msi_reader_pool *pool, const msi_ms_reader *reader);

/* msi_reader_pool_size - return the number of processes; 0 for NULL. */
int msi_reader_pool_size(const msi_reader_pool *pool);

/* msi_reader_pool_free - end the processes; NULL is fine. */
void msi_reader_pool_free(msi_reader_pool *pool);

#endif
