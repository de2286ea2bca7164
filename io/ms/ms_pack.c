/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_pack.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_subtables.h"

/*
 * The bytes are a reader_head, and for each set a reader_head, its fields, its setups with the channels of each, the
 * frames of its windows and the positions of its antennas, all in multiples of 8 bytes. One function transfers them in
 * both directions, so that both agree on the order.
 */

typedef struct reader_head {
    int64_t n_set, n_time;
    msi_observation observation;
} reader_head;

typedef struct set_head {
    int64_t n_setup, n_field, n_table_row, n_selected_time, n_window, n_antenna, has_weight_spectrum, n_notes,
        has_delay, has_places, n_minute, n_doppler, n_dipole_field, n_element, n_beam_dir, applied;
    double applied_rad[2];
    char data_column[64], model_column[64], telescope[64];
    msi_tiled_place place[MSI_MS_N_LARGE];
    int32_t delay[MSI_MS_DELAYS];
    msi_ms_row_times row_times;
} set_head;

static void end_text(char *text, size_t size)
{
    text[size - 1] = 0;
}

/* ---- Both directions ---- */

static int pass_setup(msi_cursor *c, msi_ms_setup *s, int *is_whole)
{
    msi_ms_setup fixed = *s;
    fixed.chan_index = NULL;
    fixed.freq_hz = fixed.width_hz = fixed.inverse_lambda2 = NULL;
    *is_whole = msi_transfer(c, &fixed, sizeof fixed);
    if (c->from) {
        *s = fixed;
        s->chan_index = NULL;
        s->freq_hz = s->width_hz = s->inverse_lambda2 = NULL;
    }
    if (!*is_whole || s->n_chan == 0) return MSI_OK;
    MSI_TRY(msi_transfer_array(c, &s->chan_index, s->n_chan, sizeof *s->chan_index, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &s->freq_hz, s->n_chan, sizeof *s->freq_hz, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &s->width_hz, s->n_chan, sizeof *s->width_hz, is_whole));
    if (!c->from || !*is_whole) return MSI_OK;
    MSI_TRY(msi_alloc(&s->inverse_lambda2, s->n_chan, sizeof *s->inverse_lambda2, "channels"));
    for (int32_t i = 0; i < s->n_chan; i++) s->inverse_lambda2[i] = pow(s->freq_hz[i] / MSI_SPEED_OF_LIGHT, 2);
    return MSI_OK;
}

/* The channels of windows are not packed, since the setups have them. */
static int pass_windows(msi_cursor *c, msi_ms_set *set, int64_t n, int *is_whole)
{
    if (c->from) {
        *is_whole = n >= 0 && n <= (c->n - c->at) / (int64_t)sizeof set->window->frame;
        if (!*is_whole) return MSI_OK;
        MSI_TRY(msi_alloc(&set->window, n > 0 ? n : 1, sizeof *set->window, "spectral windows"));
        set->n_window = (int)n;
    }
    for (int i = 0; i < set->n_window && *is_whole; i++) {
        *is_whole = msi_transfer(c, set->window[i].frame, sizeof set->window[i].frame);
        if (c->from) set->window[i].frame[sizeof set->window[i].frame - 1] = 0;
    }
    return MSI_OK;
}

static int pass_antennas(msi_cursor *c, msi_ms_set *set, int64_t n, int *is_whole)
{
    *is_whole = n >= 0 && n <= INT32_MAX;
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &set->antenna_itrf_m, 3 * n, sizeof *set->antenna_itrf_m, is_whole));
    if (*is_whole)
        MSI_TRY(msi_transfer_array(c, &set->antenna_diameter_m, n, sizeof *set->antenna_diameter_m, is_whole));
    if (*is_whole) set->n_antenna = n;
    if (*is_whole) MSI_TRY(msi_ms_transfer_names(c, &set->antenna_name, n, is_whole));
    return *is_whole && c->from ? msi_ms_set_sort_dishes(set) : MSI_OK;
}

