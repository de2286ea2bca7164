/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * set_ways SEED SET..: read each set by reader pools in both ways, directly and by casacore, with selections drawn from the
 * seed, and compare all blocks bit for bit. Prints for each set how many of its sets were read directly, and of how many
 * scalar columns.
 * set_ways -mutants SEED COUNT SET: change bytes of the set's files, or cut a file, and read what is left in both ways, with
 * one change at a time. Nothing may crash or hang; and if both ways read all blocks, these are the same. Prints how many
 * mutants were read by both ways, by one, and by none.
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_paths.h"
#include "io/ms/reader_pool.h"

enum { HANG_S = 120, MOST_FILE = 400 };

static uint64_t state = 1;

/* Return a random number below n. */
static int64_t draw(int64_t n)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return n > 0 ? (int64_t)((state >> 33) % (uint64_t)n) : 0;
}

static _Noreturn void fail(const char *set, const char *what)
{
    printf("%s: %s: %s\n", set, what, msi_error_get());
    exit(1);
}

/* A way to read a set. */
typedef struct way {
    msi_reader_pool *pool;
    msi_ms_reader *reader;
    msi_ms_block block;
    int status;
    char message[1024];
} way;

/* Keep the status of a step, and the line of its failure. */
static void keep(way *w, int status)
{
    w->status = status;
    if (status) snprintf(w->message, sizeof w->message, "%s", msi_error_get());
}

static void begin(way *w, int by_casacore, char *const *paths, int n_path, const msi_ms_selection *s, int n_process)
{
    const msi_ms_opening all = {
        .interval_begin = s->interval_begin, .interval_end = s->interval_end, .may_be_empty = 1};
    *w = (way){0};
    msi_ms_read_by_casacore(by_casacore);
    keep(w, msi_reader_pool_start(&w->pool, (const char *const *)paths, n_path, s, n_process, NULL));
    if (!w->status) keep(w, msi_reader_pool_open(w->pool, &all, &w->reader));
}

static void next(way *w, int by_casacore)
{
    msi_ms_read_by_casacore(by_casacore);
    if (!w->status) keep(w, msi_ms_reader_next(w->reader, &w->block));
}

static void end(way *w)
{
    msi_ms_reader_free(w->reader);
    msi_reader_pool_free(w->pool);
}

static int is_same(const msi_ms_block *a, const msi_ms_block *b)
{
    if (a->set != b->set || a->field_id != b->field_id || a->data_desc_id != b->data_desc_id || a->n_row != b->n_row ||
        a->n_chan != b->n_chan || a->n_corr != b->n_corr)
        return 0;
    const size_t n = (size_t)a->n_row, n_value = n * (size_t)(a->n_chan * a->n_corr);
    return memcmp(a->ms_row, b->ms_row, n * sizeof *a->ms_row) == 0 &&
           memcmp(a->time_s, b->time_s, n * sizeof *a->time_s) == 0 &&
           memcmp(a->uvw_m, b->uvw_m, 3 * n * sizeof *a->uvw_m) == 0 && memcmp(a->pair, b->pair, n) == 0 &&
           memcmp(a->antenna, b->antenna, 2 * n * sizeof *a->antenna) == 0 &&
           memcmp(a->data, b->data, n_value * sizeof *a->data) == 0 &&
           memcmp(a->weight, b->weight, n_value * sizeof *a->weight) == 0 && memcmp(a->flag, b->flag, n_value) == 0;
}

/* Read a set in both ways at once. Returned: w  the status of each way; *n_direct  sets that were read directly */
static void compare(char *const *paths, int n_path, const msi_ms_selection *s, way w[2], int *n_direct)
{
    *n_direct = 0;
    alarm(HANG_S);
    for (int by = 0; by < 2; by++) begin(&w[by], by, paths, n_path, s, 1 + (int)draw(2));
    for (int i = 0; w[0].reader && i < w[0].reader->n_set; i++) *n_direct += w[0].reader->set[i].only_rows;
    do {
        for (int by = 0; by < 2; by++) next(&w[by], by);
        if (w[0].status || w[1].status) break;
        if (!is_same(&w[0].block, &w[1].block)) fail(paths[0], "the two ways differ");
    } while (w[0].block.n_row > 0);
    for (int by = 0; by < 2; by++) end(&w[by]);
    alarm(0);
}

/* Draw a selection. */
static msi_ms_selection draw_selection(void)
{
    msi_ms_selection s = {.all_fields = 1, .may_be_empty = 1};
    if (draw(2)) s.min_uv_lambda = (double)draw(3000);
    if (draw(3) == 0) {
        s.channel_begin = draw(3);
        s.channel_end = s.channel_begin + 1 + draw(3);
    }
    if (draw(3) == 0) {
        s.interval_begin = draw(2);
        s.interval_end = s.interval_begin + 1 + draw(3);
    }
    if (draw(4) == 0) s.taql = draw(2) ? "ANTENNA1 % 2 == 0" : "rownumber() % 7 < 4";
    if (draw(4) == 0) s.model_column = "MODEL_DATA";
    if (draw(4) == 0) s.keep_flagged_rows = s.describe_rows = 1;
    return s;
}

