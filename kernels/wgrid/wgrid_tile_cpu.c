/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_tile_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"

/* A tile gets its own buffer from one sample for this many of its cells on: adding the buffer to the planes costs about
 * as much as gridding so many (measured, widths 5 to 8). */
enum { CELLS_FOR_SAMPLE = 16 };

/* Samples that a float buffer takes before it is emptied into the double one. */
enum { SAMPLES_IN_FLOAT = 512 };

int msi_tile_gridder_create(msi_tile_gridder *t, const msi_wgrid_plan *plan, const void *taps,
                            const msi_vis_store *store, const msi_buckets *buckets, int64_t n_w_plane)
{
    const msi_wgrid_geometry *g = &plan->grid;
    *t = (msi_tile_gridder){.g = g,
                            .simd = msi_wgrid_simd(),
                            .bucket_simd = msi_bucket_simd(),
                            .store = store,
                            .buckets = buckets,
                            .taps = taps,
                            .fp32 = plan->precision == MSI_FP32,
                            .n_thread = omp_get_max_threads(),
                            .cell_bytes = msi_complex_bytes(plan->precision),
                            .buffer_rows = g->tile + g->width,
                            .buffer_pitch = (g->tile + g->width + 7) / 8 * 8 + 8};
    int64_t cells = n_w_plane * t->buffer_rows * t->buffer_pitch;
    MSI_TRY(msi_alloc(&t->buffer, t->n_thread, sizeof *t->buffer, "tile buffers"));
    MSI_TRY(msi_alloc(&t->wide, t->n_thread, sizeof *t->wide, "tile buffers"));
    for (int i = 0; i < t->n_thread; i++) {
        MSI_TRY(msi_alloc(&t->buffer[i], cells, (size_t)t->cell_bytes, "tile buffer"));
        if (t->fp32) MSI_TRY(msi_alloc(&t->wide[i], cells, sizeof **t->wide, "tile buffer"));
    }
    return MSI_OK;
}

void msi_tile_gridder_free(msi_tile_gridder *t)
{
    for (int i = 0; i < t->n_thread; i++) {
        if (t->buffer) msi_free(t->buffer[i]);
        if (t->wide) msi_free(t->wide[i]);
    }
    msi_free(t->buffer);
    msi_free(t->wide);
    memset(t, 0, sizeof *t);
}

/* A thread's buffer for the tile that it grids. */
typedef struct tile_buffer {
    char *cell;               /* NULL: the tile's samples go to the planes at once */
    msi_c64 *wide;            /* in double; NULL in fp64 */
    int widened;              /* wide holds something */
    int64_t u_first, v_first; /* coordinates of the first cell */
} tile_buffer;

