/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/image_writer.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"

/* Count the pixels of a row that are not finite in single precision. The counters have the size of a pixel, so that
 * vectors of counters and of pixels have the same number of elements. */
static int64_t count_not_finite(const void *pixel, msi_precision precision, int64_t first, int64_t n)
{
    const float *f32 = (const float *)pixel + first;
    const double *f64 = (const double *)pixel + first;
    int32_t n_f32 = 0;
    int64_t n_f64 = 0;
    if (precision == MSI_FP32)
        for (int64_t x = 0; x < n; x++) n_f32 += !(fabsf(f32[x]) <= FLT_MAX);
    else
        for (int64_t x = 0; x < n; x++) n_f64 += !(fabs(f64[x]) <= (double)FLT_MAX);
    return n_f32 + n_f64;
}

enum { MIN_PIXELS_FOR_THREADS = 8 << 20 }; /* starting threads for fewer pixels takes longer than checking them */

/* Count the NaN of row y that are valid: pixels beyond the horizon, and all NaN of a mosaic. */
static int64_t count_unseen(const msi_finite_cause *cause, const msi_image_geometry *g, const void *pixel,
                            msi_precision precision, int64_t y)
{
    const double m = (double)(y - g->ny / 2) * g->cell_y_rad;
    int64_t count = 0;
    for (int64_t x = 0; x < g->nx; x++) {
        const double l = (double)(x - g->nx / 2) * g->cell_x_rad;
        count +=
            (cause->is_mosaic || l * l + m * m > 1 - 1e-9) && isnan(msi_image_value(pixel, precision, y * g->nx + x));
    }
    return count;
}

int msi_finite_check(const msi_finite_cause *cause, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                     msi_precision precision)
{
    const msi_image_geometry *g = &spec->geometry;
    const int is_sky = msi_fits_is_on_sky(kind);
    int64_t n = 0;
    if (is_sky && !spec->n_vis) return MSI_OK;
    /* Restored images without a beam are NaN. Maps of spectra and beams are NaN where they cannot be computed. */
    if (msi_fits_is_index(kind) || (kind >= MSI_FITS_IMAGE_PB && kind <= MSI_FITS_BEAM_15)) return MSI_OK;
    if (kind == MSI_FITS_IMAGE && !msi_beam_known(&spec->beam)) return MSI_OK;
#pragma omp parallel for schedule(static) reduction(+ : n) if (g->nx * g->ny > MIN_PIXELS_FOR_THREADS)
    for (int64_t y = 0; y < g->ny; y++) {
        const int64_t of_row = count_not_finite(pixel, precision, y * g->nx, g->nx);
        if (of_row) n += of_row - (is_sky ? count_unseen(cause, g, pixel, precision, y) : 0);
    }
    if (!n) return MSI_OK;
    return msi_error_set(
        MSI_EINPUT,
        "%s, row %lld: weight times visibility is %.3g, the largest of all samples; %lld value%s of %s "
        "would exceed single precision, and nothing is written; correct or flag the row",
        cause->ms_path, (long long)cause->row, cause->product, (long long)n, msi_plural(n),
        is_sky ? "an image" : "a grid of the uv plane");
}

/* ---- The writer ---- */

/* Measured: one file in memory is written at 3 GB/s with any number of threads, and 16 files at once at 33 GB/s. */
enum { MOST_THREADS = MSI_FILES_AT_ONCE, MOST_OF_FILE = 4 };

/* An image that is being written. */
typedef struct batch {
    msi_image image;
    int n_file, n_begun, n_ended;
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    msi_observation observation;
    msi_fits_contour contour;         /* contour of the files, which all share one */
    char *data_column, *primary_beam; /* copies of texts that all files share; primary_beam may be NULL */
    msi_first_error failure;          /* failure of the first file, in the order of files, that failed */
    int failed;                       /* number of that file */
} batch;

/* The threads share everything under the lock. */
struct msi_image_writer {
    msi_outputs *outputs;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_closing;
    int most_threads, n_thread;
    pthread_t thread[MOST_THREADS];
    int first, n;          /* images being written: index of the first in the ring, and their number */
    int n_waiting, n_busy; /* files that wait for a thread, and files that a thread is writing */
    batch batch[MSI_IMAGES_IN_FLIGHT];
    msi_first_error failure; /* the first failure, in the order of images and files */
};

int msi_image_writer_create(msi_image_writer **out, msi_outputs *outputs, int n_thread)
{
    msi_image_writer *w;
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "images being written"));
    w = *out;
    w->outputs = outputs;
    w->most_threads = n_thread == 1 ? 0 : n_thread < MOST_THREADS ? n_thread : MOST_THREADS;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    return MSI_OK;
}

/* Return the i-th image in the ring. */
static batch *batch_at(msi_image_writer *w, int i)
{
    return &w->batch[(w->first + i) % MSI_IMAGES_IN_FLIGHT];
}

/* Find the first file that waits, in the order of images. Images with a failure are skipped. Returns: NULL if no file
 * waits */
static batch *next_file(msi_image_writer *w, int *file)
{
    for (int i = 0; i < w->n; i++) {
        batch *b = batch_at(w, i);
        if (b->n_begun == b->n_file) continue;
        *file = b->n_begun++;
        w->n_waiting--;
        return b;
    }
    return NULL;
}

/* Store the failure of a file, unless an earlier file failed too. The remaining files of its image are not written. */
static void keep_failure(msi_image_writer *w, batch *b, int file, int status)
{
    if (!b->failure.status || file < b->failed) {
        b->failed = file;
        b->failure.status = MSI_OK;
        msi_first_error_keep(&b->failure, status);
    }
    w->n_waiting -= b->n_file - b->n_begun;
    b->n_file = b->n_begun;
}

