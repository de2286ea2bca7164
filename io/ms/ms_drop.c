/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Removes old columns of predictions, to free their disk space.
 *
 * casacore deletes the files of a column before it changes table.dat. If the process were killed in between, the set
 * would be lost. So casacore works in a directory inside the set, msimage-drop-old, with hard links to all files of the
 * main table, and deletes only these links. One rename replaces table.dat of the set by the new one. Then files that no
 * storage manager uses are deleted. At any moment the set can be opened, with or without the old columns. A killed run
 * leaves the directory, and files to which table.dat does not refer. The next run that writes removes both.
 */
#include "io/ms/ms_column.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"
#include "io/ms/ms_metadata.h"

void msi_ms_column_copy_mode(const msi_ms_column *c, int fd)
{
    if (fchown(fd, c->owner, c->group) != 0 && fchown(fd, (uid_t)-1, c->group) != 0) errno = 0;
    fchmod(fd, c->mode);
}

/* ---- The directory ---- */

static const char FOLDER[] = "msimage-drop-old";

/* Return the number N in the name table.fN.. of a storage manager's file; -1 for other names. */
static int manager_of_file(const char *name)
{
    if (strncmp(name, "table.f", 7) != 0 || strspn(name + 7, "0123456789") == 0) return -1;
    const long n = strtol(name + 7, NULL, 10);
    return n < 1 << 20 ? (int)n : -1;
}

static int is_listed(const int32_t *numbers, int64_t n, int number)
{
    for (int64_t i = 0; i < n; i++)
        if (numbers[i] == number) return 1;
    return 0;
}

static int file_failed(const char *path, const char *name)
{
    return msi_error_set(MSI_EOUTPUT, "%s/%s: %s", path, name, strerror(errno));
}

/* Remove the directory with its contents, if it exists. */
static void remove_folder(int set_fd)
{
    const int fd = openat(set_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.' || strlen(e->d_name) > 2) unlinkat(fd, e->d_name, 0);
    closedir(d);
    unlinkat(set_fd, FOLDER, AT_REMOVEDIR);
}

/* Remove the files of storage managers that are not listed, then the directory. Do this last, so that the directory
 * exists as long as such files do. */
static void remove_rest(int set_fd, const int32_t *numbers, int64_t n)
{
    struct stat info;
    int is_left = 0;
    const int fd = openat(set_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const int number = manager_of_file(e->d_name);
        if (number < 0 || is_listed(numbers, n, number)) continue;
        if (fstatat(fd, e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode)) continue;
        is_left |= unlinkat(fd, e->d_name, 0) != 0;
    }
    closedir(d);
    if (!is_left) remove_folder(set_fd);
}

static int open_folder(const char *path, const char *name, int *fd)
{
    char folder[4300];
    snprintf(folder, sizeof folder, "%s/%s", path, name);
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *fd < 0 ? file_failed(path, name) : MSI_OK;
}

int msi_ms_drop_links(int set_fd, const char *name)
{
    struct stat here, there;
    char linked[300];
    snprintf(linked, sizeof linked, "%s/%.255s", FOLDER, name);
    return fstatat(set_fd, name, &here, AT_SYMLINK_NOFOLLOW) == 0 &&
           fstatat(set_fd, linked, &there, AT_SYMLINK_NOFOLLOW) == 0 && here.st_ino == there.st_ino;
}

/* ---- Choice of the old columns to remove ---- */

/* Fail if a file of the set is a link, since only the link would be removed. */
static int check_no_link(const char *path)
{
    struct stat info;
    int status = MSI_OK;
    DIR *d = opendir(path);
    if (!d) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; status == MSI_OK && (e = readdir(d));)
        if (manager_of_file(e->d_name) >= 0 && fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            !S_ISREG(info.st_mode))
            status = msi_error_set(MSI_EINPUT, "%s/%s: is a link, so the old column cannot be removed safely", path,
                                   e->d_name);
    closedir(d);
    return status;
}

/* Fail if other columns of the same storage manager cannot be moved to another one. */
static int check_removable(ccc_table *t, const char *column)
{
    ccc_column_info info;
    MSI_CCC(ccc_column_describe(t, column, &info));
    if (info.manager_n_column <= 1 || !strcmp(info.manager_type, "StandardStMan") ||
        !strcmp(info.manager_type, "IncrementalStMan"))
        return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: column %s could not be removed later: its %s also stores other columns",
                         ccc_table_path(t), column, info.manager_type);
}

