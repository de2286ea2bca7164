/* SPDX-License-Identifier: GPL-3.0-or-later */
/* casacore_c by itself: what is written is read back, and every misuse is a code and a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/support/ms_fixture.h"

enum { N_ROW = 100 };

static char temp[256];

static void in_temp(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", temp, name);
}

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        const int ok_status_ = (expr);                                                                                 \
        if (ok_status_ != CCC_OK) fail_msg("%d: %s", ok_status_, ccc_error());                                         \
    } while (0)

/* The call fails with the code, and says something with `text` in it. */
#define FAILS(code, text, expr)                                                                                        \
    do {                                                                                                               \
        assert_int_equal(expr, code);                                                                                  \
        if (!strstr(ccc_error(), text)) fail_msg("'%s' lacks '%s'", ccc_error(), text);                                \
    } while (0)

static void make_table(ccc_table **t, const char *path)
{
    static const char *const tiled[] = {"CUBE"}, *const shaped[] = {"SHAPED"}, *const slow[] = {"ID"};
    const ccc_column_spec columns[] = {
        {.name = "ID", .type = CCC_INT32},
        {.name = "VALUE", .type = CCC_DOUBLE},
        {.name = "GOOD", .type = CCC_BOOL},
        {.name = "WORD", .type = CCC_STRING},
        {.name = "WORDS", .type = CCC_STRING, .ndim = 1},
        {.name = "CUBE", .type = CCC_COMPLEX, .ndim = 2, .is_fixed_shape = 1, .shape = {4, 6}},
        {.name = "SHAPED", .type = CCC_FLOAT, .ndim = 2},
        {.name = "ANY", .type = CCC_INT16, .ndim = -1}};
    const ccc_storage storage[] = {
        {.type = "TiledColumnStMan", .n_column = 1, .columns = tiled, .tile_ndim = 3, .tile_shape = {4, 3, 16}},
        {.type = "TiledShapeStMan",
         .name = "mine",
         .n_column = 1,
         .columns = shaped,
         .tile_ndim = 3,
         .tile_shape = {4, 4, 16}},
        {.type = "IncrementalStMan", .n_column = 1, .columns = slow}};
    OK(ccc_table_create(t, path, columns, 8, storage, 3));
    OK(ccc_table_add_rows(*t, N_ROW));
}

static void fill_table(ccc_table *t)
{
    int32_t id[N_ROW];
    double value[N_ROW];
    float cube[N_ROW][6][4][2], shaped[8];
    const int64_t cell[2] = {4, 6};
    for (int i = 0; i < N_ROW; i++) {
        id[i] = i / 10;
        value[i] = i + 0.5;
        for (int c = 0; c < 6; c++)
            for (int p = 0; p < 4; p++) {
                cube[i][c][p][0] = (float)i;
                cube[i][c][p][1] = (float)(10 * c + p);
            }
    }
    OK(ccc_put_range(t, "ID", 0, N_ROW, 0, NULL, NULL, CCC_INT32, id));
    OK(ccc_put_range(t, "VALUE", 0, N_ROW, 0, NULL, NULL, CCC_DOUBLE, value));
    OK(ccc_put_range(t, "CUBE", 0, N_ROW, 2, cell, NULL, CCC_COMPLEX, cube));
    /* Rows 0 to 49 have 2 x 3, 50 to 89 have 2 x 4, the last ten no value. */
    for (int i = 0; i < 90; i++) {
        const int64_t shape[2] = {2, i < 50 ? 3 : 4};
        for (int k = 0; k < 8; k++) shaped[k] = (float)(100 * i + k);
        OK(ccc_put_array(t, "SHAPED", i, 2, shape, CCC_FLOAT, shaped));
    }
}

/* Make a new table with values; its path is put into `path`. */
static ccc_table *filled_table(char *path, size_t size, const char *name)
{
    ccc_table *t;
    in_temp(path, size, name);
    make_table(&t, path);
    fill_table(t);
    return t;
}

static void check_words(ccc_table *t, const char *const words[3])
{
    char *text, **texts;
    int64_t n;
    OK(ccc_get_string(t, "WORD", 3, &text));
    assert_string_equal(text, "hello");
    ccc_free(text);
    OK(ccc_get_strings(t, "WORDS", 3, &texts, &n));
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) assert_string_equal(texts[i], words[i]);
    ccc_free(texts);
    OK(ccc_get_strings(t, "WORDS", 4, &texts, &n));
    assert_int_equal(n, 0);
    ccc_free(texts);
}

