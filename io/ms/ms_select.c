/* SPDX-License-Identifier: GPL-3.0-or-later */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_metadata.h"

/* A list of times, appended in the order of rows. Before the list would grow, it is sorted and duplicates are removed.
 * */
typedef struct msi_ms_times {
    double *time_s;
    int64_t n, n_allocated;
} msi_ms_times;

typedef struct msi_ms_found {
    msi_ms_times all, selected; /* distinct times of all rows, of the selected ones */
    int64_t n_run, n_run_allocated;
    msi_ms_run *run; /* selected rows, ascending */
    int64_t n_setup;
    uint8_t *is_used; /* [n_setup] as in msi_ms_setup */
    msi_ms_row_times row_times;
} msi_ms_found;

/* ---- Lists ---- */

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_times(msi_ms_times *t)
{
    int64_t n = 0;
    if (t->n > 0) qsort(t->time_s, (size_t)t->n, sizeof *t->time_s, compare_doubles);
    for (int64_t i = 0; i < t->n; i++)
        if (n == 0 || t->time_s[i] != t->time_s[n - 1]) t->time_s[n++] = t->time_s[i];
    t->n = n;
}

/* Append times, except a time that equals the last one. Returns: 0, MSI_ENOMEM. */
static int add_times(msi_ms_times *t, const double *time_s, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (t->n > 0 && time_s[i] == t->time_s[t->n - 1]) continue;
        if (t->n == t->n_allocated) {
            sort_times(t);
            if (t->n * 2 >= t->n_allocated) {
                const int64_t more = t->n_allocated > 0 ? 2 * t->n_allocated : 4096;
                MSI_TRY(msi_grow(&t->time_s, t->n, more, sizeof *t->time_s, "distinct times"));
                t->n_allocated = more;
            }
        }
        t->time_s[t->n++] = time_s[i];
    }
    return MSI_OK;
}

/* Make an empty index of a set with n_setup setups; freed by free_row_index. Returns: 0, MSI_ENOMEM. */
static int make_row_index(msi_ms_found *f, int n_setup)
{
    *f = (msi_ms_found){.n_setup = n_setup};
    return msi_alloc(&f->is_used, n_setup, 1, "data descriptions");
}

/* Append rows, which come after the earlier ones. Returns: 0, MSI_ENOMEM. */
static int add_rows(msi_ms_found *f, const msi_ms_run *rows)
{
    msi_ms_run *last = f->n_run > 0 ? &f->run[f->n_run - 1] : NULL;
    if (last && last->row + last->n_row == rows->row && last->data_desc_id == rows->data_desc_id &&
        last->field_id == rows->field_id) {
        last->n_row += rows->n_row;
        return MSI_OK;
    }
    if (!f->run || f->n_run == f->n_run_allocated) {
        const int64_t more = f->n_run_allocated > 0 ? 2 * f->n_run_allocated : 256;
        MSI_TRY(msi_grow(&f->run, f->n_run, more, sizeof *f->run, "row ranges"));
        f->n_run_allocated = more;
    }
    f->run[f->n_run++] = *rows;
    return MSI_OK;
}

static void free_row_index(msi_ms_found *f)
{
    msi_free(f->all.time_s);
    msi_free(f->selected.time_s);
    msi_free(f->run);
    msi_free(f->is_used);
    *f = (msi_ms_found){0};
}

/* ---- Parts ---- */

/* Find the rows [*begin, *end) that this process scans: all rows if there are no partners. */
static void part_of_rows(const msi_ms_set *set, const msi_ms_partners *p, int64_t *begin, int64_t *end)
{
    const int64_t n = set->n_table_row, n_part = p ? p->n_part : 1, part = p ? p->part : 0;
    *begin = n / n_part * part + n % n_part * part / n_part;
    *end = n / n_part * (part + 1) + n % n_part * (part + 1) / n_part;
}

