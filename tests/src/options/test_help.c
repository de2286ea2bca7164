/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The help, the man page and the completions have every option of the table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "src/options/help.h"
#include "src/options/option_table.h"

typedef struct texts {
    char *help, *man, *bash, *zsh;
} texts;

static char *printed(void (*print)(FILE *))
{
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    print(f);
    fclose(f);
    return text;
}

static void print_help(FILE *out)
{
    assert_int_equal(msi_help_print(out, NULL), MSI_OK);
}

static int set_up(void **state)
{
    static texts t;
    t = (texts){printed(print_help), printed(msi_manual_options), printed(msi_manual_bash), printed(msi_manual_zsh)};
    *state = &t;
    return 0;
}

static int tear_down(void **state)
{
    texts *t = *state;
    free(t->help), free(t->man), free(t->bash), free(t->zsh);
    return 0;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++) n++;
    return n;
}

static void check(const char *where, const char *text, const char *what, int expected)
{
    int n = count(text, what);
    if (n != expected) fail_msg("%s: \"%s\" occurs %d times, not %d", where, what, n, expected);
}

/* Check that words followed by a space or a line end occur once. */
static void check_word(const char *where, const char *text, const char *words)
{
    char spaced[130], ended[130];
    snprintf(spaced, sizeof spaced, "%s ", words);
    snprintf(ended, sizeof ended, "%s\n", words);
    if (count(text, spaced) + count(text, ended) != 1) fail_msg("%s: \"%s\" does not occur once", where, words);
}

/* Write a name as in the man page, with every dash as \-. */
static void roff_name(char *out, size_t size, const char *before, const char *name)
{
    size_t n = (size_t)snprintf(out, size, "%s", before);
    for (const char *p = name; *p && n + 3 < size; p++) {
        if (*p == '-') out[n++] = '\\';
        out[n++] = *p;
    }
    out[n] = 0;
}

static void test_all_texts_have_every_option(void **state)
{
    const texts *t = *state;
    int n_alias = 0;
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        char what[128];
        n_alias += o->alias != NULL;
        snprintf(what, sizeof what, "\n  -%s%s%s%s%s", o->name, o->alias ? ", -" : "", o->alias ? o->alias : "",
                 *o->arguments ? " " : "", o->arguments);
        check_word("-help", t->help, what);
        roff_name(what, sizeof what, ".TP\n\\fB\\-", o->name);
        strcat(what, "\\fR");
        check("man", t->man, what, 1);
        snprintf(what, sizeof what, "'(-%s --%s)'{-%s,--%s}'[", o->name, o->name, o->name, o->name);
        check("zsh", t->zsh, what, 1);
        const char *list = strstr(t->bash, "compgen -P $dash -W '");
        assert_non_null(list);
        list += strlen("compgen -P $dash -W '");
        int found = 0;
        size_t length;
        const char *word;
        for (int k = 0; k < msi_option_count() && (word = msi_option_word(list, ' ', k, &length)); k++) {
            const char *quote = memchr(word, '\'', length);
            if (quote) length = (size_t)(quote - word);
            found += length == strlen(o->name) && strncmp(word, o->name, length) == 0;
        }
        if (found != 1) fail_msg("bash: %s occurs %d times", o->name, found);
    }
    check("-help", t->help, "\n  -", msi_option_count());
    check("man", t->man, ".TP\n", msi_option_count());
    check("man", t->man, ".SS ", MSI_N_GROUP);
    check("zsh", t->zsh, "\n    '(-", msi_option_count() + n_alias);
}

/* The help and the man page list the choices of every option that has some. */
static void test_choices_are_listed(void **state)
{
    const texts *t = *state;
    int n_with = 0;
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        char words[256];
        n_with += *msi_option_choice_words(words, sizeof words, o) != 0;
    }
    assert_true(n_with >= 8);
    check("man", t->man, " One of ", n_with);
    check("man", t->man, " One of replace, add or subtract.", 1);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(msi_help_print(file, "kernel"), MSI_OK);
    char text[1024] = {0};
    rewind(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
    static const char *const words[] = {"auto, ", "nearest, ", "linear or ", "texture."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text, words[i])) fail_msg("%s is not in: %s", words[i], text);
}

static void test_help_is_at_most_100_wide(void **state)
{
    const texts *t = *state;
    for (const char *p = t->help; *p;) {
        size_t length = strcspn(p, "\n");
        if (length > 100) fail_msg("%zu characters: %.*s", length, (int)length, p);
        if (length && p[length - 1] == ' ') fail_msg("ends with a blank: %.*s", (int)length, p);
        p += length + (p[length] == '\n');
    }
}

static void test_every_topic_has_help(void **state)
{
    (void)state;
    FILE *sink = fopen("/dev/null", "w");
    assert_non_null(sink);
    for (int i = 0; i < msi_option_count(); i++) assert_int_equal(msi_help_print(sink, msi_option_at(i)->name), MSI_OK);
    assert_int_equal(msi_help_print(sink, "--size"), MSI_OK);
    assert_int_equal(msi_help_print(sink, "nonsense"), MSI_EUSAGE);
    const msi_option *help = msi_option_find("h");
    assert_non_null(help);
    for (int group = 0; group < MSI_N_GROUP; group++) {
        size_t length;
        const char *key = msi_option_groups[group].key, *word = msi_option_word(help->choices, '|', group, &length);
        assert_int_equal(msi_help_print(sink, key), MSI_OK);
        assert_true(word && strlen(key) == length && strncmp(word, key, length) == 0);
        assert_non_null(strstr(help->help, key));
    }
    fclose(sink);
}

/* Each row has a reader and a help text, no name is used twice, and only `weight` and `help` have optional
 * arguments. */
static void test_table_is_valid(void **state)
{
    (void)state;
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        assert_ptr_equal(msi_option_find(o->name), o);
        if (o->alias) assert_ptr_equal(msi_option_find(o->alias), o);
        assert_non_null(o->read);
        assert_true(o->help[strlen(o->help) - 1] == '.');
        assert_true(o->offset < sizeof(msi_options));
        int n = msi_option_arity(o, NULL);
        assert_true(n >= 0 && n <= 3);
        if (o->more_after) assert_int_equal(msi_option_arity(o, o->more_after), n + 1);
    }
    assert_int_equal(msi_option_arity(msi_option_find("weight"), "natural"), 1);
    assert_int_equal(msi_option_arity(msi_option_find("weight"), "briggs"), 2);
    assert_int_equal(msi_option_arity(msi_option_find("help"), NULL), 0);
    assert_int_equal(msi_option_arity(msi_option_find("help"), "size"), 1);
    assert_null(msi_option_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_texts_have_every_option),
        cmocka_unit_test(test_choices_are_listed),
        cmocka_unit_test(test_help_is_at_most_100_wide),
        cmocka_unit_test(test_every_topic_has_help),
        cmocka_unit_test(test_table_is_valid),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
