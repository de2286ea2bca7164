/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_maps.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"

/* ---- Choice of rows ---- */

/* The subtables of a Measurement Set of version 2 whose rows are copied without a map of row numbers. */
static const char *const standard[] = {"DOPPLER",  "FEED",      "FLAG_CMD", "FREQ_OFFSET", "HISTORY", "OBSERVATION",
                                       "POINTING", "PROCESSOR", "SOURCE",   "STATE",       "SYSCAL",  "WEATHER"};

static int is_standard(const char *name)
{
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
        if (strcmp(standard[i], name) == 0) return 1;
    return 0;
}

/* The state of copying one subtable, with a buffer for its integer columns. */
typedef struct table_copy {
    ccc_table *from;
    const char *name;
    int64_t n_from;       /* rows of `from` */
    int64_t *row;         /* [n_row] rows to copy, ascending */
    int64_t n_row, first; /* first: row of the first copied one in the output */
    int32_t *id;          /* [n_from] buffer for a column */
    int is_gone;          /* 1: the files of the subtable are missing */
} table_copy;

/* Read an integer column. *is_there is 0 if there is no such column, or no row. */
static int read_ids(const table_copy *p, const char *column, int *is_there)
{
    *is_there = p->n_from > 0 && ccc_table_has_column(p->from, column);
    if (!*is_there) return MSI_OK;
    return msi_set_read(ccc_get_range(p->from, column, 0, p->n_from, NULL, CCC_INT32, p->id, p->n_from));
}

/* Keep the rows whose value in a column is in the map. Values below 0 stand for all. */
static int keep_mapped(table_copy *p, const char *column, const int32_t *map, int32_t n)
{
    int is_there;
    int64_t kept = 0;
    MSI_TRY(read_ids(p, column, &is_there));
    if (!is_there) return MSI_OK;
    for (int64_t i = 0; i < p->n_row; i++) {
        const int32_t id = p->id[p->row[i]];
        if (id < 0 || (id < n && map[id] >= 0)) p->row[kept++] = p->row[i];
    }
    p->n_row = kept;
    return MSI_OK;
}

/* Drop feeds whose antenna and window are in an earlier set, because the output already has their rows. */
static int drop_known_feeds(table_copy *p, const msi_set_map *map)
{
    int is_there = 0, has_window = 0;
    int64_t kept = 0;
    uint8_t *is_new;
    MSI_TRY(msi_alloc(&is_new, p->n_from + 1, 1, "feeds"));
    int status = read_ids(p, "SPECTRAL_WINDOW_ID", &has_window);
    for (int64_t i = 0; !status && has_window && i < p->n_from; i++)
        is_new[i] = p->id[i] >= 0 && p->id[i] < map->n_window && map->window_is_new[p->id[i]];
    if (!status) status = read_ids(p, "ANTENNA_ID", &is_there);
    for (int64_t i = 0; !status && i < p->n_row; i++) {
        const int32_t a = is_there ? p->id[p->row[i]] : -1;
        if (a < 0 || a >= map->n_antenna || map->antenna_is_new[a] || is_new[p->row[i]]) p->row[kept++] = p->row[i];
    }
    if (!status) p->n_row = kept;
    msi_free(is_new);
    return status;
}

static int keep_selected(table_copy *p, const msi_set_map *map)
{
    MSI_TRY(keep_mapped(p, "SPECTRAL_WINDOW_ID", map->window, map->n_window));
    MSI_TRY(keep_mapped(p, "FIELD_ID", map->field, map->n_field));
    return keep_mapped(p, "DATA_DESC_ID", map->data_desc, map->n_data_desc);
}

/* Drop the rows that were copied for an earlier set, which has the same subtable. */
static int drop_selected(table_copy *p, const msi_set_map *earlier)
{
    table_copy taken = *p;
    int64_t kept = 0, k = 0;
    MSI_TRY(msi_alloc(&taken.row, p->n_from + 1, sizeof *taken.row, "rows of a subtable"));
    taken.n_row = p->n_from;
    for (int64_t i = 0; i < p->n_from; i++) taken.row[i] = i;
    const int status = keep_selected(&taken, earlier);
    for (int64_t i = 0; !status && i < p->n_row; i++) {
        while (k < taken.n_row && taken.row[k] < p->row[i]) k++;
        if (k == taken.n_row || taken.row[k] != p->row[i]) p->row[kept++] = p->row[i];
    }
    if (!status) p->n_row = kept;
    msi_free(taken.row);
    return status;
}

