/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Minor iterations on the CPU: threads share the pixels, and meet once an iteration. */
#include <omp.h>
#include <stddef.h>

#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"
#include "kernels/clean/clean_log_fit.h"

/* Pixels of the image, and of a list, that are worth a thread: a list is met twice an iteration. */
enum { LEAST_SHARE = 4096, LEAST_LIST_SHARE = 16384 };

static double element_value(const msi_clean_engine *e, const void *array, int64_t i)
{
    return e->s.precision == MSI_FP32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

/* Write the log-polynomial component of polarisation p into value [n_plane]. Returns 0 where there is none. */
static int make_log_component(const msi_clean_engine *e, double gain, const void *r, int64_t stride, int p, void *value)
{
    const msi_clean_join *j = &e->s.join;
    double y[MSI_CLEAN_CHANNELS];
    for (int c = 0; c < j->n_channel; c++) y[c] = element_value(e, r, (c * j->n_pol + p) * stride);
    if (!msi_clean_log_fit(&e->s.log, y)) return 0;
    for (int c = 0; c < j->n_channel; c++)
        if (e->s.precision == MSI_FP32)
            ((float *)value)[c * j->n_pol + p] = (float)(gain * y[c]);
        else
            ((double *)value)[c * j->n_pol + p] = gain * y[c];
    return 1;
}

/* Write the component of a pixel into value [n_plane]. */
static void make_component(const msi_clean_engine *e, double gain, const void *r, int64_t stride, void *value)
{
    const msi_clean_join *j = &e->s.join;
    for (int p = 0; p < j->n_pol; p++) {
        if (e->s.log.n_term && make_log_component(e, gain, r, stride, p, value)) continue;
        for (int c = 0; c < j->n_channel; c++)
            if (e->s.precision == MSI_FP32)
                ((float *)value)[c * j->n_pol + p] =
                    msi_clean_value_f32(j, e->share, e->fit, (float)gain, r, stride, c, p);
            else
                ((double *)value)[c * j->n_pol + p] = msi_clean_value_f64(j, e->share, e->fit, gain, r, stride, c, p);
    }
}

/* Tell whether a loop ends at this peak; thresholds are compared in the planes' precision. */
static int ends(const msi_clean_engine *e, const msi_clean_loop *loop, const msi_clean_best *best, msi_clean_end *end)
{
    const int single = e->s.precision == MSI_FP32;
    const double threshold = single ? (float)loop->threshold : loop->threshold;
    const double diverged = single ? (float)loop->diverged : loop->diverged;
    if (best->key <= threshold)
        *end = MSI_CLEAN_END_BELOW;
    else if (best->key > diverged)
        *end = MSI_CLEAN_END_DIVERGED;
    else if (loop->stop_negative && best->value < 0)
        *end = MSI_CLEAN_END_NEGATIVE;
    else
        return 0;
    return 1;
}

static void add_to(const msi_clean_engine *e, void *sum, int64_t i, const void *value, int k)
{
    if (e->s.precision == MSI_FP32)
        ((float *)sum)[i] += ((const float *)value)[k];
    else
        ((double *)sum)[i] += ((const double *)value)[k];
}

static const void *element(const msi_clean_engine *e, const void *array, int64_t i)
{
    return (const char *)array + i * msi_clean_real_bytes(e);
}

/* Find the first of the best of all threads. */
static msi_clean_best best_of(const msi_clean_best *of, int n)
{
    msi_clean_best best = of[0];
    for (int t = 1; t < n; t++)
        if (of[t].key > best.key) best = of[t];
    return best;
}

/* Record a component of the list, and add it to what the list has found. */
static const void *take_list(msi_clean_engine *e, const msi_clean_loop *loop, int64_t at, int64_t iteration)
{
    void *value = (char *)e->value + iteration * e->n_plane * msi_clean_real_bytes(e);
    e->place[iteration] = e->list[at];
    make_component(e, loop->gain, element(e, e->residual, at), e->s.list_limit, value);
    for (int k = 0; k < e->n_plane; k++) add_to(e, e->component, k * e->s.list_limit + at, value, k);
    return value;
}

static void set_peak(msi_clean_looped *done, const msi_clean_best *best, uint32_t place)
{
    done->peak = (msi_clean_peak){best->key, best->value, msi_clean_x(place), msi_clean_y(place)};
}

int msi_clean_list_loop_cpu(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    msi_clean_list_step step = {
        &e->s.join, e->share, e->list, e->residual, e->s.list_limit, e->has_factor ? e->factor : NULL, loop->psf,
        e->s.nx,    e->s.ny,  0,       NULL};
    const int64_t worth = e->n_list * e->n_plane / LEAST_LIST_SHARE + 1;
    int n_thread = worth < e->n_thread ? (int)worth : e->n_thread, over = 0;
    void (*run)(const msi_clean_list_step *, int64_t, int64_t, msi_clean_best *) =
        e->s.precision == MSI_FP32 ? e->simd->list_f32 : e->simd->list_f64;
    *done = (msi_clean_looped){.end = MSI_CLEAN_END_MORE, .place = e->place, .value = e->value};
#pragma omp parallel num_threads(n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        const int64_t first = e->n_list * t / n, end = e->n_list * (t + 1) / n;
        while (!over) {
            run(&step, first, end, &e->of_thread[t]);
#pragma omp barrier
#pragma omp single
            {
                const msi_clean_best best = best_of(e->of_thread, (int)n);
                over = ends(e, loop, &best, &done->end) || done->n_iteration == loop->n_iteration;
                set_peak(done, &best, e->n_list ? e->list[best.at] : 0);
                if (!over) {
                    step.component = take_list(e, loop, best.at, done->n_iteration++);
                    step.place = e->list[best.at];
                }
            }
        }
    }
    return MSI_OK;
}

