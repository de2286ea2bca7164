/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writes one column. `plan` checks the set and chooses the method. `prepare` makes the files of the column, or sets the
 * mark. `complete` adds the column to the table; `abandon` undoes the changes. ms_writer.h describes the methods.
 */
#include "io/ms/ms_column.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_mark.h"
#include "io/ms/ms_metadata.h"

/* ---- Names ---- */

/* Standard columns of the main table, which are never used for models. */
static const char PROTECTED[] =
    " ANTENNA1 ANTENNA2 ANTENNA3 ARRAY_ID BASELINE_REF DATA DATA_DESC_ID EXPOSURE FEED1 FEED2 FEED3 "
    "FIELD_ID FLAG FLAG_CATEGORY FLAG_ROW FLOAT_DATA IMAGING_WEIGHT INTERVAL LAG_DATA OBSERVATION_ID "
    "PHASE_ID PROCESSOR_ID PULSAR_BIN PULSAR_GATE_ID SCAN_NUMBER SIGMA SIGMA_SPECTRUM STATE_ID TIME "
    "TIME_CENTROID TIME_EXTRA_PREC UVW UVW2 VIDEO_POINT WEIGHT WEIGHT_SPECTRUM CORRECTED_WEIGHT_SPECTRUM ";

int msi_ms_column_is_protected(const char *name)
{
    char between[MSI_COLUMN_NAME + 2];
    snprintf(between, sizeof between, " %s ", name);
    return strstr(PROTECTED, between) != NULL;
}

static int is_plain_name(const char *name)
{
    static const char characters[] = "0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const size_t n = strlen(name);
    return n > 0 && n < MSI_COLUMN_NAME - 8 && strspn(name, characters) == n && !strchr("0123456789_", name[0]);
}

int msi_ms_column_check(const msi_ms_write_spec *spec)
{
    if (!spec->column || !is_plain_name(spec->column))
        return msi_error_set(MSI_EARGUMENT,
                             "'%s' is not a valid column name: it must be a letter, then up to 54 letters, digits, _",
                             spec->column ? spec->column : "");
    if (msi_ms_column_is_protected(spec->column))
        return msi_error_set(MSI_EARGUMENT, "column %s is not for visibilities; choose MODEL_DATA or a new name",
                             spec->column);
    if (spec->op == MSI_MS_WRITE_REPLACE) return MSI_OK;
    if (!spec->input_column || !*spec->input_column)
        return msi_error_set(MSI_EARGUMENT, "no column is given to add to or to subtract from");
    if (!strcmp(spec->column, spec->input_column))
        return msi_error_set(
            MSI_EARGUMENT,
            "%s cannot be both input and output, as a stopped run could not be repeated; choose another output column",
            spec->column);
    return MSI_OK;
}

/* ---- Files ---- */

/* Return 1 if a name belongs to a data file table.fN_TSMk or, with_header, to any file of storage manager N. */
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

/* Sync a file of the set, or its directory if name is NULL. */
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

/* Give the new table.dat and the new files the owner and mode of the old table.dat. */
static void keep_mode(const msi_ms_column *c, const char *path)
{
    DIR *d = opendir(path);
    if (!d) return;
    for (const struct dirent *e; (e = readdir(d));) {
        const int is_made = c->method != MSI_COLUMN_IN_PLACE && is_file_of(e->d_name, c->manager_file, 1);
        if (!is_made && strcmp(e->d_name, "table.dat") != 0) continue;
        const int fd = openat(dirfd(d), e->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) continue;
        msi_ms_column_copy_mode(c, fd);
        close(fd);
    }
    closedir(d);
}

/* Replace table.dat by casacore's state of the table in memory, and sync it. */
static int replace_header(const msi_ms_column *c, ccc_table *t)
{
    const char *path = ccc_table_path(t);
    MSI_CCC_WRITE(ccc_table_flush(t));
    keep_mode(c, path);
    MSI_TRY(sync_file(path, "table.dat"));
    return sync_file(path, NULL);
}

/* ---- Checks of the set ---- */

