/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the subtables of a Measurement Set say is read and checked: windows, correlations, antennas; which columns
 * serve. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_column.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_store.h"
#include "io/ms/ms_subtable.h"

int msi_ms_failed(int ccc_status)
{
    const int status = ccc_status == CCC_ENOMEM ? MSI_ENOMEM : ccc_status == CCC_ELOCKED ? MSI_ELOCKED : MSI_EINPUT;
    return msi_error_set(status, "%s", ccc_error());
}

/* Refuse a multi-MS, whose rows lie in other sets, by their names. */
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
    return msi_error_set(MSI_EINPUT, "%s: a multi-MS, which is not read as one; give its %lld members instead: %s%s",
                         set->path, (long long)n, text, used < sizeof text ? "" : "..");
}

/* Ask whether a table has its rows in its own files: not one that refers to others, or whose columns do. */
static int stores_rows(ccc_table *t)
{
    ccc_column_info info;
    if (!ccc_table_is_root(t)) return 0;
    return ccc_column_describe(t, "UVW", &info) != CCC_OK || strstr(info.manager_type, "StMan");
}

/* Check that the columns that are read are of the writing that they were of when they were chosen. */
static int check_writing(const msi_ms_set *set)
{
    uint64_t written;
    const char *const columns[] = {set->data_column, set->model_column};
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &written));
    if (written == set->watch.written) return MSI_OK;
    return msi_ms_watch_rewritten(set->path, *set->model_column ? set->model_column : set->data_column);
}

int msi_ms_set_open(msi_ms_set *set)
{
    if (set->table || set->store) return MSI_OK;
    if (msi_msv_is_file(set->path)) return msi_ms_store_open(set);
    MSI_TRY(msi_ms_watch_open(&set->watch, set->path, &set->table));
    if (!stores_rows(set->table)) msi_ms_limit_lift();
    MSI_TRY(check_parts(set));
    return set->watch.is_on ? check_writing(set) : MSI_OK;
}

int msi_ms_set_recheck(msi_ms_set *set)
{
    if (!set->watch.is_on || msi_ms_watch_is_same(&set->watch, set->path)) return MSI_OK;
    /* casacore has what it knows of a table from when it was opened. */
    ccc_table_close(set->table);
    set->table = NULL;
    const int status = msi_ms_set_open(set);
    if (status == MSI_OK) return MSI_OK;
    /* A process that goes on, such as Python, would get what casacore knows of this one at the next opening. */
    ccc_table_close(set->table);
    set->table = NULL;
    return status;
}

/* Translate the MFrequency codes of casacore; a code that has no frame, 64 being that of an undefined one, gives "". */
static const char *frequency_frame(int code)
{
    static const char *const frames[] = {"REST", "LSRK", "LSRD", "BARY", "GEO", "TOPO", "GALACTO", "LGROUP", "CMB"};
    return code >= 0 && code < (int)(sizeof frames / sizeof *frames) ? frames[code] : "";
}

static int read_window(msi_ms_set *set, ccc_table *t, int id)
{
    msi_ms_window *w = &set->window[id];
    int64_t n, n_width;
    MSI_TRY(msi_ms_cell_doubles(t, "CHAN_FREQ", id, &w->freq_hz, &n));
    if (n > INT32_MAX) return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: row %d: too many channels", set->path, id);
    w->n_chan = (int32_t)n;
    if (ccc_table_has_column(t, "CHAN_WIDTH")) {
        MSI_TRY(msi_ms_cell_doubles(t, "CHAN_WIDTH", id, &w->width_hz, &n_width));
        if (n_width != n) {
            msi_free(w->width_hz);
            w->width_hz = NULL;
        }
    }
    if (!w->width_hz) MSI_TRY(msi_alloc(&w->width_hz, n > 0 ? n : 1, sizeof *w->width_hz, "channel widths"));
    /* A channel reaches no lower than 0: a width beyond that, or none at all, is unknown. */
    for (int64_t i = 0; i < n; i++) {
        const double width_hz = fabs(w->width_hz[i]);
        w->width_hz[i] = width_hz <= 2 * w->freq_hz[i] ? width_hz : 0;
    }
    int32_t code = 5;
    if (ccc_table_has_column(t, "MEAS_FREQ_REF"))
        MSI_CCC(ccc_get_range(t, "MEAS_FREQ_REF", id, 1, NULL, CCC_INT32, &code, 1));
    msi_ms_copy_text(w->frame, sizeof w->frame, frequency_frame(code));
    return MSI_OK;
}

