/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_mark.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MARK   MSI_MS_MARK
#define ORIGIN "MSIMAGE_MODEL"

static void field_name(char *name, size_t size, const char *column, const char *field)
{
    snprintf(name, size, "%s.%s%s%s", MARK, column, field ? "." : "", field ? field : "");
}

static void now_utc(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

int msi_ms_mark_read(ccc_table *t, const char *column, char *text, size_t size, char *selection, size_t selection_size)
{
    static const char *const fields[] = {"STARTED", "PROGRAM", "MODEL"};
    char name[256];
    ccc_type type;
    field_name(name, sizeof name, column, NULL);
    if (ccc_keyword_type(t, NULL, name, &type, NULL) != CCC_OK) return 0;
    size_t n = (size_t)snprintf(text, size, "%s", column);
    for (int i = 0; i < 3 && n < size; i++) {
        char *value;
        field_name(name, sizeof name, column, fields[i]);
        if (ccc_keyword_get_string(t, NULL, name, &value) != CCC_OK) continue;
        n += (size_t)snprintf(text + n, size - n, ", %s", value);
        ccc_free(value);
    }
    char *value;
    field_name(name, sizeof name, column, "SELECTION");
    selection[0] = 0;
    if (ccc_keyword_get_string(t, NULL, name, &value) == CCC_OK) {
        snprintf(selection, selection_size, "%s", value);
        ccc_free(value);
    }
    return 1;
}

int msi_ms_mark_put(ccc_table *t, const char *column, const char *model, const char *selection)
{
    char name[256], started[32];
    now_utc(started, sizeof started);
    const char *const fields[][2] = {{"STATE", "incomplete"},
                                     {"STARTED", started},
                                     {"PROGRAM", "msimage " MSIMAGE_VERSION},
                                     {"MODEL", model},
                                     {"SELECTION", selection}};
    for (int i = 0; i < 5; i++) {
        field_name(name, sizeof name, column, fields[i][0]);
        const int failed = ccc_keyword_put_string(t, NULL, name, fields[i][1]);
        if (failed) return failed;
    }
    return CCC_OK;
}

int msi_ms_mark_remove(ccc_table *t, const char *column)
{
    char name[256];
    ccc_type type;
    int64_t n;
    field_name(name, sizeof name, column, NULL);
    if (ccc_keyword_type(t, NULL, name, &type, NULL) == CCC_ENOTFOUND) return CCC_OK;
    int failed = ccc_keyword_remove(t, NULL, name);
    if (!failed) failed = ccc_keyword_type(t, NULL, MARK, &type, &n);
    return failed || n > 0 ? failed : ccc_keyword_remove(t, NULL, MARK);
}

int msi_ms_mark_origin(ccc_table *t, const char *column, const char *model)
{
    char text[1024], now[32];
    now_utc(now, sizeof now);
    snprintf(text, sizeof text, "%s, msimage " MSIMAGE_VERSION ", %s", now, model);
    return ccc_keyword_put_string(t, column, ORIGIN, text);
}

void msi_ms_mark_origin_read(ccc_table *t, const char *column, char *text, size_t size)
{
    char *value;
    text[0] = 0;
    if (ccc_keyword_get_string(t, column, ORIGIN, &value) != CCC_OK) return;
    snprintf(text, size, "%s", value);
    ccc_free(value);
}

int msi_ms_mark_has_origin(ccc_table *t, const char *column)
{
    ccc_type type;
    return ccc_keyword_type(t, column, ORIGIN, &type, NULL) == CCC_OK;
}
