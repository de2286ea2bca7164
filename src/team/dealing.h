/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole sets are dealt to ranks, and the devices of a host. */
#ifndef MSI_SRC_DEALING_H
#define MSI_SRC_DEALING_H

#include <stdint.h>

#include "src/team/team.h"

/*
 * msi_deal - give things to ranks, the largest first, each to the rank that has least so far, the lowest of equal ones.
 * Given:    bytes [n]
 * Returned: rank [n]
 * Returns:  0, MSI_ENOMEM
 * Notes:    the same on every rank. The first rank has something as long as anything is there.
 */
int msi_deal(const int64_t *bytes, int n, int n_rank, int *rank);

/*
 * msi_deal_devices - choose the devices of this rank: in turns among the ranks that see the same ones, one at least. Ranks
 * that are more than devices share some.
 * Given:    device [n]  at least one
 * Returned: own [n]     those of this rank come first
 * Returns:  their number
 */
int msi_deal_devices(const int *device, int n, const msi_team *team, int *own);

#endif
