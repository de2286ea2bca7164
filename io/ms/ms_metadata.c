/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_metadata.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_column.h"
#include "io/ms/ms_subtables.h"

/* ---- Opening ---- */

/* Refuse a multi-MS. The message names the members, which have its rows. */
static int check_parts(const msi_ms_set *set)
{
    char **names, text[2048] = "";
    int64_t n;
    size_t used = 0;
    MSI_CCC(ccc_table_parts(set->table, &names, &n));
    for (int64_t i = 0; i < n && n > 1 && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "", names[i]);
    ccc_free(names);
    if (n <= 1) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: a multi-MS cannot be read as one set; give its %lld members instead: %s%s",
                         set->path, (long long)n, text, used < sizeof text ? "" : "..");
}

/* Return 1 if a table has its rows in its own files: neither the table nor its columns refer to other tables. */
static int stores_rows(ccc_table *t)
{
    ccc_column_info info;
    if (!ccc_table_is_root(t)) return 0;
    return ccc_column_describe(t, "UVW", &info) != CCC_OK || strstr(info.manager_type, "StMan");
}

/* Check that the columns were not rewritten since they were chosen. */
static int check_writing(const msi_ms_set *set)
{
    uint64_t written;
    const char *const columns[] = {set->data_column, set->model_column};
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &written));
    if (written == set->watch.written) return MSI_OK;
    return msi_ms_watch_rewritten(set->path, *set->model_column ? set->model_column : set->data_column);
}

/* ---- Large columns, read without casacore ---- */

static int only_casacore;

void msi_ms_read_by_casacore(int only)
{
    only_casacore = only;
}

static const char *large_column(const msi_ms_set *set, msi_ms_large k)
{
    const char *const names[] = {[MSI_MS_DATA] = set->data_column,
                                 [MSI_MS_MODEL] = set->model_column,
                                 [MSI_MS_FLAG] = "FLAG",
                                 [MSI_MS_SPECTRUM] = set->has_weight_spectrum ? "WEIGHT_SPECTRUM" : ""};
    return names[k];
}

/* Return whether columns are read without casacore: those of tables that have their rows in their own files. */
static int may_read_directly(const msi_ms_set *set)
{
    const char *by = getenv("MSIMAGE_READ");
    return !only_casacore && !(by && strcmp(by, "casacore") == 0) && stores_rows(set->table);
}

/* Describe where a column is stored; place->type is MSI_TILED_NONE for a column that is not alone in its tiles. */
static int find_place(const msi_ms_set *set, const char *column, msi_tiled_place *place)
{
    ccc_column_info info;
    *place = (msi_tiled_place){0};
    MSI_CCC(ccc_column_describe(set->table, column, &info));
    if (info.is_scalar || info.manager_n_column != 1 || info.manager_file < 0) return MSI_OK;
    for (int i = 0; i < MSI_TILED_N_MANAGER; i++) {
        if (strcmp(info.manager_type, msi_tiled_manager_names[i]) != 0) continue;
        place->manager = i;
        place->number = info.manager_file;
        place->type = info.type == CCC_BOOL      ? MSI_TILED_BOOL
                      : info.type == CCC_FLOAT   ? MSI_TILED_FLOAT
                      : info.type == CCC_COMPLEX ? MSI_TILED_COMPLEX
                      : info.type == CCC_DOUBLE  ? MSI_TILED_DOUBLE
                                                 : MSI_TILED_NONE;
    }
    return MSI_OK;
}

/* Describe where the large columns of an open table are stored. Rows of other tables are read by casacore. */
static int find_places(msi_ms_set *set)
{
    set->has_places = 0;
    if (!may_read_directly(set)) return MSI_OK;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        set->place[k] = (msi_tiled_place){0};
        if (!*large_column(set, k)) continue;
        MSI_TRY(find_place(set, large_column(set, k), &set->place[k]));
        if (set->place[k].type == MSI_TILED_NONE) return MSI_OK;
    }
    /* Only these types are read without a conversion. */
    set->has_places = set->place[MSI_MS_DATA].type == MSI_TILED_COMPLEX &&
                      set->place[MSI_MS_FLAG].type == MSI_TILED_BOOL &&
                      (!*set->model_column || set->place[MSI_MS_MODEL].type == MSI_TILED_COMPLEX) &&
                      (!set->has_weight_spectrum || set->place[MSI_MS_SPECTRUM].type == MSI_TILED_FLOAT);
    return MSI_OK;
}