static void test_round_trip(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "round");
    OK(ccc_put_string(t, "WORD", 3, "hello"));
    static const char *const words[] = {"X", "", "long enough to be stored apart from the bucket"};
    const int64_t three = 3;
    OK(ccc_put_strings(t, "WORDS", 3, 1, &three, words));
    OK(ccc_put_bool(t, "GOOD", 7, 1));
    OK(ccc_put_int(t, "VALUE", 8, 42));
    OK(ccc_put_double(t, "ID", 9, 1e300));
    OK(ccc_table_close(t));

    assert_true(ccc_table_exists(path));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    assert_string_equal(ccc_table_path(t), path);
    assert_int_equal(ccc_table_n_row(t), N_ROW);
    int32_t id[N_ROW];
    double value[N_ROW];
    OK(ccc_get_range(t, "ID", 20, 30, NULL, CCC_INT32, id, 30));
    for (int i = 0; i < 30; i++) assert_int_equal(id[i], (20 + i) / 10);
    OK(ccc_get_range(t, "ID", 9, 1, NULL, CCC_INT32, id, 1));
    assert_int_equal(id[0], INT32_MAX); /* saturated, not wrapped */
    OK(ccc_get_range(t, "ID", 20, 30, NULL, CCC_DOUBLE, value, 30));
    assert_true(value[29] == 4.0);
    OK(ccc_get_range(t, "VALUE", 8, 1, NULL, CCC_DOUBLE, value, 1));
    assert_true(value[0] == 42.0);
    const int64_t rows[] = {0, 1, 50, 99};
    OK(ccc_get_rows(t, "VALUE", rows, 4, NULL, CCC_DOUBLE, value, 4));
    assert_true(value[0] == 0.5 && value[1] == 1.5 && value[2] == 50.5 && value[3] == 99.5);
    float cube[4][2][3][2];
    const ccc_slice slice = {.ndim = 2, .start = {1, 1}, .count = {3, 2}, .stride = {1, 3}};
    OK(ccc_get_rows(t, "CUBE", rows, 4, &slice, CCC_COMPLEX, cube, 24));
    for (int i = 0; i < 4; i++)
        for (int c = 0; c < 2; c++)
            for (int p = 0; p < 3; p++) {
                assert_true(cube[i][c][p][0] == (float)rows[i]);
                assert_true(cube[i][c][p][1] == (float)(10 * (1 + 3 * c) + 1 + p));
            }
    double wide[2][6][4][2];
    OK(ccc_get_range(t, "CUBE", 98, 2, NULL, CCC_DCOMPLEX, wide, 48));
    assert_true(wide[1][5][3][0] == 99 && wide[1][5][3][1] == 53);
    check_words(t, words);
    uint8_t good[3];
    OK(ccc_get_range(t, "GOOD", 6, 3, NULL, CCC_BOOL, good, 3));
    assert_true(!good[0] && good[1] == 1 && !good[2]);
    OK(ccc_table_close(t));
}

static void test_shapes(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "shapes");
    int ndim;
    int64_t n, shape[CCC_MAX_DIM];
    OK(ccc_rows_alike(t, "SHAPED", 10, 90, &n, &ndim, shape));
    assert_true(n == 40 && ndim == 2 && shape[0] == 2 && shape[1] == 3);
    OK(ccc_rows_alike(t, "SHAPED", 50, 20, &n, &ndim, shape));
    assert_true(n == 20 && ndim == 2 && shape[1] == 4);
    OK(ccc_rows_alike(t, "SHAPED", 92, 8, &n, &ndim, shape));
    assert_true(n == 8 && ndim == -1);
    OK(ccc_rows_alike(t, "VALUE", 92, 8, &n, &ndim, shape));
    assert_true(n == 8 && ndim == 0);
    float values[400];
    OK(ccc_get_range(t, "SHAPED", 48, 2, NULL, CCC_FLOAT, values, 12));
    assert_true(values[0] == 4800 && values[11] == 4905);
    FAILS(CCC_ESHAPE, "row 50", ccc_get_range(t, "SHAPED", 48, 3, NULL, CCC_FLOAT, values, 18));
    FAILS(CCC_ESHAPE, "row 90", ccc_get_range(t, "SHAPED", 90, 1, NULL, CCC_FLOAT, values, 6));
    const int64_t rows[] = {0, 49, 60};
    FAILS(CCC_ESHAPE, "row 60", ccc_get_rows(t, "SHAPED", rows, 3, NULL, CCC_FLOAT, values, 18));
    FAILS(CCC_EARGUMENT, "elements", ccc_get_range(t, "SHAPED", 0, 2, NULL, CCC_FLOAT, values, 13));
    FAILS(CCC_EARGUMENT, "rows", ccc_get_range(t, "VALUE", 90, 11, NULL, CCC_FLOAT, values, 11));
    FAILS(CCC_EARGUMENT, "rows", ccc_get_range(t, "VALUE", -1, 1, NULL, CCC_FLOAT, values, 1));
    FAILS(CCC_EARGUMENT, "rows", ccc_get_range(t, "VALUE", INT64_MAX, INT64_MAX, NULL, CCC_FLOAT, values, 1));
    const ccc_slice outside = {.ndim = 2, .start = {0, 0}, .count = {4, 7}, .stride = {1, 1}};
    FAILS(CCC_ESHAPE, "column CUBE: a slice", ccc_get_range(t, "CUBE", 0, 1, &outside, CCC_COMPLEX, values, 28));
    FAILS(CCC_ETYPE, "holds complex", ccc_get_range(t, "CUBE", 0, 1, NULL, CCC_FLOAT, values, 24));
    FAILS(CCC_ETYPE, "string", ccc_get_range(t, "WORD", 0, 1, NULL, CCC_FLOAT, values, 1));
    FAILS(CCC_ENOTFOUND, "no column NONE", ccc_get_range(t, "NONE", 0, 1, NULL, CCC_FLOAT, values, 1));
    const int64_t wrong[2] = {4, 5};
    FAILS(CCC_ESHAPE, "CUBE", ccc_put_array(t, "CUBE", 0, 2, wrong, CCC_COMPLEX, values));
    FAILS(CCC_ETYPE, "VALUE", ccc_put_range(t, "VALUE", 0, 1, 0, NULL, NULL, CCC_FLOAT, values));
    OK(ccc_table_close(t));
}

