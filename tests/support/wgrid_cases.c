/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/wgrid_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/strategy.h"
#include "tests/support/direct_sum.h"

double msi_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int64_t msi_random_whole(uint64_t *state, int64_t from, int64_t to)
{
    return from + (int64_t)(msi_random(state) * (double)(to - from + 1));
}

msi_case msi_case_adjoint(uint64_t seed, int64_t step, int64_t most_steps, double decades, int64_t most_rows,
                          uint64_t *random)
{
    *random = seed * 7919;
    msi_case c = {.name = "adjoint", .n_plane = 1, .band = 1.3, .layout = seed % 2 ? SPREAD : CONCENTRATED};
    c.nx = step * msi_random_whole(random, 4, most_steps);
    c.ny = step * msi_random_whole(random, 4, most_steps);
    c.field_x_rad = pow(10, -3 + decades * msi_random(random));
    c.stretch_y = 0.6 + msi_random(random);
    c.w_ratio = 0.1 + msi_random(random);
    c.n_row = msi_random_whole(random, 1, most_rows);
    c.n_chan = (int32_t)msi_random_whole(random, 1, 5);
    return c;
}

static double gaussian(uint64_t *state)
{
    double r = sqrt(-2 * log(1 - msi_random(state)));
    return r * cos(2 * MSI_PI * msi_random(state));
}

/* Return a case with defaults for omitted members. */
static msi_case whole_case(const msi_case *c)
{
    msi_case whole = *c;
    if (whole.stretch_y == 0) whole.stretch_y = 1;
    if (whole.n_plane == 0) whole.n_plane = 1;
    if (whole.band == 0) whole.band = 1;
    return whole;
}

void msi_case_make(msi_case_data *d, const msi_case *given, uint64_t seed)
{
    const msi_case whole = whole_case(given), *c = &whole;
    memset(d, 0, sizeof *d);
    d->geometry.nx = c->nx;
    d->geometry.ny = c->ny;
    d->geometry.cell_x_rad = c->field_x_rad / (double)c->nx;
    d->geometry.cell_y_rad = d->geometry.cell_x_rad * c->stretch_y;
    int64_t n = c->n_row * c->n_chan * c->n_plane;
    d->uvw_m = calloc((size_t)c->n_row * 3, sizeof(double));
    d->freq_hz = calloc((size_t)c->n_chan, sizeof(double));
    d->vis = calloc((size_t)n, sizeof *d->vis);
    d->weight = calloc((size_t)n, sizeof *d->weight);
    assert_true(d->uvw_m && d->freq_hz && d->vis && d->weight);
    double top_hz = 1.4e9;
    for (int32_t k = 0; k < c->n_chan; k++)
        d->freq_hz[k] = top_hz * (1 - (1 - 1 / c->band) * (c->n_chan - 1 - k) / (c->n_chan > 1 ? c->n_chan - 1 : 1));
    double u_reach = 0.49 / d->geometry.cell_x_rad * MSI_SPEED_OF_LIGHT / top_hz;
    double v_reach = 0.49 / d->geometry.cell_y_rad * MSI_SPEED_OF_LIGHT / top_hz;
    for (int64_t row = 0; row < c->n_row; row++) {
        double r = sqrt(msi_random(&seed)), a = 2 * MSI_PI * msi_random(&seed);
        if (c->layout == CONCENTRATED) r = r * r * r;
        if (c->layout == CORE) r *= 0.03;
        d->uvw_m[3 * row] = r * cos(a) * u_reach;
        d->uvw_m[3 * row + 1] = r * sin(a) * v_reach;
        d->uvw_m[3 * row + 2] =
            (2 * msi_random(&seed) - 1) * (c->layout == SPREAD ? 1 : sqrt(r)) * c->w_ratio * u_reach;
    }
    for (int64_t i = 0; i < n; i++) {
        d->vis[i].re = (float)(gaussian(&seed) + (c->layout == CORE ? 10 : 0));
        d->vis[i].im = (float)gaussian(&seed);
        d->weight[i] = msi_random(&seed) < 0.1 ? 0 : (float)(0.1 + 1.9 * msi_random(&seed));
    }
    d->block = (msi_vis_block){c->n_row, c->n_chan, c->n_plane, d->uvw_m, d->freq_hz, d->vis, d->weight, NULL, NULL};
}

