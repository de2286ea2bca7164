/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/image_writer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/first_error.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

enum { MOST_THREADS = 4 }; /* more do not make a disk or a page cache faster */

struct msi_image_writer {
    msi_outputs *outputs;
    msi_image image;
    int n_file;
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    msi_observation observation;
    char *data_column;
    atomic_int next; /* file that no thread has taken yet */
    int most_threads, n_thread;
    pthread_t thread[MOST_THREADS];
    msi_first_error failure;
};

int msi_image_writer_create(msi_image_writer **out, msi_outputs *outputs, int n_thread)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "image being written"));
    (*out)->outputs = outputs;
    (*out)->most_threads = n_thread == 1 ? 0 : n_thread < MOST_THREADS ? n_thread : MOST_THREADS;
    return MSI_OK;
}

/* Write files until none is left, or one has failed. */
static void *write_files(void *writer)
{
    msi_image_writer *w = writer;
    const int64_t plane_bytes = msi_image_n_pixel(&w->image.geometry) * msi_image_pixel_bytes(w->image.precision);
    for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->n_file && !msi_first_error_status(&w->failure);) {
        const msi_image_file *f = &w->file[i];
        const char *pixel = (const char *)w->image.pixel + f->plane * plane_bytes;
        int rc = msi_finite_check(&f->cause, f->id.kind, &f->spec, pixel, w->image.precision);
        if (!rc) rc = msi_outputs_write(w->outputs, &f->id, &f->spec, pixel, w->image.precision);
        msi_first_error_keep(&w->failure, rc);
    }
    return NULL;
}

/* A writer works beside the stage that is shown, and so says nothing of how far it is. */
static void *write_beside(void *writer)
{
    msi_progress_hush(1);
    return write_files(writer);
}

static void finish(msi_image_writer *w)
{
    for (int i = 0; i < w->n_thread; i++) {
        pthread_join(w->thread[i], NULL);
        msi_progress_at(i + 1, w->n_thread);
    }
    w->n_thread = 0;
    /* Files that no thread could be had for. */
    write_files(w);
    w->n_file = 0;
    msi_image_free(&w->image);
    msi_free(w->data_column);
    w->data_column = NULL;
}

int msi_image_writer_wait(msi_image_writer *w)
{
    finish(w);
    return msi_first_error_raise(&w->failure);
}

/* The sets may be closed, and others opened, before the files are written. */
static int copy_files(msi_image_writer *w, int n_file, const msi_image_file *file)
{
    const size_t size = strlen(file->spec.data_column) + 1;
    MSI_TRY(msi_alloc(&w->data_column, (int64_t)size, 1, "name of a column"));
    memcpy(w->data_column, file->spec.data_column, size);
    w->observation = *file->spec.observation;
    for (int i = 0; i < n_file; i++) {
        w->file[i] = file[i];
        w->file[i].spec.data_column = w->data_column;
        w->file[i].spec.observation = &w->observation;
    }
    w->n_file = n_file;
    atomic_store(&w->next, 0);
    return MSI_OK;
}

int msi_image_writer_put(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file)
{
    int rc = msi_image_writer_wait(w);
    w->image = *image;
    *image = (msi_image){0};
    MSI_TRY(rc);
    MSI_TRY(copy_files(w, n_file, file));
    while (w->n_thread < n_file && w->n_thread < w->most_threads &&
           pthread_create(&w->thread[w->n_thread], NULL, write_beside, w) == 0)
        w->n_thread++;
    return w->n_thread ? MSI_OK : msi_image_writer_wait(w);
}

void msi_image_writer_free(msi_image_writer *w)
{
    if (!w) return;
    finish(w);
    msi_free(w);
}
