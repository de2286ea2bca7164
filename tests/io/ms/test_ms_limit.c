/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the address space limit of a process that opens sets: it grows with their bytes, and with stacks for compressed
 * columns, not with their number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/ms/ms_limit.h"

/* As many sets as the members of a multi-MS of many scans and windows. */
enum { MEMBERS = 400 };

static char folder[] = "/tmp/test_ms_limit_XXXXXX";
static const double MEGA = 1 << 20;

/* Write a table's description, in which only some words matter here. */
static void describe(const char *text)
{
    char name[sizeof folder + 16];
    snprintf(name, sizeof name, "%s/table.dat", folder);
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static double in_use(void)
{
    long long n_page = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lld", &n_page) != 1) _exit(99);
    fclose(f);
    return (double)n_page * (double)sysconf(_SC_PAGESIZE) / MEGA;
}

/* Return the limit in MB of a process that opens n_path sets, found in a child process; lifted: one set refers to
 * others. -1: no limit is set. */
static double allowed_mb(int n_path, int lifted)
{
    int ends[2], status;
    double mb = -2;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        const char *paths[MEMBERS];
        struct rlimit limit;
        for (int i = 0; i < n_path; i++) paths[i] = folder;
        const double before = in_use();
        msi_ms_limit_memory(paths, n_path);
        if (lifted) msi_ms_limit_lift();
        if (getrlimit(RLIMIT_AS, &limit) != 0) _exit(98);
        mb = limit.rlim_cur == RLIM_INFINITY ? -1 : (double)limit.rlim_cur / MEGA - before;
        _exit(write(ends[1], &mb, sizeof mb) == sizeof mb ? 0 : 97);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &mb, sizeof mb), sizeof mb);
    close(ends[0]);
    close(ends[1]);
    return mb;
}

/* A stack and its guard, of each processor, for each compressed column. */
static double stacks_mb(int n_column)
{
    return n_column * (double)sysconf(_SC_NPROCESSORS_ONLN) * 576 / 1024;
}

static void test_plain_members(void **state)
{
    (void)state;
    describe("TableDesc DATA TiledShapeStMan FLAG TiledShapeStMan");
    const double one = allowed_mb(1, 0);
    if (one == -1) skip(); /* the sanitizers' runtimes need their address space */
    assert_true(one > 500 && one < 520);
    const double many = allowed_mb(MEMBERS, 0);
    if (many > 520) fail_msg("%d sets may take %.0f MB, one %.0f", MEMBERS, many, one);
}

static void test_compressed_columns(void **state)
{
    (void)state;
    describe("TableDesc DATA TiledShapeStMan");
    const double plain = allowed_mb(1, 0);
    if (plain == -1) skip();
    describe("TableDesc DATA DyscoStMan FLAG TiledShapeStMan WEIGHT_SPECTRUM DyscoStMan");
    assert_true(fabs(allowed_mb(1, 0) - plain - stacks_mb(2)) < 4);
    assert_true(fabs(allowed_mb(100, 0) - plain - stacks_mb(200)) < 4);
}

/* The word may occur any number of times, but a set has few such columns. */
static void test_many_words(void **state)
{
    (void)state;
    static char text[40000];
    for (size_t i = 0; i + 16 < sizeof text; i += 11) memcpy(text + i, "DyscoStMan ", 11);
    describe("");
    const double plain = allowed_mb(1, 0);
    if (plain == -1) skip();
    describe(text);
    assert_true(fabs(allowed_mb(1, 0) - plain - stacks_mb(8)) < 4);
}

/* The columns of other tables, which may be compressed, are not known here. */
static void test_referred(void **state)
{
    (void)state;
    describe("RefTable");
    const double before = allowed_mb(1, 0), lifted = allowed_mb(1, 1);
    if (before == -1) skip();
    assert_true(lifted == -1 || lifted >= before + stacks_mb(8) - 4);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char name[sizeof folder + 16];
    snprintf(name, sizeof name, "%s/table.dat", folder);
    unlink(name);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_members),
        cmocka_unit_test(test_compressed_columns),
        cmocka_unit_test(test_many_words),
        cmocka_unit_test(test_referred),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
