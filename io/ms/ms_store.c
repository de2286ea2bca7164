/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_metadata.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_subtables.h"

typedef struct about_head {
    int64_t n_window, n_setup, n_field, n_antenna, n_table_row;
    char data_column[64], telescope[64], observer[64], time_scale[16];
} about_head;

typedef struct about_window {
    int64_t n_chan;
    char frame[16];
} about_window;

typedef struct about_setup {
    int32_t spw_id, n_corr;
    int32_t corr[MSI_MAX_CORR];
} about_setup;

typedef struct about_field {
    double ra_rad, dec_rad, rest_hz;
    int32_t source_id, motion; /* below 0 in stores of an old version, whose source ids had 64 bits */
    char frame[16], name[64];
} about_field;

void msi_ms_store_free(struct msi_ms_store *store)
{
    if (!store) return;
    msi_msv_file_close(store->file);
    msi_free(store->rest_hz);
    msi_free(store);
}

static void copy_store_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)size - 1, from);
}

/* The functions pass_store_.. write metadata to a store, or read them from it if c->from is not NULL. */

static int pass_store_window(msi_cursor *c, msi_ms_window *w, int *is_whole)
{
    about_window a = {.n_chan = w->n_chan};
    copy_store_text(a.frame, sizeof a.frame, w->frame);
    *is_whole = msi_transfer(c, &a, sizeof a);
    if (c->from) {
        *is_whole = *is_whole && a.n_chan >= 0 && a.n_chan <= INT32_MAX;
        copy_store_text(w->frame, sizeof w->frame, a.frame);
    }
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &w->freq_hz, a.n_chan, sizeof *w->freq_hz, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &w->width_hz, a.n_chan, sizeof *w->width_hz, is_whole));
    if (*is_whole) w->n_chan = (int32_t)a.n_chan;
    return MSI_OK;
}

static int pass_store_setup(msi_cursor *c, msi_ms_setup *s)
{
    about_setup a = {.spw_id = s->spw_id, .n_corr = s->n_corr};
    for (int i = 0; i < s->n_corr; i++) a.corr[i] = (int32_t)s->corr[i];
    if (!msi_transfer(c, &a, sizeof a)) return 0;
    if (!c->from) return 1;
    if (a.n_corr < 1 || a.n_corr > MSI_MAX_CORR) return 0;
    s->spw_id = a.spw_id;
    s->n_corr = a.n_corr;
    for (int i = 0; i < a.n_corr; i++) {
        if (a.corr[i] < MSI_POL_I || a.corr[i] > MSI_POL_YY) return 0;
        s->corr[i] = (msi_pol)a.corr[i];
    }
    return 1;
}

static int pass_store_field(msi_cursor *c, msi_ms_field *f, double *rest_hz)
{
    about_field a = {.ra_rad = f->ra_rad,
                     .dec_rad = f->dec_rad,
                     .rest_hz = *rest_hz,
                     .source_id = f->source_id,
                     .motion = (int32_t)f->motion};
    copy_store_text(a.frame, sizeof a.frame, f->frame);
    copy_store_text(a.name, sizeof a.name, f->name);
    if (!msi_transfer(c, &a, sizeof a)) return 0;
    if (!c->from) return 1;
    if (a.motion > MSI_MS_PLANET) return 0;
    *f = (msi_ms_field){.ra_rad = a.ra_rad, .dec_rad = a.dec_rad, .source_id = a.source_id};
    if (a.motion > 0) f->motion = (msi_ms_motion)a.motion;
    copy_store_text(f->frame, sizeof f->frame, a.frame);
    copy_store_text(f->name, sizeof f->name, a.name);
    *rest_hz = a.rest_hz;
    return 1;
}

/* Copy the counts of the head, and allocate the arrays. Each element takes some bytes of the file, which limits
 * counts. */
static int unpack_store_head(const msi_cursor *c, const about_head *h, msi_ms_set *set, int *is_whole)
{
    const int64_t counts[] = {h->n_window, h->n_setup, h->n_field, h->n_antenna};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 1 || counts[i] > (c->n - c->at) / 16) *is_whole = 0;
    if (!*is_whole || h->n_table_row < 1) return MSI_OK;
    MSI_TRY(msi_alloc(&set->window, h->n_window, sizeof *set->window, "spectral windows"));
    set->n_window = (int)h->n_window;
    MSI_TRY(msi_alloc(&set->setup, h->n_setup, sizeof *set->setup, "data descriptions"));
    set->n_setup = (int)h->n_setup;
    MSI_TRY(msi_alloc(&set->field, h->n_field, sizeof *set->field, "fields"));
    MSI_TRY(msi_alloc(&set->store->rest_hz, h->n_field, sizeof(double), "fields"));
    set->n_field = (int)h->n_field;
    set->n_antenna = h->n_antenna;
    set->n_table_row = h->n_table_row;
    copy_store_text(set->data_column, sizeof set->data_column, h->data_column);
    copy_store_text(set->store->telescope, sizeof h->telescope, h->telescope);
    copy_store_text(set->store->observer, sizeof h->observer, h->observer);
    copy_store_text(set->store->time_scale, sizeof h->time_scale, h->time_scale);
    return MSI_OK;
}