/* Return 1 if a data file of the column is a symbolic link or has another hard link. */
static int has_shared_files(const msi_ms_column *c, const char *path)
{
    int is_shared = 0;
    DIR *d = opendir(path);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat info;
        if (!is_file_of(e->d_name, c->manager_file, 0) || fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        is_shared |= S_ISLNK(info.st_mode) || (int)info.st_nlink > 1 + msi_ms_drop_links(dirfd(d), e->d_name);
    }
    closedir(d);
    return is_shared;
}

static int no_column(ccc_table *t, const char *column)
{
    char **names, list[1024];
    int64_t n;
    size_t used = 0;
    MSI_CCC(ccc_table_columns(t, &names, &n));
    list[0] = 0;
    for (int64_t i = 0; i < n && used < sizeof list; i++)
        if (strstr(names[i], "DATA") && strcmp(names[i], "DATA_DESC_ID") != 0)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", names[i]);
    ccc_free(names);
    return msi_error_set(MSI_EINPUT, "%s: has no column %s; its data columns are %s", ccc_table_path(t), column, list);
}

static int check_set(ccc_table *t)
{
    struct stat info;
    char file[4200];
    const char *path = ccc_table_path(t);
    if (!ccc_table_has_column(t, "DATA_DESC_ID") || !ccc_table_has_column(t, "UVW"))
        return msi_error_set(MSI_EINPUT, "%s: not a Measurement Set", path);
    if (!ccc_table_is_root(t))
        return msi_error_set(MSI_EINPUT, "%s: refers to rows of another set; predict into that set", path);
    if (ccc_table_n_row(t) == 0) return msi_error_set(MSI_EINPUT, "%s: has no rows", path);
    static const char *const multi[] = {"table.mf", "table.mfh5"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", path, multi[i]);
        if (stat(file, &info) == 0)
            return msi_error_set(MSI_EINPUT, "%s: all columns are in one file, %s, which cannot be written safely",
                                 path, multi[i]);
    }
    if (access(path, W_OK | X_OK) != 0)
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    return MSI_OK;
}

/* Describe a column. Fail unless it has arrays of complex numbers in single precision. An input column may also have
 * complex numbers in double precision, or real numbers in single precision. */
static int describe(ccc_table *t, const char *column, int is_input, ccc_column_info *info)
{
    MSI_CCC(ccc_column_describe(t, column, info));
    const int fits = info->type == CCC_COMPLEX || (is_input && (info->type == CCC_DCOMPLEX || info->type == CCC_FLOAT));
    if (!fits || info->is_scalar)
        return msi_error_set(MSI_EINPUT,
                             "%s: column %s has no arrays of complex numbers in single precision; choose another one",
                             ccc_table_path(t), column);
    return MSI_OK;
}

static int choose_shape_column(msi_ms_column *c, ccc_table *t, const char *column)
{
    static const char *const names[] = {"DATA", "CORRECTED_DATA", "FLOAT_DATA", "MODEL_DATA"};
    for (int i = 0; i < 4; i++)
        if (ccc_table_has_column(t, names[i]) && strcmp(names[i], column) != 0) {
            snprintf(c->shape_column, sizeof c->shape_column, "%s", names[i]);
            return MSI_OK;
        }
    return no_column(t, "DATA");
}

/* ---- Shapes ---- */

/* Number of rows for each shape of cells. The new column has a hypercube for each shape. */
typedef struct shapes {
    int64_t (*cell)[2], *n_row;
    int n, n_allocated;
} shapes;

static int count_shape(shapes *s, const int64_t *cell, int64_t n_row)
{
    int i = 0;
    while (i < s->n && (s->cell[i][0] != cell[0] || s->cell[i][1] != cell[1])) i++;
    if (i == s->n && s->n == s->n_allocated) {
        const int n = s->n ? 2 * s->n : 16;
        MSI_TRY(msi_grow(&s->cell, s->n, n, sizeof *s->cell, "shapes of cells"));
        MSI_TRY(msi_grow(&s->n_row, s->n, n, sizeof *s->n_row, "shapes of cells"));
        s->n_allocated = n;
    }
    if (i == s->n) {
        s->cell[i][0] = cell[0];
        s->cell[i][1] = cell[1];
        s->n_row[s->n++] = 0;
    }
    s->n_row[i] += n_row;
    return MSI_OK;
}

