/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images and predictions by facets:
 *   1. Shift the phase centre of a segment's samples to the centre of a facet's box, and apply the gains.
 *   2. Sum the response of each facet over the samples, once.
 *   3. Make a gridder for the box of a facet. It predicts the facet's part of the model, which is added to the model
 *      visibilities, or it images the samples less the model.
 *   4. Process facets in parallel, on devices or threads, and add their images with their weights.
 * All steps need the rows of a segment, so they are in one file.
 */
#include "src/facets/facet_gridding.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/sample_phase.h"
#ifdef MSI_HAVE_CUDA
#include "src/facets/facet_devices.h"
#endif

/* Largest number of samples in a call of a facet's gridder, and number of segments that are formed in parallel. */
enum { BATCH_SAMPLES = 1 << 26, SEGMENTS_AT_ONCE = 16 };

/* ---- Planes and correlations ---- */

/* Return the index of a polarisation in I, Q, U, V, or in the elements of a matrix. */
static int element_of(msi_pol pol, int *is_stokes, int *is_circular)
{
    *is_stokes = pol <= MSI_POL_V;
    *is_circular = pol >= MSI_POL_RR && pol <= MSI_POL_LL;
    return *is_stokes ? (int)pol - MSI_POL_I : *is_circular ? (int)pol - MSI_POL_RR : (int)pol - MSI_POL_XX;
}

static msi_gain_planes map_of(const msi_facet_planes *p)
{
    msi_gain_planes map = {.is_circular = p->is_circular, .n = p->n_stored, .plane = {-1, -1, -1, -1}};
    for (int i = 0; i < p->n_stored; i++) {
        int is_circular;
        const int e = element_of(p->stored[i].pol, &map.is_stokes, &is_circular);
        map.plane[e] = i;
    }
    return map;
}

int msi_facet_planes_choose(msi_facet_planes *out, const msi_plane *planes, int n, const msi_facet_gains *gains,
                            int is_circular, msi_gain_form most)
{
    int n_stokes = 0;
    unsigned has = 0;
    *out = (msi_facet_planes){.n_image = n, .n_stored = n, .is_circular = is_circular};
    memcpy(out->stored, planes, sizeof *planes * (size_t)n);
    const msi_gain_form form = gains ? msi_facet_gains_form(gains) : MSI_GAIN_SCALAR;
    if (form == MSI_GAIN_SCALAR) return MSI_OK;
    if (form == MSI_GAIN_FULL && is_circular && msi_facet_gains_has_beam(gains))
        return msi_error_set(MSI_EINPUT,
                             "the primary beam of facets differs between linear feeds, but the set has circular "
                             "ones; give a model with one response, such as -pb gauss:FWHM@FREQUENCY");
    for (int i = 0; i < n; i++) {
        int is_stokes, is_of_circular;
        has |= 1u << element_of(planes[i].pol, &is_stokes, &is_of_circular);
        n_stokes += is_stokes;
        if (planes[i].imaginary)
            return msi_error_set(MSI_EUSAGE,
                                 "-pol %s: the solutions differ between the feeds and cannot be applied to images of a "
                                 "cross-hand; use Stokes parameters",
                                 msi_pol_name(planes[i].pol));
        if (!is_stokes && is_of_circular != is_circular)
            return msi_error_set(MSI_EUSAGE, "-pol %s: the set has other feeds", msi_pol_name(planes[i].pol));
    }
    if (n_stokes && n_stokes < n)
        return msi_error_set(MSI_EUSAGE, "-pol: the solutions differ between the feeds; give Stokes parameters or "
                                         "correlations, not both");
    /* Only full matrices mix a correlation with the other hand. */
    const msi_gain_form use = form < most ? form : most;
    const int first = n_stokes ? MSI_POL_I : is_circular ? MSI_POL_RR : MSI_POL_XX;
    const int partner = is_circular ? 3 : 1; /* Stokes V or Q has the difference of both feeds */
    for (int e = 0; e < 4; e++) {
        if (has >> e & 1) continue;
        const int is_needed =
            use == MSI_GAIN_FULL || (use == MSI_GAIN_DIAGONAL && n_stokes && (e == 0 || e == partner));
        /* The two parts of a raw cross-hand cannot be separated from one plane. */
        if (!is_needed || (!n_stokes && (e == 1 || e == 2))) continue;
        out->stored[out->n_stored++] = (msi_plane){.pol = (msi_pol)(first + e)};
    }
    return MSI_OK;
}

/* ---- The rows of a segment ---- */

/* The gains of all antennas and channels in one slot of time. */
typedef struct slot_gains {
    const msi_facet_gains *gains; /* NULL: none */
    msi_gain_form form;
    int facet, only_beam;
    int64_t slot, n_allocated; /* slot -1: none yet */
    msi_c64 *jones;            /* [antennas][n_chan][form] */
    double (*slope)[2];        /* [antennas][n_chan] change of the phase with l and m; NULL: constant in a facet */
    double shift[3][3];        /* shift of sources in l, m, n; its change with l; with m */
} slot_gains;

static int use_slot(slot_gains *s, int64_t slot, const msi_vis_segment *g)
{
    if (!s->gains || slot == s->slot) return MSI_OK;
    const int64_t n = msi_facet_gains_n_antenna(s->gains, slot) * g->n_chan * (int64_t)s->form;
    if (n > s->n_allocated) {
        s->n_allocated = 0;
        MSI_TRY(msi_grow(&s->jones, 0, n, sizeof *s->jones, "gains of facets"));
        if (msi_facet_gains_has_slopes(s->gains))
            MSI_TRY(msi_grow(&s->slope, 0, n / (int64_t)s->form, sizeof *s->slope, "gains of facets"));
        s->n_allocated = n;
    }
    msi_facet_gains_make(s->gains, s->facet, slot, s->only_beam, g->n_chan, g->freq_hz, s->jones, s->slope);
    if (s->slope) msi_facet_gains_shift(s->gains, s->facet, slot, s->shift);
    s->slot = slot;
    return MSI_OK;
}

static void end_gains(slot_gains *s)
{
    msi_free(s->jones);
    msi_free(s->slope);
}

static msi_c64 stored_value(const void *vis, msi_precision precision, int64_t i)
{
    if (precision == MSI_FP64) return ((const msi_c64 *)vis)[i];
    const msi_c32 v = ((const msi_c32 *)vis)[i];
    return (msi_c64){(double)v.re, (double)v.im};
}

/* A facet that is imaged or predicted, and the samples of its channel. */
typedef struct facet_pass {
    const msi_facet_work *work;
    msi_vis_store *store;
    msi_gain_planes map;
    msi_gain_form form;
    int facet, only_beam;           /* only_beam: gains without solutions */
    double l, m;                    /* centre of its box */
    const msi_facet_source *source; /* replace the samples by those of a source of 1 Jy at the centre; NULL: do not */
    void **model; /* [segments] visibilities to subtract, shaped as those of the segment; NULL: none */
    struct msi_facet_devices *devices; /* the samples on GPUs; NULL: the CPU forms them */
    int worker;                        /* index of the facet's worker, and of its device */
} facet_pass;

/* Return the number of Taylor terms, and of planes of images and models. */
static int n_term(const msi_facet_work *w)
{
    return w->n_term > 1 ? w->n_term : 1;
}
static int n_made(const msi_facet_work *w)
{
    return w->planes.n_image * n_term(w);
}

/* Return frequency / reference - 1; 0 without Taylor terms. */
static double x_of(const msi_facet_work *w, double freq_hz)
{
    return w->n_term > 1 ? freq_hz / w->reference_hz - 1 : 0;
}

