/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ordered parallel loop: threads work on items concurrently, and results are finished in the order of items. */
#ifndef MSI_ORDERED_PARALLEL_H
#define MSI_ORDERED_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_ordered_parallel {
    int64_t n_item;
    int n_thread;                          /* at least 1; each gets its share of OpenMP's threads */
    int (*work)(void *of, int64_t item);   /* in thread item % n_thread, the calling one being 0 */
    int (*finish)(void *of, int64_t item); /* in the same thread, after those of all earlier items; NULL: none */
    void *of;
} msi_ordered_parallel;

/*
 * msi_ordered_parallel_run - process all items. After a failure neither work nor finish is called again. Progress is
 * the number of finished items; without finish, it is the progress of the calling thread's work.
 * Returns: 0; the status of work or finish that failed first, with its message; MSI_ENOMEM (a thread cannot be started)
 */
int msi_ordered_parallel_run(const msi_ordered_parallel *t);

#ifdef __cplusplus
}
#endif
#endif
