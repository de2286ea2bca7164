/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/facet_gains.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/h5/h5_files.h"
#include "src/facets/aterms.h"
#include "src/sky/phase_shift.h"

/* Phase of a total electron content of 1 TECU, times the frequency: e^2 1e16 / (4 pi epsilon_0 m c) in rad Hz. */
#define TEC_RAD_HZ (-8.44797245e9)

/* A time of a set, with the pointing of the beam. */
typedef struct time_of_set {
    int set, view;
    double time_s;
} time_of_set;

struct msi_facet_gains {
    int n_file, n_set, is_linear, checks_directions;
    msi_h5parm *file;                 /* [n_file] */
    char **path;                      /* [n_file] */
    msi_gain_form form, of_solutions; /* forms of the gains, and of the gains without the beam */
    int varies;                       /* 1: gains depend on the frequency between solutions, such as those of delays */
    int32_t **antenna;  /* [n_set] [tables][antennas of the set] index of an antenna in a table; -1: not in the table */
    int64_t *n_antenna; /* [n_set] */
    const msi_pb_array *pb; /* borrowed; NULL: none */
    double update_s;
    msi_pb_view *view;   /* [pb->n_pointing] */
    uint8_t **kind;      /* [n_set] [antennas] class of the beam's model */
    double (*lmn)[3];    /* [n_facet] directions of the facets */
    msi_aterms *aterms;  /* NULL: none */
    msi_aterm_view look; /* the facets' directions in the screens of aterms */
    double (*offset)[2]; /* [n_facet] l and m from the facet's direction to the middle of its box */
    int64_t n_facet;
    int32_t **direction; /* [n_file] [tables][n_facet] index of the facet's direction in a table */
    int64_t n_slot, slot_capacity;
    time_of_set *slot;
    int64_t n_bucket; /* a power of two */
    int32_t *bucket;  /* [n_bucket] a slot; -1: free */
};

/* Return the index of the file with the solutions of a set. One file serves all sets. */
static int file_number(const msi_facet_gains *g, int set)
{
    return g->n_file > 1 ? set : 0;
}

static const msi_h5parm *file_of(const msi_facet_gains *g, int set)
{
    static const msi_h5parm none;
    return !g->n_file ? &none : &g->file[file_number(g, set)];
}

/* ---- Open ---- */

/* Find the form of the product of all tables of a file. Given and returned: *form  replaced by a larger form if a table
 * needs it; *varies  set to 1 if a table depends on the frequency between solutions */
static int find_form(const msi_h5parm *h, const char *path, msi_gain_form *form, int *varies)
{
    int64_t most = 1, n_value_pol = 0;
    for (int i = 0; i < h->n_table; i++) {
        const msi_solution_table *t = &h->table[i];
        const int is_value = t->kind == MSI_SOLUTION_AMPLITUDE || t->kind == MSI_SOLUTION_PHASE;
        const int rotates = t->kind == MSI_SOLUTION_ROTATION || t->kind == MSI_SOLUTION_ROTATION_MEASURE;
        if (is_value && n_value_pol && n_value_pol != t->n_pol)
            return msi_error_set(MSI_EINPUT,
                                 "%s: %s has %lld polarisations, the table before it %lld; amplitudes and phases need "
                                 "the same",
                                 path, t->name.text, (long long)t->n_pol, (long long)n_value_pol);
        if (!is_value && t->n_pol > (rotates ? 1 : 2))
            return msi_error_set(MSI_EINPUT, "%s: %s has %lld polarisations, which its kind cannot have", path,
                                 t->name.text, (long long)t->n_pol);
        if (is_value) n_value_pol = t->n_pol;
        *varies |= !is_value;
        most = t->n_pol > most ? t->n_pol : most;
        if (rotates) most = 4;
    }
    if (most > (int64_t)*form) *form = (msi_gain_form)most;
    return MSI_OK;
}

