/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The engine of cleaning on the CPU (clean_engine.h): its memory, passes over images, the list of bright pixels, minor
 * iterations on the list or on the image, and masks. Transforms are in clean_fft_cpu.c, noise in clean_noise_cpu.c. The
 * loops over pixels of minor iterations are in clean_simd.c, once for each instruction set.
 */
#include "kernels/clean/clean_engine_cpu.h"

#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <string.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_log_fit.h"
#include "kernels/clean/clean_simd.h"
#include "kernels/method/simd.h"

extern const msi_clean_simd_table msi_clean_simd_table_base, msi_clean_simd_table_avx2, msi_clean_simd_table_avx512;

/* Return the table of the instruction set that msi_simd_best names. */
static const msi_clean_simd_table *simd_table(void)
{
    static const msi_clean_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_clean_simd_table);
    return table[msi_simd_best()];
}

/* Pixels that a search tests together. It skips all of them if none can be a result. */
enum { PIECE = 256 };

#define REAL  float
#define FMA   fmaf
#define FABS  fabsf
#define IN(x) x##_f32
#include "kernels/clean/clean_image_cpu_body.h"
#undef REAL
#undef FMA
#undef FABS
#undef IN

#define REAL  double
#define FMA   fma
#define FABS  fabs
#define IN(x) x##_f64
#include "kernels/clean/clean_image_cpu_body.h"

/* Call the function of the engine's precision. */
#define CALL(function, ...)                                                                                            \
    (e->s.precision == MSI_FP32 ? function##_f32(e, __VA_ARGS__) : function##_f64(e, __VA_ARGS__))

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

static int engine_alloc(msi_clean_engine *e, void **out, int64_t bytes, const char *what)
{
    (void)e;
    return msi_alloc_work(out, bytes, 1, what);
}

static int engine_alloc_paged(msi_clean_engine *e, void **out, int64_t bytes, const char *what)
{
    (void)e;
    return msi_alloc_paged(out, bytes, 1, what);
}

static void engine_release(msi_clean_engine *e, void *p)
{
    (void)e;
    msi_free(p);
}

static int engine_copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    (void)e;
    memcpy(to, from, (size_t)bytes);
    return MSI_OK;
}

static int engine_upload_middle(msi_clean_engine *e, void *image, const void *from, int64_t n)
{
    const int64_t real = msi_image_pixel_bytes(e->s.precision), first = msi_clean_middle(&e->s, n);
    for (int64_t y = 0; y < n; y++)
        memcpy((char *)image + (first + y * e->s.nx) * real, (const char *)from + y * n * real, (size_t)(n * real));
    return MSI_OK;
}

static int engine_download_middle(msi_clean_engine *e, void *to, const void *image, int64_t n)
{
    const int64_t real = msi_image_pixel_bytes(e->s.precision), first = msi_clean_middle(&e->s, n);
    for (int64_t y = 0; y < n; y++)
        memcpy((char *)to + y * n * real, (const char *)image + (first + y * e->s.nx) * real, (size_t)(n * real));
    return MSI_OK;
}

static int engine_clear(msi_clean_engine *e, void *p, int64_t bytes)
{
    (void)e;
    memset(p, 0, (size_t)bytes);
    return MSI_OK;
}

static int engine_take(msi_clean_engine *e, void *to, const msi_clean_engine *other, const void *from, int64_t bytes)
{
    (void)other;
    return engine_copy(e, to, from, bytes);
}

static int engine_give(msi_clean_engine *e, const msi_clean_engine *other, void *to, const void *from, int64_t bytes)
{
    (void)other;
    return engine_copy(e, to, from, bytes);
}

static int engine_take_list(msi_clean_engine *e, const msi_clean_engine *other, int plane)
{
    const int64_t real = msi_image_pixel_bytes(e->s.precision), at = plane * e->s.list_limit * real;
    e->n_list = other->n_list;
    memcpy(e->list, other->list, (size_t)e->n_list * sizeof *e->list);
    memcpy((char *)e->component + at, (const char *)other->component + at, (size_t)(e->n_list * real));
    return MSI_OK;
}

