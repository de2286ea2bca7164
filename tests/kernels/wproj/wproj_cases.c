/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/kernels/wproj/wproj_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/support/direct_sum.h"

/* clang-format off */
const msi_case msi_wproj_cases[MSI_N_WPROJ_CASE] = {
    {.name = "vla", .nx = 300, .ny = 300, .field_x_rad = 0.02, .w_ratio = 1.2, .n_row = 2500, .n_chan = 4, .band = 1.1},
    {.name = "skalow", .nx = 200, .ny = 200, .field_x_rad = 0.35, .w_ratio = 0.5, .n_row = 2000, .n_chan = 4,
     .band = 1.4, .layout = CONCENTRATED},
    {.name = "hemisphere", .nx = 80, .ny = 80, .field_x_rad = 2.1, .w_ratio = 0.4, .n_row = 1000, .n_chan = 2,
     .band = 1.2},
    {.name = "oblong", .nx = 200, .ny = 120, .field_x_rad = 0.1, .stretch_y = 1.7, .w_ratio = 1.0, .n_row = 2500,
     .n_chan = 3, .band = 1.5, .layout = CONCENTRATED},
    {.name = "small", .nx = 16, .ny = 24, .field_x_rad = 0.01, .w_ratio = 1.0, .n_row = 300, .n_chan = 2, .band = 1.1},
    {.name = "flat", .nx = 128, .ny = 128, .field_x_rad = 1e-5, .w_ratio = 0.5, .n_row = 2000, .n_chan = 2,
     .band = 1.1},
};

const msi_case msi_wproj_outside = {
    .name = "outside", .nx = 64, .ny = 50, .field_x_rad = 0.05, .stretch_y = 1.3, .w_ratio = 0.5, .n_row = 400,
    .n_chan = 3, .band = 1.1};
/* clang-format on */

msi_gridder_spec msi_wproj_spec(const msi_case_data *d, double accuracy, const char *strategy)
{
    return (msi_gridder_spec){.geometry = d->geometry,
                              .n_plane = d->block.n_plane,
                              .accuracy = accuracy,
                              .backend = MSI_BACKEND_CPU,
                              .method = "wproj",
                              .strategy = strategy};
}

/* Compute the largest error over n pixels: corners, edges and centre first. */
static double largest_error(const msi_case_data *d, const msi_image *image, int64_t n, uint64_t seed)
{
    int64_t nx = d->geometry.nx, ny = d->geometry.ny;
    int64_t *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
    double *truth = calloc((size_t)n, sizeof *truth), worst = 0;
    assert_true(x && y && truth);
    for (int64_t i = 0; i < n; i++) {
        const int64_t xs[3] = {0, nx / 2, nx - 1}, ys[3] = {0, ny / 2, ny - 1};
        int at_edge = i % 2;
        x[i] = i < 9 ? xs[i % 3] : (int64_t)(msi_random(&seed) * (double)(at_edge ? 2 : nx));
        y[i] = i < 9 ? ys[i / 3] : (int64_t)(msi_random(&seed) * (double)ny);
    }
    msi_direct_sum(&d->block, 0, &d->geometry, &(msi_pixels){n, x, y}, truth);
    for (int64_t i = 0; i < n; i++) {
        double value = msi_pixel_at(image, y[i] * nx + x[i]);
        if (isnan(value) != isnan(truth[i]))
            fail_msg("pixel %lld, %lld is %g, not %g", (long long)x[i], (long long)y[i], value, truth[i]);
        worst = fmax(worst, fabs(value - truth[i])); /* both NaN beyond the horizon, which fmax passes over */
    }
    free(x);
    free(y);
    free(truth);
    return worst;
}

double msi_error_to_peak(const msi_case_data *d, const msi_image *image, int64_t n, uint64_t seed)
{
    double peak = 0;
    for (int64_t i = 0; i < msi_image_n_pixel(&d->geometry); i++) peak = fmax(peak, fabs(msi_pixel_at(image, i)));
    return largest_error(d, image, n, seed) / peak;
}

