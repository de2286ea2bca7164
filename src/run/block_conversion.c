/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/block_conversion.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/sky/phase_shift.h"

/* ---- Planes of a cube in another frame of frequencies: LSRK, BARY .. ---- */

/* Return the frequency in the frame of interpolated value `part` of a plane: part 0 .. n_part - 1. */
static inline double framed_part_hz(const msi_channel_grid *g, int64_t plane, int part)
{
    const double centre = g->first_hz + (double)plane * g->step_hz;
    return centre + ((double)part - 0.5 * (double)(g->n_part - 1)) * g->step_hz / (double)g->n_part;
}

/* One row of a block, for one image plane. */
typedef struct framed_row {
    const msi_c64 *vis;  /* [n_chan] */
    const float *weight; /* [n_chan] 0: flagged */
    double ratio;        /* frequency in the frame over frequency in the data, at the time of the row */
} framed_row;

/* No value is interpolated between neighbouring channels that are further apart than this, in channel widths. */
static const double GAP = 1.5;

/* Tolerance for the rounding of frequencies, in channel widths: a value on the edge of the band belongs to the band. */
static const double EDGE = 1e-6;

/* Return the number of channels of a block below a frequency. */
static int32_t count_below(const msi_framed_block *b, double limit_hz)
{
    return (int32_t)msi_n_below(b->freq_hz, b->n_chan, limit_hz);
}

/* Describe a block whose rows have ratios from `lowest` to `highest`. */
static msi_framed_block framed_block_make(const msi_channel_grid *grid, const double *freq_hz, int32_t n_chan,
                                          double lowest, double highest)
{
    double width = INFINITY;
    for (int32_t k = 1; k < n_chan; k++)
        if (freq_hz[k] > freq_hz[k - 1]) width = fmin(width, freq_hz[k] - freq_hz[k - 1]);
    if (!isfinite(width)) width = grid->data_width_hz;
    return (msi_framed_block){grid, freq_hz, n_chan, width, lowest, highest};
}

/* Return the half width in which a channel contributes to a plane: half of the wider of plane and channel. */
static double half_plane(const msi_framed_block *b)
{
    return 0.5 * fmax(b->grid->step_hz, b->width_hz * b->highest);
}

/* Find the planes [*first, *end) that may have samples of the block. */
static void framed_planes(const msi_framed_block *b, int64_t *first, int64_t *end)
{
    const msi_channel_grid *g = b->grid;
    const double reach = half_plane(b) * (1 + EDGE);
    const double low = (b->freq_hz[0] * b->lowest - reach - g->first_hz) / g->step_hz,
                 high = (b->freq_hz[b->n_chan - 1] * b->highest + reach - g->first_hz) / g->step_hz;
    *first = low > 0 ? (int64_t)fmin(ceil(low), (double)g->n) : 0;
    *end = high < 0 ? 0 : (int64_t)fmin(floor(high) + 1, (double)g->n);
    if (*end < *first) *end = *first;
}

/*
 * Find the samples of a plane. With MSI_CHANNEL_NEAREST they are channels [*first, *first + n) of the block; a row uses
 * some of them, according to its ratio. Otherwise they are the plane's interpolated values, n = grid->n_part, *first =
 * 0.
 * Returns: n; 0 if the plane has no sample
 */
static int32_t framed_range(const msi_framed_block *b, int64_t plane, int32_t *first)
{
    const msi_channel_grid *g = b->grid;
    const double centre = g->first_hz + (double)plane * g->step_hz, reach = half_plane(b) * (1 + EDGE);
    const int32_t begin = count_below(b, (centre - reach) / b->highest),
                  end = count_below(b, (centre + reach) / b->lowest);
    const int is_nearest = g->interpolation == MSI_CHANNEL_NEAREST;
    *first = is_nearest ? begin : 0;
    return end <= begin ? 0 : is_nearest ? end - begin : g->n_part;
}

/* Return the channel that contains a frequency; -1 if there is none. */
static int32_t channel_containing(const msi_framed_block *b, double hz)
{
    const int32_t above = count_below(b, hz);
    int32_t k = above == b->n_chan ? above - 1 : above;
    if (k > 0 && hz - b->freq_hz[k - 1] < b->freq_hz[k] - hz) k--;
    return fabs(hz - b->freq_hz[k]) <= (0.5 + EDGE) * b->width_hz ? k : -1;
}

/* Copy the samples of a row, and set the weights of channels that do not belong to the plane to 0. A plane that is
 * narrower than a channel takes the channel that contains its centre; another takes all channels centred in it. */