static int write_file(const msi_image_writer *w, const batch *b, int file)
{
    const msi_image_file *f = &b->file[file];
    const void *pixel = msi_image_plane(&b->image, f->plane);
    MSI_TRY(msi_finite_check(&f->cause, f->id.kind, &f->spec, pixel, b->image.precision));
    return msi_outputs_write(w->outputs, &f->id, &f->spec, pixel, b->image.precision);
}

static int is_written(const batch *b)
{
    return b->n_ended == b->n_file;
}

static void forget_files(batch *b)
{
    msi_free(b->data_column);
    msi_free(b->primary_beam);
    *b = (batch){0};
}

/* Remove images from the beginning of the ring whose files are all written. */
static void remove_written(msi_image_writer *w)
{
    while (w->n && is_written(batch_at(w, 0))) {
        batch *b = batch_at(w, 0);
        if (!w->failure.status) w->failure = b->failure;
        msi_image_free(&b->image);
        forget_files(b);
        w->first = (w->first + 1) % MSI_IMAGES_IN_FLIGHT;
        w->n--;
    }
}

/* Write files until none waits. The caller has the lock. */
static void write_waiting(msi_image_writer *w, int most_omp)
{
    int file;
    for (batch *b; (b = next_file(w, &file));) {
        const int n_omp = most_omp / (++w->n_busy + w->n_waiting);
        pthread_mutex_unlock(&w->lock);
        if (most_omp > 1) omp_set_num_threads(n_omp < 1 ? 1 : n_omp < MOST_OF_FILE ? n_omp : MOST_OF_FILE);
        const int rc = write_file(w, b, file);
        pthread_mutex_lock(&w->lock);
        w->n_busy--;
        b->n_ended++;
        if (rc) keep_failure(w, b, file, rc);
        if (is_written(b)) msi_image_free(&b->image);
        remove_written(w);
        pthread_cond_broadcast(&w->changed);
    }
}

/* The main function of a writing thread. It does not report progress, because it runs during another stage. */
static void *write_in_background(void *of)
{
    msi_image_writer *w = of;
    msi_progress_mute(1);
    pthread_mutex_lock(&w->lock);
    while (!w->is_closing) {
        write_waiting(w, w->most_threads);
        if (!w->is_closing) pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* Wait until at most n images are being written. The caller has the lock. */
static void wait_for_fewer(msi_image_writer *w, int n)
{
    const int n_before = w->n;
    while (w->n >= n) {
        pthread_cond_wait(&w->changed, &w->lock);
        msi_progress_at(n_before - w->n, n_before);
    }
}

int msi_image_writer_wait(msi_image_writer *w)
{
    pthread_mutex_lock(&w->lock);
    wait_for_fewer(w, 1);
    const int rc = msi_first_error_raise(&w->failure);
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int copy_text(char **out, const char *text)
{
    const size_t size = strlen(text) + 1;
    MSI_TRY(msi_alloc(out, (int64_t)size, 1, "a text of a header"));
    memcpy(*out, text, size);
    return MSI_OK;
}

/* Copy the files and their texts: the sets may be closed before the files are written. */
static int copy_files(batch *b, int n_file, const msi_image_file *file)
{
    MSI_TRY(copy_text(&b->data_column, file->spec.data_column));
    if (file->spec.primary_beam) MSI_TRY(copy_text(&b->primary_beam, file->spec.primary_beam));
    b->observation = *file->spec.observation;
    if (file->spec.contour) b->contour = *file->spec.contour;
    for (int i = 0; i < n_file; i++) {
        b->file[i] = file[i];
        b->file[i].spec.data_column = b->data_column;
        b->file[i].spec.primary_beam = b->primary_beam;
        b->file[i].spec.observation = &b->observation;
        if (file[i].spec.contour) b->file[i].spec.contour = &b->contour;
    }
    b->n_file = n_file;
    return MSI_OK;
}

/* Return whether an image in the ring has failed. If so, the caller waits for the images before it, so that the first
 * failure in the order of images is reported. */
static int has_failed(msi_image_writer *w)
{
    for (int i = 0; i < w->n; i++)
        if (batch_at(w, i)->failure.status) return 1;
    return 0;
}

/* Put an image into the ring, and start threads for its files. The caller has the lock. */
static int begin_image(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file)
{
    batch *b = batch_at(w, w->n);
    MSI_TRY(msi_first_error_raise(&w->failure));
    const int rc = copy_files(b, n_file, file);
    if (rc) {
        forget_files(b);
        return rc;
    }
    b->image = *image;
    *image = (msi_image){0};
    w->n++;
    w->n_waiting += n_file;
    while (w->n_thread < w->most_threads && w->n_thread < w->n_busy + w->n_waiting &&
           pthread_create(&w->thread[w->n_thread], NULL, write_in_background, w) == 0)
        w->n_thread++;
    pthread_cond_broadcast(&w->changed);
    if (!w->n_thread) write_waiting(w, 1);
    return MSI_OK;
}

int msi_image_writer_put(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file, int n_pending)
{
    pthread_mutex_lock(&w->lock);
    while (w->n && (w->n >= n_pending || has_failed(w))) wait_for_fewer(w, w->n);
    int rc = begin_image(w, image, n_file, file);
    if (!rc && !n_pending) {
        wait_for_fewer(w, 1);
        rc = msi_first_error_raise(&w->failure);
    }
    pthread_mutex_unlock(&w->lock);
    msi_image_free(image);
    return rc;
}

void msi_image_writer_free(msi_image_writer *w)
{
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    wait_for_fewer(w, 1);
    w->is_closing = 1;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_thread; i++) pthread_join(w->thread[i], NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    msi_free(w);
}
