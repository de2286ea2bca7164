/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples of facets on a GPU against their definition, written out with complex matrices in double: turned to a centre,
 * with gains of every form, with slopes, less a model; predictions that are added with gains; responses. Rows of two
 * lists of channels are mixed, some samples have no weight; feeds are linear or circular.
 */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_memory.h"
#include "kernels/facet_samples.h"

enum { N_ROW = 9000, N_ANTENNA = 7, N_SLOT = 5, N_PART = 2, MOST_CHAN = 3, MOST_PLANES = 4, MOST_MADE = 12 };
static const int n_chan[N_PART] = {3, 1};
static const double freq_hz[N_PART][MOST_CHAN] = {{140e6, 141e6, 143e6}, {150e6}};
static const double L = 0.031, M = -0.017, REFERENCE_HZ = 120e6;

typedef double complex c64;

/* A row of the set, with all that the definition needs. */
typedef struct own_row {
    int part;
    double uvw[3];
    uint64_t tag;
    c64 vis[MOST_PLANES][MOST_CHAN];
    float weight[MOST_PLANES][MOST_CHAN];
} own_row;

static own_row row[N_ROW];
static c64 jones[N_PART][N_SLOT][N_ANTENNA][MOST_CHAN][4];
static double slope[N_PART][N_SLOT][N_ANTENNA][MOST_CHAN][2], shift[N_SLOT][3][3];

static double draw(void)
{
    static uint64_t state = 5;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53 - 0.5;
}

static c64 draw_complex(void)
{
    const double re = draw();
    return re + I * draw();
}

static void draw_all(void)
{
    for (int i = 0; i < N_ROW; i++) {
        own_row *r = &row[i];
        const int p = (int)((draw() + 0.5) * N_ANTENNA), q = (int)((draw() + 0.5) * N_ANTENNA);
        r->part = i % 5 == 4;
        /* Slots 3 and 4 have no row of the second list. */
        const int slot = i / 5 % (r->part ? 3 : N_SLOT);
        r->tag = (uint64_t)p | (uint64_t)q << 16 | (uint64_t)slot << 32;
        for (int k = 0; k < 3; k++) r->uvw[k] = 800 * draw();
        for (int k = 0; k < MOST_PLANES; k++)
            for (int c = 0; c < MOST_CHAN; c++) {
                r->vis[k][c] = draw_complex();
                r->weight[k][c] = (float)(draw() < -0.4 ? 0 : 1.5 + draw());
            }
        r->weight[0][0] = 1; /* the store drops rows without a weight */
    }
    for (int a = 0; a < N_PART; a++)
        for (int s = 0; s < N_SLOT; s++)
            for (int i = 0; i < N_ANTENNA; i++)
                for (int c = 0; c < MOST_CHAN; c++) {
                    for (int e = 0; e < 4; e++) jones[a][s][i][c][e] = draw_complex();
                    for (int k = 0; k < 2; k++) slope[a][s][i][c][k] = 40 * draw();
                }
    for (int s = 0; s < N_SLOT; s++)
        for (int k = 0; k < 9; k++) shift[s][k / 3][k % 3] = 1e-3 * draw();
}

/* ---- The definition --------------------------------------------------------------------------------------------- */

typedef struct trial {
    int form, n_image, n_stored, has_slopes;
    msi_precision precision;
    int is_circular, n_term;
} trial;

/* Planes of a facet that are made together. */
typedef struct range {
    int first, n;
} range;

/* Return element (x, y) of a Jones matrix of a form. */
static c64 element(const c64 *j, int form, int x, int y)
{
    return form == 4 ? j[2 * x + y] : x != y ? 0 : form == 2 ? j[x] : j[0];
}

/* Apply gains: J_p M J_q^H, or the adjoint. */
static void apply(const own_row *r, int c, int form, int is_adjoint, c64 m[2][2])
{
    const uint64_t slot = r->tag >> 32;
    const c64 *p = jones[r->part][slot][r->tag & 0xffff][c], *q = jones[r->part][slot][r->tag >> 16 & 0xffff][c];
    c64 out[2][2] = {{0}};
    for (int x = 0; x < 2; x++)
        for (int y = 0; y < 2; y++)
            for (int i = 0; i < 2; i++)
                for (int k = 0; k < 2; k++)
                    out[x][y] += is_adjoint ? conj(element(p, form, i, x)) * m[i][k] * element(q, form, k, y)
                                            : element(p, form, x, i) * m[i][k] * conj(element(q, form, y, k));
    memcpy(m, out, sizeof out);
}

