/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A set is made by a process beside the one that has its rows: casacore's tables are not shared by threads. */
#ifndef MSI_IO_SET_BESIDE_H
#define MSI_IO_SET_BESIDE_H

#include "io/convert/set_maps.h"

typedef struct msi_set_beside msi_set_beside;

/* msi_set_beside_fits - tell whether every row can be handed over. */
int msi_set_beside_fits(const msi_ms_reader *reader, const msi_channel_groups *groups);

/*
 * msi_set_beside_start - fork the process, which makes the set with its subtables; before any thread is started.
 * Given:              path, reader, spec  as msi_set_output_make's; tables that the reader has open are closed
 * Given and returned: maps  of all sets with rows; their offsets are set
 * Returned:           *out  owned, freed by msi_set_beside_free
 * Returns:            0, MSI_ENOMEM; of several sets, what msi_set_writer_make returns
 */
int msi_set_beside_start(msi_set_beside **out, const char *path, const msi_ms_reader *reader,
                         const msi_set_output_spec *spec, msi_set_maps *maps);

/* msi_set_beside_next - as msi_set_output_next; rows are handed over when they are many. Returns: 0, or what failed in
 * the process so far. */
int msi_set_beside_next(msi_set_beside *beside, int32_t n_chan, int32_t n_corr, msi_set_room *room);

/* msi_set_beside_finish - wait until all is written and the set closed. Returns: 0, or what failed. */
int msi_set_beside_finish(msi_set_beside *b);

/* msi_set_beside_process - return the process. */
pid_t msi_set_beside_process(const msi_set_beside *b);

/* msi_set_beside_free - end the process, whatever it is about; NULL is fine. */
void msi_set_beside_free(msi_set_beside *b);

#endif
