/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A column that is to be written is checked against its set, and the way of writing it is chosen. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_column_drop.h"
#include "io/ms/ms_mark.h"
#include "io/ms/ms_set.h"
#include "io/ms/ms_watch.h"

/* ---- Names ---- */

/* Standard columns of the main table, which are not for models. */
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
                             "'%s' cannot be a column's name: a letter, then up to 54 letters, digits, _",
                             spec->column ? spec->column : "");
    if (msi_ms_column_is_protected(spec->column))
        return msi_error_set(
            MSI_EARGUMENT, "visibilities are not written into column %s: take MODEL_DATA or a new name", spec->column);
    if (spec->op == MSI_MS_WRITE_REPLACE) return MSI_OK;
    if (!spec->input_column || !*spec->input_column)
        return msi_error_set(MSI_EARGUMENT, "there is no column to add to or to subtract from");
    if (!strcmp(spec->column, spec->input_column))
        return msi_error_set(MSI_EARGUMENT,
                             "%s cannot be both read and written, or a run that was stopped could not be redone: name "
                             "another output column",
                             spec->column);
    return MSI_OK;
}

/* ---- What is there ---- */

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
    return msi_error_set(MSI_EINPUT, "%s: has no column %s; there are %s", ccc_table_path(t), column, list);
}

static int check_set(ccc_table *t)
{
    struct stat info;
    char file[4200];
    const char *path = ccc_table_path(t);
    if (!ccc_table_has_column(t, "DATA_DESC_ID") || !ccc_table_has_column(t, "UVW"))
        return msi_error_set(MSI_EINPUT, "%s: not a Measurement Set", path);
    if (!ccc_table_is_root(t))
        return msi_error_set(MSI_EINPUT, "%s: refers to rows of another set: predict into that one", path);
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

/* Describe a column, and fail unless it holds arrays of complex numbers or, of an input, what can stand for them. */
static int describe(ccc_table *t, const char *column, int is_input, ccc_column_info *info)
{
    MSI_CCC(ccc_column_describe(t, column, info));
    const int fits = info->type == CCC_COMPLEX || (is_input && (info->type == CCC_DCOMPLEX || info->type == CCC_FLOAT));
    if (!fits || info->is_scalar)
        return msi_error_set(MSI_EINPUT, "%s: column %s does not hold arrays of complex numbers of 2 x 4 bytes",
                             ccc_table_path(t), column);
    return MSI_OK;
}

static int choose_shape_column(msi_ms_column *c, ccc_table *t, const char *column)
{
    static const char *const names[] = {"DATA", "CORRECTED_DATA", "FLOAT_DATA", "MODEL_DATA"};
    for (int i = 0; i < 4; i++)
        if (ccc_table_has_column(t, names[i]) && strcmp(names[i], column) != 0) {
            snprintf(c->like, sizeof c->like, "%s", names[i]);
            return MSI_OK;
        }
    return no_column(t, "DATA");
}

/* ---- Shapes ---- */

/* Rows with cells of one shape are one hypercube of the new column. */
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

/* Fail unless the cells of `column` have the given shape in some rows; *n_undefined counts those without a value. */
static int compare(ccc_table *t, const char *column, int64_t row, int64_t n_row, const int64_t *cell, const char *like,
                   int64_t *n_undefined)
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
                ndim, like, (long long)cell[0], (long long)cell[1]);
    }
    return MSI_OK;
}

/* Count the shapes of the set, and the cells of the column that is there that have no value where DATA's have one. */
static int compare_rows(const msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec, int is_there, shapes *s,
                        int64_t *n_undefined)
{
    int64_t n_alike, cell[CCC_MAX_DIM] = {0}, unused = 0;
    int ndim;
    for (int64_t row = 0; row < c->n_row; row += n_alike) {
        MSI_CCC(ccc_rows_alike(t, c->like, row, c->n_row - row, &n_alike, &ndim, cell));
        if (ndim < 0) continue;
        if (ndim != 2)
            return msi_error_set(MSI_EINPUT, "%s: row %lld: the cell of %s has %d axes", ccc_table_path(t),
                                 (long long)row, c->like, ndim);
        MSI_TRY(count_shape(s, cell, n_alike));
        if (is_there) MSI_TRY(compare(t, spec->column, row, n_alike, cell, c->like, n_undefined));
        if (spec->op != MSI_MS_WRITE_REPLACE)
            MSI_TRY(compare(t, spec->input_column, row, n_alike, cell, c->like, &unused));
    }
    if (s->n == 0) return msi_error_set(MSI_EINPUT, "%s: no cell of %s has a value", ccc_table_path(t), c->like);
    return MSI_OK;
}

/* Take DATA's tiles, unless they are absurdly small or large; else tiles of about 512 kB of whole cells. */
static void choose_tile(msi_ms_column *c, const ccc_column_info *like, const shapes *s)
{
    const int64_t small = 512, large = 2 << 20, wanted = 64 << 10; /* numbers of 8 bytes */
    if (like->tile_ndim == 3) {
        const int64_t n = like->tile_shape[0] * like->tile_shape[1] * like->tile_shape[2];
        if (n >= small && n <= large) {
            memcpy(c->tile_shape, like->tile_shape, sizeof c->tile_shape);
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
            /* casacore makes a tile no wider than its cube, but for the axis of the rows. */
            const int64_t tile = k < 2 && c->tile_shape[k] > cube[k] ? cube[k] : c->tile_shape[k];
            n *= (cube[k] + tile - 1) / tile * tile;
        }
        bytes += n;
    }
    return bytes;
}