/* Return 1 if two sets share a subtable. Members of a multi-MS may link to the subtable of one of them. */
static int is_shared(const msi_ms_reader *r, int a, int b, const char *name)
{
    char path[2][PATH_MAX];
    struct stat info[2];
    const int set[2] = {a, b};
    for (int i = 0; i < 2; i++)
        if (snprintf(path[i], PATH_MAX, "%s/%s/table.dat", msi_ms_set_tables(&r->set[set[i]]), name) >= PATH_MAX ||
            stat(path[i], &info[i]) != 0)
            return 0;
    return info[0].st_dev == info[1].st_dev && info[0].st_ino == info[1].st_ino;
}

int msi_set_subtables_are_one(const msi_ms_reader *r, const char *name)
{
    int first = -1;
    for (int k = 0; k < r->n_set; k++) {
        if (!r->set[k].n_row) continue;
        if (first >= 0 && !is_shared(r, first, k, name)) return 0;
        if (first < 0) first = k;
    }
    return 1;
}

/* Find an earlier set with rows that shares the subtable. Returns -1 if there is none. */
static int next_shared(const msi_subtables_source *s, const char *name, int from)
{
    for (int k = from; k < s->set; k++)
        if (s->reader->set[k].n_row && is_shared(s->reader, k, s->set, name)) return k;
    return -1;
}

static int choose_rows(table_copy *p, const msi_subtables_source *s, msi_set_maps *maps)
{
    const msi_set_map *map = msi_set_maps_of(maps, s->set);
    MSI_TRY(keep_selected(p, map));
    for (int k = 0; (k = next_shared(s, p->name, k)) >= 0; k++) MSI_TRY(drop_selected(p, msi_set_maps_of(maps, k)));
    return s->set > 0 && strcmp(p->name, "FEED") == 0 ? drop_known_feeds(p, map) : MSI_OK;
}

/* ---- Renumbering ---- */

typedef struct renumbering {
    const char *column;
    const int32_t *map; /* [n]; NULL: only the offset is added */
    int32_t n, offset;
} renumbering;

static int renumber_column(ccc_table *t, const table_copy *p, const renumbering *r)
{
    if (!p->n_row || !ccc_table_has_column(t, r->column) || (!r->map && !r->offset)) return MSI_OK;
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    MSI_TRY(msi_set_read(ccc_cell_shape(t, r->column, p->first, &ndim, shape)));
    if (ndim != 0) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_get_range(t, r->column, p->first, p->n_row, NULL, CCC_INT32, p->id, p->n_row)));
    for (int64_t i = 0; i < p->n_row; i++) {
        int32_t *id = &p->id[i];
        if (*id >= 0 && !r->map) *id += r->offset;
        if (r->map && *id >= 0 && *id < r->n) *id = r->map[*id];
    }
    return msi_set_written(ccc_put_range(t, r->column, p->first, p->n_row, 0, NULL, NULL, CCC_INT32, p->id));
}

/* Return 1 if the numbers do not change. */
static int is_same(const renumbering *r)
{
    for (int32_t i = 0; r->map && i < r->n; i++)
        if (r->map[i] != i) return 0;
    return r->offset == 0;
}

static int renumber(ccc_table *to, const table_copy *p, const msi_set_map *map)
{
    const renumbering all[] = {{"ANTENNA_ID", map->antenna, map->n_antenna, 0},
                               {"ANTENNA1", map->antenna, map->n_antenna, 0},
                               {"ANTENNA2", map->antenna, map->n_antenna, 0},
                               {"SPECTRAL_WINDOW_ID", map->window, map->n_window, 0},
                               {"FIELD_ID", map->field, map->n_field, 0},
                               {"POLARIZATION_ID", map->polarization, map->n_polarization, 0},
                               {"DATA_DESC_ID", map->data_desc, map->n_data_desc, 0},
                               {"SOURCE_ID", NULL, 0, map->source_offset},
                               {"OBSERVATION_ID", NULL, 0, map->observation_offset}};
    const size_t n_all = sizeof all / sizeof *all;
    ccc_table *t;
    size_t n_same = 0;
    for (size_t i = 0; i < n_all; i++) n_same += (size_t)is_same(&all[i]);
    if (!p->n_row || n_same == n_all) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_subtable_open(&t, to, p->name)));
    int status = MSI_OK;
    for (size_t i = 0; !status && i < n_all; i++) status = renumber_column(t, p, &all[i]);
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* ---- One subtable ---- */

static int64_t count_output_rows(ccc_table *to, const char *name)
{
    ccc_table *t;
    if (ccc_subtable_open(&t, to, name) != CCC_OK) return 0;
    const int64_t n = ccc_table_n_row(t);
    ccc_table_close(t);
    return n;
}

/* Return 1 if this is the first set with rows. This avoids opening a subtable, which takes about 0.3 ms. */
static int is_first(const msi_subtables_source *s)
{
    for (int i = 0; i < s->set; i++)
        if (s->reader->set[i].n_row) return 0;
    return 1;
}

