/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the moving window's tuning: the fastest shape is chosen and cached, and invalid contents of the cache do no
 * harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/wproj/window/wproj_window_cuda.h"
#include "tests/support/temp_folder.h"

static const msi_window_shape candidates[] = {{4, 4, 4, 1, 64, 32, 0, 0}, {1, 4, 4, 2, 32, 32, 7, 0}};
static const msi_window_case some_case = {"Some GPU 3000", 0, MSI_FP32, 4, 0, 0, 60};

typedef struct clock_state {
    int n_call, fail_at;
    int favourite; /* index of the candidate that is fast */
    int32_t group; /* at this group size */
} clock_state;

static int fake_time(void *context, const msi_window_shape *s, double *ms)
{
    clock_state *c = context;
    if (++c->n_call == c->fail_at) return msi_error_set(MSI_EGPU, "no clock");
    /* The shape matters more than the group. */
    *ms = (s->tile_u == candidates[c->favourite].tile_u ? 1 : 3) + (s->n_vis == c->group ? 0 : 1);
    return MSI_OK;
}

static const char *path_in_folder(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    return path;
}

/* Run with n_timing timings. */
static msi_window_shape choose_for(int64_t n_timing, const msi_window_case *problem, clock_state *c, const char *path)
{
    msi_window_shape s;
    const msi_window_trials trials = {candidates, 2, n_timing, fake_time, c, path};
    assert_int_equal(msi_window_tuning_choose(&s, problem, &trials), MSI_OK);
    return s;
}

static msi_window_shape choose(const msi_window_case *problem, clock_state *c, const char *path)
{
    return choose_for(1000, problem, c, path);
}

static void test_fastest_is_remembered(void **state)
{
    (void)state;
    const char *path = path_in_folder("new/deeper/cache");
    clock_state c = {.favourite = 1, .group = 512};
    msi_window_shape s = choose(&some_case, &c, path);
    assert_int_equal(s.tile_u, 32);
    assert_int_equal(s.variant, 7);
    assert_int_equal(s.n_vis, 512);
    assert_true(c.n_call > 2);
    clock_state other = {.favourite = 0, .group = 256};
    s = choose(&some_case, &other, path);
    assert_int_equal(other.n_call, 0);
    assert_int_equal(s.tile_u, 32);
    assert_int_equal(s.n_vis, 512);
}

/* With a cached shape nothing is measured, for any number of timings. */
static void test_budget_is_kept(void **state)
{
    (void)state;
    const char *path = path_in_folder("budget");
    clock_state c = {.favourite = 1, .group = 256};
    const msi_window_shape guess = choose_for(0, &some_case, &c, path);
    assert_int_equal(guess.tile_u, 64);
    assert_int_equal(choose_for(1, &some_case, &c, path).tile_u, 64);
    assert_int_equal(c.n_call, 0);
    assert_int_equal(access(path, F_OK), -1);
    /* The estimated candidate and the other one; the groups follow in later calls. */
    const msi_window_shape other = choose_for(2, &some_case, &c, path);
    assert_int_equal(c.n_call, 2);
    assert_int_equal(other.tile_u, 32);
    assert_int_equal(other.n_vis, guess.n_vis);
    for (int i = 0; i < 2; i++) assert_int_equal(choose_for(i, &some_case, &c, path).tile_u, 32);
    assert_int_equal(c.n_call, 2);
    /* Two timings per call, one of which repeats a known one, until all groups are tried. */
    int n_call = 2, n_group = 0;
    for (;; n_group++) {
        choose_for(2, &some_case, &c, path);
        if (c.n_call == n_call) break;
        n_call += 2;
        assert_int_equal(c.n_call, n_call);
        assert_true(n_group < 10);
    }
    assert_true(n_group > 1);
    const msi_window_shape best = choose_for(0, &some_case, &c, path);
    assert_int_equal(best.tile_u, 32);
    assert_int_equal(best.n_vis, 256);
    choose(&some_case, &c, path);
    assert_int_equal(c.n_call, n_call);
}