static void select_nearest(const msi_framed_block *b, const framed_row *row, int64_t plane, int32_t first, int32_t n,
                           msi_c64 *vis, float *weight)
{
    const msi_channel_grid *g = b->grid;
    const double centre = g->first_hz + (double)plane * g->step_hz;
    int32_t begin, end;
    if (g->step_hz < b->width_hz * (1 - EDGE)) {
        begin = channel_containing(b, centre / row->ratio);
        end = begin + (begin >= 0);
    } else {
        begin = count_below(b, (centre - 0.5 * g->step_hz) / row->ratio);
        end = count_below(b, (centre + 0.5 * g->step_hz) / row->ratio);
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t k = first + i;
        const int is_in = k >= begin && k < end;
        vis[i] = row->vis[k];
        weight[i] = is_in ? row->weight[k] : 0;
    }
}

/* Interpolate by the polynomial through channels k - 1 to k + 2. Returns 0 if one of them is missing or flagged. */
static int interpolate_cubic(const msi_framed_block *b, const framed_row *row, int32_t k, double hz, msi_c64 *vis)
{
    msi_c64 sum = {0, 0};
    if (k < 1 || k + 2 >= b->n_chan) return 0;
    for (int32_t i = k - 1; i <= k + 2; i++) {
        double factor = 1;
        if (!(row->weight[i] > 0) || (i > k - 1 && b->freq_hz[i] - b->freq_hz[i - 1] > GAP * b->width_hz)) return 0;
        for (int32_t j = k - 1; j <= k + 2; j++)
            if (j != i) factor *= (hz - b->freq_hz[j]) / (b->freq_hz[i] - b->freq_hz[j]);
        sum.re += factor * row->vis[i].re;
        sum.im += factor * row->vis[i].im;
    }
    *vis = sum;
    return 1;
}

/* Interpolate a row at a frequency of the data. The weight is 0 if a channel that is needed is flagged. Next to a gap
 * or an edge of the band, copy the channel that contains the frequency. */
static void interpolate(const msi_framed_block *b, const framed_row *row, double hz, msi_c64 *vis, float *weight)
{
    const int32_t above = count_below(b, hz), k = above - 1;
    *vis = (msi_c64){0, 0};
    *weight = 0;
    if (above == 0 || above == b->n_chan || b->freq_hz[above] - b->freq_hz[k] > GAP * b->width_hz) {
        const int32_t alone = channel_containing(b, hz);
        if (alone < 0) return;
        *vis = row->vis[alone];
        *weight = row->weight[alone];
        return;
    }
    const double part = (hz - b->freq_hz[k]) / (b->freq_hz[above] - b->freq_hz[k]);
    const int is_at_k = part<EDGE, is_at_above = part> 1 - EDGE;
    if ((!is_at_above && !(row->weight[k] > 0)) || (!is_at_k && !(row->weight[above] > 0))) return;
    if (b->grid->interpolation != MSI_CHANNEL_CUBIC || is_at_k || is_at_above ||
        !interpolate_cubic(b, row, k, hz, vis)) {
        vis->re = (is_at_above ? 0 : (1 - part) * row->vis[k].re) + (is_at_k ? 0 : part * row->vis[above].re);
        vis->im = (is_at_above ? 0 : (1 - part) * row->vis[k].im) + (is_at_k ? 0 : part * row->vis[above].im);
    }
    *weight = (float)((1 - part) * (double)row->weight[k] + part * (double)row->weight[above]);
}

/*
 * Make the samples of a row for a plane of the cube.
 * Given:    first, n  from framed_range
 * Returned: vis, weight [n]; the weight is 0 where the row has no sample. Interpolated values are for the frequencies
 *           of framed_part_hz, and their uvw must be divided by the row's ratio. With MSI_CHANNEL_NEAREST, frequencies
 *           and uvw of the block apply
 */