static int begin_copy(table_copy *p, ccc_table *to, const msi_subtables_source *s, const char *name)
{
    memset(p, 0, sizeof *p);
    p->name = name;
    const int status = ccc_subtable_open(&p->from, s->table, name);
    p->is_gone = status == CCC_ENOTFOUND;
    MSI_TRY(msi_set_read(status));
    p->n_from = p->n_row = ccc_table_n_row(p->from);
    p->first = is_first(s) ? 0 : count_output_rows(to, name);
    MSI_TRY(msi_alloc(&p->row, p->n_from + 1, sizeof *p->row, "rows of a subtable"));
    MSI_TRY(msi_alloc(&p->id, p->n_from + 1, sizeof *p->id, "rows of a subtable"));
    for (int64_t i = 0; i < p->n_from; i++) p->row[i] = i;
    return MSI_OK;
}

static void end_copy(table_copy *p)
{
    ccc_table_close(p->from);
    msi_free(p->row);
    msi_free(p->id);
}

/* Append the rows. casacore copies cell by cell, in about 20 us per row, and POINTING may have millions of rows. */
static int append(ccc_table *to, const table_copy *p)
{
    static const double ROW_S = 1e-3;
    msi_child_progress(MSI_CHILD_STEP_S + ROW_S * (double)p->n_row);
    return msi_set_written(ccc_subtable_append(to, p->name, p->from, p->row, p->n_row));
}

/* Copy a subtable without a map of row numbers. Its files may be missing, because users remove large subtables that
 * they do not need. */
static int copy_other(ccc_table *to, const msi_subtables_source *s, const char *name, msi_set_maps *maps)
{
    table_copy p;
    int status = begin_copy(&p, to, s, name);
    if (p.is_gone) {
        msi_log_warning("%s: subtable %s is missing; the output has no rows of it", s->reader->set[s->set].path, name);
        status = MSI_OK;
        goto out;
    }
    if (!status && is_standard(name)) status = choose_rows(&p, s, maps);
    if (!status) status = append(to, &p);
    if (!status && is_standard(name)) status = renumber(to, &p, msi_set_maps_of(maps, s->set));
out:
    end_copy(&p);
    return status;
}

/* Copy the new rows of a subtable with a map of row numbers, in the order of their numbers. */
static int copy_numbered(ccc_table *to, const msi_subtables_source *s, const char *name, const uint8_t *is_new,
                         const msi_set_map *map)
{
    table_copy p;
    int64_t kept = 0;
    int status = begin_copy(&p, to, s, name);
    if (!status) {
        for (int64_t i = 0; i < p.n_from; i++)
            if (is_new[i]) p.row[kept++] = i;
        p.n_row = kept;
        status = append(to, &p);
    }
    if (!status) status = renumber(to, &p, map);
    end_copy(&p);
    return status;
}

/* ---- Windows, fields ---- */

/* Compute one value for each output channel: the centre of its group if `width` is given, else the sum over the group.
 * For a group of one channel the centre is its frequency, bit for bit, so that equal frequencies of several windows
 * stay equal. If all widths are 0, as some programs write them, the centre is the mean. */
static void group_channels(const msi_channel_groups *g, const double *value, const double *width, double *out)
{
    for (int32_t i = 0; i < g->n_group; i++) {
        double sum = 0, moments = 0, widths = 0;
        for (int32_t c = g->first[i]; c < g->first[i + 1]; c++) {
            sum += value[c];
            moments += width ? value[c] * width[c] : 0;
            widths += width ? width[c] : 0;
        }
        const int32_t n = g->first[i + 1] - g->first[i];
        out[i] = !width || n == 1 ? sum : widths > 0 ? moments / widths : sum / n;
    }
}

static int put_channels(ccc_table *t, const char *column, int64_t row, int64_t n, const double *value)
{
    return msi_set_written(ccc_put_array(t, column, row, 1, &n, CCC_DOUBLE, value));
}

/* Write EFFECTIVE_BW or RESOLUTION, summed over each group. If the set has no such values, use the channel widths. */
static int put_sums(ccc_table *t, const char *column, int64_t row, const msi_ms_setup *setup,
                    const msi_channel_groups *g, double *buffer)
{
    double *stored = buffer, *chosen = buffer + setup->n_stored, *out = chosen + setup->n_chan;
    const int status = ccc_get_range(t, column, row, 1, NULL, CCC_DOUBLE, stored, setup->n_stored);
    for (int32_t c = 0; c < setup->n_chan; c++)
        chosen[c] = status == CCC_OK ? fabs(stored[setup->chan_index[c]]) : setup->width_hz[c];
    group_channels(g, chosen, NULL, out);
    return put_channels(t, column, row, g->n_group, out);
}

