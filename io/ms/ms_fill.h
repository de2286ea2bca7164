/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Values are put into the cells of a column that is written. */
#ifndef MSI_IO_MS_FILL_H
#define MSI_IO_MS_FILL_H

#include "core/types.h"
#include "io/ms/ms_column.h"

/* One set while it is being filled; zero-initialised. Its memory goes with the process. */
typedef struct msi_ms_fill {
    ccc_table *table; /* borrowed, prepared */
    msi_ms_column *column;
    const msi_ms_write_spec *spec;
    uint8_t *is_written; /* bit r: row r of a column that is new or swapped; NULL at first */
    int64_t n_allocated;
    msi_c32 *cells, *input; /* [n_allocated] whole cells of some rows */
} msi_ms_fill;

/* Values for some channels of some rows, as a block has them. */
typedef struct msi_ms_values {
    int64_t n_row;
    int32_t n_chan, n_corr;
    const int64_t *row;        /* [n_row] ascending */
    const int32_t *chan_index; /* [n_chan] in the stored cell */
    const msi_c32 *value;      /* [n_row][n_chan][n_corr] */
} msi_ms_values;

/*
 * msi_ms_fill_put - write values; other channels of a row that is written for the first time get what ms_writer.h says.
 * Returns: 0, MSI_EINPUT (a cell has not the shape of the values; the input cannot be read), MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_fill_put(msi_ms_fill *f, const msi_ms_values *v);

/* msi_ms_fill_rest - give the rows that were not written what ms_writer.h says. Returns: as msi_ms_fill_put. */
int msi_ms_fill_rest(msi_ms_fill *f);

#endif
