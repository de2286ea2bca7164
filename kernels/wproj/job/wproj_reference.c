/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>

#include "kernels/method/simd.h"
#include "kernels/wproj/job/wproj_simd.h"

extern const msi_wproj_simd_table msi_wproj_simd_table_base, msi_wproj_simd_table_avx2, msi_wproj_simd_table_avx512;

const msi_wproj_simd_table *msi_wproj_simd(void)
{
    static const msi_wproj_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_wproj_simd_table);
    return table[msi_simd_best()];
}

static msi_c64 element(const msi_wkernel_set *k, int64_t at)
{
    if (k->precision == MSI_FP64) return ((const msi_c64 *)k->table)[at];
    msi_c32 x = ((const msi_c32 *)k->table)[at];
    return (msi_c64){(double)x.re, (double)x.im};
}

/* Look up the kernel at one pair of sub-offsets. */
static msi_c64 at_offsets(const msi_wkernel_set *k, int32_t plane, int32_t sub_u, int32_t sub_v, int32_t tu, int32_t tv)
{
    int32_t half = k->half[plane], os = k->oversample;
    if (k->form == MSI_WKERNEL_FULL) {
        int64_t first = msi_wkernel_square(k->offset_u[plane], half, os, sub_u, sub_v);
        return element(k, first + (int64_t)(tv + half) * msi_wkernel_taps(half) + tu + half);
    }
    return msi_c64_times(element(k, msi_wkernel_row(k->offset_u[plane], half, os, sub_u) + tu + half),
                         element(k, msi_wkernel_row(k->offset_v[plane], half, os, sub_v) + tv + half));
}

msi_c64 msi_wproj_reference_tap(const msi_wproj_geometry *g, const msi_wkernel_set *k, const msi_wproj_place *p,
                                int32_t tu, int32_t tv)
{
    msi_c64 sum = {0, 0};
    for (int i = 0; i < (g->linear ? 4 : 1); i++) {
        int u = i & 1, v = i >> 1;
        double part = (u ? p->frac_u : 1 - p->frac_u) * (v ? p->frac_v : 1 - p->frac_v);
        msi_c64 x = at_offsets(k, p->plane, p->sub_u + u, p->sub_v + v, tu, tv);
        sum.re += part * x.re;
        sum.im += part * x.im;
    }
    if (p->conjugate_kernel) sum.im = -sum.im;
    return sum;
}

/* Compute exp(-2 pi i turns) */
static msi_c64 turn(double turns)
{
    return (msi_c64){cos(2 * MSI_PI * turns), -sin(2 * MSI_PI * turns)};
}

static msi_c64 visibility(const msi_vis_store *store, const msi_vis_segment *segment, int64_t at)
{
    if (store->precision == MSI_FP64) return ((const msi_c64 *)segment->vis)[at];
    msi_c32 v = ((const msi_c32 *)segment->vis)[at];
    return (msi_c64){(double)v.re, (double)v.im};
}

msi_c64 msi_wproj_reference_value(const msi_wproj_span *s, const msi_vis_segment *segment, int64_t row, int32_t chan,
                                  const msi_wproj_place *p)
{
    int64_t at = msi_segment_index(segment, s->image_plane < 0 ? 0 : s->image_plane, row, chan);
    double weight = (double)segment->weight[at];
    msi_c64 v = {1, 0};
    if (s->image_plane >= 0) v = visibility(s->store, segment, at);
    if (p->conjugate_vis) v.im = -v.im;
    return msi_c64_times((msi_c64){weight * v.re, weight * v.im}, turn(p->turns));
}

void msi_wproj_reference_store(const msi_wproj_span *s, const msi_vis_segment *segment, int64_t row, int32_t chan,
                               const msi_wproj_place *p, msi_c64 sum)
{
    sum = msi_c64_times(sum, turn(-p->turns));
    if (p->conjugate_vis) sum.im = -sum.im;
    int64_t at = msi_segment_index(segment, s->image_plane, row, chan);
    if (s->store->precision == MSI_FP32)
        ((msi_c32 *)segment->vis)[at] = (msi_c32){(float)sum.re, (float)sum.im};
    else
        ((msi_c64 *)segment->vis)[at] = sum;
}

msi_wproj_place msi_wproj_reference_place(const msi_wproj_span *s, const msi_vis_segment *segment, int64_t row,
                                          int32_t chan)
{
    msi_wproj_place p;
    msi_wproj_locate_in(s->geometry, segment->uvw_m + 3 * row, segment->freq_hz[chan], s->store->coordinates, s->slice,
                        &p);
    return p;
}

/* Call one(span, cells, fp32, segment, row, channel) for every sample. */
static void each_sample(const msi_wproj_span *s, const msi_wproj_cells *cells, int fp32,
                        void (*one)(const msi_wproj_span *, const msi_wproj_cells *, int, const msi_vis_segment *,
                                    int64_t, int32_t))
{
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++)
            one(s, cells, fp32, segment, run->row & (MSI_SEGMENT_ROWS - 1), c);
    }
}

static void grid_sample(const msi_wproj_span *s, const msi_wproj_cells *t, int fp32, const msi_vis_segment *segment,
                        int64_t row, int32_t chan)
{
    msi_wproj_place p = msi_wproj_reference_place(s, segment, row, chan);
    msi_c64 value = msi_wproj_reference_value(s, segment, row, chan, &p);
    int32_t half = s->kernels->half[p.plane];
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, &p, tu, tv);
            msi_wproj_cell_add(t->cells, (p.v + tv - t->v_origin) * t->stride + p.u + tu - t->u_origin, fp32,
                               msi_c64_times(tap, value));
        }
}

static void degrid_sample(const msi_wproj_span *s, const msi_wproj_cells *t, int fp32, const msi_vis_segment *segment,
                          int64_t row, int32_t chan)
{
    msi_wproj_place p = msi_wproj_reference_place(s, segment, row, chan);
    int32_t half = s->kernels->half[p.plane];
    int64_t first = msi_wproj_first_cell(t, &p, half);
    msi_c64 sum = {0, 0};
    for (int32_t tv = -half; tv <= half; tv++)
        for (int32_t tu = -half; tu <= half; tu++) {
            msi_c64 tap = msi_wproj_reference_tap(s->geometry, s->kernels, &p, tu, tv);
            msi_c64 cell = msi_wproj_cell_get(t->cells, first + (tv + half) * t->stride + tu + half, fp32);
            msi_c64 x = msi_c64_times((msi_c64){tap.re, -tap.im}, cell);
            sum.re += x.re;
            sum.im += x.im;
        }
    msi_wproj_reference_store(s, segment, row, chan, &p, sum);
}

void msi_wproj_reference_grid_f32(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    each_sample(span, target, 1, grid_sample);
}

void msi_wproj_reference_grid_f64(const msi_wproj_span *span, const msi_wproj_cells *target)
{
    each_sample(span, target, 0, grid_sample);
}

void msi_wproj_reference_degrid_f32(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    each_sample(span, source, 1, degrid_sample);
}

void msi_wproj_reference_degrid_f64(const msi_wproj_span *span, const msi_wproj_cells *source)
{
    each_sample(span, source, 0, degrid_sample);
}
