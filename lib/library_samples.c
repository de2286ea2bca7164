/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Converts between the caller's samples and blocks for the kernels: coordinates of the convention, weights, masks,
 * and a phase shift to the image's centre. Samples of an image that are beyond the uv plane are moved by whole periods.
 * Each of them is added as a separate row with its channel, because the shift depends on the frequency.
 */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "lib/library_gridder.h"

enum { CHUNK_SAMPLES = 1 << 18 };

/* In periods: a sample farther than this from the centre is moved into the uv plane. It is slightly inside the edge. */
static const double EDGE = 0.5 * (1 - 1e-12);

/* Some rows of the caller's samples, which are processed together. */
typedef struct chunk {
    const msimage_gridder *g;
    const msimage_samples *s;
    void *out; /* the caller's array for all rows, for predictions */
    int64_t first, n_row;
} chunk;

void msi_library_buffers_free(msi_sample_buffers *buffers)
{
    msi_free(buffers->uvw_m);
    msi_free(buffers->vis);
    msi_free(buffers->weight);
    msi_free(buffers->beyond);
    memset(buffers, 0, sizeof *buffers);
}

static int grow_buffers(msi_sample_buffers *buffers, int64_t n_row, int64_t n_sample, int n_plane)
{
    if (n_row <= buffers->n_row && n_sample <= buffers->n_sample) return MSI_OK;
    msi_library_buffers_free(buffers);
    MSI_TRY(msi_alloc(&buffers->uvw_m, 3 * n_row, sizeof(double), "samples"));
    MSI_TRY(msi_alloc(&buffers->vis, n_plane * n_sample, sizeof(msi_c64), "samples"));
    MSI_TRY(msi_alloc(&buffers->weight, n_plane * n_sample, sizeof(float), "samples"));
    MSI_TRY(msi_alloc(&buffers->beyond, n_sample, 1, "samples"));
    buffers->n_row = n_row;
    buffers->n_sample = n_sample;
    return MSI_OK;
}

/* Compute the kernels' coordinates of a row, in metres. Returns 0 and sets them to 0 if one of them is not finite. */
static int coordinates(const msimage_gridder *g, const double *uvw, double *to)
{
    const double u = uvw[0] / g->scale, v = uvw[1] / g->scale, w = g->spec.ignores_w ? 0 : uvw[2];
    const int is_known = isfinite(u) && isfinite(v) && isfinite(uvw[2]);
    to[0] = is_known ? (g->is_xy ? v : u) : 0;
    to[1] = is_known ? (g->is_xy ? -u : v) : 0;
    to[2] = is_known ? w : 0;
    return is_known;
}

/* Return the factor that shifts the phase of a visibility to the image's centre. */
static double complex phase_factor(const msimage_gridder *g, const double *uvw, double freq_hz)
{
    if (g->l_rad == 0 && g->m_rad == 0) return 1;
    const double cycles = (uvw[0] * g->l_rad + uvw[1] * g->m_rad) * g->scale * freq_hz / MSI_SPEED_OF_LIGHT;
    const double phase = -2 * MSI_PI * (cycles - rint(cycles));
    return cos(phase) + I * sin(phase);
}

static double weight_of(const chunk *c, int64_t i)
{
    if (!c->s->weight) return 1;
    return c->g->spec.precision == MSIMAGE_FP32 ? (double)((const float *)c->s->weight)[i]
                                                : ((const double *)c->s->weight)[i];
}

static double complex vis_of(const chunk *c, int64_t i)
{
    if (!c->s->vis) return 0;
    if (c->g->spec.precision == MSIMAGE_FP32) {
        const float *v = (const float *)c->s->vis + 2 * i;
        return (double)v[0] + I * (double)v[1];
    }
    const double *v = (const double *)c->s->vis + 2 * i;
    return v[0] + I * v[1];
}

/* Return 1 if a weight is neither 0 nor NaN. Samples without such a weight are not used. */
static int has_weight(double weight)
{
    return weight < 0 || weight > 0;
}

