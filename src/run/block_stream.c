/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/block_stream.h"

#include <pthread.h>

#include "core/first_error.h"
#include "core/memory.h"
#include "core/status.h"

/* Blocks are read in turn into slot[n_read % N_SLOT], and used in the same order. */
enum { N_SLOT = 4 };

struct msi_block_stream {
    msi_ms_reader *reader;
    msi_ms_crew *crew; /* reads ahead by itself, one block is given out; NULL: the thread and the rest are in use */
    msi_ms_block slot[N_SLOT];
    int64_t n_read, n_given, n_done; /* blocks read, given out, given back */
    int stop;                        /* nobody wants more */
    msi_first_error failure;         /* of the reader */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
};

static void *read_blocks(void *context)
{
    msi_block_stream *s = context;
    for (int64_t n = 0;; n++) {
        pthread_mutex_lock(&s->lock);
        while (n - s->n_done >= N_SLOT && !s->stop) pthread_cond_wait(&s->changed, &s->lock);
        int stop = s->stop;
        pthread_mutex_unlock(&s->lock);
        if (stop) return NULL;
        msi_ms_block *block = &s->slot[n % N_SLOT];
        int rc = msi_ms_reader_next(s->reader, block);
        pthread_mutex_lock(&s->lock);
        msi_first_error_keep(&s->failure, rc);
        s->n_read = n + 1;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (rc || !block->n_row) return NULL;
    }
}

int msi_block_stream_open(msi_block_stream **out, msi_ms_reader *reader, msi_ms_crew *crew)
{
    *out = NULL;
    msi_block_stream *s;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "blocks read ahead"));
    s->reader = reader;
    s->crew = crew;
    *out = s;
    if (crew) return MSI_OK;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, read_blocks, s)) {
        pthread_mutex_destroy(&s->lock);
        pthread_cond_destroy(&s->changed);
        msi_free(s);
        *out = NULL;
        return msi_error_set(MSI_ENOMEM, "no thread for reading could be started");
    }
    return MSI_OK;
}

int msi_block_stream_next(msi_block_stream *s, const msi_ms_block **block)
{
    if (s->crew) {
        *block = &s->slot[0];
        return msi_ms_crew_next(s->crew, &s->slot[0]);
    }
    pthread_mutex_lock(&s->lock);
    s->n_done = s->n_given;
    int64_t n = s->n_given++;
    pthread_cond_broadcast(&s->changed);
    while (s->n_read <= n) pthread_cond_wait(&s->changed, &s->lock);
    const int is_last = s->n_read == n + 1;
    pthread_mutex_unlock(&s->lock);
    if (is_last) MSI_TRY(msi_first_error_raise(&s->failure));
    *block = &s->slot[n % N_SLOT];
    return MSI_OK;
}

void msi_block_stream_close(msi_block_stream *s)
{
    if (!s) return;
    if (s->crew) {
        msi_free(s);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->stop = 1;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    msi_free(s);
}