static facet_pass begin_pass(const msi_facet_work *work, msi_vis_store *store)
{
    return (facet_pass){.work = work,
                        .store = store,
                        .map = map_of(&work->planes),
                        .form = work->gains ? msi_facet_gains_form(work->gains) : MSI_GAIN_SCALAR};
}

static slot_gains begin_gains(const facet_pass *p)
{
    return (slot_gains){
        .gains = p->work->gains, .form = p->form, .facet = p->facet, .only_beam = p->only_beam, .slot = -1};
}

/* Return the gains of an antenna of a row. */
static const msi_c64 *gains_of(const slot_gains *s, const msi_vis_segment *g, int antenna)
{
    return s->jones + (int64_t)antenna * g->n_chan * (int64_t)s->form;
}

/*
 * Gains with slopes: a phase that is linear in l and m is the same as a change of u and v. Each sample then has its own
 * u and v, so it is passed as a row of one channel. All these rows have one frequency, BENT_HZ.
 */
static const double BENT_HZ = MSI_FACET_BENT_HZ;

/* Return u l + v m, in metres, of a source in the middle of the facet, and the path that the shift of a-terms adds. */
static double path_of(const facet_pass *p, const slot_gains *s, const double *uvw)
{
    const double path = uvw[0] * p->l + uvw[1] * p->m;
    return s->slope ? path + uvw[0] * s->shift[0][0] + uvw[1] * s->shift[0][1] + uvw[2] * s->shift[0][2] : path;
}

/* Return the path, in metres, of the source that replaces the samples, relative to the middle of the facet. */
static double source_path(const facet_pass *p, const double *uvw)
{
    return uvw[2] * (sqrt(1 - p->l * p->l - p->m * p->m) - 1);
}

/* Compute the uvw of a row's samples. Returned: bent [n_chan][3]  metres at BENT_HZ */
static void bend_row(const slot_gains *s, const msi_vis_segment *g, int64_t row, double *bent)
{
    const double *uvw = g->uvw_m + 3 * row;
    const double(*sp)[2] = (const double(*)[2])s->slope + msi_tag_first(g->tag[row]) * g->n_chan,
          (*sq)[2] = (const double(*)[2])s->slope + msi_tag_second(g->tag[row]) * g->n_chan;
    double moved[2];
    for (int k = 0; k < 2; k++) {
        moved[k] = uvw[k];
        for (int i = 0; i < 3; i++) moved[k] += uvw[i] * s->shift[k + 1][i];
    }
    for (int32_t c = 0; c < g->n_chan; c++) {
        const double scale = g->freq_hz[c] / BENT_HZ, metres = MSI_SPEED_OF_LIGHT / (2 * MSI_PI * BENT_HZ);
        for (int k = 0; k < 2; k++) bent[3 * c + k] = moved[k] * scale + (sp[c][k] - sq[c][k]) * metres;
        bent[3 * c + 2] = uvw[2] * scale;
    }
}

/* Return the weight of a sample in a plane of the images. If gains mix planes, it is 0 unless all planes have a
 * weight. */
static float weight_of(const facet_pass *p, const msi_vis_segment *g, int plane, int64_t row, int32_t chan)
{
    const int n = p->form == MSI_GAIN_SCALAR ? 0 : p->work->planes.n_stored;
    for (int i = 0; i < n; i++)
        if (!(g->weight[msi_segment_index(g, i, row, chan)] > 0)) return 0;
    return g->weight[msi_segment_index(g, plane, row, chan)];
}

/*
 * Form the samples of a segment for the facet's gridder.
 * Returned: vis, weight [n_image][n_term][n_row][n_chan]
 *           bent [n_row][n_chan][3] uvw of gains with slopes
 */
static int form_segment(const facet_pass *p, int64_t segment, msi_c64 *vis, float *weight, double *bent)
{
    const msi_vis_store *store = p->store;
    const msi_vis_segment *g = &store->segment[segment];
    const int n = p->work->planes.n_stored, n_image = p->work->planes.n_image, is_even = msi_phases_are_even(g);
    const int terms = n_term(p->work);
    const int64_t of_plane = g->n_row * g->n_chan;
    slot_gains gains = begin_gains(p);
    int rc = MSI_OK;
    for (int64_t row = 0; !rc && row < g->n_row; row++) {
        const msi_c64 *jp = NULL, *jq = NULL;
        if (gains.gains) {
            rc = use_slot(&gains, msi_tag_slot(g->tag[row]), g);
            if (rc) break;
            jp = gains_of(&gains, g, msi_tag_first(g->tag[row]));
            jq = gains_of(&gains, g, msi_tag_second(g->tag[row]));
        }
        if (bent) bend_row(&gains, g, row, bent + 3 * row * g->n_chan);
        const double path = p->source ? source_path(p, g->uvw_m + 3 * row) : -path_of(p, &gains, g->uvw_m + 3 * row);
        msi_phases phase = msi_phases_begin(g, is_even, path);
        for (int32_t c = 0; c < g->n_chan; c++) {
            const msi_c64 factor = msi_phases_next(&phase, g, c);
            msi_c64 v[MSI_MAX_PLANES];
            for (int i = 0; i < n; i++) {
                const int64_t at = msi_segment_index(g, i, row, c);
                v[i] = p->source ? (msi_c64){i == 0, 0} : stored_value(g->vis, store->precision, at);
                if (!p->model) continue;
                const msi_c64 m = stored_value(p->model[segment], store->precision, at);
                v[i] = (msi_c64){v[i].re - m.re, v[i].im - m.im};
            }
            if (jp && p->source) msi_gains_apply(&p->map, p->form, 0, jp + c * (int)p->form, jq + c * (int)p->form, v);
            if (jp) msi_gains_apply(&p->map, p->form, 1, jp + c * (int)p->form, jq + c * (int)p->form, v);
            const double x = x_of(p->work, g->freq_hz[c]);
            for (int i = 0; i < n_image; i++) {
                msi_c64 value = msi_times(v[i], factor);
                const float w = weight_of(p, g, i, row, c);
                for (int t = i * terms; t < (i + 1) * terms; t++) {
                    vis[t * of_plane + row * g->n_chan + c] = value;
                    weight[t * of_plane + row * g->n_chan + c] = w;
                    value = (msi_c64){value.re * x, value.im * x};
                }
            }
        }
    }
    end_gains(&gains);
    return rc;
}

/* Add predicted visibilities of a facet to those of a segment. Given: vis [n_image][n_term][n_row][n_chan] at the
 * facet's centre; to  shaped as those of the segment */
