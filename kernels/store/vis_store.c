/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/store/vis_store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/store/vis_intake.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/store/gpu_samples.h"
#endif

/* Arenas double from the first size to the second: a small store stays small. From HUGE_PAGE on they fill huge pages,
 * with what msi_alloc puts in front. */
static const int64_t FIRST_ARENA_BYTES = 256 << 10, LARGEST_ARENA_BYTES = 64 << 20;
enum { HUGE_PAGE = 2 << 20, IN_FRONT = 64 };

/* Segments of many channels have fewer rows, to be about this long. */
static const int64_t SEGMENT_BYTES = 2 << 20;

/* An arena is a piece of memory that segments are carved from: allocated, or mapped from an unlinked file. */
struct msi_vis_arena {
    struct msi_vis_arena *next;
    char *base;
    int64_t size, used;
    int mapped;
};

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

/* Reserve a file's blocks. A signal ends a call that has begun; the program's own stop the run, a caller's timer does
 * not. */
static int reserve(int fd, int64_t size)
{
    int error;
    do error = posix_fallocate(fd, 0, size);
    while (error == EINTR && !msi_interrupt_signal());
    return error;
}

/* The file is unlinked at once: whatever ends the process, nothing is left. Its blocks are reserved before they are
 * mapped, since a full disk met by a store to the mapping would be a SIGBUS. */
static int map_file(const msi_vis_store *s, int64_t size, char **base)
{
    const char *dir = s->temp_dir ? s->temp_dir : getenv("TMPDIR");
    if (!dir || !*dir) dir = "/tmp";
    size_t length = strlen(dir) + sizeof "/msimage-store-XXXXXX";
    char *name = malloc(length);
    if (!name) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    snprintf(name, length, "%s/msimage-store-XXXXXX", dir);
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        int rc = msi_error_about(
            msi_error_set(MSI_EOUTPUT, "temp_dir %s: cannot make a temporary file: %s", dir, strerror(errno)),
            "temp_dir");
        free(name);
        return rc;
    }
    unlink(name);
    free(name);
    int error = reserve(fd, size);
    void *p = MAP_FAILED;
    if (!error) {
        p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) error = errno;
    }
    close(fd);
    if (error == EINTR) return msi_interrupt_check();
    if (error)
        return msi_error_about(
            msi_error_set(MSI_EOUTPUT,
                          "temp_dir %s: cannot hold %.3f GB of visibilities that exceed the memory limit: %s", dir,
                          1e-9 * (double)size, strerror(error)),
            "temp_dir");
    *base = p;
    return MSI_OK;
}

/* Take a spare piece of at least so many bytes into use; NULL where there is none. */
static struct msi_vis_arena *reuse(msi_vis_store *s, int64_t bytes)
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

