/* SPDX-License-Identifier: GPL-3.0-or-later */
/* When cleaning goes on, goes on in the mask, or ends, by the exact peaks that cycles left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "src/clean/clean_stop.h"

/* Make a cycle whose minor iterations ended as said and whose exact residual has this peak, and judge it. */
static void make_cycle(msi_clean_group *g, const msi_clean_options *o, int at_threshold, double peak)
{
    g->peak_before = g->peak;
    g->at_threshold = at_threshold;
    g->n_major++;
    assert_int_equal(msi_clean_judge(g, o, peak), 0);
}

/* Minor iterations are at the threshold of -auto-mask after the third cycle; the exact residual's peak comes slowly. */
static msi_clean_group clean_slowly(int nmiter)
{
    const msi_clean_options o = {.niter = INT64_MAX / 2, .auto_mask = 3, .auto_threshold = 1, .nmiter = nmiter};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
    make_cycle(&g, &o, 0, 4);
    make_cycle(&g, &o, 0, 1.8);
    assert_int_equal(g.in_mask, 0);
    make_cycle(&g, &o, 1, 1.4);
    return g;
}

/* Of five cycles the last two are the mask's; of fifty there are enough to come to the threshold exactly; a run whose
 * cycles are spent ends, and so does one within them. */
static void few_cycles_are_kept_for_the_mask(void **state)
{
    (void)state;
    static const int allowed[] = {0, 3, 4, 5, 6, 7, 50}, in_mask[] = {0, 0, 1, 1, 1, 0, 0};
    for (int i = 0; i < 7; i++) {
        const msi_clean_group g = clean_slowly(allowed[i]);
        assert_int_equal(g.in_mask, in_mask[i]);
        if (allowed[i] == 3)
            assert_string_equal(g.stop, "major cycles");
        else
            assert_null(g.stop);
    }
}

/* Without -auto-mask the threshold is the end, and nothing goes on in a mask. */
static void a_threshold_is_the_end(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = INT64_MAX / 2, .auto_threshold = 3, .nmiter = 4};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
    make_cycle(&g, &o, 0, 4);
    make_cycle(&g, &o, 1, 1.8);
    assert_null(g.stop);
    make_cycle(&g, &o, 1, 1.05);
    assert_string_equal(g.stop, "threshold");
    assert_int_equal(g.in_mask, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_cycles_are_kept_for_the_mask),
                                       cmocka_unit_test(a_threshold_is_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
