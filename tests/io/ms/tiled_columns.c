/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * tiled_columns TABLE..: read every column that is alone in its tiles by tiled_column.h, all rows and channels and random parts of
 * them, and compare with the values in file TABLE.COLUMN. Prints the number of columns of each table.
 * tiled_columns -mutants SEED COUNT TABLE: change bytes of the columns' headers, or cut their files, and read whatever is
 * still recognised. Nothing may crash, and nothing beyond a file may be read. Prints how many were still recognised.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/tiled_column.h"

static uint64_t state = 1;

/* Return a random number below n. */
static int64_t draw(int64_t n)
{
    state = state * 6364136223846793005U + 1442695040888963407U;
    return n > 0 ? (int64_t)((state >> 33) % (uint64_t)n) : 0;
}

static _Noreturn void fail(const char *column, const char *what)
{
    printf("%s: %s: %s %s\n", column, what, msi_error_get(), ccc_error());
    exit(1);
}

static void *memory(int64_t n)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), 1);
    if (!p) exit(2);
    return p;
}

/* Describe the place of a column. Returns 0 unless it is alone in its tiles. */
static int find_place(ccc_table *t, const char *column, msi_tiled_place *place, ccc_type *type)
{
    ccc_column_info info;
    if (ccc_column_describe(t, column, &info) != CCC_OK) fail(column, "describe");
    *type = info.type;
    *place = (msi_tiled_place){.manager = -1, .number = info.manager_file};
    for (int i = 0; i < MSI_TILED_N_MANAGER; i++)
        if (strcmp(info.manager_type, msi_tiled_manager_names[i]) == 0) place->manager = i;
    place->type = info.type == CCC_BOOL      ? MSI_TILED_BOOL
                  : info.type == CCC_FLOAT   ? MSI_TILED_FLOAT
                  : info.type == CCC_DOUBLE  ? MSI_TILED_DOUBLE
                  : info.type == CCC_COMPLEX ? MSI_TILED_COMPLEX
                                             : MSI_TILED_NONE;
    return place->manager >= 0 && place->type != MSI_TILED_NONE && info.manager_n_column == 1 && !info.is_scalar;
}

static int64_t size_of(const msi_tiled_place *place)
{
    return place->type == MSI_TILED_BOOL ? 1 : place->type == MSI_TILED_FLOAT ? 4 : 8;
}

/* Compare the shapes of the cells from a row on. Returns: how many share the shape, which is in shape[]. */
static int64_t compare_shapes(ccc_table *t, const char *column, const msi_tiled_column *c, int64_t row, int64_t n_row,
                              int64_t shape[2])
{
    int ndim;
    int64_t expected[CCC_MAX_DIM], n;
    const int64_t n_alike = msi_tiled_column_alike(c, row, n_row - row, shape);
    if (ccc_rows_alike(t, column, row, n_row - row, &n, &ndim, expected) != CCC_OK) fail(column, "shapes");
    if (ndim < 1) expected[0] = expected[1] = 0;
    if (ndim == 1) expected[1] = 1;
    if (n != n_alike || shape[0] != expected[0] || shape[1] != expected[1]) fail(column, "other shapes");
    return n_alike;
}

/* The values of a column as python-casacore read them cell by cell: all cells that have a value, in the order of rows. */
typedef struct truth {
    char *bytes;
    int64_t n_byte;
    int64_t *at; /* [n_row] where the cell of a row begins */
} truth;

static truth read_truth(const char *table, const char *column)
{
    char path[4400];
    struct stat info;
    truth v = {0};
    snprintf(path, sizeof path, "%.4000s.%.300s", table, column);
    FILE *f = fopen(path, "rb");
    if (!f || fstat(fileno(f), &info) != 0) fail(column, "no truth");
    v.n_byte = (int64_t)info.st_size;
    v.bytes = memory(v.n_byte);
    if (fread(v.bytes, 1, (size_t)v.n_byte, f) != (size_t)v.n_byte) fail(column, "no truth");
    fclose(f);
    return v;
}