static int add_predicted(const facet_pass *p, int64_t segment, const msi_c64 *vis, void *to)
{
    const msi_vis_store *store = p->store;
    const msi_vis_segment *g = &store->segment[segment];
    const int n = p->work->planes.n_stored, n_image = p->work->planes.n_image, is_even = msi_phases_are_even(g);
    const int terms = n_term(p->work);
    const int64_t of_plane = g->n_row * g->n_chan;
    msi_first_error failure = {0};
#pragma omp parallel
    {
        slot_gains gains = begin_gains(p);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < g->n_row; row++) {
            const msi_c64 *jp = NULL, *jq = NULL;
            if (gains.gains) {
                const int rc = use_slot(&gains, msi_tag_slot(g->tag[row]), g);
                if (rc) msi_first_error_keep(&failure, rc);
                if (rc) continue;
                jp = gains_of(&gains, g, msi_tag_first(g->tag[row]));
                jq = gains_of(&gains, g, msi_tag_second(g->tag[row]));
            }
            msi_phases phase = msi_phases_begin(g, is_even, path_of(p, &gains, g->uvw_m + 3 * row));
            for (int32_t c = 0; c < g->n_chan; c++) {
                const msi_c64 factor = msi_phases_next(&phase, g, c);
                msi_c64 v[MSI_MAX_PLANES] = {{0, 0}};
                const double x = x_of(p->work, g->freq_hz[c]);
                for (int i = 0; i < n_image; i++) {
                    msi_c64 sum = {0, 0};
                    for (int t = (i + 1) * terms - 1; t >= i * terms; t--) {
                        const msi_c64 term = vis[t * of_plane + row * g->n_chan + c];
                        sum = (msi_c64){sum.re * x + term.re, sum.im * x + term.im};
                    }
                    v[i] = msi_times(sum, factor);
                }
                if (jp) msi_gains_apply(&p->map, p->form, 0, jp + c * (int)p->form, jq + c * (int)p->form, v);
                for (int i = 0; i < n; i++) {
                    const int64_t at = msi_segment_index(g, i, row, c);
                    if (store->precision == MSI_FP64) {
                        ((msi_c64 *)to)[at] = msi_plus(((msi_c64 *)to)[at], v[i]);
                    } else {
                        ((msi_c32 *)to)[at].re += (float)v[i].re;
                        ((msi_c32 *)to)[at].im += (float)v[i].im;
                    }
                }
            }
        }
        end_gains(&gains);
    }
    return msi_first_error_raise(&failure);
}

/* ---- The response of a facet ---- */

/* Sums of responses. */
typedef struct response_sums {
    double *response; /* [2 n_term - 1][n_image][n_image] of responses times weights and powers of x */
    double *total;    /* [n_image] of the weights */
    double *moment;   /* [2 n_term - 1] of the weights of plane 0 times powers of x */
} response_sums;

/* Return the number of values of all sums together. */
static int n_sum(const msi_facet_work *w)
{
    const int n = w->planes.n_image, n_power = msi_facet_n_power(w);
    return n_power * n * n + n + n_power;
}

/* Place the sums in a buffer of n_sum values. */
static response_sums sums_in(const msi_facet_work *w, double *values)
{
    const int n = w->planes.n_image, n_power = msi_facet_n_power(w);
    return (response_sums){values, values + n_power * n * n, values + n_power * n * n + n};
}

/* Add a segment's samples to the sums of the response to a sky of 1 Jy. Given and returned: sums */
static int sum_response(const facet_pass *p, int64_t segment, response_sums sums)
{
    const msi_vis_segment *g = &p->store->segment[segment];
    const int n = p->work->planes.n_image, n_power = msi_facet_n_power(p->work);
    slot_gains gains = begin_gains(p);
    int rc = MSI_OK;
    for (int64_t row = 0; !rc && row < g->n_row; row++) {
        rc = use_slot(&gains, msi_tag_slot(g->tag[row]), g);
        if (rc) break;
        const msi_c64 *jp = gains_of(&gains, g, msi_tag_first(g->tag[row])),
                      *jq = gains_of(&gains, g, msi_tag_second(g->tag[row]));
        for (int32_t c = 0; c < g->n_chan; c++, jp += (int)p->form, jq += (int)p->form) {
            double weight[MSI_MAX_PLANES];
            for (int to = 0; to < n; to++) {
                weight[to] = (double)weight_of(p, g, to, row, c);
                sums.total[to] += weight[to];
            }
            const double x = x_of(p->work, g->freq_hz[c]);
            for (int k = 0; k < n_power; k++) sums.moment[k] += weight[0] * pow(x, k);
            for (int from = 0; from < n; from++) {
                msi_c64 v[MSI_MAX_PLANES] = {{0, 0}};
                v[from].re = 1;
                msi_gains_apply(&p->map, p->form, 0, jp, jq, v);
                msi_gains_apply(&p->map, p->form, 1, jp, jq, v);
                for (int to = 0; to < n; to++) {
                    double value = weight[to] * v[to].re;
                    for (int k = 0; k < n_power; k++, value *= x) sums.response[(k * n + to) * n + from] += value;
                }
            }
        }
    }
    end_gains(&gains);
    return rc;
}

/* Sum the response of a facet. Returned: sums */
static int sum_facet_response(const facet_pass *p, response_sums sums)
{
    const int n = p->work->planes.n_image, n_power = msi_facet_n_power(p->work), n_value = n_sum(p->work);
    const int64_t n_segment = p->store->n_segment;
    double *part;
    msi_first_error failure = {0};
    memset(sums.response, 0, sizeof *sums.response * (size_t)(n_power * n * n));
    memset(sums.total, 0, sizeof *sums.total * (size_t)n);
    memset(sums.moment, 0, sizeof *sums.moment * (size_t)n_power);
    if (!p->work->gains) {
        /* Without gains the response is 1. */
        for (int i = 0; i < n; i++) sums.response[i * n + i] = sums.total[i] = 1;
        sums.moment[0] = 1;
        return MSI_OK;
    }
    MSI_TRY(msi_alloc(&part, n_segment * n_value, sizeof *part, "responses of facets"));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < n_segment; i++)
        if (!msi_first_error_status(&failure))
            msi_first_error_keep(&failure, sum_response(p, i, sums_in(p->work, part + i * n_value)));
    const int rc = msi_first_error_raise(&failure);
    for (int64_t i = 0; !rc && i < n_segment; i++) {
        const response_sums more = sums_in(p->work, part + i * n_value);
        for (int k = 0; k < n_power * n * n; k++) sums.response[k] += more.response[k];
        for (int k = 0; k < n; k++) sums.total[k] += more.total[k];
        for (int k = 0; k < n_power; k++) sums.moment[k] += more.moment[k];
    }
    msi_free(part);
    return rc;
}

/* Return the response of Stokes I; without Stokes I the mean response of the planes. */
static double intensity_response(const double *correction, const msi_facet_planes *p)
{
    double mean = 0;
    for (int i = 0; i < p->n_image; i++) {
        const double c = correction[i * p->n_image + i];
        if (p->stored[i].pol == MSI_POL_I) return c;
        mean += c / p->n_image;
    }
    return mean;
}

enum { MOST_UNKNOWNS = MSI_MAX_PLANES * MSI_TAYLOR_MAX_TERM };

/* A matrix is singular if a scaled pivot is below this. */
static const double LEAST_PIVOT = 1e-12;

/* Invert a matrix [n][n]. Its rows and columns are first scaled to a diagonal of 1, because moments of a narrow band
 * differ by orders of magnitude. Returns: 0 if it is singular */
static int invert(int n, double a[MOST_UNKNOWNS][2 * MOST_UNKNOWNS], double *out)
{
    double scale[MOST_UNKNOWNS];
    for (int i = 0; i < n; i++) {
        if (!(a[i][i] > 0)) return 0;
        scale[i] = 1 / sqrt(a[i][i]);
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            a[i][k] *= scale[i] * scale[k];
            a[i][n + k] = i == k;
        }
    for (int i = 0; i < n; i++) {
        int pivot = i;
        for (int k = i + 1; k < n; k++)
            if (fabs(a[k][i]) > fabs(a[pivot][i])) pivot = k;
        if (!(fabs(a[pivot][i]) > LEAST_PIVOT)) return 0;
        for (int k = 0; k < 2 * n; k++) {
            const double t = a[i][k];
            a[i][k] = a[pivot][k];
            a[pivot][k] = t;
        }
        for (int k = 0; k < n; k++) {
            if (k == i) continue;
            const double f = a[k][i] / a[i][i];
            for (int j = 0; j < 2 * n; j++) a[k][j] -= f * a[i][j];
        }
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) out[i * n + k] = scale[i] * a[i][n + k] / a[i][i] * scale[k];
    return 1;
}

