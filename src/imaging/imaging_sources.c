/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_sources.h"

#include <string.h>

#include "core/log.h"
#include "core/format.h"
#include "core/status.h"

static int find_terms(const void *cleaner, const double *value, double *term)
{
    msi_cleaner_terms(cleaner, value, term);
    return MSI_OK;
}

/* Readers take positions as J2000, whose axes those of ICRS are to 0.02 arcsec. */
static void warn_of_frame(const char *frame)
{
    if (strcmp(frame, "J2000") != 0 && strcmp(frame, "ICRS") != 0)
        msi_log_warning("positions of the list of sources are in the frame %s; its readers take them as J2000", frame);
}

static int write_list(const msi_imaging_run *r, int64_t first, const msi_clean_group *g)
{
    msi_source_sky sky = {.geometry = &r->options->geometry,
                          .ra_rad = r->ra_rad,
                          .dec_rad = r->dec_rad,
                          .frame = r->observation.dir_frame,
                          .terms = find_terms,
                          .fit = g->cleaner};
    msi_publish *publish;
    const int i = msi_outputs_sources(r->outputs, r->interval, first, &publish);
    if (i < 0) return MSI_OK;
    sky.scale = msi_cleaner_scales(g->cleaner, &sky.n_scale);
    sky.n_term = msi_cleaner_n_term(g->cleaner, &sky.reference_hz, &sky.is_logarithmic);
    MSI_TRY(msi_source_list_write(publish, i, g->sources->list, &sky));
    const int64_t n = msi_source_list_n(g->sources->list);
    msi_log_info("%lld source%s in %s", (long long)n, msi_plural(n), msi_publish_name(publish, i));
    warn_of_frame(sky.frame);
    return MSI_OK;
}

/* Without a sample there is a list of nothing. */
static int write_nothing(const msi_imaging_run *r, int64_t first, double freq_hz)
{
    const msi_source_sky sky = {.geometry = &r->options->geometry,
                                .ra_rad = r->ra_rad,
                                .dec_rad = r->dec_rad,
                                .frame = r->observation.dir_frame,
                                .n_term = 1,
                                .reference_hz = freq_hz};
    msi_publish *publish;
    msi_source_list *none;
    const int i = msi_outputs_sources(r->outputs, r->interval, first, &publish);
    if (i < 0) return MSI_OK;
    MSI_TRY(msi_source_list_create(&none, 1));
    const int rc = msi_source_list_write(publish, i, none, &sky);
    msi_source_list_free(none);
    return rc;
}

int msi_imaging_sources_put(const msi_imaging_run *r, const msi_clean_field *f, int64_t first)
{
    for (int i = 0; i < f->n_group; i++)
        if (f->group[i].sources) return write_list(r, first, &f->group[i]);
    return write_nothing(r, first, f->spec.freq_hz[0]);
}
