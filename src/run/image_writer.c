/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/image_writer.h"

#include <float.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"

/* Count the values of a row of pixels that are not finite in single precision. Counters have the size of pixels, so
 * that vectors of both have the same number of elements. */
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

enum { MIN_PIXELS_FOR_THREADS = 8 << 20 }; /* for fewer, starting threads takes longer than checking */

/* Count the NaN of row y that are valid: beyond the horizon, or any of a mosaic. */
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
    /* A restored image without a beam is NaN. */
    /* Computed where they are finite, NaN elsewhere. */
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

enum { MOST_THREADS = 4 }; /* more threads do not make a disk or a page cache faster */

/* An image that is being written by its own threads. */
typedef struct batch {
    msi_image_writer *writer;
    msi_image image;
    int n_file;
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    msi_observation observation;
    msi_fits_contour contour;         /* that of the files, which is one */
    char *data_column, *primary_beam; /* copies of a text of all files; the latter NULL: none */
    atomic_int next;                  /* file that no thread writes yet */
    msi_first_error failure;
    int failed; /* file */
    int n_thread;
    pthread_t thread[MOST_THREADS];
} batch;

struct msi_image_writer {
    msi_outputs *outputs;
    int most_threads; /* of an image */
    int first, n;     /* images being written: the first one, in the ring, and their number */
    batch batch[MSI_IMAGES_IN_FLIGHT];
    msi_first_error failure; /* of the first file that failed, in the order of images and files */
};

int msi_image_writer_create(msi_image_writer **out, msi_outputs *outputs, int n_thread)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "images being written"));
    (*out)->outputs = outputs;
    (*out)->most_threads = n_thread == 1 ? 0 : n_thread < MOST_THREADS ? n_thread : MOST_THREADS;
    return MSI_OK;
}

/* Store a file's failure, unless an earlier file failed too. */
static void keep_failure(batch *b, int file, int status)
{
    static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&gate);
    if (!b->failure.status || file < b->failed) {
        b->failed = file;
        __atomic_store_n(&b->failure.status, MSI_OK, __ATOMIC_RELEASE);
        msi_first_error_keep(&b->failure, status);
    }
    pthread_mutex_unlock(&gate);
}

/* Write files until all are written, or one has failed. */
static void *write_files(void *of)
{
    batch *b = of;
    msi_image_writer *w = b->writer;
    for (int i; !msi_first_error_status(&b->failure) && (i = atomic_fetch_add(&b->next, 1)) < b->n_file;) {
        const msi_image_file *f = &b->file[i];
        const void *pixel = msi_image_plane(&b->image, f->plane);
        int rc = msi_finite_check(&f->cause, f->id.kind, &f->spec, pixel, b->image.precision);
        if (!rc) rc = msi_outputs_write(w->outputs, &f->id, &f->spec, pixel, b->image.precision);
        if (rc) keep_failure(b, i, rc);
    }
    return NULL;
}

/* A writing thread. It runs in parallel to the current stage, so it does not report progress. If an image has fewer
 * files than threads, each thread gets several OpenMP threads. */
static void *write_in_background(void *of)
{
    const batch *b = of;
    msi_progress_mute(1);
    omp_set_num_threads(b->writer->most_threads > b->n_file ? b->writer->most_threads / b->n_file : 1);
    return write_files(of);
}

/* Wait for the image that was begun first. */
static void finish_first(msi_image_writer *w)
{
    batch *b = &w->batch[w->first];
    for (int i = 0; i < b->n_thread; i++) {
        pthread_join(b->thread[i], NULL);
        msi_progress_at(i + 1, b->n_thread);
    }
    b->n_thread = 0;
    /* Write the files for which no thread could be started. */
    if (!w->failure.status) write_files(b);
    if (!w->failure.status) w->failure = b->failure;
    b->n_file = 0;
    msi_image_free(&b->image);
    msi_free(b->data_column);
    msi_free(b->primary_beam);
    b->data_column = b->primary_beam = NULL;
    w->first = (w->first + 1) % MSI_IMAGES_IN_FLIGHT;
    w->n--;
}

int msi_image_writer_wait(msi_image_writer *w)
{
    while (w->n) finish_first(w);
    return msi_first_error_raise(&w->failure);
}

static int copy_text(char **out, const char *text)
{
    const size_t size = strlen(text) + 1;
    MSI_TRY(msi_alloc(out, (int64_t)size, 1, "a text of a header"));
    memcpy(*out, text, size);
    return MSI_OK;
}

/* The sets may be closed, and others opened, before the files are written. */
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
    b->failure.status = MSI_OK;
    atomic_store(&b->next, 0);
    return MSI_OK;
}

/* Return whether an image that is being written has failed. The caller then waits for the images before it, so that the
 * first of several failures in the order of images is reported. */
static int has_failed(const msi_image_writer *w)
{
    for (int i = 0; i < w->n; i++)
        if (msi_first_error_status(&w->batch[(w->first + i) % MSI_IMAGES_IN_FLIGHT].failure)) return 1;
    return 0;
}

int msi_image_writer_put(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file, int n_pending)
{
    while (w->n && (w->n >= n_pending || has_failed(w))) finish_first(w);
    batch *b = &w->batch[(w->first + w->n++) % MSI_IMAGES_IN_FLIGHT];
    b->writer = w;
    b->image = *image;
    *image = (msi_image){0};
    MSI_TRY(msi_first_error_raise(&w->failure));
    MSI_TRY(copy_files(b, n_file, file));
    while (b->n_thread < n_file && b->n_thread < w->most_threads &&
           pthread_create(&b->thread[b->n_thread], NULL, write_in_background, b) == 0)
        b->n_thread++;
    return b->n_thread && n_pending ? MSI_OK : msi_image_writer_wait(w);
}

void msi_image_writer_free(msi_image_writer *w)
{
    if (!w) return;
    while (w->n) finish_first(w);
    msi_free(w);
}
