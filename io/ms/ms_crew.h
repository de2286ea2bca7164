/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the blocks of a reader in processes side by side, since threads cannot share casacore's tables. */
#ifndef MSI_IO_MS_CREW_H
#define MSI_IO_MS_CREW_H

#include "io/ms/ms_reader.h"

typedef struct msi_ms_crew msi_ms_crew;

/*
 * msi_ms_crew_start - fork the processes, which wait. Before any thread is started.
 * Given:    paths [n_path], selection  borrowed until the crew is freed; n_process >= 1
 * Returned: *out, owned, freed by msi_ms_crew_free
 * Returns:  0, MSI_ENOMEM, MSI_EOUTPUT (no process to be had)
 */
int msi_ms_crew_start(msi_ms_crew **out, const char *const *paths, int n_path, const msi_ms_selection *selection,
                      int n_process);

/*
 * msi_ms_crew_open - tell them to open the sets, which they do while the caller does so too; again for another
 * interval. Timesteps [begin, end) take the place of the selection's.
 */
void msi_ms_crew_open(msi_ms_crew *crew, int64_t interval_begin, int64_t interval_end);

/*
 * msi_ms_crew_begin - have them read all blocks.
 * Given:    reader  opened with the same selection and interval; borrowed until the last block
 * Returned: *reads  0 where they cannot: not all have found what the reader has, or a block is too large to hand over;
 *           then the crew is of no more use
 * Returns:  0, MSI_EINTERRUPTED
 */
int msi_ms_crew_begin(msi_ms_crew *crew, msi_ms_reader *reader, int *reads);

/*
 * msi_ms_crew_next - as msi_ms_reader_next of the reader given to msi_ms_crew_begin, and in the same order: the same
 * blocks, counts of what is dropped, and errors. The block before is given back.
 * Returns: as msi_ms_reader_next; MSI_ENOMEM (about "n_reader") where a process was killed, MSI_EINPUT where one has
 * ended otherwise
 */
int msi_ms_crew_next(msi_ms_crew *crew, msi_ms_block *block);

/* msi_ms_crew_size - how many processes; 0 for NULL. */
int msi_ms_crew_size(const msi_ms_crew *crew);

/* msi_ms_crew_free - end the processes; NULL is fine. */
void msi_ms_crew_free(msi_ms_crew *crew);

#endif
