/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/shared_density.h"

#include "core/status.h"

int msi_shared_density(msi_team *team, msi_density *d)
{
    if (team->size == 1) return MSI_OK;
    const msi_density_parts parts = msi_density_parts_of(d);
    for (int k = 0; k < 2; k++) {
        if (!parts.sum[k]) continue;
        MSI_TRY(msi_team_sum(team, parts.sum[k], parts.n_cell, MSI_FP64));
        MSI_TRY(msi_team_sum(team, parts.total[k], 1, MSI_FP64));
    }
    return MSI_OK;
}
