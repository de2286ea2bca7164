/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wgrid/wgrid_plan.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "kernels/store/vis_store.h"

enum { TILE = 16, LEAST_GRID = 48 };

static const double MAX_SIGMA = 2.5;

/* The part of the accuracy for the window. Its error is an rms over the samples' fractions of a cell; a few samples may
 * all have the worst fraction, whose error is sqrt(2) times the rms. */
static const double MARGIN = 0.7;

/* Limit of rounding, amplified by a window's correction, in double precision. It makes predicting the transpose of
 * imaging to 1e-12 at any accuracy. */
static const double MOST_FP64_ROUNDING = 1e-13;

/* Largest number of buckets, so that their table is small compared to the grid. With more, larger tiles are used. */
static const int64_t MAX_BUCKETS = 1 << 24;

/* Estimate the seconds of gridding samples. */
static double sample_cost(const msi_wgrid_geometry *g, int64_t n_sample, const msi_cost_model *c)
{
    double row = ceil((double)g->width / c->lanes) * c->lanes;
    return (double)n_sample * (c->sample_s + row * g->width * g->w_width * c->tap_s);
}

/* Estimate the seconds of transforming and screening w-planes. */
static double plane_cost(const msi_wgrid_geometry *g, const msi_image_geometry *image, const msi_cost_model *c)
{
    double cells = (double)g->nu * (double)g->nv;
    double kept = 0.5 * (1 + (double)image->nx / (double)g->nu);
    double plane = cells * 5 * log2(cells) * kept / c->fft_flop_s + (double)msi_image_n_pixel(image) * c->pixel_s;
    return g->n_w * (plane + c->plane_s);
}

/* Estimate the rounding error, amplified by the correction: that of the whole image, or twice that of a corner pixel if
 * it is larger, because the sum of a crowded cell has more than one rounding. */
static double rounding_error(const msi_pswf *u, const msi_pswf *w, int has_w, msi_precision precision)
{
    double rms_u, edge_u, rms_w = 1, edge_w = 1;
    msi_pswf_amplification(u, &rms_u, &edge_u);
    if (has_w) msi_pswf_amplification(w, &rms_w, &edge_w);
    double epsilon = precision == MSI_FP32 ? FLT_EPSILON : DBL_EPSILON;
    return epsilon * fmax(rms_u * rms_u * rms_w, 2 * edge_u * edge_u * edge_w);
}

/* Add up the errors of the windows and of rounding. */
static double total_error(const msi_pswf *u, const msi_pswf *w, int has_w, double rounding)
{
    double eu = msi_pswf_error(u), ew = has_w ? msi_pswf_error(w) : 0;
    return sqrt(2 * eu * eu + ew * ew + rounding * rounding);
}

/* Place the w-planes of a geometry whose width and n_half are set. */
static int lay_w_planes(msi_wgrid_geometry *g, double sigma, double w_low, double w_high)
{
    /* The step is 1 / (sigma * range of n - 1). First taps are at ceil(x - width/2). w_first is chosen so that this is
     * 0 for w_low in spite of rounding. */
    g->w_step = 1 / (sigma * 2 * g->n_half);
    g->w_first = w_low - 0.5 * (g->width - 1) * g->w_step;
    double planes = (w_high - w_low) / g->w_step;
    if (!(planes <= 1e6))
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "this field with w up to %.3g wavelengths needs %.3g w-planes, more than 1e6",
                          w_high, planes),
            "w_max_lambda");
    g->n_w = (int32_t)ceil(planes - 0.5 + 1e-6) + g->width;
    return MSI_OK;
}

/* The range of |w| of samples, in wavelengths. */
typedef struct w_range {
    double low, high;
} w_range;

