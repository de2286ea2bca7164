/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Doppler shifts of a set: for each field, the ratio of frequencies in another frame to those in the data. Ratios are
 * computed at the beginning and the end of every minute with selected rows, and interpolated between. The velocity of
 * an antenna changes by at most 0.034 m/s^2 (on the equator), and the direction of this acceleration turns by 7.3e-5
 * rad/s. So within a minute the velocity differs from a straight line by 60^2 / 8 x 2.5e-6 m/s = 1.1 mm/s.
 */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_metadata.h"

static const double MINUTE_S = MSI_MS_MINUTE_S;
static const double CONVERSION_S = 1e-3; /* largest processor time of a conversion */

/* The motion of the Earth is known from MJD 0 to LAST_S. Times are clamped to +-MOST_S. */
static const double LAST_S = 150000 * 86400.0, MOST_S = 1e15;

int msi_ms_set_keep_minutes(msi_ms_set *set, const double *time_s, int64_t n)
{
    MSI_TRY(msi_alloc(&set->minute, n > 0 ? n : 1, sizeof *set->minute, "times"));
    set->n_minute = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t minute = (int64_t)floor(fmax(-MOST_S, fmin(time_s[i], MOST_S)) / MINUTE_S);
        if (!set->n_minute || minute != set->minute[set->n_minute - 1]) set->minute[set->n_minute++] = minute;
    }
    return MSI_OK;
}

/* Find the frame of the frequencies of all selected setups. */
static int find_frame(const msi_ms_set *set, const char **frame)
{
    *frame = NULL;
    for (int i = 0; i < set->n_setup; i++) {
        const msi_ms_setup *s = &set->setup[i];
        const char *of_setup = set->window[s->spw_id].frame;
        if (s->n_chan == 0) continue;
        if (*frame && strcmp(*frame, of_setup) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: spectral windows have frequencies in the frames %s and %s; select those of one "
                                 "frame with -spws",
                                 set->path, *frame, of_setup);
        *frame = of_setup;
    }
    if (!*frame || !**frame)
        return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: MEAS_FREQ_REF does not name the frame of the frequencies",
                             set->path);
    return MSI_OK;
}

/* Compute the ratios of a field. Given and returned: ratio [n_minute][2] */
static int find_ratios(const msi_ms_set *set, const char *from, const char *to, const ccc_observer *observer,
                       double *knot_s, double *at_knot, double *ratio)
{
    int64_t n = 0;
    for (int64_t m = 0; m < set->n_minute; m++) {
        const double begin_s = (double)set->minute[m] * MINUTE_S;
        if (!n || knot_s[n - 1] != begin_s) knot_s[n++] = begin_s;
        knot_s[n++] = begin_s + MINUTE_S;
    }
    msi_child_progress(MSI_CHILD_STEP_S + CONVERSION_S * (double)n);
    const int rc = ccc_frequency_ratios(from, to, observer, n, knot_s, at_knot);
    if (rc != CCC_OK)
        return msi_error_set(MSI_EINPUT, "%s: frequencies in %s cannot be converted to %s: %s", set->path, from, to,
                             ccc_error());
    for (int64_t m = 0, k = 0; m < set->n_minute; m++) {
        if (knot_s[k] != (double)set->minute[m] * MINUTE_S) k++;
        ratio[2 * m] = at_knot[k];
        ratio[2 * m + 1] = at_knot[++k];
    }
    return MSI_OK;
}

int msi_ms_set_find_doppler(msi_ms_set *set, const msi_observation *o, const char *to)
{
    const double *x = o->antenna_itrf_m;
    const char *from;
    double *knot_s = NULL, *at_knot = NULL;
    if (!set->n_row) return MSI_OK;
    MSI_TRY(find_frame(set, &from));
    if (x[0] == 0 && x[1] == 0 && x[2] == 0)
        return msi_error_set(MSI_EINPUT,
                             "%s/ANTENNA: POSITION does not give the place of the observatory, which the frame %s "
                             "needs; repair it",
                             set->path, to);
    for (int64_t m = 0; m < set->n_minute; m++)
        if (set->minute[m] < 0 || (double)set->minute[m] * MINUTE_S > LAST_S)
            return msi_error_set(MSI_EINPUT,
                                 "%s: TIME: %.6g s is not between the years 1858 and 2269, which the frame %s needs; "
                                 "repair it",
                                 set->path, (double)set->minute[m] * MINUTE_S, to);
    set->n_doppler = 0;
    for (int i = 0; i < set->n_field; i++)
        if (set->field[i].n_row > 0) set->field[i].doppler = set->n_doppler++;
    MSI_TRY(msi_alloc(&set->doppler, set->n_doppler * set->n_minute * 2, sizeof *set->doppler, "Doppler shifts"));
    int rc = msi_alloc(&knot_s, 2 * set->n_minute, sizeof *knot_s, "Doppler shifts");
    if (!rc) rc = msi_alloc(&at_knot, 2 * set->n_minute, sizeof *at_knot, "Doppler shifts");
    for (int i = 0; !rc && i < set->n_field; i++) {
        const msi_ms_field *f = &set->field[i];
        if (f->n_row <= 0) continue;
        const ccc_observer observer = {.time_scale = o->time_scale,
                                       .itrf_m = {x[0], x[1], x[2]},
                                       .direction_frame = f->frame,
                                       .lon_rad = f->ra_rad,
                                       .lat_rad = f->dec_rad};
        rc = find_ratios(set, from, to, &observer, knot_s, at_knot, set->doppler + f->doppler * set->n_minute * 2);
    }
    msi_free(knot_s);
    msi_free(at_knot);
    return rc;
}

int msi_ms_set_doppler_is_sound(const msi_ms_set *set)
{
    if (!set->n_doppler) return 1;
    for (int64_t m = 1; m < set->n_minute; m++)
        if (set->minute[m] <= set->minute[m - 1]) return 0;
    for (int i = 0; i < set->n_field; i++)
        if (set->field[i].n_row > 0 && (set->field[i].doppler < 0 || set->field[i].doppler >= set->n_doppler)) return 0;
    for (int64_t i = 0; i < set->n_doppler * set->n_minute * 2; i++)
        if (!(fabs(set->doppler[i] - 1) < 0.1)) return 0;
    return 1;
}
