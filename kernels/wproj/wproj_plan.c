/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/wproj_plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* The part of the accuracy that each error may take. The sum of the squares is less than 0.96. */
static const double CUT = 0.5, SUB_CELL = 0.5, PLANE = 0.5, CROSS_TERMS = 0.38, ROUNDING = 0.15;

/* A taper that is small at the image's edge amplifies rounding errors there. At most this many units in the last place
 * are allowed for any accuracy, so that gridding and degridding stay adjoint. */
static const double ROUNDING_UNITS = 16;

static const double MAX_SIGMA = 2.5;
static const int64_t TABLE_BYTES = (int64_t)1 << 30;

/* In addition to its support, a footprint may touch one cell because of rounding and seven because of whole vectors. */
enum { TILE_MARGIN = 10 };

enum { LEAST_TILE = 32, LEAST_GRID = 32, MAX_OVERSAMPLE = 4096, MAX_SLICE = 65536, HALF_LIMIT = 128 };

/* Values that are the same for all candidates. */
typedef struct task {
    const msi_wproj_request *r;
    double w_low, w_high;
    double n_min; /* least n - 1 of the field */
    int has_w;
} task;

/* A combination of choices, before its supports are computed. */
typedef struct candidate {
    int width; /* width of the taper's pswf in cells */
    double sigma;
    msi_wkernel_form form;
    msi_kernel_lookup lookup; /* not AUTO */
    int32_t n_slice, n_plane, oversample;
    int32_t half_low, half_high; /* estimated, of w = 0 and of the last plane */
    double cost_s;
} candidate;

static msi_image_geometry padded(const task *t, double sigma)
{
    const msi_image_geometry *image = &t->r->image;
    double padding = fmax(sigma, t->r->least_padding);
    msi_image_geometry g = *image;
    g.nx = msi_fft_size((int64_t)ceil(fmax(padding * (double)image->nx, LEAST_GRID)));
    g.ny = msi_fft_size((int64_t)ceil(fmax(padding * (double)image->ny, LEAST_GRID)));
    return g;
}

static int64_t table_limit(const task *t)
{
    return t->r->table_bytes ? t->r->table_bytes : TABLE_BYTES;
}

static double residual_max(const task *t, int32_t n_slice)
{
    return t->has_w ? 0.5 * (t->w_high - t->w_low) / n_slice : 0;
}

static int is_sqrt(const task *t)
{
    return t->r->spacing == MSI_WPROJ_SPACING_SQRT;
}

/* Return the number of planes for residuals up to r_max. The phase error is half of the distance between planes times
 * half of the range of n - 1. With square-root spacing the last distance is the largest, twice the mean. */
static double planes_for(const task *t, double r_max)
{
    if (!t->has_w) return 1;
    double mean_step = PLANE * t->r->accuracy / (0.5 * MSI_PI * -t->n_min);
    return ceil((is_sqrt(t) ? 2 : 1) * r_max / mean_step) + 1;
}

static double plane_error(const task *t, double r_max, int32_t n_plane)
{
    double n_half = -0.5 * t->n_min;
    if (!t->has_w) return 2 * MSI_PI * t->w_high * n_half;
    if (n_plane < 2) return 2 * MSI_PI * r_max * n_half;
    double p = n_plane - 1, off = is_sqrt(t) ? r_max / (p * p) * (p - 0.25) : 0.5 * r_max / p;
    return 2 * MSI_PI * off * n_half;
}

static int is_linear(msi_kernel_lookup lookup)
{
    return lookup != MSI_KERNEL_NEAREST;
}

/* Compute the terms of the sub-cell error, first / oversample + second / oversample^2. The first is due to rounding of
 * positions, the second to interpolation. */
static void sub_cell_terms(double x, double y, msi_kernel_lookup lookup, double *first, double *second)
{
    const double texture_steps = 256;
    double rounded = MSI_PI * (x + y);
    *first = !is_linear(lookup) ? rounded : lookup == MSI_KERNEL_TEXTURE ? rounded / texture_steps : 0;
    *second = is_linear(lookup) ? MSI_PI * MSI_PI * (x * x + y * y) / 3 : 0;
}

static double sub_cell_error(double x, double y, int32_t oversample, msi_kernel_lookup lookup)
{
    double first, second;
    sub_cell_terms(x, y, lookup, &first, &second);
    return (first + second / oversample) / oversample;
}