void msi_case_free(msi_case_data *d)
{
    free(d->uvw_m);
    free(d->freq_hz);
    free(d->vis);
    free(d->weight);
    memset(d, 0, sizeof *d);
}

/* Return whether a strategy of the default gridder is compiled in and its backend is available. */
static int is_available(const char *strategy, msi_backend backend)
{
    const msi_strategy *s = msi_strategy_find("wgrid", strategy, backend);
    return s && msi_strategy_available(s);
}

msi_wgrid_request msi_case_request(const msi_image_geometry *image, const msi_vis_store *store, double accuracy,
                                   msi_precision precision, const msi_cost_model *cost)
{
    return (msi_wgrid_request){.image = *image,
                               .accuracy = accuracy,
                               .precision = precision,
                               .n_sample = store->n_sample,
                               .w_min_lambda = store->w_min_lambda,
                               .w_max_lambda = store->w_max_lambda,
                               .cost = cost};
}

int msi_case_choose(int argc, char **argv, msi_case_choice *chosen)
{
    *chosen = (msi_case_choice){.backend = MSI_BACKEND_CPU, .strategy = "planes", .is_planes = 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "brief") == 0) chosen->brief = 1;
        if (strcmp(argv[i], "subgrid") == 0) {
            chosen->strategy = "subgrid";
            chosen->is_planes = 0;
        }
        if (strcmp(argv[i], "tiles") == 0) {
            chosen->n_tile = 3;
            chosen->is_planes = 0;
        }
        if (strcmp(argv[i], "cuda") == 0) {
            chosen->backend = MSI_BACKEND_CUDA;
            chosen->on_gpu = 1;
        }
    }
    if (is_available(chosen->strategy, chosen->backend)) return 0;
    printf("skipped: %s\n", msi_backend_describe());
    return 77;
}

msi_gridder_spec msi_case_spec(const msi_case_choice *chosen, const msi_image_geometry *geometry, int n_plane,
                               double accuracy)
{
    return (msi_gridder_spec){.geometry = *geometry,
                              .n_plane = n_plane,
                              .strategy = chosen->strategy,
                              .accuracy = accuracy,
                              .backend = chosen->backend,
                              .n_tile = chosen->n_tile};
}

void msi_case_w_range(const msi_case_data *d, double *w_min_lambda, double *w_max_lambda)
{
    const msi_vis_block *b = &d->block;
    *w_min_lambda = HUGE_VAL;
    *w_max_lambda = 0;
    for (int64_t i = 0; i < b->n_row * b->n_chan; i++) {
        double w = fabs(d->uvw_m[i / b->n_chan * 3 + 2]) * d->freq_hz[i % b->n_chan] / MSI_SPEED_OF_LIGHT;
        *w_min_lambda = fmin(*w_min_lambda, w);
        *w_max_lambda = fmax(*w_max_lambda, w);
    }
}

int msi_case_serves(const msi_case_data *d, const msi_gridder_spec *spec)
{
    msi_gridder *g;
    msi_gridder_report report;
    double w_min, w_max;
    int64_t n = d->block.n_row * d->block.n_chan;
    msi_case_w_range(d, &w_min, &w_max);
    int rc = msi_gridder_create(&g, spec);
    if (!rc) rc = msi_gridder_estimate(g, n, d->block.n_row, w_min, w_max, &report);
    if (rc && (rc != MSI_ERANGE || !spec->strategy || strcmp(spec->strategy, "planes") == 0))
        fail_msg("%s", msi_error_get());
    msi_gridder_free(g);
    return !rc;
}

void msi_case_image(const msi_case_data *d, const msi_gridder_spec *spec, msi_image *image, msi_gridder_report *report)
{
    msi_gridder *g;
    int rc = msi_gridder_create(&g, spec);
    if (!rc) rc = msi_gridder_add(g, &d->block);
    if (!rc) rc = msi_gridder_image(g, image);
    if (rc) fail_msg("%s", msi_error_get());
    msi_gridder_report_get(g, report);
    msi_gridder_free(g);
}

void msi_case_truth_make(msi_case_truth *truth, const msi_case_data *d, int store_plane, int64_t n_pixel, uint64_t seed)
{
    const int64_t nx = d->geometry.nx, ny = d->geometry.ny;
    const int64_t xs[3] = {0, nx / 2, nx - 1}, ys[3] = {0, ny / 2, ny - 1};
    assert_true(n_pixel <= MSI_CASE_PIXELS);
    truth->n = n_pixel;
    for (int64_t i = 0; i < n_pixel; i++) {
        truth->x[i] = i < 9 ? xs[i % 3] : (int64_t)(msi_random(&seed) * (double)nx);
        truth->y[i] = i < 9 ? ys[i / 3] : (int64_t)(msi_random(&seed) * (double)ny);
    }
    msi_direct_sum(&d->block, store_plane, &d->geometry, &(msi_pixels){n_pixel, truth->x, truth->y}, truth->value);
}