int msi_facet_gains_open(msi_facet_gains **out, const msi_facet_options *o, int n_set)
{
    msi_facet_gains *g;
    char *list, *rest;
    int n = o->files != NULL;
    *out = NULL;
    if (!o->files && !o->beam && !o->aterms) return MSI_OK;
    for (const char *c = o->files; c && *c; c++) n += *c == ',';
    if (n > 1 && n != n_set)
        return msi_error_set(MSI_EINPUT, "%s: %d files of solutions for %d sets; give one file, or one for each set",
                             o->files, n, n_set);
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "solutions"));
    *out = g;
    g->n_set = n_set;
    g->is_linear = o->is_linear == MSI_SOLUTION_LINEAR;
    g->checks_directions = !o->any_direction;
    g->update_s = o->aterms ? o->aterm_update_s : o->update_s;
    g->of_solutions = MSI_GAIN_SCALAR;
    g->varies = g->is_linear;
    int rc = msi_alloc(&g->file, n, sizeof *g->file, "solutions");
    if (!rc) rc = msi_alloc(&g->path, n, sizeof *g->path, "solutions");
    if (!rc) rc = msi_alloc(&g->direction, n, sizeof *g->direction, "solutions");
    if (!rc) rc = msi_alloc(&g->antenna, g->n_set, sizeof *g->antenna, "solutions");
    if (!rc) rc = msi_alloc(&g->n_antenna, g->n_set, sizeof *g->n_antenna, "solutions");
    if (!rc) rc = msi_alloc(&g->kind, g->n_set, sizeof *g->kind, "solutions");
    if (!rc && n) rc = msi_alloc(&list, (int64_t)strlen(o->files) + 1, 1, "solutions");
    if (!rc && n) {
        strcpy(list, o->files);
        for (char *path = strtok_r(list, ",", &rest); !rc && path; path = strtok_r(NULL, ",", &rest)) {
            const int i = g->n_file++;
            rc = msi_alloc(&g->path[i], (int64_t)strlen(path) + 1, 1, "solutions");
            if (!rc) strcpy(g->path[i], path);
            if (!rc) rc = msi_h5parm_read(&g->file[i], path, o->tables);
            if (!rc) rc = find_form(&g->file[i], path, &g->of_solutions, &g->varies);
        }
        msi_free(list);
        if (!rc && g->n_file != n) rc = msi_error_set(MSI_EINPUT, "%s: an empty name of a file", o->files);
    }
    if (!rc && o->aterms) rc = msi_aterms_open(&g->aterms, o->aterms);
    if (!rc && g->aterms && msi_aterms_is_diagonal(g->aterms)) g->of_solutions = MSI_GAIN_DIAGONAL;
    if (!rc && g->aterms && msi_aterms_beam_update(g->aterms) >= 0) g->update_s = msi_aterms_beam_update(g->aterms);
    if (rc) {
        msi_facet_gains_free(g);
        *out = NULL;
    }
    return rc;
}

void msi_facet_gains_free(msi_facet_gains *g)
{
    if (!g) return;
    for (int i = 0; g->file && i < g->n_file; i++) msi_h5parm_free(&g->file[i]);
    for (int i = 0; g->path && i < g->n_file; i++) msi_free(g->path[i]);
    for (int i = 0; g->direction && i < g->n_file; i++) msi_free(g->direction[i]);
    for (int i = 0; g->antenna && i < g->n_set; i++) msi_free(g->antenna[i]);
    msi_free(g->file);
    msi_free(g->path);
    msi_free(g->direction);
    msi_free(g->antenna);
    msi_free(g->n_antenna);
    for (int i = 0; g->kind && i < g->n_set; i++) msi_free(g->kind[i]);
    msi_free(g->kind);
    msi_free(g->view);
    msi_free(g->lmn);
    msi_aterms_free(g->aterms);
    msi_aterm_view_free(&g->look);
    msi_free(g->offset);
    msi_free(g->slot);
    msi_free(g->bucket);
    msi_free(g);
}

msi_gain_form msi_facet_gains_form(const msi_facet_gains *g)
{
    return g->form;
}

int msi_facet_gains_has_beam(const msi_facet_gains *g)
{
    return g->pb != NULL;
}

int msi_facet_gains_has_slopes(const msi_facet_gains *g)
{
    return g->aterms != NULL;
}

/* ---- Directions and antennas ---- */

/* Return the index of the table's direction that is nearest to a facet. */
static int32_t nearest_direction(const msi_solution_table *t, const msi_facet *f)
{
    int32_t nearest = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < t->n_dir; i++) {
        msi_phase_shift shift;
        msi_phase_shift_make(&shift, f->ra_rad, f->dec_rad, t->dir_rad[i][0], t->dir_rad[i][1]);
        const double *d = shift.direction, distance2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        if (distance2 < least) {
            least = distance2;
            nearest = (int32_t)i;
        }
    }
    return nearest;
}