static int32_t oversample_for(const task *t, double x, double y, msi_kernel_lookup lookup)
{
    if (t->r->oversample) return t->r->oversample;
    double first, second, allowed = SUB_CELL * t->r->accuracy;
    sub_cell_terms(x, y, lookup, &first, &second);
    double os = fmax((first + sqrt(first * first + 4 * allowed * second)) / (2 * allowed), 2);
    return os > MAX_OVERSAMPLE ? MAX_OVERSAMPLE + 2 : 2 * (int32_t)ceil(0.5 * os);
}

/* Estimate the error from rounding of the grid's sums, which is amplified where the taper is small. The result is the
 * error of the whole image, or half the error of the corner pixel if that is larger. */
static double rounding_error(const msi_pswf *u, const msi_pswf *v, msi_precision precision)
{
    double rms_u, edge_u, rms_v, edge_v, epsilon = precision == MSI_FP32 ? FLT_EPSILON : DBL_EPSILON;
    msi_pswf_amplification(u, &rms_u, &edge_u);
    msi_pswf_amplification(v, &rms_v, &edge_v);
    return 2 * epsilon * fmax(rms_u * rms_v, 0.5 * edge_u * edge_v);
}

static double most_rounding(const msi_wproj_request *r)
{
    double epsilon = r->precision == MSI_FP32 ? FLT_EPSILON : DBL_EPSILON;
    return fmin(ROUNDING * r->accuracy, ROUNDING_UNITS * epsilon);
}

static void spec_of(const task *t, const msi_image_geometry *grid, const msi_pswf *u, const msi_pswf *v,
                    msi_wkernel_form form, msi_wkernel_spec *spec)
{
    const msi_image_geometry *image = &t->r->image;
    *spec = (msi_wkernel_spec){.field_u_rad = (double)grid->nx * grid->cell_x_rad,
                               .field_v_rad = (double)grid->ny * grid->cell_y_rad,
                               .image_u_rad = (double)image->nx * image->cell_x_rad,
                               .image_v_rad = (double)image->ny * image->cell_y_rad,
                               .pswf_u = u,
                               .pswf_v = v,
                               .form = form,
                               .precision = t->r->precision};
}

/* Return the growth of a half-support in cells per wavelength of w. It is the rate at which the screen's phase turns at
 * the image's corner. */
static double growth(const task *t, const msi_image_geometry *grid)
{
    double l = 0.5 * (double)t->r->image.nx * grid->cell_x_rad, m = 0.5 * (double)t->r->image.ny * grid->cell_y_rad;
    double fastest = fmax((double)grid->nx * grid->cell_x_rad * l, (double)grid->ny * grid->cell_y_rad * m);
    return fastest / sqrt(fmax(1 - l * l - m * m, 0.1));
}

static double taps_cost(const msi_cost_model *c, double half)
{
    double row = 2 * half + 1;
    return ceil(row / c->lanes) * c->lanes * row;
}

static double table_elements(const candidate *c, int two_axes, double half)
{
    double axis = (c->oversample + 1) * (2 * half + 1);
    return c->form == MSI_WKERNEL_FULL ? axis * axis : axis * (two_axes ? 2 : 1);
}

/* Return the seconds of a candidate by the cost model, for transforms, screens, samples and tables. */
static double cost_of(const task *t, const candidate *c, const msi_image_geometry *grid, double r_max)
{
    const msi_wproj_cost *rate = t->r->cost;
    const msi_cost_model *base = &rate->base;
    double cells = (double)grid->nx * (double)grid->ny;
    double kept = 0.5 * (1 + (double)t->r->image.nx / (double)grid->nx);
    double planes =
        cells * 5 * log2(cells) * kept / base->fft_flop_s + (double)msi_image_n_pixel(&t->r->image) * base->pixel_s;
    double low = taps_cost(base, c->half_low), high = taps_cost(base, c->half_high);
    double taps = (low + sqrt(low * high) + high) / 3;
    double tap_s = c->form == MSI_WKERNEL_FULL ? rate->full_tap_s : base->tap_s;
    double samples = (double)t->r->n_sample * (base->sample_s + taps * tap_s);
    /* The quadrature for a kernel needs a node for each turn of the phase, and some more. The number of distances is
     * the half-support times the number of sub-cells. */
    double half = 0.5 * (c->half_low + c->half_high), distance = (half + 0.5) * c->oversample;
    double node = 48 + 4 * half + 2 * r_max * -t->n_min;
    double plane = c->form == MSI_WKERNEL_FULL ? distance * node * (node + distance) : distance * node;
    return t->r->n_image * (c->n_slice * (planes + rate->slice_s) + samples) + c->n_plane * plane * rate->table_s;
}