/* ---- Ranges of tiled columns, however their rows lie ---- */

enum { N_ELEMENT = 5 };

/* Columns of cells of five, and the order in which rows were written: to casacore, rows of one hypercube. */
static const struct tiled_column {
    const char *name, *manager;
    ccc_type type;
    int is_fixed, step; /* step: rows are written from the first on, or from the last */
} tiled_columns[] = {
    {"FIXED", "Fixed", CCC_FLOAT, 1, 1},     {"FLAGS", "Flags", CCC_BOOL, 1, 1},
    {"ORDERED", "Ordered", CCC_FLOAT, 0, 1}, {"MARKS", "Marks", CCC_BOOL, 0, 1},
    {"TURNED", "Turned", CCC_FLOAT, 0, -1},  {"FIRST", "Pair", CCC_FLOAT, 1, 1},
    {"SECOND", "Pair", CCC_FLOAT, 1, 1},
};
enum { N_TILED = sizeof tiled_columns / sizeof *tiled_columns };

static float tiled_value(int column, int64_t row, int64_t element)
{
    return tiled_columns[column].type == CCC_BOOL ? (float)((row * 7 + element) % 3 == 0)
                                                  : (float)(10000 * column + 10 * row + element);
}

static size_t tiled_bytes(int column)
{
    return tiled_columns[column].type == CCC_BOOL ? 1 : sizeof(float);
}

static void tiled_values(int column, int64_t first, int64_t n, void *values)
{
    for (int64_t i = 0; i < n * N_ELEMENT; i++) {
        const float value = tiled_value(column, first + i / N_ELEMENT, i % N_ELEMENT);
        if (tiled_columns[column].type == CCC_BOOL)
            ((uint8_t *)values)[i] = value != 0;
        else
            ((float *)values)[i] = value;
    }
}

static void make_tiled(ccc_table **t, const char *path)
{
    ccc_column_spec columns[N_TILED];
    ccc_storage storage[N_TILED];
    const char *names[N_TILED];
    int n_storage = 0;
    for (int i = 0; i < N_TILED; i++) {
        const struct tiled_column *c = &tiled_columns[i];
        columns[i] = (ccc_column_spec){
            .name = c->name, .type = c->type, .ndim = 1, .is_fixed_shape = c->is_fixed, .shape = {N_ELEMENT}};
        names[i] = c->name;
        if (i > 0 && strcmp(c->manager, tiled_columns[i - 1].manager) == 0)
            storage[n_storage - 1].n_column++;
        else
            storage[n_storage++] = (ccc_storage){.type = c->is_fixed ? "TiledColumnStMan" : "TiledShapeStMan",
                                                 .name = c->manager,
                                                 .n_column = 1,
                                                 .columns = &names[i],
                                                 .tile_ndim = 2,
                                                 .tile_shape = {N_ELEMENT, 7}};
    }
    OK(ccc_table_create(t, path, columns, N_TILED, storage, n_storage));
    OK(ccc_table_add_rows(*t, N_ROW));
}

static void fill_tiled(ccc_table *t, int column)
{
    const struct tiled_column *c = &tiled_columns[column];
    const int64_t cell = N_ELEMENT;
    const int n = c->step > 0 ? 33 : 1;
    float values[33 * N_ELEMENT];
    for (int i = 0; i < N_ROW; i += n) {
        const int many = i + n < N_ROW ? n : N_ROW - i, first = c->step > 0 ? i : N_ROW - 1 - i;
        tiled_values(column, first, many, values);
        OK(ccc_put_range(t, c->name, first, many, 1, &cell, NULL, c->type, values));
    }
    /* What is there is written once more, in the midst. */
    tiled_values(column, 20, 30, values);
    OK(ccc_put_range(t, c->name, 20, 30, 1, &cell, NULL, c->type, values));
}

static void test_tiled_ranges(void **state)
{
    (void)state;
    static const int64_t ranges[][2] = {{0, N_ROW}, {0, 1}, {N_ROW - 1, 1}, {6, 2}, {13, 29}, {50, 50}};
    char path[512];
    ccc_table *t;
    in_temp(path, sizeof path, "tiled");
    make_tiled(&t, path);
    for (int c = 0; c < N_TILED; c++) fill_tiled(t, c);
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    for (int c = 0; c < N_TILED; c++)
        for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
            float want[N_ROW * N_ELEMENT], got[N_ROW * N_ELEMENT] = {0};
            const int64_t first = ranges[k][0], n = ranges[k][1];
            tiled_values(c, first, n, want);
            OK(ccc_get_range(t, tiled_columns[c].name, first, n, NULL, tiled_columns[c].type, got, n * N_ELEMENT));
            assert_memory_equal(got, want, (size_t)(n * N_ELEMENT) * tiled_bytes(c));
        }
    OK(ccc_table_close(t));
}