/* Warn if the observation exceeds the times of the solutions by more than their mean interval. */
static void warn_of_range(const msi_solution_table *t, const char *path, const msi_ms_reader *reader)
{
    const msi_observation *o = msi_ms_reader_observation(reader);
    const double around_s =
        t->n_time > 1 ? (t->time_s[t->n_time - 1] - t->time_s[0]) / (double)(t->n_time - 1) : INFINITY;
    if (o->start_mjd_s >= t->time_s[0] - around_s && o->end_mjd_s <= t->time_s[t->n_time - 1] + around_s) return;
    msi_log_warning(
        "%s: %s: its times are MJD %.4f to %.4f, those of the set %.4f to %.4f; the nearest solutions are used", path,
        t->name.text, t->time_s[0] / 86400, t->time_s[t->n_time - 1] / 86400, o->start_mjd_s / 86400,
        o->end_mjd_s / 86400);
}

/* Return the facet that contains a direction; -1: the direction is outside of the image. */
static int facet_at(const msi_facets *f, const double dir_rad[2])
{
    const msi_image_geometry *g = &f->geometry;
    msi_phase_shift shift;
    msi_phase_shift_make(&shift, f->ra_rad, f->dec_rad, dir_rad[0], dir_rad[1]);
    const double x = floor((double)(g->nx / 2) - shift.direction[0] / g->cell_x_rad + 0.5),
                 y = floor((double)(g->ny / 2) + shift.direction[1] / g->cell_y_rad + 0.5);
    if (!(shift.direction[2] > -1) || !(x >= 0 && x < (double)g->nx && y >= 0 && y < (double)g->ny)) return -1;
    return f->label[(int64_t)y * g->nx + (int64_t)x];
}

static int assign_directions(msi_facet_gains *g, int file, const msi_facets *facets)
{
    const msi_h5parm *h = &g->file[file];
    msi_free(g->direction[file]);
    MSI_TRY(msi_alloc(&g->direction[file], h->n_table * (int64_t)facets->n, sizeof(int32_t), "solutions"));
    for (int i = 0; i < h->n_table; i++)
        for (int k = 0; k < facets->n && h->table[i].has_dir; k++) {
            const msi_solution_table *t = &h->table[i];
            const int32_t d = nearest_direction(t, &facets->facet[k]);
            const int at = facet_at(facets, t->dir_rad[d]);
            if (g->checks_directions && at >= 0 && at != k)
                return msi_error_set(MSI_EINPUT,
                                     "%s: %s: facet %d \"%s\" would get the solutions of direction \"%s\", which lies "
                                     "in facet %d \"%s\"; use other facets, or -no-solution-directions-check",
                                     g->path[file], t->name.text, k, facets->facet[k].name, t->dir[d].text, at,
                                     facets->facet[at].name);
            g->direction[file][i * g->n_facet + k] = d;
            msi_log_detail("facet %d \"%s\": %s of direction %s", k, facets->facet[k].name, t->name.text,
                           t->dir[d].text);
        }
    return MSI_OK;
}

static int assign_antennas(msi_facet_gains *g, int set, const msi_ms_reader *reader)
{
    const msi_h5parm *h = file_of(g, set);
    const msi_ms_name *name = msi_ms_reader_antenna_names(reader, set, &g->n_antenna[set]);
    const int64_t n = g->n_antenna[set];
    msi_free(g->antenna[set]);
    g->antenna[set] = NULL;
    MSI_TRY(msi_alloc(&g->antenna[set], h->n_table * n, sizeof(int32_t), "solutions"));
    for (int i = 0; i < h->n_table; i++) {
        const msi_solution_table *t = &h->table[i];
        int64_t n_missing = 0, first = -1;
        for (int64_t a = 0; a < n; a++) {
            int32_t *to = &g->antenna[set][i * n + a];
            *to = t->has_ant ? -1 : 0;
            for (int64_t k = 0; *to < 0 && k < t->n_ant; k++)
                if (strcmp(t->ant[k].text, name[a].text) == 0) *to = (int32_t)k;
            if (*to < 0 && first < 0) first = a;
            n_missing += *to < 0;
        }
        if (n && n_missing == n)
            return msi_error_set(MSI_EINPUT,
                                 "%s: %s: has no antenna of the set: it has %s.., the set %s..; give the solutions of "
                                 "this set",
                                 g->path[file_number(g, set)], t->name.text, t->ant[0].text, name[0].text);
        if (n_missing)
            msi_log_warning("%s: %s: has no solutions for %lld of %lld antennas, the first of them %s; their gain is 1",
                            g->path[file_number(g, set)], t->name.text, (long long)n_missing, (long long)n,
                            name[first].text);
    }
    return MSI_OK;
}

