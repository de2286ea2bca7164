/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The progress of a run is shown in stages. Who knows a stage's name begins and ends it (src, msimage-makems);
 * whatever works below says how far its share of the stage is, and need not know of which. Without a stage all calls
 * do nothing.
 *
 * On a terminal a stage is a bar with the time left, drawn anew at most ten times a second; with -log-time, or where
 * stderr is no terminal, plain lines at every 10 % of stages longer than 5 s. Call from one thread at a time: a
 * parallel loop speaks by its first thread.
 */
#ifndef MSI_CORE_PROGRESS_H
#define MSI_CORE_PROGRESS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A part of the present stage, in fractions of it. */
typedef struct msi_progress_share {
    double begin, end;
} msi_progress_share;

/*
 * msi_progress_begin - begin a stage, which shows 0 % at once; msi_progress_end - end it at 100 %.
 * Given: stage  its name; static
 * Notes: a stage that an error left open ends where the next one begins.
 */
void msi_progress_begin(const char *stage);
void msi_progress_end(void);

/* msi_progress_at - tell how far the present share is: done of total, in any unit. A step back shows nothing. */
void msi_progress_at(int64_t done, int64_t total);

/*
 * msi_progress_enter - let what follows be parts [first, end) of a total that make up the present share.
 * Returns: the present share, for msi_progress_leave, which shows that what was entered is over and goes back to it
 */
msi_progress_share msi_progress_enter(int64_t first, int64_t end, int64_t total);
void msi_progress_leave(msi_progress_share before);

/* msi_progress_mute - say whether a thread's work is none of the stage's progress: the caller works beside others. */
void msi_progress_mute(int muted);

/*
 * msi_progress_listen - hand every step to a function as well, for programs that show progress by themselves.
 * Given: listener  NULL: nobody; fraction  0 at a stage's beginning, never less than before, 1 at its end
 */
void msi_progress_listen(void (*listener)(void *of, const char *stage, double fraction), void *of);

/*
 * msi_progress_own - give what the calling thread does stages of its own: nothing of them is shown, and only
 * the listener is told. For a library, whose callers work in several threads.
 * Given: listener  as above; NULL: nobody hears of the thread's stages
 */
void msi_progress_own(void (*listener)(void *of, const char *stage, double fraction), void *of);

/* msi_progress_disown - the calling thread's stages are the program's again. */
void msi_progress_disown(void);

#ifdef __cplusplus
}
#endif
#endif
