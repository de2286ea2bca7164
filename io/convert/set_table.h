/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The main table of a set that is made: which storage manager has which column. */
#ifndef MSI_IO_SET_TABLE_H
#define MSI_IO_SET_TABLE_H

#include "io/casacore-c/casacore_c.h"

typedef struct msi_set_table_spec {
    int64_t n_corr, n_chan; /* of every row, or of the largest */
    int is_one_shape;       /* of every row */
    int has_weight_spectrum;
    const char *const *steady; /* [n_steady] columns whose values are put where they change */
    const char *const *scalar; /* [n_scalar] the others of numbers, each row's put */
    int n_steady, n_scalar;
} msi_set_table_spec;

/*
 * msi_set_table_make - make an empty set with its standard subtables.
 * Given:    path    where nothing stands
 * Returned: *table  opened for update
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:    a steady column keeps its value from the row on that it was put for, as long as rows are put in order.
 */
int msi_set_table_make(ccc_table **table, const char *path, const msi_set_table_spec *spec);

#endif
