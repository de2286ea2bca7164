/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests progress in shares of a stage: the steps that a listener gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/log.h"
#include "core/progress.h"

enum { MOST = 64 };
static double steps[MOST];
static int n_step;

static void record_step(void *of, const char *stage, double fraction)
{
    assert_ptr_equal(of, steps);
    assert_string_equal(stage, "stage");
    assert_true(n_step < MOST);
    steps[n_step++] = fraction;
}

static int listen(void **state)
{
    (void)state;
    n_step = 0;
    msi_log_setup(MSI_LOG_QUIET, 0);
    msi_progress_listen(record_step, steps);
    return 0;
}

static void expect(const double *want, int n)
{
    assert_int_equal(n_step, n);
    for (int i = 0; i < n; i++) assert_float_equal(steps[i], want[i], 1e-12);
}

static void test_shares_nest(void **state)
{
    (void)state;
    msi_progress_begin("stage");
    const msi_progress_share stage = msi_progress_enter(1, 3, 4);
    const msi_progress_share half = msi_progress_enter(0, 1, 2);
    msi_progress_at(1, 2);
    msi_progress_leave(half);
    msi_progress_at(3, 4);
    msi_progress_leave(stage);
    msi_progress_end();
    const double want[] = {0, 0.25, 0.375, 0.5, 0.625, 0.75, 1};
    expect(want, 7);
}

/* Steps back and repeated steps are ignored, and progress does not exceed 1. */
static void test_never_back(void **state)
{
    (void)state;
    msi_progress_begin("stage");
    msi_progress_at(2, 4);
    msi_progress_at(1, 4);
    msi_progress_at(2, 4);
    msi_progress_at(9, 4);
    msi_progress_at(1, 0);
    msi_progress_end();
    const double want[] = {0, 0.5, 1, 1};
    expect(want, 4);
}

/* A stage that an error left open does not affect the next stage. */
static void test_a_stage_left_open(void **state)
{
    (void)state;
    msi_progress_begin("stage");
    (void)msi_progress_enter(1, 2, 4);
    msi_progress_begin("stage");
    msi_progress_at(1, 2);
    msi_progress_end();
    msi_progress_at(1, 2);
    msi_progress_leave(msi_progress_enter(0, 1, 2));
    msi_progress_end();
    const double want[] = {0, 0.25, 0, 0.5, 1};
    expect(want, 5);
}

static void test_a_hushed_thread_says_nothing(void **state)
{
    (void)state;
    msi_progress_begin("stage");
    msi_progress_mute(1);
    const msi_progress_share all = msi_progress_enter(2, 4, 4);
    msi_progress_at(1, 2);
    msi_progress_leave(all);
    msi_progress_end();
    msi_progress_mute(0);
    msi_progress_at(1, 4);
    msi_progress_end();
    const double want[] = {0, 0.25, 1};
    expect(want, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_shares_nest, listen),
        cmocka_unit_test_setup(test_never_back, listen),
        cmocka_unit_test_setup(test_a_stage_left_open, listen),
        cmocka_unit_test_setup(test_a_hushed_thread_says_nothing, listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
