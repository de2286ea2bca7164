/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests log lines: levels, prefixes, and the progress bar on a pseudo-terminal. */
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
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/log.h"
#include "core/progress.h"

static char shown[8192];

/* Call a function with stderr redirected to `out`, and read what it printed from `from` into `shown`. */
static void capture(void (*print)(void), int out, int from)
{
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0);
    assert_int_equal(dup2(out, STDERR_FILENO), STDERR_FILENO);
    print();
    fflush(stderr);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(out);
    size_t n = 0;
    for (ssize_t got; (got = read(from, shown + n, sizeof shown - 1 - n)) > 0;) n += (size_t)got;
    shown[n] = 0;
    close(from);
}

static void capture_pipe(void (*print)(void))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    capture(print, ends[1], ends[0]);
}

static void capture_terminal(void (*print)(void))
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal)) skip();
    const int end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios settings;
    assert_int_equal(tcgetattr(end, &settings), 0);
    cfmakeraw(&settings);
    assert_int_equal(tcsetattr(end, TCSANOW, &settings), 0);
    assert_int_equal(fcntl(terminal, F_SETFL, O_NONBLOCK), 0);
    /* Keep one end open until everything is read, because data may be lost when the last end is closed. */
    const int open_end = dup(end);
    capture(print, end, terminal);
    close(open_end);
}

static void print_each(void)
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
    capture_pipe(print_each);
    assert_string_equal(shown, "msimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
    msi_log_setup(MSI_LOG_NORMAL, 0);
    capture_pipe(print_each);
    assert_string_equal(shown, "ordinary 1\nmsimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
    msi_log_setup(MSI_LOG_VERBOSE, 0);
    capture_pipe(print_each);
    assert_string_equal(shown, "ordinary 1\ndetail 2\nmsimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
}

static void print_labelled(void)
{
    msi_log_labelled("band", "1.4 GHz");
    msi_log_advice("too fine");
    print_each();
}

/* Lines are kept from the first call of msi_log_keep on, also where -quiet hides them, but no details. */
static void test_kept_lines(void **state)
{
    (void)state;
    static const msi_log_line want[] = {{MSI_LOG_NORMAL, 0, "band", "1.4 GHz"},
                                        {MSI_LOG_QUIET, 0, "", "too fine"},
                                        {MSI_LOG_NORMAL, 0, "", "ordinary 1"},
                                        {MSI_LOG_QUIET, 0, "", "odd 3"},
                                        {MSI_LOG_QUIET, 0, "", "it failed: 100%s"}};
    msi_log_line line;
    msi_log_setup(MSI_LOG_QUIET, 0);
    assert_false(msi_log_kept(0, &line));
    msi_log_keep();
    capture_pipe(print_labelled);
    assert_string_equal(shown, "msimage: warning: odd 3\nmsimage: error: it failed: 100%s\n");
    for (int i = 0; i < 5; i++) {
        assert_true(msi_log_kept(i, &line));
        assert_int_equal(line.level, want[i].level);
        assert_string_equal(line.label, want[i].label);
        assert_string_equal(line.text, want[i].text);
        assert_true(line.at_s >= 0);
    }
    assert_false(msi_log_kept(5, &line));
    msi_log_setup(MSI_LOG_NORMAL, 0);
    capture_pipe(print_labelled);
    assert_string_equal(shown, "band:       1.4 GHz\nmsimage: warning: too fine\nordinary 1\nmsimage: warning: odd 3\n"
                               "msimage: error: it failed: 100%s\n");
}

static void test_name_of_program(void **state)
{
    (void)state;
    msi_log_setup(MSI_LOG_QUIET, 0);
    msi_log_program("msimage-convert");
    capture_pipe(print_each);
    msi_log_program("msimage");
    assert_string_equal(shown, "msimage-convert: warning: odd 3\nmsimage-convert: error: it failed: 100%s\n");
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
    capture_pipe(print_each);
    assert_int_equal(regexec(&with_time, shown, 0, NULL, 0), 0);
    regfree(&with_time);
    msi_log_setup(MSI_LOG_NORMAL, 0);
}

static char *printed;

static void print_text(void)
{
    msi_log_info("name: %s", printed);
}

static void print_warning_and_error(void)
{
    msi_log_warning("%s", printed);
    msi_log_advice("%s", printed);
    msi_log_error(printed);
}

/* Control characters and invalid bytes are written as \xNN; other characters do not change. */
static void test_control_characters_are_escaped(void **state)
{
    (void)state;
    const struct {
        const char *text, *want;
    } cases[] = {
        {"plain ~", "plain ~"},
        {"\033[31mred\033[0m", "\\x1B[31mred\\x1B[0m"},
        {"\a\b\t\r\n\v\177", "\\x07\\x08\\x09\\x0D\\x0A\\x0B\\x7F"},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xad",
         "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xad"}, /* letters of 2, 3, 4 bytes */
        {"\xc2\x9b"
         "31m",
         "\\xC2\\x9B31m"}, /* CSI of C1 in UTF-8 */
        {"\x9b"
         "31m \xe9",
         "\\x9B31m \\xE9"}, /* the same in Latin-1, which is not UTF-8 */
        {"\xc0\x9b \xe0\x80\x9b \xf0\x80\x80\x9b", "\\xC0\\x9B \\xE0\\x80\\x9B \\xF0\\x80\\x80\\x9B"}, /* overlong */
        {"cut \xe2\x82", "cut \\xE2\\x82"},
    };
    msi_log_setup(MSI_LOG_NORMAL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char want[256];
        printed = (char *)cases[i].text;
        capture_pipe(print_text);
        snprintf(want, sizeof want, "name: %s\n", cases[i].want);
        assert_string_equal(shown, want);
        capture_pipe(print_warning_and_error);
        snprintf(want, sizeof want, "msimage: warning: %s\nmsimage: warning: %s\nmsimage: error: %s\n", cases[i].want,
                 cases[i].want, cases[i].want);
        assert_string_equal(shown, want);
    }
    msi_log_setup(MSI_LOG_QUIET, 0);
    printed = (char *)"x";
    capture_pipe(print_warning_and_error);
    assert_string_equal(shown, "msimage: warning: x\nmsimage: error: x\n");
    msi_log_setup(MSI_LOG_NORMAL, 0);
}

/* Log lines of every length near the sizes of the buffers. */
static void test_long_lines(void **state)
{
    (void)state;
    static char text[1801], want[8192];
    for (int n = 200; n <= 1800; n++) {
        size_t at = (size_t)snprintf(want, sizeof want, "name: ");
        for (int i = 0; i < n; i++) {
            text[i] = i % 7 ? (char)('a' + i % 26) : '\033';
            at += (size_t)snprintf(want + at, sizeof want - at, i % 7 ? "%c" : "\\x%02X", text[i]);
        }
        text[n] = 0;
        snprintf(want + at, sizeof want - at, "\n");
        printed = text;
        capture_pipe(print_text);
        assert_string_equal(shown, want);
    }
}

/* The log reads the test's clock. */
static double now_s = 1000;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    t->tv_sec = (time_t)now_s;
    t->tv_nsec = (long)((now_s - (double)t->tv_sec) * 1e9 + 0.5);
    return 0;
}

