/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_mark.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_metadata.h"

#define MARK   MSI_MS_MARK
#define ORIGIN "MSIMAGE_MODEL"

static void field_name(char *name, size_t size, const char *column, const char *field)
{
    snprintf(name, size, "%s.%s%s%s", MARK, column, field ? "." : "", field ? field : "");
}

static void now_utc(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

int msi_ms_mark_read(ccc_table *t, const char *column, char *text, size_t size, char *selection, size_t selection_size)
{
    static const char *const fields[] = {"STARTED", "PROGRAM", "MODEL"};
    char name[256];
    ccc_type type;
    field_name(name, sizeof name, column, NULL);
    if (ccc_keyword_type(t, NULL, name, &type, NULL) != CCC_OK) return 0;
    size_t n = (size_t)snprintf(text, size, "%s", column);
    for (int i = 0; i < 3 && n < size; i++) {
        char *value;
        field_name(name, sizeof name, column, fields[i]);
        if (ccc_keyword_get_string(t, NULL, name, &value) != CCC_OK) continue;
        n += (size_t)snprintf(text + n, size - n, ", %s", value);
        ccc_free(value);
    }
    char *value;
    field_name(name, sizeof name, column, "SELECTION");
    selection[0] = 0;
    if (ccc_keyword_get_string(t, NULL, name, &value) == CCC_OK) {
        snprintf(selection, selection_size, "%s", value);
        ccc_free(value);
    }
    return 1;
}

int msi_ms_mark_put(ccc_table *t, const char *column, const char *model, const char *selection)
{
    char name[256], started[32];
    now_utc(started, sizeof started);
    const char *const fields[][2] = {{"STATE", "incomplete"},
                                     {"STARTED", started},
                                     {"PROGRAM", "msimage " MSIMAGE_VERSION},
                                     {"MODEL", model},
                                     {"SELECTION", selection}};
    for (int i = 0; i < 5; i++) {
        field_name(name, sizeof name, column, fields[i][0]);
        const int failed = ccc_keyword_put_string(t, NULL, name, fields[i][1]);
        if (failed) return failed;
    }
    return CCC_OK;
}

int msi_ms_mark_remove(ccc_table *t, const char *column)
{
    char name[256];
    ccc_type type;
    int64_t n;
    field_name(name, sizeof name, column, NULL);
    if (ccc_keyword_type(t, NULL, name, &type, NULL) == CCC_ENOTFOUND) return CCC_OK;
    int failed = ccc_keyword_remove(t, NULL, name);
    if (!failed) failed = ccc_keyword_type(t, NULL, MARK, &type, &n);
    return failed || n > 0 ? failed : ccc_keyword_remove(t, NULL, MARK);
}

int msi_ms_mark_origin(ccc_table *t, const char *column, const char *model)
{
    char text[1024], now[32];
    now_utc(now, sizeof now);
    snprintf(text, sizeof text, "%s, msimage " MSIMAGE_VERSION ", %s", now, model);
    return ccc_keyword_put_string(t, column, ORIGIN, text);
}

/* Copy the value of the keyword MSIMAGE_MODEL of a column; "" if it is missing. */
static void read_origin(ccc_table *t, const char *column, char *text, size_t size)
{
    char *value;
    text[0] = 0;
    if (ccc_keyword_get_string(t, column, ORIGIN, &value) != CCC_OK) return;
    snprintf(text, size, "%s", value);
    ccc_free(value);
}

int msi_ms_mark_has_origin(ccc_table *t, const char *column)
{
    ccc_type type;
    return ccc_keyword_type(t, column, ORIGIN, &type, NULL) == CCC_OK;
}

static const char *watched_path(const msi_ms_watch *w, const char *path)
{
    return w->root ? w->root : path;
}

/* ---- table.dat ---- */

/* Store the identity of table.dat. If stat fails the inode is 0, which msi_ms_watch_is_same never treats as the
 * same. */
static void stat_table_dat(msi_ms_watch *w, const char *path)
{
    char file[4200];
    struct stat info = {0};
    snprintf(file, sizeof file, "%s/table.dat", watched_path(w, path));
    if (stat(file, &info) != 0) info.st_ino = 0;
    w->device = info.st_dev;
    w->inode = info.st_ino;
    w->changed_ns = (int64_t)info.st_ctim.tv_sec * 1000000000 + info.st_ctim.tv_nsec;
}

int msi_ms_watch_is_same(const msi_ms_watch *w, const char *path)
{
    msi_ms_watch now = {.root = w->root};
    stat_table_dat(&now, path);
    return now.inode && now.inode == w->inode && now.device == w->device && now.changed_ns == w->changed_ns;
}

/* Find the table that has the columns of a reference table; *root is NULL if the table has its own columns. */
static int find_root(ccc_table *t, char **root)
{
    char **parts;
    int64_t n;
    *root = NULL;
    if (ccc_table_is_root(t)) return MSI_OK;
    MSI_CCC(ccc_table_parts(t, &parts, &n));
    if (n == 1 && strcmp(parts[0], ccc_table_path(t)) != 0) *root = strdup(parts[0]);
    ccc_free(parts);
    return MSI_OK;
}

int msi_ms_watch_open(msi_ms_watch *w, const char *path, ccc_table **out)
{
    stat_table_dat(w, path);
    MSI_CCC(ccc_table_open(out, path, CCC_READ, CCC_LOCK_NONE));
    if (w->root) return MSI_OK;
    MSI_TRY(find_root(*out, &w->root));
    if (!w->root) return MSI_OK;
    /* Only now is it known which table.dat must be watched. Store its identity, and open the table again after that. */
    ccc_table_close(*out);
    *out = NULL;
    stat_table_dat(w, path);
    MSI_CCC(ccc_table_open(out, path, CCC_READ, CCC_LOCK_NONE));
    return MSI_OK;
}

/* ---- Marks ---- */

/* Return 1 if another process has casacore's lock, which is on the first byte of the file. */
int msi_ms_watch_is_locked(const char *table)
{
    char file[4200];
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    if (snprintf(file, sizeof file, "%s/table.lock", table) >= (int)sizeof file) return 0;
    const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    const int is_held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;
    close(fd);
    return is_held;
}

int msi_ms_watch_refuse(const char *set, const char *mark, const char *selection)
{
    return msi_error_set(MSI_EINPUT,
                         "%s: a prediction was stopped while it wrote (%s), so the column is incomplete; repeat it "
                         "with its selection (%s) before reading the column",
                         set, mark, selection);
}

int msi_ms_watch_rewritten(const char *set, const char *column)
{
    return msi_error_set(MSI_EINPUT, "%s: column %s was rewritten while it was read; read it again", set, column);
}

/* Hash the values that identify one writing of a column: time and model in its keyword, and its storage manager. */
static uint64_t hash_writing(ccc_table *t, const char *column, uint64_t hash)
{
    char origin[1024];
    ccc_column_info info = {0};
    read_origin(t, column, origin, sizeof origin);
    hash = msi_hash(hash, origin, (int64_t)strlen(origin));
    if (ccc_column_describe(t, column, &info) != CCC_OK) info.manager_file = -1;
    return msi_hash(hash, &info.manager_file, sizeof info.manager_file);
}

/* Return 1 if table.dat has the keyword of marks, else 0. */
static int has_marks(const char *table)
{
    char file[4200], *bytes = NULL;
    struct stat info;
    int has = 0;
    snprintf(file, sizeof file, "%s/table.dat", table);
    const int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return 0;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && info.st_size < (64 << 20) &&
        msi_alloc(&bytes, info.st_size, 1, "table.dat") == MSI_OK) {
        const ssize_t n = pread(fd, bytes, (size_t)info.st_size, 0);
        has = n > 0 && memmem(bytes, (size_t)n, MSI_MS_MARK, sizeof MSI_MS_MARK - 1) != NULL;
    }
    msi_free(bytes);
    close(fd);
    return has;
}

