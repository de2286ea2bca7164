/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_pass.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

int msi_ms_pass(msi_ms_cursor *c, void *value, int64_t bytes)
{
    const int64_t padded = (bytes + 7) / 8 * 8;
    if (c->from) {
        if (bytes < 0 || padded > c->n - c->at) return 0;
        if (bytes > 0) memcpy(value, c->from + c->at, (size_t)bytes);
    } else if (c->to && bytes > 0) {
        memcpy(c->to + c->at, value, (size_t)bytes);
    }
    c->at += padded;
    return 1;
}

int msi_ms_pass_array(msi_ms_cursor *c, void *array, int64_t n, size_t size, int *is_whole)
{
    void *values;
    *is_whole = 0;
    if (c->from) {
        if (n < 0 || n > (c->n - c->at) / (int64_t)size) return MSI_OK;
        MSI_TRY(msi_alloc(&values, n > 0 ? n : 1, size, "what the sets hold"));
        memcpy(array, &values, sizeof values);
    }
    memcpy(&values, array, sizeof values);
    *is_whole = msi_ms_pass(c, values, n * (int64_t)size);
    return MSI_OK;
}