/* Complete a candidate whose width, sigma, form, lookup and n_slice are set. Returns 1 if it can be used. */
static int complete(const task *t, candidate *c)
{
    msi_image_geometry grid = padded(t, c->sigma);
    if (grid.nx > INT32_MAX / 8 || grid.ny > INT32_MAX / 8) return 0;
    double x = 0.5 * (double)t->r->image.nx / (double)grid.nx, y = 0.5 * (double)t->r->image.ny / (double)grid.ny;
    double r_max = residual_max(t, c->n_slice), planes = planes_for(t, r_max);
    c->oversample = oversample_for(t, x, y, c->lookup);
    if (planes > INT32_MAX / 8 || c->oversample > MAX_OVERSAMPLE) return 0;
    c->n_plane = (int32_t)planes;
    double half = 0.5 * c->width + r_max * growth(t, &grid);
    if (half > HALF_LIMIT) return 0;
    c->half_low = (c->width + 1) / 2;
    c->half_high = (int32_t)ceil(half);
    if (c->form == MSI_WKERNEL_SEPARABLE && t->has_w) {
        msi_wkernel_spec spec;
        spec_of(t, &grid, NULL, NULL, c->form, &spec);
        if (2 * MSI_PI * r_max * msi_wkernel_separable_error(&spec) > CROSS_TERMS * t->r->accuracy) return 0;
    }
    int two_axes = grid.nx != grid.ny || grid.cell_x_rad != grid.cell_y_rad;
    double low = table_elements(c, two_axes, c->half_low), high = table_elements(c, two_axes, c->half_high);
    double bytes = planes * (low + high) / 2 * (double)msi_complex_bytes(t->r->precision);
    if (bytes > (double)table_limit(t)) return 0;
    c->cost_s = cost_of(t, c, &grid, r_max);
    return 1;
}

/* Try numbers of slices for a candidate, and update *best if one of them is cheaper. */
static void try_slices(const task *t, candidate c, candidate *best)
{
    int one = !t->has_w || t->w_high <= t->w_low;
    int32_t first = t->r->n_slice && !one ? t->r->n_slice : 1;
    double least = HUGE_VAL;
    for (c.n_slice = first; c.n_slice <= MAX_SLICE; c.n_slice += (c.n_slice + 3) / 4) {
        if (complete(t, &c)) {
            if (c.cost_s < best->cost_s) *best = c;
            if (c.cost_s > 2 * least) break;
            least = fmin(least, c.cost_s);
        }
        if (t->r->n_slice || one) break;
    }
}

/* Return whether the request allows a combination of form and lookup. */
static int is_open(const msi_wproj_request *r, msi_wkernel_form form, msi_kernel_lookup lookup)
{
    int full = form == MSI_WKERNEL_FULL;
    if ((r->form == MSI_WPROJ_FORM_SEPARABLE && full) || (r->form == MSI_WPROJ_FORM_FULL && !full)) return 0;
    if (full && is_linear(lookup) && (r->full_nearest || lookup == MSI_KERNEL_TEXTURE)) return 0;
    if (r->lookup != MSI_KERNEL_AUTO) return lookup == r->lookup;
    return lookup == (full && r->full_nearest ? MSI_KERNEL_NEAREST : MSI_KERNEL_LINEAR);
}

static int choose(const task *t, candidate *best)
{
    static const double wider[] = {1, 1.12, 1.3};
    const msi_wproj_request *r = t->r;
    *best = (candidate){.cost_s = HUGE_VAL};
    for (int width = 3; width <= MSI_PSWF_MAX_WIDTH; width++) {
        /* The error of the pswf is the truncation error of a kernel without w, half of it from each axis. */
        double sigma = msi_pswf_least_sigma(width, 0.35 * CUT * r->accuracy);
        for (int i = 0; i < 3 && sigma * wider[i] <= MAX_SIGMA; i++) {
            candidate found = *best;
            for (int form = MSI_WKERNEL_SEPARABLE; form <= MSI_WKERNEL_FULL; form++)
                for (int lookup = MSI_KERNEL_NEAREST; lookup <= MSI_KERNEL_TEXTURE; lookup++) {
                    candidate c = {.width = width,
                                   .sigma = sigma * wider[i],
                                   .form = (msi_wkernel_form)form,
                                   .lookup = (msi_kernel_lookup)lookup};
                    if (is_open(r, c.form, c.lookup)) try_slices(t, c, &found);
                }
            if (found.cost_s >= best->cost_s) continue;
            msi_pswf pswf;
            MSI_TRY(msi_pswf_make(&pswf, width, sigma * wider[i]));
            if (rounding_error(&pswf, &pswf, r->precision) <= most_rounding(r)) *best = found;
        }
    }
    if (best->cost_s < HUGE_VAL) return MSI_OK;
    static const char *const of_lookup[] = {"", " of the nearest sub-cell", " interpolated linearly",
                                            " interpolated by textures"};
    return msi_error_about(
        msi_error_set(MSI_ERANGE,
                      "w-projection finds no%s kernels%s within %.3g GB that reach accuracy %g for an image of "
                      "%lld x %lld with w up to %.4g wavelengths",
                      r->form == MSI_WPROJ_FORM_FULL ? " full" : "", of_lookup[r->lookup],
                      1e-9 * (double)table_limit(t), r->accuracy, (long long)r->image.nx, (long long)r->image.ny,
                      t->w_high),
        "method");
}

