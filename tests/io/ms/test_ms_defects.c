/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests damaged Measurement Sets: one error line with path, column and row; no crash, and no changed byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/status.h"
#include "io/ms/ms_reader.h"
#include "tests/support/ms_fixture.h"

static char path[512], original[512], standard[512];

static const ms_fixture tiled = {.n_antenna = 4,
                                 .n_time = 40,
                                 .n_field = 1,
                                 .n_spw = 1,
                                 .n_chan = {8},
                                 .n_corr = {4},
                                 .tiled = 1,
                                 .with_weight_spectrum = 1};

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        const int ok_status_ = (expr);                                                                                 \
        if (ok_status_ != CCC_OK) fail_msg("%d: %s", ok_status_, ccc_error());                                         \
    } while (0)

/* Run a shell command with $1 and $2. */
static void shell(const char *command, const char *first, const char *second)
{
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, "sh", first, second, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* Make a fresh copy of a good set, at `path`. */
static void fresh(const char *from)
{
    fixture_remove(path);
    shell("cp -a \"$1\" \"$2\"", from, path);
}

/* Open and read everything; return the status of the first failure. Data are summed so that they are used. */
static int read_all(const char *set, const msi_ms_selection *s, int64_t *n_row, msi_ms_dropped *dropped)
{
    const char *const paths[] = {set};
    msi_ms_reader *r;
    msi_ms_block b = {0};
    int status = msi_ms_reader_open(&r, paths, 1, s);
    if (status != MSI_OK) return status;
    *n_row = 0;
    do {
        status = msi_ms_reader_next(r, &b);
        *n_row += b.n_row;
    } while (status == MSI_OK && b.n_row > 0);
    if (dropped) *dropped = *msi_ms_reader_dropped(r);
    msi_ms_reader_free(r);
    return status;
}

/* Reading fails with an input error whose line has the path and the text, and does not change the set. */
static void fails_with(const msi_ms_selection *s, const char *text)
{
    int64_t n_row;
    const uint64_t before = fixture_hash(path);
    assert_int_equal(read_all(path, s, &n_row, NULL), MSI_EINPUT);
    const char *line = msi_error_get();
    if (!strstr(line, text)) fail_msg("'%s' lacks '%s'", line, text);
    if (!strstr(line, path)) fail_msg("'%s' lacks '%s'", line, path);
    assert_null(strchr(line, '\n'));
    assert_true(fixture_hash(path) == before);
}

static void fails(const char *text)
{
    const msi_ms_selection s = {0};
    fails_with(&s, text);
}

static ccc_table *update(const char *subtable)
{
    ccc_table *t, *sub;
    OK(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD));
    if (!subtable) return t;
    OK(ccc_subtable_open(&sub, t, subtable));
    OK(ccc_table_close(t));
    return sub;
}

static void test_good(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    int64_t n_row;
    fresh(original);
    const uint64_t before = fixture_hash(path);
    assert_int_equal(read_all(path, &s, &n_row, NULL), MSI_OK);
    assert_true(n_row > 200);
    assert_true(fixture_hash(path) == before);
    /* A set that cannot be written. */
    shell("chmod -R a-w \"$1\"", path, "");
    assert_int_equal(read_all(path, &s, &n_row, NULL), MSI_OK);
    shell("chmod -R u+w \"$1\"", path, "");
    /* A set without lock files, as some archives have them. */
    shell("find \"$1\" -name table.lock -delete", path, "");
    const uint64_t without = fixture_hash(path);
    if (read_all(path, &s, &n_row, NULL) != MSI_OK) fail_msg("%s", msi_error_get());
    assert_true(fixture_hash(path) == without);
}

static void test_no_set(void **state)
{
    (void)state;
    fixture_remove(path);
    fails("No such file");
    shell("echo plain > \"$1\"", path, "");
    fails("is a file, but neither a visibility store nor a FITS file");
    fixture_remove(path);
    shell("mkdir \"$1\"", path, "");
    fails("not a table");
    fixture_remove(path);
    shell("cp -a \"$1\"/ANTENNA \"$2\"", original, path);
    fails("not a Measurement Set");
}