static void test_cases_are_distinguished(void **state)
{
    (void)state;
    const char *path = path_in_folder("cases");
    msi_window_case other[7];
    for (int i = 0; i < 7; i++) other[i] = some_case;
    other[0].device = "Some GPU 300";
    other[1].degrid = 1;
    other[2].precision = MSI_FP64;
    other[3].n_image = 1;
    other[4].full = 1;
    other[5].lookup = MSI_WPROJ_LINEAR;
    other[6].taps = 28;
    clock_state c = {.favourite = 0, .group = 256};
    choose(&some_case, &c, path);
    for (int i = 0; i < 7; i++) {
        clock_state d = {.favourite = 1, .group = 512};
        assert_int_equal(choose(&other[i], &d, path).tile_u, 32);
        assert_true(d.n_call > 0);
    }
    clock_state again = {.favourite = 1, .group = 512};
    assert_int_equal(choose(&some_case, &again, path).tile_u, 64);
    for (int i = 0; i < 7; i++) assert_int_equal(choose(&other[i], &again, path).tile_u, 32);
    assert_int_equal(again.n_call, 0);
}

static void test_damaged_cache_is_ignored(void **state)
{
    (void)state;
    const char *path = path_in_folder("damaged");
    const char *bad[] = {
        "",
        "\n\n\n",
        "window-3 grid fp32 images 4 separable taps 60 shape 1 4 4",
        "window-3 grid fp32 images 4 separable taps 60 shape 1 4 4 2 32 32 7 group -5 tried 6 of 6 on Some GPU 3000\n",
        "window-3 grid fp32 images 4 separable taps 60 shape 9 9 9 9 9 9 9 group 512 tried 6 of 6 on Some GPU 3000\n",
        "window-3 grid fp32 images 4 separable taps 60 shape 1 4 4 2 32 32 7 group 512 tried 9 of 6 on Some GPU 3000\n",
        "window-3 grid fp32 images 4 separable taps 60 shape 1 4 4 2 32 32 7 group 512 tried 0 of 6 on Some GPU 3000\n",
        "window-3 grid fp32 images 4 separable taps 60 shape 1 4 4 2 32 32 7 group 512 tried 7 of 7 on Some GPU 3000\n",
        "window-2 grid fp32 images 4 separable taps 60 shape 1 4 4 2 32 32 7 group 512 tried 6 of 6 on Some GPU 3000\n",
        "\xff\xfe\x01 garbage without an end"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(bad[i], f);
        assert_int_equal(fclose(f), 0);
        clock_state c = {.favourite = 0, .group = 256};
        assert_int_equal(choose(&some_case, &c, path).tile_u, 64);
        assert_true(c.n_call > 0);
        int n_call = c.n_call;
        choose(&some_case, &c, path);
        assert_int_equal(c.n_call, n_call);
    }
    /* Zeros and one endless line. */
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 100000; i++) fputc(i < 1000 ? 0 : 'x', f);
    assert_int_equal(fclose(f), 0);
    clock_state c = {.favourite = 1, .group = 512};
    assert_int_equal(choose(&some_case, &c, path).tile_u, 32);
    assert_true(c.n_call > 0);
}

static void test_unwritable_cache_is_ignored(void **state)
{
    (void)state;
    const char *nowhere[] = {"/proc/no/such/cache", "/dev/null/cache", temp_folder};
    for (int i = 0; i < 3; i++) {
        clock_state c = {.favourite = 1, .group = 512};
        assert_int_equal(choose(&some_case, &c, nowhere[i]).tile_u, 32);
        assert_true(c.n_call > 0);
    }
}

static void test_folder_of_the_user(void **state)
{
    (void)state;
    char *before = getenv("XDG_CACHE_HOME");
    char keep[512] = "";
    if (before) snprintf(keep, sizeof keep, "%s", before);
    assert_int_equal(setenv("XDG_CACHE_HOME", path_in_folder("xdg"), 1), 0);
    clock_state c = {.favourite = 1, .group = 512};
    choose(&some_case, &c, NULL);
    struct stat about;
    assert_int_equal(stat(path_in_folder("xdg/msimage/window-tuning"), &about), 0);
    assert_true(about.st_size > 0);
    assert_int_equal(temp_folder_n_file(path_in_folder("xdg/msimage")), 1);
    if (before)
        setenv("XDG_CACHE_HOME", keep, 1);
    else
        unsetenv("XDG_CACHE_HOME");
}