static int engine_wait(msi_clean_engine *e)
{
    (void)e;
    return MSI_OK;
}

static void engine_free(msi_clean_engine *e)
{
    if (!e) return;
    void *all[] = {e->share, e->fit,   e->list,  e->residual, e->component, e->factor,
                   e->place, e->value, e->piece, e->row,      e->of_thread, e->interleaved};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) msi_free(all[i]);
    msi_free(e);
}

static int make_tables(msi_clean_engine *e)
{
    const int n = e->s.join.n_channel;
    MSI_TRY(msi_alloc(&e->share, n, 8, "channels' weights"));
    if (e->s.fit) MSI_TRY(msi_alloc(&e->fit, n * n, 8, "a spectral fit"));
    for (int i = 0; i < n; i++) CALL(set_real, e->share, i, e->s.share[i]);
    for (int i = 0; i < n * n && e->s.fit; i++) CALL(set_real, e->fit, i, e->s.fit[i]);
    e->s.fit = NULL;
    return MSI_OK;
}

static int64_t n_cell(const msi_clean_engine *e)
{
    const msi_clean_cells *c = &e->s.cells;
    return c->n_x && c->n_y ? (int64_t)c->n_x * c->n_y : 1;
}

static int allocate_arrays(msi_clean_engine *e)
{
    const int64_t real = msi_clean_real_bytes(e), n = e->s.list_limit;
    e->n_piece = (e->s.nx + MSI_CLEAN_TILE - 1) / MSI_CLEAN_TILE;
    MSI_TRY(msi_alloc(&e->place, MSI_CLEAN_CHUNK, sizeof *e->place, "components"));
    MSI_TRY(msi_alloc(&e->value, MSI_CLEAN_CHUNK * e->n_plane, (size_t)real, "components"));
    MSI_TRY(msi_alloc(&e->of_thread, e->n_thread, sizeof *e->of_thread, "components"));
    if (!n) {
        MSI_TRY(msi_alloc(&e->piece, e->n_piece * e->s.ny, sizeof *e->piece, "rows' peaks"));
        return msi_alloc(&e->row, e->s.ny, sizeof *e->row, "rows' peaks");
    }
    MSI_TRY(msi_alloc(&e->list, n, sizeof *e->list, "a list of pixels"));
    MSI_TRY(msi_alloc(&e->residual, n * e->n_plane, (size_t)real, "a list of pixels"));
    MSI_TRY(msi_alloc(&e->component, n * e->n_plane, (size_t)real, "a list of pixels"));
    if (e->s.join.n_channel > 1 && n_cell(e) == 1)
        MSI_TRY(msi_alloc_work(&e->interleaved, e->n_pixel * e->s.join.n_channel, (size_t)real, "the PSF for lists"));
    return msi_alloc(&e->factor, n, (size_t)real, "a list of pixels");
}

static int engine_create(msi_clean_engine **out, const msi_clean_setup *setup)
{
    msi_clean_engine *e;
    *out = NULL;
    MSI_TRY(msi_alloc(&e, 1, sizeof *e, "the cleaner"));
    e->s = *setup;
    e->n_plane = setup->join.n_channel * setup->join.n_pol;
    e->n_pixel = setup->nx * setup->ny;
    e->n_thread = setup->n_thread > 0 ? setup->n_thread : omp_get_max_threads();
    e->simd = simd_table();
    e->cell = -1;
    int rc = make_tables(e);
    if (!rc) rc = allocate_arrays(e);
    if (rc) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return MSI_OK;
}

/* ---- Images ----------------------------------------------------------------------------------------------------- */

