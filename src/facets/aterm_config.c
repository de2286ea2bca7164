/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/aterm_config.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

enum { MOST_BYTES = 1 << 20, MOST_KEYS = 256 };

/* A line of the file. */
typedef struct entry {
    char *key, *value;
    int is_used;
} entry;

typedef struct parser {
    const char *path;
    int n;
    entry entry[MOST_KEYS];
} parser;

static int load_config(const char *path, char **text)
{
    int64_t n;
    MSI_TRY(msi_text_file_read(text, &n, path, "a configuration of a-terms"));
    if (n > MOST_BYTES)
        return msi_error_set(MSI_EINPUT, "%s: longer than %d bytes; it is no configuration of a-terms", path,
                             MOST_BYTES);
    if (memchr(*text, 0, (size_t)n))
        return msi_error_set(MSI_EINPUT, "%s: has bytes of 0; it is no configuration of a-terms", path);
    return MSI_OK;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s)) s++;
    for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--) s[n - 1] = 0;
    return s;
}

/* Replace comments by blanks, and ends of lines inside of lists. Between quotes there are none. */
static void join_lines(char *text)
{
    int depth = 0, is_comment = 0;
    char quote = 0;
    for (char *c = text; *c; c++) {
        if (*c == '\n') {
            is_comment = quote = 0;
            if (depth) *c = ' ';
        } else if (quote) {
            if (*c == quote) quote = 0;
        } else if (is_comment || *c == '#') {
            is_comment = 1;
            *c = ' ';
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else {
            depth += (*c == '[') - (*c == ']');
        }
    }
}

static int split_lines(parser *p, char *text)
{
    int number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        number++;
        line = trim(line);
        if (!*line) continue;
        char *equals = strchr(line, '=');
        if (!equals) return msi_error_set(MSI_EINPUT, "%s, line %d: '%.40s' is not KEY = VALUE", p->path, number, line);
        if (p->n == MOST_KEYS) return msi_error_set(MSI_EINPUT, "%s: more than %d keys", p->path, MOST_KEYS);
        *equals = 0;
        p->entry[p->n++] = (entry){trim(line), trim(equals + 1), 0};
    }
    return MSI_OK;
}

/* Return the value of NAME.KEY, or of KEY; NULL without it. */
static char *find(parser *p, const char *name, const char *key)
{
    const size_t n = strlen(name);
    for (int i = p->n - 1; i >= 0; i--) {
        entry *e = &p->entry[i];
        if (n ? strncmp(e->key, name, n) != 0 || e->key[n] != '.' || strcmp(e->key + n + 1, key) != 0
              : strcmp(e->key, key) != 0)
            continue;
        e->is_used = 1;
        return e->value;
    }
    return NULL;
}

/* Split a list [A, 'B C'], or one value, in place. Returned: word [most]. Returns the number of words */
static int split_list(char *value, const char **word, int most)
{
    static const char SEPARATORS[] = "[], \t";
    int n = 0;
    for (char *c = value + strspn(value, SEPARATORS); *c && n < most; c += strspn(c, SEPARATORS)) {
        const char end[2] = {*c, 0}, *stop = *c == '"' || *c == '\'' ? end : SEPARATORS;
        c += stop == end;
        word[n] = c;
        c += strcspn(c, stop);
        if (*c) *c++ = 0;
        n += *word[n] != 0;
    }
    return n;
}

static int read_interval(parser *p, const char *name, double *seconds)
{
    const char *value = find(p, name, "update_interval");
    char *end;
    *seconds = -1;
    if (!value) return MSI_OK;
    *seconds = strtod(value, &end);
    if (end > value && !*end && *seconds > 0 && isfinite(*seconds)) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: %s.update_interval is '%.40s'; give seconds", p->path, name, value);
}

static int find_kind(parser *p, const char *name, const char *word, msi_aterm_kind *kind)
{
    static const char *const known[] = {"tec", "dldm", "diagonal", "beam"};
    static const char *const refused[] = {"paf", "fourierfit", "klfit", "h5parm"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0) {
            *kind = (msi_aterm_kind)i;
            return MSI_OK;
        }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(word, refused[i]) == 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: the a-term %s is of kind %s, which is not supported; give images of tec, dldm or "
                                 "diagonal, or facets with -apply-facet-solutions",
                                 p->path, name, word);
    return msi_error_set(MSI_EINPUT,
                         "%s: the a-term %s is of the unknown kind '%.40s'; known are tec, dldm, diagonal and beam",
                         p->path, name, word);
}

