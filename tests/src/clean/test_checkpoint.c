/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checkpoints: sections are read back; any change in the file is found; a killed writer leaves a whole checkpoint. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/clean/checkpoint.h"
#include "tests/support/temp_folder.h"

static const msi_checkpoint_run RUN = {0x1234567890abcdef, 42};

typedef struct counters {
    int64_t major, minor;
    double threshold;
} counters;

static char path[512];

static char *name(const char *what)
{
    snprintf(path, sizeof path, "%s/%s", temp_folder, what);
    return path;
}

/* Save a checkpoint of counters, a model of n values and a short mask; only the first sections if `until` is below
 * 3. */
static int save(const char *at, int64_t n, double value, int until)
{
    const counters c = {3, 1000, value};
    const uint8_t mask[5] = {1, 0, 1, 1, 0};
    msi_checkpoint_writer *w;
    float *model = malloc((size_t)n * sizeof *model);
    for (int64_t i = 0; i < n; i++) model[i] = (float)(value * (double)i);
    int rc = msi_checkpoint_begin(&w, at, &RUN);
    if (!rc && until > 0) rc = msi_checkpoint_put(w, MSI_CHECKPOINT_COUNTERS, 0, &c, sizeof c);
    if (!rc && until > 1) rc = msi_checkpoint_put(w, MSI_CHECKPOINT_MODEL, 7, model, n * (int64_t)sizeof *model);
    if (!rc && until > 2) rc = msi_checkpoint_put(w, MSI_CHECKPOINT_MASK, 0, mask, sizeof mask);
    free(model);
    if (rc) return rc;
    if (until < 3) raise(SIGKILL);
    return msi_checkpoint_commit(w);
}

static void check(const char *at, int64_t n, double value)
{
    counters c;
    uint8_t mask[5];
    msi_checkpoint *m;
    float *model = malloc((size_t)n * sizeof *model);
    if (msi_checkpoint_open(&m, at, &RUN)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_checkpoint_size(m, MSI_CHECKPOINT_MODEL, 7), n * (int64_t)sizeof *model);
    assert_int_equal(msi_checkpoint_size(m, MSI_CHECKPOINT_MODEL, 6), -1);
    assert_int_equal(msi_checkpoint_get(m, MSI_CHECKPOINT_COUNTERS, 0, &c, sizeof c), 0);
    assert_true(c.major == 3 && c.minor == 1000 && c.threshold == value);
    assert_int_equal(msi_checkpoint_get(m, MSI_CHECKPOINT_MODEL, 7, model, n * (int64_t)sizeof *model), 0);
    for (int64_t i = 0; i < n; i++) assert_true(model[i] == (float)(value * (double)i));
    assert_int_equal(msi_checkpoint_get(m, MSI_CHECKPOINT_MASK, 0, mask, 5), 0);
    assert_memory_equal(mask, ((const uint8_t[]){1, 0, 1, 1, 0}), 5);
    assert_int_equal(msi_checkpoint_get(m, MSI_CHECKPOINT_MASK, 0, mask, 4), MSI_EINPUT);
    assert_int_equal(msi_checkpoint_get(m, MSI_CHECKPOINT_FOUND, 0, mask, 5), MSI_EINPUT);
    msi_checkpoint_close(m);
    free(model);
}

static void what_was_put_is_got(void **state)
{
    (void)state;
    const int64_t in_use = msi_memory_in_use();
    const int n_open = temp_folder_n_open();
    /* A model of 3 MB is read in several chunks, the last one with an odd number of values. */
    static const int64_t size[] = {1, 13, 777777};
    for (int i = 0; i < 3; i++) {
        struct stat st;
        assert_int_equal(save(name("a.clean"), size[i], 0.25 + i, 3), 0);
        check(path, size[i], 0.25 + i);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, msi_checkpoint_bytes(3, 4 * size[i] + 5 + (int64_t)sizeof(counters)));
    }
    assert_int_equal(temp_folder_n_file(temp_folder), 1);
    assert_int_equal(msi_checkpoint_remove(path), 0);
    assert_int_equal(msi_checkpoint_remove(path), 0);
    assert_int_equal(temp_folder_n_file(temp_folder), 0);
    assert_int_equal(msi_memory_in_use(), in_use);
    assert_int_equal(temp_folder_n_open(), n_open);
}