/* Set allow to 1 for those of n pixels that may be searched, else to 0. */
static void allow_pixels(const msi_clean_allow *from, int64_t first, int64_t n, uint8_t *restrict allow)
{
    const uint8_t *restrict mask = from->mask ? from->mask + first : NULL;
    const uint16_t *restrict found = from->found ? from->found + first : NULL;
    const uint16_t *restrict scales = from->scales ? from->scales + first : NULL;
    memset(allow, 1, (size_t)n);
    for (int64_t i = 0; i < n && mask; i++) allow[i] = mask[i] != 0;
    for (int64_t i = 0; i < n && found; i++) allow[i] &= (found[i] & from->bits) != 0;
    for (int64_t i = 0; i < n && scales; i++) allow[i] &= (scales[i] & from->scale_bit) != 0;
}

static int engine_allow(msi_clean_engine *e, const msi_clean_allow *from, uint8_t *allow)
{
    const int64_t nx = e->s.nx, ny = e->s.ny, n = nx - 2 * from->border_x;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) {
        const int64_t first = y * nx + from->border_x;
        memset(allow + y * nx, 0, (size_t)nx);
        if (n > 0 && y >= from->border_y && y < ny - from->border_y) allow_pixels(from, first, n, allow + first);
    }
    return MSI_OK;
}

static int engine_finite(msi_clean_engine *e, void *image, int64_t n)
{
    CALL(finite, image, n);
    return MSI_OK;
}

/* Pixels that a thread handles at a time. They are few enough that their values in several planes stay in the cache. */
enum { BLOCK = 4096 };

/* Compute the joined quantities of pixels [first, first + n). */
static void join_pixels(const msi_clean_engine *e, const msi_clean_row_step *step, int64_t first, int64_t n,
                        void *quantity)
{
    const int64_t at = first * msi_clean_real_bytes(e);
    msi_clean_row_step s = *step;
    s.residual = (char *)s.residual + at;
    if (s.factor) s.factor = (const char *)s.factor + at;
    (e->s.precision == MSI_FP32 ? e->simd->join_f32 : e->simd->join_f64)(&s, n, (char *)quantity + at);
}

static int64_t block_end(const msi_clean_engine *e, int64_t first)
{
    return first + BLOCK < e->n_pixel ? first + BLOCK : e->n_pixel;
}

static void join_image(const msi_clean_engine *e, const msi_clean_row_step *step, void *quantity)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i += BLOCK) join_pixels(e, step, i, block_end(e, i) - i, quantity);
}

static int engine_join(msi_clean_engine *e, const msi_clean_joined *from, const void *factor, void *quantity)
{
    const double one[1] = {1};
    const float single[1] = {1};
    const msi_clean_join join = msi_clean_join_of(&e->s.join, from);
    const void *of_mean = e->s.precision == MSI_FP32 ? (const void *)single : one;
    const msi_clean_row_step step = {.join = &join,
                                     .share = from->rows    ? from->rows
                                              : from->n_sum ? of_mean
                                                            : e->share,
                                     .residual = (void *)from->planes,
                                     .stride = from->stride,
                                     .factor = factor};
    join_image(e, &step, quantity);
    return MSI_OK;
}

static int engine_mean(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    const msi_clean_join join = {.n_channel = e->s.join.n_channel, .n_pol = 1};
    const msi_clean_row_step step = {.join = &join,
                                     .share = e->share,
                                     .residual = (char *)planes + pol * stride * msi_clean_real_bytes(e),
                                     .stride = e->s.join.n_pol * stride};
    join_image(e, &step, out);
    return MSI_OK;
}

/* Compute the weighted sums of a map for pixels [first, first + n). */
static void map_sums(const msi_clean_engine *e, const msi_clean_map *m, int64_t first, int64_t n)
{
    const msi_clean_join join = {.n_channel = m->n_in, .n_pol = 1};
    const int64_t bytes = msi_clean_real_bytes(e);
    for (int o = 0; o < m->n_out; o++) {
        const msi_clean_row_step step = {.join = &join,
                                         .share = (const char *)m->matrix + (int64_t)o * m->n_in * bytes,
                                         .residual = (void *)m->in,
                                         .stride = m->in_stride};
        join_pixels(e, &step, first, n, (char *)m->out + o * m->out_stride * bytes);
    }
}

