/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows and channels of a Measurement Set are selected, and its index columns checked. */
#include "io/ms/ms_set.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_found.h"
#include "io/ms/ms_store.h"

enum { INDEX_ROWS = 16384 };

/* A row may take so many seconds of CPU time in each of casacore's selections. They take some 1e-6. */
static const double SELECTION_ROW_S = 2e-5;

/* Index columns of a stretch of rows. */
typedef struct index_block {
    int32_t ddid[INDEX_ROWS], field[INDEX_ROWS], antenna1[INDEX_ROWS], antenna2[INDEX_ROWS];
    double time_s[INDEX_ROWS];
} index_block;

/* A filter decides which rows are selected. */
typedef struct row_filter {
    uint8_t *setup; /* [n_setup] wanted */
    uint8_t *field; /* [n_field] wanted */
    double first_s, last_s;
    const int64_t *listed; /* ascending rows; NULL: all */
    int64_t n_listed, next_listed;
} row_filter;

static int read_times(const msi_ms_set *set, int64_t row, int64_t n, double *time_s)
{
    MSI_CCC(ccc_get_range(set->table, "TIME", row, n, NULL, CCC_DOUBLE, time_s, n));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(time_s[i]))
            return msi_error_set(MSI_EINPUT, "%s: column TIME, row %lld: is not finite; repair or remove the row",
                                 set->path, (long long)row + i);
    return MSI_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* List the distinct times of all rows. */
static int list_times(const msi_ms_set *set, index_block *b, const msi_ms_partners *partners, msi_ms_found *found)
{
    int64_t row, end;
    if (set->store) {
        MSI_TRY(msi_ms_times_add(&found->all, set->store->file->time_s, set->store->file->header->n_time));
        return msi_ms_found_gather(found, set, NULL);
    }
    for (msi_ms_found_part(set, partners, &row, &end); row < end; row += INDEX_ROWS) {
        const int64_t n = least(end - row, INDEX_ROWS);
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(read_times(set, row, n, b->time_s));
        MSI_TRY(msi_ms_times_add(&found->all, b->time_s, n));
    }
    return msi_ms_found_gather(found, set, partners);
}

/* Find the first and last TIME of the selection's timesteps. A set that has fewer than others has no row in the last
 * of several intervals. */
static int interval_times(const msi_ms_set *set, const msi_ms_selection *selection, index_block *b,
                          const msi_ms_partners *partners, row_filter *filter)
{
    const int64_t begin = selection->interval_begin;
    int64_t end = selection->interval_end;
    msi_ms_found found;
    int status = msi_ms_found_make(&found, set->n_setup);
    if (status == MSI_OK) status = list_times(set, b, partners, &found);
    const msi_ms_times times = found.all;
    if (selection->may_be_empty && end > times.n) end = begin < times.n ? times.n : begin;
    if (status == MSI_OK && selection->may_be_empty && begin == end) {
        filter->first_s = INFINITY;
        filter->last_s = -INFINITY;
    } else if (status == MSI_OK && (begin < 0 || begin >= end || end > times.n)) {
        status = msi_error_set(MSI_EINPUT, "%s: timesteps %lld to %lld (end exclusive) of %lld", set->path,
                               (long long)begin, (long long)end, (long long)times.n);
    } else if (status == MSI_OK) {
        filter->first_s = times.time_s[begin];
        filter->last_s = times.time_s[end - 1];
    }
    msi_ms_found_free(&found);
    return status;
}

/* Return where the first number is that is not 0 <= it < limit; n where there is none. */
static int64_t find_outside(const int32_t *values, int64_t n, int64_t limit)
{
    const int32_t most = limit < INT32_MAX ? (int32_t)limit : INT32_MAX;
    int32_t any = 0;
    for (int64_t i = 0; i < n; i++) any |= (values[i] < 0) | (values[i] >= most);
    int64_t at = any ? 0 : n;
    while (at < n && values[at] >= 0 && values[at] < most) at++;
    return at;
}

static int read_index(const msi_ms_set *set, int64_t row, int64_t n, index_block *b)
{
    const struct {
        const char *column;
        int32_t *values;
        int64_t limit;
        const char *table;
    } ids[] = {{"DATA_DESC_ID", b->ddid, set->n_setup, "DATA_DESCRIPTION"},
               {"FIELD_ID", b->field, set->n_field, "FIELD"},
               {"ANTENNA1", b->antenna1, set->n_antenna, "ANTENNA"},
               {"ANTENNA2", b->antenna2, set->n_antenna, "ANTENNA"}};
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        MSI_CCC(ccc_get_range(set->table, ids[k].column, row, n, NULL, CCC_INT32, ids[k].values, n));
        const int64_t at = find_outside(ids[k].values, n, ids[k].limit);
        if (at < n)
            return msi_error_set(
                MSI_EINPUT, "%s: column %s, row %lld: %d, but %s has %lld rows; repair or remove the row", set->path,
                ids[k].column, (long long)row + at, ids[k].values[at], ids[k].table, (long long)ids[k].limit);
    }
    return read_times(set, row, n, b->time_s);
}

