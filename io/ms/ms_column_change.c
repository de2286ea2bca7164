/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A set is changed for a column by new files, the mark and a new table.dat; or the change is undone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_column_drop.h"
#include "io/ms/ms_mark.h"
#include "io/ms/ms_set.h"

int msi_ms_write_failed(int ccc_status)
{
    const int status = ccc_status == CCC_ENOMEM ? MSI_ENOMEM : ccc_status == CCC_ELOCKED ? MSI_ELOCKED : MSI_EOUTPUT;
    return msi_error_set(status, "%s", ccc_error());
}

/* ---- Files ---- */

/* Ask whether a name is that of a data file (table.fN_TSMk) or, with_header, of any file of the storage manager N. */
static int is_file_of(const char *name, int manager, int with_header)
{
    char head[32];
    const size_t n = (size_t)snprintf(head, sizeof head, "table.f%d", manager);
    if (strncmp(name, head, n) != 0) return 0;
    if (!name[n]) return with_header;
    if (strncmp(name + n, "_TSM", 4) != 0 || !name[n + 4]) return 0;
    return name[n + 4 + strspn(name + n + 4, "0123456789")] == 0;
}

int msi_ms_column_files(const msi_ms_column *c, const char *path, int **fd, int *n)
{
    int status = MSI_OK, n_allocated = 0;
    *fd = NULL;
    *n = 0;
    DIR *d = opendir(path);
    if (!d) return msi_error_set(MSI_EOUTPUT, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; status == MSI_OK && (e = readdir(d));) {
        if (!is_file_of(e->d_name, c->manager_file, 0)) continue;
        if (*n == n_allocated) {
            n_allocated = *n ? 2 * *n : 4;
            status = msi_grow(fd, *n, n_allocated, sizeof **fd, "open files");
            if (status != MSI_OK) break;
        }
        (*fd)[*n] = openat(dirfd(d), e->d_name, O_RDONLY | O_CLOEXEC);
        if ((*fd)[*n] < 0)
            status = msi_error_set(MSI_EOUTPUT, "%s/%s: %s", path, e->d_name, strerror(errno));
        else
            ++*n;
    }
    closedir(d);
    if (status == MSI_OK) return MSI_OK;
    while (*n > 0) close((*fd)[--*n]);
    msi_free(*fd);
    *fd = NULL;
    return status;
}

int msi_ms_column_is_shared(const msi_ms_column *c, const char *path)
{
    int is_shared = 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat info;
        if (!is_file_of(e->d_name, c->manager_file, 0) || fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        is_shared |= S_ISLNK(info.st_mode) || (int)info.st_nlink > 1 + msi_ms_column_drop_links(dirfd(d), e->d_name);
    }
    closedir(d);
    return is_shared;
}

void msi_ms_column_keep_mode(const msi_ms_column *c, int fd)
{
    if (fchown(fd, c->owner, c->group) != 0 && fchown(fd, (uid_t)-1, c->group) != 0) errno = 0;
    fchmod(fd, c->mode);
}

/* Let whoever could read and write the set go on to: table.dat, which was replaced, and the files that were made, if
 * any, are given table.dat's owner and mode. */
static void keep_mode(const msi_ms_column *c, const char *path)
{
    DIR *d = opendir(path);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const int is_made = c->method != MSI_COLUMN_IN_PLACE && is_file_of(e->d_name, c->manager_file, 1);
        if (!is_made && strcmp(e->d_name, "table.dat") != 0) continue;
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        msi_ms_column_keep_mode(c, fd);
        close(fd);
    }
    closedir(d);
}

/* Sync a file of the set, or the directory itself where name is NULL. */
static int sync_file(const char *path, const char *name)
{
    char file[4200];
    snprintf(file, sizeof file, "%s%s%s", path, name ? "/" : "", name ? name : "");
    const int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return msi_error_set(MSI_EOUTPUT, "%s: %s", file, strerror(errno));
    const int failed = fsync(fd) != 0 ? errno : 0;
    close(fd);
    if (failed) return msi_error_set(MSI_EOUTPUT, "%s: cannot be synced: %s", file, strerror(failed));
    return MSI_OK;
}