/* Pack or unpack the results of a process. */
static int transfer_found(msi_cursor *c, msi_ms_found *f, int *is_whole)
{
    int64_t head[] = {f->all.n, f->selected.n, f->n_run, f->n_setup};
    *is_whole = msi_transfer(c, head, sizeof head);
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &f->all.time_s, head[0], sizeof *f->all.time_s, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &f->selected.time_s, head[1], sizeof *f->selected.time_s, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &f->run, head[2], sizeof *f->run, is_whole));
    if (*is_whole) MSI_TRY(msi_transfer_array(c, &f->is_used, head[3], sizeof *f->is_used, is_whole));
    if (*is_whole) *is_whole = msi_transfer(c, &f->row_times, sizeof f->row_times);
    if (*is_whole && c->from) {
        f->all.n = head[0];
        f->selected.n = head[1];
        f->n_run = head[2];
        f->n_setup = head[3];
    }
    return MSI_OK;
}

/* Append the results of another process, whose rows come after the earlier ones. */
static int append(msi_ms_found *sum, const msi_ms_found *f, const msi_ms_set *set, int *is_sound)
{
    *is_sound = f->n_setup == sum->n_setup;
    for (int64_t i = 0; i < f->n_run && *is_sound; i++) {
        const msi_ms_run *r = &f->run[i], *last = sum->n_run > 0 ? &sum->run[sum->n_run - 1] : NULL;
        *is_sound = r->row >= (last ? last->row + last->n_row : 0) && r->n_row > 0 &&
                    r->n_row <= set->n_table_row - r->row && r->data_desc_id >= 0 && r->data_desc_id < set->n_setup &&
                    r->field_id >= 0 && r->field_id < set->n_field;
        if (*is_sound) MSI_TRY(add_rows(sum, r));
    }
    for (int64_t i = 0; i < f->all.n && *is_sound; i++) *is_sound = isfinite(f->all.time_s[i]);
    for (int64_t i = 0; i < f->selected.n && *is_sound; i++) *is_sound = isfinite(f->selected.time_s[i]);
    if (!*is_sound) return MSI_OK;
    for (int64_t i = 0; i < f->n_setup; i++) sum->is_used[i] |= f->is_used[i] != 0;
    msi_ms_row_times_add(&sum->row_times, &f->row_times);
    MSI_TRY(add_times(&sum->all, f->all.time_s, f->all.n));
    return add_times(&sum->selected, f->selected.time_s, f->selected.n);
}

static int append_bytes(msi_ms_found *sum, const char *bytes, int64_t n, const msi_ms_set *set)
{
    msi_ms_found f = {0};
    msi_cursor c = {.from = bytes, .n = n};
    int is_whole, is_sound = 0;
    int status = transfer_found(&c, &f, &is_whole);
    if (status == MSI_OK && is_whole) status = append(sum, &f, set, &is_sound);
    free_row_index(&f);
    if (status == MSI_OK && !is_sound)
        status = msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: a reader process returned an invalid row index",
                               set->path);
    return status;
}

/* Exchange the results with the partners. Returned: all, n_all  the results of each process */
static int exchange(msi_ms_found *f, const msi_ms_partners *p, const char **all, int64_t *n_all)
{
    char *bytes;
    int is_whole;
    msi_cursor c = {0};
    MSI_TRY(transfer_found(&c, f, &is_whole));
    MSI_TRY(msi_alloc(&bytes, c.at, 1, "the results of a part of a set"));
    const int64_t n = c.at;
    c = (msi_cursor){.to = bytes};
    int status = transfer_found(&c, f, &is_whole);
    if (status == MSI_OK) status = p->exchange(p->of, bytes, n, all, n_all);
    msi_free(bytes);
    return status;
}

/*
 * Replace the results of this process by those of all processes, and sort the times. Without partners only sort.
 * Returns: 0, MSI_EINPUT (a partner's row index is invalid), MSI_ENOMEM, MSI_EINTERRUPTED
 */
static int gather_row_index(msi_ms_found *f, const msi_ms_set *set, const msi_ms_partners *p)
{
    const char **all = NULL;
    int64_t *n_all = NULL;
    msi_ms_found sum = {0};
    int status = MSI_OK;
    sort_times(&f->all);
    sort_times(&f->selected);
    if (!p || p->n_part < 2) return MSI_OK;
    status = msi_alloc(&all, p->n_part, sizeof *all, "the results of parts of a set");
    if (status == MSI_OK) status = msi_alloc(&n_all, p->n_part, sizeof *n_all, "the results of parts of a set");
    if (status == MSI_OK) status = make_row_index(&sum, (int)f->n_setup);
    if (status == MSI_OK) status = exchange(f, p, all, n_all);
    for (int k = 0; k < p->n_part && status == MSI_OK; k++) status = append_bytes(&sum, all[k], n_all[k], set);
    if (status == MSI_OK) {
        free_row_index(f);
        *f = sum;
        sum = (msi_ms_found){0};
        sort_times(&f->all);
        sort_times(&f->selected);
    }
    free_row_index(&sum);
    msi_free(all);
    msi_free(n_all);
    return status;
}

