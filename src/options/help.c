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

/* Print words from column `at` on, in lines up to LINE_WIDTH that begin at TEXT_COLUMN. Return the last column. */
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

/* Print what msimage does with an option that only WSClean has. */
static void print_wsclean(FILE *out, const msi_wsclean_option *w)
{
    char line[256];
    msi_wsclean_describe(line, sizeof line, w);
    fprintf(out, "%s.\n", line);
    if (w->value) fprintf(out, "Any other value is refused: %s.\n", w->else_why);
}

/* Print every option whose name or text contains a word. Returns: the number of options */
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

/* Print the names of other options that contain the name of this option. */
static void print_relatives(FILE *out, const msi_option *of)
{
    const msi_option *o;
    int n = 0, column = 0;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        if (o == of || !strcasestr(o->name, of->name)) continue;
        if (!n++) column = fprintf(out, "\nSee also:");
        if (column + 2 + (int)strlen(o->name) > 80) column = fprintf(out, "\n         ");
        column += fprintf(out, " -%s", o->name);
    }
    if (n) fputc('\n', out);
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
    if (o) {
        msi_help_print_option(out, o);
        print_relatives(out, o);
    } else if (w)
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

/* ---- The man page and completions ---- */

enum { MOST_CHOICES = 256 };

/* Print text, with the characters escaped that roff would interpret or replace. */
static void roff_text(FILE *out, const char *text)
{
    for (const char *p = text; *p; p++) switch (*p) {
        case '\\':
            fputs("\\e", out);
            break;
        case '-':
            fputs("\\-", out);
            break;
        case '\'':
            fputs("\\(aq", out);
            break;
        case '~':
            fputs("\\(ti", out);
            break;
        case '^':
            fputs("\\(ha", out);
            break;
        default:
            fputc(*p, out);
        }
}

void msi_manual_options(FILE *out)
{
    for (int group = 0; group < MSI_N_GROUP; group++) {
        fprintf(out, ".SS %s\n", msi_option_groups[group].title);
        const msi_option *o;
        for (int i = 0; (o = msi_option_at(i)); i++) {
            if ((int)msi_option_group_of(o) != group) continue;
            fputs(".TP\n\\fB\\-", out);
            roff_text(out, o->name);
            if (o->alias) {
                fputs("\\fR, \\fB\\-", out);
                roff_text(out, o->alias);
            }
            fputs("\\fR", out);
            if (*o->arguments) fprintf(out, " \\fI%s\\fR", o->arguments);
            fputc('\n', out);
            roff_text(out, o->help);
            char choices[MOST_CHOICES];
            if (*msi_option_choice_words(choices, sizeof choices, o)) {
                fputs(" One of ", out);
                roff_text(out, choices);
                fputc('.', out);
            }
            if (msi_option_default(o)) {
                fputs(" Default: ", out);
                roff_text(out, msi_option_default(o));
                fputc('.', out);
            }
            fputc('\n', out);
        }
    }
}

static void print_choices(FILE *out, const msi_option *o)
{
    for (const char *p = msi_option_choices(o); *p; p++) fputc(*p == '|' ? ' ' : *p, out);
}

static void bash_arities(FILE *out)
{
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        int plain = msi_option_arity(o, "");
        if (plain == 0 && !o->more_after) continue;
        fprintf(out, "    %s%s%s) n=%d", o->name, o->alias ? "|" : "", o->alias ? o->alias : "", plain);
        if (o->more_after)
            fprintf(out, "; if [[ $2 == %s* ]]; then n=%d; fi", o->more_after, msi_option_arity(o, o->more_after));
        fputs(" ;;\n", out);
    }
}

