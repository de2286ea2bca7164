/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The members of a multi-MS: the sets that have its rows, and are read and written instead of it. */
#ifndef MSI_IO_MS_MEMBERS_H
#define MSI_IO_MS_MEMBERS_H

/*
 * msi_ms_members - replace every multi-MS among paths [n_path] by its members. A multi-MS is a table that concatenates
 * others, made by CASA's partition and virtualconcat. Other paths are kept and not checked.
 *
 * Returned: *out [*n_out]  freed by msi_free; NULL if no path is a multi-MS, and on failure
 *           *which         the first path that is one
 * Returns:  0, MSI_EINPUT (a multi-MS that cannot be opened), MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    a child process opens the tables: call it before any thread starts.
 */
int msi_ms_members(char ***out, int *n_out, int *which, const char *const *paths, int n_path);

#endif