/* Scalars of one StandardStMan, in whose buckets of 32 rows columns of several sizes lie one behind the other. */
static const struct scalar_column {
    const char *name;
    ccc_type type;
    size_t size;
} scalar_columns[] = {{"FLAG", CCC_BOOL, 1},   {"SHORT", CCC_INT16, 2},   {"INT", CCC_INT32, 4},
                      {"FLOAT", CCC_FLOAT, 4}, {"DOUBLE", CCC_DOUBLE, 8}, {"LONG", CCC_INT64, 8}};

enum { N_SCALAR = sizeof scalar_columns / sizeof *scalar_columns };

static void scalar_value(int column, int64_t row, int version, void *value)
{
    const int v = (int)((row * 7919 + version * 104729 + column * 31) % 30011);
    switch (scalar_columns[column].type) {
    case CCC_BOOL:
        *(uint8_t *)value = (uint8_t)(v % 3 == 0);
        break;
    case CCC_INT16:
        *(int16_t *)value = (int16_t)v;
        break;
    case CCC_INT32:
        *(int32_t *)value = -v;
        break;
    case CCC_FLOAT:
        *(float *)value = 0.5F + (float)v;
        break;
    case CCC_DOUBLE:
        *(double *)value = -0.25 - v;
        break;
    default:
        *(int64_t *)value = (int64_t)v << 33;
        break;
    }
}

/* What was put last is there, cell by cell, as casacore finds each row by itself, and in ranges. */
static void check_scalars(ccc_table *t, const int version[N_ROW])
{
    for (int c = 0; c < N_SCALAR; c++) {
        const size_t size = scalar_columns[c].size;
        char all[N_ROW * 8], one[8], want[8];
        OK(ccc_get_range(t, scalar_columns[c].name, 0, N_ROW, NULL, scalar_columns[c].type, all, N_ROW));
        for (int64_t i = 0; i < N_ROW; i++) {
            scalar_value(c, i, version[i], want);
            OK(ccc_get_range(t, scalar_columns[c].name, i, 1, NULL, scalar_columns[c].type, one, 1));
            assert_memory_equal(one, want, size);
            assert_memory_equal(all + (size_t)i * size, want, size);
        }
    }
}

static void test_scalar_ranges(void **state)
{
    (void)state;
    static const int64_t ranges[][2] = {{0, N_ROW}, {31, 2}, {3, 5}, {32, 32}, {N_ROW - 1, 1}, {1, 70}, {64, 0}};
    ccc_column_spec columns[N_SCALAR];
    int version[N_ROW] = {0};
    char path[512];
    ccc_table *t;
    in_temp(path, sizeof path, "scalars");
    for (int c = 0; c < N_SCALAR; c++)
        columns[c] = (ccc_column_spec){.name = scalar_columns[c].name, .type = scalar_columns[c].type};
    OK(ccc_table_create(&t, path, columns, N_SCALAR, NULL, 0));
    OK(ccc_table_add_rows(t, N_ROW));
    for (int k = 0; k < (int)(sizeof ranges / sizeof *ranges); k++) {
        for (int64_t i = ranges[k][0]; i < ranges[k][0] + ranges[k][1]; i++) version[i] = k;
        for (int c = 0; c < N_SCALAR; c++) {
            char values[N_ROW * 8];
            for (int64_t i = 0; i < ranges[k][1]; i++)
                scalar_value(c, ranges[k][0] + i, k, values + (size_t)i * scalar_columns[c].size);
            OK(ccc_put_range(t, scalar_columns[c].name, ranges[k][0], ranges[k][1], 0, NULL, NULL,
                             scalar_columns[c].type, values));
        }
        check_scalars(t, version);
    }
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    check_scalars(t, version);
    OK(ccc_table_close(t));
}

static void test_slices_written(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "slices");
    const ccc_slice middle = {.ndim = 2, .start = {0, 2}, .count = {4, 2}, .stride = {1, 1}};
    float part[3][2][4][2], all[3][6][4][2];
    for (int i = 0; i < 48; i++) (&part[0][0][0][0])[i] = -1.0f - (float)i;
    OK(ccc_put_range(t, "CUBE", 5, 3, 2, middle.count, &middle, CCC_COMPLEX, part));
    OK(ccc_get_range(t, "CUBE", 5, 3, NULL, CCC_COMPLEX, all, 72));
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 6; c++)
            for (int p = 0; p < 4; p++) {
                const int inside = c == 2 || c == 3;
                assert_true(all[i][c][p][0] == (inside ? part[i][c - 2][p][0] : (float)(5 + i)));
            }
    const int64_t rows[] = {20, 40, 41}, cell[2] = {4, 6};
    OK(ccc_put_rows(t, "CUBE", rows, 3, 2, cell, NULL, CCC_COMPLEX, all));
    float back[6][4][2];
    OK(ccc_get_range(t, "CUBE", 40, 1, NULL, CCC_COMPLEX, back, 24));
    assert_memory_equal(back, all[1], sizeof back);
    const int64_t unsorted[] = {3, 2};
    FAILS(CCC_EARGUMENT, "ascend", ccc_put_rows(t, "CUBE", unsorted, 2, 2, cell, NULL, CCC_COMPLEX, all));
    OK(ccc_table_close(t));
}

