/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/towers/tower_stack_cpu.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* Rows of 2^k cells would meet in few sets of a cache; and a footprint's vectors reach so far beyond a row's end. */
enum { ROW_PAD = MSI_TAP_PAD };

/* No item has much more than this part of all runs, nor need it have fewer than so many. */
enum { PARTS = 64, LEAST_RUNS = 1024 };

int64_t msi_tower_plane_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    return (int64_t)towers->size * (towers->size + ROW_PAD) * msi_complex_bytes(plan->precision);
}

static int64_t screen_cells(const msi_tower_plan *towers)
{
    return (int64_t)(towers->size / 2 + 1) * towers->size;
}

int64_t msi_tower_stacks_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread)
{
    return n_thread * (plan->grid.w_width + 1) * msi_tower_plane_bytes(plan, towers) +
           (towers->n_plane + 1) / 2 * screen_cells(towers) * msi_complex_bytes(plan->precision);
}

int msi_tower_stacks_create(msi_tower_stacks *s, const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    memset(s, 0, sizeof *s);
    int64_t size = towers->size, n_plane = plan->grid.w_width + 1;
    s->plan = plan;
    s->towers = towers;
    s->simd = msi_wgrid_simd();
    s->fp32 = plan->precision == MSI_FP32;
    s->n_thread = omp_get_max_threads();
    s->cell_bytes = msi_complex_bytes(plan->precision);
    s->pitch = size + ROW_PAD;
    MSI_TRY(msi_fft1d_create_batch(&s->row, size, 1, 1, size, 0, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->columns, size, size, s->pitch, 1, 0, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->row_back, size, 1, 1, size, 1, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->columns_back, size, size, s->pitch, 1, 1, plan->precision));
    MSI_TRY(msi_alloc(&s->plane, s->n_thread * n_plane, sizeof *s->plane, "subgrids"));
    for (int64_t i = 0; i < s->n_thread * n_plane; i++)
        MSI_TRY(msi_alloc(&s->plane[i], size * s->pitch, (size_t)s->cell_bytes, "subgrid"));
    int n_screen = (towers->n_plane + 1) / 2;
    MSI_TRY(msi_alloc(&s->screen, n_screen, sizeof *s->screen, "w-screens"));
    for (int k = 0; k < n_screen; k++)
        MSI_TRY(msi_alloc(&s->screen[k], screen_cells(towers), (size_t)s->cell_bytes, "w-screen"));
#pragma omp parallel for schedule(dynamic, 1)
    for (int k = 0; k < n_screen; k++) msi_tower_screen(plan, towers, k, s->screen[k]);
    return MSI_OK;
}

void msi_tower_stacks_free(msi_tower_stacks *s)
{
    int64_t n_plane = s->plan ? s->plan->grid.w_width + 1 : 0;
    for (int64_t i = 0; s->plane && i < s->n_thread * n_plane; i++) msi_free(s->plane[i]);
    for (int k = 0; s->screen && k < (s->towers->n_plane + 1) / 2; k++) msi_free(s->screen[k]);
    msi_free(s->plane);
    msi_free(s->screen);
    msi_fft1d_free(s->row);
    msi_fft1d_free(s->columns);
    msi_fft1d_free(s->row_back);
    msi_fft1d_free(s->columns_back);
    memset(s, 0, sizeof *s);
}

char **msi_tower_ring(const msi_tower_stacks *s)
{
    return s->plane + omp_get_thread_num() * (s->plan->grid.w_width + 1);
}

/* ---- Transforms ------------------------------------------------------------------------------------------------- */

static char *row_of(const msi_tower_stacks *s, const char *plane, int64_t row)
{
    return (char *)plane + row * s->pitch * s->cell_bytes;
}

/* Mark rows that samples of some rows of tiles touch, and one on either side: see msi_grid_source. */
static void rows_of_tiles(const msi_tower_stacks *s, uint32_t tile_rows, uint8_t *touched)
{
    const msi_wgrid_geometry *g = &s->plan->grid;
    memset(touched, 0, (size_t)s->towers->size);
    for (int64_t t = 0; t < s->towers->core / g->tile; t++)
        if (tile_rows >> t & 1)
            memset(touched + s->towers->margin + t * g->tile - 1, 1, (size_t)g->tile + (size_t)g->width + 1);
}

static void run_rows(const msi_tower_stacks *s, const msi_fft1d *fft, char *plane, const uint8_t *which)
{
    for (int64_t r = 0; r < s->towers->size; r++)
        if (!which || which[r]) msi_fft1d_run(fft, row_of(s, plane, r));
}