/* Return the response of a facet with these corrections [2 n_term - 1][n_image][n_image]: sqrt(C of I). With terms it
 * is the response for which term 0 of H C^-1 R has the noise of the samples. */
static double response_of(const msi_facet_channel *c, const double *correction)
{
    const msi_facet_work *w = c->work;
    const int n = w->planes.n_image, terms = n_term(w);
    const double of_first = fmax(0, intensity_response(correction, &w->planes));
    double a[MOST_UNKNOWNS][2 * MOST_UNKNOWNS], inverse[MOST_UNKNOWNS * MOST_UNKNOWNS], sum = 0;
    if (terms == 1 || !w->gains) return sqrt(of_first);
    for (int t = 0; t < terms; t++)
        for (int q = 0; q < terms; q++) a[t][q] = intensity_response(correction + (int64_t)(t + q) * n * n, &w->planes);
    if (!invert(terms, a, inverse)) return 0;
    for (int t = 0; t < terms; t++)
        for (int q = 0; q < terms; q++) sum += c->moment[t] * inverse[t * terms + q] * c->moment[q];
    return sum > 0 ? 1 / sqrt(sum) : 0;
}

/* Return the part of an array [facets][2 n_term - 1][n_image][n_image] that belongs to a facet. */
static const double *of_facet(const msi_facet_channel *c, const double *all, int facet)
{
    return all + facet * (msi_facet_n_correction(c) / c->work->facets->n);
}

double msi_facet_response(const msi_facet_channel *c, int facet)
{
    return response_of(c, of_facet(c, c->correction, facet));
}

double msi_facet_beam(const msi_facet_channel *c, int facet)
{
    return c->beam ? response_of(c, of_facet(c, c->beam, facet)) : 1;
}

/* Compute the matrix [n_image n_term]^2 that converts a facet's image to flat noise: the response times H C^-1, with
 * H = 1 without terms. If the response is 0, the matrix is 0. */
static void find_matrix(const msi_facet_channel *c, int facet, double *out)
{
    const msi_facet_work *w = c->work;
    const double *correction = of_facet(c, c->correction, facet), scale = msi_facet_response(c, facet);
    const int n = w->planes.n_image, terms = n_term(w), n_all = n * terms;
    double a[MOST_UNKNOWNS][2 * MOST_UNKNOWNS], inverse[MOST_UNKNOWNS * MOST_UNKNOWNS];
    memset(out, 0, sizeof *out * (size_t)(n_all * n_all));
    if (!w->gains) {
        for (int i = 0; i < n_all; i++) out[i * n_all + i] = 1;
        return;
    }
    for (int i = 0; i < n_all; i++)
        for (int k = 0; k < n_all; k++) a[i][k] = correction[((i % terms + k % terms) * n + i / terms) * n + k / terms];
    if (!(scale > 0) || !invert(n_all, a, inverse)) return;
    for (int i = 0; i < n_all; i++)
        for (int k = 0; k < n_all; k++)
            for (int q = 0; q < terms; q++)
                out[i * n_all + k] +=
                    scale * (terms > 1 ? c->moment[i % terms + q] : 1) * inverse[(i / terms * terms + q) * n_all + k];
}

/* ---- Gridders of facets ---- */

/* Segments [first, end) of a store. */
typedef struct batch {
    int64_t first, end, n_sample, n_row;
} batch;

static batch next_batch(const msi_vis_store *s, int64_t first)
{
    batch b = {first, first, 0, 0};
    while (b.end < s->n_segment) {
        const msi_vis_segment *g = &s->segment[b.end];
        const int64_t n = g->n_row * g->n_chan;
        if (b.end > first && b.n_sample + n > BATCH_SAMPLES) break;
        b.n_sample += n;
        b.n_row += g->n_row;
        b.end++;
    }
    return b;
}

/* Return the specification of a gridder of a facet's box. */
static msi_gridder_spec spec_of(const facet_pass *p, double accuracy, int predicts)
{
    msi_gridder_spec spec = p->work->spec;
    if (p->source) {
        spec.geometry = p->source->geometry;
    } else {
        spec.geometry.nx = p->work->facets->facet[p->facet].nx;
        spec.geometry.ny = p->work->facets->facet[p->facet].ny;
    }
    spec.l_center_rad = p->l;
    spec.m_center_rad = p->m;
    spec.n_plane = n_made(p->work);
    spec.n_term = 0;
    spec.psf = spec.psf_only = spec.residual = spec.tagged = 0;
    spec.predict = predicts;
    spec.precision = p->store->precision == MSI_FP32 ? MSI_PRECISION_FP32 : MSI_PRECISION_FP64;
    spec.n_thread = 0; /* those of the facet's worker */
    if (accuracy > 0) spec.accuracy = accuracy;
    /* The strategy of the whole image may need a centred image, as towers do. */
    spec.strategy = NULL;
    spec.store_bytes = 0;
    return spec;
}

static int make_gridder(const facet_pass *p, double accuracy, int predicts, msi_gridder **out)
{
    const msi_gridder_spec spec = spec_of(p, accuracy, predicts);
    return msi_gridder_create(out, &spec);
}

static int has_slopes(const facet_pass *p)
{
    return p->work->gains && !p->source && msi_facet_gains_has_slopes(p->work->gains);
}

/* Return the block of a segment, with its coordinates. Given: bent [n_row][n_chan][3]; NULL: none */
static msi_vis_block block_of(const msi_vis_segment *g, int n_plane, const double *bent)
{
    const int is_bent = bent != NULL;
    return (msi_vis_block){.n_row = is_bent ? g->n_row * g->n_chan : g->n_row,
                           .n_chan = is_bent ? 1 : g->n_chan,
                           .n_plane = n_plane,
                           .uvw_m = is_bent ? bent : g->uvw_m,
                           .freq_hz = is_bent ? &BENT_HZ : g->freq_hz};
}

/* Compute the uvw of all samples of a segment. Returned: bent [n_row][n_chan][3] */
static int bend_segment(const facet_pass *p, const msi_vis_segment *g, double *bent)
{
    msi_first_error failure = {0};
#pragma omp parallel
    {
        slot_gains gains = begin_gains(p);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < g->n_row; row++) {
            const int rc = use_slot(&gains, msi_tag_slot(g->tag[row]), g);
            if (rc) msi_first_error_keep(&failure, rc);
            if (!rc) bend_row(&gains, g, row, bent + 3 * row * g->n_chan);
        }
        end_gains(&gains);
    }
    return msi_first_error_raise(&failure);
}

static int add_samples(const facet_pass *p, msi_gridder *gridder, const batch *b)
{
    const msi_vis_store *s = p->store;
    const int n_image = n_made(p->work);
    int64_t most = 0, most_sample = 0;
    msi_c64 *vis = NULL;
    float *weight = NULL;
    double *bent = NULL;
    for (int64_t i = b->first; i < b->end; i++) {
        const int64_t n = s->segment[i].n_row * s->segment[i].n_chan;
        most_sample = n > most_sample ? n : most_sample;
    }
    most = n_image * most_sample;
    int rc = msi_alloc(&vis, SEGMENTS_AT_ONCE * most, sizeof *vis, "samples of a facet");
    if (!rc) rc = msi_alloc(&weight, SEGMENTS_AT_ONCE * most, sizeof *weight, "samples of a facet");
    if (!rc && has_slopes(p))
        rc = msi_alloc(&bent, 3 * SEGMENTS_AT_ONCE * most_sample, sizeof *bent, "samples of a facet");
    for (int64_t first = b->first; !rc && first < b->end; first += SEGMENTS_AT_ONCE) {
        const int64_t n = b->end - first < SEGMENTS_AT_ONCE ? b->end - first : SEGMENTS_AT_ONCE;
        msi_vis_block block[SEGMENTS_AT_ONCE];
        msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n; i++) {
            const msi_vis_segment *g = &s->segment[first + i];
            block[i] = block_of(g, n_image, bent ? bent + 3 * i * most_sample : NULL);
            block[i].vis = vis + i * most;
            block[i].weight = weight + i * most;
            if (msi_first_error_status(&failure)) continue;
            msi_first_error_keep(&failure, form_segment(p, first + i, vis + i * most, weight + i * most,
                                                        bent ? bent + 3 * i * most_sample : NULL));
        }
        rc = msi_first_error_raise(&failure);
        if (!rc) rc = msi_gridder_add_all(gridder, block, (int)n);
        if (!rc) rc = msi_interrupt_check();
    }
    msi_free(vis);
    msi_free(weight);
    msi_free(bent);
    return rc;
}

