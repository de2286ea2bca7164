/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-make-manual TEMPLATE MAN BASH ZSH: writes the man page and the completions of msimage, for the build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/options/help.h"

static void fail(const char *path)
{
    perror(path);
    exit(EXIT_FAILURE);
}

static FILE *open_or_fail(const char *path, const char *mode)
{
    FILE *f = fopen(path, mode);
    if (!f) fail(path);
    return f;
}

static void close_or_fail(FILE *f, const char *path)
{
    if (ferror(f) | fclose(f)) fail(path);
}

/* Copy the template, with the line @OPTIONS@ replaced by the options and @VERSION@ by the version. */
static void write_man(const char *template_path, const char *path)
{
    char line[1024];
    FILE *in = open_or_fail(template_path, "r"), *out = open_or_fail(path, "w");
    while (fgets(line, sizeof line, in)) {
        char *version = strstr(line, "@VERSION@");
        if (strcmp(line, "@OPTIONS@\n") == 0)
            msi_manual_options(out);
        else if (version)
            fprintf(out, "%.*s%s%s", (int)(version - line), line, MSIMAGE_VERSION, version + strlen("@VERSION@"));
        else
            fputs(line, out);
    }
    close_or_fail(in, template_path);
    close_or_fail(out, path);
}

static void write_script(void (*print)(FILE *), const char *path)
{
    FILE *out = open_or_fail(path, "w");
    print(out);
    close_or_fail(out, path);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: msimage-make-manual TEMPLATE MAN BASH ZSH\n");
        return EXIT_FAILURE;
    }
    write_man(argv[1], argv[2]);
    write_script(msi_manual_bash, argv[3]);
    write_script(msi_manual_zsh, argv[4]);
    return EXIT_SUCCESS;
}