/* Compute the map of every pixel; threads share the pixels. */
static int engine_map(msi_clean_engine *e, const msi_clean_map *m)
{
#pragma omp parallel for num_threads(e->n_thread) schedule(dynamic)
    for (int64_t i = 0; i < e->n_pixel; i += BLOCK) {
        const int64_t end = block_end(e, i);
        if (!m->log_x) map_sums(e, m, i, end - i);
        for (int64_t k = i; k < end && m->log_x; k++)
            if (!CALL(log_map, m, k)) map_sums(e, m, k, 1);
    }
    return MSI_OK;
}

static int engine_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    msi_clean_best best = {0, 0, 0};
#pragma omp parallel num_threads(e->n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        msi_clean_best part = CALL(peak, s, e->n_pixel * t / n, e->n_pixel * (t + 1) / n);
#pragma omp critical(msi_clean_peak)
        if (part.key > best.key || (part.key == best.key && part.at < best.at)) best = part;
    }
    *peak = (msi_clean_peak){best.key, best.value, best.at % e->s.nx, best.at / e->s.nx};
    return MSI_OK;
}

/* ---- The list --------------------------------------------------------------------------------------------------- */

static int engine_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                       int64_t bins[MSI_CLEAN_BINS])
{
    memset(bins, 0, MSI_CLEAN_BINS * sizeof *bins);
#pragma omp parallel num_threads(e->n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        int64_t part[MSI_CLEAN_BINS] = {0};
        CALL(bins, s, range, e->n_pixel * t / n, e->n_pixel * (t + 1) / n, part);
#pragma omp critical(msi_clean_bins)
        for (int b = 0; b < MSI_CLEAN_BINS; b++) bins[b] += part[b];
    }
    return MSI_OK;
}

static int engine_select(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin,
                         int64_t *n)
{
    CALL(select, s, range, first_bin);
    *n = e->n_list;
    return MSI_OK;
}

static int engine_load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
{
    CALL(load, planes, stride, factor);
    return MSI_OK;
}

static int engine_deposit(msi_clean_engine *e, int plane, void *image)
{
    CALL(deposit, plane, image);
    return MSI_OK;
}

static int engine_mark(msi_clean_engine *e, uint16_t *found, int bit)
{
    CALL(mark, found, bit);
    return MSI_OK;
}

static int engine_take_cell(msi_clean_engine *e, int cell)
{
    e->cell = cell;
    return MSI_OK;
}

/* ---- Minor iterations: threads share the pixels, and synchronise in each iteration ------------------------------ */

/* The least number of values for which another thread is used, in the image and in a list. It is larger for a list,
 * because its threads synchronise twice in an iteration. */
enum { LEAST_SHARE = 4096, LEAST_LIST_SHARE = 16384 };

/* Return the PSF for a component at a place: that of its cell, if the image has several cells. */
static const void *psf_at(const msi_clean_engine *e, const msi_clean_loop *loop, uint32_t place)
{
    const int64_t of_cell = e->s.join.n_channel * e->n_pixel * msi_clean_real_bytes(e);
    return n_cell(e) > 1 ? (const char *)loop->psf + msi_clean_cell_of(&e->s.cells, place) * of_cell : loop->psf;
}

static const void *element(const msi_clean_engine *e, const void *array, int64_t i)
{
    return (const char *)array + i * msi_clean_real_bytes(e);
}

