/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests that a MODEL_DATA whose tiles also contain CORRECTED_DATA is written in place, without changing anything
 * else. */
#include "tests/io/ms/ms_write_fixture.h"

#include "core/log.h"
#include "tests/io/ms/hypercolumn_fixture.h"

enum { N_CHAN = 8, N_CORR = 4, N_CELL = N_CHAN * N_CORR, MOST_ROWS = 1024 };

static msi_c32 model[MOST_ROWS * N_CELL], corrected[MOST_ROWS * N_CELL];

static int64_t n_row(void)
{
    return fixture_n_row(&ws_simple);
}

/* The corrected data include numbers whose bits a conversion could change: NaN with a payload, -0, denormals. */
static void make(written_set *m, int64_t n_in_cube)
{
    static const uint32_t odd[] = {0x7fc12345, 0x80000000, 1, 0xff800000};
    ws_forget(NULL);
    ws_make(m, &ws_simple);
    assert_true(n_row() <= MOST_ROWS);
    for (int64_t row = 0; row < n_row(); row++)
        for (int i = 0; i < N_CELL; i++) {
            model[row * N_CELL + i] = ws_old_value(row, i / N_CORR, i % N_CORR);
            corrected[row * N_CELL + i] = ws_data(row, i / N_CORR, i % N_CORR);
            if (i < 4) memcpy(&corrected[row * N_CELL + i].im, &odd[i], sizeof odd[i]);
        }
    assert_int_equal(hypercolumn_add(m->path, n_in_cube, N_CHAN, N_CORR, &model->re, &corrected->re), 0);
    m->others = ws_hash_others(m->path, ws_manager_of(m->path, "MODEL_DATA"));
}

/* The other column of the tiles is the same to the last bit, and so are all other files. */
static void check_others(const written_set *m)
{
    static msi_c32 now[MOST_ROWS * N_CELL];
    ccc_table *t;
    CCC(ccc_table_open(&t, m->path, CCC_READ, CCC_LOCK_NONE));
    CCC(ccc_get_range(t, "CORRECTED_DATA", 0, n_row(), NULL, CCC_COMPLEX, now, n_row() * N_CELL));
    CCC(ccc_table_close(t));
    assert_memory_equal(now, corrected, (size_t)(n_row() * N_CELL) * sizeof *now);
    assert_true(ws_hash_others(m->path, ws_manager_of(m->path, "MODEL_DATA")) == m->others);
    assert_false(ws_has_column(m->path, "MODEL_DATA_OLD_1"));
}

static void test_in_place(void **state)
{
    (void)state;
    static const msi_ms_selection some = {
        .channel_begin = 2, .channel_end = 5, .coordinates_only = 1, .keep_flagged_rows = 1};
    written_set m;
    make(&m, n_row());
    ws_predict(&m, &ws_replace, &some);
    ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_old_value);
    check_others(&m);
    ws_predict(&m, &ws_replace, &ws_everything);
    ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
    check_others(&m);
    assert_false(ws_is_marked(m.path));
}

static msi_c32 corrected_value(int64_t row, int chan, int corr)
{
    return corrected[row * N_CELL + chan * N_CORR + corr];
}

/* The data that are read are in the tiles that are written. Channel 0 has values that are not finite. */
static void test_add(void **state)
{
    (void)state;
    static const msi_ms_selection some = {
        .channel_begin = 1, .channel_end = N_CHAN, .coordinates_only = 1, .keep_flagged_rows = 1};
    const msi_ms_write_spec add = {.column = "MODEL_DATA", .op = MSI_MS_WRITE_ADD, .input_column = "CORRECTED_DATA"};
    written_set m;
    make(&m, n_row());
    for (int i = 0; i < 2; i++) {
        ws_predict(&m, &add, &some);
        ws_check_column(&m, "MODEL_DATA", corrected_value, 1, ws_old_value);
        check_others(&m);
    }
}

/* A run that is stopped leaves a mark, and the other column as it was; the next one completes it. */
static void test_stopped(void **state)
{
    (void)state;
    written_set m;
    msi_ms_writer *w;
    make(&m, n_row());
    const char *const paths[] = {m.path};
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    assert_int_equal(msi_ms_writer_disk_bytes(w, 0), 0);
    OK(msi_ms_writer_prepare(w));
    /* There are more blocks than slots, so at least one has been written. */
    for (int i = 0; i <= MSI_MS_WRITER_SLOTS; i++) OK(ws_submit_all(w, paths, 1, &ws_everything));
    msi_ms_writer_free(w);
    assert_true(ws_is_marked(m.path));
    check_others(&m);
    ws_predict(&m, &ws_replace, &ws_everything);
    ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
    assert_false(ws_is_marked(m.path));
    check_others(&m);
}

/* Cells outside the hypercube cannot be added to it; another column can be written. */
static void test_rows_without_a_place(void **state)
{
    (void)state;
    written_set m;
    msi_ms_writer *w;
    make(&m, n_row() - 5);
    const char *const paths[] = {m.path};
    const uint64_t before = fixture_hash(m.path);
    FAILS(MSI_EINPUT, "column MODEL_DATA: ", msi_ms_writer_start(&w, paths, 1, &ws_replace));
    FAILS(MSI_EINPUT, "name another output column", msi_ms_writer_start(&w, paths, 1, &ws_replace));
    assert_true(fixture_hash(m.path) == before);
    const msi_ms_write_spec other = {.column = "OTHER"};
    ws_predict(&m, &other, &ws_everything);
    ws_check_column(&m, "OTHER", ws_zero, 1, ws_zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_place), cmocka_unit_test(test_add),
                                       cmocka_unit_test(test_stopped), cmocka_unit_test(test_rows_without_a_place)};
    msi_log_setup(MSI_LOG_QUIET, 0);
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