/* Replace table.dat by what casacore has in memory, and sync it. */
static int replace_header(const msi_ms_column *c, ccc_table *t)
{
    const char *path = ccc_table_path(t);
    MSI_CCC_WRITE(ccc_table_flush(t));
    keep_mode(c, path);
    MSI_TRY(sync_file(path, "table.dat"));
    return sync_file(path, NULL);
}

/* ---- Prepare ---- */

/* Give the cells their shapes in the order of the rows; they are zeros, and holes in the file. */
static int make_cells(const msi_ms_column *c, ccc_table *t, const char *column)
{
    int64_t n_alike, cell[CCC_MAX_DIM];
    int ndim;
    for (int64_t row = 0; row < c->n_row; row += n_alike) {
        MSI_CCC_WRITE(ccc_rows_alike(t, c->like, row, c->n_row - row, &n_alike, &ndim, cell));
        if (ndim == 2) MSI_CCC_WRITE(ccc_put_shapes(t, column, row, n_alike, ndim, cell));
    }
    return MSI_OK;
}

static int check_space(const msi_ms_column *c, const char *path)
{
    const int64_t headers = 2 << 20;
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) return MSI_OK; /* the reservation will tell */
    const int64_t bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (bytes >= c->disk_bytes + headers) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: the column needs %.1f MB, the file system has %.1f MB left", path,
                         1e-6 * (double)(c->disk_bytes + headers), 1e-6 * (double)bytes);
}

/* Fill the holes with blocks, so that no write can fail for want of space. */
static int reserve(const msi_ms_column *c, const char *path)
{
    int *fd, n, status = MSI_OK;
    MSI_TRY(msi_ms_column_files(c, path, &fd, &n));
    for (int i = 0; i < n; i++) {
        struct stat info;
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd[i]);
        const int writable = open(link, O_WRONLY | O_CLOEXEC);
        if (writable >= 0 && fstat(writable, &info) == 0 && info.st_size > 0 && status == MSI_OK &&
            fallocate(writable, 0, 0, info.st_size) != 0 && errno != EOPNOTSUPP && errno != ENOSYS)
            status = msi_error_set(MSI_EOUTPUT, "%s: the column's %.1f MB cannot be reserved: %s", path,
                                   1e-6 * (double)c->disk_bytes, strerror(errno));
        if (writable >= 0) close(writable);
        close(fd[i]);
    }
    msi_free(fd);
    return status;
}

/* Add the column. One that takes the place of another has its comment and keywords too: programs look there for what
 * they put, such as CASA for CHANNEL_SELECTION. */
static int add_column(const msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    const int is_swapped = c->method == MSI_COLUMN_SWAPPED;
    char *old_comment = NULL;
    ccc_column_spec column = {.name = spec->column,
                              .type = CCC_COMPLEX,
                              .ndim = 2,
                              .is_fixed_shape = c->is_fixed_shape,
                              .comment = strcmp(spec->column, "MODEL_DATA") ? "Visibilities by msimage"
                                                                            : "The model data column"};
    memcpy(column.shape, c->cell_shape, sizeof c->cell_shape);
    ccc_storage storage = {.type = "TiledShapeStMan", .tile_ndim = 3};
    memcpy(storage.tile_shape, c->tile_shape, sizeof c->tile_shape);
    if (is_swapped) {
        MSI_CCC_WRITE(ccc_column_rename(t, spec->column, c->old_name));
        MSI_CCC_WRITE(ccc_column_comment(t, c->old_name, &old_comment));
        column.comment = old_comment;
    }
    const int failed = ccc_column_add(t, &column, &storage);
    ccc_free(old_comment);
    MSI_CCC_WRITE(failed);
    if (is_swapped) {
        MSI_CCC_WRITE(ccc_keyword_copy(t, c->old_name, spec->column));
        MSI_CCC_WRITE(ccc_keyword_put_string(t, c->old_name, MSI_COLUMN_ASIDE, spec->column));
    }
    MSI_CCC_WRITE(ccc_keyword_put_string(t, spec->column, "UNIT", "Jy"));
    return MSI_OK;
}

