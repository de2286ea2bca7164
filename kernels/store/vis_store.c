/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The visibility store: arenas of memory or of unlinked files, and segments carved from them. Samples are added in
 * vis_intake.c. */
#include "kernels/store/vis_store.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

#ifdef MSI_HAVE_CUDA
#include "kernels/store/gpu_samples.h"
#endif

void msi_vis_store_init(msi_vis_store *s, int n_plane, msi_precision precision, double u_limit_lambda,
                        double v_limit_lambda, int64_t memory_budget, const char *temp_dir)
{
    memset(s, 0, sizeof *s);
    s->n_plane = n_plane;
    s->precision = precision;
    s->u_limit_lambda = u_limit_lambda;
    s->v_limit_lambda = v_limit_lambda;
    s->memory_budget = memory_budget;
    s->temp_dir = temp_dir;
    s->w_min_lambda = HUGE_VAL;
    s->weight_scale = 1;
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

/* The size of arenas doubles from FIRST to LARGEST, so that a small store uses little memory. From HUGE_PAGE on, an
 * arena and the header of msi_alloc together fill whole huge pages. */
static const int64_t FIRST_ARENA_BYTES = 256 << 10, LARGEST_ARENA_BYTES = 64 << 20;

enum { HUGE_PAGE = 2 << 20, IN_FRONT = 64 };

/* Use a spare arena of at least `bytes` bytes again; NULL if there is none. */
static struct msi_vis_arena *reuse_arena(msi_vis_store *s, int64_t bytes)
{
    for (struct msi_vis_arena **p = &s->spare; *p; p = &(*p)->next) {
        struct msi_vis_arena *a = *p;
        if (a->size < bytes) continue;
        *p = a->next;
        a->used = 0;
        a->next = s->arena;
        s->arena = a;
        return a;
    }
    return NULL;
}

/* Choose the size of a new arena for at least `bytes` bytes. Given: before  the arena before it; NULL: none */
static int64_t next_arena_size(const struct msi_vis_arena *before, int64_t bytes)
{
    int64_t size = before ? 2 * before->size : FIRST_ARENA_BYTES;
    if (size > LARGEST_ARENA_BYTES) size = LARGEST_ARENA_BYTES;
    if (size < bytes) size = bytes;
    if (size < HUGE_PAGE - IN_FRONT) return size;
    return (size + IN_FRONT + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE - IN_FRONT;
}

static int64_t in_lines(int64_t bytes)
{
    return (bytes + 63) & ~(int64_t)63;
}

int msi_vis_store_carve(msi_vis_store *s, int64_t bytes, void **out)
{
    bytes = in_lines(bytes);
    struct msi_vis_arena *a = s->arena;
    if (!a || a->used + bytes > a->size) a = reuse_arena(s, bytes);
    if (!a) {
        const int64_t size = next_arena_size(s->arena, bytes);
        MSI_TRY(msi_alloc(&a, 1, sizeof *a, "visibility store"));
        a->size = size;
        a->mapped = s->memory_budget && s->bytes_memory + size > s->memory_budget;
        int rc = a->mapped ? msi_map_file(&a->base, size, s->temp_dir, "visibilities")
                           : msi_alloc(&a->base, size, 1, "visibility store");
        if (rc) {
            msi_free(a);
            return rc;
        }
        *(a->mapped ? &s->bytes_file : &s->bytes_memory) += size;
        a->next = s->arena;
        s->arena = a;
    }
    *out = a->base + a->used;
    a->used += bytes;
    return MSI_OK;
}

static void free_arenas(struct msi_vis_arena *a)
{
    for (struct msi_vis_arena *next; a; a = next) {
        next = a->next;
        if (a->mapped)
            munmap(a->base, (size_t)a->size);
        else
            msi_free(a->base);
        msi_free(a);
    }
}

void msi_vis_store_drop_arenas(msi_vis_store *s)
{
    for (const struct msi_vis_arena *a = s->arena; a; a = a->next)
        *(a->mapped ? &s->bytes_file : &s->bytes_memory) -= a->size;
    free_arenas(s->arena);
    s->arena = NULL;
}

/* ---- Segments --------------------------------------------------------------------------------------------------- */

/* Segments of many channels have fewer rows, so that a segment has about this size. */
static const int64_t SEGMENT_BYTES = 2 << 20;

enum { UVW_BYTES = 3 * sizeof(double) };

/* Return the bytes of a sample in all planes: visibilities and, except in a store of coordinates, weights. */
static int64_t sample_bytes(const msi_vis_store *s)
{
    return s->n_plane * (msi_complex_bytes(s->precision) + (s->coordinates ? 0 : (int64_t)sizeof(float)));
}

int64_t msi_vis_store_bytes(const msi_vis_store *s, int64_t n_sample, int64_t n_row)
{
    return n_sample * sample_bytes(s) + n_row * (UVW_BYTES + (s->tagged ? (int64_t)sizeof(uint64_t) : 0));
}

int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan)
{
    const int64_t suits = SEGMENT_BYTES / msi_vis_store_bytes(s, n_chan, 1);
    return suits > MSI_SEGMENT_ROWS ? MSI_SEGMENT_ROWS : suits < 1 ? 1 : suits;
}

int msi_vis_store_setup(msi_vis_store *s, int32_t n_chan, const double *freq_hz, struct msi_vis_setup **out)
{
    struct msi_vis_setup *p;
    size_t bytes = sizeof(double) * (size_t)n_chan;
    for (p = s->setup; p; p = p->next)
        if (p->n_chan == n_chan && memcmp(p->freq_hz, freq_hz, bytes) == 0) break;
    if (!p) {
        MSI_TRY(msi_alloc(&p, 1, sizeof *p + bytes, "visibility store"));
        p->n_chan = n_chan;
        p->open_segment = -1;
        memcpy(p->freq_hz, freq_hz, bytes);
        p->next = s->setup;
        s->setup = p;
    }
    *out = p;
    return MSI_OK;
}

int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out)
{
    if (s->n_segment == s->segment_capacity) {
        int64_t capacity = s->segment_capacity ? 2 * s->segment_capacity : 256;
        MSI_TRY(msi_grow(&s->segment, s->n_segment, capacity, sizeof *s->segment, "visibility store"));
        s->segment_capacity = capacity;
    }
    if (s->n_segment >= (int64_t)1 << (32 - MSI_SEGMENT_SHIFT))
        return msi_error_about(msi_error_set(MSI_ERANGE, "n_row: a store holds at most 2^32 rows of visibilities"),
                               "n_row");
    *out = &s->segment[s->n_segment];
    return MSI_OK;
}

