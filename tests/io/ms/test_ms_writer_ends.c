/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the ends of runs of the writer: complete, stopped, refused, without disk space, or locked out; and the files
 * that they leave. */
#include "tests/io/ms/ms_write_fixture.h"

#include <fcntl.h>
#include <grp.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process.h"
#include "core/log.h"

/* On a busy machine a step may be late: it is tried this often, and must be in time once. */
enum { TRIES = 100 };

/* Submit blocks until the second writer process has written some: there are more blocks than slots, and a slot becomes
 * free when its block is written. */
static void submit_until_written(msi_ms_writer *w, const char *const *paths)
{
    for (int i = 0; i <= MSI_MS_WRITER_SLOTS; i++) OK(ws_submit_all(w, paths, 1, &ws_everything));
}

static void test_several_sets(void **state)
{
    (void)state;
    written_set a, b;
    msi_ms_writer *w;
    ws_make(&a, &ws_simple);
    ws_make(&b, &ws_simple);
    ws_add_column(&b, "MODEL_DATA", CCC_COMPLEX, "TiledShapeStMan", 0, 0);
    const char *const paths[] = {a.path, b.path};
    OK(msi_ms_writer_start(&w, paths, 2, &ws_replace));
    assert_true(msi_ms_writer_disk_bytes(w, 0) >= fixture_n_row(&ws_simple) * 32 * 8);
    assert_int_equal(msi_ms_writer_disk_bytes(w, 1), 0);
    OK(msi_ms_writer_prepare(w));
    assert_true(!ws_is_marked(a.path) && ws_is_marked(b.path));
    OK(ws_submit_all(w, paths, 2, &ws_everything));
    OK(msi_ms_writer_finish(w));
    msi_ms_writer_free(w);
    ws_check_column(&a, "MODEL_DATA", ws_zero, 1, ws_zero);
    ws_check_column(&b, "MODEL_DATA", ws_zero, 1, ws_zero);
    const char *const twice[] = {a.path, b.path, a.path};
    FAILS(MSI_EARGUMENT, "same", msi_ms_writer_start(&w, twice, 3, &ws_replace));
    assert_null(w);
}

/* Stopped before the end: the set is as it was, except a column that has been written in place. */
static void test_stopped(void **state)
{
    (void)state;
    static const char *const managers[] = {NULL, "StandardStMan", "TiledShapeStMan"};
    for (int i = 0; i < 9; i++) {
        written_set m;
        msi_ms_writer *w;
        const int how_far = i / 3;
        ws_forget(NULL);
        ws_make(&m, &ws_simple);
        if (managers[i % 3]) ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, managers[i % 3], 0, 0);
        const int number = managers[i % 3] ? ws_manager_of(m.path, "MODEL_DATA") : -1;
        const char *const paths[] = {m.path};
        const int n_file = temp_folder_n_file(m.path);
        OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
        if (how_far > 0) OK(msi_ms_writer_prepare(w));
        if (how_far > 1) submit_until_written(w, paths);
        msi_ms_writer_free(w);
        assert_true(ws_hash_others(m.path, number) == m.others);
        assert_int_equal(temp_folder_n_file(m.path), n_file);
        assert_int_equal(ws_is_marked(m.path), how_far == 2 && i % 3 == 2);
        assert_int_equal(ws_has_column(m.path, "MODEL_DATA"), managers[i % 3] != NULL);
        assert_false(ws_has_column(m.path, "MODEL_DATA_OLD_1"));
        if (i % 3 && !ws_is_marked(m.path)) {
            memset(ws_was_written, 0, sizeof ws_was_written);
            ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_old_value);
        }
        ws_predict(&m, &ws_replace, &ws_everything);
        assert_false(ws_is_marked(m.path));
        ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
    }
}

static void test_mark(void **state)
{
    (void)state;
    written_set m;
    msi_ms_writer *w;
    const char *text, *selection;
    ws_make(&m, &ws_simple);
    ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, "TiledShapeStMan", 0, 0);
    const char *const paths[] = {m.path};
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    assert_int_equal(msi_ms_writer_marked(w, 0, &text, &selection), 0);
    assert_null(text);
    assert_null(selection);
    assert_false(ws_is_marked(m.path));
    OK(msi_ms_writer_prepare(w));
    assert_true(ws_is_marked(m.path));
    submit_until_written(w, paths);
    msi_ms_writer_free(w);
    assert_true(ws_is_marked(m.path));
    /* A run of another column neither removes the mark nor gets it. */
    const msi_ms_write_spec other = {.column = "OTHER"};
    ws_predict(&m, &other, &ws_everything);
    assert_true(ws_is_marked(m.path));
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    assert_int_equal(msi_ms_writer_marked(w, 0, &text, &selection), 1);
    assert_non_null(strstr(text, "MODEL_DATA, 20"));
    assert_non_null(strstr(text, "a test"));
    assert_string_equal(selection, ws_replace.selection);
    msi_ms_writer_free(w);
    assert_true(ws_is_marked(m.path)); /* nothing was done about it */
    ws_predict(&m, &ws_replace, &ws_everything);
    assert_false(ws_is_marked(m.path));
}

