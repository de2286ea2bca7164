/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the first failure of several threads: only it is stored, and it becomes the failure of the thread that raises
 * it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"

static void test_no_failure(void **state)
{
    (void)state;
    msi_first_error e = {0};
    msi_error_about(msi_error_set(MSI_EINPUT, "an older one"), "uvw");
    msi_first_error_keep(&e, MSI_OK);
    assert_int_equal(msi_first_error_status(&e), MSI_OK);
    assert_int_equal(msi_first_error_raise(&e), MSI_OK);
    /* The message of this thread does not change. */
    assert_string_equal(msi_error_get(), "an older one");
    assert_string_equal(msi_error_about_get(), "uvw");
}

static void test_first_counts(void **state)
{
    (void)state;
    msi_first_error e = {0};
    msi_first_error_keep(&e, msi_error_about(msi_error_set(MSI_EGPU, "row %d", 7), "backend"));
    msi_first_error_keep(&e, msi_error_about(msi_error_set(MSI_EINPUT, "a later one"), "uvw"));
    msi_first_error_keep(&e, MSI_OK);
    assert_int_equal(msi_first_error_status(&e), MSI_EGPU);
    assert_string_equal(msi_error_get(), "a later one");
    /* Raising does not change the stored failure. */
    for (int i = 0; i < 2; i++) {
        msi_error_set(MSI_ENOMEM, "something else");
        assert_int_equal(msi_first_error_raise(&e), MSI_EGPU);
        assert_string_equal(msi_error_get(), "row 7");
        assert_string_equal(msi_error_about_get(), "backend");
    }
}

static void test_failure_about_nothing(void **state)
{
    (void)state;
    msi_first_error e = {0};
    msi_first_error_keep(&e, msi_error_set(MSI_ERANGE, "about nothing"));
    msi_error_about(msi_error_set(MSI_EINPUT, "something else"), "uvw");
    assert_int_equal(msi_first_error_raise(&e), MSI_ERANGE);
    assert_string_equal(msi_error_about_get(), "");
}

static void test_longest_message(void **state)
{
    (void)state;
    char longest[2 * MSI_MESSAGE_BYTES], kept[MSI_MESSAGE_BYTES];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = 0;
    msi_first_error e = {0};
    msi_first_error_keep(&e, msi_error_set(MSI_EINPUT, "%s", longest));
    snprintf(kept, sizeof kept, "%s", msi_error_get());
    msi_error_set(MSI_ENOMEM, "something else");
    assert_int_equal(msi_first_error_raise(&e), MSI_EINPUT);
    assert_string_equal(msi_error_get(), kept);
}

enum { N_THREAD = 8, N_ROUND = 200 };

static msi_first_error shared;
static pthread_barrier_t start;

/* Every thread has a status, a message and a subject that belong together. */
static const struct failure {
    int status;
    const char *about;
} failures[N_THREAD] = {{MSI_EUSAGE, "a"}, {MSI_EINPUT, "b"},  {MSI_EOUTPUT, "c"}, {MSI_ENOMEM, "d"},
                        {MSI_EGPU, "e"},   {MSI_ELOCKED, "f"}, {MSI_ERANGE, "g"},  {MSI_EINTERNAL, "h"}};

static void *fail_at_once(void *argument)
{
    const struct failure *f = argument;
    pthread_barrier_wait(&start);
    msi_first_error_keep(&shared, msi_error_about(msi_error_set(f->status, "failure of %s", f->about), f->about));
    return NULL;
}

static void test_threads_that_fail_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUND; round++) {
        pthread_t thread[N_THREAD];
        memset(&shared, 0, sizeof shared);
        assert_int_equal(pthread_barrier_init(&start, NULL, N_THREAD), 0);
        for (int i = 0; i < N_THREAD; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, fail_at_once, (void *)&failures[i]), 0);
        for (int i = 0; i < N_THREAD; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
        pthread_barrier_destroy(&start);
        const int status = msi_first_error_raise(&shared);
        int first = 0;
        while (first < N_THREAD && failures[first].status != status) first++;
        assert_true(first < N_THREAD);
        char message[32];
        snprintf(message, sizeof message, "failure of %s", failures[first].about);
        assert_string_equal(msi_error_get(), message);
        assert_string_equal(msi_error_about_get(), failures[first].about);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_failure),
        cmocka_unit_test(test_first_counts),
        cmocka_unit_test(test_failure_about_nothing),
        cmocka_unit_test(test_longest_message),
        cmocka_unit_test(test_threads_that_fail_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
