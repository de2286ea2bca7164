/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_config.h"

#include <ctype.h>
#include <regex.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { MOST_RULES = 4096, NAME = 256 };

static const char DEFAULT[] = "cmd::default";

/* ---- JSON: objects of texts, lists of texts, and objects ---- */

/* A text that belongs to keys: block, section, key. */
typedef struct entry {
    char *section, *key, *value;
} entry;

typedef struct reading {
    const char *path, *at;
    int64_t line;
    int n;
    entry entry[MOST_RULES];
} reading;

static int fail(const reading *r, const char *why)
{
    return msi_error_set(MSI_EINPUT,
                         "%s, line %lld: %s; a configuration of beams has blocks with \"patterns\" and "
                         "\"define-stationtypes\"",
                         r->path, (long long)r->line, why);
}

/* Return the next character that is not a space. */
static char peek(reading *r)
{
    for (; *r->at && isspace((unsigned char)*r->at); r->at++) r->line += *r->at == '\n';
    return *r->at;
}

static int expect(reading *r, char c, const char *why)
{
    if (peek(r) != c) return fail(r, why);
    r->at++;
    return MSI_OK;
}

/* Read a text. Returned: *out  owned */
static int read_text(reading *r, char **out)
{
    char text[4 * NAME];
    size_t n = 0;
    *out = NULL;
    MSI_TRY(expect(r, '"', "a text in double quotes is expected"));
    for (; *r->at && *r->at != '"'; r->at++) {
        if (*r->at == '\\' && (r->at[1] == '"' || r->at[1] == '\\' || r->at[1] == '/'))
            r->at++;
        else if (*r->at == '\\')
            return fail(r, "of the escapes only \\\", \\\\ and \\/ are known");
        if (*r->at == '\n' || n + 1 == sizeof text) return fail(r, "a text does not end, or is too long");
        text[n++] = *r->at;
    }
    MSI_TRY(expect(r, '"', "a text does not end"));
    MSI_TRY(msi_alloc(out, (int64_t)n + 1, 1, "a configuration of beams"));
    memcpy(*out, text, n);
    return MSI_OK;
}

static int copy_text(char **out, const char *text)
{
    MSI_TRY(msi_alloc(out, (int64_t)strlen(text) + 1, 1, "a configuration of beams"));
    memcpy(*out, text, strlen(text));
    return MSI_OK;
}

/* Read a text, and keep it under its keys. */
static int keep_value(reading *r, const char *section, const char *key)
{
    if (r->n == MOST_RULES) return fail(r, "there are too many entries");
    entry *e = &r->entry[r->n++];
    MSI_TRY(copy_text(&e->section, section));
    MSI_TRY(copy_text(&e->key, key));
    return read_text(r, &e->value);
}

/* Read the members of an object. Given: member  reads the value of a key */
static int read_object(reading *r, const char *section, int (*member)(reading *r, const char *section, const char *key))
{
    MSI_TRY(expect(r, '{', "an object in braces is expected"));
    for (int first = 1; peek(r) != '}'; first = 0) {
        char *key;
        if (!first) MSI_TRY(expect(r, ',', "a comma or a closing brace is expected"));
        MSI_TRY(read_text(r, &key));
        int rc = expect(r, ':', "a colon is expected");
        if (!rc) rc = member(r, section, key);
        msi_free(key);
        MSI_TRY(rc);
    }
    r->at++;
    return MSI_OK;
}

/* Read a text or a list of texts. */
static int read_value(reading *r, const char *section, const char *key)
{
    if (peek(r) != '[') return keep_value(r, section, key);
    r->at++;
    for (int first = 1; peek(r) != ']'; first = 0) {
        if (!first) MSI_TRY(expect(r, ',', "a comma or a closing bracket is expected"));
        MSI_TRY(keep_value(r, section, key));
    }
    r->at++;
    return MSI_OK;
}

static int read_section(reading *r, const char *block, const char *key)
{
    (void)block;
    if (strcmp(key, "patterns") != 0 && strcmp(key, "define-stationtypes") != 0)
        return fail(r, "a block has another key");
    return read_object(r, key, read_value);
}

static int read_block(reading *r, const char *section, const char *key)
{
    (void)section;
    return read_object(r, key, read_section);
}

/* ---- Types ---- */