/* Make the plan for a width. Replace the best plan if this one reaches the accuracy and takes less time. */
static int try_width(msi_wgrid_plan *best, const msi_wgrid_request *s, w_range w, int width)
{
    const msi_image_geometry *image = &s->image;
    int64_t (*padded_size)(int64_t) = s->padded_size ? s->padded_size : msi_fft_size;
    double n_min, n_max;
    msi_field_n_span(image, s->l_center_rad, s->m_center_rad, s->beyond, &n_min, &n_max);
    /* w is left out if the phases of all pixels change by at most a tenth of the accuracy. */
    int has_w = 2 * MSI_PI * w.high * -n_min > 0.1 * s->accuracy;
    /* Phases in double have an error of half a unit in the last place, which no window can correct. */
    double phase_floor = MSI_PI * DBL_EPSILON * w.high * -n_min;
    double sigma = msi_pswf_least_sigma(width, MARGIN * s->accuracy / sqrt(has_w ? 3 : 2));
    for (; sigma <= MAX_SIGMA; sigma *= 1.05) {
        double padding = fmax(sigma, s->least_padding);
        msi_wgrid_geometry g = {.width = width, .w_width = has_w ? width : 1, .n_w = 1, .w_step = 1};
        g.nu = padded_size((int64_t)ceil(fmax(padding * (double)image->nx, LEAST_GRID)));
        g.nv = padded_size((int64_t)ceil(fmax(padding * (double)image->ny, LEAST_GRID)));
        if (g.nu > INT32_MAX / 4 || g.nv > INT32_MAX / 4) break;
        g.n_mid = has_w ? 0.5 * (n_min + n_max) : 0;
        g.n_half = has_w ? 0.5 * (n_max - n_min) : 0;
        int laid = has_w ? lay_w_planes(&g, sigma, w.low, w.high) : MSI_OK;
        double sample_s = sample_cost(&g, s->n_sample, s->cost), cost_s = plane_cost(&g, image, s->cost) + sample_s;
        if (!laid && cost_s >= best->cost_s) return MSI_OK; /* more padding costs at least as much */
        double u_sigma = fmin((double)g.nu / (double)image->nx, (double)g.nv / (double)image->ny);
        msi_pswf u_window, w_window;
        MSI_TRY(msi_pswf_make(&u_window, width, fmin(u_sigma, MAX_SIGMA)));
        MSI_TRY(msi_pswf_make(&w_window, width, sigma));
        double rounding = rounding_error(&u_window, &w_window, has_w, s->precision);
        double error = total_error(&u_window, &w_window, has_w, rounding);
        if (error > MARGIN * s->accuracy || (s->precision == MSI_FP64 && rounding > MOST_FP64_ROUNDING)) continue;
        if (laid) return laid;
        *best = (msi_wgrid_plan){.image = *image,
                                 .device = s->device,
                                 .grid = g,
                                 .window = u_window,
                                 .w_window = w_window,
                                 .precision = s->precision,
                                 .error_estimate = hypot(error, phase_floor),
                                 .cost_s = cost_s,
                                 .sample_cost_s = sample_s};
        return MSI_OK;
    }
    return MSI_OK;
}

void msi_wgrid_plan_lay_tiles(msi_wgrid_plan *plan, int64_t most_buckets)
{
    msi_wgrid_geometry *g = &plan->grid;
    int64_t first_u = g->nu + 2 * g->width + 1, first_v = g->nv + 2 * g->width + 1;
    for (g->tile = TILE;; g->tile *= 2) {
        g->n_tile_u = (first_u + g->tile - 1) / g->tile;
        g->n_tile_v = (first_v + g->tile - 1) / g->tile;
        if (g->n_tile_u * g->n_tile_v * g->n_w <= most_buckets) return;
    }
}

msi_wgrid_request msi_wgrid_request_of(const msi_plan_request *request, const msi_cost_model *cost)
{
    return (msi_wgrid_request){.image = request->spec->geometry,
                               .l_center_rad = request->spec->l_center_rad,
                               .m_center_rad = request->spec->m_center_rad,
                               .beyond = request->spec->goes_beyond ? 1 : 0,
                               .accuracy = request->spec->accuracy,
                               .precision = request->precision,
                               .least_padding = request->spec->least_padding,
                               .least_width = request->spec->pins.width,
                               .most_width = request->spec->pins.width,
                               .n_sample = request->n_sample,
                               .w_min_lambda = request->w_min_lambda,
                               .w_max_lambda = request->w_max_lambda,
                               .longest_lambda =
                                   request->store ? request->store->longest_lambda : request->spec->longest_lambda,
                               .cost = cost,
                               .device = request->spec->device};
}