/* Fail if a cell of `column` in some rows has another shape than `cell`, the shape in `shape_column`. Cells without a
 * value are added to *n_undefined. */
static int compare(ccc_table *t, const char *column, int64_t row, int64_t n_row, const int64_t *cell,
                   const char *shape_column, int64_t *n_undefined)
{
    int64_t n_alike, shape[CCC_MAX_DIM] = {0};
    int ndim;
    for (int64_t end = row + n_row; row < end; row += n_alike) {
        MSI_CCC(ccc_rows_alike(t, column, row, end - row, &n_alike, &ndim, shape));
        if (ndim < 0)
            *n_undefined += n_alike;
        else if (ndim != 2 || shape[0] != cell[0] || shape[1] != cell[1])
            return msi_error_set(
                MSI_EINPUT, "%s: row %lld: the cell of %s is %lld x %lld (%d axes), that of %s %lld x %lld",
                ccc_table_path(t), (long long)row, column, (long long)shape[0], (long long)(ndim > 1 ? shape[1] : 1),
                ndim, shape_column, (long long)cell[0], (long long)cell[1]);
    }
    return MSI_OK;
}

/* Count the rows of each shape, and the cells of an existing column that have no value although the column with the
 * shapes has one. */
static int compare_rows(const msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec, int exists, shapes *s,
                        int64_t *n_undefined)
{
    int64_t n_alike, cell[CCC_MAX_DIM] = {0}, unused = 0;
    int ndim;
    for (int64_t row = 0; row < c->n_row; row += n_alike) {
        MSI_CCC(ccc_rows_alike(t, c->shape_column, row, c->n_row - row, &n_alike, &ndim, cell));
        if (ndim < 0) continue;
        if (ndim != 2)
            return msi_error_set(MSI_EINPUT, "%s: row %lld: the cell of %s has %d axes", ccc_table_path(t),
                                 (long long)row, c->shape_column, ndim);
        MSI_TRY(count_shape(s, cell, n_alike));
        if (exists) MSI_TRY(compare(t, spec->column, row, n_alike, cell, c->shape_column, n_undefined));
        if (spec->op != MSI_MS_WRITE_REPLACE)
            MSI_TRY(compare(t, spec->input_column, row, n_alike, cell, c->shape_column, &unused));
    }
    if (s->n == 0)
        return msi_error_set(MSI_EINPUT, "%s: no cell of %s has a value", ccc_table_path(t), c->shape_column);
    return MSI_OK;
}

/* Choose the tiles of the column with the shapes. If they are far too small or too large, choose tiles of whole cells,
 * about 512 kB each. */
static void choose_tile(msi_ms_column *c, const ccc_column_info *shape_info, const shapes *s)
{
    const int64_t small = 512, large = 2 << 20, wanted = 64 << 10; /* numbers of 8 bytes */
    if (shape_info->tile_ndim == 3) {
        const int64_t n = shape_info->tile_shape[0] * shape_info->tile_shape[1] * shape_info->tile_shape[2];
        if (n >= small && n <= large) {
            memcpy(c->tile_shape, shape_info->tile_shape, sizeof c->tile_shape);
            return;
        }
    }
    int64_t n_corr = 1, n_chan = 1;
    for (int i = 0; i < s->n; i++) {
        if (s->cell[i][0] > n_corr) n_corr = s->cell[i][0];
        if (s->cell[i][1] > n_chan) n_chan = s->cell[i][1];
    }
    c->tile_shape[0] = n_corr;
    c->tile_shape[1] = n_corr * n_chan <= wanted ? n_chan : (wanted + n_corr - 1) / n_corr;
    c->tile_shape[2] = wanted / (c->tile_shape[0] * c->tile_shape[1]);
    if (c->tile_shape[2] < 1) c->tile_shape[2] = 1;
    if (c->tile_shape[2] > c->n_row) c->tile_shape[2] = c->n_row;
}