/* Compare some of the rows [row, row + n), and a range of channels. */
static void compare_part(const char *column, int64_t size, const msi_tiled_column *c, const truth *v,
                         const int64_t shape[2], int64_t row, int64_t n, int is_whole)
{
    msi_tiled_scratch scratch = {0};
    int64_t *list = memory(n * (int64_t)sizeof *list), n_list = 0;
    const int64_t first = is_whole ? 0 : draw(shape[1]), n_chan = is_whole ? shape[1] : 1 + draw(shape[1] - first);
    const int64_t keeps = is_whole ? 1 : 1 + draw(4), bytes = n_chan * shape[0] * size;
    for (int64_t i = 0; i < n; i++)
        if (is_whole || draw(keeps) == 0) list[n_list++] = row + i;
    char *direct = memory(n_list * bytes);
    if (n_list > 0 && msi_tiled_column_read(c, list, n_list, shape[0], first, n_chan, &scratch, direct))
        fail(column, "read");
    for (int64_t i = 0; i < n_list; i++)
        if (memcmp(direct + i * bytes, v->bytes + v->at[list[i]] + first * shape[0] * size, (size_t)bytes) != 0)
            fail(column, "other values");
    msi_tiled_scratch_free(&scratch);
    free(direct);
    free(list);
}

static int compare_column(ccc_table *t, const char *table, const char *column)
{
    msi_tiled_place place;
    msi_tiled_column *c;
    ccc_type type;
    const int64_t n_row = ccc_table_n_row(t);
    int64_t shape[2], at = 0;
    if (!find_place(t, column, &place, &type)) return 0;
    if (msi_tiled_column_open(&c, table, &place, n_row) != MSI_OK) fail(column, "open");
    if (!c) fail(column, "not recognised");
    truth v = read_truth(table, column);
    v.at = memory(n_row * (int64_t)sizeof *v.at);
    for (int64_t row = 0, n; row < n_row; row += n) {
        n = compare_shapes(t, column, c, row, n_row, shape);
        const int64_t cell = shape[0] * shape[1] * size_of(&place);
        if (cell == 0) continue;
        if (cell * n > v.n_byte - at) fail(column, "more values");
        for (int64_t i = 0; i < n; i++, at += cell) v.at[row + i] = at;
        for (int i = 0; i < 6; i++) compare_part(column, size_of(&place), c, &v, shape, row, n, i == 0);
    }
    if (at != v.n_byte) fail(column, "fewer values");
    free(v.at);
    free(v.bytes);
    msi_tiled_column_free(c);
    return 1;
}

static int compare_table(const char *table)
{
    ccc_table *t;
    char **names;
    int64_t n;
    int n_read = 0;
    if (ccc_table_open(&t, table, CCC_READ, CCC_LOCK_NONE) != CCC_OK || ccc_table_columns(t, &names, &n) != CCC_OK)
        fail(table, "open");
    for (int64_t i = 0; i < n; i++) n_read += compare_column(t, table, names[i]);
    ccc_free(names);
    ccc_table_close(t);
    return n_read;
}

/* ---- Mutants ---- */

/* Read every cell of a column that is recognised; errors are fine. */
static void read_all(const msi_tiled_column *c, const msi_tiled_place *place, int64_t n_row)
{
    enum { MOST = 1 << 24 };
    msi_tiled_scratch scratch = {0};
    int64_t shape[2];
    for (int64_t row = 0, n; row < n_row; row += n) {
        n = msi_tiled_column_alike(c, row, n_row - row, shape);
        const int64_t bytes = shape[0] * shape[1] * size_of(place);
        if (bytes == 0 || bytes > MOST) continue;
        void *out = memory(bytes); /* of one cell, so that a sanitizer notices any further byte */
        const int64_t last = row + n - 1;
        (void)!msi_tiled_column_read(c, &row, 1, shape[0], 0, shape[1], &scratch, out);
        (void)!msi_tiled_column_read(c, &last, 1, shape[0], shape[1] / 2, shape[1] - shape[1] / 2, &scratch, out);
        free(out);
    }
    msi_tiled_scratch_free(&scratch);
}

/* Change a header's bytes: one to four times a byte or a number of 4 bytes, often to one at the limit of a type. */
static void change(unsigned char *byte, int64_t n)
{
    static const uint32_t borders[] = {0, 1, 2, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x10000};
    for (int64_t k = 1 + draw(4); k > 0; k--) {
        const int64_t at = draw(n);
        if (draw(2) || at + 4 > n) {
            byte[at] = (unsigned char)draw(256);
            continue;
        }
        uint32_t number = draw(2) ? borders[draw(8)] : (uint32_t)draw(1 << 20);
        for (int i = 0; i < 4; i++) byte[at + i] = (unsigned char)(number >> (24 - 8 * i));
    }
}

