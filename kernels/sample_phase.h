/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Phase factors that shift the samples of a row to another centre, channel by channel. */
#ifndef MSI_SAMPLE_PHASE_H
#define MSI_SAMPLE_PHASE_H

#include <math.h>

#include "core/types.h"
#include "kernels/sample_gains.h"
#include "kernels/store/vis_store.h"

/* Every this many channels a phase factor is computed exactly; the others are products with a step. */
enum { MSI_EXACT_PHASE_EVERY = 16 };

typedef struct msi_phases {
    double turns_hz; /* turns per hertz */
    int is_even;     /* 1: frequencies have equal steps */
    msi_c64 now, step;
} msi_phases;

static inline msi_c64 msi_turn(double turns)
{
    turns -= round(turns);
    return (msi_c64){cos(2 * MSI_PI * turns), sin(2 * MSI_PI * turns)};
}

/* msi_phases_are_even - return 1 if the frequencies of a segment have equal steps, within a tolerance far below the
 * accuracy of a phase. */
static inline int msi_phases_are_even(const msi_vis_segment *g)
{
    const int32_t n = g->n_chan;
    const double step = n > 1 ? (g->freq_hz[n - 1] - g->freq_hz[0]) / (n - 1) : 0;
    for (int32_t c = 0; c < n; c++)
        if (fabs(g->freq_hz[c] - g->freq_hz[0] - c * step) > 1e-12 * g->freq_hz[0]) return 0;
    return 1;
}

/* msi_phases_begin - begin a row. Given: is_even  from msi_phases_are_even; turns_m  the path in metres */
static inline msi_phases msi_phases_begin(const msi_vis_segment *g, int is_even, double turns_m)
{
    msi_phases p = {.turns_hz = turns_m / MSI_SPEED_OF_LIGHT, .is_even = is_even && g->n_chan > 2};
    if (p.is_even) p.step = msi_turn((g->freq_hz[1] - g->freq_hz[0]) * p.turns_hz);
    return p;
}

/* msi_phases_next - return exp(2 pi i path frequency / c) of channel c. Call it for channels 0, 1, 2 .. in order. */
static inline msi_c64 msi_phases_next(msi_phases *p, const msi_vis_segment *g, int32_t c)
{
    p->now =
        p->is_even && c % MSI_EXACT_PHASE_EVERY ? msi_times(p->now, p->step) : msi_turn(g->freq_hz[c] * p->turns_hz);
    return p->now;
}

#endif