/* Return a coordinate in periods of the uv plane; inside the plane it is -0.5 to 0.5. */
static double periods(double coordinate_m, double freq_hz, double cell_rad)
{
    return coordinate_m * freq_hz / MSI_SPEED_OF_LIGHT * cell_rad;
}

static int is_beyond(const msimage_gridder *g, const double *uvw, double freq_hz)
{
    return fabs(periods(uvw[0], freq_hz, g->geometry.cell_x_rad)) > EDGE ||
           fabs(periods(uvw[1], freq_hz, g->geometry.cell_y_rad)) > EDGE;
}

/* If a coordinate has more periods than this, its position within the period has no digits left. */
static const double MOST_PERIODS = 1e12;

/* Return 1 if a coordinate has too many periods, so that its position in the uv plane is lost. */
static int is_lost(const msimage_gridder *g, const double *uvw, double freq_hz)
{
    return fabs(periods(uvw[0], freq_hz, g->geometry.cell_x_rad)) > MOST_PERIODS ||
           fabs(periods(uvw[1], freq_hz, g->geometry.cell_y_rad)) > MOST_PERIODS;
}

static int fail_for_cells(const msimage_gridder *g)
{
    return msi_error_set(MSI_ERANGE,
                         "cell_x_rad, cell_y_rad: with pixels of %g and %g, a sample is more than %g periods from the "
                         "centre of the uv plane, and its phases have no digits left",
                         g->spec.cell_x_rad, g->spec.cell_y_rad, MOST_PERIODS);
}

/* Move a coordinate by whole periods into the uv plane. The result is inside even after it is rounded by the store. */
static double wrap_coordinate(double coordinate_m, double freq_hz, double cell_rad)
{
    const double at = periods(coordinate_m, freq_hz, cell_rad);
    double wrapped = fabs(at) > EDGE ? (at - rint(at)) * MSI_SPEED_OF_LIGHT / freq_hz / cell_rad : coordinate_m;
    while (freq_hz > 0.5 / cell_rad / (fabs(wrapped) / MSI_SPEED_OF_LIGHT)) wrapped = nextafter(wrapped, 0);
    return wrapped;
}

/* Convert a sample of a plane to the buffers, at index `to`. Returns 1 if the sample is used; sets *is_bad if its
 * weight is invalid. */
static int convert_sample(const chunk *c, int64_t from, double complex factor, msi_sample_buffers *buffers, int64_t to,
                          msi_sample_tally *t, int *is_bad)
{
    const msimage_gridder *g = c->g;
    const double weight = weight_of(c, from);
    double complex v = vis_of(c, from);
    const int is_used = has_weight(weight) && isfinite(weight) && isfinite(creal(v)) && isfinite(cimag(v));
    v = is_used ? v * factor * (g->folds ? weight : 1) : 0;
    if (is_used && !g->folds && (weight < 0 || !isfinite((float)weight))) *is_bad = 1;
    buffers->vis[to] = (msi_c64){creal(v), cimag(v)};
    buffers->weight[to] = is_used ? (g->folds ? 1 : (float)weight) : 0;
    t->largest_jy = fmax(t->largest_jy, fmax(fabs(creal(v)), fabs(cimag(v))));
    if (is_used) t->largest_weight = fmax(t->largest_weight, weight);
    return is_used;
}

