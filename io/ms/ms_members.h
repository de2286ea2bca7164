/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A multi-MS has its rows in other sets, its members, and is read and written by these. */
#ifndef MSI_IO_MS_MEMBERS_H
#define MSI_IO_MS_MEMBERS_H

/*
 * msi_ms_members - put members in the place of every multi-MS among paths [n_path]: tables of casacore that concatenate
 * others, as CASA's partition and virtualconcat make them. Other paths stay, whatever they lead to.
 *
 * Returned: *out [*n_out]  freed by msi_free; NULL where no path is a multi-MS, and on failure
 *           *which         the first path that is one
 * Returns:  0, MSI_EINPUT (a multi-MS that cannot be opened), MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    a process that it forks opens them: call it before any thread is started.
 */
int msi_ms_members(char ***out, int *n_out, int *which, const char *const *paths, int n_path);

#endif
