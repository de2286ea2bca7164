/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
    msi_log_level level;
    int with_time;
    int bar_shown; /* 1: the current line of the terminal has a progress bar */
    int is_silent;
    const char *program;
} state = {MSI_LOG_NORMAL, 0, 0, 0, "msimage"};

/* The listener of this thread; NULL: lines are written to stderr. */
static _Thread_local struct {
    msi_log_listener *call;
    void *user;
} listening;

void msi_log_listen(msi_log_listener *listener, void *user)
{
    listening.call = listener;
    listening.user = user;
}

static double monotonic_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The kept lines, in order. Each is one allocation, which is never freed. */
static struct {
    int is_on;
    pthread_mutex_t gate;
    msi_log_line **line; /* [n] */
    int64_t n, capacity;
} kept = {.gate = PTHREAD_MUTEX_INITIALIZER};

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

/* Return the length in bytes of the UTF-8 character at the start of s, if it can be printed; 0 for a control character
 * (C0 or C1), an overlong form, or a byte that is not UTF-8. */
static int printable_length(const unsigned char *s)
{
    if (s[0] < 0x80) return s[0] >= 0x20 && s[0] != 0x7f;
    const int n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90)) return 0;
    return n;
}

int msi_log_printable(const char *text)
{
    return *text ? printable_length((const unsigned char *)text) : 0;
}

/* Write text to stderr. Every byte that a terminal could interpret is written as \xNN. */
static void put_escaped(const char *text)
{
    char out[1024];
    size_t n = 0;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        const int length = printable_length(s);
        if (n + 8 > sizeof out) {
            fwrite(out, 1, n, stderr);
            n = 0;
        }
        if (length)
            memcpy(out + n, s, (size_t)length);
        else
            snprintf(out + n, 5, "\\x%02X", *s);
        n += length ? (size_t)length : 4;
        s += length ? length : 1;
    }
    fwrite(out, 1, n, stderr);
}

/* Write a line of any length. If memory is exhausted, truncate it to a buffer on the stack. */
static void put_formatted(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));

static void put_formatted(const char *format, va_list ap)
{
    char few[1024], *many = NULL;
    va_list again;
    va_copy(again, ap);
    const int length = vsnprintf(few, sizeof few, format, ap);
    if (length >= (int)sizeof few && (many = malloc((size_t)length + 1)) != NULL)
        vsnprintf(many, (size_t)length + 1, format, again);
    va_end(again);
    put_escaped(many ? many : length < 0 ? format : few);
    free(many);
}

void msi_log_keep(void)
{
    kept.is_on = 1;
}

int msi_log_kept(int64_t i, msi_log_line *line)
{
    pthread_mutex_lock(&kept.gate);
    const int is_there = i >= 0 && i < kept.n;
    if (is_there) *line = *kept.line[i];
    pthread_mutex_unlock(&kept.gate);
    return is_there;
}

static void append_line(msi_log_line *line)
{
    if (kept.n == kept.capacity) {
        const int64_t capacity = 2 * kept.capacity + 64;
        msi_log_line **more = realloc(kept.line, (size_t)capacity * sizeof(msi_log_line *));
        if (!more) {
            free(line);
            return;
        }
        kept.line = more;
        kept.capacity = capacity;
    }
    kept.line[kept.n++] = line;
}

static void keep_line(msi_log_level level, const char *label, const char *text)
{
    if (!kept.is_on || level == MSI_LOG_VERBOSE) return;
    const size_t of_label = strlen(label) + 1, of_text = strlen(text) + 1;
    msi_log_line *line = malloc(sizeof *line + of_label + of_text);
    if (!line) return;
    char *at = (char *)(line + 1);
    *line = (msi_log_line){level, msi_wall_s(), at, at + of_label};
    memcpy(at, label, of_label);
    memcpy(at + of_label, text, of_text);
    pthread_mutex_lock(&kept.gate);
    append_line(line);
    pthread_mutex_unlock(&kept.gate);
}

static void keep_formatted(msi_log_level level, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));

static void keep_formatted(msi_log_level level, const char *format, va_list ap)
{
    char text[4096];
    vsnprintf(text, sizeof text, format, ap);
    keep_line(level, "", text);
}

/* A line that is held. */
typedef struct held_line {
    struct held_line *next;
    msi_log_level level, shown_from;
    const char *kind; /* static */
    char text[];
} held_line;

static _Thread_local struct {
    int (*is_turn)(void); /* NULL: lines are not held */
    held_line *first, **end;
} held;

void msi_log_hold(int (*is_turn)(void))
{
    held.is_turn = is_turn;
    held.first = NULL;
    held.end = &held.first;
}

static int hold_line(msi_log_level level, msi_log_level shown_from, const char *kind, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));

