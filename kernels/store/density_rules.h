/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The cells of a density's grid, and the factor of a weight from density weighting and tapers. Shared by C and CUDA. */
#ifndef MSI_KERNELS_DENSITY_RULES_H
#define MSI_KERNELS_DENSITY_RULES_H

#include <float.h>

#include "kernels/method/geometry.h"
#include "kernels/store/density.h"

/* The cells of the stored half plane. Row 0 is 0 <= v < 1 cell, column nu / 2 is 0 <= u < 1 cell. Centred cells begin
 * half a cell earlier; then columns below nu / 2 of row 0 are not used. */
typedef struct msi_density_cells {
    msi_density_grid grid;
    double per_lambda_u, per_lambda_v;
    int is_centred;
} msi_density_cells;

typedef struct msi_uv_cell {
    int64_t row, column;
} msi_uv_cell;

/*
 * msi_uv_cell_of - find the cell of a sample, u and v in wavelengths. Returns 0 if it is outside the grid. A sample and
 * its mirror image are equivalent; the one with v > 0, or with v = 0 and u >= 0, is used. The mirror image of cell k of
 * an axis is -1 - k, or -k if cells are centred; of two centred cells in row 0 the one with k >= 0 is used.
 */
MSI_HD int msi_uv_cell_of(const msi_density_cells *d, double u, double v, msi_uv_cell *cell)
{
    if (v < 0 || (v == 0 && u < 0)) {
        u = -u;
        v = -v;
    }
    const int64_t half_u = d->grid.nu / 2, half_v = d->grid.nv / 2;
    double x = u * d->per_lambda_u, y = v * d->per_lambda_v;
    const double edge = 1 + 4 * DBL_EPSILON;
    if (!(fabs(x) <= (double)half_u * edge && y <= (double)half_v * edge)) return 0;
    if (d->is_centred) {
        x = (y < 0.5 ? fabs(x) : x) + 0.5;
        y += 0.5;
    }
    const int64_t towards_0 = (int64_t)x, column = towards_0 - (x < (double)towards_0), row = (int64_t)y;
    /* The edge of the uv plane belongs to the last cell, as it belongs to the image. */
    cell->column = (column < -half_u ? -half_u : column < half_u ? column : half_u - 1) + half_u;
    cell->row = row < half_v ? row : half_v - 1;
    return 1;
}

/* The tapers of a rule in wavelengths. */
typedef struct msi_taper_scales {
    int is_gaussian, has_radius, has_edge;
    double along, across; /* factors of the squares of the coordinates along the Gaussian's axes */
    double cos_pa, sin_pa;
    double edge_u, edge_v; /* half the width of the uv plane */
} msi_taper_scales;

/* The factors of weights; their arrays belong to the density, in the memory of the processor that uses them. */
typedef struct msi_weight_factors {
    msi_density_cells cells;
    const double *sum, *rest; /* [nv / 2][nu] sums of plane 0; of samples without a weight in it (NULL: one plane) */
    const double *limited;    /* [nv / 2][nu] limited factors of cells; NULL: no limit */
    msi_weighting rule;
    msi_taper_scales taper;
    int has_taper;
    double briggs, scale; /* s^2; factor of all weights */
    double most_w_m_hz;   /* largest |w| in metres times frequency; 0: no limit */
} msi_weight_factors;

/* msi_rise - compute the factor at a distance beyond a limit: 0 before it, then a transition of this width to 1. */
MSI_HD double msi_rise(double beyond, double width)
{
    if (beyond < 0) return 0;
    return beyond < width ? 0.5 * (1 + cos(MSI_PI * (beyond - width) / width)) : 1;
}

/* msi_taper_factor - compute the product of all tapers at (u, v) wavelengths. */
MSI_HD double msi_taper_factor(const msi_uv_taper *t, const msi_taper_scales *k, double u, double v)
{
    double factor = 1;
    if (k->is_gaussian) {
        const double along = u * k->sin_pa + v * k->cos_pa, across = u * k->cos_pa - v * k->sin_pa;
        factor = exp(-k->along * along * along - k->across * across * across);
    }
    if (k->has_radius) {
        const double r = sqrt(u * u + v * v);
        factor *= msi_rise(r - t->inner_lambda, t->inner_tukey);
        if (t->outer_lambda > 0) factor *= msi_rise(t->outer_lambda - r, t->outer_tukey);
    }
    if (k->has_edge)
        factor *= msi_rise(k->edge_u - fabs(u) - t->edge_lambda, t->edge_tukey) *
                  msi_rise(k->edge_v - fabs(v) - t->edge_lambda, t->edge_tukey);
    return factor;
}