static void framed_convert(const msi_framed_block *b, const framed_row *row, int64_t plane, int32_t first, int32_t n,
                           msi_c64 *vis, float *weight)
{
    if (b->grid->interpolation == MSI_CHANNEL_NEAREST) {
        select_nearest(b, row, plane, first, n, vis, weight);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        interpolate(b, row, framed_part_hz(b->grid, plane, i) / row->ratio, &vis[i], &weight[i]);
}

/* Samples of all planes that are converted at a time, in whole rows. They fit in the second-level cache, and give each
 * channel enough rows in sequence for streaming access. */
enum { PIECE_SAMPLES = 16384 };

/* The same, if the samples are also read piece by piece and share the cache. */
enum { FILLED_SAMPLES = 4096 };

/* The samples of an output channel in a converted block. They follow those of the previous output channel. */
typedef struct place {
    int64_t channel;
    int32_t first, n_chan;
    int64_t n_value; /* values of all planes */
    int64_t vis_at, weight_at;
} place;

struct msi_block_converter {
    msi_reader_conversion conversion;
    msi_block_workspace workspace; /* for one piece */
    int64_t n_place_allocated;
    place *place;              /* places of the current block */
    msi_block_workspace parts; /* for one row of a plane in another frame */
    msi_continuum_buffer line; /* continuum of one row */
};

/* ---- Buffers ---- */

/* Enlarge an array. Given: array  address of its pointer; size  of an element */
static int fit_array(void *array, int64_t *n_held, int64_t n, size_t size)
{
    void *old;
    if (n <= *n_held) return MSI_OK;
    memcpy(&old, array, sizeof old);
    msi_free(old);
    *n_held = 0;
    MSI_TRY(msi_alloc(array, n, size, "block of visibilities"));
    *n_held = n;
    return MSI_OK;
}

int msi_block_workspace_fit(msi_block_workspace *w, int64_t n_row, int64_t n_vis, int64_t n_weight)
{
    MSI_TRY(fit_array(&w->uvw_m, &w->n_row, n_row, 3 * sizeof *w->uvw_m));
    MSI_TRY(fit_array(&w->vis, &w->n_vis, n_vis, sizeof *w->vis));
    return fit_array(&w->weight, &w->n_weight, n_weight, sizeof *w->weight);
}

void msi_block_workspace_free(msi_block_workspace *w)
{
    msi_free(w->uvw_m);
    msi_free(w->vis);
    msi_free(w->weight);
    memset(w, 0, sizeof *w);
}

/* ---- The request ---- */

/* Append the Doppler shifts of all fields to a request. With o == NULL, only count their bytes.
 * Returns: the end, in bytes */
static int64_t pack_shifts(const msi_ms_reader *reader, msi_conversion_request *o, int64_t begin, int64_t n)
{
    int64_t at = begin + n * (int64_t)sizeof(msi_conversion_shift), pointing = 0, n_row, k = 0;
    double ra, dec;
    for (int set, id; msi_ms_reader_pointing(reader, &pointing, &set, &id, &ra, &dec, &n_row); k++) {
        const msi_ms_doppler d = msi_ms_reader_doppler(reader, set, id);
        if (o) {
            char *bytes = (char *)o;
            const msi_conversion_shift shift = {set, id, d.n_minute, at};
            memcpy(bytes + begin + k * (int64_t)sizeof shift, &shift, sizeof shift);
            if (d.n_minute) memcpy(bytes + at, d.minute, sizeof *d.minute * (size_t)d.n_minute);
            if (d.n_minute) memcpy(bytes + at + 8 * d.n_minute, d.ratio, sizeof *d.ratio * 2 * (size_t)d.n_minute);
        }
        at += 24 * d.n_minute;
    }
    return at;
}

static int64_t n_field(const msi_ms_reader *reader)
{
    int64_t n = 0, at = 0;
    const char *name;
    for (int id; msi_ms_reader_field(reader, &at, &id, &name);) n++;
    return n;
}

int msi_conversion_request_make(msi_conversion_request **out, int64_t *n_byte, const msi_conversion_spec *spec)
{
    const msi_channel_grid *g = &spec->channels->grid;
    const size_t edges = sizeof(double) * (size_t)(spec->channels->n + 1);
    const int64_t n_part = g->n * g->n_part, begin = (int64_t)(sizeof **out + edges) + 8 * n_part,
                  n_shift = g->n ? n_field(spec->reader) : 0;
    const int64_t turn_at = g->n ? pack_shifts(spec->reader, NULL, begin, n_shift) : begin;
    const size_t turn_bytes = sizeof *spec->turn * (size_t)spec->n_turn;
    *n_byte = turn_at + (int64_t)turn_bytes;
    MSI_TRY(msi_alloc(out, *n_byte, 1, "output channels"));
    (*out)->n_turn = spec->n_turn;
    (*out)->turn_at = turn_at;
    if (turn_bytes) memcpy((char *)*out + turn_at, spec->turn, turn_bytes);
    (*out)->grid = *g;
    if (spec->continuum) (*out)->continuum = *spec->continuum;
    (*out)->n_shift = n_shift;
    (*out)->shift_at = begin;
    for (int64_t i = 0; i < n_part; i++)
        (*out)->edge_hz[spec->channels->n + 1 + i] = framed_part_hz(g, i / g->n_part, (int)(i % g->n_part));
    if (g->n) pack_shifts(spec->reader, *out, begin, n_shift);
    msi_conversion_request *o = *out;
    memcpy(o->planes, spec->planes, sizeof *o->planes * (size_t)spec->n_plane);
    o->n_plane = spec->n_plane;
    o->weight = spec->weight;
    o->precision = spec->precision;
    o->ra_rad = spec->ra_rad;
    o->dec_rad = spec->dec_rad;
    o->least_turn_rad = spec->least_turn_rad;
    o->sums_beam_weights = spec->sums_beam_weights;
    memcpy(o->beam_hz, spec->beam_hz, sizeof o->beam_hz);
    o->n_channel = spec->channels->n;
    memcpy(o->edge_hz, spec->channels->edge_hz, edges);
    return MSI_OK;
}

/* ---- Layout of a converted block ----
 * The tally; the weights for the primary beam, if they are requested; then visibilities and weights of each part. */

static int64_t aligned(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static int64_t tally_bytes(const msi_conversion_request *o)
{
    return aligned((int64_t)sizeof(msi_sample_tally)) +
           (o->sums_beam_weights ? aligned((int64_t)sizeof(msi_beam_weights)) : 0);
}

static msi_beam_weights *beam_weights_of(void *converted)
{
    return (msi_beam_weights *)(void *)((char *)converted + aligned((int64_t)sizeof(msi_sample_tally)));
}

/* ---- Doppler shifts ---- */

/* Find the Doppler shifts of a field; n_minute is 0 if it has none. */
static msi_ms_doppler shifts_of(const msi_conversion_request *o, int set, int field_id)
{
    const char *bytes = (const char *)o;
    for (int64_t k = 0; k < o->n_shift; k++) {
        msi_conversion_shift s;
        memcpy(&s, bytes + o->shift_at + k * (int64_t)sizeof s, sizeof s);
        if (s.set != set || s.field_id != field_id) continue;
        return (msi_ms_doppler){s.n_minute, (const int64_t *)(const void *)(bytes + s.at),
                                (const double *)(const void *)(bytes + s.at + 8 * s.n_minute)};
    }
    return (msi_ms_doppler){0};
}

static double ratio_at(const msi_ms_doppler *d, double time_s)
{
    return d->n_minute ? msi_ms_doppler_at(d, time_s) : 1;
}

/* Find the lowest and the highest ratio of a block's rows. */
static void find_ratios(const msi_conversion_request *o, const msi_ms_block *b, double *lowest, double *highest)
{
    const msi_ms_doppler d = shifts_of(o, b->set, b->field_id);
    *lowest = *highest = b->n_row ? ratio_at(&d, b->time_s[0]) : 1;
    for (int64_t i = 1; i < b->n_row && d.n_minute; i++) {
        if (b->time_s[i] == b->time_s[i - 1]) continue;
        const double ratio = ratio_at(&d, b->time_s[i]);
        *lowest = fmin(*lowest, ratio);
        *highest = fmax(*highest, ratio);
    }
}

/* ---- The samples of output channels ---- */

static msi_output_channels channels_of(const msi_conversion_request *o)
{
    /* The channels are only read, so the cast is safe. */
    return (msi_output_channels){.n = o->n_channel, .edge_hz = (double *)o->edge_hz};
}

/* Find the output channels that contain any of the frequencies. */
static void overlapping_channels(const msi_conversion_request *o, int32_t n_chan, const double *freq_hz, int64_t *first,
                                 int64_t *end)
{
    const msi_output_channels c = channels_of(o);
    msi_output_channels_overlap(&c, freq_hz, n_chan, first, end);
}

static int64_t bytes_needed(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz)
{
    const msi_conversion_request *o = order;
    int64_t first, end;
    const int64_t value = msi_complex_bytes(o->precision) + (int64_t)sizeof(float);
    if (o->grid.n) {
        /* All rows have ratios in this range, so those of a block do too. */
        const msi_framed_block f =
            framed_block_make(&o->grid, freq_hz, n_chan, o->grid.lowest_ratio, o->grid.highest_ratio);
        int64_t n_part = 0;
        int32_t unused;
        framed_planes(&f, &first, &end);
        for (int64_t c = first; c < end; c++) n_part += framed_range(&f, c, &unused);
        return tally_bytes(o) + n_row * n_part * o->n_plane * value + 2 * 64 * (end - first);
    }
    overlapping_channels(o, n_chan, freq_hz, &first, &end);
    return tally_bytes(o) + n_row * n_chan * o->n_plane * value + 2 * 64 * (end - first);
}

static int next_place(msi_converted_walk *walk, place *p)
{
    const msi_ms_block *b = walk->block;
    const msi_conversion_request *o = walk->request;
    const msi_output_channels c = channels_of(o);
    for (; walk->channel < walk->end_channel; walk->channel++) {
        int32_t end;
        if (o->grid.n)
            end = framed_range(&walk->framed, walk->channel, &p->first) + p->first;
        else
            msi_output_channels_range(&c, walk->channel, b->freq_hz, b->n_chan, &p->first, &end);
        if (p->first == end) continue;
        p->channel = walk->channel++;
        p->n_chan = end - p->first;
        p->n_value = o->n_plane * b->n_row * p->n_chan;
        p->vis_at = walk->at;
        p->weight_at = p->vis_at + aligned(p->n_value * msi_complex_bytes(o->precision));
        walk->at = p->weight_at + aligned(p->n_value * (int64_t)sizeof(float));
        return 1;
    }
    return 0;
}

void msi_converted_first(msi_converted_walk *walk, const msi_conversion_request *request, const msi_ms_block *block)
{
    *walk = (msi_converted_walk){.request = request, .block = block, .at = tally_bytes(request)};
    if (!request->grid.n) {
        overlapping_channels(request, block->n_chan, block->freq_hz, &walk->channel, &walk->end_channel);
        return;
    }
    double lowest, highest;
    find_ratios(request, block, &lowest, &highest);
    walk->framed = framed_block_make(&request->grid, block->freq_hz, block->n_chan, lowest, highest);
    framed_planes(&walk->framed, &walk->channel, &walk->end_channel);
}

/* Return the frequencies of the samples of a part. */
static const double *part_freq_hz(const msi_conversion_request *o, const msi_ms_block *b, const place *p)
{
    if (!o->grid.n || o->grid.interpolation == MSI_CHANNEL_NEAREST) return b->freq_hz + p->first;
    return o->edge_hz + o->n_channel + 1 + p->channel * o->grid.n_part;
}

int msi_converted_next(msi_converted_walk *walk, msi_converted_part *part)
{
    const msi_ms_block *b = walk->block;
    place p;
    if (!next_place(walk, &p)) return 0;
    const void *vis = (const char *)b->converted + p.vis_at, *weight = (const char *)b->converted + p.weight_at;
    const int is_fp64 = walk->request->precision == MSI_FP64;
    part->channel = p.channel;
    part->samples = (msi_vis_block){.n_row = b->n_row,
                                    .n_chan = p.n_chan,
                                    .n_plane = walk->request->n_plane,
                                    .uvw_m = b->uvw_m,
                                    .freq_hz = part_freq_hz(walk->request, b, &p),
                                    .vis = is_fp64 ? vis : NULL,
                                    .vis_f32 = is_fp64 ? NULL : vis,
                                    .weight = weight};
    return 1;
}

int msi_converted_tally(const msi_ms_block *b, msi_sample_tally *tally)
{
    memcpy(tally, b->converted, sizeof *tally);
    const int64_t most = b->n_row * b->n_chan;
    const int64_t count[] = {tally->flagged, tally->weight, tally->data_not_finite, tally->data_too_large};
    int64_t rest = most;
    for (size_t i = 0; i < sizeof count / sizeof *count; i++) {
        if (count[i] < 0 || count[i] > rest)
            return msi_error_set(MSI_EINPUT, "truncated or corrupt: a reader process returned impossible counts");
        rest -= count[i];
    }
    tally->largest_set = b->set;
    return MSI_OK;
}

void msi_converted_beam_weights(const msi_conversion_request *o, const msi_ms_block *b, msi_beam_weights *sum)
{
    if (!o->sums_beam_weights) return;
    const msi_beam_weights *w = beam_weights_of((void *)b->converted);
    for (int i = 0; i < MSI_MS_PAIRS; i++) sum->pair[i] += w->pair[i];
    for (int i = 0; i < MSI_BEAM_STEPS; i++) sum->of_hz[i] += w->of_hz[i];
    msi_ms_row_times_add(&sum->times, &w->times);
}

/* ---- Conversion ---- */

/* On a mosaic, shift a field by l, m further, to its direction in the image. The phase is u l + v m, with u and v of
 * the image. */
static void add_turn(const msi_conversion_request *o, const msi_ms_block *b, msi_phase_shift *shift)
{
    for (int64_t i = 0; i < o->n_turn; i++) {
        msi_conversion_turn t;
        memcpy(&t, (const char *)o + o->turn_at + i * (int64_t)sizeof t, sizeof t);
        if (t.set != b->set || t.field_id != b->field_id) continue;
        for (int k = 0; k < 3; k++) shift->direction[k] += t.l * shift->rotation[0][k] + t.m * shift->rotation[1][k];
        return;
    }
}

/* Return whether a block must be shifted to the images' centre, and make the shift. Centres that differ only by
 * rounding need none. */
static int needs_shift(const msi_conversion_request *o, const msi_ms_block *b, msi_phase_shift *shift)
{
    if (!o->n_turn && b->ra_rad == o->ra_rad && b->dec_rad == o->dec_rad) return 0;
    msi_phase_shift_make(shift, b->ra_rad, b->dec_rad, o->ra_rad, o->dec_rad);
    add_turn(o, b, shift);
    const double turns = msi_phase_shift_turns(shift, b->n_row, b->freq_hz[b->n_chan - 1], b->uvw_m);
    /* A turn may cancel the phases of a shift, but uvw must be rotated nevertheless. */
    return o->n_turn || 2 * MSI_PI * turns > o->least_turn_rad;
}

/* List the places of a block's output channels in the converted block. */
static int list_places(msi_block_converter *converter, const msi_conversion_request *o, const msi_ms_block *block,
                       int64_t *n)
{
    msi_converted_walk walk;
    msi_converted_first(&walk, o, block);
    const int64_t most = walk.end_channel - walk.channel;
    if (most > converter->n_place_allocated) {
        converter->n_place_allocated = 0;
        MSI_TRY(msi_grow(&converter->place, 0, most, sizeof *converter->place, "output channels"));
        converter->n_place_allocated = most;
    }
    for (*n = 0; next_place(&walk, &converter->place[*n]);) ++*n;
    return MSI_OK;
}

/* Rows [row, row + n_row) of a block, with all channels from the first to the last that is used. */
typedef struct piece {
    int64_t row, n_row;
    int32_t first, n_chan;
} piece;

/* A rectangle of samples of a plane: where it is in the piece, and its first sample in the destination. */
typedef struct rectangle {
    const msi_c64 *vis; /* [n_row][stride] */
    const float *weight;
    int64_t stride;
    int64_t n_row, n_chan;
    int64_t to;
} rectangle;

static void put_rectangle(const rectangle *r, msi_precision precision, void *vis, float *weight)
{
    int64_t to = r->to;
    for (int64_t i = 0; i < r->n_row; i++)
        for (int64_t c = 0; c < r->n_chan; c++, to++) {
            const msi_c64 v = r->vis[i * r->stride + c];
            weight[to] = r->weight[i * r->stride + c];
            if (precision == MSI_FP64)
                ((msi_c64 *)vis)[to] = v;
            else
                ((msi_c32 *)vis)[to] = (msi_c32){(float)v.re, (float)v.im};
        }
}

/* The reserved rows of a gridder that the next piece is written to. If `into` is NULL, samples go to the converted
 * block. */
typedef struct position {
    const msi_block_into *into;
    int64_t i, begin; /* into->rows[i] begin with row `begin` of the block */
} position;

/* Return where the samples of an output channel go, from a row of the block on. */
static msi_planes_out place_of_rows(const msi_conversion_request *o, const position *at, const place *p, int64_t row,
                                    int64_t n_block_row, char *converted)
{
    const msi_vis_rows *own = at->into ? &at->into->rows[at->i] : NULL;
    const int64_t n = (own ? row - at->begin : row) * p->n_chan;
    char *vis = own ? own->vis : converted + p->vis_at;
    float *weight = own ? own->weight : (float *)(void *)(converted + p->weight_at);
    return (msi_planes_out){o->precision, vis + n * msi_complex_bytes(o->precision), weight + n,
                            own ? own->plane_rows : n_block_row};
}

/* Shorten a piece so that it ends at the end of the current reserved rows. Go to the next ones if those are full. */
static void limit_piece(position *at, piece *t)
{
    if (!at->into) return;
    if (t->row - at->begin == at->into->rows[at->i].n_row) at->begin += at->into->rows[at->i++].n_row;
    const int64_t left = at->begin + at->into->rows[at->i].n_row - t->row;
    if (t->n_row > left) t->n_row = left;
}

/* Write the coordinates of a piece to its reserved rows, and report the rows to the gridder. */
static void end_piece(const position *at, const piece *t, const double *uvw_m)
{
    if (!at->into) return;
    msi_vis_rows *own = &at->into->rows[at->i];
    memcpy(own->uvw_m + 3 * (t->row - at->begin), uvw_m + 3 * t->row, 3 * sizeof *uvw_m * (size_t)t->n_row);
    msi_gridder_count_rows(at->into->gridder, own, t->row - at->begin, t->n_row);
}

/* Copy a piece to the places of its output channels, in the requested precision. */
static void put_piece(const msi_block_converter *converter, const msi_conversion_request *o, int64_t n_place,
                      const piece *t, const position *at, int64_t n_block_row, char *converted)
{
    const msi_block_workspace *w = &converter->workspace;
    for (int64_t i = 0; i < n_place; i++) {
        const place *p = &converter->place[i];
        const msi_planes_out to = place_of_rows(o, at, p, t->row, n_block_row, converted);
        for (int plane = 0; plane < o->n_plane; plane++) {
            const int64_t from = plane * t->n_row * t->n_chan + p->first - t->first;
            const rectangle r = {w->vis + from, w->weight + from, t->n_chan,
                                 t->n_row,      p->n_chan,        plane * to.plane_rows * p->n_chan};
            put_rectangle(&r, o->precision, to.vis, to.weight);
        }
    }
}

/* Convert a piece, which has all channels, to samples of planes in another frame. */
static void put_framed(const msi_block_converter *converter, const msi_conversion_request *o, int64_t n_place,
                       const piece *t, const msi_ms_block *block, double *uvw_m, char *converted)
{
    const msi_block_workspace *w = &converter->workspace, *of_row = &converter->parts;
    const msi_ms_doppler d = shifts_of(o, block->set, block->field_id);
    const msi_framed_block f = framed_block_make(&o->grid, block->freq_hz, block->n_chan, 1, 1);
    for (int64_t i = 0; i < t->n_row; i++) {
        framed_row row = {.ratio = ratio_at(&d, block->time_s[t->row + i])};
        for (int plane = 0; plane < o->n_plane; plane++) {
            const int64_t from = (plane * t->n_row + i) * t->n_chan;
            row.vis = w->vis + from;
            row.weight = w->weight + from;
            for (int64_t k = 0; k < n_place; k++) {
                const place *p = &converter->place[k];
                framed_convert(&f, &row, p->channel, p->first, p->n_chan, of_row->vis, of_row->weight);
                const rectangle r = {of_row->vis, of_row->weight, p->n_chan,
                                     1,           p->n_chan,      (plane * block->n_row + t->row + i) * p->n_chan};
                put_rectangle(&r, o->precision, converted + p->vis_at, (float *)(void *)(converted + p->weight_at));
            }
        }
        /* A value at frequency f of the frame was observed at f / ratio. */
        for (int k = 0; k < 3 && o->grid.interpolation != MSI_CHANNEL_NEAREST; k++) uvw_m[3 * i + k] /= row.ratio;
    }
}

/* Return the rows of a piece as a separate block. */
static msi_ms_block piece_rows(const msi_ms_block *b, const piece *t)
{
    const int64_t at = t->row * b->n_chan * b->n_corr;
    msi_ms_block part = *b;
    part.n_row = t->n_row;
    part.ms_row += t->row;
    part.data += at;
    part.weight += at;
    part.flag += at;
    return part;
}

/* Add the weights of a piece's rows to the sums for the primary beam. Given: weight [n_row][n_chan] of the first
 * plane */
static void sum_weights(const msi_ms_block *b, const piece *t, const float *weight, const double range_hz[2],
                        msi_beam_weights *sum)
{
    enum { AT_ONCE = 256 };
    for (int32_t first = 0; first < t->n_chan; first += AT_ONCE) {
        const int32_t n = t->n_chan - first < AT_ONCE ? t->n_chan - first : AT_ONCE;
        double of_channel[AT_ONCE] = {0};
        for (int64_t i = 0; i < t->n_row; i++)
            for (int32_t c = 0; c < n; c++) of_channel[c] += (double)weight[i * t->n_chan + first + c];
        for (int32_t c = 0; c < n; c++)
            if (isfinite(of_channel[c]))
                sum->of_hz[msi_beam_step(range_hz, b->freq_hz[t->first + first + c])] += of_channel[c];
    }
    for (int64_t i = 0; i < t->n_row; i++) {
        double of_row = 0;
        for (int32_t c = 0; c < t->n_chan; c++) of_row += (double)weight[i * t->n_chan + c];
        if (!(of_row > 0) || !isfinite(of_row)) continue;
        sum->pair[b->pair[t->row + i]] += of_row;
        msi_ms_row_times_count(&sum->times, b->time_s[t->row + i], of_row);
    }
}

static int convert_block(void *of, const void *order, const msi_ms_block *block, double *uvw_m, void *converted)
{
    const msi_conversion_request *o = order;
    msi_block_converter *converter = of;
    msi_block_workspace *w = &converter->workspace;
    msi_mix mix[MSI_MAX_PLANES];
    msi_sample_tally tally = {0};
    msi_phase_shift shift;
    position at = {.into = block->into};
    int64_t n_place;
    omp_set_num_threads(1); /* the other cores are used by the other reader processes */
    MSI_TRY(msi_mix_make(mix, o->planes, o->n_plane, o->weight, block->corr, block->n_corr));
    MSI_TRY(list_places(converter, o, block, &n_place));
    memcpy(converted, &tally, sizeof tally);
    if (o->sums_beam_weights) memset(beam_weights_of(converted), 0, sizeof(msi_beam_weights));
    if (!n_place) return MSI_OK;
    const int turns = needs_shift(o, block, &shift);
    const place *last = &converter->place[n_place - 1];
    piece t = {.first = converter->place[0].first, .n_chan = last->first + last->n_chan - converter->place[0].first};
    if (o->grid.n) {
        int32_t most = 0;
        for (int64_t i = 0; i < n_place; i++)
            if (converter->place[i].n_chan > most) most = converter->place[i].n_chan;
        MSI_TRY(msi_block_workspace_fit(&converter->parts, 0, most, most));
        t = (piece){.first = 0, .n_chan = block->n_chan};
    }
    const int64_t most = block->fill ? FILLED_SAMPLES : PIECE_SAMPLES;
    const int64_t suits = most / ((int64_t)t.n_chan * o->n_plane), step = suits < 1 ? 1 : suits;
    /* The samples can be written to their destination directly if there is one output channel and they keep their
     * phases. */
    const int at_once = n_place == 1 && !turns && !o->grid.n;
    if (!at_once) MSI_TRY(msi_block_workspace_fit(w, 0, step * t.n_chan * o->n_plane, step * t.n_chan * o->n_plane));
    for (; t.row < block->n_row; t.row += t.n_row) {
        t.n_row = block->n_row - t.row < step ? block->n_row - t.row : step;
        limit_piece(&at, &t);
        msi_ms_block part;
        if (block->fill)
            MSI_TRY(block->fill(block, t.row, t.n_row, &part));
        else
            part = piece_rows(block, &t);
        if (o->continuum.is_set) MSI_TRY(msi_continuum_subtract(&o->continuum, &part, &converter->line));
        const msi_planes_out out = at_once ? place_of_rows(o, &at, last, t.row, block->n_row, converted)
                                           : (msi_planes_out){MSI_FP64, w->vis, w->weight, t.n_row};
        msi_stokes_convert_into(&part, mix, o->n_plane, (msi_channel_range){t.first, t.n_chan}, &out, &tally);
        if (turns)
            msi_phase_shift_apply(&shift, t.n_row, t.n_chan, o->n_plane, block->freq_hz + t.first, uvw_m + 3 * t.row,
                                  w->vis);
        if (o->sums_beam_weights) sum_weights(block, &t, out.weight, o->beam_hz, beam_weights_of(converted));
        if (o->grid.n)
            put_framed(converter, o, n_place, &t, block, uvw_m + 3 * t.row, converted);
        else if (!at_once)
            put_piece(converter, o, n_place, &t, &at, block->n_row, converted);
        end_piece(&at, &t, uvw_m);
    }
    memcpy(converted, &tally, sizeof tally);
    return MSI_OK;
}

/* ---- The converter ---- */

static int copy_converter(void **out)
{
    return msi_alloc(out, 1, sizeof(msi_block_converter), "block of visibilities");
}

static void drop_converter(void *of)
{
    msi_block_converter_free(of);
}

int msi_block_converter_create(msi_block_converter **out)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "block of visibilities"));
    (*out)->conversion = (msi_reader_conversion){.of = *out,
                                                 .copy = copy_converter,
                                                 .drop = drop_converter,
                                                 .fills = 1,
                                                 .bytes = bytes_needed,
                                                 .convert = convert_block};
    return MSI_OK;
}

const msi_reader_conversion *msi_block_converter_conversion(msi_block_converter *converter)
{
    return &converter->conversion;
}

void msi_block_converter_free(msi_block_converter *converter)
{
    if (!converter) return;
    msi_block_workspace_free(&converter->workspace);
    msi_block_workspace_free(&converter->parts);
    msi_continuum_buffer_free(&converter->line);
    msi_free(converter->place);
    msi_free(converter);
}