/* Apply gains to the planes of a sample: Stokes I, Q, U, V, of which the first are known; of circular feeds I and V if
 * there are two. */
static void apply_stokes(const own_row *r, int c, const trial *t, int is_adjoint, c64 *v)
{
    const int n = t->n_stored, second = t->is_circular ? 3 : 1; /* of two planes */
    c64 s[4] = {v[0]};
    for (int k = 1; k < n; k++) s[n == 2 ? second : k] = v[k];
    c64 linear[2][2] = {{s[0] + s[1], s[2] + I * s[3]}, {s[2] - I * s[3], s[0] - s[1]}};
    c64 circular[2][2] = {{s[0] + s[3], s[1] + I * s[2]}, {s[1] - I * s[2], s[0] - s[3]}};
    c64(*m)[2] = t->is_circular ? circular : linear;
    if (t->form) apply(r, c, t->form, is_adjoint, m);
    const c64 sum = (m[0][0] + m[1][1]) / 2, difference = (m[0][0] - m[1][1]) / 2, cross = (m[0][1] + m[1][0]) / 2,
              turned = (m[0][1] - m[1][0]) / (2 * I);
    const c64 out[4] = {sum, t->is_circular ? cross : difference, t->is_circular ? turned : cross,
                        t->is_circular ? difference : turned};
    v[0] = out[0];
    for (int k = 1; k < n; k++) v[k] = out[n == 2 ? second : k];
}

/* Return a power of x = frequency / reference - 1. */
static double power_at(const own_row *r, int c, int power)
{
    return pow(freq_hz[r->part][c] / REFERENCE_HZ - 1, power);
}

static c64 turn(const own_row *r, int c, int has_slopes)
{
    double path = r->uvw[0] * L + r->uvw[1] * M;
    for (int k = 0; has_slopes && k < 3; k++) path += r->uvw[k] * shift[r->tag >> 32][0][k];
    return cexp(2 * MSI_PI * I * path * freq_hz[r->part][c] / MSI_SPEED_OF_LIGHT);
}

/* Compute the coordinates of a sample, in wavelengths. */
static void coordinates(const own_row *r, int c, int has_slopes, double *uvw)
{
    const uint64_t slot = r->tag >> 32;
    for (int k = 0; k < 3; k++) {
        double metres = r->uvw[k];
        for (int i = 0; has_slopes && k < 2 && i < 3; i++) metres += r->uvw[i] * shift[slot][k + 1][i];
        uvw[k] = metres * freq_hz[r->part][c] / MSI_SPEED_OF_LIGHT;
        if (has_slopes && k < 2)
            uvw[k] +=
                (slope[r->part][slot][r->tag & 0xffff][c][k] - slope[r->part][slot][r->tag >> 16 & 0xffff][c][k]) /
                (2 * MSI_PI);
    }
}

/* ---- What is tried ---------------------------------------------------------------------------------------------- */

static msi_gridder_spec spec_of(const trial *t, int n_plane)
{
    return (msi_gridder_spec){.geometry = {64, 64, 1e-3, 1e-3},
                              .n_plane = n_plane,
                              .accuracy = t->precision == MSI_FP32 ? 1e-4 : 1e-9,
                              .precision = t->precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64,
                              .backend = MSI_BACKEND_CUDA};
}

/* Fill a store with all rows, in blocks. */
static void fill(msi_vis_store *s, const trial *t)
{
    static double uvw[3 * N_ROW];
    static uint64_t tag[N_ROW];
    static msi_c64 vis[MOST_PLANES * N_ROW * MOST_CHAN];
    static float weight[MOST_PLANES * N_ROW * MOST_CHAN];
    msi_vis_store_init(s, t->n_stored, t->precision, INFINITY, INFINITY, 0, NULL);
    s->tagged = t->form != 0;
    for (int first = 0; first < N_ROW; first += 1000)
        for (int a = 0; a < N_PART; a++) {
            int n = 0;
            for (int i = first; i < first + 1000; i++) n += row[i].part == a;
            const int64_t of_plane = (int64_t)n * n_chan[a];
            for (int i = first, at = 0; i < first + 1000; i++) {
                if (row[i].part != a) continue;
                memcpy(uvw + 3 * at, row[i].uvw, sizeof row[i].uvw);
                tag[at] = row[i].tag;
                for (int k = 0; k < t->n_stored; k++)
                    for (int c = 0; c < n_chan[a]; c++) {
                        const c64 v = row[i].vis[k][c];
                        vis[k * of_plane + at * n_chan[a] + c] = (msi_c64){creal(v), cimag(v)};
                        weight[k * of_plane + at * n_chan[a] + c] = row[i].weight[k][c];
                    }
                at++;
            }
            const msi_vis_block block = {.n_row = n,
                                         .n_chan = n_chan[a],
                                         .n_plane = t->n_stored,
                                         .uvw_m = uvw,
                                         .freq_hz = freq_hz[a],
                                         .vis = vis,
                                         .weight = weight,
                                         .tag = t->form ? tag : NULL};
            assert_int_equal(msi_vis_store_add(s, &block), MSI_OK);
        }
}

