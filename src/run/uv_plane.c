/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/uv_plane.h"

#include <math.h>
#include <string.h>

#include <fftw3.h>

#include "core/memory.h"
#include "core/status.h"

int msi_uv_plane(const msi_image_geometry *g, const void *pixel, msi_precision precision, double **re, double **im)
{
    int64_t nx = g->nx, ny = g->ny, n = nx * ny;
    fftw_complex *grid;
    *re = *im = NULL;
    MSI_TRY(msi_alloc(&grid, n, sizeof *grid, "uv plane"));
    int rc = msi_alloc(re, n, sizeof **re, "uv plane");
    if (!rc) rc = msi_alloc(im, n, sizeof **im, "uv plane");
    fftw_plan plan = NULL;
#pragma omp critical(msi_fftw_planner)
    if (!rc) plan = fftw_plan_dft_2d((int)ny, (int)nx, grid, grid, FFTW_BACKWARD, FFTW_ESTIMATE);
    if (!rc && !plan)
        rc = msi_error_set(MSI_ENOMEM, "FFTW cannot plan a transform of %lld x %lld pixels", (long long)nx,
                           (long long)ny);
    if (!rc) {
        /* l falls with x: pixel x has l index nx/2 - x. FFT order begins with the centre. */
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                double value = msi_image_value(pixel, precision, y * nx + x);
                int64_t i = (nx / 2 - x + nx) % nx, j = (y - ny / 2 + ny) % ny;
                grid[j * nx + i][0] = isnan(value) ? 0 : value;
                grid[j * nx + i][1] = 0;
            }
        fftw_execute(plan);
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                int64_t i = (x - nx / 2 + nx) % nx, j = (y - ny / 2 + ny) % ny;
                (*re)[y * nx + x] = grid[j * nx + i][0];
                (*im)[y * nx + x] = grid[j * nx + i][1];
            }
    }
#pragma omp critical(msi_fftw_planner)
    fftw_destroy_plan(plan);
    msi_free(grid);
    if (rc) {
        msi_free(*re);
        msi_free(*im);
        *re = *im = NULL;
    }
    return rc;
}

int msi_uv_weights(const msi_image_geometry *g, const msi_weighting *rule, msi_gridder *const *gridder,
                   int64_t n_gridder, double **weight)
{
    msi_density *d;
    msi_density_grid grid;
    *weight = NULL;
    MSI_TRY(msi_density_create(&d, g, rule));
    const double *half = NULL;
    int rc = MSI_OK;
    for (int64_t i = 0; !rc && i < n_gridder; i++) rc = msi_density_add(d, gridder[i]);
    if (!rc) rc = msi_density_sums(d, &grid, &half);
    if (!rc) rc = msi_alloc(weight, grid.nu * grid.nv, sizeof **weight, "weights");
    /* The density covers the half plane v >= 0. Add the mirrored half: cell k becomes -1 - k, or -k if cells are
     * centred on multiples of their size. */
    const int64_t shift = rule->is_centred ? 0 : 1;
    for (int64_t row = 0; !rc && row < grid.nv / 2; row++) {
        double *positive_v = *weight + (grid.nv / 2 + row) * grid.nu,
               *negative_v = *weight + (grid.nv / 2 - shift - row) * grid.nu;
        for (int64_t column = 0; column < grid.nu; column++) {
            const int is_own_mirror = rule->is_centred && row == 0 && column == grid.nu / 2;
            const double sum = half[row * grid.nu + column] * (is_own_mirror ? 2 : 1);
            if (sum > 0) positive_v[column] = sum;
            if (sum > 0 && grid.nu - shift - column < grid.nu) negative_v[grid.nu - shift - column] = sum;
        }
    }
    msi_density_free(d);
    return rc;
}
