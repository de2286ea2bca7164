/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/output_channels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int msi_output_channels_frequencies(const msi_ms_reader *reader, double **out, int64_t *n_out)
{
    int64_t n = 0, unique = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) n += msi_ms_reader_spw(reader, i)->n_chan;
    double *freq;
    MSI_TRY(msi_alloc(&freq, n, sizeof *freq, "list of frequencies"));
    n = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, i);
        memcpy(freq + n, spw->freq_hz, sizeof *freq * (size_t)spw->n_chan);
        n += spw->n_chan;
    }
    qsort(freq, (size_t)n, sizeof *freq, compare_values);
    for (int64_t i = 0; i < n; i++)
        if (!unique || freq[i] != freq[unique - 1]) freq[unique++] = freq[i];
    *out = freq;
    *n_out = unique;
    return MSI_OK;
}

int64_t msi_n_below(const double *value, int64_t n, double limit)
{
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (value[middle] < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Set the band of each output channel, from the lower edge of its lowest channel to the upper edge of its highest. */
static void find_bands(msi_output_channels *c, const msi_ms_reader *reader)
{
    for (int64_t i = 0; i < c->n; i++) {
        c->low_hz[i] = HUGE_VAL;
        c->high_hz[i] = -HUGE_VAL;
    }
    for (int s = 0; s < msi_ms_reader_n_spw(reader); s++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, s);
        int64_t begin, stop;
        msi_output_channels_overlap(c, spw->freq_hz, spw->n_chan, &begin, &stop);
        for (int64_t i = begin; i < stop; i++) {
            int32_t first, end;
            msi_output_channels_range(c, i, spw->freq_hz, spw->n_chan, &first, &end);
            for (int32_t k = first; k < end; k++) {
                c->low_hz[i] = fmin(c->low_hz[i], spw->freq_hz[k] - 0.5 * spw->width_hz[k]);
                c->high_hz[i] = fmax(c->high_hz[i], spw->freq_hz[k] + 0.5 * spw->width_hz[k]);
            }
        }
    }
}

/* A gap between neighbouring frequencies. */
typedef struct frequency_gap {
    double width_hz;
    int64_t at; /* index of the frequency above it */
} frequency_gap;

/* Order gaps from wide to narrow; of equal ones the higher first. */
static int compare_gaps(const void *a, const void *b)
{
    const frequency_gap *x = a, *y = b;
    if (x->width_hz != y->width_hz) return x->width_hz < y->width_hz ? 1 : -1;
    return (x->at < y->at) - (x->at > y->at);
}

/* Divide n_freq frequencies into n groups at the widest gaps. Returned: edge_hz [n] */
static int divide_by_gaps(double *edge_hz, int64_t n, const double *freq, int64_t n_freq)
{
    frequency_gap *gap;
    MSI_TRY(msi_alloc(&gap, n_freq, sizeof *gap, "output channels"));
    for (int64_t i = 1; i < n_freq; i++) gap[i - 1] = (frequency_gap){freq[i] - freq[i - 1], i};
    qsort(gap, (size_t)n_freq - 1, sizeof *gap, compare_gaps);
    edge_hz[0] = freq[0];
    for (int64_t i = 1; i < n; i++) edge_hz[i] = freq[gap[i - 1].at];
    qsort(edge_hz, (size_t)n, sizeof *edge_hz, compare_values);
    msi_free(gap);
    return MSI_OK;
}

/* Write the limits of part k of a division, such as "below 900 MHz". */
static const char *part_words(char *text, size_t size, const msi_channel_division *d, int64_t k)
{
    const double mhz = 1e-6;
    if (k == 0)
        snprintf(text, size, "below %.10g MHz", mhz * d->split_hz[0]);
    else if (k == d->n_split)
        snprintf(text, size, "at %.10g MHz or more", mhz * d->split_hz[k - 1]);
    else
        snprintf(text, size, "from %.10g to %.10g MHz", mhz * d->split_hz[k - 1], mhz * d->split_hz[k]);
    return text;
}

static int check_part(const msi_channel_division *d, int64_t k, int64_t n, int64_t n_freq)
{
    char words[96];
    if (!n_freq)
        return msi_error_set(MSI_EINPUT,
                             "-channel-division-frequencies: the selection has no channel %s; give "
                             "frequencies inside the band",
                             part_words(words, sizeof words, d, k));
    if (n > n_freq && !d->n_split)
        return msi_error_set(MSI_EUSAGE,
                             "-channels-out %lld: the selection has %lld frequenc%s; give at most that number",
                             (long long)n, (long long)n_freq, n_freq == 1 ? "y" : "ies");
    if (n > n_freq)
        return msi_error_set(
            MSI_EUSAGE,
            "-channels-out needs %lld channels %s, but the selection has %lld frequenc%s there; give fewer "
            "channels or other frequencies",
            (long long)n, part_words(words, sizeof words, d, k), (long long)n_freq, n_freq == 1 ? "y" : "ies");
    return MSI_OK;
}

/* Set the edges of all output channels. */
static int find_edges(msi_output_channels *out, const double *freq, int64_t n_freq, const msi_channel_division *d)
{
    const int64_t n_part = d->n_split + 1;
    for (int64_t k = 0; k < n_part; k++) {
        const int64_t begin = k ? msi_n_below(freq, n_freq, d->split_hz[k - 1]) : 0;
        const int64_t end = k < d->n_split ? msi_n_below(freq, n_freq, d->split_hz[k]) : n_freq, size = end - begin;
        const int64_t first = out->n * k / n_part, n = out->n * (k + 1) / n_part - first;
        MSI_TRY(check_part(d, k, n, size));
        if (d->by_gaps) MSI_TRY(divide_by_gaps(out->edge_hz + first, n, freq + begin, size));
        for (int64_t i = 0; i < n && !d->by_gaps; i++) out->edge_hz[first + i] = freq[begin + i * size / n];
    }
    out->edge_hz[out->n] = HUGE_VAL;
    return MSI_OK;
}

/* Allocate the frequencies of out->n channels. */
static int alloc_edges(msi_output_channels *out)
{
    MSI_TRY(msi_alloc(&out->edge_hz, out->n + 1, sizeof(double), "output channels"));
    MSI_TRY(msi_alloc(&out->low_hz, out->n, sizeof(double), "output channels"));
    return msi_alloc(&out->high_hz, out->n, sizeof(double), "output channels");
}

int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n,
                             const msi_channel_division *division)
{
    *out = (msi_output_channels){.n = n};
    double *freq;
    int64_t n_freq;
    MSI_TRY(msi_output_channels_frequencies(reader, &freq, &n_freq));
    int rc = alloc_edges(out);
    if (!rc) rc = find_edges(out, freq, n_freq, division);
    if (!rc) find_bands(out, reader);
    msi_free(freq);
    if (rc) msi_output_channels_free(out);
    return rc;
}