static int is_listed(row_filter *f, int64_t row)
{
    if (!f->listed) return 1;
    while (f->next_listed < f->n_listed && f->listed[f->next_listed] < row) f->next_listed++;
    return f->next_listed < f->n_listed && f->listed[f->next_listed] == row;
}

/* Rows that are being selected. */
typedef struct row_scan {
    const msi_ms_set *set;
    row_filter *filter;
    msi_ms_found found;
} row_scan;

/* Take rows of one time that follow each other, as far as they are selected; where rows are listed, one at a time. */
static int take_rows(row_scan *s, const msi_ms_run *r, double time_s)
{
    row_filter *f = s->filter;
    if (!f->setup[r->data_desc_id] || !f->field[r->field_id] || !is_listed(f, r->row)) return MSI_OK;
    s->found.is_used[r->data_desc_id] = 1;
    if (time_s < f->first_s || time_s > f->last_s) return MSI_OK;
    MSI_TRY(msi_ms_found_add(&s->found, r));
    return msi_ms_times_add(&s->found.selected, &time_s, 1);
}

/* Return the end of the rows from `first` on that share time, field and data description; listed ones stand alone. */
static int64_t end_of_alike(const row_scan *s, const index_block *b, int64_t first, int64_t n)
{
    int64_t end = first + 1;
    while (!s->filter->listed && end < n && b->time_s[end] == b->time_s[first] && b->ddid[end] == b->ddid[first] &&
           b->field[end] == b->field[first])
        end++;
    return end;
}

static int scan_table(row_scan *s, index_block *b, const msi_ms_partners *partners)
{
    int64_t begin, end_row;
    msi_ms_found_part(s->set, partners, &begin, &end_row);
    for (int64_t row = begin; row < end_row; row += INDEX_ROWS) {
        const int64_t n = least(end_row - row, INDEX_ROWS);
        MSI_TRY(msi_interrupt_check());
        msi_progress_at(row - begin, end_row - begin);
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(read_index(s->set, row, n, b));
        MSI_TRY(msi_ms_times_add(&s->found.all, b->time_s, n));
        for (int64_t i = 0, end; i < n; i = end) {
            end = end_of_alike(s, b, i, n);
            const msi_ms_run alike = {row + i, end - i, b->ddid[i], b->field[i]};
            MSI_TRY(take_rows(s, &alike, b->time_s[i]));
        }
    }
    return msi_ms_found_gather(&s->found, s->set, partners);
}

static int scan_store(row_scan *s)
{
    const msi_msv_file *f = s->set->store->file;
    for (int64_t i = 0; i < f->header->n_run; i++) {
        const msi_msv_run *r = &f->run[i];
        const msi_ms_run rows = {r->row, r->n_row, r->data_desc_id, r->field_id};
        MSI_TRY(take_rows(s, &rows, f->time_s[r->time]));
    }
    MSI_TRY(msi_ms_times_add(&s->found.all, f->time_s, f->header->n_time));
    return msi_ms_found_gather(&s->found, s->set, NULL);
}

static int scan_rows(msi_ms_set *set, row_filter *f, index_block *b, const msi_ms_partners *partners)
{
    row_scan s = {.set = set, .filter = f};
    int status = msi_ms_found_make(&s.found, set->n_setup);
    if (status == MSI_OK) status = set->store ? scan_store(&s) : scan_table(&s, b, partners);
    if (status == MSI_OK) {
        const msi_ms_times *selected = &s.found.selected;
        set->n_time = s.found.all.n;
        set->n_selected_time = selected->n;
        set->start_mjd_s = selected->n > 0 ? selected->time_s[0] : INFINITY;
        set->end_mjd_s = selected->n > 0 ? selected->time_s[selected->n - 1] : -INFINITY;
        for (int i = 0; i < set->n_setup; i++) set->setup[i].is_used |= s.found.is_used[i];
        set->run = s.found.run;
        set->n_run = s.found.n_run;
        s.found.run = NULL;
    }
    msi_ms_found_free(&s.found);
    return status;
}

/* Keep in the first list the rows that both hold; both ascend. Returns their number. */
static int64_t intersect(int64_t *a, int64_t n_a, const int64_t *b, int64_t n_b)
{
    int64_t n = 0, j = 0;
    for (int64_t i = 0; i < n_a; i++) {
        while (j < n_b && b[j] < a[i]) j++;
        if (j < n_b && b[j] == a[i]) a[n++] = a[i];
    }
    return n;
}

