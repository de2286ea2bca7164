/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/manual.h"

#include <string.h>

#include "src/options/option_table.h"

enum { MAX_CHOICES = 256 };

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
            char choices[MAX_CHOICES];
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

/* Print the first sentence, escaped for single quotes and for the brackets of an _arguments specification. */
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