static void lay_out(msi_wproj_plan *plan, const task *t, const candidate *c, const msi_image_geometry *grid)
{
    double r_max = residual_max(t, c->n_slice), p = c->n_plane - 1;
    msi_wproj_geometry *g = &plan->grid;
    *g = (msi_wproj_geometry){.nu = grid->nx,
                              .nv = grid->ny,
                              .u_cells_per_m_hz = -(double)grid->nx * grid->cell_x_rad / MSI_SPEED_OF_LIGHT,
                              .v_cells_per_m_hz = (double)grid->ny * grid->cell_y_rad / MSI_SPEED_OF_LIGHT,
                              .w_lambda_per_m_hz = 1 / MSI_SPEED_OF_LIGHT,
                              .n_slice = c->n_slice,
                              .n_plane = c->n_plane,
                              .plane_sqrt = is_sqrt(t),
                              .oversample = c->oversample,
                              .linear = is_linear(c->lookup),
                              .n_mid = 0.5 * t->n_min};
    if (!t->has_w) return;
    g->slice_first = t->w_low;
    g->slice_step = (t->w_high - t->w_low) / c->n_slice;
    if (r_max > 0) g->plane_scale = (g->plane_sqrt ? p * p : p) / r_max;
}

/* Compute supports, errors and bytes of a chosen plan. */
static int measure(msi_wproj_plan *plan, const task *t, const candidate *c)
{
    msi_wkernel_spec spec;
    double *w_lambda;
    double x = 0.5 * (double)plan->image.nx / (double)plan->grid.nu,
           y = 0.5 * (double)plan->image.ny / (double)plan->grid.nv;
    double r_max = residual_max(t, c->n_slice);
    msi_wproj_errors *e = &plan->errors;
    MSI_TRY(msi_alloc(&plan->half, plan->grid.n_plane, sizeof *plan->half, "kernel supports"));
    MSI_TRY(msi_wproj_kernel_spec(plan, &spec, &w_lambda));
    spec.half = NULL;
    int rc = msi_wkernel_supports(&spec, plan->half, &e->cut);
    msi_wkernel_set set = {0};
    if (!rc) rc = msi_wkernel_layout(&set, &spec, plan->half);
    if (!rc) {
        plan->half_max = set.half_max;
        plan->table_bytes = set.n_element * msi_complex_bytes(plan->precision);
        e->separable =
            plan->form == MSI_WKERNEL_SEPARABLE ? 2 * MSI_PI * r_max * msi_wkernel_separable_error(&spec) : 0;
    }
    msi_wkernel_free(&set);
    msi_free(w_lambda);
    if (rc) return rc;
    if (plan->table_bytes > table_limit(t))
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "w-projection kernels for accuracy %g take %.3g GB here, more than %.3g GB",
                          t->r->accuracy, 1e-9 * (double)plan->table_bytes, 1e-9 * (double)table_limit(t)),
            "method");
    e->sub_cell = sub_cell_error(x, y, plan->grid.oversample, c->lookup);
    e->plane = plane_error(t, r_max, plan->grid.n_plane);
    e->rounding = hypot(rounding_error(&plan->pswf_u, &plan->pswf_v, plan->precision),
                        MSI_PI * DBL_EPSILON * t->w_high * -t->n_min);
    double squares[] = {e->cut, e->sub_cell, e->plane, e->separable, e->rounding}, sum = 0;
    for (int i = 0; i < 5; i++) sum += squares[i] * squares[i];
    plan->error_estimate = sqrt(sum);
    for (plan->tile = LEAST_TILE; plan->tile <= 2 * plan->half_max + TILE_MARGIN;) plan->tile += 16;
    return MSI_OK;
}

