/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/option_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const msi_option_group_text msi_option_groups[MSI_N_GROUP] = {
    [MSI_GROUP_IMAGE] = {"image", "Image"},
    [MSI_GROUP_SAMPLES] = {"samples", "Selection of samples"},
    [MSI_GROUP_WEIGHTING] = {"weighting", "Weighting"},
    [MSI_GROUP_CLEAN] = {"cleaning", "Deconvolution"},
    [MSI_GROUP_BEAM] = {"beam", "Primary beam"},
    [MSI_GROUP_FACETS] = {"facets", "Facets and solutions"},
    [MSI_GROUP_CUBE] = {"cube", "Spectral cubes"},
    [MSI_GROUP_OUTPUT] = {"output", "Output files"},
    [MSI_GROUP_PREDICT] = {"predict", "Prediction of visibilities"},
    [MSI_GROUP_PERFORMANCE] = {"performance", "Accuracy, speed and memory"},
    [MSI_GROUP_OTHER] = {"other", "Log and help"},
};

/* All tables, in the order of the help. Defaults are parsed in the same order. */
static const msi_option_table *const tables[] = {
    &msi_table_image,      &msi_table_samples,         &msi_table_weighting,  &msi_table_clean_loop,
    &msi_table_clean_mask, &msi_table_clean_component, &msi_table_clean_beam, &msi_table_clean_run,
    &msi_table_beam,       &msi_table_facets,          &msi_table_cube,       &msi_table_output,
    &msi_table_predict,    &msi_table_performance,     &msi_table_other,
};
enum { N_TABLE = sizeof tables / sizeof *tables };

int msi_option_count(void)
{
    int n = 0;
    for (int t = 0; t < N_TABLE; t++) n += tables[t]->n_row;
    return n;
}

const msi_option *msi_option_at(int i)
{
    for (int t = 0; t < N_TABLE; i -= tables[t++]->n_row)
        if (i < tables[t]->n_row) return &tables[t]->row[i];
    return NULL;
}

msi_option_group msi_option_group_of(const msi_option *option)
{
    for (int t = 0; t < N_TABLE; t++)
        for (int i = 0; i < tables[t]->n_row; i++)
            if (&tables[t]->row[i] == option) return tables[t]->group;
    return MSI_N_GROUP;
}

const msi_option *msi_option_find(const char *name)
{
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        if (strcmp(name, o->name) == 0 || (o->alias && strcmp(name, o->alias) == 0)) return o;
    }
    return NULL;
}

const char *msi_option_choices(const msi_option *option)
{
    return option->choices_of ? option->choices_of() : option->choices;
}

const char *msi_option_choice_words(char *out, size_t size, const msi_option *option)
{
    const char *list = option->arguments[0] == '[' ? NULL : msi_option_choices(option), *word;
    size_t length, used = 0;
    out[0] = 0;
    for (int i = 0; (word = msi_option_word(list, '|', i, &length)) && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%.*s",
                                 i == 0         ? ""
                                 : word[length] ? ", "
                                                : " or ",
                                 (int)length, word);
    return out;
}

const char *msi_option_default(const msi_option *option)
{
    if (option->fallback_words) return option->fallback_words;
    return option->fallback && *option->fallback ? option->fallback : NULL;
}

const char *msi_option_word(const char *list, char separator, int i, size_t *length)
{
    const char *p = list && *list ? list : NULL;
    while (p) {
        const char *end = strchr(p, separator);
        if (i-- == 0) {
            *length = end ? (size_t)(end - p) : strlen(p);
            return p;
        }
        p = end ? end + 1 : NULL;
    }
    return NULL;
}

/* Return 1 if a word is the choice that takes an optional argument, or a longer choice that begins with it. */
static int takes_more(const msi_option *option, const char *word)
{
    const size_t n = option->more_after ? strlen(option->more_after) : 0;
    return !n || (strncmp(word, option->more_after, n) == 0 && (!word[n] || isalpha((unsigned char)word[n])));
}

int msi_option_arity(const msi_option *option, const char *first)
{
    int n = 0;
    size_t length;
    const char *word;
    for (int i = 0; (word = msi_option_word(option->arguments, ' ', i, &length)); i++) {
        int optional = *word == '[';
        int taken = !optional || (first && takes_more(option, first));
        n += taken;
    }
    return n;
}
