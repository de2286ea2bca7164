/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A program that casacore is linked to cannot start everywhere: as its libraries are loaded they ask for the working
 * folder, in 1024 bytes, and where there is none, or a longer name, an exception that nobody can catch ends the
 * process. Functions of .preinit_array run before those of any library, so that this can be said first.
 */
#include <string.h>
#include <unistd.h>

enum { CASACORE_PATH = 1024, EXIT_INPUT = 3 };

static void print(const char *text)
{
    /* Where standard error is gone, too, the exit status tells. */
    if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

static void check_working_folder(int n_argument, char **argument, char **environment)
{
    char path[CASACORE_PATH];
    (void)environment;
    if (getcwd(path, sizeof path)) return;
    const char *name = n_argument > 0 ? argument[0] : "msimage", *slash = strrchr(name, '/');
    print(slash ? slash + 1 : name);
    print(": error: the working folder is gone, or cannot be reached, or its name has more than 1023 bytes; begin in "
          "another\n");
    _exit(EXIT_INPUT);
}

typedef void early_function(int n_argument, char **argument, char **environment);
__attribute__((section(".preinit_array"), used)) static early_function *const early = check_working_folder;
