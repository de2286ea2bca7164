/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks paths of Measurement Sets without opening them. */
#ifndef MSI_IO_MS_PATHS_H
#define MSI_IO_MS_PATHS_H

#include <stdint.h>

/* msi_ms_path_is_table - return 1 if a directory looks like a casacore table, such as a Measurement Set, else 0. */
int msi_ms_path_is_table(const char *path);

/* msi_ms_paths_exist - return 1 if each of paths [n_path] is a readable file or looks like a readable table, else 0. It
 * sets no message, because the reader reports the reason. */
int msi_ms_paths_exist(const char *const *paths, int n_path);

/* msi_ms_paths_same - return 1 if two of paths [n_path] are the same set. Returned: *a, *b  their indices, a < b. */
int msi_ms_paths_same(const char *const *paths, int n_path, int *a, int *b);

/*
 * msi_ms_paths_copy - copy a list of paths.
 * Returned: *out [n_path]  one block of memory, freed by one msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_paths_copy(char ***out, const char *const *paths, int n_path);

/* ---- The members of a multi-MS: the sets that have its rows, and are read and written instead of it ---- */

/*
 * msi_ms_members - replace every multi-MS among paths [n_path] by its members. A multi-MS is a table that concatenates
 * other sets, as CASA's partition and virtualconcat make it. Other paths are copied without a check.
 *
 * Returned: *out [*n_out]  freed by msi_free; NULL if no path is a multi-MS, and on failure
 *           *which         index of the first multi-MS
 * Returns:  0, MSI_EINPUT (a multi-MS that cannot be opened), MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    a child process opens the tables: call it before any thread starts.
 */
int msi_ms_members(char ***out, int *n_out, int *which, const char *const *paths, int n_path);

#endif