double msi_case_truth_error(const msi_case_truth *truth, const msi_image *image, int plane)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < truth->n; i++) {
        const int64_t x = truth->x[i], y = truth->y[i];
        const double expected = truth->value[i];
        const double value = msi_pixel_at(image, (plane * image->geometry.ny + y) * image->geometry.nx + x);
        if (isnan(expected)) {
            assert_true(isnan(value));
            continue;
        }
        if (isnan(value)) fail_msg("pixel %lld, %lld is NaN", (long long)x, (long long)y);
        difference += (value - expected) * (value - expected);
        norm += expected * expected;
    }
    return sqrt(difference / norm);
}

double msi_case_error(const msi_case_data *d, const msi_image *image, int plane, int store_plane, int64_t n_pixel,
                      uint64_t seed)
{
    msi_case_truth truth;
    msi_case_truth_make(&truth, d, store_plane, n_pixel, seed);
    return msi_case_truth_error(&truth, image, plane);
}

void msi_case_pixels_draw(msi_case_pixels *p, const msi_image_geometry *g, int64_t n, uint64_t seed)
{
    assert_true(n <= MSI_CASE_PIXELS && n <= msi_image_n_pixel(g));
    p->n = 0;
    for (int64_t i = 0; p->n < n; i++) {
        const int64_t xs[3] = {0, g->nx / 2, g->nx - 1}, ys[3] = {0, g->ny / 2, g->ny - 1};
        int64_t x = i < 9 ? xs[i % 3] : (int64_t)(msi_random(&seed) * (double)g->nx);
        int64_t y = i < 9 ? ys[i / 3] : (int64_t)(msi_random(&seed) * (double)g->ny), k = 0;
        while (k < p->n && (p->x[k] != x || p->y[k] != y)) k++;
        if (k < p->n) continue;
        p->x[k] = x;
        p->y[k] = y;
        p->flux_jy[k] = (double)(float)gaussian(&seed);
        p->n++;
    }
}

static void set_pixel(msi_image *image, int64_t at, double value)
{
    if (image->precision == MSI_FP32)
        ((float *)image->pixel)[at] = (float)value;
    else
        ((double *)image->pixel)[at] = value;
}

void msi_case_model(msi_image *model, const msi_image_geometry *g, int n_plane, const msi_case_pixels *pixels,
                    msi_precision precision)
{
    int64_t n = msi_image_n_pixel(g);
    assert_int_equal(msi_image_alloc(model, g, n_plane, precision), 0);
    for (int p = 0; p < n_plane; p++) {
        for (int64_t i = 0; i < pixels[p].n; i++)
            set_pixel(model, p * n + pixels[p].y[i] * g->nx + pixels[p].x[i], pixels[p].flux_jy[i]);
        for (int64_t i = 0; i < n; i++) {
            double l = (double)(g->nx / 2 - i % g->nx) * g->cell_x_rad;
            double m = (double)(i / g->nx - g->ny / 2) * g->cell_y_rad;
            if (l * l + m * m >= 1) set_pixel(model, p * n + i, NAN);
        }
    }
}

void msi_case_predict(const msi_case_data *d, const msi_gridder_spec *spec, const msi_image *model, msi_c64 *vis,
                      msi_gridder_report *report)
{
    msi_gridder *g;
    msi_gridder_spec predict = *spec;
    predict.predict = 1;
    int rc = msi_gridder_create(&g, &predict);
    if (!rc) rc = msi_gridder_model(g, model);
    if (!rc) rc = msi_gridder_add(g, &d->block);
    if (!rc) rc = msi_gridder_predict(g);
    if (!rc) rc = msi_gridder_fetch(g, d->block.n_row, d->block.n_chan, d->freq_hz, vis);
    if (rc) fail_msg("%s", msi_error_get());
    msi_gridder_report_get(g, report);
    msi_gridder_free(g);
}

