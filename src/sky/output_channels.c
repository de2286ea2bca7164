/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/output_channels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"

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
    int64_t at; /* index of the frequency above the gap */
} frequency_gap;

/* Order gaps from wide to narrow, and gaps of equal width from high to low frequency. */
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

/* ---- Planes of a cube in a frame ---- */

enum { MOST_PLANES = 1000000 };

/* velocity_hz - return the frequency of a line at a velocity, m/s. */
static double velocity_hz(msi_velocity velocity, double rest_hz, double m_s)
{
    const double beta = m_s / MSI_SPEED_OF_LIGHT;
    if (velocity == MSI_VELOCITY_RADIO) return rest_hz * (1 - beta);
    if (velocity == MSI_VELOCITY_OPTICAL) return rest_hz / (1 + beta);
    return rest_hz * sqrt((1 - beta) / (1 + beta));
}

/* hz_velocity - return the velocity of a frequency, m/s. */
static double hz_velocity(msi_velocity velocity, double rest_hz, double hz)
{
    const double q = hz / rest_hz;
    if (velocity == MSI_VELOCITY_RADIO) return MSI_SPEED_OF_LIGHT * (1 - q);
    if (velocity == MSI_VELOCITY_OPTICAL) return MSI_SPEED_OF_LIGHT * (1 / q - 1);
    return MSI_SPEED_OF_LIGHT * (1 - q * q) / (1 + q * q);
}

int msi_cube_request_is_made(const msi_cube_request *r)
{
    return r->start.unit || r->width.unit || r->n_plane || r->frame;
}

/* The band of the data, in the frame at the first time, and the Doppler shifts of all times. */
typedef struct band {
    double *freq_hz; /* [n] distinct, ascending, of the data */
    int64_t n;
    double width_hz;                  /* width of the narrowest channel of the data */
    double first, lowest, highest;    /* Doppler ratio at the first time, and its range over all times */
    double window_hz, window_step_hz; /* channel 0 of the first selected window, and the step to the next one */
} band;

/* Find the channels of the first selected window, also those that are not selected, from the selected ones. */
static void find_window(band *b, const msi_ms_spw *s)
{
    const int32_t last = s->n_chan - 1, n = s->chan_index[last] - s->chan_index[0];
    b->window_step_hz = n ? (s->freq_hz[last] - s->freq_hz[0]) / n : s->width_hz[0];
    b->window_hz = s->freq_hz[0] - s->chan_index[0] * b->window_step_hz;
}

static void find_shifts(band *b, const msi_ms_reader *reader)
{
    int64_t at = 0, n_row;
    int set, id;
    double ra, dec;
    b->lowest = INFINITY;
    b->highest = 0;
    while (msi_ms_reader_pointing(reader, &at, &set, &id, &ra, &dec, &n_row)) {
        const msi_ms_doppler d = msi_ms_reader_doppler(reader, set, id);
        if (!d.n_minute) continue;
        if (!(b->highest > 0)) b->first = msi_ms_doppler_at(&d, msi_ms_reader_observation(reader)->start_mjd_s);
        for (int64_t i = 0; i < 2 * d.n_minute; i++) {
            b->lowest = fmin(b->lowest, d.ratio[i]);
            b->highest = fmax(b->highest, d.ratio[i]);
        }
    }
    if (!(b->highest > 0)) b->first = b->lowest = b->highest = 1;
}

/* Convert a velocity to a frequency. The rest frequency of the line must be known. */
static int line_hz(const msi_cube_request *q, double rest_hz, double m_s, double *hz)
{
    if (!(rest_hz > 0))
        return msi_error_set(MSI_EINPUT,
                             "-cube-start and -cube-width: a velocity needs the rest frequency of the line, "
                             "which the set does not have; give -rest-frequency");
    if (!(fabs(m_s) < MSI_SPEED_OF_LIGHT))
        return msi_error_set(MSI_EINPUT, "-cube-start: a velocity of %.6g km/s is not below the speed of light",
                             1e-3 * m_s);
    *hz = velocity_hz(q->velocity, rest_hz, m_s);
    return MSI_OK;
}

/* Find the distance of planes; negative if frequencies decrease along the cube. */
static int find_step(const msi_cube_request *q, const band *b, double rest_hz, double *step_hz)
{
    const msi_spectral_value *w = &q->width, *s = &q->start;
    const double one = b->width_hz * b->first;
    double from = 0, to = 0, start_m_s;
    *step_hz = s->unit == MSI_SPECTRAL_M_S ? -one : one;
    if (w->unit == MSI_SPECTRAL_CHANNEL) *step_hz = w->value * one;
    if (w->unit == MSI_SPECTRAL_HZ) *step_hz = w->value;
    if (q->counts_in_window && w->unit <= MSI_SPECTRAL_CHANNEL && s->unit <= MSI_SPECTRAL_CHANNEL)
        *step_hz *= copysign(1, b->window_step_hz);
    if (w->unit == MSI_SPECTRAL_M_S) {
        MSI_TRY(line_hz(q, rest_hz, 0, &from));
        start_m_s =
            s->unit == MSI_SPECTRAL_M_S
                ? s->value
                : hz_velocity(q->velocity, rest_hz, s->unit == MSI_SPECTRAL_HZ ? s->value : b->freq_hz[0] * b->first);
        MSI_TRY(line_hz(q, rest_hz, start_m_s, &from));
        MSI_TRY(line_hz(q, rest_hz, start_m_s + w->value, &to));
        *step_hz = to - from;
    }
    if (*step_hz != 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "-cube-width: planes of width 0; give another width");
}