static int make_column(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    const char *path = ccc_table_path(t);
    ccc_column_info info;
    MSI_TRY(check_space(c, path));
    c->stage = MSI_COLUMN_FILLING;
    MSI_CCC_WRITE(ccc_table_forget_changes(t));
    MSI_TRY(add_column(c, t, spec));
    MSI_CCC_WRITE(ccc_column_describe(t, spec->column, &info));
    c->manager_file = info.manager_file;
    if (!c->is_fixed_shape) MSI_TRY(make_cells(c, t, spec->column));
    return reserve(c, path);
}

int msi_ms_column_prepare(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    MSI_TRY(msi_ms_column_drop_tidy(t));
    if (c->method != MSI_COLUMN_IN_PLACE) return make_column(c, t, spec);
    c->stage = MSI_COLUMN_MARKED;
    MSI_CCC_WRITE(msi_ms_mark_put(t, spec->column, spec->description ? spec->description : "",
                                  spec->selection ? spec->selection : ""));
    return replace_header(c, t);
}

/* ---- Complete, abandon ---- */

int msi_ms_column_complete(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    char header[32];
    MSI_CCC_WRITE(msi_ms_mark_origin(t, spec->column, spec->description ? spec->description : ""));
    MSI_CCC_WRITE(msi_ms_mark_remove(t, spec->column));
    if (c->method == MSI_COLUMN_IN_PLACE) {
        MSI_TRY(replace_header(c, t));
    } else {
        c->stage = MSI_COLUMN_JOINING;
        MSI_CCC_WRITE(ccc_table_flush(t));
        keep_mode(c, ccc_table_path(t));
        snprintf(header, sizeof header, "table.f%d", c->manager_file);
        MSI_TRY(sync_file(ccc_table_path(t), header));
        MSI_TRY(sync_file(ccc_table_path(t), "table.dat"));
        MSI_TRY(sync_file(ccc_table_path(t), NULL));
    }
    c->stage = MSI_COLUMN_COMPLETE;
    return MSI_OK;
}

void msi_ms_column_abandon(msi_ms_column *c, const char *path, ccc_table *t, const msi_ms_write_spec *spec)
{
    struct stat info;
    DIR *d = c->stage == MSI_COLUMN_PLANNED || c->stage == MSI_COLUMN_COMPLETE ? NULL : opendir(path);
    if (!d) return;
    const int is_replaced = fstatat(dirfd(d), "table.dat", &info, 0) == 0 && (uint64_t)info.st_ino != c->table_dat;
    if (c->stage == MSI_COLUMN_JOINING && is_replaced) c->stage = MSI_COLUMN_COMPLETE;
    if (c->stage == MSI_COLUMN_MARKED && !is_replaced) c->stage = MSI_COLUMN_PLANNED; /* the mark never got there */
    unlinkat(dirfd(d), "table.dat_tmp", 0);
    if ((c->stage == MSI_COLUMN_FILLING || c->stage == MSI_COLUMN_JOINING) && c->manager_file >= 0) {
        for (const struct dirent *e; (e = readdir(d));)
            if (is_file_of(e->d_name, c->manager_file, 1)) unlinkat(dirfd(d), e->d_name, 0);
        c->stage = MSI_COLUMN_PLANNED;
    }
    closedir(d);
    if (c->stage == MSI_COLUMN_MARKED && t && !c->touched && !c->was_marked &&
        msi_ms_mark_remove(t, spec->column) == CCC_OK && replace_header(c, t) == MSI_OK)
        c->stage = MSI_COLUMN_PLANNED;
}
