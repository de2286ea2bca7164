/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/selection_words.h"

#include <stdio.h>
#include <string.h>

static void add_numbers(char *text, size_t size, const char *option, const int *number, int n)
{
    size_t at = strlen(text);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? "," : option, number[i]);
}

static void add_range(char *text, size_t size, const char *option, int64_t begin, int64_t end)
{
    const size_t at = strlen(text);
    if (end) snprintf(text + at, size - at, " %s %lld %lld", option, (long long)begin, (long long)end);
}

static void add_quoted(char *text, size_t size, const char *option, const char *words)
{
    const size_t at = strlen(text);
    if (words) snprintf(text + at, size - at, " %s '%s'", option, words);
}

void msi_selection_words(const msi_ms_selection *s, char *text, size_t size)
{
    text[0] = 0;
    if (s->all_fields) add_quoted(text, size, "-field", "all");
    add_numbers(text, size, " -field ", s->fields, s->n_field);
    add_quoted(text, size, "-select-field", s->mssel_field);
    if (!*text) add_quoted(text, size, "-field", "0");
    add_numbers(text, size, " -spws ", s->spws, s->n_spw);
    add_range(text, size, "-channel-range", s->channel_begin, s->channel_end);
    add_range(text, size, "-interval", s->interval_begin, s->interval_end);
    add_quoted(text, size, "-select-spw", s->mssel_spw);
    add_quoted(text, size, "-select-antenna", s->mssel_antenna);
    add_quoted(text, size, "-select-uvrange", s->mssel_uvrange);
    add_quoted(text, size, "-select-time", s->mssel_time);
    add_quoted(text, size, "-taql", s->taql);
    /* Every option begins with a blank, the first one too. */
    memmove(text, text + 1, strlen(text));
}