/* Run two writers; a reader that holds a lock. */
static void test_locked(void **state)
{
    (void)state;
    written_set m;
    msi_ms_writer *w, *second;
    ws_make(&m, &ws_simple);
    const char *const paths[] = {m.path};
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    double took_s = INFINITY;
    for (int i = 0; i < TRIES && took_s >= 1; i++) {
        const double start_s = msi_wall_s();
        FAILS(MSI_ELOCKED, "in use", msi_ms_writer_start(&second, paths, 1, &ws_replace));
        took_s = msi_wall_s() - start_s;
    }
    assert_true(took_s < 1);
    assert_int_equal(msi_exit_code(MSI_ELOCKED), 6);
    OK(msi_ms_writer_prepare(w));
    FAILS(MSI_ELOCKED, "in use", msi_ms_writer_start(&second, paths, 1, &ws_replace));
    OK(ws_submit_all(w, paths, 1, &ws_everything));
    OK(msi_ms_writer_finish(w));
    msi_ms_writer_free(w);
    ws_check_column(&m, "MODEL_DATA", ws_zero, 1, ws_zero);
}

static int start(const written_set *m, const char *column, msi_ms_write_op op, const char *input)
{
    const msi_ms_write_spec spec = {.column = column, .op = op, .input_column = input};
    const char *const paths[] = {m->path};
    msi_ms_writer *w;
    const int status = msi_ms_writer_start(&w, paths, 1, &spec);
    msi_ms_writer_free(w);
    return status;
}

static void test_refused(void **state)
{
    (void)state;
    written_set m, none;
    const msi_ms_write_op R = MSI_MS_WRITE_REPLACE, S = MSI_MS_WRITE_SUBTRACT;
    ws_make(&m, &ws_simple);
    ws_add_column(&m, "NARROW", CCC_COMPLEX, "TiledShapeStMan", 0, -1);
    ws_add_column(&m, "WIDE", CCC_DCOMPLEX, "TiledShapeStMan", 0, 0);
    ws_add_column(&m, "CORRECTED_DATA", CCC_COMPLEX, "TiledShapeStMan", 0, 0);
    const uint64_t all = fixture_hash(m.path);
    FAILS(MSI_EARGUMENT, "DATA", start(&m, "DATA", R, NULL));
    FAILS(MSI_EARGUMENT, "UVW", start(&m, "UVW", R, NULL));
    FAILS(MSI_EARGUMENT, "FLAG", start(&m, "FLAG", R, NULL));
    FAILS(MSI_EARGUMENT, "name", start(&m, "", R, NULL));
    FAILS(MSI_EARGUMENT, "name", start(&m, "A B", R, NULL));
    FAILS(MSI_EARGUMENT, "name", start(&m, "_A", R, NULL));
    FAILS(MSI_EARGUMENT, "name", start(&m, "A.B", R, NULL));
    FAILS(MSI_EARGUMENT, "CORRECTED_DATA", start(&m, "CORRECTED_DATA", R, NULL));
    FAILS(MSI_EARGUMENT, "both", start(&m, "MODEL_DATA", S, "MODEL_DATA"));
    FAILS(MSI_EARGUMENT, "no column", start(&m, "MODEL_DATA", S, NULL));
    FAILS(MSI_EINPUT, "NARROW", start(&m, "NARROW", R, NULL));
    FAILS(MSI_EINPUT, "WIDE", start(&m, "WIDE", R, NULL));
    FAILS(MSI_EINPUT, "ANTENNA_X", start(&m, "RESULT", S, "ANTENNA_X"));
    FAILS(MSI_EINPUT, "CORRECTED_DATA", start(&m, "RESULT", S, "ANTENNA_X"));
    FAILS(MSI_EINPUT, "TIME", start(&m, "RESULT", S, "TIME"));
    FAILS(MSI_EINPUT, "NARROW", start(&m, "RESULT", S, "NARROW"));
    snprintf(none.path, sizeof none.path, "%s/none.ms", temp_folder);
    FAILS(MSI_EINPUT, "none.ms", start(&none, "MODEL_DATA", R, NULL));
    snprintf(none.path, sizeof none.path, "%.400s/ANTENNA", m.path);
    FAILS(MSI_EINPUT, "not a Measurement Set", start(&none, "MODEL_DATA", R, NULL));
    assert_true(fixture_hash(m.path) == all);
    /* A missing CORRECTED_DATA may be made, and then written again. */
    ws_make(&m, &ws_simple);
    const msi_ms_write_spec corrected = {.column = "CORRECTED_DATA", .op = S, .input_column = "DATA"};
    ws_predict(&m, &corrected, &ws_everything);
    ws_predict(&m, &corrected, &ws_everything);
    ws_check_column(&m, "CORRECTED_DATA", ws_data, -1, ws_zero);
}