static int read_windows(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(msi_ms_subtable_open(set, "SPECTRAL_WINDOW", &t));
    int status = MSI_OK;
    const int64_t n = ccc_table_n_row(t);
    if (n < 1 || n > INT32_MAX) {
        status = msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: has %lld rows: no channel has a frequency", set->path,
                               (long long)n);
        goto out;
    }
    if ((status = msi_alloc(&set->window, n, sizeof *set->window, "spectral windows")) != MSI_OK) goto out;
    set->n_window = (int)n;
    for (int i = 0; i < set->n_window && status == MSI_OK; i++) {
        msi_child_progress(MSI_CHILD_STEP_S);
        status = read_window(set, t, i);
    }
out:
    ccc_table_close(t);
    return status;
}

/* Read the correlations of one POLARIZATION row. */
static int read_correlations(const msi_ms_set *set, ccc_table *t, int64_t row, msi_ms_setup *setup)
{
    double *codes;
    int64_t n;
    MSI_TRY(msi_ms_cell_doubles(t, "CORR_TYPE", row, &codes, &n));
    int status = MSI_OK;
    if (n < 1 || n > MSI_MAX_CORR)
        status =
            msi_error_set(MSI_EINPUT, "%s/POLARIZATION: row %lld: CORR_TYPE has %lld correlations; 1 to %d can be read",
                          set->path, (long long)row, (long long)n, MSI_MAX_CORR);
    for (int64_t i = 0; i < n && status == MSI_OK; i++) {
        if (codes[i] < MSI_POL_I || codes[i] > MSI_POL_YY)
            status = msi_error_set(MSI_EINPUT,
                                   "%s/POLARIZATION: row %lld: CORR_TYPE %g is neither Stokes, linear nor circular",
                                   set->path, (long long)row, codes[i]);
        else
            setup->corr[i] = (msi_pol)codes[i];
    }
    setup->n_corr = (int32_t)n;
    msi_free(codes);
    return status;
}

static int read_setups(msi_ms_set *set)
{
    ccc_table *t = NULL, *pol = NULL;
    int32_t *spw = NULL, *pol_id = NULL;
    int status = msi_ms_subtable_open(set, "DATA_DESCRIPTION", &t);
    if (status == MSI_OK) status = msi_ms_subtable_open(set, "POLARIZATION", &pol);
    if (status != MSI_OK) goto out;
    const int64_t n = ccc_table_n_row(t);
    if (n < 1 || n > INT32_MAX) {
        status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: has %lld rows", set->path, (long long)n);
        goto out;
    }
    if ((status = msi_alloc(&set->setup, n, sizeof *set->setup, "data descriptions")) != MSI_OK) goto out;
    set->n_setup = (int)n;
    if ((status = msi_alloc(&spw, n, sizeof *spw, "data descriptions")) != MSI_OK) goto out;
    if ((status = msi_alloc(&pol_id, n, sizeof *pol_id, "data descriptions")) != MSI_OK) goto out;
    int failed = ccc_get_range(t, "SPECTRAL_WINDOW_ID", 0, n, NULL, CCC_INT32, spw, n);
    if (failed == CCC_OK) failed = ccc_get_range(t, "POLARIZATION_ID", 0, n, NULL, CCC_INT32, pol_id, n);
    if (failed != CCC_OK) {
        status = msi_ms_failed(failed);
        goto out;
    }
    for (int i = 0; i < set->n_setup && status == MSI_OK; i++) {
        msi_ms_setup *s = &set->setup[i];
        msi_child_progress(MSI_CHILD_STEP_S);
        if (spw[i] < 0 || spw[i] >= set->n_window)
            status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: row %d: SPECTRAL_WINDOW_ID %d of %d", set->path, i,
                                   spw[i], set->n_window);
        else if (pol_id[i] < 0 || pol_id[i] >= ccc_table_n_row(pol))
            status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: row %d: POLARIZATION_ID %d of %lld", set->path, i,
                                   pol_id[i], (long long)ccc_table_n_row(pol));
        else
            status = read_correlations(set, pol, pol_id[i], s);
        s->spw_id = spw[i];
        if (status == MSI_OK) s->n_stored = set->window[spw[i]].n_chan;
    }
