/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole sets are assigned to ranks, and the devices of a host. */
#ifndef MSI_SRC_ASSIGNMENT_H
#define MSI_SRC_ASSIGNMENT_H

#include <stdint.h>

#include "src/team/team.h"

/*
 * msi_assign_sets - assign sets to ranks, the largest first, each to the rank that has the fewest bytes so far, the
 * lowest of equal ones.
 * Given:    bytes [n]
 * Returned: rank [n]
 * Returns:  0, MSI_ENOMEM
 * Notes:    the same on every rank. The first rank has a set as long as there is one.
 */
int msi_assign_sets(const int64_t *bytes, int n, int n_rank, int *rank);

/*
 * msi_assign_devices - choose the devices of this rank: in turns among the ranks that see the same ones, one at least.
 * Ranks that are more than devices share some.
 * Given:    device [n]  at least one
 * Returned: own [n]     those of this rank come first
 * Returns:  their number
 */
int msi_assign_devices(const int *device, int n, const msi_team *team, int *own);

#endif