static void test_describe(void **state)
{
    (void)state;
    char path[512];
    ccc_column_info info;
    ccc_table *t = filled_table(path, sizeof path, "describe");
    OK(ccc_column_describe(t, "CUBE", &info));
    assert_true(info.type == CCC_COMPLEX && !info.is_scalar && info.ndim == 2 && info.is_fixed_shape);
    assert_true(info.shape[0] == 4 && info.shape[1] == 6 && info.tile_ndim == 3 && info.tile_shape[1] == 3);
    assert_string_equal(info.manager_type, "TiledColumnStMan");
    assert_string_equal(info.manager_name, "TiledCUBE");
    assert_int_equal(info.manager_n_column, 1);
    OK(ccc_column_describe(t, "SHAPED", &info));
    assert_string_equal(info.manager_name, "mine");
    assert_true(info.ndim == 2 && !info.is_fixed_shape && info.tile_ndim == 3);
    OK(ccc_column_describe(t, "VALUE", &info));
    assert_true(info.is_scalar && info.type == CCC_DOUBLE && info.manager_n_column == 5);
    assert_string_equal(info.manager_type, "StandardStMan");
    OK(ccc_column_describe(t, "ANY", &info));
    assert_int_equal(info.ndim, -1);
    char **names;
    int64_t n;
    OK(ccc_table_columns(t, &names, &n));
    assert_int_equal(n, 8);
    assert_string_equal(names[0], "ID");
    ccc_free(names);
    OK(ccc_table_close(t));
}

static void test_keywords(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t;
    in_temp(path, sizeof path, "keywords");
    make_table(&t, path);
    static const char *const list[] = {"a", "b"};
    OK(ccc_keyword_put_string(t, NULL, "WHAT", "one"));
    OK(ccc_keyword_put_string(t, NULL, "WHAT", "two"));
    OK(ccc_keyword_put_double(t, "VALUE", "MEASINFO.deep.x", 2.5));
    OK(ccc_keyword_put_string(t, "VALUE", "MEASINFO.Ref", "UTC"));
    OK(ccc_keyword_put_strings(t, NULL, "LIST", list, 2));
    OK(ccc_keyword_put_int(t, NULL, "COUNT", -7));
    OK(ccc_keyword_put_bool(t, NULL, "GONE", 1));
    OK(ccc_keyword_remove(t, NULL, "GONE"));
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    char *text, **texts;
    double x;
    int64_t n;
    ccc_type type;
    OK(ccc_keyword_get_string(t, NULL, "WHAT", &text));
    assert_string_equal(text, "two");
    ccc_free(text);
    OK(ccc_keyword_get_double(t, "VALUE", "MEASINFO.deep.x", &x));
    assert_true(x == 2.5);
    OK(ccc_keyword_get_int(t, NULL, "COUNT", &n));
    assert_int_equal(n, -7);
    OK(ccc_keyword_get_strings(t, NULL, "LIST", &texts, &n));
    assert_true(n == 2 && !strcmp(texts[1], "b"));
    ccc_free(texts);
    OK(ccc_keyword_type(t, NULL, "LIST", &type, &n));
    assert_true(type == CCC_STRING && n == 2);
    OK(ccc_keyword_names(t, NULL, &texts, &n));
    assert_int_equal(n, 3);
    ccc_free(texts);
    FAILS(CCC_ENOTFOUND, "GONE", ccc_keyword_get_int(t, NULL, "GONE", &n));
    FAILS(CCC_ENOTFOUND, "MEASINFO.none.x", ccc_keyword_get_double(t, "VALUE", "MEASINFO.none.x", &x));
    FAILS(CCC_ETYPE, "WHAT", ccc_keyword_get_double(t, NULL, "WHAT", &x));
    FAILS(CCC_EREADONLY, "read", ccc_keyword_put_int(t, NULL, "COUNT", 1));
    OK(ccc_table_close(t));
}

static void test_added_column(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "added");
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD));
    const ccc_column_spec spec = {.name = "MODEL", .type = CCC_COMPLEX, .ndim = 2};
    const ccc_storage storage = {
        .type = "TiledShapeStMan", .name = "TiledMODEL", .tile_ndim = 3, .tile_shape = {4, 6, 32}};
    OK(ccc_column_add(t, &spec, &storage));
    FAILS(CCC_EARGUMENT, "MODEL", ccc_column_add(t, &spec, &storage));
    const int64_t cell[2] = {4, 6};
    float *ones = calloc(N_ROW * 24, 8);
    for (int i = 0; i < N_ROW * 48; i++) ones[i] = (float)i;
    OK(ccc_put_range(t, "MODEL", 0, N_ROW, 2, cell, NULL, CCC_COMPLEX, ones));
    OK(ccc_column_rename(t, "CUBE", "OLD"));
    OK(ccc_column_rename(t, "MODEL", "CUBE"));
    FAILS(CCC_ENOTFOUND, "NONE", ccc_column_rename(t, "NONE", "X"));
    FAILS(CCC_EARGUMENT, "OLD", ccc_column_rename(t, "CUBE", "OLD"));
    OK(ccc_table_flush(t));
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_HOLD));
    float cube[48];
    OK(ccc_get_range(t, "CUBE", 99, 1, NULL, CCC_COMPLEX, cube, 24));
    assert_memory_equal(cube, ones + 99 * 48, sizeof cube);
    OK(ccc_get_range(t, "OLD", 99, 1, NULL, CCC_COMPLEX, cube, 24));
    assert_true(cube[0] == 99);
    free(ones);
    OK(ccc_table_close(t));
}