static int64_t bytes_of(const msi_ms_column *c, const shapes *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->n; i++) {
        const int64_t cube[3] = {s->cell[i][0], s->cell[i][1], s->n_row[i]};
        int64_t n = 8;
        for (int k = 0; k < 3; k++) {
            /* casacore limits a tile to the size of its cube, except along the axis of rows. */
            const int64_t tile = k < 2 && c->tile_shape[k] > cube[k] ? cube[k] : c->tile_shape[k];
            n *= (cube[k] + tile - 1) / tile * tile;
        }
        bytes += n;
    }
    return bytes;
}

/* ---- Method ---- */

/*
 * Return 1 if values of the column can be overwritten in place without changing the header of its storage manager.
 * Columns of a TiledDataStMan share tiles, and casacore writes the bytes of the other columns back unchanged. So if a
 * process is killed while it writes a tile, the other columns in it are still intact. (Such a column cannot be renamed:
 * casacore would take it for the hypercube's id.)
 */
static int can_be_overwritten(const ccc_column_info *info)
{
    if (info->manager_file < 0) return 0;
    if (!strcmp(info->manager_type, "TiledDataStMan")) return 1;
    return info->manager_n_column == 1 &&
           (!strcmp(info->manager_type, "TiledShapeStMan") || !strcmp(info->manager_type, "TiledColumnStMan") ||
            !strcmp(info->manager_type, "TiledCellStMan"));
}

/* Return 1 if values are stored with loss: DyscoStMan compresses. */
static int is_lossy(const ccc_column_info *info)
{
    return !strcmp(info->manager_type, "DyscoStMan");
}

/* Fail if the column's storage manager may not find the column by a new name, which it gets when the table is opened
 * again. The managers in this list find it. */
static int check_rename(ccc_table *t, const char *column, const ccc_column_info *info)
{
    static const char *const known[] = {"StandardStMan",  "IncrementalStMan", "TiledShapeStMan", "TiledColumnStMan",
                                        "TiledCellStMan", "StManAipsIO",      "MemoryStMan",     "DyscoStMan"};
    const size_t length = strlen(info->manager_type);
    if (length < 5 || strcmp(info->manager_type + length - 5, "StMan") != 0) return MSI_OK; /* an engine */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(info->manager_type, known[i])) return MSI_OK;
    return msi_error_set(
        MSI_EINPUT,
        "%s: column %s is stored by %s and can neither be overwritten nor renamed safely; choose another output column",
        ccc_table_path(t), column, info->manager_type);
}

static void choose_old_name(msi_ms_column *c, ccc_table *t, const char *column)
{
    int i = 1;
    do snprintf(c->old_name, sizeof c->old_name, "%s_OLD_%d", column, i++);
    while (ccc_table_has_column(t, c->old_name));
}

static int check_files(const msi_ms_column *c, const char *path)
{
    int *fd, n;
    MSI_TRY(msi_ms_column_files(c, path, &fd, &n));
    int status = MSI_OK;
    for (int i = 0; i < n; i++) {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd[i]);
        if (status == MSI_OK && access(link, W_OK) != 0)
            status = msi_error_set(MSI_EOUTPUT, "%s: table.f%d_TSM..: cannot be written: %s", path, c->manager_file,
                                   strerror(errno));
        close(fd[i]);
    }
    msi_free(fd);
    return status;
}

/* Return 1 if the set has a model of components or images, which CASA uses instead of MODEL_DATA. */
static int has_virtual_model(ccc_table *t)
{
    static const char *const subtables[] = {NULL, "SOURCE", "FIELD"};
    int found = 0;
    for (int i = 0; i < 3 && !found; i++) {
        ccc_table *sub = NULL, *in = t;
        char **names, path[4200];
        int64_t n;
        if (subtables[i]) {
            snprintf(path, sizeof path, "%s/%s", ccc_table_path(t), subtables[i]);
            if (ccc_table_open(&sub, path, CCC_READ, CCC_LOCK_NONE) != CCC_OK) continue;
            in = sub;
        }
        if (ccc_keyword_names(in, NULL, &names, &n) == CCC_OK) {
            for (int64_t k = 0; k < n; k++)
                if (!strncmp(names[k], "model_", 6) || !strncmp(names[k], "definedmodel_", 13)) found = 1;
            ccc_free(names);
        }
        ccc_table_close(sub);
    }
    return found;
}