double msi_error_to_amplitude(const msi_case_data *d, const msi_image *image, int64_t n, uint64_t seed)
{
    double sum = 0, weights = 0;
    for (int64_t i = 0; i < d->block.n_row * d->block.n_chan; i++) {
        sum += (double)d->weight[i] * hypot(d->vis[i].re, d->vis[i].im);
        weights += (double)d->weight[i];
    }
    return largest_error(d, image, n, seed) * weights / sum;
}

void msi_check_estimate(const char *what, double accuracy, double error, double estimate)
{
    printf("  %-22s accuracy %.0e: error %.1e, estimate %.1e\n", what, accuracy, error, estimate);
    if (!(estimate <= accuracy)) fail_msg("estimate %g for accuracy %g", estimate, accuracy);
    if (!(error <= estimate)) fail_msg("error %g, but the estimate is %g", error, estimate);
    if (!(estimate <= 30 * error)) fail_msg("error %g, and an estimate as large as %g", error, estimate);
}

msi_wproj_request msi_parts_request(const msi_wproj_parts *d, double accuracy, msi_precision precision)
{
    return (msi_wproj_request){.image = d->data.geometry,
                               .accuracy = accuracy,
                               .precision = precision,
                               .n_image = 1,
                               .n_sample = d->store.n_sample,
                               .w_min_lambda = d->store.w_min_lambda,
                               .w_max_lambda = d->store.w_max_lambda,
                               .cost = &msi_wproj_cpu_cost};
}

void msi_check_edge(msi_backend backend, const char *strategy)
{
    const msi_case c = {
        .name = "edge", .nx = 64, .ny = 64, .field_x_rad = 0.05, .w_ratio = 0.5, .n_row = 400, .n_chan = 1};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    double limit_m = 0.5 / data.geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / data.freq_hz[0];
    int64_t expected = 0;
    for (int64_t row = 0; row < c.n_row; row++) {
        double *uvw = data.uvw_m + 3 * row;
        if (row % 3 == 0) uvw[row % 2] = (row % 4 < 2 ? 1 : -1) * limit_m * (1 - 1e-12);
        if (row % 7 == 1) {
            uvw[row % 2] = limit_m * (1 + 1e-9 + (double)row);
            expected += data.weight[row] > 0;
        }
    }
    msi_gridder_spec spec = msi_wproj_spec(&data, 1e-3, strategy);
    spec.backend = backend;
    msi_case_image(&data, &spec, &image, &report);
    assert_int_equal(report.n_outside, expected);
    assert_true(msi_error_to_peak(&data, &image, 200, 3) <= 1e-3);
    msi_image_free(&image);
    msi_case_free(&data);
}

void msi_check_nothing(msi_backend backend, const char *strategy)
{
    const msi_case c = {
        .name = "nothing", .nx = 32, .ny = 32, .field_x_rad = 0.05, .w_ratio = 0.5, .n_row = 20, .n_chan = 1};
    msi_case_data data;
    msi_image image;
    msi_gridder_report report;
    msi_case_make(&data, &c, 3);
    memset(data.weight, 0, sizeof *data.weight * 20);
    msi_gridder_spec spec = msi_wproj_spec(&data, 1e-2, strategy);
    spec.backend = backend;
    msi_case_image(&data, &spec, &image, &report);
    for (int64_t i = 0; i < 32 * 32; i++) assert_true(isnan(msi_pixel_at(&image, i)));
    msi_image_free(&image);
    msi_case_free(&data);
}

void msi_parts_store(msi_wproj_parts *d, const msi_case *c, msi_precision precision, uint64_t seed)
{
    memset(d, 0, sizeof *d);
    msi_case_make(&d->data, c, seed);
    msi_vis_store_init(&d->store, d->data.block.n_plane, precision, 0.5 / d->data.geometry.cell_x_rad,
                       0.5 / d->data.geometry.cell_y_rad, 0, NULL);
    assert_int_equal(msi_vis_store_add(&d->store, &d->data.block), 0);
}

