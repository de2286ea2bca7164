/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images away from the phase centre, imaging and predicting, against the definition in long double: test_center
 * cpu|cuda [subgrid]. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/support/wgrid_cases.h"

static msi_case_choice chosen;

/* The direction of pixel (nx/2, ny/2). */
typedef struct direction {
    double l, m;
} direction;

static const direction centers[] = {{0.1, -0.06}, {0, 0.31}, {-0.42, 0.3}};
enum { N_CENTER = sizeof centers / sizeof *centers, N_PIXEL = 60 };

static const msi_case field = {
    .nx = 60, .ny = 84, .field_x_rad = 0.2, .stretch_y = 0.8, .w_ratio = 1, .n_row = 300, .n_chan = 3, .band = 1.3};

/* Subgrids need a larger grid. */
static const msi_case wide = {.nx = 240,
                              .ny = 280,
                              .field_x_rad = 0.2,
                              .stretch_y = 0.8,
                              .w_ratio = 0.25,
                              .n_row = 300,
                              .n_chan = 3,
                              .band = 1.3};

static const double accuracies[] = {1e-2, 1e-4, 1e-5, 1e-8, 1e-12};
enum { N_ACCURACY = sizeof accuracies / sizeof *accuracies };

/* With a strategy every second accuracy is tried, from 1e-4 on. */
static int first_accuracy(void)
{
    return chosen.strategy != NULL;
}

/* Compute the turns of a sample's phase at the image's centre, by which the caller turns visibilities. */
static long double turns_to(const msi_vis_block *b, int64_t i, direction to)
{
    const double *uvw = b->uvw_m + 3 * (i / b->n_chan);
    return (uvw[0] * (long double)to.l + uvw[1] * (long double)to.m) * b->freq_hz[i % b->n_chan] / MSI_SPEED_OF_LIGHT;
}

/* Compute the turns of a sample's phase at a pixel, by the definition. */
static long double turns_at(const msi_case_data *d, int64_t i, direction center, int64_t x, int64_t y)
{
    const msi_image_geometry *g = &d->geometry;
    const long double l = center.l + (long double)(g->nx / 2 - x) * g->cell_x_rad,
                      m = center.m + (long double)(y - g->ny / 2) * g->cell_y_rad, r2 = l * l + m * m;
    const double *uvw = d->uvw_m + 3 * (i / d->block.n_chan);
    return (uvw[0] * l + uvw[1] * m - uvw[2] * r2 / (1 + sqrtl(1 - r2))) * d->freq_hz[i % d->block.n_chan] /
           MSI_SPEED_OF_LIGHT;
}

static double complex unit(long double turns)
{
    return cexp(2 * MSI_PI * I * (double)(turns - rintl(turns)));
}

static msi_gridder_spec spec_of(const msi_case_data *d, direction center, double accuracy)
{
    msi_gridder_spec spec = msi_case_spec(&chosen, &d->geometry, 1, accuracy);
    spec.l_center_rad = center.l;
    spec.m_center_rad = center.m;
    return spec;
}

static void turn(msi_case_data *d, direction to)
{
    for (int64_t i = 0; i < d->block.n_row * d->block.n_chan; i++) {
        const double complex v = (d->vis[i].re + I * d->vis[i].im) * unit(-turns_to(&d->block, i, to));
        d->vis[i] = (msi_c64){creal(v), cimag(v)};
    }
}