static void put_file(const char *at, const char *bytes, size_t n)
{
    FILE *f = fopen(at, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static char *get_file(const char *at, size_t *n)
{
    char *bytes = malloc(1 << 16);
    FILE *f = fopen(at, "rb");
    assert_non_null(f);
    *n = fread(bytes, 1, 1 << 16, f);
    assert_int_equal(fclose(f), 0);
    return bytes;
}

/* Opening fails with one line that has the path, and leaves the file unchanged. */
static void refuse(const char *at, const char *bytes, size_t n, const msi_checkpoint_run *run)
{
    msi_checkpoint *c;
    size_t n_after;
    put_file(at, bytes, n);
    assert_int_equal(msi_checkpoint_open(&c, at, run), MSI_EINPUT);
    assert_null(c);
    assert_memory_equal(msi_error_get(), at, strlen(at));
    assert_null(strchr(msi_error_get(), '\n'));
    char *after = get_file(at, &n_after);
    assert_int_equal(n_after, n);
    assert_memory_equal(after, bytes, n);
    free(after);
}

/* Change every bit of the file, truncate it at every length, append data, and exchange sections. */
static void every_damage_is_found(void **state)
{
    (void)state;
    size_t n;
    const char *at = name("b.clean");
    assert_int_equal(save(at, 13, 0.5, 3), 0);
    char *good = get_file(at, &n);
    static char bad[1 << 16];
    if (n < 200 || n + 64 > sizeof bad) fail_msg("%zu bytes", n);
    for (size_t i = 0; i < n; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bad, good, n);
            bad[i] = (char)(bad[i] ^ 1 << bit);
            refuse(at, bad, n, &RUN);
        }
    for (size_t i = 0; i < n; i++) refuse(at, good, i, &RUN);
    memcpy(bad, good, n);
    memset(bad + n, 0, 64);
    refuse(at, bad, n + 1, &RUN);
    refuse(at, bad, n + 64, &RUN);
    /* Repeat the first section instead of the end: the header of the file has 40 bytes, that of a section 32. */
    memcpy(bad, good, n);
    memcpy(&bad[n > 232 ? n - 32 : 200], good + 40, 32);
    refuse(at, bad, n, &RUN);
    for (size_t i = 0; i < n; i++) bad[i] = 0;
    refuse(at, bad, n, &RUN);
    put_file(at, good, n);
    check(at, 13, 0.5);
    free(good);
    unlink(at);
}

static void other_runs_are_refused(void **state)
{
    (void)state;
    size_t n;
    const char *at = name("c.clean");
    msi_checkpoint *c;
    assert_int_equal(save(at, 13, 0.5, 3), 0);
    char *good = get_file(at, &n);
    refuse(at, good, n, &(msi_checkpoint_run){RUN.options + 1, RUN.sets});
    assert_non_null(strstr(msi_error_get(), "options"));
    refuse(at, good, n, &(msi_checkpoint_run){RUN.options, RUN.sets ^ 1});
    assert_non_null(strstr(msi_error_get(), "Measurement Sets"));
    unlink(at);
    assert_int_equal(msi_checkpoint_open(&c, at, &RUN), MSI_EINPUT);
    assert_int_equal(msi_checkpoint_open(&c, temp_folder, &RUN), MSI_EINPUT);
    free(good);
}

/* Another file of the user with the name of the checkpoint is neither written, read nor removed. */
static void files_of_others_stay(void **state)
{
    (void)state;
    static const char text[] = "a file of mine, not a checkpoint";
    const char *at = name("d.clean");
    refuse(at, text, sizeof text, &RUN);
    assert_int_equal(save(at, 13, 0.5, 3), MSI_EOUTPUT);
    assert_int_equal(msi_checkpoint_remove(at), 0);
    refuse(at, text, sizeof text, &RUN);
    unlink(at);
    assert_int_equal(mkdir(at, 0777), 0);
    assert_int_equal(save(at, 13, 0.5, 3), MSI_EOUTPUT);
    assert_int_equal(msi_checkpoint_remove(at), 0);
    assert_int_equal(rmdir(at), 0);
}

/* A writer that is killed at any moment leaves the previous checkpoint. */
static void killed_writers_leave_the_last_one(void **state)
{
    (void)state;
    const char *at = name("e.clean");
    assert_int_equal(save(at, 100, 0.5, 3), 0);
    for (int until = 0; until < 3; until++) {
        int how;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (!child) _exit(save(at, 100, 0.75, until) != 0);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        check(at, 100, 0.5);
    }
    assert_int_equal(save(at, 100, 0.75, 3), 0);
    check(at, 100, 0.75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_put_is_got), cmocka_unit_test(every_damage_is_found),
                                       cmocka_unit_test(other_runs_are_refused), cmocka_unit_test(files_of_others_stay),
                                       cmocka_unit_test(killed_writers_leave_the_last_one)};
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