/* Find the directions of the facets in the screens of a-terms, and the offsets to the middles of their boxes. */
static int assign_aterms(msi_facet_gains *g, const msi_facets *facets)
{
    const msi_image_geometry *geometry = &facets->geometry;
    const double centre[2] = {facets->ra_rad, facets->dec_rad};
    double(*lm)[2];
    msi_aterm_view_free(&g->look);
    msi_free(g->offset);
    g->offset = NULL;
    if (!g->aterms) return MSI_OK;
    MSI_TRY(msi_alloc(&g->offset, facets->n, sizeof *g->offset, "directions of screens"));
    MSI_TRY(msi_alloc(&lm, facets->n, sizeof *lm, "directions of screens"));
    for (int i = 0; i < facets->n; i++) {
        msi_phase_shift shift;
        double l, m;
        msi_phase_shift_make(&shift, centre[0], centre[1], facets->facet[i].ra_rad, facets->facet[i].dec_rad);
        memcpy(lm[i], shift.direction, sizeof lm[i]);
        if (!facets->label) continue;
        msi_facets_centre(facets, i, &l, &m);
        g->offset[i][0] = l - lm[i][0];
        g->offset[i][1] = m - lm[i][1];
    }
    /* Slopes are differences over 1 % of the image: less than the distance of facets, more than the rounding of
     * floats. */
    const double reach =
        0.01 * fmax((double)geometry->nx * geometry->cell_x_rad, (double)geometry->ny * geometry->cell_y_rad);
    const int rc = msi_aterms_look(g->aterms, centre, facets->n, (const double(*)[2])lm, reach, &g->look);
    msi_free(lm);
    return rc;
}

/* Prepare the beams: find the view of each pointing, the directions of the facets, and the class of each antenna. */
static int assign_beam(msi_facet_gains *g, const msi_facets *facets, const msi_ms_reader *reader)
{
    const double centre[2] = {facets->ra_rad, facets->dec_rad};
    msi_free(g->view);
    msi_free(g->lmn);
    g->view = NULL;
    g->lmn = NULL;
    g->form = g->of_solutions;
    if (!g->pb) return MSI_OK;
    MSI_TRY(msi_pb_array_views(g->pb, centre, &g->view));
    MSI_TRY(msi_alloc(&g->lmn, facets->n, sizeof *g->lmn, "beams of facets"));
    for (int i = 0; i < facets->n; i++) {
        msi_phase_shift shift;
        msi_phase_shift_make(&shift, centre[0], centre[1], facets->facet[i].ra_rad, facets->facet[i].dec_rad);
        memcpy(g->lmn[i], shift.direction, sizeof g->lmn[i]);
        g->lmn[i][2] += 1;
        for (int64_t k = 0; k < g->pb->n_pointing; k++) MSI_TRY(msi_pb_view_check(&g->view[k], g->lmn[i], g->lmn[i]));
    }
    /* The last sets may have no rows in the interval. */
    for (int i = 0; i < g->n_set && i < g->pb->n_set; i++) {
        const msi_pb_site *site = &g->pb->set[i];
        const msi_ms_beam_facts facts = msi_ms_reader_beam_facts(reader, i);
        msi_free(g->kind[i]);
        g->kind[i] = NULL;
        MSI_TRY(msi_alloc(&g->kind[i], g->n_antenna[i], sizeof **g->kind, "beams of facets"));
        for (int64_t a = 0; a < g->n_antenna[i]; a++)
            g->kind[i][a] = (uint8_t)(site->is_by_antenna ? a : site->class_of_kind[facts.kind[a]]);
        if (site->model && !msi_pb_model_is_scalar(site->model)) g->form = MSI_GAIN_FULL;
    }
    return MSI_OK;
}

