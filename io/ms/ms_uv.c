/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_uv.h"

#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"

/* A scan of all groups of a file may take long, so each call reports progress. */
static int check_on(void)
{
    msi_child_progress(MSI_CHILD_STEP_S);
    return msi_interrupt_check();
}

int msi_ms_uv_open(msi_ms_set *set)
{
    return msi_uv_set_open(&set->uv, set->path, check_on);
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)size - 1, from);
}

static int check_selection(const msi_ms_set *set, const msi_ms_selection *s)
{
    if (s->mssel_field || s->mssel_spw || s->mssel_antenna || s->mssel_uvrange || s->mssel_time || s->taql)
        return msi_error_set(
            MSI_EINPUT,
            "%s: MSSelection and TaQL need the tables of a Measurement Set; make one of this file with "
            "msimage-convert",
            set->path);
    const char *other = s->model_column;
    /* Sets without CORRECTED_DATA are read from DATA, together with sets that have it. */
    if (s->data_column && strcmp(s->data_column, "DATA") != 0 && strcmp(s->data_column, "CORRECTED_DATA") != 0)
        other = s->data_column;
    if (other)
        return msi_error_set(MSI_EINPUT, "%s: a UVFITS or FITS-IDI file has DATA alone, not %s", set->path, other);
    return MSI_OK;
}

static int describe_windows(msi_ms_set *set)
{
    const msi_uv_set *uv = set->uv;
    MSI_TRY(msi_alloc(&set->window, uv->n_window, sizeof *set->window, "spectral windows"));
    set->n_window = (int)uv->n_window;
    MSI_TRY(msi_alloc(&set->setup, uv->n_window, sizeof *set->setup, "data descriptions"));
    set->n_setup = (int)uv->n_window;
    for (int i = 0; i < set->n_window; i++) {
        msi_ms_window *w = &set->window[i];
        const size_t bytes = (size_t)uv->n_chan * sizeof(double);
        MSI_TRY(msi_alloc(&w->freq_hz, uv->n_chan, sizeof(double), "channels"));
        MSI_TRY(msi_alloc(&w->width_hz, uv->n_chan, sizeof(double), "channels"));
        memcpy(w->freq_hz, uv->window[i].freq_hz, bytes);
        memcpy(w->width_hz, uv->window[i].width_hz, bytes);
        w->n_chan = uv->n_chan;
        copy_text(w->frame, sizeof w->frame, uv->freq_frame);
        msi_ms_setup *s = &set->setup[i];
        *s = (msi_ms_setup){.spw_id = i, .n_corr = uv->n_corr, .n_stored = uv->n_chan};
        memcpy(s->corr, uv->corr, sizeof s->corr);
    }
    return MSI_OK;
}

static int describe_fields(msi_ms_set *set)
{
    const msi_uv_set *uv = set->uv;
    MSI_TRY(msi_alloc(&set->field, uv->n_source, sizeof *set->field, "fields"));
    set->n_field = (int)uv->n_source;
    for (int i = 0; i < set->n_field; i++) {
        const msi_uv_source *from = &uv->source[i];
        msi_ms_field *f = &set->field[i];
        *f = (msi_ms_field){.ra_rad = from->ra_rad, .dec_rad = from->dec_rad, .source_id = from->n_line ? i : -1};
        copy_text(f->name, sizeof f->name, from->name);
        copy_text(f->frame, sizeof f->frame, from->frame);
    }
    return MSI_OK;
}

int msi_ms_uv_describe(msi_ms_set *set, const msi_ms_selection *selection)
{
    const msi_uv_set *uv = set->uv;
    MSI_TRY(check_selection(set, selection));
    copy_text(set->data_column, sizeof set->data_column, "DATA");
    set->n_table_row = uv->n_row;
    set->has_weight_spectrum = uv->has_channel_weights;
    MSI_TRY(describe_windows(set));
    MSI_TRY(describe_fields(set));
    MSI_TRY(msi_alloc(&set->antenna_itrf_m, 3 * uv->n_antenna, sizeof *set->antenna_itrf_m, "antenna positions"));
    MSI_TRY(
        msi_alloc(&set->antenna_diameter_m, uv->n_antenna, sizeof *set->antenna_diameter_m, "diameters of antennas"));
    MSI_TRY(msi_alloc(&set->antenna_name, uv->n_antenna, sizeof *set->antenna_name, "names of antennas"));
    set->n_antenna = uv->n_antenna;
    for (int64_t i = 0; i < uv->n_antenna; i++) {
        memcpy(set->antenna_itrf_m + 3 * i, uv->antenna[i].itrf_m, sizeof uv->antenna[i].itrf_m);
        set->antenna_diameter_m[i] = uv->antenna[i].diameter_m;
        copy_text(set->antenna_name[i].text, sizeof set->antenna_name[i].text, uv->antenna[i].name);
    }
    set->n_notes = (int64_t)strlen(uv->notes) + 1;
    MSI_TRY(msi_alloc(&set->notes, set->n_notes, 1, "notes"));
    memcpy(set->notes, uv->notes, (size_t)set->n_notes);
    return MSI_OK;
}

double msi_ms_uv_rest_frequency(const msi_ms_set *set, int field)
{
    const msi_uv_source *s = &set->uv->source[field];
    return s->n_line ? s->line_hz[0] : 0;
}

void msi_ms_uv_observe(const msi_ms_set *set, msi_observation *o)
{
    copy_text(o->telescope, sizeof o->telescope, set->uv->telescope);
    copy_text(o->observer, sizeof o->observer, set->uv->observer);
    copy_text(o->time_scale, sizeof o->time_scale, set->uv->time_scale);
    o->rest_freq_hz = set->n_run > 0 ? msi_ms_uv_rest_frequency(set, set->run[0].field_id) : 0;
}
