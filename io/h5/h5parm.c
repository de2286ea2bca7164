/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A child process (h5_apart.h) reads each table of an H5Parm file and puts a head and the arrays in the order of
 * `arrays`. This process checks the head, and copies the arrays.
 */
#include "io/h5/h5parm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/h5/h5_apart.h"
#include "io/h5/h5parm_file.h"

/* The tables to read, and where to store them. */
typedef struct request {
    const char *names; /* names of tables, separated by commas */
    int n_table;
    msi_h5parm *out;
} request;

/* The part of a table that is not in arrays. */
typedef struct head {
    msi_h5_text name;
    int32_t kind, has_dir, has_ant;
    int64_t n_dir, n_time, n_freq, n_ant, n_pol;
} head;

typedef struct array {
    void **at;
    int64_t n;
    size_t size;
} array;

enum { N_ARRAY = 6 };

/* List the arrays of a table. Returned: bytes of all */
static int64_t list_arrays(msi_solution_table *t, array list[N_ARRAY])
{
    const array all[N_ARRAY] = {
        {(void **)&t->time_s, t->n_time, sizeof *t->time_s},
        {(void **)&t->freq_hz, t->n_freq, sizeof *t->freq_hz},
        {(void **)&t->dir_rad, t->n_dir, sizeof *t->dir_rad},
        {(void **)&t->dir, t->n_dir, sizeof *t->dir},
        {(void **)&t->ant, t->n_ant, sizeof *t->ant},
        {(void **)&t->value, t->n_dir * t->n_time * t->n_freq * t->n_ant * t->n_pol, sizeof *t->value}};
    int64_t bytes = 0;
    memcpy(list, all, sizeof all);
    for (int i = 0; i < N_ARRAY; i++) bytes += all[i].n * (int64_t)all[i].size;
    return bytes;
}

/* ---- The child ---- */

static int put_table(int fd, msi_solution_table *t)
{
    array list[N_ARRAY];
    const head h = {t->name,   (int32_t)t->kind, t->has_dir, t->has_ant, t->n_dir,
                    t->n_time, t->n_freq,        t->n_ant,   t->n_pol};
    MSI_TRY(msi_h5_put(fd, &h, sizeof h));
    list_arrays(t, list);
    for (int i = 0; i < N_ARRAY; i++) MSI_TRY(msi_h5_put(fd, *list[i].at, list[i].n * (int64_t)list[i].size));
    return MSI_OK;
}

static int put_tables(int fd, const char *path, void *of)
{
    const request *q = of;
    char copy[1024], *rest;
    snprintf(copy, sizeof copy, "%.1000s", q->names);
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        msi_solution_table t;
        msi_child_progress(MSI_H5_STEP_S);
        int rc = msi_h5parm_file_read(&t, path, name);
        if (!rc) rc = put_table(fd, &t);
        msi_solution_table_free(&t);
        MSI_TRY(rc);
    }
    return MSI_OK;
}

/* ---- This process ---- */

/* Copy a table from the child's output. Given and returned: *at. Returns: as msi_h5parm_read */
static int take_table(msi_solution_table *t, const char *path, const char *bytes, int64_t n_byte, int64_t *at)
{
    static const char WRONG[] = "%s: truncated or corrupt: the process that reads it returned impossible sizes";
    array list[N_ARRAY];
    head h;
    *t = (msi_solution_table){0};
    if (n_byte - *at < (int64_t)sizeof h) return msi_error_set(MSI_EINPUT, WRONG, path);
    memcpy(&h, bytes + *at, sizeof h);
    *at += (int64_t)sizeof h;
    const int64_t n[] = {h.n_dir, h.n_time, h.n_freq, h.n_ant, h.n_pol};
    int64_t product = 1;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        if (n[i] < 1 || n[i] > n_byte || product > n_byte / n[i]) return msi_error_set(MSI_EINPUT, WRONG, path);
        product *= n[i];
    }
    if (h.kind < 0 || h.kind > MSI_SOLUTION_ROTATION_MEASURE || h.n_pol == 3 || h.n_pol > 4)
        return msi_error_set(MSI_EINPUT, WRONG, path);
    *t = (msi_solution_table){.name = h.name,
                              .kind = (msi_solution_kind)h.kind,
                              .has_dir = h.has_dir,
                              .has_ant = h.has_ant,
                              .n_dir = h.n_dir,
                              .n_time = h.n_time,
                              .n_freq = h.n_freq,
                              .n_ant = h.n_ant,
                              .n_pol = h.n_pol};
    t->name.text[sizeof t->name.text - 1] = 0;
    if (list_arrays(t, list) > n_byte - *at) return msi_error_set(MSI_EINPUT, WRONG, path);
    for (int i = 0; i < N_ARRAY; i++) {
        MSI_TRY(msi_alloc(list[i].at, list[i].n, list[i].size, "solutions"));
        memcpy(*list[i].at, bytes + *at, (size_t)list[i].n * list[i].size);
        *at += list[i].n * (int64_t)list[i].size;
    }
    for (int64_t i = 0; i < t->n_dir; i++) t->dir[i].text[sizeof t->dir[i].text - 1] = 0;
    for (int64_t i = 0; i < t->n_ant; i++) t->ant[i].text[sizeof t->ant[i].text - 1] = 0;
    return MSI_OK;
}

static int take_tables(void *of, const char *path, const char *bytes, int64_t n_byte)
{
    const request *q = of;
    msi_h5parm *out = q->out;
    int64_t at = 0;
    int rc = msi_alloc(&out->table, q->n_table, sizeof *out->table, "solutions");
    while (!rc && out->n_table < q->n_table) rc = take_table(&out->table[out->n_table++], path, bytes, n_byte, &at);
    return rc;
}

/* Count the tables of a list. */
static int count_tables(const char *names, int *n)
{
    *n = 0;
    for (const char *at = names; *at;) {
        const size_t length = strcspn(at, ",");
        *n += length > 0;
        at += length + (at[length] != 0);
    }
    if (*n >= 1 && *n <= MSI_H5_MOST_TABLES && strlen(names) < 1000) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "solution tables \"%.100s\": give 1 to %d names, separated by commas", names,
                         MSI_H5_MOST_TABLES);
}

int msi_h5parm_read(msi_h5parm *out, const char *path, const char *names)
{
    request q = {.names = names, .out = out};
    *out = (msi_h5parm){0};
    MSI_TRY(count_tables(names, &q.n_table));
    const int rc = msi_h5_apart(path, put_tables, take_tables, &q);
    if (rc) msi_h5parm_free(out);
    return rc;
}

void msi_h5parm_free(msi_h5parm *h)
{
    for (int i = 0; i < h->n_table; i++) msi_solution_table_free(&h->table[i]);
    msi_free(h->table);
    *h = (msi_h5parm){0};
}
