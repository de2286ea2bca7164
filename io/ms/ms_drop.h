/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Removal of old columns of predictions, which frees their disk space.
 *
 * casacore deletes the files of a column before table.dat is changed, and a kill between would lose the set. So it
 * works in a directory within the set, msimage-drop-old, with links to all files of the main table: it deletes only
 * links. One rename replaces table.dat of the set by the new one. Then the files are deleted that no storage manager
 * uses. At any moment the set has the old columns or does not have them, and can be opened. A killed run leaves the
 * directory, and files to which table.dat does not refer. The next run that writes removes both.
 */
#ifndef MSI_MS_DROP_H
#define MSI_MS_DROP_H

#include "io/ms/ms_column.h"

/* The keyword of an old column of a prediction. */
#define MSI_COLUMN_ASIDE "MSIMAGE_OLD"

/*
 * msi_ms_drop_plan - find the columns to remove: old columns of earlier predictions, and the one that this run replaces.
 * Changes nothing.
 * Given and returned: c  n_old, old_columns
 * Returns: 0; MSI_EINPUT (one cannot be removed), MSI_ENOMEM
 */
int msi_ms_drop_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_drop_columns - remove the columns of the plan; the column of this run is complete.
 * Given: t  open and locked; not usable afterwards
 * Returns: 0; MSI_EOUTPUT, MSI_ENOMEM: no column is removed
 */
int msi_ms_drop_columns(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/* msi_ms_drop_abandon - remove the directory and files of a run whose process has ended. c is as that left it. */
void msi_ms_drop_abandon(msi_ms_column *c, const char *path);

/* msi_ms_drop_leftovers - remove the directory and files of a killed run from a set that is open and locked.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_ms_drop_leftovers(ccc_table *t);

/* msi_ms_drop_links - return the number of links of a file of the set in the directory: 0 or 1. */
int msi_ms_drop_links(int set_fd, const char *name);

/* msi_ms_column_copy_mode - give an open file the owner and mode of table.dat, if the system allows it. */
void msi_ms_column_copy_mode(const msi_ms_column *c, int fd);

#endif
