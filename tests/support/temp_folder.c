/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/temp_folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char temp_folder[256];

int temp_folder_setup(void **state)
{
    (void)state;
    fixture_temp(temp_folder, sizeof temp_folder);
    return 0;
}

int temp_folder_teardown(void **state)
{
    (void)state;
    fixture_remove(temp_folder);
    return 0;
}

int temp_folder_enter(void **state)
{
    return temp_folder_setup(state) || chdir(temp_folder);
}

int temp_folder_leave(void **state)
{
    return chdir("/") || temp_folder_teardown(state);
}

void fixture_temp(char *path, int size)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, (size_t)size, "%s/msimage-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path)) {
        perror(path);
        exit(1);
    }
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

void fixture_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int temp_folder_n_file(const char *path)
{
    DIR *d = opendir(path);
    if (!d) return -1;
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

int temp_folder_n_open(void)
{
    return temp_folder_n_file("/proc/self/fd");
}