static void test_subtables(void **state)
{
    (void)state;
    static const char *const needed[] = {"ANTENNA", "FIELD", "SPECTRAL_WINDOW", "POLARIZATION", "DATA_DESCRIPTION"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        fresh(original);
        shell("rm -r \"$1/$2\"", path, needed[i]);
        fails(needed[i]);
        fresh(original);
        shell("rm \"$1/$2/table.dat\"", path, needed[i]);
        fails(needed[i]);
    }
    fresh(original);
    ccc_table *t = update(NULL);
    OK(ccc_keyword_remove(t, NULL, "POLARIZATION"));
    OK(ccc_table_close(t));
    fails("subtable POLARIZATION is missing");
}

/* Read a set whose main table or a subtable has no rows. */
static void test_no_rows(void **state)
{
    (void)state;
    ms_fixture empty = tiled;
    empty.n_time = 0;
    fixture_remove(path);
    fixture_make(&empty, path);
    fails("0 rows");
    static const char *const needed[] = {"ANTENNA", "FIELD", "SPECTRAL_WINDOW", "POLARIZATION", "DATA_DESCRIPTION"};
    char none[512];
    snprintf(none, sizeof none, "%s/none.ms", temp_folder);
    ccc_table *t;
    OK(ccc_ms_create(&t, none, NULL, 0, NULL, 0));
    OK(ccc_table_close(t));
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        fresh(original);
        shell("rm -r \"$1/$2\"", path, needed[i]);
        char from[600];
        snprintf(from, sizeof from, "%s/%s", none, needed[i]);
        shell("cp -a \"$1\" \"$2\"/", from, path);
        fails(needed[i]);
    }
}

/* Cut every file of the main table and of SPECTRAL_WINDOW at several lengths. */
static void cut_files(const char *from, const char *below)
{
    char dir[600];
    snprintf(dir, sizeof dir, "%s/%s", from, below);
    DIR *d = opendir(dir);
    assert_non_null(d);
    struct dirent *e;
    int n_cut = 0;
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, "table.f", 7) != 0 && strcmp(e->d_name, "table.dat") != 0) continue;
        char file[1200], name[300];
        snprintf(name, sizeof name, "%s", e->d_name);
        snprintf(file, sizeof file, "%s/%s", dir, name);
        struct stat info;
        assert_int_equal(stat(file, &info), 0);
        /* The files of columns that the reader does not need are not read, nor missing data. */
        const off_t cuts[] = {0, 3, 100, info.st_size / 2, info.st_size - 600, info.st_size - 1};
        for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
            if (cuts[i] < 0 || cuts[i] >= info.st_size) continue;
            fresh(from);
            snprintf(file, sizeof file, "%s/%s/%s", path, below, name);
            assert_int_equal(truncate(file, cuts[i]), 0);
            fails("truncated or corrupt");
            if (!strstr(msi_error_get(), name)) fail_msg("'%s' lacks '%s'", msi_error_get(), name);
            n_cut++;
        }
    }
    closedir(d);
    assert_in_range(n_cut, 8, 1000);
}

static void test_truncated(void **state)
{
    (void)state;
    cut_files(original, ".");
    cut_files(standard, ".");
    cut_files(original, "SPECTRAL_WINDOW");
}

static void test_missing_file(void **state)
{
    (void)state;
    static const char *const files[] = {"table.f0", "table.f1", "table.f1_TSM"};
    for (size_t i = 0; i < 3; i++) {
        char file[64];
        fresh(original);
        snprintf(file, sizeof file, "%s%s", files[i], i == 2 ? "1" : "");
        shell("rm \"$1/$2\"", path, file);
        fails(files[i]);
    }
}

static void test_columns(void **state)
{
    (void)state;
    fresh(original);
    msi_ms_selection s = {.data_column = "NOSUCH"};
    fails_with(&s, "no column NOSUCH; its data columns are: DATA");
    s.data_column = "TIME";
    fails_with(&s, "column TIME holds no visibilities");
    s.data_column = "FLAG";
    fails_with(&s, "column FLAG holds no visibilities");
    ccc_table *t = update(NULL);
    OK(ccc_column_rename(t, "UVW", "UVX"));
    OK(ccc_table_close(t));
    fails("UVW");
}

