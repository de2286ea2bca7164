/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * libFuzzer target: any keywords in place of the mark of an interrupted prediction. Each line of the input puts or
 * removes one: a letter for its type, a letter for its place, the value. Another program, or another version of this
 * one, may have written anything there.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_mark.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char COLUMN[] = "MODEL_DATA";

/* A table of one column and no rows, kept for all inputs; its directory is removed when the process ends. */
static ccc_table *table;
static char folder[] = "/tmp/msimage-fuzz-XXXXXX";

static void remove_table(void)
{
    char command[128] = "rm -rf ";
    strcat(command, folder);
    ccc_table_close(table);
    if (system(command) != 0) abort();
}

static void make_table(void)
{
    char path[64];
    const ccc_column_spec column = {.name = COLUMN, .type = CCC_COMPLEX, .ndim = 2};
    if (!mkdtemp(folder)) abort();
    strcpy(path, folder);
    strcat(path, "/t");
    if (ccc_table_create(&table, path, &column, 1, NULL, 0) != CCC_OK) abort();
    atexit(remove_table);
}

static void forget_keywords(const char *column)
{
    char **names;
    int64_t n;
    if (ccc_keyword_names(table, column, &names, &n) != CCC_OK) abort();
    for (int64_t i = 0; i < n; i++) ccc_keyword_remove(table, column, names[i]);
    ccc_free(names);
}

/* Put the keyword of a line. Keywords that casacore refuses are ignored. */
static void put(const char *line)
{
    static const char *const places[] = {"MSIMAGE_PREDICT",
                                         "MSIMAGE_PREDICT.MODEL_DATA",
                                         "MSIMAGE_PREDICT.OTHER",
                                         "MSIMAGE_PREDICT.MODEL_DATA.STARTED",
                                         "MSIMAGE_PREDICT.MODEL_DATA.PROGRAM",
                                         "MSIMAGE_PREDICT.MODEL_DATA.MODEL",
                                         "MSIMAGE_PREDICT.MODEL_DATA.SELECTION",
                                         "MSIMAGE_PREDICT.MODEL_DATA.SELECTION.DEEPER",
                                         "MSIMAGE_MODEL"};
    if (!line[0] || !line[1]) return;
    const size_t n_place = sizeof places / sizeof *places, at = (unsigned char)line[1] % n_place;
    const char *column = at == n_place - 1 ? COLUMN : NULL, *value = line + 2;
    const char *const list[] = {value, "", value};
    switch (line[0]) {
    case 's':
        ccc_keyword_put_string(table, column, places[at], value);
        break;
    case 'l':
        ccc_keyword_put_strings(table, column, places[at], list, (int64_t)(strlen(value) % 4));
        break;
    case 'i':
        ccc_keyword_put_int(table, column, places[at], (int32_t)strlen(value));
        break;
    case 'd':
        ccc_keyword_put_double(table, column, places[at], atof(value));
        break;
    case 'b':
        ccc_keyword_put_bool(table, column, places[at], *value == '1');
        break;
    default:
        ccc_keyword_remove(table, column, places[at]);
    }
}

/* Read into buffers of this size, which the sanitizer guards; the mark's words end where they do. */
static int reads(size_t size)
{
    char *text = malloc(size), *selection = malloc(size);
    if (!text || !selection) abort();
    memset(text, 'x', size);
    memset(selection, 'x', size);
    const int is_marked = msi_ms_mark_read(table, COLUMN, text, size, selection, size);
    if (is_marked && (!memchr(text, 0, size) || !memchr(selection, 0, size))) abort();
    free(text);
    free(selection);
    return is_marked;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), words[1024], selection[1024];
    if (!text) return 0;
    if (!table) make_table();
    memcpy(text, data, size);
    text[size] = 0;
    forget_keywords(NULL);
    forget_keywords(COLUMN);
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        put(line);
    }
    const int is_marked = reads(1);
    if (reads(2) != is_marked || reads(40) != is_marked || reads(512) != is_marked) abort();
    (void)msi_ms_mark_has_origin(table, COLUMN);
    /* A mark that was put can be read, has the right contents, and can be removed. */
    if (msi_ms_mark_put(table, COLUMN, "model", text) == CCC_OK) {
        if (!msi_ms_mark_read(table, COLUMN, words, sizeof words, selection, sizeof selection)) abort();
        if (!strstr(words, "model") || strncmp(selection, text, strlen(selection)) != 0) abort();
        if (strlen(selection) != strlen(text) && strlen(selection) != sizeof selection - 1) abort();
    }
    if (msi_ms_mark_remove(table, COLUMN) == CCC_OK && reads(512)) abort();
    if (msi_ms_mark_origin(table, COLUMN, text) == CCC_OK && !msi_ms_mark_has_origin(table, COLUMN)) abort();
    free(text);
    return 0;
}
