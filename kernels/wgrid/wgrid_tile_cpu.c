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
                            const msi_vis_store *store, const msi_buckets *buckets, int64_t n_plane)
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
    int64_t cells = n_plane * t->buffer_rows * t->buffer_pitch;
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

/* Adds a tile's buffer, or its double, to planes [low, high). */
static void flush_tile(const msi_tile_gridder *t, const msi_tile_planes *planes, int64_t u_first, int64_t v_first,
                       char *buffer, msi_c64 *wide, int64_t low, int64_t high)
{
    int64_t row = v_first - planes->v_origin, column = u_first - planes->u_origin,
            plane_cells = t->buffer_rows * t->buffer_pitch;
    /* No further than a footprint reaches: the cells beyond may be another thread's. */
    int64_t n_row = t->buffer_rows < planes->n_row - row ? t->buffer_rows : planes->n_row - row;
    int64_t n_cell = t->g->tile + t->g->width - 1;
    if (n_cell > planes->stride - column) n_cell = planes->stride - column;
    for (int64_t p = low; p < high; p++) {
        int64_t at = (p - low) * plane_cells;
        void *from = buffer + at * t->cell_bytes,
             *to = planes->plane[p % planes->n_ring] + (row * planes->stride + column) * t->cell_bytes;
        if (wide)
            t->bucket_simd->flush_wide(wide + at, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else if (t->fp32)
            t->bucket_simd->flush_f32(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
        else
            t->bucket_simd->flush_f64(from, n_row, n_cell, t->buffer_pitch, to, planes->stride);
    }
}

/* How many of the next runs, at least one, hold no more than `most` samples together; *n_sample is what they hold. */
static int64_t runs_within(const msi_run *run, int64_t n_run, int64_t most, int64_t *n_sample)
{
    int64_t n = 0;
    *n_sample = 0;
    while (n < n_run && (!n || *n_sample + run[n].n_chan <= most)) *n_sample += run[n++].n_chan;
    return n;
}

/* Whether a tile's samples of first planes [w0_begin, w0_end) are worth a buffer. */
static int is_crowded(const msi_tile_gridder *t, int64_t tile, int64_t n_run, int64_t w0_begin, int64_t w0_end)
{
    int64_t enough = t->buffer_rows * t->buffer_pitch / CELLS_FOR_SAMPLE, n_sample = 0;
    if (n_run >= enough) return 1;
    if (n_run * MSI_RUN_MAX_CHAN < enough) return 0;
    for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(t->g, w0, tile);
        for (int64_t i = start[0]; i < start[1]; i++) n_sample += t->buckets->run[i].n_chan;
    }
    return n_sample >= enough;
}

void msi_tile_grid(const msi_tile_gridder *t, const msi_tile_planes *planes, int image_plane, int64_t tile,
                   int64_t n_run, int64_t w0_begin, int64_t w0_end, int64_t low, int64_t high)
{
    const msi_wgrid_geometry *g = t->g;
    int fp32 = t->fp32;
    int64_t tu = tile % g->n_tile_u, tv = tile / g->n_tile_u;
    int64_t u_first = tu * g->tile - g->nu / 2 - g->width, v_first = tv * g->tile - g->nv / 2 - g->width;
    char *buffer = is_crowded(t, tile, n_run, w0_begin, w0_end) ? t->buffer[omp_get_thread_num()] : NULL;
    msi_c64 *wide = buffer && fp32 ? t->wide[omp_get_thread_num()] : NULL;
    int64_t buffer_plane = t->buffer_rows * t->buffer_pitch, in_buffer = 0;
    int widened = 0;
    for (int64_t w0 = w0_begin; w0 < w0_end; w0++) {
        const int64_t *start = t->buckets->start + msi_bucket_of(g, w0, tile);
        if (start[0] == start[1]) continue;
        msi_grid_target target = {.first_tap = w0 < low ? (int)(low - w0) : 0,
                                  .end_tap = w0 + g->w_width > high ? (int)(high - w0) : g->w_width};
        for (int k = target.first_tap; k < target.end_tap; k++)
            target.plane[k] = buffer ? buffer + (w0 + k - low) * buffer_plane * t->cell_bytes
                                     : planes->plane[(w0 + k) % planes->n_ring];
        target.stride = buffer ? t->buffer_pitch : planes->stride;
        target.u_origin = buffer ? u_first : planes->u_origin;
        target.v_origin = buffer ? v_first : planes->v_origin;
        for (int64_t i = start[0], n, n_sample = 0; i < start[1]; i += n) {
            n = start[1] - i;
            if (wide) n = runs_within(t->buckets->run + i, n, SAMPLES_IN_FLOAT - in_buffer, &n_sample);
            msi_span span = {g, t->store, t->taps, t->buckets->run + i, n, image_plane};
            (fp32 ? t->simd->grid_f32 : t->simd->grid_f64)(&span, &target);
            in_buffer += n_sample;
            if (in_buffer < SAMPLES_IN_FLOAT) continue;
            t->bucket_simd->widen((msi_c32 *)(void *)buffer, wide, (high - low) * buffer_plane);
            widened = 1;
            in_buffer = 0;
        }
    }
    if (!buffer) return;
    if (widened) t->bucket_simd->widen((msi_c32 *)(void *)buffer, wide, (high - low) * buffer_plane);
    flush_tile(t, planes, u_first, v_first, buffer, widened ? wide : NULL, low, high);
}