/* A column that shares its manager goes with its space: the others move, with all that they hold. */
static void test_removed_column(void **state)
{
    (void)state;
    char path[512], *word, **columns;
    int32_t *before, *after;
    int64_t n_before, n_after, n_column, n_alike, shape[CCC_MAX_DIM];
    int ndim;
    double value[N_ROW];
    float cube[48];
    ccc_table *t = filled_table(path, sizeof path, "removed");
    OK(ccc_put_string(t, "WORD", 7, "seven"));
    OK(ccc_keyword_put_double(t, "VALUE", "MEASINFO.Offset", 1.5));
    const int64_t one[1] = {1};
    const int16_t number = 5;
    OK(ccc_put_array(t, "ANY", 3, 1, one, CCC_INT16, &number));
    OK(ccc_table_managers(t, &before, &n_before));
    FAILS(CCC_ENOTFOUND, "NONE", ccc_column_remove(t, "NONE"));
    OK(ccc_column_remove(t, "GOOD"));
    OK(ccc_column_remove(t, "SHAPED"));
    OK(ccc_table_close(t));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_HOLD));
    OK(ccc_table_columns(t, &columns, &n_column));
    assert_int_equal(n_column, 6);
    assert_false(ccc_table_has_column(t, "GOOD") || ccc_table_has_column(t, "SHAPED"));
    OK(ccc_get_range(t, "VALUE", 0, N_ROW, NULL, CCC_DOUBLE, value, N_ROW));
    for (int i = 0; i < N_ROW; i++) assert_true(value[i] == i + 0.5);
    OK(ccc_get_string(t, "WORD", 7, &word));
    assert_string_equal(word, "seven");
    double offset;
    OK(ccc_keyword_get_double(t, "VALUE", "MEASINFO.Offset", &offset));
    assert_true(offset == 1.5);
    OK(ccc_rows_alike(t, "ANY", 0, N_ROW, &n_alike, &ndim, shape));
    assert_true(n_alike == 3 && ndim == -1);
    OK(ccc_rows_alike(t, "ANY", 3, 1, &n_alike, &ndim, shape));
    assert_true(ndim == 1 && shape[0] == 1);
    OK(ccc_get_range(t, "CUBE", 99, 1, NULL, CCC_COMPLEX, cube, 24));
    assert_true(cube[0] == 99);
    OK(ccc_table_managers(t, &after, &n_after));
    /* One manager is gone with its only column, another gave place to a new one. */
    assert_int_equal(n_after, n_before - 1);
    assert_true(after[n_after - 1] > before[n_before - 1]);
    ccc_free(columns);
    ccc_free(word);
    ccc_free(before);
    ccc_free(after);
    FAILS(CCC_EREADONLY, "read", ccc_column_remove(t, "ANY"));
    OK(ccc_table_close(t));
}