static void show_short_stages(void)
{
    msi_progress_begin("gridding");
    msi_progress_end();
    msi_progress_at(1, 2); /* of no stage */
    msi_progress_end();
}

static void show_half_and_print(void)
{
    msi_progress_begin("gridding");
    now_s += 0.09; /* a bar is drawn at most ten times a second */
    msi_progress_at(4, 10);
    now_s += 1.91;
    msi_progress_at(5, 10);
    msi_log_info("a line between");
    msi_progress_end();
}

static void show_hushed(void)
{
    msi_progress_mute(1);
    show_half_and_print();
    msi_progress_mute(0);
}

/* Show a stage of 25 s in steps of one per cent. */
static void show_slowly(void)
{
    msi_progress_begin("gridding");
    for (int i = 1; i <= 100; i++) {
        now_s += 0.25;
        msi_progress_at(i, 100);
    }
    msi_progress_end();
}

static void test_short_stages_are_silent_without_a_terminal(void **state)
{
    (void)state;
    capture_pipe(show_short_stages);
    assert_string_equal(shown, "");
}

/* After 5 s there is a line for every 10 %. */
static void test_lines_without_a_terminal(void **state)
{
    (void)state;
    capture_pipe(show_slowly);
    assert_string_equal(shown, "gridding: 20 %, ETA 20 s\ngridding: 30 %, ETA 18 s\ngridding: 40 %, ETA 15 s\n"
                               "gridding: 50 %, ETA 12 s\ngridding: 60 %, ETA 10 s\ngridding: 70 %, ETA 8 s\n"
                               "gridding: 80 %, ETA 5 s\ngridding: 90 %, ETA 2 s\n");
}

static void test_bar_on_a_terminal(void **state)
{
    (void)state;
    msi_log_setup(MSI_LOG_NORMAL, 0);
    capture_terminal(show_half_and_print);
    /* A bar is there at once; 40 % came too soon after it. A line of the log stands alone: the bar goes first. The end
     * of a stage leaves no bar. */
    assert_string_equal(shown, "\r\033[Kgridding     [..............................]   0 %"
                               "\r\033[Kgridding     [###############...............]  50 %  ETA 2 s"
                               "\r\033[Ka line between\n");
    capture_terminal(show_hushed);
    assert_string_equal(shown, "a line between\n");
    msi_log_setup(MSI_LOG_QUIET, 0);
    capture_terminal(show_half_and_print);
    assert_string_equal(shown, "");
    msi_log_setup(MSI_LOG_NORMAL, 0);
}

static void test_wall_clock_runs(void **state)
{
    (void)state;
    const double before = msi_wall_s();
    now_s += 0.002;
    const double passed = msi_wall_s() - before;
    assert_float_equal(passed, 0.002, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_name_of_program),
        cmocka_unit_test(test_lines_with_the_time),
        cmocka_unit_test(test_control_characters_are_escaped),
        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_short_stages_are_silent_without_a_terminal),
        cmocka_unit_test(test_lines_without_a_terminal),
        cmocka_unit_test(test_bar_on_a_terminal),
        cmocka_unit_test(test_wall_clock_runs),
        cmocka_unit_test(test_kept_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
