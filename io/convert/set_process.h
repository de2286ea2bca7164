/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Write a set in another process while this one makes its rows. casacore does not allow this with threads. */
#ifndef MSI_IO_SET_PROCESS_H
#define MSI_IO_SET_PROCESS_H

#include "io/convert/set_maps.h"

typedef struct msi_set_process msi_set_process;

/* msi_set_process_fits - return whether every row fits a slot of the shared memory. */
int msi_set_process_fits(const msi_ms_reader *reader, const msi_channel_groups *groups);

/*
 * msi_set_process_start - fork the writer process, which makes the set with its subtables. Call it before any thread
 * starts.
 * Given:              path, reader, spec  as in msi_set_output_make; open tables of the reader are closed
 * Given and returned: maps  of all sets with rows; their offsets are set
 * Returned:           *out  owned, freed by msi_set_process_free
 * Returns:            0, MSI_ENOMEM; for several sets also the errors of msi_set_writer_make
 */
int msi_set_process_start(msi_set_process **out, const char *path, const msi_ms_reader *reader,
                          const msi_set_output_spec *spec, msi_set_maps *maps);

/* msi_set_process_next - like msi_set_output_next. Full slots are sent to the process. Returns: 0, or an error of the
 * process. */
int msi_set_process_next(msi_set_process *b, int32_t n_chan, int32_t n_corr, msi_set_space *space);

/* msi_set_process_finish - wait until all rows are written and the set is closed. Returns: 0, or an error of the
 * process. */
int msi_set_process_finish(msi_set_process *b);

/* msi_set_process_free - kill the process if it runs; NULL is fine. */
void msi_set_process_free(msi_set_process *b);

#endif
