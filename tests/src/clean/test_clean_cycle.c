/* SPDX-License-Identifier: GPL-3.0-or-later */
/* When cleaning continues, continues in the mask, or stops, by the exact peaks after cycles; estimates of the cycles
 * left against cycles made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "src/clean/clean_cycle.h"

/* Make a cycle and judge it. Given: at_threshold  minor iterations ended there; peak  of the exact residual */
static void make_cycle(msi_clean_group *g, const msi_clean_options *o, int at_threshold, double peak)
{
    g->peak_before = g->peak;
    g->at_threshold = at_threshold;
    g->n_major++;
    assert_int_equal(msi_clean_judge(g, o, peak), 0);
}

/* Minor iterations reach the threshold of -auto-mask in the third cycle; the peak of the exact residual falls
 * slowly. */
static msi_clean_group clean_slowly(int nmiter)
{
    const msi_clean_options o = {
        .niter = INT64_MAX / 2, .auto_mask = 3, .auto_mask_nmiter = 99, .auto_threshold = 1, .nmiter = nmiter};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
    make_cycle(&g, &o, 0, 4);
    make_cycle(&g, &o, 0, 1.8);
    assert_int_equal(g.in_mask, 0);
    make_cycle(&g, &o, 1, 1.4);
    return g;
}

/* With five cycles the last two are used in the mask. With fifty there are enough to reach the threshold exactly. A run
 * without cycles left stops. */
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

/* At most as many cycles follow in the mask as -auto-mask-nmiter allows; none with 0. */
static void cycles_in_the_mask_are_limited(void **state)
{
    (void)state;
    for (int most = 0; most < 4; most++) {
        const msi_clean_options o = {
            .niter = INT64_MAX / 2, .auto_mask = 3, .auto_threshold = 1, .auto_mask_nmiter = most, .nmiter = 50};
        msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
        make_cycle(&g, &o, 0, 4);
        make_cycle(&g, &o, 1, 0.9);
        assert_int_equal(g.in_mask, 1);
        g.threshold = 0.3;
        assert_int_equal(msi_clean_judge(&g, &o, 0.9), 0); /* by the threshold of the mask */
        int n = 0;
        for (; !g.stop && n < 9; n++) {
            const double left = msi_clean_cycles_left(&g, &o, 0.3);
            assert_true(left <= most - n);
            make_cycle(&g, &o, 0, 0.9 * g.peak);
        }
        assert_int_equal(n, most);
        assert_string_equal(g.stop, "major cycles");
    }
}

/* Forced rounds search the whole image while anything exceeds the threshold of -auto-mask, whatever -nmiter leaves. */
static void rounds_of_the_mask_are_forced(void **state)
{
    (void)state;
    static const int in_mask[] = {1, 1, 0, 0};
    for (int forced = 0; forced < 4; forced++) {
        const msi_clean_options o = {.niter = INT64_MAX / 2,
                                     .auto_mask = 3,
                                     .auto_threshold = 1,
                                     .auto_mask_nmiter = 99,
                                     .nmiter = 4,
                                     .force_mask_rounds = 1 + forced};
        msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
        make_cycle(&g, &o, 1, 4);
        assert_int_equal(g.in_mask, 0);
        make_cycle(&g, &o, 1, 1.05); /* within a tenth of the threshold, and half of the cycles are over */
        assert_int_equal(g.in_mask, in_mask[forced]);
        if (!g.in_mask) make_cycle(&g, &o, 1, 0.99);
        assert_int_equal(g.in_mask, 1);
    }
}

/* Why minor iterations are the last ones is known before the exact residual only if it cannot change the decision. */
static void last_iterations_are_known(void **state)
{
    (void)state;
    const msi_clean_options final = {.niter = 1000, .auto_threshold = 3, .nmiter = 4},
                            mask = {.niter = 1000, .auto_threshold = 1, .auto_mask = 3, .auto_mask_nmiter = 2},
                            brief = {.niter = 1000, .auto_threshold = 1, .auto_mask = 3, .auto_mask_nmiter = 0};
    const struct {
        const msi_clean_options *o;
        msi_clean_group g;
        const char *word;
    } table[] = {{&final, {.n_major = 3}, NULL},
                 {&final, {.n_major = 3, .at_threshold = 1}, "threshold"},
                 {&final, {.n_major = 4}, "major cycles"},
                 {&final, {.n_major = 1, .n_minor = 1000}, "iterations"},
                 {&final, {.n_major = 1, .stop = "negative peak"}, "negative peak"},
                 {&mask, {.n_major = 3, .at_threshold = 1}, NULL},
                 {&mask, {.n_major = 4, .in_mask = 1, .mask_major = 3}, NULL},
                 {&mask, {.n_major = 4, .in_mask = 1, .mask_major = 3, .at_threshold = 1}, "threshold"},
                 {&mask, {.n_major = 5, .in_mask = 1, .mask_major = 3}, "major cycles"},
                 {&brief, {.n_major = 3, .at_threshold = 1}, "major cycles"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *word = msi_clean_last_cycle(&table[i].g, table[i].o);
        if (table[i].word)
            assert_string_equal(word, table[i].word);
        else
            assert_null(word);
    }
}

/* Without -auto-mask cleaning stops at the threshold and does not continue in a mask. */
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

/* Before the first cycle the peak must be at the threshold itself; after a cycle it may be slightly above. */
static void the_dirty_image_is_held_to_the_threshold_itself(void **state)
{
    (void)state;
    static const double peaks[] = {1, -1, 1.05}; /* in thresholds */
    const msi_clean_options o = {.niter = 1000};
    for (int i = 0; i < 3; i++) {
        msi_clean_group g = {.mgain = 0.8, .threshold = 1, .noise = 0.3};
        assert_int_equal(msi_clean_judge(&g, &o, peaks[i]), 0);
        if (i < 2)
            assert_string_equal(g.stop, "threshold");
        else
            assert_null(g.stop);
    }
}

static void iterations_are_counted(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = 1000};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3, .n_minor = 999};
    make_cycle(&g, &o, 0, 10);
    assert_null(g.stop);
    g.n_minor = 1000;
    make_cycle(&g, &o, 0, 5);
    assert_string_equal(g.stop, "iterations");
}