/* The image agrees with the definition at N_PIXEL random pixels. Visibilities are made for one centre only. */
static void check_images(msi_case_data *d, direction center)
{
    const int64_t n = d->block.n_row * d->block.n_chan;
    double truth[N_PIXEL], norm = 0, sum_weight = 0;
    int64_t x[N_PIXEL], y[N_PIXEL];
    uint64_t random = 5;
    for (int64_t i = 0; i < n; i++) sum_weight += (double)d->weight[i];
    for (int p = 0; p < N_PIXEL; p++) {
        x[p] = p ? msi_random_whole(&random, 0, d->geometry.nx - 1) : 0;
        y[p] = p ? msi_random_whole(&random, 0, d->geometry.ny - 1) : 0;
        truth[p] = 0;
        for (int64_t i = 0; i < n; i++)
            truth[p] += (double)d->weight[i] *
                        creal((d->vis[i].re + I * d->vis[i].im) * unit(-turns_at(d, i, center, x[p], y[p])));
        truth[p] /= sum_weight;
        norm += truth[p] * truth[p];
    }
    turn(d, center);
    for (int a = first_accuracy(); a < N_ACCURACY; a += 1 + first_accuracy()) {
        const msi_gridder_spec spec = spec_of(d, center, accuracies[a]);
        msi_image image;
        msi_gridder_report report;
        double error = 0;
        msi_case_image(d, &spec, &image, &report);
        for (int p = 0; p < N_PIXEL; p++)
            error += pow(msi_pixel_at(&image, y[p] * d->geometry.nx + x[p]) - truth[p], 2);
        error = sqrt(error / norm);
        printf("  image %g %g accuracy %.0e: error %.2e\n", center.l, center.m, accuracies[a], error);
        if (!(error <= accuracies[a])) fail_msg("relative error %g at accuracy %g", error, accuracies[a]);
        msi_image_free(&image);
    }
}

/* Visibilities predicted from a model agree with the definition. */
static void check_predictions(msi_case_data *d, direction center)
{
    enum { MODEL_PIXELS = 40 };
    const int64_t n = d->block.n_row * d->block.n_chan;
    msi_case_pixels pixels;
    msi_case_pixels_draw(&pixels, &d->geometry, MODEL_PIXELS, 9);
    msi_c64 *truth = msi_test_alloc(n, sizeof *truth), *vis = msi_test_alloc(n, sizeof *vis);
    for (int64_t i = 0; i < n; i++) {
        double complex v = 0;
        for (int64_t p = 0; p < pixels.n; p++)
            v += pixels.flux_jy[p] * unit(turns_at(d, i, center, pixels.x[p], pixels.y[p]));
        truth[i] = (msi_c64){creal(v), cimag(v)};
    }
    for (int a = first_accuracy(); a < N_ACCURACY; a += 1 + first_accuracy()) {
        msi_gridder_spec spec = spec_of(d, center, accuracies[a]);
        msi_image model;
        msi_gridder_report report;
        double worst;
        spec.predict = 1;
        msi_case_model(&model, &d->geometry, 1, &pixels, accuracies[a] < 1.5e-6 ? MSI_FP64 : MSI_FP32);
        msi_case_predict(d, &spec, &model, vis, &report);
        for (int64_t i = 0; i < n; i++) {
            const double complex v = (vis[i].re + I * vis[i].im) * unit(turns_to(&d->block, i, center));
            vis[i] = (msi_c64){creal(v), cimag(v)};
        }
        const double error = msi_vis_distance(vis, truth, n, &worst);
        printf("  visibilities %g %g accuracy %.0e: error %.2e\n", center.l, center.m, accuracies[a], error);
        if (!(error <= accuracies[a])) fail_msg("relative error %g at accuracy %g", error, accuracies[a]);
        msi_image_free(&model);
    }
    free(truth);
    free(vis);
}

static void test_centers(void **state)
{
    (void)state;
    for (int i = 0; i < N_CENTER; i += chosen.strategy ? N_CENTER - 1 : 1) {
        msi_case_data data;
        msi_case_make(&data, chosen.strategy ? &wide : &field, 13);
        check_predictions(&data, centers[i]);
        check_images(&data, centers[i]);
        msi_case_free(&data);
    }
}

/* Only the default gridder supports another centre, and the centre must be finite. */
static void test_refusals(void **state)
{
    (void)state;
    const msi_image_geometry geometry = {64, 64, 1e-3, 1e-3};
    msi_gridder_spec spec = msi_case_spec(&chosen, &geometry, 1, 1e-4);
    msi_gridder *g;
    spec.l_center_rad = NAN;
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_ERANGE);
    spec.l_center_rad = 0.1;
    spec.method = "wproj";
    spec.strategy = NULL;
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_ERANGE);
    assert_null(g);
}

int main(int argc, char **argv)
{
    const int skip = msi_case_choose(argc, argv, &chosen);
    if (skip) return skip;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_centers), cmocka_unit_test(test_refusals)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    msi_backend_await_all();
    return failed;
}
