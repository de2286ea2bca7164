/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log lines: which are shown at which level, what they begin with, and the bar of a terminal (a pseudo-terminal here).
 */
#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/log.h"

static char shown[8192];

/* Calls `speak` with stderr led to `out`, from which `from` reads; what came is in `shown`. */
static void listen_to(void (*speak)(void), int out, int from)
{
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(dup2(out, STDERR_FILENO), STDERR_FILENO);
    speak();
    fflush(stderr);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(out);
    size_t n = 0;
    for (ssize_t got; (got = read(from, shown + n, sizeof shown - 1 - n)) > 0;) n += (size_t)got;
    shown[n] = 0;
    close(from);
}

static void listen_by_pipe(void (*speak)(void))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    listen_to(speak, ends[1], ends[0]);
}

static void listen_by_terminal(void (*speak)(void))
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) skip();
    const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios settings;
    assert_int_equal(tcgetattr(end, &settings), 0);
    cfmakeraw(&settings);
    assert_int_equal(tcsetattr(end, TCSANOW, &settings), 0);
    assert_int_equal(fcntl(terminal, F_SETFL, O_NONBLOCK), 0);
    /* Once the last end is closed what it was sent may be gone: keep one open until all is read. */
    const int open_end = dup(end);
    listen_to(speak, end, terminal);
    close(open_end);
}

static void speak_each(void)
{
    msi_log_info("ordinary %d", 1);
    msi_log_detail("detail %d", 2);
    msi_log_warning("odd %d", 3);
    msi_log_error("it failed: 100%s");
}

static void test_levels(void **state)
{
    (void)state;
    msi_log_setup(MSI_LOG_QUIET, 0);
    listen_by_pipe(speak_each);
    assert_string_equal(shown, "msimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
    msi_log_setup(MSI_LOG_NORMAL, 0);
    listen_by_pipe(speak_each);
    assert_string_equal(shown, "ordinary 1\nmsimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
    msi_log_setup(MSI_LOG_VERBOSE, 0);
    listen_by_pipe(speak_each);
    assert_string_equal(shown, "ordinary 1\ndetail 2\nmsimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
}

static void test_lines_with_the_time(void **state)
{
    (void)state;
    regex_t with_time;
    assert_int_equal(regcomp(&with_time,
                             "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z +[0-9]+\\.[0-9]{3}  ordinary 1\n",
                             REG_EXTENDED | REG_NOSUB),
                     0);
    msi_log_setup(MSI_LOG_NORMAL, 1);
    listen_by_pipe(speak_each);
    assert_int_equal(regexec(&with_time, shown, 0, NULL, 0), 0);
    regfree(&with_time);
    msi_log_setup(MSI_LOG_NORMAL, 0);
}

static void show_progress(void)
{
    msi_progress("gridding", 0, 10);
    msi_progress("gridding", 10, 10);
    msi_progress("nothing", 0, 0);
}

static void show_half_and_speak(void)
{
    msi_progress("gridding", 0, 10);
    usleep(150000); /* a bar is drawn at most ten times a second */
    msi_progress("gridding", 5, 10);
    msi_log_info("a line between");
    msi_progress("gridding", 10, 10);
}

static void show_hushed(void)
{
    msi_progress_hush(1);
    show_half_and_speak();
    msi_progress_hush(0);
}

static void test_short_stages_are_silent_without_a_terminal(void **state)
{
    (void)state;
    listen_by_pipe(show_progress);
    assert_string_equal(shown, "");
}

static void test_bar_on_a_terminal(void **state)
{
    (void)state;
    msi_log_setup(MSI_LOG_NORMAL, 0);
    listen_by_terminal(show_half_and_speak);
    const char *bar = strstr(shown, "\r\033[Kgridding     [###############...............]  50 %  ETA ");
    assert_non_null(bar);
    /* A line of the log stands alone: the bar goes first. */
    assert_non_null(strstr(bar, "\r\033[Ka line between\n"));
    /* The end of a stage leaves no bar. */
    const char *last = strrchr(shown, '\n');
    assert_non_null(last);
    assert_null(strchr(last, '['));

    listen_by_terminal(show_hushed);
    assert_string_equal(shown, "a line between\n");
    msi_log_setup(MSI_LOG_QUIET, 0);
    listen_by_terminal(show_half_and_speak);
    assert_string_equal(shown, "");
    msi_log_setup(MSI_LOG_NORMAL, 0);
}

static void test_wall_clock_runs(void **state)
{
    (void)state;
    const double before = msi_wall_s();
    usleep(2000);
    assert_true(msi_wall_s() - before >= 0.0019);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_lines_with_the_time),
        cmocka_unit_test(test_short_stages_are_silent_without_a_terminal),
        cmocka_unit_test(test_bar_on_a_terminal),
        cmocka_unit_test(test_wall_clock_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