/* Image a facet, batch by batch. Returned: *out  the facet's box; empty without samples. *report  with the times of all
 * batches */
static int image_facet(const facet_pass *p, double accuracy, msi_image *out, msi_gridder_report *report)
{
    *out = (msi_image){0};
    *report = (msi_gridder_report){0};
    int rc = MSI_OK;
    for (batch b = next_batch(p->store, 0); !rc && b.first < p->store->n_segment; b = next_batch(p->store, b.end)) {
        msi_gridder *g;
        msi_image image = {0};
        msi_gridder_report now;
        MSI_TRY(make_gridder(p, accuracy, 0, &g));
        rc = add_samples(p, g, &b);
        if (!rc) rc = msi_gridder_image(g, &image);
        msi_gridder_report_get(g, &now);
        if (!rc) msi_gridder_report_add(report, &now);
        msi_gridder_free(g);
        if (!rc && !out->pixel) {
            *out = image;
            continue;
        }
        if (!rc) msi_image_add(out, &image);
        msi_image_free(&image);
    }
    if (rc) msi_image_free(out);
    return rc;
}

/* ---- Models of facets ---- */

/* A model of the whole image. */
typedef struct facet_model {
    const msi_image *image; /* [n_image][n_term] planes */
    int by_term;            /* [n_term][n_image] */
} facet_model;

/* Copy the part of a model that belongs to a facet. Returned: *out  planes [n_image][n_term] of the facet's box;
 * *is_zero  1 if all pixels are 0 */
static int cut_model(const facet_pass *p, const facet_model *of, const float *weight, double scale, msi_image *out,
                     int *is_zero)
{
    const msi_image *model = of->image;
    const int n_image = p->work->planes.n_image, terms = n_term(p->work);
    const msi_facets *all = p->work->facets;
    const msi_facet *f = &all->facet[p->facet];
    const msi_image_geometry box = {f->nx, f->ny, all->geometry.cell_x_rad, all->geometry.cell_y_rad};
    int found = 0;
    MSI_TRY(msi_image_alloc(out, &box, model->n_plane, model->precision));
    for (int k = 0; k < model->n_plane; k++) {
        const void *from = msi_image_plane(model, of->by_term ? k % terms * n_image + k / terms : k);
#pragma omp parallel for schedule(static) reduction(| : found)
        for (int64_t y = 0; y < f->ny; y++)
            for (int64_t x = 0; x < f->nx; x++) {
                const double w = (double)weight[y * f->nx + x];
                if (w == 0) continue;
                const double v = msi_image_value(from, model->precision, (f->y0 + y) * all->geometry.nx + f->x0 + x);
                if (v == 0) continue;
                found = 1;
                msi_image_set(out, k, y * f->nx + x, w * scale * v);
            }
    }
    *is_zero = !found;
    return MSI_OK;
}

/* Number of strips of the samples. Facets are added to each strip in their order, so that results do not depend on the
 * number of threads. Threads work on different strips at the same time. */
enum { STRIPS = 32 };

/* Begin to add to a segment; wait for its strip if needed. Given and returned: *strip  the current strip; -1: none */
static int begin_strip(const msi_vis_store *s, int64_t segment, int *strip)
{
    const int of_segment = (int)(segment * STRIPS / s->n_segment);
    while (*strip < of_segment) {
        if (*strip >= 0) msi_ordered_step_end(*strip);
        MSI_TRY(msi_ordered_step_begin(++*strip));
    }
    return MSI_OK;
}

/* Predict a facet, batch by batch, and add it to visibilities. Given: to [segments] */
static int predict_facet(const facet_pass *p, double accuracy, const msi_image *model, void **to)
{
    const msi_vis_store *s = p->store;
    const int is_bent = has_slopes(p);
    msi_gridder *g;
    msi_c64 *vis = NULL;
    double *bent = NULL;
    int64_t n_allocated = 0, n_bent = 0;
    int strip = -1;
    MSI_TRY(make_gridder(p, accuracy, 1, &g));
    int rc = msi_gridder_model(g, model);
    batch b = next_batch(s, 0);
    if (!rc && b.end < s->n_segment)
        msi_gridder_expect(g, b.n_sample, is_bent ? b.n_sample : b.n_row, s->w_min_lambda, s->w_max_lambda);
    for (; !rc && b.first < s->n_segment; b = next_batch(s, b.end)) {
        for (int64_t i = b.first; !rc && i < b.end; i++) {
            const msi_vis_segment *segment = &s->segment[i];
            const int64_t n = 3 * segment->n_row * segment->n_chan;
            if (is_bent && n > n_bent) {
                n_bent = 0;
                rc = msi_grow(&bent, 0, n, sizeof *bent, "predicted samples of a facet");
                if (rc) break;
                n_bent = n;
            }
            if (is_bent) rc = bend_segment(p, segment, bent);
            const msi_vis_block block = block_of(segment, n_made(p->work), bent);
            if (!rc) rc = msi_gridder_add(g, &block);
        }
        if (!rc) rc = msi_gridder_predict(g);
        for (int64_t i = b.first; !rc && i < b.end; i++) {
            const msi_vis_segment *segment = &s->segment[i];
            const int64_t n = n_made(p->work) * segment->n_row * segment->n_chan;
            if (n > n_allocated) {
                n_allocated = 0;
                rc = msi_grow(&vis, 0, n, sizeof *vis, "predicted samples of a facet");
                if (rc) break;
                n_allocated = n;
            }
            const msi_vis_block block = block_of(segment, n_made(p->work), bent);
            rc = begin_strip(s, i, &strip);
            if (!rc) rc = msi_gridder_fetch(g, block.n_row, block.n_chan, block.freq_hz, vis);
            if (!rc) rc = add_predicted(p, i, vis, to[i]);
        }
        msi_gridder_clear(g);
        if (!rc) rc = msi_interrupt_check();
    }
    msi_free(vis);
    msi_free(bent);
    msi_gridder_free(g);
    return rc;
}

/* ---- All facets, in parallel on workers: devices, or threads of the CPU ---- */

#ifdef MSI_HAVE_CUDA
static msi_facet_task task_of(const facet_pass *p, const msi_gridder_spec *spec)
{
    return (msi_facet_task){.facet = p->facet, .only_beam = p->only_beam, .l = p->l, .m = p->m, .spec = *spec};
}
#endif

/* Copy the samples to the GPUs of their gridder, if it has any. Returned: p->devices  closed by end_pass */
static int begin_devices(facet_pass *p, msi_gridder *gridder)
{
#ifdef MSI_HAVE_CUDA
    const msi_facet_terms terms = {p->work->planes.n_image, n_term(p->work), p->work->reference_hz};
    return msi_facet_devices_open(&p->devices, gridder, p->work->gains, &p->map, p->form, &terms, p->work->facets->n);
#else
    (void)p;
    (void)gridder;
    return MSI_OK;
#endif
}