static void close_columns(msi_ms_set *set)
{
    set->is_direct = 0;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        msi_tiled_column_free(set->column[k]);
        set->column[k] = NULL;
    }
}

int msi_ms_set_open_columns(msi_ms_set *set)
{
    if (set->is_direct || !set->has_places) return MSI_OK;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        if (set->place[k].type == MSI_TILED_NONE) continue;
        const int status = msi_tiled_column_open(&set->column[k], set->path, &set->place[k], set->n_table_row);
        if (status == MSI_OK && set->column[k]) continue;
        close_columns(set);
        set->has_places = 0;
        return status;
    }
    set->is_direct = 1;
    return MSI_OK;
}

/* ---- Columns of rows, read without casacore ---- */

static const struct {
    const char *name;
    ccc_type type;
    msi_scalar_type read_as;
} scalars[MSI_MS_N_SCALAR] = {[MSI_MS_TIME] = {"TIME", CCC_DOUBLE, MSI_SCALAR_DOUBLE},
                              [MSI_MS_ANTENNA1] = {"ANTENNA1", CCC_INT32, MSI_SCALAR_INT32},
                              [MSI_MS_ANTENNA2] = {"ANTENNA2", CCC_INT32, MSI_SCALAR_INT32},
                              [MSI_MS_FLAG_ROW] = {"FLAG_ROW", CCC_BOOL, MSI_SCALAR_BOOL},
                              [MSI_MS_DATA_DESC_ID] = {"DATA_DESC_ID", CCC_INT32, MSI_SCALAR_INT32},
                              [MSI_MS_FIELD_ID] = {"FIELD_ID", CCC_INT32, MSI_SCALAR_INT32}};

/* Open the scalar columns of the open table. */
static int open_scalars(msi_ms_set *set)
{
    const char *names[MSI_MS_N_SCALAR];
    ccc_scalar_place found[MSI_MS_N_SCALAR];
    msi_scalar_place place[MSI_MS_N_SCALAR] = {0};
    for (int i = 0; i < MSI_MS_N_SCALAR; i++) names[i] = scalars[i].name;
    const int failed = ccc_scalar_places(set->table, names, MSI_MS_N_SCALAR, found);
    for (int i = 0; i < MSI_MS_N_SCALAR; i++) {
        const ccc_scalar_place *p = &found[i];
        const int is_standard = strcmp(p->manager_type, "StandardStMan") == 0,
                  is_incremental = strcmp(p->manager_type, "IncrementalStMan") == 0;
        if ((is_standard || is_incremental) && p->type == scalars[i].type)
            place[i] = (msi_scalar_place){.type = scalars[i].read_as,
                                          .is_incremental = is_incremental,
                                          .is_little = p->is_little_endian,
                                          .number = p->manager_file,
                                          .column = p->column,
                                          .n_column = p->n_column};
        if (is_standard) msi_scalar_place_standard(&place[i], p->header, p->n_header);
        ccc_free(p->header);
    }
    if (failed) return MSI_OK;
    return msi_scalar_columns_open(&set->scalars, set->path, place, MSI_MS_N_SCALAR, ccc_table_n_row(set->table));
}

/* Open a column of small arrays, if it is stored in tiles. */
static int open_small(msi_ms_set *set, const char *column, int32_t type, msi_tiled_column **out)
{
    msi_tiled_place place;
    if (!ccc_table_has_column(set->table, column)) return MSI_OK;
    MSI_TRY(find_place(set, column, &place));
    return place.type == type ? msi_tiled_column_open(out, set->path, &place, ccc_table_n_row(set->table)) : MSI_OK;
}

static int open_rows(msi_ms_set *set)
{
    if (!may_read_directly(set)) return MSI_OK;
    MSI_TRY(open_scalars(set));
    MSI_TRY(open_small(set, "UVW", MSI_TILED_DOUBLE, &set->uvw));
    return open_small(set, "WEIGHT", MSI_TILED_FLOAT, &set->weight);
}

int msi_ms_set_scalar(const msi_ms_set *set, msi_ms_scalar k, int64_t row, int64_t n_row, int64_t end, void *out)
{
    if (set->scalars && msi_scalar_columns_read(set->scalars, k, row, n_row, end, out)) return MSI_OK;
    MSI_CCC(ccc_get_range(set->table, scalars[k].name, row, n_row, NULL, scalars[k].type, out, n_row));
    return MSI_OK;
}

