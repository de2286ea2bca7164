/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/suggestion.h"

#include <stdio.h>
#include <string.h>

#include "src/options/option_table.h"
#include "src/options/wsclean_options.h"

/* Parameters of CASA's tclean whose meaning an option of another name has; NULL where none has, however near it is. */
static const struct tclean_name {
    const char *parameter, *option;
} tclean_names[] = {
    {"antenna", "select-antenna"},
    {"cell", "scale"},
    {"imagename", "name"},
    {"imsize", "size"},
    {"mask", "casa-mask"},
    {"nchan", "channels-out"},
    {"nsigma", "auto-threshold"},
    {"phasecenter", "shift"},
    {"restfreq", NULL},
    {"restoringbeam", "beam-shape"},
    {"robust", "weight"},
    {"savemodel", "update-model-required"},
    {"scales", "multiscale-scales"},
    {"stokes", "pol"},
    {"timerange", "select-time"},
    {"uvrange", "select-uvrange"},
    {"uvtaper", "taper-gaussian"},
    {"weighting", "weight"},
};

enum { LONGEST = 31, FAR = 99, MAX_NAMED = 3, LEAST_PREFIX = 3 };

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* Letters to change, put in, leave out, or swap with their neighbour to make one short word of another. */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= n_a; i++)
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least_of(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least_of(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least_of(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

/* Measure the distance of two words, FAR where they are not the same stem: one letter in three may differ, never the
 * first. */
static int word_distance(const char *a, int n_a, const char *b, int n_b)
{
    const int shorter = least_of(n_a, n_b);
    const int distance = edit_distance(a, n_a, b, n_b);
    if (distance == 0) return 0;
    if (shorter == 0 || a[0] != b[0]) return FAR;
    const int is_prefix = shorter >= LEAST_PREFIX && strncmp(a, b, (size_t)shorter) == 0;
    return is_prefix || distance <= shorter / 3 ? distance : FAR;
}

static int same_but_dashes(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '-' || *a == '_') a++;
        while (*b == '-') b++;
        if (*a != *b) return 0;
        if (!*a) return 1;
    }
}

static int name_distance(const char *name, const char *other)
{
    const size_t length = strlen(name);
    if (same_but_dashes(name, other)) return 1;
    if (length >= LEAST_PREFIX && strncmp(name, other, length) == 0 && other[length] == '-') return 1;
    int sum = 0;
    for (;;) {
        const int n = (int)strcspn(name, "-"), m = (int)strcspn(other, "-");
        sum += word_distance(name, n, other, m);
        if (sum >= FAR || !name[n] || !other[m]) return name[n] || other[m] ? FAR : sum;
        name += n + 1;
        other += m + 1;
    }
}

/* Return the i-th name that there is: the option table's first, then those that WSClean alone has; NULL past the
 * last. */
static const char *name_at(int i)
{
    const msi_option *o = msi_option_at(i);
    if (o) return o->name;
    i -= msi_option_count();
    return i < msi_wsclean_count ? msi_wsclean_table[i].name : NULL;
}

int msi_suggestion(char *out, const char *name)
{
    const char *near[MAX_NAMED], *other;
    int least = FAR, n_near = 0, used = 0;
    out[0] = 0;
    if (!*name || strlen(name) > LONGEST) return 0;
    for (size_t i = 0; i < sizeof tclean_names / sizeof *tclean_names; i++)
        if (strcmp(name, tclean_names[i].parameter) == 0) {
            if (tclean_names[i].option) snprintf(out, MSI_SUGGESTION_SIZE, "-%s", tclean_names[i].option);
            return tclean_names[i].option != NULL;
        }
    for (int i = 0; (other = name_at(i)); i++) {
        const int is_again = i >= msi_option_count() && msi_option_find(other);
        const int distance = is_again ? FAR : name_distance(name, other);
        if (distance >= FAR || distance > least) continue;
        if (distance < least) n_near = 0;
        least = distance;
        if (n_near < MAX_NAMED) near[n_near++] = other;
    }
    for (int i = 0; i < n_near; i++)
        used += snprintf(out + used, (size_t)(MSI_SUGGESTION_SIZE - used), "%s-%s",
                         i == 0            ? ""
                         : i == n_near - 1 ? " or "
                                           : ", ",
                         near[i]);
    return n_near;
}