static int pass_doppler(msi_cursor *c, msi_ms_set *set, int64_t n_minute, int64_t n_doppler, int *is_whole)
{
    *is_whole = n_minute >= 0 && n_minute <= INT32_MAX && n_doppler >= 0 && n_doppler <= set->n_field;
    if (*is_whole && n_doppler > 0) {
        MSI_TRY(msi_transfer_array(c, &set->minute, n_minute, sizeof *set->minute, is_whole));
        if (*is_whole)
            MSI_TRY(msi_transfer_array(c, &set->doppler, n_doppler * n_minute * 2, sizeof *set->doppler, is_whole));
    }
    if (*is_whole && c->from) {
        set->n_minute = n_doppler > 0 ? n_minute : 0;
        set->n_doppler = n_minute > 0 ? n_doppler : 0;
    }
    return MSI_OK;
}

static int pass_stations(msi_cursor *c, msi_ms_set *set, const set_head *h, int *is_whole)
{
    msi_ms_stations *s = &set->stations;
    if (c->from) {
        s->applied = h->applied;
        memcpy(s->applied_rad, h->applied_rad, sizeof s->applied_rad);
    }
    if (h->n_dipole_field == 0) return MSI_OK;
    MSI_TRY(msi_transfer_array(c, &s->field, h->n_dipole_field, sizeof *s->field, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &s->element, h->n_element, sizeof *s->element, is_whole));
    if (*is_whole && h->n_beam_dir) MSI_TRY(msi_transfer_array(c, &s->dir, h->n_beam_dir, sizeof *s->dir, is_whole));
    if (!*is_whole || !c->from) return MSI_OK;
    s->n_field = h->n_dipole_field;
    s->n_element = h->n_element;
    s->n_dir = h->n_beam_dir;
    *is_whole = msi_ms_stations_are_sound(s, set->n_antenna);
    return MSI_OK;
}

static int pass_set(msi_cursor *c, msi_ms_set *set, int *is_whole)
{
    set_head h = {.n_setup = set->n_setup,
                  .n_field = set->n_field,
                  .n_table_row = set->n_table_row,
                  .n_selected_time = set->n_selected_time,
                  .n_window = set->n_window,
                  .n_antenna = set->n_antenna,
                  .has_weight_spectrum = set->has_weight_spectrum,
                  .n_notes = set->n_notes,
                  .has_delay = set->has_delay,
                  .has_places = set->has_places,
                  .n_minute = set->n_minute,
                  .n_doppler = set->n_doppler,
                  .n_dipole_field = set->stations.n_field,
                  .n_element = set->stations.n_element,
                  .n_beam_dir = set->stations.n_dir,
                  .applied = set->stations.applied,
                  .applied_rad = {set->stations.applied_rad[0], set->stations.applied_rad[1]},
                  .row_times = set->row_times};
    memcpy(h.data_column, set->data_column, sizeof h.data_column);
    memcpy(h.model_column, set->model_column, sizeof h.model_column);
    memcpy(h.place, set->place, sizeof h.place);
    memcpy(h.telescope, set->telescope, sizeof h.telescope);
    memcpy(h.delay, set->delay, sizeof h.delay);
    *is_whole = msi_transfer(c, &h, sizeof h);
    if (c->from) {
        if (!*is_whole || h.n_setup < 0 || h.n_setup > (c->n - c->at) / (int64_t)sizeof *set->setup || h.n_field < 0 ||
            h.n_field > INT32_MAX) {
            *is_whole = 0;
            return MSI_OK;
        }
        set->n_table_row = h.n_table_row;
        set->n_selected_time = h.n_selected_time;
        set->has_weight_spectrum = h.has_weight_spectrum != 0;
        memcpy(set->data_column, h.data_column, sizeof h.data_column);
        end_text(set->data_column, sizeof set->data_column);
        memcpy(set->model_column, h.model_column, sizeof h.model_column);
        end_text(set->model_column, sizeof set->model_column);
        set->has_places = h.has_places != 0;
        memcpy(set->place, h.place, sizeof h.place);
        memcpy(set->telescope, h.telescope, sizeof h.telescope);
        end_text(set->telescope, sizeof set->telescope);
        set->has_delay = h.has_delay == 2 ? 2 : h.has_delay != 0;
        memcpy(set->delay, h.delay, sizeof h.delay);
        set->row_times = h.row_times;
        MSI_TRY(msi_alloc(&set->setup, h.n_setup > 0 ? h.n_setup : 1, sizeof *set->setup, "data descriptions"));
        set->n_setup = (int)h.n_setup;
    }
    MSI_TRY(msi_transfer_array(c, &set->field, h.n_field, sizeof *set->field, is_whole));
    if (*is_whole) set->n_field = (int)h.n_field;
    for (int i = 0; i < set->n_setup && *is_whole; i++) MSI_TRY(pass_setup(c, &set->setup[i], is_whole));
    if (*is_whole) MSI_TRY(pass_windows(c, set, h.n_window, is_whole));
    if (*is_whole) MSI_TRY(pass_antennas(c, set, h.n_antenna, is_whole));
    if (*is_whole) MSI_TRY(pass_doppler(c, set, h.n_minute, h.n_doppler, is_whole));
    if (*is_whole) MSI_TRY(pass_stations(c, set, &h, is_whole));
    if (*is_whole && h.n_notes > 0) MSI_TRY(msi_transfer_array(c, &set->notes, h.n_notes, 1, is_whole));
    if (*is_whole) set->n_notes = h.n_notes;
    return MSI_OK;
}

