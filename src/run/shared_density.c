/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/shared_density.h"

#include <math.h>

#include "core/status.h"

static double total(const double *sum, int64_t n)
{
    double all = 0;
    for (int64_t i = 0; i < n; i++) all += sum[i];
    return all;
}

int msi_shared_density(msi_team *team, msi_density *d, const msi_weighting *rule, msi_weighting *own)
{
    msi_density_grid grid;
    *own = *rule;
    if (team->size == 1) return MSI_OK;
    /* The sums are lent to be read; a density has them of its own, so that they can be changed in their place. */
    double *sum = (double *)msi_density_sums(d, &grid);
    const int64_t n = grid.nv / 2 * grid.nu;
    const double before = total(sum, n);
    MSI_TRY(msi_team_sum(team, sum, n, MSI_FP64));
    const double after = total(sum, n);
    /* Briggs' s^2 = (5 10^-R)^2 sum w / sum Wc^2 is computed with the sum of this rank's weights, and wants that of
     * all: another R makes up for it. A rank without weights has nothing to weigh. */
    if (rule->mode == MSI_WEIGHT_BRIGGS && before > 0) own->robust = rule->robust - 0.5 * log10(after / before);
    return MSI_OK;
}