static void end_pass(facet_pass *p)
{
#ifdef MSI_HAVE_CUDA
    msi_facet_devices_close(p->devices);
#endif
    p->devices = NULL;
}

/* Use the samples that the last call left on the GPUs, or copy them there. Returned: p->devices  returned to the
 * channel by leave_devices */
static int take_devices(facet_pass *p, msi_facet_channel *c)
{
    if (!c->devices) return begin_devices(p, c->gridder);
    p->devices = c->devices;
    c->devices = NULL;
    return MSI_OK;
}

static void leave_devices(facet_pass *p, msi_facet_channel *c)
{
#ifdef MSI_HAVE_CUDA
    if (p->devices && msi_facet_devices_may_stay(p->devices)) {
        msi_facet_devices_no_model(p->devices);
        c->devices = p->devices;
        p->devices = NULL;
    }
#endif
    (void)c;
    end_pass(p);
}

static int64_t n_pixel(const msi_facets *f, int facet)
{
    return f->facet[facet].nx * f->facet[facet].ny;
}

/* Choose the number of facets that are processed in parallel: one on each device, or limited by CPU threads and
 * memory. */
static int choose_workers(const facet_pass *p, int *n)
{
    const msi_facet_work *w = p->work;
    const msi_vis_store *s = p->store;
    const batch b = next_batch(s, 0);
    facet_pass largest = *p;
    msi_gridder *g;
    msi_gridder_report report;
    *n = 1;
#ifdef MSI_HAVE_CUDA
    if (p->devices) *n = msi_facet_devices_n(p->devices);
    if (p->devices) return MSI_OK;
#endif
    largest.facet = 0;
    for (int i = 1; i < w->facets->n; i++)
        if (n_pixel(w->facets, i) > n_pixel(w->facets, largest.facet)) largest.facet = i;
    msi_facets_centre(w->facets, largest.facet, &largest.l, &largest.m);
    MSI_TRY(make_gridder(&largest, 0, 0, &g));
    int rc = msi_gridder_estimate(g, b.n_sample, b.n_row, s->w_min_lambda, s->w_max_lambda, &report);
    msi_gridder_free(g);
    MSI_TRY(rc);
    if (report.backend != MSI_BACKEND_CPU) return MSI_OK;
    const int64_t each =
        report.grid_bytes +
        msi_facet_bytes(b.n_sample, b.n_row, n_made(w), w->planes.n_stored, s->precision, 0, has_slopes(p)) +
        2 * n_made(w) * n_pixel(w->facets, largest.facet) * msi_image_pixel_bytes(s->precision);
    *n = msi_ordered_at_once(w->facets->n, each, (msi_memory_limit() - msi_memory_in_use()) / 2);
    return MSI_OK;
}

/* Results of a facet. */
typedef struct facet_turn {
    float *weight; /* [ny][nx] of its box */
    msi_image image;
    msi_gridder_report report;
    double weights_s, sums_s; /* seconds of all facets so far */
#ifdef MSI_HAVE_CUDA
    msi_facet_times times;
#endif
} facet_turn;

/* A task for all facets: worker i % n_worker processes facet i. */
typedef struct facet_turns {
    facet_pass pass;
    double accuracy;
    msi_facet_channel *channel;
    /* Members for predictions: */
    facet_model model;
    const double *scale; /* [facets] factors of the model, NULL: 1 */
    void **to;           /* [segments] zeroed, where the CPU adds visibilities */
    /* Members for images: */
    msi_image *out;
    facet_turn *made; /* [n_worker] results; predictions set only the times */
    int n_worker;
} facet_turns;

/* Log the time of all facets. Given: what  a verb, such as "imaged" */
static void report_turns(const facet_turns *t, const char *what, double seconds)
{
    char parts[200] = "";
#ifdef MSI_HAVE_CUDA
    facet_turn sum = {0};
    for (int i = 0; i < t->n_worker; i++) {
        sum.weights_s += t->made[i].weights_s;
        sum.sums_s += t->made[i].sums_s;
        sum.times.gains_s += t->made[i].times.gains_s;
        sum.times.samples_s += t->made[i].times.samples_s;
        sum.times.gridders_s += t->made[i].times.gridders_s;
    }
    if (t->pass.devices)
        snprintf(parts, sizeof parts, "%s: weights %.3f s, gains %.3f s, samples %.3f s, gridders %.3f s, sums %.3f s",
                 t->n_worker == 1 ? " on the GPU" : " on several GPUs", sum.weights_s, sum.times.gains_s,
                 sum.times.samples_s, sum.times.gridders_s, sum.sums_s);
#endif
    msi_log_detail("facets: %s %d in %.3f s%s", what, t->pass.work->facets->n, seconds, parts);
}

/* Call `work` for all facets in parallel, and `done` in the order of facets. Given: what  a verb for the log; NULL: do
 * not log */
static int run_turns(facet_turns *t, const char *what, int (*work)(void *of, int64_t i),
                     int (*finish)(void *of, int64_t i))
{
    const double start = msi_wall_s();
    MSI_TRY(choose_workers(&t->pass, &t->n_worker));
    MSI_TRY(msi_alloc(&t->made, t->n_worker, sizeof *t->made, "facets"));
    const msi_ordered_parallel turns = {
        .n_item = t->pass.work->facets->n, .n_thread = t->n_worker, .work = work, .finish = finish, .of = t};
    const int rc = msi_ordered_parallel_run(&turns);
    if (!rc && what) report_turns(t, what, msi_wall_s() - start);
    for (int i = 0; i < t->n_worker; i++) {
        msi_free(t->made[i].weight);
        msi_image_free(&t->made[i].image);
    }
    msi_free(t->made);
    return rc;
}

/* Return the pass of a facet, with its centre and worker. */
static facet_pass pass_of(const facet_turns *t, int64_t facet)
{
    facet_pass p = t->pass;
    p.facet = (int)facet;
    p.worker = (int)(facet % t->n_worker);
    msi_facets_centre(p.work->facets, p.facet, &p.l, &p.m);
    return p;
}

/* Compute the weights of a facet's box. Returned: *weight [ny][nx], freed by the caller */
static int weigh_facet(const facet_turns *t, const facet_pass *p, float **weight)
{
    const msi_facets *f = p->work->facets;
    const double start = msi_wall_s();
    MSI_TRY(msi_alloc(weight, f->facet[p->facet].nx * f->facet[p->facet].ny, sizeof **weight, "weights of a facet"));
    const int rc = msi_facets_weights(f, p->facet, *weight);
    t->made[p->worker].weights_s += msi_wall_s() - start;
    if (rc) msi_free(*weight);
    if (rc) *weight = NULL;
    return rc;
}

static int predict_turn(void *of, int64_t facet)
{
    const facet_turns *t = of;
    const facet_pass p = pass_of(t, facet);
    float *weight;
    msi_image part = {0};
    int is_zero;
    MSI_TRY(weigh_facet(t, &p, &weight));
    const double start = msi_wall_s();
    int rc = cut_model(&p, &t->model, weight, t->scale ? t->scale[facet] : 1, &part, &is_zero);
    t->made[p.worker].sums_s += msi_wall_s() - start;
    msi_free(weight);
    if (!rc && !is_zero) {
#ifdef MSI_HAVE_CUDA
        const msi_gridder_spec spec = spec_of(&p, t->accuracy, 1);
        const msi_facet_task task = task_of(&p, &spec);
        if (p.devices)
            rc = msi_facet_devices_predict(p.devices, p.worker, &task, &part, &t->made[p.worker].times);
        else
#endif
            rc = predict_facet(&p, t->accuracy, &part, t->to);
    }
    msi_image_free(&part);
    return rc;
}

