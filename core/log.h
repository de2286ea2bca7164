/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log lines, written to stderr; stdout is only for data. Control characters and bytes that are not UTF-8 are written as
 * \xNN, so that names in sets, files and the command line cannot send control sequences to a terminal. */
#ifndef MSI_CORE_LOG_H
#define MSI_CORE_LOG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_log_level { MSI_LOG_QUIET, MSI_LOG_NORMAL, MSI_LOG_VERBOSE } msi_log_level;

/* msi_log_setup - set which lines are shown, and whether they begin with the UTC time and the seconds of msi_wall_s. */
void msi_log_setup(msi_log_level level, int with_time);

/* msi_log_program - set the name of the program for warnings and errors; static. The default is msimage. */
void msi_log_program(const char *name);

/*
 * msi_log_info - print a line of the normal log.
 * msi_log_detail - print a line that is shown only with -verbose.
 * msi_log_warning - print a warning, which is always shown.
 * msi_log_advice - print a warning that -quiet hides: the result is correct, but perhaps not intended.
 */
void msi_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_advice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * msi_log_listen - pass the calling thread's lines to a function instead of stderr. For libraries.
 * Given: listener  gets every line, including those that msi_log_setup hides. level: MSI_LOG_NORMAL for information,
 *                  MSI_LOG_VERBOSE for detail, MSI_LOG_QUIET for warnings; line: without newline, borrowed for the
 *                  call. NULL: write lines to stderr again
 *        user      first argument of the listener
 */
typedef void msi_log_listener(void *user, msi_log_level level, const char *line);
void msi_log_listen(msi_log_listener *listener, void *user);

/*
 * msi_log_hold - hold the lines of the calling thread, so that lines of threads that work at the same time do not mix.
 * msi_log_release - print the held lines, and print later lines at once.
 * Given: is_turn  called before each line; if it returns 1, it is this thread's turn to print, and lines are released
 * Notes: if memory is short, a line is printed at once. Labelled lines are not held.
 */
void msi_log_hold(int (*is_turn)(void));
void msi_log_release(void);

enum { MSI_LOG_LABEL = 12 }; /* width of a label, in columns */

/*
 * msi_log_labelled - print a line of the normal log: a label, such as "band", and a text in the next column.
 */
void msi_log_labelled(const char *label, const char *text);

/* A line that msi_log_keep has stored. */
typedef struct msi_log_line {
    msi_log_level level; /* MSI_LOG_QUIET: a warning */
    double at_s;         /* time of msi_wall_s */
    const char *label;   /* label of msi_log_labelled; "": none */
    const char *text;
} msi_log_line;

/*
 * msi_log_keep - begin to store the lines of all threads, including hidden ones, except details.
 * msi_log_kept - return line i in *line, borrowed for the life of the process. Returns 0 after the last one.
 * Notes: if memory is short, lines are not stored.
 */
void msi_log_keep(void);
int msi_log_kept(int64_t i, msi_log_line *line);

/* msi_log_printable - return the length in bytes of the UTF-8 character at the start of a text, if it can be printed; 0
 * for a control character, an overlong form, a byte that is not UTF-8, and the end of the text. */
int msi_log_printable(const char *text);

/* msi_log_error - print the program's name, "error: " and the message, as the last line of a failed run. */
void msi_log_error(const char *message);

/*
 * msi_log_bar - draw the progress bar of a stage over the previous one. Given: left_s  time left; below 0: unknown
 * msi_log_bar_end - clear the bar. A line of the log clears it too.
 * Notes: with -quiet there is no bar.
 */
void msi_log_bar(const char *stage, double fraction, double left_s);
void msi_log_bar_end(void);

/* msi_log_silence - 1: write nothing to stderr, not even warnings and errors. If a run has several processes, only one
 * of them prints. */
void msi_log_silence(int is_silent);

/* msi_log_is_silent - return 1 if the log is silent. */
int msi_log_is_silent(void);

/* msi_log_is_timed - return 1 if lines begin with the time. */
int msi_log_is_timed(void);

/* msi_wall_s - return the seconds since the first call in this process, from a monotonic clock. */
double msi_wall_s(void);

#ifdef __cplusplus
}
#endif
#endif