/* Get memory for the next segment, in the store's memory or in a buffer for the GPU. */
static int carve_segment(msi_vis_store *s, int64_t bytes, void **out)
{
#ifdef MSI_HAVE_CUDA
    if (s->gpu) {
        int is_new_buffer;
        MSI_TRY(msi_gpu_samples_carve(s, bytes, out, &is_new_buffer));
        for (struct msi_vis_setup *p = s->setup; p && is_new_buffer; p = p->next) p->open_segment = -1;
        return MSI_OK;
    }
#endif
    return msi_vis_store_carve(s, bytes, out);
}

static int open_segment(msi_vis_store *s, struct msi_vis_setup *setup)
{
    msi_vis_segment *g;
    void *memory;
    MSI_TRY(msi_vis_store_next_segment(s, &g));
    const int64_t n_row = msi_vis_store_rows_of_segment(s, setup->n_chan), n = n_row * setup->n_chan * s->n_plane;
    const int64_t uvw = in_lines(UVW_BYTES * n_row), tag = s->tagged ? in_lines((int64_t)sizeof(uint64_t) * n_row) : 0,
                  weight = s->coordinates ? 0 : in_lines((int64_t)sizeof(float) * n);
    MSI_TRY(carve_segment(s, uvw + tag + weight + in_lines(msi_complex_bytes(s->precision) * n), &memory));
    char *at = memory;
    *g = (msi_vis_segment){.n_row_max = n_row, .n_chan = setup->n_chan, .freq_hz = setup->freq_hz};
    g->uvw_m = memory;
    if (tag) g->tag = (uint64_t *)(void *)(at + uvw);
    if (weight) g->weight = (float *)(void *)(at + uvw + tag);
    g->vis = at + uvw + tag + weight;
    setup->open_segment = s->n_segment++;
    return MSI_OK;
}

int msi_vis_store_take_rows(msi_vis_store *s, struct msi_vis_setup *setup, int64_t n_row, int64_t *segment,
                            int64_t *row, int64_t *n)
{
    if (setup->open_segment < 0 || s->segment[setup->open_segment].n_row == s->segment[setup->open_segment].n_row_max)
        MSI_TRY(open_segment(s, setup));
    msi_vis_segment *g = &s->segment[setup->open_segment];
    *segment = setup->open_segment;
    *row = g->n_row;
    *n = n_row < g->n_row_max - g->n_row ? n_row : g->n_row_max - g->n_row;
    g->n_row += *n;
    return MSI_OK;
}

