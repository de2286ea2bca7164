/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests casacore_c by itself: ranges of rows at any place in tiles and buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/io/casacore-c/table_fixture.h"

/* ---- Tiled columns ---- */

enum { N_ELEMENT = 5 };

/* Columns with cells of five values, in rows of one hypercube, and the order in which rows were written. */
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
    /* Rows in the middle are written a second time. */
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

/* ---- Scalars ---- */

/* Scalars of one StandardStMan, whose buckets of 32 rows have several columns of different sizes. */
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

/* The last written values are read cell by cell, where casacore looks up each row, and in ranges. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiled_ranges),
        cmocka_unit_test(test_scalar_ranges),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_leave);
}