/* Compute the log-polynomial component of polarisation p into value [n_plane]. Returns 0 if there is none. */
static int make_log_component(const msi_clean_engine *e, double gain, const void *r, int64_t stride, int p, void *value)
{
    const msi_clean_join *j = &e->s.join;
    double y[MSI_CLEAN_LOG_CHANNELS];
    for (int c = 0; c < j->n_channel; c++) y[c] = msi_image_value(r, e->s.precision, (c * j->n_pol + p) * stride);
    if (!msi_clean_log_fit(&e->s.log, y)) return 0;
    for (int c = 0; c < j->n_channel; c++)
        if (e->s.precision == MSI_FP32)
            ((float *)value)[c * j->n_pol + p] = (float)(gain * y[c]);
        else
            ((double *)value)[c * j->n_pol + p] = gain * y[c];
    return 1;
}

/* Compute the component of a pixel into value [n_plane]. */
static void make_component(const msi_clean_engine *e, double gain, const void *r, int64_t stride, void *value)
{
    const msi_clean_join *j = &e->s.join;
    for (int p = 0; p < j->n_pol; p++) {
        if (e->s.log.n_term && make_log_component(e, gain, r, stride, p, value)) continue;
        for (int c = 0; c < j->n_channel; c++)
            if (e->s.precision == MSI_FP32)
                ((float *)value)[c * j->n_pol + p] =
                    msi_clean_value_f32(j, e->share, e->loop_fit, (float)gain, r, stride, c, p);
            else
                ((double *)value)[c * j->n_pol + p] =
                    msi_clean_value_f64(j, e->share, e->loop_fit, gain, r, stride, c, p);
    }
}

/* Return 1 if a loop ends at this peak. Thresholds are compared in the precision of the planes. Returned: *end  why */
static int loop_ends(const msi_clean_engine *e, const msi_clean_loop *loop, const msi_clean_best *best,
                     msi_clean_end *end)
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

/* Return the best of n pixels; of equal ones, the first. */
static msi_clean_best best_of(const msi_clean_best *of, int n)
{
    msi_clean_best best = of[0];
    for (int t = 1; t < n; t++)
        if (of[t].key > best.key) best = of[t];
    return best;
}

static void set_peak(msi_clean_looped *done, const msi_clean_best *best, uint32_t place)
{
    done->peak = (msi_clean_peak){best->key, best->value, msi_clean_x(place), msi_clean_y(place)};
}

/* Record a component at element `at` of the list, and add it to the list's components. Return its values [n_plane]. */
static const void *add_list_component(msi_clean_engine *e, const msi_clean_loop *loop, int64_t at, int64_t iteration)
{
    void *value = (char *)e->value + iteration * e->n_plane * msi_clean_real_bytes(e);
    e->place[iteration] = e->list[at];
    make_component(e, loop->gain, element(e, e->residual, at), e->s.list_limit, value);
    for (int k = 0; k < e->n_plane; k++) add_to(e, e->component, k * e->s.list_limit + at, value, k);
    return value;
}

/* Return 1 if the channels of the PSF must now be interleaved. That pays off after loops have read more pixels from the
 * planes of the PSF than the PSF has. */
static int is_worth_interleaving(const msi_clean_engine *e)
{
    return e->interleaved && e->psf_id && !e->is_interleaved && e->n_gathered > e->n_pixel;
}

/* Interleave the channels of row y of the PSF. */
static void interleave_row(const msi_clean_engine *e, const void *psf, int64_t y)
{
    const int64_t n_channel = e->s.join.n_channel;
    for (int64_t c = 0; c < n_channel; c++) {
        const int64_t from = c * e->n_pixel + y * e->s.nx, to = y * e->s.nx * n_channel + c;
        for (int64_t x = 0; x < e->s.nx; x++)
            if (e->s.precision == MSI_FP32)
                ((float *)e->interleaved)[to + x * n_channel] = ((const float *)psf)[from + x];
            else
                ((double *)e->interleaved)[to + x * n_channel] = ((const double *)psf)[from + x];
    }
}