/* Select the channels of each spectral setup, in ascending order of frequency. */

typedef struct channel {
    double freq_hz, width_hz;
    int32_t index;
} channel;

static int compare_channels(const void *a, const void *b)
{
    const channel *x = a, *y = b;
    if (x->freq_hz != y->freq_hz) return x->freq_hz < y->freq_hz ? -1 : 1;
    return x->index - y->index;
}

static int in_ranges(const ccc_chan_range *ranges, int64_t n_range, int spw, int32_t index)
{
    if (n_range == 0) return 1;
    for (int64_t i = 0; i < n_range; i++) {
        const ccc_chan_range *r = &ranges[i];
        const int32_t step = r->step > 0 ? r->step : 1;
        if (r->spw_id == spw && index >= r->begin && index <= r->last && (index - r->begin) % step == 0) return 1;
    }
    return 0;
}

static int check_frequencies(const msi_ms_set *set, int spw)
{
    const msi_ms_window *w = &set->window[spw];
    if (w->n_chan < 1)
        return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: column CHAN_FREQ, row %d: has no channel", set->path,
                             spw);
    for (int32_t i = 0; i < w->n_chan; i++)
        if (!isfinite(w->freq_hz[i]) || w->freq_hz[i] <= 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s/SPECTRAL_WINDOW: column CHAN_FREQ, row %d: channel %d: %g Hz is not a frequency",
                                 set->path, spw, i, w->freq_hz[i]);
    return MSI_OK;
}

/* Fill the setup from its selected channels, in ascending order. */
static int store(msi_ms_setup *s, const channel *chosen, int32_t n)
{
    s->n_chan = n;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_alloc(&s->chan_index, n, sizeof *s->chan_index, "channels"));
    MSI_TRY(msi_alloc(&s->freq_hz, n, sizeof *s->freq_hz, "channels"));
    MSI_TRY(msi_alloc(&s->width_hz, n, sizeof *s->width_hz, "channels"));
    MSI_TRY(msi_alloc(&s->inverse_lambda2, n, sizeof *s->inverse_lambda2, "channels"));
    int32_t first = chosen[0].index, last = first;
    s->is_identity = 1;
    for (int32_t i = 0; i < n; i++) {
        s->chan_index[i] = chosen[i].index;
        s->freq_hz[i] = chosen[i].freq_hz;
        s->width_hz[i] = chosen[i].width_hz;
        s->inverse_lambda2[i] = pow(chosen[i].freq_hz / MSI_SPEED_OF_LIGHT, 2);
        if (chosen[i].index < first) first = chosen[i].index;
        if (chosen[i].index > last) last = chosen[i].index;
        if (chosen[i].index != chosen[0].index + i) s->is_identity = 0;
    }
    s->span_first = first;
    s->n_span = last - first + 1;
    s->block_rows = MSI_MS_BLOCK_SAMPLES / ((int64_t)s->n_corr * s->n_span);
    if (s->block_rows < 1) s->block_rows = 1;
    if (s->block_rows > MSI_MS_BLOCK_ROWS) s->block_rows = MSI_MS_BLOCK_ROWS;
    return MSI_OK;
}

/* Select the channels of one spectral window, for every setup that uses it. *counted and *n_selected are the numbers of
 * channels of earlier windows that were counted, and that were selected. */