static msi_facet_samples *make_samples(const trial *t, const msi_vis_store *store)
{
    static const int32_t n_antenna[N_SLOT] = {N_ANTENNA, N_ANTENNA, N_ANTENNA, N_ANTENNA, N_ANTENNA};
    msi_facet_rule rule = {
        .form = (msi_gain_form)t->form,
        .map = {.is_stokes = 1, .is_circular = t->is_circular, .n = t->n_stored, .plane = {0, 1, 2, 3}},
        .reference_hz = REFERENCE_HZ,
        .n_image = t->n_image,
        .n_term = t->n_term,
        .n_stored = t->n_stored,
        .has_slopes = t->has_slopes,
        .n_slot = t->form ? N_SLOT : 0,
        .n_antenna = n_antenna};
    msi_facet_samples *f;
    for (int k = t->n_stored; k < 4; k++) rule.map.plane[k] = -1;
    if (t->is_circular && t->n_stored == 2) {
        rule.map.plane[1] = -1;
        rule.map.plane[3] = 1;
    }
    assert_int_equal(msi_facet_samples_create(&f, store, &rule, 0, 1 << 30), MSI_EGPU);
    assert_null(f);
    assert_int_equal(msi_facet_samples_create(&f, store, &rule, 0, 1), MSI_OK);
    assert_int_equal(msi_facet_samples_n_part(f), N_PART);
    assert_int_equal(msi_facet_samples_at_once(f), t->n_image * t->n_term);
    for (int a = 0; t->form && a < N_PART; a++) {
        const msi_facet_part *p = msi_facet_samples_part(f, a);
        assert_int_equal(p->n_chan, n_chan[a]);
        assert_int_equal(p->n_used, a ? 3 : N_SLOT);
        for (int64_t i = 0; i < p->n_used; i++)
            for (int64_t antenna = 0; antenna < N_ANTENNA; antenna++)
                for (int c = 0; c < p->n_chan; c++) {
                    const int64_t at = (p->first[i] + antenna) * p->n_chan + c;
                    for (int e = 0; e < t->form; e++) {
                        const c64 g = jones[a][p->slot[i]][antenna][c][e];
                        p->jones[at * t->form + e] = (msi_c64){creal(g), cimag(g)};
                    }
                    if (t->has_slopes) memcpy(p->slope[at], slope[a][p->slot[i]][antenna][c], sizeof p->slope[at]);
                }
    }
    if (t->has_slopes) memcpy(msi_facet_samples_shift(f), shift, sizeof shift);
    assert_int_equal(msi_facet_samples_gains(f), MSI_OK);
    return f;
}

/* The order of rows in a store: those of each list of channels, in turn. */
typedef struct walk {
    int at[N_PART];
} walk;

static const own_row *next_row(walk *w, int part)
{
    while (row[w->at[part]].part != part) w->at[part]++;
    return &row[w->at[part]++];
}

static int part_of_chan(int32_t n)
{
    return n == n_chan[0] ? 0 : 1;
}

static double tolerance(const trial *t)
{
    return t->precision == MSI_FP32 ? 1e-6 : 1e-12;
}

static c64 value_of(const trial *t, const void *vis, int64_t at)
{
    if (t->precision == MSI_FP64) return ((const msi_c64 *)vis)[at].re + I * ((const msi_c64 *)vis)[at].im;
    return (double)((const msi_c32 *)vis)[at].re + I * (double)((const msi_c32 *)vis)[at].im;
}

