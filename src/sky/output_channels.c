/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/output_channels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* List the distinct frequencies of all spws, ascending; the caller frees *out. */
static int sorted_frequencies(const msi_ms_reader *reader, double **out, int64_t *n_out)
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

/* Return how many of n ascending values are less than a limit. */
static int64_t n_below(const double *value, int64_t n, double limit)
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

int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n)
{
    memset(out, 0, sizeof *out);
    double *freq;
    int64_t n_freq;
    MSI_TRY(sorted_frequencies(reader, &freq, &n_freq));
    int rc = MSI_OK;
    if (n > n_freq)
        rc = msi_error_set(MSI_EUSAGE, "-channels-out %lld: the selection has %lld frequencies", (long long)n,
                           (long long)n_freq);
    if (!rc) rc = msi_alloc(&out->edge_hz, n + 1, sizeof(double), "output channels");
    if (!rc) rc = msi_alloc(&out->low_hz, n, sizeof(double), "output channels");
    if (!rc) rc = msi_alloc(&out->high_hz, n, sizeof(double), "output channels");
    if (!rc) {
        out->n = n;
        for (int64_t i = 0; i < n; i++) {
            /* The first n_freq % n groups have one more. */
            int64_t extra = i < n_freq % n ? i : n_freq % n;
            out->edge_hz[i] = freq[i * (n_freq / n) + extra];
        }
        out->edge_hz[n] = HUGE_VAL;
        find_bands(out, reader);
    }
    msi_free(freq);
    if (rc) msi_output_channels_free(out);
    return rc;
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
    *first = (int32_t)n_below(freq_hz, n_chan, c->edge_hz[i]);
    *end = *first + (int32_t)n_below(freq_hz + *first, n_chan - *first, c->edge_hz[i + 1]);
}

void msi_output_channels_overlap(const msi_output_channels *c, const double *freq_hz, int32_t n_chan, int64_t *first,
                                 int64_t *end)
{
    /* A frequency belongs to the channel of the last edge that is not above it. */
    *end = n_below(c->edge_hz, c->n, nextafter(freq_hz[n_chan - 1], HUGE_VAL));
    *first = n_below(c->edge_hz, *end, nextafter(freq_hz[0], HUGE_VAL));
    if (*first > 0) --*first;
}
