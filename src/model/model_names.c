/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/model/model_names.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/pol.h"
#include "core/status.h"

static const char ENDING[] = "-model.fits";

enum { NO_CHANNEL = MSI_MODEL_NO_CHANNEL, MFS = MSI_MODEL_MFS };

/* Read "-NNNN", "-MFS" or nothing, then "-POL" or nothing. Return 1 where that is the whole text. */
static int parse_middle(const char *text, int64_t *number, msi_pol *pol)
{
    *number = NO_CHANNEL;
    *pol = 0;
    if (strncmp(text, "-MFS", 4) == 0) {
        *number = MFS;
        text += 4;
    } else if (text[0] == '-' && isdigit((unsigned char)text[1])) {
        char *end, again[32];
        errno = 0;
        *number = strtoll(text + 1, &end, 10);
        /* Numbers count only as they are written: four digits, more where the number has more. */
        snprintf(again, sizeof again, "-%04lld", (long long)*number);
        size_t length = (size_t)(end - text);
        if (errno || strlen(again) != length || strncmp(text, again, length) != 0) return 0;
        text = end;
    }
    if (!*text) return 1;
    for (int p = MSI_POL_I; p <= MSI_POL_YY; p++)
        if (text[0] == '-' && strcmp(text + 1, msi_pol_name((msi_pol)p)) == 0) *pol = (msi_pol)p;
    return *pol != 0;
}

/* Append a file to the list. */
static int add(msi_model_names *names, const char *name, const char *middle, int64_t number, msi_pol pol)
{
    /* The list is doubled at every power of two. */
    if ((names->n & (names->n - 1)) == 0)
        MSI_TRY(msi_grow(&names->list, names->n, names->n ? 2 * names->n : 1, sizeof *names->list, "list of models"));
    msi_model_name *m = &names->list[names->n];
    const size_t size = strlen(name) + strlen(middle) + sizeof ENDING;
    MSI_TRY(msi_alloc(&m->path, (int64_t)size, 1, "file name"));
    snprintf(m->path, size, "%s%s%s", name, middle, ENDING);
    m->number = number;
    m->pol = pol;
    names->n++;
    return MSI_OK;
}

/* List every file of the directory whose name has the form. */
static int list_files(msi_model_names *names, const char *name)
{
    const char *slash = strrchr(name, '/'), *prefix = slash ? slash + 1 : name;
    const size_t prefix_length = strlen(prefix), ending_length = sizeof ENDING - 1;
    char *folder = slash ? strndup(name, slash == name ? 1 : (size_t)(slash - name)) : strdup(".");
    if (!folder) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    DIR *dir = opendir(folder);
    int rc = dir ? MSI_OK : msi_error_set(MSI_EINPUT, "%s: %s", folder, strerror(errno));
    free(folder);
    for (struct dirent *e; !rc && (e = readdir(dir));) {
        const size_t length = strlen(e->d_name);
        char middle[32];
        int64_t number;
        msi_pol pol;
        if (length < prefix_length + ending_length || strncmp(e->d_name, prefix, prefix_length) != 0 ||
            strcmp(e->d_name + length - ending_length, ENDING) != 0)
            continue;
        const size_t n = length - prefix_length - ending_length;
        if (n >= sizeof middle) continue;
        memcpy(middle, e->d_name + prefix_length, n);
        middle[n] = 0;
        if (parse_middle(middle, &number, &pol)) rc = add(names, name, middle, number, pol);
    }
    if (dir) closedir(dir);
    return rc;
}

static int in_order(const void *a, const void *b)
{
    const msi_model_name *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return ((int)x->pol > (int)y->pol) - ((int)x->pol < (int)y->pol);
}

/* Remove all files but those of one kind: numbers from least to most. */
static void keep(msi_model_names *names, int64_t least, int64_t most)
{
    int64_t n = 0;
    for (int64_t i = 0; i < names->n; i++) {
        if (names->list[i].number >= least && names->list[i].number <= most)
            names->list[n++] = names->list[i];
        else
            msi_free(names->list[i].path);
    }
    names->n = n;
}

/* Keep the files of one kind, in order: those without a number or channel images, else MFS images. Files of both of the
 * first two kinds are refused, and a channel image that is missing. */
static int choose(msi_model_names *names, const char *name)
{
    const msi_model_name *plain = NULL, *channel = NULL;
    if (names->n) qsort(names->list, (size_t)names->n, sizeof *names->list, in_order);
    for (int64_t i = 0; i < names->n; i++) {
        if (names->list[i].number == NO_CHANNEL && !plain) plain = &names->list[i];
        if (names->list[i].number >= 0 && !channel) channel = &names->list[i];
    }
    if (!names->n)
        return msi_error_set(MSI_EINPUT,
                             "no model: there is no %s%s, %s-I%s or %s-0000%s; -name tells what their names begin with",
                             name, ENDING, name, ENDING, name, ENDING);
    if (plain && channel)
        return msi_error_set(MSI_EINPUT, "%s and %s: which is the model? move one away, with those that belong to it",
                             plain->path, channel->path);
    if (plain)
        keep(names, NO_CHANNEL, NO_CHANNEL);
    else if (channel)
        keep(names, 0, INT64_MAX);
    int64_t expected = 0;
    for (int64_t i = 0; channel && i < names->n; i++) {
        if (names->list[i].number > expected)
            return msi_error_set(MSI_EINPUT, "%s is there, but no channel image %04lld; all from 0000 on are needed",
                                 names->list[i].path, (long long)expected);
        expected = names->list[i].number + 1;
    }
    for (int64_t i = 0; i < names->n; i++)
        if (names->list[i].number == MFS) names->list[i].number = NO_CHANNEL;
    return MSI_OK;
}

int msi_model_names_list(msi_model_names *out, const char *name)
{
    memset(out, 0, sizeof *out);
    const int rc = list_files(out, name);
    if (rc) msi_model_names_free(out);
    return rc;
}

int msi_model_names_find(msi_model_names *out, const char *name)
{
    MSI_TRY(msi_model_names_list(out, name));
    const int rc = choose(out, name);
    if (rc) msi_model_names_free(out);
    return rc;
}

void msi_model_names_free(msi_model_names *names)
{
    for (int64_t i = 0; i < names->n; i++) msi_free(names->list[i].path);
    msi_free(names->list);
    memset(names, 0, sizeof *names);
}