static int pass_store_metadata(msi_cursor *c, msi_ms_set *set, int *is_whole)
{
    about_head h = {set->n_window, set->n_setup, set->n_field, set->n_antenna, set->n_table_row, "", "", "", ""};
    copy_store_text(h.data_column, sizeof h.data_column, set->data_column);
    copy_store_text(h.telescope, sizeof h.telescope, set->store->telescope);
    copy_store_text(h.observer, sizeof h.observer, set->store->observer);
    copy_store_text(h.time_scale, sizeof h.time_scale, set->store->time_scale);
    *is_whole = msi_transfer(c, &h, sizeof h);
    if (c->from) MSI_TRY(unpack_store_head(c, &h, set, is_whole));
    for (int i = 0; i < set->n_window && *is_whole; i++) MSI_TRY(pass_store_window(c, &set->window[i], is_whole));
    for (int i = 0; i < set->n_setup && *is_whole; i++) *is_whole = pass_store_setup(c, &set->setup[i]);
    for (int i = 0; i < set->n_field && *is_whole; i++)
        *is_whole = pass_store_field(c, &set->field[i], &set->store->rest_hz[i]);
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &set->antenna_itrf_m, 3 * set->n_antenna, sizeof(double), is_whole));
    if (!*is_whole) return MSI_OK;
    /* Stores of earlier versions end here. */
    if (c->from && c->at == c->n) {
        MSI_TRY(msi_alloc(&set->antenna_name, set->n_antenna, sizeof *set->antenna_name, "names of antennas"));
        return msi_alloc(&set->antenna_diameter_m, set->n_antenna, sizeof(double), "diameters of antennas");
    }
    MSI_TRY(msi_transfer_array(c, &set->antenna_diameter_m, set->n_antenna, sizeof(double), is_whole));
    if (*is_whole) *is_whole = msi_transfer(c, &set->has_delay, sizeof set->has_delay);
    if (*is_whole) *is_whole = msi_transfer(c, set->delay, sizeof set->delay);
    if (!*is_whole) return MSI_OK;
    if (c->from && c->at == c->n)
        return msi_alloc(&set->antenna_name, set->n_antenna, sizeof *set->antenna_name, "names of antennas");
    return msi_ms_transfer_names(c, &set->antenna_name, set->n_antenna, is_whole);
}

/* Make the windows of a store with the selected channels of the setups, whose arrays they borrow. Windows without
 * selected channels stay empty. */
static int select_store_windows(const msi_ms_set *from, msi_ms_set *to)
{
    MSI_TRY(msi_alloc(&to->window, from->n_window, sizeof *to->window, "spectral windows"));
    to->n_window = from->n_window;
    for (int i = 0; i < from->n_window; i++)
        copy_store_text(to->window[i].frame, sizeof to->window->frame, from->window[i].frame);
    for (int i = 0; i < from->n_setup; i++) {
        const msi_ms_setup *s = &from->setup[i];
        msi_ms_window *w = &to->window[s->spw_id];
        if (s->n_chan == 0) continue;
        w->n_chan = s->n_chan;
        w->freq_hz = s->freq_hz;
        w->width_hz = s->width_hz;
    }
    return MSI_OK;
}

/* Return the first rest frequency of a field of a UVFITS or FITS-IDI file; 0 if it is unknown. */
static double ms_uv_rest_frequency(const msi_ms_set *set, int field)
{
    const msi_uv_source *s = &set->uv->source[field];
    return s->n_line ? s->line_hz[0] : 0;
}

int msi_ms_store_pack_metadata(const msi_ms_reader *r, char **out, int64_t *n)
{
    msi_ms_set *set = &r->set[0], chosen = *set;
    struct msi_ms_store store = {0};
    msi_cursor c = {0};
    int is_whole = 1, status;
    *out = NULL;
    chosen.window = NULL;
    chosen.store = &store;
    copy_store_text(store.telescope, sizeof store.telescope, r->observation.telescope);
    copy_store_text(store.observer, sizeof store.observer, r->observation.observer);
    copy_store_text(store.time_scale, sizeof store.time_scale, r->observation.time_scale);
    if ((status = select_store_windows(set, &chosen)) != MSI_OK) goto out;
    if ((status = msi_alloc(&store.rest_hz, set->n_field, sizeof *store.rest_hz, "fields")) != MSI_OK) goto out;
    if (!set->uv) status = msi_ms_subtables_rest_frequencies(set, set->field, set->n_field, store.rest_hz);
    for (int i = 0; set->uv && i < set->n_field; i++) store.rest_hz[i] = ms_uv_rest_frequency(set, i);
    if (status != MSI_OK) goto out;
    status = pass_store_metadata(&c, &chosen, &is_whole);
    if (!status) status = msi_alloc(out, c.at, 1, "the metadata of a visibility store");
    if (status) goto out;
    *n = c.at;
    c = (msi_cursor){.to = *out};
    status = pass_store_metadata(&c, &chosen, &is_whole);
out:
    msi_free(store.rest_hz);
    msi_free(chosen.window);
    return status;
}