static int is_old_column(ccc_table *t, const char *name)
{
    ccc_type type;
    return ccc_keyword_type(t, name, MSI_COLUMN_ASIDE, &type, NULL) == CCC_OK;
}

static int list_for_removal(msi_ms_column *c, ccc_table *t, const char *name)
{
    if (c->n_old == MSI_COLUMN_MOST_OLD || strlen(name) >= MSI_COLUMN_NAME) return MSI_OK; /* the next run drops it */
    MSI_TRY(check_removable(t, name));
    snprintf(c->old_columns[c->n_old++], MSI_COLUMN_NAME, "%s", name);
    return MSI_OK;
}

int msi_ms_drop_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    char **names, head[MSI_COLUMN_NAME + 8];
    int64_t n;
    const int length = snprintf(head, sizeof head, "%s_OLD_", spec->column);
    MSI_CCC(ccc_table_columns(t, &names, &n));
    int status = MSI_OK;
    for (int64_t i = 0; i < n && status == MSI_OK; i++)
        if (!strncmp(names[i], head, (size_t)length) && is_old_column(t, names[i]))
            status = list_for_removal(c, t, names[i]);
    ccc_free(names);
    MSI_TRY(status);
    if (c->method == MSI_COLUMN_SWAPPED) {
        MSI_TRY(list_for_removal(c, t, spec->column));
        snprintf(c->old_columns[c->n_old - 1], MSI_COLUMN_NAME, "%s", c->old_name);
    }
    return c->n_old ? check_no_link(ccc_table_path(t)) : MSI_OK;
}

/* ---- Files left by a killed run ---- */

int msi_ms_drop_leftovers(ccc_table *t)
{
    struct stat info;
    int fd, is_there;
    int32_t *numbers;
    int64_t n;
    MSI_TRY(open_folder(ccc_table_path(t), ".", &fd));
    is_there = fstatat(fd, FOLDER, &info, AT_SYMLINK_NOFOLLOW) == 0;
    int status = is_there ? ccc_table_managers(t, &numbers, &n) : CCC_OK;
    if (is_there && status == CCC_OK) {
        remove_rest(fd, numbers, n);
        ccc_free(numbers);
    }
    close(fd);
    return status == CCC_OK ? MSI_OK : msi_ms_failed(status);
}

/* ---- Removing old columns ---- */

/* The removal of old columns, in a separate directory, where a failure of casacore does not harm the set. */
typedef struct drop {
    int set_fd, folder_fd;
    int32_t *before, *after; /* numbers of all storage managers of the set, and of those that remain */
    int64_t n_before, n_after;
    int is_committed;
} drop;

static int link_files(const drop *p, const char *path)
{
    int status = MSI_OK;
    const int fd = openat(p->set_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d) return file_failed(path, ".");
    for (const struct dirent *e; status == MSI_OK && (e = readdir(d));) {
        const int number = manager_of_file(e->d_name);
        const int is_table = !strcmp(e->d_name, "table.dat");
        if (!is_table && (number < 0 || !is_listed(p->before, p->n_before, number))) continue;
        if (linkat(fd, e->d_name, p->folder_fd, e->d_name, 0) != 0) status = file_failed(path, e->d_name);
    }
    closedir(d);
    return status;
}

/* Let casacore remove the columns in the directory. */
static int remove_in_folder(drop *p, const msi_ms_column *c, const char *path)
{
    char folder[4300];
    ccc_table *t;
    snprintf(folder, sizeof folder, "%s/%s", path, FOLDER);
    MSI_CCC_WRITE(ccc_table_open(&t, folder, CCC_UPDATE, CCC_LOCK_HOLD));
    int status = CCC_OK;
    for (int i = 0; i < c->n_old && status == CCC_OK; i++) status = ccc_column_remove(t, c->old_columns[i]);
    if (status == CCC_OK) status = ccc_table_flush(t);
    if (status == CCC_OK) status = ccc_table_managers(t, &p->after, &p->n_after);
    /* Do not close a table that could not be written, because casacore would end the process. */
    if (status == CCC_OK) status = ccc_table_close(t);
    return status == CCC_OK ? MSI_OK : msi_ms_write_failed(status);
}

