/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Residuals of one strategy and backend against the direct sum, against separate gridders that predict and image, and
 * over many calls, changes of the samples and interrupts: test_residual cpu|cuda [planes|subgrid|tiles] [brief].
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wgrid_cases.h"

static msi_case_choice chosen;

/* clang-format off */
static const msi_case cases[] = {
    {.name = "skalow", .nx = 256, .ny = 240, .field_x_rad = 0.35, .w_ratio = 0.5, .n_row = 900, .n_chan = 5,
     .n_plane = 3, .band = 1.4, .layout = CONCENTRATED},
    {.name = "oblong", .nx = 300, .ny = 180, .field_x_rad = 0.1, .stretch_y = 1.7, .w_ratio = 1.0, .n_row = 800,
     .n_chan = 3, .n_plane = 2, .band = 1.5},
    {.name = "hemisphere", .nx = 128, .ny = 128, .field_x_rad = 2.1, .w_ratio = 0.4, .n_row = 900, .n_chan = 2,
     .n_plane = 1, .band = 1.2},
    {.name = "flat", .nx = 256, .ny = 256, .field_x_rad = 1e-5, .w_ratio = 0.5, .n_row = 800, .n_chan = 2,
     .n_plane = 2, .band = 1.1},
};
/* clang-format on */
enum { N_CASE = sizeof cases / sizeof *cases };

static msi_gridder_spec spec_of(const msi_field *f, double accuracy)
{
    msi_gridder_spec spec = msi_case_spec(&chosen, &f->data.geometry, f->data.block.n_plane, accuracy);
    spec.psf = 1;
    spec.residual = 1;
    return spec;
}

static void check(int rc)
{
    if (rc) fail_msg("code %d: %s", rc, msi_error_get());
}

/* A gridder with a field's samples, its model, and its results. */
typedef struct cycle {
    msi_gridder *g;
    msi_planes *model, *residual, *psf;
    msi_image made; /* of the residual planes, then of the PSF */
} cycle;

static void cycle_make(cycle *c, const msi_field *f, const msi_gridder_spec *spec)
{
    msi_image model;
    check(msi_gridder_create(&c->g, spec));
    check(msi_gridder_add(c->g, &f->data.block));
    check(msi_gridder_planes(c->g, spec->n_plane, &c->model));
    check(msi_gridder_planes(c->g, spec->n_plane, &c->residual));
    check(msi_gridder_planes(c->g, 1, &c->psf));
    check(msi_image_alloc(&c->made, &spec->geometry, spec->n_plane + 1, msi_gridder_precision(c->g)));
    msi_case_model(&model, &spec->geometry, spec->n_plane, f->pixels, msi_gridder_precision(c->g));
    check(msi_planes_upload(c->model, 0, spec->n_plane, model.pixel));
    msi_image_free(&model);
}

static void cycle_free(cycle *c)
{
    msi_gridder_free(c->g);
    msi_planes_free(c->model);
    msi_planes_free(c->residual);
    msi_planes_free(c->psf);
    msi_image_free(&c->made);
}

/* Make residuals, with or without the model, and the PSF. */
static void cycle_run(cycle *c, int with_model)
{
    const int n = c->made.n_plane - 1;
    const size_t plane = (size_t)(msi_image_n_pixel(&c->made.geometry) * msi_image_pixel_bytes(c->made.precision));
    check(msi_gridder_residual(c->g, with_model ? c->model : NULL, c->residual));
    check(msi_planes_fetch(c->residual, 0, n, c->made.pixel));
    check(msi_gridder_psf(c->g, c->psf));
    check(msi_planes_fetch(c->psf, 0, 1, (char *)c->made.pixel + (size_t)n * plane));
}

/* Make a random field with pixels whose visibilities are about as strong as its data, and compute the exact sums. */
static void field_make(msi_field *f, const msi_case *c)
{
    msi_field_make(f, c, chosen.brief ? 10 : 40, 11);
    for (int p = 0; p < f->data.block.n_plane; p++)
        for (int64_t i = 0; i < f->pixels[p].n; i++) f->pixels[p].flux_jy[i] = (float)(f->pixels[p].flux_jy[i] / 6);
    msi_field_truth(f);
}