static int predict_done(void *of, int64_t facet)
{
    (void)of;
    (void)facet;
    return msi_interrupt_check();
}

/* Predict all facets. Returned: the model visibilities, in t->pass.devices, or without devices in t->to */
static int predict_all(facet_turns *t)
{
    int rc = MSI_OK;
#ifdef MSI_HAVE_CUDA
    if (t->pass.devices) rc = msi_facet_devices_model(t->pass.devices);
#endif
    if (!rc) rc = run_turns(t, "predicted", predict_turn, predict_done);
#ifdef MSI_HAVE_CUDA
    if (!rc && t->pass.devices) rc = msi_facet_devices_join_model(t->pass.devices);
#endif
    return rc;
}

int msi_facet_predict(const msi_facet_work *work, msi_gridder *gridder, const msi_image *model)
{
    facet_turns t = {.pass = begin_pass(work, msi_gridder_store(gridder)), .model = {model, 1}};
    msi_vis_store *s = t.pass.store;
    MSI_TRY(msi_alloc(&t.to, s->n_segment + 1, sizeof *t.to, "visibilities of facets"));
    for (int64_t i = 0; i < s->n_segment; i++) t.to[i] = s->segment[i].vis;
    int rc = begin_devices(&t.pass, gridder);
    for (int k = 0; k < s->n_plane && !t.pass.devices; k++) msi_vis_store_zero(s, k);
    if (!rc) rc = predict_all(&t);
#ifdef MSI_HAVE_CUDA
    if (!rc && t.pass.devices) rc = msi_facet_devices_fetch_model(t.pass.devices);
#endif
    end_pass(&t.pass);
    msi_vis_store_rewind(s);
    msi_free(t.to);
    return rc;
}

/* ---- Images ---- */

/* Add a facet's image to the whole image. Given: inverse [n_image n_term]^2 */
static void add_facet(const facet_pass *p, const msi_image *facet, const float *weight, const double *inverse,
                      msi_image *out)
{
    const msi_facets *all = p->work->facets;
    const msi_facet *f = &all->facet[p->facet];
    const int n = out->n_plane;
    const int64_t of_facet = f->nx * f->ny;
#pragma omp parallel for schedule(static)
    for (int64_t y = 0; y < f->ny; y++)
        for (int64_t x = 0; x < f->nx; x++) {
            const int64_t from = y * f->nx + x, to = (f->y0 + y) * all->geometry.nx + f->x0 + x;
            const double w = (double)weight[from];
            if (w == 0) continue;
            for (int i = 0; i < n; i++) {
                double sum = 0;
                for (int k = 0; k < n; k++)
                    if (inverse[i * n + k] != 0)
                        sum +=
                            inverse[i * n + k] * msi_image_value(facet->pixel, facet->precision, k * of_facet + from);
                void *plane = msi_image_plane(out, i);
                if (out->precision == MSI_FP32)
                    ((float *)plane)[to] += (float)(w * sum);
                else
                    ((double *)plane)[to] += w * sum;
            }
        }
}

/* Set the pixels beyond the horizon to NaN. */
static void hide_horizon(const msi_facets *f, msi_image *out)
{
    const int64_t n = msi_image_n_pixel(&f->geometry);
    for (int k = 0; k < out->n_plane; k++) {
        for (int64_t i = 0; i < n; i++)
            if (f->label[i] < 0) msi_image_set(out, k, i, (double)NAN);
    }
}

/* Allocate zeroed visibilities shaped as those of the segments. */
static int make_model_samples(const msi_vis_store *s, void ***out, char **memory)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < s->n_segment; i++)
        bytes += s->n_plane * s->segment[i].n_row_max * s->segment[i].n_chan * msi_complex_bytes(s->precision);
    MSI_TRY(msi_alloc(out, s->n_segment + 1, sizeof **out, "visibilities of the model"));
    MSI_TRY(msi_alloc(memory, bytes + 1, 1, "visibilities of the model"));
    char *at = *memory;
    for (int64_t i = 0; i < s->n_segment; i++) {
        (*out)[i] = at;
        at += s->n_plane * s->segment[i].n_row_max * s->segment[i].n_chan * msi_complex_bytes(s->precision);
    }
    return MSI_OK;
}

/* Sum the response of a facet with all gains, and the response with the beam only. */
static int respond_turn(void *of, int64_t facet)
{
    const facet_turns *t = of;
    msi_facet_channel *c = t->channel;
    const int n = c->work->planes.n_image, n_power = msi_facet_n_power(c->work);
    facet_pass p = pass_of(t, facet);
    double total[MSI_MAX_PLANES], moment[MSI_TAYLOR_MAX_NODE] = {1};
    for (int only_beam = 0; only_beam < (c->beam ? 2 : 1); only_beam++) {
        double *sum = (only_beam ? c->beam : c->correction) + facet * n_power * n * n;
        p.only_beam = only_beam;
#ifdef MSI_HAVE_CUDA
        const msi_facet_task task = task_of(&p, &c->work->spec);
        if (p.devices && p.work->gains)
            MSI_TRY(msi_facet_devices_respond(p.devices, p.worker, &task, sum, total, moment));
        else
#endif
            MSI_TRY(sum_facet_response(&p, (response_sums){sum, total, moment}));
    }
    if (facet == 0) memcpy(c->total, total, sizeof *total * (size_t)n);
    if (facet == 0) memcpy(c->moment, moment, sizeof *moment * (size_t)n_power);
    return msi_interrupt_check();
}

int msi_facet_respond(msi_facet_channel *c)
{
    facet_turns t = {.pass = begin_pass(c->work, msi_gridder_store(c->gridder)), .channel = c};
    const int n = c->work->planes.n_image, n_power = msi_facet_n_power(c->work);
    MSI_TRY(msi_alloc(&c->correction, msi_facet_n_correction(c), sizeof *c->correction, "responses of facets"));
    MSI_TRY(msi_alloc(&c->moment, n_power, sizeof *c->moment, "responses of facets"));
    MSI_TRY(msi_alloc(&c->total, n, sizeof *c->total, "responses of facets"));
    /* Facets of a-terms interpolate the whole response, so the beam is not separated. */
    const int has_beam = c->work->gains && msi_facet_gains_has_beam(c->work->gains) && !has_slopes(&t.pass);
    if (has_beam) MSI_TRY(msi_alloc(&c->beam, msi_facet_n_correction(c), sizeof *c->beam, "responses of facets"));
    if (c->work->gains) MSI_TRY(take_devices(&t.pass, c));
    const int rc = run_turns(&t, NULL, respond_turn, NULL);
    leave_devices(&t.pass, c);
    return rc;
}

void msi_facet_responses_done(msi_facet_channel *c)
{
    const int n = c->work->planes.n_image, n_power = msi_facet_n_power(c->work);
    for (int64_t i = 0; i < msi_facet_n_correction(c); i++) {
        const double total = c->total[i / n % n], none = i / (n * n) % n_power == 0 && i % (n * n) % (n + 1) == 0;
        c->correction[i] = total > 0 ? c->correction[i] / total : none;
        if (c->beam) c->beam[i] = total > 0 ? c->beam[i] / total : none;
    }
    for (int k = n_power - 1; k >= 0; k--) c->moment[k] = c->moment[0] > 0 ? c->moment[k] / c->moment[0] : k == 0;
    for (int i = 0; i < c->work->facets->n; i++) {
        const double response = msi_facet_response(c, i);
        const char *name = c->work->facets->facet[i].name;
        msi_log_detail("facet %d \"%s\": response %.6g", i, name, response);
        if (response > 0) continue;
        if (intensity_response(of_facet(c, c->correction, i), &c->work->planes) > 0)
            msi_log_warning(
                "facet %d \"%s\": the frequencies of its samples do not determine %d Taylor terms; its part of "
                "the image is 0; give fewer -nterms",
                i, name, n_term(c->work));
        else
            msi_log_warning("facet %d \"%s\" has no solution of any sample; its part of the image is 0", i, name);
    }
}

