/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Progress of a run, shown in stages. The program (src, msimage-makems) begins and ends a stage. The functions that it
 * calls report the progress of their share of the stage, and do not need its name. Without a stage all calls do
 * nothing.
 *
 * On a terminal a stage is a bar with the time left, redrawn at most ten times a second. With -log-time, or if stderr
 * is not a terminal, a stage that takes longer than 5 s prints a line every 10 %. Only one thread may call these
 * functions at a time; in a parallel loop, the first thread.
 */
#ifndef MSI_CORE_PROGRESS_H
#define MSI_CORE_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A share of the current stage, as fractions of the stage. */
typedef struct msi_progress_share {
    double begin, end;
} msi_progress_share;

/*
 * msi_progress_begin - begin a stage, and show 0 %. msi_progress_end - end it at 100 %.
 * Given: stage  its name; static
 * Notes: if an error has left a stage open, it ends when the next one begins.
 */
void msi_progress_begin(const char *stage);
void msi_progress_end(void);

/* msi_progress_at - report the progress of the current share: done of total, in any unit. Progress never decreases. */
void msi_progress_at(int64_t done, int64_t total);

/*
 * msi_progress_enter - divide the current share into `total` parts, and make parts [first, end) the current share.
 * Returns: the previous share, for msi_progress_leave
 * msi_progress_leave - show that the current share is complete, and return to the previous share.
 */
msi_progress_share msi_progress_enter(int64_t first, int64_t end, int64_t total);
void msi_progress_leave(msi_progress_share before);

/* msi_progress_mute - 1: ignore the reports of the calling thread, because it runs in parallel to the stage. */
void msi_progress_mute(int muted);

/*
 * msi_progress_listen - also pass every step to a function, for programs that display progress themselves.
 * Given: listener  NULL: none; fraction: 0 at the beginning of a stage, never decreasing, 1 at its end
 *        user      first argument of the listener
 */
void msi_progress_listen(void (*listener)(void *user, const char *stage, double fraction), void *user);

/*
 * msi_progress_thread_begin - give the calling thread its own stages. They are not shown; only the listener gets them.
 * For libraries, whose callers may use several threads.
 * Given: listener  as above
 */
void msi_progress_thread_begin(void (*listener)(void *user, const char *stage, double fraction), void *user);

/* msi_progress_thread_end - let the calling thread use the program's stages again. */
void msi_progress_thread_end(void);

#ifdef __cplusplus
}
#endif
#endif