static int wanted_ids(const msi_ms_set *set, const char *what, int all, const int *ids, int n_id, uint8_t *wanted,
                      int n)
{
    for (int i = 0; i < n; i++) wanted[i] = all != 0;
    for (int i = 0; i < n_id && !all; i++) {
        if (ids[i] < 0 || ids[i] >= n)
            return msi_error_set(MSI_EINPUT, "%s: has no %s %d; it has 0 to %d", set->path, what, ids[i], n - 1);
        wanted[ids[i]] = 1;
    }
    return MSI_OK;
}

/* Write "0, 2" .. of the fields that have rows, for the message that none is selected. */
static void fields_with_rows(const msi_ms_set *set, index_block *b, char *text, size_t size)
{
    size_t used = 0;
    int last = -1;
    text[0] = 0;
    uint8_t *seen = NULL;
    if (msi_alloc(&seen, set->n_field, 1, "fields") != MSI_OK) return;
    const msi_msv_file *f = set->store ? set->store->file : NULL;
    for (int64_t i = 0; f && i < f->header->n_run; i++) seen[f->run[i].field_id] = 1;
    for (int64_t row = 0; !f && row < set->n_table_row; row += INDEX_ROWS) {
        const int64_t n = set->n_table_row - row < INDEX_ROWS ? set->n_table_row - row : INDEX_ROWS;
        msi_child_progress(MSI_CHILD_STEP_S);
        if (ccc_get_range(set->table, "FIELD_ID", row, n, NULL, CCC_INT32, b->field, n) != CCC_OK) break;
        for (int64_t i = 0; i < n; i++)
            if (b->field[i] != last) seen[last = b->field[i]] = 1;
    }
    for (int i = 0; i < set->n_field && used < size; i++)
        if (seen[i]) used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : "", i);
    msi_free(seen);
}

/* Find the rows that MSSelection and TaQL select; *rows is NULL where neither is asked. */
static int listed_rows(msi_ms_set *set, const msi_ms_selection *s, int64_t **rows, int64_t *n_row,
                       ccc_chan_range **ranges, int64_t *n_range)
{
    *rows = NULL;
    *ranges = NULL;
    *n_row = *n_range = 0;
    msi_child_progress(MSI_CHILD_STEP_S + SELECTION_ROW_S * (double)set->n_table_row);
    const ccc_ms_expressions e = {s->mssel_field, s->mssel_spw, s->mssel_antenna, s->mssel_uvrange, s->mssel_time};
    if (e.field || e.spw || e.antenna || e.uvrange || e.time)
        MSI_CCC(ccc_ms_select(set->table, &e, rows, n_row, ranges, n_range));
    if (!s->taql) return MSI_OK;
    int64_t *more, n_more;
    const int status = ccc_table_query(set->table, s->taql, &more, &n_more);
    if (status != CCC_OK) return msi_ms_failed(status);
    if (*rows) {
        *n_row = intersect(*rows, *n_row, more, n_more);
        ccc_free(more);
    } else {
        *rows = more;
        *n_row = n_more;
    }
    return MSI_OK;
}

/* Fail unless a column's cells have the shape that the subtables give; the first row of each setup is read. */
static int check_shapes(msi_ms_set *set, const char *column)
{
    for (int i = 0; *column && i < set->n_setup && !set->store; i++) {
        const msi_ms_setup *s = &set->setup[i];
        if (s->n_chan == 0) continue;
        int ndim;
        int64_t shape[CCC_MAX_DIM];
        MSI_CCC(ccc_cell_shape(set->table, column, s->first_row, &ndim, shape));
        if (ndim < 0)
            return msi_error_set(MSI_EINPUT, "%s: column %s, row %lld: has no value; choose another data column",
                                 set->path, column, (long long)s->first_row);
        if (ndim != 2 || shape[0] != s->n_corr || shape[1] != s->n_stored)
            return msi_error_set(
                MSI_EINPUT,
                "%s: column %s, row %lld: %lld correlations x %lld channels, but POLARIZATION::CORR_TYPE has "
                "%d and SPECTRAL_WINDOW::CHAN_FREQ %d for DATA_DESC_ID %d",
                set->path, column, (long long)s->first_row, (long long)(ndim > 0 ? shape[0] : 0),
                (long long)(ndim > 1 ? shape[1] : 0), s->n_corr, s->n_stored, i);
    }
    return MSI_OK;
}

static int check_fields(const msi_ms_set *set)
{
    for (int i = 0; i < set->n_field; i++) {
        const msi_ms_field *f = &set->field[i];
        if (f->n_row > 0 && !(isfinite(f->ra_rad) && isfinite(f->dec_rad)))
            return msi_error_set(MSI_EINPUT, "%s/FIELD: column PHASE_DIR, row %d: no finite phase centre", set->path,
                                 i);
        if (f->n_row > 0 && fabs(f->dec_rad) > MSI_PI / 2 + 1e-9)
            return msi_error_set(MSI_EINPUT,
                                 "%s/FIELD: column PHASE_DIR, row %d: a declination of %.6g degrees; repair the row",
                                 set->path, i, f->dec_rad * 180 / MSI_PI);
    }
    return MSI_OK;
}