/* A cycle is undone if the peak is twice as high, or higher by a tenth with a higher noise. The next one cleans half as
 * deep. The fourth undone cycle in a row stops cleaning. */
static void worse_cycles_are_undone(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = 1000};
    msi_clean_group g = {
        .peak_before = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3, .noise_before = 0.3, .n_major = 1};
    assert_int_equal(msi_clean_judge(&g, &o, 39), 0);
    assert_int_equal(msi_clean_judge(&g, &o, -41), 1);
    assert_true(g.mgain == 0.4 && !g.stop);
    g.noise = 0.31;
    assert_int_equal(msi_clean_judge(&g, &o, 21), 0);
    assert_true(g.mgain == 0.4);
    for (int i = 0; i < 4; i++) {
        assert_null(g.stop);
        assert_int_equal(msi_clean_judge(&g, &o, 23), 1);
    }
    assert_true(g.mgain == 0.025);
    assert_string_equal(g.stop, "diverged");
}

/* Three cycles in a row that lower the peak by less than a hundredth stop cleaning. A cycle that lowers it by more does
 * not count. */
static void idle_cycles_are_the_end(void **state)
{
    (void)state;
    static const double peaks[] = {10, 9.95, 9.91, 9, 8.95, 8.94, 8.93};
    const msi_clean_options o = {.niter = 1000};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3};
    for (int i = 0; i < 7; i++) {
        assert_null(g.stop);
        make_cycle(&g, &o, 0, peaks[i]);
    }
    assert_string_equal(g.stop, "stalled");
}

/* If iterations run out slightly above the threshold, they are the reason to stop; at the threshold, it is the
 * threshold.
 */
static void iterations_that_run_out_are_reported(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = 100, .auto_threshold = 3, .nmiter = 50};
    msi_clean_group g = {.peak = 20, .mgain = 0.8, .threshold = 1, .noise = 0.3, .n_minor = 100};
    msi_clean_group at_end = g;
    make_cycle(&g, &o, 0, 1.05);
    assert_string_equal(g.stop, "iterations");
    make_cycle(&at_end, &o, 1, 0.99);
    assert_string_equal(at_end.stop, "threshold");
}

/* ---- Cycles left ---- */

/* Make a cycle that leaves the fraction `left` of the peak. */
static void lower_peak(msi_clean_group *g, double left, int64_t n_iteration)
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

/* If a peak of any sign always falls by the same factor, the estimate is the exact number of cycles. */
static void test_constant_decay(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = INT64_MAX / 2};
    static const double part[] = {0.2, 0.5, 0.9};
    for (int i = 0; i < 3; i++) {
        msi_clean_group g = {.peak = -8, .mgain = 1 - part[i]};
        for (int left = cycles_to(8, part[i], 0.05); left > 0; left--) {
            assert_true(msi_clean_cycles_left(&g, &o, 0.05) == left);
            lower_peak(&g, part[i], 10);
        }
        g.stop = "threshold";
        assert_true(msi_clean_cycles_left(&g, &o, 0.05) == 0);
    }
}

/* The estimate uses the measured decay, not that of -mgain. */
static void test_slower_than_asked(void **state)
{
    (void)state;
    const msi_clean_options o = {.niter = 1000000};
    msi_clean_group g = {.peak = 1, .mgain = 0.8};
    assert_true(msi_clean_cycles_left(&g, &o, 0.01) == cycles_to(1, 0.2, 0.01));
    lower_peak(&g, 0.5, 100);
    assert_true(msi_clean_cycles_left(&g, &o, 0.01) == cycles_to(0.5, 0.5, 0.01));
    /* After an undone cycle it uses -mgain. */
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
    lower_peak(&g, 0.5, 300);
    assert_true(msi_clean_cycles_left(&g, &o, 0) == 3);
    assert_true(msi_clean_cycles_left(&g, &o, 0.4) == 1);
    assert_true(msi_clean_cycles_left(&g, &o, 1e-9) == 3);
    o.nmiter = 2;
    assert_true(msi_clean_cycles_left(&g, &o, 1e-9) == 1);
    /* If the peak rises, only the limits count. */
    o.nmiter = 50;
    o.niter = INT64_MAX / 2;
    lower_peak(&g, 1.1, 300);
    assert_true(msi_clean_cycles_left(&g, &o, 0.4) == 48);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_cycles_are_kept_for_the_mask),
                                       cmocka_unit_test(cycles_in_the_mask_are_limited),
                                       cmocka_unit_test(rounds_of_the_mask_are_forced),
                                       cmocka_unit_test(last_iterations_are_known),
                                       cmocka_unit_test(a_threshold_is_the_end),
                                       cmocka_unit_test(the_dirty_image_is_held_to_the_threshold_itself),
                                       cmocka_unit_test(iterations_are_counted),
                                       cmocka_unit_test(worse_cycles_are_undone),
                                       cmocka_unit_test(idle_cycles_are_the_end),
                                       cmocka_unit_test(iterations_that_run_out_are_reported),
                                       cmocka_unit_test(test_constant_decay),
                                       cmocka_unit_test(test_slower_than_asked),
                                       cmocka_unit_test(test_limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
