/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests casacore_c by itself: adding and removing columns, names, locks, full disks; every misuse returns a code and a
 * message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/io/casacore-c/table_fixture.h"

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

/* Removing a column that shares its manager frees its space; the other columns are moved with all their values. */
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
    /* One manager was removed with its only column, another one was replaced. */
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
    FAILS(CCC_ENOTFOUND, "not a table", ccc_table_open(&t, temp_folder, CCC_READ, CCC_LOCK_NONE));
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
    snprintf(file, sizeof file, "%s/none/new", temp_folder);
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

/* Use names with characters that are special to casacore, a shell or printf. */
static void test_names(void **state)
{
    (void)state;
    static const char *const names[] = {"with space",    "%s%n%d", "a[1:5]", "(x)", "~root",
                                        "::ANTENNA::X",  "a'b\"c", "$b",     "a$",  "${c}x",
                                        "\xc3\xa9toile", "#x",     "a;b",    "-o"};
    char made[512], path[512];
    ccc_table *t;
    double value[N_ROW];
    assert_int_equal(chdir(temp_folder), 0);
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

/* casacore replaces variables in a name; in the names of directories above, this is prevented. */
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
    strcpy(path, temp_folder);
    assert_int_equal(chdir(temp_folder), 0);
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

/* A child has the lock; this process gets the error "in use" at once. */
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

/* If the disk is full, closing returns an error, and the process continues. */
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

/* Replace a manager's name in the header of the table by one of the same length. */
static void rename_managers(const char *path, const char *old, const char *name)
{
    char file[600], head[1 << 16];
    snprintf(file, sizeof file, "%s/table.dat", path);
    FILE *f = fopen(file, "r+b");
    assert_non_null(f);
    const size_t n = fread(head, 1, sizeof head, f), length = strlen(old);
    int n_found = 0;
    for (char *at = head; (at = memmem(at, n - (size_t)(at - head), old, length)); n_found++) memcpy(at, name, length);
    assert_true(n_found > 0 && n < sizeof head);
    rewind(f);
    assert_int_equal(fwrite(head, 1, n, f), n);
    fclose(f);
}

/* Unknown managers are not loaded; those of the system are loaded if they are installed. */
static void test_managers(void **state)
{
    (void)state;
    char path[512];
    ccc_table *t = filled_table(path, sizeof path, "managers");
    const char *names[] = {"some/where/mn", "StandardStMaN", "standard.stmn", "VirtualTaQLCo"};
    const char *before = "StandardStMan";
    OK(ccc_table_close(t));
    for (size_t i = 0; i < sizeof names / sizeof *names; before = names[i++]) {
        rename_managers(path, before, names[i]);
        FAILS(CCC_EREFUSED, names[i], ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
        FAILS(CCC_EREFUSED, names[i], ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD));
    }
    rename_managers(path, before, "StandardStMan");
    OK(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    OK(ccc_table_close(t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_column), cmocka_unit_test(test_removed_column),   cmocka_unit_test(test_open_fails),
        cmocka_unit_test(test_names),        cmocka_unit_test(test_variable_in_name), cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_lock),         cmocka_unit_test(test_no_space),         cmocka_unit_test(test_managers),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_leave);
}
