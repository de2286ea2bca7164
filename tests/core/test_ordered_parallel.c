/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "core/status.h"
#include "core/ordered_parallel.h"

enum { N = 200, STEPS = 3 };

typedef struct record {
    int n_thread;
    pthread_t by[N]; /* the thread that worked on an item */
    atomic_int worked[N], n_finished;
    int64_t order[N], fail_work, fail_finish; /* items; -1: none */
    int64_t ended[STEPS];                     /* items that have ended each step */
    int64_t skips;                            /* an item takes no step if its number is a multiple; 0: all do */
} record;

static int work(void *of, int64_t i)
{
    record *r = of;
    r->by[i] = pthread_self();
    r->worked[i]++;
    return i == r->fail_work ? msi_error_set(MSI_EINPUT, "work %d", (int)i) : MSI_OK;
}

/* Take all steps, each after those of the earlier items. */
static int work_in_steps(void *of, int64_t i)
{
    record *r = of;
    for (int s = 0; s < STEPS && !(r->skips && i % r->skips == 0); s++) {
        const int rc = msi_ordered_step_begin(s);
        if (rc) return rc;
        if (!r->skips) assert_int_equal(r->ended[s], i);
        for (int k = s + 1; k < STEPS; k++) assert_true(r->ended[k] <= i);
        r->ended[s] = r->skips ? r->ended[s] + 1 : i + 1;
        msi_ordered_step_end(s);
        if (s == 1 && i == r->fail_work) return msi_error_set(MSI_EINPUT, "step of %d", (int)i);
    }
    return MSI_OK;
}

static int finish(void *of, int64_t i)
{
    record *r = of;
    r->order[r->n_finished++] = i;
    return i == r->fail_finish ? msi_error_set(MSI_EOUTPUT, "finish %d", (int)i) : MSI_OK;
}

static int run(record *r, int n_thread, int64_t fail_work, int64_t fail_finish)
{
    memset(r, 0, sizeof *r);
    r->n_thread = n_thread;
    r->fail_work = fail_work;
    r->fail_finish = fail_finish;
    const msi_ordered_parallel turns = {.n_item = N, .n_thread = n_thread, .work = work, .finish = finish, .of = r};
    return msi_ordered_parallel_run(&turns);
}

static void test_order(void **state)
{
    (void)state;
    record r;
    for (int n_thread = 1; n_thread <= 7; n_thread += 3) {
        assert_int_equal(run(&r, n_thread, -1, -1), MSI_OK);
        assert_int_equal(r.n_finished, N);
        for (int64_t i = 0; i < N; i++) {
            assert_int_equal(r.order[i], i);
            assert_int_equal(r.worked[i], 1);
            assert_true(pthread_equal(r.by[i], r.by[i % n_thread]));
            if (i < n_thread) assert_int_equal(pthread_equal(r.by[i], pthread_self()) != 0, i == 0);
        }
    }
}

/* Items before the failed one may be finished, but no later ones. */
static void test_failures(void **state)
{
    (void)state;
    record r;
    for (int n_thread = 1; n_thread <= 7; n_thread += 3)
        for (int64_t at = 0; at < N; at += 33) {
            assert_int_equal(run(&r, n_thread, at, -1), MSI_EINPUT);
            assert_true(r.n_finished <= at);
            assert_true(strncmp(msi_error_get(), "work", 4) == 0);
            assert_int_equal(run(&r, n_thread, -1, at), MSI_EOUTPUT);
            assert_int_equal(r.n_finished, at + 1);
            for (int64_t i = 0; i <= at; i++) assert_int_equal(r.order[i], i);
        }
}

static int run_steps(record *r, int n_thread, int64_t fail_work, int64_t skips)
{
    memset(r, 0, sizeof *r);
    r->fail_work = fail_work;
    r->fail_finish = -1;
    r->skips = skips;
    const msi_ordered_parallel turns = {
        .n_item = N, .n_thread = n_thread, .work = work_in_steps, .finish = finish, .of = r};
    return msi_ordered_parallel_run(&turns);
}

/* Steps are taken in the order of items; items may leave steps out; a failure ends the waits for its steps. */
static void test_steps(void **state)
{
    (void)state;
    record r;
    assert_int_equal(msi_ordered_step_begin(0), MSI_OK);
    msi_ordered_step_end(0);
    assert_int_equal(msi_ordered_is_next(), 1);
    for (int n_thread = 1; n_thread <= 7; n_thread += 3) {
        assert_int_equal(run_steps(&r, n_thread, -1, 0), MSI_OK);
        for (int s = 0; s < STEPS; s++) assert_int_equal(r.ended[s], N);
        assert_int_equal(run_steps(&r, n_thread, -1, 4), MSI_OK);
        for (int s = 0; s < STEPS; s++) assert_int_equal(r.ended[s], N - N / 4);
        assert_int_equal(run_steps(&r, n_thread, 66, 0), MSI_EINPUT);
        assert_string_equal(msi_error_get(), "step of 66");
        assert_int_equal(r.n_finished, 66);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_failures),
                                       cmocka_unit_test(test_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
