/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/cube_grid.h"

#include <math.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"

enum { MOST_PLANES = 1000000 };

double msi_velocity_hz(msi_velocity velocity, double rest_hz, double m_s)
{
    const double beta = m_s / MSI_SPEED_OF_LIGHT;
    if (velocity == MSI_VELOCITY_RADIO) return rest_hz * (1 - beta);
    if (velocity == MSI_VELOCITY_OPTICAL) return rest_hz / (1 + beta);
    return rest_hz * sqrt((1 - beta) / (1 + beta));
}

double msi_hz_velocity(msi_velocity velocity, double rest_hz, double hz)
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
    double width_hz;               /* width of the narrowest channel of the data */
    double first, lowest, highest; /* ratios of frequencies: at the first time, and over all */
} band;

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

/* Convert a velocity to a frequency, for a line that must be known. */
static int line_hz(const msi_cube_request *q, double rest_hz, double m_s, double *hz)
{
    if (!(rest_hz > 0))
        return msi_error_set(MSI_EINPUT,
                             "-cube-start and -cube-width: a velocity needs the rest frequency of the line, "
                             "which the set does not have; give -rest-frequency");
    if (!(fabs(m_s) < MSI_SPEED_OF_LIGHT))
        return msi_error_set(MSI_EINPUT, "-cube-start: a velocity of %.6g km/s is not below that of light", 1e-3 * m_s);
    *hz = msi_velocity_hz(q->velocity, rest_hz, m_s);
    return MSI_OK;
}

/* Find the distance of planes; it has the sign of the order of the cube. */
static int find_step(const msi_cube_request *q, const band *b, double rest_hz, double *step_hz)
{
    const msi_spectral_value *w = &q->width, *s = &q->start;
    const double one = b->width_hz * b->first;
    double from = 0, to = 0, start_m_s;
    *step_hz = s->unit == MSI_SPECTRAL_M_S ? -one : one;
    if (w->unit == MSI_SPECTRAL_CHANNEL) *step_hz = w->value * one;
    if (w->unit == MSI_SPECTRAL_HZ) *step_hz = w->value;
    if (w->unit == MSI_SPECTRAL_M_S) {
        MSI_TRY(line_hz(q, rest_hz, 0, &from));
        start_m_s = s->unit == MSI_SPECTRAL_M_S
                        ? s->value
                        : msi_hz_velocity(q->velocity, rest_hz,
                                          s->unit == MSI_SPECTRAL_HZ ? s->value : b->freq_hz[0] * b->first);
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
    const int64_t channel = s->unit == MSI_SPECTRAL_CHANNEL ? (int64_t)s->value : step_hz < 0 ? b->n - 1 : 0;
    if (channel < 0 || channel >= b->n)
        return msi_error_set(MSI_EINPUT, "-cube-start %lld: the selection has the channels 0 to %lld",
                             (long long)channel, (long long)b->n - 1);
    const double one = b->width_hz * b->first;
    /* The first channel has the same edge as the first plane. */
    *start_hz = b->freq_hz[channel] * b->first + 0.5 * (step_hz - copysign(one, step_hz));
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

/* Refuse planes that are all outside the data, and warn of those that are. */
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
    if (n) msi_log_warning("planes outside the data: %lld of %lld; they are NaN", (long long)n, (long long)g->n);
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
    int rc =
        isfinite(b.width_hz) ? MSI_OK : msi_error_set(MSI_EINPUT, "SPECTRAL_WINDOW: CHAN_WIDTH is 0 for all channels");
    if (!rc) rc = make_grid(grid, q, &b, q->rest_hz > 0 ? q->rest_hz : of_source);
    msi_free(b.freq_hz);
    return rc;
}
