/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cycles that are foreseen against cycles that are made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "src/clean/clean_foresight.h"

/* Make a cycle that leaves a part of the peak. */
static void make_cycle(msi_clean_group *g, double left, int64_t n_iteration)
{
    g->peak_before = fabs(g->peak);
    g->peak *= left;
    g->n_major++;
    g->n_minor += n_iteration;
    g->report.n_iteration = n_iteration;
}

static int cycles_to(double peak, double left, double threshold)
{
    int n = 0;
    for (; peak > threshold * (1 + 1e-9); peak *= left) n++;
    return n;
}

/* A peak that always falls by the same part comes to the threshold in so many cycles, whatever its sign. */
static void test_constant_decay(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = INT64_MAX / 2};
    static const double part[] = {0.2, 0.5, 0.9};
    for (int i = 0; i < 3; i++) {
        msi_clean_group g = {.peak = -8, .mgain = 1 - part[i]};
        for (int left = cycles_to(8, part[i], 0.05); left > 0; left--) {
            assert_true(msi_clean_cycles_left(&g, &o, 0.05) == left);
            make_cycle(&g, part[i], 10);
        }
        g.stop = "threshold";
        assert_true(msi_clean_cycles_left(&g, &o, 0.05) == 0);
    }
}

/* What was seen counts, and not what was asked for. */
static void test_slower_than_asked(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = 1000000};
    msi_clean_group g = {.peak = 1, .mgain = 0.8};
    assert_true(msi_clean_cycles_left(&g, &o, 0.01) == cycles_to(1, 0.2, 0.01));
    make_cycle(&g, 0.5, 100);
    assert_true(msi_clean_cycles_left(&g, &o, 0.01) == cycles_to(0.5, 0.5, 0.01));
    /* A cycle that was taken back tells nothing. */
    g.peak_before = 0;
    g.mgain = 0.4;
    assert_true(msi_clean_cycles_left(&g, &o, 0.01) == cycles_to(0.5, 0.6, 0.01));
}

static void test_limits(void **state)
{
    (void)state;
    msi_clean_options o = {.niter = 1000};
    msi_clean_group g = {.peak = 1, .mgain = 0.8};
    assert_true(isinf(msi_clean_cycles_left(&g, &o, 0)));
    make_cycle(&g, 0.5, 300);
    assert_true(msi_clean_cycles_left(&g, &o, 0) == 3);
    assert_true(msi_clean_cycles_left(&g, &o, 0.4) == 1);
    assert_true(msi_clean_cycles_left(&g, &o, 1e-9) == 3);
    o.nmiter = 2;
    assert_true(msi_clean_cycles_left(&g, &o, 1e-9) == 1);
    /* A peak that rises ends by a limit, if at all. */
    o.nmiter = 50;
    o.niter = INT64_MAX / 2;
    make_cycle(&g, 1.1, 300);
    assert_true(msi_clean_cycles_left(&g, &o, 0.4) == 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_constant_decay), cmocka_unit_test(test_slower_than_asked),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