static int put_window(ccc_table *t, int64_t row, const msi_ms_setup *setup, const msi_channel_groups *g)
{
    double *buffer, total_hz = 0;
    MSI_TRY(msi_alloc(&buffer, 2 * (int64_t)setup->n_chan + setup->n_stored, sizeof *buffer, "channels"));
    int status = put_sums(t, "EFFECTIVE_BW", row, setup, g, buffer);
    if (!status) status = put_sums(t, "RESOLUTION", row, setup, g, buffer);
    group_channels(g, setup->freq_hz, setup->width_hz, buffer);
    if (!status) status = put_channels(t, "CHAN_FREQ", row, g->n_group, buffer);
    group_channels(g, setup->width_hz, NULL, buffer);
    if (!status) status = put_channels(t, "CHAN_WIDTH", row, g->n_group, buffer);
    for (int32_t i = 0; i < g->n_group; i++) total_hz += buffer[i];
    if (!status) status = msi_set_written(ccc_put_int(t, "NUM_CHAN", row, g->n_group));
    if (!status) status = msi_set_written(ccc_put_double(t, "TOTAL_BANDWIDTH", row, total_hz));
    msi_free(buffer);
    return status;
}

/* Renumber the windows that are associated with a window. Windows that are not selected become -1. */
static int renumber_associated(ccc_table *t, int64_t row, const msi_set_map *map)
{
    static const char *const column = "ASSOC_SPW_ID";
    enum { MOST = 4096 };
    int32_t id[MOST];
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    if (!ccc_table_has_column(t, column)) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_cell_shape(t, column, row, &ndim, shape)));
    if (ndim != 1 || shape[0] < 1 || shape[0] > MOST) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_get_range(t, column, row, 1, NULL, CCC_INT32, id, shape[0])));
    for (int64_t i = 0; i < shape[0]; i++) id[i] = id[i] >= 0 && id[i] < map->n_window ? map->window[id[i]] : -1;
    return msi_set_written(ccc_put_array(t, column, row, 1, shape, CCC_INT32, id));
}

/* Correct the copied windows. If the channels of a window do not change, its values are kept. */
static int fix_windows(ccc_table *to, const msi_subtables_source *s, const msi_set_map *map)
{
    const msi_ms_reader *r = s->reader;
    ccc_table *t;
    MSI_TRY(msi_set_written(ccc_subtable_open(&t, to, "SPECTRAL_WINDOW")));
    int status = MSI_OK;
    for (int32_t i = 0; !status && i < map->n_window; i++)
        if (map->window[i] >= 0 && map->window_is_new[i]) status = renumber_associated(t, map->window[i], map);
    for (int i = 0; !status && i < r->n_spw; i++) {
        const msi_ms_spw *spw = &r->spw[i];
        if (spw->set != s->set || !spw->n_row || !map->window_is_new[spw->spw_id]) continue;
        const msi_ms_setup *setup = &r->set[s->set].setup[spw->data_desc_id];
        const msi_channel_groups *g = &s->spec->groups[i];
        const int as_stored = setup->is_identity && setup->n_chan == setup->n_stored && g->n_group == setup->n_chan;
        if (!as_stored) status = put_window(t, map->window[spw->spw_id], setup, g);
    }
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* Write the new phase centre. A direction may be a polynomial in time: its first term gets the direction, the others
 * become 0. */
static int fix_fields(ccc_table *to, const msi_subtables_source *s, const msi_set_map *map)
{
    enum { MOST = 64 };
    ccc_table *t;
    if (!s->spec->is_shifted) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_subtable_open(&t, to, "FIELD")));
    int status = MSI_OK;
    for (int32_t i = 0; !status && i < map->n_field; i++) {
        double value[MOST] = {s->spec->ra_rad, s->spec->dec_rad};
        int ndim;
        int64_t shape[CCC_MAX_DIM];
        if (map->field[i] < 0 || !map->field_is_new[i]) continue;
        status = msi_set_read(ccc_cell_shape(t, "PHASE_DIR", map->field[i], &ndim, shape));
        if (!status && (ndim != 2 || shape[0] != 2 || shape[1] < 1 || shape[1] > MOST / 2))
            status = msi_error_set(MSI_EINPUT, "%s/FIELD: column PHASE_DIR, row %d: not a direction",
                                   s->reader->set[s->set].path, i);
        if (!status)
            status = msi_set_written(ccc_put_array(t, "PHASE_DIR", map->field[i], 2, shape, CCC_DOUBLE, value));
    }
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* ---- All ---- */

/* Return the next SOURCE_ID, which is not a row number. */
static int32_t next_source(ccc_table *to)
{
    ccc_table *t;
    int32_t next = 0;
    if (ccc_subtable_open(&t, to, "SOURCE") != CCC_OK) return 0;
    for (int64_t i = 0; i < ccc_table_n_row(t); i++) {
        int32_t id;
        if (ccc_get_range(t, "SOURCE_ID", i, 1, NULL, CCC_INT32, &id, 1) == CCC_OK && id >= next) next = id + 1;
    }
    ccc_table_close(t);
    return next;
}