void msi_parts_plan(msi_wproj_parts *d, const msi_wproj_request *request)
{
    msi_wkernel_spec spec;
    double *w_lambda;
    if (msi_wproj_plan_make(&d->plan, request)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_wproj_kernel_spec(&d->plan, &spec, &w_lambda), 0);
    assert_int_equal(msi_wkernel_make(&d->kernels, &spec), 0);
    assert_true(d->kernels.n_element * msi_complex_bytes(d->plan.precision) == d->plan.table_bytes);
    msi_free(w_lambda);
}

void msi_parts_free(msi_wproj_parts *d)
{
    msi_wkernel_free(&d->kernels);
    msi_wproj_plan_free(&d->plan);
    msi_vis_store_free(&d->store);
    msi_case_free(&d->data);
}

void msi_parts_image(const msi_wproj_parts *d, msi_image *image)
{
    const int plane = 0;
    msi_stage_times times = {0};
    assert_int_equal(msi_image_alloc(image, &d->data.geometry, 1, d->plan.precision), 0);
    image->sum_weight[0] = d->store.sum_weight[0];
    assert_int_equal(msi_wproj_cpu_image(&d->plan, &d->kernels, MSI_WPROJ_CPU_TILE, &d->store, &plane, image, &times),
                     0);
}

void msi_parts_coordinates(const msi_wproj_parts *d, msi_vis_store *store)
{
    msi_vis_store_init(store, d->data.block.n_plane, d->plan.precision, HUGE_VAL, HUGE_VAL, 0, NULL);
    store->coordinates = 1;
    assert_int_equal(msi_vis_store_add(store, &d->data.block), 0);
}

double msi_store_difference(const msi_vis_store *a, const msi_vis_store *b)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < a->n_segment; i++) {
        const msi_vis_segment *s = &a->segment[i], *t = &b->segment[i];
        for (int p = 0; p < a->n_plane; p++)
            for (int64_t k = 0; k < 2 * s->n_row * s->n_chan; k++) {
                double x = msi_image_value(s->vis, a->precision, 2 * msi_segment_index(s, p, 0, 0) + k);
                double y = msi_image_value(t->vis, a->precision, 2 * msi_segment_index(t, p, 0, 0) + k);
                difference += (x - y) * (x - y);
                norm += y * y;
            }
    }
    return sqrt(difference / norm);
}

const msi_wproj_choice msi_wproj_choices[MSI_N_WPROJ_CHOICE] = {
    {"separable", 1e-2, MSI_WPROJ_FORM_SEPARABLE, 0, 0, 0},
    {"separable 1e-3", 1e-3, MSI_WPROJ_FORM_SEPARABLE, 0, 0, 0},
    {"one slice", 1e-2, MSI_WPROJ_FORM_SEPARABLE, 0, 0, 1},
    {"seven slices", 1e-2, MSI_WPROJ_FORM_SEPARABLE, 0, 0, 7},
    {"square roots", 1e-2, MSI_WPROJ_FORM_SEPARABLE, MSI_WPROJ_SPACING_SQRT, 0, 2},
    {"nearest", 1e-2, MSI_WPROJ_FORM_SEPARABLE, 0, MSI_KERNEL_NEAREST, 0},
    {"full", 1e-2, MSI_WPROJ_FORM_FULL, 0, 0, 0},
    {"full, square roots", 1e-2, MSI_WPROJ_FORM_FULL, MSI_WPROJ_SPACING_SQRT, 0, 3},
    {"full, nearest", 1e-1, MSI_WPROJ_FORM_FULL, 0, MSI_KERNEL_NEAREST, 0},
    {"full 1e-3", 1e-3, MSI_WPROJ_FORM_FULL, 0, 0, 0},
};
msi_wproj_request msi_parts_request_with(const msi_wproj_parts *d, const msi_wproj_choice *c, msi_precision precision)
{
    msi_wproj_request r = msi_parts_request(d, c->accuracy, precision);
    r.form = c->form;
    r.spacing = c->spacing;
    r.lookup = c->lookup;
    r.n_slice = c->n_slice;
    return r;
}