int msi_facet_gains_assign(msi_facet_gains *g, const msi_facets *facets, const msi_ms_reader *reader,
                           const msi_pb_array *pb)
{
    g->n_facet = facets->n;
    g->pb = pb;
    for (int i = 0; i < g->n_file; i++) MSI_TRY(assign_directions(g, i, facets));
    for (int i = 0; i < g->n_set; i++) MSI_TRY(assign_antennas(g, i, reader));
    for (int i = 0; g->n_file == 1 && i < g->file[0].n_table; i++)
        warn_of_range(&g->file[0].table[i], g->path[0], reader);
    MSI_TRY(assign_aterms(g, facets));
    return assign_beam(g, facets, reader);
}

int msi_facet_gains_check(const msi_facet_gains *g, const msi_ms_reader *reader)
{
    for (int i = 0; g->aterms && i < g->n_set; i++) MSI_TRY(msi_aterms_check(g->aterms, reader, i));
    return MSI_OK;
}

int msi_facet_feeds(const msi_ms_reader *reader, int *is_circular)
{
    int n_circular = 0;
    const int n = msi_ms_reader_n_spw(reader);
    for (int i = 0; i < n; i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        n_circular += s->corr[0] >= MSI_POL_RR && s->corr[0] <= MSI_POL_LL;
    }
    *is_circular = n_circular > 0;
    if (!n_circular || n_circular == n) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "the sets have linear and circular feeds, so solutions cannot be applied to all; "
                                     "image them one by one");
}

/* ---- Slots ---- */

static uint64_t hash_of(const time_of_set *t)
{
    return msi_hash((uint64_t)t->set * 65536 + (uint64_t)t->view, &t->time_s, sizeof t->time_s);
}

/* Double the capacity for slots, and rebuild their hash table. */
static int grow_slots(msi_facet_gains *g)
{
    const int64_t capacity = g->slot_capacity ? 2 * g->slot_capacity : 1024;
    MSI_TRY(msi_grow(&g->slot, g->n_slot, capacity, sizeof *g->slot, "times of solutions"));
    g->slot_capacity = capacity;
    MSI_TRY(msi_grow(&g->bucket, 0, 2 * capacity, sizeof *g->bucket, "times of solutions"));
    g->n_bucket = 2 * capacity;
    for (int64_t i = 0; i < g->n_bucket; i++) g->bucket[i] = -1;
    for (int64_t i = 0; i < g->n_slot; i++) {
        uint64_t k = hash_of(&g->slot[i]);
        while (g->bucket[k & (uint64_t)(g->n_bucket - 1)] >= 0) k++;
        g->bucket[k & (uint64_t)(g->n_bucket - 1)] = (int32_t)i;
    }
    return MSI_OK;
}

/* Find the slot of a time, or add one. */
static int find_slot(msi_facet_gains *g, const time_of_set *t, int64_t *out)
{
    if (g->n_slot == g->slot_capacity) MSI_TRY(grow_slots(g));
    for (uint64_t k = hash_of(t);; k++) {
        int32_t *at = &g->bucket[k & (uint64_t)(g->n_bucket - 1)];
        if (*at < 0) {
            if (g->n_slot == INT32_MAX) return msi_error_set(MSI_EINPUT, "too many times for solutions");
            *at = (int32_t)g->n_slot;
            g->slot[g->n_slot++] = *t;
        } else if (g->slot[*at].set != t->set || g->slot[*at].view != t->view || g->slot[*at].time_s != t->time_s) {
            continue;
        }
        *out = *at;
        return MSI_OK;
    }
}

/* Return the index of a block's pointing; 0 if there is no beam or no such pointing. */
static int view_of(const msi_facet_gains *g, const msi_ms_block *block)
{
    const int64_t at = g->pb ? msi_pb_array_pointing(g->pb, block->set, block->field_id) : 0;
    return at < 0 ? 0 : (int)at;
}

int msi_facet_gains_slot(msi_facet_gains *g, int set, double time_s, int64_t *slot)
{
    time_of_set t = {.set = set, .time_s = time_s};
    while (g->pb && t.view + 1 < g->pb->n_pointing && g->pb->pointing[t.view].set != set) t.view++;
    return find_slot(g, &t, slot);
}

