/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_groups.h"

#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_child.h"

/* ---- Columns ---- */

static int read_column(const msi_ms_reader *r, const char *name, ccc_type type, void *out, int64_t n_element)
{
    ccc_table *t = r->set[0].table;
    const int64_t n_row = r->set[0].n_table_row;
    return msi_set_read(ccc_get_range(t, name, 0, n_row, NULL, type, out, n_row * n_element));
}

int msi_uvfits_rows_read(msi_uvfits_rows *rows, const msi_ms_reader *r)
{
    const int64_t n = r->set[0].n_table_row;
    *rows = (msi_uvfits_rows){.n_row = n};
    MSI_TRY(msi_alloc(&rows->time_s, n, sizeof *rows->time_s, "times of rows"));
    MSI_TRY(msi_alloc(&rows->exposure_s, n, sizeof *rows->exposure_s, "exposures of rows"));
    MSI_TRY(msi_alloc(&rows->uvw_m, 3 * n, sizeof *rows->uvw_m, "u, v, w of rows"));
    MSI_TRY(msi_alloc(&rows->antenna1, n, sizeof *rows->antenna1, "antennas of rows"));
    MSI_TRY(msi_alloc(&rows->antenna2, n, sizeof *rows->antenna2, "antennas of rows"));
    MSI_TRY(msi_alloc(&rows->field, n, sizeof *rows->field, "fields of rows"));
    MSI_TRY(msi_alloc(&rows->data_desc, n, sizeof *rows->data_desc, "setups of rows"));
    MSI_TRY(msi_alloc(&rows->flag_row, n, sizeof *rows->flag_row, "flags of rows"));
    MSI_TRY(read_column(r, "TIME", CCC_DOUBLE, rows->time_s, 1));
    MSI_TRY(read_column(r, "EXPOSURE", CCC_DOUBLE, rows->exposure_s, 1));
    MSI_TRY(read_column(r, "UVW", CCC_DOUBLE, rows->uvw_m, 3));
    MSI_TRY(read_column(r, "ANTENNA1", CCC_INT32, rows->antenna1, 1));
    MSI_TRY(read_column(r, "ANTENNA2", CCC_INT32, rows->antenna2, 1));
    MSI_TRY(read_column(r, "FIELD_ID", CCC_INT32, rows->field, 1));
    MSI_TRY(read_column(r, "DATA_DESC_ID", CCC_INT32, rows->data_desc, 1));
    return read_column(r, "FLAG_ROW", CCC_BOOL, rows->flag_row, 1);
}

void msi_uvfits_rows_free(msi_uvfits_rows *rows)
{
    msi_free(rows->time_s);
    msi_free(rows->exposure_s);
    msi_free(rows->uvw_m);
    msi_free(rows->antenna1);
    msi_free(rows->antenna2);
    msi_free(rows->field);
    msi_free(rows->data_desc);
    msi_free(rows->flag_row);
    *rows = (msi_uvfits_rows){0};
}

/* ---- Groups ---- */

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* Order rows by time, antennas and field, but for those in the order of the set. */
static int compare_keys(const msi_uvfits_rows *r, int64_t i, int64_t k)
{
    int by = compare_numbers(r->time_s[i], r->time_s[k]);
    if (!by) by = compare_numbers(r->antenna1[i], r->antenna1[k]);
    if (!by) by = compare_numbers(r->antenna2[i], r->antenna2[k]);
    return by ? by : compare_numbers(r->field[i], r->field[k]);
}

static int compare_rows(const void *a, const void *b, void *of)
{
    const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    const int by = compare_keys(of, i, k);
    return by ? by : (i > k) - (i < k);
}

/* Averages of windows with other flags differ in u, v, w; what single precision cannot tell apart is one. */
static int have_same_uvw(const msi_uvfits_rows *r, int64_t i, int64_t k)
{
    const double *p = r->uvw_m + 3 * i, *q = r->uvw_m + 3 * k;
    const double length_m = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    for (int a = 0; a < 3; a++)
        if (fabs(p[a] - q[a]) > 0x1p-24 * length_m) return 0;
    return 1;
}

static void assign(msi_uvfits_groups *g, const msi_uvfits_rows *r, const int64_t *order, const int32_t *place,
                   int64_t *taken)
{
    int64_t leader = -1;
    for (int64_t i = 0; i < r->n_row; i++) {
        const int64_t row = order[i];
        const int32_t at = place[r->data_desc[row]];
        g->leads[row] = leader < 0 || compare_keys(r, leader, row) != 0 || taken[at] == g->n_group ||
                        !have_same_uvw(r, leader, row);
        if (g->leads[row]) {
            leader = row;
            g->n_group++;
        }
        taken[at] = g->n_group;
        g->group[row] = g->n_group - 1;
    }
}

int msi_uvfits_groups_make(msi_uvfits_groups *g, const msi_uvfits_rows *rows, const int32_t *place, int32_t n_window)
{
    int64_t *order = NULL, *taken = NULL; /* taken[place]: the number of groups when it was last filled */
    *g = (msi_uvfits_groups){0};
    MSI_TRY(msi_alloc(&g->group, rows->n_row, sizeof *g->group, "groups of rows"));
    MSI_TRY(msi_alloc(&g->leads, rows->n_row, sizeof *g->leads, "groups of rows"));
    int status = msi_alloc(&order, rows->n_row, sizeof *order, "order of rows");
    if (!status) status = msi_alloc(&taken, n_window, sizeof *taken, "windows of a group");
    if (!status) {
        /* Sorting takes a row some microseconds. */
        static const double ROW_S = 1e-4;
        msi_child_progress(MSI_CHILD_STEP_S + ROW_S * (double)rows->n_row);
        for (int64_t i = 0; i < rows->n_row; i++) order[i] = i;
        qsort_r(order, (size_t)rows->n_row, sizeof *order, compare_rows, (void *)rows);
        assign(g, rows, order, place, taken);
    }
    msi_free(order);
    msi_free(taken);
    return status;
}

void msi_uvfits_groups_free(msi_uvfits_groups *g)
{
    msi_free(g->group);
    msi_free(g->leads);
    *g = (msi_uvfits_groups){0};
}
