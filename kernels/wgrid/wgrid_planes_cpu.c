/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_planes_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { G = MSI_GRID_GUARD };

static int64_t row_stride(const msi_wgrid_geometry *g)
{
    return (g->nu + 2 * G + 15) / 16 * 16;
}

int64_t msi_wgrid_plane_bytes(const msi_wgrid_plan *plan)
{
    return (plan->grid.nv + 2 * G) * row_stride(&plan->grid) * msi_complex_bytes(plan->precision);
}

static int make_taps(msi_wgrid_planes *p)
{
    const msi_pswf *u = &p->plan->window, *w = &p->plan->w_window;
    if (p->fp32) {
        msi_taps_f32 *t;
        MSI_TRY(msi_alloc(&t, 1, sizeof *t, "window"));
        p->taps = t;
        for (int k = 0; k < u->n_coef; k++)
            for (int i = 0; i < u->width; i++) {
                t->u[k][2 * i] = t->u[k][2 * i + 1] = t->v[k][i] = (float)u->coef[k][i];
                t->w[k][i] = (float)w->coef[k][i];
            }
    } else {
        msi_taps_f64 *t;
        MSI_TRY(msi_alloc(&t, 1, sizeof *t, "window"));
        p->taps = t;
        for (int k = 0; k < u->n_coef; k++)
            for (int i = 0; i < u->width; i++) {
                t->u[k][2 * i] = t->u[k][2 * i + 1] = t->v[k][i] = u->coef[k][i];
                t->w[k][i] = w->coef[k][i];
            }
    }
    return MSI_OK;
}

int msi_wgrid_planes_create(msi_wgrid_planes *p, const msi_wgrid_plan *plan, int64_t n_resident)
{
    memset(p, 0, sizeof *p);
    const msi_wgrid_geometry *g = &plan->grid;
    p->plan = plan;
    p->g = g;
    p->simd = msi_wgrid_simd();
    p->column_simd = msi_column_simd();
    p->fp32 = plan->precision == MSI_FP32;
    p->cell_bytes = (size_t)msi_complex_bytes(plan->precision);
    p->n_row = g->nv + 2 * G;
    p->stride = row_stride(g);
    p->n_resident = n_resident;
    p->n_thread = omp_get_max_threads();
    p->column_pitch = g->nv + 16;
    MSI_TRY(make_taps(p));
    MSI_TRY(msi_fft1d_create(&p->fft_u, g->nu, plan->precision));
    MSI_TRY(msi_fft1d_create(&p->fft_v, g->nv, plan->precision));
    MSI_TRY(msi_alloc(&p->plane, n_resident, sizeof *p->plane, "w-planes"));
    for (int64_t i = 0; i < n_resident; i++)
        MSI_TRY(msi_alloc(&p->plane[i], p->n_row * p->stride, p->cell_bytes, "w-plane"));
    MSI_TRY(msi_alloc(&p->row_used, n_resident * p->n_row, 1, "w-planes"));
    MSI_TRY(msi_alloc(&p->columns, p->n_thread, sizeof *p->columns, "column buffers"));
    for (int i = 0; i < p->n_thread; i++)
        MSI_TRY(msi_alloc(&p->columns[i], MSI_PLANE_COLUMNS * p->column_pitch, p->cell_bytes, "column buffer"));
    return MSI_OK;
}

void msi_wgrid_planes_free(msi_wgrid_planes *p)
{
    for (int64_t i = 0; p->plane && i < p->n_resident; i++) msi_free(p->plane[i]);
    for (int i = 0; p->columns && i < p->n_thread; i++) msi_free(p->columns[i]);
    msi_free(p->plane);
    msi_free(p->row_used);
    msi_free(p->taps);
    msi_free(p->columns);
    msi_fft1d_free(p->fft_u);
    msi_fft1d_free(p->fft_v);
    memset(p, 0, sizeof *p);
}