/* An exact loop's images, and the square that the last component reaches. */
typedef struct exact {
    msi_clean_engine *e;
    const msi_clean_loop *loop;
    const void *component; /* NULL: nothing is subtracted yet */
    int64_t psf_x, psf_y;  /* the PSF's pixel that falls on (0, 0) */
    int64_t x0, x1, y0, y1;
} exact;

/* Subtract from a row, and find the best of its pieces anew where it was touched. */
static void step_row(const exact *x, int64_t y)
{
    msi_clean_engine *e = x->e;
    const int64_t bytes = msi_clean_real_bytes(e), row = y * e->s.nx;
    const int single = e->s.precision == MSI_FP32;
    msi_clean_row_step step = {.join = &e->s.join,
                               .share = e->share,
                               .stride = x->loop->residual_stride,
                               .psf_stride = e->n_pixel,
                               .component = x->component};
    if (x->component) {
        step.residual = (char *)x->loop->residual + (row + x->x0) * bytes;
        step.psf = (const char *)x->loop->psf + ((y + x->psf_y) * e->s.nx + x->x0 + x->psf_x) * bytes;
        (single ? e->simd->subtract_f32 : e->simd->subtract_f64)(&step, x->x1 - x->x0);
    }
    for (int64_t k = x->x0 / MSI_CLEAN_TILE; k * MSI_CLEAN_TILE < x->x1; k++) {
        const int64_t from = row + k * MSI_CLEAN_TILE, left = e->s.nx - k * MSI_CLEAN_TILE;
        msi_clean_best *best = &e->piece[y * e->n_piece + k];
        step.residual = (char *)x->loop->residual + from * bytes;
        step.allow = x->loop->allow ? x->loop->allow + from : NULL;
        step.factor = x->loop->factor ? element(e, x->loop->factor, from) : NULL;
        (single ? e->simd->search_f32 : e->simd->search_f64)(&step, left < MSI_CLEAN_TILE ? left : MSI_CLEAN_TILE,
                                                             best);
        best->at += k * MSI_CLEAN_TILE;
    }
    e->row[y] = best_of(e->piece + y * e->n_piece, (int)e->n_piece);
}

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Record a component at pixel (px, py), add it to the model, and say what it reaches. */
static void take_exact(exact *x, int64_t px, int64_t py, int64_t iteration)
{
    msi_clean_engine *e = x->e;
    const msi_clean_loop *loop = x->loop;
    const int64_t at = py * e->s.nx + px, nx = e->s.nx, ny = e->s.ny;
    const int64_t wide = e->s.patch ? least_of(e->s.patch, nx) : nx, high = e->s.patch ? least_of(e->s.patch, ny) : ny;
    void *value = (char *)e->value + iteration * e->n_plane * msi_clean_real_bytes(e);
    e->place[iteration] = msi_clean_place((uint32_t)px, (uint32_t)py);
    make_component(e, loop->gain, element(e, loop->residual, at), loop->residual_stride, value);
    for (int k = 0; k < e->n_plane; k++) add_to(e, loop->model, k * loop->model_stride + at, value, k);
    if (loop->found) loop->found[at] |= 1;
    x->component = value;
    x->psf_x = nx / 2 - px;
    x->psf_y = ny / 2 - py;
    x->x0 = most_of(px - wide / 2, 0);
    x->x1 = least_of(px - wide / 2 + wide, nx);
    x->y0 = most_of(py - high / 2, 0);
    x->y1 = least_of(py - high / 2 + high, ny);
    /* Of an odd number of pixels the PSF has one less on one side. */
    x->x0 = most_of(x->x0, -x->psf_x);
    x->x1 = least_of(x->x1, nx - x->psf_x);
    x->y0 = most_of(x->y0, -x->psf_y);
    x->y1 = least_of(x->y1, ny - x->psf_y);
}

int msi_clean_exact_loop_cpu(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    exact x = {e, loop, NULL, 0, 0, 0, e->s.nx, 0, e->s.ny};
    *done = (msi_clean_looped){.end = MSI_CLEAN_END_MORE, .place = e->place, .value = e->value};
    for (;;) {
        const int64_t worth = (x.x1 - x.x0) * (x.y1 - x.y0) * e->n_plane / LEAST_SHARE + 1;
#pragma omp parallel for num_threads(worth < e->n_thread ? (int)worth : e->n_thread)
        for (int64_t y = x.y0; y < x.y1; y++) step_row(&x, y);
        int64_t y = 0;
        for (int64_t i = 1; i < e->s.ny; i++)
            if (e->row[i].key > e->row[y].key) y = i;
        const msi_clean_best *best = &e->row[y];
        set_peak(done, best, msi_clean_place((uint32_t)best->at, (uint32_t)y));
        if (ends(e, loop, best, &done->end) || done->n_iteration == loop->n_iteration) return MSI_OK;
        take_exact(&x, best->at, y, done->n_iteration++);
    }
}
