/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights of all ranks of a team. */
#ifndef MSI_SRC_SHARED_DENSITY_H
#define MSI_SRC_SHARED_DENSITY_H

#include "kernels/gridder.h"
#include "src/team/team.h"

/*
 * msi_shared_density - make of this rank's sums of weights those of all ranks, in rank order.
 * Given and returned: d  of this rank's samples; of all, and no more to be added to
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_shared_density(msi_team *team, msi_density *d);

#endif
