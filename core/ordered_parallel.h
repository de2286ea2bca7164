/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ordered parallel loop: threads work on items at the same time, and results are finished in the order of items. */
#ifndef MSI_ORDERED_PARALLEL_H
#define MSI_ORDERED_PARALLEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_ordered_parallel {
    int64_t n_item;
    int n_thread;                        /* at least 1; OpenMP's threads are divided among them */
    int (*work)(void *of, int64_t item); /* called in thread item % n_thread; thread 0 is the caller's */
    /* called in the same thread, after all earlier items are finished; NULL: none */
    int (*finish)(void *of, int64_t item);
    void *of;
} msi_ordered_parallel;

/*
 * msi_ordered_parallel_run - process all items. After a failure neither work nor finish is called again. Progress is
 * the number of finished items or, without finish, the progress of the work in the calling thread.
 * Returns: 0; the status of work or finish that failed first, with its message; MSI_ENOMEM (a thread cannot be started)
 */
int msi_ordered_parallel_run(const msi_ordered_parallel *t);

/*
 * msi_ordered_at_once - choose the number of threads for items that could each use all of OpenMP's threads, such as
 * images: a small image has too little work for many threads.
 * Given:   each_bytes  memory for working on one item; free_bytes  memory for all of them
 * Returns: 1 .. omp_get_max_threads(): at most half the items, and their memory at most a quarter of the limit
 */
int msi_ordered_at_once(int64_t n_item, int64_t each_bytes, int64_t free_bytes);

/*
 * msi_ordered_step_begin - wait until every earlier item has ended a step, or all of its work. With this, sums over
 * items are added in the order of items while items are processed. msi_ordered_step_end - let the next item begin the
 * step.
 * Given:   step  0 .. MSI_ORDERED_STEPS - 1; an item begins each step at most once, in ascending order
 * Returns: 0; the status of another item that failed, which ends the work of this one
 * Notes:   call both in a thread's work; outside a loop they do nothing. While an item waits, it must not have memory
 *          or a lock that an earlier item needs.
 */
enum { MSI_ORDERED_STEPS = 128 };
int msi_ordered_step_begin(int step);
void msi_ordered_step_end(int step);

/* msi_ordered_is_next - return 1 if all earlier items are finished; also outside a loop. */
int msi_ordered_is_next(void);

#ifdef __cplusplus
}
#endif
#endif