/* Root may write everywhere: the test becomes the user nobody. It is skipped if this user cannot reach the set. */
static void test_read_only(void **state)
{
    (void)state;
    enum { STILL_ROOT = 100, OUT_OF_REACH };
    written_set m;
    int how;
    const mode_t mask = umask(022); /* others may read the set's files, whatever the caller's mask is */
    ws_make(&m, &ws_simple);
    umask(mask);
    assert_int_equal(chmod(temp_folder, 0755), 0);
    assert_int_equal(chmod(m.path, 0555), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) _exit(STILL_ROOT);
        if (access(m.path, R_OK | X_OK)) _exit(OUT_OF_REACH);
        _exit(msi_exit_code(start(&m, "MODEL_DATA", MSI_MS_WRITE_REPLACE, NULL)));
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(chmod(m.path, 0755), 0);
    if (WEXITSTATUS(how) == OUT_OF_REACH) {
        print_message("another user cannot reach %s\n", m.path);
        skip();
    }
    assert_int_equal(WEXITSTATUS(how), 4);
}

/* Leave no disk space for the column: this is reported before anything is computed, and no file is left. */
static void test_no_space(void **state)
{
    (void)state;
    static const char *const managers[] = {NULL, "StandardStMan"};
    for (int i = 0; i < 2; i++) {
        written_set m;
        msi_ms_writer *w;
        struct rlimit was, small;
        ws_make(&m, &ws_simple);
        if (managers[i]) ws_add_column(&m, "MODEL_DATA", CCC_COMPLEX, managers[i], 0, 0);
        const int n_file = temp_folder_n_file(m.path);
        const char *const paths[] = {m.path};
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
        small = was;
        small.rlim_cur = 10000;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
        const int status = msi_ms_writer_prepare(w);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_int_equal(status, MSI_EOUTPUT);
        assert_non_null(strstr(msi_error_get(), m.path));
        FAILS(MSI_EOUTPUT, m.path, msi_ms_writer_finish(w));
        msi_ms_writer_free(w);
        assert_int_equal(temp_folder_n_file(m.path), n_file);
        assert_true(ws_hash_others(m.path, -1) == m.others);
        assert_int_equal(ws_has_column(m.path, "MODEL_DATA"), i);
    }
}

/* Returns: the duration of the end. */
static double interrupt(void)
{
    written_set m;
    msi_ms_writer *w;
    ws_forget(NULL);
    ws_make(&m, &ws_simple);
    const int n_file = temp_folder_n_file(m.path);
    const char *const paths[] = {m.path};
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    OK(msi_ms_writer_prepare(w));
    msi_interrupt_raise(SIGINT);
    const double start_s = msi_wall_s();
    FAILS(MSI_EINTERRUPTED, "signal", msi_ms_writer_finish(w));
    msi_ms_writer_free(w);
    msi_interrupt_raise(0);
    const double took_s = msi_wall_s() - start_s;
    assert_int_equal(temp_folder_n_file(m.path), n_file);
    assert_false(ws_has_column(m.path, "MODEL_DATA"));
    return took_s;
}

static void test_interrupted(void **state)
{
    (void)state;
    double took_s = INFINITY;
    for (int i = 0; i < TRIES && took_s >= 2; i++) took_s = interrupt();
    assert_true(took_s < 2);
}