/* Count rows by setup and field and, by_channels, drop those of setups that have no channel selected. */
static void count_rows(msi_ms_set *set, int by_channels)
{
    int64_t n_run = 0;
    set->n_row = 0;
    for (int i = 0; i < set->n_setup; i++) set->setup[i].n_row = 0;
    for (int i = 0; i < set->n_field; i++) set->field[i].n_row = 0;
    for (int64_t i = 0; i < set->n_run; i++) {
        msi_ms_setup *s = &set->setup[set->run[i].data_desc_id];
        if (by_channels && s->n_chan == 0) continue;
        if (s->n_row == 0) s->first_row = set->run[i].row;
        s->n_row += set->run[i].n_row;
        set->field[set->run[i].field_id].n_row += set->run[i].n_row;
        set->n_row += set->run[i].n_row;
        set->run[n_run++] = set->run[i];
    }
    set->n_run = n_run;
}

static int wanted_setups(const msi_ms_set *set, const msi_ms_selection *selection, uint8_t *wanted)
{
    uint8_t *spw = NULL;
    MSI_TRY(msi_alloc(&spw, set->n_window, 1, "spectral windows"));
    const int status = wanted_ids(set, "spectral window", selection->n_spw == 0, selection->spws, selection->n_spw, spw,
                                  set->n_window);
    for (int i = 0; i < set->n_setup; i++) wanted[i] = spw[set->setup[i].spw_id];
    msi_free(spw);
    return status;
}

/* Give a set without selected rows the times of the interval, or none, or fail where a set must have rows. */
static int take_empty(msi_ms_set *set, const msi_ms_selection *selection, const row_filter *filter, index_block *block)
{
    char text[128];
    if (selection->may_be_empty) {
        const int has_interval = selection->interval_end > 0;
        set->start_mjd_s = has_interval ? filter->first_s : INFINITY;
        set->end_mjd_s = has_interval ? filter->last_s : -INFINITY;
        return MSI_OK;
    }
    fields_with_rows(set, block, text, sizeof text);
    return msi_error_set(MSI_EINPUT, "%s: no row is selected (fields with rows: %s)", set->path, text);
}

int msi_ms_set_select(msi_ms_set *set, const msi_ms_selection *selection, const msi_ms_partners *partners)
{
    static const int field_0 = 0;
    index_block *block = NULL;
    row_filter filter = {.first_s = -INFINITY, .last_s = INFINITY};
    int64_t *rows = NULL, n_row = 0, n_range = 0;
    ccc_chan_range *ranges = NULL;
    int status;
    if ((status = msi_alloc(&block, 1, sizeof *block, "index columns")) != MSI_OK) goto out;
    if ((status = msi_alloc(&filter.setup, set->n_setup, 1, "data descriptions")) != MSI_OK) goto out;
    if ((status = msi_alloc(&filter.field, set->n_field, 1, "fields")) != MSI_OK) goto out;
    if ((status = wanted_setups(set, selection, filter.setup)) != MSI_OK) goto out;
    const int any_field = selection->all_fields || selection->mssel_field;
    const int *fields = selection->n_field > 0 ? selection->fields : &field_0;
    status = wanted_ids(set, "field", any_field, fields, selection->n_field > 0 ? selection->n_field : 1, filter.field,
                        set->n_field);
    if (status != MSI_OK) goto out;
    if ((status = listed_rows(set, selection, &rows, &n_row, &ranges, &n_range)) != MSI_OK) goto out;
    filter.listed = rows;
    filter.n_listed = n_row;
    if (selection->interval_end > 0) {
        status = interval_times(set, selection, block, partners, &filter);
        if (status != MSI_OK) goto out;
    }
    if ((status = scan_rows(set, &filter, block, partners)) != MSI_OK) goto out;
    count_rows(set, 0);
    if (set->n_row > 0) {
        status = msi_ms_channels_select(set, selection, ranges, n_range);
        if (status != MSI_OK) goto out;
        count_rows(set, 1);
    }
    if (set->n_row == 0) {
        status = take_empty(set, selection, &filter, block);
        goto out;
    }
    if ((status = check_fields(set)) != MSI_OK) goto out;
    if ((status = check_shapes(set, set->data_column)) != MSI_OK) goto out;
    status = check_shapes(set, set->model_column);
out:
    msi_free(block);
    msi_free(filter.setup);
    msi_free(filter.field);
    ccc_free(rows);
    ccc_free(ranges);
    return status;
}