/* Set owner and mode of the new files and table.dat, sync them, and move the new files into the set. */
static int move_new(const drop *p, const msi_ms_column *c, const char *path)
{
    int status = MSI_OK;
    const int folder = openat(p->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
    if (!d) return file_failed(path, FOLDER);
    for (const struct dirent *e; status == MSI_OK && (e = readdir(d));) {
        const int number = manager_of_file(e->d_name);
        const int is_new = number >= 0 && !is_listed(p->before, p->n_before, number);
        if (!is_new && strcmp(e->d_name, "table.dat") != 0) continue;
        const int fd = openat(folder, e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            status = file_failed(path, e->d_name);
            break;
        }
        msi_ms_column_copy_mode(c, fd);
        if (fsync(fd) != 0) status = file_failed(path, e->d_name);
        close(fd);
        if (status == MSI_OK && is_new && renameat(folder, e->d_name, p->set_fd, e->d_name) != 0)
            status = file_failed(path, e->d_name);
    }
    closedir(d);
    return status;
}

static int replace_table_dat(drop *p, ccc_table *t)
{
    MSI_CCC_WRITE(ccc_table_forget_changes(t));
    p->is_committed = renameat(p->folder_fd, "table.dat", p->set_fd, "table.dat") == 0;
    return p->is_committed && fsync(p->set_fd) == 0 ? MSI_OK : file_failed(ccc_table_path(t), "table.dat");
}

static int drop_in_folder(drop *p, msi_ms_column *c, ccc_table *t)
{
    struct stat info;
    const char *path = ccc_table_path(t);
    MSI_TRY(open_folder(path, ".", &p->set_fd));
    if (fstatat(p->set_fd, "table.dat", &info, 0) != 0) return file_failed(path, "table.dat");
    c->table_dat = (uint64_t)info.st_ino;
    MSI_CCC(ccc_table_managers(t, &p->before, &p->n_before));
    c->last_manager = p->n_before ? p->before[p->n_before - 1] : -1;
    c->is_dropping = 1;
    if (mkdirat(p->set_fd, FOLDER, 0700) != 0) return file_failed(path, FOLDER);
    MSI_TRY(open_folder(path, FOLDER, &p->folder_fd));
    MSI_TRY(link_files(p, path));
    MSI_TRY(remove_in_folder(p, c, path));
    MSI_TRY(move_new(p, c, path));
    MSI_TRY(replace_table_dat(p, t));
    remove_rest(p->set_fd, p->after, p->n_after);
    c->is_dropping = 0;
    c->is_dropped = 1;
    return MSI_OK;
}

int msi_ms_drop_columns(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    drop p = {.set_fd = -1, .folder_fd = -1};
    if (!c->n_old) {
        c->is_dropped = 1;
        return MSI_OK;
    }
    const int status = drop_in_folder(&p, c, t);
    if (p.folder_fd >= 0) close(p.folder_fd);
    if (p.set_fd >= 0) close(p.set_fd);
    ccc_free(p.before);
    ccc_free(p.after);
    if (status == MSI_OK) return MSI_OK;
    return msi_error_append(status,
                            p.is_committed ? "; %s is complete and %s is removed, but its files stay until the next run"
                                           : "; %s is complete, but %s is not removed",
                            spec->column, c->old_columns[0]);
}

void msi_ms_drop_abandon(msi_ms_column *c, const char *path)
{
    struct stat info;
    int fd;
    if (!c->is_dropping || open_folder(path, ".", &fd) != MSI_OK) return;
    c->is_dropping = 0;
    /* The new table.dat refers to the new files, so only the old ones are left, which the next run removes. */
    if (fstatat(fd, "table.dat", &info, 0) == 0 && (uint64_t)info.st_ino == c->table_dat) {
        DIR *d = fdopendir(dup(fd));
        for (const struct dirent *e; d && (e = readdir(d));)
            if (manager_of_file(e->d_name) > c->last_manager) unlinkat(fd, e->d_name, 0);
        if (d) closedir(d);
        remove_folder(fd);
    }
    close(fd);
}
