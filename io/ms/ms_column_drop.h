/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The columns that predictions put aside are removed, and their space comes free.
 *
 * casacore deletes a column's files before table.dat has forgotten them, and a kill between loses the set. So it works
 * in a folder within the set, msimage-drop-old, where every file of the main table is linked: what it deletes there are
 * links. One rename then puts the table.dat that it made there in the place of the set's, and the files that no manager
 * knows any more are deleted after that. Whatever happens, the set has the old columns or has them no more, and opens.
 * A run that is killed leaves the folder, and files that table.dat does not name; the next one that writes removes
 * both.
 */
#ifndef MSI_IO_MS_COLUMN_DROP_H
#define MSI_IO_MS_COLUMN_DROP_H

#include "io/ms/ms_column.h"

/* The keyword of a column that says that a prediction put it aside. */
#define MSI_COLUMN_ASIDE "MSIMAGE_OLD"

/*
 * msi_ms_column_drop_plan - find the columns that are to go: those put aside earlier and the one that this run puts
 * aside. Nothing is changed.
 * Given and returned: c  n_old, old_columns
 * Returns: 0; MSI_EINPUT (one cannot be removed), MSI_ENOMEM
 */
int msi_ms_column_drop_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_drop - remove the columns of the plan; the column of this run is complete.
 * Given: t  open and locked; of no use for anything else afterwards
 * Returns: 0; MSI_EOUTPUT, MSI_ENOMEM: nothing is removed
 */
int msi_ms_column_drop(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/* msi_ms_column_drop_tidy - remove what a killed run left of this, from a set that is open and locked.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_ms_column_drop_tidy(ccc_table *t);

/* msi_ms_column_drop_abandon - do the same for a run whose process is gone; c is as that left it. */
void msi_ms_column_drop_abandon(msi_ms_column *c, const char *path);

/* msi_ms_column_drop_links - count how many links of a file of the set there are in the folder: 0 or 1. */
int msi_ms_column_drop_links(int set_fd, const char *name);

#endif