static int copy_others(ccc_table *to, const msi_subtables_source *s, msi_set_maps *maps)
{
    static const char *const apart[] = {"ANTENNA",      "FIELD", "SPECTRAL_WINDOW", "POLARIZATION", "DATA_DESCRIPTION",
                                        "SORTED_TABLE", NULL};
    char **names;
    int64_t n;
    MSI_TRY(msi_set_read(ccc_subtable_names(s->table, &names, &n)));
    int status = MSI_OK;
    for (int64_t i = 0; !status && i < n; i++) {
        int is_apart = s->set > 0 && !is_standard(names[i]); /* 1: a subtable that is copied only from the first set */
        for (int k = 0; apart[k]; k++) is_apart |= strcmp(apart[k], names[i]) == 0;
        if (!is_apart) status = copy_other(to, s, names[i], maps);
    }
    ccc_free(names);
    return status;
}

/* Set the offsets of the row numbers in these subtables: rows are appended to those of earlier sets. A shared subtable
 * has the offset of the earlier set. */
static void set_offsets(ccc_table *to, const msi_subtables_source *s, msi_set_maps *maps)
{
    static const struct {
        const char *name;
        size_t offset;
    } all[] = {{"OBSERVATION", offsetof(msi_set_map, observation_offset)},
               {"PROCESSOR", offsetof(msi_set_map, processor_offset)},
               {"STATE", offsetof(msi_set_map, state_offset)},
               {"SOURCE", offsetof(msi_set_map, source_offset)}};
    char *map = (char *)msi_set_maps_of(maps, s->set);
    for (size_t i = 0; s->set > 0 && i < sizeof all / sizeof *all; i++) {
        const int shared = next_shared(s, all[i].name, 0), is_source = strcmp(all[i].name, "SOURCE") == 0;
        int32_t offset = is_source ? next_source(to) : (int32_t)count_output_rows(to, all[i].name);
        if (shared >= 0) memcpy(&offset, (char *)msi_set_maps_of(maps, shared) + all[i].offset, sizeof offset);
        memcpy(map + all[i].offset, &offset, sizeof offset);
    }
}

int msi_set_subtables_copy(ccc_table *to, const msi_subtables_source *s, msi_set_maps *maps)
{
    const msi_set_map *map = msi_set_maps_of(maps, s->set);
    set_offsets(to, s, maps);
    MSI_TRY(copy_numbered(to, s, "ANTENNA", map->antenna_is_new, map));
    MSI_TRY(copy_numbered(to, s, "FIELD", map->field_is_new, map));
    MSI_TRY(copy_numbered(to, s, "SPECTRAL_WINDOW", map->window_is_new, map));
    MSI_TRY(copy_numbered(to, s, "POLARIZATION", map->polarization_is_new, map));
    MSI_TRY(copy_numbered(to, s, "DATA_DESCRIPTION", map->data_desc_is_new, map));
    MSI_TRY(fix_windows(to, s, map));
    MSI_TRY(fix_fields(to, s, map));
    return copy_others(to, s, maps);
}

int msi_set_subtables_history(ccc_table *to, const msi_set_output_spec *spec)
{
    static const double UNIX_EPOCH_MJD_S = 40587.0 * 86400;
    const int64_t one = 1;
    static const char *const columns[] = {"TIME",      "OBSERVATION_ID", "MESSAGE",     "PRIORITY",  "ORIGIN",
                                          "OBJECT_ID", "APPLICATION",    "CLI_COMMAND", "APP_PARAMS"};
    const char *const empty = "";
    ccc_table *t;
    if (ccc_subtable_open(&t, to, "HISTORY") != CCC_OK) return MSI_OK;
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        if (ccc_table_has_column(t, columns[i])) continue;
        msi_log_warning("HISTORY: has no column %s; the conversion is not recorded there", columns[i]);
        ccc_table_close(t);
        return MSI_OK;
    }
    const int64_t row = ccc_table_n_row(t);
    int status = ccc_table_add_rows(t, 1);
    if (!status) status = ccc_put_double(t, "TIME", row, UNIX_EPOCH_MJD_S + (double)time(NULL));
    if (!status) status = ccc_put_int(t, "OBSERVATION_ID", row, 0);
    if (!status) status = ccc_put_string(t, "MESSAGE", row, spec->command);
    if (!status) status = ccc_put_string(t, "PRIORITY", row, "INFO");
    if (!status) status = ccc_put_string(t, "ORIGIN", row, spec->application);
    if (!status) status = ccc_put_int(t, "OBJECT_ID", row, 0);
    if (!status) status = ccc_put_string(t, "APPLICATION", row, spec->application);
    if (!status) status = ccc_put_strings(t, "CLI_COMMAND", row, 1, &one, &spec->command);
    if (!status) status = ccc_put_strings(t, "APP_PARAMS", row, 1, &one, &empty);
    const int failed = msi_set_written(status), closed = msi_set_written(ccc_table_close(t));
    return failed ? failed : closed;
}