/* Convert a row for an image. Returns the number of its samples that are beyond the uv plane. */
static int64_t convert_row(const chunk *c, int64_t row, msi_sample_buffers *buffers, msi_sample_tally *t, int *is_bad)
{
    const msimage_gridder *g = c->g;
    const int64_t n_chan = c->s->n_chan, from = (c->first + row) * n_chan, n = c->n_row * n_chan;
    double *uvw = buffers->uvw_m + 3 * row;
    const int is_known = coordinates(g, c->s->uvw_m + 3 * (c->first + row), uvw);
    int64_t n_beyond = 0;
    for (int64_t k = 0; k < n_chan; k++) {
        const int64_t to = row * n_chan + k;
        const double freq_hz = c->s->freq_hz[k];
        const int is_wanted = is_known && (!c->s->mask || c->s->mask[from + k]);
        const double complex factor = is_wanted ? phase_factor(g, uvw, freq_hz) : 1;
        int is_used = 0;
        for (int p = 0; p < g->n_plane; p++) {
            if (is_wanted)
                is_used |=
                    convert_sample(c, p * c->s->n_row * n_chan + from + k, factor, buffers, p * n + to, t, is_bad);
            else
                buffers->weight[p * n + to] = 0, buffers->vis[p * n + to] = (msi_c64){0, 0};
        }
        t->n += is_used;
        t->n_left_out += !is_used;
        buffers->beyond[to] = is_used && g->is_xy && is_beyond(g, uvw, freq_hz);
        n_beyond += buffers->beyond[to];
    }
    return n_beyond;
}

/* Add the samples of a channel that are beyond the uv plane. */
static int add_beyond(msimage_gridder *g, const chunk *c, int64_t chan)
{
    const msi_sample_buffers *buffers = &g->buffers;
    const int64_t n_chan = c->s->n_chan;
    const double freq_hz = c->s->freq_hz[chan];
    int64_t n = 0, at = 0;
    for (int64_t row = 0; row < c->n_row; row++) n += buffers->beyond[row * n_chan + chan];
    if (!n) return MSI_OK;
    double *uvw = NULL;
    msi_c64 *vis = NULL;
    float *weight = NULL;
    for (int64_t row = 0; row < c->n_row; row++)
        if (buffers->beyond[row * n_chan + chan] && is_lost(g, buffers->uvw_m + 3 * row, freq_hz))
            return fail_for_cells(g);
    int rc = msi_alloc(&uvw, 3 * n, sizeof *uvw, "samples");
    if (!rc) rc = msi_alloc(&vis, g->n_plane * n, sizeof *vis, "samples");
    if (!rc) rc = msi_alloc(&weight, g->n_plane * n, sizeof *weight, "samples");
    for (int64_t row = 0; !rc && row < c->n_row; row++) {
        const int64_t from = row * n_chan + chan;
        if (!buffers->beyond[from]) continue;
        uvw[3 * at] = wrap_coordinate(buffers->uvw_m[3 * row], freq_hz, g->geometry.cell_x_rad);
        uvw[3 * at + 1] = wrap_coordinate(buffers->uvw_m[3 * row + 1], freq_hz, g->geometry.cell_y_rad);
        uvw[3 * at + 2] = buffers->uvw_m[3 * row + 2];
        for (int p = 0; p < g->n_plane; p++) {
            vis[p * n + at] = buffers->vis[p * c->n_row * n_chan + from];
            weight[p * n + at] = buffers->weight[p * c->n_row * n_chan + from];
        }
        at++;
    }
    const msi_vis_block block = {.n_row = n,
                                 .n_chan = 1,
                                 .n_plane = g->n_plane,
                                 .uvw_m = uvw,
                                 .freq_hz = &freq_hz,
                                 .vis = vis,
                                 .weight = weight};
    if (!rc) rc = msi_gridder_add(g->inner, &block);
    msi_free(uvw);
    msi_free(vis);
    msi_free(weight);
    return rc;
}

static msi_vis_block block_of(const msimage_gridder *g, const chunk *c)
{
    return (msi_vis_block){.n_row = c->n_row,
                           .n_chan = c->s->n_chan,
                           .n_plane = g->n_plane,
                           .uvw_m = g->buffers.uvw_m,
                           .freq_hz = c->s->freq_hz,
                           .vis = g->buffers.vis,
                           .weight = g->buffers.weight};
}