/* The window, which smooths screens when they are gridded, has no effect: screens are interpolated. */
static int check_window(parser *p, const char *name)
{
    static const char *const known[] = {"tukey", "hann", "raised_hann", "raised-hann", "rectangular", "gaussian"};
    const char *word = find(p, name, "window");
    (void)find(p, name, "downsample");
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0) return MSI_OK;
    return word
               ? msi_error_set(MSI_EINPUT,
                               "%s: %s.window is '%.40s'; known are tukey, hann, raised_hann, rectangular and gaussian",
                               p->path, name, word)
               : MSI_OK;
}

static int read_term(parser *p, const char *name, msi_aterm_config *c)
{
    static const char *const of_beam[] = {
        "differential",           "usechannelfreq", "frequency_interpolation", "beam_normalisation_mode",
        "element_response_model", "beam_mode"};
    const char *type = find(p, name, "type");
    msi_aterm *t = &c->term[c->n++];
    double seconds;
    *t = (msi_aterm){.name = name};
    MSI_TRY(find_kind(p, name, type ? type : name, &t->kind));
    MSI_TRY(read_interval(p, name, &seconds));
    MSI_TRY(check_window(p, name));
    if (t->kind == MSI_ATERM_BEAM) {
        c->has_beam = 1;
        c->beam_update_s = seconds;
        for (size_t i = 0; i < sizeof of_beam / sizeof *of_beam; i++) (void)find(p, name, of_beam[i]);
        return MSI_OK;
    }
    char *list = find(p, name, "images");
    const int64_t most = list ? (int64_t)strlen(list) / 2 + 1 : 0;
    MSI_TRY(msi_alloc(&t->image, most + 1, sizeof *t->image, "the configuration of a-terms"));
    t->n_image = list ? split_list(list, t->image, (int)most) : 0;
    if (!t->n_image)
        return msi_error_set(MSI_EINPUT, "%s: the a-term %s has no images; give %s.images = [FILE, ..]", p->path, name,
                             name);
    return MSI_OK;
}

const char MSI_ATERMS_BEAM[] = "the beam";

int msi_aterm_config_read(msi_aterm_config *c, const char *path)
{
    parser p = {.path = path};
    const char *name[MSI_ATERM_MOST + 1];
    *c = (msi_aterm_config){.beam_update_s = -1};
    if (path == MSI_ATERMS_BEAM) {
        c->n = c->has_beam = 1;
        c->term[0] = (msi_aterm){.kind = MSI_ATERM_BEAM, .name = "beam"};
        return MSI_OK;
    }
    int rc = load_config(path, &c->text);
    if (!rc) join_lines(c->text);
    if (!rc) rc = split_lines(&p, c->text);
    char *list = rc ? NULL : find(&p, "", "aterms");
    const int n = list ? split_list(list, name, MSI_ATERM_MOST + 1) : 0;
    if (!rc && !n) rc = msi_error_set(MSI_EINPUT, "%s: no a-terms; give aterms = [tec], or other kinds", path);
    if (!rc && n > MSI_ATERM_MOST) rc = msi_error_set(MSI_EINPUT, "%s: more than %d a-terms", path, MSI_ATERM_MOST);
    for (int i = 0; !rc && i < n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(name[i], name[k]) == 0)
                rc = msi_error_set(MSI_EINPUT, "%s: the a-term %s is listed twice", path, name[i]);
    for (int i = 0; !rc && i < n; i++) rc = read_term(&p, name[i], c);
    for (int i = 0; !rc && i < p.n; i++)
        if (!p.entry[i].is_used) msi_log_detail("%s: %s has no effect", path, p.entry[i].key);
    if (rc) msi_aterm_config_free(c);
    return rc;
}

void msi_aterm_config_free(msi_aterm_config *c)
{
    for (int i = 0; i < c->n; i++) msi_free(c->term[i].image);
    msi_free(c->text);
    *c = (msi_aterm_config){0};
}