static int engine_list_loop(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    e->loop_fit = loop->fit ? loop->fit : e->fit;
    msi_clean_join join = e->s.join;
    if (loop->rows) join.n_row = loop->n_row;
    msi_clean_list_step step = {.join = &join,
                                .share = loop->rows ? loop->rows : e->share,
                                .list = e->list,
                                .residual = e->residual,
                                .list_stride = e->s.list_limit,
                                .factor = e->has_factor ? e->factor : NULL,
                                .psf = loop->psf,
                                .nx = e->s.nx,
                                .ny = e->s.ny};
    const int64_t worth = e->n_list * e->n_plane / LEAST_LIST_SHARE + 1;
    int n_thread = worth < e->n_thread ? (int)worth : e->n_thread, over = 0;
    void (*run)(const msi_clean_list_step *, int64_t, int64_t, msi_clean_best *) =
        e->s.precision == MSI_FP32 ? e->simd->list_f32 : e->simd->list_f64;
    *done = (msi_clean_looped){.end = MSI_CLEAN_END_MORE, .place = e->place, .value = e->value};
    if (loop->psf_id != e->psf_id) {
        e->psf_id = loop->psf_id;
        e->is_interleaved = 0;
        e->n_gathered = 0;
    }
    step.interleaved = e->is_interleaved ? e->interleaved : NULL;
#pragma omp parallel num_threads(n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        const int64_t first = e->n_list * t / n, end = e->n_list * (t + 1) / n;
        while (!over) {
            if (is_worth_interleaving(e)) {
#pragma omp for
                for (int64_t y = 0; y < e->s.ny; y++) interleave_row(e, loop->psf, y);
#pragma omp single
                {
                    e->is_interleaved = 1;
                    step.interleaved = e->interleaved;
                }
            }
            run(&step, first, end, &e->of_thread[t]);
#pragma omp barrier
#pragma omp single
            {
                const msi_clean_best best = best_of(e->of_thread, (int)n);
                over = loop_ends(e, loop, &best, &done->end) || done->n_iteration == loop->n_iteration;
                set_peak(done, &best, e->n_list ? e->list[best.at] : 0);
                e->n_gathered += e->n_list;
                if (!over) {
                    step.component = add_list_component(e, loop, best.at, done->n_iteration++);
                    step.place = e->list[best.at];
                    step.psf = psf_at(e, loop, step.place);
                }
            }
        }
    }
    return MSI_OK;
}

/* The state of an exact loop: its images, its last component, and the rectangle that this component affects. */
typedef struct exact_loop {
    msi_clean_engine *e;
    const msi_clean_loop *loop;
    const void *component, *psf; /* the last component [n_plane] and its PSF; NULL before the first component */
    int64_t psf_x, psf_y;        /* the PSF's pixel that falls on (0, 0) */
    int64_t x0, x1, y0, y1;      /* the rectangle [x0, x1) x [y0, y1) */
} exact_loop;

/* Subtract the last component from row y, and search the affected pieces of the row again. */
static void update_row(const exact_loop *x, int64_t y)
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
        step.psf = (const char *)x->psf + ((y + x->psf_y) * e->s.nx + x->x0 + x->psf_x) * bytes;
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

/* Record a component at pixel (px, py), add it to the model, and compute the rectangle that it affects. */
static void add_exact_component(exact_loop *x, int64_t px, int64_t py, int64_t iteration)
{
    msi_clean_engine *e = x->e;
    const msi_clean_loop *loop = x->loop;
    const int64_t at = py * e->s.nx + px, nx = e->s.nx, ny = e->s.ny;
    const int64_t wide = e->s.patch ? msi_clean_least(e->s.patch, nx) : nx,
                  high = e->s.patch ? msi_clean_least(e->s.patch, ny) : ny;
    void *value = (char *)e->value + iteration * e->n_plane * msi_clean_real_bytes(e);
    e->place[iteration] = msi_clean_place((uint32_t)px, (uint32_t)py);
    make_component(e, loop->gain, element(e, loop->residual, at), loop->residual_stride, value);
    for (int k = 0; k < e->n_plane; k++) add_to(e, loop->model, k * loop->model_stride + at, value, k);
    if (loop->found) loop->found[at] |= 1;
    x->component = value;
    x->psf = psf_at(e, loop, e->place[iteration]);
    x->psf_x = nx / 2 - px;
    x->psf_y = ny / 2 - py;
    x->x0 = msi_clean_most(px - wide / 2, 0);
    x->x1 = msi_clean_least(px - wide / 2 + wide, nx);
    x->y0 = msi_clean_most(py - high / 2, 0);
    x->y1 = msi_clean_least(py - high / 2 + high, ny);
    /* With an odd number of pixels the PSF is one pixel shorter on one side. */
    x->x0 = msi_clean_most(x->x0, -x->psf_x);
    x->x1 = msi_clean_least(x->x1, nx - x->psf_x);
    x->y0 = msi_clean_most(x->y0, -x->psf_y);
    x->y1 = msi_clean_least(x->y1, ny - x->psf_y);
}