static int refuse_link(const char *path, const char *name)
{
    return msi_error_set(MSI_EINPUT, "%s/%s: is a link, and its target would be written; replace the link by a copy",
                         path, name);
}

int msi_ms_column_check_links(const char *path)
{
    /* table.dat is replaced by table.dat_tmp. If a killed program has left that file, it is written again. */
    static const char *const names[] = {"table.dat", "table.lock", "table.dat_tmp"};
    for (int i = 0; i < 3; i++) {
        struct stat info;
        char file[4200];
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (lstat(file, &info) != 0) continue;
        if (S_ISLNK(info.st_mode) || (i == 2 && info.st_nlink > 1)) return refuse_link(path, names[i]);
    }
    return MSI_OK;
}

/* Fail if a file with the name of a new column's file is a link, because casacore would write to the link's target. A
 * killed run may have left such a file. */
static int check_strays(ccc_table *t)
{
    const char *path = ccc_table_path(t);
    int status = MSI_OK;
    int32_t *numbers;
    int64_t n;
    MSI_CCC(ccc_table_managers(t, &numbers, &n));
    const int last = n ? numbers[n - 1] : -1;
    ccc_free(numbers);
    DIR *d = opendir(path);
    if (!d) return msi_error_set(MSI_EOUTPUT, "%s: %s", path, strerror(errno));
    for (const struct dirent *e; status == MSI_OK && (e = readdir(d));) {
        struct stat info;
        if (strncmp(e->d_name, "table.f", 7) != 0 || strspn(e->d_name + 7, "0123456789") == 0) continue;
        if (strtoll(e->d_name + 7, NULL, 10) <= last) continue;
        if (fstatat(dirfd(d), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (!S_ISREG(info.st_mode) || info.st_nlink > 1) status = refuse_link(path, e->d_name);
    }
    closedir(d);
    return status;
}

/* Store inode, mode and owner of table.dat. */
static int stat_table_dat(msi_ms_column *c, const char *path)
{
    struct stat dat;
    char file[4200];
    snprintf(file, sizeof file, "%s/table.dat", path);
    if (stat(file, &dat) != 0) return msi_error_set(MSI_EINPUT, "%s: %s", file, strerror(errno));
    c->table_dat = dat.st_ino;
    c->mode = dat.st_mode & 0777;
    c->owner = dat.st_uid;
    c->group = dat.st_gid;
    return MSI_OK;
}

/* Fail if the input column is incomplete. */
static int check_input(ccc_table *t, const char *column)
{
    char mark[512], selection[MSI_MS_MAX_SELECTION];
    if (!msi_ms_mark_read(t, column, mark, sizeof mark, selection, sizeof selection)) return MSI_OK;
    return msi_ms_watch_refuse(ccc_table_path(t), mark, selection);
}

int msi_ms_column_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    ccc_column_info info = {0}, shape_info, input;
    shapes s = {0};
    int64_t n_undefined = 0;
    memset(c, 0, sizeof *c);
    c->manager_file = -1;
    MSI_TRY(check_set(t));
    c->n_row = ccc_table_n_row(t);
    MSI_TRY(choose_shape_column(c, t, spec->column));
    MSI_TRY(describe(t, c->shape_column, 1, &shape_info));
    const int exists = ccc_table_has_column(t, spec->column);
    if (exists) MSI_TRY(describe(t, spec->column, 0, &info));
    if (exists && !strcmp(spec->column, "CORRECTED_DATA") && !msi_ms_mark_has_origin(t, spec->column))
        return msi_error_set(
            MSI_EARGUMENT,
            "%s: CORRECTED_DATA was not written by msimage and is not overwritten; choose another output column",
            ccc_table_path(t));
    if (spec->op != MSI_MS_WRITE_REPLACE) {
        if (!ccc_table_has_column(t, spec->input_column)) return no_column(t, spec->input_column);
        MSI_TRY(describe(t, spec->input_column, 1, &input));
        MSI_TRY(check_input(t, spec->input_column));
    }
    int status = compare_rows(c, t, spec, exists, &s, &n_undefined);
    /* Rows that are not in a hypercube of the column have no shape. */
    if (status == MSI_EINPUT && strcmp(info.manager_type, "TiledDataStMan") == 0)
        status = msi_error_append(status, "; name another output column");
    if (status == MSI_OK) {
        c->method = !exists                                         ? MSI_COLUMN_NEW
                    : can_be_overwritten(&info) && n_undefined == 0 ? MSI_COLUMN_IN_PLACE
                                                                    : MSI_COLUMN_SWAPPED;
        choose_tile(c, &shape_info, &s);
        c->is_fixed_shape = shape_info.is_fixed_shape;
        if (s.n > 0) memcpy(c->cell_shape, s.cell[0], sizeof c->cell_shape);
        if (c->method != MSI_COLUMN_IN_PLACE) c->disk_bytes = bytes_of(c, &s);
    }
    msi_free(s.cell);
    msi_free(s.n_row);
    MSI_TRY(status);
    if (c->method != MSI_COLUMN_IN_PLACE) MSI_TRY(check_strays(t));
    if (c->method == MSI_COLUMN_SWAPPED) {
        MSI_TRY(check_rename(t, spec->column, &info));
        choose_old_name(c, t, spec->column);
        c->is_lossy = is_lossy(&info);
    }
    if (c->method == MSI_COLUMN_IN_PLACE) {
        c->manager_file = info.manager_file;
        MSI_TRY(check_files(c, ccc_table_path(t)));
        c->is_shared = has_shared_files(c, ccc_table_path(t));
    }
    if (spec->drop_old) MSI_TRY(msi_ms_drop_plan(c, t, spec));
    c->was_marked =
        msi_ms_mark_read(t, spec->column, c->mark, sizeof c->mark, c->marked_selection, sizeof c->marked_selection);
    c->has_virtual_model = !strcmp(spec->column, "MODEL_DATA") && has_virtual_model(t);
    return stat_table_dat(c, ccc_table_path(t));
}

/* ---- Prepare ---- */

/* Set the shapes of the cells in the order of rows. Their values are zeros, which are holes in the file. */
static int make_cells(const msi_ms_column *c, ccc_table *t, const char *column)
{
    int64_t n_alike, cell[CCC_MAX_DIM];
    int ndim;
    for (int64_t row = 0; row < c->n_row; row += n_alike) {
        MSI_CCC_WRITE(ccc_rows_alike(t, c->shape_column, row, c->n_row - row, &n_alike, &ndim, cell));
        if (ndim == 2) MSI_CCC_WRITE(ccc_put_shapes(t, column, row, n_alike, ndim, cell));
    }
    return MSI_OK;
}

static int check_space(const msi_ms_column *c, const char *path)
{
    const int64_t headers = 2 << 20;
    struct statvfs fs;
    if (statvfs(path, &fs) != 0) return MSI_OK; /* the reservation will fail if there is no space */
    const int64_t bytes = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    if (bytes >= c->disk_bytes + headers) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: the column needs %.1f MB, but the file system has %.1f MB left", path,
                         1e-6 * (double)(c->disk_bytes + headers), 1e-6 * (double)bytes);
}

/* Allocate the holes on disk, so that later writes cannot fail for lack of space. */
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
            status = msi_error_set(MSI_EOUTPUT, "%s: cannot reserve %.1f MB for the column: %s", path,
                                   1e-6 * (double)c->disk_bytes, strerror(errno));
        if (writable >= 0) close(writable);
        close(fd[i]);
    }
    msi_free(fd);
    return status;
}

/* Add the column. If it replaces another one, copy the comment and the keywords: programs store information there, such
 * as CHANNEL_SELECTION of CASA. */
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
    MSI_TRY(msi_ms_drop_leftovers(t));
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
    if (c->stage == MSI_COLUMN_MARKED && !is_replaced) c->stage = MSI_COLUMN_PLANNED; /* the mark was not written */
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