/* Compute a sample of a facet's plane. Given: model  as check_formed. Returned: its value, weight, and uvw in wavelengths */
static void define(const trial *t, const own_row *r, int c, int plane, c64 (*model)[MOST_PLANES][MOST_CHAN], c64 *want,
                   float *weight, double *uvw)
{
    const int image = plane / t->n_term;
    c64 v[MOST_PLANES];
    int counts = 1;
    coordinates(r, c, t->has_slopes, uvw);
    for (int k = 0; k < t->n_stored; k++) {
        v[k] = r->vis[k][c];
        if (model) v[k] -= model[r - row][k][c];
        if (t->form > 1) counts &= r->weight[k][c] > 0;
    }
    apply_stokes(r, c, t, 1, v);
    *weight = counts ? r->weight[image][c] : 0;
    if (fabs(uvw[0]) > 500 || fabs(uvw[1]) > 500) *weight = 0;
    *want = *weight > 0 ? v[image] * conj(turn(r, c, t->has_slopes)) * power_at(r, c, plane % t->n_term) : 0;
}

/* The samples of a store in host memory, one after the other. */
typedef struct reader {
    const msi_vis_store *store;
    int64_t segment, row;
} reader;

/* Compare a sample of some planes, in the reader's row, with the definition. */
static void check_sample(const trial *t, const reader *at, const own_row *r, int c, range of,
                         c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    const msi_vis_segment *p = &at->store->segment[at->segment];
    const int chan = t->has_slopes ? 0 : c;
    for (int plane = 0; plane < of.n; plane++) {
        const int64_t i = msi_segment_index(p, plane, at->row, chan);
        const c64 got = value_of(t, p->vis, i);
        c64 want;
        float weight;
        double uvw[3];
        define(t, r, c, of.first + plane, model, &want, &weight, uvw);
        assert_true(p->weight[i] == weight);
        if (!(cabs(got - want) < 10 * tolerance(t)))
            fail_msg("plane %d, row %d, channel %d: %g %g for %g %g", of.first + plane, (int)(r - row), c, creal(got),
                     cimag(got), creal(want), cimag(want));
        for (int k = 0; k < 3; k++)
            assert_true(fabs(p->uvw_m[3 * at->row + k] * p->freq_hz[chan] / MSI_SPEED_OF_LIGHT - uvw[k]) < 1e-9);
    }
}

/* Compare the samples of some planes of a facet with the definition. Given: model  of each row's planes, NULL: none */
static void check_formed(const trial *t, msi_facet_samples *f, range of, c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    const msi_gridder_spec spec = spec_of(t, of.n);
    msi_gridder *g;
    walk w = {{0}};
    double sum[MOST_MADE] = {0}, found[MOST_MADE], largest[MOST_MADE];
    int64_t n[MOST_MADE] = {0}, n_found[MOST_MADE];
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_OK);
    assert_int_equal(msi_facet_samples_form(f, &(msi_facet_part_of){L, M, of.first, of.n}, g), MSI_OK);
    msi_gridder_weights(g, found, largest, n_found);
    assert_int_equal(msi_gridder_move_to_host(g), MSI_OK);
    /* Rows with slopes have one channel, so that those of both parts follow each other. */
    reader at = {.store = msi_gridder_store(g)};
    for (int a = 0; a < N_PART; a++) {
        int64_t n_row = 0;
        for (int i = 0; i < N_ROW; i++) n_row += row[i].part == a;
        for (int64_t i = 0; i < n_row; i++) {
            const own_row *r = next_row(&w, a);
            int has[MOST_CHAN] = {0}, has_any = 0;
            for (int c = 0; c < n_chan[a]; c++)
                for (int plane = 0; plane < of.n; plane++) {
                    c64 want;
                    float weight;
                    double uvw[3];
                    define(t, r, c, of.first + plane, model, &want, &weight, uvw);
                    sum[plane] += (double)weight;
                    n[plane] += weight > 0;
                    has[c] |= weight > 0;
                    has_any |= weight > 0;
                }
            for (int c = 0; c < n_chan[a]; c++) {
                /* The store drops rows without a weight. */
                if (t->has_slopes ? !has[c] : !has_any) continue;
                if (at.row == at.store->segment[at.segment].n_row) at = (reader){at.store, at.segment + 1, 0};
                check_sample(t, &at, r, c, of, model);
                at.row += t->has_slopes || c == n_chan[a] - 1;
            }
        }
    }
    for (int plane = 0; plane < of.n; plane++) {
        assert_int_equal(n[plane], n_found[plane]);
        assert_true(fabs(found[plane] - sum[plane]) < 1e-9 * sum[plane]);
    }
    msi_gridder_free(g);
}