/* Subtract the model from the field's data, in double (sign 1), or add it again (sign -1). */
static void subtract_truth(msi_field *f, double sign)
{
    for (int64_t i = 0; i < f->data.block.n_plane * f->n; i++) {
        f->data.vis[i].re -= sign * f->truth[i].re;
        f->data.vis[i].im -= sign * f->truth[i].im;
    }
}

/*
 * Imaging has the accuracy relative to the residuals, and so has predicting relative to the model, whose visibilities
 * are weaker than that: the sum in squares is less than 1.5 of it.
 */
static void check_direct(msi_field *f, const msi_case *c, double accuracy)
{
    const msi_gridder_spec spec = spec_of(f, accuracy);
    const int n = spec.n_plane;
    if (!msi_case_serves(&f->data, &spec)) return;
    cycle y;
    cycle_make(&y, f, &spec);
    for (int with_model = 0; with_model < 2; with_model++) {
        cycle_run(&y, with_model);
        if (with_model) subtract_truth(f, 1);
        for (int p = 0; p <= n; p++) {
            const double error = msi_case_error(&f->data, &y.made, p, p < n ? p : -1, chosen.brief ? 20 : 100, 5);
            printf("  %-10s accuracy %.0e, %s, plane %d: %.2e\n", c->name, accuracy,
                   with_model ? "less a model" : "data", p, error);
            assert_true(error <= (with_model && p < n ? 1.5 : 1) * accuracy);
        }
        if (with_model) subtract_truth(f, -1);
    }
    cycle_free(&y);
}

static void test_direct_sum(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASE; i++) {
        msi_field f;
        if (chosen.brief && strcmp(cases[i].name, "oblong") != 0) continue;
        field_make(&f, &cases[i]);
        check_direct(&f, &cases[i], 1e-3);
        check_direct(&f, &cases[i], 1e-5);
        check_direct(&f, &cases[i], 1e-9);
        msi_field_free(&f);
    }
}

/* Compare with visibilities predicted by a separate gridder, subtracted in double and imaged by a third one. They
 * differ only in the order of sums: by about 1e-6 of an image in 32 bits, and by that much less in 64 bits. */
static void check_separate(double accuracy, const msi_weighting *rule)
{
    msi_field f;
    msi_image apart;
    msi_gridder_report report;
    msi_density *density = NULL;
    field_make(&f, &cases[0]);
    msi_gridder_spec spec = spec_of(&f, accuracy);
    if (!msi_case_serves(&f.data, &spec)) {
        msi_field_free(&f);
        return;
    }
    cycle c;
    cycle_make(&c, &f, &spec);
    check(msi_density_create(&density, &spec.geometry, rule));
    check(msi_density_add(density, c.g));
    check(msi_gridder_weight(c.g, density, rule));
    cycle_run(&c, 1);

    spec.residual = 0;
    msi_field_predict(&f, &spec, &report);
    for (int64_t i = 0; i < spec.n_plane * f.n; i++) {
        f.data.vis[i].re -= f.vis[i].re;
        f.data.vis[i].im -= f.vis[i].im;
    }
    msi_gridder *g;
    check(msi_gridder_create(&g, &spec));
    check(msi_gridder_add(g, &f.data.block));
    check(msi_gridder_weight(g, density, rule));
    check(msi_gridder_image(g, &apart));
    const double tolerance = report.precision == MSI_FP32 ? 3e-6 : 3e-14;
    for (int p = 0; p <= spec.n_plane; p++) {
        const double difference = msi_image_difference(&c.made, &apart, p);
        printf("  accuracy %.0e, plane %d: %.2e from separate gridders\n", accuracy, p, difference);
        /* Plans of two gridders may differ: then both are within the accuracy. */
        assert_true(difference <= (chosen.is_planes ? tolerance : 2 * accuracy));
    }
    double sum[3];
    int64_t count[3];
    msi_gridder_weights(c.g, sum, NULL, count);
    for (int p = 0; p < spec.n_plane; p++)
        assert_true(fabs(sum[p] - apart.sum_weight[p]) <= 1e-12 * sum[p] && count[p] == apart.n_vis[p]);
    msi_gridder_free(g);
    msi_image_free(&apart);
    msi_density_free(density);
    cycle_free(&c);
    msi_field_free(&f);
}