/* Choose the size of the arena that follows one, or none, and is to hold so many bytes. */
static int64_t next_size(const struct msi_vis_arena *before, int64_t bytes)
{
    int64_t size = before ? 2 * before->size : FIRST_ARENA_BYTES;
    if (size > LARGEST_ARENA_BYTES) size = LARGEST_ARENA_BYTES;
    if (size < bytes) size = bytes;
    if (size < HUGE_PAGE - IN_FRONT) return size;
    return (size + IN_FRONT + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE - IN_FRONT;
}

static int carve(msi_vis_store *s, int64_t bytes, void *out)
{
    bytes = (bytes + 63) & ~(int64_t)63;
    struct msi_vis_arena *a = s->arena;
    if (!a || a->used + bytes > a->size) a = reuse(s, bytes);
    if (!a) {
        const int64_t size = next_size(s->arena, bytes);
        MSI_TRY(msi_alloc(&a, 1, sizeof *a, "visibility store"));
        a->size = size;
        a->mapped = s->memory_budget && s->bytes_memory + size > s->memory_budget;
        int rc = a->mapped ? map_file(s, size, &a->base) : msi_alloc(&a->base, size, 1, "visibility store");
        if (rc) {
            msi_free(a);
            return rc;
        }
        *(a->mapped ? &s->bytes_file : &s->bytes_memory) += size;
        a->next = s->arena;
        s->arena = a;
    }
    *(void **)out = a->base + a->used;
    a->used += bytes;
    return MSI_OK;
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

/* Return the bytes of a sample in all planes: its visibilities, and its weights but in a store of coordinates. */
static int64_t sample_bytes(const msi_vis_store *s)
{
    return s->n_plane * (msi_complex_bytes(s->precision) + (s->coordinates ? 0 : (int64_t)sizeof(float)));
}

enum { UVW_BYTES = 3 * sizeof(double) };

int64_t msi_vis_store_bytes(const msi_vis_store *s, int64_t n_sample, int64_t n_row)
{
    return n_sample * sample_bytes(s) + n_row * UVW_BYTES;
}

int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan)
{
    const int64_t suits = SEGMENT_BYTES / msi_vis_store_bytes(s, n_chan, 1);
    return suits > MSI_SEGMENT_ROWS ? MSI_SEGMENT_ROWS : suits < 1 ? 1 : suits;
}

int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out)
{
    if (s->n_segment == s->segment_capacity) {
        int64_t capacity = s->segment_capacity ? 2 * s->segment_capacity : 256;
        MSI_TRY(msi_grow(&s->segment, s->n_segment, capacity, sizeof *s->segment, "visibility store"));
        s->segment_capacity = capacity;
    }
    if (s->n_segment >= (int64_t)1 << (32 - MSI_SEGMENT_SHIFT))
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "n_row: a store holds 2^32 rows of visibilities, and more came"), "n_row");
    *out = &s->segment[s->n_segment];
    return MSI_OK;
}

static int open_segment(msi_vis_store *s, struct msi_vis_setup *setup)
{
    msi_vis_segment *g;
    MSI_TRY(msi_vis_store_next_segment(s, &g));
    g->n_row_max = msi_vis_store_rows_of_segment(s, setup->n_chan);
    int64_t n = g->n_row_max * setup->n_chan * s->n_plane;
    g->n_row = 0;
    g->n_chan = setup->n_chan;
    g->freq_hz = setup->freq_hz;
    MSI_TRY(carve(s, UVW_BYTES * g->n_row_max, &g->uvw_m));
    g->weight = NULL;
    if (!s->coordinates) MSI_TRY(carve(s, (int64_t)sizeof(float) * n, &g->weight));
    MSI_TRY(carve(s, msi_complex_bytes(s->precision) * n, &g->vis));
    setup->open_segment = s->n_segment++;
    return MSI_OK;
}

int msi_vis_store_reserve(msi_vis_store *s, struct msi_vis_setup *setup, int64_t n_row, int64_t *segment, int64_t *row,
                          int64_t *n)
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

/* Copy the next rows of a setup to rows from `row` on of the caller's block. Returns how many. */
static int64_t fetch_rows(const msi_vis_store *s, struct msi_vis_setup *setup, const msi_vis_range *in, int64_t row,
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
        msi_vis_range in = {&b, first, n_chan - first < MSI_STORE_MAX_CHAN ? n_chan - first : MSI_STORE_MAX_CHAN};
        struct msi_vis_setup *setup;
        MSI_TRY(msi_vis_store_setup(s, in.n_chan, freq_hz + first, &setup));
        for (int64_t row = 0, n; row < n_row; row += n) {
            n = fetch_rows(s, setup, &in, row, vis);
            if (!n) return msi_error_set(MSI_EINTERNAL, "more visibilities fetched than were added");
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

/* Free what lies on a GPU. */
static void free_far(msi_vis_store *s)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_samples_free(s);
#else
    (void)s;
#endif
}

void msi_vis_store_clear(msi_vis_store *s)
{
    free_far(s);
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

void msi_vis_store_free(msi_vis_store *s)
{
    free_far(s);
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