static int image_turn(void *of, int64_t facet)
{
    facet_turns *t = of;
    const facet_pass p = pass_of(t, facet);
    facet_turn *made = &t->made[p.worker];
    MSI_TRY(weigh_facet(t, &p, &made->weight));
#ifdef MSI_HAVE_CUDA
    const msi_gridder_spec spec = spec_of(&p, t->accuracy, 0);
    const msi_facet_task task = task_of(&p, &spec);
    if (p.devices)
        return msi_facet_devices_image(p.devices, p.worker, &task, &made->image, &made->report, &made->times);
#endif
    return image_facet(&p, t->accuracy, &made->image, &made->report);
}

static int image_done(void *of, int64_t facet)
{
    facet_turns *t = of;
    const facet_pass p = pass_of(t, facet);
    facet_turn *made = &t->made[p.worker];
    double matrix[MOST_UNKNOWNS * MOST_UNKNOWNS];
    const double start = msi_wall_s();
    find_matrix(t->channel, p.facet, matrix);
    if (made->image.pixel) {
        msi_gridder_report_add(&t->channel->report, &made->report);
        add_facet(&p, &made->image, made->weight, matrix, t->out);
    }
    made->sums_s += msi_wall_s() - start;
    msi_image_free(&made->image);
    msi_free(made->weight);
    made->weight = NULL;
    return msi_interrupt_check();
}

/* Predict a model that images subtract. Returned: *predicted, *memory  visibilities on the CPU, freed by the caller */
static int predict_model(facet_turns *t, const msi_image *model, void ***predicted, char **memory)
{
    const msi_facet_channel *c = t->channel;
    const int n_facet = c->work->facets->n;
    double *scale;
    MSI_TRY(msi_alloc(&scale, n_facet, sizeof *scale, "responses of facets"));
    for (int i = 0; i < n_facet; i++) {
        const double response = msi_facet_response(c, i);
        scale[i] = response > 0 ? 1 / response : 0;
    }
    int rc = t->pass.devices ? MSI_OK : make_model_samples(t->pass.store, predicted, memory);
    t->model = (facet_model){model, 0};
    t->scale = scale;
    t->to = *predicted;
    if (!rc) rc = predict_all(t);
    t->pass.model = *predicted;
    msi_free(scale);
    return rc;
}

int msi_facet_image(msi_facet_channel *c, const msi_image *model, msi_image *out)
{
    const msi_facet_work *work = c->work;
    const int n = n_made(work), terms = n_term(work);
    facet_turns t = {
        .pass = begin_pass(work, msi_gridder_store(c->gridder)), .accuracy = c->accuracy, .channel = c, .out = out};
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    void **predicted = NULL;
    char *memory = NULL;
    MSI_TRY(msi_image_alloc(out, &work->facets->geometry, n, t.pass.store->precision));
    msi_gridder_weights(c->gridder, sum_weight, NULL, n_vis);
    for (int k = 0; k < n; k++) {
        out->sum_weight[k] = sum_weight[k / terms];
        out->n_vis[k] = n_vis[k / terms];
    }
    int rc = take_devices(&t.pass, c);
    if (!rc && model) {
        const msi_progress_share all = msi_progress_enter(0, 1, 2);
        rc = predict_model(&t, model, &predicted, &memory);
        msi_progress_leave(all);
    }
    const msi_progress_share all = msi_progress_enter(model ? 1 : 0, model ? 2 : 1, model ? 2 : 1);
    if (!rc) rc = run_turns(&t, "imaged", image_turn, image_done);
    msi_progress_leave(all);
    leave_devices(&t.pass, c);
    msi_free(predicted);
    msi_free(memory);
    if (rc) {
        msi_image_free(out);
        return rc;
    }
    hide_horizon(work->facets, out);
    for (int k = 0; k < n; k++)
        if (!out->n_vis[k]) msi_image_fill_nan(out, k);
    return MSI_OK;
}

int msi_facet_source_psf(const msi_facet_channel *c, const msi_facet_source *source, msi_image *out)
{
    const msi_image_geometry *g = &source->geometry;
    msi_vis_store *store = msi_gridder_store(c->gridder);
    msi_facet_work work = c->work ? *c->work : (msi_facet_work){.spec = *msi_gridder_spec_of(c->gridder)};
    msi_gridder_report report;
    if (source->n_power > 1) work.gains = NULL;
    if (!work.gains) work.planes.n_stored = 1;
    work.planes.n_image = 1;
    work.n_term = source->n_power;
    work.reference_hz = source->reference_hz;
    facet_pass p = begin_pass(&work, store);
    p.source = source;
    p.l = (double)(g->nx / 2 - source->x) * g->cell_x_rad;
    p.m = (double)(source->y - g->ny / 2) * g->cell_y_rad;
    *out = (msi_image){0};
    /* A source beyond the horizon is moved to the phase centre. */
    if (!(p.l * p.l + p.m * p.m < 1)) p.l = p.m = 0;
    const int label = work.gains ? work.facets->label[source->y * g->nx + source->x] : 0;
    p.facet = label > 0 ? label : 0;
    MSI_TRY(image_facet(&p, c->accuracy, out, &report));
    if (!out->pixel) {
        MSI_TRY(msi_image_alloc(out, g, source->n_power, store->precision));
        for (int k = 0; k < source->n_power; k++) msi_image_fill_nan(out, k);
        return MSI_OK;
    }
    return MSI_OK;
}

int64_t msi_facet_bytes(int64_t n_sample, int64_t n_row, int n_image, int n_stored, msi_precision precision,
                        int subtracts, int is_bent)
{
    /* A segment of the store has up to about SEGMENT_BYTES. */
    enum { UVW_BYTES = 3 * sizeof(double), ORDER_BYTES = 8, SEGMENT_BYTES = 2 << 20 };
    const int64_t value = msi_complex_bytes(precision), at_once = n_sample < BATCH_SAMPLES ? n_sample : BATCH_SAMPLES;
    const int64_t model = subtracts ? n_stored * n_sample * value : 0;
    const int64_t suits = SEGMENTS_AT_ONCE * SEGMENT_BYTES / (n_stored * (value + (int64_t)sizeof(float)));
    const int64_t formed = (suits < n_sample ? suits : n_sample) *
                           (n_image * (int64_t)(sizeof(msi_c64) + sizeof(float)) + (is_bent ? UVW_BYTES : 0));
    return model + at_once * (n_image * (value + (int64_t)sizeof(float)) + ORDER_BYTES) +
           (is_bent ? n_sample : n_row) * UVW_BYTES + formed;
}

void msi_facet_channel_leave(msi_facet_channel *c)
{
#ifdef MSI_HAVE_CUDA
    msi_facet_devices_close(c->devices);
#endif
    c->devices = NULL;
}

void msi_facet_channel_free(msi_facet_channel *c)
{
    msi_free(c->correction);
    msi_free(c->beam);
    msi_free(c->total);
    msi_free(c->moment);
    msi_facet_channel_leave(c);
    c->correction = c->beam = c->total = c->moment = NULL;
}