/* Find row r of the screen of plane k of a tower, and the sign of its imaginary part: see msi_tower_screen. */
static const char *screen_row(const msi_tower_stacks *s, int64_t k, int64_t r, int *sign)
{
    int64_t mirrored = s->towers->n_plane - 1 - k, size = s->towers->size;
    *sign = k <= mirrored ? 1 : -1;
    return s->screen[k <= mirrored ? k : mirrored] + (r <= size / 2 ? r : size - r) * size * s->cell_bytes;
}

void msi_tower_gather(const msi_tower_stacks *s, char *plane, uint32_t tile_rows, int64_t k, char *sum)
{
    uint8_t touched[MSI_TOWER_MAX_SIZE];
    int64_t size = s->towers->size;
    int sign;
    rows_of_tiles(s, tile_rows, touched);
    run_rows(s, s->row, plane, touched);
    msi_fft1d_run(s->columns, plane);
    for (int64_t r = 0; r < size; r++) {
        void *cell = row_of(s, plane, r), *to = row_of(s, sum, r);
        const void *screen = screen_row(s, k, r, &sign);
        if (s->fp32)
            s->simd->gather_f32(cell, screen, (float)sign, size, to);
        else
            s->simd->gather_f64(cell, screen, sign, size, to);
    }
}

void msi_tower_close(const msi_tower_stacks *s, char *sum)
{
    msi_fft1d_run(s->columns_back, sum);
    run_rows(s, s->row_back, sum, NULL);
}

void msi_tower_open(const msi_tower_stacks *s, char *cut)
{
    run_rows(s, s->row, cut, NULL);
    msi_fft1d_run(s->columns, cut);
}

void msi_tower_spread(const msi_tower_stacks *s, const char *open, uint32_t tile_rows, int64_t k, char *plane)
{
    uint8_t touched[MSI_TOWER_MAX_SIZE];
    int64_t size = s->towers->size;
    int sign;
    for (int64_t r = 0; r < size; r++) {
        void *to = row_of(s, plane, r);
        const void *cell = row_of(s, open, r), *screen = screen_row(s, k, r, &sign);
        if (s->fp32)
            s->simd->turn_f32(cell, screen, (float)-sign, size, to);
        else
            s->simd->turn_f64(cell, screen, -sign, size, to);
    }
    rows_of_tiles(s, tile_rows, touched);
    msi_fft1d_run(s->columns_back, plane);
    run_rows(s, s->row_back, plane, touched);
}

/* ---- Items ------------------------------------------------------------------------------------------------------ */

int64_t msi_tower_items_most(const msi_tower_stacks *s)
{
    return s->towers->n_sub_u * s->towers->n_sub_v + PARTS;
}

static int most_runs_first(const void *a, const void *b)
{
    const msi_tower_item *x = a, *y = b;
    if (x->n_run != y->n_run) return x->n_run > y->n_run ? -1 : 1;
    if (x->sv != y->sv) return x->sv < y->sv ? -1 : 1;
    if (x->su != y->su) return x->su < y->su ? -1 : 1;
    return (x->w0_begin > y->w0_begin) - (x->w0_begin < y->w0_begin);
}

int64_t msi_tower_items(const msi_tower_stacks *s, const msi_buckets *buckets, int64_t tower, msi_tower_item *item)
{
    const msi_wgrid_geometry *g = &s->plan->grid;
    const msi_tower_plan *t = s->towers;
    int64_t n_w0 = g->n_w - g->w_width + 1, edge = t->core / g->tile, n = 0;
    int64_t begin = tower * t->height, end = begin + t->height < n_w0 ? begin + t->height : n_w0;
    int64_t enough = buckets->n_run / PARTS > LEAST_RUNS ? buckets->n_run / PARTS : LEAST_RUNS;
    for (int64_t sv = 0; sv < t->n_sub_v; sv++)
        for (int64_t su = 0; su < t->n_sub_u; su++) {
            const int64_t core = (tower * t->n_sub_v + sv) * t->n_sub_u + su;
            if (core < t->first_core || core >= t->end_core) continue;
            msi_tower_item next = {.su = su, .sv = sv, .w0_begin = begin};
            for (int64_t w0 = begin; w0 < end; w0++) {
                for (int64_t tv = sv * edge; tv < (sv + 1) * edge; tv++)
                    next.n_run += msi_tower_tile_runs(g, buckets, w0, su * edge, tv, edge);
                if (!next.n_run) next.w0_begin = w0 + 1;
                if (next.n_run < enough) continue;
                next.w0_end = w0 + 1;
                item[n++] = next;
                next = (msi_tower_item){.su = su, .sv = sv, .w0_begin = w0 + 1};
            }
            next.w0_end = end;
            if (next.n_run) item[n++] = next;
        }
    qsort(item, (size_t)n, sizeof *item, most_runs_first);
    return n;
}
