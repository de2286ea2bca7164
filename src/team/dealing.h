/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole sets are dealt to ranks. */
#ifndef MSI_SRC_DEALING_H
#define MSI_SRC_DEALING_H

#include <stdint.h>

/*
 * msi_deal - give things to ranks, the largest first, each to the rank that has least so far, the lowest of equal ones.
 * Given:    bytes [n]
 * Returned: rank [n]
 * Returns:  0, MSI_ENOMEM
 * Notes:    the same on every rank. The first rank has something as long as anything is there.
 */
int msi_deal(const int64_t *bytes, int n, int n_rank, int *rank);

#endif