static int select_window(msi_ms_set *set, const msi_ms_selection *selection, const ccc_chan_range *ranges,
                         int64_t n_range, int spw, int64_t *counted, int64_t *n_selected)
{
    const msi_ms_window *w = &set->window[spw];
    MSI_TRY(check_frequencies(set, spw));
    channel *all = NULL;
    MSI_TRY(msi_alloc(&all, w->n_chan, sizeof *all, "channels"));
    for (int32_t i = 0; i < w->n_chan; i++) all[i] = (channel){w->freq_hz[i], w->width_hz[i], i};
    qsort(all, (size_t)w->n_chan, sizeof *all, compare_channels);
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_chan; i++) {
        const int64_t number = *counted + i;
        if (selection->channel_end > 0 && (number < selection->channel_begin || number >= selection->channel_end))
            continue;
        if (in_ranges(ranges, n_range, spw, all[i].index)) all[n++] = all[i];
    }
    *counted += w->n_chan;
    *n_selected += n;
    int status = MSI_OK;
    for (int i = 0; i < set->n_setup && status == MSI_OK; i++)
        if (set->setup[i].spw_id == spw && set->setup[i].n_row > 0) status = store(&set->setup[i], all, n);
    msi_free(all);
    return status;
}

/*
 * Find the channels of setups that have selected rows. A setup without selected channels loses its rows.
 * Given:   ranges [n_range] of an MSSelection; n_range may be 0
 * Returns: 0, MSI_EINPUT (a frequency is not finite, or is not positive; no channel is selected), MSI_ENOMEM
 */
static int select_channels(msi_ms_set *set, const msi_ms_selection *selection, const ccc_chan_range *ranges,
                           int64_t n_range)
{
    int64_t counted = 0, n_selected = 0;
    /* Count the channels of windows without rows at the selected times too, so that channels have the same numbers in
     * all intervals. */
    for (int spw = 0; spw < set->n_window; spw++) {
        int in_use = 0;
        for (int i = 0; i < set->n_setup; i++) in_use |= set->setup[i].spw_id == spw && set->setup[i].is_used;
        if (in_use) MSI_TRY(select_window(set, selection, ranges, n_range, spw, &counted, &n_selected));
    }
    if (selection->channel_end > counted || (selection->channel_end > 0 && selection->channel_begin < 0))
        return msi_error_about(
            msi_error_set(
                MSI_EINPUT, "%s: channels %lld to %lld (end not included) do not exist; the end is at most %lld",
                set->path, (long long)selection->channel_begin, (long long)selection->channel_end, (long long)counted),
            "channel");
    if (n_selected == 0) return msi_error_set(MSI_EINPUT, "%s: no channel is selected", set->path);
    return MSI_OK;
}

/* Select rows and channels of a Measurement Set, and check its index columns. */

enum { INDEX_ROWS = 16384 };

/* Limit of CPU time, in seconds per row, for one of casacore's selections. They take about 1e-6. */
static const double SELECTION_ROW_S = 2e-5;

/* Index columns of a range of rows. */
typedef struct index_block {
    int32_t ddid[INDEX_ROWS], field[INDEX_ROWS], antenna1[INDEX_ROWS], antenna2[INDEX_ROWS];
    double time_s[INDEX_ROWS];
} index_block;

/* Criteria by which rows are selected. */
typedef struct row_filter {
    uint8_t *setup; /* [n_setup] 1: wanted */
    uint8_t *field; /* [n_field] 1: wanted */
    double first_s, last_s;
    /* [n_step] all times, ascending, if every second one is selected; owned; NULL: all times are selected */
    double *step_s;
    int64_t n_step;
    int is_odd;            /* 1: select every second time, beginning with the second one */
    const int64_t *listed; /* row numbers, ascending; NULL: all rows */
    int64_t n_listed, next_listed;
} row_filter;

static int read_times(const msi_ms_set *set, int64_t row, int64_t n, double *time_s)
{
    MSI_TRY(msi_ms_set_scalar(set, MSI_MS_TIME, row, n, row + n, time_s));
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(time_s[i]))
            return msi_error_set(MSI_EINPUT,
                                 "%s: column TIME, row %lld: the value is not finite; repair or remove the row",
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
        MSI_TRY(add_times(&found->all, set->store->file->time_s, set->store->file->header->n_time));
        return gather_row_index(found, set, NULL);
    }
    if (set->uv) {
        MSI_TRY(add_times(&found->all, msi_uv_set_times(set->uv), set->uv->n_group));
        return gather_row_index(found, set, NULL);
    }
    for (part_of_rows(set, partners, &row, &end); row < end; row += INDEX_ROWS) {
        const int64_t n = least(end - row, INDEX_ROWS);
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(read_times(set, row, n, b->time_s));
        MSI_TRY(add_times(&found->all, b->time_s, n));
    }
    return gather_row_index(found, set, partners);
}