/* ---- Subtables of a UVFITS or FITS-IDI file ---- */

static const int64_t shape_1[] = {1}, shape_2[] = {2}, shape_3[] = {3}, shape_2x1[] = {2, 1}, shape_2x2[] = {2, 2};

/* Return the status of a ccc function if it fails. */
#define CCC_DO(expr)                                                                                                   \
    do {                                                                                                               \
        const int ccc_do_ = (expr);                                                                                    \
        if (ccc_do_ != CCC_OK) return ccc_do_;                                                                         \
    } while (0)

static int fill_antenna(ccc_table *t, const msi_uv_set *uv)
{
    CCC_DO(ccc_table_add_rows(t, uv->n_antenna));
    for (int64_t i = 0; i < uv->n_antenna; i++) {
        const msi_uv_antenna *a = &uv->antenna[i];
        const double offset_m[3] = {a->offset_m, 0, 0};
        CCC_DO(ccc_put_string(t, "NAME", i, a->name));
        CCC_DO(ccc_put_string(t, "STATION", i, a->station));
        CCC_DO(ccc_put_string(t, "TYPE", i, "GROUND-BASED"));
        CCC_DO(ccc_put_string(t, "MOUNT", i, a->mount));
        CCC_DO(ccc_put_array(t, "POSITION", i, 1, shape_3, CCC_DOUBLE, a->itrf_m));
        CCC_DO(ccc_put_array(t, "OFFSET", i, 1, shape_3, CCC_DOUBLE, offset_m));
        CCC_DO(ccc_put_double(t, "DISH_DIAMETER", i, a->diameter_m));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, !*a->name));
    }
    return CCC_OK;
}

static int put_feed(ccc_table *t, int64_t row, int64_t antenna, const msi_uv_set *uv)
{
    static const double zero[4] = {0};
    static const msi_c32 response[4] = {{1, 0}, {0, 0}, {0, 0}, {1, 0}};
    const msi_uv_antenna *a = &uv->antenna[antenna];
    const int is_circular = uv->corr[0] >= MSI_POL_RR && uv->corr[0] <= MSI_POL_LL;
    const char kind[2][2] = {{a->feed[0]    ? a->feed[0]
                              : is_circular ? 'R'
                                            : 'X'},
                             {a->feed[1]    ? a->feed[1]
                              : is_circular ? 'L'
                                            : 'Y'}};
    const char *const kinds[] = {kind[0], kind[1]};
    CCC_DO(ccc_put_int(t, "ANTENNA_ID", row, antenna));
    CCC_DO(ccc_put_int(t, "FEED_ID", row, 0));
    CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", row, -1));
    CCC_DO(ccc_put_double(t, "TIME", row, 0));
    CCC_DO(ccc_put_double(t, "INTERVAL", row, 0));
    CCC_DO(ccc_put_int(t, "NUM_RECEPTORS", row, 2));
    CCC_DO(ccc_put_int(t, "BEAM_ID", row, -1));
    CCC_DO(ccc_put_array(t, "BEAM_OFFSET", row, 2, shape_2x2, CCC_DOUBLE, zero));
    CCC_DO(ccc_put_strings(t, "POLARIZATION_TYPE", row, 1, shape_2, kinds));
    CCC_DO(ccc_put_array(t, "POL_RESPONSE", row, 2, shape_2x2, CCC_COMPLEX, response));
    CCC_DO(ccc_put_array(t, "POSITION", row, 1, shape_3, CCC_DOUBLE, zero));
    return ccc_put_array(t, "RECEPTOR_ANGLE", row, 1, shape_2, CCC_DOUBLE, a->feed_angle_rad);
}

static int fill_feed(ccc_table *t, const msi_uv_set *uv)
{
    int64_t n = 0, row = 0;
    for (int64_t i = 0; i < uv->n_antenna; i++) n += *uv->antenna[i].name != 0;
    CCC_DO(ccc_table_add_rows(t, n));
    for (int64_t i = 0; i < uv->n_antenna; i++)
        if (*uv->antenna[i].name) CCC_DO(put_feed(t, row++, i, uv));
    return CCC_OK;
}

