/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_foresight.h"

#include <math.h>

/* Measure how far the peak falls in a cycle, in logarithms; 0 where it does not. */
static double decay_of(const msi_clean_group *g)
{
    const double peak = fabs(g->peak);
    if (!(g->peak_before > 0)) return -log1p(-fmin(g->mgain, 0.999));
    return peak < g->peak_before ? log(g->peak_before / peak) : 0;
}

double msi_clean_cycles_left(const msi_clean_group *g, const msi_clean_options *o, double threshold)
{
    const double peak = fabs(g->peak), decay = decay_of(g);
    double left = INFINITY;
    if (g->stop || !(peak > 0)) return 0;
    if (threshold > 0 && decay > 0) left = log(peak / threshold) / decay;
    if (g->n_major && g->report.n_iteration > 0)
        left = fmin(left, (double)(o->niter - g->n_minor) / (double)g->report.n_iteration);
    if (o->nmiter) left = fmin(left, (double)(o->nmiter - g->n_major));
    /* A peak that comes to the threshold but for rounding takes no cycle more. */
    return fmax(1, ceil(left - 1e-6));
}