/* CASA's models that would hide the column are logged. */
static void test_virtual_model(void **state)
{
    (void)state;
    written_set m;
    ccc_table *t;
    char log[4096];
    ws_make(&m, &ws_simple);
    CCC(ccc_table_open(&t, m.path, CCC_UPDATE, CCC_LOCK_HOLD));
    CCC(ccc_keyword_put_string(t, NULL, "definedmodel_field_0", "x"));
    CCC(ccc_table_close(t));
    const int was = dup(STDERR_FILENO), file = memfd_create("log", 0);
    fflush(stderr);
    assert_true(was >= 0 && file >= 0 && dup2(file, STDERR_FILENO) >= 0);
    const int status = start(&m, "MODEL_DATA", MSI_MS_WRITE_REPLACE, NULL);
    fflush(stderr);
    dup2(was, STDERR_FILENO);
    close(was);
    const ssize_t n = pread(file, log, sizeof log - 1, 0);
    close(file);
    OK(status);
    log[n > 0 ? n : 0] = 0;
    assert_non_null(strstr(log, "virtual model"));
}

/* No process and no descriptor is left. */
static void test_leaves_nothing(void **state)
{
    (void)state;
    written_set m;
    ws_make(&m, &ws_simple);
    const int n_open = temp_folder_n_open();
    ws_predict(&m, &ws_replace, &ws_everything);
    OK(start(&m, "MODEL_DATA", MSI_MS_WRITE_REPLACE, NULL));
    assert_int_equal(temp_folder_n_open(), n_open);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_false(ws_has_name(m.path, "table.dat_tmp"));
    msi_ms_writer_free(NULL);
}

/* ---- A child that does not stop ---- */

static int outlives_parents;

int __real_prctl(int option, ...);
int __wrap_prctl(int option, ...);

/* Linux may end a process long after the parent that it is to end with, such as in the middle of a slow write. */
int __wrap_prctl(int option, ...)
{
    va_list arguments;
    va_start(arguments, option);
    const unsigned long value = va_arg(arguments, unsigned long);
    va_end(arguments);
    return option == PR_SET_PDEATHSIG && outlives_parents ? 0 : __real_prctl(option, value);
}

/* When the process `first` has ended, write to `told`, then kill `second`. A parent that does not wait for the second
 * process is detected in between. */
static pid_t kill_later(pid_t first, pid_t second, int told)
{
    const pid_t killer = fork();
    if (killer != 0) return killer;
    while (kill(first, 0) == 0) usleep(1000);
    sleep(1);
    const int is_sent = write(told, "", 1) == 1;
    kill(second, SIGKILL);
    _exit(!is_sent);
}

/* Return the only child of a process. */
static pid_t child_of(pid_t parent)
{
    char name[64];
    int child = 0;
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &child), 1);
    fclose(f);
    return child;
}

static void test_child_that_hangs(void **state)
{
    (void)state;
    int told[2];
    char byte;
    written_set m;
    msi_ms_writer *w;
    ws_make(&m, &ws_simple);
    const char *const paths[] = {m.path};
    assert_int_equal(__real_prctl(PR_SET_CHILD_SUBREAPER, 1UL), 0);
    outlives_parents = 1;
    OK(msi_ms_writer_start(&w, paths, 1, &ws_replace));
    OK(msi_ms_writer_prepare(w));
    outlives_parents = 0;
    const pid_t first = child_of(getpid()), second = child_of(first);
    assert_int_equal(kill(first, SIGSTOP), 0);
    assert_int_equal(kill(second, SIGSTOP), 0);
    assert_int_equal(pipe2(told, O_CLOEXEC | O_NONBLOCK), 0);
    const pid_t killer = kill_later(first, second, told[1]);
    assert_true(killer > 0);
    msi_ms_writer_free(w);
    /* The old state is restored when no process writes any more. */
    assert_int_equal(read(told[0], &byte, 1), 1);
    assert_int_equal(waitpid(second, NULL, 0), second);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    close(told[0]);
    close(told[1]);
    assert_int_equal(__real_prctl(PR_SET_CHILD_SUBREAPER, 0UL), 0);
    assert_false(ws_has_column(m.path, "MODEL_DATA"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_several_sets, ws_forget),
                                       cmocka_unit_test_setup(test_stopped, ws_forget),
                                       cmocka_unit_test_setup(test_mark, ws_forget),
                                       cmocka_unit_test_setup(test_locked, ws_forget),
                                       cmocka_unit_test_setup(test_refused, ws_forget),
                                       cmocka_unit_test_setup(test_read_only, ws_forget),
                                       cmocka_unit_test_setup(test_no_space, ws_forget),
                                       cmocka_unit_test_setup(test_interrupted, ws_forget),
                                       cmocka_unit_test_setup(test_virtual_model, ws_forget),
                                       cmocka_unit_test_setup(test_leaves_nothing, ws_forget),
                                       cmocka_unit_test_setup(test_child_that_hangs, ws_forget)};
    msi_log_setup(MSI_LOG_QUIET, 0);
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
