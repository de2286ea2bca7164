/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of processes that open and read sets. The caller's process opens no tables with casacore, for two reasons: for
 * some damaged sets casacore ends the process, loops, or allocates unlimited memory; and threads cannot share its
 * tables. The samples of most sets can be read without casacore (tiled_column.h). Then threads of the caller's process
 * read the samples, and the pool's processes read only the other columns.
 */
#ifndef MSI_READER_POOL_H
#define MSI_READER_POOL_H

#include "io/ms/ms_reader.h"

typedef struct msi_reader_pool msi_reader_pool;

/*
 * A conversion of blocks, such as to Stokes parameters. It is done where the samples are read: in a process of the
 * pool, or in a thread of the caller. The parameters of the conversion (`order`) are bytes without pointers, so that
 * they can be copied to the processes.
 */
typedef struct msi_reader_conversion {
    void *of; /* state of the conversion; each process has its own copy, made by fork */

    /* copy - copy *of for a thread of the caller's process; drop - free such a copy. NULL: threads do not convert. */
    int (*copy)(void **of);
    void (*drop)(void *of);

    /* 1: convert calls msi_ms_block.fill for some rows at a time, if the block has it, so that samples stay in the
     * cache.
     * 0: all samples of a block are read before convert is called. */
    int fills;

    /* bytes - return the largest size in bytes of a converted block of n_row rows of a setup. It must not decrease with
     * n_row. For a block with `into`, n_row is 0, because samples are stored there. Called in the processes and in the
     * caller's process. */
    int64_t (*bytes)(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz);

    /* convert - convert a block. Called in the processes, and in threads of the caller. Given and returned: uvw_m
     * [n_row][3] of the block. Returned: converted, of the size that `bytes` returns. Returns: 0 or a code of
     * core/status.h. */
    int (*convert)(void *of, const void *order, const msi_ms_block *block, double *uvw_m, void *converted);
} msi_reader_conversion;

/*
 * msi_reader_pool_start - fork the processes, which then wait. Call it before any thread starts.
 * Given:    paths [n_path], selection  borrowed until the pool is freed
 *           n_process  >= 1; if fewer can be started, the pool has fewer
 *           conversion  NULL: blocks are returned as read
 * Returned: *out, owned, freed by msi_reader_pool_free
 * Returns:  0, MSI_ENOMEM (no process can be started)
 * Notes:    the memory of a process is limited to msi_memory_limit, or to the most that files of this size can need, if
 *           that is less. Each step of a process is limited to some seconds of CPU time.
 */
int msi_reader_pool_start(msi_reader_pool **out, const char *const *paths, int n_path,
                          const msi_ms_selection *selection, int n_process, const msi_reader_conversion *conversion);

/* The parts of a selection (msi_ms_selection) that may differ between openings of the sets. */
typedef struct msi_ms_opening {
    int64_t interval_begin, interval_end;
    int may_be_empty, coordinates_only, keep_flagged_rows;
    /* read only share `share` of n_share; shares have about the same number of samples; n_share 0: read all */
    int share, n_share;
    int whole_fields; /* do not divide a field, unless a share would have over 1.5 times the mean number of rows */
} msi_ms_opening;

/*
 * msi_reader_pool_open - open the sets. Readers of earlier openings can no longer read.
 * Returned: *reader  owned, freed by msi_ms_reader_free, also after the pool. Until the pool is freed or opens again,
 *                    its msi_ms_reader_next returns the blocks of the processes in the order of one reader
 * Returns:  as msi_ms_reader_open; also MSI_EINPUT (a process crashed or returned invalid metadata), MSI_ENOMEM (about
 *           "n_reader": a process was killed)
 */
int msi_reader_pool_open(msi_reader_pool *pool, const msi_ms_opening *opening, msi_ms_reader **reader);

/*
 * msi_reader_pool_set_conversion - set the conversion of blocks. Call it before the first block or after a rewind.
 * Given:   order [n_byte]  parameters of the conversion; copied
 * Returns: 0, MSI_ENOMEM
 * Notes:   a damaged set may corrupt the memory of a process. So the caller may trust only the size of a converted
 *          block, not its values. Coordinates are finite, but may have any value.
 */
int msi_reader_pool_set_conversion(msi_reader_pool *pool, const void *order, int64_t n_byte);

/*
 * msi_reader_pool_take - return the next block, and the blocks after it that are already read. They use at most half of
 * the slots of each process, so that the processes can go on reading.
 * Given:    block [most]
 * Returned: block [*n]   valid until the next call; *n is 0 after the last block. Blocks whose samples are read by
 *                        threads are unfilled: they have rows, but no samples yet
 * Returns:  as msi_ms_reader_next
 *
 * msi_reader_pool_fill - read the samples of these blocks with all threads, and convert them.
 * Given:   block [n]  all blocks of the last msi_reader_pool_take. If a block has `into`, the conversion stores the
 *                     samples there, and `converted` may have no samples
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM, or a code of the conversion
 */
int msi_reader_pool_take(msi_reader_pool *pool, msi_ms_reader *reader, int most, msi_ms_block *block, int *n);
int msi_reader_pool_fill(msi_reader_pool *pool, msi_ms_reader *reader, msi_ms_block *block, int n);

/* msi_reader_pool_load - return how many CPU cores the processes keep busy while the reader of the last opening is
 * read; 0 if threads read the samples of all its sets. */
int msi_reader_pool_load(const msi_reader_pool *pool, const msi_ms_reader *reader);

/* msi_reader_pool_size - return the number of processes; 0 for NULL. */
int msi_reader_pool_size(const msi_reader_pool *pool);

/* msi_reader_pool_free - end the processes; NULL is fine. */
void msi_reader_pool_free(msi_reader_pool *pool);

#endif