static int add_images(msimage_gridder *g, const chunk *c)
{
    const int64_t n_chan = c->s->n_chan;
    int64_t n_beyond = 0, n = 0, n_left_out = 0;
    double jy = g->samples.largest_jy, largest_weight = g->samples.largest_weight;
    int is_bad = 0;
    msi_sample_buffers *buffers = &g->buffers;
#pragma omp parallel for schedule(static) num_threads(g->n_thread) reduction(+ : n_beyond, n, n_left_out)              \
    reduction(max : jy, largest_weight) reduction(| : is_bad)
    for (int64_t row = 0; row < c->n_row; row++) {
        msi_sample_tally t = {.largest_jy = jy, .largest_weight = largest_weight};
        n_beyond += convert_row(c, row, buffers, &t, &is_bad);
        n += t.n;
        n_left_out += t.n_left_out;
        jy = t.largest_jy;
        largest_weight = t.largest_weight;
    }
    if (is_bad)
        return msi_error_set(MSI_ERANGE, "weight: negative weights and weights beyond single precision are only valid "
                                         "for images of convention XY (Python: vis2dirty)");
    g->samples.n += n;
    g->samples.n_left_out += n_left_out;
    g->samples.largest_jy = jy;
    g->samples.largest_weight = largest_weight;
    /* Samples beyond the uv plane have no weight in the main block, and are added separately. */
    if (n_beyond) {
        for (int64_t k = 0; k < n_chan; k++) MSI_TRY(add_beyond(g, c, k));
        for (int64_t i = 0; i < c->n_row * n_chan; i++)
            for (int p = 0; buffers->beyond[i] && p < g->n_plane; p++) buffers->weight[p * c->n_row * n_chan + i] = 0;
    }
    const msi_vis_block block = block_of(g, c);
    return msi_gridder_add(g->inner, &block);
}

/* Return 1 if a sample is predicted: if it is not masked, and has a weight in a plane. */
static int is_wanted(const chunk *c, int64_t row, int64_t chan)
{
    const int64_t i = row * c->s->n_chan + chan;
    if (c->s->mask && !c->s->mask[i]) return 0;
    for (int p = 0; p < c->g->n_plane; p++)
        if (has_weight(weight_of(c, p * c->s->n_row * c->s->n_chan + i))) return 1;
    return 0;
}

/* Add the coordinates of all rows for a prediction. The plan considers only the samples that an image would use, so
 * that prediction and imaging are transposes of each other to rounding. |w| is computed as in the store. */
static int add_coordinates(msimage_gridder *g, const chunk *c)
{
    double w_min = g->samples.w_min_lambda, w_max = g->samples.w_max_lambda;
    int64_t n = 0, n_left_out = 0;
    int has_lost = 0;
#pragma omp parallel for schedule(static) num_threads(g->n_thread) reduction(+ : n, n_left_out)                       \
    reduction(min : w_min) reduction(max : w_max) reduction(| : has_lost)
    for (int64_t row = 0; row < c->n_row; row++) {
        double *uvw = g->buffers.uvw_m + 3 * row;
        const int is_known = coordinates(g, c->s->uvw_m + 3 * (c->first + row), uvw);
        const double w = fabs(uvw[2]) / MSI_SPEED_OF_LIGHT;
        for (int64_t k = 0; k < c->s->n_chan; k++) {
            if (!is_known || !is_wanted(c, c->first + row, k)) {
                n_left_out++;
                continue;
            }
            n++;
            has_lost |= is_lost(g, uvw, c->s->freq_hz[k]);
            w_min = fmin(w_min, w * c->s->freq_hz[k]);
            w_max = fmax(w_max, w * c->s->freq_hz[k]);
        }
    }
    if (has_lost) return fail_for_cells(g);
    g->samples.n += n;
    g->samples.n_left_out += n_left_out;
    g->samples.w_min_lambda = w_min;
    g->samples.w_max_lambda = w_max;
    const msi_vis_block block = block_of(g, c);
    return msi_gridder_add(g->inner, &block);
}