static int fill_field(ccc_table *t, const msi_uv_set *uv)
{
    static const char *const directions[] = {"DELAY_DIR", "PHASE_DIR", "REFERENCE_DIR"};
    CCC_DO(ccc_table_add_rows(t, uv->n_source));
    for (int k = 0; k < 3; k++) CCC_DO(ccc_keyword_put_string(t, directions[k], "MEASINFO.Ref", uv->source[0].frame));
    for (int64_t i = 0; i < uv->n_source; i++) {
        const msi_uv_source *s = &uv->source[i];
        const double direction_rad[] = {s->ra_rad, s->dec_rad};
        CCC_DO(ccc_put_string(t, "NAME", i, s->name));
        CCC_DO(ccc_put_string(t, "CODE", i, s->code));
        CCC_DO(ccc_put_double(t, "TIME", i, uv->start_mjd_s));
        CCC_DO(ccc_put_int(t, "NUM_POLY", i, 0));
        for (int k = 0; k < 3; k++) CCC_DO(ccc_put_array(t, directions[k], i, 2, shape_2x1, CCC_DOUBLE, direction_rad));
        CCC_DO(ccc_put_int(t, "SOURCE_ID", i, s->n_line ? i : -1));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int put_source(ccc_table *t, int64_t row, int64_t i, const msi_uv_set *uv)
{
    static const double zero[2] = {0};
    const msi_uv_source *s = &uv->source[i];
    const double direction_rad[] = {s->ra_rad, s->dec_rad};
    const int64_t n_line = s->n_line;
    CCC_DO(ccc_put_int(t, "SOURCE_ID", row, i));
    CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", row, -1));
    CCC_DO(ccc_put_int(t, "CALIBRATION_GROUP", row, -1));
    CCC_DO(ccc_put_int(t, "NUM_LINES", row, n_line));
    CCC_DO(ccc_put_string(t, "NAME", row, s->name));
    CCC_DO(ccc_put_string(t, "CODE", row, s->code));
    CCC_DO(ccc_put_double(t, "TIME", row, (uv->start_mjd_s + uv->end_mjd_s) / 2));
    CCC_DO(ccc_put_double(t, "INTERVAL", row, uv->end_mjd_s - uv->start_mjd_s));
    CCC_DO(ccc_put_array(t, "DIRECTION", row, 1, shape_2, CCC_DOUBLE, direction_rad));
    CCC_DO(ccc_put_array(t, "PROPER_MOTION", row, 1, shape_2, CCC_DOUBLE, zero));
    return ccc_put_array(t, "REST_FREQUENCY", row, 1, &n_line, CCC_DOUBLE, s->line_hz);
}

static int fill_source(ccc_table *t, const msi_uv_set *uv)
{
    int64_t n = 0, row = 0;
    for (int64_t i = 0; i < uv->n_source; i++) n += uv->source[i].n_line > 0;
    CCC_DO(ccc_table_add_rows(t, n));
    CCC_DO(ccc_keyword_put_string(t, "DIRECTION", "MEASINFO.Ref", uv->source[0].frame));
    for (int64_t i = 0; i < uv->n_source; i++)
        if (uv->source[i].n_line) CCC_DO(put_source(t, row++, i, uv));
    return CCC_OK;
}

/* Return casacore's number for a frame of frequencies. */
static int frame_code(const char *frame)
{
    static const char *const frames[] = {"REST", "LSRK", "LSRD", "BARY", "GEO", "TOPO", "GALACTO", "LGROUP", "CMB"};
    int code = 0;
    while (code < (int)(sizeof frames / sizeof *frames) - 1 && strcmp(frames[code], frame) != 0) code++;
    return code;
}

static int fill_windows(ccc_table *t, const msi_uv_set *uv)
{
    const int64_t n_chan = uv->n_chan;
    CCC_DO(ccc_table_add_rows(t, uv->n_window));
    for (int64_t i = 0; i < uv->n_window; i++) {
        const msi_uv_window *w = &uv->window[i];
        const int is_down = n_chan > 1 && w->freq_hz[1] < w->freq_hz[0];
        CCC_DO(ccc_put_int(t, "NUM_CHAN", i, n_chan));
        CCC_DO(ccc_put_string(t, "NAME", i, ""));
        CCC_DO(ccc_put_double(t, "REF_FREQUENCY", i, w->freq_hz[0]));
        CCC_DO(ccc_put_array(t, "CHAN_FREQ", i, 1, &n_chan, CCC_DOUBLE, w->freq_hz));
        CCC_DO(ccc_put_array(t, "CHAN_WIDTH", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_array(t, "EFFECTIVE_BW", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_array(t, "RESOLUTION", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_int(t, "MEAS_FREQ_REF", i, frame_code(uv->freq_frame)));
        CCC_DO(ccc_put_double(t, "TOTAL_BANDWIDTH", i, (double)n_chan * w->width_hz[0]));
        CCC_DO(ccc_put_int(t, "NET_SIDEBAND", i, is_down ? -1 : 1));
        CCC_DO(ccc_put_int(t, "IF_CONV_CHAIN", i, i % uv->n_if));
        CCC_DO(ccc_put_int(t, "FREQ_GROUP", i, i / uv->n_if));
        CCC_DO(ccc_put_string(t, "FREQ_GROUP_NAME", i, ""));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int fill_polarization(ccc_table *t, const msi_uv_set *uv)
{
    const int64_t n = uv->n_corr, product_shape[] = {2, uv->n_corr};
    int32_t type[MSI_MAX_CORR], product[MSI_MAX_CORR][2] = {{0}};
    for (int c = 0; c < uv->n_corr; c++) {
        const int pair = uv->corr[c] >= MSI_POL_XX   ? uv->corr[c] - MSI_POL_XX
                         : uv->corr[c] >= MSI_POL_RR ? uv->corr[c] - MSI_POL_RR
                                                     : 0;
        type[c] = uv->corr[c];
        product[c][0] = pair >> 1;
        product[c][1] = pair & 1;
    }
    CCC_DO(ccc_table_add_rows(t, 1));
    CCC_DO(ccc_put_int(t, "NUM_CORR", 0, n));
    CCC_DO(ccc_put_array(t, "CORR_TYPE", 0, 1, &n, CCC_INT32, type));
    CCC_DO(ccc_put_array(t, "CORR_PRODUCT", 0, 2, product_shape, CCC_INT32, product));
    return ccc_put_bool(t, "FLAG_ROW", 0, 0);
}

static int fill_description(ccc_table *t, const msi_uv_set *uv)
{
    CCC_DO(ccc_table_add_rows(t, uv->n_window));
    for (int64_t i = 0; i < uv->n_window; i++) {
        CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", i, i));
        CCC_DO(ccc_put_int(t, "POLARIZATION_ID", i, 0));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int fill_observation(ccc_table *t, const msi_uv_set *uv)
{
    const double range_s[] = {uv->start_mjd_s, uv->end_mjd_s};
    const char *const empty[] = {""};
    CCC_DO(ccc_table_add_rows(t, 1));
    CCC_DO(ccc_put_array(t, "TIME_RANGE", 0, 1, shape_2, CCC_DOUBLE, range_s));
    CCC_DO(ccc_put_string(t, "OBSERVER", 0, uv->observer));
    CCC_DO(ccc_put_strings(t, "LOG", 0, 1, shape_1, empty));
    CCC_DO(ccc_put_string(t, "SCHEDULE_TYPE", 0, ""));
    CCC_DO(ccc_put_strings(t, "SCHEDULE", 0, 1, shape_1, empty));
    CCC_DO(ccc_put_string(t, "PROJECT", 0, uv->project));
    CCC_DO(ccc_put_double(t, "RELEASE_DATE", 0, 0));
    CCC_DO(ccc_put_string(t, "TELESCOPE_NAME", 0, uv->telescope));
    return ccc_put_bool(t, "FLAG_ROW", 0, 0);
}

/* Check that all sources are in one frame, because a set has one frame for all fields. */
static int check_frames(const msi_uv_set *uv, const char *name)
{
    for (int64_t i = 1; i < uv->n_source; i++)
        if (strcmp(uv->source[i].frame, uv->source[0].frame) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: the positions of sources '%s' and '%s' are in %s and %s; a Measurement Set needs "
                                 "one frame",
                                 name, uv->source[0].name, uv->source[i].name, uv->source[0].frame,
                                 uv->source[i].frame);
    return MSI_OK;
}

static int fill_subtables(ccc_table *set, const msi_uv_set *uv)
{
    static const struct {
        const char *name;
        int (*fill)(ccc_table *, const msi_uv_set *);
    } all[] = {{"ANTENNA", fill_antenna},
               {"FEED", fill_feed},
               {"FIELD", fill_field},
               {"SOURCE", fill_source},
               {"SPECTRAL_WINDOW", fill_windows},
               {"POLARIZATION", fill_polarization},
               {"DATA_DESCRIPTION", fill_description},
               {"OBSERVATION", fill_observation}};
    CCC_DO(ccc_ms_add_source(set));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ccc_table *t;
        CCC_DO(ccc_subtable_open(&t, set, all[i].name));
        const int status = all[i].fill(t, uv), closed = ccc_table_close(t);
        CCC_DO(status);
        CCC_DO(closed);
    }
    CCC_DO(ccc_keyword_put_string(set, "TIME", "MEASINFO.Ref", uv->time_scale));
    return ccc_keyword_put_string(set, "TIME_CENTROID", "MEASINFO.Ref", uv->time_scale);
}

int msi_set_subtables_of_uv(const char *path, const msi_uv_set *uv, const char *name)
{
    static const ccc_column_spec data = {.name = "DATA", .ndim = 2};
    ccc_table *t;
    MSI_TRY(check_frames(uv, name));
    MSI_TRY(msi_set_written(ccc_ms_create(&t, path, &data, 1, NULL, 0)));
    const int status = msi_set_written(fill_subtables(t, uv)), closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}