static int engine_exact_loop(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    e->loop_fit = loop->fit ? loop->fit : e->fit;
    exact_loop x = {.e = e, .loop = loop, .x1 = e->s.nx, .y1 = e->s.ny};
    *done = (msi_clean_looped){.end = MSI_CLEAN_END_MORE, .place = e->place, .value = e->value};
    for (;;) {
        const int64_t worth = (x.x1 - x.x0) * (x.y1 - x.y0) * e->n_plane / LEAST_SHARE + 1;
#pragma omp parallel for num_threads(worth < e->n_thread ? (int)worth : e->n_thread)
        for (int64_t y = x.y0; y < x.y1; y++) update_row(&x, y);
        int64_t y = 0;
        for (int64_t i = 1; i < e->s.ny; i++)
            if (e->row[i].key > e->row[y].key) y = i;
        const msi_clean_best *best = &e->row[y];
        set_peak(done, best, msi_clean_place((uint32_t)best->at, (uint32_t)y));
        if (loop_ends(e, loop, best, &done->end) || done->n_iteration == loop->n_iteration) return MSI_OK;
        add_exact_component(&x, best->at, y, done->n_iteration++);
    }
}

/* ---- Masks: thresholds, regions, growth ------------------------------------------------------------------------- */

static int engine_threshold(msi_clean_engine *e, const void *image, double value, int below, uint8_t *mask)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double v = msi_image_value(image, e->s.precision, i);
        mask[i] = isfinite(v) && (below ? v < value : v > value);
    }
    return MSI_OK;
}

/* Find the neighbours that share an edge with pixel i. Returns: their number; at [4]  their indices */
static int find_neighbours(const msi_clean_engine *e, int64_t i, int64_t at[4])
{
    const int64_t nx = e->s.nx, x = i % nx;
    int n = 0;
    if (x > 0) at[n++] = i - 1;
    if (x + 1 < nx) at[n++] = i + 1;
    if (i >= nx) at[n++] = i - nx;
    if (i + nx < e->n_pixel) at[n++] = i + nx;
    return n;
}

/* Collect the region of pixel `first`: connected pixels of the mask. Their mask value becomes 2, so that they are not
 * visited again. Returned: queue  the pixels. Returns: their number */
static int64_t collect_region(const msi_clean_engine *e, int64_t first, uint8_t *mask, uint32_t *queue)
{
    int64_t head = 0, tail = 0, near[4];
    queue[tail++] = (uint32_t)first;
    mask[first] = 2;
    while (head < tail) {
        const int n = find_neighbours(e, queue[head++], near);
        for (int k = 0; k < n; k++) {
            if (mask[near[k]] != 1) continue;
            mask[near[k]] = 2;
            queue[tail++] = (uint32_t)near[k];
        }
    }
    return tail;
}

static int engine_prune(msi_clean_engine *e, int64_t least, uint8_t *mask)
{
    uint32_t *queue;
    if (least <= 1) return MSI_OK;
    MSI_TRY(msi_alloc(&queue, e->n_pixel, sizeof *queue, "regions of a mask"));
    for (int64_t i = 0; i < e->n_pixel; i++) {
        if (mask[i] != 1) continue;
        const int64_t n = collect_region(e, i, mask, queue);
        for (int64_t k = 0; k < n && n < least; k++) mask[queue[k]] = 0;
    }
    msi_free(queue);
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] != 0;
    return MSI_OK;
}