out:
    msi_free(spw);
    msi_free(pol_id);
    ccc_table_close(pol);
    ccc_table_close(t);
    return status;
}

static int read_antennas(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(msi_ms_subtable_open(set, "ANTENNA", &t));
    const int64_t n = ccc_table_n_row(t);
    int status = MSI_OK;
    if (n < 1)
        status = msi_error_set(MSI_EINPUT, "%s/ANTENNA: has 0 rows", set->path);
    else
        status = msi_alloc(&set->antenna_itrf_m, 3 * n, sizeof *set->antenna_itrf_m, "antenna positions");
    if (status != MSI_OK) goto out;
    set->n_antenna = n;
    /* Positions serve headers only: a table without them is no reason to stop. */
    int is_there;
    status =
        msi_ms_optional(ccc_get_range(t, "POSITION", 0, n, NULL, CCC_DOUBLE, set->antenna_itrf_m, 3 * n), &is_there);
    if (!is_there) memset(set->antenna_itrf_m, 0, (size_t)n * 3 * sizeof *set->antenna_itrf_m);
out:
    ccc_table_close(t);
    return status;
}

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

/* Find a column of visibilities, and copy its name. */
static int choose_column(msi_ms_set *set, const char *column, char name[64])
{
    char there[256];
    ccc_column_info info;
    if (strlen(column) >= sizeof set->data_column)
        return msi_error_set(MSI_EINPUT, "%s: no column has a name as long as '%.80s..'", set->path, column);
    msi_ms_copy_text(name, sizeof set->data_column, column);
    if (!*column) return MSI_OK;
    const int missing = ccc_column_describe(set->table, column, &info) != CCC_OK;
    if (!missing && !info.is_scalar &&
        (info.type == CCC_COMPLEX || info.type == CCC_DCOMPLEX || info.type == CCC_FLOAT))
        return MSI_OK;
    list_data_columns(set->table, there, sizeof there);
    return msi_error_set(MSI_EINPUT, "%s: %s%s%s; data columns there are: %s", set->path,
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
    if (stores_rows(set->table)) MSI_TRY(msi_ms_subtable_check(set->table));
    set->n_table_row = ccc_table_n_row(set->table);
    set->has_flag_row = ccc_table_has_column(set->table, "FLAG_ROW");
    set->has_weight_spectrum = ccc_table_has_column(set->table, "WEIGHT_SPECTRUM");
    const char *column = selection->data_column;
    if (!column) column = ccc_table_has_column(set->table, "CORRECTED_DATA") ? "CORRECTED_DATA" : "DATA";
    if (selection->coordinates_only && !ccc_table_has_column(set->table, column)) column = "";
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

/* Refuse columns that a prediction has left half written, or is writing; see to it that none begins while they are
 * read. Those that none can write need not be looked at again. */
static int watch_columns(msi_ms_set *set, const msi_ms_selection *selection)
{
    const char *const columns[] = {set->data_column, set->model_column};
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &set->watch.written));
    for (int i = 0; i < 2 && !selection->coordinates_only; i++)
        if (*columns[i] && !msi_ms_column_is_protected(columns[i])) set->watch.is_on = 1;
    return MSI_OK;
}

int msi_ms_set_describe(msi_ms_set *set, const msi_ms_selection *selection)
{
    if (set->store) return msi_ms_store_describe(set, selection);
    MSI_TRY(choose_columns(set, selection));
    MSI_TRY(watch_columns(set, selection));
    MSI_TRY(read_windows(set));
    MSI_TRY(read_setups(set));
    MSI_TRY(msi_ms_fields_read(set));
    MSI_TRY(read_antennas(set));
    if (set->n_table_row < 1) return msi_error_set(MSI_EINPUT, "%s: has 0 rows: there is nothing to image", set->path);
    return MSI_OK;
}

void msi_ms_set_free(msi_ms_set *set)
{
    ccc_table_close(set->table);
    msi_ms_watch_free(&set->watch);
    msi_ms_store_free(set->store);
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
    msi_free(set->run);
    memset(set, 0, sizeof *set);
}
