/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader's interface: opens sets, and plans which rows make up the next blocks of about 1 MB. */
#include "io/ms/ms_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_metadata.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_subtables.h"

/* ---- Open ---- */

int msi_ms_reader_make(msi_ms_reader **out, const char *const *paths, int n_path)
{
    msi_ms_reader *r = NULL;
    *out = NULL;
    if (n_path < 1) return msi_error_set(MSI_EARGUMENT, "no Measurement Set is given");
    MSI_TRY(msi_alloc(&r, 1, sizeof *r, "the reader"));
    int status = msi_ms_paths_copy(&r->paths, paths, n_path);
    if (status == MSI_OK) status = msi_alloc(&r->set, n_path, sizeof *r->set, "Measurement Sets");
    if (status != MSI_OK) {
        msi_ms_reader_free(r);
        return status;
    }
    r->n_set = n_path;
    for (int i = 0; i < n_path; i++) r->set[i].path = r->paths[i];
    *out = r;
    return MSI_OK;
}

/* Return 1 if two names mean the same time scale. */
static int is_one_scale(const char *a, const char *b)
{
    const int is_tai[] = {!strcasecmp(a, "TAI") || !strcasecmp(a, "IAT"),
                          !strcasecmp(b, "TAI") || !strcasecmp(b, "IAT")};
    return strcasecmp(a, b) == 0 || (is_tai[0] && is_tai[1]);
}

/* Combine the observations of all sets: that of the first set with selected rows, with the times of all sets. */
static void join_observation(msi_ms_reader *r, int i, const msi_observation *o)
{
    msi_observation *all = &r->observation;
    const double start_mjd_s = fmin(i > 0 ? all->start_mjd_s : o->start_mjd_s, o->start_mjd_s);
    const double end_mjd_s = fmax(i > 0 ? all->end_mjd_s : o->end_mjd_s, o->end_mjd_s);
    if (i == 0 || r->n_row == 0) *all = *o;
    all->start_mjd_s = start_mjd_s;
    all->end_mjd_s = end_mjd_s;
}

/* Convert the times of an observation to the time scale of the first set. If times are written, all sets must have the
 * same scale. */
static int take_time_scale(const msi_ms_reader *r, int i, msi_observation *o)
{
    const char *scale = r->observation.time_scale;
    if (i == 0 || is_one_scale(scale, o->time_scale)) return MSI_OK;
    if (r->selection.needs_one_time_scale || r->selection.mssel[MSI_MSSEL_TIME])
        return msi_error_set(MSI_EINPUT,
                             "times of %s are %s, of %s %s; sets of different time scales cannot be joined%s",
                             r->set[0].path, scale, r->set[i].path, o->time_scale,
                             r->selection.mssel[MSI_MSSEL_TIME] ? " where times are selected" : "");
    MSI_CCC(ccc_epoch_convert(o->time_scale, scale, &o->start_mjd_s));
    MSI_CCC(ccc_epoch_convert(o->time_scale, scale, &o->end_mjd_s));
    snprintf(o->time_scale, sizeof o->time_scale, "%s", scale);
    return MSI_OK;
}

/* Fail if -data-column names a column that no set has. */
static int check_column_is_there(const msi_ms_reader *r, const msi_ms_selection *selection)
{
    const char *column = selection->data_column;
    if (!column || strcmp(column, "CORRECTED_DATA") != 0) return MSI_OK;
    for (int i = 0; i < r->n_set; i++)
        if (strcmp(r->set[i].data_column, column) == 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: has no column %s%s; its data columns are: DATA", r->set[0].path, column,
                         r->n_set > 1 ? ", nor has any other set" : "");
}

/* Find the part of an expression that is for a set. Returned: *text  owned; NULL: the expression is for all sets */
static int part_of_set(const msi_ms_reader *r, int set, const char *expression, char **text)
{
    int n = 1;
    *text = NULL;
    if (!expression || !strchr(expression, MSI_MSSEL_NEXT_SET)) return MSI_OK;
    for (const char *c = expression; *c; c++) n += *c == MSI_MSSEL_NEXT_SET;
    if (n != r->n_set)
        return msi_error_set(MSI_EINPUT,
                             "selection '%s': %d expressions for %d set%s; give one for all sets, or one for each",
                             expression, n, r->n_set, msi_plural(r->n_set));
    for (int i = 0; i < set; i++) expression = strchr(expression, MSI_MSSEL_NEXT_SET) + 1;
    const size_t length = strcspn(expression, (const char[]){MSI_MSSEL_NEXT_SET, 0});
    MSI_TRY(msi_alloc(text, (int64_t)length + 1, 1, "a selection"));
    memcpy(*text, expression, length);
    return MSI_OK;
}

