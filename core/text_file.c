/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

int msi_text_file_read(char **text, int64_t *n, const char *path, const char *what)
{
    *text = NULL;
    *n = 0;
    FILE *f = fopen(path, "re");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int64_t capacity = 1 << 16;
    int rc = msi_alloc(text, capacity + 1, 1, what);
    while (!rc) {
        const size_t got = fread(*text + *n, 1, (size_t)(capacity - *n), f);
        *n += (int64_t)got;
        if (!got && ferror(f)) rc = msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
        if (!got) break;
        if (*n < capacity) continue;
        if (*n >= MSI_TEXT_FILE_MOST)
            rc = msi_error_set(MSI_EINPUT, "%s: longer than %d MiB, the limit for %s", path, MSI_TEXT_FILE_MOST >> 20,
                               what);
        if (!rc) rc = msi_grow(text, capacity + 1, 2 * capacity + 1, 1, what);
        capacity *= 2;
    }
    fclose(f);
    if (rc) {
        msi_free(*text);
        *text = NULL;
        return rc;
    }
    (*text)[*n] = 0;
    return MSI_OK;
}
