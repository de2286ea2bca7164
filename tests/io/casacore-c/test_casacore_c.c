/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests casacore_c by itself: values, shapes, keywords and selections are read as they were written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/io/casacore-c/table_fixture.h"
#include "tests/support/ms_fixture.h"

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

/* C++'s function that an exception calls which nothing catches. */
extern void terminate_cxx(void) __asm__("_ZSt9terminatev");

static void leave_with(int code)
{
    _exit(code == CCC_EFAILED && *ccc_error() ? 0 : 1);
}

/* Before a process ends by an exception, its own function is called. */
static void test_terminate(void **state)
{
    (void)state;
    int how;
    const pid_t child = fork();
    if (child == 0) {
        ccc_on_terminate(leave_with);
        terminate_cxx();
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_shapes),    cmocka_unit_test(test_slices_written),
        cmocka_unit_test(test_describe),   cmocka_unit_test(test_keywords),  cmocka_unit_test(test_select),
        cmocka_unit_test(test_directions), cmocka_unit_test(test_terminate),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_leave);
}