static int read_set(msi_ms_reader *r, int i, const msi_ms_selection *selection, const msi_ms_partners *partners)
{
    msi_ms_set *set = &r->set[i];
    MSI_TRY(msi_ms_set_open(set));
    MSI_TRY(msi_ms_set_describe(set, selection));
    if (!selection->data_column && !selection->columns_may_differ &&
        strcmp(set->data_column, r->set[0].data_column) != 0)
        return msi_error_set(MSI_EINPUT, "%s would be read from %s, %s from %s; choose the data column", r->set[0].path,
                             r->set[0].data_column, set->path, set->data_column);
    MSI_TRY(msi_ms_set_select(set, selection, partners));
    msi_observation o;
    MSI_TRY(msi_ms_set_observe(set, &o));
    if (selection->spectral_frame) MSI_TRY(msi_ms_set_find_doppler(set, &o, selection->spectral_frame));
    if (selection->aims) MSI_TRY(msi_ms_set_find_aims(set, o.time_scale, selection->aims == MSI_MS_AIMS_IF_QUICK));
    MSI_TRY(take_time_scale(r, i, &o));
    join_observation(r, i, &o);
    r->n_row += set->n_row;
    if (set->n_time > r->n_time) r->n_time = set->n_time;
    for (int k = 0; k < set->n_setup; k++) {
        r->n_sample += set->setup[k].n_row * set->setup[k].n_chan;
        r->n_spw += set->setup[k].n_chan > 0;
    }
    /* Only one set is open at a time, because the number of open files is limited. */
    if (r->n_set > 1) msi_ms_set_close(set);
    return MSI_OK;
}

static int open_set(msi_ms_reader *r, int i, const msi_ms_selection *selection, const msi_ms_partners *partners)
{
    msi_ms_selection own = *selection;
    char *text[MSI_N_MSSEL] = {0};
    int rc = MSI_OK;
    for (int k = 0; k < MSI_N_MSSEL && !rc; k++) {
        rc = part_of_set(r, i, selection->mssel[k], &text[k]);
        if (text[k]) own.mssel[k] = *text[k] ? text[k] : NULL;
    }
    if (!rc) rc = read_set(r, i, &own, partners);
    for (int k = 0; k < MSI_N_MSSEL; k++) msi_free(text[k]);
    return rc;
}

int msi_ms_reader_list(msi_ms_reader *r)
{
    MSI_TRY(msi_alloc(&r->spw, r->n_spw, sizeof *r->spw, "spectral setups"));
    msi_ms_spw *spw = r->spw;
    for (int i = 0; i < r->n_set; i++)
        for (int k = 0; k < r->set[i].n_setup; k++) {
            const msi_ms_setup *s = &r->set[i].setup[k];
            if (s->n_chan == 0) continue;
            *spw = (msi_ms_spw){.set = i,
                                .data_desc_id = k,
                                .spw_id = s->spw_id,
                                .n_chan = s->n_chan,
                                .n_corr = s->n_corr,
                                .freq_hz = s->freq_hz,
                                .width_hz = s->width_hz,
                                .chan_index = s->chan_index,
                                .n_row = s->n_row};
            memcpy(spw->corr, s->corr, sizeof spw->corr);
            spw++;
        }
    return MSI_OK;
}

int msi_ms_reader_open(msi_ms_reader **out, const char *const *paths, int n_path, const msi_ms_selection *selection)
{
    return msi_ms_reader_open_with(out, paths, n_path, selection, NULL);
}