static int pass_reader(msi_cursor *c, msi_ms_reader *r, int *is_whole)
{
    reader_head h = {.n_set = r->n_set, .n_time = r->n_time, .observation = r->observation};
    *is_whole = msi_transfer(c, &h, sizeof h) && h.n_set == r->n_set;
    if (c->from) {
        r->n_time = h.n_time;
        r->observation = h.observation;
    }
    for (int i = 0; i < r->n_set && *is_whole; i++) MSI_TRY(pass_set(c, &r->set[i], is_whole));
    if (c->from && c->at != c->n) *is_whole = 0;
    return MSI_OK;
}

/* ---- Packing ---- */

int msi_ms_pack_metadata(const msi_ms_reader *r, char **out, int64_t *n)
{
    msi_ms_reader same = *r; /* not changed */
    msi_cursor c = {0};
    int is_whole;
    *out = NULL;
    MSI_TRY(pass_reader(&c, &same, &is_whole));
    MSI_TRY(msi_alloc(out, c.at, 1, "metadata of the sets"));
    *n = c.at;
    c = (msi_cursor){.to = *out};
    return pass_reader(&c, &same, &is_whole);
}

/* ---- Unpacking ---- */

static int channels_are_sound(const msi_ms_setup *s)
{
    for (int32_t c = 0; c < s->n_chan; c++) {
        if (s->chan_index[c] < s->span_first || s->chan_index[c] >= s->span_first + s->n_span) return 0;
        if (!isfinite(s->freq_hz[c]) || !(s->freq_hz[c] > 0) || !(s->width_hz[c] >= 0)) return 0;
        if (c > 0 && !(s->freq_hz[c] >= s->freq_hz[c - 1])) return 0;
    }
    return 1;
}

static int setup_is_sound(const msi_ms_setup *s, int64_t n_table_row)
{
    if (s->n_chan == 0) return s->n_row == 0;
    if (s->n_corr < 1 || s->n_corr > MSI_MAX_CORR || s->n_row < 0 || s->n_row > n_table_row) return 0;
    for (int i = 0; i < s->n_corr; i++)
        if ((int)s->corr[i] < MSI_POL_I || (int)s->corr[i] > MSI_POL_YY) return 0;
    if (s->n_chan < 0 || s->n_chan > s->n_span || s->n_span > s->n_stored || s->span_first < 0 ||
        s->span_first > s->n_stored - s->n_span || s->spw_id < 0)
        return 0;
    if (s->block_rows < 1 || s->block_rows > MSI_MS_BLOCK_ROWS) return 0;
    const int64_t row_samples = (int64_t)s->n_span * s->n_corr;
    return (s->block_rows == 1 || s->block_rows * row_samples <= MSI_MS_BLOCK_SAMPLES) && channels_are_sound(s);
}

