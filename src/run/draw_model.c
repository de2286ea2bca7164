/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Draws model images of a list of sources:
 *
 *   1. The image centre is the given one, or the phase centre of a Measurement Set. Nothing else is read from the set.
 *   2. The list is read. Spectra become polynomials in frequency over the band.
 *   3. For each term of the polynomials, an image is drawn and written.
 */
#include "src/run/runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/ms/reader_pool.h"
#include "src/run/open_sets.h"
#include "src/sky/sky_list.h"

/* The state of the run. */
typedef struct drawing_run {
    const msi_options *options;
    const msi_draw_options *draw;
    msi_observation observation; /* frame and centre; all metadata of the set if one was opened */
    msi_sky_list list;
    msi_sky_wcs *wcs;
    double *pixel; /* [ny][nx] of one term */
} drawing_run;

/* Read the phase centre of the sets. */
static int read_centre(drawing_run *r)
{
    const msi_options *o = r->options;
    const msi_ms_opening opening = {.coordinates_only = 1};
    msi_reader_pool *pool;
    msi_ms_reader *reader = NULL;
    MSI_TRY(msi_open_sets_reader_pool(&pool, o, NULL));
    int rc = msi_reader_pool_open(pool, &opening, &reader);
    if (!rc) r->observation = *msi_ms_reader_observation(reader);
    if (!rc && strcmp(r->observation.dir_frame, "J2000") != 0 && strcmp(r->observation.dir_frame, "ICRS") != 0)
        rc = msi_error_set(MSI_EINPUT,
                           "%s: the frame of its phase centre is %s, but lists of sources are in J2000; give "
                           "-draw-centre",
                           o->ms_paths[0], r->observation.dir_frame);
    msi_ms_reader_free(reader);
    msi_reader_pool_free(pool);
    return rc;
}

static int find_centre(drawing_run *r)
{
    if (!r->draw->has_centre) return read_centre(r);
    snprintf(r->observation.dir_frame, sizeof r->observation.dir_frame, "J2000");
    r->observation.ra_rad = r->draw->ra_rad;
    r->observation.dec_rad = r->draw->dec_rad;
    return MSI_OK;
}

/* Warn if spectra have more terms than are drawn. */
static void warn_of_terms(const drawing_run *r, const msi_sky_model *model)
{
    double c[MSI_SKY_MAX_TERMS + 1];
    int64_t n_cut = 0;
    int most = 0;
    for (int64_t i = 0; i < r->list.n; i++) {
        const int n = msi_sky_model_spectrum(model, &r->list.source[i], c);
        n_cut += n > model->n_term;
        most = n > most ? n : most;
    }
    if (n_cut)
        msi_log_warning("the spectra of %lld of %lld source%s have up to %d terms, of which %d %s drawn; give "
                        "-draw-spectral-terms %d",
                        (long long)n_cut, (long long)r->list.n, msi_plural(r->list.n), most, model->n_term,
                        model->n_term == 1 ? "is" : "are", most);
}

static int draw_term(drawing_run *r, const msi_sky_model *model, msi_publish *publish, int term)
{
    const msi_options *o = r->options;
    int64_t n_outside;
    const msi_fits_spec spec = {.kind = MSI_FITS_MODEL,
                                .geometry = o->geometry,
                                .observation = &r->observation,
                                .ra_rad = r->observation.ra_rad,
                                .dec_rad = r->observation.dec_rad,
                                .freq_hz = model->freq_hz,
                                .bandwidth_hz = model->bandwidth_hz,
                                .n_channel = 1,
                                .pol = MSI_POL_I,
                                .command_line = o->command_line};
    MSI_TRY(msi_sky_model_draw(model, term, r->pixel, &n_outside));
    if (n_outside && !term)
        msi_log_warning("%s: %lld of %lld source%s are outside the image", r->draw->list, (long long)n_outside,
                        (long long)r->list.n, msi_plural(r->list.n));
    return msi_fits_write(publish, term, &spec, r->pixel, MSI_FP64);
}

static int draw_terms(drawing_run *r, msi_publish *publish)
{
    const msi_options *o = r->options;
    const msi_observation *s = &r->observation;
    const int64_t n_term = r->draw->n_term;
    MSI_TRY(msi_sky_list_read(&r->list, r->draw->list));
    MSI_TRY(msi_sky_wcs_create(&r->wcs, &o->geometry, s->ra_rad, s->dec_rad, s->dir_frame, s->start_mjd_s / 86400));
    const msi_sky_model model = {.list = &r->list,
                                 .geometry = o->geometry,
                                 .wcs = r->wcs,
                                 .freq_hz = r->draw->freq_hz,
                                 .bandwidth_hz = r->draw->bandwidth_hz,
                                 .n_term = (int)n_term,
                                 .window = r->draw->window};
    msi_log_info("list: %lld source%s, drawn at %.6g MHz", (long long)r->list.n, msi_plural(r->list.n),
                 1e-6 * model.freq_hz);
    warn_of_terms(r, &model);
    if (o->dry_run) {
        msi_log_info("would write %s: %lld x %lld pixels, %lld term%s", msi_publish_name(publish, 0),
                     (long long)o->geometry.nx, (long long)o->geometry.ny, (long long)n_term, msi_plural(n_term));
        return MSI_OK;
    }
    MSI_TRY(msi_alloc(&r->pixel, msi_image_n_pixel(&o->geometry), sizeof *r->pixel, "a model image"));
    for (int term = 0; term < n_term; term++) MSI_TRY(draw_term(r, &model, publish, term));
    MSI_TRY(msi_publish_commit(publish));
    msi_log_info("wrote %s%s in %.2f s", msi_publish_name(publish, 0), n_term > 1 ? " and following terms" : "",
                 msi_wall_s());
    return MSI_OK;
}

/* Plan the files. Returned: *out  freed by msi_publish_free */
static int plan_files(const drawing_run *r, msi_publish **out)
{
    enum { N = MSI_SKY_MAX_TERMS + 1 };
    const char *name[N];
    char *text;
    const size_t size = strlen(r->options->name) + 32;
    *out = NULL;
    MSI_TRY(msi_alloc(&text, N * (int64_t)size, 1, "names of files"));
    for (int i = 0; i < r->draw->n_term; i++) {
        name[i] = text + (size_t)i * size;
        snprintf(text + (size_t)i * size, size, "%s-term-%d.fits", r->options->name, i);
    }
    const int rc = msi_publish_plan(out, name, (int)r->draw->n_term, r->options->overwrite);
    msi_free(text);
    return rc;
}

int msi_run_draw_model(const msi_options *o, void (*forked)(void))
{
    drawing_run r = {.options = o, .draw = &o->draw};
    msi_publish *publish = NULL;
    int rc = find_centre(&r);
    forked();
    if (!rc) rc = plan_files(&r, &publish);
    if (!rc) rc = draw_terms(&r, publish);
    msi_publish_free(publish);
    msi_sky_list_free(&r.list);
    msi_sky_wcs_free(r.wcs);
    msi_free(r.pixel);
    return rc;
}