void msi_ms_set_close(msi_ms_set *set)
{
    ccc_table_close(set->table);
    set->table = NULL;
    msi_scalar_columns_free(set->scalars);
    msi_tiled_column_free(set->uvw);
    msi_tiled_column_free(set->weight);
    set->scalars = NULL;
    set->uvw = set->weight = NULL;
    close_columns(set);
}

int msi_ms_set_open(msi_ms_set *set)
{
    if (set->table || set->store || set->uv) return MSI_OK;
    if (msi_uv_set_is_file(set->path)) return msi_ms_uv_open(set);
    if (msi_msv_is_file(set->path)) return msi_ms_store_open(set);
    MSI_TRY(msi_ms_watch_open(&set->watch, set->path, &set->table));
    if (!stores_rows(set->table)) msi_ms_limit_lift();
    MSI_TRY(check_parts(set));
    if (set->watch.is_on) MSI_TRY(check_writing(set));
    return open_rows(set);
}

int msi_ms_set_recheck(msi_ms_set *set)
{
    if (!set->watch.is_on || msi_ms_watch_is_same(&set->watch, set->path)) return MSI_OK;
    /* casacore keeps a table in the state that it had when it was opened. */
    msi_ms_set_close(set);
    const int status = msi_ms_set_open(set);
    if (status == MSI_OK) return MSI_OK;
    /* Close the table, so that a process that continues, such as Python, does not get casacore's old state of it at the
     * next opening. */
    msi_ms_set_close(set);
    return status;
}

/* ---- Columns ---- */

/* Append the names of the columns that hold visibilities. */
static void list_data_columns(ccc_table *t, char *text, size_t size)
{
    char **names = NULL;
    int64_t n = 0;
    size_t used = 0;
    text[0] = 0;
    if (ccc_table_columns(t, &names, &n) != CCC_OK) return;
    for (int64_t i = 0; i < n; i++) {
        ccc_column_info info;
        if (ccc_column_describe(t, names[i], &info) != CCC_OK || info.is_scalar) continue;
        const int is_data = info.type == CCC_COMPLEX || info.type == CCC_DCOMPLEX || !strcmp(names[i], "FLOAT_DATA");
        if (is_data && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", names[i]);
    }
    ccc_free(names);
}

/* Find a column of visibilities and copy its name. */
static int choose_column(msi_ms_set *set, const char *column, char name[64])
{
    char there[256];
    ccc_column_info info;
    if (strlen(column) >= sizeof set->data_column)
        return msi_error_set(MSI_EINPUT, "%s: column name '%.80s..' is too long", set->path, column);
    snprintf(name, sizeof set->data_column, "%s", column);
    if (!*column) return MSI_OK;
    const int missing = ccc_column_describe(set->table, column, &info) != CCC_OK;
    if (!missing && !info.is_scalar &&
        (info.type == CCC_COMPLEX || info.type == CCC_DCOMPLEX || info.type == CCC_FLOAT))
        return MSI_OK;
    list_data_columns(set->table, there, sizeof there);
    return msi_error_set(MSI_EINPUT, "%s: %s%s%s; its data columns are: %s", set->path,
                         missing ? "has no column " : "column ", column, missing ? "" : " holds no visibilities",
                         *there ? there : "none");
}

static int choose_columns(msi_ms_set *set, const msi_ms_selection *selection)
{
    static const char *const required[] = {"UVW", "DATA_DESC_ID", "FIELD_ID", "ANTENNA1", "ANTENNA2", "TIME"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!ccc_table_has_column(set->table, required[i]))
            return msi_error_set(MSI_EINPUT, "%s: not a Measurement Set: the table has no column %s", set->path,
                                 required[i]);
    if (stores_rows(set->table)) MSI_TRY(msi_ms_table_check_size(set->table));
    set->n_table_row = ccc_table_n_row(set->table);
    set->has_flag_row = ccc_table_has_column(set->table, "FLAG_ROW");
    set->has_weight_spectrum = ccc_table_has_column(set->table, "WEIGHT_SPECTRUM");
    const char *column = selection->data_column;
    if (!column) column = ccc_table_has_column(set->table, "CORRECTED_DATA") ? "CORRECTED_DATA" : "DATA";
    /* A prediction needs no data; a dry run refuses a column that is given and missing. */
    if (selection->coordinates_only && !selection->data_column && !ccc_table_has_column(set->table, column))
        column = "";
    /* As in CASA, sets with and without CORRECTED_DATA may be combined. msi_ms_reader_open_with fails if no set has it.
     * */
    if (strcmp(column, "CORRECTED_DATA") == 0 && !ccc_table_has_column(set->table, column) &&
        ccc_table_has_column(set->table, "DATA"))
        column = "DATA";
    MSI_TRY(choose_column(set, column, set->data_column));
    if (selection->model_column) MSI_TRY(choose_column(set, selection->model_column, set->model_column));
    if (!*column) return MSI_OK;
    const char *const with_data[] = {"FLAG", "WEIGHT"};
    for (int i = 0; i < 2 && !selection->coordinates_only; i++)
        if (!ccc_table_has_column(set->table, with_data[i]))
            return msi_error_set(MSI_EINPUT, "%s: not a complete Measurement Set: the table has no column %s",
                                 set->path, with_data[i]);
    return MSI_OK;
}

/* Refuse incomplete columns in a TaQL condition. Every word of the condition may be a column. */
static int watch_condition(const msi_ms_set *set, const char *taql)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    uint64_t written;
    char word[sizeof set->data_column];
    for (const char *p = taql; *(p += strcspn(p, letters)); p += strlen(word)) {
        snprintf(word, sizeof word, "%.*s", (int)strspn(p, letters), p);
        if (ccc_table_has_column(set->table, word))
            MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, (const char *[]){word, ""}, &written));
    }
    return MSI_OK;
}