int msi_wgrid_plan_make(msi_wgrid_plan *plan, const msi_wgrid_request *request)
{
    const msi_image_geometry *image = &request->image;
    const int least_width = request->least_width ? request->least_width : MSI_PSWF_MIN_WIDTH;
    const int most_width = request->most_width ? request->most_width : MSI_PSWF_MAX_WIDTH;
    const double low = request->w_min_lambda <= request->w_max_lambda ? request->w_min_lambda : 0;
    const w_range w = {low, fmax(low, request->w_max_lambda)};
    memset(plan, 0, sizeof *plan);
    plan->cost_s = HUGE_VAL;
    for (int width = least_width; width <= most_width; width++) MSI_TRY(try_width(plan, request, w, width));
    msi_wgrid_geometry *g = &plan->grid;
    if (!g->width)
        return msi_error_about(
            msi_error_set(MSI_ERANGE,
                          "accuracy %g cannot be reached by windows of up to %d cells for an image of %lld x %lld",
                          request->accuracy, most_width, (long long)image->nx, (long long)image->ny),
            "accuracy");
    msi_wgrid_plan_lay_tiles(plan, MAX_BUCKETS);
    g->u_cells_per_m_hz = -(double)g->nu * image->cell_x_rad / MSI_SPEED_OF_LIGHT;
    g->v_cells_per_m_hz = (double)g->nv * image->cell_y_rad / MSI_SPEED_OF_LIGHT;
    g->w_lambda_per_m_hz = 1 / MSI_SPEED_OF_LIGHT;
    g->l_center_rad = request->l_center_rad;
    g->m_center_rad = request->m_center_rad;
    g->beyond = request->beyond;
    plan->v_reach = (int64_t)fmin((double)g->nv, ceil(request->longest_lambda * image->cell_y_rad * (double)g->nv));
    g->u_limit = 0.5 * (double)g->nu;
    g->v_limit = 0.5 * (double)g->nv;
    return MSI_OK;
}

/* Mark the parts of the v axis with samples of a segment. */
static void mark_parts(const msi_wgrid_plan *plan, const msi_vis_segment *s, uint8_t *has_part)
{
    double low_hz = HUGE_VAL, high_hz = 0;
    for (int32_t c = 0; c < s->n_chan; c++) {
        low_hz = fmin(low_hz, s->freq_hz[c]);
        high_hz = fmax(high_hz, s->freq_hz[c]);
    }
    const double per_m_hz = plan->image.cell_y_rad / MSI_SPEED_OF_LIGHT * MSI_V_PARTS;
    for (int64_t row = 0; row < s->n_row; row++) {
        const double *uvw = s->uvw_m + 3 * row;
        const double v = uvw[2] < 0 ? -uvw[1] : uvw[1]; /* see msi_locate */
        const double a = v * low_hz * per_m_hz, b = v * high_hz * per_m_hz, half = 0.5 * MSI_V_PARTS;
        /* Samples beyond the grid are not in the store of an image. */
        const int first = (int)fmax(0, floor(fmin(a, b) + half)),
                  last = (int)fmin(MSI_V_PARTS - 1, floor(fmax(a, b) + half));
        for (int k = first; k <= last; k++) has_part[k] = 1;
    }
}

void msi_wgrid_plan_find_parts(msi_wgrid_plan *plan, const msi_plan_request *request)
{
    const msi_vis_store *s = request->store;
    memset(plan->has_part, 0, sizeof plan->has_part);
    plan->knows_parts = s && !s->gpu && !s->bytes_file && !request->spec->predict;
    if (!plan->knows_parts) return;
#pragma omp parallel
    {
        uint8_t of_thread[MSI_V_PARTS] = {0};
#pragma omp for schedule(static)
        for (int64_t i = 0; i < s->n_segment; i++) mark_parts(plan, &s->segment[i], of_thread);
#pragma omp critical
        for (int k = 0; k < MSI_V_PARTS; k++) plan->has_part[k] |= of_thread[k];
    }
}

void msi_wgrid_plan_report(const msi_wgrid_plan *plan, msi_gridder_report *report)
{
    const msi_wgrid_geometry *g = &plan->grid;
    report->width = g->width;
    report->w_width = g->w_width;
    report->nu = g->nu;
    report->nv = g->nv;
    report->n_w = g->n_w;
    report->w_step = g->w_step;
    report->n_tower = report->tower_planes = report->subgrid = 0;
    report->error_estimate = plan->error_estimate;
}

int64_t msi_wgrid_plan_least_device_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request,
                                          int64_t worked_cells)
{
    const int64_t cells = plan->grid.nu * plan->grid.nv, plane = cells * msi_complex_bytes(plan->precision);
    const int64_t image = msi_image_n_pixel(&plan->image) * msi_image_pixel_bytes(plan->precision);
    const msi_gridder_spec *s = request->spec;
    return plane * (cells >= worked_cells ? 2 : 1) + image * (s->residual ? 0 : s->predict ? request->n_image : 1);
}
