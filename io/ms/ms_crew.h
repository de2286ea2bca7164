/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sets are opened and read in processes of their own: casacore ends the process, loops or takes any memory at some
 * damaged sets, and threads cannot share its tables. The caller's process opens none.
 */
#ifndef MSI_IO_MS_CREW_H
#define MSI_IO_MS_CREW_H

#include "io/ms/ms_reader.h"

typedef struct msi_ms_crew msi_ms_crew;

/*
 * Processes can make of a block what is wanted of it before they hand it over: work that one process, which takes the
 * blocks of all of them, need not do then. How is told by an order: bytes without pointers, which are brought to them.
 */
typedef struct msi_ms_forming {
    void *of; /* of each process its own, as it was when they were forked */

    /* bytes - return the room that n_row rows of a setup may need, at most: what more rows need is no less. Called in
     * the processes and in the caller's. */
    int64_t (*bytes)(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz);

    /* form - called in the processes. Given and returned: uvw_m [n_row][3]  the block's. Returned: formed  of that
     * room. Returns: 0 or a code of core/status.h. */
    int (*form)(void *of, const void *order, const msi_ms_block *block, double *uvw_m, void *formed);
} msi_ms_forming;

/*
 * msi_ms_crew_start - fork the processes, which wait. Before any thread is started.
 * Given:    paths [n_path], selection  borrowed until the crew is freed
 *           n_process  >= 1; where fewer can be had, fewer it is
 *           forming    NULL: blocks come as read
 * Returned: *out, owned, freed by msi_ms_crew_free
 * Returns:  0, MSI_ENOMEM (no process to be had)
 * Notes:    a process may take as much memory as msi_memory_limit says now, or as the files of the sets can need where
 *           that is less, and some seconds of CPU time for each of its steps.
 */
int msi_ms_crew_start(msi_ms_crew **out, const char *const *paths, int n_path, const msi_ms_selection *selection,
                      int n_process, const msi_ms_forming *forming);

/* An opening is what of the crew's selection is another from one opening of the sets to the next; see there. */
typedef struct msi_ms_opening {
    int64_t interval_begin, interval_end;
    int may_be_empty, coordinates_only, keep_flagged_rows;
    int share, n_share; /* which of so many runs of blocks, of about as many samples each, is read; n_share 0: all */
} msi_ms_opening;

/*
 * msi_ms_crew_open - open the sets; what was opened before is read no more.
 * Returned: *reader  owned, freed by msi_ms_reader_free, also after the crew. Its msi_ms_reader_next gives the blocks
 *                    that the processes read, in the order of one reader, until the crew is freed or opens again
 * Returns:  as msi_ms_reader_open; MSI_EINPUT too where a process was ended by what it read, or found what cannot be;
 *           MSI_ENOMEM (about "n_reader") where one was killed
 */
int msi_ms_crew_open(msi_ms_crew *crew, const msi_ms_opening *opening, msi_ms_reader **reader);

/*
 * msi_ms_crew_order - have the blocks of what is open formed; before the first of them, or before they come again.
 * Given:   order [n_byte]  as the crew's forming takes it; copied
 * Returns: 0, MSI_ENOMEM
 * Notes:   what a process has formed is the word of one that a damaged set may have damaged: its size is right, nothing
 *          else is known of it. Coordinates are finite, but may be any.
 */
int msi_ms_crew_order(msi_ms_crew *crew, const void *order, int64_t n_byte);

/* msi_ms_crew_next - msi_ms_reader_next of the reader that was opened last. The blocks before are given back. */
int msi_ms_crew_next(msi_ms_crew *crew, msi_ms_reader *reader, msi_ms_block *block);

/*
 * msi_ms_crew_take - likewise the next block and those behind it that have been read meanwhile, at most two of each
 * process, which go on with others.
 * Given:    block [most]
 * Returned: block [*n]   valid until the next call; *n is 0 after the last one
 * Returns:  as msi_ms_reader_next
 */
int msi_ms_crew_take(msi_ms_crew *crew, msi_ms_reader *reader, int most, msi_ms_block *block, int *n);

/* msi_ms_crew_rewind - the next block is the first. */
void msi_ms_crew_rewind(msi_ms_crew *crew);

/* msi_ms_crew_size - count the processes; 0 for NULL. */
int msi_ms_crew_size(const msi_ms_crew *crew);

/* msi_ms_crew_free - end the processes; NULL is fine. */
void msi_ms_crew_free(msi_ms_crew *crew);

#endif