/* Grow mask `from` by one pixel, but only to pixels of `within`. Returned: to. Returns: 1 if a pixel was added */
static int grow_once(const msi_clean_engine *e, const uint8_t *within, const uint8_t *from, uint8_t *to)
{
    int grew = 0;
#pragma omp parallel for num_threads(e->n_thread) reduction(| : grew)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        to[i] = from[i];
        if (from[i] || !within[i]) continue;
        int64_t near[4];
        const int n = find_neighbours(e, i, near);
        for (int k = 0; k < n; k++) to[i] = to[i] || from[near[k]];
        grew |= to[i];
    }
    return grew;
}

static int engine_grow(msi_clean_engine *e, const uint8_t *within, int64_t n, uint8_t *mask)
{
    uint8_t *work;
    MSI_TRY(msi_alloc(&work, e->n_pixel, 1, "regions of a mask"));
    for (int64_t k = 0; k < n; k++) {
        const int grew = grow_once(e, within, mask, work);
        memcpy(mask, work, (size_t)e->n_pixel);
        if (!grew) break;
    }
    msi_free(work);
    return MSI_OK;
}

static int engine_unite(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] || other[i];
    return MSI_OK;
}

static int engine_intersect(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] && other[i];
    return MSI_OK;
}

static int engine_mask_to_image(msi_clean_engine *e, const uint8_t *mask, void *image)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        if (e->s.precision == MSI_FP32)
            ((float *)image)[i] = mask[i];
        else
            ((double *)image)[i] = mask[i];
    }
    return MSI_OK;
}

/* ---- The table -------------------------------------------------------------------------------------------------- */

const msi_clean_engine_ops msi_clean_engine_cpu = {
    .on_host = 1,
    .create = engine_create,
    .free = engine_free,
    .alloc = engine_alloc,
    .alloc_paged = engine_alloc_paged,
    .release = engine_release,
    .upload = engine_copy,
    .download = engine_copy,
    .upload_middle = engine_upload_middle,
    .download_middle = engine_download_middle,
    .copy = engine_copy,
    .clear = engine_clear,
    .take = engine_take,
    .give = engine_give,
    .take_list = engine_take_list,
    .wait = engine_wait,
    .allow = engine_allow,
    .finite = engine_finite,
    .join = engine_join,
    .mean = engine_mean,
    .map = engine_map,
    .peak = engine_peak,
    .bins = engine_bins,
    .select = engine_select,
    .load = engine_load,
    .list_loop = engine_list_loop,
    .deposit = engine_deposit,
    .mark = engine_mark,
    .take_cell = engine_take_cell,
    .exact_loop = engine_exact_loop,
    .fft_create = msi_clean_fft_create_cpu,
    .fft_free = msi_clean_fft_free_cpu,
    .fft_bytes = msi_clean_fft_bytes_cpu,
    .noise_bytes = msi_clean_noise_bytes_cpu,
    .forward = msi_clean_forward_cpu,
    .gaussian = msi_clean_gaussian_cpu,
    .product = msi_clean_product_cpu,
    .spread = msi_clean_spread_cpu,
    .inverse = msi_clean_inverse_cpu,
    .deviation = msi_clean_deviation_cpu,
    .square = msi_clean_square_cpu,
    .box = msi_clean_box_cpu,
    .weigh = msi_clean_weigh_cpu,
    .factor = msi_clean_factor_cpu,
    .threshold = engine_threshold,
    .prune = engine_prune,
    .grow = engine_grow,
    .unite = engine_unite,
    .intersect = engine_intersect,
    .mask_to_image = engine_mask_to_image,
    .subtract_list = msi_clean_subtract_list_cpu,
};