int msi_ms_reader_open_with(msi_ms_reader **out, const char *const *paths, int n_path,
                            const msi_ms_selection *selection, const msi_ms_partners *partners)
{
    msi_ms_reader *r;
    *out = NULL;
    MSI_TRY(msi_ms_reader_make(&r, paths, n_path));
    r->selection = *selection;
    int status = MSI_OK;
    for (int i = 0; i < n_path && status == MSI_OK; i++) {
        const msi_progress_share all = msi_progress_enter(i, i + 1, n_path);
        status = open_set(r, i, selection, partners);
        msi_progress_leave(all);
    }
    if (status == MSI_OK) status = check_column_is_there(r, selection);
    if (status == MSI_OK && !r->n_row && !selection->interval_end)
        status = msi_error_set(MSI_EINPUT, "%s: no row is selected in any of %d sets", paths[0], n_path);
    if (status == MSI_OK) status = msi_ms_reader_list(r);
    if (status == MSI_OK) status = msi_alloc(&r->piece, MSI_MS_MAX_PIECES, sizeof *r->piece, "row ranges");
    if (status != MSI_OK) {
        msi_ms_reader_free(r);
        return status;
    }
    *out = r;
    return MSI_OK;
}

/* ---- Results of the opening ---- */

const msi_observation *msi_ms_reader_observation(const msi_ms_reader *r)
{
    return &r->observation;
}

int msi_ms_reader_n_spw(const msi_ms_reader *r)
{
    return r->n_spw;
}

const msi_ms_spw *msi_ms_reader_spw(const msi_ms_reader *r, int i)
{
    return &r->spw[i];
}

const char *msi_ms_reader_data_column_of(const msi_ms_reader *r, int set)
{
    return r->set[set].data_column;
}

const char *msi_ms_reader_data_column(const msi_ms_reader *r)
{
    return r->set[0].data_column;
}

int64_t msi_ms_reader_n_row(const msi_ms_reader *r)
{
    return r->n_row;
}

int64_t msi_ms_reader_n_share_row(const msi_ms_reader *r)
{
    return r->n_share > 1 ? r->n_share_row : r->n_row;
}

int msi_ms_reader_has_whole_fields(const msi_ms_reader *r)
{
    return r->whole_fields;
}

int64_t msi_ms_reader_n_sample(const msi_ms_reader *r)
{
    return r->n_sample;
}

int64_t msi_ms_reader_n_time(const msi_ms_reader *r)
{
    return r->n_time;
}

int64_t msi_ms_reader_n_selected_time(const msi_ms_reader *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->n_set; i++)
        if (r->set[i].n_selected_time > n) n = r->set[i].n_selected_time;
    return n;
}

/* A position in the list of fields: set and field. {0, -1} is before the first field. */
typedef struct field_place {
    int set, id;
} field_place;

/* Return the next field that has selected rows, set by set; NULL after the last one. */
static const msi_ms_field *next_field(const msi_ms_reader *r, field_place *at)
{
    for (; at->set < r->n_set; at->set++, at->id = -1)
        while (++at->id < r->set[at->set].n_field) {
            const msi_ms_field *f = &r->set[at->set].field[at->id];
            if (f->n_row > 0) return f;
        }
    return NULL;
}

int msi_ms_reader_field(const msi_ms_reader *r, int64_t *at, int *id, const char **name)
{
    field_place place = {(int)(*at >> 32), (int)(*at & INT32_MAX) - 1};
    const msi_ms_field *f = next_field(r, &place);
    if (!f) return 0;
    *at = (int64_t)place.set << 32 | (place.id + 1);
    *id = place.id;
    *name = f->name;
    return 1;
}

int msi_ms_reader_pointing(const msi_ms_reader *r, int64_t *at, int *set, int *id, double *ra_rad, double *dec_rad,
                           int64_t *n_row)
{
    field_place place = {(int)(*at >> 32), (int)(*at & INT32_MAX) - 1};
    const msi_ms_field *f = next_field(r, &place);
    if (!f) return 0;
    *at = (int64_t)place.set << 32 | (place.id + 1);
    *set = place.set;
    *id = place.id;
    *ra_rad = f->ra_rad;
    *dec_rad = f->dec_rad;
    *n_row = f->n_row;
    return 1;
}

msi_ms_aim msi_ms_reader_aim(const msi_ms_reader *r, int64_t at)
{
    return r->set[at >> 32].field[(at & INT32_MAX) - 1].aim;
}

const msi_ms_beam_dir *msi_ms_reader_beam_dir(const msi_ms_reader *r, int64_t at)
{
    const msi_ms_stations *s = &r->set[at >> 32].stations;
    const int64_t id = (at & INT32_MAX) - 1;
    return id < s->n_dir ? &s->dir[id] : NULL;
}