static void test_separate_gridders(void **state)
{
    (void)state;
    const msi_weighting natural = {.mode = MSI_WEIGHT_NATURAL, .taper = {.major_rad = 1e-4}};
    const msi_weighting briggs = {.mode = MSI_WEIGHT_BRIGGS, .robust = -0.5};
    check_separate(1e-4, &natural);
    if (!chosen.brief) check_separate(1e-8, &briggs);
}

/* Compare two images of the same sums: the same bits on the CPU, the order of atomics on a GPU. */
static void check_alike(const msi_image *a, const msi_image *b)
{
    const size_t bytes = (size_t)(msi_image_n_pixel(&a->geometry) * a->n_plane * msi_image_pixel_bytes(a->precision));
    if (chosen.backend == MSI_BACKEND_CPU) assert_memory_equal(a->pixel, b->pixel, bytes);
    for (int p = 0; p < a->n_plane; p++)
        assert_true(msi_image_difference(a, b, p) <= (a->precision == MSI_FP32 ? 3e-6 : 3e-14));
}

/* If the data are the model's, only errors are left; calls in any order give the same; an image in host memory is the
 * same; the gridder works after an interrupt and after planes of another kind; added samples are included. */
static void test_calls(void **state)
{
    (void)state;
    const double accuracy = 1e-4;
    msi_field f;
    field_make(&f, &cases[0]);
    const msi_gridder_spec spec = spec_of(&f, accuracy);
    if (!msi_case_serves(&f.data, &spec)) {
        msi_field_free(&f);
        skip();
    }
    cycle c, first;
    msi_image dirty;
    memcpy(f.data.vis, f.truth, sizeof *f.truth * (size_t)(spec.n_plane * f.n));
    cycle_make(&c, &f, &spec);
    cycle_make(&first, &f, &spec);
    check(msi_gridder_image(c.g, &dirty));
    cycle_run(&c, 1);
    for (int p = 0; p < spec.n_plane; p++) {
        double left = 0, all = 0;
        for (int64_t i = 0; i < msi_image_n_pixel(&spec.geometry); i++) {
            const int64_t at = p * msi_image_n_pixel(&spec.geometry) + i;
            left += isnan(msi_pixel_at(&dirty, at)) ? 0 : pow(msi_pixel_at(&c.made, at), 2);
            all += isnan(msi_pixel_at(&dirty, at)) ? 0 : pow(msi_pixel_at(&dirty, at), 2);
        }
        assert_true(sqrt(left / all) <= 1.5 * accuracy);
    }
    cycle_run(&c, 0);
    check_alike(&c.made, &dirty);

    msi_interrupt_raise(SIGTERM);
    assert_int_equal(msi_gridder_residual(c.g, c.model, c.residual), MSI_EINTERRUPTED);
    assert_int_equal(msi_gridder_residual(first.g, first.model, first.residual), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    assert_int_equal(msi_gridder_residual(c.g, c.psf, c.residual), MSI_EINTERNAL);
    assert_int_equal(msi_gridder_residual(c.g, c.model, c.psf), MSI_EINTERNAL);
    cycle_run(&c, 0);
    check_alike(&c.made, &dirty);
    cycle_run(&first, 0);
    check_alike(&first.made, &dirty);

    /* The same samples again only change the sums. */
    double sum[4], before[4];
    int64_t count[4];
    msi_gridder_weights(c.g, before, NULL, count);
    check(msi_gridder_add(c.g, &f.data.block));
    cycle_run(&c, 0);
    msi_gridder_weights(c.g, sum, NULL, count);
    assert_true(fabs(sum[0] - 2 * before[0]) <= 1e-9 * sum[0]);
    for (int p = 0; p <= spec.n_plane; p++) assert_true(msi_image_difference(&c.made, &dirty, p) <= 2 * accuracy);
    msi_image_free(&dirty);
    cycle_free(&c);
    cycle_free(&first);
    msi_field_free(&f);
}

/* A gridder that is refined, before its first image or after it, gives the residuals and PSFs of a gridder made for
 * that accuracy. An accuracy that no plan reaches does not change it. */
static void test_refined(void **state)
{
    (void)state;
    const double coarse = 1e-3, fine = 1e-5;
    msi_field f;
    field_make(&f, &cases[0]);
    const msi_gridder_spec coarse_spec = spec_of(&f, coarse), spec = spec_of(&f, fine);
    if (!msi_case_serves(&f.data, &coarse_spec) || !msi_case_serves(&f.data, &spec)) {
        msi_field_free(&f);
        skip();
    }
    cycle c, wanted, early;
    cycle_make(&c, &f, &coarse_spec);
    cycle_make(&early, &f, &coarse_spec);
    cycle_make(&wanted, &f, &spec);
    cycle_run(&wanted, 1);
    cycle_run(&c, 1);
    assert_true(msi_image_difference(&c.made, &wanted.made, 0) > fine);
    check(msi_gridder_refine(c.g, fine));
    check(msi_gridder_refine(early.g, fine));
    cycle_run(&c, 1);
    cycle_run(&early, 1);
    check_alike(&c.made, &wanted.made);
    check_alike(&early.made, &wanted.made);
    check(msi_gridder_refine(c.g, coarse));
    assert_true(msi_gridder_refine(c.g, 1e-16) != MSI_OK);
    cycle_run(&c, 1);
    check_alike(&c.made, &wanted.made);
    cycle_free(&c);
    cycle_free(&early);
    cycle_free(&wanted);
    msi_field_free(&f);
}

/* Terms of a polynomial model: term q of plane p has the pixels of one of the field's planes times a factor. */
enum { N_TERM = 3 };
static const double term_factor[N_TERM] = {1, -0.7, 0.4};

static int pixels_of_term(const msi_field *f, int p, int q)
{
    return (p + q) % f->data.block.n_plane;
}

/* Upload the terms' images. */
static void upload_terms(const msi_field *f, const msi_gridder_spec *spec, msi_precision precision, msi_planes *planes)
{
    const int64_t n_pixel = msi_image_n_pixel(&spec->geometry);
    msi_image model;
    msi_case_model(&model, &spec->geometry, spec->n_plane, f->pixels, precision);
    double *scaled = msi_test_alloc(n_pixel, sizeof *scaled);
    for (int k = 0; k < spec->n_plane * N_TERM; k++) {
        const int64_t first = pixels_of_term(f, k / N_TERM, k % N_TERM) * n_pixel;
        for (int64_t i = 0; i < n_pixel; i++) {
            const double value = msi_pixel_at(&model, first + i) * term_factor[k % N_TERM];
            if (precision == MSI_FP32)
                ((float *)scaled)[i] = (float)value;
            else
                scaled[i] = value;
        }
        check(msi_planes_upload(planes, k, 1, scaled));
    }
    free(scaled);
    msi_image_free(&model);
}

/* Compare images of weights times x^t with direct sums of x^t (V - sum over q of x^q V_q), and the PSFs of x^k. */
static void check_terms(msi_field *f, double accuracy)
{
    const double reference_hz = 1.05 * f->data.block.freq_hz[0];
    msi_gridder_spec spec = spec_of(f, accuracy);
    spec.n_term = N_TERM;
    spec.reference_hz = reference_hz;
    const int n = spec.n_plane * N_TERM, n_psf = 2 * N_TERM - 1, n_chan = f->data.block.n_chan;
    if (!msi_case_serves(&f->data, &spec)) return;
    msi_gridder *g;
    msi_planes *model, *residual, *psf;
    msi_image made;
    check(msi_gridder_create(&g, &spec));
    check(msi_gridder_add(g, &f->data.block));
    check(msi_gridder_planes(g, n, &model));
    check(msi_gridder_planes(g, n, &residual));
    check(msi_gridder_planes(g, n_psf, &psf));
    check(msi_image_alloc(&made, &spec.geometry, n > n_psf ? n : n_psf, msi_gridder_precision(g)));
    upload_terms(f, &spec, msi_gridder_precision(g), model);
    msi_c64 *const vis = f->data.vis, *kept = msi_test_alloc(spec.n_plane * f->n, sizeof *kept);
    memcpy(kept, vis, sizeof *kept * (size_t)(spec.n_plane * f->n));
    for (int with_model = 0; with_model < 2; with_model++) {
        check(msi_gridder_residual(g, with_model ? model : NULL, residual));
        check(msi_planes_fetch(residual, 0, n, made.pixel));
        for (int t = 0; t < N_TERM; t++) {
            for (int64_t i = 0; i < spec.n_plane * f->n; i++) {
                const int p = (int)(i / f->n);
                const double x = f->data.block.freq_hz[i % n_chan] / reference_hz - 1;
                vis[i] = kept[i];
                for (int q = 0; with_model && q < N_TERM; q++) {
                    const msi_c64 m = f->truth[pixels_of_term(f, p, q) * f->n + i % f->n];
                    vis[i].re -= pow(x, q) * term_factor[q] * m.re;
                    vis[i].im -= pow(x, q) * term_factor[q] * m.im;
                }
                vis[i].re *= pow(x, t);
                vis[i].im *= pow(x, t);
            }
            for (int p = 0; p < spec.n_plane; p++) {
                const double error = msi_case_error(&f->data, &made, p * N_TERM + t, p, chosen.brief ? 20 : 60, 5);
                printf("  accuracy %.0e, %s, plane %d, term %d: %.2e\n", accuracy, with_model ? "less a model" : "data",
                       p, t, error);
                assert_true(error <= (with_model ? 1.5 : 1) * accuracy);
            }
        }
    }
    check(msi_gridder_psf(g, psf));
    check(msi_planes_fetch(psf, 0, n_psf, made.pixel));
    for (int k = 0; k < n_psf; k++) {
        for (int64_t i = 0; i < f->n; i++)
            vis[i] = (msi_c64){pow(f->data.block.freq_hz[i % n_chan] / reference_hz - 1, k), 0};
        const double error = msi_case_error(&f->data, &made, k, 0, chosen.brief ? 20 : 60, 5);
        printf("  accuracy %.0e, PSF %d: %.2e\n", accuracy, k, error);
        assert_true(error <= accuracy);
    }
    memcpy(vis, kept, sizeof *kept * (size_t)(spec.n_plane * f->n));
    free(kept);
    msi_planes_free(model);
    msi_planes_free(residual);
    msi_planes_free(psf);
    msi_image_free(&made);
    msi_gridder_free(g);
}

static void test_terms(void **state)
{
    (void)state;
    msi_field f;
    field_make(&f, &cases[0]);
    check_terms(&f, 1e-4);
    if (!chosen.brief) check_terms(&f, 1e-9);
    msi_field_free(&f);
}

/* A gridder without samples makes images of NaN; one that cannot make residuals fails when it is created. */
static void test_refusals(void **state)
{
    (void)state;
    const int64_t in_use = msi_memory_in_use();
    msi_gridder_spec spec = {.geometry = {32, 32, 1e-3, 1e-3},
                             .n_plane = 1,
                             .residual = 1,
                             .strategy = NULL,
                             .accuracy = 1e-2,
                             .backend = chosen.backend};
    msi_gridder *g;
    msi_planes *planes;
    float pixel[32 * 32] = {0};
    check(msi_gridder_create(&g, &spec));
    check(msi_gridder_planes(g, 1, &planes));
    check(msi_gridder_residual(g, NULL, planes));
    check(msi_planes_fetch(planes, 0, 1, pixel));
    for (int i = 0; i < 32 * 32; i++) assert_true(isnan(pixel[i]));
    msi_gridder_free(g);

    spec.method = "wproj";
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_ERANGE);
    assert_string_equal(msi_error_get(), "gridder 'wproj' makes images and predictions, but no residuals");
    spec.method = NULL;
    spec.predict = 1;
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_ERANGE);
    spec.predict = spec.residual = 0;
    check(msi_gridder_create(&g, &spec));
    assert_int_equal(msi_gridder_residual(g, NULL, planes), MSI_EINTERNAL);
    msi_gridder_free(g);
    msi_planes_free(planes);
    assert_true(msi_memory_in_use() == in_use);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_direct_sum), cmocka_unit_test(test_separate_gridders),
                                       cmocka_unit_test(test_calls),      cmocka_unit_test(test_refined),
                                       cmocka_unit_test(test_terms),      cmocka_unit_test(test_refusals)};
    const int rc = msi_case_choose(argc, argv, &chosen);
    return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