/* ---- The way ---- */

/*
 * Tell whether a column's values can be overwritten where they are, without a change of its manager's header. Columns
 * of a TiledDataStMan share their tiles with others, whose bytes are written back as they were read: a tile that is
 * half written, by a process that is killed, has the others' whole all the same. (Nor could such a column be given
 * another name: casacore takes it for the hypercube's id then.)
 */
static int can_be_overwritten(const ccc_column_info *info)
{
    if (info->manager_file < 0) return 0;
    if (!strcmp(info->manager_type, "TiledDataStMan")) return 1;
    return info->manager_n_column == 1 &&
           (!strcmp(info->manager_type, "TiledShapeStMan") || !strcmp(info->manager_type, "TiledColumnStMan") ||
            !strcmp(info->manager_type, "TiledCellStMan"));
}

/* DyscoStMan compresses what it stores. */
static int is_lossy(const ccc_column_info *info)
{
    return !strcmp(info->manager_type, "DyscoStMan");
}

/* Managers are asked for a column by its new name when the table is opened again: of those that are not known, nobody
 * can say what they make of it. */
static int check_rename(ccc_table *t, const char *column, const ccc_column_info *info)
{
    static const char *const known[] = {"StandardStMan",  "IncrementalStMan", "TiledShapeStMan", "TiledColumnStMan",
                                        "TiledCellStMan", "StManAipsIO",      "MemoryStMan",     "DyscoStMan"};
    const size_t length = strlen(info->manager_type);
    if (length < 5 || strcmp(info->manager_type + length - 5, "StMan") != 0) return MSI_OK; /* values made of others */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(info->manager_type, known[i])) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: column %s is stored by %s: it can neither be overwritten nor be given another name "
                         "safely; name another output column",
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

/* CASA prefers a model that is stored as components or images to MODEL_DATA. */
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
    return msi_error_set(MSI_EINPUT, "%s/%s: is a link, and what it leads to would be written; put a copy in its place",
                         path, name);
}

int msi_ms_column_check_links(const char *path)
{
    /* table.dat is replaced by table.dat_tmp, which is left where a program was killed, and then written again. */
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

/* Fail where a name that a new column's files may get is a link: casacore writes into files that are there already, as
 * a run that was killed leaves them. */
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

/* Remember what table.dat is. */
static int look_at_header(msi_ms_column *c, const char *path)
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

/* What an earlier run has left half written is nothing to add to or to subtract from. */
static int check_input(ccc_table *t, const char *column)
{
    char mark[512], selection[MSI_MS_MAX_SELECTION];
    if (!msi_ms_mark_read(t, column, mark, sizeof mark, selection, sizeof selection)) return MSI_OK;
    return msi_ms_watch_refuse(ccc_table_path(t), mark, selection);
}

int msi_ms_column_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec)
{
    ccc_column_info info = {0}, like, input;
    shapes s = {0};
    int64_t n_undefined = 0;
    memset(c, 0, sizeof *c);
    c->manager_file = -1;
    MSI_TRY(check_set(t));
    c->n_row = ccc_table_n_row(t);
    MSI_TRY(choose_shape_column(c, t, spec->column));
    MSI_TRY(describe(t, c->like, 1, &like));
    const int is_there = ccc_table_has_column(t, spec->column);
    if (is_there) MSI_TRY(describe(t, spec->column, 0, &info));
    if (is_there && !strcmp(spec->column, "CORRECTED_DATA") && !msi_ms_mark_has_origin(t, spec->column))
        return msi_error_set(MSI_EARGUMENT,
                             "%s: has a CORRECTED_DATA that msimage did not write: it will not be overwritten; name "
                             "another output column",
                             ccc_table_path(t));
    if (spec->op != MSI_MS_WRITE_REPLACE) {
        if (!ccc_table_has_column(t, spec->input_column)) return no_column(t, spec->input_column);
        MSI_TRY(describe(t, spec->input_column, 1, &input));
        MSI_TRY(check_input(t, spec->input_column));
    }
    int status = compare_rows(c, t, spec, is_there, &s, &n_undefined);
    /* Rows may have no place in its hypercubes, and then not even a shape to ask for. */
    if (status == MSI_EINPUT && strcmp(info.manager_type, "TiledDataStMan") == 0)
        status = msi_error_append(status, "; name another output column");
    if (status == MSI_OK) {
        c->method = !is_there                                       ? MSI_COLUMN_NEW
                    : can_be_overwritten(&info) && n_undefined == 0 ? MSI_COLUMN_IN_PLACE
                                                                    : MSI_COLUMN_SWAPPED;
        choose_tile(c, &like, &s);
        c->is_fixed_shape = like.is_fixed_shape;
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
        c->is_shared = msi_ms_column_is_shared(c, ccc_table_path(t));
    }
    if (spec->drop_old) MSI_TRY(msi_ms_column_drop_plan(c, t, spec));
    c->was_marked =
        msi_ms_mark_read(t, spec->column, c->mark, sizeof c->mark, c->marked_selection, sizeof c->marked_selection);
    c->has_virtual_model = !strcmp(spec->column, "MODEL_DATA") && has_virtual_model(t);
    return look_at_header(c, ccc_table_path(t));
}