void *msi_test_alloc(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

void msi_field_make(msi_field *f, const msi_case *c, int64_t n_pixel, uint64_t seed)
{
    msi_case_make(&f->data, c, seed);
    const int n_plane = f->data.block.n_plane;
    f->n = c->n_row * c->n_chan;
    f->pixels = msi_test_alloc(n_plane, sizeof *f->pixels);
    f->truth = msi_test_alloc(n_plane * f->n, sizeof *f->truth);
    f->vis = msi_test_alloc(n_plane * f->n, sizeof *f->vis);
    for (int p = 0; p < n_plane; p++)
        msi_case_pixels_draw(&f->pixels[p], &f->data.geometry, n_pixel, seed + 100 + (uint64_t)p);
}

void msi_field_free(msi_field *f)
{
    msi_case_free(&f->data);
    free(f->pixels);
    free(f->truth);
    free(f->vis);
}

void msi_field_truth(msi_field *f)
{
    for (int p = 0; p < f->data.block.n_plane; p++) {
        const msi_case_pixels *x = &f->pixels[p];
        msi_direct_visibility(&f->data.block, &f->data.geometry, &(msi_pixels){x->n, x->x, x->y}, x->flux_jy,
                              f->truth + p * f->n);
    }
}

void msi_field_predict(msi_field *f, const msi_gridder_spec *spec, msi_gridder_report *report)
{
    msi_image model;
    msi_precision precision = spec->precision == MSI_PRECISION_AUTO   ? msi_precision_for(spec->accuracy)
                              : spec->precision == MSI_PRECISION_FP32 ? MSI_FP32
                                                                      : MSI_FP64;
    msi_case_model(&model, &f->data.geometry, f->data.block.n_plane, f->pixels, precision);
    msi_case_predict(&f->data, spec, &model, f->vis, report);
    msi_image_free(&model);
}

double msi_vis_distance(const msi_c64 *vis, const msi_c64 *truth, int64_t n, double *worst)
{
    double sum = 0, most = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double re = vis[i].re - truth[i].re, im = vis[i].im - truth[i].im, square = re * re + im * im;
        if (isnan(square)) fail_msg("visibility %lld is NaN", (long long)i);
        sum += square;
        most = fmax(most, square);
        norm += truth[i].re * truth[i].re + truth[i].im * truth[i].im;
    }
    *worst = sqrt(most * (double)n / norm);
    return sqrt(sum / norm);
}

double msi_pixel_at(const msi_image *image, int64_t at)
{
    return msi_image_value(image->pixel, image->precision, at);
}

double msi_image_difference(const msi_image *image, const msi_image *truth, int plane)
{
    int64_t n = msi_image_n_pixel(&truth->geometry);
    double difference = 0, norm = 0;
    for (int64_t i = plane * n; i < (plane + 1) * n; i++) {
        double x = msi_pixel_at(image, i), y = msi_pixel_at(truth, i);
        if (isnan(x) != isnan(y)) fail_msg("pixel %lld is %g, not %g", (long long)(i - plane * n), x, y);
        if (isnan(x)) continue;
        difference += (x - y) * (x - y);
        norm += y * y;
    }
    return sqrt(difference / norm);
}

void msi_case_noise(msi_image *model, const msi_image_geometry *geometry, msi_precision precision, uint64_t *random)
{
    const msi_case_pixels none = {0};
    msi_case_model(model, geometry, 1, &none, precision);
    for (int64_t i = 0; i < geometry->nx * geometry->ny; i++) {
        double value = msi_random(random) - 0.5;
        if (isnan(msi_pixel_at(model, i))) continue;
        if (precision == MSI_FP32)
            ((float *)model->pixel)[i] = (float)value;
        else
            ((double *)model->pixel)[i] = value;
    }
}

double msi_image_product(const msi_image *a, const msi_image *b)
{
    double sum = 0;
    for (int64_t i = 0; i < msi_image_n_pixel(&a->geometry); i++)
        if (!isnan(msi_pixel_at(a, i))) sum += msi_pixel_at(a, i) * msi_pixel_at(b, i);
    return sum;
}

double msi_vis_product(const msi_c64 *a, const msi_c64 *b, int64_t n, double *norm)
{
    double sum = 0, of_a = 0, of_b = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i].re * b[i].re + a[i].im * b[i].im;
        of_a += a[i].re * a[i].re + a[i].im * a[i].im;
        of_b += b[i].re * b[i].re + b[i].im * b[i].im;
    }
    *norm = sqrt(of_a * of_b);
    return sum;
}
