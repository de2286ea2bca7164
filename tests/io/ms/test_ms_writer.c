/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests that the writer writes every submitted value to its place, and does not change other values. */
#include "tests/io/ms/ms_write_fixture.h"

#include <stdio.h>

#include "core/log.h"

static void test_new(void **state)
{
    (void)state;
    static const ms_fixture untiled = {
        .n_antenna = 4, .n_time = 3, .n_field = 1, .n_spw = 2, .n_chan = {6, 3}, .n_corr = {2, 2}};
    const ms_fixture *const fixtures[] = {&ws_simple, &ws_mixed, &untiled};
    for (int i = 0; i < 3; i++) {
        written_set m;
        ccc_table *t;
        ccc_column_info info;
        char *text;
        ws_forget(NULL);
        ws_make(&m, fixtures[i]);
        ws_predict(&m, &ws_replace, &ws_everything);
        ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
        assert_false(ws_is_marked(m.path));
        CCC(ccc_table_open(&t, m.path, CCC_READ, CCC_LOCK_NONE));
        CCC(ccc_column_describe(t, "MODEL_DATA", &info));
        assert_string_equal(info.manager_type, "TiledShapeStMan");
        assert_int_equal(info.manager_n_column, 1);
        if (fixtures[i]->tiled)
            assert_true(info.tile_shape[0] == 4 && info.tile_shape[1] == 8 && info.tile_shape[2] == 64);
        CCC(ccc_keyword_get_string(t, "MODEL_DATA", "UNIT", &text));
        assert_string_equal(text, "Jy");
        ccc_free(text);
        CCC(ccc_keyword_get_string(t, "MODEL_DATA", "MSIMAGE_MODEL", &text));
        assert_non_null(strstr(text, "a test"));
        ccc_free(text);
        CCC(ccc_table_close(t));
        /* Only the new files and table.dat have changed. */
        char name[32], file[800];
        uint64_t others = ws_hash_others(m.path, info.manager_file);
        snprintf(name, sizeof name, "table.f%d", info.manager_file);
        snprintf(file, sizeof file, "%s/%s", m.path, name);
        others -= fixture_hash(file);
        assert_true(others == m.others);
    }
}

/* Write some channels of the rows of one field: the rest of a new column is ws_zero; that of an existing one is not
 * changed. */
static void test_selection(void **state)
{
    (void)state;
    static const msi_ms_selection some = {
        .channel_begin = 2, .channel_end = 5, .coordinates_only = 1, .keep_flagged_rows = 1};
    static const int last_two[] = {1, 2};
    static const msi_ms_selection part = {.all_fields = 1,
                                          .n_spw = 2,
                                          .spws = last_two,
                                          .channel_begin = 2,
                                          .channel_end = 18,
                                          .coordinates_only = 1,
                                          .keep_flagged_rows = 1};
    static const char *const managers[] = {NULL, "TiledShapeStMan", "StandardStMan"};
    for (int i = 0; i < 6; i++) {
        written_set m;
        const char *manager = managers[i / 2];
        ws_forget(NULL);
        ws_make(&m, i % 2 ? &ws_mixed : &ws_simple);
        if (manager) ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, manager, 0, 0);
        ws_predict(&m, &ws_replace, i % 2 ? &part : &some);
        ws_check_column(&m, "MODEL_DATA", ws_zero, 1, manager ? ws_old_value : ws_zero);
        if (i / 2 == 1) assert_true(ws_hash_others(m.path, ws_manager_of(m.path, "MODEL_DATA")) == m.others);
        assert_int_equal(ws_has_column(m.path, "MODEL_DATA_OLD_1"), i / 2 == 2);
        /* Again, everything, now in place. */
        ws_predict(&m, &ws_replace, &ws_everything);
        ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
        assert_false(ws_has_column(m.path, "MODEL_DATA_OLD_2"));
        if (i / 2 == 2) {
            memset(ws_was_written, 0, sizeof ws_was_written);
            ws_check_column(&m, "MODEL_DATA_OLD_1", ws_zero, 1, ws_old_value);
        }
    }
}

/* Write a column with cells that have no value: they become ws_zero, or the predicted values. */
static void test_gaps(void **state)
{
    (void)state;
    written_set m;
    ws_make(&m, &ws_simple);
    ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, "TiledShapeStMan", 1, 0);
    const msi_ms_selection some = {.channel_begin = 0, .channel_end = 3, .coordinates_only = 1, .keep_flagged_rows = 1};
    ws_predict(&m, &ws_replace, &some);
    ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_gap_value);
}

static void test_add_subtract(void **state)
{
    (void)state;
    static const msi_ms_selection some = {
        .channel_begin = 1, .channel_end = 6, .coordinates_only = 1, .keep_flagged_rows = 1};
    for (int i = 0; i < 6; i++) {
        written_set m;
        msi_ms_write_spec spec = {.column = "RESULT", .input_column = "DATA", .description = ""};
        spec.op = i % 2 ? MSI_MS_WRITE_SUBTRACT : MSI_MS_WRITE_ADD;
        ws_forget(NULL);
        ws_make(&m, i < 3 ? &ws_simple : &ws_mixed);
        if (i % 3 == 1) ws_add_column(&m, "RESULT", CCC_COMPLEX, "TiledShapeStMan", 0, 0);
        if (i % 3 == 2) ws_add_column(&m, "RESULT", CCC_COMPLEX, "StandardStMan", 0, 0);
        ws_predict(&m, &spec, &some);
        ws_check_column(&m, "RESULT", ws_data, i % 2 ? -1 : 1, i % 3 ? ws_old_value : ws_data);
        ws_predict(&m, &spec, &ws_everything); /* repeated: the input has not changed */
        ws_check_column(&m, "RESULT", ws_data, i % 2 ? -1 : 1, ws_zero);
    }
}

/* Write blocks with other channels of the same rows, as separate output channels do. */
static void test_channels_apart(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        written_set m;
        msi_ms_writer *w;
        ws_forget(NULL);
        ws_make(&m, &ws_simple);
        if (there) ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, "StandardStMan", 0, 0);
        const char *const paths[] = {m.path};
        OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
        OK(msi_ms_writer_prepare(w));
        for (int c = 6; c >= 0; c -= 2) {
            msi_ms_selection s = ws_everything;
            s.channel_begin = c;
            s.channel_end = c + 1;
            OK(ws_submit_all(w, paths, 1, &s));
        }
        OK(msi_ms_writer_finish(w));
        msi_ms_writer_free(w);
        ws_check_column(&m, "MODEL_DATA", ws_zero, 1, there ? ws_old_value : ws_zero);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_new, ws_forget), cmocka_unit_test_setup(test_selection, ws_forget),
        cmocka_unit_test_setup(test_gaps, ws_forget), cmocka_unit_test_setup(test_add_subtract, ws_forget),
        cmocka_unit_test_setup(test_channels_apart, ws_forget)};
    msi_log_setup(MSI_LOG_QUIET, 0);
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
