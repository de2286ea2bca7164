/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    msi_log_level level;
    int with_time;
    int bar_shown; /* a progress bar stands on the current terminal line */
} state = {MSI_LOG_NORMAL, 0, 0};

static _Thread_local int is_hushed;

static double monotonic_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double msi_wall_s(void)
{
    static double start = -1;
    if (start < 0) start = monotonic_s();
    return monotonic_s() - start;
}

void msi_log_setup(msi_log_level level, int with_time)
{
    msi_wall_s();
    state.level = level;
    state.with_time = with_time;
}

static void clear_bar(void)
{
    if (state.bar_shown) fputs("\r\033[K", stderr);
    state.bar_shown = 0;
}

static void line(const char *prefix, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));

static void line(const char *prefix, const char *format, va_list ap)
{
    flockfile(stderr);
    clear_bar();
    if (state.with_time) {
        char clock_text[32];
        time_t now = time(NULL);
        struct tm utc;
        gmtime_r(&now, &utc);
        strftime(clock_text, sizeof clock_text, "%Y-%m-%dT%H:%M:%SZ", &utc);
        fprintf(stderr, "%s %8.3f  ", clock_text, msi_wall_s());
    }
    fputs(prefix, stderr);
    vfprintf(stderr, format, ap);
    fputc('\n', stderr);
    funlockfile(stderr);
}

#define MSI_LOG_LINE(prefix)                                                                                           \
    do {                                                                                                               \
        va_list ap;                                                                                                    \
        va_start(ap, format);                                                                                          \
        line(prefix, format, ap);                                                                                      \
        va_end(ap);                                                                                                    \
    } while (0)

void msi_log_info(const char *format, ...)
{
    if (state.level >= MSI_LOG_NORMAL) MSI_LOG_LINE("");
}

void msi_log_detail(const char *format, ...)
{
    if (state.level >= MSI_LOG_VERBOSE) MSI_LOG_LINE("");
}

void msi_log_warning(const char *format, ...)
{
    MSI_LOG_LINE("msimage: warning: ");
}

static void error_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void error_line(const char *format, ...)
{
    MSI_LOG_LINE("msimage: error: ");
}

void msi_log_error(const char *message)
{
    error_line("%s", message);
}

void msi_progress_hush(int hushed)
{
    is_hushed = hushed;
}

/* Draws a bar in place of the one before it; clears it where the stage has ended. */
static void draw_bar(const char *stage, double fraction, double left_s, int is_over)
{
    char bar[31];
    int filled = (int)(fraction * 30);
    for (int i = 0; i < 30; i++) bar[i] = i < filled ? '#' : '.';
    bar[30] = 0;
    flockfile(stderr);
    if (is_over) {
        clear_bar();
    } else {
        fprintf(stderr, "\r\033[K%-12s [%s] %3.0f %%  ETA %.0f s", stage, bar, 100 * fraction, left_s);
        state.bar_shown = 1;
        fflush(stderr);
    }
    funlockfile(stderr);
}

void msi_progress(const char *stage, int64_t done, int64_t total)
{
    static const char *current;
    static double started, last_drawn;
    static int last_tenth;
    if (state.level == MSI_LOG_QUIET || total <= 0 || is_hushed) return;
    double now = msi_wall_s();
    if (!current || strcmp(current, stage) != 0 || done == 0) {
        current = stage;
        started = now;
        last_drawn = 0;
        last_tenth = 0;
    }
    if (done >= total) current = NULL;
    double elapsed = now - started;
    double fraction = (double)done / (double)total;
    double left = fraction > 0 ? elapsed * (1 - fraction) / fraction : 0;
    if (isatty(STDERR_FILENO) && !state.with_time) {
        if (done < total && now - last_drawn < 0.1) return;
        last_drawn = now;
        draw_bar(stage, fraction, left, done >= total);
        return;
    }
    int tenth = (int)(fraction * 10);
    if (tenth > last_tenth && elapsed > 5 && done < total) {
        last_tenth = tenth;
        msi_log_info("%s: %d %%, ETA %.0f s", stage, tenth * 10, left);
    }
}