/* If this process has already opened a table, as Python may have, casacore shares it in its earlier state. Read it
 * again if only one of the file and the shared state has marks. */
static int resync_marks(const char *table, ccc_table *t)
{
    ccc_type type;
    const int is_known = ccc_keyword_type(t, NULL, MSI_MS_MARK, &type, NULL) == CCC_OK;
    if (has_marks(table) != is_known) MSI_CCC(ccc_table_resync(t));
    return MSI_OK;
}

static int check_columns(const msi_ms_watch *w, const char *path, ccc_table *t, const char *const *columns,
                         uint64_t *written)
{
    char mark[512], selection[512];
    *written = 0;
    MSI_TRY(resync_marks(watched_path(w, path), t));
    for (int i = 0; i < 2; i++) {
        if (!*columns[i]) continue;
        *written = hash_writing(t, columns[i], *written);
        if (!msi_ms_mark_read(t, columns[i], mark, sizeof mark, selection, sizeof selection)) continue;
        /* A prediction that has ended since the table was opened has no lock any more, but may have completed the
         * column. */
        if (msi_ms_watch_is_locked(watched_path(w, path)) || !msi_ms_watch_is_same(w, path))
            return msi_error_set(MSI_ELOCKED, "%s: a prediction is writing (%s); read the column after it has ended",
                                 path, mark);
        return msi_ms_watch_refuse(path, mark, selection);
    }
    return MSI_OK;
}

int msi_ms_watch_check(const msi_ms_watch *w, const char *path, ccc_table *t, const char *const *columns,
                       uint64_t *written)
{
    ccc_table *root;
    if (!w->root) return check_columns(w, path, t, columns, written);
    /* Marks are in the table that has the columns. casacore has opened it together with the reference table. */
    MSI_CCC(ccc_table_open(&root, w->root, CCC_READ, CCC_LOCK_NONE));
    const int status = check_columns(w, path, root, columns, written);
    ccc_table_close(root);
    return status;
}

void msi_ms_watch_free(msi_ms_watch *w)
{
    free(w->root);
    memset(w, 0, sizeof *w);
}