/* Add a tile's buffer, or its double, to the planes of a step. */
static void flush_tile(const msi_tile_gridder *t, const msi_tile_planes *planes, const tile_buffer *b,
                       const msi_ring_step *step)
{
    int64_t row = b->v_first - planes->v_origin, column = b->u_first - planes->u_origin,
            plane_cells = t->buffer_rows * t->buffer_pitch;
    /* No further than a footprint reaches: the cells beyond may be another thread's. */
    int64_t n_row = t->buffer_rows < planes->n_row - row ? t->buffer_rows : planes->n_row - row;
    int64_t n_cell = t->g->tile + t->g->width - 1;
    if (n_cell > planes->stride - column) n_cell = planes->stride - column;
    for (int64_t p = step->low; p < step->high; p++) {
        int64_t at = (p - step->low) * plane_cells;
        void *from = b->cell + at * t->cell_bytes,
             *to = planes->plane[p % planes->n_ring] + (row * planes->stride + column) * t->cell_bytes;
        if (b->widened)
            t->bucket_simd->flush_wide(b->wide + at, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else if (t->fp32)
            t->bucket_simd->flush_f32(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else
            t->bucket_simd->flush_f64(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
    }
}

/* Count the next runs, at least one, that hold no more than `most` samples together; *n_sample is what they hold. */
static int64_t runs_within(const msi_run *run, int64_t n_run, int64_t most, int64_t *n_sample)
{
    int64_t n = 0;
    *n_sample = 0;
    while (n < n_run && (!n || *n_sample + run[n].n_chan <= most)) *n_sample += run[n++].n_chan;
    return n;
}

/* Tell whether a tile's samples of a step are worth a buffer. */
static int is_crowded(const msi_tile_gridder *t, const msi_tile_work *work, const msi_ring_step *step)
{
    int64_t enough = t->buffer_rows * t->buffer_pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (work->n_run >= enough) return 1;
    if (work->n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(t->g, w0, work->tile);
        for (int64_t i = start[0]; i < start[1]; i++) n_sample += t->buckets->run[i].n_chan;
    }
    return n_sample >= enough;
}

/* Point the w taps of samples of first plane w0 at the buffer's planes, or at those of the step. */
static msi_grid_target target_of(const msi_tile_gridder *t, const msi_tile_planes *planes, const tile_buffer *b,
                                 const msi_ring_step *step, int64_t w0)
{
    const int w_width = t->g->w_width;
    msi_grid_target target = {.first_tap = w0 < step->low ? (int)(step->low - w0) : 0,
                              .end_tap = w0 + w_width > step->high ? (int)(step->high - w0) : w_width,
                              .stride = b->cell ? t->buffer_pitch : planes->stride,
                              .u_origin = b->cell ? b->u_first : planes->u_origin,
                              .v_origin = b->cell ? b->v_first : planes->v_origin};
    for (int k = target.first_tap; k < target.end_tap; k++)
        target.plane[k] = b->cell ? b->cell + (w0 + k - step->low) * t->buffer_rows * t->buffer_pitch * t->cell_bytes
                                  : planes->plane[(w0 + k) % planes->n_ring];
    return target;
}

static void widen_tile(const msi_tile_gridder *t, tile_buffer *b, const msi_ring_step *step)
{
    t->bucket_simd->widen((msi_c32 *)(void *)b->cell, b->wide,
                          (step->high - step->low) * t->buffer_rows * t->buffer_pitch);
    b->widened = 1;
}

void msi_tile_grid(const msi_tile_gridder *t, const msi_tile_planes *planes, int image_plane, const msi_tile_work *work,
                   const msi_ring_step *step)
{
    const msi_wgrid_geometry *g = t->g;
    const int thread = omp_get_thread_num(), crowded = is_crowded(t, work, step);
    tile_buffer b = {.cell = crowded ? t->buffer[thread] : NULL,
                     .wide = crowded && t->fp32 ? t->wide[thread] : NULL,
                     .u_first = work->tile % g->n_tile_u * g->tile - g->nu / 2 - g->width,
                     .v_first = work->tile / g->n_tile_u * g->tile - g->nv / 2 - g->width};
    int64_t in_float = 0; /* samples in the buffer that its double has not */
    for (int64_t w0 = step->w0_begin; w0 < step->w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(g, w0, work->tile);
        if (start[0] == start[1]) continue;
        const msi_grid_target target = target_of(t, planes, &b, step, w0);
        for (int64_t i = start[0], n, n_sample = 0; i < start[1]; i += n) {
            n = start[1] - i;
            if (b.wide) n = runs_within(t->buckets->run + i, n, SAMPLES_IN_FLOAT - in_float, &n_sample);
            msi_span span = {g, t->store, t->taps, t->buckets->run + i, n, image_plane};
            (t->fp32 ? t->simd->grid_f32 : t->simd->grid_f64)(&span, &target);
            in_float += n_sample;
            if (in_float < SAMPLES_IN_FLOAT) continue;
            widen_tile(t, &b, step);
            in_float = 0;
        }
    }
    if (!b.cell) return;
    if (b.widened) widen_tile(t, &b, step);
    flush_tile(t, planes, &b, step);
}
