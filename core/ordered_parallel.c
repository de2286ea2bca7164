/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/ordered_parallel.h"

#include <omp.h>
#include <pthread.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

/* The state that the threads of a loop share. */
typedef struct ordered_run {
    const msi_ordered_parallel *turns;
    int n_omp; /* OpenMP threads for each thread of the loop */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t next; /* item to be finished next */
    /* for each step, the number of items that have ended it, together with all earlier items */
    int64_t step[MSI_ORDERED_STEPS];
    msi_first_error failure;
} ordered_run;

/* The item that the calling thread is working on; of NULL: none. */
typedef struct work_item {
    ordered_run *of;
    int64_t item;
} work_item;

static _Thread_local work_item own;

typedef struct helper {
    pthread_t thread;
    ordered_run *of;
    int number;
} helper;

/* Wait until all earlier items are finished, then finish this one. */
static void finish_in_order(ordered_run *r, int64_t item, int rc)
{
    pthread_mutex_lock(&r->lock);
    while (r->next != item && !msi_first_error_status(&r->failure)) pthread_cond_wait(&r->changed, &r->lock);
    const int goes_on = !rc && !msi_first_error_status(&r->failure);
    pthread_mutex_unlock(&r->lock);
    if (goes_on && r->turns->finish) {
        rc = r->turns->finish(r->turns->of, item);
        msi_progress_mute(0);
        msi_progress_at(item + 1, r->turns->n_item);
        msi_progress_mute(1);
    }
    pthread_mutex_lock(&r->lock);
    msi_first_error_keep(&r->failure, rc);
    r->next = item + 1;
    for (int s = 0; s < MSI_ORDERED_STEPS; s++) r->step[s] = r->step[s] > item ? r->step[s] : item + 1;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void work_on_items(ordered_run *r, int number)
{
    const msi_ordered_parallel *t = r->turns;
    const int omp_before = omp_get_max_threads();
    const work_item outer = own;
    omp_set_num_threads(r->n_omp);
    msi_progress_mute(number || t->finish);
    for (int64_t i = number; i < t->n_item && !msi_first_error_status(&r->failure); i += t->n_thread) {
        own = (work_item){r, i};
        finish_in_order(r, i, t->work(t->of, i));
    }
    own = outer;
    msi_progress_mute(0);
    omp_set_num_threads(omp_before);
}

static void *run_helper(void *of)
{
    const helper *h = of;
    work_on_items(h->of, h->number);
    return NULL;
}

/* Store a failure and wake the waiting threads. */
static void record_failure(ordered_run *r, int rc)
{
    pthread_mutex_lock(&r->lock);
    msi_first_error_keep(&r->failure, rc);
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

int msi_ordered_parallel_run(const msi_ordered_parallel *t)
{
    const int n_omp = omp_get_max_threads() / t->n_thread;
    ordered_run r = {.turns = t,
                     .n_omp = n_omp > 1 ? n_omp : 1,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .changed = PTHREAD_COND_INITIALIZER};
    helper *helpers;
    int n = 1;
    MSI_TRY(msi_alloc(&helpers, t->n_thread, sizeof *helpers, "threads"));
    for (; n < t->n_thread; n++) {
        helpers[n].of = &r;
        helpers[n].number = n;
        if (pthread_create(&helpers[n].thread, NULL, run_helper, &helpers[n])) break;
    }
    if (n < t->n_thread)
        record_failure(&r, msi_error_set(MSI_ENOMEM, "thread %d of %d cannot be started", n + 1, t->n_thread));
    else
        work_on_items(&r, 0);
    for (int i = 1; i < n; i++) pthread_join(helpers[i].thread, NULL);
    msi_free(helpers);
    return msi_first_error_raise(&r.failure);
}

int msi_ordered_at_once(int64_t n_item, int64_t each_bytes, int64_t free_bytes)
{
    const int64_t n_thread = omp_get_max_threads(), quarter = msi_memory_limit() / 4;
    const int64_t bytes = free_bytes < quarter ? free_bytes : quarter;
    int64_t n = n_item / 2 < n_thread ? n_item / 2 : n_thread;
    while (n > 1 && n * each_bytes > bytes) n--;
    return n > 1 ? (int)n : 1;
}

int msi_ordered_step_begin(int step)
{
    ordered_run *r = own.of;
    if (!r) return MSI_OK;
    pthread_mutex_lock(&r->lock);
    while (r->step[step] < own.item && !msi_first_error_status(&r->failure)) pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
    return msi_first_error_status(&r->failure);
}

void msi_ordered_step_end(int step)
{
    ordered_run *r = own.of;
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->step[step] = own.item + 1;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

int msi_ordered_is_next(void)
{
    ordered_run *r = own.of;
    if (!r) return 1;
    pthread_mutex_lock(&r->lock);
    const int is_next = r->next == own.item;
    pthread_mutex_unlock(&r->lock);
    return is_next;
}
