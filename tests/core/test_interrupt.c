/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests signals: those that stop a run set the flag, those of a failed write do not end the process, and ignored
 * signals stay ignored. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/process.h"
#include "core/status.h"

static void test_signals_set_the_flag(void **state)
{
    (void)state;
    const int stopping[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU, SIGALRM};
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) signal(stopping[i], SIG_DFL);
    msi_interrupt_install();
    assert_int_equal(msi_interrupt_check(), MSI_OK);
    for (size_t i = 0; i < sizeof stopping / sizeof *stopping; i++) {
        msi_interrupt_raise(0);
        assert_int_equal(raise(stopping[i]), 0);
        assert_int_equal(msi_interrupt_signal(), stopping[i]);
        assert_int_equal(msi_interrupt_check(), MSI_EINTERRUPTED);
        assert_non_null(strstr(msi_error_get(), strsignal(stopping[i])));
        assert_int_equal(msi_exit_code(MSI_EINTERRUPTED), 128 + stopping[i]);
    }
    msi_interrupt_raise(0);
    assert_int_equal(msi_interrupt_check(), MSI_OK);
}

/* nohup ignores SIGHUP, so that a run continues after the terminal is closed. */
static void test_what_is_ignored_stays_so(void **state)
{
    (void)state;
    signal(SIGHUP, SIG_IGN);
    msi_interrupt_install();
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(msi_interrupt_signal(), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(msi_interrupt_signal(), SIGTERM);
    msi_interrupt_raise(0);
    signal(SIGHUP, SIG_DFL);
    msi_interrupt_install();
    assert_int_equal(raise(SIGHUP), 0);
    assert_int_equal(msi_interrupt_signal(), SIGHUP);
    msi_interrupt_raise(0);
}

/* If the parent ignores SIGCHLD, its children inherit that, and their waitpid fails unless the signal is reset. */
static void test_ends_of_children_are_noticed(void **state)
{
    (void)state;
    int how = 0;
    signal(SIGCHLD, SIG_IGN);
    msi_interrupt_install();
    const pid_t child = fork();
    if (child == 0) _exit(7);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(WEXITSTATUS(how), 7);
}

static void test_a_closed_pipe_is_an_error_of_the_write(void **state)
{
    (void)state;
    int ends[2];
    msi_interrupt_install();
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_int_equal(write(ends[1], "x", 1), -1);
    close(ends[1]);
    assert_int_equal(raise(SIGXFSZ), 0);
    assert_int_equal(msi_interrupt_signal(), 0);
}

static void test_raising_is_as_the_signal(void **state)
{
    (void)state;
    msi_interrupt_raise(SIGTERM);
    assert_int_equal(msi_interrupt_check(), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
}

static void test_exit_codes(void **state)
{
    (void)state;
    const int expected[][2] = {{MSI_OK, 0},         {MSI_EUSAGE, 2}, {MSI_EINPUT, 3},   {MSI_EOUTPUT, 4},
                               {MSI_ENOMEM, 5},     {MSI_EGPU, 5},   {MSI_ELOCKED, 6},  {MSI_ERANGE, 70},
                               {MSI_EINTERNAL, 70}, {-1000, 70},     {MSI_EARGUMENT, 2}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(msi_exit_code(expected[i][0]), expected[i][1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_set_the_flag),
        cmocka_unit_test(test_what_is_ignored_stays_so),
        cmocka_unit_test(test_ends_of_children_are_noticed),
        cmocka_unit_test(test_a_closed_pipe_is_an_error_of_the_write),
        cmocka_unit_test(test_raising_is_as_the_signal),
        cmocka_unit_test(test_exit_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