/* Find the first and last TIME of the selected time steps. A set with fewer times than others may have no rows in the
 * last intervals. */
static int interval_times(const msi_ms_set *set, const msi_ms_selection *selection, index_block *b,
                          const msi_ms_partners *partners, row_filter *filter)
{
    const int64_t begin = selection->interval_begin;
    int64_t end = selection->interval_end;
    msi_ms_found found;
    int status = make_row_index(&found, set->n_setup);
    if (status == MSI_OK) status = list_times(set, b, partners, &found);
    const msi_ms_times times = found.all;
    if (!end) end = times.n;
    if (selection->may_be_empty && end > times.n) end = begin < times.n ? times.n : begin;
    if (status == MSI_OK && selection->may_be_empty && begin == end) {
        filter->first_s = INFINITY;
        filter->last_s = -INFINITY;
    } else if (status == MSI_OK && (begin < 0 || begin >= end || end > times.n)) {
        status = msi_error_about(
            msi_error_set(MSI_EINPUT,
                          "%s: timesteps %lld to %lld (end not included) do not exist; the end is at most %lld",
                          set->path, (long long)begin, (long long)end, (long long)times.n),
            "timestep");
    } else if (status == MSI_OK) {
        filter->first_s = times.time_s[begin];
        filter->last_s = times.time_s[end - 1];
        if (selection->steps) {
            filter->step_s = times.time_s;
            filter->n_step = times.n;
            filter->is_odd = selection->steps == MSI_MS_ODD_STEPS;
            found.all.time_s = NULL;
        }
    }
    free_row_index(&found);
    return status;
}

/* Return the index of the first number outside [0, limit); n if all are inside. */
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
        msi_ms_scalar column;
        const char *name;
        int32_t *values;
        int64_t limit;
        const char *table;
    } ids[] = {{MSI_MS_DATA_DESC_ID, "DATA_DESC_ID", b->ddid, set->n_setup, "DATA_DESCRIPTION"},
               {MSI_MS_FIELD_ID, "FIELD_ID", b->field, set->n_field, "FIELD"},
               {MSI_MS_ANTENNA1, "ANTENNA1", b->antenna1, set->n_antenna, "ANTENNA"},
               {MSI_MS_ANTENNA2, "ANTENNA2", b->antenna2, set->n_antenna, "ANTENNA"}};
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        MSI_TRY(msi_ms_set_scalar(set, ids[k].column, row, n, row + n, ids[k].values));
        const int64_t at = find_outside(ids[k].values, n, ids[k].limit);
        if (at < n)
            return msi_error_set(
                MSI_EINPUT, "%s: column %s, row %lld: %d, but %s has %lld rows; repair or remove the row", set->path,
                ids[k].name, (long long)row + at, ids[k].values[at], ids[k].table, (long long)ids[k].limit);
    }
    return read_times(set, row, n, b->time_s);
}

static int is_listed(row_filter *f, int64_t row)
{
    if (!f->listed) return 1;
    while (f->next_listed < f->n_listed && f->listed[f->next_listed] < row) f->next_listed++;
    return f->next_listed < f->n_listed && f->listed[f->next_listed] == row;
}

