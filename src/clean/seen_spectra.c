/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Models are fitted after minor iterations, not component by component: a spectrum is linear in its terms, or, with
 * logarithms, is found best from all flux of a pixel. Bands of rows are fetched, fitted and stored again.
 */
#include "src/clean/seen_spectra.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"

/* Pixels of all planes that are fetched at once. */
enum { AT_ONCE = 1 << 24 };

/* The models of a group. */
typedef struct models {
    const msi_clean_sight *sight;
    const msi_cleaner *cleaner;
    int pol, n_pol;      /* the first polarisation, and how many */
    int n_model, n_part; /* planes */
    msi_planes *model, *part;
    msi_precision precision;
    int64_t n_pixel, first, n; /* pixels of a plane; range of the band */
    void *pixel;               /* [n_model][most pixels of a band] */
    void *of_part;             /* [n_part][most pixels of a band] */
    int64_t most;
} models;

/* Numbers that a thread needs for a pixel. */
static int64_t work_size(const msi_clean_sight *s)
{
    const int64_t n_pol = s->n_pol, n = s->n_channel;
    return n * (2 * n_pol * n_pol + 2 * n_pol) + n_pol * MSI_CLEAN_MAX_TERM;
}

/* Find the responses of the group's polarisations. Returned: own [n_channel][n_pol][n_pol] */
static void respond(const msi_clean_sight *s, int pol, int n_pol, int64_t pixel, double *all, double *own)
{
    for (int i = 0; !s->respond && i < s->n_channel * n_pol * n_pol; i++)
        own[i] = i % (n_pol * n_pol) % (n_pol + 1) == 0;
    if (!s->respond) return;
    s->respond(s->user, pixel, all);
    for (int c = 0; c < s->n_channel; c++)
        for (int k = 0; k < n_pol * n_pol; k++)
            own[c * n_pol * n_pol + k] = all[(c * s->n_pol + pol + k / n_pol) * s->n_pol + pol + k % n_pol];
}

/* Find the forced terms of a pixel. Returns: term, NULL if they are to be fitted */
static const double *force(const msi_clean_sight *s, int64_t pixel, double term[MSI_CLEAN_MAX_TERM])
{
    if (!s->forced) return NULL;
    for (int k = 0; k < s->n_forced; k++) {
        term[k] = (double)s->forced[k * s->n_pixel + pixel];
        if (!isfinite(term[k])) return NULL;
    }
    return term;
}

static double get(const models *m, const void *pixel, int plane, int64_t i)
{
    return msi_image_value(pixel, m->precision, plane * m->most + i);
}

static void put(const models *m, void *pixel, int plane, int64_t i, double value)
{
    msi_image_put(pixel, m->precision, plane * m->most + i, value);
}

/* Return whether the models of a band are 0. */
static int is_band_empty(const models *m)
{
    int found = 0;
    for (int k = 0; k < m->n_model && !found; k++) {
#pragma omp parallel for schedule(static) reduction(| : found)
        for (int64_t i = 0; i < m->n; i++) found |= get(m, m->pixel, k, i) != 0;
    }
    return !found;
}

/* Fit a pixel. Given: work [work_size] */
static void fit_pixel(const models *m, int64_t i, double *work)
{
    const int64_t n_channel = m->sight->n_channel, n_pol = m->sight->n_pol, squares = n_channel * n_pol * n_pol;
    double *all = work, *own = all + squares, *value = own + squares, *part = value + n_channel * n_pol,
           *term = part + n_channel * n_pol;
    double forced[MSI_CLEAN_MAX_TERM];
    int is_empty = 1;
    for (int k = 0; k < m->n_model; k++) {
        value[k] = get(m, m->pixel, k, i);
        is_empty &= value[k] == 0;
    }
    if (is_empty) {
        for (int k = 0; m->part && k < m->n_part; k++) put(m, m->of_part, k, i, 0);
        return;
    }
    respond(m->sight, m->pol, m->n_pol, m->first + i, all, own);
    msi_cleaner_fit_seen(m->cleaner, m->n_pol, own, force(m->sight, m->first + i, forced), value, part, term);
    for (int k = 0; k < m->n_model; k++) put(m, m->pixel, k, i, value[k]);
    for (int k = 0; m->part && k < m->n_part; k++) put(m, m->of_part, k, i, part[k]);
}

