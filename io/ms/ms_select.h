/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Selection of rows and channels. One process scans the index columns of all rows, or several scan a part of the rows
 * each and exchange the results. */
#ifndef MSI_MS_SELECT_H
#define MSI_MS_SELECT_H

#include "io/ms/ms_metadata.h"

/* The processes that scan the same set. All must make the same exchanges. */
typedef struct msi_ms_partners {
    int part, n_part;
    void *of;

    /* exchange - send bytes to all processes. Returned: all[n_part], n_all[n_part], the bytes of each, borrowed until
     * the next exchange; their contents are not to be trusted. Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED. */
    int (*exchange)(void *of, const char *bytes, int64_t n_byte, const char **all, int64_t *n_all);
} msi_ms_partners;

/*
 * msi_ms_set_select - check the index columns of every row, and find the selected rows and channels.
 * Given:   partners  processes that each scan a part of the rows; NULL: this one scans all
 * Returns: 0, MSI_EINPUT (also if no row is selected), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_set_select(msi_ms_set *set, const msi_ms_selection *selection, const msi_ms_partners *partners);

#endif