static void test_failure_is_passed_on(void **state)
{
    (void)state;
    const char *path = path_in_folder("failed");
    clock_state c = {.favourite = 0, .fail_at = 3, .group = 256};
    msi_window_shape s;
    const msi_window_trials trials = {candidates, 2, 1000, fake_time, &c, path};
    assert_int_equal(msi_window_tuning_choose(&s, &some_case, &trials), MSI_EGPU);
    assert_int_equal(access(path, F_OK), -1);
}

static void test_guess_has_the_least_padding(void **state)
{
    (void)state;
    /* 28 taps need 32 x 32 cells where blocks are of 4 x 4, 40 x 40 where they are of 8 x 8. */
    const msi_window_shape two[] = {{1, 8, 8, 1, 64, 64, 0, 0}, {1, 4, 4, 2, 32, 32, 0, 0}};
    msi_window_case small = some_case;
    small.taps = 28;
    assert_int_equal(msi_window_tuning_estimate(&small, two, 2).tile_u, 32);
    assert_int_equal(msi_window_tuning_estimate(&small, candidates, 2).tile_u, 64);
    assert_true(msi_window_tuning_estimate(&some_case, candidates, 2).n_vis > 0);
}

/* Try shapes that were measured, the fastest of each list first. */
static void test_guess_follows_measurements(void **state)
{
    (void)state;
    const msi_window_shape grid[] = {{4, 4, 4, 1, 32, 32, MSI_WINDOW_THREADS, 0},
                                     {4, 4, 4, 1, 64, 32, MSI_WINDOW_THREADS, 0},
                                     {4, 2, 1, 1, 32, 32, MSI_WINDOW_THREADS, 0},
                                     {1, 4, 4, 2, 64, 64, MSI_WINDOW_THREADS, 0}};
    const msi_window_shape degrid[] = {{1, 4, 4, 4, 16, 16, MSI_WINDOW_TENSOR, 0},
                                       {1, 4, 4, 8, 32, 32, MSI_WINDOW_TENSOR, 0},
                                       {1, 4, 4, 6, 48, 24, MSI_WINDOW_TENSOR, 0},
                                       {4, 4, 4, 4, 16, 16, MSI_WINDOW_TENSOR, 0},
                                       {4, 4, 4, 1, 64, 32, MSI_WINDOW_THREADS, 0}};
    static const struct {
        int32_t taps;
        int grid, degrid; /* the first of each list that should be found */
        int degrid_alone; /* with one image */
    } expected[] = {{12, 2, 3, 0}, {28, 0, 3, 1}, {44, 1, 3, 2}, {60, 1, 3, 1}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        msi_window_case problem = some_case;
        problem.full = 0;
        problem.taps = expected[i].taps;
        msi_window_shape s = msi_window_tuning_estimate(&problem, grid, 4);
        assert_int_equal(s.coarsen_u, grid[expected[i].grid].coarsen_u);
        assert_int_equal(s.tile_u, grid[expected[i].grid].tile_u);
        assert_int_equal(s.images, 4);
        s = msi_window_tuning_estimate(&problem, degrid, 3);
        assert_int_equal(s.tile_u, degrid[expected[i].degrid_alone].tile_u);
        s = msi_window_tuning_estimate(&problem, degrid + 2, 3);
        assert_int_equal(s.images, degrid[expected[i].degrid].images);
        assert_int_equal(s.variant, MSI_WINDOW_TENSOR);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fastest_is_remembered),       cmocka_unit_test(test_budget_is_kept),
        cmocka_unit_test(test_cases_are_distinguished),     cmocka_unit_test(test_damaged_cache_is_ignored),
        cmocka_unit_test(test_unwritable_cache_is_ignored), cmocka_unit_test(test_folder_of_the_user),
        cmocka_unit_test(test_failure_is_passed_on),        cmocka_unit_test(test_guess_has_the_least_padding),
        cmocka_unit_test(test_guess_follows_measurements),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