static void test_open_fails(void **state)
{
    (void)state;
    char path[512], file[600];
    ccc_table *t;
    in_temp(path, sizeof path, "nothing");
    assert_false(ccc_table_exists(path));
    FAILS(CCC_ENOTFOUND, "nothing", ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    assert_null(t);
    FAILS(CCC_ENOTFOUND, "not a table", ccc_table_open(&t, temp, CCC_READ, CCC_LOCK_NONE));
    FAILS(CCC_ENOTFOUND, "empty", ccc_table_open(&t, "", CCC_READ, CCC_LOCK_NONE));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("plain", f);
    fclose(f);
    FAILS(CCC_ENOTFOUND, "not a table", ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    in_temp(path, sizeof path, "there");
    make_table(&t, path);
    OK(ccc_table_close(t));
    FAILS(CCC_EARGUMENT, "exists", ccc_table_create(&t, path, NULL, 0, NULL, 0));
    snprintf(file, sizeof file, "%s/none/new", temp);
    FAILS(CCC_ENOTFOUND, "none", ccc_table_create(&t, file, NULL, 0, NULL, 0));
    const ccc_column_spec one = {.name = "A", .type = CCC_INT32};
    static const char *const other[] = {"B"};
    const ccc_storage unknown = {.type = "StandardStMan", .n_column = 1, .columns = other};
    in_temp(path, sizeof path, "unbound");
    FAILS(CCC_EARGUMENT, "B", ccc_table_create(&t, path, &one, 1, &unknown, 1));
    static const char *const own[] = {"A"};
    const ccc_storage strange = {.type = "FooStMan", .n_column = 1, .columns = own};
    FAILS(CCC_EARGUMENT, "FooStMan", ccc_table_create(&t, path, &one, 1, &strange, 1));
    OK(ccc_table_close(NULL));
}

/* Use names in which casacore, a shell or printf would see a meaning. */
static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"with space",    "%s%n%d", "a[1:5]", "(x)", "~root",
                                        "::ANTENNA::X",  "a'b\"c", "$b",     "a$",  "${c}x",
                                        "\xc3\xa9toile", "#x",     "a;b",    "-o"};
    char made[512], path[512];
    ccc_table *t;
    double value[N_ROW];
    assert_int_equal(chdir(temp), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        in_temp(made, sizeof made, "plain_name");
        make_table(&t, made);
        fill_table(t);
        OK(ccc_table_close(t));
        in_temp(path, sizeof path, names[i]);
        assert_int_equal(rename(made, path), 0);
        for (int relative = 0; relative < 2; relative++) {
            OK(ccc_table_open(&t, relative ? names[i] : path, CCC_UPDATE, CCC_LOCK_HOLD));
            assert_string_equal(ccc_table_path(t), path);
            OK(ccc_get_range(t, "VALUE", 0, N_ROW, NULL, CCC_DOUBLE, value, N_ROW));
            assert_true(value[99] == 99.5);
            OK(ccc_put_double(t, "VALUE", 1, 7));
            FAILS(CCC_ENOTFOUND, names[i], ccc_get_range(t, "NONE", 0, 1, NULL, CCC_DOUBLE, value, 1));
            OK(ccc_table_close(t));
        }
        fixture_remove(path);
    }
}

/* casacore puts the value of a variable in a name; in the names of directories above, that is prevented. */
static void test_variable_in_name(void **state)
{
    (void)state;
    char path[512], made[512];
    ccc_table *t;
    in_temp(made, sizeof made, "made");
    make_table(&t, made);
    OK(ccc_table_close(t));
    in_temp(path, sizeof path, "$HOME");
    assert_int_equal(mkdir(path, 0777), 0);
    in_temp(path, sizeof path, "$HOME/$HOME");
    FAILS(CCC_EARGUMENT, "rename", ccc_table_create(&t, path, NULL, 0, NULL, 0));
    assert_int_equal(rename(made, path), 0);
    FAILS(CCC_EARGUMENT, "rename", ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    in_temp(made, sizeof made, "$HOME/below");
    assert_int_equal(rename(path, made), 0);
    OK(ccc_table_open(&t, made, CCC_UPDATE, CCC_LOCK_HOLD));
    assert_string_equal(ccc_table_path(t), made);
    OK(ccc_table_close(t));
}

static void test_long_path(void **state)
{
    (void)state;
    char here[4096], made[512], *path = calloc(1, 8192);
    ccc_table *t;
    double value;
    in_temp(made, sizeof made, "plain_name");
    make_table(&t, made);
    fill_table(t);
    OK(ccc_table_close(t));
    /* 4,000 bytes: 15 directories of 250 below the temporary one. */
    assert_non_null(getcwd(here, sizeof here));
    strcpy(path, temp);
    assert_int_equal(chdir(temp), 0);
    for (int i = 0; i < 15; i++) {
        char name[256];
        memset(name, 'a' + i, 250);
        name[250] = 0;
        assert_int_equal(mkdir(name, 0777), 0);
        assert_int_equal(chdir(name), 0);
        strcat(strcat(path, "/"), name);
    }
    strcat(path, "/");
    memset(path + strlen(path), 'z', 4000 - strlen(path));
    assert_int_equal(strlen(path), 4000);
    assert_int_equal(rename(made, strrchr(path, '/') + 1), 0);
    assert_int_equal(chdir(here), 0);
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    OK(ccc_get_range(t, "VALUE", 99, 1, NULL, CCC_DOUBLE, &value, 1));
    assert_true(value == 99.5);
    OK(ccc_table_close(t));
    free(path);
}

/* A child holds the lock; this process is told at once that the table is in use. */
static void test_lock(void **state)
{
    (void)state;
    char path[512], byte = 0;
    ccc_table *t;
    int ready[2], done[2];
    in_temp(path, sizeof path, "locked");
    make_table(&t, path);
    OK(ccc_table_close(t));
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(done), 0);
    const pid_t child = fork();
    if (child == 0) {
        byte = (char)(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD) == CCC_OK);
        if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) _exit(2);
        _exit(ccc_table_close(t) == CCC_OK ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 1);
    FAILS(CCC_ELOCKED, "in use", ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD));
    assert_null(t);
    FAILS(CCC_ELOCKED, "in use", ccc_table_open(&t, path, CCC_READ, CCC_LOCK_HOLD));
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    OK(ccc_table_close(t));
    assert_int_equal(write(done[1], &byte, 1), 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    OK(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD));
    OK(ccc_table_close(t));
}