static void bash_arguments(FILE *out)
{
    static const char reply[] = "mapfile -t COMPREPLY < <(compgen";
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        if (!msi_option_choices(o) && o->completion == MSI_COMPLETE_NOTHING) continue;
        fputs("            ", out);
        if (o->alias) fprintf(out, "%s:1|", o->alias);
        fprintf(out, "%s:1) ", o->name);
        if (msi_option_choices(o)) {
            fprintf(out, "%s -W '", reply);
            print_choices(out, o);
            fputs("' -- \"$cur\") ;;\n", out);
        } else {
            fprintf(out, "compopt -o filenames; %s %s -- \"$cur\") ;;\n", reply,
                    o->completion == MSI_COMPLETE_DIRECTORY ? "-d" : "-f");
        }
    }
}

void msi_manual_bash(FILE *out)
{
    fputs("# bash completion of msimage\n"
          "\n"
          "# Set n to the number of arguments of the option $1, followed by the word $2.\n"
          "_msimage_arity() {\n"
          "    case $1 in\n",
          out);
    bash_arities(out);
    fputs("    *) n=0 ;;\n"
          "    esac\n"
          "}\n"
          "\n"
          "_msimage() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} i=1 n name dash=-\n"
          "    COMPREPLY=()\n"
          "    while ((i < COMP_CWORD)); do\n"
          "        n=0\n"
          "        name=${COMP_WORDS[i]}\n"
          "        if [[ $name == -?* ]]; then\n"
          "            name=${name#-}\n"
          "            name=${name#-}\n"
          "            _msimage_arity \"$name\" \"${COMP_WORDS[i + 1]}\"\n"
          "        fi\n"
          "        if ((i + n >= COMP_CWORD)); then\n"
          "            case $name:$((COMP_CWORD - i)) in\n",
          out);
    bash_arguments(out);
    fputs("            esac\n"
          "            return\n"
          "        fi\n"
          "        i=$((i + n + 1))\n"
          "    done\n"
          "    if [[ $cur == -* ]]; then\n"
          "        if [[ $cur == --* ]]; then dash=--; fi\n"
          "        mapfile -t COMPREPLY < <(compgen -P $dash -W '",
          out);
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) fprintf(out, "%s%s", i ? " " : "", o->name);
    fputs("' -- \"${cur#\"$dash\"}\")\n"
          "    else\n"
          "        compopt -o filenames\n"
          "        mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")\n"
          "    fi\n"
          "}\n"
          "\n"
          "complete -F _msimage msimage\n",
          out);
}

/* Print the first sentence. Escape single quotes, and the brackets of an _arguments specification. */
static void zsh_summary(FILE *out, const char *help)
{
    const char *end = strstr(help, ". ");
    if (!end) end = help + strlen(help) - 1;
    for (const char *p = help; p < end; p++) {
        if (*p == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *p))
            fprintf(out, "\\%c", *p);
        else
            fputc(*p, out);
    }
}

static void zsh_arguments(FILE *out, const msi_option *o)
{
    size_t length;
    const char *word;
    for (int i = 0; (word = msi_option_word(o->arguments, ' ', i, &length)); i++) {
        int optional = *word == '[';
        fprintf(out, "%s%.*s:", optional ? "::" : ":", (int)length - 2 * optional, word + optional);
        if (i == 0 && msi_option_choices(o)) {
            fputc('(', out);
            print_choices(out, o);
            fputc(')', out);
        } else if (i == 0 && o->completion != MSI_COMPLETE_NOTHING) {
            fputs(o->completion == MSI_COMPLETE_DIRECTORY ? "_files -/" : "_files", out);
        } else {
            fputc(' ', out);
        }
    }
}

void msi_manual_zsh(FILE *out)
{
    fputs("#compdef msimage\n"
          "\n"
          "_arguments -S \\\n",
          out);
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        const char *names[] = {o->name, o->alias};
        for (int k = 0; k < 2 && names[k]; k++) {
            fprintf(out, "    '(-%s --%s)'{-%s,--%s}'[", names[k], names[k], names[k], names[k]);
            zsh_summary(out, o->help);
            fputc(']', out);
            zsh_arguments(out, o);
            fputs("' \\\n", out);
        }
    }
    fputs("    '*:Measurement Set:_files -/'\n", out);
}
