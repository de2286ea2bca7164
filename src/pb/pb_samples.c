/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_samples.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"

/* ---- Tags: pointing, kinds of dishes, time in milliseconds ---- */

enum { PAIR_SHIFT = 40, VIEW_SHIFT = 48, MOST_VIEWS = 1 << 16 };

int msi_pb_work_make(msi_pb_work *w, const msi_pb_array *array, const double centre[2])
{
    if (array->n_pointing > MOST_VIEWS)
        return msi_error_set(MSI_EINPUT, "%lld pointings are too many for -grid-with-beam; at most %d are possible",
                             (long long)array->n_pointing, MOST_VIEWS);
    w->array = array;
    return msi_pb_array_views(array, centre, &w->view);
}

void msi_pb_work_free(msi_pb_work *w)
{
    msi_free(w->view);
    w->view = NULL;
}

void msi_pb_work_tag(const msi_pb_work *w, const msi_ms_block *b, uint64_t *tag)
{
    const int64_t at = msi_pb_array_pointing(w->array, b->set, b->field_id);
    const uint64_t view = at < 0 ? 0 : (uint64_t)at;
    for (int64_t row = 0; row < b->n_row; row++) {
        const double ms = fmin(fmax(0, round(1e3 * (b->time_s[row] - w->low_s))), 1e12);
        tag[row] = view << VIEW_SHIFT | (uint64_t)b->pair[row] << PAIR_SHIFT | (uint64_t)ms;
    }
}

static int64_t view_of(uint64_t tag)
{
    return (int64_t)(tag >> VIEW_SHIFT);
}

/* ---- Bands and terms ---- */

static int ascending(const void *a, const void *b)
{
    const double p = *(const double *)a, q = *(const double *)b;
    return (p > q) - (p < q);
}

/* List the different frequencies of the samples. */
static int list_frequencies(const msi_vis_store *s, double **out, int64_t *n)
{
    int64_t most = 0, kept = 0;
    for (int64_t i = 0; i < s->n_segment; i++)
        if (i == 0 || s->segment[i].freq_hz != s->segment[i - 1].freq_hz) most += s->segment[i].n_chan;
    MSI_TRY(msi_alloc(out, most + 1, sizeof **out, "frequencies"));
    *n = 0;
    for (int64_t i = 0; i < s->n_segment; i++)
        for (int32_t c = 0; c < s->segment[i].n_chan; c++)
            if (i == 0 || s->segment[i].freq_hz != s->segment[i - 1].freq_hz) (*out)[(*n)++] = s->segment[i].freq_hz[c];
    qsort(*out, (size_t)*n, sizeof **out, ascending);
    for (int64_t i = 0; i < *n; i++)
        if (kept == 0 || (*out)[i] > (*out)[kept - 1]) (*out)[kept++] = (*out)[i];
    *n = kept;
    return MSI_OK;
}

