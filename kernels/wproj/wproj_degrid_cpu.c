/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/wproj_degrid_cpu.h"

#include <omp.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/wproj/points/wproj_scatter_cpu.h"
#include "kernels/wproj/job/wproj_reference.h"
#include "kernels/wproj/window/wproj_window_cpu.h"

static msi_wproj_degrid_fn degrid_function(msi_wproj_cpu_form form, int fp32)
{
    switch (form) {
    case MSI_WPROJ_CPU_REFERENCE:
        return fp32 ? msi_wproj_reference_degrid_f32 : msi_wproj_reference_degrid_f64;
    case MSI_WPROJ_CPU_WINDOW:
        return fp32 ? msi_wproj_window_degrid_f32 : msi_wproj_window_degrid_f64;
    case MSI_WPROJ_CPU_SCATTER:
        return fp32 ? msi_wproj_scatter_degrid_f32 : msi_wproj_scatter_degrid_f64;
    default:
        return fp32 ? msi_wproj_simd()->degrid_f32 : msi_wproj_simd()->degrid_f64;
    }
}

/* Degrid one plane of a slice's samples tile by tile, so that the cells that they share stay in cache. */
static void degrid_slice(const msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int plane,
                         int32_t slice, char *scratch)
{
    enum { RUNS_AT_ONCE = 256 };
    int64_t n_tile = s->sort.n_tile_u * s->sort.n_tile_v;
    const int64_t *start = s->buckets.start + msi_wproj_bucket(s, slice, 0);
    const msi_wproj_cells source = {s->cells, s->stride, s->u0, s->v0, s->n_u, s->n_v};
    msi_wproj_degrid_fn degrid = degrid_function(form, s->fp32);
    const int64_t scratch_bytes = scratch ? msi_wproj_window_bytes(s->plan->half_max) : 0;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t first = start[0]; first < start[n_tile]; first += RUNS_AT_ONCE) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(first - start[0], start[n_tile] - start[0]);
        int64_t rest = start[n_tile] - first;
        msi_wproj_span span = {.geometry = &s->plan->grid,
                               .kernels = s->kernels,
                               .store = store,
                               .run = s->buckets.run + first,
                               .n_run = rest < RUNS_AT_ONCE ? rest : RUNS_AT_ONCE,
                               .slice = slice,
                               .image_plane = plane,
                               .scratch = scratch ? scratch + omp_get_thread_num() * scratch_bytes : NULL};
        degrid(&span, &source);
    }
}

int msi_wproj_cpu_predict(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                          msi_vis_store *store, const msi_image *model, msi_stage_times *times)
{
    msi_wproj_box s;
    double t0 = msi_wall_s();
    int64_t plane_bytes = msi_image_n_pixel(&plan->image) *
                          (plan->precision == MSI_FP32 ? (int64_t)sizeof(float) : (int64_t)sizeof(double));
    int32_t n_slice = plan->grid.n_slice;
    char *scratch = NULL;
    const int n_part = 1 + MSI_PLANE_PARTS * n_slice * model->n_plane;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_wproj_box_create(&s, plan, kernels, store);
    msi_progress_leave(all);
    if (!rc && form == MSI_WPROJ_CPU_WINDOW)
        rc = msi_alloc(&scratch, s.n_thread * msi_wproj_window_bytes(plan->half_max), 1, "moving windows");
    times->sort_s += msi_wall_s() - t0;
    for (int32_t i = 0; !rc && i < n_slice; i++) {
        for (int p = 0; !rc && p < model->n_plane; p++) {
            t0 = msi_wall_s();
            if (!msi_wproj_box_open(&s, i)) break;
            const int part = 1 + MSI_PLANE_PARTS * (i * model->n_plane + p), middle = part + MSI_PLANE_PARTS / 2;
            all = msi_progress_enter(part, middle, n_part);
            msi_wproj_box_from_model(&s, i, (const char *)model->pixel + p * plane_bytes);
            msi_progress_leave(all);
            double t1 = msi_wall_s();
            all = msi_progress_enter(middle, part + MSI_PLANE_PARTS, n_part);
            degrid_slice(&s, form, store, p, i, scratch);
            msi_progress_leave(all);
            times->transform_s += t1 - t0;
            times->grid_s += msi_wall_s() - t1;
            rc = msi_interrupt_check();
        }
    }
    msi_free(scratch);
    msi_wproj_box_destroy(&s);
    return rc;
}
