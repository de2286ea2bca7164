/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Work in turns: threads work at items side by side, and what they made is taken over in the order of items. */
#ifndef MSI_ORDERED_PARALLEL_H
#define MSI_ORDERED_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_turns {
    int64_t n_item;
    int n_thread;                          /* at least 1; each gets its part of OpenMP's threads */
    int (*work)(void *of, int64_t item);   /* in thread item % n_thread, the calling one being 0 */
    int (*finish)(void *of, int64_t item); /* in the same thread, after those of all items before; NULL: nothing */
    void *of;
} msi_turns;

/*
 * msi_turns_run - work at all items; after a failure no work and no finish is begun. Items finished are the progress of
 * the whole; where nothing is to be finished, it is that of the calling thread's work.
 * Returns: 0, what work or finish returned, with its line; MSI_ENOMEM (no thread)
 */
int msi_turns_run(const msi_turns *t);

#ifdef __cplusplus
}
#endif
#endif
