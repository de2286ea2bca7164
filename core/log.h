/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log lines go to stderr: stdout carries data only. Control characters, and bytes that are no UTF-8, are written as
 * \xNN: names from sets, files and the command line cannot steer a terminal. */
#ifndef MSI_CORE_LOG_H
#define MSI_CORE_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_log_level { MSI_LOG_QUIET, MSI_LOG_NORMAL, MSI_LOG_VERBOSE } msi_log_level;

/* msi_log_setup - set which lines are shown, and whether each starts with the UTC time and the seconds since then. */
void msi_log_setup(msi_log_level level, int with_time);

/* msi_log_info - print a line of the ordinary log; msi_log_detail - shown with -verbose; msi_log_warning - always
 * shown; msi_log_advice - a warning that -quiet leaves out: the result is right, but perhaps not what was meant. */
void msi_log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void msi_log_advice(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * msi_log_listen - let the calling thread's lines go to a function and not to stderr. For a library, which
 * prints nothing by itself.
 * Given: listener  level: MSI_LOG_NORMAL for information, MSI_LOG_VERBOSE for detail, MSI_LOG_QUIET for warnings, which
 *              are always told; line  without its end, borrowed for the call. NULL: to stderr again
 */
typedef void msi_log_listener(void *of, msi_log_level level, const char *line);
void msi_log_listen(msi_log_listener *listener, void *of);

/* msi_log_error - "msimage: error: ..." as the last line of a failed run. */
void msi_log_error(const char *message);

/* msi_log_bar - draw a stage's bar in place of the one before; left_s below 0: unknown. msi_log_bar_end - clear it. Any
 * line of the log clears it too. Nothing is drawn with -quiet. */
void msi_log_bar(const char *stage, double fraction, double left_s);
void msi_log_bar_end(void);

/* msi_log_silence - non-zero: from now on nothing is written to stderr, neither warnings nor errors: of several
 * processes of one run, one speaks. msi_log_is_silent - whether that is so. */
void msi_log_silence(int is_silent);
int msi_log_is_silent(void);

/* msi_log_is_timed - tell whether lines begin with the time. */
int msi_log_is_timed(void);

/* msi_wall_s - return the seconds since the process's first call; monotonic. */
double msi_wall_s(void);

#ifdef __cplusplus
}
#endif
#endif