/* The planes of a facet, together and one by one. */
static void check_all_formed(const trial *t, msi_facet_samples *f, c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    const int n = t->n_image * t->n_term;
    check_formed(t, f, (range){0, n}, model);
    for (int first = 0; n > 1 && first < n; first++) check_formed(t, f, (range){first, 1}, model);
}

/* Put a value of a prediction into an array. Returns: it, rounded */
static c64 put_value(const trial *t, void *to, int64_t at, c64 v)
{
    if (t->precision == MSI_FP32)
        ((msi_c32 *)to)[at] = (msi_c32){(float)creal(v), (float)cimag(v)};
    else
        ((msi_c64 *)to)[at] = (msi_c64){creal(v), cimag(v)};
    return value_of(t, to, at);
}

/* Draw the predictions of a part, and add them to the model. Given: there  of the gridder */
static void draw_predictions(const trial *t, const msi_gpu_samples *there, int a, walk *w, range of,
                             c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    const msi_gpu_stream on = {0, NULL};
    const int64_t n = there->n_row * there->n_chan, n_row = n / n_chan[a], each = msi_complex_bytes(t->precision);
    void *value = calloc((size_t)(of.n * n), (size_t)each);
    double *uvw_m = calloc((size_t)(3 * there->n_row), sizeof *uvw_m);
    assert_true(value && uvw_m);
    assert_int_equal(msi_gpu_download(&on, uvw_m, there->uvw_m, 3 * there->n_row * (int64_t)sizeof *uvw_m), MSI_OK);
    for (int64_t i = 0; i < n_row; i++) {
        const own_row *r = next_row(w, a);
        for (int c = 0; c < n_chan[a]; c++) {
            c64 v[MOST_PLANES] = {0};
            double uvw[3];
            for (int plane = 0; plane < of.n; plane++)
                v[(of.first + plane) / t->n_term] +=
                    put_value(t, value, plane * n + i * n_chan[a] + c, draw_complex()) * turn(r, c, t->has_slopes) *
                    power_at(r, c, (of.first + plane) % t->n_term);
            apply_stokes(r, c, t, 0, v);
            for (int k = 0; k < t->n_stored; k++) model[r - row][k][c] += v[k];
            coordinates(r, c, t->has_slopes, uvw);
            const double hz = t->has_slopes ? MSI_FACET_BENT_HZ : freq_hz[a][c];
            const int64_t in = t->has_slopes ? i * n_chan[a] + c : i;
            for (int k = 0; k < 3; k++) assert_true(fabs(uvw_m[3 * in + k] * hz / MSI_SPEED_OF_LIGHT - uvw[k]) < 1e-9);
        }
    }
    assert_int_equal(msi_gpu_upload(&on, there->vis, value, of.n * n * each), MSI_OK);
    free(value);
    free(uvw_m);
}

/* Add predictions of known values of some planes. */
static void add_predictions(const trial *t, msi_facet_samples *f, range of, c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    msi_gridder_spec spec = spec_of(t, of.n);
    msi_gridder *g;
    msi_gpu_samples there;
    walk w = {{0}};
    spec.predict = 1;
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_OK);
    assert_int_equal(msi_facet_samples_place(f, g), MSI_OK);
    for (int a = 0; a < N_PART; a++) {
        assert_int_equal(msi_gridder_gpu_samples(g, a, &there), 1);
        draw_predictions(t, &there, a, &w, of, model);
    }
    assert_int_equal(msi_facet_samples_add(f, &(msi_facet_part_of){L, M, of.first, of.n}, g), MSI_OK);
    msi_gridder_free(g);
}

/* Add predictions of all planes, and of one of them, and compare the model with the definition. */
static void check_added(const trial *t, msi_facet_samples *f, msi_vis_store *store,
                        c64 (*model)[MOST_PLANES][MOST_CHAN])
{
    memset(model, 0, sizeof *model * N_ROW);
    assert_int_equal(msi_facet_samples_model(f), MSI_OK);
    add_predictions(t, f, (range){0, t->n_image * t->n_term}, model);
    add_predictions(t, f, (range){t->n_image * t->n_term - 1, 1}, model);
    /* The model replaces the samples of the store, but not those on the device. */
    assert_int_equal(msi_facet_samples_fetch_model(f, store), MSI_OK);
    walk w = {{0}};
    for (int64_t i = 0; i < store->n_segment; i++) {
        const msi_vis_segment *p = &store->segment[i];
        for (int64_t k = 0; k < p->n_row; k++) {
            const own_row *r = next_row(&w, part_of_chan(p->n_chan));
            for (int plane = 0; plane < t->n_stored; plane++)
                for (int c = 0; c < p->n_chan; c++) {
                    const int64_t at = msi_segment_index(p, plane, k, c);
                    const c64 got = value_of(t, p->vis, at);
                    assert_true(cabs(got - model[r - row][plane][c]) < 10 * tolerance(t));
                }
        }
    }
}