static int mutate_column(ccc_table *t, const char *table, const char *column, int64_t count)
{
    msi_tiled_place place;
    ccc_type type;
    char path[4200];
    int n_recognised = 0;
    if (!find_place(t, column, &place, &type)) return 0;
    snprintf(path, sizeof path, "%.4000s/table.f%d", table, place.number);
    struct stat info;
    if (stat(path, &info) != 0) fail(column, "header");
    const int64_t size = (int64_t)info.st_size;
    unsigned char *whole = memory(size), *byte = memory(size);
    const int fd = open(path, O_RDWR);
    if (fd < 0 || pread(fd, whole, (size_t)size, 0) != size) fail(column, "header");
    for (int64_t i = 0; i < count; i++) {
        msi_tiled_column *c;
        const int64_t length = draw(16) ? size : draw(size);
        memcpy(byte, whole, (size_t)size);
        change(byte, size);
        if (ftruncate(fd, length) != 0 || pwrite(fd, byte, (size_t)length, 0) != length) fail(column, "header");
        msi_tiled_place other = place;
        if (draw(32) == 0) other.manager = (int32_t)draw(3);
        if (msi_tiled_column_open(&c, table, &other, ccc_table_n_row(t)) != MSI_OK) continue;
        n_recognised += c != NULL;
        if (c) read_all(c, &other, ccc_table_n_row(t));
        msi_tiled_column_free(c);
    }
    if (pwrite(fd, whole, (size_t)size, 0) != size) fail(column, "header");
    close(fd);
    free(whole);
    free(byte);
    return n_recognised;
}

/* Count the cells that have a value. */
static int64_t count_values(const msi_tiled_column *c, int64_t n_row)
{
    int64_t shape[2], count = 0;
    for (int64_t row = 0, n; row < n_row; row += n) {
        n = msi_tiled_column_alike(c, row, n_row - row, shape);
        if (shape[0] > 0) count += n;
    }
    return count;
}

/* A file that shrinks after its column was opened gives an error. */
static void shrink_column(ccc_table *t, const char *table, const char *column)
{
    msi_tiled_place place;
    msi_tiled_column *c;
    ccc_type type;
    struct stat info;
    char path[4200];
    if (!find_place(t, column, &place, &type)) return;
    if (msi_tiled_column_open(&c, table, &place, ccc_table_n_row(t)) != MSI_OK || !c) fail(column, "open");
    /* Files may have more bytes than their tiles need, so that a part of the values may still be there. */
    for (int half = 1; half >= 0; half--) {
        for (int i = 0; i < 8; i++) {
            snprintf(path, sizeof path, "%.4000s/table.f%d_TSM%d", table, place.number, i);
            if (stat(path, &info) == 0 && truncate(path, half * draw(info.st_size)) != 0) fail(column, "cut");
        }
        read_all(c, &place, ccc_table_n_row(t));
    }
    const int has_values = count_values(c, ccc_table_n_row(t)) > 0;
    msi_tiled_column_free(c);
    if (msi_tiled_column_open(&c, table, &place, ccc_table_n_row(t)) != MSI_OK) fail(column, "open");
    if (c && has_values) fail(column, "empty but recognised");
    msi_tiled_column_free(c);
}

static int mutate(const char *table, int64_t count)
{
    ccc_table *t;
    char **names;
    int64_t n;
    int n_recognised = 0;
    if (ccc_table_open(&t, table, CCC_READ, CCC_LOCK_NONE) != CCC_OK || ccc_table_columns(t, &names, &n) != CCC_OK)
        fail(table, "open");
    for (int64_t i = 0; i < n; i++) n_recognised += mutate_column(t, table, names[i], count);
    for (int64_t i = 0; i < n; i++) shrink_column(t, table, names[i]);
    ccc_free(names);
    ccc_table_close(t);
    return n_recognised;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "-mutants") == 0) {
        state = strtoull(argv[2], NULL, 10);
        printf("%d recognised\n", mutate(argv[4], strtoll(argv[3], NULL, 10)));
        return 0;
    }
    for (int i = 1; i < argc; i++) printf("%d\n", compare_table(argv[i]));
    return 0;
}