/* ---- Weights ---------------------------------------------------------------------------------------------------- */

/* A segment's weights of a plane. */
typedef struct weight_part {
    double sum;
    float largest;
    int64_t count;
} weight_part;

static weight_part sum_segment_weights(const msi_vis_segment *s, int plane)
{
    const float *weight = s->weight + msi_segment_index(s, plane, 0, 0);
    double sum = 0;
    float largest = 0;
    int64_t count = 0;
#pragma omp simd reduction(+ : sum, count) reduction(max : largest)
    for (int64_t k = 0; k < s->n_row * s->n_chan; k++) {
        sum += (double)weight[k];
        largest = weight[k] > largest ? weight[k] : largest;
        count += weight[k] > 0;
    }
    return (weight_part){sum, largest, count};
}

void msi_vis_store_weights(const msi_vis_store *s, double *sum, double *largest, int64_t *count)
{
    enum { AT_ONCE = 512 };
    const int64_t n_segment = s->n_segment;
#ifdef MSI_HAVE_CUDA
    for (int p = 0; s->gpu && p < s->n_plane; p++) msi_gpu_samples_weights(s, p, &sum[p], &largest[p], &count[p]);
    if (s->gpu) return;
#endif
    for (int p = 0; p < s->n_plane; p++) {
        sum[p] = largest[p] = 0;
        count[p] = 0;
        for (int64_t first = 0; first < n_segment; first += AT_ONCE) {
            const int64_t n = n_segment - first < AT_ONCE ? n_segment - first : AT_ONCE;
            weight_part part[AT_ONCE];
            msi_progress_at(p * n_segment + first, s->n_plane * n_segment);
#pragma omp parallel for schedule(dynamic, 4)
            for (int64_t i = 0; i < n; i++) part[i] = sum_segment_weights(&s->segment[first + i], p);
            for (int64_t i = 0; i < n; i++) {
                sum[p] += part[i].sum;
                largest[p] = fmax(largest[p], (double)part[i].largest);
                count[p] += part[i].count;
            }
        }
    }
}

void msi_vis_store_band(const msi_vis_store *s, double *low_hz, double *high_hz)
{
    *low_hz = HUGE_VAL;
    *high_hz = 0;
    for (const struct msi_vis_setup *p = s->setup; p; p = p->next)
        for (int32_t c = 0; c < p->n_chan; c++) {
            *low_hz = fmin(*low_hz, p->freq_hz[c]);
            *high_hz = fmax(*high_hz, p->freq_hz[c]);
        }
    if (*high_hz == 0) *low_hz = 0;
}

enum { MOST_MOMENTS = 16 };

void msi_vis_store_moments(const msi_vis_store *s, double middle_hz, double half_hz, int n, double *moment)
{
    enum { AT_ONCE = 256 };
    for (int k = 0; k < n; k++) moment[k] = 0;
    for (int64_t first = 0; !s->gpu && first < s->n_segment; first += AT_ONCE) {
        const int64_t n_part = s->n_segment - first < AT_ONCE ? s->n_segment - first : AT_ONCE;
        double part[AT_ONCE][MOST_MOMENTS];
#pragma omp parallel for schedule(dynamic, 4)
        for (int64_t i = 0; i < n_part; i++) {
            const msi_vis_segment *g = &s->segment[first + i];
            for (int k = 0; k < n; k++) part[i][k] = 0;
            for (int32_t c = 0; c < g->n_chan; c++) {
                double sum = 0;
                for (int64_t row = 0; row < g->n_row; row++) sum += (double)g->weight[msi_segment_index(g, 0, row, c)];
                for (int k = 0; k < n; k++) {
                    part[i][k] += sum;
                    sum *= (g->freq_hz[c] - middle_hz) / half_hz;
                }
            }
        }
        for (int64_t i = 0; i < n_part; i++)
            for (int k = 0; k < n; k++) moment[k] += part[i][k];
    }
}

/* ---- Fetching --------------------------------------------------------------------------------------------------- */