/* Where nothing more can be written, closing says so, and the process goes on. */
static void test_no_space(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "full");
    OK(ccc_table_close(t));
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {1000, 1000};
        signal(SIGXFSZ, SIG_IGN);
        if (ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD) != CCC_OK) _exit(1);
        if (ccc_keyword_put_int(t, NULL, "X", 1) != CCC_OK || ccc_put_int(t, "VALUE", 0, 1) != CCC_OK) _exit(2);
        if (setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(3);
        if (ccc_table_flush(t) != CCC_EFAILED || !strstr(ccc_error(), "cannot be written")) _exit(4);
        _exit(ccc_table_close(t) == CCC_EFAILED ? 0 : 5);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    OK(ccc_table_close(t));
}

static void test_select(void **state)
{
    (void)state;
    const ms_fixture f = {.n_antenna = 4, .n_time = 4, .n_field = 2, .n_spw = 2, .n_chan = {8, 4}, .n_corr = {4, 2}};
    char path[512];
    ccc_table *ms;
    int64_t *rows, n, n_range;
    ccc_chan_range *ranges;
    in_temp(path, sizeof path, "select.ms");
    fixture_make(&f, path);
    const uint64_t before = fixture_hash(path);
    OK(ccc_table_open(&ms, path, CCC_READ, CCC_LOCK_NONE));
    ccc_ms_expressions e = {.spw = "0:2~5"};
    OK(ccc_ms_select(ms, &e, &rows, &n, &ranges, &n_range));
    assert_int_equal(n, 40); /* 4 times, 10 baselines */
    assert_int_equal(n_range, 1);
    assert_true(ranges[0].spw_id == 0 && ranges[0].begin == 2 && ranges[0].last == 5 && ranges[0].step == 1);
    ccc_free(rows);
    ccc_free(ranges);
    e = (ccc_ms_expressions){.field = "F1", .antenna = "A0&A2"};
    OK(ccc_ms_select(ms, &e, &rows, &n, NULL, NULL));
    assert_int_equal(n, 4); /* 2 times, 2 spectral windows */
    for (int i = 0; i < n; i++) {
        int time, spw, a, b;
        fixture_row(&f, rows[i], &time, &spw, &a, &b);
        assert_true(time % 2 == 1 && a == 0 && b == 2);
    }
    ccc_free(rows);
    e = (ccc_ms_expressions){.uvrange = ">20m"};
    OK(ccc_ms_select(ms, &e, &rows, &n, NULL, NULL));
    assert_in_range(n, 1, 79);
    ccc_free(rows);
    OK(ccc_table_query(ms, "ANTENNA1 != ANTENNA2 && DATA_DESC_ID == 1", &rows, &n));
    assert_int_equal(n, 24);
    ccc_free(rows);
    e = (ccc_ms_expressions){.field = "NOSUCH"};
    FAILS(CCC_EFAILED, "field 'NOSUCH'", ccc_ms_select(ms, &e, &rows, &n, NULL, NULL));
    e = (ccc_ms_expressions){.spw = "0:2~("};
    FAILS(CCC_EFAILED, "spw", ccc_ms_select(ms, &e, &rows, &n, NULL, NULL));
    FAILS(CCC_EFAILED, "TaQL", ccc_table_query(ms, "NOSUCH > 3", &rows, &n));
    FAILS(CCC_EFAILED, "TaQL", ccc_table_query(ms, "ANTENNA1 +", &rows, &n));
    FAILS(CCC_EFAILED, "true or false", ccc_table_query(ms, "ANTENNA1 + 1", &rows, &n));
    OK(ccc_table_close(ms));
    assert_true(fixture_hash(path) == before);
}

static void test_directions(void **state)
{
    (void)state;
    double lon = 0, lat = 0;
    /* The galactic centre in J2000, to the arcsecond that its definition has. */
    OK(ccc_direction_convert("GALACTIC", "J2000", 4.5e9, NULL, &lon, &lat));
    assert_true(fabs(lon - 266.40499 * M_PI / 180) < 1e-5 && fabs(lat + 28.93617 * M_PI / 180) < 1e-5);
    OK(ccc_direction_convert("J2000", "GALACTIC", 4.5e9, NULL, &lon, &lat));
    assert_true(fabs(remainder(lon, 2 * M_PI)) < 1e-9 && fabs(lat) < 1e-9);
    FAILS(CCC_EARGUMENT, "NOWHERE", ccc_direction_convert("NOWHERE", "J2000", 4.5e9, NULL, &lon, &lat));
}

static int make_temp(void **state)
{
    (void)state;
    fixture_temp(temp, sizeof temp);
    return 0;
}

static int remove_temp(void **state)
{
    (void)state;
    assert_int_equal(chdir("/"), 0);
    fixture_remove(temp);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),     cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_slices_written), cmocka_unit_test(test_describe),
        cmocka_unit_test(test_keywords),       cmocka_unit_test(test_added_column),
        cmocka_unit_test(test_removed_column), cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_variable_in_name),
        cmocka_unit_test(test_long_path),      cmocka_unit_test(test_lock),
        cmocka_unit_test(test_no_space),       cmocka_unit_test(test_select),
        cmocka_unit_test(test_directions),     cmocka_unit_test(test_tiled_ranges),
        cmocka_unit_test(test_scalar_ranges),
    };
    return cmocka_run_group_tests(tests, make_temp, remove_temp);
}