int msi_library_check(const msimage_samples *s, const double *freq_hz)
{
    if (s->n_row < 0 || s->n_chan < 0 || (s->n_row > 0 && s->n_chan > 0 && (!s->uvw_m || !freq_hz)))
        return msi_error_set(MSI_EARGUMENT, "samples: got %lld rows of %d channels, or no coordinates",
                             (long long)s->n_row, s->n_chan);
    for (int32_t k = 0; k < s->n_chan && freq_hz; k++)
        if (!(freq_hz[k] > 0 && isfinite(freq_hz[k])))
            return msi_error_set(MSI_ERANGE, "freq_hz must be positive and finite, channel %d has %g Hz", k,
                                 freq_hz[k]);
    return MSI_OK;
}

/* Check the samples, and process them in chunks. The buffers are for one chunk. */
static int for_each_chunk(msimage_gridder *g, const msimage_samples *s, void *out,
                          int (*visit)(msimage_gridder *g, const chunk *c))
{
    MSI_TRY(msi_library_check(s, s->freq_hz));
    if (!s->n_row || !s->n_chan) return MSI_OK;
    const int64_t rows_per_chunk = s->n_chan < CHUNK_SAMPLES ? CHUNK_SAMPLES / s->n_chan : 1;
    const int64_t most = rows_per_chunk < s->n_row ? rows_per_chunk : s->n_row;
    MSI_TRY(grow_buffers(&g->buffers, most, most * s->n_chan, g->n_plane));
    for (int64_t first = 0; first < s->n_row; first += most) {
        const chunk c = {g, s, out, first, s->n_row - first < most ? s->n_row - first : most};
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(visit(g, &c));
    }
    return MSI_OK;
}

int msi_library_add(msimage_gridder *g, const msimage_samples *s)
{
    return for_each_chunk(g, s, NULL, g->spec.task == MSIMAGE_PREDICT ? add_coordinates : add_images);
}

/* ---- Predicted visibilities ------------------------------------------------------------------------------------- */

/* Write a row of a chunk to the caller's array, with phases shifted back, weighted and masked. */
static void write_row(const chunk *c, int64_t row)
{
    const msimage_gridder *g = c->g;
    const int64_t n_chan = c->s->n_chan, n = c->n_row * n_chan;
    double uvw[3];
    const int is_known = coordinates(g, c->s->uvw_m + 3 * (c->first + row), uvw);
    for (int64_t k = 0; k < n_chan; k++) {
        const int is_masked = c->s->mask && !c->s->mask[(c->first + row) * n_chan + k];
        const double complex back = conj(phase_factor(g, uvw, c->s->freq_hz[k]));
        for (int p = 0; p < g->n_plane; p++) {
            const int64_t to = p * c->s->n_row * n_chan + (c->first + row) * n_chan + k;
            const double weight = weight_of(c, to);
            const msi_c64 at = g->buffers.vis[p * n + row * n_chan + k];
            double complex v = 0;
            if (!is_masked && has_weight(weight))
                v = !is_known || g->is_nan[p] ? (double)NAN + I * (double)NAN : (at.re + I * at.im) * back * weight;
            if (g->spec.precision == MSIMAGE_FP32) {
                ((float *)c->out)[2 * to] = (float)creal(v);
                ((float *)c->out)[2 * to + 1] = (float)cimag(v);
            } else {
                ((double *)c->out)[2 * to] = creal(v);
                ((double *)c->out)[2 * to + 1] = cimag(v);
            }
        }
    }
}

static int fetch_chunk(msimage_gridder *g, const chunk *c)
{
    if (g->samples.n) MSI_TRY(msi_gridder_fetch(g->inner, c->n_row, c->s->n_chan, c->s->freq_hz, g->buffers.vis));
#pragma omp parallel for schedule(static) num_threads(g->n_thread)
    for (int64_t row = 0; row < c->n_row; row++) write_row(c, row);
    return MSI_OK;
}

int msi_library_fetch(msimage_gridder *g, const msimage_samples *s, void *vis)
{
    return for_each_chunk(g, s, vis, fetch_chunk);
}
