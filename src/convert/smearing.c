/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/smearing.h"

#include <math.h>
#include <stdio.h>

#include "core/units.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "io/casacore-c/casacore_c.h"

/* Rotation rate of the Earth: 2 pi in a sidereal day. */
static const double EARTH_RAD_S = 7.292115e-5;

/* Return the largest loss of amplitude, 0 .. 1, for a change of the phase of up to `turns`:
 * 1 - sin(pi x) / (pi x) for x up to one turn, where the amplitude is zero, and 1 above. */
static double smearing_loss(double turns)
{
    const double x = MSI_PI * turns;
    if (turns >= 1) return 1;
    /* Below this, the next term of the series is less than a rounding error. */
    return fabs(x) < 1e-4 ? x * x / 6 : 1 - sin(x) / x;
}

double msi_smearing_turns(double loss)
{
    double low = 0, high = 1;
    if (loss >= 1) return 1;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        *(smearing_loss(middle) <= loss ? &low : &high) = middle;
    }
    return low;
}

double msi_smearing_time_turns(double baseline_m, double radius_rad, double time_s, double freq_hz)
{
    return EARTH_RAD_S * time_s * baseline_m * freq_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}

/* Return the turns over the width of a channel, at most, for a baseline towards the
 * source. */
static double smearing_band_turns(double baseline_m, double radius_rad, double width_hz)
{
    return baseline_m * width_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}

enum { N_LENGTH = 4 }; /* the longest baseline, half of it, .. */

/* Return the diameter of the smallest dish, which has the widest beam; 0 if no diameter is known. */
static double smallest_dish_m(const char *path)
{
    ccc_table *ms, *t;
    double least_m = 0, diameter_m;
    if (ccc_table_open(&ms, path, CCC_READ, CCC_LOCK_NONE) != CCC_OK) return 0;
    if (ccc_subtable_open(&t, ms, "ANTENNA") == CCC_OK) {
        for (int64_t i = 0; i < ccc_table_n_row(t); i++)
            if (ccc_get_range(t, "DISH_DIAMETER", i, 1, NULL, CCC_DOUBLE, &diameter_m, 1) == CCC_OK && diameter_m > 0 &&
                isfinite(diameter_m) && (least_m == 0 || diameter_m < least_m))
                least_m = diameter_m;
        ccc_table_close(t);
    }
    ccc_table_close(ms);
    return least_m;
}

/* The ends of the band and the widest averaged channel, which determine the loss. */
typedef struct band {
    double lowest_hz, highest_hz, widest_hz;
    int is_averaged;
} band;

static band find_band(const msi_ms_reader *r, const msi_channel_groups *groups)
{
    band b = {.lowest_hz = INFINITY};
    for (int i = 0; i < msi_ms_reader_n_spw(r); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r, i);
        b.lowest_hz = fmin(b.lowest_hz, spw->freq_hz[0]);
        b.highest_hz = fmax(b.highest_hz, spw->freq_hz[spw->n_chan - 1]);
        b.is_averaged |= groups[i].n_group < spw->n_chan;
        for (int32_t g = 0; g < groups[i].n_group; g++) {
            double width_hz = 0;
            for (int32_t c = groups[i].first[g]; c < groups[i].first[g + 1]; c++) width_hz += spw->width_hz[c];
            b.widest_hz = fmax(b.widest_hz, width_hz);
        }
    }
    return b;
}

static double averaging_time_s(const msi_average_time *t, double baseline_m)
{
    if (!(t->loss > 0)) return t->longest_s;
    const double turns_1s = msi_smearing_time_turns(baseline_m, t->radius_rad, 1, t->highest_hz);
    const double s = turns_1s > 0 ? msi_smearing_turns(t->loss) / turns_1s : INFINITY;
    return t->longest_s > 0 ? fmin(s, t->longest_s) : s;
}

int msi_smearing_report(const msi_ms_reader *r, const msi_channel_groups *groups, const msi_convert_options *o,
                        msi_average_time *time)
{
    const band b = find_band(r, groups);
    const double longest_m = msi_ms_reader_observation(r)->longest_baseline_m;
    char angle[MSI_FORMAT_SIZE], duration[MSI_FORMAT_SIZE];
    double radius_rad = o->smearing_radius_rad;
    *time = (msi_average_time){.longest_s = o->average_time_s, .loss = o->smearing_loss, .highest_hz = b.highest_hz};
    if (!b.is_averaged && !(o->average_time_s > 0) && !(o->smearing_loss > 0)) return MSI_OK;
    if (!(radius_rad > 0)) {
        const double dish_m = smallest_dish_m(o->shared.ms_paths[0]);
        if (dish_m > 0) radius_rad = fmin(0.5 * MSI_SPEED_OF_LIGHT / b.lowest_hz / dish_m, 0.5 * MSI_PI);
    }
    if (!(radius_rad > 0) && o->smearing_loss > 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: the antennas have no diameter; give -smearing-radius, the distance from the phase "
                             "centre for which the loss holds",
                             o->shared.ms_paths[0]);
    time->radius_rad = radius_rad;
    if (!(radius_rad > 0) || !(longest_m > 0)) return MSI_OK;
    msi_log_info("amplitude lost by averaging, %s from the phase centre, at most:",
                 msi_format_angle(angle, radius_rad));
    double baseline_m = longest_m;
    for (int i = 0; i < N_LENGTH; i++, baseline_m /= 2) {
        const double s = averaging_time_s(time, baseline_m);
        const double by_time = smearing_loss(msi_smearing_time_turns(baseline_m, radius_rad, s, b.highest_hz));
        const double by_band = smearing_loss(smearing_band_turns(baseline_m, radius_rad, b.widest_hz));
        char in_time[MSI_FORMAT_SIZE + 32] = "";
        if (s > 0)
            snprintf(in_time, sizeof in_time, "%6.3g %% by %s, ", 100 * by_time, msi_format_duration(duration, s));
        msi_log_info("  baselines of %8.6g m: %s%6.3g %% by channels of %.6g kHz", baseline_m, in_time, 100 * by_band,
                     1e-3 * b.widest_hz);
    }
    return MSI_OK;
}