/* Refuse columns that a prediction has left incomplete or is writing. Watch for a prediction that starts while they are
 * read. Columns that predictions cannot write are not checked again. */
static int watch_columns(msi_ms_set *set, const msi_ms_selection *selection)
{
    const char *const columns[] = {set->data_column, set->model_column};
    if (selection->taql) MSI_TRY(watch_condition(set, selection->taql));
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &set->watch.written));
    for (int i = 0; i < 2 && !selection->coordinates_only; i++)
        if (*columns[i] && !msi_ms_column_is_protected(columns[i])) set->watch.is_on = 1;
    return MSI_OK;
}

/* ---- The whole set ---- */

static int describe_tables(msi_ms_set *set, const msi_ms_selection *selection)
{
    static const msi_ms_unit_column units[] = {{"UVW", "m"},           {"TIME", "s"},
                                               {"TIME_CENTROID", "s"}, {"TIME_EXTRA_PREC", "s"},
                                               {"INTERVAL", "s"},      {"EXPOSURE", "s"}};
    MSI_TRY(choose_columns(set, selection));
    MSI_TRY(msi_ms_table_check_units(set->table, units, sizeof units / sizeof *units));
    MSI_TRY(watch_columns(set, selection));
    MSI_TRY(msi_ms_subtables_read(set));
    MSI_TRY(msi_ms_stations_read(&set->stations, set->table, set->data_column, set->n_antenna));
    if (set->n_table_row < 1) return msi_error_set(MSI_EINPUT, "%s: has 0 rows", set->path);
    if (selection->coordinates_only || !*set->data_column) return MSI_OK;
    return find_places(set);
}

int msi_ms_set_describe(msi_ms_set *set, const msi_ms_selection *selection)
{
    MSI_TRY(set->store ? msi_ms_store_describe(set, selection)
            : set->uv  ? msi_ms_uv_describe(set, selection)
                       : describe_tables(set, selection));
    return msi_ms_set_sort_dishes(set);
}

void msi_ms_set_free(msi_ms_set *set)
{
    msi_ms_set_close(set);
    msi_ms_watch_free(&set->watch);
    msi_ms_store_free(set->store);
    msi_uv_set_free(set->uv);
    msi_free(set->notes);
    for (int i = 0; i < set->n_window; i++) {
        msi_free(set->window[i].freq_hz);
        msi_free(set->window[i].width_hz);
    }
    for (int i = 0; i < set->n_setup; i++) {
        msi_free(set->setup[i].chan_index);
        msi_free(set->setup[i].freq_hz);
        msi_free(set->setup[i].width_hz);
        msi_free(set->setup[i].inverse_lambda2);
    }
    msi_free(set->window);
    msi_free(set->setup);
    msi_free(set->field);
    msi_free(set->antenna_itrf_m);
    msi_free(set->antenna_name);
    msi_free(set->minute);
    msi_free(set->doppler);
    msi_free(set->antenna_diameter_m);
    msi_free(set->antenna_kind);
    msi_ms_stations_free(&set->stations);
    msi_free(set->run);
    memset(set, 0, sizeof *set);
}

