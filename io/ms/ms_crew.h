/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Opens and reads sets in processes of their own: casacore ends the process, loops or takes any memory at some damaged
 * sets, and threads cannot share its tables. The caller's process opens none.
 */
#ifndef MSI_IO_MS_CREW_H
#define MSI_IO_MS_CREW_H

#include "io/ms/ms_reader.h"

typedef struct msi_ms_crew msi_ms_crew;

/*
 * msi_ms_crew_start - fork the processes, which wait. Before any thread is started.
 * Given:    paths [n_path], selection  borrowed until the crew is freed
 *           n_process  >= 1; where fewer can be had, fewer it is
 * Returned: *out, owned, freed by msi_ms_crew_free
 * Returns:  0, MSI_ENOMEM (no process to be had)
 * Notes:    a process may take as much memory as msi_memory_limit says now, or as the files of the sets can need where
 *           that is less, and some seconds of CPU time for each of its steps.
 */
int msi_ms_crew_start(msi_ms_crew **out, const char *const *paths, int n_path, const msi_ms_selection *selection,
                      int n_process);

/* An opening is what of the crew's selection is another from one opening of the sets to the next; see there. */
typedef struct msi_ms_opening {
    int64_t interval_begin, interval_end;
    int may_be_empty, coordinates_only, keep_flagged_rows;
} msi_ms_opening;

/*
 * msi_ms_crew_open - open the sets; what was opened before is read no more.
 * Returned: *reader  owned, freed by msi_ms_reader_free, also after the crew. Its msi_ms_reader_next gives the blocks
 *                    that the processes read, in the order of one reader, until the crew is freed or opens again
 * Returns:  as msi_ms_reader_open; MSI_EINPUT too where a process was ended by what it read, or found what cannot be;
 *           MSI_ENOMEM (about "n_reader") where one was killed
 */
int msi_ms_crew_open(msi_ms_crew *crew, const msi_ms_opening *opening, msi_ms_reader **reader);

/* msi_ms_crew_next - msi_ms_reader_next of the reader that was opened last. The block before is given back. */
int msi_ms_crew_next(msi_ms_crew *crew, msi_ms_reader *reader, msi_ms_block *block);

/* msi_ms_crew_rewind - the next block is the first. */
void msi_ms_crew_rewind(msi_ms_crew *crew);

/* msi_ms_crew_size - how many processes; 0 for NULL. */
int msi_ms_crew_size(const msi_ms_crew *crew);

/* msi_ms_crew_free - end the processes; NULL is fine. */
void msi_ms_crew_free(msi_ms_crew *crew);

#endif
