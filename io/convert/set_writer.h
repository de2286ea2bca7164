/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tables of a set that is made: its subtables are those of others, its rows are put. casacore runs in this process.
 */
#ifndef MSI_IO_SET_WRITER_H
#define MSI_IO_SET_WRITER_H

#include "io/convert/set_maps.h"

typedef struct msi_set_writer msi_set_writer;

/*
 * msi_set_writer_make - make the set with its subtables, without rows.
 * Given:              path, reader, spec  as msi_set_output_make's
 * Given and returned: maps   of all sets with rows, by msi_set_maps_add; their offsets are set
 * Returned:           *out   owned, freed by msi_set_writer_free
 * Returns:            0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_writer_make(msi_set_writer **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec, msi_set_maps *maps);

/* msi_set_writer_put - append rows now. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM. */
int msi_set_writer_put(msi_set_writer *w, const msi_set_rows *rows);

/* msi_set_writer_finish - close the set. Returns: 0, MSI_EOUTPUT. */
int msi_set_writer_finish(msi_set_writer *w);

/* msi_set_writer_free - close what is open; NULL is fine. */
void msi_set_writer_free(msi_set_writer *w);

#endif