/* Return 1 if a time step is selected. */
static int is_selected_time(const row_filter *f, double time_s)
{
    int64_t low = 0, high = f->n_step;
    if (time_s < f->first_s || time_s > f->last_s) return 0;
    if (!f->step_s) return 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (f->step_s[middle] < time_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low % 2 == f->is_odd;
}

/* Rows that are being selected. */
typedef struct row_scan {
    const msi_ms_set *set;
    row_filter *filter;
    msi_ms_found found;
} row_scan;

/* Select consecutive rows of one time. If rows are listed, check each of them. */
static int take_rows(row_scan *s, const msi_ms_run *r, double time_s)
{
    row_filter *f = s->filter;
    if (!f->setup[r->data_desc_id] || !f->field[r->field_id] || !is_listed(f, r->row)) return MSI_OK;
    s->found.is_used[r->data_desc_id] = 1;
    if (!is_selected_time(f, time_s)) return MSI_OK;
    MSI_TRY(add_rows(&s->found, r));
    msi_ms_row_times_count(&s->found.row_times, time_s, (double)r->n_row);
    return add_times(&s->found.selected, &time_s, 1);
}

/* Return the end of the consecutive rows, from `first` on, with the same time, field and data description. If rows are
 * listed, it is first + 1. */
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
    part_of_rows(s->set, partners, &begin, &end_row);
    for (int64_t row = begin; row < end_row; row += INDEX_ROWS) {
        const int64_t n = least(end_row - row, INDEX_ROWS);
        MSI_TRY(msi_interrupt_check());
        msi_progress_at(row - begin, end_row - begin);
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(read_index(s->set, row, n, b));
        MSI_TRY(add_times(&s->found.all, b->time_s, n));
        for (int64_t i = 0, end; i < n; i = end) {
            end = end_of_alike(s, b, i, n);
            const msi_ms_run alike = {row + i, end - i, b->ddid[i], b->field[i]};
            MSI_TRY(take_rows(s, &alike, b->time_s[i]));
        }
    }
    return gather_row_index(&s->found, s->set, partners);
}

static int scan_store(row_scan *s)
{
    const msi_msv_file *f = s->set->store->file;
    for (int64_t i = 0; i < f->header->n_run; i++) {
        const msi_msv_run *r = &f->run[i];
        const msi_ms_run rows = {r->row, r->n_row, r->data_desc_id, r->field_id};
        MSI_TRY(take_rows(s, &rows, f->time_s[r->time]));
    }
    MSI_TRY(add_times(&s->found.all, f->time_s, f->header->n_time));
    return gather_row_index(&s->found, s->set, NULL);
}

/* A group of a UVFITS or FITS-IDI file makes one row for each window. */
static int scan_uv(row_scan *s)
{
    const msi_uv_set *uv = s->set->uv;
    const double *time_s = msi_uv_set_times(uv);
    for (int64_t g = 0; g < uv->n_group; g++) {
        if (g % INDEX_ROWS == 0) {
            MSI_TRY(msi_interrupt_check());
            msi_child_progress(MSI_CHILD_STEP_S);
        }
        for (int i = 0; i < uv->n_if; i++) {
            const msi_ms_run row = {g * uv->n_if + i, 1, msi_uv_set_settings(uv)[g] + i, msi_uv_set_sources(uv)[g]};
            MSI_TRY(take_rows(s, &row, time_s[g]));
        }
    }
    MSI_TRY(add_times(&s->found.all, time_s, uv->n_group));
    return gather_row_index(&s->found, s->set, NULL);
}

static int scan_rows(msi_ms_set *set, const msi_ms_selection *selection, row_filter *f, index_block *b,
                     const msi_ms_partners *partners)
{
    row_scan s = {.set = set, .filter = f};
    int status = make_row_index(&s.found, set->n_setup);
    if (status == MSI_OK) status = set->store ? scan_store(&s) : set->uv ? scan_uv(&s) : scan_table(&s, b, partners);
    if (status == MSI_OK) {
        const msi_ms_times *selected = &s.found.selected;
        set->n_time = s.found.all.n;
        set->n_selected_time = selected->n;
        set->start_mjd_s = selected->n > 0 ? selected->time_s[0] : INFINITY;
        set->end_mjd_s = selected->n > 0 ? selected->time_s[selected->n - 1] : -INFINITY;
        for (int i = 0; i < set->n_setup; i++) set->setup[i].is_used |= s.found.is_used[i];
        set->run = s.found.run;
        set->n_run = s.found.n_run;
        set->row_times = s.found.row_times;
        s.found.run = NULL;
        if (selection->spectral_frame) status = msi_ms_set_keep_minutes(set, selected->time_s, selected->n);
    }
    free_row_index(&s.found);
    return status;
}

/* Remove the rows from the first list that are not in the second. Both are ascending. Returns the number left. */
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
            return msi_error_about(
                msi_error_set(MSI_EINPUT, "%s: has no %s %d; it has 0 to %d", set->path, what, ids[i], n - 1), what);
        wanted[ids[i]] = 1;
    }
    return MSI_OK;
}