static int fit_band(models *m, double *work)
{
    const int64_t bytes = msi_image_pixel_bytes(m->precision) * m->most, size = work_size(m->sight);
    MSI_TRY(msi_interrupt_check());
    for (int k = 0; k < m->n_model; k++)
        MSI_TRY(msi_planes_fetch_pixels(m->model, k * m->n_pixel + m->first, m->n, (char *)m->pixel + k * bytes));
    if (is_band_empty(m)) return MSI_OK;
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t i = 0; i < m->n; i++) fit_pixel(m, i, work + omp_get_thread_num() * size);
    for (int k = 0; k < m->n_model; k++)
        MSI_TRY(msi_planes_upload_pixels(m->model, k * m->n_pixel + m->first, m->n, (char *)m->pixel + k * bytes));
    for (int k = 0; m->part && k < m->n_part; k++)
        MSI_TRY(msi_planes_upload_pixels(m->part, k * m->n_pixel + m->first, m->n, (char *)m->of_part + k * bytes));
    return MSI_OK;
}

int msi_seen_spectra_fit(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, msi_planes *model,
                         msi_planes *part)
{
    const msi_planes_shape *shape = msi_planes_shape_of(model);
    models m = {.sight = sight,
                .cleaner = cleaner,
                .pol = pol < 0 ? 0 : pol,
                .n_pol = pol < 0 ? sight->n_pol : 1,
                .n_model = shape->n,
                .n_part = part ? msi_planes_shape_of(part)->n : 0,
                .model = model,
                .part = part,
                .precision = shape->precision,
                .n_pixel = shape->nx * shape->ny};
    m.most = AT_ONCE / (m.n_model + m.n_part);
    m.most = m.most < m.n_pixel ? m.most : m.n_pixel;
    const int64_t bytes = msi_image_pixel_bytes(m.precision);
    double *work = NULL;
    int rc = msi_alloc(&work, omp_get_max_threads() * work_size(sight), sizeof *work, "spectra");
    if (!rc) rc = msi_alloc(&m.pixel, m.n_model * m.most, (size_t)bytes, "spectra of models");
    if (!rc && part) rc = msi_alloc(&m.of_part, m.n_part * m.most, (size_t)bytes, "spectra of models");
    /* Bands without a model are not fitted. */
    if (!rc && part) rc = msi_planes_zero(part, 0, m.n_part);
    for (; !rc && m.first < m.n_pixel; m.first += m.n) {
        m.n = m.n_pixel - m.first < m.most ? m.n_pixel - m.first : m.most;
        rc = fit_band(&m, work);
    }
    msi_free(work);
    msi_free(m.pixel);
    msi_free(m.of_part);
    return rc;
}

int64_t msi_seen_spectra_work(const msi_clean_sight *sight)
{
    return work_size(sight) + MSI_CLEAN_MAX_CHANNEL;
}

void msi_seen_spectra_terms(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, int64_t pixel,
                            int n_value, const double *value, double *term, double *seen, double *work)
{
    const int64_t n = sight->n_channel, n_pol = sight->n_pol;
    double forced[MSI_CLEAN_MAX_TERM];
    double *all = work, *own = all + n * n_pol * n_pol, *part = own + n * n_pol * n_pol, *copy = part + n * n_pol;
    respond(sight, pol, 1, pixel, all, own);
    memcpy(copy, value, (size_t)n_value * sizeof *copy);
    msi_cleaner_fit_seen(cleaner, 1, own, force(sight, pixel, forced), copy, part, term);
    if (seen) memcpy(seen, copy, (size_t)n_value * sizeof *copy);
}