const msi_ms_name *msi_ms_reader_antenna_names(const msi_ms_reader *r, int set, int64_t *n)
{
    *n = r->set[set].n_antenna;
    return r->set[set].antenna_name;
}

msi_ms_doppler msi_ms_reader_doppler(const msi_ms_reader *r, int set, int field_id)
{
    const msi_ms_set *s = &r->set[set];
    const int is_there = s->n_doppler && field_id >= 0 && field_id < s->n_field && s->field[field_id].n_row > 0;
    if (!is_there) return (msi_ms_doppler){0};
    return (msi_ms_doppler){s->n_minute, s->minute, s->doppler + s->field[field_id].doppler * s->n_minute * 2};
}

double msi_ms_doppler_at(const msi_ms_doppler *d, double time_s)
{
    const int64_t minute = (int64_t)floor(time_s / MSI_MS_MINUTE_S);
    int64_t low = 0, high = d->n_minute - 1;
    while (low < high) {
        const int64_t middle = (low + high + 1) / 2;
        if (d->minute[middle] <= minute)
            low = middle;
        else
            high = middle - 1;
    }
    const double part = time_s / MSI_MS_MINUTE_S - (double)d->minute[low], along = fmin(1, fmax(0, part));
    return d->ratio[2 * low] + along * (d->ratio[2 * low + 1] - d->ratio[2 * low]);
}

msi_ms_beam_facts msi_ms_reader_beam_facts(const msi_ms_reader *r, int set)
{
    const msi_ms_set *s = &r->set[set];
    msi_ms_beam_facts f = {.n_antenna = s->n_antenna,
                           .diameter_m = s->antenna_diameter_m,
                           .kind = s->antenna_kind,
                           .itrf_m = s->antenna_itrf_m,
                           .row_times = s->row_times,
                           .stations = &s->stations,
                           .has_delay = s->has_delay};
    msi_observation o = {0};
    memcpy(f.telescope, s->telescope, sizeof f.telescope);
    memcpy(f.delay, s->delay, sizeof f.delay);
    msi_ms_observe_antennas(s, &o);
    memcpy(f.position_itrf_m, o.antenna_itrf_m, sizeof f.position_itrf_m);
    return f;
}

msi_ms_motion msi_ms_reader_moving(const msi_ms_reader *r, int *id, const char **name)
{
    field_place place = {0, -1};
    const msi_ms_field *f = next_field(r, &place);
    while (f && f->motion == MSI_MS_FIXED) f = next_field(r, &place);
    if (!f) return MSI_MS_FIXED;
    *id = place.id;
    *name = f->name;
    return f->motion;
}

const char *msi_ms_reader_notes(const msi_ms_reader *r, int set)
{
    return r->set[set].notes ? r->set[set].notes : "";
}

const msi_ms_dropped *msi_ms_reader_dropped(const msi_ms_reader *r)
{
    return &r->dropped;
}

uint64_t msi_ms_reader_fingerprint(const msi_ms_reader *r)
{
    const msi_observation *o = &r->observation;
    const double *const of_all[] = {&o->start_mjd_s, &o->end_mjd_s, &o->longest_baseline_m, &o->ra_rad, &o->dec_rad};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof of_all / sizeof *of_all; i++) hash = msi_hash(hash, of_all[i], sizeof *of_all[i]);
    for (int i = 0; i < r->n_set; i++) {
        const msi_ms_set *set = &r->set[i];
        hash = msi_hash(hash, &set->n_table_row, sizeof set->n_table_row);
        for (int k = 0; k < set->n_field; k++) hash = msi_hash(hash, &set->field[k].n_row, sizeof set->field[k].n_row);
        for (int k = 0; k < set->n_setup; k++) {
            const msi_ms_setup *s = &set->setup[k];
            hash = msi_hash(hash, &s->n_row, sizeof s->n_row);
            if (s->n_chan) hash = msi_hash(hash, s->freq_hz, s->n_chan * (int64_t)sizeof *s->freq_hz);
        }
        hash = msi_hash(hash, set->data_column, (int64_t)strlen(set->data_column));
    }
    return hash;
}

int msi_ms_reader_n_process(const msi_ms_reader *r)
{
    return r->pool ? r->pool_ops->n_process(r->pool) : 0;
}

