/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_found.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_pass.h"

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

int msi_ms_times_add(msi_ms_times *t, const double *time_s, int64_t n)
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

int msi_ms_found_make(msi_ms_found *f, int n_setup)
{
    *f = (msi_ms_found){.n_setup = n_setup};
    return msi_alloc(&f->is_used, n_setup, 1, "data descriptions");
}

int msi_ms_found_add(msi_ms_found *f, const msi_ms_run *rows)
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

void msi_ms_found_free(msi_ms_found *f)
{
    msi_free(f->all.time_s);
    msi_free(f->selected.time_s);
    msi_free(f->run);
    msi_free(f->is_used);
    *f = (msi_ms_found){0};
}

/* ---- Parts ---- */

void msi_ms_found_part(const msi_ms_set *set, const msi_ms_partners *p, int64_t *begin, int64_t *end)
{
    const int64_t n = set->n_table_row, n_part = p ? p->n_part : 1, part = p ? p->part : 0;
    *begin = n / n_part * part + n % n_part * part / n_part;
    *end = n / n_part * (part + 1) + n % n_part * (part + 1) / n_part;
}

/* Go over all that a process has found, in either direction. */
static int pass(msi_ms_cursor *c, msi_ms_found *f, int *is_whole)
{
    int64_t head[] = {f->all.n, f->selected.n, f->n_run, f->n_setup};
    *is_whole = msi_ms_pass(c, head, sizeof head);
    if (*is_whole) MSI_TRY(msi_ms_pass_array(c, &f->all.time_s, head[0], sizeof *f->all.time_s, is_whole));
    if (*is_whole) MSI_TRY(msi_ms_pass_array(c, &f->selected.time_s, head[1], sizeof *f->selected.time_s, is_whole));
    if (*is_whole) MSI_TRY(msi_ms_pass_array(c, &f->run, head[2], sizeof *f->run, is_whole));
    if (*is_whole) MSI_TRY(msi_ms_pass_array(c, &f->is_used, head[3], sizeof *f->is_used, is_whole));
    if (*is_whole && c->from) {
        f->all.n = head[0];
        f->selected.n = head[1];
        f->n_run = head[2];
        f->n_setup = head[3];
    }
    return MSI_OK;
}

/* Append what another process has found, whose rows lie behind those before. */
static int append(msi_ms_found *sum, const msi_ms_found *f, const msi_ms_set *set, int *is_sound)
{
    *is_sound = f->n_setup == sum->n_setup;
    for (int64_t i = 0; i < f->n_run && *is_sound; i++) {
        const msi_ms_run *r = &f->run[i], *last = sum->n_run > 0 ? &sum->run[sum->n_run - 1] : NULL;
        *is_sound = r->row >= (last ? last->row + last->n_row : 0) && r->n_row > 0 &&
                    r->n_row <= set->n_table_row - r->row && r->data_desc_id >= 0 && r->data_desc_id < set->n_setup &&
                    r->field_id >= 0 && r->field_id < set->n_field;
        if (*is_sound) MSI_TRY(msi_ms_found_add(sum, r));
    }
    for (int64_t i = 0; i < f->all.n && *is_sound; i++) *is_sound = isfinite(f->all.time_s[i]);
    for (int64_t i = 0; i < f->selected.n && *is_sound; i++) *is_sound = isfinite(f->selected.time_s[i]);
    if (!*is_sound) return MSI_OK;
    for (int64_t i = 0; i < f->n_setup; i++) sum->is_used[i] |= f->is_used[i] != 0;
    MSI_TRY(msi_ms_times_add(&sum->all, f->all.time_s, f->all.n));
    return msi_ms_times_add(&sum->selected, f->selected.time_s, f->selected.n);
}

static int append_bytes(msi_ms_found *sum, const char *bytes, int64_t n, const msi_ms_set *set)
{
    msi_ms_found f = {0};
    msi_ms_cursor c = {.from = bytes, .n = n};
    int is_whole, is_sound = 0;
    int status = pass(&c, &f, &is_whole);
    if (status == MSI_OK && is_whole) status = append(sum, &f, set, &is_sound);
    msi_ms_found_free(&f);
    if (status == MSI_OK && !is_sound)
        status = msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: a process that reads it has found what cannot be",
                               set->path);
    return status;
}

/* Give the partners what was found. Returned: all, n_all  of each. */
static int exchange(msi_ms_found *f, const msi_ms_partners *p, const char **all, int64_t *n_all)
{
    char *bytes;
    int is_whole;
    msi_ms_cursor c = {0};
    MSI_TRY(pass(&c, f, &is_whole));
    MSI_TRY(msi_alloc(&bytes, c.at, 1, "what a part of a set holds"));
    const int64_t n = c.at;
    c = (msi_ms_cursor){.to = bytes};
    int status = pass(&c, f, &is_whole);
    if (status == MSI_OK) status = p->exchange(p->of, bytes, n, all, n_all);
    msi_free(bytes);
    return status;
}

int msi_ms_found_gather(msi_ms_found *f, const msi_ms_set *set, const msi_ms_partners *p)
{
    const char **all = NULL;
    int64_t *n_all = NULL;
    msi_ms_found sum = {0};
    int status = MSI_OK;
    sort_times(&f->all);
    sort_times(&f->selected);
    if (!p || p->n_part < 2) return MSI_OK;
    status = msi_alloc(&all, p->n_part, sizeof *all, "what parts of a set hold");
    if (status == MSI_OK) status = msi_alloc(&n_all, p->n_part, sizeof *n_all, "what parts of a set hold");
    if (status == MSI_OK) status = msi_ms_found_make(&sum, (int)f->n_setup);
    if (status == MSI_OK) status = exchange(f, p, all, n_all);
    for (int k = 0; k < p->n_part && status == MSI_OK; k++) status = append_bytes(&sum, all[k], n_all[k], set);
    if (status == MSI_OK) {
        msi_ms_found_free(f);
        *f = sum;
        sum = (msi_ms_found){0};
        sort_times(&f->all);
        sort_times(&f->selected);
    }
    msi_ms_found_free(&sum);
    msi_free(all);
    msi_free(n_all);
    return status;
}