/* msi_cell_factor - compute the factor of a cell from its sum of weights, for uniform or Briggs weighting. */
MSI_HD double msi_cell_factor(const msi_weighting *rule, double briggs, double sum)
{
    if (rule->mode == MSI_WEIGHT_BRIGGS) return 1 / (1 + sum * briggs);
    return sum > 0 ? 1 / sum : 0;
}

/* msi_cell_sum - return the sum of weights of a cell: that in `sum`, or in `rest` if plane 0 has no sample there. */
MSI_HD double msi_cell_sum(const double *sum, const double *rest, int64_t i)
{
    return sum[i] > 0 || !rest ? sum[i] : rest[i];
}

/* msi_cell_times - return 2 for the centred cell at the origin, which also contains the mirror images of its samples;
 * otherwise 1. */
MSI_HD int msi_cell_times(const msi_density_cells *d, const msi_uv_cell *cell)
{
    return d->is_centred && cell->row == 0 && cell->column == d->grid.nu / 2 ? 2 : 1;
}

/* msi_bandwidth_factor - compute F, by which Briggs' density is divided; see msi_density_weight. */
MSI_HD double msi_bandwidth_factor(const msi_weight_factors *f, double u, double v)
{
    const double x = f->rule.bandwidth * hypot(u * f->cells.per_lambda_u, v * f->cells.per_lambda_v);
    return x + 0.5 >= 1.5 ? x + 0.5 : (4 - x) / (4 - 2 * x);
}

/* msi_weight_factor - compute the factor of the sample at (u, v) wavelengths. */
MSI_HD double msi_weight_factor(const msi_weight_factors *f, double u, double v)
{
    const int at_cells = f->has_taper && f->rule.taper.at_cells, is_natural = f->rule.mode == MSI_WEIGHT_NATURAL;
    double factor = f->scale;
    msi_uv_cell cell = {0, 0};
    const int is_inside = (!is_natural || at_cells) && msi_uv_cell_of(&f->cells, u, v, &cell);
    if (!is_natural && !is_inside) factor *= msi_cell_factor(&f->rule, f->briggs, 0);
    if (!is_natural && is_inside) {
        const int64_t i = cell.row * f->cells.grid.nu + cell.column;
        if (f->limited) {
            factor *= f->limited[i];
        } else {
            const double sum = msi_cell_times(&f->cells, &cell) * msi_cell_sum(f->sum, f->rest, i);
            factor *=
                msi_cell_factor(&f->rule, f->briggs, f->rule.bandwidth > 0 ? sum / msi_bandwidth_factor(f, u, v) : sum);
        }
    }
    if (!f->has_taper) return factor;
    if (at_cells && is_inside) {
        u = (double)(cell.column - f->cells.grid.nu / 2) / f->cells.per_lambda_u;
        v = (double)cell.row / f->cells.per_lambda_v;
    }
    return factor * msi_taper_factor(&f->rule.taper, &f->taper, u, v);
}

/* msi_factor_at - compute the factor of a sample at uvw [3] metres. */
MSI_HD double msi_factor_at(const msi_weight_factors *f, const double *uvw_m, double hz)
{
    const double u = uvw_m[0] / MSI_SPEED_OF_LIGHT, v = uvw_m[1] / MSI_SPEED_OF_LIGHT;
    const int is_high = f->most_w_m_hz > 0 && fabs(uvw_m[2]) * hz > f->most_w_m_hz;
    return is_high ? 0 : msi_weight_factor(f, u * hz, v * hz);
}

/* msi_weight_by - compute the new weight of a sample of weight w. */
MSI_HD double msi_weight_by(const msi_weight_factors *f, double w, double factor)
{
    if (f->rule.vis == MSI_VIS_WEIGHT_SQUARED) w *= w;
    if (f->rule.vis == MSI_VIS_WEIGHT_UNIT) w = w > 0;
    return w * factor;
}

#endif