/* Find the type of an antenna by its name, NULL if there is none. Returns: 0, MSI_EINPUT (a wrong expression) */
static int find_type(const reading *r, const char *name, const char **type)
{
    const char *by_default = NULL, *by_expression = NULL;
    *type = NULL;
    for (int i = 0; i < r->n; i++) {
        const entry *e = &r->entry[i];
        if (strcmp(e->section, "define-stationtypes") != 0) continue;
        if (strcmp(e->key, name) == 0 && !*type) *type = e->value;
        if (strcmp(e->key, DEFAULT) == 0 && !by_default) by_default = e->value;
        if (e->key[0] != '~' || by_expression) continue;
        regex_t expression;
        regmatch_t match;
        if (regcomp(&expression, e->key + 1, REG_EXTENDED) != 0)
            return msi_error_set(MSI_EINPUT, "%s: \"%s\" is not a regular expression", r->path, e->key);
        if (regexec(&expression, name, 1, &match, 0) == 0 && match.rm_so == 0) by_expression = e->value;
        regfree(&expression);
    }
    if (!*type) *type = by_expression ? by_expression : by_default;
    return MSI_OK;
}

/* Replace $(stype) and $(STYPE). Returned: *out  owned */
static int put_type(char **out, const char *pattern, const char *type)
{
    static const char lower[] = "$(stype)", upper[] = "$(STYPE)";
    char text[8 * NAME];
    size_t n = 0;
    for (const char *p = pattern; *p && n + NAME < sizeof text;) {
        const int is_upper = strncmp(p, upper, sizeof upper - 1) == 0;
        if (!is_upper && strncmp(p, lower, sizeof lower - 1) != 0) {
            text[n++] = *p++;
            continue;
        }
        for (const char *t = type; *t && n + NAME < sizeof text; t++)
            text[n++] = (char)(is_upper ? toupper((unsigned char)*t) : tolower((unsigned char)*t));
        p += sizeof lower - 1;
    }
    text[n] = 0;
    return copy_text(out, text);
}

/* Collect the patterns of a type: its own, else those by default. */
static int find_patterns(const reading *r, msi_pb_station_type *t)
{
    for (int by_default = 0; by_default < 2 && !t->n_pattern; by_default++)
        for (int i = 0; i < r->n; i++) {
            const entry *e = &r->entry[i];
            if (strcmp(e->section, "patterns") != 0 || strcmp(e->key, by_default ? DEFAULT : t->name) != 0) continue;
            MSI_TRY(msi_grow(&t->pattern, t->n_pattern, t->n_pattern + 1, sizeof *t->pattern, "patterns of beams"));
            MSI_TRY(put_type(&t->pattern[t->n_pattern++], e->value, t->name));
        }
    if (t->n_pattern) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: stations of type \"%s\" have no patterns, and there are none by \"%s\"",
                         r->path, t->name, DEFAULT);
}

static int sort_antennas(msi_pb_config *c, const reading *r, const msi_pb_set *set, uint8_t *class_of)
{
    for (int64_t a = 0; a < set->n_antenna; a++) {
        const char *name = set->name ? set->name[a] : "", *type;
        int k = 0;
        MSI_TRY(find_type(r, name, &type));
        if (!type)
            return msi_error_set(MSI_EINPUT, "%s: antenna \"%s\" has no type; add \"%s\" to \"define-stationtypes\"",
                                 r->path, name, DEFAULT);
        while (k < c->n_type && strcmp(c->type[k].name, type) != 0) k++;
        if (k == MSI_PB_CLASSES)
            return msi_error_set(MSI_EINPUT, "%s: antennas are of more than %d types, such as \"%s\"", r->path,
                                 MSI_PB_CLASSES, type);
        class_of[a] = (uint8_t)k;
        if (k < c->n_type) continue;
        MSI_TRY(copy_text(&c->type[c->n_type++].name, type));
        MSI_TRY(find_patterns(r, &c->type[k]));
    }
    return MSI_OK;
}

int msi_pb_config_read(msi_pb_config *out, const char *path, const msi_pb_set *set, uint8_t *class_of)
{
    reading *r = NULL;
    char *text;
    *out = (msi_pb_config){0};
    int64_t n;
    int rc = msi_text_file_read(&text, &n, path, "a configuration of beams");
    if (!rc) rc = msi_alloc(&r, 1, sizeof *r, "a configuration of beams");
    if (!rc) {
        r->path = path;
        r->at = text;
        r->line = 1;
        rc = read_object(r, "", read_block);
    }
    if (!rc && peek(r)) rc = fail(r, "something follows the last brace");
    if (!rc) rc = sort_antennas(out, r, set, class_of);
    for (int i = 0; r && i < r->n; i++) {
        msi_free(r->entry[i].section);
        msi_free(r->entry[i].key);
        msi_free(r->entry[i].value);
    }
    msi_free(r);
    msi_free(text);
    if (rc) msi_pb_config_free(out);
    return rc;
}

void msi_pb_config_free(msi_pb_config *c)
{
    for (int i = 0; i < c->n_type; i++) {
        for (int k = 0; k < c->type[i].n_pattern; k++) msi_free(c->type[i].pattern[k]);
        msi_free(c->type[i].pattern);
        msi_free(c->type[i].name);
    }
    *c = (msi_pb_config){0};
}