int msi_facet_gains_tag(msi_facet_gains *g, const msi_ms_block *block, uint64_t *tag)
{
    const int64_t n_antenna = g->n_antenna[block->set];
    time_of_set t = {.set = block->set, .view = view_of(g, block)};
    int64_t at = 0;
    for (int64_t i = 0; i < block->n_row; i++) {
        const int32_t a = block->antenna[2 * i], b = block->antenna[2 * i + 1];
        t.time_s = block->time_s[i];
        if (i == 0 || block->time_s[i] != block->time_s[i - 1]) MSI_TRY(find_slot(g, &t, &at));
        if (a < 0 || b < 0 || a >= n_antenna || b >= n_antenna || a > UINT16_MAX || b > UINT16_MAX)
            return msi_error_set(MSI_EINPUT, "a row has the antennas %d and %d, but the set has %lld", a, b,
                                 (long long)n_antenna);
        tag[i] = (uint64_t)a | (uint64_t)b << 16 | (uint64_t)at << 32;
    }
    return MSI_OK;
}

int64_t msi_facet_gains_n_slot(const msi_facet_gains *g)
{
    return g->n_slot;
}

int64_t msi_facet_gains_n_antenna(const msi_facet_gains *g, int64_t slot)
{
    return g->n_antenna[g->slot[slot].set];
}

/* ---- Gains ---- */

/* A position along the time or frequency axis of a table: between solutions `low` and `high`, or at one of them. */
typedef struct place {
    int64_t low, high;
    double part; /* weight of high */
} place;

