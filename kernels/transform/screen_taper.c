/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/transform/screen_taper.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/method/simd.h"

/* Tabulate the correction along one axis. */
static int tabulate_axis(double **out, int64_t n, int64_t n_grid, const msi_pswf *window)
{
    MSI_TRY(msi_alloc(out, n, sizeof **out, "taper correction"));
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i - n / 2;
        (*out)[i] = (k % 2 ? -1 : 1) / msi_pswf_transform(window, (double)k / (double)n_grid);
    }
    return MSI_OK;
}

int msi_taper_make(msi_taper *taper, const msi_image_geometry *image, const msi_wgrid_geometry *g,
                   const msi_pswf *window, const msi_pswf *w_window)
{
    memset(taper, 0, sizeof *taper);
    int rc = tabulate_axis(&taper->along_x, image->nx, g->nu, window);
    if (!rc) rc = tabulate_axis(&taper->along_y, image->ny, g->nv, window);
    if (rc) {
        msi_taper_free(taper);
        return rc;
    }
    taper->has_w = g->w_width > 1;
    taper->beyond = g->beyond;
    if (!taper->has_w) return MSI_OK;
    taper->n_mid = g->n_mid;
    taper->w_scale = 1 / g->n_half;
    enum { N = MSI_TAPER_TERMS };
    double largest = 0;
    for (int i = 0; i < N; i++) {
        double theta = MSI_PI * (i + 0.5) / N, q = sqrt(0.5 * (cos(theta) + 1));
        double value = msi_pswf_transform(w_window, q * g->n_half * g->w_step);
        for (int k = 0; k < N; k++) taper->term[k] += (k ? 2.0 : 1.0) / N * value * cos(k * theta);
    }
    for (int k = 0; k < N; k++) largest = fmax(largest, fabs(taper->term[k]));
    taper->n_term = N;
    while (taper->n_term > 1 && fabs(taper->term[taper->n_term - 1]) < 1e-17 * largest) taper->n_term--;
    return MSI_OK;
}

void msi_taper_free(msi_taper *taper)
{
    msi_free(taper->along_x);
    msi_free(taper->along_y);
    memset(taper, 0, sizeof *taper);
}

extern const msi_column_simd_table msi_column_simd_table_base, msi_column_simd_table_avx2, msi_column_simd_table_avx512;

const msi_column_simd_table *msi_column_simd(void)
{
    static const msi_column_simd_table *const table[MSI_N_SIMD] = MSI_SIMD_TABLES(msi_column_simd_table);
    return table[msi_simd_best()];
}