/* ---- The observation ---- */

/* Return whether a position is one of an antenna. Dummy antennas are at the origin or have no position, and no antenna
 * is farther than the Moon. */
static int is_somewhere(const double *itrf_m)
{
    const double r2 = itrf_m[0] * itrf_m[0] + itrf_m[1] * itrf_m[1] + itrf_m[2] * itrf_m[2];
    return r2 > 0 && r2 < 1e9 * 1e9;
}

void msi_ms_observe_antennas(const msi_ms_set *set, msi_observation *o)
{
    const double *p = set->antenna_itrf_m;
    double sum[3] = {0}, longest2 = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < set->n_antenna; i++) {
        if (!is_somewhere(p + 3 * i)) continue;
        for (int k = 0; k < 3; k++) sum[k] += p[3 * i + k];
        n++;
        for (int64_t j = 0; j < i; j++) {
            if (!is_somewhere(p + 3 * j)) continue;
            double d2 = 0;
            for (int k = 0; k < 3; k++) d2 += (p[3 * i + k] - p[3 * j + k]) * (p[3 * i + k] - p[3 * j + k]);
            if (d2 > longest2) longest2 = d2;
        }
    }
    for (int k = 0; k < 3; k++) o->antenna_itrf_m[k] = n ? sum[k] / (double)n : 0;
    o->longest_baseline_m = sqrt(longest2);
}

int msi_ms_set_sort_dishes(msi_ms_set *set)
{
    long size[MSI_MS_KINDS];
    int n = 0;
    MSI_TRY(msi_alloc(&set->antenna_kind, set->n_antenna, sizeof *set->antenna_kind, "kinds of antennas"));
    /* The smallest sizes, ascending. */
    for (;;) {
        long next = 0;
        int is_there = 0;
        for (int64_t i = 0; i < set->n_antenna; i++) {
            const long metres = lround(fmin(set->antenna_diameter_m[i], 1e6));
            if ((n && metres <= size[n - 1]) || (is_there && metres >= next)) continue;
            next = metres;
            is_there = 1;
        }
        if (!is_there) break;
        size[n++] = next;
        if (n == MSI_MS_KINDS) break;
    }
    for (int64_t i = 0; i < set->n_antenna; i++) {
        const long metres = lround(fmin(set->antenna_diameter_m[i], 1e6));
        while (set->antenna_kind[i] + 1 < n && size[set->antenna_kind[i]] < metres) set->antenna_kind[i]++;
    }
    return MSI_OK;
}

int msi_ms_set_observe(msi_ms_set *set, msi_observation *o)
{
    memset(o, 0, sizeof *o);
    if (set->store)
        msi_ms_store_observe(set, set->n_run > 0 ? set->run[0].field_id : -1, o);
    else if (set->uv)
        msi_ms_uv_observe(set, o);
    else
        MSI_TRY(msi_ms_subtables_observe(set, o));
    snprintf(set->telescope, sizeof set->telescope, "%s", o->telescope);
    o->start_mjd_s = set->start_mjd_s;
    o->end_mjd_s = set->end_mjd_s;
    msi_ms_observe_antennas(set, o);
    if (set->n_run == 0) return MSI_OK;
    const msi_ms_run *first = &set->run[0];
    const msi_ms_field *field = &set->field[first->field_id];
    snprintf(o->object, sizeof o->object, "%s", field->name);
    snprintf(o->dir_frame, sizeof o->dir_frame, "%s", field->frame);
    snprintf(o->spec_frame, sizeof o->spec_frame, "%s", set->window[set->setup[first->data_desc_id].spw_id].frame);
    o->ra_rad = field->ra_rad;
    o->dec_rad = field->dec_rad;
    return set->store || set->uv ? MSI_OK : msi_ms_subtables_rest_frequencies(set, field, 1, &o->rest_freq_hz);
}

int msi_ms_has_expression(const msi_ms_selection *selection)
{
    for (int i = 0; i < MSI_N_MSSEL; i++)
        if (selection->mssel[i]) return 1;
    return 0;
}