static void test_fields(void **state)
{
    (void)state;
    fresh(original);
    const int three = 3;
    const msi_ms_selection s = {.n_field = 1, .fields = &three}, spw = {.n_spw = 1, .spws = &three};
    fails_with(&s, "no field 3");
    fails_with(&spw, "no spectral window 3");
    const msi_ms_selection channels = {.channel_begin = 4, .channel_end = 9},
                           times = {.interval_begin = 39, .interval_end = 41};
    fails_with(&channels, "channels 4 to 9");
    fails_with(&times, "timesteps 39 to 41");
    const msi_ms_selection nothing = {.taql = "TIME < 0"}, wrong = {.taql = "TIME <"}, name = {.mssel[MSI_MSSEL_FIELD] = "NOSUCH"};
    fails_with(&nothing, "no row is selected (fields with rows: 0)");
    fails_with(&wrong, "TaQL");
    fails_with(&name, "field 'NOSUCH'");
}

static void test_indices(void **state)
{
    (void)state;
    static const char *const columns[] = {"DATA_DESC_ID", "FIELD_ID", "ANTENNA1", "ANTENNA2"};
    for (int i = 0; i < 4; i++)
        for (int sign = 0; sign < 2; sign++) {
            char text[64];
            fresh(original);
            ccc_table *t = update(NULL);
            OK(ccc_put_int(t, columns[i], 123, sign ? -1 : 99));
            OK(ccc_table_close(t));
            snprintf(text, sizeof text, "column %s, row 123: %d", columns[i], sign ? -1 : 99);
            fails(text);
        }
    static const char *const ids[] = {"SPECTRAL_WINDOW_ID", "POLARIZATION_ID"};
    for (int i = 0; i < 2; i++) {
        fresh(original);
        ccc_table *t = update("DATA_DESCRIPTION");
        OK(ccc_put_int(t, ids[i], 0, 7));
        OK(ccc_table_close(t));
        fails(ids[i]);
    }
    fresh(original);
    ccc_table *t = update(NULL);
    OK(ccc_put_double(t, "TIME", 55, NAN));
    OK(ccc_table_close(t));
    fails("column TIME, row 55");
}

static void test_spectral(void **state)
{
    (void)state;
    const int64_t seven = 7, eight = 8, three = 3, four = 4, five = 5;
    double freq[8];
    const int32_t corr[5] = {9, 10, 11, 12, 12}, strange[4] = {9, 10, 11, 60};
    for (int i = 0; i < 8; i++) freq[i] = 1e9 + i;
    fresh(original);
    ccc_table *t = update("SPECTRAL_WINDOW");
    OK(ccc_put_array(t, "CHAN_FREQ", 0, 1, &seven, CCC_DOUBLE, freq));
    OK(ccc_table_close(t));
    fails("column DATA, row 0: 4 correlations x 8 channels");
    const double bad[] = {0, -1e9, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        freq[3] = bad[i];
        t = update("SPECTRAL_WINDOW");
        OK(ccc_put_array(t, "CHAN_FREQ", 0, 1, &eight, CCC_DOUBLE, freq));
        OK(ccc_table_close(t));
        fails("column CHAN_FREQ, row 0: channel 3");
    }
    fresh(original);
    t = update("POLARIZATION");
    OK(ccc_put_array(t, "CORR_TYPE", 0, 1, &three, CCC_INT32, corr));
    OK(ccc_table_close(t));
    fails("POLARIZATION::CORR_TYPE has 3");
    t = update("POLARIZATION");
    OK(ccc_put_array(t, "CORR_TYPE", 0, 1, &five, CCC_INT32, corr));
    OK(ccc_table_close(t));
    fails("5 correlations");
    t = update("POLARIZATION");
    OK(ccc_put_array(t, "CORR_TYPE", 0, 1, &four, CCC_INT32, strange));
    OK(ccc_table_close(t));
    fails("CORR_TYPE 60");
}