static int find_start(const msi_cube_request *q, const band *b, double rest_hz, double step_hz, double *start_hz)
{
    const msi_spectral_value *s = &q->start;
    if (s->unit == MSI_SPECTRAL_M_S) return line_hz(q, rest_hz, s->value, start_hz);
    if (s->unit == MSI_SPECTRAL_HZ) {
        *start_hz = s->value;
        return MSI_OK;
    }
    const int is_channel = s->unit == MSI_SPECTRAL_CHANNEL;
    const int64_t channel = is_channel ? (int64_t)s->value : step_hz < 0 ? b->n - 1 : 0;
    double channel_hz;
    if (is_channel && q->counts_in_window)
        channel_hz = b->window_hz + (double)channel * b->window_step_hz;
    else if (channel < 0 || channel >= b->n)
        return msi_error_set(MSI_EINPUT, "-cube-start %lld: the selection has the channels 0 to %lld",
                             (long long)channel, (long long)b->n - 1);
    else
        channel_hz = b->freq_hz[channel];
    const double one = b->width_hz * b->first;
    /* The first plane and the first channel have the same outer edge. */
    *start_hz = channel_hz * b->first + 0.5 * (step_hz - copysign(one, step_hz));
    return MSI_OK;
}

/* Count the planes to the end of the data. */
static int64_t count_to_end(const band *b, double start_hz, double step_hz)
{
    const double half = 0.5 * b->width_hz, low = (b->freq_hz[0] - half) * b->first,
                 high = (b->freq_hz[b->n - 1] + half) * b->first;
    const double left = step_hz > 0 ? high - (start_hz - 0.5 * step_hz) : start_hz - 0.5 * step_hz - low;
    const double n = floor(left / fabs(step_hz) + 1e-3);
    return n < 1 ? 1 : n > MOST_PLANES ? MOST_PLANES + 1 : (int64_t)n;
}

/* Refuse a grid whose planes are all outside the data; warn if some are. */
static int check_inside(const msi_channel_grid *g, const band *b)
{
    const double low = (b->freq_hz[0] - 0.5 * b->width_hz) * b->lowest,
                 high = (b->freq_hz[b->n - 1] + 0.5 * b->width_hz) * b->highest;
    int64_t n = 0;
    for (int64_t i = 0; i < g->n; i++) {
        const double centre = g->first_hz + (double)i * g->step_hz;
        n += centre + 0.5 * g->step_hz <= low || centre - 0.5 * g->step_hz >= high;
    }
    if (n == g->n)
        return msi_error_set(
            MSI_EINPUT,
            "-cube-start: planes from %.9g to %.9g MHz are outside the data, which are from %.9g to %.9g "
            "MHz in that frame",
            1e-6 * g->first_hz, 1e-6 * (g->first_hz + (double)(g->n - 1) * g->step_hz), 1e-6 * low, 1e-6 * high);
    if (n)
        msi_log_warning("%lld plane%s of the cube %s outside the data: NaN", (long long)n, msi_plural(n),
                        n == 1 ? "is" : "are");
    return MSI_OK;
}

static int make_grid(msi_channel_grid *g, const msi_cube_request *q, const band *b, double rest_hz)
{
    double start_hz = 0, step_hz = 0;
    MSI_TRY(find_step(q, b, rest_hz, &step_hz));
    MSI_TRY(find_start(q, b, rest_hz, step_hz, &start_hz));
    const int64_t n = q->n_plane ? q->n_plane : count_to_end(b, start_hz, step_hz);
    if (n > MOST_PLANES)
        return msi_error_set(MSI_EINPUT, "-cube-width: more than %d planes; give a wider one, or -cube-nchan",
                             (int)MOST_PLANES);
    const double last_hz = start_hz + (double)(n - 1) * step_hz;
    if (!(fmin(start_hz, last_hz) > 0))
        return msi_error_set(MSI_EINPUT, "-cube-nchan %lld: planes go down to %.6g MHz; give fewer", (long long)n,
                             1e-6 * fmin(start_hz, last_hz));
    *g = (msi_channel_grid){.n = n,
                            .first_hz = fmin(start_hz, last_hz),
                            .step_hz = fabs(step_hz),
                            .descends = step_hz < 0,
                            .data_width_hz = b->width_hz,
                            .lowest_ratio = b->lowest,
                            .highest_ratio = b->highest,
                            .first_ratio = b->first,
                            .interpolation = q->interpolation};
    const double parts = g->step_hz / (b->width_hz * b->first);
    g->n_part = q->interpolation == MSI_CHANNEL_NEAREST || parts < 1.5 ? 1 : (int)lround(fmin(parts, 1e6));
    return check_inside(g, b);
}

int msi_cube_grid_make(msi_channel_grid *grid, const msi_cube_request *q, const msi_ms_reader *reader)
{
    const double of_source = msi_ms_reader_observation(reader)->rest_freq_hz;
    band b = {.width_hz = INFINITY};
    MSI_TRY(msi_output_channels_frequencies(reader, &b.freq_hz, &b.n));
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        for (int32_t c = 0; c < s->n_chan; c++)
            if (s->width_hz[c] > 0) b.width_hz = fmin(b.width_hz, s->width_hz[c]);
    }
    find_shifts(&b, reader);
    if (msi_ms_reader_n_spw(reader)) find_window(&b, msi_ms_reader_spw(reader, 0));
    int rc =
        isfinite(b.width_hz) ? MSI_OK : msi_error_set(MSI_EINPUT, "SPECTRAL_WINDOW: CHAN_WIDTH is 0 for all channels");
    if (!rc) rc = make_grid(grid, q, &b, q->rest_hz > 0 ? q->rest_hz : of_source);
    msi_free(b.freq_hz);
    return rc;
}
