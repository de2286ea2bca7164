/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_paths.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_metadata.h"
#include "io/msv/msv_file.h"

/* Check access to the table.dat of a directory. */
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

/* Identifies a directory: two paths to the same directory are the same set. */
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

/* ---- Members of a multi-MS ---- */

/* Address space of the shared memory for the names of all members. */
static const int64_t SHARED_BYTES = (int64_t)64 << 20;

/* The shared memory. Each name has a terminating zero. */
typedef struct names {
    int64_t n, n_byte;
    char byte[];
} names;

/* The arguments of the child process. */
typedef struct job {
    const char *const *paths;
    int n_path;
} job;

/* Return 1 if a table concatenates others. The beginning of table.dat tells its kind. */
static int is_concatenation(const char *path)
{
    enum { HEAD = 512 };
    static const char kind[] = "ConcatTable";
    char head[HEAD], *name;
    struct stat info;
    if (asprintf(&name, "%s/table.dat", path) < 0) return 0;
    const int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(name);
    if (fd < 0) return 0;
    const ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    return n > 0 && memmem(head, (size_t)n, kind, sizeof kind - 1) != NULL;
}

/* ---- The child process ---- */

static int put_name(names *to, const char *name)
{
    const int64_t length = (int64_t)strlen(name) + 1;
    if (length > SHARED_BYTES - (int64_t)sizeof *to - to->n_byte)
        return msi_error_set(MSI_ENOMEM, "%s: too many members", name);
    memcpy(to->byte + to->n_byte, name, (size_t)length);
    to->n_byte += length;
    to->n++;
    return MSI_OK;
}

static int put_members(names *to, const char *path)
{
    ccc_table *t;
    char **parts;
    int64_t n;
    if (!is_concatenation(path)) return put_name(to, path);
    msi_child_progress(MSI_CHILD_STEP_S);
    MSI_CCC(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    int rc = ccc_table_parts(t, &parts, &n) == CCC_OK ? MSI_OK : msi_ms_failed(CCC_ENOMEM);
    for (int64_t i = 0; !rc && i < n; i++) rc = put_name(to, parts[i]);
    ccc_free(parts);
    ccc_table_close(t);
    return rc;
}

static int list_all(msi_child *self, void *of)
{
    const job *j = of;
    msi_ms_child_begin();
    msi_ms_limit_memory(j->paths, j->n_path);
    /* The members of a multi-MS are not among its files, so do not limit memory by its size. */
    msi_ms_limit_lift();
    for (int i = 0; i < j->n_path; i++) MSI_TRY(put_members(msi_child_shared(self), j->paths[i]));
    return MSI_OK;
}

/* ---- The caller ---- */

/* Check the names, which may be invalid if the table is damaged, and make a list of them. */
static int take_names(char ***out, int *n_out, const names *from, const char *path)
{
    const char *name = from->byte;
    const int64_t n_byte = from->n_byte, most = SHARED_BYTES - (int64_t)sizeof *from;
    int64_t n = 0;
    for (int64_t i = 0; i < n_byte && n_byte <= most; i++) n += from->byte[i] == 0;
    if (n < 1 || n > INT32_MAX || n != from->n || from->byte[n_byte - 1])
        return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: the names of its members are missing", path);
    const char **list;
    MSI_TRY(msi_alloc(&list, n, sizeof *list, "members"));
    for (int64_t i = 0; i < n; i++, name += strlen(name) + 1) list[i] = name;
    const int rc = msi_ms_paths_copy(out, list, (int)n);
    msi_free(list);
    *n_out = (int)n;
    return rc;
}

int msi_ms_members(char ***out, int *n_out, int *which, const char *const *paths, int n_path)
{
    msi_child *child;
    *out = NULL;
    *n_out = 0;
    for (*which = 0; *which < n_path && !is_concatenation(paths[*which]);) ++*which;
    if (*which == n_path) return MSI_OK;
    job of = {paths, n_path};
    const msi_child_spec spec = {.work = list_all,
                                 .of = &of,
                                 .what = "the reader process",
                                 .path = paths[*which],
                                 .shared_bytes = SHARED_BYTES,
                                 .cpu_s = MSI_CHILD_STEP_S};
    MSI_TRY(msi_child_start(&child, &spec));
    int rc = msi_child_await_done(child, MSI_EINPUT);
    if (!rc) rc = take_names(out, n_out, msi_child_shared(child), paths[*which]);
    msi_child_free(child);
    return rc;
}