/* Compare random ranges of the scalar columns. Returns how many columns were read directly. */
static int compare_scalars(const char *path)
{
    enum { RANGES = 30, MOST_ROWS = 500 };
    static const struct {
        const char *name;
        ccc_type type;
        size_t size;
    } columns[MSI_MS_N_SCALAR] = {[MSI_MS_TIME] = {"TIME", CCC_DOUBLE, 8},
                                  [MSI_MS_ANTENNA1] = {"ANTENNA1", CCC_INT32, 4},
                                  [MSI_MS_ANTENNA2] = {"ANTENNA2", CCC_INT32, 4},
                                  [MSI_MS_FLAG_ROW] = {"FLAG_ROW", CCC_BOOL, 1},
                                  [MSI_MS_DATA_DESC_ID] = {"DATA_DESC_ID", CCC_INT32, 4},
                                  [MSI_MS_FIELD_ID] = {"FIELD_ID", CCC_INT32, 4}};
    static double directly[MOST_ROWS], by_casacore[MOST_ROWS];
    int is_read[MSI_MS_N_SCALAR] = {0}, n_read = 0;
    msi_ms_set set = {.path = path};
    msi_ms_read_by_casacore(0);
    if (msi_ms_set_open(&set)) fail(path, "open");
    const int64_t n_row = ccc_table_n_row(set.table);
    for (int i = 0; i < RANGES * MSI_MS_N_SCALAR && set.scalars && n_row > 0; i++) {
        const int k = (int)draw(MSI_MS_N_SCALAR);
        const int64_t row = draw(n_row), most = n_row - row < MOST_ROWS ? n_row - row : MOST_ROWS, n = 1 + draw(most);
        if (!msi_scalar_columns_read(set.scalars, k, row, n, row + draw(2 * n), directly)) continue;
        is_read[k] = 1;
        if (ccc_get_range(set.table, columns[k].name, row, n, NULL, columns[k].type, by_casacore, n))
            fail(path, "read");
        if (memcmp(directly, by_casacore, (size_t)n * columns[k].size) != 0) fail(path, columns[k].name);
    }
    for (int k = 0; k < MSI_MS_N_SCALAR; k++) n_read += is_read[k];
    msi_ms_set_free(&set);
    return n_read;
}

static void compare_set(const char *path)
{
    enum { SELECTIONS = 4 };
    char **paths;
    int n_path, which, n_direct = 0, n;
    const msi_ms_selection all = {.all_fields = 1};
    if (msi_ms_members(&paths, &n_path, &which, &path, 1)) fail(path, "members");
    char *own[] = {strdup(path)};
    const int is_one = paths == NULL;
    for (int i = 0; i < SELECTIONS; i++) {
        way w[2];
        const msi_ms_selection s = i ? draw_selection() : all;
        compare(is_one ? own : paths, is_one ? 1 : n_path, &s, w, &n);
        if (i == 0) n_direct = n;
        /* A selection may be refused. */
        const int is_refused = i && w[0].status && strcmp(w[0].message, w[1].message) == 0;
        if (w[0].status != w[1].status || (w[0].status && !is_refused)) {
            printf("directly: %s; by casacore: %s\n", w[0].message, w[1].message);
            fail(path, "not read");
        }
    }
    printf("%d %d\n", n_direct, is_one ? compare_scalars(path) : 0);
    fflush(stdout);
    free(own[0]);
}

/* ---- Mutants ---- */

static char *file[MOST_FILE];
static int n_file;

static int list_file(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)at;
    if (type == FTW_F && S_ISREG(info->st_mode) && info->st_size > 0 && n_file < MOST_FILE)
        file[n_file++] = strdup(path);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Change one to four bytes or numbers of a file, or cut it. */
static void change(int fd, int64_t size)
{
    static const uint32_t borders[] = {0, 1, 2, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000};
    if (draw(8) == 0 && ftruncate(fd, draw(size)) == 0) return;
    for (int64_t k = 1 + draw(4); k > 0; k--) {
        const int64_t at = draw(draw(2) ? size : size < 4096 ? size : 4096);
        const uint32_t number = __builtin_bswap32(draw(2) ? borders[draw(8)] : (uint32_t)draw(1 << 20));
        const size_t n = draw(2) && at + 4 <= size ? 4 : 1;
        if (pwrite(fd, &number, n, at) != (ssize_t)n) fail(file[0], "write");
    }
}

static void mutate(const char *path, int64_t count)
{
    int n_by[4] = {0};
    char *paths[] = {strdup(path)};
    nftw(path, list_file, 8, FTW_PHYS);
    qsort(file, (size_t)n_file, sizeof *file, compare_names);
    for (int64_t i = 0; i < count; i++) {
        struct stat info;
        int n_direct;
        way w[2];
        const char *name = file[draw(n_file)];
        const int fd = open(name, O_RDWR | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &info) != 0) fail(name, "open");
        char *whole = malloc((size_t)info.st_size);
        if (!whole || pread(fd, whole, (size_t)info.st_size, 0) != info.st_size) fail(name, "read");
        change(fd, info.st_size);
        const msi_ms_selection s = draw_selection();
        compare(paths, 1, &s, w, &n_direct);
        n_by[2 * !w[0].status + !w[1].status]++;
        if (ftruncate(fd, info.st_size) != 0 || pwrite(fd, whole, (size_t)info.st_size, 0) != info.st_size)
            fail(name, "restore");
        free(whole);
        close(fd);
    }
    printf("%d %d %d\n", n_by[3], n_by[1] + n_by[2], n_by[0]);
    free(paths[0]);
}

int main(int argc, char **argv)
{
    msi_log_setup(MSI_LOG_QUIET, 0);
    if (argc == 5 && strcmp(argv[1], "-mutants") == 0) {
        state = strtoull(argv[2], NULL, 10);
        mutate(argv[4], strtoll(argv[3], NULL, 10));
        return 0;
    }
    if (argc > 1) state = strtoull(argv[1], NULL, 10);
    for (int i = 2; i < argc; i++) compare_set(argv[i]);
    return 0;
}