static int build(msi_wproj_plan *plan, const task *t, const candidate *c)
{
    memset(plan, 0, sizeof *plan);
    msi_image_geometry grid = padded(t, c->sigma);
    double sigma_u = (double)grid.nx / (double)t->r->image.nx, sigma_v = (double)grid.ny / (double)t->r->image.ny;
    plan->image = t->r->image;
    plan->form = c->form;
    plan->texture = c->lookup == MSI_KERNEL_TEXTURE;
    plan->precision = t->r->precision;
    plan->truncation = CUT * t->r->accuracy;
    plan->cost_s = c->cost_s;
    MSI_TRY(msi_pswf_make(&plan->pswf_u, c->width, fmin(sigma_u, MAX_SIGMA)));
    MSI_TRY(msi_pswf_make(&plan->pswf_v, c->width, fmin(sigma_v, MAX_SIGMA)));
    lay_out(plan, t, c, &grid);
    int rc = measure(plan, t, c);
    if (rc) msi_wproj_plan_free(plan);
    return rc;
}

int msi_wproj_plan_make(msi_wproj_plan *plan, const msi_wproj_request *r)
{
    memset(plan, 0, sizeof *plan);
    task t = {.r = r, .n_min = msi_field_n_range(&r->image)};
    t.w_low = r->w_min_lambda <= r->w_max_lambda ? r->w_min_lambda : 0;
    t.w_high = fmax(t.w_low, r->w_max_lambda);
    /* Ignore w if no pixel's phase turns by more than a tenth of the accuracy. */
    t.has_w = 2 * MSI_PI * t.w_high * -t.n_min > 0.1 * r->accuracy;
    if (r->oversample % 2)
        return msi_error_set(MSI_ERANGE, "kernels oversampled %d times: the number must be even", r->oversample);
    candidate best;
    MSI_TRY(choose(&t, &best));
    int rc = build(plan, &t, &best);
    /* Near the horizon the screen may be steeper than estimated. Then try thinner slices. */
    while (rc == MSI_ERANGE && !r->n_slice && t.has_w && best.n_slice < MAX_SLICE / 2) {
        best.n_slice *= 2;
        if (!complete(&t, &best)) break;
        rc = build(plan, &t, &best);
    }
    if (rc) return rc;
    if (plan->error_estimate <= r->accuracy || r->oversample) return MSI_OK;
    rc = msi_error_about(msi_error_set(MSI_ERANGE, "w-projection in %s reaches %.2g here, not accuracy %g",
                                       r->precision == MSI_FP32 ? "fp32" : "fp64", plan->error_estimate, r->accuracy),
                         "method");
    msi_wproj_plan_free(plan);
    return rc;
}

void msi_wproj_plan_free(msi_wproj_plan *plan)
{
    msi_free(plan->half);
    memset(plan, 0, sizeof *plan);
}

int msi_wproj_kernel_spec(const msi_wproj_plan *plan, msi_wkernel_spec *spec, double **w_lambda)
{
    const msi_wproj_geometry *g = &plan->grid;
    const msi_image_geometry *image = &plan->image;
    MSI_TRY(msi_alloc(w_lambda, g->n_plane, sizeof **w_lambda, "w-planes"));
    for (int32_t p = 0; p < g->n_plane; p++) (*w_lambda)[p] = msi_wproj_plane_w(g, p);
    *spec = (msi_wkernel_spec){.field_u_rad = (double)g->nu * image->cell_x_rad,
                               .field_v_rad = (double)g->nv * image->cell_y_rad,
                               .image_u_rad = (double)image->nx * image->cell_x_rad,
                               .image_v_rad = (double)image->ny * image->cell_y_rad,
                               .pswf_u = &plan->pswf_u,
                               .pswf_v = &plan->pswf_v,
                               .form = plan->form,
                               .phase = MSI_WPHASE_FITTED,
                               .precision = plan->precision,
                               .oversample = g->oversample,
                               .n_plane = g->n_plane,
                               .w_lambda = *w_lambda,
                               .truncation = plan->truncation,
                               .half = plan->half};
    return MSI_OK;
}

int msi_wproj_factors(const msi_wproj_plan *plan, int axis, double **factor)
{
    const msi_wproj_geometry *g = &plan->grid;
    int64_t n = axis ? plan->image.ny : plan->image.nx, n_grid = axis ? g->nv : g->nu;
    const msi_pswf *pswf = axis ? &plan->pswf_v : &plan->pswf_u;
    MSI_TRY(msi_alloc(factor, n, sizeof **factor, "taper correction"));
    for (int64_t i = 0; i < n; i++)
        (*factor)[i] = 1 / msi_wkernel_taper(pswf, g->oversample, g->linear, (double)(i - n / 2) / (double)n_grid);
    return MSI_OK;
}