/* Returns: 1 if the line is held, 0 if it must be printed */
static int hold_line(msi_log_level level, msi_log_level shown_from, const char *kind, const char *format, va_list ap)
{
    va_list again;
    if (held.is_turn()) {
        msi_log_release();
        return 0;
    }
    va_copy(again, ap);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    held_line *line = length < 0 ? NULL : malloc(sizeof *line + (size_t)length + 1);
    if (!line) return 0;
    *line = (held_line){NULL, level, shown_from, kind};
    vsnprintf(line->text, (size_t)length + 1, format, ap);
    *held.end = line;
    held.end = &line->next;
    return 1;
}

static void write_line(msi_log_level level, const char *kind, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

static void write_line(msi_log_level level, const char *kind, const char *format, va_list ap)
{
    if (listening.call) {
        char text[1024];
        vsnprintf(text, sizeof text, format, ap);
        listening.call(listening.user, level, text);
        return;
    }
    if (state.is_silent) return;
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
    if (*kind) fprintf(stderr, "%s: %s: ", state.program, kind);
    put_formatted(format, ap);
    fputc('\n', stderr);
    funlockfile(stderr);
}

#define MSI_LOG_LINE(of, kind, shown_from)                                                                             \
    do {                                                                                                               \
        va_list ap;                                                                                                    \
        if (held.is_turn) {                                                                                            \
            va_start(ap, format);                                                                                      \
            const int is_held = hold_line(of, shown_from, kind, format, ap);                                           \
            va_end(ap);                                                                                                \
            if (is_held) break;                                                                                        \
        }                                                                                                              \
        if (listening.call || state.level >= (shown_from)) {                                                           \
            va_start(ap, format);                                                                                      \
            write_line(of, kind, format, ap);                                                                          \
            va_end(ap);                                                                                                \
        }                                                                                                              \
        if (kept.is_on) {                                                                                              \
            va_start(ap, format);                                                                                      \
            keep_formatted(of, format, ap);                                                                            \
            va_end(ap);                                                                                                \
        }                                                                                                              \
    } while (0)

void msi_log_info(const char *format, ...)
{
    MSI_LOG_LINE(MSI_LOG_NORMAL, "", MSI_LOG_NORMAL);
}

void msi_log_detail(const char *format, ...)
{
    MSI_LOG_LINE(MSI_LOG_VERBOSE, "", MSI_LOG_VERBOSE);
}

void msi_log_warning(const char *format, ...)
{
    MSI_LOG_LINE(MSI_LOG_QUIET, "warning", MSI_LOG_QUIET);
}

void msi_log_advice(const char *format, ...)
{
    MSI_LOG_LINE(MSI_LOG_QUIET, "warning", MSI_LOG_NORMAL);
}

static void print_held(const held_line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void print_held(const held_line *line, const char *format, ...)
{
    MSI_LOG_LINE(line->level, line->kind, line->shown_from);
}

void msi_log_release(void)
{
    held_line *line = held.first;
    held.is_turn = NULL;
    held.first = NULL;
    while (line) {
        held_line *next = line->next;
        print_held(line, "%s", line->text);
        free(line);
        line = next;
    }
}

static void error_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void error_line(const char *format, ...)
{
    MSI_LOG_LINE(MSI_LOG_QUIET, "error", MSI_LOG_QUIET);
}

static void labelled_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void labelled_line(const char *format, ...)
{
    va_list ap;
    if (!listening.call && state.level < MSI_LOG_NORMAL) return;
    va_start(ap, format);
    write_line(MSI_LOG_NORMAL, "", format, ap);
    va_end(ap);
}

void msi_log_labelled(const char *label, const char *text)
{
    char with_colon[MSI_LOG_LABEL + 1];
    snprintf(with_colon, sizeof with_colon, "%s:", label);
    labelled_line("%-*s%s", MSI_LOG_LABEL, with_colon, text);
    keep_line(MSI_LOG_NORMAL, label, text);
}

void msi_log_error(const char *message)
{
    error_line("%s", message);
}

void msi_log_program(const char *name)
{
    state.program = name;
}

void msi_log_silence(int is_silent)
{
    state.is_silent = is_silent;
}

int msi_log_is_silent(void)
{
    return state.is_silent;
}

int msi_log_is_timed(void)
{
    return state.with_time;
}

void msi_log_bar(const char *stage, double fraction, double left_s)
{
    enum { LENGTH = 30 };
    char bar[LENGTH + 1] = "";
    if (state.level == MSI_LOG_QUIET || state.is_silent) return;
    memset(bar, '.', LENGTH);
    memset(bar, '#', (size_t)(fraction * LENGTH));
    flockfile(stderr);
    fprintf(stderr, "\r\033[K%-12s [%s] %3.0f %%", stage, bar, 100 * fraction);
    if (left_s >= 0) fprintf(stderr, "  ETA %.0f s", left_s);
    state.bar_shown = 1;
    fflush(stderr);
    funlockfile(stderr);
}

void msi_log_bar_end(void)
{
    flockfile(stderr);
    clear_bar();
    funlockfile(stderr);
}