/* Write the list of fields that have rows, such as "0, 2", for the error that no row is selected. */
static void fields_with_rows(const msi_ms_set *set, index_block *b, char *text, size_t size)
{
    size_t used = 0;
    int last = -1;
    text[0] = 0;
    uint8_t *seen = NULL;
    if (msi_alloc(&seen, set->n_field, 1, "fields") != MSI_OK) return;
    const msi_msv_file *f = set->store ? set->store->file : NULL;
    for (int64_t i = 0; f && i < f->header->n_run; i++) seen[f->run[i].field_id] = 1;
    for (int64_t g = 0; set->uv && g < set->uv->n_group; g++) seen[msi_uv_set_sources(set->uv)[g]] = 1;
    for (int64_t row = 0; set->table && row < set->n_table_row; row += INDEX_ROWS) {
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

/* Find the rows that MSSelection and TaQL select; *rows is NULL if neither is given. */
static int listed_rows(msi_ms_set *set, const msi_ms_selection *s, int64_t **rows, int64_t *n_row,
                       ccc_chan_range **ranges, int64_t *n_range)
{
    *rows = NULL;
    *ranges = NULL;
    *n_row = *n_range = 0;
    msi_child_progress(MSI_CHILD_STEP_S + SELECTION_ROW_S * (double)set->n_table_row);
    const ccc_ms_expressions e = {.field = s->mssel[MSI_MSSEL_FIELD],
                                  .spw = s->mssel[MSI_MSSEL_SPW],
                                  .antenna = s->mssel[MSI_MSSEL_ANTENNA],
                                  .uvrange = s->mssel[MSI_MSSEL_UVRANGE],
                                  .time = s->mssel[MSI_MSSEL_TIME],
                                  .scan = s->mssel[MSI_MSSEL_SCAN],
                                  .observation = s->mssel[MSI_MSSEL_OBSERVATION],
                                  .intent = s->mssel[MSI_MSSEL_INTENT]};
    if (msi_ms_has_expression(s)) MSI_CCC(ccc_ms_select(set->table, &e, rows, n_row, ranges, n_range));
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

/* Fail unless a column's cells have the shape given by the subtables. The first row of each setup is checked. */
static int check_shapes(msi_ms_set *set, const char *column)
{
    for (int i = 0; *column && i < set->n_setup && set->table; i++) {
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
            return msi_error_set(MSI_EINPUT, "%s/FIELD: column PHASE_DIR, row %d: the phase centre is not finite",
                                 set->path, i);
        if (f->n_row > 0 && fabs(f->dec_rad) > MSI_PI / 2 + 1e-9)
            return msi_error_set(MSI_EINPUT,
                                 "%s/FIELD: column PHASE_DIR, row %d: a declination of %.6g degrees; repair the row",
                                 set->path, i, f->dec_rad * 180 / MSI_PI);
    }
    return MSI_OK;
}

/* Count rows by setup and field. With by_channels, drop rows of setups without selected channels. */
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

/* If a set has no selected rows, give it the times of the interval, if there is one. Fail if the set must have rows. */
static int take_empty(msi_ms_set *set, const msi_ms_selection *selection, const row_filter *filter, index_block *block)
{
    char text[128];
    if (selection->may_be_empty) {
        const int has_interval = selection->interval_begin > 0 || selection->interval_end > 0;
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
    const int any_field = selection->all_fields || selection->mssel[MSI_MSSEL_FIELD];
    const int *fields = selection->n_field > 0 ? selection->fields : &field_0;
    status = wanted_ids(set, "field", any_field, fields, selection->n_field > 0 ? selection->n_field : 1, filter.field,
                        set->n_field);
    if (status != MSI_OK) goto out;
    if ((status = listed_rows(set, selection, &rows, &n_row, &ranges, &n_range)) != MSI_OK) goto out;
    filter.listed = rows;
    filter.n_listed = n_row;
    if (selection->interval_begin > 0 || selection->interval_end > 0 || selection->steps) {
        status = interval_times(set, selection, block, partners, &filter);
        if (status != MSI_OK) goto out;
    }
    if ((status = scan_rows(set, selection, &filter, block, partners)) != MSI_OK) goto out;
    count_rows(set, 0);
    if (set->n_row > 0) {
        status = select_channels(set, selection, ranges, n_range);
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
    msi_free(filter.step_s);
    ccc_free(rows);
    ccc_free(ranges);
    return status;
}