double msi_ms_reader_field_distance(const msi_ms_reader *r)
{
    field_place place = {0, -1};
    const msi_ms_field *first = next_field(r, &place);
    double most = 0;
    for (const msi_ms_field *f = first; f; f = next_field(r, &place)) {
        const double across = remainder(f->ra_rad - first->ra_rad, 2 * MSI_PI) * cos(first->dec_rad);
        most = fmax(most, hypot(across, f->dec_rad - first->dec_rad));
    }
    return most;
}

int msi_ms_reader_one_centre(const msi_ms_reader *r)
{
    field_place place = {0, -1};
    const msi_ms_field *first = next_field(r, &place);
    for (const msi_ms_field *f = first; f; f = next_field(r, &place))
        if (strcmp(f->frame, first->frame) != 0) return 0;
    return msi_ms_reader_field_distance(r) <= 1e-9;
}

static const char *frame_or_near(const char *frame)
{
    return strcasecmp(frame, "ICRS") == 0 ? "J2000" : frame;
}

int msi_ms_reader_check_frames(const msi_ms_reader *r)
{
    field_place place = {0, -1};
    const msi_ms_field *first = next_field(r, &place);
    for (const msi_ms_field *f = first; f; f = next_field(r, &place))
        if (strcasecmp(frame_or_near(f->frame), frame_or_near(first->frame)) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s/FIELD: row %d: PHASE_DIR is in %s, that of field '%s' in %s: fields of different "
                                 "frames are not joined; image each frame separately",
                                 r->set[place.set].path, place.id, f->frame, first->name, first->frame);
    return MSI_OK;
}

int msi_ms_reader_check_shift(const msi_ms_reader *r)
{
    const char *name;
    int id;
    if (msi_ms_reader_moving(r, &id, &name) != MSI_MS_FIXED)
        return msi_error_set(MSI_EINPUT, "-shift: field '%s' (id %d) moves on the sky and cannot be shifted", name, id);
    return msi_ms_reader_check_frames(r);
}

int msi_ms_reader_centre_of(const msi_ms_reader *r, int64_t id, double *ra_rad, double *dec_rad)
{
    field_place place = {0, -1};
    const msi_ms_field *selected = next_field(r, &place);
    const msi_ms_set *set = &r->set[0];
    if (id >= set->n_field)
        return msi_error_set(MSI_EINPUT, "-shift field %lld: %s has the fields 0 to %d", (long long)id, set->path,
                             set->n_field - 1);
    const msi_ms_field *f = &set->field[id];
    if (f->motion != MSI_MS_FIXED)
        return msi_error_set(MSI_EINPUT, "-shift field %lld: field '%s' moves on the sky; give a fixed one, or RA DEC",
                             (long long)id, f->name);
    if (selected && strcasecmp(frame_or_near(f->frame), frame_or_near(selected->frame)) != 0)
        return msi_error_set(MSI_EINPUT,
                             "-shift field %lld: its PHASE_DIR is in %s, that of the selected field '%s' in %s; give "
                             "RA DEC in %s",
                             (long long)id, f->frame, selected->name, selected->frame, selected->frame);
    *ra_rad = f->ra_rad;
    *dec_rad = f->dec_rad;
    return MSI_OK;
}

/* ---- Shares ---- */

/* Find the largest item without a share. */
static int largest_left(const int64_t *size, int n, const int *share)
{
    int largest = -1;
    for (int i = 0; i < n; i++)
        if (share[i] < 0 && (largest < 0 || size[i] > size[largest])) largest = i;
    return largest;
}

int msi_ms_share_out(const int64_t *size, int n, int n_share, int *share)
{
    int64_t *has;
    MSI_TRY(msi_alloc(&has, n_share, sizeof *has, "shares"));
    for (int i = 0; i < n; i++) share[i] = -1;
    for (int n_assigned = 0; n_assigned < n; n_assigned++) {
        const int i = largest_left(size, n, share);
        int least = 0;
        for (int k = 1; k < n_share; k++)
            if (has[k] < has[least]) least = k;
        share[i] = least;
        has[least] += size[i] > 0 ? size[i] : 1;
    }
    msi_free(has);
    return MSI_OK;
}

/* Fields of any sets within this distance are put in the same share. */
static const double ONE_FIELD_RAD = 1e-6;

static int by_direction(const void *a, const void *b)
{
    const msi_ms_field *f = *(msi_ms_field *const *)a, *g = *(msi_ms_field *const *)b;
    if (f->dec_rad != g->dec_rad) return f->dec_rad < g->dec_rad ? -1 : 1;
    return f->ra_rad == g->ra_rad ? 0 : f->ra_rad < g->ra_rad ? -1 : 1;
}

