/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory that all ranks of a job see, where all of them are on one host. MPI copies in pieces, one test at a time; ranks that
 * read each other's memory add up arrays at the speed of memory. */
#ifndef MSI_RANKS_WINDOW_H
#define MSI_RANKS_WINDOW_H

#include "src/run/ranks.h"

/* The window of each rank has this many bytes. */
enum { MSI_RANKS_WINDOW_BYTES = 32 << 20 };

/*
 * msi_ranks_window - return the addresses [size] of the windows of all ranks; every rank calls it. The first call makes
 * them.
 * Returned: *at  borrowed; NULL: the ranks are on several hosts, or may not see each other's memory
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ranks_window(msi_ranks *ranks, char *const **at);

/* msi_ranks_window_close - unmap the windows. */
void msi_ranks_window_close(msi_ranks *ranks);

#endif