int msi_ms_store_open(msi_ms_set *set)
{
    MSI_TRY(msi_alloc(&set->store, 1, sizeof *set->store, "a visibility store"));
    return msi_msv_file_open(&set->store->file, set->path);
}

/* Return 1 if the windows of all setups exist, and the setups, fields and rows of all runs and chunks. */
static int store_ids_are_valid(const msi_ms_set *set)
{
    const msi_msv_file *f = set->store->file;
    for (int i = 0; i < set->n_setup; i++)
        if (set->setup[i].spw_id < 0 || set->setup[i].spw_id >= set->n_window) return 0;
    for (int64_t i = 0; i < f->header->n_run; i++)
        if (f->run[i].data_desc_id >= set->n_setup || f->run[i].field_id >= set->n_field) return 0;
    for (int64_t i = 0; i < f->header->n_chunk; i++) {
        const msi_msv_chunk *c = &f->chunk[i];
        if (c->data_desc_id < 0 || c->data_desc_id >= set->n_setup || c->field_id < 0 || c->field_id >= set->n_field)
            return 0;
    }
    const msi_msv_run *last = &f->run[f->header->n_run - 1];
    return last->row + last->n_row <= set->n_table_row;
}

static int check_store_selection(const msi_ms_set *set, const msi_ms_selection *s)
{
    if (msi_ms_has_expression(s) || s->taql)
        return msi_error_set(MSI_EINPUT,
                             "%s: MSSelection and TaQL need the tables of a Measurement Set, which a visibility store "
                             "does not have; use them when the store is made",
                             set->path);
    const char *other = s->model_column;
    if (s->data_column && strcmp(s->data_column, set->data_column) != 0) other = s->data_column;
    if (other)
        return msi_error_set(MSI_EINPUT, "%s: the visibility store has only column %s, not %s; use the Measurement Set",
                             set->path, set->data_column, other);
    return MSI_OK;
}

int msi_ms_store_describe(msi_ms_set *set, const msi_ms_selection *selection)
{
    const msi_msv_header *h = set->store->file->header;
    msi_cursor c = {.from = set->store->file->about, .n = h->about_bytes};
    int is_whole = 0;
    MSI_TRY(pass_store_metadata(&c, set, &is_whole));
    if (!is_whole || !store_ids_are_valid(set))
        return msi_msv_file_damaged(set->path, "its index", h->index_at, h->index_bytes);
    for (int i = 0; i < set->n_setup; i++) set->setup[i].n_stored = set->window[set->setup[i].spw_id].n_chan;
    set->has_weight_spectrum = set->has_flag_row = 1;
    return check_store_selection(set, selection);
}

void msi_ms_store_observe(const msi_ms_set *set, int field_id, msi_observation *o)
{
    copy_store_text(o->telescope, sizeof o->telescope, set->store->telescope);
    copy_store_text(o->observer, sizeof o->observer, set->store->observer);
    copy_store_text(o->time_scale, sizeof o->time_scale, set->store->time_scale);
    const double rest_hz = field_id >= 0 ? set->store->rest_hz[field_id] : 0;
    o->rest_freq_hz = isfinite(rest_hz) && rest_hz > 0 ? rest_hz : 0;
}

/* ---- UVFITS and FITS-IDI files ---- */

/* Called regularly while all groups of a file are scanned. Restart the limit of CPU time, and fail after a signal. */
static int report_and_check(void)
{
    msi_child_progress(MSI_CHILD_STEP_S);
    return msi_interrupt_check();
}

int msi_ms_uv_open(msi_ms_set *set)
{
    return msi_uv_set_open(&set->uv, set->path, report_and_check);
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)size - 1, from);
}

static int check_selection(const msi_ms_set *set, const msi_ms_selection *s)
{
    if (msi_ms_has_expression(s) || s->taql)
        return msi_error_set(
            MSI_EINPUT,
            "%s: MSSelection and TaQL need the tables of a Measurement Set; make one of this file with "
            "msimage-convert",
            set->path);
    const char *other = s->model_column;
    /* Sets without CORRECTED_DATA are read from DATA, like sets that are read together with this file. */
    if (s->data_column && strcmp(s->data_column, "DATA") != 0 && strcmp(s->data_column, "CORRECTED_DATA") != 0)
        other = s->data_column;
    if (other)
        return msi_error_set(MSI_EINPUT, "%s: a UVFITS or FITS-IDI file has only DATA, not %s", set->path, other);
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

void msi_ms_uv_observe(const msi_ms_set *set, msi_observation *o)
{
    copy_text(o->telescope, sizeof o->telescope, set->uv->telescope);
    copy_text(o->observer, sizeof o->observer, set->uv->observer);
    copy_text(o->time_scale, sizeof o->time_scale, set->uv->time_scale);
    o->rest_freq_hz = set->n_run > 0 ? ms_uv_rest_frequency(set, set->run[0].field_id) : 0;
}
