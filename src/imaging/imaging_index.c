/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_index.h"

#include <math.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

/* An index is told where the model is so many times brighter than the noise. */
static const double LEAST_SIGMA = 5;

/* The map of Stokes I. */
typedef struct index_map {
    const msi_clean_group *group;
    int n_channel, n_pol, pol; /* of the group's planes, and which of them */
    double weight[MSI_CLEAN_MAX_PLANE];
    int64_t n_pixel, n; /* pixels in all, and those that have an index */
    void *plane;        /* [n_pixel] of a channel */
    double *mean;       /* [n_pixel] over channels, Jy/beam */
    double *value;      /* [n][n_channel] */
    float *pixel;       /* [n_pixel] NaN at first */
} index_map;

/* Restore the models of a group with one beam, into the planes that a cycle would go back to. */
static int restore_models(const msi_imaging_run *r, const msi_clean_group *g, const msi_beam *beam)
{
    const msi_image_geometry *geometry = &r->options->geometry;
    msi_planes_shape one = *msi_planes_shape_of(g->before);
    const msi_restore_spec spec = {.beam = *beam,
                                   .cell_x_rad = geometry->cell_x_rad,
                                   .cell_y_rad = geometry->cell_y_rad,
                                   .n = one.n,
                                   .n_thread = r->options->n_threads};
    void *zero;
    one.n = 1;
    MSI_TRY(msi_alloc(&zero, msi_planes_bytes(&one), 1, "an image of nothing"));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < spec.n; i++) rc = msi_planes_upload(g->before, i, 1, zero);
    msi_free(zero);
    return rc ? rc : msi_restore(g->before, g->before, g->model, &spec);
}

static int fetch(const index_map *m, int channel)
{
    return msi_planes_fetch(m->group->before, channel * m->n_pol + m->pol, 1, m->plane);
}

static double pixel_of(const index_map *m, int64_t i)
{
    return msi_image_value(m->plane, msi_planes_shape_of(m->group->before)->precision, i);
}

static int has_index(const index_map *m, int64_t i)
{
    return m->mean[i] >= LEAST_SIGMA * m->group->noise && m->mean[i] > 0;
}

static int find_mean(index_map *m)
{
    double all = 0;
    for (int c = 0; c < m->n_channel; c++) all += m->weight[c];
    for (int c = 0; c < m->n_channel; c++) {
        if (!(m->weight[c] > 0)) continue;
        MSI_TRY(fetch(m, c));
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < m->n_pixel; i++) m->mean[i] += m->weight[c] / all * pixel_of(m, i);
    }
    for (int64_t i = 0; i < m->n_pixel; i++) m->n += has_index(m, i);
    return MSI_OK;
}

/* Gather what the channels have where there is an index. */
static int gather(index_map *m)
{
    MSI_TRY(msi_alloc(&m->value, m->n * m->n_channel, sizeof *m->value, "spectra"));
    for (int c = 0; c < m->n_channel; c++) {
        int64_t at = 0;
        MSI_TRY(fetch(m, c));
        for (int64_t i = 0; i < m->n_pixel; i++)
            if (has_index(m, i)) m->value[at++ * m->n_channel + c] = pixel_of(m, i);
    }
    return MSI_OK;
}

/* Compute the logarithmic slope of a spectrum at its reference frequency; NaN where it has none of one sign. */
static double index_of(const index_map *m, const double *value, int is_logarithmic)
{
    double term[MSI_CLEAN_MAX_TERM];
    msi_cleaner_terms(m->group->cleaner, value, term);
    if (!is_logarithmic) return term[0] > 0 ? term[1] / term[0] : NAN;
    for (int c = 0; c < m->n_channel; c++)
        if (m->weight[c] > 0 && !(value[c] > 0)) return NAN;
    return term[1];
}

static void fit_all(index_map *m)
{
    double reference_hz;
    int is_logarithmic;
    (void)msi_cleaner_n_term(m->group->cleaner, &reference_hz, &is_logarithmic);
#pragma omp parallel for schedule(dynamic, 256)
    for (int64_t at = 0; at < m->n; at++)
        m->value[at * m->n_channel] = index_of(m, m->value + at * m->n_channel, is_logarithmic);
    for (int64_t i = 0, at = 0; i < m->n_pixel; i++)
        if (has_index(m, i)) m->pixel[i] = (float)m->value[at++ * m->n_channel];
}

static int make_map(index_map *m)
{
    const msi_planes_shape *shape = msi_planes_shape_of(m->group->before);
    const int64_t bytes = msi_planes_bytes(shape) / shape->n;
    int rc = msi_alloc(&m->plane, bytes, 1, "a spectral index");
    if (!rc) rc = msi_alloc(&m->mean, m->n_pixel, sizeof *m->mean, "a spectral index");
    if (!rc) rc = find_mean(m);
    if (!rc) rc = gather(m);
    if (!rc) fit_all(m);
    msi_free(m->plane);
    msi_free(m->mean);
    msi_free(m->value);
    return rc;
}

/* Channels that are cleaned may be several of those that are imaged. */
static void sum_weights(index_map *m, const msi_clean_field *f, int plane)
{
    for (int c = 0; c < f->spec.n_channel; c++)
        m->weight[(int64_t)c * m->n_channel / f->spec.n_channel] += f->sum_weight[c * f->spec.n_pol + plane];
}

static int find_index(msi_imaging_run *r, const msi_clean_field *f, int plane, const msi_beam *beam, msi_image *image)
{
    index_map m = {.group = msi_clean_field_group(f, plane), .n_pixel = msi_image_n_pixel(&image->geometry)};
    const int joined = m.group->pol < 0;
    if (!m.group->cleaner || !msi_beam_known(beam)) return MSI_OK;
    m.pixel = image->pixel;
    m.n_pol = joined ? f->spec.n_pol : 1;
    m.pol = joined ? plane : 0;
    m.n_channel = msi_planes_shape_of(m.group->model)->n / m.n_pol;
    sum_weights(&m, f, plane);
    MSI_TRY(restore_models(r, m.group, beam));
    MSI_TRY(make_map(&m));
    msi_log_info("spectral index of %lld pixels, where the model is %g times the noise or brighter", (long long)m.n,
                 LEAST_SIGMA);
    return MSI_OK;
}

int msi_imaging_index_put(msi_imaging_run *r, const msi_clean_field *f, const msi_imaging_product *product)
{
    const int plane = msi_outputs_index_plane(r->options);
    msi_image image;
    if (plane < 0) return MSI_OK;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, MSI_FP32));
    msi_image_fill_nan(&image, 0);
    for (int c = 0; c < f->spec.n_channel; c++) {
        image.sum_weight[0] += f->sum_weight[c * f->spec.n_pol + plane];
        image.n_vis[0] += f->n_vis[c * f->spec.n_pol + plane];
    }
    int rc = find_index(r, f, plane, &product->beam, &image);
    if (!rc) rc = msi_imaging_files_put_plane(r, product, plane, &image);
    msi_image_free(&image);
    return rc;
}
