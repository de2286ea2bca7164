/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests error messages: one line, cut only beyond the maximum length, one for each thread, with a subject. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "core/image.h"

static void test_message_has_its_values(void **state)
{
    (void)state;
    assert_int_equal(msi_error_set(MSI_EINPUT, "%s: row %d", "a.ms", 7), MSI_EINPUT);
    assert_string_equal(msi_error_get(), "a.ms: row 7");
    msi_error_set(MSI_EOUTPUT, "another");
    assert_string_equal(msi_error_get(), "another");
}

static void test_message_is_one_line(void **state)
{
    (void)state;
    msi_error_set(MSI_EINPUT, "%s", "a\nb\tc\x1b[31m\rd");
    assert_string_equal(msi_error_get(), "a b c [31m d");
    msi_error_set(MSI_EINPUT, "%s", "\xc3\xa9toile");
    assert_string_equal(msi_error_get(), "\xc3\xa9toile");
}

static void test_message_that_is_too_long_loses_its_middle(void **state)
{
    (void)state;
    static const char remedy[] = ": cannot be opened; give another";
    static char path[20 * MSI_MESSAGE_BYTES];
    memset(path, 'p', sizeof path - 1);
    assert_int_equal(msi_error_set(MSI_EINPUT, "-name %s%s", path, remedy), MSI_EINPUT);
    const char *m = msi_error_get();
    assert_true(strncmp(m, "-name ppp", 9) == 0 && strstr(m, "ppp .. ppp") && strlen(m) < MSI_MESSAGE_BYTES / 2);
    assert_string_equal(m + strlen(m) - strlen(remedy), remedy);
    /* Characters of two bytes are not cut, wherever the message is cut. */
    for (size_t i = 0; i + 2 < sizeof path; i += 2) memcpy(path + i, "\xc3\xa9", 2);
    path[sizeof path - 2] = 0;
    for (int shift = 0; shift < 2; shift++) {
        msi_error_set(MSI_EINPUT, "%s%s\n", &"-"[shift], path);
        for (const char *p = msi_error_get(); *p; p += *p == '\xc3' ? 2 : 1)
            assert_true(*p == '-' || *p == ' ' || *p == '.' || (p[0] == '\xc3' && p[1] == '\xa9'));
    }
    memset(path, 'p', sizeof path - 1);
    /* The longest message that fits is not cut. */
    path[MSI_MESSAGE_BYTES - 2] = 0;
    msi_error_set(MSI_EINPUT, "%s.", path);
    assert_int_equal(strlen(msi_error_get()), MSI_MESSAGE_BYTES - 1);
    assert_int_equal(msi_error_get()[MSI_MESSAGE_BYTES - 2], '.');
}

static void test_what_is_added_stands_behind(void **state)
{
    (void)state;
    static char path[MSI_MESSAGE_BYTES - 4];
    msi_error_about(msi_error_set(MSI_EGPU, "no GPU"), "backend");
    assert_int_equal(msi_error_append(MSI_EGPU, "; %s\nfits", "-backend cpu"), MSI_EGPU);
    assert_string_equal(msi_error_get(), "no GPU; -backend cpu fits");
    assert_string_equal(msi_error_about_get(), "backend");
    memset(path, 'p', sizeof path - 1);
    msi_error_set(MSI_EINPUT, "%s", path);
    msi_error_append(MSI_EINPUT, "%s", "123456");
    assert_int_equal(strlen(msi_error_get()), MSI_MESSAGE_BYTES - 1);
    assert_string_equal(msi_error_get() + sizeof path - 1, "1234");
}

static void test_about_lasts_until_the_next_failure(void **state)
{
    (void)state;
    assert_int_equal(msi_error_about(msi_error_set(MSI_ERANGE, "too small"), "accuracy"), MSI_ERANGE);
    assert_string_equal(msi_error_about_get(), "accuracy");
    msi_error_set(MSI_EINPUT, "something else");
    assert_string_equal(msi_error_about_get(), "");
}

static int first_failing(int first, int second)
{
    MSI_TRY(first);
    MSI_TRY(second);
    return 1;
}

static void test_try_returns_the_first_failure(void **state)
{
    (void)state;
    assert_int_equal(first_failing(MSI_OK, MSI_OK), 1);
    assert_int_equal(first_failing(MSI_EGPU, MSI_EINPUT), MSI_EGPU);
    assert_int_equal(first_failing(MSI_OK, MSI_EINPUT), MSI_EINPUT);
}

static msi_first_error shared;
static const char *seen_by_thread;

static void *fail_in_thread(void *unused)
{
    (void)unused;
    seen_by_thread = strcmp(msi_error_get(), "") == 0 ? "nothing" : "another thread's";
    msi_first_error_keep(&shared, MSI_OK);
    msi_first_error_keep(&shared, msi_error_about(msi_error_set(MSI_EGPU, "the thread's"), "backend"));
    msi_first_error_keep(&shared, msi_error_set(MSI_EINPUT, "a later one"));
    return NULL;
}

static void test_messages_are_each_threads_own(void **state)
{
    (void)state;
    pthread_t thread;
    msi_error_set(MSI_EINPUT, "the main thread's");
    assert_int_equal(msi_first_error_raise(&shared), MSI_OK);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(seen_by_thread, "nothing");
    assert_string_equal(msi_error_get(), "the main thread's");
    /* The first failure of another thread becomes this thread's, with its whole message. */
    assert_int_equal(msi_first_error_status(&shared), MSI_EGPU);
    assert_int_equal(msi_first_error_raise(&shared), MSI_EGPU);
    assert_string_equal(msi_error_get(), "the thread's");
    assert_string_equal(msi_error_about_get(), "backend");
}

static void test_names_of_polarisations(void **state)
{
    (void)state;
    assert_string_equal(msi_pol_name(MSI_POL_I), "I");
    assert_string_equal(msi_pol_name(MSI_POL_V), "V");
    assert_string_equal(msi_pol_name(MSI_POL_RR), "RR");
    assert_string_equal(msi_pol_name(MSI_POL_YY), "YY");
    assert_string_equal(msi_pol_name((msi_pol)0), "?");
    assert_string_equal(msi_pol_name((msi_pol)13), "?");
    assert_string_equal(msi_pol_name((msi_pol)-1), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_has_its_values),
        cmocka_unit_test(test_message_is_one_line),
        cmocka_unit_test(test_message_that_is_too_long_loses_its_middle),
        cmocka_unit_test(test_what_is_added_stands_behind),
        cmocka_unit_test(test_about_lasts_until_the_next_failure),
        cmocka_unit_test(test_try_returns_the_first_failure),
        cmocka_unit_test(test_messages_are_each_threads_own),
        cmocka_unit_test(test_names_of_polarisations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