static void check_response(const trial *t, msi_facet_samples *f, int power)
{
    double want[MOST_PLANES][MOST_PLANES] = {{0}}, total[MOST_PLANES] = {0};
    double sum[MOST_PLANES * MOST_PLANES], of_weights[MOST_PLANES];
    for (int i = 0; i < N_ROW; i++)
        for (int c = 0; c < n_chan[row[i].part]; c++) {
            int counts = 1;
            for (int k = 0; k < t->n_stored; k++)
                if (t->form > 1) counts &= row[i].weight[k][c] > 0;
            for (int from = 0; from < t->n_image; from++) {
                c64 v[MOST_PLANES] = {0};
                v[from] = 1;
                apply_stokes(&row[i], c, t, 0, v);
                apply_stokes(&row[i], c, t, 1, v);
                for (int to = 0; counts && to < t->n_image; to++)
                    want[to][from] += (double)row[i].weight[to][c] * creal(v[to]) * power_at(&row[i], c, power);
            }
            for (int to = 0; counts && to < t->n_image; to++)
                total[to] += (double)row[i].weight[to][c] * power_at(&row[i], c, power);
        }
    assert_int_equal(msi_facet_samples_respond(f, power, sum, of_weights), MSI_OK);
    for (int to = 0; to < t->n_image; to++) {
        assert_true(fabs(of_weights[to] - total[to]) < 1e-10 * total[to]);
        for (int from = 0; from < t->n_image; from++)
            assert_true(fabs(sum[to * t->n_image + from] - want[to][from]) < 1e-10 * total[to]);
    }
}

static void test_samples(void **state)
{
    (void)state;
    static c64 model[N_ROW][MOST_PLANES][MOST_CHAN];
    static const trial trials[] = {
        {0, 1, 1, 0, MSI_FP32, 0, 1}, {0, 4, 4, 0, MSI_FP64, 0, 1}, {1, 1, 1, 0, MSI_FP32, 0, 1},
        {1, 1, 1, 1, MSI_FP64, 0, 1}, {2, 1, 2, 0, MSI_FP32, 0, 1}, {2, 1, 2, 1, MSI_FP32, 0, 1},
        {2, 2, 2, 0, MSI_FP64, 0, 1}, {4, 1, 4, 0, MSI_FP64, 0, 1}, {4, 4, 4, 1, MSI_FP64, 0, 1},
        {2, 1, 2, 0, MSI_FP64, 1, 1}, {4, 4, 4, 0, MSI_FP64, 1, 3}};
    if (!msi_gpu_available()) skip();
    draw_all();
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        const trial *t = &trials[i];
        msi_vis_store store;
        printf("  form %d, %d of %d planes imaged, %s slopes, fp%d, %s feeds, %d terms\n", t->form, t->n_image,
               t->n_stored, t->has_slopes ? "with" : "without", t->precision == MSI_FP32 ? 32 : 64,
               t->is_circular ? "circular" : "linear", t->n_term);
        fill(&store, t);
        msi_facet_samples *f = make_samples(t, &store), *other = make_samples(t, &store);
        check_all_formed(t, f, NULL);
        if (t->form) check_response(t, f, t->n_term - 1);
        check_added(t, f, &store, model);
        check_all_formed(t, f, model);
        /* Twice the model, by way of another copy of the samples. */
        assert_int_equal(msi_facet_samples_model(other), MSI_OK);
        assert_int_equal(msi_facet_samples_add_model(other, f), MSI_OK);
        assert_int_equal(msi_facet_samples_add_model(other, f), MSI_OK);
        assert_int_equal(msi_facet_samples_copy_model(f, other), MSI_OK);
        for (int k = 0; k < N_ROW; k++)
            for (int e = 0; e < MOST_PLANES * MOST_CHAN; e++) (&model[k][0][0])[e] *= 2;
        check_all_formed(t, f, model);
        msi_facet_samples_no_model(f);
        check_all_formed(t, f, NULL);
        msi_facet_samples_free(f);
        msi_facet_samples_free(other);
        msi_vis_store_free(&store);
    }
    msi_facet_samples_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