/* Copy the next rows of a setup to the caller's block, from row `row` on. Returns the number of rows. */
static int64_t fetch_rows(const msi_vis_store *s, struct msi_vis_setup *setup, const msi_block_part *in, int64_t row,
                          msi_c64 *vis)
{
    while (setup->fetch_segment < s->n_segment && (s->segment[setup->fetch_segment].freq_hz != setup->freq_hz ||
                                                   setup->fetch_row == s->segment[setup->fetch_segment].n_row)) {
        setup->fetch_segment++;
        setup->fetch_row = 0;
    }
    if (setup->fetch_segment == s->n_segment) return 0;
    const msi_vis_segment *g = &s->segment[setup->fetch_segment];
    const msi_vis_block *b = in->block;
    int64_t n = g->n_row - setup->fetch_row < b->n_row - row ? g->n_row - setup->fetch_row : b->n_row - row;
#pragma omp parallel for schedule(static) collapse(2)
    for (int p = 0; p < s->n_plane; p++)
        for (int64_t i = 0; i < n; i++) {
            msi_c64 *to = vis + (p * b->n_row + row + i) * b->n_chan + in->first;
            int64_t from = msi_segment_index(g, p, setup->fetch_row + i, 0);
            if (s->precision == MSI_FP64) {
                memcpy(to, (const msi_c64 *)g->vis + from, sizeof *to * (size_t)in->n_chan);
                continue;
            }
            const msi_c32 *v = (const msi_c32 *)g->vis + from;
            for (int32_t c = 0; c < in->n_chan; c++) to[c] = (msi_c64){(double)v[c].re, (double)v[c].im};
        }
    setup->fetch_row += n;
    return n;
}

int msi_vis_store_fetch(msi_vis_store *s, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
    msi_vis_block b = {.n_row = n_row, .n_chan = n_chan, .n_plane = s->n_plane, .freq_hz = freq_hz};
    for (int32_t first = 0; first < n_chan; first += MSI_STORE_MAX_CHAN) {
        msi_block_part in = {&b, first, n_chan - first < MSI_STORE_MAX_CHAN ? n_chan - first : MSI_STORE_MAX_CHAN};
        struct msi_vis_setup *setup;
        MSI_TRY(msi_vis_store_setup(s, in.n_chan, freq_hz + first, &setup));
        for (int64_t row = 0, n; row < n_row; row += n) {
            n = fetch_rows(s, setup, &in, row, vis);
            if (!n) return msi_error_set(MSI_EINTERNAL, "more visibilities were fetched than added");
        }
    }
    return MSI_OK;
}

void msi_vis_store_rewind(msi_vis_store *s)
{
    for (struct msi_vis_setup *p = s->setup; p; p = p->next) p->fetch_segment = p->fetch_row = 0;
}

void msi_vis_store_zero(msi_vis_store *s, int plane)
{
    size_t vis_bytes = (size_t)msi_complex_bytes(s->precision);
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < s->n_segment; i++) {
        const msi_vis_segment *segment = &s->segment[i];
        memset((char *)segment->vis + (size_t)msi_segment_index(segment, plane, 0, 0) * vis_bytes, 0,
               (size_t)(segment->n_row * segment->n_chan) * vis_bytes);
    }
}

/* ---- Clearing --------------------------------------------------------------------------------------------------- */

/* Free samples on a GPU. */
static void free_gpu_samples(msi_vis_store *s)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_samples_free(s);
#else
    (void)s;
#endif
}

void msi_vis_store_clear(msi_vis_store *s)
{
    free_gpu_samples(s);
    struct msi_vis_arena **last = &s->spare;
    while (*last) last = &(*last)->next;
    *last = s->arena;
    s->arena = NULL;
    for (struct msi_vis_setup *p = s->setup; p; p = p->next) p->open_segment = -1;
    msi_vis_store_rewind(s);
    s->n_segment = s->n_sample = s->n_outside = 0;
    memset(s->sum_weight, 0, sizeof s->sum_weight);
    s->largest_weight = s->largest_jy = s->largest_product = 0;
    s->weight_scale = 1;
    s->w_min_lambda = HUGE_VAL;
    s->w_max_lambda = s->longest_lambda = 0;
}

void msi_vis_store_free(msi_vis_store *s)
{
    free_gpu_samples(s);
    free_arenas(s->arena);
    free_arenas(s->spare);
    for (struct msi_vis_setup *p = s->setup, *next; p; p = next) {
        next = p->next;
        msi_free(p);
    }
    msi_free(s->segment);
    msi_vis_intake_free(s->intake);
    memset(s, 0, sizeof *s);
}
