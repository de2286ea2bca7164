/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/convert/uvfits_header.h"
#include "io/ms/ms_block.h"

/* So much of a channel may the last one lie off the place that the first one and the step of all windows give it. */
static const double SAME_CHANNEL = 0.01;

/* ---- Windows ---- */

static double step_of(const msi_ms_spw *w)
{
    return w->n_chan > 1 ? (w->freq_hz[w->n_chan - 1] - w->freq_hz[0]) / (w->n_chan - 1) : w->width_hz[0];
}

static int check_spacing(const msi_ms_spw *w, const char *name)
{
    const double step_hz = step_of(w);
    for (int32_t c = 1; c < w->n_chan; c++)
        if (!(fabs(w->freq_hz[0] + c * step_hz - w->freq_hz[c]) <= SAME_CHANNEL * step_hz))
            return msi_error_set(
                MSI_EINPUT,
                "%s: the channels of window %d are not evenly spaced, and UVFITS has one step for all; "
                "-channel-range chooses some that are, and -average-channels should divide them",
                name, w->spw_id);
    return MSI_OK;
}

static int check_shape(const msi_uvfits_layout *l, const msi_ms_spw *w, const char *name)
{
    const msi_ms_spw *first = l->window[0];
    const char *frame = l->reader->set[0].window[w->spw_id].frame;
    if (w->n_chan != first->n_chan || !(fabs(step_of(w) - l->step_hz) * w->n_chan <= SAME_CHANNEL * l->step_hz))
        return msi_error_set(
            MSI_EINPUT,
            "%s: UVFITS holds windows of one shape: window %d has %d channels %.9g Hz apart, window %d "
            "%d of %.9g Hz; -spws chooses",
            name, first->spw_id, first->n_chan, l->step_hz, w->spw_id, w->n_chan, step_of(w));
    if (strcmp(frame, l->reader->set[0].window[first->spw_id].frame) != 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: UVFITS holds frequencies of one frame: window %d is in another; -spws chooses", name,
                             w->spw_id);
    if (w->n_corr != first->n_corr || memcmp(w->corr, first->corr, (size_t)w->n_corr * sizeof *w->corr) != 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: UVFITS holds windows of the same correlations: window %d has others than window %d; "
                             "-spws chooses",
                             name, w->spw_id, first->spw_id);
    return MSI_OK;
}

static int lay_windows(msi_uvfits_layout *l, const char *name)
{
    const msi_ms_set *set = &l->reader->set[0];
    MSI_TRY(msi_alloc(&l->window, l->reader->n_spw, sizeof *l->window, "windows"));
    MSI_TRY(msi_alloc(&l->place, set->n_setup, sizeof *l->place, "windows"));
    for (int i = 0; i < set->n_setup; i++) l->place[i] = -1;
    for (int i = 0; i < l->reader->n_spw; i++) {
        const msi_ms_spw *w = &l->reader->spw[i];
        if (l->n_window == 0) l->step_hz = step_of(w);
        l->place[w->data_desc_id] = l->n_window;
        l->window[l->n_window++] = w;
        MSI_TRY(check_spacing(w, name));
        MSI_TRY(check_shape(l, w, name));
    }
    l->n_chan = l->window[0]->n_chan;
    l->n_corr = l->window[0]->n_corr;
    return MSI_OK;
}

/* ---- Correlations ---- */

static int code_of(msi_pol pol)
{
    static const int codes[] = {[MSI_POL_I] = 1,   [MSI_POL_Q] = 2,   [MSI_POL_U] = 3,   [MSI_POL_V] = 4,
                                [MSI_POL_RR] = -1, [MSI_POL_LL] = -2, [MSI_POL_RL] = -3, [MSI_POL_LR] = -4,
                                [MSI_POL_XX] = -5, [MSI_POL_YY] = -6, [MSI_POL_XY] = -7, [MSI_POL_YX] = -8};
    return codes[pol];
}

/* Put correlations in the order of their codes, which has to be a series. */
static int lay_correlations(msi_uvfits_layout *l, const char *name)
{
    const msi_pol *corr = l->window[0]->corr;
    for (int i = 0; i < l->n_corr; i++) {
        int k = i;
        for (; k > 0 && abs(code_of(corr[l->order[k - 1]])) > abs(code_of(corr[i])); k--) l->order[k] = l->order[k - 1];
        l->order[k] = i;
    }
    l->stokes_first = code_of(corr[l->order[0]]);
    l->stokes_step = l->n_corr > 1 ? code_of(corr[l->order[1]]) - l->stokes_first : l->stokes_first > 0 ? 1 : -1;
    for (int i = 1; i < l->n_corr; i++)
        if (l->stokes_step == 0 || code_of(corr[l->order[i]]) != l->stokes_first + i * l->stokes_step)
            return msi_error_set(
                MSI_EINPUT,
                "%s: UVFITS numbers correlations in even steps (RR LL RL LR, XX YY XY YX, I Q U V), and "
                "these have none",
                name);
    return MSI_OK;
}

/* ---- Frames ---- */

static int check_frames(const msi_uvfits_layout *l, const char *name)
{
    static const char *const frames[] = {"J2000", "ICRS", "FK5", "B1950"};
    const msi_ms_set *set = &l->reader->set[0];
    const char *scale = l->reader->observation.time_scale;
    for (int i = 0; i < set->n_field; i++) {
        size_t k = 0;
        while (k < sizeof frames / sizeof *frames && strcmp(set->field[i].frame, frames[k]) != 0) k++;
        if (k == sizeof frames / sizeof *frames || strcmp(set->field[i].frame, set->field[0].frame) != 0)
            return msi_error_set(
                MSI_EINPUT, "%s: UVFITS holds phase centres of J2000 or B1950, all of one: that of field %d is in %s",
                name, i, set->field[i].frame);
    }
    if (strcmp(scale, "UTC") != 0 && strcmp(scale, "TAI") != 0 && strcmp(scale, "IAT") != 0)
        return msi_error_set(MSI_EINPUT, "%s: UVFITS holds times of UTC or TAI; these are %s", name, scale);
    return MSI_OK;
}

int msi_uvfits_layout_make(msi_uvfits_layout *l, const msi_ms_reader *reader, const char *name)
{
    *l = (msi_uvfits_layout){.reader = reader};
    l->n_antenna = (int32_t)reader->set[0].n_antenna;
    l->n_field = reader->set[0].n_field;
    l->day_mjd = floor(reader->observation.start_mjd_s / 86400);
    MSI_TRY(lay_windows(l, name));
    MSI_TRY(lay_correlations(l, name));
    return check_frames(l, name);
}

int msi_uvfits_has_wide_antennas(const msi_uvfits_layout *l)
{
    return l->n_antenna > 255;
}

int msi_uvfits_n_parameter(const msi_uvfits_layout *l)
{
    /* u v w, two dates, antennas, FREQSEL, INTTIM, SOURCE */
    return 7 + (msi_uvfits_has_wide_antennas(l) ? 3 : 1) + (l->n_field > 1);
}

int64_t msi_uvfits_group_bytes(const msi_uvfits_layout *l)
{
    return 4 * (msi_uvfits_n_parameter(l) + 3 * (int64_t)l->n_corr * l->n_chan * l->n_window);
}

void msi_uvfits_layout_free(msi_uvfits_layout *l)
{
    msi_free(l->window);
    msi_free(l->place);
    *l = (msi_uvfits_layout){0};
}