/* Compute the terms of a band for all pointings. Given: freq_hz [n] */
static int make_terms(msi_pb_channel *c, int band, const double *freq_hz, int64_t n)
{
    const msi_pb_work *w = c->work;
    msi_pb_domain d = {.geometry = w->spec.geometry,
                       .low_s = w->low_s,
                       .high_s = w->high_s,
                       .n_freq = n,
                       .freq_hz = freq_hz,
                       .n_in = w->n_plane,
                       .n_out = w->n_plane,
                       .width_rad = w->array->width_rad,
                       .accuracy = c->accuracy > 0 ? c->accuracy : w->spec.accuracy};
    for (int p = 0; p < w->n_plane; p++) d.in[p] = d.out[p] = w->planes[p].pol;
    for (int64_t v = 0; v < w->array->n_pointing; v++) {
        d.view = &w->view[v];
        MSI_TRY(msi_pb_terms_make(&c->terms[band * w->array->n_pointing + v], &d));
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

/* Divide the channel into bands and compute their terms, in the first call only. */
static int open_bands(msi_pb_channel *c)
{
    double *freq_hz;
    int64_t n;
    if (c->terms) return MSI_OK;
    MSI_TRY(list_frequencies(msi_gridder_store(c->gridder), &freq_hz, &n));
    int rc = msi_alloc(&c->edge_hz, n + 2, sizeof *c->edge_hz, "bands");
    if (!rc) rc = msi_alloc(&c->terms, (n + 1) * (c->work->array->n_pointing + 1), sizeof *c->terms, "primary beams");
    int least = MSI_PB_MOST_TERMS, most = 0;
    for (int64_t first = 0, end; !rc && first < n; first = end) {
        for (end = first + 1; end < n && freq_hz[end] <= MSI_PB_WIDEST * freq_hz[first];) end++;
        c->edge_hz[c->n_band] = freq_hz[first];
        rc = make_terms(c, c->n_band, freq_hz + first, end - first);
        c->edge_hz[++c->n_band] = INFINITY;
    }
    for (int64_t i = 0; !rc && i < c->n_band * c->work->array->n_pointing; i++) {
        if (!c->terms[i].n) continue;
        least = c->terms[i].n < least ? c->terms[i].n : least;
        most = c->terms[i].n > most ? c->terms[i].n : most;
    }
    if (!rc && most)
        msi_log_detail("primary beam in major cycles: %d band%s, %d to %d terms", c->n_band, msi_plural(c->n_band),
                       least, most);
    msi_free(freq_hz);
    return rc;
}

void msi_pb_channel_free(msi_pb_channel *c)
{
    for (int64_t i = 0; c->terms && i < c->n_band * c->work->array->n_pointing; i++) msi_pb_terms_free(&c->terms[i]);
    msi_free(c->terms);
    msi_free(c->edge_hz);
    c->terms = NULL;
    c->edge_hz = NULL;
    c->n_band = 0;
}

/* ---- The samples of a band and a pointing ---- */

/* The samples of a segment that belong to one band and pointing. */
typedef struct part {
    msi_pb_rows rows; /* refers to the arrays below */
    int32_t first;    /* first channel, counted in the segment */
    int64_t *row;     /* [n_row] rows of the segment; the arrays have the size of a whole segment */
    double *uvw_m, *time_s;
    uint8_t *pair;
} part;

static void free_part(part *p)
{
    msi_free(p->row);
    msi_free(p->uvw_m);
    msi_free(p->time_s);
    msi_free(p->pair);
}

static int make_part(part *p)
{
    *p = (part){.first = 0};
    int rc = msi_alloc(&p->row, MSI_SEGMENT_ROWS, sizeof *p->row, "rows");
    if (!rc) rc = msi_alloc(&p->uvw_m, 3 * MSI_SEGMENT_ROWS, sizeof *p->uvw_m, "rows");
    if (!rc) rc = msi_alloc(&p->time_s, MSI_SEGMENT_ROWS, sizeof *p->time_s, "rows");
    if (!rc) rc = msi_alloc(&p->pair, MSI_SEGMENT_ROWS, sizeof *p->pair, "rows");
    if (rc) free_part(p);
    return rc;
}

/* Find the samples of a segment in a band and of a pointing. Returns: 0 if there are none */
static int find_part(const msi_pb_channel *c, const msi_vis_segment *g, int band, int64_t view, part *p)
{
    int32_t end = g->n_chan;
    p->first = 0;
    while (p->first < g->n_chan && g->freq_hz[p->first] < c->edge_hz[band]) p->first++;
    while (end > p->first && !(g->freq_hz[end - 1] < c->edge_hz[band + 1])) end--;
    p->rows =
        (msi_pb_rows){.n_chan = end - p->first, .freq_hz = g->freq_hz + p->first, .time_s = p->time_s, .pair = p->pair};
    if (end == p->first) return 0;
    for (int64_t i = 0; i < g->n_row; i++) {
        if (view_of(g->tag[i]) != view) continue;
        const int64_t n = p->rows.n_row++;
        p->row[n] = i;
        memcpy(p->uvw_m + 3 * n, g->uvw_m + 3 * i, 3 * sizeof *g->uvw_m);
        p->time_s[n] = c->work->low_s + 1e-3 * (double)(g->tag[i] & ((UINT64_C(1) << PAIR_SHIFT) - 1));
        p->pair[n] = (uint8_t)(g->tag[i] >> PAIR_SHIFT & 0xff);
    }
    return p->rows.n_row > 0;
}

/* Subtract visibilities from those of a segment. Given: vis [n_plane][n_row][n_chan] */
static void subtract(const msi_vis_store *s, const msi_vis_segment *g, const part *p, const msi_c64 *vis, void *from)
{
    for (int k = 0; k < s->n_plane; k++)
        for (int64_t i = 0; i < p->rows.n_row; i++)
            for (int32_t c = 0; c < p->rows.n_chan; c++) {
                const msi_c64 v = vis[(k * p->rows.n_row + i) * p->rows.n_chan + c];
                const int64_t at = msi_segment_index(g, k, p->row[i], p->first + c);
                if (s->precision == MSI_FP64) {
                    msi_c64 *to = (msi_c64 *)from + at;
                    *to = (msi_c64){to->re - v.re, to->im - v.im};
                } else {
                    msi_c32 *to = (msi_c32 *)from + at;
                    *to = (msi_c32){(float)((double)to->re - v.re), (float)((double)to->im - v.im)};
                }
            }
}

/* Subtract the visibilities of the model for some terms. Given: product  models multiplied by these terms */
static int subtract_terms(msi_pb_channel *c, int band, int64_t view, int first, int n_term, const msi_image *product,
                          void **left, part *p)
{
    const msi_vis_store *s = msi_gridder_store(c->gridder);
    const msi_pb_terms *t = &c->terms[band * c->work->array->n_pointing + view];
    const int n_plane = s->n_plane;
    msi_gridder_spec spec = c->work->spec;
    msi_gridder *g;
    msi_c64 *vis = NULL;
    int64_t n_allocated = 0, n_added = 0;
    spec.predict = 1;
    spec.residual = spec.psf = spec.tagged = 0;
    spec.n_plane = n_term * n_plane;
    spec.store_bytes = 0;
    spec.precision = product->precision == MSI_FP64 ? MSI_PRECISION_FP64 : MSI_PRECISION_FP32;
    if (c->accuracy > 0) spec.accuracy = c->accuracy;
    MSI_TRY(msi_gridder_create(&g, &spec));
    int rc = msi_gridder_model(g, product);
    for (int64_t i = 0; !rc && i < s->n_segment; i++) {
        if (!find_part(c, &s->segment[i], band, view, p)) continue;
        const msi_vis_block block = {.n_row = p->rows.n_row,
                                     .n_chan = p->rows.n_chan,
                                     .n_plane = spec.n_plane,
                                     .uvw_m = p->uvw_m,
                                     .freq_hz = p->rows.freq_hz};
        rc = msi_gridder_add(g, &block);
        n_added++;
    }
    if (!rc && n_added) rc = msi_gridder_predict(g);
    for (int64_t i = 0; !rc && n_added && i < s->n_segment; i++) {
        if (!find_part(c, &s->segment[i], band, view, p)) continue;
        const int64_t n = p->rows.n_row * p->rows.n_chan * n_plane;
        if (n * (n_term + 1) > n_allocated) {
            n_allocated = 0;
            rc = msi_grow(&vis, 0, n * (n_term + 1), sizeof *vis, "predicted samples");
            if (rc) break;
            n_allocated = n * (n_term + 1);
        }
        rc = msi_gridder_fetch(g, p->rows.n_row, p->rows.n_chan, p->rows.freq_hz, vis + n);
        memset(vis, 0, sizeof *vis * (size_t)n);
        if (!rc) msi_pb_terms_add(t, &p->rows, first, n_term, vis + n, vis);
        if (!rc) subtract(s, &s->segment[i], p, vis, left[i]);
    }
    msi_free(vis);
    msi_gridder_free(g);
    return rc;
}

/* Subtract the model from the visibilities. Given: model  in true flux; left [segments] */
static int subtract_model(msi_pb_channel *c, const msi_image *model, void **left)
{
    const int n_plane = c->work->n_plane, most = n_plane < MSI_PB_PLANES_AT_ONCE ? MSI_PB_PLANES_AT_ONCE / n_plane : 1;
    const int64_t n_view = c->work->array->n_pointing;
    part p;
    MSI_TRY(make_part(&p));
    int rc = MSI_OK;
    for (int64_t i = 0; !rc && i < c->n_band * n_view; i++) {
        const msi_pb_terms *t = &c->terms[i];
        for (int first = 0; !rc && first < t->n; first += most) {
            const int n_term = t->n - first < most ? t->n - first : most;
            msi_image product;
            rc = msi_image_alloc(&product, &model->geometry, n_term * n_plane, model->precision);
            if (!rc) rc = msi_pb_terms_apply(t, model, 0, first, n_term, &product, 0, NULL);
            if (!rc) rc = subtract_terms(c, (int)(i / n_view), i % n_view, first, n_term, &product, left, &p);
            msi_image_free(&product);
            if (!rc) rc = msi_interrupt_check();
        }
    }
    free_part(&p);
    return rc;
}

/* ---- A residual ---- */

/* Copy the visibilities of all segments. Returned: *out [segments], *memory  owned */
static int copy_samples(const msi_vis_store *s, void ***out, char **memory)
{
    const int64_t each = msi_complex_bytes(s->precision);
    int64_t bytes = 0;
    for (int64_t i = 0; i < s->n_segment; i++)
        bytes += s->n_plane * s->segment[i].n_row_max * s->segment[i].n_chan * each;
    MSI_TRY(msi_alloc(out, s->n_segment + 1, sizeof **out, "residual visibilities"));
    MSI_TRY(msi_alloc(memory, bytes + 1, 1, "residual visibilities"));
    char *at = *memory;
    for (int64_t i = 0; i < s->n_segment; i++) {
        const size_t n = (size_t)(s->n_plane * s->segment[i].n_row_max * s->segment[i].n_chan * each);
        (*out)[i] = at;
        memcpy(at, s->segment[i].vis, n);
        at += n;
    }
    return MSI_OK;
}

/* Swap the visibilities of all segments with others, and reset the gridder, so that it sorts them again. */
static void swap_samples(msi_gridder *g, void **other)
{
    msi_vis_store *s = msi_gridder_store(g);
    for (int64_t i = 0; i < s->n_segment; i++) {
        void *vis = s->segment[i].vis;
        s->segment[i].vis = other[i];
        other[i] = vis;
    }
    msi_gridder_reset(g);
}

int msi_pb_channel_residual(msi_pb_channel *c, const msi_planes *model, msi_planes *residual)
{
    const msi_planes_shape *shape = msi_planes_shape_of(model);
    msi_image image;
    void **left = NULL;
    char *memory = NULL;
    MSI_TRY(open_bands(c));
    /* Free the gridder's grids and sorted samples, because predictions allocate their own. */
    msi_gridder_reset(c->gridder);
    MSI_TRY(msi_image_alloc(&image, &c->work->spec.geometry, shape->n, shape->precision));
    int rc = msi_planes_fetch(model, 0, shape->n, image.pixel);
    if (!rc) rc = msi_pb_mean_correct(c->mean, 0, c->limit, image.pixel, &image);
    if (!rc) msi_image_blank(&image);
    if (!rc) rc = copy_samples(msi_gridder_store(c->gridder), &left, &memory);
    if (!rc) rc = subtract_model(c, &image, left);
    msi_image_free(&image);
    if (!rc) {
        swap_samples(c->gridder, left);
        rc = msi_gridder_residual(c->gridder, NULL, residual);
        swap_samples(c->gridder, left);
    }
    msi_free(left);
    msi_free(memory);
    return rc;
}
