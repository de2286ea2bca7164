/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The channels of each spectral setup are selected, in ascending order of frequency. */
#include "io/ms/ms_set.h"

#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/status.h"

typedef struct channel {
    double freq_hz, width_hz;
    int32_t index;
} channel;

static int compare_channels(const void *a, const void *b)
{
    const channel *x = a, *y = b;
    if (x->freq_hz != y->freq_hz) return x->freq_hz < y->freq_hz ? -1 : 1;
    return x->index - y->index;
}

static int in_ranges(const ccc_chan_range *ranges, int64_t n_range, int spw, int32_t index)
{
    if (n_range == 0) return 1;
    for (int64_t i = 0; i < n_range; i++) {
        const ccc_chan_range *r = &ranges[i];
        const int32_t step = r->step > 0 ? r->step : 1;
        if (r->spw_id == spw && index >= r->begin && index <= r->last && (index - r->begin) % step == 0) return 1;
    }
    return 0;
}

static int check_frequencies(const msi_ms_set *set, int spw)
{
    const msi_ms_window *w = &set->window[spw];
    if (w->n_chan < 1)
        return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: column CHAN_FREQ, row %d: has no channel", set->path,
                             spw);
    for (int32_t i = 0; i < w->n_chan; i++)
        if (!isfinite(w->freq_hz[i]) || w->freq_hz[i] <= 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s/SPECTRAL_WINDOW: column CHAN_FREQ, row %d: channel %d: %g Hz is not a frequency",
                                 set->path, spw, i, w->freq_hz[i]);
    return MSI_OK;
}

/* Fill the setup from its chosen channels, which ascend. */
static int store(msi_ms_setup *s, const channel *chosen, int32_t n)
{
    s->n_chan = n;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_alloc(&s->chan_index, n, sizeof *s->chan_index, "channels"));
    MSI_TRY(msi_alloc(&s->freq_hz, n, sizeof *s->freq_hz, "channels"));
    MSI_TRY(msi_alloc(&s->width_hz, n, sizeof *s->width_hz, "channels"));
    MSI_TRY(msi_alloc(&s->inverse_lambda2, n, sizeof *s->inverse_lambda2, "channels"));
    int32_t first = chosen[0].index, last = first;
    s->is_identity = 1;
    for (int32_t i = 0; i < n; i++) {
        s->chan_index[i] = chosen[i].index;
        s->freq_hz[i] = chosen[i].freq_hz;
        s->width_hz[i] = chosen[i].width_hz;
        s->inverse_lambda2[i] = pow(chosen[i].freq_hz / MSI_SPEED_OF_LIGHT, 2);
        if (chosen[i].index < first) first = chosen[i].index;
        if (chosen[i].index > last) last = chosen[i].index;
        if (chosen[i].index != chosen[0].index + i) s->is_identity = 0;
    }
    s->span_first = first;
    s->n_span = last - first + 1;
    s->block_rows = MSI_MS_BLOCK_SAMPLES / ((int64_t)s->n_corr * s->n_span);
    if (s->block_rows < 1) s->block_rows = 1;
    if (s->block_rows > MSI_MS_BLOCK_ROWS) s->block_rows = MSI_MS_BLOCK_ROWS;
    return MSI_OK;
}

/* Select the channels of one spectral window for every setup that uses it; *counted channels of others go before,
 * *n_selected were selected of them. */
static int select_window(msi_ms_set *set, const msi_ms_selection *selection, const ccc_chan_range *ranges,
                         int64_t n_range, int spw, int64_t *counted, int64_t *n_selected)
{
    const msi_ms_window *w = &set->window[spw];
    MSI_TRY(check_frequencies(set, spw));
    channel *all = NULL;
    MSI_TRY(msi_alloc(&all, w->n_chan, sizeof *all, "channels"));
    for (int32_t i = 0; i < w->n_chan; i++) all[i] = (channel){w->freq_hz[i], w->width_hz[i], i};
    qsort(all, (size_t)w->n_chan, sizeof *all, compare_channels);
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_chan; i++) {
        const int64_t number = *counted + i;
        if (selection->channel_end > 0 && (number < selection->channel_begin || number >= selection->channel_end))
            continue;
        if (in_ranges(ranges, n_range, spw, all[i].index)) all[n++] = all[i];
    }
    *counted += w->n_chan;
    *n_selected += n;
    int status = MSI_OK;
    for (int i = 0; i < set->n_setup && status == MSI_OK; i++)
        if (set->setup[i].spw_id == spw && set->setup[i].n_row > 0) status = store(&set->setup[i], all, n);
    msi_free(all);
    return status;
}

int msi_ms_channels_select(msi_ms_set *set, const msi_ms_selection *selection, const ccc_chan_range *ranges,
                           int64_t n_range)
{
    int64_t counted = 0, n_selected = 0;
    /* Windows count whether they have rows at the selected times or not: a channel has one number in all intervals. */
    for (int spw = 0; spw < set->n_window; spw++) {
        int in_use = 0;
        for (int i = 0; i < set->n_setup; i++) in_use |= set->setup[i].spw_id == spw && set->setup[i].is_used;
        if (in_use) MSI_TRY(select_window(set, selection, ranges, n_range, spw, &counted, &n_selected));
    }
    if (selection->channel_end > counted || (selection->channel_end > 0 && selection->channel_begin < 0))
        return msi_error_set(MSI_EINPUT, "%s: channels %lld to %lld (end exclusive) of %lld", set->path,
                             (long long)selection->channel_begin, (long long)selection->channel_end,
                             (long long)counted);
    if (n_selected == 0) return msi_error_set(MSI_EINPUT, "%s: no channel is selected", set->path);
    return MSI_OK;
}