int msi_output_channels_regular(msi_output_channels *out, const msi_channel_grid *g)
{
    *out = (msi_output_channels){.n = g->n, .grid = *g};
    int rc = alloc_edges(out);
    for (int64_t i = 0; !rc && i <= g->n; i++) {
        out->edge_hz[i] = g->first_hz + ((double)i - 0.5) * g->step_hz;
        if (i < g->n) out->low_hz[i] = out->edge_hz[i];
        if (i > 0) out->high_hz[i - 1] = out->edge_hz[i];
    }
    if (rc) msi_output_channels_free(out);
    return rc;
}

int msi_output_channels_axis(const msi_output_channels *c, double *first_hz, double *step_hz)
{
    static const double MAX_OFFSET_STEPS = 1e-2; /* frequencies in sets are rounded */
    const double first = 0.5 * (c->low_hz[0] + c->high_hz[0]),
                 last = 0.5 * (c->low_hz[c->n - 1] + c->high_hz[c->n - 1]);
    *first_hz = first;
    *step_hz = c->n > 1 ? (last - first) / (double)(c->n - 1) : c->high_hz[0] - c->low_hz[0];
    for (int64_t i = 1; i + 1 < c->n; i++) {
        const double centre = 0.5 * (c->low_hz[i] + c->high_hz[i]), on_axis = first + (double)i * *step_hz;
        if (fabs(centre - on_axis) > MAX_OFFSET_STEPS * *step_hz)
            return msi_error_set(
                MSI_EINPUT,
                "-cube: channel %lld is at %.9g MHz, but with evenly spaced planes it would be at %.9g "
                "MHz; select one spectral window with -spws, or give a -channels-out that divides its "
                "channels evenly",
                (long long)i, 1e-6 * centre, 1e-6 * on_axis);
    }
    return MSI_OK;
}

void msi_output_channels_free(msi_output_channels *c)
{
    msi_free(c->edge_hz);
    msi_free(c->low_hz);
    msi_free(c->high_hz);
    memset(c, 0, sizeof *c);
}

void msi_output_channels_range(const msi_output_channels *c, int64_t i, const double *freq_hz, int32_t n_chan,
                               int32_t *first, int32_t *end)
{
    *first = (int32_t)msi_n_below(freq_hz, n_chan, c->edge_hz[i]);
    *end = *first + (int32_t)msi_n_below(freq_hz + *first, n_chan - *first, c->edge_hz[i + 1]);
}

void msi_output_channels_overlap(const msi_output_channels *c, const double *freq_hz, int32_t n_chan, int64_t *first,
                                 int64_t *end)
{
    /* A frequency belongs to the channel of the last edge that is not above it. */
    *end = msi_n_below(c->edge_hz, c->n, nextafter(freq_hz[n_chan - 1], HUGE_VAL));
    *first = msi_n_below(c->edge_hz, *end, nextafter(freq_hz[0], HUGE_VAL));
    if (*first > 0) --*first;
}