static int is_same_direction(const msi_ms_field *f, const msi_ms_field *g)
{
    return fabs(f->ra_rad - g->ra_rad) < ONE_FIELD_RAD && fabs(f->dec_rad - g->dec_rad) < ONE_FIELD_RAD;
}

/* Assign all fields to shares. Given: field, size, of_size [n]  zeroed. Returned: *most  the most rows of a share */
static int share_fields(msi_ms_reader *r, int n, msi_ms_field **field, int64_t *size, int *of_size, int64_t *most)
{
    int n_direction = 0, at = 0;
    for (int s = 0; s < r->n_set; s++)
        for (int i = 0; i < r->set[s].n_field; i++)
            if (r->set[s].field[i].n_row > 0) field[at++] = &r->set[s].field[i];
    qsort(field, (size_t)n, sizeof *field, by_direction);
    for (int i = 0; i < n; i++) {
        if (i && !is_same_direction(field[i], field[i - 1])) n_direction++;
        size[n_direction] += field[i]->n_row;
        field[i]->share = n_direction;
    }
    MSI_TRY(msi_ms_share_out(size, n ? n_direction + 1 : 0, r->n_share, of_size));
    *most = r->n_share_row = 0;
    for (int k = 0; k < r->n_share; k++) {
        int64_t n_row = 0;
        for (int i = 0; i <= n_direction; i++) n_row += of_size[i] == k ? size[i] : 0;
        if (n_row > *most) *most = n_row;
        if (k == r->share) r->n_share_row = n_row;
    }
    for (int i = 0; i < n; i++) field[i]->share = of_size[field[i]->share];
    return MSI_OK;
}

int msi_ms_reader_take_share(msi_ms_reader *r, int share, int n_share, int whole_fields)
{
    int n = 0, *of_size = NULL;
    msi_ms_field **field = NULL;
    int64_t *size = NULL, most = 0;
    r->share = share;
    r->n_share = n_share;
    if (n_share < 2) return MSI_OK;
    field_place place = {0, -1};
    while (whole_fields && next_field(r, &place)) n++;
    int rc = msi_alloc(&field, n + 1, sizeof *field, "fields");
    if (!rc) rc = msi_alloc(&size, n + 1, sizeof *size, "fields");
    if (!rc) rc = msi_alloc(&of_size, n + 1, sizeof *of_size, "fields");
    if (!rc) rc = share_fields(r, n, field, size, of_size, &most);
    r->whole_fields = n && 2 * most * n_share <= 3 * r->n_row;
    if (!r->whole_fields) r->n_share_row = r->n_row / n_share + 1;
    msi_free(field);
    msi_free(size);
    msi_free(of_size);
    return rc;
}

/* ---- Plan ---- */

static msi_ms_group *find_group(msi_ms_reader *r, const msi_ms_run *run)
{
    for (int i = 0; i < r->n_group; i++)
        if (r->group[i].data_desc_id == run->data_desc_id && r->group[i].field_id == run->field_id) return &r->group[i];
    if (r->n_group == MSI_MS_MAX_GROUPS) return NULL;
    r->group[r->n_group] = (msi_ms_group){.data_desc_id = run->data_desc_id, .field_id = run->field_id};
    return &r->group[r->n_group++];
}

/* Add rows to groups, in order, until the block of a group is full. If no group is made, all rows have been read. */
static void plan(msi_ms_reader *r)
{
    r->n_piece = r->n_group = r->next_group = 0;
    while (r->set_index < r->n_set && r->n_piece < MSI_MS_MAX_PIECES) {
        msi_ms_set *set = &r->set[r->set_index];
        if (r->run_index == set->n_run) {
            if (r->n_group > 0) break;
            if (r->n_set > 1) msi_ms_set_close(set);
            r->set_index++;
            r->run_index = r->run_offset = 0;
            continue;
        }
        const msi_ms_run *run = &set->run[r->run_index];
        const int64_t block_rows = set->setup[run->data_desc_id].block_rows;
        msi_ms_group *g = find_group(r, run);
        if (!g) break;
        int64_t n = run->n_row - r->run_offset;
        if (n > block_rows - g->n_row) n = block_rows - g->n_row;
        r->piece[r->n_piece++] = (msi_ms_run){run->row + r->run_offset, n, run->data_desc_id, run->field_id};
        g->n_piece++;
        g->n_row += n;
        r->run_offset += n;
        if (r->run_offset == run->n_row) {
            r->run_index++;
            r->run_offset = 0;
        }
        if (g->n_row == block_rows) break;
    }
}

