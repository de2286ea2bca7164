/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_paths.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/msv/msv_file.h"

/* Call access() for the table.dat of a directory. */
static int has_table(const char *path, int mode)
{
    char *table;
    if (asprintf(&table, "%s/table.dat", path) < 0) return 0;
    const int has = access(table, mode) == 0;
    free(table);
    return has;
}

int msi_ms_path_is_table(const char *path)
{
    return has_table(path, F_OK);
}

int msi_ms_paths_exist(const char *const *paths, int n_path)
{
    for (int i = 0; i < n_path; i++)
        if (msi_msv_is_file(paths[i]) ? access(paths[i], R_OK) != 0 : !has_table(paths[i], R_OK)) return 0;
    return 1;
}

/* Two paths are the same set if they lead to the same directory. */
typedef struct identity {
    dev_t device;
    ino_t inode;
    int path;
} identity;

static int compare_identities(const void *x, const void *y)
{
    const identity *a = x, *b = y;
    if (a->device != b->device) return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode) return a->inode < b->inode ? -1 : 1;
    return a->path - b->path;
}

int msi_ms_paths_same(const char *const *paths, int n_path, int *a, int *b)
{
    identity *list;
    int n = 0, is_same = 0;
    if (msi_alloc(&list, n_path, sizeof *list, "paths") != MSI_OK) return 0;
    for (int i = 0; i < n_path; i++) {
        struct stat info;
        if (stat(paths[i], &info) == 0) list[n++] = (identity){info.st_dev, info.st_ino, i};
    }
    qsort(list, (size_t)n, sizeof *list, compare_identities);
    for (int i = 1; i < n && !is_same; i++) {
        is_same = list[i].device == list[i - 1].device && list[i].inode == list[i - 1].inode;
        *a = list[i - 1].path;
        *b = list[i].path;
    }
    msi_free(list);
    return is_same;
}

static int64_t bytes_of(const char *path)
{
    int64_t bytes = 0;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return info.st_size;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) bytes += info.st_size;
    closedir(d);
    return bytes;
}

int64_t msi_ms_paths_bytes(const char *const *paths, int n_path)
{
    int64_t bytes = 0;
    for (int i = 0; i < n_path; i++) bytes += bytes_of(paths[i]);
    return bytes;
}

int msi_ms_paths_copy(char ***out, const char *const *paths, int n_path)
{
    int64_t size = n_path * (int64_t)sizeof **out;
    for (int i = 0; i < n_path; i++) size += (int64_t)strlen(paths[i]) + 1;
    MSI_TRY(msi_alloc(out, size, 1, "paths"));
    char *text = (char *)(*out + n_path);
    for (int i = 0; i < n_path; i++) {
        (*out)[i] = strcpy(text, paths[i]);
        text += strlen(paths[i]) + 1;
    }
    return MSI_OK;
}
