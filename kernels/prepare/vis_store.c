/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/prepare/vis_store.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"

static const int64_t ARENA_BYTES = 64 << 20;

/* Channel list shared by segments, and the segment that is being filled. */
struct msi_vis_setup {
    struct msi_vis_setup *next;
    int32_t n_chan;
    int64_t open_segment; /* -1: none */
    double freq_hz[];
};

/* A piece of memory that segments are carved from: allocated, or mapped from an unlinked file. */
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
    int fd = mkstemp(name);
    if (fd < 0) {
        int rc = msi_error_set(MSI_EOUTPUT, "%s: cannot make a temporary file: %s", dir, strerror(errno));
        free(name);
        return rc;
    }
    unlink(name);
    free(name);
    int error = posix_fallocate(fd, 0, size);
    void *p = MAP_FAILED;
    if (!error) {
        p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) error = errno;
    }
    close(fd);
    if (error)
        return msi_error_set(MSI_EOUTPUT, "%s: cannot hold %.3f GB of visibilities that exceed the memory limit: %s",
                             dir, 1e-9 * (double)size, strerror(error));
    *base = p;
    return MSI_OK;
}

static int carve(msi_vis_store *s, int64_t bytes, void *out)
{
    bytes = (bytes + 63) & ~(int64_t)63;
    struct msi_vis_arena *a = s->arena;
    if (!a || a->used + bytes > a->size) {
        int64_t size = bytes > ARENA_BYTES ? bytes : ARENA_BYTES;
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

static int find_setup(msi_vis_store *s, int32_t n_chan, const double *freq_hz, struct msi_vis_setup **out)
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

static int open_segment(msi_vis_store *s, struct msi_vis_setup *setup)
{
    if (s->n_segment == s->segment_capacity) {
        int64_t capacity = s->segment_capacity ? 2 * s->segment_capacity : 256;
        msi_vis_segment *grown;
        MSI_TRY(msi_alloc(&grown, capacity, sizeof *grown, "visibility store"));
        if (s->n_segment) memcpy(grown, s->segment, sizeof *grown * (size_t)s->n_segment);
        msi_free(s->segment);
        s->segment = grown;
        s->segment_capacity = capacity;
    }
    if (s->n_segment >= (int64_t)1 << (32 - MSI_SEGMENT_SHIFT))
        return msi_error_set(MSI_ERANGE,
                             "more than 2^32 rows of visibilities in one image; image fewer at a time (-interval)");
    msi_vis_segment *g = &s->segment[s->n_segment];
    int64_t n = (int64_t)MSI_SEGMENT_ROWS * setup->n_chan * s->n_plane;
    g->n_row = 0;
    g->n_chan = setup->n_chan;
    g->freq_hz = setup->freq_hz;
    MSI_TRY(carve(s, (int64_t)sizeof(double) * 3 * MSI_SEGMENT_ROWS, &g->uvw_m));
    MSI_TRY(carve(s, (int64_t)sizeof(float) * n, &g->weight));
    MSI_TRY(carve(s, (int64_t)(s->precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64)) * n, &g->vis));
    setup->open_segment = s->n_segment++;
    return MSI_OK;
}

/* Copies one row's channels [first, first + n) of every plane; returns the number of samples kept. */
static int64_t copy_row(msi_vis_store *s, msi_vis_segment *g, const msi_vis_block *b, int64_t row, int32_t first)
{
    const double *uvw = b->uvw_m + 3 * row;
    double u = fabs(uvw[0]) / MSI_SPEED_OF_LIGHT, v = fabs(uvw[1]) / MSI_SPEED_OF_LIGHT;
    double w = fabs(uvw[2]) / MSI_SPEED_OF_LIGHT;
    double limit_hz = fmin(u > 0 ? s->u_limit_lambda / u : HUGE_VAL, v > 0 ? s->v_limit_lambda / v : HUGE_VAL);
    int64_t at = g->n_row, kept = 0;
    memcpy(g->uvw_m + 3 * at, uvw, 3 * sizeof *uvw);
    for (int32_t c = 0; c < g->n_chan; c++) {
        int used = 0;
        for (int p = 0; p < b->n_plane; p++) {
            int64_t from = ((int64_t)p * b->n_row + row) * b->n_chan + first + c;
            int64_t to = msi_segment_index(g, p, at, c);
            float weight = b->weight[from];
            used |= weight > 0;
            g->weight[to] = weight;
            if (s->precision == MSI_FP32) {
                msi_c32 x = {(float)b->vis[from].re, (float)b->vis[from].im};
                ((msi_c32 *)g->vis)[to] = x;
            } else {
                ((msi_c64 *)g->vis)[to] = b->vis[from];
            }
        }
        if (!used) continue;
        double freq = g->freq_hz[c];
        if (freq > limit_hz) {
            s->n_outside++;
            for (int p = 0; p < b->n_plane; p++) g->weight[msi_segment_index(g, p, at, c)] = 0;
            continue;
        }
        kept++;
        for (int p = 0; p < b->n_plane; p++) s->sum_weight[p] += (double)g->weight[msi_segment_index(g, p, at, c)];
        s->w_min_lambda = fmin(s->w_min_lambda, w * freq);
        s->w_max_lambda = fmax(s->w_max_lambda, w * freq);
    }
    g->n_row++;
    s->n_sample += kept;
    return kept;
}

int msi_vis_store_add(msi_vis_store *s, const msi_vis_block *b)
{
    if (b->n_plane != s->n_plane)
        return msi_error_set(MSI_EINTERNAL, "block of %d planes for a gridder of %d", b->n_plane, s->n_plane);
    for (int32_t first = 0; first < b->n_chan; first += MSI_STORE_MAX_CHAN) {
        int32_t n = b->n_chan - first < MSI_STORE_MAX_CHAN ? b->n_chan - first : MSI_STORE_MAX_CHAN;
        struct msi_vis_setup *setup;
        MSI_TRY(find_setup(s, n, b->freq_hz + first, &setup));
        for (int64_t row = 0; row < b->n_row; row++) {
            if (setup->open_segment < 0 || s->segment[setup->open_segment].n_row == MSI_SEGMENT_ROWS)
                MSI_TRY(open_segment(s, setup));
            msi_vis_segment *g = &s->segment[setup->open_segment];
            /* A row without a single sample is not kept: its place is written over by the next one. */
            if (!copy_row(s, g, b, row, first)) g->n_row--;
        }
    }
    return MSI_OK;
}

void msi_vis_store_free(msi_vis_store *s)
{
    for (struct msi_vis_arena *a = s->arena, *next; a; a = next) {
        next = a->next;
        if (a->mapped)
            munmap(a->base, (size_t)a->size);
        else
            msi_free(a->base);
        msi_free(a);
    }
    for (struct msi_vis_setup *p = s->setup, *next; p; p = next) {
        next = p->next;
        msi_free(p);
    }
    msi_free(s->segment);
    memset(s, 0, sizeof *s);
}
