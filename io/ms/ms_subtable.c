/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_subtable.h"

#include <stdio.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"

int msi_ms_subtable_check(const ccc_table *t)
{
    const char *path = ccc_table_path(t);
    const int64_t n = ccc_table_n_row(t), bytes = msi_ms_paths_bytes(&path, 1);
    if (n <= bytes) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s/table.dat (%lld rows, but %lld bytes of files)", path,
                         (long long)n, (long long)bytes);
}

int msi_ms_subtable_open(msi_ms_set *set, const char *name, ccc_table **out)
{
    const int status = ccc_subtable_open(out, set->table, name);
    if (status == CCC_ENOTFOUND)
        return msi_error_set(MSI_EINPUT, "%s: subtable %s is missing: not a complete Measurement Set", set->path, name);
    if (status != CCC_OK) return msi_ms_failed(status);
    const int checked = msi_ms_subtable_check(*out);
    if (checked != MSI_OK) {
        ccc_table_close(*out);
        *out = NULL;
    }
    return checked;
}

int msi_ms_cell_doubles(ccc_table *t, const char *column, int64_t row, double **out, int64_t *n)
{
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    *out = NULL;
    *n = 0;
    MSI_CCC(ccc_cell_shape(t, column, row, &ndim, shape));
    if (ndim < 0) return MSI_OK;
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count))
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: column %s, row %lld: a cell of that shape cannot be",
                                 ccc_table_path(t), column, (long long)row);
    MSI_TRY(msi_alloc(out, count > 0 ? count : 1, sizeof **out, "a metadata cell"));
    const int status = count > 0 ? ccc_get_range(t, column, row, 1, NULL, CCC_DOUBLE, *out, count) : CCC_OK;
    if (status != CCC_OK) {
        msi_free(*out);
        *out = NULL;
        return msi_ms_failed(status);
    }
    *n = count;
    return MSI_OK;
}

void msi_ms_copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

int msi_ms_optional(int ccc_status, int *is_there)
{
    *is_there = ccc_status == CCC_OK;
    return ccc_status == CCC_ENOMEM ? msi_ms_failed(ccc_status) : MSI_OK;
}

int msi_ms_cell_text(ccc_table *t, const char *column, int64_t row, char *to, size_t size)
{
    char *text = NULL;
    int is_there;
    to[0] = 0;
    if (!ccc_table_has_column(t, column) || row >= ccc_table_n_row(t)) return MSI_OK;
    MSI_TRY(msi_ms_optional(ccc_get_string(t, column, row, &text), &is_there));
    if (is_there) msi_ms_copy_text(to, size, text);
    ccc_free(text);
    return MSI_OK;
}
