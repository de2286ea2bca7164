/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_stop.h"

#include <math.h>

/* A peak twice as high after a cycle as before it shows that its components were wrong; so does one that is a little
 * higher where the noise is too. Of several scales, the peak of another one may be a little higher any time. */
static const double MUCH_WORSE = 2, WORSE = 1.1, NOISIER = 1.02;

/* An exact residual may be a little above the threshold that minor iterations went down to; another cycle brings less
 * than the noise moves. A peak differs from the threshold by rounding to single precision. */
static const double NEAR = 1.1, ROUNDING = 1 + 1e-6;

/* Cycles in a row that lower the peak by less than this are idle; so many end cleaning. */
static const double IDLE = 0.99;
enum { MOST_IDLE = 3, MOST_BACK = 4 };

int msi_clean_is_final(const msi_clean_group *g, const msi_clean_options *o)
{
    return g->in_mask || !(o->auto_mask > 0);
}

static int go_back(msi_clean_group *g)
{
    g->mgain *= 0.5;
    if (++g->n_back == MOST_BACK) g->stop = "diverged";
    return 1;
}

/* Judge the last cycle's outcome, where there was one. */
static int is_worse(const msi_clean_group *g, double peak)
{
    if (!(g->peak_before > 0)) return 0;
    if (!isfinite(peak)) return 1;
    if (fabs(peak) <= NEAR * WORSE * g->threshold) return 0;
    return fabs(peak) > MUCH_WORSE * g->peak_before ||
           (fabs(peak) > WORSE * g->peak_before && g->noise > NOISIER * g->noise_before);
}

static void judge_progress(msi_clean_group *g)
{
    const double peak = fabs(g->peak);
    g->n_idle = g->best_peak > 0 && peak > IDLE * g->best_peak ? g->n_idle + 1 : 0;
    if (!(g->best_peak > 0) || peak < g->best_peak) g->best_peak = peak;
    if (g->n_idle == MOST_IDLE) g->stop = "stalled";
}

/* Tell whether there are pixels that may not be cleaned; without them only a residual that is zero has no peak. */
static int is_masked(const msi_clean_group *g, const msi_clean_options *o)
{
    return o->fits_mask || o->casa_mask || o->multithresh || o->border_percent > 0 || g->in_mask;
}

static void enter_mask(msi_clean_group *g)
{
    g->in_mask = 1;
    g->best_peak = 0;
    g->n_idle = 0;
}

/* Where few major cycles are allowed, those that would bring the exact residual down to -auto-mask, after minor
 * iterations were there, are worth more within the mask. */
static int is_short_of_cycles(const msi_clean_group *g, const msi_clean_options *o)
{
    return g->at_threshold && g->n_major < o->nmiter && 2 * g->n_major >= o->nmiter;
}

/* Tell how far above its threshold a group's peak may be at the end. Where iterations ran out, they are the reason. */
static double nearness(const msi_clean_group *g, const msi_clean_options *o)
{
    if (!g->n_major) return 1;
    return g->n_minor >= o->niter ? ROUNDING : NEAR;
}

int msi_clean_judge(msi_clean_group *g, const msi_clean_options *o, double peak)
{
    if (is_worse(g, peak)) return go_back(g);
    g->n_back = 0;
    g->peak = peak;
    if (!(fabs(peak) > 0)) {
        g->stop = is_masked(g, o) ? "mask empty" : "nothing left";
    } else if (fabs(peak) <= g->threshold * nearness(g, o)) {
        if (msi_clean_is_final(g, o))
            g->stop = "threshold";
        else
            enter_mask(g);
    } else if (g->n_minor >= o->niter) {
        g->stop = "iterations";
    } else if (o->nmiter && g->n_major >= o->nmiter) {
        g->stop = "major cycles";
    } else if (o->stop_negative && peak < 0) {
        g->stop = "negative peak";
    } else if (!msi_clean_is_final(g, o) && is_short_of_cycles(g, o)) {
        enter_mask(g);
    } else {
        judge_progress(g);
    }
    return 0;
}

int msi_clean_judge_minor(msi_clean_group *g)
{
    const msi_clean_report *r = &g->report;
    if (r->stop == MSI_CLEAN_STOP_DIVERGED) return go_back(g);
    if (r->stop == MSI_CLEAN_STOP_NEGATIVE || (!r->n_iteration && r->stop != MSI_CLEAN_STOP_THRESHOLD))
        g->stop = msi_clean_stop_word(r->stop);
    return 0;
}