/* Put a cell of another shape, or remove one, in the middle of the set. */
static void test_cells(void **state)
{
    (void)state;
    static const char *const columns[] = {"DATA", "FLAG"};
    float data[2 * 28] = {0};
    const int64_t shape[2] = {4, 7};
    for (int i = 0; i < 2; i++) {
        char text[64];
        fresh(standard); /* tiled cells cannot get another shape */
        ccc_table *t = update(NULL);
        OK(ccc_put_array(t, columns[i], 152, 2, shape, i ? CCC_BOOL : CCC_COMPLEX, data));
        OK(ccc_table_close(t));
        snprintf(text, sizeof text, "column %s, row 152", columns[i]);
        fails(text);
    }
    fresh(original);
    ccc_table *t = update(NULL);
    OK(ccc_table_add_rows(t, 1));
    OK(ccc_put_double(t, "TIME", fixture_n_row(&tiled), 4e9));
    OK(ccc_put_int(t, "ANTENNA2", fixture_n_row(&tiled), 1));
    OK(ccc_table_close(t));
    fails("row 400");
}

static void test_phase_centre(void **state)
{
    (void)state;
    const int64_t shape[2] = {2, 1};
    const double nowhere[2] = {NAN, 0};
    fresh(original);
    ccc_table *t = update("FIELD");
    OK(ccc_put_array(t, "PHASE_DIR", 0, 2, shape, CCC_DOUBLE, nowhere));
    OK(ccc_table_close(t));
    fails("column PHASE_DIR, row 0");
}

/* Rows with coordinates that are NaN are dropped and counted. */
static void test_uvw(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    const double bad[][3] = {{NAN, 0, 0}, {0, INFINITY, 0}, {0, 0, -INFINITY}, {1e300, 0, 0}};
    const int64_t three = 3;
    int64_t before, after;
    msi_ms_dropped dropped;
    fresh(original);
    assert_int_equal(read_all(path, &s, &before, &dropped), MSI_OK);
    assert_int_equal(dropped.uvw_not_finite, 0);
    ccc_table *t = update(NULL);
    int n_bad = 0;
    for (int64_t row = 100; n_bad < 4; row++) {
        int time, spw, a, b;
        fixture_row(&tiled, row, &time, &spw, &a, &b);
        if (a != b && !fixture_flag_row(row)) OK(ccc_put_array(t, "UVW", row, 1, &three, CCC_DOUBLE, bad[n_bad++]));
    }
    OK(ccc_table_close(t));
    assert_int_equal(read_all(path, &s, &after, &dropped), MSI_OK);
    assert_int_equal(after, before - 4);
    assert_int_equal(dropped.uvw_not_finite, 4 * 8);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"with space.ms", "%s%n%d.ms", "a[1:5].ms", "(x).ms", "~a.ms", "a'b.ms"};
    const msi_ms_selection s = {.taql = "ANTENNA1 < 3"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char odd[600];
        int64_t n_row;
        fresh(original);
        snprintf(odd, sizeof odd, "%s/%s", temp_folder, names[i]);
        assert_int_equal(rename(path, odd), 0);
        if (read_all(odd, &s, &n_row, NULL) != MSI_OK) fail_msg("%s", msi_error_get());
        assert_int_equal(rename(odd, path), 0);
    }
}

static int make_sets(void **state)
{
    ms_fixture f = tiled;
    temp_folder_setup(state);
    snprintf(path, sizeof path, "%s/set.ms", temp_folder);
    snprintf(original, sizeof original, "%s/original.ms", temp_folder);
    snprintf(standard, sizeof standard, "%s/standard.ms", temp_folder);
    fixture_make(&f, original);
    f.tiled = 0;
    fixture_make(&f, standard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),     cmocka_unit_test(test_no_set),    cmocka_unit_test(test_subtables),
        cmocka_unit_test(test_no_rows),  cmocka_unit_test(test_truncated), cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_columns),  cmocka_unit_test(test_fields),    cmocka_unit_test(test_indices),
        cmocka_unit_test(test_spectral), cmocka_unit_test(test_cells),     cmocka_unit_test(test_phase_centre),
        cmocka_unit_test(test_uvw),      cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, make_sets, temp_folder_teardown);
}
