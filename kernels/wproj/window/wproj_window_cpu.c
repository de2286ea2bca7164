/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A window of the grid, as wide as the widest kernel, stands for the registers that hold it on a GPU: cell (u, v) has
 * the place (u mod width, v mod width), so that moving the window exchanges the rows and columns that it leaves for
 * those that it reaches, and nothing else moves. It moves no further than a footprint asks.
 *
 * Source: Romein 2012 section 4.
 */
#include "kernels/wproj/window/wproj_window_cpu.h"

#include "kernels/wproj/job/wproj_reference.h"

typedef struct window {
    const msi_wproj_cells *cells; /* the grid below the window */
    int fp32, loads;              /* loads: cells are read when the window reaches them; else added to when it leaves */
    int32_t width;
    int64_t u, v;  /* its first cell */
    int has_place; /* 0 before the first sample */
    msi_c64 *held; /* [width][width] by place */
} window;

int64_t msi_wproj_window_bytes(int32_t half_max)
{
    int64_t width = msi_wkernel_taps(half_max);
    return width * width * (int64_t)sizeof(msi_c64);
}

static msi_c64 *place_of(const window *w, int64_t u, int64_t v)
{
    return w->held + msi_wproj_wrap(v, w->width) * w->width + msi_wproj_wrap(u, w->width);
}

/* Find a cell's element, -1 outside: the window may reach over the cells' edge, where no footprint does. */
static int64_t element_of(const window *w, int64_t u, int64_t v)
{
    const msi_wproj_cells *c = w->cells;
    int64_t column = u - c->u_origin, row = v - c->v_origin;
    if (w->loads && (column < 0 || row < 0 || column >= c->n_u || row >= c->n_v)) return -1;
    return row * c->stride + column;
}

static void enter(window *w, int64_t u, int64_t v)
{
    int64_t at = w->loads ? element_of(w, u, v) : -1;
    *place_of(w, u, v) = at < 0 ? (msi_c64){0, 0} : msi_wproj_cell_get(w->cells->cells, at, w->fp32);
}

static void leave(const window *w, int64_t u, int64_t v)
{
    msi_c64 sum = *place_of(w, u, v);
    if (w->loads || (sum.re == 0 && sum.im == 0)) return;
    msi_wproj_cell_add(w->cells->cells, element_of(w, u, v), w->fp32, sum);
}

/* Enter or leave all cells of the window, or those alone that a window at (u, v) does not have. */
static void each_cell_outside(window *w, int64_t u, int64_t v, int all, int entering)
{
    for (int64_t y = w->v; y < w->v + w->width; y++)
        for (int64_t x = w->u; x < w->u + w->width; x++) {
            int shared = x >= u && x < u + w->width && y >= v && y < v + w->width;
            if (shared && !all) continue;
            if (entering)
                enter(w, x, y);
            else
                leave(w, x, y);
        }
}

/* Find the window's first cell after the least movement from `from` that takes in first .. first + taps - 1. */
static int64_t moved(int64_t from, int32_t width, int64_t first, int32_t taps)
{
    return first < from ? first : first + taps > from + width ? first + taps - width : from;
}

/* Move the window no further than the footprint asks. */
static void move_to(window *w, int64_t first_u, int64_t first_v, int32_t taps)
{
    int64_t old_u = w->u, old_v = w->v, u = moved(old_u, w->width, first_u, taps);
    int64_t v = moved(old_v, w->width, first_v, taps);
    if (!w->has_place) {
        w->u = first_u;
        w->v = first_v;
        w->has_place = 1;
        each_cell_outside(w, 0, 0, 1, 1);
        return;
    }
    if (u == old_u && v == old_v) return;
    each_cell_outside(w, u, v, 0, 0);
    w->u = u;
    w->v = v;
    each_cell_outside(w, old_u, old_v, 0, 1);
}

static void grid_sample(const msi_wproj_span *s, window *w, const msi_wproj_place *p, msi_c64 value)
{
    int32_t half = s->kernels->half[p->plane];
    move_to(w, p->u - half, p->v - half, msi_wkernel_taps(half));
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 x = msi_c64_times(msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv), value);
            msi_c64 *cell = place_of(w, p->u + tu, p->v + tv);
            cell->re += x.re;
            cell->im += x.im;
        }
}

static msi_c64 degrid_sample(const msi_wproj_span *s, window *w, const msi_wproj_place *p)
{
    int32_t half = s->kernels->half[p->plane];
    msi_c64 sum = {0, 0};
    move_to(w, p->u - half, p->v - half, msi_wkernel_taps(half));
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, p, tu, tv);
            msi_c64 x = msi_c64_times((msi_c64){tap.re, -tap.im}, *place_of(w, p->u + tu, p->v + tv));
            sum.re += x.re;
            sum.im += x.im;
        }
    return sum;
}

static void run_span(const msi_wproj_span *s, const msi_wproj_cells *cells, int fp32, int degrids)
{
    window w = {.cells = cells,
                .fp32 = fp32,
                .loads = degrids,
                .width = msi_wkernel_taps(s->kernels->half_max),
                .held = s->scratch};
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++) {
            msi_wproj_place p = msi_wproj_reference_place(s, segment, row, c);
            if (degrids)
                msi_wproj_reference_store(s, segment, row, c, &p, degrid_sample(s, &w, &p));
            else
                grid_sample(s, &w, &p, msi_wproj_reference_value(s, segment, row, c, &p));
        }
    }
    if (w.has_place && !degrids) each_cell_outside(&w, 0, 0, 1, 0);
}

void msi_wproj_window_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    run_span(span, target, 1, 0);
}

void msi_wproj_window_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    run_span(span, target, 0, 0);
}

void msi_wproj_window_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    run_span(span, source, 1, 1);
}

void msi_wproj_window_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    run_span(span, source, 0, 1);
}
