/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/help.h"

#include <string.h>

#include "core/status.h"
#include "src/options/option_table.h"

enum { TEXT_COLUMN = 28, LINE_WIDTH = 98, MAX_CHOICES = 256 };

static const char usage_line[] = "usage: msimage [options] -size W H -scale ANGLE a.ms [b.ms ...]\n"
                                 "       msimage -predict [options] a.ms [b.ms ...]\n";

static const char introduction[] =
    "\n"
    "Makes FITS images of the sky from the visibilities of CASA Measurement Sets: dirty images or, with\n"
    "-niter, cleaned ones. With -predict, writes the visibilities of FITS model images into the sets.\n"
    "\n"
    "Examples:\n"
    "  msimage -size 2048 2048 -scale 75asec -png -name puppis puppis.ms\n"
    "      Dirty image of Stokes I with natural weights, puppis-dirty.fits, and a picture of it\n"
    "  msimage -size 4096 4096 -scale 2asec -weight briggs 0 -make-psf -pol IQUV -name deep 1.ms 2.ms\n"
    "      One image of each Stokes parameter from both sets, and the point spread function\n"
    "  msimage -size 4096 4096 -scale 2asec -niter 9999 -auto-mask 5 -auto-threshold 1 -name m31 m31.ms\n"
    "      Cleaned image, m31-image.fits: to 5 times the noise, then deeper where sources were found\n"
    "  msimage -size 8192 8192 -scale 1asec -dry-run large.ms\n"
    "      Data that would be read, and the memory and time that the run would need\n"
    "  msimage -predict -name puppis puppis.ms\n"
    "      Visibilities of puppis-model.fits, written into MODEL_DATA\n"
    "\n"
    "Options go before the Measurement Sets. -x and --x are the same. If an option is repeated, the last\n"
    "one is used.\n";

static const char ending[] = "\nExit status: 0 success, 2 usage, 3 input, 4 output, 5 memory or GPU, 6 set in use, 70 "
                             "internal\nerror, 128 + n stopped by signal n. See also: man msimage\n";

void msi_help_usage(FILE *out)
{
    fputs(usage_line, out);
    fputs("example: msimage -size 2048 2048 -scale 2asec -name myimage mydata.ms\n"
          "Run msimage -help for all options.\n",
          out);
}

/* Print words from column `at` on, in lines up to LINE_WIDTH that begin at TEXT_COLUMN; return the last column. */
static int print_words(FILE *out, int at, const char *text)
{
    size_t length;
    const char *word;
    for (int i = 0; (word = msi_option_word(text, ' ', i, &length)); i++) {
        if (at > TEXT_COLUMN && at + 1 + (int)length > LINE_WIDTH) {
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
            at = TEXT_COLUMN;
        } else if (at > TEXT_COLUMN) {
            fputc(' ', out);
            at++;
        }
        fprintf(out, "%.*s", (int)length, word);
        at += (int)length;
    }
    return at;
}

void msi_help_print_option(FILE *out, const msi_option *o)
{
    int at = fprintf(out, "  -%s", o->name);
    if (o->alias) at += fprintf(out, ", -%s", o->alias);
    if (*o->arguments) at += fprintf(out, " %s", o->arguments);
    if (at + 1 >= TEXT_COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", TEXT_COLUMN - at, "");
    at = print_words(out, TEXT_COLUMN, o->help);
    char choices[MAX_CHOICES], text[MAX_CHOICES + 16];
    if (*msi_option_choice_words(choices, sizeof choices, o)) {
        snprintf(text, sizeof text, "One of %s.", choices);
        at = print_words(out, at, text);
    }
    if (msi_option_default(o)) {
        snprintf(text, sizeof text, "Default: %s.", msi_option_default(o));
        print_words(out, at, text);
    }
    fputc('\n', out);
}

static void print_group(FILE *out, int group)
{
    fprintf(out, "\n%s:\n", msi_option_groups[group].title);
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++)
        if ((int)msi_option_group_of(o) == group) msi_help_print_option(out, o);
}

/* Print the answer to an option that only WSClean has. */
static void print_wsclean(FILE *out, const msi_wsclean_option *w)
{
    char line[256];
    msi_wsclean_describe(line, sizeof line, w);
    fprintf(out, "%s.\n", line);
    if (w->value) fprintf(out, "Any other value is refused: %s.\n", w->else_why);
}

/* Print every option whose name or text has a word. Returns: their number */
static int print_found(FILE *out, const char *word)
{
    const msi_option *o;
    int n = 0;
    for (int i = 0; *word && (o = msi_option_at(i)); i++) {
        if (!strcasestr(o->name, word) && !strcasestr(o->help, word)) continue;
        msi_help_print_option(out, o);
        n++;
    }
    for (int i = 0; *word && i < msi_wsclean_count; i++) {
        if (!strcasestr(msi_wsclean_table[i].name, word)) continue;
        print_wsclean(out, &msi_wsclean_table[i]);
        n++;
    }
    return n;
}

static int print_topic(FILE *out, const char *topic)
{
    const char *name = topic + strspn(topic, "-");
    for (int group = 0; group < MSI_N_GROUP; group++)
        if (strcmp(name, msi_option_groups[group].key) == 0) {
            print_group(out, group);
            return MSI_OK;
        }
    const msi_option *o = msi_option_find(name);
    const msi_wsclean_option *w = msi_wsclean_find(name);
    if (o)
        msi_help_print_option(out, o);
    else if (w)
        print_wsclean(out, w);
    else if (!print_found(out, name))
        return msi_error_set(MSI_EUSAGE,
                             "-help %s: no option or section has this name, and no text has this word; "
                             "-help without a topic lists all",
                             topic);
    return MSI_OK;
}

int msi_help_print(FILE *out, const char *topic)
{
    if (topic) return print_topic(out, topic);
    fputs(usage_line, out);
    fputs(introduction, out);
    for (int group = 0; group < MSI_N_GROUP; group++) print_group(out, group);
    fputs(ending, out);
    return MSI_OK;
}