/* Check a set and count its rows and channels into the reader. */
static int check_set(msi_ms_reader *r, msi_ms_set *set)
{
    int64_t n_row = 0;
    if (set->n_notes < 0 || (set->n_notes > 0 && set->notes[set->n_notes - 1])) return 0;
    if (set->n_table_row < 0 || set->n_selected_time < 0 || set->n_selected_time > set->n_table_row) return 0;
    for (int i = 0; i < set->n_field; i++) {
        msi_ms_field *f = &set->field[i];
        end_text(f->name, sizeof f->name);
        end_text(f->frame, sizeof f->frame);
        if (f->n_row < 0 || f->n_row > set->n_table_row) return 0;
        if ((int)f->motion < MSI_MS_FIXED || f->motion > MSI_MS_PLANET) return 0;
        if (f->n_row > 0 && !(isfinite(f->ra_rad) && isfinite(f->dec_rad))) return 0;
        if (f->aim.is_known && !(isfinite(f->aim.ra_rad) && fabs(f->aim.dec_rad) <= MSI_PI / 2)) return 0;
    }
    if (!msi_ms_set_doppler_is_sound(set)) return 0;
    for (int i = 0; i < set->n_setup; i++) {
        const msi_ms_setup *s = &set->setup[i];
        int64_t n_sample;
        if (!setup_is_sound(s, set->n_table_row) || (s->n_chan > 0 && s->spw_id >= set->n_window) ||
            __builtin_mul_overflow(s->n_row, (int64_t)s->n_chan, &n_sample) ||
            __builtin_add_overflow(r->n_sample, n_sample, &r->n_sample))
            return 0;
        n_row += s->n_row;
        if (n_row > set->n_table_row) return 0;
        r->n_spw += s->n_chan > 0;
    }
    set->n_row = n_row;
    return !__builtin_add_overflow(r->n_row, n_row, &r->n_row);
}

static int observation_is_sound(msi_observation *o)
{
    /* Antenna positions are used for headers and bounds only, so positions that are not finite are accepted. */
    const double numbers[] = {o->ra_rad, o->dec_rad, o->start_mjd_s, o->end_mjd_s, o->rest_freq_hz};
    end_text(o->telescope, sizeof o->telescope);
    end_text(o->observer, sizeof o->observer);
    end_text(o->object, sizeof o->object);
    end_text(o->dir_frame, sizeof o->dir_frame);
    end_text(o->time_scale, sizeof o->time_scale);
    end_text(o->spec_frame, sizeof o->spec_frame);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!isfinite(numbers[i])) return 0;
    return o->rest_freq_hz >= 0;
}

static int check_reader(msi_ms_reader *r)
{
    if (r->n_time < 0 || !observation_is_sound(&r->observation)) return 0;
    for (int i = 0; i < r->n_set; i++)
        if (!check_set(r, &r->set[i])) return 0;
    return 1;
}

int msi_ms_unpack_metadata(msi_ms_reader **out, const char *const *paths, int n_path, const char *bytes, int64_t n)
{
    msi_ms_reader *r;
    msi_cursor c = {.from = bytes, .n = n};
    int is_whole = 0;
    *out = NULL;
    MSI_TRY(msi_ms_reader_make(&r, paths, n_path));
    int status = pass_reader(&c, r, &is_whole);
    if (status == MSI_OK && !(is_whole && check_reader(r)))
        status = msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: the reader process returned invalid metadata",
                               paths[0]);
    if (status == MSI_OK) status = msi_ms_reader_list(r);
    if (status != MSI_OK) {
        msi_ms_reader_free(r);
        return status;
    }
    *out = r;
    return MSI_OK;
}