/* ---- Read ---- */

static int find_buffer(msi_ms_reader *r, msi_ms_block *block)
{
    if (block->buffer) return MSI_OK;
    MSI_TRY(msi_alloc(&block->buffer, 1, sizeof *block->buffer, "a block"));
    block->buffer->next = r->buffers;
    r->buffers = block->buffer;
    return MSI_OK;
}

/* Return the sample at which a share begins. */
static int64_t share_begin(const msi_ms_reader *r, int share)
{
    return r->n_sample / r->n_share * share + r->n_sample % r->n_share * share / r->n_share;
}

/* Return 1 if a block belongs to the reader's share: the share that contains the block's first sample, counted through
 * all sets. After the end of the share, *is_end is 1. */
static int is_in_share(msi_ms_reader *r, const msi_ms_group *group, int *is_end)
{
    if (r->n_share < 2) return 1;
    if (r->whole_fields) return r->set[r->set_index].field[group->field_id].share == r->share;
    const int64_t first = r->n_sample_passed;
    r->n_sample_passed += group->n_row * r->set[r->set_index].setup[group->data_desc_id].n_chan;
    *is_end = first >= share_begin(r, r->share + 1);
    return !*is_end && first >= share_begin(r, r->share);
}

int msi_ms_reader_next_of(msi_ms_reader *r, int part, int n_part, msi_ms_block *block, int *is_end)
{
    block->n_row = 0;
    *is_end = 0;
    MSI_TRY(find_buffer(r, block));
    for (;;) {
        MSI_TRY(msi_interrupt_check());
        msi_child_progress(MSI_CHILD_STEP_S);
        if (r->next_group == r->n_group) plan(r);
        if (r->n_group == 0) {
            *is_end = 1;
            return MSI_OK;
        }
        const msi_ms_group *group = &r->group[r->next_group++];
        const int is_ours = is_in_share(r, group, is_end);
        if (*is_end) return MSI_OK;
        if (is_ours && r->n_taken++ % n_part == part) return msi_ms_block_read(r, group, block);
    }
}

int msi_ms_reader_next(msi_ms_reader *r, msi_ms_block *block)
{
    int is_end;
    if (r->pool) return r->pool_ops->next(r->pool, r, block);
    do MSI_TRY(msi_ms_reader_next_of(r, 0, 1, block, &is_end));
    while (block->n_row == 0 && !is_end);
    return MSI_OK;
}

void msi_ms_reader_rewind(msi_ms_reader *r)
{
    if (r->pool) r->pool_ops->rewind(r->pool);
    if (r->n_set > 1 && r->set_index < r->n_set) msi_ms_set_close(&r->set[r->set_index]);
    r->set_index = 0;
    r->run_index = r->run_offset = 0;
    r->n_piece = r->n_group = r->next_group = 0;
    r->n_taken = r->n_sample_passed = 0;
    memset(&r->dropped, 0, sizeof r->dropped);
}

void msi_ms_reader_free(msi_ms_reader *r)
{
    if (!r) return;
    for (int i = 0; i < r->n_set; i++) msi_ms_set_free(&r->set[i]);
    while (r->buffers) {
        struct msi_ms_buffer *b = r->buffers;
        r->buffers = b->next;
        msi_ms_buffer_free(b);
        msi_free(b);
    }
    msi_ms_raw_free(&r->raw);
    msi_free(r->piece);
    msi_free(r->spw);
    msi_free(r->paths);
    msi_free(r->set);
    msi_free(r);
}

/* ---- Metadata as bytes ---- */

/*
 * The bytes are a reader_head and, for each set, a set_head, its fields, its setups with their channels, the frames of
 * its windows, and the positions of its antennas, all in multiples of 8 bytes. One function both packs and unpacks each
 * of these, so that the order is the same.
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

/* The channels of windows are not packed, because setups have them. */
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
    msi_ms_reader same = *r; /* it is not changed, because the cursor packs */
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
    /* Positions of antennas are used only for headers and bounds, so positions that are not finite are accepted. */
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
