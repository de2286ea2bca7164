/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A pool of processes that open and read sets. The caller's process opens no tables with casacore, for two reasons: for
 * some damaged sets casacore ends the process, loops, or allocates unlimited memory; and threads cannot share its
 * tables. The samples of most sets can be read without casacore (tiled_column.h). Threads of the caller's process read
 * them, and the pool's processes read only the other columns of these sets.
 */
#ifndef MSI_READER_POOL_H
#define MSI_READER_POOL_H

#include "io/ms/ms_reader.h"

typedef struct msi_reader_pool msi_reader_pool;

/*
 * A conversion of blocks, such as to Stokes parameters. The reader that reads the samples also converts them; a reader
 * is a process of the pool, or a thread of the caller. The parameters of the conversion (`order`) are bytes without
 * pointers, so that they can be copied to the processes.
 */
typedef struct msi_reader_conversion {
    void *of; /* state of the conversion; each process has its own copy, made by fork */

    /* copy - copy *of for a thread of the caller's process; drop - free such a copy. NULL: threads do not convert. */
    int (*copy)(void **of);
    void (*drop)(void *of);

    /* 1: if a block has the function msi_ms_block.fill, convert calls it for some rows at a time, so that their samples
     * stay in the cache. 0: all samples of a block are read before convert is called. */
    int fills;

    /* bytes - return the largest size of a converted block of n_row rows of a setup, in bytes. More rows must not need
     * fewer bytes. For a block with `into`, n_row is 0, because its samples are converted into that. Called in the
     * processes and in the caller. */
    int64_t (*bytes)(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz);

    /* convert - convert a block; called in the processes, and in threads. Given and returned: uvw_m [n_row][3] of the
     * block. Returned: converted, with the size returned by `bytes`. Returns: 0 or a code of core/status.h. */
    int (*convert)(void *of, const void *order, const msi_ms_block *block, double *uvw_m, void *converted);
} msi_reader_conversion;

/*
 * msi_reader_pool_start - fork the processes, which wait. Call it before any thread starts.
 * Given:    paths [n_path], selection  borrowed until the pool is freed
 *           n_process  >= 1; if fewer can be started, the pool has fewer
 *           conversion  NULL: blocks are returned as read
 * Returned: *out, owned, freed by msi_reader_pool_free
 * Returns:  0, MSI_ENOMEM (no process can be started)
 * Notes:    a process is limited to the memory of msi_memory_limit, or to the most that files of this size can need if
 *           that is less. It is also limited to some seconds of CPU time per step.
 */
int msi_reader_pool_start(msi_reader_pool **out, const char *const *paths, int n_path,
                          const msi_ms_selection *selection, int n_process, const msi_reader_conversion *conversion);

/* The parts of the selection that may differ between openings of the sets; see msi_ms_selection. */
typedef struct msi_ms_opening {
    int64_t interval_begin, interval_end;
    int may_be_empty, coordinates_only, keep_flagged_rows;
    int share, n_share; /* read only run `share` of n_share runs of blocks with about equal samples; n_share 0: all */
    int whole_fields;   /* do not divide a field, unless a share would have over 1.5 times the mean number of rows */
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
 * Notes:   a damaged set may corrupt the memory of a process. So the caller must not trust the values of a converted
 *          block, only its size. Coordinates are finite, but may have any value.
 */
int msi_reader_pool_set_conversion(msi_reader_pool *pool, const void *order, int64_t n_byte);

/*
 * msi_reader_pool_take - return the next block, and the following blocks that are already read. They occupy at most
 * half of the slots of each process, so that the processes can continue with the other slots.
 * Given:    block [most]
 * Returned: block [*n]   valid until the next call; *n is 0 after the last one. Blocks whose samples threads read are
 *                        unfilled: they have rows, but no samples yet
 * Returns:  as msi_ms_reader_next
 *
 * msi_reader_pool_fill - read the samples of these blocks in all threads, and convert them.
 * Given:   block [n]  all blocks of the last msi_reader_pool_take. If `into` of a block is set, the conversion stores
 *                     the samples there, and may leave `converted` without samples
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM, or a code of the conversion
 */
int msi_reader_pool_take(msi_reader_pool *pool, msi_ms_reader *reader, int most, msi_ms_block *block, int *n);
int msi_reader_pool_fill(msi_reader_pool *pool, msi_ms_reader *reader, msi_ms_block *block, int n);

/* msi_reader_pool_load - return how many processes each keep a CPU core busy while the reader of the last opening is
 * read; 0 if threads read the samples of all its sets. */
int msi_reader_pool_load(const msi_reader_pool *pool, const msi_ms_reader *reader);

/* msi_reader_pool_size - return the number of processes; 0 for NULL. */
int msi_reader_pool_size(const msi_reader_pool *pool);

/* msi_reader_pool_free - end the processes; NULL is fine. */
void msi_reader_pool_free(msi_reader_pool *pool);

#endif
