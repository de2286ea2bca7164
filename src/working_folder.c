/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A check of the working directory before casacore is loaded. When its libraries are loaded, they read the name of this
 * directory into 1024 bytes. If the directory does not exist or its name is longer, they throw an exception, which
 * cannot be caught and ends the process. This function is in .preinit_array and so runs before any library, and can
 * print an error line.
 */
#include <string.h>
#include <unistd.h>

enum { CASACORE_PATH = 1024, EXIT_INPUT = 3 };

static void print_error(const char *text)
{
    /* If standard error is closed too, only the exit status is left. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static void check_working_folder(int n_argument, char **argument, char **environment)
{
    char path[CASACORE_PATH];
    (void)environment;
    if (getcwd(path, sizeof path)) return;
    const char *name = n_argument > 0 ? argument[0] : "msimage", *slash = strrchr(name, '/');
    print_error(slash ? slash + 1 : name);
    print_error(
        ": error: the working directory was removed, cannot be accessed, or has a name of more than 1023 bytes; "
        "start in another directory\n");
    _exit(EXIT_INPUT);
}

typedef void early_function(int n_argument, char **argument, char **environment);
__attribute__((section(".preinit_array"), used)) static early_function *const early = check_working_folder;