static place find_place(const double *value, int64_t n, double at, int is_linear)
{
    int64_t low = 0, high = n - 1;
    if (n < 2 || !(at > value[0])) return (place){0, 0, 0};
    if (at >= value[high]) return (place){high, high, 0};
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (value[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    const double part = (at - value[low]) / (value[high] - value[low]);
    if (is_linear) return (place){low, high, part};
    return part < 0.5 ? (place){low, low, 0} : (place){high, high, 0};
}

/* Interpolate between two values. If one is NaN, return the other. Multiples of 2 pi bring an angle b within pi of a.
 * Given: part  weight of b */
static double blend(double a, double b, double part, int is_angle)
{
    if (part == 0 || isnan(b)) return a;
    if (isnan(a)) return b;
    if (is_angle) b -= 2 * MSI_PI * round((b - a) / (2 * MSI_PI));
    return a + part * (b - a);
}

/* Interpolate a solution in time and frequency. Given: value [n_time][n_freq][n_ant][n_pol]; in_cell  index of the
 * antenna and polarisation in the last two axes */
static double solution(const msi_solution_table *t, const float *value, const place *time, const place *freq,
                       int64_t in_cell)
{
    const int is_angle = t->kind == MSI_SOLUTION_PHASE || t->kind == MSI_SOLUTION_ROTATION;
    const int64_t step = t->n_ant * t->n_pol;
    double row[2];
    for (int k = 0; k < 2; k++) {
        const float *at = value + (k ? time->high : time->low) * t->n_freq * step + in_cell;
        row[k] = blend((double)at[freq->low * step], (double)at[freq->high * step], freq->part, is_angle);
        if (time->part == 0) return row[0];
    }
    return blend(row[0], row[1], time->part, is_angle);
}

/* The factors of a Jones matrix: amplitudes and phases of its elements, and an angle of rotation. */
typedef struct factors {
    double amplitude[4], phase[4], angle;
} factors;

/* Apply one solution to the factors of an element. */
static void apply_solution(const msi_solution_table *t, int element, double value, double freq_hz, factors *f)
{
    const double wavelength = MSI_SPEED_OF_LIGHT / freq_hz;
    switch (t->kind) {
    case MSI_SOLUTION_AMPLITUDE:
        f->amplitude[element] *= value;
        break;
    case MSI_SOLUTION_PHASE:
        f->phase[element] += value;
        break;
    case MSI_SOLUTION_TEC:
        f->phase[element] += TEC_RAD_HZ * value / freq_hz;
        break;
    case MSI_SOLUTION_CLOCK:
        f->phase[element] += 2 * MSI_PI * freq_hz * value;
        break;
    case MSI_SOLUTION_ROTATION:
        f->angle += value;
        break;
    case MSI_SOLUTION_ROTATION_MEASURE:
        f->angle += value * wavelength * wavelength;
        break;
    }
}

/* Multiply a 2 x 2 matrix from the right by a rotation. */
static void rotate(msi_c64 *j, double angle)
{
    const double c = cos(angle), s = sin(angle);
    for (int row = 0; row < 2; row++) {
        const msi_c64 a = j[2 * row], b = j[2 * row + 1];
        j[2 * row] = (msi_c64){a.re * c + b.re * s, a.im * c + b.im * s};
        j[2 * row + 1] = (msi_c64){b.re * c - a.re * s, b.im * c - a.im * s};
    }
}

/* Compute a Jones matrix from its factors. Elements that are not finite become 0. */
static void make_matrix(const factors *f, msi_gain_form form, int has_off_diagonal, msi_c64 *j)
{
    for (int e = 0; e < (int)form; e++) {
        j[e] = (msi_c64){f->amplitude[e] * cos(f->phase[e]), f->amplitude[e] * sin(f->phase[e])};
        if (form == MSI_GAIN_FULL && (e == 1 || e == 2) && !has_off_diagonal) j[e] = (msi_c64){0, 0};
    }
    if (form == MSI_GAIN_FULL && f->angle != 0) rotate(j, f->angle);
    for (int e = 0; e < (int)form; e++)
        if (!isfinite(j[e].re) || !isfinite(j[e].im)) j[e] = (msi_c64){0, 0};
}

/* Apply the solutions of a table to the elements of a matrix, each from its polarisation. */
static void apply_table(const msi_facet_gains *g, const msi_solution_table *t, const float *value, const place *time,
                        const place *freq, int32_t antenna, double freq_hz, factors *f)
{
    const int n = (int)g->form;
    for (int e = 0; e < n; e++) {
        /* Elements of a full matrix are XX, XY, YX, YY; two polarisations are its diagonal. */
        const int pol = t->n_pol == 1 ? 0 : t->n_pol == n ? e : e / 2;
        const int rotates = t->kind == MSI_SOLUTION_ROTATION || t->kind == MSI_SOLUTION_ROTATION_MEASURE;
        if (rotates && e) break;
        apply_solution(t, e, solution(t, value, time, freq, antenna * t->n_pol + pol), freq_hz, f);
    }
}

/* Compute the Jones matrices of the solutions for a facet in a slot. Returned: jones  as in msi_facet_gains_make */
static void make_solutions(const msi_facet_gains *g, int facet, const time_of_set *s, int32_t n_chan,
                           const double *freq_hz, msi_c64 *jones)
{
    const msi_h5parm *h = file_of(g, s->set);
    const int file = file_number(g, s->set), n = (int)g->form;
    const int64_t n_antenna = g->n_antenna[s->set];
    place time[MSI_H5_MOST_TABLES], freq[MSI_H5_MOST_TABLES], before[MSI_H5_MOST_TABLES];
    const float *value[MSI_H5_MOST_TABLES];
    for (int i = 0; i < h->n_table; i++) {
        const msi_solution_table *t = &h->table[i];
        const int64_t of_direction = t->n_time * t->n_freq * t->n_ant * t->n_pol;
        time[i] = find_place(t->time_s, t->n_time, s->time_s, g->is_linear);
        value[i] = t->value + of_direction * (t->has_dir ? g->direction[file][i * g->n_facet + facet] : 0);
    }
    memset(before, -1, sizeof before);
    for (int32_t c = 0; c < n_chan; c++) {
        int is_same = c > 0 && !g->varies;
        for (int i = 0; i < h->n_table; i++) {
            const msi_solution_table *t = &h->table[i];
            freq[i] = find_place(t->freq_hz, t->n_freq, freq_hz[c], g->is_linear);
            is_same &= freq[i].low == before[i].low;
            before[i] = freq[i];
        }
        for (int64_t a = 0; a < n_antenna; a++) {
            msi_c64 *to = jones + (a * n_chan + c) * n;
            if (is_same) {
                memcpy(to, to - n, sizeof *to * (size_t)n);
                continue;
            }
            factors f = {.amplitude = {1, 1, 1, 1}};
            int has_off_diagonal = 0;
            for (int i = 0; i < h->n_table; i++) {
                const int32_t antenna = g->antenna[s->set][i * n_antenna + a];
                if (antenna < 0) continue;
                has_off_diagonal |= h->table[i].n_pol == 4;
                apply_table(g, &h->table[i], value[i], &time[i], &freq[i], antenna, freq_hz[c], &f);
            }
            make_matrix(&f, g->form, has_off_diagonal, to);
        }
    }
}

/* Multiply gains by the beam in the direction of the facet. */
static void apply_beam(const msi_facet_gains *g, int facet, const time_of_set *s, int32_t n_chan, const double *freq_hz,
                       msi_c64 *jones)
{
    const msi_pb_view *view = &g->view[s->view];
    const double step = floor(s->time_s / fmax(g->update_s, 1e-9)) + 0.5;
    const msi_pb_moment when = msi_pb_view_at(view, g->update_s > 0 ? step * g->update_s : s->time_s);
    const int n = (int)g->form, n_class = view->site->n_class;
    const double angle = msi_pb_view_angle(view, g->lmn[facet]);
    for (int32_t c = 0; c < n_chan; c++) {
        msi_pb_jones beam[MSI_PB_STATIONS];
        const int is_outside = angle > msi_pb_view_limit(view, freq_hz[c]);
        if (is_outside && !g->aterms) continue;
        for (int k = 0; k < n_class; k++) {
            msi_pb_view_jones(view, &when, k, freq_hz[c], g->lmn[facet], 0, beam[k]);
            if (is_outside) memset(beam[k], 0, sizeof beam[k]);
        }
        for (int64_t a = 0; a < g->n_antenna[s->set]; a++) {
            msi_c64 *j = jones + (a * n_chan + c) * n;
            double complex m[2][2], (*b)[2] = beam[g->kind[s->set][a]];
            if (n < (int)MSI_GAIN_FULL) {
                for (int e = 0; e < n; e++) {
                    const double complex v = (j[e].re + j[e].im * I) * b[0][0];
                    j[e] = (msi_c64){creal(v), cimag(v)};
                }
                continue;
            }
            for (int row = 0; row < 2; row++)
                for (int col = 0; col < 2; col++)
                    m[row][col] = (j[2 * row].re + j[2 * row].im * I) * b[0][col] +
                                  (j[2 * row + 1].re + j[2 * row + 1].im * I) * b[1][col];
            for (int e = 0; e < 4; e++) j[e] = (msi_c64){creal(m[e / 2][e % 2]), cimag(m[e / 2][e % 2])};
        }
    }
}

/* Move gains with slopes from the direction of a facet to the middle of its box. Given: n  number of gains */
static void move_gains(const msi_facet_gains *g, int facet, int64_t n, msi_c64 *jones, double (*slope)[2])
{
    const int form = (int)g->form;
    const double *offset = g->offset[facet];
    if (offset[0] == 0 && offset[1] == 0) return;
    for (int64_t i = 0; i < n; i++) {
        const double complex turn = cexp(I * (slope[i][0] * offset[0] + slope[i][1] * offset[1]));
        for (int e = 0; e < form; e++) {
            msi_c64 *j = &jones[i * form + e];
            const double complex v = (j->re + j->im * I) * turn;
            *j = (msi_c64){creal(v), cimag(v)};
        }
    }
}

void msi_facet_gains_make(const msi_facet_gains *g, int facet, int64_t slot, int only_beam, int32_t n_chan,
                          const double *freq_hz, msi_c64 *jones, double (*slope)[2])
{
    const time_of_set *s = &g->slot[slot];
    const int n = (int)g->form;
    const int64_t n_antenna = g->n_antenna[s->set];
    if (only_beam || !g->n_file)
        for (int64_t i = 0; i < n_antenna * n_chan * n; i++)
            jones[i] = (msi_c64){n < (int)MSI_GAIN_FULL || i % 4 % 3 == 0 ? 1 : 0, 0};
    else
        make_solutions(g, facet, s, n_chan, freq_hz, jones);
    if (g->aterms) {
        msi_aterms_gains(g->aterms, &g->look, facet, s->time_s, n_antenna, n_chan, freq_hz, n, jones, slope);
        move_gains(g, facet, n_antenna * n_chan, jones, slope);
    }
    if (g->pb) apply_beam(g, facet, s, n_chan, freq_hz, jones);
}

void msi_facet_gains_shift(const msi_facet_gains *g, int facet, int64_t slot, double shift[3][3])
{
    memset(shift, 0, 9 * sizeof(double));
    if (!g->aterms) return;
    msi_aterms_shift(g->aterms, &g->look, facet, g->slot[slot].time_s, shift);
    for (int k = 0; k < 3; k++) shift[0][k] += shift[1][k] * g->offset[facet][0] + shift[2][k] * g->offset[facet][1];
}
